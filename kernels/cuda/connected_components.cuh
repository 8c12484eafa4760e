// Connected components by union-find without locks: an edge links the trees of its two ends, then every vertex takes the
// root of its tree. Roots only ever get a smaller parent, so the label of a component is its smallest number.
//
// Where every edge has its reverse and there are heads, edges are sampled (Afforest: Sutton, Ben-Nun, Barak: "Optimizing
// Parallel Graph Connectivity Computation via Subgraph Sampling", IPDPS 2018): the heads of all vertices link first, which
// mostly leaves one large component; a sample of the labels finds it; and of the other edges only those in rows of vertices
// outside link. An edge that leads into the large component from outside is in a row that is looked at, so nothing is lost.
// Else every edge links, once. (Paths are shortened on the way up as in Jaiganesh, Burtscher: "A High-Performance Connected
// Components Implementation for GPUs", HPDC 2018.)
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

// Joins the trees of `root`, which is a root or was, and of `v`, from `label`, what was read of labels[v]. Returns the
// root of both, or what was.
GPUVM_DEVICE u32 link(u32* labels, u32 root, u32 v, u32 label) {
  u32 a = root, b = find_root(labels, v, label);
  while (a != b) {
    const u32 high = a < b ? b : a, low = a < b ? a : b;
    a = low;
    const u32 above = compare_exchange_relaxed(&labels[high], high, low);
    if (above == high) break;
    b = find_root(labels, high, above);
  }
  return a;
}

// Every edge.
struct LinkVisitor {
  u32* labels;
  bool symmetric;  // every edge comes twice: one of the two is enough

  GPUVM_DEVICE bool is_active(u32) const { return true; }
  GPUVM_DEVICE u64 begin(u32 u) const { return find_root(labels, u, load_relaxed(&labels[u])); }
  GPUVM_DEVICE u64 look(u32 u, u32 v) const { return symmetric && v > u ? kNoVertex : load_relaxed(&labels[v]); }

  // `root` is the root of u, or was: an ancestor of it.
  GPUVM_DEVICE bool visit(u32, u64& root, u32 v, u64 label, const EdgeRun&, u64) const {
    if (label != root && label != kNoVertex) root = link(labels, u32(root), v, u32(label));
    return false;
  }
};

// The edges beyond the heads, of vertices outside the component whose root was `largest`. One that has come into it since
// may be passed over as well: then both ends of an edge that nobody looks at are in it.
struct RestVisitor {
  u32* labels;
  const u64* row_offsets;
  u64 num_heads;
  u32 largest;

  GPUVM_DEVICE bool is_active(u32 u) const {
    return row_offsets[u + 1] - row_offsets[u] > num_heads && load_relaxed(&labels[u]) != largest;
  }
  GPUVM_DEVICE u64 begin(u32 u) const { return find_root(labels, u, load_relaxed(&labels[u])); }
  GPUVM_DEVICE u64 look(u32, u32 v) const { return load_relaxed(&labels[v]); }
  GPUVM_DEVICE bool visit(u32, u64& root, u32 v, u64 label, const EdgeRun&, u64) const {
    if (label != root) root = link(labels, u32(root), v, u32(label));
    return false;
  }
};

// Every vertex is its own root.
GPUVM_DEVICE void begin_components(Warp& warp, const StepView& view, u32* labels) {
  for_each_vertex(warp, view, [&](u32 v, bool exists) {
    if (exists) store_relaxed(&labels[v], v);
  });
}

GPUVM_DEVICE void link_heads(Warp& warp, const ComponentsArgs& args, const StepView& view, u32* labels) {
  const GraphView& graph = args.traversal.graph;
  const u64* row_offsets = pointer<const u64>(graph.row_offsets);
  const u32 num_heads = u32(1) << graph.heads_shift;
  u64 linked = 0;
  for_each_heads(
      warp, args.traversal, graph, view, [](u32) { return true; },
      [&](u32 v, bool wanted, const u32* heads) {
        u32 root = wanted ? load_relaxed(&labels[v]) : 0;
        for (u32 i = 0; wanted && i < num_heads && heads[i] != kNoVertex; ++i) {
          const u32 head = heads[i];
          if (head >= graph.num_vertices) {
            report_error(view.error, kErrorColumnOutOfRange, row_offsets[v] + i, head);
            break;
          }
          ++linked;
          root = link(labels, root, head, load_relaxed(&labels[head]));
        }
      });
  linked = warp.sum(linked);
  if (warp.leads()) warp.stats.edges += linked;
}

