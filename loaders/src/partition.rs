//! Edges to CSR on many cores when there are so many that their rows are far from any cache.
//!
//! A scatter by row misses caches and TLB once an edge and needs a locked addition for its place. Here edges go through
//! buckets, ranges of rows with about as many edges each. The first pass counts edges by range, each thread for itself.
//! The second gathers edges of each bucket, some cache lines at a time, and writes them where the bucket's columns (and
//! weights) will be in the end, with the row beside it in two bytes: one locked addition for 32 edges, and whole lines.
//! Then each bucket is put in order by one thread, in its cache. Memory is that of the graph and two bytes an edge.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use crate::builder::{Batch, Direction, Leaf, Rows, close_gaps};
use crate::error::LoadError;
use crate::progress::Progress;
use crate::weights::Cell;

/// Rows of a bucket at most: their numbers take two bytes.
const BUCKET_ROWS: u64 = 1 << 16;
/// Ranges of rows that are counted, about: a thread's counters fit its second-level cache.
const RANGES: u64 = 1 << 13;
/// Edges of a bucket at the least, unless it has all the rows that it may have: with scratch some megabytes.
const BUCKET_EDGES: u64 = 1 << 18;
/// Buckets at most, as far as edges decide: a thread keeps some cache lines open for each.
const BUCKETS: u64 = 4096;
/// Edges that wait for their bucket together: two cache lines of columns and one of rows.
const STAGED: usize = 32;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of this thread among `parts`; threads of another pool share the last.
pub(crate) fn part<T>(parts: &[Mutex<T>]) -> MutexGuard<'_, T> {
    let last = parts.len() - 1;
    lock(&parts[rayon::current_thread_index().map_or(last, |thread| thread.min(last))])
}

/// A part for each thread, and one for all others.
pub(crate) fn parts<T>(new: impl Fn() -> T) -> Vec<Mutex<T>> {
    (0..=rayon::current_num_threads()).map(|_| Mutex::new(new())).collect()
}

/// Edges by range of rows, counted by many threads.
pub(crate) struct RangeCounts {
    num_vertices: u64,
    /// Binary logarithm of the rows of a range.
    shift: u32,
    counts: Vec<Mutex<Vec<u64>>>,
}

impl RangeCounts {
    pub(crate) fn new(num_vertices: u64) -> Self {
        let shift = (num_vertices / RANGES).max(1).ilog2().min(BUCKET_ROWS.ilog2());
        let num_ranges = num_vertices.div_ceil(1 << shift) as usize;
        Self { num_vertices, shift, counts: parts(|| vec![0; num_ranges]) }
    }

    /// Counts the edges of a batch.
    pub(crate) fn add(&self, batch: &Batch, directions: &[Direction]) {
        let mut counts = part(&self.counts);
        for direction in directions {
            direction.for_edges(batch, |u, _, _| {
                if let Some(count) = counts.get_mut((u >> self.shift) as usize) {
                    *count += 1;
                }
            });
        }
    }

    /// Edges of each range.
    fn totals(self) -> Vec<u64> {
        let counts =
            self.counts.into_iter().map(|part| part.into_inner().unwrap_or_else(PoisonError::into_inner));
        counts
            .reduce(|mut sum, part| {
                sum.iter_mut().zip(part).for_each(|(sum, count)| *sum += count);
                sum
            })
            .unwrap_or_default()
    }

    /// Number of edges counted.
    pub(crate) fn num_edges(&self) -> u64 {
        self.counts.iter().map(|part| lock(part).iter().sum::<u64>()).sum()
    }
}

/// A range of rows and of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    first_row: u64,
    end_row: u64,
    first_edge: u64,
    end_edge: u64,
}

/// Joins ranges to buckets; and for each range the number of its bucket.
fn buckets(counts: &[u64], shift: u32, num_vertices: u64) -> (Vec<Bucket>, Vec<u16>) {
    let num_edges: u64 = counts.iter().sum();
    let wanted = (num_edges / BUCKETS).max(BUCKET_EDGES);
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut bucket_of = Vec::with_capacity(counts.len());
    for (range, &count) in counts.iter().enumerate() {
        let first_row = (range as u64) << shift;
        let end_row = (first_row + (1 << shift)).min(num_vertices);
        match buckets.last_mut() {
            Some(last)
                if last.end_edge - last.first_edge + count <= wanted
                    && end_row - last.first_row <= BUCKET_ROWS =>
            {
                last.end_row = end_row;
                last.end_edge += count;
            }
            last => {
                let first_edge = last.map_or(0, |last| last.end_edge);
                buckets.push(Bucket { first_row, end_row, first_edge, end_edge: first_edge + count });
            }
        }
        // At most as many as ranges, which are 2^16 at most.
        bucket_of.push((buckets.len() - 1) as u16);
    }
    (buckets, bucket_of)
}

