use std::time::Instant;

use gpuvm_kernels::layout::{BfsArgs, BfsBatchArgs, GraphView, Step};
use memmap2::MmapMut;
use rayon::prelude::*;

use crate::answer::{Level, UNREACHED};
use crate::config::Directions;
use crate::engine::PreparedGraph;
use crate::error::Error;
use crate::frontier::FrontierSize;
use crate::graph::{Permutation, VertexId};
use crate::memory::{HostWritten, by_vertex};
use crate::stats::RunStats;

/// Searches of a batch: the bits of a word.
pub(crate) const BATCH: usize = 64;

/// Words of the counts that a level keeps of a batch's searches, those of two levels in turn.
pub(crate) const BATCH_COUNTS: u64 = 2 * (BATCH as u64 + 1);

/// What breadth-first searches from many sources found.
#[derive(Debug)]
pub struct BfsBatchResult {
    /// The vertices they started from.
    pub sources: Vec<VertexId>,
    /// For each source, vertices reached, itself among them.
    pub reached: Vec<u64>,
    /// For each source, the last level.
    pub max_levels: Vec<Level>,
    /// What the runs did, each of [`BfsBatchResult::SOURCES_A_RUN`] sources, the last of the rest.
    pub runs: Vec<RunStats>,
    levels: Vec<Levels>,
    permutation: Option<Permutation>,
    num_vertices: usize,
}

impl BfsBatchResult {
    /// Sources of a run.
    pub const SOURCES_A_RUN: usize = BATCH;

    /// Level of every vertex from source number `i`, [`UNREACHED`] where no path leads: `num_vertices` entries.
    ///
    /// # Panics
    /// If there are not so many sources.
    pub fn levels(&self, i: usize) -> Vec<Level> {
        assert!(i < self.sources.len(), "source {i} of {}", self.sources.len());
        match self.levels[i / BATCH].of_search(i % BATCH, self.num_vertices) {
            ByRow::Bytes(levels) => by_vertex(levels, self.permutation.as_ref(), wide_level),
            ByRow::Words(levels) => by_vertex(levels, self.permutation.as_ref(), |level| level),
        }
    }
}

/// Levels of a run, search after search, by row: a byte each as long as they are small, and no search reaches 255.
#[derive(Debug)]
struct Levels {
    bytes: MmapMut,
    level_bytes: usize,
}

impl Levels {
    fn of_search(&self, search: usize, num_vertices: usize) -> ByRow<'_> {
        let size = num_vertices * self.level_bytes;
        let levels = &self.bytes[search * size..(search + 1) * size];
        match self.level_bytes {
            1 => ByRow::Bytes(levels),
            _ => ByRow::Words(bytemuck::cast_slice(levels)),
        }
    }
}

