//! The graph file: what comes back is what went in, and a file with one wrong byte is refused.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gpuvm_engine::graph::{Csr, Order, WeightType, Weights};
use gpuvm_loaders::{LoadError, LoadOptions, LoadedGraph, Progress, WeightRule, load, load_bytes, write_gvg};
use tempfile::TempDir;

const SECTION: u64 = 2 << 20;
const TABLE: usize = 256;
const ENTRY: usize = 40;

/// Five vertices; edges 0-1 (2.5), 1-2 (0.5), 3-4 (7), both directions.
const TEXT: &str = "%%MatrixMarket matrix coordinate real symmetric\n5 5 4\n2 1 2.5\n3 2 0.5\n3 3 1\n5 4 7\n";

fn graph(text: &str, options: &LoadOptions) -> LoadedGraph {
    load_bytes(Path::new("a.mtx"), text.as_bytes(), options).expect("loads")
}

/// A folder with a graph file in it.
fn written(text: &str, options: &LoadOptions) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("graph.gvg");
    let size = write_gvg(&path, &graph(text, options), &()).expect("written");
    assert_eq!(size, path.metadata().expect("a file").len());
    (folder, path)
}

fn open(path: &Path) -> Result<LoadedGraph, LoadError> {
    load(path, &LoadOptions::default(), &())
}

fn verify(path: &Path) -> Result<LoadedGraph, LoadError> {
    load(path, &LoadOptions { verify_file: true, ..LoadOptions::default() }, &())
}

fn with(weights: WeightRule) -> LoadOptions {
    LoadOptions { weights, ..LoadOptions::default() }
}

fn edit(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).expect("a file")
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
fn graph_of_every_weight_type_comes_back() {
    for (value, weight_type) in [
        ("7", WeightType::U8),
        ("256", WeightType::U16),
        ("65536", WeightType::U32),
        ("0.5", WeightType::F32),
        ("0.1", WeightType::F64),
    ] {
        let text =
            format!("%%MatrixMarket matrix coordinate real general\n4 4 3\n1 2 {value}\n2 3 1\n4 1 2\n");
        let before = graph(&text, &LoadOptions::default());
        assert_eq!(before.csr.weights().weight_type(), weight_type);
        let (_folder, path) = written(&text, &LoadOptions::default());
        same(&open(&path).expect("opens").csr, &before.csr);
        same(&verify(&path).expect("verifies").csr, &before.csr);
    }
    for (rule, weight_type) in [(WeightRule::Unit, WeightType::Unit), (WeightRule::Hash, WeightType::Hash)] {
        let (_folder, path) = written(TEXT, &with(rule));
        let again = verify(&path).expect("verifies");
        same(&again.csr, &graph(TEXT, &with(rule)).csr);
        assert_eq!(again.csr.weights().weight_type(), weight_type);
    }
}

#[test]
fn summary_comes_back() {
    let text =
        "%%MatrixMarket matrix coordinate integer general\n3 3 5\n1 2 0\n1 2 -4\n2 2 1\n3 1 5\n2 3 1\n";
    let (_folder, path) = written(text, &LoadOptions { symmetrize: true, ..LoadOptions::default() });
    let summary = open(&path).expect("opens").summary;
    assert_eq!(summary.format, "gvg");
    assert_eq!(summary.converted_from.as_deref(), Some("Matrix Market coordinate"));
    assert_eq!((summary.field.as_str(), summary.symmetry.as_str()), ("integer", "general"));
    assert_eq!((summary.rows, summary.columns), (3, 3));
    assert_eq!((summary.stored_entries, summary.expanded_entries), (5, 5));
    // Two entries of one edge: one merged, and once more in the other direction.
    assert_eq!((summary.self_loops, summary.duplicates), (1, 2));
    assert_eq!((summary.explicit_zeros, summary.negative_weights), (1, 1));
    assert!(summary.symmetrized && !summary.bipartite);
}

#[test]
fn graph_without_edges_or_vertices_comes_back() {
    for text in ["3 3 0", "0 0 0"] {
        let text = format!("%%MatrixMarket matrix coordinate integer general\n{text}\n");
        let (_folder, path) = written(&text, &LoadOptions::default());
        same(&verify(&path).expect("verifies").csr, &graph(&text, &LoadOptions::default()).csr);
    }
}

