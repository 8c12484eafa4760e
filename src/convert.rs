//! `convert`: a graph file of any format to a `.gvg` file.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Error, Result, bail};
use bytesize::ByteSize;
use gpuvm_loaders::{LoadError, load, write_gvg};
use serde::Serialize;

use crate::args::ConvertArgs;
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
    let shown = args.output.display();
    if args.output.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("gvg")) {
        bail!("{shown}: the name of the file to write must end in .gvg");
    }
    refuse_same_file(&args.output, &args.input)?;
    if args.output.exists() && !args.output.is_dir() && !args.force {
        bail!("{shown}: is there already, use --force to replace it");
    }
    let draft = Draft::create(&args.output)?;
    let json = JsonSink::create(&args.json.into(), &args.input)?;

    let started = Instant::now();
    let loaded = load(&args.input, &settings::load_options(&args.load, args.weights.weights), watch)?;
    let timings = Timings::of_load(started.elapsed(), &loaded.summary);
    watch.interrupt.check()?;

    let started = Instant::now();
    let bytes_written = write_gvg(draft.temporary_path(), &loaded, watch).map_err(|error| match error {
        // Not the name of the draft, which nobody has typed.
        LoadError::Write { source, .. } => Error::new(source).context(format!("{shown}: cannot be written")),
        error => error.into(),
    })?;
    watch.interrupt.check()?;
    draft.keep()?;
    let report = ConvertReport {
        schema: SCHEMA,
        program: Program::new("convert"),
        graph: GraphReport::new(&args.input, &loaded.csr, loaded.summary),
        timings,
        output: args.output.clone(),
        bytes_written,
        write_seconds: started.elapsed().as_secs_f64(),
    };
    report::deliver(&report, json, quiet).context("the graph was converted, but not reported")
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
