//! [`Engine`]: a device and its settings; [`PreparedGraph`]: a graph on that device, ready for runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use gpuvm_kernels::cpu_device::KernelArgs;
use gpuvm_kernels::layout::{
    ArrayView, BfsArgs, BfsBatchArgs, ComponentsArgs, FrontierView, GraphView, LoopState, PAGE_TABLE_QUEUES,
    PageRankArgs, PageTableView, SCAN_CHUNKS, SCAN_ROWS, SCAN_SEGMENTS, SsspArgs, SsspParentsArgs, Step,
    StepRecord, TraversalView, WEIGHT_F32, WEIGHT_F64, WEIGHT_HASH, WEIGHT_U8, WEIGHT_U16, WEIGHT_U32,
    WEIGHT_UNIT,
};
use rayon::prelude::*;

use crate::algorithm::{BATCH_COUNTS, log_entries};
use crate::bands::Bands;
use crate::config::{Access, EngineConfig, PageSize, TransportKind, Variant};
use crate::device::{CudaMemory, Device};
use crate::error::{Error, PagingError};
use crate::facts::MemoryUsage;
use crate::frontier::{Frontier, FrontierSize};
use crate::graph::{BalancedCsr, Csr, Heads, VertexId, WeightBands, WeightType, Weights};
use crate::memory::{CancelHandle, DeviceArray, ErrorSlot, PinnedArray, Staging};
use crate::paging::PageTable;
use crate::plan::{MAX_RECORDS, MemoryPlan, Workload};
use crate::stats::StepStats;
#[cfg(feature = "rdma")]
use crate::transport::rdma::RdmaError;
use crate::transport::{self, NicCounts, NicStats, Transport, TransportConfig};

/// A device and the settings of its runs. Prepares graphs, which then run many sources.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) device: Device,
    pub(crate) error: Arc<ErrorSlot>,
    pub(crate) running: Arc<Mutex<()>>,
}

impl Engine {
    /// An engine with these settings; starts the threads of the CPU device, or takes up the GPU.
    ///
    /// # Errors
    /// [`Error::QueueSetting`], [`Error::NoTransport`]; [`Error::Threads`], [`Error::StartThreads`]; [`Error::NoDriver`], [`Error::NoGpu`], [`Error::Cuda`].
    pub fn new(config: EngineConfig) -> Result<Self, Error> {
        config.transport.check()?;
        let device = Device::new(&config)?;
        let error = Arc::new(ErrorSlot::new(&device)?);
        Ok(Self { config, device, error, running: Arc::default() })
    }

    /// The settings.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// What kernels run on, for people: `cpu with 8 threads`, or the name of the GPU.
    pub fn device_name(&self) -> String {
        self.device.name()
    }

    /// What the driver counts of the GPU's memory, after waiting for what is under way; `None` on the CPU device.
    ///
    /// # Errors
    /// [`Error::Cuda`].
    pub fn memory_usage(&self) -> Result<Option<MemoryUsage>, Error> {
        match &self.device {
            Device::Cpu(_) => Ok(None),
            Device::Cuda(cuda) => cuda.memory_usage().map(Some),
        }
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
        MemoryPlan::new(csr, workload, &self.config, &self.device)
    }

    /// Puts `csr` on the device for `workload`: allocates what [`plan`](Engine::plan) lists and nothing later, and loads
    /// the kernels, which a GPU's driver compiles the first time.
    ///
    /// # Errors
    /// Those of [`plan`](Engine::plan); [`Error::OutOfMemory`]; [`Error::NegativeWeight`] and
    /// [`Error::NonFiniteWeight`] if the workload has SSSP.
    pub fn prepare(&self, csr: Csr, workload: Workload) -> Result<PreparedGraph, Error> {
        PreparedGraph::new(self, csr, workload)
    }
}

