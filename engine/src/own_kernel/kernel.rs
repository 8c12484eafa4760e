use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpuvm_kernels::layout::PagingCounters;
use serde::Serialize;

use super::argument::{KernelArguments, LaunchContext};
use super::paged_array::FRAMES_PER_WARP;
use crate::device::{CudaKernel, Device, Parameter};
use crate::engine::Engine;
use crate::error::Error;
use crate::memory::{DeviceArray, ErrorSlot};
use crate::stats::PagingStats;

/// Blocks of a launch and warps of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks; `None` for as many as run at the same time and have frames enough.
    pub num_blocks: Option<u32>,
    /// Warps of a block, 1 to 32.
    pub warps_per_block: u32,
}

impl Default for Grid {
    /// Fills the device with blocks of eight warps.
    fn default() -> Self {
        Self { num_blocks: None, warps_per_block: 8 }
    }
}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LaunchStats {
    /// What the page tables of all arguments did.
    #[serde(flatten)]
    pub paging: PagingStats,
    /// Warps that were launched.
    pub num_warps: u64,
    /// Duration by the device's clock.
    pub seconds: f64,
}

/// A kernel of an embedder, compiled and loaded: see [`Engine::compile_kernel`].
#[derive(Debug)]
pub struct Kernel {
    kernel: CudaKernel,
    device: Device,
    counters: DeviceArray<PagingCounters>,
    error: Arc<ErrorSlot>,
    running: Arc<Mutex<()>>,
    stuck_after: Duration,
}

impl Engine {
    /// Major and minor number of the GPU's compute capability; `None` on the CPU device.
    ///
    /// # Errors
    /// [`Error::Cuda`].
    pub fn compute_capability(&self) -> Result<Option<(u32, u32)>, Error> {
        match &self.device {
            Device::Cpu(_) => Ok(None),
            Device::Cuda(cuda) => cuda.compute_capability().map(Some),
        }
    }

    /// Compiles CUDA C++ for this engine's GPU and finds the kernel `name` in it, which must be `extern "C" __global__`.
    /// The source may say `#include "gpuvm.cuh"` and then read [`PagedArray`](crate::PagedArray)s; that header's first
    /// comment is its manual ([`gpuvm_kernels::HEADERS`] has the text).
    ///
    /// The compiler is NVRTC 12, found at run time: where the loader does not find `libnvrtc.so.12`, the environment
    /// variable `GPUVM_NVRTC` names it.
    ///
    /// # Errors
    /// [`Error::NoCompiler`]; [`Error::Compile`] with the compiler's log, which calls the source `<name>.cu`;
    /// [`Error::NoSuchKernel`]; [`Error::KernelNeedsGpu`] on the CPU device, which has no run-time compiler;
    /// [`Error::Cuda`].
    pub fn compile_kernel(&self, source: &str, name: &str) -> Result<Kernel, Error> {
        let [kernel] = self.compile_kernels(source, [name])?;
        Ok(kernel)
    }

    /// The same for several kernels of one source, compiled once.
    ///
    /// # Errors
    /// Those of [`compile_kernel`](Engine::compile_kernel); the log calls the source after its first kernel.
    pub fn compile_kernels<const N: usize>(
        &self,
        source: &str,
        names: [&str; N],
    ) -> Result<[Kernel; N], Error> {
        let Device::Cuda(cuda) = &self.device else { return Err(Error::KernelNeedsGpu) };
        let ready = |kernel| {
            Ok(Kernel {
                kernel,
                device: self.device.clone(),
                counters: DeviceArray::zeroed(&self.device, "paging counters", 1)?,
                error: Arc::clone(&self.error),
                running: Arc::clone(&self.running),
                stuck_after: self.config().stuck_after,
            })
        };
        let kernels: Result<Vec<Kernel>, Error> =
            CudaKernel::compile(cuda, source, &names)?.into_iter().map(ready).collect();
        Ok(kernels?.try_into().expect("one for each name"))
    }
}

