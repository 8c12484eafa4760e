//! Matrix Market, `coordinate` and `array`, every field and symmetry: an entry (i, j) is an edge from i to j.
//!
//! The text is read twice, in pieces, on all threads. The first pass checks every line, counts the edges of each row
//! and learns which type holds the weights; the second puts edges and weights where they belong. Memory is that of
//! the finished graph. A line that is not as it must be is reported with its number, always the first one of the file.
//!
//! What an entry stands for: `symmetric` and its relatives are written out, the diagonal once; a stored zero is an edge
//! (a zero of an `array` file is not); a self-loop is dropped and entries of one edge are merged into the smallest
//! weight, unless [`LoadOptions`] say otherwise.
//!
//! Source: Boisvert, Pozo, Remington, "The Matrix Market Exchange Formats: Initial Design", NISTIR 5935.

mod header;
mod number;
mod scan;
mod text;

use std::ops::Range;
use std::time::Instant;

use gpuvm_engine::graph::{Csr, WeightType, Weights};

use crate::builder::{Batch, Direction, RowCounts, RowFill, Rows};
use crate::error::LoadError;
use crate::options::{LoadOptions, WeightRule};
use crate::progress::Progress;
use crate::summary::LoadSummary;
use crate::weights::{Cell, ValueStats, random_weights};
use crate::{LoadedGraph, memory};
pub(crate) use header::has_banner;
use header::{Field, Header, Layout, Symmetry};
use scan::{Exact, Sink, values};
pub(crate) use text::{Text, quote};

