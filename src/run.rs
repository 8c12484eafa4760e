//! `bfs`, `cc`, `pagerank`, `sssp` and `plan`: everything that can be refused is refused before the first step.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use anyhow::{Error, Result, anyhow};
use gpuvm_engine::graph::{Csr, VertexId};
use gpuvm_engine::verify::{self, BfsLimit, Difference, SsspLimit};
use gpuvm_engine::{
    BfsOptions, BfsResult, ComponentsResult, Distances, Engine, PageRankOptions, PageRankResult,
    PreparedGraph, RunStats, SsspOptions, SsspResult,
};
use gpuvm_loaders::{LoadedGraph, Progress};

use crate::ids::Ids;
use crate::named::{self, Opened};
use crate::output::{JsonSink, Output, refuse_same_file};
use crate::progress::Watch;
use crate::report::{self, GraphReport, RunReport, Timings};
use crate::settings::{Algorithm, RunSettings};

/// What an algorithm found.
#[derive(Clone, Debug)]
pub enum Answer {
    Bfs(BfsResult),
    Components(ComponentsResult),
    PageRank(PageRankResult),
    Sssp(SsspResult),
}

impl Answer {
    /// What the value of a vertex is called.
    pub fn value_name(&self) -> &'static str {
        match self {
            Self::Bfs(_) => "level",
            Self::Components(_) => "component",
            Self::PageRank(_) => "rank",
            Self::Sssp(_) => "distance",
        }
    }

    pub fn num_vertices(&self) -> u64 {
        match self {
            Self::Bfs(result) => result.levels.len() as u64,
            Self::Components(result) => result.labels.len() as u64,
            Self::PageRank(result) => result.ranks.len() as u64,
            Self::Sssp(result) => result.distances.len() as u64,
        }
    }

    pub fn source(&self) -> Option<VertexId> {
        match self {
            Self::Bfs(result) => Some(result.source),
            Self::Components(_) | Self::PageRank(_) => None,
            Self::Sssp(result) => Some(result.source),
        }
    }

    pub fn parents(&self) -> Option<&[VertexId]> {
        match self {
            Self::Bfs(result) => result.parents.as_deref(),
            Self::Components(_) | Self::PageRank(_) => None,
            Self::Sssp(result) => result.parents.as_deref(),
        }
    }

    pub fn stats(&self) -> &RunStats {
        match self {
            Self::Bfs(result) => &result.stats,
            Self::Components(result) => &result.stats,
            Self::PageRank(result) => &result.stats,
            Self::Sssp(result) => &result.stats,
        }
    }

    /// Whether the run reached `v`; components and ranks reach every vertex.
    pub fn is_reached(&self, v: VertexId) -> bool {
        match self {
            Self::Bfs(result) => result.levels[v as usize] != gpuvm_engine::UNREACHED,
            Self::Components(_) | Self::PageRank(_) => true,
            Self::Sssp(result) => result.distances.is_reached(v),
        }
    }

    /// Level, distance, component or rank of `v`, in the type of the answer; `None` if it was not reached.
    pub fn value(&self, v: VertexId) -> Option<verify::Distance> {
        self.is_reached(v).then(|| match self {
            Self::Bfs(result) => verify::Distance::Integer(result.levels[v as usize].into()),
            Self::Components(result) => verify::Distance::Integer(result.labels[v as usize].into()),
            Self::PageRank(result) => verify::Distance::Real(result.ranks[v as usize]),
            Self::Sssp(result) => match &result.distances {
                Distances::Integer(distances) => verify::Distance::Integer(distances[v as usize]),
                Distances::Real(distances) => verify::Distance::Real(distances[v as usize]),
            },
        })
    }
}

/// `--verify` found a difference: exit code 1.
#[derive(Debug)]
pub struct WrongAnswer {
    source: Option<VertexId>,
    difference: Difference,
}

impl fmt::Display for WrongAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = self.source {
            write!(f, "from source {source}: ")?;
        }
        self.difference.fmt(f)
    }
}

impl std::error::Error for WrongAnswer {}

