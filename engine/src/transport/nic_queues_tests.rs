//! Transport `mlx5` with NICs that are threads: all but what libmlx5 does. What such a NIC knows of the format is written down
//! here by itself, from the offsets in rdma-core's `mlx5dv.h`.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::config::{Access, EngineConfig, PageSize, TransportKind};
use crate::graph::{Csr, Weights};
use crate::transport::FaultInjection;
use crate::transport::mlx5::Syndrome;
use crate::transport::nic::MemoryKind;
use crate::{BfsOptions, Engine, PagingError, PreparedGraph, Workload};

/// Whether these are names of NICs that are threads.
pub(in crate::transport) fn are_named(nics: &[String]) -> bool {
    nics.first().is_some_and(|name| name.starts_with("thread"))
}

pub(in crate::transport) fn open(
    device: &Device,
    config: &TransportConfig,
    memory: &Memory,
) -> Result<NicQueues, Error> {
    let nics = (0..)
        .zip(&config.nics)
        .map(|(number, name)| Box::new(ThreadNic::new(number, name.clone(), config)) as Box<dyn QueueNic>);
    NicQueues::new(device, config, memory, nics.collect())
}

/// 64 bytes that kernels and threads share.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Line([AtomicU64; 8]);

impl Line {
    fn filled(byte: u8) -> Self {
        Self([(); 8].map(|()| AtomicU64::new(u64::from_ne_bytes([byte; 8]))))
    }

    fn bytes(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        for (part, word) in bytes.chunks_exact_mut(8).zip(&self.0) {
            part.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes());
        }
        bytes
    }

    /// Writes all of it, the last word last.
    fn write(&self, bytes: &[u8; 64]) {
        for (part, word) in bytes.chunks_exact(8).zip(&self.0) {
            word.store(u64::from_ne_bytes(part.try_into().expect("8 bytes")), Ordering::Release);
        }
    }

    fn address(&self) -> u64 {
        (&raw const *self).expose_provenance() as u64
    }
}

fn lines(count: u32, byte: u8) -> Vec<Line> {
    (0..count).map(|_| Line::filled(byte)).collect()
}

/// A queue pair as libmlx5 makes it: four entries a request, behind those for receiving.
#[derive(Debug)]
struct Pair {
    number: u32,
    send: Vec<Line>,
    completions: Vec<Line>,
    record: Line,
    register: Line,
}

impl Pair {
    fn new(number: u32, depth: u32) -> Self {
        let completions = lines(8 * depth, 0);
        for entry in &completions {
            let mut bytes = [0; 64];
            bytes[63] = 0xF0; // MLX5_CQE_INVALID << 4
            entry.write(&bytes);
        }
        Self {
            number,
            send: lines(4 * depth + 1, 0),
            completions,
            record: Line::default(),
            register: Line::default(),
        }
    }

    fn report(&self) -> PairReport {
        let ring = |entries: &[Line]| Ring {
            address: entries[0].address(),
            num_entries: entries.len() as u32,
            entry_bytes: 64,
        };
        PairReport {
            number: self.number,
            send: ring(&self.send[1..]),
            completions: ring(&self.completions),
            doorbell_record: self.record.address(),
            register: self.register.address(),
        }
    }
}

/// What the thread of a NIC and its owner share.
#[derive(Debug, Default)]
struct State {
    ends: AtomicBool,
    vanished: AtomicBool,
    flushes: AtomicBool,
    regions: Mutex<Vec<(u32, MemoryRegion)>>,
    /// Requests that it answered.
    answered: AtomicU64,
}

