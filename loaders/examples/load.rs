//! Loads a graph file and says how long it took: `cargo run --release --example load -- GRAPH [WEIGHTS]`.

use std::path::Path;
use std::time::Instant;

use gpuvm_loaders::{LoadOptions, WeightRule, load};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let weights: WeightRule = arguments.next().as_deref().unwrap_or("file").parse()?;
    let started = Instant::now();
    let graph = load(Path::new(&path), &LoadOptions { weights, ..LoadOptions::default() }, &())?;
    let seconds = started.elapsed().as_secs_f64();
    let (csr, summary) = (&graph.csr, &graph.summary);
    println!(
        "{path}: {} vertices, {} edges, weights {}; {seconds:.3} s (parse {:.2}, build {:.2})",
        csr.num_vertices(),
        csr.num_edges(),
        csr.weights().weight_type(),
        summary.parse_seconds,
        summary.build_seconds,
    );
    println!("{summary:?}");
    // On Linux the kernel knows how much memory that took at most.
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let bytes = csr.row_offsets().size_bytes()
            + csr.column_indices().size_bytes()
            + csr.weights().as_bytes().len() as u64;
        let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
        println!("graph {} kB, {peak}", bytes / 1024);
    }
    Ok(())
}
