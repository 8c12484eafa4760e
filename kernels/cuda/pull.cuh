// Pages pulled from host memory and nothing else: what the copy of a page fault reaches by itself, to compare runs
// with.
#pragma once

#include "fault.cuh"

GPUVM_NAMESPACE_BEGIN

// Warps take pages in turn and copy each as a fault does; no warp waits for another.
GPUVM_DEVICE void pull_pages(Warp& warp, const PullArgs& args) {
  const u64 page_bytes = u64(1) << args.page_shift;
  for (;;) {
    u64 page = 0;
    if (warp.leads()) page = add_relaxed(pointer<u64>(args.cursor), 1);
    const u64 at = warp.broadcast(page) << args.page_shift;
    if (at >= args.size_bytes) return;
    const u64 rest = args.size_bytes - at;
    fetch_page(warp, pointer<u8>(args.frames) + at, pointer<const u8>(args.host) + at,
               rest < page_bytes ? rest : page_bytes);
  }
}

GPUVM_NAMESPACE_END
