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

/// Levels from 1 on that a batch writes as words: as much memory as a byte a search and vertex.
const WORD_LEVELS: u64 = 8;

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
        let search = i % BATCH;
        let range = search * self.num_vertices..(search + 1) * self.num_vertices;
        let permutation = self.permutation.as_ref();
        match &self.levels[i / BATCH] {
            Levels::Words { words, sources } => {
                let mut levels = vec![UNREACHED; self.num_vertices];
                levels_of_bit(bytemuck::cast_slice(words), search, &mut levels, |level| level as Level);
                levels[sources[search] as usize] = 0;
                by_vertex(&levels, permutation, |level| level)
            }
            Levels::Bytes(bytes) => by_vertex(&bytes[range], permutation, wide_level),
            Levels::Wide(bytes) => {
                by_vertex(&bytemuck::cast_slice::<u8, Level>(bytes)[range], permutation, |level| level)
            }
        }
    }
}

/// Levels of a run, by row.
#[derive(Debug)]
enum Levels {
    /// A word a level from 1 on and row, level after level: the searches that have it there. With the rows of the sources.
    Words { words: MmapMut, sources: Vec<VertexId> },
    /// A byte a search and row, search after search: no search reaches 255.
    Bytes(MmapMut),
    /// The same with four bytes.
    Wide(MmapMut),
}

impl Levels {
    /// Vertices that each search reached, and the largest level of each.
    fn reached_and_last(&self, num_searches: usize, num_vertices: usize) -> Vec<(u64, Level)> {
        let count = |levels: &mut dyn Iterator<Item = Level>| {
            let reached = levels.filter(|&level| level != UNREACHED);
            reached.fold((0, 0), |(count, last): (u64, Level), level| (count + 1, last.max(level)))
        };
        let join = |a: (u64, Level), b: (u64, Level)| (a.0 + b.0, a.1.max(b.1));
        match self {
            Self::Words { words, .. } => {
                let mut found = vec![(1, 0); num_searches];
                for (level, words) in bytemuck::cast_slice(words).chunks_exact(num_vertices).enumerate() {
                    let counts = counts_of_bits(words);
                    for (found, &count) in found.iter_mut().zip(&counts).filter(|&(_, &count)| count > 0) {
                        *found = (found.0 + count, level as Level + 1);
                    }
                }
                found
            }
            Self::Bytes(bytes) => (bytes[..num_searches * num_vertices].par_chunks(num_vertices))
                .map(|row| {
                    let blocks = row.par_chunks(1 << 16);
                    blocks
                        .map(|block| count(&mut block.iter().map(|&b| wide_level(b))))
                        .reduce(|| (0, 0), join)
                })
                .collect(),
            Self::Wide(bytes) => (bytemuck::cast_slice::<u8, Level>(bytes).par_chunks(num_vertices))
                .take(num_searches)
                .map(|row| {
                    row.par_chunks(1 << 16)
                        .map(|block| count(&mut block.iter().copied()))
                        .reduce(|| (0, 0), join)
                })
                .collect(),
        }
    }
}

/// Writes the level of every row that has bit `bit` in one of the `words`, of which there are as many a level, from 1 on.
fn levels_of_bit<L: Send>(words: &[u64], bit: usize, levels: &mut [L], level: impl Fn(usize) -> L + Sync) {
    let n = levels.len();
    levels.par_iter_mut().enumerate().for_each(|(row, to)| {
        if let Some(found) = words[row..].iter().step_by(n).position(|word| word >> bit & 1 == 1) {
            *to = level(found + 1);
        }
    });
}

/// For each bit, how many of the words have it.
fn counts_of_bits(words: &[u64]) -> [u64; BATCH] {
    // For each byte its bits, a byte each: eight counters in a word, for as many words as a byte counts.
    const SPREAD: [u64; 256] = {
        let mut spread = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut bit = 0;
            while bit < 8 {
                spread[byte] |= (byte as u64 >> bit & 1) << (8 * bit);
                bit += 1;
            }
            byte += 1;
        }
        spread
    };
    let of_block = |block: &[u64]| {
        let mut counts = [0; BATCH];
        for words in block.chunks(255) {
            let mut sums = [0; 8];
            for word in words.iter().filter(|&&word| word != 0) {
                for (sum, byte) in sums.iter_mut().zip(word.to_le_bytes()) {
                    *sum += SPREAD[usize::from(byte)];
                }
            }
            let bytes = sums.iter().flat_map(|sum: &u64| sum.to_le_bytes());
            counts.iter_mut().zip(bytes).for_each(|(count, sum)| *count += u64::from(sum));
        }
        counts
    };
    words.par_chunks(1 << 16).map(of_block).reduce(|| [0; BATCH], |a, b| std::array::from_fn(|i| a[i] + b[i]))
}

