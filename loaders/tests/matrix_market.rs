//! Every variant of Matrix Market and every way to get it wrong; what is expected was worked out by hand.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gpuvm_engine::graph::{Csr, WeightType, Weights};
use gpuvm_loaders::{LoadError, LoadOptions, LoadedGraph, Progress, WeightRule, load, load_bytes};

fn with(weights: WeightRule) -> LoadOptions {
    LoadOptions { weights, ..LoadOptions::default() }
}

fn read(text: &str) -> LoadedGraph {
    read_as(text, &LoadOptions::default())
}

fn read_as(text: &str, options: &LoadOptions) -> LoadedGraph {
    load_bytes(Path::new("a.mtx"), text.as_bytes(), options).expect("loads")
}

fn edges(csr: &Csr) -> Vec<(u32, u32, f64)> {
    (0..csr.num_vertices() as u32).flat_map(|u| csr.edges(u).map(move |(_, v, w)| (u, v, w))).collect()
}

/// The message of a refused file, which must contain each of `parts`.
#[track_caller]
fn refused(text: &str, parts: &[&str]) -> LoadError {
    refused_as(text, &LoadOptions::default(), parts)
}

#[track_caller]
fn refused_as(text: &str, options: &LoadOptions, parts: &[&str]) -> LoadError {
    let error = load_bytes(Path::new("a.mtx"), text.as_bytes(), options).expect_err("refused");
    let message = error.to_string();
    assert!(message.starts_with("a.mtx: "), "{message}");
    for part in parts {
        assert!(message.contains(part), "{message:?} does not mention {part:?}");
    }
    error
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

fn tar(members: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, text) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, text.as_bytes()).expect("to memory");
    }
    builder.into_inner().expect("to memory")
}

const GENERAL: &str = "%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n";

// Variants

#[test]
fn entry_is_an_edge_from_row_to_column() {
    let graph = read("%%MatrixMarket matrix coordinate integer general\n3 3 3\n1 2 7\n3 1 300\n1 3 9\n");
    assert_eq!(edges(&graph.csr), [(0, 1, 7.0), (0, 2, 9.0), (2, 0, 300.0)]);
    assert_eq!(graph.csr.weights().weight_type(), WeightType::U16);
    assert!(!graph.csr.is_symmetric());
    assert_eq!(graph.summary.format, "Matrix Market coordinate");
    assert_eq!((graph.summary.rows, graph.summary.columns, graph.summary.stored_entries), (3, 3, 3));
}

#[test]
fn symmetric_entry_is_two_edges_and_a_diagonal_one_is_not_doubled() {
    let text = "%%MatrixMarket matrix coordinate integer symmetric\n3 3 3\n2 1 4\n3 3 5\n2 3 6\n";
    let graph = read(text);
    assert_eq!(edges(&graph.csr), [(0, 1, 4.0), (1, 0, 4.0), (1, 2, 6.0), (2, 1, 6.0)]);
    assert_eq!((graph.summary.expanded_entries, graph.summary.self_loops), (5, 1));
    assert!(graph.csr.is_symmetric());
    let kept = read_as(text, &LoadOptions { keep_loops: true, ..LoadOptions::default() });
    assert_eq!(kept.csr.num_edges(), 5);
    assert_eq!(kept.csr.neighbors(2), [1, 2]);
}

#[test]
fn skew_symmetric_entry_is_mirrored_with_the_negative_value() {
    let text = "%%MatrixMarket matrix coordinate integer skew-symmetric\n3 3 2\n2 1 4\n3 1 -5\n";
    let graph = read(text);
    assert_eq!(edges(&graph.csr), [(0, 1, -4.0), (0, 2, 5.0), (1, 0, 4.0), (2, 0, -5.0)]);
    assert_eq!(graph.csr.weights().weight_type(), WeightType::F32);
    assert!(!graph.csr.is_symmetric());
    let absolute = read_as(text, &with(WeightRule::Abs));
    assert_eq!(edges(&absolute.csr), [(0, 1, 4.0), (0, 2, 5.0), (1, 0, 4.0), (2, 0, 5.0)]);
    assert_eq!(absolute.csr.weights().weight_type(), WeightType::U8);
    assert!(absolute.csr.is_symmetric());
    // Symmetrized, each edge has the smaller of its two weights.
    let symmetrized = read_as(text, &LoadOptions { symmetrize: true, ..LoadOptions::default() });
    assert_eq!(edges(&symmetrized.csr), [(0, 1, -4.0), (0, 2, -5.0), (1, 0, -4.0), (2, 0, -5.0)]);
    assert!(symmetrized.csr.is_symmetric());
}

