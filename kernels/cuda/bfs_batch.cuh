// Breadth-first searches from up to 64 sources at once, a bit of a word each (Then, Kaufmann, Chirigati, Hoang-Vu, Pham,
// Kemper, Neumann, Vo: "The More the Merrier: Efficient Multi-Source Graph Traversal", VLDB 2015): what many searches want
// of an edge is read once. A level takes two steps or three: edges are looked at, in either direction as in bfs.cuh, and set
// bits of `next`; then, over the vertices found or over all, these become the frontier, and levels are written down.
#pragma once

#include "bfs.cuh"

GPUVM_NAMESPACE_BEGIN

// Number of the sum of vertices that all searches have reached.
constexpr u32 kSumOfSettled = 0;

// Bits of a frontier long past may still stand in `frontier`: the neighbours of their vertices have been reached since, so
// they find nothing.
struct BatchVisitor {
  const u64* frontier;
  const u64* seen;
  u64* next;
  bool queues;  // whether what is found is queued

  GPUVM_DEVICE bool is_active(u32 u) const { return frontier[u] != 0; }
  GPUVM_DEVICE u64 begin(u32 u) const { return frontier[u]; }
  GPUVM_DEVICE u64 look(u32, u32 v) const { return seen[v]; }
  GPUVM_DEVICE bool visit(u32, u64& searches, u32 v, u64 known, const EdgeRun&, u64) const {
    const u64 found = searches & ~known;
    if (found == 0 || (found & ~load_relaxed(&next[v])) == 0) return false;
    return or_relaxed(&next[v], found) == 0 && queues;
  }
};

// What searches find of a row's neighbours that they look for.
struct BatchSearch {
  const u64* frontier;
  u64 num_vertices;
  u64 error;

  // By one lane; ends once all is found.
  GPUVM_DEVICE u64 among(const u32* columns, u64 edge, u64 length, u64 wanted, u64& looked) const {
    u64 found = 0;
    for (u64 i = 0; i < length && (wanted & ~found) != 0; i += kEdgesInFlight) {
      u32 v[kEdgesInFlight];
      u64 searches[kEdgesInFlight];
      for (u32 k = 0; k < kEdgesInFlight; ++k) v[k] = i + k < length ? columns[i + k] : kNoVertex;
      for (u32 k = 0; k < kEdgesInFlight; ++k) searches[k] = v[k] < num_vertices ? frontier[v[k]] : 0;
      for (u32 k = 0; k < kEdgesInFlight; ++k) {
        if (i + k >= length) break;
        ++looked;
        found |= searches[k];
        if (v[k] >= num_vertices) report_error(error, kErrorColumnOutOfRange, edge + i + k, v[k]);
      }
    }
    return found & wanted;
  }

  // By all lanes, of one row; what each has found.
  GPUVM_DEVICE u64 among(const Warp& warp, const u32* columns, u64 edge, u64 length, u64 wanted, u64& looked) const {
    u64 found = 0;
    for (u64 first = 0; first < length; first += kLanes * kEdgesInFlight) {
      const u64 rest = length - first < kLanes * kEdgesInFlight ? length - first : kLanes * kEdgesInFlight;
      const u64 mine = u64(warp.lane) * kEdgesInFlight;
      if (mine < rest)
        found |= among(columns + first + mine, edge + first + mine, smaller(rest - mine, kEdgesInFlight), wanted, looked);
      u64 all = found;
      for (u32 distance = kLanes / 2; distance != 0; distance /= 2) all |= warp.read_lane(all, warp.lane ^ distance);
      found = all;
      if ((wanted & ~all) == 0) break;
    }
    return found;
  }
};

