//! The same graphs, answers and failures on a real GPU. Ignored where there is none; asked for (`cargo test --test device
//! -- --ignored`), a missing GPU is a failure.

mod common;
#[path = "common/expected.rs"]
mod expected;

use std::time::{Duration, Instant};

use common::{csr_of, lined};
use expected::{assert_distances, assert_ranks, digest_labels, digest_levels};
use gpuvm_datasets::{GapWeights, NamedGraph};
use gpuvm_engine::graph::{Csr, Order, Weights};
use gpuvm_engine::transport::FaultInjection;
use gpuvm_engine::transport::mlx5::Syndrome;
use gpuvm_engine::{
    Access, BfsOptions, DeviceKind, Directions, Engine, EngineConfig, Error, Frames, GpuFacts, Grid, Lines,
    MemoryUsage, PageRankOptions, PageSize, PagedArray, PagedArrayOptions, PagingError, PagingStats, Policy,
    SsspOptions, TransportConfig, TransportKind, Variant, Workload, reference, verify,
};
use gpuvm_loaders::WeightRule;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

/// An engine to hold, so that those that come and go share its context.
fn any_engine() -> Engine {
    Engine::new(gpu(Access::Paged, Variant::Balanced, Policy::Fifo)).expect("a GPU")
}

fn gpu(access: Access, variant: Variant, policy: Policy) -> EngineConfig {
    EngineConfig {
        device: DeviceKind::Cuda(0),
        access: Some(access),
        page_size: PageSize::new(4096).expect("allowed"),
        variant,
        policy,
        stuck_after: Duration::from_secs(20),
        ..EngineConfig::default()
    }
}

fn with_least_budget(config: EngineConfig, csr: &Csr, workload: Workload) -> EngineConfig {
    let config = EngineConfig { gpu_mem: None, ..config };
    let least = Engine::new(config.clone()).expect("a GPU").plan(csr, workload).expect("fits").least_bytes;
    EngineConfig { gpu_mem: Some(least), ..config }
}

/// Every access, and paged with frames for all pages, for half of them and the fewest that do.
fn settings(csr: &Csr, workload: Workload) -> Vec<EngineConfig> {
    let mut settings = Vec::new();
    for &variant in Variant::ALL {
        for access in [Access::ZeroCopy, Access::Resident, Access::Managed, Access::ManagedReadMostly] {
            settings.push(gpu(access, variant, Policy::Fifo));
        }
        for &policy in Policy::ALL {
            let lines = if policy == Policy::Fifo { Lines::Never } else { Lines::Auto };
            let plenty = EngineConfig { lines, ..gpu(Access::Paged, variant, policy) };
            let full =
                Engine::new(plenty.clone()).expect("a GPU").plan(csr, workload).expect("fits").total_bytes;
            let least = with_least_budget(plenty.clone(), csr, workload);
            let half = least.gpu_mem.map(|bytes| bytes.midpoint(full.max(bytes)));
            settings.extend([plenty.clone(), EngineConfig { gpu_mem: half, ..plenty }, least]);
        }
    }
    settings
}

const VIEWS: [&str; 2] = ["directed", "undirected"];

