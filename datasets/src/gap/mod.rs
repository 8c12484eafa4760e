//! The two generators of the GAP benchmark suite (Beamer, Asanović, Patterson: The GAP Benchmark Suite, 2015), bit for
//! bit: `kron`, the R-MAT graphs of Graph500, and `urand`, uniformly random ones.
//!
//! The suite changed over time, and so did the C++ library whose draws it used; [`GapRule`] names the two results that
//! matter. Edges come in blocks of 2^18, each from an MT19937 of its own, seeded with a constant plus the block's number.
//! Each level of a `kron` edge takes a word and chooses a quadrant of the adjacency matrix; then ids are relabelled by a
//! random permutation. An edge of `urand` is two draws.

mod draw;
mod edges;
mod permutation;

use gpuvm_engine::graph::{Csr, VertexId};
use gpuvm_loaders::Progress;

use self::draw::{Draw, DrawRule};
use self::edges::{GapEdges, Thresholds};
use crate::adjacency::{self, Cut};
use crate::error::GenerateError;
use crate::memory;
use crate::mersenne_twister::Mt19937;

/// The seed of everything: `kRandSeed` of the suite.
const SEED: u32 = 27_491_095;

/// The largest scale: ids of the suite are signed 32-bit numbers.
const MAX_SCALE: u32 = 31;

/// Generated edges for each vertex, unless something else is asked for.
pub(crate) const DEFAULT_DEGREE: u32 = 16;

/// A generator of the GAP benchmark suite.
///
/// ```
/// use gpuvm_datasets::{GapGenerator, GapKind, GapWeights};
/// let csr = GapGenerator::new(GapKind::Urand, 10).generate(GapWeights::None, &())?;
/// assert_eq!((csr.num_vertices(), csr.num_edges()), (1024, 32_208));
/// # Ok::<(), gpuvm_datasets::GenerateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GapGenerator {
    /// The distribution of edges.
    pub kind: GapKind,
    /// Binary logarithm of the number of vertices, 1 to 31.
    pub scale: u32,
    /// Edges generated for each vertex, 16 in the suite; fewer stay, since loops and duplicates are dropped.
    pub degree: u32,
    /// Which of the suite's versions.
    pub rule: GapRule,
}

/// The distribution of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GapKind {
    /// R-MAT with the quadrants of Graph500: 0.57, 0.19, 0.19, 0.05.
    Kron,
    /// Both ends uniform.
    Urand,
}

/// The versions of the suite, and of the C++ library it was built with, that give different graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GapRule {
    /// Version 1.0 with the bounded draws of libstdc++ before GCC 11: at scale 27 the graphs GAP-kron and GAP-urand of
    /// the SuiteSparse collection.
    #[default]
    SuiteSparse,
    /// Version 1.5 of October 2023, with libstdc++ since GCC 11: what the suite generates today.
    Suite15,
}

/// Whether edges get weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GapWeights {
    /// Every edge weighs 1.
    #[default]
    None,
    /// The suite's integers from 1 to 255.
    Gap,
}

impl GapKind {
    /// The suite's name, `kron` or `urand`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kron => "kron",
            Self::Urand => "urand",
        }
    }
}

