//! The reverse of every edge.

use std::path::Path;

use gpuvm_engine::graph::{Csr, WeightType, Weights};
use rayon::prelude::*;

use super::pieces::{for_edges, pieces};
use crate::builder::{Batch, Direction, RowCounts, RowFill};
use crate::error::LoadError;
use crate::memory;
use crate::progress::Progress;
use crate::weights::Cell;

/// The graph of the reverse edges, each with the weight of its edge; rows sorted, duplicates and loops kept.
pub(crate) fn transpose(csr: &Csr, path: &Path, progress: &dyn Progress) -> Result<Csr, LoadError> {
    if csr.is_symmetric() {
        return Ok(csr.clone());
    }
    let edge_bytes = 4 + u64::from(csr.weights().weight_type().bytes());
    let bytes = csr.num_edges().saturating_mul(edge_bytes).saturating_add(csr.row_offsets().size_bytes());
    memory::check(bytes, path, "the reverse of every edge")?;
    match csr.weights().weight_type() {
        WeightType::Unit => reverse::<()>(csr, path, progress),
        // A function of the two ids, whichever comes first.
        WeightType::Hash => reverse::<()>(csr, path, progress)?
            .with_weights(Weights::Hash)
            .map_err(|source| LoadError::Graph { path: path.to_owned(), source }),
        WeightType::U8 => reverse::<u8>(csr, path, progress),
        WeightType::U16 => reverse::<u16>(csr, path, progress),
        WeightType::U32 => reverse::<u32>(csr, path, progress),
        WeightType::F32 => reverse::<f32>(csr, path, progress),
        WeightType::F64 => reverse::<f64>(csr, path, progress),
    }
}

fn reverse<W: Cell>(csr: &Csr, path: &Path, progress: &dyn Progress) -> Result<Csr, LoadError> {
    const REVERSE: [Direction; 1] = [Direction { reverse: true, ..Direction::FORWARD }];
    let batches = |edges, empty: &dyn Fn(&Batch)| {
        let mut batch = Batch::new();
        for_edges(csr, edges, |edge, u, v| {
            let weight = if W::STORED { csr.weights().get(edge, u, v) } else { 1.0 };
            if batch.push(u, v, weight) {
                empty(&batch);
                batch.clear();
            }
        });
        empty(&batch);
    };
    let each = |edges: std::ops::Range<u64>, empty: &dyn Fn(&Batch)| {
        if progress.is_cancelled() {
            return Err(LoadError::Interrupted);
        }
        let count = edges.end - edges.start;
        batches(edges, empty);
        progress.advance(count);
        Ok(())
    };
    progress.begin("reverse", csr.num_edges() * 2);
    let counts = RowCounts::new(csr.num_vertices());
    pieces(csr).try_for_each(|edges| each(edges, &|batch| counts.add(batch, &REVERSE)))?;
    let fill = RowFill::<W>::new(counts);
    pieces(csr).try_for_each(|edges| each(edges, &|batch| fill.add(batch, &REVERSE)))?;
    progress.end();
    let rows = fill.finish(true, path, progress)?;
    Csr::with_unread_columns(rows.row_offsets, rows.columns, W::into_weights(rows.weights), false)
        .map_err(|source| LoadError::Graph { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_is_turned_with_its_weight() {
        // 0 -> 1 (5), 0 -> 2 (6), 0 -> 2 (4), 2 -> 0 (-7), 2 -> 2 (8)
        let weights = Weights::F32(vec![5.0, 4.0, 6.0, -7.0, 8.0].into());
        let csr = Csr::new(vec![0, 3, 3, 5], vec![1, 2, 2, 0, 2], weights, false).expect("valid");
        let turned = transpose(&csr, "test".as_ref(), &()).expect("small");
        assert_eq!(turned.row_offsets().as_slice(), [0, 1, 2, 5]);
        assert_eq!(turned.column_indices().as_slice(), [2, 0, 0, 0, 2]);
        let weights: Vec<f64> = (0..5).map(|edge| turned.weights().get(edge, 0, 0)).collect();
        assert_eq!(weights, [-7.0, 5.0, 4.0, 6.0, 8.0]);
    }
}
