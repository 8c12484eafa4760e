//! Edges to CSR in the memory of the CSR itself, on all cores.
//!
//! Edges are read twice. The first time, [`RowCounts`] counts the edges of each row in what becomes the row offsets;
//! their running sum makes each offset the place of the row's next edge. The second time, [`RowFill`] writes each edge
//! to that place and moves it on, after which the offset of row u is that of row u + 1: nothing else is allocated.
//! Then rows are sorted, and edges that are there twice are merged in place.
//!
//! Threads share the arrays as relaxed atomics, which are plain loads and stores; only the counters need a locked
//! addition. Such an addition waits for all stores before it, and most of them miss the cache, so edges come in
//! batches: load every counter once (the misses overlap), then add, then scatter.

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use gpuvm_engine::graph::VertexId;
use rayon::prelude::*;

use crate::error::LoadError;
use crate::progress::Progress;
use crate::weights::Cell;

/// Entries in a batch. Its counters, a cache line each, fit a second-level cache; measured at 20 M edges, 256 entries take
/// 10% longer and 4096 gain nothing.
pub(crate) const BATCH: usize = 1024;

/// One of the edges that an entry (row, column) stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Direction {
    /// From column to row.
    pub reverse: bool,
    /// Added to the source.
    pub source_shift: u32,
    /// Added to the target.
    pub target_shift: u32,
    /// Entries on the diagonal have no such edge.
    pub skip_diagonal: bool,
    /// The weight is the negative of the value.
    pub negate: bool,
}

impl Direction {
    /// Row to column.
    pub(crate) const FORWARD: Self =
        Self { reverse: false, source_shift: 0, target_shift: 0, skip_diagonal: false, negate: false };

    /// The edges that the entries of a batch stand for in this direction: source, target and weight of each.
    #[inline(always)]
    pub(crate) fn for_edges(&self, batch: &Batch, mut each: impl FnMut(u32, u32, f64)) {
        let (sources, targets) = self.ends(batch);
        let sign = if self.negate { -1.0 } else { 1.0 };
        for ((&u, &v), &value) in sources.iter().zip(targets).zip(batch.values()) {
            if !(self.skip_diagonal && u == v) {
                each(u.wrapping_add(self.source_shift), v.wrapping_add(self.target_shift), value * sign);
            }
        }
    }

    #[inline(always)]
    fn ends<'a>(&self, batch: &'a Batch) -> (&'a [u32], &'a [u32]) {
        if self.reverse { (batch.columns(), batch.rows()) } else { (batch.rows(), batch.columns()) }
    }
}

/// Entries on their way into the arrays.
#[derive(Debug)]
pub(crate) struct Batch {
    len: usize,
    rows: [u32; BATCH],
    columns: [u32; BATCH],
    values: [f64; BATCH],
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { len: 0, rows: [0; BATCH], columns: [0; BATCH], values: [0.0; BATCH] }
    }

    /// Adds an entry; true when the batch is full and must be emptied.
    #[inline(always)]
    pub(crate) fn push(&mut self, row: u32, column: u32, value: f64) -> bool {
        let at = self.len % BATCH;
        self.rows[at] = row;
        self.columns[at] = column;
        self.values[at] = value;
        self.len = at + 1;
        self.len == BATCH
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows[..self.len]
    }

    pub(crate) fn columns(&self) -> &[u32] {
        &self.columns[..self.len]
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.values[..self.len]
    }

    pub(crate) fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values[..self.len]
    }

    /// Takes out the entries on the diagonal.
    pub(crate) fn drop_diagonal(&mut self) {
        if !self.rows().iter().zip(self.columns()).fold(false, |any, (row, column)| any | (row == column)) {
            return; // as most batches of most files
        }
        let mut to = 0;
        for at in 0..self.len {
            // Written whether it stays or not: no branch that the processor could guess wrong.
            (self.rows[to], self.columns[to], self.values[to]) =
                (self.rows[at], self.columns[at], self.values[at]);
            to += usize::from(self.rows[at] != self.columns[at]);
        }
        self.len = to;
    }
}

/// A place that no edge has.
const NOWHERE: u64 = u64::MAX;

