//! The result as text for people and as JSON for programs (`docs/json.md`).

use std::fmt::{self, Display, Write as _};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use gpuvm_engine::graph::{Csr, Heads, VertexId, WeightType};
use gpuvm_engine::verify::Distance;
use gpuvm_engine::{
    Access, Direction, MemoryPlan, NO_PARENT, NicStats, PageRankResult, PagingStats, RunStats,
};
use gpuvm_loaders::{Converted, LoadSummary};
use rayon::prelude::*;
use serde::Serialize;

use crate::ids::Ids;
use crate::named::CacheReport;
use crate::output::JsonSink;
use crate::profile::{self, Columns};
use crate::run::Answer;
use crate::settings::{RunSettings, SettingsReport};

/// The version of the JSON: fields may come, none goes or changes its meaning within a version.
pub const SCHEMA: u32 = 1;

/// What can be printed and written as JSON.
pub trait Report: Serialize {
    /// The summary for people.
    fn text(&self) -> String;
}

/// Writes JSON where it was asked for, and the text to stdout unless JSON goes there.
pub fn deliver(report: &impl Report, json: JsonSink, quiet: bool) -> Result<()> {
    let as_json = || serde_json::to_string_pretty(report).context("cannot make JSON of the result");
    match json {
        JsonSink::Nowhere => {}
        JsonSink::Stdout => return print(&(as_json()? + "\n")),
        JsonSink::File(mut draft) => {
            let written = draft.write_all((as_json()? + "\n").as_bytes());
            written.with_context(|| format!("{}: cannot be written", draft.target().display()))?;
            draft.keep()?;
        }
    }
    if quiet { Ok(()) } else { print(&report.text()) }
}

/// Prints to stdout; a reader that has seen enough, like `head`, is no error.
fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Program {
    pub name: &'static str,
    pub version: &'static str,
    pub command: &'static str,
}

