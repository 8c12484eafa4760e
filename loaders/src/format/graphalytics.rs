//! LDBC Graphalytics: the ids of the vertices in `NAME.v`, one a line, and the edges in `NAME.e`, `source target` or
//! `source target weight` (more properties of edges are not read). Ids are any numbers; vertex k is that of line k of the `.v` file.
//!
//! `NAME.properties`, if it is there, says whether the graph is directed (`graph.NAME.directed`); if it is not there, a
//! graph is undirected if its name says so (`example-undirected`). Each edge of an undirected graph is there once.
//!
//! Source: the LDBC Graphalytics benchmark specification, section 2.2.1, "Graph data format".

use std::path::{Path, PathBuf};

use super::id_map::IdMap;
use super::lines::{self, Columns, Ids, Lines};
use crate::builder::Batch;
use crate::error::{LoadError, Place};
use crate::number::{byte, skip_blanks, unsigned};
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Shape, Symmetry};
use crate::text::{Text, quote};

/// The other file of a `.v` or `.e` file.
pub(crate) fn other(path: &Path) -> Option<PathBuf> {
    match path.extension()?.to_str()? {
        "v" => Some(path.with_extension("e")),
        "e" => Some(path.with_extension("v")),
        _ => None,
    }
}

/// A graph in two files.
pub(crate) struct Graphalytics<'a> {
    edges: &'a Text<'a>,
    facts: Facts,
    lines: Lines,
    ids: Ids,
}

impl<'a> Graphalytics<'a> {
    pub(crate) fn open(
        vertices: &Text<'_>,
        edges: &'a Text<'a>,
        properties: Option<&[u8]>,
    ) -> Result<Self, LoadError> {
        let map = read_vertices(vertices)?;
        let bytes = edges.bytes;
        let body = lines::begin(bytes);
        let count = lines::first_line(bytes, body)
            .map_or(2, |line| lines::words(lines::line_at(bytes, line), None).len());
        let weighted = count >= 3;
        let stem = edges.path.file_stem().unwrap_or_default().to_string_lossy();
        let directed = properties
            .and_then(|properties| is_directed(properties, &stem))
            .unwrap_or_else(|| !stem.to_ascii_lowercase().contains("undirected"));
        let facts = Facts {
            path: edges.path(),
            format: "Graphalytics .v/.e".to_owned(),
            field: if weighted { Field::Number } else { Field::Pattern },
            symmetry: if directed { Symmetry::General } else { Symmetry::Symmetric },
            shape: Some(Shape::square(map.ids().len() as u64)),
            place: Place::default(),
            entries: 0,
            dense: None,
        };
        let columns = Columns::in_order(weighted);
        let lines = Lines { body, prefix: None, columns, has_others: count > 3 };
        Ok(Self { edges, facts, lines, ids: Ids::Names(map) })
    }
}

/// What the line `graph.NAME.directed = ...` says.
fn is_directed(properties: &[u8], name: &str) -> Option<bool> {
    let text = String::from_utf8_lossy(properties);
    let key = format!("graph.{name}.directed");
    let value = text.lines().find_map(|line| {
        let (left, right) = line.split_once('=')?;
        (left.trim() == key).then(|| right.trim().to_ascii_lowercase())
    })?;
    match value.as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn read_vertices(text: &Text<'_>) -> Result<IdMap, LoadError> {
    let bytes = text.bytes;
    let mut ids = Vec::new();
    let mut line = lines::begin(bytes);
    let what = "vertex";
    while let Some(begin) = lines::first_line(bytes, line) {
        let at = skip_blanks(bytes, begin);
        let (id, end) = unsigned(bytes, at);
        let end_of_line = skip_blanks(bytes, end);
        if end == at || byte(bytes, end_of_line) != b'\n' || id == u64::MAX {
            let (found, expected) = (text.line_text(begin), "one id: digits only");
            let (path, line) = (text.path(), text.line_number(begin));
            return Err(LoadError::NotANumber { path, line, what, found, expected });
        }
        ids.push(id);
        line = end_of_line + 1;
    }
    if ids.len() as u64 > gpuvm_engine::graph::MAX_VERTICES {
        let num_vertices = ids.len() as u64;
        let (rows, columns, line) = (num_vertices, num_vertices, Place::default());
        return Err(LoadError::TooManyVertices { path: text.path(), line, rows, columns, num_vertices });
    }
    IdMap::listed(ids).map_err(|index| {
        let mut line = lines::begin(bytes);
        let mut at = 0;
        for _ in 0..=index {
            at = lines::first_line(bytes, line).unwrap_or(bytes.len());
            line = lines::next_line(bytes, at);
        }
        let (path, id) = (text.path(), quote(lines::line_at(bytes, at)));
        LoadError::VertexTwice { path, line: text.line_number(at), id }
    })
}

impl EdgeSource for Graphalytics<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        (self.edges.bytes.len() - self.lines.body) as u64
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn pass(
        &self,
        pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        self.lines.pass(self.edges, &self.ids, pass, progress, take).map(|_| ())
    }

    fn original_ids(&self) -> Option<&[u64]> {
        self.ids.names()
    }
}
