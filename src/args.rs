//! What was typed: a struct a subcommand, options in common flattened in. What it means is in `settings`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use gpuvm_datasets::NamedGraph;
use gpuvm_engine::graph::{Csr, Heads, Order};
use gpuvm_engine::{DeviceKind, PageSize, RnicModel, TransportConfig};
use gpuvm_loaders::{Format, OutputFormat, WeightRule};

/// Graph analytics for graphs larger than GPU memory
///
/// Reads graph files of many formats (`--format` lists them), plain, compressed or in archives, and .gvg files made by
/// `convert`, and generates graphs known by name (`datasets` lists them). Vertex ids are those of the file counted from 0: row i
/// of the matrix is vertex i - 1.
#[derive(Debug, Parser)]
#[command(version = concat!(env!("CARGO_PKG_VERSION"), "\ndevices: cpu"))]
#[command(after_long_help = "Exit codes: 0 done, 1 --verify or --check found a difference, 2 anything else.")]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
    /// Print nothing but errors, and JSON where --json asks for it
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Log to stderr; twice for more
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Breadth-first search: levels, and parents
    #[command(
        after_long_help = "Example: levels from vertex 0, in at most 1 GiB, checked, as a NumPy array\n  \
        gpuvm-graph bfs --graph karate.mtx --source 0 --gpu-mem 1G --verify --output levels.npy"
    )]
    Bfs(BfsArgs),
    /// Connected components, edges taken as undirected
    #[command(after_long_help = "Example: the component of each vertex, edges read in place\n  \
        gpuvm-graph cc --graph karate.mtx --access zero-copy --output components.csv")]
    Cc(CcArgs),
    /// PageRank: every vertex's share of a walk along edges
    #[command(
        name = "pagerank",
        after_long_help = "Example: ranks that change by no more than 10^-9 in a pass, as a NumPy array\n  \
        gpuvm-graph pagerank --graph karate.mtx --tolerance 1e-9 --iterations 200 --output ranks.npy"
    )]
    PageRank(PageRankArgs),
    /// Single-source shortest paths: distances, and parents
    #[command(after_long_help = "Example: the mean of 16 drawn sources, weights computed from the ids\n  \
        gpuvm-graph sssp --graph karate.mtx --weights hash --source random:16 --json result.json")]
    Sssp(SsspArgs),
    /// Write a graph as a .gvg file, which opens at once, or in a format that other programs read
    #[command(after_long_help = "Examples:\n  gpuvm-graph convert karate.mtx karate.gvg\n  \
        gpuvm-graph convert karate.gvg karate.wsg --weights hash\n  \
        gpuvm-graph convert com-Friendster.mtx FS.gvg --mem 8G")]
    Convert(ConvertArgs),
    /// Write a part of a graph as a graph of its own: its largest component, or what is near a vertex
    #[command(after_long_help = "Example: what three edges lead to from vertex 0\n  \
        gpuvm-graph extract karate.mtx near.gvg --around 0 --hops 3 --ids near.csv")]
    Extract(ExtractArgs),
    /// Make a graph of a known family as a .gvg file: gap-kron:24, gap-urand:20, grid:1000x1000
    #[command(
        after_long_help = "Example: GAP-kron of the SuiteSparse collection, 134 million vertices; takes 57 GB\n  \
        gpuvm-graph generate gap-kron:27 GK.gvg --weighted"
    )]
    Generate(GenerateArgs),
    /// Tell what is in a graph file: sizes, degrees, weights, pages
    #[command(after_long_help = "Examples: what the head says, at once; and all\n  \
        gpuvm-graph info karate.mtx\n  gpuvm-graph info karate.mtx --full --page-size 64K")]
    Info(InfoArgs),
    /// List the graphs that are known by name, or check that a file holds one of them
    #[command(after_long_help = "Example: whether a download is whole\n  \
        gpuvm-graph datasets --check com-Friendster.tar.gz")]
    Datasets(DatasetsArgs),
    /// Tell what of this machine a run depends on, what is wrong with it, and what to do
    #[command(after_long_help = "Example: when a run is slow or fails\n  gpuvm-graph doctor")]
    Doctor(DoctorArgs),
    /// Print what a run would take of device memory, and exit
    #[command(after_long_help = "Example: any run, with `plan` before it\n  \
        gpuvm-graph plan bfs --graph karate.mtx --gpu-mem 1G")]
    Plan {
        #[command(subcommand)]
        run: PlannedRun,
    },
}