/// Runs an algorithm from every source, and reports.
pub fn run(settings: &RunSettings, quiet: bool, watch: &Watch) -> Result<()> {
    let Job { engine, mut output, json, csr, ids, graph: graph_report, mut timings } =
        Job::open(settings, watch)?;
    let runs: Vec<Option<VertexId>> = match settings.algorithm {
        Algorithm::ConnectedComponents | Algorithm::PageRank(_) => vec![None],
        _ => settings.sources(&csr, &ids)?.into_iter().map(Some).collect(),
    };
    let target = settings.target(&csr, &ids)?;
    if let Some(output) = &mut output {
        output.expect_runs(runs.len(), &ids)?;
    }

    // Before the graph takes the memory that a measurement needs.
    let link_rate = if settings.profile { link_rate(&engine) } else { None };
    let started = Instant::now();
    let prepared = engine.prepare(csr.clone(), settings.workload());
    let mut graph = prepared.map_err(|error| with_cure(error, &settings.graph, &csr))?;
    timings.prepare_seconds = Some(started.elapsed().as_secs_f64());
    let mut report =
        RunReport::new(settings, engine.device_name(), graph_report, graph.plan().clone(), timings);
    report.link_bytes_per_second = link_rate;

    watch.begin(settings.algorithm.name(), runs.len() as u64);
    for source in runs {
        tracing::info!(source, "{} begins", settings.algorithm.name());
        let answer = find(settings, &mut graph, source, target)?;
        watch.interrupt.check()?;
        if settings.verify {
            check(settings.algorithm, &csr, target, &answer)?;
            watch.interrupt.check()?;
        }
        report.add(&answer, &csr, &ids, target, graph.take_nic_stats());
        if let Some(output) = &mut output {
            output.push(answer)?;
            watch.interrupt.check()?;
        }
        watch.advance(1);
    }
    watch.end();
    report.verified = settings.verify.then_some(true);
    if let Some(output) = output {
        report.output = Some(output.target().to_owned());
        output.keep()?;
    }
    report::deliver(&report, json, quiet)
}

/// What the link to the GPU gives, to compare steps with; a run is worth its figures without it, too.
fn link_rate(engine: &Engine) -> Option<f64> {
    engine.link_rate().unwrap_or_else(|error| {
        tracing::warn!("the link's rate is not known: {:#}", Error::new(error));
        None
    })
}

/// Prints what a run would take.
pub fn plan(settings: &RunSettings, quiet: bool, watch: &Watch) -> Result<()> {
    let Job { engine, json, csr, graph, timings, .. } = Job::open(settings, watch)?;
    let plan =
        engine.plan(&csr, settings.workload()).map_err(|error| with_cure(error, &settings.graph, &csr))?;
    report::deliver(&RunReport::new(settings, engine.device_name(), graph, plan, timings), json, quiet)
}

/// A run whose settings are possible, whose files can be written and whose graph is loaded.
struct Job {
    engine: Engine,
    output: Option<Output>,
    json: JsonSink,
    csr: Csr,
    ids: Ids,
    graph: GraphReport,
    timings: Timings,
}

impl Job {
    fn open(settings: &RunSettings, watch: &Watch) -> Result<Self> {
        let engine = Engine::new(settings.config.clone())?;
        watch.interrupt.stops(engine.cancel_handle());
        let output = match &settings.output {
            Some(path) => {
                refuse_same_file(path, &settings.graph)?;
                Some(Output::create(path, settings.parents())?)
            }
            None => None,
        };
        let json = JsonSink::create(&settings.json, Some(&settings.graph))?;

        let started = Instant::now();
        let Opened { graph: LoadedGraph { mut csr, mut summary, ids }, cache } =
            named::open(&settings.graph, &settings.load, settings.cache_dir.as_deref(), watch)?;
        if let Some(order) = settings.order {
            watch.interrupt.check()?;
            let started = Instant::now();
            let order = order.of(&csr);
            csr = csr.in_order(order)?;
            summary.build_seconds += started.elapsed().as_secs_f64();
        }
        let timings = Timings::of_load(started.elapsed(), &summary);
        watch.interrupt.check()?;
        let graph = GraphReport::new(&settings.graph, &csr, summary, cache);
        Ok(Self { engine, output, json, csr, ids: Ids::new(ids), graph, timings })
    }
}

