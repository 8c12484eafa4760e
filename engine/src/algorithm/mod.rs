//! The host loop of each algorithm: what a step gets, when the last one was. A step's kernel is in
//! `gpuvm-kernels`; an algorithm sees chunks and frontiers, never a page or a frame.

mod bfs;
mod connected_components;
mod sssp;

pub use bfs::{BfsOptions, BfsResult};
pub use connected_components::ComponentsResult;
pub use sssp::{SsspOptions, SsspResult};
