//! What can go wrong: [`GraphError`] for a graph that breaks its invariants, [`Error`] for everything else.

use bytesize::ByteSize;
use cudarc::driver::DriverError;
use thiserror::Error;

use crate::transport::mlx5::Syndrome;

/// An invariant of [`Csr`](crate::graph::Csr) or [`BalancedCsr`](crate::graph::BalancedCsr) that does not hold.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum GraphError {
    #[error("row offsets are empty, a graph of n vertices has n + 1 of them")]
    NoRowOffsets,
    #[error("{num_vertices} vertices are more than 32-bit ids can name (4294967295)")]
    TooManyVertices { num_vertices: u64 },
    #[error("row offsets run from {first} to {last}, not from 0 to the number of edges ({num_edges})")]
    RowOffsetEnds { first: u64, last: u64, num_edges: u64 },
    #[error("row {row} ends before it begins")]
    RowOffsetFalls { row: u64 },
    #[error("edge {edge} leads to column {column}, the graph has {num_vertices} vertices")]
    ColumnOutOfRange { edge: u64, column: u64, num_vertices: u64 },
    #[error("{num_weights} weights for {num_edges} edges")]
    WeightCount { num_weights: u64, num_edges: u64 },
    #[error("{chunk_edges} edges a chunk is not a power of two")]
    ChunkEdges { chunk_edges: u32 },
    #[error("{per_vertex} heads a vertex are not a power of two from 1 to {most}")]
    HeadsPerVertex { per_vertex: u32, most: u32 },
    #[error("{num_heads} heads are not 1, 2, 4, 8 or 16 for each of {num_vertices} vertices")]
    HeadsLength { num_heads: u64, num_vertices: u64 },
    #[error("row {row} is of vertex {id}, which does not exist or has a row already")]
    NoPermutation { row: u64, id: u64 },
    #[error("{num_ids} ids for {num_vertices} rows")]
    PermutationLength { num_ids: u64, num_vertices: u64 },
    #[error("the reverse graph has not as many vertices and edges as the graph")]
    Reverse,
    #[error("the heads of vertex {vertex} are not its first neighbours")]
    HeadsDiffer { vertex: u64 },
    #[error("a {rows} x {columns} matrix is not a graph, its rows and columns must be the same vertices")]
    NotSquare { rows: u64, columns: u64 },
}

