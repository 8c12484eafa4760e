//! Pages that come through queue pairs: graphs with known answers on the CPU device, under every number of queues, depths,
//! batches and NICs, with completions that are late, out of order or failures, and NICs that vanish.

mod common;
#[path = "common/expected.rs"]
mod expected;
#[path = "common/program.rs"]
mod program;

use std::time::{Duration, Instant};

use common::{paged, with_least_budget};
use expected::{Expected, assert_distances, digest_labels, digest_levels};
use gpuvm_engine::graph::{Csr, Weights};
use gpuvm_engine::transport::FaultInjection;
use gpuvm_engine::transport::mlx5::Syndrome;
use gpuvm_engine::{
    Access, BfsOptions, Engine, EngineConfig, Error, NicStats, PagingError, Policy, PreparedGraph,
    SsspOptions, TransportConfig, TransportKind, Variant, WarpLanes, Workload,
};
use gpuvm_loaders::WeightRule;
use program::Folder;
use serde_json::Value;

fn host(queue_pairs: u32, queue_depth: u32, fault_batch: u32, rnics: u32) -> TransportConfig {
    let kind = TransportKind::Host;
    TransportConfig { kind, queue_pairs, queue_depth, fault_batch, rnics, ..TransportConfig::default() }
}

fn config(threads: usize, transport: TransportConfig) -> EngineConfig {
    EngineConfig {
        transport,
        stuck_after: Duration::from_secs(60),
        ..paged(Variant::Balanced, Policy::Fifo, threads, WarpLanes::One)
    }
}

/// What the graphs of an engine did by NIC has to add up to what the page table says.
fn assert_adds_up(nics: &[NicStats], faults: u64, bytes: u64, context: &str) {
    assert_eq!(nics.iter().map(|nic| nic.requests).sum::<u64>(), faults, "{context}");
    assert_eq!(nics.iter().map(|nic| nic.bytes).sum::<u64>(), bytes, "{context}");
    for nic in nics {
        // What a lost NIC gave back was asked for, too.
        let taken = nic.requests + nic.flushed;
        assert!(nic.batches <= taken && nic.doorbells <= taken, "{context}: {nic:?}");
        assert_eq!(nic.batches > 0, taken > 0, "{context}: {nic:?}");
        assert!(taken == 0 || nic.mean_queue_depth >= 1.0, "{context}: {nic:?}");
        let latency = nic.latency_us;
        assert!(latency.p50 <= latency.p90 && latency.p90 <= latency.p99 && latency.p99 <= latency.max);
    }
}

/// Runs the algorithms over hash weights from every source that answers are known for, in the least memory.
fn assert_answers(graph: &Expected, view: &str, csr: &Csr, config: EngineConfig) -> Vec<NicStats> {
    let context = format!("{} {view} {:?}", graph.name, config.transport);
    let config = with_least_budget(config, csr, Workload::ALL);
    let engine = Engine::new(config).expect("valid settings");
    let mut prepared = engine.prepare(csr.clone(), Workload::ALL).expect("the budget is enough");
    let (mut faults, mut bytes) = (0, 0);
    let mut count = |stats: &gpuvm_engine::RunStats| {
        faults += stats.paging().faults;
        bytes += stats.paging().bytes_in;
    };
    for (source, run) in graph.runs(view) {
        let bfs = prepared.bfs(source, &BfsOptions::default()).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_eq!(Value::from(digest_levels(&bfs.levels)), run["bfs"]["sha256"], "{context}");
        count(&bfs.stats);
        let sssp = prepared.sssp(source, &SsspOptions::default()).expect("runs");
        assert_distances(&run["sssp_hash8"], &sssp.distances, &context);
        count(&sssp.stats);
    }
    let components = prepared.connected_components().expect("runs");
    let labels = Value::from(digest_labels(&components.labels));
    assert_eq!(labels, graph.json["components"]["sha256_min_label"], "{context}");
    count(&components.stats);
    let nics = prepared.take_nic_stats();
    assert_adds_up(&nics, faults, bytes, &context);
    nics
}

fn named(name: &str) -> Expected {
    expected::graphs().into_iter().find(|graph| graph.name == name).expect("the repository holds it")
}

const VIEWS: [&str; 2] = ["directed", "undirected"];

#[test]
fn every_expected_graph_comes_out_right_through_host_nics() {
    for graph in expected::graphs() {
        for view in VIEWS {
            let csr = graph.load(view, WeightRule::Hash);
            for (threads, rnics) in [(2, 2), (4, 1)] {
                let transport = TransportConfig { rnics, kind: TransportKind::Host, ..Default::default() };
                assert_answers(&graph, view, &csr, config(threads, transport));
            }
        }
    }
}

