//! Bytes that each algorithm fetches, as shares of the edges: what a page table counts, whatever the device. On the CPU
//! device, with a budget of half the bytes of the column indices for everything, cold: all pages are absent before a run.
//!
//!     cargo bench --bench bytes -- [--graph gap-kron] [--scale 20] [--sources 16] [--order auto] [--heads 2]
//!         [--percent 50] [--page-size 8192] [--threads N] [--steps 1]
//!
//! `batch` is 64 sources at once, `cc` needs none; both run once.
//!
//! Shares are of the bytes of the column indices, for SSSP with the weights, `u8`. `median`, `least` and `most` are over the
//! sources, `warm` is the median of runs that find what earlier ones left. `--steps` prints what each step of the last cold
//! run did.

#[path = "common/arguments.rs"]
mod arguments;

use std::time::Instant;

use gpuvm_datasets::{GapWeights, NamedGraph};
use gpuvm_engine::graph::{Csr, Order, VertexId};
use gpuvm_engine::{
    Access, BfsOptions, Engine, EngineConfig, PageSize, PreparedGraph, RunStats, SsspOptions, Workload,
};

type RunAlgorithm = fn(&mut PreparedGraph, VertexId) -> RunStats;

const ALGORITHMS: [(&str, Workload, RunAlgorithm); 4] = [
    ("bfs", Workload { bfs: true, ..Workload::NONE }, |graph, source| {
        graph.bfs(source, &BfsOptions::default()).expect("runs").stats
    }),
    ("batch", Workload { bfs_batch: true, ..Workload::NONE }, |graph, _| {
        let sources = sources(graph.csr(), 64);
        graph.bfs_batch(&sources, None).expect("runs").runs.remove(0)
    }),
    ("cc", Workload { connected_components: true, ..Workload::NONE }, |graph, _| {
        graph.connected_components().expect("runs").stats
    }),
    ("sssp", Workload { sssp: true, ..Workload::NONE }, |graph, source| {
        graph.sssp(source, &SsspOptions::default()).expect("runs").stats
    }),
];

/// `count` vertices with edges, spread over the ids; their ids.
fn sources(csr: &Csr, count: u64) -> Vec<VertexId> {
    let n = csr.num_vertices();
    let has_edges = |&v: &VertexId| csr.out_degree(csr.row_of(v)) > 0;
    (0..count).filter_map(|i| (i * n / count..n).map(|v| v as VertexId).find(has_edges)).collect()
}

fn main() {
    let family = arguments::word("--graph", "gap-kron");
    let scale = arguments::number("--scale", 20);
    let num_sources = arguments::number("--sources", 16);
    let percent = arguments::number("--percent", 50);
    let threads =
        arguments::number("--threads", std::thread::available_parallelism().map_or(1, Into::into) as u64);
    let heads = arguments::number("--heads", 2) as u32;
    let started = Instant::now();
    let name: NamedGraph = format!("{family}:{scale}").parse().expect("a family and a scale");
    let graph = name.generated().expect("a graph that can be generated");
    let csr = graph.generate(GapWeights::Gap, &()).expect("memory");
    let order = match arguments::word("--order", "auto").as_str() {
        "natural" => Order::Natural,
        "degree" => Order::Degree,
        _ => csr.suitable_order(),
    };
    let csr = csr.in_order(order).and_then(|csr| csr.with_heads(heads)).expect("memory");
    let sources = sources(&csr, num_sources);
    let column_bytes = csr.num_edges() * 4;
    println!(
        "{graph}, {order:?} order, {heads} heads: {} vertices, {} edges, made in {:.1} s; {threads} threads, {} sources, \
         budget {percent}% of {:.1} MB",
        csr.num_vertices(),
        csr.num_edges(),
        started.elapsed().as_secs_f64(),
        sources.len(),
        column_bytes as f64 / 1e6
    );
    println!(
        "{:6} {:>8} {:>8} {:>8} {:>8} {:>10} {:>8}",
        "", "median", "least", "most", "warm", "seconds", "frames"
    );
    for (name, workload, run) in ALGORITHMS {
        let config = EngineConfig {
            access: Some(Access::Paged),
            gpu_mem: Some(column_bytes * percent / 100),
            page_size: PageSize::new(arguments::number("--page-size", 8192)).expect("a size of pages"),
            threads: Some(threads as usize),
            heads,
            lines: arguments::word("--lines", "auto").parse().expect("auto or never"),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).expect("valid settings");
        let mut graph = match engine.prepare(csr.clone(), workload) {
            Ok(graph) => graph,
            Err(error) => {
                println!("{name:6} {error}");
                continue;
            }
        };
        let bytes =
            if workload.sssp { column_bytes + csr.weights().as_bytes().len() as u64 } else { column_bytes };
        let sorted_shares = |mut runs: Vec<u64>| {
            runs.sort_unstable();
            runs.into_iter().map(|fetched| 100.0 * fetched as f64 / bytes as f64).collect::<Vec<_>>()
        };
        let (mut cold, mut seconds, mut last) = (Vec::new(), Vec::new(), RunStats::default());
        let repetitions =
            if workload.connected_components || workload.bfs_batch { &sources[..1] } else { &sources[..] };
        for &source in repetitions {
            graph.evict_all().expect("memory");
            last = run(&mut graph, source);
            cold.push(last.paging().bytes_in);
            seconds.push(last.seconds);
        }
        let warm = repetitions.iter().map(|&source| run(&mut graph, source).paging().bytes_in).collect();
        let (cold, warm) = (sorted_shares(cold), sorted_shares(warm));
        seconds.sort_unstable_by(f64::total_cmp);
        let plan = graph.plan();
        println!(
            "{name:6} {:>7.1}% {:>7.1}% {:>7.1}% {:>7.1}% {:>10.4} {:>7.1}%",
            cold[cold.len() / 2],
            cold[0],
            cold[cold.len() - 1],
            warm[warm.len() / 2],
            seconds[seconds.len() / 2],
            100.0 * plan.num_frames as f64 / plan.num_pages as f64
        );
        if arguments::number("--steps", 0) != 0 {
            for (i, step) in last.steps.iter().enumerate() {
                println!(
                    "  {i:>4} {:8} frontier {:>10} edges {:>11} fetched {:>6.1}%",
                    step.scan.name(),
                    step.frontier,
                    step.edges,
                    100.0 * step.paging.bytes_in as f64 / bytes as f64
                );
            }
        }
    }
}
