//! Conversion of a graph that does not fit memory: sorted runs on disk, merged into the graph file section by section.
//!
//! Every thread gathers edges, each packed into one number that sorts as it should (row, column, weight), in a buffer of its
//! own. A full buffer is sorted and becomes a run in a file without a name, which the system removes whatever happens to the
//! program. Of every run some keys are remembered; they cut the keys into ranges whose edges fit memory. Threads then take a
//! range each: its part of every run is read and merged, duplicates go, and what is left is appended to the sections of the
//! file in order. No row has to fit memory, and the bytes are those of a conversion in memory.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use gpuvm_engine::graph::{VertexId, WeightType};
use rayon::prelude::*;

use crate::assemble::Assembly;
use crate::builder::{Batch, Direction};
use crate::error::LoadError;
use crate::format::gvg::stream::{EdgePiece, StreamWriter};
use crate::options::{LoadOptions, WeightRule};
use crate::progress::{Progress, Until};
use crate::source::{EdgeSource, Pass};
use crate::summary::LoadSummary;
use crate::weights::{Cell, random8};
use crate::write::draft::folder_of;
use crate::{LoadedGraph, write_gvg};

/// What a conversion may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBound {
    /// Bytes of memory, [`MemoryBound::least_bytes`] or more.
    pub bytes: u64,
    /// Where runs are kept; beside the file to write if `None`.
    pub temp_dir: Option<PathBuf>,
}

/// What no bound goes below, beside what each thread takes: the program, its stacks, buffers of files.
const BASE_BYTES: u64 = 32 << 20;
/// Pieces of the input that a thread reads, and of the file that it writes.
const THREAD_BYTES: u64 = 8 << 20;
/// Records of a run for each key that is remembered.
const SAMPLED: usize = 4096;

impl MemoryBound {
    /// The least bound that works with the threads of the current pool.
    pub fn least_bytes() -> u64 {
        2 * (BASE_BYTES + THREAD_BYTES * rayon::current_num_threads() as u64)
    }

    /// Where to sort for a file at `output`.
    pub(crate) fn folder<'a>(&'a self, output: &'a Path) -> &'a Path {
        self.temp_dir.as_deref().unwrap_or_else(|| folder_of(output))
    }

    /// What is left for edges.
    fn for_edges(&self) -> u64 {
        self.bytes.saturating_sub(Self::least_bytes() / 2)
    }
}

/// What a conversion found, and what it took.
#[derive(Clone, Debug)]
pub struct Converted {
    /// What the file held.
    pub summary: LoadSummary,
    /// Vertices of the graph.
    pub num_vertices: u64,
    /// Its edges.
    pub num_edges: u64,
    /// How its weights are held.
    pub weight_type: WeightType,
    /// Whether every edge has its reverse, with the same weight.
    pub symmetric: bool,
    /// Bytes of the file that was written.
    pub bytes_written: u64,
    /// Sorted runs.
    pub num_runs: u64,
    /// Their bytes.
    pub temporary_bytes: u64,
}

impl Converted {
    /// Writes a graph that is mapped already.
    pub(crate) fn copied(
        path: &Path,
        graph: &LoadedGraph,
        progress: &dyn Progress,
    ) -> Result<Self, LoadError> {
        Ok(Self {
            bytes_written: write_gvg(path, graph, progress)?,
            summary: graph.summary.clone(),
            num_vertices: graph.csr.num_vertices(),
            num_edges: graph.csr.num_edges(),
            weight_type: graph.csr.weights().weight_type(),
            symmetric: graph.csr.is_symmetric(),
            num_runs: 0,
            temporary_bytes: 0,
        })
    }
}

/// Converts the entries of `source` to a graph file at `path`.
pub(crate) fn convert(
    source: &dyn EdgeSource,
    path: &Path,
    wrapping: &str,
    options: &LoadOptions,
    bound: &MemoryBound,
    progress: &dyn Progress,
) -> Result<Converted, LoadError> {
    let least_bytes = MemoryBound::least_bytes();
    if bound.bytes < least_bytes {
        return Err(LoadError::BoundTooSmall { bytes: bound.bytes, least_bytes });
    }
    let space = Space { bytes: bound.for_edges(), folder: bound.folder(path) };
    convert_in(source, path, wrapping, options, space, progress)
}

