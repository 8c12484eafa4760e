//! Queues that NICs read by themselves. Kernels write requests into the send queues where the NIC's driver has put them, and
//! see the completions that the NIC writes: no thread of the host handles a request.
//!
//! What is left to the host is the doorbell, a register of the NIC. **Assisted**, the default: kernels ring a word of host
//! memory, and a thread a NIC carries what it finds there to the register. **Direct**: the register is mapped into the GPU,
//! which takes privileges. The thread watches over the NIC in both.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpuvm_kernels::layout::{NicView, QueuePair, QueueSet};

use super::Transport;
use super::mlx5::{ENTRY_BYTES, SEND_DOORBELL_WORD, doorbell};
use super::nic::MemoryRegion;
use super::queues::{Keys, Memory};
use super::settings::TransportConfig;
use super::stats::NicCounts;
use crate::config::Doorbell;
use crate::device::{CudaDevice, Device, HostPin, SharedBytes};
use crate::error::Error;
use crate::memory::{CancelHandle, DeviceArray};

/// Words that kernels ring are so far apart: each queue pair has a cache line.
const DOORBELL_STRIDE: u64 = 64;

/// How often a thread asks whether its NIC is still there.
const WATCH: Duration = Duration::from_millis(50);

/// Looks in vain before a thread sleeps: other threads want its core.
const LOOKS_BEFORE_SLEEP: u32 = 2000;
const SLEEP: Duration = Duration::from_micros(50);

/// A ring of entries in memory of this process, as the NIC's driver reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    pub address: u64,
    pub num_entries: u32,
    pub entry_bytes: u32,
}

impl Ring {
    fn range(self) -> Range<u64> {
        self.address..self.address + u64::from(self.num_entries) * u64::from(self.entry_bytes)
    }
}

/// A queue pair as the NIC's driver reports it. All addresses are those of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PairReport {
    /// Its number, 24 bits.
    pub number: u32,
    pub send: Ring,
    /// Those of this queue pair alone.
    pub completions: Ring,
    /// Two words, the receive queue's and the send queue's.
    pub doorbell_record: u64,
    /// The NIC's register that is written to ring.
    pub register: u64,
}

/// A NIC whose queues kernels use.
///
/// # Safety
/// What [`pairs`](Self::pairs) reports is memory of this process, and eight bytes of register, until the NIC is dropped or
/// [renewed](Self::renew). Nobody else uses the queues.
pub(crate) unsafe trait QueueNic: std::fmt::Debug + Send + Sync {
    /// Its name, for people.
    fn name(&self) -> String;

    /// As [`Nic::register`](super::nic::Nic::register).
    ///
    /// # Errors
    /// Those of the transport.
    fn register(&mut self, memory: MemoryRegion) -> Result<u32, Error>;

    /// The queue pairs, connected, of which none has had a request.
    ///
    /// # Errors
    /// Those of the transport.
    fn pairs(&self) -> Result<Vec<PairReport>, Error>;

    /// Takes other queue pairs in place of those that there are. Once this returns, nothing is written to memory for requests
    /// of the old ones.
    ///
    /// # Errors
    /// Those of the transport; then it has no queue pairs.
    fn renew(&mut self) -> Result<(), Error>;

    /// Why it is gone, if it is.
    fn trouble(&mut self) -> Option<String>;

    /// Has the NIC end what is under way, and all that comes later, as flushed.
    fn stop(&mut self);
}

