//! Real matrices against what numpy, scipy and igraph count in them: `datasets/graphs/expected`.

use std::path::{Path, PathBuf};

use gpuvm_engine::graph::Csr;
use gpuvm_loaders::{LoadError, LoadOptions, LoadedGraph, WeightRule, load, write_gvg};
use serde_json::Value;

fn graphs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/graphs")
}

/// Each expected file, with the path of its graph: those of the repository, and those of the folder that `GPUVM_DATASETS`
/// names.
fn all_expected() -> Vec<(PathBuf, Value)> {
    let folders = std::iter::once(graphs()).chain(std::env::var_os("GPUVM_DATASETS").map(PathBuf::from));
    let mut all: Vec<(PathBuf, Value)> = Vec::new();
    for folder in folders {
        for entry in std::fs::read_dir(folder.join("expected")).expect("the expected files") {
            let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("text");
            let expected: Value = serde_json::from_str(&text).expect("json");
            let Some(file) = expected["file"].as_str() else { continue };
            if all.iter().all(|(_, known)| known["file"] != file) {
                all.push((folder.join(file), expected));
            }
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(all.len() >= 80, "only {} expected files", all.len());
    all
}

/// The name that the expected file has for a format.
fn expected_format(format: &str) -> String {
    let renamed = match format {
        "edge list" => "SNAP edge list",
        "MATLAB 5" => "MATLAB 5 Problem struct",
        _ => format,
    };
    let renamed = renamed.replace("Rutherford-Boeing ", "RB/HB type ");
    match renamed.strip_prefix("gzip of ") {
        // Of text formats other than Matrix Market the packing is not told.
        Some("edge list") => "SNAP edge list".to_owned(),
        Some(format) => format!("{format} (gzip)"),
        None => renamed,
    }
}

fn count(value: &Value) -> u64 {
    value.as_u64().expect("a count")
}

fn must_be_refused(expected: &Value) -> bool {
    expected.get("must_be_rejected").is_some()
}

/// Equal but for the last bit, in which the reader of the expected files may be wrong.
fn is_close(found: f64, expected: &Value) -> bool {
    let expected = expected.as_f64().expect("a number");
    (found - expected).abs() <= f64::EPSILON * expected.abs()
}

fn options(expected: &Value) -> LoadOptions {
    LoadOptions {
        weights: WeightRule::Ignore,
        bipartite: expected.get("rectangular_as_bipartite").is_some(),
        ..LoadOptions::default()
    }
}

fn max_out_degree(csr: &Csr) -> u64 {
    csr.max_degree_vertex().map_or(0, |u| csr.out_degree(u))
}

fn check_rows(csr: &Csr) {
    csr.check_column_indices().expect("columns are vertices");
    for u in 0..csr.num_vertices() as u32 {
        assert!(csr.neighbors(u).windows(2).all(|pair| pair[0] < pair[1]), "row {u} is not sorted");
    }
}

fn check_counts(graph: &LoadedGraph, expected: &Value) {
    let (csr, summary) = (&graph.csr, &graph.summary);
    check_rows(csr);
    match expected["format"].as_str().expect("a name") {
        "GAP .el" => assert_eq!(summary.format, "edge list"),
        "GAP .wel" => assert_eq!(summary.format, "weighted edge list"),
        format => assert_eq!(expected_format(&summary.format), format),
    }
    assert_eq!(summary.field, expected["field"]);
    assert_eq!(summary.symmetry, expected["symmetry"]);
    assert_eq!(summary.rows, count(&expected["rows"]));
    assert_eq!(summary.columns, count(&expected["cols"]));
    assert_eq!(csr.num_vertices(), count(&expected["n"]));
    assert_eq!(summary.stored_entries, count(&expected["stored_entries"]));
    assert_eq!(summary.expanded_entries, count(&expected["expanded_entries"]));
    assert_eq!(summary.self_loops, count(&expected["self_loop_entries"]));
    assert_eq!(csr.num_edges(), count(&expected["directed_edges"]));
    // What is left of the expanded entries without loops were duplicates.
    let dropped = summary.self_loops + summary.duplicates + summary.dropped_zeros;
    assert_eq!(summary.expanded_entries - dropped, csr.num_edges());
    if summary.symmetry == "general" && summary.self_loops == 0 {
        assert_eq!(summary.duplicates, count(&expected["duplicate_entries"]));
    }
    assert_eq!(max_out_degree(csr), count(&expected["max_out_degree"]));
    for (found, field) in [
        (summary.explicit_zeros, "explicit_zero_entries"),
        (summary.negative_weights, "negative_entries"),
        (summary.non_finite, "non_finite_entries"),
    ] {
        assert_eq!(found, expected.get(field).map_or(0, count), "{field}");
    }
}

#[test]
fn counts_of_every_matrix_are_those_that_other_programs_find() {
    for (path, expected) in all_expected().iter().filter(|(_, expected)| !must_be_refused(expected)) {
        println!("{}", expected["file"]);
        check_counts(&load(path, &options(expected), &()).expect("loads"), expected);
    }
}

#[test]
fn counts_of_the_undirected_view_are_those_that_other_programs_find() {
    for (path, expected) in all_expected().iter().filter(|(_, expected)| !must_be_refused(expected)) {
        println!("{}", expected["file"]);
        let graph = load(path, &LoadOptions { symmetrize: true, ..options(expected) }, &()).expect("loads");
        check_rows(&graph.csr);
        assert_eq!(graph.csr.num_edges(), 2 * count(&expected["undirected_edges"]));
        assert_eq!(max_out_degree(&graph.csr), count(&expected["max_undirected_degree"]));
        let isolated = (0..graph.csr.num_vertices() as u32).filter(|&u| graph.csr.out_degree(u) == 0).count();
        assert_eq!(isolated as u64, count(&expected["isolated_vertices"]));
    }
}

#[test]
fn weights_of_every_matrix_span_the_range_that_other_programs_find() {
    for (path, expected) in all_expected().iter().filter(|(_, expected)| !must_be_refused(expected)) {
        let options = LoadOptions { weights: WeightRule::File, keep_loops: true, ..options(expected) };
        let loaded = load(path, &options, &());
        if expected["field"] == "complex" {
            assert!(matches!(loaded, Err(LoadError::ComplexWeights { .. })), "{}", expected["file"]);
            continue;
        }
        if expected.get("file_weights").is_some() {
            assert!(matches!(loaded, Err(LoadError::NotFinite { .. })), "{}", expected["file"]);
            continue;
        }
        let graph = loaded.expect("loads");
        // Duplicates are merged into the smallest, and mirrored values of skew-symmetric matrices are negative.
        if let (Some(range), true) =
            (graph.csr.weights().stored_range(), graph.summary.symmetry != "skew-symmetric")
        {
            println!("{}", expected["file"]);
            assert!(is_close(range.min, &expected["value_min"]), "{} is not the smallest", range.min);
            if graph.summary.duplicates == 0 {
                assert!(is_close(range.max, &expected["value_max"]), "{} is not the largest", range.max);
            }
        }
    }
}

#[test]
fn files_that_are_no_matrices_are_refused() {
    let mut refused = 0;
    for (path, expected) in all_expected().iter().filter(|(_, expected)| must_be_refused(expected)) {
        let error = load(path, &options(expected), &()).expect_err("refused");
        println!("{}: {error}", expected["file"]);
        refused += 1;
        match expected["file"].as_str().expect("a name") {
            "mtx/west0067_noheader.mtx" => assert!(matches!(error, LoadError::NoBanner { .. })),
            "mtxgz/cegb2802.mtx.gz" => assert!(matches!(error, LoadError::HtmlPage { .. })),
            "rb/lap_25.pse" => assert!(matches!(error, LoadError::Elemental { .. })),
            other => panic!("{other} is not known here"),
        }
    }
    assert_eq!(refused, 3);
}

#[test]
fn converted_matrices_are_the_same_graphs() {
    let folder = tempfile::tempdir().expect("a folder");
    let converted = folder.path().join("graph.gvg");
    for (path, expected) in all_expected().iter().filter(|(_, expected)| !must_be_refused(expected)) {
        let options = LoadOptions { weights: WeightRule::Abs, ..options(expected) };
        let Ok(graph) = load(path, &options, &()) else { continue };
        write_gvg(&converted, &graph, &()).expect("written");
        let file_weights =
            LoadOptions { weights: WeightRule::File, verify_file: true, ..LoadOptions::default() };
        let again = load(&converted, &file_weights, &()).expect("opens");
        assert_eq!(again.csr.row_offsets().as_slice(), graph.csr.row_offsets().as_slice());
        assert_eq!(again.csr.column_indices().as_slice(), graph.csr.column_indices().as_slice());
        assert_eq!(again.csr.weights().as_bytes(), graph.csr.weights().as_bytes());
        assert_eq!(again.csr.weights().weight_type(), graph.csr.weights().weight_type());
        assert_eq!(again.csr.is_symmetric(), graph.csr.is_symmetric());
        assert_eq!(again.summary.expanded_entries, graph.summary.expanded_entries);
    }
}
