use crate::graph::{Csr, VertexId};

/// Rank of every vertex after so many passes of power iteration in double precision, from even ranks on; what vertices
/// without edges hand on is spread evenly.
pub fn page_rank(csr: &Csr, damping: f64, iterations: u64) -> Vec<f64> {
    let n = csr.num_vertices() as f64;
    let mut ranks = vec![1.0 / n; csr.num_vertices() as usize];
    for _ in 0..iterations {
        let mut next = vec![0.0; ranks.len()];
        let mut dangling = 0.0;
        for u in 0..csr.num_vertices() as VertexId {
            let (rank, row) = (ranks[u as usize], csr.neighbors(u));
            if row.is_empty() {
                dangling += rank;
            }
            for &v in row {
                next[v as usize] += damping * rank / row.len() as f64;
            }
        }
        let everyone = (1.0 - damping + damping * dangling) / n;
        next.iter_mut().for_each(|rank| *rank += everyone);
        ranks = next;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Weights;

    fn assert_near(ranks: &[f64], expected: &[f64]) {
        assert!(ranks.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{ranks:?}");
    }

    #[test]
    fn one_pass_hands_on_what_edges_carry_and_spreads_the_rest() {
        // 0 -> 1, 0 -> 2, 1 -> 2, and 2 without an edge: it hands a third of its 1/3 to each.
        let csr = Csr::new(vec![0, 2, 3, 3], vec![1, 2, 2], Weights::Unit, false).expect("valid");
        let everyone = (1.0 - 0.5 + 0.5 / 3.0) / 3.0;
        let expected = [everyone, everyone + 0.25 / 3.0, everyone + 0.25 / 3.0 + 0.5 / 3.0];
        assert_near(&page_rank(&csr, 0.5, 1), &expected);
        assert_near(&page_rank(&csr, 0.5, 0), &[1.0 / 3.0; 3]);
    }

    #[test]
    fn edge_that_is_there_twice_carries_twice() {
        let csr = Csr::new(vec![0, 3, 3, 3], vec![1, 1, 2], Weights::Unit, false).expect("valid");
        let everyone = (0.5 + 0.5 * 2.0 / 3.0) / 3.0;
        let expected = [everyone, everyone + 1.0 / 9.0, everyone + 0.5 / 9.0];
        assert_near(&page_rank(&csr, 0.5, 1), &expected);
    }

    #[test]
    fn graph_without_vertices_has_no_ranks() {
        let csr = Csr::new(vec![0], vec![], Weights::Unit, false).expect("valid");
        assert_eq!(page_rank(&csr, 0.85, 10), [] as [f64; 0]);
    }
}
