//! Graphs known by name: where a command takes a file it takes `gap-kron:24`, too. Such a graph is generated once, kept
//! as a `.gvg` file in a cache folder, and mapped from there by every later run.
//!
//! The file appears under its name when it is whole, so whoever sees it may use it. Whoever makes one holds a lock on
//! the folder: of two programs that want the same graph the second waits, and finds what the first has made.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use bytesize::ByteSize;
use etcetera::BaseStrategy;
use gpuvm_datasets::{GapWeights, GenerateError, GeneratedGraph, KnownGraph, NameError, NamedGraph};
use gpuvm_engine::graph::Heads;
use gpuvm_loaders::{LoadError, LoadOptions, LoadSummary, LoadedGraph, Progress, load, write_gvg};
use serde::Serialize;

use crate::progress::Watch;
use crate::report::grouped;

/// The folder, unless an option names it.
const CACHE_VARIABLE: &str = "GPUVM_CACHE_DIR";

/// What a folder of ours is called inside the platform's cache folder.
const CACHE_FOLDER: &str = "gpuvm-graph";

/// Bytes of a `.gvg` file beside its arrays: each of five begins at a multiple of 2 MiB.
const GVG_OVERHEAD_BYTES: u64 = 5 * (2 << 20);

/// Bytes a vertex that a kept graph has beside its rows: heads, and the id where rows are in degree order.
const LAYOUT_BYTES: u64 = 4 * (Heads::DEFAULT as u64 + 1);

/// A graph that a command works on.
#[derive(Debug)]
pub struct Opened {
    pub graph: LoadedGraph,
    /// For a graph known by name, the file it lies in.
    pub cache: Option<CacheReport>,
}

/// Where a graph known by name lies.
#[derive(Clone, Debug, Serialize)]
pub struct CacheReport {
    pub file: PathBuf,
    /// Whether this run made it.
    pub generated: bool,
}

/// Opens what was typed for a graph: a file, or the name of a graph if there is no such file.
pub fn open(typed: &Path, options: &LoadOptions, cache_dir: Option<&Path>, watch: &Watch) -> Result<Opened> {
    let name = typed.to_str().map(str::parse::<NamedGraph>);
    let is_name = matches!(name, Some(Ok(_)));
    // A folder that happens to be called like a graph is no graph.
    if typed.exists() && !(is_name && typed.is_dir()) {
        if is_name {
            tracing::warn!(
                "{}: the file of this name is read; the graph of this name is to be had from another folder",
                typed.display()
            );
        }
        return Ok(Opened { graph: load(typed, options, watch)?, cache: None });
    }
    match name {
        Some(Ok(name)) => open_named(name, typed, options, cache_dir, watch),
        Some(Err(error @ NameError::UnknownGraph { .. })) if !looks_like_a_path(typed) => {
            Err(Error::new(error).context(format!("{}: is no file", typed.display())))
        }
        Some(Err(error)) if !matches!(error, NameError::UnknownGraph { .. }) => Err(error.into()),
        _ => {
            let missing = load(typed, options, watch);
            let graph = missing.map_err(|error| match known_by_file_name(typed) {
                Some(known) => anyhow!("{:#}; {}", Error::new(error), how_to_have(known, cache_dir)),
                None => error.into(),
            })?;
            Ok(Opened { graph, cache: None })
        }
    }
}

/// Whether somebody who typed this had a file in mind.
fn looks_like_a_path(typed: &Path) -> bool {
    typed.extension().is_some() || typed.components().count() > 1 || typed.as_os_str().is_empty()
}

/// The graph of the collection that a file called like this would hold: `GK.mtx`, `com-Friendster.tar.gz`.
pub fn known_by_file_name(path: &Path) -> Option<&'static KnownGraph> {
    let name = path.file_name()?.to_str()?;
    KnownGraph::find(name.split('.').next()?).ok()
}

