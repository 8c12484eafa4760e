//! The thread of a NIC: takes requests out of the queues, has the NIC move the bytes, writes completions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::mlx5::{Completion, Opcode, Status, Syndrome, WorkRequest};
use super::nic::{Finished, Lost, Nic, Posted, RequestId};
use super::queues::NicEnd;
use super::stats::NicCounts;
use crate::error::Error;

/// After a run requests that are left get so long to end: their leaders have gone, and nobody waits for them.
const LEFT_REQUESTS_TIME: Duration = Duration::from_secs(5);

/// Looks in vain before a thread with nothing to do sleeps: other threads want its core.
const LOOKS_BEFORE_SLEEP: u32 = 2000;
const SLEEP: Duration = Duration::from_micros(50);

/// A request that the NIC has.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    id: RequestId,
    opcode: Opcode,
    bytes: u32,
    since: Instant,
}

/// A NIC and its end of the queues.
#[derive(Debug)]
pub(super) struct Server {
    nic: Box<dyn Nic>,
    end: NicEnd,
    /// Of each queue pair: requests taken so far.
    taken: Vec<u64>,
    /// Of each queue pair: how many of them are under way.
    depths: Vec<u32>,
    /// By entry of the send queues.
    under_way: Vec<Option<UnderWay>>,
    num_under_way: usize,
    lost: bool,
    counts: NicCounts,
    posted: Vec<Posted>,
    finished: Vec<Finished>,
}

