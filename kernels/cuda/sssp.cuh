// Single-source shortest paths after Bellman and Ford, restricted to the vertices whose distance fell in the step
// before. Distances are u64 words (paged_slice.cuh says why one minimum serves integers and reals).
#pragma once

#include "traversal.cuh"

GPUVM_NAMESPACE_BEGIN

constexpr u64 kUnreachedDistance = ~u64(0);
constexpr u32 kNoParent = ~u32(0);

// A vertex is in the frontier of the step whose number, from 1, is its stamp. If it is stamped for the next step before
// its turn in this one, a dense scan passes it over: the next step relaxes its edges from the smaller distance.
template <class Weight>
struct SsspVisitor {
  u64* distances;
  u32* stamps;
  const u64* bound;  // null without a target
  u64 limit;
  u32 step;

  GPUVM_DEVICE bool is_active(u32 u) const { return load_relaxed(&stamps[u]) == step; }
  GPUVM_DEVICE u64 begin(u32 u) const { return load_relaxed(&distances[u]); }

  GPUVM_DEVICE u64 look(u32, u32 v) const { return load_relaxed(&distances[v]); }

  GPUVM_DEVICE bool visit(u32 u, u64& distance, u32 v, u64 seen, const EdgeRun& run, u64 i) const {
    const u64 offered = Weight::extend(distance, run.weights, i, u, v);
    if (offered >= seen || offered > limit) return false;
    if (bound != nullptr && offered > load_relaxed(bound)) return false;
    if (offered >= min_relaxed(&distances[v], offered)) return false;
    return exchange_relaxed(&stamps[v], step + 1) != step + 1;
  }
};

// Parents of finished distances. An edge is tight if its end is exactly as far as its start and its weight say. First
// the tight edges from nearer vertices offer parents, the smallest id stays. Vertices that have only tight edges from
// as far as themselves (weight 0) then take one whose way to the source is already known: that makes no cycle.
template <class Weight, bool kTied>
struct SsspParentsVisitor {
  const u64* distances;
  u32* parents;
  u32 source;

  GPUVM_DEVICE bool is_active(u32 u) const {
    return kTied ? u == source || load_relaxed(&parents[u]) != kNoParent
                 : load_relaxed(&distances[u]) != kUnreachedDistance;
  }
  GPUVM_DEVICE u64 begin(u32 u) const { return load_relaxed(&distances[u]); }

  GPUVM_DEVICE u64 look(u32, u32 v) const { return load_relaxed(&distances[v]); }

  GPUVM_DEVICE bool visit(u32 u, u64& distance, u32 v, u64 end, const EdgeRun& run, u64 i) const {
    if (v == source || Weight::extend(distance, run.weights, i, u, v) != end) return false;
    if constexpr (kTied) return compare_exchange_relaxed(&parents[v], kNoParent, u);
    if (distance < end) min_relaxed(&parents[v], u);
    return false;
  }
};

template <class Weight>
GPUVM_DEVICE void sssp(Warp& warp, const SsspArgs& args) {
  run_steps(
      warp, args.traversal,
      [&](u32 number, u64 scan, const StepView& step) {
        traverse<Weight>(warp, args.traversal, step, scan,
                         SsspVisitor<Weight>{pointer<u64>(args.distances), pointer<u32>(args.stamps),
                                             pointer<const u64>(args.bound), args.limit, number + 1});
      },
      [&](const LoopState& next) { return next.frontier_edges != 0; });
}

// Passes over all edges, each followed by a count of the vertices that have no parent yet, which stands where other
// algorithms count the next frontier's edges.
template <class Weight>
GPUVM_DEVICE void sssp_parents(Warp& warp, const SsspParentsArgs& args) {
  const u64* distances = pointer<const u64>(args.distances);
  u32* parents = pointer<u32>(args.parents);
  run_steps(
      warp, args.traversal,
      [&](u32 number, u64, const StepView& step) {
        const u64 scan = args.traversal.dense_scan;
        if (number == 0)
          traverse<Weight>(warp, args.traversal, step, scan,
                           SsspParentsVisitor<Weight, false>{distances, parents, args.source});
        else if (number % 2 == 0)
          traverse<Weight>(warp, args.traversal, step, scan,
                           SsspParentsVisitor<Weight, true>{distances, parents, args.source});
        else
          for_each_vertex(warp, step, [&](u32 v) {
            const bool reached = load_relaxed(&distances[v]) != kUnreachedDistance;
            if (reached && v != args.source && load_relaxed(&parents[v]) == kNoParent) ++warp.stats.next_edges;
          });
      },
      [&](const LoopState& next) { return next.step % 2 == 1 || next.frontier_edges != 0; });
}

// Calls `body` with the weights' type.
template <class Body>
GPUVM_DEVICE void with_weights_of(u32 type, Body body) {
  switch (type) {
    case kWeightUnit: return body(UnitWeight{});
    case kWeightHash: return body(HashWeight{});
    case kWeightU8: return body(IntegerWeight<u8>{});
    case kWeightU16: return body(IntegerWeight<u16>{});
    case kWeightU32: return body(IntegerWeight<u32>{});
    case kWeightF32: return body(RealWeight<f32>{});
    default: return body(RealWeight<f64>{});
  }
}

GPUVM_NAMESPACE_END
