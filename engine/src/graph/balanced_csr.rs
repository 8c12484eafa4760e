use rayon::prelude::*;

use super::{Csr, HostArray, VertexId};
use crate::error::GraphError;

/// A [`Csr`] whose edges are cut into segments of equal size, so that work is even however uneven the degrees are
/// ("Balanced CSR" of the paper), and so that a work item takes exactly one page.
///
/// Segment `s` is the edges `s * chunk_edges .. (s + 1) * chunk_edges`; the last may be shorter. A **chunk** is the
/// part of one row inside one segment, hence at most `chunk_edges` long. Since `chunk_edges` divides the edges of a
/// page, no chunk crosses a page boundary. Chunks need no table: the first of a row is named by its vertex, each
/// further one by the segment that it opens, since a row that goes on over a boundary owns the edge after it. So all
/// that is stored is the vertex of each segment's first edge: 4 bytes a segment, 0.05% of the edges at 8 KB pages.
#[derive(Clone, Debug)]
pub struct BalancedCsr {
    csr: Csr,
    chunk_edges: u32,
    segment_first_vertex: HostArray<VertexId>,
}

impl BalancedCsr {
    /// Cuts the edges of `csr` into segments of `chunk_edges`, in parallel.
    ///
    /// # Errors
    /// [`GraphError::ChunkEdges`] unless `chunk_edges` is a power of two.
    pub fn new(csr: Csr, chunk_edges: u32) -> Result<Self, GraphError> {
        if !chunk_edges.is_power_of_two() {
            return Err(GraphError::ChunkEdges { chunk_edges });
        }
        let row_offsets = csr.row_offsets();
        let num_segments = csr.num_edges().div_ceil(chunk_edges.into());
        let segment_first_vertex: Vec<VertexId> = (0..num_segments)
            .into_par_iter()
            .map(|s| {
                let edge = s * u64::from(chunk_edges);
                // The last row that begins at or before the edge: empty rows before it begin there too.
                (row_offsets.partition_point(|&offset| offset <= edge) - 1) as VertexId
            })
            .collect();
        Ok(Self { csr, chunk_edges, segment_first_vertex: segment_first_vertex.into() })
    }

    /// The graph itself.
    pub fn csr(&self) -> &Csr {
        &self.csr
    }

    /// Edges in a segment, a power of two.
    pub fn chunk_edges(&self) -> u32 {
        self.chunk_edges
    }

    /// Number of segments: `num_edges / chunk_edges`, rounded up.
    pub fn num_segments(&self) -> u64 {
        self.segment_first_vertex.len() as u64
    }

    /// For each segment, the vertex whose row holds its first edge.
    pub fn segment_first_vertex(&self) -> &HostArray<VertexId> {
        &self.segment_first_vertex
    }

    /// Number of chunks: work items of a step in which every vertex is in the frontier.
    pub fn num_chunks(&self) -> u64 {
        let offsets = self.csr.row_offsets();
        let segment = |e: u64| e / u64::from(self.chunk_edges);
        offsets
            .par_windows(2)
            .map(|row| if row[0] == row[1] { 0 } else { segment(row[1] - 1) - segment(row[0]) + 1 })
            .sum()
    }

    /// Bytes that balancing adds to the [`Csr`].
    pub fn size_bytes(&self) -> u64 {
        self.segment_first_vertex.size_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Weights;

    #[test]
    fn segments_know_the_vertex_of_their_first_edge() {
        // Rows of 0, 5, 0, 2 and 1 edges, cut every 4: edge 0 is of vertex 1, edge 4 still of vertex 1.
        let csr = Csr::new(vec![0, 0, 5, 5, 7, 8], vec![0; 8], Weights::Unit, false).expect("valid");
        let balanced = BalancedCsr::new(csr, 4).expect("a power of two");
        assert_eq!(balanced.segment_first_vertex().as_slice(), [1, 1]);
        assert_eq!(balanced.num_chunks(), 4); // vertex 1 in two segments, vertices 3 and 4 in one
        assert_eq!(balanced.size_bytes(), 8);
    }

    #[test]
    fn segment_that_begins_with_a_row_belongs_to_that_row() {
        let csr = Csr::new(vec![0, 2, 2, 4], vec![0; 4], Weights::Unit, false).expect("valid");
        let balanced = BalancedCsr::new(csr, 2).expect("a power of two");
        assert_eq!(balanced.segment_first_vertex().as_slice(), [0, 2]);
    }

    #[test]
    fn chunk_size_that_is_no_power_of_two_is_refused() {
        let csr = Csr::new(vec![0], vec![], Weights::Unit, false).expect("valid");
        assert!(matches!(BalancedCsr::new(csr, 3), Err(GraphError::ChunkEdges { chunk_edges: 3 })));
    }

    #[test]
    fn graph_without_edges_has_no_segments() {
        let csr = Csr::new(vec![0, 0], vec![], Weights::Unit, false).expect("valid");
        assert_eq!(BalancedCsr::new(csr, 1024).expect("valid").num_segments(), 0);
    }
}
