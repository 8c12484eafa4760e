//! The graph file, `.gvg`: the arrays of a graph as they are in memory, mapped by every run without a copy.
//!
//! # Layout
//! All numbers are little-endian. The file is a header of 256 bytes, a table of 40 bytes a section, and the sections,
//! each at the next multiple of 2 MiB, so that a section can be mapped by large pages and registered by itself. Bytes
//! between them are zero, and nothing follows the last.
//!
//! | offset | bytes | header field |
//! |---|---|---|
//! | 0 | 8 | magic: `89 47 56 47 0D 0A 1A 0A` (`\x89GVG\r\n\x1a\n`: a transfer as text damages it visibly) |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | byte order mark, `0x01020304` |
//! | 16 | 4 | CRC-32C of header and table, this field taken as zero |
//! | 20 | 4 | flags: bit 0 every edge has its reverse with the same weight, 1 bipartite, 2 symmetrized, 3 duplicates kept, 4 self-loops kept |
//! | 24 | 4 | bytes of a vertex id, 4 |
//! | 28 | 4 | weights: 0 unit, 1 hash, 2 u8, 3 u16, 4 u32, 5 f32, 6 f64 |
//! | 32 | 4 | number of sections, at most 64 |
//! | 36 | 4 | reserved, 0 |
//! | 40 | 8 | bytes of the file |
//! | 48 | 8 | vertices |
//! | 56 | 8 | edges |
//! | 64 | 8 | rows of the matrix that was converted |
//! | 72 | 8 | its columns |
//! | 80 | 8 | its stored entries |
//! | 88 | 8 | its entries with symmetry written out |
//! | 96 | 8 | its self-loops |
//! | 104 | 8 | its edges that were there more than once |
//! | 112 | 8 | its stored zeros |
//! | 120 | 8 | its negative values |
//! | 128 | 8 | its values that are infinite or not a number |
//! | 136 | 16 | its field, as text, filled with zeros |
//! | 152 | 24 | its symmetry, as text |
//! | 176 | 64 | its format, as text |
//! | 240 | 8 | its zeros that are no edges, with symmetry written out |
//! | 248 | 8 | reserved, 0 |
//!
//! | offset | bytes | section, in the order of the file |
//! |---|---|---|
//! | 0 | 16 | name, as text, filled with zeros |
//! | 16 | 8 | offset in the file |
//! | 24 | 8 | bytes |
//! | 32 | 4 | CRC-32C of its bytes |
//! | 36 | 4 | reserved, 0 |
//!
//! | section | contents |
//! |---|---|
//! | `row_offsets` | u64, vertices + 1: from 0 to the number of edges, never falling |
//! | `column_indices` | u32, one an edge |
//! | `weights` | one an edge, of the type the header names; no such section for unit and hash |
//! | `file_ids` | u64, one a vertex: its id in the file that was converted. May be missing: it is the number of the vertex |
//! | `heads` | u32, a copy of the first neighbours of each vertex up to the last with edges: 1, 2, 4, 8 or 16 a vertex, as the bytes of the section say; `0xFFFFFFFF` where a row has fewer. May be missing |
//! | `original_ids` | u32, one a vertex: the id of the vertex that each row is of, where rows are in another order. Row offsets, column indices and heads count rows. May be missing: row r is that of vertex r |
//! | `reverse_offsets` | u64, vertices + 1: row offsets of the reverse of a directed graph. May be missing, with the next two |
//! | `reverse_columns` | u32, one an edge: for each row the rows that have an edge to it, rising |
//! | `reverse_heads` | as `heads`, of the reverse graph. May be missing |
//!
//! Sections of other names are skipped, so that later versions of the writer may add to a file that this reader opens.
//!
//! # What opening checks
//! All of header and table, the size of the file against them, and the row offsets. The edges are not read: opening
//! takes as long for a large graph as for a small one. [`LoadOptions::verify_file`] reads all the rest.

mod head;
pub(crate) mod stream;
mod write;

use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use bytemuck::AnyBitPattern;
use bytesize::ByteSize;
use gpuvm_engine::GraphError;
use gpuvm_engine::graph::{Csr, HostArray, Permutation, WeightType, Weights};
use rayon::prelude::*;

