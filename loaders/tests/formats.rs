//! Formats by small files made by hand: what each of their parts means, and what is refused.

use std::io::Write;
use std::path::{Path, PathBuf};

use gpuvm_loaders::{Format, LoadError, LoadOptions, LoadedGraph, WeightRule, load, load_bytes, load_files};

fn read(name: &str, bytes: &[u8]) -> Result<LoadedGraph, LoadError> {
    load_bytes(Path::new(name), bytes, &LoadOptions::default())
}

fn edges(graph: &LoadedGraph) -> Vec<(u32, u32, f64)> {
    (0..graph.csr.num_vertices() as u32)
        .flat_map(|u| graph.csr.edges(u).map(move |(_, v, weight)| (u, v, weight)))
        .collect()
}

fn refused(name: &str, bytes: &[u8], parts: &[&str]) {
    let error = read(name, bytes).expect_err("refused").to_string();
    for part in parts {
        assert!(error.contains(part), "{:?}: {error}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn formats_are_asked_for_by_name() {
    for &format in Format::ALL {
        assert_eq!(format.to_string().parse::<Format>(), Ok(format));
    }
    let error = "graphml".parse::<Format>().expect_err("none").to_string();
    assert!(error.contains("graphml") && error.contains("metis"), "{error}");
    // The same text, as what it is taken for.
    let text = b"2 1\n2\n1\n";
    assert_eq!(edges(&read("a", text).expect("METIS")), [(0, 1, 1.0), (1, 0, 1.0)]);
    let options = LoadOptions { format: Some(Format::EdgeList), ..LoadOptions::default() };
    let error = load_bytes(Path::new("a"), text, &options).expect_err("no edge").to_string();
    assert!(error.contains("line 2"), "{error}");
    let options = LoadOptions { format: Some(Format::MatrixMarket), ..LoadOptions::default() };
    assert!(matches!(load_bytes(Path::new("a"), text, &options), Err(LoadError::NoBanner { .. })));
}

// Edge lists and tables

#[test]
fn table_with_names_is_read_by_them() {
    for text in [
        "source,target,weight\n0,1,5\n1,2,7\n",
        "weight,target,source\n5,1,0\n7,2,1\n",
        "\"id\",\"Source\",\"Label\",\"Target\",\"Weight\"\r\n9,0,\"a, \"\"b\"\"\",1,5\r\n8,\"1\",,2,7\r\n",
        "src;dst;w\n0;1;5\n1;2;7\n",
        "from\tto\tcost\tname\n0\t1\t5\ta b\n1\t2\t7\t\n",
        "from|to|cost\n0|1|5\n1|2|7\n",
    ] {
        let graph = read("edges.csv", text.as_bytes()).expect(text);
        assert_eq!(edges(&graph), [(0, 1, 5.0), (1, 2, 7.0)], "{text}");
        assert_eq!(graph.summary.field, "integer");
    }
    assert_eq!(read("a", b"source,target\n0,1\n").expect("loads").summary.format, "CSV");
}

#[test]
fn columns_are_named_or_numbered_by_the_caller() {
    let with = |columns: &str| LoadOptions { columns: Some(columns.to_owned()), ..LoadOptions::default() };
    let read = |text: &str, columns: &str| load_bytes(Path::new("a"), text.as_bytes(), &with(columns));
    let text = "time,a,b,cost\n100,0,1,5\n200,1,2,7\n";
    for columns in ["a,b,cost", "2,3,4", "A, B, COST"] {
        assert_eq!(edges(&read(text, columns).expect("loads")), [(0, 1, 5.0), (1, 2, 7.0)], "{columns}");
    }
    assert_eq!(edges(&read(text, "b,a").expect("loads")), [(1, 0, 1.0), (2, 1, 1.0)]);
    let konect = "% asym positive\n0 1 5 1234\n1 2 7 1235\n";
    assert_eq!(edges(&read(konect, "1,2,3").expect("loads")), [(0, 1, 5.0), (1, 2, 7.0)]);
    assert_eq!(edges(&read("# from to cost\n0 1 5\n", "to,from,cost").expect("loads")), [(1, 0, 5.0)]);
    for (text, columns, part) in [
        (text, "a,c", "time, a, b, cost"),
        (text, "1,9", "\"9\""),
        (text, "a", "two columns"),
        (text, "a,b,cost,time", "two columns"),
        ("0 1\n", "1,3", "2 columns without names"),
    ] {
        let error = read(text, columns).expect_err("refused").to_string();
        assert!(error.contains(part), "{columns}: {error}");
    }
    let error = load_bytes(Path::new("a"), b"p sp 2 1\na 1 2 3\n", &with("1,2")).expect_err("refused");
    assert!(error.to_string().contains("--columns is for edge lists"), "{error}");
    refused("a.csv", b"when,who,whom,what\n1,2,3,4\n", &["line 1", "--columns", "when, who, whom, what"]);
    refused("a.csv", b"source,target,weight\n1,2,\n", &["line 2", "weight"]);
    refused("a.csv", b"source,target,note\n1,\"x\",3\n2,1,3\n", &["line 2"]);
}

#[test]
fn ids_of_any_size_are_numbered_and_kept_if_asked_for() {
    let options = LoadOptions { relabel: true, ..LoadOptions::default() };
    let text = b"18446744073709551000 5\n5 70000000000 \n70000000000 5\n";
    let graph = load_bytes(Path::new("a"), text, &options).expect("loads");
    assert_eq!(edges(&graph), [(0, 1, 1.0), (1, 0, 1.0), (2, 0, 1.0)]);
    assert_eq!(graph.ids.as_deref(), Some(&[5, 70_000_000_000, 18_446_744_073_709_551_000][..]));
    assert_eq!(read("a", b"5 7\n").expect("loads").ids, None);
    let error = load_bytes(Path::new("a"), b"1 99999999999999999999\n", &options).expect_err("too long");
    assert!(error.to_string().contains("64-bit"), "{error}");
    refused("a", b"1 99999999999\n", &["line 1", "--relabel"]);
}

// DIMACS

#[test]
fn dimacs_counts_from_1_with_a_problem_line_and_from_0_without() {
    let graph = read("a.gr", b"c text\np sp 3 2\na 1 2 7\nc more\na 2 3 8\n").expect("loads");
    assert_eq!(edges(&graph), [(0, 1, 7.0), (1, 2, 8.0)]);
    let graph = read("a.gr", b"a 0 1 7\na 1 2 8\n").expect("loads");
    assert_eq!(edges(&graph), [(0, 1, 7.0), (1, 2, 8.0)]);
    let graph = read("a.col", b"c graph\np edge 3 2\ne 1 2\ne 3 2\n").expect("loads");
    assert_eq!(edges(&graph), [(0, 1, 1.0), (1, 0, 1.0), (1, 2, 1.0), (2, 1, 1.0)]);
    assert!(graph.csr.is_symmetric());
    for (text, parts) in [
        (&b"p sp 3 2\na 1 2 7\n"[..], &["line 1", "2 entries", "has 1"][..]),
        (b"p sp 3 1\na 0 2 7\n", &["line 2", "source 0", "start at 1"]),
        (b"p sp 3 1\na 1 4 7\n", &["line 2", "4", "3"]),
        (b"p sp 3 1\na 1 2\n", &["line 1"]),
        (b"p sp 3 1\nx 1 2 3\n", &["line 2"]),
        (b"p sp 3\na 1 2 7\n", &["line 1", "VERTICES ARCS"]),
        (b"p max 3 1\na 1 2 7\n", &["line 1", "max", "sp"]),
        (b"p sp 5000000000 1\na 1 2 7\n", &["4294967295"]),
    ] {
        let error = read("a.gr", text).map(|graph| edges(&graph));
        match error {
            Err(error) => {
                let error = error.to_string();
                assert!(parts.iter().all(|part| error.contains(part)), "{error}");
            }
            // Without weights it is a graph of weights 1.
            Ok(found) => assert_eq!((text, found), (&b"p sp 3 1\na 1 2\n"[..], vec![(0, 1, 1.0)])),
        }
    }
}

// METIS

#[test]
fn metis_is_read_with_every_format_code() {
    let ring = [(0, 1, 1.0), (0, 2, 1.0), (1, 0, 1.0), (1, 2, 1.0), (2, 0, 1.0), (2, 1, 1.0)];
    for (text, weighted) in [
        ("3 3\n2 3\n1 3\n1 2\n", false),
        ("% c\n3 3 0\n2 3\n% c\n1 3\n1 2", false),
        ("3 3 1\n2 9 3 8\n1 9 3 7\n1 8 2 7\n", true),
        ("3 3 10\n5 2 3\n5 1 3\n5 1 2\n", false),
        ("3 3 010 2\n5 6 2 3\n5 6 1 3\n5 6 1 2\n", false),
        ("3 3 11\n5 2 9 3 8\n5 1 9 3 7\n5 1 8 2 7\n", true),
        ("3 3 100 0\n4 2 3\n4 1 3\n4 1 2\n", false),
        ("3 3 101\n4 2 9 3 8\n4 1 9 3 7\n4 1 8 2 7\n", true),
        ("3 3 110 1\n4 5 2 3\n4 5 1 3\n4 5 1 2\n", false),
        ("3 3 111\n4 5 2 9 3 8\n4 5 1 9 3 7\n4 5 1 8 2 7\n", true),
        ("3 3 100\n2 3\n1 3\n1 2\n", false),
    ] {
        let graph = read("a.graph", text.as_bytes()).expect(text);
        let found = edges(&graph);
        let ends = |edges: &[(u32, u32, f64)]| edges.iter().map(|&(u, v, _)| (u, v)).collect::<Vec<_>>();
        assert_eq!(ends(&found), ends(&ring), "{text}");
        if weighted {
            assert_eq!(found.iter().map(|edge| edge.2).collect::<Vec<_>>(), [9.0, 8.0, 9.0, 7.0, 8.0, 7.0]);
        }
    }
    // Vertices without edges are empty lines, the last of which editors cut off.
    let graph = read("a.graph", b"5 1\n\n3\n2\n").expect("loads");
    assert_eq!((graph.csr.num_vertices(), edges(&graph)), (5, vec![(1, 2, 1.0), (2, 1, 1.0)]));
    for (text, parts) in [
        ("3 3\n2 3\n1 3\n1\n", &["line 1", "3 edges", "5 neighbours"][..]),
        ("3 3\n2 3\n1 4\n1 2\n", &["line 3", "4", "3"]),
        ("3 3\n2 3\n1 0\n1 2\n", &["line 3", "start at 1"]),
        ("3 3\n2 x\n1 3\n1 2\n", &["line 2", "\"x\""]),
        ("3 3 1\n2 1 3\n1 3 1\n1 2\n", &["line 2", "weight"]),
        ("3 3\n2 3\n1 3\n1 2\n1\n", &["line 5", "3 vertices"]),
        ("3 3 2\n2 3\n1 3\n1 2\n", &["line 1", "FMT"]),
        ("3\n", &["--format", "metis"]),
    ] {
        refused("a.graph", text.as_bytes(), parts);
    }
}

// Binary formats

fn serialized(directed: bool, offsets: &[u64], targets: &[u32], weights: Option<&[i32]>) -> Vec<u8> {
    let mut bytes = vec![u8::from(directed)];
    bytes.extend((targets.len() as u64).to_le_bytes());
    bytes.extend((offsets.len() as u64 - 1).to_le_bytes());
    for _ in 0..if directed { 2 } else { 1 } {
        offsets.iter().for_each(|offset| bytes.extend(offset.to_le_bytes()));
        for (edge, target) in targets.iter().enumerate() {
            bytes.extend(target.to_le_bytes());
            if let Some(weights) = weights {
                bytes.extend(weights[edge].to_le_bytes());
            }
        }
    }
    bytes
}

#[test]
fn serialized_graph_is_told_by_its_size() {
    let bytes = serialized(true, &[0, 2, 2, 3], &[1, 2, 0], None);
    let graph = read("a", &bytes).expect("loads");
    assert_eq!(edges(&graph), [(0, 1, 1.0), (0, 2, 1.0), (2, 0, 1.0)]);
    assert_eq!(graph.summary.format, "GAP .sg directed");
    let bytes = serialized(false, &[0, 1, 2], &[1, 0], Some(&[-7, 300]));
    let graph = read("a", &bytes).expect("loads");
    assert_eq!(edges(&graph), [(0, 1, -7.0), (1, 0, 300.0)]);
    assert_eq!(graph.summary.format, "GAP .wsg undirected");
    refused("a.wsg", &bytes[..bytes.len() - 1], &["2 vertices and 2 edges", "it has 56"]);
    refused("a.sg", &serialized(true, &[0, 2, 1, 3], &[1, 2, 0], None), &["vertex 1"]);
    refused("a.sg", &serialized(true, &[0, 2, 2, 2], &[1, 2, 0], None), &["vertex 3"]);
    refused("a.sg", &serialized(true, &[0, 2, 2, 3], &[1, 3, 0], None), &["entry 1", "id 3", "less than 3"]);
}

fn elements<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    let mut file = (values.len() as u64).to_le_bytes().to_vec();
    file.extend([0; 8]);
    values.iter().for_each(|&value| file.extend(bytes(value)));
    file
}

#[test]
fn emogi_graph_is_read_by_the_name_of_any_of_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("g.bel.col"), elements(&[0_u64, 2, 2, 3], u64::to_le_bytes)).expect("written");
    std::fs::write(path("g.bel.dst"), elements(&[1_u64, 2, 0], u64::to_le_bytes)).expect("written");
    for name in ["g.bel", "g.bel.col", "g.bel.dst"] {
        let graph = load(&path(name), &LoadOptions::default(), &()).expect("loads");
        assert_eq!(edges(&graph), [(0, 1, 1.0), (0, 2, 1.0), (2, 0, 1.0)], "{name}");
    }
    std::fs::write(path("g.bel.val"), elements(&[5_u32, 6, 7], u32::to_le_bytes)).expect("written");
    let graph = load(&path("g.bel"), &LoadOptions::default(), &()).expect("loads");
    assert_eq!(edges(&graph), [(0, 1, 5.0), (0, 2, 6.0), (2, 0, 7.0)]);
    std::fs::write(path("g.bel.val"), elements(&[5_u32, 6], u32::to_le_bytes)).expect("written");
    let error = load(&path("g.bel"), &LoadOptions::default(), &()).expect_err("too few").to_string();
    assert!(error.contains("g.bel.val") && error.contains("2 weights for 3 edges"), "{error}");
    let unweighted = LoadOptions { weights: WeightRule::Ignore, ..LoadOptions::default() };
    assert!(load(&path("g.bel"), &unweighted, &()).is_ok());
    std::fs::remove_file(path("g.bel.col")).expect("removed");
    let error = load(&path("g.bel"), &LoadOptions::default(), &()).expect_err("missing").to_string();
    assert!(error.contains("g.bel.col"), "{error}");
}

