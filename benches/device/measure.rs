//! Runs of one algorithm on one prepared graph: their seconds, and whether the answer is right.

use std::fmt;

use gpuvm_engine::graph::{Csr, VertexId};
use gpuvm_engine::verify::{self, BfsLimit, SsspLimit};
use gpuvm_engine::{
    BfsOptions, Distances, Engine, EngineConfig, Error, Level, PagingStats, PreparedGraph, RunStats,
    SsspOptions, StepStats, UNREACHED, Workload,
};
use rayon::prelude::*;
use serde::Serialize;

use crate::report::Temperature;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    Bfs,
    #[serde(rename = "cc")]
    Components,
    Sssp,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Bfs => "bfs",
            Self::Components => "cc",
            Self::Sssp => "sssp",
        }
    }

    pub fn workload(self) -> Workload {
        Workload {
            bfs: self == Self::Bfs,
            connected_components: self == Self::Components,
            sssp: self == Self::Sssp,
            ..Workload::NONE
        }
    }

    /// Bytes that an edge has on the link.
    fn edge_bytes(self, csr: &Csr) -> u64 {
        let weight = if self == Self::Sssp { csr.weights().weight_type().bytes() } else { 0 };
        size_of::<VertexId>() as u64 + u64::from(weight)
    }
}

/// A value a vertex.
#[derive(Debug, PartialEq)]
enum Answer {
    Levels(Vec<Level>),
    Labels(Vec<VertexId>),
    Distances(Distances),
}

/// The right answer from the first source, or from each: certified on the host when it is first seen, compared from then on.
pub struct Oracle {
    algorithm: Algorithm,
    certifies_all: bool,
    right: Vec<(VertexId, Answer)>,
}

impl Oracle {
    pub fn new(algorithm: Algorithm, certifies_all: bool) -> Self {
        Self { algorithm, certifies_all, right: Vec::new() }
    }

    fn check(&mut self, csr: &Csr, source: VertexId, answer: Answer) -> Result<(), String> {
        // Components have no source.
        let source = if self.algorithm == Algorithm::Components { 0 } else { source };
        match self.right.iter().find(|(known, _)| *known == source) {
            Some((_, right)) => {
                if *right != answer {
                    return Err(format!("wrong: the answer from {source} is not the one that was certified"));
                }
            }
            None if !self.certifies_all && !self.right.is_empty() => {}
            None => {
                let certified = match &answer {
                    Answer::Levels(levels) => verify::bfs(csr, source, BfsLimit::default(), levels, None),
                    Answer::Labels(labels) => verify::connected_components(csr, labels),
                    Answer::Distances(found) => verify::sssp(csr, source, SsspLimit::default(), found, None),
                };
                certified.map_err(|difference| format!("wrong: from {source}: {difference}"))?;
                self.right.push((source, answer));
            }
        }
        Ok(())
    }
}

/// One run, or the median of several.
#[derive(Clone, Debug)]
pub struct Run {
    /// By the device's clock.
    pub seconds: f64,
    /// What the caller waited.
    pub whole_seconds: f64,
    /// Of the vertices reached.
    pub edges: u64,
    /// Bytes of the edges looked at.
    pub looked_at_bytes: u64,
    /// Bytes of all edges.
    pub graph_bytes: u64,
    pub levels: u64,
    pub paging: PagingStats,
    /// The step that fetched most, and its number.
    pub largest_step: Option<(usize, StepStats)>,
}

/// The run of median seconds, with the range of all.
#[derive(Clone, Debug)]
pub struct Measurement {
    pub runs: usize,
    pub median: Run,
    pub least_seconds: f64,
    pub most_seconds: f64,
}

impl Measurement {
    pub fn median(mut runs: Vec<Run>) -> Option<Self> {
        runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let (least, most) = (runs.first()?.seconds, runs.last()?.seconds);
        let count = runs.len();
        Some(Self {
            runs: count,
            least_seconds: least,
            most_seconds: most,
            median: runs.swap_remove(count / 2),
        })
    }
}

