// Single-source shortest paths by buckets (Meyer, Sanders: "Delta-stepping: a parallelizable shortest path algorithm",
// 2003), with one near bucket and all the rest far (Davidson, Baxter, Garland, Owens: "Work-Efficient Parallel GPU
// Methods for Single-Source Shortest Paths", IPDPS 2014). Steps relax the edges of the vertices whose distance fell
// below the threshold in the step before, until there are none; then a step raises the threshold and finds the next
// vertices among all. That far vertices are found by a look at all distances, not kept in a pile, costs 40 us a bucket
// for 16 million, and no memory. With one bucket that holds all it is the algorithm of Bellman and Ford.
//
// Distances are u64 words (paged_slice.cuh says why one minimum serves integers and reals).
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
  u64 threshold;
  u32 step;

  GPUVM_DEVICE bool is_active(u32 u) const { return load_relaxed(&stamps[u]) == step; }
  GPUVM_DEVICE u64 begin(u32 u) const { return load_relaxed(&distances[u]); }

  GPUVM_DEVICE u64 look(u32, u32 v) const { return load_relaxed(&distances[v]); }

  GPUVM_DEVICE bool visit(u32 u, u64& distance, u32 v, u64 seen, const EdgeRun& run, u64 i) const {
    const u64 offered = Weight::extend(distance, run.weights, i, u, v);
    if (offered >= seen || offered > limit) return false;
    if (bound != nullptr && offered > load_relaxed(bound)) return false;
    if (offered >= min_relaxed(&distances[v], offered) || offered >= threshold) return false;
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
  const u32* original_ids;  // by which parents are called; null where rows are vertices
  u32 source;

  GPUVM_DEVICE bool is_active(u32 u) const {
    return kTied ? u == source || load_relaxed(&parents[u]) != kNoParent
                 : load_relaxed(&distances[u]) != kUnreachedDistance;
  }
  GPUVM_DEVICE u64 begin(u32 u) const { return load_relaxed(&distances[u]); }

  GPUVM_DEVICE u64 look(u32, u32 v) const { return load_relaxed(&distances[v]); }

  GPUVM_DEVICE bool visit(u32 u, u64& distance, u32 v, u64 end, const EdgeRun& run, u64 i) const {
    if (v == source || Weight::extend(distance, run.weights, i, u, v) != end) return false;
    if (!kTied && distance >= end) return false;
    const u32 id = original_ids != nullptr ? original_ids[u] : u;
    if constexpr (kTied) return compare_exchange_relaxed(&parents[v], kNoParent, id) == kNoParent;
    min_relaxed(&parents[v], id);
    return false;
  }
};

// Puts the vertices whose distance lies between the last threshold and this one into the next frontier, and finds the
// least distance beyond.
GPUVM_DEVICE void next_bucket(Warp& warp, const SsspArgs& args, const StepView& view) {
  const u64* distances = pointer<const u64>(args.distances);
  u32* stamps = pointer<u32>(args.stamps);
  const u64 bound = args.bound == 0 ? args.limit : smaller(args.limit, load_relaxed(pointer<const u64>(args.bound)));
  u64 least = kUnreachedDistance;
  for_each_vertex(warp, view, [&](u32 v, bool exists) {
    const u64 distance = exists ? load_relaxed(&distances[v]) : kUnreachedDistance;
    const bool waits = distance >= view.step.threshold_before && distance <= bound;
    const bool is_near = waits && distance < view.step.threshold;
    if (is_near)
      store_relaxed(&stamps[v], u32(view.step.number + 2));
    else if (waits)
      least = smaller(least, distance);
    push(warp, is_near, v);
    make_room(warp, view);
  });
  for (u32 distance = kLanes / 2; distance != 0; distance /= 2)
    least = smaller(least, warp.read_lane(least, warp.lane ^ distance));
  if (warp.leads() && ~least > load_relaxed(&view.counters->complement_of_minimum.value))
    max_relaxed(&view.counters->complement_of_minimum.value, ~least);
}

template <class Weight>
GPUVM_DEVICE void sssp(Warp& warp, const SsspArgs& args) {
  run_steps(
      warp, args.traversal,
      [&](Warp& warp, const StepView& view) {
        if (view.step.scan == kScanVertices)
          next_bucket(warp, args, view);
        else
          traverse<Weight>(warp, args.traversal, view,
                           SsspVisitor<Weight>{pointer<u64>(args.distances), pointer<u32>(args.stamps),
                                               pointer<const u64>(args.bound), args.limit, view.step.threshold,
                                               u32(view.step.number + 1)});
      },
      [&](Step& next, const Step& done, const StepCounters* counters) {
        if (next.frontier != 0) return true;
        if (next.threshold == kUnreachedDistance) return false;
        // The bucket is empty. The next one begins at its end; or, if that was looked at already and nothing found in
        // it, at the least distance beyond.
        const u64 least = ~load_relaxed(&counters->complement_of_minimum.value);
        const bool looked = done.scan == kScanVertices;
        if (looked && least == kUnreachedDistance) return false;
        const u64 begin = looked ? least : next.threshold;
        next.threshold_before = begin;
        next.threshold = Weight::sum(begin, args.delta);
        if (next.threshold <= begin) next.threshold = begin + 1;  // reals far larger than delta
        next.scan = kScanVertices;
        return true;
      });
}

// Passes over all edges, each followed by a count of the vertices that have no parent yet, which stands where other
// algorithms count the next frontier's edges.
template <class Weight>
GPUVM_DEVICE void sssp_parents(Warp& warp, const SsspParentsArgs& args) {
  const u64* distances = pointer<const u64>(args.distances);
  u32* parents = pointer<u32>(args.parents);
  const u32* original_ids = pointer<const u32>(args.original_ids);
  run_steps(
      warp, args.traversal,
      [&](Warp& warp, const StepView& view) {
        if (view.step.number == 0)
          traverse<Weight>(warp, args.traversal, view,
                           SsspParentsVisitor<Weight, false>{distances, parents, original_ids, args.source});
        else if (view.step.number % 2 == 0)
          traverse<Weight>(warp, args.traversal, view,
                           SsspParentsVisitor<Weight, true>{distances, parents, original_ids, args.source});
        else
          for_each_vertex(warp, view, [&](u32 v, bool exists) {
            const u32 orphans = warp.ballot(exists && v != args.source &&
                                            load_relaxed(&distances[v]) != kUnreachedDistance &&
                                            load_relaxed(&parents[v]) == kNoParent);
            if (warp.leads()) warp.stats.next_edges += count_bits(orphans);
          });
      },
      [&](Step& next, const Step&, const StepCounters*) {
        next.scan = next.number % 2 == 0 ? args.traversal.dense_scan : kScanVertices;
        return next.number % 2 == 1 || next.frontier_edges != 0;
      });
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