use crate::LoadedGraph;
use crate::assemble::with_rule;
use crate::error::LoadError;
use crate::header::FileHeader;
use crate::memory;
use crate::mmap::FileBytes;
use crate::options::{LoadOptions, WeightRule};
use crate::progress::Progress;
use crate::summary::LoadSummary;
use crate::weights::absolute;
use head::{ENTRY_BYTES, HEADER_BYTES, Head, MAGIC, SYMMETRIC};
pub use write::write_gvg;

const ROW_OFFSETS: &str = "row_offsets";
const COLUMN_INDICES: &str = "column_indices";
const WEIGHTS: &str = "weights";
const FILE_IDS: &str = "file_ids";
const HEADS: &str = "heads";
const ORIGINAL_IDS: &str = "original_ids";
const REVERSE_OFFSETS: &str = "reverse_offsets";
const REVERSE_COLUMNS: &str = "reverse_columns";
const REVERSE_HEADS: &str = "reverse_heads";
/// What a thread checksums or a write call takes at a time.
const CHUNK: usize = 4 << 20;

/// Whether bytes begin like a graph file: the part of the magic that survives a transfer as text.
pub(crate) fn is_gvg(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC[..4])
}

/// A section as an array: the file it lies in, mapped, and where.
struct Mapped<T> {
    file: Arc<FileBytes>,
    range: Range<usize>,
    element: PhantomData<fn() -> T>,
}

impl<T: AnyBitPattern> AsRef<[T]> for Mapped<T> {
    fn as_ref(&self) -> &[T] {
        // Both were tried before the array was made, and neither the range nor the address changes.
        self.file
            .get(self.range.clone())
            .and_then(|bytes| bytemuck::try_cast_slice(bytes).ok())
            .unwrap_or_default()
    }
}

/// Maps the sections of one file.
struct Sections<'a> {
    file: &'a Arc<FileBytes>,
    head: &'a Head,
    path: &'a Path,
}

impl Sections<'_> {
    fn array<T: AnyBitPattern + Send + Sync>(
        &self,
        name: &str,
        count: u64,
    ) -> Result<HostArray<T>, LoadError> {
        let section = self.head.section(name, count, size_of::<T>() as u32, self.path)?;
        let mapped = Mapped { file: Arc::clone(self.file), range: section.range(), element: PhantomData };
        let len = AsRef::<[T]>::as_ref(&mapped).len();
        if len as u64 != count {
            let reason = format!("section {name} lies where {} bytes cannot be read as one", size_of::<T>());
            return Err(LoadError::DamagedGvg { path: self.path.to_owned(), reason });
        }
        Ok(HostArray::from_owner(mapped))
    }

    fn has(&self, name: &str) -> bool {
        self.head.sections.iter().any(|section| section.name == name)
    }

    /// An array as long as its section, if there is one.
    fn of_any_length<T: AnyBitPattern + Send + Sync>(
        &self,
        name: &str,
    ) -> Result<Option<HostArray<T>>, LoadError> {
        let section = self.head.sections.iter().find(|section| section.name == name);
        section.map(|section| self.array(name, section.bytes / size_of::<T>() as u64)).transpose()
    }

    fn weights(&self) -> Result<Weights, LoadError> {
        let m = self.head.num_edges;
        Ok(match self.head.weight_type {
            WeightType::Unit => Weights::Unit,
            WeightType::Hash => Weights::Hash,
            WeightType::U8 => Weights::U8(self.array(WEIGHTS, m)?),
            WeightType::U16 => Weights::U16(self.array(WEIGHTS, m)?),
            WeightType::U32 => Weights::U32(self.array(WEIGHTS, m)?),
            WeightType::F32 => Weights::F32(self.array(WEIGHTS, m)?),
            WeightType::F64 => Weights::F64(self.array(WEIGHTS, m)?),
        })
    }
}

/// What header and table say, which are checked as a whole.
pub(crate) fn header(file: &[u8], path: &Path) -> Result<FileHeader, LoadError> {
    let Head { weight_type, file_bytes, num_vertices, num_edges, summary, .. } = Head::decode(file, path)?;
    Ok(FileHeader {
        format: summary.format,
        converted_from: summary.converted_from,
        rows: summary.rows,
        columns: summary.columns,
        field: summary.field,
        symmetry: summary.symmetry,
        stored_entries: summary.stored_entries,
        vertices: Some(num_vertices),
        edges: Some(num_edges),
        weight_type: Some(weight_type),
        file_bytes,
    })
}

