//! The program as a user meets it: what it prints, what it writes, how it ends.

#[path = "common/program.rs"]
mod program;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use program::{Folder, assert_mentions};
use serde_json::Value;

/// 0 -> 1 (3), 1 -> 2 (4), 0 -> 2 (9), 3 -> 0 (1); vertex 4 is alone.
const SMALL: &str = "%%MatrixMarket matrix coordinate integer general\n5 5 4\n1 2 3\n2 3 4\n1 3 9\n4 1 1\n";

/// The same with halves and quarters for weights.
const REAL: &str =
    "%%MatrixMarket matrix coordinate real general\n5 5 4\n1 2 0.5\n2 3 0.25\n1 3 2\n4 1 1e-9\n";

/// 0 -> 1, 1 -> 2 and 2 -> 3.
const PATH: &str = "%%MatrixMarket matrix coordinate pattern general\n4 4 3\n1 2\n2 3\n3 4\n";

const COMPLEX: &str = "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 2 3 4\n";

const NO_EDGES: &str = "%%MatrixMarket matrix coordinate pattern general\n3 3 0\n";

const NO_VERTICES: &str = "%%MatrixMarket matrix coordinate pattern general\n0 0 0\n";

/// The header and the bytes after it.
fn npy(path: &Path) -> (String, Vec<u8>) {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!(header % 64, 0, "data are aligned");
    (
        String::from_utf8(bytes[10..header].to_vec()).expect("ASCII").trim_end().to_owned(),
        bytes[header..].to_vec(),
    )
}

fn le<const N: usize, T>(values: &[T], bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(bytes).collect()
}

#[test]
fn bfs_summary_says_what_was_read_run_and_found() {
    let text = Folder::with(SMALL).done("bfs --graph graph.mtx --source 0 --threads 1");
    for line in [
        "graph      graph.mtx",
        "           5 vertices, 4 edges, directed",
        "           self-loops 0 (dropped), duplicates 0 (merged, smallest weight), explicit zeros 0 (edges)",
        "           ids count from 0: row i of the file is vertex i - 1",
        "run        bfs, balanced, on cpu with 1 thread",
        "source     0",
        "reached    3 of 5 vertices",
        "levels     2 (0 to 1)",
    ] {
        assert!(text.lines().any(|l| l == line), "\"{line}\" is not a line of\n{text}");
    }
    assert_mentions(
        &text,
        &["zero-copy (", "time       load ", ", build ", ", prepare ", ", run ", "GTEPS (3 edges"],
    );
    assert!(!text.contains("paging") && !text.contains("hint"), "{text}");
}

#[test]
fn levels_are_written_as_csv_txt_and_npy() {
    let folder = Folder::with(SMALL);
    folder.done("bfs --graph graph.mtx --source 0 --output out.csv");
    assert_eq!(folder.read("out.csv"), "vertex,level\n0,0\n1,1\n2,1\n3,-1\n4,-1\n");
    folder.done("bfs --graph graph.mtx --source 0 --output out.txt");
    assert_eq!(folder.read("out.txt"), "0\n1\n1\n-1\n-1\n");
    folder.done("bfs --graph graph.mtx --source 0 --output out.npy");
    let (header, data) = npy(&folder.path("out.npy"));
    assert_eq!(header, "{'descr': '<i4', 'fortran_order': False, 'shape': (5,)}");
    assert_eq!(data, le(&[0, 1, 1, -1, -1], |v: &i32| v.to_le_bytes()));
    assert_eq!(folder.names(), ["graph.mtx", "out.csv", "out.npy", "out.txt"]);
}

#[test]
fn parents_are_a_column_more_or_a_file_beside() {
    let folder = Folder::with(SMALL);
    folder.done("sssp --graph graph.mtx --source 0 --parents --output out.csv");
    assert_eq!(folder.read("out.csv"), "vertex,distance,parent\n0,0,-1\n1,3,0\n2,7,1\n3,-1,-1\n4,-1,-1\n");
    folder.done("bfs --graph graph.mtx --source 0 --parents --output out.txt");
    assert_eq!(folder.read("out.txt"), "0 -1\n1 0\n1 0\n-1 -1\n-1 -1\n");
    folder.done("bfs --graph graph.mtx --source 0 --parents --output out.npy");
    let (header, data) = npy(&folder.path("out.parents.npy"));
    assert_eq!(header, "{'descr': '<i8', 'fortran_order': False, 'shape': (5,)}");
    assert_eq!(data, le(&[-1, 0, 0, -1, -1], |v: &i64| v.to_le_bytes()));
}

#[test]
fn distances_are_integers_for_integer_weights_and_else_reals() {
    let folder = Folder::with(SMALL);
    folder.done("sssp --graph graph.mtx --source 0 --output out.npy --verify");
    let (header, data) = npy(&folder.path("out.npy"));
    assert_eq!(header, "{'descr': '<i8', 'fortran_order': False, 'shape': (5,)}");
    assert_eq!(data, le(&[0, 3, 7, -1, -1], |v: &i64| v.to_le_bytes()));

    let folder = Folder::with(REAL);
    let text = folder.done("sssp --graph graph.mtx --source 0 --output out.npy --verify");
    assert_mentions(&text, &["farthest   vertex 2 at distance 0.75\n", "verified   yes"]);
    let (header, data) = npy(&folder.path("out.npy"));
    assert_eq!(header, "{'descr': '<f8', 'fortran_order': False, 'shape': (5,)}");
    assert_eq!(data, le(&[0.0, 0.5, 0.75, f64::INFINITY, f64::INFINITY], |v: &f64| v.to_le_bytes()));
    folder.done("sssp --graph graph.mtx --source 3 --output out.csv");
    assert_eq!(
        folder.read("out.csv"),
        "vertex,distance\n0,1e-9\n1,0.500000001\n2,0.750000001\n3,0.0\n4,inf\n"
    );
}

