//! Device code of gpuvm-graph: the page table, the fault path and the steps of the traversals, written once in
//! `cuda/*.cuh` and compiled twice, by NVRTC for GPUs and by the C++ compiler for the [CPU device](cpu_device).
//!
//! * [`layout`]: the structs that Rust and device code share.
//! * [`cpu_device`]: kernels on CPU threads. The only module with `unsafe`.
//! * [`PTX`]: the kernels as a GPU's driver takes them.
//! * [`HEADERS`]: what an embedder's own kernel may include.

pub mod cpu_device;
pub mod layout;

/// What NVRTC made of the device code, name and text of each module: committed under `ptx/`, made again by
/// `compile_ptx.py`. A driver compiles a module as a whole, so each algorithm and type of weights has its own.
pub const PTX: &[(&str, &str)] = &[
    ("bfs", include_str!("../ptx/bfs.ptx")),
    ("components", include_str!("../ptx/components.ptx")),
    ("pull", include_str!("../ptx/pull.ptx")),
    ("sssp_unit", include_str!("../ptx/sssp_unit.ptx")),
    ("sssp_hash", include_str!("../ptx/sssp_hash.ptx")),
    ("sssp_u8", include_str!("../ptx/sssp_u8.ptx")),
    ("sssp_u16", include_str!("../ptx/sssp_u16.ptx")),
    ("sssp_u32", include_str!("../ptx/sssp_u32.ptx")),
    ("sssp_f32", include_str!("../ptx/sssp_f32.ptx")),
    ("sssp_f64", include_str!("../ptx/sssp_f64.ptx")),
];

macro_rules! headers {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!(concat!("../cuda/", $name)))),*] };
}

/// Name and text of the headers that an embedder's kernel includes: `gpuvm.cuh`, and what that includes in turn.
pub const HEADERS: &[(&str, &str)] = headers![
    "gpuvm.cuh",
    "fault.cuh",
    "frame_pool.cuh",
    "page_table.cuh",
    "warp.cuh",
    "sync.cuh",
    "layout.cuh",
];
