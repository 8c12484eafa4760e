// The three ways to scan edges, and the queues of the next frontier. An algorithm is a visitor:
//
//   bool is_active(u)                      does row u take part? (asked by scans that see every row)
//   u64 begin(u)                           what its visits need of u, read once a chunk
//   u64 look(u, v)                         what a visit needs of v: read for several edges before the first is visited
//   bool visit(u, state, v, seen, run, i)  edge number i of the run leads from u to v; true if v enters the next
//                                          frontier. `state` is what begin(u) gave, or an earlier visit of the lane
//                                          left, and `seen` what look(u, v) gave: others may have changed it since;
//                                          a visit that takes `v` by reference may name another vertex in its place
//
// A chunk is the part of one row inside one segment; kSegment edges from a multiple of kSegment on. The first chunk of
// a row is named by its vertex, each further one by the segment it opens (engine/src/graph/balanced_csr.rs).
#pragma once

#include "paged_slice.cuh"

GPUVM_NAMESPACE_BEGIN

GPUVM_DEVICE u64 smaller(u64 a, u64 b) { return a < b ? a : b; }

// Rows of at most this many edges are visited together, lanes spread over the edges of 32 rows; a longer one has the
// whole warp to itself. A warp of one lane has nothing to spread.
constexpr u64 kShortRow = kLanes == 1 ? 0 : 4 * kLanes;

constexpr u32 kNoVertex = ~u32(0);

// A frontier with at most this many edges is left to one block, unless the step before had more faults than it has
// warps: its warps meet at a barrier of the multiprocessor, all blocks by way of the second-level cache.
constexpr u64 kEdgesOfOneBlock = kLanes == 1 ? 512 : 4 * kLanes * kBlockWarps;

// Where rows begin: u64, or u32 where that is enough and memory is short.
struct RowOffsets {
  u64 address = 0;
  bool narrow = false;

  RowOffsets() = default;
  GPUVM_DEVICE explicit RowOffsets(const GraphView& graph)
      : address(graph.row_offsets), narrow(graph.narrow_offsets != 0) {}
  GPUVM_DEVICE u64 operator[](u64 u) const {
    return narrow ? pointer<const u32>(address)[u] : pointer<const u64>(address)[u];
  }
};

// One step as its scan sees it.
struct StepView {
  const GraphView& graph;
  const Step& step;
  StepCounters* counters;
  FrontierView current;
  FrontierView next;
  u64 error;
  // Those of the edges that the next frontier is queued for, if they are not those of `graph`.
  RowOffsets queue_row_offsets = {};
};

// Work items 0 .. num_items, handed out `batch` at a time. Every warp has its first batch without asking, so that a
// small step costs no atomic on the word that all warps share.
struct WorkItems {
  u64 num_items;
  u32 batch;
  bool first = true;

  // The next batch, which nobody else has; false when all are taken or the run was stopped.
  GPUVM_DEVICE bool take(Warp& warp, const StepView& view, u64& begin, u64& end) {
    const u64 given = u64(warp.num_warps) * batch;
    begin = num_items;
    if (first) {
      begin = u64(warp.warp) * batch;
      first = false;
    } else if (num_items > given) {
      if (warp.leads() && !is_stopped(view.error)) begin = given + add_relaxed(&view.counters->cursor.value, batch);
      begin = warp.broadcast(begin);
    }
    end = smaller(begin + batch, num_items);
    return begin < num_items;
  }
};

// Calls `body(v, true)` for every vertex, a lane each; with false for a lane that has none while others do.
template <class Body>
GPUVM_DEVICE void for_each_vertex(Warp& warp, const StepView& view, Body body) {
  WorkItems work{view.graph.num_vertices, 1024};
  u64 first, last;
  while (work.take(warp, view, first, last))
    for (; first < last; first += kLanes) body(u32(first + warp.lane), first + warp.lane < last);
}

// Calls `body(v, wanted, heads)` for the vertices that have heads and that `wants(v)`, in the order of their addresses, a
// lane kEdgesInFlight of them: bit k of `wanted` tells whether v + k * kLanes is one, and `heads` are the `1 << heads_shift`
// of v, those of the others as much further on. All lanes call `body` together. It may push, and must make room, and waits
// for no page. A page of heads that nobody wants is not touched.
template <class Heads, class Wants, class Body>
GPUVM_DEVICE void scan_heads(Warp& warp, const StepView& view, const GraphView& graph, const Heads& heads, Wants wants,
                             Body body) {
  const u32 shift = heads.run_shift();
  const u64 num_vertices = graph.num_head_vertices;
  WorkItems work{(num_vertices + (u64(1) << shift) - 1) >> shift, 1};
  u64 item, last;
  while (work.take(warp, view, item, last)) {
    const u64 begin = item << shift, end = smaller((item + 1) << shift, num_vertices);
    const u32* run = nullptr;
    for (u64 first = begin; first < end; first += kEdgesInFlight * kLanes) {
      // What tells whether a vertex is wanted is far away: for several before the first is asked for.
      u32 wanted = 0;
      for (u32 k = 0; k < kEdgesInFlight; ++k) {
        const u64 v = first + k * kLanes + warp.lane;
        wanted |= u32(v < end && wants(u32(v))) << k;
      }
      if (!warp.any(wanted != 0)) continue;
      if (run == nullptr) {
        run = heads.acquire(warp, begin);
        if (run == nullptr) return;
      }
      const u64 v = first + warp.lane;
      body(u32(v), wanted, run + ((v - begin) << graph.heads_shift));
    }
    if (run != nullptr) heads.release(warp, begin);
  }
}

