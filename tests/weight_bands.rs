//! Shortest paths where edges are split by weight: whatever the weights, the budget and the warps, the answer is that of
//! the plain sequential reference.

mod common;

use common::{LANES, csr_of, paged};
use gpuvm_engine::graph::{Csr, VertexId, Weights};
use gpuvm_engine::{
    BfsOptions, Distances, Engine, EngineConfig, Policy, PreparedGraph, SsspOptions, Variant, Workload,
    reference, verify,
};
use proptest::prelude::*;

/// How weights are drawn from a random word.
const KINDS: u8 = 7;

fn weights_of(kind: u8, words: impl Iterator<Item = u32>) -> Weights {
    match kind {
        0 => Weights::Hash,
        1 => Weights::U8(words.map(|w| (w % 256) as u8).collect::<Vec<_>>().into()),
        2 => Weights::U16(words.map(|w| (w % 3000) as u16).collect::<Vec<_>>().into()),
        // Most weigh little, some very much.
        3 => Weights::U32(words.map(|w| if w % 8 == 0 { w } else { w % 100 }).collect::<Vec<_>>().into()),
        4 => Weights::F32(words.map(|w| (w % 512) as f32 * 0.25).collect::<Vec<_>>().into()),
        5 => Weights::F64(words.map(|w| f64::from(w % 100_000) * 1e-3).collect::<Vec<_>>().into()),
        // Few different weights, zero among them: edges of one band are all alike.
        _ => Weights::U8(words.map(|w| [0, 1, 1, 200][w as usize % 4]).collect::<Vec<_>>().into()),
    }
}

/// Clusters in a row, neighbours joined by a few edges, so that paths are long; with a hub whose row spans pages, loops,
/// edges that come twice, and vertices without edges.
fn clusters(num_clusters: u32, symmetric: bool, kind: u8, seed: u64) -> Csr {
    const SIZE: u32 = 60;
    let mut state = seed | 1;
    let mut next = move |bound: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as u32 % bound
    };
    let n = num_clusters * SIZE + 5;
    let mut edges = Vec::new();
    for cluster in 0..num_clusters {
        let begin = cluster * SIZE;
        for _ in 0..SIZE * 8 {
            edges.push((begin + next(SIZE), begin + next(SIZE)));
        }
        for _ in 0..3 {
            edges.push((begin + next(SIZE), (begin + SIZE + next(SIZE)) % n));
        }
    }
    for _ in 0..3000 {
        edges.push((1, next(SIZE * 2)));
    }
    if symmetric {
        edges.extend(edges.clone().into_iter().map(|(u, v)| (v, u)));
    }
    // The same weight in both directions, and different ones for edges that come twice.
    let half = if symmetric { edges.len() / 2 } else { edges.len() };
    let words: Vec<u32> = (0..half).map(|_| next(u32::MAX)).collect();
    let csr = csr_of(n, &edges, |order| weights_of(kind, order.iter().map(|&i| words[i as usize % half])));
    let (offsets, columns) = (csr.row_offsets().clone(), csr.column_indices().clone());
    Csr::new(offsets, columns, csr.weights().clone(), symmetric).expect("a valid graph")
}

/// `csr` prepared for all algorithms with frames for `percent` of its pages, or for so many more that its edges are
/// split: vertex state of a split counts in a graph so small. `None` where that leaves too few frames for the warps.
fn prepared(csr: &Csr, percent: u64, config: &EngineConfig) -> Option<PreparedGraph> {
    let plan = Engine::new(config.clone()).expect("valid").plan(csr, Workload::ALL).expect("no budget given");
    for percent in (percent..100).step_by(5) {
        let missing = (plan.num_pages * (100 - percent)).div_ceil(100);
        let gpu_mem = Some(plan.total_bytes - missing * (plan.page_size.bytes() + 8));
        let engine = Engine::new(EngineConfig { gpu_mem, ..config.clone() }).expect("valid settings");
        if engine.plan(csr, Workload::ALL).is_ok_and(|plan| plan.weight_bands.len() > 1) {
            return Some(engine.prepare(csr.clone(), Workload::ALL).expect("the budget is enough"));
        }
    }
    None
}

