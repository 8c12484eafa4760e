//! Graphs that need no download, whatever makes them: one type to generate, to measure and to name a file by.

use std::fmt;

use gpuvm_engine::graph::Csr;
use gpuvm_loaders::Progress;

use crate::error::GenerateError;
use crate::gap::{GapGenerator, GapWeights};
use crate::grid::Grid;

/// Part of every [`file_stem`](GeneratedGraph::file_stem): raised when a generator gives another graph under the same
/// name, so that files of earlier versions are not taken for it.
const GENERATOR_VERSION: u32 = 1;

/// A graph that can be generated.
///
/// ```
/// use gpuvm_datasets::{GapWeights, GeneratedGraph, NamedGraph};
/// let name: NamedGraph = "grid:200x300".parse()?;
/// let graph = name.generated().expect("grids are generated");
/// assert_eq!(graph.file_stem(GapWeights::None), "grid-200x300-unit-v1");
/// # Ok::<(), gpuvm_datasets::NameError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GeneratedGraph {
    /// A graph of the GAP suite.
    Gap(GapGenerator),
    /// A grid.
    Grid(Grid),
}

impl GeneratedGraph {
    /// Whether it has weights of its own; without, every edge weighs 1.
    pub fn has_weights(&self) -> bool {
        matches!(self, Self::Gap(_))
    }

    /// Whether it could be generated now: its size is in range, and there is memory.
    ///
    /// # Errors
    /// [`GenerateError`], as [`generate`](GeneratedGraph::generate) would have.
    pub fn check(&self, weights: GapWeights) -> Result<(), GenerateError> {
        match self {
            Self::Gap(generator) => generator.check(weights),
            Self::Grid(grid) => grid.check().map(|_| ()),
        }
    }

    /// The graph; `weights` mean nothing to one that has none of its own.
    ///
    /// # Errors
    /// [`GenerateError`]: a size out of range, too little memory, or interrupted by `progress`.
    pub fn generate(&self, weights: GapWeights, progress: &dyn Progress) -> Result<Csr, GenerateError> {
        match self {
            Self::Gap(generator) => generator.generate(weights, progress),
            Self::Grid(grid) => grid.generate(),
        }
    }

    fn most_vertices_and_edges(&self) -> (u64, u64) {
        match self {
            Self::Gap(generator) => generator.most_vertices_and_edges(),
            // One that cannot be generated takes nothing.
            Self::Grid(grid) => grid.num_vertices_and_edges().unwrap_or_default(),
        }
    }

    /// The most vertices that it has.
    pub fn most_vertices(&self) -> u64 {
        self.most_vertices_and_edges().0
    }

    /// The most bytes that its arrays take, row offsets, column indices and weights. Exact for grids; generators that
    /// drop loops and duplicates take less.
    pub fn most_bytes(&self, weights: GapWeights) -> u64 {
        let edge_bytes = if self.has_weights() && weights == GapWeights::Gap { 5 } else { 4 };
        let (num_vertices, num_edges) = self.most_vertices_and_edges();
        num_edges.saturating_mul(edge_bytes).saturating_add(num_vertices.saturating_add(1).saturating_mul(8))
    }

    /// A name for files of the graph, with everything in it that decides which graph it is: two that differ never share
    /// one, in this version of the generators or another.
    pub fn file_stem(&self, weights: GapWeights) -> String {
        let graph = match self {
            Self::Gap(GapGenerator { kind, scale, degree, rule }) => {
                format!("gap-{kind}-{scale}-{rule}-degree{degree}")
            }
            Self::Grid(Grid { width, height }) => format!("grid-{width}x{height}"),
        };
        let weights = if self.has_weights() && weights == GapWeights::Gap { "weighted" } else { "unit" };
        format!("{graph}-{weights}-v{GENERATOR_VERSION}")
    }
}

/// The word that gives this graph again.
impl fmt::Display for GeneratedGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap(generator) => generator.fmt(f),
            Self::Grid(grid) => grid.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::NamedGraph;

    fn named(name: &str) -> GeneratedGraph {
        name.parse::<NamedGraph>().expect(name).generated().expect(name)
    }

    #[test]
    fn arrays_take_no_more_than_was_said_and_those_of_a_grid_exactly_that() {
        for weights in [GapWeights::None, GapWeights::Gap] {
            for name in ["gap-kron:10", "gap-urand:9:v1.5", "gap-kron:1:degree=1", "grid:30x20", "grid:1x1"] {
                let graph = named(name);
                let csr = graph.generate(weights, &()).expect("small");
                let bytes = csr.row_offsets().size_bytes()
                    + csr.column_indices().size_bytes()
                    + csr.weights().as_bytes().len() as u64;
                assert!(bytes <= graph.most_bytes(weights), "{name}");
                assert!(graph.has_weights() || bytes == graph.most_bytes(weights), "{name}");
            }
        }
    }

    #[test]
    fn sizes_that_cannot_be_generated_are_found_without_generating() {
        for name in [
            "gap-kron:99",
            "gap-kron:0",
            "grid:0x5",
            "grid:99999999999x99999999999",
            "gap-urand:31:degree=9999",
        ] {
            assert!(named(name).check(GapWeights::Gap).is_err(), "{name}");
        }
        assert!(named("gap-kron:10").check(GapWeights::Gap).is_ok());
    }

    #[test]
    fn graphs_that_differ_have_file_names_that_differ() {
        let names = [
            "gap-kron:10",
            "gap-kron:11",
            "gap-urand:10",
            "gap-kron:10:v1.5",
            "gap-kron:10:degree=8",
            "grid:10x1",
            "grid:1x10",
        ];
        let mut stems: HashSet<_> = names.map(|name| named(name).file_stem(GapWeights::Gap)).into();
        stems.insert(named("gap-kron:10").file_stem(GapWeights::None));
        assert_eq!(stems.len(), names.len() + 1);
    }

    #[test]
    fn names_of_one_graph_share_a_file_name() {
        let stem = |name: &str| named(name).file_stem(GapWeights::Gap);
        assert_eq!(stem("GK"), "gap-kron-27-suitesparse-degree16-weighted-v1");
        for name in ["gk", "GAP-kron", "kron:27", "gap-KRON:27:suitesparse:degree=16"] {
            assert_eq!(stem(name), stem("GK"), "{name}");
        }
    }
}
