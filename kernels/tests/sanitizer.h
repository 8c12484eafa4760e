// What the programs for ThreadSanitizer have in common; before any header of the kernels.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#ifdef BREAK_RELEASE
// The test of these tests: without release order bytes may be read before they are there.
#undef __ATOMIC_RELEASE
#define __ATOMIC_RELEASE __ATOMIC_RELAXED
#endif
#include "warp.cuh"

namespace {

using namespace gpuvm;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::exit(1);
}

u64 next_random(u64& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

template <class T>
u64 address(std::vector<T>& array) {
  return reinterpret_cast<u64>(array.data());
}

}  // namespace
