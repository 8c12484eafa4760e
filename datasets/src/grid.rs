//! Grids: graphs of long diameter, as road networks are, whose answers are known without computing.

use gpuvm_engine::graph::{Csr, HostArray, MAX_VERTICES, VertexId, Weights};
use rayon::prelude::*;

use crate::error::GenerateError;
use crate::memory::LargeArray;

/// A grid in which each vertex has an edge to the one left, right, above and below it.
///
/// Vertex `y * width + x` stands in column `x` of row `y`. From a corner, a breadth-first search has
/// `width + height - 1` levels.
///
/// ```
/// let csr = gpuvm_datasets::Grid { width: 3, height: 2 }.generate()?;
/// assert_eq!(csr.neighbors(1), [0, 2, 4]);
/// # Ok::<(), gpuvm_datasets::GenerateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Vertices of a row.
    pub width: u64,
    /// Vertices of a column.
    pub height: u64,
}

/// Rows that one thread writes at a time hold about this many vertices.
const CHUNK_VERTICES: usize = 1 << 16;

impl Grid {
    /// The graph, undirected, all weights 1.
    ///
    /// Other weights need no generator: `csr.with_weights(Weights::Hash)` gives the random ones of the `hash8` rule.
    ///
    /// # Errors
    /// [`GenerateError::GridSize`] without vertices or with more than ids have; [`GenerateError::OutOfMemory`];
    /// [`GenerateError::Reserve`].
    pub fn generate(&self) -> Result<Csr, GenerateError> {
        let (num_vertices, num_edges) = self.check()?;

        let mut row_offsets = LargeArray::zeroed(num_vertices + 1, "the row offsets")?;
        row_offsets.par_iter_mut().enumerate().for_each(|(u, offset)| *offset = self.edges_before(u as u64));
        let mut columns = LargeArray::<VertexId>::zeroed(num_edges, "the column indices")?;
        let mut parts = Vec::new();
        let mut left = &mut columns[..];
        for begin in (0..num_vertices).step_by(CHUNK_VERTICES) {
            let end = num_vertices.min(begin + CHUNK_VERTICES as u64);
            let length = (row_offsets[end as usize] - row_offsets[begin as usize]) as usize;
            let (part, rest) = std::mem::take(&mut left).split_at_mut(length);
            parts.push((begin..end, part));
            left = rest;
        }
        parts.into_par_iter().for_each(|(vertices, part)| {
            for (column, v) in part.iter_mut().zip(vertices.flat_map(|u| self.neighbors(u))) {
                *column = v as VertexId;
            }
        });
        let (row_offsets, columns) = (HostArray::from_owner(row_offsets), HostArray::from_owner(columns));
        Ok(Csr::new(row_offsets, columns, Weights::Unit, true).expect("neighbours are cells of the grid"))
    }

    /// What [`generate`](Grid::generate) checks first; number of vertices and of edges.
    pub(crate) fn check(&self) -> Result<(u64, u64), GenerateError> {
        let (num_vertices, num_edges) = self.num_vertices_and_edges()?;
        crate::memory::check(num_edges * 4 + num_vertices * 8)?;
        Ok((num_vertices, num_edges))
    }

    /// Both directions of an edge count.
    pub(crate) fn num_vertices_and_edges(&self) -> Result<(u64, u64), GenerateError> {
        let Self { width, height } = *self;
        let num_vertices = width
            .checked_mul(height)
            .filter(|&n| (1..=MAX_VERTICES).contains(&n))
            .ok_or(GenerateError::GridSize { width, height, max: MAX_VERTICES })?;
        Ok((num_vertices, self.edges_before(num_vertices)))
    }

    /// The neighbours of `u`, in ascending order.
    fn neighbors(&self, u: u64) -> impl Iterator<Item = u64> {
        let Self { width, height } = *self;
        let (x, y) = (u % width, u / width);
        let above = (y > 0).then(|| u - width);
        let left = (x > 0).then(|| u - 1);
        let right = (x + 1 < width).then(|| u + 1);
        let below = (y + 1 < height).then(|| u + width);
        [above, left, right, below].into_iter().flatten()
    }

    /// Edges that leave the vertices before `u`: four each, less those that would leave the grid.
    fn edges_before(&self, u: u64) -> u64 {
        let Self { width, height } = *self;
        let upwards = u.min(width);
        let leftwards = u.div_ceil(width);
        let rightwards = u / width;
        let downwards = u.saturating_sub(width * (height - 1));
        4 * u - upwards - leftwards - rightwards - downwards
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn degree_of_each(grid: Grid) -> Vec<u64> {
        let csr = grid.generate().expect("small");
        (0..csr.num_vertices() as VertexId).map(|u| csr.out_degree(u)).collect()
    }

    #[test]
    fn corners_have_two_neighbours_borders_three_and_the_inside_four() {
        assert_eq!(degree_of_each(Grid { width: 4, height: 3 }), [2, 3, 3, 2, 3, 4, 4, 3, 2, 3, 3, 2]);
    }

    #[test]
    fn grid_of_one_row_or_one_column_is_a_path_and_one_cell_is_a_vertex() {
        assert_eq!(degree_of_each(Grid { width: 4, height: 1 }), [1, 2, 2, 1]);
        assert_eq!(degree_of_each(Grid { width: 1, height: 4 }), [1, 2, 2, 1]);
        assert_eq!(degree_of_each(Grid { width: 1, height: 1 }), [0]);
    }

    #[test]
    fn every_edge_has_its_reverse_and_rows_are_sorted() {
        let csr = Grid { width: 301, height: 333 }.generate().expect("small");
        assert_eq!(csr.num_edges(), 2 * (300 * 333 + 301 * 332));
        for u in 0..csr.num_vertices() as VertexId {
            assert!(csr.neighbors(u).is_sorted_by(|a, b| a < b));
            assert!(csr.neighbors(u).iter().all(|&v| csr.neighbors(v).binary_search(&u).is_ok()));
        }
    }

    #[test]
    fn grid_without_vertices_or_with_too_many_is_refused() {
        for (width, height) in [(0, 5), (5, 0), (1 << 16, 1 << 16), (u64::MAX, u64::MAX)] {
            let refused = Grid { width, height }.generate();
            assert!(matches!(refused, Err(GenerateError::GridSize { .. })), "{width} x {height}");
        }
    }
}
