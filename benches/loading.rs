//! Files to CSR, beside what PyPI packages need for the same file on the same cores.
//!
//!     cargo bench --bench loading -- [--scale 20] [--repeats 5] [--python python3] [--only matrix-market|edge-list]
//!
//! Matrix Market beside fast_matrix_market, edge lists beside pandas and polars, each with its fastest reader and with a CSR
//! built by scipy, and a gzip file beside `zcat` alone. What is not installed is skipped, with the reason.
//!
//! The file is a Kronecker graph's lower triangle, written to a temporary folder and read once before timing. `load` is
//! the whole way from the file to a CSR with sorted rows, of which `parse` is the first pass: every line parsed and
//! checked, rows counted. fast_matrix_market's `read_coo` parses into coordinates as stored, `mmread` into all
//! coordinates, and `mmread + tocsr` goes the same way as our load. The ratio of a parse is to our parse, of the last to
//! our load. Of edge lists the ratios are to our load, of gzip to `zcat`. `peak` is the most memory at any time by the bytes of
//! the CSR that results: what is resident beyond what was before, pages of the mapped file as well (Linux only). Medians; ratios
//! are of this run.
//!
//! Edge lists: both sides read the same file with the same number of threads, from the page cache, and end in a CSR with sorted
//! rows and without duplicates. pandas and polars give columns of 32-bit integers, which scipy's `tocsr`, on one thread, puts in
//! rows, sorts, and adds up where an edge is there twice (these files have none); we merge such edges. Both keep ids as they are.

#[path = "common/arguments.rs"]
mod arguments;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use gpuvm_datasets::Kronecker;
use gpuvm_engine::graph::{Csr, VertexId, Weights};
use gpuvm_loaders::{LoadOptions, Progress, WeightRule};

