//! Transport `rdma`: RDMA devices move the pages. A host thread a device takes requests out of the queues that kernels write,
//! posts each as an RDMA READ to a queue pair of its own, and writes the completions back. Each queue pair is connected to
//! itself: the graph is in the memory of this host, as in the paper.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::queue::Queues;
use super::region::{Access, DevicePinner, Region};
use super::{RdmaDevice, RdmaError, Read, device_names};
use crate::device::{CudaDevice, Device, Mover, StreamWriter};
use crate::error::Error;
use crate::memory::{
    self, OwnedRegistration, Pinnable, Registered, RegistrationCache, RegistrationError, RegistrationStats,
};
use crate::transport::faults::Faulty;
use crate::transport::mlx5::{Opcode, Status, Syndrome, WorkRequest};
use crate::transport::nic::{Finished, Lost, MemoryKind, MemoryRegion, Nic, Posted, RequestId};
use crate::transport::queues::Memory;
use crate::transport::serve::failed;
use crate::transport::served::ServedQueues;
use crate::transport::settings::TransportConfig;

/// How often a thread with requests under way looks whether the port is still active.
const PORT_CHECK: Duration = Duration::from_millis(100);

/// A port that is not active for so long is gone. Shorter breaks the NIC bridges by sending again.
const PORT_GRACE: Duration = Duration::from_millis(250);

/// What a NIC that is dropped has under way gets so long to come back. After that its queue pairs are taken from it.
const STOP_TIME: Duration = Duration::from_secs(1);

/// Bits of a request's id that hold its number; the queue pair is above them.
const NUMBER_BITS: u32 = 48;

/// NICs that the transport has at most.
pub(in crate::transport) fn num_nics(config: &TransportConfig) -> u32 {
    let named = match config.nics.is_empty() {
        true => device_names().map_or(0, |names| names.len()),
        false => config.nics.len(),
    };
    named.max(1) as u32
}

/// The devices that `config` names, or else all whose port is active.
fn devices(config: &TransportConfig) -> Result<Vec<RdmaDevice>, RdmaError> {
    if !config.nics.is_empty() {
        return config.nics.iter().map(|name| RdmaDevice::open(name)).collect();
    }
    let names = device_names()?;
    let mut devices = Vec::new();
    for name in &names {
        match RdmaDevice::open(name) {
            Ok(device) => devices.push(device),
            Err(error) => tracing::info!(%error, "left out"),
        }
    }
    if devices.is_empty() { Err(RdmaError::NoneActive { names }) } else { Ok(devices) }
}

/// The transport, with a thread a NIC.
pub(in crate::transport) fn open(
    device: &Device,
    config: &TransportConfig,
    memory: &Memory,
) -> Result<ServedQueues, Error> {
    let mut nics: Vec<(Box<dyn Nic>, Option<StreamWriter>)> = Vec::new();
    for (number, rdma_device) in (0..).zip(devices(config)?) {
        let facts = rdma_device.facts();
        tracing::info!(nic = rdma_device.name(), ?facts, "RDMA device");
        let nic = VerbsNic::new(rdma_device, device, config)?;
        let (_, writer) = Mover::new(device)?;
        nics.push((Box::new(Faulty::new(nic, number, &config.faults)), writer));
    }
    ServedQueues::new(device, config, memory, nics)
}

/// An array in host memory, which whoever opened the transport keeps in place as long as it.
#[derive(Clone, Debug)]
struct Array(Range<u64>);

// SAFETY: by the word of whoever opened the transport; the range never changes.
unsafe impl Pinnable for Array {
    fn extent(&self) -> Range<u64> {
        self.0.clone()
    }
    fn kind(&self) -> memory::MemoryKind {
        memory::MemoryKind::Host
    }
}

type Piece = OwnedRegistration<Array, DevicePinner>;

/// The graph, of which no more is registered than a budget allows: pages are registered for their requests, and stay so
/// until the room is needed.
#[derive(Debug)]
struct OnDemand {
    cache: RegistrationCache<DevicePinner>,
    /// By the address that requests give.
    arrays: Vec<(u64, Arc<Registered<Array, DevicePinner>>)>,
    /// What requests under way use, by their id.
    in_use: HashMap<u64, Piece>,
    /// Requests that wait for room.
    waiting: VecDeque<Posted>,
}