/// Loads the counters of all sources, so that their cache misses overlap.
#[inline(always)]
fn touch(counters: &[AtomicU64], sources: &[u32], shift: u32) {
    let all = sources.iter().fold(0, |all, &u| {
        all ^ counters.get(u as usize + shift as usize + 1).map_or(0, |counter| counter.load(Relaxed))
    });
    black_box(all);
}

/// Edges of each row, counted by many threads.
#[derive(Debug)]
pub(crate) struct RowCounts {
    /// `num_vertices + 1`: row u is counted at u + 1.
    counts: Vec<AtomicU64>,
}

impl RowCounts {
    pub(crate) fn new(num_vertices: u64) -> Self {
        Self { counts: (0..num_vertices as usize + 1).into_par_iter().map(|_| AtomicU64::new(0)).collect() }
    }

    /// Counts the edges of a batch.
    pub(crate) fn add(&self, batch: &Batch, directions: &[Direction]) {
        for direction in directions {
            let (sources, targets) = direction.ends(batch);
            touch(&self.counts, sources, direction.source_shift);
            let mut run = (0, 0);
            for (&u, &v) in sources.iter().zip(targets) {
                if direction.skip_diagonal && u == v {
                    continue;
                }
                let row = u as usize + direction.source_shift as usize + 1;
                if row != run.0 {
                    self.add_run(run);
                    run = (row, 0);
                }
                run.1 += 1;
            }
            self.add_run(run);
        }
    }

    #[inline(always)]
    fn add_run(&self, (row, edges): (usize, u64)) {
        if edges != 0
            && let Some(counter) = self.counts.get(row)
        {
            counter.fetch_add(edges, Relaxed);
        }
    }

    /// Counts become places: each row's first edge. Returns the number of edges.
    fn into_places(mut self) -> (Vec<AtomicU64>, u64) {
        const ROWS: usize = 1 << 16;
        let sums: Vec<u64> = self
            .counts
            .par_chunks_mut(ROWS)
            .map(|chunk| chunk.iter_mut().fold(0, |sum, count| sum + *count.get_mut()))
            .collect();
        let mut before = 0;
        let begins: Vec<u64> = sums
            .iter()
            .map(|sum| {
                let begin = before;
                before += sum;
                begin
            })
            .collect();
        self.counts.par_chunks_mut(ROWS).zip(begins).for_each(|(chunk, mut place)| {
            for count in chunk {
                place += std::mem::replace(count.get_mut(), place);
            }
        });
        (self.counts, before)
    }

    /// Number of edges counted.
    pub(crate) fn num_edges(&self) -> u64 {
        self.counts.par_iter().map(|count| count.load(Relaxed)).sum()
    }
}

/// The arrays while many threads fill them.
pub(crate) struct RowFill<W: Cell> {
    places: Vec<AtomicU64>,
    columns: Vec<AtomicU32>,
    weights: Vec<W::Shared>,
}

impl<W: Cell> RowFill<W> {
    pub(crate) fn new(counts: RowCounts) -> Self {
        let (places, num_edges) = counts.into_places();
        let num_edges = num_edges as usize;
        Self {
            places,
            columns: (0..num_edges).into_par_iter().map(|_| AtomicU32::new(0)).collect(),
            weights: (0..num_edges).into_par_iter().map(|_| W::shared()).collect(),
        }
    }

    /// Writes the edges of a batch.
    pub(crate) fn add(&self, batch: &Batch, directions: &[Direction]) {
        let mut places = [NOWHERE; BATCH];
        for direction in directions {
            let (sources, targets) = direction.ends(batch);
            touch(&self.places, sources, direction.source_shift);
            self.claim(sources, targets, direction, &mut places);
            let sign = if direction.negate { -1.0 } else { 1.0 };
            for ((&place, &v), &value) in places.iter().zip(targets).zip(batch.values()) {
                let place = place as usize;
                // Nowhere is past the end, and so is an edge of a file that grew since it was counted.
                if let (Some(column), Some(weight)) = (self.columns.get(place), self.weights.get(place)) {
                    column.store(v.wrapping_add(direction.target_shift), Relaxed);
                    W::store(weight, value * sign);
                }
            }
        }
    }

