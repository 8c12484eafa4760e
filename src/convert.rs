//! `convert` and `generate`: a graph of any origin to a `.gvg` file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Error, Result, bail};
use bytesize::ByteSize;
use gpuvm_datasets::{GapWeights, NamedGraph};
use gpuvm_engine::graph::{Csr, Heads};
use gpuvm_loaders::{LoadError, LoadedGraph, write_gvg};
use serde::Serialize;

use crate::args::{ConvertArgs, GenerateArgs, LayoutArgs};
use crate::named::{self, Opened};
use crate::output::{Draft, JsonSink, refuse_same_file};
use crate::progress::Watch;
use crate::report::{self, GraphReport, Program, Report, SCHEMA, Sheet, Timings, grouped, time};
use crate::settings;

#[derive(Debug, Serialize)]
struct ConvertReport {
    schema: u32,
    program: Program,
    graph: GraphReport,
    timings: Timings,
    output: PathBuf,
    bytes_written: u64,
    write_seconds: f64,
}

/// Loads the graph and writes it.
pub fn convert(args: ConvertArgs, quiet: bool, watch: &Watch) -> Result<()> {
    let target = Target::new(&args.output, args.force, Some(&args.input))?;
    let json = JsonSink::create(&args.json.into(), Some(&args.input))?;

    let started = Instant::now();
    let options = settings::load_options(&args.load, args.weights.weights);
    let mut opened = named::open(&args.input, &options, args.load.cache_dir.as_deref(), watch)?;
    opened.graph = laid_out(opened.graph, &args.layout)?;
    let timings = Timings::of_load(started.elapsed(), &opened.graph.summary);
    let report = target.write("convert", &args.input, opened, timings, watch)?;
    report::deliver(&report, json, quiet).context("the graph was converted, but not reported")
}

/// Makes a graph of a family and writes it.
pub fn generate(args: GenerateArgs, quiet: bool, watch: &Watch) -> Result<()> {
    let target = Target::new(&args.output, args.force, None)?;
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
    let graph = laid_out(graph, &args.layout)?;
    let timings = Timings::of_load(started.elapsed(), &graph.summary);
    let report = target.write("generate", &name, Opened { graph, cache: None }, timings, watch)?;
    report::deliver(&report, json, quiet).context("the graph was generated, but not reported")
}

/// The graph as its file is to hold it.
fn laid_out(graph: LoadedGraph, layout: &LayoutArgs) -> Result<LoadedGraph> {
    let LoadedGraph { csr, summary } = graph;
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
    Ok(LoadedGraph { csr, summary })
}

/// A `.gvg` file that can be written and is not there yet.
struct Target<'a> {
    path: &'a Path,
    draft: Draft,
}

impl<'a> Target<'a> {
    fn new(path: &'a Path, force: bool, input: Option<&Path>) -> Result<Self> {
        let shown = path.display();
        if path.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("gvg")) {
            bail!("{shown}: the name of the file to write must end in .gvg");
        }
        if let Some(input) = input {
            refuse_same_file(path, input)?;
        }
        if path.exists() && !path.is_dir() && !force {
            bail!("{shown}: is there already, use --force to replace it");
        }
        Ok(Self { path, draft: Draft::create(path)? })
    }

    fn write(
        self,
        command: &'static str,
        input: &Path,
        opened: Opened,
        timings: Timings,
        watch: &Watch,
    ) -> Result<ConvertReport> {
        watch.interrupt.check()?;
        let started = Instant::now();
        let shown = self.path.display();
        let Opened { graph, cache } = opened;
        let written = write_gvg(self.draft.temporary_path(), &graph, watch);
        let bytes_written = written.map_err(|error| match error {
            // Not the name of the draft, which nobody has typed.
            LoadError::Write { source, .. } => {
                Error::new(source).context(format!("{shown}: cannot be written"))
            }
            error => error.into(),
        })?;
        watch.interrupt.check()?;
        self.draft.keep()?;
        Ok(ConvertReport {
            schema: SCHEMA,
            program: Program::new(command),
            graph: GraphReport::new(input, &graph.csr, graph.summary, cache),
            timings,
            output: self.path.to_owned(),
            bytes_written,
            write_seconds: started.elapsed().as_secs_f64(),
        })
    }
}

impl Report for ConvertReport {
    fn text(&self) -> String {
        let mut sheet = Sheet::default();
        self.graph.describe(&mut sheet);
        sheet.line("weights", self.graph.weight_type);
        sheet.line("output", self.output.display());
        sheet.more(format_args!(
            "{} bytes ({})",
            grouped(self.bytes_written),
            ByteSize::b(self.bytes_written)
        ));
        sheet.line("time", format_args!("{}, write {}", self.timings, time(self.write_seconds)));
        sheet.0
    }
}