// Every vertex takes the root of its tree.
GPUVM_DEVICE void compress(Warp& warp, const StepView& view, u32* labels) {
  WorkItems work{view.graph.num_vertices, 1024};
  u64 first, last;
  while (work.take(warp, view, first, last))
    for (; first < last; first += kEdgesInFlight * kLanes) {
      // Most trees are one or two high: both accesses of several vertices before the first is used.
      u32 label[kEdgesInFlight], above[kEdgesInFlight];
      for (u32 k = 0; k < kEdgesInFlight; ++k) {
        const u64 v = first + k * kLanes + warp.lane;
        label[k] = v < last ? load_relaxed(&labels[v]) : kNoVertex;
      }
      for (u32 k = 0; k < kEdgesInFlight; ++k)
        above[k] = label[k] != kNoVertex ? load_relaxed(&labels[label[k]]) : kNoVertex;
      for (u32 k = 0; k < kEdgesInFlight; ++k) {
        u32 root = label[k];
        for (u32 next = above[k]; next != root; next = load_relaxed(&labels[root])) root = next;
        if (root != label[k]) store_relaxed(&labels[first + k * kLanes + warp.lane], root);
      }
    }
}

// The label of most vertices, if more than half have it: each lane takes a majority vote over a part of a sample (Boyer,
// Moore: "MJRTY", 1991), and the votes are put together. If none is so frequent, it is some label, which costs time and
// nothing else. Roots do not vote: among them are all vertices without edges. By one warp, so it is the same in every run.
GPUVM_DEVICE void sample_labels(Warp& warp, const StepView& view, const u32* labels) {
  constexpr u32 kSample = 1024;
  if (warp.warp != 0) return;
  u32 candidate = 0, votes = 0;
  auto vote = [&](u32 label, u32 times) {
    if (label == candidate || votes == 0) {
      candidate = label;
      votes += times;
    } else if (times > votes) {
      candidate = label;
      votes = times - votes;
    } else {
      votes -= times;
    }
  };
  for (u32 i = warp.lane; i < kSample; i += kLanes) {
    const u64 mixed = (u64(i) + 1) * 0x9E3779B97F4A7C15ull;
    const u32 v = u32(multiply_high(mixed ^ mixed >> 29, view.graph.num_head_vertices));
    const u32 label = load_relaxed(&labels[v]);
    if (label != v) vote(label, 1);
  }
  for (u32 lane = 1; lane < kLanes; ++lane) {
    const u32 label = warp.read_lane(candidate, lane), times = warp.read_lane(votes, lane);
    if (warp.leads() && times != 0) vote(label, times);
  }
  if (warp.leads()) add_relaxed_only(&view.counters->sums[0].value, candidate);
}

// Steps with heads: every vertex is its own root; heads link; every vertex takes its root; the largest component is looked
// for; the other edges of vertices outside link; every vertex takes its root. Without heads: the first, all edges, the last.
GPUVM_DEVICE void connected_components(Warp& warp, const ComponentsArgs& args) {
  const GraphView& graph = args.traversal.graph;
  u32* labels = pointer<u32>(args.labels);
  const bool samples = args.symmetric != 0 && graph.num_head_vertices != 0;
  run_steps(
      warp, args.traversal,
      [&](Warp& warp, const StepView& view) {
        const u64 number = view.step.number;
        if (number == 0) {
          begin_components(warp, view, labels);
        } else if (view.step.scan == kScanHeads) {
          link_heads(warp, args, view, labels);
        } else if (view.step.scan != kScanVertices) {
          if (samples)
            traverse<UnitWeight>(warp, args.traversal, view,
                                 RestVisitor{labels, pointer<const u64>(graph.row_offsets),
                                             u64(1) << graph.heads_shift, u32(view.step.threshold)});
          else
            traverse<UnitWeight>(warp, args.traversal, view, LinkVisitor{labels, args.symmetric != 0});
        } else if (samples && number == 3) {
          sample_labels(warp, view, labels);
        } else {
          compress(warp, view, labels);
        }
      },
      [&](Step& next, const Step& done, const StepCounters* counters) {
        next.scan = kScanVertices;
        if (!samples) {
          if (next.number == 1) next.scan = args.traversal.dense_scan;
          return next.number < 3;
        }
        if (next.number == 1) next.scan = kScanHeads;
        if (next.number == 4) {
          next.threshold = load_relaxed(&counters->sums[0].value);
          next.scan = args.traversal.dense_scan;
        }
        if (done.scan == kScanHeads) next.heads_resident = args.heads_stay;
        return next.number < 6;
      });
}

GPUVM_NAMESPACE_END
