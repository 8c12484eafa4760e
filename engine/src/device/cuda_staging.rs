use std::sync::Arc;

use cudarc::driver::sys;
use gpuvm_kernels::layout::GatherArgs;

use super::cuda::{CudaDevice, CudaMemory, PinnedBytes, driver_error};
use crate::error::Error;

/// Two buffers of pinned host memory, through which bytes of the device reach memory that is not pinned: the link fills one
/// while the host empties the other. The driver's own way there is one small buffer and one thread.
#[derive(Debug)]
pub(crate) struct CudaStaging {
    device: Arc<CudaDevice>,
    buffers: [PinnedBytes; 2],
    size: usize,
}

impl CudaStaging {
    /// Buffers of `size` bytes each, of any content; one at least.
    pub fn new(device: &Arc<CudaDevice>, size: usize) -> Result<Self, Error> {
        let pinned = || {
            let pinned = PinnedBytes::uninitialized(device, size);
            pinned.map_err(|source| Error::Pin { what: "staging buffers", bytes: size as u64, source })
        };
        Ok(Self { device: Arc::clone(device), buffers: [pinned()?, pinned()?], size })
    }

    /// Bytes of a buffer.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Has `size` bytes of `memory` from offset `at` on copied into a buffer, after all that the engine's stream has to do
    /// before. The caller keeps `memory` until it has waited.
    ///
    /// # Panics
    /// If they are more than the buffer holds. That `memory` has them is the caller's word.
    pub fn start(&mut self, buffer: usize, memory: &CudaMemory, at: u64, size: usize) -> Result<(), Error> {
        assert!(size <= self.size, "{size} bytes fit the buffer");
        self.device.context.bind_to_thread().map_err(driver_error("use the device"))?;
        let host = self.buffers[buffer].host().cast();
        let stream = self.device.stream.cu_stream();
        // SAFETY: the buffer has `size` bytes and is not freed before all copies are over (`drop`); nobody reads it
        // meanwhile, since `bytes` is asked for what was waited for. Of `memory` it is the caller's word.
        unsafe { sys::cuMemcpyDtoHAsync_v2(host, memory.address() + at, size, stream) }
            .result()
            .map_err(driver_error("copy from the device"))
    }

    /// Has a kernel write the entries of vertices into a buffer, after all that the engine's stream has to do before; of `args`
    /// the address to write to is set here. The caller keeps what they name until it has waited.
    ///
    /// # Panics
    /// If they are more than the buffer holds.
    ///
    /// # Safety
    /// The entries are in memory of this device, the rows in mapped memory, and there are as many of both as `args` says.
    pub unsafe fn start_gather(&mut self, buffer: usize, args: GatherArgs) -> Result<(), Error> {
        let size = args.num_vertices * args.entry_bytes;
        assert!(size <= self.size as u64, "{size} bytes fit the buffer");
        let args = GatherArgs { answers: self.buffers[buffer].address(), ..args };
        // SAFETY: the buffer is mapped, has `size` bytes, is not freed before the kernel is over (`drop`), and nobody reads it
        // meanwhile, since `bytes` is asked for what was waited for. The rest is the caller's word.
        unsafe { self.device.start(&args, self.device.max_warps()) }
    }

    /// Waits for all that was started.
    pub fn wait(&mut self) -> Result<(), Error> {
        self.device.stream.synchronize().map_err(driver_error("copy from the device"))
    }

    /// The first `size` bytes of a buffer, which were waited for, and which nothing else is filling.
    pub fn bytes(&self, buffer: usize, size: usize) -> &[u8] {
        assert!(size <= self.size, "{size} bytes fit the buffer");
        // SAFETY: the buffer has as many bytes; what wrote them is over.
        unsafe { std::slice::from_raw_parts(self.buffers[buffer].host(), size) }
    }
}

impl Drop for CudaStaging {
    fn drop(&mut self) {
        // After a panic something may be under way. A device that fails writes no more.
        let _ = self.wait();
    }
}
