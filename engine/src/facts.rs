//! What a GPU and its driver can do, for whoever wants to know why a run is slow or fails.

use std::fmt;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use serde::{Serialize, Serializer};

use crate::device::CudaDevice;
use crate::error::Error;

/// A version of two numbers, `12.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Before the dot.
    pub major: u32,
    /// Behind it.
    pub minor: u32,
}

impl Version {
    /// The version `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What the driver counts of a GPU's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryUsage {
    /// All of it.
    pub total_bytes: u64,
    /// What is free, by every process on the GPU; the driver hands out memory in pieces of 2 MiB or more.
    pub free_bytes: u64,
    /// Bytes in use of the pool that engines of this process allocate from; 0 on a GPU without memory pools.
    pub pool_used_bytes: u64,
    /// The most that were in use at a time, since the process began.
    pub pool_most_used_bytes: u64,
    /// Bytes that the pool holds for it, in use or not.
    pub pool_reserved_bytes: u64,
}

/// A PCIe link as the driver's management library (NVML) tells; what it does not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PcieLink {
    /// Generation now: an idle link may run at a lower one and speed up when there is work.
    pub generation: Option<u32>,
    /// Lanes now.
    pub width: Option<u32>,
    /// The highest generation that GPU and machine can do.
    pub max_generation: Option<u32>,
    /// The most lanes that they can do.
    pub max_width: Option<u32>,
}

/// The window through which other devices reach the GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bar1 {
    /// Its size.
    pub total_bytes: u64,
    /// What is mapped.
    pub used_bytes: u64,
}

/// A GPU and its driver. What the management library (NVML) would tell is `None` where there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuFacts {
    /// Its number, as the driver counts.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// What its processors can do; kernels need 7.0.
    pub compute_capability: Version,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Its memory.
    pub memory: MemoryUsage,
    /// The newest CUDA that the driver speaks; kernels need 12.0.
    pub cuda_version: Version,
    /// Version of the driver, `535.104.05`; from NVML.
    pub driver_version: Option<String>,
    /// Its link to the host; from NVML.
    pub pcie: PcieLink,
    /// From NVML.
    pub bar1: Option<Bar1>,
    /// Whether warps that wait for each other can be launched: every run needs it.
    pub cooperative_launch: bool,
    /// Whether CPU and GPU can use managed memory at the same time.
    pub concurrent_managed_access: bool,
    /// Whether host memory that may only be read can be registered: mapped files.
    pub read_only_host_register: bool,
    /// Whether other devices can reach its memory (GPUDirect RDMA).
    pub gpu_direct_rdma: bool,
    /// Whether its memory can be handed to other devices as a dma-buf, which needs no extra kernel module.
    pub dma_buf: bool,
}

impl GpuFacts {
    /// What is known of the GPU of this number.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::NoGpu`], [`Error::Cuda`]. A missing NVML is none.
    pub fn of(ordinal: u32) -> Result<Self, Error> {
        let device = CudaDevice::shared(ordinal)?;
        let mut facts = device.facts(ordinal)?;
        // Told by the driver's own numbers of the bus: NVML counts GPUs in another order.
        if let Err(error) = facts.ask_nvml(&device.pci_address()?) {
            tracing::debug!(%error, "NVML tells nothing");
        }
        Ok(facts)
    }

    fn ask_nvml(&mut self, pci_address: &str) -> Result<(), NvmlError> {
        let nvml = Nvml::init()?;
        self.driver_version = nvml.sys_driver_version().ok();
        let device: Device<'_> = nvml.device_by_pci_bus_id(pci_address)?;
        self.pcie = PcieLink {
            generation: device.current_pcie_link_gen().ok(),
            width: device.current_pcie_link_width().ok(),
            max_generation: device.max_pcie_link_gen().ok(),
            max_width: device.max_pcie_link_width().ok(),
        };
        let bar1 = device.bar1_memory_info().ok();
        self.bar1 = bar1.map(|bar1| Bar1 { total_bytes: bar1.total, used_bytes: bar1.used });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number_and_print_with_a_dot() {
        assert!(Version::new(11, 8) < Version::new(12, 0) && Version::new(12, 0) < Version::new(12, 10));
        assert_eq!(Version::new(9, 0).to_string(), "9.0");
    }

    #[test]
    fn machine_without_a_driver_has_no_gpu_facts() {
        if crate::DeviceKind::detect() == crate::DeviceKind::Cpu {
            assert!(matches!(GpuFacts::of(0), Err(Error::NoDriver | Error::NoGpu { .. })));
        }
    }
}
