//! The loop over text with an edge in each line, which edge lists, tables, DIMACS and Graphalytics files have in common,
//! and the slow second look at the one line that it refused.

use std::ops::Range;

use gpuvm_engine::graph::MAX_VERTICES;
use memchr::memchr;

use super::id_map::IdMap;
use crate::builder::Batch;
use crate::error::LoadError;
use crate::number::{byte, integer, is_blank, real, skip_blanks, unsigned};
use crate::progress::Progress;
use crate::short_line::short_line;
use crate::source::Pass;
use crate::text::{Text, quote};

/// Where in its line each number stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    /// From 0.
    pub source: usize,
    pub target: usize,
    pub weight: Option<usize>,
    /// What stands between columns: one byte, and what is between two of them may be empty or in quotes; `None` for
    /// blanks, or one comma or semicolon among them.
    pub separator: Option<u8>,
}

impl Columns {
    /// Source, target and, if there is one, weight.
    pub(super) fn in_order(weighted: bool) -> Self {
        Self { source: 0, target: 1, weight: weighted.then_some(2), separator: None }
    }
}

/// What the ids of a file are.
#[derive(Debug)]
pub(super) enum Ids {
    /// Numbers from `base` on, of `count` vertices.
    Numbers { base: u64, count: u64 },
    /// Any numbers, each the name of a vertex.
    Names(IdMap),
}

impl Ids {
    /// From 0, as many as there can be.
    pub(super) const ANY: Self = Self::Numbers { base: 0, count: MAX_VERTICES };

    /// The name of each vertex, if vertices have names.
    pub(super) fn names(&self) -> Option<&[u64]> {
        match self {
            Self::Names(map) => Some(map.ids()),
            Self::Numbers { .. } => None,
        }
    }
}

/// Lines that are edges.
#[derive(Debug)]
pub(super) struct Lines {
    /// Where they begin.
    pub body: usize,
    /// What an edge's line begins with; lines that begin with `c` are comments then.
    pub prefix: Option<u8>,
    pub columns: Columns,
    /// A line may have other columns.
    pub has_others: bool,
}

/// Takes the edges of a piece, ids as they are in the file.
pub(super) trait Sink {
    /// False refuses the edge.
    fn edge(&mut self, source: u64, target: u64, value: f64) -> bool;
}

