// Breadth-first search, in both directions (Beamer, Asanović, Patterson: "Direction-Optimizing Breadth-First Search", SC
// 2012). A step pushes: every edge of the frontier may give its end a level. Or it pulls: every unvisited vertex looks for
// a neighbour in the frontier, among its heads, and a level is complete if that settles all. For the vertices that wait, a
// second step of the level looks at the rest of their rows, or pushes after all, whichever is to fetch less: by then it is
// known how many pages they want.
#pragma once

#include "small_levels.cuh"

GPUVM_NAMESPACE_BEGIN

struct BfsVisitor {
  u32* levels;
  u32* parents;  // null if not asked for
  const u32* original_ids;  // by which parents are called; null where rows are vertices
  u32 level;     // of this step's frontier
  bool exchanges_first;  // few edges: what a visit finds out by its exchange need not be looked up before

  GPUVM_DEVICE bool is_active(u32 u) const { return load_relaxed(&levels[u]) == level; }
  GPUVM_DEVICE u64 begin(u32 u) const { return parents != nullptr && original_ids != nullptr ? original_ids[u] : u; }

  GPUVM_DEVICE u64 look(u32, u32 v) const { return exchanges_first ? kUnreached : load_relaxed(&levels[v]); }

  GPUVM_DEVICE bool visit(u32, u64& id, u32 v, u64 seen, const EdgeRun&, u64) const {
    if (seen == kUnreached) seen = compare_exchange_relaxed(&levels[v], kUnreached, level + 1);
    const bool found = seen == kUnreached;
    // Every edge into the next level offers its parent; the smallest id stays, so that runs agree.
    if (parents != nullptr && (found || seen == level + 1)) min_relaxed(&parents[v], u32(id));
    return found;
  }
};

// Looks for the frontier among neighbours of one vertex, `length` from `columns` on, the first of them edge number `edge`.
// Ends with the first that is there, or a few after it, and counts those looked at.
struct FrontierSearch {
  const u32* levels;
  u32 level;  // of the frontier
  u64 num_vertices;
  u64 error;

  // By one lane, of a row of its own.
  GPUVM_DEVICE bool among(const u32* columns, u64 edge, u64 length, u64& looked) const {
    for (u64 i = 0; i < length; i += kEdgesInFlight) {
      u32 v[kEdgesInFlight];
      u32 seen[kEdgesInFlight];
      for (u32 k = 0; k < kEdgesInFlight; ++k) v[k] = i + k < length ? columns[i + k] : kNoVertex;
      for (u32 k = 0; k < kEdgesInFlight; ++k) seen[k] = v[k] < num_vertices ? load_relaxed(&levels[v[k]]) : kUnreached;
      bool found = false;
      for (u32 k = 0; k < kEdgesInFlight; ++k) {
        if (i + k >= length) break;
        ++looked;
        found |= seen[k] == level;
        if (v[k] >= num_vertices) report_error(error, kErrorColumnOutOfRange, edge + i + k, v[k]);
      }
      if (found) return true;
    }
    return false;
  }

  // By all lanes, of one row.
  GPUVM_DEVICE bool among(const Warp& warp, const u32* columns, u64 edge, u64 length, u64& looked) const {
    for (u64 first = warp.lane; first < length + warp.lane; first += kEdgesInFlight * kLanes) {
      u32 v[kEdgesInFlight];
      u32 seen[kEdgesInFlight];
      for (u32 k = 0; k < kEdgesInFlight; ++k) {
        const u64 i = first + k * kLanes;
        v[k] = i < length ? columns[i] : kNoVertex;
      }
      for (u32 k = 0; k < kEdgesInFlight; ++k) seen[k] = v[k] < num_vertices ? load_relaxed(&levels[v[k]]) : kUnreached;
      bool found = false;
      for (u32 k = 0; k < kEdgesInFlight; ++k) {
        const u64 i = first + k * kLanes;
        if (i >= length) continue;
        ++looked;
        found |= seen[k] == level;
        if (v[k] >= num_vertices) report_error(error, kErrorColumnOutOfRange, edge + i, v[k]);
      }
      if (warp.any(found)) return true;
    }
    return false;
  }
};

