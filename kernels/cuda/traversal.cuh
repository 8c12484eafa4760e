// The three ways to scan edges, and the queues of the next frontier. An algorithm is a visitor:
//
//   bool is_active(u)                does row u take part? (asked by scans that see every row)
//   u64 begin(u)                     what a visit needs of u, read once a chunk
//   bool visit(u, state, v, run, i)  edge number i of the run leads from u to v; true if v enters the next frontier
//
// A chunk is the part of one row inside one segment; kSegment edges from a multiple of kSegment on. The first chunk of
// a row is named by its vertex, each further one by the segment it opens (engine/src/graph/balanced_csr.rs).
#pragma once

#include "paged_slice.cuh"

GPUVM_NAMESPACE_BEGIN

GPUVM_DEVICE u64 smaller(u64 a, u64 b) { return a < b ? a : b; }

// Takes up to `batch` work items that nobody else has; false when all `num_items` are taken or the run was stopped.
GPUVM_DEVICE bool take_work(Warp& warp, const TraversalView& view, u64 num_items, u32 batch, u64& begin, u64& end) {
  u64 first = num_items;
  if (warp.leads() && !is_stopped(view.error))
    first = add_relaxed(&pointer<StepCounters>(view.counters)->cursor, batch);
  begin = warp.broadcast(first);
  end = smaller(begin + batch, num_items);
  return begin < num_items;
}

// Adds to the next frontier the vertices of the lanes that found one. One atomic a warp and queue.
GPUVM_DEVICE void push(Warp& warp, const TraversalView& view, bool found, u32 v) {
  const u32 lanes = warp.ballot(found);
  if (lanes == 0) return;
  StepCounters* counters = pointer<StepCounters>(view.counters);
  const u64* row_offsets = pointer<const u64>(view.graph.row_offsets);
  const u64 begin = found ? row_offsets[v] : 0, end = found ? row_offsets[v + 1] : 0;
  if (found) {
    ++warp.stats.discovered;
    warp.stats.next_edges += end - begin;
  }
  if (view.next.vertices == 0) return;
  const u32 with_edges = warp.ballot(begin != end);
  u64 slot = 0;
  if (warp.leads() && with_edges != 0) slot = add_relaxed(&counters->next_vertices, count_bits(with_edges));
  slot = warp.broadcast(slot);
  if (begin == end) return;
  pointer<u32>(view.next.vertices)[slot + count_bits(with_edges & warp.lanes_below())] = v;
  const u64 first_segment = begin >> view.graph.segment_shift, last_segment = (end - 1) >> view.graph.segment_shift;
  if (first_segment == last_segment) return;
  u64 at = add_relaxed(&counters->next_continuations, last_segment - first_segment);
  for (u64 s = first_segment + 1; s <= last_segment; ++s) pointer<u32>(view.next.continuations)[at++] = u32(s);
}

// Visits edges [begin, end) of row u with the whole warp; `run` starts with edge `begin`.
template <class Visitor>
GPUVM_DEVICE void scan_chunk(Warp& warp, const TraversalView& view, Visitor& visitor, const EdgeRun& run, u32 u,
                             u64 begin, u64 end) {
  const u64 state = visitor.begin(u);
  const u64 num_vertices = view.graph.num_vertices;
  if (warp.leads()) warp.stats.edges += end - begin;
  for (u64 i = 0; i < end - begin; i += kLanes) {
    const u64 mine = i + warp.lane;
    bool found = false;
    u32 v = 0;
    if (mine < end - begin) {
      v = run.columns[mine];
      if (v < num_vertices)
        found = visitor.visit(u, state, v, run, mine);
      else
        report_error(view.error, kErrorColumnOutOfRange, begin + mine, v);
    }
    push(warp, view, found, v);
  }
}

// Balanced, sparse: the chunks in the frontier's queues.
template <class Edges, class Visitor>
GPUVM_DEVICE void scan_chunks(Warp& warp, const TraversalView& view, const Edges& edges, Visitor& visitor) {
  const GraphView& graph = view.graph;
  const u64* row_offsets = pointer<const u64>(graph.row_offsets);
  const u64 num_items = view.current.num_vertices + view.current.num_continuations;
  u64 item, last;
  while (take_work(warp, view, num_items, 16, item, last)) {
    for (; item < last; ++item) {
      u32 u;
      u64 begin;
      if (item < view.current.num_vertices) {
        u = pointer<const u32>(view.current.vertices)[item];
        begin = row_offsets[u];
      } else {
        const u64 s = pointer<const u32>(view.current.continuations)[item - view.current.num_vertices];
        u = pointer<const u32>(graph.segment_first_vertex)[s];
        begin = s << graph.segment_shift;
      }
      const u64 segment_end = ((begin >> graph.segment_shift) + 1) << graph.segment_shift;
      const EdgeRun run = edges.acquire(warp, begin, 1);
      if (run.columns == nullptr) return;
      scan_chunk(warp, view, visitor, run, u, begin, smaller(row_offsets[u + 1], segment_end));
      edges.release(warp, begin, 1);
    }
  }
}

