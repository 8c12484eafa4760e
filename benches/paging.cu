// The kernels of the paging benchmark, compiled as an embedder's: see paging.rs. Word i of the array is word_at(i), so
// that a page out of place or half filled is found out; `mismatches` counts words that are not what they should be.
#include "gpuvm.cuh"

using namespace gpuvm;

namespace {

constexpr u64 kLineWords = 16;  // u64s of a 128-byte line

__device__ __forceinline__ u64 word_at(u64 i) { return i * 0x9E3779B97F4A7C15ull; }

__device__ __forceinline__ void count(u32 wrong, u64* mismatches) {
  if (wrong != 0) atomicAdd(mismatches, u64(wrong));
}

// The next of `count` items that nobody has taken; `count` when there are no more.
__device__ __forceinline__ u64 take(const Warp& warp, u64* cursor, u64 count) {
  u64 item = 0;
  if (warp.leads()) item = add_relaxed(cursor, 1);
  item = warp.broadcast(item);
  return item < count ? item : count;
}

// Checks a page of which `data` is a copy: its last line, or with `whole` all of it.
__device__ __forceinline__ u32 check_page(const Warp& warp, const u64* data, u64 first, u64 words, u32 whole) {
  u32 wrong = 0;
  for (u64 i = (whole ? 0 : words - kLineWords) + warp.lane; i < words; i += kLanes) wrong += data[i] != word_at(first + i);
  return wrong;
}

__device__ __forceinline__ u64 random_below(u64 i, u64 bound) {
  u64 x = i * 0x9E3779B97F4A7C15ull + 0xD1B54A32D192ED03ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return __umul64hi(x ^ (x >> 31), bound);
}

}  // namespace

// The whole fault path: each page of the list once.
extern "C" __global__ void fault_pages(PagedSlice<u64> values, const u32* pages, u64 num_pages, u32 whole, u64* cursor,
                                       u64* mismatches) {
  CountedWarp warp(values);
  u32 wrong = 0;
  for (u64 item; (item = take(warp, cursor, num_pages)) < num_pages;) {
    const PageElements<u64> page = values.acquire(warp, pages[item]);
    if (!page) return;
    wrong += check_page(warp, page.data, page.first, page.len, whole);
    values.release(warp, pages[item]);
  }
  count(wrong, mismatches);
}

// What a fault moves and nothing else: each warp pulls pages into a frame of its own.
extern "C" __global__ void pull_pages(const u64* values, u64 page_words, const u32* pages, u64 num_pages, u32 whole,
                                      u64* frames, u64* cursor, u64* mismatches) {
  const Warp warp = this_warp();
  u64* frame = frames + warp.warp * page_words;
  u32 wrong = 0;
  for (u64 item; (item = take(warp, cursor, num_pages)) < num_pages;) {
    const u64 first = pages[item] * page_words;
    fetch_page(warp, reinterpret_cast<u8*>(frame), reinterpret_cast<const u8*>(values + first), page_words * 8);
    warp.sync();
    wrong += check_page(warp, frame, first, page_words, whole);
    warp.sync();
  }
  count(wrong, mismatches);
}

// The same by the bulk copies of compute capability 9.0: one lane of a one-warp block keeps four pieces of up to 8 KiB in
// flight, host -> shared memory -> frame. A piece is checked in shared memory, by its last word.
extern "C" __global__ void pull_pages_in_bulk(const u64* values, u64 page_words, const u32* pages, u64 num_pages,
                                              u64* frames, u64* cursor, u64* mismatches) {
#if __CUDA_ARCH__ >= 900
  constexpr u32 kStages = 4;
  constexpr u64 kStageWords = 1024;
  __shared__ alignas(128) u64 stages[kStages][kStageWords];
  __shared__ alignas(8) u64 barriers[kStages];
  if (threadIdx.x != 0) return;

  const u64 piece_words = page_words < kStageWords ? page_words : kStageWords;
  const u32 piece_bytes = u32(piece_words * 8);
  u64* frame = frames + blockIdx.x * page_words;
  const auto shared = [](const void* p) { return u32(__cvta_generic_to_shared(p)); };
  for (u32 s = 0; s < kStages; ++s) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(&barriers[s])));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");

  u64 next = 0, end = 0;           // words of the page that is being asked for
  u64 firsts[kStages], offset = 0;  // first word of the piece in each stage
  const auto ask = [&](u32 s) {
    if (next == end) {
      const u64 item = add_relaxed(cursor, 1);
      if (item >= num_pages) return false;
      next = pages[item] * page_words;
      end = next + page_words;
    }
    firsts[s] = next;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(&barriers[s])), "r"(piece_bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared(stages[s])),
                 "l"(__cvta_generic_to_global(values + next)), "r"(piece_bytes), "r"(shared(&barriers[s]))
                 : "memory");
    next += piece_words;
    return true;
  };

  u32 asked = 0, wrong = 0;  // a bit for each stage that has a piece under way
  for (u32 s = 0; s < kStages; ++s)
    if (ask(s)) asked |= 1u << s;
  for (u32 turn = 0; asked != 0; ++turn) {
    const u32 s = turn % kStages, parity = turn / kStages % 2;
    if (!(asked >> s & 1)) continue;
    u32 done = 0;
    while (!done)
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(shared(&barriers[s])), "r"(parity)
          : "memory");
    wrong += stages[s][piece_words - 1] != word_at(firsts[s] + piece_words - 1);
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                     __cvta_generic_to_global(frame + offset)),
                 "r"(shared(stages[s])), "r"(piece_bytes)
                 : "memory");
    offset = (offset + piece_words) % page_words;
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    // The stage may be filled again when it has been read; other stages' pieces are on their way meanwhile.
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    if (!ask(s)) asked &= ~(1u << s);
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  count(wrong, mismatches);
#endif
}

