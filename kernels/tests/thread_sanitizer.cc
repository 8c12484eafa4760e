// The page protocol and the traversals on threads, for ThreadSanitizer: far fewer frames than pages, so that pages are
// evicted under the readers' noses all the time. Exits with 1 if a byte or an answer is wrong; races are
// ThreadSanitizer's to report.
#include "sanitizer.h"
#include "bfs_batch.cuh"
#include "connected_components.cuh"
#include "page_rank.cuh"
#include "sssp.cuh"

using namespace gpuvm;

namespace {

template <class Body>
void on_threads(u32 num_threads, Body body) {
  std::vector<std::thread> threads;
  for (u32 t = 0; t < num_threads; ++t)
    threads.emplace_back([=] {
      Block block;
      Warp warp{0, t, num_threads, 0, num_threads, &block, nullptr, {}};
      body(warp);
    });
  for (std::thread& thread : threads) thread.join();
}

constexpr u32 kPageShift = 12;
constexpr u64 kPageBytes = u64(1) << kPageShift;

// Page entries and frames, as engine/src/paging sets them up.
struct Pages {
  std::vector<u64> entries, owners, hand{0};
  std::vector<u8> frames;
  u64 policy;

  Pages(u64 num_pages, u64 num_frames, u64 policy)
      : entries(num_pages), owners(num_frames, kNoPage), frames(num_frames << kPageShift), policy(policy) {}
  PageTableView table() { return {address(entries), u32(kPageTableEvicts), kPageShift}; }
  FramePoolView pool() { return {address(frames), address(owners), address(hand), u32(owners.size()), 0, u32(policy), 0}; }
  void require_quiet() {
    for (u64 entry : entries)
      require(entry == 0 || (page_state(entry) == kPageResident && page_references(entry) == 0),
              "every page is absent or resident without references");
  }
};

// Levels from vertex 7, by pushes alone or by whatever costs less; and how many steps pulled.
struct Levels {
  std::vector<u32> levels;
  u64 num_head_steps = 0, num_tail_steps = 0;
  std::vector<u32> labels{};
  std::vector<u8> of_batch{};
};
Levels run_bfs(struct Graph& graph, Pages* pages, u32 num_threads, bool pulls, bool reads_lines = false);

// Threads read random pages and check every word under their reference.
void read_random_pages(u32 num_threads, u64 num_pages, u64 policy) {
  std::vector<u64> host(num_pages * kPageBytes / 8);
  for (u64 i = 0; i < host.size(); ++i) host[i] = i * 0x9E3779B97F4A7C15;
  Pages pages(num_pages, num_threads, policy);
  ErrorSlot error{};
  StepCounters counters{};
  const ArrayView array{address(host), host.size() * 8, 0};
  on_threads(num_threads, [&, array](Warp& warp) {
    const Paging paging{pages.table(), pages.pool(), reinterpret_cast<u64>(&error), u64(60) * 1000000000};
    u64 state = 88172645463325252 + warp.warp;
    for (int i = 0; i < 4000; ++i) {
      // Half of the reads go to three pages, so that hits, waits and evictions all happen.
      const u64 page = next_random(state) % 2 ? next_random(state) % num_pages : next_random(state) % 3;
      const u8* frame = acquire_page(warp, paging, array, page, 1);
      require(frame != nullptr, "no page is stuck");
      for (u64 at = next_random(state) % 64; at < kPageBytes / 8; at += 64)
        require(reinterpret_cast<const u64*>(frame)[at] == host[page * kPageBytes / 8 + at], "a page holds its bytes");
      release_page(warp, paging, page, 1);
    }
    note_stats(warp);
    add_block_stats(warp, &counters);
  });
  pages.require_quiet();
  auto total = [&](u64 stat) { return counters.totals[stat].value; };
  require(total(kStatEvictions) > 0 && total(kStatFaults) - total(kStatEvictions) <= num_threads,
          "evictions match the faults");
  std::printf("%u threads, %llu pages, policy %llu: %llu faults, %llu hits, %llu shared, %llu evictions\n", num_threads,
              num_pages, policy, total(kStatFaults), total(kStatHits), total(kStatCoalesced), total(kStatEvictions));
}

// A random graph with a hub whose row spans pages, and u8 weights. Undirected: with heads, two a vertex.
struct Graph {
  std::vector<u64> row_offsets{0};
  std::vector<u32> columns;
  std::vector<u8> weights;
  std::vector<u32> segment_first_vertex;
  std::vector<u32> heads;
  static constexpr u32 kSegmentShift = 10, kHeadsShift = 1;

