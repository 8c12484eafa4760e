//! Graphs with answers made by other programs (numpy, scipy, igraph): `datasets/graphs/expected/*.json`, and more of
//! the same layout in the folder that the environment variable `GPUVM_DATASETS` names.
#![allow(dead_code, reason = "each test program uses its part")]

use std::fs;
use std::path::{Path, PathBuf};

use gpuvm_engine::graph::Csr;
use gpuvm_engine::{Distances, UNREACHED};
use gpuvm_loaders::{LoadOptions, WeightRule};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A graph file and what is expected of it.
pub struct Expected {
    pub name: String,
    pub path: PathBuf,
    pub json: Value,
}

/// A small graph of each other format; that the rest of them load as they must, the tests of the loaders see.
const OTHER_FORMATS: [&str; 11] = [
    "gap/4.el",
    "gap/4.wel",
    "gap/4.gr",
    "gap/4w.graph",
    "gap/4.sg",
    "gap/4.wsg",
    "graphalytics/example-directed.v",
    "graphalytics/example-undirected.v",
    "mat/jgl009.mat",
    "metis/tiny_03.graph",
    "rb/lap_25.rb",
];

/// Every Matrix Market graph that must load and one of each other format, small ones first.
pub fn graphs() -> Vec<Expected> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/graphs");
    let mut graphs: Vec<Expected> = Vec::new();
    let folders = std::iter::once(repository).chain(std::env::var_os("GPUVM_DATASETS").map(PathBuf::from));
    // A test program that was built elsewhere finds the repository's graphs through the variable alone.
    for folder in folders.filter(|folder| folder.join("expected").is_dir()) {
        for entry in fs::read_dir(folder.join("expected")).expect("a folder of expected answers") {
            let text = fs::read_to_string(entry.expect("readable").path()).expect("readable");
            let json: Value = serde_json::from_str(&text).expect("JSON");
            let is_matrix_market =
                json["format"].as_str().is_some_and(|format| format.contains("Matrix Market"));
            let Some(name) = json["file"].as_str().map(str::to_owned) else { continue };
            if !is_matrix_market && !OTHER_FORMATS.contains(&name.as_str()) {
                continue;
            }
            let path = folder.join(&name);
            if path.exists() && graphs.iter().all(|known| known.name != name) {
                graphs.push(Expected { name, path, json });
            }
        }
    }
    graphs.sort_by_key(|graph| (graph.json["expanded_entries"].as_u64(), graph.name.clone()));
    assert!(graphs.len() >= 20, "the repository holds the graphs");
    graphs
}

impl Expected {
    /// The graph in one of the views, `directed` or `undirected`.
    pub fn load(&self, view: &str, weights: WeightRule) -> Csr {
        let options = LoadOptions {
            weights,
            bipartite: self.json["rectangular_as_bipartite"].as_bool().unwrap_or(false),
            symmetrize: view == "undirected",
            ..LoadOptions::default()
        };
        gpuvm_loaders::load(&self.path, &options, &()).unwrap_or_else(|e| panic!("{}: {e}", self.name)).csr
    }

    /// Source and expected results of each run in a view.
    pub fn runs(&self, view: &str) -> impl Iterator<Item = (u32, &Value)> {
        let runs = self.json[view].as_array().expect("runs");
        runs.iter().map(|run| (run["source"].as_u64().expect("a vertex") as u32, run))
    }
}

/// What `expected-pagerank.json` says of a view of the graph; null if nothing.
pub fn ranks_of<'a>(all: &'a Value, graph: &Expected, view: &str) -> &'a Value {
    &all[&graph.name][view]
}

/// The whole of `expected-pagerank.json`.
pub fn page_ranks() -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/graphs");
    // A test program that was built elsewhere finds the repository's graphs through the variable.
    let other = std::env::var_os("GPUVM_DATASETS").map(PathBuf::from);
    let mut files = std::iter::once(folder).chain(other).map(|folder| folder.join("expected-pagerank.json"));
    let file = files.find(|file| file.exists()).expect("the repository holds the ranks");
    serde_json::from_str(&fs::read_to_string(file).expect("readable")).expect("JSON")
}

/// Checks ranks: all of them through sums, and some by themselves. `bound` is how far they may be off in all.
pub fn assert_ranks(expected: &Value, ranks: &[f64], bound: f64, context: &str) {
    let near = |name: &str, got: f64, wanted: &Value| {
        let wanted = wanted.as_f64().expect("a number");
        assert!(
            (got - wanted).abs() <= bound,
            "{context}: {name} is {got}, expected {wanted} within {bound}"
        );
    };
    near("the sum", ranks.iter().sum(), &Value::from(1.0));
    near("the sum of squares", ranks.iter().map(|rank| rank * rank).sum(), &expected["sum_of_squares"]);
    let mix = |v: usize| (v as u32).wrapping_mul(2_654_435_761) as f64 / 2_f64.powi(32);
    near("the mixed sum", ranks.iter().enumerate().map(|(v, rank)| rank * mix(v)).sum(), &expected["mixed"]);
    let sample = expected["sample"].as_array().expect("ranks").iter().chain([&expected["largest"]]);
    for pair in sample {
        let v = pair[0].as_u64().expect("a vertex") as usize;
        near(&format!("the rank of vertex {v}"), ranks[v], &pair[1]);
    }
    let largest = ranks.iter().copied().fold(0.0, f64::max);
    near("the largest rank", largest, &expected["largest"][1]);
}

fn sha256(bytes: impl Iterator<Item = u8>) -> String {
    let bytes: Vec<u8> = bytes.collect();
    Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Digest of labels as int32.
pub fn digest_labels(labels: &[u32]) -> String {
    sha256(labels.iter().flat_map(|&label| (label as i32).to_le_bytes()))
}

/// Digest of levels as int32, -1 where not reached.
pub fn digest_levels(levels: &[u32]) -> String {
    sha256(levels.iter().flat_map(|&l| if l == UNREACHED { -1 } else { l as i32 }.to_le_bytes()))
}

/// Checks distances: by digest where they are integers, else by count, maximum and sum.
pub fn assert_distances(expected: &Value, distances: &Distances, context: &str) {
    let reached: Vec<f64> =
        (0..distances.len() as u32).map(|v| distances.get(v)).filter(|d| d.is_finite()).collect();
    assert_eq!(expected["reached"].as_u64(), Some(reached.len() as u64), "{context}: reached");
    let near = |name: &str, got: f64| {
        let wanted = expected[name].as_f64().expect("a number");
        assert!((got - wanted).abs() <= 1e-9 * wanted.abs(), "{context}: {name} is {got}, expected {wanted}");
    };
    near("max", reached.iter().copied().fold(0.0, f64::max));
    near("sum", reached.iter().sum());
    if let (Some(digest), Distances::Integer(distances)) = (expected["sha256"].as_str(), distances) {
        let signed = distances.iter().map(|&d| if d == Distances::UNREACHED { -1 } else { d as i64 });
        assert_eq!(sha256(signed.flat_map(i64::to_le_bytes)), digest, "{context}: digest");
    }
}