// References to pages that are resident: one acquire and one release a round, by each warp.
extern "C" __global__ void hit_pages(PagedSlice<u64> values, u64 num_pages, u64 rounds, u64* mismatches) {
  CountedWarp warp(values);
  u32 wrong = 0;
  for (u64 i = 0; i < rounds; ++i) {
    const u64 page = random_below(warp.warp * rounds + i, num_pages);
    const PageElements<u64> elements = values.acquire(warp, page);
    if (!elements) return;
    values.release(warp, page);
    wrong += elements.first != page * values.page_len();
  }
  count(wrong, mismatches);
}

// The same by each lane for itself, on the page table alone.
extern "C" __global__ void hit_entries(PagedSlice<u64> values, u64 num_pages, u64 rounds, u64* mismatches) {
  const u64 thread = u64(blockIdx.x) * blockDim.x + threadIdx.x;
  u32 wrong = 0;
  for (u64 i = 0; i < rounds; ++i) {
    const u64 page = random_below(thread * rounds + i, num_pages);
    const u64 seen = add_references(values.view.page_table, page, 1);
    wrong += page_state(seen) != kPageResident;
    remove_references(values.view.page_table, page, 1);
  }
  count(wrong, mismatches);
}

// Reads an array where it lies: zero-copy, or unified memory. Each unit of the list (or random ones, without a list) is
// read in full by one warp, 16 bytes a lane.
extern "C" __global__ void read_units(const u64* values, u64 unit_words, const u32* units, u64 num_units, u64* cursor,
                                      u64* mismatches) {
  const Warp warp = this_warp();
  u32 wrong = 0;
  for (u64 item; (item = take(warp, cursor, num_units)) < num_units;) {
    const u64 first = units[item] * unit_words;
    const ulonglong2* data = reinterpret_cast<const ulonglong2*>(values + first);
#pragma unroll 4
    for (u64 i = warp.lane; i < unit_words / 2; i += kLanes) {
      const ulonglong2 two = data[i];
      wrong += (two.x != word_at(first + 2 * i)) + (two.y != word_at(first + 2 * i + 1));
    }
  }
  count(wrong, mismatches);
}

// Random 128-byte lines of an array where it lies, a line by eight lanes, four lines a warp at a time.
extern "C" __global__ void read_random_lines(const u64* values, u64 num_lines, u64 rounds, u64* mismatches) {
  const Warp warp = this_warp();
  u32 wrong = 0;
#pragma unroll 4
  for (u64 i = 0; i < rounds; ++i) {
    const u64 line = random_below((warp.warp * rounds + i) * 4 + warp.lane / 8, num_lines);
    const u64 first = line * kLineWords + warp.lane % 8 * 2;
    const ulonglong2 two = *reinterpret_cast<const ulonglong2*>(values + first);
    wrong += (two.x != word_at(first)) + (two.y != word_at(first + 1));
  }
  count(wrong, mismatches);
}

// One warp, one page after another: clocks of each acquire from its start until every lane has a word of the page, absent
// pages first, then the last of them again and again. `times` has a place for each, `span` the kernel's clocks and ns.
extern "C" __global__ void fault_one_by_one(PagedSlice<u64> values, const u32* pages, u64 num_pages, u32 again, u64* times,
                                            u64* span, u64* mismatches) {
  CountedWarp warp(values);
  u32 wrong = 0;
  const u64 began_ns = now_ns(), began = clock64();
  for (u64 item = 0; item < num_pages; ++item) {
    const u64 page = pages[again ? num_pages - 1 : item];
    warp.sync();
    const u64 before = clock64();
    const PageElements<u64> elements = values.acquire(warp, page);
    if (!elements) return;
    const bool differs = elements[warp.lane] != word_at(elements.first + warp.lane);
    const bool any = warp.any(differs);  // waits for the word of every lane
    if (warp.leads()) times[item] = clock64() - before;
    wrong += any;
    values.release(warp, page);
  }
  if (warp.leads()) {
    span[0] = clock64() - began;
    span[1] = now_ns() - began_ns;
  }
  count(wrong, mismatches);
}

// The same without a page table: a page pulled into the warp's frame, or with `unit_words` 1 one load by one lane.
extern "C" __global__ void pull_one_by_one(const u64* values, u64 page_words, u64 unit_words, const u32* pages,
                                           u64 num_pages, u64* frame, u64* times, u64* span, u64* mismatches) {
  const Warp warp = this_warp();
  u32 wrong = 0;
  const u64 began_ns = now_ns(), began = clock64();
  for (u64 item = 0; item < num_pages; ++item) {
    const u64 first = pages[item] * page_words;
    warp.sync();
    const u64 before = clock64();
    bool differs = false;
    if (unit_words == 1) {
      if (warp.leads()) differs = *reinterpret_cast<const volatile u64*>(values + first) != word_at(first);
    } else {
      fetch_page(warp, reinterpret_cast<u8*>(frame), reinterpret_cast<const u8*>(values + first), page_words * 8);
      warp.sync();
      differs = frame[warp.lane] != word_at(first + warp.lane);
    }
    const bool any = warp.any(differs);
    if (warp.leads()) times[item] = clock64() - before;
    wrong += any;
  }
  if (warp.leads()) {
    span[0] = clock64() - began;
    span[1] = now_ns() - began_ns;
  }
  count(wrong, mismatches);
}