// Bottom-up over heads. Nobody else writes `next` in this step, so a store will do.
GPUVM_DEVICE void batch_heads(Warp& warp, const BfsBatchArgs& args, const StepView& view) {
  const GraphView& graph = args.search.incoming;
  const u64* row_offsets = pointer<const u64>(graph.row_offsets);
  const u64* seen = pointer<const u64>(args.seen);
  u64* next = pointer<u64>(args.next);
  const BatchSearch search{pointer<const u64>(args.frontier), graph.num_vertices, view.error};
  const u64 num_heads = u64(1) << graph.heads_shift;
  const u32 page_shift = graph.page_edges_shift;
  u64 looked = 0, waiting_edges = 0, waiting_pages = 0, last_page = kNoPage;
  for_each_heads(
      warp, args.search.traversal, graph, view, [&](u32 v) { return seen[v] != args.all; },
      [&](u32 v, bool wanted, const u32* heads) {
        u64 begin = 0, degree = 0, missing = 0;
        if (wanted) {
          begin = row_offsets[v];
          degree = row_offsets[v + 1] - begin;
          missing = args.all & ~seen[v];
        }
        const u64 found = search.among(heads, begin, smaller(degree, num_heads), missing, looked);
        if (found != 0) store_relaxed(&next[v], found);
        const bool waits = found != missing && degree > num_heads;
        const u32 waiting = warp.ballot(waits);
        if (waiting == 0) return;
        // Vertices are in address order: a page that is the last of one row and the first of the next counts once.
        const u64 my_first = (begin + num_heads) >> page_shift, my_last = (begin + degree - 1) >> page_shift;
        const u32 below = waiting & warp.lanes_below();
        const u64 of_lane_below = warp.read_lane(my_last, below != 0 ? highest_bit(below) : 0);
        if (waits) {
          waiting_edges += degree - num_heads;
          waiting_pages += my_last - my_first + ((below != 0 ? of_lane_below : last_page) == my_first ? 0 : 1);
        }
        last_page = warp.read_lane(my_last, highest_bit(waiting));
      });
  looked = warp.sum(looked);
  waiting_edges = warp.sum(waiting_edges);
  waiting_pages = warp.sum(waiting_pages);
  if (!warp.leads()) return;
  warp.stats.edges += looked;
  if (waiting_edges == 0) return;
  add_relaxed_only(&view.counters->totals[kStatWaitingEdges].value, waiting_edges);
  add_relaxed_only(&view.counters->totals[kStatWaitingPages].value, waiting_pages);
}

// Bottom-up over the edges beyond the heads, of vertices that some search has not reached: all segments in address order.
template <class Edges>
GPUVM_DEVICE void batch_tails(Warp& warp, const BfsBatchArgs& args, const StepView& view, const Edges& edges) {
  const GraphView& graph = args.search.incoming;
  const u64* row_offsets = pointer<const u64>(graph.row_offsets);
  const u64* seen = pointer<const u64>(args.seen);
  u64* next = pointer<u64>(args.next);
  const BatchSearch search{pointer<const u64>(args.frontier), graph.num_vertices, view.error};
  const u64 num_heads = u64(1) << graph.heads_shift;
  u64 looked = 0;
  WorkItems work{graph.num_segments, 1};
  u64 s, last;
  while (work.take(warp, view, s, last)) {
    const u64 segment_begin = s << graph.segment_shift;
    const u64 segment_end = smaller(segment_begin + (u64(1) << graph.segment_shift), graph.num_edges);
    EdgeRun segment{nullptr, nullptr};
    for (u64 first = pointer<const u32>(graph.segment_first_vertex)[s];
         first < graph.num_vertices && row_offsets[first] < segment_end; first += kLanes) {
      const u64 v = first + warp.lane;
      u64 begin = 0, length = 0, missing = 0;
      if (v < graph.num_vertices && row_offsets[v] < segment_end) {
        const u64 end = smaller(row_offsets[v + 1], segment_end);
        begin = row_offsets[v] + num_heads;
        if (begin < segment_begin) begin = segment_begin;
        if (begin < end) missing = args.all & ~seen[v] & ~load_relaxed(&next[v]);
        if (missing != 0) length = end - begin;
      }
      if (!warp.any(length != 0)) continue;
      if (segment.columns == nullptr) {
        segment = edges.acquire(warp, segment_begin, 1);
        if (segment.columns == nullptr) return;
      }
      const bool is_long = kShortRow != 0 && length > kShortRow;
      u64 found = is_long ? 0 : search.among(segment.columns + (begin - segment_begin), begin, length, missing, looked);
      for (u32 lanes = warp.ballot(is_long); lanes != 0; lanes &= lanes - 1) {
        const u32 lane = lowest_bit(lanes);
        const u64 row_begin = warp.read_lane(begin, lane), row_length = warp.read_lane(length, lane);
        const u64 of_row = search.among(warp, segment.columns + (row_begin - segment_begin), row_begin, row_length,
                                        warp.read_lane(missing, lane), looked);
        if (warp.lane == lane) found = of_row;
      }
      if (found != 0) or_relaxed(&next[v], found);
    }
    if (segment.columns != nullptr) edges.release(warp, segment_begin, 1);
  }
  looked = warp.sum(looked);
  if (warp.leads()) warp.stats.edges += looked;
}

// What the lanes' searches have found at their vertices, written down: search by search, so that neighbours are written
// together.
GPUVM_DEVICE void write_levels(const Warp& warp, const BfsBatchArgs& args, u64 v, u64 found, u32 level) {
  u64 any = found;
  for (u32 distance = kLanes / 2; distance != 0; distance /= 2) any |= warp.read_lane(any, warp.lane ^ distance);
  for (; any != 0; any &= any - 1) {
    const u32 s = lowest_bit(any);
    if ((found >> s & 1) == 0) continue;
    const u64 at = s * args.search.traversal.graph.num_vertices + v;
    if (args.level_bytes == 1)
      pointer<u8>(args.levels)[at] = u8(level);
    else
      pointer<u32>(args.levels)[at] = level;
  }
}

