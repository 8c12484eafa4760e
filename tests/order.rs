//! Degree order in graph files and in runs: every id that is typed or printed is that of the input, whatever the order.

#[path = "common/program.rs"]
mod program;

use program::{Folder, assert_mentions};
use serde_json::Value;

/// What must not depend on the order.
fn answer(json: &Value) -> Vec<Value> {
    let names = ["source", "reached", "max_level", "max_distance", "farthest_vertex", "target"];
    let runs = json["runs"].as_array().expect("runs").iter();
    let of_runs = runs.flat_map(|run| names.map(|name| run[name].clone()));
    of_runs.chain([json["components"].clone(), json["verified"].clone()]).collect()
}

#[test]
fn rows_in_degree_order_change_no_answer_and_no_name() {
    let folder = Folder::new();
    folder.done("generate gap-kron:9 natural.gvg --weighted --order natural --heads 0");
    folder.done("generate gap-kron:9 degree.gvg --weighted --order degree");
    for (file, order, heads) in [("natural", "natural", 0), ("degree", "degree", 2)] {
        let graph = &folder.json(&format!("info {file}.gvg --verify-file"))["graph"];
        assert_eq!((&graph["order"], &graph["heads_per_vertex"]), (&order.into(), &heads.into()), "{file}");
    }
    let sources = "--source random:3 --seed 5 --source max-degree --target 7";
    for run in [
        format!("bfs {sources} --direction push"),
        format!("bfs {sources} --direction pull"),
        format!("bfs {sources} --parents"),
        "bfs --source 3 --depth-limit 2".to_owned(),
        "cc".to_owned(),
        format!("sssp {sources} --parents"),
        format!("sssp {sources} --weights hash"),
        format!("sssp {sources} --weights random:3"),
    ] {
        let results =
            ["natural.gvg", "degree.gvg", "natural.gvg --order degree", "degree.gvg --order natural"].map(
                |graph| {
                    let line = format!("{run} --graph {graph} --verify --output out.csv --json out.json");
                    folder.done(&line);
                    let json: Value = serde_json::from_str(&folder.read("out.json")).expect("JSON");
                    (answer(&json), folder.read("out.csv"))
                },
            );
        assert!(results.iter().all(|result| *result == results[0]), "{run}: {results:#?}");
    }
}

#[test]
fn order_is_chosen_by_the_skew_of_the_degrees() {
    let folder = Folder::new();
    for (name, order) in [("gap-kron:13", "degree"), ("gap-urand:9", "natural"), ("grid:30x20", "natural")] {
        let json = folder.json(&format!("generate {name} graph.gvg --force"));
        assert_eq!(json["graph"]["order"], order, "{name}");
    }
    // A star of 20 rays, directed: no heads, which serve undirected graphs.
    let rays: String = (2..=21).map(|v| format!("1 {v}\n")).collect();
    let star = format!("%%MatrixMarket matrix coordinate pattern general\n21 21 20\n{rays}");
    std::fs::write(folder.path("star.mtx"), star).expect("written");
    let json = folder.json("convert star.mtx star.gvg --heads 4");
    assert_eq!((&json["graph"]["order"], &json["graph"]["heads_per_vertex"]), (&"natural".into(), &0.into()));
    let json = folder.json("convert star.mtx star.gvg --symmetrize --heads 4 --force");
    assert_eq!((&json["graph"]["order"], &json["graph"]["heads_per_vertex"]), (&"natural".into(), &4.into()));
    assert_mentions(
        &folder.refused("convert star.mtx new.gvg --heads 3"),
        &["--heads", "power of two up to 16"],
    );
    assert_mentions(
        &folder.refused("convert star.mtx new.gvg --order size"),
        &["--order", "auto, natural, degree"],
    );
}

#[test]
fn part_of_a_file_in_degree_order_is_that_of_the_ids() {
    let folder = Folder::new();
    folder.done("generate gap-kron:9 natural.gvg --order natural");
    folder.done("generate gap-kron:9 degree.gvg --order degree");
    let parts = ["natural", "degree"].map(|order| {
        folder.done(&format!("extract {order}.gvg part.mtx --around 3 --hops 1 --force"));
        folder.done(&format!("convert {order}.gvg whole.mtx --force"));
        (folder.read("part.mtx"), folder.read("whole.mtx"))
    });
    assert_eq!(parts[0], parts[1]);
}
