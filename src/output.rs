//! Result files: written beside their place under another name, and moved there once they are complete.
//!
//! Rows go to `.npy` and `.csv` as runs end, so that only one answer is in memory at a time; `.txt` has a column a
//! run and waits for all of them.

use std::fs::{self, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Error, Result, anyhow, bail};
use gpuvm_engine::graph::VertexId;
use gpuvm_engine::{Distances, NO_PARENT, UNREACHED};
use ndarray::IxDyn;
use ndarray_npy::{WritableElement, write_zeroed_npy};
use tempfile::NamedTempFile;

use crate::ids::Ids;
use crate::run::Answer;
use crate::settings::JsonTarget;

/// Where drafts are, for an end without [`Drop`].
static DRAFTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes what would be left when the program ends at once. Those kept are elsewhere by now.
pub fn discard_drafts() {
    gpuvm_loaders::discard_drafts();
    for path in &*DRAFTS.lock().unwrap_or_else(PoisonError::into_inner) {
        let _ = fs::remove_file(path);
    }
}

/// A file that is not there until it is complete; dropped before, it leaves nothing.
#[derive(Debug)]
pub struct Draft {
    file: BufWriter<NamedTempFile>,
    target: PathBuf,
}

impl Draft {
    /// A file that will be at `target`, which is checked now: the directory can be written, nothing is in the way.
    pub fn create(target: &Path) -> Result<Self> {
        let shown = target.display();
        if target.is_dir() {
            bail!("{shown}: cannot be written, it is a directory");
        }
        // Through a link to what it leads to, as if written in place.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        if fs::metadata(&target).is_ok_and(|metadata| metadata.permissions().readonly()) {
            bail!("{shown}: cannot be written, it is read-only");
        }
        let directory = match target.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new()
            .prefix(".gpuvm-graph-")
            .permissions(Permissions::from_mode(0o666)) // less the umask, like any new file
            .tempfile_in(directory)
            .with_context(|| format!("{shown}: cannot be written"))?;
        DRAFTS.lock().unwrap_or_else(PoisonError::into_inner).push(file.path().to_owned());
        Ok(Self { file: BufWriter::with_capacity(1 << 20, file), target })
    }

    /// Where the bytes are for now.
    pub fn temporary_path(&self) -> &Path {
        self.file.get_ref().path()
    }

    /// The file, for writers that seek. What is written to it comes before all that was not flushed yet.
    pub fn file(&self) -> &std::fs::File {
        self.file.get_ref().as_file()
    }

    /// Where they will be.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Moves the complete file to its place.
    pub fn keep(self) -> Result<()> {
        let Self { file, target } = self;
        let file = file.into_inner().map_err(|error| cannot_write(&target)(error.into_error()))?;
        file.persist(&target).map_err(|error| cannot_write(&target)(error.error))?;
        Ok(())
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn cannot_write(target: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::new(source).context(format!("{}: cannot be written", target.display()))
}

/// Where `--json` puts the result.
#[derive(Debug)]
pub enum JsonSink {
    Nowhere,
    Stdout,
    File(Draft),
}

impl JsonSink {
    /// The sink for `target`, its file checked now; it must not be the `input` that is read, if there is one.
    pub fn create(target: &JsonTarget, input: Option<&Path>) -> Result<Self> {
        Ok(match target {
            JsonTarget::Nowhere => Self::Nowhere,
            JsonTarget::Stdout => Self::Stdout,
            JsonTarget::File(path) => {
                input.map_or(Ok(()), |input| refuse_same_file(path, input))?;
                Self::File(Draft::create(path)?)
            }
        })
    }
}

/// Writing a file over the graph that is read would be a mistake.
pub fn refuse_same_file(output: &Path, input: &Path) -> Result<()> {
    if let (Ok(output_file), Ok(input_file)) = (output.canonicalize(), input.canonicalize())
        && output_file == input_file
    {
        bail!("{}: is the graph itself, name another file to write", output.display());
    }
    Ok(())
}

/// The file of `--output`.
#[derive(Debug)]
pub struct Output {
    values: Draft,
    format: Format,
    num_runs: usize,
    with_parents: bool,
    started: bool,
    ids: Ids,
}

#[derive(Debug)]
enum Format {
    /// A file of values and one of parents.
    Npy {
        parents: Option<Draft>,
        ids: Option<Draft>,
    },
    Csv,
    Txt {
        answers: Vec<Answer>,
    },
}

impl Output {
    /// A file for results, by the extension of `path`. Nothing is written but what is checked.
    pub fn create(path: &Path, with_parents: bool) -> Result<Self> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        let format = match extension.as_deref() {
            Some("npy") => {
                let parents =
                    with_parents.then(|| Draft::create(&path.with_extension("parents.npy"))).transpose()?;
                Format::Npy { parents, ids: None }
            }
            Some("csv") => Format::Csv,
            Some("txt") => Format::Txt { answers: Vec::new() },
            _ => bail!("{}: results are written as .npy, .csv or .txt, name the file so", path.display()),
        };
        Ok(Self {
            values: Draft::create(path)?,
            format,
            num_runs: 1,
            with_parents,
            started: false,
            ids: Ids::default(),
        })
    }

    /// The file that will be there.
    pub fn target(&self) -> &Path {
        self.values.target()
    }

    /// So many answers will be [pushed](Self::push), on a graph whose vertices are called so.
    pub fn expect_runs(&mut self, num_runs: usize, ids: &Ids) -> Result<()> {
        self.num_runs = num_runs;
        self.ids = ids.clone();
        // Beside an array of values by vertex, the ids of the vertices.
        if let (Format::Npy { ids: file, .. }, Some(list)) = (&mut self.format, ids.list()) {
            let mut draft = Draft::create(&self.values.target.with_extension("ids.npy"))?;
            push_row::<_, u64>(&mut draft, true, 1, list, Ok)?;
            *file = Some(draft);
        }
        Ok(())
    }

    /// Adds an answer.
    pub fn push(&mut self, answer: Answer) -> Result<()> {
        let first = !std::mem::replace(&mut self.started, true);
        let (num_runs, values, with_parents) = (self.num_runs, &mut self.values, self.with_parents);
        let ids = &self.ids;
        match &mut self.format {
            Format::Npy { parents, .. } => {
                push_npy(values, first, num_runs, &answer)?;
                if let (Some(draft), Some(parents)) = (parents, answer.parents()) {
                    let id = |parent| Ok(if parent == NO_PARENT { -1 } else { i64::from(parent) });
                    push_row::<_, i64>(draft, first, num_runs, parents, id)?;
                }
                Ok(())
            }
            Format::Csv => push_csv(values, first, num_runs, with_parents, ids, &answer)
                .map_err(|e| cannot_write(&values.target)(e)),
            Format::Txt { answers } => {
                answers.push(answer);
                Ok(())
            }
        }
    }

    /// Puts the files in their places.
    pub fn keep(mut self) -> Result<()> {
        match self.format {
            Format::Npy { parents, ids } => {
                for draft in [parents, ids].into_iter().flatten() {
                    draft.keep()?;
                }
            }
            Format::Csv => {}
            Format::Txt { answers } => {
                write_txt(&mut self.values, &self.ids, &answers)
                    .map_err(|e| cannot_write(&self.values.target)(e))?;
            }
        }
        self.values.keep()
    }
}

