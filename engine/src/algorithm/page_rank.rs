use std::time::Instant;

use gpuvm_kernels::layout::{PageRankArgs, RANK_SHIFT, SCAN_VERTICES, Step};

use crate::engine::PreparedGraph;
use crate::error::Error;
use crate::stats::RunStats;

/// How ranks are computed, and when they are good enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageRankOptions {
    /// The share of a rank that goes on along edges, from 0 to less than 1; the rest is spread over all vertices.
    pub damping: f64,
    /// Ranks are good once a pass changes them by no more than this, all changes added up; with 0, once nothing changes.
    pub tolerance: f64,
    /// The most passes over the edges.
    pub max_iterations: u64,
}

impl Default for PageRankOptions {
    /// Damping of 0.85, and changes of a millionth, which takes at most 90 passes; no more than 100.
    fn default() -> Self {
        Self { damping: 0.85, tolerance: 1e-6, max_iterations: 100 }
    }
}

/// What PageRank found.
#[derive(Clone, Debug)]
pub struct PageRankResult {
    /// Rank of every vertex, its share of the whole: `num_vertices` numbers above 0 that add up to 1.
    pub ranks: Vec<f64>,
    /// Passes over the edges.
    pub iterations: u64,
    /// What the last of them changed, all changes added up.
    pub change: f64,
    /// Whether that is within the tolerance.
    pub converged: bool,
    /// What the run did.
    pub stats: RunStats,
}

/// The rank 1 as kernels hold it.
const ONE: f64 = (1_u64 << RANK_SHIFT) as f64;

impl PageRankOptions {
    /// What rounding may add to the difference between computed ranks and those of exact arithmetic, all vertices added
    /// up: 9 · 10⁻⁹ for 4 billion edges, usually far less. Ranks are whole numbers of 2⁻⁶², rounded down once a vertex and once an
    /// edge in each pass; what is lost is spread evenly, so a pass errs by `2 (edges + 2 vertices)` units at most, and
    /// damping makes of errors in all passes `1 / (1 - damping)` of those in one. A tolerance below that may never be
    /// reached: ranks then go on in a circle.
    pub fn rounding_bound(&self, num_vertices: u64, num_edges: u64) -> f64 {
        2.0 * (num_edges as f64 + 2.0 * num_vertices as f64) / ONE / (1.0 - self.damping)
    }

    fn check(&self) -> Result<(), Error> {
        let Self { damping, tolerance, .. } = *self;
        if !(0.0..1.0).contains(&damping) {
            return Err(Error::Damping { damping });
        }
        if tolerance.is_nan() || tolerance < 0.0 {
            return Err(Error::Tolerance { tolerance });
        }
        Ok(())
    }
}