GPUVM_DEVICE FrontierSearch search_of_step(const BfsArgs& args, const StepView& view) {
  return {pointer<const u32>(args.levels), u32(view.step.level), args.traversal.graph.num_vertices, view.error};
}

// What the segments of a level that vertices wait in are marked with.
GPUVM_DEVICE u32 mark_of_level(u64 level) { return u32(level) + 1; }

// Marks the segments of the edges from `begin` to before `end`.
GPUVM_DEVICE void mark_segments(const BfsArgs& args, const StepView& view, u64 begin, u64 end) {
  const u32 shift = args.incoming.segment_shift;
  for (u64 s = begin >> shift; s <= (end - 1) >> shift; ++s)
    store_relaxed(&pointer<u32>(args.segment_marks)[s], mark_of_level(view.step.level));
}

// Bottom-up over heads: unvisited vertices with a head in the frontier enter the next level. Of the others it marks the
// segments beyond their heads, and counts these edges and their pages: the vertices are in address order, so a page that is
// the last of one row and the first of the next counts once.
// A function of its own, with registers of its own, for what a lane does for several vertices at once.
GPUVM_DEVICE_COLD void pull_heads(Warp& outer, const BfsArgs& args, const StepView& view) {
  constexpr u32 kVertices = kEdgesInFlight;
  // At once, as many as there are unless somebody asks for more; a thread of the CPU device has done with most vertices after
  // the first.
  constexpr u32 kHeads = kLanes == 1 ? 1 : 2;
  Warp warp = outer;
  u32* levels = pointer<u32>(args.levels);
  const GraphView& graph = args.incoming;
  const u64* row_offsets = pointer<const u64>(graph.row_offsets);
  const FrontierSearch search = search_of_step(args, view);
  const u32 num_heads = u32(1) << graph.heads_shift;
  const u32 page_shift = graph.page_edges_shift;
  u64 looked = 0, waiting_edges = 0, waiting_pages = 0, waiting_vertices = 0, last_page = kNoPage;
  for_several_heads(
      warp, args.traversal, graph, view, [&](u32 v) { return load_relaxed(&levels[v]) == kUnreached; },
      [&](u32 v, u32 wanted, const u32* heads) {
        u32 found = 0, unsettled = wanted;  // a bit a vertex; it is settled if found, or if it has no more heads
        for (u32 first = 0; first < num_heads && warp.any(unsettled != 0); first += kHeads) {
          u32 head[kVertices][kHeads], seen[kVertices][kHeads];
          for (u32 k = 0; k < kVertices; ++k)
            for (u32 i = 0; i < kHeads; ++i)
              head[k][i] = (unsettled >> k & 1) != 0 && first + i < num_heads
                               ? heads[(u64(k * kLanes) << graph.heads_shift) + first + i]
                               : kNoVertex;
          for (u32 k = 0; k < kVertices; ++k)
            for (u32 i = 0; i < kHeads; ++i)
              seen[k][i] = head[k][i] < search.num_vertices ? load_relaxed(&levels[head[k][i]]) : kUnreached;
          for (u32 k = 0; k < kVertices; ++k)
            for (u32 i = 0; i < kHeads && first + i < num_heads; ++i) {
              if (head[k][i] == kNoVertex) {
                unsettled &= ~(u32(1) << k);
                continue;
              }
              ++looked;
              if (seen[k][i] == search.level) found |= u32(1) << k;
              if (head[k][i] >= search.num_vertices)
                report_error(search.error, kErrorColumnOutOfRange, row_offsets[v + k * kLanes] + first + i, head[k][i]);
            }
          unsettled &= ~found;
        }
        // Where a row begins is only asked for rows that may go on: one access less, of four, one after the other.
        u64 begin[kVertices], end[kVertices];
        for (u32 k = 0; k < kVertices; ++k) {
          const bool asks = (unsettled >> k & 1) != 0;
          begin[k] = asks ? row_offsets[v + k * kLanes] + num_heads : 0;
          end[k] = asks ? row_offsets[v + k * kLanes + 1] : 0;
        }
        for (u32 k = 0; k < kVertices; ++k) {
          const bool is_found = (found >> k & 1) != 0;
          if (is_found) store_relaxed(&levels[v + k * kLanes], search.level + 1);
          push(warp, is_found, v + k * kLanes);
        }
        make_room(warp, view);
        for (u32 k = 0; k < kVertices; ++k) {
          const bool waits = begin[k] < end[k];
          const u32 waiting = warp.ballot(waits);
          if (waiting == 0) continue;
          const u64 my_first = begin[k] >> page_shift, my_last = (end[k] - 1) >> page_shift;
          const u32 below = waiting & warp.lanes_below();
          const u64 of_lane_below = warp.read_lane(my_last, below != 0 ? highest_bit(below) : 0);
          const u64 before = below != 0 ? of_lane_below : last_page;
          if (waits) {
            ++waiting_vertices;
            waiting_edges += end[k] - begin[k];
            waiting_pages += my_last - my_first + (before == my_first ? 0 : 1);
            mark_segments(args, view, begin[k], end[k]);
          }
          last_page = warp.read_lane(my_last, highest_bit(waiting));
        }
      });
  looked = warp.sum(looked);
  waiting_edges = warp.sum(waiting_edges);
  waiting_pages = warp.sum(waiting_pages);
  waiting_vertices = warp.sum(waiting_vertices);
  if (warp.leads()) warp.stats.edges += looked;
  if (warp.leads() && waiting_edges != 0) {
    add_relaxed_only(&view.counters->totals[kStatWaitingEdges].value, waiting_edges);
    add_relaxed_only(&view.counters->totals[kStatWaitingPages].value, waiting_pages);
    add_relaxed_only(&view.counters->totals[kStatWaitingVertices].value, waiting_vertices);
  }
  outer = warp;
}

