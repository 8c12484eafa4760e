//! SSSP's edges split by weight ([`WeightBands`]), as kernels see them.

use gpuvm_kernels::layout::{ArrayView, GraphView};
use rayon::prelude::*;

use crate::device::Device;
use crate::error::Error;
use crate::graph::{BalancedCsr, VertexId, WeightBands};
use crate::memory::{DeviceArray, PinnedArray};
use crate::plan::HISTOGRAM_WORDS;

/// One band on a device.
#[derive(Debug)]
struct Band {
    // Pinned arrays first: they are let go before the graph whose memory they name.
    columns: PinnedArray,
    weights: PinnedArray,
    row_offsets: DeviceArray<u32>,
    narrow_offsets: bool,
    segment_first_vertex: DeviceArray<VertexId>,
    first_page: u64,
    graph: BalancedCsr,
}

/// The bands of a graph on a device, read through pages.
#[derive(Debug)]
pub(crate) struct Bands {
    bands: Vec<Band>,
    floors: Vec<f64>,
    views: DeviceArray<GraphView>,
    histograms: DeviceArray<u64>,
}

impl Bands {
    /// Puts `split` on the device, its pages numbered from `first_page` on.
    pub fn new(
        device: &Device,
        split: WeightBands,
        floors: Vec<f64>,
        first_page: u64,
        page_bytes: u64,
    ) -> Result<Self, Error> {
        let mut next_page = first_page;
        let band = |graph: BalancedCsr| -> Result<Band, Error> {
            let csr = graph.csr();
            let columns: &[u8] = bytemuck::cast_slice(csr.column_indices());
            let weights = csr.weights().as_bytes();
            let narrow_offsets = csr.num_edges() <= u32::MAX.into();
            let first_page = next_page;
            next_page +=
                (columns.len() as u64).div_ceil(page_bytes) + (weights.len() as u64).div_ceil(page_bytes);
            Ok(Band {
                columns: PinnedArray::new(device, "column indices", columns)?,
                weights: PinnedArray::new(device, "weights", weights)?,
                row_offsets: match narrow_offsets {
                    true => {
                        let offsets: Vec<u32> = csr.row_offsets().par_iter().map(|&at| at as u32).collect();
                        DeviceArray::copied(device, "row offsets", &offsets)?
                    }
                    false => {
                        DeviceArray::copied(device, "row offsets", bytemuck::cast_slice(csr.row_offsets()))?
                    }
                },
                narrow_offsets,
                segment_first_vertex: DeviceArray::copied(device, "segments", graph.segment_first_vertex())?,
                first_page,
                graph,
            })
        };
        let bands: Vec<Band> = split.bands.into_iter().map(band).collect::<Result<_, _>>()?;
        Ok(Self {
            views: DeviceArray::zeroed(device, "weight bands", bands.len() as u64)?,
            histograms: DeviceArray::zeroed(device, "weight bands", HISTOGRAM_WORDS)?,
            bands,
            floors,
        })
    }

    /// The light band.
    pub fn light(&self) -> &BalancedCsr {
        &self.bands[0].graph
    }

    /// Least weight of each band.
    pub fn floors(&self) -> &[f64] {
        &self.floors
    }

    /// Address of three times two histograms.
    pub fn histograms(&self) -> u64 {
        self.histograms.address()
    }

    /// Every array that is read through pages: its first page, address and bytes. In the order of the pages.
    pub fn arrays(&self, page_bytes: u64) -> Vec<(u64, u64, u64)> {
        let arrays = self.bands.iter().flat_map(|band| {
            let csr = band.graph.csr();
            let column_bytes = csr.column_indices().size_bytes();
            let weights_page = band.first_page + column_bytes.div_ceil(page_bytes);
            [
                (band.first_page, band.columns.address(), column_bytes),
                (weights_page, band.weights.address(), csr.weights().as_bytes().len() as u64),
            ]
        });
        arrays.collect()
    }

    /// What kernels see of each band, written to the device; `whole` is the view of the graph that is not split.
    /// Returns the address, and the light band's.
    pub fn views(&mut self, whole: &GraphView, page_bytes: u64) -> Result<(u64, GraphView), Error> {
        let view = |band: &Band| {
            let csr = band.graph.csr();
            let column_bytes = csr.num_edges() * 4;
            GraphView {
                row_offsets: band.row_offsets.address(),
                narrow_offsets: band.narrow_offsets.into(),
                segment_first_vertex: band.segment_first_vertex.address(),
                num_edges: csr.num_edges(),
                num_segments: band.graph.num_segments(),
                columns: ArrayView {
                    address: band.columns.address(),
                    size_bytes: column_bytes,
                    first_page: band.first_page,
                },
                weights: ArrayView {
                    address: band.weights.address(),
                    size_bytes: csr.weights().as_bytes().len() as u64,
                    first_page: band.first_page + column_bytes.div_ceil(page_bytes),
                },
                ..*whole
            }
        };
        let views: Vec<GraphView> = self.bands.iter().map(view).collect();
        self.views.write(0, &views)?;
        Ok((self.views.address(), views[0]))
    }
}
