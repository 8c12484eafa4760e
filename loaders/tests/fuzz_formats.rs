//! Damaged files of every format by the thousand: no input may panic, hang or take memory beyond its size, and a graph that
//! loads has whole rows.
//!
//! The mutations follow from a constant seed. `GPUVM_FUZZ_SECONDS` sets the time of the loops in all, and
//! `GPUVM_FUZZ_INPUTS` the number of inputs of each format instead, as in
//! `GPUVM_FUZZ_INPUTS=1000000 cargo test --release -p gpuvm-loaders --test fuzz_formats -- --nocapture`.

mod random;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpuvm_loaders::{LoadOptions, LoadedGraph, WeightRule, load_files};
use peak_alloc::PeakAlloc;
use random::Random;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Files of one graph; the first is the one that is opened.
type Files = Vec<(&'static str, Vec<u8>)>;

/// A format, by some small graphs.
struct Corpus {
    format: &'static str,
    graphs: Vec<Files>,
}

fn lone(name: &'static str, bytes: impl AsRef<[u8]>) -> Files {
    vec![(name, bytes.as_ref().to_vec())]
}

fn words<const N: usize>(values: &[u64], bytes: impl Fn(u64) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| bytes(value)).collect()
}

fn u64s(values: &[u64]) -> Vec<u8> {
    words(values, u64::to_le_bytes)
}

fn u32s(values: &[u64]) -> Vec<u8> {
    words(values, |value| (value as u32).to_le_bytes())
}

/// A matrix of MATLAB: elements of tags and numbers. Values are of 16 bits, since MATLAB stores integers as short as they are.
fn matlab(compressed: bool) -> Vec<u8> {
    let element = |kind: u64, bytes: &[u8]| {
        let mut element = u32s(&[kind, bytes.len() as u64]);
        element.extend(bytes);
        element.resize(element.len().next_multiple_of(8), 0);
        element
    };
    let matrix = [
        element(6, &u32s(&[5, 4])),
        element(5, &u32s(&[3, 3])),
        element(1, b"A"),
        element(5, &u32s(&[1, 2, 0, 2])),
        element(5, &u32s(&[0, 2, 3, 4])),
        element(4, &[5, 0, 6, 0, 7, 0, 8, 0]),
    ]
    .concat();
    let field = element(14, &matrix);
    let problem = [
        element(6, &u32s(&[2, 0])),
        element(5, &u32s(&[1, 1])),
        element(1, b"Problem"),
        u32s(&[5 | 4 << 16, 2]),
        element(1, b"A\0"),
        field,
    ]
    .concat();
    let mut file = b"MATLAB 5.0 MAT-file".to_vec();
    file.resize(124, b' ');
    file.extend(b"\x00\x01IM");
    if compressed {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&element(14, &problem)).expect("to memory");
        let packed = encoder.finish().expect("to memory");
        file.extend(u32s(&[15, packed.len() as u64]));
        file.extend(packed);
    } else {
        file.extend(element(14, &problem));
    }
    file
}

fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).expect("to memory");
        writer.write_all(bytes).expect("to memory");
    }
    writer.finish().expect("to memory").into_inner()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(bytes).expect("to memory");
    encoder.finish().expect("to memory")
}

