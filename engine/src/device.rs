//! The CPU device: a pool of threads, each a warp of the grid.

use std::num::NonZero;

use gpuvm_kernels::cpu_device::{KernelArgs, WarpLanes, run_warp};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::Error;

/// The most threads that the CPU device takes.
const MAX_THREADS: usize = 1024;

/// Work items below which waking the other threads costs more than they bring.
const ITEMS_WORTH_A_GRID: u64 = 64;

#[derive(Debug)]
pub(crate) struct CpuDevice {
    pool: ThreadPool,
    num_warps: u32,
    lanes: WarpLanes,
}

impl CpuDevice {
    pub fn new(threads: Option<usize>, lanes: WarpLanes) -> Result<Self, Error> {
        let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, NonZero::get));
        if threads == 0 || threads > MAX_THREADS {
            return Err(Error::Threads { num_threads: threads, most: MAX_THREADS });
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|warp| format!("warp-{warp}"))
            .build()
            .map_err(Error::StartThreads)?;
        Ok(Self { pool, num_warps: threads as u32, lanes })
    }

    pub fn num_warps(&self) -> u32 {
        self.num_warps
    }

    /// The threads, for work of the host beside kernels.
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// Runs a kernel to its end; `num_items` are its work items.
    ///
    /// # Safety
    /// As [`run_warp`].
    pub unsafe fn launch<A: KernelArgs>(&self, args: &A, num_items: u64) {
        if num_items <= ITEMS_WORTH_A_GRID {
            // SAFETY: the caller's promise, passed on.
            unsafe { run_warp(args, self.lanes, 0, 1) };
        } else {
            // SAFETY: the caller's promise, passed on.
            self.pool.broadcast(|warp| unsafe {
                run_warp(args, self.lanes, warp.index() as u32, self.num_warps);
            });
        }
    }
}
