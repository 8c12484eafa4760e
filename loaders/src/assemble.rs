//! Entries of any format to the graph that [`LoadOptions`] ask for.
//!
//! The first pass counts the edges of each row and learns which type holds the weights; the second puts edges and
//! weights where they belong. What an entry stands for: symmetric storage is written out, the diagonal once; a stored zero
//! is an edge; a self-loop is dropped and entries of one edge are merged into the smallest weight, unless the options
//! say otherwise.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use gpuvm_engine::graph::{Csr, HostArray, MAX_VERTICES, VertexId, WeightType, Weights};

use crate::builder::{Batch, Direction, RowCounts, RowFill, Rows};
use crate::coordinates::{Arrays, Coordinates};
use crate::error::LoadError;
use crate::options::{LoadOptions, WeightRule};
use crate::partition::{PartitionFill, RangeCounts};
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Shape, Symmetry};
use crate::summary::LoadSummary;
use crate::weights::{Cell, ValueStats, random_weights, small_integers};
use crate::{LoadedGraph, memory};

/// Builds the graph.
pub(crate) fn assemble(
    source: &dyn EdgeSource,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<LoadedGraph, LoadError> {
    let most = if source.is_slow() { entries_that_fit(source, options) } else { 0 };
    assemble_holding(source, options, most, progress)
}

/// How many entries may be held beside the graph that is made of them.
fn entries_that_fit(source: &dyn EdgeSource, options: &LoadOptions) -> u64 {
    /// A file of less is not asked about.
    const SMALL_FILE: u64 = 4 << 20;
    if source.bytes() <= SMALL_FILE {
        return u64::MAX;
    }
    let plan = Plan::new(source.facts(), 0, options);
    let value_bytes = if plan.keeps_values { 8 } else { 0 };
    // A run of one entry and its column; for each edge its column, and its row in its bucket.
    let bytes = (8 + 4 + value_bytes) + plan.directions.len() as u64 * (4 + 2 + value_bytes);
    memory::available_bytes() / bytes
}

/// Builds the graph; entries are held if they are no more than `most`.
fn assemble_holding(
    source: &dyn EdgeSource,
    options: &LoadOptions,
    most: u64,
    progress: &dyn Progress,
) -> Result<LoadedGraph, LoadError> {
    let started = Instant::now();
    let facts = source.facts();
    let (path, place) = (|| facts.path.clone(), facts.place);
    if facts.field == Field::Complex && options.weights == WeightRule::File {
        return Err(LoadError::ComplexWeights { path: path(), line: place });
    }
    let coordinates = match most {
        0 => None,
        _ => {
            if facts.shape.is_some() {
                Assembly::new(source, options, false, progress)?; // refuses before reading
            }
            let plan = Plan::new(facts, 0, options);
            Coordinates::read(source, &plan, options.bipartite, most, progress)?
        }
    };
    let source = coordinates.as_ref().map_or(source, |coordinates| coordinates as &dyn EdgeSource);
    let assembly = Assembly::new(source, options, false, progress)?;
    let (stored, totals) = match &coordinates {
        Some(held) if held.is_in_order() && assembly.plan.directions == [Direction::FORWARD] => {
            (Stored::InOrder(held), held.totals)
        }
        Some(held) => {
            let counts = assembly.counters();
            assembly.count_held(&counts)?;
            (Stored::Counted(counts), held.totals)
        }
        None => {
            let counts = assembly.counters();
            let totals = assembly.count(|batch, directions| counts.add(batch, directions))?;
            (Stored::Counted(counts), totals)
        }
    };
    let mut summary = assembly.summary(&totals, options);

    let (csr, times) = match assembly.weight_type(&totals) {
        WeightType::U8 => assembly.build::<u8>(stored)?,
        WeightType::U16 => assembly.build::<u16>(stored)?,
        WeightType::U32 => assembly.build::<u32>(stored)?,
        WeightType::F32 => assembly.build::<f32>(stored)?,
        WeightType::F64 => assembly.build::<f64>(stored)?,
        WeightType::Unit | WeightType::Hash => assembly.build::<()>(stored)?,
    };
    let csr = with_rule(csr, options.weights).map_err(|source| LoadError::Graph { path: path(), source })?;
    summary.duplicates = times.duplicates;
    summary.parse_seconds = times.filled.duration_since(started).as_secs_f64();
    summary.build_seconds = times.filled.elapsed().as_secs_f64();
    let ids = source.original_ids().map(|ids| match options.bipartite {
        true => Arc::from([ids, ids].concat()), // rows, then columns
        false => Arc::from(ids),
    });
    Ok(LoadedGraph { csr, summary, ids })
}

/// The same edges under the weights that need no values.
pub(crate) fn with_rule(csr: Csr, rule: WeightRule) -> Result<Csr, gpuvm_engine::GraphError> {
    match rule {
        WeightRule::File | WeightRule::Abs => Ok(csr),
        WeightRule::Ignore | WeightRule::Unit => csr.with_weights(Weights::Unit),
        WeightRule::Hash => csr.with_weights(Weights::Hash),
        WeightRule::Random { seed } => {
            let weights = random_weights(&csr, seed);
            csr.with_weights(weights)
        }
    }
}

/// What becomes of the value of an entry before it is a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transform {
    Keep,
    Absolute,
    /// The smaller of a value and its negative: both directions of a symmetrized skew-symmetric matrix.
    NegativeAbsolute,
}

