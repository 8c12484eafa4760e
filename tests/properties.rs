//! Random graphs: every algorithm under every setting gives the answer of the plain sequential reference, and its
//! certificate holds.

mod common;

use common::{LANES, paged, random_graph, symmetrized, with_least_budget};
use gpuvm_engine::graph::{Csr, Order, Weights};
use gpuvm_engine::{
    Access, BfsOptions, Directions, Engine, EngineConfig, PageRankOptions, Policy, PreparedGraph,
    SsspOptions, Variant, Workload, reference, verify,
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
    fn order_of_the_rows_and_direction_of_the_steps_change_no_answer(
        csr in random_graph(), threads in 1_usize..5, heads_shift in 0_u32..4
    ) {
        let natural = symmetrized(&csr).with_weights(Weights::Hash).expect("no values");
        let source = csr.max_degree_vertex().expect("at least one vertex");
        let levels = reference::bfs(&natural, source);
        let distances = reference::sssp(&natural, source);
        let labels = reference::connected_components(&natural);
        let parent = |v: u32| {
            let level = levels[v as usize];
            let before = |&&u: &&u32| level != gpuvm_engine::UNREACHED && levels[u as usize] + 1 == level;
            natural.neighbors(v).iter().filter(before).min().copied().unwrap_or(gpuvm_engine::NO_PARENT)
        };
        let parents: Vec<u32> = (0..natural.num_vertices() as u32).map(parent).collect();
        for order in [Order::Natural, Order::Degree] {
            let csr = natural.clone().in_order(order).expect("fits");
            for &directions in Directions::ALL {
                let lanes = LANES[threads % 2];
                let config = EngineConfig {
                    directions,
                    heads: 1 << heads_shift,
                    ..paged(Variant::Balanced, Policy::PinnedShare, threads, lanes)
                };
                let least = with_least_budget(config.clone(), &csr, Workload::ALL);
                let some = EngineConfig { gpu_mem: least.gpu_mem.map(|bytes| bytes + 5 * 4200), ..config.clone() };
                let resident = EngineConfig { access: Some(Access::Resident), ..config.clone() };
                let configs = if heads_shift % 2 == 0 { [config, some] } else { [least, resident] };
                for config in configs {
                    let engine = Engine::new(config.clone()).expect("valid settings");
                    let mut graph = engine.prepare(csr.clone(), Workload::ALL).expect("the budget is enough");
                    let context = format!("{order:?} {config:?}");
                    let answer = graph.bfs(source, &BfsOptions::default()).expect("runs");
                    assert_eq!(answer.levels, levels, "{context}");
                    let last = levels.iter().filter(|&&level| level != gpuvm_engine::UNREACHED).max();
                    assert_eq!(Some(&answer.max_level), last, "{context}");
                    let again = graph.bfs(source, &BfsOptions { parents: true, ..BfsOptions::default() });
                    assert_eq!(again.expect("runs").parents, Some(parents.clone()), "{context}");
                    let two = BfsOptions { depth_limit: Some(2), ..BfsOptions::default() };
                    let near = levels.iter().map(|&level| if level > 2 { gpuvm_engine::UNREACHED } else { level });
                    assert!(near.eq(graph.bfs(source, &two).expect("runs").levels), "{context}");
                    let answer = graph.sssp(source, &SsspOptions { parents: true, ..SsspOptions::default() });
                    let answer = answer.expect("runs");
                    assert_eq!(answer.distances, distances, "{context}");
                    let limit = verify::SsspLimit::default();
                    verify::sssp(&csr, source, limit, &answer.distances, answer.parents.as_deref()).expect("certified");
                    assert_eq!(graph.connected_components().expect("runs").labels, labels, "{context}");
                }
            }
        }
    }

    #[test]
    fn directed_graph_with_its_reverse_is_pulled_to_the_same_levels(
        csr in random_graph(), threads in 1_usize..5, heads_shift in 0_u32..4
    ) {
        let source = csr.max_degree_vertex().expect("at least one vertex");
        let levels = reference::bfs(&csr, source);
        let with_reverse = csr.with_reverse(1 << heads_shift).expect("fits");
        for order in [Order::Natural, Order::Degree] {
            let csr = with_reverse.clone().in_order(order).expect("fits");
            for directions in [Directions::Auto, Directions::Pull] {
                let lanes = LANES[threads % 2];
                let config =
                    EngineConfig { directions, ..paged(Variant::Balanced, Policy::PinnedShare, threads, lanes) };
                let least = with_least_budget(config.clone(), &csr, Workload::ALL);
                let zero_copy = EngineConfig { access: Some(Access::ZeroCopy), ..config.clone() };
                for config in [config, least, zero_copy] {
                    let engine = Engine::new(config.clone()).expect("valid settings");
                    let mut graph = engine.prepare(csr.clone(), Workload::ALL).expect("the budget is enough");
                    let answer = graph.bfs(source, &BfsOptions::default()).expect("runs");
                    assert_eq!(answer.levels, levels, "{order:?} {config:?}");
                    let is_pull = |step: &gpuvm_engine::StepStats| step.direction == gpuvm_engine::Direction::Pull;
                    let pulls = answer.stats.steps.iter().skip(1).all(is_pull);
                    assert!(pulls || directions == Directions::Auto, "{config:?} {:?}", answer.stats.steps);
                }
            }
        }
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
