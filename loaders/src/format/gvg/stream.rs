//! A graph file written from sorted edges that come piece by piece, none of which has to be in memory with another.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use gpuvm_engine::graph::{VertexId, WeightType};

use super::head::{ALIGNMENT, ENTRY_BYTES, HEADER_BYTES, Head, SYMMETRIC, Section};
use super::write::flags;
use super::{CHUNK, COLUMN_INDICES, ROW_OFFSETS, WEIGHTS};
use crate::error::LoadError;
use crate::progress::Progress;
use crate::summary::LoadSummary;
use crate::write::draft::Draft;

/// Edges that follow each other in the order of rows and columns.
#[derive(Debug, Default)]
pub(crate) struct EdgePiece {
    /// Each row that has edges here, and how many.
    pub rows: Vec<(VertexId, u32)>,
    /// Column indices, as the file has them.
    pub columns: Vec<u8>,
    /// Weights, as the file has them.
    pub weights: Vec<u8>,
    /// CRC-32C of the columns and of the weights.
    pub checksums: [u32; 2],
}

impl EdgePiece {
    /// Takes the checksums, once all edges are there.
    pub(crate) fn seal(&mut self) {
        self.checksums = [crc32c::crc32c(&self.columns), crc32c::crc32c(&self.weights)];
    }
}

/// A section that grows at its end.
struct Growing {
    offset: u64,
    bytes: u64,
    checksum: u32,
}

impl Growing {
    fn append(&mut self, file: &mut File, bytes: &[u8], checksum: u32) -> io::Result<()> {
        file.seek(SeekFrom::Start(self.offset + self.bytes))?;
        file.write_all(bytes)?;
        self.checksum = crc32c::crc32c_combine(self.checksum, checksum, bytes.len());
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn section(&self, name: &str, offset: u64) -> Section {
        Section { name: name.to_owned(), offset, bytes: self.bytes, checksum: self.checksum }
    }
}

/// The file as far as it is written. Row offsets and column indices grow in their places; where the weights begin is known
/// when all edges are there, so until then they are in a file without a name.
pub(crate) struct StreamWriter {
    path: PathBuf,
    draft: Draft,
    num_vertices: u64,
    num_edges: u64,
    /// Row offsets written or in `pending`.
    num_offsets: u64,
    pending: Vec<u8>,
    row_offsets: Growing,
    columns: Growing,
    weights: Growing,
    weight_file: Option<File>,
}

impl StreamWriter {
    /// A file for `path`, which may have to hold weights until the end in a file in `temp_dir`.
    pub(crate) fn create(
        path: &Path,
        temp_dir: &Path,
        num_vertices: u64,
        weight_type: WeightType,
    ) -> Result<Self, LoadError> {
        if cfg!(target_endian = "big") {
            return Err(LoadError::ByteOrder { path: path.to_owned() });
        }
        let num_sections = if weight_type.bytes() > 0 { 3 } else { 2 };
        let weight_file = (weight_type.bytes() > 0)
            .then(|| tempfile::tempfile_in(temp_dir))
            .transpose()
            .map_err(|source| LoadError::Write { path: temp_dir.to_owned(), source })?;
        let head = (HEADER_BYTES + num_sections * ENTRY_BYTES) as u64;
        let row_offsets = head.next_multiple_of(ALIGNMENT);
        let columns = (row_offsets + (num_vertices + 1) * 8).next_multiple_of(ALIGNMENT);
        let growing = |offset| Growing { offset, bytes: 0, checksum: 0 };
        Ok(Self {
            path: path.to_owned(),
            draft: Draft::create(path)?,
            num_vertices,
            num_edges: 0,
            num_offsets: 0,
            pending: Vec::new(),
            row_offsets: growing(row_offsets),
            columns: growing(columns),
            weights: growing(0),
            weight_file,
        })
    }

