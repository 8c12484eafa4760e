//! `extract`: a part of a graph as a file of its own, to try things on.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use gpuvm_engine::graph::{Csr, Order, VertexId};
use gpuvm_engine::{BfsOptions, DeviceKind, Engine, EngineConfig, UNREACHED, Workload};
use gpuvm_loaders::induced;
use ndarray_npy::{WritableElement, write_zeroed_npy};
use rayon::prelude::*;
use serde::Serialize;

use crate::args::{ExtractArgs, VertexArg};
use crate::named::{self, Opened};
use crate::output::{Draft, JsonSink, refuse_same_file};
use crate::progress::Watch;
use crate::report::{self, GraphReport, Program, Report, SCHEMA, Sheet, Timings, count, grouped, time};
use crate::settings;
use crate::target::{Target, WrittenReport};

#[derive(Debug, Serialize)]
struct ExtractReport {
    schema: u32,
    program: Program,
    graph: GraphReport,
    timings: Timings,
    part: PartReport,
    #[serde(flatten)]
    written: WrittenReport,
}

/// What was taken out.
#[derive(Debug, Serialize)]
struct PartReport {
    what: String,
    vertices: u64,
    edges: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<PathBuf>,
    seconds: f64,
}

/// Which part.
enum Part<'a> {
    LargestComponent,
    Around { vertex: &'a VertexArg, hops: u32 },
}

/// Loads the graph, finds the part and writes it.
pub fn extract(args: ExtractArgs, quiet: bool, watch: &Watch) -> Result<()> {
    let part = match (&args.around, args.hops) {
        (Some(vertex), Some(hops)) => Part::Around { vertex, hops },
        (None, None) if args.largest_component => Part::LargestComponent,
        _ => bail!("name the part: --largest-component, or --around V --hops K"),
    };
    let target = Target::new(&args.output, args.to, args.force, Some(&args.input))?;
    let ids = args.ids.as_deref().map(|path| Ids::create(path, &args.input, &args.output)).transpose()?;
    let json = JsonSink::create(&args.json.into(), Some(&args.input))?;

    let started = Instant::now();
    let options = settings::load_options(&args.load, args.weights.weights);
    let Opened { mut graph, cache } =
        named::open(&args.input, &options, args.load.cache_dir.as_deref(), watch)?;
    // A part is cut out by ids, row after row.
    graph.csr = graph.csr.in_order(Order::Natural)?;
    let timings = Timings::of_load(started.elapsed(), &graph.summary);
    watch.interrupt.check()?;

    let started = Instant::now();
    let threads = args.threads.threads.map(usize::from);
    let (kept, what) = match part {
        Part::LargestComponent => {
            (largest_component(&graph.csr, threads, watch)?, "largest component".into())
        }
        Part::Around { vertex, hops } => {
            let around =
                settings::vertex("vertex", vertex, &graph.csr, &crate::ids::Ids::new(graph.ids.clone()))?;
            (around_vertex(&graph.csr, around, hops, threads, watch)?, format!("{hops} hops around {around}"))
        }
    };
    watch.interrupt.check()?;
    let part = induced(&graph, &kept, &what)?;
    let graph_report = GraphReport::new(&args.input, &graph.csr, graph.summary, cache);
    drop(graph.csr);
    let report = PartReport {
        what,
        vertices: part.csr.num_vertices(),
        edges: part.csr.num_edges(),
        ids: args.ids.clone(),
        seconds: started.elapsed().as_secs_f64(),
    };
    let ids = ids.map(|ids| ids.write(&kept)).transpose()?;
    let written = target.write(&part, watch)?;
    if let Some(ids) = ids {
        ids.keep()?;
    }
    let report = ExtractReport {
        schema: SCHEMA,
        program: Program::new("extract"),
        graph: graph_report,
        timings,
        part: report,
        written,
    };
    report::deliver(&report, json, quiet).context("the part was written, but not reported")
}

/// The engine on the processor, which needs no more than the graph.
fn engine(threads: Option<usize>, watch: &Watch) -> Result<Engine> {
    let engine = Engine::new(EngineConfig { device: DeviceKind::Cpu, threads, ..EngineConfig::default() })?;
    watch.interrupt.stops(engine.cancel_handle());
    Ok(engine)
}