#[test]
fn zero_on_the_diagonal_of_a_skew_symmetric_matrix_passes() {
    let graph = read("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 2\n1 1 0.0\n2 1 1.5\n");
    assert_eq!(edges(&graph.csr), [(0, 1, -1.5), (1, 0, 1.5)]);
    assert_eq!(graph.summary.self_loops, 1);
}

#[test]
fn hermitian_matrix_weighs_the_modulus_in_both_directions() {
    let text = "%%MatrixMarket matrix coordinate complex hermitian\n2 2 2\n1 1 1 0\n2 1 3.0 -4.0\n";
    let graph = read_as(text, &with(WeightRule::Abs));
    assert_eq!(edges(&graph.csr), [(0, 1, 5.0), (1, 0, 5.0)]);
    assert!(graph.csr.is_symmetric());
    refused(text, &["line 1", "complex", "--weights abs"]);
}

#[test]
fn pattern_matrix_weighs_one_whatever_is_asked_of_the_file() {
    for rule in [WeightRule::File, WeightRule::Abs, WeightRule::Ignore, WeightRule::Unit] {
        assert!(matches!(read_as(GENERAL, &with(rule)).csr.weights(), Weights::Unit));
    }
}

#[test]
fn array_is_read_column_by_column_and_its_zeros_are_no_edges() {
    let graph = read("%%MatrixMarket matrix array real general\n% dense\n2 2\n0\n1.5\n\n2\n0.0\n");
    assert_eq!(edges(&graph.csr), [(0, 1, 2.0), (1, 0, 1.5)]);
    assert_eq!(graph.summary.format, "Matrix Market array");
    assert_eq!((graph.summary.stored_entries, graph.summary.dropped_zeros), (4, 2));
}

#[test]
fn symmetric_array_holds_the_lower_triangle_and_skew_symmetric_leaves_the_diagonal_out() {
    let graph = read("%%MatrixMarket matrix array integer symmetric\n3 3\n9\n1\n2\n8\n3\n7\n");
    let symmetric = [(0, 1, 1.0), (0, 2, 2.0), (1, 0, 1.0), (1, 2, 3.0), (2, 0, 2.0), (2, 1, 3.0)];
    assert_eq!(edges(&graph.csr), symmetric);
    assert_eq!((graph.summary.expanded_entries, graph.summary.self_loops), (9, 3));
    let graph = read("%%MatrixMarket matrix array integer skew-symmetric\n3 3\n1\n2\n3\n");
    let skew = [(0, 1, -1.0), (0, 2, -2.0), (1, 0, 1.0), (1, 2, -3.0), (2, 0, 2.0), (2, 1, 3.0)];
    assert_eq!(edges(&graph.csr), skew);
}

#[test]
fn complex_array_has_two_numbers_a_line() {
    let text = "%%MatrixMarket matrix array complex general\n2 2\n0 0\n3 4\n0 1\n0 0\n";
    assert_eq!(edges(&read_as(text, &with(WeightRule::Abs)).csr), [(0, 1, 1.0), (1, 0, 5.0)]);
}

#[test]
fn large_array_is_cut_in_the_right_places() {
    // Column c holds 1 in rows above c: an edge from r to c for r < c. Pieces begin anywhere in it.
    let n = 300;
    for symmetry in ["general", "symmetric"] {
        let mut text = format!("%%MatrixMarket matrix array integer {symmetry}\n{n} {n}\n");
        for column in 0..n {
            for row in if symmetry == "general" { 0 } else { column }..n {
                text.push_str(if (row + column) % 3 == 1 { "1\n" } else { "00000\n% nothing\n" });
            }
        }
        let graph = read(&text);
        let expected: Vec<(u32, u32, f64)> = (0..n)
            .flat_map(|u| (0..n).map(move |v| (u, v, 1.0)))
            .filter(|&(u, v, _)| (u + v) % 3 == 1 && u != v)
            .collect();
        assert_eq!(edges(&graph.csr), expected, "{symmetry}");
    }
}

