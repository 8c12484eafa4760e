// A NIC that is made of warps of the device itself: they take requests out of the queues, copy the pages, and write the
// completions, after the time that a modelled NIC takes. What transport `host` does on host threads, at the device's rates.
#pragma once

#include "fault.cuh"
#include "queue_pair.cuh"

GPUVM_NAMESPACE_BEGIN

constexpr u32 kSyndromeQueuePairOperation = 0x02;
constexpr u32 kSyndromeLocalProtection = 0x04;
constexpr u32 kSyndromeRemoteAccess = 0x13;

// A request that a lane has taken: it moves with its warp, and ends at its time.
struct TakenRequest {
  u32 pair;  // of all NICs
  u32 opcode;
  u64 number;
  u64 local;
  u64 remote;
  u32 size_bytes;
  u32 syndrome;  // 0 if nothing is wrong with it
  u64 since_ns;
  u64 due_ns;
};

GPUVM_DEVICE bool is_within(u64 address, u64 size_bytes, u64 region, u64 region_bytes) {
  return address >= region && address - region <= region_bytes && size_bytes <= region_bytes - (address - region);
}

// What a NIC finds wrong with a request: 0 or a syndrome.
GPUVM_DEVICE u32 check_request(const QueueSet* set, u32 nic, const TakenRequest& taken, u32 local_key, u32 remote_key) {
  const NicView& keys = pointer<const NicView>(set->nics)[nic];
  if (local_key != keys.local_key || !is_within(taken.local, taken.size_bytes, set->frames, set->frames_bytes))
    return kSyndromeLocalProtection;
  // Arrays may be read only.
  if (taken.opcode == kOpcodeRdmaRead)
    for (u32 i = 0; i < set->num_regions; ++i) {
      const RemoteRegion& region = set->regions[i];
      if (remote_key == keys.remote_keys[i] &&
          is_within(taken.remote, taken.size_bytes, region.address, region.size_bytes))
        return 0;
    }
  return kSyndromeRemoteAccess;
}

// Reads what was posted as number `taken.number` of its queue pair.
GPUVM_DEVICE void read_request(const QueueSet* set, const QueuePair* pair, u32 nic, TakenRequest& taken) {
  const u64* entry =
      pointer<const u64>(pair->send_queue) + (taken.number & ((u64(1) << pair->send_shift) - 1)) * (kEntryBytes / 8);
  u64 words[6];
  for (u32 i = 0; i < 6; ++i) words[i] = load_relaxed_system(entry + i);
  const u32 index_opcode = swap_bytes(u32(words[0])), pair_segments = swap_bytes(u32(words[0] >> 32));
  taken.opcode = index_opcode & 0xFF;
  taken.remote = swap_bytes(words[2]);
  taken.local = swap_bytes(words[5]);
  taken.size_bytes = swap_bytes(u32(words[4]));
  const bool in_place = (index_opcode >> 8 & 0xFFFF) == u32(taken.number & 0xFFFF) && pair_segments >> 8 == pair->number;
  taken.syndrome = in_place ? check_request(set, nic, taken, swap_bytes(u32(words[4] >> 32)), swap_bytes(u32(words[3])))
                            : kSyndromeQueuePairOperation;
}

// When a request ends by the model: its bytes go over the link after those of all requests before, then the latency.
GPUVM_DEVICE u64 due_time(const ServeQueuesArgs& args, NicState* nic, u64 now, u64 size_bytes) {
  if (args.latency_ns == 0 && args.ns_per_mib == 0) return 0;
  const u64 transfer_ns = size_bytes * args.ns_per_mib >> 20;
  u64 free = load_relaxed(&nic->link_free_ns.value), end;
  do {
    end = (free < now ? now : free) + transfer_ns;
  } while (!compare_exchange_acquire(&nic->link_free_ns.value, free, end));
  return end + args.latency_ns;
}

// Takes the next request of a queue pair for this lane; false if there is none, or another lane was faster.
GPUVM_DEVICE bool take_request(const ServeQueuesArgs& args, u32 number_of_pair, TakenRequest& taken) {
  const QueueSet* set = pointer<const QueueSet>(args.queues);
  const QueuePair* pair = pointer<const QueuePair>(set->pairs) + number_of_pair;
  PairProgress* progress = pointer<PairProgress>(args.progress) + number_of_pair;
  u64 number = load_relaxed(&progress->taken);
  const u32 rung = swap_bytes(load_acquire_system(pointer<const u32>(pair->doorbell_record) + 1));
  const u32 available = (rung - u32(number)) & 0xFFFF;
  // More than fit the queue: the record that was read is older than the number.
  if (available == 0 || available > u32(1) << pair->send_shift) return false;
  if (!compare_exchange_acquire(&progress->taken, number, number + 1)) return false;
  const u32 nic = number_of_pair / set->pairs_per_nic;
  NicState* state = pointer<NicState>(args.states) + nic;
  taken.pair = number_of_pair;
  taken.number = number;
  taken.since_ns = now_ns();
  read_request(set, pair, nic, taken);
  taken.due_ns = due_time(args, state, taken.since_ns, taken.size_bytes);
  add_relaxed_only(&state->taken.value, 1);
  add_relaxed_only(&state->depth_sum.value, number + 1 - load_relaxed(&progress->completed));
  return true;
}