#[derive(Debug)]
struct ThreadNic {
    number: u32,
    name: String,
    num_pairs: u32,
    depth: u32,
    faults: FaultInjection,
    times_renewed: u32,
    pairs: Arc<Vec<Pair>>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl ThreadNic {
    fn new(number: u32, name: String, config: &TransportConfig) -> Self {
        let mut nic = Self {
            number,
            name,
            num_pairs: config.queue_pairs,
            depth: config.queue_depth,
            faults: config.faults.clone(),
            times_renewed: 0,
            pairs: Arc::default(),
            state: Arc::default(),
            thread: None,
        };
        nic.start();
        nic
    }

    fn start(&mut self) {
        let first = 0x12_0000 + (self.number << 12) + (self.times_renewed << 8);
        self.pairs = Arc::new((0..self.num_pairs).map(|pair| Pair::new(first + pair, self.depth)).collect());
        self.state.ends.store(false, Ordering::Release);
        let (pairs, state, faults) = (Arc::clone(&self.pairs), Arc::clone(&self.state), self.faults.clone());
        let vanishes_after =
            faults.vanish.iter().find(|(nic, _)| *nic == self.number).map(|(_, after)| *after);
        self.thread = Some(std::thread::spawn(move || {
            let mut progress = vec![(0_u64, false); pairs.len()];
            while !state.ends.load(Ordering::Acquire) {
                for (pair, (taken, failed)) in pairs.iter().zip(&mut progress) {
                    answer(pair, taken, failed, &state, &faults, vanishes_after);
                }
                std::thread::yield_now();
            }
        }));
    }

    fn end(&mut self) {
        self.state.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the NIC's thread found nothing wrong");
        }
    }
}

impl Drop for ThreadNic {
    fn drop(&mut self) {
        self.end();
    }
}

