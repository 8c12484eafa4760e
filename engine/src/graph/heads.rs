use rayon::prelude::*;

use super::{HostArray, VertexId};
use crate::error::{Error, GraphError};

/// A copy of the first neighbours of each row, side by side: what a bottom-up step of BFS, or a sampling round of
/// components, needs of most vertices, in a few percent of the bytes of all edges. In degree order, rows being sorted, the
/// first neighbours of a vertex are those of highest degree.
///
/// There are heads for the vertices up to the last that has edges, [`per_vertex`](Heads::per_vertex) for each; a row that
/// is shorter is filled up with [`NONE`](Heads::NONE).
#[derive(Clone, Debug)]
pub struct Heads {
    per_vertex: u32,
    ids: HostArray<VertexId>,
}

impl Heads {
    /// Fills up the heads of a row with fewer neighbours.
    pub const NONE: VertexId = VertexId::MAX;

    /// The largest number of heads of a vertex.
    pub const MOST: u32 = 16;

    /// The default number of heads of a vertex.
    pub const DEFAULT: u32 = 2;

    /// The heads of a graph with these rows, `per_vertex` a vertex, on all cores.
    ///
    /// # Errors
    /// [`GraphError::HeadsPerVertex`] unless `per_vertex` is a power of two, at most [`MOST`](Heads::MOST);
    /// [`Error::OutOfMemory`].
    pub fn new(row_offsets: &[u64], column_indices: &[VertexId], per_vertex: u32) -> Result<Self, Error> {
        check_per_vertex(per_vertex)?;
        let shift = per_vertex.trailing_zeros();
        let ids = HostArray::from_fn(num_head_vertices(row_offsets) << shift, |i| {
            let v = (i >> shift) as usize;
            let edge = row_offsets[v] + i % u64::from(per_vertex);
            if edge < row_offsets[v + 1] { column_indices[edge as usize] } else { Self::NONE }
        })?;
        Ok(Self { per_vertex, ids })
    }

    /// Heads that were kept in a file with the graph of these rows.
    ///
    /// # Errors
    /// [`GraphError::HeadsLength`] if they are not a power of two, at most [`MOST`](Heads::MOST), for each vertex up to the
    /// last with edges.
    pub fn from_ids(row_offsets: &[u64], ids: impl Into<HostArray<VertexId>>) -> Result<Self, GraphError> {
        let ids = ids.into();
        let (num_heads, num_vertices) = (ids.len() as u64, num_head_vertices(row_offsets));
        let per_vertex = num_heads.checked_div(num_vertices).unwrap_or(0).try_into().unwrap_or(0);
        match check_per_vertex(per_vertex) {
            Ok(()) if num_vertices * u64::from(per_vertex) == num_heads => Ok(Self { per_vertex, ids }),
            _ => Err(GraphError::HeadsLength { num_heads, num_vertices }),
        }
    }

    /// Whether heads of the graph with these rows take a quarter of the bytes of its column indices at most.
    pub(crate) fn are_few(row_offsets: &[u64], per_vertex: u32) -> bool {
        4 * num_head_vertices(row_offsets) * u64::from(per_vertex) <= row_offsets.last().copied().unwrap_or(0)
    }

    /// Heads of a vertex: a power of two.
    pub fn per_vertex(&self) -> u32 {
        self.per_vertex
    }

    /// Vertices that have heads: those up to the last with edges.
    pub fn num_vertices(&self) -> u64 {
        self.ids.len() as u64 / u64::from(self.per_vertex)
    }

    /// The heads, vertex after vertex.
    pub fn ids(&self) -> &HostArray<VertexId> {
        &self.ids
    }

    /// Reads all heads and compares them with the rows that they are a copy of.
    ///
    /// # Errors
    /// [`GraphError::HeadsDiffer`] names a vertex whose heads are not its first neighbours.
    pub fn check(&self, row_offsets: &[u64], column_indices: &[VertexId]) -> Result<(), GraphError> {
        let differs = |v: usize, heads: &[VertexId]| {
            let row = &column_indices[row_offsets[v] as usize..row_offsets[v + 1] as usize];
            let first = &row[..row.len().min(heads.len())];
            heads[..first.len()] != *first || heads[first.len()..].iter().any(|&head| head != Self::NONE)
        };
        let heads = self.ids.par_chunks_exact(self.per_vertex as usize);
        match heads.enumerate().find_first(|&(v, heads)| differs(v, heads)) {
            None => Ok(()),
            Some((vertex, _)) => Err(GraphError::HeadsDiffer { vertex: vertex as u64 }),
        }
    }
}

fn check_per_vertex(per_vertex: u32) -> Result<(), GraphError> {
    match per_vertex.is_power_of_two() && per_vertex <= Heads::MOST {
        true => Ok(()),
        false => Err(GraphError::HeadsPerVertex { per_vertex, most: Heads::MOST }),
    }
}

/// Vertices up to the last that has edges.
pub(crate) fn num_head_vertices(row_offsets: &[u64]) -> u64 {
    let num_edges = row_offsets.last().copied().unwrap_or(0);
    row_offsets.partition_point(|&offset| offset < num_edges) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: u32 = Heads::NONE;

    #[test]
    fn heads_are_the_first_neighbours_up_to_the_last_vertex_with_edges() {
        // Rows of 3, 0, 1, 2 and 0 edges.
        let (offsets, columns) = ([0, 3, 3, 4, 6, 6], [1, 2, 3, 0, 0, 2]);
        let heads = Heads::new(&offsets, &columns, 2).expect("16 bytes");
        assert_eq!(heads.ids().as_slice(), [1, 2, NONE, NONE, 0, NONE, 0, 2]);
        assert_eq!((heads.per_vertex(), heads.num_vertices()), (2, 4));
        assert_eq!(heads.check(&offsets, &columns), Ok(()));
        let kept = Heads::from_ids(&offsets, heads.ids().clone()).expect("as they were");
        assert_eq!((kept.per_vertex(), kept.num_vertices()), (2, 4));
    }

    #[test]
    fn heads_that_are_not_those_of_the_rows_are_refused() {
        let (offsets, columns) = ([0, 2, 3], [0, 1, 0]);
        let differ = Heads::from_ids(&offsets, vec![0, 1, 0, 0]).expect("two a vertex");
        assert_eq!(differ.check(&offsets, &columns), Err(GraphError::HeadsDiffer { vertex: 1 }));
        for wrong in [vec![], vec![0; 3], vec![0; 6], vec![0; 64]] {
            let num_heads = wrong.len() as u64;
            let refused = Heads::from_ids(&offsets, wrong).expect_err("not 1, 2, 4, 8 or 16 a vertex");
            assert_eq!(refused, GraphError::HeadsLength { num_heads, num_vertices: 2 });
        }
        assert!(Heads::new(&offsets, &columns, 3).is_err());
    }

    #[test]
    fn graph_without_edges_has_no_heads() {
        assert_eq!(Heads::new(&[0, 0, 0], &[], 4).expect("no bytes").num_vertices(), 0);
        assert_eq!(Heads::new(&[0], &[], 4).expect("no bytes").num_vertices(), 0);
    }
}
