// The structs and packed words that Rust and device code share: src/layout.rs says what each field means, and
// layout_asserts.cuh, written by build.rs, checks that both sides agree on every offset.
#pragma once

// NVRTC brings no standard headers, so the fixed-width integers are spelled out.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

// A thread of the CPU device stands for a warp of GPUVM_LANES lanes: one in the product, 32 in tests. The number is
// part of the namespace, so that both builds can live in one program.
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#define GPUVM_LANES 32
#define GPUVM_DEVICE __device__ __forceinline__
#define GPUVM_DEVICE_LOOP GPUVM_DEVICE
// A function with registers of its own: inlined into a kernel it would take them from loops that need all of theirs.
#define GPUVM_DEVICE_COLD __device__ __noinline__
#else
#ifndef GPUVM_LANES
#define GPUVM_LANES 1
#endif
#define GPUVM_DEVICE inline
#define GPUVM_DEVICE_COLD inline
// A function that keeps its own loop on the CPU: inlined into each scan, the loop over edges took up to 1.4 times as
// long, and not the same for paged and plain edges.
#define GPUVM_DEVICE_LOOP inline __attribute__((noinline))
#endif
#define GPUVM_CONCATENATE_(a, b) a##b
#define GPUVM_CONCATENATE(a, b) GPUVM_CONCATENATE_(a, b)
#define GPUVM_NAMESPACE_BEGIN \
  namespace gpuvm {           \
  inline namespace GPUVM_CONCATENATE(lanes_, GPUVM_LANES) {
#define GPUVM_NAMESPACE_END \
  }                         \
  }

GPUVM_NAMESPACE_BEGIN

// Page entry:  63 62   58       57    56        55 ... 32    31 ... 0
//              state   unused   dirty accessed  references   frame
constexpr u64 kPageAbsent = 0;
constexpr u64 kPageFaulting = 1;
constexpr u64 kPageResident = 2;
constexpr u64 kPageStateShift = 62;
constexpr u64 kPageDirtyBit = u64(1) << 57;
constexpr u64 kPageAccessedBit = u64(1) << 56;
constexpr u64 kPageReferenceShift = 32;
constexpr u64 kPageReferenceMask = u64(0xFFFFFF) << 32;
constexpr u64 kPageFrameMask = 0xFFFFFFFF;

constexpr u64 kPageTableEvicts = 1;
constexpr u64 kPageTableQueues = 2;
constexpr u64 kMaxRegions = 12;
constexpr u64 kEvictionFifo = 0;
constexpr u64 kEvictionClock = 1;
constexpr u64 kNoPage = ~u64(0);

constexpr u64 kErrorStuckFault = 1;
constexpr u64 kErrorNoFreeFrame = 2;
constexpr u64 kErrorColumnOutOfRange = 3;
constexpr u64 kErrorCancelled = 4;
constexpr u64 kErrorElementOutOfRange = 5;
constexpr u64 kErrorStuckRequest = 6;
constexpr u64 kErrorFailedRequest = 7;
constexpr u64 kErrorNicsLost = 8;
constexpr u64 kRequestFrameShift = 32;
constexpr u64 kRequestPairShift = 16;
constexpr u64 kRequestNicShift = 8;

constexpr u64 kWeightUnit = 0;
constexpr u64 kWeightHash = 1;
constexpr u64 kWeightU8 = 2;
constexpr u64 kWeightU16 = 3;
constexpr u64 kWeightU32 = 4;
constexpr u64 kWeightF32 = 5;
constexpr u64 kWeightF64 = 6;

constexpr u64 kCudaBlockWarps = 16;
constexpr u64 kEmulatedBlockWarps = 2;
constexpr u64 kCudaBlocksPerMultiprocessor = 1;

constexpr u64 kScanRows = 0;
constexpr u64 kScanChunks = 1;
constexpr u64 kScanSegments = 2;
constexpr u64 kScanVertices = 3;
constexpr u64 kScanHeads = 4;
constexpr u64 kScanTails = 5;

constexpr u64 kRankShift = 62;

constexpr u64 kPhaseRelax = 0;
constexpr u64 kPhaseBucket = 1;
constexpr u64 kPhaseMeasure = 2;
constexpr u64 kPhaseHeavy = 3;
constexpr u64 kSsspBins = 64;

constexpr u64 kStatDiscovered = 0;
constexpr u64 kStatNextEdges = 1;
constexpr u64 kStatEdges = 2;
constexpr u64 kStatHits = 3;
constexpr u64 kStatFaults = 4;
constexpr u64 kStatCoalesced = 5;
constexpr u64 kStatEvictions = 6;
constexpr u64 kStatBytesIn = 7;
constexpr u64 kStatWaitingEdges = 8;
constexpr u64 kStatWaitingPages = 9;
constexpr u64 kStatWaitingVertices = 10;

struct ErrorSlot {
  u32 code;
  u32 reserved;
  u64 subject;
  u64 detail;
};

struct PageTableView {
  u64 entries;
  u32 flags;
  u32 page_shift;
};

struct FramePoolView {
  u64 frames;
  u64 owners;
  u64 hand;
  u32 num_frames;
  u32 num_pinned;
  u32 policy;
  u32 num_kept;
  u64 first_kept_page;
};

struct FrameRing {
  u64 hand;
  u64 reserved[15];
  u64 queues;
};

struct ArrayView {
  u64 address;
  u64 size_bytes;
  u64 first_page;
};

struct PagingCounters {
  u64 hits;
  u64 faults;
  u64 coalesced;
  u64 evictions;
  u64 bytes_in;
};

struct PagedSliceView {
  ArrayView array;
  PageTableView page_table;
  FramePoolView frame_pool;
  u64 error;
  u64 stuck_after_ns;
  u64 counters;
};