#[test]
fn components_are_labelled_by_their_smallest_vertex_edges_taken_as_undirected() {
    let folder = Folder::with(SMALL);
    let text = folder.done("cc --graph graph.mtx --output out.csv --verify");
    assert_mentions(
        &text,
        &["components 2\n", "largest    4 vertices, of which 0 is the smallest\n", "verified   yes"],
    );
    assert_eq!(folder.read("out.csv"), "vertex,component\n0,0\n1,0\n2,0\n3,0\n4,4\n");
    folder.done("cc --graph graph.mtx --output out.npy");
    let (header, data) = npy(&folder.path("out.npy"));
    assert_eq!(header, "{'descr': '<u4', 'fortran_order': False, 'shape': (5,)}");
    assert_eq!(data, le(&[0, 0, 0, 0, 4], |v: &u32| v.to_le_bytes()));
    let json = folder.json("cc --graph graph.mtx");
    assert_eq!(json["components"], serde_json::json!({"count": 2, "largest": {"label": 0, "vertices": 4}}));
    assert_eq!(json["runs"][0]["edges_traversed"], 4);
}

#[test]
fn batch_of_sources_gives_what_single_runs_give() {
    let folder = Folder::with(SMALL);
    let sources = "--source 3 --source 0 --source 3 --source 1 --target 2";
    for options in ["", "--depth-limit 1", "--variant naive", "--access paged --page-size 4K --gpu-mem 1M"] {
        let line = format!("bfs --graph graph.mtx {sources} {options} --verify");
        folder.done(&format!("{line} --output single.csv"));
        folder.done(&format!("{line} --batch --output batch.csv"));
        assert_eq!(folder.read("batch.csv"), folder.read("single.csv"), "{options}");
        let (single, batch) = (folder.json(&line), folder.json(&format!("{line} --batch")));
        for (single, batch) in
            single["runs"].as_array().expect("runs").iter().zip(batch["runs"].as_array().expect("runs"))
        {
            for field in ["source", "reached", "max_level", "farthest_vertex", "target"] {
                assert_eq!(single[field], batch[field], "{field} {options}");
            }
        }
        assert_eq!(batch["batches"][0]["sources"], serde_json::json!([3, 0, 3, 1]));
    }
    let text = folder.done("bfs --graph graph.mtx --source 3 --source 0 --batch --profile");
    assert_mentions(&text, &["from 2 sources at once", "mean"]);
    assert_mentions(&folder.refused("bfs --graph graph.mtx --batch --parents"), &["--batch", "--parents"]);
    assert_mentions(&folder.done("plan bfs --graph graph.mtx --batch"), &["search masks", "120"]);
}

/// The ranks of [`SMALL`] at damping 0.5: what vertices 2 and 4 hand on goes to all.
fn small_ranks() -> [f64; 5] {
    // In units of what every vertex gets: 3 gets 1, 4 gets 1, 0 gets 1 + 1/2, 1 gets 1 + 3/8, 2 gets 1 + 3/8 + 11/16.
    [1.5, 1.375, 2.0625, 1.0, 1.0].map(|rank| rank / 6.9375)
}

#[test]
fn ranks_are_told_with_iterations_and_written_and_verified() {
    let folder = Folder::with(SMALL);
    let line = "pagerank --graph graph.mtx --damping 0.5 --tolerance 1e-12 --verify";
    let text = folder.done(&format!("{line} --output ranks.npy"));
    assert_mentions(&text, &["run        pagerank", "converged", "2.972973e-1  vertex 2", "verified   yes"]);
    let (header, bytes) = npy(&folder.path("ranks.npy"));
    assert!(header.contains("'<f8'") && header.contains("(5,)"), "{header}");
    let ranks = bytes.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().expect("8 bytes")));
    assert!(ranks.zip(small_ranks()).all(|(got, expected)| (got - expected).abs() < 1e-11));

    let json = folder.json(&format!("{line} --access paged --page-size 4K"));
    let found = &json["page_rank"];
    assert_eq!((&found["converged"], &found["largest"][0]["vertex"]), (&true.into(), &2.into()));
    assert!((found["largest"][0]["rank"].as_f64().expect("a number") - small_ranks()[2]).abs() < 1e-11);
    assert_eq!((&json["settings"]["damping"], &json["settings"]["iterations"]), (&0.5.into(), &100.into()));
    let passes = found["iterations"].as_u64().expect("a number");
    assert_eq!(
        (&json["runs"][0]["edges_traversed"], &json["runs"][0]["faults"]),
        (&(4 * passes).into(), &1.into())
    );

    let text = folder.done("pagerank --graph graph.mtx --iterations 2 --verify --output ranks.csv");
    assert_mentions(&text, &["2 iterations", "not converged", "verified   yes"]);
    assert!(folder.read("ranks.csv").starts_with("vertex,rank\n0,0."));
    assert_mentions(&folder.done("plan pagerank --graph graph.mtx"), &["ranks", "120"]);
}

#[test]
fn several_sources_are_reported_each_with_their_mean() {
    let folder = Folder::with(SMALL);
    let json = folder.json("bfs --graph graph.mtx --source 0 --source 3 --source max-degree");
    let runs: Vec<_> = (0..3)
        .map(|i| (&json["runs"][i]["source"], &json["runs"][i]["reached"], &json["runs"][i]["max_level"]))
        .collect();
    assert_eq!(
        format!("{runs:?}"),
        "[(Number(0), Number(3), Number(1)), (Number(3), Number(4), Number(2)), (Number(0), Number(3), Number(1))]"
    );
    assert_eq!(json["mean"]["reached"], 10.0 / 3.0);
    let seconds: f64 = (0..3).map(|i| json["runs"][i]["seconds"].as_f64().expect("a number")).sum();
    assert!((json["mean"]["seconds"].as_f64().expect("a number") - seconds / 3.0).abs() < 1e-12);

    let text = folder.done("bfs --graph graph.mtx --source 0 --source 3");
    let words: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(words.iter().any(|w| w.starts_with(&["0", "3", "1", "1"])), "{text}");
    assert!(words.iter().any(|w| w.starts_with(&["3", "4", "2", "1"])), "{text}");
    assert!(words.iter().any(|w| w.starts_with(&["mean", "3.5"])), "{text}");
}

