//! Traversals whose pages come through the devices.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpuvm_engine::graph::{Csr, Weights};
use gpuvm_engine::transport::FaultInjection;
use gpuvm_engine::transport::rdma::RdmaDevice;
use gpuvm_engine::{
    BfsOptions, Distances, Engine, EngineConfig, Error, NicStats, PagingError, Policy, PreparedGraph,
    RunStats, SsspOptions, TransportConfig, TransportKind, Variant, WarpLanes, Workload, reference,
};
use gpuvm_loaders::WeightRule;
use serde_json::Value;

use crate::common::{paged, with_least_budget};
use crate::expected::{self, assert_distances, digest_labels, digest_levels};
use crate::nics_or_skip;

fn config(nics: &[String], transport: TransportConfig) -> EngineConfig {
    EngineConfig {
        transport: TransportConfig { kind: TransportKind::Rdma, nics: nics.to_vec(), ..transport },
        ..paged(Variant::Balanced, Policy::Fifo, 2, WarpLanes::One)
    }
}

fn few_queues() -> TransportConfig {
    TransportConfig { queue_pairs: 2, queue_depth: 8, fault_batch: 4, ..TransportConfig::default() }
}

/// A random graph of 2^14 vertices with so many edges each: with 16 of them 256 pages of 4 KiB.
fn random_graph(degree: u64) -> Csr {
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let n = 1_u64 << 14;
    let columns: Vec<u32> = (0..n * degree).map(|_| next() % n as u32).collect();
    Csr::new((0..=n).map(|u| u * degree).collect::<Vec<_>>(), columns, Weights::Hash, false).expect("valid")
}

/// A graph on the devices, with frames for a quarter of its pages.
fn prepared(nics: &[String], transport: TransportConfig, csr: &Csr) -> Result<PreparedGraph, Error> {
    let config = config(nics, transport);
    let plan = Engine::new(config.clone())?.plan(csr, Workload::ALL)?;
    let gpu_mem = Some(plan.total_bytes - plan.num_frames * 3 / 4 * (4096 + 8));
    Engine::new(EngineConfig { gpu_mem, ..config })?.prepare(csr.clone(), Workload::ALL)
}

fn assert_even(nics: &[NicStats]) {
    let total: u64 = nics.iter().map(|nic| nic.bytes).sum();
    let shares: Vec<_> = nics.iter().map(|nic| nic.bytes as f64 / total as f64).collect();
    println!("{} of {total} bytes: {shares:.3?}", nics.len());
    let even = 1.0 / nics.len() as f64;
    assert!(shares.iter().all(|share| (share / even - 1.0).abs() < 0.1), "{shares:?}");
}

#[test]
fn every_small_expected_graph_comes_out_right_over_all_devices() {
    let names = nics_or_skip!("every_small_expected_graph_comes_out_right_over_all_devices");
    let (mut num_runs, mut total) = (0, gpuvm_engine::PagingStats::default());
    let mut count = |stats: &RunStats| {
        num_runs += 1;
        total += stats.paging();
    };
    // Up to five pages: an emulated processor takes its time over each.
    for graph in
        expected::graphs().iter().filter(|graph| graph.json["expanded_entries"].as_u64() < Some(4_800))
    {
        let started = Instant::now();
        for view in ["directed", "undirected"] {
            let csr = graph.load(view, WeightRule::Hash);
            let config = with_least_budget(config(&names, few_queues()), &csr, Workload::ALL);
            let context = format!("{} {view}", graph.name);
            let engine = Engine::new(config).expect("valid settings");
            let mut on_device =
                engine.prepare(csr, Workload::ALL).unwrap_or_else(|e| panic!("{context}: {e}"));
            if let Some((source, run)) = graph.runs(view).next() {
                let bfs = on_device
                    .bfs(source, &BfsOptions::default())
                    .unwrap_or_else(|e| panic!("{context}: {e}"));
                assert_eq!(Value::from(digest_levels(&bfs.levels)), run["bfs"]["sha256"], "{context}");
                count(&bfs.stats);
                let sssp = on_device.sssp(source, &SsspOptions::default()).expect("runs");
                assert_distances(&run["sssp_hash8"], &sssp.distances, &context);
                count(&sssp.stats);
            }
            let components = on_device.connected_components().expect("runs");
            let labels = Value::from(digest_labels(&components.labels));
            assert_eq!(labels, graph.json["components"]["sha256_min_label"], "{context}");
            count(&components.stats);
        }
        println!("{}: {:?}", graph.name, started.elapsed());
    }
    println!("{num_runs} runs, {total:?}");
    assert!(num_runs > 100 && total.evictions > 100, "{num_runs} runs, {total:?}");
}

