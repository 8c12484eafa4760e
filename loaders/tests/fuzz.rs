//! Damaged files by the thousand: no input may panic, and a graph that loads has whole rows.
//!
//! The mutations follow from a constant seed; only how many there is time for depends on the machine.
//! `GPUVM_FUZZ_SECONDS` sets the time of each of the three loops.

mod random;

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use gpuvm_loaders::{LoadOptions, LoadedGraph, WeightRule, load, load_bytes, write_gvg};
use random::Random;

fn budget() -> Duration {
    let seconds = std::env::var("GPUVM_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(5.0);
    Duration::from_secs_f64(seconds / 3.0)
}

const WORDS: [&str; 32] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "4",
    "9999",
    "4294967295",
    "4294967296",
    "18446744073709551616",
    "9007199254740993",
    "1.5",
    "1e5",
    "1D-3",
    "-0",
    "inf",
    "nan",
    ".",
    "1e999",
    "%",
    "\n",
    "\r\n",
    "\t",
    "",
    "general",
    "symmetric",
    "skew-symmetric",
    "hermitian",
    "array",
    "coordinate",
    "complex",
    "pattern",
];

const CORPUS: [&str; 7] = [
    "%%MatrixMarket matrix coordinate pattern general\n% c\n4 4 4\n1 2\n2 3\n4 4\n3 1\n",
    "%%MatrixMarket matrix coordinate integer symmetric\n3 3 3\n1 1 5\n2 1 300\n3 2 -7\n",
    "%%MatrixMarket matrix coordinate real skew-symmetric\r\n5 5 3\r\n2 1 0.25\r\n\r\n5 4 1e-3\r\n3 2 7\r\n",
    "%%MatrixMarket matrix coordinate complex hermitian\n3 3 2\n2 1 1.5 -2\n3 3 1 0\n",
    "%%MatrixMarket matrix array real general\n2 2\n1\n0\n.5\n-2\n",
    "%%MatrixMarket matrix array integer symmetric\n3 3\n1\n2\n3\n4\n5\n6\n",
    "%%MatrixMarket matrix coordinate integer general\n2 3 4\n1 3 1\n2 2 65536\n1 3 2\n2 1 0\n",
];

/// Changes a few bytes, words or stretches.
fn mutate(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    for _ in 0..1 + random.below(2) {
        let at = random.below(bytes.len());
        match random.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let end = (at + random.below(12)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let other = &others[random.below(others.len())];
                let from = random.below(other.len());
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
            _ => {
                // Another word in place of the one at this byte.
                let is_word = |b: &u8| !b.is_ascii_whitespace();
                let begin = bytes[..at].iter().rposition(|b| !is_word(b)).map_or(0, |blank| blank + 1);
                let end = bytes[at..].iter().position(|b| !is_word(b)).map_or(bytes.len(), |len| at + len);
                bytes.splice(begin..end.max(begin), WORDS[random.below(WORDS.len())].bytes());
            }
        }
    }
}

fn options(random: &mut Random) -> LoadOptions {
    let weights = match random.below(5) {
        0 => WeightRule::Ignore,
        1 => WeightRule::File,
        2 => WeightRule::Abs,
        3 => WeightRule::Hash,
        _ => WeightRule::Random { seed: 9 },
    };
    let mut toss = || random.below(4) == 0;
    LoadOptions {
        weights,
        bipartite: toss(),
        symmetrize: toss(),
        keep_duplicates: toss(),
        keep_loops: toss(),
        verify_file: toss(),
        ..LoadOptions::default()
    }
}

/// A text that names more vertices than this is left out: it would load, and take its time.
fn is_large(text: &[u8]) -> bool {
    const LARGE: u64 = 1_000_000;
    let large = |word: &[u8]| {
        let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<u64>().ok());
        number.is_some_and(|number| (LARGE..=u64::from(u32::MAX)).contains(&number))
    };
    text.split(u8::is_ascii_whitespace).any(large)
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
    let summary = &graph.summary;
    let counted = summary.expanded_entries
        - summary.dropped_zeros
        - summary.duplicates
        - if options.keep_loops { 0 } else { summary.self_loops };
    if !options.symmetrize {
        assert_eq!(counted, graph.csr.num_edges());
    }
}