/// A prepared graph that one algorithm runs on.
pub struct Runs {
    algorithm: Algorithm,
    graph: PreparedGraph,
    // After the graph: its arrays are given back first.
    _engine: Engine,
}

/// Why a row has no figures.
#[derive(Debug)]
pub enum RunError {
    Failed(Error),
    Wrong(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Wrong(difference) => f.write_str(difference),
        }
    }
}

impl Runs {
    /// Nothing of the edges is copied but what the access asks for: a `Csr` shares its arrays.
    pub fn prepare(algorithm: Algorithm, config: &EngineConfig, csr: &Csr) -> Result<Self, Error> {
        let engine = Engine::new(config.clone())?;
        let graph = engine.prepare(csr.clone(), algorithm.workload())?;
        Ok(Self { algorithm, graph, _engine: engine })
    }

    /// The median over the sources. One run goes before, which does not count: it makes warm what is to be warm.
    pub fn measure(
        &mut self,
        sources: &[VertexId],
        temperature: Temperature,
        oracle: &mut Oracle,
    ) -> Result<Measurement, RunError> {
        self.run(sources[0], oracle)?;
        if temperature == Temperature::Warm && sources.len() > 1 {
            // So that the first source does not find its own pages.
            self.run(sources[sources.len() - 1], oracle)?;
        }
        let mut runs = Vec::new();
        for &source in sources {
            if temperature == Temperature::Cold {
                self.graph.evict_all().map_err(RunError::Failed)?;
            }
            runs.push(self.run(source, oracle)?);
        }
        Ok(Measurement::median(runs).expect("there are sources"))
    }

    pub fn run(&mut self, source: VertexId, oracle: &mut Oracle) -> Result<Run, RunError> {
        let (stats, answer) = self.answer(source).map_err(RunError::Failed)?;
        let csr = self.graph.csr();
        let edges_of = |is_reached: &(dyn Fn(VertexId) -> bool + Sync)| {
            let vertices = (0..csr.num_vertices() as VertexId).into_par_iter();
            vertices.filter(|&v| is_reached(v)).map(|v| csr.out_degree(csr.row_of(v))).sum::<u64>()
        };
        let edges = match &answer {
            Answer::Levels(levels) => edges_of(&|v| levels[v as usize] != UNREACHED),
            Answer::Labels(_) => csr.num_edges(),
            Answer::Distances(distances) => edges_of(&|v| distances.is_reached(v)),
        };
        let levels = match &answer {
            // Of very many steps only the first have figures of their own.
            Answer::Levels(levels) => levels
                .par_iter()
                .filter(|&&level| level != UNREACHED)
                .max()
                .map_or(0, |&level| u64::from(level) + 1),
            _ => stats.steps.len() as u64,
        };
        oracle.check(csr, source, answer).map_err(RunError::Wrong)?;
        let edge_bytes = self.algorithm.edge_bytes(csr);
        let largest = stats.steps.iter().copied().enumerate().max_by_key(|(_, step)| step.paging.bytes_in);
        Ok(Run {
            seconds: stats.steps.iter().map(|step| step.seconds).sum(),
            whole_seconds: stats.seconds,
            edges,
            looked_at_bytes: stats.edges() * edge_bytes,
            graph_bytes: csr.num_edges() * edge_bytes,
            levels,
            paging: stats.paging(),
            largest_step: largest.filter(|(_, step)| step.paging.bytes_in > 0),
        })
    }

    fn answer(&mut self, source: VertexId) -> Result<(RunStats, Answer), Error> {
        Ok(match self.algorithm {
            Algorithm::Bfs => {
                let found = self.graph.bfs(source, &BfsOptions::default())?;
                (found.stats, Answer::Levels(found.levels))
            }
            Algorithm::Components => {
                let found = self.graph.connected_components()?;
                (found.stats, Answer::Labels(found.labels))
            }
            Algorithm::Sssp => {
                let found = self.graph.sssp(source, &SsspOptions::default())?;
                (found.stats, Answer::Distances(found.distances))
            }
        })
    }
}
