//! A graph file is written beside its place, synced and renamed: under its name it is always whole.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use super::head::{
    ALIGNMENT, BIPARTITE, DUPLICATES_KEPT, ENTRY_BYTES, HEADER_BYTES, Head, LOOPS_KEPT, SYMMETRIC,
    SYMMETRIZED, Section,
};
use super::{
    CHUNK, COLUMN_INDICES, FILE_IDS, HEADS, ORIGINAL_IDS, REVERSE_COLUMNS, REVERSE_HEADS, REVERSE_OFFSETS,
    ROW_OFFSETS, WEIGHTS, checksum,
};
use crate::LoadedGraph;
use crate::error::LoadError;
use crate::progress::Progress;
use crate::summary::LoadSummary;
use crate::write::draft::Draft;

/// Writes `graph` as a graph file and returns its size in bytes.
///
/// The file appears under its name when it is whole and on the disk, and not before: it is written beside it, synced
/// and renamed.
///
/// # Errors
/// [`LoadError::Write`] with the cause; [`LoadError::Interrupted`] when `progress` says so; [`LoadError::ByteOrder`] on
/// a big-endian machine.
pub fn write_gvg(path: &Path, graph: &LoadedGraph, progress: &dyn Progress) -> Result<u64, LoadError> {
    if cfg!(target_endian = "big") {
        return Err(LoadError::ByteOrder { path: path.to_owned() });
    }
    let (csr, summary) = (&graph.csr, &graph.summary);
    let mut contents: Vec<(&str, &[u8])> = vec![
        (ROW_OFFSETS, bytemuck::cast_slice(csr.row_offsets())),
        (COLUMN_INDICES, bytemuck::cast_slice(csr.column_indices())),
    ];
    if csr.weights().stored_len().is_some() {
        contents.push((WEIGHTS, csr.weights().as_bytes()));
    }
    if let Some(heads) = csr.heads().filter(|heads| heads.num_vertices() > 0) {
        contents.push((HEADS, bytemuck::cast_slice(heads.ids())));
    }
    if let Some(permutation) = csr.permutation() {
        contents.push((ORIGINAL_IDS, bytemuck::cast_slice(permutation.original_ids())));
    }
    if let Some(ids) = &graph.ids {
        contents.push((FILE_IDS, bytemuck::cast_slice(ids)));
    }
    if let Some(reverse) = csr.reverse() {
        contents.push((REVERSE_OFFSETS, bytemuck::cast_slice(reverse.row_offsets())));
        contents.push((REVERSE_COLUMNS, bytemuck::cast_slice(reverse.column_indices())));
        if let Some(heads) = reverse.heads().filter(|heads| heads.num_vertices() > 0) {
            contents.push((REVERSE_HEADS, bytemuck::cast_slice(heads.ids())));
        }
    }
    let total: u64 = contents.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    progress.begin("checksum", total);
    let sections = place(&contents, progress);
    progress.end();
    let sections = sections.ok_or(LoadError::Interrupted)?;
    let head = Head {
        flags: flags(summary) | if csr.is_symmetric() { SYMMETRIC } else { 0 },
        weight_type: csr.weights().weight_type(),
        file_bytes: sections.last().map_or(HEADER_BYTES as u64, |last| last.offset + last.bytes),
        num_vertices: csr.num_vertices(),
        num_edges: csr.num_edges(),
        summary: summary.clone(),
        sections,
    };
    progress.begin("write", total);
    let written = write(path, &head, &contents, progress);
    progress.end();
    written.map(|()| head.file_bytes)
}

/// The flags that a summary says.
pub(super) fn flags(summary: &LoadSummary) -> u32 {
    let flags = [
        (BIPARTITE, summary.bipartite),
        (SYMMETRIZED, summary.symmetrized),
        (DUPLICATES_KEPT, summary.duplicates_kept),
        (LOOPS_KEPT, summary.loops_kept),
    ];
    flags.into_iter().filter(|(_, set)| *set).fold(0, |flags, (flag, _)| flags | flag)
}

/// The table for sections of these contents; `None` if cancelled.
fn place(contents: &[(&str, &[u8])], progress: &dyn Progress) -> Option<Vec<Section>> {
    let mut end = (HEADER_BYTES + contents.len() * ENTRY_BYTES) as u64;
    let mut sections = Vec::new();
    for &(name, bytes) in contents {
        let offset = end.next_multiple_of(ALIGNMENT);
        end = offset + bytes.len() as u64;
        let checksum = checksum(bytes, progress)?;
        sections.push(Section { name: name.to_owned(), offset, bytes: bytes.len() as u64, checksum });
    }
    Some(sections)
}

fn write(
    path: &Path,
    head: &Head,
    contents: &[(&str, &[u8])],
    progress: &dyn Progress,
) -> Result<(), LoadError> {
    let error = |source| LoadError::Write { path: path.to_owned(), source };
    let mut draft = Draft::create(path)?;
    let file = draft.file();
    file.write_all(&head.encode()).map_err(error)?;
    for (section, (_, bytes)) in head.sections.iter().zip(contents) {
        file.seek(SeekFrom::Start(section.offset)).map_err(error)?;
        for chunk in bytes.chunks(CHUNK) {
            if progress.is_cancelled() {
                return Err(LoadError::Interrupted); // the temporary file goes with its owner
            }
            file.write_all(chunk).map_err(error)?;
            progress.advance(chunk.len() as u64);
        }
    }
    // A last section without bytes leaves the file short of where it begins.
    file.set_len(head.file_bytes).map_err(error)?;
    draft.keep()
}