  explicit Graph(u32 n, bool undirected = false) {
    u64 state = 2463534242;
    std::vector<std::vector<u32>> rows(n);
    for (u32 u = 0; u < n; ++u) {
      // The undirected one reaches far from its hub.
      const u64 degree = u == 7 ? (undirected ? 1500 : 5000) : next_random(state) % (undirected ? 12 : 16);
      for (u64 i = 0; i < degree; ++i) {
        const u32 v = u32(next_random(state) % n);
        rows[u].push_back(v);
        if (undirected) rows[v].push_back(u);
      }
    }
    for (u32 u = 0; u < n; ++u) {
      for (u32 v : rows[u]) {
        columns.push_back(v);
        weights.push_back(u8((u + v) % 5));  // the same in both directions
      }
      for (u64 i = 0; undirected && i < u64(1) << kHeadsShift; ++i)
        heads.push_back(i < rows[u].size() ? rows[u][i] : kNoVertex);
      row_offsets.push_back(columns.size());
    }
    for (u32 u = 0; u < n; ++u)
      while (segment_first_vertex.size() << kSegmentShift < row_offsets[u + 1]) segment_first_vertex.push_back(u);
  }

  // The edges of `whole` whose weight is `least` at least and less than `below`.
  Graph(const Graph& whole, u8 least, u8 below) {
    for (u32 u = 0; u + 1 < whole.row_offsets.size(); ++u) {
      for (u64 e = whole.row_offsets[u]; e < whole.row_offsets[u + 1]; ++e) {
        if (whole.weights[e] < least || whole.weights[e] >= below) continue;
        columns.push_back(whole.columns[e]);
        weights.push_back(whole.weights[e]);
      }
      row_offsets.push_back(columns.size());
      while (segment_first_vertex.size() << kSegmentShift < row_offsets[u + 1]) segment_first_vertex.push_back(u);
    }
  }