fn open_named(
    name: NamedGraph,
    typed: &Path,
    options: &LoadOptions,
    cache_dir: Option<&Path>,
    watch: &Watch,
) -> Result<Opened> {
    let changes = [
        ("--bipartite", options.bipartite),
        ("--symmetrize", options.symmetrize),
        ("--keep-duplicates", options.keep_duplicates),
        ("--keep-loops", options.keep_loops),
    ];
    if let Some((option, _)) = changes.into_iter().find(|&(_, asked)| asked) {
        bail!(
            "{}: {option} is for files, a graph known by name is taken as it is; leave it out",
            typed.display()
        );
    }
    let folder = cache_folder(cache_dir)?;
    match name {
        NamedGraph::Known(known) if known.generator.is_none() => {
            let file = kept_file(known, &folder);
            if !file.exists() {
                bail!("{}: {}", typed.display(), how_to_have(known, cache_dir));
            }
            Ok(Opened {
                graph: load(&file, options, watch)?,
                cache: Some(CacheReport { file, generated: false }),
            })
        }
        name => match name.generated() {
            Some(graph) => Cached { graph, folder: &folder }.open(options, watch),
            None => bail!("{}: this graph cannot be generated", typed.display()),
        },
    }
}

/// Where a graph that cannot be generated is looked for.
fn kept_file(known: &KnownGraph, folder: &Path) -> PathBuf {
    folder.join(format!("{}.gvg", known.name))
}

/// What the graph is, the file to expect, and how to have it under its name.
fn how_to_have(known: &KnownGraph, cache_dir: Option<&Path>) -> String {
    let KnownGraph { name, short_name, group, num_vertices, num_edges, weights, .. } = known;
    let what = format!(
        "{name} ({short_name}) is {group}/{name} of the SuiteSparse collection, {} vertices, {} edges, weights: \
         {weights}",
        grouped(*num_vertices),
        grouped(*num_edges)
    );
    let archive = known.archive_name();
    let matrix = known.matrix_name();
    if let Some(generator) = known.generator {
        return format!(
            "{what}; --graph {short_name} generates it ({generator}), or download {archive} from {}",
            known.page()
        );
    }
    let (make_folder, kept) = match cache_folder(cache_dir) {
        Ok(folder) if folder.is_dir() => (String::new(), kept_file(known, &folder)),
        Ok(folder) => (format!("mkdir -p {}, ", folder.display()), kept_file(known, &folder)),
        Err(_) => (String::new(), format!("{name}.gvg").into()),
    };
    format!(
        "{what}, and has to be downloaded: fetch {archive} from {}, unpack {matrix} with tar -xzf {archive}, then \
         {make_folder}gpuvm-graph convert {matrix} {}, and {short_name} will be found there",
        known.page(),
        kept.display()
    )
}

/// The folder for graphs known by name: that of the option, of the variable, or the platform's own.
fn cache_folder(option: Option<&Path>) -> Result<PathBuf> {
    let variable = || std::env::var_os(CACHE_VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    if let Some(folder) = option.map(Path::to_owned).or_else(variable) {
        return Ok(folder);
    }
    let platform = etcetera::base_strategy::choose_native_strategy()
        .with_context(|| format!("no folder for generated graphs: use --cache-dir or {CACHE_VARIABLE}"))?;
    Ok(platform.cache_dir().join(CACHE_FOLDER))
}

/// Makes a graph in memory, as a loader would hand it over.
pub fn make(graph: GeneratedGraph, weights: GapWeights, watch: &Watch) -> Result<LoadedGraph> {
    let csr = graph.generate(weights, watch).map_err(|error| cannot_generate(graph, error))?;
    let entries = csr.num_edges();
    let summary = LoadSummary {
        format: "generated".to_owned(),
        rows: csr.num_vertices(),
        columns: csr.num_vertices(),
        field: if csr.weights().stored_len().is_some() { "integer" } else { "pattern" }.to_owned(),
        symmetry: "symmetric".to_owned(),
        stored_entries: entries / 2,
        expanded_entries: entries,
        ..LoadSummary::default()
    };
    Ok(LoadedGraph { csr, summary, ids: None })
}

fn cannot_generate(graph: GeneratedGraph, error: GenerateError) -> Error {
    match error {
        GenerateError::Interrupted => Error::new(error),
        GenerateError::OutOfMemory { .. } => {
            anyhow!("{graph}: {error}; take a smaller graph or a machine with more memory")
        }
        error => Error::new(error).context(format!("{graph}: cannot be generated")),
    }
}

/// A graph that can be generated, and the folder that it is kept in.
struct Cached<'a> {
    graph: GeneratedGraph,
    folder: &'a Path,
}

