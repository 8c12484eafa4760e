//! From a list of generated edges to the sorted rows of an undirected graph, with memory and time for billions of them.
//!
//! Four passes, all parallel, none with an atomic an edge. *Edges*: the list is made, and each task counts how many ends
//! fall into each bucket, a range of vertices. *Buckets*: each task writes its entries, both directions of an edge, into
//! pieces of the buckets that are its own. *Sort*: a bucket is small enough to be sorted by one thread; then duplicates
//! stand side by side. *Rows*: what is left gives the offsets; buckets are copied to their places and freed.
//!
//! An entry is one word that sorts as it should: row within the bucket, column, weight. An edge takes 8 bytes in the list
//! and 16 in the buckets; the list is freed before the rows are written. The order in which tasks run shows nowhere.

use std::mem;

use gpuvm_engine::graph::{Csr, HostArray, VertexId, Weights};
use gpuvm_loaders::Progress;
use rayon::prelude::*;

use crate::error::GenerateError;
use crate::memory::LargeArray;

/// Edges that can be made block by block, in any order.
pub(crate) trait EdgeBlocks: Sync {
    /// Number of edges, loops and duplicates among them.
    fn num_edges(&self) -> u64;

    /// A bound of the ids, a power of two.
    fn num_vertices(&self) -> u64;

    /// Edges of a block; the last one may have fewer.
    fn block_edges(&self) -> usize;

    /// Whether [`fill_weights`](EdgeBlocks::fill_weights) gives weights.
    fn has_weights(&self) -> bool;

    /// Writes the two ends of all edges of `block`.
    fn fill_ends(&self, block: u64, edges: &mut [[VertexId; 2]]);

    /// Writes the weights of all edges of `block`, where there are weights.
    fn fill_weights(&self, block: u64, weights: &mut [u8]);
}

/// How the work is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Entries of a bucket on average, at most: 16 MiB of them.
    pub bucket_entries: u64,
    /// Tasks of the first two passes, at most: many more than threads, so that all threads end together.
    pub num_tasks: u64,
}

impl Default for Cut {
    fn default() -> Self {
        Self { bucket_entries: 1 << 21, num_tasks: 256 }
    }
}

/// Buckets at most: each has an open cache line in every thread that fills them.
const MAX_BUCKETS: u64 = 4096;

/// Places of an entry's parts; the row within its bucket stands above the column.
const ROW_BITS: u32 = 24;
const COLUMN_BITS: u32 = 32;
const WEIGHT_BITS: u32 = 8;
const _: () = assert!(ROW_BITS + COLUMN_BITS + WEIGHT_BITS == u64::BITS);

/// The most memory that [`build`] holds at a time: list and buckets, or buckets and rows.
pub(crate) fn peak_bytes(num_edges: u64, num_vertices: u64, has_weights: bool) -> u64 {
    let entry_bytes = if has_weights { 5 } else { 4 };
    let list = num_edges.saturating_mul(8);
    let rows = num_edges.saturating_mul(2 * entry_bytes).saturating_add(num_vertices * 8);
    num_edges.saturating_mul(16).saturating_add(list.max(rows))
}

/// The undirected graph of `edges`: both directions, rows sorted, no loops, and of duplicates the one of smallest weight.
/// It has as many vertices as the largest id says that occurs, be it in a loop.
pub(crate) fn build(edges: impl EdgeBlocks, cut: Cut, progress: &dyn Progress) -> Result<Csr, GenerateError> {
    let num_edges = edges.num_edges();
    let layout = Layout::new(&edges, cut);

    progress.begin("edges", num_edges);
    let mut list = LargeArray::zeroed(num_edges, "the generated edges")?;
    let counts: Vec<Counts> = list
        .par_chunks_mut(layout.task_edges)
        .enumerate()
        .map(|(task, ends)| generate(&edges, &layout, task, ends, progress))
        .collect::<Result<_, _>>()?;
    progress.end();

    progress.begin("buckets", num_edges);
    let mut buckets: Vec<LargeArray<u64>> = (0..layout.num_buckets)
        .map(|bucket| {
            LargeArray::zeroed(counts.iter().map(|task| task.entries[bucket]).sum(), "a bucket of edges")
        })
        .collect::<Result<_, _>>()?;
    pieces(&mut buckets, &counts)
        .into_par_iter()
        .zip(list.par_chunks(layout.task_edges))
        .enumerate()
        .try_for_each(|(task, (pieces, ends))| distribute(&edges, &layout, task, ends, pieces, progress))?;
    let has_weights = edges.has_weights();
    drop((edges, list));
    progress.end();

    progress.begin("sort", buckets.iter().map(|bucket| bucket.len() as u64).sum());
    let num_distinct: Vec<usize> = buckets
        .par_iter_mut()
        .map(|bucket| {
            if progress.is_cancelled() {
                return Err(GenerateError::Interrupted);
            }
            bucket.sort_unstable();
            progress.advance(bucket.len() as u64);
            Ok(drop_duplicates(bucket))
        })
        .collect::<Result<_, _>>()?;
    progress.end();

    let num_vertices = counts.iter().map(|task| u64::from(task.max_id) + 1).max().unwrap_or(0);
    write_rows(buckets, &num_distinct, num_vertices, layout.row_bits, has_weights, progress)
}

