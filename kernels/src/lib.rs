//! Device code of gpuvm-graph: the page table, the fault path and the steps of the traversals, written once in
//! `cuda/*.cuh` and compiled twice, by NVRTC for GPUs and by the C++ compiler for the [CPU device](cpu_device).
//!
//! * [`layout`]: the structs that Rust and device code share.
//! * [`cpu_device`]: kernels on CPU threads. The only module with `unsafe`.
//! * [`ptx()`]: the kernels as a GPU's driver takes them.
//! * [`HEADERS`]: what an embedder's own kernel may include.

pub mod cpu_device;
pub mod layout;

use std::io::Read;

use flate2::read::GzDecoder;

/// What NVRTC made of the device code, name and text of each module, in gzip: committed under `ptx/`, made again by
/// `compile_ptx.py`. A driver compiles a module as a whole, so each algorithm and type of weights has its own, and
/// another one for transports that ask NICs (`*_queues`).
const PTX: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/ptx.rs"));

/// Names of the modules that [`ptx`] knows.
pub fn modules() -> impl Iterator<Item = &'static str> {
    PTX.iter().map(|(name, _)| *name)
}

/// The text of a module's PTX, as a GPU's driver takes it; `None` if no module has this name, or its
/// file was not there when this was built.
pub fn ptx(module: &str) -> Option<String> {
    let (_, packed) = PTX.iter().find(|(name, _)| *name == module)?;
    let mut text = String::new();
    GzDecoder::new(*packed).read_to_string(&mut text).expect("compile_ptx.py packed it");
    Some(text)
}

macro_rules! headers {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!(concat!("../cuda/", $name)))),*] };
}

/// Name and text of the headers that an embedder's kernel includes: `gpuvm.cuh`, and what that includes in turn.
pub const HEADERS: &[(&str, &str)] = headers![
    "gpuvm.cuh",
    "fault.cuh",
    "queue_pair.cuh",
    "frame_pool.cuh",
    "page_table.cuh",
    "warp.cuh",
    "sync.cuh",
    "layout.cuh",
];
