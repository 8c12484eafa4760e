//! A graph file is written beside its place, synced and renamed: under its name it is always whole.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::head::{
    ALIGNMENT, BIPARTITE, DUPLICATES_KEPT, ENTRY_BYTES, HEADER_BYTES, Head, LOOPS_KEPT, SYMMETRIC,
    SYMMETRIZED, Section,
};
use super::{CHUNK, COLUMN_INDICES, IDS, ROW_OFFSETS, WEIGHTS, checksum};
use crate::LoadedGraph;
use crate::error::LoadError;
use crate::progress::Progress;

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
    if let Some(ids) = &graph.ids {
        contents.push((IDS, bytemuck::cast_slice(ids)));
    }
    let total: u64 = contents.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    progress.begin("checksum", total);
    let sections = place(&contents, progress);
    progress.end();
    let sections = sections.ok_or(LoadError::Interrupted)?;
    let flags = [
        (SYMMETRIC, csr.is_symmetric()),
        (BIPARTITE, summary.bipartite),
        (SYMMETRIZED, summary.symmetrized),
        (DUPLICATES_KEPT, summary.duplicates_kept),
        (LOOPS_KEPT, summary.loops_kept),
    ];
    let head = Head {
        flags: flags.into_iter().filter(|(_, set)| *set).fold(0, |flags, (flag, _)| flags | flag),
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
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".gpuvm-").suffix(".gvg.part");
    #[cfg(unix)]
    {
        // As any new file, subject to the umask; a temporary file would be for its owner only.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(&folder).map_err(error)?;
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
    file.as_file().set_len(head.file_bytes).map_err(error)?;
    file.as_file().sync_all().map_err(error)?;
    file.persist(path).map_err(|failed| error(failed.error))?;
    // The new name is on the disk only when its folder is; some file systems cannot say so, which is no failure.
    if let Ok(folder) = File::open(&folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}
