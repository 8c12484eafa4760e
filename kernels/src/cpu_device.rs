//! The CPU device: kernels compiled by the C++ compiler, run by threads that each stand for a block.

use std::ffi::{c_uint, c_void};

use crate::layout::{
    BfsArgs, BfsBatchArgs, ComponentsArgs, GatherArgs, GraphView, LatencyBuckets, LoopState, NicState,
    NicView, PAGE_TABLE_QUEUES, PageRankArgs, PagedSliceView, PagingCounters, PairProgress, PullArgs,
    QueuePair, QueueSet, RemoteRegion, ServeQueuesArgs, SharedCounter, SsspArgs, SsspParentsArgs, Step,
    StepCounters, StepRecord,
};

type RunBlock = unsafe extern "C" fn(args: *const c_void, block: c_uint, num_blocks: c_uint);

/// Lanes of a warp of the CPU device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarpLanes {
    /// A thread is a lane is a warp is a block: the product.
    #[default]
    One,
    /// A thread runs the 32 lanes of the warps of a block in turn: for tests of what only wide warps and blocks do.
    #[cfg(feature = "emulated-warps")]
    ThirtyTwo,
}

impl WarpLanes {
    /// Warps of the block that a thread runs.
    pub fn block_warps(self) -> u32 {
        match self {
            Self::One => 1,
            #[cfg(feature = "emulated-warps")]
            Self::ThirtyTwo => crate::layout::EMULATED_BLOCK_WARPS as u32,
        }
    }
}

/// Arguments of a kernel; the type names the kernel.
///
/// # Safety
/// `entry` must return the function that takes a pointer to `Self`, and `cuda_kernel` the name of the kernel that takes
/// `Self` by value.
pub unsafe trait KernelArgs: Copy + Sync {
    #[doc(hidden)]
    fn entry(&self, lanes: WarpLanes) -> RunBlock;
    /// Module of [`ptx`](crate::ptx()) and kernel in it.
    fn cuda_kernel(&self) -> (&'static str, &'static str);
}

/// Modules of kernels that do not depend on weights, the second for queues.
const BFS: [&str; 2] = ["bfs", "bfs_queues"];
const BFS_BATCH: [&str; 2] = ["bfs_batch", "bfs_batch_queues"];
const COMPONENTS: [&str; 2] = ["components", "components_queues"];
const PAGE_RANK: [&str; 2] = ["page_rank", "page_rank_queues"];

/// Modules of kernels over weights, by `WEIGHT_` constant, the second for queues: SSSP, and its parents. The first module has
/// the kernel's name.
const WEIGHTED: [([&str; 2], [&str; 2]); 7] = [
    (["sssp_unit", "sssp_unit_queues"], ["sssp_parents_unit", "sssp_parents_unit_queues"]),
    (["sssp_hash", "sssp_hash_queues"], ["sssp_parents_hash", "sssp_parents_hash_queues"]),
    (["sssp_u8", "sssp_u8_queues"], ["sssp_parents_u8", "sssp_parents_u8_queues"]),
    (["sssp_u16", "sssp_u16_queues"], ["sssp_parents_u16", "sssp_parents_u16_queues"]),
    (["sssp_u32", "sssp_u32_queues"], ["sssp_parents_u32", "sssp_parents_u32_queues"]),
    (["sssp_f32", "sssp_f32_queues"], ["sssp_parents_f32", "sssp_parents_f32_queues"]),
    (["sssp_f64", "sssp_f64_queues"], ["sssp_parents_f64", "sssp_parents_f64_queues"]),
];