impl Program {
    pub fn new(command: &'static str) -> Self {
        Self { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION"), command }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct GraphReport {
    pub path: PathBuf,
    pub vertices: u64,
    pub edges: u64,
    pub symmetric: bool,
    pub weight_type: WeightType,
    /// Of the rows: `natural`, or `degree`. Ids of vertices are the same in both.
    pub order: &'static str,
    /// Whether the edges of a directed graph are there a second time, turned round.
    pub reverse: bool,
    /// 0 for none.
    pub heads_per_vertex: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheReport>,
    #[serde(flatten)]
    pub summary: LoadSummary,
}

impl GraphReport {
    pub fn new(path: &Path, csr: &Csr, summary: LoadSummary, cache: Option<CacheReport>) -> Self {
        Self {
            path: path.to_owned(),
            vertices: csr.num_vertices(),
            edges: csr.num_edges(),
            symmetric: csr.is_symmetric(),
            weight_type: csr.weights().weight_type(),
            order: if csr.permutation().is_some() { "degree" } else { "natural" },
            reverse: csr.reverse().is_some(),
            heads_per_vertex: csr.incoming().and_then(Csr::heads).map_or(0, Heads::per_vertex),
            cache,
            summary,
        }
    }

    /// Of a graph that was converted without being in memory.
    pub fn of_converted(path: &Path, converted: Converted) -> Self {
        Self {
            path: path.to_owned(),
            vertices: converted.num_vertices,
            edges: converted.num_edges,
            symmetric: converted.symmetric,
            weight_type: converted.weight_type,
            order: "natural",
            reverse: false,
            heads_per_vertex: 0,
            cache: None,
            summary: converted.summary,
        }
    }

    /// What the graph is, and what became of the entries of its file.
    pub fn describe(&self, sheet: &mut Sheet) {
        let summary = &self.summary;
        let from =
            summary.converted_from.as_ref().map_or_else(String::new, |format| format!(" from {format}"));
        sheet.line("graph", self.path.display());
        if let Some(CacheReport { file, generated }) = &self.cache {
            let how = if *generated { "generated, kept" } else { "kept" };
            sheet.more(format_args!("{how} in {}", file.display()));
        }
        sheet.more(format_args!("{}{from}, {} {}", summary.format, summary.field, summary.symmetry));
        let (vertices, edges) =
            (count(self.vertices, "vertex", "vertices"), count(self.edges, "edge", "edges"));
        match (self.symmetric, summary.loops_kept && summary.self_loops > 0) {
            (false, _) => sheet.more(format_args!("{vertices}, {edges}, directed")),
            (true, true) => {
                sheet.more(format_args!("{vertices}, {edges}, both directions counted: undirected"))
            }
            (true, false) => {
                let undirected = count(self.edges / 2, "undirected edge", "undirected edges");
                sheet.more(format_args!(
                    "{vertices}, {undirected}, {} with both directions",
                    grouped(self.edges)
                ));
            }
        }
        let fate = |kept: bool, otherwise: &'static str| if kept { "kept" } else { otherwise };
        sheet.more(format_args!(
            "self-loops {} ({}), duplicates {} ({}), explicit zeros {} (edges)",
            grouped(summary.self_loops),
            fate(summary.loops_kept, "dropped"),
            grouped(summary.duplicates),
            fate(summary.duplicates_kept, "merged, smallest weight"),
            grouped(summary.explicit_zeros),
        ));
        if summary.dropped_zeros > 0 {
            sheet.more(format_args!("zeros of the dense file {} (no edges)", grouped(summary.dropped_zeros)));
        }
        let reversed = if summary.symmetrized { ", the reverse of every edge was added" } else { "" };
        match summary.bipartite {
            false => sheet.more(format_args!("ids count from 0: row i of the file is vertex i - 1{reversed}")),
            true => sheet.more(format_args!(
                "ids count from 0: row i of the file is vertex i - 1, column j is vertex {} + j - 1{reversed}",
                summary.rows
            )),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Timings {
    pub load_seconds: f64,
    pub build_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare_seconds: Option<f64>,
}

impl Timings {
    /// Times of a load that took `elapsed` in all.
    pub fn of_load(elapsed: Duration, summary: &LoadSummary) -> Self {
        let build_seconds = summary.build_seconds;
        let load_seconds = (elapsed.as_secs_f64() - build_seconds).max(0.0);
        Self { load_seconds, build_seconds, prepare_seconds: None }
    }
}

impl Display for Timings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "load {}, build {}", time(self.load_seconds), time(self.build_seconds))?;
        self.prepare_seconds.map_or(Ok(()), |seconds| write!(f, ", prepare {}", time(seconds)))
    }
}

/// `bfs`, `cc`, `pagerank` and `sssp`, or without runs `plan`.
#[derive(Debug, Serialize)]
pub struct RunReport {
    schema: u32,
    program: Program,
    graph: GraphReport,
    settings: SettingsReport,
    device: String,
    plan: MemoryPlan,
    timings: Timings,
    #[serde(skip)]
    profile: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_bytes_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    components: Option<Components>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_rank: Option<Ranks>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runs: Vec<Run>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<Mean>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
}

/// What connected components found.
#[derive(Clone, Debug, Serialize)]
struct Components {
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    largest: Option<Component>,
}

#[derive(Clone, Debug, Serialize)]
struct Component {
    label: u64,
    vertices: u64,
}

/// What PageRank found.
#[derive(Clone, Debug, Serialize)]
struct Ranks {
    iterations: u64,
    change: f64,
    converged: bool,
    /// Of the largest ranks, the largest first.
    largest: Vec<Rank>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Rank {
    vertex: u64,
    rank: f64,
}

impl Ranks {
    /// Ranks that are shown.
    const SHOWN: usize = 10;

    fn new(found: &PageRankResult, ids: &Ids) -> Self {
        let larger = |a: &Rank, b: &Rank| b.rank.total_cmp(&a.rank).then(a.vertex.cmp(&b.vertex));
        let all = found.ranks.par_iter().enumerate().map(|(v, &rank)| Rank { vertex: v as u64, rank });
        let mut largest = all
            .fold(Vec::new, |mut largest, rank| {
                let at = largest.partition_point(|other| larger(other, &rank).is_lt());
                if at < Self::SHOWN {
                    largest.insert(at, rank);
                    largest.truncate(Self::SHOWN);
                }
                largest
            })
            .reduce(Vec::new, |mut a, b| {
                a.extend(b);
                a.sort_by(larger);
                a.truncate(Self::SHOWN);
                a
            });
        largest.iter_mut().for_each(|rank| rank.vertex = ids.of(rank.vertex as VertexId));
        Self { iterations: found.iterations, change: found.change, converged: found.converged, largest }
    }

    fn describe(&self, sheet: &mut Sheet) {
        let passes = count(self.iterations, "iteration", "iterations");
        let state = if self.converged { "converged" } else { "not converged: try more --iterations" };
        sheet.line("ranks", format_args!("{passes}, the last changed them by {:.3e}, {state}", self.change));
        for (i, Rank { vertex, rank }) in self.largest.iter().enumerate() {
            let line = format!("{rank:<12.6e} vertex {vertex}");
            if i == 0 { sheet.line("largest", line) } else { sheet.more(line) }
        }
    }
}

/// One run.
#[derive(Clone, Debug, Serialize)]
struct Run {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_level: Option<Distance>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_distance: Option<Distance>,
    #[serde(skip_serializing_if = "Option::is_none")]
    farthest_vertex: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    edges_traversed: u64,
    edges_looked_at: u64,
    gteps: f64,
    #[serde(flatten)]
    paging: PagingStats,
    /// What each NIC did; empty with transport `direct`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nics: Vec<NicStats>,
    /// The steps and the seconds of the whole.
    #[serde(flatten)]
    stats: RunStats,
}

#[derive(Clone, Debug, Serialize)]
struct Target {
    vertex: u64,
    /// Level or distance; none if not reached.
    value: Option<Distance>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Vec<u64>>,
}

#[derive(Clone, Debug, Serialize)]
struct Mean {
    reached: f64,
    seconds: f64,
    gteps: f64,
}

impl Run {
    fn new(answer: &Answer, csr: &Csr, ids: &Ids, target: Option<VertexId>, nics: Vec<NicStats>) -> Self {
        let stats = answer.stats();
        let vertices = (0..csr.num_vertices() as VertexId).into_par_iter();
        let edges_of_reached: u64 =
            vertices.filter(|&v| answer.is_reached(v)).map(|v| csr.out_degree(csr.row_of(v))).sum();
        // A pull looks at few of the edges of what it reaches: that is its point.
        let pulled = stats.steps.iter().any(|step| step.direction == Direction::Pull);
        let edges_traversed = match answer {
            Answer::PageRank(_) => stats.edges(),
            Answer::Bfs(_) if pulled => edges_of_reached,
            _ => edges_of_reached.min(stats.edges()),
        };
        let (reached, farthest) = match answer {
            Answer::Bfs(found) => (Some(found.reached), farthest(answer)),
            Answer::Sssp(found) => (Some(found.reached), farthest(answer)),
            Answer::Components(_) | Answer::PageRank(_) => (None, None),
        };
        let largest = farthest.map(|(_, value)| value);
        let no_way_out = |&source: &VertexId| csr.out_degree(csr.row_of(source)) == 0;
        Self {
            source: answer.source().map(|source| ids.of(source)),
            reached,
            max_level: largest.filter(|_| matches!(answer, Answer::Bfs(_))),
            max_distance: largest.filter(|_| matches!(answer, Answer::Sssp(_))),
            farthest_vertex: farthest.map(|(vertex, _)| ids.of(vertex)),
            target: target.map(|vertex| Target {
                vertex: ids.of(vertex),
                value: answer.value(vertex),
                path: path_to(answer, vertex).map(|path| path.into_iter().map(|v| ids.of(v)).collect()),
            }),
            hint: answer.source().filter(no_way_out).map(|source| match csr.num_edges() {
                0 => "the graph has no edges".to_owned(),
                _ => format!("source {} has no outgoing edges; try --source max-degree", ids.of(source)),
            }),
            edges_traversed,
            edges_looked_at: stats.edges(),
            gteps: giga_a_second(edges_traversed, stats.seconds),
            paging: stats.paging(),
            nics,
            stats: stats.clone(),
        }
    }

    fn value_name(&self) -> &'static str {
        if self.max_level.is_some() { "level" } else { "distance" }
    }

    fn largest(&self) -> String {
        self.max_level.or(self.max_distance).map_or_else(|| "-".to_owned(), |value| value.to_string())
    }
}

/// The vertex reached last, of several the smallest, and its level or distance.
fn farthest(answer: &Answer) -> Option<(VertexId, Distance)> {
    let nearer = |a: &Distance, b: &Distance| match (a, b) {
        (Distance::Integer(a), Distance::Integer(b)) => a.cmp(b),
        (Distance::Real(a), Distance::Real(b)) => a.total_cmp(b),
        (Distance::Integer(_), Distance::Real(_)) => std::cmp::Ordering::Less,
        (Distance::Real(_), Distance::Integer(_)) => std::cmp::Ordering::Greater,
    };
    (0..answer.num_vertices() as VertexId)
        .into_par_iter()
        .filter_map(|v| Some((v, answer.value(v)?)))
        .max_by(|(u, a), (v, b)| nearer(a, b).then(v.cmp(u)))
}

/// From the source to `target` along parents; none without parents, or if the target was not reached.
fn path_to(answer: &Answer, target: VertexId) -> Option<Vec<VertexId>> {
    let parents = answer.parents().filter(|_| answer.is_reached(target))?;
    let mut path = vec![target];
    // Parents that go in a circle would be a bug: --verify names it, here it must only end.
    while let Some(&parent) = parents.get(path[path.len() - 1] as usize)
        && parent != NO_PARENT
        && path.len() < parents.len()
    {
        path.push(parent);
    }
    path.reverse();
    Some(path)
}

fn giga_a_second(edges: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { edges as f64 / seconds / 1e9 } else { 0.0 }
}

impl RunReport {
    pub fn new(
        settings: &RunSettings,
        device: String,
        graph: GraphReport,
        plan: MemoryPlan,
        timings: Timings,
    ) -> Self {
        Self {
            schema: SCHEMA,
            program: Program::new(settings.algorithm.name()),
            graph,
            settings: settings.report(),
            device,
            plan,
            timings,
            profile: settings.profile,
            link_bytes_per_second: None,
            components: None,
            page_rank: None,
            runs: Vec::new(),
            mean: None,
            verified: None,
            output: None,
        }
    }

    /// Adds a run, and what NICs did for it.
    pub fn add(
        &mut self,
        answer: &Answer,
        csr: &Csr,
        ids: &Ids,
        target: Option<VertexId>,
        nics: Vec<NicStats>,
    ) {
        if let Answer::Components(found) = answer {
            let largest = found.largest.map(|(label, vertices)| Component { label: ids.of(label), vertices });
            self.components = Some(Components { count: found.num_components, largest });
        }
        if let Answer::PageRank(found) = answer {
            self.page_rank = Some(Ranks::new(found, ids));
        }
        self.runs.push(Run::new(answer, csr, ids, target, nics));
        if self.runs.len() > 1 {
            let runs = self.runs.len() as f64;
            let seconds: f64 = self.runs.iter().map(|run| run.stats.seconds).sum();
            let edges = self.runs.iter().map(|run| run.edges_traversed).sum();
            let reached: f64 =
                self.runs.iter().filter_map(|run| run.reached).map(|reached| reached as f64).sum();
            self.mean = Some(Mean {
                reached: reached / runs,
                seconds: seconds / runs,
                gteps: giga_a_second(edges, seconds),
            });
        }
    }

    fn describe_settings(&self, sheet: &mut Sheet) {
        let (settings, plan) = (&self.settings, &self.plan);
        sheet.line("run", format_args!("{}, {}, on {}", self.program.command, settings.variant, self.device));
        if let Some(weights) = &settings.weights {
            match self.graph.weight_type.to_string() {
                held if held == *weights => sheet.more(format_args!("weights {weights}")),
                held => sheet.more(format_args!("weights {weights}, held as {held}")),
            }
        }
        sheet.line("access", format_args!("{} ({})", plan.access, plan.access_reason));
        if plan.access == Access::Paged {
            sheet.more(format_args!(
                "{} of {}, {}, {}",
                count(plan.num_pages, "page", "pages"),
                ByteSize::b(plan.page_size.bytes()),
                count(plan.num_frames, "frame", "frames"),
                settings.policy,
            ));
        }
        if let Some(queues) = &settings.transport.queues {
            let nics = queues
                .rnics
                .map_or_else(String::new, |nics| format!("{}, ", count(nics.into(), "NIC", "NICs")));
            let model = queues.rnic_model.map_or_else(String::new, |model| format!(", {model}"));
            sheet.more(format_args!(
                "transport {}, {nics}each {} of {}, batches of {}{model}",
                settings.transport.kind,
                count(queues.queue_pairs.into(), "queue pair", "queue pairs"),
                queues.queue_depth,
                queues.fault_batch,
            ));
        }
    }

    fn describe_plan(&self, sheet: &mut Sheet) {
        let plan = &self.plan;
        let row =
            |name: &str, bytes: u64| format!("{name:<18}{:>18}  {}", grouped(bytes), ByteSize::b(bytes));
        sheet.line("plan", format_args!("{:<18}{:>18}", "", "bytes"));
        for item in plan.items.iter().filter(|item| item.bytes > 0) {
            sheet.more(row(item.name, item.bytes));
        }
        sheet.more(row("total", plan.total_bytes));
        sheet.more(row("budget", plan.budget_bytes));
        sheet.more(row("least if paged", plan.least_bytes));
        sheet.line("chunks", format_args!("of at most {}", count(plan.chunk_edges.into(), "edge", "edges")));
    }

    fn describe_run(&self, run: &Run, sheet: &mut Sheet) {
        if let (Some(source), Some(reached)) = (run.source, run.reached) {
            sheet.line("source", source);
            sheet.line(
                "reached",
                format_args!("{} of {}", grouped(reached), count(self.graph.vertices, "vertex", "vertices")),
            );
        }
        if let Some(Distance::Integer(last)) = run.max_level {
            sheet.line("levels", format_args!("{} (0 to {})", grouped(last + 1), grouped(last)));
        }
        if let (Some(farthest), Some(distance)) = (run.farthest_vertex, run.max_distance) {
            sheet.line("farthest", format_args!("vertex {farthest} at distance {distance}"));
        }
        describe_target(run, sheet);
        if let Some(hint) = &run.hint {
            sheet.line("hint", hint);
        }
    }

    /// A table a run, a line a NIC.
    fn describe_nics(&self, run: &Run, sheet: &mut Sheet) {
        if run.nics.is_empty() {
            return;
        }
        let row = |cells: [&dyn Display; 8]| {
            let [name, requests, bytes, share, batches, doorbells, depth, latency] =
                cells.map(ToString::to_string);
            format!(
                "{name:<10} {requests:>12} {bytes:>10} {share:>6} {batches:>11} {doorbells:>11} {depth:>6} {latency:>24}"
            )
        };
        let title = row([
            &"",
            &"requests",
            &"in",
            &"share",
            &"batches",
            &"doorbells",
            &"depth",
            &"us, p50/p90/p99/max",
        ]);
        match run.source.filter(|_| self.runs.len() > 1) {
            Some(source) => {
                sheet.line("NICs", format_args!("from source {source}"));
                sheet.more(title);
            }
            None => sheet.line("NICs", title),
        }
        let all_bytes: u64 = run.nics.iter().map(|nic| nic.bytes).sum();
        for nic in &run.nics {
            let latency = nic.latency_us;
            sheet.more(row([
                &nic.name,
                &grouped(nic.requests),
                &ByteSize::b(nic.bytes),
                &format!("{:.1}%", nic.bytes as f64 * 100.0 / all_bytes.max(1) as f64),
                &grouped(nic.batches),
                &grouped(nic.doorbells),
                &format!("{:.1}", nic.mean_queue_depth),
                &format!("{:.0}/{:.0}/{:.0}/{:.0}", latency.p50, latency.p90, latency.p99, latency.max),
            ]));
            if nic.lost {
                let again = count(nic.flushed, "request was", "requests were");
                let why = nic.lost_because.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
                sheet.more(format_args!("{} is lost{why}: {again} posted again to others", nic.name));
            }
        }
    }

    /// A table a run: steps of one number have nothing in common between sources but the number.
    fn describe_profile(&self, sheet: &mut Sheet) {
        let columns =
            Columns { paging: self.plan.access == Access::Paged, link_rate: self.link_bytes_per_second };
        if let Some(rate) = self.link_bytes_per_second {
            sheet.line("link", format_args!("{:.1} GB/s by the copy engine", rate / 1e9));
        }
        for run in &self.runs {
            match run.source.filter(|_| self.runs.len() > 1) {
                Some(source) => sheet.line("profile", format_args!("from source {source}")),
                None => sheet.line("profile", "of all steps"),
            }
            profile::describe_steps(&run.stats, columns, sheet);
        }
        if self.runs.len() > 1 {
            let steps = self.runs.iter().flat_map(|run| &run.stats.steps);
            profile::describe_all(steps, columns, sheet);
        }
    }

    /// A line a run, and the mean.
    fn describe_runs(&self, mean: &Mean, sheet: &mut Sheet) {
        let name = self.runs.first().map_or("", Run::value_name);
        let row = |cells: [&dyn Display; 6]| {
            let [source, reached, largest, vertex, time, gteps] = cells.map(ToString::to_string);
            format!("{source:>10} {reached:>13} {largest:>21} {vertex:>10} {time:>11} {gteps:>9}")
        };
        sheet.line(
            "sources",
            row([&"source", &"reached", &format!("max {name}"), &"at vertex", &"time", &"GTEPS"]),
        );
        for run in &self.runs {
            let reached = run.reached.map(grouped).unwrap_or_default();
            let (source, vertex) = (run.source.unwrap_or_default(), run.farthest_vertex.unwrap_or_default());
            sheet.more(row([
                &source,
                &reached,
                &run.largest(),
                &vertex,
                &time(run.stats.seconds),
                &speed(run.gteps),
            ]));
        }
        let reached = format!("{:.1}", mean.reached);
        sheet.more(row([&"mean", &reached, &"", &"", &time(mean.seconds), &speed(mean.gteps)]));
        for run in &self.runs {
            describe_target(run, sheet);
        }
        for hint in self.runs.iter().filter_map(|run| run.hint.as_ref()) {
            sheet.line("hint", hint);
        }
    }
}

fn describe_target(run: &Run, sheet: &mut Sheet) {
    let Some(target) = &run.target else { return };
    let from = run.source.unwrap_or_default();
    match target.value {
        None => sheet.line("target", format_args!("{} from {from}: not reached", target.vertex)),
        Some(value) => {
            sheet.line("target", format_args!("{} from {from}: {} {value}", target.vertex, run.value_name()));
        }
    }
    if let Some(path) = &target.path {
        /// Vertices printed at each end of a long path.
        const SHOWN: usize = 16;
        let names = |part: &[u64]| part.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        if path.len() <= 2 * SHOWN {
            sheet.line("path", names(path));
        } else {
            let more = path.len() - 2 * SHOWN;
            let (begin, end) = (&path[..SHOWN], &path[path.len() - SHOWN..]);
            sheet.line("path", format_args!("{} ... {more} more ... {}", names(begin), names(end)));
        }
    }
}

impl Report for RunReport {
    fn text(&self) -> String {
        let mut sheet = Sheet::default();
        self.graph.describe(&mut sheet);
        self.describe_settings(&mut sheet);
        if self.runs.is_empty() {
            self.describe_plan(&mut sheet);
            sheet.line("time", &self.timings);
            return sheet.0;
        }
        let (total, budget) = (ByteSize::b(self.plan.total_bytes), ByteSize::b(self.plan.budget_bytes));
        sheet.line("memory", format_args!("{total} of {budget}"));
        if let Some(components) = &self.components {
            sheet.line("components", grouped(components.count));
            if let Some(largest) = &components.largest {
                let vertices = count(largest.vertices, "vertex", "vertices");
                sheet.line("largest", format_args!("{vertices}, of which {} is the smallest", largest.label));
            }
        }
        if let Some(ranks) = &self.page_rank {
            ranks.describe(&mut sheet);
        }
        match (&self.mean, &self.runs[..]) {
            (Some(mean), _) => self.describe_runs(mean, &mut sheet),
            (None, runs) => runs.iter().for_each(|run| self.describe_run(run, &mut sheet)),
        }
        let run_seconds = self.runs.iter().map(|run| run.stats.seconds).sum();
        sheet.line("time", format_args!("{}, run {}", self.timings, time(run_seconds)));
        let edges = self.runs.iter().map(|run| run.edges_traversed).sum();
        let gteps = speed(giga_a_second(edges, run_seconds));
        sheet.line("speed", format_args!("{gteps} GTEPS ({} traversed)", count(edges, "edge", "edges")));
        if self.plan.access == Access::Paged {
            let paging: PagingStats = self.runs.iter().map(|run| run.paging).sum();
            sheet.line(
                "paging",
                format_args!(
                    "hits {}, faults {}, coalesced {}, evictions {}, in {}",
                    grouped(paging.hits),
                    grouped(paging.faults),
                    grouped(paging.coalesced),
                    grouped(paging.evictions),
                    ByteSize::b(paging.bytes_in),
                ),
            );
        }
        self.runs.iter().for_each(|run| self.describe_nics(run, &mut sheet));
        if self.profile {
            self.describe_profile(&mut sheet);
        }
        if self.verified == Some(true) {
            sheet.line("verified", "yes, no difference");
        }
        if let Some(output) = &self.output {
            sheet.line("output", output.display());
        }
        sheet.0
    }
}

/// Lines of a label and a text, aligned.
#[derive(Debug, Default)]
pub struct Sheet(pub String);

impl Sheet {
    pub fn line(&mut self, label: &str, text: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{label:<11}{text}");
    }

    /// One more line for the last label.
    pub fn more(&mut self, text: impl Display) {
        self.line("", text);
    }
}

/// A number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and what it counts.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// Seconds with a unit that suits them.
pub fn time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.3} ms", seconds * 1e3) } else { format!("{seconds:.3} s") }
}

/// Three digits that count, however slow.
fn speed(gteps: f64) -> String {
    if gteps == 0.0 || gteps >= 0.001 { format!("{gteps:.3}") } else { format!("{gteps:.2e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn times_have_a_unit_that_suits_them() {
        assert_eq!(time(0.0000125), "0.013 ms");
        assert_eq!(time(0.5), "500.000 ms");
        assert_eq!(time(12.3456), "12.346 s");
    }

    #[test]
    fn speed_of_a_run_without_time_is_zero_and_no_division() {
        assert_eq!(giga_a_second(5, 0.0), 0.0);
        assert_eq!(speed(giga_a_second(2_000_000_000, 1.0)), "2.000");
        assert_eq!(speed(1.25e-5), "1.25e-5");
    }
}
