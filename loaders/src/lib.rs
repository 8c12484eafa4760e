//! Graph files to [`Csr`]: Matrix Market and edge lists, plain, in gzip or in tar, and `.gvg`, the graph file that is mapped
//! instead of read.
//!
//! [`load`] looks into the file, and at its name only where the bytes leave the format open. Text is parsed on all threads, twice, so that no
//! memory is needed beside that of the graph, or once where only the text says how large that is and memory allows to hold its
//! entries; [`write_gvg`] stores the graph so that the next run maps it without
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
//! `mmap` maps files, and `short_line` compares bytes with instructions of the processor: the only unsafe code.
#![forbid(unsafe_op_in_unsafe_fn)]

mod archive;
mod assemble;
mod builder;
mod coordinates;
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
mod short_line;
mod siblings;
mod source;
mod subgraph;
mod summary;
mod text;
mod weights;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use gpuvm_engine::graph::Csr;

pub use error::{LoadError, Place};
pub use external::{Converted, MemoryBound};
use format::bvgraph::{self, BvGraph};
use format::dimacs::Dimacs;
use format::edge_list::EdgeList;
use format::emogi::{self, Emogi};
use format::gap::SerializedGraph;
use format::graphalytics::Graphalytics;
use format::gvg;
pub use format::gvg::write_gvg;
use format::ligra::Adjacency;
use format::matlab::Matlab;
use format::matrix_market::MatrixMarket;
use format::metis::Metis;
use format::rutherford_boeing::RutherfordBoeing;
use format::sniff::sniff;
pub use format::{Format, UnknownFormat};
pub use header::{FileHeader, header};
use mmap::FileBytes;
pub use options::{LoadOptions, UnknownWeightRule, WeightRule};
pub use progress::Progress;
use siblings::{SiblingBytes, Siblings};
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
    /// The id that the file gives each vertex, where that is not its number: one a vertex.
    pub ids: Option<Arc<[u64]>>,
}

/// Loads the graph in the file at `path`, of any [`Format`], plain, compressed or in an archive. Of a graph in several files,
/// `path` is any of them.
///
/// # Errors
/// [`LoadError`], by what is wrong; [`LoadError::Interrupted`] when `progress` says so.
pub fn load(path: &Path, options: &LoadOptions, progress: &dyn Progress) -> Result<LoadedGraph, LoadError> {
    let span = tracing::info_span!("load", path = %path.display());
    let _entered = span.enter();
    let path = &first_file(path);
    let file = FileBytes::open(path)?;
    let graph = if options.format.map_or_else(|| gvg::is_gvg(&file), |format| format == Format::Gvg) {
        gvg::open(Arc::new(file), path, options, progress)?
    } else {
        file.advise_sequential();
        load_text(&file, Some(&file), path, Siblings::Disk, options, progress)?
    };
    tracing::info!(
        vertices = graph.csr.num_vertices(),
        edges = graph.csr.num_edges(),
        format = graph.summary.format,
        "loaded"
    );
    Ok(graph)
}

/// Loads a graph from a file in memory, of any format but `.gvg`, plain, compressed or in an archive; `name` stands for the file
/// in messages.
///
/// # Errors
/// [`LoadError`], by what is wrong.
pub fn load_bytes(name: &Path, bytes: &[u8], options: &LoadOptions) -> Result<LoadedGraph, LoadError> {
    load_files(name, bytes, &[], options)
}

/// Loads a graph from several files in memory: `bytes` are those of `name`, and `others` are those beside it.
///
/// # Errors
/// [`LoadError`], by what is wrong.
pub fn load_files(
    name: &Path,
    bytes: &[u8],
    others: &[(PathBuf, Vec<u8>)],
    options: &LoadOptions,
) -> Result<LoadedGraph, LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty { path: name.to_owned() });
    }
    load_text(bytes, None, name, Siblings::Memory(others), options, &())
}

/// The file that stands for a graph in several, of which people name the common part.
fn first_file(path: &Path) -> PathBuf {
    match emogi::stem(path) {
        Some(stem) if stem == path && !path.exists() => path.with_added_extension(emogi::TARGETS),
        _ => path.to_owned(),
    }
}

/// Takes off what the file is wrapped in, and loads it.
fn load_text(
    bytes: &[u8],
    file: Option<&FileBytes>,
    path: &Path,
    siblings: Siblings<'_>,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<LoadedGraph, LoadError> {
    let input = Input { bytes, file, path, siblings, unpacked: None };
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
    siblings: Siblings<'a>,
    /// What a compressed file holds, which is read instead.
    unpacked: Option<&'a archive::OnDisk>,
}

