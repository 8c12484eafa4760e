//! BFS, components and SSSP on a GPU, in one run and one table: every access, both variants, paged at budgets of 100% to
//! 12.5% of the edges, cold and warm; then grids, whose many levels show what a level costs.
//!
//!     cargo bench --bench device -- [--graph kron,urand] [--scale 24] [--only bfs,cc,sssp,grid] [--json FILE]
//!     cargo bench --bench device -- --graph kron --scale 27 --accesses paged --budgets 8G --variants balanced
//!     cargo bench --bench device -- --graph FILE.gvg --accesses paged --budgets 8G --variants balanced
//!
//! The graphs are GAP's, with heads and in the order that suits them, as `gpuvm-graph generate` lays them out, or files.
//! The sources are the first of GAP's own choice that have two edges or more, the same for every row. A row is a median;
//! `runs` says of how many. **Cold**: no page is resident at first. **Warm**: the run before, from another source, has
//! left what it could. Seconds are those of the traversal by the device's clock, without copying the answer to the host;
//! `whole` is what a caller waits for, with vertex state, launch and the answer in host memory. GTEPS are the edges of the
//! vertices reached by the seconds. Levels are those of BFS; of the others the steps.
//!
//! `share` is the rate of bytes in by the rate that the copy engine reaches in this run. Paged rows count their bytes.
//! The others do not: for them `~` stands before the share of the bytes of the edges looked at, for unified memory of all
//! edges at most. Nothing crosses the link for `resident` and in warm unified memory.
//!
//! One answer an algorithm is certified on the host, or, with `--certify-all`, that from every source, and every row must
//! give the same: a row that is fast and wrong ends the program with exit code 1.

mod measure;
mod report;

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use clap::{Parser, ValueEnum};
use gpuvm_datasets::{GapGenerator, GapKind, GapRule, GapWeights, Grid, NamedGraph};
use gpuvm_engine::graph::{Csr, VertexId};
use gpuvm_engine::{Access, DeviceKind, Engine, EngineConfig, Error, Lines, Variant};
use gpuvm_loaders::LoadOptions;
use serde::Serialize;

use measure::{Algorithm, Measurement, Oracle, Runs};
use report::{Report, Row, Temperature};

/// Traversals on a GPU, measured.
#[derive(Parser)]
struct Options {
    /// The graphs to run on: GAP's kron and urand, or a file
    #[arg(long, value_delimiter = ',', default_value = "kron,urand")]
    graph: Vec<GraphChoice>,
    /// Binary logarithm of the vertices of GAP's graphs: 24 for every change, 27 for the record
    #[arg(long, default_value_t = 24)]
    scale: u32,
    /// Sources of a BFS or SSSP row
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    sources: u32,
    /// Runs of a row of components, of the naive variant, of unified memory and of a grid
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// What to run
    #[arg(long, value_delimiter = ',', default_value = "bfs,cc,sssp,grid")]
    only: Vec<Section>,
    /// How edges are reached; managed stands for managed-read-mostly as well
    #[arg(long, value_delimiter = ',', default_value = "resident,zero-copy,paged,managed")]
    accesses: Vec<Access>,
    /// Paged rows: frames in percent of the pages (25%), or device memory for everything (8G)
    #[arg(long, value_delimiter = ',', default_value = "100%,50%,25%,12.5%")]
    budgets: Vec<Budget>,
    /// Paged rows of BFS: whether it may read lines of 128 bytes instead of pages
    #[arg(long, value_delimiter = ',', default_value = "auto")]
    lines: Vec<Lines>,
    /// Certify the answer from every source, not that from the first alone
    #[arg(long)]
    certify_all: bool,
    /// How work is cut; rows of the naive variant are cold
    #[arg(long, value_delimiter = ',', default_value = "balanced,naive")]
    variants: Vec<Variant>,
    /// The grids to run BFS on, from a corner
    #[arg(long, value_delimiter = ',', default_value = "grid:6000x6000,grid:200x30000", value_parser = grid)]
    grids: Vec<Grid>,
    /// Rows that would begin later are skipped, and named
    #[arg(long, value_name = "SECONDS")]
    time_limit: Option<u64>,
    /// Where to write every row as JSON, again after each
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to run: cuda:N, or cpu to try the program out
    #[arg(long, default_value = "cuda:0")]
    device: DeviceKind,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone)]