// The part of `pull_tails` in segment `s`: false if the run was stopped.
template <class Edges>
GPUVM_DEVICE bool pull_segment(Warp& warp, const BfsArgs& args, const StepView& view, const Edges& edges, u64 s,
                               u64& looked) {
  u32* levels = pointer<u32>(args.levels);
  const GraphView& graph = args.incoming;
  const u64* row_offsets = pointer<const u64>(graph.row_offsets);
  const FrontierSearch search = search_of_step(args, view);
  const u64 num_heads = u64(1) << graph.heads_shift;
  const u64 segment_begin = s << graph.segment_shift;
  const u64 segment_end = smaller(segment_begin + (u64(1) << graph.segment_shift), graph.num_edges);
  const u64 first_vertex = pointer<const u32>(graph.segment_first_vertex)[s];
  const u64 last_vertex = last_vertex_of_segment(graph, s);
  // The edges of vertex v in this segment, if it waits, from `begin` on.
  auto waiting_of = [&](u64 v, u64& begin) {
    if (v > last_vertex) return u64(0);
    // All loads before the first use: a step that finds little waits for nothing else.
    const u32 level = load_relaxed(&levels[v]);
    begin = row_offsets[v] + num_heads;
    const u64 end = smaller(row_offsets[v + 1], segment_end);
    if (begin < segment_begin) begin = segment_begin;
    return begin < end && level == kUnreached ? end - begin : 0;
  };
  SegmentReader<Edges> segment(edges, segment_begin);
  if (segment.needs_plan(warp)) {
    // A short row is read by one lane up to the first that it finds, mostly in its first line.
    u64 lines = 0;
    for (u64 first = first_vertex; first <= last_vertex; first += kLanes) {
      u64 begin = 0;
      const u64 length = waiting_of(first + warp.lane, begin);
      lines += length > kShortRow && kShortRow != 0 ? num_lines(begin, length) : length != 0;
    }
    if (!segment.plan(warp, lines)) return true;
  }
  for (u64 first = first_vertex; first <= last_vertex; first += kLanes) {
    const u64 v = first + warp.lane;
    u64 begin = 0;
    const u64 length = waiting_of(v, begin);
    if (!warp.any(length != 0)) continue;
    if (!segment.open(warp)) return false;
    const bool is_long = kShortRow != 0 && length > kShortRow;
    const u64 looked_before = looked;
    bool found = !is_long && search.among(segment.run.columns + (begin - segment_begin), begin, length, looked);
    segment.add_read(warp, begin, is_long ? length : looked - looked_before);
    for (u32 lanes = warp.ballot(is_long); lanes != 0; lanes &= lanes - 1) {
      const u32 lane = lowest_bit(lanes);
      const u64 row_begin = warp.read_lane(begin, lane), row_length = warp.read_lane(length, lane);
      const bool has =
          search.among(warp, segment.run.columns + (row_begin - segment_begin), row_begin, row_length, looked);
      if (warp.lane == lane) found = has;
    }
    // The warps of a row's other segments may have found it, too.
    found = found && compare_exchange_relaxed(&levels[v], kUnreached, search.level + 1) == kUnreached;
    push(warp, found, u32(v));
    make_room(warp, view);
  }
  segment.close(warp);
  return true;
}

