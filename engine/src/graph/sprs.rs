//! Matrices of the crate `sprs` in and out, without a copy where the layout allows.

use sprs::{CsMatI, CsMatViewI};

use super::{Csr, VertexId, Weights};
use crate::error::GraphError;

/// A number that a matrix may hold and an edge may weigh.
pub trait Weight: Copy + Send + Sync + 'static {
    /// The weights of a graph from the values of its matrix.
    fn into_weights(values: Vec<Self>) -> Weights;
    /// The values, if this is the type in which they are stored.
    fn stored(weights: &Weights) -> Option<&[Self]>;
}

macro_rules! weight {
    ($($type:ident $variant:ident),*) => {$(
        impl Weight for $type {
            fn into_weights(values: Vec<Self>) -> Weights {
                Weights::$variant(values.into())
            }
            fn stored(weights: &Weights) -> Option<&[Self]> {
                match weights {
                    Weights::$variant(values) => Some(values),
                    _ => None,
                }
            }
        }
    )*};
}
weight!(u8 U8, u16 U16, u32 U32, f32 F32, f64 F64);

impl Csr {
    /// The graph of a square matrix: an entry (i, j) is an edge from i to j with its value as weight. A matrix in
    /// compressed column form is converted first; nothing else is copied.
    ///
    /// # Errors
    /// [`GraphError::NotSquare`]; others as [`Csr::new`].
    ///
    /// ```
    /// use gpuvm_engine::graph::Csr;
    /// let mut triplets = sprs::TriMatI::<f32, u32>::new((3, 3));
    /// triplets.add_triplet(0, 1, 2.5);
    /// triplets.add_triplet(1, 2, 0.5);
    /// let csr = Csr::from_sprs(triplets.to_csr::<u64>())?;
    /// assert_eq!(csr.neighbors(1), [2]);
    /// # Ok::<(), gpuvm_engine::GraphError>(())
    /// ```
    pub fn from_sprs<W>(matrix: CsMatI<W, VertexId, u64>) -> Result<Self, GraphError>
    where
        W: Weight + Default,
    {
        let (rows, columns) = (matrix.rows() as u64, matrix.cols() as u64);
        if rows != columns {
            return Err(GraphError::NotSquare { rows, columns });
        }
        let matrix = if matrix.is_csr() { matrix } else { matrix.to_csr() };
        let (row_offsets, column_indices, values) = matrix.into_raw_storage();
        Self::new(row_offsets, column_indices, W::into_weights(values), false)
    }

    /// The graph as a matrix that borrows its arrays; `None` if weights are not stored as `W`, or if a row is not
    /// sorted or holds a column twice, which sprs does not allow.
    pub fn to_sprs<W: Weight>(&self) -> Option<CsMatViewI<'_, W, VertexId, u64>> {
        let n = self.num_vertices() as usize;
        let values = W::stored(self.weights())?;
        CsMatViewI::try_new((n, n), self.row_offsets(), self.column_indices(), values).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrix_becomes_a_graph_and_comes_back_without_a_copy() {
        let matrix =
            CsMatI::<u16, u32, u64>::try_new((2, 2), vec![0, 1, 2], vec![1, 0], vec![7, 9]).expect("valid");
        let values = matrix.data().as_ptr();
        let csr = Csr::from_sprs(matrix).expect("square");
        let view = csr.to_sprs::<u16>().expect("stored as u16");
        assert_eq!(view.data().as_ptr(), values);
        assert_eq!(view.get(1, 0), Some(&9));
        assert!(csr.to_sprs::<f32>().is_none());
    }

    #[test]
    fn rectangular_matrix_is_refused() {
        let matrix = CsMatI::<f64, u32, u64>::zero((2, 3));
        assert_eq!(Csr::from_sprs(matrix).unwrap_err(), GraphError::NotSquare { rows: 2, columns: 3 });
    }
}
