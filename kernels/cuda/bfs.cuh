// Breadth-first search: in each step, every edge of the frontier may give its end a level.
#pragma once

#include "traversal.cuh"

GPUVM_NAMESPACE_BEGIN

constexpr u32 kUnreached = ~u32(0);

struct BfsVisitor {
  u32* levels;
  u32* parents;  // null if not asked for
  u32 level;     // of this step's frontier
  bool exchanges_first;  // few edges: what a visit finds out by its exchange need not be looked up before

  GPUVM_DEVICE bool is_active(u32 u) const { return load_relaxed(&levels[u]) == level; }
  GPUVM_DEVICE u64 begin(u32) const { return 0; }

  GPUVM_DEVICE u64 look(u32, u32 v) const { return exchanges_first ? kUnreached : load_relaxed(&levels[v]); }

  GPUVM_DEVICE bool visit(u32 u, u64&, u32 v, u64 seen, const EdgeRun&, u64) const {
    if (seen == kUnreached) seen = compare_exchange_relaxed(&levels[v], kUnreached, level + 1);
    const bool found = seen == kUnreached;
    // Every edge into the next level offers its parent; the smallest id stays, so that runs agree.
    if (parents != nullptr && (found || seen == level + 1)) min_relaxed(&parents[v], u);
    return found;
  }
};

GPUVM_DEVICE void bfs(Warp& warp, const BfsArgs& args) {
  u32* levels = pointer<u32>(args.levels);
  run_steps(
      warp, args.traversal,
      [&](Warp& warp, const StepView& view) {
        traverse<UnitWeight>(warp, args.traversal, view,
                             BfsVisitor{levels, pointer<u32>(args.parents), u32(view.step.number),
                                        view.step.by_one_block != 0});
      },
      [&](const Step& next, const Step&, const StepCounters*) {
        // The target's level may be changing while this is asked, but then to a larger one than the next step's.
        return next.frontier_edges != 0 && next.number < args.depth_limit &&
               1 + next.total_discovered < args.num_reachable &&
               (args.target == kUnreached || load_relaxed(&levels[args.target]) > next.number);
      });
}

GPUVM_NAMESPACE_END
