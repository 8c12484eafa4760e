//! The table, the same as JSON, and the lines at its end that say what it comes to.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use gpuvm_engine::graph::Csr;
use gpuvm_engine::{Access, EngineConfig, Lines, PagingStats, StepStats, Variant};
use serde::Serialize;

use crate::Budget;
use crate::measure::{Algorithm, Measurement};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Temperature {
    Cold,
    Warm,
}

/// What a row is about.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    graph: String,
    algorithm: Algorithm,
    access: Access,
    variant: Variant,
    /// Whether a paged BFS may read lines.
    lines: Lines,
    /// None unless paged.
    budget: Option<Budget>,
    pub temperature: Temperature,
}

impl Row {
    pub fn new(
        graph: &str,
        algorithm: Algorithm,
        config: &EngineConfig,
        budget: Option<Budget>,
        temperature: Temperature,
    ) -> Self {
        let access = config.access.expect("every row has its access");
        let (graph, variant, lines) = (graph.to_owned(), config.variant, config.lines);
        Self { graph, algorithm, access, variant, lines, budget, temperature }
    }

    /// Whether the graph is one of many small levels.
    fn is_grid(&self) -> bool {
        self.graph.starts_with("grid")
    }

    /// Operation, graph, what varies.
    pub fn name(&self) -> String {
        let mut name = format!("{}/{}/{}", self.algorithm.name(), self.graph, self.access);
        if let Some(budget) = self.budget {
            name += &format!(" {budget}");
        }
        if self.lines == Lines::Never {
            name += " no lines";
        }
        // The edges of `resident` are always there, and nothing keeps those of zero-copy.
        if !matches!(self.access, Access::Resident | Access::ZeroCopy)
            && self.temperature == Temperature::Warm
        {
            name += " warm";
        }
        if self.variant == Variant::Naive { name + " naive" } else { name }
    }
}

#[derive(Debug, Serialize)]
struct Measured {
    name: String,
    #[serde(flatten)]
    row: Row,
    runs: usize,
    seconds: f64,
    whole_seconds: f64,
    least_seconds: f64,
    most_seconds: f64,
    gteps: f64,
    levels: u64,
    #[serde(flatten)]
    paging: PagingStats,
    /// Bytes over the link: counted if paged, else those of the edges looked at.
    link_bytes: u64,
    link_bytes_counted: bool,
    link_share: Option<f64>,
    largest_step: Option<LargestStep>,
}

/// The step that fetches most.
#[derive(Debug, Serialize)]
struct LargestStep {
    number: usize,
    #[serde(flatten)]
    step: StepStats,
    link_share: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Missing {
    name: String,
    reason: String,
}

#[derive(Debug, Serialize)]
pub struct Report {
    device: String,
    link_bytes_a_second: Option<f64>,
    rows: Vec<Measured>,
    missing: Vec<Missing>,
    summary: Vec<String>,
    #[serde(skip)]
    json: Option<PathBuf>,
}

const NAME_WIDTH: usize = 44;

const NO_TIME: &str = "no time was left";

impl Report {
    pub fn new(device: String, link_bytes_a_second: Option<f64>, json: Option<PathBuf>) -> Self {
        match link_bytes_a_second {
            Some(rate) => println!("{device}, copy engine {:.1} GB/s", rate / 1e9),
            None => println!("{device}, no link"),
        }
        let report = Self {
            device,
            link_bytes_a_second,
            rows: Vec::new(),
            missing: Vec::new(),
            summary: Vec::new(),
            json,
        };
        // A file that cannot be written is found out now, not after the first row.
        report.write();
        report
    }

    pub fn graph(&self, name: &str, csr: &Csr, took: Duration) {
        println!(
            "\n{name}: {} vertices, {} edges, weights {:?}, generated in {:.1} s",
            csr.num_vertices(),
            csr.num_edges(),
            csr.weights().weight_type(),
            took.as_secs_f64()
        );
        println!(
            "{:NAME_WIDTH$} {:>4} {:>9} {:>8} {:>7} {:>6} {:>8} {:>9} {:>9} {:>8} {:>6}",
            "",
            "runs",
            "seconds",
            "whole",
            "GTEPS",
            "levels",
            "us/level",
            "faults",
            "evicted",
            "GB in",
            "share"
        );
    }

    fn share(&self, bytes: u64, seconds: f64) -> Option<f64> {
        self.link_bytes_a_second.filter(|_| seconds > 0.0).map(|rate| bytes as f64 / seconds / rate)
    }

