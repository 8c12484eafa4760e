//! Odd and hostile files, each from a public bug report of some program: `quirks/quirks.json` says what must happen.

use std::path::{Path, PathBuf};

use gpuvm_engine::graph::{Csr, Weights};
use gpuvm_loaders::{LoadError, LoadOptions, LoadedGraph, WeightRule, load};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/quirks")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a count")
}

/// All edges, sorted by their two ends.
fn edges(csr: &Csr) -> Vec<(u64, u64, f64)> {
    (0..csr.num_vertices() as u32)
        .flat_map(|u| csr.edges(u).map(move |(_, v, weight)| (u64::from(u), u64::from(v), weight)))
        .collect()
}

/// The difference between a graph and what it must be, if there is one.
fn difference(graph: &LoadedGraph, expected: &Value) -> Option<String> {
    let (csr, summary) = (&graph.csr, &graph.summary);
    for (what, found, field) in [
        ("rows", summary.rows, "rows"),
        ("columns", summary.columns, "cols"),
        ("vertices", csr.num_vertices(), "n"),
        ("stored entries", summary.stored_entries, "stored_entries"),
        ("expanded entries", summary.expanded_entries, "expanded_entries"),
        ("self-loops", summary.self_loops, "self_loop_entries"),
        ("edges", csr.num_edges(), "directed_edges"),
    ] {
        if found != number(&expected[field]) {
            return Some(format!("{found} {what}, must be {}", expected[field]));
        }
    }
    if let Some(zeros) = expected.get("explicit_zeros")
        && number(zeros) != summary.explicit_zeros
    {
        return Some(format!("{} explicit zeros", summary.explicit_zeros));
    }
    let negative = expected.get("negative_weights").and_then(Value::as_bool).unwrap_or(false);
    if negative != (summary.negative_weights > 0) {
        return Some(format!("{} negative weights", summary.negative_weights));
    }
    let offsets: Vec<u64> = expected["row_offsets"].as_array().expect("a list").iter().map(number).collect();
    if csr.row_offsets().as_slice() != offsets {
        return Some(format!("row offsets {:?}", csr.row_offsets().as_slice()));
    }
    let expected_edges: Vec<(u64, u64, f64)> = expected["edges"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|edge| {
            (number(&edge[0]), number(&edge[1]), edge.get(2).map_or(1.0, |w| w.as_f64().expect("a number")))
        })
        .collect();
    let found = edges(csr);
    (found != expected_edges).then(|| format!("edges {found:?}"))
}

fn chain(error: &LoadError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// What happened, and whether that is right.
fn judge(case: &Value) -> (String, bool) {
    let expected = &case["expect"];
    let if_ok = match expected["status"].as_str().expect("a word") {
        "error" => None,
        "ok" => Some(expected),
        _ => Some(&expected["if_ok"]),
    };
    let options = LoadOptions {
        bipartite: if_ok.is_some_and(|ok| ok.get("view").is_some_and(|view| view == "bipartite")),
        ..LoadOptions::default()
    };
    let path = folder().join(case["file"].as_str().expect("a name"));
    match (load(&path, &options, &()), if_ok) {
        (Ok(graph), Some(expected)) => match difference(&graph, expected) {
            None => (format!("{} vertices, {} edges", graph.csr.num_vertices(), graph.csr.num_edges()), true),
            Some(difference) => (difference, false),
        },
        (Ok(_), None) => ("loaded, must be refused".to_owned(), false),
        (Err(error), _) => {
            let text = chain(&error);
            let text = text.rsplit_once('/').map_or(text.as_str(), |(_, text)| text).to_owned();
            let mentions = expected["must_mention"].as_array().map_or(&[][..], Vec::as_slice);
            let mentioned = mentions.iter().all(|part| text.contains(part.as_str().expect("text")));
            (text, mentioned && expected["status"] != "ok")
        }
    }
}

fn cases() -> Vec<Value> {
    let text = std::fs::read_to_string(folder().join("quirks.json")).expect("the list of cases");
    let list: Value = serde_json::from_str(&text).expect("json");
    list["cases"].as_array().expect("a list").clone()
}

#[test]
fn every_quirk_is_loaded_or_refused_as_it_must_be() {
    let mut wrong = 0;
    for case in cases() {
        let (outcome, ok) = judge(&case);
        println!(
            "{:28} {outcome:90} {}",
            case["id"].as_str().expect("a name"),
            if ok { "ok" } else { "WRONG" }
        );
        wrong += usize::from(!ok);
    }
    assert_eq!(wrong, 0, "quirks with another outcome than they must have");
}

#[test]
fn undirected_view_of_every_quirk_has_each_edge_in_both_directions() {
    for case in &cases() {
        let expected = &case["expect"];
        let expected = expected.get("if_ok").unwrap_or(expected);
        if expected["status"] != "ok" {
            continue;
        }
        let bipartite = expected.get("view").is_some();
        let options = LoadOptions { symmetrize: true, bipartite, ..LoadOptions::default() };
        let graph =
            load(&folder().join(case["file"].as_str().expect("a name")), &options, &()).expect("loads");
        let found = edges(&graph.csr);
        assert_eq!(found.len() as u64, 2 * number(&expected["undirected_edges"]), "{}", case["id"]);
        assert!(graph.csr.is_symmetric());
        for &(u, v, weight) in &found {
            assert!(found.contains(&(v, u, weight)), "{}: {u} {v} {weight}", case["id"]);
            // The smaller of the weights of the two directions.
            let directed = expected["edges"].as_array().expect("a list").iter().filter(|edge| {
                let ends = (number(&edge[0]), number(&edge[1]));
                ends == (u, v) || ends == (v, u)
            });
            let smallest = directed.map(|edge| edge.get(2).map_or(1.0, |w| w.as_f64().expect("a number")));
            assert_eq!(Some(weight), smallest.reduce(f64::min), "{}: {u} {v}", case["id"]);
        }
    }
}

#[test]
fn weights_do_not_matter_where_they_are_ignored() {
    let options = LoadOptions { weights: WeightRule::Ignore, ..LoadOptions::default() };
    let graph = load(&folder().join("sssp-negative-edge.mtx"), &options, &()).expect("loads");
    assert!(matches!(graph.csr.weights(), Weights::Unit));
    assert_eq!(graph.summary.negative_weights, 1);
}
