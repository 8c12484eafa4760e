// Every transport but `direct`: a page is asked for from a NIC, through a queue pair that both sides see, in the format of
// a ConnectX (mlx5): engine/src/transport/mlx5.rs says byte for byte what is in a request and in a completion.
//
//   post number -> entry written -> rung -> the NIC moves the bytes -> completion -> entry free
//
// As in the paper, a leader takes a post number, writes its request in that place of the send queue, and counts it; the
// one that fills a batch rings for all, and only the holder of the queue rings. Whoever waits for longer than a few looks
// rings for itself, so a batch that nobody fills waits for nobody.
//
// Invariants (docs/design.md): (I6) an entry belongs to one request from its post number to its completion; (I7) the
// doorbell says no more than is written, in the order of post numbers; (I8) a holder waits for nothing.
#pragma once

#include "frame_pool.cuh"

GPUVM_NAMESPACE_BEGIN

constexpr u32 kOpcodeRdmaWrite = 0x08;
constexpr u32 kOpcodeRdmaRead = 0x10;
constexpr u32 kSyndromeFlushed = 0x05;
constexpr u32 kEntryBytes = 64;

// Looks at a completion before a leader rings for itself: the others of its batch may come meanwhile.
constexpr u32 kLooksBeforeRinging = 4;

// What is asked of a NIC: `size_bytes` bytes from `remote` to `local`, or, of a write, from `local` to `remote`.
struct Request {
  u32 opcode;
  u64 local;
  u64 remote;
  u32 local_key;
  u32 remote_key;
  u32 size_bytes;
};

GPUVM_DEVICE u64* slot_of(const QueuePair* pair, u64 number) {
  return pointer<u64>(pair->slots) + (number & ((u64(1) << pair->send_shift) - 1));
}

// What the slot of a request says before it is written, and after.
GPUVM_DEVICE u64 free_for(const QueuePair* pair, u64 number) { return (number >> pair->send_shift) * 2; }
GPUVM_DEVICE u64 written_for(const QueuePair* pair, u64 number) { return free_for(pair, number) + 1; }

GPUVM_DEVICE void write_request(const QueuePair* pair, u64 number, const Request& request) {
  u8* entry = pointer<u8>(pair->send_queue) + (number & ((u64(1) << pair->send_shift) - 1)) * kEntryBytes;
  constexpr u32 kMakeCompletion = 0x08, kSegments = 3;
  const u32 index = u32(number & 0xFFFF);
  store_bytes16(entry, {{swap_bytes(index << 8 | request.opcode), swap_bytes(pair->number << 8 | kSegments),
                         swap_bytes(kMakeCompletion), 0}});
  store_bytes16(entry + 16, {{swap_bytes(u32(request.remote >> 32)), swap_bytes(u32(request.remote)),
                              swap_bytes(request.remote_key), 0}});
  store_bytes16(entry + 32, {{swap_bytes(request.size_bytes), swap_bytes(request.local_key),
                              swap_bytes(u32(request.local >> 32)), swap_bytes(u32(request.local))}});
}

// Tells the NIC of all requests that are written, up to the first that is not. Whoever finds the queue held goes on:
// the holder may have passed the place of its request before that was written, so it comes again until it is rung.
GPUVM_DEVICE void ring(QueuePair* pair) {
  u64 not_held = 0;
  if (!compare_exchange_acquire(&pair->holder.value, not_held, 1)) return;
  const u64 first = load_relaxed(&pair->rung.value);
  u64 end = first;
  // What is counted says nothing of what is written: the slots do. Of a round that is not rung none is free again, so this
  // ends after one round.
  while (load_acquire(slot_of(pair, end)) == written_for(pair, end)) ++end;
  if (end != first) {
    const u32 index = u32(end & 0xFFFF);
    store_release_system(pointer<u32>(pair->doorbell_record) + 1, swap_bytes(index));
    // Eight bytes in network byte order: index << 8, and the queue pair's number << 8.
    store_release_system(pointer<u64>(pair->doorbell),
                         u64(swap_bytes(pair->number << 8)) << 32 | swap_bytes(index << 8));
    store_relaxed(&pair->rung.value, end);
    store_relaxed(&pair->doorbells.value, load_relaxed(&pair->doorbells.value) + 1);
  }
  store_release(&pair->holder.value, 0);
}

// A wait for a NIC: it gives up when the run was stopped, or names page, frame and queue pair after too long a time.
struct RequestWait {
  u64 error;
  u64 stuck_after_ns;
  u64 page;
  u64 where;  // frame, queue pair and NIC, packed
  u64 since_ns = 0;
  u32 round = 0;

  GPUVM_DEVICE bool again() {
    if (is_stopped(error)) return false;
    const u64 now = now_ns();
    if (since_ns == 0) since_ns = now;
    if (now - since_ns > stuck_after_ns) {
      report_error(error, kErrorStuckRequest, page, where);
      return false;
    }
    pause(round++);
    return true;
  }
};

// How a request ended.
constexpr u32 kRequestDone = 0;
constexpr u32 kRequestStopped = ~u32(0);  // it did not: the run was stopped; else the syndrome

