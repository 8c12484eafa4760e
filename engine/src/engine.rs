//! [`Engine`]: a device and its settings; [`PreparedGraph`]: a graph on that device, ready for runs.

use std::sync::Arc;
use std::time::Instant;

use gpuvm_kernels::cpu_device::KernelArgs;
use gpuvm_kernels::layout::{
    ArrayView, FrontierView, GraphView, SCAN_CHUNKS, SCAN_ROWS, SCAN_SEGMENTS, StepCounters, TraversalView,
    WEIGHT_F32, WEIGHT_F64, WEIGHT_HASH, WEIGHT_U8, WEIGHT_U16, WEIGHT_U32, WEIGHT_UNIT,
};

use crate::config::{Access, EngineConfig, Variant};
use crate::device::CpuDevice;
use crate::error::Error;
use crate::frontier::{Frontier, FrontierSize};
use crate::graph::{BalancedCsr, Csr, HostArray, VertexId, WeightType, Weights};
use crate::memory::{CancelHandle, DeviceArray, ErrorSlot};
use crate::paging::PageTable;
use crate::plan::{MemoryPlan, Workload};
use crate::stats::{Direction, PagingStats, Scan, StepStats};

/// A device and the settings of its runs. Prepares graphs, which then run many sources.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    device: Arc<CpuDevice>,
    error: Arc<ErrorSlot>,
}

impl Engine {
    /// An engine with these settings; starts the threads of the CPU device.
    ///
    /// # Errors
    /// [`Error::Threads`], [`Error::StartThreads`].
    pub fn new(config: EngineConfig) -> Result<Self, Error> {
        let device = Arc::new(CpuDevice::new(config.threads, config.warp_lanes)?);
        Ok(Self { config, device, error: Arc::default() })
    }

    /// The settings.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Threads of the CPU device.
    pub fn num_warps(&self) -> u32 {
        self.device.num_warps()
    }

    /// Stops this engine's runs from another thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle(Arc::clone(&self.error))
    }

    /// What running `workload` on `csr` would take of device memory; nothing is allocated.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`] with the least that would do, [`Error::ChunkEdges`].
    pub fn plan(&self, csr: &Csr, workload: Workload) -> Result<MemoryPlan, Error> {
        MemoryPlan::new(csr, workload, &self.config, self.device.num_warps())
    }

    /// Puts `csr` on the device for `workload`: allocates what [`plan`](Engine::plan) lists and nothing later.
    ///
    /// # Errors
    /// Those of [`plan`](Engine::plan); [`Error::OutOfMemory`]; [`Error::NegativeWeight`] and
    /// [`Error::NonFiniteWeight`] if the workload has SSSP.
    pub fn prepare(&self, csr: Csr, workload: Workload) -> Result<PreparedGraph, Error> {
        PreparedGraph::new(self, csr, workload)
    }
}

/// The weights that kernels read: on the device, or where they lie in host memory.
#[derive(Debug)]
enum Edges {
    InPlace,
    Resident { columns: DeviceArray<VertexId>, weights: DeviceArray<u8> },
    Paged(PageTable),
}

/// The row offsets that kernels read.
#[derive(Debug)]
enum RowOffsets {
    InPlace(HostArray<u64>),
    Copied(DeviceArray<u64>),
}

/// A graph on a device, with vertex state for its workload. Runs on it are warm: pages that a run leaves resident are
/// there for the next, until [`evict_all`](PreparedGraph::evict_all).
#[derive(Debug)]
pub struct PreparedGraph {
    pub(crate) graph: BalancedCsr,
    pub(crate) plan: MemoryPlan,
    pub(crate) workload: Workload,
    pub(crate) config: EngineConfig,
    pub(crate) device: Arc<CpuDevice>,
    error: Arc<ErrorSlot>,
    row_offsets: RowOffsets,
    segment_first_vertex: DeviceArray<VertexId>,
    edges: Edges,
    counters: DeviceArray<StepCounters>,
    pub(crate) frontiers: [Frontier; 2],
    pub(crate) levels: DeviceArray<u32>,
    pub(crate) distances: DeviceArray<u64>,
    pub(crate) stamps: DeviceArray<u32>,
    pub(crate) parents: DeviceArray<VertexId>,
    pub(crate) labels: DeviceArray<VertexId>,
}

