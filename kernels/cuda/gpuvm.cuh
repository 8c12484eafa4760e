// What an embedder's own kernel includes: an array in host memory, larger than the device's, that the kernel reads
// page by page. The page table, the fault path and the frames are those of the graph kernels.
//
//   #include "gpuvm.cuh"
//
//   extern "C" __global__ void sum(gpuvm::PagedSlice<double> values, double* total) {
//     gpuvm::CountedWarp warp(values);
//     double mine = 0;
//     for (u64 page = warp.warp; page < values.num_pages(); page += warp.num_warps) {
//       const gpuvm::PageElements<double> elements = values.acquire(warp, page);
//       if (!elements) return;
//       for (u64 i = warp.lane; i < elements.len; i += gpuvm::kLanes) mine += elements[i];
//       values.release(warp, page);
//     }
//     atomicAdd(total, mine);
//   }
//
// Rules: blocks are one-dimensional and a multiple of 32 threads. All lanes of a warp call acquire, release and
// for_each together, and leave the scope of their CountedWarp together. A warp holds at most one page of an array while
// it acquires another of the same array: the host launches no more warps than frames allow under this rule. Elements
// are read-only.
#pragma once

#include "fault.cuh"

GPUVM_NAMESPACE_BEGIN

// The elements of one page, in its frame. Empty, and false, if the launch was stopped: then leave the kernel, the host
// has the reason.
template <class T>
struct PageElements {
  const T* data;
  u64 first;  // index of data[0] in the array
  u64 len;

  GPUVM_DEVICE explicit operator bool() const { return data != nullptr; }
  GPUVM_DEVICE const T& operator[](u64 i) const { return data[i]; }
};

// An array of `T` in host memory, read through pages: what `PagedArray<T>` becomes as a kernel's argument.
template <class T>
struct PagedSlice {
  PagedSliceView view;

  GPUVM_DEVICE u64 len() const { return view.array.size_bytes / sizeof(T); }
  GPUVM_DEVICE u64 page_bytes() const { return u64(1) << view.page_table.page_shift; }
  // Elements of a page; the last page may have fewer.
  GPUVM_DEVICE u64 page_len() const { return page_bytes() / sizeof(T); }
  GPUVM_DEVICE u64 page_of(u64 i) const { return i * sizeof(T) >> view.page_table.page_shift; }
  GPUVM_DEVICE u64 num_pages() const {
    return (view.array.size_bytes + page_bytes() - 1) >> view.page_table.page_shift;
  }
  GPUVM_DEVICE Paging paging() const {
    return {view.page_table, view.frame_pool, view.error, view.stuck_after_ns, view.frame_pool.num_pinned};
  }
  // Whether the host or another warp has ended the launch. acquire asks only while it waits, so that a hit is one
  // atomic: a kernel that runs for long asks now and then.
  GPUVM_DEVICE bool stopped() const { return is_stopped(view.error); }

  // The elements of page number `page`, fetched if need be; the page stays until it is released.
  GPUVM_DEVICE PageElements<T> acquire(Warp& warp, u64 page) const {
    if (page >= num_pages()) {
      report_out_of_range(warp, page * page_len());
      return {nullptr, 0, 0};
    }
    const u8* frame = acquire_page(warp, paging(), view.array, page, 1);
    if (frame == nullptr) return {nullptr, 0, 0};
    const u64 first = page * page_len(), left = len() - first;
    return {reinterpret_cast<const T*>(frame), first, left < page_len() ? left : page_len()};
  }

  // After the last read of all lanes.
  GPUVM_DEVICE void release(Warp& warp, u64 page) const { release_page(warp, paging(), page, 1); }

  // Calls `body(i, element)` for the elements from `first` up to, not with, `last`: a lane an element, page after page.
  // False if the launch was stopped.
  template <class Body>
  GPUVM_DEVICE bool for_each(Warp& warp, u64 first, u64 last, Body body) const {
    if (first < last && last > len()) {
      report_out_of_range(warp, last - 1);
      return false;
    }
    while (first < last) {
      const u64 page = page_of(first);
      const PageElements<T> elements = acquire(warp, page);
      if (!elements) return false;
      const u64 page_end = elements.first + elements.len, end = last < page_end ? last : page_end;
      for (u64 i = first + warp.lane; i < end; i += kLanes) body(i, elements[i - elements.first]);
      release(warp, page);
      first = end;
    }
    return true;
  }

  GPUVM_DEVICE void report_out_of_range(const Warp& warp, u64 i) const {
    if (warp.leads()) report_error(view.error, kErrorElementOutOfRange, i, len());
  }
};

static_assert(sizeof(PagedSlice<u8>) == sizeof(PagedSliceView), "the host passes a PagedSliceView");

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
// The warp of this thread. It has no Block, whose queues and sums only the traversals use.
GPUVM_DEVICE Warp this_warp() {
  const u32 block_warp = threadIdx.x / kLanes, block_warps = blockDim.x / kLanes;
  return {threadIdx.x % kLanes, blockIdx.x * block_warps + block_warp, gridDim.x * block_warps,
          block_warp,           gridDim.x,                             nullptr,
          nullptr,              {}};
}
#endif

// A warp whose hits and faults, counted by any of its lanes, are added to the launch's when it leaves the kernel, by
// whatever way all lanes take together. A kernel has one, made from any of its arrays.
class CountedWarp : public Warp {
 public:
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
  template <class T>
  GPUVM_DEVICE explicit CountedWarp(const PagedSlice<T>& array) : CountedWarp(array, this_warp()) {}
#endif
  template <class T>
  GPUVM_DEVICE CountedWarp(const PagedSlice<T>& array, const Warp& warp)
      : Warp(warp), counters_(pointer<PagingCounters>(array.view.counters)) {}
  CountedWarp(const CountedWarp&) = delete;
  CountedWarp& operator=(const CountedWarp&) = delete;

  GPUVM_DEVICE ~CountedWarp() {
    add(counters_->hits, stats.hits);
    add(counters_->faults, stats.faults);
    add(counters_->coalesced, stats.coalesced);
    add(counters_->evictions, stats.evictions);
    add(counters_->bytes_in, stats.bytes_in);
  }

 private:
  // `counted` is this lane's.
  GPUVM_DEVICE void add(u64& total, u64 counted) const {
    if (!any(counted != 0)) return;
    const u64 by_all_lanes = sum(counted);
    if (leads()) add_relaxed(&total, by_all_lanes);
  }

  PagingCounters* counters_;
};

GPUVM_NAMESPACE_END