impl Cached<'_> {
    /// With the weights of its family: one file serves every command.
    const WEIGHTS: GapWeights = GapWeights::Gap;

    fn file(&self) -> PathBuf {
        self.folder.join(format!("{}.gvg", self.graph.file_stem(Self::WEIGHTS)))
    }

    /// The graph from its file, which is made if it is not there.
    fn open(&self, options: &LoadOptions, watch: &Watch) -> Result<Opened> {
        let file = self.file();
        let opened = |graph, generated| {
            let file = file.clone();
            Opened { graph, cache: Some(CacheReport { file, generated }) }
        };
        if let Found::Graph(graph) = self.find(options, watch)? {
            return Ok(opened(*graph, false));
        }
        fs::create_dir_all(self.folder).with_context(|| self.unwritable())?;
        let _lock = self.lock(watch)?;
        // Again, now that nobody else makes it.
        match self.find(options, watch)? {
            Found::Graph(graph) => return Ok(opened(*graph, false)),
            Found::Damage(damage) => {
                tracing::warn!(
                    "{}: generated again, since the file kept of it is damaged ({damage})",
                    self.graph
                );
            }
            Found::Nothing => {}
        }
        self.remove_leftovers();
        // Not before the lock: what another program takes to make a graph is free again by now.
        self.graph.check(Self::WEIGHTS).map_err(|error| cannot_generate(self.graph, error))?;
        // A file system that does not tell may have room.
        if let Ok(disk) = rustix::fs::statvfs(self.folder) {
            self.check_room(disk.f_bavail.saturating_mul(disk.f_frsize))?;
        }
        let mut made = make(self.graph, Self::WEIGHTS, watch)?;
        watch.interrupt.check()?;
        // As `generate` lays it out: the order of the rows changes no answer.
        let order = made.csr.suitable_order();
        made.csr = made.csr.in_order(order)?;
        let heads = made.csr.suitable_heads();
        made.csr = made.csr.with_heads(heads)?;
        match write_gvg(&file, &made, watch) {
            Err(LoadError::Write { source, .. }) => {
                return Err(Error::new(source).context(self.unwritable()));
            }
            written => written?,
        };
        // What is in memory goes before the file is mapped: this run is like every later one.
        drop(made);
        Ok(opened(load(&file, options, watch)?, true))
    }

    fn find(&self, options: &LoadOptions, watch: &Watch) -> Result<Found> {
        let file = self.file();
        if !file.exists() {
            return Ok(Found::Nothing);
        }
        match load(&file, options, watch) {
            Ok(graph) => Ok(Found::Graph(Box::new(graph))),
            // None of these says anything about what is in the file.
            Err(
                error @ (LoadError::Open { .. }
                | LoadError::Directory { .. }
                | LoadError::Read { .. }
                | LoadError::OutOfMemory { .. }
                | LoadError::ByteOrder { .. }
                | LoadError::Interrupted),
            ) => Err(error.into()),
            Err(damage) => Ok(Found::Damage(damage)),
        }
    }

    /// Keeps other programs from making a graph in this folder until it is dropped; `None` where the file system has no
    /// locks: then each makes the graph, and the file that comes last stays.
    fn lock(&self, watch: &Watch) -> Result<Option<File>> {
        const PATIENCE: Duration = Duration::from_millis(50);
        let Ok(folder) = File::open(self.folder) else { return Ok(None) };
        let mut waiting = false;
        let lock = loop {
            match folder.try_lock() {
                Ok(()) => break Some(folder),
                Err(TryLockError::Error(_)) => break None,
                Err(TryLockError::WouldBlock) if waiting => {}
                Err(TryLockError::WouldBlock) => {
                    tracing::info!("another program makes a graph in {}", self.folder.display());
                    watch.begin("wait", 1);
                    waiting = true;
                }
            }
            watch.interrupt.check()?;
            thread::sleep(PATIENCE);
        };
        if waiting {
            watch.end();
        }
        Ok(lock)
    }

    /// Removes what programs that were killed have left of files they wrote. A file that somebody writes, be it by
    /// `convert`, was written to a moment ago.
    fn remove_leftovers(&self) {
        const ABANDONED: Duration = Duration::from_secs(60 * 60);
        let is_abandoned = |entry: &fs::DirEntry| {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > ABANDONED))
        };
        let Ok(entries) = fs::read_dir(self.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_part = |name: &str| name.starts_with(".gpuvm-") && name.ends_with(".gvg.part");
            if name.to_str().is_some_and(is_part) && is_abandoned(&entry) {
                // Another one may be faster, and a file that stays does no harm.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Refuses a graph whose file would not fit the disk.
    fn check_room(&self, available_bytes: u64) -> Result<()> {
        let layout_bytes = self.graph.most_vertices().saturating_mul(LAYOUT_BYTES) + GVG_OVERHEAD_BYTES;
        let needed_bytes = self.graph.most_bytes(Self::WEIGHTS).saturating_add(layout_bytes);
        if needed_bytes > available_bytes {
            bail!(
                "{}: its file takes up to {} in {}, {} are available: make room, or use --cache-dir or \
                 {CACHE_VARIABLE}",
                self.graph,
                ByteSize::b(needed_bytes),
                self.folder.display(),
                ByteSize::b(available_bytes)
            );
        }
        Ok(())
    }

    fn unwritable(&self) -> String {
        format!(
            "{}: cannot be kept in {} (use --cache-dir or {CACHE_VARIABLE})",
            self.graph,
            self.folder.display()
        )
    }
}

/// What lies under the name of a cached graph's file.
enum Found {
    Graph(Box<LoadedGraph>),
    Damage(LoadError),
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_named_like_a_graph_of_the_collection_is_known() {
        for (path, name) in [
            ("GK.mtx", "GAP-kron"),
            ("graphs/com-Friendster.tar.gz", "com-Friendster"),
            ("GAP-urand/GAP-urand.mtx", "GAP-urand"),
            ("mo.gvg", "MOLIERE_2016"),
        ] {
            assert_eq!(known_by_file_name(path.as_ref()).expect(path).name, name);
        }
        assert!(known_by_file_name("karate.mtx".as_ref()).is_none());
        assert!(known_by_file_name("..".as_ref()).is_none());
    }

    #[test]
    fn file_that_does_not_fit_the_disk_is_refused_with_what_it_takes_and_what_there_is() {
        let graph = "gap-kron:27".parse::<NamedGraph>().expect("a name").generated().expect("generated");
        let cached = Cached { graph, folder: "cache".as_ref() };
        let refused = cached.check_room(20 << 30).expect_err("21 GiB").to_string();
        assert_eq!(
            refused,
            "gap-kron:27: its file takes up to 22.5 GiB in cache, 20.0 GiB are available: make room, or use \
             --cache-dir or GPUVM_CACHE_DIR"
        );
        assert!(cached.check_room(23 << 30).is_ok());
    }

    #[test]
    fn word_without_folder_or_extension_is_no_path() {
        assert!(!looks_like_a_path("twitter".as_ref()));
        for path in ["twitter.mtx", "graphs/twitter", "./twitter", "/twitter", ""] {
            assert!(looks_like_a_path(path.as_ref()), "{path}");
        }
    }
}