/// The sizes that all passes share.
struct Layout {
    /// Binary logarithm of the vertices of a bucket.
    row_bits: u32,
    num_buckets: usize,
    /// Edges of a task: whole blocks.
    task_edges: usize,
    task_blocks: u64,
}

impl Layout {
    fn new(edges: &impl EdgeBlocks, cut: Cut) -> Self {
        let wanted = (2 * edges.num_edges()).div_ceil(cut.bucket_entries).clamp(1, MAX_BUCKETS);
        let row_bits = (edges.num_vertices() / wanted.next_power_of_two()).max(1).ilog2().min(ROW_BITS);
        let task_blocks =
            edges.num_edges().div_ceil(edges.block_edges() as u64).div_ceil(cut.num_tasks).max(1);
        Self {
            row_bits,
            num_buckets: (edges.num_vertices() >> row_bits) as usize,
            task_edges: task_blocks as usize * edges.block_edges(),
            task_blocks,
        }
    }

    fn bucket(&self, u: VertexId) -> usize {
        (u >> self.row_bits) as usize
    }

    fn entry(&self, u: VertexId, v: VertexId, weight: u8) -> u64 {
        let row = u64::from(u & ((1 << self.row_bits) - 1));
        row << (COLUMN_BITS + WEIGHT_BITS) | u64::from(v) << WEIGHT_BITS | u64::from(weight)
    }
}

/// What a task learns of its edges.
struct Counts {
    /// Entries for each bucket.
    entries: Vec<u64>,
    max_id: VertexId,
}

/// Makes the edges of a task and counts their ends by bucket.
fn generate(
    edges: &impl EdgeBlocks,
    layout: &Layout,
    task: usize,
    ends: &mut [[VertexId; 2]],
    progress: &dyn Progress,
) -> Result<Counts, GenerateError> {
    let mut counts = Counts { entries: vec![0; layout.num_buckets], max_id: 0 };
    for (block, ends) in (task as u64 * layout.task_blocks..).zip(ends.chunks_mut(edges.block_edges())) {
        if progress.is_cancelled() {
            return Err(GenerateError::Interrupted);
        }
        edges.fill_ends(block, ends);
        for &mut [u, v] in &mut *ends {
            let is_edge = u64::from(u != v);
            counts.entries[layout.bucket(u)] += is_edge;
            counts.entries[layout.bucket(v)] += is_edge;
            counts.max_id = counts.max_id.max(u).max(v);
        }
        progress.advance(ends.len() as u64);
    }
    Ok(counts)
}

/// For each task its piece of every bucket.
fn pieces<'a>(buckets: &'a mut [LargeArray<u64>], counts: &[Counts]) -> Vec<Vec<&'a mut [u64]>> {
    let mut pieces: Vec<Vec<&mut [u64]>> = counts.iter().map(|_| Vec::with_capacity(buckets.len())).collect();
    for (bucket, entries) in buckets.iter_mut().enumerate() {
        let mut rest = &mut entries[..];
        for (pieces, task) in pieces.iter_mut().zip(counts) {
            let (piece, others) = mem::take(&mut rest).split_at_mut(task.entries[bucket] as usize);
            pieces.push(piece);
            rest = others;
        }
    }
    pieces
}

/// Entries that wait for their bucket. Thousands of buckets have more pages than the TLB has places: an entry is written
/// here, where all places stay cached, and every sixteenth takes the others along.
struct Staging<'a> {
    waiting: Vec<[u64; STAGED]>,
    num_waiting: Vec<u8>,
    pieces: Vec<&'a mut [u64]>,
}

const STAGED: usize = 16;

impl<'a> Staging<'a> {
    fn new(pieces: Vec<&'a mut [u64]>) -> Self {
        Self { waiting: vec![[0; STAGED]; pieces.len()], num_waiting: vec![0; pieces.len()], pieces }
    }

    #[inline]
    fn push(&mut self, bucket: usize, entry: u64) {
        let num_waiting = &mut self.num_waiting[bucket];
        self.waiting[bucket][*num_waiting as usize % STAGED] = entry;
        *num_waiting += 1;
        if *num_waiting as usize == STAGED {
            *num_waiting = 0;
            let piece = &mut self.pieces[bucket];
            let (head, rest) = mem::take(piece).split_at_mut(STAGED);
            head.copy_from_slice(&self.waiting[bucket]);
            *piece = rest;
        }
    }

    /// Writes what still waits.
    fn finish(self) {
        for ((piece, waiting), num_waiting) in self.pieces.into_iter().zip(self.waiting).zip(self.num_waiting)
        {
            piece.copy_from_slice(&waiting[..num_waiting.into()]);
        }
    }
}