/// Memory for edges, and the folder to sort in.
#[derive(Clone, Copy)]
struct Space<'a> {
    bytes: u64,
    folder: &'a Path,
}

fn convert_in(
    source: &dyn EdgeSource,
    path: &Path,
    wrapping: &str,
    options: &LoadOptions,
    space: Space<'_>,
    progress: &dyn Progress,
) -> Result<Converted, LoadError> {
    let assembly = Assembly::new(source, options, true, progress)?;
    let (num_records, totals) = assembly.count_all()?;
    let mut summary = assembly.summary(&totals, options);
    summary.format.insert_str(0, wrapping);
    let job = Job { assembly: &assembly, num_records, path, options, space, progress };
    match assembly.weight_type(&totals) {
        WeightType::Unit | WeightType::Hash => job.run::<()>(summary),
        WeightType::U8 => job.run::<u8>(summary),
        WeightType::U16 => job.run::<u16>(summary),
        WeightType::U32 => job.run::<u32>(summary),
        WeightType::F32 => job.run::<f32>(summary),
        WeightType::F64 => job.run::<f64>(summary),
    }
}

/// An edge as one number, ordered by row, column and weight.
trait Record: Pod + Ord + Send + Sync {
    fn pack(row: VertexId, column: VertexId, weight: u64, layout: Layout) -> Self;
    fn unpack(self, layout: Layout) -> (VertexId, VertexId, u64);
    /// Row and column alone.
    fn edge(self, layout: Layout) -> Self;
    /// The least record of the same row and column.
    fn first_of_edge(self, layout: Layout) -> Self;
}

/// Bits of a record.
#[derive(Clone, Copy, Debug)]
struct Layout {
    id_bits: u32,
    weight_bits: u32,
}

impl Layout {
    fn new(num_vertices: u64, weight_bits: u32) -> Self {
        let id_bits = (u64::BITS - num_vertices.saturating_sub(1).leading_zeros()).max(1);
        Self { id_bits, weight_bits }
    }

    fn bits(self) -> u32 {
        2 * self.id_bits + self.weight_bits
    }
}

macro_rules! record {
    ($($type:ident),*) => {$(
        impl Record for $type {
            #[inline(always)]
            fn pack(row: VertexId, column: VertexId, weight: u64, layout: Layout) -> Self {
                let edge = $type::from(row) << layout.id_bits | $type::from(column);
                // At most 32 and 64 bits for a u64 of which that many are left, so no shift is as long as the number.
                edge << layout.weight_bits | $type::from(weight)
            }
            #[inline(always)]
            fn unpack(self, layout: Layout) -> (VertexId, VertexId, u64) {
                let edge = self >> layout.weight_bits;
                let ids = (1 << layout.id_bits) - 1;
                let weights = ((1_u128 << layout.weight_bits) - 1) as $type;
                ((edge >> layout.id_bits) as u32, (edge & ids) as u32, (self & weights) as u64)
            }
            #[inline(always)]
            fn edge(self, layout: Layout) -> Self {
                self >> layout.weight_bits
            }
            #[inline(always)]
            fn first_of_edge(self, layout: Layout) -> Self {
                self >> layout.weight_bits << layout.weight_bits
            }
        }
    )*};
}
record!(u64, u128);

/// A conversion under way.
struct Job<'a> {
    assembly: &'a Assembly<'a>,
    num_records: u64,
    path: &'a Path,
    options: &'a LoadOptions,
    space: Space<'a>,
    progress: &'a dyn Progress,
}