/// The vertices of the component with most of them, edges taken as undirected; of several the one with the smallest
/// vertex.
fn largest_component(csr: &Csr, threads: Option<usize>, watch: &Watch) -> Result<Vec<VertexId>> {
    if csr.num_vertices() == 0 {
        return Ok(Vec::new());
    }
    let workload = Workload { connected_components: true, ..Workload::default() };
    let mut prepared = engine(threads, watch)?.prepare(csr.clone(), workload)?;
    let labels = prepared.connected_components()?.labels;
    let mut sizes = vec![0_u32; labels.len()];
    for &label in &labels {
        sizes[label as usize] += 1;
    }
    let size = |label: VertexId| (sizes[label as usize], std::cmp::Reverse(label));
    let largest = (0..labels.len() as VertexId).max_by_key(|&label| size(label));
    let largest = largest.ok_or_else(|| anyhow!("the graph has no vertices"))?;
    Ok((0..labels.len() as VertexId).filter(|&v| labels[v as usize] == largest).collect())
}

/// The vertices that at most `hops` edges lead to from `vertex`.
fn around_vertex(
    csr: &Csr,
    vertex: VertexId,
    hops: u32,
    threads: Option<usize>,
    watch: &Watch,
) -> Result<Vec<VertexId>> {
    let workload = Workload { bfs: true, ..Workload::default() };
    let mut prepared = engine(threads, watch)?.prepare(csr.clone(), workload)?;
    let options = BfsOptions { depth_limit: Some(hops), ..BfsOptions::default() };
    let levels = prepared.bfs(vertex, &options)?.levels;
    let reached = levels.par_iter().enumerate().filter(|&(_, &level)| level != UNREACHED && level <= hops);
    Ok(reached.map(|(v, _)| v as VertexId).collect())
}

/// The file of `--ids`: for every vertex of the part the one that it was.
struct Ids {
    draft: Draft,
    format: IdFormat,
}

#[derive(Clone, Copy)]
enum IdFormat {
    Npy,
    Csv,
    Txt,
}

impl Ids {
    fn create(path: &Path, input: &Path, output: &Path) -> Result<Self> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        let format = match extension.as_deref() {
            Some("npy") => IdFormat::Npy,
            Some("csv") => IdFormat::Csv,
            Some("txt") => IdFormat::Txt,
            _ => bail!("{}: ids are written as .npy, .csv or .txt, name the file so", path.display()),
        };
        refuse_same_file(path, input)?;
        if path == output {
            bail!("{}: is the graph that is written, name another file for the ids", path.display());
        }
        Ok(Self { draft: Draft::create(path)?, format })
    }

    fn write(mut self, kept: &[VertexId]) -> Result<Draft> {
        let shown = format!("{}: cannot be written", self.draft.target().display());
        let draft = &mut self.draft;
        match self.format {
            IdFormat::Npy => {
                write_zeroed_npy::<VertexId, _>(draft.file(), [kept.len()])
                    .map_err(|error| anyhow!(error).context(shown.clone()))?;
                VertexId::write_slice(kept, draft).map_err(|error| anyhow!(error).context(shown))?;
            }
            IdFormat::Csv => {
                let rows = kept.iter().enumerate();
                writeln!(draft, "vertex,original")
                    .and_then(|()| rows.into_iter().try_for_each(|(v, was)| writeln!(draft, "{v},{was}")))
                    .context(shown)?;
            }
            IdFormat::Txt => {
                kept.iter().try_for_each(|was| writeln!(draft, "{was}")).context(shown)?;
            }
        }
        Ok(self.draft)
    }
}

impl Report for ExtractReport {
    fn text(&self) -> String {
        let mut sheet = Sheet::default();
        self.graph.describe(&mut sheet);
        let part = &self.part;
        sheet.line("part", &part.what);
        sheet.more(format_args!(
            "{} of {}, {} of {}",
            grouped(part.vertices),
            count(self.graph.vertices, "vertex", "vertices"),
            grouped(part.edges),
            count(self.graph.edges, "edge", "edges")
        ));
        self.written.describe(&mut sheet);
        if let Some(ids) = &part.ids {
            sheet.line("ids", format_args!("{}, the original id of every vertex", ids.display()));
        }
        let (find, write) = (time(part.seconds), time(self.written.write_seconds));
        sheet.line("time", format_args!("{}, extract {find}, write {write}", self.timings));
        sheet.0
    }
}
