//! Certificates: whether an answer is right, checked on the host, in linear time, independent of every kernel.
//!
//! A shortest path has a certificate in its own graph: no edge offers less than the answer says, and every vertex
//! reached hangs from the source by **tight** edges, those that offer exactly what the answer says. [`bfs`] and
//! [`sssp`] are one check, with every edge of weight 1 or of its own. Labels of components have no such certificate
//! for being different, so [`connected_components`] joins the edges itself. Ranks are those that one more pass leaves as
//! they are ([`page_rank`]). Each check reads every edge once, in parallel, or twice if a first look does not settle it, and
//! holds two bits a vertex, eight bytes for components, or sixteen for ranks. Beside these, of a graph in another
//! order, the answer by row.
//!
//! A wrong answer comes back as its first [`Difference`], the same one at any number of threads: the nearest to the
//! source, of several as near the one of smallest id. Nearest first, because one wrong level makes its neighbours
//! look wrong too, whatever their ids; the vertex named is wrong itself, however much of the answer is.

mod bfs;
mod connected_components;
mod page_rank;
mod sssp;

use std::fmt;

use serde::Serialize;
use thiserror::Error;

use crate::answer::Level;
use crate::graph::{Csr, VertexId};

pub use bfs::{BfsLimit, bfs};
pub use connected_components::connected_components;
pub use page_rank::page_rank;
pub use sssp::{SsspLimit, sssp};

/// What is wrong with an answer: where, what the graph asks for, and what the answer says.
///
/// In JSON an object whose `kind` is the variant's name; a vertex not reached, or no parent, is `null`.
#[derive(Clone, Debug, PartialEq, Error, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Difference {
    /// An array has too few or too many entries.
    #[error("{answer}: one for each of {expected} vertices expected, got {got}")]
    Length {
        /// What is in the array.
        answer: &'static str,
        /// Number of vertices.
        expected: u64,
        /// Number of entries.
        got: u64,
    },
    /// Distances are integers for integer weights and else real, and these are not.
    #[error("{expected} distances expected, as the weights are, got {got} ones")]
    DistanceType {
        /// `integer` or `real`.
        expected: &'static str,
        /// The other of the two.
        got: &'static str,
    },
    /// A wrong level.
    #[error("{}", wrong_value("level", *vertex, *expected, *neighbor, *got))]
    Level {
        /// The vertex.
        vertex: VertexId,
        /// Its level, `None` if no path leads there.
        expected: Option<Level>,
        /// The vertex with an edge to it that asks for this level; none for the source.
        neighbor: Option<VertexId>,
        /// What the answer says, `None` for unreached.
        got: Option<Level>,
    },
    /// A level beyond the limit of depth, or beyond the level of the target.
    #[error("vertex {vertex}: nothing beyond level {expected} expected, got level {got}")]
    LevelBeyondLimit {
        /// The vertex.
        vertex: VertexId,
        /// The largest level that there should be.
        expected: Level,
        /// What the answer says.
        got: Level,
    },
    /// A wrong distance.
    #[error("{}", wrong_value("distance", *vertex, *expected, *neighbor, *got))]
    Distance {
        /// The vertex.
        vertex: VertexId,
        /// Its distance, `None` if no path leads there.
        expected: Option<Distance>,
        /// The vertex with an edge to it that asks for this distance; none for the source.
        neighbor: Option<VertexId>,
        /// What the answer says, `None` for unreached.
        got: Option<Distance>,
    },
    /// A distance beyond the limit, or beyond the distance of the target.
    #[error("vertex {vertex}: nothing beyond distance {expected} expected, got distance {got}")]
    DistanceBeyondLimit {
        /// The vertex.
        vertex: VertexId,
        /// The largest distance that there should be.
        expected: Distance,
        /// What the answer says.
        got: Distance,
    },
    /// A parent without a tight edge to its child, or a parent where there should be none.
    #[error("{}", wrong_parent(*vertex, *expected, *got))]
    Parent {
        /// The child.
        vertex: VertexId,
        /// The smallest vertex with a tight edge to it; `None` for the source and for a vertex not reached.
        expected: Option<VertexId>,
        /// What the answer says.
        got: Option<VertexId>,
    },
    /// Parents, each with a tight edge to its child, that lead round in a circle of edges without weight.
    #[error(
        "vertex {vertex}: parents that lead to the source expected, got parent {got} and they lead back to it"
    )]
    ParentCycle {
        /// The smallest vertex of the circle.
        vertex: VertexId,
        /// Its parent.
        got: VertexId,
    },
    /// A label that is not the smallest vertex of the component.
    #[error("vertex {vertex}: label {expected} expected, the smallest of its component, got {got}")]
    Label {
        /// The vertex.
        vertex: VertexId,
        /// The smallest vertex of its component.
        expected: VertexId,
        /// What the answer says.
        got: VertexId,
    },
    /// Ranks that ask for others than they are. The vertex is the one where the difference is largest.
    #[error(
        "vertex {vertex}: rank {expected} expected from those of its neighbours, got {got}; all ranks together differ by \
         {all}, at most {bound} expected"
    )]
    Rank {
        /// The vertex.
        vertex: VertexId,
        /// The rank that the other ranks ask for.
        expected: f64,
        /// What the answer says.
        got: f64,
        /// The differences of all vertices, added up.
        all: f64,
        /// The most that they should be.
        bound: f64,
    },
}

