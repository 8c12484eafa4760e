//! A kernel that runs beside others until it is told to stop, through memory that it polls.

use std::sync::Arc;
use std::thread::JoinHandle;

use cudarc::driver::{CudaStream, LaunchConfig, PushKernelArg};
use gpuvm_kernels::cpu_device::{KernelArgs, WarpLanes, run_block};

use super::Device;
use super::cuda::{BLOCK_THREADS, CudaDevice, Launched, driver_error};
use crate::error::Error;

/// Where such kernels run: threads of their own, or a stream of their own.
#[derive(Debug)]
pub(crate) enum Beside {
    Cpu { lanes: WarpLanes, threads: Vec<JoinHandle<()>> },
    Cuda { device: Arc<CudaDevice>, stream: Arc<CudaStream> },
}

impl Beside {
    pub fn new(device: &Device) -> Result<Self, Error> {
        Ok(match device {
            Device::Cpu(cpu) => Self::Cpu { lanes: cpu.lanes(), threads: Vec::new() },
            Device::Cuda(cuda) => Self::Cuda {
                device: Arc::clone(cuda),
                stream: cuda.context.new_stream().map_err(driver_error("create a stream"))?,
            },
        })
    }

    /// Starts a kernel of `num_blocks` blocks that do not wait for each other. One at a time.
    ///
    /// # Safety
    /// As [`Device::launch`], until [`wait`](Self::wait) has returned; what other kernels and the host use at the same time they
    /// use by its protocol.
    pub unsafe fn start<A: KernelArgs + Send + 'static>(
        &mut self,
        args: A,
        num_blocks: u32,
    ) -> Result<(), Error> {
        match self {
            Self::Cpu { lanes, threads } => {
                let lanes = *lanes;
                for block in 0..num_blocks {
                    // SAFETY: the caller's promise.
                    let work = move || unsafe { run_block(&args, lanes, block, num_blocks) };
                    let name = format!("beside-{block}");
                    let started = std::thread::Builder::new().name(name).spawn(work);
                    threads.push(started.map_err(Error::StartNicThread)?);
                }
                Ok(())
            }
            Self::Cuda { device, stream } => {
                let (function, _) = device.kernel(&args)?;
                let config = LaunchConfig {
                    grid_dim: (num_blocks, 1, 1),
                    block_dim: (BLOCK_THREADS, 1, 1),
                    shared_mem_bytes: 0,
                };
                let parameter = Launched(args);
                let mut launch = stream.launch_builder(&function);
                launch.arg(&parameter);
                // SAFETY: the kernel takes one argument, of type `A` (the contract of `KernelArgs`); the rest is the caller's
                // promise.
                unsafe { launch.launch(config) }.map(drop).map_err(driver_error("launch a kernel"))
            }
        }
    }

    /// Waits for the kernel that was started last, which has been told to stop.
    pub fn wait(&mut self) -> Result<(), Error> {
        match self {
            Self::Cpu { threads, .. } => {
                threads.drain(..).try_for_each(|thread| thread.join().map_err(|_| Error::NicThreadGone))
            }
            Self::Cuda { device, stream } => {
                device.context.bind_to_thread().map_err(driver_error("use the device"))?;
                stream.synchronize().map_err(driver_error("run a kernel"))
            }
        }
    }
}