#[test]
fn rectangular_matrix_is_bipartite_where_that_is_asked_for() {
    let text = "%%MatrixMarket matrix coordinate integer general\n2 3 3\n1 1 5\n1 3 6\n2 3 7\n";
    refused(text, &["line 2", "2 rows", "3 columns", "--bipartite"]);
    let options = LoadOptions { bipartite: true, ..LoadOptions::default() };
    let graph = read_as(text, &options);
    assert_eq!(edges(&graph.csr), [(0, 2, 5.0), (0, 4, 6.0), (1, 4, 7.0)]);
    assert!(graph.summary.bipartite && !graph.csr.is_symmetric());
    let both = read_as(text, &LoadOptions { symmetrize: true, ..options });
    let expected = [(0, 2, 5.0), (0, 4, 6.0), (1, 4, 7.0), (2, 0, 5.0), (4, 0, 6.0), (4, 1, 7.0)];
    assert_eq!(edges(&both.csr), expected);
    assert!(both.csr.is_symmetric());
}

#[test]
fn square_matrix_is_bipartite_where_that_is_asked_for() {
    let text = "%%MatrixMarket matrix coordinate integer symmetric\n2 2 2\n1 1 3\n2 1 4\n";
    let options = LoadOptions { bipartite: true, ..LoadOptions::default() };
    let graph = read_as(text, &options);
    assert_eq!(edges(&graph.csr), [(0, 2, 3.0), (0, 3, 4.0), (1, 2, 4.0)]);
    assert_eq!((graph.csr.num_vertices(), graph.summary.self_loops), (4, 0));
    let both = read_as(text, &LoadOptions { symmetrize: true, ..options });
    let expected = [(0, 2, 3.0), (0, 3, 4.0), (1, 2, 4.0), (2, 0, 3.0), (2, 1, 4.0), (3, 0, 4.0)];
    assert_eq!(edges(&both.csr), expected);
}

#[test]
fn duplicates_are_merged_into_the_smallest_weight_or_kept() {
    let text = "%%MatrixMarket matrix coordinate integer general\n2 2 4\n1 2 5\n1 2 3\n2 1 1\n1 2 4\n";
    let graph = read(text);
    assert_eq!(edges(&graph.csr), [(0, 1, 3.0), (1, 0, 1.0)]);
    assert_eq!(graph.summary.duplicates, 2);
    let kept = read_as(text, &LoadOptions { keep_duplicates: true, ..LoadOptions::default() });
    assert_eq!(edges(&kept.csr), [(0, 1, 3.0), (0, 1, 4.0), (0, 1, 5.0), (1, 0, 1.0)]);
    assert_eq!(kept.summary.duplicates, 0);
    let both = read_as(text, &LoadOptions { symmetrize: true, ..LoadOptions::default() });
    assert_eq!(edges(&both.csr), [(0, 1, 1.0), (1, 0, 1.0)]);
}

#[test]
fn upper_triangle_of_a_symmetric_file_is_the_same_graph() {
    let lower = read("%%MatrixMarket matrix coordinate integer symmetric\n3 3 2\n2 1 4\n3 2 5\n");
    let upper = read("%%MatrixMarket matrix coordinate integer symmetric\n3 3 2\n1 2 4\n2 3 5\n");
    assert_eq!(edges(&lower.csr), edges(&upper.csr));
}

// Spellings

#[test]
fn blanks_comments_and_line_ends_do_not_matter() {
    let text = "%%MATRIXMARKET  MATRIX\tCoordinate Integer GENERAL  \r\n%\r\n%comment\n\n  3 3\t2 \r\n \r\n% more\n\
                \t 1   2 \t 7\r\n  % indented\n\n3 1 9  \n\n% end";
    assert_eq!(edges(&read(text).csr), [(0, 1, 7.0), (2, 0, 9.0)]);
}

#[test]
fn last_line_needs_no_line_feed() {
    assert_eq!(edges(&read(GENERAL.trim_end()).csr), [(0, 1, 1.0), (1, 2, 1.0)]);
    assert_eq!(read("%%MatrixMarket matrix coordinate pattern general\n4 4 0").csr.num_vertices(), 4);
}