impl PreparedGraph {
    fn new(engine: &Engine, csr: Csr, workload: Workload) -> Result<Self, Error> {
        let config = engine.config.clone();
        let plan = engine.plan(&csr, workload)?;
        tracing::debug!(access = %plan.access, reason = plan.access_reason, frames = plan.num_frames, "memory planned");
        if workload.sssp {
            check_weights(csr.weights())?;
        }
        let graph = engine.device.pool().install(|| BalancedCsr::new(csr, plan.chunk_edges))?;
        let csr = graph.csr();
        let balanced = config.variant == Variant::Balanced;
        let row_offsets = match plan.access {
            Access::ZeroCopy => RowOffsets::InPlace(csr.row_offsets().clone()),
            _ => RowOffsets::Copied(DeviceArray::copied("row offsets", csr.row_offsets())?),
        };
        let edges = match plan.access {
            Access::ZeroCopy => Edges::InPlace,
            Access::Resident => Edges::Resident {
                columns: DeviceArray::copied("column indices", csr.column_indices())?,
                weights: DeviceArray::copied(
                    "weights",
                    if workload.sssp { csr.weights().as_bytes() } else { &[] },
                )?,
            },
            Access::Paged => Edges::Paged(PageTable::new(&plan, config.policy)?),
        };
        let vertices_if = |needed: bool| if needed { csr.num_vertices() } else { 0 };
        let with_queues = balanced && (workload.bfs || workload.sssp);
        let frontier =
            || Frontier::new(vertices_if(with_queues), if with_queues { graph.num_segments() } else { 0 });
        Ok(Self {
            row_offsets,
            edges,
            segment_first_vertex: match balanced {
                true => DeviceArray::copied("segments", graph.segment_first_vertex())?,
                false => DeviceArray::zeroed("segments", 0)?,
            },
            counters: DeviceArray::zeroed("counters", 1)?,
            frontiers: [frontier()?, frontier()?],
            levels: DeviceArray::zeroed("levels", vertices_if(workload.bfs))?,
            distances: DeviceArray::zeroed("distances", vertices_if(workload.sssp))?,
            stamps: DeviceArray::zeroed("frontier stamps", vertices_if(workload.sssp))?,
            parents: DeviceArray::zeroed("parents", vertices_if(workload.parents))?,
            labels: DeviceArray::zeroed("labels", vertices_if(workload.connected_components))?,
            device: Arc::clone(&engine.device),
            error: Arc::clone(&engine.error),
            graph,
            plan,
            workload,
            config,
        })
    }

    /// The graph.
    pub fn csr(&self) -> &Csr {
        self.graph.csr()
    }

    /// The graph and its segments.
    pub fn balanced_csr(&self) -> &BalancedCsr {
        &self.graph
    }

    /// What was allocated.
    pub fn plan(&self) -> &MemoryPlan {
        &self.plan
    }

    /// Makes every page absent, so that the next run is a cold one.
    pub fn evict_all(&mut self) {
        if let Edges::Paged(table) = &mut self.edges {
            table.reset();
        }
    }

    pub(crate) fn check_source(&self, source: VertexId) -> Result<(), Error> {
        let num_vertices = self.csr().num_vertices();
        if u64::from(source) < num_vertices {
            Ok(())
        } else {
            Err(Error::SourceOutOfRange { source_vertex: source.into(), num_vertices })
        }
    }

    pub(crate) fn check_target(&self, target: Option<VertexId>) -> Result<(), Error> {
        let num_vertices = self.csr().num_vertices();
        match target {
            Some(target) if u64::from(target) >= num_vertices => {
                Err(Error::TargetOutOfRange { target: target.into(), num_vertices })
            }
            _ => Ok(()),
        }
    }

    /// The scan of a step over all edges.
    pub(crate) fn dense_scan(&self) -> Scan {
        match self.config.variant {
            Variant::Naive => Scan::Rows,
            Variant::Balanced => Scan::Segments,
        }
    }

    /// The scan of a step whose frontier has `edges` outgoing edges. With many of them every page is needed anyway:
    /// segment after segment each is needed once, while the queue's order would fetch it again and again.
    pub(crate) fn scan_for(&self, edges: u64) -> Scan {
        const DENSE_SHARE: u64 = 8;
        match self.dense_scan() {
            Scan::Segments if edges < self.csr().num_edges() / DENSE_SHARE => Scan::Chunks,
            scan => scan,
        }
    }

    fn graph_view(&self, weighted: bool) -> GraphView {
        let csr = self.csr();
        let page_bytes = self.plan.page_size.bytes();
        let column_bytes = csr.num_edges() * 4;
        let host_weights = if weighted { csr.weights().as_bytes() } else { &[] };
        let (columns_at, weights_at) = match &self.edges {
            Edges::Resident { columns, weights } => (columns.address(), weights.address()),
            _ => (host_address(csr.column_indices()), host_address(host_weights)),
        };
        let mut view = GraphView {
            row_offsets: match &self.row_offsets {
                RowOffsets::InPlace(offsets) => host_address(offsets),
                RowOffsets::Copied(offsets) => offsets.address(),
            },
            segment_first_vertex: self.segment_first_vertex.address(),
            num_vertices: csr.num_vertices(),
            num_edges: csr.num_edges(),
            num_segments: self.graph.num_segments(),
            segment_shift: self.graph.chunk_edges().trailing_zeros(),
            page_edges_shift: self.plan.page_edges.trailing_zeros(),
            weight_type: weight_code(csr.weights().weight_type()),
            columns: ArrayView { address: columns_at, size_bytes: column_bytes, first_page: 0 },
            weights: ArrayView {
                address: weights_at,
                size_bytes: host_weights.len() as u64,
                first_page: column_bytes.div_ceil(page_bytes),
            },
            ..GraphView::default()
        };
        if let Edges::Paged(table) = &self.edges {
            view.paged = 1;
            view.page_table = table.table_view();
            view.frame_pool = table.pool_view();
        }
        view
    }

