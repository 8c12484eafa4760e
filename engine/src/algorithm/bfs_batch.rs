use std::time::Instant;

use gpuvm_kernels::layout::{BfsArgs, BfsBatchArgs, Step};
use memmap2::MmapMut;
use rayon::prelude::*;

use crate::answer::{Level, UNREACHED};
use crate::engine::PreparedGraph;
use crate::error::Error;
use crate::frontier::FrontierSize;
use crate::graph::{Permutation, VertexId, num_head_vertices};
use crate::memory::{Place, anonymous, by_vertex, zeros};
use crate::plan::MAX_RECORDS;
use crate::stats::RunStats;

/// Searches of a batch: the bits of a word.
pub(crate) const BATCH: usize = 64;

/// Entries of the log of vertices found, for a graph of `n`: a byte a vertex, as an entry has 16.
pub(crate) fn log_entries(n: u64) -> u64 {
    (n / 16).max(64)
}

/// [`Step::phase`] at the end of a run: the host finds the last level in the frontier. `kLevelInFrontier` in `bfs_batch.cuh`.
const LEVEL_IN_FRONTIER: u64 = 1;

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
        self.levels[i / BATCH].of_search(i % BATCH, self.permutation.as_ref())
    }
}

/// Levels of a run, by row.
#[derive(Debug)]
struct Levels {
    /// Of the whole graph.
    num_rows: usize,
    /// Rows of the sources.
    sources: Vec<VertexId>,
    /// For each source, rows reached, and the last level.
    reached: Vec<u64>,
    last: Vec<Level>,
    found: Found,
}

/// Who has found which rows at which level from 1 on.
#[derive(Debug)]
enum Found {
    /// Of levels with many rows a word a row, for the rows from 0 on that may be reached; of the others an entry each.
    Words { dense: Vec<(Level, Vec<u64>)>, sparse: Vec<Entry> },
    /// A [`Level`] a search and row, search after search: once the others would be as long.
    Wide(MmapMut),
}

/// What the log has of a vertex: the searches that have found it, its level and its row.
#[derive(Clone, Copy, Debug)]
struct Entry {
    searches: u64,
    level: Level,
    row: VertexId,
}

impl Levels {
    fn new(num_rows: usize, sources: Vec<VertexId>) -> Self {
        let found = Found::Words { dense: Vec::new(), sparse: Vec::new() };
        Self { num_rows, reached: vec![1; sources.len()], last: vec![0; sources.len()], sources, found }
    }

    /// Bit s of a word: whether search s has found the row at `level`.
    fn add_dense(&mut self, level: Level, words: Vec<u64>) -> Result<(), Error> {
        self.count(&counts_of_bits(&words), level);
        match &mut self.found {
            Found::Words { dense, .. } => dense.push((level, words)),
            Found::Wide(wide) => {
                write_words(bytemuck::cast_slice_mut(wide), self.num_rows, level, &words);
            }
        }
        self.widen_if_long()
    }

    /// As the log has them, by rising level.
    fn add_sparse(&mut self, log: &[u64]) -> Result<(), Error> {
        let entries = log.as_chunks::<2>().0.iter().map(|&[searches, place]| Entry {
            searches,
            level: (place >> 32) as Level,
            row: place as VertexId,
        });
        let entries: Vec<Entry> = entries.collect();
        for entries in entries.chunk_by(|a, b| a.level == b.level) {
            let words: Vec<u64> = entries.iter().map(|entry| entry.searches).collect();
            self.count(&counts_of_bits(&words), entries[0].level);
        }
        match &mut self.found {
            Found::Words { sparse, .. } => sparse.extend(entries),
            Found::Wide(wide) => write_entries(bytemuck::cast_slice_mut(wide), self.num_rows, &entries),
        }
        self.widen_if_long()
    }

    fn count(&mut self, found: &[u64; BATCH], level: Level) {
        for (search, &count) in found.iter().enumerate().filter(|&(_, &count)| count > 0) {
            self.reached[search] += count;
            self.last[search] = level;
        }
    }

