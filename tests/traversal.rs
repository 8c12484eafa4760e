//! Every Matrix Market graph with a known answer and one graph of each other format, through the page table under every
//! setting: 4 KiB pages, budgets from "all pages fit" down to the least that the plan allows, 1 to 8 warps, both variants,
//! both policies, and on small graphs the emulated warps of 32 lanes.

mod common;
#[path = "common/expected.rs"]
mod expected;

use common::{paged, with_least_budget};
use expected::{Expected, assert_distances, assert_ranks, digest_labels, digest_levels};
use gpuvm_datasets::Kronecker;
use gpuvm_engine::graph::{Csr, Order};
use gpuvm_engine::{
    BfsOptions, Directions, Distances, Engine, EngineConfig, Error, Lines, PageRankOptions, PagingStats,
    Policy, PreparedGraph, Scan, SsspOptions, UNREACHED, Variant, WarpLanes, Workload, reference, verify,
};
use gpuvm_loaders::WeightRule;
use serde_json::Value;

/// Settings for a graph; big graphs take a selection, to keep the time within minutes on two cores.
fn settings(csr: &Csr, workload: Workload) -> Vec<EngineConfig> {
    let is_small = csr.num_vertices() <= 130;
    let is_big = csr.num_edges() > 20_000;
    let is_huge = csr.num_edges() > 500_000;
    let mut settings = Vec::new();
    for &variant in Variant::ALL {
        for &policy in Policy::ALL {
            for (threads, lanes) in [
                (1, WarpLanes::One),
                (2, WarpLanes::One),
                (4, WarpLanes::One),
                (8, WarpLanes::One),
                (1, WarpLanes::ThirtyTwo),
                (3, WarpLanes::ThirtyTwo),
            ] {
                let wide = lanes == WarpLanes::ThirtyTwo;
                if (wide && !is_small) || (is_big && matches!(threads, 1 | 4)) {
                    continue;
                }
                if is_huge && (threads != 2 || policy != Policy::PinnedShare) {
                    continue;
                }
                let plenty = paged(variant, policy, threads, lanes);
                let least = with_least_budget(plenty.clone(), csr, workload);
                let budget = least.gpu_mem.expect("the least");
                let full = Engine::new(plenty.clone())
                    .expect("valid")
                    .plan(csr, workload)
                    .expect("fits")
                    .total_bytes;
                let half =
                    EngineConfig { gpu_mem: Some(budget.midpoint(full.max(budget))), ..plenty.clone() };
                settings.extend([plenty, half, least]);
            }
        }
    }
    settings
}

/// Runs `check` under every setting, directions and lines in turn, and under every sixth with rows in degree order; says what was
/// paged and insists that pages were evicted wherever a run touched more of them than it had frames. (Graphs of one page,
/// and sources that reach little, touch no more.)
fn through_the_page_table(
    graph: &Expected,
    view: &str,
    csr: &Csr,
    workload: Workload,
    mut check: impl FnMut(&mut PreparedGraph, &str) -> PagingStats,
) {
    let (mut total, mut num_settings, mut pages) = (PagingStats::default(), 0, 0);
    let by_degree = csr.clone().in_order(Order::Degree).expect("fits");
    let natural = settings(csr, workload).into_iter().map(|config| (config, csr)).enumerate();
    let ordered = settings(&by_degree, workload).into_iter().map(|config| (config, &by_degree)).enumerate();
    let settings = natural.chain(ordered.filter(|(i, _)| (i + i / 6) % 6 == 0));
    let settings = settings.map(|(i, (config, csr))| {
        let config = EngineConfig {
            directions: Directions::ALL[(i + i / 9) % 3],
            lines: Lines::ALL[(i / 3 + i / 6) % 2],
            ..config
        };
        match Engine::new(config.clone()).expect("valid settings").plan(csr, workload) {
            // Steps that only pull have heads made, which have pages too.
            Err(Error::BudgetTooSmall { least_bytes, .. }) => {
                (EngineConfig { gpu_mem: Some(least_bytes), ..config }, csr)
            }
            _ => (config, csr),
        }
    });
    for (config, csr) in settings {
        let engine = Engine::new(config.clone()).expect("valid settings");
        let mut prepared = engine.prepare(csr.clone(), workload).expect("the budget is enough");
        pages = prepared.plan().num_pages;
        let evicts = prepared.plan().evicts();
        let order = if csr.permutation().is_some() { "degree" } else { "natural" };
        let context = format!("{} {view} {order} {config:?}", graph.name);
        let paging = check(&mut prepared, &context);
        assert!(
            !evicts || paging.faults <= prepared.plan().num_frames || paging.evictions > 0,
            "{context}: {paging:?}"
        );
        total += paging;
        num_settings += 1;
    }
    println!(
        "{:32} {view:10} {:>8} edges {pages:>5} pages, {num_settings:>3} settings: {:>8} faults {:>8} evictions",
        graph.name,
        csr.num_edges(),
        total.faults,
        total.evictions
    );
}