// Ligra

#[test]
fn adjacency_graph_of_ligra_is_read_word_by_word() {
    let graph = read("a.adj", b"AdjacencyGraph\n3\n3\n0\n2\n2\n1\n2\n0\n").expect("loads");
    assert_eq!(edges(&graph), [(0, 1, 1.0), (0, 2, 1.0), (2, 0, 1.0)]);
    let graph = read("a.adj", b"WeightedAdjacencyGraph 3 3 0 2 2 1 2 0 5 6 -7").expect("loads");
    assert_eq!(edges(&graph), [(0, 1, 5.0), (0, 2, 6.0), (2, 0, -7.0)]);
    for (text, parts) in [
        (&b"AdjacencyGraph\n3\n3\n0\n2\n2\n1\n2\n"[..], &["9 words", "has 8"][..]),
        (b"AdjacencyGraph\n3\n3\n0\n2\n2\n1\n3\n0\n", &["line 8", "3"]),
        (b"AdjacencyGraph\n3\n3\n0\n2\n1\n1\n2\n0\n", &["vertex 1"]),
        (b"AdjacencyGraph\n3\n3\n0\nx\n2\n1\n2\n0\n", &["line 5", "\"x\""]),
        (b"WeightedAdjacencyGraph 2 1 0 1 1 w", &["line 1", "weight \"w\""]),
        (b"AdjacencyHypergraph\n1\n1\n", &["hypergraph"]),
    ] {
        refused("a.adj", text, parts);
    }
}