// Where in NicState::latencies a latency is counted: 16 steps between two powers of two.
GPUVM_DEVICE u32 latency_bucket(u64 ns) {
  if (ns < 16) return u32(ns);
  u32 log = 4;
  while (ns >> (log + 1) != 0) ++log;
  return (log - 3) * 16 + u32(ns >> (log - 4) & 15);
}

// Writes the completion of a request whose bytes are there.
GPUVM_DEVICE void complete_request(const ServeQueuesArgs& args, const TakenRequest& taken, u64 now) {
  const QueueSet* set = pointer<const QueueSet>(args.queues);
  const QueuePair* pair = pointer<const QueuePair>(set->pairs) + taken.pair;
  NicState* state = pointer<NicState>(args.states) + taken.pair / set->pairs_per_nic;
  if (taken.syndrome == 0) {
    add_relaxed_only(&state->requests.value, 1);
    add_relaxed_only(&state->bytes.value, taken.size_bytes);
    const u32 bucket = latency_bucket(now - taken.since_ns);
    add_relaxed_only(&state->latencies[bucket / 32].counts[bucket % 32], 1);
  }
  add_relaxed_only(&pointer<PairProgress>(args.progress)[taken.pair].completed, 1);
  u32* entry = pointer<u32>(pair->completion_queue) +
               (taken.number & ((u64(1) << pair->completion_shift) - 1)) * (kEntryBytes / 4);
  constexpr u32 kDone = 0, kError = 13;
  const u32 owner = u32(taken.number >> pair->completion_shift & 1);
  const u32 status = taken.syndrome == 0 ? kDone : kError;
  store_relaxed(entry + 11, swap_bytes(taken.syndrome == 0 ? taken.size_bytes : 0));
  store_relaxed(entry + 13, taken.syndrome << 24);  // byte 55
  store_relaxed(entry + 14, swap_bytes(taken.opcode << 24 | pair->number));
  store_release_system(entry + 15,
                       (status << 4 | owner) << 24 | swap_bytes(u32(taken.number & 0xFFFF) << 16));
}

// Serves all queue pairs until the host says stop and nothing is left. A lane looks at a queue pair and has one request at
// a time; the warp copies the pages of its lanes, one after the other.
GPUVM_DEVICE void serve_queues(Warp& warp, const ServeQueuesArgs& args) {
  const QueueSet* set = pointer<const QueueSet>(args.queues);
  const u32 num_pairs = set->num_nics * set->pairs_per_nic;
  TakenRequest mine{};
  bool has_one = false;
  u32 first = warp.warp * kLanes % num_pairs;  // warps begin at different queue pairs
  u32 looked = 0;                              // at so many in vain
  for (u32 round = 0;;) {
    const bool took = !has_one && take_request(args, (first + warp.lane) % num_pairs, mine);
    has_one = has_one || took;
    first = (first + kLanes) % num_pairs;
    const u32 all_took = warp.ballot(took);
    for (u32 left = warp.ballot(took && mine.syndrome == 0); left != 0; left &= left - 1) {
      const u32 from = lowest_bit(left);
      u8* local = pointer<u8>(warp.broadcast(mine.local, from));
      const u8* remote = pointer<const u8>(warp.broadcast(mine.remote, from));
      fetch_page(warp, local, remote, warp.broadcast(u64(mine.size_bytes), from));
    }
    warp.sync();  // orders the stores of all lanes before the completions of one
    if (has_one) {
      const u64 now = now_ns();
      if (now >= mine.due_ns) {
        complete_request(args, mine, now);
        has_one = false;
      }
    }
    if (all_took != 0) {
      round = looked = 0;
      continue;
    }
    if (warp.any(has_one)) {
      pause_shortly(round++);
      continue;
    }
    // What was rung before the host said stop is seen by a whole look at all queue pairs after it.
    u32 stop = 0;
    if (warp.leads()) stop = load_acquire_system(pointer<const u32>(args.stop));
    if (warp.broadcast(u64(stop)) == 0) {
      looked = 0;
    } else {
      looked += kLanes;
      if (looked >= num_pairs + kLanes) return;
    }
    pause(round++);
  }
}

GPUVM_NAMESPACE_END