/// Why the engine could not be built or a run did not finish.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error("page size {} is not a power of two from 4 KiB to 1 MiB", ByteSize::b(*bytes))]
    PageSize { bytes: u64 },
    #[error(
        "{chunk_edges} edges a chunk: must be a power of two from {least} to {most}, the edges of a page"
    )]
    ChunkEdges { chunk_edges: u32, least: u64, most: u32 },
    #[error(
        "{} of device memory are too little for {access} access, the least that would do is {}",
        ByteSize::b(*budget_bytes), ByteSize::b(*least_bytes)
    )]
    BudgetTooSmall { access: &'static str, budget_bytes: u64, least_bytes: u64 },
    #[error("source {source_vertex} is out of range, the graph has {num_vertices} vertices (0 to n - 1)")]
    SourceOutOfRange { source_vertex: u64, num_vertices: u64 },
    #[error("target {target} is out of range, the graph has {num_vertices} vertices (0 to n - 1)")]
    TargetOutOfRange { target: u64, num_vertices: u64 },
    #[error("SSSP needs weights that are not negative, edge {edge} weighs {weight}")]
    NegativeWeight { edge: u64, weight: f64 },
    #[error("SSSP needs finite weights, edge {edge} weighs {weight}")]
    NonFiniteWeight { edge: u64, weight: f64 },
    #[error("a damping factor of {damping} is not possible, use one from 0 to less than 1")]
    Damping { damping: f64 },
    #[error("a tolerance of {tolerance} is not possible, use 0 or more")]
    Tolerance { tolerance: f64 },
    #[error("the graph was prepared for other work, {missing} was not among it")]
    NotPrepared { missing: &'static str },
    #[error("{num_threads} threads are not possible, use 1 to {most}")]
    Threads { num_threads: usize, most: usize },
    #[error("there is no CUDA driver on this machine: use the CPU device")]
    NoDriver,
    #[error("there is no GPU number {ordinal}")]
    NoGpu {
        ordinal: u32,
        #[source]
        source: DriverError,
    },
    #[error("cannot {what}")]
    Cuda {
        what: &'static str,
        #[source]
        source: DriverError,
    },
    #[error("cannot pin {} of {what} for the GPU: see the limit of locked memory (ulimit -l)", ByteSize::b(*bytes))]
    Pin {
        what: &'static str,
        bytes: u64,
        #[source]
        source: DriverError,
    },
    #[error(
        "{what} take {}, host memory is {}, and a GPU reads none that is not pinned",
        ByteSize::b(*bytes), ByteSize::b(*memory_bytes)
    )]
    LargerThanHostMemory { what: &'static str, bytes: u64, memory_bytes: u64 },
    #[error("{access} access needs a GPU")]
    AccessNeedsGpu { access: &'static str },
    #[error("cannot start the threads of the CPU device")]
    StartThreads(#[source] rayon::ThreadPoolBuildError),
    #[error("{given} {what} are not possible, use {allowed}")]
    QueueSetting { what: &'static str, given: u32, allowed: &'static str },
    #[error(
        "transport {transport} moves pages, and {access} access has none: use paged access, or transport direct"
    )]
    TransportWithoutPages { transport: &'static str, access: &'static str },
    #[error(
        "{nic}: queue pair {pair} cannot be written by kernels: {what} is {found}, {needed} is needed; take transport rdma"
    )]
    NicQueues { nic: String, pair: u32, what: &'static str, found: u64, needed: &'static str },
    #[error("transport {transport} is not part of this build")]
    NoTransport { transport: &'static str },
    #[error("{} of registered memory are too little, use {} or more", ByteSize::b(*bytes), ByteSize::b(*least))]
    PinBudget { bytes: u64, least: u64 },
    #[cfg(feature = "rdma")]
    #[error(
        "a GPU that knows host memory by other addresses cannot have its graph registered piece by piece: leave the budget out"
    )]
    PinBudgetNeedsUnifiedAddresses,
    #[cfg(feature = "rdma")]
    #[error(transparent)]
    Rdma(#[from] crate::transport::rdma::RdmaError),
    #[error("kernels {module} are not part of this build: kernels/compile_ptx.py makes them")]
    NoKernels { module: &'static str },
    #[error("cannot start the thread of a NIC")]
    StartNicThread(#[source] std::io::Error),
    #[error("the thread of a NIC is gone")]
    NicThreadGone,
    #[error("cannot allocate {} of {what}", ByteSize::b(*bytes))]
    OutOfMemory { what: &'static str, bytes: u64 },
    #[error(
        "elements of {bytes} bytes cannot be paged: pad them to a power of two, so that none lies in two pages"
    )]
    ElementSize { bytes: usize },
    #[error("{num_frames} frames are too few, the least that would do is {least}")]
    TooFewFrames { num_frames: u64, least: u64 },
    #[error(
        "{num_warps} warps may need more than the {num_frames} frames that an array evicts from: launch {most} warps at most"
    )]
    TooManyWarps { num_warps: u64, num_frames: u64, most: u64 },
    #[error(
        "{num_blocks} blocks of {warps_per_block} warps are not possible: launch one or more, of 1 to 32 warps, and of \
         fewer where the kernel takes many registers or much shared memory"
    )]
    Grid { num_blocks: u32, warps_per_block: u32 },
    #[error("an argument is on another device than the kernel")]
    OtherDevice,
    #[error("the CPU device has no compiler for kernels at run time: use a GPU")]
    KernelNeedsGpu,
    #[error(
        "there is no NVRTC 12 on this machine, which compiles kernels: install a CUDA toolkit or the PyPI package \
         nvidia-cuda-nvrtc-cu12, and name its libnvrtc.so.12 in GPUVM_NVRTC if the loader does not find it"
    )]
    NoCompiler,
    #[error("kernel {kernel} does not compile:\n{log}")]
    Compile { kernel: String, log: String },
    #[error(
        "the source has no kernel {kernel}: it must be declared as extern \"C\" __global__ void {kernel}(...)"
    )]
    NoSuchKernel {
        kernel: String,
        #[source]
        source: DriverError,
    },
    #[error(transparent)]
    Paging(#[from] PagingError),
    #[error("interrupted")]
    Interrupted,
}

/// Where a request was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePlace {
    /// The NIC, from 0.
    pub nic: u32,
    /// The queue pair of that NIC, from 0.
    pub queue_pair: u32,
}

impl std::fmt::Display for QueuePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "queue pair {} of NIC {}", self.queue_pair, self.nic)
    }
}

/// The first failure that a kernel met, as its error slot recorded it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PagingError {
    #[error("page {page} did not arrive within {waited_ms} ms")]
    StuckFault { page: u64, waited_ms: u64 },
    #[error("no frame became free for page {page} within {waited_ms} ms")]
    NoFreeFrame { page: u64, waited_ms: u64 },
    #[error("page {page} did not arrive in frame {frame}: {place} has not answered")]
    StuckRequest { page: u64, frame: u64, place: QueuePlace },
    #[error("page {page} did not arrive in frame {frame}: {place} says {syndrome}")]
    FailedRequest { page: u64, frame: u64, place: QueuePlace, syndrome: Syndrome },
    #[error("page {page} cannot come: all {num_nics} NICs are lost{}", because(.reasons))]
    NicsLost { page: u64, num_nics: u64, reasons: Vec<String> },
    #[error("element {index} is out of range, the array has {len} (0 to n - 1)")]
    ElementOutOfRange { index: u64, len: u64 },
    #[error(
        "edge {edge} leads to column {column}, the graph has {num_vertices} vertices: the graph is damaged"
    )]
    ColumnOutOfRange { edge: u64, column: u64, num_vertices: u64 },
}

fn because(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) }
}
