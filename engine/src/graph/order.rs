use std::cmp::Reverse;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use super::row_parts::RowParts;
use super::{Csr, HostArray, VertexId, Weights};
use crate::error::GraphError;

/// Numbers for the rows of a graph that are not the ids of its vertices: which vertex each row is of, and the other way
/// round.
#[derive(Clone, Debug)]
pub struct Permutation {
    original_ids: HostArray<VertexId>,
    rows: HostArray<VertexId>,
}

impl Permutation {
    /// Row r is that of vertex `original_ids[r]`.
    ///
    /// # Errors
    /// [`GraphError::NoPermutation`] names a row whose vertex does not exist or has a row already.
    pub fn new(original_ids: impl Into<HostArray<VertexId>>) -> Result<Self, GraphError> {
        let original_ids = original_ids.into();
        let rows: Vec<AtomicU32> = original_ids.par_iter().map(|_| AtomicU32::new(VertexId::MAX)).collect();
        let is_wrong = |(row, &id): (usize, &VertexId)| {
            let place = rows.get(id as usize);
            place.is_none_or(|place| place.swap(row as VertexId, Relaxed) != VertexId::MAX)
        };
        if let Some(row) = original_ids.par_iter().enumerate().position_any(is_wrong) {
            return Err(GraphError::NoPermutation { row: row as u64, id: original_ids[row].into() });
        }
        let rows: Vec<VertexId> = rows.into_par_iter().map(AtomicU32::into_inner).collect();
        Ok(Self { original_ids, rows: rows.into() })
    }

    /// For each row, the vertex that it is of.
    pub fn original_ids(&self) -> &HostArray<VertexId> {
        &self.original_ids
    }

    /// For each vertex, its row.
    pub fn rows(&self) -> &HostArray<VertexId> {
        &self.rows
    }
}

/// How the rows of a graph are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As the ids of the vertices.
    Natural,
    /// By falling degree, vertices of equal degree by id: the neighbours of a vertex, sorted by their rows, begin with those
    /// of highest degree, and vertices without edges come last.
    Degree,
}

impl Csr {
    /// The order that suits the graph: [`Degree`](Order::Degree) if the largest degree is more than 16 times the mean of the
    /// vertices with edges (GAP-kron at scale 20: 1 200 times; social networks and the web: hundreds), else
    /// [`Natural`](Order::Natural): grids and roads (3 to 5 times) and uniform random graphs (2 times), whose own order is
    /// as good or better.
    pub fn suitable_order(&self) -> Order {
        const SKEWED: u64 = 16;
        let degrees = self.row_offsets().par_windows(2).map(|row| row[1] - row[0]).filter(|&d| d > 0);
        let (largest, with_edges) =
            degrees.map(|degree| (degree, 1_u64)).reduce(|| (0, 0), |a, b| (a.0.max(b.0), a.1 + b.1));
        let mean = self.num_edges().checked_div(with_edges).unwrap_or(0);
        if largest > SKEWED * mean.max(1) { Order::Degree } else { Order::Natural }
    }

    /// The same graph with its rows in this order, sorted each by the rows that their neighbours have; heads and reverse
    /// are made anew if there were any. Ids of vertices stay what they are: algorithms take and give those, and weights by the `hash8` rule,
    /// a function of the ids, become stored ones. Takes the memory of the edges once more.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) for the heads.
    pub fn in_order(self, order: Order) -> Result<Self, crate::Error> {
        let original_ids: Vec<VertexId> = match order {
            Order::Natural if self.permutation().is_none() => return Ok(self),
            Order::Natural => (0..self.num_vertices() as VertexId).collect(),
            Order::Degree => {
                let ids = self.by_degree();
                let is_there = |(row, &id): (usize, &VertexId)| self.original_id(row as VertexId) == id;
                if ids.par_iter().enumerate().all(is_there) {
                    return Ok(self);
                }
                ids
            }
        };
        let heads = |csr: &Self| csr.heads().map_or(0, super::Heads::per_vertex);
        let ordered = self.renumbered(original_ids, order == Order::Natural)?.with_heads(heads(&self))?;
        match self.reverse() {
            Some(reverse) => ordered.with_reverse(heads(reverse)),
            None => Ok(ordered),
        }
    }

    /// All vertices by falling degree, edges in both directions counted.
    fn by_degree(&self) -> Vec<VertexId> {
        let n = self.num_vertices() as VertexId;
        let degrees: Vec<AtomicU64> =
            self.row_offsets().par_windows(2).map(|row| AtomicU64::new(row[1] - row[0])).collect();
        if !self.is_symmetric() {
            let places = self.column_indices().par_iter().filter_map(|&v| degrees.get(v as usize));
            places.for_each(|degree| {
                degree.fetch_add(1, Relaxed);
            });
        }
        let mut rows: Vec<(Reverse<u64>, VertexId)> = (0..n)
            .into_par_iter()
            .map(|row| (Reverse(degrees[row as usize].load(Relaxed)), self.original_id(row)))
            .collect();
        rows.par_sort_unstable();
        rows.into_par_iter().map(|(_, id)| id).collect()
    }

