//! What the records of steps say, on graphs whose levels are known: grids searched from a corner, where level l holds the
//! vertices whose coordinates add up to l. In emulated warps a block goes through small levels by itself.

mod common;

use common::{LANES, csr_of, paged, symmetrized, with_least_budget};
use gpuvm_engine::graph::{Csr, Order, Weights};
use gpuvm_engine::{
    Access, BfsOptions, Directions, Engine, EngineConfig, Policy, Variant, Workload, reference, verify,
};

/// A grid with an edge in both directions between neighbours; vertex y * width + x.
fn grid(width: u32, height: u32) -> Csr {
    let edges: Vec<(u32, u32)> = (0..width * height)
        .flat_map(|v| {
            let right = (v % width + 1 < width).then_some((v, v + 1));
            let below = (v / width + 1 < height).then_some((v, v + width));
            right.into_iter().chain(below)
        })
        .collect();
    symmetrized(&csr_of(width * height, &edges, |_| Weights::Unit))
}

/// Vertices of each level from vertex 0, and the edges that leave them.
fn levels_of(csr: &Csr) -> Vec<(u64, u64)> {
    let levels = reference::bfs(csr, 0);
    let mut sums = vec![(0, 0); levels.iter().max().map_or(0, |&last| last as usize + 1)];
    for (v, &level) in levels.iter().enumerate() {
        let sum: &mut (u64, u64) = &mut sums[level as usize];
        *sum = (sum.0 + 1, sum.1 + csr.out_degree(v as u32));
    }
    sums
}

fn settings(csr: &Csr, workload: Workload) -> Vec<EngineConfig> {
    let mut settings = Vec::new();
    for lanes in LANES {
        let plenty =
            EngineConfig { directions: Directions::Push, ..paged(Variant::Balanced, Policy::Fifo, 2, lanes) };
        settings.push(EngineConfig { access: Some(Access::Resident), ..plenty.clone() });
        settings.push(with_least_budget(plenty.clone(), csr, workload));
        settings.push(plenty);
    }
    settings
}

#[test]
fn every_level_of_a_grid_has_a_step_with_its_vertices_and_its_edges() {
    let workload = Workload { bfs: true, parents: true, ..Workload::NONE };
    // Around the vertices that the warps of an emulated block have at a time, 32, and with levels of one vertex.
    for (width, height) in [(1, 500), (7, 300), (33, 200), (60, 100)] {
        let csr = grid(width, height);
        let expected = levels_of(&csr);
        assert_eq!(expected.len() as u32, width + height - 1, "levels of a grid");
        for config in settings(&csr, workload) {
            let context = format!("{width} x {height} {config:?}");
            let engine = Engine::new(config.clone()).expect("valid settings");
            let mut graph = engine.prepare(csr.clone(), workload).expect("the budget is enough");
            for parents in [false, true] {
                let answer = graph.bfs(0, &BfsOptions { parents, ..BfsOptions::default() }).expect("runs");
                verify::bfs(&csr, 0, Default::default(), &answer.levels, answer.parents.as_deref())
                    .expect("certified");
                // The last level has nothing left to find: no step looks at its edges.
                let steps: Vec<(u64, u64)> =
                    answer.stats.steps.iter().map(|step| (step.frontier, step.edges)).collect();
                assert_eq!(steps, expected[..expected.len() - 1], "{context}");
                if config.access == Some(Access::Paged) {
                    // Lines, in the first steps, where a page may leave.
                    let touched = |step: &gpuvm_engine::StepStats| {
                        step.paging.hits + step.paging.faults + step.paging.bytes_in
                    };
                    assert!(answer.stats.steps.iter().all(|step| touched(step) > 0), "{context}");
                }
            }
        }
    }
}

#[test]
fn depth_limit_and_long_rows_end_small_levels_where_they_have_to() {
    // A path, from whose vertex 40 a star of 300 leaves hangs, and from whose vertex 80 one of 20.
    let mut edges: Vec<(u32, u32)> = (0..119).map(|v| (v, v + 1)).collect();
    edges.extend((120..420).map(|leaf| (40, leaf)));
    edges.extend((420..440).map(|leaf| (80, leaf)));
    let path = symmetrized(&csr_of(440, &edges, |_| Weights::Unit));
    let workload = Workload { bfs: true, ..Workload::NONE };
    for csr in [path.clone(), path.clone().in_order(Order::Degree).expect("fits"), grid(20, 50)] {
        let expected = reference::bfs(&path, 0);
        let is_path = csr.num_vertices() == 440;
        let expected = if is_path { expected } else { reference::bfs(&csr, 0) };
        for config in settings(&csr, workload) {
            let context = format!("{config:?}");
            let engine = Engine::new(config).expect("valid settings");
            let mut graph = engine.prepare(csr.clone(), workload).expect("the budget is enough");
            for depth_limit in [None, Some(1), Some(17), Some(41), Some(60)] {
                let options = BfsOptions { depth_limit, ..BfsOptions::default() };
                let answer = graph.bfs(0, &options).expect("runs");
                let limit = depth_limit.unwrap_or(u32::MAX - 1);
                let within: Vec<u32> =
                    expected.iter().map(|&level| if level <= limit { level } else { u32::MAX }).collect();
                assert_eq!(answer.levels, within, "{context} {depth_limit:?}");
                assert_eq!(answer.reached, within.iter().filter(|&&level| level != u32::MAX).count() as u64);
                assert_eq!(Some(answer.max_level), within.iter().copied().filter(|&l| l != u32::MAX).max());
            }
        }
    }
}
