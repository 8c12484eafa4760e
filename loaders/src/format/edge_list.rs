//! Edge lists: a line an edge, `source target` or `source target weight`, ids from 0.
//!
//! Numbers are separated by blanks, tabs, a comma or a semicolon. Lines that are blank or begin with `#`, `%` or `//` are
//! skipped. The first line that is left says how many columns there are, and every other line must have as many. The
//! largest id is that of the last vertex; ids that never occur are vertices without edges.
//!
//! Sources: the edge lists of SNAP, `.el` and `.wel` of the GAP benchmark suite.

use std::ops::Range;

use gpuvm_engine::graph::MAX_VERTICES;
use memchr::memchr;

use crate::builder::Batch;
use crate::error::{LoadError, Place};
use crate::number::{byte, integer, is_blank, real, skip_blanks, unsigned};
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Symmetry};
use crate::text::{Text, quote};

/// The largest id of a vertex.
const MAX_ID: u64 = MAX_VERTICES - 1;

/// An edge list, and where its lines begin.
pub(crate) struct EdgeList<'a> {
    text: &'a Text<'a>,
    facts: Facts,
    weighted: bool,
    body: usize,
}

impl<'a> EdgeList<'a> {
    /// Looks at the first edge.
    pub(crate) fn open(text: &'a Text<'a>) -> Result<Self, LoadError> {
        let bytes = text.bytes;
        let body = begin(bytes);
        let first = first_edge(bytes, body);
        let columns = first.map_or(2, |at| count_columns(bytes, at));
        if let (Some(at), 4..) = (first, columns) {
            let (line, found) = (text.line_number(at), text.line_text(at));
            return Err(LoadError::ManyColumns { path: text.path(), line, found, columns });
        }
        let weighted = columns == 3;
        let facts = Facts {
            path: text.path(),
            format: if weighted { "weighted edge list" } else { "edge list" }.to_owned(),
            field: if weighted { Field::Number } else { Field::Pattern },
            symmetry: Symmetry::General,
            shape: None,
            place: Place::default(),
            entries: 0,
            dense: None,
        };
        Ok(Self { text, facts, weighted, body })
    }

    /// Says what is wrong with the line at `line`, which the loop refused.
    fn explain(&self, line: usize, keeps_values: bool) -> LoadError {
        let (path, offset) = (self.text.path(), line);
        let bytes = &self.text.bytes[offset..];
        let bytes = &bytes[..memchr(b'\n', bytes).unwrap_or(bytes.len())];
        let (line, found) = (self.text.line_number(offset), self.text.line_text(offset));
        let expected = if self.weighted { "\"source target weight\"" } else { "\"source target\"" };
        let mut at = skip_blanks(bytes, 0);
        let mut word = || {
            let begin = at;
            while at < bytes.len() && !is_separator(bytes[at]) {
                at += 1;
            }
            let word = &bytes[begin..at];
            at = skip_separator(bytes, at);
            word
        };
        for what in ["source", "target"] {
            let word = word();
            if word.is_empty() {
                return LoadError::MissingNumber { path, line, found, missing: what, expected };
            }
            let (number, end) = unsigned(word, 0);
            if end != word.len() {
                let expected = "an id: digits only";
                return LoadError::NotANumber { path, line, what, found: quote(word), expected };
            }
            if number > MAX_ID {
                return LoadError::IdTooLarge { path, line, what, id: quote(word) };
            }
        }
        if self.weighted {
            let word = word();
            let what = "weight";
            if word.is_empty() {
                return LoadError::MissingNumber { path, line, found, missing: what, expected };
            }
            match number(word, 0, false) {
                Some((value, end)) if end == word.len() => {
                    if keeps_values && !value.is_finite() {
                        return LoadError::NotFinite { path, line, found: quote(word) };
                    }
                    if keeps_values && number(word, 0, true).is_none() {
                        return LoadError::TooLargeInteger { path, line, found: quote(word) };
                    }
                }
                _ => {
                    let expected = "a number";
                    return LoadError::NotANumber { path, line, what, found: quote(word), expected };
                }
            }
        }
        LoadError::SurplusText { path, line, found, expected }
    }
}

impl EdgeSource for EdgeList<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        (self.text.bytes.len() - self.body) as u64
    }

    fn pass(
        &self,
        pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        let bytes = self.text.bytes;
        let scan = |lines: Range<usize>, _| {
            let mut batch = Batch::new();
            match (self.weighted, pass.first || pass.keeps_values) {
                (false, _) => edges::<{ weights::NONE }>(bytes, lines, false, &mut batch, take),
                (true, false) => edges::<{ weights::SKIP }>(bytes, lines, false, &mut batch, take),
                (true, true) => {
                    edges::<{ weights::NUMBER }>(bytes, lines, pass.keeps_values, &mut batch, take)
                }
            }
        };
        self.text
            .pieces(self.body, progress, || (), scan, |(), ()| ())?
            .map_err(|line| self.explain(line, pass.keeps_values))
    }
}

/// What the loop does with a third column: a constant of each instance of it.
mod weights {
    /// There is none.
    pub(super) const NONE: u8 = 0;
    /// It was checked before: skip to the end of the line.
    pub(super) const SKIP: u8 = 1;
    pub(super) const NUMBER: u8 = 2;
}