#[test]
fn opened_arrays_are_aligned_in_the_mapping_and_not_copied() {
    let (_folder, path) = written(TEXT, &LoadOptions::default());
    let csr = open(&path).expect("opens").csr;
    let address = |slice: &[u8]| slice.as_ptr() as u64;
    let offsets = address(bytemuck::cast_slice(csr.row_offsets()));
    let columns = address(bytemuck::cast_slice(csr.column_indices()));
    assert_eq!(columns - offsets, SECTION);
    assert_eq!(address(csr.weights().as_bytes()) - columns, SECTION);
}

#[test]
fn file_cut_at_any_byte_is_refused() {
    let (_folder, path) = written(TEXT, &LoadOptions::default());
    let file = edit(&path);
    let size = file.metadata().expect("a file").len();
    let is_near =
        |len: u64| (0..=5).any(|i| len.abs_diff(i * SECTION) < 100) || len < 500 || len + 100 > size;
    for len in (0..size).rev().filter(|&len| is_near(len) || len % 4999 == 0) {
        file.set_len(len).expect("cut");
        let error = open(&path).expect_err("refused").to_string();
        assert!(error.contains("graph.gvg"), "{error}");
        assert!(len < 4 || error.contains("bytes") && error.contains("convert"), "{len}: {error}");
    }
}

#[test]
fn bytes_after_the_end_are_refused() {
    let (_folder, path) = written(TEXT, &LoadOptions::default());
    let file = edit(&path);
    let size = file.metadata().expect("a file").len();
    for extra in [1, 4, 4096, SECTION] {
        file.set_len(size + extra).expect("longer");
        assert!(matches!(open(&path), Err(LoadError::DamagedGvg { .. })));
    }
}

#[test]
fn changed_byte_in_header_or_table_is_refused() {
    let (_folder, path) = written(TEXT, &LoadOptions::default());
    let file = edit(&path);
    let size = TABLE + 3 * ENTRY;
    let mut head = vec![0; size];
    file.read_exact_at(&mut head, 0).expect("read");
    for at in 0..size {
        for flip in [1, 0x80, 0xFF] {
            file.write_at(&[head[at] ^ flip], at as u64).expect("written");
            assert!(open(&path).is_err(), "byte {at} with {flip} turned");
        }
        file.write_at(&head[at..at + 1], at as u64).expect("written");
    }
    open(&path).expect("opens again");
}

#[test]
fn changed_byte_in_a_section_or_between_them_is_found_by_verification() {
    let (_folder, path) = written(TEXT, &LoadOptions::default());
    let file = edit(&path);
    let size = file.metadata().expect("a file").len();
    let head = (TABLE + 3 * ENTRY) as u64;
    let is_near = |at: u64| (1..=3).any(|i| (i * SECTION..i * SECTION + 64).contains(&(at + 8)));
    for at in (head..size).filter(|&at| is_near(at) || at % 300_007 == 0 || at == head) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_at(&[byte[0] ^ 4], at).expect("written");
        let error = verify(&path).expect_err("found").to_string();
        // The section that the byte is in, or the one before which it lies.
        let sections = ["", "row_offsets", "column_indices", "weights", ""];
        let named = sections[(at / SECTION) as usize..][..2].iter().any(|name| error.contains(name));
        assert!(named && error.contains("convert"), "{at}: {error}");
        file.write_at(&byte, at).expect("written");
    }
    verify(&path).expect("verifies again");
}

#[test]
fn file_transferred_as_text_is_refused() {
    let (_folder, path) = written(TEXT, &LoadOptions::default());
    edit(&path).write_at(b"\x89GVG\n\x1a\n", 0).expect("written");
    assert!(open(&path).expect_err("refused").to_string().contains("transfer as text"));
}

/// Changes header and table and makes their checksum right again.
fn forge(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let file = edit(path);
    let mut head = vec![0; 4096];
    file.read_exact_at(&mut head, 0).expect("read");
    change(&mut head);
    let sections = u32::from_le_bytes(head[32..36].try_into().expect("four bytes")) as usize;
    let end = (TABLE + sections * ENTRY).min(head.len());
    head[16..20].fill(0);
    let checksum = crc32c::crc32c(&head[..end]);
    head[16..20].copy_from_slice(&checksum.to_le_bytes());
    file.write_all_at(&head, 0).expect("written");
}

