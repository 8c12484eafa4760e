// An embedder's kernel on threads: the text of gpuvm.cuh as the CPU device would run it, with warps of one lane and of
// 32. Exits with 1 if a sum or a count is wrong.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "gpuvm.cuh"
#if GPUVM_LANES == 32
#include "emulated_warp.cuh"
#endif

using namespace gpuvm;

namespace {

constexpr u32 kThreads = 4;
constexpr u32 kWarps = kThreads * kBlockWarps;
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
  for (u32 block = 0; block < kThreads; ++block)
    threads.emplace_back([=, &args] {
#if GPUVM_LANES == 1
      Warp only{0, block, kThreads, 0, kThreads, nullptr, nullptr, {}};
      kernel(only, args);
#else
      run_emulated_block(
          [](Warp& lane, const void* kernel, const void* args) {
            reinterpret_cast<Kernel>(const_cast<void*>(kernel))(lane, *static_cast<const Args*>(args));
          },
          reinterpret_cast<const void*>(kernel), &args, block, kThreads);
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

// Each lane looks at every page for itself and takes those that are resident; their first elements are summed.
void sum_of_resident(Warp& lane, const Args& args) {
  CountedWarp warp(args.values, lane);
  const Paging paging = args.values.paging();
  const u64 num_pages = args.values.num_pages();
  u64 mine = 0;
  for (u64 i = 0; i < num_pages; ++i) {
    const u64 page = (i + warp.lane) % num_pages;
    const u8* frame = try_acquire_page(paging, page);
    if (frame == nullptr) continue;
    ++warp.stats.hits;
    mine += *reinterpret_cast<const u32*>(frame);
    remove_references(paging.table, page, 1);
  }
  add_relaxed(args.total, mine);
}

}  // namespace

int main() {
  std::vector<u32> values(50'001);  // the last page has 849 elements
  for (u64 i = 0; i < values.size(); ++i) values[i] = u32(i * 0x9E3779B1u);
  const u64 num_pages = (values.size() * 4 + 4095) / 4096;
  for (u64 policy : {kEvictionFifo, kEvictionClock}) {
    // The fewest frames that do, the same and twelve that keep their page, and one for each page.
    for (auto [num_frames, num_pinned] : {std::pair(u64(2 * kWarps), u64(0)), {2 * kWarps + 12, 12}, {num_pages, 0}}) {
      std::vector<u64> entries(num_pages), owners(num_frames, kNoPage), hand{0};
      std::vector<u8> frames(num_frames << kPageShift);
      ErrorSlot error{};
      PagingCounters counters{};
      u64 total = 0;
      const bool evicts = num_frames < num_pages;
      Args args{{{{address(values), values.size() * 4, 0},
                  {address(entries), evicts ? u32(kPageTableEvicts) : 0, kPageShift},
                  {address(frames), address(owners), address(hand), u32(num_frames), u32(num_pinned), u32(policy), 0},
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

      counters = {};
      total = expected = 0;
      u64 num_resident = 0;
      for (u64 page = 0; page < num_pages; ++page)
        if (page_state(entries[page]) == kPageResident) {
          ++num_resident;
          expected += u64(kWarps) * kLanes * values[page * 1024];
        }
      run(sum_of_resident, args);
      require(total == expected && num_resident == num_frames, "every lane finds what is resident");
      require(counters.hits == u64(kWarps) * kLanes * num_resident, "the hits of all lanes are counted");
      require(counters.faults == 0 && counters.coalesced == 0 && counters.evictions == 0, "and nothing else");
      const std::vector<u64> kept(owners.begin(), owners.begin() + num_pinned);

      // From the middle of a page to the middle of another, and to the end.
      for (u64 last : {u64(30'011), u64(values.size())}) {
        args.first = 1'777;
        args.last = last;
        counters = {};
        total = expected = 0;
        for (u64 i = args.first; i < last; ++i) expected += i * values[i];
        run(sum_of_range, args);
        require(total == kWarps * expected, "each warp sums the range");
        const u64 touched = (last - 1) / 1024 - args.first / 1024 + 1;
        require(counters.hits + counters.faults + counters.coalesced == kWarps * touched, "each access is counted once");
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
      require(std::equal(kept.begin(), kept.end(), owners.begin()), "frames that keep their page do");
      for (u64 entry : entries)
        require(entry == 0 || (page_state(entry) == kPageResident && page_references(entry) == 0),
                "no reference is left");
      std::printf("%u lanes, policy %llu, %llu frames, %llu kept, for %llu pages: sums agree\n", kLanes, policy, num_frames,
                  num_pinned, num_pages);
    }
  }
}
