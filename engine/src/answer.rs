//! The answers of the algorithms, in the ids of the user's graph.

use crate::graph::VertexId;

/// Steps from the source.
pub type Level = u32;

/// The level of a vertex that no path reaches.
pub const UNREACHED: Level = Level::MAX;

/// The parent of the source, of a vertex not reached, and of every vertex if parents were not asked for.
pub const NO_PARENT: VertexId = VertexId::MAX;

/// Distance of every vertex from the source: the smallest sum of weights over all paths.
#[derive(Clone, Debug, PartialEq)]
pub enum Distances {
    /// For integer weights; `u64::MAX` where no path leads.
    Integer(Vec<u64>),
    /// For real weights, each path summed from the source on; infinite where no path leads.
    Real(Vec<f64>),
}

impl Distances {
    /// The integer distance of a vertex that no path reaches.
    pub const UNREACHED: u64 = u64::MAX;

    /// Number of vertices.
    pub fn len(&self) -> usize {
        match self {
            Self::Integer(distances) => distances.len(),
            Self::Real(distances) => distances.len(),
        }
    }

    /// Whether there are no vertices.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The distance of `v`, infinite where no path leads.
    ///
    /// # Panics
    /// If `v` is not a vertex.
    pub fn get(&self, v: VertexId) -> f64 {
        match self {
            Self::Integer(distances) if distances[v as usize] == Self::UNREACHED => f64::INFINITY,
            Self::Integer(distances) => distances[v as usize] as f64,
            Self::Real(distances) => distances[v as usize],
        }
    }

    /// Whether a path leads to `v`.
    ///
    /// # Panics
    /// If `v` is not a vertex.
    pub fn is_reached(&self, v: VertexId) -> bool {
        self.get(v).is_finite()
    }
}
