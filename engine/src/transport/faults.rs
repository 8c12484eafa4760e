//! NICs that go wrong, for tests of everyone else.

use std::time::Instant;

use super::mlx5::Status;
use super::nic::{Finished, Lost, MemoryKind, MemoryRegion, Nic, Posted, RequestId};
use super::serve::failed;
use super::settings::FaultInjection;
use crate::error::Error;
use crate::memory::RegistrationStats;

/// A NIC with whom the settings say what goes wrong; nothing by default.
#[derive(Debug)]
pub(super) struct Faulty<N> {
    nic: N,
    faults: FaultInjection,
    vanishes_after: Option<u64>,
    num_posted: u64,
    failing: Vec<RequestId>,
    silent: Vec<RequestId>,
    /// What has ended, but is held back.
    held: Vec<(Instant, Finished)>,
    state: u64,
}

impl<N: Nic> Faulty<N> {
    pub fn new(nic: N, number: u32, faults: &FaultInjection) -> Self {
        let vanishes_after = faults.vanish.iter().find(|&&(nic, _)| nic == number).map(|&(_, after)| after);
        Self {
            nic,
            faults: faults.clone(),
            vanishes_after,
            num_posted: 0,
            failing: Vec::new(),
            silent: Vec::new(),
            held: Vec::new(),
            state: 0x9E37_79B9_7F4A_7C15 ^ u64::from(number),
        }
    }

    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

impl<N: Nic> Nic for Faulty<N> {
    fn name(&self) -> String {
        self.nic.name()
    }

    fn register(&mut self, memory: MemoryRegion) -> Result<u32, Error> {
        let is_array = memory.kind == MemoryKind::Array;
        let short_by = if is_array { self.faults.short_by } else { 0 };
        let size_bytes = memory.size_bytes.saturating_sub(short_by);
        let key = self.nic.register(MemoryRegion { size_bytes, ..memory })?;
        let wrong = if is_array { self.faults.wrong_remote_key } else { self.faults.wrong_local_key };
        Ok(if wrong { key ^ 1 } else { key })
    }

    fn post(&mut self, requests: &[Posted]) -> Result<(), Lost> {
        for posted in requests {
            let number = self.num_posted;
            self.num_posted += 1;
            if self.vanishes_after.is_some_and(|after| number >= after) {
                return Err(Lost);
            }
            if self.faults.fail.is_some_and(|(failing, _)| failing == number) {
                self.failing.push(posted.id);
            }
            if self.faults.silent == Some(number) {
                self.silent.push(posted.id);
            }
            self.nic.post(std::slice::from_ref(posted))?;
        }
        Ok(())
    }

    fn poll(&mut self, finished: &mut Vec<Finished>) -> Result<(), Lost> {
        let mut ended = Vec::new();
        self.nic.poll(&mut ended)?;
        let now = Instant::now();
        for mut end in ended {
            if self.silent.contains(&end.id) {
                continue;
            }
            // Taken out: after a run that failed another request gets this place.
            if let Some((_, syndrome)) = self.faults.fail
                && let Some(at) = self.failing.iter().position(|&id| id == end.id)
            {
                self.failing.swap_remove(at);
                end.status = match end.status {
                    Status::Done => failed(syndrome),
                    worse => worse,
                };
            }
            self.held.push((now + self.faults.delay, end));
        }
        if self.faults.reorder {
            // Those that are held go in any order, and half of them later.
            for i in (1..self.held.len()).rev() {
                let other = (self.random() % (i as u64 + 1)) as usize;
                self.held.swap(i, other);
            }
        }
        for (due, end) in std::mem::take(&mut self.held) {
            let later = self.faults.reorder && self.random().is_multiple_of(2);
            if due <= now && !later {
                finished.push(end);
            } else {
                self.held.push((due, end));
            }
        }
        Ok(())
    }

    fn lost_because(&self) -> Option<String> {
        self.nic.lost_because().or_else(|| {
            let after = self.vanishes_after.filter(|&after| self.num_posted > after)?;
            Some(format!("it vanished after {after} requests"))
        })
    }

    fn registrations(&self) -> Option<RegistrationStats> {
        self.nic.registrations()
    }

    fn reset(&mut self) {
        self.nic.reset();
        self.failing.clear();
        self.silent.clear();
        self.held.clear();
    }
}