/// A frontier with this share of all edges needs most pages anyway.
const DENSE_SHARE: u64 = 8;
/// One of something for each array of edges, in the order of their pages.
#[derive(Clone, Copy, Debug)]
struct Arrays<T> {
    columns: T,
    weights: T,
    /// Column indices of the reverse of a directed graph.
    reverse: T,
    heads: T,
}

impl<T> Arrays<T> {
    fn try_map<U>(
        self,
        mut map: impl FnMut(&'static str, T) -> Result<U, Error>,
    ) -> Result<Arrays<U>, Error> {
        Ok(Arrays {
            columns: map("column indices", self.columns)?,
            weights: map("weights", self.weights)?,
            reverse: map("reverse", self.reverse)?,
            heads: map("heads", self.heads)?,
        })
    }

    fn map<U>(&self, map: impl Fn(&T) -> U) -> Arrays<U> {
        Arrays {
            columns: map(&self.columns),
            weights: map(&self.weights),
            reverse: map(&self.reverse),
            heads: map(&self.heads),
        }
    }
}

impl Arrays<u64> {
    /// The first page of each array of so many bytes.
    fn first_pages(self, page_size: PageSize) -> Self {
        let pages = |bytes: u64| bytes.div_ceil(page_size.bytes());
        let weights = pages(self.columns);
        let reverse = weights + pages(self.weights);
        Self { columns: 0, weights, reverse, heads: reverse + pages(self.reverse) }
    }
}

/// The edges that kernels read.
#[derive(Debug)]
enum Edges {
    /// Where they lie in host memory.
    InPlace(Arrays<PinnedArray>),
    /// The same, but through frames.
    Paged(Arrays<PinnedArray>, Box<PageTable>),
    /// Copies on the device.
    Resident(Arrays<DeviceArray<u8>>),
    /// In the driver's unified memory; none for an array without elements.
    Managed(Arrays<Option<CudaMemory>>),
}

impl Edges {
    fn addresses(&self) -> Arrays<u64> {
        match self {
            Self::InPlace(arrays) | Self::Paged(arrays, _) => arrays.map(PinnedArray::address),
            Self::Resident(arrays) => arrays.map(DeviceArray::address),
            Self::Managed(arrays) => arrays.map(|array| array.as_ref().map_or(0, CudaMemory::address)),
        }
    }
}

/// Opens what serves the faults of `table`. RDMA devices may not reach the GPU's memory: then the frames are moved.
fn open_transport(
    device: &Device,
    config: &TransportConfig,
    #[cfg_attr(not(feature = "rdma"), expect(unused_variables, reason = "frames stay where they are"))]
    table: &mut PageTable,
    memory: &mut transport::Memory,
) -> Result<Option<Box<dyn Transport>>, Error> {
    #[cfg(feature = "rdma")]
    if matches!(config.kind, TransportKind::Rdma | TransportKind::Mlx5) {
        let mut opened_with = |frames_in_host_memory| {
            table.place_frames_for_rdma(device, frames_in_host_memory)?;
            (memory.frames.address, memory.frames.size_bytes) = table.frames();
            transport::open(device, config, memory)
        };
        return match opened_with(false) {
            Err(error @ Error::Rdma(RdmaError::GpuMemory { .. })) => {
                tracing::warn!(%error, "frames are put into host memory, where kernels read them across the link");
                opened_with(true)
            }
            opened => opened,
        };
    }
    transport::open(device, config, memory)
}

/// The arrays in host memory that a run under `plan` reads.
fn host_arrays<'a>(csr: &'a Csr, workload: Workload, plan: &MemoryPlan) -> Arrays<&'a [u8]> {
    let heads = csr.incoming().and_then(Csr::heads).filter(|_| plan.heads_per_vertex > 0);
    let reverse = csr.reverse().filter(|_| plan.uses_reverse);
    Arrays {
        columns: if reads_whole(plan, workload) { bytemuck::cast_slice(csr.column_indices()) } else { &[] },
        weights: if workload.sssp && plan.weight_bands.is_empty() { csr.weights().as_bytes() } else { &[] },
        reverse: reverse.map_or(&[], |reverse| bytemuck::cast_slice(reverse.column_indices())),
        heads: heads.map_or(&[], |heads| bytemuck::cast_slice(heads.ids())),
    }
}

