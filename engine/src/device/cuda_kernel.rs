//! A kernel that NVRTC compiled at run time, loaded on a GPU.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaFunction, DriverError, result, sys};
use gpuvm_kernels::layout::CUDA_BLOCKS_PER_MULTIPROCESSOR;

use super::cuda::{BLOCK_THREADS, CudaDevice, driver_error};
use super::nvrtc;
use crate::error::Error;

/// A kernel's argument as the driver takes it: its bytes, at the front. The driver copies as many as the kernel declares.
pub(crate) type Parameter = [u64; 16];

#[derive(Debug)]
pub(crate) struct CudaKernel {
    device: Arc<CudaDevice>,
    function: CudaFunction,
}

impl CudaKernel {
    /// Compiles `source` for the device and finds the kernels of these names in it.
    pub fn compile(device: &Arc<CudaDevice>, source: &str, names: &[&str]) -> Result<Vec<Self>, Error> {
        if let Some(name) = names.iter().find(|name| name.contains('\0')) {
            return Err(Error::Compile {
                kernel: name.replace('\0', ""),
                log: "a zero byte in its name".to_owned(),
            });
        }
        let file = names.first().copied().unwrap_or("kernel");
        let compiled = nvrtc::compile(source, file, device.compute_capability()?)?;
        let module = device.context.load_module(compiled).map_err(driver_error("load a kernel"))?;
        let find = |&kernel: &&str| {
            let function = module.load_function(kernel).map_err(|source| match source {
                DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND) => {
                    Error::NoSuchKernel { kernel: kernel.to_owned(), source }
                }
                source => Error::Cuda { what: "find a kernel", source },
            })?;
            Ok(Self { device: Arc::clone(device), function })
        };
        names.iter().map(find).collect()
    }

    /// Blocks of this many threads that run at the same time: all that fit, and those that a launch fills the device
    /// with.
    pub fn blocks_at_once(&self, block_threads: u32) -> Result<(u32, u32), Error> {
        let on_each = self
            .function
            .occupancy_max_active_blocks_per_multiprocessor(block_threads, 0, None)
            .map_err(driver_error("ask for the occupancy of a kernel"))?;
        let fill = CUDA_BLOCKS_PER_MULTIPROCESSOR as u32 * BLOCK_THREADS / block_threads;
        let multiprocessors = self.device.multiprocessors;
        Ok((on_each * multiprocessors, on_each.min(fill.max(1)) * multiprocessors))
    }

    /// Runs the kernel to its end; returns seconds by the device's clock.
    ///
    /// # Safety
    /// The kernel must take arguments of these types and no others, and touch no memory but what they name, within its
    /// bounds; nobody else touches what it writes.
    pub unsafe fn launch(
        &self,
        num_blocks: u32,
        block_threads: u32,
        parameters: &mut [Parameter],
    ) -> Result<f64, Error> {
        let stream = &self.device.stream;
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let started = stream.record_event(timed).map_err(driver_error("record an event"))?;
        let mut pointers: Vec<*mut c_void> =
            parameters.iter_mut().map(|bytes| bytes.as_mut_ptr().cast()).collect();
        // SAFETY: the pointers name the arguments that the kernel takes, by the caller's word; the driver copies them
        // before it returns. `record_event` bound the context to this thread.
        unsafe {
            result::launch_kernel(
                self.function.cu_function(),
                (num_blocks, 1, 1),
                (block_threads, 1, 1),
                0,
                stream.cu_stream(),
                &mut pointers,
            )
        }
        .map_err(driver_error("launch a kernel"))?;
        let ended = stream.record_event(timed).map_err(driver_error("record an event"))?;
        stream.synchronize().map_err(driver_error("run a kernel"))?;
        let milliseconds = started.elapsed_ms(&ended).map_err(driver_error("read an event"))?;
        Ok(f64::from(milliseconds) * 1e-3)
    }
}
