//! What the arguments mean: settings of the engine and of the loader, and the vertices that sources name in a graph.

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use gpuvm_engine::graph::{Csr, VertexId};
use gpuvm_engine::{
    Access, DeviceKind, Directions, Doorbell, EngineConfig, Lines, PageRankOptions, Policy, RnicModel,
    TransportConfig, TransportKind, Variant, Workload,
};
use gpuvm_loaders::{LoadOptions, WeightRule};
use serde::Serialize;

use crate::args::{
    AccessArg, BfsArgs, CcArgs, DeviceArg, DeviceArgs, DirectionArg, DoorbellArg, JsonArgs, LinesArg,
    LoadArgs, OrderArg, PageRankArgs, PolicyArg, RunArgs, SearchArgs, SourceArg, SsspArgs, TransportArg,
    TransportArgs, VariantArg, VertexArg,
};
use crate::ids::Ids;

/// A run, before its graph is known.
#[derive(Debug)]
pub struct RunSettings {
    pub algorithm: Algorithm,
    pub graph: PathBuf,
    pub load: LoadOptions,
    pub cache_dir: Option<PathBuf>,
    pub order: Option<OrderArg>,
    pub config: EngineConfig,
    pub search: Option<SearchArgs>,
    pub output: Option<PathBuf>,
    pub json: JsonTarget,
    pub verify: bool,
    pub profile: bool,
}

/// What runs, and how far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Algorithm {
    Bfs { depth_limit: Option<u32>, batch: bool },
    ConnectedComponents,
    PageRank(PageRankOptions),
    Sssp { distance_limit: Option<f64>, delta: Option<f64> },
}

impl Algorithm {
    /// The name of its subcommand.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bfs { .. } => "bfs",
            Self::ConnectedComponents => "cc",
            Self::PageRank(_) => "pagerank",
            Self::Sssp { .. } => "sssp",
        }
    }
}

/// Where JSON goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonTarget {
    Nowhere,
    Stdout,
    File(PathBuf),
}

impl From<JsonArgs> for JsonTarget {
    fn from(args: JsonArgs) -> Self {
        match args.json {
            None => Self::Nowhere,
            Some(None) => Self::Stdout,
            Some(Some(path)) if path.as_os_str() == "-" => Self::Stdout,
            Some(Some(path)) => Self::File(path),
        }
    }
}

impl From<BfsArgs> for RunSettings {
    fn from(args: BfsArgs) -> Self {
        let algorithm = Algorithm::Bfs { depth_limit: args.depth_limit, batch: args.batch };
        Self::new(algorithm, args.run, Some(args.search), WeightRule::Ignore)
    }
}

impl From<CcArgs> for RunSettings {
    fn from(args: CcArgs) -> Self {
        Self::new(Algorithm::ConnectedComponents, args.run, None, WeightRule::Ignore)
    }
}

impl From<PageRankArgs> for RunSettings {
    fn from(args: PageRankArgs) -> Self {
        let PageRankArgs { damping, tolerance, iterations: max_iterations, run } = args;
        let algorithm = Algorithm::PageRank(PageRankOptions { damping, tolerance, max_iterations });
        Self::new(algorithm, run, None, WeightRule::Ignore)
    }
}

impl From<SsspArgs> for RunSettings {
    fn from(args: SsspArgs) -> Self {
        let algorithm = Algorithm::Sssp { distance_limit: args.depth_limit, delta: args.delta.0 };
        Self::new(algorithm, args.run, Some(args.search), args.weights.weights)
    }
}

impl RunSettings {
    fn new(algorithm: Algorithm, run: RunArgs, search: Option<SearchArgs>, weights: WeightRule) -> Self {
        Self {
            algorithm,
            graph: run.graph,
            load: load_options(&run.load, weights),
            cache_dir: run.load.cache_dir,
            order: run.order,
            config: engine_config(&run.device),
            search,
            output: run.output,
            json: run.json.into(),
            verify: run.verify,
            profile: run.profile,
        }
    }

    /// Whether parents are asked for.
    pub fn parents(&self) -> bool {
        self.search.as_ref().is_some_and(|search| search.parents)
    }