    fn widen_if_long(&mut self) -> Result<(), Error> {
        let Found::Words { dense, sparse } = &self.found else { return Ok(()) };
        let bytes =
            dense.iter().map(|(_, words)| size_of_val(&words[..])).sum::<usize>() + size_of_val(&sparse[..]);
        let wide_bytes = self.sources.len() * self.num_rows * size_of::<Level>();
        if bytes <= wide_bytes {
            return Ok(());
        }
        let out_of_memory = |_| Error::OutOfMemory { what: "levels", bytes: wide_bytes as u64 };
        let mut map = anonymous(wide_bytes).map_err(out_of_memory)?;
        let wide: &mut [Level] = bytemuck::cast_slice_mut(&mut map);
        wide.par_iter_mut().for_each(|level| *level = UNREACHED);
        for (search, &row) in self.sources.iter().enumerate() {
            wide[search * self.num_rows + row as usize] = 0;
        }
        dense.iter().for_each(|(level, words)| write_words(wide, self.num_rows, *level, words));
        write_entries(wide, self.num_rows, sparse);
        self.found = Found::Wide(map);
        Ok(())
    }

    /// Level of every vertex.
    fn of_search(&self, search: usize, permutation: Option<&Permutation>) -> Vec<Level> {
        let is_of_search = |searches: u64| searches >> search & 1 == 1;
        let (dense, sparse) = match &self.found {
            Found::Words { dense, sparse } => (dense, sparse),
            Found::Wide(wide) => {
                let range = search * self.num_rows..(search + 1) * self.num_rows;
                let wide: &[Level] = bytemuck::cast_slice(wide);
                return by_vertex(&wide[range], permutation, |level| level);
            }
        };
        let mut levels: Vec<Level> = zeros(self.num_rows);
        levels.par_iter_mut().enumerate().for_each(|(row, to)| {
            let found =
                dense.iter().find(|(_, words)| words.get(row).is_some_and(|&word| is_of_search(word)));
            *to = found.map_or(UNREACHED, |&(level, _)| level);
        });
        levels[self.sources[search] as usize] = 0;
        let places = Level::shared(&mut levels);
        let of_search = sparse.par_iter().filter(|entry| is_of_search(entry.searches));
        of_search.for_each(|entry| entry.level.set(&places[entry.row as usize]));
        by_vertex(&levels, permutation, |level| level)
    }
}

/// Writes the level of each row, from number 0 on, in the part of each search that its word has.
fn write_words(wide: &mut [Level], num_rows: usize, level: Level, words: &[u64]) {
    wide.par_chunks_mut(num_rows).enumerate().for_each(|(search, levels)| {
        let found = levels.iter_mut().zip(words).filter(|(_, word)| *word >> search & 1 == 1);
        found.for_each(|(to, _)| *to = level);
    });
}

