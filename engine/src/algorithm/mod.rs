//! The host's side of each algorithm: what its kernel starts from, and what becomes of its answer. The loop over steps is in
//! the kernel (`gpuvm-kernels`); an algorithm sees chunks and frontiers, never a page or a frame.

mod bfs;
mod bfs_batch;
mod connected_components;
mod page_rank;
mod sssp;

pub use bfs::{BfsOptions, BfsResult};
pub use bfs_batch::BfsBatchResult;
pub(crate) use bfs_batch::{BATCH_COUNTS, log_entries};
pub use connected_components::ComponentsResult;
pub use page_rank::{PageRankOptions, PageRankResult};
pub use sssp::{SsspOptions, SsspResult};
