//! The memory of queue pairs, which kernels and NICs share, and both ends of it: what kernels get is a [`QueueSet`], what the
//! thread of a NIC gets is [`NicEnd`].
//!
//! Who may touch what is settled by `kernels/cuda/queue_pair.cuh`: an entry of a send queue belongs to the NIC from the
//! doorbell that names it to its completion, an entry of a completion queue from there on to the device.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gpuvm_kernels::layout::{MAX_REGIONS, NicView, QueuePair, QueueSet, RemoteRegion};

use super::mlx5::{Completion, ENTRY_BYTES, Entry, Opcode, Status, WorkRequest};
use super::nic::{MemoryKind, MemoryRegion, RequestId};
use super::settings::TransportConfig;
use crate::device::{Device, SharedBytes, StreamWriter};
use crate::error::Error;
use crate::memory::DeviceArray;

/// Doorbell records and doorbells are so far apart: each queue pair has a cache line.
const DOORBELL_STRIDE: u64 = 64;
/// Where in it the doorbell is; the record is at the front.
const DOORBELL_AT: u64 = 16;

/// How many queues there are, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub num_nics: u32,
    /// Of each NIC.
    pub num_pairs: u32,
    /// Entries of a queue, a power of two.
    pub depth: u32,
}

impl Geometry {
    pub fn new(config: &TransportConfig, num_nics: u32) -> Self {
        Self { num_nics, num_pairs: config.queue_pairs, depth: config.queue_depth }
    }

    fn all_pairs(self) -> u64 {
        u64::from(self.num_nics) * u64::from(self.num_pairs)
    }

    fn entries(self) -> u64 {
        self.all_pairs() * u64::from(self.depth)
    }

    /// Bytes that the queues take, all of them counted as device memory.
    pub fn bytes(self) -> u64 {
        let of_pairs = self.all_pairs() * (size_of::<QueuePair>() as u64 + DOORBELL_STRIDE);
        let of_entries = self.entries() * (2 * ENTRY_BYTES as u64 + size_of::<u64>() as u64);
        let of_nics = u64::from(self.num_nics) * size_of::<NicView>() as u64;
        of_pairs + of_entries + of_nics + size_of::<QueueSet>() as u64
    }
}

/// What requests are about: the frames, and the arrays whose pages go there.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub frames: MemoryRegion,
    /// Each with its first page, in that order.
    pub arrays: Vec<(u64, MemoryRegion)>,
}

impl Memory {
    pub fn new(frames_address: u64, frames_bytes: u64) -> Self {
        let frames =
            MemoryRegion { kind: MemoryKind::Frames, address: frames_address, size_bytes: frames_bytes };
        Self { frames, arrays: Vec::new() }
    }

    /// Adds an array; one without bytes has no pages.
    pub fn add_array(&mut self, first_page: u64, address: u64, size_bytes: u64) {
        if size_bytes > 0 {
            self.arrays.push((first_page, MemoryRegion { kind: MemoryKind::Array, address, size_bytes }));
        }
    }

    /// The arrays as kernels find them.
    pub fn regions(&self) -> [RemoteRegion; MAX_REGIONS as usize] {
        let mut regions = [RemoteRegion::default(); MAX_REGIONS as usize];
        assert!(self.arrays.len() <= regions.len(), "a graph has few arrays");
        for (region, &(first_page, array)) in regions.iter_mut().zip(&self.arrays) {
            *region = RemoteRegion { first_page, address: array.address, size_bytes: array.size_bytes };
        }
        regions
    }
}

/// The keys of a NIC for the frames and for each array.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    pub local: u32,
    pub remote: Vec<u32>,
}

impl Keys {
    /// The NIC as kernels find it at first.
    pub fn view(&self) -> NicView {
        let mut view = NicView { local_key: self.local, ..NicView::default() };
        view.remote_keys[..self.remote.len()].copy_from_slice(&self.remote);
        view
    }
}

/// The memory of all queues of all NICs.
#[derive(Debug)]
pub(crate) struct Queues {
    set: DeviceArray<QueueSet>,
    pairs: DeviceArray<QueuePair>,
    slots: DeviceArray<u64>,
    shared: Arc<Shared>,
    geometry: Geometry,
}

/// What the threads of NICs touch, too.
#[derive(Debug)]
struct Shared {
    /// Send queues, then doorbells: written by kernels, read by NICs.
    requests: SharedBytes,
    /// Completion queues, then [`NicView`]s: written by NICs, read by kernels.
    completions: SharedBytes,
    geometry: Geometry,
}

impl Shared {
    fn doorbells_at(&self) -> u64 {
        self.geometry.entries() * ENTRY_BYTES as u64
    }

