use rayon::prelude::*;

use super::{Heads, HostArray, MAX_VERTICES, VertexId, Weights};
use crate::error::{Error, GraphError};

/// A directed graph in compressed sparse row form: the neighbours of vertex `u` are
/// `column_indices[row_offsets[u]..row_offsets[u + 1]]`.
///
/// Invariants: `row_offsets` has `num_vertices + 1` entries, starts at 0, never falls and ends at the number of
/// column indices; every column index is a vertex; stored weights are as many as the column indices. An undirected
/// graph holds each edge twice, once in each direction, and says so in [`is_symmetric`](Csr::is_symmetric).
#[derive(Clone, Debug)]
pub struct Csr {
    row_offsets: HostArray<u64>,
    column_indices: HostArray<VertexId>,
    weights: Weights,
    symmetric: bool,
    heads: Option<Heads>,
}

impl Csr {
    /// A graph from its arrays, all invariants checked in one parallel pass over them.
    ///
    /// `symmetric` is the caller's word that every edge has its reverse, with the same weight.
    ///
    /// # Errors
    /// The [`GraphError`] that names the first invariant broken.
    pub fn new(
        row_offsets: impl Into<HostArray<u64>>,
        column_indices: impl Into<HostArray<VertexId>>,
        weights: Weights,
        symmetric: bool,
    ) -> Result<Self, GraphError> {
        let csr = Self::with_unread_columns(row_offsets, column_indices, weights, symmetric)?;
        csr.check_column_indices()?;
        Ok(csr)
    }

    /// As [`new`](Csr::new), but the column indices are not read: opening a mapped file must not fault in its edges.
    ///
    /// A kernel that meets a column index out of range stops the run with an error, so nothing is trusted blindly.
    ///
    /// # Errors
    /// As [`new`](Csr::new), without [`GraphError::ColumnOutOfRange`].
    pub fn with_unread_columns(
        row_offsets: impl Into<HostArray<u64>>,
        column_indices: impl Into<HostArray<VertexId>>,
        weights: Weights,
        symmetric: bool,
    ) -> Result<Self, GraphError> {
        let (row_offsets, column_indices) = (row_offsets.into(), column_indices.into());
        let num_edges = column_indices.len() as u64;
        let num_vertices = (row_offsets.len() as u64).checked_sub(1).ok_or(GraphError::NoRowOffsets)?;
        if num_vertices > MAX_VERTICES {
            return Err(GraphError::TooManyVertices { num_vertices });
        }
        let (first, last) = (row_offsets[0], row_offsets[num_vertices as usize]);
        if first != 0 || last != num_edges {
            return Err(GraphError::RowOffsetEnds { first, last, num_edges });
        }
        if let Some(row) = row_offsets.par_windows(2).position_any(|pair| pair[0] > pair[1]) {
            return Err(GraphError::RowOffsetFalls { row: row as u64 });
        }
        if let Some(num_weights) = weights.stored_len()
            && num_weights as u64 != num_edges
        {
            return Err(GraphError::WeightCount { num_weights: num_weights as u64, num_edges });
        }
        Ok(Self { row_offsets, column_indices, weights, symmetric, heads: None })
    }

    /// Reads every column index and checks that it is a vertex.
    ///
    /// # Errors
    /// [`GraphError::ColumnOutOfRange`] for one that is not.
    pub fn check_column_indices(&self) -> Result<(), GraphError> {
        let num_vertices = self.num_vertices();
        match self.column_indices.par_iter().position_any(|&v| u64::from(v) >= num_vertices) {
            None => Ok(()),
            Some(e) => Err(GraphError::ColumnOutOfRange {
                edge: e as u64,
                column: self.column_indices[e].into(),
                num_vertices,
            }),
        }
    }

    /// Number of vertices, at most [`MAX_VERTICES`].
    pub fn num_vertices(&self) -> u64 {
        self.row_offsets.len() as u64 - 1
    }

    /// Number of directed edges: an undirected edge counts twice.
    pub fn num_edges(&self) -> u64 {
        self.column_indices.len() as u64
    }

    /// `num_vertices + 1` edge indices; row `u` is `row_offsets[u]..row_offsets[u + 1]`.
    pub fn row_offsets(&self) -> &HostArray<u64> {
        &self.row_offsets
    }

    /// `num_edges` neighbours, row after row.
    pub fn column_indices(&self) -> &HostArray<VertexId> {
        &self.column_indices
    }

    /// The weights of the edges.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Whether every edge has its reverse, with the same weight.
    pub fn is_symmetric(&self) -> bool {
        self.symmetric
    }

    /// Copies of the first neighbours of each row, if the graph has them.
    pub fn heads(&self) -> Option<&Heads> {
        self.heads.as_ref()
    }

