//! The adjacency graphs of Ligra and PBBS: `AdjacencyGraph`, the number of vertices and of edges, the first edge of each
//! vertex, the target of each edge; `WeightedAdjacencyGraph` with the weight of each edge behind that. Words between
//! blanks or line feeds, ids from 0.
//!
//! Source: the README of Ligra, "Input Format for Ligra applications".

use std::path::PathBuf;

use rayon::prelude::*;

use super::count_index::{CountIndex, Unit, next_word, word_end};
use super::lines;
use super::rows::{self, Rows};
use crate::builder::Batch;
use crate::error::LoadError;
use crate::number::unsigned;
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Shape, Symmetry};
use crate::text::{Text, quote};

/// Words before the first edges.
const HEAD: u64 = 3;
/// Edges that are read at a time.
const PIECE: u64 = 1 << 14;

/// Whether the text begins like one, and if so whether it has weights.
pub(super) fn weights(bytes: &[u8]) -> Option<bool> {
    let word = &bytes[..word_end(bytes, 0).min(64)];
    match word {
        b"AdjacencyGraph" => Some(false),
        b"WeightedAdjacencyGraph" => Some(true),
        _ => None,
    }
}

/// The text of a graph.
pub(crate) struct Adjacency<'a> {
    text: &'a Text<'a>,
    facts: Facts,
    words: CountIndex,
    weighted: bool,
    vertices: u64,
    edges: u64,
    /// Of each vertex, and past the last.
    first_edges: Vec<u64>,
}

impl<'a> Adjacency<'a> {
    pub(crate) fn open(text: &'a Text<'a>) -> Result<Self, LoadError> {
        let bytes = text.bytes;
        let Some(weighted) = weights(bytes) else {
            let (line, what) = (1, "first word");
            let found = quote(&bytes[..word_end(bytes, 0).min(64)]);
            let allowed = "AdjacencyGraph or WeightedAdjacencyGraph";
            return Err(LoadError::BannerWord { path: text.path(), line, what, found, allowed });
        };
        let words = CountIndex::new(bytes, 0, Unit::Word);
        let number = |k: u64, what: &'static str| {
            let at = words.start(bytes, k);
            let word = &bytes[at..word_end(bytes, at)];
            match unsigned(word, 0) {
                (number, end) if end == word.len() && end > 0 => Ok(number),
                _ => Err(bad_word(text, at, what, "digits only")),
            }
        };
        let vertices = number(1, "number of vertices")?;
        let edges = number(2, "number of edges")?;
        let line = text.line_number(words.start(bytes, 1));
        if vertices > gpuvm_engine::graph::MAX_VERTICES {
            let (rows, columns, num_vertices, line) = (vertices, vertices, vertices, line.into());
            return Err(LoadError::TooManyVertices { path: text.path(), line, rows, columns, num_vertices });
        }
        let per_edge = if weighted { 2 } else { 1 };
        let promised = edges.saturating_mul(per_edge).saturating_add(vertices).saturating_add(HEAD);
        if words.len() != promised {
            let found = words.len();
            return Err(LoadError::WordCount { path: text.path(), vertices, edges, promised, found });
        }
        let mut first_edges = vec![0; vertices as usize + 1];
        first_edges[vertices as usize] = edges;
        first_edges[..vertices as usize]
            .par_chunks_mut(PIECE as usize)
            .enumerate()
            .try_for_each(|(piece, chunk)| {
                let mut at = words.start(bytes, HEAD + piece as u64 * PIECE);
                for first in chunk {
                    let end = word_end(bytes, at);
                    let (value, last) = unsigned(bytes, at);
                    if last != end || end == at {
                        return Err(at);
                    }
                    *first = value;
                    at = next_word(bytes, end);
                }
                Ok(())
            })
            .map_err(|at| bad_word(text, at, "first edge of a vertex", "digits only"))?;
        let facts = Facts {
            path: text.path(),
            format: if weighted { "Ligra weighted adjacency" } else { "Ligra adjacency" }.to_owned(),
            field: if weighted { Field::Number } else { Field::Pattern },
            symmetry: Symmetry::General,
            shape: Some(Shape::square(vertices)),
            place: line.into(),
            entries: edges,
            dense: None,
        };
        let graph = Self { text, facts, words, weighted, vertices, edges, first_edges };
        if let Some(vertex) = rows::first_bad_row(&Offsets(&graph)) {
            let reason = format!("the edges of vertex {vertex} do not follow those of the last");
            return Err(LoadError::Damaged { path: text.path(), reason, format: "Ligra adjacency" });
        }
        Ok(graph)
    }
}

