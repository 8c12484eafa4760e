//! METIS, `.graph`: a line a vertex with its neighbours, ids from 1, each edge in the lines of both of its vertices.
//!
//! The first line is `VERTICES EDGES [FMT [NCON]]`. FMT has three digits, zeros in front left out: vertex sizes, vertex
//! weights, edge weights. A line is the size of the vertex if there are sizes, its NCON weights (1 if not given) if there are
//! weights, and its neighbours, each followed by the weight of the edge if there are such weights. FMT 100 without NCON is
//! the multigraph of the 10th DIMACS challenge: no sizes, loops and repeated edges allowed. Lines that begin with `%`
//! are comments; an empty line is a vertex without edges. Sizes and weights of vertices are not read.
//!
//! Source: the manual of METIS, section 4.1.1, and the 10th DIMACS implementation challenge.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memchr::memchr_iter;

use super::lines::{self, next_line, number};
use crate::builder::Batch;
use crate::error::LoadError;
use crate::number::{byte, is_blank, skip_blanks, unsigned};
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Shape, Symmetry};
use crate::text::{Text, quote};

/// The text of a graph.
pub(crate) struct Metis<'a> {
    text: &'a Text<'a>,
    facts: Facts,
    line: u64,
    vertices: u64,
    edges: u64,
    /// Numbers before the first neighbour in a line.
    skip: u64,
    weighted: bool,
    body: usize,
    /// The vertex that the first line of each piece belongs to.
    firsts: Vec<u64>,
}

const EXPECTED: &str = "\"VERTICES EDGES [FMT [NCON]]\", FMT being three digits of 0 and 1";

/// Where the first line begins that is no comment.
fn head_line(bytes: &[u8]) -> usize {
    let mut line = lines::begin(bytes);
    while line < bytes.len() {
        let at = skip_blanks(bytes, line);
        match byte(bytes, at) {
            b'%' => line = next_line(bytes, at),
            b'\n' => line = at + 1,
            _ => break,
        }
    }
    line
}

/// The numbers of the first line.
fn head(bytes: &[u8], line: usize) -> Option<Vec<u64>> {
    let text = lines::line_at(bytes, line);
    let words: Vec<&[u8]> = text.split(|&b| is_blank(b)).filter(|word| !word.is_empty()).collect();
    let numbers: Option<Vec<u64>> = words
        .iter()
        .map(|word| match unsigned(word, 0) {
            (number, end) if end == word.len() => Some(number),
            _ => None,
        })
        .collect();
    numbers.filter(|numbers| (2..=4).contains(&numbers.len()))
}

/// Whether the text can be a METIS file rather than an edge list: it has as many lines as its first line says, and some of
/// the first have another number of words than that; unless its name says it is one.
pub(super) fn can_be(bytes: &[u8], is_named: bool) -> bool {
    const LINES: usize = 64;
    let begin = head_line(bytes);
    let Some(numbers) = head(bytes, begin) else { return false };
    if is_named {
        return true;
    }
    let body = next_line(bytes, begin);
    let (mut line, mut differs) = (body, false);
    for _ in 0..LINES {
        if line >= bytes.len() {
            break;
        }
        let words = lines::words(lines::line_at(bytes, line), None);
        if words.first().is_none_or(|word| !word.starts_with(b"%")) {
            if !words.iter().all(|word| number(word, 0, false).is_some_and(|(_, end)| end == word.len())) {
                return false;
            }
            differs |= !words.is_empty() && words.len() != numbers.len();
        }
        line = next_line(bytes, line);
    }
    if !differs {
        return false;
    }
    let rest = &bytes[body..];
    let ends_open = u64::from(!rest.is_empty() && rest.last() != Some(&b'\n'));
    let lines = memchr_iter(b'\n', rest).count() as u64 + ends_open - comments(bytes, body..bytes.len());
    lines == numbers[0]
}

