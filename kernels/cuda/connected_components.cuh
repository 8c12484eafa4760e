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

GPUVM_DEVICE void components_link(Warp& warp, const ComponentsArgs& args) {
  traverse<UnitWeight>(warp, args.traversal, LinkVisitor{pointer<u32>(args.labels)});
}

GPUVM_DEVICE void components_compress(Warp& warp, const ComponentsArgs& args) {
  u32* labels = pointer<u32>(args.labels);
  u64 first, last;
  while (take_work(warp, args.traversal, args.traversal.graph.num_vertices, 1024, first, last)) {
    for (u64 v = first + warp.lane; v < last; v += kLanes) {
      u32 root = load_relaxed(&labels[v]);
      for (u32 above = load_relaxed(&labels[root]); above != root; above = load_relaxed(&labels[root])) root = above;
      store_relaxed(&labels[v], root);
    }
  }
}

GPUVM_NAMESPACE_END