    fn error(&self) -> impl Fn(io::Error) -> LoadError + use<> {
        let path = self.path.clone();
        move |source| LoadError::Write { path: path.clone(), source }
    }

    /// Appends edges, none of which comes before one that was appended.
    pub(crate) fn push(&mut self, piece: &EdgePiece) -> Result<(), LoadError> {
        let error = self.error();
        for &(row, count) in &piece.rows {
            self.fill_offsets(u64::from(row) + 1)?;
            self.num_edges += u64::from(count);
        }
        let [columns, weights] = piece.checksums;
        self.columns.append(self.draft.file(), &piece.columns, columns).map_err(&error)?;
        if let Some(file) = &mut self.weight_file {
            self.weights.append(file, &piece.weights, weights).map_err(&error)?;
        }
        Ok(())
    }

    /// Row offsets up to number `end`: rows without edges begin where the next edge will be.
    fn fill_offsets(&mut self, end: u64) -> Result<(), LoadError> {
        while self.num_offsets < end {
            self.pending.extend(self.num_edges.to_le_bytes());
            self.num_offsets += 1;
            if self.pending.len() >= CHUNK {
                self.write_offsets()?;
            }
        }
        Ok(())
    }

    fn write_offsets(&mut self) -> Result<(), LoadError> {
        let checksum = crc32c::crc32c(&self.pending);
        let error = self.error();
        self.row_offsets.append(self.draft.file(), &self.pending, checksum).map_err(error)?;
        self.pending.clear();
        Ok(())
    }

    /// Edges so far.
    pub(crate) fn num_edges(&self) -> u64 {
        self.num_edges
    }

    /// Writes the rest, gives the file its name and returns its size.
    pub(crate) fn finish(
        mut self,
        summary: &LoadSummary,
        weight_type: WeightType,
        symmetric: bool,
        progress: &dyn Progress,
    ) -> Result<u64, LoadError> {
        self.fill_offsets(self.num_vertices + 1)?;
        self.write_offsets()?;
        let error = self.error();
        let mut sections = vec![
            self.row_offsets.section(ROW_OFFSETS, self.row_offsets.offset),
            self.columns.section(COLUMN_INDICES, self.columns.offset),
        ];
        let mut end = self.columns.offset + self.columns.bytes;
        if let Some(mut weight_file) = self.weight_file.take() {
            let offset = end.next_multiple_of(ALIGNMENT);
            sections.push(self.weights.section(WEIGHTS, offset));
            end = offset + self.weights.bytes;
            progress.begin("weights", self.weights.bytes);
            let copied = copy(&mut weight_file, self.draft.file(), offset, &error, progress);
            progress.end();
            copied?;
        }
        let symmetric = if symmetric { SYMMETRIC } else { 0 };
        let head = Head {
            flags: flags(summary) | symmetric,
            weight_type,
            file_bytes: end,
            num_vertices: self.num_vertices,
            num_edges: self.num_edges,
            summary: summary.clone(),
            sections,
        };
        let file = self.draft.file();
        file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&head.encode())).map_err(&error)?;
        file.set_len(end).map_err(&error)?;
        self.draft.keep()?;
        Ok(end)
    }
}

/// Copies all of `from` to `offset` of `to`.
fn copy(
    from: &mut File,
    to: &mut File,
    offset: u64,
    error: &impl Fn(io::Error) -> LoadError,
    progress: &dyn Progress,
) -> Result<(), LoadError> {
    let mut buffer = vec![0; CHUNK];
    from.seek(SeekFrom::Start(0)).and_then(|_| to.seek(SeekFrom::Start(offset))).map_err(error)?;
    loop {
        if progress.is_cancelled() {
            return Err(LoadError::Interrupted);
        }
        match from.read(&mut buffer).map_err(error)? {
            0 => return Ok(()),
            len => {
                to.write_all(&buffer[..len]).map_err(error)?;
                progress.advance(len as u64);
            }
        }
    }
}