    fn renumbered(&self, original_ids: Vec<VertexId>, is_natural: bool) -> Result<Self, GraphError> {
        let permutation = Permutation::new(original_ids)?;
        let old_row = |row: usize| self.row_of(permutation.original_ids[row]) as usize;
        let n = self.num_vertices() as usize;
        let mut row_offsets = vec![0_u64; n + 1];
        // Degrees from random places, by all threads; only the sums are one thread's.
        row_offsets[1..].par_iter_mut().enumerate().for_each(|(row, degree)| {
            let old = old_row(row);
            *degree = self.row_offsets()[old + 1] - self.row_offsets()[old];
        });
        let mut sum = 0;
        for offset in &mut row_offsets[1..] {
            sum += *offset;
            *offset = sum;
        }
        // A column that is no vertex stays what it is.
        let new_row = |column: VertexId| {
            let id = self.original_id(column);
            permutation.rows.get(id as usize).copied().unwrap_or(id)
        };
        let scatter = Scatter { csr: self, row_offsets: &row_offsets, old_row: &old_row, new_row: &new_row };
        let (columns, weights) = match self.weights() {
            weights @ (Weights::Unit | Weights::Hash) => (scatter.columns(), weights.clone()),
            Weights::U8(w) => scatter.with(w, Weights::U8),
            Weights::U16(w) => scatter.with(w, Weights::U16),
            Weights::U32(w) => scatter.with(w, Weights::U32),
            Weights::F32(w) => scatter.with(w, Weights::F32),
            Weights::F64(w) => scatter.with(w, Weights::F64),
        };
        let csr = Self::with_unread_columns(row_offsets, columns, weights, self.is_symmetric())?;
        if is_natural { Ok(csr) } else { csr.with_permutation(permutation) }
    }
}

/// Fills the rows of a renumbered graph.
struct Scatter<'a, Old, New> {
    csr: &'a Csr,
    row_offsets: &'a [u64],
    old_row: &'a Old,
    new_row: &'a New,
}