#[test]
fn bfs_components_and_sssp_share_the_bytes_evenly_among_the_devices() {
    let names = nics_or_skip!("bfs_components_and_sssp_share_the_bytes_evenly_among_the_devices");
    let csr = random_graph(16);
    let mut graph = prepared(&names, TransportConfig::default(), &csr).expect("enough memory");
    assert!(graph.plan().evicts());
    let bfs = graph.bfs(0, &BfsOptions::default()).expect("runs");
    assert_eq!(bfs.levels, reference::bfs(&csr, 0));
    let stats = bfs.stats.paging();
    assert!(stats.evictions > 0, "{stats:?}");
    let nics = graph.take_nic_stats();
    assert_eq!(nics.iter().map(|nic| nic.name.clone()).collect::<Vec<_>>(), names);
    assert_eq!(nics.iter().map(|nic| nic.bytes).sum::<u64>(), stats.bytes_in);
    assert_eq!(nics.iter().map(|nic| nic.requests).sum::<u64>(), stats.faults);
    assert_even(&nics);
    let components = graph.connected_components().expect("runs");
    assert_eq!(components.labels, reference::connected_components(&csr));
    assert_even(&graph.take_nic_stats());
    let sssp = graph.sssp(0, &SsspOptions::default()).expect("runs");
    let Distances::Integer(distances) = sssp.distances else { panic!("integer weights") };
    let Distances::Integer(expected) = reference::sssp(&csr, 0) else { panic!("integer weights") };
    assert_eq!(distances, expected);
    assert_even(&graph.take_nic_stats());
}

#[test]
fn graph_larger_than_the_budget_of_registered_memory_is_registered_page_by_page() {
    let names = nics_or_skip!("graph_larger_than_the_budget_of_registered_memory_is_registered_page_by_page");
    // 4 MiB of columns.
    let csr = random_graph(64);
    let transport = TransportConfig { pin_budget: Some(2 << 20), ..few_queues() };
    let mut graph = prepared(&names, transport, &csr).expect("enough memory");
    assert_eq!(graph.bfs(0, &BfsOptions::default()).expect("runs").levels, reference::bfs(&csr, 0));
    assert_eq!(graph.connected_components().expect("runs").labels, reference::connected_components(&csr));
    for nic in graph.take_nic_stats() {
        let stats = nic.registrations.expect("a cache");
        println!("{}: hit rate {:.2}, {stats:?}", nic.name, stats.hit_rate());
        assert_eq!(stats.hits + stats.pins, nic.requests, "a use a request");
        assert!(stats.hits > 0 && stats.evictions > 0 && stats.most_pinned_bytes <= 2 << 20, "{stats:?}");
    }
    let transport = TransportConfig { pin_budget: Some(1 << 20), ..few_queues() };
    let refused = prepared(&names, transport, &csr).expect_err("less than a page may take").to_string();
    assert_eq!(refused, "1.0 MiB of registered memory are too little, use 2.0 MiB or more");
}

/// The message of a run that must fail, within seconds; after it the devices work again.
fn failure(names: &[String], faults: FaultInjection) -> String {
    let csr = random_graph(16);
    let transport = TransportConfig { faults, ..few_queues() };
    let mut graph = prepared(names, transport, &csr).expect("enough memory");
    let started = Instant::now();
    let error = graph.bfs(0, &BfsOptions::default()).expect_err("pages cannot come");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(matches!(error, Error::Paging(PagingError::FailedRequest { .. } | PagingError::NicsLost { .. })));
    println!("{error}");
    error.to_string()
}

#[test]
fn wrong_key_and_region_too_short_name_page_frame_queue_pair_and_status() {
    let names = nics_or_skip!("wrong_key_and_region_too_short_name_page_frame_queue_pair_and_status");
    let wrong_remote =
        failure(&names, FaultInjection { wrong_remote_key: true, ..FaultInjection::default() });
    let wrong_local = failure(&names, FaultInjection { wrong_local_key: true, ..FaultInjection::default() });
    let short = failure(&names, FaultInjection { short_by: 4096, ..FaultInjection::default() });
    for (message, status) in [
        (&wrong_remote, "remote access error (syndrome 0x13)"),
        (&wrong_local, "local protection error (syndrome 0x04)"),
        (&short, "remote access error (syndrome 0x13)"),
    ] {
        for word in ["page ", "frame ", "queue pair ", "NIC ", status] {
            assert!(message.contains(word), "\"{word}\" is not in: {message}");
        }
    }
    // The array's last page is the one that its region lacks.
    assert!(short.contains("page 255 "), "{short}");
}