#[inline(always)]
fn is_separator(byte: u8) -> bool {
    is_blank(byte) || matches!(byte, b',' | b';')
}

/// Past blanks and at most one comma or semicolon.
#[inline(always)]
fn skip_separator(bytes: &[u8], at: usize) -> usize {
    let at = skip_blanks(bytes, at);
    match byte(bytes, at) {
        b',' | b';' => skip_blanks(bytes, at + 1),
        _ => at,
    }
}

/// The number at `at`, an integer or a real, and where it ends; `None` if there is none, or if `exact` and it is an
/// integer that a double cannot hold.
#[inline(always)]
pub(crate) fn number(bytes: &[u8], at: usize, exact: bool) -> Option<(f64, usize)> {
    match integer(bytes, at, exact) {
        Some((value, end)) if is_separator(byte(bytes, end)) || byte(bytes, end) == b'\n' => {
            Some((value, end))
        }
        None if exact && integer(bytes, at, false).is_some_and(|(_, end)| ends_word(bytes, end)) => None,
        _ => real(bytes, at),
    }
}

#[cold]
fn ends_word(bytes: &[u8], at: usize) -> bool {
    is_separator(byte(bytes, at)) || byte(bytes, at) == b'\n'
}

/// Past the line feed of the line that `at` is in.
#[inline(always)]
fn next_line(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).and_then(|rest| memchr(b'\n', rest)).map_or(bytes.len(), |len| at + len + 1)
}

/// Where the first number of a line stands; the beginning of the next line if it is blank or a comment.
#[inline(always)]
fn first_number(bytes: &[u8], line: usize) -> Result<usize, usize> {
    let at = skip_blanks(bytes, line);
    match byte(bytes, at) {
        b'0'..=b'9' => Ok(at),
        b'\n' => Err(at + 1),
        b'#' | b'%' => Err(next_line(bytes, at)),
        b'/' if byte(bytes, at + 1) == b'/' => Err(next_line(bytes, at)),
        _ => Ok(at),
    }
}

/// Past the line feed, if nothing but blanks, or a last comma, stands before it.
#[inline(always)]
fn end_of_line(bytes: &[u8], at: usize) -> Option<usize> {
    if byte(bytes, at) == b'\n' {
        return Some(at + 1);
    }
    let at = skip_separator(bytes, at);
    (byte(bytes, at) == b'\n').then_some(at + 1)
}

/// Where the text begins: after a byte order mark.
pub(crate) fn begin(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 }
}

/// Where the first line that is an edge begins.
pub(crate) fn first_edge(bytes: &[u8], mut line: usize) -> Option<usize> {
    while line < bytes.len() {
        match first_number(bytes, line) {
            Ok(_) => return Some(line),
            Err(next) => line = next,
        }
    }
    None
}

/// Whether the line at `line` begins like an edge, with two ids.
pub(crate) fn is_edge(bytes: &[u8], line: usize) -> bool {
    let begin = skip_blanks(bytes, line);
    let (_, end) = unsigned(bytes, begin);
    let second = skip_separator(bytes, end);
    let (_, last) = unsigned(bytes, second);
    end > begin && second > end && last > second && ends_word(bytes, last)
}

/// Columns of the line at `line`.
fn count_columns(bytes: &[u8], line: usize) -> usize {
    let (mut at, mut columns) = (skip_blanks(bytes, line), 0);
    while byte(bytes, at) != b'\n' {
        while byte(bytes, at) != b'\n' && !is_separator(byte(bytes, at)) {
            at += 1;
        }
        at = skip_separator(bytes, at);
        columns += 1;
    }
    columns
}

/// Reads the lines that begin in `lines`; fails with the offset of the first line that is no edge.
fn edges<const WEIGHTS: u8>(
    bytes: &[u8],
    lines: Range<usize>,
    keeps_values: bool,
    batch: &mut Batch,
    take: &(dyn Fn(&mut Batch) + Sync),
) -> Result<(), usize> {
    let mut line = lines.start;
    while line < lines.end {
        let begin = match first_number(bytes, line) {
            Ok(begin) => begin,
            Err(next) => {
                line = next;
                continue;
            }
        };
        let (source, end) = unsigned(bytes, begin);
        if source > MAX_ID || end == begin {
            return Err(line);
        }
        let begin = skip_separator(bytes, end);
        let (target, after) = unsigned(bytes, begin);
        if target > MAX_ID || after == begin || begin == end {
            return Err(line);
        }
        let (value, next) = match WEIGHTS {
            weights::NONE => (1.0, end_of_line(bytes, after).ok_or(line)?),
            weights::SKIP => (1.0, next_line(bytes, after)),
            _ => {
                let begin = skip_separator(bytes, after);
                if begin == after {
                    return Err(line);
                }
                let (value, end) = number(bytes, begin, keeps_values).ok_or(line)?;
                if keeps_values && !value.is_finite() {
                    return Err(line);
                }
                (value, end_of_line(bytes, end).ok_or(line)?)
            }
        };
        if batch.push(source as u32, target as u32, value) {
            take(batch);
            batch.clear();
        }
        line = next;
    }
    take(batch);
    batch.clear();
    Ok(())
}
