use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use gpuvm_kernels::layout::{ComponentsArgs, SCAN_VERTICES, Step};
use rayon::prelude::*;

use crate::engine::PreparedGraph;
use crate::error::Error;
use crate::graph::VertexId;
use crate::memory::{Place, by_vertex, zeros};
use crate::stats::RunStats;

/// What connected components found.
#[derive(Clone, Debug)]
pub struct ComponentsResult {
    /// Component of every vertex: the smallest id in it. `num_vertices` entries.
    pub labels: Vec<VertexId>,
    /// Number of components; an isolated vertex is one.
    pub num_components: u64,
    /// Label and size of the component with most vertices, the smallest label of several; `None` without vertices.
    pub largest: Option<(VertexId, u64)>,
    /// What the run did.
    pub stats: RunStats,
}

impl PreparedGraph {
    /// Component of every vertex, edges taken as undirected: the weak components of a directed graph. One pass over
    /// the edges; or, where every edge has its reverse and the graph has heads, over the heads and over the rows of those
    /// vertices that the heads do not join to the largest component.
    ///
    /// # Errors
    /// [`Error::NotPrepared`] if the workload was another; [`Error::Paging`]; [`Error::Interrupted`];
    /// [`Error::Cuda`].
    pub fn connected_components(&mut self) -> Result<ComponentsResult, Error> {
        if !self.workload.connected_components {
            return Err(Error::NotPrepared { missing: "connected components" });
        }
        let started = Instant::now();
        let num_vertices = self.csr().num_vertices();
        let mut stats = RunStats::default();
        if num_vertices > 0 {
            let traversal = self.traversal(false, false);
            let args = ComponentsArgs {
                traversal,
                labels: self.labels.address(),
                symmetric: self.csr().is_symmetric().into(),
                heads_stay: self.plan.heads_stay().into(),
            };
            let first = Step { scan: SCAN_VERTICES, ..Step::default() };
            stats.steps = self.run(&args, &traversal, first)?.1;
            for step in &mut stats.steps {
                step.frontier = num_vertices;
            }
        }
        let permutation = self.graph.csr().permutation();
        let by_row = self.staging.by_row(&self.labels)?;
        let found = Components::count(&by_row, permutation.map(|permutation| &**permutation.original_ids()));
        let labels = match (&found.smallest, by_row) {
            (None, Cow::Owned(labels)) => labels,
            (None, Cow::Borrowed(labels)) => by_vertex(labels, None, |label| label),
            (Some(smallest), by_row) => by_vertex(&by_row, permutation, |label| smallest[label as usize]),
        };
        stats.seconds = started.elapsed().as_secs_f64();
        Ok(ComponentsResult { labels, num_components: found.number, largest: found.largest, stats })
    }
}

/// What labels by row say about components. The label of each is a row of it, and so the one row that is its own label: all
/// others are called members here.
struct Components {
    /// Number of components.
    number: u64,
    /// Label, the smallest id, and size of the largest.
    largest: Option<(VertexId, u64)>,
    /// At each row that is a label, the smallest id of its component; none if rows are those of the ids.
    smallest: Option<Vec<VertexId>>,
}

impl Components {
    /// Rows that one thread takes at a time.
    const BLOCK: usize = 1 << 16;