#[test]
fn every_expected_graph_comes_out_right_through_warps_that_stand_for_nics() {
    // Every fault hands cores on between threads: of the large graphs the others have enough.
    let is_small =
        |graph: &Expected| graph.json["expanded_entries"].as_u64().is_some_and(|edges| edges < 20_000);
    for graph in expected::graphs().into_iter().filter(is_small) {
        for view in VIEWS {
            let csr = graph.load(view, WeightRule::Hash);
            let transport = TransportConfig { kind: TransportKind::Device, rnics: 2, ..Default::default() };
            assert_answers(&graph, view, &csr, config(2, transport));
        }
    }
}

#[test]
fn queues_of_warps_that_stand_for_nics_come_in_every_size() {
    let graph = named("mtx/jagmesh7.mtx");
    let csr = graph.load("undirected", WeightRule::Hash);
    for (queue_pairs, queue_depth, fault_batch, rnics) in
        [(1, 1, 1, 1), (1, 4, 4, 3), (2, 2, 1, 2), (84, 64, 8, 4), (5, 64, 64, 1)]
    {
        let kind = TransportKind::Device;
        let transport = TransportConfig { kind, ..host(queue_pairs, queue_depth, fault_batch, rnics) };
        let nics = assert_answers(&graph, "undirected", &csr, config(8, transport));
        assert_eq!(nics.len(), rnics as usize);
    }
}

#[test]
fn answers_do_not_depend_on_queues_depths_batches_and_nics() {
    let graph = named("mtx/jagmesh7.mtx");
    let csr = graph.load("undirected", WeightRule::Hash);
    for queue_pairs in [1, 2, 5, 84] {
        for queue_depth in [1, 2, 8, 64] {
            for (fault_batch, rnics) in [(1, 1), (2, 3), (8, 2), (64, 4)] {
                let transport = host(queue_pairs, queue_depth, fault_batch.min(queue_depth), rnics);
                let nics = assert_answers(&graph, "undirected", &csr, config(8, transport));
                assert_eq!(nics.len(), rnics as usize);
            }
        }
    }
}

#[test]
fn answers_do_not_depend_on_when_and_in_which_order_completions_come() {
    for name in ["mtx/olm1000.mtx", "mtxgz/nos5.mtx.gz", "targz/dwg961b.tar.gz"] {
        let graph = named(name);
        let csr = graph.load("directed", WeightRule::Hash);
        for (delay, reorder) in
            [(Duration::from_micros(300), false), (Duration::ZERO, true), (Duration::from_micros(50), true)]
        {
            for (queue_pairs, queue_depth) in [(1, 4), (2, 64)] {
                let faults = FaultInjection { delay, reorder, ..FaultInjection::default() };
                let transport = TransportConfig { faults, ..host(queue_pairs, queue_depth, 2, 2) };
                assert_answers(&graph, "directed", &csr, config(8, transport));
            }
        }
    }
}

#[test]
fn warps_of_32_lanes_ask_once_for_all_their_lanes() {
    for name in ["mtx/karate.mtx", "mtx/impcol_a.mtx", "mtx/GD99_cc.mtx"] {
        let graph = named(name);
        for view in VIEWS {
            let csr = graph.load(view, WeightRule::Hash);
            for (&variant, kind) in
                Variant::ALL.iter().zip([TransportKind::Host, TransportKind::Device].into_iter().cycle())
            {
                let transport = TransportConfig { kind, ..host(2, 4, 2, 2) };
                let narrow = config(3, transport);
                let wide = EngineConfig { warp_lanes: WarpLanes::ThirtyTwo, variant, ..narrow };
                assert_answers(&graph, view, &csr, wide);
            }
        }
    }
}

#[test]
fn nics_share_the_bytes_evenly() {
    let graph = named("mtx/bcsstk13.mtx");
    let csr = graph.load("undirected", WeightRule::Hash);
    for rnics in [2, 4] {
        let nics = assert_answers(&graph, "undirected", &csr, config(4, host(84, 64, 8, rnics)));
        let all: u64 = nics.iter().map(|nic| nic.bytes).sum();
        for nic in &nics {
            let share = nic.bytes as f64 / all as f64 * f64::from(rnics);
            assert!((0.9..=1.1).contains(&share), "{nics:?}");
        }
    }
}