/// Edges of a thread that wait for their buckets.
struct Staging {
    lens: Vec<u8>,
    columns: Vec<[u32; STAGED]>,
    rows: Vec<[u16; STAGED]>,
    /// Where weights are stored.
    values: Vec<[f64; STAGED]>,
}

/// The arrays while many threads fill them.
pub(crate) struct PartitionFill<W: Cell> {
    num_vertices: u64,
    shift: u32,
    buckets: Vec<Bucket>,
    bucket_of: Vec<u16>,
    /// Where the next edges of each bucket go.
    places: Vec<AtomicU64>,
    columns: Vec<AtomicU32>,
    rows: Vec<AtomicU16>,
    weights: Vec<W::Shared>,
    staging: Vec<Mutex<Staging>>,
    /// More edges than were counted.
    changed: AtomicBool,
}

impl<W: Cell> PartitionFill<W> {
    pub(crate) fn new(counts: RangeCounts) -> Self {
        let (num_vertices, shift) = (counts.num_vertices, counts.shift);
        let counts = counts.totals();
        let (buckets, bucket_of) = buckets(&counts, shift, num_vertices);
        let num_edges = buckets.last().map_or(0, |last| last.end_edge) as usize;
        let staging = || Staging {
            lens: vec![0; buckets.len()],
            columns: vec![[0; STAGED]; buckets.len()],
            rows: vec![[0; STAGED]; buckets.len()],
            values: vec![[0.0; STAGED]; if W::STORED { buckets.len() } else { 0 }],
        };
        Self {
            num_vertices,
            shift,
            places: buckets.iter().map(|bucket| AtomicU64::new(bucket.first_edge)).collect(),
            columns: (0..num_edges).into_par_iter().map(|_| AtomicU32::new(0)).collect(),
            rows: (0..num_edges).into_par_iter().map(|_| AtomicU16::new(0)).collect(),
            weights: (0..num_edges).into_par_iter().map(|_| W::shared()).collect(),
            staging: parts(staging),
            changed: AtomicBool::new(false),
            buckets,
            bucket_of,
        }
    }

    /// Takes the edges of a batch.
    pub(crate) fn add(&self, batch: &Batch, directions: &[Direction]) {
        let mut staging = part(&self.staging);
        let staging = &mut *staging;
        for direction in directions {
            direction.for_edges(batch, |u, v, value| {
                let Some(&bucket) = self.bucket_of.get((u >> self.shift) as usize) else { return };
                let bucket = usize::from(bucket);
                let len = usize::from(staging.lens[bucket]) % STAGED;
                staging.columns[bucket][len] = v;
                staging.rows[bucket][len] = (u64::from(u) - self.buckets[bucket].first_row) as u16;
                if W::STORED {
                    staging.values[bucket][len] = value;
                }
                staging.lens[bucket] = len as u8 + 1;
                if len + 1 == STAGED {
                    self.empty(staging, bucket);
                }
            });
        }
    }

    /// Writes what waits for a bucket.
    fn empty(&self, staging: &mut Staging, bucket: usize) {
        let len = usize::from(std::mem::take(&mut staging.lens[bucket]));
        let begin = self.places[bucket].fetch_add(len as u64, Relaxed);
        let end = begin + len as u64;
        if end > self.buckets[bucket].end_edge {
            return self.changed.store(true, Relaxed);
        }
        let places = begin as usize..end as usize;
        for (place, &column) in self.columns[places.clone()].iter().zip(&staging.columns[bucket]) {
            place.store(column, Relaxed);
        }
        for (place, &row) in self.rows[places.clone()].iter().zip(&staging.rows[bucket]) {
            place.store(row, Relaxed);
        }
        if W::STORED {
            for (place, &value) in self.weights[places].iter().zip(&staging.values[bucket]) {
                W::store(place, value);
            }
        }
    }