impl PairReport {
    /// Checks that the queues are as kernels take them to be (`kernels/cuda/queue_pair.cuh`).
    fn check(&self, nic: &str) -> Result<(), Error> {
        let refuse = |what, found: u64, needed| {
            Err(Error::NicQueues { nic: nic.to_owned(), pair: self.number, what, found, needed })
        };
        let Self { number, send, completions, doorbell_record, register } = *self;
        for (what, holds, found, needed) in [
            ("number", (1..1 << 24).contains(&number), u64::from(number), "24 bits, and not 0"),
            ("bytes of a request", send.entry_bytes == 64, send.entry_bytes.into(), "64"),
            ("bytes of a completion", completions.entry_bytes == 64, completions.entry_bytes.into(), "64"),
            (
                "entries of the send queue",
                send.num_entries.is_power_of_two() && send.num_entries <= 1 << 15,
                send.num_entries.into(),
                "a power of two up to 32768",
            ),
            (
                "entries of the completion queue",
                completions.num_entries.is_power_of_two() && completions.num_entries >= send.num_entries,
                completions.num_entries.into(),
                "a power of two, as many as the send queue has at least",
            ),
            ("address of the send queue", is_aligned(send.address, 64), send.address, "a multiple of 64"),
            (
                "address of the completion queue",
                is_aligned(completions.address, 64),
                completions.address,
                "a multiple of 64",
            ),
            (
                "address of the doorbell record",
                is_aligned(doorbell_record, 8),
                doorbell_record,
                "a multiple of 8",
            ),
            ("address of the doorbell register", is_aligned(register, 8), register, "a multiple of 8"),
        ] {
            if !holds {
                return refuse(what, found, needed);
            }
        }
        // A queue pair that was used already counts on, and its completions would be taken for others.
        let posted = u32::from_be(self.record().load(Ordering::Acquire));
        if posted != 0 {
            return refuse("requests posted before", posted.into(), "0");
        }
        let written = (0..u64::from(completions.num_entries)).find(|i| {
            let last = completions.address + i * ENTRY_BYTES as u64 + ENTRY_BYTES as u64 - 1;
            // SAFETY: a byte of the completion queue, by the word of the NIC.
            let byte = unsafe { AtomicU8::from_ptr(pointer(last)) };
            byte.load(Ordering::Acquire) >> 4 != 15
        });
        match written {
            Some(at) => refuse("first completion written before", at, "none (opcode 15 in all)"),
            None => Ok(()),
        }
    }

    /// How many requests were posted to the send queue, 16 bits in network byte order.
    fn record(&self) -> &AtomicU32 {
        // SAFETY: a word of the doorbell record, by the word of the NIC, aligned as was checked; kernels write it by atomics.
        unsafe { AtomicU32::from_ptr(pointer(self.doorbell_record + 4 * SEND_DOORBELL_WORD as u64)) }
    }

    /// Bytes that the request in this place of the send queue asks for.
    fn length(&self, index: u16) -> u32 {
        let at = u64::from(index) & u64::from(self.send.num_entries - 1);
        // SAFETY: a word of an entry, by the word of the NIC, aligned as was checked.
        let word = unsafe { AtomicU32::from_ptr(pointer(self.send.address + at * ENTRY_BYTES as u64 + 32)) };
        u32::from_be(word.load(Ordering::Relaxed))
    }

    /// Tells the NIC that so many requests were posted, modulo 2^16. The doorbell record says so already.
    fn ring(&self, index: u16) {
        let word = u64::from_ne_bytes(doorbell(index.into(), self.number));
        // SAFETY: the register, by the word of the NIC, aligned as was checked.
        let register = unsafe { AtomicU64::from_ptr(pointer(self.register)) };
        store_barrier();
        register.store(word, Ordering::Relaxed);
        // The register may be mapped so that the processor gathers writes to it: this one goes out now, and by itself.
        store_barrier();
    }
}

fn is_aligned(address: u64, to: u64) -> bool {
    address != 0 && address.is_multiple_of(to)
}

