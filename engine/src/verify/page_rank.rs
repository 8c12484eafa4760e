use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use super::{Difference, check_length};
use crate::algorithm::PageRankOptions;
use crate::graph::{Csr, VertexId};

/// Whether `ranks` are as near to those of `options` as a pass that changed them by `change` in all leaves them.
///
/// One more pass over the edges, which shares nothing with the kernels, gives every vertex the rank that the ranks of the
/// others ask for. A pass moves ranks at most `damping` times as far as the one before did, so the differences, all
/// added up, are no more than `damping * change`, but for rounding
/// ([`PageRankOptions::rounding_bound`]). That puts the ranks within `damping / (1 - damping) * change` of the right
/// ones. Without a `change`, since no pass was made, ranks are to be even. Cost: each edge once, sixteen bytes a vertex.
///
/// # Errors
/// The [`Difference`] at the vertex where it is largest, of several the one of smallest id.
///
/// ```
/// use gpuvm_engine::graph::{Csr, Weights};
/// use gpuvm_engine::{PageRankOptions, verify};
/// let circle = Csr::new(vec![0, 1, 2], vec![1, 0], Weights::Unit, true)?;
/// let options = PageRankOptions::default();
/// assert!(verify::page_rank(&circle, &options, Some(0.0), &[0.5, 0.5]).is_ok());
/// let difference = verify::page_rank(&circle, &options, Some(0.0), &[0.75, 0.25]).unwrap_err();
/// assert!(difference.to_string().starts_with("vertex 0: rank 0.2875 expected"));
/// # Ok::<(), gpuvm_engine::GraphError>(())
/// ```
pub fn page_rank(
    csr: &Csr,
    options: &PageRankOptions,
    change: Option<f64>,
    ranks: &[f64],
) -> Result<(), Difference> {
    check_length("ranks", csr, ranks.len())?;
    let n = csr.num_vertices() as f64;
    // NaN is no difference to anything, so it is looked for.
    let no_rank = ranks.par_iter().position_first(|&rank| !(0.0..=1.0).contains(&rank));
    let total: f64 = ranks.par_iter().sum();
    let largest = || (0..ranks.len()).max_by(|&a, &b| ranks[a].total_cmp(&ranks[b]).then(b.cmp(&a)));
    if let Some(v) = no_rank.or_else(|| if total > 2.0 { largest() } else { None }) {
        let (vertex, got) = (v as VertexId, ranks[v]);
        return Err(Difference::Rank { vertex, expected: 1.0 / n, got, all: total, bound: 1.0 });
    }
    let expected = match change {
        Some(_) => next_ranks(csr, options.damping, ranks),
        None => vec![1.0 / n; ranks.len()],
    };
    let difference = |v: usize| (ranks[v] - expected[v]).abs();
    let all: f64 = (0..ranks.len()).into_par_iter().map(difference).sum();
    // One pass of a kernel, which may err by as much as all the passes together, this one, and doubles.
    let rounding = 2.0 * options.rounding_bound(csr.num_vertices(), csr.num_edges()) + 64.0 * f64::EPSILON;
    let bound = options.damping * change.unwrap_or(0.0) + rounding;
    if all <= bound {
        return Ok(());
    }
    let farther = |a: &usize, b: &usize| difference(*a).total_cmp(&difference(*b)).then(b.cmp(a));
    let v = (0..ranks.len()).into_par_iter().max_by(farther).expect("ranks that differ");
    Err(Difference::Rank { vertex: v as VertexId, expected: expected[v], got: ranks[v], all, bound })
}

