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

/// Numbers below `bound` in no order, the same every time.
fn scattered(seed: u64, bound: u32) -> u32 {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((x >> 33) % u64::from(bound)) as u32
}

/// Entries of rows that ascend, with a row of half of them, ids that never occur, loops and edges that are there twice.
fn entries_in_order() -> Vec<(u32, u32, u32)> {
    let mut entries: Vec<(u32, u32, u32)> = (0..60_000)
        .map(|i| {
            let row = if i % 2 == 0 { 700 } else { scattered(i, 2000) / 3 * 3 };
            (row, scattered(i + 1_000_000, 50_000), scattered(i, 256))
        })
        .collect();
    entries.push((5, 5, 1));
    entries.sort_unstable();
    entries
}

/// What must become of entries: loops go, of the same edge the smallest weight stays.
fn kept(entries: &[(u32, u32, u32)], symmetrize: bool, weight: impl Fn(u32) -> f64) -> Vec<(u32, u32, f64)> {
    let mut kept = std::collections::BTreeMap::new();
    for &(u, v, w) in entries.iter().filter(|(u, v, _)| u != v) {
        for edge in [Some((u, v)), symmetrize.then_some((v, u))].into_iter().flatten() {
            let least: &mut f64 = kept.entry(edge).or_insert(f64::INFINITY);
            *least = least.min(weight(w));
        }
    }
    kept.into_iter().map(|((u, v), w)| (u, v, w)).collect()
}

#[test]
fn entries_in_any_order_give_the_graph_of_those_in_order_of_rows() {
    let in_order = entries_in_order();
    let mut unique = in_order.clone();
    unique.dedup_by_key(|&mut (u, v, _)| (u, v));
    unique.retain(|(u, v, _)| u != v);
    let mut columns_descend = in_order.clone();
    columns_descend.sort_by_key(|&(u, v, _)| (u, u32::MAX - v));
    let mut scattered_ones = in_order.clone();
    scattered_ones.sort_by_key(|&(u, v, w)| scattered(u64::from(u * 31 + v * 7 + w), 1 << 30));
    let mut mixed = in_order.clone();
    mixed[30_000..].clone_from_slice(&scattered_ones[30_000..]);
    let mut one_astray = unique.clone();
    one_astray.push((0, 1, 9));
    let orders =
        [&in_order, &unique, &columns_descend, &scattered_ones, &mixed, &one_astray].map(|order| &order[..]);
    // Weights that take one byte, two after some time, four, and a fraction among the last.
    let weights: [fn(u32) -> f64; 4] = [
        f64::from,
        |w| f64::from(w * w),
        |w| if w == 77 { 4e9 } else { f64::from(w) },
        |w| f64::from(w) + if w == 13 { 0.1 } else { 0.0 },
    ];
    for entries in orders {
        for (separator, end) in
            [(" ", "\n"), ("\t", "\r\n"), (", ", "\n# a comment that is as long as an edge\n")]
        {
            let text: String = entries.iter().map(|(u, v, _)| format!("{u}{separator}{v}{end}")).collect();
            let graph = read(&text).expect("loads");
            assert!(edges(&graph) == kept(entries, false, |_| 1.0));
            let loops = entries.iter().filter(|(u, v, _)| u == v).count() as u64;
            let merged = entries.len() as u64 - loops - graph.csr.num_edges();
            let found = (graph.summary.stored_entries, graph.summary.self_loops, graph.summary.duplicates);
            assert_eq!(found, (entries.len() as u64, loops, merged));
        }
        for weight in weights {
            let line = |&(u, v, w): &(u32, u32, u32)| format!("{u} {v} {}\n", weight(w));
            let text: String = entries.iter().map(line).collect();
            for symmetrize in [false, true] {
                let options = LoadOptions { symmetrize, ..LoadOptions::default() };
                let graph = load_bytes(Path::new("a"), text.as_bytes(), &options).expect("loads");
                assert!(edges(&graph) == kept(entries, symmetrize, weight));
            }
        }
    }
}

#[test]
fn lists_of_few_edges_are_loaded_like_those_of_many() {
    for (text, expected) in [
        ("0 1", &[(0, 1, 1.0)][..]),
        ("0\t1\n", &[(0, 1, 1.0)]),
        ("12345678 87654321\n", &[]),
        ("3 3\n", &[]),
        ("1 0\n0 1\n1 0\n", &[(0, 1, 1.0), (1, 0, 1.0)]),
        ("0 2 7\n0 1 7", &[(0, 1, 7.0), (0, 2, 7.0)]),
        ("0 00000000000001\n00000000 0000000000002\n", &[(0, 1, 1.0), (0, 2, 1.0)]),
    ] {
        match read(text) {
            Ok(graph) => assert_eq!(edges(&graph), expected, "{text:?}"),
            // Two edges do not make up for so many vertices.
            Err(error) => assert!(expected.is_empty() && error.to_string().contains("--relabel"), "{error}"),
        }
    }
}

#[test]
fn line_longer_than_what_a_thread_reads_is_one_line() {
    let comment = format!("# {}\n", "0 1 ".repeat(30_000));
    let blanks = " ".repeat(100_000);
    let text = format!("{comment}3 1\n{comment}{comment}3{blanks}2\n{comment}4 0\n{comment}");
    assert_eq!(edges(&read(&text).expect("loads")), [(3, 1, 1.0), (3, 2, 1.0), (4, 0, 1.0)]);
    let error = read(&format!("{text}{}4 x\n", "5 6\n".repeat(50_000))).expect_err("no edge").to_string();
    assert!(error.contains("line 50009"), "{error}");
}