impl Server {
    pub fn new(nic: Box<dyn Nic>, end: NicEnd) -> Self {
        let geometry = end.geometry();
        let pairs = geometry.num_pairs as usize;
        let name = nic.name();
        Self {
            nic,
            end,
            taken: vec![0; pairs],
            depths: vec![0; pairs],
            under_way: vec![None; pairs * geometry.depth as usize],
            num_under_way: 0,
            lost: false,
            counts: NicCounts::new(name),
            posted: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// Serves until `stop` is set and all that was rung is done; returns what was done since the last time.
    pub fn serve(&mut self, stop: &Arc<AtomicBool>) -> Result<NicCounts, Error> {
        let mut looks_in_vain = 0_u32;
        let mut stopped_since = None;
        loop {
            // Asked first: what was rung before is then seen.
            let stopping = stop.load(Ordering::Acquire);
            let took = self.take_up()?;
            let completed = self.complete_finished()?;
            if took || completed {
                looks_in_vain = 0;
                continue;
            }
            if stopping {
                let since = *stopped_since.get_or_insert_with(Instant::now);
                if self.num_under_way == 0 {
                    break;
                }
                if since.elapsed() > LEFT_REQUESTS_TIME {
                    tracing::warn!(nic = %self.counts.name, left = self.num_under_way, "requests never ended");
                    self.forget();
                    break;
                }
            }
            looks_in_vain += 1;
            if self.num_under_way == 0 && looks_in_vain > LOOKS_BEFORE_SLEEP {
                std::thread::sleep(SLEEP);
            } else if looks_in_vain > 16 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        self.counts.registrations = self.nic.registrations();
        let mut next = NicCounts::new(self.counts.name.clone());
        next.lost = self.lost;
        next.lost_because.clone_from(&self.counts.lost_because);
        Ok(std::mem::replace(&mut self.counts, next))
    }

    /// For queues that were emptied. The NIC starts anew as well: a request that failed may have stopped its queue pair.
    pub fn reset(&mut self) {
        self.forget();
        if !self.lost {
            self.nic.reset();
        }
        self.taken.fill(0);
    }

    fn forget(&mut self) {
        if self.num_under_way > 0 {
            self.nic.reset();
        }
        self.under_way.fill(None);
        self.depths.fill(0);
        self.num_under_way = 0;
    }

    fn place(&self, id: RequestId) -> usize {
        let depth = self.end.geometry().depth;
        id.pair as usize * depth as usize + (id.number & u64::from(depth - 1)) as usize
    }

    /// Takes all requests that were rung. Whether there were any.
    fn take_up(&mut self) -> Result<bool, Error> {
        self.posted.clear();
        let mut took = false;
        let now = Instant::now();
        for pair in 0..self.end.geometry().num_pairs {
            let first = self.taken[pair as usize];
            let num_new = self.end.rung(pair).wrapping_sub(first as u16);
            if num_new == 0 {
                continue;
            }
            took = true;
            self.counts.batches += 1;
            for number in first..first + u64::from(num_new) {
                self.take(RequestId { pair, number }, now)?;
            }
            self.taken[pair as usize] = first + u64::from(num_new);
        }
        if !self.posted.is_empty()
            && let Err(Lost) = self.nic.post(&self.posted)
        {
            self.lose()?;
        }
        Ok(took)
    }

    fn take(&mut self, id: RequestId, now: Instant) -> Result<(), Error> {
        let entry = self.end.entry(id);
        let decoded = WorkRequest::decode(&entry).ok().filter(|request| self.end.is_in_place(id, request));
        let (opcode, bytes) =
            decoded.map_or((Opcode::RdmaRead, 0), |request| (request.opcode, request.length));
        let place = self.place(id);
        self.under_way[place] = Some(UnderWay { id, opcode, bytes, since: now });
        self.num_under_way += 1;
        let depth = &mut self.depths[id.pair as usize];
        *depth += 1;
        self.counts.taken += 1;
        self.counts.depth_sum += u64::from(*depth);
        match decoded {
            _ if self.lost => self.complete(id, failed(Syndrome::FLUSHED)),
            Some(request) => {
                self.posted.push(Posted { id, request });
                Ok(())
            }
            None => self.complete(id, failed(Syndrome::LOCAL_QP_OPERATION)),
        }
    }

    /// Writes the completions of what has ended. Whether there was anything.
    fn complete_finished(&mut self) -> Result<bool, Error> {
        if self.lost || self.num_under_way == 0 {
            return Ok(false);
        }
        let mut finished = std::mem::take(&mut self.finished);
        let polled = self.nic.poll(&mut finished);
        let any = !finished.is_empty();
        for Finished { id, status } in finished.drain(..) {
            self.complete(id, status)?;
        }
        self.finished = finished;
        if let Err(Lost) = polled {
            self.lose()?;
            return Ok(true);
        }
        Ok(any)
    }

    fn complete(&mut self, id: RequestId, status: Status) -> Result<(), Error> {
        let place = self.place(id);
        // One that nobody asked for, as after `forget`, has no completion.
        let Some(request) = self.under_way[place].take_if(|request| request.id == id) else { return Ok(()) };
        self.num_under_way -= 1;
        self.depths[id.pair as usize] -= 1;
        match status {
            Status::Done => self.counts.add_done(request.bytes.into(), request.since.elapsed()),
            Status::Failed { syndrome: Syndrome::FLUSHED, .. } if self.lost => self.counts.flushed += 1,
            Status::Failed { .. } => {}
        }
        let completion = Completion {
            status,
            index: id.number as u16,
            queue_pair: self.end.pair_number(id.pair),
            length: request.bytes,
        };
        self.end.complete(id, request.opcode, &completion)
    }

    /// The NIC is gone. What it had comes back flushed, and its leaders ask others; so does all that comes later.
    fn lose(&mut self) -> Result<(), Error> {
        tracing::warn!(nic = %self.counts.name, requests = self.num_under_way, "a NIC is lost");
        self.lost = true;
        self.counts.lost = true;
        self.counts.lost_because = self.nic.lost_because();
        self.end.mark_lost()?;
        let under_way: Vec<_> = self.under_way.iter().flatten().map(|request| request.id).collect();
        for id in under_way {
            self.complete(id, failed(Syndrome::FLUSHED))?;
        }
        Ok(())
    }
}

pub(super) fn failed(syndrome: Syndrome) -> Status {
    Status::Failed { syndrome, vendor: 0 }
}
