// Breadth-first searches from up to 64 sources at once, a bit of a word each (Then, Kaufmann, Chirigati, Hoang-Vu, Pham,
// Kemper, Neumann, Vo: "The More the Merrier: Efficient Multi-Source Graph Traversal", VLDB 2015): what many searches want
// of an edge is read once. A level takes two steps or three: edges are looked at, in either direction as in bfs.cuh, and set
// bits of `next`; then, over the vertices found or over all, these become the frontier. Few are written to a log; after
// levels of many the run ends, and goes on once the host has copied the frontier.
// Searches that have no frontier any more look for nothing. What the heads leave may be found both ways: the frontier of
// searches that they settled little for is pushed, and the rest of the rows looked at for the others.
#pragma once

#include "bfs.cuh"

GPUVM_NAMESPACE_BEGIN

// Number of the sum of vertices that all searches have reached; and of the sums of steps that measure.
constexpr u32 kSumOfSettled = 0;
constexpr u32 kSumOfPushedVertices = 0;
constexpr u32 kSumOfPushedEdges = 1;

// Of a step: the searches that have a frontier; those whose frontier is pushed once the heads are read, where others pull.
GPUVM_DEVICE u64 living_searches(const Step& step) { return step.window_begin; }
GPUVM_DEVICE u64 pushing_searches(const Step& step) { return step.window_end; }

// Entries that the log has; and, of a step with which a run ends, whether the host finds its level in the frontier.
GPUVM_DEVICE u64 entries_in_log(const Step& step) { return step.window_edges; }
constexpr u64 kLevelInFrontier = 1;

// What the steps over edges of a level do after the first: `threshold` of a step.
constexpr u64 kRestOfLevel = 1;
constexpr u64 kMeasureRest = 2;

// How many vertices wait, once the heads are read: for each search, and all those that looked. One group of vertices in
// kGroupsASample is asked.
struct WaitingVertices {
  u64 of_search[64];
  u64 looked;
};
constexpr u32 kGroupsASample = 8;

// Levels take turns: while one counts, late blocks may still read what the one before did.
GPUVM_DEVICE WaitingVertices* waiting_vertices(const BfsBatchArgs& args, u64 level) {
  return pointer<WaitingVertices>(args.waiting) + level % 2;
}

// Pages of rows that come in address order, a lane each: one that is the last of a row and the first of the next counts once.
struct PagesInOrder {
  u64 vertices = 0, pages = 0;  // of this lane's rows
  u64 last_page = kNoPage;

  GPUVM_DEVICE void add(const Warp& warp, bool takes, u64 first, u64 last) {
    const u32 lanes = warp.ballot(takes);
    if (lanes == 0) return;
    const u32 below = lanes & warp.lanes_below();
    const u64 of_lane_below = warp.read_lane(last, below != 0 ? highest_bit(below) : 0);
    if (takes) {
      ++vertices;
      pages += last - first + ((below != 0 ? of_lane_below : last_page) == first ? 0 : 1);
    }
    last_page = warp.read_lane(last, highest_bit(lanes));
  }
};

// Bits of a frontier long past may still stand in `frontier`: the neighbours of their vertices have been reached since, so
// they find nothing.
struct BatchVisitor {
  const u64* frontier;
  const u64* seen;
  u64* next;
  const Step& step;  // asked anew each time: it lies near, and registers are few

  GPUVM_DEVICE bool is_active(u32 u) const { return begin(u) != 0; }
  GPUVM_DEVICE u64 begin(u32 u) const {
    const u64 pushing = pushing_searches(step);
    return pushing == 0 ? frontier[u] : frontier[u] & pushing;
  }
  // Whether what is found is queued.
  GPUVM_DEVICE bool queues() const { return step.scan == kScanChunks && step.threshold == 0; }

