// Pages through queue pairs on threads, for ThreadSanitizer: threads that fault, with few frames, and threads that stand for
// NICs, with the code that does so on a device. Exits with 1 if a byte or a count is wrong; races are ThreadSanitizer's to
// report.
#include "sanitizer.h"
#include "queue_engine.cuh"

using namespace gpuvm;

namespace {

constexpr u32 kPageShift = 12;
constexpr u64 kPageWords = (u64(1) << kPageShift) / 8;

struct alignas(64) Entry {
  u8 bytes[64];
};

// Queues as engine/src/transport/queues.rs sets them up.
struct Queues {
  std::vector<QueuePair> pairs;
  std::vector<Entry> requests, completions, doorbells;
  std::vector<u64> slots;
  std::vector<NicView> nics;
  std::vector<NicState> states;
  std::vector<PairProgress> progress;
  u32 stop = 0;
  QueueSet set{};

  Queues(u32 num_nics, u32 num_pairs, u32 depth_shift, u32 fault_batch)
      : pairs(num_nics * num_pairs), requests(pairs.size() << depth_shift), completions(requests.size()),
        doorbells(pairs.size()), slots(requests.size()), nics(num_nics), states(num_nics), progress(pairs.size()) {
    for (Entry& entry : completions) __builtin_memset(entry.bytes, 0xFF, sizeof entry.bytes);
    for (u32 i = 0; i < pairs.size(); ++i) {
      const u64 at = u64(i) << depth_shift;
      pairs[i].send_queue = reinterpret_cast<u64>(&requests[at]);
      pairs[i].completion_queue = reinterpret_cast<u64>(&completions[at]);
      pairs[i].doorbell_record = reinterpret_cast<u64>(&doorbells[i]);
      pairs[i].doorbell = reinterpret_cast<u64>(&doorbells[i]) + 16;
      pairs[i].slots = reinterpret_cast<u64>(&slots[at]);
      pairs[i].number = i + 1;
      pairs[i].send_shift = pairs[i].completion_shift = depth_shift;
    }
    for (u32 i = 0; i < num_nics; ++i) {
      nics[i].local_key = 100 + i;
      nics[i].remote_keys[0] = 200 + i;
    }
    set.pairs = address(pairs);
    set.nics = address(nics);
    set.num_nics = num_nics;
    set.pairs_per_nic = num_pairs;
    set.fault_batch = fault_batch;
  }

  ServeQueuesArgs args(u64 latency_ns) {
    return {reinterpret_cast<u64>(&set), address(states), address(progress), reinterpret_cast<u64>(&stop), latency_ns, 0};
  }
};

// Threads read random pages, which other threads move, and check every word under their reference.
void read_random_pages(u32 num_threads, u32 num_nics, u32 num_pairs, u32 depth_shift, u32 fault_batch, u64 latency_ns) {
  constexpr u64 kNumPages = 32;
  std::vector<u64> host(kNumPages * kPageWords);
  for (u64 i = 0; i < host.size(); ++i) host[i] = i * 0x9E3779B97F4A7C15;
  std::vector<u64> entries(kNumPages), owners(num_threads, kNoPage);
  std::vector<u64> frames(num_threads * kPageWords);
  Queues queues(num_nics, num_pairs, depth_shift, fault_batch);
  queues.set.frames = address(frames);
  queues.set.frames_bytes = frames.size() * 8;
  queues.set.regions[0] = {0, address(host), host.size() * 8};
  queues.set.num_regions = 1;
  FrameRing ring{0, {}, reinterpret_cast<u64>(&queues.set)};
  ErrorSlot error{};
  const Paging paging{{address(entries), u32(kPageTableEvicts | kPageTableQueues), kPageShift},
                      {address(frames), address(owners), reinterpret_cast<u64>(&ring), num_threads, 0, u32(kEvictionFifo), 0},
                      reinterpret_cast<u64>(&error),
                      u64(60) * 1000000000};
  const ArrayView array{address(host), host.size() * 8, 0};
  const ServeQueuesArgs args = queues.args(latency_ns);

  std::vector<std::thread> nics, warps;
  constexpr u32 kNicThreads = 2;  // each serves all NICs
  for (u32 t = 0; t < kNicThreads; ++t)
    nics.emplace_back([=] {
      Block block;
      Warp warp{0, t, kNicThreads, 0, kNicThreads, &block, nullptr, {}};
      serve_queues(warp, args);
    });
  std::vector<u64> faults(num_threads);
  for (u32 t = 0; t < num_threads; ++t)
    warps.emplace_back([=, &host, &faults] {
      Block block;
      Warp warp{0, t, num_threads, 0, num_threads, &block, nullptr, {}};
      u64 state = 88172645463325252 + t;
      for (int i = 0; i < 600; ++i) {
        const u64 page = next_random(state) % kNumPages;
        const u8* frame = acquire_page(warp, paging, array, page, 1);
        require(frame != nullptr, "no page is stuck");
        for (u64 at = next_random(state) % 64; at < kPageWords; at += 64)
          require(reinterpret_cast<const u64*>(frame)[at] == host[page * kPageWords + at], "a page holds its bytes");
        release_page(warp, paging, page, 1);
      }
      faults[t] = warp.stats.faults;
    });
  for (std::thread& thread : warps) thread.join();
  store_release_system(&queues.stop, 1);
  for (std::thread& thread : nics) thread.join();

  require(error.code == 0, "no fault failed");
  u64 num_faults = 0, num_requests = 0, num_rings = 0;
  for (u64 of_warp : faults) num_faults += of_warp;
  for (const NicState& nic : queues.states) num_requests += nic.requests.value;
  for (const QueuePair& pair : queues.pairs) {
    require(pair.posted.value == pair.written.value && pair.written.value == pair.rung.value && pair.holder.value == 0,
            "all that was posted is rung");
    num_rings += pair.doorbells.value;
  }
  require(num_requests == num_faults && num_faults > 0, "a request for each fault");
  require(num_rings > 0 && num_rings <= num_requests, "no more doorbells than requests");
  std::printf("%u threads, %u NICs of %u queue pairs of %u, batches of %u: %llu requests behind %llu doorbells\n",
              num_threads, num_nics, num_pairs, 1u << depth_shift, fault_batch, num_requests, num_rings);
}

}  // namespace

int main() {
  read_random_pages(4, 1, 1, 0, 1, 0);
  read_random_pages(4, 1, 1, 1, 2, 0);
  read_random_pages(6, 2, 1, 2, 4, 20000);
  read_random_pages(3, 2, 3, 3, 2, 0);
}