impl Lines {
    /// Gives every edge of `text` to `take`, as [`EdgeSource::pass`](crate::source::EdgeSource::pass) must; returns how
    /// many there are.
    pub(super) fn pass(
        &self,
        text: &Text<'_>,
        ids: &Ids,
        pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<u64, LoadError> {
        let scan = |lines: Range<usize>, _| match ids {
            &Ids::Numbers { base, count } => {
                let mut sink = Numbers { base, count, out: Out::new(take) };
                self.scan(text.bytes, lines, pass, &mut sink)?;
                Ok(sink.out.finish())
            }
            Ids::Names(map) => {
                let mut sink = Names { map, out: Out::new(take) };
                self.scan(text.bytes, lines, pass, &mut sink)?;
                Ok(sink.out.finish())
            }
        };
        text.pieces(self.body, progress, || 0, scan, |a, b| a + b)?
            .map_err(|line| self.explain(text, line, ids, pass.keeps_values))
    }

    /// All ids that occur, in order.
    pub(super) fn names(&self, text: &Text<'_>, progress: &dyn Progress) -> Result<IdMap, LoadError> {
        struct Collect(Vec<u64>);
        impl Sink for Collect {
            #[inline(always)]
            fn edge(&mut self, source: u64, target: u64, _value: f64) -> bool {
                self.0.extend([source, target]);
                true
            }
        }
        let pass = Pass { keeps_values: false, first: true };
        progress.begin("find the ids", (text.bytes.len() - self.body) as u64);
        let parts = text.pieces(
            self.body,
            progress,
            Vec::new,
            |lines, _| {
                let mut ids = Collect(Vec::new());
                self.scan(text.bytes, lines, pass, &mut ids)?;
                ids.0.sort_unstable();
                ids.0.dedup();
                Ok(vec![ids.0])
            },
            |mut parts, more: Vec<Vec<u64>>| {
                parts.extend(more);
                parts
            },
        );
        progress.end();
        let parts = parts?
            .map_err(|line| self.explain(text, line, &Ids::Numbers { base: 0, count: u64::MAX }, false))?;
        IdMap::new(parts, text.path)
    }

    fn scan<S: Sink>(
        &self,
        bytes: &[u8],
        lines: Range<usize>,
        pass: Pass,
        sink: &mut S,
    ) -> Result<(), usize> {
        let exact = pass.keeps_values;
        let reads_weights = pass.first || pass.keeps_values;
        let in_order = Columns::in_order(self.columns.weight.is_some());
        if self.columns != in_order || self.has_others {
            return by_columns(bytes, lines, &self.columns, reads_weights, exact, sink);
        }
        let prefix = self.prefix;
        match (self.columns.weight, reads_weights) {
            (None, _) => edges::<{ weights::NONE }, S>(bytes, lines, prefix, exact, sink),
            (Some(_), false) => edges::<{ weights::SKIP }, S>(bytes, lines, prefix, exact, sink),
            (Some(_), true) => edges::<{ weights::NUMBER }, S>(bytes, lines, prefix, exact, sink),
        }
    }

    /// What a line must be.
    fn expected(&self) -> &'static str {
        match (self.prefix, self.columns.weight) {
            (None, None) => "\"source target\"",
            (None, Some(_)) => "\"source target weight\"",
            (Some(b'a'), None) => "\"a source target\"",
            (Some(b'a'), Some(_)) => "\"a source target weight\"",
            (Some(_), _) => "\"e vertex vertex\"",
        }
    }

    /// Says what is wrong with the line at `offset`, which the loop refused.
    fn explain(&self, text: &Text<'_>, offset: usize, ids: &Ids, keeps_values: bool) -> LoadError {
        let path = text.path();
        let bytes = &text.bytes[offset..];
        let bytes = &bytes[..memchr(b'\n', bytes).unwrap_or(bytes.len())];
        let (line, found) = (text.line_number(offset), text.line_text(offset));
        let expected = self.expected();
        let mut words = words(bytes, self.columns.separator);
        if let Some(prefix) = self.prefix {
            if words.first().is_none_or(|word| **word != [prefix]) {
                let what = "line";
                return LoadError::NotANumber { path, line, what, found, expected };
            }
            words.remove(0);
        }
        let word = |column: usize| words.get(column).copied().unwrap_or_default();
        for (what, column) in [("source", self.columns.source), ("target", self.columns.target)] {
            let word = word(column);
            if word.is_empty() {
                return LoadError::MissingNumber { path, line, found, missing: what, expected };
            }
            let (number, end) = unsigned(word, 0);
            if end != word.len() {
                let expected = "an id: digits only";
                return LoadError::NotANumber { path, line, what, found: quote(word), expected };
            }
            let id = quote(word);
            match ids {
                Ids::Names(_) if number == u64::MAX => {
                    return LoadError::IdTooLong { path, line, what, id };
                }
                Ids::Names(map) if map.get(number).is_none() => {
                    return LoadError::UnknownVertex { path, line, what, id };
                }
                Ids::Names(_) => {}
                &Ids::Numbers { base, count } => {
                    if number < base {
                        return LoadError::ArcIdZero { path, line, what };
                    }
                    if number - base >= count {
                        return match count {
                            MAX_VERTICES => LoadError::IdTooLarge { path, line, what, id },
                            u64::MAX => LoadError::IdTooLong { path, line, what, id },
                            most => LoadError::IdOutOfRange { path, line, what, id, most },
                        };
                    }
                }
            }
        }
        if let Some(column) = self.columns.weight {
            let (word, what) = (word(column), "weight");
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

/// Edges on their way to who takes them.
struct Out<'a> {
    batch: Batch,
    num_edges: u64,
    take: &'a (dyn Fn(&mut Batch) + Sync),
}

impl<'a> Out<'a> {
    fn new(take: &'a (dyn Fn(&mut Batch) + Sync)) -> Self {
        Self { batch: Batch::new(), num_edges: 0, take }
    }

    #[inline(always)]
    fn push(&mut self, row: u32, column: u32, value: f64) {
        if self.batch.push(row, column, value) {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.num_edges += self.batch.rows().len() as u64;
        (self.take)(&mut self.batch);
        self.batch.clear();
    }

    fn finish(mut self) -> u64 {
        self.flush();
        self.num_edges
    }
}

struct Numbers<'a> {
    base: u64,
    count: u64,
    out: Out<'a>,
}

impl Sink for Numbers<'_> {
    #[inline(always)]
    fn edge(&mut self, source: u64, target: u64, value: f64) -> bool {
        // An id below the base wraps and is out of range like one that is too large.
        let (source, target) = (source.wrapping_sub(self.base), target.wrapping_sub(self.base));
        if source >= self.count || target >= self.count {
            return false;
        }
        self.out.push(source as u32, target as u32, value);
        true
    }
}

struct Names<'a> {
    map: &'a IdMap,
    out: Out<'a>,
}

