//! Graphs to try things on: generators that give the same graph at any number of threads, and the names of known graphs.
#![forbid(unsafe_code)]

mod adjacency;
mod error;
mod gap;
mod generated;
mod grid;
mod kronecker;
mod memory;
mod mersenne_twister;
mod names;
mod registry;

pub use error::GenerateError;
pub use gap::{GapGenerator, GapKind, GapRule, GapWeights};
pub use generated::GeneratedGraph;
pub use grid::Grid;
pub use kronecker::{Kronecker, KroneckerError};
pub use names::NameError;
pub use registry::{KnownGraph, NamedGraph};
