// A push step of breadth-first search: every edge of the frontier may give its end a level.
#pragma once

#include "traversal.cuh"

GPUVM_NAMESPACE_BEGIN

constexpr u32 kUnreached = ~u32(0);

struct BfsVisitor {
  u32* levels;
  u32* parents;  // null if not asked for
  u32 level;     // of this step's frontier

  GPUVM_DEVICE bool is_active(u32 u) const { return load_relaxed(&levels[u]) == level; }
  GPUVM_DEVICE u64 begin(u32) const { return 0; }

  GPUVM_DEVICE bool visit(u32 u, u64, u32 v, const EdgeRun&, u64) const {
    const u32 seen = load_relaxed(&levels[v]);
    bool found = false;
    if (seen == kUnreached)
      found = compare_exchange_relaxed(&levels[v], kUnreached, level + 1);
    else if (seen != level + 1)
      return false;
    // Every edge into the next level offers its parent; the smallest id stays, so that runs agree.
    if (parents != nullptr) min_relaxed(&parents[v], u);
    return found;
  }
};

GPUVM_DEVICE void bfs_step(Warp& warp, const BfsArgs& args) {
  traverse<UnitWeight>(warp, args.traversal,
                       BfsVisitor{pointer<u32>(args.levels), pointer<u32>(args.parents), args.level});
}

GPUVM_NAMESPACE_END