    /// A place for each entry; edges of one row that follow each other take theirs together.
    #[inline(always)]
    fn claim(&self, sources: &[u32], targets: &[u32], direction: &Direction, places: &mut [u64; BATCH]) {
        let exists = |at: usize| !(direction.skip_diagonal && sources[at] == targets[at]);
        let mut begin = 0;
        while let Some(&u) = sources.get(begin) {
            let mut end = begin + 1;
            while sources.get(end) == Some(&u) {
                end += 1;
            }
            let run = (begin..end).filter(|&at| exists(at)).count() as u64;
            let mut place = match self.places.get(u as usize + direction.source_shift as usize + 1) {
                Some(counter) if run > 0 => counter.fetch_add(run, Relaxed),
                _ => NOWHERE,
            };
            for (slot, at) in places[begin..end].iter_mut().zip(begin..) {
                *slot = if exists(at) { place } else { NOWHERE };
                place = place.wrapping_add(u64::from(exists(at)));
            }
            begin = end;
        }
    }

    /// Sorts every row, merges edges that are there twice, and hands over the arrays.
    pub(crate) fn finish(
        self,
        keep_duplicates: bool,
        path: &Path,
        progress: &dyn Progress,
    ) -> Result<Rows<W>, LoadError> {
        let Self { places, columns, weights } = self;
        // All three are collected in place: same size, same alignment, no second array.
        let mut row_offsets: Vec<u64> = places.into_iter().map(AtomicU64::into_inner).collect();
        let mut columns: Vec<u32> = columns.into_iter().map(AtomicU32::into_inner).collect();
        let mut weights: Vec<W> = weights.into_iter().map(W::into_inner).collect();

        let whole = row_offsets.last().is_some_and(|&last| last == columns.len() as u64);
        if !whole || !row_offsets.par_windows(2).all(|pair| pair[0] <= pair[1]) {
            let changed = std::io::Error::other("the file changed while it was read");
            return Err(LoadError::Read { path: path.to_owned(), source: changed });
        }
        progress.begin("sort", columns.len() as u64);
        let kept = sort_rows(&mut row_offsets, &mut columns, &mut weights, keep_duplicates, progress);
        progress.end();
        let kept = kept.ok_or(LoadError::Interrupted)?;
        Ok(Rows::cut(row_offsets, columns, weights, kept))
    }
}

/// The finished arrays.
pub(crate) struct Rows<W> {
    pub row_offsets: Vec<u64>,
    pub columns: Vec<VertexId>,
    pub weights: Vec<W>,
    pub duplicates: u64,
}

impl<W> Rows<W> {
    /// The arrays, of whose edges the first `kept` are left.
    fn cut(row_offsets: Vec<u64>, mut columns: Vec<VertexId>, mut weights: Vec<W>, kept: usize) -> Self {
        let duplicates = (columns.len() - kept) as u64;
        columns.truncate(kept);
        weights.truncate(kept);
        if duplicates > columns.len() as u64 / 16 {
            columns.shrink_to_fit();
            weights.shrink_to_fit();
        }
        Self { row_offsets, columns, weights, duplicates }
    }
}

/// Rows that one thread sorts.
pub(crate) struct Leaf<'a, W> {
    /// First edge.
    pub begin: u64,
    /// Where each row ends.
    pub ends: &'a mut [u64],
    pub columns: &'a mut [u32],
    pub weights: &'a mut [W],
}

/// Sorts every row in place and merges duplicates; returns the number of edges left, `None` if cancelled.
pub(crate) fn sort_rows<W: Cell>(
    row_offsets: &mut [u64],
    columns: &mut [u32],
    weights: &mut [W],
    keep_duplicates: bool,
    progress: &dyn Progress,
) -> Option<usize> {
    let ends = row_offsets.get_mut(1..)?;
    let mut leaves = cut(ends, columns, weights);
    let kept: Vec<usize> = leaves
        .par_iter_mut()
        .map_init(Vec::new, |scratch, leaf| {
            if progress.is_cancelled() {
                return None;
            }
            let kept = leaf.sort(keep_duplicates, scratch);
            progress.advance(leaf.columns.len() as u64);
            Some(kept)
        })
        .collect::<Option<_>>()?;
    let pieces: Vec<(u64, usize, usize)> =
        leaves.iter().zip(&kept).map(|(leaf, &kept)| (leaf.begin, leaf.ends.len(), kept)).collect();
    drop(leaves);
    Some(close(ends, columns, weights, pieces))
}

