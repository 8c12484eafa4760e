use std::collections::VecDeque;

use crate::answer::{Level, UNREACHED};
use crate::graph::{Csr, VertexId};

/// Steps from `source` to every vertex, by a queue; [`UNREACHED`] where no path leads, and everywhere if `source` is
/// not a vertex.
pub fn bfs(csr: &Csr, source: VertexId) -> Vec<Level> {
    let mut levels = vec![UNREACHED; csr.num_vertices() as usize];
    let mut queue = VecDeque::new();
    if let Some(level) = levels.get_mut(source as usize) {
        *level = 0;
        queue.push_back(source);
    }
    while let Some(u) = queue.pop_front() {
        for &v in csr.neighbors(u) {
            if levels[v as usize] == UNREACHED {
                levels[v as usize] = levels[u as usize] + 1;
                queue.push_back(v);
            }
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Weights;

    #[test]
    fn levels_follow_the_direction_of_edges() {
        // 0 -> 1 -> 3, 0 -> 2 -> 3 -> 1, 2 -> 2, 4 -> 0; 5 is isolated.
        let csr = Csr::new(vec![0, 2, 3, 5, 6, 7, 7], vec![1, 2, 3, 2, 3, 1, 0], Weights::Unit, false)
            .expect("valid");
        assert_eq!(bfs(&csr, 0), [0, 1, 1, 2, UNREACHED, UNREACHED]);
        assert_eq!(bfs(&csr, 1), [UNREACHED, 0, UNREACHED, 1, UNREACHED, UNREACHED]);
        assert_eq!(bfs(&csr, 4), [1, 2, 2, 3, 0, UNREACHED]);
        assert_eq!(bfs(&csr, 6), [UNREACHED; 6]);
    }

    #[test]
    fn graph_without_vertices_has_no_levels() {
        let csr = Csr::new(vec![0], vec![], Weights::Unit, false).expect("valid");
        assert_eq!(bfs(&csr, 0), [] as [Level; 0]);
    }
}