fn push_npy(draft: &mut Draft, first: bool, num_runs: usize, answer: &Answer) -> Result<()> {
    match answer {
        Answer::Bfs(result) => {
            push_row::<_, i32>(draft, first, num_runs, &result.levels, |level| match level {
                UNREACHED => Ok(-1),
                level => i32::try_from(level)
                    .with_context(|| format!("level {level} is too large for int32, use .csv")),
            })
        }
        Answer::Components(result) => push_row::<_, u32>(draft, first, num_runs, &result.labels, Ok),
        Answer::PageRank(result) => push_row::<_, f64>(draft, first, num_runs, &result.ranks, Ok),
        Answer::Sssp(result) => match &result.distances {
            Distances::Integer(distances) => {
                push_row::<_, i64>(draft, first, num_runs, distances, |d| match d {
                    Distances::UNREACHED => Ok(-1),
                    d => i64::try_from(d)
                        .with_context(|| format!("distance {d} is too large for int64, use .csv")),
                })
            }
            Distances::Real(distances) => push_row::<_, f64>(draft, first, num_runs, distances, Ok),
        },
    }
}

/// Adds a row of the array, before the first its header: an axis of vertices, with several runs one of runs before it.
fn push_row<V: Copy, T: WritableElement>(
    draft: &mut Draft,
    first: bool,
    num_runs: usize,
    values: &[V],
    element: impl Fn(V) -> Result<T>,
) -> Result<()> {
    /// Values in a block, so that no second array is needed.
    const BLOCK: usize = 1 << 16;
    let wrong = |target: &Path| {
        let text = format!("{}: cannot be written", target.display());
        move |error: ndarray_npy::WriteNpyError| anyhow!(error).context(text)
    };
    if first {
        let shape = if num_runs == 1 { vec![values.len()] } else { vec![num_runs, values.len()] };
        let file = draft.file.get_ref().as_file();
        // Leaves the file at the end of the header, where the rows begin.
        write_zeroed_npy::<T, _>(file, IxDyn(&shape)).map_err(wrong(&draft.target))?;
    }
    for block in values.chunks(BLOCK) {
        let elements = block.iter().map(|&value| element(value)).collect::<Result<Vec<T>>>()?;
        T::write_slice(&elements, &mut draft.file).map_err(|error| wrong(&draft.target)(error.into()))?;
    }
    Ok(())
}