fn pointer<T>(address: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// All stores before come before all stores behind, as devices see them: `udma_to_device_barrier` and `mmio_flush_writes` of
/// rdma-core.
fn store_barrier() {
    fence(Ordering::SeqCst);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier changes neither memory nor registers.
    unsafe {
        std::arch::asm!("dsb st", options(nostack, preserves_flags));
    }
}

/// What kernels and all threads touch.
#[derive(Debug)]
struct Shared {
    /// Words that kernels ring, by queue pair of all NICs.
    doorbells: SharedBytes,
    /// A [`NicView`] a NIC.
    views: SharedBytes,
}

/// A NIC and what its thread knows of it.
#[derive(Debug)]
struct Watched {
    nic: Box<dyn QueueNic>,
    number: u32,
    shared: Arc<Shared>,
    pairs: Vec<PairReport>,
    /// Place of the word of its first queue pair.
    first_pair: u64,
    /// Of each queue pair: requests rung, modulo 2^16.
    rung: Vec<u16>,
    /// Whether kernels write the register themselves.
    is_direct: bool,
    lost: bool,
    lost_because: Option<String>,
    next_watch: Instant,
}

impl Watched {
    /// How many requests of this queue pair kernels rang, modulo 2^16. What they wrote before is visible after.
    fn rung(&self, pair: usize) -> u16 {
        match self.is_direct {
            true => u32::from_be(self.pairs[pair].record().load(Ordering::Acquire)) as u16,
            false => {
                let at = (self.first_pair + pair as u64) * DOORBELL_STRIDE;
                (u32::from_be(self.shared.doorbells.atomic(at).load(Ordering::Acquire)) >> 8) as u16
            }
        }
    }

    /// Carries doorbells to the NIC until `stop` is set.
    fn serve(&mut self, stop: &AtomicBool) -> Result<NicCounts, Error> {
        let mut counts = NicCounts::new(self.nic.name());
        let mut looks_in_vain = 0_u32;
        loop {
            // Asked first: what was rung before is then seen.
            let stopping = stop.load(Ordering::Acquire);
            let mut any = false;
            for pair in 0..self.pairs.len() {
                let (before, now) = (self.rung[pair], self.rung(pair));
                let num_new = now.wrapping_sub(before);
                if num_new == 0 {
                    continue;
                }
                any = true;
                let report = &self.pairs[pair];
                // Read before ringing: until then no completion frees the entries.
                let lengths = (0..num_new).map(|i| u64::from(report.length(before.wrapping_add(i))));
                counts.bytes += lengths.sum::<u64>();
                if !self.is_direct {
                    report.ring(now);
                }
                counts.requests += u64::from(num_new);
                counts.batches += 1;
                self.rung[pair] = now;
            }
            self.watch()?;
            if any {
                looks_in_vain = 0;
                continue;
            }
            if stopping {
                break;
            }
            looks_in_vain += 1;
            if looks_in_vain > LOOKS_BEFORE_SLEEP {
                std::thread::sleep(SLEEP);
            } else if looks_in_vain > 16 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        counts.lost = self.lost;
        counts.lost_because.clone_from(&self.lost_because);
        Ok(counts)
    }

    fn watch(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if self.lost || now < self.next_watch {
            return Ok(());
        }
        self.next_watch = now + WATCH;
        match self.nic.trouble() {
            Some(why) => self.lose(why),
            None => Ok(()),
        }
    }

    /// The NIC is gone. Kernels are told first: what comes back flushed then is asked of others.
    fn lose(&mut self, why: String) -> Result<(), Error> {
        tracing::warn!(nic = self.nic.name(), why, "a NIC is lost");
        (self.lost, self.lost_because) = (true, Some(why));
        let at = u64::from(self.number) * size_of::<NicView>() as u64;
        self.shared.views.write_word(at + std::mem::offset_of!(NicView, lost) as u64, 1)?;
        self.nic.stop();
        Ok(())
    }
}

/// Where kernels find memory of this process.
#[derive(Debug)]
enum Mapped {
    /// On the CPU device: at its address.
    AsItIs,
    /// On a GPU: pages registered with its driver, by address.
    Pages(Vec<(Range<u64>, HostPin)>),
}

impl Mapped {
    /// Memory of a NIC's driver, for a GPU.
    fn memory(cuda: &Arc<CudaDevice>, ranges: impl Iterator<Item = Range<u64>>) -> Result<Self, Error> {
        Self::pages(cuda, ranges, false)
    }

    /// Registers of a NIC, for a GPU.
    fn registers(cuda: &Arc<CudaDevice>, addresses: impl Iterator<Item = u64>) -> Result<Self, Error> {
        Self::pages(cuda, addresses.map(|address| address..address + 8), true)
    }

    fn pages(
        cuda: &Arc<CudaDevice>,
        ranges: impl Iterator<Item = Range<u64>>,
        are_registers: bool,
    ) -> Result<Self, Error> {
        let mut pages = Vec::new();
        for range in whole_pages(ranges, crate::device::page_bytes()) {
            let bytes = range.end - range.start;
            // SAFETY: by the word of the NIC its memory stays until it is dropped or renewed, and this goes before.
            let pin = unsafe { HostPin::of_other_device(cuda, range.start, bytes as usize, are_registers) };
            let what = if are_registers { "doorbell registers of a NIC" } else { "queues of a NIC" };
            pages.push((range, pin.map_err(|source| Error::Pin { what, bytes, source })?));
        }
        Ok(Self::Pages(pages))
    }

    /// The address for kernels.
    fn address(&self, host: u64) -> u64 {
        match self {
            Self::AsItIs => host,
            Self::Pages(pages) => {
                let at = pages.partition_point(|(range, _)| range.end <= host);
                let (range, pin) = &pages[at];
                assert!(range.contains(&host), "a NIC's memory was registered as a whole");
                pin.address() + (host - range.start)
            }
        }
    }
}

/// The pages that hold these ranges, each once, those that touch as one range, in order.
fn whole_pages(ranges: impl Iterator<Item = Range<u64>>, page_bytes: u64) -> Vec<Range<u64>> {
    let pages: BTreeSet<u64> =
        ranges.flat_map(|range| range.start / page_bytes..range.end.div_ceil(page_bytes)).collect();
    let mut whole: Vec<Range<u64>> = Vec::new();
    for page in pages {
        let next = page * page_bytes..(page + 1) * page_bytes;
        match whole.last_mut() {
            Some(last) if last.end == next.start => last.end = next.end,
            _ => whole.push(next),
        }
    }
    whole
}

type Outcome = (Watched, Result<NicCounts, Error>);

/// A NIC of the transport.
#[derive(Debug)]
struct Side {
    // Before the NIC, whose memory it is.
    mapped: Mapped,
    registers: Option<Mapped>,
    /// The NIC, while no kernel runs.
    watched: Option<Watched>,
    /// The thread that has it while a kernel runs.
    thread: Option<JoinHandle<Outcome>>,
}

/// The transport.
#[derive(Debug)]
pub(crate) struct NicQueues {
    device: Device,
    set: DeviceArray<QueueSet>,
    pairs: DeviceArray<QueuePair>,
    /// Of all queue pairs, one after the other.
    slots: DeviceArray<u64>,
    shared: Arc<Shared>,
    sides: Vec<Side>,
    stop: Arc<AtomicBool>,
    pairs_per_nic: u32,
    doorbell: Doorbell,
    /// What the doorbells said when a run began.
    doorbells: Vec<u64>,
}

impl NicQueues {
    /// Takes over the queues of `nics`, each of which has `config.queue_pairs` queue pairs, for requests about `memory`.
    pub fn new(
        device: &Device,
        config: &TransportConfig,
        memory: &Memory,
        nics: Vec<Box<dyn QueueNic>>,
    ) -> Result<Self, Error> {
        let (what, num_nics, pairs_per_nic) = ("queues", nics.len() as u64, config.queue_pairs);
        let num_pairs = num_nics * u64::from(pairs_per_nic);
        let shared = Arc::new(Shared {
            doorbells: SharedBytes::on_host(device, what, num_pairs * DOORBELL_STRIDE)?,
            views: SharedBytes::on_device(device, what, num_nics * size_of::<NicView>() as u64)?,
        });
        let mut sides = Vec::new();
        for (number, mut nic) in (0..).zip(nics) {
            let remote: Result<Vec<u32>, Error> =
                memory.arrays.iter().map(|&(_, array)| nic.register(array)).collect();
            let keys = Keys { local: nic.register(memory.frames)?, remote: remote? };
            let at = u64::from(number) * size_of::<NicView>() as u64;
            shared.views.write(at, bytemuck::bytes_of(&keys.view()))?;
            let watched = Watched {
                nic,
                number,
                shared: Arc::clone(&shared),
                pairs: Vec::new(),
                first_pair: u64::from(number) * u64::from(pairs_per_nic),
                rung: Vec::new(),
                is_direct: false,
                lost: false,
                lost_because: None,
                next_watch: Instant::now(),
            };
            sides.push(Side {
                mapped: Mapped::AsItIs,
                registers: None,
                watched: Some(watched),
                thread: None,
            });
        }
        let mut queues = Self {
            device: device.clone(),
            set: DeviceArray::zeroed(device, what, 1)?,
            pairs: DeviceArray::zeroed(device, what, num_pairs)?,
            slots: DeviceArray::zeroed(device, what, 0)?,
            shared,
            sides,
            stop: Arc::new(AtomicBool::new(false)),
            pairs_per_nic,
            doorbell: config.doorbell,
            doorbells: vec![0; num_nics as usize],
        };
        queues.take_over()?;
        queues.set.write(
            0,
            &[QueueSet {
                pairs: queues.pairs.address(),
                nics: queues.shared.views.address(),
                frames: memory.frames.address,
                frames_bytes: memory.frames.size_bytes,
                regions: memory.regions(),
                num_regions: memory.arrays.len() as u32,
                num_nics: num_nics as u32,
                pairs_per_nic,
                fault_batch: config.fault_batch,
            }],
        )?;
        Ok(queues)
    }

    /// Shows kernels the queue pairs that the NICs have, all of them new. Nobody uses them.
    fn take_over(&mut self) -> Result<(), Error> {
        for side in &mut self.sides {
            let Some(watched) = &mut side.watched else { return Err(Error::NicThreadGone) };
            if !watched.lost {
                side.take_over(&self.device, self.doorbell, self.pairs_per_nic)?;
            }
        }
        let watched = || self.sides.iter().filter_map(|side| Some((side, side.watched.as_ref()?)));
        let num_slots =
            watched().flat_map(|(_, nic)| &nic.pairs).map(|pair| u64::from(pair.send.num_entries));
        self.slots = DeviceArray::zeroed(&self.device, "queues", num_slots.sum())?;
        self.shared.doorbells.fill(0, self.shared.doorbells.len(), 0)?;
        let mut pairs = Vec::new();
        let mut slots = self.slots.address();
        for (side, nic) in watched() {
            for (at, report) in (nic.first_pair..).zip(&nic.pairs) {
                let word = self.shared.doorbells.address() + at * DOORBELL_STRIDE;
                pairs.push(QueuePair {
                    send_queue: side.mapped.address(report.send.address),
                    completion_queue: side.mapped.address(report.completions.address),
                    doorbell_record: side.mapped.address(report.doorbell_record),
                    doorbell: side.registers.as_ref().map_or(word, |mapped| mapped.address(report.register)),
                    slots,
                    number: report.number,
                    send_shift: report.send.num_entries.trailing_zeros(),
                    completion_shift: report.completions.num_entries.trailing_zeros(),
                    ..QueuePair::default()
                });
                slots += u64::from(report.send.num_entries) * size_of::<u64>() as u64;
            }
            // A NIC that is lost has none, and kernels ask it for nothing.
            let end = (u64::from(nic.number) + 1) * u64::from(self.pairs_per_nic);
            pairs.resize(end as usize, QueuePair::default());
        }
        self.pairs.write(0, &pairs)
    }

    /// How often the doorbells of each NIC were rung since the queues were taken over.
    fn doorbells(&self) -> Result<Vec<u64>, Error> {
        let pairs = self.pairs.to_vec()?;
        let of_nic = |nic: &[QueuePair]| nic.iter().map(|pair| pair.doorbells.value).sum();
        Ok(pairs.chunks(self.pairs_per_nic as usize).map(of_nic).collect())
    }

    /// Other queue pairs for all that were used by a kernel that failed: what is under way there ends.
    fn renew(&mut self) -> Result<(), Error> {
        for side in &mut self.sides {
            let Some(watched) = &mut side.watched else { return Err(Error::NicThreadGone) };
            // Before the memory goes.
            (side.mapped, side.registers) = (Mapped::AsItIs, None);
            watched.pairs.clear();
            if let Err(error) = watched.nic.renew()
                && !watched.lost
            {
                watched.lose(error.to_string())?;
            }
        }
        self.take_over()
    }
}

impl Side {
    fn take_over(&mut self, device: &Device, doorbell: Doorbell, num_pairs: u32) -> Result<(), Error> {
        let Some(watched) = &mut self.watched else { return Err(Error::NicThreadGone) };
        let (name, reports) = (watched.nic.name(), watched.nic.pairs()?);
        assert_eq!(reports.len(), num_pairs as usize, "a NIC has the queue pairs that it was asked for");
        reports.iter().try_for_each(|report| report.check(&name))?;
        if let Some(first) = reports.first() {
            let (send, completions) = (first.send.num_entries, first.completions.num_entries);
            tracing::info!(nic = name, queue_pairs = num_pairs, send, completions, "queues taken over");
        }
        if let Device::Cuda(cuda) = device {
            let memory = reports.iter().flat_map(|report| {
                let record = report.doorbell_record..report.doorbell_record + 8;
                [report.send.range(), report.completions.range(), record]
            });
            self.mapped = Mapped::memory(cuda, memory)?;
        }
        self.registers = match (doorbell, device) {
            (Doorbell::Assisted, _) => None,
            (Doorbell::Direct, Device::Cpu(_)) => {
                // A processor gathers its writes to the register, and kernels have no barrier for that.
                tracing::warn!(nic = name, "a host thread rings the doorbells: direct ones are for GPUs");
                None
            }
            (Doorbell::Direct, Device::Cuda(cuda)) => {
                let mapped = Mapped::registers(cuda, reports.iter().map(|report| report.register));
                mapped
                    .inspect_err(|error| {
                        let error: &dyn std::error::Error = error;
                        tracing::warn!(
                            nic = name,
                            error,
                            cure = "run as root, or load the driver with NVreg_RegistryDwords=PeerMappingOverride=1",
                            "a host thread rings the doorbells: the GPU may not write the NIC's register"
                        );
                    })
                    .ok()
            }
        };
        watched.is_direct = self.registers.is_some();
        watched.rung = vec![0; reports.len()];
        watched.pairs = reports;
        Ok(())
    }

    /// Waits for the thread, and has the NIC back.
    fn join(&mut self) -> Result<NicCounts, Error> {
        let thread = self.thread.take().ok_or(Error::NicThreadGone)?;
        let (watched, counts) = thread.join().map_err(|_| Error::NicThreadGone)?;
        self.watched = Some(watched);
        counts
    }
}

impl Transport for NicQueues {
    fn queues_address(&self) -> u64 {
        self.set.address()
    }

    fn begin(&mut self, run: &CancelHandle) -> Result<(), Error> {
        self.stop.store(false, Ordering::Release);
        for side in &mut self.sides {
            let Some(mut watched) = side.watched.take() else { return Err(Error::NicThreadGone) };
            let (stop, run, name) = (Arc::clone(&self.stop), run.clone(), watched.nic.name());
            let work = move || {
                let outcome = watched.serve(&stop);
                if outcome.is_err() {
                    run.cancel();
                }
                (watched, outcome)
            };
            let thread = std::thread::Builder::new().name(name).spawn(work);
            side.thread = Some(thread.map_err(Error::StartNicThread)?);
        }
        Ok(())
    }

    fn end(&mut self, succeeded: bool) -> Result<Vec<NicCounts>, Error> {
        self.stop.store(true, Ordering::Release);
        let counts: Vec<_> = self.sides.iter_mut().map(Side::join).collect();
        let rung = self.doorbells()?;
        let before = std::mem::replace(&mut self.doorbells, rung.clone());
        if !succeeded || counts.iter().any(Result::is_err) {
            self.renew()?;
            self.doorbells.fill(0);
        }
        let mut counts = counts.into_iter().collect::<Result<Vec<_>, Error>>()?;
        for (counts, (rung, before)) in counts.iter_mut().zip(rung.iter().zip(before)) {
            counts.doorbells = rung - before;
        }
        Ok(counts)
    }
}

impl Drop for NicQueues {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for side in &mut self.sides {
            if side.thread.is_some() {
                // A panic was reported on stderr by the thread itself.
                let _ = side.join();
            }
        }
    }
}

#[cfg(test)]
#[path = "nic_queues_tests.rs"]
pub(super) mod tests;
