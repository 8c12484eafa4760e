//! Where kernels run: the [CPU device](cpu) or a [GPU](cuda). One enum, since memory, launches and the error slot come
//! in two kinds and nothing else does.

mod beside;
mod cpu;
mod cuda;
mod cuda_facts;
mod cuda_kernel;
mod cuda_staging;
#[cfg(feature = "rdma")]
mod gpu_direct;
mod nvrtc;
mod shared;

use std::sync::Arc;

use gpuvm_kernels::cpu_device::KernelArgs;

use crate::config::{DeviceKind, EngineConfig};
use crate::error::Error;

pub(crate) use beside::Beside;
pub(crate) use cpu::{CpuDevice, total_memory_bytes};
pub(crate) use cuda::{CudaDevice, CudaMemory, HostPin, PinnedBytes, has_gpu};
pub(crate) use cuda_kernel::{CudaKernel, Parameter};
pub(crate) use cuda_staging::CudaStaging;
pub(crate) use shared::{Mover, SharedBytes, StreamWriter};

/// Bytes of a page of host memory.
#[cfg(any(test, feature = "rdma"))]
pub(crate) fn page_bytes() -> u64 {
    unsafe extern "C" {
        safe fn getpagesize() -> std::ffi::c_int;
    }
    getpagesize() as u64
}

/// A device and what is needed to use it.
#[derive(Clone, Debug)]
pub(crate) enum Device {
    Cpu(Arc<CpuDevice>),
    Cuda(Arc<CudaDevice>),
}

impl Device {
    pub fn new(config: &EngineConfig) -> Result<Self, Error> {
        match config.device {
            DeviceKind::Cpu => Ok(Self::Cpu(Arc::new(CpuDevice::new(config.threads, config.warp_lanes)?))),
            DeviceKind::Cuda(ordinal) => Ok(Self::Cuda(CudaDevice::shared(ordinal)?)),
        }
    }

    /// The most warps that a launch may have: all of them run at the same time.
    pub fn max_warps(&self) -> u32 {
        match self {
            Self::Cpu(cpu) => cpu.num_warps(),
            Self::Cuda(cuda) => cuda.max_warps(),
        }
    }

    /// Warps come in multiples of this many.
    pub fn warps_at_a_time(&self) -> u32 {
        match self {
            Self::Cpu(cpu) => cpu.num_warps(),
            Self::Cuda(_) => cuda::WARPS_PER_BLOCK,
        }
    }

    /// Device memory that is free, less a reserve.
    pub fn free_bytes(&self) -> Result<u64, Error> {
        match self {
            Self::Cpu(_) => Ok(cpu::free_bytes()),
            Self::Cuda(cuda) => cuda.free_bytes(),
        }
    }

    /// Whether kernels read host memory as it is.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu(_))
    }

    /// Whether both are the same CPU device, or the same GPU.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cpu(a), Self::Cpu(b)) => Arc::ptr_eq(a, b),
            (Self::Cuda(a), Self::Cuda(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Name for people.
    pub fn name(&self) -> String {
        match self {
            Self::Cpu(cpu) if cpu.num_threads() == 1 => "cpu with 1 thread".to_owned(),
            Self::Cpu(cpu) => format!("cpu with {} threads", cpu.num_threads()),
            Self::Cuda(cuda) => cuda.name().to_owned(),
        }
    }

    /// Makes a kernel ready, so that its first launch need not: a GPU's driver takes about a second to compile it.
    pub fn load_kernel<A: KernelArgs>(&self, args: &A) -> Result<(), Error> {
        match self {
            Self::Cpu(_) => Ok(()),
            Self::Cuda(cuda) => cuda.kernel(args).map(|_| ()),
        }
    }

    /// Runs a kernel of `num_warps` warps to its end; `num_items` tells whether the work is worth more than one.
    ///
    /// # Safety
    /// As [`gpuvm_kernels::cpu_device::run_block`]: every address in `args` is that of a live array on this device of
    /// the type and length that `layout` gives, and nobody else touches what the kernel writes.
    pub unsafe fn launch<A: KernelArgs>(
        &self,
        args: &A,
        num_warps: u32,
        num_items: u64,
    ) -> Result<(), Error> {
        match self {
            Self::Cpu(cpu) => {
                // SAFETY: the caller's promise, passed on.
                unsafe { cpu.launch(args, num_items) };
                Ok(())
            }
            // SAFETY: the caller's promise, passed on.
            Self::Cuda(cuda) => unsafe { cuda.launch(args, num_warps) },
        }
    }
}