    /// Counts in one pass over `labels`, where row r is that of vertex `ids[r]`, or of vertex r and each label is the smallest
    /// of its component.
    fn count(labels: &[VertexId], ids: Option<&[VertexId]>) -> Self {
        let mut members = zeros::<u32>(labels.len());
        let shared_members = u32::shared(&mut members);
        let mut smallest = ids.map(|ids| by_vertex(ids, None, |id| id));
        let shared_smallest = smallest.as_deref_mut().map(VertexId::shared);
        let id_of = |row: usize| ids.map_or(row as VertexId, |ids| ids[row]);
        let add = |part: &Part| {
            if part.members > 0 {
                shared_members[part.label as usize].fetch_add(part.members, Relaxed);
                if let Some(smallest) = shared_smallest {
                    smallest[part.label as usize].fetch_min(part.smallest, Relaxed);
                }
            }
        };
        let blocks = labels.par_chunks(Self::BLOCK).enumerate();
        let number = blocks.map(|(block, labels)| {
            let first = block * Self::BLOCK;
            let mut parts = [Part::of(0); PARTS];
            let mut number = 0;
            for (row, &label) in (first..).zip(labels) {
                if label as usize == row {
                    number += 1;
                    continue;
                }
                let part = &mut parts[label as usize % PARTS];
                if part.label != label {
                    add(part);
                    *part = Part::of(label);
                }
                part.members += 1;
                part.smallest = part.smallest.min(id_of(row));
            }
            parts.iter().for_each(add);
            number
        });
        let number = number.sum();
        let label_of = |row: usize| smallest.as_ref().map_or(row as VertexId, |smallest| smallest[row]);
        let largest = (members.par_iter().enumerate().with_min_len(Self::BLOCK))
            .filter(|&(_, &members)| members > 0)
            .map(|(row, &members)| (members, Reverse(label_of(row))))
            .max();
        let largest = match largest {
            Some((members, Reverse(label))) => Some((label, u64::from(members) + 1)),
            // Each vertex is by itself.
            None if labels.is_empty() => None,
            None => Some((0, 1)),
        };
        Self { number, largest, smallest }
    }
}

/// Members of one component that a thread has found and not yet told the others. Most vertices are in one component: threads
/// that counted each by itself would take turns at its counter.
#[derive(Clone, Copy)]
struct Part {
    label: VertexId,
    members: u32,
    /// The smallest of their ids.
    smallest: VertexId,
}

impl Part {
    /// No members of this component yet.
    fn of(label: VertexId) -> Self {
        Self { label, members: 0, smallest: VertexId::MAX }
    }
}

/// Components that a thread counts at a time.
const PARTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_vertices_are_no_components() {
        let found = Components::count(&[], Some(&[]));
        assert_eq!((found.number, found.largest), (0, None));
    }

    #[test]
    fn of_components_of_one_size_the_largest_is_that_of_the_smallest_id() {
        // Rows 0 and 2, rows 1 and 4, row 3; by ids 9 and 5, 7 and 4, 0.
        let labels = [0, 1, 0, 3, 1];
        let found = Components::count(&labels, Some(&[9, 7, 5, 0, 4]));
        assert_eq!((found.number, found.largest), (3, Some((4, 2))));
        let smallest = found.smallest.expect("another order");
        assert_eq!([0, 1, 3].map(|row: usize| smallest[row]), [5, 4, 0]);
        let found = Components::count(&labels, None);
        assert_eq!((found.number, found.largest), (3, Some((0, 2))));
        let apart = Components::count(&[0, 1, 2], Some(&[2, 0, 1]));
        assert_eq!((apart.number, apart.largest), (3, Some((0, 1))));
    }

    #[test]
    fn more_components_than_a_thread_counts_at_a_time_are_counted_whole() {
        // Row r is in component r mod 1000, but for the last ones, each by itself; row r is that of vertex n - 1 - r. Three
        // blocks of rows see each.
        let (n, together) = (200_000_u32, 150_000);
        let labels: Vec<u32> = (0..n).map(|row| if row < together { row % 1000 } else { row }).collect();
        let ids: Vec<u32> = (0..n).rev().collect();
        let found = Components::count(&labels, Some(&ids));
        // All of the 1000 have 150 vertices; the row of the smallest id is 149 999.
        assert_eq!(found.number, 51_000);
        assert_eq!(found.largest, Some((n - together, 150)));
        let smallest = found.smallest.expect("another order");
        assert!((0..1000).all(|row| smallest[row] == n - 1 - (together - 1000 + row as u32)));
        assert_eq!(smallest[199_999], 0);
    }

    #[test]
    fn component_of_most_vertices_is_the_largest_wherever_it_lies() {
        // One of three vertices and one of 100 000 behind it.
        let n = 100_003;
        let labels: Vec<u32> = (0..n).map(|row| if row < 3 { 0 } else { 3 }).collect();
        let found = Components::count(&labels, None);
        assert_eq!((found.number, found.largest), (2, Some((3, 100_000))));
    }
}