/// Which of two modules: a GPU has kernels of its own for faults that ask NICs.
fn for_transport(modules: [&'static str; 2], graph: &GraphView) -> &'static str {
    modules[usize::from(u64::from(graph.page_table.flags) & PAGE_TABLE_QUEUES != 0)]
}

macro_rules! kernels {
    ($($args:ident, $one:ident, $thirty_two:ident, $cuda:expr;)*) => {
        unsafe extern "C" {
            $(fn $one(args: *const c_void, block: c_uint, num_blocks: c_uint);)*
            $(
                #[cfg(feature = "emulated-warps")]
                fn $thirty_two(args: *const c_void, block: c_uint, num_blocks: c_uint);
            )*
        }
        $(
            // SAFETY: both functions take `$args`, as cuda/cpu_device.cc declares them.
            unsafe impl KernelArgs for $args {
                fn entry(&self, lanes: WarpLanes) -> RunBlock {
                    match lanes {
                        WarpLanes::One => $one,
                        #[cfg(feature = "emulated-warps")]
                        WarpLanes::ThirtyTwo => $thirty_two,
                    }
                }
                fn cuda_kernel(&self) -> (&'static str, &'static str) {
                    let name: fn(&Self) -> (&'static str, &'static str) = $cuda;
                    name(self)
                }
            }
        )*
    };
}

kernels! {
    BfsArgs, gpuvm_lanes_1_bfs, gpuvm_lanes_32_bfs, |args| (for_transport(BFS, &args.traversal.graph), "bfs");
    BfsBatchArgs, gpuvm_lanes_1_bfs_batch, gpuvm_lanes_32_bfs_batch,
        |args| (for_transport(BFS_BATCH, &args.search.traversal.graph), "bfs_batch");
    SsspArgs, gpuvm_lanes_1_sssp, gpuvm_lanes_32_sssp, |args| {
        let (modules, _) = WEIGHTED[args.traversal.graph.weight_type as usize];
        (for_transport(modules, &args.traversal.graph), modules[0])
    };
    SsspParentsArgs, gpuvm_lanes_1_sssp_parents, gpuvm_lanes_32_sssp_parents, |args| {
        let (_, modules) = WEIGHTED[args.traversal.graph.weight_type as usize];
        (for_transport(modules, &args.traversal.graph), modules[0])
    };
    ComponentsArgs, gpuvm_lanes_1_connected_components, gpuvm_lanes_32_connected_components,
        |args| (for_transport(COMPONENTS, &args.traversal.graph), "connected_components");
    ServeQueuesArgs, gpuvm_lanes_1_serve_queues, gpuvm_lanes_32_serve_queues, |_| ("queues", "serve_queues");
    PageRankArgs, gpuvm_lanes_1_page_rank, gpuvm_lanes_32_page_rank,
        |args| (for_transport(PAGE_RANK, &args.traversal.graph), "page_rank");
    GatherArgs, gpuvm_lanes_1_gather, gpuvm_lanes_32_gather, |_| ("gather", "gather");
    PullArgs, gpuvm_lanes_1_pull_pages, gpuvm_lanes_32_pull_pages, |_| ("pull", "pull_pages");
}

/// Runs block `block` of the `num_blocks` of a grid on this thread, to its end. The blocks of a grid wait for each other
/// at the end of every step, so all of them must be running at the same time.
///
/// # Safety
/// * Every address in `args` is that of a live array of the type and length that `layout` gives, aligned for its
///   type, until all blocks have returned.
/// * Nobody else writes those arrays meanwhile, and nobody else reads what the kernel writes.
/// * Row offsets rise from 0 to the number of edges, and queues have room for what they may hold.
pub unsafe fn run_block<A: KernelArgs>(args: &A, lanes: WarpLanes, block: u32, num_blocks: u32) {
    // SAFETY: `entry` takes a pointer to `A` by the contract of `KernelArgs`; the rest is the caller's promise.
    unsafe { args.entry(lanes)(std::ptr::from_ref(args).cast(), block, num_blocks) }
}

macro_rules! plain_words {
    ($($name:ident),*) => {$(
        // SAFETY: a `repr(C)` struct of fixed-width integers without padding; zero is a valid value.
        unsafe impl bytemuck::Zeroable for $name {}
        // SAFETY: as above; every bit pattern is valid.
        unsafe impl bytemuck::Pod for $name {}
    )*};
}
plain_words!(
    GraphView,
    SharedCounter,
    StepCounters,
    Step,
    LoopState,
    StepRecord,
    PagingCounters,
    PagedSliceView,
    QueuePair,
    RemoteRegion,
    NicView,
    QueueSet,
    PairProgress,
    LatencyBuckets,
    NicState
);
