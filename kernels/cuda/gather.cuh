// Answers on their way to the user: entries of rows in the order of the vertices' ids. A GPU reads them from all over its
// memory as fast as the link takes them; the cores of a host, which would write them all over theirs, took three times as
// long (GAP-kron, scale 27).
#pragma once

#include "warp.cuh"

GPUVM_NAMESPACE_BEGIN

template <class Entry>
GPUVM_DEVICE void gather_entries(const Warp& warp, const GatherArgs& args) {
  constexpr u32 kInFlight = 2 * kEdgesInFlight;
  const u32* rows = pointer<const u32>(args.rows) + args.first_vertex;
  const Entry* entries = pointer<const Entry>(args.entries);
  Entry* answers = pointer<Entry>(args.answers);
  constexpr u64 kAtOnce = u64(kInFlight) * kLanes;
  for (u64 first = warp.warp * kAtOnce; first < args.num_vertices; first += warp.num_warps * kAtOnce) {
    u32 row[kInFlight];
    Entry entry[kInFlight];
    for (u32 k = 0; k < kInFlight; ++k) {
      const u64 i = first + k * kLanes + warp.lane;
      row[k] = i < args.num_vertices ? rows[i] : ~u32(0);
    }
    // A file that tells the rows may be wrong.
    for (u32 k = 0; k < kInFlight; ++k) entry[k] = row[k] < args.num_rows ? entries[row[k]] : Entry(~Entry(0));
    for (u32 k = 0; k < kInFlight; ++k) {
      const u64 i = first + k * kLanes + warp.lane;
      if (i < args.num_vertices) answers[i] = entry[k];
    }
  }
}

GPUVM_DEVICE void gather(const Warp& warp, const GatherArgs& args) {
  if (args.entry_bytes == sizeof(u32))
    gather_entries<u32>(warp, args);
  else
    gather_entries<u64>(warp, args);
}

GPUVM_NAMESPACE_END
