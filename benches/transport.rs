//! Page throughput by transport, on a GPU or, without one, on the CPU device.
//!
//!     cargo bench --bench transport -- [--mib N] [--page-kib 8] [--threads N] [--latency-us N] [--bandwidth-mb N]
//!                                      [--repeats 3] [--json FILE]
//!
//! The run is one step of a breadth-first search over a row of so many MiB whose edges all lead to one vertex: every page is
//! fetched once, and nearly nothing is done with it. Frames are few, so that pages are evicted. Rates are bytes by the
//! step's time on the device's clock; a row is the median of the repeats after a warm-up.
//!
//! First `direct` beside the queues without a model: what queues cost. Then NICs of the paper's latency and bandwidth (23 us,
//! 6.5 GB/s; on the CPU device 100 times slower, since one thread has one request at a time), one and two. Then a sweep
//! over queue pairs of one entry each, so that as many requests are under way as there are queue pairs: beside each rate what
//! Little's law says, requests under way times page size by (latency + page size / bandwidth), or the bandwidth if that is
//! less. The knee lies at 1 + latency * bandwidth / page size queue pairs.

#[path = "common/arguments.rs"]
mod arguments;

use std::time::Duration;

use gpuvm_engine::graph::{Csr, Weights};
use gpuvm_engine::{
    Access, BfsOptions, DeviceKind, Engine, EngineConfig, NicStats, PageSize, RnicModel, TransportConfig,
    TransportKind, Workload,
};
use serde_json::{Value, json};

const BFS: Workload = Workload { bfs: true, ..Workload::NONE };

struct Bench {
    csr: Csr,
    base: EngineConfig,
    repeats: u64,
    rows: Vec<Value>,
}

/// What a row measured.
struct Measured {
    bytes_per_second: f64,
    nics: Vec<NicStats>,
    num_warps: u32,
}

impl Bench {
    fn measure(&self, transport: TransportConfig) -> Measured {
        let config = EngineConfig { transport, ..self.base.clone() };
        let least = Engine::new(config.clone()).expect("a device").plan(&self.csr, BFS).expect("fits");
        // Twice the frames that all warps at once need, or the least on a GPU, where that is few.
        let page_bytes = config.page_size.bytes();
        let frames = 4 * u64::from(least.num_warps) + 64;
        let gpu_mem = Some(least.least_bytes + frames * (page_bytes + 8));
        let engine = Engine::new(EngineConfig { gpu_mem, ..config }).expect("a device");
        let mut graph = engine.prepare(self.csr.clone(), BFS).expect("the budget is enough");
        let num_warps = graph.plan().num_warps;
        let mut runs = Vec::new();
        for run in 0..=self.repeats {
            graph.evict_all().expect("a working device");
            let answer = graph.bfs(0, &BfsOptions::default()).expect("runs");
            let nics = graph.take_nic_stats();
            assert_eq!(answer.reached, 2, "all edges lead to vertex 1");
            let step = &answer.stats.steps[0];
            assert_eq!(step.paging.bytes_in, self.csr.num_edges() * 4, "every page once");
            if run > 0 {
                runs.push((step.paging.bytes_in as f64 / step.seconds, nics));
            }
        }
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (bytes_per_second, nics) = runs.swap_remove(runs.len() / 2);
        Measured { bytes_per_second, nics, num_warps }
    }

    /// Measures and prints a row; `expected` is what the model says, in bytes a second.
    fn row(&mut self, transport: TransportConfig, expected: impl FnOnce(&Measured) -> Option<f64>) -> f64 {
        let measured = self.measure(transport.clone());
        let expected = expected(&measured);
        let rate = measured.bytes_per_second;
        let TransportConfig { kind, queue_pairs, queue_depth, fault_batch, rnics, rnic_model, .. } =
            transport;
        let queues = match kind {
            TransportKind::Direct => String::new(),
            _ => format!("{rnics} x {queue_pairs} x {queue_depth}, {fault_batch}"),
        };
        let latency = measured.nics.first().map_or(String::new(), |nic| format!("{:.1}", nic.latency_us.p50));
        let depth = measured.nics.first().map_or(String::new(), |nic| format!("{:.1}", nic.mean_queue_depth));
        let per_bell = {
            let sum = |of: fn(&NicStats) -> u64| measured.nics.iter().map(of).sum::<u64>() as f64;
            let bells = sum(|nic| nic.doorbells);
            if bells > 0.0 { format!("{:.1}", sum(|nic| nic.requests) / bells) } else { String::new() }
        };
        println!(
            "{:8} {queues:18} {:30} {:>9.4} {:>9} {:>7} {latency:>9} {depth:>6} {per_bell:>6}",
            kind.name(),
            rnic_model.map_or_else(String::new, |model| model.to_string()),
            rate / 1e9,
            expected.map_or_else(String::new, |rate| format!("{:.4}", rate / 1e9)),
            expected.map_or_else(String::new, |expected| format!("{:.1}%", rate / expected * 100.0)),
        );
        self.rows.push(json!({
            "transport": kind.name(), "rnics": rnics, "queue_pairs": queue_pairs, "queue_depth": queue_depth,
            "fault_batch": fault_batch, "rnic_model": rnic_model.map(|model| model.to_string()),
            "warps": measured.num_warps, "bytes_per_second": rate, "expected_bytes_per_second": expected,
            "nics": measured.nics,
        }));
        rate
    }
}

