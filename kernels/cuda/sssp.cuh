// Single-source shortest paths by buckets (Meyer, Sanders: "Delta-stepping: a parallelizable shortest path algorithm",
// 2003), with one near bucket and all the rest far (Davidson, Baxter, Garland, Owens: "Work-Efficient Parallel GPU
// Methods for Single-Source Shortest Paths", IPDPS 2014). Steps relax the edges of the vertices whose distance fell
// below the threshold in the step before, until there are none; then a step raises the threshold and finds the next
// vertices among all. That far vertices are found by a look at all distances, not kept in a pile, costs 40 us a bucket
// for 16 million, and no memory. With one bucket that holds all it is the algorithm of Bellman and Ford.
//
// Where edges are split by weight into bands (engine/src/graph/weight_bands.rs), steps relax those of the light band, and
// heavy bands are passed over in address order, each page once, when all that light edges can do is done. That is the
// rule of delta-stepping for heavy edges, with windows of distances in the place of its buckets:
//
// * A window begins where all distances below are final and all their edges relaxed. It is as wide as a bucket as long
//   as few vertices fall into one; then it is wide, and buckets are only an order within it.
// * An edge of a heavy band, of weight w at least, may matter only from a vertex u that came nearer since the band was
//   passed last ("changed"), to a vertex v that is farther than u's distance + w.
// * So for any bound X a pass may leave out the rows of changed u from X on, if instead all v farther than X + w look
//   for a way of their own along their rows: every edge has its reverse. Those between are part of neither. X is
//   chosen by histograms of the rows' edges over distances; X beyond all is the pass for directed graphs.
// * A pass is followed by light steps for the vertices that came nearer. If it brought none nearer the next band is
//   passed, and after the last the window is final.
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

// A pass over a heavy band: rows offer distances to their ends, and take distances from them where the graph is
// symmetric. Both are shorter ways if they are any, whichever made the row take part.
template <class Weight>
struct HeavyVisitor {
  SsspVisitor<Weight> relax;
  const Step* of;
  u64 floor;
  u32 passed;
  bool symmetric;

  GPUVM_DEVICE bool is_active(u32 u) const {
    const u64 distance = load_relaxed(&relax.distances[u]);
    if (distance > of->pull_above) return true;
    return distance >= of->window_begin && distance < of->push_below && Weight::sum(distance, floor) < of->cutoff &&
           load_relaxed(&relax.stamps[u]) > passed;
  }
  GPUVM_DEVICE u64 begin(u32 u) const { return relax.begin(u); }
  GPUVM_DEVICE u64 look(u32 u, u32 v) const { return relax.look(u, v); }

  GPUVM_DEVICE bool visit(u32 u, u64& distance, u32& v, u64 seen, const EdgeRun& run, u64 i) const {
    if (distance <= seen) return distance != kUnreachedDistance && relax.visit(u, distance, v, seen, run, i);
    // The other way round, so it is u that may come nearer.
    if (!symmetric) return false;
    const u32 from = v;
    v = u;
    return relax.visit(from, seen, v, distance, run, i);
  }
};

// The distance beyond which nothing is relaxed.
GPUVM_DEVICE u64 farthest(const SsspArgs& args) {
  return args.bound == 0 ? args.limit : smaller(args.limit, load_relaxed(pointer<const u64>(args.bound)));
}

// Notes the least of what the lanes found.
GPUVM_DEVICE void note_least(const Warp& warp, const StepView& view, u64 least) {
  for (u32 distance = kLanes / 2; distance != 0; distance /= 2)
    least = smaller(least, warp.read_lane(least, warp.lane ^ distance));
  if (warp.leads() && ~least > load_relaxed(&view.counters->complement_of_minimum.value))
    max_relaxed(&view.counters->complement_of_minimum.value, ~least);
}

// Puts the vertices whose distance lies between the last threshold and this one into the next frontier, and finds the
// least distance beyond.
GPUVM_DEVICE void next_bucket(Warp& warp, const SsspArgs& args, const StepView& view) {
  const u64* distances = pointer<const u64>(args.distances);
  u32* stamps = pointer<u32>(args.stamps);
  const u64 bound = farthest(args);
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
  note_least(warp, view, least);
}

// Edges of a row that a histogram counts at most: of a page, about.
constexpr u64 kCountedEdges = 2048;

// Bins of the changed vertices' edges, and after them of all vertices', of step `number`; of the step after they are
// set to zero meanwhile, as counters are.
GPUVM_DEVICE u64* bins_of_step(const SsspArgs& args, u64 number) {
  return pointer<u64>(args.histograms) + number % 3 * (2 * kSsspBins);
}