  // Its pages are numbered from `first_page` on.
  GraphView view(u64 first_page = 0) {
    GraphView view{};
    view.row_offsets = address(row_offsets);
    view.segment_first_vertex = address(segment_first_vertex);
    view.num_vertices = row_offsets.size() - 1;
    view.num_edges = columns.size();
    view.num_segments = segment_first_vertex.size();
    view.segment_shift = view.page_edges_shift = kSegmentShift;
    view.weight_type = u32(kWeightU8);
    view.columns = {address(columns), columns.size() * 4, first_page};
    view.weights = {address(weights), weights.size(), first_page + ((columns.size() * 4 + kPageBytes - 1) >> kPageShift)};
    view.heads = {address(heads), heads.size() * 4,
                  view.weights.first_page + (weights.size() + kPageBytes - 1) / kPageBytes};
    view.heads_shift = kHeadsShift;
    view.num_head_vertices = heads.size() >> kHeadsShift;
    return view;
  }
  u64 num_pages() { return view().heads.first_page + (heads.size() * 4 + kPageBytes - 1) / kPageBytes; }
};

// Runs BFS, SSSP, components and PageRank and returns their answers, one after the other.
std::vector<u64> run_algorithms(Graph& graph, Pages* pages, u32 num_threads) {
  const u64 n = graph.row_offsets.size() - 1;
  std::vector<u32> levels(n, kUnreached), stamps(n, 0), labels(n), bfs_parents(n, kNoParent), parents(n, kNoParent);
  std::vector<u64> distances(n, kUnreachedDistance);
  std::vector<u32> queues[2][2];
  for (auto& frontier : queues) {
    frontier[0].resize(n);
    frontier[1].resize(graph.segment_first_vertex.size());
  }
  ErrorSlot error{};
  LoopState state{};
  std::vector<StepRecord> records(100);
  TraversalView view{};
  view.graph = graph.view();
  if (pages != nullptr) {
    view.graph.paged = 1;
    view.graph.page_table = pages->table();
    view.graph.frame_pool = pages->pool();
  }
  view.state = reinterpret_cast<u64>(&state);
  view.records = address(records);
  view.max_records = records.size();
  view.error = reinterpret_cast<u64>(&error);
  view.stuck_after_ns = u64(60) * 1000000000;
  view.dense_edges = graph.columns.size() / 2;  // some steps are sparse, some dense
  view.dense_items = ~u64(0);
  view.dense_scan = kScanSegments;

  // All steps from vertex 7, the hub, whose row opens segments.
  auto with_queues = [&](u64 threshold, auto kernel) {
    const u64 first = graph.row_offsets[7] >> Graph::kSegmentShift;
    const u64 last = (graph.row_offsets[8] - 1) >> Graph::kSegmentShift;
    queues[0][0][0] = 7;
    for (u64 s = first + 1; s <= last; ++s) queues[0][1][s - first - 1] = u32(s);
    for (int i : {0, 1}) view.frontiers[i] = {address(queues[i][0]), address(queues[i][1])};
    state = LoopState{};
    state.step.scan = kScanChunks;
    state.step.num_vertices = 1;
    state.step.frontier_edges = graph.row_offsets[8] - graph.row_offsets[7];
    state.step.num_continuations = last - first;
    state.step.threshold = threshold;
    state.step.window_end = kUnreachedDistance;
    on_threads(num_threads, kernel);
  };
  auto without_queues = [&](u64 scan, auto kernel) {
    view.frontiers[0] = view.frontiers[1] = {};
    state = LoopState{};
    state.step.scan = scan;
    on_threads(num_threads, kernel);
  };
  levels[7] = 0;
  with_queues(0, [&](Warp& warp) { bfs(warp, {view, address(levels), address(bfs_parents), 0, n + 1, kUnreached, kUnreached}); });
  distances[7] = 0;
  stamps[7] = 1;
  constexpr u64 kDelta = 3;  // distances are larger, so there are several buckets
  with_queues(kDelta, [&](Warp& warp) {
    sssp<IntegerWeight<u8>>(warp, {view, address(distances), address(stamps), 0, kUnreachedDistance - 1, kDelta, 0, 1});
  });
  without_queues(kScanSegments, [&](Warp& warp) {
    sssp_parents<IntegerWeight<u8>>(warp, {view, address(distances), address(parents), 7, 1});
  });
  without_queues(kScanVertices, [&](Warp& warp) { connected_components(warp, {view, address(labels)}); });
  std::vector<u64> ranks(n), contributions(n), sums(n, 0);
  auto page_rank_over = [&](u32 symmetric) {
    view.frontiers[0] = view.frontiers[1] = {};
    state = LoopState{};
    state.step.scan = kScanVertices;
    state.step.threshold = kRankOne / n;
    on_threads(num_threads, [&](Warp& warp) {
      page_rank(warp, {view, address(ranks), address(contributions), address(sums), u64(1) << 63, 0, 5, symmetric, 0});
    });
  };
  page_rank_over(0);
  const std::vector<u64> handed_out(ranks);
  page_rank_over(1);  // as if every edge had its reverse
  require(error.code == 0, "no kernel failed");

  std::vector<u64> answers(distances);
  answers.insert(answers.end(), levels.begin(), levels.end());
  answers.insert(answers.end(), bfs_parents.begin(), bfs_parents.end());
  answers.insert(answers.end(), labels.begin(), labels.end());
  answers.insert(answers.end(), handed_out.begin(), handed_out.end());
  answers.insert(answers.end(), ranks.begin(), ranks.end());
  return answers;
}

Levels run_bfs(Graph& graph, Pages* pages, u32 num_threads, bool pulls, bool reads_lines) {
  const u64 n = graph.row_offsets.size() - 1;
  Levels found{std::vector<u32>(n, kUnreached)};
  std::vector<u32> queues[2][2];
  for (auto& frontier : queues) {
    frontier[0].resize(n);
    frontier[1].resize(graph.segment_first_vertex.size());
  }
  ErrorSlot error{};
  LoopState state{};
  std::vector<StepRecord> records(100);
  std::vector<u32> marks(graph.segment_first_vertex.size(), 0);
  BfsArgs args{};
  TraversalView& view = args.traversal;
  view.graph = graph.view();
  if (pages != nullptr) {
    view.graph.paged = 1;
    view.graph.page_table = pages->table();
    view.graph.frame_pool = pages->pool();
  }
  for (int i : {0, 1}) view.frontiers[i] = {address(queues[i][0]), address(queues[i][1])};
  view.state = reinterpret_cast<u64>(&state);
  view.records = address(records);
  view.max_records = records.size();
  view.error = reinterpret_cast<u64>(&error);
  view.stuck_after_ns = u64(60) * 1000000000;
  view.dense_edges = graph.columns.size() / 2;
  view.dense_items = ~u64(0);
  view.dense_scan = kScanSegments;
  args.levels = address(found.levels);
  args.num_reachable = n + 1;
  args.depth_limit = args.target = kUnreached;
  if (pulls) {
    args.incoming = view.graph;
    args.segment_marks = address(marks);
    args.fetch_bytes = kPageBytes;
    args.num_pages = graph.num_pages();
    args.num_frames = pages != nullptr ? pages->owners.size() : 0;
  }
  args.reads_lines = reads_lines;
  found.levels[7] = 0;
  const u64 first = graph.row_offsets[7] >> Graph::kSegmentShift;
  const u64 last = (graph.row_offsets[8] - 1) >> Graph::kSegmentShift;
  queues[0][0][0] = 7;
  for (u64 s = first + 1; s <= last; ++s) queues[0][1][s - first - 1] = u32(s);
  state.step.scan = kScanChunks;
  state.step.by_lines = reads_lines;
  state.step.num_vertices = 1;
  state.step.frontier_edges = graph.row_offsets[8] - graph.row_offsets[7];
  state.step.num_continuations = last - first;
  on_threads(num_threads, [&](Warp& warp) { bfs(warp, args); });
  require(error.code == 0, "no kernel failed");
  for (u64 i = 0; i < state.step.number; ++i) {
    found.num_head_steps += records[i].scan == kScanHeads;
    found.num_tail_steps += records[i].scan == kScanTails;
  }

  // 64 searches at once, from vertex 7 and those after it.
  std::vector<u64> seen(n, 0), frontier(n, 0), next(n, 0);
  found.of_batch.assign(n, 0xFF);
  found.of_batch[7] = 0;
  state = LoopState{};
  for (u64 s = 0; s < 64; ++s) {
    const u64 v = 7 + s, begin = graph.row_offsets[v], end = graph.row_offsets[v + 1];
    seen[v] = frontier[v] = u64(1) << s;
    queues[0][0][s] = u32(v);
    for (u64 segment = (begin >> Graph::kSegmentShift) + 1; begin != end && segment <= (end - 1) >> Graph::kSegmentShift; ++segment)
      queues[0][1][state.step.num_continuations++] = u32(segment);
    state.step.frontier_edges += end - begin;
  }
  state.step.scan = kScanChunks;
  state.step.num_vertices = 64;
  state.step.by_lines = reads_lines;
  state.step.window_begin = ~u64(0);  // all searches live
  std::vector<WaitingVertices> waiting(2, WaitingVertices{});
  BfsBatchArgs batch{};
  batch.search = args;
  batch.seen = address(seen);
  batch.frontier = address(frontier);
  batch.next = address(next);
  batch.waiting = address(waiting);
  std::vector<u64> log(2 * 64);
  batch.log = address(log);
  batch.log_entries = log.size() / 2;
  batch.all = ~u64(0);
  batch.num_rows = n;
  for (bool goes_on = true; goes_on;) {
    on_threads(num_threads, [&](Warp& warp) { bfs_batch(warp, batch); });
    // What the host does between runs, for the first search.
    Step& step = state.step;
    const u64 num_entries = entries_in_log(step);
    for (u64 i = 0; i < num_entries; ++i)
      if (log[2 * i] & 1) found.of_batch[u32(log[2 * i + 1])] = u8(log[2 * i + 1] >> 32);
    const bool is_dense = step.phase == kLevelInFrontier;
    for (u64 v = 0; is_dense && v < n; ++v)
      if (frontier[v] & 1) found.of_batch[v] = u8(step.level);
    const bool is_whole = step.frontier_edges == 0 || step.level >= args.depth_limit || step.threshold_before >= args.num_reachable;
    goes_on = error.code == 0 && !is_whole && (is_dense || num_entries > batch.log_entries / 2);
    const Step next = step;
    state = LoopState{};
    state.step = next;
    state.step.by_one_block = state.step.finished = state.step.phase = state.step.window_edges = 0;
  }
  require(error.code == 0, "no kernel failed");
  for (u64 v = 0; v < n; ++v)
    require(found.of_batch[v] == u8(found.levels[v]), "a search among others finds the levels that it finds alone");

  found.labels.resize(n);
  for (FrontierView& frontier : view.frontiers) frontier = {};
  state = LoopState{};
  state.step.scan = kScanVertices;
  on_threads(num_threads, [&](Warp& warp) {
    connected_components(warp, {view, address(found.labels), u32(pulls), 0});
  });
  require(error.code == 0, "no kernel failed");
  return found;
}

// Distances from vertex 7 with the edges split into bands by weight, which share the frames; with all windows wide, or
// none.
std::vector<u64> run_bands(Graph& graph, u64 num_frames, u64 policy, u32 num_threads, bool symmetric, bool wide) {
  const u64 n = graph.row_offsets.size() - 1;
  Graph bands[3] = {Graph(graph, 0, 1), Graph(graph, 1, 3), Graph(graph, 3, 255)};
  u64 num_pages = 0;
  std::vector<GraphView> views;
  for (Graph& band : bands) {
    views.push_back(band.view(num_pages));
    num_pages += band.num_pages();
  }
  Pages pages(num_pages, num_frames, policy);
  for (GraphView& view : views) {
    view.paged = 1;
    view.page_table = pages.table();
    view.frame_pool = pages.pool();
  }
  std::vector<u32> stamps(n, 0), parents(n, kNoParent);
  std::vector<u64> distances(n, kUnreachedDistance), histograms(3 * 2 * kSsspBins, 99);
  std::vector<u32> queues[2][2];
  for (auto& frontier : queues) {
    frontier[0].resize(n);
    frontier[1].resize(views[0].num_segments);
  }
  ErrorSlot error{};
  LoopState state{};
  std::vector<StepRecord> records(100);
  TraversalView view{};
  view.graph = views[0];
  for (int i : {0, 1}) view.frontiers[i] = {address(queues[i][0]), address(queues[i][1])};
  view.state = reinterpret_cast<u64>(&state);
  view.records = address(records);
  view.max_records = records.size();
  view.error = reinterpret_cast<u64>(&error);
  view.stuck_after_ns = u64(60) * 1000000000;
  view.dense_edges = views[0].num_edges / 2;
  view.dense_items = ~u64(0);
  view.dense_scan = kScanSegments;
  distances[7] = 0;
  stamps[7] = 1;
  state.step.scan = kScanSegments;
  state.step.threshold = state.step.window_end = 1;
  state.step.wide = wide;
  SsspArgs args{view, address(distances), address(stamps), 0, kUnreachedDistance - 1, 1, address(views), 3, {0, 1, 3}};
  args.window = 4;
  args.wide_edges = ~u64(0);
  args.histograms = address(histograms);
  args.bins_per_distance = bits_of(2.0);
  args.symmetric = symmetric;
  on_threads(num_threads, [&](Warp& warp) { sssp<IntegerWeight<u8>>(warp, args); });
  state = LoopState{};
  state.step.scan = kScanSegments;
  view.frontiers[0] = view.frontiers[1] = {};
  on_threads(num_threads, [&](Warp& warp) {
    sssp_parents<IntegerWeight<u8>>(warp, {view, address(distances), address(parents), 7, 3, address(views)});
  });
  require(error.code == 0, "no kernel failed");
  for (u64 v = 0; v < n; ++v)
    require((parents[v] == kNoParent) == (v == 7 || distances[v] == kUnreachedDistance), "whoever is reached has a parent");
  pages.require_quiet();
  return distances;
}

}  // namespace

