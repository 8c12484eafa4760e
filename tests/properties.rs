//! Random graphs: every algorithm under every setting gives the answer of the plain sequential reference, and its
//! certificate holds.

mod common;

use common::{LANES, paged, random_graph, symmetrized, with_least_budget};
use gpuvm_engine::graph::{Csr, Weights};
use gpuvm_engine::{
    BfsOptions, Engine, EngineConfig, PageRankOptions, Policy, PreparedGraph, SsspOptions, Variant, Workload,
    reference, verify,
};
use proptest::prelude::*;

/// Runs `check` under both variants, policies and warps, with plenty of frames and with the fewest.
fn under_every_setting(csr: &Csr, threads: usize, mut check: impl FnMut(&mut PreparedGraph, &EngineConfig)) {
    for &variant in Variant::ALL {
        for &policy in Policy::ALL {
            for lanes in LANES {
                let plenty = paged(variant, policy, threads, lanes);
                let least = with_least_budget(plenty.clone(), csr, Workload::ALL);
                for config in [plenty, least] {
                    let engine = Engine::new(config.clone()).expect("valid settings");
                    let mut graph = engine.prepare(csr.clone(), Workload::ALL).expect("the budget is enough");
                    check(&mut graph, &config);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bfs_gives_the_reference_levels_and_parents_that_certify(csr in random_graph(), threads in 1_usize..9) {
        let source = csr.max_degree_vertex().expect("at least one vertex");
        let expected = reference::bfs(&csr, source);
        under_every_setting(&csr, threads, |graph, config| {
            let answer = graph.bfs(source, &BfsOptions { parents: true, ..BfsOptions::default() }).expect("runs");
            assert_eq!(answer.levels, expected, "{config:?}");
            assert_eq!(answer.reached, expected.iter().filter(|&&l| l != gpuvm_engine::UNREACHED).count() as u64);
            verify::bfs(&csr, source, verify::BfsLimit::default(), &answer.levels, answer.parents.as_deref())
                .expect("certified");
        });
    }

    #[test]
    fn sssp_gives_the_reference_distances_and_parents_that_certify(csr in random_graph(), threads in 1_usize..9) {
        let source = csr.max_degree_vertex().expect("at least one vertex");
        let expected = reference::sssp(&csr, source);
        under_every_setting(&csr, threads, |graph, config| {
            let answer = graph.sssp(source, &SsspOptions { parents: true, ..SsspOptions::default() }).expect("runs");
            assert_eq!(answer.distances, expected, "{config:?}");
            verify::sssp(&csr, source, verify::SsspLimit::default(), &answer.distances, answer.parents.as_deref())
                .expect("certified");
        });
    }

    #[test]
    fn ranks_are_the_references_and_the_same_to_the_last_bit(
        csr in random_graph(), threads in 1_usize..9, iterations in 1..4_u64,
    ) {
        let options = PageRankOptions { tolerance: 0.0, max_iterations: iterations, ..PageRankOptions::default() };
        let expected = reference::page_rank(&csr, options.damping, iterations);
        let bound = options.rounding_bound(csr.num_vertices(), csr.num_edges()) + 1e-13;
        let mut first: Option<Vec<f64>> = None;
        under_every_setting(&csr, threads, |graph, config| {
            let answer = graph.page_rank(&options).expect("runs");
            let difference: f64 = answer.ranks.iter().zip(&expected).map(|(a, b)| (a - b).abs()).sum();
            assert!(difference <= bound, "{difference} > {bound}, {config:?}");
            assert!(answer.iterations == iterations || answer.change == 0.0, "{config:?}");
            assert_eq!(*first.get_or_insert_with(|| answer.ranks.clone()), answer.ranks, "{config:?}");
            verify::page_rank(&csr, &options, Some(answer.change), &answer.ranks).expect("certified");
        });
        // Edges handed out along rows and collected from rows carry the same.
        let symmetric = symmetrized(&csr);
        let directed = Csr::new(
            symmetric.row_offsets().clone(), symmetric.column_indices().clone(), Weights::Unit, false,
        ).expect("valid");
        let engine = Engine::new(EngineConfig::default()).expect("valid");
        let [collected, handed_out] = [symmetric, directed].map(|csr| {
            let mut graph = engine.prepare(csr, Workload { page_rank: true, ..Workload::NONE }).expect("fits");
            graph.page_rank(&options).expect("runs").ranks
        });
        assert_eq!(collected, handed_out);
    }

    #[test]
    fn components_are_the_reference_labels(csr in random_graph(), threads in 1_usize..9) {
        let expected = reference::connected_components(&csr);
        under_every_setting(&csr, threads, |graph, config| {
            let answer = graph.connected_components().expect("runs");
            assert_eq!(answer.labels, expected, "{config:?}");
            verify::connected_components(&csr, &answer.labels).expect("certified");
        });
    }
}