    /// Puts every bucket in order, merges edges that are there twice, and hands over the arrays.
    pub(crate) fn finish(
        self,
        keep_duplicates: bool,
        path: &Path,
        progress: &dyn Progress,
    ) -> Result<Rows<W>, LoadError> {
        self.staging.par_iter().for_each(|staging| {
            let mut staging = lock(staging);
            (0..self.buckets.len()).for_each(|bucket| self.empty(&mut staging, bucket));
        });
        let Self { num_vertices, buckets, places, columns, rows, weights, changed, staging, .. } = self;
        drop(staging);
        let full = |(place, bucket): (AtomicU64, &Bucket)| place.into_inner() == bucket.end_edge;
        if changed.into_inner() || !places.into_iter().zip(&buckets).all(full) {
            let changed = std::io::Error::other("the file changed while it was read");
            return Err(LoadError::Read { path: path.to_owned(), source: changed });
        }
        // Collected in place: same size, same alignment, no second array.
        let mut columns: Vec<u32> = columns.into_iter().map(AtomicU32::into_inner).collect();
        let rows: Vec<u16> = rows.into_iter().map(AtomicU16::into_inner).collect();
        let mut weights: Vec<W> = weights.into_iter().map(W::into_inner).collect();
        let mut row_offsets = vec![0_u64; num_vertices as usize + 1];

        progress.begin("sort", columns.len() as u64);
        let mut parts = Vec::with_capacity(buckets.len());
        let (mut ends_left, mut columns_left, mut weights_left, mut rows_left) =
            (&mut row_offsets[1..], &mut columns[..], &mut weights[..], &rows[..]);
        for bucket in &buckets {
            let num_edges = (bucket.end_edge - bucket.first_edge) as usize;
            let (ends, rest) = ends_left.split_at_mut((bucket.end_row - bucket.first_row) as usize);
            ends_left = rest;
            let (columns, rest) = columns_left.split_at_mut(num_edges);
            columns_left = rest;
            let (weights, rest) = weights_left.split_at_mut(num_edges);
            weights_left = rest;
            let (rows, rest) = rows_left.split_at(num_edges);
            rows_left = rest;
            parts.push((Leaf { begin: bucket.first_edge, ends, columns, weights }, rows));
        }
        let kept: Option<Vec<usize>> = parts
            .par_iter_mut()
            .with_max_len(1)
            .map_init(Scratch::default, |scratch, (leaf, rows)| {
                if progress.is_cancelled() {
                    return None;
                }
                scratch.order(leaf, rows);
                let kept = leaf.sort(keep_duplicates, &mut scratch.packed);
                progress.advance(leaf.columns.len() as u64);
                Some(kept)
            })
            .collect();
        progress.end();
        let kept = kept.ok_or(LoadError::Interrupted)?;
        drop(parts);
        drop(rows);
        let pieces = buckets
            .iter()
            .zip(kept)
            .map(|(bucket, kept)| (bucket.first_edge, (bucket.end_row - bucket.first_row) as usize, kept));
        Ok(close_gaps(row_offsets, columns, weights, pieces.collect()))
    }
}

/// Space for a bucket that is put in order.
struct Scratch<W: Cell> {
    places: Vec<u64>,
    columns: Vec<u32>,
    weights: Vec<W>,
    packed: Vec<W::Packed>,
}

impl<W: Cell> Default for Scratch<W> {
    fn default() -> Self {
        Self { places: Vec::new(), columns: Vec::new(), weights: Vec::new(), packed: Vec::new() }
    }
}

