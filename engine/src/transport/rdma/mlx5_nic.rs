//! Transport `mlx5`: ConnectX NICs whose own queues kernels use. Queue pairs and their connections are those of transport
//! `rdma`; libmlx5 says where their queues are. Not run on hardware yet: docs/rdma.md.

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use ibverbs_sys as ffi;

use super::queue::{CompletionQueue, QueuePair};
use super::region::Region;
use super::verbs_nic::{PortWatch, register};
use super::{RdmaDevice, RdmaError, device_names};
use crate::device::{CudaDevice, Device};
use crate::error::Error;
use crate::transport::TransportConfig;
use crate::transport::mlx5dv::{LIBRARY, Mlx5Library};
use crate::transport::nic::{MemoryKind, MemoryRegion};
use crate::transport::nic_queues::{NicQueues, PairReport, QueueNic};
use crate::transport::queues::Memory;

/// A send queue has up to four entries for each request that is asked for, since libmlx5 makes room for the longest kind.
/// Its completion queue has to hold as many, and has twice that.
const COMPLETIONS_PER_REQUEST: u32 = 8;

/// The transport, with a thread a NIC that rings.
pub(in crate::transport) fn open_mlx5(
    device: &Device,
    config: &TransportConfig,
    memory: &Memory,
) -> Result<NicQueues, Error> {
    let mut nics: Vec<Box<dyn QueueNic>> = Vec::new();
    let (library, devices) = devices(config)?;
    for rdma_device in devices {
        let facts = rdma_device.facts();
        tracing::info!(nic = rdma_device.name(), ?facts, "ConnectX");
        nics.push(Box::new(Mlx5Nic::new(rdma_device, Arc::clone(&library), device, config)?));
    }
    NicQueues::new(device, config, memory, nics)
}

/// The ConnectX NICs that `config` names, or else all whose port is active, and their library.
fn devices(config: &TransportConfig) -> Result<(Arc<Mlx5Library>, Vec<RdmaDevice>), RdmaError> {
    let none = |found| RdmaError::NoMlx5 { found };
    let names = device_names().map_err(|error| match error {
        RdmaError::List(source) => none(format!("the kernel lists no RDMA devices ({source})")),
        error => error,
    })?;
    if names.is_empty() {
        return Err(none("there is no RDMA device at all".to_owned()));
    }
    let library = Mlx5Library::load().map_err(|source| RdmaError::NoLibrary { library: LIBRARY, source })?;
    let mut devices = Vec::new();
    let mut left_out = Vec::new();
    for name in if config.nics.is_empty() { &names } else { &config.nics } {
        let opened = RdmaDevice::open(name).and_then(|device| {
            let context = device.open_device().context.as_ptr();
            // SAFETY: an open device, whose entry in the list of devices lives as long as it.
            match unsafe { library.is_supported((*context).device.cast()) } {
                true => Ok(device),
                false => Err(none(format!("{name} is of another kind"))),
            }
        });
        match opened {
            Ok(device) => devices.push(device),
            Err(error) if !config.nics.is_empty() => return Err(error),
            Err(RdmaError::NoMlx5 { found }) => left_out.push(found),
            Err(error) => left_out.push(error.to_string()),
        }
    }
    for why in &left_out {
        tracing::info!(why, "left out");
    }
    if devices.is_empty() { Err(none(left_out.join("; "))) } else { Ok((Arc::new(library), devices)) }
}

/// A ConnectX.
#[derive(Debug)]
struct Mlx5Nic {
    // Before the regions: what is under way ends before they go.
    pairs: Vec<QueuePair>,
    regions: Vec<Region>,
    device: RdmaDevice,
    library: Arc<Mlx5Library>,
    gpu: Option<Arc<CudaDevice>>,
    port: PortWatch,
    num_pairs: u32,
    depth: u32,
}

impl Mlx5Nic {
    fn new(
        device: RdmaDevice,
        library: Arc<Mlx5Library>,
        runs_on: &Device,
        config: &TransportConfig,
    ) -> Result<Self, Error> {
        let gpu = match runs_on {
            Device::Cpu(_) => None,
            Device::Cuda(cuda) => Some(Arc::clone(cuda)),
        };
        set_nonblocking(&device)?;
        let mut nic = Self {
            pairs: Vec::new(),
            regions: Vec::new(),
            device,
            library,
            gpu,
            port: PortWatch::new(),
            num_pairs: config.queue_pairs,
            depth: config.queue_depth,
        };
        nic.pairs = nic.new_pairs()?;
        Ok(nic)
    }

    /// Queue pairs in loopback, each with a completion queue of its own: kernels find the completion of a request by its number.
    fn new_pairs(&self) -> Result<Vec<QueuePair>, RdmaError> {
        let make = |_| {
            let completions = Arc::new(self.new_completion_queue()?);
            let mut pair = QueuePair::new(&self.device, &completions, self.depth)?;
            let other_end = pair.endpoint();
            pair.connect(&other_end)?;
            Ok(pair)
        };
        (0..self.num_pairs).map(make).collect()
    }