/// Opens a graph file that begins with the magic.
pub(crate) fn open(
    file: Arc<FileBytes>,
    path: &Path,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<LoadedGraph, LoadError> {
    let started = Instant::now();
    if cfg!(target_endian = "big") {
        return Err(LoadError::ByteOrder { path: path.to_owned() });
    }
    let head = Head::decode(&file, path)?;
    refuse_options(&head.summary, options, path)?;
    let memory_bytes = options.memory_bytes.unwrap_or_else(memory::total_bytes);
    if head.file_bytes > memory_bytes {
        tracing::warn!(
            "{}: the file is {}, memory is {}: it is read from the disk as it is needed, again and again, at the disk's \
             speed",
            path.display(),
            ByteSize::b(head.file_bytes),
            ByteSize::b(memory_bytes)
        );
    }
    if options.verify_file {
        verify(&file, &head, path, progress)?;
    }
    let sections = Sections { file: &file, head: &head, path };
    let row_offsets = sections.array::<u64>(ROW_OFFSETS, head.num_vertices + 1)?;
    let column_indices = sections.array::<u32>(COLUMN_INDICES, head.num_edges)?;
    let weights = match options.weights {
        WeightRule::File => sections.weights()?,
        WeightRule::Abs => absolute(&sections.weights()?),
        _ => Weights::Unit,
    };
    let symmetric = head.flags & SYMMETRIC != 0 || symmetric_without_signs(&head.summary, options.weights);
    let mut csr = Csr::with_unread_columns(row_offsets, column_indices, weights, symmetric)
        .and_then(|csr| if options.verify_file { csr.check_column_indices().map(|()| csr) } else { Ok(csr) })
        .map_err(|source| LoadError::Graph { path: path.to_owned(), source })?;
    if let Some(ids) = sections.of_any_length::<u32>(ORIGINAL_IDS)? {
        let ordered = Permutation::new(ids).and_then(|permutation| csr.with_permutation(permutation));
        csr = ordered.map_err(|error| in_section(ORIGINAL_IDS, path, &error))?;
    }
    csr = with_rule(csr, options.weights)
        .map_err(|source| LoadError::Graph { path: path.to_owned(), source })?;
    csr = with_heads(csr, HEADS, &sections, options)?;
    if sections.has(REVERSE_OFFSETS) && !csr.is_symmetric() {
        let row_offsets = sections.array::<u64>(REVERSE_OFFSETS, head.num_vertices + 1)?;
        let columns = sections.array::<u32>(REVERSE_COLUMNS, head.num_edges)?;
        let reverse = Csr::with_unread_columns(row_offsets, columns, Weights::Unit, false)
            .and_then(
                |csr| if options.verify_file { csr.check_column_indices().map(|()| csr) } else { Ok(csr) },
            )
            .map_err(|error| in_section(REVERSE_OFFSETS, path, &error))?;
        let reverse = with_heads(reverse, REVERSE_HEADS, &sections, options)?;
        if options.verify_file {
            verify_reverse(&csr, &reverse, path)?;
        }
        csr = csr.with_kept_reverse(reverse).map_err(|error| in_section(REVERSE_OFFSETS, path, &error))?;
    }
    let ids = match sections.has(FILE_IDS) {
        true => Some(sections.array::<u64>(FILE_IDS, head.num_vertices)?.as_slice().into()),
        false => None,
    };
    let summary = LoadSummary { build_seconds: started.elapsed().as_secs_f64(), ..head.summary };
    Ok(LoadedGraph { csr, summary, ids })
}

/// The graph with the heads of a section, if there is one.
fn with_heads(
    mut csr: Csr,
    name: &str,
    sections: &Sections,
    options: &LoadOptions,
) -> Result<Csr, LoadError> {
    let wrong = |error| in_section(name, sections.path, &error);
    if let Some(heads) = sections.of_any_length::<u32>(name)? {
        csr = csr.with_kept_heads(heads).map_err(wrong)?;
        if options.verify_file
            && let Some(heads) = csr.heads()
        {
            heads.check(csr.row_offsets(), csr.column_indices()).map_err(wrong)?;
        }
    }
    Ok(csr)
}

/// Reverses the graph and compares.
fn verify_reverse(csr: &Csr, reverse: &Csr, path: &Path) -> Result<(), LoadError> {
    let wrong = |reason: &str| LoadError::DamagedGvg { path: path.to_owned(), reason: reason.to_owned() };
    let reversed = csr.reversed().map_err(|error| in_section(COLUMN_INDICES, path, &error))?;
    if reversed.row_offsets().as_slice() != reverse.row_offsets().as_slice() {
        return Err(wrong("section reverse_offsets: these are not the degrees of the reversed graph"));
    }
    if reversed.column_indices().as_slice() != reverse.column_indices().as_slice() {
        return Err(wrong("section reverse_columns: these are not the edges of the reversed graph"));
    }
    Ok(())
}

/// What is wrong with a section.
fn in_section(name: &str, path: &Path, error: &GraphError) -> LoadError {
    LoadError::DamagedGvg { path: path.to_owned(), reason: format!("section {name}: {error}") }
}

/// A skew-symmetric matrix is symmetric once the signs of its values do not count.
fn symmetric_without_signs(summary: &LoadSummary, rule: WeightRule) -> bool {
    let merged = summary.duplicates != 0 && rule == WeightRule::Abs; // the smaller of v and -w is not that of w and -v
    summary.symmetry == "skew-symmetric" && !summary.bipartite && rule != WeightRule::File && !merged
}

/// Refuses what would change the graph; what the file has already is no change.
fn refuse_options(summary: &LoadSummary, options: &LoadOptions, path: &Path) -> Result<(), LoadError> {
    let wanted = [
        ("--bipartite", options.bipartite, summary.bipartite),
        ("--symmetrize", options.symmetrize, summary.symmetrized),
        ("--keep-duplicates", options.keep_duplicates, summary.duplicates_kept),
        ("--keep-loops", options.keep_loops, summary.loops_kept),
    ];
    match wanted.into_iter().find(|&(_, asked, there)| asked && !there) {
        Some((option, ..)) => Err(LoadError::GvgOption { path: path.to_owned(), option }),
        None => Ok(()),
    }
}

/// Reads the whole file: every section against its checksum, every byte between them against zero.
fn verify(file: &FileBytes, head: &Head, path: &Path, progress: &dyn Progress) -> Result<(), LoadError> {
    progress.begin("verify", head.file_bytes);
    let verified = verify_sections(file, head, path, progress);
    progress.end();
    verified
}

fn verify_sections(
    file: &FileBytes,
    head: &Head,
    path: &Path,
    progress: &dyn Progress,
) -> Result<(), LoadError> {
    let mut end = HEADER_BYTES + head.sections.len() * ENTRY_BYTES;
    for section in &head.sections {
        let range = section.range();
        let padding = file.get(end..range.start).unwrap_or_default();
        if padding.iter().any(|&b| b != 0) {
            let reason = format!("the bytes before section {} are not zero", section.name);
            return Err(LoadError::DamagedGvg { path: path.to_owned(), reason });
        }
        progress.advance((range.start - end) as u64);
        end = range.end;
        let checksum =
            checksum(file.get(range).unwrap_or_default(), progress).ok_or(LoadError::Interrupted)?;
        if checksum != section.checksum {
            let section = format!("section {}", section.name);
            return Err(LoadError::Checksum { path: path.to_owned(), section });
        }
    }
    Ok(())
}

/// CRC-32C of bytes, on all threads; `None` if cancelled.
fn checksum(bytes: &[u8], progress: &dyn Progress) -> Option<u32> {
    let cancelled = AtomicBool::new(false);
    let (checksum, _) = bytes
        .par_chunks(CHUNK)
        .map(|chunk| {
            if cancelled.load(Relaxed) || progress.is_cancelled() {
                cancelled.store(true, Relaxed);
                return (0, 0);
            }
            progress.advance(chunk.len() as u64);
            (crc32c::crc32c(chunk), chunk.len())
        })
        .reduce(
            || (0, 0),
            |(first, first_len), (second, second_len)| {
                (crc32c::crc32c_combine(first, second, second_len), first_len + second_len)
            },
        );
    (!cancelled.into_inner()).then_some(checksum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_pieces_is_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..CHUNK * 2 + 12345).map(|i| ((i * i) >> 3) as u8).collect();
        assert_eq!(checksum(&bytes, &()), Some(crc32c::crc32c(&bytes)));
        assert_eq!(checksum(b"123456789", &()), Some(0xE306_9283)); // the check value of CRC-32C
    }
}