fn within(distances: &Distances, limit: f64) -> Vec<f64> {
    (0..distances.len() as VertexId)
        .map(|v| if distances.get(v) <= limit { distances.get(v) } else { f64::INFINITY })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn distances_are_the_references_and_parents_certify(
        num_clusters in 20_u32..40, symmetric in prop::bool::ANY, kind in 0..KINDS, seed in any::<u64>(),
        threads in 1_usize..5, percent in 25_u64..90, policy in 0..Policy::ALL.len(),
        delta in prop_oneof![Just(f64::INFINITY), Just(50.0)],
    ) {
        let csr = clusters(num_clusters, symmetric, kind, seed);
        let expected = reference::sssp(&csr, 0);
        for lanes in LANES {
            let config = paged(Variant::Balanced, Policy::ALL[policy], threads, lanes);
            let Some(mut graph) = prepared(&csr, percent, &config) else { continue };
            for delta in [None, Some(delta)] {
                let options = SsspOptions { parents: true, delta, ..SsspOptions::default() };
                let answer = graph.sssp(0, &options).expect("runs");
                assert_eq!(answer.distances, expected, "{config:?}");
                verify::sssp(&csr, 0, verify::SsspLimit::default(), &answer.distances, answer.parents.as_deref())
                    .expect("certified");
            }
        }
    }

    #[test]
    fn limits_and_targets_cut_off_what_is_farther(
        symmetric in prop::bool::ANY, kind in 0..KINDS, seed in any::<u64>(), share in 0_u32..100,
    ) {
        let csr = clusters(20, symmetric, kind, seed);
        let expected = reference::sssp(&csr, 0);
        let all = within(&expected, f64::INFINITY);
        let most = all.iter().copied().filter(|d| d.is_finite()).fold(0.0, f64::max);
        let limit = (most * f64::from(share) / 100.0).floor();
        let target = (share * 12) as VertexId;
        let config = paged(Variant::Balanced, Policy::PinnedShare, 3, LANES[0]);
        let Some(mut graph) = prepared(&csr, 60, &config) else { return Ok(()) };
        let limited = SsspOptions { distance_limit: Some(limit), ..SsspOptions::default() };
        let answer = graph.sssp(0, &limited).expect("runs");
        assert_eq!(within(&answer.distances, f64::INFINITY), within(&expected, limit));
        let aimed = SsspOptions { target: Some(target), ..SsspOptions::default() };
        let answer = graph.sssp(0, &aimed).expect("runs");
        assert_eq!(within(&answer.distances, f64::INFINITY), within(&expected, all[target as usize]));
    }
}

#[test]
fn other_algorithms_of_a_graph_whose_edges_are_split_see_every_edge() {
    let csr = clusters(20, true, 1, 4711);
    let config = paged(Variant::Balanced, Policy::PinnedShare, 2, LANES[0]);
    let mut graph = prepared(&csr, 50, &config).expect("a budget at which edges are split");
    for _ in 0..2 {
        assert_eq!(graph.sssp(0, &SsspOptions::default()).expect("runs").distances, reference::sssp(&csr, 0));
        assert_eq!(graph.bfs(0, &BfsOptions::default()).expect("runs").levels, reference::bfs(&csr, 0));
        let labels = graph.connected_components().expect("runs").labels;
        assert_eq!(labels, reference::connected_components(&csr));
    }
}

#[test]
fn edges_are_not_split_where_it_does_not_pay() {
    let sssp = Workload { sssp: true, ..Workload::default() };
    let bands = |csr: &Csr, variant| {
        let config = paged(variant, Policy::PinnedShare, 2, LANES[0]);
        let all = Engine::new(config.clone()).expect("valid").plan(csr, sssp).expect("no budget given");
        let gpu_mem = Some(all.total_bytes - all.num_pages / 3 * (4096 + 8));
        let engine = Engine::new(EngineConfig { gpu_mem, ..config }).expect("valid");
        let plan = engine.plan(csr, sssp).expect("fits");
        assert!(plan.evicts() && all.weight_bands.is_empty(), "only what is evicted is split");
        plan.weight_bands
    };
    let csr = clusters(20, true, 1, 1);
    assert_eq!(bands(&csr, Variant::Balanced).len(), 3);
    assert_eq!(bands(&csr, Variant::Naive), []);
    assert_eq!(bands(&csr.with_weights(Weights::Unit).expect("no weights"), Variant::Balanced), []);
    // A ring: two edges a vertex.
    let n = 6000;
    let edges: Vec<(u32, u32)> = (0..n).flat_map(|u| [(u, (u + 1) % n), ((u + 1) % n, u)]).collect();
    assert_eq!(bands(&csr_of(n, &edges, |_| Weights::Hash), Variant::Balanced), []);
}
