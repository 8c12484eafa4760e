use std::io;

use bytesize::ByteSize;
use thiserror::Error;

/// Why a graph was not generated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The scale gives no vertices that could be told apart, or more than ids have.
    #[error("scale {scale} is out of range, 1 to {max} are possible")]
    Scale {
        /// The scale asked for.
        scale: u32,
        /// The largest one.
        max: u32,
    },

    /// A graph without generated edges.
    #[error("a degree of 0 generates no edges, at least 1 is needed")]
    NoEdges,

    /// A grid without cells, or with more than ids have.
    #[error("a grid of {width} x {height} vertices is out of range, 1 to {max} vertices are possible")]
    GridSize {
        /// Vertices of a row.
        width: u64,
        /// Vertices of a column.
        height: u64,
        /// The largest product.
        max: u64,
    },

    /// More memory would be needed than there is.
    #[error("generating this graph needs {} of memory, {} are available", ByteSize(*.needed_bytes), ByteSize(*.available_bytes))]
    OutOfMemory {
        /// The peak of all arrays together.
        needed_bytes: u64,
        /// What the machine or the control group still has.
        available_bytes: u64,
    },

    /// The system refused an array.
    #[error("cannot reserve {} of memory for {what}", ByteSize(*.num_bytes))]
    Reserve {
        /// What the array holds.
        what: &'static str,
        /// Its size.
        num_bytes: u64,
        /// The system's reason.
        #[source]
        source: io::Error,
    },

    /// [`Progress::is_cancelled`](gpuvm_loaders::Progress::is_cancelled) said so.
    #[error("interrupted")]
    Interrupted,
}