const VIEWS: [&str; 2] = ["directed", "undirected"];

#[test]
fn bfs_levels_are_those_of_other_programs() {
    let workload = Workload { bfs: true, ..Workload::default() };
    for graph in expected::graphs() {
        for view in VIEWS {
            let csr = graph.load(view, WeightRule::Ignore);
            through_the_page_table(&graph, view, &csr, workload, |prepared, context| {
                let mut paging = PagingStats::default();
                for (source, run) in graph.runs(view) {
                    let answer = prepared.bfs(source, &BfsOptions::default()).expect("runs");
                    let expected = &run["bfs"];
                    assert_eq!(Value::from(answer.reached), expected["reached"], "{context}");
                    assert_eq!(Value::from(answer.max_level), expected["max_level"], "{context}");
                    assert_eq!(Value::from(digest_levels(&answer.levels)), expected["sha256"], "{context}");
                    paging += answer.stats.paging();
                }
                paging
            });
        }
    }
}

#[test]
fn distances_over_hash_weights_are_those_of_other_programs() {
    let workload = Workload { sssp: true, ..Workload::default() };
    for graph in expected::graphs() {
        for view in VIEWS {
            let csr = graph.load(view, WeightRule::Hash);
            through_the_page_table(&graph, view, &csr, workload, |prepared, context| {
                let mut paging = PagingStats::default();
                for (source, run) in graph.runs(view) {
                    let answer = prepared.sssp(source, &SsspOptions::default()).expect("runs");
                    assert_distances(&run["sssp_hash8"], &answer.distances, context);
                    paging += answer.stats.paging();
                }
                paging
            });
        }
    }
}

#[test]
fn distances_over_the_files_weights_are_those_of_other_programs() {
    let workload = Workload { sssp: true, parents: true, ..Workload::default() };
    for graph in expected::graphs() {
        for view in VIEWS {
            if graph.runs(view).all(|(_, run)| run["sssp_file"].is_null()) {
                continue; // a pattern matrix, or values that are not finite
            }
            let csr = graph.load(view, WeightRule::Abs);
            through_the_page_table(&graph, view, &csr, workload, |prepared, context| {
                let mut paging = PagingStats::default();
                for (source, run) in graph.runs(view) {
                    let options = SsspOptions { parents: true, ..SsspOptions::default() };
                    let answer = prepared.sssp(source, &options).expect("runs");
                    assert_distances(&run["sssp_file"], &answer.distances, context);
                    let limit = verify::SsspLimit::default();
                    verify::sssp(&csr, source, limit, &answer.distances, answer.parents.as_deref())
                        .expect("certified");
                    paging += answer.stats.paging();
                }
                paging
            });
        }
    }
}

#[test]
fn components_are_those_of_other_programs_in_either_view() {
    let workload = Workload { connected_components: true, ..Workload::default() };
    for graph in expected::graphs() {
        for view in VIEWS {
            let csr = graph.load(view, WeightRule::Ignore);
            through_the_page_table(&graph, view, &csr, workload, |prepared, context| {
                let answer = prepared.connected_components().expect("runs");
                let expected = &graph.json["components"];
                assert_eq!(Value::from(answer.num_components), expected["count"], "{context}");
                assert_eq!(
                    Value::from(answer.largest.map_or(0, |(_, size)| size)),
                    expected["largest"],
                    "{context}"
                );
                assert_eq!(
                    Value::from(digest_labels(&answer.labels)),
                    expected["sha256_min_label"],
                    "{context}"
                );
                answer.stats.paging()
            });
        }
    }
}

#[test]
fn ranks_are_those_of_other_programs() {
    let all = expected::page_ranks();
    // Beyond what rounding allows on large graphs, where ranks may go in a circle of 2e-13.
    let options = PageRankOptions { tolerance: 1e-11, max_iterations: 300, ..PageRankOptions::default() };
    let mut num_views = 0;
    for graph in expected::graphs() {
        for view in VIEWS {
            let expected = expected::ranks_of(&all, &graph, view);
            if expected.is_null() {
                continue;
            }
            num_views += 1;
            let csr = graph.load(view, WeightRule::Ignore);
            let engine =
                Engine::new(EngineConfig { threads: Some(2), ..EngineConfig::default() }).expect("valid");
            let workload = Workload { page_rank: true, ..Workload::NONE };
            let answer =
                engine.prepare(csr.clone(), workload).expect("fits").page_rank(&options).expect("runs");
            let context = format!("{} {view}", graph.name);
            assert!(answer.converged && answer.change <= options.tolerance, "{context}");
            let still_to_come = answer.change * options.damping / (1.0 - options.damping);
            let rounding = options.rounding_bound(csr.num_vertices(), csr.num_edges());
            // The other program's own tolerance.
            assert_ranks(expected, &answer.ranks, still_to_come + rounding + 1e-12, &context);
            verify::page_rank(&csr, &options, Some(answer.change), &answer.ranks).expect("certified");
        }
    }
    assert!(num_views >= 80, "{num_views} views have ranks");
}

