//! Runs many sources on one prepared graph: the pages that one run leaves resident serve the next.
//!
//!     cargo run --release -p gpuvm-engine --example many_sources

use gpuvm_engine::graph::{Csr, Weights};
use gpuvm_engine::{Access, BfsOptions, Engine, EngineConfig, Workload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A grid of 1000 x 1000 crossings, each with roads to the right and down.
    let side = 1000_u32;
    let (mut row_offsets, mut column_indices) = (vec![0], Vec::new());
    for crossing in 0..side * side {
        if crossing % side + 1 < side {
            column_indices.push(crossing + 1);
        }
        if crossing / side + 1 < side {
            column_indices.push(crossing + side);
        }
        row_offsets.push(column_indices.len() as u64);
    }
    let csr = Csr::new(row_offsets, column_indices, Weights::Unit, false)?;

    // 30 MB of device memory: vertex state takes 20, the 8 MB of edges fit as well once they have been paged in.
    let config =
        EngineConfig { gpu_mem: Some(30_000_000), access: Some(Access::Paged), ..EngineConfig::default() };
    let engine = Engine::new(config)?;
    let mut graph = engine.prepare(csr, Workload { bfs: true, ..Workload::default() })?;
    println!("{} pages, {} frames", graph.plan().num_pages, graph.plan().num_frames);
    for source in [0, 500 * side + 500, side * side - 1] {
        let answer = graph.bfs(source, &BfsOptions::default())?;
        let paging = answer.stats.paging();
        println!(
            "from {source:>6}: {:>7} reached in {:>4} levels, {:>4} faults, {:>4} evictions, {:.1} ms",
            answer.reached,
            answer.max_level,
            paging.faults,
            paging.evictions,
            answer.stats.seconds * 1e3
        );
    }
    Ok(())
}
