// A warp, its block, and their collectives. All lanes of a warp call each of them, in the same order: there are no
// partial masks, so the same text is right for a GPU, for the CPU device (one lane: every collective is the identity;
// a block is one warp) and for the emulated blocks of tests (two warps of 32 lanes: fibers of one thread that meet at
// each collective).
#pragma once

#include "sync.cuh"

GPUVM_NAMESPACE_BEGIN

constexpr u32 kLanes = GPUVM_LANES;
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
constexpr u32 kBlockWarps = kCudaBlockWarps;
#elif GPUVM_LANES == 1
constexpr u32 kBlockWarps = 1;
#else
constexpr u32 kBlockWarps = kEmulatedBlockWarps;
#endif

// Counted by the leading lane, added to the counters of the step when it ends.
struct WarpStats {
  u64 discovered = 0;
  u64 next_edges = 0;
  u64 edges = 0;
  u64 hits = 0;
  u64 faults = 0;
  u64 coalesced = 0;
  u64 evictions = 0;
  u64 bytes_in = 0;
};

constexpr u32 kNumStats = sizeof(WarpStats) / sizeof(u64);

// Edges that a lane has under way at a time: its loads of their ends are all issued before the first is waited for. A
// CPU's core overlaps the edges of a plain loop by itself (with four at a time components took 1.3 times as long).
constexpr u32 kEdgesInFlight = kLanes == 1 ? 1 : 4;

// Vertices that a warp found for the next frontier and has not queued yet. Queued one visit at a time, each costs an
// atomic on one word of the grid: 16 million of them took longer than the edges did.
constexpr u32 kPushBuffer = 64 + kEdgesInFlight * kLanes;

// The first chunk of a queued vertex's row (traversal.cuh).
struct ListedChunk {
  u64 begin;
  u32 u;
  u32 length;
};

// Vertices of a queue whose chunks a block that does steps alone keeps at hand: one a thread.
constexpr u32 kListedChunks = 32 * kBlockWarps;

// What a block that goes on alone through small levels of a search finds for a level (bfs.cuh).
struct SmallLevel {
  u32 num_vertices;
  u32 num_edges;  // of their rows
  u32 is_last;    // not 0 if the level after this one, or the end of this one, is for `run_steps`
};

// What the warps of a block share: on a GPU in shared memory.
struct Block {
  u32 pushed[kBlockWarps][kPushBuffer];
  u32 num_pushed[kBlockWarps];
  u64 stats[kBlockWarps][kNumStats];
  u64 slot;                  // in the queue, of the block's last vertices
  StepCounters counters[3];  // of steps by this block alone
  Step step;                 // that all warps are in
  Step done;                 // the one before
  StepRecord rest;           // of the steps that have no record of their own
  ListedChunk listed[2][kListedChunks];  // of the steps by this block alone, even and odd ones in turn
  SmallLevel small[3];                   // by the number of the step modulo 3
};

#if GPUVM_LANES == 32 && !defined(__CUDACC_RTC__) && !defined(__CUDACC__)
// Gives the value of every lane of a warp to every lane, and waits for all lanes of the block; in emulated_warp.cuh.
inline const u64* exchange_between_lanes(void* fibers, u32 fiber, u64 value);
inline void meet_block(void* fibers, u32 fiber);
#endif

struct Warp {
  u32 lane;        // 0 .. kLanes
  u32 warp;        // 0 .. num_warps
  u32 num_warps;   // in the grid
  u32 block_warp;  // 0 .. kBlockWarps
  u32 num_blocks;  // in the grid
  Block* block;
  void* fibers;  // of an emulated block
  WarpStats stats;
  u32 num_pushed = 0;  // entries of the block's `pushed` that are this warp's; the same in all lanes

  GPUVM_DEVICE bool leads() const { return lane == 0; }
  GPUVM_DEVICE bool leads_block() const { return block_warp == 0; }
  GPUVM_DEVICE u32 block_number() const { return warp - block_warp * num_blocks; }