/// Whether a run reads the edges as they are, not split by weight.
fn reads_whole(plan: &MemoryPlan, workload: Workload) -> bool {
    plan.weight_bands.is_empty() || workload.reads_whole_edges()
}

/// The rows of the reverse graph, whose column indices are with the other edges.
#[derive(Debug)]
struct Reverse {
    row_offsets: RowOffsets,
    segment_first_vertex: DeviceArray<VertexId>,
}

/// The row offsets that kernels read.
#[derive(Debug)]
enum RowOffsets {
    InPlace(PinnedArray),
    Copied(DeviceArray<u64>),
}

impl RowOffsets {
    fn new(device: &Device, access: Access, csr: &Csr) -> Result<Self, Error> {
        Ok(match access {
            Access::ZeroCopy if device.is_cpu() => {
                let bytes = bytemuck::cast_slice(csr.row_offsets());
                Self::InPlace(PinnedArray::new(device, "row offsets", bytes)?)
            }
            _ => Self::Copied(DeviceArray::copied(device, "row offsets", csr.row_offsets())?),
        })
    }

    fn address(&self) -> u64 {
        match self {
            Self::InPlace(offsets) => offsets.address(),
            Self::Copied(offsets) => offsets.address(),
        }
    }
}

/// A graph on a device, with vertex state for its workload. Runs on it are warm: pages that a run leaves resident are
/// there for the next, until [`evict_all`](PreparedGraph::evict_all).
#[derive(Debug)]
pub struct PreparedGraph {
    // First of all: whatever moves pages ends before their memory goes.
    transport: Option<Box<dyn Transport>>,
    nics: Vec<NicCounts>,
    // Pinned arrays then: they are let go before the graph whose memory they name.
    edges: Edges,
    /// What SSSP reads instead, if edges are split by weight.
    pub(crate) bands: Option<Bands>,
    row_offsets: RowOffsets,
    reverse: Option<Reverse>,
    /// The way of answers to host memory.
    pub(crate) staging: Staging,
    pub(crate) graph: BalancedCsr,
    pub(crate) plan: MemoryPlan,
    pub(crate) workload: Workload,
    pub(crate) config: EngineConfig,
    pub(crate) device: Device,
    error: Arc<ErrorSlot>,
    /// Held from launch to error slot, which the graphs of an engine share: a failure of one must not stop another,
    /// nor be taken by it. It also keeps two grids, whose warps wait for each other, off the same threads.
    running: Arc<Mutex<()>>,
    segment_first_vertex: DeviceArray<VertexId>,
    state: DeviceArray<LoopState>,
    records: DeviceArray<StepRecord>,
    pub(crate) frontiers: [Frontier; 2],
    pub(crate) levels: DeviceArray<u32>,
    /// For each segment the level for which a vertex waits there; see [`gpuvm_kernels::layout::BfsArgs`].
    pub(crate) segment_marks: DeviceArray<u32>,
    pub(crate) distances: DeviceArray<u64>,
    pub(crate) stamps: DeviceArray<u32>,
    pub(crate) parents: DeviceArray<VertexId>,
    pub(crate) labels: DeviceArray<VertexId>,
    /// Searches of a batch, a bit each: those that have reached a vertex, have it in their frontier, and find it next.
    pub(crate) batch_seen: DeviceArray<u64>,
    pub(crate) batch_frontier: DeviceArray<u64>,
    pub(crate) batch_next: DeviceArray<u64>,
    pub(crate) batch_waiting: DeviceArray<u64>,
    /// Vertices that were found and are not in host memory yet.
    pub(crate) batch_log: DeviceArray<u64>,
    /// The vertices that rows are of, where rows are in another order and parents are to be found.
    pub(crate) original_ids: DeviceArray<VertexId>,
    pub(crate) ranks: DeviceArray<u64>,
    pub(crate) contributions: DeviceArray<u64>,
    pub(crate) rank_sums: DeviceArray<u64>,
    /// Vertices that a search may reach at most.
    pub(crate) num_reachable: u64,
    /// Pages fetched since all were absent: more than are resident once some had to leave.
    fetched_pages: u64,
    /// Whether the heads have been read and stayed.
    heads_resident: bool,
}