fn main() {
    let device = DeviceKind::detect();
    let is_cpu = device == DeviceKind::Cpu;
    let page_bytes = arguments::number("--page-kib", 8) << 10;
    let threads = arguments::number("--threads", 8) as usize;
    let model = RnicModel {
        latency: Duration::from_micros(arguments::number("--latency-us", if is_cpu { 2300 } else { 23 })),
        bandwidth: arguments::number("--bandwidth-mb", if is_cpu { 13 } else { 6500 }) as f64 * 1e6,
    };
    let mib = arguments::number("--mib", if is_cpu { 8 } else { 4096 });
    let num_edges = mib << 18;
    let csr = Csr::new(vec![0, num_edges, num_edges], vec![1; num_edges as usize], Weights::Unit, false);
    let base = EngineConfig {
        device,
        threads: is_cpu.then_some(threads),
        access: Some(Access::Paged),
        page_size: PageSize::new(page_bytes).expect("--page-kib"),
        ..EngineConfig::default()
    };
    let mut bench = Bench {
        csr: csr.expect("valid"),
        base,
        repeats: arguments::number("--repeats", 3).max(1),
        rows: Vec::new(),
    };
    let name = Engine::new(bench.base.clone()).expect("a device").device_name();
    println!("{name}, {mib} MiB, pages of {} KiB", page_bytes >> 10);
    println!(
        "{:8} {:18} {:30} {:>9} {:>9} {:>7} {:>9} {:>6} {:>6}",
        "", "NICs x pairs x depth, batch", "model", "GB/s", "expected", "", "p50 us", "depth", "/bell"
    );

    let default = TransportConfig::default();
    let with = |kind, rnics| TransportConfig { kind, rnics, ..default.clone() };
    let direct = bench.row(default.clone(), |_| None);
    for kind in [TransportKind::Device, TransportKind::Host] {
        for rnics in [1, 2] {
            bench.row(with(kind, rnics), |_| Some(direct));
        }
    }

    // Who stands for NICs: on a GPU warps, whose rates are a GPU's; on the CPU device threads, which have many requests at
    // a time.
    let kind = if is_cpu { TransportKind::Host } else { TransportKind::Device };
    let law = |under_way: f64| {
        let seconds = model.latency.as_secs_f64() + page_bytes as f64 / model.bandwidth;
        (under_way * page_bytes as f64 / seconds).min(model.bandwidth)
    };
    for rnics in [1, 2] {
        let transport = TransportConfig { rnic_model: Some(model), ..with(kind, rnics) };
        bench.row(transport, |measured| {
            let nics = f64::from(rnics);
            Some(nics * law(f64::from(measured.num_warps) / nics))
        });
    }
    let most = if is_cpu { threads as u32 } else { 84 };
    let sweep = [1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 84];
    for queue_pairs in sweep.into_iter().filter(|&pairs| pairs <= most) {
        let queues = TransportConfig { queue_pairs, queue_depth: 1, fault_batch: 1, ..with(kind, 1) };
        let transport = TransportConfig { rnic_model: Some(model), ..queues };
        bench.row(transport, |measured| Some(law(f64::from(queue_pairs.min(measured.num_warps)))));
    }
    println!(
        "knee: {:.1} requests under way",
        1.0 + model.latency.as_secs_f64() * model.bandwidth / page_bytes as f64
    );
    let path = arguments::word("--json", "");
    if !path.is_empty() {
        let report =
            json!({ "device": name, "page_bytes": page_bytes, "bytes": mib << 20, "rows": bench.rows });
        std::fs::write(&path, report.to_string()).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}
