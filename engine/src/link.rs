//! How fast bytes come from host memory to the device: by the copy engine, which is the most that the link gives, and by
//! warps that pull pages, which is the most that paging can reach.

use std::sync::PoisonError;
use std::time::Instant;

use gpuvm_kernels::layout::PullArgs;
use memmap2::MmapMut;

use crate::config::PageSize;
use crate::device::Device;
use crate::engine::Engine;
use crate::error::Error;
use crate::memory::{DeviceArray, PinnedArray};

/// Bytes that a measurement moves: 5 ms of a PCIe 5 link, so that a launch does not count, and more than any cache.
const MEASURED_BYTES: usize = 256 << 20;

impl Engine {
    /// Bytes a second that the link to the GPU gives at most, measured with its copy engine in some milliseconds; `None`
    /// on the CPU device.
    ///
    /// # Errors
    /// [`Error::Cuda`], [`Error::Pin`], [`Error::OutOfMemory`].
    pub fn link_rate(&self) -> Result<Option<f64>, Error> {
        let Device::Cuda(cuda) = &self.device else { return Ok(None) };
        cuda.copy_rate(&host_bytes()?).map(Some)
    }

    /// Bytes a second at which the device's warps pull pages of this engine's size out of host memory, by the copy that a
    /// page fault makes and without its bookkeeping. On the CPU device: at which its threads copy pages.
    ///
    /// # Errors
    /// [`Error::Cuda`], [`Error::Pin`], [`Error::OutOfMemory`].
    pub fn pull_rate(&self) -> Result<f64, Error> {
        let host = host_bytes()?;
        let mut pull = Pull::new(&self.device, &host, self.config.page_size)?;
        let _alone = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // The first round loads the kernel and touches the memory.
        pull.run()?;
        let mut seconds = Vec::new();
        for _ in 0..5 {
            let started = Instant::now();
            pull.run()?;
            seconds.push(started.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        Ok(host.len() as f64 / seconds[seconds.len() / 2])
    }
}

/// Host memory to measure with, every page of it touched.
fn host_bytes() -> Result<MmapMut, Error> {
    let no_memory = |_| Error::OutOfMemory { what: "a test buffer", bytes: MEASURED_BYTES as u64 };
    let mut host = MmapMut::map_anon(MEASURED_BYTES).map_err(no_memory)?;
    host.fill(1);
    Ok(host)
}

/// Host bytes and the device memory that warps pull them to.
struct Pull<'a> {
    // Unregistered while `host` is borrowed.
    pinned: PinnedArray,
    host: &'a [u8],
    device: &'a Device,
    page_size: PageSize,
    frames: DeviceArray<u8>,
    cursor: DeviceArray<u64>,
}

impl<'a> Pull<'a> {
    fn new(device: &'a Device, host: &'a [u8], page_size: PageSize) -> Result<Self, Error> {
        Ok(Self {
            pinned: PinnedArray::new(device, "a test buffer", host)?,
            host,
            device,
            page_size,
            frames: DeviceArray::zeroed(device, "test frames", host.len() as u64)?,
            cursor: DeviceArray::zeroed(device, "test cursor", 1)?,
        })
    }

    /// Pulls every page once.
    fn run(&mut self) -> Result<(), Error> {
        self.cursor.fill(0)?;
        let size_bytes = self.host.len() as u64;
        let args = PullArgs {
            host: self.pinned.address(),
            frames: self.frames.address(),
            size_bytes,
            cursor: self.cursor.address(),
            page_shift: self.page_size.shift(),
            reserved: 0,
        };
        let num_pages = size_bytes.div_ceil(self.page_size.bytes());
        // SAFETY: `pinned` and `frames` are `size_bytes` long, `cursor` is a `u64`, and `self` keeps all of them; `&mut
        // self` keeps everyone else away from what the kernel writes until the launch returns.
        unsafe { self.device.launch(&args, self.device.max_warps(), num_pages) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DeviceKind, EngineConfig};

    /// Pages of 4 KiB and ends of pages: none, a few bytes, 16-byte pieces with and without a rest, one byte short.
    const SIZES: [usize; 8] =
        [0, 1, 15, 4096, 4096 + 16, 5 * 4096 - 1, 100 * 4096 + 529, (1 << 20) + 3 * 4096 + 2064];

    fn assert_pulled_bytes_are_those_of_the_host(config: EngineConfig) {
        let device = Device::new(&config).expect("a device");
        for size in SIZES {
            let host: Vec<u8> = (0..size).map(|i| (i % 251) as u8 + 1).collect();
            let mut pull =
                Pull::new(&device, &host, PageSize::new(4096).expect("allowed")).expect("a little memory");
            for _ in 0..2 {
                pull.frames.fill(0).expect("memory");
                pull.run().expect("runs");
                assert!(pull.frames.to_vec().expect("memory") == host, "{size} bytes on {}", device.name());
            }
        }
    }

    #[test]
    fn pulled_pages_are_complete_whatever_the_size_of_the_last_one() {
        for threads in [1, 3] {
            let config = EngineConfig { threads: Some(threads), ..EngineConfig::default() };
            assert_pulled_bytes_are_those_of_the_host(config.clone());
            #[cfg(feature = "emulated-warps")]
            assert_pulled_bytes_are_those_of_the_host(EngineConfig {
                warp_lanes: crate::WarpLanes::ThirtyTwo,
                ..config
            });
        }
    }

    #[test]
    #[ignore = "needs a CUDA device"]
    fn pulled_pages_are_complete_on_a_gpu() {
        let config = EngineConfig { device: DeviceKind::Cuda(0), ..EngineConfig::default() };
        assert_pulled_bytes_are_those_of_the_host(config);
    }

    #[test]
    fn cpu_device_has_a_rate_of_pulls_and_no_link() {
        let engine = Engine::new(EngineConfig::default()).expect("threads");
        assert!(engine.link_rate().expect("nothing to fail").is_none());
        let rate = engine.pull_rate().expect("512 MiB");
        assert!(rate.is_finite() && rate > 1e7, "{rate} bytes a second");
    }
}
