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
mod scan;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::builder::Batch;
use crate::error::LoadError;
use crate::options::LoadOptions;
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Symmetry};
use crate::text::Text;
pub(crate) use header::has_banner;
use header::{Header, Layout};
use scan::{Exact, Sink, values};

/// What stands above the entries, which are not looked at.
pub(crate) fn head_facts(text: &Text<'_>, options: &LoadOptions) -> Result<Facts, LoadError> {
    Header::read(text, options).map(|header| header.facts(text.path))
}

/// The text of a matrix, and what stands above its entries.
pub(crate) struct MatrixMarket<'a> {
    text: &'a Text<'a>,
    header: Header,
    facts: Facts,
    /// Of an `array` file: the values before each piece.
    firsts: Vec<u64>,
    /// Of an `array` file: its values.
    num_values: u64,
}

impl<'a> MatrixMarket<'a> {
    /// Reads what stands above the entries, and refuses what can be refused by that alone.
    pub(crate) fn open(
        text: &'a Text<'a>,
        options: &LoadOptions,
        progress: &dyn Progress,
    ) -> Result<Self, LoadError> {
        let header = Header::read(text, options)?;
        let facts = header.facts(text.path);
        let mut matrix = Self { text, header, facts, firsts: Vec::new(), num_values: 0 };
        matrix.check_entries(progress)?;
        if matrix.header.layout == Layout::Array {
            let mut counts = matrix.count_lines(progress)?;
            for count in &mut counts {
                matrix.num_values += std::mem::replace(count, matrix.num_values);
            }
            matrix.firsts = counts;
        }
        Ok(matrix)
    }

    /// Refuses more entries than the file can hold, before anything is allocated for them.
    fn check_entries(&self, progress: &dyn Progress) -> Result<(), LoadError> {
        let Header { layout, entries, body, .. } = self.header;
        let least_bytes = match layout {
            Layout::Coordinate => 4, // "1 1" and a line feed
            Layout::Array => 2,
        };
        let bytes = (self.text.bytes.len() - body) as u64 + 1; // the last line feed may be missing
        if entries.saturating_mul(least_bytes) > bytes {
            let found = self.count_lines(progress)?.iter().sum();
            if found < entries {
                return Err(self.entry_count(found));
            }
        }
        Ok(())
    }

    fn entry_count(&self, found: u64) -> LoadError {
        let Header { size_line: line, entries: promised, .. } = self.header;
        LoadError::EntryCount { path: self.text.path(), line, promised, found }
    }

    /// Lines of each piece that are neither blank nor comments.
    fn count_lines(&self, progress: &dyn Progress) -> Result<Vec<u64>, LoadError> {
        progress.begin("count lines", self.bytes());
        let counts = self.text.pieces(
            self.header.body,
            progress,
            Vec::new,
            |lines, piece| Ok(vec![(piece, scan::count_lines(self.text.bytes, lines))]),
            |mut counts, more| {
                counts.extend(more);
                counts
            },
        );
        progress.end();
        let mut counts = counts?.unwrap_or_default();
        counts.sort_unstable();
        Ok(counts.into_iter().map(|(_, count)| count).collect())
    }

    /// Reads one piece. Values are read where they become weights, in the first pass, and in `array` files, where zeros
    /// are told from entries by them.
    fn scan(
        &self,
        lines: Range<usize>,
        first: Option<u64>,
        pass: Pass,
        sink: &mut impl Sink,
    ) -> Result<(), usize> {
        let (bytes, header) = (self.text.bytes, &self.header);
        let exact = Exact(pass.keeps_values);
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
            _ if !pass.first && !pass.keeps_values => {
                scan::coordinates::<{ values::SKIP }>(bytes, lines, header, exact, sink)
            }
            Field::Integer => scan::coordinates::<{ values::INTEGER }>(bytes, lines, header, exact, sink),
            Field::Complex => scan::coordinates::<{ values::COMPLEX }>(bytes, lines, header, exact, sink),
            _ => scan::coordinates::<{ values::REAL }>(bytes, lines, header, exact, sink),
        }
    }
}

impl EdgeSource for MatrixMarket<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        (self.text.bytes.len() - self.header.body) as u64
    }

    fn pass(
        &self,
        pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        let stored = AtomicU64::new(0);
        self.text
            .pieces(
                self.header.body,
                progress,
                || (),
                |lines, piece| {
                    let mut sink = Entries {
                        take,
                        batch: Batch::new(),
                        finite: pass.keeps_values && self.header.field != Field::Pattern,
                        skew: self.header.symmetry == Symmetry::Skew,
                        stored: 0,
                    };
                    self.scan(lines, self.firsts.get(piece).copied(), pass, &mut sink)?;
                    sink.flush();
                    stored.fetch_add(sink.stored, Relaxed);
                    Ok(())
                },
                |(), ()| (),
            )?
            .map_err(|line| scan::explain(self.text, line, &self.header, pass.keeps_values))?;
        let found = match self.header.layout {
            Layout::Coordinate => stored.into_inner(),
            Layout::Array => self.num_values,
        };
        if found == self.header.entries { Ok(()) } else { Err(self.entry_count(found)) }
    }
}

/// The entries of a piece on their way.
struct Entries<'a> {
    take: &'a (dyn Fn(&mut Batch) + Sync),
    batch: Batch,
    /// Values must be finite.
    finite: bool,
    skew: bool,
    stored: u64,
}

impl Entries<'_> {
    fn flush(&mut self) {
        self.stored += self.batch.rows().len() as u64;
        (self.take)(&mut self.batch);
        self.batch.clear();
    }
}

impl Sink for Entries<'_> {
    #[inline(always)]
    fn entry(&mut self, row: u32, column: u32, value: f64) -> bool {
        if self.finite && !value.is_finite() || self.skew && row == column && value != 0.0 {
            return false;
        }
        if self.batch.push(row, column, value) {
            self.flush();
        }
        true
    }
}