// Graphalytics

#[test]
fn graphalytics_graph_is_two_files_and_its_properties() {
    let files = |vertices: &str, edges: &str, properties: &str| {
        let mut others = vec![(PathBuf::from("g.e"), edges.as_bytes().to_vec())];
        if !properties.is_empty() {
            others.push((PathBuf::from("g.properties"), properties.as_bytes().to_vec()));
        }
        load_files(Path::new("g.v"), vertices.as_bytes(), &others, &LoadOptions::default())
    };
    let graph = files("70\n5\n900\n", "70 5 0.5\n5 900 2\n", "").expect("loads");
    assert_eq!(edges(&graph), [(0, 1, 0.5), (1, 2, 2.0)]);
    assert_eq!(graph.ids.as_deref(), Some(&[70, 5, 900][..]));
    let graph = files("70\n5\n900\n", "70 5\n5 900\n", "graph.g.directed = false\n").expect("loads");
    assert_eq!(edges(&graph), [(0, 1, 1.0), (1, 0, 1.0), (1, 2, 1.0), (2, 1, 1.0)]);
    for (vertices, edges, parts) in [
        ("70\n5\n", "70 5\n5 900\n", &["g.e", "line 2", "900"][..]),
        ("70\n5\n70\n", "70 5\n", &["g.v", "line 3", "70"]),
        ("70\nx\n", "70 5\n", &["g.v", "line 2"]),
    ] {
        let error = files(vertices, edges, "").expect_err("refused").to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let options = LoadOptions { format: Some(Format::Graphalytics), ..LoadOptions::default() };
    let error = load_bytes(Path::new("g.v"), b"70\n", &options).expect_err("no edges").to_string();
    assert!(error.contains("g.e belongs to this file"), "{error}");
}

// BVGraph

/// Properties of a graph whose codes are all gamma codes, but unary references.
const PROPERTIES: &str = "graphclass=it.unimi.dsi.webgraph.BVGraph\nversion=0\nnodes=4\narcs=8\nwindowsize=7\n\
    minintervallength=2\ncompressionflags=RESIDUALS_GAMMA\n";

/// By hand, gamma codes of the paper's table 1: 0 is 1, 1 is 010, 2 is 011, 3 is 00100, 4 is 00101.
fn compressed() -> Vec<u8> {
    let bits = [
        // 0 -> 1, 2, 3: three, no reference, one interval that begins at 0 + 1 (2) and is 2 + 1 (1) long.
        "00100 1 010 011 010",
        // 1 -> 1, 2: two, copied from the list before: one block of two (its length is 2).
        "011 01 010 011",
        // 2 -> 0, 3: two, copied from the list two before but for the first two: blocks 0, 2 (1), and the rest, 3; no
        // interval, and 0 is 2 - 2 (3).
        "011 001 011 1 010 1 00100",
        // 3 -> 3: one, no reference, no interval, 3 + 0 (0).
        "010 1 1 1",
    ];
    let bits: Vec<u8> = bits.concat().bytes().filter(|b| *b != b' ').map(|b| b - b'0').collect();
    bits.chunks(8)
        .map(|chunk| chunk.iter().enumerate().fold(0, |byte, (at, bit)| byte | bit << (7 - at)))
        .collect()
}

fn read_bvgraph(graph: &[u8], properties: &str) -> Result<LoadedGraph, LoadError> {
    let others = [(PathBuf::from("g.graph"), graph.to_vec())];
    let options = LoadOptions { keep_loops: true, ..LoadOptions::default() };
    load_files(Path::new("g.properties"), properties.as_bytes(), &others, &options)
}

#[test]
fn compressed_web_graph_is_read_with_references_intervals_and_the_rest() {
    let graph = read_bvgraph(&compressed(), PROPERTIES).expect("loads");
    let found: Vec<(u32, u32)> = edges(&graph).into_iter().map(|(u, v, _)| (u, v)).collect();
    assert_eq!(found, [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 0), (2, 3), (3, 3)]);
    // By the name of the other file.
    let others = [(PathBuf::from("g.properties"), PROPERTIES.as_bytes().to_vec())];
    let graph = load_files(Path::new("g.graph"), &compressed(), &others, &LoadOptions::default());
    assert_eq!(graph.expect("loads").csr.num_edges(), 6);
    for (properties, part) in [
        (PROPERTIES.replace("arcs=8", "arcs=9"), "8 arcs"),
        (PROPERTIES.replace("arcs=8", "arcs=7"), "8 or more arcs"),
        (PROPERTIES.replace("nodes=4\n", ""), "nodes"),
        (PROPERTIES.replace("RESIDUALS_GAMMA", "RESIDUALS_GOLOMB"), "RESIDUALS_GOLOMB"),
        (PROPERTIES.replace("nodes=4", "nodes=4000"), "4000"),
    ] {
        let error = read_bvgraph(&compressed(), &properties).expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// LAW/cnr-2000, where the graphs of `GPUVM_DATASETS` are at hand.
#[test]
fn web_graph_of_law_is_the_same_as_in_matrix_market() {
    let Some(folder) = std::env::var_os("GPUVM_DATASETS").map(PathBuf::from) else { return };
    let options = LoadOptions::default();
    let graph = load(&folder.join("bvgraph/cnr-2000.graph"), &options, &()).expect("loads");
    let other = load(&folder.join("derived/cnr-2000.mtx.gz"), &options, &()).expect("loads");
    assert_eq!(graph.summary.stored_entries, 3_216_152);
    assert_eq!(graph.csr.row_offsets().as_slice(), other.csr.row_offsets().as_slice());
    assert_eq!(graph.csr.column_indices().as_slice(), other.csr.column_indices().as_slice());
}

// Rutherford-Boeing

#[test]
fn rutherford_boeing_refuses_what_its_head_does_not_allow() {
    let head = "title\n 4 1 1 2\nrua 3 3 3 0\n(4I3) (3I3) (2E12.4)\n";
    let text = format!("{head}  1  3  3  4\n  2  3  1\n  1.5000E+00  0.2500+100\n -3.0000D+00\n");
    let graph = read("a.rb", text.as_bytes()).expect("loads");
    assert_eq!(edges(&graph), [(0, 2, -3.0), (1, 0, 1.5), (2, 0, 0.25e100)]);
    for (from, to, parts) in [
        ("rua", "rue", &["rue", "elemental", "assembled"][..]),
        ("  1  3  3  4", "  1  3  2  4", &["pointers"]),
        ("  1  3  3  4", "  1  3  3  5", &["pointers"]),
        ("  2  3  1", "  2  4  1", &["line 6", "row"]),
        ("  2  3  1", "  2  0  1", &["line 6", "row"]),
        ("-3.0000D+00", "-3.0x00D+00", &["line 8", "values"]),
        ("(4I3)", "(4X3)", &["line 4", "Fortran"]),
        ("rua 3 3 3", "rua 3 3 999", &["line 3", "1002"]),
        ("rua 3 3 3", "rsa 2 3 3", &["square"]),
    ] {
        refused("a.rb", text.replacen(from, to, 1).as_bytes(), parts);
    }
    let cut = &text[..text.len() - 14];
    refused("a.rb", cut.as_bytes(), &["8 lines", "7"]);
}

// MATLAB

#[test]
fn matlab_files_that_hold_no_one_sparse_matrix_are_refused() {
    let mut head = b"MATLAB 7.3 MAT-file".to_vec();
    head.resize(512, b' ');
    refused("a.mat", &head, &["7.3", "-v7"]);
    let mut head = b"MATLAB 5.0 MAT-file".to_vec();
    head.resize(124, b' ');
    head.extend(b"\x00\x01IM");
    refused("a.mat", &head, &["no sparse matrix"]);
    refused("a.mat", &head[..100], &["head of 128 bytes"]);
}

// Archives

fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = zip::write::SimpleFileOptions::default();
        writer.start_file(*name, options).expect("to memory");
        writer.write_all(bytes).expect("to memory");
    }
    writer.finish().expect("to memory").into_inner()
}

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, name, *bytes).expect("to memory");
    }
    builder.into_inner().expect("to memory")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 6);
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 3).expect("to memory")
}