/// A network interface, down until dropped.
struct LinkDown<'a> {
    interface: &'static str,
    device: &'a str,
}

fn set_link(interface: &str, state: &str) {
    let status = Command::new("/bin/ip").args(["link", "set", interface, state]).status().expect("ip");
    assert!(status.success(), "ip link set {interface} {state}");
}

impl<'a> LinkDown<'a> {
    fn new(interface: &'static str, device: &'a str) -> Self {
        set_link(interface, "down");
        Self { interface, device }
    }
}

impl Drop for LinkDown<'_> {
    fn drop(&mut self) {
        set_link(self.interface, "up");
        let started = Instant::now();
        while RdmaDevice::open(self.device).is_err() {
            assert!(started.elapsed() < Duration::from_secs(10), "{} does not come back", self.device);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The interfaces of the virtual machine; elsewhere nobody's link is taken down.
fn interfaces(names: &[String], test: &str) -> bool {
    let ours = names.iter().eq(["rxe0", "rxe1"].iter());
    if !ours {
        println!("skipped: {test}: it takes links down, and does so in the virtual machine only");
    }
    ours
}

#[test]
fn device_whose_link_goes_down_in_a_run_is_dropped_and_the_answer_is_right() {
    let test = "device_whose_link_goes_down_in_a_run_is_dropped_and_the_answer_is_right";
    let names = nics_or_skip!("device_whose_link_goes_down_in_a_run_is_dropped_and_the_answer_is_right");
    if !interfaces(&names, test) {
        return;
    }
    let csr = random_graph(16);
    let levels = reference::bfs(&csr, 0);
    let mut graph = prepared(&names, few_queues(), &csr).expect("enough memory");
    let (started, lost) = (Instant::now(), AtomicBool::new(false));
    let (mut nics, mut num_runs) = (Vec::new(), 0);
    let down = std::thread::scope(|scope| {
        // Runs follow each other without a pause, so this falls into one.
        let down = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(500));
            LinkDown::new("nic1", "rxe1")
        });
        while !lost.load(Ordering::Relaxed) {
            assert!(started.elapsed() < Duration::from_secs(60), "{nics:?}");
            assert_eq!(graph.bfs(0, &BfsOptions::default()).expect("one device is left").levels, levels);
            nics = graph.take_nic_stats();
            lost.store(nics[1].lost, Ordering::Relaxed);
            num_runs += 1;
        }
        down.join().expect("down")
    });
    println!("lost in run {num_runs}, after {:?}: {nics:?}", started.elapsed());
    assert!(nics[1].lost_because.as_ref().is_some_and(|why| !why.is_empty()), "{nics:?}");
    assert!(!nics[0].lost && nics[0].requests > nics[1].requests, "{nics:?}");
    // It stays out, and all bytes come over the other.
    assert_eq!(graph.bfs(0, &BfsOptions::default()).expect("one device is left").levels, levels);
    let after = graph.take_nic_stats();
    assert!(after[1].lost && after[1].bytes == 0 && after[0].bytes > 0, "{after:?}");
    let Err(refused) = prepared(&names, few_queues(), &csr) else { panic!("rxe1 was asked for") };
    assert!(refused.to_string().starts_with("rxe1: port 1 is down, not active"), "{refused}");
    // Without names those that are active are taken.
    let mut graph = prepared(&[], few_queues(), &csr).expect("rxe0 is left");
    assert_eq!(graph.bfs(0, &BfsOptions::default()).expect("runs").levels, levels);
    assert_eq!(graph.take_nic_stats().iter().map(|nic| nic.name.as_str()).collect::<Vec<_>>(), ["rxe0"]);
    drop(down);
}

#[test]
fn run_whose_devices_are_all_lost_ends_with_an_error_in_seconds() {
    let test = "run_whose_devices_are_all_lost_ends_with_an_error_in_seconds";
    let names = nics_or_skip!("run_whose_devices_are_all_lost_ends_with_an_error_in_seconds");
    if !interfaces(&names, test) {
        return;
    }
    let csr = random_graph(16);
    let mut graph = prepared(&names, few_queues(), &csr).expect("enough memory");
    let downs = [LinkDown::new("nic0", "rxe0"), LinkDown::new("nic1", "rxe1")];
    let started = Instant::now();
    let error = graph.bfs(0, &BfsOptions::default()).expect_err("no device is left");
    println!("after {:?}: {error}", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert!(matches!(error, Error::Paging(PagingError::NicsLost { num_nics: 2, .. })), "{error}");
    for word in ["page ", "rxe0: ", "rxe1: "] {
        assert!(error.to_string().contains(word), "\"{word}\" is not in: {error}");
    }
    drop(downs);
}