struct GraphView {
  u64 row_offsets;
  u64 segment_first_vertex;
  u64 num_vertices;
  u64 num_edges;
  u64 num_segments;
  u32 segment_shift;
  u32 page_edges_shift;
  u32 weight_type;
  u32 paged;
  ArrayView columns;
  ArrayView weights;
  ArrayView heads;
  u64 num_head_vertices;
  u32 heads_shift;
  u32 narrow_offsets;
  PageTableView page_table;
  FramePoolView frame_pool;
};

struct FrontierView {
  u64 vertices;
  u64 continuations;
};

struct SharedCounter {
  u64 value;
  u64 reserved[15];
};

struct QueuePair {
  u64 send_queue;
  u64 completion_queue;
  u64 doorbell_record;
  u64 doorbell;
  u64 slots;
  u32 number;
  u32 send_shift;
  u32 completion_shift;
  u32 reserved_word;
  u64 reserved[9];
  SharedCounter posted;
  SharedCounter written;
  SharedCounter rung;
  SharedCounter holder;
  SharedCounter doorbells;
};

struct RemoteRegion {
  u64 first_page;
  u64 address;
  u64 size_bytes;
};

struct NicView {
  u32 local_key;
  u32 lost;
  u32 remote_keys[12];
};

struct QueueSet {
  u64 pairs;
  u64 nics;
  u64 frames;
  u64 frames_bytes;
  RemoteRegion regions[12];
  u32 num_regions;
  u32 num_nics;
  u32 pairs_per_nic;
  u32 fault_batch;
};

struct PairProgress {
  u64 taken;
  u64 completed;
};

struct LatencyBuckets {
  u64 counts[32];
};

struct NicState {
  SharedCounter link_free_ns;
  SharedCounter requests;
  SharedCounter bytes;
  SharedCounter taken;
  SharedCounter depth_sum;
  LatencyBuckets latencies[32];
};

struct ServeQueuesArgs {
  u64 queues;
  u64 states;
  u64 progress;
  u64 stop;
  u64 latency_ns;
  u64 ns_per_mib;
};

struct StepCounters {
  SharedCounter cursor;
  SharedCounter next_vertices;
  SharedCounter next_continuations;
  SharedCounter complement_of_minimum;
  SharedCounter maximum;
  SharedCounter sums[2];
  SharedCounter totals[11];
};

struct Step {
  u64 number;
  u64 scan;
  u64 frontier;
  u64 frontier_edges;
  u64 num_vertices;
  u64 num_continuations;
  u64 threshold;
  u64 threshold_before;
  u64 phase;
  u64 band;
  u64 window_begin;
  u64 window_end;
  u64 wide;
  u64 window_edges;
  u64 passed[3];
  u64 push_below;
  u64 pull_above;
  u64 cutoff;
  u64 total_discovered;
  u64 last_discovery;
  u64 level;
  u64 queue;
  u64 carried_vertices;
  u64 carried_continuations;
  u64 carried_frontier;
  u64 carried_edges;
  u64 fetched_pages;
  u64 heads_resident;
  u64 by_one_block;
  u64 by_lines;
  u64 marked_segments;
  u64 finished;
};

struct LoopState {
  SharedCounter arrived;
  StepCounters counters[3];
  Step step;
};

struct StepRecord {
  u64 frontier;
  u64 scan;
  u64 edges;
  u64 hits;
  u64 faults;
  u64 coalesced;
  u64 evictions;
  u64 bytes_in;
  u64 ns;
};

struct TraversalView {
  GraphView graph;
  FrontierView frontiers[2];
  u64 state;
  u64 records;
  u64 max_records;
  u64 error;
  u64 stuck_after_ns;
  u64 dense_edges;
  u64 dense_items;
  u64 dense_scan;
};

struct BfsArgs {
  TraversalView traversal;
  u64 levels;
  u64 parents;
  u64 original_ids;
  u64 num_reachable;
  u32 depth_limit;
  u32 target;
  GraphView incoming;
  u64 always_pulls;
  u64 reads_lines;
  u64 fetch_bytes;
  u64 num_pages;
  u64 num_frames;
  u64 heads_stay;
  u64 heads_are_hubs;
  u64 segment_marks;
};

struct BfsBatchArgs {
  BfsArgs search;
  u64 seen;
  u64 frontier;
  u64 next;
  u64 waiting;
  u64 log;
  u64 log_entries;
  u64 all;
  u64 num_rows;
};

struct SsspArgs {
  TraversalView traversal;
  u64 distances;
  u64 stamps;
  u64 bound;
  u64 limit;
  u64 delta;
  u64 bands;
  u64 num_bands;
  u64 floors[3];
  u64 window;
  u64 wide_edges;
  u64 histograms;
  u64 bins_per_distance;
  u64 sample_mask;
  u64 symmetric;
};

struct SsspParentsArgs {
  TraversalView traversal;
  u64 distances;
  u64 parents;
  u32 source;
  u32 num_bands;
  u64 bands;
  u64 original_ids;
};

struct ComponentsArgs {
  TraversalView traversal;
  u64 labels;
  u32 symmetric;
  u32 heads_stay;
};

struct PageRankArgs {
  TraversalView traversal;
  u64 ranks;
  u64 contributions;
  u64 sums;
  u64 damping;
  u64 tolerance;
  u64 max_iterations;
  u32 symmetric;
  u32 reserved;
};

struct PullArgs {
  u64 host;
  u64 frames;
  u64 size_bytes;
  u64 cursor;
  u32 page_shift;
  u32 reserved;
};

struct GatherArgs {
  u64 entries;
  u64 num_rows;
  u64 rows;
  u64 first_vertex;
  u64 num_vertices;
  u64 answers;
  u64 entry_bytes;
};

GPUVM_NAMESPACE_END
