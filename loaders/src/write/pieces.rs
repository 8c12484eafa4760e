//! Edges cut into pieces that threads turn into bytes while the pieces before are written.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use gpuvm_engine::graph::{Csr, VertexId};
use rayon::prelude::*;

use crate::error::LoadError;
use crate::progress::Progress;

/// Edges of a piece: some megabytes of text.
const PIECE_EDGES: u64 = 1 << 18;

/// Calls `each` for the edges numbered `range`: number, source and target of each.
pub(super) fn for_edges(csr: &Csr, range: Range<u64>, mut each: impl FnMut(u64, VertexId, VertexId)) {
    let offsets = csr.row_offsets();
    let columns = csr.column_indices();
    // The last row that begins at or before the first edge: empty rows before it begin there too.
    let mut u = offsets.partition_point(|&offset| offset <= range.start).saturating_sub(1);
    for edge in range {
        while offsets.get(u + 1).is_some_and(|&end| end <= edge) {
            u += 1;
        }
        each(edge, u as VertexId, columns[edge as usize]);
    }
}

/// The edges, cut.
pub(super) fn pieces(csr: &Csr) -> impl IndexedParallelIterator<Item = Range<u64>> {
    let num_edges = csr.num_edges();
    (0..num_edges.div_ceil(PIECE_EDGES) as usize).into_par_iter().map(move |piece| {
        let begin = piece as u64 * PIECE_EDGES;
        begin..(begin + PIECE_EDGES).min(num_edges)
    })
}

/// Writes what `bytes` makes of every piece of the edges, in order.
pub(super) fn write_edges(
    file: &mut File,
    path: &Path,
    csr: &Csr,
    bytes: impl Fn(Range<u64>, &mut Vec<u8>) + Sync,
    progress: &dyn Progress,
) -> Result<(), LoadError> {
    let num_edges = csr.num_edges();
    // Enough pieces at a time that all threads have some, and end at about the same time.
    let step = PIECE_EDGES * rayon::current_num_threads() as u64 * 2;
    let make = |begin: u64, buffers: &mut Vec<Vec<u8>>| {
        let count = num_edges.saturating_sub(begin).min(step).div_ceil(PIECE_EDGES) as usize;
        buffers.resize(count, Vec::new());
        buffers.par_iter_mut().enumerate().for_each(|(piece, buffer)| {
            let begin = begin + piece as u64 * PIECE_EDGES;
            buffer.clear();
            bytes(begin..(begin + PIECE_EDGES).min(num_edges), buffer);
        });
    };
    let (mut ready, mut next) = (Vec::new(), Vec::new());
    make(0, &mut ready);
    let mut begin = 0;
    while begin < num_edges {
        if progress.is_cancelled() {
            return Err(LoadError::Interrupted);
        }
        let write = || ready.iter().try_for_each(|buffer| file.write_all(buffer));
        let (written, ()) = rayon::join(write, || make(begin + step, &mut next));
        written.map_err(|source| LoadError::Write { path: path.to_owned(), source })?;
        progress.advance(step.min(num_edges - begin));
        std::mem::swap(&mut ready, &mut next);
        begin += step;
    }
    Ok(())
}
