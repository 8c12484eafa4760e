//! Runs that go wrong: each ends in an error that says what happened, and the next run is as good as new.

use std::time::{Duration, Instant};

use gpuvm_kernels::layout::{PAGE_FAULTING, PAGE_REFERENCE_SHIFT, PAGE_RESIDENT, PAGE_STATE_SHIFT};

use crate::graph::{Csr, Weights};
use crate::{
    Access, BfsOptions, Engine, EngineConfig, Error, PageSize, PagingError, Policy, PreparedGraph,
    SsspOptions, UNREACHED, Workload,
};

/// A path of 8193 vertices: 32 KiB of columns, eight pages of 4 KiB.
fn path() -> Csr {
    let n = 8193_u32;
    let offsets: Vec<u64> = (0..=u64::from(n)).map(|u| u.min(u64::from(n) - 1)).collect();
    Csr::new(offsets, (1..n).collect::<Vec<_>>(), Weights::Unit, false).expect("valid")
}

const BFS: Workload = Workload { bfs: true, ..Workload::NONE };

/// The path on one thread with two frames.
fn prepared(policy: Policy) -> (Engine, PreparedGraph) {
    let mut config = EngineConfig {
        access: Some(Access::Paged),
        page_size: PageSize::new(4096).expect("allowed"),
        threads: Some(1),
        stuck_after: Duration::from_millis(50),
        policy,
        ..EngineConfig::default()
    };
    let least = Engine::new(config.clone()).expect("valid").plan(&path(), BFS).expect("fits").least_bytes;
    config.gpu_mem = Some(least + 4096 + 8);
    let engine = Engine::new(config).expect("valid");
    let graph = engine.prepare(path(), BFS).expect("two frames fit");
    assert_eq!(graph.plan().num_frames, 2);
    (engine, graph)
}

fn assert_runs(graph: &mut PreparedGraph) {
    let answer = graph.bfs(0, &BfsOptions::default()).expect("runs");
    assert_eq!((answer.reached, answer.max_level), (8193, 8192));
    let paging = answer.stats.paging();
    assert_eq!((paging.faults, paging.evictions), (8, 6));
}

#[test]
fn page_that_never_arrives_is_an_error_that_names_it() {
    for &policy in Policy::ALL {
        let (_engine, mut graph) = prepared(policy);
        let entries = graph.page_table_mut().expect("paged").entries();
        entries.write(3, &[PAGE_FAULTING << PAGE_STATE_SHIFT]).expect("memory");
        let started = Instant::now();
        let error = graph.bfs(0, &BfsOptions::default()).expect_err("nobody fetches page 3");
        assert!(
            matches!(error, Error::Paging(PagingError::StuckFault { page: 3, waited_ms: 50.. })),
            "{error}"
        );
        assert!(started.elapsed() < Duration::from_secs(10));
        assert_runs(&mut graph);
    }
}

#[test]
fn page_with_references_is_not_evicted() {
    for &policy in Policy::ALL {
        let (_engine, mut graph) = prepared(policy);
        assert_runs(&mut graph);
        // Pages 6 and 7 are resident now; with a reference on each, nothing may leave for page 0.
        let table = graph.page_table_mut().expect("paged").entries();
        let mut entries = table.to_vec().expect("memory");
        let resident = |entry: &&mut u64| **entry >> PAGE_STATE_SHIFT == PAGE_RESIDENT;
        assert_eq!(entries.iter_mut().filter(resident).map(|e| *e += 1 << PAGE_REFERENCE_SHIFT).count(), 2);
        table.write(0, &entries).expect("memory");
        let error = graph.bfs(0, &BfsOptions::default()).expect_err("no frame for page 0");
        assert!(matches!(error, Error::Paging(PagingError::NoFreeFrame { page: 0, .. })), "{error}");
        graph.evict_all().expect("memory");
        assert_runs(&mut graph);
    }
}

#[test]
fn finished_run_leaves_no_references() {
    let (_engine, mut graph) = prepared(Policy::Clock);
    assert_runs(&mut graph);
    for entry in graph.page_table_mut().expect("paged").entries().to_vec().expect("memory") {
        let references = entry >> PAGE_REFERENCE_SHIFT & 0xFF_FFFF;
        assert!(entry == 0 || (entry >> PAGE_STATE_SHIFT == PAGE_RESIDENT && references == 0), "{entry:#x}");
    }
}