impl OnDemand {
    /// The part of the graph that a request reads, registered; none if it has to wait for room.
    fn piece(&self, request: &WorkRequest) -> Result<Option<Piece>, Syndrome> {
        let mut arrays = self.arrays.iter();
        let found = arrays.find_map(|(address, array)| {
            let at = request.remote_address.checked_sub(*address)?;
            let extent = array.memory().extent();
            (at < extent.end - extent.start).then_some((at, array))
        });
        let (at, array) = found.ok_or(Syndrome::REMOTE_ACCESS)?;
        match array.register_owned(at, request.length.into()) {
            Ok(piece) => Ok(Some(piece)),
            Err(RegistrationError::OverBudget { in_use_bytes: 1.., .. }) => Ok(None),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "a page cannot be registered");
                Err(Syndrome::REMOTE_ACCESS)
            }
        }
    }
}

/// Whether a port has been inactive for good.
#[derive(Debug)]
pub(super) struct PortWatch {
    next_check: Instant,
    inactive_since: Option<Instant>,
}

impl PortWatch {
    pub fn new() -> Self {
        Self { next_check: Instant::now(), inactive_since: None }
    }

    /// Whether the port of `device` cannot be used any more.
    pub fn is_gone(&mut self, device: &RdmaDevice) -> bool {
        let now = Instant::now();
        if now < self.next_check {
            return false;
        }
        self.next_check = now + PORT_CHECK;
        if device.is_active() {
            self.inactive_since = None;
            return false;
        }
        let since = *self.inactive_since.get_or_insert(now);
        now - since >= PORT_GRACE
    }
}

/// Registers an array or the frames, by the addresses of kernels on `gpu`, or of this process.
pub(super) fn register(
    device: &RdmaDevice,
    gpu: Option<&CudaDevice>,
    memory: MemoryRegion,
) -> Result<Region, Error> {
    let start = match gpu {
        Some(gpu) => match gpu.host_address(memory.address)? {
            Some(host) => host,
            None => return register_memory_of_gpu(device, gpu, memory),
        },
        None => memory.address,
    };
    let access = match memory.kind {
        MemoryKind::Array => Access::RemoteRead,
        MemoryKind::Frames => Access::LocalWrite,
    };
    // SAFETY: whoever opened the transport keeps the memory in place as long as it; frames are written while nobody reads
    // them (I1, I4), and the host looks at none.
    let region = unsafe { Region::seen_at(device, start..start + memory.size_bytes, memory.address, access) };
    Ok(region?)
}

/// Page frames in a GPU's memory: as a dma-buf where both drivers know those, else by the module `nvidia-peermem`.
fn register_memory_of_gpu(
    device: &RdmaDevice,
    gpu: &CudaDevice,
    memory: MemoryRegion,
) -> Result<Region, Error> {
    gpu.order_with_other_devices(memory.address)?;
    if device.knows_dma_bufs()
        && let Some(buffer) = gpu.dma_buf(memory.address, memory.size_bytes)?
    {
        // SAFETY: the frames outlive the transport and with it the region; nobody holds references to a GPU's memory.
        let region = unsafe {
            Region::of_dma_buf(
                device,
                buffer.file.as_fd(),
                buffer.at,
                memory.size_bytes,
                memory.address,
                Access::LocalWrite,
            )
        };
        match region {
            Ok(region) => return Ok(region),
            Err(error) => tracing::warn!(%error, "no dma-buf of GPU memory, nvidia-peermem is tried"),
        }
    }
    let range = memory.address..memory.address + memory.size_bytes;
    // SAFETY: as above.
    let region = unsafe { Region::new(device, range, Access::LocalWrite) };
    let nic = device.name().to_owned();
    Ok(region.map_err(|error| RdmaError::GpuMemory { nic, source: Box::new(error) })?)
}

