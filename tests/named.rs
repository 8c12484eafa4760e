//! Graphs known by name, as a user meets them: generated once, found from then on.

#[path = "common/program.rs"]
mod program;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use program::{Folder, assert_mentions};

const KRON_10: &str = "gap-kron-10-suitesparse-degree16-weighted-v1.gvg";

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("readable").file_name();
    let mut names: Vec<_> = entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|metadata| metadata.modified()).expect("a file")
}

#[test]
fn graph_is_generated_once_and_then_found() {
    let folder = Folder::new();
    let file = folder.path("cache").join(KRON_10);
    let first = folder.json("bfs --graph gap-kron:10 --source max-degree --verify");
    assert_eq!(first["graph"]["path"], "gap-kron:10");
    assert_eq!(first["graph"]["edges"], 20_992, "that of the collection's family");
    assert_eq!(first["graph"]["cache"]["generated"], true);
    assert_eq!(
        PathBuf::from(first["graph"]["cache"]["file"].as_str().expect("a path")),
        Path::new("cache").join(KRON_10)
    );
    let written = modified(&file);
    // Not even permission to write is needed, and other words for the same graph find it.
    fs::set_permissions(folder.path("cache"), fs::Permissions::from_mode(0o555)).expect("our folder");
    for name in ["gap-kron:10", "KRON:10:suitesparse:degree=16"] {
        let again = folder.json(&format!("bfs --graph {name} --source max-degree --verify"));
        assert_eq!(again["graph"]["cache"]["generated"], false);
        assert_eq!(again["runs"][0]["reached"], first["runs"][0]["reached"]);
    }
    fs::set_permissions(folder.path("cache"), fs::Permissions::from_mode(0o755)).expect("our folder");
    assert_eq!(modified(&file), written);
    assert_eq!(files(&folder.path("cache")), [KRON_10]);
}

#[test]
fn every_command_that_takes_a_graph_takes_a_name_and_weights_are_those_that_generate_gives() {
    let folder = Folder::new();
    folder.done("generate gap-urand:9 urand.gvg --weighted");
    folder.done("sssp --graph urand.gvg --source 3 --output file.csv");
    folder.done("sssp --graph gap-urand:9 --source 3 --output name.csv --verify");
    assert_eq!(folder.read("name.csv"), folder.read("file.csv"));
    assert_mentions(&folder.done("info gap-urand:9"), &["kept in cache/", "weights    u8, 1 to 255"]);
    assert_mentions(&folder.done("cc --graph gap-urand:9"), &["graph      gap-urand:9"]);
    assert_mentions(&folder.done("plan sssp --graph gap-urand:9"), &["distances"]);
    folder.done("convert gap-urand:9 copy.gvg");
    assert_eq!(
        fs::read(folder.path("copy.gvg")).expect("written").len(),
        fs::read(folder.path("urand.gvg")).expect("written").len()
    );
    let grid = folder.json("sssp --graph grid:20x30 --source 0 --verify");
    assert_eq!((&grid["graph"]["vertices"], &grid["runs"][0]["max_distance"]), (&600.into(), &48.into()));
}