// The same, however the arrays of `graph` are reached: `view.graph`, or that of the edges into each vertex.
template <class Wants, class Body>
GPUVM_DEVICE void for_several_heads(Warp& warp, const TraversalView& view, const GraphView& graph, const StepView& step,
                                    Wants wants, Body body) {
  if (graph.paged)
    scan_heads(warp, step, graph, PagedHeads(view, graph), wants, body);
  else
    scan_heads(warp, step, graph, PlainHeads(view, graph), wants, body);
}

// The same with a lane a vertex: `body(v, wanted, heads)`.
template <class Wants, class Body>
GPUVM_DEVICE void for_each_heads(Warp& warp, const TraversalView& view, const GraphView& graph, const StepView& step,
                                 Wants wants, Body body) {
  for_several_heads(warp, view, graph, step, wants, [&](u32 v, u32 wanted, const u32* heads) {
#if defined(__CUDACC_RTC__)
#pragma unroll 1
#endif
    for (u32 k = 0; k < kEdgesInFlight; ++k, wanted >>= 1, v += kLanes, heads += kLanes << graph.heads_shift)
      if (warp.any((wanted & 1) != 0)) body(v, (wanted & 1) != 0, heads);
  });
}

// Adds the numbers of all lanes to sum number `i` of the step.
GPUVM_DEVICE void add_to_sum(Warp& warp, const StepView& view, u32 i, u64 number) {
  number = warp.sum(number);
  if (warp.leads() && number != 0) add_relaxed_only(&view.counters->sums[i].value, number);
}

// Counts the vertices that this warp has pushed and their edges, and queues the segments that their rows open: one
// atomic a row that opens any. A block alone also lists their chunks, whose ends are known here, for its next step, to
// which `slot` says where in the queue they go: that spares it the way over the queue and the row offsets, two of the
// five accesses one after the other that a small step is made of.
GPUVM_DEVICE_LOOP void count_pushed(Warp& warp, const StepView& view, u64 slot) {
  const RowOffsets row_offsets = view.queue_row_offsets.address != 0 ? view.queue_row_offsets : RowOffsets(view.graph);
  const u32* pushed = warp.block->pushed[warp.block_warp];
  if (warp.num_pushed == 0) return;
  const u32 shift = view.graph.segment_shift;
  u64 num_edges = 0;
  for (u32 i = warp.lane; i < warp.num_pushed; i += kLanes) {
    const u64 begin = row_offsets[pushed[i]], end = row_offsets[pushed[i] + 1];
    num_edges += end - begin;
    if (view.step.by_one_block && slot + i < kListedChunks)
      warp.block->listed[(view.step.number + 1) % 2][slot + i] = {
          begin, pushed[i], u32(smaller(end, ((begin >> shift) + 1) << shift) - begin)};
    if (view.next.continuations == 0 || begin == end) continue;
    const u64 first_segment = begin >> shift, last_segment = (end - 1) >> shift;
    if (first_segment == last_segment) continue;
    u64 at = view.step.carried_continuations +
             add_relaxed(&view.counters->next_continuations.value, last_segment - first_segment);
    for (u64 s = first_segment + 1; s <= last_segment; ++s) pointer<u32>(view.next.continuations)[at++] = u32(s);
  }
  num_edges = warp.sum(num_edges);
  if (!warp.leads()) return;
  warp.stats.discovered += warp.num_pushed;
  warp.stats.next_edges += num_edges;
}

// Writes the vertices that this warp has pushed into the queue of the next frontier, from entry `slot` on.
GPUVM_DEVICE void queue_pushed(Warp& warp, const StepView& view, u64 slot) {
  const u32* pushed = warp.block->pushed[warp.block_warp];
  if (view.next.vertices != 0)
    for (u32 i = warp.lane; i < warp.num_pushed; i += kLanes) pointer<u32>(view.next.vertices)[slot + i] = pushed[i];
  warp.num_pushed = 0;
}

// Adds to the next frontier the vertices of the lanes that found one. There is room for kEdgesInFlight pushes until
// the caller must call `make_room`.
GPUVM_DEVICE void push(Warp& warp, bool found, u32 v) {
  const u32 lanes = warp.ballot(found);
  if (found) warp.block->pushed[warp.block_warp][warp.num_pushed + count_bits(lanes & warp.lanes_below())] = v;
  warp.num_pushed += count_bits(lanes);
}

GPUVM_DEVICE void make_room(Warp& warp, const StepView& view) {
  if (warp.num_pushed <= kPushBuffer - kEdgesInFlight * kLanes) return;
  u64 slot = 0;
  if (warp.leads())
    slot = view.step.carried_vertices + add_relaxed(&view.counters->next_vertices.value, warp.num_pushed);
  warp.sync();  // orders the pushes of all lanes before the reads
  if (view.step.by_one_block) slot = warp.broadcast(slot);
  count_pushed(warp, view, slot);
  queue_pushed(warp, view, warp.broadcast(slot));
  warp.sync();  // all have read before the next push
}