/// Writes both directions of a task's edges into its pieces of the buckets.
fn distribute(
    edges: &impl EdgeBlocks,
    layout: &Layout,
    task: usize,
    ends: &[[VertexId; 2]],
    pieces: Vec<&mut [u64]>,
    progress: &dyn Progress,
) -> Result<(), GenerateError> {
    let mut staging = Staging::new(pieces);
    let mut weights = vec![0; edges.block_edges()];
    for (block, ends) in (task as u64 * layout.task_blocks..).zip(ends.chunks(edges.block_edges())) {
        if progress.is_cancelled() {
            return Err(GenerateError::Interrupted);
        }
        let weights = &mut weights[..ends.len()];
        edges.fill_weights(block, weights);
        for (&[u, v], &weight) in ends.iter().zip(&*weights) {
            if u != v {
                staging.push(layout.bucket(u), layout.entry(u, v, weight));
                staging.push(layout.bucket(v), layout.entry(v, u, weight));
            }
        }
        progress.advance(ends.len() as u64);
    }
    staging.finish();
    Ok(())
}

/// Moves the first entry of each row and column to the front, in order; the number of them.
fn drop_duplicates(sorted: &mut [u64]) -> usize {
    let mut num_distinct = 0;
    let mut last = None;
    for i in 0..sorted.len() {
        let entry = sorted[i];
        let is_new = last != Some(entry >> WEIGHT_BITS);
        last = Some(entry >> WEIGHT_BITS);
        sorted[num_distinct] = entry;
        num_distinct += usize::from(is_new);
    }
    num_distinct
}

/// The graph of the sorted buckets, of which the first `num_distinct` entries count. Each is freed once it is copied.
fn write_rows(
    buckets: Vec<LargeArray<u64>>,
    num_distinct: &[usize],
    num_vertices: u64,
    row_bits: u32,
    has_weights: bool,
    progress: &dyn Progress,
) -> Result<Csr, GenerateError> {
    let num_entries = num_distinct.iter().map(|&n| n as u64).sum();
    progress.begin("rows", num_entries);
    let mut row_offsets = LargeArray::zeroed(num_vertices + 1, "the row offsets")?;
    let mut columns = LargeArray::zeroed(num_entries, "the column indices")?;
    let mut weights = LargeArray::zeroed(if has_weights { num_entries } else { 0 }, "the weights")?;

    let (mut ends_left, mut columns_left, mut weights_left) =
        (&mut row_offsets[1..], &mut columns[..], &mut weights[..]);
    let mut begin = 0;
    let mut parts = Vec::with_capacity(buckets.len());
    for (entries, &num_distinct) in buckets.into_iter().zip(num_distinct) {
        let num_rows = ends_left.len().min(1 << row_bits);
        let num_weights = num_distinct.min(weights_left.len());
        parts.push(Part {
            entries,
            begin,
            row_ends: split_front(&mut ends_left, num_rows),
            columns: split_front(&mut columns_left, num_distinct),
            weights: split_front(&mut weights_left, num_weights),
        });
        begin += num_distinct as u64;
    }
    parts.into_par_iter().try_for_each(|part| {
        if progress.is_cancelled() {
            return Err(GenerateError::Interrupted);
        }
        progress.advance(part.columns.len() as u64);
        part.write();
        Ok(())
    })?;
    progress.end();

    let weights = if has_weights { Weights::U8(HostArray::from_owner(weights)) } else { Weights::Unit };
    let (row_offsets, columns) = (HostArray::from_owner(row_offsets), HostArray::from_owner(columns));
    Ok(Csr::new(row_offsets, columns, weights, true).expect("rows come from sorted entries of vertices"))
}

fn split_front<'a, T>(rest: &mut &'a mut [T], length: usize) -> &'a mut [T] {
    let (front, back) = mem::take(rest).split_at_mut(length);
    *rest = back;
    front
}

/// A bucket and its place in the graph.
struct Part<'a> {
    entries: LargeArray<u64>,
    /// Index of its first edge.
    begin: u64,
    row_ends: &'a mut [u64],
    columns: &'a mut [VertexId],
    weights: &'a mut [u8],
}

impl Part<'_> {
    fn write(self) {
        let entries = &self.entries[..self.columns.len()];
        for (column, &entry) in self.columns.iter_mut().zip(entries) {
            *column = (entry >> WEIGHT_BITS) as VertexId;
        }
        for (weight, &entry) in self.weights.iter_mut().zip(entries) {
            *weight = entry as u8;
        }
        for &entry in entries {
            self.row_ends[(entry >> (COLUMN_BITS + WEIGHT_BITS)) as usize] += 1;
        }
        let mut end = self.begin;
        for row_end in self.row_ends {
            end += *row_end;
            *row_end = end;
        }
    }
}