/// Loads the graph that `text` describes.
pub(crate) fn load(
    text: &Text<'_>,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<LoadedGraph, LoadError> {
    let started = Instant::now();
    let header = Header::read(text, options)?;
    let plan = Plan::new(&header, options);
    let reader = Reader { text, header: &header, plan: &plan, progress };
    reader.check_entries()?;
    reader.check_shape(options)?;
    let firsts = reader.first_entries()?;
    let (counts, totals) = reader.count(&firsts)?;
    let mut summary = reader.summary(&totals, options);

    let stats = if plan.negates() { totals.values.with_negatives() } else { totals.values };
    let (csr, times) = match plan.keeps_values.then(|| stats.narrowest()) {
        Some(WeightType::U8) => reader.build::<u8>(counts, &firsts)?,
        Some(WeightType::U16) => reader.build::<u16>(counts, &firsts)?,
        Some(WeightType::U32) => reader.build::<u32>(counts, &firsts)?,
        Some(WeightType::F32) => reader.build::<f32>(counts, &firsts)?,
        Some(WeightType::F64) => reader.build::<f64>(counts, &firsts)?,
        Some(WeightType::Unit | WeightType::Hash) | None => reader.build::<()>(counts, &firsts)?,
    };
    let csr =
        with_rule(csr, options.weights).map_err(|source| LoadError::Graph { path: text.path(), source })?;
    summary.duplicates = times.duplicates;
    summary.parse_seconds = times.filled.duration_since(started).as_secs_f64();
    summary.build_seconds = times.filled.elapsed().as_secs_f64();
    Ok(LoadedGraph { csr, summary })
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

impl Transform {
    #[inline(always)]
    fn apply(self, value: f64) -> f64 {
        match self {
            Self::Keep => value,
            Self::Absolute => value.abs(),
            Self::NegativeAbsolute => -value.abs(),
        }
    }
}

/// What an entry of this file becomes under these options.
#[derive(Debug)]
struct Plan {
    directions: Vec<Direction>,
    drop_loops: bool,
    keep_duplicates: bool,
    keeps_values: bool,
    transform: Transform,
    /// Every edge has its reverse, with the same weight.
    symmetric: bool,
}

impl Plan {
    fn new(header: &Header, options: &LoadOptions) -> Self {
        let mirrored = header.symmetry != Symmetry::General;
        let keeps_values = options.weights.keeps_values() && header.field != Field::Pattern;
        let signed_skew =
            header.symmetry == Symmetry::Skew && keeps_values && options.weights == WeightRule::File;
        let symmetrize = options.symmetrize;
        let forward = Direction::FORWARD;
        let mirror = Direction { reverse: true, skip_diagonal: true, ..forward };
        let mut directions = vec![];
        if options.bipartite {
            let shift = header.rows as u32;
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

    fn negates(&self) -> bool {
        self.directions.iter().any(|direction| direction.negate)
    }
}

/// What the first pass adds up over the file.
#[derive(Clone, Copy, Debug)]
struct Totals {
    /// Lines that are entries or values.
    lines: u64,
    stored: u64,
    diagonal: u64,
    zeros: u64,
    negative: u64,
    non_finite: u64,
    /// Of the values that become weights.
    values: ValueStats,
}

impl Totals {
    const NONE: Self = Self {
        lines: 0,
        stored: 0,
        diagonal: 0,
        zeros: 0,
        negative: 0,
        non_finite: 0,
        values: ValueStats::NONE,
    };

    fn join(self, other: Self) -> Self {
        Self {
            lines: self.lines + other.lines,
            stored: self.stored + other.stored,
            diagonal: self.diagonal + other.diagonal,
            zeros: self.zeros + other.zeros,
            negative: self.negative + other.negative,
            non_finite: self.non_finite + other.non_finite,
            values: self.values.join(other.values),
        }
    }
}

/// The first pass over a piece.
struct Count<'a> {
    counts: &'a RowCounts,
    plan: &'a Plan,
    has_values: bool,
    skew: bool,
    batch: Batch,
    totals: Totals,
}

impl Count<'_> {
    fn flush(&mut self) {
        self.counts.add(&self.batch, &self.plan.directions);
        if self.plan.keeps_values {
            for &value in self.batch.values() {
                self.totals.values.add(value);
            }
        }
        self.batch.clear();
    }
}

impl Sink for Count<'_> {
    #[inline(always)]
    fn entry(&mut self, row: u32, column: u32, value: f64) -> bool {
        self.totals.stored += 1;
        if self.has_values {
            self.totals.zeros += u64::from(value == 0.0);
            self.totals.negative += u64::from(value < 0.0);
            if !value.is_finite() {
                if self.plan.keeps_values {
                    return false;
                }
                self.totals.non_finite += 1;
            }
        }
        if row == column {
            if self.skew && value != 0.0 {
                return false;
            }
            self.totals.diagonal += 1;
            if self.plan.drop_loops {
                return true;
            }
        }
        if self.batch.push(row, column, self.plan.transform.apply(value)) {
            self.flush();
        }
        true
    }
}

/// The second pass over a piece.
struct Fill<'a, W: Cell> {
    fill: &'a RowFill<W>,
    plan: &'a Plan,
    batch: Batch,
}

impl<W: Cell> Fill<'_, W> {
    fn flush(&mut self) {
        self.fill.add(&self.batch, &self.plan.directions);
        self.batch.clear();
    }
}

impl<W: Cell> Sink for Fill<'_, W> {
    #[inline(always)]
    fn entry(&mut self, row: u32, column: u32, value: f64) -> bool {
        if !(row == column && self.plan.drop_loops)
            && self.batch.push(row, column, self.plan.transform.apply(value))
        {
            self.flush();
        }
        true
    }
}

/// When the second pass ended, and what building found.
struct Times {
    filled: Instant,
    duplicates: u64,
}

/// A file, what stands above its entries, and what they become.
struct Reader<'a> {
    text: &'a Text<'a>,
    header: &'a Header,
    plan: &'a Plan,
    progress: &'a dyn Progress,
}

