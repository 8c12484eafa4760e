//! Graphs out to other formats: byte for byte as a person writes them, and the same graph when they are read again.

use std::fs;
use std::path::{Path, PathBuf};

use gpuvm_engine::graph::{Csr, WeightType, Weights};
use gpuvm_loaders::{
    LoadError, LoadOptions, LoadSummary, LoadedGraph, OutputFormat, Progress, WeightRule, load, load_bytes,
    write_graph,
};

/// 0 -> 1 (5), 0 -> 2 (6), 2 -> 0 (7).
const DIRECTED: &str = "%%MatrixMarket matrix coordinate integer general\n3 3 3\n3 1 7\n1 2 5\n1 3 6\n";

/// 0 - 1 (0.5), 1 - 2 (2), 1 - 1 (0.1); 3 is alone.
const SYMMETRIC: &str = "%%MatrixMarket matrix coordinate real symmetric\n4 4 3\n2 1 0.5\n3 2 2\n2 2 0.1\n";

fn graph(text: &str, options: &LoadOptions) -> LoadedGraph {
    load_bytes("graph.mtx".as_ref(), text.as_bytes(), options).expect("a valid file")
}

/// What `write_graph` makes of a graph.
fn written(graph: &LoadedGraph, format: OutputFormat) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    let size = write_graph(&path, format, graph, &()).expect("written");
    let bytes = fs::read(&path).expect("readable");
    assert_eq!(size, bytes.len() as u64);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left beside the file");
    bytes
}

fn text(graph: &LoadedGraph, format: OutputFormat) -> String {
    String::from_utf8(written(graph, format)).expect("text")
}

fn dataset(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/graphs").join(name)
}

#[track_caller]
fn same(a: &Csr, b: &Csr) {
    assert_eq!(a.row_offsets().as_slice(), b.row_offsets().as_slice());
    assert_eq!(a.column_indices().as_slice(), b.column_indices().as_slice());
    assert_eq!(a.weights().weight_type(), b.weights().weight_type());
    assert_eq!(a.weights().as_bytes(), b.weights().as_bytes());
    assert_eq!(a.is_symmetric(), b.is_symmetric());
}

#[test]
fn directed_graph_is_written_as_expected_in_every_text_format() {
    let graph = graph(DIRECTED, &LoadOptions::default());
    assert_eq!(
        text(&graph, OutputFormat::MatrixMarket),
        "%%MatrixMarket matrix coordinate integer general\n3 3 3\n1 2 5\n1 3 6\n3 1 7\n"
    );
    assert_eq!(text(&graph, OutputFormat::EdgeList), "0 1\n0 2\n2 0\n");
    assert_eq!(text(&graph, OutputFormat::WeightedEdgeList), "0 1 5\n0 2 6\n2 0 7\n");
}

#[test]
fn symmetric_graph_is_its_lower_triangle_in_matrix_market_and_both_directions_in_a_list() {
    let with_loops = graph(SYMMETRIC, &LoadOptions { keep_loops: true, ..LoadOptions::default() });
    assert_eq!(
        text(&with_loops, OutputFormat::MatrixMarket),
        "%%MatrixMarket matrix coordinate real symmetric\n4 4 3\n2 1 0.5\n2 2 0.1\n3 2 2.0\n"
    );
    let without_weights =
        graph(SYMMETRIC, &LoadOptions { weights: WeightRule::Unit, ..LoadOptions::default() });
    assert_eq!(
        text(&without_weights, OutputFormat::MatrixMarket),
        "%%MatrixMarket matrix coordinate pattern symmetric\n4 4 2\n2 1\n3 2\n"
    );
    assert_eq!(text(&without_weights, OutputFormat::EdgeList), "0 1\n1 0\n1 2\n2 1\n");
    assert_eq!(text(&without_weights, OutputFormat::WeightedEdgeList), "0 1 1\n1 0 1\n1 2 1\n2 1 1\n");
}

/// The fields of a serialized graph, one after the other.
fn bytes(directed: u8, longs: &[&[i64]], numbers: &[&[i32]]) -> Vec<u8> {
    let mut bytes = vec![directed];
    // Counts and offsets of the first part; then its numbers; then, if directed, the same of the second.
    for (i, longs) in longs.iter().enumerate() {
        bytes.extend(longs.iter().flat_map(|x| x.to_le_bytes()));
        if i > 0 {
            bytes.extend(numbers[i - 1].iter().flat_map(|x| x.to_le_bytes()));
        }
    }
    bytes
}

#[test]
fn serialized_graphs_have_the_reverse_edges_of_a_directed_one() {
    let directed = graph(DIRECTED, &LoadOptions::default());
    assert_eq!(
        written(&directed, OutputFormat::GapSerialized),
        bytes(1, &[&[3, 3], &[0, 2, 2, 3], &[0, 1, 2, 3]], &[&[1, 2, 0], &[2, 0, 0]])
    );
    assert_eq!(
        written(&directed, OutputFormat::GapWeightedSerialized),
        bytes(1, &[&[3, 3], &[0, 2, 2, 3], &[0, 1, 2, 3]], &[&[1, 5, 2, 6, 0, 7], &[2, 7, 0, 5, 0, 6]])
    );
    let undirected = graph(SYMMETRIC, &LoadOptions { weights: WeightRule::Unit, ..LoadOptions::default() });
    assert_eq!(
        written(&undirected, OutputFormat::GapSerialized),
        bytes(0, &[&[4, 4], &[0, 1, 3, 4, 4]], &[&[1, 0, 2, 1]])
    );
}