/// Closes the gaps that merging left behind each piece: first edge, rows and edges left of each. Returns the edges left.
fn close<W: Cell>(
    ends: &mut [u64],
    columns: &mut [u32],
    weights: &mut [W],
    pieces: Vec<(u64, usize, usize)>,
) -> usize {
    let total: usize = pieces.iter().map(|(_, _, kept)| kept).sum();
    if total == columns.len() {
        return total;
    }
    let (mut to, mut row) = (0, 0);
    for (begin, rows, kept) in pieces {
        let begin = begin as usize;
        columns.copy_within(begin..begin + kept, to);
        weights.copy_within(begin..begin + kept, to);
        ends[row..row + rows]
            .par_iter_mut()
            .with_min_len(1 << 14)
            .for_each(|end| *end -= (begin - to) as u64);
        to += kept;
        row += rows;
    }
    total
}

/// The arrays without the gaps behind pieces.
pub(crate) fn close_gaps<W: Cell>(
    mut row_offsets: Vec<u64>,
    mut columns: Vec<VertexId>,
    mut weights: Vec<W>,
    pieces: Vec<(u64, usize, usize)>,
) -> Rows<W> {
    let kept = close(&mut row_offsets[1..], &mut columns, &mut weights, pieces);
    Rows::cut(row_offsets, columns, weights, kept)
}

/// Cuts the rows into leaves of some [`LEAF_EDGES`] edges; a longer row is a leaf of its own.
fn cut<'a, W>(
    mut ends: &'a mut [u64],
    mut columns: &'a mut [u32],
    mut weights: &'a mut [W],
) -> Vec<Leaf<'a, W>> {
    const LEAF_EDGES: u64 = 1 << 16;
    const LEAF_ROWS: usize = 1 << 18;
    let mut leaves = Vec::new();
    let mut begin = 0;
    while !ends.is_empty() {
        let window = &ends[..ends.len().min(LEAF_ROWS)];
        let rows = window.partition_point(|&end| end <= begin + LEAF_EDGES).max(1);
        let end = ends[rows - 1];
        let (leaf_ends, rest_ends) = ends.split_at_mut(rows);
        let (leaf_columns, rest_columns) = columns.split_at_mut((end - begin) as usize);
        let (leaf_weights, rest_weights) = weights.split_at_mut((end - begin) as usize);
        leaves.push(Leaf { begin, ends: leaf_ends, columns: leaf_columns, weights: leaf_weights });
        (ends, columns, weights, begin) = (rest_ends, rest_columns, rest_weights, end);
    }
    leaves
}

impl<W: Cell> Leaf<'_, W> {
    /// Sorts the rows, merges duplicates to the front, moves the ends with them; returns the edges left.
    pub(crate) fn sort(&mut self, keep_duplicates: bool, scratch: &mut Vec<W::Packed>) -> usize {
        let (mut from, mut to) = (0, 0);
        for end in self.ends.iter_mut() {
            let row_end = (*end - self.begin) as usize;
            sort_row(&mut self.columns[from..row_end], &mut self.weights[from..row_end], scratch);
            let merge =
                !keep_duplicates && self.columns[from..row_end].windows(2).any(|pair| pair[0] == pair[1]);
            if merge {
                let row_begin = to;
                for edge in from..row_end {
                    // Sorted by weight as well: the first of several is the smallest.
                    if to == row_begin || self.columns[to - 1] != self.columns[edge] {
                        self.columns[to] = self.columns[edge];
                        self.weights[to] = self.weights[edge];
                        to += 1;
                    }
                }
            } else {
                if to != from {
                    self.columns.copy_within(from..row_end, to);
                    self.weights.copy_within(from..row_end, to);
                }
                to += row_end - from;
            }
            *end = self.begin + to as u64;
            from = row_end;
        }
        to
    }
}