#[test]
fn model_of_a_nic_takes_at_least_its_latency() {
    let graph = named("mtx/olm1000.mtx");
    let csr = graph.load("directed", WeightRule::Hash);
    let rnic_model = Some("latency=2ms,bandwidth=1GB/s".parse().expect("valid"));
    for kind in [TransportKind::Host, TransportKind::Device] {
        let transport = TransportConfig { kind, rnic_model, ..host(2, 4, 1, 2) };
        for nic in assert_answers(&graph, "directed", &csr, config(2, transport)) {
            // Percentiles are those of buckets: to three in a hundred.
            assert!(nic.requests == 0 || nic.latency_us.p50 >= 2000.0 * 0.97, "{nic:?}");
        }
    }
}

/// A path of 8193 vertices: 32 KiB of columns, eight pages of 4 KiB.
fn path() -> Csr {
    let n = 8193_u32;
    let offsets: Vec<u64> = (0..=u64::from(n)).map(|u| u.min(u64::from(n) - 1)).collect();
    Csr::new(offsets, (1..n).collect::<Vec<_>>(), Weights::Unit, false).expect("valid")
}

/// Pages of [`path`] and of its ends.
const PAGES: u64 = 8;

const BFS: Workload = Workload { bfs: true, ..Workload::NONE };

/// The path on one thread, with two NICs of which `faults` says what goes wrong.
fn faulty(faults: FaultInjection) -> PreparedGraph {
    let transport = TransportConfig { faults, ..host(3, 4, 2, 2) };
    let config = EngineConfig { stuck_after: Duration::from_secs(2), ..config(1, transport) };
    Engine::new(config).expect("valid").prepare(path(), BFS).expect("fits")
}

fn assert_runs(graph: &mut PreparedGraph) {
    let answer = graph.bfs(0, &BfsOptions::default()).expect("runs");
    assert_eq!((answer.reached, answer.max_level), (8193, 8192));
}

/// The error of a run that fails within seconds.
fn refusal(graph: &mut PreparedGraph) -> PagingError {
    let started = Instant::now();
    let error = graph.bfs(0, &BfsOptions::default()).expect_err("a NIC goes wrong");
    assert!(started.elapsed() < Duration::from_secs(20), "{error}");
    let Error::Paging(error) = error else { panic!("{error}") };
    error
}

#[test]
fn completion_with_an_error_is_an_error_that_names_page_frame_queue_pair_and_syndrome() {
    for syndrome in [Syndrome::RETRY_EXCEEDED, Syndrome::REMOTE_OPERATION] {
        let mut graph = faulty(FaultInjection { fail: Some((1, syndrome)), ..FaultInjection::default() });
        let error = refusal(&mut graph);
        // Pages go 0, 1, 2 and so on; of each NIC, its second request is that of page 2 or 3.
        let PagingError::FailedRequest { page: 2, frame: 2, place, syndrome: found } = error else {
            panic!("{error}")
        };
        assert_eq!((place.nic, place.queue_pair, found), (0, 0, syndrome));
        let text = error.to_string();
        for part in ["page 2", "frame 2", "queue pair 0 of NIC 0", &syndrome.to_string()] {
            assert!(text.contains(part), "{text}");
        }
        // The other NIC's second request is that of page 1 in the next run; the run after that is as good as new.
        assert!(
            matches!(refusal(&mut graph), PagingError::FailedRequest { page: 1, place, .. } if place.nic == 1)
        );
        assert_runs(&mut graph);
    }
}

#[test]
fn wrong_key_is_a_protection_error() {
    let local = FaultInjection { wrong_local_key: true, ..FaultInjection::default() };
    let remote = FaultInjection { wrong_remote_key: true, ..FaultInjection::default() };
    for (faults, expected) in [(local, Syndrome::LOCAL_PROTECTION), (remote, Syndrome::REMOTE_ACCESS)] {
        let error = refusal(&mut faulty(faults));
        assert!(
            matches!(error, PagingError::FailedRequest { page: 0, syndrome, .. } if syndrome == expected),
            "{error}"
        );
    }
}

#[test]
fn region_that_is_too_short_is_an_access_error_of_the_page_beyond_its_end() {
    let error = refusal(&mut faulty(FaultInjection { short_by: 1, ..FaultInjection::default() }));
    let PagingError::FailedRequest { page, syndrome, place, .. } = error else { panic!("{error}") };
    assert_eq!((page, syndrome, place.nic), (PAGES - 1, Syndrome::REMOTE_ACCESS, 1));
}

