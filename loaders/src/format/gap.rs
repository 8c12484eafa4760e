//! The serialized graphs of the GAP benchmark suite, `.sg` and `.wsg`: a CSR as it is in memory, ids from 0.
//!
//! A byte that says whether the graph is directed; the number of edges and of vertices, 64-bit; the first edge of each
//! vertex, 64-bit, and past the last; for each edge its target, 32-bit, in `.wsg` files followed by its weight, 32-bit and
//! signed. A directed graph has the same for incoming edges behind that, which is not read. All numbers are
//! little-endian. Nothing says whether there are weights: the size of the file does.
//!
//! Source: `writer.h` and `graph.h` of the GAP benchmark suite.

use super::rows::{self, Rows, u32_at, u64_at};
use crate::builder::Batch;
use crate::error::{LoadError, Place};
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Shape, Symmetry};
use crate::text::Text;

/// Where the row offsets begin.
const HEAD: u64 = 17;

/// What the first bytes of a file say.
#[derive(Clone, Copy, Debug)]
struct Head {
    directed: bool,
    edges: u64,
    vertices: u64,
}

impl Head {
    fn read(bytes: &[u8]) -> Option<Self> {
        let directed = match bytes.first()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self { directed, edges: u64_at(bytes, 1)?, vertices: u64_at(bytes, 9)? })
    }

    /// Bytes of a file with this head.
    fn bytes(&self, weighted: bool) -> Option<u64> {
        let edge = if weighted { 8 } else { 4 };
        let csr = self.vertices.checked_add(1)?.checked_mul(8)?.checked_add(self.edges.checked_mul(edge)?)?;
        csr.checked_mul(if self.directed { 2 } else { 1 })?.checked_add(HEAD)
    }
}

/// Whether a file can be one of these, by its size: without weights, and with them.
pub(super) fn can_be(bytes: &[u8]) -> (bool, bool) {
    let Some(head) = Head::read(bytes) else { return (false, false) };
    let is = |weighted| head.bytes(weighted) == Some(bytes.len() as u64);
    (is(false), is(true))
}

/// A serialized graph.
pub(crate) struct SerializedGraph<'a> {
    text: &'a Text<'a>,
    facts: Facts,
    head: Head,
    weighted: bool,
}

impl<'a> SerializedGraph<'a> {
    pub(crate) fn open(text: &'a Text<'a>, weighted: bool) -> Result<Self, LoadError> {
        let format = if weighted { "GAP .wsg" } else { "GAP .sg" };
        let damaged = |reason| LoadError::Damaged { path: text.path(), reason, format };
        let length = text.bytes.len() as u64;
        let head =
            Head::read(text.bytes).ok_or_else(|| damaged("its head is cut short or no head".to_owned()))?;
        let Head { directed, edges, vertices } = head;
        if head.bytes(weighted) != Some(length) {
            let needed = head.bytes(weighted).map_or("too many".to_owned(), |bytes| bytes.to_string());
            let reason = format!(
                "its head says {vertices} vertices and {edges} edges, {needed} bytes; it has {length}"
            );
            return Err(damaged(reason));
        }
        if vertices > gpuvm_engine::graph::MAX_VERTICES {
            let (path, line) = (text.path(), Place::default());
            let (rows, columns, num_vertices) = (vertices, vertices, vertices);
            return Err(LoadError::TooManyVertices { path, line, rows, columns, num_vertices });
        }
        let facts = Facts {
            path: text.path(),
            format: format!("{format} {}", if directed { "directed" } else { "undirected" }),
            field: if weighted { Field::Integer } else { Field::Pattern },
            symmetry: Symmetry::General,
            shape: Some(Shape::square(vertices)),
            place: Place::default(),
            entries: edges,
            dense: None,
        };
        let graph = Self { text, facts, head, weighted };
        match rows::first_bad_row(&graph) {
            Some(vertex) => {
                Err(damaged(format!("the edges of vertex {vertex} begin before those of the last")))
            }
            None => Ok(graph),
        }
    }
}

impl Rows for SerializedGraph<'_> {
    fn num_rows(&self) -> u64 {
        self.head.vertices
    }

    fn num_entries(&self) -> u64 {
        self.head.edges
    }

    #[inline(always)]
    fn begin(&self, row: u64) -> u64 {
        u64_at(self.text.bytes, HEAD + 8 * row).unwrap_or(u64::MAX)
    }

    #[inline(always)]
    fn entry(&self, entry: u64) -> (u64, f64) {
        let edges = HEAD + 8 * (self.head.vertices + 1);
        let at = edges + if self.weighted { 8 * entry } else { 4 * entry };
        let target = u32_at(self.text.bytes, at).map_or(u64::MAX, u64::from);
        let value = if self.weighted { u32_at(self.text.bytes, at + 4).map_or(0, |w| w as i32) } else { 1 };
        (target, value.into())
    }
}

impl EdgeSource for SerializedGraph<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        self.head.edges * if self.weighted { 8 } else { 4 }
    }

    fn pass(
        &self,
        _pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        let bytes = if self.weighted { 8 } else { 4 };
        let most = self.head.vertices;
        rows::pass(self, most, false, false, bytes, progress, take)?.map_err(|entry| LoadError::BadEntry {
            path: self.text.path(),
            entry,
            id: self.entry(entry).0,
            most,
        })
    }
}
