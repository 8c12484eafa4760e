// Levels of a search with few vertices and short rows, as a graph of long diameter has thousands of: by one block, with as
// little between two levels as there can be. What a level takes is a chain of accesses one after the other (page entry,
// columns, levels, row offsets of what was found) and one meeting of the block; `run_steps`, which can do everything, spends
// as long again on instructions that know nothing of how little there is to do.
//
// A warp that has no vertices keeps the records, a level behind, while the others search. Whatever is not as usual (many
// edges, long rows, many faults, another direction, the end) makes a level the last: its vertices are given to `run_steps`
// before its end, which decides what comes then.
#pragma once

#include "traversal.cuh"

GPUVM_NAMESPACE_BEGIN

// So many levels a search may read by lines whatever its frontiers are: a page of a graph of long diameter, which the next
// levels want again and again, is then fetched all the same.
constexpr u32 kFewLevels = 16;

// The level of a vertex that has none.
constexpr u32 kUnreached = ~u32(0);

// The warps that search; a lane has one vertex.
constexpr u32 kSmallLevelWarps = kBlockWarps - 1;
constexpr u32 kSmallLevelVertices = kSmallLevelWarps * kLanes;
// Edges of a row that one lane looks at.
constexpr u32 kSmallLevelRow = 4 * kEdgesInFlight;

static_assert(kSmallLevelVertices <= kListedChunks, "what is found is listed");
static_assert(kBlockWarps == 1 || kEdgesOfOneBlock <= kSmallLevelVertices + kBlockWarps * kPushBuffer,
              "all edges of a level may find a vertex: those that are not listed fit the blocks' buffers");

// What a search compares before it pushes, with bounds that stay true while levels are small.
struct PushBound {
  u64 vertex_cost;  // of a push, and one more an edge
  u64 heads_cost;   // of a pull, for each unvisited vertex of `1 << heads_shift` heads, and
  u64 other_cost;   // besides
  u64 unvisited;    // at most so many have heads

  GPUVM_DEVICE bool pushes(const BfsArgs& args, u64 num_vertices, u64 num_edges, u64 total_discovered) const {
    const u64 left = smaller(unvisited, args.num_reachable - 1 - total_discovered);
    return unvisited == 0 || num_edges + num_vertices * vertex_cost <= other_cost + left * heads_cost;
  }
};

// One level under way.
struct SmallLevelView {
  u32* levels;
  u32* parents;             // null if not asked for
  const u32* original_ids;  // null where rows are vertices
  RowOffsets row_offsets;
  u64 num_vertices;
  u64 error;
};

// Gives a level to the unvisited ends of the first `length` edges of `run`, those of vertex `u`, a lane a row, and lists
// what was found.
GPUVM_DEVICE void search_small_rows(Warp& warp, const SmallLevelView& view, u32 u, u64 begin, u32 length, const u32* columns,
                                    u32 level, ListedChunk* listed, SmallLevel* next) {
  for (u32 first = 0; warp.any(first < length); first += kEdgesInFlight) {
    u32 v[kEdgesInFlight], seen[kEdgesInFlight];
    for (u32 k = 0; k < kEdgesInFlight; ++k) v[k] = first + k < length ? columns[first + k] : kNoVertex;
    for (u32 k = 0; k < kEdgesInFlight; ++k)
      seen[k] = v[k] < view.num_vertices ? compare_exchange_relaxed(&view.levels[v[k]], kUnreached, level + 1) : level;
    u32 slots[kEdgesInFlight], num_found = 0;
    for (u32 k = 0; k < kEdgesInFlight; ++k) {
      const u32 lanes = warp.ballot(seen[k] == kUnreached);
      slots[k] = num_found + count_bits(lanes & warp.lanes_below());
      num_found += count_bits(lanes);
      if (v[k] >= view.num_vertices && first + k < length)
        report_error(view.error, kErrorColumnOutOfRange, begin + first + k, v[k]);
    }
    if (view.parents != nullptr)
      for (u32 k = 0; k < kEdgesInFlight; ++k)
        if (seen[k] == kUnreached || (v[k] < view.num_vertices && seen[k] == level + 1))
          min_relaxed(&view.parents[v[k]], view.original_ids != nullptr ? view.original_ids[u] : u);
    if (num_found == 0) continue;
    u32 base = 0;
    if (warp.leads()) base = add_relaxed(&next->num_vertices, num_found);
    u64 row_begin[kEdgesInFlight], row_end[kEdgesInFlight];
    for (u32 k = 0; k < kEdgesInFlight; ++k) {
      row_begin[k] = seen[k] == kUnreached ? view.row_offsets[v[k]] : 0;
      row_end[k] = seen[k] == kUnreached ? view.row_offsets[v[k] + 1] : 0;
    }
    base = warp.read_lane(base, 0);
    u32 num_edges = 0;
    bool is_usual = true;
    for (u32 k = 0; k < kEdgesInFlight; ++k) {
      const u64 row_length = row_end[k] - row_begin[k];
      if (seen[k] != kUnreached) continue;
      num_edges += u32(smaller(row_length, kEdgesOfOneBlock + 1));
      is_usual = is_usual && row_length <= kSmallLevelRow;
      const u32 slot = base + slots[k];
      if (slot < kSmallLevelVertices)
        listed[slot] = {row_begin[k], v[k], u32(row_length)};
      else
        warp.block->pushed[0][slot - kSmallLevelVertices] = v[k];
    }
    const bool all_usual = !warp.any(!is_usual);
    num_edges = warp.sum(num_edges);
    if (!warp.leads()) continue;
    add_relaxed(&next->num_edges, num_edges);
    if (!all_usual) store_relaxed(&next->is_last, 1);
  }
}

