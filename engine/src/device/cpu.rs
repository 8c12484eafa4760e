//! The CPU device: a pool of threads, each a block of the grid; outside of tests a block is one warp.

use std::num::NonZero;

use gpuvm_kernels::cpu_device::{KernelArgs, WarpLanes, run_block};
use rayon::{ThreadPool, ThreadPoolBuilder};
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use crate::error::Error;

/// The most threads that the CPU device takes.
const MAX_THREADS: usize = 1024;

/// Work items below which waking the other threads costs more than they bring.
const ITEMS_WORTH_A_GRID: u64 = 64;

/// Memory that the machine can give now, less a reserve for everyone else.
pub(crate) fn free_bytes() -> u64 {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    // Where the machine does not tell, the allocations themselves will: they fail with an error, not a crash.
    let Ok(system) = System::new_with_specifics(memory) else { return u64::MAX };
    let available = match system.cgroup_limits() {
        // Not `free_memory`: the page cache of mapped files counts against that, and leaves when asked.
        Some(limits) => limits.total_memory.saturating_sub(limits.rss).min(system.available_memory()),
        None => system.available_memory(),
    };
    available - available / 16
}

/// Memory of the machine, or what its control group allows; without bound where nobody knows.
pub(crate) fn total_memory_bytes() -> u64 {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let Ok(system) = System::new_with_specifics(memory) else { return u64::MAX };
    system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory).min(system.total_memory())
}

#[derive(Debug)]
pub(crate) struct CpuDevice {
    pool: ThreadPool,
    num_threads: u32,
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
        Ok(Self { pool, num_threads: threads as u32, lanes })
    }

    pub fn num_threads(&self) -> u32 {
        self.num_threads
    }

    pub fn lanes(&self) -> WarpLanes {
        self.lanes
    }

    pub fn num_warps(&self) -> u32 {
        self.num_threads * self.lanes.block_warps()
    }

    /// Runs a kernel to its end; `num_items` are its work items.
    ///
    /// # Safety
    /// As [`run_block`].
    pub unsafe fn launch<A: KernelArgs>(&self, args: &A, num_items: u64) {
        if num_items <= ITEMS_WORTH_A_GRID {
            // SAFETY: the caller's promise, passed on.
            unsafe { run_block(args, self.lanes, 0, 1) };
        } else {
            // SAFETY: the caller's promise, passed on.
            self.pool.broadcast(|block| unsafe {
                run_block(args, self.lanes, block.index() as u32, self.num_threads);
            });
        }
    }
}
