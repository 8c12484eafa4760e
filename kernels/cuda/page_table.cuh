// The page table: one 64-bit word a page, every transition one atomic.
//
//   absent --begin_fault--> faulting --publish--> resident --evict--> absent
//
// Invariants (docs/design.md): (I1) a frame holds one page; (I2) only the winner of begin_fault fetches; (I3) a page
// with references is not evicted; (I4) a page's bytes are visible before `resident` is; (I5) every fetch is published
// once.
#pragma once

#include "warp.cuh"

GPUVM_NAMESPACE_BEGIN

GPUVM_DEVICE u64 page_state(u64 entry) { return entry >> kPageStateShift; }
GPUVM_DEVICE u32 page_frame(u64 entry) { return u32(entry & kPageFrameMask); }
GPUVM_DEVICE u64 page_references(u64 entry) { return (entry & kPageReferenceMask) >> kPageReferenceShift; }

GPUVM_DEVICE u64* page_entry(const PageTableView& table, u64 page) {
  return pointer<u64>(table.entries) + page;
}

// Counts `lanes` references and returns the entry with them. If that says resident, the page stays (I3) and its bytes
// are visible (I4, the acquire meets the release of publish): a hit, one atomic and nothing else. References on a page
// that is not there yet are kept, and hold it from the moment it arrives.
GPUVM_DEVICE u64 add_references(const PageTableView& table, u64 page, u32 lanes) {
  if (!(table.flags & kPageTableEvicts)) return load_acquire(page_entry(table, page));
  const u64 references = u64(lanes) << kPageReferenceShift;
  return add_acquire(page_entry(table, page), references) + references;
}

// absent -> faulting. True for one warp of the grid (I2): the one that must fetch the page.
GPUVM_DEVICE bool begin_fault(const PageTableView& table, u64 page, u64 seen) {
  while (page_state(seen) == kPageAbsent) {
    if (compare_exchange_acquire(page_entry(table, page), seen, seen | kPageFaulting << kPageStateShift)) return true;
  }
  return false;
}

// faulting -> resident, by the winner, after all lanes' stores to the frame (I4). An addition, since others count
// references meanwhile.
GPUVM_DEVICE void publish(const PageTableView& table, u64 page, u32 frame) {
  add_release_only(page_entry(table, page), ((kPageResident - kPageFaulting) << kPageStateShift) + frame);
}

// Waits until another warp has published the page; returns its entry, or 0 if the run was stopped.
GPUVM_DEVICE u64 wait_resident(const PageTableView& table, u64 page, Wait wait) {
  for (;;) {
    const u64 entry = load_acquire(page_entry(table, page));
    if (page_state(entry) == kPageResident) return entry;
    if (!wait.again()) return 0;
  }
}

// Gives back `lanes` references; the release keeps the reads under them before the bytes of the next page.
GPUVM_DEVICE void remove_references(const PageTableView& table, u64 page, u32 lanes) {
  if (!(table.flags & kPageTableEvicts)) return;
  add_release_only(page_entry(table, page), ~(u64(lanes) << kPageReferenceShift) + 1);
}

// resident without references -> absent, if the page is in `frame` and nobody comes in between (I1, I3). The acquire
// meets the release of whoever held the last reference, so the frame may be overwritten.
GPUVM_DEVICE bool evict(const PageTableView& table, u64 page, u32 frame, bool spare_accessed) {
  u64* entry = page_entry(table, page);
  // Mostly the entry is as expected, so the exchange comes before the look.
  const u64 evictable = kPageResident << kPageStateShift | frame;
  u64 seen = evictable;
  if (compare_exchange_acquire(entry, seen, 0)) return true;
  if (seen != (evictable | kPageAccessedBit)) return false;
  if (!spare_accessed) return compare_exchange_acquire(entry, seen, 0);
  compare_exchange_acquire(entry, seen, evictable);
  return false;
}

GPUVM_NAMESPACE_END
