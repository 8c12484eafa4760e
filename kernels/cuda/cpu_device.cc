// The CPU device: the same device code, a thread a block. Compiled with one warp of one lane a block for the product
// and, for tests, with the blocks of emulated_warp.cuh.
#include "bfs.cuh"
#include "bfs_batch.cuh"
#include "connected_components.cuh"
#include "gather.cuh"
#include "layout_asserts.cuh"
#include "page_rank.cuh"
#include "pull.cuh"
#include "queue_engine.cuh"
#include "sssp.cuh"

#if GPUVM_LANES == 32
#include "emulated_warp.cuh"
#endif

namespace {

using namespace gpuvm;

// Runs `kernel` on every lane of this thread's block.
template <class Args>
void run_block(void (*kernel)(Warp&, const Args&), const void* args, u32 number, u32 num_blocks) {
#if GPUVM_LANES == 1
  Block block;
  Warp only{0, number, num_blocks, 0, num_blocks, &block, nullptr, {}};
  kernel(only, *static_cast<const Args*>(args));
#else
  run_emulated_block(
      [](Warp& lane, const void* kernel, const void* args) {
        reinterpret_cast<void (*)(Warp&, const Args&)>(const_cast<void*>(kernel))(lane, *static_cast<const Args*>(args));
      },
      reinterpret_cast<const void*>(kernel), args, number, num_blocks);
#endif
}

}  // namespace

#define GPUVM_SYMBOL(name) GPUVM_CONCATENATE(GPUVM_CONCATENATE(gpuvm_lanes_, GPUVM_LANES), _##name)
#define GPUVM_KERNEL(name, Args, call)                                                        \
  extern "C" void GPUVM_SYMBOL(name)(const void* args, unsigned block, unsigned num_blocks) { \
    run_block<Args>([](Warp & w, const Args& a) { call; }, args, block, num_blocks);          \
  }

GPUVM_KERNEL(bfs, BfsArgs, gpuvm::bfs(w, a))
GPUVM_KERNEL(bfs_batch, BfsBatchArgs, gpuvm::bfs_batch(w, a))
GPUVM_KERNEL(connected_components, ComponentsArgs, gpuvm::connected_components(w, a))
GPUVM_KERNEL(gather, GatherArgs, gpuvm::gather(w, a))
GPUVM_KERNEL(page_rank, PageRankArgs, gpuvm::page_rank(w, a))
GPUVM_KERNEL(pull_pages, PullArgs, gpuvm::pull_pages(w, a))
GPUVM_KERNEL(serve_queues, ServeQueuesArgs, gpuvm::serve_queues(w, a))
GPUVM_KERNEL(sssp, SsspArgs,
             with_weights_of(a.traversal.graph.weight_type, [&](auto type) { gpuvm::sssp<decltype(type)>(w, a); }))
GPUVM_KERNEL(sssp_parents, SsspParentsArgs,
             with_weights_of(a.traversal.graph.weight_type, [&](auto type) { gpuvm::sssp_parents<decltype(type)>(w, a); }))