/// The ranks that one pass makes of `ranks`.
fn next_ranks(csr: &Csr, damping: f64, ranks: &[f64]) -> Vec<f64> {
    // Whole numbers, so that the sums, and the message, are the same at any number of threads.
    const UNIT: f64 = (1_u64 << 60) as f64;
    let n = csr.num_vertices();
    let sums: Vec<AtomicU64> = (0..n).into_par_iter().map(|_| AtomicU64::new(0)).collect();
    csr.par_rows().for_each(|row| {
        let (u, row) = (csr.original_id(row), csr.neighbors(row));
        let carried = (ranks[u as usize] / row.len() as f64 * UNIT) as u64;
        for &v in row.iter().filter(|&&v| u64::from(v) < n) {
            sums[csr.original_id(v) as usize].fetch_add(carried, Relaxed);
        }
    });
    let given: u64 = sums.par_iter().map(|sum| sum.load(Relaxed)).sum();
    let everyone = (1.0 - damping * given as f64 / UNIT) / n as f64;
    sums.into_par_iter().map(|sum| everyone + damping * sum.into_inner() as f64 / UNIT).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sssp::tests::graph;
    use super::*;
    use crate::graph::Weights;
    use crate::reference;

    const OPTIONS: PageRankOptions = PageRankOptions { damping: 0.85, tolerance: 1e-9, max_iterations: 200 };

    /// What the last of so many passes of the reference changes.
    fn ranks_and_change(csr: &Csr, iterations: u64) -> (Vec<f64>, f64) {
        let before = reference::page_rank(csr, 0.85, iterations - 1);
        let ranks = reference::page_rank(csr, 0.85, iterations);
        let change = ranks.iter().zip(&before).map(|(a, b)| (a - b).abs()).sum();
        (ranks, change)
    }

    proptest! {
        #[test]
        fn ranks_of_the_reference_are_accepted_after_any_pass_and_wrong_ones_are_not(
            edges in prop::collection::vec((0..60u32, 0..60u32, 1..=1u32), 0..200),
            iterations in 1..60_u64,
            v in 0..59_usize,
        ) {
            let csr = graph(60, edges);
            let (mut ranks, change) = ranks_and_change(&csr, iterations);
            prop_assert_eq!(page_rank(&csr, &OPTIONS, Some(change), &ranks), Ok(()));
            // Rank moved from one vertex to another keeps the sum, and nothing else that is looked at.
            let moved = 2.0 * change + 1e-6;
            prop_assume!(ranks[v + 1] > moved);
            ranks[v] += moved;
            ranks[v + 1] -= moved;
            let refused = page_rank(&csr, &OPTIONS, Some(change), &ranks);
            prop_assert!(matches!(refused, Err(Difference::Rank { .. })), "{refused:?}");
        }
    }

    #[test]
    fn change_that_is_said_to_be_smaller_than_it_was_is_a_difference() {
        let csr = graph(4, [(0, 1, 1), (1, 2, 1), (2, 0, 1), (3, 0, 1)]);
        let (ranks, change) = ranks_and_change(&csr, 5);
        assert_eq!(page_rank(&csr, &OPTIONS, Some(change), &ranks), Ok(()));
        assert!(page_rank(&csr, &OPTIONS, Some(change / 2.0), &ranks).is_err());
    }

    #[test]
    fn number_that_is_no_rank_is_a_difference_at_its_vertex() {
        let csr = graph(3, [(0, 1, 1)]);
        for wrong in [f64::NAN, -0.1, 1.5, f64::INFINITY] {
            let refused = page_rank(&csr, &OPTIONS, Some(1.0), &[0.3, wrong, 0.3]).expect_err("no rank");
            assert_eq!(refused.vertex(), Some(1));
        }
        let refused = page_rank(&csr, &OPTIONS, Some(1.0), &[0.9, 1.0, 1.0]).expect_err("more than one");
        assert_eq!(refused.vertex(), Some(1));
        assert!(matches!(page_rank(&csr, &OPTIONS, None, &[0.5]), Err(Difference::Length { .. })));
    }

    #[test]
    fn ranks_that_no_pass_has_changed_are_even() {
        let csr = graph(2, [(0, 1, 1)]);
        assert_eq!(page_rank(&csr, &OPTIONS, None, &[0.5, 0.5]), Ok(()));
        assert!(page_rank(&csr, &OPTIONS, None, &[0.4, 0.6]).is_err());
        assert_eq!(page_rank(&graph(0, []), &OPTIONS, None, &[]), Ok(()));
    }

    #[test]
    fn edge_out_of_a_damaged_graph_carries_nothing() {
        let damaged =
            Csr::with_unread_columns(vec![0, 1], vec![9], Weights::Unit, false).expect("columns unread");
        assert_eq!(page_rank(&damaged, &OPTIONS, Some(0.0), &[1.0]), Ok(()));
    }
}