#[test]
fn numbers_are_read_in_every_spelling() {
    let text = "%%MatrixMarket matrix coordinate double general\n2 2 10\n".to_owned();
    for (word, value) in [
        ("1.0D+02", 100.0),
        ("1d1", 10.0),
        (".45", 0.45),
        ("5.", 5.0),
        ("+3", 3.0),
        ("-.5E-1", -0.05),
        ("1e-300", 1e-300),
        ("0.1234567890123456789", 0.123_456_789_012_345_68),
        ("123456789012345678901234567890", 123456789012345678901234567890.0),
        ("4.9e-324", 4.9e-324),
    ] {
        let text = text.replace("10\n", "1\n") + &format!("1 2 {word}\n");
        assert_eq!(edges(&read(&text).csr), [(0, 1, value)], "{word}");
    }
}

#[test]
fn leading_zeros_of_ids_do_not_matter() {
    let graph =
        read("%%MatrixMarket matrix coordinate pattern general\n003 3 00001\n0000000000000000000000001 03\n");
    assert_eq!(edges(&graph.csr), [(0, 2, 1.0)]);
}

#[test]
fn unsigned_integers_are_integers() {
    let graph = read("%%MatrixMarket matrix coordinate unsigned-integer general\n2 2 1\n1 2 4294967295\n");
    assert_eq!(graph.csr.weights().weight_type(), WeightType::U32);
}

// Weights

#[test]
fn weights_are_stored_in_the_narrowest_type_that_holds_them() {
    let weigh = |field: &str, value: &str| {
        let text = format!("%%MatrixMarket matrix coordinate {field} general\n2 2 1\n1 2 {value}\n");
        let graph = read(&text);
        assert_eq!(graph.csr.weights().get(0, 0, 1), value.parse::<f64>().expect("a number"), "{value}");
        graph.csr.weights().weight_type()
    };
    assert_eq!(weigh("integer", "255"), WeightType::U8);
    assert_eq!(weigh("real", "255.0"), WeightType::U8);
    assert_eq!(weigh("real", "65535"), WeightType::U16);
    assert_eq!(weigh("integer", "65536"), WeightType::U32);
    assert_eq!(weigh("integer", "4294967297"), WeightType::F64);
    assert_eq!(weigh("integer", "-2"), WeightType::F32);
    assert_eq!(weigh("integer", "-16777217"), WeightType::F64);
    assert_eq!(weigh("real", "0.5"), WeightType::F32);
    assert_eq!(weigh("real", "0.1"), WeightType::F64);
    assert_eq!(weigh("integer", "9007199254740992"), WeightType::F32); // 2^53
    assert_eq!(weigh("integer", "9007199254740994"), WeightType::F64);
}

#[test]
fn integer_that_no_weight_holds_exactly_is_refused_where_it_would_be_one() {
    let text = "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2 9007199254740993\n";
    refused(text, &["line 3", "9007199254740993", "--weights"]);
    assert_eq!(read_as(text, &with(WeightRule::Ignore)).csr.num_edges(), 1);
}

#[test]
fn value_that_is_not_finite_is_refused_where_it_would_be_a_weight() {
    for word in ["inf", "-Infinity", "NaN", "nan", "INF", "1e999"] {
        let text = format!("%%MatrixMarket matrix coordinate real general\n2 2 2\n2 1 1\n1 2 {word}\n");
        refused(&text, &["line 4", word, "--weights unit"]);
        refused_as(&text, &with(WeightRule::Abs), &["line 4"]);
        for rule in [WeightRule::Ignore, WeightRule::Unit, WeightRule::Hash, WeightRule::Random { seed: 1 }] {
            assert_eq!(read_as(&text, &with(rule)).summary.non_finite, 1);
        }
    }
}

#[test]
fn value_must_be_a_number_even_where_it_is_ignored() {
    for word in ["x", "2,75", "1.2.3", "--1", "0x10", "1e", "."] {
        let text = format!("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 {word}\n");
        refused(&text, &["line 3", word, "not a number"]);
        refused_as(&text, &with(WeightRule::Ignore), &["line 3", word]);
    }
}

#[test]
fn negative_values_are_loaded_and_counted() {
    let graph = read("%%MatrixMarket matrix coordinate real general\n3 3 3\n1 2 -1.5\n2 3 2\n3 1 -0.25\n");
    assert_eq!(edges(&graph.csr), [(0, 1, -1.5), (1, 2, 2.0), (2, 0, -0.25)]);
    assert_eq!(graph.summary.negative_weights, 2);
}