    fn nic_view_at(&self, nic: u32) -> u64 {
        self.geometry.entries() * ENTRY_BYTES as u64 + u64::from(nic) * size_of::<NicView>() as u64
    }

    /// Where an entry is, in the send queues as in the completion queues.
    fn entry_at(&self, nic: u32, id: RequestId) -> u64 {
        let Geometry { num_pairs, depth, .. } = self.geometry;
        let pair = u64::from(nic) * u64::from(num_pairs) + u64::from(id.pair);
        (pair * u64::from(depth) + (id.number & u64::from(depth - 1))) * ENTRY_BYTES as u64
    }
}

/// The number of a queue pair in requests: not 0, which no NIC gives.
fn pair_number(nic: u32, pair: u32) -> u32 {
    nic << 16 | (pair + 1)
}

impl Queues {
    /// Queues for requests about `memory`, whose NICs know it by `keys`. `on_device` puts all of it where kernels reach it
    /// fastest; else a GPU's requests lie in host memory.
    pub fn new(
        device: &Device,
        geometry: Geometry,
        fault_batch: u32,
        memory: &Memory,
        keys: &[Keys],
        on_device: bool,
    ) -> Result<Self, Error> {
        let Geometry { num_nics, num_pairs, depth } = geometry;
        let (what, entry_bytes) = ("queues", geometry.entries() * ENTRY_BYTES as u64);
        let requests_bytes = entry_bytes + geometry.all_pairs() * DOORBELL_STRIDE;
        let requests = match on_device {
            true => SharedBytes::on_device(device, what, requests_bytes)?,
            false => SharedBytes::on_host(device, what, requests_bytes)?,
        };
        let completions_bytes = entry_bytes + u64::from(num_nics) * size_of::<NicView>() as u64;
        let completions = SharedBytes::on_device(device, what, completions_bytes)?;
        let mut queues = Self {
            set: DeviceArray::zeroed(device, what, 1)?,
            pairs: DeviceArray::zeroed(device, what, geometry.all_pairs())?,
            slots: DeviceArray::zeroed(device, what, geometry.entries())?,
            shared: Arc::new(Shared { requests, completions, geometry }),
            geometry,
        };
        let shared = Arc::clone(&queues.shared);
        for (nic, keys) in (0..).zip(keys) {
            shared.completions.write(shared.nic_view_at(nic), bytemuck::bytes_of(&keys.view()))?;
        }
        queues.set.write(
            0,
            &[QueueSet {
                pairs: queues.pairs.address(),
                nics: shared.completions.address() + shared.nic_view_at(0),
                frames: memory.frames.address,
                frames_bytes: memory.frames.size_bytes,
                regions: memory.regions(),
                num_regions: memory.arrays.len() as u32,
                num_nics,
                pairs_per_nic: num_pairs,
                fault_batch: fault_batch.min(depth),
            }],
        )?;
        queues.reset()?;
        Ok(queues)
    }

    /// Address of the [`QueueSet`].
    pub fn address(&self) -> u64 {
        self.set.address()
    }

    /// Empties all queues: the state of new ones. Nobody uses them.
    pub fn reset(&mut self) -> Result<(), Error> {
        let Geometry { num_nics, num_pairs, depth } = self.geometry;
        let (shared, shift) = (&self.shared, depth.trailing_zeros());
        let entry_bytes = self.geometry.entries() * ENTRY_BYTES as u64;
        shared.requests.fill(0, shared.requests.len(), 0)?;
        shared.completions.fill(0, entry_bytes, 0xFF)?;
        self.slots.fill(0)?;
        let pairs = (0..num_nics).flat_map(|nic| (0..num_pairs).map(move |pair| (nic, pair)));
        let pairs: Vec<QueuePair> = (0_u64..)
            .zip(pairs)
            .map(|(i, (nic, pair))| {
                let at = i * u64::from(depth);
                let doorbells = shared.requests.address() + shared.doorbells_at() + i * DOORBELL_STRIDE;
                QueuePair {
                    send_queue: shared.requests.address() + at * ENTRY_BYTES as u64,
                    completion_queue: shared.completions.address() + at * ENTRY_BYTES as u64,
                    doorbell_record: doorbells,
                    doorbell: doorbells + DOORBELL_AT,
                    slots: self.slots.address() + at * size_of::<u64>() as u64,
                    number: pair_number(nic, pair),
                    send_shift: shift,
                    completion_shift: shift,
                    ..QueuePair::default()
                }
            })
            .collect();
        self.pairs.write(0, &pairs)
    }

