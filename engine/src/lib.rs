//! GPU-driven paging and traversal of graphs larger than GPU memory, after "GPUVM: GPU-driven Unified Virtual Memory".
//!
//! The edges stay in host memory. Kernels page them in by themselves: their own page table, faults and eviction, and no
//! host thread in the critical path. A run goes like this: [`Engine::prepare`] plans every byte of device memory
//! ([`MemoryPlan`]), allocates it and puts the graph in place; [`PreparedGraph::bfs`], [`sssp`](PreparedGraph::sssp),
//! [`connected_components`](PreparedGraph::connected_components) and [`page_rank`](PreparedGraph::page_rank) run step after step; each step's warps take work
//! items, reach edges through the page table, and count what they did ([`RunStats`]).
//!
//! ```
//! use gpuvm_engine::graph::{Csr, Weights};
//! use gpuvm_engine::{BfsOptions, Engine, EngineConfig, Workload};
//!
//! // 0 -> 1 -> 2, and vertex 3 apart.
//! let csr = Csr::new(vec![0, 1, 2, 2, 2], vec![1, 2], Weights::Unit, false)?;
//! let engine = Engine::new(EngineConfig { gpu_mem: Some(1 << 20), ..EngineConfig::default() })?;
//! let mut graph = engine.prepare(csr, Workload { bfs: true, ..Workload::default() })?;
//! for source in [0, 1] {
//!     let answer = graph.bfs(source, &BfsOptions::default())?; // the second run finds its pages resident
//!     println!("from {source}: {} reached, {} steps", answer.reached, answer.stats.steps.len());
//! }
//! assert_eq!(graph.bfs(0, &BfsOptions::default())?.levels, [0, 1, 2, gpuvm_engine::UNREACHED]);
//! # Ok::<(), gpuvm_engine::Error>(())
//! ```
//!
//! Not only graphs are paged: [`PagedArray`] is any array in host memory, and [`Engine::compile_kernel`] takes CUDA C++ that
//! reads it through the same page table.
//!
//! Unsafe code is in `device`, where kernels are launched and the GPU's driver is called, and at the places in `engine`,
//! `link` and `own_kernel` that launch: a kernel's arguments name memory by address.
#![deny(unsafe_code)]

mod algorithm;
mod answer;
mod bands;
mod config;
#[expect(unsafe_code, reason = "launches kernels, talks to the driver")]
mod device;
#[expect(unsafe_code, reason = "launches kernels")]
mod engine;
mod error;
mod facts;
mod frontier;
pub mod graph;
#[expect(unsafe_code, reason = "launches a kernel")]
mod link;
mod memory;
#[expect(unsafe_code, reason = "launches kernels of the embedder's own")]
mod own_kernel;
mod paging;
mod plan;
pub mod reference;
mod stats;
#[expect(unsafe_code, reason = "moves the bytes of requests, shares queues with kernels")]
pub mod transport;
pub mod verify;

pub use algorithm::{
    BfsBatchResult, BfsOptions, BfsResult, ComponentsResult, PageRankOptions, PageRankResult, SsspOptions,
    SsspResult,
};
pub use answer::{Distances, Level, NO_PARENT, UNREACHED};
pub use config::{
    Access, DeviceKind, Directions, Doorbell, EngineConfig, Lines, PageSize, Policy, TransportKind, Variant,
};
pub use engine::{Engine, PreparedGraph};
pub use error::{Error, GraphError, PagingError, QueuePlace};
pub use facts::{Bar1, GpuFacts, MemoryUsage, PcieLink, Version};
#[doc(hidden)]
pub use gpuvm_kernels::cpu_device::WarpLanes;
pub use memory::{
    CancelHandle, DeviceArray, MemoryKind, OwnedRegistration, PIN_ALIGNMENT, Pinnable, Pinner, Registered,
    Registration, RegistrationCache, RegistrationError, RegistrationStats,
};
pub use own_kernel::{
    Frames, Grid, InPlace, Kernel, KernelArgument, KernelArguments, LaunchStats, PagedArray,
    PagedArrayOptions,
};
pub use plan::{MemoryPlan, PlanItem, Workload};
pub use stats::{Direction, PagingStats, RunStats, Scan, StepStats};
pub use transport::{NicStats, Percentiles, RnicModel, TransportConfig};