#[test]
fn computed_weights_replace_those_of_the_file() {
    let text = "%%MatrixMarket matrix coordinate integer symmetric\n3 3 2\n2 1 4\n3 2 5\n";
    assert!(matches!(read_as(text, &with(WeightRule::Hash)).csr.weights(), Weights::Hash));
    assert!(matches!(read_as(text, &with(WeightRule::Unit)).csr.weights(), Weights::Unit));
    let random = |seed| edges(&read_as(text, &with(WeightRule::Random { seed })).csr);
    let weights = random(7);
    assert_eq!((weights[0].2, weights[2].2), (weights[1].2, weights[3].2));
    assert!(weights.iter().all(|&(_, _, w)| (1.0..=255.0).contains(&w)));
    assert_eq!(random(7), weights);
    assert!((0..10).any(|seed| random(seed) != weights));
}

// Refusals

#[test]
fn wrong_banner_is_refused_by_its_word() {
    refused("1 2 3\n", &["line 1", "1 2 3", "%%MatrixMarket"]);
    refused("%MatrixMarket matrix coordinate real general\n", &["line 1"]);
    refused("%%MatrixMarket vector coordinate real general\n1 1 0\n", &["line 1", "vector", "matrix"]);
    refused("%%MatrixMarket matrix sparse real general\n1 1 0\n", &["line 1", "sparse", "coordinate"]);
    refused(
        "%%MatrixMarket matrix coordinate quaternion general\n1 1 0\n",
        &["line 1", "quaternion", "pattern"],
    );
    refused("%%MatrixMarket matrix coordinate real diagonal\n1 1 0\n", &["line 1", "diagonal", "symmetric"]);
    refused("%%MatrixMarket matrix coordinate real\n1 1 0\n", &["line 1", "symmetry"]);
    refused("%%MatrixMarket matrix coordinate real general more\n1 1 0\n", &["line 1", "more"]);
    refused("%%MatrixMarket matrix array pattern general\n1 1\n", &["line 1", "pattern", "array"]);
    refused("%%MatrixMarket", &["line 1"]);
}

#[test]
fn blanks_before_the_banner_are_no_banner_but_pass() {
    assert_eq!(read(&format!(" \n\t{GENERAL}")).csr.num_edges(), 2);
    assert_eq!(read(&format!("\u{feff}{GENERAL}")).csr.num_edges(), 2);
}

#[test]
fn wrong_size_line_is_refused() {
    let banner = "%%MatrixMarket matrix coordinate pattern general\n";
    refused(banner, &["size line", "line 1"]);
    refused(&format!("{banner}% only comments\n"), &["size line", "line 2"]);
    for size in ["3 3", "3 3 1 1", "3 x 1", "3 3 -1", "3.0 3 1", "1 2 1.5"] {
        refused(&format!("{banner}%\n{size}\n1 2\n"), &["line 3", size, "rows, columns, entries"]);
    }
    refused("%%MatrixMarket matrix array real general\n2 2 4\n1\n", &["line 2", "2 2 4", "rows, columns"]);
}

#[test]
fn more_vertices_than_ids_are_refused_with_the_limit() {
    let banner = "%%MatrixMarket matrix coordinate pattern general\n";
    refused(&format!("{banner}4294967296 4294967296 1\n1 2\n"), &["line 2", "4294967295", "4294967296"]);
    refused(&format!("{banner}99999999999999999999999 1 1\n1 1\n"), &["4294967295"]);
    let bipartite = LoadOptions { bipartite: true, ..LoadOptions::default() };
    refused_as(&format!("{banner}4294967295 1 1\n1 1\n"), &bipartite, &["4294967295", "4294967296"]);
}

#[test]
fn symmetric_matrix_that_is_not_square_is_refused() {
    let text = "%%MatrixMarket matrix coordinate pattern symmetric\n2 3 1\n1 1\n";
    let bipartite = LoadOptions { bipartite: true, ..LoadOptions::default() };
    refused_as(text, &bipartite, &["line 2", "symmetric", "square"]);
}