// Adds to the counters of a level what this warp counted of it.
GPUVM_DEVICE void flush_paging_stats(Warp& warp, StepCounters* counters) {
  if (warp.leads()) {
    const WarpStats& stats = warp.stats;
    if (stats.hits != 0) add_relaxed_only(&counters->totals[kStatHits].value, stats.hits);
    if (stats.faults != 0) add_relaxed_only(&counters->totals[kStatFaults].value, stats.faults);
    if (stats.coalesced != 0) add_relaxed_only(&counters->totals[kStatCoalesced].value, stats.coalesced);
    if (stats.evictions != 0) add_relaxed_only(&counters->totals[kStatEvictions].value, stats.evictions);
    if (stats.bytes_in != 0) add_relaxed_only(&counters->totals[kStatBytesIn].value, stats.bytes_in);
  }
  warp.stats = WarpStats{};
}

// The rows of the lanes, page by page; one that goes on in the next page has two parts. If it may read lines, of pages that
// are resident alone.
template <class Edges>
GPUVM_DEVICE void search_small_level(Warp& warp, const SmallLevelView& view, const Edges& edges, bool by_lines, u32 page_shift,
                                     const ListedChunk& mine, u32 level, ListedChunk* listed, SmallLevel* next,
                                     StepCounters* counters) {
  if constexpr (Edges::kPagesOfAnEdge == 0) {
    search_small_rows(warp, view, mine.u, mine.begin, mine.length, edges.try_acquire(mine.begin).columns, level, listed,
                      next);
  } else {
    u64 begin = mine.begin;
    u32 rest = mine.length;
    do {
      const u32 length = u32(smaller(rest, (((begin >> page_shift) + 1) << page_shift) - begin));
      EdgeRun run{nullptr, nullptr};
      if (length != 0) run = edges.try_acquire(begin);
      bool is_ready = run.columns != nullptr;
      const bool is_held = is_ready;
      bool waits = length != 0;
      const u32 num_resident = count_bits(warp.ballot(is_ready));
      if (warp.leads()) warp.stats.hits += num_resident;
      if (by_lines && warp.any(waits && !is_ready)) {
        const u64 lines = warp.sum(is_ready ? 0 : num_lines(begin, length));
        if (warp.leads()) warp.stats.bytes_in += lines * kLineBytes;
        if (waits && !is_ready) run = edges.in_host(begin);
        is_ready = waits;
      }
      warp.sync();  // this lets all lanes read what each has acquired
      u64 page_begin = 0;
      for (bool own = true;; own = false) {
        search_small_rows(warp, view, mine.u, begin, is_ready ? length : 0, run.columns, level, listed, next);
        warp.sync();  // all lanes have read before references are given back
        if (!own)
          edges.release(warp, page_begin, 1);
        else if (is_held)
          edges.release_lane(begin);
        waits = waits && !is_ready;
        const u32 lanes = warp.ballot(waits);
        if (lanes == 0) break;
        page_begin = warp.read_lane(begin, lowest_bit(lanes)) >> page_shift << page_shift;
        const EdgeRun page = edges.acquire(warp, page_begin, 1);
        if (page.columns == nullptr) break;  // the run was stopped
        is_ready = waits && begin >> page_shift == page_begin >> page_shift;
        if (is_ready) run = edges.at(page, begin - page_begin);
      }
      begin += length;
      rest -= length;
    } while (warp.any(rest != 0));
    flush_paging_stats(warp, counters);
  }
}