fn bad_word(text: &Text<'_>, at: usize, what: &'static str, expected: &'static str) -> LoadError {
    let path: PathBuf = text.path();
    let line = text.line_number(at);
    let found = quote(&text.bytes[at..word_end(text.bytes, at)]);
    LoadError::NotANumber { path, line, what, found, expected }
}

/// Only where rows begin.
struct Offsets<'a>(&'a Adjacency<'a>);

impl Rows for Offsets<'_> {
    fn num_rows(&self) -> u64 {
        self.0.vertices
    }
    fn num_entries(&self) -> u64 {
        self.0.edges
    }
    fn begin(&self, row: u64) -> u64 {
        self.0.first_edges.get(row as usize).copied().unwrap_or(u64::MAX)
    }
    fn entry(&self, _entry: u64) -> (u64, f64) {
        (u64::MAX, 0.0)
    }
}

impl Adjacency<'_> {
    /// Reads edges from `begin` on; fails with the offset of the first word that is none.
    fn piece(
        &self,
        begin: u64,
        end: u64,
        keeps_values: bool,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), usize> {
        let bytes = self.text.bytes;
        let mut at = self.words.start(bytes, HEAD + self.vertices + begin);
        let mut weight_at = match self.weighted {
            true => self.words.start(bytes, HEAD + self.vertices + self.edges + begin),
            false => 0,
        };
        let mut row = self.first_edges.partition_point(|&first| first <= begin) as u64 - 1;
        let mut batch = Batch::new();
        for edge in begin..end {
            while self.first_edges.get(row as usize + 1).is_some_and(|&first| first <= edge) {
                row += 1;
            }
            let word = word_end(bytes, at);
            let (target, last) = unsigned(bytes, at);
            if last != word || last == at || target >= self.vertices {
                return Err(at);
            }
            at = next_word(bytes, word);
            let mut value = 1.0;
            if self.weighted {
                let word = word_end(bytes, weight_at);
                match lines::number(&bytes[weight_at..word], 0, keeps_values) {
                    Some((weight, end))
                        if weight_at + end == word && (weight.is_finite() || !keeps_values) =>
                    {
                        value = weight;
                    }
                    _ => return Err(weight_at),
                }
                weight_at = next_word(bytes, word);
            }
            if batch.push(row as u32, target as u32, value) {
                take(&mut batch);
                batch.clear();
            }
        }
        take(&mut batch);
        Ok(())
    }

    fn explain(&self, at: usize) -> LoadError {
        let bytes = self.text.bytes;
        let word = &bytes[at..word_end(bytes, at)];
        let (id, end) = unsigned(word, 0);
        let weights = self.words.start(bytes, HEAD + self.vertices + self.edges);
        if self.weighted && at >= weights {
            return bad_word(self.text, at, "weight", "a number that a weight can be");
        }
        if end == word.len() && end > 0 && id >= self.vertices {
            let (line, what, most) = (self.text.line_number(at), "target", self.vertices);
            let path = self.text.path();
            return LoadError::IdOutOfRange { path, line, what, id: quote(word), most };
        }
        bad_word(self.text, at, "target", "an id: digits only")
    }
}

impl EdgeSource for Adjacency<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        self.edges
    }

    fn pass(
        &self,
        pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        let bad = (0..self.edges.div_ceil(PIECE))
            .into_par_iter()
            .filter_map(|piece| {
                if progress.is_cancelled() {
                    return Some(usize::MAX);
                }
                let (begin, end) = (piece * PIECE, ((piece + 1) * PIECE).min(self.edges));
                let bad = self.piece(begin, end, pass.keeps_values, take).err();
                progress.advance(end - begin);
                bad
            })
            .min();
        match bad {
            None => Ok(()),
            Some(usize::MAX) => Err(LoadError::Interrupted),
            Some(at) => Err(self.explain(at)),
        }
    }
}
