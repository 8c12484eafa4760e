//! Graphs as text: Matrix Market and edge lists.

use std::io::Write;
use std::path::Path;

use gpuvm_engine::graph::{Csr, VertexId, Weights};
use rayon::prelude::*;

use super::draft::Draft;
use super::pieces::{for_edges, pieces, write_edges};
use crate::error::LoadError;
use crate::progress::Progress;

/// Appends numbers as text.
struct Digits<'a> {
    out: &'a mut Vec<u8>,
    integer: itoa::Buffer,
    real: zmij::Buffer,
}

impl<'a> Digits<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, integer: itoa::Buffer::new(), real: zmij::Buffer::new() }
    }

    #[inline]
    fn integer(&mut self, number: impl itoa::Integer, then: u8) {
        self.out.extend_from_slice(self.integer.format(number).as_bytes());
        self.out.push(then);
    }

    /// The shortest digits that read back as the same number of 64 bits, an `f32` too: readers take all numbers so.
    #[inline]
    fn real(&mut self, number: f64, then: u8) {
        self.out.extend_from_slice(self.real.format(number).as_bytes());
        self.out.push(then);
    }

    #[inline]
    fn weight(&mut self, weights: &Weights, edge: u64, u: VertexId, v: VertexId, then: u8) {
        let at = edge as usize;
        match weights {
            Weights::Unit => self.integer(1_u8, then),
            Weights::Hash => self.integer(Weights::hash8(u, v), then),
            Weights::U8(w) => self.integer(w[at], then),
            Weights::U16(w) => self.integer(w[at], then),
            Weights::U32(w) => self.integer(w[at], then),
            Weights::F32(w) => self.real(w[at].into(), then),
            Weights::F64(w) => self.real(w[at], then),
        }
    }
}

/// Writes Matrix Market.
pub(super) fn matrix_market(path: &Path, csr: &Csr, progress: &dyn Progress) -> Result<u64, LoadError> {
    let mut draft = Draft::create(path)?;
    let symmetric = csr.is_symmetric();
    let field = match csr.weights() {
        Weights::Unit => "pattern",
        Weights::F32(_) | Weights::F64(_) => "real",
        _ => "integer",
    };
    let entries = if symmetric { lower_triangle(csr) } else { csr.num_edges() };
    let symmetry = if symmetric { "symmetric" } else { "general" };
    let n = csr.num_vertices();
    let head = format!("%%MatrixMarket matrix coordinate {field} {symmetry}\n{n} {n} {entries}\n");
    let error = |source| LoadError::Write { path: path.to_owned(), source };
    draft.file().write_all(head.as_bytes()).map_err(error)?;
    let weights = csr.weights();
    let pattern = matches!(weights, Weights::Unit);
    progress.begin("write", csr.num_edges());
    let written = write_edges(
        draft.file(),
        path,
        csr,
        |edges, out| {
            let mut digits = Digits::new(out);
            for_edges(csr, edges, |edge, u, v| {
                if symmetric && v > u {
                    return;
                }
                digits.integer(u64::from(u) + 1, b' ');
                digits.integer(u64::from(v) + 1, if pattern { b'\n' } else { b' ' });
                if !pattern {
                    digits.weight(weights, edge, u, v, b'\n');
                }
            });
        },
        progress,
    );
    progress.end();
    finish(written, draft)
}

/// Edges from a vertex to one that is not larger.
fn lower_triangle(csr: &Csr) -> u64 {
    let count = |edges| {
        let mut count = 0;
        for_edges(csr, edges, |_, u, v| count += u64::from(v <= u));
        count
    };
    pieces(csr).map(count).sum()
}

/// Writes a line an edge.
pub(super) fn edge_list(
    path: &Path,
    csr: &Csr,
    weighted: bool,
    progress: &dyn Progress,
) -> Result<u64, LoadError> {
    let mut draft = Draft::create(path)?;
    let weights = csr.weights();
    progress.begin("write", csr.num_edges());
    let written = write_edges(
        draft.file(),
        path,
        csr,
        |edges, out| {
            let mut digits = Digits::new(out);
            for_edges(csr, edges, |edge, u, v| {
                digits.integer(u, b' ');
                digits.integer(v, if weighted { b' ' } else { b'\n' });
                if weighted {
                    digits.weight(weights, edge, u, v, b'\n');
                }
            });
        },
        progress,
    );
    progress.end();
    finish(written, draft)
}

/// Gives a file that is whole its name.
pub(super) fn finish(written: Result<(), LoadError>, draft: Draft) -> Result<u64, LoadError> {
    written?;
    let bytes = draft.len()?;
    draft.keep()?;
    Ok(bytes)
}