int main() {
  for (u64 policy : {kEvictionFifo, kEvictionClock}) {
    read_random_pages(2, 16, policy);
    read_random_pages(4, 64, policy);
    Graph graph(3000);
    const std::vector<u64> expected = run_algorithms(graph, nullptr, 1);
    require(run_algorithms(graph, nullptr, 4) == expected, "four plain threads find what one finds");
    Pages pages(graph.num_pages(), 2 * 4, policy);
    require(run_algorithms(graph, &pages, 4) == expected, "four paged threads find what one plain thread finds");
    pages.require_quiet();
    std::printf("4 threads, %llu pages, 8 frames, policy %llu: BFS, SSSP, components and PageRank agree\n",
                u64(pages.entries.size()), policy);

    Graph joined(3000, true);
    std::vector<u64> distances = run_algorithms(joined, nullptr, 1);
    distances.resize(joined.row_offsets.size() - 1);
    for (bool wide : {false, true})
      require(run_bands(joined, 2 * 4, policy, 4, policy == kEvictionFifo, wide) == distances,
              "edges split by weight give the same");

    Graph undirected(20000, true);
    const Levels pushed = run_bfs(undirected, nullptr, 1, false);
    Pages few(undirected.num_pages(), 2 * 4, policy);
    for (int way : {0, 1, 2}) {
      Pages* paged = way == 0 ? nullptr : &few;
      const Levels pulled = run_bfs(undirected, paged, 4, true, way == 2);
      require(pulled.levels == pushed.levels, "pulling finds the levels of pushing");
      require(pulled.of_batch == pushed.of_batch, "a batch that pulls finds the levels of one that pushes");
      require(pulled.labels == pushed.labels, "components from a sample of the edges are those from all");
      require(pulled.num_head_steps > 0 && pulled.num_tail_steps > 0, "heads and tails were pulled");
      std::printf("4 threads, %s: %llu steps over heads and %llu over tails agree with pushes\n",
                  way == 0 ? "plain" : way == 1 ? "8 frames" : "8 frames and lines", pulled.num_head_steps, pulled.num_tail_steps);
    }
    few.require_quiet();
  }
}
