//! The serialized graphs of the GAP benchmark suite, `.sg` and `.wsg`.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | 1 if directed |
//! | 8 | edges m: both directions of an undirected graph counted |
//! | 8 | vertices n |
//! | 8 (n + 1) | row offsets |
//! | 4 m, `.wsg` 8 m | neighbours as signed 32-bit numbers, in a `.wsg` each with its weight after it, which is one too |
//!
//! A directed graph has row offsets and neighbours of the reverse edges after that. All numbers are little-endian.
//! (Beamer, Asanović, Patterson: The GAP Benchmark Suite, 2015, and the suite's `writer.h`.)

use std::io::Write;
use std::path::Path;

use gpuvm_engine::graph::{Csr, Weights};
use rayon::prelude::*;

use super::draft::Draft;
use super::pieces::write_edges;
use super::text::finish;
use super::transpose;
use crate::error::LoadError;
use crate::progress::Progress;

/// What a write call takes at a time.
const CHUNK: usize = 4 << 20;

/// Writes `.sg`, or with weights `.wsg`.
pub(super) fn serialized(
    path: &Path,
    csr: &Csr,
    weighted: bool,
    progress: &dyn Progress,
) -> Result<u64, LoadError> {
    let num_vertices = csr.num_vertices();
    if num_vertices > i32::MAX as u64 {
        return Err(LoadError::TooLargeForGap { path: path.to_owned(), num_vertices });
    }
    if weighted {
        check_weights(path, csr.weights())?;
    }
    let mut draft = Draft::create(path)?;
    let directed = !csr.is_symmetric();
    let mut head = vec![u8::from(directed)];
    head.extend(csr.num_edges().to_le_bytes());
    head.extend(num_vertices.to_le_bytes());
    draft.file().write_all(&head).map_err(|source| LoadError::Write { path: path.to_owned(), source })?;
    let written = write_rows(&mut draft, path, csr, weighted, progress).and_then(|()| match directed {
        true => write_rows(&mut draft, path, &transpose(csr, path, progress)?, weighted, progress),
        false => Ok(()),
    });
    finish(written, draft)
}

/// Refuses weights that are no integers of 32 bits.
fn check_weights(path: &Path, weights: &Weights) -> Result<(), LoadError> {
    let fits = |w: f64| w.fract() == 0.0 && w >= f64::from(i32::MIN) && w <= f64::from(i32::MAX);
    let bad = match weights {
        Weights::U32(w) => w.par_iter().map(|&w| f64::from(w)).find_first(|&w| !fits(w)),
        Weights::F32(w) => w.par_iter().map(|&w| f64::from(w)).find_first(|&w| !fits(w)),
        Weights::F64(w) => w.par_iter().copied().find_first(|&w| !fits(w)),
        _ => None,
    };
    match bad {
        Some(weight) => Err(LoadError::NoGapWeight { path: path.to_owned(), weight }),
        None => Ok(()),
    }
}

fn write_rows(
    draft: &mut Draft,
    path: &Path,
    csr: &Csr,
    weighted: bool,
    progress: &dyn Progress,
) -> Result<(), LoadError> {
    let error = |source| LoadError::Write { path: path.to_owned(), source };
    progress.begin("write", csr.num_edges());
    for chunk in csr.row_offsets().chunks(CHUNK / 8) {
        if progress.is_cancelled() {
            return Err(LoadError::Interrupted);
        }
        let bytes: Vec<u8> = chunk.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        draft.file().write_all(&bytes).map_err(error)?;
    }
    let weights = csr.weights();
    let written = write_edges(
        draft.file(),
        path,
        csr,
        |edges, out| {
            super::pieces::for_edges(csr, edges, |edge, u, v| {
                out.extend(v.to_le_bytes());
                if weighted {
                    out.extend((weights.get(edge, u, v) as i32).to_le_bytes());
                }
            });
        },
        progress,
    );
    progress.end();
    written
}
