//! Transport `rdma`: RDMA devices move the pages. A host thread a device takes requests out of the queues that kernels write,
//! posts each as an RDMA READ to a queue pair of its own, and writes the completions back. Each queue pair is connected to
//! itself: the graph is in the memory of this host, as in the paper.

use std::time::{Duration, Instant};

use super::queue::Queues;
use super::region::{Access, Region};
use super::{RdmaDevice, RdmaError, Read, device_names};
use crate::device::{CudaDevice, Device, Mover, StreamWriter};
use crate::error::Error;
use crate::transport::faults::Faulty;
use crate::transport::mlx5::{Opcode, Status, Syndrome};
use crate::transport::nic::{Finished, Lost, MemoryKind, MemoryRegion, Nic, Posted, RequestId};
use crate::transport::queues::Memory;
use crate::transport::serve::failed;
use crate::transport::served::ServedQueues;
use crate::transport::settings::TransportConfig;
use std::sync::Arc;

/// How often a thread with requests under way looks whether the port is still active.
const PORT_CHECK: Duration = Duration::from_millis(100);

/// A port that is not active for so long is gone. Shorter breaks the NIC bridges by sending again.
const PORT_GRACE: Duration = Duration::from_millis(250);

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
        let nic = VerbsNic::new(rdma_device, device, config.queue_pairs, config.queue_depth)?;
        let (_, writer) = Mover::new(device)?;
        nics.push((Box::new(Faulty::new(nic, number, &config.faults)), writer));
    }
    ServedQueues::new(device, config, memory, nics)
}

/// An RDMA device as a NIC of the transport.
#[derive(Debug)]
struct VerbsNic {
    // Before the regions: what is under way ends before they go.
    queues: Option<Queues>,
    regions: Vec<Region>,
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
    next_port_check: Instant,
    inactive_since: Option<Instant>,
}

impl VerbsNic {
    fn new(device: RdmaDevice, runs_on: &Device, num_pairs: u32, depth: u32) -> Result<Self, Error> {
        let queues = Queues::in_loopback(&device, num_pairs, depth)?;
        let gpu = match runs_on {
            Device::Cpu(_) => None,
            Device::Cuda(cuda) => Some(Arc::clone(cuda)),
        };
        Ok(Self {
            queues: Some(queues),
            regions: Vec::new(),
            device,
            needs_flush: gpu.as_ref().is_some_and(|gpu| !gpu.orders_remote_writes()),
            gpu,
            num_pairs,
            depth,
            num_under_way: 0,
            stopped_pairs: vec![false; num_pairs as usize],
            refused: Vec::new(),
            next_port_check: Instant::now(),
            inactive_since: None,
        })
    }

    /// Page frames in a GPU's memory: as a dma-buf where both drivers know those, else by the module `nvidia-peermem`.
    fn register_frames_of_gpu(&self, gpu: &CudaDevice, memory: MemoryRegion) -> Result<Region, Error> {
        gpu.order_with_other_devices(memory.address)?;
        if self.device.knows_dma_bufs()
            && let Some(buffer) = gpu.dma_buf(memory.address, memory.size_bytes)?
        {
            use std::os::fd::AsFd;
            // SAFETY: the frames outlive the transport and with it the region; nobody holds references to a GPU's memory.
            let region = unsafe {
                Region::of_dma_buf(
                    &self.device,
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
        Ok(unsafe { Region::new(&self.device, range, Access::LocalWrite) }?)
    }

    /// From here on the device writes nothing: its queue pairs are gone.
    fn give_up(&mut self, why: &str) -> Lost {
        tracing::warn!(nic = self.device.name(), why, "the NIC is dropped");
        self.queues = None;
        self.num_under_way = 0;
        Lost
    }

    /// Why the port cannot be used any more, if so.
    fn port_is_gone(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next_port_check {
            return false;
        }
        self.next_port_check = now + PORT_CHECK;
        if self.device.is_active() {
            self.inactive_since = None;
            return false;
        }
        let since = *self.inactive_since.get_or_insert(now);
        now - since >= PORT_GRACE
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
        let region = match (memory.kind, &self.gpu) {
            (MemoryKind::Frames, Some(gpu)) => self.register_frames_of_gpu(gpu, memory)?,
            (kind, gpu) => {
                let start = match gpu {
                    Some(gpu) => gpu.host_address(memory.address)?,
                    None => memory.address,
                };
                let access = match kind {
                    MemoryKind::Array => Access::RemoteRead,
                    MemoryKind::Frames => Access::LocalWrite,
                };
                // SAFETY: whoever opened the transport keeps the memory in place as long as it; frames are written while
                // nobody reads them (I1, I4), and the host looks at none.
                unsafe {
                    Region::seen_at(&self.device, start..start + memory.size_bytes, memory.address, access)
                }?
            }
        };
        let key = match memory.kind {
            MemoryKind::Array => region.remote_key(),
            MemoryKind::Frames => region.local_key(),
        };
        self.regions.push(region);
        Ok(key)
    }

    fn post(&mut self, requests: &[Posted]) -> Result<(), Lost> {
        let Some(queues) = &self.queues else { return Err(Lost) };
        let mut refusal = None;
        for &Posted { id, request } in requests {
            if request.opcode != Opcode::RdmaRead {
                self.refused.push(Finished { id, status: failed(Syndrome::LOCAL_QP_OPERATION) });
                continue;
            }
            let read = Read {
                id: request_id(id),
                remote_address: request.remote_address,
                remote_key: request.remote_key,
                local_address: request.local_address,
                local_key: request.local_key,
                length: request.length,
            };
            // SAFETY: the frame is that of the request alone until its completion (I1, I6), and in a region that lives as
            // long as the queues, unless the key is wrong.
            match unsafe { queues.pairs()[id.pair as usize].post_read(&read) } {
                Ok(()) => self.num_under_way += 1,
                Err(error) => {
                    refusal = Some(error);
                    break;
                }
            }
        }
        match refusal {
            Some(error) => Err(self.give_up(&error.to_string())),
            None => Ok(()),
        }
    }

    fn poll(&mut self, finished: &mut Vec<Finished>) -> Result<(), Lost> {
        finished.append(&mut self.refused);
        let Some(queues) = &mut self.queues else { return Err(Lost) };
        let first = finished.len();
        let mut why = None;
        let (num_under_way, stopped_pairs) = (&mut self.num_under_way, &mut self.stopped_pairs);
        let polled = queues.poll(|outcome| {
            *num_under_way -= 1;
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
        if why.is_none() && self.num_under_way > 0 && self.port_is_gone() {
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
        Ok(())
    }

    fn reset(&mut self) {
        self.queues = None;
        self.num_under_way = 0;
        self.stopped_pairs.fill(false);
        self.refused.clear();
        match Queues::in_loopback(&self.device, self.num_pairs, self.depth) {
            Ok(queues) => self.queues = Some(queues),
            Err(error) => tracing::warn!(%error, "the NIC cannot start anew"),
        }
    }
}
