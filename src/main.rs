//! `gpuvm-graph`: traversal of graphs larger than GPU memory, from the command line.
//!
//! A run goes from `args` (what was typed) over `settings` (what it means) to `run`, and its result to `report` and
//! `output`. Exit codes: 0 done, 1 `--verify` or `--check` found a difference, 2 anything else.
#![forbid(unsafe_code)]

mod args;
mod convert;
mod doctor;
mod extract;
mod ids;
mod info;
mod known;
mod named;
mod output;
mod profile;
mod progress;
mod report;
mod run;
mod settings;
mod target;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Error, Result};
use clap::Parser;
use tracing::level_filters::LevelFilter;

use args::{Arguments, Command, PlannedRun};
use known::AnotherGraph;
use progress::{Interrupt, Watch};
use run::WrongAnswer;
use settings::RunSettings;

/// `--verify` or `--check` found a difference.
const DIFFERENT: u8 = 1;
/// Anything else than done.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    match start(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let (message, code) = failure(&error);
            // With stderr closed there is nobody to tell.
            let _ = writeln!(io::stderr(), "{message}");
            ExitCode::from(code)
        }
    }
}

/// What is printed for an error, its causes after it, and the exit code.
fn failure(error: &Error) -> (String, u8) {
    if let Some(difference) = error.downcast_ref::<WrongAnswer>() {
        return (format!("difference: {difference}"), DIFFERENT);
    }
    if let Some(difference) = error.downcast_ref::<AnotherGraph>() {
        return (format!("difference: {difference}"), DIFFERENT);
    }
    (format!("error: {error:#}"), FAILED)
}

fn start(arguments: Arguments) -> Result<()> {
    let Arguments { command, quiet, verbose } = arguments;
    start_tracing(quiet, verbose);
    let watch = Watch::new(!quiet && verbose == 0, Interrupt::listen()?);
    match command {
        Command::Bfs(args) => run(args.into(), quiet, &watch),
        Command::Cc(args) => run(args.into(), quiet, &watch),
        Command::PageRank(args) => run(args.into(), quiet, &watch),
        Command::Sssp(args) => run(args.into(), quiet, &watch),
        Command::Plan { run: PlannedRun::Bfs(args) } => plan(args.into(), quiet, &watch),
        Command::Plan { run: PlannedRun::Cc(args) } => plan(args.into(), quiet, &watch),
        Command::Plan { run: PlannedRun::PageRank(args) } => plan(args.into(), quiet, &watch),
        Command::Plan { run: PlannedRun::Sssp(args) } => plan(args.into(), quiet, &watch),
        Command::Convert(args) => {
            size_thread_pool(args.threads.threads.map(usize::from))?;
            convert::convert(args, quiet, &watch)
        }
        Command::Extract(args) => {
            size_thread_pool(args.threads.threads.map(usize::from))?;
            extract::extract(args, quiet, &watch)
        }
        Command::Generate(args) => {
            size_thread_pool(args.threads.threads.map(usize::from))?;
            convert::generate(args, quiet, &watch)
        }
        Command::Info(args) => {
            size_thread_pool(args.threads.threads.map(usize::from))?;
            info::info(args, quiet, &watch)
        }
        Command::Datasets(args) => known::datasets(args, quiet, &watch),
        Command::Doctor(args) => doctor::doctor(args, quiet),
    }
}

fn run(settings: RunSettings, quiet: bool, watch: &Watch) -> Result<()> {
    size_thread_pool(settings.config.threads)?;
    run::run(&settings, quiet, watch)
}

fn plan(settings: RunSettings, quiet: bool, watch: &Watch) -> Result<()> {
    size_thread_pool(settings.config.threads)?;
    run::plan(&settings, quiet, watch)
}

/// Loading, conversion and verification take as many threads as the device.
fn size_thread_pool(threads: Option<usize>) -> Result<()> {
    let Some(threads) = threads else { return Ok(()) };
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().context("cannot start threads")
}

fn start_tracing(quiet: bool, verbose: u8) {
    let level = match (quiet, verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, _) => LevelFilter::DEBUG,
    };
    let colors = io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        .with_ansi(colors)
        .with_target(false)
        .init();
}
