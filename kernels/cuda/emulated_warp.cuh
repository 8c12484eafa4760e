// A block of warps of 32 lanes on one CPU thread, for tests: each lane is a fiber, and a collective hands the thread on
// until all lanes have come to it. Coalescing, leader election and what the warps of a block do together then run where
// there is no GPU. Fibers instead of threads, since a collective costs a microsecond so and no scheduler decides the
// order; a lane that waits for another lane of its block outside a collective hangs, as it would on lanes in lockstep.
// The warps of a block go on one after the other, each from one meeting of the block to the next.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>

#include <ucontext.h>

#include "warp.cuh"

GPUVM_NAMESPACE_BEGIN

class EmulatedBlock {
 public:
  using Body = void (*)(Warp&, const void* kernel, const void* args);

  EmulatedBlock(Body body, const void* kernel, const void* args, u32 number, u32 num_blocks)
      : body_(body), kernel_(kernel), args_(args), number_(number), num_blocks_(num_blocks),
        stacks_(new char[kFibers * kStackBytes]) {}

  void run() {
    for (u32 fiber = 0; fiber < kFibers; ++fiber) {
      getcontext(&fibers_[fiber]);
      fibers_[fiber].uc_stack.ss_sp = stacks_.get() + u64(fiber) * kStackBytes;
      fibers_[fiber].uc_stack.ss_size = kStackBytes;
      fibers_[fiber].uc_link = nullptr;
      const u64 self = reinterpret_cast<u64>(this);
      makecontext(&fibers_[fiber], reinterpret_cast<void (*)()>(&EmulatedBlock::enter), 3, int(self >> 32), int(self), int(fiber));
    }
    swapcontext(&thread_, &fibers_[0]);
  }

  const u64* exchange(u32 fiber, u64 value) {
    const u32 warp = fiber / kLanes, lane = fiber % kLanes;
    // Two sets of values in turn: a lane may come to the next collective before the last has read this one.
    u64* values = values_[warp][arrivals_[fiber]++ % 2];
    values[lane] = value;
    swapcontext(&fibers_[fiber], &fibers_[warp * kLanes + (lane + 1) % kLanes]);
    return values;
  }

  void meet(u32 fiber) {
    ++meetings_[fiber];
    swapcontext(&fibers_[fiber], &fibers_[(fiber + 1) % kFibers]);
  }

 private:
  static constexpr u32 kFibers = kBlockWarps * kLanes;
  static constexpr u64 kStackBytes = 64 << 10;

  static void enter(int high, int low, int fiber_number) {
    EmulatedBlock* self = reinterpret_cast<EmulatedBlock*>(u64(u32(high)) << 32 | u32(low));
    const u32 fiber = u32(fiber_number), warp = fiber / kLanes;
    Warp view{fiber % kLanes,     warp * self->num_blocks_ + self->number_,
              self->num_blocks_ * kBlockWarps,
              warp,               self->num_blocks_,
              &self->block_,      self,
              {}};
    self->body_(view, self->kernel_, self->args_);
    if (self->arrivals_[fiber] != self->arrivals_[warp * kLanes] || self->meetings_[fiber] != self->meetings_[0] ||
        self->finished_ != fiber) {
      std::fprintf(stderr, "lane %u of warp %u left the kernel at another collective than lane 0\n", fiber % kLanes, warp);
      std::abort();
    }
    // Lanes leave in turn: this one hands on to the next, which comes back from its last collective.
    ++self->finished_;
    setcontext(self->finished_ == kFibers ? &self->thread_ : &self->fibers_[fiber + 1]);
  }

  Body body_;
  const void* kernel_;
  const void* args_;
  u32 number_, num_blocks_;
  Block block_;
  std::unique_ptr<char[]> stacks_;
  ucontext_t thread_, fibers_[kFibers];
  u64 values_[kBlockWarps][2][kLanes];
  u64 arrivals_[kFibers] = {}, meetings_[kFibers] = {};
  u32 finished_ = 0;
};

inline const u64* exchange_between_lanes(void* fibers, u32 fiber, u64 value) {
  return static_cast<EmulatedBlock*>(fibers)->exchange(fiber, value);
}

inline void meet_block(void* fibers, u32 fiber) { static_cast<EmulatedBlock*>(fibers)->meet(fiber); }

// Runs all warps of block `number` of `num_blocks`.
inline void run_emulated_block(EmulatedBlock::Body body, const void* kernel, const void* args, u32 number,
                               u32 num_blocks) {
  EmulatedBlock(body, kernel, args, number, num_blocks).run();
}

GPUVM_NAMESPACE_END