/// The runs that can be planned; options that do not change the plan have no effect.
#[derive(Debug, Subcommand)]
pub enum PlannedRun {
    /// Plan a breadth-first search
    Bfs(BfsArgs),
    /// Plan connected components
    Cc(CcArgs),
    /// Plan PageRank
    #[command(name = "pagerank")]
    PageRank(PageRankArgs),
    /// Plan single-source shortest paths
    Sssp(SsspArgs),
}

#[derive(Debug, Args)]
pub struct BfsArgs {
    #[command(flatten)]
    pub search: SearchArgs,
    /// The last level; vertices farther away stay unreached
    #[arg(long, value_name = "LEVELS", help_heading = "Search", allow_negative_numbers = true)]
    pub depth_limit: Option<u32>,
    /// Search from 64 sources at a time: each edge is read once for all of them
    #[arg(long, help_heading = "Search", conflicts_with = "parents")]
    pub batch: bool,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct CcArgs {
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct PageRankArgs {
    /// The share of a rank that goes on along edges, from 0 to less than 1; the rest is spread over all vertices
    #[arg(long, value_name = "SHARE", default_value_t = 0.85, help_heading = "Ranks", allow_negative_numbers = true, value_parser = damping)]
    pub damping: f64,
    /// Ranks are good once a pass changes them by no more than this, all changes added up; 0: once nothing changes
    #[arg(long, value_name = "CHANGE", default_value_t = 1e-6, help_heading = "Ranks", allow_negative_numbers = true, value_parser = tolerance)]
    pub tolerance: f64,
    /// The most passes over the edges
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        help_heading = "Ranks",
        allow_negative_numbers = true
    )]
    pub iterations: u64,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct SsspArgs {
    #[command(flatten)]
    pub search: SearchArgs,
    /// The largest distance; vertices farther away stay unreached
    #[arg(long, value_name = "DISTANCE", help_heading = "Search", allow_negative_numbers = true, value_parser = distance)]
    pub depth_limit: Option<f64>,
    /// Width of a bucket of distances, one finished before the next; inf takes all at once, auto chooses by the weights
    #[arg(
        long,
        value_name = "auto|N",
        default_value = "auto",
        help_heading = "Search",
        allow_negative_numbers = true
    )]
    pub delta: DeltaArg,
    #[command(flatten)]
    pub weights: WeightArgs,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// The graph to convert, a file or a name
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The file to write: .gvg, .mtx (Matrix Market), .el or .wel (edge list, with weights), .sg or .wsg (GAP suite)
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Format of the file to write, whatever its name: gvg, mtx, el, wel, sg, wsg
    #[arg(long, value_name = "FORMAT", help_heading = "Result")]
    pub to: Option<OutputFormat>,
    /// Replace the file if it is there
    #[arg(long, help_heading = "Result")]
    pub force: bool,
    /// Convert within so much memory, for a graph that does not fit: sorted on disk, and the same file in the end as with
    /// --order natural --heads 0
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = bytes, help_heading = "Result")]
    pub mem: Option<u64>,
    /// Where --mem sorts; beside the file to write if not given
    #[arg(long, value_name = "DIR", requires = "mem", help_heading = "Result")]
    pub temp_dir: Option<PathBuf>,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub weights: WeightArgs,
    #[command(flatten)]
    pub layout: LayoutArgs,
    #[command(flatten)]
    pub threads: ThreadArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("part").args(["largest_component", "around"]).required(true)))]
