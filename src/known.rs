//! `datasets`, and `info --known`: the graphs that have a name, and whether a file holds one of them.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use gpuvm_datasets::{KnownGraph, NamedGraph};
use gpuvm_loaders::{LoadOptions, WeightRule, load};
use serde::Serialize;

use crate::args::DatasetsArgs;
use crate::named;
use crate::output::JsonSink;
use crate::progress::Watch;
use crate::report::{self, Program, Report, SCHEMA, Sheet, grouped};
use crate::settings::JsonTarget;

/// Families of generated graphs, and what they are.
const GENERATED: [(&str, &str); 3] = [
    ("gap-kron:SCALE", "2^SCALE vertices, power-law degrees, as GAP-kron; weights 1 to 255"),
    ("gap-urand:SCALE", "2^SCALE vertices, uniformly random, as GAP-urand; weights 1 to 255"),
    ("grid:WIDTHxHEIGHT", "each vertex with its four neighbours: a long diameter; weights 1"),
];

#[derive(Debug, Serialize)]
struct KnownReport {
    schema: u32,
    program: Program,
    known: Vec<Known>,
    families: Vec<Family>,
}

/// A graph of the SuiteSparse collection.
#[derive(Debug, Serialize)]
struct Known {
    name: &'static str,
    short_name: &'static str,
    group: &'static str,
    description: &'static str,
    vertices: u64,
    edges: u64,
    weights: &'static str,
    /// The name of the same graph made here, if it need not be downloaded.
    generated_as: Option<String>,
    archive: String,
    page: String,
}

#[derive(Debug, Serialize)]
struct Family {
    name: &'static str,
    description: &'static str,
}

/// A file that is not the graph that it should be: exit code 1.
#[derive(Debug)]
pub struct AnotherGraph {
    file: PathBuf,
    name: String,
    differences: String,
}

impl fmt::Display for AnotherGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not {}: {}", self.file.display(), self.name, self.differences)
    }
}

impl std::error::Error for AnotherGraph {}

#[derive(Debug, Serialize)]
struct CheckReport {
    schema: u32,
    program: Program,
    check: Check,
}

#[derive(Debug, Serialize)]
struct Check {
    file: PathBuf,
    name: String,
    vertices: Counts,
    edges: Counts,
    same: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Counts {
    expected: u64,
    found: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.expected == self.found {
            true => write!(f, "{}, as expected", grouped(self.found)),
            false => write!(f, "{}, expected {}", grouped(self.found), grouped(self.expected)),
        }
    }
}

/// Lists the graphs, or compares a file with one.
pub fn datasets(args: DatasetsArgs, quiet: bool, watch: &Watch) -> Result<()> {
    match &args.check {
        None => list("datasets", &args.json.into(), quiet),
        Some(file) => check(file, args.name, &args.json.into(), quiet, watch),
    }
}

/// Compares the counts of a file with those of the graph called `name`, or as the file is called.
fn check(file: &Path, name: Option<NamedGraph>, json: &JsonTarget, quiet: bool, watch: &Watch) -> Result<()> {
    let shown = file.display();
    let name = name.or_else(|| named::known_by_file_name(file).map(NamedGraph::Known)).ok_or_else(|| {
        anyhow!("{shown}: is not called like a known graph: give its name, as in datasets FS --check {shown}")
    })?;
    let counts = name.counts().ok_or_else(|| {
        anyhow!(
            "{name}: how many edges it has is not known without generating it; known are {} and grids",
            KnownGraph::all().iter().map(|known| known.short_name).collect::<Vec<_>>().join(", ")
        )
    })?;
    let json = JsonSink::create(json, Some(file))?;
    let options = LoadOptions { weights: WeightRule::Ignore, ..LoadOptions::default() };
    let csr = load(file, &options, watch)?.csr;
    let check = Check {
        file: file.to_owned(),
        name: name.to_string(),
        vertices: Counts { expected: counts.0, found: csr.num_vertices() },
        edges: Counts { expected: counts.1, found: csr.num_edges() },
        same: counts == (csr.num_vertices(), csr.num_edges()),
    };
    let different = (!check.same).then(|| AnotherGraph {
        file: file.to_owned(),
        name: name.to_string(),
        differences: format!("vertices {}; edges {}", check.vertices, check.edges),
    });
    report::deliver(&CheckReport { schema: SCHEMA, program: Program::new("datasets"), check }, json, quiet)?;
    different.map_or(Ok(()), |different| Err(different.into()))
}

impl Report for CheckReport {
    fn text(&self) -> String {
        let Check { file, name, vertices, edges, same } = &self.check;
        let mut sheet = Sheet::default();
        sheet.line("file", file.display());
        sheet.line("graph", name);
        sheet.line("vertices", vertices);
        sheet.line("edges", edges);
        let verdict = if *same { "same counts" } else { "another graph" };
        sheet.line("verdict", verdict);
        sheet.0
    }
}

/// Lists them.
pub fn list(command: &'static str, json: &JsonTarget, quiet: bool) -> Result<()> {
    let json = JsonSink::create(json, None)?;
    let known = KnownGraph::all().iter().map(|graph| Known {
        name: graph.name,
        short_name: graph.short_name,
        group: graph.group,
        description: graph.description,
        vertices: graph.num_vertices,
        edges: graph.num_edges,
        weights: graph.weights,
        generated_as: graph.generator.map(|generator| generator.to_string()),
        archive: graph.archive_name(),
        page: graph.page(),
    });
    let families = GENERATED.map(|(name, description)| Family { name, description });
    let report = KnownReport {
        schema: SCHEMA,
        program: Program::new(command),
        known: known.collect(),
        families: families.into(),
    };
    report::deliver(&report, json, quiet)
}

impl Report for KnownReport {
    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<14}{:<7}{:>13}{:>15}  {:<23}how",
            "name", "short", "vertices", "edges", "weights"
        );
        for graph in &self.known {
            let how = match &graph.generated_as {
                Some(generator) => format!("generated, as {generator}"),
                None => format!("download {} from {}", graph.archive, graph.page),
            };
            let _ = writeln!(
                text,
                "{:<14}{:<7}{:>13}{:>15}  {:<23}{how}",
                graph.name,
                graph.short_name,
                grouped(graph.vertices),
                grouped(graph.edges),
                graph.weights
            );
        }
        text.push('\n');
        for family in &self.families {
            let _ = writeln!(text, "{:<21}{}", family.name, family.description);
        }
        text
    }
}