/// What an entry of a file becomes under the options.
#[derive(Debug)]
pub(crate) struct Plan {
    pub directions: Vec<Direction>,
    pub drop_loops: bool,
    pub keep_duplicates: bool,
    pub keeps_values: bool,
    transform: Transform,
    /// Every edge has its reverse, with the same weight.
    pub symmetric: bool,
}

impl Plan {
    pub(crate) fn new(facts: &Facts, rows: u64, options: &LoadOptions) -> Self {
        let mirrored = facts.symmetry != Symmetry::General;
        let keeps_values = options.weights.keeps_values() && facts.field != Field::Pattern;
        let signed_skew =
            facts.symmetry == Symmetry::Skew && keeps_values && options.weights == WeightRule::File;
        let symmetrize = options.symmetrize;
        let forward = Direction::FORWARD;
        let mirror = Direction { reverse: true, skip_diagonal: true, ..forward };
        let mut directions = vec![];
        if options.bipartite {
            let shift = rows as u32;
            let to_columns = Direction { target_shift: shift, ..forward };
            let mirror_to_columns = Direction { target_shift: shift, negate: signed_skew, ..mirror };
            directions.push(to_columns);
            if mirrored {
                directions.push(mirror_to_columns);
            }
            if symmetrize {
                directions.push(Direction { reverse: true, source_shift: shift, ..forward });
            }
            if symmetrize && mirrored {
                let skip_diagonal = true;
                directions.push(Direction {
                    source_shift: shift,
                    skip_diagonal,
                    negate: signed_skew,
                    ..forward
                });
            }
        } else {
            directions.push(forward);
            if mirrored || symmetrize {
                directions.push(Direction { negate: signed_skew && !symmetrize, ..mirror });
            }
        }
        Self {
            directions,
            drop_loops: !options.bipartite && !options.keep_loops,
            keep_duplicates: options.keep_duplicates,
            keeps_values,
            transform: match options.weights {
                WeightRule::Abs => Transform::Absolute,
                _ if signed_skew && symmetrize && !options.bipartite => Transform::NegativeAbsolute,
                _ => Transform::Keep,
            },
            symmetric: symmetrize || (mirrored && !signed_skew && !options.bipartite),
        }
    }

    pub(crate) fn negates(&self) -> bool {
        self.directions.iter().any(|direction| direction.negate)
    }

    /// Makes edges of the entries of a batch: without those that are dropped, and with weights for values.
    pub(crate) fn apply(&self, batch: &mut Batch) {
        if self.drop_loops {
            batch.drop_diagonal();
        }
        match self.transform {
            Transform::Keep => {}
            Transform::Absolute => batch.values_mut().iter_mut().for_each(|value| *value = value.abs()),
            Transform::NegativeAbsolute => {
                batch.values_mut().iter_mut().for_each(|value| *value = -value.abs());
            }
        }
    }
}