/// Bytes of a line of `/proc/self/status`.
fn status(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: f64 = line.trim_start_matches(':').trim().split(' ').next()?.parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// How a value is written, by the weight of its edge.
type WriteValue = fn(&mut dyn Write, u8) -> std::io::Result<()>;

const FIELDS: [(&str, WriteValue); 3] = [
    ("pattern", |_, _| Ok(())),
    ("integer", |out, weight| write!(out, " {weight}")),
    ("real", |out, weight| write!(out, " {:.6}", f64::from(weight) / 7.0)),
];

/// Writes the lower triangle of a symmetric graph.
fn write_matrix(path: &Path, csr: &Csr, field: &str, value: WriteValue) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let n = csr.num_vertices();
    writeln!(out, "%%MatrixMarket matrix coordinate {field} symmetric\n{n} {n} {}", csr.num_edges() / 2)?;
    for u in 0..n as VertexId {
        for &v in csr.neighbors(u).iter().take_while(|&&v| v < u) {
            write!(out, "{} {}", u + 1, v + 1)?;
            value(&mut out, Weights::hash8(u, v))?;
            out.write_all(b"\n")?;
        }
    }
    out.flush()
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Seconds of each phase of a load.
#[derive(Default)]
struct Phases(Mutex<Vec<(&'static str, Instant, f64)>>);

impl Progress for Phases {
    fn begin(&self, phase: &'static str, _total: u64) {
        self.0.lock().expect("no thread panicked").push((phase, Instant::now(), 0.0));
    }
    fn advance(&self, _by: u64) {}
    fn end(&self) {
        if let Some((_, began, seconds)) = self.0.lock().expect("no thread panicked").last_mut() {
            *seconds = began.elapsed().as_secs_f64();
        }
    }
}

/// Median seconds of our load and of its first pass, and the load's peak memory by the bytes of the CSR.
fn load(path: &Path, repeats: u64) -> (f64, f64, String) {
    let options = LoadOptions { weights: WeightRule::File, ..LoadOptions::default() };
    let (mut whole, mut parse, mut peak) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..repeats {
        let phases = Phases::default();
        // The most resident memory so far becomes what is resident now.
        let before = std::fs::write("/proc/self/clear_refs", "5").ok().and_then(|()| status("VmRSS"));
        let started = Instant::now();
        let csr = gpuvm_loaders::load(path, &options, &phases).expect("a valid file").csr;
        whole.push(started.elapsed().as_secs_f64());
        let phases = phases.0.into_inner().expect("no thread panicked");
        let first = phases.iter().find(|(phase, ..)| matches!(*phase, "read edges" | "count edges"));
        parse.push(first.expect("the first pass").2);
        let bytes = csr.row_offsets().size_bytes() as usize
            + csr.column_indices().size_bytes() as usize
            + csr.weights().as_bytes().len();
        if let (Some(before), Some(most)) = (before, status("VmHWM")) {
            peak = format!("{:.2}", (most - before) / bytes as f64);
        }
    }
    (median(whole), median(parse), peak)
}

const PYTHON: &str = "
import sys, time, statistics
import fast_matrix_market as fmm
path, threads, repeats, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
seconds = []
for _ in range(repeats):
    started = time.perf_counter()
    read = fmm.read_coo if end == 'stored' else fmm.mmread
    matrix = read(path, parallelism=threads)
    if end == 'csr':
        matrix = matrix.tocsr()
    seconds.append(time.perf_counter() - started)
print(statistics.median(seconds))
";

/// Reads an edge list and builds a CSR with sorted rows: `tocsr` adds duplicates up, for which it sorts. Of pandas its fastest
/// engine, which is that of pyarrow.
const PYTHON_EDGES: &str = "
import sys, time, statistics
import numpy as np, scipy.sparse as sp
path, threads, repeats, reader = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
weighted = path.endswith('.wel')
names = ['u', 'v', 'w'] if weighted else ['u', 'v']
if reader == 'polars':
    import polars as pl
    schema = {name: pl.Int32 for name in names}
    def columns():
        table = pl.read_csv(path, separator=' ', has_header=False, schema=schema)
        return [table[name].to_numpy() for name in names]
elif reader == 'pyarrow':
    import pyarrow as pa, pyarrow.csv as csv
    pa.set_cpu_count(threads)
    types = {name: pa.int32() for name in names}
    def columns():
        table = csv.read_csv(path, csv.ReadOptions(column_names=names), csv.ParseOptions(delimiter=' '),
                             csv.ConvertOptions(column_types=types))
        return [table[name].to_numpy() for name in names]
else:
    import pandas as pd, pyarrow as pa
    pa.set_cpu_count(threads)
    types = {name: np.int32 for name in names}
    def columns():
        table = pd.read_csv(path, sep=' ', header=None, names=names, dtype=types, engine='pyarrow')
        return [table[name].to_numpy() for name in names]
seconds = []
for _ in range(repeats):
    started = time.perf_counter()
    found = columns()
    u, v = found[0], found[1]
    weights = found[2] if weighted else np.ones(len(u), np.int8)
    n = int(max(u.max(), v.max())) + 1
    matrix = sp.coo_matrix((weights, (u, v)), shape=(n, n)).tocsr()
    matrix.sort_indices()
    seconds.append(time.perf_counter() - started)
print(statistics.median(seconds))
";

/// Median seconds of a program of Python, or why there are none.
fn python(program: &str, path: &Path, threads: usize, repeats: u64, what: &str) -> Result<f64, String> {
    let output = Command::new(arguments::word("--python", "python3"))
        .args(["-c", program])
        .arg(path)
        .args([threads.to_string(), repeats.to_string(), what.to_owned()])
        .env("POLARS_MAX_THREADS", threads.to_string())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr });
    text.trim().parse().map_err(|_| text.lines().last().unwrap_or("no output").to_owned())
}

/// Median seconds of a command, its output thrown away.
fn seconds_of(command: &str, path: &Path, repeats: u64) -> Result<f64, String> {
    let seconds = (0..repeats).map(|_| {
        let started = Instant::now();
        let status = Command::new(command).arg(path).stdout(std::process::Stdio::null()).status();
        match status {
            Ok(status) if status.success() => Ok(started.elapsed().as_secs_f64()),
            Ok(status) => Err(status.to_string()),
            Err(error) => Err(error.to_string()),
        }
    });
    seconds.collect::<Result<Vec<_>, _>>().map(median)
}

/// Prints a row: seconds, bytes of the file a second, and the ratio.
fn row(file: &str, label: &str, bytes: u64, seconds: f64, against: f64, peak: &str) {
    let megabytes = bytes as f64 / 1e6;
    println!(
        "{:60} {seconds:>8.3} {:>8.0} {:>7.2} {peak:>7}",
        format!("{file} ({megabytes:.0} MB)/{label}"),
        megabytes / seconds,
        seconds / against
    );
}

/// Edge lists, without and with weights, plain and in gzip.
fn edge_lists(folder: &Path, csr: &Csr, scale: u32, threads: usize, repeats: u64) {
    for weighted in [false, true] {
        let path = folder.join(if weighted { "edges.wel" } else { "edges.el" });
        let file = File::create(&path).expect("room for the file");
        write_list(file, csr, weighted).expect("room for the file");
        let bytes = std::fs::metadata(&path).expect("written").len();
        let name = format!("load/kron-{scale}-{}", if weighted { "wel" } else { "el" });
        let (load_seconds, _, peak) = load(&path, repeats);
        row(&name, "load", bytes, load_seconds, load_seconds, &peak);
        for reader in ["polars", "pyarrow", "pandas"] {
            match python(PYTHON_EDGES, &path, threads, repeats, reader) {
                Ok(seconds) => row(&name, &format!("{reader} + tocsr"), bytes, seconds, load_seconds, ""),
                Err(reason) => println!("{reader}: skipped: {reason}"),
            }
        }
        if !weighted {
            match Command::new("gzip").args(["-1", "-k"]).arg(&path).status() {
                Ok(status) if status.success() => {
                    let packed = path.with_added_extension("gz");
                    let (load_seconds, _, peak) = load(&packed, repeats);
                    match seconds_of("zcat", &packed, repeats) {
                        Ok(seconds) => {
                            row(&name, "gzip, load", bytes, load_seconds, seconds, &peak);
                            row(&name, "gzip, zcat", bytes, seconds, seconds, "");
                        }
                        Err(reason) => println!("zcat: skipped: {reason}"),
                    }
                    std::fs::remove_file(&packed).expect("our own file");
                }
                _ => println!("gzip: skipped: no gzip"),
            }
        }
        std::fs::remove_file(&path).expect("our own file");
    }
}

/// Writes the lower triangle of a graph as an edge list.
fn write_list(file: File, csr: &Csr, weighted: bool) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    for u in 0..csr.num_vertices() as VertexId {
        for &v in csr.neighbors(u).iter().take_while(|&&v| v < u) {
            write!(out, "{u} {v}")?;
            if weighted {
                write!(out, " {}", Weights::hash8(u, v))?;
            }
            out.write_all(b"\n")?;
        }
    }
    out.flush()
}

