// An embedder's kernel on threads: the text of gpuvm.cuh as the CPU device would run it, with warps of one lane and of
// 32. Exits with 1 if a sum or a count is wrong.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "gpuvm.cuh"
#if GPUVM_LANES == 32
#include "emulated_warp.cuh"
#endif

using namespace gpuvm;

namespace {

constexpr u32 kThreads = 4;
constexpr u32 kPageShift = 12;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::exit(1);
}

template <class T>
u64 address(std::vector<T>& array) {
  return reinterpret_cast<u64>(array.data());
}

struct Args {
  PagedSlice<u32> values;
  u64 first, last;
  u64* total;
};

using Kernel = void (*)(Warp&, const Args&);

void run(Kernel kernel, const Args& args) {
  std::vector<std::thread> threads;
  for (u32 warp = 0; warp < kThreads; ++warp)
    threads.emplace_back([=, &args] {
#if GPUVM_LANES == 1
      Warp only{0, warp, kThreads, nullptr, {}};
      kernel(only, args);
#else
      run_emulated_warp(
          [](Warp& lane, const void* kernel, const void* args) {
            reinterpret_cast<Kernel>(const_cast<void*>(kernel))(lane, *static_cast<const Args*>(args));
          },
          reinterpret_cast<const void*>(kernel), &args, warp, kThreads);
#endif
    });
  for (std::thread& thread : threads) thread.join();
}

// The kernel in the comment of gpuvm.cuh.
void sum_of_pages(Warp& lane, const Args& args) {
  CountedWarp warp(args.values, lane);
  u64 mine = 0;
  for (u64 page = warp.warp; page < args.values.num_pages(); page += warp.num_warps) {
    const PageElements<u32> elements = args.values.acquire(warp, page);
    if (!elements) return;
    for (u64 i = warp.lane; i < elements.len; i += kLanes) mine += elements[i];
    args.values.release(warp, page);
  }
  add_relaxed(args.total, mine);
}

// Every warp sums the same range, so that pages are shared and come back.
void sum_of_range(Warp& lane, const Args& args) {
  CountedWarp warp(args.values, lane);
  u64 mine = 0;
  const bool done = args.values.for_each(warp, args.first, args.last, [&](u64 i, u32 value) { mine += i * value; });
  if (done) add_relaxed(args.total, mine);
}

}  // namespace

int main() {
  std::vector<u32> values(50'001);  // the last page has 849 elements
  for (u64 i = 0; i < values.size(); ++i) values[i] = u32(i * 0x9E3779B1u);
  const u64 num_pages = (values.size() * 4 + 4095) / 4096;
  for (u64 policy : {kEvictionFifo, kEvictionClock}) {
    for (u64 num_frames : {u64(2 * kThreads), num_pages}) {
      std::vector<u64> entries(num_pages), owners(num_frames, kNoPage), hand{0};
      std::vector<u8> frames(num_frames << kPageShift);
      ErrorSlot error{};
      PagingCounters counters{};
      u64 total = 0;
      const bool evicts = num_frames < num_pages;
      Args args{{{{address(values), values.size() * 4, 0},
                  {address(entries), evicts ? u32(kPageTableEvicts) : 0, kPageShift},
                  {address(frames), address(owners), address(hand), u32(num_frames), u32(policy)},
                  reinterpret_cast<u64>(&error),
                  u64(60) * 1000000000,
                  reinterpret_cast<u64>(&counters)}},
                0, 0, &total};
      require(args.values.len() == values.size() && args.values.num_pages() == num_pages, "sizes are those of the array");

      u64 expected = 0;
      for (u32 value : values) expected += value;
      run(sum_of_pages, args);
      require(total == expected, "the sum of all pages is that of the array");
      require(counters.faults == num_pages && counters.bytes_in == values.size() * 4, "each page is fetched once");
      require(counters.evictions == (evicts ? num_pages - num_frames : 0), "a page is evicted for each beyond the frames");

      // From the middle of a page to the middle of another, and to the end.
      for (u64 last : {u64(30'011), u64(values.size())}) {
        args.first = 1'777;
        args.last = last;
        counters = {};
        total = expected = 0;
        for (u64 i = args.first; i < last; ++i) expected += i * values[i];
        run(sum_of_range, args);
        require(total == kThreads * expected, "each warp sums the range");
        const u64 touched = (last - 1) / 1024 - args.first / 1024 + 1;
        require(counters.hits + counters.faults + counters.coalesced == kThreads * touched, "each access is counted once");
      }
      require(error.code == 0, "no kernel failed");

      for (u64 last : {values.size() + 1, values.size() + 4096}) {
        args.last = last;
        error = {};
        total = 0;
        run(sum_of_range, args);
        require(total == 0 && error.code == kErrorElementOutOfRange && error.subject == last - 1 &&
                    error.detail == values.size(),
                "an element beyond the array stops the kernel");
      }
      for (u64 entry : entries)
        require(entry == 0 || (page_state(entry) == kPageResident && page_references(entry) == 0),
                "no reference is left");
      std::printf("%u lanes, policy %llu, %llu frames for %llu pages: sums agree\n", kLanes, policy, num_frames, num_pages);
    }
  }
}
