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
mod external;
pub mod format;
mod header;
mod memory;
mod mmap;
mod number;
mod options;
mod partition;
mod progress;
mod source;
mod subgraph;
mod summary;
mod text;
mod weights;
mod write;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use gpuvm_engine::graph::Csr;

use archive::Unwrapped;
pub use error::{LoadError, Place};
pub use external::{Converted, MemoryBound};
use format::edge_list::EdgeList;
use format::gvg;
pub use format::gvg::write_gvg;
use format::matrix_market::MatrixMarket;
use format::sniff::sniff;
pub use format::{Format, UnknownFormat};
pub use header::{FileHeader, header};
use mmap::FileBytes;
pub use options::{LoadOptions, UnknownWeightRule, WeightRule};
pub use progress::Progress;
use source::EdgeSource;
pub use subgraph::induced;
pub use summary::LoadSummary;
use text::Text;
pub use write::{OutputFormat, UnknownOutputFormat, discard_drafts, write_graph};

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
    let input = Input { bytes, file, path, unpacked: false };
    let started = Instant::now();
    let mut unwrap_seconds = 0.0;
    let mut graph = with_input(&input, options, progress, |source, wrapping| {
        unwrap_seconds = started.elapsed().as_secs_f64();
        let mut graph = assemble::assemble(source, options, progress)?;
        graph.summary.format.insert_str(0, wrapping);
        Ok(graph)
    })?;
    graph.summary.parse_seconds += unwrap_seconds;
    Ok(graph)
}

/// A file to read.
struct Input<'a> {
    bytes: &'a [u8],
    file: Option<&'a FileBytes>,
    path: &'a Path,
    /// The bytes are what a compressed file holds.
    unpacked: bool,
}

/// Takes off what a file is wrapped in, tells its format, and hands its entries over, and how it was wrapped.
fn with_input<T>(
    input: &Input<'_>,
    options: &LoadOptions,
    progress: &dyn Progress,
    take: impl FnOnce(&dyn EdgeSource, &'static str) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    let &Input { bytes, file, path, unpacked } = input;
    let unwrapped = archive::unwrap(bytes, path, progress)?;
    let (text, wrapping) = match &unwrapped {
        Unwrapped::Plain => {
            let wrapping = if unpacked { "gzip of " } else { "" };
            (Text { bytes, path, file: file.map(|file| (file, 0)) }, wrapping)
        }
        Unwrapped::Member(range) => {
            let file = file.map(|file| (file, range.start));
            let wrapping = if unpacked { "tar.gz of " } else { "tar of " };
            (Text { bytes: bytes.get(range.clone()).unwrap_or_default(), path, file }, wrapping)
        }
        Unwrapped::Unpacked { bytes, from_tar } => {
            (Text { bytes, path, file: None }, if *from_tar { "tar.gz of " } else { "gzip of " })
        }
    };
    let name = match &unwrapped {
        Unwrapped::Plain if unpacked => archive::name_unpacked(path),
        unwrapped => archive::name_inside(path, unwrapped),
    };
    let format = match options.format {
        Some(format) => format,
        None => sniff(text.bytes, &name, path)?,
    };
    with_source(&text, format, options, progress, |source| take(source, wrapping))
}

/// Converts the graph in the file at `input`, of any [`Format`], to a graph file at `output` within a bound of memory: the
/// same file, byte for byte, as [`write_gvg`] of the loaded graph. What does not fit memory is sorted on disk.
///
/// # Errors
/// [`LoadError`], by what is wrong. Nothing is left of an output that is not whole, and nothing of what was sorted.
pub fn convert_within(
    input: &Path,
    output: &Path,
    options: &LoadOptions,
    bound: &MemoryBound,
    progress: &dyn Progress,
) -> Result<Converted, LoadError> {
    let file = FileBytes::open(input)?;
    if options.format.map_or_else(|| gvg::is_gvg(&file), |format| format == Format::Gvg) {
        // Mapped, not held.
        let graph = gvg::open(Arc::new(file), input, options, progress)?;
        return Converted::copied(output, &graph, progress);
    }
    file.advise_sequential();
    let temp_dir = bound.folder(output);
    let unpacked = archive::unpack_to_disk(&file, input, temp_dir, progress)?;
    let input = match &unpacked {
        Some(unpacked) => Input { bytes: unpacked, file: Some(unpacked), path: input, unpacked: true },
        None => Input { bytes: &file, file: Some(&file), path: input, unpacked: false },
    };
    with_input(&input, options, progress, |source, wrapping| {
        external::convert(source, output, wrapping, options, bound, progress)
    })
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