/// What the first pass adds up over the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    pub stored: u64,
    pub diagonal: u64,
    pub zeros: u64,
    pub negative: u64,
    pub non_finite: u64,
    /// Values that are no integers.
    pub fractions: u64,
    /// Of the values that become weights.
    pub values: ValueStats,
}

impl Totals {
    pub(crate) const NONE: Self = Self {
        stored: 0,
        diagonal: 0,
        zeros: 0,
        negative: 0,
        non_finite: 0,
        fractions: 0,
        values: ValueStats::NONE,
    };

    pub(crate) fn join(self, other: Self) -> Self {
        Self {
            stored: self.stored + other.stored,
            diagonal: self.diagonal + other.diagonal,
            zeros: self.zeros + other.zeros,
            negative: self.negative + other.negative,
            non_finite: self.non_finite + other.non_finite,
            fractions: self.fractions + other.fractions,
            values: self.values.join(other.values),
        }
    }

    /// Of the entries of a batch as the file has them.
    pub(crate) fn of(batch: &Batch, field: Field) -> Self {
        let mut totals = Self { stored: batch.rows().len() as u64, ..Self::NONE };
        totals.diagonal =
            batch.rows().iter().zip(batch.columns()).map(|(row, column)| u64::from(row == column)).sum();
        if field == Field::Pattern {
            return totals;
        }
        if small_integers(batch.values()).is_some() {
            totals.zeros = batch.values().iter().map(|&value| u64::from(value == 0.0)).sum();
        } else {
            for &value in batch.values() {
                totals.zeros += u64::from(value == 0.0);
                totals.negative += u64::from(value < 0.0);
                totals.non_finite += u64::from(!value.is_finite());
            }
            if field == Field::Number {
                totals.fractions =
                    batch.values().iter().map(|&value| u64::from(value as i64 as f64 != value)).sum();
            }
        }
        totals
    }
}

/// A sum to which many threads add: a part for each of them.
pub(crate) struct Shared<T>(Vec<Mutex<T>>);

impl<T: Copy> Shared<T> {
    pub(crate) fn new(none: T) -> Self {
        Self((0..=rayon::current_num_threads()).map(|_| Mutex::new(none)).collect())
    }

    /// Changes the part of this thread; those of another pool share the last.
    pub(crate) fn update(&self, change: impl FnOnce(T) -> T) {
        let last = self.0.len() - 1;
        let part = rayon::current_thread_index().map_or(last, |thread| thread.min(last));
        let mut part = self.0[part].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *part = change(*part);
    }

    pub(crate) fn join(self, join: impl Fn(T, T) -> T) -> Option<T> {
        let parts = self.0.into_iter().map(|part| part.into_inner().unwrap_or_else(|e| e.into_inner()));
        parts.reduce(join)
    }
}

/// Reads the entries once to find the largest ids; both ids name the same vertices unless `bipartite`.
///
/// # Errors
/// [`LoadError::SparseIds`] where the ids would need far more memory than the file.
fn measure(
    source: &dyn EdgeSource,
    pass: Pass,
    bipartite: bool,
    progress: &dyn Progress,
) -> Result<Shape, LoadError> {
    let found = Shared::new((0, 0, 0));
    let join = |a: (u64, u64, u64), b: (u64, u64, u64)| (a.0.max(b.0), a.1.max(b.1), a.2 + b.2);
    progress.begin("find the largest id", source.bytes());
    let read = source.pass(pass, progress, &|batch| {
        let past = |ids: &[u32]| ids.iter().max().map_or(0, |&id| u64::from(id) + 1);
        let batch = (past(batch.rows()), past(batch.columns()), batch.rows().len() as u64);
        found.update(|so_far| join(so_far, batch));
    });
    progress.end();
    read?;
    let (rows, columns, entries) = found.join(join).unwrap_or_default();
    Shape::measured((rows, columns), entries, bipartite, &source.facts().path)
}

/// What the entries are put together from.
enum Stored<'a> {
    /// Entries that another pass gives, and whose edges are counted.
    Counted(Counters),
    InOrder(&'a Coordinates<'a>),
}

/// Edges of every row, or of ranges of rows: how many edges there will be decides which way they are put together.
enum Counters {
    Rows(RowCounts),
    Ranges(RangeCounts),
}