#[test]
fn serialized_graphs_are_those_of_the_gap_converter_byte_for_byte() {
    for (input, output, format) in [
        ("gap/4.mtx", "gap/4.sg", OutputFormat::GapSerialized),
        ("gap/4w.mtx", "gap/4.wsg", OutputFormat::GapWeightedSerialized),
        ("mtx/jagmesh7.mtx", "gap/jagmesh7U.sg", OutputFormat::GapSerialized),
    ] {
        let graph = load(&dataset(input), &LoadOptions::default(), &()).expect("loads");
        assert!(written(&graph, format) == fs::read(dataset(output)).expect("readable"), "{input}");
    }
}

#[test]
fn weights_of_every_type_come_back_from_matrix_market() {
    for (values, weight_type) in [
        (["0", "255", "7"], WeightType::U8),
        (["1", "256", "7"], WeightType::U16),
        (["1", "65536", "4294967295"], WeightType::U32),
        (["-1", "0.5", "16777216"], WeightType::F32),
        (["-1.25", "0.1", "1e300"], WeightType::F64),
    ] {
        let is_real = matches!(weight_type, WeightType::F32 | WeightType::F64);
        let field = if is_real { "real" } else { "integer" };
        let [a, b, c] = values;
        let before = graph(
            &format!("%%MatrixMarket matrix coordinate {field} general\n5 5 3\n1 2 {a}\n4 1 {b}\n4 4 {c}\n"),
            &LoadOptions { keep_loops: true, ..LoadOptions::default() },
        );
        assert_eq!(before.csr.weights().weight_type(), weight_type);
        let again = graph(
            &text(&before, OutputFormat::MatrixMarket),
            &LoadOptions { keep_loops: true, ..LoadOptions::default() },
        );
        same(&before.csr, &again.csr);
    }
}

#[test]
fn graph_of_many_pieces_comes_back_from_matrix_market() {
    // 600 000 edges are three pieces; a hub's row goes over their ends, and every other row is empty.
    let row = |u: u64| {
        if u == 500 {
            0..300_000
        } else if u.is_multiple_of(2) {
            0..0
        } else {
            u..u + 300
        }
    };
    let n = 300_000;
    let columns: Vec<u32> = (0..2_000).flat_map(row).map(|v| v as u32).collect();
    let mut offsets = vec![0_u64];
    for u in 0..n {
        let len = if u < 2_000 { row(u).count() as u64 } else { 0 };
        offsets.push(offsets[u as usize] + len);
    }
    let weights: Vec<u16> = (0..columns.len()).map(|e| (e % 60_000) as u16).collect();
    let csr = Csr::new(offsets, columns, Weights::U16(weights.into()), false).expect("valid");
    let before = LoadedGraph { csr, summary: LoadSummary::default(), ids: None };
    let keep = LoadOptions { keep_loops: true, ..LoadOptions::default() };
    same(&before.csr, &graph(&text(&before, OutputFormat::MatrixMarket), &keep).csr);
}

#[test]
fn graphs_without_edges_or_vertices_are_written() {
    for n in [0, 3] {
        let text_in = format!("%%MatrixMarket matrix coordinate pattern symmetric\n{n} {n} 0\n");
        let graph = graph(&text_in, &LoadOptions::default());
        assert_eq!(text(&graph, OutputFormat::MatrixMarket), text_in);
        assert_eq!(text(&graph, OutputFormat::EdgeList), "");
        let offsets = vec![0; n + 1];
        assert_eq!(
            written(&graph, OutputFormat::GapSerialized),
            bytes(0, &[&[0, n as i64], &offsets], &[&[]])
        );
    }
}

#[test]
fn weights_that_a_serialized_graph_cannot_hold_are_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.wsg");
    for value in ["0.5", "3000000000"] {
        let text = format!("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 -4\n2 1 {value}\n");
        let refused = write_graph(
            &path,
            OutputFormat::GapWeightedSerialized,
            &graph(&text, &LoadOptions::default()),
            &(),
        );
        let message = refused.expect_err("no integer of 32 bits").to_string();
        assert!(message.contains("integers of 32 bits") && message.contains(value), "{message}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

/// Cancels at once.
struct Cancelled;

impl Progress for Cancelled {
    fn begin(&self, _phase: &'static str, _total: u64) {}
    fn advance(&self, _by: u64) {}
    fn end(&self) {}
    fn is_cancelled(&self) -> bool {
        true
    }
}

#[test]
fn interrupted_write_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = graph(DIRECTED, &LoadOptions::default());
    for format in ["gvg", "mtx", "el", "wel", "sg", "wsg"] {
        let path = folder.path().join("out");
        let written = write_graph(&path, format.parse().expect("a format"), &graph, &Cancelled);
        assert!(matches!(written, Err(LoadError::Interrupted)), "{format}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "{format}");
    }
}
