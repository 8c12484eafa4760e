//! `info`: what a person wants to know of a graph.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use anyhow::Result;
use bytesize::ByteSize;
use gpuvm_engine::graph::{Csr, VertexId, WeightRange, Weights};
use gpuvm_loaders::{FileHeader, LoadError, LoadOptions, LoadedGraph, WeightRule, header};
use rayon::prelude::*;
use serde::Serialize;

use crate::args::InfoArgs;
use crate::known;
use crate::named::{self, Opened};
use crate::output::JsonSink;
use crate::progress::Watch;
use crate::report::{self, GraphReport, Program, Report, SCHEMA, Sheet, Timings, count, grouped};
use crate::settings;

#[derive(Debug, Serialize)]
struct InfoReport {
    schema: u32,
    program: Program,
    graph: GraphReport,
    weights: WeightReport,
    degree: DegreeReport,
    isolated_vertices: u64,
    self_loop_edges: u64,
    bytes: SizeReport,
    page_size_bytes: u64,
    pages: u64,
    timings: Timings,
}

/// What the head of a file says, of which nothing more was read.
#[derive(Debug, Serialize)]
struct HeaderReport {
    schema: u32,
    program: Program,
    path: PathBuf,
    header: FileHeader,
}

#[derive(Debug, Serialize)]
struct WeightReport {
    /// Smallest and largest; none without edges, or if weights cannot be had.
    #[serde(flatten)]
    range: Option<WeightRange>,
    /// Why there are no weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    unusable: Option<String>,
}

/// Outgoing edges a vertex.
#[derive(Debug, Default, PartialEq, Serialize)]
struct DegreeReport {
    min: u64,
    mean: f64,
    max: u64,
    /// A vertex of the largest degree, the smallest of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_vertex: Option<VertexId>,
    histogram: Vec<DegreeBucket>,
}

#[derive(Debug, PartialEq, Serialize)]
struct DegreeBucket {
    from: u64,
    to: u64,
    vertices: u64,
}

#[derive(Debug, Serialize)]
struct SizeReport {
    row_offsets: u64,
    column_indices: u64,
    weights: u64,
    segments: u64,
    total: u64,
}

/// Looks at a graph and tells.
pub fn info(args: InfoArgs, quiet: bool, watch: &Watch) -> Result<()> {
    let Some(graph) = args.graph else { return known::list("info", &args.json.into(), quiet) };
    let json = JsonSink::create(&args.json.into(), Some(&graph))?;
    let started = Instant::now();
    let options = settings::load_options(&args.load, args.weights.weights);
    // To verify a file is to read it.
    if !(args.full || args.load.verify_file)
        && graph.is_file()
        && let Some(header) = header(&graph, &options)?
    {
        let report = HeaderReport { schema: SCHEMA, program: Program::new("info"), path: graph, header };
        return report::deliver(&report, json, quiet);
    }
    let mut unusable = None;
    let cache_dir = args.load.cache_dir.as_deref();
    let opened =
        named::open(&graph, &options, cache_dir, watch).or_else(|error| match error.downcast_ref() {
            // The graph is as good without them.
            Some(
                LoadError::ComplexWeights { .. }
                | LoadError::NotFinite { .. }
                | LoadError::TooLargeInteger { .. },
            ) => {
                unusable = Some(error.to_string());
                let without = LoadOptions { weights: WeightRule::Ignore, ..options };
                named::open(&graph, &without, cache_dir, watch)
            }
            _ => Err(error),
        });
    let Opened { graph: LoadedGraph { csr, summary, .. }, cache } = opened?;
    let timings = Timings::of_load(started.elapsed(), &summary);
    watch.interrupt.check()?;

    let page_size_bytes = args.page.page_size.bytes();
    let columns = csr.column_indices().size_bytes();
    let weights = csr.weights().as_bytes().len() as u64;
    let row_offsets = csr.row_offsets().size_bytes();
    // As a run cuts them that uses the weights: no segment crosses a page of either array.
    let chunk_edges = page_size_bytes / u64::from(csr.weights().weight_type().bytes().max(4));
    let segments = csr.num_edges().div_ceil(chunk_edges) * size_of::<VertexId>() as u64;
    let report = InfoReport {
        schema: SCHEMA,
        program: Program::new("info"),
        weights: WeightReport { range: if unusable.is_some() { None } else { weight_range(&csr) }, unusable },
        degree: degrees(&csr),
        isolated_vertices: isolated_vertices(&csr),
        self_loop_edges: vertices(&csr)
            .map(|u| csr.neighbors(u).iter().filter(|&&v| v == u).count() as u64)
            .sum(),
        bytes: SizeReport {
            row_offsets,
            column_indices: columns,
            weights,
            segments,
            total: row_offsets + columns + weights + segments,
        },
        page_size_bytes,
        pages: columns.div_ceil(page_size_bytes) + weights.div_ceil(page_size_bytes),
        graph: GraphReport::new(&graph, &csr, summary, cache),
        timings,
    };
    report::deliver(&report, json, quiet)
}

