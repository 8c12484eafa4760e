//! Entries that were parsed once and are held until they are edges.
//!
//! Text takes longer to parse than everything that follows. Where memory is enough, its entries are kept as they are parsed:
//! columns in four bytes, rows as runs of the same row or in four bytes, values in the narrowest type that holds them. Each
//! thread keeps its entries in chunks, about a piece of the file each. If the rows of the file ascend, chunks lie one behind
//! the other: the arrays of the graph are copies of them, made by all threads, and nothing is scattered. If they do not, the
//! chunks are read as often as the text would be, and given back by the last pass over them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use gpuvm_engine::graph::{HostBuffer, VertexId};
use rayon::prelude::*;

use crate::assemble::{Plan, Totals};
use crate::builder::{BATCH, Batch, sort_rows};
use crate::error::LoadError;
use crate::memory;
use crate::partition::{lock, part, parts};
use crate::progress::{Progress, Until};
use crate::source::{EdgeSource, Facts, Pass, Shape};
use crate::weights::{Cell, ValueStats, Values};

/// Entries of a chunk at most: a piece of text holds no more.
const MOST_ENTRIES: usize = 1 << 20;

/// The rows of a chunk.
#[derive(Debug)]
enum ChunkRows {
    /// A row, and how many entries of it follow each other.
    Runs(Vec<(VertexId, u32)>),
    /// Of each entry: where runs are short.
    Each(Vec<VertexId>),
}

/// Entries in the order in which they came.
#[derive(Debug)]
struct Chunk {
    rows: ChunkRows,
    columns: Vec<VertexId>,
    values: Values,
    /// Of the values.
    stats: ValueStats,
    first: (VertexId, VertexId),
    last: (VertexId, VertexId),
    order: Order,
}

/// How entries follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// Any way.
    None,
    /// Rows never descend.
    Rows,
    /// Rows ascend, columns of a row as well, and no entry is there twice.
    Strict,
}

impl Order {
    /// Of entries that follow each other like `pairs`.
    fn of(rows: &[VertexId], columns: &[VertexId]) -> Self {
        let (mut ascend, mut strict) = (true, true);
        // No branch, so that many are compared at once.
        for (row, column) in rows.windows(2).zip(columns.windows(2)) {
            ascend &= row[0] <= row[1];
            strict &= (row[0] != row[1]) | (column[0] < column[1]);
        }
        match (ascend, strict) {
            (false, _) => Self::None,
            (true, false) => Self::Rows,
            (true, true) => Self::Strict,
        }
    }

    fn of_two(before: (VertexId, VertexId), after: (VertexId, VertexId)) -> Self {
        Self::of(&[before.0, after.0], &[before.1, after.1])
    }
}

impl Chunk {
    /// None yet, and room for some.
    fn with_room(room: usize) -> Self {
        Self {
            rows: ChunkRows::Runs(Vec::new()),
            columns: Vec::with_capacity(room),
            values: Values::with_room(0),
            stats: ValueStats::NONE,
            first: (0, 0),
            last: (0, 0),
            order: Order::Strict,
        }
    }

    fn len(&self) -> usize {
        self.columns.len()
    }

    /// Adds the entries of a batch, of which there may be none.
    fn add(&mut self, batch: &Batch, keeps_values: bool) {
        let (rows, columns) = (batch.rows(), batch.columns());
        let (Some(&first), Some(&last)) = (rows.first(), rows.last()) else { return };
        let (first, last) = ((first, columns[0]), (last, columns[columns.len() - 1]));
        self.order = self.order.min(Order::of(rows, columns));
        if self.columns.is_empty() {
            let num_runs = rows.windows(2).filter(|pair| pair[0] != pair[1]).count() + 1;
            let room = self.columns.capacity();
            self.rows = match num_runs * 2 <= rows.len() {
                true => ChunkRows::Runs(Vec::with_capacity(room / 8)),
                false => ChunkRows::Each(Vec::with_capacity(room)),
            };
            if keeps_values {
                self.values = Values::with_room(room);
            }
            self.first = first;
        } else {
            self.order = self.order.min(Order::of_two(self.last, first));
        }
        self.last = last;
        match &mut self.rows {
            ChunkRows::Each(each) => each.extend_from_slice(rows),
            ChunkRows::Runs(runs) => add_runs(runs, rows),
        }
        self.columns.extend_from_slice(columns);
        if keeps_values {
            self.stats = self.stats.join(ValueStats::of(batch.values()));
            self.values.add(batch.values(), self.stats.narrowest());
        }
    }

    /// Calls `each` for the runs of a row.
    #[inline(always)]
    fn for_runs(&self, mut each: impl FnMut(VertexId, u32)) {
        match &self.rows {
            ChunkRows::Runs(runs) => runs.iter().for_each(|&(row, count)| each(row, count)),
            ChunkRows::Each(rows) => rows.iter().for_each(|&row| each(row, 1)),
        }
    }