#[test]
fn ranks_are_the_same_to_the_last_bit_under_every_setting() {
    let workload = Workload { page_rank: true, ..Workload::NONE };
    let options = PageRankOptions { tolerance: 0.0, max_iterations: 2, ..PageRankOptions::default() };
    for graph in expected::graphs() {
        for view in VIEWS {
            let csr = graph.load(view, WeightRule::Ignore);
            let mut in_place = Engine::new(EngineConfig { threads: Some(1), ..EngineConfig::default() })
                .expect("valid")
                .prepare(csr.clone(), workload)
                .expect("fits");
            let expected = in_place.page_rank(&options).expect("runs").ranks;
            through_the_page_table(&graph, view, &csr, workload, |prepared, context| {
                let answer = prepared.page_rank(&options).expect("runs");
                assert_eq!(answer.ranks, expected, "{context}");
                answer.stats.paging()
            });
        }
    }
}

/// 0 -> 1 -> 2 -> 3 -> 4 and 0 -> 4 of weight 9; the path weighs 1 an edge.
fn path_with_a_detour() -> Csr {
    common::csr_of(6, &[(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], |order| {
        gpuvm_engine::graph::Weights::U8(
            order.iter().map(|&i| if i == 4 { 9 } else { 1 }).collect::<Vec<_>>().into(),
        )
    })
}

fn prepared(csr: Csr) -> PreparedGraph {
    Engine::new(EngineConfig::default()).expect("valid").prepare(csr, Workload::ALL).expect("fits")
}

#[test]
fn bfs_stops_after_the_depth_limit() {
    let mut graph = prepared(path_with_a_detour());
    let answer = graph.bfs(0, &BfsOptions { depth_limit: Some(1), ..BfsOptions::default() }).expect("runs");
    assert_eq!(answer.levels, [0, 1, UNREACHED, UNREACHED, 1, UNREACHED]);
    assert_eq!((answer.reached, answer.max_level), (3, 1));
}

#[test]
fn bfs_ends_with_the_level_of_its_target() {
    let mut graph = prepared(path_with_a_detour());
    let answer = graph.bfs(0, &BfsOptions { target: Some(2), ..BfsOptions::default() }).expect("runs");
    assert_eq!(answer.levels, [0, 1, 2, UNREACHED, 1, UNREACHED]);
}

#[test]
fn sssp_leaves_out_what_is_beyond_its_limit_or_target() {
    let mut graph = prepared(path_with_a_detour());
    let far = Distances::UNREACHED;
    let limited = SsspOptions { distance_limit: Some(2.5), ..SsspOptions::default() };
    assert_eq!(
        graph.sssp(0, &limited).expect("runs").distances,
        Distances::Integer(vec![0, 1, 2, far, far, far])
    );
    let targeted = SsspOptions { target: Some(3), ..SsspOptions::default() };
    assert_eq!(
        graph.sssp(0, &targeted).expect("runs").distances,
        Distances::Integer(vec![0, 1, 2, 3, far, far])
    );
    let both = SsspOptions { target: Some(4), distance_limit: Some(1.0), ..SsspOptions::default() };
    assert_eq!(
        graph.sssp(0, &both).expect("runs").distances,
        Distances::Integer(vec![0, 1, far, far, far, far])
    );
}

#[test]
fn parent_is_the_smallest_id_of_those_that_would_do() {
    // Two ways from 0 to 3, over 1 and over 2.
    let csr = common::csr_of(4, &[(0, 2), (0, 1), (2, 3), (1, 3)], |_| gpuvm_engine::graph::Weights::Unit);
    let mut graph = prepared(csr);
    let none = gpuvm_engine::NO_PARENT;
    let bfs = graph.bfs(0, &BfsOptions { parents: true, ..BfsOptions::default() }).expect("runs");
    assert_eq!(bfs.parents, Some(vec![none, 0, 0, 1]));
    let sssp = graph.sssp(0, &SsspOptions { parents: true, ..SsspOptions::default() }).expect("runs");
    assert_eq!(sssp.parents, Some(vec![none, 0, 0, 1]));
}

#[test]
fn second_run_of_a_source_finds_its_pages_resident() {
    let csr = common::csr_of(3000, &(0..2999).map(|u| (u, u + 1)).collect::<Vec<_>>(), |_| {
        gpuvm_engine::graph::Weights::Unit
    });
    let engine = Engine::new(paged(Variant::Balanced, Policy::Fifo, 2, WarpLanes::One)).expect("valid");
    let mut graph = engine.prepare(csr, Workload { bfs: true, ..Workload::default() }).expect("fits");
    let cold = graph.bfs(0, &BfsOptions::default()).expect("runs").stats.paging();
    assert_eq!((cold.faults, cold.bytes_in), (3, 2999 * 4));
    let warm = graph.bfs(0, &BfsOptions::default()).expect("runs").stats.paging();
    assert_eq!((warm.faults, warm.bytes_in), (0, 0));
    graph.evict_all().expect("memory");
    assert_eq!(graph.bfs(0, &BfsOptions::default()).expect("runs").stats.paging(), cold);
}

#[test]
fn graph_without_vertices_has_no_components() {
    let csr = Csr::new(vec![0], vec![], gpuvm_engine::graph::Weights::Unit, false).expect("valid");
    for config in [EngineConfig::default(), paged(Variant::Naive, Policy::Fifo, 2, WarpLanes::One)] {
        let mut graph =
            Engine::new(config).expect("valid").prepare(csr.clone(), Workload::ALL).expect("fits");
        let answer = graph.connected_components().expect("runs");
        assert_eq!((answer.num_components, answer.largest), (0, None));
        assert!(matches!(
            graph.bfs(0, &BfsOptions::default()),
            Err(gpuvm_engine::Error::SourceOutOfRange { source_vertex: 0, num_vertices: 0 })
        ));
    }
}

/// On a path: levels of more vertices than are logged, of fewer, and more of them than one answer has words for.
#[test]
fn levels_of_a_batch_on_a_path_are_distances_along_it() {
    let edges: Vec<(u32, u32)> = (0..299).flat_map(|u| [(u, u + 1), (u + 1, u)]).collect();
    let path = common::csr_of(300, &edges, |_| gpuvm_engine::graph::Weights::Unit);
    let workload = Workload { bfs_batch: true, ..Workload::NONE };
    for lanes in [WarpLanes::One, WarpLanes::ThirtyTwo] {
        let engine = Engine::new(paged(Variant::Balanced, Policy::PinnedShare, 2, lanes)).expect("valid");
        let mut graph = engine.prepare(path.clone(), workload).expect("fits");
        for (num_sources, depth_limit) in [(64, None), (40, Some(8)), (40, Some(9)), (40, None), (3, None)] {
            let sources: Vec<u32> = (0..num_sources).map(|i| i * 4).collect();
            let found = graph.bfs_batch(&sources, depth_limit).expect("runs");
            for (i, &source) in sources.iter().enumerate() {
                let limit = depth_limit.unwrap_or(UNREACHED - 1);
                let level = |v: u32| if v.abs_diff(source) > limit { UNREACHED } else { v.abs_diff(source) };
                let expected: Vec<u32> = (0..300).map(level).collect();
                assert_eq!(found.levels(i), expected, "source {source}, {depth_limit:?}");
                let near = expected.iter().filter(|&&level| level != UNREACHED);
                assert_eq!(found.reached[i], near.clone().count() as u64);
                assert_eq!(Some(&found.max_levels[i]), near.max());
            }
        }
    }
}

/// Searches from hubs and from vertices of few edges: in some level the frontiers of the latter push, and the rest pulls.
#[test]
fn searches_of_a_batch_that_push_and_pull_in_one_level_find_the_reference_levels() {
    let natural = Kronecker { scale: 15, edge_factor: 16, seed: 1 }.generate().expect("fits");
    let csr = natural.clone().in_order(Order::Degree).expect("fits");
    let with_edges: Vec<u32> =
        (0..csr.num_vertices() as u32).filter(|&v| natural.out_degree(v) > 0).collect();
    let sources: Vec<u32> = with_edges.iter().copied().step_by(with_edges.len() / 60).collect();
    let config = paged(Variant::Balanced, Policy::PinnedShare, 2, WarpLanes::One);
    let workload = Workload { bfs_batch: true, ..Workload::NONE };
    let mut graph = Engine::new(config).expect("valid").prepare(csr, workload).expect("fits");
    let found = graph.bfs_batch(&sources, None).expect("runs");
    for (i, &source) in sources.iter().enumerate() {
        assert!(found.levels(i) == reference::bfs(&natural, source), "source {source}");
    }
    let scans: Vec<Scan> = found.runs[0].steps.iter().map(|step| step.scan).collect();
    let both = [Scan::Heads, Scan::Vertices, Scan::Segments, Scan::Tails, Scan::Vertices];
    assert!(scans.windows(both.len()).any(|steps| steps == both), "{scans:?}");
}
