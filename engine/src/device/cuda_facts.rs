//! What the driver tells of a GPU; what NVML adds is in `facts`.

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

use super::CudaDevice;
use super::cuda::driver_error;
use crate::error::Error;
use crate::facts::{GpuFacts, PcieLink, Version};

impl CudaDevice {
    /// What the driver tells of this GPU.
    pub fn facts(&self, ordinal: u32) -> Result<GpuFacts, Error> {
        let number = |attribute| self.attribute(attribute);
        // An attribute that a driver does not know yet is nothing it can do.
        let can = |attribute| self.attribute(attribute).is_ok_and(|value| value > 0);
        Ok(GpuFacts {
            ordinal,
            name: self.name().to_owned(),
            compute_capability: Version::new(
                number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            memory: self.memory_usage()?,
            cuda_version: cuda_version()?,
            driver_version: None,
            pcie: PcieLink::default(),
            bar1: None,
            cooperative_launch: can(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH),
            concurrent_managed_access: can(Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS),
            read_only_host_register: can(Attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED),
            gpu_direct_rdma: can(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED),
            dma_buf: can(Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED),
        })
    }

    /// Where it is on the PCI bus, as NVML writes it.
    pub fn pci_address(&self) -> Result<String, Error> {
        let domain = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
        let bus = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
        let device = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
        Ok(format!("{domain:08x}:{bus:02x}:{device:02x}.0"))
    }
}

/// The newest CUDA that the driver speaks.
fn cuda_version() -> Result<Version, Error> {
    let mut version = 0;
    // SAFETY: writes one `int`; a driver was found when the device was made.
    unsafe { sys::cuDriverGetVersion(&mut version) }
        .result()
        .map_err(driver_error("ask the driver's version"))?;
    Ok(Version::new(version as u32 / 1000, version as u32 % 1000 / 10))
}
