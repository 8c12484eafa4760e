//! A graph out to the formats that other programs read, so that they can be fed what `.gvg` files hold.
//!
//! Text is made in pieces on all threads while the piece before is written; nothing but the pieces is in memory. A file
//! appears under its name when it is whole.

pub(crate) mod draft;
mod gap;
mod pieces;
mod text;
mod transpose;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use gpuvm_engine::graph::{Csr, Order};

use crate::LoadedGraph;
use crate::error::LoadError;
use crate::progress::Progress;
use crate::write_gvg;
pub use draft::discard_drafts;
pub(crate) use transpose::transpose;

/// A format that graphs are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputFormat {
    /// The graph file that is mapped.
    Gvg,
    /// Matrix Market `coordinate`: `pattern`, `integer` or `real`; `symmetric` with its lower triangle if every edge has its
    /// reverse with the same weight, else `general`. Ids from 1.
    MatrixMarket,
    /// A line `u v` for every edge, both directions of an undirected one; ids from 0, no comments.
    EdgeList,
    /// A line `u v weight` for every edge.
    WeightedEdgeList,
    /// The serialized graph of the GAP benchmark suite, without weights.
    GapSerialized,
    /// The same with weights, which must be integers of 32 bits.
    GapWeightedSerialized,
}

/// Every format with its name, which is its extension as well.
const NAMES: [(OutputFormat, &str); 6] = [
    (OutputFormat::Gvg, "gvg"),
    (OutputFormat::MatrixMarket, "mtx"),
    (OutputFormat::EdgeList, "el"),
    (OutputFormat::WeightedEdgeList, "wel"),
    (OutputFormat::GapSerialized, "sg"),
    (OutputFormat::GapWeightedSerialized, "wsg"),
];

impl OutputFormat {
    /// The format that the extension of `path` names, in upper or lower case.
    pub fn of_path(path: &Path) -> Option<Self> {
        path.extension()?.to_str()?.to_ascii_lowercase().parse().ok()
    }

    /// Whether a file of this format may name fewer vertices than the graph has: an edge list knows no vertex without edges
    /// beyond the last that has one.
    pub fn loses_last_vertices(self) -> bool {
        matches!(self, Self::EdgeList | Self::WeightedEdgeList)
    }
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.iter().find(|(format, _)| format == self).map_or("", |(_, name)| name))
    }
}

/// A word that names no [`OutputFormat`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{word}\" is no format to write, use gvg, mtx, el, wel, sg or wsg")]
pub struct UnknownOutputFormat {
    /// What was typed.
    pub word: String,
}

impl FromStr for OutputFormat {
    type Err = UnknownOutputFormat;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = NAMES.iter().find(|(_, name)| *name == word);
        found.map(|(format, _)| *format).ok_or_else(|| UnknownOutputFormat { word: word.to_owned() })
    }
}

/// Writes `graph` to `path` in `format` and returns the size of the file in bytes.
///
/// The file appears under its name when it is whole and on the disk, and not before.
///
/// # Errors
/// [`LoadError::Write`] with the cause; [`LoadError::Interrupted`] when `progress` says so; what the format cannot hold is
/// [`LoadError::TooLargeForGap`] or [`LoadError::NoGapWeight`]; [`LoadError::NaturalOrder`] where memory does not do.
pub fn write_graph(
    path: &Path,
    format: OutputFormat,
    graph: &LoadedGraph,
    progress: &dyn Progress,
) -> Result<u64, LoadError> {
    // Other formats know vertices by their ids alone.
    let natural = || in_natural_order(&graph.csr, path);
    match format {
        OutputFormat::Gvg => write_gvg(path, graph, progress),
        OutputFormat::MatrixMarket => text::matrix_market(path, &natural()?, progress),
        OutputFormat::EdgeList => text::edge_list(path, &natural()?, false, progress),
        OutputFormat::WeightedEdgeList => text::edge_list(path, &natural()?, true, progress),
        OutputFormat::GapSerialized => gap::serialized(path, &natural()?, false, progress),
        OutputFormat::GapWeightedSerialized => gap::serialized(path, &natural()?, true, progress),
    }
}

/// The graph with row u that of vertex u.
pub(crate) fn in_natural_order(csr: &Csr, path: &Path) -> Result<Csr, LoadError> {
    let natural = csr.clone().in_order(Order::Natural);
    natural.map_err(|source| LoadError::NaturalOrder { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_told_by_extension_in_any_case() {
        assert_eq!(OutputFormat::of_path("a/b.MTX".as_ref()), Some(OutputFormat::MatrixMarket));
        assert_eq!(OutputFormat::of_path("b.wel".as_ref()), Some(OutputFormat::WeightedEdgeList));
        for path in ["b", "b.mtx.gz", "mtx", ".sg", "b.mat"] {
            assert_eq!(OutputFormat::of_path(path.as_ref()), None, "{path}");
        }
    }

    #[test]
    fn every_format_is_read_back_as_it_is_written() {
        for (format, name) in NAMES {
            assert_eq!(format.to_string(), name);
            assert_eq!(name.parse(), Ok(format));
        }
    }
}
