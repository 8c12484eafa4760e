//! Which format a file has, by its first bytes; its extension decides only where they leave it open.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::{edge_list, gvg, matrix_market};
use crate::error::LoadError;
use crate::text::quote;

/// A format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Matrix Market.
    MatrixMarket,
    /// A line an edge, with or without a weight.
    EdgeList,
    /// The graph file of this program.
    Gvg,
}

impl Format {
    /// Every format, in the order in which help lists them.
    pub const ALL: &[Self] = &[Self::MatrixMarket, Self::EdgeList, Self::Gvg];

    /// The name by which it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::MatrixMarket => "matrix-market",
            Self::EdgeList => "edge-list",
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

/// Tells the format of a file that begins with `bytes`. `name` is that of the file itself, without what it is wrapped in;
/// `path` is for messages.
pub(crate) fn sniff(bytes: &[u8], name: &Path, path: &Path) -> Result<Format, LoadError> {
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
    let head = &bytes[..bytes.len().min(512)];
    let begin = head.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    let head = head[begin..].to_ascii_lowercase();
    if [&b"<!doctype"[..], b"<html", b"<head", b"<?xml"].iter().any(|tag| head.starts_with(tag)) {
        return Err(LoadError::HtmlPage { path: path() });
    }
    let extension = name.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if extension.eq_ignore_ascii_case("mtx") {
        return Ok(Format::MatrixMarket); // which says that the banner is missing
    }
    let first = edge_list::first_edge(bytes, edge_list::begin(bytes));
    if first.is_some_and(|at| edge_list::is_edge(bytes, at)) {
        return Ok(Format::EdgeList);
    }
    let line = bytes.get(first.unwrap_or(0)..).unwrap_or_default();
    let found = quote(line.split(|&b| b == b'\n').next().unwrap_or_default());
    Err(LoadError::UnknownFormat { path: path(), found, formats: names() })
}
