//! Each algorithm on a Kronecker graph: paged at budgets of 100%, 50% and 25% of the edges, beside `resident` and
//! `zero-copy` in the same run, on the CPU device.
//!
//!     cargo bench --bench traversal -- [--scale 20] [--sources 8] [--threads N]
//!
//! A row is the median over the sources (for components: over as many repetitions), warm: one run goes before. The
//! first three paged rows have frames for that share of the pages. `ratio` is against `resident` in this run. GTEPS
//! are the edges of the reached vertices by the median seconds.

#[path = "common/arguments.rs"]
mod arguments;

use std::time::Instant;

use gpuvm_datasets::Kronecker;
use gpuvm_engine::graph::{Csr, VertexId, Weights};
use gpuvm_engine::{
    Access, BfsOptions, Engine, EngineConfig, PagingStats, PreparedGraph, SsspOptions, Workload,
};

/// Seconds, edges of the vertices reached, and what the page table did.
type Run = (f64, u64, PagingStats);

type RunAlgorithm = fn(&mut PreparedGraph, VertexId) -> Run;

const ALGORITHMS: [(&str, Workload, RunAlgorithm); 3] = [
    ("bfs", Workload { bfs: true, ..NOTHING }, |graph, source| {
        let answer = graph.bfs(source, &BfsOptions::default()).expect("runs");
        let reached = |&(_, &level): &(usize, &u32)| level != gpuvm_engine::UNREACHED;
        let vertices = answer.levels.iter().enumerate().filter(reached);
        let edges = vertices.map(|(v, _)| graph.csr().out_degree(v as VertexId)).sum();
        (answer.stats.seconds, edges, answer.stats.paging())
    }),
    ("cc", Workload { connected_components: true, ..NOTHING }, |graph, _| {
        let answer = graph.connected_components().expect("runs");
        (answer.stats.seconds, graph.csr().num_edges(), answer.stats.paging())
    }),
    ("sssp", Workload { sssp: true, ..NOTHING }, |graph, source| {
        let answer = graph.sssp(source, &SsspOptions::default()).expect("runs");
        let reached = (0..graph.csr().num_vertices() as VertexId).filter(|&v| answer.distances.is_reached(v));
        let edges = reached.map(|v| graph.csr().out_degree(v)).sum();
        (answer.stats.seconds, edges, answer.stats.paging())
    }),
];

const NOTHING: Workload = Workload::NONE;

/// Median over the sources, after one run that does not count.
fn median(
    graph: &mut PreparedGraph,
    sources: &[VertexId],
    run: fn(&mut PreparedGraph, VertexId) -> Run,
) -> Run {
    run(graph, sources[0]);
    let mut runs: Vec<Run> = sources.iter().map(|&source| run(graph, source)).collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    runs[runs.len() / 2]
}

/// Weights of 1 to 255, one byte each, symmetric.
fn weighted(csr: &Csr) -> Csr {
    let weights: Vec<u8> = (0..csr.num_vertices() as VertexId)
        .flat_map(|u| csr.neighbors(u).iter().map(move |&v| Weights::hash8(u, v)))
        .collect();
    csr.with_weights(Weights::U8(weights.into())).expect("one for each edge")
}

fn main() {
    let scale = arguments::number("--scale", 20) as u32;
    let num_sources = arguments::number("--sources", 8) as usize;
    let threads =
        arguments::number("--threads", std::thread::available_parallelism().map_or(1, Into::into) as u64);
    let started = Instant::now();
    let csr = weighted(&Kronecker { scale, edge_factor: 16, seed: 1 }.generate().expect("a scale up to 30"));
    // Vertices of degree 2 and more, spread over the ids.
    let step = csr.num_vertices() / num_sources as u64;
    let sources: Vec<VertexId> = (0..num_sources as u64)
        .map(|i| (i * step..csr.num_vertices()).map(|v| v as VertexId).find(|&v| csr.out_degree(v) >= 2))
        .map(|source| source.expect("a graph with edges"))
        .collect();
    println!(
        "kron-{scale}: {} vertices, {} edges, u8 weights, generated in {:.1} s; {threads} threads, {num_sources} sources",
        csr.num_vertices(),
        csr.num_edges(),
        started.elapsed().as_secs_f64()
    );
    println!(
        "{:28} {:>9} {:>7} {:>7} {:>10} {:>10} {:>10}",
        "", "seconds", "GTEPS", "ratio", "faults", "evictions", "MB in"
    );
    for (name, workload, run) in ALGORITHMS {
        let base = EngineConfig { threads: Some(threads as usize), ..EngineConfig::default() };
        let mut resident_seconds = None;
        let mut row = |label: String, config: EngineConfig| {
            let engine = Engine::new(config).expect("valid settings");
            let mut graph = engine.prepare(csr.clone(), workload).expect("the budget is enough");
            let (seconds, edges, paging) = median(&mut graph, &sources, run);
            let resident = *resident_seconds.get_or_insert(seconds);
            println!(
                "{:28} {seconds:>9.4} {:>7.3} {:>7.2} {:>10} {:>10} {:>10.1}",
                format!("{name}/kron-{scale}/{label}"),
                edges as f64 / seconds / 1e9,
                seconds / resident,
                paging.faults,
                paging.evictions,
                paging.bytes_in as f64 / 1e6
            );
        };
        row("resident".to_owned(), EngineConfig { access: Some(Access::Resident), ..base.clone() });
        row("zero-copy".to_owned(), EngineConfig { access: Some(Access::ZeroCopy), ..base.clone() });
        for percent in [100, 50, 25] {
            let paged = EngineConfig { access: Some(Access::Paged), ..base.clone() };
            let plan =
                Engine::new(paged.clone()).expect("valid").plan(&csr, workload).expect("fits this machine");
            let frames = (plan.num_pages * percent).div_ceil(100);
            let budget = plan.total_bytes - (plan.num_pages - frames) * (plan.page_size.bytes() + 8);
            row(format!("paged {percent}%"), EngineConfig { gpu_mem: Some(budget), ..paged });
        }
    }
}