/// An RDMA device as a NIC of the transport.
#[derive(Debug)]
struct VerbsNic {
    // Before the regions: what is under way ends before they go.
    queues: Option<Queues>,
    /// Those of a NIC that is dropped: nothing is under way on them.
    stopped_queues: Option<Queues>,
    regions: Vec<Region>,
    on_demand: Option<OnDemand>,
    device: RdmaDevice,
    gpu: Option<Arc<CudaDevice>>,
    /// Whether a GPU sees what the NIC wrote only after a flush.
    needs_flush: bool,
    num_pairs: u32,
    depth: u32,
    num_under_way: usize,
    /// Queue pairs on which a request failed by its own fault; what is behind it comes back flushed.
    stopped_pairs: Vec<bool>,
    /// What ended without the device.
    refused: Vec<Finished>,
    port: PortWatch,
    lost_because: Option<String>,
}

impl VerbsNic {
    fn new(device: RdmaDevice, runs_on: &Device, config: &TransportConfig) -> Result<Self, Error> {
        let (num_pairs, depth) = (config.queue_pairs, config.queue_depth);
        let queues = Queues::in_loopback(&device, num_pairs, depth)?;
        let on_demand = config.pin_budget.map(|budget| OnDemand {
            cache: RegistrationCache::new(
                DevicePinner::new(std::slice::from_ref(&device), Access::RemoteRead),
                budget,
            ),
            arrays: Vec::new(),
            in_use: HashMap::new(),
            waiting: VecDeque::new(),
        });
        let gpu = match runs_on {
            Device::Cpu(_) => None,
            Device::Cuda(cuda) => Some(Arc::clone(cuda)),
        };
        Ok(Self {
            queues: Some(queues),
            stopped_queues: None,
            lost_because: None,
            regions: Vec::new(),
            on_demand,
            device,
            needs_flush: gpu.as_ref().is_some_and(|gpu| !gpu.orders_remote_writes()),
            gpu,
            num_pairs,
            depth,
            num_under_way: 0,
            stopped_pairs: vec![false; num_pairs as usize],
            refused: Vec::new(),
            port: PortWatch::new(),
        })
    }

    /// From here on the device writes nothing.
    fn give_up(&mut self, why: &str) -> Lost {
        tracing::warn!(nic = self.device.name(), why, "the NIC is dropped");
        self.lost_because = Some(why.to_owned());
        if let Some(queues) = &mut self.queues
            && queues.stop(self.num_under_way, STOP_TIME)
        {
            // All came back, so the queue pairs may go later: that takes a device a while.
            self.stopped_queues = self.queues.take();
        }
        self.stop();
        Lost
    }

    fn stop(&mut self) {
        self.queues = None;
        self.num_under_way = 0;
        self.refused.clear();
        if let Some(on_demand) = &mut self.on_demand {
            on_demand.in_use.clear();
            on_demand.waiting.clear();
        }
    }

    /// Posts a request. False if it waits for room.
    fn begin(&mut self, posted: Posted) -> Result<bool, Lost> {
        let Posted { id, request } = posted;
        let Some(queues) = &self.queues else { return Err(Lost) };
        let mut read = Read {
            id: request_id(id),
            remote_address: request.remote_address,
            remote_key: request.remote_key,
            local_address: request.local_address,
            local_key: request.local_key,
            length: request.length,
        };
        if request.opcode != Opcode::RdmaRead {
            self.refused.push(Finished { id, status: failed(Syndrome::LOCAL_QP_OPERATION) });
            return Ok(true);
        }
        if let Some(on_demand) = &mut self.on_demand {
            match on_demand.piece(&request) {
                Ok(Some(piece)) => {
                    read.remote_key = piece[0].remote_key();
                    on_demand.in_use.insert(read.id, piece);
                }
                Ok(None) => return Ok(false),
                Err(syndrome) => {
                    self.refused.push(Finished { id, status: failed(syndrome) });
                    return Ok(true);
                }
            }
        }
        // SAFETY: the frame is that of the request alone until its completion (I1, I6), and in a region that lives as long as
        // the queues, unless the key is wrong.
        match unsafe { queues.pairs()[id.pair as usize].post_read(&read) } {
            Ok(()) => {
                self.num_under_way += 1;
                Ok(true)
            }
            Err(error) => Err(self.give_up(&error.to_string())),
        }
    }

    /// Posts requests that waited for room, as far as there is some.
    fn begin_waiting(&mut self) -> Result<(), Lost> {
        while let Some(posted) = self.on_demand.as_mut().and_then(|on_demand| on_demand.waiting.pop_front()) {
            if !self.begin(posted)? {
                if let Some(on_demand) = &mut self.on_demand {
                    on_demand.waiting.push_front(posted);
                }
                break;
            }
        }
        Ok(())
    }
}