impl GapRule {
    /// `suitesparse` or `v1.5`.
    pub fn name(self) -> &'static str {
        match self {
            Self::SuiteSparse => "suitesparse",
            Self::Suite15 => "v1.5",
        }
    }

    fn thresholds(self) -> Thresholds {
        match self {
            Self::SuiteSparse => Thresholds::of_floats(),
            Self::Suite15 => Thresholds::of_integers(),
        }
    }

    /// Draws of `std::shuffle`.
    fn shuffle_draws(self) -> DrawRule {
        match self {
            Self::SuiteSparse => DrawRule::Division,
            Self::Suite15 => DrawRule::Multiply,
        }
    }

    /// Draws of vertices and weights, which the suite makes by itself since version 1.5.
    fn number_draws(self) -> DrawRule {
        match self {
            Self::SuiteSparse => DrawRule::Division,
            Self::Suite15 => DrawRule::Modulo,
        }
    }

    /// The first `count` vertices that the suite's programs start from in `csr`: random ones, without those that have no
    /// edges. A vertex may come more than once. Empty if the graph has no edges.
    ///
    /// The `Suite15` rule takes 64-bit words (MT19937-64) and uses their lower halves, as the suite does.
    pub fn sources(self, csr: &Csr, count: usize) -> Vec<VertexId> {
        if csr.num_edges() == 0 {
            return Vec::new();
        }
        let num_vertices = u32::try_from(csr.num_vertices()).expect("a graph has at most u32::MAX vertices");
        let mut engine = Mt19937::new(SEED);
        let mut wide_engine = rand_mt::Mt64::new(SEED.into());
        let draw = match self {
            Self::SuiteSparse => Draw::below(num_vertices, DrawRule::Division),
            Self::Suite15 => Draw::below_from_wide_words(num_vertices),
        };
        let words = std::iter::repeat_with(|| match self {
            Self::SuiteSparse => engine.next_word(),
            Self::Suite15 => wide_engine.next_u64() as u32,
        });
        words
            .filter_map(|word| draw.pick(word))
            .filter(|&u| csr.out_degree(csr.row_of(u)) > 0)
            .take(count)
            .collect()
    }
}

impl GapGenerator {
    /// The generator that the suite and the SuiteSparse collection agree on calling by `kind` and `scale`: degree 16, the
    /// rule of the collection.
    pub fn new(kind: GapKind, scale: u32) -> Self {
        Self { kind, scale, degree: DEFAULT_DEGREE, rule: GapRule::default() }
    }

    /// Edges that are generated, loops and duplicates among them.
    pub fn num_generated_edges(&self) -> u64 {
        u64::from(self.degree) << self.scale.min(MAX_SCALE)
    }

    /// The most vertices that the graph has, and the most edges, both directions counted.
    pub(crate) fn most_vertices_and_edges(&self) -> (u64, u64) {
        (1 << self.scale.min(MAX_SCALE), self.num_generated_edges().saturating_mul(2))
    }

    /// The most memory that [`generate`](GapGenerator::generate) holds at a time, up to a few megabytes a thread.
    pub fn peak_bytes(&self, weights: GapWeights) -> u64 {
        let num_vertices = 1_u64 << self.scale.min(MAX_SCALE);
        let labels = if self.kind == GapKind::Kron { num_vertices * 4 } else { 0 };
        labels.saturating_add(adjacency::peak_bytes(
            self.num_generated_edges(),
            num_vertices,
            weights == GapWeights::Gap,
        ))
    }

    /// The graph: each edge in both directions, rows sorted, no loops, no duplicates; of duplicates the smallest weight
    /// stays. The number of vertices is the largest id that occurs plus 1, which may be less than `2^scale`.
    ///
    /// Runs on the current rayon pool, with the same result at any number of threads. Phases are `permutation` (of a
    /// `kron` graph, on one thread), `edges`, `buckets`, `sort` and `rows`.
    ///
    /// # Errors
    /// [`GenerateError`]: scale or degree out of range, too little memory, or interrupted by `progress`.
    pub fn generate(&self, weights: GapWeights, progress: &dyn Progress) -> Result<Csr, GenerateError> {
        self.generate_cut(weights, Cut::default(), progress)
    }

    /// What [`generate`](GapGenerator::generate) checks first.
    pub(crate) fn check(&self, weights: GapWeights) -> Result<(), GenerateError> {
        if !(1..=MAX_SCALE).contains(&self.scale) {
            return Err(GenerateError::Scale { scale: self.scale, max: MAX_SCALE });
        }
        if self.degree == 0 {
            return Err(GenerateError::NoEdges);
        }
        memory::check(self.peak_bytes(weights))
    }

