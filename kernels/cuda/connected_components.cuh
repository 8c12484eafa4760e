// Connected components by union-find without locks: every edge links the trees of its two ends, once, whatever its
// direction; then every vertex takes the root of its tree. Roots only ever get a smaller parent, so the label of a
// component is its smallest id. (Link and compress as in Sutton, Ben-Nun, Barak: "Optimizing Parallel Graph
// Connectivity Computation via Subgraph Sampling", IPDPS 2018, without the sampling; the paths shortened on the way up
// as in Jaiganesh, Burtscher: "A High-Performance Connected Components Implementation for GPUs", HPDC 2018.)
#pragma once

#include "traversal.cuh"

GPUVM_NAMESPACE_BEGIN

// The root of the tree that `v` is in, from `label`, what was read of labels[v]. On the way every vertex gets its
// parent's parent: an ancestor stays one, whatever others link meanwhile, so the plain store loses nothing.
GPUVM_DEVICE u32 find_root(u32* labels, u32 v, u32 label) {
  u32 below = v, here = label;
  while (below != here) {
    const u32 above = load_relaxed(&labels[here]);
    if (above == here) return here;
    store_relaxed(&labels[below], above);
    below = here;
    here = above;
  }
  return here;
}

struct LinkVisitor {
  u32* labels;
  bool symmetric;  // every edge comes twice: one of the two is enough

  GPUVM_DEVICE bool is_active(u32) const { return true; }
  GPUVM_DEVICE u64 begin(u32 u) const { return find_root(labels, u, load_relaxed(&labels[u])); }
  GPUVM_DEVICE u64 look(u32 u, u32 v) const { return symmetric && v > u ? kNoVertex : load_relaxed(&labels[v]); }

  // `root` is the root of u, or was: an ancestor of it.
  GPUVM_DEVICE bool visit(u32, u64& root, u32 v, u64 label, const EdgeRun&, u64) const {
    if (label == root || label == kNoVertex) return false;
    u32 a = u32(root), b = find_root(labels, v, u32(label));
    while (a != b) {
      const u32 high = a < b ? b : a, low = a < b ? a : b;
      a = low;
      const u32 above = compare_exchange_relaxed(&labels[high], high, low);
      if (above == high) break;
      b = find_root(labels, high, above);
    }
    root = a;
    return false;
  }
};

// Three steps: every vertex is its own root; all edges link; every vertex takes its root.
GPUVM_DEVICE void connected_components(Warp& warp, const ComponentsArgs& args) {
  u32* labels = pointer<u32>(args.labels);
  run_steps(
      warp, args.traversal,
      [&](Warp& warp, const StepView& view) {
        if (view.step.number == 0) {
          for_each_vertex(warp, view, [&](u32 v, bool exists) {
            if (exists) store_relaxed(&labels[v], v);
          });
        } else if (view.step.number == 1) {
          traverse<UnitWeight>(warp, args.traversal, view, LinkVisitor{labels, args.symmetric != 0});
        } else {
          for_each_vertex(warp, view, [&](u32 v, bool exists) {
            if (!exists) return;
            u32 root = load_relaxed(&labels[v]);
            for (u32 above = load_relaxed(&labels[root]); above != root; above = load_relaxed(&labels[root]))
              root = above;
            store_relaxed(&labels[v], root);
          });
        }
      },
      [&](Step& next, const Step&, const StepCounters*) {
        next.scan = next.number == 1 ? args.traversal.dense_scan : kScanVertices;
        return next.number < 3;
      });
}

GPUVM_NAMESPACE_END