#[test]
fn damaged_text_is_refused_or_loads_whole_rows() {
    let corpus: Vec<Vec<u8>> = CORPUS.iter().map(|text| text.as_bytes().to_vec()).collect();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (deadline, mut tried, mut loaded) = (Instant::now() + budget(), 0, 0);
    while Instant::now() < deadline {
        let mut bytes = corpus[random.below(corpus.len())].clone();
        mutate(&mut bytes, &corpus, &mut random);
        let options = options(&mut random);
        if is_large(&bytes) {
            continue;
        }
        tried += 1;
        if let Ok(graph) = load_bytes(Path::new("fuzz"), &bytes, &options) {
            check(&graph, &options);
            loaded += 1;
        }
    }
    println!("{tried} texts, {loaded} loaded");
    assert!(loaded > 0);
}

#[test]
fn damaged_archive_is_refused_or_loads_whole_rows() {
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("to memory");
        encoder.finish().expect("to memory")
    };
    let tar = |text: &str| {
        let mut builder = tar::Builder::new(Vec::new());
        for name in ["a/a_b.mtx", "a/a.mtx"] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            builder.append_data(&mut header, name, text.as_bytes()).expect("to memory");
        }
        builder.into_inner().expect("to memory")
    };
    let gzips: Vec<Vec<u8>> = CORPUS.iter().map(|text| gzip(text.as_bytes())).collect();
    let tars: Vec<Vec<u8>> = CORPUS.iter().map(|text| tar(text)).collect();
    let mut random = Random(0xD1B5_4A32_D192_ED03);
    let (deadline, mut tried, mut loaded) = (Instant::now() + budget(), 0, 0);
    while Instant::now() < deadline {
        let bytes = match random.below(3) {
            0 => {
                let mut bytes = gzips[random.below(gzips.len())].clone();
                mutate(&mut bytes, &gzips, &mut random);
                bytes
            }
            // Damage inside the packing, which deflate itself would not let through.
            kind => {
                let mut bytes = tars[random.below(tars.len())].clone();
                mutate(&mut bytes, &tars, &mut random);
                if is_large(&bytes) {
                    continue;
                }
                if kind == 1 { gzip(&bytes) } else { bytes }
            }
        };
        tried += 1;
        let options = options(&mut random);
        if let Ok(graph) = load_bytes(Path::new("fuzz"), &bytes, &options) {
            check(&graph, &options);
            loaded += 1;
        }
    }
    println!("{tried} archives, {loaded} loaded");
    assert!(tried > 0);
}

#[test]
fn damaged_graph_file_is_refused_or_has_valid_offsets() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("fuzz.gvg");
    let text = CORPUS[1].as_bytes();
    let graph = load_bytes(Path::new("a"), text, &LoadOptions::default()).expect("loads");
    write_gvg(&path, &graph, &()).expect("written");
    let whole = std::fs::read(&path).expect("read");
    let head = 256 + 3 * 40;
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let (deadline, mut tried, mut opened) = (Instant::now() + budget(), 0, 0);
    while Instant::now() < deadline {
        let mut bytes = whole[..head].to_vec();
        for _ in 0..1 + random.below(3) {
            let at = 8 + random.below(head - 8);
            match random.below(3) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.next() as u8,
                _ => {
                    let field = at / 8 * 8;
                    let value = [0, 1, 3, 1 << 21, 1 << 22, u64::MAX, u64::MAX - 7][random.below(7)];
                    bytes[field..field + 8].copy_from_slice(&value.to_le_bytes());
                }
            }
        }
        // Half of them with the right checksum, so that they come past it.
        if random.below(2) == 0 {
            bytes[16..20].fill(0);
            let sections = u32::from_le_bytes([bytes[32], bytes[33], bytes[34], bytes[35]]) as usize;
            let end = sections.saturating_mul(40).saturating_add(256).min(head);
            let checksum = crc32c::crc32c(&bytes[..end]);
            bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
        }
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("a file");
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).expect("written");
        let cut = random.below(8) == 0;
        file.set_len(if cut { random.below(whole.len()) } else { whole.len() } as u64).expect("cut");
        tried += 1;
        let options = LoadOptions { verify_file: random.below(8) == 0, ..LoadOptions::default() };
        if let Ok(graph) = load(&path, &options, &()) {
            assert_eq!(graph.csr.row_offsets().last().copied(), Some(graph.csr.num_edges()));
            opened += 1;
        }
        if cut {
            for section in [2 << 20, 4 << 20, 6 << 20] {
                let end = whole.len().min(section + 64);
                std::os::unix::fs::FileExt::write_all_at(&file, &whole[section..end], section as u64)
                    .expect("written");
            }
        }
    }
    println!("{tried} graph files, {opened} opened");
    assert!(opened > 0);
}