impl Job<'_> {
    fn run<W: Cell>(&self, summary: LoadSummary) -> Result<Converted, LoadError> {
        let layout = Layout::new(self.assembly.num_vertices, W::BITS);
        if layout.bits() <= u64::BITS {
            self.run_with::<u64, W>(layout, summary)
        } else {
            self.run_with::<u128, W>(layout, summary)
        }
    }

    fn run_with<R: Record, W: Cell>(
        &self,
        layout: Layout,
        mut summary: LoadSummary,
    ) -> Result<Converted, LoadError> {
        let temp_dir = self.space.folder;
        self.check_room(temp_dir, size_of::<R>() as u64)?;
        let runs = self.make_runs::<R, W>(layout, temp_dir)?;
        let temporary_bytes = self.num_records * size_of::<R>() as u64;
        let num_runs = runs.runs.len() as u64;

        let plan = &self.assembly.plan;
        let weight_type = match self.options.weights {
            WeightRule::Random { .. } => WeightType::U8,
            WeightRule::Hash => WeightType::Hash,
            WeightRule::Ignore | WeightRule::Unit => WeightType::Unit,
            WeightRule::File | WeightRule::Abs => W::into_weights(Vec::<W>::new()).weight_type(),
        };
        let mut writer = StreamWriter::create(self.path, temp_dir, self.assembly.num_vertices, weight_type)?;
        self.merge::<R, W>(&runs, layout, &mut writer)?;
        drop(runs);
        summary.duplicates = self.num_records - writer.num_edges();
        let num_edges = writer.num_edges();
        let bytes_written = writer.finish(&summary, weight_type, plan.symmetric, self.progress)?;
        Ok(Converted {
            summary,
            num_vertices: self.assembly.num_vertices,
            num_edges,
            weight_type,
            symmetric: plan.symmetric,
            bytes_written,
            num_runs,
            temporary_bytes,
        })
    }

    /// Refuses a conversion whose runs and file the disk cannot hold, where it says what it can.
    fn check_room(&self, temp_dir: &Path, record_bytes: u64) -> Result<(), LoadError> {
        let runs = self.num_records.saturating_mul(record_bytes);
        let Ok(disk) = rustix::fs::statvfs(temp_dir) else { return Ok(()) };
        let available_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
        if runs > available_bytes {
            let folder = temp_dir.to_owned();
            return Err(LoadError::NoRoom { folder, needed_bytes: runs, available_bytes });
        }
        Ok(())
    }

    /// Reads all entries and leaves their edges in sorted runs.
    fn make_runs<R: Record, W: Cell>(&self, layout: Layout, temp_dir: &Path) -> Result<Runs<R>, LoadError> {
        let threads = rayon::current_num_threads() as u64;
        let capacity = self.space.bytes * 3 / 4 / threads / size_of::<R>() as u64;
        let capacity = capacity.min(self.num_records.div_ceil(threads) + self.num_records / 16).max(1024);
        let failure = Failure::default();
        // One for each thread; whoever is of another pool shares the last.
        let sorters: Vec<Mutex<Sorter<R>>> =
            (0..=threads).map(|_| Mutex::new(Sorter::new(capacity as usize))).collect();
        let source = self.assembly.source;
        let pass = Pass { keeps_values: self.assembly.plan.keeps_values, first: false };
        let watched = Until { progress: self.progress, stopped: &failure.failed };
        self.progress.begin("sort runs", source.bytes());
        let read = source.pass(pass, &watched, &|batch| {
            if failure.failed.load(Relaxed) {
                return;
            }
            self.assembly.plan.apply(batch);
            let last = sorters.len() - 1;
            let sorter = rayon::current_thread_index().map_or(last, |thread| thread.min(last));
            let mut sorter = lock(&sorters[sorter]);
            for direction in &self.assembly.plan.directions {
                sorter.add::<W>(batch, direction, layout, temp_dir, &failure);
            }
        });
        self.progress.end();
        // What stopped the pass comes before what it says itself.
        failure.check()?;
        read?;
        self.progress.begin("sort runs", sorters.len() as u64);
        let sorters: Vec<Sorter<R>> = sorters
            .into_par_iter()
            .map(|sorter| {
                let mut sorter = sorter.into_inner().unwrap_or_else(PoisonError::into_inner);
                sorter.flush(temp_dir, &failure);
                sorter.buffer = Vec::new();
                self.progress.advance(1);
                sorter
            })
            .collect();
        self.progress.end();
        failure.check()?;
        let runs = Runs::new(sorters);
        let found: u64 = runs.runs.iter().map(|run| run.len).sum();
        if found != self.num_records {
            let changed = io::Error::other("the file changed while it was read");
            return Err(LoadError::Read { path: source.facts().path.clone(), source: changed });
        }
        Ok(runs)
    }

    /// Merges the runs into the file.
    fn merge<R: Record, W: Cell>(
        &self,
        runs: &Runs<R>,
        layout: Layout,
        writer: &mut StreamWriter,
    ) -> Result<(), LoadError> {
        let threads = rayon::current_num_threads() as u64;
        let random = match self.options.weights {
            WeightRule::Random { seed } => Some(seed),
            _ => None,
        };
        let weight_bytes = u64::from(W::BITS / 8).max(u64::from(random.is_some()));
        // Records, half of them again while they are merged, and twice what becomes of them: of this wave and the last. A row
        // of one edge takes 8 bytes.
        let bytes = size_of::<R>() as u64 * 3 / 2 + 2 * (4 + weight_bytes + 8);
        let range_records = self.space.bytes / threads / bytes;
        let ranges = runs.cut(range_records, layout)?;
        self.progress.begin("merge", self.num_records);
        let merge = |range: &Vec<Range<u64>>| -> Result<EdgePiece, LoadError> {
            if self.progress.is_cancelled() {
                return Err(LoadError::Interrupted);
            }
            let mut records = runs.read(range)?;
            // A stable sort takes the runs as it finds them and merges.
            records.sort();
            self.progress.advance(records.len() as u64);
            let mut piece = EdgePiece::default();
            piece.columns.reserve_exact(records.len() * size_of::<VertexId>());
            piece.weights.reserve_exact(records.len() * weight_bytes as usize);
            let mut last = None;
            for record in records {
                if !self.assembly.plan.keep_duplicates && last == Some(record.edge(layout)) {
                    continue; // of several the first has the smallest weight
                }
                last = Some(record.edge(layout));
                let (row, column, weight) = record.unpack(layout);
                match piece.rows.last_mut() {
                    Some((last, count)) if *last == row && *count < u32::MAX => *count += 1,
                    _ => piece.rows.push((row, 1)),
                }
                piece.columns.extend(column.to_le_bytes());
                match random {
                    Some(seed) => piece.weights.push(random8(seed, row, column)),
                    None => W::append(weight, &mut piece.weights),
                }
            }
            piece.seal();
            Ok(piece)
        };
        let wave = |ranges: &[Vec<Range<u64>>]| -> Result<Vec<EdgePiece>, LoadError> {
            ranges.par_iter().map(merge).collect()
        };
        let mut waves = ranges.chunks(threads as usize);
        let mut ready = waves.next().map_or(Ok(Vec::new()), &wave)?;
        while !ready.is_empty() {
            let next = waves.next().unwrap_or_default();
            let (written, merged) =
                rayon::join(|| ready.iter().try_for_each(|piece| writer.push(piece)), || wave(next));
            written?;
            ready = merged?;
        }
        self.progress.end();
        Ok(())
    }
}

