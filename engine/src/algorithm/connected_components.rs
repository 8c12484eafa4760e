use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use gpuvm_kernels::layout::{ComponentsArgs, SCAN_VERTICES, Step};
use rayon::prelude::*;

use crate::engine::PreparedGraph;
use crate::error::Error;
use crate::graph::VertexId;
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
    /// the edges.
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
                reserved: 0,
            };
            let first = Step { scan: SCAN_VERTICES, ..Step::default() };
            stats.steps = self.run(&args, &traversal, first)?.1;
            for step in &mut stats.steps {
                step.frontier = num_vertices;
            }
        }
        let labels = self.by_smallest_id(self.labels.to_vec()?);
        let mut sizes = vec![0_u32; labels.len()];
        for &label in &labels {
            sizes[label as usize] += 1;
        }
        let num_components = sizes.par_iter().filter(|&&size| size > 0).count() as u64;
        let largest = (sizes.par_iter().enumerate())
            .map(|(label, &size)| (size, std::cmp::Reverse(label)))
            .max()
            .map(|(size, label)| (label.0 as VertexId, size.into()));
        stats.seconds = started.elapsed().as_secs_f64();
        Ok(ComponentsResult { labels, num_components, largest, stats })
    }

    /// Labels by vertex, each the smallest id of its component, from those of rows, each a row of its component.
    fn by_smallest_id(&self, labels: Vec<VertexId>) -> Vec<VertexId> {
        let Some(permutation) = self.csr().permutation() else { return labels };
        let smallest: Vec<AtomicU32> = labels.par_iter().map(|_| AtomicU32::new(VertexId::MAX)).collect();
        labels.par_iter().zip(permutation.original_ids().par_iter()).for_each(|(&label, &id)| {
            let place = &smallest[label as usize];
            // Most vertices are in one component and not its smallest: a look keeps their cores from taking turns.
            if id < place.load(Relaxed) {
                place.fetch_min(id, Relaxed);
            }
        });
        let by_row: Vec<VertexId> =
            labels.par_iter().map(|&label| smallest[label as usize].load(Relaxed)).collect();
        permutation.by_vertex(&by_row)
    }
}