impl PreparedGraph {
    /// Rank of every vertex: how often a walk is there that follows edges, each of a vertex as likely, and now and then,
    /// as from a vertex without edges always, goes on anywhere. A pass over all edges an iteration, parallel edges
    /// counted each, weights not at all.
    ///
    /// The same options give the same ranks, bit for bit, on any device and with any number of threads.
    ///
    /// # Errors
    /// [`Error::Damping`], [`Error::Tolerance`]; [`Error::NotPrepared`] if the workload was another; [`Error::Paging`];
    /// [`Error::Interrupted`]; [`Error::Cuda`].
    pub fn page_rank(&mut self, options: &PageRankOptions) -> Result<PageRankResult, Error> {
        options.check()?;
        if !self.workload.page_rank {
            return Err(Error::NotPrepared { missing: "PageRank" });
        }
        let started = Instant::now();
        let num_vertices = self.csr().num_vertices();
        if num_vertices == 0 {
            let stats = RunStats { seconds: started.elapsed().as_secs_f64(), ..RunStats::default() };
            return Ok(PageRankResult {
                ranks: Vec::new(),
                iterations: 0,
                change: 0.0,
                converged: true,
                stats,
            });
        }
        self.rank_sums.fill(0)?;
        let traversal = self.traversal(false, false);
        let args = PageRankArgs {
            traversal,
            ranks: self.ranks.address(),
            contributions: self.contributions.address(),
            sums: self.rank_sums.address(),
            damping: (options.damping * 2_f64.powi(64)) as u64,
            tolerance: (options.tolerance * ONE) as u64,
            max_iterations: options.max_iterations,
            symmetric: self.csr().is_symmetric().into(),
            reserved: 0,
        };
        let first =
            Step { scan: SCAN_VERTICES, threshold: (1 << RANK_SHIFT) / num_vertices, ..Step::default() };
        let (end, mut steps) = self.run(&args, &traversal, first)?;
        for step in &mut steps {
            step.frontier = num_vertices;
        }
        let iterations = (end.number - 1) / 2;
        let permutation = self.graph.csr().permutation();
        let ranks = self.staging.by_vertex(&self.ranks, permutation, |rank| rank as f64 / ONE)?;
        Ok(PageRankResult {
            ranks,
            iterations,
            change: end.threshold_before as f64 / ONE,
            converged: iterations > 0 && end.threshold_before <= args.tolerance,
            stats: RunStats { steps, seconds: started.elapsed().as_secs_f64() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Csr, Weights};
    use crate::{Engine, EngineConfig, Workload};

    fn ranks(csr: Csr, options: &PageRankOptions) -> Result<PageRankResult, Error> {
        let engine = Engine::new(EngineConfig::default()).expect("valid");
        let workload = Workload { page_rank: true, ..Workload::NONE };
        engine.prepare(csr, workload).expect("fits").page_rank(options)
    }

    fn star() -> Csr {
        Csr::new(vec![0, 3, 4, 5, 6], vec![1, 2, 3, 0, 0, 0], Weights::Unit, true).expect("valid")
    }

    #[test]
    fn star_has_the_ranks_of_its_closed_form() {
        let options =
            PageRankOptions { tolerance: 1e-16, max_iterations: 1000, ..PageRankOptions::default() };
        let found = ranks(star(), &options).expect("runs");
        // c = (1 - d) / 4 + 3 d l and l = (1 - d) / 4 + d c / 3, with d = 0.85.
        let center = 0.0375 * (1.0 + 3.0 * 0.85) / (1.0 - 0.85 * 0.85);
        let leaf = (1.0 - center) / 3.0;
        let expected = [center, leaf, leaf, leaf];
        let difference: f64 = found.ranks.iter().zip(expected).map(|(a, b)| (a - b).abs()).sum();
        assert!(difference < 1e-15, "{:?}", found.ranks);
        assert!(found.converged && found.change <= 1e-16 && found.iterations > 200);
    }

    #[test]
    fn without_damping_all_ranks_are_the_same() {
        let options = PageRankOptions { damping: 0.0, ..PageRankOptions::default() };
        let found = ranks(star(), &options).expect("runs");
        assert_eq!((found.ranks, found.iterations, found.converged), (vec![0.25; 4], 1, true));
    }

    #[test]
    fn ranks_after_too_few_passes_have_not_converged() {
        let options = PageRankOptions { max_iterations: 3, ..PageRankOptions::default() };
        let found = ranks(star(), &options).expect("runs");
        assert!(!found.converged && found.iterations == 3 && found.change > 0.1, "{found:?}");
        // Before any pass every vertex has its even share.
        let options = PageRankOptions { max_iterations: 0, ..PageRankOptions::default() };
        let found = ranks(star(), &options).expect("runs");
        assert_eq!((found.ranks, found.iterations, found.converged), (vec![0.25; 4], 0, false));
    }

    #[test]
    fn damping_of_one_and_more_and_a_negative_tolerance_are_refused() {
        for damping in [1.0, -0.1, f64::NAN, 2.0] {
            let options = PageRankOptions { damping, ..PageRankOptions::default() };
            assert!(matches!(ranks(star(), &options), Err(Error::Damping { .. })));
        }
        for tolerance in [-1.0, f64::NAN] {
            let options = PageRankOptions { tolerance, ..PageRankOptions::default() };
            assert!(matches!(ranks(star(), &options), Err(Error::Tolerance { .. })));
        }
    }
}