impl PreparedGraph {
    fn new(engine: &Engine, csr: Csr, workload: Workload) -> Result<Self, Error> {
        let (config, device) = (engine.config.clone(), engine.device.clone());
        let plan = engine.plan(&csr, workload)?;
        tracing::debug!(access = %plan.access, reason = plan.access_reason, frames = plan.num_frames, "memory planned");
        if workload.sssp {
            check_weights(csr.weights())?;
        }
        load_kernels(&device, workload, csr.weights().weight_type(), config.transport.uses_queues())?;
        let csr = match csr.is_symmetric() {
            true => csr.with_heads(plan.heads_per_vertex)?,
            false if plan.uses_reverse => csr.with_reverse(plan.heads_per_vertex)?,
            false => csr,
        };
        let graph = BalancedCsr::new(csr, plan.chunk_edges)?;
        let csr = graph.csr();
        let balanced = config.variant == Variant::Balanced;
        let host = host_arrays(csr, workload, &plan);
        let page_bytes = plan.page_size.bytes();
        // The heads are the last pages of those that are not of weight bands.
        let sizes = host.map(|bytes| bytes.len() as u64);
        let first_pages = sizes.first_pages(plan.page_size);
        let end_of_heads = first_pages.heads + sizes.heads.div_ceil(page_bytes);
        let bands = match plan.weight_bands.as_slice() {
            [] => None,
            floors => Some(Bands::new(
                &device,
                WeightBands::new(csr, floors, plan.chunk_edges)?,
                floors.to_vec(),
                end_of_heads,
                page_bytes,
            )?),
        };
        let mut edges = match (plan.access, &device) {
            (Access::ZeroCopy, _) => {
                Edges::InPlace(host.try_map(|what, bytes| PinnedArray::new(&device, what, bytes))?)
            }
            (Access::Paged, _) => {
                let served = config.transport.kind == TransportKind::Host;
                let arrays = host.try_map(|what, bytes| PinnedArray::paged(&device, what, bytes, served))?;
                let table = PageTable::new(
                    &device,
                    plan.num_pages,
                    plan.num_frames as u32,
                    plan.num_pinned_frames as u32,
                    plan.page_size,
                    config.policy,
                )?;
                let kept = end_of_heads - plan.num_head_frames..end_of_heads;
                Edges::Paged(arrays, Box::new(table.with_kept_pages(kept)))
            }
            (access @ (Access::Managed | Access::ManagedReadMostly), Device::Cuda(cuda)) => {
                Edges::Managed(host.try_map(|_, bytes| match bytes {
                    [] => Ok(None),
                    bytes => CudaMemory::managed(cuda, bytes, access == Access::ManagedReadMostly).map(Some),
                })?)
            }
            _ => Edges::Resident(host.try_map(|what, bytes| DeviceArray::copied(&device, what, bytes))?),
        };
        let transport = match &mut edges {
            Edges::Paged(arrays, table) => {
                let (frames, frames_bytes) = table.frames();
                let mut memory = transport::Memory::new(frames, frames_bytes);
                memory.add_array(first_pages.columns, arrays.columns.address(), sizes.columns);
                memory.add_array(first_pages.weights, arrays.weights.address(), sizes.weights);
                memory.add_array(first_pages.reverse, arrays.reverse.address(), sizes.reverse);
                memory.add_array(first_pages.heads, arrays.heads.address(), sizes.heads);
                let bands = bands.iter().flat_map(|bands: &Bands| bands.arrays(page_bytes));
                for (first_page, address, size_bytes) in bands {
                    memory.add_array(first_page, address, size_bytes);
                }
                let opened = open_transport(&device, &config.transport, table, &mut memory)?;
                if let Some(transport) = &opened {
                    table.ask_nics(&device, transport.queues_address())?;
                }
                opened
            }
            _ => None,
        };
        let row_offsets = match reads_whole(&plan, workload) {
            true => RowOffsets::new(&device, plan.access, csr)?,
            false => RowOffsets::Copied(DeviceArray::zeroed(&device, "row offsets", 0)?),
        };
        let reverse = match csr.reverse().filter(|_| plan.uses_reverse) {
            None => None,
            Some(reverse) => {
                let balanced = BalancedCsr::new(reverse.clone(), plan.chunk_edges)?;
                Some(Reverse {
                    row_offsets: RowOffsets::new(&device, plan.access, reverse)?,
                    segment_first_vertex: DeviceArray::copied(
                        &device,
                        "segments",
                        balanced.segment_first_vertex(),
                    )?,
                })
            }
        };
        // Where every edge has its reverse, a vertex without edges is reached by none. A search that has found all others
        // need not look at the edges of the last ones.
        let num_reachable = match (workload.bfs || workload.bfs_batch) && csr.is_symmetric() {
            true => csr.row_offsets().par_windows(2).filter(|row| row[0] != row[1]).count() as u64,
            false => csr.num_vertices(),
        };
        let vertices_if = |needed: bool| if needed { csr.num_vertices() } else { 0 };
        let with_queues = balanced && (workload.bfs || workload.bfs_batch || workload.sssp);
        let segments = if with_queues { graph.num_segments() } else { 0 };
        let searches = workload.bfs || workload.bfs_batch;
        let marked_segments = if searches && plan.heads_per_vertex > 0 { graph.num_segments() } else { 0 };
        let frontier = || Frontier::new(&device, vertices_if(with_queues), segments);
        Ok(Self {
            transport,
            nics: Vec::new(),
            edges,
            bands,
            row_offsets,
            reverse,
            segment_first_vertex: match balanced {
                true => DeviceArray::copied(&device, "segments", graph.segment_first_vertex())?,
                false => DeviceArray::zeroed(&device, "segments", 0)?,
            },
            state: DeviceArray::zeroed(&device, "loop state", 1)?,
            records: DeviceArray::zeroed(&device, "step records", MAX_RECORDS as u64)?,
            frontiers: [frontier()?, frontier()?],
            levels: DeviceArray::zeroed(&device, "levels", vertices_if(workload.bfs))?,
            segment_marks: DeviceArray::zeroed(&device, "segments that vertices wait in", marked_segments)?,
            distances: DeviceArray::zeroed(&device, "distances", vertices_if(workload.sssp))?,
            stamps: DeviceArray::zeroed(&device, "frontier stamps", vertices_if(workload.sssp))?,
            parents: DeviceArray::zeroed(&device, "parents", vertices_if(workload.parents))?,
            labels: DeviceArray::zeroed(&device, "labels", vertices_if(workload.connected_components))?,
            batch_seen: DeviceArray::zeroed(&device, "search masks", vertices_if(workload.bfs_batch))?,
            batch_frontier: DeviceArray::zeroed(&device, "search masks", vertices_if(workload.bfs_batch))?,
            batch_next: DeviceArray::zeroed(&device, "search masks", vertices_if(workload.bfs_batch))?,
            batch_waiting: DeviceArray::zeroed(
                &device,
                "search counts",
                if workload.bfs_batch { BATCH_COUNTS } else { 0 },
            )?,
            batch_log: DeviceArray::zeroed(
                &device,
                "log of vertices found",
                if workload.bfs_batch { 2 * log_entries(csr.num_vertices()) } else { 0 },
            )?,
            original_ids: match graph.csr().permutation().filter(|_| workload.parents) {
                Some(permutation) => {
                    DeviceArray::copied(&device, "original ids", permutation.original_ids())?
                }
                None => DeviceArray::zeroed(&device, "original ids", 0)?,
            },
            ranks: DeviceArray::zeroed(&device, "ranks", vertices_if(workload.page_rank))?,
            contributions: DeviceArray::zeroed(&device, "ranks", vertices_if(workload.page_rank))?,
            rank_sums: DeviceArray::zeroed(&device, "ranks", vertices_if(workload.page_rank))?,
            staging: Staging::new(&device, csr.num_vertices(), csr.permutation())?,
            num_reachable,
            fetched_pages: 0,
            heads_resident: false,
            device,
            error: Arc::clone(&engine.error),
            running: Arc::clone(&engine.running),
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
    ///
    /// # Errors
    /// [`Error::Cuda`] if the GPU fails.
    pub fn evict_all(&mut self) -> Result<(), Error> {
        (self.fetched_pages, self.heads_resident) = (0, false);
        match &mut self.edges {
            Edges::Paged(_, table) => table.reset(),
            _ => Ok(()),
        }
    }

    /// Whether edges come over a link while kernels run.
    pub(crate) fn fetches(&self) -> bool {
        match self.plan.access {
            Access::Paged => true,
            Access::Resident => false,
            Access::ZeroCopy | Access::Managed | Access::ManagedReadMostly => !self.device.is_cpu(),
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

    fn graph_view(&self, weighted: bool) -> GraphView {
        let csr = self.csr();
        let sizes = host_arrays(csr, self.workload, &self.plan).map(|bytes| bytes.len() as u64);
        let (addresses, first_pages) = (self.edges.addresses(), sizes.first_pages(self.plan.page_size));
        let array = |pick: fn(&Arrays<u64>) -> u64| ArrayView {
            address: pick(&addresses),
            size_bytes: pick(&sizes),
            first_page: pick(&first_pages),
        };
        let heads = csr.incoming().and_then(Csr::heads).filter(|_| sizes.heads > 0);
        let weights = array(|arrays| arrays.weights);
        let mut view = GraphView {
            row_offsets: self.row_offsets.address(),
            segment_first_vertex: self.segment_first_vertex.address(),
            num_vertices: csr.num_vertices(),
            num_edges: csr.num_edges(),
            num_segments: self.graph.num_segments(),
            segment_shift: self.graph.chunk_edges().trailing_zeros(),
            page_edges_shift: self.plan.page_edges.trailing_zeros(),
            weight_type: weight_code(csr.weights().weight_type()),
            columns: array(|arrays| arrays.columns),
            weights: if weighted { weights } else { ArrayView { size_bytes: 0, ..weights } },
            heads: array(|arrays| arrays.heads),
            num_head_vertices: heads.map_or(0, Heads::num_vertices),
            heads_shift: heads.map_or(0, |heads| heads.per_vertex().trailing_zeros()),
            ..GraphView::default()
        };
        if let Edges::Paged(_, table) = &self.edges {
            view.paged = 1;
            view.page_table = table.table_view();
            view.frame_pool = table.pool_view();
        }
        view
    }

    /// What a kernel gets to traverse the light band, and the address of all bands' views, if edges are split by weight;
    /// else what it gets to traverse the graph, and 0.
    pub(crate) fn weighted_traversal(&mut self, with_queues: bool) -> Result<(TraversalView, u64), Error> {
        let mut traversal = self.traversal(true, with_queues);
        let Some(bands) = &mut self.bands else { return Ok((traversal, 0)) };
        let (address, light) = bands.views(&traversal.graph, self.plan.page_size.bytes())?;
        traversal.graph = light;
        traversal.dense_edges = light.num_edges / DENSE_SHARE;
        traversal.dense_items = light.num_segments / 2;
        Ok((traversal, address))
    }

    /// The graph of the edges into each vertex, with the heads of bottom-up steps; without vertices if there is none.
    pub(crate) fn incoming_view(&self, graph: &GraphView) -> GraphView {
        match &self.reverse {
            _ if self.csr().is_symmetric() => *graph,
            None => GraphView::default(),
            Some(reverse) => {
                let arrays = host_arrays(self.csr(), self.workload, &self.plan);
                let sizes = arrays.map(|bytes| bytes.len() as u64);
                GraphView {
                    row_offsets: reverse.row_offsets.address(),
                    segment_first_vertex: reverse.segment_first_vertex.address(),
                    columns: ArrayView {
                        address: self.edges.addresses().reverse,
                        size_bytes: sizes.reverse,
                        first_page: sizes.first_pages(self.plan.page_size).reverse,
                    },
                    ..*graph
                }
            }
        }
    }

    /// What a kernel gets. Without `with_queues` frontiers are only counted.
    pub(crate) fn traversal(&self, weighted: bool, with_queues: bool) -> TraversalView {
        let view = |frontier: &Frontier| if with_queues { frontier.view() } else { FrontierView::default() };
        TraversalView {
            graph: self.graph_view(weighted),
            frontiers: [view(&self.frontiers[0]), view(&self.frontiers[1])],
            state: self.state.address(),
            records: self.records.address(),
            max_records: MAX_RECORDS as u64,
            error: self.error.address(),
            stuck_after_ns: self.config.stuck_after.as_nanos().try_into().unwrap_or(u64::MAX),
            dense_edges: self.csr().num_edges() / DENSE_SHARE,
            // Half as many items as segments touch 40% of them (1 - e^-0.5) if they lie at random. Where nothing is
            // evicted the order does not matter, and the queue spares the look at all rows.
            dense_items: if self.plan.evicts() { self.graph.num_segments() / 2 } else { u64::MAX },
            dense_scan: match self.config.variant {
                Variant::Naive => SCAN_ROWS,
                Variant::Balanced => SCAN_SEGMENTS,
            },
        }
    }

    /// The first step of a traversal, from a frontier of one vertex: `size` in the queues, with `edges` outgoing edges.
    pub(crate) fn first_step(&self, traversal: &TraversalView, size: FrontierSize, edges: u64) -> Step {
        let sparse = traversal.dense_scan == SCAN_SEGMENTS && edges < traversal.dense_edges;
        Step {
            scan: if sparse { SCAN_CHUNKS } else { traversal.dense_scan },
            frontier: 1,
            frontier_edges: edges,
            num_vertices: size.vertices,
            num_continuations: size.continuations,
            threshold: u64::MAX,
            ..Step::default()
        }
    }

    /// Runs a kernel, all of its steps from the `first`. Returns the step that would have come next, and what those
    /// before it did.
    ///
    /// All addresses in `args` must come from this graph: from [`traversal`](Self::traversal) and its vertex state.
    pub(crate) fn run<A: KernelArgs>(
        &mut self,
        args: &A,
        traversal: &TraversalView,
        first: Step,
    ) -> Result<(Step, Vec<StepStats>), Error> {
        let first =
            Step { fetched_pages: self.fetched_pages, heads_resident: self.heads_resident.into(), ..first };
        let start = LoopState { step: first, ..LoopState::default() };
        self.state.write(0, &[start])?;
        self.records.fill(0)?;
        let num_items = traversal.graph.num_vertices + traversal.graph.num_edges;
        let running = Arc::clone(&self.running);
        let one_at_a_time = running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(transport) = &mut self.transport {
            transport.begin(&CancelHandle(Arc::clone(&self.error)))?;
        }
        let launching = Instant::now();
        // SAFETY: the addresses in `args` are those of arrays that `self` owns or keeps alive, of the lengths that the
        // plan and `Csr` guarantee (row offsets were checked when the `Csr` was made); `&mut self` keeps everyone else
        // away until the launch returns, and the error slot is all atomics.
        let launched = unsafe { self.device.launch(args, self.plan.num_warps, num_items) };
        tracing::debug!(seconds = launching.elapsed().as_secs_f64(), "kernel ran");
        let mut outcome = launched.and_then(|()| self.error.take(self.csr().num_vertices()));
        if let Some(transport) = &mut self.transport {
            match transport.end(outcome.is_ok()) {
                Ok(counts) => {
                    if let Err(Error::Paging(PagingError::NicsLost { reasons, .. })) = &mut outcome {
                        reasons.extend(counts.iter().filter_map(NicCounts::why_lost));
                    }
                    self.add_nic_counts(counts);
                }
                Err(error) => {
                    // Why the kernel waited in vain, or was stopped. That request may have come after its end.
                    let _ = self.error.take(self.csr().num_vertices());
                    outcome = Err(error);
                }
            }
        }
        drop(one_at_a_time);
        if let Err(error) = outcome {
            // Entries may say `faulting` and references may be left: nothing of it may reach the next run.
            self.evict_all()?;
            return Err(error);
        }
        let end = self.state.read(0, 1)?[0].step;
        (self.fetched_pages, self.heads_resident) = (end.fetched_pages, end.heads_resident != 0);
        let num_records = (end.number as usize).min(MAX_RECORDS);
        let steps = self.records.read(0, num_records)?.iter().map(StepStats::from).collect();
        Ok((end, steps))
    }

    fn add_nic_counts(&mut self, counts: Vec<NicCounts>) {
        if self.nics.is_empty() {
            self.nics = counts;
        } else {
            self.nics.iter_mut().zip(&counts).for_each(|(sum, counts)| sum.add(counts));
        }
    }

    /// What each NIC did since the last time this was asked; empty with transport `direct`.
    pub fn take_nic_stats(&mut self) -> Vec<NicStats> {
        std::mem::take(&mut self.nics).iter().map(NicCounts::stats).collect()
    }

    #[cfg(test)]
    pub(crate) fn page_table_mut(&mut self) -> Option<&mut PageTable> {
        match &mut self.edges {
            Edges::Paged(_, table) => Some(table),
            _ => None,
        }
    }
}

/// Makes the kernels of `workload` ready, so that the time of the first run is that of a run.
fn load_kernels(
    device: &Device,
    workload: Workload,
    weight_type: WeightType,
    asks_nics: bool,
) -> Result<(), Error> {
    // The weights, and whether faults ask NICs, are all that a kernel is chosen by.
    let flags = if asks_nics { PAGE_TABLE_QUEUES as u32 } else { 0 };
    let page_table = PageTableView { flags, ..PageTableView::default() };
    let graph = GraphView { weight_type: weight_code(weight_type), page_table, ..GraphView::default() };
    let traversal = TraversalView { graph, ..TraversalView::default() };
    if workload.bfs {
        device.load_kernel(&BfsArgs { traversal, ..BfsArgs::default() })?;
    }
    if workload.bfs_batch {
        let search = BfsArgs { traversal, ..BfsArgs::default() };
        device.load_kernel(&BfsBatchArgs { search, ..BfsBatchArgs::default() })?;
    }
    if workload.connected_components {
        device.load_kernel(&ComponentsArgs { traversal, ..ComponentsArgs::default() })?;
    }
    if workload.page_rank {
        device.load_kernel(&PageRankArgs { traversal, ..PageRankArgs::default() })?;
    }
    if workload.sssp {
        device.load_kernel(&SsspArgs { traversal, ..SsspArgs::default() })?;
    }
    if workload.sssp && workload.parents {
        device.load_kernel(&SsspParentsArgs { traversal, ..SsspParentsArgs::default() })?;
    }
    Ok(())
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
    // Integers are held without a sign, and a pass over them would read a mapped file to its end.
    if weights.weight_type().is_integer() {
        return Ok(());
    }
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