#[test]
fn request_that_is_never_answered_is_an_error_that_names_it() {
    let mut graph = faulty(FaultInjection { silent: Some(2), ..FaultInjection::default() });
    let error = refusal(&mut graph);
    assert!(
        matches!(error, PagingError::StuckRequest { page: 4, frame: 4, place } if place.nic == 0),
        "{error}"
    );
}

#[test]
fn pages_of_a_nic_that_vanishes_come_through_the_others() {
    for after in 0..4 {
        let mut graph = faulty(FaultInjection { vanish: vec![(0, after)], ..FaultInjection::default() });
        assert_runs(&mut graph);
        let nics = graph.take_nic_stats();
        assert!(nics[0].lost && !nics[1].lost, "{nics:?}");
        assert_eq!((nics[0].requests, nics[1].requests), (after, PAGES - after));
        assert_eq!(nics[0].flushed, 1, "one warp asks for one page at a time");
        // It stays lost.
        graph.evict_all().expect("memory");
        assert_runs(&mut graph);
        let nics = graph.take_nic_stats();
        assert_eq!((nics[0].requests, nics[0].flushed, nics[1].requests), (0, 0, PAGES));
        assert!(nics[0].lost);
    }
}

#[test]
fn answers_are_right_while_nics_vanish_until_one_is_left() {
    let graph = named("mtx/bcsstk13.mtx");
    let csr = graph.load("undirected", WeightRule::Hash);
    let faults = FaultInjection { vanish: vec![(0, 40), (2, 10), (3, 200)], ..FaultInjection::default() };
    let transport = TransportConfig { faults, ..host(2, 8, 4, 4) };
    let nics = assert_answers(&graph, "undirected", &csr, config(8, transport));
    assert_eq!(nics.iter().map(|nic| nic.lost).collect::<Vec<_>>(), [true, false, true, true]);
    // What it had moved, but not answered yet, counts as flushed.
    for (nic, after) in [(0, 40), (2, 10), (3, 200)] {
        let NicStats { requests, flushed, .. } = nics[nic];
        assert!(requests <= after && requests + flushed > after, "{nics:?}");
    }
    assert!(nics[0].flushed > 0 && nics[1].requests > 1000, "{nics:?}");
}

#[test]
fn loss_of_all_nics_is_an_error() {
    let mut graph = faulty(FaultInjection { vanish: vec![(0, 1), (1, 2)], ..FaultInjection::default() });
    let error = refusal(&mut graph);
    assert!(matches!(error, PagingError::NicsLost { num_nics: 2, .. }), "{error}");
    assert!(
        matches!(refusal(&mut graph), PagingError::NicsLost { page: 0, num_nics: 2, .. }),
        "none comes back"
    );
}

#[test]
fn cancelled_run_leaves_queues_of_warps_that_work() {
    let rnic_model = Some("latency=20ms".parse().expect("valid"));
    let engine = Engine::new(config(
        3,
        TransportConfig { kind: TransportKind::Device, rnic_model, ..host(1, 2, 1, 1) },
    ));
    let engine = engine.expect("valid");
    let mut graph = engine.prepare(path(), BFS).expect("fits");
    let cancel = engine.cancel_handle();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        cancel.cancel();
    });
    assert!(matches!(graph.bfs(0, &BfsOptions::default()), Err(Error::Interrupted)));
    killer.join().expect("no panic");
    assert_runs(&mut graph);
}

#[test]
fn cancelled_run_leaves_queues_that_work() {
    let transport = TransportConfig {
        faults: FaultInjection { delay: Duration::from_millis(20), ..FaultInjection::default() },
        ..host(1, 2, 1, 1)
    };
    let engine = Engine::new(config(3, transport)).expect("valid");
    let mut graph = engine.prepare(path(), BFS).expect("fits");
    let cancel = engine.cancel_handle();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        cancel.cancel();
    });
    assert!(matches!(graph.bfs(0, &BfsOptions::default()), Err(Error::Interrupted)));
    killer.join().expect("no panic");
    assert_runs(&mut graph);
}

#[test]
fn queues_are_in_the_plan_and_direct_has_none() {
    let plan =
        |transport| Engine::new(config(2, transport)).expect("valid").plan(&path(), BFS).expect("fits");
    let queues =
        |transport| plan(transport).items.iter().find(|item| item.name == "queues").map(|item| item.bytes);
    assert_eq!(queues(TransportConfig::default()), None);
    // Two NICs of 84 pairs of 64 entries: a request and a completion of 64 bytes and a slot of 8 each.
    let bytes = queues(host(84, 64, 8, 2)).expect("queues");
    assert!((2 * 84 * 64 * 136..2 * 84 * 64 * 136 + 2 * 84 * 1024).contains(&bytes), "{bytes}");
    let more = plan(host(84, 64, 8, 2)).least_bytes - plan(TransportConfig::default()).least_bytes;
    assert_eq!(more, bytes);
}