/// As `bgzip` writes it: members that say how long they are.
fn bgzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for chunk in bytes.chunks(10_000).chain([&b""[..]]) {
        let member = gzip(chunk);
        let body = &member[10..];
        let length = (18 + body.len() - 1) as u16;
        file.extend([0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, b'B', b'C', 2, 0]);
        file.extend(length.to_le_bytes());
        file.extend(body);
    }
    file
}

/// Some hundred kilobytes of edges.
fn long_list() -> String {
    (0..30_000_u32).map(|e| format!("{} {}\n", e % 977, e / 977 + 100)).collect()
}

#[test]
fn every_compression_and_archive_gives_the_same_graph() {
    let text = long_list();
    let text = text.as_bytes();
    let plain = read("a.el", text).expect("loads");
    type Compress = fn(&[u8]) -> Vec<u8>;
    let compressions: [(&str, &str, Compress); 5] = [
        ("gzip of ", "tar.gz of ", gzip),
        ("gzip of ", "tar.gz of ", bgzip),
        ("bzip2 of ", "tar.bz2 of ", bzip2),
        ("xz of ", "tar.xz of ", xz),
        ("zstd of ", "tar.zst of ", zstd),
    ];
    let check = |bytes: &[u8], wrapping: &str| {
        let graph = read("a", bytes).expect(wrapping);
        assert_eq!(graph.summary.format, format!("{wrapping}edge list"));
        assert_eq!(graph.csr.row_offsets().as_slice(), plain.csr.row_offsets().as_slice());
        assert_eq!(graph.csr.column_indices().as_slice(), plain.csr.column_indices().as_slice());
    };
    let members = [("g/readme.txt", &b"text"[..]), ("g/edges.el", text)];
    check(&zip(&members), "zip of ");
    check(&tar(&members), "tar of ");
    for (of_file, of_tar, compress) in compressions {
        check(&compress(text), of_file);
        check(&compress(&tar(&members)), of_tar);
        check(&zip(&[("g.el.packed", &compress(text))]), &format!("zip of {of_file}"));
        check(&tar(&[("edges.el.gz", &compress(text))]), &format!("tar of {of_file}"));
        // Two members, or streams, are one.
        let (first, second) = text.split_at(5_000);
        check(&[compress(first), compress(second)].concat(), of_file);
        // Cut short, or changed in the middle.
        let packed = compress(text);
        assert!(read("a", &packed[..packed.len() - 3]).is_err(), "{of_file}");
        let mut changed = packed.clone();
        changed[packed.len() / 2] ^= 0x10;
        assert!(read("a", &changed).is_err(), "{of_file}");
    }
}