impl<W: Cell> Scratch<W> {
    /// Orders the edges of a bucket by row and says where each row ends.
    fn order(&mut self, leaf: &mut Leaf<'_, W>, rows: &[u16]) {
        self.places.clear();
        self.places.resize(leaf.ends.len() + 1, 0);
        for &row in rows {
            self.places[usize::from(row) + 1] += 1;
        }
        let mut sum = 0;
        for (place, end) in self.places[1..].iter_mut().zip(leaf.ends.iter_mut()) {
            sum += *place;
            // The place of the row's next edge, to begin with its first.
            *place = sum - *place;
            *end = leaf.begin + sum;
        }
        self.columns.clear();
        self.columns.extend_from_slice(leaf.columns);
        self.weights.clear();
        self.weights.extend_from_slice(leaf.weights);
        for ((&row, &column), &weight) in rows.iter().zip(&self.columns).zip(&self.weights) {
            let place = &mut self.places[usize::from(row) + 1];
            leaf.columns[*place as usize] = column;
            leaf.weights[*place as usize] = weight;
            *place += 1;
        }
        // One bucket of a hub must not keep its space for all that follow.
        if self.columns.capacity() as u64 > 16 * BUCKET_EDGES {
            (self.columns, self.weights) = (Vec::new(), Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{RowCounts, RowFill};

    const MIRROR: Direction = Direction { reverse: true, skip_diagonal: true, ..Direction::FORWARD };

    /// Entries that many threads give, in batches; some rows have most of them.
    fn give(n: u64, num_entries: u64, seed: u64, take: impl Fn(&Batch) + Sync) {
        (0..num_entries.div_ceil(1000)).into_par_iter().for_each(|block| {
            let mut batch = Batch::new();
            for i in block * 1000..(block * 1000 + 1000).min(num_entries) {
                let mut x = (i ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                x ^= x >> 29;
                let u = if x.is_multiple_of(3) { n / 2 } else { (x >> 8) % n };
                let v = x.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33;
                if batch.push(u as u32, (v % n) as u32, (x % 200) as f64 - 50.0) {
                    take(&batch);
                    batch.clear();
                }
            }
            take(&batch);
        });
    }

    fn same_as_rows<W: Cell + PartialEq + std::fmt::Debug>(n: u64, num_entries: u64, keep_duplicates: bool) {
        let directions = [Direction::FORWARD, MIRROR];
        let counts = RangeCounts::new(n);
        give(n, num_entries, 7, |batch| counts.add(batch, &directions));
        let fill = PartitionFill::<W>::new(counts);
        give(n, num_entries, 7, |batch| fill.add(batch, &directions));
        let parted = fill.finish(keep_duplicates, "test".as_ref(), &()).expect("a graph");

        let counts = RowCounts::new(n);
        give(n, num_entries, 7, |batch| counts.add(batch, &directions));
        let fill = RowFill::<W>::new(counts);
        give(n, num_entries, 7, |batch| fill.add(batch, &directions));
        let rows = fill.finish(keep_duplicates, "test".as_ref(), &()).expect("a graph");
        assert!(parted.row_offsets == rows.row_offsets && parted.columns == rows.columns, "{n} vertices");
        assert!(parted.weights == rows.weights && parted.duplicates == rows.duplicates, "{n} vertices");
    }

    #[test]
    fn graph_is_that_of_the_scatter_by_row() {
        for n in [1, 2, 1000, 70_000, 300_000] {
            same_as_rows::<()>(n, 400_000, false);
            same_as_rows::<f32>(n, 100_000, false);
            same_as_rows::<f64>(n, 100_000, true);
        }
    }

    #[test]
    fn graphs_without_edges_or_vertices_are_built() {
        for n in [0, 5] {
            let rows = PartitionFill::<u8>::new(RangeCounts::new(n)).finish(false, "test".as_ref(), &());
            assert_eq!(rows.expect("a graph").row_offsets, vec![0; n as usize + 1]);
        }
    }

    #[test]
    fn buckets_hold_whole_ranges_and_no_more_rows_than_two_bytes_number() {
        let (found, bucket_of) = buckets(&[10, 0, BUCKET_EDGES, 1, 1], 2, 18);
        let bucket =
            |first_row, end_row, first_edge, end_edge| Bucket { first_row, end_row, first_edge, end_edge };
        assert_eq!(
            found,
            [
                bucket(0, 8, 0, 10),
                bucket(8, 12, 10, BUCKET_EDGES + 10),
                bucket(12, 18, BUCKET_EDGES + 10, BUCKET_EDGES + 12)
            ]
        );
        assert_eq!(bucket_of, [0, 0, 1, 2, 2]);
        let (found, _) = buckets(&[0; 5], 15, 5 << 15);
        assert!(
            found.iter().all(|bucket| bucket.end_row - bucket.first_row <= BUCKET_ROWS) && found.len() == 3
        );
    }

    #[test]
    fn edges_that_were_not_counted_are_an_error() {
        let counts = RangeCounts::new(10);
        let mut batch = Batch::new();
        batch.push(1, 2, 1.0);
        counts.add(&batch, &[Direction::FORWARD]);
        let fill = PartitionFill::<()>::new(counts);
        batch.push(1, 3, 1.0);
        fill.add(&batch, &[Direction::FORWARD]);
        assert!(matches!(fill.finish(false, "test".as_ref(), &()), Err(LoadError::Read { .. })));
    }
}
