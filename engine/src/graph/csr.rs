use rayon::prelude::*;

use super::{Heads, HostArray, MAX_VERTICES, Permutation, VertexId, Weights};
use crate::error::{Error, GraphError};

/// A directed graph in compressed sparse row form: the neighbours of vertex `u` are
/// `column_indices[row_offsets[u]..row_offsets[u + 1]]`.
///
/// Invariants: `row_offsets` has `num_vertices + 1` entries, starts at 0, never falls and ends at the number of
/// column indices; every column index is a vertex; stored weights are as many as the column indices. An undirected
/// graph holds each edge twice, once in each direction, and says so in [`is_symmetric`](Csr::is_symmetric).
///
/// Rows may be in another order than the ids of their vertices ([`permutation`](Csr::permutation)). Rows and column indices
/// then count rows; algorithms, their answers and [`verify`](crate::verify) speak of ids all the same.
#[derive(Clone, Debug)]
pub struct Csr {
    row_offsets: HostArray<u64>,
    column_indices: HostArray<VertexId>,
    weights: Weights,
    symmetric: bool,
    heads: Option<Heads>,
    permutation: Option<Permutation>,
    /// The edges into each vertex, of a directed graph.
    reverse: Option<Box<Csr>>,
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
        Ok(Self {
            row_offsets,
            column_indices,
            weights,
            symmetric,
            heads: None,
            permutation: None,
            reverse: None,
        })
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

    /// The edges into each vertex of a directed graph, if they are kept with it: rows in the same order, without weights.
    pub fn reverse(&self) -> Option<&Csr> {
        self.reverse.as_deref()
    }

    /// The same graph with its reverse, of which bottom-up steps of BFS read the heads: those of a directed graph, since an
    /// undirected one is its own reverse.
    ///
    /// # Errors
    /// [`GraphError::ColumnOutOfRange`]; those of [`Heads::new`].
    pub fn with_reverse(self, heads_per_vertex: u32) -> Result<Self, Error> {
        if self.symmetric {
            return Ok(self);
        }
        let reverse = match self.reverse {
            Some(reverse) => *reverse,
            None => self.reversed()?,
        };
        Ok(Self { reverse: Some(Box::new(reverse.with_heads(heads_per_vertex)?)), ..self })
    }

    /// The same graph with a reverse that was kept with it, which is not read.
    ///
    /// # Errors
    /// [`GraphError::Reverse`] unless it has as many vertices and edges.
    pub fn with_kept_reverse(self, reverse: Self) -> Result<Self, GraphError> {
        if (self.num_vertices(), self.num_edges()) != (reverse.num_vertices(), reverse.num_edges()) {
            return Err(GraphError::Reverse);
        }
        Ok(Self { reverse: Some(Box::new(reverse)), ..self })
    }

    /// The graph whose rows are the edges into each vertex: itself if every edge has its reverse, else the reverse that is
    /// kept with it, if there is one.
    pub fn incoming(&self) -> Option<&Csr> {
        if self.symmetric { Some(self) } else { self.reverse() }
    }

    /// The vertices that rows are of, where rows are not numbered as vertices.
    pub fn permutation(&self) -> Option<&Permutation> {
        self.permutation.as_ref()
    }

    /// The same rows as those of other vertices.
    ///
    /// # Errors
    /// [`GraphError::PermutationLength`] unless there is one id for each row.
    pub fn with_permutation(self, permutation: Permutation) -> Result<Self, GraphError> {
        let (num_ids, num_vertices) = (permutation.original_ids().len() as u64, self.num_vertices());
        if num_ids != num_vertices {
            return Err(GraphError::PermutationLength { num_ids, num_vertices });
        }
        Ok(Self { permutation: Some(permutation), ..self }.with_hashes_stored())
    }

    /// The `hash8` rule is one of ids, which kernels do not know where rows are in another order: its weights are stored.
    fn with_hashes_stored(self) -> Self {
        let (Weights::Hash, Some(_)) = (&self.weights, &self.permutation) else { return self };
        let weights = self.weights_by_ids(Weights::hash8);
        Self { weights, ..self }
    }

    /// A weight of 1 to 255 for every edge, computed from the ids of its two vertices.
    pub fn weights_by_ids(&self, weight: impl Fn(VertexId, VertexId) -> u8 + Sync) -> Weights {
        const EDGES: usize = 1 << 16;
        let offsets = self.row_offsets.as_slice();
        let mut weights = vec![0; self.column_indices.len()];
        let parts = weights.par_chunks_mut(EDGES).zip(self.column_indices.par_chunks(EDGES)).enumerate();
        parts.for_each(|(chunk, (weights, columns))| {
            let first_edge = (chunk * EDGES) as u64;
            let mut row = offsets.partition_point(|&offset| offset <= first_edge).saturating_sub(1);
            for (i, (place, &column)) in weights.iter_mut().zip(columns).enumerate() {
                let edge = first_edge + i as u64;
                while offsets.get(row + 1).is_some_and(|&end| end <= edge) {
                    row += 1;
                }
                *place = weight(self.original_id(row as VertexId), self.original_id(column));
            }
        });
        Weights::U8(weights.into())
    }

    /// The row of vertex `id`; an id that is no vertex comes back.
    pub fn row_of(&self, id: VertexId) -> VertexId {
        match &self.permutation {
            Some(permutation) => permutation.rows().get(id as usize).copied().unwrap_or(id),
            None => id,
        }
    }

    /// The vertex that row `row` is of; a number that is no row comes back.
    pub fn original_id(&self, row: VertexId) -> VertexId {
        match &self.permutation {
            Some(permutation) => permutation.original_ids().get(row as usize).copied().unwrap_or(row),
            None => row,
        }
    }

    /// Heads of a vertex that suit the graph: [`Heads::DEFAULT`], or 0 where so many would take more than a quarter of the
    /// bytes of all column indices (fewer than 8 edges a vertex: grids, roads), of which they are to save most.
    pub fn suitable_heads(&self) -> u32 {
        if Heads::are_few(&self.row_offsets, Heads::DEFAULT) { Heads::DEFAULT } else { 0 }
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
        Ok(Self {
            heads: self.heads.clone(),
            permutation: self.permutation.clone(),
            reverse: self.reverse.clone(),
            ..csr
        }
        .with_hashes_stored())
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

    /// The id of the vertex with most outgoing edges, the smallest of several; `None` without vertices.
    pub fn max_degree_vertex(&self) -> Option<VertexId> {
        (0..self.num_vertices() as u32)
            .into_par_iter()
            .map(|row| (self.out_degree(row), std::cmp::Reverse(self.original_id(row))))
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
