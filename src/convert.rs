//! `convert` and `generate`: a graph of any origin to a file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use gpuvm_datasets::{GapWeights, NamedGraph};
use gpuvm_engine::graph::{Csr, Heads};
use gpuvm_loaders::{LoadOptions, LoadedGraph, MemoryBound, OutputFormat, convert_within};
use serde::Serialize;

use crate::args::{ConvertArgs, GenerateArgs, LayoutArgs, OrderArg};
use crate::named::{self, Opened};
use crate::output::JsonSink;
use crate::progress::Watch;
use crate::report::{self, GraphReport, Program, Report, SCHEMA, Sheet, Timings, count, time};
use crate::settings;
use crate::target::{Target, WrittenReport};

#[derive(Debug, Serialize)]
struct ConvertReport {
    schema: u32,
    program: Program,
    graph: GraphReport,
    timings: Timings,
    #[serde(flatten)]
    written: WrittenReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryReport>,
}

/// How a conversion within a bound went.
#[derive(Debug, Serialize)]
struct MemoryReport {
    bound_bytes: u64,
    /// The most memory that the program had at a time, where the system tells.
    peak_resident_bytes: Option<u64>,
    runs: u64,
    temporary_bytes: u64,
}

/// Loads the graph and writes it.
pub fn convert(args: ConvertArgs, quiet: bool, watch: &Watch) -> Result<()> {
    let target = Target::new(&args.output, args.to, args.force, Some(&args.input))?;
    let json = JsonSink::create(&args.json.into(), Some(&args.input))?;

    let started = Instant::now();
    let options = settings::load_options(&args.load, args.weights.weights);
    check_layout(&args.layout, target.format(), args.mem.is_some())?;
    if let Some(bytes) = args.mem {
        let bound = MemoryBound { bytes, temp_dir: args.temp_dir };
        let report = convert_in_bound(&args.input, target, &options, &bound, watch)?;
        return report::deliver(&report, json, quiet).context("the graph was converted, but not reported");
    }
    let mut opened = named::open(&args.input, &options, args.load.cache_dir.as_deref(), watch)?;
    if target.format() == OutputFormat::Gvg {
        opened.graph = laid_out(opened.graph, &args.layout)?;
    }
    let timings = Timings::of_load(started.elapsed(), &opened.graph.summary);
    let report = write("convert", &args.input, target, opened, timings, watch)?;
    report::deliver(&report, json, quiet).context("the graph was converted, but not reported")
}

/// Converts within a bound of memory.
fn convert_in_bound(
    input: &Path,
    target: Target<'_>,
    options: &LoadOptions,
    bound: &MemoryBound,
    watch: &Watch,
) -> Result<ConvertReport> {
    if target.format() != OutputFormat::Gvg {
        bail!(
            "--mem is for .gvg files: convert to one first, and from it, which takes no memory, to another format"
        );
    }
    if !input.exists() && input.to_str().is_some_and(|name| name.parse::<NamedGraph>().is_ok()) {
        bail!("{}: --mem is for files, a graph that is generated has to fit memory", input.display());
    }
    let mut converted = None;
    let written = target.write_by(0, watch, |path, _| {
        let done = convert_within(input, path, options, bound, watch)?;
        let bytes = done.bytes_written;
        converted = Some(done);
        Ok(bytes)
    })?;
    let Some(converted) = converted else { bail!("nothing was converted") };
    let memory = MemoryReport {
        bound_bytes: bound.bytes,
        peak_resident_bytes: peak_resident_bytes(),
        runs: converted.num_runs,
        temporary_bytes: converted.temporary_bytes,
    };
    Ok(ConvertReport {
        schema: SCHEMA,
        program: Program::new("convert"),
        // Reading is part of writing here.
        timings: Timings::of_load(Duration::ZERO, &converted.summary),
        graph: GraphReport::of_converted(input, converted),
        written,
        memory: Some(memory),
    })
}