// Part of a row: the edges from number `begin` on, `length` of them, the first where `run` starts.
struct Chunk {
  u32 u;
  u64 begin;
  u64 length;
  EdgeRun run;
};

// The chunk of lane `from`, for all lanes.
GPUVM_DEVICE Chunk chunk_of_lane(const Warp& warp, const Chunk& mine, u32 from) {
  const u64 columns = warp.read_lane(reinterpret_cast<u64>(mine.run.columns), from);
  const u64 weights = warp.read_lane(reinterpret_cast<u64>(mine.run.weights), from);
  return {warp.read_lane(mine.u, from), warp.read_lane(mine.begin, from), warp.read_lane(mine.length, from),
          {pointer<const u32>(columns), pointer<const u8>(weights)}};
}

// Visits the edges of one chunk with the whole warp.
template <class Visitor>
GPUVM_DEVICE_LOOP void scan_chunk(Warp& warp, const StepView& view, Visitor& visitor, const Chunk& chunk) {
  u64 state = visitor.begin(chunk.u);
  const u64 num_vertices = view.graph.num_vertices;
  if (warp.leads()) warp.stats.edges += chunk.length;
  for (u64 first = warp.lane; first < chunk.length + warp.lane; first += kEdgesInFlight * kLanes) {
    u32 v[kEdgesInFlight];
    u64 seen[kEdgesInFlight];
    for (u32 k = 0; k < kEdgesInFlight; ++k) {
      const u64 i = first + k * kLanes;
      v[k] = i < chunk.length ? chunk.run.columns[i] : kNoVertex;
    }
    for (u32 k = 0; k < kEdgesInFlight; ++k) seen[k] = v[k] < num_vertices ? visitor.look(chunk.u, v[k]) : 0;
    for (u32 k = 0; k < kEdgesInFlight; ++k) {
      const u64 i = first + k * kLanes;
      bool found = false;
      if (v[k] < num_vertices)
        found = visitor.visit(chunk.u, state, v[k], seen[k], chunk.run, i);
      else if (i < chunk.length)
        report_error(view.error, kErrorColumnOutOfRange, chunk.begin + i, v[k]);
      push(warp, found, v[k]);
    }
    make_room(warp, view);
  }
}

// Visits the edges of the chunks of all lanes, which are short: lane after lane takes the next edge, whosesoever it is,
// so that rows of few edges keep all lanes busy. A lane whose chunk has no edges takes part without one.
template <class Visitor>
GPUVM_DEVICE void scan_short_chunks(Warp& warp, const StepView& view, Visitor& visitor, const Chunk& mine) {
  constexpr u32 kRounds = (kEdgesInFlight + 1) / 2;  // what a lane knows of an edge's chunk takes registers as well
  const u64 num_vertices = view.graph.num_vertices;
  const u64 my_state = mine.length != 0 ? visitor.begin(mine.u) : 0;
  const u32 up_to_mine = warp.prefix_sum(u32(mine.length));
  const u32 total = warp.read_lane(up_to_mine, kLanes - 1);
  if (warp.leads()) warp.stats.edges += total;
  for (u32 first = warp.lane; first < total + warp.lane; first += kRounds * kLanes) {
    u32 u[kRounds], v[kRounds];
    u64 seen[kRounds];
    u32 owner[kRounds], i[kRounds];
    for (u32 k = 0; k < kRounds; ++k) {
      const u32 edge = first + k * kLanes;
      // The owner is the first lane whose edges, with those of the lanes below, are more than `edge`.
      owner[k] = 0;
      for (u32 half = kLanes / 2; half != 0; half /= 2)
        if (warp.read_lane(up_to_mine, owner[k] + half - 1) <= edge) owner[k] += half;
      u[k] = warp.read_lane(mine.u, owner[k]);
      i[k] = edge - warp.read_lane(up_to_mine - u32(mine.length), owner[k]);
      const u32* columns = pointer<const u32>(warp.read_lane(reinterpret_cast<u64>(mine.run.columns), owner[k]));
      v[k] = edge < total ? columns[i[k]] : kNoVertex;
    }
    for (u32 k = 0; k < kRounds; ++k) seen[k] = v[k] < num_vertices ? visitor.look(u[k], v[k]) : 0;
    for (u32 k = 0; k < kRounds; ++k) {
      u64 state = warp.read_lane(my_state, owner[k]);
      const EdgeRun run{nullptr, pointer<const u8>(warp.read_lane(reinterpret_cast<u64>(mine.run.weights), owner[k]))};
      const u64 begin = warp.read_lane(mine.begin, owner[k]);
      bool found = false;
      if (v[k] < num_vertices)
        found = visitor.visit(u[k], state, v[k], seen[k], run, i[k]);
      else if (first + k * kLanes < total)
        report_error(view.error, kErrorColumnOutOfRange, begin + i[k], v[k]);
      push(warp, found, v[k]);
    }
    make_room(warp, view);
  }
}