    /// Gives the entries, a batch at a time.
    fn give(&self, take: &(dyn Fn(&mut Batch) + Sync)) {
        match &self.values {
            Values::U8(values) => self.give_with(take, |at| values[at].into()),
            Values::U16(values) => self.give_with(take, |at| values[at].into()),
            Values::U32(values) => self.give_with(take, |at| values[at].into()),
            Values::F32(values) => self.give_with(take, |at| values[at].into()),
            Values::F64(values) => self.give_with(take, |at| values[at]),
        }
    }

    fn give_with(&self, take: &(dyn Fn(&mut Batch) + Sync), value: impl Fn(usize) -> f64) {
        let has_values = self.values.len() == self.columns.len();
        let (mut batch, mut at) = (Batch::new(), 0);
        self.for_runs(|row, count| {
            for _ in 0..count {
                if batch.push(row, self.columns[at], if has_values { value(at) } else { 1.0 }) {
                    take(&mut batch);
                    batch.clear();
                }
                at += 1;
            }
        });
        take(&mut batch);
    }
}

/// Adds the runs of these rows.
fn add_runs(runs: &mut Vec<(VertexId, u32)>, rows: &[VertexId]) {
    let mut begin = 0;
    while let Some(&row) = rows.get(begin) {
        let mut end = begin + 1;
        while rows.get(end) == Some(&row) {
            end += 1;
        }
        let count = (end - begin) as u32;
        match runs.last_mut() {
            // A chunk has far fewer entries than there are counts.
            Some((last, before)) if *last == row => *before += count,
            _ => runs.push((row, count)),
        }
        begin = end;
    }
}

/// What a thread has read.
struct Part {
    chunk: Chunk,
    chunks: Vec<Chunk>,
    totals: Totals,
    /// Beyond the largest row and column.
    past: (u64, u64),
}

/// The entries of a file, without those that the options drop.
pub(crate) struct Coordinates<'a> {
    source: &'a dyn EdgeSource,
    facts: Facts,
    chunks: Vec<Mutex<Chunk>>,
    order: Order,
    num_entries: u64,
    /// Of all entries, dropped ones as well.
    pub totals: Totals,
}

impl<'a> Coordinates<'a> {
    /// Reads all entries; `None` if there are more than `most`.
    pub(crate) fn read(
        source: &'a dyn EdgeSource,
        plan: &Plan,
        bipartite: bool,
        most: u64,
        progress: &dyn Progress,
    ) -> Result<Option<Self>, LoadError> {
        let facts = source.facts();
        let keeps_values = plan.keeps_values;
        let read = AtomicU64::new(0);
        let too_many = AtomicBool::new(false);
        let watched = Until { progress, stopped: &too_many };
        let new_part =
            || Part { chunk: Chunk::with_room(0), chunks: Vec::new(), totals: Totals::NONE, past: (0, 0) };
        let all = parts(new_part);
        progress.begin("read edges", source.bytes());
        let done = source.pass(Pass { keeps_values, first: true }, &watched, &|batch| {
            let mut part = part(&all);
            // A batch that is not full is the last of its piece, and what this thread reads next may lie behind a piece of
            // another.
            let is_last = batch.rows().len() < BATCH;
            let past = |ids: &[VertexId]| ids.iter().max().map_or(0, |&id| u64::from(id) + 1);
            part.past = (part.past.0.max(past(batch.rows())), part.past.1.max(past(batch.columns())));
            part.totals = part.totals.join(Totals::of(batch, facts.field));
            plan.apply(batch);
            part.chunk.add(batch, keeps_values);
            let len = part.chunk.len();
            if len > 0 && (is_last || len >= MOST_ENTRIES) {
                if read.fetch_add(len as u64, Relaxed) + len as u64 > most {
                    too_many.store(true, Relaxed);
                }
                // Pieces hold about as many entries each.
                let next = Chunk::with_room(len + len / 8);
                let chunk = std::mem::replace(&mut part.chunk, next);
                part.chunks.push(chunk);
            }
        });
        progress.end();
        if too_many.load(Relaxed) {
            return Ok(None);
        }
        done?;
        let (mut chunks, mut totals, mut past) = (Vec::new(), Totals::NONE, (0, 0));
        for part in all {
            let part = part.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            chunks.extend(part.chunks);
            chunks.extend((part.chunk.len() > 0).then_some(part.chunk));
            totals = totals.join(part.totals);
            past = (past.0.max(part.past.0), past.1.max(part.past.1));
        }
        chunks.sort_unstable_by_key(|chunk: &Chunk| (chunk.first.0, chunk.last.0, chunk.first.1));
        let within = chunks.iter().map(|chunk| chunk.order);
        let between = chunks.windows(2).map(|pair| Order::of_two(pair[0].last, pair[1].first));
        let order = within.chain(between).min().unwrap_or(Order::Strict);
        for chunk in &chunks {
            totals.values = totals.values.join(chunk.stats);
        }
        let shape = match facts.shape {
            Some(shape) => shape,
            None => Shape::measured(past, totals.stored, bipartite, &facts.path)?,
        };
        let num_entries = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Ok(Some(Self {
            source,
            // How many there are decides which way they are put together.
            facts: Facts { shape: Some(shape), entries: num_entries, ..facts.clone() },
            num_entries,
            chunks: chunks.into_iter().map(Mutex::new).collect(),
            order,
            totals,
        }))
    }

