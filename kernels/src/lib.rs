//! Device code of gpuvm-graph: the page table, the fault path and the steps of the traversals, written once in
//! `cuda/*.cuh` and compiled twice, by NVRTC for GPUs and by the C++ compiler for the [CPU device](cpu_device).
//!
//! * [`layout`]: the structs that Rust and device code share.
//! * [`cpu_device`]: kernels on CPU threads. The only module with `unsafe`.
//! * [`SOURCES`]: the text of the device code, for compilation at run time.

pub mod cpu_device;
pub mod layout;

/// The device code, name and text of each file: the translation unit `kernels.cu` first, then what it includes.
pub const SOURCES: &[(&str, &str)] = &[
    ("kernels.cu", include_str!("../cuda/kernels.cu")),
    ("layout.cuh", include_str!("../cuda/layout.cuh")),
    ("layout_asserts.cuh", include_str!(concat!(env!("OUT_DIR"), "/layout_asserts.cuh"))),
    ("sync.cuh", include_str!("../cuda/sync.cuh")),
    ("warp.cuh", include_str!("../cuda/warp.cuh")),
    ("page_table.cuh", include_str!("../cuda/page_table.cuh")),
    ("frame_pool.cuh", include_str!("../cuda/frame_pool.cuh")),
    ("fault.cuh", include_str!("../cuda/fault.cuh")),
    ("paged_slice.cuh", include_str!("../cuda/paged_slice.cuh")),
    ("traversal.cuh", include_str!("../cuda/traversal.cuh")),
    ("bfs.cuh", include_str!("../cuda/bfs.cuh")),
    ("sssp.cuh", include_str!("../cuda/sssp.cuh")),
    ("connected_components.cuh", include_str!("../cuda/connected_components.cuh")),
];