// Visits the edges of the chunks of all lanes; a lane without one has a chunk of no edges.
template <class Visitor>
GPUVM_DEVICE void scan_chunks_of_lanes(Warp& warp, const StepView& view, Visitor& visitor, const Chunk& mine) {
  if constexpr (kShortRow != 0) {
    const bool is_short = mine.length != 0 && mine.length <= kShortRow;
    if (warp.any(is_short)) {
      Chunk chunk = mine;
      if (!is_short) chunk.length = 0;
      scan_short_chunks(warp, view, visitor, chunk);
    }
  }
  for (u32 lanes = warp.ballot(mine.length > kShortRow); lanes != 0; lanes &= lanes - 1)
    scan_chunk(warp, view, visitor, chunk_of_lane(warp, mine, lowest_bit(lanes)));
}

// Work item `item` of the frontier's queues.
GPUVM_DEVICE Chunk queued_chunk(const Warp& warp, const StepView& view, u64 item) {
  // A step by this block after another one: it has listed the first vertices.
  if (view.step.by_one_block && warp.block->done.by_one_block && item < smaller(view.step.num_vertices, kListedChunks)) {
    const ListedChunk& listed = warp.block->listed[view.step.number % 2][item];
    return {listed.u, listed.begin, listed.length, {nullptr, nullptr}};
  }
  const GraphView& graph = view.graph;
  const RowOffsets row_offsets(graph);
  Chunk chunk{};
  if (item < view.step.num_vertices) {
    chunk.u = pointer<const u32>(view.current.vertices)[item];
    chunk.begin = row_offsets[chunk.u];
  } else {
    const u64 s = pointer<const u32>(view.current.continuations)[item - view.step.num_vertices];
    chunk.u = pointer<const u32>(graph.segment_first_vertex)[s];
    chunk.begin = s << graph.segment_shift;
  }
  const u64 segment_end = ((chunk.begin >> graph.segment_shift) + 1) << graph.segment_shift;
  chunk.length = smaller(row_offsets[chunk.u + 1], segment_end) - chunk.begin;
  return chunk;
}

// How many chunks a warp takes at a time. Few long ones are spread over all warps, since a warp does them one after the
// other; short ones, as many as keep its lanes busy; of many, 32, since each taking is an atomic on one word.
GPUVM_DEVICE u32 batch_of_chunks(const Warp& warp, const Step& step, u64 num_items) {
  // In floats, since a division of 64-bit integers takes as long as a load.
  const f32 items = f32(u32(smaller(num_items, 1 << 24)));
  const f32 spread = items / f32((step.by_one_block ? 1 : 2) * warp.num_warps);
  const f32 filling = f32(kLanes) * items / (f32(step.frontier_edges) + 1);
  const f32 batch = spread < filling ? filling : spread;
  return batch < 31 ? u32(batch) + 1 : 32;
}

// Balanced, sparse: the chunks in the frontier's queues. A lane looks up a chunk and takes a reference to its page if
// it is resident; these chunks are scanned first and their references given back. Then the warp goes through the pages
// of the other chunks, fetching one after the other, with one reference at a time.
template <class Edges, class Visitor>
GPUVM_DEVICE void scan_chunks(Warp& warp, const StepView& view, const Edges& edges, Visitor& visitor) {
  const u64 num_items = view.step.num_vertices + view.step.num_continuations;
  const u32 batch = batch_of_chunks(warp, view.step, num_items);
  // If every warp has but one batch, warp w takes the items w, w + stride, w + 2 stride and so on: items that are
  // neighbours in the queue come from one warp that was late in the step before, often for a page, and may all be late
  // again. (On a grid a level of nine faults took nine times as long as one fault.)
  const bool once = num_items <= u64(batch) * warp.num_warps;
  const u64 stride = once ? (u32(num_items) + batch - 1) / batch : 1;
  WorkItems work{num_items, batch};
  u64 first, last;
  while (work.take(warp, view, first, last)) {
    if (once) {
      first = warp.warp;
      last = num_items;
    }
    for (; first < last; first += kLanes * stride) {
      Chunk mine{};
      const u64 item = first + warp.lane * stride;
      if (item < last) mine = queued_chunk(warp, view, item);
      if (mine.length != 0) mine.run = edges.try_acquire(mine.begin);
      bool is_ready = mine.run.columns != nullptr;
      const bool is_held = is_ready;
      const u32 num_resident = count_bits(warp.ballot(is_ready));
      if (warp.leads()) warp.stats.hits += num_resident * Edges::kPagesOfAnEdge;
      if constexpr (Edges::kReadsLines) {
        const u64 lines = is_ready ? 0 : num_lines(mine.begin, mine.length);
        if (lines != 0 && lines <= edges.max_lines) {
          mine.run = edges.in_host(mine.begin);
          is_ready = true;
        }
        if (warp.any(is_ready && !is_held)) {
          const u64 all = warp.sum(is_ready ? lines : 0);
          if (warp.leads()) warp.stats.bytes_in += all * kLineBytes;
        }
      }
      warp.sync();  // this lets all lanes read what each has acquired
      bool waits = mine.length != 0;
      u64 page_begin = 0;
      for (bool own = true;; own = false) {
        scan_chunks_of_lanes(warp, view, visitor, is_ready ? mine : Chunk{});
        warp.sync();  // all lanes have read before references are given back
        if (!own)
          edges.release(warp, page_begin, 1);
        else if (is_held)
          edges.release_lane(mine.begin);
        waits = waits && !is_ready;
        const u32 lanes = warp.ballot(waits);
        if (lanes == 0) break;
        const u32 shift = view.graph.page_edges_shift;
        page_begin = warp.read_lane(mine.begin, lowest_bit(lanes)) >> shift << shift;
        const EdgeRun run = edges.acquire(warp, page_begin, 1);
        if (run.columns == nullptr) return;
        is_ready = waits && mine.begin >> shift == page_begin >> shift;
        if (is_ready) mine.run = edges.at(run, mine.begin - page_begin);
      }
    }
  }
}