    /// Whether sources run many at a time.
    pub fn is_batch(&self) -> bool {
        matches!(self.algorithm, Algorithm::Bfs { batch: true, .. })
    }

    /// What the graph has to be prepared for.
    pub fn workload(&self) -> Workload {
        Workload {
            bfs: matches!(self.algorithm, Algorithm::Bfs { batch: false, .. }),
            bfs_batch: matches!(self.algorithm, Algorithm::Bfs { batch: true, .. }),
            connected_components: self.algorithm == Algorithm::ConnectedComponents,
            page_rank: matches!(self.algorithm, Algorithm::PageRank(_)),
            sssp: matches!(self.algorithm, Algorithm::Sssp { .. }),
            parents: self.parents(),
        }
    }

    /// The target, if there is one, as a vertex of `csr`.
    pub fn target(&self, csr: &Csr, ids: &Ids) -> Result<Option<VertexId>> {
        let target = self.search.as_ref().and_then(|search| search.target.as_ref());
        target.map(|target| vertex("target", target, csr, ids)).transpose()
    }

    /// The sources, in the order given, as vertices of `csr`; none for an algorithm without sources.
    pub fn sources(&self, csr: &Csr, ids: &Ids) -> Result<Vec<VertexId>> {
        let Some(search) = &self.search else { return Ok(Vec::new()) };
        let mut sources = Vec::new();
        for source in &search.source {
            match source {
                SourceArg::Vertex(argument) => sources.push(vertex("source", argument, csr, ids)?),
                SourceArg::Random(count) => sources.extend(random_sources(csr, *count, search.seed)?),
                SourceArg::MaxDegree => {
                    let largest = csr.max_degree_vertex();
                    sources.push(largest.ok_or_else(|| anyhow!("the graph has no vertices to start from"))?);
                }
            }
        }
        Ok(sources)
    }

    /// What is reported of the settings.
    pub fn report(&self) -> SettingsReport {
        let search = self.search.as_ref();
        SettingsReport {
            device: self.config.device,
            gpu_mem_bytes: self.config.gpu_mem,
            access: self.config.access,
            page_size_bytes: self.config.page_size.bytes(),
            variant: self.config.variant,
            policy: self.config.policy,
            direction: self.config.directions,
            lines: self.config.lines,
            transport: TransportReport::new(&self.config.transport),
            weights: self.workload().sssp.then(|| self.load.weights.to_string()),
            seed: search.map(|search| search.seed),
            depth_limit: match self.algorithm {
                Algorithm::Bfs { depth_limit, .. } => depth_limit.map(Limit::Level),
                Algorithm::Sssp { distance_limit, .. } => distance_limit.map(Limit::Distance),
                Algorithm::ConnectedComponents | Algorithm::PageRank(_) => None,
            },
            page_rank: match self.algorithm {
                Algorithm::PageRank(PageRankOptions { damping, tolerance, max_iterations }) => {
                    Some(PageRankSettings { damping, tolerance, max_iterations })
                }
                _ => None,
            },
            delta: match self.algorithm {
                Algorithm::Sssp { delta, .. } => {
                    Some(delta.map_or("auto".to_owned(), |width| width.to_string()))
                }
                _ => None,
            },
            parents: self.parents(),
            batch: match self.algorithm {
                Algorithm::Bfs { batch, .. } => Some(batch),
                _ => None,
            },
        }
    }
}

/// The settings as JSON has them.
#[derive(Clone, Debug, Serialize)]
pub struct SettingsReport {
    pub device: DeviceKind,
    pub gpu_mem_bytes: Option<u64>,
    pub access: Option<Access>,
    pub page_size_bytes: u64,
    pub variant: Variant,
    pub policy: Policy,
    pub direction: Directions,
    pub lines: Lines,
    pub transport: TransportReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth_limit: Option<Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub page_rank: Option<PageRankSettings>,
    pub parents: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<bool>,
}

/// The transport, and its queues if it has any.
#[derive(Clone, Debug, Serialize)]
pub struct TransportReport {
    pub kind: TransportKind,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub queues: Option<QueueReport>,
}

