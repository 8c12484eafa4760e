use std::time::Instant;

use gpuvm_kernels::layout::BfsArgs;

use crate::answer::{Level, NO_PARENT, UNREACHED};
use crate::engine::PreparedGraph;
use crate::error::Error;
use crate::frontier::FrontierSize;
use crate::graph::VertexId;
use crate::stats::RunStats;

/// How far a breadth-first search goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BfsOptions {
    /// The last level: vertices farther away stay unreached.
    pub depth_limit: Option<Level>,
    /// The search ends with the level that holds this vertex.
    pub target: Option<VertexId>,
    /// Whether to find parents.
    pub parents: bool,
}

/// What a breadth-first search found.
#[derive(Clone, Debug)]
pub struct BfsResult {
    /// The vertex it started from.
    pub source: VertexId,
    /// Level of every vertex, [`UNREACHED`] where no path leads: `num_vertices` entries.
    pub levels: Vec<Level>,
    /// Parent of every vertex, the smallest id of several; [`NO_PARENT`] for the source and where no path leads.
    pub parents: Option<Vec<VertexId>>,
    /// Vertices reached, the source among them.
    pub reached: u64,
    /// The last level.
    pub max_level: Level,
    /// What the run did.
    pub stats: RunStats,
}

impl PreparedGraph {
    /// Level of every vertex: the fewest edges on a path from `source`. Level by level, each edge of the frontier
    /// looked at once.
    ///
    /// # Errors
    /// [`Error::SourceOutOfRange`], [`Error::TargetOutOfRange`]; [`Error::NotPrepared`] if the workload was another;
    /// [`Error::Paging`]; [`Error::Interrupted`].
    pub fn bfs(&mut self, source: VertexId, options: &BfsOptions) -> Result<BfsResult, Error> {
        self.check_source(source)?;
        self.check_target(options.target)?;
        if !self.workload.bfs {
            return Err(Error::NotPrepared { missing: "BFS" });
        }
        if options.parents && !self.workload.parents {
            return Err(Error::NotPrepared { missing: "parents" });
        }
        let started = Instant::now();
        self.levels.fill(UNREACHED);
        self.levels.as_mut_slice()[source as usize] = 0;
        if options.parents {
            self.parents.fill(NO_PARENT);
        }
        let csr = self.graph.csr();
        let mut frontier_edges = csr.out_degree(source);
        let mut size = self.frontiers[0].start(csr, self.graph.chunk_edges(), source);
        let (mut reached, mut frontier, mut level) = (1, 1, 0);
        let mut stats = RunStats::default();

        while frontier_edges > 0
            && options.depth_limit.is_none_or(|limit| level < limit)
            && options.target.is_none_or(|target| self.levels.as_slice()[target as usize] == UNREACHED)
        {
            let scan = self.scan_for(frontier_edges);
            let traversal = self.traversal(scan, level as usize % 2, size, false);
            let args = BfsArgs {
                traversal,
                levels: self.levels.address(),
                parents: if options.parents { self.parents.address() } else { 0 },
                level,
                reserved: 0,
            };
            let (counters, step) = self.step(&args, &traversal, scan, frontier)?;
            stats.steps.push(step);
            size =
                FrontierSize { vertices: counters.next_vertices, continuations: counters.next_continuations };
            frontier_edges = counters.next_edges;
            frontier = counters.discovered;
            reached += frontier;
            if frontier > 0 {
                level += 1;
            }
        }
        let levels = self.levels.as_slice().to_vec();
        let parents = options.parents.then(|| self.parents.as_slice().to_vec());
        stats.seconds = started.elapsed().as_secs_f64();
        Ok(BfsResult { source, levels, parents, reached, max_level: level, stats })
    }
}