    /// The same graph with heads, `per_vertex` a vertex, or without if that is 0. Heads that the graph has already are kept
    /// if they are as many.
    ///
    /// # Errors
    /// [`Heads::new`]'s.
    pub fn with_heads(self, per_vertex: u32) -> Result<Self, Error> {
        let heads = match &self.heads {
            _ if per_vertex == 0 => None,
            Some(heads) if heads.per_vertex() == per_vertex => self.heads,
            _ => Some(Heads::new(&self.row_offsets, &self.column_indices, per_vertex)?),
        };
        Ok(Self { heads, ..self })
    }

    /// The same graph with heads that were kept with it, which are not read.
    ///
    /// # Errors
    /// [`Heads::from_ids`]'s.
    pub fn with_kept_heads(self, ids: impl Into<HostArray<VertexId>>) -> Result<Self, GraphError> {
        let heads = Some(Heads::from_ids(&self.row_offsets, ids)?);
        Ok(Self { heads, ..self })
    }

    /// The same edges under other weights.
    ///
    /// # Errors
    /// [`GraphError::WeightCount`] if `weights` are stored and not one for each edge.
    pub fn with_weights(&self, weights: Weights) -> Result<Self, GraphError> {
        let csr = Self::with_unread_columns(
            self.row_offsets.clone(),
            self.column_indices.clone(),
            weights,
            self.symmetric,
        )?;
        Ok(Self { heads: self.heads.clone(), ..csr })
    }

    /// Number of edges that leave `u`.
    ///
    /// # Panics
    /// If `u` is not a vertex.
    pub fn out_degree(&self, u: VertexId) -> u64 {
        self.row_offsets[u as usize + 1] - self.row_offsets[u as usize]
    }

    /// The neighbours of `u`.
    ///
    /// # Panics
    /// If `u` is not a vertex.
    pub fn neighbors(&self, u: VertexId) -> &[VertexId] {
        &self.column_indices[self.row_offsets[u as usize] as usize..self.row_offsets[u as usize + 1] as usize]
    }

    /// The edges that leave `u`: index, neighbour and weight of each.
    ///
    /// # Panics
    /// If `u` is not a vertex.
    pub fn edges(&self, u: VertexId) -> impl Iterator<Item = (u64, VertexId, f64)> + '_ {
        let begin = self.row_offsets[u as usize];
        self.neighbors(u).iter().enumerate().map(move |(i, &v)| {
            let e = begin + i as u64;
            (e, v, self.weights.get(e, u, v))
        })
    }

    /// The vertex with most outgoing edges, the smallest id of several; `None` without vertices.
    pub fn max_degree_vertex(&self) -> Option<VertexId> {
        (0..self.num_vertices() as u32)
            .into_par_iter()
            .map(|u| (self.out_degree(u), std::cmp::Reverse(u)))
            .max()
            .map(|(_, std::cmp::Reverse(u))| u)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> Csr {
        Csr::new(vec![0, 1, 2, 2], vec![1, 2], Weights::Unit, false).expect("a valid graph")
    }

    #[test]
    fn neighbors_of_a_vertex_are_its_row() {
        assert_eq!(path().neighbors(1), [2]);
        assert_eq!(path().neighbors(2), [] as [u32; 0]);
    }

    #[test]
    fn column_index_that_is_no_vertex_is_refused() {
        let refused = Csr::new(vec![0, 1], vec![1], Weights::Unit, false);
        assert!(matches!(refused, Err(GraphError::ColumnOutOfRange { edge: 0, column: 1, num_vertices: 1 })));
    }

    #[test]
    fn falling_row_offset_is_refused() {
        let refused = Csr::new(vec![0, 2, 1, 2], vec![0, 0], Weights::Unit, false);
        assert!(matches!(refused, Err(GraphError::RowOffsetFalls { row: 1 })));
    }

    #[test]
    fn row_offsets_must_span_the_edges() {
        assert!(matches!(
            Csr::new(vec![0, 1], vec![0, 0], Weights::Unit, false),
            Err(GraphError::RowOffsetEnds { .. })
        ));
        assert!(matches!(
            Csr::new(Vec::<u64>::new(), vec![], Weights::Unit, false),
            Err(GraphError::NoRowOffsets)
        ));
    }

    #[test]
    fn stored_weights_are_one_for_each_edge() {
        assert!(matches!(
            path().with_weights(Weights::U8(vec![1].into())),
            Err(GraphError::WeightCount { .. })
        ));
    }

    #[test]
    fn vertex_of_largest_degree_is_the_smallest_of_equals() {
        assert_eq!(path().max_degree_vertex(), Some(0));
    }
}