/// The same of entries.
fn write_entries(wide: &mut [Level], num_rows: usize, entries: &[Entry]) {
    let places = Level::shared(wide);
    entries.par_iter().for_each(|&Entry { mut searches, level, row }| {
        while searches != 0 {
            let search = searches.trailing_zeros() as usize;
            level.set(&places[search * num_rows + row as usize]);
            searches &= searches - 1;
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

impl PreparedGraph {
    /// Levels from every source, the same that [`bfs`](Self::bfs) gives for each, up to `depth_limit`: 64 searches at a
    /// time look at an edge once for all that want it, in either direction, as `bfs` does. A source may be given twice.
    ///
    /// Levels are in host memory: 8 bytes a vertex for each level that many vertices have, and 16 a vertex in others, for
    /// each level that searches find it at; no more than 4 bytes a source and vertex.
    ///
    /// # Errors
    /// [`Error::SourceOutOfRange`]; [`Error::NotPrepared`] if the workload was another; [`Error::OutOfMemory`];
    /// [`Error::Paging`]; [`Error::Interrupted`]; [`Error::Cuda`].
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
        };
        for sources in sources.chunks(BATCH) {
            let started = Instant::now();
            let (levels, mut stats) = self.run_batch(sources, depth_limit.unwrap_or(Level::MAX))?;
            found.reached.extend(&levels.reached);
            found.max_levels.extend(&levels.last);
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

        // Rows that may be reached: in degree order those without edges are the last.
        let num_rows = if csr.is_symmetric() { num_head_vertices(csr.row_offsets()) } else { n } as usize;
        let source_rows = sources.iter().map(|&source| csr.row_of(source)).collect();
        let mut levels = Levels::new(n as usize, source_rows);
        self.batch_seen.fill(0)?;
        self.batch_frontier.fill(0)?;
        self.batch_next.fill(0)?;
        self.batch_waiting.fill(0)?;
        self.segment_marks.fill(0)?;
        for &(row, mask) in &masks {
            self.batch_seen.write(row as usize, &[mask])?;
            self.batch_frontier.write(row as usize, &[mask])?;
        }
        let mut stats = RunStats::default();
        if edges > 0 && depth_limit > 0 {
            let traversal = self.traversal(false, true);
            let search = BfsArgs { depth_limit, ..self.search_args(traversal, true) };
            let settled = masks.iter().filter(|&&(_, mask)| mask == all).count() as u64;
            let mut first = Step {
                threshold: 0,
                threshold_before: settled,
                window_begin: all,
                by_lines: search.reads_lines,
                ..self.first_step(&traversal, size, edges)
            };
            let args = BfsBatchArgs {
                search,
                seen: self.batch_seen.address(),
                frontier: self.batch_frontier.address(),
                next: self.batch_next.address(),
                waiting: self.batch_waiting.address(),
                log: self.batch_log.address(),
                log_entries: log_entries(n),
                all,
                num_rows: num_rows as u64,
            };
            loop {
                let (end, mut steps) = self.run(&args, &traversal, first)?;
                // Beyond the records there are, the last one has the sum of the run.
                stats
                    .steps
                    .extend(steps.drain((first.number as usize).min(MAX_RECORDS - 1).min(steps.len())..));
                levels.add_sparse(&self.batch_log.read(0, 2 * end.window_edges as usize)?)?;
                let is_dense = end.phase == LEVEL_IN_FRONTIER;
                if is_dense && end.window_begin != 0 {
                    let words = self.staging.first_rows(&self.batch_frontier, num_rows)?;
                    levels.add_dense(end.level as Level, words)?;
                }
                let is_whole = end.frontier_edges == 0
                    || end.level >= depth_limit.into()
                    || end.threshold_before >= search.num_reachable;
                if is_whole || !(is_dense || end.window_edges > args.log_entries / 2) {
                    break;
                }
                first = Step { by_one_block: 0, finished: 0, phase: 0, window_edges: 0, ..end };
            }
        }
        Ok((levels, stats))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On the path 0 1 2, by search 0 from row 0 and search 1 from row 2; the other searches stay at row 1.
    fn on_a_path(num_searches: usize) -> Levels {
        let sources = [0, 2].into_iter().chain(std::iter::repeat_n(1, num_searches - 2)).collect();
        let mut levels = Levels::new(3, sources);
        levels.add_dense(1, vec![0, 0b11, 0]).expect("memory");
        let place = |row: u64| 2 << 32 | row;
        levels.add_sparse(&[0b01, place(2), 0b10, place(0)]).expect("memory");
        levels
    }

    #[test]
    fn levels_are_those_that_were_found_as_words_or_as_a_level_each() {
        let (words, wide) = (on_a_path(8), on_a_path(2));
        assert!(matches!(words.found, Found::Words { .. }));
        assert!(matches!(wide.found, Found::Wide(_)), "56 bytes of words, 24 of levels");
        for levels in [&words, &wide] {
            assert_eq!(levels.of_search(0, None), [0, 1, 2]);
            assert_eq!(levels.of_search(1, None), [2, 1, 0]);
            assert_eq!((&levels.reached[..2], &levels.last[..2]), (&[3, 3][..], &[2, 2][..]));
            let permutation = Permutation::new(vec![1, 2, 0]).expect("a permutation");
            assert_eq!(levels.of_search(0, Some(&permutation)), [2, 0, 1], "row 0 is that of vertex 1");
        }
        assert_eq!(words.of_search(7, None), [UNREACHED, 0, UNREACHED]);
        assert_eq!((words.reached[7], words.last[7]), (1, 0));
    }
}