// Bytes 60 to 63 of a completion, in one load: index of the request, and the byte that says whose entry this is.
GPUVM_DEVICE bool is_completion_of(const QueuePair* pair, u64 number, u32 word) {
  const u32 owner_byte = word >> 24, index = swap_bytes(word) >> 16;
  return owner_byte >> 4 != 15 && (owner_byte & 1) == (number >> pair->completion_shift & 1) &&
         index == u32(number & 0xFFFF);
}

// Asks for `request` and waits for the answer: kRequestDone, a syndrome, or kRequestStopped. By one lane, which waits for
// nothing else meanwhile.
GPUVM_DEVICE u32 ask(QueuePair* pair, const Request& request, u32 fault_batch, RequestWait& wait) {
  const u64 number = add_relaxed(&pair->posted.value, 1);
  u64* slot = slot_of(pair, number);
  // The place is that of an earlier request until its leader has seen its completion. That leader rings by itself.
  while (load_acquire(slot) != free_for(pair, number))
    if (!wait.again()) return kRequestStopped;
  write_request(pair, number, request);
  store_release(slot, written_for(pair, number));
  const u64 written = add_relaxed(&pair->written.value, 1) + 1;
  if (written - load_relaxed(&pair->rung.value) >= fault_batch) ring(pair);

  const u8* completion = pointer<const u8>(pair->completion_queue) +
                         (number & ((u64(1) << pair->completion_shift) - 1)) * kEntryBytes;
  for (u32 look = 0;; ++look) {
    const u32 word = load_acquire_system(reinterpret_cast<const u32*>(completion + 60));
    if (is_completion_of(pair, number, word)) {
      const u32 status = word >> 28;
      const u32 outcome = status == 0 ? kRequestDone : completion[55];
      store_release(slot, free_for(pair, number) + 2);
      return outcome;
    }
    if (look >= kLooksBeforeRinging && load_relaxed(&pair->rung.value) <= number) ring(pair);
    if (!wait.again()) return kRequestStopped;
  }
}

GPUVM_DEVICE bool is_lost(const QueueSet* set, u32 nic) {
  return load_relaxed_system(&pointer<NicView>(set->nics)[nic].lost) != 0;
}

// The NIC that moves a page: pages go round; those of a NIC that is lost go round among the others. num_nics if all are.
GPUVM_DEVICE u32 nic_of(const QueueSet* set, u64 page) {
  const u32 num_nics = set->num_nics, home = u32(page % num_nics);
  if (!is_lost(set, home)) return home;
  u32 nic = num_nics;
  u64 num_living = 0;
  for (u32 i = 0; i < num_nics; ++i) num_living += !is_lost(set, i);
  if (num_living == 0) return num_nics;
  // Which of the living: found again by counting, since one more may be lost meanwhile.
  u64 turn = page / num_nics % num_living;
  for (u32 i = 0; i < num_nics; ++i) {
    if (is_lost(set, i)) continue;
    nic = i;
    if (turn-- == 0) break;
  }
  return nic;
}

// Moves `size_bytes` bytes between page `page` in host memory and its frame, by the leading lane; false if the run was
// stopped, by this or by something else. What a NIC had when it was lost is asked for again from another.
GPUVM_DEVICE bool move_page(const Warp& warp, const PageTableView& table, const FramePoolView& pool, u64 error,
                            u64 stuck_after_ns, u32 opcode, u64 page, u64 frame, u64 size_bytes) {
  const QueueSet* set = pointer<const QueueSet>(pointer<const FrameRing>(pool.hand)->queues);
  u32 region = 0;
  while (region + 1 < set->num_regions && page >= set->regions[region + 1].first_page) ++region;
  const u64 at = (page - set->regions[region].first_page) << table.page_shift;
  Request request{opcode, set->frames + (frame << table.page_shift), set->regions[region].address + at, 0, 0,
                  u32(size_bytes)};
  const u32 pair = warp.warp % set->pairs_per_nic;
  for (;;) {
    const u32 nic = nic_of(set, page);
    const u64 where = frame << kRequestFrameShift | u64(pair) << kRequestPairShift | u64(nic) << kRequestNicShift;
    if (nic == set->num_nics) {
      report_error(error, kErrorNicsLost, page, nic);
      return false;
    }
    const NicView& keys = pointer<const NicView>(set->nics)[nic];
    request.local_key = keys.local_key;
    request.remote_key = keys.remote_keys[region];
    RequestWait wait{error, stuck_after_ns, page, where};
    const u32 outcome = ask(pointer<QueuePair>(set->pairs) + u64(nic) * set->pairs_per_nic + pair, request,
                            set->fault_batch, wait);
    if (outcome == kRequestDone) return true;
    if (outcome == kRequestStopped) return false;
    if (outcome != kSyndromeFlushed) {
      report_error(error, kErrorFailedRequest, page, where | outcome);
      return false;
    }
    // Flushed: the NIC is lost, or a request before this one failed, and then its leader says why.
    while (!is_lost(set, nic))
      if (!wait.again()) return false;
  }
}

GPUVM_NAMESPACE_END