// Balanced, dense: all segments in address order, so that a page is needed once, under one reference; rows that are
// not active are passed over, and a segment without active rows is never touched.
template <class Edges, class Visitor>
GPUVM_DEVICE void scan_segments(Warp& warp, const TraversalView& view, const Edges& edges, Visitor& visitor) {
  const GraphView& graph = view.graph;
  const u64* row_offsets = pointer<const u64>(graph.row_offsets);
  u64 s, last;
  while (take_work(warp, view, graph.num_segments, 1, s, last)) {
    const u64 segment_begin = s << graph.segment_shift;
    const u64 segment_end = smaller(segment_begin + (u64(1) << graph.segment_shift), graph.num_edges);
    EdgeRun segment{nullptr, nullptr};
    // A row for each lane at a time: each asks whether its row is active, then the warp scans the active ones in turn.
    for (u64 first = pointer<const u32>(graph.segment_first_vertex)[s];
         first < graph.num_vertices && row_offsets[first] < segment_end; first += kLanes) {
      const u64 mine = first + warp.lane;
      const bool active = mine < graph.num_vertices && row_offsets[mine] < segment_end &&
                          row_offsets[mine] != row_offsets[mine + 1] && visitor.is_active(u32(mine));
      for (u32 lanes = warp.ballot(active); lanes != 0; lanes &= lanes - 1) {
        if (segment.columns == nullptr) {
          segment = edges.acquire(warp, segment_begin, 1);
          if (segment.columns == nullptr) return;
        }
        const u32 u = u32(first) + lowest_bit(lanes);
        const u64 begin = row_offsets[u] < segment_begin ? segment_begin : row_offsets[u];
        scan_chunk(warp, view, visitor, edges.at(segment, begin - segment_begin), u, begin,
                   smaller(row_offsets[u + 1], segment_end));
      }
    }
    if (segment.columns != nullptr) edges.release(warp, segment_begin, 1);
  }
}

// Naive: a lane a row, over all vertices. The lanes walk their rows page by page: those whose next edge lies in the
// same page go together under one reference each (coalescing), page after page, so that the warp holds one at a time.
template <class Edges, class Visitor>
GPUVM_DEVICE void scan_rows(Warp& warp, const TraversalView& view, const Edges& edges, Visitor& visitor) {
  const GraphView& graph = view.graph;
  const u64* row_offsets = pointer<const u64>(graph.row_offsets);
  u64 first, last;
  while (take_work(warp, view, graph.num_vertices, 256, first, last)) {
    for (; first < last; first += kLanes) {
      const u64 mine = first + warp.lane;
      const u32 u = u32(mine);
      u64 at = 0, end = 0;
      if (mine < last && visitor.is_active(u)) {
        at = row_offsets[u];
        end = row_offsets[u + 1];
      }
      const u64 state = at < end ? visitor.begin(u) : 0;
      for (u32 waiting = warp.ballot(at < end); waiting != 0; waiting = warp.ballot(at < end)) {
        const u64 page = warp.broadcast(at >> graph.page_edges_shift, lowest_bit(waiting));
        const bool together = at < end && at >> graph.page_edges_shift == page;
        const u32 lanes = count_bits(warp.ballot(together));
        const u64 page_begin = page << graph.page_edges_shift;
        const EdgeRun run = edges.acquire(warp, page_begin, lanes);
        if (run.columns == nullptr) return;
        const u64 stop = together ? smaller(end, (page + 1) << graph.page_edges_shift) : at;
        warp.stats.edges += stop - at;
        while (warp.any(at < stop)) {
          bool found = false;
          u32 v = 0;
          if (at < stop) {
            v = run.columns[at - page_begin];
            if (v < graph.num_vertices)
              found = visitor.visit(u, state, v, run, at - page_begin);
            else
              report_error(view.error, kErrorColumnOutOfRange, at, v);
            ++at;
          }
          push(warp, view, found, v);
        }
        edges.release(warp, page_begin, lanes);
      }
    }
  }
}

// Adds what the lanes of this warp counted to the step's counters.
GPUVM_DEVICE void flush_stats(Warp& warp, u64 counters_address) {
  StepCounters* counters = pointer<StepCounters>(counters_address);
  const WarpStats& stats = warp.stats;
  const u64 values[] = {stats.discovered, stats.next_edges, stats.edges,     stats.hits,
                        stats.faults,     stats.coalesced,  stats.evictions, stats.bytes_in};
  u64* const totals[] = {&counters->discovered, &counters->next_edges, &counters->edges,     &counters->hits,
                         &counters->faults,     &counters->coalesced,  &counters->evictions, &counters->bytes_in};
  for (u32 i = 0; i < sizeof values / sizeof values[0]; ++i)
    if (values[i] != 0) add_relaxed(totals[i], values[i]);
}

template <class Edges, class Visitor>
GPUVM_DEVICE void scan(Warp& warp, const TraversalView& view, Visitor visitor) {
  const Edges edges(view);
  switch (view.scan) {
    case kScanRows: scan_rows(warp, view, edges, visitor); break;
    case kScanChunks: scan_chunks(warp, view, edges, visitor); break;
    default: scan_segments(warp, view, edges, visitor); break;
  }
  flush_stats(warp, view.counters);
}

template <class Weight, class Visitor>
GPUVM_DEVICE void traverse(Warp& warp, const TraversalView& view, Visitor visitor) {
  if (view.graph.paged)
    scan<PagedEdges<Weight>>(warp, view, visitor);
  else
    scan<PlainEdges<Weight>>(warp, view, visitor);
}

GPUVM_NAMESPACE_END