impl Reader<'_> {
    /// Refuses more entries than the file can hold, before anything is allocated for them.
    fn check_entries(&self) -> Result<(), LoadError> {
        let &Header { layout, entries, body, .. } = self.header;
        let least_bytes = match layout {
            Layout::Coordinate => 4, // "1 1" and a line feed
            Layout::Array => 2,
        };
        let bytes = (self.text.bytes.len() - body) as u64 + 1; // the last line feed may be missing
        if entries.saturating_mul(least_bytes) > bytes {
            let found = self.count_lines()?.iter().sum();
            if found < entries {
                return Err(self.entry_count(found));
            }
        }
        Ok(())
    }

    /// Refuses a matrix that is no graph, and a graph that memory cannot hold.
    fn check_shape(&self, options: &LoadOptions) -> Result<(), LoadError> {
        let &Header { layout, rows, columns, entries, num_vertices, size_line: line, .. } = self.header;
        if rows != columns && !options.bipartite {
            return Err(LoadError::NotSquare { path: self.text.path(), line, rows, columns });
        }
        let least_edges = if layout == Layout::Coordinate { entries } else { 0 };
        self.check_memory(num_vertices, least_edges, 0)
    }

    fn check_memory(&self, num_vertices: u64, num_edges: u64, weight_bytes: u64) -> Result<(), LoadError> {
        let bytes = (num_vertices + 1) * 8 + num_edges.saturating_mul(4 + weight_bytes);
        memory::check(bytes, self.text.path, "the graph")
    }

    fn entry_count(&self, found: u64) -> LoadError {
        let &Header { size_line: line, entries: promised, .. } = self.header;
        LoadError::EntryCount { path: self.text.path(), line, promised, found }
    }

    /// Lines of each piece that are neither blank nor comments.
    fn count_lines(&self) -> Result<Vec<u64>, LoadError> {
        self.progress.begin("count lines", (self.text.bytes.len() - self.header.body) as u64);
        let counts = self.text.pieces(
            self.header.body,
            self.progress,
            Vec::new,
            |lines, piece| Ok(vec![(piece, scan::count_lines(self.text.bytes, lines))]),
            |mut counts, more| {
                counts.extend(more);
                counts
            },
        );
        self.progress.end();
        let mut counts = counts?.unwrap_or_default();
        counts.sort_unstable();
        Ok(counts.into_iter().map(|(_, count)| count).collect())
    }

    /// For an `array` file, the number of values before each piece.
    fn first_entries(&self) -> Result<Vec<u64>, LoadError> {
        if self.header.layout == Layout::Coordinate {
            return Ok(Vec::new());
        }
        let mut before = 0;
        let mut firsts = self.count_lines()?;
        for count in &mut firsts {
            before += std::mem::replace(count, before);
        }
        Ok(firsts)
    }

    /// The first pass: checks every line and counts.
    fn count(&self, firsts: &[u64]) -> Result<(RowCounts, Totals), LoadError> {
        let counts = RowCounts::new(self.header.num_vertices);
        let exact = Exact(self.plan.keeps_values);
        self.progress.begin("count edges", (self.text.bytes.len() - self.header.body) as u64);
        let totals = self.text.pieces(
            self.header.body,
            self.progress,
            || Totals::NONE,
            |lines, piece| {
                let mut sink = Count {
                    counts: &counts,
                    plan: self.plan,
                    has_values: self.header.field != Field::Pattern,
                    skew: self.header.symmetry == Symmetry::Skew,
                    batch: Batch::new(),
                    totals: Totals::NONE,
                };
                self.scan(lines, firsts.get(piece).copied(), exact, true, &mut sink)?;
                sink.flush();
                Ok(sink.totals)
            },
            Totals::join,
        );
        self.progress.end();
        let mut totals =
            totals?.map_err(|line| scan::explain(self.text, line, self.header, self.plan.keeps_values))?;
        totals.lines = match self.header.layout {
            Layout::Coordinate => totals.stored,
            Layout::Array => self.count_lines()?.iter().sum(),
        };
        if totals.lines != self.header.entries {
            return Err(self.entry_count(totals.lines));
        }
        Ok((counts, totals))
    }

    /// Reads one piece. Values are read where they become weights, where `check` asks for it, and in `array` files,
    /// where zeros are told from entries by them.
    fn scan(
        &self,
        lines: Range<usize>,
        first: Option<u64>,
        exact: Exact,
        check: bool,
        sink: &mut impl Sink,
    ) -> Result<(), usize> {
        let (bytes, header) = (self.text.bytes, self.header);
        if header.layout == Layout::Array {
            let first = first.unwrap_or_default();
            return match header.field {
                Field::Integer => {
                    scan::array::<{ values::INTEGER }>(bytes, lines, first, header, exact, sink)
                }
                Field::Complex => {
                    scan::array::<{ values::COMPLEX }>(bytes, lines, first, header, exact, sink)
                }
                _ => scan::array::<{ values::REAL }>(bytes, lines, first, header, exact, sink),
            };
        }
        match header.field {
            Field::Pattern => scan::coordinates::<{ values::NONE }>(bytes, lines, header, exact, sink),
            _ if !check && !self.plan.keeps_values => {
                scan::coordinates::<{ values::SKIP }>(bytes, lines, header, exact, sink)
            }
            Field::Integer => scan::coordinates::<{ values::INTEGER }>(bytes, lines, header, exact, sink),
            Field::Real => scan::coordinates::<{ values::REAL }>(bytes, lines, header, exact, sink),
            Field::Complex => scan::coordinates::<{ values::COMPLEX }>(bytes, lines, header, exact, sink),
        }
    }

    /// The second pass, and the finished graph.
    fn build<W: Cell>(&self, counts: RowCounts, firsts: &[u64]) -> Result<(Csr, Times), LoadError> {
        let weight_bytes = if W::STORED { size_of::<W>() as u64 } else { 0 };
        // The row offsets are there already.
        self.check_memory(0, counts.num_edges(), weight_bytes)?;
        let fill = RowFill::<W>::new(counts);
        let exact = Exact(self.plan.keeps_values);
        self.progress.begin("fill rows", (self.text.bytes.len() - self.header.body) as u64);
        let filled = self.text.pieces(
            self.header.body,
            self.progress,
            || (),
            |lines, piece| {
                let mut sink = Fill { fill: &fill, plan: self.plan, batch: Batch::new() };
                self.scan(lines, firsts.get(piece).copied(), exact, false, &mut sink)?;
                sink.flush();
                Ok(())
            },
            |(), ()| (),
        );
        self.progress.end();
        // Only a file that changed since the first pass fails in the second.
        filled?.map_err(|line| scan::explain(self.text, line, self.header, self.plan.keeps_values))?;
        let filled = Instant::now();
        let Rows { row_offsets, columns, weights, duplicates } =
            fill.finish(self.plan.keep_duplicates, self.text.path, self.progress)?;
        let csr =
            Csr::with_unread_columns(row_offsets, columns, W::into_weights(weights), self.plan.symmetric)
                .map_err(|source| LoadError::Graph { path: self.text.path(), source })?;
        Ok((csr, Times { filled, duplicates }))
    }

    fn summary(&self, totals: &Totals, options: &LoadOptions) -> LoadSummary {
        let header = self.header;
        let mirrored = header.symmetry != Symmetry::General;
        let expanded_edges = totals.stored + if mirrored { totals.stored - totals.diagonal } else { 0 };
        let (stored, expanded) = match (header.layout, header.symmetry) {
            (Layout::Coordinate, _) => (totals.stored, expanded_edges),
            (Layout::Array, Symmetry::Skew) => (header.entries, 2 * header.entries),
            (Layout::Array, _) => (header.entries, header.rows * header.columns),
        };
        LoadSummary {
            format: header.to_string(),
            rows: header.rows,
            columns: header.columns,
            field: header.field.name().to_owned(),
            symmetry: header.symmetry.name().to_owned(),
            stored_entries: stored,
            expanded_entries: expanded,
            dropped_zeros: expanded - expanded_edges,
            self_loops: if options.bipartite { 0 } else { totals.diagonal },
            explicit_zeros: totals.zeros,
            negative_weights: if header.field == Field::Complex { 0 } else { totals.negative },
            non_finite: totals.non_finite,
            bipartite: options.bipartite,
            symmetrized: options.symmetrize,
            duplicates_kept: options.keep_duplicates,
            loops_kept: options.keep_loops,
            ..LoadSummary::default()
        }
    }
}
