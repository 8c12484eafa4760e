use std::time::Instant;

use gpuvm_kernels::layout::{PARENTS_NEARER, PARENTS_TIED, SsspArgs, SsspParentsArgs};
use rayon::prelude::*;

use crate::answer::{Distances, NO_PARENT};
use crate::engine::PreparedGraph;
use crate::error::Error;
use crate::frontier::FrontierSize;
use crate::graph::VertexId;
use crate::stats::RunStats;

/// How far a shortest-path search goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SsspOptions {
    /// The largest distance: vertices farther away stay unreached.
    pub distance_limit: Option<f64>,
    /// Vertices farther away than this one stay unreached, if it is reached itself.
    pub target: Option<VertexId>,
    /// Whether to find parents, at the price of one more pass over the edges.
    pub parents: bool,
}

/// What a shortest-path search found.
#[derive(Clone, Debug)]
pub struct SsspResult {
    /// The vertex it started from.
    pub source: VertexId,
    /// Distance of every vertex: integers for integer weights.
    pub distances: Distances,
    /// Parent of every vertex in a shortest-path tree; [`NO_PARENT`] for the source and where no path leads.
    pub parents: Option<Vec<VertexId>>,
    /// Vertices reached, the source among them.
    pub reached: u64,
    /// The largest distance of a vertex reached.
    pub max_distance: f64,
    /// What the run did.
    pub stats: RunStats,
}

/// A distance as kernels hold it: an integer, or the bits of a double that is not negative.
const UNREACHED_BITS: u64 = u64::MAX;

impl PreparedGraph {
    /// Distance of every vertex: the smallest sum of weights on a path from `source`. Weights are not negative; edges
    /// of weight 0, and cycles of them, are fine.
    ///
    /// # Errors
    /// [`Error::SourceOutOfRange`], [`Error::TargetOutOfRange`]; [`Error::NotPrepared`] if the workload was another;
    /// [`Error::Paging`]; [`Error::Interrupted`].
    pub fn sssp(&mut self, source: VertexId, options: &SsspOptions) -> Result<SsspResult, Error> {
        self.check_source(source)?;
        self.check_target(options.target)?;
        if !self.workload.sssp {
            return Err(Error::NotPrepared { missing: "SSSP" });
        }
        if options.parents && !self.workload.parents {
            return Err(Error::NotPrepared { missing: "parents" });
        }
        let started = Instant::now();
        let integer = self.csr().weights().weight_type().is_integer();
        let mut limit = match options.distance_limit {
            None => UNREACHED_BITS - 1,
            // A limit that is negative or no number: only the source is so near.
            Some(limit) if limit.is_nan() || limit <= 0.0 => 0,
            Some(limit) if integer => (limit as u64).min(UNREACHED_BITS - 1),
            Some(limit) => limit.to_bits(),
        };
        self.distances.fill(UNREACHED_BITS);
        self.distances.as_mut_slice()[source as usize] = 0;
        self.stamps.fill(0);
        self.stamps.as_mut_slice()[source as usize] = 1;

        let csr = self.graph.csr();
        let mut frontier_edges = csr.out_degree(source);
        let mut size = self.frontiers[0].start(csr, self.graph.chunk_edges(), source);
        let (mut frontier, mut number) = (1, 1_u32);
        let mut stats = RunStats::default();
        while frontier_edges > 0 {
            let scan = self.scan_for(frontier_edges);
            let traversal = self.traversal(scan, (number as usize + 1) % 2, size, true);
            let args = SsspArgs {
                traversal,
                distances: self.distances.address(),
                stamps: self.stamps.address(),
                bound: options.target.map_or(0, |target| self.distances.address() + 8 * u64::from(target)),
                limit,
                step: number,
                reserved: 0,
            };
            let (counters, step) = self.step(&args, &traversal, scan, frontier)?;
            stats.steps.push(step);
            size =
                FrontierSize { vertices: counters.next_vertices, continuations: counters.next_continuations };
            frontier_edges = counters.next_edges;
            frontier = counters.discovered;
            number += 1;
        }

        if let Some(target) = options.target {
            // What was reached before the target was may lie beyond it, and need not be final.
            limit = limit.min(self.distances.as_slice()[target as usize]);
            let beyond = |distance: &&mut u64| **distance > limit;
            self.distances.as_mut_slice().par_iter_mut().filter(beyond).for_each(|d| *d = UNREACHED_BITS);
        }
        let parents = if options.parents { Some(self.sssp_parents(source, &mut stats)?) } else { None };
        let bits = self.distances.as_slice();
        let reached = bits.par_iter().filter(|&&d| d != UNREACHED_BITS).count() as u64;
        let max = bits.par_iter().copied().filter(|&d| d != UNREACHED_BITS).max().unwrap_or(0);
        let (distances, max_distance) = if integer {
            (Distances::Integer(bits.to_vec()), max as f64)
        } else {
            let real = |&d: &u64| if d == UNREACHED_BITS { f64::INFINITY } else { f64::from_bits(d) };
            (Distances::Real(bits.par_iter().map(real).collect()), f64::from_bits(max))
        };
        stats.seconds = started.elapsed().as_secs_f64();
        Ok(SsspResult { source, distances, parents, reached, max_distance, stats })
    }

    /// Parents that lead back to `source` along finished distances.
    fn sssp_parents(&mut self, source: VertexId, stats: &mut RunStats) -> Result<Vec<VertexId>, Error> {
        self.parents.fill(NO_PARENT);
        let mut ties = PARENTS_NEARER;
        loop {
            let scan = self.dense_scan();
            let traversal = self.traversal(scan, 0, FrontierSize::default(), true);
            let args = SsspParentsArgs {
                traversal,
                distances: self.distances.address(),
                parents: self.parents.address(),
                source,
                ties: ties as u32,
            };
            let (_, step) = self.step(&args, &traversal, scan, self.csr().num_vertices())?;
            stats.steps.push(step);
            // Vertices at the end of edges of weight 0 find their parents pass by pass, from those that have one.
            let orphans = (self.distances.as_slice().par_iter())
                .zip(self.parents.as_slice())
                .filter(|&(&distance, &parent)| distance != UNREACHED_BITS && parent == NO_PARENT)
                .count();
            if orphans <= 1 {
                return Ok(self.parents.as_slice().to_vec());
            }
            ties = PARENTS_TIED;
        }
    }
}
