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

// One step as its scan sees it.
struct StepView {
  const GraphView& graph;
  LoopState* state;
  FrontierView current;
  FrontierView next;
  u64 num_vertices;       // in the current queues
  u64 num_continuations;
  u64 error;
};

// Takes up to `batch` work items that nobody else has; false when all `num_items` are taken or the run was stopped.
GPUVM_DEVICE bool take_work(Warp& warp, const StepView& view, u64 num_items, u32 batch, u64& begin, u64& end) {
  u64 first = num_items;
  if (warp.leads() && !is_stopped(view.error))
    first = add_relaxed(&view.state->cursor, batch);
  begin = warp.broadcast(first);
  end = smaller(begin + batch, num_items);
  return begin < num_items;
}

// Calls `body` for every vertex, a lane each.
template <class Body>
GPUVM_DEVICE void for_each_vertex(Warp& warp, const StepView& view, Body body) {
  if (warp.leads()) store_relaxed(&view.state->scan, kScanVertices);
  u64 first, last;
  while (take_work(warp, view, view.graph.num_vertices, 1024, first, last))
    for (u64 v = first + warp.lane; v < last; v += kLanes) body(u32(v));
}

// Adds to the next frontier the vertices of the lanes that found one. One atomic a warp and queue.
GPUVM_DEVICE void push(Warp& warp, const StepView& view, bool found, u32 v) {
  if (!warp.any(found)) return;
  const u64* row_offsets = pointer<const u64>(view.graph.row_offsets);
  const u64 begin = found ? row_offsets[v] : 0, end = found ? row_offsets[v + 1] : 0;
  if (found) {
    ++warp.stats.discovered;
    warp.stats.next_edges += end - begin;
  }
  if (view.next.vertices == 0) return;
  const u32 with_edges = warp.ballot(begin != end);
  u64 slot = 0;
  if (warp.leads() && with_edges != 0) slot = add_relaxed(&view.state->next_vertices, count_bits(with_edges));
  slot = warp.broadcast(slot);
  if (begin == end) return;
  pointer<u32>(view.next.vertices)[slot + count_bits(with_edges & warp.lanes_below())] = v;
  const u64 first_segment = begin >> view.graph.segment_shift, last_segment = (end - 1) >> view.graph.segment_shift;
  if (first_segment == last_segment) return;
  u64 at = add_relaxed(&view.state->next_continuations, last_segment - first_segment);
  for (u64 s = first_segment + 1; s <= last_segment; ++s) pointer<u32>(view.next.continuations)[at++] = u32(s);
}

