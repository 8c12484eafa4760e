//! What other devices on the bus need to reach a GPU's memory (GPUDirect RDMA). Not run on hardware yet: docs/rdma.md.

use std::ffi::{c_int, c_uint};
use std::os::fd::{FromRawFd, OwnedFd};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

use super::cuda::{CudaDevice, driver_error};
use crate::error::Error;

/// A piece of a GPU's memory as a file that drivers of other devices understand.
#[derive(Debug)]
pub(crate) struct DmaBuf {
    pub file: OwnedFd,
    /// Offset in it of the bytes that were asked for.
    pub at: u64,
}

/// The driver shows memory to others in pages of this size.
const GPU_PAGE: u64 = 64 << 10;

impl CudaDevice {
    /// Makes the driver's own copies to and from this memory wait for their end, so that they keep their order with what
    /// other devices write there. For every allocation that others write to, once.
    pub fn order_with_other_devices(&self, address: u64) -> Result<(), Error> {
        self.context.bind_to_thread().map_err(driver_error("use the device"))?;
        let yes: c_uint = 1;
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
        // SAFETY: the attribute is an `unsigned int`; the driver checks the address.
        unsafe { sys::cuPointerSetAttribute((&raw const yes).cast(), attribute, address) }
            .result()
            .map_err(driver_error("order copies with other devices"))
    }

    /// The `size` bytes at this address of the GPU as a dma-buf; none where the driver has no such thing.
    pub fn dma_buf(&self, address: u64, size: u64) -> Result<Option<DmaBuf>, Error> {
        if !self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED).is_ok_and(|can| can > 0) {
            return Ok(None);
        }
        self.context.bind_to_thread().map_err(driver_error("use the device"))?;
        let start = address / GPU_PAGE * GPU_PAGE;
        let end = (address + size).next_multiple_of(GPU_PAGE);
        let mut file: c_int = -1;
        let kind = sys::CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        // SAFETY: writes a file descriptor, an `int`; the driver checks the range.
        unsafe {
            sys::cuMemGetHandleForAddressRange((&raw mut file).cast(), start, (end - start) as usize, kind, 0)
        }
        .result()
        .map_err(driver_error("show memory to other devices"))?;
        // SAFETY: the driver made this descriptor for the caller, who closes it.
        Ok(Some(DmaBuf { file: unsafe { OwnedFd::from_raw_fd(file) }, at: address - start }))
    }

    /// Whether kernels see what other devices wrote before they see that it is done, without a flush in between.
    pub fn orders_remote_writes(&self) -> bool {
        let owner = sys::CUGPUDirectRDMAWritesOrdering::CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER as u32;
        self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)
            .is_ok_and(|order| order >= owner)
    }

    /// Makes visible to kernels what other devices wrote to the GPU's memory until now.
    pub fn flush_remote_writes(&self) -> Result<(), Error> {
        self.context.bind_to_thread().map_err(driver_error("use the device"))?;
        let target =
            sys::CUflushGPUDirectRDMAWritesTarget::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX;
        let scope = sys::CUflushGPUDirectRDMAWritesScope::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER;
        // SAFETY: a call without arguments that point anywhere.
        unsafe { sys::cuFlushGPUDirectRDMAWrites(target, scope) }
            .result()
            .map_err(driver_error("flush the writes of other devices"))
    }

    /// The address by which this process knows host memory that kernels know by `address`; none if it is the GPU's memory.
    pub fn host_address(&self, address: u64) -> Result<Option<u64>, Error> {
        self.context.bind_to_thread().map_err(driver_error("use the device"))?;
        let (mut memory_type, mut host) = (0_u32, 0_u64);
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        // SAFETY: the attribute is an `unsigned int`; the driver checks the address.
        unsafe { sys::cuPointerGetAttribute((&raw mut memory_type).cast(), attribute, address) }
            .result()
            .map_err(driver_error("ask whose memory it is"))?;
        if memory_type != sys::CUmemorytype::CU_MEMORYTYPE_HOST as u32 {
            return Ok(None);
        }
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER;
        // SAFETY: the attribute is a pointer; the driver checks the address.
        unsafe { sys::cuPointerGetAttribute((&raw mut host).cast(), attribute, address) }
            .result()
            .map_err(driver_error("find the host's address of pinned memory"))?;
        Ok(Some(host))
    }
}