// How many segments a warp takes at a time, in address order: one, or of many a few, since each taking is an atomic on one
// word, but never so many that the last warps have long to go.
GPUVM_DEVICE u32 batch_of_segments(const Warp& warp, u64 num_segments) {
  return u32(smaller(num_segments / (u64(64) * warp.num_warps), 7)) + 1;
}

// The last vertex whose row may have edges in segment `s` of a graph with heads, which end with the last vertex that has any.
GPUVM_DEVICE u64 last_vertex_of_segment(const GraphView& graph, u64 s) {
  return s + 1 < graph.num_segments ? pointer<const u32>(graph.segment_first_vertex)[s + 1]
                                    : graph.num_head_vertices - 1;
}

// The edges of one segment, for a warp that goes through its rows: under one reference to their page, taken when the first
// is wanted; or by lines, if these are few, of a page that is not resident.
template <class Edges>
struct SegmentReader {
  const Edges& edges;
  u64 begin;                      // the segment's first edge
  EdgeRun run{nullptr, nullptr};  // from `begin` on, once it is open
  bool is_held = false;           // `run` is in a page, under a reference
  bool by_lines = false;
  u64 lines = 0;  // read so far

  GPUVM_DEVICE SegmentReader(const Edges& edges, u64 begin) : edges(edges), begin(begin) {}

  // Whether to ask for a plan, by all lanes: of a page that is resident all rows are read there.
  GPUVM_DEVICE bool needs_plan(const Warp& warp) const {
    if constexpr (Edges::kReadsLines)
      return edges.max_lines != 0 && warp.broadcast(u32(edges.is_absent(begin))) != 0;
    return false;
  }

  // Before the rows are gone through, by all lanes: of how many lines each knows that they will be read. False if there are
  // none.
  GPUVM_DEVICE bool plan(const Warp& warp, u64 my_lines) {
    const u64 wanted = warp.sum(my_lines);
    if constexpr (Edges::kReadsLines) by_lines = wanted <= edges.max_lines;
    return wanted != 0;
  }

  // Before edges are read, by all lanes. False if the run was stopped.
  GPUVM_DEVICE bool open(Warp& warp) {
    if (is_held) return true;
    if constexpr (Edges::kReadsLines) {
      if (by_lines && lines <= edges.max_lines) {
        run = edges.in_host(begin);
        return true;
      }
    }
    run = edges.acquire(warp, begin, 1);
    is_held = true;
    return run.columns != nullptr;
  }

  // After each lane read `length` edges from `first` on, or none.
  GPUVM_DEVICE void add_read(Warp& warp, u64 first, u64 length) {
    if (Edges::kReadsLines && !is_held) lines += warp.sum(num_lines(first, length));
  }

  // After the last read.
  GPUVM_DEVICE void close(Warp& warp) {
    if (is_held) edges.release(warp, begin, 1);
    if (warp.leads()) warp.stats.bytes_in += lines * kLineBytes;
  }
};

// Balanced, dense: all segments in address order, so that a page is needed once, under one reference; rows that are
// not active are passed over, and a segment without active rows is never touched.
template <class Edges, class Visitor>
GPUVM_DEVICE void scan_segments(Warp& warp, const StepView& view, const Edges& edges, Visitor& visitor) {
  const GraphView& graph = view.graph;
  const RowOffsets row_offsets(graph);
  WorkItems work{graph.num_segments, batch_of_segments(warp, graph.num_segments)};
  for (u64 s = 0, last = 0; s < last || work.take(warp, view, s, last); ++s) {
    const u64 segment_begin = s << graph.segment_shift;
    const u64 segment_end = smaller(segment_begin + (u64(1) << graph.segment_shift), graph.num_edges);
    // A row for each lane at a time: each asks whether its row is active, then the warp scans the active ones.
    const u64 first_vertex = pointer<const u32>(graph.segment_first_vertex)[s];
    // The part of row u in this segment, if it is active. `more` says whether the row begins before the segment's end.
    auto chunk_of = [&](u64 u, bool& more) {
      Chunk chunk{};
      const bool exists = u < graph.num_vertices;
      // All loads before the first use: a pass that finds little to do waits for nothing else.
      const u64 row_begin = exists ? row_offsets[u] : segment_end;
      const u64 row_end = exists ? row_offsets[u + 1] : segment_end;
      const bool is_active = exists && visitor.is_active(u32(u));
      more = row_begin < segment_end;
      if (more && row_begin != row_end && is_active) {
        chunk.u = u32(u);
        chunk.begin = row_begin < segment_begin ? segment_begin : row_begin;
        chunk.length = smaller(row_end, segment_end) - chunk.begin;
      }
      return chunk;
    };
    SegmentReader<Edges> segment(edges, segment_begin);
    if (segment.needs_plan(warp)) {
      u64 lines = 0;
      bool more = true;
      for (u64 first = first_vertex; warp.any(more); first += kLanes) {
        const Chunk chunk = chunk_of(first + warp.lane, more);
        lines += num_lines(chunk.begin, chunk.length);
      }
      if (!segment.plan(warp, lines)) continue;
    }
    bool more = true;
    for (u64 first = first_vertex; warp.any(more); first += kLanes) {
      Chunk mine = chunk_of(first + warp.lane, more);
      if (!warp.any(mine.length != 0)) continue;
      if (!segment.open(warp)) return;
      if (mine.length != 0) mine.run = edges.at(segment.run, mine.begin - segment_begin);
      scan_chunks_of_lanes(warp, view, visitor, mine);
      segment.add_read(warp, mine.begin, mine.length);
    }
    segment.close(warp);
  }
}