#[test]
fn several_sources_are_rows_of_npy_columns_of_txt_and_named_in_csv() {
    let folder = Folder::with(SMALL);
    let run = |output| {
        folder.done(&format!("bfs --graph graph.mtx --source 0 --source 3 --parents --output {output}"))
    };
    run("out.npy");
    let (header, data) = npy(&folder.path("out.npy"));
    assert_eq!(header, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 5)}");
    assert_eq!(data, le(&[0, 1, 1, -1, -1, 1, 2, 2, 0, -1], |v: &i32| v.to_le_bytes()));
    let (header, data) = npy(&folder.path("out.parents.npy"));
    assert_eq!(header, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 5)}");
    assert_eq!(data, le(&[-1, 0, 0, -1, -1, 3, 0, 0, -1, -1], |v: &i64| v.to_le_bytes()));
    run("out.txt");
    assert_eq!(folder.read("out.txt"), "0 1 -1 3\n1 2 0 0\n1 2 0 0\n-1 0 -1 -1\n-1 -1 -1 -1\n");
    run("out.csv");
    let expected = "source,vertex,level,parent\n0,0,0,-1\n0,1,1,0\n0,2,1,0\n0,3,-1,-1\n0,4,-1,-1\n\
                    3,0,1,3\n3,1,2,0\n3,2,2,0\n3,3,0,-1\n3,4,-1,-1\n";
    assert_eq!(folder.read("out.csv"), expected);
}

#[test]
fn random_sources_depend_on_the_seed_alone() {
    let folder = Folder::with(SMALL);
    let sources = |seed: u32| {
        let json = folder.json(&format!("bfs --graph graph.mtx --source random:3 --seed {seed}"));
        let runs = json["runs"].as_array().expect("runs").clone();
        runs.iter().map(|run| run["source"].as_u64().expect("an id")).collect::<Vec<_>>()
    };
    assert_eq!(sources(1), sources(1));
    let mut sorted = sources(2);
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 1, 3], "the vertices with outgoing edges");
    assert_mentions(
        &folder.refused("bfs --graph graph.mtx --source random:4"),
        &["random:4", "vertices with outgoing edges (3)"],
    );
}

#[test]
fn json_has_what_its_page_says() {
    let folder = Folder::with(SMALL);
    let json = folder.json(
        "sssp --graph graph.mtx --source 3 --target 2 --parents --verify --access paged --page-size 4K --gpu-mem 1M \
         --threads 1 --depth-limit 100 --output out.csv",
    );
    assert_eq!(json["schema"], 1);
    assert_eq!(json["program"]["name"], "gpuvm-graph");
    assert_eq!(json["program"]["command"], "sssp");
    let graph = &json["graph"];
    for (field, value) in
        [("vertices", 5), ("edges", 4), ("stored_entries", 4), ("self_loops", 0), ("rows", 5)]
    {
        assert_eq!(graph[field], value, "{field}");
    }
    assert_eq!((&graph["weight_type"], &graph["symmetric"]), (&"u8".into(), &false.into()));
    let settings = &json["settings"];
    assert_eq!((&settings["access"], &settings["weights"]), (&"paged".into(), &"file".into()));
    assert_eq!((&settings["gpu_mem_bytes"], &settings["page_size_bytes"]), (&(1 << 20).into(), &4096.into()));
    assert_eq!((&settings["depth_limit"], &settings["parents"]), (&100.0.into(), &true.into()));
    let plan = &json["plan"];
    assert_eq!((&plan["num_pages"], &plan["num_frames"]), (&2.into(), &2.into()));
    let items = plan["items"].as_array().expect("items");
    let total: u64 = items.iter().map(|item| item["bytes"].as_u64().expect("a number")).sum();
    assert_eq!(plan["total_bytes"], total);
    for field in ["load_seconds", "build_seconds", "prepare_seconds"] {
        assert!(json["timings"][field].as_f64().expect("a number") >= 0.0, "{field}");
    }
    let run = &json["runs"][0];
    assert_eq!((&run["source"], &run["reached"], &run["max_distance"]), (&3.into(), &4.into(), &8.into()));
    assert_eq!(run["target"], serde_json::json!({"vertex": 2, "value": 8, "path": [3, 0, 1, 2]}));
    assert_eq!((&run["edges_traversed"], &run["evictions"]), (&4.into(), &0.into()));
    let steps = run["steps"].as_array().expect("steps");
    for field in ["hits", "faults", "coalesced", "evictions", "bytes_in"] {
        let sum: u64 = steps.iter().map(|step| step[field].as_u64().expect("a number")).sum();
        assert_eq!(run[field], sum, "{field}");
    }
    assert_eq!(run["faults"], 2, "one page of columns, one of weights");
    assert_eq!(json["verified"], true);
    assert!(json["output"].as_str().expect("a path").ends_with("out.csv"));

    let json = folder.json("bfs --graph graph.mtx --source 0");
    for absent in ["verified", "mean", "output", "components"] {
        assert!(json.get(absent).is_none(), "{absent}");
    }
}

/// The names of all fields, at any depth.
fn fields(json: &Value, into: &mut BTreeSet<String>) {
    match json {
        Value::Object(object) => object.iter().for_each(|(name, value)| {
            into.insert(name.clone());
            fields(value, into);
        }),
        Value::Array(values) => values.iter().for_each(|value| fields(value, into)),
        _ => {}
    }
}

#[test]
fn every_field_of_json_is_documented() {
    let page = include_str!("../docs/json.md");
    let folder = Folder::with(SMALL);
    let mut names = BTreeSet::new();
    folder.done("generate grid:3x2 grid.gvg");
    for line in [
        "bfs --graph graph.mtx --source 4 --source 0 --target 2 --parents --depth-limit 3 --verify --output out.csv",
        "sssp --graph graph.mtx",
        "cc --graph graph.mtx",
        "plan cc --graph graph.mtx",
        "pagerank --graph graph.mtx --verify",
        "bfs --graph graph.mtx --source 0 --source 3 --batch",
        "info graph.mtx",
        "info graph.mtx --full",
        "convert graph.mtx graph.gvg",
        "convert graph.mtx bound.gvg --mem 1G",
        "convert graph.mtx graph.el",
        "extract graph.mtx part.gvg --largest-component --ids ids.csv",
        "doctor",
        "cc --graph grid:3x2",
        "info --known",
        "datasets grid:3x2 --check grid.gvg",
    ] {
        fields(&folder.json(line), &mut names);
    }
    fs::write(folder.path("complex.mtx"), COMPLEX).expect("written");
    fields(&folder.json("info complex.mtx --full"), &mut names);
    let missing: Vec<_> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/json.md lacks {missing:?}");
}

#[test]
fn json_goes_to_a_file_beside_the_summary_or_to_stdout_instead_of_it() {
    let folder = Folder::with(SMALL);
    let text = folder.done("bfs --graph graph.mtx --json result.json");
    assert_mentions(&text, &["reached"]);
    let written: Value = serde_json::from_str(&folder.read("result.json")).expect("JSON");
    assert_eq!(written["runs"][0]["reached"], 3);
    assert_eq!(folder.names(), ["graph.mtx", "result.json"]);
    assert!(folder.done("bfs --graph graph.mtx --json").starts_with('{'));
    assert!(folder.done("bfs --graph graph.mtx --quiet --json -").starts_with('{'));
}

