//! Transport `host`: host threads stand for RNICs. They check keys and bounds as a NIC does, and move the bytes: by
//! copies on the CPU device, by the driver's asynchronous copies on a GPU.

use std::collections::VecDeque;
use std::time::Instant;

use super::faults::Faulty;
use super::mlx5::{Opcode, Status, Syndrome, WorkRequest};
use super::nic::{Finished, Lost, MemoryKind, MemoryRegion, Nic, Posted};
use super::queues::Memory;
use super::serve::failed;
use super::served::ServedQueues;
use super::settings::{RnicModel, TransportConfig};
use crate::device::{Device, Mover, StreamWriter};
use crate::error::Error;

/// The transport, with `config.rnics` NICs.
pub(super) fn open(
    device: &Device,
    config: &TransportConfig,
    memory: &Memory,
) -> Result<ServedQueues, Error> {
    let mut nics: Vec<(Box<dyn Nic>, Option<StreamWriter>)> = Vec::new();
    for number in 0..config.rnics {
        let (mover, writer) = Mover::new(device)?;
        let nic = HostNic::new(number, mover, config.rnic_model);
        nics.push((Box::new(Faulty::new(nic, number, &config.faults)), writer));
    }
    ServedQueues::new(device, config, memory, nics)
}

/// A host thread as a NIC.
#[derive(Debug)]
pub(super) struct HostNic {
    number: u32,
    mover: Mover,
    model: Option<RnicModel>,
    regions: Vec<(u32, MemoryRegion)>,
    /// When the link has carried all that was posted.
    link_free: Instant,
    /// What ends when, in the order of posting: requests of a reliable connection end in order.
    pending: VecDeque<(Instant, Finished)>,
}

impl HostNic {
    pub fn new(number: u32, mover: Mover, model: Option<RnicModel>) -> Self {
        Self {
            number,
            mover,
            model,
            regions: Vec::new(),
            link_free: Instant::now(),
            pending: VecDeque::new(),
        }
    }

    /// Whether a range lies in the region of this key, whole.
    fn allows(&self, kind: MemoryKind, key: u32, address: u64, bytes: u64) -> bool {
        self.regions.iter().any(|&(known, region)| {
            known == key
                && region.kind == kind
                && address
                    .checked_sub(region.address)
                    .is_some_and(|at| at <= region.size_bytes && bytes <= region.size_bytes - at)
        })
    }

    /// What a NIC finds wrong with a request.
    fn check(&self, request: &WorkRequest) -> Result<(), Syndrome> {
        let bytes = u64::from(request.length);
        if !self.allows(MemoryKind::Frames, request.local_key, request.local_address, bytes) {
            return Err(Syndrome::LOCAL_PROTECTION);
        }
        let readable = self.allows(MemoryKind::Array, request.remote_key, request.remote_address, bytes);
        // Arrays are registered for reading.
        if !readable || request.opcode != Opcode::RdmaRead {
            return Err(Syndrome::REMOTE_ACCESS);
        }
        Ok(())
    }

    /// Moves the bytes of a request that [`check`](Self::check) found nothing wrong with.
    fn move_bytes(&self, request: &WorkRequest) -> Status {
        // SAFETY: both ranges lie in registered memory, an array and the frames, whose owner keeps them as long as the
        // transport; the frame is that of the request alone until its completion (I1, I6).
        let moved =
            unsafe { self.mover.move_bytes(request.remote_address, request.local_address, request.length) };
        match moved {
            Ok(()) => Status::Done,
            Err(error) => {
                tracing::warn!(%error, "a copy failed");
                failed(Syndrome::REMOTE_OPERATION)
            }
        }
    }

    fn due(&mut self, now: Instant, bytes: u64) -> Instant {
        let Some(model) = self.model else { return now };
        self.link_free = self.link_free.max(now) + model.transfer_time(bytes);
        self.link_free + model.latency
    }
}

impl Nic for HostNic {
    fn name(&self) -> String {
        format!("rnic{}", self.number)
    }

    fn register(&mut self, memory: MemoryRegion) -> Result<u32, Error> {
        // No two regions of any two NICs have the same.
        let key = (self.number + 1) << 16 | (self.regions.len() as u32 + 1) << 8;
        self.regions.push((key, memory));
        Ok(key)
    }

    fn post(&mut self, requests: &[Posted]) -> Result<(), Lost> {
        let now = Instant::now();
        for &Posted { id, request } in requests {
            let status = match self.check(&request) {
                Ok(()) => self.move_bytes(&request),
                Err(syndrome) => failed(syndrome),
            };
            let due = self.due(now, request.length.into());
            self.pending.push_back((due, Finished { id, status }));
        }
        Ok(())
    }

    fn poll(&mut self, finished: &mut Vec<Finished>) -> Result<(), Lost> {
        let now = Instant::now();
        while let Some(&(due, end)) = self.pending.front()
            && due <= now
        {
            finished.push(end);
            self.pending.pop_front();
        }
        Ok(())
    }

    fn reset(&mut self) {
        self.pending.clear();
    }
}