    fn generate_cut(
        &self,
        weights: GapWeights,
        cut: Cut,
        progress: &dyn Progress,
    ) -> Result<Csr, GenerateError> {
        self.check(weights)?;
        let edges = GapEdges::new(self, weights == GapWeights::Gap, progress)?;
        adjacency::build(edges, cut, progress)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rayon::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::adjacency::EdgeBlocks;

    const RULES: [(GapRule, &str); 2] = [(GapRule::SuiteSparse, "suitesparse"), (GapRule::Suite15, "v1.5")];

    fn facts() -> Value {
        serde_json::from_str(include_str!("../../tests/gap-generators.json")).expect("JSON")
    }

    /// Every generator with expected values, and these.
    fn expected() -> Vec<(GapGenerator, Value)> {
        let facts = facts();
        let of_rule = |(rule, key): (GapRule, &str)| -> Vec<_> {
            let graphs = facts[key]["graphs"].as_array().expect("graphs");
            let generator = |graph: &Value| GapGenerator {
                kind: graph["graph"].as_str().expect("a name").parse().expect("a kind"),
                scale: graph["scale"].as_u64().expect("a scale") as u32,
                degree: graph["degree"].as_u64().expect("a degree") as u32,
                rule,
            };
            graphs.iter().map(|graph| (generator(graph), graph.clone())).collect()
        };
        RULES.into_iter().flat_map(of_rule).collect()
    }

    fn numbers(values: &Value) -> Vec<u64> {
        values.as_array().expect("an array").iter().map(|x| x.as_u64().expect("a number")).collect()
    }

    #[test]
    fn first_edges_and_weights_are_those_of_the_suite() {
        for (generator, expected) in expected() {
            let key = match generator.kind {
                GapKind::Kron => "first_12_generated_edges_before_relabelling",
                GapKind::Urand => "first_12_generated_edges",
            };
            let mut ends = [[0; 2]; 12];
            let mut weights = [0; 12];
            let edges = GapEdges::unlabelled(&generator, true);
            edges.fill_ends(0, &mut ends);
            edges.fill_weights(0, &mut weights);
            let expected_ends: Vec<_> =
                expected[key].as_array().expect("edges").iter().map(numbers).collect();
            assert_eq!(ends.map(|ends| ends.map(u64::from).to_vec()), *expected_ends, "{generator}");
            assert_eq!(weights.map(u64::from), *numbers(&expected["first_12_weights"]), "{generator}");
        }
    }

    #[test]
    fn first_new_labels_are_those_of_the_suite() {
        for (generator, expected) in expected().into_iter().filter(|(g, _)| g.kind == GapKind::Kron) {
            let labels = permutation::permutation(generator.scale, generator.rule.shuffle_draws(), &())
                .expect("small");
            let first: Vec<u64> = labels[..16].iter().map(|&label| label.into()).collect();
            assert_eq!(first, numbers(&expected["first_16_of_permutation"]), "{generator}");
        }
    }

    #[test]
    fn new_labels_of_scale_27_are_those_of_the_collection() {
        let labels = permutation::permutation(27, DrawRule::Division, &()).expect("512 MiB");
        let first: Vec<u64> = labels[..5].iter().map(|&label| label.into()).collect();
        assert_eq!(first, numbers(&facts()["full_scale"]["kron"]["first_5_of_permutation"]));
    }

    /// What can be told of the collection's GAP-kron without the memory to build it: of a few vertices all neighbours.
    #[test]
    #[ignore = "generates 2^31 edges: a minute with optimization"]
    fn edges_of_scale_27_give_the_vertices_of_the_collection() {
        let expected = &facts()["full_scale"]["kron"];
        let count = |key: &str| expected[key].as_u64().expect("a number");
        let edges = GapEdges::new(&GapGenerator::new(GapKind::Kron, 27), false, &()).expect("512 MiB");
        let (last, hub) = (count("n") as VertexId - 1, count("max_degree_vertex") as VertexId);
        let is_watched = |u: VertexId| u < 16 || u == last || u == hub;
        let block_edges = edges.block_edges();
        let (num_loops, max_id, mut watched) = (0..edges.num_edges() / block_edges as u64)
            .into_par_iter()
            .map_init(
                || vec![[0; 2]; block_edges],
                |ends, block| {
                    edges.fill_ends(block, ends);
                    let both = ends.iter().flat_map(|&[u, v]| [(u, v), (v, u)]);
                    (
                        ends.iter().filter(|[u, v]| u == v).count() as u64,
                        ends.as_flattened().iter().copied().max().unwrap_or(0),
                        both.filter(|&(u, v)| u != v && is_watched(u)).collect::<Vec<_>>(),
                    )
                },
            )
            .reduce(Default::default, |(a, b, mut c), (x, y, z)| {
                c.extend(z);
                (a + x, b.max(y), c)
            });
        watched.sort_unstable();
        watched.dedup();
        let degree = |u| watched.iter().filter(|edge| edge.0 == u).count() as u64;
        assert_eq!(num_loops, count("generated_self_loops"));
        assert_eq!(u64::from(max_id) + 1, count("n"));
        assert_eq!(
            (0..16).map(degree).collect::<Vec<_>>(),
            numbers(&expected["degrees_of_first_16_vertices"])
        );
        assert_eq!(degree(last), count("degree_of_vertex_n_minus_1"));
        assert_eq!(degree(hub), count("max_degree"));
    }

    #[test]
    fn permutation_holds_every_vertex_once() {
        for scale in [1, 2, 15, 16] {
            for rule in [DrawRule::Division, DrawRule::Multiply] {
                let mut labels = permutation::permutation(scale, rule, &()).expect("small").to_vec();
                labels.sort_unstable();
                assert!(labels.iter().copied().eq(0..1 << scale), "scale {scale}, {rule:?}");
            }
        }
    }

    #[test]
    fn graph_is_the_same_at_any_number_of_threads_tasks_and_buckets() {
        for (kind, rule) in [(GapKind::Kron, GapRule::SuiteSparse), (GapKind::Urand, GapRule::Suite15)] {
            // 300 000 edges of two blocks, one of them not full.
            let generator = GapGenerator { kind, scale: 14, degree: 19, rule };
            let arrays = |num_threads, cut| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(num_threads).build().expect("threads");
                let csr = pool.install(|| generator.generate_cut(GapWeights::Gap, cut, &())).expect("small");
                (csr.row_offsets().to_vec(), csr.column_indices().to_vec(), csr.weights().as_bytes().to_vec())
            };
            let one = arrays(1, Cut { bucket_entries: u64::MAX, num_tasks: 1 });
            assert_eq!(one, arrays(4, Cut::default()));
            assert_eq!(one, arrays(4, Cut { bucket_entries: 100, num_tasks: 2 }));
            assert_eq!(one, arrays(3, Cut { bucket_entries: 70_000, num_tasks: 1000 }));
        }
    }

