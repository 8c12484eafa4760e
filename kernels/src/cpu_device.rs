//! The CPU device: kernels compiled by the C++ compiler, run by threads that each stand for a warp.

use std::ffi::{c_uint, c_void};

use crate::layout::{BfsArgs, ComponentsArgs, SsspArgs, SsspParentsArgs, StepCounters};

type RunWarp = unsafe extern "C" fn(args: *const c_void, warp: c_uint, num_warps: c_uint);

/// Lanes of a warp of the CPU device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarpLanes {
    /// A thread is a lane is a warp: the product.
    #[default]
    One,
    /// A thread runs 32 lanes in turn: for tests of what only wide warps do.
    #[cfg(feature = "emulated-warps")]
    ThirtyTwo,
}

/// Arguments of a kernel; the type names the kernel.
///
/// # Safety
/// `entry` must return the function that takes a pointer to `Self`.
pub unsafe trait KernelArgs: Copy + Sync {
    #[doc(hidden)]
    fn entry(&self, lanes: WarpLanes) -> RunWarp;
}

macro_rules! kernels {
    ($($name:ident: $args:ident, $one:ident, $thirty_two:ident;)*) => {
        unsafe extern "C" {
            $(fn $one(args: *const c_void, warp: c_uint, num_warps: c_uint);)*
            $(
                #[cfg(feature = "emulated-warps")]
                fn $thirty_two(args: *const c_void, warp: c_uint, num_warps: c_uint);
            )*
        }
        $(
            // SAFETY: both functions take `$args`, as cuda/cpu_device.cc declares them.
            unsafe impl KernelArgs for $args {
                fn entry(&self, lanes: WarpLanes) -> RunWarp {
                    match lanes {
                        WarpLanes::One => $one,
                        #[cfg(feature = "emulated-warps")]
                        WarpLanes::ThirtyTwo => $thirty_two,
                    }
                }
            }
        )*
    };
}

/// Arguments of the pass over all vertices that gives each the root of its tree as label.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct CompressArgs(pub ComponentsArgs);

kernels! {
    bfs_step: BfsArgs, gpuvm_lanes_1_bfs_step, gpuvm_lanes_32_bfs_step;
    sssp_step: SsspArgs, gpuvm_lanes_1_sssp_step, gpuvm_lanes_32_sssp_step;
    sssp_parents: SsspParentsArgs, gpuvm_lanes_1_sssp_parents, gpuvm_lanes_32_sssp_parents;
    components_link: ComponentsArgs, gpuvm_lanes_1_components_link, gpuvm_lanes_32_components_link;
    components_compress: CompressArgs, gpuvm_lanes_1_components_compress, gpuvm_lanes_32_components_compress;
}

/// Runs warp `warp` of the `num_warps` of a grid on this thread, to its end. The warps of a grid may run one after the
/// other or at the same time.
///
/// # Safety
/// * Every address in `args` is that of a live array of the type and length that `layout` gives, aligned for its
///   type, until all warps have returned.
/// * Nobody else writes those arrays meanwhile, and nobody else reads what the kernel writes.
/// * Row offsets rise from 0 to the number of edges, and queues have room for what they may hold.
pub unsafe fn run_warp<A: KernelArgs>(args: &A, lanes: WarpLanes, warp: u32, num_warps: u32) {
    // SAFETY: `entry` takes a pointer to `A` by the contract of `KernelArgs`; the rest is the caller's promise.
    unsafe { args.entry(lanes)(std::ptr::from_ref(args).cast(), warp, num_warps) }
}

// SAFETY: a `repr(C)` struct of `u64`s without padding; zero is a valid value.
unsafe impl bytemuck::Zeroable for StepCounters {}
// SAFETY: as above; every bit pattern is valid.
unsafe impl bytemuck::Pod for StepCounters {}
