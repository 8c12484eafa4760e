//! Random graphs: every algorithm under every setting gives the answer of the plain sequential reference, and its
//! certificate holds.

mod common;

use common::{LANES, paged, random_graph, with_least_budget};
use gpuvm_engine::graph::Csr;
use gpuvm_engine::{
    BfsOptions, Engine, EngineConfig, Policy, PreparedGraph, SsspOptions, Variant, Workload, reference,
    verify,
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
    fn components_are_the_reference_labels(csr in random_graph(), threads in 1_usize..9) {
        let expected = reference::connected_components(&csr);
        under_every_setting(&csr, threads, |graph, config| {
            let answer = graph.connected_components().expect("runs");
            assert_eq!(answer.labels, expected, "{config:?}");
            verify::connected_components(&csr, &answer.labels).expect("certified");
        });
    }
}