// Calls `body(s)` for the segments that are marked for this level, up to the first for which it is false.
template <class Body>
GPUVM_DEVICE void for_each_marked_segment(Warp& warp, const BfsArgs& args, const StepView& view, Body body) {
  const u64 num_segments = args.incoming.num_segments;
  const u32* marks = pointer<const u32>(args.segment_marks);
  // The lanes look at a segment each, so many that about two are marked. Marked ones lie close together, in degree order: the
  // lanes' are far apart, so that no warp comes upon many. (With neighbours 32 in a row went to one warp, which took 1.3 ms
  // for them where the others had done with theirs in 0.2.)
  const u64 lanes = smaller(2 * num_segments / (view.step.marked_segments + 1) + 1, kLanes);
  const u64 stride = (num_segments + lanes - 1) / lanes;
  WorkItems work{stride, batch_of_segments(warp, stride)};
  for (u64 item = 0, last = 0; item < last || work.take(warp, view, item, last); ++item) {
    const u64 mine = item + warp.lane * stride;
    const bool is_marked =
        warp.lane < lanes && mine < num_segments && load_relaxed(&marks[mine]) == mark_of_level(view.step.level);
    for (u32 marked = warp.ballot(is_marked); marked != 0; marked &= marked - 1)
      if (!body(item + lowest_bit(marked) * stride)) return;
  }
}

// Bottom-up over the edges beyond the heads, of vertices that are still unvisited: the segments that are marked, so that all
// vertices that want a page share it.
template <class Edges>
GPUVM_DEVICE void pull_tails(Warp& warp, const BfsArgs& args, const StepView& view, const Edges& edges) {
  u64 looked = 0;
  for_each_marked_segment(warp, args, view, [&](u64 s) { return pull_segment(warp, args, view, edges, s, looked); });
  looked = warp.sum(looked);
  if (warp.leads()) warp.stats.edges += looked;
}

// Bottom-up beyond the heads. A function of its own, with registers of its own: inlined, it had the
// kernel spill 718 bytes a thread instead of 328 (sm_90).
GPUVM_DEVICE_COLD void pull_rest(Warp& outer, const BfsArgs& args, const StepView& view) {
  Warp warp = outer;
  if (args.incoming.paged)
    pull_tails(warp, args, view, LinedEdges(args.traversal, args.incoming, kScanTails, view.step.by_lines));
  else
    pull_tails(warp, args, view, PlainEdges<UnitWeight>(args.traversal, args.incoming, kScanTails));
  outer = warp;
}

// What a step costs, in edges: those it looks at, and the bytes it is to fetch, two an edge, which a link moves about as
// fast as a GPU visits edges.
constexpr u64 kBytesOfAnEdge = 2;

// The share of pages that are not resident, about.
GPUVM_DEVICE f32 absent_share(const BfsArgs& args, const Step& step) {
  const f32 resident = f32(smaller(step.fetched_pages, args.num_frames));
  return args.num_pages == 0 ? 0.0f : 1.0f - resident / f32(args.num_pages);
}

