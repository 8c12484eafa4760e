//! Who moves a page that is not resident. `direct`: the warp that wants it, and then nothing of this is used. The others:
//! NICs, which kernels ask through queue pairs that both sides see (`kernels/cuda/queue_pair.cuh`), in the format of
//! ConnectX NICs ([`mlx5`]).
//!
//! A `Transport` owns the queues and has them served while a kernel runs. Where host threads drive the NICs (`served`),
//! all that a new kind of NIC needs is `nic::Nic`. A NIC whose own queues kernels use is a `nic_queues::QueueNic`.

mod device;
pub mod endpoint;
mod faults;
mod host;
pub mod mlx5;
#[cfg(any(test, feature = "rdma"))]
#[cfg_attr(not(feature = "rdma"), expect(dead_code, reason = "unit tests call half of it"))]
mod mlx5dv;
pub(crate) mod nic;
#[cfg(any(test, feature = "rdma"))]
mod nic_queues;
pub(crate) mod queues;
#[cfg(feature = "rdma")]
pub mod rdma;
mod serve;
mod served;
mod settings;
mod stats;

use std::fmt::Debug;

pub use settings::{FaultInjection, RnicModel, TransportConfig};
pub use stats::{NicStats, Percentiles};

use queues::Geometry;
pub(crate) use queues::Memory;
pub(crate) use stats::NicCounts;

use crate::config::TransportKind;
use crate::device::Device;
use crate::error::Error;
use crate::memory::CancelHandle;

/// What moves pages for the kernels of one graph, through queues.
pub(crate) trait Transport: Debug + Send + Sync {
    /// Address of the [`QueueSet`](gpuvm_kernels::layout::QueueSet) that kernels use.
    fn queues_address(&self) -> u64;

    /// Called before a kernel: from here on requests are served. What fails meanwhile stops the run by `run`, and is the
    /// error of [`end`](Self::end).
    ///
    /// # Errors
    /// Those of the transport.
    fn begin(&mut self, run: &CancelHandle) -> Result<(), Error>;

    /// Called after the kernel: waits for requests that are under way, and says what each NIC did. After a kernel that did
    /// not succeed the queues start anew.
    ///
    /// # Errors
    /// Those of the transport.
    fn end(&mut self, succeeded: bool) -> Result<Vec<NicCounts>, Error>;
}

/// Whether this build has the transport.
pub(crate) fn is_built(kind: TransportKind) -> bool {
    match kind {
        TransportKind::Direct | TransportKind::Host | TransportKind::Device => true,
        TransportKind::Rdma => cfg!(feature = "rdma"),
        // Unit tests have NICs of their own for it.
        TransportKind::Mlx5 => cfg!(any(test, feature = "rdma")),
    }
}

/// NICs that a transport has, before it is opened.
pub(crate) fn num_nics(config: &TransportConfig) -> u32 {
    match config.kind {
        TransportKind::Direct => 0,
        #[cfg(feature = "rdma")]
        TransportKind::Rdma | TransportKind::Mlx5 => rdma::num_nics(config),
        _ => config.rnics,
    }
}

/// Warps that a launch leaves to the transport, on a GPU whose multiprocessors each run one block.
pub(crate) fn num_warps_left(device: &Device, config: &TransportConfig) -> u32 {
    match (config.kind, device) {
        (TransportKind::Device, Device::Cuda(_)) => {
            device::num_blocks(device, config) * device.warps_at_a_time()
        }
        _ => 0,
    }
}

/// Bytes of device memory that the transport takes; queues in host memory are counted, too.
pub(crate) fn device_bytes(config: &TransportConfig) -> u64 {
    let queues = || Geometry::new(config, num_nics(config)).bytes();
    match config.kind {
        TransportKind::Direct => 0,
        TransportKind::Device => queues() + device::state_bytes(config),
        _ => queues(),
    }
}

/// The transport that `config` names, for pages of `memory`; `None` for `direct`. The caller keeps the memory in place as
/// long as the transport.
///
/// # Errors
/// [`Error::NoTransport`]; those of the transport.
pub(crate) fn open(
    device: &Device,
    config: &TransportConfig,
    memory: &Memory,
) -> Result<Option<Box<dyn Transport>>, Error> {
    Ok(match config.kind {
        TransportKind::Direct => None,
        TransportKind::Host => Some(Box::new(host::open(device, config, memory)?)),
        TransportKind::Device => Some(Box::new(device::open(device, config, memory)?)),
        #[cfg(feature = "rdma")]
        TransportKind::Rdma => Some(Box::new(rdma::open(device, config, memory)?)),
        #[cfg(test)]
        TransportKind::Mlx5 if nic_queues::tests::are_named(&config.nics) => {
            Some(Box::new(nic_queues::tests::open(device, config, memory)?))
        }
        #[cfg(feature = "rdma")]
        TransportKind::Mlx5 => Some(Box::new(rdma::open_mlx5(device, config, memory)?)),
        #[cfg(not(feature = "rdma"))]
        TransportKind::Rdma | TransportKind::Mlx5 => {
            return Err(Error::NoTransport { transport: config.kind.name() });
        }
    })
}
