//! Odd and hostile files from the bug reports of other programs (`loaders/tests/quirks/quirks.json`): what BFS, SSSP,
//! components and bad options must come to. How the files load is tested in the loaders.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::paged;
use gpuvm_engine::graph::Csr;
use gpuvm_engine::{
    BfsOptions, Distances, Engine, Error, Policy, PreparedGraph, SsspOptions, UNREACHED, Variant, WarpLanes,
    Workload,
};
use gpuvm_loaders::{LoadOptions, load};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("loaders/tests/quirks")
}

/// The Matrix Market cases that load, with what is expected of them.
fn cases() -> Vec<(String, PathBuf, Value)> {
    let text = std::fs::read_to_string(folder().join("quirks.json")).expect("the list of cases");
    let list: Value = serde_json::from_str(&text).expect("JSON");
    let mut cases = Vec::new();
    for case in list["cases"].as_array().expect("a list") {
        let file = case["file"].as_str().expect("a name");
        let expected = case["expect"].get("if_ok").unwrap_or(&case["expect"]);
        if (file.ends_with(".mtx") || file.ends_with(".mtx.gz")) && expected["status"] == "ok" {
            cases.push((
                case["id"].as_str().expect("a name").to_owned(),
                folder().join(file),
                expected.clone(),
            ));
        }
    }
    assert!(cases.len() > 20);
    cases
}

fn load_view(path: &Path, expected: &Value, symmetrize: bool) -> Option<Csr> {
    let options =
        LoadOptions { symmetrize, bipartite: expected.get("view").is_some(), ..LoadOptions::default() };
    Some(load(path, &options, &()).ok()?.csr)
}

fn prepare(csr: Csr, workload: Workload) -> Result<PreparedGraph, Error> {
    Engine::new(paged(Variant::Balanced, Policy::Fifo, 2, WarpLanes::One))?.prepare(csr, workload)
}

fn levels(levels: &[u32]) -> Value {
    levels.iter().map(|&l| if l == UNREACHED { -1 } else { i64::from(l) }).collect()
}

/// Whether distances are the expected numbers, `null` where not reached.
fn same_distances(expected: &Value, distances: &Distances) -> bool {
    let expected = expected.as_array().expect("a list");
    expected.len() == distances.len()
        && expected.iter().zip(0..).all(|(wanted, v)| match wanted.as_f64() {
            None => !distances.is_reached(v),
            Some(wanted) => (distances.get(v) - wanted).abs() <= 1e-12 * wanted.abs(),
        })
}

/// Everything of one case that is not as it must be.
fn faults(path: &Path, expected: &Value) -> Option<Vec<String>> {
    let mut faults = Vec::new();
    for (view, symmetrize) in [("directed", false), ("undirected", true)] {
        let csr = load_view(path, expected, symmetrize)?;
        let plain = Workload { bfs: true, connected_components: true, ..Workload::default() };
        let mut graph = prepare(csr.clone(), plain).expect("fits");
        let components = graph.connected_components().expect("runs").num_components;
        if expected["components"].as_u64() != Some(components) {
            faults.push(format!("{view}: {components} components"));
        }
        for run in expected["runs"].as_array().expect("a list") {
            let source = run["source"].as_u64().expect("a vertex") as u32;
            let found = levels(&graph.bfs(source, &BfsOptions::default()).expect("runs").levels);
            if found != run[format!("bfs_{view}")] {
                faults.push(format!("{view}: levels from {source} are {found}"));
            }
            let Some(wanted) = run.get(format!("sssp_{view}")) else { continue };
            let mut graph =
                prepare(csr.clone(), Workload { sssp: true, ..Workload::default() }).expect("fits");
            let found = graph.sssp(source, &SsspOptions::default()).expect("runs").distances;
            if !same_distances(wanted, &found) {
                faults.push(format!("{view}: distances from {source} are {found:?}"));
            }
        }
        if expected["negative_weights"] == true {
            // Of the two ways that are right, ours: SSSP refuses them by name.
            match prepare(csr, Workload { sssp: true, ..Workload::default() }) {
                Err(Error::NegativeWeight { .. }) => {}
                other => faults.push(format!("{view}: negative weights gave {other:?}")),
            }
        }
    }
    Some(faults)
}

#[test]
fn every_quirk_gives_the_levels_distances_and_components_it_must() {
    let mut wrong = 0;
    for (id, path, expected) in cases() {
        let outcome = match faults(&path, &expected) {
            None => "refused, which is allowed".to_owned(),
            Some(faults) if faults.is_empty() => "as listed".to_owned(),
            Some(faults) => {
                wrong += 1;
                format!("WRONG: {}", faults.join("; "))
            }
        };
        println!("{id:28} {outcome}");
    }
    assert_eq!(wrong, 0);
}

#[test]
fn sources_that_are_no_vertices_are_refused_before_any_work() {
    let (_, path, expected) =
        cases().into_iter().find(|(id, ..)| id == "bfs-source-out-of-range").expect("listed");
    for source in expected["bad_sources"].as_array().expect("a list") {
        for algorithm in ["bfs", "sssp"] {
            let output = Command::new(env!("CARGO_BIN_EXE_gpuvm-graph"))
                .args([algorithm, "--source", &source.to_string(), "--graph"])
                .arg(&path)
                .output()
                .expect("runs");
            let message = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{message}");
            assert!(message.contains(&source.to_string()) && message.contains("4 vertices"), "{message}");
        }
    }
}

#[test]
fn a_locale_with_a_decimal_comma_changes_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_gpuvm-graph"))
        .args(["sssp", "--source", "0", "--json", "--graph"])
        .arg(folder().join("mm-comma-locale.mtx"))
        .env("LC_ALL", "de_DE.UTF-8")
        .output()
        .expect("runs");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["runs"][0]["max_distance"], 15.25);
}