// What a pass over the band would be good for: the nearest of the changed vertices, the farthest of those that an edge
// of the band leads to, and the histograms.
template <class Weight>
GPUVM_DEVICE void measure(Warp& warp, const SsspArgs& args, const StepView& view) {
  const u64* distances = pointer<const u64>(args.distances);
  const u32* stamps = pointer<const u32>(args.stamps);
  const RowOffsets row_offsets(pointer<const GraphView>(args.bands)[view.step.band]);
  u64* changed_bins = bins_of_step(args, view.step.number);
  const f64 begin = Weight::to_real(view.step.window_begin), scale = double_of(args.bins_per_distance);
  const u64 beyond = farthest(args) + 1;
  const u32 passed = u32(view.step.passed[view.step.band]);
  u64 least = kUnreachedDistance, most = 0;
  for_each_vertex(warp, view, [&](u32 v, bool exists) {
    if (!exists) return;
    const u64 distance = load_relaxed(&distances[v]), num_edges = row_offsets[v + 1] - row_offsets[v];
    if (num_edges == 0 || distance < view.step.window_begin) return;
    const u64 capped = smaller(distance, beyond);
    most = most < capped ? capped : most;
    const bool changed =
        distance < view.step.window_end && distance < beyond && load_relaxed(&stamps[v]) > passed;
    if (changed) least = smaller(least, distance);
    if ((v & args.sample_mask) != 0) return;
    const f64 at = (Weight::to_real(distance) - begin) * scale;  // not a number for unreached reals
    const u32 bin = at < f64(kSsspBins - 1) ? u32(at) : u32(kSsspBins - 1);
    const u64 counted = smaller(num_edges, kCountedEdges);
    if (changed) add_relaxed_only(&changed_bins[bin], counted);
    add_relaxed_only(&changed_bins[kSsspBins + bin], counted);
  });
  note_least(warp, view, least);
  for (u32 distance = kLanes / 2; distance != 0; distance /= 2) {
    const u64 other = warp.read_lane(most, warp.lane ^ distance);
    most = most < other ? other : most;
  }
  if (warp.leads() && most > load_relaxed(&view.counters->maximum.value))
    max_relaxed(&view.counters->maximum.value, most);
}

// Which step comes next, if one does. A block's leader asks, and all come to the same.
template <class Weight>
struct SsspPlan {
  const SsspArgs& args;
  Step& next;

  GPUVM_DEVICE static u64 later(u64 begin, u64 width) {
    if (width == kUnreachedDistance) return width;
    const u64 end = Weight::sum(begin, width);
    return end <= begin ? begin + 1 : end;  // reals far larger than the width
  }

  // A look for the vertices of a bucket.
  GPUVM_DEVICE bool bucket(u64 begin) {
    next.threshold_before = begin;
    next.threshold = smaller(later(begin, args.delta), next.window_end);
    next.phase = kPhaseBucket;
    next.scan = kScanVertices;
    return true;
  }

  GPUVM_DEVICE bool window(u64 begin) {
    if (begin == kUnreachedDistance) return false;
    next.window_begin = begin;
    next.window_end = later(begin, next.wide ? args.window : args.delta);
    next.window_edges = 0;
    return bucket(begin);
  }

  // All that light edges, and the bands before this one, can do in the window is done.
  GPUVM_DEVICE bool heavy(u64 band) {
    if (band >= args.num_bands) return window(next.window_end);
    next.threshold = next.window_end;
    next.band = band;
    if (next.wide) {
      next.phase = kPhaseMeasure;
      next.scan = kScanVertices;
      return true;
    }
    return pass(kUnreachedDistance, kUnreachedDistance, kUnreachedDistance);
  }

  GPUVM_DEVICE bool pass(u64 push_below, u64 pull_above, u64 cutoff) {
    next.push_below = smaller(push_below, next.window_end);
    next.pull_above = pull_above;
    next.cutoff = cutoff;
    next.phase = kPhaseHeavy;
    next.scan = kScanSegments;
    return true;
  }

  // The pass that looks at the fewest edges, after a measurement.
  GPUVM_DEVICE bool cheapest_pass(const Step& done, u64 cutoff) {
    const u64* changed = bins_of_step(args, done.number);
    const u64* all = changed + kSsspBins;
    const u64 floor = args.floors[done.band];
    const f64 scale = double_of(args.bins_per_distance), floor_bins = Weight::to_real(floor) * scale;
    const u64 ahead = floor_bins < f64(kSsspBins) ? u64(floor_bins) : kSsspBins - 1;
    u64 best = 0, best_at = kSsspBins, pushed = 0, pulled = 0;
    for (u32 i = 0; i < kSsspBins; ++i) {
      best += load_relaxed(&changed[i]);
      if (i >= ahead) pulled += load_relaxed(&all[i]);
    }
    for (u32 i = 0; args.symmetric && i < kSsspBins; ++i) {
      if (pushed + pulled < best) {
        best = pushed + pulled;
        best_at = i;
      }
      pushed += load_relaxed(&changed[i]);
      // Whoever is farther than all bins is in the last one.
      if (i + ahead < kSsspBins - 1) pulled -= load_relaxed(&all[i + ahead]);
    }
    if (best_at == kSsspBins) return pass(kUnreachedDistance, kUnreachedDistance, cutoff);
    const u64 push_below = Weight::from_real(Weight::to_real(done.window_begin) + f64(best_at) / scale);
    return pass(push_below, Weight::sum(push_below, floor), cutoff);
  }

