use std::time::Instant;

use gpuvm_kernels::layout::{BfsArgs, GraphView, Step, TraversalView};

use crate::answer::{Level, NO_PARENT, UNREACHED};
use crate::config::{Access, Directions, Lines, TransportKind};
use crate::engine::PreparedGraph;
use crate::error::Error;
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
    /// Level of every vertex: the fewest edges on a path from `source`. Level by level: the frontier looks at its edges, or
    /// where the edges into each vertex are known (every edge has its reverse, or the graph has its reverse with it) and no
    /// parents are asked for, unvisited vertices look for the frontier, whichever
    /// is to fetch and look at less.
    ///
    /// # Errors
    /// [`Error::SourceOutOfRange`], [`Error::TargetOutOfRange`]; [`Error::NotPrepared`] if the workload was another;
    /// [`Error::Paging`]; [`Error::Interrupted`]; [`Error::Cuda`].
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
        const { assert!(UNREACHED == u32::MAX && NO_PARENT == u32::MAX) };
        self.levels.fill(0xFF)?;
        self.segment_marks.fill(0)?;
        let csr = self.graph.csr();
        let row = csr.row_of(source);
        let target = options.target.map(|target| csr.row_of(target));
        self.levels.write(row as usize, &[0])?;
        if options.parents {
            self.parents.fill(0xFF)?;
        }
        let csr = self.graph.csr();
        let edges = csr.out_degree(row);
        let size = self.frontiers[0].start(csr, self.graph.chunk_edges(), &[row])?;
        let (mut reached, mut max_level) = (1, 0);
        let mut stats = RunStats::default();
        if edges > 0 && options.depth_limit != Some(0) && options.target != Some(source) {
            let traversal = self.traversal(false, true);
            let args = BfsArgs {
                traversal,
                levels: self.levels.address(),
                parents: if options.parents { self.parents.address() } else { 0 },
                depth_limit: options.depth_limit.unwrap_or(Level::MAX),
                original_ids: self.original_ids.address(),
                target: target.unwrap_or(VertexId::MAX),
                // The smallest parent of all is known when the whole frontier has offered itself: that takes pushes.
                ..self.search_args(traversal, !options.parents)
            };
            let first = Step { by_lines: args.reads_lines, ..self.first_step(&traversal, size, edges) };
            let (end, steps) = self.run(&args, &traversal, first)?;
            stats.steps = steps;
            reached += end.total_discovered;
            max_level = end.last_discovery as Level;
        }
        let permutation = self.graph.csr().permutation();
        let levels = self.staging.by_vertex(&self.levels, permutation, |level| level)?;
        let parents = match options.parents {
            true => Some(self.staging.by_vertex(&self.parents, permutation, |parent| parent)?),
            false => None,
        };
        stats.seconds = started.elapsed().as_secs_f64();
        Ok(BfsResult { source, levels, parents, reached, max_level, stats })
    }

    /// What a search of this graph is told, whatever it looks for; `pulls` if it may look from both ends.
    pub(crate) fn search_args(&self, traversal: TraversalView, pulls: bool) -> BfsArgs {
        let incoming = match pulls && self.config.directions != Directions::Push {
            true => self.incoming_view(&traversal.graph),
            false => GraphView::default(),
        };
        // Without pulls all rows are read: where every page has a frame lines would only come on top.
        let reads_lines = self.config.lines == Lines::Auto
            && self.plan.access == Access::Paged
            && self.config.transport.kind == TransportKind::Direct
            && (self.plan.evicts() || incoming.num_head_vertices > 0);
        BfsArgs {
            traversal,
            incoming,
            reads_lines: reads_lines.into(),
            num_reachable: self.num_reachable,
            always_pulls: (self.config.directions == Directions::Pull).into(),
            fetch_bytes: if self.fetches() { self.plan.page_size.bytes() } else { 0 },
            num_pages: self.plan.num_pages,
            num_frames: self.plan.num_frames,
            heads_stay: self.plan.heads_stay().into(),
            heads_are_hubs: self.csr().permutation().is_some().into(),
            segment_marks: self.segment_marks.address(),
            ..BfsArgs::default()
        }
    }
}
