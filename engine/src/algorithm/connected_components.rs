use std::time::Instant;

use gpuvm_kernels::cpu_device::CompressArgs;
use gpuvm_kernels::layout::ComponentsArgs;
use rayon::prelude::*;

use crate::engine::PreparedGraph;
use crate::error::Error;
use crate::frontier::FrontierSize;
use crate::graph::VertexId;
use crate::stats::{RunStats, Scan};

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
    /// [`Error::NotPrepared`] if the workload was another; [`Error::Paging`]; [`Error::Interrupted`].
    pub fn connected_components(&mut self) -> Result<ComponentsResult, Error> {
        if !self.workload.connected_components {
            return Err(Error::NotPrepared { missing: "connected components" });
        }
        let started = Instant::now();
        self.labels.as_mut_slice().par_iter_mut().enumerate().for_each(|(v, label)| *label = v as VertexId);
        let num_vertices = self.csr().num_vertices();
        let mut stats = RunStats::default();

        let scan = self.dense_scan();
        let traversal = self.traversal(scan, 0, FrontierSize::default(), false);
        let args = ComponentsArgs { traversal, labels: self.labels.address() };
        stats.steps.push(self.step(&args, &traversal, scan, num_vertices)?.1);
        stats.steps.push(self.step(&CompressArgs(args), &traversal, Scan::Vertices, num_vertices)?.1);

        let labels = self.labels.as_slice().to_vec();
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
}
