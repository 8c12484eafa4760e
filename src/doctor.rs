//! `doctor`: what of this machine a run depends on, a verdict on each, and what to do.

mod findings;
mod host;
mod nics;
mod topology;

use std::path::Path;

use anyhow::Result;
use gpuvm_engine::{DeviceKind, Engine, EngineConfig, Error, GpuFacts, PageSize};
use serde::Serialize;

use crate::args::{DeviceArg, DoctorArgs};
use crate::output::JsonSink;
use crate::report::{self, Program, Report, SCHEMA, Sheet, count};
use findings::{Finding, Verdict, findings};
use host::HostFacts;

/// All that is known before verdicts.
#[derive(Debug, Serialize)]
struct Facts {
    gpu: Gpu,
    rates: Rates,
    host: HostFacts,
}

#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum Gpu {
    NotAsked,
    Missing {
        reason: String,
    },
    Found {
        #[serde(flatten)]
        facts: Box<GpuFacts>,
    },
}

/// What the link to the device gives.
#[derive(Debug, Serialize)]
struct Rates {
    page_size_bytes: u64,
    /// From pinned host memory, by the copy engine of a GPU.
    copies: Rate,
    /// From pinned host memory, by warps that pull pages.
    pulls: Rate,
}

#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum Rate {
    NotMeasured,
    Failed { reason: String },
    Measured { bytes_per_second: f64 },
}

impl Rates {
    /// Measures on the GPU, or else on the CPU device.
    fn measure(gpu: &mut Gpu, page_size: PageSize) -> Self {
        let device = match gpu {
            Gpu::Found { facts } => DeviceKind::Cuda(facts.ordinal),
            Gpu::NotAsked | Gpu::Missing { .. } => DeviceKind::Cpu,
        };
        let page_size_bytes = page_size.bytes();
        let engine = match Engine::new(EngineConfig { device, page_size, ..EngineConfig::default() }) {
            Ok(engine) => engine,
            Err(error) => {
                let failed = || Rate::Failed { reason: with_causes(&error) };
                return Self { page_size_bytes, copies: failed(), pulls: failed() };
            }
        };
        let (copies, pulls) = (engine.link_rate().into(), engine.pull_rate().map(Some).into());
        // Asked again: the link has just been busy, so it is less likely to have slowed down.
        if let Gpu::Found { facts } = gpu
            && let Ok(busy) = GpuFacts::of(facts.ordinal)
        {
            facts.pcie = busy.pcie;
        }
        Self { page_size_bytes, copies, pulls }
    }
}

impl From<Result<Option<f64>, Error>> for Rate {
    fn from(measured: Result<Option<f64>, Error>) -> Self {
        match measured {
            Ok(None) => Self::NotMeasured,
            Ok(Some(bytes_per_second)) => Self::Measured { bytes_per_second },
            Err(error) => Self::Failed { reason: with_causes(&error) },
        }
    }
}

/// The message of an error and those of its causes.
fn with_causes(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[derive(Debug, Serialize)]
struct DoctorReport {
    schema: u32,
    program: Program,
    #[serde(flatten)]
    facts: Facts,
    findings: Vec<Finding>,
}

/// Looks at the machine and tells. What is wrong with it is in the report and no error, unless a GPU was asked for that
/// is not there.
pub fn doctor(args: DoctorArgs, quiet: bool) -> Result<()> {
    let json = JsonSink::create(&args.json.into(), None)?;
    let mut gpu = match args.device {
        DeviceArg::Kind(DeviceKind::Cpu) => Gpu::NotAsked,
        DeviceArg::Kind(DeviceKind::Cuda(ordinal)) => Gpu::Found { facts: Box::new(GpuFacts::of(ordinal)?) },
        DeviceArg::Auto => match GpuFacts::of(0) {
            Ok(facts) => Gpu::Found { facts: Box::new(facts) },
            Err(error) => Gpu::Missing { reason: with_causes(&error) },
        },
    };
    let rates = Rates::measure(&mut gpu, args.page.page_size);
    let facts = Facts { gpu, rates, host: HostFacts::read(Path::new("/sys")) };
    report::deliver(&DoctorReport::new(facts), json, quiet)
}

impl DoctorReport {
    fn new(facts: Facts) -> Self {
        let findings = findings(&facts);
        Self { schema: SCHEMA, program: Program::new("doctor"), facts, findings }
    }
}

impl Report for DoctorReport {
    fn text(&self) -> String {
        let mut sheet = Sheet::default();
        for finding in &self.findings {
            sheet.line(finding.topic, format_args!("{:<8} {}", finding.verdict.word(), finding.fact));
            if let Some(advice) = &finding.advice {
                sheet.more(format_args!("{:<8} -> {advice}", ""));
            }
        }
        let of = |verdict| self.findings.iter().filter(|finding| finding.verdict == verdict).count() as u64;
        let problems = count(of(Verdict::Problem), "problem", "problems");
        sheet.line("in all", format_args!("{problems}, {}", count(of(Verdict::Note), "note", "notes")));
        sheet.0
    }
}
