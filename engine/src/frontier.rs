//! The queues of a frontier: vertices, each for the first chunk of its row, and segments, each for the chunk that goes
//! on into it ([`BalancedCsr`](crate::graph::BalancedCsr) says why a segment names a chunk).

use gpuvm_kernels::layout::FrontierView;

use crate::device::Device;
use crate::error::Error;
use crate::graph::{Csr, VertexId};
use crate::memory::DeviceArray;

/// Entries of a frontier's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontierSize {
    pub vertices: u64,
    pub continuations: u64,
}

#[derive(Debug)]
pub(crate) struct Frontier {
    vertices: DeviceArray<VertexId>,
    continuations: DeviceArray<u32>,
    has_queues: bool,
}

impl Frontier {
    /// Queues for `num_vertices` vertices and `num_segments` segments: each can be in a frontier once.
    pub fn new(device: &Device, num_vertices: u64, num_segments: u64) -> Result<Self, Error> {
        Ok(Self {
            vertices: DeviceArray::zeroed(device, "frontier queue", num_vertices)?,
            continuations: DeviceArray::zeroed(device, "frontier queue", num_segments)?,
            has_queues: num_vertices > 0,
        })
    }

    /// Makes the rows of `sources`, no two the same, the frontier; naive runs, without queues, know it by its state alone.
    pub fn start(
        &mut self,
        csr: &Csr,
        chunk_edges: u32,
        sources: &[VertexId],
    ) -> Result<FrontierSize, Error> {
        if !self.has_queues {
            return Ok(FrontierSize::default());
        }
        let chunk = u64::from(chunk_edges);
        let has_edges = |&source: &VertexId| csr.out_degree(source) > 0;
        let vertices: Vec<VertexId> = sources.iter().copied().filter(has_edges).collect();
        let opened: Vec<u32> = (vertices.iter())
            .flat_map(|&source| {
                let row = &csr.row_offsets()[source as usize..source as usize + 2];
                (row[0] / chunk + 1..(row[1] - 1) / chunk + 1).map(|segment| segment as u32)
            })
            .collect();
        self.vertices.write(0, &vertices)?;
        self.continuations.write(0, &opened)?;
        Ok(FrontierSize { vertices: vertices.len() as u64, continuations: opened.len() as u64 })
    }

    pub fn view(&self) -> FrontierView {
        FrontierView { vertices: self.vertices.address(), continuations: self.continuations.address() }
    }
}