// Bytes that reading so many pages is to fetch: pages that are resident are free.
GPUVM_DEVICE u64 bytes_to_fetch(const BfsArgs& args, const Step& step, u64 pages) {
  return u64(f32(pages) * absent_share(args, step)) * args.fetch_bytes;
}

// What `pieces` of `bytes` in all take of the link by lines, in bytes: a line more than they fill, each, in address order;
// from random places of a large memory, whose addresses are translated 41 million times a second, as long as 1.2 KB.
GPUVM_DEVICE u64 bytes_of_lines(const BfsArgs& args, const Step& step, bool in_order, u64 pieces, u64 bytes) {
  constexpr u64 kTranslation = 1240;
  return u64(absent_share(args, step) * (f32(pieces) * f32(in_order ? kLineBytes : kTranslation) + f32(bytes)));
}

// Whether a push goes through all segments if it reads lines. In that order no line waits for its address to be translated,
// so the look at all rows pays for smaller frontiers than with pages.
GPUVM_DEVICE bool pushes_in_order(const BfsArgs& args, const Step& step) {
  return scan_of_frontier(args.traversal, step) != kScanChunks ||
         step.num_vertices + step.num_continuations >= args.traversal.graph.num_segments / 8;
}

// All edges of the frontier, in bytes: a chunk touches a page, and all touch no more than there are.
GPUVM_DEVICE u64 push_by_pages(const BfsArgs& args, const Step& step) {
  const GraphView& graph = args.traversal.graph;
  return bytes_to_fetch(args, step, smaller(step.num_vertices + step.num_continuations,
                                            (graph.num_edges >> graph.page_edges_shift) + 1));
}

// The same by lines, as long as the frontier grows or the levels are few: then it comes back to a page by chance alone, or
// not often. In a search of long diameter the next level wants what lies beside: there a page is fetched once, and its lines
// would be many times.
GPUVM_DEVICE u64 push_by_lines(const BfsArgs& args, const Step& step) {
  const u64 discovered = step.total_discovered - step.carried_frontier;  // up to the frontier's level
  if (!args.reads_lines || (step.level >= kFewLevels && 4 * step.frontier < discovered)) return ~u64(0);
  return bytes_of_lines(args, step, pushes_in_order(args, step), step.num_vertices + step.num_continuations,
                        step.frontier_edges * sizeof(u32));
}

GPUVM_DEVICE bool pushes_by_lines(const BfsArgs& args, const Step& step) {
  return push_by_lines(args, step) < push_by_pages(args, step);
}

GPUVM_DEVICE u64 cost_of_push(const BfsArgs& args, const Step& step) {
  return step.frontier_edges + smaller(push_by_pages(args, step), push_by_lines(args, step)) / kBytesOfAnEdge;
}

// Has a step push its frontier.
GPUVM_DEVICE void plan_push(const BfsArgs& args, Step& step) {
  step.by_lines = pushes_by_lines(args, step);
  step.scan = step.by_lines && pushes_in_order(args, step) ? args.traversal.dense_scan
                                                           : scan_of_frontier(args.traversal, step);
}

// Visits the edges of such a step.
template <class Visitor>
GPUVM_DEVICE void push_frontier(Warp& warp, const TraversalView& view, const StepView& step, const Visitor& visitor) {
  if (step.graph.paged)
    scan(warp, step, LinedEdges(view, step.graph, step.step.scan, step.step.by_lines), visitor);
  else
    scan(warp, step, PlainEdges<UnitWeight>(view, step.graph, step.step.scan), visitor);
}

// Vertices with heads that are unvisited, at most.
GPUVM_DEVICE u64 num_unvisited(const BfsArgs& args, const Step& step) {
  return smaller(args.incoming.num_head_vertices, args.num_reachable - 1 - step.total_discovered);
}