#[test]
fn damaged_file_is_generated_again_with_a_warning() {
    let folder = Folder::new();
    folder.done("cc --graph gap-kron:10");
    let file = folder.path("cache").join(KRON_10);
    let sound = fs::read(&file).expect("written");
    let mut flipped = sound.clone();
    *flipped.last_mut().expect("weights") ^= 1;
    let cut_short = &sound[..sound.len() / 2];
    let header = [&b"no graph"[..], &sound[8..]].concat();
    for (damage, options) in
        [(cut_short, ""), (&b""[..], ""), (header.as_slice(), ""), (flipped.as_slice(), "--verify-file")]
    {
        fs::write(&file, damage).expect("written");
        let ended = folder.run(&format!("cc --graph gap-kron:10 {options}"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_mentions(&ended.stderr, &["WARN", "gap-kron:10", "generated again", "damaged", KRON_10]);
        assert_mentions(&ended.stdout, &["generated, kept in cache/"]);
        assert_eq!(fs::read(&file).expect("written"), sound);
    }
    folder.done("cc --graph gap-kron:10 --verify-file");
}

#[test]
fn folder_of_the_option_comes_before_that_of_the_variable() {
    let folder = Folder::new();
    folder.done("info grid:3x4 --cache-dir here/and/there");
    assert_eq!(files(&folder.path("here/and/there")), ["grid-3x4-unit-v1.gvg"]);
    assert_eq!(folder.names(), ["here"]);
    folder.done("info grid:3x4");
    assert_eq!(files(&folder.path("cache")), ["grid-3x4-unit-v1.gvg"]);
}

#[test]
fn without_option_and_variable_the_platforms_folder_is_taken() {
    let folder = Folder::new();
    let mut command = folder.command("info grid:3x4 --quiet");
    command.env_remove("GPUVM_CACHE_DIR").env_remove("XDG_CACHE_HOME").env("HOME", folder.path("home"));
    assert!(command.status().expect("starts").success());
    let kept =
        [".cache/gpuvm-graph", "Library/Caches/gpuvm-graph"].map(|under| folder.path("home").join(under));
    assert!(kept.iter().any(|kept| kept.join("grid-3x4-unit-v1.gvg").exists()));
}

#[test]
fn two_programs_at_once_both_end_well() {
    let folder = Folder::new();
    let start = || {
        let mut command = folder.command("cc --graph gap-kron:14 --threads 1 --json");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts")
    };
    let generated: Vec<bool> = [start(), start(), start()]
        .into_iter()
        .map(|program| {
            let output = program.wait_with_output().expect("ends");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            json["graph"]["cache"]["generated"].as_bool().expect("known by name")
        })
        .collect();
    assert_eq!(generated.iter().filter(|&&generated| generated).count(), 1, "the others waited and found it");
    assert_eq!(files(&folder.path("cache")).len(), 1);
}

#[test]
fn what_a_killed_program_left_is_removed() {
    let folder = Folder::new();
    fs::create_dir(folder.path("cache")).expect("new");
    let (left, fresh) = (".gpuvm-x1y2z3.gvg.part", ".gpuvm-being-written.gvg.part");
    for name in [left, fresh] {
        fs::write(folder.path("cache").join(name), "half a graph").expect("written");
    }
    let left = File::options().append(true).open(folder.path("cache").join(left)).expect("written");
    left.set_modified(SystemTime::now() - Duration::from_secs(2 * 60 * 60)).expect("our file");
    folder.done("cc --graph gap-kron:10");
    assert_eq!(files(&folder.path("cache")), [fresh, KRON_10]);
}

#[test]
fn file_wins_over_a_name_and_the_program_says_so() {
    let folder = Folder::new();
    let graph = "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n";
    for name in ["gap-kron:10", "GK"] {
        fs::write(folder.path(name), graph).expect("written");
        let ended = folder.run(&format!("info --full {name}"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_mentions(&ended.stdout, &["2 vertices, 1 edge, directed"]);
        assert_mentions(&ended.stderr, &["WARN", name, "file of this name is read"]);
    }
    assert_eq!(folder.names(), ["GK", "gap-kron:10"]);
    fs::create_dir(folder.path("grid:3x4")).expect("new");
    assert_mentions(&folder.done("info grid:3x4"), &["12 vertices"]);
}

#[test]
fn unknown_name_lists_what_there_is() {
    let folder = Folder::new();
    for line in ["bfs --graph twitter", "info twitter", "convert twitter out.gvg", "plan cc --graph twitter"]
    {
        assert_mentions(
            &folder.refused(line),
            &[
                "twitter: is no file",
                "no graph is called twitter",
                "GAP-kron (GK)",
                "com-Friendster (FS)",
                "gap-kron:SCALE",
                "grid:WIDTHxHEIGHT",
            ],
        );
    }
    assert_mentions(&folder.refused("cc --graph gap-kron:big"), &["gap-kron:big", "expected KIND:SCALE"]);
    assert_mentions(&folder.refused("cc --graph gap-kron:10:v1.6"), &["v1.6", "suitesparse"]);
    assert_mentions(&folder.refused("cc --graph gap-kron:99"), &["gap-kron:99", "scale 99", "1 to 31"]);
    assert_mentions(&folder.refused("cc --graph none.mtx"), &["none.mtx: cannot be opened"]);
    assert_mentions(
        &folder.refused("cc --graph gap-kron:10 --keep-loops"),
        &["gap-kron:10", "--keep-loops", "leave it out"],
    );
    assert!(!folder.names().contains(&"out.gvg".to_owned()));
}

#[test]
fn graph_to_download_is_named_with_its_counts_its_file_and_what_to_do() {
    let folder = Folder::new();
    for name in ["FS", "com-friendster", "FS.mtx", "com-Friendster.tar.gz"] {
        assert_mentions(
            &folder.refused(&format!("bfs --graph {name}")),
            &[
                name,
                "SNAP/com-Friendster of the SuiteSparse collection",
                "65,608,366 vertices",
                "3,612,134,270 edges",
                "com-Friendster.tar.gz",
                "com-Friendster/com-Friendster.mtx",
                "mkdir -p cache, gpuvm-graph convert com-Friendster/com-Friendster.mtx",
                "cache/com-Friendster.gvg",
            ],
        );
    }
    assert_mentions(&folder.refused("sssp --graph MO"), &["Sybrandt/MOLIERE_2016", "30,239,687"]);
    assert_mentions(
        &folder.refused("bfs --graph GK.mtx"),
        &[
            "GK.mtx: cannot be opened",
            "GAP/GAP-kron",
            "4,223,264,644",
            "--graph GK generates it (gap-kron:27)",
        ],
    );
}

#[test]
fn graph_that_was_downloaded_and_converted_is_found_by_its_name() {
    let folder = Folder::new();
    fs::create_dir(folder.path("cache")).expect("new");
    fs::write(folder.path("fs.mtx"), "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n")
        .expect("written");
    folder.done("convert fs.mtx cache/com-Friendster.gvg");
    let json = folder.json("bfs --graph FS --source 0 --verify");
    assert_eq!(
        (&json["graph"]["cache"]["generated"], &json["runs"][0]["reached"]),
        (&false.into(), &3.into())
    );
}

#[test]
fn graph_without_room_is_refused_before_it_is_generated() {
    let folder = Folder::new();
    // 2^31 vertices of degree 1024: 20 TB of edges and more.
    let error = folder.refused("cc --graph gap-urand:31:degree=1024");
    assert_mentions(&error, &["gap-urand:31:degree=1024", "of memory", "TiB", "are available", "smaller"]);
    assert_eq!(files(&folder.path("cache")), [] as [String; 0]);
    fs::write(folder.path("file"), "").expect("written");
    let error = folder.refused("cc --graph gap-kron:10 --cache-dir file/cache");
    assert_mentions(&error, &["gap-kron:10: cannot be kept in file/cache", "--cache-dir", "GPUVM_CACHE_DIR"]);
}

#[test]
fn known_graphs_are_listed_with_how_to_have_them() {
    let folder = Folder::new();
    let text = folder.done("info --known");
    assert_mentions(&text, &["GAP-kron      GK", "generated, as gap-kron:27", "grid:WIDTHxHEIGHT"]);
    assert_mentions(&text, &["com-Friendster.tar.gz from https://sparse.tamu.edu/SNAP/com-Friendster"]);
    let json = folder.json("info --known");
    assert_eq!(json["known"][1]["short_name"], "GU");
    assert_eq!(json["known"][1]["edges"], 4_294_966_740_u64);
    assert_mentions(&folder.refused("info"), &["--known"]);
    assert_mentions(&folder.refused("info GK --known"), &["--known"]);
}
