// How kernels reach edges: one accessor for arrays read through pages and for arrays that simply are there (resident,
// zero-copy, managed), so that all algorithms run the same text under every access mode.
#pragma once

#include "fault.cuh"

GPUVM_NAMESPACE_BEGIN

// Weights: how many bytes are stored an edge, what an edge weighs, and how a distance goes on over it. A distance is a
// u64: an integer, or the bits of a double that is not negative, which order like the doubles themselves.

struct IntegerDistance {
  // Stops at the largest number.
  GPUVM_DEVICE static u64 sum(u64 a, u64 b) { return a + b < a ? ~u64(0) : a + b; }
  // About.
  GPUVM_DEVICE static f64 to_real(u64 distance) { return f64(distance); }
  GPUVM_DEVICE static u64 from_real(f64 real) { return real < 1.8e19 ? u64(real) : ~u64(0); }
};

struct RealDistance {
  GPUVM_DEVICE static u64 sum(u64 a, u64 b) { return bits_of(double_of(a) + double_of(b)); }
  GPUVM_DEVICE static f64 to_real(u64 distance) { return double_of(distance); }
  GPUVM_DEVICE static u64 from_real(f64 real) { return bits_of(real); }
};

struct UnitWeight : IntegerDistance {
  static constexpr u32 kBytes = 0;
  GPUVM_DEVICE static u64 extend(u64 distance, const u8*, u64, u32, u32) { return distance + 1; }
};

struct HashWeight : IntegerDistance {
  static constexpr u32 kBytes = 0;
  GPUVM_DEVICE static u64 extend(u64 distance, const u8*, u64, u32 u, u32 v) {
    const u32 low = u < v ? u : v, high = u < v ? v : u;
    const u32 mixed = low * 0x9E3779B1u + high * 0x85EBCA77u;
    return distance + 1 + (mixed ^ mixed >> 15) % 255;
  }
};

template <class T>
struct IntegerWeight : IntegerDistance {
  static constexpr u32 kBytes = sizeof(T);
  GPUVM_DEVICE static u64 extend(u64 distance, const u8* weights, u64 i, u32, u32) {
    return distance + reinterpret_cast<const T*>(weights)[i];
  }
};

template <class T>
struct RealWeight : RealDistance {
  static constexpr u32 kBytes = sizeof(T);
  GPUVM_DEVICE static u64 extend(u64 distance, const u8* weights, u64 i, u32, u32) {
    return bits_of(double_of(distance) + f64(reinterpret_cast<const T*>(weights)[i]));
  }
};

// Edges of one page, from the first that was asked for.
struct EdgeRun {
  const u32* columns;  // null if the run was stopped
  const u8* weights;
};

// The same edges from number `i` on.
template <class Weight>
GPUVM_DEVICE EdgeRun run_from(const EdgeRun& run, u64 i) {
  return {run.columns + i, run.weights + i * Weight::kBytes};
}

// Arrays that are all there.
template <class Weight>
struct PlainEdges {
  const u32* columns;
  const u8* weights;

  GPUVM_DEVICE PlainEdges(const TraversalView&, const GraphView& graph, u64)
      : columns(pointer<const u32>(graph.columns.address)), weights(pointer<const u8>(graph.weights.address)) {}

  GPUVM_DEVICE static EdgeRun at(const EdgeRun& run, u64 i) { return run_from<Weight>(run, i); }
  GPUVM_DEVICE EdgeRun acquire(Warp&, u64 first, u32) const { return run_from<Weight>({columns, weights}, first); }
  GPUVM_DEVICE void release(Warp&, u64, u32) const {}
  GPUVM_DEVICE EdgeRun try_acquire(u64 first) const { return run_from<Weight>({columns, weights}, first); }
  GPUVM_DEVICE void release_lane(u64) const {}
  static constexpr u32 kPagesOfAnEdge = 0;
  static constexpr bool kReadsLines = false;
};

// Arrays read through pages. The edges of a run lie in one page of columns and one page of weights: a warp holds the
// first while it faults on the second, never more; try_acquire holds more, but never while it waits.
template <class Weight>
struct PagedEdges {
  static constexpr u32 kPagesOfAnEdge = Weight::kBytes == 0 ? 1 : 2;
  static constexpr bool kReadsLines = false;

  ArrayView columns;
  ArrayView weights;
  Paging paging;

  // For a step that scans in the way of `scan`.
  GPUVM_DEVICE PagedEdges(const TraversalView& view, const GraphView& graph, u64 scan)
      : columns(graph.columns),
        weights(graph.weights),
        paging{graph.page_table, graph.frame_pool, view.error, view.stuck_after_ns,
               scan == kScanChunks ? 0 : graph.frame_pool.num_pinned} {}

  GPUVM_DEVICE static EdgeRun at(const EdgeRun& run, u64 i) { return run_from<Weight>(run, i); }
  GPUVM_DEVICE u64 page_of(const ArrayView& array, u64 at) const {
    return array.first_page + (at >> paging.table.page_shift);
  }
  GPUVM_DEVICE u64 offset_in_page(u64 at) const { return at & ((u64(1) << paging.table.page_shift) - 1); }

  // References by `lanes` lanes to the pages of edge `first`; all lanes call it with the same edge.
  GPUVM_DEVICE EdgeRun acquire(Warp& warp, u64 first, u32 lanes) const {
    const u64 column_at = first * sizeof(u32);
    const u8* column_frame = acquire_page(warp, paging, columns, page_of(columns, column_at), lanes);
    if (column_frame == nullptr) return {nullptr, nullptr};
    const u8* weight_run = nullptr;
    if constexpr (Weight::kBytes != 0) {
      const u64 weight_at = first * Weight::kBytes;
      const u8* weight_frame = acquire_page(warp, paging, weights, page_of(weights, weight_at), lanes);
      if (weight_frame == nullptr) return {nullptr, nullptr};
      weight_run = weight_frame + offset_in_page(weight_at);
    }
    return {reinterpret_cast<const u32*>(column_frame + offset_in_page(column_at)), weight_run};
  }

