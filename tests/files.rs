//! Files out: graphs in other formats, parts of graphs, and files compared with graphs that are known.

#[path = "common/program.rs"]
mod program;

use std::fs;

use program::{Folder, assert_mentions};

/// 0 -> 1 (3), 1 -> 2 (4), 0 -> 2 (9), 3 -> 0 (1), 5 -> 6 (2); 4 and 7 are alone.
const SMALL: &str =
    "%%MatrixMarket matrix coordinate integer general\n8 8 5\n1 2 3\n2 3 4\n1 3 9\n4 1 1\n6 7 2\n";

#[test]
fn convert_writes_the_format_that_the_extension_or_the_option_names() {
    let folder = Folder::with(SMALL);
    let text = folder.done("convert graph.mtx list.wel");
    assert_mentions(
        &text,
        &["output     list.wel\n", "wel, 30 bytes", "without the last 1 vertex, which have no edges"],
    );
    assert_eq!(folder.read("list.wel"), "0 1 3\n0 2 9\n1 2 4\n3 0 1\n5 6 2\n");
    let json = folder.json("convert graph.mtx list.txt --to el");
    assert_eq!(folder.read("list.txt"), "0 1\n0 2\n1 2\n3 0\n5 6\n");
    assert_eq!(
        (&json["output_format"], &json["bytes_written"], &json["vertices_left_out"]),
        (&"el".into(), &20.into(), &1.into())
    );
    // From a graph file as well, and back to the same matrix.
    folder.done("convert graph.mtx graph.gvg");
    folder.done("convert graph.gvg again.mtx");
    assert_eq!(
        folder.read("again.mtx"),
        "%%MatrixMarket matrix coordinate integer general\n8 8 5\n1 2 3\n1 3 9\n2 3 4\n4 1 1\n6 7 2\n"
    );
    folder.done("convert graph.gvg graph.wsg");
    assert_eq!(fs::read(folder.path("graph.wsg")).expect("written").len(), 17 + 2 * (9 * 8 + 5 * 8));
    folder.done("generate grid:2x2 grid.el");
    assert_eq!(folder.read("grid.el"), "0 1\n0 2\n1 0\n1 3\n2 0\n2 3\n3 1\n3 2\n");
}

#[test]
fn output_that_names_no_format_is_refused_with_those_that_there_are() {
    let folder = Folder::with(SMALL);
    for line in [
        "convert graph.mtx out.bin",
        "convert graph.mtx out.mtx.gz",
        "extract graph.mtx out --largest-component",
    ] {
        assert_mentions(&folder.refused(line), &[".gvg", ".mtx", ".wsg", "--to"]);
    }
    assert_mentions(
        &folder.refused("convert graph.mtx out.el --to png"),
        &["png", "gvg, mtx, el, wel, sg or wsg"],
    );
    let real = "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 0.5\n";
    fs::write(folder.path("real.mtx"), real).expect("written");
    assert_mentions(&folder.refused("convert real.mtx out.wsg"), &["out.wsg", "weighs 0.5", "--weights"]);
    assert_eq!(folder.names(), ["graph.mtx", "real.mtx"]);
}

#[test]
fn largest_component_is_taken_out_with_the_ids_that_its_vertices_had() {
    let folder = Folder::with(SMALL);
    let text = folder.done("extract graph.mtx part.wel --largest-component --ids ids.csv");
    assert_mentions(
        &text,
        &["part       largest component\n", "4 of 8 vertices, 4 of 5 edges", "ids        ids.csv"],
    );
    assert_eq!(folder.read("part.wel"), "0 1 3\n0 2 9\n1 2 4\n3 0 1\n");
    assert_eq!(folder.read("ids.csv"), "vertex,original\n0,0\n1,1\n2,2\n3,3\n");
    assert_eq!(folder.names(), ["graph.mtx", "ids.csv", "part.wel"]);
}

#[test]
fn neighbourhood_is_what_so_many_edges_lead_to() {
    let folder = Folder::with(SMALL);
    let part = |around: u32, hops: u32| {
        let json = folder.json(&format!(
            "extract graph.mtx part.gvg --force --around {around} --hops {hops} --ids ids.txt"
        ));
        let part = &json["part"];
        assert_eq!(folder.json("info part.gvg --full")["graph"]["edges"], part["edges"]);
        (part["vertices"].as_u64(), part["edges"].as_u64(), folder.read("ids.txt"))
    };
    assert_eq!(part(3, 0), (Some(1), Some(0), "3\n".to_owned()));
    assert_eq!(part(3, 1), (Some(2), Some(1), "0\n3\n".to_owned()));
    assert_eq!(part(3, 2), (Some(4), Some(4), "0\n1\n2\n3\n".to_owned()));
    assert_eq!(part(5, 9), (Some(2), Some(1), "5\n6\n".to_owned()));
    assert_eq!(part(7, 1), (Some(1), Some(0), "7\n".to_owned()));
}

#[test]
fn part_that_is_not_named_or_not_there_is_refused() {
    let folder = Folder::with(SMALL);
    assert_mentions(&folder.refused("extract graph.mtx out.gvg"), &["--largest-component", "--around"]);
    assert_mentions(&folder.refused("extract graph.mtx out.gvg --around 3"), &["--hops"]);
    assert_mentions(
        &folder.refused("extract graph.mtx out.gvg --around 8 --hops 1"),
        &["vertex 8 is out of range", "0 to 7"],
    );
    assert_mentions(
        &folder.refused("extract graph.mtx out.gvg --largest-component --ids ids.bin"),
        &["ids.bin", ".npy, .csv or .txt"],
    );
    assert_eq!(folder.names(), ["graph.mtx"]);
}

