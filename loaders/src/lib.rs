//! Graph files to [`Csr`]: Matrix Market and edge lists, plain, in gzip or in tar, and `.gvg`, the graph file that is mapped
//! instead of read.
//!
//! [`load`] looks into the file, and at its name only where the bytes leave the format open. Text is parsed on all threads, twice, so that no
//! memory is needed beside that of the graph; [`write_gvg`] stores the graph so that the next run maps it without
//! a copy. A file that is not what it should be is a [`LoadError`] with the line, never a panic and never a wrong
//! graph.
//!
//! ```
//! use gpuvm_loaders::{LoadOptions, load_bytes};
//! let text = b"%%MatrixMarket matrix coordinate integer symmetric\n3 3 2\n2 1 5\n3 2 7\n";
//! let graph = load_bytes("path.mtx".as_ref(), text, &LoadOptions::default())?;
//! assert_eq!(graph.csr.neighbors(1), [0, 2]);
//! assert_eq!(graph.summary.expanded_entries, 4);
//! # Ok::<(), gpuvm_loaders::LoadError>(())
//! ```
//!
//! `mmap` maps files and is the only unsafe code.
#![forbid(unsafe_op_in_unsafe_fn)]

mod archive;
mod assemble;
mod builder;
mod error;
pub mod format;
mod memory;
mod mmap;
mod number;
mod options;
mod progress;
mod source;
mod summary;
mod text;
mod weights;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use gpuvm_engine::graph::Csr;

use archive::Unwrapped;
pub use error::{LoadError, Place};
use format::edge_list::EdgeList;
use format::gvg;
pub use format::gvg::write_gvg;
use format::matrix_market::MatrixMarket;
use format::sniff::sniff;
pub use format::{Format, UnknownFormat};
use mmap::FileBytes;
pub use options::{LoadOptions, UnknownWeightRule, WeightRule};
pub use progress::Progress;
use source::EdgeSource;
pub use summary::LoadSummary;
use text::Text;

/// A graph, and what was found in its file.
#[derive(Clone, Debug)]
pub struct LoadedGraph {
    /// The graph.
    pub csr: Csr,
    /// What its file held.
    pub summary: LoadSummary,
}

/// Loads the graph in the file at `path`, of any [`Format`], plain or in gzip, tar or both.
///
/// # Errors
/// [`LoadError`], by what is wrong; [`LoadError::Interrupted`] when `progress` says so.
pub fn load(path: &Path, options: &LoadOptions, progress: &dyn Progress) -> Result<LoadedGraph, LoadError> {
    let span = tracing::info_span!("load", path = %path.display());
    let _entered = span.enter();
    let file = FileBytes::open(path)?;
    let graph = if options.format.map_or_else(|| gvg::is_gvg(&file), |format| format == Format::Gvg) {
        gvg::open(Arc::new(file), path, options, progress)?
    } else {
        file.advise_sequential();
        load_text(&file, Some(&file), path, options, progress)?
    };
    tracing::info!(
        vertices = graph.csr.num_vertices(),
        edges = graph.csr.num_edges(),
        format = graph.summary.format,
        "loaded"
    );
    Ok(graph)
}

/// Loads a graph from a file in memory, of any format but `.gvg`, plain or in gzip, tar or both; `name` stands for the file
/// in messages.
///
/// # Errors
/// [`LoadError`], by what is wrong.
pub fn load_bytes(name: &Path, bytes: &[u8], options: &LoadOptions) -> Result<LoadedGraph, LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty { path: name.to_owned() });
    }
    load_text(bytes, None, name, options, &())
}

/// Takes off what the text is wrapped in and parses it.
fn load_text(
    bytes: &[u8],
    file: Option<&FileBytes>,
    path: &Path,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<LoadedGraph, LoadError> {
    let started = Instant::now();
    let unwrapped = archive::unwrap(bytes, path, progress)?;
    let unwrap_seconds = started.elapsed().as_secs_f64();
    let (text, wrapping) = match &unwrapped {
        Unwrapped::Plain => (Text { bytes, path, file: file.map(|file| (file, 0)) }, ""),
        Unwrapped::Member(range) => {
            let file = file.map(|file| (file, range.start));
            (Text { bytes: bytes.get(range.clone()).unwrap_or_default(), path, file }, "tar of ")
        }
        Unwrapped::Unpacked { bytes, from_tar } => {
            (Text { bytes, path, file: None }, if *from_tar { "tar.gz of " } else { "gzip of " })
        }
    };
    let name = archive::name_inside(path, &unwrapped);
    let format = match options.format {
        Some(format) => format,
        None => sniff(text.bytes, &name, path)?,
    };
    let mut graph = with_source(&text, format, options, progress, |source| {
        assemble::assemble(source, options, progress)
    })?;
    graph.summary.format.insert_str(0, wrapping);
    graph.summary.parse_seconds += unwrap_seconds;
    Ok(graph)
}

/// Opens a file of a known format and hands it over.
fn with_source<T>(
    text: &Text<'_>,
    format: Format,
    options: &LoadOptions,
    progress: &dyn Progress,
    take: impl FnOnce(&dyn EdgeSource) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    match format {
        Format::MatrixMarket => take(&MatrixMarket::open(text, options, progress)?),
        Format::EdgeList => take(&EdgeList::open(text)?),
        Format::Gvg => {
            let (compression, command) = ("gzip", "gunzip (a .gvg file is mapped, not read)");
            Err(LoadError::Compression { path: text.path(), compression, command })
        }
    }
}