#[test]
fn failure_of_one_graph_does_not_cut_short_the_run_of_another_on_the_same_engine() {
    let engine = Engine::new(EngineConfig { threads: Some(2), ..EngineConfig::default() }).expect("valid");
    let columns: Vec<u32> = (1..8193).map(|v| if v == 2 { 9000 } else { v }).collect();
    let damaged = Csr::with_unread_columns(path().row_offsets().clone(), columns, Weights::Unit, false);
    let mut damaged = engine.prepare(damaged.expect("unread"), BFS).expect("fits");
    let mut sound = engine.prepare(path(), BFS).expect("fits");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..1000 {
                let error = damaged.bfs(0, &BfsOptions::default()).expect_err("vertex 9000 of 8193");
                assert!(matches!(error, Error::Paging(PagingError::ColumnOutOfRange { column: 9000, .. })));
            }
        });
        for _ in 0..1000 {
            let answer = sound.bfs(8183, &BfsOptions::default()).expect("this graph is sound");
            assert_eq!((answer.reached, answer.max_level), (10, 9));
        }
    });
}

#[test]
fn cancelled_run_is_interrupted_and_the_next_one_runs() {
    let (engine, mut graph) = prepared(Policy::Fifo);
    engine.cancel_handle().cancel();
    assert!(matches!(graph.bfs(0, &BfsOptions::default()), Err(Error::Interrupted)));
    assert_runs(&mut graph);
}

#[test]
fn column_index_out_of_range_in_a_file_nobody_read_stops_the_run() {
    for access in &[Access::Paged, Access::ZeroCopy, Access::Resident] {
        let damaged =
            Csr::with_unread_columns(vec![0, 1, 2, 2], vec![1, 7], Weights::Unit, false).expect("unread");
        let config = EngineConfig { access: Some(*access), ..EngineConfig::default() };
        let engine = Engine::new(config).expect("valid");
        let mut graph = engine.prepare(damaged, BFS).expect("fits");
        let error = graph.bfs(0, &BfsOptions::default()).expect_err("vertex 7 of 3");
        let expected = PagingError::ColumnOutOfRange { edge: 1, column: 7, num_vertices: 3 };
        assert!(matches!(&error, Error::Paging(e) if *e == expected), "{error}");
    }
}

#[test]
fn sssp_refuses_weights_that_are_negative_or_no_numbers() {
    let engine = Engine::new(EngineConfig::default()).expect("valid");
    let sssp = Workload { sssp: true, ..Workload::default() };
    let csr = |weights: Vec<f32>| Csr::new(vec![0, 2, 2], vec![0, 1], Weights::F32(weights.into()), false);
    let refused = engine.prepare(csr(vec![1.0, -2.0]).expect("valid"), sssp).expect_err("negative");
    assert!(matches!(refused, Error::NegativeWeight { edge: 1, weight: -2.0 }));
    let refused = engine.prepare(csr(vec![f32::INFINITY, 1.0]).expect("valid"), sssp).expect_err("infinite");
    assert!(matches!(refused, Error::NonFiniteWeight { edge: 0, .. }));
}

#[test]
fn algorithm_that_was_not_prepared_is_refused() {
    let (_engine, mut graph) = prepared(Policy::Fifo);
    assert!(matches!(graph.sssp(0, &SsspOptions::default()), Err(Error::NotPrepared { missing: "SSSP" })));
    let parents = BfsOptions { parents: true, ..BfsOptions::default() };
    assert!(matches!(graph.bfs(0, &parents), Err(Error::NotPrepared { missing: "parents" })));
    assert!(matches!(graph.connected_components(), Err(Error::NotPrepared { .. })));
}

#[test]
fn source_and_target_out_of_range_are_refused() {
    let (_engine, mut graph) = prepared(Policy::Fifo);
    for source in [8193, u32::MAX] {
        let refused = graph.bfs(source, &BfsOptions::default()).expect_err("no such vertex");
        assert!(matches!(refused, Error::SourceOutOfRange { num_vertices: 8193, .. }));
    }
    let options = BfsOptions { target: Some(8193), ..BfsOptions::default() };
    assert!(matches!(graph.bfs(0, &options), Err(Error::TargetOutOfRange { target: 8193, .. })));
}

#[test]
fn vertex_without_outgoing_edges_reaches_itself() {
    let (_engine, mut graph) = prepared(Policy::Fifo);
    let answer = graph.bfs(8192, &BfsOptions::default()).expect("runs");
    assert_eq!((answer.reached, answer.max_level, answer.levels[0]), (1, 0, UNREACHED));
}