/// What goes wrong inside a pass, which cannot say so itself.
#[derive(Default)]
struct Failure {
    failed: AtomicBool,
    error: Mutex<Option<LoadError>>,
}

impl Failure {
    fn set(&self, error: LoadError) {
        lock(&self.error).get_or_insert(error);
        self.failed.store(true, Relaxed);
    }

    fn check(&self) -> Result<(), LoadError> {
        lock(&self.error).take().map_or(Ok(()), Err)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run: where it lies in its file, its length in records, and every [`SAMPLED`]th of them, the first among them.
struct Run<R> {
    file: usize,
    offset: u64,
    len: u64,
    samples: Vec<R>,
}

/// Edges of a thread on their way into runs.
struct Sorter<R> {
    capacity: usize,
    buffer: Vec<R>,
    file: Option<File>,
    written: u64,
    runs: Vec<Run<R>>,
}

impl<R: Record> Sorter<R> {
    fn new(capacity: usize) -> Self {
        Self { capacity, buffer: Vec::new(), file: None, written: 0, runs: Vec::new() }
    }

    /// Adds the edges that the entries of a batch stand for in one direction.
    fn add<W: Cell>(
        &mut self,
        batch: &Batch,
        direction: &Direction,
        layout: Layout,
        temp_dir: &Path,
        failure: &Failure,
    ) {
        if self.buffer.len() + batch.rows().len() > self.capacity {
            self.flush(temp_dir, failure);
        }
        if self.buffer.capacity() == 0 {
            // Taken now, touched as it fills.
            self.buffer.reserve_exact(self.capacity.max(batch.rows().len()));
        }
        direction.for_edges(batch, |u, v, value| {
            self.buffer.push(R::pack(u, v, W::ordered(value), layout));
        });
    }

    /// Sorts what is there and writes it as a run.
    fn flush(&mut self, temp_dir: &Path, failure: &Failure) {
        if self.buffer.is_empty() {
            return;
        }
        self.buffer.sort_unstable();
        if let Err(source) = self.write(temp_dir) {
            failure.set(LoadError::Write { path: temp_dir.to_owned(), source });
        }
        self.buffer.clear();
    }

    fn write(&mut self, temp_dir: &Path) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(temp_dir)?),
        };
        file.write_all(bytemuck::cast_slice(&self.buffer))?;
        self.runs.push(Run {
            file: 0,
            offset: self.written,
            len: self.buffer.len() as u64,
            samples: self.buffer.iter().step_by(SAMPLED).copied().collect(),
        });
        self.written += size_of_val(&self.buffer[..]) as u64;
        Ok(())
    }
}

