//! `info --known`: the graphs that have a name.

use std::fmt::Write as _;

use anyhow::Result;
use gpuvm_datasets::KnownGraph;
use serde::Serialize;

use crate::output::JsonSink;
use crate::report::{self, Program, Report, SCHEMA, grouped};
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

/// Lists them.
pub fn list(json: &JsonTarget, quiet: bool) -> Result<()> {
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
        program: Program::new("info"),
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