fn request_id(id: RequestId) -> u64 {
    u64::from(id.pair) << NUMBER_BITS | id.number
}

fn id_of_request(id: u64) -> RequestId {
    RequestId { pair: (id >> NUMBER_BITS) as u32, number: id & ((1 << NUMBER_BITS) - 1) }
}

impl Nic for VerbsNic {
    fn name(&self) -> String {
        self.device.name().to_owned()
    }

    fn register(&mut self, memory: MemoryRegion) -> Result<u32, Error> {
        if memory.size_bytes == 0 {
            return Ok(0); // a graph without edges has no frames, and nobody asks for a page
        }
        if let Some(on_demand) = &mut self.on_demand
            && memory.kind == MemoryKind::Array
        {
            // Requests name the array's own addresses, by keys of pieces.
            if let Some(gpu) = &self.gpu
                && gpu.host_address(memory.address)? != Some(memory.address)
            {
                return Err(Error::PinBudgetNeedsUnifiedAddresses);
            }
            let range = memory.address..memory.address + memory.size_bytes;
            on_demand.arrays.push((memory.address, Arc::new(on_demand.cache.adopt(Array(range)))));
            return Ok(0);
        }
        let region = register(&self.device, self.gpu.as_deref(), memory)?;
        let key = match memory.kind {
            MemoryKind::Array => region.remote_key(),
            MemoryKind::Frames => region.local_key(),
        };
        self.regions.push(region);
        Ok(key)
    }

    fn post(&mut self, requests: &[Posted]) -> Result<(), Lost> {
        for &posted in requests {
            if !self.begin(posted)?
                && let Some(on_demand) = &mut self.on_demand
            {
                on_demand.waiting.push_back(posted);
            }
        }
        Ok(())
    }

    fn poll(&mut self, finished: &mut Vec<Finished>) -> Result<(), Lost> {
        finished.append(&mut self.refused);
        let Some(queues) = &mut self.queues else { return Err(Lost) };
        let first = finished.len();
        let mut why = None;
        let (num_under_way, stopped_pairs) = (&mut self.num_under_way, &mut self.stopped_pairs);
        let mut on_demand = self.on_demand.as_mut();
        let polled = queues.poll(|outcome| {
            *num_under_way -= 1;
            if let Some(on_demand) = &mut on_demand {
                on_demand.in_use.remove(&outcome.id);
            }
            let id = id_of_request(outcome.id);
            let stopped = &mut stopped_pairs[id.pair as usize];
            let status = match outcome.failure {
                None => Status::Done,
                Some(failure) if failure.is_of_the_nic() && !*stopped => {
                    why.get_or_insert_with(|| {
                        format!("queue pair {}: {} (status {})", id.pair, failure.text(), failure.status)
                    });
                    return;
                }
                Some(failure) => {
                    *stopped = true;
                    Status::Failed { syndrome: failure.syndrome(), vendor: failure.vendor as u8 }
                }
            };
            finished.push(Finished { id, status });
        });
        if let Err(error) = polled {
            why = Some(error.to_string());
        }
        if why.is_none() && self.num_under_way > 0 && self.port.is_gone(&self.device) {
            why = Some("its port is not active".to_owned());
        }
        if let Some(why) = why {
            return Err(self.give_up(&why));
        }
        if finished.len() > first
            && self.needs_flush
            && let Some(gpu) = &self.gpu
            && let Err(error) = gpu.flush_remote_writes()
        {
            // What has come cannot be shown to kernels, so it has not.
            finished.truncate(first);
            return Err(self.give_up(&error.to_string()));
        }
        self.begin_waiting()
    }

    fn lost_because(&self) -> Option<String> {
        self.lost_because.clone()
    }

    fn registrations(&self) -> Option<RegistrationStats> {
        self.on_demand.as_ref().map(|on_demand| on_demand.cache.stats())
    }

    fn reset(&mut self) {
        self.stop();
        self.stopped_pairs.fill(false);
        match Queues::in_loopback(&self.device, self.num_pairs, self.depth) {
            Ok(queues) => self.queues = Some(queues),
            Err(error) => tracing::warn!(%error, "the NIC cannot start anew"),
        }
    }
}