#[test]
fn member_of_an_archive_is_named_where_there_are_several() {
    let bytes = zip(&[("a.el", b"0 1\n"), ("b.el", b"1 0\n")]);
    refused("a.zip", &bytes, &["a.el and b.el", "--member b.el"]);
    let with = |member: &str| LoadOptions { member: Some(member.to_owned()), ..LoadOptions::default() };
    let graph = load_bytes(Path::new("a.zip"), &bytes, &with("b.el")).expect("loads");
    assert_eq!(edges(&graph), [(1, 0, 1.0)]);
    let error = load_bytes(Path::new("a.zip"), &bytes, &with("c.el")).expect_err("not there").to_string();
    assert!(error.contains("\"c.el\"") && error.contains("a.el, b.el"), "{error}");
    let error = load_bytes(Path::new("a.el"), b"0 1\n", &with("b.el")).expect_err("no archive").to_string();
    assert!(error.contains("no archive"), "{error}");
    refused("a.zip", &zip(&[("x.pdf", b"x"), ("y.pdf", b"y")]), &["x.pdf, y.pdf", "--member"]);
}

#[test]
fn suitesparse_archives_are_read_in_all_three_formats() {
    let matrix = b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n";
    let boeing = b"title\n 2 1 1 0\npua 2 2 1 0\n(3I2) (1I2)\n 1 1 2\n 1\n";
    for (name, bytes) in [("g/g.mtx", &matrix[..]), ("g/g.rb", boeing)] {
        let bytes = gzip(&tar(&[("g/g_b.mtx", b"other"), (name, bytes), ("g/notes.txt", b"text")]));
        assert_eq!(edges(&read("g.tar.gz", &bytes).expect(name)), [(0, 1, 1.0)]);
    }
}
