use crate::graph::{Csr, VertexId};

/// For every vertex the smallest one that a path leads to, over edges of either direction: each vertex in turn, unless
/// it has a label already, gives its own to all that a search from it meets.
pub fn connected_components(csr: &Csr) -> Vec<VertexId> {
    const NO_LABEL: VertexId = VertexId::MAX;
    let num_vertices = csr.num_vertices() as VertexId;
    let mut neighbors = vec![Vec::new(); num_vertices as usize];
    for u in 0..num_vertices {
        for &v in csr.neighbors(u) {
            neighbors[u as usize].push(v);
            neighbors[v as usize].push(u);
        }
    }
    let mut labels = vec![NO_LABEL; num_vertices as usize];
    let mut stack = Vec::new();
    for label in 0..num_vertices {
        stack.push(label);
        while let Some(u) = stack.pop() {
            if labels[u as usize] == NO_LABEL {
                labels[u as usize] = label;
                stack.extend(&neighbors[u as usize]);
            }
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Weights;

    #[test]
    fn components_ignore_the_direction_of_edges() {
        // 4 -> 2, 4 -> 6 join three vertices though no path leads from 2 to 6; 5 -> 1 -> 5 is a circle; 0, 3 isolated.
        let csr =
            Csr::new(vec![0, 0, 1, 1, 1, 3, 4, 4], vec![5, 2, 6, 1], Weights::Unit, false).expect("valid");
        assert_eq!(connected_components(&csr), [0, 1, 2, 3, 2, 1, 2]);
    }

    #[test]
    fn loop_joins_nothing() {
        let csr = Csr::new(vec![0, 1, 2], vec![0, 1], Weights::Unit, false).expect("valid");
        assert_eq!(connected_components(&csr), [0, 1]);
    }

    #[test]
    fn graph_without_vertices_has_no_labels() {
        let csr = Csr::new(vec![0], vec![], Weights::Unit, false).expect("valid");
        assert_eq!(connected_components(&csr), [] as [VertexId; 0]);
    }
}
