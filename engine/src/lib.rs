//! GPU-driven paging and traversal of graphs larger than GPU memory.
#![forbid(unsafe_op_in_unsafe_fn)]

pub mod error;
pub mod graph;

pub use error::{Error, GraphError, PagingError};
