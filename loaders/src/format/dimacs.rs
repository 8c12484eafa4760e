//! DIMACS: shortest paths, `a SOURCE TARGET WEIGHT` after `p sp VERTICES ARCS`, and undirected graphs, `e U V` after
//! `p edge VERTICES EDGES`; ids from 1.
//!
//! Lines that begin with `c` are comments. Files without a `p` line, as road-network tools write them, count ids from 0.
//!
//! Sources: the file formats of the 9th DIMACS implementation challenge (shortest paths) and of the 2nd (cliques and
//! colourings).

use super::lines::{self, Columns, Ids, Lines};
use crate::builder::Batch;
use crate::error::{LoadError, Place};
use crate::number::{byte, is_blank, skip_blanks, unsigned};
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Shape, Symmetry};
use crate::text::{Text, quote};

/// The text of a graph, and what its `p` line says.
pub(crate) struct Dimacs<'a> {
    text: &'a Text<'a>,
    facts: Facts,
    lines: Lines,
    ids: Ids,
    /// The `p` line.
    line: u64,
    /// Edges that the file must hold.
    promised: Option<u64>,
}

/// Whether the text begins with lines of this format.
pub(super) fn is_dimacs(bytes: &[u8]) -> bool {
    first_line(bytes).is_some_and(|at| match byte(bytes, at) {
        b'p' => problem(lines::line_at(bytes, at)).is_some(),
        b'a' | b'e' => is_blank(byte(bytes, at + 1)) && lines::is_edge(bytes, at + 1),
        _ => false,
    })
}

/// Where the first line begins that is neither blank nor a comment.
fn first_line(bytes: &[u8]) -> Option<usize> {
    let mut line = lines::begin(bytes);
    while line < bytes.len() {
        let at = skip_blanks(bytes, line);
        match byte(bytes, at) {
            b'\n' => line = at + 1,
            b'c' | b'#' | b'%' => line = lines::next_line(bytes, at),
            _ => return Some(at),
        }
    }
    None
}

/// The words of a `p` line.
fn problem(line: &[u8]) -> Option<Vec<&[u8]>> {
    let words = lines::words(line, None);
    (words.len() >= 2 && words[0] == b"p").then_some(words)
}

impl<'a> Dimacs<'a> {
    pub(crate) fn open(text: &'a Text<'a>) -> Result<Self, LoadError> {
        let bytes = text.bytes;
        let path = || text.path();
        let mut at = first_line(bytes).unwrap_or(bytes.len());
        let mut body = at;
        let (mut shape, mut promised, mut undirected) = (None, None, false);
        let line = text.line_number(at);
        if let Some(words) = problem(lines::line_at(bytes, at)) {
            let kind = words[1].to_ascii_lowercase();
            undirected = match &kind[..] {
                b"sp" => false,
                b"edge" | b"col" | b"edges" => true,
                _ => {
                    let (what, allowed) = ("problem", "sp (shortest paths), edge or col (undirected graphs)");
                    return Err(LoadError::BannerWord {
                        path: path(),
                        line,
                        what,
                        found: quote(&kind),
                        allowed,
                    });
                }
            };
            let numbers: Vec<u64> = words[2..]
                .iter()
                .filter_map(|word| {
                    let (number, end) = unsigned(word, 0);
                    (end == word.len()).then_some(number)
                })
                .collect();
            let (Some(&[vertices, edges]), 4) = (numbers.first_chunk::<2>(), words.len()) else {
                let (found, expected) = (text.line_text(at), "\"p sp VERTICES ARCS\"");
                return Err(LoadError::SizeLine { path: path(), line, found, expected });
            };
            let (rows, columns, num_vertices) = (vertices, vertices, vertices);
            if num_vertices > gpuvm_engine::graph::MAX_VERTICES {
                let line = line.into();
                return Err(LoadError::TooManyVertices { path: path(), line, rows, columns, num_vertices });
            }
            shape = Some(Shape::square(vertices));
            promised = Some(edges);
            body = lines::next_line(bytes, at);
            at = first_line(&bytes[body..]).map_or(bytes.len(), |first| body + first);
        }
        let prefix = match byte(bytes, at) {
            b'e' => b'e',
            b'\n' if undirected => b'e',
            _ => b'a',
        };
        let weighted = prefix == b'a' && lines::words(lines::line_at(bytes, at), None).len() != 3;
        let count = shape.map(|shape: Shape| shape.rows);
        let ids = count.map_or(Ids::ANY, |count| Ids::Numbers { base: 1, count });
        let without = if promised.is_none() { " (no p line, ids 0-based)" } else { "" };
        // What cannot be in the file is not allocated for: a line has at least six bytes.
        let entries = promised.filter(|&edges| edges <= (bytes.len() / 6) as u64).unwrap_or(0);
        let facts = Facts {
            path: path(),
            format: format!("DIMACS .gr{without}"),
            field: if weighted { Field::Number } else { Field::Pattern },
            symmetry: if undirected { Symmetry::Symmetric } else { Symmetry::General },
            shape,
            place: if promised.is_some() { line.into() } else { Place::default() },
            entries,
            dense: None,
        };
        let columns = Columns::in_order(weighted);
        let lines = Lines { body, prefix: Some(prefix), columns, has_others: false };
        Ok(Self { text, facts, lines, ids, line, promised })
    }
}

impl EdgeSource for Dimacs<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        (self.text.bytes.len() - self.lines.body) as u64
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn pass(
        &self,
        pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        let found = self.lines.pass(self.text, &self.ids, pass, progress, take)?;
        match self.promised {
            Some(promised) if promised != found => {
                let line = self.line;
                Err(LoadError::EntryCount { path: self.text.path(), line, promised, found })
            }
            _ => Ok(()),
        }
    }
}