    /// What a step gets that reads `frontiers[current]`, holding `size`, and fills the other one. Without
    /// `with_queue` the next frontier is only counted.
    pub(crate) fn traversal(
        &self,
        scan: Scan,
        current: usize,
        size: FrontierSize,
        weighted: bool,
    ) -> TraversalView {
        TraversalView {
            graph: self.graph_view(weighted),
            current: self.frontiers[current].view(size),
            next: if scan == Scan::Rows {
                FrontierView::default()
            } else {
                self.frontiers[1 - current].view(FrontierSize::default())
            },
            counters: self.counters.address(),
            error: self.error.address(),
            stuck_after_ns: self.config.stuck_after.as_nanos().try_into().unwrap_or(u64::MAX),
            scan: match scan {
                Scan::Rows => SCAN_ROWS,
                Scan::Chunks => SCAN_CHUNKS,
                Scan::Segments | Scan::Vertices => SCAN_SEGMENTS,
            } as u32,
            reserved: 0,
        }
    }

    /// Runs one kernel over the edges that `traversal` (part of `args`) names, and returns what it counted.
    ///
    /// All addresses in `args` must come from this graph: from [`traversal`](Self::traversal) and its vertex state.
    pub(crate) fn step<A: KernelArgs>(
        &mut self,
        args: &A,
        traversal: &TraversalView,
        scan: Scan,
        frontier: u64,
    ) -> Result<(StepCounters, StepStats), Error> {
        let started = Instant::now();
        self.counters.as_mut_slice().fill(StepCounters::default());
        let num_items = match scan {
            Scan::Rows | Scan::Vertices => traversal.graph.num_vertices,
            Scan::Chunks => traversal.current.num_vertices + traversal.current.num_continuations,
            Scan::Segments => traversal.graph.num_segments * u64::from(self.graph.chunk_edges()),
        };
        // SAFETY: the addresses in `args` are those of arrays that `self` owns or keeps alive, of the lengths that the
        // plan and `Csr` guarantee (row offsets were checked when the `Csr` was made); `&mut self` keeps everyone else
        // away until the launch returns, and the error slot is all atomics.
        unsafe { self.device.launch(args, num_items) };
        self.finish_step(scan, frontier, started)
    }

    fn finish_step(
        &mut self,
        scan: Scan,
        frontier: u64,
        started: Instant,
    ) -> Result<(StepCounters, StepStats), Error> {
        if let Err(error) = self.error.take(self.csr().num_vertices()) {
            // Entries may say `faulting` and references may be left: nothing of it may reach the next run.
            self.evict_all();
            return Err(error);
        }
        let counters = self.counters.as_slice()[0];
        let stats = StepStats {
            frontier,
            edges: counters.edges,
            direction: Direction::Push,
            scan,
            paging: PagingStats::from(&counters),
            seconds: started.elapsed().as_secs_f64(),
        };
        Ok((counters, stats))
    }

    #[cfg(test)]
    pub(crate) fn page_table_mut(&mut self) -> Option<&mut PageTable> {
        match &mut self.edges {
            Edges::Paged(table) => Some(table),
            _ => None,
        }
    }
}

fn host_address<T>(elements: &[T]) -> u64 {
    if elements.is_empty() { 0 } else { elements.as_ptr().expose_provenance() as u64 }
}

fn weight_code(weight_type: WeightType) -> u32 {
    (match weight_type {
        WeightType::Unit => WEIGHT_UNIT,
        WeightType::Hash => WEIGHT_HASH,
        WeightType::U8 => WEIGHT_U8,
        WeightType::U16 => WEIGHT_U16,
        WeightType::U32 => WEIGHT_U32,
        WeightType::F32 => WEIGHT_F32,
        WeightType::F64 => WEIGHT_F64,
    }) as u32
}

/// SSSP needs weights that are numbers and not negative; the first edge that breaks this is named.
fn check_weights(weights: &Weights) -> Result<(), Error> {
    let first = |is_bad: fn(f64) -> bool| match weights {
        Weights::F32(values) => values.iter().position(|&w| is_bad(w.into())),
        Weights::F64(values) => values.iter().position(|&w| is_bad(w)),
        _ => None,
    };
    let Some(range) = weights.stored_range() else { return Ok(()) };
    let is_finite = range.min.is_finite() && range.max.is_finite();
    if !is_finite && let Some(edge) = first(|w| !w.is_finite()) {
        return Err(Error::NonFiniteWeight { edge: edge as u64, weight: weights.get(edge as u64, 0, 0) });
    }
    if range.min < 0.0
        && let Some(edge) = first(|w| w < 0.0)
    {
        return Err(Error::NegativeWeight { edge: edge as u64, weight: weights.get(edge as u64, 0, 0) });
    }
    Ok(())
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