// Visits edges [begin, end) of row u with the whole warp; `run` starts with edge `begin`.
template <class Visitor>
GPUVM_DEVICE_LOOP void scan_chunk(Warp& warp, const StepView& view, Visitor& visitor, const EdgeRun& run, u32 u,
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
GPUVM_DEVICE void scan_chunks(Warp& warp, const StepView& view, const Edges& edges, Visitor& visitor) {
  const GraphView& graph = view.graph;
  const u64* row_offsets = pointer<const u64>(graph.row_offsets);
  const u64 num_items = view.num_vertices + view.num_continuations;
  // Few items are spread over all warps, since a warp does its items one after the other; of many, a warp takes 16 at
  // a time, since each taking is an atomic on one word.
  const u64 share = num_items / (4 * u64(warp.num_warps));
  const u32 batch = u32(smaller(share + 1, 16));
  u64 item, last;
  while (take_work(warp, view, num_items, batch, item, last)) {
    for (; item < last; ++item) {
      u32 u;
      u64 begin;
      if (item < view.num_vertices) {
        u = pointer<const u32>(view.current.vertices)[item];
        begin = row_offsets[u];
      } else {
        const u64 s = pointer<const u32>(view.current.continuations)[item - view.num_vertices];
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
GPUVM_DEVICE void scan_segments(Warp& warp, const StepView& view, const Edges& edges, Visitor& visitor) {
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
GPUVM_DEVICE void scan_rows(Warp& warp, const StepView& view, const Edges& edges, Visitor& visitor) {
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

// Adds what the lanes of this warp counted in a step to the step's sums.
GPUVM_DEVICE void flush_stats(Warp& warp, LoopState* state) {
  const WarpStats& stats = warp.stats;
  const u64 values[] = {stats.discovered, stats.next_edges, stats.edges,     stats.hits,
                        stats.faults,     stats.coalesced,  stats.evictions, stats.bytes_in};
  u64* const totals[] = {&state->discovered, &state->next_edges, &state->edges,     &state->hits,
                         &state->faults,     &state->coalesced,  &state->evictions, &state->bytes_in};
  for (u32 i = 0; i < sizeof values / sizeof values[0]; ++i)
    if (values[i] != 0) add_relaxed(totals[i], values[i]);
  warp.stats = WarpStats{};
}

template <class Edges, class Visitor>
GPUVM_DEVICE void scan(Warp& warp, const TraversalView& view, const StepView& step, u64 scan, Visitor visitor) {
  const Edges edges(view);
  switch (scan) {
    case kScanRows: scan_rows(warp, step, edges, visitor); break;
    case kScanChunks: scan_chunks(warp, step, edges, visitor); break;
    default: scan_segments(warp, step, edges, visitor); break;
  }
}

// Visits the edges of one step.
template <class Weight, class Visitor>
GPUVM_DEVICE void traverse(Warp& warp, const TraversalView& view, const StepView& step, u64 how, Visitor visitor) {
  if (view.graph.paged)
    scan<PagedEdges<Weight>>(warp, view, step, how, visitor);
  else
    scan<PlainEdges<Weight>>(warp, view, step, how, visitor);
}

// Notes what the step did and sets the next one up. By one lane, when all warps have come to the end of the step.
GPUVM_DEVICE void next_step(const TraversalView& view, LoopState* state, bool goes_on) {
  const u64 now = now_ns();
  StepRecord* record = pointer<StepRecord>(view.records) + smaller(state->step, view.max_records - 1);
  record->frontier += state->frontier;
  record->scan = state->scan;
  record->edges += state->edges;
  record->hits += state->hits;
  record->faults += state->faults;
  record->coalesced += state->coalesced;
  record->evictions += state->evictions;
  record->bytes_in += state->bytes_in;
  record->ns += now - state->started_ns;

  ++state->step;
  state->started_ns = now;
  state->finished = !goes_on;
  state->frontier = state->discovered;
  state->num_vertices = state->next_vertices;
  state->num_continuations = state->next_continuations;
  // A large frontier needs most pages anyway: in address order each is fetched once, in the queue's order again and
  // again, as soon as frames are short.
  const u64 num_items = state->next_vertices + state->next_continuations;
  const bool sparse = state->next_edges < view.dense_edges && num_items < view.dense_items;
  state->scan = view.dense_scan == kScanSegments && sparse ? kScanChunks : view.dense_scan;
  state->total_discovered += state->discovered;
  if (state->discovered != 0) state->last_discovery = state->step;
  state->discovered = state->next_edges = state->edges = state->hits = state->faults = 0;
  state->coalesced = state->evictions = state->bytes_in = 0;
  state->cursor = state->next_vertices = state->next_continuations = 0;
}

// Runs step after step without the host. `step(number, scan, view)` is done by all warps; then the last of them to
// arrive asks `goes_on(number of the next step, its frontier's edges)` and lets the others go. All warps of the grid
// must be running at the same time.
template <class Step, class GoesOn>
GPUVM_DEVICE void run_steps(Warp& warp, const TraversalView& view, Step step, GoesOn goes_on) {
  LoopState* state = pointer<LoopState>(view.state);
  u64 unset = 0;
  if (warp.leads()) compare_exchange_acquire(&state->started_ns, unset, now_ns());
  for (u64 number = 0;; ++number) {
    const StepView now{view.graph,          state,
                       view.frontiers[number % 2], view.frontiers[(number + 1) % 2],
                       state->num_vertices, state->num_continuations,
                       view.error};
    step(u32(number), load_relaxed(&state->scan), now);
    flush_stats(warp, state);
    warp.sync();  // orders what all lanes wrote before the leader's release
    u64 finished = 0;
    if (warp.leads()) {
      const u64 generation = number + 1;
      if (add_acquire_release(&state->arrived, 1) + 1 == generation * warp.num_warps) {
        next_step(view, state, !is_stopped(view.error) && goes_on(u32(number + 1), state->next_edges));
        store_release(&state->generation, generation);
      } else {
        // No watchdog: a step may take long, and every fault in it has its own.
        u32 round = 0;
        while (load_acquire(&state->generation) < generation) pause(round++);
      }
      finished = load_relaxed(&state->finished);
    }
    finished = warp.broadcast(finished);
    warp.sync();  // a shuffle orders no memory: this lets the other lanes read what the leader acquired
    if (finished) return;
  }
}

GPUVM_NAMESPACE_END