/// Takes off what a file is wrapped in, tells its format, and hands its entries over, and how it was wrapped.
fn with_input<T>(
    input: &Input<'_>,
    options: &LoadOptions,
    progress: &dyn Progress,
    take: impl FnOnce(&dyn EdgeSource, &str) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    let &Input { bytes, file, path, siblings, unpacked } = input;
    let member = options.member.as_deref();
    let unwrapped = match unpacked {
        Some(unpacked) => unpacked.unwrap(path, member, progress)?,
        None => archive::unwrap(bytes, path, member, progress)?,
    };
    let file = unpacked.map(|unpacked| &unpacked.bytes).or(file);
    let text = Text { bytes: &unwrapped.bytes, path, file: file.zip(unwrapped.offset) };
    let format = match options.format {
        Some(format) => format,
        None => sniff(text.bytes, &unwrapped.name, path, siblings)?,
    };
    with_source(&text, format, siblings, options, progress, |source| take(source, &unwrapped.wrapping))
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
    let path = &first_file(input);
    let file = FileBytes::open(path)?;
    if options.format.map_or_else(|| gvg::is_gvg(&file), |format| format == Format::Gvg) {
        // Mapped, not held.
        let graph = gvg::open(Arc::new(file), path, options, progress)?;
        return Converted::copied(output, &graph, progress);
    }
    file.advise_sequential();
    let temp_dir = bound.folder(output);
    let unpacked = archive::unpack_to_disk(&file, path, temp_dir, progress)?;
    let siblings = Siblings::Disk;
    let input = Input { bytes: &file, file: Some(&file), path, siblings, unpacked: unpacked.as_ref() };
    with_input(&input, options, progress, |source, wrapping| {
        if source.original_ids().is_some() {
            return Err(LoadError::IdsInMemory { path: path.clone() });
        }
        external::convert(source, output, wrapping, options, bound, progress)
    })
}

/// Opens a file of a known format and hands it over.
fn with_source<T>(
    text: &Text<'_>,
    format: Format,
    siblings: Siblings<'_>,
    options: &LoadOptions,
    progress: &dyn Progress,
    take: impl FnOnce(&dyn EdgeSource) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    let path = text.path;
    for (option, is_given) in [("--columns", options.columns.is_some()), ("--relabel", options.relabel)] {
        if is_given && !matches!(format, Format::EdgeList | Format::Parquet) {
            let (path, formats) = (text.path(), "edge lists and tables");
            return Err(LoadError::OptionFormat { path, option, formats, format: format.name() });
        }
    }
    match format {
        Format::MatrixMarket => take(&MatrixMarket::open(text, options, progress)?),
        Format::EdgeList => take(&EdgeList::open(text, options, progress)?),
        Format::Dimacs => take(&Dimacs::open(text)?),
        Format::Metis => take(&Metis::open(text, progress)?),
        Format::GapSg => take(&SerializedGraph::open(text, false)?),
        Format::GapWsg => take(&SerializedGraph::open(text, true)?),
        Format::RutherfordBoeing => take(&RutherfordBoeing::open(text)?),
        Format::Matlab => take(&Matlab::open(text)?),
        Format::Ligra => take(&Adjacency::open(text)?),
        Format::Graphalytics => {
            let is_vertices = path.extension().is_some_and(|extension| extension == "v");
            let other = path.with_extension(if is_vertices { "e" } else { "v" });
            let bytes = siblings.must_open(&other, path)?;
            let properties = siblings.open(&path.with_extension("properties"))?;
            let other = Text { bytes: &bytes, path: &other, file: None };
            let (vertices, edges) = if is_vertices { (text, &other) } else { (&other, text) };
            take(&Graphalytics::open(vertices, edges, properties.as_deref())?)
        }
        Format::Emogi => {
            let stem = emogi::stem(path).unwrap_or_else(|| path.to_owned());
            let [offsets, targets, weights] = [emogi::OFFSETS, emogi::TARGETS, emogi::WEIGHTS]
                .map(|extension| stem.with_added_extension(extension));
            let open = |other: &PathBuf| match other == path {
                true => Ok(Some(SiblingBytes::Memory(text.bytes))),
                false => siblings.open(other),
            };
            let must_open = |other: &PathBuf| {
                let missing = || LoadError::MissingSibling { path: text.path(), missing: other.clone() };
                open(other)?.ok_or_else(missing)
            };
            let (offset_bytes, target_bytes) = (must_open(&offsets)?, must_open(&targets)?);
            let weight_bytes = if options.weights.keeps_values() { open(&weights)? } else { None };
            let weights = weight_bytes.as_ref().map(|bytes| (&**bytes, weights.as_path()));
            take(&Emogi::open((&offset_bytes, &offsets), (&target_bytes, &targets), weights)?)
        }
        Format::BvGraph => {
            let (graph, properties) = bvgraph::files(path);
            let (graph_bytes, properties_bytes) = match path == properties {
                true => (siblings.must_open(&graph, path)?, SiblingBytes::Memory(text.bytes)),
                false => (SiblingBytes::Memory(text.bytes), siblings.must_open(&properties, path)?),
            };
            take(&BvGraph::open((&graph_bytes, &graph), (&properties_bytes, &properties))?)
        }
        #[cfg(feature = "parquet")]
        Format::Parquet => take(&format::parquet::Table::open(text.bytes, path, options, progress)?),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => {
            let (kind, cure) = ("Parquet table", "build with --features parquet, or export it as CSV");
            Err(LoadError::ForeignFormat { path: text.path(), kind, cure })
        }
        Format::Gvg => {
            let (compression, command) = ("gzip", "gunzip (a .gvg file is mapped, not read)");
            Err(LoadError::Compression { path: text.path(), compression, command })
        }
    }
}