    /// Whether the rows of all entries ascend.
    pub(crate) fn is_in_order(&self) -> bool {
        self.order >= Order::Rows
    }

    /// How many edges there are if each entry is one.
    pub(crate) fn num_entries(&self) -> u64 {
        self.num_entries
    }

    /// The arrays of the graph whose edges are the entries, which are [in order](Self::is_in_order) and given up by this.
    pub(crate) fn to_rows<W: Cell>(
        &self,
        num_vertices: u64,
        keep_duplicates: bool,
        progress: &dyn Progress,
    ) -> Result<Arrays<W>, LoadError> {
        let num_edges = self.num_entries as usize;
        let no_memory = |_| memory::refusal(self.num_entries * 4, &self.facts.path, "the graph");
        let mut row_offsets = HostBuffer::<u64>::zeroed(num_vertices as usize + 1).map_err(no_memory)?;
        let mut columns = HostBuffer::<VertexId>::zeroed(num_edges).map_err(no_memory)?;
        let mut weights = HostBuffer::<W>::zeroed(num_edges).map_err(no_memory)?;

        progress.begin("fill rows", self.num_entries);
        let mut copies = Vec::with_capacity(self.chunks.len());
        let (mut offsets_left, mut columns_left, mut weights_left) =
            (&mut row_offsets[..], &mut columns[..], &mut weights[..]);
        let (mut next_row, mut next_edge) = (0, 0);
        for chunk in &self.chunks {
            let chunk = std::mem::replace(&mut *lock(chunk), Chunk::with_room(0));
            // Each chunk says where the rows begin that no chunk before it has reached.
            let end_row = u64::from(chunk.last.0) + 1;
            let (offsets, rest) = offsets_left.split_at_mut((end_row - next_row) as usize);
            offsets_left = rest;
            let (columns, rest) = columns_left.split_at_mut(chunk.len());
            columns_left = rest;
            let (weights, rest) = weights_left.split_at_mut(chunk.len());
            weights_left = rest;
            let first = (next_row, next_edge);
            next_edge += chunk.len() as u64;
            next_row = end_row;
            copies.push((chunk, first, offsets, columns, weights));
        }
        offsets_left.fill(next_edge);
        copies.into_par_iter().with_max_len(1).for_each(
            |(chunk, (first_row, mut edge), offsets, columns, weights)| {
                let mut filled = 0;
                chunk.for_runs(|row, count| {
                    let end = (u64::from(row) + 1).saturating_sub(first_row) as usize;
                    if end > filled {
                        offsets[filled..end].fill(edge);
                        filled = end;
                    }
                    edge += u64::from(count);
                });
                columns.copy_from_slice(&chunk.columns);
                W::copy(&chunk.values, weights);
                progress.advance(chunk.len() as u64);
            },
        );
        progress.end();
        let mut duplicates = 0;
        if self.order != Order::Strict {
            progress.begin("sort", self.num_entries);
            let kept = sort_rows(&mut row_offsets, &mut columns, &mut weights, keep_duplicates, progress);
            progress.end();
            let kept = kept.ok_or(LoadError::Interrupted)?;
            duplicates = (num_edges - kept) as u64;
            columns.truncate(kept);
            weights.truncate(kept);
        }
        Ok(Arrays { row_offsets, columns, weights, duplicates })
    }
}

/// The arrays of a graph.
pub(crate) struct Arrays<W> {
    pub row_offsets: HostBuffer<u64>,
    pub columns: HostBuffer<VertexId>,
    pub weights: HostBuffer<W>,
    pub duplicates: u64,
}

impl EdgeSource for Coordinates<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        self.num_entries
    }

    /// After a pass that is not the first there are no entries any more.
    fn pass(
        &self,
        pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        self.chunks.par_iter().with_max_len(1).try_for_each(|chunk| {
            if progress.is_cancelled() {
                return Err(LoadError::Interrupted);
            }
            let mut held = lock(chunk);
            let last = (!pass.first).then(|| std::mem::replace(&mut *held, Chunk::with_room(0)));
            let chunk = last.as_ref().unwrap_or(&held);
            chunk.give(take);
            progress.advance(chunk.len() as u64);
            Ok(())
        })
    }

    fn original_ids(&self) -> Option<&[u64]> {
        self.source.original_ids()
    }
}
