use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use super::row_parts::RowParts;
use super::{Csr, VertexId, Weights};
use crate::error::GraphError;

impl Csr {
    /// The graph with every edge turned round, without weights, rows in the same order: which edges lead into each vertex.
    /// Rows are sorted. On all cores, in the memory of its own arrays.
    ///
    /// # Errors
    /// [`GraphError::ColumnOutOfRange`] for a column index that is no vertex.
    pub fn reversed(&self) -> Result<Self, GraphError> {
        self.check_column_indices()?;
        let n = self.num_vertices() as usize;
        let counts: Vec<AtomicU64> = (0..n).into_par_iter().map(|_| AtomicU64::new(0)).collect();
        self.column_indices().par_iter().for_each(|&v| {
            counts[v as usize].fetch_add(1, Relaxed);
        });
        let mut row_offsets = vec![0; n + 1];
        for v in 0..n {
            row_offsets[v + 1] = row_offsets[v] + counts[v].load(Relaxed);
        }
        // Counted down, they say where the next edge of each row goes.
        let columns: Vec<AtomicU32> = self.column_indices().par_iter().map(|_| AtomicU32::new(0)).collect();
        self.par_rows().for_each(|u| {
            for &v in self.neighbors(u) {
                let place = row_offsets[v as usize] + counts[v as usize].fetch_sub(1, Relaxed) - 1;
                columns[place as usize].store(u, Relaxed);
            }
        });
        let mut columns: Vec<VertexId> = columns.into_par_iter().map(AtomicU32::into_inner).collect();
        sort_rows(&row_offsets, &mut columns);
        Self::with_unread_columns(row_offsets, columns, Weights::Unit, self.is_symmetric())
    }
}

/// Sorts each row, on all cores.
fn sort_rows(row_offsets: &[u64], columns: &mut [VertexId]) {
    let parts = RowParts::new(row_offsets);
    let columns_of_parts = parts.of_edges(row_offsets, columns);
    parts.par_iter().zip(columns_of_parts).for_each(|(rows, mut part)| {
        for row in rows {
            let len = row_offsets[row + 1] - row_offsets[row];
            let (row, after) = std::mem::take(&mut part).split_at_mut(len as usize);
            row.sort_unstable();
            part = after;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reversed_graph_has_the_edges_into_each_vertex() {
        // 0 -> 1, 2; 1 -> 2; 3 -> 2, 2; 2 -> 0.
        let csr = Csr::new(vec![0, 2, 3, 4, 6], vec![1, 2, 2, 0, 2, 2], Weights::Unit, false).expect("valid");
        let reversed = csr.reversed().expect("valid");
        assert_eq!(reversed.row_offsets().as_slice(), [0, 1, 2, 6, 6]);
        assert_eq!(reversed.column_indices().as_slice(), [2, 0, 0, 1, 3, 3]);
        let again = reversed.reversed().expect("valid");
        assert_eq!(again.row_offsets().as_slice(), csr.row_offsets().as_slice());
        assert_eq!(again.column_indices().as_slice(), csr.column_indices().as_slice());
    }

    #[test]
    fn reverse_of_another_graph_is_refused() {
        let csr = Csr::new(vec![0, 1, 1], vec![1], Weights::Unit, false).expect("valid");
        let longer = Csr::new(vec![0, 1, 2], vec![1, 0], Weights::Unit, false).expect("valid");
        assert_eq!(csr.with_kept_reverse(longer).map(|_| ()), Err(GraphError::Reverse));
    }
}
