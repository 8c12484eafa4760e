//! Hands a matrix of the crate `sprs` to the engine, without a copy, and asks for shortest paths.
//!
//!     cargo run --release -p gpuvm-engine --example sprs_matrix

use gpuvm_engine::graph::Csr;
use gpuvm_engine::{Engine, EngineConfig, SsspOptions, Workload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut roads = sprs::TriMatI::<f32, u32>::new((4, 4));
    for (from, to, kilometres) in [(0, 1, 2.5), (1, 2, 0.5), (0, 2, 4.0), (2, 3, 1.0)] {
        roads.add_triplet(from, to, kilometres);
    }
    let csr = Csr::from_sprs(roads.to_csr::<u64>())?;

    let engine = Engine::new(EngineConfig::default())?;
    let mut graph = engine.prepare(csr, Workload { sssp: true, parents: true, ..Workload::default() })?;
    let answer = graph.sssp(0, &SsspOptions { parents: true, ..SsspOptions::default() })?;
    for v in 0..4 {
        println!("vertex {v}: {} km", answer.distances.get(v));
    }
    // The same arrays as a matrix again.
    let view = graph.csr().to_sprs::<f32>().ok_or("weights are f32 and rows are sorted")?;
    println!("{} roads", view.nnz());
    Ok(())
}