/// All runs, and the files that they lie in.
struct Runs<R> {
    files: Vec<File>,
    runs: Vec<Run<R>>,
}

impl<R: Record> Runs<R> {
    fn new(sorters: Vec<Sorter<R>>) -> Self {
        let (mut files, mut runs) = (Vec::new(), Vec::new());
        for sorter in sorters {
            runs.extend(sorter.runs.into_iter().map(|run| Run { file: files.len(), ..run }));
            files.extend(sorter.file);
        }
        Self { files, runs }
    }

    /// Cuts the keys into ranges of about `range_records` records, no edge in two of them: for each range its part of every
    /// run.
    fn cut(&self, range_records: u64, layout: Layout) -> Result<Vec<Vec<Range<u64>>>, LoadError> {
        let mut samples: Vec<R> = self.runs.iter().flat_map(|run| run.samples.iter().copied()).collect();
        samples.par_sort_unstable();
        // Between two samples of a run are so many records that no sample tells of.
        let blind = (self.runs.len() * SAMPLED) as u64;
        let step = (range_records.saturating_sub(blind) / SAMPLED as u64).max(1) as usize;
        let mut splitters: Vec<R> =
            samples.iter().skip(step).step_by(step).map(|sample| sample.first_of_edge(layout)).collect();
        splitters.dedup();
        let mut begins = vec![0; self.runs.len()];
        let mut ranges = Vec::new();
        for splitter in splitters {
            let ends = self
                .runs
                .par_iter()
                .map(|run| self.position(run, splitter))
                .collect::<Result<Vec<_>, _>>()?;
            ranges.push(begins.iter().zip(&ends).map(|(&begin, &end)| begin..end).collect());
            begins = ends;
        }
        ranges.push(begins.iter().zip(&self.runs).map(|(&begin, run)| begin..run.len).collect());
        Ok(ranges)
    }