impl<'a> Metis<'a> {
    pub(crate) fn open(text: &'a Text<'a>, progress: &dyn Progress) -> Result<Self, LoadError> {
        let bytes = text.bytes;
        let begin = head_line(bytes);
        let line = text.line_number(begin);
        let size_line = || {
            let (path, found) = (text.path(), text.line_text(begin));
            LoadError::SizeLine { path, line, found, expected: EXPECTED }
        };
        let numbers = head(bytes, begin).ok_or_else(size_line)?;
        let (vertices, edges) = (numbers[0], numbers[1]);
        let fmt = numbers.get(2).copied().unwrap_or(0);
        let digits = [fmt / 100, fmt / 10 % 10, fmt % 10];
        if digits.iter().any(|&digit| digit > 1) {
            return Err(size_line());
        }
        let [sizes, vertex_weights, edge_weights] = digits.map(|digit| digit == 1);
        let ncon = numbers.get(3).copied();
        let multigraph = fmt == 100 && ncon.is_none();
        let skip = u64::from(sizes && !multigraph) + if vertex_weights { ncon.unwrap_or(1) } else { 0 };
        if vertices > gpuvm_engine::graph::MAX_VERTICES {
            let (rows, columns, num_vertices, line) = (vertices, vertices, vertices, line.into());
            return Err(LoadError::TooManyVertices { path: text.path(), line, rows, columns, num_vertices });
        }
        let body = next_line(bytes, begin);
        // A neighbour takes two bytes at the least.
        let entries = if edges <= (bytes.len() / 2) as u64 { edges } else { 0 };
        let facts = Facts {
            path: text.path(),
            format: format!("METIS fmt={fmt:03}"),
            field: if edge_weights { Field::Number } else { Field::Pattern },
            symmetry: Symmetry::General,
            shape: Some(Shape::square(vertices)),
            place: line.into(),
            entries,
            dense: None,
        };
        let weighted = edge_weights;
        let mut graph = Self { text, facts, line, vertices, edges, skip, weighted, body, firsts: Vec::new() };
        graph.firsts = graph.first_vertices(progress)?;
        Ok(graph)
    }

    /// The vertex of the first line of each piece, and the number of lines; refuses a file of too few of them.
    fn first_vertices(&self, progress: &dyn Progress) -> Result<Vec<u64>, LoadError> {
        let bytes = self.text.bytes;
        progress.begin("count lines", self.bytes());
        let counts = self.text.pieces(
            self.body,
            progress,
            Vec::new,
            |lines, piece| {
                let mut count = u64::from(!lines.is_empty());
                if !lines.is_empty() {
                    // Line feeds but for one that ends the piece, and the text.
                    count += memchr_iter(b'\n', &bytes[lines.start..lines.end - 1]).count() as u64;
                    count -= comments(bytes, lines);
                }
                Ok(vec![(piece, count)])
            },
            |mut counts, more: Vec<(usize, u64)>| {
                counts.extend(more);
                counts
            },
        );
        progress.end();
        let mut counts = counts?.unwrap_or_default();
        counts.sort_unstable();
        let mut before = 0;
        let firsts = counts.into_iter().map(|(_, count)| {
            before += count;
            before - count
        });
        Ok(firsts.collect())
    }