  GPUVM_DEVICE u64 look(u32, u32 v) const { return seen[v]; }
  GPUVM_DEVICE bool visit(u32, u64& searches, u32 v, u64 known, const EdgeRun&, u64) const {
    const u64 found = searches & ~known;
    if (found == 0 || (found & ~load_relaxed(&next[v])) == 0) return false;
    return or_relaxed(&next[v], found) == 0 && queues();
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
  const u64 living = living_searches(view.step);
  u64 looked = 0, waiting_edges = 0;
  PagesInOrder waiting;
  u32 waiting_of_search[64 / kLanes] = {};  // lane l's: of the searches l, l + kLanes and so on
  u32 sampled = 0;
  for_each_heads(
      warp, args.search.traversal, graph, view, [&](u32 v) { return (living & ~seen[v]) != 0; },
      [&](u32 v, bool wanted, const u32* heads) {
        u64 begin = 0, degree = 0, missing = 0;
        if (wanted) {
          begin = row_offsets[v];
          degree = row_offsets[v + 1] - begin;
          missing = living & ~seen[v];
        }
        const u64 found = search.among(heads, begin, smaller(degree, num_heads), missing, looked);
        if (found != 0) store_relaxed(&next[v], found);
        const bool waits = found != missing && degree > num_heads;
        waiting.add(warp, waits, (begin + num_heads) >> page_shift, (begin + degree - 1) >> page_shift);
        if (waits) {
          waiting_edges += degree - num_heads;
          mark_segments(args.search, view, begin + num_heads, begin + degree);
        }
        if ((v - warp.lane) / kLanes % kGroupsASample != 0) return;
        sampled += count_bits(warp.ballot(degree > num_heads));
        if (!warp.any(waits)) return;
        missing = waits ? missing & ~found : 0;
        for (u32 i = 0; i < 64 / kLanes; ++i)
#if defined(__CUDACC_RTC__)
#pragma unroll 1
#endif
          for (u32 lane = 0; lane < kLanes; ++lane, missing >>= 1) {
            const u32 vertices = count_bits(warp.ballot((missing & 1) != 0));
            if (warp.lane == lane) waiting_of_search[i] += vertices;
          }
      });
  WaitingVertices* counts = waiting_vertices(args, view.step.level);
  for (u32 i = 0; i < 64 / kLanes; ++i)
    if (waiting_of_search[i] != 0) add_relaxed_only(&counts->of_search[i * kLanes + warp.lane], waiting_of_search[i]);
  looked = warp.sum(looked);
  waiting_edges = warp.sum(waiting_edges);
  const u64 waiting_pages = warp.sum(waiting.pages), num_waiting = warp.sum(waiting.vertices);
  if (!warp.leads()) return;
  warp.stats.edges += looked;
  if (sampled != 0) add_relaxed_only(&counts->looked, sampled);
  if (waiting_edges == 0) return;
  add_relaxed_only(&view.counters->totals[kStatWaitingEdges].value, waiting_edges);
  add_relaxed_only(&view.counters->totals[kStatWaitingPages].value, waiting_pages);
  add_relaxed_only(&view.counters->totals[kStatWaitingVertices].value, num_waiting);
}

// Counts what the rest of a level has to read, if some searches push and the others pull: vertices and edges of the frontier
// that is pushed, edges and pages of the vertices that wait.
GPUVM_DEVICE void measure_rest(Warp& warp, const BfsBatchArgs& args, const StepView& view) {
  const GraphView& in = args.search.incoming;
  const u64* out_offsets = pointer<const u64>(args.search.traversal.graph.row_offsets);
  const u64* in_offsets = pointer<const u64>(in.row_offsets);
  const u64* frontier = pointer<const u64>(args.frontier);
  const u64* seen = pointer<const u64>(args.seen);
  const u64* next = pointer<const u64>(args.next);
  const u64 num_heads = u64(1) << in.heads_shift;
  const u64 pushing = pushing_searches(view.step);
  const u64 pulling = living_searches(view.step) & ~pushing;
  u64 pushed_vertices = 0, pushed_edges = 0, waiting_edges = 0;
  PagesInOrder waiting;
  for_each_vertex(warp, view, [&](u32 v, bool exists) {
    u64 begin = 0, end = 0;
    if (exists && (frontier[v] & pushing) != 0) {
      pushed_edges += out_offsets[v + 1] - out_offsets[v];
      ++pushed_vertices;
    }
    if (exists && (pulling & ~seen[v] & ~next[v]) != 0) {
      begin = in_offsets[v] + num_heads;
      end = in_offsets[v + 1];
      if (begin < end) waiting_edges += end - begin;
    }
    waiting.add(warp, begin < end, begin >> in.page_edges_shift, (end - 1) >> in.page_edges_shift);
  });
  add_to_sum(warp, view, kSumOfPushedVertices, pushed_vertices);
  add_to_sum(warp, view, kSumOfPushedEdges, pushed_edges);
  waiting_edges = warp.sum(waiting_edges);
  const u64 waiting_pages = warp.sum(waiting.pages), num_waiting = warp.sum(waiting.vertices);
  if (!warp.leads() || waiting_edges == 0) return;
  add_relaxed_only(&view.counters->totals[kStatWaitingEdges].value, waiting_edges);
  add_relaxed_only(&view.counters->totals[kStatWaitingPages].value, waiting_pages);
  add_relaxed_only(&view.counters->totals[kStatWaitingVertices].value, num_waiting);
}

// The part of `batch_tails` in segment `s`: false if the run was stopped.
template <class Edges>
GPUVM_DEVICE bool batch_segment(Warp& warp, const BfsBatchArgs& args, const StepView& view, const Edges& edges, u64 s,
                                u64& looked) {
  const GraphView& graph = args.search.incoming;
  const u64* row_offsets = pointer<const u64>(graph.row_offsets);
  const u64* seen = pointer<const u64>(args.seen);
  u64* next = pointer<u64>(args.next);
  const BatchSearch search{pointer<const u64>(args.frontier), graph.num_vertices, view.error};
  const u64 num_heads = u64(1) << graph.heads_shift;
  const u64 pulling = living_searches(view.step) & ~pushing_searches(view.step);
  const u64 segment_begin = s << graph.segment_shift;
  const u64 segment_end = smaller(segment_begin + (u64(1) << graph.segment_shift), graph.num_edges);
  const u64 first_vertex = pointer<const u32>(graph.segment_first_vertex)[s];
  const u64 last_vertex = last_vertex_of_segment(graph, s);
  // What vertex v still looks for in this segment, among `length` edges from `begin` on.
  auto missing_of = [&](u64 v, u64& begin, u64& length) {
    if (v > last_vertex) return u64(0);
    const u64 missing = pulling & ~seen[v] & ~load_relaxed(&next[v]);
    begin = row_offsets[v] + num_heads;
    const u64 end = smaller(row_offsets[v + 1], segment_end);
    if (begin < segment_begin) begin = segment_begin;
    length = missing != 0 && begin < end ? end - begin : 0;
    return missing;
  };
  SegmentReader<Edges> segment(edges, segment_begin);
  if (segment.needs_plan(warp)) {
    // Most rows are read to their ends, for some search.
    u64 lines = 0;
    for (u64 first = first_vertex; first <= last_vertex; first += kLanes) {
      u64 begin = 0, length = 0;
      missing_of(first + warp.lane, begin, length);
      lines += num_lines(begin, length);
    }
    if (!segment.plan(warp, lines)) return true;
  }
  for (u64 first = first_vertex; first <= last_vertex; first += kLanes) {
    const u64 v = first + warp.lane;
    u64 begin = 0, length = 0;
    const u64 missing = missing_of(v, begin, length);
    if (!warp.any(length != 0)) continue;
    if (!segment.open(warp)) return false;
    const bool is_long = kShortRow != 0 && length > kShortRow;
    const u64 looked_before = looked;
    u64 found =
        is_long ? 0 : search.among(segment.run.columns + (begin - segment_begin), begin, length, missing, looked);
    segment.add_read(warp, begin, is_long ? length : looked - looked_before);
    for (u32 lanes = warp.ballot(is_long); lanes != 0; lanes &= lanes - 1) {
      const u32 lane = lowest_bit(lanes);
      const u64 row_begin = warp.read_lane(begin, lane), row_length = warp.read_lane(length, lane);
      const u64 of_row = search.among(warp, segment.run.columns + (row_begin - segment_begin), row_begin, row_length,
                                      warp.read_lane(missing, lane), looked);
      if (warp.lane == lane) found = of_row;
    }
    if (found != 0) or_relaxed(&next[v], found);
  }
  segment.close(warp);
  return true;
}

// Bottom-up over the edges beyond the heads, of vertices that some search that pulls has not reached: the marked segments.
template <class Edges>
GPUVM_DEVICE void batch_tails(Warp& warp, const BfsBatchArgs& args, const StepView& view, const Edges& edges) {
  u64 looked = 0;
  for_each_marked_segment(warp, args.search, view,
                          [&](u64 s) { return batch_segment(warp, args, view, edges, s, looked); });
  looked = warp.sum(looked);
  if (warp.leads()) warp.stats.edges += looked;
}

// Makes what was found the frontier: over the queue of vertices found, which are written to the log, or, if there is none,
// over all that can be found, after which the frontier has no other bits of theirs than those of this level. The counters'
// `maximum` gathers the searches that found something.
GPUVM_DEVICE void begin_level(Warp& warp, const BfsBatchArgs& args, const StepView& view) {
  u64* seen = pointer<u64>(args.seen);
  u64* frontier = pointer<u64>(args.frontier);
  u64* next = pointer<u64>(args.next);
  u64 settled = 0, living = 0;
  const u32 level = u32(view.step.level) + 1;
  u64* log = pointer<u64>(args.log) + 2 * entries_in_log(view.step);
  // kEdgesInFlight vertices of a lane, or kNoVertex: their accesses do not wait for each other's.
  auto enter = [&](const u32* v, u64* found) {
    u64 before[kEdgesInFlight], known[kEdgesInFlight];
    for (u32 k = 0; k < kEdgesInFlight; ++k) found[k] = v[k] != kNoVertex ? load_relaxed(&next[v[k]]) : 0;
    for (u32 k = 0; k < kEdgesInFlight; ++k) before[k] = v[k] != kNoVertex ? frontier[v[k]] : 0;
    for (u32 k = 0; k < kEdgesInFlight; ++k) known[k] = found[k] != 0 ? seen[v[k]] | found[k] : 0;
    for (u32 k = 0; k < kEdgesInFlight; ++k) {
      if (before[k] != found[k]) frontier[v[k]] = found[k];
      if (found[k] != 0) {
        seen[v[k]] = known[k];
        store_relaxed(&next[v[k]], 0);
        settled += known[k] == args.all;
        living |= found[k];
      }
      push(warp, found[k] != 0, v[k]);
    }
    make_room(warp, view);
  };
  const u32* queue = pointer<const u32>(view.current.vertices);
  const bool is_queued = view.step.num_vertices != 0;
  const u64 num_items = is_queued ? view.step.num_vertices : args.num_rows;
  WorkItems work{num_items, is_queued ? kEdgesInFlight * kLanes : 1024};
  u64 first, last;
  while (work.take(warp, view, first, last))
    for (; first < last; first += kEdgesInFlight * kLanes) {
      u32 v[kEdgesInFlight];
      u64 found[kEdgesInFlight];
      for (u32 k = 0; k < kEdgesInFlight; ++k) {
        const u64 item = first + k * kLanes + warp.lane;
        v[k] = item >= last ? kNoVertex : is_queued ? queue[item] : u32(item);
      }
      enter(v, found);
      for (u32 k = 0; k < kEdgesInFlight && is_queued; ++k) {
        const u64 item = first + k * kLanes + warp.lane;
        if (item >= last) continue;
        log[2 * item] = found[k];
        log[2 * item + 1] = u64(level) << 32 | v[k];
      }
    }
  add_to_sum(warp, view, kSumOfSettled, settled);
  for (u32 distance = kLanes / 2; distance != 0; distance /= 2) living |= warp.read_lane(living, warp.lane ^ distance);
  if (warp.leads() && living != 0) or_relaxed(&view.counters->maximum.value, living);
  if (warp.warp == 0) {
    WaitingVertices* counts = waiting_vertices(args, view.step.level + 1);
    for (u32 s = warp.lane; s < 64; s += kLanes) store_relaxed(&counts->of_search[s], u64(0));
    if (warp.leads()) store_relaxed(&counts->looked, u64(0));
  }
}

// Searches for which more than half of the vertices wait: their frontiers are small.
GPUVM_DEVICE u64 searches_to_push(const BfsBatchArgs& args, const Step& done) {
  const WaitingVertices* counts = waiting_vertices(args, done.level);
  const u64 most = load_relaxed(&counts->looked) / 2;
  u64 searches = 0;
  for (u32 s = 0; s < 64; ++s) searches |= u64(load_relaxed(&counts->of_search[s]) > most) << s;
  return searches;
}

// A further step of the level of `done`, from the same frontier.
GPUVM_DEVICE Step rest_of_level(const Step& next, const Step& done, u64 what) {
  Step rest = done;
  rest.number = next.number;
  rest.fetched_pages = next.fetched_pages;
  rest.heads_resident = next.heads_resident;
  rest.threshold = what;
  return rest;
}

// Whether there is a step after `done`. `threshold` is not 0 in further steps of a level, and `threshold_before` counts
// the vertices that all searches have reached. `cutoff` is what the rest of a level costs if it is found in one way.
GPUVM_DEVICE bool next_batch_step(const BfsBatchArgs& args, Step& next, const Step& done, const StepCounters* counters) {
  const BfsArgs& search = args.search;
  if (done.scan == kScanVertices && done.threshold != kMeasureRest) {
    next.level = done.level + 1;
    next.threshold_before = done.threshold_before + load_relaxed(&counters->sums[kSumOfSettled].value);
    next.window_begin = load_relaxed(&counters->maximum.value);
    next.phase = done.num_vertices == 0 ? kLevelInFrontier : 0;
    next.window_edges = entries_in_log(done) + done.num_vertices;
    if (next.frontier_edges == 0 || next.level >= search.depth_limit || next.threshold_before >= search.num_reachable)
      return false;
    plan_push(search, next);
    // The heads are those of vertices that not all searches have reached.
    Step unsettled = next;
    unsettled.total_discovered = next.threshold_before != 0 ? next.threshold_before - 1 : 0;
    if (search.incoming.num_head_vertices != 0 &&
        (search.always_pulls || cost_of_heads(search, unsettled) < cost_of_push(search, next)))
      next.scan = kScanHeads;
    // The host takes what there is, and has the run go on with this step.
    return next.phase != kLevelInFrontier && entries_in_log(next) <= args.log_entries / 2;
  }
  if (done.scan == kScanHeads) {
    next.heads_resident = search.heads_stay;
    if (load_relaxed(&counters->totals[kStatWaitingEdges].value) != 0) {
      next = rest_of_level(next, done, kRestOfLevel);
      const Waiting waiting = Waiting::counted(counters);
      next.marked_segments = waiting.segments(search.incoming);
      const u64 tails = cost_of_tails(search, next, waiting), push = cost_of_push(search, next);
      if (search.always_pulls || tails < push)
        plan_tails(search, next);
      else
        plan_push(search, next);
      const u64 pushing = search.always_pulls ? 0 : searches_to_push(args, done) & living_searches(done);
      if (pushing != 0 && pushing != living_searches(done)) {
        next.scan = kScanVertices;
        next.threshold = kMeasureRest;
        next.window_end = pushing;
        next.cutoff = smaller(tails, push);
      }
      return true;
    }
  } else if (done.scan == kScanVertices) {
    next = rest_of_level(next, done, kRestOfLevel);
    Step pushed = next;
    pushed.num_vertices = load_relaxed(&counters->sums[kSumOfPushedVertices].value);
    pushed.frontier_edges = load_relaxed(&counters->sums[kSumOfPushedEdges].value);
    pushed.num_continuations = pushed.frontier_edges >> search.traversal.graph.segment_shift;
    if (cost_of_tails(search, next, Waiting::counted(counters)) + cost_of_push(search, pushed) < done.cutoff) {
      // In the order of addresses: the queue has the vertices of all searches.
      next.scan = search.traversal.dense_scan;
      next.by_lines = pushes_by_lines(search, pushed);
    } else {
      next.window_end = 0;
      if (done.cutoff < cost_of_push(search, next))
        plan_tails(search, next);
      else
        plan_push(search, next);
    }
    return true;
  } else if (pushing_searches(done) != 0 && done.scan != kScanTails) {
    next = rest_of_level(next, done, kRestOfLevel);
    plan_tails(search, next);
    return true;
  }
  // What a queue was kept of is all that was found.
  if (done.scan == kScanChunks && done.threshold == 0 && next.num_vertices == 0) return false;
  next.scan = kScanVertices;
  next.threshold = 0;
  next.window_end = 0;
  if (next.num_vertices > args.log_entries / 2) next.num_vertices = 0;
  return true;
}

GPUVM_DEVICE void bfs_batch(Warp& warp, const BfsBatchArgs& args) {
  const TraversalView& traversal = args.search.traversal;
  run_steps(
      warp, traversal,
      [&](Warp& warp, const StepView& view) {
        const GraphView& incoming = args.search.incoming;
        switch (view.step.scan) {
          case kScanVertices:
            if (view.step.threshold == kMeasureRest)
              measure_rest(warp, args, view);
            else
              begin_level(warp, args, view);
            break;
          case kScanHeads: batch_heads(warp, args, view); break;
          case kScanTails:
            if (incoming.paged)
              batch_tails(warp, args, view, LinedEdges(traversal, incoming, kScanTails, view.step.by_lines));
            else
              batch_tails(warp, args, view, PlainEdges<UnitWeight>(traversal, incoming, kScanTails));
            break;
          default:
            push_frontier(warp, traversal, view,
                          BatchVisitor{pointer<const u64>(args.frontier), pointer<const u64>(args.seen),
                                       pointer<u64>(args.next), view.step});
        }
      },
      [&](Step& next, const Step& done, const StepCounters* counters) {
        return next_batch_step(args, next, done, counters);
      });
}

GPUVM_NAMESPACE_END
