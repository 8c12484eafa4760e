//! Which format a file has, by its first bytes; its extension decides only where they leave it open.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::{
    bvgraph, dimacs, edge_list, emogi, gap, graphalytics, gvg, ligra, lines, matlab, matrix_market, metis,
    rutherford_boeing,
};
use crate::error::LoadError;
use crate::siblings::Siblings;
use crate::text::quote;

/// A format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Matrix Market.
    MatrixMarket,
    /// A line an edge, with or without a weight; a table with a line of names.
    EdgeList,
    /// DIMACS, for shortest paths (`.gr`) and of undirected graphs (`.col`).
    Dimacs,
    /// METIS, `.graph`.
    Metis,
    /// Serialized graph of the GAP benchmark suite, `.sg`.
    GapSg,
    /// The same with weights, `.wsg`.
    GapWsg,
    /// Rutherford-Boeing and Harwell-Boeing.
    RutherfordBoeing,
    /// MATLAB, level 5.
    Matlab,
    /// LDBC Graphalytics, `.v` and `.e`.
    Graphalytics,
    /// Adjacency graph of Ligra, with or without weights.
    Ligra,
    /// EMOGI, `.bel.col`, `.bel.dst` and `.bel.val`.
    Emogi,
    /// BVGraph of LAW, `.graph` and `.properties`.
    BvGraph,
    /// Apache Parquet, a table; read where the crate is built with the feature `parquet`.
    Parquet,
    /// The graph file of this program.
    Gvg,
}

impl Format {
    /// Every format, in the order in which help lists them.
    pub const ALL: &[Self] = &[
        Self::MatrixMarket,
        Self::EdgeList,
        Self::Dimacs,
        Self::Metis,
        Self::GapSg,
        Self::GapWsg,
        Self::RutherfordBoeing,
        Self::Matlab,
        Self::Graphalytics,
        Self::Ligra,
        Self::Emogi,
        Self::BvGraph,
        Self::Parquet,
        Self::Gvg,
    ];

    /// The name by which it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::MatrixMarket => "matrix-market",
            Self::EdgeList => "edge-list",
            Self::Dimacs => "dimacs",
            Self::Metis => "metis",
            Self::GapSg => "gap-sg",
            Self::GapWsg => "gap-wsg",
            Self::RutherfordBoeing => "rutherford-boeing",
            Self::Matlab => "matlab",
            Self::Graphalytics => "graphalytics",
            Self::Ligra => "ligra",
            Self::Emogi => "emogi",
            Self::BvGraph => "bvgraph",
            Self::Parquet => "parquet",
            Self::Gvg => "gvg",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no [`Format`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{word}\" is no format, use {}", names())]
pub struct UnknownFormat {
    /// What was typed.
    pub word: String,
}

fn names() -> String {
    Format::ALL.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(word: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.iter().find(|format| format.name() == word);
        found.copied().ok_or_else(|| UnknownFormat { word: word.to_owned() })
    }
}

/// Tells the format of a file that is `bytes`. `name` is that of the file itself, without what it is wrapped in; `path` is
/// for messages.
pub(crate) fn sniff(
    bytes: &[u8],
    name: &Path,
    path: &Path,
    siblings: Siblings<'_>,
) -> Result<Format, LoadError> {
    let path = || path.to_owned();
    if bytes.is_empty() {
        return Err(LoadError::Empty { path: path() });
    }
    if gvg::is_gvg(bytes) {
        return Ok(Format::Gvg);
    }
    if matrix_market::has_banner(bytes) {
        return Ok(Format::MatrixMarket);
    }
    if matlab::is_matlab(bytes) {
        return Ok(Format::Matlab);
    }
    if bytes.starts_with(b"PAR1") {
        return Ok(Format::Parquet);
    }
    if ligra::weights(bytes).is_some() {
        return Ok(Format::Ligra);
    }
    let head = &bytes[..bytes.len().min(512)];
    let begin = head.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    let head = head[begin..].to_ascii_lowercase();
    if [&b"<!doctype"[..], b"<html", b"<head", b"<?xml"].iter().any(|tag| head.starts_with(tag)) {
        return Err(LoadError::HtmlPage { path: path() });
    }
    for (magic, kind, cure) in FOREIGN {
        if bytes.starts_with(magic) {
            return Err(LoadError::ForeignFormat { path: path(), kind, cure });
        }
    }
    // Formats in several files are known by their names.
    if emogi::stem(name).is_some_and(|stem| stem != name) {
        return Ok(Format::Emogi);
    }
    if graphalytics::other(name).is_some_and(|other| siblings.has(&other)) {
        return Ok(Format::Graphalytics);
    }
    if bvgraph::is_properties(bytes) {
        return Ok(Format::BvGraph);
    }
    let extension = name.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let extension = extension.to_ascii_lowercase();
    if extension == "graph" {
        let properties = siblings.open(&bvgraph::files(name).1)?;
        if properties.is_some_and(|properties| bvgraph::is_properties(&properties)) {
            return Ok(Format::BvGraph);
        }
    }
    match gap::can_be(bytes) {
        (true, true) if extension == "wsg" => return Ok(Format::GapWsg),
        (true, _) => return Ok(Format::GapSg),
        (false, true) => return Ok(Format::GapWsg),
        (false, false) => match extension.as_str() {
            // Each says what is wrong with the file.
            "sg" => return Ok(Format::GapSg),
            "wsg" => return Ok(Format::GapWsg),
            _ => {}
        },
    }
    if extension == "mtx" {
        return Ok(Format::MatrixMarket); // which says that the banner is missing
    }
    if rutherford_boeing::is_rutherford_boeing(bytes) {
        return Ok(Format::RutherfordBoeing);
    }
    if dimacs::is_dimacs(bytes) {
        return Ok(Format::Dimacs);
    }
    let is_graph = matches!(extension.as_str(), "graph" | "metis");
    if metis::can_be(bytes, is_graph) {
        return Ok(Format::Metis);
    }
    if edge_list::is_edge_list(bytes) || edge_list::is_table(bytes) {
        return Ok(Format::EdgeList);
    }
    let first = lines::first_line(bytes, lines::begin(bytes)).unwrap_or(0);
    let found = quote(lines::line_at(bytes, first));
    Err(LoadError::UnknownFormat { path: path(), found, formats: names() })
}

/// Formats that are told by their first bytes, and not read.
const FOREIGN: [(&[u8], &str, &str); 6] = [
    (b"\x89HDF\r\n\x1a\n", "HDF5 file", "export the edges as text"),
    (b"ARROW1", "Arrow file", "export it as CSV"),
    (b"SQLite format 3", "SQLite database", "export the edges as CSV"),
    (b"AdjacencyHypergraph", "hypergraph of Ligra", "its edges have more than two ends"),
    (b"WeightedAdjacencyHypergraph", "hypergraph of Ligra", "its edges have more than two ends"),
    (b"{", "JSON file", "export the edges as text"),
];
