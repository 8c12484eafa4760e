use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::answer::Distances;
use crate::graph::{Csr, VertexId};

/// Distance from `source` to every vertex, by Dijkstra's algorithm; unreached where no path leads, and everywhere if
/// `source` is not a vertex. Weights are finite and not negative.
pub fn sssp(csr: &Csr, source: VertexId) -> Distances {
    if csr.weights().weight_type().is_integer() {
        Distances::Integer(dijkstra(csr, source, 0, Distances::UNREACHED, |sum, w| sum + w as u64, |sum| sum))
    } else {
        // Numbers that are not negative are ordered as their bits are.
        Distances::Real(dijkstra(csr, source, 0.0, f64::INFINITY, |sum, w| sum + w, f64::to_bits))
    }
}

/// `key` orders distances in the heap as `<` does.
fn dijkstra<T: Copy + PartialOrd>(
    csr: &Csr,
    source: VertexId,
    zero: T,
    unreached: T,
    add: impl Fn(T, f64) -> T,
    key: impl Fn(T) -> u64,
) -> Vec<T> {
    let mut distances = vec![unreached; csr.num_vertices() as usize];
    let mut heap = BinaryHeap::new();
    if let Some(distance) = distances.get_mut(source as usize) {
        *distance = zero;
        heap.push(Reverse((key(zero), source)));
    }
    while let Some(Reverse((nearest, u))) = heap.pop() {
        let distance = distances[u as usize];
        if key(distance) != nearest {
            continue; // a shorter way to u was found after this one
        }
        for (_, v, weight) in csr.edges(u) {
            let sum = add(distance, weight);
            if sum < distances[v as usize] {
                distances[v as usize] = sum;
                heap.push(Reverse((key(sum), v)));
            }
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Weights;

    const UNREACHED: u64 = Distances::UNREACHED;

    /// 0 -> 1, 0 -> 2, 1 -> 3, 2 -> 1, 3 -> 1, 4 -> 0; 5 is isolated.
    fn csr(weights: Weights) -> Csr {
        Csr::new(vec![0, 2, 3, 4, 5, 6, 6], vec![1, 2, 3, 1, 1, 0], weights, false).expect("valid")
    }

    #[test]
    fn shortest_way_may_have_more_edges() {
        let csr = csr(Weights::U16(vec![900, 300, 7, 200, 0, 1].into()));
        assert_eq!(sssp(&csr, 0), Distances::Integer(vec![0, 500, 300, 507, UNREACHED, UNREACHED]));
        assert_eq!(sssp(&csr, 4), Distances::Integer(vec![1, 501, 301, 508, 0, UNREACHED]));
        assert_eq!(sssp(&csr, 6), Distances::Integer(vec![UNREACHED; 6]));
    }

    #[test]
    fn circle_without_weight_keeps_its_distance() {
        let csr = csr(Weights::U8(vec![9, 1, 0, 0, 0, 0].into()));
        assert_eq!(sssp(&csr, 0), Distances::Integer(vec![0, 1, 1, 1, UNREACHED, UNREACHED]));
    }

    #[test]
    fn weights_without_storage_are_added_too() {
        let hash = |u, v| u64::from(Weights::hash8(u, v));
        let one = hash(0, 1).min(hash(0, 2) + hash(2, 1));
        let two = Distances::Integer(vec![0, one, hash(0, 2), one + hash(1, 3), UNREACHED, UNREACHED]);
        assert_eq!(sssp(&csr(Weights::Hash), 0), two);
        assert_eq!(sssp(&csr(Weights::Unit), 0), Distances::Integer(vec![0, 1, 1, 2, UNREACHED, UNREACHED]));
    }

    #[test]
    fn real_weights_are_added_from_the_source_on() {
        let csr = csr(Weights::F64(vec![1.0, 0.1, 0.3, 0.2, 0.0, 0.0].into()));
        let (one, infinity) = (0.1 + 0.2, f64::INFINITY);
        assert_eq!(sssp(&csr, 0), Distances::Real(vec![0.0, one, 0.1, one + 0.3, infinity, infinity]));
    }

    #[test]
    fn graph_without_vertices_has_no_distances() {
        let csr = Csr::new(vec![0], vec![], Weights::Unit, false).expect("valid");
        assert_eq!(sssp(&csr, 0), Distances::Integer(vec![]));
    }
}
