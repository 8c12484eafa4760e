// A warp and its collectives. All lanes of a warp call each of them, in the same order: there are no partial masks,
// so the same text is right for a GPU, for the CPU device (one lane: every collective is the identity) and for the
// emulated warps of tests (32 lanes: fibers of one thread that meet at each collective).
#pragma once

#include "sync.cuh"

GPUVM_NAMESPACE_BEGIN

constexpr u32 kLanes = GPUVM_LANES;

// Counted by the leading lane, added to LoopState when the warp is done with a step.
struct WarpStats {
  u64 discovered = 0;
  u64 next_edges = 0;
  u64 edges = 0;
  u64 hits = 0;
  u64 faults = 0;
  u64 coalesced = 0;
  u64 evictions = 0;
  u64 bytes_in = 0;
};

#if GPUVM_LANES == 32 && !defined(__CUDACC_RTC__) && !defined(__CUDACC__)
// Gives every lane's value to every lane; defined in emulated_warp.cc.
inline const u64* exchange_between_lanes(void* fibers, u32 lane, u64 value);
#endif

struct Warp {
  u32 lane;       // 0 .. kLanes
  u32 warp;       // 0 .. num_warps
  u32 num_warps;  // in the grid
  void* fibers;   // of an emulated warp
  WarpStats stats;

  GPUVM_DEVICE bool leads() const { return lane == 0; }

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
  GPUVM_DEVICE u32 ballot(bool predicate) const { return __ballot_sync(~0u, predicate); }
  GPUVM_DEVICE u64 broadcast(u64 value, u32 from = 0) const { return __shfl_sync(~0u, value, from); }
  GPUVM_DEVICE void sync() const { __syncwarp(); }
#elif GPUVM_LANES == 1
  GPUVM_DEVICE u32 ballot(bool predicate) const { return predicate; }
  GPUVM_DEVICE u64 broadcast(u64 value, u32 = 0) const { return value; }
  GPUVM_DEVICE void sync() const {}
#else
  GPUVM_DEVICE u32 ballot(bool predicate) const {
    const u64* values = exchange_between_lanes(fibers, lane, predicate);
    u32 bits = 0;
    for (u32 i = 0; i < kLanes; ++i) bits |= u32(values[i]) << i;
    return bits;
  }
  GPUVM_DEVICE u64 broadcast(u64 value, u32 from = 0) const {
    return exchange_between_lanes(fibers, lane, value)[from];
  }
  GPUVM_DEVICE void sync() const { exchange_between_lanes(fibers, lane, 0); }
#endif
  GPUVM_DEVICE bool any(bool predicate) const { return ballot(predicate) != 0; }

  // Lanes below this one.
  GPUVM_DEVICE u32 lanes_below() const { return (u32(1) << lane) - 1; }
};

// The first failure wins; everyone else sees a code that is not 0 and drains.
GPUVM_DEVICE void report_error(u64 slot, u64 code, u64 subject, u64 detail) {
  ErrorSlot* error = pointer<ErrorSlot>(slot);
  if (compare_exchange_relaxed(&error->code, 0, u32(code))) {
    store_relaxed(&error->subject, subject);
    store_relaxed(&error->detail, detail);
  }
}

GPUVM_DEVICE bool is_stopped(u64 slot) { return load_relaxed(&pointer<ErrorSlot>(slot)->code) != 0; }

// A wait that ends: it gives up when the run was stopped, or reports `code` after too long a time.
struct Wait {
  u64 error;
  u64 stuck_after_ns;
  u64 code;
  u64 subject;
  u64 since_ns = 0;
  u32 round = 0;

  // Waits a little; false if the wait is over in vain.
  GPUVM_DEVICE bool again() {
    if (is_stopped(error)) return false;
    const u64 now = now_ns();
    if (since_ns == 0) since_ns = now;
    if (now - since_ns > stuck_after_ns) {
      report_error(error, code, subject, (now - since_ns) / 1000000);
      return false;
    }
    pause(round++);
    return true;
  }
};

GPUVM_NAMESPACE_END