/// One run; `source` is `None` for components and ranks.
fn find(
    settings: &RunSettings,
    graph: &mut PreparedGraph,
    source: Option<VertexId>,
    target: Option<VertexId>,
) -> Result<Answer> {
    let parents = settings.parents();
    let source = source.unwrap_or_default();
    Ok(match settings.algorithm {
        Algorithm::Bfs { depth_limit } => {
            Answer::Bfs(graph.bfs(source, &BfsOptions { depth_limit, target, parents })?)
        }
        Algorithm::ConnectedComponents => Answer::Components(graph.connected_components()?),
        Algorithm::PageRank(options) => Answer::PageRank(graph.page_rank(&options)?),
        Algorithm::Sssp { distance_limit, delta } => {
            Answer::Sssp(graph.sssp(source, &SsspOptions { distance_limit, target, parents, delta })?)
        }
    })
}

/// Whether `answer` is right.
fn check(
    algorithm: Algorithm,
    csr: &Csr,
    target: Option<VertexId>,
    answer: &Answer,
) -> Result<(), WrongAnswer> {
    let (mut depth, mut distance, mut ranks) = (None, None, PageRankOptions::default());
    match algorithm {
        Algorithm::Bfs { depth_limit } => depth = depth_limit,
        Algorithm::ConnectedComponents => {}
        Algorithm::PageRank(options) => ranks = options,
        Algorithm::Sssp { distance_limit, .. } => distance = distance_limit,
    }
    let checked = match answer {
        Answer::Bfs(found) => verify::bfs(
            csr,
            found.source,
            BfsLimit { depth, target },
            &found.levels,
            found.parents.as_deref(),
        ),
        Answer::Components(found) => verify::connected_components(csr, &found.labels),
        Answer::PageRank(found) => {
            let change = (found.iterations > 0).then_some(found.change);
            verify::page_rank(csr, &ranks, change, &found.ranks)
        }
        Answer::Sssp(found) => {
            let limit = SsspLimit { distance, target };
            verify::sssp(csr, found.source, limit, &found.distances, found.parents.as_deref())
        }
    };
    checked.map_err(|difference| WrongAnswer { source: answer.source(), difference })
}

