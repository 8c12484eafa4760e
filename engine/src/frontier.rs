//! The queues of a frontier: vertices, each for the first chunk of its row, and segments, each for the chunk that goes
//! on into it ([`BalancedCsr`](crate::graph::BalancedCsr) says why a segment names a chunk).

use gpuvm_kernels::layout::FrontierView;

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
}

impl Frontier {
    /// Queues for `num_vertices` vertices and `num_segments` segments: each can be in a frontier once.
    pub fn new(num_vertices: u64, num_segments: u64) -> Result<Self, Error> {
        Ok(Self {
            vertices: DeviceArray::zeroed("frontier queue", num_vertices)?,
            continuations: DeviceArray::zeroed("frontier queue", num_segments)?,
        })
    }

    /// Makes `source` the only vertex; naive runs, without queues, know it by its state alone.
    pub fn start(&mut self, csr: &Csr, chunk_edges: u32, source: VertexId) -> FrontierSize {
        let row = &csr.row_offsets()[source as usize..source as usize + 2];
        let (begin, end) = (row[0], row[1]);
        let Some(slot) = self.vertices.as_mut_slice().first_mut() else { return FrontierSize::default() };
        if begin == end {
            return FrontierSize::default();
        }
        *slot = source;
        let chunk = u64::from(chunk_edges);
        let opened = begin / chunk + 1..(end - 1) / chunk + 1;
        let continuations = opened.end - opened.start;
        for (slot, segment) in self.continuations.as_mut_slice().iter_mut().zip(opened) {
            *slot = segment as u32;
        }
        FrontierSize { vertices: 1, continuations }
    }

    pub fn view(&self, size: FrontierSize) -> FrontierView {
        FrontierView {
            vertices: self.vertices.address(),
            continuations: self.continuations.address(),
            num_vertices: size.vertices,
            num_continuations: size.continuations,
        }
    }
}