pub struct ExtractArgs {
    /// The graph, a file or a name
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The file to write: .gvg, .mtx (Matrix Market), .el or .wel (edge list, with weights), .sg or .wsg (GAP suite)
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// The component with most vertices, edges taken as undirected
    #[arg(long, help_heading = "Part")]
    pub largest_component: bool,
    /// What is near this vertex (from 0): all that --hops edges lead to, along their direction
    #[arg(long, value_name = "V", requires = "hops", allow_hyphen_values = true, help_heading = "Part")]
    pub around: Option<VertexArg>,
    /// How many edges from the vertex of --around
    #[arg(long, value_name = "K", requires = "around", allow_negative_numbers = true, help_heading = "Part")]
    pub hops: Option<u32>,
    /// Write the original id of every vertex: .npy, .csv or .txt by extension
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub ids: Option<PathBuf>,
    /// Format of the file to write, whatever its name: gvg, mtx, el, wel, sg, wsg
    #[arg(long, value_name = "FORMAT", help_heading = "Result")]
    pub to: Option<OutputFormat>,
    /// Replace the file if it is there
    #[arg(long, help_heading = "Result")]
    pub force: bool,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub weights: WeightArgs,
    #[command(flatten)]
    pub layout: LayoutArgs,
    #[command(flatten)]
    pub threads: ThreadArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// gap-kron:SCALE or gap-urand:SCALE (2^SCALE vertices, of the GAP suite), grid:WIDTHxHEIGHT, or a graph of the
    /// SuiteSparse collection that can be generated: GAP-kron (GK), GAP-urand (GU)
    #[arg(value_name = "NAME")]
    pub name: NamedGraph,
    /// The file to write: .gvg, .mtx (Matrix Market), .el or .wel (edge list, with weights), .sg or .wsg (GAP suite)
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Format of the file to write, whatever its name: gvg, mtx, el, wel, sg, wsg
    #[arg(long, value_name = "FORMAT", help_heading = "Result")]
    pub to: Option<OutputFormat>,
    /// Replace the file if it is there
    #[arg(long, help_heading = "Result")]
    pub force: bool,
    /// With the weights of the GAP suite, 1 to 255
    #[arg(long)]
    pub weighted: bool,
    #[command(flatten)]
    pub layout: LayoutArgs,
    #[command(flatten)]
    pub threads: ThreadArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("subject").args(["graph", "known"]).required(true)))]
pub struct InfoArgs {
    /// The graph to look at, a file or a name
    #[arg(value_name = "GRAPH")]
    pub graph: Option<PathBuf>,
    /// Read the file, whatever its head says: degrees, weights, pages; edge lists are always read
    #[arg(long, conflicts_with = "known")]
    pub full: bool,
    /// List the graphs that are known by name, as `datasets` does
    #[arg(long)]
    pub known: bool,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub weights: WeightArgs,
    #[command(flatten)]
    pub threads: ThreadArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
pub struct DatasetsArgs {
    /// The graph that the file of --check should be; that which the file is called like if not given
    #[arg(value_name = "NAME", requires = "check")]
    pub name: Option<NamedGraph>,
    /// Compare the vertices and edges of this file with those of a known graph; exit code 1 if they differ
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
    #[command(flatten)]
    pub json: JsonArgs,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// What to look at: the first GPU if there is one (auto), cuda:N, or the machine without a GPU (cpu)
    #[arg(long, default_value = "auto", value_name = "auto|cpu|cuda:N", help_heading = "Device")]
    pub device: DeviceArg,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub json: JsonArgs,
}

/// What every run takes.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The graph: a file of any format (.mtx, .tar.gz, .txt, .csv, .gr, .graph, .gvg, ...), or a name as in gap-kron:24,
    /// gap-urand:20, grid:200x300, GK, which is generated once and kept
    #[arg(long, value_name = "FILE|NAME", help_heading = "Graph")]
    pub graph: PathBuf,
    /// Order of the rows in memory, as for `convert`; that of the file if not given
    #[arg(long, help_heading = "Graph")]
    pub order: Option<OrderArg>,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Write the value of every vertex: .npy, .csv or .txt by extension
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    pub output: Option<PathBuf>,
    /// Check the answer by an independent linear-time test; exit code 1 if it is wrong
    #[arg(long, help_heading = "Result")]
    pub verify: bool,
    /// Print what every step did and how long it took, on a GPU also its share of the link's measured rate
    #[arg(long, help_heading = "Result")]
    pub profile: bool,
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Where a search starts and what it looks for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArgs {
    /// Where to start: a vertex (from 0), random:K for K vertices with outgoing edges, or max-degree; may be given again
    #[arg(
        long,
        value_name = "N|random:K|max-degree",
        default_value = "max-degree",
        allow_hyphen_values = true
    )]
    pub source: Vec<SourceArg>,
    /// What random:K draws by
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Stop once this vertex is reached and everything as near
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub target: Option<VertexArg>,
    /// Find parents too: a column more in --output, NAME.parents.npy beside NAME.npy
    #[arg(long)]
    pub parents: bool,
}