/// A level from a byte, whose largest value means the same as the largest level.
fn wide_level(byte: u8) -> Level {
    if byte == u8::MAX { UNREACHED } else { byte.into() }
}

impl PreparedGraph {
    /// Levels from every source, the same that [`bfs`](Self::bfs) gives for each, up to `depth_limit`: 64 searches at a
    /// time look at an edge once for all that want it, in either direction, as `bfs` does. A source may be given twice.
    ///
    /// Levels are in host memory. Of half as many sources as a run has, or more, 64 bytes a vertex, as long as no level is
    /// more than 8; else a byte a source and vertex, or four once a level is 255 or more.
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
            for (reached, max_level) in levels.reached_and_last(sources.len(), found.num_vertices) {
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

        let source_rows: Vec<VertexId> = sources.iter().map(|&source| csr.row_of(source)).collect();
        // Most vertices are found at two or three levels: three words instead of 64 bytes, which cross the link.
        let mut level_bytes = usize::from(sources.len() < BATCH / 2);
        let mut levels = match level_bytes {
            0 => HostWritten::new(&self.device, "levels", 8 * n * WORD_LEVELS)?,
            _ => self.unreached_bytes(&source_rows)?,
        };
        self.batch_seen.fill(0)?;
        self.batch_frontier.fill(0)?;
        self.batch_next.fill(0)?;
        self.batch_waiting.fill(0)?;
        for &(row, mask) in &masks {
            self.batch_seen.write(row as usize, &[mask])?;
            self.batch_frontier.write(row as usize, &[mask])?;
        }
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
                    last_level: match level_bytes {
                        0 => WORD_LEVELS,
                        1 => u64::from(u8::MAX) - 1,
                        _ => Level::MAX.into(),
                    },
                };
                let (end, mut steps) = self.run(&args, &traversal, first)?;
                stats.steps.extend(steps.drain((first.number as usize).min(steps.len())..));
                if end.level < args.last_level || end.frontier_edges == 0 || end.level >= depth_limit.into() {
                    break;
                }
                // There is no room for the next level: the same levels with more, and on from there.
                (levels, level_bytes) = if level_bytes == 0 {
                    let mut bytes = self.unreached_bytes(&source_rows)?;
                    let words: &[u64] = bytemuck::cast_slice(levels.bytes_mut());
                    bytes.bytes_mut().par_chunks_mut(n as usize).enumerate().for_each(|(search, row)| {
                        levels_of_bit(words, search, row, |level| level as u8);
                        row[source_rows[search] as usize] = 0;
                    });
                    (bytes, 1)
                } else {
                    let mut wide = HostWritten::new(&self.device, "levels", 4 * n * sources.len() as u64)?;
                    let words: &mut [Level] = bytemuck::cast_slice_mut(wide.bytes_mut());
                    words.par_iter_mut().zip(levels.bytes_mut().par_iter()).for_each(|(word, &byte)| {
                        *word = wide_level(byte);
                    });
                    (wide, 4)
                };
                first = Step { by_one_block: 0, finished: 0, ..end };
            }
        }
        let levels = levels.into_bytes();
        let levels = match level_bytes {
            0 => Levels::Words { words: levels, sources: source_rows },
            1 => Levels::Bytes(levels),
            _ => Levels::Wide(levels),
        };
        Ok((levels, stats))
    }

    /// Levels of searches that have reached their sources only, a byte each.
    fn unreached_bytes(&self, source_rows: &[VertexId]) -> Result<HostWritten, Error> {
        let n = self.csr().num_vertices();
        let mut levels = HostWritten::new(&self.device, "levels", n * source_rows.len() as u64)?;
        levels.bytes_mut().par_chunks_mut(1 << 20).for_each(|block| block.fill(u8::MAX));
        for (search, &row) in source_rows.iter().enumerate() {
            levels.bytes_mut()[search * n as usize + row as usize] = 0;
        }
        Ok(levels)
    }
}