    fn new_completion_queue(&self) -> Result<CompletionQueue, RdmaError> {
        let mut attributes = ffi::ibv_cq_init_attr_ex {
            // The library takes the next power of two above.
            cqe: COMPLETIONS_PER_REQUEST * self.depth - 1,
            cq_context: ptr::null_mut(),
            channel: ptr::null_mut(),
            comp_vector: 0,
            wc_flags: 0,
            comp_mask: ffi::IBV_CQ_INIT_ATTR_MASK_FLAGS,
            // Kernels do not tell the NIC what they have seen: an entry is used again only after its request's place is.
            flags: ffi::IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
            parent_domain: ptr::null_mut(),
        };
        let open = self.device.open_device();
        // SAFETY: an open device of this library, and attributes of its kind.
        let queue = unsafe {
            self.library.create_completion_queue(open.context.as_ptr().cast(), (&raw mut attributes).cast())
        };
        let queue = queue
            .and_then(|queue| NonNull::new(queue.cast::<ffi::ibv_cq>()).ok_or_else(io::Error::last_os_error));
        Ok(CompletionQueue::from_raw(queue.map_err(self.device.failed("create a completion queue"))?, open))
    }

    /// What the device says happened to it that it does not come back from; what concerns the port is seen there.
    fn fatal_event(&self) -> Option<String> {
        let context = self.device.open_device().context.as_ptr();
        loop {
            // SAFETY: a C struct of integers and pointers, for which zero is a value.
            let mut event: ffi::ibv_async_event = unsafe { std::mem::zeroed() };
            // SAFETY: an open device, whose file does not block; writes one struct.
            if unsafe { ffi::ibv_get_async_event(context, &mut event) } != 0 {
                return None;
            }
            let kind = event.event_type;
            // SAFETY: the event that was taken, once.
            unsafe { ffi::ibv_ack_async_event(&mut event) };
            match kind {
                ffi::IBV_EVENT_DEVICE_FATAL => return Some("the device failed (fatal event)".to_owned()),
                ffi::IBV_EVENT_QP_FATAL => return Some("a queue pair failed (fatal event)".to_owned()),
                ffi::IBV_EVENT_CQ_ERR => return Some("a completion queue failed (event)".to_owned()),
                kind => tracing::debug!(nic = self.device.name(), kind, "event"),
            }
        }
    }
}

/// Has a look at events of the device end at once if there is none.
fn set_nonblocking(device: &RdmaDevice) -> Result<(), RdmaError> {
    // SAFETY: the file of an open device, which outlives this borrow.
    let events = unsafe { BorrowedFd::borrow_raw(device.open_device().context.as_ref().async_fd) };
    rustix::io::ioctl_fionbio(events, true).map_err(|error| device.failed("listen to events")(error.into()))
}

// SAFETY: libmlx5 reports the queues of live queue pairs, in memory that goes with them; libibverbs neither posts nor polls
// there.
unsafe impl QueueNic for Mlx5Nic {
    fn name(&self) -> String {
        self.device.name().to_owned()
    }

    fn register(&mut self, memory: MemoryRegion) -> Result<u32, Error> {
        if memory.size_bytes == 0 {
            return Ok(0); // a graph without edges has no frames, and nobody asks for a page
        }
        if let Some(gpu) = &self.gpu
            && memory.kind == MemoryKind::Frames
            && gpu.host_address(memory.address)?.is_none()
            && !gpu.orders_remote_writes()
        {
            return Err(RdmaError::NeedsFlush { nic: self.name() }.into());
        }
        let region = register(&self.device, self.gpu.as_deref(), memory)?;
        let key = match memory.kind {
            MemoryKind::Array => region.remote_key(),
            MemoryKind::Frames => region.local_key(),
        };
        self.regions.push(region);
        Ok(key)
    }

    fn pairs(&self) -> Result<Vec<PairReport>, Error> {
        let report = |pair: &QueuePair| {
            let (queue_pair, completions): (*mut c_void, *mut c_void) = pair.as_raw();
            // SAFETY: both live, of a device of this library.
            unsafe { self.library.report(pair.number(), queue_pair, completions) }
                .map_err(self.device.failed("take over a queue pair"))
                .map_err(Error::from)
        };
        self.pairs.iter().map(report).collect()
    }

    fn renew(&mut self) -> Result<(), Error> {
        self.pairs.clear();
        self.pairs = self.new_pairs()?;
        Ok(())
    }

    fn trouble(&mut self) -> Option<String> {
        let port_is_gone = self.port.is_gone(&self.device);
        self.fatal_event().or_else(|| port_is_gone.then(|| "its port is not active".to_owned()))
    }

    fn stop(&mut self) {
        for pair in &self.pairs {
            if let Err(error) = pair.stop() {
                tracing::debug!(%error, "as it is gone anyway");
            }
        }
    }
}
