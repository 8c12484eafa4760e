// The frames, taken in the order of a ring (the paper's FIFO). A frame whose page is in use is skipped, not waited for.
// At most two frames of a warp that waits cannot be evicted: that of the page it reads and that of the page it fetches
// (lanes that take references of their own give them back without waiting). A warp that claims reads at most one, so
// with two frames a warp in the ring a claim succeeds in the end (the host refuses fewer).
#pragma once

#include "page_table.cuh"

GPUVM_NAMESPACE_BEGIN

constexpr u64 kNoFrame = ~u64(0);

// `num_pinned` frames, the first, keep their page: a dense scan longer than the frames would else have every page leave
// just before it comes back, so it takes turns with the rest and leaves the others to the next scan. The first of these are
// the own frames of `num_kept` pages, which nobody else takes.
//
// A frame that is the caller's alone, after eviction of the page in it; kNoFrame if the run was stopped.
GPUVM_DEVICE u64 claim_frame(Warp& warp, const PageTableView& table, const FramePoolView& pool, u32 num_pinned, u64 page,
                             Wait wait) {
  u64* owners = pointer<u64>(pool.owners);
  if (!(table.flags & kPageTableEvicts)) return page;  // every page has a frame of its own
  if (page - pool.first_kept_page < pool.num_kept) return page - pool.first_kept_page;
  if (num_pinned < pool.num_kept) num_pinned = pool.num_kept;
  const u64 ring = pool.num_frames - num_pinned;
  for (u64 tried = 0;; ++tried) {
    // The ring has turned twice (once to clear accessed bits, once to evict) and every frame was in use: pause.
    if (tried != 0 && tried % (2 * ring) == 0 && !wait.again()) return kNoFrame;
    const u64 ticket = add_relaxed(pointer<u64>(pool.hand), 1);
    const u64 num_unused = pool.num_frames - pool.num_kept;
    if (ticket < num_unused) return pool.num_kept + ticket;  // never used before, and no other claim has this ticket
    const u32 frame = u32(num_pinned + (ticket - num_unused) % ring);
    const u64 owner = load_relaxed(&owners[frame]);
    if (owner == kNoPage || !evict(table, owner, frame, pool.policy == kEvictionClock)) continue;
    store_relaxed(&owners[frame], kNoPage);
    ++warp.stats.evictions;
    return frame;
  }
}

GPUVM_DEVICE u8* frame_address(const PageTableView& table, const FramePoolView& pool, u64 frame) {
  return pointer<u8>(pool.frames + (frame << table.page_shift));
}

GPUVM_NAMESPACE_END