// The heads of all vertices that are unvisited; and every vertex is asked whether it is.
GPUVM_DEVICE u64 cost_of_heads(const BfsArgs& args, const Step& step) {
  const GraphView& graph = args.incoming;
  const u64 unvisited = num_unvisited(args, step);
  const u64 bytes = args.fetch_bytes == 0 || step.heads_resident ? 0 : graph.heads.size_bytes;
  return (unvisited << graph.heads_shift) + graph.num_head_vertices / 8 + bytes / kBytesOfAnEdge;
}

// The same for a step as long as levels are small: pages that are fetched meanwhile only make pushes cheaper.
GPUVM_DEVICE PushBound push_bound(const BfsArgs& args, const Step& step) {
  const u64 bytes = args.fetch_bytes == 0 || step.heads_resident ? 0 : args.incoming.heads.size_bytes;
  return {bytes_to_fetch(args, step, 1 << 20) / (kBytesOfAnEdge << 20) + 1, u64(1) << args.incoming.heads_shift,
          args.incoming.num_head_vertices / 8 + bytes / kBytesOfAnEdge, args.incoming.num_head_vertices};
}

// Vertices that wait for a step beyond their heads.
struct Waiting {
  u64 edges, pages, vertices;

  GPUVM_DEVICE static Waiting counted(const StepCounters* counters) {
    return {load_relaxed(&counters->totals[kStatWaitingEdges].value),
            load_relaxed(&counters->totals[kStatWaitingPages].value),
            load_relaxed(&counters->totals[kStatWaitingVertices].value)};
  }

  // The segments that they wait in, at most.
  GPUVM_DEVICE u64 segments(const GraphView& graph) const {
    return smaller(pages << (graph.page_edges_shift - graph.segment_shift), graph.num_segments);
  }
};

// Their rows, by pages or by lines, and the rows beside them in their segments. On average half a row is read until a
// neighbour in the frontier ends it.
GPUVM_DEVICE u64 cost_of_tails(const BfsArgs& args, const Step& step, const Waiting& waiting) {
  const GraphView& graph = args.incoming;
  u64 bytes = bytes_to_fetch(args, step, waiting.pages);
  if (args.reads_lines)
    bytes = smaller(bytes, bytes_of_lines(args, step, true, waiting.vertices, waiting.edges / 2 * sizeof(u32)));
  u64 rows = graph.num_head_vertices;
  if (graph.num_segments != 0)
    rows = smaller(rows, u64(f32(waiting.segments(graph)) * (f32(rows) / f32(graph.num_segments))) + graph.num_segments / 8);
  return waiting.edges / 2 + rows / 4 + bytes / kBytesOfAnEdge;
}

// The rest of a level, once the heads are read, in the cheaper of two ways.
GPUVM_DEVICE u64 cost_of_rest(const BfsArgs& args, const Step& step, u64 push, const Waiting& waiting) {
  return smaller(push, cost_of_tails(args, step, waiting));
}

// A level by heads first, where a push costs `push`. Where heads are hubs, how many of them are in the frontier is not known
// before; that few are is found out once, and those that stay are wanted sooner or later. Else a neighbour is as often in
// the frontier as an edge leaves it: that says how many vertices will wait, and what their rows are to cost, or the push.
GPUVM_DEVICE u64 cost_of_pull(const BfsArgs& args, const Step& step, u64 push) {
  const GraphView& graph = args.incoming;
  const u64 heads = cost_of_heads(args, step);
  if (args.heads_are_hubs || heads >= push) return heads;
  const f32 edges = f32(graph.num_edges), share = f32(step.frontier_edges) / edges;
  f32 waiting = f32(num_unvisited(args, step));
  for (u32 i = 0; i >> graph.heads_shift == 0; ++i) waiting *= share < 1 ? 1 - share : 0;
  const u64 pages = smaller(u64(waiting), (graph.num_edges >> graph.page_edges_shift) + 1);
  const u64 waiting_edges = u64(waiting * (edges / f32(graph.num_head_vertices)));
  return heads + cost_of_rest(args, step, push, {waiting_edges, pages, u64(waiting)});
}