#[derive(Clone, Debug, Serialize)]
pub struct QueueReport {
    pub queue_pairs: u32,
    pub queue_depth: u32,
    pub fault_batch: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rnics: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rnic_model: Option<RnicModel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doorbell: Option<Doorbell>,
}

impl TransportReport {
    fn new(config: &TransportConfig) -> Self {
        let stands_for_nics = matches!(config.kind, TransportKind::Host | TransportKind::Device);
        let queues = config.uses_queues().then(|| QueueReport {
            queue_pairs: config.queue_pairs,
            queue_depth: config.queue_depth,
            fault_batch: config.fault_batch,
            rnics: stands_for_nics.then_some(config.rnics),
            rnic_model: config.rnic_model.filter(|_| stands_for_nics),
            doorbell: (config.kind == TransportKind::Mlx5).then_some(config.doorbell),
        });
        Self { kind: config.kind, queues }
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct PageRankSettings {
    pub damping: f64,
    pub tolerance: f64,
    #[serde(rename = "iterations")]
    pub max_iterations: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum Limit {
    Level(u32),
    Distance(f64),
}

/// How the loader is to read.
pub fn load_options(args: &LoadArgs, weights: WeightRule) -> LoadOptions {
    LoadOptions {
        weights,
        bipartite: args.bipartite,
        symmetrize: args.symmetrize,
        keep_duplicates: args.keep_duplicates,
        keep_loops: args.keep_loops,
        format: args.format,
        columns: args.columns.clone(),
        relabel: args.relabel,
        member: args.member.clone(),
        verify_file: args.verify_file,
        memory_bytes: None,
    }
}

fn engine_config(args: &DeviceArgs) -> EngineConfig {
    EngineConfig {
        device: match args.device {
            DeviceArg::Auto => DeviceKind::detect(),
            DeviceArg::Kind(kind) => kind,
        },
        threads: args.threads.threads.map(usize::from),
        gpu_mem: args.gpu_mem,
        access: match args.access {
            AccessArg::Auto => None,
            AccessArg::Paged => Some(Access::Paged),
            AccessArg::ZeroCopy => Some(Access::ZeroCopy),
            AccessArg::Resident => Some(Access::Resident),
            AccessArg::Managed => Some(Access::Managed),
            AccessArg::ManagedReadMostly => Some(Access::ManagedReadMostly),
        },
        page_size: args.page.page_size,
        variant: match args.variant {
            VariantArg::Auto | VariantArg::Balanced => Variant::Balanced,
            VariantArg::Naive => Variant::Naive,
        },
        policy: match args.policy {
            PolicyArg::Fifo => Policy::Fifo,
            PolicyArg::Clock => Policy::Clock,
            PolicyArg::PinnedShare => Policy::PinnedShare,
        },
        directions: match args.direction {
            DirectionArg::Auto => Directions::Auto,
            DirectionArg::Push => Directions::Push,
            DirectionArg::Pull => Directions::Pull,
        },
        lines: match args.lines {
            LinesArg::Auto => Lines::Auto,
            LinesArg::Never => Lines::Never,
        },
        chunk_edges: args.chunk_edges,
        transport: transport_config(&args.transport),
        ..EngineConfig::default()
    }
}

fn transport_config(args: &TransportArgs) -> TransportConfig {
    let default = TransportConfig::default();
    TransportConfig {
        kind: match args.transport {
            TransportArg::Direct => TransportKind::Direct,
            TransportArg::Host => TransportKind::Host,
            TransportArg::Device => TransportKind::Device,
            TransportArg::Rdma => TransportKind::Rdma,
            TransportArg::Mlx5 => TransportKind::Mlx5,
        },
        queue_pairs: args.queue_pairs,
        queue_depth: args.queue_depth,
        fault_batch: args.fault_batch.unwrap_or(default.fault_batch.min(args.queue_depth)),
        rnics: args.rnics,
        // "all" is what no name means.
        nics: args.nics.iter().filter(|name| *name != "all").cloned().collect(),
        rnic_model: args.rnic_model,
        pin_budget: args.pin_budget,
        doorbell: match args.doorbell {
            DoorbellArg::Assisted => Doorbell::Assisted,
            DoorbellArg::Direct => Doorbell::Direct,
        },
        ..default
    }
}

/// The vertex of `csr` that `argument` names; `role` says what it is in messages.
pub fn vertex(role: &str, argument: &VertexArg, csr: &Csr, ids: &Ids) -> Result<VertexId> {
    let (VertexArg(typed), num_vertices) = (argument, csr.num_vertices());
    let named = typed.parse::<u64>().ok().and_then(|id| ids.vertex(id));
    match named {
        Some(vertex) if u64::from(vertex) < num_vertices => Ok(vertex),
        _ if ids.list().is_some() => bail!("{role} {typed} is none of the ids of the file"),
        _ if num_vertices == 0 => bail!("{role} {typed} is out of range, the graph has no vertices"),
        _ => bail!(
            "{role} {typed} is out of range, the graph has {num_vertices} vertices (0 to {})",
            num_vertices - 1
        ),
    }
}

/// `count` vertices with outgoing edges, no two the same, each as likely as any other; the same for the same seed.
fn random_sources(csr: &Csr, count: u64, seed: u64) -> Result<Vec<VertexId>> {
    let with_edges = || (0..csr.num_vertices() as VertexId).filter(|&u| csr.out_degree(csr.row_of(u)) > 0);
    let available = with_edges().count() as u64;
    if count > available {
        bail!(
            "random:{count} asks for more sources than the graph has vertices with outgoing edges ({available})"
        );
    }
    // Floyd's sampling: draw i is among the first `available - count + i + 1` ranks, or is the last of them.
    let mut state = seed;
    let mut drawn = HashSet::new();
    let mut ranks = Vec::new();
    for last in available - count..available {
        let rank = ((u128::from(split_mix(&mut state)) * u128::from(last + 1)) >> 64) as u64;
        let rank = if drawn.insert(rank) { rank } else { last };
        drawn.insert(rank);
        ranks.push(rank);
    }
    // One pass over the vertices finds those of all ranks.
    let mut by_rank: Vec<usize> = (0..ranks.len()).collect();
    by_rank.sort_unstable_by_key(|&i| ranks[i]);
    let mut sources = vec![0; ranks.len()];
    let mut vertices = with_edges().zip(0_u64..);
    for i in by_rank {
        if let Some((vertex, _)) = vertices.find(|&(_, rank)| rank == ranks[i]) {
            sources[i] = vertex;
        }
    }
    Ok(sources)
}

/// The next number of SplitMix64 (Steele, Lea and Flood 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use gpuvm_engine::graph::Weights;

    use super::*;

    /// Eight vertices, of which the odd ones have an edge to vertex 0.
    fn odd_vertices() -> Csr {
        Csr::new(vec![0, 0, 1, 1, 2, 2, 3, 3, 4], vec![0; 4], Weights::Unit, false).expect("valid")
    }

    #[test]
    fn random_sources_are_distinct_and_have_outgoing_edges() {
        for seed in 0..50 {
            for count in 1..=4 {
                let sources = random_sources(&odd_vertices(), count, seed).expect("there are four");
                let distinct: HashSet<_> = sources.iter().collect();
                assert_eq!(distinct.len() as u64, count);
                assert!(sources.iter().all(|u| u % 2 == 1), "{sources:?}");
            }
        }
    }

    #[test]
    fn random_sources_are_the_same_for_the_same_seed_and_cover_all() {
        let draw = |seed| random_sources(&odd_vertices(), 1, seed).expect("there are four")[0];
        assert_eq!(draw(7), draw(7));
        assert_eq!((0..100).map(draw).collect::<HashSet<_>>(), HashSet::from([1, 3, 5, 7]));
    }

    #[test]
    fn more_random_sources_than_vertices_with_edges_are_refused() {
        let refused = random_sources(&odd_vertices(), 5, 1).expect_err("there are four");
        assert!(refused.to_string().contains("(4)"), "{refused}");
    }

    #[test]
    fn split_mix_gives_the_published_first_number() {
        assert_eq!(split_mix(&mut 0), 0xE220_A839_7B1D_CDAF);
    }
}