/// The error with what would help against it.
fn with_cure(error: gpuvm_engine::Error, path: &Path, csr: &Csr) -> Error {
    let edge_name = |edge: u64| {
        let u = csr.row_offsets().partition_point(|&offset| offset <= edge) - 1;
        let (u, v) = (csr.original_id(u as VertexId), csr.original_id(csr.column_indices()[edge as usize]));
        format!("{}: edge {u} -> {v}", path.display())
    };
    match error {
        gpuvm_engine::Error::BudgetTooSmall { least_bytes, .. } => {
            anyhow!("{error}: use --gpu-mem {least_bytes} or more")
        }
        gpuvm_engine::Error::LargerThanHostMemory { .. } => {
            anyhow!("{error}: use --device cpu, which reads the file as it is needed")
        }
        gpuvm_engine::Error::TransportWithoutPages { .. } => anyhow!("{error}; see --access and --transport"),
        gpuvm_engine::Error::ChunkEdges { .. } => anyhow!("{error}; see --chunk-edges and --page-size"),
        gpuvm_engine::Error::NegativeWeight { edge, weight } => anyhow!(
            "{} weighs {weight}, sssp needs weights that are not negative: use --weights abs, unit or hash",
            edge_name(edge)
        ),
        gpuvm_engine::Error::NonFiniteWeight { edge, weight } => {
            anyhow!(
                "{} weighs {weight}, sssp needs finite weights: use --weights unit or hash",
                edge_name(edge)
            )
        }
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use gpuvm_engine::graph::Weights;
    use gpuvm_engine::{EngineConfig, Workload};

    use super::*;
    use crate::failure;

    /// 0 -> 1 -> 2 and, farther, 0 -> 2; 3 is alone.
    fn graph(weights: Weights) -> (Csr, PreparedGraph) {
        let csr = Csr::new(vec![0, 2, 3, 3, 3], vec![1, 2, 2], weights, false).expect("valid");
        let engine =
            Engine::new(EngineConfig { threads: Some(1), ..EngineConfig::default() }).expect("valid");
        (csr.clone(), engine.prepare(csr, Workload::ALL).expect("fits"))
    }

    fn message_and_code(checked: Result<(), WrongAnswer>) -> (String, u8) {
        failure(&checked.expect_err("one entry is wrong").into())
    }

    #[test]
    fn wrong_level_is_a_difference_with_exit_code_1() {
        let (csr, mut graph) = graph(Weights::Unit);
        let mut found = graph.bfs(0, &BfsOptions::default()).expect("runs");
        let algorithm = Algorithm::Bfs { depth_limit: None };
        assert!(check(algorithm, &csr, None, &Answer::Bfs(found.clone())).is_ok());
        found.levels[2] = 2;
        let (message, code) = message_and_code(check(algorithm, &csr, None, &Answer::Bfs(found)));
        assert_eq!(
            message,
            "difference: from source 0: vertex 2: level 1 expected from its neighbour 0, got 2"
        );
        assert_eq!(code, 1);
    }

    #[test]
    fn wrong_parent_is_a_difference_with_exit_code_1() {
        let (csr, mut graph) = graph(Weights::Unit);
        let mut found = graph.bfs(0, &BfsOptions { parents: true, ..BfsOptions::default() }).expect("runs");
        found.parents.as_mut().expect("asked for")[2] = 1;
        let algorithm = Algorithm::Bfs { depth_limit: None };
        let (message, code) = message_and_code(check(algorithm, &csr, None, &Answer::Bfs(found)));
        assert_eq!(message, "difference: from source 0: vertex 2: a parent such as 0 expected, got 1");
        assert_eq!(code, 1);
    }

    #[test]
    fn wrong_component_is_a_difference_with_exit_code_1() {
        let (csr, mut graph) = graph(Weights::Unit);
        let mut found = graph.connected_components().expect("runs");
        let algorithm = Algorithm::ConnectedComponents;
        assert!(check(algorithm, &csr, None, &Answer::Components(found.clone())).is_ok());
        found.labels[3] = 0;
        let (message, code) = message_and_code(check(algorithm, &csr, None, &Answer::Components(found)));
        assert_eq!(message, "difference: vertex 3: label 3 expected, the smallest of its component, got 0");
        assert_eq!(code, 1);
    }

    #[test]
    fn wrong_distance_is_a_difference_with_exit_code_1() {
        let (csr, mut graph) = graph(Weights::F32(vec![0.5, 2.0, 0.25].into()));
        let mut found = graph.sssp(0, &SsspOptions::default()).expect("runs");
        let algorithm = Algorithm::Sssp { distance_limit: None, delta: None };
        assert!(check(algorithm, &csr, None, &Answer::Sssp(found.clone())).is_ok());
        found.distances = Distances::Real(vec![0.0, 0.5, 2.0, f64::INFINITY]);
        let (message, code) = message_and_code(check(algorithm, &csr, None, &Answer::Sssp(found)));
        assert_eq!(
            message,
            "difference: from source 0: vertex 2: distance 0.75 expected from its neighbour 1, got 2"
        );
        assert_eq!(code, 1);
    }

    #[test]
    fn limits_are_those_of_the_run() {
        let (csr, mut graph) = graph(Weights::U8(vec![5, 20, 5].into()));
        let limited = graph
            .sssp(0, &SsspOptions { distance_limit: Some(7.0), ..SsspOptions::default() })
            .expect("runs");
        let answer = Answer::Sssp(limited);
        assert!(
            check(Algorithm::Sssp { distance_limit: Some(7.0), delta: None }, &csr, None, &answer).is_ok()
        );
        assert!(check(Algorithm::Sssp { distance_limit: None, delta: None }, &csr, None, &answer).is_err());
        let answer = Answer::Bfs(
            graph.bfs(1, &BfsOptions { target: Some(1), ..BfsOptions::default() }).expect("runs"),
        );
        assert!(check(Algorithm::Bfs { depth_limit: None }, &csr, Some(1), &answer).is_ok());
        assert!(check(Algorithm::Bfs { depth_limit: None }, &csr, None, &answer).is_err());
    }

    #[test]
    fn anything_else_is_an_error_with_exit_code_2_and_its_causes() {
        let error = Error::new(std::io::Error::other("disk full")).context("out.csv: cannot be written");
        assert_eq!(failure(&error), ("error: out.csv: cannot be written: disk full".to_owned(), 2));
    }
}