  GPUVM_DEVICE void release(Warp& warp, u64 first, u32 lanes) const {
    release_page(warp, paging, page_of(columns, first * sizeof(u32)), lanes);
    if constexpr (Weight::kBytes != 0) release_page(warp, paging, page_of(weights, first * Weight::kBytes), lanes);
  }

  // This lane's references to the pages of edge `first`, an edge of its own, if all of them are resident; never waits.
  GPUVM_DEVICE EdgeRun try_acquire(u64 first) const {
    const u64 column_at = first * sizeof(u32);
    const u8* column_frame = try_acquire_page(paging, page_of(columns, column_at));
    if (column_frame == nullptr) return {nullptr, nullptr};
    const u8* weight_run = nullptr;
    if constexpr (Weight::kBytes != 0) {
      const u64 weight_at = first * Weight::kBytes;
      const u8* weight_frame = try_acquire_page(paging, page_of(weights, weight_at));
      if (weight_frame == nullptr) {
        remove_references(paging.table, page_of(columns, column_at), 1);
        return {nullptr, nullptr};
      }
      weight_run = weight_frame + offset_in_page(weight_at);
    }
    return {reinterpret_cast<const u32*>(column_frame + offset_in_page(column_at)), weight_run};
  }

  // Gives back what try_acquire took, after the last read of all lanes.
  GPUVM_DEVICE void release_lane(u64 first) const {
    remove_references(paging.table, page_of(columns, first * sizeof(u32)), 1);
    if constexpr (Weight::kBytes != 0) remove_references(paging.table, page_of(weights, first * Weight::kBytes), 1);
  }
};

// What a load from host memory moves over the link.
constexpr u64 kLineBytes = 128;

// The lines that hold `length` column indices from edge `begin` on.
GPUVM_DEVICE u64 num_lines(u64 begin, u64 length) {
  if (length == 0) return 0;
  return (begin + length - 1) * sizeof(u32) / kLineBytes - begin * sizeof(u32) / kLineBytes + 1;
}

// Column indices read through pages, or, where few are wanted of a page that is not resident, by lines from host memory,
// which must be mapped.
struct LinedEdges : PagedEdges<UnitWeight> {
  static constexpr bool kReadsLines = true;

  // Of a segment at most so many are read before its page is fetched after all; 0 for none.
  u64 max_lines;

  // Half of a segment: a load of half a line takes the link a third longer than its bytes do in a page, and a page that is
  // wanted by halves is soon wanted again.
  GPUVM_DEVICE LinedEdges(const TraversalView& view, const GraphView& graph, u64 scan, u64 by_lines = 0)
      : PagedEdges<UnitWeight>(view, graph, scan),
        max_lines(by_lines != 0 ? (sizeof(u32) << graph.segment_shift) / kLineBytes / 2 : 0) {}

  // Whether nobody has the page of edge `first`, or is about to.
  GPUVM_DEVICE bool is_absent(u64 first) const {
    return page_state(load_relaxed(page_entry(paging.table, page_of(columns, first * sizeof(u32))))) == kPageAbsent;
  }
  GPUVM_DEVICE EdgeRun in_host(u64 first) const { return {pointer<const u32>(columns.address) + first, nullptr}; }
};

// The heads of vertices: a copy of the first `1 << shift` neighbours of each row, kNoVertex where the row has fewer.
// Rows of a vertex number of a power of two follow each other in address order, and none lies in two pages.
struct PlainHeads {
  const u32* heads;
  u32 shift;

  GPUVM_DEVICE PlainHeads(const TraversalView&, const GraphView& graph)
      : heads(pointer<const u32>(graph.heads.address)), shift(graph.heads_shift) {}

  // Binary logarithm of the vertices that come under one reference.
  GPUVM_DEVICE u32 run_shift() const { return 10; }
  // The heads of the vertices from `first` on, a multiple of that many; null if the run was stopped.
  GPUVM_DEVICE const u32* acquire(Warp&, u64 first) const { return heads + (first << shift); }
  GPUVM_DEVICE void release(Warp&, u64) const {}
};

// The same, read through pages: one reference at a time.
struct PagedHeads {
  ArrayView heads;
  Paging paging;
  u32 shift;

  GPUVM_DEVICE PagedHeads(const TraversalView& view, const GraphView& graph)
      : heads(graph.heads),
        paging{graph.page_table, graph.frame_pool, view.error, view.stuck_after_ns, graph.frame_pool.num_pinned},
        shift(graph.heads_shift) {}

  GPUVM_DEVICE u32 run_shift() const {
    const u32 page = paging.table.page_shift - 2 - shift;
    return page < 10 ? page : 10;
  }
  GPUVM_DEVICE u64 page_of(u64 first) const {
    return heads.first_page + (first << (2 + shift) >> paging.table.page_shift);
  }
  GPUVM_DEVICE const u32* acquire(Warp& warp, u64 first) const {
    const u8* frame = acquire_page(warp, paging, heads, page_of(first), 1);
    if (frame == nullptr) return nullptr;
    const u64 in_page = (first << (2 + shift)) & ((u64(1) << paging.table.page_shift) - 1);
    return reinterpret_cast<const u32*>(frame + in_page);
  }
  GPUVM_DEVICE void release(Warp& warp, u64 first) const { release_page(warp, paging, page_of(first), 1); }
};

GPUVM_NAMESPACE_END