// Makes what was found the frontier: over the queue of vertices found, or, if there is none, over all.
GPUVM_DEVICE void begin_level(Warp& warp, const BfsBatchArgs& args, const StepView& view) {
  u64* seen = pointer<u64>(args.seen);
  u64* frontier = pointer<u64>(args.frontier);
  u64* next = pointer<u64>(args.next);
  u64 settled = 0;
  auto enter = [&](u32 v, bool exists) {
    const u64 found = exists ? load_relaxed(&next[v]) : 0;
    if (exists && frontier[v] != found) frontier[v] = found;
    if (found != 0) {
      const u64 known = seen[v] | found;
      seen[v] = known;
      store_relaxed(&next[v], 0);
      settled += known == args.all;
    }
    write_levels(warp, args, v, found, u32(view.step.level) + 1);
    push(warp, found != 0, v);
    make_room(warp, view);
  };
  if (view.step.num_vertices != 0) {
    const u32* queue = pointer<const u32>(view.current.vertices);
    WorkItems work{view.step.num_vertices, kLanes};
    u64 first, last;
    while (work.take(warp, view, first, last))
      for (; first < last; first += kLanes) {
        const u64 item = first + warp.lane;
        enter(item < last ? queue[item] : 0, item < last);
      }
  } else {
    for_each_vertex(warp, view, enter);
  }
  add_to_sum(warp, view, kSumOfSettled, settled);
}

// Whether there is a step after `done`. `threshold` is 1 in the second step over edges of a level, and `threshold_before`
// counts the vertices that all searches have reached.
GPUVM_DEVICE bool next_batch_step(const BfsBatchArgs& args, Step& next, const Step& done, const StepCounters* counters) {
  const BfsArgs& search = args.search;
  if (done.scan == kScanVertices) {
    next.level = done.level + 1;
    next.threshold_before = done.threshold_before + load_relaxed(&counters->sums[kSumOfSettled].value);
    if (next.frontier_edges == 0 || next.level >= search.depth_limit || next.level >= args.last_level ||
        next.threshold_before >= search.num_reachable)
      return false;
    if (search.incoming.num_head_vertices != 0 &&
        (search.always_pulls || cost_of_heads(search, next) < cost_of_push(search, next)))
      next.scan = kScanHeads;
    return true;
  }
  if (done.scan == kScanHeads) {
    next.heads_resident = search.heads_stay;
    if (load_relaxed(&counters->totals[kStatWaitingEdges].value) != 0) {
      // The level goes on, from the same frontier.
      Step rest = done;
      rest.number = next.number;
      rest.fetched_pages = next.fetched_pages;
      rest.heads_resident = next.heads_resident;
      rest.threshold = 1;
      const u64 tails = cost_of_tails(search, rest, counters);
      rest.scan = search.always_pulls || tails < cost_of_push(search, rest) ? kScanTails
                                                                            : scan_of_frontier(search.traversal, rest);
      next = rest;
      return true;
    }
  }
  // What a queue was kept of is all that was found.
  if (done.scan == kScanChunks && done.threshold == 0 && next.num_vertices == 0) return false;
  next.scan = kScanVertices;
  next.threshold = 0;
  return true;
}

GPUVM_DEVICE void bfs_batch(Warp& warp, const BfsBatchArgs& args) {
  const TraversalView& traversal = args.search.traversal;
  run_steps(
      warp, traversal,
      [&](Warp& warp, const StepView& view) {
        const GraphView& incoming = args.search.incoming;
        switch (view.step.scan) {
          case kScanVertices: begin_level(warp, args, view); break;
          case kScanHeads: batch_heads(warp, args, view); break;
          case kScanTails:
            if (incoming.paged)
              batch_tails(warp, args, view, PagedEdges<UnitWeight>(traversal, incoming, kScanTails));
            else
              batch_tails(warp, args, view, PlainEdges<UnitWeight>(traversal, incoming, kScanTails));
            break;
          default:
            traverse<UnitWeight>(
                warp, traversal, view,
                BatchVisitor{pointer<const u64>(args.frontier), pointer<const u64>(args.seen), pointer<u64>(args.next),
                             view.step.scan == kScanChunks && view.step.threshold == 0});
        }
      },
      [&](Step& next, const Step& done, const StepCounters* counters) {
        return next_batch_step(args, next, done, counters);
      });
}

GPUVM_NAMESPACE_END