// The levels from the one of `view.step` on, as long as they are small. True if there were any: then the last of them is
// this step now, all but its end. By all warps of a block that is alone; `recorder` as in `run_steps`.
template <class Edges>
GPUVM_DEVICE_COLD bool search_small_levels(Warp& warp, const BfsArgs& args, StepView& view, const PushBound& bound,
                                           StepRecorder& recorder) {
  if constexpr (kBlockWarps == 1) {
    return false;
  } else {
    Block* block = warp.block;
    Step& step = block->step;
    const TraversalView& traversal = args.traversal;
    const GraphView& graph = traversal.graph;
    u32 num_vertices = u32(smaller(step.num_vertices, kSmallLevelVertices + 1));
    if (num_vertices > kSmallLevelVertices || args.target != kUnreached ||
        (args.always_pulls && args.incoming.num_head_vertices != 0))
      return false;
    const SmallLevelView search{pointer<u32>(args.levels), pointer<u32>(args.parents),
                                pointer<const u32>(args.original_ids), RowOffsets(graph),
                                graph.num_vertices, view.error};
    const Edges edges(traversal, graph, kScanChunks);
    const bool searches = warp.block_warp < kSmallLevelWarps;
    // Neighbours in the list were late together and may be again, for a page: they go to different warps.
    const u32 item = searches ? warp.block_warp + warp.lane * kSmallLevelWarps : kSmallLevelVertices;
    const u64 first_number = step.number;
    u64 number = first_number, total_discovered = step.total_discovered;
    u32 level = u32(step.level), num_edges = u32(step.frontier_edges);

    ListedChunk mine{};
    if (item < num_vertices) {
      // Not from the list of `run_steps`, which has the first chunk of a row alone.
      const u32 u = pointer<const u32>(view.current.vertices)[item];
      const u64 begin = search.row_offsets[u];
      mine = {begin, u, u32(smaller(search.row_offsets[u + 1] - begin, kSmallLevelRow + 1))};
    }
    if (recorder.records) {
      set_all_to_zero(block->counters);
      for (SmallLevel& small : block->small) small = SmallLevel{0, 0, 0};
    }
    warp.sync_block();
    if (mine.length > kSmallLevelRow) store_relaxed(&block->small[number % 3].is_last, 1);
    warp.sync_block();
    if (load_relaxed(&block->small[number % 3].is_last) != 0) return false;

    // Of the level before, for its record.
    u32 vertices_before = 0, edges_before = 0;
    u64 faults_before = 0;
    u32 found_vertices = 0;
    StepCounters* counters;
    for (;;) {
      SmallLevel* next = &block->small[(number + 1) % 3];
      ListedChunk* listed = block->listed[(number + 1) % 2];
      counters = &block->counters[number % 3];
      if (searches) {
        search_small_level(warp, search, edges, args.reads_lines != 0 && level < kFewLevels, graph.page_edges_shift, mine, level,
                           listed, next, counters);
      } else if (recorder.records) {
        // What the next level counts in. Of the level before others may still read, on their way into this one.
        set_to_zero(&block->counters[(number + 1) % 3]);
        block->small[(number + 2) % 3] = SmallLevel{0, 0, 0};
        // Whether the run was stopped is far away: as often as `run_steps` looks.
        if ((number + 1) % 16 == 0 && is_stopped(view.error)) store_relaxed(&next->is_last, 1);
        if (number != first_number) {
          StepCounters* before = &block->counters[(number + 2) % 3];
          before->totals[kStatEdges].value = edges_before;
          Step done{};
          done.number = number - 1;
          done.scan = kScanChunks;
          done.frontier = vertices_before;
          faults_before += before->totals[kStatFaults].value;
          recorder.record(traversal, done, before, block->rest);
        }
      }
      warp.sync_block();
      found_vertices = load_relaxed(&next->num_vertices);
      const u32 found_edges = load_relaxed(&next->num_edges);
      const u64 discovered = total_discovered + found_vertices;
      if (load_relaxed(&next->is_last) != 0 || found_vertices == 0 || found_vertices > kSmallLevelVertices ||
          found_edges > kEdgesOfOneBlock || found_edges >= traversal.dense_edges ||
          found_vertices >= traversal.dense_items || 1 + discovered >= args.num_reachable ||
          level + 1 >= args.depth_limit || load_relaxed(&counters->totals[kStatFaults].value) > kBlockWarps ||
          !bound.pushes(args, found_vertices, found_edges, discovered))
        break;
      vertices_before = num_vertices;
      edges_before = num_edges;
      mine = item < found_vertices ? listed[item] : ListedChunk{};
      num_vertices = found_vertices;
      num_edges = found_edges;
      total_discovered = discovered;
      ++number;
      ++level;
    }

    // What was found goes the usual way: it is counted and queued with all that `run_steps` wants to know of it.
    const u32 found = item < smaller(found_vertices, kSmallLevelVertices) ? block->listed[(number + 1) % 2][item].u : 0;
    if (recorder.records) step.fetched_pages += faults_before;
    if (warp.leads_block() && warp.leads()) {
      if (number != first_number) step.last_discovery = level;
      step.number = number;
      step.level = level;
      step.frontier = step.num_vertices = num_vertices;
      step.frontier_edges = num_edges;
      step.total_discovered = total_discovered;
      warp.stats.edges += num_edges;
    }
    warp.sync_block();
    view.counters = counters;
    const u32 unlisted = found_vertices > kSmallLevelVertices ? found_vertices - kSmallLevelVertices : 0;
    const u32 in_buffers_before = warp.block_warp * kPushBuffer;
    if (unlisted > in_buffers_before) warp.num_pushed = u32(smaller(unlisted - in_buffers_before, kPushBuffer));
    make_room(warp, view);
    push(warp, item < smaller(found_vertices, kSmallLevelVertices), found);
    return true;
  }
}

GPUVM_NAMESPACE_END