#[test]
fn wrong_number_of_entries_is_refused_with_both_numbers() {
    let banner = "%%MatrixMarket matrix coordinate pattern general\n3 3";
    refused(&format!("{banner} 3\n1 2\n2 3\n"), &["line 2", "3 entries", "has 2"]);
    refused(&format!("{banner} 1\n1 2\n2 3\n"), &["1 entries", "has 2"]);
    refused(&format!("{banner} 4000000000000\n1 2\n"), &["4000000000000", "has 1"]);
    refused(&format!("{banner} 18446744073709551615\n1 2\n"), &["18446744073709551615", "has 1"]);
    refused("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n", &["4 entries", "has 3"]);
    refused("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n5\n", &["4 entries", "has 5"]);
    refused(
        "%%MatrixMarket matrix array real general\n4000000000 4000000000\n1\n",
        &["16000000000000000000"],
    );
}

#[test]
fn bad_line_is_refused_with_its_number() {
    let line = |field: &str, line: &str, parts: &[&str]| {
        let text = format!("%%MatrixMarket matrix coordinate {field} general\n%\n3 3 2\n1 2 {{}}\n{line}\n");
        let first = match field {
            "pattern" => "",
            "complex" => "1 1",
            _ => "1",
        };
        let mut all = vec!["line 5"];
        all.extend(parts);
        refused_as(&text.replace("{}", first), &with(WeightRule::Abs), &all);
        refused_as(&text.replace("{}", first), &with(WeightRule::Ignore), &all);
    };
    line("pattern", "1", &["\"1\"", "column", "row column"]);
    line("pattern", "1 2 3", &["1 2 3", "goes on"]);
    line("pattern", "0 1", &["row 0", "start at 1"]);
    line("pattern", "1 0", &["column 0", "start at 1"]);
    line("pattern", "4 1", &["row 4", "out of range", "3"]);
    line("pattern", "1 4", &["column 4", "out of range", "3"]);
    line("pattern", "4294967297 1", &["row 4294967297", "out of range"]);
    line("pattern", "99999999999999999999999 1", &["99999999999999999999999"]);
    line("pattern", "-1 1", &["-1", "id"]);
    line("pattern", "1.5 1", &["1.5", "id"]);
    line("pattern", "a b", &["row \"a\""]);
    line("pattern", "1 2x", &["column \"2x\""]);
    line("real", "2 3", &["2 3", "value"]);
    line("real", "2 3 1.5 7", &["goes on"]);
    line("real", "2 3 x", &["\"x\"", "number"]);
    line("integer", "2 3 1.5", &["1.5", "integer", "real"]);
    line("integer", "2 3 one", &["one", "integer"]);
    line("complex", "2 3 1.5", &["imaginary part"]);
    line("complex", "2 3 1.5 i", &["imaginary part", "\"i\""]);
    line("complex", "2 3 1 2 3", &["goes on"]);
}

#[test]
fn bad_line_is_quoted_short_and_without_control_characters() {
    let long = "x".repeat(5000);
    let text = format!("%%MatrixMarket matrix coordinate pattern general\n3 3 1\n{long}\u{1b}[31m\n");
    assert!(refused(&text, &["line 3", "xxx..."]).to_string().len() < 300);
    let text = "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n\u{1b}[31m 1\n";
    assert!(!refused(text, &["line 3"]).to_string().contains('\u{1b}'));
}

#[test]
fn first_bad_line_is_reported_whatever_the_number_of_threads() {
    let lines = 200_000;
    let mut text = format!("%%MatrixMarket matrix coordinate integer general\n9 9 {lines}\n");
    for line in 0..lines {
        text.push_str(match line {
            77_777 => "1 2 oops\n",
            77_778 | 190_000 => "0 1 2\n",
            _ => "1 2 3\n",
        });
    }
    for threads in [1, 2, 4, 7] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        for _ in 0..5 {
            pool.install(|| refused(&text, &["line 77780", "oops"]));
        }
    }
}

#[test]
fn graph_is_the_same_whatever_the_number_of_threads() {
    // A multigraph in no order, from a linear congruence.
    let (n, lines) = (1000_u64, 100_000);
    let mut text = format!("%%MatrixMarket matrix coordinate integer symmetric\n{n} {n} {lines}\n");
    let mut state = 12345_u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    for _ in 0..lines {
        text.push_str(&format!("{} {} {}\n", next() % n + 1, next() % n + 1, next() % 100_000));
    }
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("threads");
    let expected = one.install(|| read(&text));
    for threads in [2, 4] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        let graph = pool.install(|| read(&text));
        assert_eq!(edges(&graph.csr), edges(&expected.csr));
        assert_eq!(graph.summary.duplicates, expected.summary.duplicates);
    }
}