#[test]
fn distances_are_the_same_whatever_the_width_of_a_bucket() {
    // The short way to vertex 1 has more edges than the long one, and the edge from 2 to 3 waits for a far bucket in vain.
    let folder = Folder::with(
        "%%MatrixMarket matrix coordinate integer general\n5 5 6\n1 2 10\n1 3 1\n3 2 2\n2 4 1\n3 4 100\n4 5 7\n",
    );
    for delta in ["auto", "1", "2.5", "4", "1000", "inf"] {
        folder.done(&format!(
            "sssp --graph graph.mtx --source 0 --delta {delta} --verify --output out.txt --json result.json"
        ));
        assert_eq!(folder.read("out.txt"), "0\n3\n1\n4\n11\n", "{delta}");
        let result: Value = serde_json::from_str(&folder.read("result.json")).expect("JSON");
        assert_eq!(result["settings"]["delta"], delta);
    }
    for bad in ["0", "-1", "nan", "wide"] {
        assert_mentions(
            &folder.refused(&format!("sssp --graph graph.mtx --delta {bad}")),
            &[bad, "--delta", "a number above 0"],
        );
    }
}

#[test]
fn depth_limit_is_a_level_for_bfs_and_a_distance_for_sssp() {
    let folder = Folder::with(PATH);
    folder.done("bfs --graph graph.mtx --source 0 --depth-limit 2 --verify --output out.txt");
    assert_eq!(folder.read("out.txt"), "0\n1\n2\n-1\n");
    folder.done("bfs --graph graph.mtx --source 0 --depth-limit 0 --verify --output out.txt");
    assert_eq!(folder.read("out.txt"), "0\n-1\n-1\n-1\n");

    let folder = Folder::with(REAL);
    folder.done("sssp --graph graph.mtx --source 0 --depth-limit 0.7 --verify --output out.txt");
    assert_eq!(folder.read("out.txt"), "0.0\n0.5\ninf\ninf\ninf\n");
    for bad in ["-1", "nan", "inf", "far"] {
        assert_mentions(
            &folder.refused(&format!("sssp --graph graph.mtx --depth-limit {bad}")),
            &[bad, "--depth-limit", "0 or more"],
        );
    }
    assert_mentions(&folder.refused("bfs --graph graph.mtx --depth-limit -1"), &["-1", "--depth-limit"]);
}

#[test]
fn target_is_named_with_its_level_and_with_parents_its_path() {
    let folder = Folder::with(PATH);
    let text = folder.done("bfs --graph graph.mtx --source 0 --target 2 --parents --verify");
    assert_mentions(
        &text,
        &["target     2 from 0: level 2\n", "path       0 1 2\n", "reached    3 of 4 vertices"],
    );
    let text = folder.done("bfs --graph graph.mtx --source 2 --target 0 --parents");
    assert_mentions(&text, &["target     0 from 2: not reached\n"]);
    assert!(!text.contains("path "), "{text}");
    let text = folder.done("sssp --graph graph.mtx --source 1 --target 3");
    assert_mentions(&text, &["target     3 from 1: distance 2\n"]);
}

#[test]
fn source_that_is_no_vertex_is_refused_with_id_and_number_of_vertices() {
    let folder = Folder::with(PATH);
    for algorithm in ["bfs", "sssp"] {
        for id in ["4", "4294967295", "-1", "4294967296", "99999999999999999999999999"] {
            let message = folder.refused(&format!("{algorithm} --graph graph.mtx --source {id}"));
            assert_eq!(
                message,
                format!("error: source {id} is out of range, the graph has 4 vertices (0 to 3)\n")
            );
        }
        let message = folder.refused(&format!("{algorithm} --graph graph.mtx --source 0 --target -1"));
        assert_eq!(message, "error: target -1 is out of range, the graph has 4 vertices (0 to 3)\n");
    }
    for word in ["first", "1.5", "random:0", "random:-1", "random:x"] {
        assert_mentions(
            &folder.refused(&format!("bfs --graph graph.mtx --source {word}")),
            &["--source", "random:K"],
        );
    }
}

#[test]
fn isolated_source_reaches_itself_and_gets_a_hint() {
    let folder = Folder::with(SMALL);
    let text = folder.done("bfs --graph graph.mtx --source 4 --verify");
    assert_mentions(&text, &["reached    1 of 5 vertices", "levels     1 (0 to 0)"]);
    assert_mentions(&text, &["hint       source 4 has no outgoing edges; try --source max-degree"]);
    let json = folder.json("sssp --graph graph.mtx --source 4");
    assert_eq!((&json["runs"][0]["reached"], &json["runs"][0]["max_distance"]), (&1.into(), &0.into()));
    assert_mentions(json["runs"][0]["hint"].as_str().expect("a hint"), &["source 4"]);
}

#[test]
fn graph_without_edges_is_no_error() {
    let folder = Folder::with(NO_EDGES);
    for access in ["auto", "paged --gpu-mem 1M", "resident --gpu-mem 1M", "zero-copy"] {
        for variant in ["balanced", "naive"] {
            let options = format!("--graph graph.mtx --access {access} --variant {variant} --verify");
            let text = folder.done(&format!("bfs {options}"));
            assert_mentions(&text, &["reached    1 of 3 vertices", "hint       the graph has no edges"]);
            assert_mentions(&folder.done(&format!("sssp {options}")), &["reached    1 of 3 vertices"]);
            assert_mentions(&folder.done(&format!("cc {options}")), &["components 3\n"]);
        }
    }
    assert_mentions(&folder.done("info graph.mtx --full"), &["isolated   3 vertices", "pages      0 of"]);
    assert_mentions(&folder.done("plan bfs --graph graph.mtx --gpu-mem 1M"), &["total"]);
}

