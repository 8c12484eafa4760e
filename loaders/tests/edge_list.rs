//! Edge lists as people write them.

use std::path::Path;

use gpuvm_engine::graph::{WeightType, Weights};
use gpuvm_loaders::{LoadError, LoadOptions, LoadedGraph, WeightRule, load_bytes};

fn read(text: &str) -> Result<LoadedGraph, LoadError> {
    load_bytes(Path::new("edges.txt"), text.as_bytes(), &LoadOptions::default())
}

fn edges(graph: &LoadedGraph) -> Vec<(u32, u32, f64)> {
    (0..graph.csr.num_vertices() as u32)
        .flat_map(|u| graph.csr.edges(u).map(move |(_, v, weight)| (u, v, weight)))
        .collect()
}

#[test]
fn separators_comments_and_line_ends_of_all_kinds_give_the_same_edges() {
    for text in [
        "0 1\n1 2\n2 0\n",
        "# Nodes: 3 Edges: 3\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n2\t0\n",
        "% comment\r\n0 1\r\n\r\n1   2  \r\n2 0",
        "// comment\n0,1\n1, 2\n2 ,0\n",
        "0;1\n1;2;\n# in between\n2;0\n",
        "\u{feff}0 1\n1 2\n  2\t 0\n\n\n",
    ] {
        let graph = read(text).expect(text);
        assert_eq!(edges(&graph), [(0, 1, 1.0), (1, 2, 1.0), (2, 0, 1.0)], "{text:?}");
        assert_eq!(graph.summary.format, "edge list");
        assert_eq!((graph.summary.field.as_str(), graph.summary.stored_entries), ("pattern", 3));
    }
}

#[test]
fn ids_that_never_occur_are_vertices_without_edges() {
    let graph = read("7 3\n3 5\n").expect("loads");
    assert_eq!((graph.summary.rows, graph.summary.columns), (8, 8));
    assert_eq!(graph.csr.row_offsets().as_slice(), [0, 0, 0, 0, 1, 1, 1, 1, 2]);
    assert_eq!(graph.csr.column_indices().as_slice(), [5, 3]);
}

#[test]
fn third_column_is_the_weight_in_the_narrowest_type() {
    let graph = read("0 1 5\n1 0 300\n").expect("loads");
    assert_eq!(edges(&graph), [(0, 1, 5.0), (1, 0, 300.0)]);
    assert_eq!(graph.csr.weights().weight_type(), WeightType::U16);
    assert_eq!(
        (graph.summary.format.as_str(), graph.summary.field.as_str()),
        ("weighted edge list", "integer")
    );
    let graph = read("0,1,0.5\n1,0,2\n0,1,0.25\n").expect("loads");
    assert_eq!(edges(&graph), [(0, 1, 0.25), (1, 0, 2.0)]);
    assert_eq!((graph.summary.duplicates, graph.summary.field.as_str()), (1, "real"));
    let ignored = LoadOptions { weights: WeightRule::Ignore, ..LoadOptions::default() };
    let graph = load_bytes(Path::new("a"), b"0 1 -1\n1 2 inf\n", &ignored).expect("loads");
    assert!(matches!(graph.csr.weights(), Weights::Unit));
    assert_eq!((graph.summary.negative_weights, graph.summary.non_finite), (1, 1));
}

#[test]
fn rows_and_columns_are_two_sets_of_vertices_if_asked_for() {
    let options = LoadOptions { bipartite: true, symmetrize: true, ..LoadOptions::default() };
    let graph = load_bytes(Path::new("a"), b"0 4\n1 0\n", &options).expect("loads");
    // Two rows and five columns.
    assert_eq!(edges(&graph), [(0, 6, 1.0), (1, 2, 1.0), (2, 1, 1.0), (6, 0, 1.0)]);
}

#[test]
fn bad_lines_are_named_with_what_is_wrong_with_them() {
    for (text, parts) in [
        ("0 1\n1 x\n", &["line 2", "target \"x\""][..]),
        ("0 1\n1\n", &["line 2", "ends before its target"]),
        ("0 1\n1 2 3\n", &["line 2", "goes on after"]),
        ("0 1 2\n1 2\n", &["line 2", "ends before its weight"]),
        ("0 1 2\n1 2 a\n", &["line 2", "weight \"a\""]),
        ("0 1 2\n1 2 nan\n", &["line 2", "--weights unit"]),
        ("0 1 2\n1 2 9007199254740993\n", &["line 2", "2^53"]),
        ("0 1\n-1 2\n", &["line 2", "source \"-1\""]),
        ("0 1\n\n1 4294967295\n", &["line 3", "4294967294", "--relabel"]),
        ("0 1\n1 4000000000\n", &["4000000001 vertices", "--relabel"]),
        ("0 1 2 3\n", &["line 1", "0, 1, 2, 3", "--columns"]),
        ("1,,2\n0 1\n", &["--format"]),
        ("hello\n", &["\"hello\"", "--format", "edge-list"]),
    ] {
        let error = read(text).expect_err(text).to_string();
        for part in parts {
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}

#[test]
fn list_of_no_edges_is_a_graph_of_no_vertices_only_when_it_is_asked_for() {
    assert!(matches!(read("# nothing\n"), Err(LoadError::UnknownFormat { .. })));
}

#[test]
fn edges_of_many_pieces_are_those_of_one() {
    let text: String = (0..200_000_u32).map(|e| format!("{}\t{}\n", e % 1000, e / 1000)).collect();
    let graph = read(&text).expect("loads");
    assert_eq!((graph.csr.num_vertices(), graph.csr.num_edges()), (1000, 200_000 - 200));
    assert!((0..1000).all(|u| graph.csr.out_degree(u) == if u < 200 { 199 } else { 200 }));
}