fn main() {
    let scale = arguments::number("--scale", 20) as u32;
    let repeats = arguments::number("--repeats", 5);
    let threads = rayon::current_num_threads();
    let csr = Kronecker { scale, edge_factor: 16, seed: 1 }.generate().expect("a scale up to 30");
    let folder = tempfile::tempdir().expect("a temporary folder");
    println!("kron-{scale}, {} entries, {threads} threads, median of {repeats}", csr.num_edges() / 2);
    println!("{:60} {:>8} {:>8} {:>7} {:>7}", "", "seconds", "MB/s", "ratio", "peak");
    let only = arguments::word("--only", "");
    if only != "edge-list" {
        matrix_market(folder.path(), &csr, scale, threads, repeats);
    }
    if only != "matrix-market" {
        edge_lists(folder.path(), &csr, scale, threads, repeats);
    }
}

/// Matrix Market of every field.
fn matrix_market(folder: &Path, csr: &Csr, scale: u32, threads: usize, repeats: u64) {
    for (field, value) in FIELDS {
        let path = folder.join(format!("{field}.mtx"));
        write_matrix(&path, csr, field, value).expect("room for the file");
        let bytes = std::fs::metadata(&path).expect("written").len();
        let name = format!("load/kron-{scale}-{field}");
        let (load_seconds, parse_seconds, peak) = load(&path, repeats);
        row(&name, "parse", bytes, parse_seconds, parse_seconds, "");
        row(&name, "load", bytes, load_seconds, load_seconds, &peak);
        let peers = [
            ("read_coo", "stored", parse_seconds),
            ("mmread", "coo", parse_seconds),
            ("mmread + tocsr", "csr", load_seconds),
        ];
        for (label, end, against) in peers {
            match python(PYTHON, &path, threads, repeats, end) {
                Ok(seconds) => {
                    row(&name, &format!("fast_matrix_market {label}"), bytes, seconds, against, "")
                }
                Err(reason) => println!("fast_matrix_market {label}: skipped: {reason}"),
            }
        }
        std::fs::remove_file(&path).expect("our own file");
    }
}