fn corpora() -> Vec<Corpus> {
    let list = b"# c\n0 1\n1 2\r\n2,0\n\n3\t1\n";
    let sg = [vec![1], u64s(&[3, 3, 0, 2, 2, 3]), u32s(&[1, 2, 0]), u64s(&[0, 1, 2, 3]), u32s(&[2, 0, 0])];
    let wsg = [vec![0], u64s(&[2, 2, 0, 1, 2]), u32s(&[1, 7, 0, 300])];
    let properties = "graphclass=it.unimi.dsi.webgraph.BVGraph\nversion=0\nnodes=4\narcs=8\nwindowsize=7\n\
        minintervallength=2\ncompressionflags=RESIDUALS_GAMMA\n";
    let matrix = b"%%MatrixMarket matrix coordinate integer symmetric\n3 3 3\n1 1 5\n2 1 300\n3 2 -7\n";
    let of = |format, graphs| Corpus { format, graphs };
    vec![
        of("matrix-market", vec![lone("a.mtx", matrix)]),
        of(
            "edge-list",
            vec![
                lone("a.el", list),
                lone("a.wel", b"0 1 5\n1 2 0.25\n2 0 -1e3\n0 1 4\n"),
                lone("a.csv", b"id,src,\"dst\",weight\n1,0,1,5\n2,\"1\",2,300\n"),
            ],
        ),
        of(
            "dimacs",
            vec![
                lone("a.gr", b"c text\np sp 3 3\na 1 2 7\na 2 3 8\na 3 1 70000\n"),
                lone("a.gr", b"a 0 1 7\na 1 2 8\n"),
                lone("a.col", b"p edge 3 2\ne 1 2\ne 3 2\n"),
            ],
        ),
        of(
            "metis",
            vec![
                lone("a.graph", b"% c\n4 3\n2 3\n1 3\n1 2\n\n"),
                lone("a.graph", b"3 3 11 2\n5 6 2 9 3 8\n5 6 1 9 3 7\n5 6 1 8 2 0.5\n"),
                lone("a.graph", b"3 3 100\n2 3\n1 3\n1 2\n"),
            ],
        ),
        of("gap-sg", vec![lone("a.sg", sg.concat())]),
        of("gap-wsg", vec![lone("a.wsg", wsg.concat())]),
        of(
            "rutherford-boeing",
            vec![
                lone(
                    "a.rb",
                    b"title\n 4 1 1 2\nrua 3 3 3 0\n(4I3) (3I3) (2E12.4)\n  1  3  3  4\n  2  3  1\n  1.5000E+00  \
                      0.2500+100\n -3.0000D+00\n",
                ),
                lone("a.psa", b"title\n 2 1 1 0 1\nPSA 3 3 2 0\n(4I2) (2I2)\nF 1 0\n 1 2 3 3\n 2 3\n"),
                lone("a.cua", b"title\n 3 1 1 1\ncua 2 2 1 0\n(3I2) (1I2) (2F6.2)\n 1 1 2\n 1\n  1.50 -2.00\n"),
            ],
        ),
        of("matlab", vec![lone("a.mat", matlab(false)), lone("a.mat", matlab(true))]),
        of(
            "graphalytics",
            vec![
                vec![
                    ("g.v", b"70\n5\n900\n".to_vec()),
                    ("g.e", b"70 5 0.5\n5 900 2\n".to_vec()),
                    ("g.properties", b"graph.g.directed = false\n".to_vec()),
                ],
                vec![("g.e", b"70 5\n5 900\n".to_vec()), ("g.v", b"70\n5\n900\n".to_vec())],
            ],
        ),
        of(
            "ligra",
            vec![
                lone("a.adj", b"AdjacencyGraph\n3\n3\n0\n2\n2\n1\n2\n0\n"),
                lone("a.adj", b"WeightedAdjacencyGraph 3 3 0 2 2 1 2 0 5 6 -7"),
            ],
        ),
        of(
            "emogi",
            vec![vec![
                ("g.bel.dst", u64s(&[3, 0, 1, 2, 0])),
                ("g.bel.col", u64s(&[4, 0, 0, 2, 2, 3])),
                ("g.bel.val", [u64s(&[3, 0]), u32s(&[5, 6, 7])].concat()),
            ]],
        ),
        of(
            "bvgraph",
            vec![vec![
                // The lists of `formats.rs`, which says what the bits are.
                ("g.graph", vec![0x25, 0x34, 0xd4, 0xd9, 0x75, 0x22, 0xe0]),
                ("g.properties", properties.as_bytes().to_vec()),
            ]],
        ),
        of(
            "packed",
            vec![
                lone("a.zip", zip(&[("readme.txt", b"text"), ("a.el", list)])),
                lone("a.el.bz2", bzip2(list)),
                lone("a.el.xz", xz(list)),
                lone("a.el.zst", zstd::stream::encode_all(&list[..], 1).expect("to memory")),
            ],
        ),
    ]
}