#[test]
fn transport_that_has_no_pages_to_move_is_refused() {
    let config = EngineConfig { access: Some(Access::Resident), ..config(1, host(1, 1, 1, 1)) };
    let refused = Engine::new(config.clone()).expect("valid").plan(&path(), BFS).expect_err("no pages");
    assert!(matches!(refused, Error::TransportWithoutPages { transport: "host", access: "resident" }));
    // Left to itself, the plan pages.
    let auto = EngineConfig { access: None, gpu_mem: None, ..config };
    let plan = Engine::new(auto).expect("valid").plan(&path(), BFS).expect("fits");
    assert_eq!((plan.access, plan.access_reason.as_str()), (Access::Paged, "transport host moves pages"));
}

#[test]
fn settings_that_no_queue_has_are_refused() {
    for transport in [host(0, 1, 1, 1), host(1, 3, 1, 1), host(1, 1, 2, 1), host(1, 1, 1, 0)] {
        assert!(matches!(Engine::new(config(1, transport)), Err(Error::QueueSetting { .. })));
    }
}

#[test]
fn program_reports_what_each_nic_did() {
    let graph = named("mtx/bcsstk13.mtx");
    let line = format!(
        "bfs --graph {} --device cpu --threads 2 --transport host --queue-pairs 4 --queue-depth 4 --rnics 3 --rnic-model \
         latency=5us",
        graph.path.display()
    );
    let folder = Folder::new();
    let ended = folder.run(&format!("{line} --json"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let settings = &json["settings"]["transport"];
    assert_eq!(settings["kind"], "host");
    assert_eq!([&settings["queue_pairs"], &settings["queue_depth"], &settings["fault_batch"]], [4, 4, 4]);
    assert_eq!(settings["rnic_model"], "latency=5us");
    let nics = json["runs"][0]["nics"].as_array().expect("NICs");
    let names: Vec<_> = nics.iter().map(|nic| nic["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["rnic0", "rnic1", "rnic2"]);
    let sum = |field: &str| nics.iter().map(|nic| nic[field].as_u64().expect("a count")).sum::<u64>();
    assert_eq!(sum("requests"), json["runs"][0]["faults"]);
    assert_eq!(sum("bytes"), json["runs"][0]["bytes_in"]);
    let text = folder.run(&line).stdout;
    for part in ["transport host, 3 NICs, each 4 queue pairs of 4, batches of 4, latency=5us", "rnic2"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn transport_mlx5_without_a_connectx_says_what_was_found_and_what_to_do() {
    let devices = std::fs::read_dir("/sys/class/infiniband").into_iter().flatten().flatten();
    if devices.into_iter().any(|device| device.file_name().to_string_lossy().starts_with("mlx5")) {
        println!("skipped: transport_mlx5_without_a_connectx_...: there is one");
        return;
    }
    let folder = Folder::with("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n");
    let error = folder.refused("bfs --graph graph.mtx --access paged --transport mlx5");
    if cfg!(feature = "rdma") {
        program::assert_mentions(
            &error,
            &["transport mlx5 needs a ConnectX", "RDMA device", "transport rdma"],
        );
    } else {
        program::assert_mentions(&error, &["transport mlx5 is not part of this build"]);
    }
}

#[test]
fn program_refuses_queues_that_cannot_be() {
    let folder = Folder::with("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n");
    for (options, message) in [
        ("--queue-depth 3", "3 entries of a queue are not possible, use a power of two from 1 to 1024"),
        ("--queue-depth 4 --fault-batch 8", "8 requests of a batch are not possible"),
        ("--rnics 0", "0 NICs are not possible, use from 1 to 16"),
        ("--rnic-model mtu=1", "latency=23us,bandwidth=6.5GB/s"),
        ("--access resident", "transport host moves pages, and resident access has none"),
    ] {
        let ended = folder.run(&format!("bfs --graph graph.mtx --device cpu --transport host {options}"));
        assert_eq!(ended.code, Some(2), "{options}: {}", ended.stderr);
        assert!(ended.stderr.contains(message), "{options}: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
}