#[test]
fn graph_without_vertices_has_no_components_and_no_source() {
    let folder = Folder::with(NO_VERTICES);
    for access in ["auto", "paged --gpu-mem 1M", "resident --gpu-mem 1M"] {
        let text = folder.done(&format!("cc --graph graph.mtx --access {access} --verify --output out.csv"));
        assert_mentions(&text, &["components 0\n"]);
        assert_eq!(folder.read("out.csv"), "vertex,component\n");
    }
    folder.done("cc --graph graph.mtx --output out.npy");
    assert!(npy(&folder.path("out.npy")).0.contains("'shape': (0,)"));
    assert_mentions(&folder.refused("bfs --graph graph.mtx"), &["no vertices"]);
    assert_mentions(&folder.refused("sssp --graph graph.mtx --source 0"), &["source 0", "no vertices"]);
    assert_mentions(&folder.done("info graph.mtx --full"), &["0 vertices"]);
}

#[test]
fn bad_files_are_refused_with_file_line_and_cure_and_leave_nothing() {
    let banner = "%%MatrixMarket matrix coordinate real general\n";
    let with = |rest: &str| format!("{banner}{rest}");
    let cases: &[(&str, String, &str, &[&str])] = &[
        ("empty file", String::new(), "bfs", &["is empty"]),
        ("wrong banner", "1 2\n2 3\n".to_owned(), "bfs", &["line 1", "banner"]),
        ("page of a web server", "<!DOCTYPE html><html></html>".to_owned(), "bfs", &["HTML", "fetch"]),
        (
            "unknown word",
            "%%MatrixMarket matrix coordinate rational general\n1 1 0\n".to_owned(),
            "bfs",
            &["line 1", "rational", "real"],
        ),
        ("no size line", banner.to_owned(), "bfs", &["size line"]),
        ("size line without numbers", with("three by three\n"), "bfs", &["line 2", "three by three"]),
        ("more entries than bytes", with("9 9 4000000000000\n1 1 1\n"), "bfs", &["4000000000000"]),
        ("too few entries", with("3 3 3\n1 2 1\n"), "bfs", &["3 entries", "1", "cut short"]),
        ("too many entries", with("3 3 1\n1 2 1\n2 3 1\n"), "bfs", &["1", "2"]),
        ("id 0", with("3 3 1\n0 2 1\n"), "bfs", &["line 3", "ids start at 1"]),
        ("id beyond the size", with("3 3 1\n1 4 1\n"), "bfs", &["line 3", "4", "out of range", "3"]),
        ("no value", with("3 3 2\n1 2\n2 3 1\n"), "bfs", &["line 3", "value"]),
        ("a value too many", with("3 3 1\n1 2 1 1\n"), "bfs", &["line 3"]),
        ("a word for a value", with("3 3 1\n1 2 one\n"), "bfs", &["line 3", "one"]),
        (
            "weight that is not a number",
            with("3 3 1\n1 2 nan\n"),
            "sssp",
            &["line 3", "nan", "--weights unit"],
        ),
        ("infinite weight", with("3 3 1\n1 2 -inf\n"), "sssp", &["line 3", "inf", "--weights"]),
        (
            "negative weight",
            with("3 3 3\n1 2 3\n2 3 -2.5\n3 1 1\n"),
            "sssp",
            &["graph.mtx", "edge 1 -> 2 weighs -2.5", "--weights abs, unit or hash"],
        ),
        ("complex weights", COMPLEX.to_owned(), "sssp", &["complex", "--weights abs"]),
        ("rectangular matrix", with("2 3 1\n1 3 1\n"), "bfs", &["2 rows", "3 columns", "--bipartite"]),
        ("more vertices than ids", with("4294967298 4294967298 1\n1 4294967298 1\n"), "bfs", &["4294967295"]),
    ];
    for (name, graph, algorithm, words) in cases {
        let folder = Folder::with(graph);
        let message =
            folder.refused(&format!("{algorithm} --graph graph.mtx --output out.csv --json out.json"));
        eprintln!("{name}: {message}");
        assert_mentions(&message, &["graph.mtx"]);
        assert_mentions(&message, words);
        assert_eq!(folder.names(), ["graph.mtx"], "{name}");
    }
}

#[test]
fn missing_file_and_directory_are_refused_by_name() {
    let folder = Folder::new();
    assert_mentions(&folder.refused("bfs --graph none.mtx"), &["none.mtx: cannot be opened: No such file"]);
    fs::create_dir(folder.path("matrix")).expect("made");
    for command in ["bfs --graph matrix", "info matrix", "convert matrix out.gvg"] {
        assert_mentions(&folder.refused(command), &["matrix: is a directory"]);
    }
    assert_eq!(folder.names(), ["matrix"]);
}

#[test]
fn negative_weights_do_not_matter_to_bfs_and_cc_and_have_a_cure_for_sssp() {
    let folder = Folder::with("%%MatrixMarket matrix coordinate integer general\n3 3 2\n1 2 -3\n2 3 4\n");
    folder.done("bfs --graph graph.mtx --source 0 --verify");
    folder.done("cc --graph graph.mtx --verify");
    for (rule, distances) in [("abs", "0\n3\n7\n"), ("unit", "0\n1\n2\n")] {
        folder.done(&format!("sssp --graph graph.mtx --source 0 --weights {rule} --verify --output out.txt"));
        assert_eq!(folder.read("out.txt"), distances);
    }
    assert_mentions(&folder.refused("sssp --graph graph.mtx --weights small"), &["small", "random:SEED"]);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let folder = Folder::with(PATH);
    let cases: &[(&str, &[&str])] = &[
        ("bfs --graph graph.mtx --page-size 5000", &["--page-size", "power of two", "4", "1"]),
        ("bfs --graph graph.mtx --page-size 2K", &["--page-size", "power of two"]),
        ("bfs --graph graph.mtx --page-size 2M", &["--page-size", "power of two"]),
        ("bfs --graph graph.mtx --gpu-mem lots", &["--gpu-mem", "lots", "16G"]),
        ("bfs --graph graph.mtx --gpu-mem -1", &["--gpu-mem"]),
        ("bfs --graph graph.mtx --threads 0", &["--threads", "1..=1024"]),
        ("bfs --graph graph.mtx --chunk-edges 3", &["3 edges a chunk", "power of two"]),
        ("bfs --graph graph.mtx --access remote", &["--access", "paged, zero-copy, resident"]),
        ("bfs --graph graph.mtx --device gpu", &["--device", "use cpu, cuda or cuda:N"]),
        ("bfs --source 0", &["--graph"]),
        ("cc --graph graph.mtx --parents", &["--parents"]),
        ("cc --graph graph.mtx --source 0", &["--source"]),
        ("pagerank --graph graph.mtx --damping 1", &["--damping", "from 0 to less than 1"]),
        ("pagerank --graph graph.mtx --tolerance -1", &["--tolerance", "0 or more"]),
        ("pagerank --graph graph.mtx --source 0", &["--source"]),
    ];
    for (line, words) in cases {
        assert_mentions(&folder.refused(line), words);
    }
}

