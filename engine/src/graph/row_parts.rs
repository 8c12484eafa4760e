use std::ops::Range;

use rayon::prelude::*;

use super::{Csr, VertexId};

/// The rows of a graph, cut for threads into parts of at most [`ROWS`](Self::ROWS) rows and about [`EDGES`](Self::EDGES)
/// edges. In degree order the first few thousand rows have a fifth of all edges and the first thirtieth most of them:
/// threads that share rows evenly wait for the one that has these.
pub(crate) struct RowParts(Vec<Range<usize>>);

impl RowParts {
    const ROWS: usize = 4096;
    const EDGES: u64 = 1 << 18;

    /// Of the rows that `row_offsets` tell.
    pub fn new(row_offsets: &[u64]) -> Self {
        let n = row_offsets.len() - 1;
        let mut parts = Vec::new();
        let mut first = 0;
        while first < n {
            let most = (first + Self::ROWS).min(n);
            let full = row_offsets[first].saturating_add(Self::EDGES);
            let end = first + 1 + row_offsets[first + 1..most].partition_point(|&offset| offset <= full);
            parts.push(first..end);
            first = end;
        }
        Self(parts)
    }

    /// The rows of each part. A part is a task of its own, which any thread takes.
    pub fn par_iter(&self) -> impl IndexedParallelIterator<Item = Range<usize>> + '_ {
        self.0.par_iter().cloned().with_max_len(1)
    }

    /// The part that each has of an array of an entry a row.
    pub fn of_rows<'a, T>(&self, mut rows: &'a mut [T]) -> Vec<&'a mut [T]> {
        let part = |part: &Range<usize>| rows.split_off_mut(..part.len()).expect("an entry a row");
        self.0.iter().map(part).collect()
    }

    /// The part that each has of an array of an entry an edge.
    pub fn of_edges<'a, T>(&self, row_offsets: &[u64], mut edges: &'a mut [T]) -> Vec<&'a mut [T]> {
        let part = |part: &Range<usize>| {
            let len = (row_offsets[part.end] - row_offsets[part.start]) as usize;
            edges.split_off_mut(..len).expect("an entry an edge")
        };
        self.0.iter().map(part).collect()
    }
}

impl Csr {
    /// All rows in parallel, each thread with about as many edges, as is right for loops over the edges of a row. In a graph
    /// in the order of its ids a row is a vertex.
    pub fn par_rows(&self) -> impl ParallelIterator<Item = VertexId> {
        let parts = RowParts::new(self.row_offsets()).0;
        parts.into_par_iter().with_max_len(1).flat_map_iter(|rows| rows.map(|row| row as VertexId))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Weights;

    #[test]
    fn parts_hold_every_row_once_and_no_more_edges_than_a_row_beside_their_share() {
        // Hubs of 3, just above 1 and half a share, then rows of one edge.
        let degrees = [3 * RowParts::EDGES, RowParts::EDGES + 1, RowParts::EDGES / 2];
        let degrees = degrees.into_iter().chain([1; 10_000]);
        let row_offsets: Vec<u64> = std::iter::once(0)
            .chain(degrees.scan(0, |sum, degree| {
                *sum += degree;
                Some(*sum)
            }))
            .collect();
        let parts = RowParts::new(&row_offsets);
        assert_eq!(parts.0[0], 0..1, "a hub by itself");
        assert_eq!(parts.0[1], 1..2);
        assert_eq!(parts.0[2], 2..2 + RowParts::ROWS);
        let rows: Vec<usize> = parts.0.iter().cloned().flatten().collect();
        assert_eq!(rows, (0..10_003).collect::<Vec<_>>());
        let mut edges = vec![(); row_offsets[10_003] as usize];
        let of_edges = parts.of_edges(&row_offsets, &mut edges);
        assert_eq!(of_edges[0].len() as u64, 3 * RowParts::EDGES);
        assert_eq!(of_edges.iter().map(|part| part.len()).sum::<usize>() as u64, row_offsets[10_003]);
    }

    #[test]
    fn rows_come_all_and_once() {
        let csr = Csr::new(vec![0, 2, 2, 3], vec![1, 2, 0], Weights::Unit, false).expect("valid");
        let mut rows: Vec<VertexId> = csr.par_rows().collect();
        rows.sort_unstable();
        assert_eq!(rows, [0, 1, 2]);
        let empty = Csr::new(vec![0], vec![], Weights::Unit, false).expect("valid");
        assert_eq!(empty.par_rows().count(), 0);
    }
}