// Naive: a lane a row, over all vertices. The lanes walk their rows page by page: those whose next edge lies in the
// same page go together under one reference each (coalescing), page after page, so that the warp holds one at a time.
template <class Edges, class Visitor>
GPUVM_DEVICE void scan_rows(Warp& warp, const StepView& view, const Edges& edges, Visitor& visitor) {
  const GraphView& graph = view.graph;
  const RowOffsets row_offsets(graph);
  WorkItems work{graph.num_vertices, 256};
  u64 first, last;
  while (work.take(warp, view, first, last)) {
    for (; first < last; first += kLanes) {
      const u64 mine = first + warp.lane;
      const u32 u = u32(mine);
      u64 at = 0, end = 0;
      if (mine < last && visitor.is_active(u)) {
        at = row_offsets[u];
        end = row_offsets[u + 1];
      }
      u64 state = at < end ? visitor.begin(u) : 0;
      for (u32 waiting = warp.ballot(at < end); waiting != 0; waiting = warp.ballot(at < end)) {
        const u64 page = warp.broadcast(at >> graph.page_edges_shift, lowest_bit(waiting));
        const bool together = at < end && at >> graph.page_edges_shift == page;
        const u32 lanes = count_bits(warp.ballot(together));
        const u64 page_begin = page << graph.page_edges_shift;
        const EdgeRun run = edges.acquire(warp, page_begin, lanes);
        if (run.columns == nullptr) return;
        const u64 stop = together ? smaller(end, (page + 1) << graph.page_edges_shift) : at;
        const u64 num_edges = warp.sum(stop - at);
        if (warp.leads()) warp.stats.edges += num_edges;
        while (warp.any(at < stop)) {
          bool found = false;
          u32 v = 0;
          if (at < stop) {
            v = run.columns[at - page_begin];
            if (v < graph.num_vertices)
              found = visitor.visit(u, state, v, visitor.look(u, v), run, at - page_begin);
            else
              report_error(view.error, kErrorColumnOutOfRange, at, v);
            ++at;
          }
          push(warp, found, v);
          make_room(warp, view);
        }
        edges.release(warp, page_begin, lanes);
      }
    }
  }
}

// Sets down in the block's memory what this warp counted.
GPUVM_DEVICE void note_stats(Warp& warp) {
  const WarpStats& stats = warp.stats;
  // By STAT_ constant.
  const u64 values[kNumStats] = {stats.discovered, stats.next_edges, stats.edges,     stats.hits,
                                 stats.faults,     stats.coalesced,  stats.evictions, stats.bytes_in};
  if (warp.leads())
    for (u32 i = 0; i < kNumStats; ++i) warp.block->stats[warp.block_warp][i] = values[i];
  warp.stats = WarpStats{};
}

// Adds what the warps of this block noted to the step's sums, a lane a sum; by one warp, when all have noted.
GPUVM_DEVICE void add_block_stats(const Warp& warp, StepCounters* counters) {
  for (u32 i = warp.lane; i < kNumStats; i += kLanes) {
    u64 sum = 0;
    for (u32 w = 0; w < kBlockWarps; ++w) sum += warp.block->stats[w][i];
    if (sum != 0) add_relaxed_only(&counters->totals[i].value, sum);
  }
}

template <class Edges, class Visitor>
GPUVM_DEVICE void scan(Warp& warp, const StepView& step, const Edges& edges, Visitor visitor) {
  switch (step.step.scan) {
    case kScanRows: scan_rows(warp, step, edges, visitor); break;
    case kScanChunks: scan_chunks(warp, step, edges, visitor); break;
    default: scan_segments(warp, step, edges, visitor); break;
  }
}

// Visits the edges of one step.
template <class Weight, class Visitor>
GPUVM_DEVICE void traverse(Warp& warp, const TraversalView& view, const StepView& step, Visitor visitor) {
  if (step.graph.paged)
    scan(warp, step, PagedEdges<Weight>(view, step.graph, step.step.scan), visitor);
  else
    scan(warp, step, PlainEdges<Weight>(view, step.graph, step.step.scan), visitor);
}

// How a step finds the edges of a frontier. A large one needs most pages anyway: in address order each is fetched once, in
// the queue's order again and again, as soon as frames are short.
GPUVM_DEVICE u64 scan_of_frontier(const TraversalView& view, const Step& step) {
  const bool sparse =
      step.frontier_edges < view.dense_edges && step.num_vertices + step.num_continuations < view.dense_items;
  return view.dense_scan == kScanSegments && sparse ? kScanChunks : view.dense_scan;
}