  // The same warp in a grid of its block alone.
  GPUVM_DEVICE Warp in_its_block() const {
    Warp alone = *this;
    alone.warp = block_warp;
    alone.num_warps = kBlockWarps;
    alone.num_blocks = 1;
    return alone;
  }

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
  GPUVM_DEVICE u32 ballot(bool predicate) const { return __ballot_sync(~0u, predicate); }
  // The value of lane `from`, which need not be the same for all lanes.
  GPUVM_DEVICE u64 read_lane(u64 value, u32 from) const { return __shfl_sync(~0u, value, from); }
  GPUVM_DEVICE u32 read_lane(u32 value, u32 from) const { return __shfl_sync(~0u, value, from); }
  GPUVM_DEVICE void sync() const { __syncwarp(); }
  GPUVM_DEVICE void sync_block() const { __syncthreads(); }
#elif GPUVM_LANES == 1
  GPUVM_DEVICE u32 ballot(bool predicate) const { return predicate; }
  GPUVM_DEVICE u64 read_lane(u64 value, u32) const { return value; }
  GPUVM_DEVICE u32 read_lane(u32 value, u32) const { return value; }
  GPUVM_DEVICE void sync() const {}
  GPUVM_DEVICE void sync_block() const {}
#else
  u32 fiber() const { return block_warp * kLanes + lane; }
  GPUVM_DEVICE u32 ballot(bool predicate) const {
    const u64* values = exchange_between_lanes(fibers, fiber(), predicate);
    u32 bits = 0;
    for (u32 i = 0; i < kLanes; ++i) bits |= u32(values[i]) << i;
    return bits;
  }
  GPUVM_DEVICE u64 read_lane(u64 value, u32 from) const { return exchange_between_lanes(fibers, fiber(), value)[from]; }
  GPUVM_DEVICE u32 read_lane(u32 value, u32 from) const { return u32(read_lane(u64(value), from)); }
  GPUVM_DEVICE void sync() const { exchange_between_lanes(fibers, fiber(), 0); }
  GPUVM_DEVICE void sync_block() const { meet_block(fibers, fiber()); }
#endif
  GPUVM_DEVICE u64 broadcast(u64 value, u32 from = 0) const { return read_lane(value, from); }
  GPUVM_DEVICE bool any(bool predicate) const { return ballot(predicate) != 0; }

  // Sum over all lanes, in every lane.
  GPUVM_DEVICE u64 sum(u64 value) const {
    for (u32 distance = kLanes / 2; distance != 0; distance /= 2) value += read_lane(value, lane ^ distance);
    return value;
  }

  GPUVM_DEVICE u32 sum(u32 value) const {
    for (u32 distance = kLanes / 2; distance != 0; distance /= 2) value += read_lane(value, lane ^ distance);
    return value;
  }
  // Sum over the lanes up to this one.
  GPUVM_DEVICE u32 prefix_sum(u32 value) const {
    for (u32 distance = 1; distance < kLanes; distance *= 2) {
      const u32 below = read_lane(value, lane < distance ? lane : lane - distance);
      if (lane >= distance) value += below;
    }
    return value;
  }

  // Lanes below this one.
  GPUVM_DEVICE u32 lanes_below() const { return (u32(1) << lane) - 1; }
};

// The first failure wins; everyone else sees a code that is not 0 and drains.
GPUVM_DEVICE void report_error(u64 slot, u64 code, u64 subject, u64 detail) {
  ErrorSlot* error = pointer<ErrorSlot>(slot);
  if (compare_exchange_relaxed(&error->code, 0, u32(code)) == 0) {
    store_relaxed(&error->subject, subject);
    store_relaxed(&error->detail, detail);
  }
}

GPUVM_DEVICE bool is_stopped(u64 slot) { return load_relaxed(&pointer<ErrorSlot>(slot)->code) != 0; }

// A wait that ends: it gives up when the run was stopped, or reports `code` after too long a time.
struct Wait {
  u64 error;
  u64 stuck_after_ns;
  u64 code;
  u64 subject;
  u64 since_ns = 0;
  u32 round = 0;

  // Waits a little; false if the wait is over in vain.
  GPUVM_DEVICE bool again() {
    if (is_stopped(error)) return false;
    const u64 now = now_ns();
    if (since_ns == 0) since_ns = now;
    if (now - since_ns > stuck_after_ns) {
      report_error(error, code, subject, (now - since_ns) / 1000000);
      return false;
    }
    pause(round++);
    return true;
  }
};

GPUVM_NAMESPACE_END