impl Kernel {
    /// Runs the kernel to its end. [`Engine::cancel_handle`] stops it where a warp waits for a page, or asks
    /// `PagedSlice::stopped()`.
    ///
    /// Each array that evicts has two frames for each warp in flight, so that a warp may hold one page while it acquires
    /// another: the default grid is as small as that takes, another one that is too large is refused. Frames that keep
    /// their page ([`PagedArray::num_pinned_frames`](crate::PagedArray::num_pinned_frames)) do not count.
    ///
    /// # Errors
    /// [`Error::Paging`], [`Error::Interrupted`]; [`Error::TooManyWarps`] and [`Error::Grid`] for a grid that cannot be;
    /// [`Error::OtherDevice`]; [`Error::Cuda`], after which the GPU may be unusable to this process.
    ///
    /// # Safety
    /// * The kernel declares the types that [`KernelArgument`](super::KernelArgument) lists for `arguments`, in this order.
    /// * It writes nowhere but in the arrays passed as `&mut DeviceArray`, and stays inside the bounds of all of them.
    /// * It follows the rules of `gpuvm.cuh`.
    pub unsafe fn launch<A: KernelArguments>(
        &mut self,
        grid: Grid,
        mut arguments: A,
    ) -> Result<LaunchStats, Error> {
        let running = Arc::clone(&self.running);
        let running = running.lock().unwrap_or_else(PoisonError::into_inner);
        let context = LaunchContext {
            device: &self.device,
            error: self.error.address(),
            stuck_after_ns: self.stuck_after.as_nanos().try_into().unwrap_or(u64::MAX),
            counters: self.counters.address(),
        };
        let mut parameters: Vec<Parameter> = Vec::new();
        let mut least_frames: Option<u32> = None;
        arguments.for_each(&mut |argument| {
            let passed = argument.pass(&context)?;
            parameters.push(passed.parameter);
            least_frames = least_frames.into_iter().chain(passed.evicting_frames).min();
            Ok(())
        })?;
        let num_blocks = self.num_blocks(grid, least_frames)?;
        self.counters.fill(0)?;
        // SAFETY: the caller's promise; `arguments` borrows every array that the parameters name until the end, and the
        // error slot is all atomics.
        let launched = unsafe { self.kernel.launch(num_blocks, grid.warps_per_block * 32, &mut parameters) };
        let outcome = launched.and_then(|seconds| self.error.take(0).map(|()| seconds));
        drop(running);
        match outcome {
            Ok(seconds) => {
                let PagingCounters { hits, faults, coalesced, evictions, bytes_in } =
                    self.counters.read(0, 1)?[0];
                Ok(LaunchStats {
                    paging: PagingStats { hits, faults, coalesced, evictions, bytes_in },
                    num_warps: u64::from(num_blocks) * u64::from(grid.warps_per_block),
                    seconds,
                })
            }
            Err(error) => {
                // On a GPU that is lost this fails as well: the first error says why.
                let _ = arguments.for_each(&mut |argument| argument.recover());
                Err(error)
            }
        }
    }

    fn num_blocks(&self, grid: Grid, least_frames: Option<u32>) -> Result<u32, Error> {
        let Grid { num_blocks, warps_per_block } = grid;
        if !(1..=32).contains(&warps_per_block) || num_blocks == Some(0) {
            return Err(Error::Grid { num_blocks: num_blocks.unwrap_or(1), warps_per_block });
        }
        let (at_once, fill) = self.kernel.blocks_at_once(warps_per_block * 32)?;
        if at_once == 0 {
            return Err(Error::Grid { num_blocks: num_blocks.unwrap_or(1), warps_per_block });
        }
        limited_blocks(num_blocks, warps_per_block, at_once, fill, least_frames)
    }
}

/// The blocks of a launch, of which `at_once` fit the device at the same time and `fill` fill it.
fn limited_blocks(
    asked: Option<u32>,
    warps_per_block: u32,
    at_once: u32,
    fill: u32,
    least_frames: Option<u32>,
) -> Result<u32, Error> {
    let Some(num_frames) = least_frames else { return Ok(asked.unwrap_or(fill)) };
    let most_warps = u64::from(num_frames) / FRAMES_PER_WARP;
    let most_blocks = u32::try_from(most_warps / u64::from(warps_per_block)).unwrap_or(u32::MAX);
    let num_blocks = asked.unwrap_or(fill.min(most_blocks.max(1)));
    // Blocks that wait for others to end hold nothing.
    if num_blocks.min(at_once) > most_blocks {
        return Err(Error::TooManyWarps {
            num_warps: u64::from(num_blocks) * u64::from(warps_per_block),
            num_frames: num_frames.into(),
            most: most_warps,
        });
    }
    Ok(num_blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineConfig;

    #[test]
    fn launch_has_no_more_warps_in_flight_than_half_the_frames() {
        assert_eq!(limited_blocks(None, 8, 1000, 528, None).expect("all resident"), 528);
        assert_eq!(limited_blocks(None, 8, 1000, 528, Some(100_000)).expect("plenty"), 528);
        assert_eq!(limited_blocks(None, 8, 1000, 528, Some(16)).expect("one block"), 1);
        assert_eq!(limited_blocks(None, 8, 1000, 528, Some(100)).expect("six"), 6);
        assert_eq!(limited_blocks(Some(6), 8, 1000, 528, Some(100)).expect("six"), 6);
        let refused = limited_blocks(Some(7), 8, 1000, 528, Some(100)).expect_err("56 warps");
        assert!(matches!(refused, Error::TooManyWarps { num_warps: 56, num_frames: 100, most: 50 }));
        assert_eq!(limited_blocks(Some(7), 8, 6, 6, Some(100)).expect("six at a time"), 7);
        let refused = limited_blocks(None, 32, 1000, 132, Some(16)).expect_err("32 warps on 16 frames");
        assert!(matches!(refused, Error::TooManyWarps { num_warps: 32, num_frames: 16, most: 8 }));
    }

    #[test]
    fn cpu_device_says_that_it_has_no_compiler() {
        let engine =
            Engine::new(EngineConfig { threads: Some(1), ..EngineConfig::default() }).expect("a thread");
        let refused = engine.compile_kernel("extern \"C\" __global__ void nothing() {}", "nothing");
        assert!(matches!(refused, Err(Error::KernelNeedsGpu)));
        assert_eq!(engine.compute_capability().expect("no GPU is asked"), None);
    }
}