#[test]
fn file_is_compared_with_the_graph_that_it_should_be() {
    let folder = Folder::with(SMALL);
    folder.done("generate grid:3x2 grid.gvg");
    let text = folder.done("datasets grid:3x2 --check grid.gvg");
    assert_mentions(
        &text,
        &["vertices   6, as expected", "edges      14, as expected", "verdict    same counts"],
    );
    let ended = folder.run("datasets grid:2x3 --check graph.mtx");
    assert_eq!(ended.code, Some(1));
    assert_mentions(
        &ended.stdout,
        &["vertices   8, expected 6", "edges      5, expected 14", "another graph"],
    );
    assert_mentions(&ended.stderr, &["difference: graph.mtx is not grid:2x3", "vertices 8, expected 6"]);
    // Named by its file.
    fs::write(folder.path("GK.mtx"), SMALL).expect("written");
    let ended = folder.run("datasets --check GK.mtx --json");
    assert_eq!(ended.code, Some(1));
    assert_mentions(
        &ended.stdout,
        &["\"name\": \"GAP-kron\"", "\"expected\": 4223264644", "\"same\": false"],
    );

    assert_mentions(&folder.refused("datasets --check graph.mtx"), &["graph.mtx", "datasets FS --check"]);
    assert_mentions(
        &folder.refused("datasets gap-kron:9 --check graph.mtx"),
        &["gap-kron:9", "GK, GU, FS, MO"],
    );
    assert_mentions(&folder.done("datasets"), &["GAP-kron", "gap-urand:SCALE"]);
}

#[test]
fn conversion_within_a_bound_gives_the_same_file_and_tells_what_it_took() {
    let folder = Folder::with(SMALL);
    folder.done("convert graph.mtx memory.gvg");
    let json = folder.json("convert graph.mtx bound.gvg --mem 1G --temp-dir .");
    assert!(
        fs::read(folder.path("bound.gvg")).expect("written")
            == fs::read(folder.path("memory.gvg")).expect("written")
    );
    assert_eq!((&json["graph"]["vertices"], &json["graph"]["edges"]), (&8.into(), &5.into()));
    let memory = &json["memory"];
    assert_eq!((&memory["bound_bytes"], &memory["temporary_bytes"]), (&(1_u64 << 30).into(), &40.into()));
    assert!(memory["runs"].as_u64().is_some_and(|runs| runs > 0));
    assert_mentions(
        &folder.done("convert graph.mtx bound.gvg --mem 1G --force"),
        &["memory     ", "sorted on disk, 40 B"],
    );
    assert_mentions(
        &folder.refused("convert graph.mtx new.gvg --mem 1M"),
        &["1.0 MiB", "to convert in", "or more"],
    );
    assert_mentions(&folder.refused("convert graph.mtx new.mtx --mem 1G"), &["--mem is for .gvg"]);
    assert_mentions(
        &folder.refused("convert grid:3x3 new.gvg --mem 1G"),
        &["grid:3x3", "--mem is for files"],
    );
    assert_mentions(
        &folder.refused("convert graph.mtx new.gvg --mem 1G --temp-dir none"),
        &["none: cannot be written"],
    );
    assert_eq!(folder.names(), ["bound.gvg", "graph.mtx", "memory.gvg"]);
}

#[test]
fn info_tells_what_the_head_says_and_reads_the_file_when_asked() {
    let folder = Folder::with(SMALL);
    let text = folder.done("info graph.mtx");
    assert_mentions(
        &text,
        &["Matrix Market coordinate, integer general", "8 rows, 8 columns, 5 stored entries"],
    );
    assert!(!text.contains("out-degree"), "{text}");
    assert_mentions(&folder.done("info graph.mtx --full"), &["8 vertices, 5 edges, directed", "out-degree"]);
    // Of a file that is cut the head is still there; that it is cut shows when it is read.
    fs::write(folder.path("cut.mtx"), &SMALL[..SMALL.len() - 20]).expect("written");
    assert_eq!(folder.json("info cut.mtx")["header"]["stored_entries"], 5);
    assert_mentions(&folder.refused("info cut.mtx --full"), &["cut.mtx", "promises 5 entries"]);

    folder.done("convert graph.mtx graph.gvg");
    let header = &folder.json("info graph.gvg")["header"];
    assert_eq!((&header["vertices"], &header["edges"]), (&8.into(), &5.into()));
    assert_eq!(
        (&header["weight_type"], &header["converted_from"]),
        (&"u8".into(), &"Matrix Market coordinate".into())
    );
    // An edge list has no head.
    folder.done("convert graph.mtx graph.el");
    assert_mentions(&folder.done("info graph.el"), &["7 vertices, 5 edges", "out-degree"]);
    let archive = concat!(env!("CARGO_MANIFEST_DIR"), "/datasets/graphs/targz/bfly.tar.gz");
    assert_mentions(
        &folder.done(&format!("info {archive}")),
        &["tar.gz of Matrix Market coordinate", "49,152 rows, 49,152 columns, 98,304 stored entries"],
    );
}
