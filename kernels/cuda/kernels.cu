// The kernels of the GPU, as NVRTC compiles them.
#include "bfs.cuh"
#include "bfs_batch.cuh"
#include "connected_components.cuh"
#include "gather.cuh"
#include "page_rank.cuh"
#include "pull.cuh"
#include "sssp.cuh"
#ifdef GPUVM_MODULE_QUEUES
#include "queue_engine.cuh"
#endif

namespace {

// Warps are numbered across the blocks, so that a few work items, which go to the first warps, keep all multiprocessors
// busy.
__device__ gpuvm::Warp this_warp() {
  __shared__ gpuvm::Block block;
  const u32 block_warp = threadIdx.x / 32;
  return {threadIdx.x % 32, block_warp * gridDim.x + blockIdx.x, gridDim.x * gpuvm::kBlockWarps,
          block_warp,       gridDim.x,                           &block,
          nullptr,          {}};
}

}  // namespace

// As many blocks as the grid puts on a multiprocessor: that leaves 128 registers to a thread, which the edges it has in
// flight need.
#define GPUVM_KERNEL(name, Args, call)                                                                       \
  extern "C" __global__ void __launch_bounds__(gpuvm::kBlockWarps * 32, gpuvm::kCudaBlocksPerMultiprocessor) \
      name(const __grid_constant__ Args args) {                                                                                \
    gpuvm::Warp warp = this_warp();                                                                          \
    call;                                                                                                    \
  }
#define GPUVM_SSSP(suffix, Weight) \
  GPUVM_KERNEL(sssp_##suffix, gpuvm::SsspArgs, gpuvm::sssp<gpuvm::Weight>(warp, args))
#define GPUVM_SSSP_PARENTS(suffix, Weight) \
  GPUVM_KERNEL(sssp_parents_##suffix, gpuvm::SsspParentsArgs, gpuvm::sssp_parents<gpuvm::Weight>(warp, args))

// One module an algorithm and type of weights, since a driver compiles a module as a whole.
#if defined(GPUVM_MODULE_BFS)
GPUVM_KERNEL(bfs, gpuvm::BfsArgs, gpuvm::bfs(warp, args))
#elif defined(GPUVM_MODULE_BFS_BATCH)
GPUVM_KERNEL(bfs_batch, gpuvm::BfsBatchArgs, gpuvm::bfs_batch(warp, args))
#elif defined(GPUVM_MODULE_COMPONENTS)
GPUVM_KERNEL(connected_components, gpuvm::ComponentsArgs, gpuvm::connected_components(warp, args))
#elif defined(GPUVM_MODULE_PAGE_RANK)
GPUVM_KERNEL(page_rank, gpuvm::PageRankArgs, gpuvm::page_rank(warp, args))
#elif defined(GPUVM_MODULE_PULL)
GPUVM_KERNEL(pull_pages, gpuvm::PullArgs, gpuvm::pull_pages(warp, args))
#elif defined(GPUVM_MODULE_GATHER)
GPUVM_KERNEL(gather, gpuvm::GatherArgs, gpuvm::gather(warp, args))
#elif defined(GPUVM_MODULE_QUEUES)
GPUVM_KERNEL(serve_queues, gpuvm::ServeQueuesArgs, gpuvm::serve_queues(warp, args))
#elif defined(GPUVM_MODULE_SSSP_UNIT)
GPUVM_SSSP(unit, UnitWeight)
#elif defined(GPUVM_MODULE_SSSP_PARENTS_UNIT)
GPUVM_SSSP_PARENTS(unit, UnitWeight)
#elif defined(GPUVM_MODULE_SSSP_HASH)
GPUVM_SSSP(hash, HashWeight)
#elif defined(GPUVM_MODULE_SSSP_PARENTS_HASH)
GPUVM_SSSP_PARENTS(hash, HashWeight)
#elif defined(GPUVM_MODULE_SSSP_U8)
GPUVM_SSSP(u8, IntegerWeight<u8>)
#elif defined(GPUVM_MODULE_SSSP_PARENTS_U8)
GPUVM_SSSP_PARENTS(u8, IntegerWeight<u8>)
#elif defined(GPUVM_MODULE_SSSP_U16)
GPUVM_SSSP(u16, IntegerWeight<u16>)
#elif defined(GPUVM_MODULE_SSSP_PARENTS_U16)
GPUVM_SSSP_PARENTS(u16, IntegerWeight<u16>)
#elif defined(GPUVM_MODULE_SSSP_U32)
GPUVM_SSSP(u32, IntegerWeight<u32>)
#elif defined(GPUVM_MODULE_SSSP_PARENTS_U32)
GPUVM_SSSP_PARENTS(u32, IntegerWeight<u32>)
#elif defined(GPUVM_MODULE_SSSP_F32)
GPUVM_SSSP(f32, RealWeight<f32>)
#elif defined(GPUVM_MODULE_SSSP_PARENTS_F32)
GPUVM_SSSP_PARENTS(f32, RealWeight<f32>)
#elif defined(GPUVM_MODULE_SSSP_F64)
GPUVM_SSSP(f64, RealWeight<f64>)
#elif defined(GPUVM_MODULE_SSSP_PARENTS_F64)
GPUVM_SSSP_PARENTS(f64, RealWeight<f64>)
#endif