impl Difference {
    /// The vertex, unless the answer is wrong as a whole.
    pub fn vertex(&self) -> Option<VertexId> {
        match *self {
            Self::Length { .. } | Self::DistanceType { .. } => None,
            Self::Level { vertex, .. }
            | Self::LevelBeyondLimit { vertex, .. }
            | Self::Distance { vertex, .. }
            | Self::DistanceBeyondLimit { vertex, .. }
            | Self::Parent { vertex, .. }
            | Self::ParentCycle { vertex, .. }
            | Self::Label { vertex, .. }
            | Self::Rank { vertex, .. } => Some(vertex),
        }
    }
}

/// A distance in the type of the answer, so that none is rounded on its way into a message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Distance {
    /// For integer weights.
    Integer(u64),
    /// For real weights.
    Real(f64),
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(distance) => distance.fmt(f),
            Self::Real(distance) => distance.fmt(f),
        }
    }
}

fn wrong_value<T: fmt::Display>(
    name: &str,
    vertex: VertexId,
    expected: Option<T>,
    neighbor: Option<VertexId>,
    got: Option<T>,
) -> String {
    let from = neighbor.map_or_else(String::new, |u| format!(" from its neighbour {u}"));
    match (expected, got) {
        (Some(expected), Some(got)) => {
            format!("vertex {vertex}: {name} {expected} expected{from}, got {got}")
        }
        (Some(expected), None) => format!("vertex {vertex}: {name} {expected} expected{from}, got unreached"),
        (None, Some(got)) => format!("vertex {vertex}: unreached expected, got {name} {got}"),
        (None, None) => format!("vertex {vertex}: unreached"),
    }
}

fn wrong_parent(vertex: VertexId, expected: Option<VertexId>, got: Option<VertexId>) -> String {
    let expected = expected.map_or_else(|| "no parent".into(), |u| format!("a parent such as {u}"));
    let got = got.map_or_else(|| "none".into(), |u| u.to_string());
    format!("vertex {vertex}: {expected} expected, got {got}")
}

/// Whether an array has one entry for each vertex.
fn check_length(answer: &'static str, csr: &Csr, len: usize) -> Result<(), Difference> {
    let (expected, got) = (csr.num_vertices(), len as u64);
    if expected == got { Ok(()) } else { Err(Difference::Length { answer, expected, got }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_vertex_expected_neighbour_and_got() {
        let text =
            |expected, neighbor, got| Difference::Level { vertex: 17, expected, neighbor, got }.to_string();
        assert_eq!(
            text(Some(4), Some(3), Some(6)),
            "vertex 17: level 4 expected from its neighbour 3, got 6"
        );
        assert_eq!(
            text(Some(4), Some(3), None),
            "vertex 17: level 4 expected from its neighbour 3, got unreached"
        );
        assert_eq!(text(Some(0), None, Some(2)), "vertex 17: level 0 expected, got 2");
        assert_eq!(text(None, None, Some(2)), "vertex 17: unreached expected, got level 2");
        let parent = |expected, got| Difference::Parent { vertex: 4, expected, got }.to_string();
        assert_eq!(parent(Some(3), Some(7)), "vertex 4: a parent such as 3 expected, got 7");
        assert_eq!(parent(Some(3), None), "vertex 4: a parent such as 3 expected, got none");
        assert_eq!(parent(None, Some(7)), "vertex 4: no parent expected, got 7");
    }
}