  GPUVM_DEVICE bool after(const Step& done, const StepCounters* counters) {
    // Whoever came nearer in that step or later has a greater stamp.
    if (done.phase == kPhaseHeavy) next.passed[done.band] = done.number + 1;
    next.window_edges = done.window_edges + next.frontier_edges;
    if (args.num_bands > 1 && !next.wide && next.window_edges > args.wide_edges) {
      next.wide = 1;
      next.window_end = later(next.window_begin, args.window);
    }
    next.phase = kPhaseRelax;
    if (next.frontier != 0) return true;
    const u64 least = ~load_relaxed(&counters->complement_of_minimum.value);
    if (done.phase == kPhaseHeavy) return heavy(done.band + 1);
    if (done.phase == kPhaseMeasure) {
      const u64 most = args.symmetric ? load_relaxed(&counters->maximum.value) : kUnreachedDistance;
      const bool is_of_use = least != kUnreachedDistance && Weight::sum(least, args.floors[done.band]) < most;
      return is_of_use ? cheapest_pass(done, most) : heavy(done.band + 1);
    }
    if (done.phase == kPhaseRelax) {
      // The bucket is empty. The next one begins at its end; or, if that was looked at already and nothing found in
      // it, at the least distance beyond.
      if (next.threshold < next.window_end) return bucket(next.threshold);
    } else {
      if (done.threshold_before == done.window_begin) return window(least);  // the window is empty
      if (least < next.window_end) return bucket(least);
    }
    return args.num_bands > 1 && heavy(1);
  }
};

template <class Weight>
GPUVM_DEVICE void sssp(Warp& warp, const SsspArgs& args) {
  run_steps(
      warp, args.traversal,
      [&](Warp& warp, const StepView& view) {
        if (args.num_bands > 1 && warp.warp == 0)
          for (u32 i = warp.lane; i < 2 * kSsspBins; i += kLanes)
            store_relaxed(&bins_of_step(args, view.step.number + 1)[i], 0);
        const SsspVisitor<Weight> visitor{pointer<u64>(args.distances), pointer<u32>(args.stamps),
                                          pointer<const u64>(args.bound), args.limit, view.step.threshold,
                                          u32(view.step.number + 1)};
        if (view.step.phase == kPhaseRelax) {
          traverse<Weight>(warp, args.traversal, view, visitor);
        } else if (view.step.phase == kPhaseBucket) {
          next_bucket(warp, args, view);
        } else if (view.step.phase == kPhaseMeasure) {
          measure<Weight>(warp, args, view);
        } else {
          const GraphView& band = pointer<const GraphView>(args.bands)[view.step.band];
          const StepView pass{band,      view.step,  view.counters,           view.current,
                              view.next, view.error, RowOffsets(view.graph)};
          const PagedEdges<Weight> edges(args.traversal, band, kScanSegments);
          HeavyVisitor<Weight> heavy{visitor, &view.step, args.floors[view.step.band],
                                     u32(view.step.passed[view.step.band]), args.symmetric != 0};
          scan_segments(warp, pass, edges, heavy);
        }
      },
      [&](Step& next, const Step& done, const StepCounters* counters) {
        return SsspPlan<Weight>{args, next}.after(done, counters);
      });
}

// Passes over all edges, band after band, each round followed by a count of the vertices that have no parent yet, which
// stands where other algorithms count the next frontier's edges.
template <class Weight>
GPUVM_DEVICE void sssp_parents(Warp& warp, const SsspParentsArgs& args) {
  const u64* distances = pointer<const u64>(args.distances);
  u32* parents = pointer<u32>(args.parents);
  const u32* original_ids = pointer<const u32>(args.original_ids);
  const u32 steps_of_round = args.num_bands + 1;
  run_steps(
      warp, args.traversal,
      [&](Warp& warp, const StepView& view) {
        const u32 number = u32(view.step.number), band = number % steps_of_round;
        if (band == args.num_bands) {
          for_each_vertex(warp, view, [&](u32 v, bool exists) {
            const u32 orphans = warp.ballot(exists && v != args.source &&
                                            load_relaxed(&distances[v]) != kUnreachedDistance &&
                                            load_relaxed(&parents[v]) == kNoParent);
            if (warp.leads()) warp.stats.next_edges += count_bits(orphans);
          });
          return;
        }
        const GraphView graph = args.bands == 0 ? view.graph : pointer<const GraphView>(args.bands)[band];
        const StepView pass{graph, view.step, view.counters, view.current, view.next, view.error};
        if (number < steps_of_round)
          traverse<Weight>(warp, args.traversal, pass,
                           SsspParentsVisitor<Weight, false>{distances, parents, original_ids, args.source});
        else
          traverse<Weight>(warp, args.traversal, pass,
                           SsspParentsVisitor<Weight, true>{distances, parents, original_ids, args.source});
      },
      [&](Step& next, const Step& done, const StepCounters*) {
        const bool counted = u32(done.number) % steps_of_round == args.num_bands;
        next.scan = u32(next.number) % steps_of_round == args.num_bands ? kScanVertices : args.traversal.dense_scan;
        return !counted || next.frontier_edges != 0;
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