/// Edges that are worth buckets: with fewer, counters and rows are near a cache anyway.
const MANY_EDGES: u64 = 1 << 24;

impl Counters {
    fn add(&self, batch: &Batch, directions: &[Direction]) {
        match self {
            Self::Rows(counts) => counts.add(batch, directions),
            Self::Ranges(counts) => counts.add(batch, directions),
        }
    }

    fn num_edges(&self) -> u64 {
        match self {
            Self::Rows(counts) => counts.num_edges(),
            Self::Ranges(counts) => counts.num_edges(),
        }
    }
}

/// When the second pass ended, and what building found.
struct Times {
    filled: Instant,
    duplicates: u64,
}

/// A source, and what its entries become.
pub(crate) struct Assembly<'a> {
    pub source: &'a dyn EdgeSource,
    pub plan: Plan,
    shape: Shape,
    pub num_vertices: u64,
    progress: &'a dyn Progress,
}

impl<'a> Assembly<'a> {
    /// Finds the shape of the graph, and refuses one that memory cannot hold unless it will not be `on_disk`.
    pub(crate) fn new(
        source: &'a dyn EdgeSource,
        options: &LoadOptions,
        on_disk: bool,
        progress: &'a dyn Progress,
    ) -> Result<Self, LoadError> {
        let facts = source.facts();
        let (path, line) = (|| facts.path.clone(), facts.place);
        let keeps_values = options.weights.keeps_values() && facts.field != Field::Pattern;
        let shape = match facts.shape {
            Some(shape) => shape,
            None => measure(source, Pass { keeps_values, first: true }, options.bipartite, progress)?,
        };
        let Shape { rows, columns } = shape;
        if rows != columns && !options.bipartite {
            return Err(LoadError::NotSquare { path: path(), line, rows, columns });
        }
        let num_vertices = if options.bipartite { rows.saturating_add(columns) } else { rows };
        if num_vertices > MAX_VERTICES {
            return Err(LoadError::TooManyVertices { path: path(), line, rows, columns, num_vertices });
        }
        let plan = Plan::new(facts, rows, options);
        let assembly = Self { source, plan, shape, num_vertices, progress };
        if on_disk {
            return Ok(assembly);
        }
        assembly.check_memory(num_vertices, if facts.dense.is_none() { facts.entries } else { 0 }, 0)?;
        Ok(assembly)
    }

    /// Refuses a graph that memory cannot hold.
    fn check_memory(&self, num_vertices: u64, num_edges: u64, weight_bytes: u64) -> Result<(), LoadError> {
        let bytes = num_edges.saturating_mul(4 + weight_bytes).saturating_add((num_vertices + 1) * 8);
        memory::check(bytes, &self.source.facts().path, "the graph")
    }

    /// Counters for as many edges as there may be, a guess by the head or the size of the file.
    fn counters(&self) -> Counters {
        const LEAST_BYTES: u64 = 12; // of an edge in a large file of text
        let facts = self.source.facts();
        let entries = if facts.entries > 0 { facts.entries } else { self.source.bytes() / LEAST_BYTES };
        let num_edges = entries.saturating_mul(self.plan.directions.len() as u64);
        // Columns, the widest weights, rows in their buckets, row offsets.
        let bytes = num_edges.saturating_mul(4 + 8 + 2).saturating_add(self.num_vertices * 8);
        let fits = memory::check(bytes, &facts.path, "the graph").is_ok();
        if num_edges >= MANY_EDGES && fits {
            Counters::Ranges(RangeCounts::new(self.num_vertices))
        } else {
            Counters::Rows(RowCounts::new(self.num_vertices))
        }
    }

    /// The first pass: has everything checked, gives the edges of every batch to `count`, and adds up.
    fn count(&self, count: impl Fn(&Batch, &[Direction]) + Sync) -> Result<Totals, LoadError> {
        let totals = Shared::new(Totals::NONE);
        let field = self.source.facts().field;
        let pass = Pass { keeps_values: self.plan.keeps_values, first: true };
        self.progress.begin("count edges", self.source.bytes());
        let counted = self.source.pass(pass, self.progress, &|batch| {
            let mut found = Totals::of(batch, field);
            self.plan.apply(batch);
            count(batch, &self.plan.directions);
            if self.plan.keeps_values {
                found.values = ValueStats::of(batch.values());
            }
            totals.update(|so_far| so_far.join(found));
        });
        self.progress.end();
        counted?;
        Ok(totals.join(Totals::join).unwrap_or(Totals::NONE))
    }