fn put(head: &mut [u8], at: usize, value: u64) {
    head[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn section_of_another_name_is_skipped() {
    let (_folder, path) = written(TEXT, &LoadOptions::default());
    forge(&path, |head| {
        head[32] = 4;
        put(head, 40, 4 * SECTION + 11);
        let entry = TABLE + 3 * ENTRY;
        head[entry..entry + 10].copy_from_slice(b"compressed");
        put(head, entry + 16, 4 * SECTION);
        put(head, entry + 24, 11);
        put(head, entry + 32, crc32c::crc32c(b"what it may").into());
    });
    edit(&path).write_all_at(b"what it may", 4 * SECTION).expect("written");
    same(&verify(&path).expect("verifies").csr, &graph(TEXT, &LoadOptions::default()).csr);
}

#[test]
fn header_that_contradicts_the_file_is_refused_though_its_checksum_is_right() {
    type Change = (&'static str, fn(&mut Vec<u8>));
    let changes: [Change; 17] = [
        ("a newer version", |head| head[8] = 2),
        ("the other byte order", |head| head[12..16].reverse()),
        ("an unknown flag", |head| head[20] |= 0x80),
        ("ids of 8 bytes", |head| head[24] = 8),
        ("an unknown weight type", |head| head[28] = 7),
        ("weights of another size", |head| head[28] = 6),
        ("more sections than any file has", |head| head[32..36].fill(0xFF)),
        ("a section fewer", |head| head[32] = 2),
        ("a larger file", |head| put(head, 40, 3 * SECTION + 28)),
        ("one vertex more", |head| put(head, 48, 6)),
        ("more vertices than ids", |head| put(head, 48, u64::MAX)),
        ("one edge fewer", |head| put(head, 56, 5)),
        ("more edges than memory", |head| put(head, 56, u64::MAX / 2)),
        ("a text that is none", |head| head[136] = 0xFF),
        ("a section elsewhere", |head| put(head, TABLE + 16, SECTION + 8)),
        ("a section of any length", |head| put(head, TABLE + 2 * ENTRY + 24, u64::MAX)),
        ("a section that is there twice", |head| head.copy_within(TABLE..TABLE + 16, TABLE + ENTRY)),
    ];
    for (what, change) in changes {
        let (_folder, path) = written(TEXT, &LoadOptions::default());
        forge(&path, change);
        assert!(open(&path).is_err(), "{what}");
    }
}

#[test]
fn row_offsets_that_fall_are_refused_on_opening() {
    let (_folder, path) = written(TEXT, &LoadOptions::default());
    edit(&path).write_at(&[9], SECTION + 8).expect("written");
    assert!(matches!(open(&path), Err(LoadError::Graph { .. })));
}

#[test]
fn options_that_change_the_graph_are_refused_by_name() {
    let (_folder, path) = written(TEXT, &LoadOptions::default());
    let none = LoadOptions::default();
    for (option, options) in [
        ("--bipartite", LoadOptions { bipartite: true, ..none.clone() }),
        ("--symmetrize", LoadOptions { symmetrize: true, ..none.clone() }),
        ("--keep-duplicates", LoadOptions { keep_duplicates: true, ..none.clone() }),
        ("--keep-loops", LoadOptions { keep_loops: true, ..none.clone() }),
    ] {
        let error = load(&path, &options, &()).expect_err("refused").to_string();
        assert!(error.contains(option) && error.contains("convert"), "{error}");
        // What was asked for at conversion is no change.
        let (_folder, converted) = written(TEXT, &options);
        load(&converted, &options, &()).expect("opens");
        load(&converted, &none, &()).expect("opens");
    }
}

#[test]
fn weights_of_a_file_can_be_replaced() {
    let text = "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 -0.5\n2 3 4\n";
    let (_folder, path) = written(text, &LoadOptions::default());
    let weights = |rule| load(&path, &with(rule), &()).expect("opens").csr.weights().clone();
    assert!(matches!(weights(WeightRule::Unit), Weights::Unit));
    assert!(matches!(weights(WeightRule::Ignore), Weights::Unit));
    assert!(matches!(weights(WeightRule::Hash), Weights::Hash));
    assert!(matches!(weights(WeightRule::File), Weights::F32(w) if *w == [-0.5, 4.0]));
    assert!(matches!(weights(WeightRule::Abs), Weights::F32(w) if *w == [0.5, 4.0]));
    let random = with(WeightRule::Random { seed: 3 });
    assert_eq!(weights(random.weights).as_bytes(), graph(text, &random).csr.weights().as_bytes());
}

#[test]
fn skew_symmetric_graph_is_symmetric_once_signs_do_not_count() {
    let text = "%%MatrixMarket matrix coordinate integer skew-symmetric\n3 3 1\n2 1 4\n";
    let (_folder, path) = written(text, &LoadOptions::default());
    assert!(!open(&path).expect("opens").csr.is_symmetric());
    for rule in [WeightRule::Abs, WeightRule::Ignore, WeightRule::Hash] {
        assert!(load(&path, &with(rule), &()).expect("opens").csr.is_symmetric());
    }
}

#[test]
fn writing_replaces_a_file_and_leaves_nothing_else() {
    let (folder, path) = written(TEXT, &LoadOptions::default());
    let before = open(&path).expect("opens");
    // The mapped file itself is the source: its bytes stay until the mapping goes.
    write_gvg(&path, &before, &()).expect("written");
    same(&verify(&path).expect("verifies").csr, &before.csr);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    let again = verify(&path).expect("verifies").summary;
    assert_eq!(again.converted_from.as_deref(), Some("Matrix Market coordinate"));
}

#[test]
fn failed_or_cancelled_write_leaves_no_file() {
    struct Cancelled;
    impl Progress for Cancelled {
        fn begin(&self, _: &'static str, _: u64) {}
        fn advance(&self, _: u64) {}
        fn end(&self) {}
        fn is_cancelled(&self) -> bool {
            true
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let graph = graph(TEXT, &LoadOptions::default());
    let path = folder.path().join("graph.gvg");
    assert!(matches!(write_gvg(&path, &graph, &Cancelled), Err(LoadError::Interrupted)));
    let nowhere = folder.path().join("no/graph.gvg");
    assert!(matches!(write_gvg(&nowhere, &graph, &()), Err(LoadError::Write { .. })));
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn packed_graph_file_is_refused_with_what_to_do() {
    use std::io::Write;
    let (_folder, path) = written(TEXT, &LoadOptions::default());
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&std::fs::read(&path).expect("read")).expect("to memory");
    let bytes = encoder.finish().expect("to memory");
    let error = load_bytes(Path::new("a.gvg.gz"), &bytes, &LoadOptions::default()).expect_err("refused");
    assert!(error.to_string().contains("gunzip"), "{error}");
}

/// The graph of `TEXT` in a file, with two heads a vertex: the last of four sections.
fn with_heads() -> (TempDir, PathBuf) {
    let LoadedGraph { csr, summary, ids } = graph(TEXT, &LoadOptions::default());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("graph.gvg");
    let csr = csr.with_heads(2).expect("40 bytes");
    write_gvg(&path, &LoadedGraph { csr, summary, ids }, &()).expect("written");
    (folder, path)
}

#[test]
fn heads_come_back_whatever_the_weights() {
    let (_folder, path) = with_heads();
    let none = u32::MAX;
    for graph in [open(&path), verify(&path), load(&path, &with(WeightRule::Hash), &())] {
        let csr = graph.expect("opens").csr;
        let heads = csr.heads().expect("kept");
        assert_eq!(heads.ids().as_slice(), [1, none, 0, 2, 1, none, 4, none, 3, none]);
    }
    let (_folder, without) = written(TEXT, &LoadOptions::default());
    assert!(open(&without).expect("opens").csr.heads().is_none());
}

#[test]
fn heads_that_are_not_those_of_the_graph_are_refused() {
    let (_folder, path) = with_heads();
    let heads_at = path.metadata().expect("a file").len() - 40;
    // As many as three for each of five vertices: the table's last entry says how many bytes the section has.
    let file = edit(&path);
    file.set_len(heads_at + 60).expect("longer");
    forge(&path, |head| {
        put(head, 40, heads_at + 60);
        put(head, TABLE + 3 * ENTRY + 24, 60);
    });
    let error = open(&path).expect_err("15 heads").to_string();
    assert!(error.contains("section heads: 15 heads") && error.contains("5 vertices"), "{error}");

    let (_folder, path) = with_heads();
    edit(&path).write_all_at(&[3], heads_at).expect("written");
    assert!(verify(&path).expect_err("another head").to_string().contains("section heads"));
    // With a checksum to match, the rows tell.
    let mut heads = vec![0; 40];
    edit(&path).read_exact_at(&mut heads, heads_at).expect("read");
    forge(&path, |head| {
        head[TABLE + 3 * ENTRY + 32..][..4].copy_from_slice(&crc32c::crc32c(&heads).to_le_bytes());
    });
    let error = verify(&path).expect_err("vertex 0 leads to 1").to_string();
    assert!(error.contains("section heads: the heads of vertex 0"), "{error}");
}

/// 1 -> 2 -> 3 -> 1 and 1 -> 3, a vertex apart; rows by degree, with the reverse and its heads.
fn with_reverse() -> (TempDir, PathBuf) {
    let text = "%%MatrixMarket matrix coordinate pattern general\n4 4 4\n1 2\n2 3\n3 1\n1 3\n";
    let LoadedGraph { csr, summary, ids } = graph(text, &LoadOptions::default());
    let csr = csr.with_reverse(2).and_then(|csr| csr.in_order(Order::Degree)).expect("fits");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("graph.gvg");
    write_gvg(&path, &LoadedGraph { csr, summary, ids }, &()).expect("written");
    (folder, path)
}

/// Where a section of `with_reverse` begins: all but the last are far shorter than what they are aligned to.
fn section_at(number: u64) -> u64 {
    (number + 1) * SECTION
}

#[test]
fn order_and_reverse_come_back() {
    let (_folder, path) = with_reverse();
    for graph in [open(&path), verify(&path), load(&path, &with(WeightRule::Hash), &())] {
        let csr = graph.expect("opens").csr;
        let permutation = csr.permutation().expect("kept");
        // Degrees in both directions: 3, 2, 3, 0.
        assert_eq!(permutation.original_ids().as_slice(), [0, 2, 1, 3]);
        assert_eq!((csr.neighbors(0), csr.neighbors(1), csr.neighbors(2)), (&[1, 2][..], &[0][..], &[1][..]));
        let reverse = csr.reverse().expect("kept");
        assert_eq!(reverse.row_offsets().as_slice(), [0, 1, 3, 4, 4]);
        assert_eq!(reverse.column_indices().as_slice(), [1, 0, 2, 0]);
        let none = u32::MAX;
        assert_eq!(reverse.heads().expect("kept").ids().as_slice(), [1, none, 0, 2, 0, none]);
    }
    // A rule of ids, not of rows.
    let csr = load(&path, &with(WeightRule::Hash), &()).expect("opens").csr;
    assert_eq!(csr.weights().get(1, 0, 2), f64::from(Weights::hash8(0, 1)));
}

#[test]
fn damaged_order_and_reverse_are_refused_by_the_name_of_their_section() {
    // Sections: row_offsets, column_indices, original_ids, reverse_offsets, reverse_columns, reverse_heads.
    for (section, at, byte, words) in [
        (2, 0, 1, "section original_ids: row"),
        (2, 4, 9, "section original_ids: row 1 is of vertex 9"),
        (3, 8, 7, "section reverse_offsets: row 1 ends before it begins"),
    ] {
        let (_folder, path) = with_reverse();
        edit(&path).write_all_at(&[byte], section_at(section) + at).expect("written");
        let error = open(&path).expect_err("damaged").to_string();
        assert!(error.contains(words), "{error}");
    }
    for (section, at, byte, name) in
        [(2, 0, 1, "original_ids"), (4, 0, 2, "reverse_columns"), (5, 0, 2, "reverse_heads")]
    {
        let (_folder, path) = with_reverse();
        edit(&path).write_all_at(&[byte], section_at(section) + at).expect("written");
        let error = verify(&path).expect_err("damaged").to_string();
        assert!(error.contains(name), "{error}");
    }
    // With a checksum to match, the edges tell.
    let (_folder, path) = with_reverse();
    edit(&path).write_all_at(&[3], section_at(4)).expect("written");
    let mut columns = vec![0; 16];
    edit(&path).read_exact_at(&mut columns, section_at(4)).expect("read");
    forge(&path, |head| {
        head[TABLE + 4 * ENTRY + 32..][..4].copy_from_slice(&crc32c::crc32c(&columns).to_le_bytes());
    });
    let error = verify(&path).expect_err("vertex 3 has no edge").to_string();
    assert!(error.contains("section reverse_"), "{error}");
}

/// What is logged goes here.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no thread panicked").extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn file_larger_than_memory_opens_with_a_warning_that_names_both_sizes() {
    let (_folder, path) = written(TEXT, &LoadOptions::default());
    let logged = |memory_bytes| {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        let options = LoadOptions { memory_bytes: Some(memory_bytes), ..LoadOptions::default() };
        let opened = tracing::subscriber::with_default(subscriber, || load(&path, &options, &()));
        same(&opened.expect("opens").csr, &graph(TEXT, &LoadOptions::default()).csr);
        String::from_utf8(log.0.lock().expect("no thread panicked").clone()).expect("text")
    };
    // Three sections, each from a multiple of 2 MiB on.
    let warning = logged(5 << 20);
    assert!(
        warning.contains("6.0 MiB") && warning.contains("5.0 MiB") && warning.contains("disk"),
        "{warning}"
    );
    assert!(!logged(7 << 20).contains("WARN"));
}