/// The most memory that this program had at a time, mapped files included; Linux tells.
fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Makes a graph of a family and writes it.
pub fn generate(args: GenerateArgs, quiet: bool, watch: &Watch) -> Result<()> {
    let target = Target::new(&args.output, args.to, args.force, None)?;
    check_layout(&args.layout, target.format(), false)?;
    let name = PathBuf::from(args.name.to_string());
    let json = JsonSink::create(&args.json.into(), Some(&args.output))?;

    let started = Instant::now();
    let weights = if args.weighted { GapWeights::Gap } else { GapWeights::None };
    let graph = match (args.name.generated(), args.name) {
        (Some(graph), _) if args.weighted && !graph.has_weights() => {
            bail!("{graph}: only the graphs of the GAP suite have weights of their own")
        }
        (Some(graph), _) => named::make(graph, weights, watch)?,
        (None, NamedGraph::Known(known)) => {
            bail!("{} cannot be generated: {}", known.name, known.how_to_get())
        }
        (None, name) => bail!("{name} cannot be generated"),
    };
    let graph = match target.format() {
        OutputFormat::Gvg => laid_out(graph, &args.layout)?,
        _ => graph,
    };
    let timings = Timings::of_load(started.elapsed(), &graph.summary);
    let report = write("generate", &name, target, Opened { graph, cache: None }, timings, watch)?;
    report::deliver(&report, json, quiet).context("the graph was generated, but not reported")
}

/// Refuses a layout that the file cannot have.
fn check_layout(layout: &LayoutArgs, format: OutputFormat, in_bound: bool) -> Result<()> {
    let asked = [
        ("--order degree", matches!(layout.order, OrderArg::Degree)),
        ("--reverse", layout.reverse),
        ("--heads", layout.heads.is_some_and(|heads| heads > 0)),
    ];
    let Some((option, _)) = asked.into_iter().find(|&(_, is_asked)| is_asked) else { return Ok(()) };
    if format != OutputFormat::Gvg {
        bail!("{option} is for .gvg files: a .{format} has neither an order of its own nor copies of edges");
    }
    if in_bound {
        bail!(
            "{option} takes the memory of the graph: convert with --mem, and then the .gvg file with {option}"
        );
    }
    Ok(())
}

/// The graph as its file is to hold it.
fn laid_out(graph: LoadedGraph, layout: &LayoutArgs) -> Result<LoadedGraph> {
    let LoadedGraph { csr, summary, ids } = graph;
    let order = layout.order.of(&csr);
    let csr = csr.in_order(order)?;
    // Heads serve bottom-up steps, which go over the edges into each vertex.
    let heads = match layout.heads {
        Some(heads) => heads,
        None => match csr.incoming().and_then(Csr::heads) {
            Some(heads) => heads.per_vertex(),
            None if csr.is_symmetric() => csr.suitable_heads(),
            None => Heads::DEFAULT,
        },
    };
    let csr = match csr.is_symmetric() {
        true => csr.with_heads(heads)?,
        false if layout.reverse || csr.reverse().is_some() => csr.with_reverse(heads)?,
        false => csr,
    };
    Ok(LoadedGraph { csr, summary, ids })
}

fn write(
    command: &'static str,
    input: &Path,
    target: Target<'_>,
    opened: Opened,
    timings: Timings,
    watch: &Watch,
) -> Result<ConvertReport> {
    let Opened { graph, cache } = opened;
    let written = target.write(&graph, watch)?;
    Ok(ConvertReport {
        schema: SCHEMA,
        program: Program::new(command),
        graph: GraphReport::new(input, &graph.csr, graph.summary, cache),
        timings,
        written,
        memory: None,
    })
}

impl Report for ConvertReport {
    fn text(&self) -> String {
        let mut sheet = Sheet::default();
        self.graph.describe(&mut sheet);
        sheet.line("weights", self.graph.weight_type);
        self.written.describe(&mut sheet);
        if let Some(memory) = &self.memory {
            let bound = ByteSize::b(memory.bound_bytes);
            match memory.peak_resident_bytes {
                Some(peak) => {
                    sheet.line(
                        "memory",
                        format_args!("{} resident at the most, of {bound}", ByteSize::b(peak)),
                    );
                }
                None => sheet.line("memory", format_args!("bound {bound}")),
            }
            sheet.more(format_args!(
                "{} sorted on disk, {}",
                count(memory.runs, "run", "runs"),
                ByteSize::b(memory.temporary_bytes)
            ));
        }
        let write = time(self.written.write_seconds);
        match self.memory {
            Some(_) => sheet.line("time", format_args!("{write} in all")),
            None => sheet.line("time", format_args!("{}, write {write}", self.timings)),
        }
        sheet.0
    }
}