enum GraphChoice {
    Gap(GapKind),
    File(PathBuf),
}

impl FromStr for GraphChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.parse().map_or_else(|_| Self::File(text.into()), Self::Gap))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    Bfs,
    Cc,
    Sssp,
    Grid,
}

const ALGORITHMS: [(Section, Algorithm); 3] =
    [(Section::Bfs, Algorithm::Bfs), (Section::Cc, Algorithm::Components), (Section::Sssp, Algorithm::Sssp)];

/// What a paged row may take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Budget {
    /// Frames, in percent of the pages.
    Percent(f64),
    /// Bytes of device memory, for everything.
    Bytes(u64),
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || format!("'{text}' is no budget, use 25% or 8G");
        match text.strip_suffix('%') {
            Some(percent) => percent.parse().map(Self::Percent).map_err(|_| error()),
            None => {
                parse_size::Config::new().with_binary().parse_size(text).map(Self::Bytes).map_err(|_| error())
            }
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Bytes(bytes) => write!(f, "{}", ByteSize(*bytes)),
        }
    }
}

fn grid(name: &str) -> Result<Grid, String> {
    match name.parse() {
        Ok(NamedGraph::Grid(grid)) => Ok(grid),
        Ok(_) => Err("no grid, use grid:WIDTHxHEIGHT".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn main() {
    let options = Options::parse();
    let config = EngineConfig { device: options.device, ..EngineConfig::default() };
    // Held to the end: engines that come and go share its context.
    let engine = Engine::new(config.clone()).unwrap_or_else(|error| fail(2, &error.to_string()));
    let link =
        engine.link_rate().unwrap_or_else(|error| fail(2, &format!("the link cannot be measured: {error}")));
    let deadline = options.time_limit.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut bench = Bench {
        config,
        repeats: options.repeats as usize,
        accesses: options.accesses.clone(),
        budgets: options.budgets.clone(),
        lines: options.lines.clone(),
        certify_all: options.certify_all,
        deadline,
        report: Report::new(engine.device_name(), link, options.json.clone()),
    };

    let algorithms: Vec<Algorithm> =
        ALGORITHMS.iter().filter(|(section, _)| options.only.contains(section)).map(|&(_, a)| a).collect();
    for choice in options.graph.iter().filter(|_| !algorithms.is_empty()) {
        let name = choice.name(options.scale);
        if bench.is_over() {
            bench.report.skip(name);
            continue;
        }
        let started = Instant::now();
        let csr = choice.lay_out(options.scale).unwrap_or_else(|error| fail(2, &format!("{name}: {error}")));
        bench.report.graph(&name, &csr, started.elapsed());
        let sources = sources(&csr, options.sources as usize);
        if sources.is_empty() {
            fail(2, &format!("{name}: no vertex has two edges, use a larger graph"));
        }
        let mut graph = Graph { name, csr, sources, oracles: Vec::new() };
        for &variant in &options.variants {
            for &algorithm in &algorithms {
                bench.all_accesses(&mut graph, algorithm, variant);
            }
        }
    }
    for &grid in options.grids.iter().filter(|_| options.only.contains(&Section::Grid)) {
        bench.grid(grid);
    }
    bench.report.finish();
}

fn fail(code: i32, message: &str) -> ! {
    eprintln!("error: {message}");
    std::process::exit(code);
}

impl GraphChoice {
    fn name(&self, scale: u32) -> String {
        match self {
            Self::Gap(kind) => format!("{kind}-{scale}"),
            Self::File(path) => path.file_stem().unwrap_or(path.as_os_str()).display().to_string(),
        }
    }

    /// A graph of GAP's in memory, with heads and in the order that suits it, or a file as it stands.
    fn lay_out(&self, scale: u32) -> Result<Csr, Box<dyn std::error::Error>> {
        match self {
            Self::Gap(kind) => {
                let csr = GapGenerator::new(*kind, scale).generate(GapWeights::Gap, &())?;
                let order = csr.suitable_order();
                let csr = csr.in_order(order)?;
                let heads = csr.suitable_heads();
                Ok(csr.with_heads(heads)?)
            }
            Self::File(path) => Ok(gpuvm_loaders::load(path, &LoadOptions::default(), &())?.csr),
        }
    }
}

/// The first `count` sources of GAP's choice that have at least two edges, each once.
fn sources(csr: &Csr, count: usize) -> Vec<VertexId> {
    let mut sources = Vec::new();
    for source in GapRule::SuiteSparse.sources(csr, count * 16) {
        if csr.out_degree(csr.row_of(source)) >= 2 && !sources.contains(&source) {
            sources.push(source);
        }
    }
    sources.truncate(count);
    sources
}

/// A graph, and what is known to be right on it.
struct Graph {
    name: String,
    csr: Csr,
    sources: Vec<VertexId>,
    oracles: Vec<(Algorithm, Oracle)>,
}

impl Graph {
    fn oracle(&mut self, algorithm: Algorithm, certifies_all: bool) -> &mut Oracle {
        let place = self.oracles.iter().position(|(known, _)| *known == algorithm).unwrap_or_else(|| {
            self.oracles.push((algorithm, Oracle::new(algorithm, certifies_all)));
            self.oracles.len() - 1
        });
        &mut self.oracles[place].1
    }
}

struct Bench {
    config: EngineConfig,
    repeats: usize,
    accesses: Vec<Access>,
    budgets: Vec<Budget>,
    lines: Vec<Lines>,
    certify_all: bool,
    deadline: Option<Instant>,
    report: Report,
}

impl Bench {
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// All rows of an algorithm. The naive variant has cold ones only, and few runs of each: the scan of a skewed graph
    /// leaves a lane alone with the hub.
    fn all_accesses(&mut self, graph: &mut Graph, algorithm: Algorithm, variant: Variant) {
        let balanced = variant == Variant::Balanced;
        let few = !balanced || algorithm == Algorithm::Components;
        let num_runs = if few { self.repeats } else { graph.sources.len() };
        let with = |access| EngineConfig { access: Some(access), variant, ..self.config.clone() };
        let (resident, zero_copy, paged) =
            (with(Access::Resident), with(Access::ZeroCopy), with(Access::Paged));
        let managed = [with(Access::Managed), with(Access::ManagedReadMostly)];
        let has = |access| self.accesses.contains(&access);
        let (has_resident, has_zero_copy) = (has(Access::Resident), has(Access::ZeroCopy));
        let (has_paged, has_managed) = (has(Access::Paged), has(Access::Managed));
        if has_resident {
            self.rows(graph, algorithm, &resident, None, num_runs, &[Temperature::Warm]);
        }
        if has_zero_copy {
            self.rows(graph, algorithm, &zero_copy, None, num_runs, &[Temperature::Cold]);
        }
        for budget in self.budgets.clone().into_iter().filter(|_| has_paged) {
            let both: &[_] =
                if balanced { &[Temperature::Cold, Temperature::Warm] } else { &[Temperature::Cold] };
            let of_bfs = if algorithm == Algorithm::Bfs { self.lines.clone() } else { vec![Lines::Auto] };
            for lines in of_bfs {
                let config = EngineConfig { lines, ..paged.clone() };
                self.rows(graph, algorithm, &config, Some(budget), num_runs, both);
            }
        }
        for config in managed.into_iter().filter(|_| has_managed) {
            self.unified_rows(graph, algorithm, &config, balanced);
        }
    }

    /// The rows of one prepared graph.
    fn rows(
        &mut self,
        graph: &mut Graph,
        algorithm: Algorithm,
        config: &EngineConfig,
        budget: Option<Budget>,
        num_runs: usize,
        temperatures: &[Temperature],
    ) {
        let row = |temperature| Row::new(&graph.name, algorithm, config, budget, temperature);
        let rows: Vec<Row> = temperatures.iter().map(|&temperature| row(temperature)).collect();
        if self.is_over() {
            return rows.iter().for_each(|row| self.report.skip(row.name()));
        }
        let mut runs = match self.prepare(graph, algorithm, config, budget) {
            Ok(runs) => runs,
            Err(error) => return rows.iter().for_each(|row| self.report.not_run(row.name(), &error)),
        };
        let sources: Vec<VertexId> = graph.sources.iter().copied().cycle().take(num_runs).collect();
        for row in rows {
            if self.is_over() {
                self.report.skip(row.name());
                continue;
            }
            match runs.measure(&sources, row.temperature, graph.oracle(algorithm, self.certify_all)) {
                Ok(measured) => self.report.add(row, measured),
                Err(error) => fail(1, &format!("{}: {error}", row.name())),
            }
        }
    }

    fn prepare(
        &self,
        graph: &Graph,
        algorithm: Algorithm,
        config: &EngineConfig,
        budget: Option<Budget>,
    ) -> Result<Runs, Error> {
        let mut config = config.clone();
        config.gpu_mem = match budget {
            None => None,
            Some(Budget::Bytes(bytes)) => Some(bytes),
            Some(Budget::Percent(percent)) => {
                let plan = Engine::new(config.clone())?.plan(&graph.csr, algorithm.workload())?;
                let frames = (plan.num_pages as f64 * percent / 100.0).ceil() as u64;
                let absent = plan.num_pages - frames.min(plan.num_pages);
                Some(plan.total_bytes - absent * (plan.page_size.bytes() + 8))
            }
        };
        Runs::prepare(algorithm, &config, &graph.csr)
    }

    /// Unified memory, cold and warm: pages cannot be thrown out, so each cold run has a graph of its own.
    fn unified_rows(
        &mut self,
        graph: &mut Graph,
        algorithm: Algorithm,
        config: &EngineConfig,
        with_warm: bool,
    ) {
        let row = |temperature| Row::new(&graph.name, algorithm, config, None, temperature);
        let (cold_row, warm_row) = (row(Temperature::Cold), row(Temperature::Warm));
        let (mut cold, mut warm) = (Vec::new(), Vec::new());
        for i in 0..self.repeats {
            if self.is_over() {
                break;
            }
            let source = |i: usize| graph.sources[i % graph.sources.len()];
            let (first, second) = (source(i), source(i + 1));
            let mut runs = match Runs::prepare(algorithm, config, &graph.csr) {
                Ok(runs) => runs,
                Err(error) => {
                    self.report.not_run(cold_row.name(), &error);
                    if with_warm {
                        self.report.not_run(warm_row.name(), &error);
                    }
                    return;
                }
            };
            let oracle = graph.oracle(algorithm, self.certify_all);
            let measured = runs.run(first, oracle).and_then(|run| {
                cold.push(run);
                with_warm.then(|| runs.run(second, oracle)).transpose()
            });
            match measured {
                Ok(run) => warm.extend(run),
                Err(error) => fail(1, &format!("{}: {error}", cold_row.name())),
            }
        }
        for (row, runs) in [(cold_row, cold), (warm_row, warm)].into_iter().take(1 + usize::from(with_warm)) {
            match Measurement::median(runs) {
                Some(measured) => self.report.add(row, measured),
                None => self.report.skip(row.name()),
            }
        }
    }

    /// BFS of a grid from its corner.
    fn grid(&mut self, grid: Grid) {
        let name = grid.to_string();
        if self.is_over() {
            return self.report.skip(name);
        }
        let started = Instant::now();
        let csr = grid.generate().unwrap_or_else(|error| fail(2, &format!("{name}: {error}")));
        self.report.graph(&name, &csr, started.elapsed());
        let mut graph = Graph { name, csr, sources: vec![0], oracles: Vec::new() };
        let with = |access| EngineConfig { access: Some(access), ..self.config.clone() };
        let (resident, paged) = (with(Access::Resident), with(Access::Paged));
        let both = [Temperature::Cold, Temperature::Warm];
        self.rows(&mut graph, Algorithm::Bfs, &resident, None, self.repeats, &[Temperature::Warm]);
        self.rows(&mut graph, Algorithm::Bfs, &paged, Some(Budget::Percent(100.0)), self.repeats, &both);
        self.rows(&mut graph, Algorithm::Bfs, &paged, Some(Budget::Percent(25.0)), self.repeats, &both);
    }
}
