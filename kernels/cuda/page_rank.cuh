// PageRank by power iteration (Page, Brin, Motwani, Winograd: "The PageRank Citation Ranking", 1999), a pass over all
// edges in address order each. What vertices without edges would hand on is spread evenly, as is what damping keeps back.
//
// Ranks are whole numbers of units of 2^-kRankShift. Rounding is down, once a vertex and once an edge, and what it takes
// away is spread evenly as well, so ranks add up to 1 but for a unit a vertex. Sums of whole numbers do not depend on
// their order: every grid, every scan and both directions give the same ranks, bit for bit.
#pragma once

#include "traversal.cuh"

GPUVM_NAMESPACE_BEGIN

constexpr u64 kRankOne = u64(1) << kRankShift;

// Number of the sum that the change of all ranks is, and of what all edges carry.
constexpr u32 kSumOfChanges = 0;
constexpr u32 kSumOfContributions = 1;

// What a lane has added up for the row that it is in: one atomic a row and lane instead of one an edge.
struct RowSum {
  u64* sums;
  u32 row = kNoVertex;
  u64 sum = 0;

  GPUVM_DEVICE void add(u32 u, u64 contribution) {
    if (u != row) {
      finish();
      row = u;
    }
    sum += contribution;
  }

  GPUVM_DEVICE void finish() {
    if (sum != 0) add_relaxed_only(&sums[row], sum);
    sum = 0;
  }
};

// Where every edge has its reverse: a vertex collects from its own row.
struct CollectVisitor {
  const u64* contributions;
  RowSum* row_sum;

  GPUVM_DEVICE bool is_active(u32) const { return true; }
  GPUVM_DEVICE u64 begin(u32) const { return 0; }
  GPUVM_DEVICE u64 look(u32, u32 v) const { return contributions[v]; }
  GPUVM_DEVICE bool visit(u32 u, u64&, u32, u64 contribution, const EdgeRun&, u64) const {
    row_sum->add(u, contribution);
    return false;
  }
};

// Else a vertex hands out along its row.
struct HandOutVisitor {
  const u64* contributions;
  u64* sums;

  GPUVM_DEVICE bool is_active(u32) const { return true; }
  GPUVM_DEVICE u64 begin(u32 u) const { return contributions[u]; }
  GPUVM_DEVICE u64 look(u32, u32) const { return 0; }
  GPUVM_DEVICE bool visit(u32, u64& contribution, u32 v, u64, const EdgeRun&, u64) const {
    if (contribution != 0) add_relaxed_only(&sums[v], contribution);
    return false;
  }
};

// New ranks of all vertices, what their edges carry from now on, and how far the ranks have moved.
GPUVM_DEVICE void rank_vertices(Warp& warp, const PageRankArgs& args, const StepView& view) {
  const u64* row_offsets = pointer<const u64>(view.graph.row_offsets);
  u64* ranks = pointer<u64>(args.ranks);
  u64* contributions = pointer<u64>(args.contributions);
  u64* sums = pointer<u64>(args.sums);
  u64 change = 0, carried = 0;
  for_each_vertex(warp, view, [&](u32 v, bool exists) {
    if (!exists) return;
    const u64 before = ranks[v], rank = view.step.threshold + load_relaxed(&sums[v]);
    const u64 degree = row_offsets[v + 1] - row_offsets[v];
    const u64 contribution = degree == 0 ? 0 : multiply_high(rank, args.damping) / degree;
    ranks[v] = rank;
    contributions[v] = contribution;
    store_relaxed(&sums[v], 0);
    change += rank < before ? before - rank : rank - before;
    carried += contribution * degree;
  });
  add_to_sum(warp, view, kSumOfChanges, change);
  add_to_sum(warp, view, kSumOfContributions, carried);
}

// Steps of even number give vertices their ranks, the first of them the same to all; those of odd number go over the
// edges.
GPUVM_DEVICE void page_rank(Warp& warp, const PageRankArgs& args) {
  const u64* contributions = pointer<const u64>(args.contributions);
  u64* sums = pointer<u64>(args.sums);
  run_steps(
      warp, args.traversal,
      [&](Warp& warp, const StepView& view) {
        if (view.step.scan == kScanVertices) {
          rank_vertices(warp, args, view);
        } else if (args.symmetric != 0) {
          RowSum row_sum{sums};
          traverse<UnitWeight>(warp, args.traversal, view, CollectVisitor{contributions, &row_sum});
          row_sum.finish();
        } else {
          traverse<UnitWeight>(warp, args.traversal, view, HandOutVisitor{contributions, sums});
        }
      },
      [&](Step& next, const Step& done, const StepCounters* counters) {
        next.scan = next.number % 2 == 0 ? kScanVertices : args.traversal.dense_scan;
        if (done.scan != kScanVertices) return true;
        const u64 carried = load_relaxed(&counters->sums[kSumOfContributions].value);
        next.threshold = (kRankOne - carried) / args.traversal.graph.num_vertices;
        next.threshold_before = load_relaxed(&counters->sums[kSumOfChanges].value);
        const u64 iterations = done.number / 2;
        return iterations < args.max_iterations && (iterations == 0 || next.threshold_before > args.tolerance);
      });
}

GPUVM_NAMESPACE_END
