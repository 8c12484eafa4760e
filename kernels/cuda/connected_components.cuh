// Connected components by union-find without locks: every edge links the trees of its two ends, once, whatever its
// direction; then every vertex takes the root of its tree. Roots only ever get a smaller parent, so the label of a
// component is its smallest id. (The link and compress of Sutton, Ben-Nun, Barak: "Optimizing Parallel Graph
// Connectivity Computation via Subgraph Sampling", IPDPS 2018, without the sampling.)
#pragma once

#include "traversal.cuh"

GPUVM_NAMESPACE_BEGIN

struct LinkVisitor {
  u32* labels;

  GPUVM_DEVICE bool is_active(u32) const { return true; }
  GPUVM_DEVICE u64 begin(u32) const { return 0; }

  GPUVM_DEVICE bool visit(u32 u, u64, u32 v, const EdgeRun&, u64) const {
    u32 a = load_relaxed(&labels[u]), b = load_relaxed(&labels[v]);
    while (a != b) {
      const u32 high = a < b ? b : a, low = a < b ? a : b;
      const u32 above = load_relaxed(&labels[high]);
      if (above == low) break;
      if (above == high && compare_exchange_relaxed(&labels[high], high, low)) break;
      a = load_relaxed(&labels[above]);
      b = load_relaxed(&labels[low]);
    }
    return false;
  }
};

// Three steps: every vertex is its own root; all edges link; every vertex takes its root.
GPUVM_DEVICE void connected_components(Warp& warp, const ComponentsArgs& args) {
  u32* labels = pointer<u32>(args.labels);
  run_steps(
      warp, args.traversal,
      [&](u32 number, u64, const StepView& step) {
        if (number == 0) {
          for_each_vertex(warp, step, [&](u32 v) { store_relaxed(&labels[v], v); });
        } else if (number == 1) {
          traverse<UnitWeight>(warp, args.traversal, step, args.traversal.dense_scan, LinkVisitor{labels});
        } else {
          for_each_vertex(warp, step, [&](u32 v) {
            u32 root = load_relaxed(&labels[v]);
            for (u32 above = load_relaxed(&labels[root]); above != root; above = load_relaxed(&labels[root]))
              root = above;
            store_relaxed(&labels[v], root);
          });
        }
      },
      [&](u32 next, u64) { return next < 3; });
}

GPUVM_NAMESPACE_END
