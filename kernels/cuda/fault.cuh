// A page fault from beginning to end, by the warp that takes it: no host, no driver, no other warp.
#pragma once

#include "frame_pool.cuh"
// A GPU has kernels of its own for queues, since their code costs registers that the others need. The CPU device has one
// text for both.
#if !defined(__CUDACC_RTC__) && !defined(__CUDACC__)
#define GPUVM_ASKS_NICS(table) ((table).flags & kPageTableQueues)
#include "queue_pair.cuh"
#elif defined(GPUVM_QUEUES)
#define GPUVM_ASKS_NICS(table) true
#include "queue_pair.cuh"
#endif

GPUVM_NAMESPACE_BEGIN

// What a fault needs to know of the run.
struct Paging {
  PageTableView table;
  FramePoolView pool;
  u64 error;
  u64 stuck_after_ns;
  u32 num_pinned = 0;  // frames that keep their page in this step
};

// Transport `direct`: the warp itself copies the page from host memory, 16 bytes a lane and as many loads in flight a
// lane as registers allow: what a fault takes is how often it waits for the link, 1.4 us a time. The end of an array
// that does not fill its last page is copied in 16-byte pieces and then bytes.
GPUVM_DEVICE void fetch_page([[maybe_unused]] const Warp& warp, u8* frame, const u8* host, u64 size_bytes) {
#if GPUVM_LANES == 1
  __builtin_memcpy(frame, host, size_bytes);
#else
  constexpr u32 kLoads = 8;
  constexpr u64 kStride = u64(kLanes) * 16;
  u64 at = u64(warp.lane) * 16;
  for (; at + (kLoads - 1) * kStride + 16 <= size_bytes; at += kLoads * kStride) {
    Bytes16 bytes[kLoads];
    for (u32 i = 0; i < kLoads; ++i) bytes[i] = load_bytes16(host + at + i * kStride);
    for (u32 i = 0; i < kLoads; ++i) store_bytes16(frame + at + i * kStride, bytes[i]);
  }
  for (; at + 16 <= size_bytes; at += kStride) store_bytes16(frame + at, load_bytes16(host + at));
  for (u64 tail = size_bytes / 16 * 16 + warp.lane; tail < size_bytes; tail += kLanes) frame[tail] = host[tail];
#endif
}

// What a leader finds out about a page that was not resident when it looked: its frame, with kMustFill if this warp has
// won it; kNoFrame if the run was stopped.
constexpr u64 kMustFill = u64(1) << 32;
GPUVM_DEVICE u64 resolve_miss(Warp& warp, const Paging& paging, u64 page, u64 seen) {
  Wait wait{paging.error, paging.stuck_after_ns, kErrorStuckFault, page};
  if (begin_fault(paging.table, page, seen)) {
    ++warp.stats.faults;
    wait.code = kErrorNoFreeFrame;
    const u64 frame = claim_frame(warp, paging.table, paging.pool, paging.num_pinned, page, wait);
    return frame == kNoFrame ? kNoFrame : frame | kMustFill;
  }
  ++warp.stats.coalesced;
  const u64 entry = wait_resident(paging.table, page, wait);
  return entry == 0 ? kNoFrame : page_frame(entry);
}

// The way of a miss, by the whole warp: `seen` is the leader's.
GPUVM_DEVICE_LOOP const u8* serve_miss(Warp& warp, const Paging& paging, const ArrayView& array, u64 page, u64 seen) {
  u64 outcome = kNoFrame;
  if (warp.leads()) outcome = resolve_miss(warp, paging, page, seen);
  outcome = warp.broadcast(outcome);
  warp.sync();  // a shuffle orders no memory: this lets the other lanes read what the leader acquired
  if (outcome == kNoFrame) return nullptr;
  const u64 frame = outcome & kPageFrameMask;
  u8* bytes = frame_address(paging.table, paging.pool, frame);
  if (outcome & kMustFill) {
    const u64 at = (page - array.first_page) << paging.table.page_shift;
    const u64 page_bytes = u64(1) << paging.table.page_shift;
    const u64 size_bytes = array.size_bytes - at < page_bytes ? array.size_bytes - at : page_bytes;
#ifdef GPUVM_ASKS_NICS
    if (GPUVM_ASKS_NICS(paging.table)) {
      u64 moved = 0;
      if (warp.leads())
        moved = move_page(warp, paging.table, paging.pool, paging.error, paging.stuck_after_ns, kOpcodeRdmaRead, page,
                          frame, size_bytes);
      if (warp.broadcast(moved) == 0) return nullptr;
    } else
#endif
      fetch_page(warp, bytes, pointer<const u8>(array.address) + at, size_bytes);
    warp.sync();  // orders the stores of all lanes before the leader's release
    if (warp.leads()) {
      warp.stats.bytes_in += size_bytes;
      if (paging.table.flags & kPageTableEvicts) store_relaxed(pointer<u64>(paging.pool.owners) + frame, page);
      publish(paging.table, page, u32(frame));
    }
    warp.sync();
  }
  return bytes;
}

// Notes an access to a resident page for the clock hand; `seen` is what add_references gave.
GPUVM_DEVICE void note_access(const Paging& paging, u64 page, u64 seen) {
  if (paging.pool.policy == kEvictionClock && !(seen & kPageAccessedBit))
    or_relaxed(page_entry(paging.table, page), kPageAccessedBit);
}

// A reference of one lane to a page that is resident, and the address of its frame; null, without a reference, if it is
// not. It never waits, so the lanes of a warp may each hold one, as long as the warp waits for nothing before it has
// given them back. The caller counts the hits.
GPUVM_DEVICE const u8* try_acquire_page(const Paging& paging, u64 page) {
  const u64 seen = add_references(paging.table, page, 1);
  if (page_state(seen) == kPageResident) {
    note_access(paging, page, seen);
    return frame_address(paging.table, paging.pool, page_frame(seen));
  }
  remove_references(paging.table, page, 1);
  return nullptr;
}

// Takes `lanes` references to `page` of `array` and returns the address of its frame, after fetching it if need be;
// null if the run was stopped. All lanes call it with the same page.
GPUVM_DEVICE const u8* acquire_page(Warp& warp, const Paging& paging, const ArrayView& array, u64 page, u32 lanes) {
  u64 seen = 0;
  if (warp.leads()) {
    warp.stats.coalesced += lanes - 1;
    seen = add_references(paging.table, page, lanes);
    if (page_state(seen) == kPageResident) {
      ++warp.stats.hits;
      note_access(paging, page, seen);
    }
  }
  seen = warp.broadcast(seen);
  warp.sync();  // as above
  if (page_state(seen) == kPageResident) return frame_address(paging.table, paging.pool, page_frame(seen));
  return serve_miss(warp, paging, array, page, seen);
}

// Gives back what acquire_page took, after the last read of all lanes.
GPUVM_DEVICE void release_page(const Warp& warp, const Paging& paging, u64 page, u32 lanes) {
  warp.sync();
  if (warp.leads()) remove_references(paging.table, page, lanes);
}

GPUVM_NAMESPACE_END