    /// Counts edges of entries that were [read](Coordinates::read), and so checked and changed, before.
    fn count_held(&self, counts: &Counters) -> Result<(), LoadError> {
        let pass = Pass { keeps_values: self.plan.keeps_values, first: true };
        self.progress.begin("count edges", self.source.bytes());
        let counted =
            self.source.pass(pass, self.progress, &|batch| counts.add(batch, &self.plan.directions));
        self.progress.end();
        counted
    }

    /// The first pass for a graph that will not be in memory: how many edges there are, before duplicates are merged.
    pub(crate) fn count_all(&self) -> Result<(u64, Totals), LoadError> {
        let num_edges = Shared::new(0_u64);
        let totals = self.count(|batch, directions| {
            let mut found = 0;
            directions.iter().for_each(|direction| direction.for_edges(batch, |_, _, _| found += 1));
            num_edges.update(|so_far| so_far + found);
        })?;
        Ok((num_edges.join(|a, b| a + b).unwrap_or_default(), totals))
    }

    /// The type that holds the weights of the file, `Unit` if they are not kept.
    pub(crate) fn weight_type(&self, totals: &Totals) -> WeightType {
        let values = if self.plan.negates() { totals.values.with_negatives() } else { totals.values };
        if self.plan.keeps_values { values.narrowest() } else { WeightType::Unit }
    }

    /// The second pass, and the finished graph.
    fn build<W: Cell>(&self, stored: Stored<'_>) -> Result<(Csr, Times), LoadError> {
        let weight_bytes = if W::STORED { size_of::<W>() as u64 } else { 0 };
        let counts = match stored {
            Stored::Counted(counts) => counts,
            Stored::InOrder(coordinates) => {
                self.check_memory(self.num_vertices, coordinates.num_entries(), weight_bytes)?;
                let read = Instant::now();
                let Arrays { row_offsets, columns, weights, duplicates } =
                    coordinates.to_rows::<W>(self.num_vertices, self.plan.keep_duplicates, self.progress)?;
                let csr = self.csr(row_offsets, columns, W::into_weights(weights))?;
                return Ok((csr, Times { filled: read, duplicates }));
            }
        };
        // The row offsets are there already.
        self.check_memory(0, counts.num_edges(), weight_bytes)?;
        let path = &self.source.facts().path;
        let pass = Pass { keeps_values: self.plan.keeps_values, first: false };
        self.progress.begin("fill rows", self.source.bytes());
        // Only a file that changed since the first pass fails in the second.
        let fill = |add: &(dyn Fn(&Batch, &[Direction]) + Sync)| {
            self.source.pass(pass, self.progress, &|batch| {
                self.plan.apply(batch);
                add(batch, &self.plan.directions);
            })
        };
        let finish = |filled: Result<(), LoadError>| {
            self.progress.end();
            filled.map(|()| (Instant::now(), self.plan.keep_duplicates))
        };
        let (filled, rows) = match counts {
            Counters::Rows(counts) => {
                let arrays = RowFill::<W>::new(counts);
                let (filled, keep) = finish(fill(&|batch, directions| arrays.add(batch, directions)))?;
                (filled, arrays.finish(keep, path, self.progress)?)
            }
            Counters::Ranges(counts) => {
                let arrays = PartitionFill::<W>::new(counts);
                let (filled, keep) = finish(fill(&|batch, directions| arrays.add(batch, directions)))?;
                (filled, arrays.finish(keep, path, self.progress)?)
            }
        };
        let Rows { row_offsets, columns, weights, duplicates } = rows;
        Ok((self.csr(row_offsets, columns, W::into_weights(weights))?, Times { filled, duplicates }))
    }

