// How many samples have each value: a histogram of an array that need not fit the GPU.
#include "gpuvm.cuh"

extern "C" __global__ void histogram(gpuvm::PagedSlice<unsigned char> samples, u64* counts) {
  // The counts of this block. Adding to them in shared memory is far cheaper than in device memory.
  __shared__ u32 mine[256];
  mine[threadIdx.x] = 0;  // 256 threads
  __syncthreads();

  // A warp a page: the pages go round the warps, so that those in use at one time lie side by side.
  {
    gpuvm::CountedWarp warp(samples);
    for (u64 page = warp.warp; page < samples.num_pages(); page += warp.num_warps) {
      const gpuvm::PageElements<unsigned char> elements = samples.acquire(warp, page);
      if (!elements) break;  // the launch was stopped, and the host knows why
      for (u64 i = warp.lane; i < elements.len; i += gpuvm::kLanes) atomicAdd(&mine[elements[i]], 1u);
      samples.release(warp, page);  // from here on its frame may be another page's
    }
  }

  __syncthreads();
  atomicAdd(&counts[threadIdx.x], u64(mine[threadIdx.x]));
}