fn vertices(csr: &Csr) -> rayon::range::Iter<VertexId> {
    (0..csr.num_vertices() as VertexId).into_par_iter()
}

/// Range of the weights, those of the rules without storage included.
fn weight_range(csr: &Csr) -> Option<WeightRange> {
    let hashed = |u: VertexId| csr.neighbors(u).iter().map(move |&v| f64::from(Weights::hash8(u, v)));
    match csr.weights() {
        _ if csr.num_edges() == 0 => None,
        Weights::Unit => Some(WeightRange { min: 1.0, max: 1.0 }),
        Weights::Hash => csr
            .par_rows()
            .flat_map_iter(hashed)
            .map(|w| WeightRange { min: w, max: w })
            .reduce_with(|a, b| WeightRange { min: a.min.min(b.min), max: a.max.max(b.max) }),
        stored => stored.stored_range(),
    }
}

fn degrees(csr: &Csr) -> DegreeReport {
    /// Degree 0, then one for each power of two that a 64-bit degree can reach.
    const BUCKETS: usize = 65;
    let Some(max_vertex) = csr.max_degree_vertex() else { return DegreeReport::default() };
    let bucket = |degree: u64| (u64::BITS - degree.leading_zeros()) as usize;
    let counts = vertices(csr)
        .fold(
            || [0_u64; BUCKETS],
            |mut counts, u| {
                counts[bucket(csr.out_degree(u))] += 1;
                counts
            },
        )
        .reduce(
            || [0; BUCKETS],
            |mut a, b| {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                a
            },
        );
    let max = csr.out_degree(max_vertex);
    let range = |i: usize| if i == 0 { (0, 0) } else { (1 << (i - 1), u64::MAX >> (64 - i)) };
    DegreeReport {
        min: vertices(csr).map(|u| csr.out_degree(u)).min().unwrap_or_default(),
        mean: csr.num_edges() as f64 / csr.num_vertices() as f64,
        max,
        max_vertex: Some(max_vertex),
        histogram: (0..=bucket(max))
            .map(|i| DegreeBucket { from: range(i).0, to: range(i).1, vertices: counts[i] })
            .collect(),
    }
}

/// Vertices without an edge, out or in.
fn isolated_vertices(csr: &Csr) -> u64 {
    let without_edge_out = |u: &VertexId| csr.out_degree(*u) == 0;
    if csr.is_symmetric() {
        return vertices(csr).filter(without_edge_out).count() as u64;
    }
    let has_edge_in: Vec<AtomicBool> = vertices(csr).map(|_| AtomicBool::new(false)).collect();
    csr.column_indices()
        .par_iter()
        .filter_map(|&v| has_edge_in.get(v as usize))
        .for_each(|v| v.store(true, Relaxed));
    let without_edge_in = |u: &VertexId| !has_edge_in[*u as usize].load(Relaxed);
    vertices(csr).filter(without_edge_out).filter(without_edge_in).count() as u64
}