#[test]
fn budget_too_small_is_refused_with_the_least_that_works() {
    let folder = Folder::with(&ring(5000));
    for algorithm in ["bfs --source 0", "cc", "sssp --source 0 --weights hash"] {
        let run = format!("{algorithm} --graph graph.mtx --page-size 4K --threads 2 --verify --access paged");
        let message = folder.refused(&format!("{run} --gpu-mem 1K"));
        assert_mentions(&message, &["1.0 KiB of device memory", "least"]);
        let cure =
            message.split("use --gpu-mem ").nth(1).expect("a cure").split(' ').next().expect("a number");
        let least: u64 = cure.parse().expect("bytes");
        let json = folder.json(&format!("{run} --gpu-mem {least}"));
        assert_eq!(json["plan"]["total_bytes"], least);
        assert!(json["runs"][0]["evictions"].as_u64().expect("a number") > 0, "{algorithm}");
        folder.refused(&format!("{run} --gpu-mem {}", least - 1));
    }
}

#[test]
fn paging_is_summed_up_when_paged() {
    let folder = Folder::with(&ring(5000));
    let text = folder
        .done("bfs --graph graph.mtx --access paged --page-size 4K --gpu-mem 1M --threads 1 --source 0");
    assert_mentions(&text, &["access     paged (as asked)", "10 pages of 4.0 KiB, 10 frames, pinned-share"]);
    assert_mentions(&text, &["faults 10,", "evictions 0,", "in 39.1 KiB"]);
}

#[test]
fn plan_lists_every_byte_and_runs_nothing() {
    let folder = Folder::with(&ring(5000));
    let text =
        folder.done("plan bfs --graph graph.mtx --page-size 4K --threads 1 --gpu-mem 1M --access paged");
    // 5001 offsets of 8 bytes, 10000 edges of 4 bytes in 10 pages, 5000 levels of 4 bytes.
    assert_mentions(&text, &["access     paged (as asked)", "10 pages of 4.0 KiB, 10 frames"]);
    let row = |name: &str, number: &str| {
        let found = text.lines().any(|line| line.contains(name) && line.contains(&format!(" {number}  ")));
        assert!(found, "no {name} of {number} in\n{text}");
    };
    row("row offsets", "40,008");
    row("levels", "20,000");
    row("segments", "40");
    row("budget", "1,048,576");
    assert!(!text.contains("reached"), "{text}");
    let json = folder.json("plan sssp --graph graph.mtx --gpu-mem 1M --weights hash --source 3");
    assert!(json.get("runs").is_none() && json["plan"]["access"] == "resident", "{json}");
    assert_mentions(&folder.refused("plan cc --graph graph.mtx --gpu-mem 1K"), &["--gpu-mem"]);
    assert_eq!(folder.names(), ["graph.mtx"]);
}