// The step after `done`, as its counters say: every block works it out by itself, from numbers that no longer change.
template <class GoesOn>
GPUVM_DEVICE Step next_step(const TraversalView& view, const Step& done, const StepCounters* counters, GoesOn goes_on) {
  Step next = done;
  next.number = done.number + 1;
  // All loads before the first use: everyone waits for this.
  const u64 discovered = load_relaxed(&counters->totals[kStatDiscovered].value);
  next.frontier_edges = load_relaxed(&counters->totals[kStatNextEdges].value);
  next.num_vertices = load_relaxed(&counters->next_vertices.value);
  next.num_continuations = load_relaxed(&counters->next_continuations.value);
  const u64 faults = load_relaxed(&counters->totals[kStatFaults].value);
  // Whether the run was stopped is far away for a block alone: it looks now and then.
  const bool stopped = (!done.by_one_block || next.number % 16 == 0) && is_stopped(view.error);
  next.total_discovered = done.total_discovered + discovered;
  if (discovered != 0) next.last_discovery = next.number;
  next.frontier = done.carried_frontier + discovered;
  next.frontier_edges += done.carried_edges;
  next.num_vertices += done.carried_vertices;
  next.num_continuations += done.carried_continuations;
  next.carried_frontier = next.carried_edges = next.carried_vertices = next.carried_continuations = 0;
  next.fetched_pages = done.fetched_pages + faults;
  next.queue = done.queue ^ 1;
  next.scan = scan_of_frontier(view, next);
  next.finished = stopped || !goes_on(next, done, counters);
  // Only then is it certain how the next step scans. A block alone lists the chunks of what it found; what an earlier step
  // of its level has found is not listed.
  next.by_one_block = next.scan == kScanChunks && next.carried_vertices == 0 && next.frontier_edges <= kEdgesOfOneBlock &&
                      next.num_vertices + next.num_continuations <= kEdgesOfOneBlock && faults <= kBlockWarps;
  return next;
}

// Notes what step `done` did. Steps for which there is no record of their own are added up in `rest`, the last. One
// lane does it, while the next step waits for its warp: so all loads come first, and nothing is read from far away.
GPUVM_DEVICE void record_step(const TraversalView& view, const Step& done, const StepCounters* counters, u64 ns,
                              StepRecord& rest) {
  const u64 edges = load_relaxed(&counters->totals[kStatEdges].value);
  const u64 hits = load_relaxed(&counters->totals[kStatHits].value);
  const u64 faults = load_relaxed(&counters->totals[kStatFaults].value);
  const u64 coalesced = load_relaxed(&counters->totals[kStatCoalesced].value);
  const u64 evictions = load_relaxed(&counters->totals[kStatEvictions].value);
  const u64 bytes_in = load_relaxed(&counters->totals[kStatBytesIn].value);
  if (done.number + 1 < view.max_records) {
    pointer<StepRecord>(view.records)[done.number] = {done.frontier, done.scan, edges,    hits, faults,
                                                      coalesced,     evictions, bytes_in, ns};
    return;
  }
  rest.frontier += done.frontier;
  rest.scan = done.scan;
  rest.edges += edges;
  rest.hits += hits;
  rest.faults += faults;
  rest.coalesced += coalesced;
  rest.evictions += evictions;
  rest.bytes_in += bytes_in;
  rest.ns += ns;
}

// Who keeps the records, and since when the step that is under way is.
struct StepRecorder {
  bool records;
  u64 started_ns;

  GPUVM_DEVICE void record(const TraversalView& view, const Step& done, const StepCounters* counters, StepRecord& rest) {
    const u64 now = now_ns();
    record_step(view, done, counters, now - started_ns, rest);
    started_ns = now;
  }
};

// An algorithm that has nothing of its own for a block that goes on alone.
struct NoSmallSteps {
  GPUVM_DEVICE bool operator()(Warp&, StepView&, StepRecorder&) const { return false; }
};

GPUVM_DEVICE void set_to_zero(StepCounters* counters) {
  store_relaxed(&counters->cursor.value, 0);
  store_relaxed(&counters->next_vertices.value, 0);
  store_relaxed(&counters->next_continuations.value, 0);
  store_relaxed(&counters->complement_of_minimum.value, 0);
  store_relaxed(&counters->maximum.value, 0);
  for (SharedCounter& sum : counters->sums) store_relaxed(&sum.value, 0);
  for (SharedCounter& total : counters->totals) store_relaxed(&total.value, 0);
}

GPUVM_DEVICE void set_all_to_zero(StepCounters (&counters)[3]) {
  for (StepCounters& of_step : counters) set_to_zero(&of_step);
}

