//! Pages that come through queue pairs: graphs with known answers on the CPU device, under every number of queues, depths,
//! batches and NICs, with completions that are late, out of order or failures, and NICs that vanish.

mod common;
#[path = "common/expected.rs"]
mod expected;

use std::time::Duration;

use common::{paged, with_least_budget};
use expected::{Expected, assert_distances, digest_labels, digest_levels};
use gpuvm_engine::graph::Csr;
use gpuvm_engine::{
    BfsOptions, Engine, EngineConfig, NicStats, Policy, SsspOptions, TransportConfig, TransportKind, Variant,
    WarpLanes, Workload,
};
use gpuvm_loaders::WeightRule;
use serde_json::Value;

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
        assert!(nic.batches <= nic.requests && nic.doorbells <= nic.requests, "{context}: {nic:?}");
        assert_eq!(nic.batches > 0, nic.requests > 0, "{context}: {nic:?}");
        assert!(nic.requests == 0 || nic.mean_queue_depth >= 1.0, "{context}: {nic:?}");
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
