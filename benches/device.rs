//! BFS, components and SSSP on a GPU: every access, and paged at budgets of 100% to 12.5% of the edges, in one run.
//!
//!     cargo bench --bench device -- [--graph kron|urand] [--scale 24] [--sources 16]
//!
//! The graphs are GAP's. A row is the median over the sources (for components: over as many repetitions), each cold:
//! no page is resident at first. `warm` rows find resident what the run before left. Seconds are those of the traversal,
//! by the device's clock, without copying the answer to the host. `share` is the rate of bytes in by the rate that the
//! copy engine reaches in this run. GTEPS are the edges of the vertices reached by the seconds.

use std::time::Instant;

use gpuvm_datasets::{GapGenerator, GapKind, GapRule, GapWeights};
use gpuvm_engine::graph::{Csr, VertexId};
use gpuvm_engine::{
    Access, BfsOptions, DeviceKind, Engine, EngineConfig, PagingStats, PreparedGraph, RunStats, SsspOptions,
    Variant, Workload,
};

use rayon::prelude::*;

#[path = "common/arguments.rs"]
mod arguments;

const NOTHING: Workload = Workload { bfs: false, connected_components: false, sssp: false, parents: false };

type RunAlgorithm = fn(&mut PreparedGraph, VertexId) -> (RunStats, u64);

fn reached_edges(csr: &Csr, is_reached: impl Fn(VertexId) -> bool + Sync) -> u64 {
    (0..csr.num_vertices() as VertexId)
        .into_par_iter()
        .filter(|&v| is_reached(v))
        .map(|v| csr.out_degree(v))
        .sum()
}

const ALGORITHMS: [(&str, Workload, RunAlgorithm); 3] = [
    ("bfs", Workload { bfs: true, ..NOTHING }, |graph, source| {
        let answer = graph.bfs(source, &BfsOptions::default()).expect("runs");
        let edges = reached_edges(graph.csr(), |v| answer.levels[v as usize] != gpuvm_engine::UNREACHED);
        (answer.stats, edges)
    }),
    ("cc", Workload { connected_components: true, ..NOTHING }, |graph, _| {
        (graph.connected_components().expect("runs").stats, graph.csr().num_edges())
    }),
    ("sssp", Workload { sssp: true, ..NOTHING }, |graph, source| {
        let answer = graph.sssp(source, &SsspOptions::default()).expect("runs");
        let edges = reached_edges(graph.csr(), |v| answer.distances.is_reached(v));
        (answer.stats, edges)
    }),
];

struct Row {
    seconds: f64,
    steps: usize,
    edges: u64,
    paging: PagingStats,
}

fn measure(graph: &mut PreparedGraph, sources: &[VertexId], run: RunAlgorithm, cold: bool) -> Row {
    run(graph, sources[0]);
    let mut rows: Vec<Row> = sources
        .iter()
        .map(|&source| {
            if cold {
                graph.evict_all().expect("the device works");
            }
            let (stats, edges) = run(graph, source);
            let seconds = stats.steps.iter().map(|step| step.seconds).sum();
            Row { seconds, steps: stats.steps.len(), edges, paging: stats.paging() }
        })
        .collect();
    rows.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    rows.swap_remove(rows.len() / 2)
}

fn main() {
    let scale = arguments::number("--scale", 24) as u32;
    let num_sources = arguments::number("--sources", 16) as usize;
    let kind = match arguments::word("--graph", "kron").as_str() {
        "urand" => GapKind::Urand,
        _ => GapKind::Kron,
    };
    let started = Instant::now();
    let csr = GapGenerator::new(kind, scale).generate(GapWeights::Gap, &()).expect("memory for the graph");
    let sources = GapRule::SuiteSparse.sources(&csr, num_sources);
    let device = EngineConfig { device: DeviceKind::Cuda(0), ..EngineConfig::default() };
    let engine = Engine::new(device.clone()).expect("a GPU");
    let link = engine.link_rate().expect("the link works").expect("a GPU");
    println!(
        "{}-{scale}: {} vertices, {} edges, u8 weights, generated in {:.1} s; {}, copy engine {:.1} GB/s",
        kind.name(),
        csr.num_vertices(),
        csr.num_edges(),
        started.elapsed().as_secs_f64(),
        engine.device_name(),
        link / 1e9
    );
    println!(
        "{:38} {:>9} {:>7} {:>6} {:>9} {:>9} {:>9} {:>6}",
        "", "seconds", "GTEPS", "steps", "faults", "evicted", "GB in", "share"
    );
    for (name, workload, run) in ALGORITHMS {
        let row = |label: &str, config: EngineConfig, cold: bool| {
            let engine = Engine::new(config).expect("a GPU");
            let mut graph = match engine.prepare(csr.clone(), workload) {
                Ok(graph) => graph,
                Err(error) => return println!("{name}/{label}: {error}"),
            };
            let row = measure(&mut graph, &sources, run, cold);
            println!(
                "{:38} {:>9.4} {:>7.2} {:>6} {:>9} {:>9} {:>9.3} {:>5.0}%",
                format!("{name}/{}-{scale}/{label}", kind.name()),
                row.seconds,
                row.edges as f64 / row.seconds / 1e9,
                row.steps,
                row.paging.faults,
                row.paging.evictions,
                row.paging.bytes_in as f64 / 1e9,
                row.paging.bytes_in as f64 / row.seconds / link * 100.0
            );
        };
        // The naive scan of a skewed graph leaves a lane alone with the hub: one algorithm shows it.
        let variants = if name == "bfs" { Variant::ALL } else { &[Variant::Balanced] };
        for &variant in variants {
            let with = |access| EngineConfig { access: Some(access), variant, ..device.clone() };
            let label = |access: &str| format!("{access} {variant}");
            row(&label("resident"), with(Access::Resident), false);
            let paged = with(Access::Paged);
            if variant == Variant::Naive {
                row(&label("paged 100%"), paged, true);
                continue;
            }
            row(&label("zero-copy"), with(Access::ZeroCopy), false);
            let plan =
                Engine::new(paged.clone()).expect("a GPU").plan(&csr, workload).expect("fits the card");
            row(&label("paged 100% warm"), paged.clone(), false);
            for percent in [100.0, 50.0, 25.0, 12.5] {
                let frames = (plan.num_pages as f64 * percent / 100.0).ceil() as u64;
                let budget = plan.total_bytes - (plan.num_pages - frames) * (plan.page_size.bytes() + 8);
                row(
                    &label(&format!("paged {percent}%")),
                    EngineConfig { gpu_mem: Some(budget), ..paged.clone() },
                    true,
                );
            }
        }
        // Unified memory: each row is one cold run, since pages cannot be thrown out.
        for access in [Access::Managed, Access::ManagedReadMostly] {
            let engine = Engine::new(EngineConfig { access: Some(access), ..device.clone() }).expect("a GPU");
            let mut seconds = Vec::new();
            for &source in sources.iter().take(3) {
                let mut graph = engine.prepare(csr.clone(), workload).expect("fits the card");
                seconds.push(run(&mut graph, source).0.steps.iter().map(|step| step.seconds).sum::<f64>());
            }
            seconds.sort_by(f64::total_cmp);
            println!("{:38} {:>9.4}", format!("{name}/{}-{scale}/{access}", kind.name()), seconds[1]);
        }
    }
}
