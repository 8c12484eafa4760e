use super::sssp::Certificate;
use super::{Difference, check_length};
use crate::answer::{Level, UNREACHED};
use crate::graph::{Csr, VertexId};

/// Where a BFS was told to stop; by default nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BfsLimit {
    /// The largest level to be reached.
    pub depth: Option<Level>,
    /// A vertex whose level, once complete, is the last.
    pub target: Option<VertexId>,
}

/// Whether `levels` are the steps from `source` of a BFS that stopped at `limit`, and `parents` one tree of them.
///
/// Levels run over directed edges. Every vertex within the limit is reached, none beyond it. A parent has the level
/// before its child's and an edge to it; the source and the unreached have [`NO_PARENT`](crate::NO_PARENT).
/// A `source` that is not a vertex reaches nothing. Cost: each edge of a reached vertex once.
///
/// # Errors
/// The first [`Difference`]: of lengths, then of levels, nearest to the source first, then of parents, by id.
///
/// ```
/// use gpuvm_engine::graph::{Csr, Weights};
/// use gpuvm_engine::verify::{self, BfsLimit};
/// let path = Csr::new(vec![0, 1, 2, 2], vec![1, 2], Weights::Unit, false)?;
/// assert!(verify::bfs(&path, 0, BfsLimit::default(), &[0, 1, 2], None).is_ok());
/// let difference = verify::bfs(&path, 0, BfsLimit::default(), &[0, 1, 3], None).unwrap_err();
/// assert_eq!(difference.to_string(), "vertex 2: level 2 expected from its neighbour 1, got 3");
/// # Ok::<(), gpuvm_engine::GraphError>(())
/// ```
pub fn bfs(
    csr: &Csr,
    source: VertexId,
    limit: BfsLimit,
    levels: &[Level],
    parents: Option<&[VertexId]>,
) -> Result<(), Difference> {
    check_length("levels", csr, levels.len())?;
    let depth = limit.depth.unwrap_or(Level::MAX).min(UNREACHED - 1);
    Certificate::new(csr, |_, _, _| 1.0, source, depth, limit.target, levels, parents)?.check()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sssp::tests::{arrays, graph, graphs};
    use super::*;
    use crate::answer::NO_PARENT;
    use crate::graph::{Order, Weights};
    use crate::reference;

    const NO_LIMIT: BfsLimit = BfsLimit { depth: None, target: None };

    /// What a BFS that stops at `limit` leaves of the levels of a whole one.
    fn within(limit: BfsLimit, mut levels: Vec<Level>) -> Vec<Level> {
        let depth = limit.depth.unwrap_or(UNREACHED - 1);
        let target = limit.target.map_or(UNREACHED, |target| levels[target as usize]);
        let last = if target <= depth { target } else { depth };
        levels.iter_mut().filter(|level| **level > last).for_each(|level| *level = UNREACHED);
        levels
    }

    /// Two branches that meet in 4, a tail 5, a loop at 3, a double edge 1 to 4, an edge back, an unreached 6 to 5.
    fn branches() -> Csr {
        let edges = [(0, 1), (0, 2), (1, 4), (1, 4), (2, 3), (3, 3), (3, 4), (4, 5), (5, 0), (6, 5)];
        graph(7, edges.map(|(u, v)| (u, v, 1)))
    }

    #[test]
    fn right_levels_are_accepted_and_every_wrong_array_is_refused_at_a_wrong_vertex() {
        for csr in graphs(3, 1..=1) {
            let limits = [None, Some(0), Some(1)]
                .into_iter()
                .flat_map(|depth| [None, Some(0), Some(1), Some(2)].map(|target| BfsLimit { depth, target }));
            for limit in limits {
                let right = within(limit, reference::bfs(&csr, 0));
                for levels in arrays(3, vec![0, 1, 2, 3, UNREACHED]) {
                    match bfs(&csr, 0, limit, &levels, None) {
                        Ok(()) => assert_eq!(levels, right),
                        Err(difference) => {
                            let v = difference.vertex().expect("lengths are right") as usize;
                            assert_ne!(levels[v], right[v], "{difference}: {csr:?} {limit:?} {levels:?}");
                        }
                    }
                }
                assert_eq!(bfs(&csr, 0, limit, &right, None), Ok(()));
            }
        }
    }

    #[test]
    fn one_wrong_level_is_located_with_the_level_expected() {
        let csr = branches();
        let right = reference::bfs(&csr, 0);
        assert_eq!(right, [0, 1, 1, 2, 2, 3, UNREACHED]);
        for v in 0..7 {
            for wrong in (0..9).chain([UNREACHED - 1, UNREACHED]).filter(|&wrong| wrong != right[v]) {
                let mut levels = right.clone();
                levels[v] = wrong;
                let difference = bfs(&csr, 0, NO_LIMIT, &levels, None).expect_err("a wrong level");
                let Difference::Level { vertex, expected, got, .. } = difference else {
                    panic!("{difference}")
                };
                let known = |level| (level != UNREACHED).then_some(level);
                assert_eq!((vertex as usize, expected, got), (v, known(right[v]), known(wrong)));
            }
        }
    }

    #[test]
    fn order_of_the_rows_changes_no_difference() {
        let natural = branches();
        let ordered = natural.clone().in_order(Order::Degree).expect("fits");
        assert_ne!(ordered.original_id(0), 0, "another order");
        let right = reference::bfs(&natural, 0);
        let parents = [NO_PARENT, 0, 0, 2, 1, 4, NO_PARENT];
        for v in 0..7 {
            for wrong in (0..5).chain([UNREACHED]) {
                let mut levels = right.clone();
                levels[v] = wrong;
                let found = bfs(&ordered, 0, NO_LIMIT, &levels, Some(&parents));
                assert_eq!(found, bfs(&natural, 0, NO_LIMIT, &levels, Some(&parents)));
                assert_eq!(found.is_ok(), wrong == right[v]);
            }
        }
    }

    #[test]
    fn row_of_a_hub_is_followed_to_its_end() {
        // Longer than what one thread follows.
        let n = 200_000;
        let star = graph(n, (1..n).map(|v| (0, v, 1)));
        let mut levels = vec![1; n as usize];
        levels[0] = 0;
        assert_eq!(bfs(&star, 0, NO_LIMIT, &levels, None), Ok(()));
        for wrong in [1, 65_536, 65_537, n - 1] {
            levels[wrong as usize] = 2;
            let difference = bfs(&star, 0, NO_LIMIT, &levels, None).expect_err("a wrong level");
            assert_eq!(difference.vertex(), Some(wrong));
            levels[wrong as usize] = 1;
        }
    }

    #[test]
    fn level_beyond_the_depth_or_the_target_is_refused() {
        let csr = branches();
        let to_depth = BfsLimit { depth: Some(2), target: None };
        let to_target = BfsLimit { depth: None, target: Some(3) };
        for limit in [to_depth, to_target] {
            let mut levels = vec![0, 1, 1, 2, 2, UNREACHED, UNREACHED];
            assert_eq!(bfs(&csr, 0, limit, &levels, None), Ok(()));
            levels[5] = 3;
            let beyond = Difference::LevelBeyondLimit { vertex: 5, expected: 2, got: 3 };
            assert_eq!(bfs(&csr, 0, limit, &levels, None), Err(beyond));
        }
    }

    #[test]
    fn one_wrong_parent_is_located() {
        let csr = branches();
        let levels = reference::bfs(&csr, 0);
        let right = [NO_PARENT, 0, 0, 2, 1, 4, NO_PARENT];
        assert_eq!(bfs(&csr, 0, NO_LIMIT, &levels, Some(&right)), Ok(()));
        for v in 0..7 {
            for wrong in (0..9).chain([NO_PARENT]).filter(|&wrong| wrong != right[v]) {
                let mut parents = right;
                parents[v] = wrong;
                let known = |parent| (parent != NO_PARENT).then_some(parent);
                let (expected, got) = (known(right[v]), known(wrong));
                let difference = Difference::Parent { vertex: v as VertexId, expected, got };
                assert_eq!(bfs(&csr, 0, NO_LIMIT, &levels, Some(&parents)), Err(difference));
            }
        }
    }

    #[test]
    fn parents_are_accepted_only_if_each_has_a_tight_edge() {
        for csr in graphs(3, 1..=1) {
            let levels = reference::bfs(&csr, 0);
            for parents in arrays(3, vec![0, 1, 2, 3, NO_PARENT]) {
                let right = |v: VertexId| match (levels[v as usize], parents[v as usize]) {
                    (0 | UNREACHED, parent) => parent == NO_PARENT,
                    (level, p) => p < 3 && levels[p as usize] == level - 1 && csr.neighbors(p).contains(&v),
                };
                let first_wrong = (0..3).find(|&v| !right(v));
                let verdict = bfs(&csr, 0, NO_LIMIT, &levels, Some(&parents));
                assert_eq!(verdict.err().and_then(|difference| difference.vertex()), first_wrong);
            }
        }
    }

    #[test]
    fn wrong_length_is_a_difference() {
        let csr = branches();
        let levels = reference::bfs(&csr, 0);
        let short = Difference::Length { answer: "levels", expected: 7, got: 6 };
        assert_eq!(bfs(&csr, 0, NO_LIMIT, &levels[..6], None), Err(short));
        let short = Difference::Length { answer: "parents", expected: 7, got: 0 };
        assert_eq!(bfs(&csr, 0, NO_LIMIT, &levels, Some(&[])), Err(short));
    }

    #[test]
    fn graph_without_vertices_has_an_answer_without_entries() {
        assert_eq!(bfs(&graph(0, []), 0, NO_LIMIT, &[], Some(&[])), Ok(()));
    }

    #[test]
    fn source_that_is_no_vertex_reaches_nothing() {
        assert_eq!(bfs(&graph(2, [(0, 1, 1)]), 2, NO_LIMIT, &[UNREACHED; 2], None), Ok(()));
        assert!(bfs(&graph(2, [(0, 1, 1)]), 2, NO_LIMIT, &[0, 1], None).is_err());
    }

    #[test]
    fn edge_out_of_a_damaged_graph_is_a_difference() {
        let damaged =
            Csr::with_unread_columns(vec![0, 1], vec![9], Weights::Unit, false).expect("columns unread");
        let difference = Difference::Level { vertex: 9, expected: Some(1), neighbor: Some(0), got: None };
        assert_eq!(bfs(&damaged, 0, NO_LIMIT, &[0], None), Err(difference));
    }

    proptest! {
        #[test]
        fn reference_is_accepted_and_its_single_errors_are_located(
            edges in prop::collection::vec((0..60u32, 0..60u32, 1..=1u32), 0..200),
            v in 0..60usize,
            wrong in prop::sample::select(vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 1000, UNREACHED]),
            depth in prop::option::of(0..8u32),
            target in prop::option::of(0..60u32),
        ) {
            let csr = graph(60, edges);
            let limit = BfsLimit { depth, target };
            let mut levels = within(limit, reference::bfs(&csr, 0));
            prop_assert_eq!(bfs(&csr, 0, limit, &levels, None), Ok(()));
            prop_assume!(levels[v] != wrong);
            levels[v] = wrong;
            let difference = bfs(&csr, 0, limit, &levels, None).expect_err("a wrong level");
            prop_assert_eq!(difference.vertex(), Some(v as VertexId));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn large_frontiers_are_checked_in_parallel(seed in 0..u32::MAX, v in 1..40_000usize) {
            // A source with an edge to everything, then a ring: level 1 is one frontier of 39 999 vertices.
            let n = 40_000u32;
            let spokes = (1..n).map(|v| (0, v, 1));
            let ring = (1..n).map(|v| (v, v.wrapping_mul(seed | 1) % n, 1));
            let csr = graph(n, spokes.chain(ring));
            let mut levels = reference::bfs(&csr, 0);
            prop_assert_eq!(bfs(&csr, 0, NO_LIMIT, &levels, None), Ok(()));
            levels[v] = 2;
            let difference = bfs(&csr, 0, NO_LIMIT, &levels, None).expect_err("a wrong level");
            let expected = Difference::Level { vertex: v as u32, expected: Some(1), neighbor: Some(0), got: Some(2) };
            prop_assert_eq!(difference, expected);
        }
    }
}