    /// Records of `run` that come before `splitter`.
    fn position(&self, run: &Run<R>, splitter: R) -> Result<u64, LoadError> {
        let sample = run.samples.partition_point(|&sample| sample < splitter);
        let Some(before) = sample.checked_sub(1) else { return Ok(0) };
        let begin = (before * SAMPLED) as u64;
        let mut records = vec![R::zeroed(); (run.len - begin).min(SAMPLED as u64) as usize];
        self.read_run(run, begin, &mut records)?;
        Ok(begin + records.partition_point(|&record| record < splitter) as u64)
    }

    fn read_run(&self, run: &Run<R>, begin: u64, records: &mut [R]) -> Result<(), LoadError> {
        let offset = run.offset + begin * size_of::<R>() as u64;
        self.files[run.file]
            .read_exact_at(bytemuck::cast_slice_mut(records), offset)
            .map_err(|source| LoadError::Read { path: PathBuf::from("a temporary file"), source })
    }

    /// One part of each run, one after the other.
    fn read(&self, range: &[Range<u64>]) -> Result<Vec<R>, LoadError> {
        let len: u64 = range.iter().map(|part| part.end - part.start).sum();
        let mut records = vec![R::zeroed(); len as usize];
        let mut rest = &mut records[..];
        for (run, part) in self.runs.iter().zip(range) {
            let (front, back) = std::mem::take(&mut rest).split_at_mut((part.end - part.start) as usize);
            self.read_run(run, part.start, front)?;
            rest = back;
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::siblings::Siblings;
    use crate::{Input, load_bytes, with_input};

    /// Converts text with room for some thousand edges a thread, so that there are many runs and ranges.
    fn converted(
        text: &str,
        options: &LoadOptions,
        folder: &Path,
    ) -> Result<(Vec<u8>, Converted), LoadError> {
        converted_in(text, options, folder, folder, &())
    }

    fn converted_in(
        text: &str,
        options: &LoadOptions,
        folder: &Path,
        temp_dir: &Path,
        progress: &dyn Progress,
    ) -> Result<(Vec<u8>, Converted), LoadError> {
        let path = folder.join("external.gvg");
        let space = Space { bytes: 1 << 15, folder: temp_dir };
        let input = Input {
            bytes: text.as_bytes(),
            file: None,
            path: "graph".as_ref(),
            siblings: Siblings::Disk,
            unpacked: None,
        };
        let converted = with_input(&input, options, progress, |source, wrapping| {
            convert_in(source, &path, wrapping, options, space, progress)
        })?;
        Ok((fs::read(&path).expect("written"), converted))
    }

    /// A file of `num_entries` entries, some of them loops, some there several times, with values of `value`.
    fn matrix(head: &str, n: u64, num_entries: u64, value: impl Fn(u64) -> String) -> String {
        let mut text = format!("%%MatrixMarket matrix coordinate {head}\n{n} {n} {num_entries}\n");
        for i in 0..num_entries {
            let x = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
            // A tenth of all edges are those of one vertex, and one edge is there a hundred times.
            let u = if x.is_multiple_of(10) { n / 3 } else { x % n };
            let v = if i.is_multiple_of(97) { 7 } else { (x / n) % n };
            // Below the diagonal, as symmetric files have it.
            let (u, v) = (u.max(v), u.min(v));
            let v = if head.contains("skew") && u == v { (v + 1) % n } else { v };
            let (u, v) = (u.max(v), u.min(v));
            text.push_str(&format!("{} {} {}\n", u + 1, v + 1, value(x)));
        }
        text
    }

    #[test]
    fn file_is_byte_for_byte_that_of_a_conversion_in_memory() {
        let small = |x: u64| (x % 200).to_string();
        let large = |x: u64| (x % 4_000_000_000).to_string();
        let real = |x: u64| format!("{}", (x % 1000) as f64 * 0.1 - 20.0);
        let half = |x: u64| format!("{}", (x % 1000) as f64 * 0.5 - 20.0);
        let texts = [
            matrix("integer general", 500, 30_000, small),
            matrix("integer symmetric", 5_000_000, 10_000, large),
            matrix("real skew-symmetric", 300, 10_000, half),
            matrix("real general", 4_000_000, 10_000, real),
            matrix("pattern symmetric", 900, 20_000, |_| String::new()),
        ];
        let default = LoadOptions::default;
        let mut options = vec![
            default(),
            LoadOptions { symmetrize: true, ..default() },
            LoadOptions { keep_duplicates: true, keep_loops: true, ..default() },
            LoadOptions { bipartite: true, symmetrize: true, ..default() },
        ];
        for weights in [WeightRule::Abs, WeightRule::Unit, WeightRule::Hash, WeightRule::Random { seed: 5 }] {
            options.push(LoadOptions { weights, ..default() });
        }
        for text in &texts {
            for options in &options {
                let folder = tempfile::tempdir().expect("a folder");
                let expected = folder.path().join("memory.gvg");
                let graph = load_bytes("graph".as_ref(), text.as_bytes(), options).expect("loads");
                write_gvg(&expected, &graph, &()).expect("written");
                let context = (text.lines().next(), options);
                let (bytes, converted) = converted(text, options, folder.path()).expect("converted");
                assert!(bytes == fs::read(&expected).expect("written"), "{context:?}");
                assert!(converted.num_runs > 2, "{context:?}: {} runs", converted.num_runs);
                assert_eq!(converted.summary.duplicates, graph.summary.duplicates, "{context:?}");
                assert_eq!(
                    (converted.num_edges, converted.symmetric),
                    (graph.csr.num_edges(), graph.csr.is_symmetric())
                );
                assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "{context:?}");
            }
        }
    }

    #[test]
    fn edge_lists_and_graphs_without_edges_are_converted_as_in_memory() {
        let list: String = (0..40_000_u64).map(|i| format!("{} {}\n", i * 31 % 1009, i * 17 % 953)).collect();
        for text in [list.as_str(), "%%MatrixMarket matrix coordinate pattern general\n0 0 0\n", "0 0\n"] {
            let folder = tempfile::tempdir().expect("a folder");
            let expected = folder.path().join("memory.gvg");
            let graph =
                load_bytes("graph".as_ref(), text.as_bytes(), &LoadOptions::default()).expect("loads");
            write_gvg(&expected, &graph, &()).expect("written");
            let (bytes, _) = converted(text, &LoadOptions::default(), folder.path()).expect("converted");
            assert!(bytes == fs::read(&expected).expect("written"), "{}", &text[..20.min(text.len())]);
        }
    }

    /// Cancels once it was asked so many times.
    struct CancelledAt(AtomicU64);

    impl Progress for CancelledAt {
        fn begin(&self, _phase: &'static str, _total: u64) {}
        fn advance(&self, _by: u64) {}
        fn end(&self) {}
        fn is_cancelled(&self) -> bool {
            self.0.fetch_sub(1, Relaxed) <= 1
        }
    }

    #[test]
    fn interrupted_conversion_leaves_nothing() {
        let text = matrix("integer general", 500, 20_000, |x| (x % 200).to_string());
        let mut interrupted = 0;
        for asked in [1, 5, 20, 40, 60, 80] {
            let folder = tempfile::tempdir().expect("a folder");
            let progress = CancelledAt(AtomicU64::new(asked));
            match converted_in(&text, &LoadOptions::default(), folder.path(), folder.path(), &progress) {
                Err(LoadError::Interrupted) => {
                    interrupted += 1;
                    assert_eq!(
                        fs::read_dir(folder.path()).expect("a folder").count(),
                        0,
                        "asked {asked} times"
                    );
                }
                Err(error) => panic!("{error}"),
                Ok(_) => {}
            }
        }
        assert!(interrupted >= 2);
    }

    #[test]
    fn folder_that_cannot_be_sorted_in_is_an_error_with_its_name_and_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = matrix("integer general", 500, 20_000, |x| (x % 200).to_string());
        let none = folder.path().join("none");
        let failed = converted_in(&text, &LoadOptions::default(), folder.path(), &none, &());
        let message = failed.expect_err("no such folder").to_string();
        assert!(message.contains("none"), "{message}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
