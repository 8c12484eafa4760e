// Warps of 32 lanes on one CPU thread, for tests: each lane is a fiber, and a collective hands the thread on until all
// lanes have come to it. Coalescing and leader election then run where there is no GPU. Fibers instead of 32 threads,
// since a collective costs a microsecond so and no scheduler decides the order; a lane that waits for another lane of
// its warp outside a collective hangs, as it would on lanes in lockstep.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>

#include <ucontext.h>

#include "warp.cuh"

GPUVM_NAMESPACE_BEGIN

class EmulatedWarp {
 public:
  using Body = void (*)(Warp&, const void* kernel, const void* args);

  EmulatedWarp(Body body, const void* kernel, const void* args, u32 warp, u32 num_warps)
      : body_(body), kernel_(kernel), args_(args), warp_(warp), num_warps_(num_warps), stacks_(new char[kLanes * kStackBytes]) {}

  void run() {
    for (u32 lane = 0; lane < kLanes; ++lane) {
      getcontext(&lanes_[lane]);
      lanes_[lane].uc_stack.ss_sp = stacks_.get() + u64(lane) * kStackBytes;
      lanes_[lane].uc_stack.ss_size = kStackBytes;
      lanes_[lane].uc_link = nullptr;
      const u64 self = reinterpret_cast<u64>(this);
      makecontext(&lanes_[lane], reinterpret_cast<void (*)()>(&EmulatedWarp::enter), 3, int(self >> 32), int(self), int(lane));
    }
    swapcontext(&thread_, &lanes_[0]);
  }

  const u64* exchange(u32 lane, u64 value) {
    // Two sets of values in turn: a lane may come to the next collective before the last has read this one.
    u64* values = values_[arrivals_[lane]++ % 2];
    values[lane] = value;
    swapcontext(&lanes_[lane], &lanes_[(lane + 1) % kLanes]);
    return values;
  }

 private:
  static constexpr u64 kStackBytes = 64 << 10;

  static void enter(int high, int low, int lane) {
    EmulatedWarp* self = reinterpret_cast<EmulatedWarp*>(u64(u32(high)) << 32 | u32(low));
    Warp view{u32(lane), self->warp_, self->num_warps_, 0, self->num_warps_, &self->block_, self, {}};
    self->body_(view, self->kernel_, self->args_);
    if (self->arrivals_[lane] != self->arrivals_[0] || self->finished_ != u32(lane)) {
      std::fprintf(stderr, "lane %d left the kernel at another collective than lane 0\n", lane);
      std::abort();
    }
    // Lanes leave in turn: this one hands on to the next, which comes back from its last collective.
    ++self->finished_;
    setcontext(self->finished_ == kLanes ? &self->thread_ : &self->lanes_[lane + 1]);
  }

  Body body_;
  const void* kernel_;
  const void* args_;
  u32 warp_, num_warps_;
  Block block_;
  std::unique_ptr<char[]> stacks_;
  ucontext_t thread_, lanes_[kLanes];
  u64 values_[2][kLanes];
  u64 arrivals_[kLanes] = {};
  u32 finished_ = 0;
};

inline const u64* exchange_between_lanes(void* fibers, u32 lane, u64 value) {
  return static_cast<EmulatedWarp*>(fibers)->exchange(lane, value);
}

inline void run_emulated_warp(EmulatedWarp::Body body, const void* kernel, const void* args, u32 warp, u32 num_warps) {
  EmulatedWarp(body, kernel, args, warp, num_warps).run();
}

GPUVM_NAMESPACE_END