    #[test]
    fn weights_do_not_change_the_edges() {
        let generator = GapGenerator::new(GapKind::Kron, 12);
        let plain = generator.generate(GapWeights::None, &()).expect("small");
        let weighted = generator.generate(GapWeights::Gap, &()).expect("small");
        assert_eq!(plain.weights().stored_len(), None);
        assert_eq!(plain.row_offsets().as_slice(), weighted.row_offsets().as_slice());
        assert_eq!(plain.column_indices().as_slice(), weighted.column_indices().as_slice());
    }

    #[test]
    fn both_directions_of_an_edge_weigh_the_same() {
        let csr = GapGenerator::new(GapKind::Kron, 10).generate(GapWeights::Gap, &()).expect("small");
        for u in 0..csr.num_vertices() as VertexId {
            assert!(csr.edges(u).all(|(_, v, weight)| {
                u != v
                    && (1.0..=255.0).contains(&weight)
                    && csr.edges(v).any(|(_, t, w)| t == u && w == weight)
            }));
        }
    }

    #[test]
    fn smallest_and_thinnest_graphs_are_possible() {
        for kind in [GapKind::Kron, GapKind::Urand] {
            for (scale, degree) in [(1, 1), (1, 100), (2, 1), (20, 1)] {
                let generator = GapGenerator { kind, scale, degree, rule: GapRule::Suite15 };
                let csr = generator.generate(GapWeights::Gap, &()).expect("small");
                assert!(csr.num_vertices() <= 1 << scale, "{generator}");
            }
        }
    }

