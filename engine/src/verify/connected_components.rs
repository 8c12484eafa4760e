use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rayon::prelude::*;

use super::{Difference, check_length};
use crate::graph::{Csr, VertexId};

/// Whether `labels` are the components of the graph: for each vertex the smallest that a path leads to, over edges of
/// either direction.
///
/// An independent union-find joins the two ends of every edge, so labels equal to the smallest vertices of its trees agree
/// across every edge and are as many as the components. An edge to a column that is no vertex joins nothing.
/// Cost: each edge once, eight bytes a vertex.
///
/// # Errors
/// The [`Difference`] of smallest vertex id.
///
/// ```
/// use gpuvm_engine::graph::{Csr, Weights};
/// use gpuvm_engine::verify;
/// let edge_and_point = Csr::new(vec![0, 0, 1, 1], vec![0], Weights::Unit, false)?;
/// assert!(verify::connected_components(&edge_and_point, &[0, 0, 2]).is_ok());
/// let difference = verify::connected_components(&edge_and_point, &[0, 1, 2]).unwrap_err();
/// assert_eq!(difference.to_string(), "vertex 1: label 0 expected, the smallest of its component, got 1");
/// # Ok::<(), gpuvm_engine::GraphError>(())
/// ```
pub fn connected_components(csr: &Csr, labels: &[VertexId]) -> Result<(), Difference> {
    check_length("labels", csr, labels.len())?;
    let num_vertices = csr.num_vertices() as VertexId;
    let vertices = || (0..num_vertices).into_par_iter();
    let forest = Forest { parents: vertices().map(AtomicU32::new).collect() };
    csr.par_rows().for_each(|u| {
        let neighbors = csr.neighbors(u).iter().filter(|&&v| v < num_vertices);
        neighbors.for_each(|&v| forest.unite(u, v));
    });
    let smallest: Vec<AtomicU32> = vertices().map(|_| AtomicU32::new(VertexId::MAX)).collect();
    vertices().for_each(|v| {
        let smallest = &smallest[forest.find(csr.row_of(v)) as usize];
        if v < smallest.load(Relaxed) {
            smallest.fetch_min(v, Relaxed);
        }
    });
    let expected = |v: usize| smallest[forest.find(csr.row_of(v as VertexId)) as usize].load(Relaxed);
    match labels.par_iter().enumerate().position_first(|(v, &label)| label != expected(v)) {
        None => Ok(()),
        Some(v) => Err(Difference::Label { vertex: v as VertexId, expected: expected(v), got: labels[v] }),
    }
}

/// A lock-free union-find of rows, of which the first, in degree order, are hubs and stay in caches. A row's parent is itself or
/// a smaller one.
///
/// Relaxed accesses do: a parent once read stays an ancestor, since a root only ever gets a parent, and what is stored
/// over a parent is an ancestor too. The join at the end of a parallel loop shows every union to whoever comes after.
struct Forest {
    parents: Vec<AtomicU32>,
}

impl Forest {
    /// The root of the tree of `v`; on the way every other vertex is hung from its grandparent (path halving).
    fn find(&self, mut v: VertexId) -> VertexId {
        loop {
            let parent = self.parents[v as usize].load(Relaxed);
            if parent == v {
                return v;
            }
            let grandparent = self.parents[parent as usize].load(Relaxed);
            if grandparent != parent {
                self.parents[v as usize].store(grandparent, Relaxed);
            }
            v = grandparent;
        }
    }

    /// Joins the trees of `u` and `v`: the larger root is hung from the smaller, if it is still a root by then.
    fn unite(&self, mut u: VertexId, mut v: VertexId) {
        loop {
            (u, v) = (self.find(u), self.find(v));
            let (low, high) = (u.min(v), u.max(v));
            if low == high
                || self.parents[high as usize].compare_exchange(high, low, Relaxed, Relaxed).is_ok()
            {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sssp::tests::{arrays, graph, graphs};
    use super::*;
    use crate::graph::Weights;
    use crate::reference;

    #[test]
    fn right_labels_are_accepted_and_every_wrong_array_is_refused_at_its_first_wrong_vertex() {
        for csr in graphs(3, 1..=1).chain([graph(3, [(2, 1, 1)])]) {
            let right = reference::connected_components(&csr);
            for labels in arrays(3, vec![0, 1, 2, 3, VertexId::MAX]) {
                let first_wrong = (0..3).find(|&v| labels[v] != right[v]);
                let expected = first_wrong.map_or(Ok(()), |v| {
                    Err(Difference::Label { vertex: v as VertexId, expected: right[v], got: labels[v] })
                });
                assert_eq!(connected_components(&csr, &labels), expected);
            }
        }
    }

    #[test]
    fn component_split_in_two_and_two_under_one_label_are_refused() {
        let csr = graph(6, [(5, 1, 1), (1, 3, 1), (2, 4, 1)]);
        assert_eq!(connected_components(&csr, &[0, 1, 2, 1, 2, 1]), Ok(()));
        let split = Difference::Label { vertex: 3, expected: 1, got: 3 };
        assert_eq!(connected_components(&csr, &[0, 1, 2, 3, 2, 1]), Err(split));
        let merged = Difference::Label { vertex: 2, expected: 2, got: 1 };
        assert_eq!(connected_components(&csr, &[0, 1, 1, 1, 1, 1]), Err(merged));
    }

    #[test]
    fn wrong_length_is_a_difference() {
        let short = Difference::Length { answer: "labels", expected: 2, got: 1 };
        assert_eq!(connected_components(&graph(2, []), &[0]), Err(short));
    }

    #[test]
    fn graph_without_vertices_has_no_labels() {
        assert_eq!(connected_components(&graph(0, []), &[]), Ok(()));
    }

    #[test]
    fn edge_out_of_a_damaged_graph_joins_nothing() {
        let damaged =
            Csr::with_unread_columns(vec![0, 1], vec![9], Weights::Unit, false).expect("columns unread");
        assert_eq!(connected_components(&damaged, &[0]), Ok(()));
    }

    proptest! {
        #[test]
        fn reference_is_accepted_and_its_single_errors_are_located(
            edges in prop::collection::vec((0..80u32, 0..80u32, 1..=1u32), 0..120),
            v in 0..80usize,
            wrong in 0..82u32,
        ) {
            let csr = graph(80, edges);
            let mut labels = reference::connected_components(&csr);
            prop_assert_eq!(connected_components(&csr, &labels), Ok(()));
            prop_assume!(labels[v] != wrong);
            let expected = std::mem::replace(&mut labels[v], wrong);
            let difference = Difference::Label { vertex: v as VertexId, expected, got: wrong };
            prop_assert_eq!(connected_components(&csr, &labels), Err(difference));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn many_threads_unite_a_large_graph(step in 1..20_000u32) {
            let n = 20_000;
            let csr = graph(n, (0..n).map(|u| (u, (u + step) % n, 1)));
            prop_assert_eq!(connected_components(&csr, &reference::connected_components(&csr)), Ok(()));
        }
    }
}