/// Sorts one row by column, then by weight.
fn sort_row<W: Cell>(columns: &mut [u32], weights: &mut [W], scratch: &mut Vec<W::Packed>) {
    /// Rows longer than this are sorted by several threads.
    const LONG_ROW: usize = 1 << 18;
    // Most files are sorted already; equal columns still need their weights in order.
    if columns.windows(2).all(|pair| if W::STORED { pair[0] < pair[1] } else { pair[0] <= pair[1] }) {
        return;
    }
    if !W::STORED {
        return if columns.len() > LONG_ROW { columns.par_sort_unstable() } else { columns.sort_unstable() };
    }
    scratch.clear();
    scratch.extend(columns.iter().zip(weights.iter()).map(|(&column, &weight)| W::pack(column, weight)));
    if scratch.len() > LONG_ROW {
        scratch.par_sort_unstable()
    } else {
        scratch.sort_unstable()
    }
    for ((column, weight), &packed) in columns.iter_mut().zip(weights.iter_mut()).zip(scratch.iter()) {
        (*column, *weight) = W::unpack(packed);
    }
    if scratch.capacity() > LONG_ROW {
        *scratch = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build<W: Cell>(
        num_vertices: u64,
        entries: &[(u32, u32, f64)],
        directions: &[Direction],
        keep_duplicates: bool,
    ) -> Rows<W> {
        let counts = RowCounts::new(num_vertices);
        let mut batch = Batch::new();
        for &(u, v, w) in entries {
            batch.push(u, v, w);
        }
        counts.add(&batch, directions);
        let fill = RowFill::<W>::new(counts);
        fill.add(&batch, directions);
        fill.finish(keep_duplicates, Path::new("test"), &()).expect("a graph")
    }

    const MIRROR: Direction = Direction { reverse: true, skip_diagonal: true, ..Direction::FORWARD };

    #[test]
    fn rows_come_out_sorted_with_their_weights() {
        let rows = build::<u8>(3, &[(2, 1, 5.0), (0, 2, 7.0), (0, 1, 9.0)], &[Direction::FORWARD], false);
        assert_eq!(rows.row_offsets, [0, 2, 2, 3]);
        assert_eq!(rows.columns, [1, 2, 1]);
        assert_eq!(rows.weights, [9, 7, 5]);
    }

    #[test]
    fn mirrored_entries_leave_the_diagonal_alone() {
        let rows = build::<f32>(2, &[(1, 1, 3.0), (1, 0, 2.0)], &[Direction::FORWARD, MIRROR], false);
        assert_eq!(rows.row_offsets, [0, 1, 3]);
        assert_eq!(rows.columns, [1, 0, 1]);
        assert_eq!(rows.weights, [2.0, 2.0, 3.0]);
    }

    #[test]
    fn duplicates_are_merged_with_the_smallest_weight_and_counted() {
        let entries = [(0, 1, 4.0), (1, 0, 1.0), (0, 1, -2.5), (0, 0, 1.0), (0, 1, 3.0)];
        let rows = build::<f64>(2, &entries, &[Direction::FORWARD], false);
        assert_eq!((rows.row_offsets, rows.columns), (vec![0, 2, 3], vec![0, 1, 0]));
        assert_eq!(rows.weights, [1.0, -2.5, 1.0]);
        assert_eq!(rows.duplicates, 2);
        assert_eq!(build::<f64>(2, &entries, &[Direction::FORWARD], true).columns, [0, 1, 1, 1, 0]);
    }

    #[test]
    fn gaps_between_leaves_are_closed() {
        // A row longer than a leaf, all one edge; then a row of two edges.
        let mut columns = vec![1; 100_000];
        columns.extend([1, 0]);
        let mut offsets = vec![0, 100_000, 100_002];
        let mut weights = vec![(); columns.len()];
        assert_eq!(sort_rows(&mut offsets, &mut columns, &mut weights, false, &()), Some(3));
        assert_eq!(offsets, [0, 1, 3]);
        assert_eq!(columns[..3], [1, 0, 1]);
    }

    #[test]
    fn graph_without_vertices_has_one_offset() {
        let rows = build::<()>(0, &[], &[Direction::FORWARD], false);
        assert_eq!(rows.row_offsets, [0]);
    }
}