    fn csr(
        &self,
        row_offsets: impl Into<HostArray<u64>>,
        columns: impl Into<HostArray<VertexId>>,
        weights: Weights,
    ) -> Result<Csr, LoadError> {
        Csr::with_unread_columns(row_offsets, columns, weights, self.plan.symmetric)
            .map_err(|source| LoadError::Graph { path: self.source.facts().path.clone(), source })
    }

    pub(crate) fn summary(&self, totals: &Totals, options: &LoadOptions) -> LoadSummary {
        let facts = self.source.facts();
        let mirrored = facts.symmetry != Symmetry::General;
        let expanded_edges = totals.stored + if mirrored { totals.stored - totals.diagonal } else { 0 };
        let (stored, expanded) =
            facts.dense.map_or((totals.stored, expanded_edges), |dense| (dense.stored, dense.cells));
        let field = match facts.field {
            Field::Number if totals.fractions == 0 => Field::Integer,
            field => field,
        };
        LoadSummary {
            format: facts.format.clone(),
            rows: self.shape.rows,
            columns: self.shape.columns,
            field: field.name().to_owned(),
            symmetry: facts.symmetry.name().to_owned(),
            stored_entries: stored,
            expanded_entries: expanded,
            dropped_zeros: expanded.saturating_sub(expanded_edges),
            self_loops: if options.bipartite { 0 } else { totals.diagonal },
            explicit_zeros: totals.zeros,
            negative_weights: if field == Field::Complex { 0 } else { totals.negative },
            non_finite: totals.non_finite,
            bipartite: options.bipartite,
            symmetrized: options.symmetrize,
            duplicates_kept: options.keep_duplicates,
            loops_kept: options.keep_loops,
            ..LoadSummary::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::edge_list::EdgeList;
    use crate::text::Text;

    fn load(text: &str, options: &LoadOptions, most: u64) -> Result<LoadedGraph, LoadError> {
        let text = Text { bytes: text.as_bytes(), path: "test".as_ref(), file: None };
        let source = EdgeList::open(&text, options, &())?;
        assemble_holding(&source, options, most, &())
    }

    #[test]
    fn graph_of_entries_that_are_not_held_is_that_of_held_ones() {
        let lines = |ascending: bool| -> String {
            let row = |i: u64| if ascending { i / 16 } else { i * 7919 % 3000 };
            (0..40_000).map(|i| format!("{} {} {}\n", row(i), i * 31 % 2500, i % 90)).collect()
        };
        for ascending in [true, false] {
            for (symmetrize, keep_duplicates, bipartite) in
                [(false, false, false), (true, false, false), (false, true, true), (true, true, true)]
            {
                let options =
                    LoadOptions { symmetrize, keep_duplicates, bipartite, ..LoadOptions::default() };
                let text = lines(ascending);
                let held = load(&text, &options, u64::MAX).expect("loads");
                // None at all, too many at once, and too many after some.
                for most in [0, 1, 20_000, 39_999] {
                    let read = load(&text, &options, most).expect("loads");
                    assert_eq!(read.csr.row_offsets().as_slice(), held.csr.row_offsets().as_slice());
                    assert_eq!(read.csr.column_indices().as_slice(), held.csr.column_indices().as_slice());
                    assert_eq!(read.csr.weights().as_bytes(), held.csr.weights().as_bytes());
                    let without_times =
                        |s: &LoadSummary| LoadSummary { parse_seconds: 0.0, build_seconds: 0.0, ..s.clone() };
                    assert_eq!(
                        format!("{:?}", without_times(&read.summary)),
                        format!("{:?}", without_times(&held.summary))
                    );
                }
            }
        }
    }

    #[test]
    fn error_of_entries_that_are_not_held_is_that_of_held_ones() {
        for wrong in ["1 x 1", "1 2", "4294967295 1 1", "4000000000 1 1", "1 2 nan"] {
            let text = format!("{}{wrong}\n{}", "0 1 2\n".repeat(20_000), "3 4 5\n".repeat(20_000));
            let [held, read] = [u64::MAX, 0].map(|most| {
                load(&text, &LoadOptions::default(), most).map(|_| ()).expect_err("refused").to_string()
            });
            assert_eq!(held, read);
        }
    }
}
