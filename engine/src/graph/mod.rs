//! The graph as the engine sees it: [`Csr`] and [`BalancedCsr`], their invariants, and nothing of their files.

mod balanced_csr;
mod csr;
mod heads;
mod host_array;
mod order;
mod reverse;
mod row_parts;
mod sprs;
mod weight_bands;
mod weights;

pub use balanced_csr::BalancedCsr;
pub use csr::Csr;
pub use heads::Heads;
pub(crate) use heads::num_head_vertices;
pub use host_array::{HostArray, HostBuffer};
pub use order::{Order, Permutation};
pub(crate) use weight_bands::WeightBands;
pub use weights::{WeightRange, WeightType, Weights};

/// A vertex: its row in the matrix, counted from 0. Graphs hold at most [`MAX_VERTICES`] of them.
pub type VertexId = u32;

/// The largest number of vertices of a graph: ids are 32-bit and `u32::MAX` stands for "no vertex" and "unreached".
pub const MAX_VERTICES: u64 = u32::MAX as u64;
