use std::time::Instant;

use gpuvm_kernels::layout::{SsspArgs, SsspParentsArgs, Step};
use rayon::prelude::*;

use crate::answer::Distances;
use crate::bands::Bands;
use crate::engine::PreparedGraph;
use crate::error::Error;
use crate::graph::{VertexId, Weights};
use crate::stats::RunStats;

/// How far a shortest-path search goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SsspOptions {
    /// The largest distance: vertices farther away stay unreached.
    pub distance_limit: Option<f64>,
    /// Vertices farther away than this one stay unreached, if it is reached itself.
    pub target: Option<VertexId>,
    /// Whether to find parents, at the price of one more pass over the edges, and more where edges weigh 0.
    pub parents: bool,
    /// Width of a bucket of distances: vertices of one are finished before those of the next are looked at. Narrow ones
    /// look at few edges twice and take many steps; `f64::INFINITY` is one bucket for all (Bellman, Ford). `None`
    /// chooses by the weights, the degrees and whether pages are evicted.
    pub delta: Option<f64>,
}

/// What a shortest-path search found.
#[derive(Clone, Debug)]
pub struct SsspResult {
    /// The vertex it started from.
    pub source: VertexId,
    /// Distance of every vertex: integers for integer weights.
    pub distances: Distances,
    /// Parent of every vertex in a shortest-path tree; [`NO_PARENT`](crate::NO_PARENT) for the source and where no path leads.
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

/// A bucket's width in mean weights, times the mean degree. On GAP-urand at scale 24, width 33, an H200 took 0.028 s, a
/// quarter of what one bucket for all took; on GAP-kron anything from 32 up took as long.
const BUCKET_DEGREES: f64 = 8.0;

/// The same where pages are evicted: each step comes back to most pages, so fewer steps are worth edges looked at twice.
const EVICTING_BUCKET_DEGREES: f64 = 32.0;

/// Width of a wide window, in floors of the first heavy band. On graphs with short paths all distances lie in one; it is
/// bounded for those with long ones, where far distances found by light edges alone would all be too large.
const WINDOW_FLOORS: f64 = 32.0;

/// A bucket with more than this share of the light band's edges makes windows wide: its vertices, were they of one bucket
/// after the other, would need most pages of heavy bands each time.
const WIDE_SHARE: u64 = 512;

/// Bins of a histogram for the floor of the first heavy band.
const BINS_PER_FLOOR: f64 = 4.0;

/// Vertices that histograms count, about.
const SAMPLES: u64 = 1 << 16;

impl PreparedGraph {
    /// Distance of every vertex: the smallest sum of weights on a path from `source`. Weights are not negative; edges
    /// of weight 0, and cycles of them, are fine.
    ///
    /// # Errors
    /// [`Error::SourceOutOfRange`], [`Error::TargetOutOfRange`]; [`Error::NotPrepared`] if the workload was another;
    /// [`Error::Paging`]; [`Error::Interrupted`]; [`Error::Cuda`].
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
        let limit = match options.distance_limit {
            None => UNREACHED_BITS - 1,
            // A limit that is negative or no number: only the source is so near.
            Some(limit) if limit.is_nan() || limit <= 0.0 => 0,
            Some(limit) if integer => (limit as u64).min(UNREACHED_BITS - 1),
            Some(limit) => limit.to_bits(),
        };
        self.distances.fill(0xFF)?;
        let row = self.csr().row_of(source);
        let target = options.target.map(|target| self.csr().row_of(target));
        self.distances.write(row as usize, &[0])?;
        self.stamps.fill(0)?;
        self.stamps.write(row as usize, &[1])?;