fn number_at(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Answers what was rung: requests from `taken` to what the register says.
fn answer(
    pair: &Pair,
    taken: &mut u64,
    failed: &mut bool,
    state: &State,
    faults: &FaultInjection,
    vanishes_after: Option<u64>,
) {
    let register = pair.register.bytes();
    if register[..8] == [0; 8] {
        return;
    }
    assert_eq!(number_at(&register[4..8]), u64::from(pair.number) << 8, "the doorbell names the queue pair");
    let rung = number_at(&register[0..4]) >> 8;
    assert!(rung < 1 << 16 && register[3] == 0);
    let num_new = rung.wrapping_sub(*taken) & 0xFFFF;
    let num_entries = pair.send.len() as u64 - 1;
    assert!(num_new <= num_entries, "no more than the queue holds");
    let recorded = number_at(&pair.record.bytes()[4..8]);
    assert!((recorded.wrapping_sub(rung) & 0xFFFF) <= num_entries, "the record is never behind the doorbell");
    for _ in 0..num_new {
        let answered = state.answered.load(Ordering::Relaxed);
        let flushes = state.flushes.load(Ordering::Acquire);
        if !flushes && vanishes_after.is_some_and(|after| answered >= after) {
            state.vanished.store(true, Ordering::Release);
            return;
        }
        let wqe = pair.send[1 + (*taken % num_entries) as usize].bytes();
        let head = [0, (*taken >> 8) as u8, *taken as u8, 0x10];
        assert_eq!(wqe[0..4], head, "RDMA READ, and the number of the request");
        assert_eq!(number_at(&wqe[4..8]), u64::from(pair.number) << 8 | 3, "queue pair, three segments");
        assert_eq!(wqe[8..16], [0, 0, 0, 0x08, 0, 0, 0, 0], "asks for a completion");
        let (remote, remote_key) = (number_at(&wqe[16..24]), number_at(&wqe[24..28]));
        let (bytes, local_key, local) =
            (number_at(&wqe[32..36]), number_at(&wqe[36..40]), number_at(&wqe[40..48]));
        let syndrome = if *failed || flushes {
            0x05
        } else if let Some((number, syndrome)) = faults.fail
            && number == answered
        {
            syndrome.0
        } else if !allows(state, MemoryKind::Frames, local_key, local, bytes) {
            0x04
        } else if !allows(state, MemoryKind::Array, remote_key, remote, bytes) {
            0x13
        } else {
            // SAFETY: both in registered memory, which the test keeps; the frame is that of this request.
            unsafe { pointer::<u8>(local).copy_from_nonoverlapping(pointer::<u8>(remote), bytes as usize) };
            0
        };
        *failed |= syndrome != 0;
        let mut cqe = [0; 64];
        cqe[44..48].copy_from_slice(&(bytes as u32).to_be_bytes());
        cqe[55] = syndrome;
        cqe[56..60].copy_from_slice(&(0x1000_0000 | pair.number).to_be_bytes());
        cqe[60..62].copy_from_slice(&(*taken as u16).to_be_bytes());
        let num_completions = pair.completions.len() as u64;
        cqe[63] = if syndrome == 0 { 0x00 } else { 0xD0 } | (*taken / num_completions % 2) as u8;
        pair.completions[(*taken % num_completions) as usize].write(&cqe);
        *taken += 1;
        state.answered.store(answered + 1, Ordering::Relaxed);
    }
}

fn allows(state: &State, kind: MemoryKind, key: u64, address: u64, bytes: u64) -> bool {
    let regions = state.regions.lock().expect("not poisoned");
    regions.iter().any(|&(known, region)| {
        let end = region.address + region.size_bytes;
        u64::from(known) == key && region.kind == kind && address >= region.address && address + bytes <= end
    })
}

// SAFETY: the queues live as long as the NIC or until it is renewed; nobody else uses them.
unsafe impl QueueNic for ThreadNic {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn register(&mut self, memory: MemoryRegion) -> Result<u32, Error> {
        let mut regions = self.state.regions.lock().expect("not poisoned");
        let key = 0xAB_0000 + (self.number << 8) + regions.len() as u32;
        let short_by = if memory.kind == MemoryKind::Array { self.faults.short_by } else { 0 };
        regions.push((key, MemoryRegion { size_bytes: memory.size_bytes - short_by, ..memory }));
        Ok(key)
    }

    fn pairs(&self) -> Result<Vec<PairReport>, Error> {
        Ok(self.pairs.iter().map(Pair::report).collect())
    }

    fn renew(&mut self) -> Result<(), Error> {
        self.end();
        self.times_renewed += 1;
        // What is injected happens once.
        self.faults.fail = None;
        self.start();
        Ok(())
    }

    fn trouble(&mut self) -> Option<String> {
        self.state.vanished.load(Ordering::Acquire).then(|| "it vanished".to_owned())
    }

    fn stop(&mut self) {
        self.state.flushes.store(true, Ordering::Release);
    }
}

fn transport(num_nics: u32, queue_pairs: u32, queue_depth: u32, fault_batch: u32) -> TransportConfig {
    TransportConfig {
        kind: TransportKind::Mlx5,
        queue_pairs,
        queue_depth,
        fault_batch,
        nics: (0..num_nics).map(|nic| format!("thread{nic}")).collect(),
        ..TransportConfig::default()
    }
}

/// A complete binary tree: children of v are 2 v + 1 and 2 v + 2, so v is in level floor(log2(v + 1)).
fn tree(levels: u32) -> Csr {
    let n = (1_u32 << levels) - 1;
    let offsets: Vec<u64> = (0..=u64::from(n)).map(|v| (2 * v).min(u64::from(n) - 1)).collect();
    Csr::new(offsets, (1..n).collect::<Vec<_>>(), Weights::Unit, false).expect("valid")
}

const BFS: Workload = Workload { bfs: true, ..Workload::NONE };

/// A tree whose edges fill 64 pages of 4 KiB, and 12 frames.
fn prepared(transport: TransportConfig) -> (Engine, PreparedGraph) {
    let csr = tree(16);
    let mut config = EngineConfig {
        access: Some(Access::Paged),
        page_size: PageSize::new(4096).expect("allowed"),
        threads: Some(2),
        stuck_after: Duration::from_secs(20),
        transport,
        ..EngineConfig::default()
    };
    let least = Engine::new(config.clone()).expect("valid").plan(&csr, BFS).expect("fits").least_bytes;
    config.gpu_mem = Some(least + 8 * (4096 + 64));
    let engine = Engine::new(config).expect("valid");
    let graph = engine.prepare(csr, BFS).expect("the budget is enough");
    assert!(graph.plan().num_frames < 32, "{} frames, so that pages are evicted", graph.plan().num_frames);
    (engine, graph)
}

/// Runs from the root, and checks every level. Pages that were fetched.
fn assert_runs(graph: &mut PreparedGraph, context: &str) -> u64 {
    let answer = graph.bfs(0, &BfsOptions::default()).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!((answer.reached, answer.max_level), (65535, 15), "{context}");
    let right = answer.levels.iter().zip(1_u32..).all(|(&level, v)| level == v.ilog2());
    assert!(right, "{context}: a level is wrong");
    let paging = answer.stats.paging();
    assert!(paging.evictions > 20, "{context}: {paging:?}");
    paging.faults
}

#[test]
fn bfs_with_evictions_is_right_through_the_queues_of_nics_with_any_shape() {
    for (num_nics, queue_pairs, depth, batch) in
        [(1, 1, 1, 1), (2, 1, 1, 1), (1, 2, 4, 4), (3, 1, 2, 1), (2, 84, 64, 8)]
    {
        let context = format!("{num_nics} NICs, {queue_pairs} queue pairs of {depth}, {batch} a batch");
        let (_engine, mut graph) = prepared(transport(num_nics, queue_pairs, depth, batch));
        let faults: u64 = (0..3).map(|_| assert_runs(&mut graph, &context)).sum();
        let nics = graph.take_nic_stats();
        assert_eq!(nics.len(), num_nics as usize);
        assert_eq!(nics.iter().map(|nic| nic.requests).sum::<u64>(), faults, "{context}");
        let bytes = nics.iter().map(|nic| nic.bytes).sum::<u64>();
        assert!(bytes <= faults * 4096 && bytes > (faults - 4) * 4096, "{context}: {bytes} bytes, {faults}");
        for nic in &nics {
            assert!(nic.doorbells > 0 && nic.doorbells <= nic.requests && !nic.lost, "{context}: {nic:?}");
            // Eight completions a queue pair: the owner bit has changed several times.
            assert!(depth > 1 || nic.requests > 40, "{context}: {nic:?}");
        }
    }
}

#[test]
fn request_numbers_go_on_beyond_16_bits() {
    let (_engine, mut graph) = prepared(transport(1, 1, 1, 1));
    let mut faults = 0;
    while faults < 70_000 {
        faults += assert_runs(&mut graph, "again");
    }
    assert_eq!(graph.take_nic_stats()[0].requests, faults);
}

#[test]
fn refused_request_is_an_error_that_names_it_and_the_next_run_has_new_queues() {
    let mut faulty = transport(1, 2, 4, 1);
    faulty.faults.fail = Some((7, Syndrome::REMOTE_ACCESS));
    let (_engine, mut graph) = prepared(faulty);
    let error = graph.bfs(0, &BfsOptions::default()).expect_err("a request is refused");
    let Error::Paging(PagingError::FailedRequest { syndrome: Syndrome(0x13), .. }) = error else {
        panic!("{error}")
    };
    let text = error.to_string();
    assert!(text.contains("page") && text.contains("syndrome 0x13"), "{text}");
    assert_runs(&mut graph, "after a failed run");
}

#[test]
fn region_too_short_is_refused_by_the_nic() {
    let mut faulty = transport(2, 1, 4, 1);
    faulty.faults.short_by = 8;
    let (_engine, mut graph) = prepared(faulty);
    let error = graph.bfs(0, &BfsOptions::default()).expect_err("the last page is out of bounds");
    assert!(
        matches!(error, Error::Paging(PagingError::FailedRequest { syndrome: Syndrome(0x13), page: 63, .. })),
        "{error}"
    );
}

#[test]
fn nic_that_is_lost_leaves_its_requests_to_the_others() {
    let mut faulty = transport(2, 2, 4, 1);
    faulty.faults.vanish = vec![(1, 10)];
    let (_engine, mut graph) = prepared(faulty);
    assert_runs(&mut graph, "one NIC vanishes");
    let nics = graph.take_nic_stats();
    assert_eq!((nics[0].lost, nics[1].lost), (false, true));
    assert_eq!(nics[1].lost_because.as_deref(), Some("it vanished"));
    assert_runs(&mut graph, "the other alone");
    assert_eq!(graph.take_nic_stats()[1].requests, 0);
}

#[test]
fn loss_of_all_nics_is_an_error() {
    let mut faulty = transport(2, 1, 4, 1);
    faulty.faults.vanish = vec![(0, 5), (1, 9)];
    let (_engine, mut graph) = prepared(faulty);
    let error = graph.bfs(0, &BfsOptions::default()).expect_err("nobody is left");
    assert!(error.to_string().contains("thread1: it vanished"), "{error}");
}

#[test]
fn queues_that_kernels_cannot_write_are_refused_by_what_is_wrong_with_them() {
    let pair = Pair::new(0x12_3456, 4);
    let good = pair.report();
    good.check("mlx5_0").expect("as libmlx5 makes them");
    let refused = |change: &dyn Fn(&mut PairReport)| {
        let mut report = good;
        change(&mut report);
        report.check("mlx5_0").expect_err("refused").to_string()
    };
    for (text, change) in [
        ("bytes of a completion is 128, 64 is", (|r| r.completions.entry_bytes = 128) as fn(&mut PairReport)),
        ("bytes of a request is 16, 64 is", |r| r.send.entry_bytes = 16),
        ("entries of the send queue is 12, a power of two", |r| r.send.num_entries = 12),
        ("entries of the send queue is 65536, a power of two", |r| r.send.num_entries = 1 << 16),
        ("entries of the completion queue is 8, ", |r| r.completions.num_entries = 8),
        ("entries of the completion queue is 24, ", |r| r.completions.num_entries = 24),
        ("number is 0, 24 bits", |r| r.number = 0),
        ("address of the doorbell register is 0, ", |r| r.register = 0),
        ("address of the send queue is ", |r| r.send.address += 16),
    ] {
        let error = refused(&change);
        assert!(error.starts_with("mlx5_0: queue pair ") && error.contains(text), "{error}");
    }
    // Queues that were used already.
    pair.record.write(&{
        let mut bytes = [0; 64];
        bytes[6] = 0x01;
        bytes
    });
    assert!(good.check("mlx5_0").expect_err("posted").to_string().contains("requests posted before is 256"));
    pair.record.write(&[0; 64]);
    pair.completions[3].write(&[0; 64]);
    let error = good.check("mlx5_0").expect_err("completed").to_string();
    assert!(error.contains("first completion written before is 3"), "{error}");
}

#[test]
fn ringing_writes_number_and_queue_pair_to_the_register_in_network_byte_order() {
    let pair = Pair::new(0x12_3456, 4);
    pair.report().ring(0xA1B2);
    let mut expected = [0; 64];
    expected[..8].copy_from_slice(&[0x00, 0xA1, 0xB2, 0x00, 0x12, 0x34, 0x56, 0x00]);
    assert_eq!(pair.register.bytes(), expected);
}

#[test]
fn kernels_are_shown_the_queues_where_the_nic_has_them() {
    let device = Device::new(&EngineConfig::default()).expect("the CPU device");
    let config = transport(2, 3, 4, 2);
    let memory = Memory::new(0x1000, 0x1000);
    let nics: Vec<ThreadNic> =
        (0..2).map(|number| ThreadNic::new(number, format!("thread{number}"), &config)).collect();
    let reports: Vec<PairReport> = nics.iter().flat_map(|nic| nic.pairs().expect("three")).collect();
    let nics = nics.into_iter().map(|nic| Box::new(nic) as Box<dyn QueueNic>).collect();
    let queues = NicQueues::new(&device, &config, &memory, nics).expect("good queues");
    let pairs = queues.pairs.to_vec().expect("memory");
    assert_eq!(pairs.len(), 6);
    for (i, (pair, report)) in pairs.iter().zip(&reports).enumerate() {
        let numbers = [0x12_0000, 0x12_0001, 0x12_0002, 0x12_1000, 0x12_1001, 0x12_1002];
        assert_eq!(pair.number, numbers[i]);
        assert_eq!(pair.send_queue, report.send.address);
        assert_eq!(pair.completion_queue, report.completions.address);
        assert_eq!(pair.doorbell_record, report.doorbell_record);
        assert_ne!(pair.doorbell, report.register, "a host thread rings");
        assert_eq!((pair.send_shift, pair.completion_shift), (4, 5), "16 entries, 32 completions");
        assert_eq!(pair.slots, pairs[0].slots + i as u64 * 16 * 8);
    }
}

#[test]
fn pages_that_queues_share_are_taken_once() {
    let ranges = [0x1040..0x1080, 0x5000..0x7000, 0x1FC0..0x2040, 0x9008..0x9010, 0x7000..0x7001];
    assert_eq!(whole_pages(ranges.into_iter(), 0x1000), [0x1000..0x3000, 0x5000..0x8000, 0x9000..0xA000]);
    let ranges = [0x3_0000..0x3_0001, 0x1040..0x1080];
    assert_eq!(whole_pages(ranges.into_iter(), 0x1_0000), [0..0x1_0000, 0x3_0000..0x4_0000]);
}