#[test]
fn output_that_cannot_be_written_is_refused_before_anything_is_read() {
    let folder = Folder::new();
    fs::create_dir(folder.path("folder.csv")).expect("made");
    fs::write(folder.path("locked.csv"), "old").expect("written");
    let mut permissions = fs::metadata(folder.path("locked.csv")).expect("there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(folder.path("locked.csv"), permissions).expect("set");
    let cases: &[(&str, &[&str])] = &[
        ("--output none/out.csv", &["none/out.csv: cannot be written", "No such file"]),
        ("--output folder.csv", &["folder.csv: cannot be written, it is a directory"]),
        ("--output locked.csv", &["locked.csv: cannot be written, it is read-only"]),
        ("--output out.dat", &["out.dat", ".npy, .csv or .txt"]),
        ("--output out", &["out", ".npy, .csv or .txt"]),
        ("--json none/out.json", &["none/out.json: cannot be written"]),
        ("--json folder.csv", &["folder.csv: cannot be written, it is a directory"]),
    ];
    for (option, words) in cases {
        // The graph is not there, which would be said next.
        let message = folder.refused(&format!("bfs --graph none.mtx {option}"));
        assert_mentions(&message, words);
        assert!(!message.contains("none.mtx"), "{message}");
    }
    assert_eq!(folder.names(), ["folder.csv", "locked.csv"]);
}

#[test]
fn graph_is_never_written_over() {
    let folder = Folder::with(PATH);
    fs::rename(folder.path("graph.mtx"), folder.path("graph.txt")).expect("renamed");
    for line in ["bfs --graph graph.txt --output graph.txt", "bfs --graph graph.txt --json graph.txt"] {
        assert_mentions(&folder.refused(line), &["graph.txt: is the graph itself"]);
    }
    assert_eq!(folder.read("graph.txt"), PATH);
}

#[test]
fn old_result_stays_when_a_run_fails_and_goes_when_it_succeeds() {
    let folder = Folder::with(PATH);
    fs::write(folder.path("out.csv"), "old").expect("written");
    folder.refused("bfs --graph graph.mtx --source 9 --output out.csv");
    assert_eq!(folder.read("out.csv"), "old");
    folder.done("bfs --graph graph.mtx --source 0 --output out.csv");
    assert_eq!(folder.read("out.csv"), "vertex,level\n0,0\n1,1\n2,2\n3,3\n");
    assert_eq!(folder.names(), ["graph.mtx", "out.csv"]);
}

#[test]
fn quiet_prints_nothing_but_errors() {
    let folder = Folder::with(SMALL);
    for line in ["bfs --graph graph.mtx", "cc --graph graph.mtx", "sssp --graph graph.mtx", "info graph.mtx"]
    {
        assert_eq!(folder.done(&format!("{line} --quiet")), "");
    }
    assert_eq!(folder.done("--quiet plan bfs --graph graph.mtx"), "");
    assert_eq!(folder.done("convert graph.mtx graph.gvg -q"), "");
    assert_mentions(&folder.refused("bfs --graph graph.mtx --source 9 -q"), &["source 9"]);
}

#[test]
fn verbose_logs_to_stderr() {
    let ended = Folder::with(SMALL).run("bfs --graph graph.mtx --source 0 -v");
    assert_eq!(ended.code, Some(0));
    assert_mentions(&ended.stderr, &["bfs begins"]);
    assert!(ended.stdout.starts_with("graph "), "{}", ended.stdout);
}

#[test]
fn info_tells_degrees_weights_and_bytes() {
    let folder = Folder::with(
        "%%MatrixMarket matrix coordinate integer general\n5 5 6\n1 2 3\n1 2 2\n1 3 900\n1 4 5\n2 1 7\n3 3 1\n",
    );
    let text = folder.done("info graph.mtx --full --page-size 4K");
    for line in [
        "           5 vertices, 4 edges, directed",
        "           self-loops 1 (dropped), duplicates 1 (merged, smallest weight), explicit zeros 0 (edges)",
        "weights    u16, 2 to 900",
        "out-degree min 0, mean 0.80, max 3",
        "isolated   1 vertex",
        "self-loops 0 edges",
        "pages      2 of 4.0 KiB",
    ] {
        assert!(text.lines().any(|l| l == line), "\"{line}\" is not a line of\n{text}");
    }
    let json = folder.json("info graph.mtx --full --page-size 4K --keep-loops --keep-duplicates");
    assert_eq!((&json["graph"]["edges"], &json["self_loop_edges"]), (&6.into(), &1.into()));
    assert_eq!((&json["weights"]["min"], &json["weights"]["max"]), (&1.0.into(), &900.0.into()));
    let histogram = serde_json::json!([
        {"from": 0, "to": 0, "vertices": 2}, {"from": 1, "to": 1, "vertices": 2},
        {"from": 2, "to": 3, "vertices": 0}, {"from": 4, "to": 7, "vertices": 1},
    ]);
    assert_eq!(json["degree"]["histogram"], histogram);
    let bytes = serde_json::json!(
        {"row_offsets": 48, "column_indices": 24, "weights": 12, "segments": 4, "total": 88}
    );
    assert_eq!((&json["bytes"], &json["pages"]), (&bytes, &2.into()));
}

#[test]
fn info_of_complex_weights_tells_the_rest() {
    let folder = Folder::with(COMPLEX);
    assert_mentions(
        &folder.done("info graph.mtx --full"),
        &["2 vertices, 1 edge, directed", "weights    none:", "complex"],
    );
    assert_mentions(&folder.done("info graph.mtx --full --weights abs"), &["weights    u8, 5 to 5"]);
}

#[test]
fn generated_gap_kron_has_the_edges_of_its_family_and_a_grid_its_levels() {
    let folder = Folder::new();
    // Counts of shared ground truth: scale 10 of the graphs that the SuiteSparse collection holds.
    let json = folder.json("generate gap-kron:10 kron.gvg --weighted");
    assert_eq!((&json["graph"]["vertices"], &json["graph"]["edges"]), (&1024.into(), &20992.into()));
    folder.done("generate grid:30x20 grid.gvg");
    let json = folder.json("bfs --graph grid.gvg --source 0 --verify");
    assert_eq!((&json["runs"][0]["reached"], &json["runs"][0]["max_level"]), (&600.into(), &48.into()));
    assert_mentions(
        &folder.refused("generate com-Friendster fs.gvg"),
        &["cannot be generated", "com-Friendster.tar.gz"],
    );
    assert_mentions(&folder.refused("generate gap-kron:99 fs.gvg"), &["scale 99", "1 to 31"]);
    assert_mentions(&folder.refused("generate nothing fs.gvg"), &["nothing", "GAP-kron"]);
}

#[test]
fn converted_graph_gives_the_same_answers() {
    let folder = Folder::with(SMALL);
    let text = folder.done("convert graph.mtx graph.gvg");
    let size = fs::metadata(folder.path("graph.gvg")).expect("written").len();
    assert_mentions(&text, &["weights    u8", "output     graph.gvg", "write "]);
    let json = folder.json("convert graph.mtx again.gvg");
    assert_eq!(json["bytes_written"], size);
    for (line, output) in [("bfs --source 3", "out.csv"), ("sssp --source 3", "out.txt"), ("cc", "out.csv")] {
        folder.done(&format!("{line} --graph graph.mtx --output {output} --verify"));
        let expected = folder.read(output);
        folder.done(&format!("{line} --graph graph.gvg --output {output} --verify --verify-file"));
        assert_eq!(folder.read(output), expected, "{line}");
    }
    assert_mentions(
        &folder.done("info graph.gvg --full"),
        &["gvg", "5 vertices, 4 edges, directed", "weights    u8, 1 to 9"],
    );
}

#[test]
fn convert_replaces_nothing_unasked() {
    let folder = Folder::with(SMALL);
    folder.done("convert graph.mtx graph.gvg");
    let before = fs::read(folder.path("graph.gvg")).expect("written");
    assert_mentions(
        &folder.refused("convert graph.mtx graph.gvg"),
        &["graph.gvg: is there already", "--force"],
    );
    folder.done("convert graph.mtx graph.gvg --force");
    assert_eq!(fs::read(folder.path("graph.gvg")).expect("written"), before);
    assert_mentions(&folder.refused("convert graph.gvg ./graph.gvg --force"), &["is the graph itself"]);
    assert_mentions(&folder.refused("convert graph.mtx graph.bin"), &["graph.bin", ".gvg"]);
    assert_mentions(
        &folder.refused("convert graph.mtx none/graph.gvg"),
        &["none/graph.gvg: cannot be written"],
    );
    assert_mentions(&folder.refused("convert none.mtx new.gvg"), &["none.mtx: cannot be opened"]);
    assert_eq!(folder.names(), ["graph.gvg", "graph.mtx"]);
}

#[test]
fn reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::with(SMALL);
    for line in [
        "bfs --graph graph.mtx",
        "cc --graph graph.mtx --json",
        "info graph.mtx",
        "plan cc --graph graph.mtx",
    ] {
        let mut child =
            folder.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ends");
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &[][..]), "{line}");
    }
}

#[test]
fn help_and_version_are_no_errors() {
    let folder = Folder::new();
    assert_mentions(&folder.done("--version"), &["gpuvm-graph ", "devices: cpu"]);
    for command in ["bfs", "cc", "sssp", "convert", "info", "plan"] {
        assert_mentions(
            &folder.done(&format!("{command} --help")),
            &["Example", &format!("gpuvm-graph {command} ")],
        );
    }
    assert_mentions(&folder.refused("fly"), &["fly"]);
}