    #[test]
    fn sizes_out_of_range_are_errors() {
        let generate = |scale, degree| {
            let rule = GapRule::SuiteSparse;
            let generator = GapGenerator { kind: GapKind::Kron, scale, degree, rule };
            generator.generate(GapWeights::Gap, &()).expect_err("out of range")
        };
        assert!(matches!(generate(0, 16), GenerateError::Scale { .. }));
        assert!(matches!(generate(32, 16), GenerateError::Scale { .. }));
        assert!(matches!(generate(u32::MAX, 16), GenerateError::Scale { .. }));
        assert!(matches!(generate(10, 0), GenerateError::NoEdges));
        assert!(matches!(generate(31, u32::MAX), GenerateError::OutOfMemory { .. }));
    }

    #[test]
    fn sources_are_the_same_vertices_in_degree_order() {
        use gpuvm_engine::graph::Order;
        // Half of the vertices of a Kronecker graph have no edges.
        let generator = GapGenerator::new(GapKind::Kron, 10);
        let natural = generator.generate(GapWeights::None, &()).expect("small");
        let ordered = natural.clone().in_order(Order::Degree).expect("fits");
        let sources = GapRule::SuiteSparse.sources(&natural, 64);
        assert!(sources.iter().all(|&u| natural.out_degree(u) > 0));
        assert_eq!(GapRule::SuiteSparse.sources(&ordered, 64), sources);
    }

    #[test]
    fn graph_without_edges_has_no_sources() {
        let csr = Csr::new(vec![0, 0, 0], vec![], gpuvm_engine::graph::Weights::Unit, true).expect("valid");
        assert_eq!(GapRule::SuiteSparse.sources(&csr, 3), [] as [VertexId; 0]);
    }

    /// Stops after some calls of `is_cancelled`, and adds up what each phase advances.
    #[derive(Default)]
    struct Watch {
        calls_left: Option<AtomicU64>,
        total: AtomicU64,
        done: AtomicU64,
        phases: AtomicU64,
    }

    impl Progress for Watch {
        fn begin(&self, _: &'static str, total: u64) {
            self.total.store(total, Ordering::Relaxed);
            self.done.store(0, Ordering::Relaxed);
        }

        fn advance(&self, by: u64) {
            self.done.fetch_add(by, Ordering::Relaxed);
        }

        fn end(&self) {
            self.phases.fetch_add(1, Ordering::Relaxed);
            assert_eq!(self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        }

        fn is_cancelled(&self) -> bool {
            self.calls_left.as_ref().is_some_and(|calls| calls.fetch_sub(1, Ordering::Relaxed) == 0)
        }
    }

    #[test]
    fn every_phase_advances_to_its_total() {
        let watch = Watch::default();
        GapGenerator::new(GapKind::Kron, 16).generate(GapWeights::Gap, &watch).expect("small");
        assert_eq!(watch.phases.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn generating_can_be_interrupted_in_every_phase() {
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
        // Scale 16: the permutation asks once, edges and buckets once for each of 4 blocks, the others for each bucket.
        for calls in 0..11 {
            let watch = Watch { calls_left: Some(calls.into()), ..Watch::default() };
            let generator = GapGenerator::new(GapKind::Kron, 16);
            let result = one.install(|| generator.generate(GapWeights::Gap, &watch));
            assert!(matches!(result, Err(GenerateError::Interrupted)), "call {calls}");
        }
    }
}