#[test]
fn file_cut_at_any_byte_is_refused_or_a_smaller_file() {
    let text = "%%MatrixMarket matrix coordinate complex hermitian\n% c\n3 3 3\n1 1 1.5e0 0\n2 1 -2 .5\r\n3 2 1 1d0\n";
    for len in 0..text.len() {
        let cut = load_bytes(Path::new("a.mtx"), &text.as_bytes()[..len], &with(WeightRule::Abs));
        // Only what follows the first digit of the last number may be missing.
        assert!(cut.is_err() || len >= text.len() - 3, "{len}");
    }
    let packed = gzip(text.as_bytes());
    for len in 0..packed.len() {
        assert!(load_bytes(Path::new("a.mtx.gz"), &packed[..len], &with(WeightRule::Abs)).is_err(), "{len}");
    }
    let archive = gzip(&tar(&[("a/a.mtx", text)]));
    for len in 0..archive.len() {
        assert!(load_bytes(Path::new("a.tar.gz"), &archive[..len], &with(WeightRule::Abs)).is_err(), "{len}");
    }
}

// Files

#[test]
fn wrapping_is_found_in_the_bytes_and_not_in_the_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let member =
        tar(&[("path/path_b.mtx", "no matrix"), ("path/path.mtx", GENERAL), ("path/readme.txt", "text")]);
    for (bytes, format) in [
        (GENERAL.as_bytes().to_vec(), "Matrix Market coordinate"),
        (gzip(GENERAL.as_bytes()), "gzip of Matrix Market coordinate"),
        (gzip(&member), "tar.gz of Matrix Market coordinate"),
        (member, "tar of Matrix Market coordinate"),
    ] {
        for name in ["a.mtx", "a.gz", "a", "a.gvg"] {
            let path = folder.path().join(name);
            std::fs::write(&path, &bytes).expect("written");
            let graph = load(&path, &LoadOptions::default(), &()).expect("loads");
            assert_eq!(edges(&graph.csr), [(0, 1, 1.0), (1, 2, 1.0)]);
            assert_eq!(graph.summary.format, format);
        }
    }
}

#[test]
fn several_gzip_members_are_one_stream() {
    let (first, second) = GENERAL.split_at(60);
    let bytes = [gzip(first.as_bytes()), gzip(second.as_bytes())].concat();
    let graph = load_bytes(Path::new("a.mtx.gz"), &bytes, &LoadOptions::default()).expect("loads");
    assert_eq!(graph.csr.num_edges(), 2);
}

#[test]
fn archive_without_the_matrix_is_refused_with_what_was_found() {
    let refused = |members: &[(&str, &str)]| {
        let bytes = gzip(&tar(members));
        load_bytes(Path::new("a.tar.gz"), &bytes, &LoadOptions::default()).expect_err("refused").to_string()
    };
    let message = refused(&[("a/b.mtx", GENERAL), ("a.mtx", GENERAL)]);
    assert!(message.contains("a/b.mtx and a.mtx") && message.contains("--member"), "{message}");
    let message = refused(&[("a/a.pdf", "title"), ("a/b.pdf", "title")]);
    assert!(message.contains("a/a.pdf, a/b.pdf") && message.contains("NAME/NAME.mtx"), "{message}");
    let message = refused(&[("a/a.mtx", GENERAL), ("b/b.mtx", GENERAL)]);
    assert!(message.contains("a/a.mtx and b/b.mtx"), "{message}");
}

#[test]
fn damaged_gzip_is_refused() {
    let mut bytes = gzip(GENERAL.as_bytes());
    let checksum = bytes.len() - 8;
    bytes[checksum] ^= 1;
    let error = load_bytes(Path::new("a.gz"), &bytes, &LoadOptions::default()).expect_err("refused");
    assert!(error.to_string().contains("damaged or cut short gzip"), "{error}");
    // In an archive the checksum stands after the matrix.
    let mut bytes = gzip(&tar(&[("a/a.mtx", GENERAL)]));
    let checksum = bytes.len() - 8;
    bytes[checksum] ^= 1;
    assert!(load_bytes(Path::new("a.tar.gz"), &bytes, &LoadOptions::default()).is_err());
}

