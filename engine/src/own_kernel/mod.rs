//! An embedder's own kernels over arrays larger than the device: [`PagedArray`] is such an array, [`Engine::compile_kernel`]
//! makes a [`Kernel`] of CUDA C++ that includes `gpuvm.cuh`, and [`Kernel::launch`] runs it.

mod argument;
mod kernel;
mod paged_array;

pub use argument::{InPlace, KernelArgument, KernelArguments};
pub use kernel::{Grid, Kernel, LaunchStats};
pub use paged_array::{Frames, PagedArray, PagedArrayOptions};

use bytemuck::Pod;

use crate::device::Device;
use crate::engine::Engine;
use crate::error::Error;
use crate::memory::DeviceArray;

/// Arrays for kernels to write, or to read without paging.
impl Engine {
    /// `len` zeros in device memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn zeros<T: Pod + Send + Sync>(&self, len: u64) -> Result<DeviceArray<T>, Error> {
        DeviceArray::zeroed(&self.device, "an array", len)
    }

    /// A copy of `elements` in device memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Cuda`].
    pub fn copy_of<T: Pod + Send + Sync>(&self, elements: &[T]) -> Result<DeviceArray<T>, Error> {
        DeviceArray::copied(&self.device, "an array", elements)
    }

    /// A copy of `elements` in the driver's unified memory (UVM), on the host's side at first, with the advice that it is
    /// `read_mostly` or without: to compare with.
    ///
    /// # Errors
    /// [`Error::AccessNeedsGpu`]; [`Error::OutOfMemory`] if the device has less free, since UVM that is oversubscribed may
    /// hang a GPU; [`Error::Cuda`].
    pub fn managed_copy_of<T: Pod + Send + Sync>(
        &self,
        elements: &[T],
        read_mostly: bool,
    ) -> Result<DeviceArray<T>, Error> {
        let Device::Cuda(cuda) = &self.device else {
            return Err(Error::AccessNeedsGpu { access: "managed" });
        };
        let bytes = size_of_val(elements) as u64;
        if bytes > cuda.free_bytes()? {
            return Err(Error::OutOfMemory { what: "managed memory", bytes });
        }
        DeviceArray::managed(cuda, elements, read_mostly)
    }
}