/// Levels of a search by row.
enum ByRow<'a> {
    Bytes(&'a [u8]),
    Words(&'a [Level]),
}

/// A level from a byte, whose largest value means the same as the largest level.
fn wide_level(byte: u8) -> Level {
    if byte == u8::MAX { UNREACHED } else { byte.into() }
}

impl PreparedGraph {
    /// Levels from every source, the same that [`bfs`](Self::bfs) gives for each, up to `depth_limit`: 64 searches at a
    /// time look at an edge once for all that want it, in either direction, as `bfs` does. A source may be given twice.
    ///
    /// Levels are in host memory, a byte a source and vertex, or four once one of them is 255 or more.
    ///
    /// # Errors
    /// [`Error::SourceOutOfRange`]; [`Error::NotPrepared`] if the workload was another; [`Error::OutOfMemory`];
    /// [`Error::Pin`]; [`Error::Paging`]; [`Error::Interrupted`]; [`Error::Cuda`].
    pub fn bfs_batch(
        &mut self,
        sources: &[VertexId],
        depth_limit: Option<Level>,
    ) -> Result<BfsBatchResult, Error> {
        sources.iter().try_for_each(|&source| self.check_source(source))?;
        if !self.workload.bfs_batch {
            return Err(Error::NotPrepared { missing: "BFS from many sources" });
        }
        let mut found = BfsBatchResult {
            sources: sources.to_vec(),
            reached: Vec::new(),
            max_levels: Vec::new(),
            runs: Vec::new(),
            levels: Vec::new(),
            permutation: self.csr().permutation().cloned(),
            num_vertices: self.csr().num_vertices() as usize,
        };
        for sources in sources.chunks(BATCH) {
            let started = Instant::now();
            let (levels, mut stats) = self.run_batch(sources, depth_limit.unwrap_or(Level::MAX))?;
            for search in 0..sources.len() {
                let (reached, max_level) = reached_and_last(&levels, search, found.num_vertices);
                found.reached.push(reached);
                found.max_levels.push(max_level);
            }
            stats.seconds = started.elapsed().as_secs_f64();
            found.runs.push(stats);
            found.levels.push(levels);
        }
        Ok(found)
    }

    fn run_batch(&mut self, sources: &[VertexId], depth_limit: Level) -> Result<(Levels, RunStats), Error> {
        let csr = self.graph.csr();
        let n = csr.num_vertices();
        let mut masks: Vec<(VertexId, u64)> = Vec::new();
        for (search, &source) in sources.iter().enumerate() {
            let row = csr.row_of(source);
            match masks.iter_mut().find(|(other, _)| *other == row) {
                Some((_, mask)) => *mask |= 1 << search,
                None => masks.push((row, 1 << search)),
            }
        }
        let rows: Vec<VertexId> = masks.iter().map(|&(row, _)| row).collect();
        let edges = rows.iter().map(|&row| csr.out_degree(row)).sum();
        let size: FrontierSize = self.frontiers[0].start(csr, self.graph.chunk_edges(), &rows)?;
        let all = u64::MAX >> (BATCH - sources.len());

        let mut levels = HostWritten::new(&self.device, "levels", n * sources.len() as u64)?;
        levels.bytes_mut().par_chunks_mut(1 << 20).for_each(|block| block.fill(u8::MAX));
        for (search, &source) in sources.iter().enumerate() {
            levels.bytes_mut()[search * n as usize + self.graph.csr().row_of(source) as usize] = 0;
        }
        self.batch_seen.fill(0)?;
        self.batch_frontier.fill(0)?;
        self.batch_next.fill(0)?;
        self.batch_waiting.fill(0)?;
        for &(row, mask) in &masks {
            self.batch_seen.write(row as usize, &[mask])?;
            self.batch_frontier.write(row as usize, &[mask])?;
        }
        let mut level_bytes = 1;
        let mut stats = RunStats::default();
        if edges > 0 && depth_limit > 0 {
            let traversal = self.traversal(false, true);
            let search = BfsArgs {
                depth_limit,
                incoming: match self.config.directions == Directions::Push {
                    true => GraphView::default(),
                    false => self.incoming_view(&traversal.graph),
                },
                ..self.search_args(traversal)
            };
            let settled = masks.iter().filter(|&&(_, mask)| mask == all).count() as u64;
            let mut first = Step {
                threshold: 0,
                threshold_before: settled,
                window_begin: all,
                ..self.first_step(&traversal, size, edges)
            };
            loop {
                let args = BfsBatchArgs {
                    search,
                    seen: self.batch_seen.address(),
                    frontier: self.batch_frontier.address(),
                    next: self.batch_next.address(),
                    waiting: self.batch_waiting.address(),
                    levels: levels.address(),
                    all,
                    level_bytes: level_bytes as u64,
                    last_level: if level_bytes == 1 { u64::from(u8::MAX) - 1 } else { Level::MAX.into() },
                };
                let (end, mut steps) = self.run(&args, &traversal, first)?;
                stats.steps.extend(steps.drain((first.number as usize).min(steps.len())..));
                if end.level < args.last_level || end.frontier_edges == 0 || end.level >= depth_limit.into() {
                    break;
                }
                // A level that needs more than a byte: the same levels in words, and on from there.
                let mut wide = HostWritten::new(&self.device, "levels", 4 * n * sources.len() as u64)?;
                let words: &mut [Level] = bytemuck::cast_slice_mut(wide.bytes_mut());
                words.par_iter_mut().zip(levels.bytes_mut().par_iter()).for_each(|(word, &byte)| {
                    *word = wide_level(byte);
                });
                (levels, level_bytes) = (wide, 4);
                first = Step { by_one_block: 0, finished: 0, ..end };
            }
        }
        Ok((Levels { bytes: levels.into_bytes(), level_bytes }, stats))
    }
}

/// Vertices that a search reached, and their largest level.
fn reached_and_last(levels: &Levels, search: usize, num_vertices: usize) -> (u64, Level) {
    match levels.of_search(search, num_vertices) {
        ByRow::Bytes(levels) => count_and_last(levels.par_iter().map(|&level| wide_level(level))),
        ByRow::Words(levels) => count_and_last(levels.par_iter().copied()),
    }
}

fn count_and_last(levels: impl ParallelIterator<Item = Level>) -> (u64, Level) {
    let reached = levels.filter(|&level| level != UNREACHED);
    reached
        .fold(|| (0, 0), |(count, last): (u64, Level), level| (count + 1, last.max(level)))
        .reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1.max(b.1)))
}