impl<Old: Fn(usize) -> usize + Sync, New: Fn(VertexId) -> VertexId + Sync> Scatter<'_, Old, New> {
    /// Rows of more edges than this are sorted by all threads.
    const LONG_ROW: usize = 1 << 17;

    fn columns(&self) -> Vec<VertexId> {
        let mut columns = vec![0; self.csr.num_edges() as usize];
        let parts = RowParts::new(self.row_offsets);
        let columns_of_parts = parts.of_edges(self.row_offsets, &mut columns);
        parts.par_iter().zip(columns_of_parts).for_each(|(rows, mut part)| {
            for row in rows {
                let neighbors = self.csr.neighbors((self.old_row)(row) as VertexId);
                let (new, rest) = std::mem::take(&mut part).split_at_mut(neighbors.len());
                part = rest;
                new.iter_mut().zip(neighbors).for_each(|(new, &old)| *new = (self.new_row)(old));
                if new.len() > Self::LONG_ROW { new.par_sort_unstable() } else { new.sort_unstable() }
            }
        });
        columns
    }

    /// Columns, and the weights that the edges have in the old graph.
    fn with<T: Copy + Default + Send + Sync>(
        &self,
        weights: &HostArray<T>,
        stored: impl Fn(HostArray<T>) -> Weights,
    ) -> (Vec<VertexId>, Weights) {
        let mut columns = vec![0; self.csr.num_edges() as usize];
        let mut values = vec![T::default(); columns.len()];
        let parts = RowParts::new(self.row_offsets);
        let columns_of_parts = parts.of_edges(self.row_offsets, &mut columns);
        let values_of_parts = parts.of_edges(self.row_offsets, &mut values);
        let parts = parts.par_iter().zip(columns_of_parts).zip(values_of_parts);
        parts.for_each(|((rows, mut columns), mut values)| {
            let mut edges = Vec::new();
            for row in rows {
                let old = (self.old_row)(row);
                let begin = self.csr.row_offsets()[old] as usize;
                let neighbors = self.csr.neighbors(old as VertexId);
                let weighted = neighbors.iter().zip(&weights[begin..]);
                edges.clear();
                edges.extend(weighted.map(|(&v, &weight)| ((self.new_row)(v), weight)));
                // Edges that are there twice keep their order.
                if edges.len() > Self::LONG_ROW {
                    edges.par_sort_by_key(|&(column, _)| column);
                } else {
                    edges.sort_by_key(|&(column, _)| column);
                }
                let (row_columns, rest) = std::mem::take(&mut columns).split_at_mut(edges.len());
                columns = rest;
                let (row_values, rest) = std::mem::take(&mut values).split_at_mut(edges.len());
                values = rest;
                for (i, &(column, value)) in edges.iter().enumerate() {
                    (row_columns[i], row_values[i]) = (column, value);
                }
            }
        });
        (columns, stored(values.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_hubs_and_many_small_ones_are_renumbered_whole() {
        // The hub is the last vertex, its row longer than what one thread sorts; weights are what the edges' leaves are.
        let n = 300_000_u32;
        let hub = n - 1;
        let mut row_offsets: Vec<u64> = (0..u64::from(n)).collect();
        row_offsets.push(2 * u64::from(hub));
        let columns: Vec<VertexId> = (0..hub).map(|_| hub).chain(0..hub).collect();
        let weights: Vec<u32> = (0..hub).chain(0..hub).collect();
        let star = Csr::new(row_offsets, columns, Weights::U32(weights.into()), true).expect("valid");
        for csr in [star.clone().with_weights(Weights::Unit).expect("fits"), star] {
            let ordered = csr.in_order(Order::Degree).expect("fits");
            assert_eq!(ordered.original_id(0), hub);
            assert_eq!(ordered.row_offsets()[1], u64::from(hub));
            let leaves: Vec<VertexId> = (1..n).collect();
            assert_eq!(ordered.neighbors(0), leaves, "rows of the leaves, in their order");
            assert!((1..n).all(|row| ordered.neighbors(row) == [0]));
            if let Weights::U32(weights) = ordered.weights() {
                let expected: Vec<u32> = (1..n).chain(1..n).map(|row| ordered.original_id(row)).collect();
                assert_eq!(weights.as_slice(), expected);
            }
        }
    }

    /// Degrees 1, 3, 0, 2 and 2: edges 0-1 (5), 1-3 (6), 1-4 (7), 3-4 (8).
    fn graph() -> Csr {
        let weights = Weights::U16(vec![5, 5, 6, 7, 6, 8, 7, 8].into());
        Csr::new(vec![0, 1, 4, 4, 6, 8], vec![1, 0, 3, 4, 1, 4, 1, 3], weights, true).expect("valid")
    }

    #[test]
    fn rows_by_degree_keep_edges_and_weights_and_put_lone_vertices_last() {
        let ordered = graph().with_heads(2).and_then(|csr| csr.in_order(Order::Degree)).expect("fits");
        let permutation = ordered.permutation().expect("another order");
        assert_eq!(permutation.original_ids().as_slice(), [1, 3, 4, 0, 2]);
        assert_eq!(permutation.rows().as_slice(), [3, 0, 4, 1, 2]);
        assert_eq!(ordered.row_offsets().as_slice(), [0, 3, 5, 7, 8, 8]);
        assert_eq!(ordered.column_indices().as_slice(), [1, 2, 3, 0, 2, 0, 1, 0]);
        let Weights::U16(weights) = ordered.weights() else { panic!("as they were") };
        assert_eq!(weights.as_slice(), [6, 7, 5, 6, 8, 7, 8, 5]);
        let heads = ordered.heads().expect("made anew");
        assert_eq!(heads.ids().as_slice(), [1, 2, 0, 2, 0, 1, 0, u32::MAX]);
        assert_eq!(ordered.max_degree_vertex(), Some(1));

        let natural = ordered.in_order(Order::Natural).expect("fits");
        assert!(natural.permutation().is_none());
        assert_eq!(natural.row_offsets().as_slice(), graph().row_offsets().as_slice());
        assert_eq!(natural.column_indices().as_slice(), graph().column_indices().as_slice());
        assert_eq!(natural.weights().as_bytes(), graph().weights().as_bytes());
    }

    #[test]
    fn hashed_weights_stay_those_of_the_ids() {
        let ordered = graph().in_order(Order::Degree).expect("fits").with_weights(Weights::Hash);
        let hashed = graph().with_weights(Weights::Hash).expect("no weights");
        for csr in [ordered.expect("no weights"), hashed.in_order(Order::Degree).expect("fits")] {
            for row in 0..5 {
                for (_, column, weight) in csr.edges(row) {
                    let hash = Weights::hash8(csr.original_id(row), csr.original_id(column));
                    assert_eq!(weight, f64::from(hash));
                }
            }
        }
    }

    #[test]
    fn skewed_graphs_are_ordered_by_degree_and_even_ones_keep_their_order() {
        let star = |leaves: u32| {
            let offsets = std::iter::once(0).chain((0..=leaves).map(|i| u64::from(leaves + i)));
            let columns = (1..=leaves).chain((0..leaves).map(|_| 0));
            Csr::new(offsets.collect::<Vec<_>>(), columns.collect::<Vec<_>>(), Weights::Unit, true)
                .expect("valid")
        };
        // The mean is just below 2.
        assert_eq!(star(17).suitable_order(), Order::Degree);
        assert_eq!(star(16).suitable_order(), Order::Natural);
        assert_eq!(
            Csr::new(vec![0, 0], vec![], Weights::Unit, true).expect("valid").suitable_order(),
            Order::Natural
        );
    }

    #[test]
    fn ids_that_are_no_permutation_are_refused() {
        for (ids, row) in [(vec![0, 2], 1), (vec![3, 0, 1], 0)] {
            let id = u64::from(ids[row]);
            let refused = Permutation::new(ids).expect_err("a vertex without a row");
            assert_eq!(refused, GraphError::NoPermutation { row: row as u64, id });
        }
        assert!(matches!(Permutation::new(vec![1, 1]), Err(GraphError::NoPermutation { id: 1, .. })));
    }
}