// Ends a step for this block: queues its last vertices, together, and adds up what its warps counted. The leading warp
// may then read the step's counters.
GPUVM_DEVICE void end_step(Warp& warp, const StepView& step) {
  Block* block = warp.block;
  const bool alone = step.step.by_one_block;
  const bool leads = warp.leads_block() && warp.leads();
  if (warp.leads()) block->num_pushed[warp.block_warp] = warp.num_pushed;
  warp.sync_block();
  u32 before = 0, all = 0;
  for (u32 w = 0; w < kBlockWarps; ++w) {
    before += w < warp.block_warp ? block->num_pushed[w] : 0;
    all += block->num_pushed[w];
  }
  // Where the block's vertices go. If it is alone, all its warps see it: nobody adds to the queue any more.
  u64 slot = 0;
  if (alone)
    slot = load_relaxed(&step.counters->next_vertices.value);
  else if (leads && all != 0)
    slot = step.step.carried_vertices + add_relaxed(&step.counters->next_vertices.value, all);
  count_pushed(warp, step, slot + before);
  note_stats(warp);
  if (leads) block->slot = slot;
  warp.sync_block();
  queue_pushed(warp, step, block->slot + before);
  if (leads && alone) store_relaxed(&step.counters->next_vertices.value, slot + all);
  if (warp.leads_block()) add_block_stats(warp, step.counters);
  // Orders what all warps of the block wrote before what its leader does next: releases it to the grid. Alone it goes on
  // to the next step, whose beginning is another meeting of the block.
  if (alone)
    warp.sync();
  else
    warp.sync_block();
}

// Waits until `expected` blocks have come, all meetings counted; by a block's leader. False if the run was stopped:
// then some may never come. No watchdog: a step may take long, and every fault in it has its own.
GPUVM_DEVICE bool wait_for_blocks(const TraversalView& view, u64 expected) {
  const u64* arrived = &pointer<LoopState>(view.state)->arrived.value;
  for (u32 round = 0; load_relaxed(arrived) < expected; ++round) {
    if (round % 16 == 15 && is_stopped(view.error)) return false;
    pause_shortly(round);
  }
  load_acquire(arrived);  // meets the release of everyone who came
  return true;
}

// Runs step after step without the host. `do_step(warp, view)` is done by all warps of the grid, or, if there is little
// to do, by those of block 0; between two steps `goes_on(next, done, counters)` decides whether there is a next one,
// and may change it. Every block asks it, after a step and while other blocks may be in the next one already, so its
// answer must not depend on what changes there. All blocks of the grid must be running at the same time.
// `small_steps(warp, view, recorder)` may do a step of a block alone and those after it in its own way, up to the end of the
// last, which becomes this step; it says whether it did.
template <class DoStep, class GoesOn, class SmallSteps = NoSmallSteps>
GPUVM_DEVICE void run_steps(Warp& warp, const TraversalView& view, DoStep do_step, GoesOn goes_on,
                            SmallSteps small_steps = {}) {
  LoopState* state = pointer<LoopState>(view.state);
  Block* block = warp.block;
  const bool leads = warp.leads_block() && warp.leads();
  const bool is_first_block = warp.block_number() == 0;
  // The last warp of a block has the least to do in small steps.
  const bool records = is_first_block && warp.block_warp == kBlockWarps - 1 && warp.leads();
  StepRecorder recorder{records, records ? now_ns() : 0};
  if (leads) {
    block->step = state->step;
    block->done = Step{};
  }
  if (records) {
    set_all_to_zero(block->counters);
    block->rest = StepRecord{};
  }
  warp.sync_block();
  for (u64 meetings = 1;; ++meetings) {
    // This step; and after it, if they are small, all up to the next one that is not.
    bool alone = block->step.by_one_block;
    if (is_first_block || !alone) {
      for (bool more = true; more;) {
        const u64 number = block->step.number;
        StepCounters* counters = alone ? block->counters : state->counters;
        StepView step{view.graph,
                      block->step,
                      &counters[number % 3],
                      view.frontiers[block->step.queue],
                      view.frontiers[block->step.queue ^ 1],
                      view.error};
        if (records) set_to_zero(&counters[(number + 1) % 3]);
        Warp acting = alone ? warp.in_its_block() : warp;
        if (!alone || !small_steps(acting, step, recorder)) do_step(acting, step);
        end_step(acting, step);
        bool all_came = true;
        if (leads && !alone) {
          add_acquire_release(&state->arrived.value, 1);
          all_came = wait_for_blocks(view, meetings * warp.num_blocks);
        }
        if (leads) {
          block->done = block->step;
          block->step = next_step(view, block->done, step.counters, goes_on);
          if (!all_came) block->step.finished = 1;
        }
        warp.sync_block();  // what the leader acquired, the whole block may read
        if (records) recorder.record(view, block->done, step.counters, block->rest);
        more = alone && block->step.by_one_block && !block->step.finished;
      }
    }
    if (alone) {
      warp.sync_block();  // all have read the step before their leader changes it
      // The blocks that waited have nothing but this meeting to come to, and come at once; block 0 comes last, with the
      // step that all go on with.
      if (records) set_all_to_zero(block->counters);
      if (leads && is_first_block) {
        if (wait_for_blocks(view, meetings * warp.num_blocks - 1)) {
          set_all_to_zero(state->counters);
          state->step = block->step;
          add_acquire_release(&state->arrived.value, 1);
        } else {
          // Stopped: without this block none of the others goes on.
          block->step.finished = 1;
        }
      } else if (leads) {
        add_acquire_release(&state->arrived.value, 1);
        if (wait_for_blocks(view, meetings * warp.num_blocks))
          block->step = state->step;
        else
          block->step.finished = 1;
      }
      warp.sync_block();
    }
    if (block->step.finished) {
      if (records) {
        if (!alone) state->step = block->step;  // else it is there
        if (block->rest.ns != 0) pointer<StepRecord>(view.records)[view.max_records - 1] = block->rest;
      }
      return;
    }
  }
}

GPUVM_NAMESPACE_END