impl Sink for Names<'_> {
    #[inline(always)]
    fn edge(&mut self, source: u64, target: u64, value: f64) -> bool {
        let (Some(source), Some(target)) = (self.map.get(source), self.map.get(target)) else { return false };
        self.out.push(source, target, value);
        true
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
pub(super) fn skip_separator(bytes: &[u8], at: usize) -> usize {
    let at = skip_blanks(bytes, at);
    match byte(bytes, at) {
        b',' | b';' => skip_blanks(bytes, at + 1),
        _ => at,
    }
}

/// The number at `at`, an integer or a real, and where it ends; `None` if there is none, or if `exact` and it is an
/// integer that a double cannot hold.
#[inline(always)]
pub(super) fn number(bytes: &[u8], at: usize, exact: bool) -> Option<(f64, usize)> {
    match integer(bytes, at, exact) {
        Some((value, end)) if ends_word(bytes, end) => Some((value, end)),
        None if exact && integer(bytes, at, false).is_some_and(|(_, end)| ends_word(bytes, end)) => None,
        _ => real(bytes, at),
    }
}

#[inline(always)]
pub(super) fn ends_word(bytes: &[u8], at: usize) -> bool {
    byte(bytes, at) == b'\n' || is_separator(byte(bytes, at))
}

/// Past the line feed of the line that `at` is in.
#[inline(always)]
pub(super) fn next_line(bytes: &[u8], at: usize) -> usize {
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
pub(super) fn begin(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 }
}

/// Where the first line from `line` on begins that is neither blank nor a comment.
pub(super) fn first_line(bytes: &[u8], mut line: usize) -> Option<usize> {
    while line < bytes.len() {
        match first_number(bytes, line) {
            Ok(_) => return Some(line),
            Err(next) => line = next,
        }
    }
    None
}

/// Whether the line at `line` begins like an edge, with two ids.
pub(super) fn is_edge(bytes: &[u8], line: usize) -> bool {
    let begin = skip_blanks(bytes, line);
    let (_, end) = unsigned(bytes, begin);
    let second = skip_separator(bytes, end);
    let (_, last) = unsigned(bytes, second);
    end > begin && second > end && last > second && ends_word(bytes, last)
}

/// The words of a line, without blanks and quotes around them.
pub(super) fn words(line: &[u8], separator: Option<u8>) -> Vec<&[u8]> {
    let mut words = Vec::new();
    match separator {
        Some(separator) => {
            let mut at = 0;
            loop {
                let (word, end) = field(line, at, separator);
                words.push(word);
                match line.get(end) {
                    Some(&b) if b == separator => at = end + 1,
                    _ => return words,
                }
            }
        }
        None => {
            let mut at = skip_blanks(line, 0);
            while at < line.len() {
                let begin = at;
                while at < line.len() && !is_separator(line[at]) {
                    at += 1;
                }
                words.push(&line[begin..at]);
                at = skip_separator(line, at);
            }
            words
        }
    }
}

/// The line at `line`, without its line feed.
pub(super) fn line_at(bytes: &[u8], line: usize) -> &[u8] {
    let rest = bytes.get(line..).unwrap_or_default();
    &rest[..memchr(b'\n', rest).unwrap_or(rest.len())]
}

/// The field at `at`, without blanks and quotes around it, and where it ends: at its separator, or at the end of the line.
fn field(bytes: &[u8], at: usize, separator: u8) -> (&[u8], usize) {
    let skip = |mut at: usize| {
        while byte(bytes, at) != separator && is_blank(byte(bytes, at)) {
            at += 1;
        }
        at
    };
    let mut at = skip(at);
    let quoted = byte(bytes, at) == b'"';
    at += usize::from(quoted);
    let begin = at;
    if quoted {
        while !matches!(byte(bytes, at), b'"' | b'\n')
            || byte(bytes, at) == b'"' && byte(bytes, at + 1) == b'"'
        {
            at += if byte(bytes, at) == b'"' { 2 } else { 1 };
        }
        let word = bytes.get(begin..at).unwrap_or_default();
        at = skip(at + usize::from(byte(bytes, at) == b'"'));
        return (word, at);
    }
    while byte(bytes, at) != separator && byte(bytes, at) != b'\n' {
        at += 1;
    }
    let word = bytes.get(begin..at).unwrap_or_default();
    let blanks = word.iter().rev().take_while(|&&b| is_blank(b)).count();
    (&word[..word.len() - blanks], at)
}

/// Reads the lines that begin in `lines`, behind a letter if there is a `prefix`; fails with the offset of the first line that
/// is no edge.
fn edges<const WEIGHTS: u8, S: Sink>(
    bytes: &[u8],
    lines: Range<usize>,
    prefix: Option<u8>,
    exact: bool,
    sink: &mut S,
) -> Result<(), usize> {
    let mut line = lines.start;
    while line < lines.end {
        let (source, target, value, next) = match short_edge::<WEIGHTS>(bytes, line, prefix, exact) {
            Some(edge) => edge,
            None => {
                let begin = match first_number_behind(prefix, bytes, line)? {
                    Ok(begin) => begin,
                    Err(next) => {
                        line = next;
                        continue;
                    }
                };
                let (source, target, end) = two_ids(bytes, begin).ok_or(line)?;
                let (value, next) = match WEIGHTS {
                    weights::NONE => (1.0, end_of_line(bytes, end).ok_or(line)?),
                    weights::SKIP => (1.0, next_line(bytes, end)),
                    _ => weight(bytes, end, exact).ok_or(line)?,
                };
                (source, target, value, next)
            }
        };
        if !sink.edge(source, target, value) {
            return Err(line);
        }
        line = next;
    }
    Ok(())
}

/// The edge of a line as most are written, and where the next line begins; `None` leaves the line to a closer look.
#[inline(always)]
fn short_edge<const WEIGHTS: u8>(
    bytes: &[u8],
    line: usize,
    prefix: Option<u8>,
    exact: bool,
) -> Option<(u64, u64, f64, usize)> {
    let begin = match prefix {
        Some(prefix) if byte(bytes, line) == prefix && is_blank(byte(bytes, line + 1)) => line + 2,
        Some(_) => return None,
        None => line,
    };
    let short = short_line(bytes, begin, WEIGHTS == weights::NUMBER, is_separator)?;
    let (value, next) = match (WEIGHTS, short.third) {
        (weights::NONE, _) if byte(bytes, short.end) == b'\n' => (1.0, short.end + 1),
        (weights::NONE, _) => return None,
        (weights::SKIP, _) => (1.0, next_line(bytes, short.end)),
        (_, Some((value, next))) => (f64::from(value), next),
        (_, None) => weight(bytes, short.end, exact)?,
    };
    let [source, target] = short.numbers.map(u64::from);
    Some((source, target, value, next))
}

/// Where the first number of a line stands, or where the next line begins, as [`first_number`] tells, behind the letter that
/// edges begin with if there is one; fails with the offset of a line that begins with another.
#[inline(always)]
fn first_number_behind(prefix: Option<u8>, bytes: &[u8], line: usize) -> Result<Result<usize, usize>, usize> {
    let Some(prefix) = prefix else { return Ok(first_number(bytes, line)) };
    let at = skip_blanks(bytes, line);
    match byte(bytes, at) {
        letter if letter == prefix => {
            let begin = skip_blanks(bytes, at + 1);
            if begin > at + 1 { Ok(Ok(begin)) } else { Err(line) }
        }
        b'\n' => Ok(Err(at + 1)),
        b'c' | b'#' | b'%' => Ok(Err(next_line(bytes, at))),
        _ => Err(line),
    }
}

/// The two ids from `at` on, and where the second ends.
#[inline(always)]
fn two_ids(bytes: &[u8], at: usize) -> Option<(u64, u64, usize)> {
    let (source, end) = unsigned(bytes, at);
    let begin = skip_separator(bytes, end);
    let (target, after) = unsigned(bytes, begin);
    // Ids that were too long for 64 bits are refused as names, and are too large as numbers.
    let fits = source != u64::MAX && target != u64::MAX;
    (end > at && begin > end && after > begin && fits).then_some((source, target, after))
}

/// The last number of a line, after what separates it from the one before, and where the next line begins.
#[inline(always)]
fn weight(bytes: &[u8], at: usize, exact: bool) -> Option<(f64, usize)> {
    let begin = skip_separator(bytes, at);
    if begin == at {
        return None;
    }
    let (value, end) = number(bytes, begin, exact)?;
    if exact && !value.is_finite() {
        return None;
    }
    Some((value, end_of_line(bytes, end)?))
}

/// The same for lines of which only some columns matter, in any order.
fn by_columns<S: Sink>(
    bytes: &[u8],
    lines: Range<usize>,
    columns: &Columns,
    reads_weights: bool,
    exact: bool,
    sink: &mut S,
) -> Result<(), usize> {
    let weight = columns.weight.filter(|_| reads_weights);
    let last = columns.source.max(columns.target).max(weight.unwrap_or(0));
    let id = |word: &[u8]| match unsigned(word, 0) {
        (id, end) if end == word.len() && end > 0 && id != u64::MAX => Some(id),
        _ => None,
    };
    let mut line = lines.start;
    while line < lines.end {
        let mut at = match first_number(bytes, line) {
            Ok(begin) if columns.separator.is_none() => begin,
            Ok(_) => line,
            Err(next) => {
                line = next;
                continue;
            }
        };
        let (mut source, mut target, mut value) = (None, None, weight.is_none().then_some(1.0));
        for column in 0..=last {
            let word = match columns.separator {
                Some(separator) => {
                    let (word, end) = field(bytes, at, separator);
                    at = if byte(bytes, end) == separator { end + 1 } else { end };
                    word
                }
                None => {
                    let begin = at;
                    while !ends_word(bytes, at) {
                        at += 1;
                    }
                    let word = bytes.get(begin..at).unwrap_or_default();
                    at = skip_separator(bytes, at);
                    word
                }
            };
            if column == columns.source {
                source = id(word);
            }
            if column == columns.target {
                target = id(word);
            }
            if Some(column) == weight {
                value = number(word, 0, exact)
                    .filter(|&(value, end)| end == word.len() && (value.is_finite() || !exact))
                    .map(|(value, _)| value);
            }
        }
        let (Some(source), Some(target), Some(value)) = (source, target, value) else { return Err(line) };
        if !sink.edge(source, target, value) {
            return Err(line);
        }
        line = next_line(bytes, at);
    }
    Ok(())
}