#[test]
#[ignore = "needs a CUDA device"]
fn every_expected_graph_comes_out_right_under_a_third_of_the_settings_in_turn() {
    let _engine = any_engine();
    let mut total = PagingStats::default();
    let page_ranks = expected::page_ranks();
    // All settings for each would take minutes; neighbours in the list are of different kinds.
    for (turn, graph) in expected::graphs().into_iter().enumerate() {
        for view in VIEWS {
            let csr = graph.load(view, WeightRule::Hash);
            let mut cpu_ranks: Option<Vec<f64>> = None;
            let with_file_weights = graph.runs(view).any(|(_, run)| !run["sssp_file"].is_null());
            let file_csr = with_file_weights.then(|| graph.load(view, WeightRule::Abs));
            for (_, config) in settings(&csr, Workload::ALL)
                .into_iter()
                .enumerate()
                .filter(|(number, _)| (number + turn) % 3 == 0)
            {
                let context = format!("{} {view} {config:?}", graph.name);
                let engine = Engine::new(config.clone()).expect("a GPU");
                let mut prepared = engine.prepare(csr.clone(), Workload::ALL).expect("the budget is enough");
                for (source, run) in graph.runs(view) {
                    let bfs = prepared.bfs(source, &BfsOptions { parents: true, ..BfsOptions::default() });
                    let bfs = bfs.unwrap_or_else(|e| panic!("{context}: {e}"));
                    assert_eq!(Value::from(digest_levels(&bfs.levels)), run["bfs"]["sha256"], "{context}");
                    assert_eq!(Value::from(bfs.reached), run["bfs"]["reached"], "{context}");
                    assert_eq!(Value::from(bfs.max_level), run["bfs"]["max_level"], "{context}");
                    let limit = verify::BfsLimit::default();
                    verify::bfs(&csr, source, limit, &bfs.levels, bfs.parents.as_deref()).expect("certified");
                    let sssp = prepared.sssp(source, &SsspOptions::default()).expect("runs");
                    assert_distances(&run["sssp_hash8"], &sssp.distances, &context);
                    total += bfs.stats.paging();
                    total += sssp.stats.paging();
                }
                let components = prepared.connected_components().expect("runs");
                let labels = Value::from(digest_labels(&components.labels));
                assert_eq!(labels, graph.json["components"]["sha256_min_label"], "{context}");
                total += components.stats.paging();
                let ranks = expected::ranks_of(&page_ranks, &graph, view);
                if !ranks.is_null() {
                    let options = PageRankOptions { tolerance: 1e-9, ..PageRankOptions::default() };
                    let options = PageRankOptions { max_iterations: 200, ..options };
                    let found = prepared.page_rank(&options).expect("runs");
                    assert!(found.converged, "{context}");
                    assert_ranks(ranks, &found.ranks, 1e-8, &context);
                    // The CPU device gives the same bits.
                    let on_the_cpu = cpu_ranks.get_or_insert_with(|| {
                        let engine = Engine::new(EngineConfig::default()).expect("valid");
                        let workload = Workload { page_rank: true, ..Workload::NONE };
                        let mut graph = engine.prepare(csr.clone(), workload).expect("fits");
                        graph.page_rank(&options).expect("runs").ranks
                    });
                    assert_eq!(*on_the_cpu, found.ranks, "{context}");
                    total += found.stats.paging();
                }

                let Some(file_csr) = &file_csr else { continue };
                let workload = Workload { sssp: true, parents: true, ..Workload::default() };
                let config = match config.gpu_mem {
                    Some(_) => with_least_budget(config.clone(), file_csr, workload),
                    None => config,
                };
                let engine = Engine::new(config).expect("a GPU");
                let mut prepared = engine.prepare(file_csr.clone(), workload).expect("the budget is enough");
                for (source, run) in graph.runs(view) {
                    let options = SsspOptions { parents: true, ..SsspOptions::default() };
                    let answer = prepared.sssp(source, &options).expect("runs");
                    assert_distances(&run["sssp_file"], &answer.distances, &context);
                    let (limit, parents) = (verify::SsspLimit::default(), answer.parents.as_deref());
                    verify::sssp(file_csr, source, limit, &answer.distances, parents).expect("certified");
                    total += answer.stats.paging();
                }
            }
        }
    }
    println!("{total:?}");
    assert!(total.evictions > 0 && total.coalesced > 0 && total.hits > 0);
}