const WORDS: [&str; 30] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "4",
    "9999",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "9007199254740993",
    "1.5",
    "1e5",
    "1D-3",
    "inf",
    "nan",
    "1e999",
    "%",
    "#",
    "\n",
    "\r\n",
    "\t",
    "",
    ",",
    "\"",
    "(3I2)",
    "p",
    "a",
    "true",
    "rse",
];

/// Changes a few bytes, words, numbers or stretches.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len());
        match random.below(9) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let end = (at + random.below(12)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let from = random.below(other.len());
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
            5 => {
                // A number of a binary format.
                let value = [0, 1, 2, 255, 1 << 16, u64::MAX, 1 << 63, 3][random.below(8)].to_le_bytes();
                let width = [1, 2, 4, 8][random.below(4)];
                let at = at / width * width;
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&value[..end - at]);
            }
            _ => {
                // Another word in place of the one at this byte.
                let is_word = |b: &u8| !b.is_ascii_whitespace() && *b != b'=' && *b != b',';
                let begin = bytes[..at].iter().rposition(|b| !is_word(b)).map_or(0, |blank| blank + 1);
                let end = bytes[at..].iter().position(|b| !is_word(b)).map_or(bytes.len(), |len| at + len);
                bytes.splice(begin..end.max(begin), WORDS[random.below(WORDS.len())].bytes());
            }
        }
    }
}

fn options(random: &mut Random) -> LoadOptions {
    let weights = match random.below(4) {
        0 => WeightRule::Ignore,
        1 => WeightRule::File,
        2 => WeightRule::Abs,
        _ => WeightRule::Hash,
    };
    let mut toss = |of: usize| random.below(of) == 0;
    LoadOptions {
        weights,
        bipartite: toss(4),
        symmetrize: toss(4),
        keep_duplicates: toss(4),
        keep_loops: toss(4),
        relabel: toss(16),
        columns: toss(16).then(|| "2,1".to_owned()),
        ..LoadOptions::default()
    }
}

/// Files that name more vertices than this are left out: they would load, and take their time.
fn is_large(files: &Files) -> bool {
    const LARGE: u64 = 1_000_000;
    let digits = |bytes: &[u8]| {
        bytes.split(|b| !b.is_ascii_digit()).any(|word| {
            let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<u64>().ok());
            number.is_some_and(|number| (LARGE..=u64::from(u32::MAX)).contains(&number))
        })
    };
    // The rows of a matrix of MATLAB are in no list.
    let number = |bytes: &[u8]| {
        bytes.starts_with(b"MATLAB")
            && bytes.get(128) != Some(&15)
            && bytes.get(128..).unwrap_or_default().chunks_exact(4).any(|word| {
                let number = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                let is_text = word.iter().all(|b| b.is_ascii_graphic() || *b == 0);
                (LARGE as u32..1 << 31).contains(&number) && !is_text
            })
    };
    files.iter().any(|(_, bytes)| digits(bytes) || number(bytes))
}

fn check(graph: &LoadedGraph, options: &LoadOptions) {
    graph.csr.check_column_indices().expect("columns are vertices");
    for u in 0..graph.csr.num_vertices() as u32 {
        let row = graph.csr.neighbors(u);
        assert!(
            row.windows(2).all(|pair| pair[0] < pair[1] || options.keep_duplicates && pair[0] == pair[1])
        );
        assert!(options.keep_loops || !row.contains(&u));
        if graph.csr.is_symmetric() {
            assert!(row.iter().all(|&v| graph.csr.neighbors(v).contains(&u)));
        }
    }
    assert!(graph.ids.as_ref().is_none_or(|ids| ids.len() as u64 == graph.csr.num_vertices()));
}