/// How a file becomes a graph.
#[derive(Debug, Args)]
#[command(next_help_heading = "Graph")]
pub struct LoadArgs {
    /// Format of the file, instead of what its bytes say
    #[arg(long, value_name = "NAME", value_parser = format())]
    pub format: Option<Format>,
    /// Columns of source, target and weight in an edge list or a table: names, or numbers from 1, as in src,dst,weight
    #[arg(long, value_name = "A,B[,W]")]
    pub columns: Option<String>,
    /// Number the ids of an edge list that occur from 0, in their order, instead of taking them for numbers of vertices;
    /// results and --source speak the ids of the file
    #[arg(long)]
    pub relabel: bool,
    /// The file in an archive that is the graph
    #[arg(long, value_name = "NAME")]
    pub member: Option<String>,
    /// Take rows and columns as two sets of vertices: row i is vertex i - 1, column j is vertex rows + j - 1
    #[arg(long)]
    pub bipartite: bool,
    /// Add the reverse of every edge
    #[arg(long)]
    pub symmetrize: bool,
    /// Keep entries that name the same edge, instead of the smallest weight alone
    #[arg(long)]
    pub keep_duplicates: bool,
    /// Keep edges from a vertex to itself
    #[arg(long)]
    pub keep_loops: bool,
    /// Read the whole of a .gvg file and compare its checksums
    #[arg(long)]
    pub verify_file: bool,
    /// Where graphs known by name are kept; GPUVM_CACHE_DIR if not given, else gpuvm-graph in the user's cache folder
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
}

/// How a graph file is laid out.
#[derive(Debug, Args)]
#[command(next_help_heading = "File")]
pub struct LayoutArgs {
    /// Order of the rows in the file: as in the input (natural), by falling degree, or by degree if a few vertices have most
    /// of the edges (auto). Vertices keep their ids whatever the order
    #[arg(long, default_value = "auto")]
    pub order: OrderArg,
    /// Keep the edges of a directed graph a second time, turned round, so that bfs can pull: as many bytes again
    #[arg(long)]
    pub reverse: bool,
    /// Neighbours of each vertex that are kept once more, side by side, for bottom-up steps: 1, 2, 4, 8, 16, or 0 for none;
    /// if not given, those that the graph has, or else 2 where that is a quarter of the edges at most. Of a directed graph, of
    /// the edges into each vertex, with --reverse
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = heads)]
    pub heads: Option<u32>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Graph")]
pub struct WeightArgs {
    /// Weights: file, abs (moduli of the file's), unit (1), hash (1 to 255, from the ids) or random:SEED (1 to 255)
    #[arg(long, value_name = "RULE", default_value = "file", value_parser = weight_rule)]
    pub weights: WeightRule,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Device")]
pub struct ThreadArgs {
    /// Threads; one a core if not given
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Device")]
pub struct PageArgs {
    /// Bytes of a page: a power of two from 4K to 1M
    #[arg(long, value_name = "SIZE", default_value = "8K", allow_negative_numbers = true, value_parser = page_size)]
    pub page_size: PageSize,
}

/// Where kernels run and what they may take.
#[derive(Debug, Args)]
#[command(next_help_heading = "Device")]
pub struct DeviceArgs {
    /// Where to run: cpu, cuda (the first GPU), cuda:N, or auto: the first GPU if there is one
    #[arg(long, default_value = "auto", value_name = "auto|cpu|cuda:N")]
    pub device: DeviceArg,
    #[command(flatten)]
    pub threads: ThreadArgs,
    /// Device memory that the run may take in all, in binary units: 16G, 512M, 8KiB; what is free if not given
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = bytes)]
    pub gpu_mem: Option<u64>,
    #[command(flatten)]
    pub page: PageArgs,
    /// How edges are reached: auto copies them if they fit --gpu-mem and pages them if not
    #[arg(long, default_value = "auto")]
    pub access: AccessArg,
    /// How work is cut: a lane a row (naive) or even chunks of rows (balanced, which auto means)
    #[arg(long, default_value = "auto")]
    pub variant: VariantArg,
    /// Which page leaves when a frame is needed: pinned-share keeps most pages in steps that scan all edges
    #[arg(long, default_value = "pinned-share")]
    pub policy: PolicyArg,
    /// Who looks for whom in bfs: the frontier (push), unvisited vertices (pull), or whichever is to fetch less (auto)
    #[arg(long, default_value = "auto")]
    pub direction: DirectionArg,
    /// Whether paged bfs may read lines of 128 bytes where it wants few edges of a page (auto), or whole pages alone (never)
    #[arg(long, default_value = "auto")]
    pub lines: LinesArg,
    /// Edges of a chunk, a power of two; those of a page if not given
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub chunk_edges: Option<u32>,
    #[command(flatten)]
    pub transport: TransportArgs,
}