    pub fn add(&mut self, row: Row, measured: Measurement) {
        let Measurement { runs, median, least_seconds, most_seconds } = measured;
        let (seconds, paging) = (median.seconds, median.paging);
        let counted = matches!(row.access, Access::Paged);
        let link_bytes = match (row.access, row.temperature) {
            (Access::Paged, _) => paging.bytes_in,
            (Access::ZeroCopy, _) => median.looked_at_bytes,
            (Access::Managed | Access::ManagedReadMostly, Temperature::Cold) => {
                median.looked_at_bytes.min(median.graph_bytes)
            }
            _ => 0,
        };
        let link_share = self.share(link_bytes, seconds);
        let approximately = if counted || link_bytes == 0 { "" } else { "~" };
        let name = row.name();
        println!(
            "{name:NAME_WIDTH$} {runs:>4} {seconds:>9.4} {:>8.4} {:>7.2} {:>6} {:>8.1} {:>9} {:>9} {:>8.3} {:>6}",
            median.whole_seconds,
            median.edges as f64 / seconds / 1e9,
            median.levels,
            seconds * 1e6 / median.levels.max(1) as f64,
            paging.faults,
            paging.evictions,
            paging.bytes_in as f64 / 1e9,
            percent(link_share, approximately)
        );
        let has_passes =
            row.temperature == Temperature::Cold && row.variant == Variant::Balanced && !row.is_grid();
        let largest_step = median.largest_step.filter(|_| has_passes).map(|(number, step)| {
            let link_share = self.share(step.paging.bytes_in, step.seconds);
            println!(
                "{:NAME_WIDTH$} {runs:>4} {:>9.4} {:>8} {:>7.2} {:>6} {:>8.1} {:>9} {:>9} {:>8.3} {:>6}",
                format!("  its largest step, number {}", number + 1),
                step.seconds,
                "",
                step.edges as f64 / step.seconds / 1e9,
                1,
                step.seconds * 1e6,
                step.paging.faults,
                step.paging.evictions,
                step.paging.bytes_in as f64 / 1e9,
                percent(link_share, "")
            );
            LargestStep { number: number + 1, step, link_share }
        });
        self.rows.push(Measured {
            name,
            row,
            runs,
            seconds,
            whole_seconds: median.whole_seconds,
            least_seconds,
            most_seconds,
            gteps: median.edges as f64 / seconds / 1e9,
            levels: median.levels,
            paging,
            link_bytes,
            link_bytes_counted: counted,
            link_share,
            largest_step,
        });
        self.write();
    }

    /// A row for which no time was left.
    pub fn skip(&mut self, name: String) {
        self.missing.push(Missing { name, reason: NO_TIME.to_owned() });
    }

    /// A row that this device cannot run.
    pub fn not_run(&mut self, name: String, reason: &impl Display) {
        println!("{name:NAME_WIDTH$} not run: {reason}");
        self.missing.push(Missing { name, reason: reason.to_string() });
    }

    /// The file as far as it goes, so that a program that is stopped leaves what it has.
    fn write(&self) {
        let Some(path) = &self.json else { return };
        let text = serde_json::to_string_pretty(self).expect("rows have names for keys and finite numbers");
        if let Err(error) = std::fs::write(path, text + "\n") {
            crate::fail(2, &format!("{}: cannot be written: {error}", path.display()));
        }
    }

    /// Names what is missing, sums up, and writes the JSON.
    pub fn finish(&mut self) {
        // Rows that could not run have said so in their place.
        let skipped: Vec<_> = self.missing.iter().filter(|missing| missing.reason == NO_TIME).collect();
        if !skipped.is_empty() {
            println!("\nskipped, no time was left:");
            skipped.iter().for_each(|missing| println!("  {}", missing.name));
        }
        self.summary = self.summarize();
        println!();
        self.summary.iter().for_each(|line| println!("{line}"));
        self.write();
    }

    fn find(&self, of: &Row, access: Access, percent: Option<f64>) -> Option<&Measured> {
        self.rows.iter().find(|measured| {
            let row = &measured.row;
            (&row.graph, row.algorithm) == (&of.graph, of.algorithm)
                && (row.access, row.budget) == (access, percent.map(Budget::Percent))
                && (row.variant, row.lines) == (Variant::Balanced, Lines::Auto)
                && row.temperature == Temperature::Cold
        })
    }

    /// What the product is measured by; all of the balanced variant, cold.
    fn summarize(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut speedups = Vec::new();
        let all_frames = self.rows.iter().filter(|measured| {
            self.find(&measured.row, Access::Paged, Some(100.0))
                .is_some_and(|row| std::ptr::eq(row, *measured))
        });
        for paged in all_frames {
            let row = &paged.row;
            let of = format!("{} {}", row.algorithm.name(), row.graph);
            if row.is_grid() {
                let us = paged.seconds * 1e6 / paged.levels.max(1) as f64;
                lines.push(format!("{of}: {us:.1} us a level, paged with frames for all"));
                continue;
            }
            if let Some(managed) = self.find(row, Access::ManagedReadMostly, None) {
                let speedup = managed.seconds / paged.seconds;
                speedups.push(speedup);
                lines.push(format!("{of}: paged is {speedup:.2} times as fast as managed-read-mostly"));
            }
            if let Some(zero_copy) = self.find(row, Access::ZeroCopy, None) {
                let speedup = zero_copy.seconds / paged.seconds;
                lines.push(format!("{of}: paged is {speedup:.2} times as fast as zero-copy"));
            }
            if let Some(quarter) = self.find(row, Access::Paged, Some(25.0)) {
                let slowdown = quarter.seconds / paged.seconds;
                lines
                    .push(format!("{of}: frames for 25% take {slowdown:.2} times as long as frames for all"));
            }
            if let Some(step) = &paged.largest_step {
                let bytes = step.step.paging.bytes_in as f64;
                lines.push(format!(
                    "{of}: its largest step, number {}, fetches {:.3} GB at {:.1} GB/s, {} of the link",
                    step.number,
                    bytes / 1e9,
                    bytes / step.step.seconds / 1e9,
                    percent(step.link_share, "")
                ));
            }
        }
        if !speedups.is_empty() {
            let mean = (speedups.iter().map(|x| x.ln()).sum::<f64>() / speedups.len() as f64).exp();
            lines.push(format!(
                "paged is {mean:.2} times as fast as managed-read-mostly, the geometric mean of {} rows",
                speedups.len()
            ));
        }
        lines
    }
}

fn percent(share: Option<f64>, approximately: &str) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{approximately}{:.0}%", share * 100.0))
}
