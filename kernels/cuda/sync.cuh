// Every atomic, fence, copy and intrinsic of the device code, each with the name of the order it gives. The GPU side
// is inline PTX at device scope; the CPU side the same order in the C++ memory model, so that ThreadSanitizer can
// judge it. Nothing outside this file touches memory that another warp may change at the same time.
#pragma once

#include "layout.cuh"

#if !defined(__CUDACC_RTC__) && !defined(__CUDACC__)
#include <sched.h>
#include <time.h>
#endif

GPUVM_NAMESPACE_BEGIN

template <class T>
GPUVM_DEVICE T* pointer(u64 address) {
  return reinterpret_cast<T*>(address);
}

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)

GPUVM_DEVICE u32 load_relaxed(const u32* p) {
  u32 value;
  asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}
GPUVM_DEVICE u64 load_relaxed(const u64* p) {
  u64 value;
  asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
  return value;
}
GPUVM_DEVICE u64 load_acquire(const u64* p) {
  u64 value;
  asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
  return value;
}
GPUVM_DEVICE void store_relaxed(u32* p, u32 value) {
  asm volatile("st.relaxed.gpu.u32 [%0], %1;" : : "l"(p), "r"(value) : "memory");
}
GPUVM_DEVICE void store_relaxed(u64* p, u64 value) {
  asm volatile("st.relaxed.gpu.u64 [%0], %1;" : : "l"(p), "l"(value) : "memory");
}
GPUVM_DEVICE u64 add_relaxed(u64* p, u64 value) {
  u64 old;
  asm volatile("atom.add.relaxed.gpu.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(value) : "memory");
  return old;
}
GPUVM_DEVICE u32 add_relaxed(u32* p, u32 value) {
  u32 old;
  asm volatile("atom.add.relaxed.gpu.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(value) : "memory");
  return old;
}
GPUVM_DEVICE u64 add_acquire(u64* p, u64 value) {
  u64 old;
  asm volatile("atom.add.acquire.gpu.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(value) : "memory");
  return old;
}
// For nobody who wants the old value: nothing comes back.
GPUVM_DEVICE void add_release_only(u64* p, u64 value) {
  asm volatile("red.add.release.gpu.u64 [%0], %1;" : : "l"(p), "l"(value) : "memory");
}
GPUVM_DEVICE void add_relaxed_only(u64* p, u64 value) {
  asm volatile("red.add.relaxed.gpu.u64 [%0], %1;" : : "l"(p), "l"(value) : "memory");
}
GPUVM_DEVICE u64 add_acquire_release(u64* p, u64 value) {
  u64 old;
  asm volatile("atom.add.acq_rel.gpu.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(value) : "memory");
  return old;
}
GPUVM_DEVICE u64 or_relaxed(u64* p, u64 value) {
  u64 old;
  asm volatile("atom.or.relaxed.gpu.b64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(value) : "memory");
  return old;
}
GPUVM_DEVICE u32 exchange_relaxed(u32* p, u32 value) {
  u32 old;
  asm volatile("atom.exch.relaxed.gpu.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(value) : "memory");
  return old;
}
GPUVM_DEVICE u32 min_relaxed(u32* p, u32 value) {
  u32 old;
  asm volatile("atom.min.relaxed.gpu.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(value) : "memory");
  return old;
}
GPUVM_DEVICE u64 min_relaxed(u64* p, u64 value) {
  u64 old;
  asm volatile("atom.min.relaxed.gpu.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(value) : "memory");
  return old;
}
GPUVM_DEVICE u64 max_relaxed(u64* p, u64 value) {
  u64 old;
  asm volatile("atom.max.relaxed.gpu.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(value) : "memory");
  return old;
}
// Returns what was found: `expected` if the exchange was done.
GPUVM_DEVICE u32 compare_exchange_relaxed(u32* p, u32 expected, u32 desired) {
  u32 old;
  asm volatile("atom.cas.relaxed.gpu.b32 %0, [%1], %2, %3;"
               : "=r"(old)
               : "l"(p), "r"(expected), "r"(desired)
               : "memory");
  return old;
}
// On failure `expected` becomes what was found.
GPUVM_DEVICE bool compare_exchange_acquire(u64* p, u64& expected, u64 desired) {
  u64 old;
  asm volatile("atom.cas.acquire.gpu.b64 %0, [%1], %2, %3;"
               : "=l"(old)
               : "l"(p), "l"(expected), "l"(desired)
               : "memory");
  const bool done = old == expected;
  expected = old;
  return done;
}

struct alignas(16) Bytes16 {
  u32 words[4];
};
GPUVM_DEVICE Bytes16 load_bytes16(const void* p) {
  Bytes16 b;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(b.words[0]), "=r"(b.words[1]), "=r"(b.words[2]), "=r"(b.words[3])
               : "l"(p));
  return b;
}
GPUVM_DEVICE void store_bytes16(void* p, Bytes16 b) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(p), "r"(b.words[0]), "r"(b.words[1]), "r"(b.words[2]), "r"(b.words[3])
               : "memory");
}

GPUVM_DEVICE u64 now_ns() {
  u64 ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}
GPUVM_DEVICE void pause(u32 round) { __nanosleep(round < 64 ? 32 : 512); }
// Where what is waited for comes within a microsecond, or not soon.
GPUVM_DEVICE void pause_shortly(u32 round) {
  if (round >= 16) __nanosleep(64);
}

// The upper half of the product.
GPUVM_DEVICE u64 multiply_high(u64 a, u64 b) { return __umul64hi(a, b); }

// What a NIC sees or has written: at system scope, for the NIC may be anywhere.
GPUVM_DEVICE void store_release(u64* p, u64 value) {
  asm volatile("st.release.gpu.u64 [%0], %1;" : : "l"(p), "l"(value) : "memory");
}
GPUVM_DEVICE u32 load_relaxed_system(const u32* p) {
  u32 value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}
GPUVM_DEVICE u64 load_relaxed_system(const u64* p) {
  u64 value;
  asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
  return value;
}
GPUVM_DEVICE u32 load_acquire_system(const u32* p) {
  u32 value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}
GPUVM_DEVICE void store_release_system(u32* p, u32 value) {
  asm volatile("st.release.sys.u32 [%0], %1;" : : "l"(p), "r"(value) : "memory");
}
GPUVM_DEVICE void store_release_system(u64* p, u64 value) {
  asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(p), "l"(value) : "memory");
}

GPUVM_DEVICE u32 swap_bytes(u32 value) { return __byte_perm(value, 0, 0x0123); }
GPUVM_DEVICE u64 swap_bytes(u64 value) { return u64(swap_bytes(u32(value))) << 32 | swap_bytes(u32(value >> 32)); }
GPUVM_DEVICE u64 bits_of(f64 value) { return u64(__double_as_longlong(value)); }
GPUVM_DEVICE f64 double_of(u64 bits) { return __longlong_as_double((long long)bits); }
GPUVM_DEVICE u32 count_bits(u32 bits) { return __popc(bits); }
GPUVM_DEVICE u32 lowest_bit(u32 bits) { return __ffs(bits) - 1; }
GPUVM_DEVICE u32 lowest_bit(u64 bits) { return __ffsll((long long)bits) - 1; }
GPUVM_DEVICE u32 highest_bit(u32 bits) { return 31 - __clz(bits); }

#else  // the CPU device

GPUVM_DEVICE u32 load_relaxed(const u32* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
GPUVM_DEVICE u64 load_relaxed(const u64* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
GPUVM_DEVICE u64 load_acquire(const u64* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
GPUVM_DEVICE void store_relaxed(u32* p, u32 value) { __atomic_store_n(p, value, __ATOMIC_RELAXED); }
GPUVM_DEVICE void store_relaxed(u64* p, u64 value) { __atomic_store_n(p, value, __ATOMIC_RELAXED); }
GPUVM_DEVICE u32 add_relaxed(u32* p, u32 value) { return __atomic_fetch_add(p, value, __ATOMIC_RELAXED); }
GPUVM_DEVICE u64 add_relaxed(u64* p, u64 value) { return __atomic_fetch_add(p, value, __ATOMIC_RELAXED); }
GPUVM_DEVICE u64 add_acquire(u64* p, u64 value) { return __atomic_fetch_add(p, value, __ATOMIC_ACQUIRE); }
GPUVM_DEVICE void add_release_only(u64* p, u64 value) { __atomic_fetch_add(p, value, __ATOMIC_RELEASE); }
GPUVM_DEVICE void add_relaxed_only(u64* p, u64 value) { __atomic_fetch_add(p, value, __ATOMIC_RELAXED); }
GPUVM_DEVICE u64 add_acquire_release(u64* p, u64 value) { return __atomic_fetch_add(p, value, __ATOMIC_ACQ_REL); }
GPUVM_DEVICE u64 or_relaxed(u64* p, u64 value) { return __atomic_fetch_or(p, value, __ATOMIC_RELAXED); }
GPUVM_DEVICE u32 exchange_relaxed(u32* p, u32 value) { return __atomic_exchange_n(p, value, __ATOMIC_RELAXED); }
template <class T>
GPUVM_DEVICE T min_relaxed(T* p, T value) {
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (value < old &&
         !__atomic_compare_exchange_n(p, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
GPUVM_DEVICE u64 max_relaxed(u64* p, u64 value) {
  u64 old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (value > old &&
         !__atomic_compare_exchange_n(p, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
GPUVM_DEVICE u32 compare_exchange_relaxed(u32* p, u32 expected, u32 desired) {
  __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
// On failure `expected` becomes what was found.
GPUVM_DEVICE bool compare_exchange_acquire(u64* p, u64& expected, u64 desired) {
  return __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

struct alignas(16) Bytes16 {
  u32 words[4];
};
GPUVM_DEVICE Bytes16 load_bytes16(const void* p) {
  Bytes16 b;
  __builtin_memcpy(&b, p, sizeof b);
  return b;
}
GPUVM_DEVICE void store_bytes16(void* p, Bytes16 b) { __builtin_memcpy(p, &b, sizeof b); }

GPUVM_DEVICE u64 now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return u64(t.tv_sec) * 1000000000 + u64(t.tv_nsec);
}
// Threads may outnumber cores: the one that is waited for needs a core, so give up this one at once.
GPUVM_DEVICE void pause(u32) { sched_yield(); }
GPUVM_DEVICE void pause_shortly(u32) { sched_yield(); }

GPUVM_DEVICE u64 multiply_high(u64 a, u64 b) { return u64((unsigned __int128)(a) * b >> 64); }

GPUVM_DEVICE void store_release(u64* p, u64 value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }
GPUVM_DEVICE u32 load_relaxed_system(const u32* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
GPUVM_DEVICE u64 load_relaxed_system(const u64* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
GPUVM_DEVICE u32 load_acquire_system(const u32* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
GPUVM_DEVICE void store_release_system(u32* p, u32 value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }
GPUVM_DEVICE void store_release_system(u64* p, u64 value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }

GPUVM_DEVICE u32 swap_bytes(u32 value) { return __builtin_bswap32(value); }
GPUVM_DEVICE u64 swap_bytes(u64 value) { return __builtin_bswap64(value); }
GPUVM_DEVICE u64 bits_of(f64 value) {
  u64 bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
GPUVM_DEVICE f64 double_of(u64 bits) {
  f64 value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
GPUVM_DEVICE u32 count_bits(u32 bits) { return u32(__builtin_popcount(bits)); }
GPUVM_DEVICE u32 lowest_bit(u32 bits) { return u32(__builtin_ctz(bits)); }
GPUVM_DEVICE u32 lowest_bit(u64 bits) { return u32(__builtin_ctzll(bits)); }
GPUVM_DEVICE u32 highest_bit(u32 bits) { return 31 - u32(__builtin_clz(bits)); }

#endif

GPUVM_NAMESPACE_END