#[test]
#[ignore = "needs a CUDA device"]
fn random_graphs_come_out_as_the_reference_says() {
    let _engine = any_engine();
    let mut runner = TestRunner::new_with_rng(
        Config { cases: 40, failure_persistence: None, ..Config::default() },
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    runner
        .run(&common::random_graph(), |csr| {
            let source = csr.max_degree_vertex().expect("at least one vertex");
            for config in settings(&csr, Workload::ALL) {
                let engine = Engine::new(config).expect("a GPU");
                let mut graph = engine.prepare(csr.clone(), Workload::ALL).expect("the budget is enough");
                let bfs = graph.bfs(source, &BfsOptions::default()).expect("runs");
                prop_assert_eq!(bfs.levels, reference::bfs(&csr, source));
                let sssp = graph
                    .sssp(source, &SsspOptions { parents: true, ..SsspOptions::default() })
                    .expect("runs");
                prop_assert_eq!(&sssp.distances, &reference::sssp(&csr, source));
                let limit = verify::SsspLimit::default();
                verify::sssp(&csr, source, limit, &sssp.distances, sssp.parents.as_deref())
                    .expect("certified");
                let components = graph.connected_components().expect("runs");
                prop_assert_eq!(components.labels, reference::connected_components(&csr));
                let sources: Vec<u32> = (0..csr.num_vertices().min(70) as u32).collect();
                let batch = graph.bfs_batch(&sources, None).expect("runs");
                for (i, &source) in sources.iter().enumerate() {
                    prop_assert_eq!(batch.levels(i), reference::bfs(&csr, source));
                }
            }
            Ok(())
        })
        .expect("all agree");
}

#[test]
#[ignore = "needs a CUDA device"]
fn orders_and_directions_give_one_answer_under_every_access() {
    let _engine = any_engine();
    let kron = "gap-kron:14".parse::<NamedGraph>().expect("a name").generated().expect("generated");
    let natural = kron.generate(GapWeights::None, &()).expect("8 MB");
    let directed: Vec<(u32, u32)> = (0..natural.num_vertices() as u32)
        .flat_map(|u| {
            natural.neighbors(u).iter().map(move |&v| (u, v)).filter(|&(u, v)| (u + v) % 3 != 0 || u < v)
        })
        .collect();
    let directed = csr_of(natural.num_vertices() as u32, &directed, |_| Weights::Unit);
    let directed = directed.with_reverse(2).expect("fits");
    let workload = Workload { bfs: true, connected_components: true, parents: true, ..Workload::default() };
    for natural in [natural, directed] {
        let sources = [natural.max_degree_vertex().expect("vertices"), 1, 4711];
        let expected = sources.map(|source| reference::bfs(&natural, source));
        let labels = reference::connected_components(&natural);
        for order in [Order::Natural, Order::Degree] {
            let csr = natural.clone().in_order(order).expect("fits");
            for config in settings(&csr, workload) {
                for &directions in Directions::ALL {
                    let mut config = EngineConfig { directions, ..config.clone() };
                    if config.gpu_mem.is_some() {
                        let least = with_least_budget(config.clone(), &csr, workload).gpu_mem;
                        config.gpu_mem = config.gpu_mem.max(least);
                    }
                    let context = format!("{order:?} {config:?}");
                    let engine = Engine::new(config).expect("a GPU");
                    let mut graph = engine.prepare(csr.clone(), workload).expect("the budget is enough");
                    for (source, levels) in sources.iter().zip(&expected) {
                        let answer = graph.bfs(*source, &BfsOptions::default()).expect("runs");
                        assert_eq!(answer.levels, *levels, "{context} from {source}");
                        let options = BfsOptions { parents: true, ..BfsOptions::default() };
                        let answer = graph.bfs(*source, &options).expect("runs");
                        let (limit, parents) = (verify::BfsLimit::default(), answer.parents.as_deref());
                        verify::bfs(&csr, *source, limit, &answer.levels, parents).expect("certified");
                    }
                    assert_eq!(graph.connected_components().expect("runs").labels, labels, "{context}");
                }
            }
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn a_vertex_that_waits_alone_in_its_page_reads_one_line_of_its_row() {
    let workload = Workload { bfs: true, ..Workload::default() };
    for num_waiters in [1, 32] {
        let waiters: Vec<u32> = (1..=num_waiters).map(|page| 2 + page * lined::ROWS_OF_A_PAGE).collect();
        let csr = lined::hub_with(&waiters);
        for (lines, unit) in [(Lines::Auto, lined::LINE), (Lines::Never, lined::PAGE)] {
            let directions = Directions::Pull;
            let config = EngineConfig {
                directions,
                lines,
                ..gpu(Access::Paged, Variant::Balanced, Policy::PinnedShare)
            };
            let engine = Engine::new(config).expect("a GPU");
            let mut graph = engine.prepare(csr.clone(), workload).expect("fits");
            let answer = graph.bfs(lined::SOURCE_OF_THE_HUB, &BfsOptions::default()).expect("runs");
            assert_eq!(answer.levels, reference::bfs(&csr, lined::SOURCE_OF_THE_HUB), "{lines}");
            let bytes = answer.stats.paging().bytes_in;
            assert_eq!(bytes, u64::from(1 + num_waiters) * unit + lined::HEADS_OF_THE_HUB, "{lines}");
        }
    }
}

/// A graph whose pages are many more than the least frames: 64 K vertices of degree 16 at random, 1024 pages.
fn many_pages() -> Csr {
    let mut state = 1_u64;
    let edges: Vec<(u32, u32)> = (0..1 << 20)
        .map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (i >> 4, (state >> 48) as u32)
        })
        .collect();
    csr_of(1 << 16, &edges, |_| Weights::Hash)
}

#[test]
#[ignore = "needs a CUDA device"]
fn smallest_budget_gives_the_same_answer_fifty_times() {
    let csr = many_pages();
    let expected = reference::bfs(&csr, 0);
    for &variant in Variant::ALL {
        for &lines in Lines::ALL {
            let workload = Workload { bfs: true, ..Workload::default() };
            let config = EngineConfig { lines, ..gpu(Access::Paged, variant, Policy::Clock) };
            let engine = Engine::new(with_least_budget(config, &csr, workload)).expect("a GPU");
            let mut graph = engine.prepare(csr.clone(), workload).expect("the least");
            for repetition in 0..50 {
                let answer = graph.bfs(0, &BfsOptions::default()).expect("runs");
                assert!(answer.levels == expected, "{variant} {lines} repetition {repetition}");
                assert!(lines == Lines::Auto || answer.stats.paging().evictions > 500);
            }
        }
    }
}

fn through_queues(transport: TransportConfig) -> EngineConfig {
    EngineConfig { transport, ..gpu(Access::Paged, Variant::Balanced, Policy::Fifo) }
}

#[test]
#[ignore = "needs a CUDA device"]
fn every_expected_graph_comes_out_right_through_queues() {
    let _engine = any_engine();
    let rnic_model = Some("latency=23us,bandwidth=6.5GB/s".parse().expect("valid"));
    let default = TransportConfig::default();
    let queues = |kind, queue_pairs, queue_depth, fault_batch, rnics| TransportConfig {
        kind,
        queue_pairs,
        queue_depth,
        fault_batch,
        rnics,
        ..default.clone()
    };
    let mut transports = Vec::new();
    for kind in [TransportKind::Device, TransportKind::Host] {
        transports.push(queues(kind, 84, 64, 8, 2));
        transports.push(queues(kind, 1, 1, 1, 1));
        transports.push(TransportConfig { rnic_model, ..queues(kind, 3, 4, 2, 4) });
    }
    for graph in expected::graphs() {
        for view in VIEWS {
            let csr = graph.load(view, WeightRule::Hash);
            for transport in &transports {
                let config = with_least_budget(through_queues(transport.clone()), &csr, Workload::ALL);
                let context = format!("{} {view} {transport:?}", graph.name);
                let engine = Engine::new(config).expect("a GPU");
                let mut prepared = engine.prepare(csr.clone(), Workload::ALL).expect("the budget is enough");
                let mut total = PagingStats::default();
                for (source, run) in graph.runs(view) {
                    let bfs = prepared.bfs(source, &BfsOptions::default());
                    let bfs = bfs.unwrap_or_else(|e| panic!("{context}: {e}"));
                    assert_eq!(Value::from(digest_levels(&bfs.levels)), run["bfs"]["sha256"], "{context}");
                    let sssp = prepared.sssp(source, &SsspOptions::default()).expect("runs");
                    assert_distances(&run["sssp_hash8"], &sssp.distances, &context);
                    total += bfs.stats.paging();
                    total += sssp.stats.paging();
                }
                let components = prepared.connected_components().expect("runs");
                let labels = Value::from(digest_labels(&components.labels));
                assert_eq!(labels, graph.json["components"]["sha256_min_label"], "{context}");
                total += components.stats.paging();
                let nics = prepared.take_nic_stats();
                assert_eq!(nics.iter().map(|nic| nic.requests).sum::<u64>(), total.faults, "{context}");
                assert_eq!(nics.iter().map(|nic| nic.bytes).sum::<u64>(), total.bytes_in, "{context}");
            }
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn smallest_budget_gives_the_same_answer_through_queues_twenty_times() {
    let csr = many_pages();
    let expected = reference::bfs(&csr, 0);
    let workload = Workload { bfs: true, ..Workload::default() };
    for kind in [TransportKind::Device, TransportKind::Host] {
        for (queue_pairs, queue_depth) in [(84, 64), (2, 2)] {
            let transport =
                TransportConfig { kind, queue_pairs, queue_depth, fault_batch: 2, ..Default::default() };
            let config = with_least_budget(through_queues(transport), &csr, workload);
            let engine = Engine::new(config).expect("a GPU");
            let mut graph = engine.prepare(csr.clone(), workload).expect("the least");
            for repetition in 0..20 {
                let answer = graph.bfs(0, &BfsOptions::default()).expect("runs");
                assert!(answer.levels == expected, "{kind} repetition {repetition}");
                assert!(answer.stats.paging().evictions > 500);
            }
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn nics_that_fail_or_vanish_beside_a_gpu_are_errors_or_are_replaced() {
    let csr = many_pages();
    let expected = reference::bfs(&csr, 0);
    let workload = Workload { bfs: true, ..Workload::default() };
    let prepare = |faults| {
        let transport = TransportConfig { kind: TransportKind::Host, faults, ..Default::default() };
        let config = EngineConfig { stuck_after: Duration::from_secs(3), ..through_queues(transport) };
        Engine::new(config).expect("a GPU").prepare(csr.clone(), workload).expect("fits")
    };
    let mut graph = prepare(FaultInjection { vanish: vec![(1, 100)], ..Default::default() });
    assert!(graph.bfs(0, &BfsOptions::default()).expect("one is left").levels == expected);
    let nics = graph.take_nic_stats();
    assert!(nics[1].lost && nics[1].flushed > 0 && nics[0].requests > 900, "{nics:?}");
    for (faults, syndrome) in [
        (FaultInjection { wrong_local_key: true, ..Default::default() }, Syndrome::LOCAL_PROTECTION),
        (FaultInjection { wrong_remote_key: true, ..Default::default() }, Syndrome::REMOTE_ACCESS),
        (FaultInjection { short_by: 1, ..Default::default() }, Syndrome::REMOTE_ACCESS),
    ] {
        let error = prepare(faults).bfs(0, &BfsOptions::default()).expect_err("a NIC refuses");
        assert!(
            matches!(error, Error::Paging(PagingError::FailedRequest { syndrome: found, .. }) if found == syndrome),
            "{error}"
        );
    }
    let mut graph = prepare(FaultInjection { silent: Some(50), ..Default::default() });
    let error = graph.bfs(0, &BfsOptions::default()).expect_err("one request is never answered");
    assert!(matches!(error, Error::Paging(PagingError::StuckRequest { .. })), "{error}");
    let mut graph = prepare(FaultInjection { vanish: vec![(0, 50), (1, 100)], ..Default::default() });
    let error = graph.bfs(0, &BfsOptions::default()).expect_err("no NIC is left");
    assert!(matches!(error, Error::Paging(PagingError::NicsLost { num_nics: 2, .. })), "{error}");
}

#[test]
#[ignore = "needs a CUDA device"]
fn lanes_that_want_one_page_share_its_fetch() {
    // Rows of two edges: the 32 lanes of a naive warp read 256 bytes of one page.
    let edges: Vec<(u32, u32)> = (0..1 << 16).map(|i| (i >> 1, i)).collect();
    let csr = csr_of(1 << 16, &edges, |_| Weights::Unit);
    let engine = Engine::new(gpu(Access::Paged, Variant::Naive, Policy::Fifo)).expect("a GPU");
    let workload = Workload { connected_components: true, ..Workload::default() };
    let mut graph = engine.prepare(csr, workload).expect("fits");
    let paging = graph.connected_components().expect("runs").stats.paging();
    assert_eq!(paging.faults, 64);
    assert_eq!(paging.bytes_in, 4 << 16);
    // 1024 warps of 32 lanes with edges: 31 lanes of each share, and most warps wait for or hit what others fetched.
    assert!(paging.coalesced >= 1024 * 31, "{paging:?}");
}

#[test]
#[ignore = "needs a CUDA device"]
fn run_on_the_gpu_can_be_cancelled_from_another_thread() {
    // A path of 4 million vertices takes seconds of levels.
    let n = 1 << 22_u32;
    let edges: Vec<(u32, u32)> = (0..n - 1).map(|u| (u, u + 1)).collect();
    let csr = csr_of(n, &edges, |_| Weights::Unit);
    let engine = Engine::new(gpu(Access::Paged, Variant::Balanced, Policy::Fifo)).expect("a GPU");
    let mut graph = engine.prepare(csr, Workload { bfs: true, ..Workload::default() }).expect("fits");
    let handle = engine.cancel_handle();
    let started = Instant::now();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        handle.cancel();
    });
    let outcome = graph.bfs(0, &BfsOptions::default());
    canceller.join().expect("no panic");
    assert!(matches!(outcome, Err(Error::Interrupted)), "{outcome:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
    let answer = graph.bfs(n - 10, &BfsOptions::default()).expect("runs after a cancelled run");
    assert_eq!(answer.reached, 10);
}

#[test]
#[ignore = "needs a CUDA device"]
fn column_index_out_of_range_stops_the_run() {
    // Vertex 2 is never reached, so the search has to look at all edges it comes to.
    let damaged =
        Csr::with_unread_columns(vec![0, 1, 2, 2], vec![1, 7], Weights::Unit, false).expect("unread");
    let engine = Engine::new(gpu(Access::Paged, Variant::Balanced, Policy::Fifo)).expect("a GPU");
    let mut graph = engine.prepare(damaged, Workload { bfs: true, ..Workload::default() }).expect("fits");
    let error = graph.bfs(0, &BfsOptions::default()).expect_err("vertex 7 of 3");
    let expected = PagingError::ColumnOutOfRange { edge: 1, column: 7, num_vertices: 3 };
    assert!(matches!(&error, Error::Paging(e) if *e == expected), "{error}");
}

#[test]
#[ignore = "needs a CUDA device"]
fn file_that_is_mapped_runs_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("graph.gvg");
    let csr = many_pages();
    let options = gpuvm_loaders::LoadOptions::default();
    let loaded = gpuvm_loaders::LoadedGraph { csr: csr.clone(), summary: Default::default(), ids: None };
    gpuvm_loaders::write_gvg(&path, &loaded, &()).expect("room for 5 MB");
    let mapped = gpuvm_loaders::load(&path, &options, &()).expect("a valid file").csr;
    for access in [Access::Paged, Access::ZeroCopy] {
        let engine = Engine::new(gpu(access, Variant::Balanced, Policy::Fifo)).expect("a GPU");
        let workload = Workload { bfs: true, ..Workload::default() };
        let mut graph = engine.prepare(mapped.clone(), workload).expect("fits");
        assert!(
            graph.bfs(0, &BfsOptions::default()).expect("runs").levels == reference::bfs(&csr, 0),
            "{access}"
        );
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn driver_counts_no_more_memory_in_use_than_the_budget() {
    // What the driver may add to what is asked for. Its memory pool takes 32 MiB at a time from the device and keeps a
    // piece until nothing in it is in use; one such piece for small arrays and one for the ends of large ones.
    const POOL_PIECES: u64 = 2 * (32 << 20);
    // The unit in which the driver hands out device memory: no array is rounded up by more.
    const GRANULARITY: u64 = 2 << 20;

    // 1 M vertices of degree 64: 256 MiB of columns for a budget of 160 MiB, so that copying them by mistake would show.
    let n = 1_u32 << 20;
    let degree = 64;
    let columns: Vec<u32> = (0..n * degree).map(|e| e.wrapping_mul(2_654_435_761) >> 12).collect();
    let offsets: Vec<u64> = (0..=u64::from(n)).map(|u| u * u64::from(degree)).collect();
    let csr = Csr::new(offsets, columns, Weights::Hash, false).expect("valid");
    let budget = 160 << 20;
    // By whole pages, so that some have to leave.
    let config = EngineConfig {
        gpu_mem: Some(budget),
        lines: Lines::Never,
        ..gpu(Access::Paged, Variant::Balanced, Policy::Fifo)
    };
    let usage = |engine: &Engine| engine.memory_usage().expect("the driver answers").expect("a GPU");
    let run = |engine: &Engine, look: &mut dyn FnMut(&str, u64, usize)| {
        let mut graph = engine.prepare(csr.clone(), Workload::ALL).expect("the budget is enough");
        let (total, items) = (graph.plan().total_bytes, graph.plan().items.len());
        look("prepared", total, items);
        let bfs = graph.bfs(0, &BfsOptions { parents: true, ..BfsOptions::default() }).expect("runs");
        assert!(bfs.stats.paging().evictions > 0);
        let options = SsspOptions { parents: true, ..SsspOptions::default() };
        graph.sssp(0, &options).expect("runs");
        graph.connected_components().expect("runs");
        look("run", total, items);
    };

    // Context, modules and local memory of the kernels are the driver's own and stay: a first engine, which is kept, has
    // it take them before anything is counted. Assumed: nobody else uses the GPU meanwhile, since the driver's free memory
    // is that of all processes and the pool is that of this one (`--test-threads=1`), and the pool's release threshold is
    // its default, 0: what is free goes back to the device when the host waits, as `memory_usage` does.
    let first = Engine::new(config.clone()).expect("a GPU");
    run(&first, &mut |_, _, _| {});
    let engine = Engine::new(config).expect("a GPU");
    let before: MemoryUsage = usage(&engine);
    run(&engine, &mut |when, total, items| {
        let now = usage(&engine);
        let taken = before.free_bytes.saturating_sub(now.free_bytes);
        let in_pool = now.pool_used_bytes.saturating_sub(before.pool_used_bytes);
        println!("{when}: plan {total}, pool {in_pool}, device {taken} of {budget}; {now:?}");
        assert!(total <= budget);
        assert!(in_pool <= total + items as u64 * GRANULARITY, "{when}: {in_pool} of {total}");
        assert!(taken <= budget + POOL_PIECES, "{when}: {taken} of {budget}");
    });
    let after = usage(&engine);
    assert!(after.pool_used_bytes <= before.pool_used_bytes, "a graph that is dropped leaves nothing");
}

#[test]
#[ignore = "needs a CUDA device"]
fn first_run_is_not_longer_by_the_loading_of_its_kernel() {
    // A type of weights that few graphs have: shows something only where no other test has loaded its module before.
    let edges: Vec<(u32, u32)> = (0..100).map(|i| (i, i + 1)).collect();
    let csr = csr_of(101, &edges, |e| Weights::F64(vec![1.5; e.len()].into()));
    let engine = Engine::new(gpu(Access::Paged, Variant::Balanced, Policy::Fifo)).expect("a GPU");
    let workload = Workload { sssp: true, ..Workload::default() };
    let mut graph = engine.prepare(csr, workload).expect("fits");
    let mut seconds = || graph.sssp(0, &SsspOptions::default()).expect("runs").stats.seconds;
    let (first, second) = (seconds(), seconds());
    // A module takes the driver 0.1 s or more.
    assert!(first < second + 0.05, "first {first} s, second {second} s");
}

#[test]
#[ignore = "needs a CUDA device"]
fn gpu_has_facts_and_its_warps_pull_pages_at_most_of_the_rate_of_its_link() {
    let facts = GpuFacts::of(0).expect("a GPU");
    println!("{facts:?}");
    assert!(facts.compute_capability.major >= 7 && facts.cuda_version.major >= 12);
    assert!(facts.cooperative_launch && facts.multiprocessors > 0);
    assert!(0 < facts.memory.free_bytes && facts.memory.free_bytes <= facts.memory.total_bytes);
    for page_size in [4 << 10, 8 << 10, 64 << 10] {
        let page_size = PageSize::new(page_size).expect("allowed");
        let config = EngineConfig { page_size, ..gpu(Access::Paged, Variant::Balanced, Policy::Fifo) };
        let engine = Engine::new(config).expect("a GPU");
        let link = engine.link_rate().expect("the link works").expect("a GPU");
        let pull = engine.pull_rate().expect("the link works");
        println!("{page_size:?}: copy engine {:.1} GB/s, warps {:.1} GB/s", link / 1e9, pull / 1e9);
        // Measured on an H200: 55.3 and 51.3 GB/s.
        assert!(link > 1e9 && pull > 0.5 * link && pull < 1.2 * link);
    }
}

/// The kernel in the comment of `gpuvm.cuh`, and one that reads past the end.
const OWN_KERNELS: &str = r#"
    #include "gpuvm.cuh"
    extern "C" __global__ void sum(gpuvm::PagedSlice<u64> values, u64 times, u64* total) {
      gpuvm::CountedWarp warp(values);
      u64 mine = 0;
      for (u64 i = warp.warp; i < times * values.num_pages(); i += warp.num_warps) {
        const u64 page = i % values.num_pages();
        const gpuvm::PageElements<u64> elements = values.acquire(warp, page);
        if (!elements) return;
        for (u64 i = warp.lane; i < elements.len; i += gpuvm::kLanes) mine += elements[i];
        values.release(warp, page);
      }
      atomicAdd(total, mine);
    }
    extern "C" __global__ void read_past_the_end(gpuvm::PagedSlice<u64> values) {
      gpuvm::CountedWarp warp(values);
      values.for_each(warp, 0, values.len() + 1, [](u64, u64) {});
    }"#;

#[test]
#[ignore = "needs a CUDA device"]
fn embedders_own_kernel_reads_an_array_larger_than_its_frames() {
    let engine = any_engine();
    let mut sum = engine.compile_kernel(OWN_KERNELS, "sum").expect("NVRTC, and a kernel that compiles");
    // 100 MB less a piece of the last page.
    let len = 12_500_000 - 123;
    let element = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let expected = (0..len).map(element).fold(0_u64, u64::wrapping_add);
    for &policy in Policy::ALL {
        for (page_bytes, frames) in
            [(4096, 16), (4096, 2000), (4096, 16_000), (8192, 500), (65536, 16), (65536, 1 << 20)]
        {
            let options = PagedArrayOptions {
                page_size: PageSize::new(page_bytes).expect("allowed"),
                frames: Frames::Number(frames),
                policy,
            };
            let elements: Vec<u64> = (0..len).map(element).collect();
            let mut array = PagedArray::new(&engine, elements, options).expect("fits");
            // The default grid of a GPU with 132 multiprocessors may have to evict from 8448 frames.
            if frames == 16_000 {
                assert_eq!(array.num_pinned_frames() > 0, policy == Policy::PinnedShare);
            }
            let mut total = engine.zeros::<u64>(1).expect("8 bytes");
            let context = format!("{policy} {page_bytes} {frames}");
            for cold in [true, false] {
                total.fill(0).expect("a working GPU");
                // SAFETY: the kernel takes these arguments and writes its total.
                let stats = unsafe { sum.launch(Grid::default(), (&mut array, 3_u64, &mut total)) };
                let stats = stats.unwrap_or_else(|e| panic!("{context}: {e}"));
                assert_eq!(total.to_vec().expect("a working GPU"), [expected.wrapping_mul(3)], "{context}");
                let (paging, num_pages) = (stats.paging, array.num_pages());
                assert_eq!(paging.hits + paging.faults + paging.coalesced, 3 * num_pages, "{context}");
                // The two rounds after the first find what frames keep.
                assert!(
                    paging.hits + paging.coalesced >= 2 * u64::from(array.num_pinned_frames()),
                    "{context}"
                );
                if array.evicts() {
                    assert!(
                        paging.faults > num_pages && paging.evictions > num_pages / 2,
                        "{context} {paging:?}"
                    );
                } else {
                    let faults = if cold { num_pages } else { 0 };
                    assert_eq!((paging.faults, paging.evictions), (faults, 0), "{context}");
                    assert_eq!(paging.bytes_in, if cold { len * 8 } else { 0 }, "{context}");
                }
            }
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn embedders_kernel_that_goes_wrong_is_an_error_and_the_next_launch_runs() {
    let engine = any_engine();
    let options = PagedArrayOptions { frames: Frames::Number(16), ..PagedArrayOptions::default() };
    let mut array = PagedArray::new(&engine, vec![1_u64; 100_000], options).expect("fits");
    let mut wrong = engine.compile_kernel(OWN_KERNELS, "read_past_the_end").expect("compiles");
    // SAFETY: the kernel takes this argument and writes nothing.
    let error = unsafe { wrong.launch(Grid::default(), (&mut array,)) }.expect_err("100,001 elements");
    let expected = PagingError::ElementOutOfRange { index: 100_000, len: 100_000 };
    assert!(matches!(&error, Error::Paging(e) if *e == expected), "{error}");

    let mut sum = engine.compile_kernel(OWN_KERNELS, "sum").expect("compiles");
    let mut total = engine.zeros::<u64>(1).expect("8 bytes");
    let too_many = Grid { num_blocks: Some(2), ..Grid::default() };
    // SAFETY: the kernel takes these arguments and writes its total.
    let refused = unsafe { sum.launch(too_many, (&mut array, 1_u64, &mut total)) }.expect_err("16 frames");
    assert!(matches!(refused, Error::TooManyWarps { num_warps: 16, num_frames: 16, most: 8 }), "{refused}");
    engine.cancel_handle().cancel();
    // SAFETY: as above.
    let stopped = unsafe { sum.launch(Grid::default(), (&mut array, 1_u64, &mut total)) };
    // A kernel whose warps never wait does not ask whether it was stopped; the launch says so all the same.
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
    total.fill(0).expect("a working GPU");
    // SAFETY: as above.
    unsafe { sum.launch(Grid::default(), (&mut array, 1_u64, &mut total)) }.expect("runs");
    assert_eq!(total.to_vec().expect("a working GPU"), [100_000]);

    let refused = engine.compile_kernel(OWN_KERNELS, "product").expect_err("no such kernel");
    assert!(matches!(&refused, Error::NoSuchKernel { kernel, .. } if kernel == "product"), "{refused}");
    let refused = engine.compile_kernel("__global__ void k() { undeclared(); }", "k").expect_err("not C++");
    assert!(matches!(&refused, Error::Compile { log, .. } if log.contains("k.cu(1): error")), "{refused}");
}