/// Who moves pages.
#[derive(Debug, Args)]
#[command(next_help_heading = "Transport")]
pub struct TransportArgs {
    /// Who moves the pages: the warps that want them (direct), or NICs that they ask through queue pairs: host threads (host)
    /// or warps (device) that stand for RNICs, RDMA devices (rdma), ConnectX NICs whose own queues the warps write (mlx5, not
    /// yet run on hardware)
    #[arg(long, default_value = "direct")]
    pub transport: TransportArg,
    /// Queue pairs of each NIC, 1 to 4096
    #[arg(long, value_name = "N", default_value_t = TransportConfig::default().queue_pairs, allow_negative_numbers = true)]
    pub queue_pairs: u32,
    /// Requests that a queue holds, a power of two from 1 to 1024
    #[arg(long, value_name = "N", default_value_t = TransportConfig::default().queue_depth, allow_negative_numbers = true)]
    pub queue_depth: u32,
    /// Requests behind one doorbell, no more than --queue-depth; 8 if not given
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub fault_batch: Option<u32>,
    /// RNICs that transports host and device stand for, 1 to 16; pages are striped over them
    #[arg(long, value_name = "N", default_value_t = TransportConfig::default().rnics, allow_negative_numbers = true)]
    pub rnics: u32,
    /// RDMA devices of transports rdma and mlx5, as in mlx5_0,mlx5_1; all with an active port if not given (doctor lists them)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub nics: Vec<String>,
    /// Bytes of the graph that each device of transport rdma has registered at most, from 2M on; all of it if not given
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = bytes)]
    pub pin_budget: Option<u64>,
    /// Who rings the doorbells of transport mlx5: a host thread a NIC (assisted), or kernels, where the GPU's driver lets them
    /// (direct)
    #[arg(long, default_value = "assisted")]
    pub doorbell: DoorbellArg,
    /// How slow --rnics are, as in latency=23us,bandwidth=6.5GB/s; as fast as they can if not given
    #[arg(long, value_name = "MODEL")]
    pub rnic_model: Option<RnicModel>,
}

#[derive(Debug, Args)]
pub struct JsonArgs {
    /// Write the result as JSON to FILE, or to stdout instead of the summary
    #[arg(long, value_name = "FILE", num_args = 0..=1, help_heading = "Result")]
    pub json: Option<Option<PathBuf>>,
}

#[derive(Clone, Copy, Debug)]
pub enum DeviceArg {
    Auto,
    Kind(DeviceKind),
}

