// The kernels of the GPU, as NVRTC compiles them.
#include "bfs.cuh"
#include "connected_components.cuh"
#include "layout_asserts.cuh"
#include "sssp.cuh"

namespace {

__device__ gpuvm::Warp this_warp() {
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
  return {thread % 32, thread / 32, gridDim.x * blockDim.x / 32, nullptr, {}};
}

}  // namespace

extern "C" __global__ void bfs_step(const gpuvm::BfsArgs args) {
  gpuvm::Warp warp = this_warp();
  gpuvm::bfs_step(warp, args);
}

extern "C" __global__ void sssp_step(const gpuvm::SsspArgs args) {
  gpuvm::Warp warp = this_warp();
  gpuvm::sssp_step(warp, args);
}

extern "C" __global__ void sssp_parents(const gpuvm::SsspParentsArgs args) {
  gpuvm::Warp warp = this_warp();
  gpuvm::sssp_parents(warp, args);
}

extern "C" __global__ void components_link(const gpuvm::ComponentsArgs args) {
  gpuvm::Warp warp = this_warp();
  gpuvm::components_link(warp, args);
}

extern "C" __global__ void components_compress(const gpuvm::ComponentsArgs args) {
  gpuvm::Warp warp = this_warp();
  gpuvm::components_compress(warp, args);
}