    /// Reads the lines that begin in `lines`, the first of them being that of `vertex`; returns how many neighbours there
    /// are, and how many of them are loops. Fails with the offset of the first line that is not as it must be.
    fn scan<const WEIGHTED: bool>(
        &self,
        lines: Range<usize>,
        mut vertex: u64,
        keeps_values: bool,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(u64, u64), usize> {
        let bytes = self.text.bytes;
        let (mut listed, mut loops) = (0, 0);
        let mut batch = Batch::new();
        let mut line = lines.start;
        while line < lines.end {
            let mut at = skip_blanks(bytes, line);
            if byte(bytes, at) == b'%' {
                line = next_line(bytes, at);
                continue;
            }
            if vertex >= self.vertices && byte(bytes, at) != b'\n' {
                return Err(line);
            }
            if byte(bytes, at) != b'\n' {
                for _ in 0..self.skip {
                    let (_, end) = number(bytes, at, false).ok_or(line)?;
                    at = skip_blanks(bytes, end);
                    if at == end && byte(bytes, at) != b'\n' {
                        return Err(line);
                    }
                }
            }
            while byte(bytes, at) != b'\n' {
                let (id, end) = unsigned(bytes, at);
                if id.wrapping_sub(1) >= self.vertices || end == at {
                    return Err(line);
                }
                let mut value = 1.0;
                let mut last = end;
                if WEIGHTED {
                    let begin = skip_blanks(bytes, end);
                    let (weight, end) = number(bytes, begin, keeps_values).ok_or(line)?;
                    if begin == last || keeps_values && !weight.is_finite() {
                        return Err(line);
                    }
                    (value, last) = (weight, end);
                }
                if !is_blank(byte(bytes, last)) && byte(bytes, last) != b'\n' {
                    return Err(line);
                }
                listed += 1;
                loops += u64::from(id - 1 == vertex);
                if batch.push(vertex as u32, (id - 1) as u32, value) {
                    take(&mut batch);
                    batch.clear();
                }
                at = skip_blanks(bytes, last);
            }
            line = at + 1;
            vertex += 1;
        }
        take(&mut batch);
        Ok((listed, loops))
    }

    /// Says what is wrong with the line at `offset`, which the loop refused.
    fn explain(&self, offset: usize, keeps_values: bool) -> LoadError {
        let path = self.text.path();
        let (line, found) = (self.text.line_number(offset), self.text.line_text(offset));
        let before = &self.text.bytes[self.body..offset];
        let vertex = before.split(|&b| b == b'\n').count() as u64 - 1 - comments(before, 0..before.len());
        if vertex >= self.vertices {
            return LoadError::SurplusLine { path, line, found, vertices: self.vertices };
        }
        let words = lines::words(lines::line_at(self.text.bytes, offset), None);
        let mut words = words.into_iter();
        let expected = match self.weighted {
            true => "neighbours, each with a weight",
            false => "neighbours",
        };
        for _ in 0..self.skip {
            let Some(word) = words.next() else {
                let missing = "size or weight of the vertex";
                return LoadError::MissingNumber { path, line, found, missing, expected };
            };
            if number(word, 0, false).is_none_or(|(_, end)| end != word.len()) {
                let (what, expected) = ("size or weight of the vertex", "a number");
                return LoadError::NotANumber { path, line, what, found: quote(word), expected };
            }
        }
        while let Some(word) = words.next() {
            let (id, end) = unsigned(word, 0);
            let what = "neighbour";
            if end != word.len() {
                let expected = "an id: digits only, from 1";
                return LoadError::NotANumber { path, line, what, found: quote(word), expected };
            }
            if id == 0 {
                return LoadError::ArcIdZero { path, line, what };
            }
            if id > self.vertices {
                let most = self.vertices;
                return LoadError::IdOutOfRange { path, line, what, id: quote(word), most };
            }
            if self.weighted {
                let Some(word) = words.next() else {
                    return LoadError::MissingNumber { path, line, found, missing: "weight", expected };
                };
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
                        let (what, expected) = ("weight", "a number");
                        return LoadError::NotANumber { path, line, what, found: quote(word), expected };
                    }
                }
            }
        }
        LoadError::NotANumber { path, line, what: "line", found, expected }
    }
}

/// Comment lines among those that begin in `lines`.
fn comments(bytes: &[u8], lines: Range<usize>) -> u64 {
    memchr_iter(b'%', &bytes[lines.clone()])
        .filter(|&at| {
            let before = &bytes[lines.start..lines.start + at];
            let blanks = before.iter().rev().take_while(|&&b| is_blank(b)).count();
            blanks == before.len() || before[before.len() - blanks - 1] == b'\n'
        })
        .count() as u64
}

impl EdgeSource for Metis<'_> {
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
        let (all_listed, all_loops) = (AtomicU64::new(0), AtomicU64::new(0));
        let scan = |lines: Range<usize>, piece: usize| {
            let first = self.firsts.get(piece).copied().unwrap_or(0);
            let (listed, loops) = match self.weighted {
                true => self.scan::<true>(lines, first, pass.keeps_values, take)?,
                false => self.scan::<false>(lines, first, pass.keeps_values, take)?,
            };
            all_listed.fetch_add(listed, Relaxed);
            all_loops.fetch_add(loops, Relaxed);
            Ok(())
        };
        self.text
            .pieces(self.body, progress, || (), scan, |(), ()| ())?
            .map_err(|line| self.explain(line, pass.keeps_values))?;
        let (listed, loops) = (all_listed.into_inner(), all_loops.into_inner());
        // Both ways or, as some converters write them, one way; a loop once or twice.
        let twice = self.edges.saturating_mul(2);
        if listed == self.edges || listed == twice || listed + loops == twice {
            return Ok(());
        }
        let (path, line, promised) = (self.text.path(), self.line, self.edges);
        Err(LoadError::NeighbourCount { path, line, promised, found: listed })
    }
}