impl FromStr for DeviceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Kind) }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AccessArg {
    Auto,
    Paged,
    ZeroCopy,
    Resident,
    Managed,
    ManagedReadMostly,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OrderArg {
    Auto,
    Natural,
    Degree,
}

impl OrderArg {
    /// What it means for a graph.
    pub fn of(self, csr: &Csr) -> Order {
        match self {
            Self::Auto => csr.suitable_order(),
            Self::Natural => Order::Natural,
            Self::Degree => Order::Degree,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum VariantArg {
    Auto,
    Naive,
    Balanced,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PolicyArg {
    Fifo,
    Clock,
    PinnedShare,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DirectionArg {
    Auto,
    Push,
    Pull,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LinesArg {
    Auto,
    Never,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TransportArg {
    Direct,
    Host,
    Device,
    Rdma,
    Mlx5,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DoorbellArg {
    Assisted,
    Direct,
}

/// The width of a bucket; `None` for `auto`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeltaArg(pub Option<f64>);

impl FromStr for DeltaArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self(None));
        }
        match text.parse() {
            Ok(width) if width > 0.0 => Ok(Self(Some(width))),
            _ => Err("give auto, inf, or a number above 0".to_owned()),
        }
    }
}

/// A whole number, not yet compared with the vertices of a graph: it may be negative or too large for any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VertexArg(pub String);

impl FromStr for VertexArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        match !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("\"{text}\" is no vertex, use its number, counted from 0")),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceArg {
    Vertex(VertexArg),
    Random(u64),
    MaxDegree,
}

impl FromStr for SourceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max-degree" {
            return Ok(Self::MaxDegree);
        }
        if let Some(count) = text.strip_prefix("random:") {
            return match count.parse() {
                Ok(count) if count > 0 => Ok(Self::Random(count)),
                _ => Err(format!("\"{count}\" is no number of sources, use random:K with K of 1 or more")),
            };
        }
        let vertex = text.parse().map_err(|_| {
            format!("\"{text}\" is no source, use a vertex (counted from 0), random:K (as in random:16) or max-degree")
        })?;
        Ok(Self::Vertex(vertex))
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    let binary = parse_size::Config::new().with_binary();
    binary
        .parse_size(text)
        .map_err(|_| "not a size, use bytes or K, M, G, T as in 16G, 512M, 8KiB".to_owned())
}

fn page_size(text: &str) -> Result<PageSize, String> {
    PageSize::new(bytes(text)?).map_err(|error| error.to_string())
}

fn heads(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(heads) if heads == 0 || heads.is_power_of_two() && heads <= Heads::MOST => Ok(heads),
        _ => Err(format!("use 0, or a power of two up to {}", Heads::MOST)),
    }
}

fn distance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(distance) if distance.is_finite() && distance >= 0.0 => Ok(distance),
        _ => Err("not a distance, use a number of 0 or more".to_owned()),
    }
}

fn damping(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(damping) if (0.0..1.0).contains(&damping) => Ok(damping),
        _ => Err("no damping factor, use a number from 0 to less than 1".to_owned()),
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(tolerance) if tolerance.is_finite() && tolerance >= 0.0 => Ok(tolerance),
        _ => Err("no tolerance, use a number of 0 or more, as in 1e-9".to_owned()),
    }
}

/// Takes the names of formats, and lists them in the help.
fn format() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.iter().map(|format| format.name()))
        .try_map(|name| name.parse::<Format>())
}

fn weight_rule(text: &str) -> Result<WeightRule, String> {
    match text.parse() {
        Ok(WeightRule::Ignore) | Err(_) => {
            Err("no weight rule, use file, abs, unit, hash or random:SEED (as in random:42)".to_owned())
        }
        Ok(rule) => Ok(rule),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definition_of_the_arguments_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sizes_are_binary_with_any_unit() {
        assert_eq!(bytes("16G"), Ok(16 << 30));
        assert_eq!(bytes("512M"), Ok(512 << 20));
        assert_eq!(bytes("8KiB"), Ok(8 << 10));
        assert_eq!(bytes("1KB"), Ok(1 << 10));
        assert_eq!(bytes("1.5k"), Ok(1536));
        assert!(bytes("-1").is_err() && bytes("").is_err() && bytes("ten").is_err());
    }

    #[test]
    fn source_is_a_whole_number_a_draw_or_the_largest_degree() {
        assert_eq!("max-degree".parse(), Ok(SourceArg::MaxDegree));
        assert_eq!("random:3".parse(), Ok(SourceArg::Random(3)));
        for number in ["0", "-1", "99999999999999999999999"] {
            assert_eq!(number.parse(), Ok(SourceArg::Vertex(VertexArg(number.to_owned()))));
        }
        for bad in ["", "-", "1.5", "+1", "one", "random:", "random:0", "random:-1", "--graph"] {
            assert!(bad.parse::<SourceArg>().is_err(), "{bad}");
        }
    }
}