fn push_csv(
    out: &mut impl Write,
    first: bool,
    num_runs: usize,
    with_parents: bool,
    ids: &Ids,
    answer: &Answer,
) -> io::Result<()> {
    let source = if num_runs == 1 { None } else { answer.source() };
    if first {
        let source = if source.is_some() { "source," } else { "" };
        let parent = if with_parents { ",parent" } else { "" };
        writeln!(out, "{source}vertex,{}{parent}", answer.value_name())?;
    }
    for v in 0..answer.num_vertices() as VertexId {
        if let Some(source) = source {
            write!(out, "{},", ids.of(source))?;
        }
        write!(out, "{},", ids.of(v))?;
        write_value(out, ids, answer, v)?;
        if let Some(parents) = answer.parents() {
            out.write_all(b",")?;
            write_parent(out, ids, parents[v as usize])?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// A line a vertex: its values in the order of the runs, then its parents in the same order.
fn write_txt(out: &mut impl Write, ids: &Ids, answers: &[Answer]) -> io::Result<()> {
    let num_vertices = answers.first().map_or(0, Answer::num_vertices);
    for v in 0..num_vertices as VertexId {
        for (i, answer) in answers.iter().enumerate() {
            if i > 0 {
                out.write_all(b" ")?;
            }
            write_value(out, ids, answer, v)?;
        }
        for parents in answers.iter().filter_map(Answer::parents) {
            out.write_all(b" ")?;
            write_parent(out, ids, parents[v as usize])?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn write_value(out: &mut impl Write, ids: &Ids, answer: &Answer, v: VertexId) -> io::Result<()> {
    let v = v as usize;
    match answer {
        Answer::Bfs(result) => match result.levels[v] {
            UNREACHED => out.write_all(b"-1"),
            level => write!(out, "{level}"),
        },
        Answer::Components(result) => write!(out, "{}", ids.of(result.labels[v])),
        Answer::PageRank(result) => write!(out, "{:?}", result.ranks[v]),
        Answer::Sssp(result) => match &result.distances {
            Distances::Integer(distances) if distances[v] == Distances::UNREACHED => out.write_all(b"-1"),
            Distances::Integer(distances) => write!(out, "{}", distances[v]),
            // The shortest digits that read back as the same number; `inf` for infinity.
            Distances::Real(distances) => write!(out, "{:?}", distances[v]),
        },
    }
}

fn write_parent(out: &mut impl Write, ids: &Ids, parent: VertexId) -> io::Result<()> {
    match parent {
        NO_PARENT => out.write_all(b"-1"),
        parent => write!(out, "{}", ids.of(parent)),
    }
}
