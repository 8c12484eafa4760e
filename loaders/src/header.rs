//! What the head of a file says, without reading the rest.

use std::path::Path;

use gpuvm_engine::graph::WeightType;
use serde::Serialize;

use crate::archive;
use crate::error::LoadError;
use crate::format::sniff::sniff;
use crate::format::{Format, gvg, matrix_market};
use crate::mmap::FileBytes;
use crate::options::LoadOptions;
use crate::siblings::Siblings;
use crate::source::Facts;
use crate::text::Text;
use crate::{first_file, with_source};

/// What a file says of itself before its entries. None of it has been compared with the entries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileHeader {
    /// The format, wrappings first, as [`LoadSummary`](crate::LoadSummary) has it.
    pub format: String,
    /// For a `.gvg` file, the format that it was converted from.
    pub converted_from: Option<String>,
    /// Rows of the matrix.
    pub rows: u64,
    /// Columns of the matrix.
    pub columns: u64,
    /// What the values are.
    pub field: String,
    /// How the matrix is stored.
    pub symmetry: String,
    /// Entries of the file.
    pub stored_entries: u64,
    /// Vertices of the graph, where the file holds a graph as it is used: a `.gvg` file.
    pub vertices: Option<u64>,
    /// Edges of the graph, both directions counted, likewise.
    pub edges: Option<u64>,
    /// How its weights are held, likewise.
    pub weight_type: Option<WeightType>,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// Reads the head of the file at `path`. `None` if its format has none, as edge lists, or none that tells the size.
///
/// # Errors
/// [`LoadError`], by what is wrong with the head.
pub fn header(path: &Path, options: &LoadOptions) -> Result<Option<FileHeader>, LoadError> {
    let path = &first_file(path);
    let file = FileBytes::open(path)?;
    let file_bytes = file.len() as u64;
    if options.format.map_or_else(|| gvg::is_gvg(&file), |format| format == Format::Gvg) {
        return gvg::header(&file, path).map(Some);
    }
    let Some((head, is_part)) = archive::head(&file, path, options.member.as_deref())? else {
        return Ok(None);
    };
    let bytes = &*head.bytes;
    let format = match options.format {
        Some(format) => format,
        None => sniff(bytes, &head.name, path, Siblings::Disk)?,
    };
    let text = Text { bytes, path, file: None };
    let facts = match format {
        Format::MatrixMarket => Some(matrix_market::head_facts(&text, options)?),
        // A part of the file is not for others, which look at its size.
        _ if is_part => None,
        _ => Some(with_source(&text, format, Siblings::Disk, options, &(), |source| {
            Ok(source.facts().clone())
        })?),
    };
    Ok(facts.and_then(|facts| of_facts(&facts, &head.wrapping, file_bytes)))
}

fn of_facts(facts: &Facts, wrapping: &str, file_bytes: u64) -> Option<FileHeader> {
    let shape = facts.shape?;
    Some(FileHeader {
        format: format!("{wrapping}{}", facts.format),
        converted_from: None,
        rows: shape.rows,
        columns: shape.columns,
        field: facts.field.name().to_owned(),
        symmetry: facts.symmetry.name().to_owned(),
        stored_entries: facts.entries,
        vertices: None,
        edges: None,
        weight_type: None,
        file_bytes,
    })
}
