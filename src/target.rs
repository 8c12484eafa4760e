//! The graph file that a command writes: checked before the work, there when it is whole.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Error, Result, anyhow, bail};
use bytesize::ByteSize;
use gpuvm_engine::graph::{Csr, VertexId};
use gpuvm_loaders::{LoadError, LoadedGraph, OutputFormat, write_graph};
use rayon::prelude::*;
use serde::Serialize;

use crate::output::{Draft, refuse_same_file};
use crate::progress::Watch;
use crate::report::{Sheet, count, grouped};

/// A graph file that can be written and is not there yet, or may be replaced.
pub struct Target<'a> {
    path: &'a Path,
    format: OutputFormat,
    draft: Draft,
}

/// What was written.
#[derive(Debug, Serialize)]
pub struct WrittenReport {
    pub output: PathBuf,
    /// The format, by its extension.
    pub output_format: String,
    pub bytes_written: u64,
    pub write_seconds: f64,
    /// The last vertices have no edges, and the format cannot name them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vertices_left_out: Option<u64>,
}

impl<'a> Target<'a> {
    /// Checks that `path` can be written; the format is `to`, or that of the extension.
    pub fn new(path: &'a Path, to: Option<OutputFormat>, force: bool, input: Option<&Path>) -> Result<Self> {
        let shown = path.display();
        let format = to.or_else(|| OutputFormat::of_path(path)).ok_or_else(|| {
            anyhow!(
                "{shown}: the name of the file to write must end in .gvg, .mtx, .el, .wel, .sg or .wsg, or --to must \
                 name one of them"
            )
        })?;
        if let Some(input) = input {
            refuse_same_file(path, input)?;
        }
        if path.exists() && !path.is_dir() && !force {
            bail!("{shown}: is there already, use --force to replace it");
        }
        Ok(Self { path, format, draft: Draft::create(path)? })
    }

    /// The format that will be written.
    pub fn format(&self) -> OutputFormat {
        self.format
    }

    /// Writes `graph`.
    pub fn write(self, graph: &LoadedGraph, watch: &Watch) -> Result<WrittenReport> {
        let left_out = if self.format.loses_last_vertices() { last_isolated(&graph.csr) } else { 0 };
        self.write_by(left_out, watch, |path, format| write_graph(path, format, graph, watch))
    }

    /// Has `write` write the file, which it is told the temporary name of, and gives it its name.
    pub fn write_by(
        self,
        vertices_left_out: u64,
        watch: &Watch,
        write: impl FnOnce(&Path, OutputFormat) -> Result<u64, LoadError>,
    ) -> Result<WrittenReport> {
        watch.interrupt.check()?;
        let started = Instant::now();
        let shown = self.path.display();
        let draft = self.draft.temporary_path();
        let bytes_written = write(draft, self.format).map_err(|error| match error {
            // Not the name of the draft, which nobody has typed.
            LoadError::Write { path, source } if path == draft => {
                Error::new(source).context(format!("{shown}: cannot be written"))
            }
            LoadError::NoGapWeight { weight, .. } => {
                LoadError::NoGapWeight { path: self.path.to_owned(), weight }.into()
            }
            LoadError::TooLargeForGap { num_vertices, .. } => {
                LoadError::TooLargeForGap { path: self.path.to_owned(), num_vertices }.into()
            }
            error => error.into(),
        })?;
        watch.interrupt.check()?;
        self.draft.keep()?;
        Ok(WrittenReport {
            output: self.path.to_owned(),
            output_format: self.format.to_string(),
            bytes_written,
            write_seconds: started.elapsed().as_secs_f64(),
            vertices_left_out: Some(vertices_left_out).filter(|&n| n > 0),
        })
    }
}

/// Vertices after the last that has an edge, out or in.
fn last_isolated(csr: &Csr) -> u64 {
    let n = csr.num_vertices();
    let last_out = (0..n as VertexId).into_par_iter().rev().find_first(|&u| csr.out_degree(u) > 0);
    let last_in = csr.column_indices().par_iter().max().copied();
    n - last_out.max(last_in).map_or(0, |last| u64::from(last) + 1).min(n)
}

impl WrittenReport {
    pub fn describe(&self, sheet: &mut Sheet) {
        sheet.line("output", self.output.display());
        let bytes = self.bytes_written;
        sheet.more(format_args!("{}, {} bytes ({})", self.output_format, grouped(bytes), ByteSize::b(bytes)));
        if let Some(vertices) = self.vertices_left_out {
            sheet.more(format_args!(
                "without the last {}, which have no edges and which a .{} cannot name",
                count(vertices, "vertex", "vertices"),
                self.output_format
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use gpuvm_engine::graph::Weights;

    use super::*;

    #[test]
    fn vertices_after_the_last_edge_out_or_in_are_counted() {
        let csr = |offsets: Vec<u64>, columns: Vec<u32>| {
            Csr::new(offsets, columns, Weights::Unit, false).expect("valid")
        };
        assert_eq!(last_isolated(&csr(vec![0, 0, 1, 1, 1], vec![0])), 2);
        assert_eq!(last_isolated(&csr(vec![0, 1, 1, 1, 1], vec![2])), 1);
        assert_eq!(last_isolated(&csr(vec![0, 0, 0], vec![])), 2);
        assert_eq!(last_isolated(&csr(vec![0], vec![])), 0);
    }
}
