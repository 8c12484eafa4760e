//! `convert` and `generate`: a graph of any origin to a file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use gpuvm_datasets::{GapWeights, NamedGraph};
use serde::Serialize;

use crate::args::{ConvertArgs, GenerateArgs};
use crate::named::{self, Opened};
use crate::output::JsonSink;
use crate::progress::Watch;
use crate::report::{self, GraphReport, Program, Report, SCHEMA, Sheet, Timings, time};
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
}

/// Loads the graph and writes it.
pub fn convert(args: ConvertArgs, quiet: bool, watch: &Watch) -> Result<()> {
    let target = Target::new(&args.output, args.to, args.force, Some(&args.input))?;
    let json = JsonSink::create(&args.json.into(), Some(&args.input))?;

    let started = Instant::now();
    let options = settings::load_options(&args.load, args.weights.weights);
    let opened = named::open(&args.input, &options, args.load.cache_dir.as_deref(), watch)?;
    let timings = Timings::of_load(started.elapsed(), &opened.graph.summary);
    let report = write("convert", &args.input, target, opened, timings, watch)?;
    report::deliver(&report, json, quiet).context("the graph was converted, but not reported")
}

/// Makes a graph of a family and writes it.
pub fn generate(args: GenerateArgs, quiet: bool, watch: &Watch) -> Result<()> {
    let target = Target::new(&args.output, args.to, args.force, None)?;
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
    let timings = Timings::of_load(started.elapsed(), &graph.summary);
    let report = write("generate", &name, target, Opened { graph, cache: None }, timings, watch)?;
    report::deliver(&report, json, quiet).context("the graph was generated, but not reported")
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
    })
}

impl Report for ConvertReport {
    fn text(&self) -> String {
        let mut sheet = Sheet::default();
        self.graph.describe(&mut sheet);
        sheet.line("weights", self.graph.weight_type);
        self.written.describe(&mut sheet);
        sheet.line("time", format_args!("{}, write {}", self.timings, time(self.written.write_seconds)));
        sheet.0
    }
}