        let delta = self.bucket_width(options.delta);
        let edges = self.csr().out_degree(row);
        let graph = self.bands.as_ref().map_or(&self.graph, Bands::light);
        let frontier_edges = graph.csr().out_degree(row);
        let size = self.frontiers[0].start(graph.csr(), graph.chunk_edges(), &[row])?;
        let mut stats = RunStats::default();
        if edges > 0 {
            let (traversal, bands) = self.weighted_traversal(true)?;
            let first = Step {
                threshold: delta,
                window_end: if bands == 0 { UNREACHED_BITS } else { delta },
                ..self.first_step(&traversal, size, frontier_edges)
            };
            let args = SsspArgs {
                delta,
                traversal,
                bands,
                distances: self.distances.address(),
                stamps: self.stamps.address(),
                bound: target.map_or(0, |target| self.distances.address() + 8 * u64::from(target)),
                limit,
                ..self.band_args()
            };
            stats.steps = self.run(&args, &traversal, first)?.1;
        }
        // What was reached before the target was may lie beyond it, and need not be final.
        let last = match target {
            Some(target) => limit.min(self.distances.read(target as usize, 1)?[0]),
            None => UNREACHED_BITS - 1,
        };
        let within = |distance: u64| if distance > last { UNREACHED_BITS } else { distance };
        let parents = match options.parents {
            true => {
                if target.is_some() {
                    let mut distances = self.staging.by_row(&self.distances)?.into_owned();
                    distances.par_iter_mut().for_each(|distance| *distance = within(*distance));
                    self.distances.write(0, &distances)?;
                }
                Some(self.sssp_parents(row, &mut stats)?)
            }
            false => None,
        };
        let permutation = self.graph.csr().permutation();
        let (distances, reached, max_distance) = if integer {
            let distances = self.staging.by_vertex(&self.distances, permutation, within)?;
            let found = distances.par_iter().copied().filter(|&distance| distance != UNREACHED_BITS);
            let (reached, max) = count_and_max(found, 0, u64::max);
            (Distances::Integer(distances), reached, max as f64)
        } else {
            let real = |distance| match within(distance) {
                UNREACHED_BITS => f64::INFINITY,
                bits => f64::from_bits(bits),
            };
            let distances = self.staging.by_vertex(&self.distances, permutation, real)?;
            let found = distances.par_iter().copied().filter(|distance| distance.is_finite());
            let (reached, max) = count_and_max(found, 0.0, f64::max);
            (Distances::Real(distances), reached, max)
        };
        stats.seconds = started.elapsed().as_secs_f64();
        Ok(SsspResult { source, distances, parents, reached, max_distance, stats })
    }

    /// A bucket's width as the kernel takes it, a distance that is not 0.
    fn bucket_width(&self, delta: Option<f64>) -> u64 {
        let weights = self.csr().weights();
        let width = delta.unwrap_or_else(|| match weights {
            Weights::Unit => f64::INFINITY,
            _ => {
                let mean_degree = self.csr().num_edges() as f64 / self.csr().num_vertices() as f64;
                // The light band's pages come once and stay.
                let comes_back = self.plan.evicts() && self.bands.is_none();
                let degrees = if comes_back { EVICTING_BUCKET_DEGREES } else { BUCKET_DEGREES };
                degrees * weights.sampled_mean() / mean_degree
            }
        });
        self.distance_bits(width)
    }

    /// A width as the kernel takes it, a distance that is not 0.
    fn distance_bits(&self, width: f64) -> u64 {
        if width.is_infinite() {
            UNREACHED_BITS
        } else if self.csr().weights().weight_type().is_integer() {
            (width as u64).clamp(1, UNREACHED_BITS)
        } else {
            width.max(f64::MIN_POSITIVE).to_bits()
        }
    }

    /// What the kernel gets of bands, but for their address.
    fn band_args(&self) -> SsspArgs {
        let Some(bands) = &self.bands else { return SsspArgs { num_bands: 1, ..SsspArgs::default() } };
        let mut floors = [0; 3];
        for (word, &floor) in floors.iter_mut().zip(bands.floors()).skip(1) {
            *word = self.distance_bits(floor);
        }
        let light = bands.floors()[1];
        SsspArgs {
            num_bands: bands.floors().len() as u64,
            floors,
            window: self.distance_bits(light * WINDOW_FLOORS),
            wide_edges: bands.light().csr().num_edges() / WIDE_SHARE,
            histograms: bands.histograms(),
            bins_per_distance: (BINS_PER_FLOOR / light).to_bits(),
            sample_mask: (self.csr().num_vertices() / SAMPLES).next_power_of_two() - 1,
            symmetric: self.csr().is_symmetric().into(),
            ..SsspArgs::default()
        }
    }

    /// Parents that lead back to the row `source` along finished distances.
    fn sssp_parents(&mut self, source: VertexId, stats: &mut RunStats) -> Result<Vec<VertexId>, Error> {
        self.parents.fill(0xFF)?;
        let (traversal, bands) = self.weighted_traversal(false)?;
        let args = SsspParentsArgs {
            traversal,
            distances: self.distances.address(),
            parents: self.parents.address(),
            source,
            num_bands: self.bands.as_ref().map_or(1, |bands| bands.floors().len() as u32),
            bands,
            original_ids: self.original_ids.address(),
        };
        let num_vertices = self.csr().num_vertices();
        let first = Step { scan: traversal.dense_scan, ..Step::default() };
        let (_, mut steps) = self.run(&args, &traversal, first)?;
        for step in &mut steps {
            step.frontier = num_vertices;
        }
        stats.steps.extend(steps);
        self.staging.by_vertex(&self.parents, self.graph.csr().permutation(), |parent| parent)
    }
}

/// How many distances were found, and the largest, in one pass.
fn count_and_max<D: Copy + Send + Sync>(
    found: impl ParallelIterator<Item = D>,
    none: D,
    max: impl Fn(D, D) -> D + Sync,
) -> (u64, D) {
    found
        .fold(|| (0, none), |(count, largest), distance| (count + 1, max(largest, distance)))
        .reduce(|| (0, none), |a, b| (a.0 + b.0, max(a.1, b.1)))
}