/// A ring of `n` vertices, each with its two neighbours: `2 n` edges.
fn ring(n: u32) -> String {
    let mut text = format!("%%MatrixMarket matrix coordinate pattern symmetric\n{n} {n} {n}\n{n} 1\n");
    (1..n).for_each(|i| text.push_str(&format!("{} {i}\n", i + 1)));
    text
}

/// Searches that take half a minute and more, some 10,000 steps from each of 5,000 sources, once they are under way; and
/// the lines of their messages to come.
#[cfg(unix)]
fn long_searches(folder: &Folder) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = folder
        .command("bfs --graph graph.mtx --source random:5000 --output out.npy --parents --json out.json -v")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines =
        BufReader::new(child.stderr.take().expect("piped")).lines().map(|line| line.expect("UTF-8"));
    assert!(lines.any(|line| line.contains("bfs begins")), "runs");
    (child, lines)
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_and_writes_nothing() {
    let folder = Folder::with(&ring(20_000));
    let (child, lines) = long_searches(&folder);
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill is there");
    assert!(kill.success());
    let last = lines.last().expect("a message");
    assert_eq!(last, "error: interrupted");
    let output = child.wait_with_output().expect("ends");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &[][..]));
    assert_eq!(folder.names(), ["graph.mtx"]);
}

#[cfg(unix)]
#[test]
fn second_ctrl_c_leaves_nothing_either() {
    let folder = Folder::with(&ring(20_000));
    let (mut child, lines) = long_searches(&folder);
    // The second may come too late, which is as well.
    let ids = [child.id().to_string(), child.id().to_string()];
    Command::new("kill").arg("-INT").args(ids).stderr(Stdio::null()).status().expect("kill is there");
    lines.for_each(drop);
    assert_eq!(child.wait().expect("ends").code(), Some(2));
    assert_eq!(folder.names(), ["graph.mtx"]);
}

/// The small graphs that come with the sources, where they are.
fn shipped(name: &str) -> Option<(PathBuf, Value)> {
    let graphs = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/graphs");
    let expected = fs::read_to_string(graphs.join(format!("expected/mtx__{name}.mtx.json"))).ok()?;
    Some((graphs.join(format!("mtx/{name}.mtx")), serde_json::from_str(&expected).expect("JSON")))
}

#[test]
fn karate_club_has_the_levels_components_and_distances_expected() {
    let (graph, expected) = shipped("karate").expect("datasets/graphs");
    let folder = Folder::new();
    let graph = graph.display();
    for run in expected["directed"].as_array().expect("sources") {
        let source = &run["source"];
        folder.done(&format!("bfs --graph {graph} --source {source} --verify --output levels.txt"));
        let mut histogram = Vec::new();
        for level in folder.read("levels.txt").lines() {
            let level: usize = level.parse().expect("all are reached");
            histogram.resize(histogram.len().max(level + 1), 0);
            histogram[level] += 1;
        }
        assert_eq!(serde_json::json!(histogram), run["bfs"]["level_histogram"]);

        folder.done(&format!(
            "sssp --graph {graph} --source {source} --weights hash --verify --output distances.txt"
        ));
        let sum: u64 = folder.read("distances.txt").lines().map(|d| d.parse::<u64>().expect("reached")).sum();
        assert_eq!(run["sssp_hash8"]["sum"], sum);
    }
    let json = folder.json(&format!("cc --graph {graph} --verify"));
    assert_eq!(json["components"]["count"], expected["components"]["count"]);
    assert_eq!(json["components"]["largest"]["vertices"], expected["components"]["largest"]);
}

#[test]
fn doctor_tells_of_the_host_and_ends_well_with_or_without_a_gpu() {
    let folder = Folder::new();
    let text = folder.done("doctor");
    for topic in ["gpu", "rdma", "memlock", "huge pages", "host", "cpu device", "in all"] {
        assert!(
            text.lines().any(|line| line.starts_with(&format!("{topic:<11}"))),
            "{topic} is not in\n{text}"
        );
    }
    let json = folder.json("doctor --device cpu --page-size 4K");
    assert_eq!((&json["program"]["command"], &json["gpu"]["state"]), (&"doctor".into(), &"not_asked".into()));
    assert_eq!(json["rates"]["page_size_bytes"], 4096);
    assert!(json["rates"]["pulls"]["bytes_per_second"].as_f64().expect("measured") > 0.0);
    let verdicts = json["findings"].as_array().expect("findings").iter().map(|finding| &finding["verdict"]);
    assert!(verdicts.into_iter().all(|verdict| ["ok", "note"].contains(&verdict.as_str().expect("a word"))));
}

#[test]
fn doctor_refuses_a_gpu_that_is_not_there() {
    let refused = Folder::new().refused("doctor --device cuda:4096");
    assert!(refused.contains("no CUDA driver") || refused.contains("no GPU number 4096"), "{refused}");
}

#[test]
fn profile_has_a_line_a_step_and_their_sum() {
    let folder = Folder::with(PATH);
    let line = "bfs --graph graph.mtx --source 0 --threads 1 --profile";
    let text = folder.done(&format!("{line} --access paged --gpu-mem 1M"));
    let words: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.starts_with("profile"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        words[1],
        ["step", "frontier", "scan", "edges", "time", "faults", "hits", "evictions", "bytes", "in", "GB/s"]
    );
    for (step, line) in words[2..5].iter().enumerate() {
        assert_eq!((line[0], line[1], line[3]), (["0", "1", "2"][step], "1", "1"), "{text}");
    }
    let total = &words[5];
    assert_eq!(
        (&total[..3], total[5], &total[8..10]),
        (&["total", "3", "3"][..], "1", &["12", "B"][..]),
        "{text}"
    );
    assert_mentions(&text, &["besides the steps, "]);

    // Nothing is paged: nothing to tell of pages.
    let text = folder.done(line);
    assert!(text.contains("frontier") && !text.contains("faults"), "{text}");
    // A table for each source, and one sum.
    let text = folder.done("bfs --graph graph.mtx --source 0 --source 2 --profile");
    assert_mentions(
        &text,
        &["profile    from source 0\n", "profile    from source 2\n", "all sources       total"],
    );
    assert!(!folder.done("cc --graph graph.mtx").contains("profile"));
    assert!(
        folder.json("cc --graph graph.mtx --profile --device cpu").get("link_bytes_per_second").is_none()
    );
}