/// Loads, checks, and measures; whether there was a graph.
fn load(files: &Files, options: &LoadOptions) -> bool {
    let (name, bytes) = &files[0];
    let others: Vec<(PathBuf, Vec<u8>)> =
        files[1..].iter().map(|(name, bytes)| (PathBuf::from(name), bytes.clone())).collect();
    let size: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let loaded = load_files(Path::new(name), bytes, &others, options);
    let taken = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(taken <= 4 * size + (64 << 20), "{taken} bytes of memory for {size} bytes");
    match loaded {
        Ok(graph) => {
            check(&graph, options);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// One thread: a load of some bytes is not worth waking others.
fn alone(run: impl FnOnce() + Send) {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool").install(run);
}

#[test]
fn damaged_file_of_any_format_is_refused_or_loads_whole_rows() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<f64>().ok());
    let inputs = number("GPUVM_FUZZ_INPUTS").map(|inputs| inputs as u64);
    let corpora = corpora();
    let seconds = number("GPUVM_FUZZ_SECONDS").unwrap_or(5.0) / corpora.len() as f64;
    alone(|| {
        for corpus in &corpora {
            let mut random = Random(0x9E37_79B9_7F4A_7C15);
            let started = Instant::now();
            let (mut tried, mut loaded, mut slowest) = (0_u64, 0_u64, Duration::ZERO);
            while inputs.map_or(started.elapsed().as_secs_f64() < seconds, |inputs| tried < inputs) {
                let mut files = corpus.graphs[random.below(corpus.graphs.len())].clone();
                let other = &corpus.graphs[random.below(corpus.graphs.len())];
                let which = random.below(files.len());
                mutate(&mut files[which].1, &other[which.min(other.len() - 1)].1, &mut random);
                let options = options(&mut random);
                if files[0].1.is_empty() || is_large(&files) {
                    continue;
                }
                tried += 1;
                let begun = Instant::now();
                loaded += u64::from(load(&files, &options));
                slowest = slowest.max(begun.elapsed());
            }
            println!(
                "{:18} {tried:>8} inputs, {loaded:>8} loaded, {:>7.1} s, slowest {:.1} ms",
                corpus.format,
                started.elapsed().as_secs_f64(),
                slowest.as_secs_f64() * 1e3
            );
            assert!(loaded > 0, "{}: nothing loads", corpus.format);
        }
    });
}

#[test]
fn file_of_any_format_that_is_cut_or_has_a_byte_changed_is_refused_or_loads_whole_rows() {
    // All 255 changes of each byte, or some.
    let all = std::env::var_os("GPUVM_FUZZ_INPUTS").is_some();
    let some = [b'0', b'9', b'-', b'\n', b' ', 0, 0xFF, b'x'];
    let options = LoadOptions::default();
    alone(|| {
        for Corpus { format, graphs } in corpora() {
            let (mut tried, mut loaded) = (0_u64, 0_u64);
            for whole in &graphs {
                let is_whole = load(whole, &options);
                // One of them is complex, which no edge can weigh.
                assert!(is_whole || format == "rutherford-boeing", "{format} must load");
                for which in 0..whole.len() {
                    for at in 0..whole[which].1.len() {
                        let mut files = whole.clone();
                        files[which].1.truncate(at);
                        if !files[0].1.is_empty() && !is_large(&files) {
                            tried += 1;
                            loaded += u64::from(load(&files, &options));
                        }
                        let byte = whole[which].1[at];
                        let values: Vec<u8> = if all { (0..=255).collect() } else { some.to_vec() };
                        for value in values.into_iter().chain([byte ^ 1, byte ^ 0x80]) {
                            let mut files = whole.clone();
                            files[which].1[at] = value;
                            if !is_large(&files) {
                                tried += 1;
                                loaded += u64::from(load(&files, &options));
                            }
                        }
                    }
                }
            }
            println!("{format:18} {tried:>8} inputs, {loaded:>8} loaded");
        }
    });
}