#[test]
fn other_kinds_of_files_are_refused_by_name() {
    let refused = |bytes: &[u8]| {
        load_bytes(Path::new("a"), bytes, &LoadOptions::default()).expect_err("refused").to_string()
    };
    assert!(refused(b"<!DOCTYPE html>\n<html>").contains("HTML"));
    assert!(refused(b"\n  <HTML><body>").contains("HTML"));
    assert!(refused(b"PK\x03\x04....").contains("damaged or cut short zip"));
    assert!(refused(b"BZh91AY").contains("damaged or cut short bzip2"));
    assert!(refused(b"\xFD7zXZ\x00..").contains("damaged or cut short xz"));
    assert!(refused(b"\x28\xB5\x2F\xFD..").contains("damaged or cut short zstd"));
    assert!(refused(b"7z\xBC\xAF\x27\x1C..").contains("7z x"));
    assert!(refused(b"\x89HDF\r\n\x1a\n..").contains("HDF5"));
    assert!(refused(b"").contains("empty"));
    assert!(refused(b"\x00\x01\x02\xff").contains("--format"));
    assert!(refused(&gzip(b"")).contains("empty"));
}

#[test]
fn file_that_cannot_be_read_is_refused_with_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |path: &Path| load(path, &LoadOptions::default(), &()).expect_err("refused");
    assert!(matches!(open(folder.path()), LoadError::Directory { .. }));
    let missing = folder.path().join("missing.mtx");
    assert!(matches!(open(&missing), LoadError::Open { .. }));
    assert!(open(&missing).to_string().contains("missing.mtx"));
    let empty = folder.path().join("empty.mtx");
    std::fs::write(&empty, "").expect("written");
    assert!(matches!(open(&empty), LoadError::Empty { .. }));
}

#[test]
fn graph_larger_than_memory_is_refused_with_both_sizes() {
    // 4294967295 vertices need 32 GiB of row offsets; with more memory than that there is nothing to refuse.
    let text = "%%MatrixMarket matrix coordinate pattern general\n4294967295 4294967295 0\n";
    let mut system = sysinfo::System::new().expect("a system");
    system.refresh_memory();
    if system.available_memory() < 32 << 30 {
        let error = refused(text, &["available", "34359738368 bytes"]);
        assert!(matches!(error, LoadError::OutOfMemory { .. }));
    }
}

// Progress

/// Remembers phases and how far each came; cancels after some advances.
struct Follow {
    phases: Mutex<Vec<(&'static str, u64)>>,
    done: AtomicU64,
    questions_left: AtomicU64,
}

impl Follow {
    fn new(questions: u64) -> Self {
        Self { phases: Mutex::default(), done: AtomicU64::new(0), questions_left: AtomicU64::new(questions) }
    }
}

impl Progress for Follow {
    fn begin(&self, phase: &'static str, total: u64) {
        self.phases.lock().expect("no panic").push((phase, total));
        self.done.store(0, Relaxed);
    }
    fn advance(&self, by: u64) {
        self.done.fetch_add(by, Relaxed);
    }
    fn end(&self) {
        let mut phases = self.phases.lock().expect("no panic");
        let last = phases.last_mut().expect("it began");
        last.1 -= self.done.load(Relaxed);
    }
    fn is_cancelled(&self) -> bool {
        self.questions_left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err()
    }
}

#[test]
fn every_phase_comes_to_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.mtx");
    std::fs::write(&path, gzip(GENERAL.as_bytes())).expect("written");
    let follow = Follow::new(u64::MAX);
    load(&path, &LoadOptions::default(), &follow).expect("loads");
    let phases = follow.phases.into_inner().expect("no panic");
    assert_eq!(phases, [("unpack", 0), ("count edges", 0), ("fill rows", 0), ("sort", 0)]);
}

#[test]
fn load_that_is_cancelled_at_any_time_is_interrupted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.mtx");
    std::fs::write(&path, gzip(&tar(&[("a/a.mtx", GENERAL)]))).expect("written");
    let mut finished = false;
    for questions in 0..100 {
        match load(&path, &LoadOptions::default(), &Follow::new(questions)) {
            Err(LoadError::Interrupted) => assert!(!finished),
            Err(error) => panic!("{error}"),
            Ok(_) => finished = true,
        }
    }
    assert!(finished);
}