impl Report for HeaderReport {
    fn text(&self) -> String {
        let FileHeader { format, converted_from, rows, columns, field, symmetry, .. } = &self.header;
        let mut sheet = Sheet::default();
        sheet.line("graph", self.path.display());
        let from = converted_from.as_ref().map_or_else(String::new, |format| format!(" from {format}"));
        sheet.more(format_args!("{format}{from}, {field} {symmetry}"));
        sheet.more(format_args!(
            "{}, {}, {}",
            count(*rows, "row", "rows"),
            count(*columns, "column", "columns"),
            count(self.header.stored_entries, "stored entry", "stored entries")
        ));
        if let (Some(vertices), Some(edges)) = (self.header.vertices, self.header.edges) {
            sheet.more(format_args!(
                "{}, {}, both directions counted",
                count(vertices, "vertex", "vertices"),
                count(edges, "edge", "edges")
            ));
        }
        if let Some(weight_type) = self.header.weight_type {
            sheet.line("weights", weight_type);
        }
        let bytes = self.header.file_bytes;
        sheet.line("file", format_args!("{} bytes ({})", grouped(bytes), ByteSize::b(bytes)));
        sheet.line("more", "--full reads the file: edges, degrees, weights, pages");
        sheet.0
    }
}

impl Report for InfoReport {
    fn text(&self) -> String {
        let mut sheet = Sheet::default();
        self.graph.describe(&mut sheet);
        match (&self.weights.unusable, self.weights.range) {
            (Some(reason), _) => sheet.line("weights", format_args!("none: {reason}")),
            (None, None) => sheet.line("weights", self.graph.weight_type),
            (None, Some(range)) => {
                sheet.line(
                    "weights",
                    format_args!("{}, {} to {}", self.graph.weight_type, range.min, range.max),
                );
            }
        }
        let degree = &self.degree;
        sheet.line(
            "out-degree",
            format_args!("min {}, mean {:.2}, max {}", grouped(degree.min), degree.mean, grouped(degree.max)),
        );
        for bucket in &degree.histogram {
            let range = match bucket.to - bucket.from {
                0 => grouped(bucket.from),
                _ => format!("{} to {}", grouped(bucket.from), grouped(bucket.to)),
            };
            sheet.more(format_args!("{range:>32}  {}", count(bucket.vertices, "vertex", "vertices")));
        }
        sheet.line("isolated", count(self.isolated_vertices, "vertex", "vertices"));
        sheet.line("self-loops", count(self.self_loop_edges, "edge", "edges"));
        let bytes = &self.bytes;
        let size =
            |name: &str, bytes: u64| format!("{name:<16}{:>18}  {}", grouped(bytes), ByteSize::b(bytes));
        sheet.line("bytes", size("row offsets", bytes.row_offsets));
        sheet.more(size("column indices", bytes.column_indices));
        sheet.more(size("weights", bytes.weights));
        sheet.more(size("segments", bytes.segments));
        sheet.more(size("total", bytes.total));
        sheet.line("pages", format_args!("{} of {}", grouped(self.pages), ByteSize::b(self.page_size_bytes)));
        sheet.line("time", &self.timings);
        sheet.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_are_counted_by_powers_of_two() {
        // Degrees 0, 1, 2, 3 and 4.
        let csr = Csr::new(vec![0, 0, 1, 3, 6, 10], vec![0; 10], Weights::Unit, false).expect("valid");
        let degree = degrees(&csr);
        assert_eq!((degree.min, degree.mean, degree.max, degree.max_vertex), (0, 2.0, 4, Some(4)));
        let histogram: Vec<_> = degree.histogram.iter().map(|b| (b.from, b.to, b.vertices)).collect();
        assert_eq!(histogram, [(0, 0, 1), (1, 1, 1), (2, 3, 2), (4, 7, 1)]);
    }

    #[test]
    fn isolated_vertices_have_no_edge_out_or_in() {
        // 0 -> 1; 2 and 3 apart, 3 with an edge to itself.
        let csr = Csr::new(vec![0, 1, 1, 1, 2], vec![1, 3], Weights::Unit, false).expect("valid");
        assert_eq!(isolated_vertices(&csr), 1);
    }

    #[test]
    fn graph_without_vertices_has_no_degrees() {
        let csr = Csr::new(vec![0], vec![], Weights::Unit, false).expect("valid");
        assert_eq!(degrees(&csr), DegreeReport::default());
        assert_eq!(isolated_vertices(&csr), 0);
    }

    #[test]
    fn range_of_hashed_weights_is_that_of_the_edges() {
        let csr = Csr::new(vec![0, 1, 2], vec![1, 0], Weights::Hash, true).expect("valid");
        let weight = f64::from(Weights::hash8(0, 1));
        assert_eq!(weight_range(&csr), Some(WeightRange { min: weight, max: weight }));
    }
}