// Has a step go over the tails: by lines even if pages are cheaper for all, since vertices that wait are crowded in some
// pages, and few in most.
GPUVM_DEVICE void plan_tails(const BfsArgs& args, Step& step) {
  step.scan = kScanTails;
  step.by_lines = args.reads_lines;
}

// How the rest of a level is found, once the heads are read.
GPUVM_DEVICE void plan_rest(const BfsArgs& args, Step& step, const Waiting& waiting) {
  if (!args.always_pulls && cost_of_push(args, step) <= cost_of_tails(args, step, waiting)) return plan_push(args, step);
  plan_tails(args, step);
  step.marked_segments = waiting.segments(args.incoming);
}

// Whether there is a step after `done`; `next` is the one that pushes the next level, or becomes another.
GPUVM_DEVICE bool next_bfs_step(const BfsArgs& args, Step& next, const Step& done, const StepCounters* counters) {
  next.last_discovery = next.total_discovered == done.total_discovered ? done.last_discovery : done.level + 1;
  if (done.scan == kScanHeads) next.heads_resident = args.heads_stay;
  if (1 + next.total_discovered >= args.num_reachable) return false;
  if (done.scan == kScanHeads && load_relaxed(&counters->totals[kStatWaitingEdges].value) != 0) {
    // The level goes on: the same frontier, and what was found is kept.
    Step rest = done;
    rest.number = next.number;
    rest.total_discovered = next.total_discovered;
    rest.last_discovery = next.last_discovery;
    rest.fetched_pages = next.fetched_pages;
    rest.heads_resident = next.heads_resident;
    rest.carried_frontier = next.frontier;
    rest.carried_edges = next.frontier_edges;
    rest.carried_vertices = next.num_vertices;
    rest.carried_continuations = next.num_continuations;
    plan_rest(args, rest, Waiting::counted(counters));
    next = rest;
    return true;
  }
  next.level = done.level + 1;
  // The target's level may be changing while this is asked, but then to a larger one than the next step's.
  if (next.frontier_edges == 0 || next.level >= args.depth_limit ||
      (args.target != kUnreached && load_relaxed(&pointer<const u32>(args.levels)[args.target]) <= next.level))
    return false;
  plan_push(args, next);
  if (args.incoming.num_head_vertices != 0) {
    const u64 push = cost_of_push(args, next);
    if (args.always_pulls || cost_of_pull(args, next, push) < push) next.scan = kScanHeads;
  }
  return true;
}

GPUVM_DEVICE void bfs(Warp& warp, const BfsArgs& args) {
  u32* levels = pointer<u32>(args.levels);
  run_steps(
      warp, args.traversal,
      [&](Warp& warp, const StepView& view) {
        // A copy: what a function that is not inlined is given the address of lives in memory.
        Warp acting = warp;
        switch (view.step.scan) {
          case kScanHeads:
            pull_heads(acting, args, view);
            warp = acting;
            break;
          case kScanTails:
            pull_rest(acting, args, view);
            warp = acting;
            break;
          default:
            push_frontier(warp, args.traversal, view,
                          BfsVisitor{levels, pointer<u32>(args.parents), pointer<const u32>(args.original_ids),
                                     u32(view.step.level), view.step.by_one_block != 0});
        }
      },
      [&](Step& next, const Step& done, const StepCounters* counters) {
        return next_bfs_step(args, next, done, counters);
      },
      [&](Warp& warp, StepView& view, StepRecorder& recorder) {
        const PushBound bound = push_bound(args, view.step);
        // Copies: what a function that is not inlined is given the address of lives in memory, and the steps of the whole
        // grid want these in registers.
        Warp alone = warp;
        StepView step = view;
        StepRecorder copied = recorder;
        const bool did = view.graph.paged ? search_small_levels<LinedEdges>(alone, args, step, bound, copied)
                                          : search_small_levels<PlainEdges<UnitWeight>>(alone, args, step, bound, copied);
        warp = alone;
        view.counters = step.counters;
        recorder = copied;
        return did;
      });
}

GPUVM_NAMESPACE_END