    /// How often the doorbells of each NIC were rung since the queues were new or reset.
    pub fn doorbells(&self) -> Result<Vec<u64>, Error> {
        let pairs = self.pairs.to_vec()?;
        let of_nic = |nic: &[QueuePair]| nic.iter().map(|pair| pair.doorbells.value).sum();
        Ok(pairs.chunks(self.geometry.num_pairs as usize).map(of_nic).collect())
    }

    /// The other end of the queues of a NIC. On a GPU completions go the way of `writer`'s stream, behind what is in it.
    ///
    /// # Errors
    /// [`Error::Pin`] if there is no pinned memory for the words that are written.
    pub fn nic_end(&self, device: &Device, nic: u32, writer: Option<StreamWriter>) -> Result<NicEnd, Error> {
        let Geometry { num_pairs, depth, .. } = self.geometry;
        let num_words = u64::from(num_pairs) * u64::from(depth) + 1;
        let writer = match writer {
            Some(stream) => {
                Some(Writer { stream, words: SharedBytes::on_host(device, "queues", 4 * num_words)? })
            }
            None => None,
        };
        Ok(NicEnd { shared: Arc::clone(&self.shared), nic, writer })
    }
}

/// The NIC's end of its queues.
#[derive(Debug)]
pub(crate) struct NicEnd {
    shared: Arc<Shared>,
    nic: u32,
    writer: Option<Writer>,
}

/// How the thread of a NIC writes to a GPU's memory.
#[derive(Debug)]
struct Writer {
    stream: StreamWriter,
    /// What is written, by entry of the completion queues: an entry is written again when the device has seen it. One more
    /// says that the NIC is lost.
    words: SharedBytes,
}

impl NicEnd {
    pub fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    /// How many requests of this queue pair were ever rung, modulo 2^16. What the device wrote before it rang is visible
    /// after.
    pub fn rung(&self, pair: u32) -> u16 {
        let pair = u64::from(self.nic) * u64::from(self.shared.geometry.num_pairs) + u64::from(pair);
        let at = self.shared.doorbells_at() + pair * DOORBELL_STRIDE + 4;
        u32::from_be(self.shared.requests.atomic(at).load(Ordering::Acquire)) as u16
    }

    /// The entry of a request that was rung and has no completion yet.
    pub fn entry(&self, id: RequestId) -> Entry {
        self.shared.requests.read_entry(self.shared.entry_at(self.nic, id))
    }

    /// Number of the queue pair in requests.
    pub fn pair_number(&self, pair: u32) -> u32 {
        pair_number(self.nic, pair)
    }

    /// Writes the completion of a request; from its last word on the device goes on, and the bytes are there.
    pub fn complete(&mut self, id: RequestId, opcode: Opcode, completion: &Completion) -> Result<(), Error> {
        let depth = u64::from(self.shared.geometry.depth);
        let entry = completion.encode(opcode, id.number, depth);
        let at = self.shared.entry_at(self.nic, id);
        let last = ENTRY_BYTES - 4;
        let word = u32::from_ne_bytes(entry[last..].try_into().expect("4 bytes"));
        match &self.writer {
            None => {
                self.shared.completions.write(at, &entry[..last])?;
                self.shared.completions.atomic(at + last as u64).store(word, Ordering::Release);
                Ok(())
            }
            Some(writer) => {
                let address = self.shared.completions.address() + at;
                let entry_of_nic = (at - self.shared.entry_at(self.nic, RequestId { pair: 0, number: 0 }))
                    / ENTRY_BYTES as u64;
                // SAFETY: an entry of the completion queues, which is the NIC's until its last word is written.
                unsafe {
                    // Of one that went well nobody reads the rest.
                    if completion.status != Status::Done {
                        writer.stream.write(address, &entry[..last])?;
                    }
                    writer.stream.write_word(address + last as u64, word, &writer.words, 4 * entry_of_nic)
                }
            }
        }
    }

    /// Tells the device that the NIC is gone, before the next completion.
    pub fn mark_lost(&mut self) -> Result<(), Error> {
        let at = self.shared.nic_view_at(self.nic) + offset_of!(NicView, lost) as u64;
        match &self.writer {
            None => {
                self.shared.completions.atomic(at).store(1, Ordering::Release);
                Ok(())
            }
            Some(writer) => {
                let (address, last_word) = (self.shared.completions.address() + at, writer.words.len() - 4);
                // SAFETY: a word of the views, behind the completion queues.
                unsafe { writer.stream.write_word(address, 1, &writer.words, last_word) }
            }
        }
    }

    /// Checks that a request is what its place in the queue says.
    pub fn is_in_place(&self, id: RequestId, request: &WorkRequest) -> bool {
        request.index == id.number as u16 && request.queue_pair == self.pair_number(id.pair)
    }
}
