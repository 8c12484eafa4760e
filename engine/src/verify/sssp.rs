use std::borrow::Cow;
use std::cmp::Ordering::{self, Equal, Less};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytemuck::Zeroable;
use rayon::prelude::*;

use super::{Difference, Distance, check_length};
use crate::answer::{Distances, Level, NO_PARENT, UNREACHED};
use crate::graph::{Csr, VertexId};
use crate::memory::zeros;

/// Where an SSSP was told to stop; by default nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SsspLimit {
    /// The largest distance to be reached.
    pub distance: Option<f64>,
    /// A vertex whose distance, once everything as near is reached, is the last.
    pub target: Option<VertexId>,
}

/// Whether `distances` are those from `source` of an SSSP that stopped at `limit`, and `parents` one tree of them.
///
/// Distances are sums of weights along a path, from the source on: exact in `u64` for integer weights, in `f64` rounded
/// at each edge for real ones, and compared for equality. Every vertex within the limit is reached, none beyond it, and
/// one as far as the target is within. A parent has a tight edge to its child, and parents lead to the source, which
/// has [`NO_PARENT`] like the unreached. A `source` that is not a vertex reaches nothing. Weights are finite and not
/// negative. Cost: each edge of a reached vertex once.
///
/// # Errors
/// The first [`Difference`]: of lengths and type, then of distances, nearest to the source first, then of parents, by
/// id.
///
/// ```
/// use gpuvm_engine::Distances;
/// use gpuvm_engine::graph::{Csr, Weights};
/// use gpuvm_engine::verify::{self, SsspLimit};
/// let path = Csr::new(vec![0, 1, 2, 2], vec![1, 2], Weights::F32(vec![0.5, 2.0].into()), false)?;
/// let check = |distances| verify::sssp(&path, 0, SsspLimit::default(), &Distances::Real(distances), None);
/// assert!(check(vec![0.0, 0.5, 2.5]).is_ok());
/// let difference = check(vec![0.0, 0.5, 2.0]).unwrap_err();
/// assert_eq!(difference.to_string(), "vertex 2: distance 2.5 expected from its neighbour 1, got 2");
/// # Ok::<(), gpuvm_engine::GraphError>(())
/// ```
pub fn sssp(
    csr: &Csr,
    source: VertexId,
    limit: SsspLimit,
    distances: &Distances,
    parents: Option<&[VertexId]>,
) -> Result<(), Difference> {
    check_length("distances", csr, distances.len())?;
    let weights = csr.weights();
    // Rows do for ids: where they are others, hashes of ids are stored.
    let weight = |e, u, v| weights.get(e, u, v);
    match (distances, weights.weight_type().is_integer()) {
        (Distances::Integer(distances), true) => {
            let last = limit.distance.map_or(u64::MAX, |last| last as u64).min(u64::MAX - 1);
            Certificate::new(csr, weight, source, last, limit.target, distances, parents)?.check()
        }
        (Distances::Real(distances), false) => {
            let last = limit.distance.unwrap_or(f64::MAX).min(f64::MAX);
            Certificate::new(csr, weight, source, last, limit.target, distances, parents)?.check()
        }
        (Distances::Real(_), true) => Err(Difference::DistanceType { expected: "integer", got: "real" }),
        (Distances::Integer(_), false) => Err(Difference::DistanceType { expected: "real", got: "integer" }),
    }
}

/// How far a vertex is from the source: a level or a distance.
pub(super) trait Measure: Copy + PartialOrd + Send + Sync + Zeroable {
    const ZERO: Self;
    const UNREACHED: Self;
    /// What an edge of this weight offers the vertex that it leads to; at most [`UNREACHED`](Self::UNREACHED).
    fn along(self, weight: f64) -> Self;
    /// A total order, for an answer that is not a number too.
    fn total_cmp(self, other: Self) -> Ordering;
    fn wrong(vertex: VertexId, expected: Self, neighbor: Option<VertexId>, got: Self) -> Difference;
    fn beyond_limit(vertex: VertexId, expected: Self, got: Self) -> Difference;
}

impl Measure for Level {
    const ZERO: Self = 0;
    const UNREACHED: Self = UNREACHED;

    fn along(self, weight: f64) -> Self {
        self.saturating_add(weight as Self)
    }

    fn total_cmp(self, other: Self) -> Ordering {
        self.cmp(&other)
    }

    fn wrong(vertex: VertexId, expected: Self, neighbor: Option<VertexId>, got: Self) -> Difference {
        let known = |level| (level != UNREACHED).then_some(level);
        Difference::Level { vertex, expected: known(expected), neighbor, got: known(got) }
    }

    fn beyond_limit(vertex: VertexId, expected: Self, got: Self) -> Difference {
        Difference::LevelBeyondLimit { vertex, expected, got }
    }
}

macro_rules! measure_of_distance {
    ($type:ident, $variant:ident, $unreached:expr, $along:expr, $total_cmp:expr) => {
        impl Measure for $type {
            const ZERO: Self = 0 as Self;
            const UNREACHED: Self = $unreached;

            fn along(self, weight: f64) -> Self {
                $along(self, weight)
            }

            fn total_cmp(self, other: Self) -> Ordering {
                $total_cmp(&self, &other)
            }

            fn wrong(vertex: VertexId, expected: Self, neighbor: Option<VertexId>, got: Self) -> Difference {
                let known = |distance| (distance != $unreached).then_some(Distance::$variant(distance));
                Difference::Distance { vertex, expected: known(expected), neighbor, got: known(got) }
            }

            fn beyond_limit(vertex: VertexId, expected: Self, got: Self) -> Difference {
                let (expected, got) = (Distance::$variant(expected), Distance::$variant(got));
                Difference::DistanceBeyondLimit { vertex, expected, got }
            }
        }
    };
}
measure_of_distance!(
    u64,
    Integer,
    Distances::UNREACHED,
    |sum: u64, w| sum.saturating_add(w as u64),
    u64::cmp
);
measure_of_distance!(f64, Real, f64::INFINITY, |sum: f64, w| sum + w, f64::total_cmp);

/// The certificate of shortest paths: a traversal of the tight edges from the source.
///
/// What it reaches is **certified**: a path of just that length leads there. An edge from a certified vertex that
/// offers less than the answer says refutes the answer; so does a vertex that the answer reaches and the traversal does
/// not. Asking only for a tight edge to each vertex would not do: a circle of edges without weight, or of weights that
/// rounding swallows, is tight all round at any distance, and hangs from nothing.
///
/// The finding of the smallest value is at a vertex that is wrong itself. Let the smallest of right and given values
/// over all wrong vertices be k. Whatever is nearer than k is right, and certified, so nothing is found there. If a
/// vertex is given too much and k is its right value, its neighbour on a shortest path makes the finding. Else a vertex
/// is given too little, k, and nothing certifies it; a right vertex as far as k is certified, since its shortest path
/// holds no wrong vertex. Offers come before the uncertified of equal value, as a vertex given too much leaves right
/// ones behind it uncertified.
pub(super) struct Certificate<'a, T: Clone, W> {
    csr: &'a Csr,
    weight: W,
    source: VertexId,
    /// The largest value to be reached, without regard to the target.
    limit: T,
    /// The largest value to be reached.
    last: T,
    values: &'a [T],
    /// The same by row: then an edge asks for one thing in a random place, and in degree order mostly for one of few hubs.
    by_row: Cow<'a, [T]>,
    parents: Option<&'a [VertexId]>,
    /// Rows.
    certified: Bitmap,
    /// Vertices with a tight edge from the parent that the answer gives them.
    has_parent: Bitmap,
}

impl<'a, T: Measure, W: Fn(u64, VertexId, VertexId) -> f64 + Sync> Certificate<'a, T, W> {
    /// `values` has an entry for each vertex; `limit` is less than unreached; `weight` is asked by edge and rows.
    pub(super) fn new(
        csr: &'a Csr,
        weight: W,
        source: VertexId,
        limit: T,
        target: Option<VertexId>,
        values: &'a [T],
        parents: Option<&'a [VertexId]>,
    ) -> Result<Self, Difference> {
        if let Some(parents) = parents {
            check_length("parents", csr, parents.len())?;
        }
        let last = target.and_then(|target| values.get(target as usize)).filter(|&&value| value <= limit);
        Ok(Self {
            csr,
            weight,
            source,
            limit,
            last: last.copied().unwrap_or(limit),
            values,
            by_row: match csr.permutation() {
                None => Cow::Borrowed(values),
                Some(permutation) => {
                    let mut by_row = zeros(values.len());
                    let rows = by_row.par_iter_mut().zip(permutation.original_ids().par_iter());
                    rows.for_each(|(value, &v)| *value = values[v as usize]);
                    by_row.into()
                }
            },
            parents,
            certified: Bitmap::new(values.len()),
            has_parent: Bitmap::new(if parents.is_some() { values.len() } else { 0 }),
        })
    }

    /// The first difference of values, else of parents.
    pub(super) fn check(&self) -> Result<(), Difference> {
        if self.is_evident() { Ok(()) } else { self.traverse() }
    }

    /// Whether each row by itself shows the answer to be right, in a graph that has every edge in both directions: none of
    /// its edges offers less than the answer says, and one is tight, from a vertex nearer to the source, to which such
    /// edges lead back then.
    ///
    /// It reads every edge once and writes nothing, where threads that certify vertices for each other wait for cache lines.
    /// Edges without weight, and answers that are wrong, are for [`traverse`](Self::traverse).
    fn is_evident(&self) -> bool {
        let row_is_evident = |row: VertexId| {
            let value = self.by_row[row as usize];
            let id = self.csr.original_id(row);
            let parent = self.parents.map(|parents| parents[id as usize]);
            let has_no_parent = parent.is_none_or(|parent| parent == NO_PARENT);
            let is_source = id == self.source;
            if value == T::UNREACHED && !is_source {
                // An edge from a vertex that is reached shows in the row of that one.
                return has_no_parent;
            }
            let parent = parent.map(|parent| self.csr.row_of(parent));
            let (mut offers_less, mut is_tight) = (false, false);
            for (&v, e) in self.csr.neighbors(row).iter().zip(self.csr.row_offsets()[row as usize]..) {
                let weight = (self.weight)(e, row, v);
                let there = self.by_row.get(v as usize).copied().unwrap_or(T::UNREACHED);
                let offer = value.along(weight);
                offers_less |= offer <= self.last && !matches!(there.partial_cmp(&offer), Some(Less | Equal));
                is_tight |=
                    there < value && there.along(weight) == value && parent.is_none_or(|parent| parent == v);
            }
            let hangs = if is_source { value == T::ZERO && has_no_parent } else { is_tight };
            value <= self.last && hangs && !offers_less
        };
        self.csr.is_symmetric() && self.csr.par_rows().all(row_is_evident)
    }

    /// Certifies from the source on.
    fn traverse(&self) -> Result<(), Difference> {
        let mut first = None;
        let mut frontier = Vec::new();
        if let Some(&got) = self.values.get(self.source as usize) {
            if got != T::ZERO {
                return Err(T::wrong(self.source, T::ZERO, None, got));
            }
            let row = self.csr.row_of(self.source);
            self.certified.insert(row);
            frontier.push(row);
        }
        while !frontier.is_empty() {
            let step = self.step(&frontier);
            first = Finding::earlier(first, step.first);
            frontier = step.next;
        }
        let uncertified = (0..self.values.len() as VertexId)
            .into_par_iter()
            .fold(|| None, |first, row| Finding::earlier(first, self.without_offer(row)))
            .reduce(|| None, Finding::earlier);
        match Finding::earlier(first, uncertified) {
            Some(finding) => Err(self.explain(finding)),
            None => self.parents.map_or(Ok(()), |parents| self.check_parents(parents)),
        }
    }

    /// Follows every edge of the frontier, which are rows: certifies those at the end of tight ones, finds what offers less.
    fn step(&self, frontier: &[VertexId]) -> Step<T> {
        /// Fewer edges than this are followed sooner than threads are woken.
        const PARALLEL_EDGES: u64 = 16 * 1024;
        /// Longer rows are followed in parts, by several threads: a hub has millions of edges.
        const LONG_ROW: u64 = 64 * 1024;
        /// Rows of a task: hubs stand side by side.
        const MOST_ROWS: usize = 256;
        let num_edges = |&u: &VertexId| self.csr.out_degree(u);
        let follow_part = |mut step: Step<T>, u: VertexId, edges: Range<u64>| {
            for (v, offer) in self.offers_of(u, edges) {
                // A column that is no vertex of a damaged graph is one that the answer left unreached.
                let got = self.by_row.get(v as usize).copied().unwrap_or(T::UNREACHED);
                if got == offer {
                    if let Some(parents) = self.parents {
                        let (parent, child) = (self.csr.original_id(u), self.csr.original_id(v));
                        if parents[child as usize] == parent {
                            self.has_parent.insert(child);
                        }
                    }
                    if self.certified.insert(v) {
                        step.next.push(v);
                    }
                } else if offer <= self.last && got.partial_cmp(&offer) != Some(Less) {
                    let (vertex, neighbor) = (self.csr.original_id(v), self.csr.original_id(u));
                    let finding = Finding { value: offer, rank: Rank::Offer, vertex, neighbor };
                    step.first = Finding::earlier(step.first.take(), Some(finding));
                }
            }
            step
        };
        let follow = |step: Step<T>, u: &VertexId| match num_edges(u) {
            length @ ..=LONG_ROW => follow_part(step, *u, 0..length),
            length => {
                let parts = (0..length.div_ceil(LONG_ROW)).into_par_iter();
                let followed = parts.fold(Step::default, |step, part| {
                    follow_part(step, *u, part * LONG_ROW..length.min((part + 1) * LONG_ROW))
                });
                step.and(followed.reduce(Step::default, Step::and))
            }
        };
        let few = frontier.len() < PARALLEL_EDGES as usize
            && frontier.iter().map(num_edges).sum::<u64>() < PARALLEL_EDGES;
        if few {
            frontier.iter().fold(Step::default(), follow)
        } else {
            frontier
                .par_iter()
                .with_max_len(MOST_ROWS)
                .fold(Step::default, follow)
                .reduce(Step::default, Step::and)
        }
    }

    /// These of the edges of row `u`: the row where each leads, and what it offers there if that is within the limit.
    fn offers_of(&self, u: VertexId, edges: Range<u64>) -> impl Iterator<Item = (VertexId, T)> + '_ {
        let begin = self.csr.row_offsets()[u as usize] + edges.start;
        let value = self.by_row[u as usize];
        let neighbors = &self.csr.neighbors(u)[edges.start as usize..edges.end as usize];
        neighbors.iter().zip(begin..).filter_map(move |(&v, e)| {
            let offer = value.along((self.weight)(e, u, v));
            (offer <= self.limit).then_some((v, offer))
        })
    }

    /// What is wrong with a row that no edge tells: it is reached, but beyond the limit or by no path of that length.
    fn without_offer(&self, row: VertexId) -> Option<Finding<T>> {
        let value = self.by_row[row as usize];
        let rank = if value == T::UNREACHED {
            return None;
        } else if value > self.last {
            Rank::BeyondLimit
        } else if !self.certified.contains(row) {
            Rank::Uncertified
        } else {
            return None;
        };
        Some(Finding { value, rank, vertex: self.csr.original_id(row), neighbor: NO_PARENT })
    }

    fn explain(&self, Finding { value, rank, vertex, neighbor }: Finding<T>) -> Difference {
        let got = self.values.get(vertex as usize).copied().unwrap_or(T::UNREACHED);
        match rank {
            Rank::Offer => T::wrong(vertex, value, Some(neighbor), got),
            Rank::BeyondLimit => T::beyond_limit(vertex, self.last, got),
            Rank::Uncertified => match self.least_offer(vertex, |_| true) {
                Some((offer, neighbor)) => T::wrong(vertex, offer, Some(neighbor), got),
                None => T::wrong(vertex, T::UNREACHED, None, got),
            },
        }
    }

    /// The least that a certified vertex offers `v` among what `admits`, and the smallest vertex that offers it: a pass
    /// over all edges, once an answer is known to be wrong.
    fn least_offer(&self, v: VertexId, admits: impl Fn(T) -> bool + Sync) -> Option<(T, VertexId)> {
        let row = self.csr.row_of(v);
        (self.csr.par_rows())
            .filter(|&u| self.certified.contains(u))
            .flat_map_iter(|u| {
                let neighbor = self.csr.original_id(u);
                self.offers_of(u, 0..self.csr.out_degree(u))
                    .filter(|&(to, offer)| to == row && admits(offer))
                    .map(move |(_, offer)| (offer, neighbor))
            })
            .min_by(|a, b| a.0.total_cmp(b.0).then(a.1.cmp(&b.1)))
    }

    /// Once the values are right: whether each parent has a tight edge, and parents lead to the source.
    fn check_parents(&self, parents: &[VertexId]) -> Result<(), Difference> {
        let is_child = |v: VertexId| v != self.source && self.certified.contains(self.csr.row_of(v));
        let is_right = |v: VertexId| {
            if is_child(v) { self.has_parent.contains(v) } else { parents[v as usize] == NO_PARENT }
        };
        let vertices = (0..self.values.len() as VertexId).into_par_iter();
        if let Some(vertex) = vertices.clone().find_first(|&v| !is_right(v)) {
            let value = self.values[vertex as usize];
            let tight =
                if is_child(vertex) { self.least_offer(vertex, |offer| offer == value) } else { None };
            let got = Some(parents[vertex as usize]).filter(|&parent| parent != NO_PARENT);
            return Err(Difference::Parent { vertex, expected: tight.map(|(_, parent)| parent), got });
        }
        // A tight edge never leads nearer to the source, so parents go round only among equals, and equals are few.
        let is_level =
            |v: VertexId| is_child(v) && self.values[parents[v as usize] as usize] == self.values[v as usize];
        match smallest_on_a_circle(parents, &vertices.filter(|&v| is_level(v)).collect::<Vec<_>>()) {
            None => Ok(()),
            Some(vertex) => Err(Difference::ParentCycle { vertex, got: parents[vertex as usize] }),
        }
    }
}

/// The smallest of `vertices` whose parents lead back to it through `vertices` only, in one walk over them.
fn smallest_on_a_circle(parents: &[VertexId], vertices: &[VertexId]) -> Option<VertexId> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Never,
        InThisWalk,
        Before,
    }
    if vertices.is_empty() {
        return None;
    }
    let mut seen = vec![Seen::Before; parents.len()];
    vertices.iter().for_each(|&v| seen[v as usize] = Seen::Never);
    let mut smallest = None;
    for &start in vertices {
        let mut v = start;
        while seen[v as usize] == Seen::Never {
            seen[v as usize] = Seen::InThisWalk;
            v = parents[v as usize];
        }
        if seen[v as usize] == Seen::InThisWalk {
            let circle =
                std::iter::successors(Some(parents[v as usize]), |&u| (u != v).then(|| parents[u as usize]));
            smallest = smallest.into_iter().chain(circle).min();
        }
        let mut v = start;
        while seen[v as usize] == Seen::InThisWalk {
            seen[v as usize] = Seen::Before;
            v = parents[v as usize];
        }
    }
    smallest
}

/// What following the edges of a frontier came to.
struct Step<T> {
    next: Vec<VertexId>,
    first: Option<Finding<T>>,
}

impl<T> Default for Step<T> {
    fn default() -> Self {
        Self { next: Vec::new(), first: None }
    }
}

impl<T: Measure> Step<T> {
    fn and(mut self, mut other: Self) -> Self {
        self.next.append(&mut other.next);
        Self { next: self.next, first: Finding::earlier(self.first, other.first) }
    }
}

/// What refutes an answer at `vertex`; the earliest is told.
#[derive(Clone, Copy)]
struct Finding<T> {
    /// The value offered; without an offer, the value given.
    value: T,
    rank: Rank,
    vertex: VertexId,
    /// Who offers.
    neighbor: VertexId,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Offer,
    Uncertified,
    BeyondLimit,
}

impl<T: Measure> Finding<T> {
    fn earlier(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let key = |finding: &Self| (finding.rank, finding.vertex, finding.neighbor);
        a.into_iter().chain(b).min_by(|a, b| a.value.total_cmp(b.value).then_with(|| key(a).cmp(&key(b))))
    }
}

/// A set of vertices to which threads add at the same time; reading it is for after the join that ends their loop.
struct Bitmap(Vec<AtomicU64>);

impl Bitmap {
    fn new(num_vertices: usize) -> Self {
        Self((0..num_vertices.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Adds `v`; whether it is new.
    fn insert(&self, v: VertexId) -> bool {
        let (word, bit) = (&self.0[v as usize / 64], 1 << (v % 64));
        word.load(Relaxed) & bit == 0 && word.fetch_or(bit, Relaxed) & bit == 0
    }

    fn contains(&self, v: VertexId) -> bool {
        self.0[v as usize / 64].load(Relaxed) >> (v % 64) & 1 == 1
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::ops::RangeInclusive;

    use proptest::prelude::*;

    use super::*;
    use crate::graph::{Order, Weights};
    use crate::reference;

    const NO_LIMIT: SsspLimit = SsspLimit { distance: None, target: None };
    const UNREACHED: u64 = Distances::UNREACHED;

    /// A directed graph of `n` vertices from its edges and their weights, in any order.
    pub(in crate::verify) fn graph(n: u32, edges: impl IntoIterator<Item = (u32, u32, u32)>) -> Csr {
        let mut edges: Vec<_> = edges.into_iter().collect();
        edges.sort_unstable();
        let row_offsets: Vec<u64> = (0..=n).map(|u| edges.partition_point(|e| e.0 < u) as u64).collect();
        let columns: Vec<u32> = edges.iter().map(|e| e.1).collect();
        let weights: Vec<u32> = edges.iter().map(|e| e.2).collect();
        Csr::new(row_offsets, columns, Weights::U32(weights.into()), false).expect("edges of these vertices")
    }

    /// The same graph with each weight divided by 10: most of them, and most of their sums, have to be rounded.
    fn real(csr: &Csr) -> Csr {
        let Weights::U32(weights) = csr.weights() else { unreachable!("graph() makes u32 weights") };
        let weights: Vec<f64> = weights.iter().map(|&w| f64::from(w) / 10.0).collect();
        csr.with_weights(Weights::F64(weights.into())).expect("as many weights")
    }

    /// Every graph of `n` vertices without loops, each edge absent or of a weight in the range.
    pub(in crate::verify) fn graphs(n: u32, weights: RangeInclusive<u32>) -> impl Iterator<Item = Csr> {
        let pairs: Vec<_> =
            (0..n).flat_map(|u| (0..n).map(move |v| (u, v))).filter(|(u, v)| u != v).collect();
        let choices: Vec<_> = std::iter::once(None).chain(weights.map(Some)).collect();
        arrays(pairs.len(), choices).map(move |chosen| {
            graph(n, pairs.iter().zip(chosen).filter_map(|(&(u, v), weight)| Some((u, v, weight?))))
        })
    }

    /// Every array of `len` entries out of `choices`.
    pub(in crate::verify) fn arrays<T: Copy>(len: usize, choices: Vec<T>) -> impl Iterator<Item = Vec<T>> {
        let base = choices.len();
        (0..base.pow(len as u32))
            .map(move |number| (0..len).map(|i| choices[number / base.pow(i as u32) % base]).collect())
    }

    /// What an SSSP that stops at `limit` leaves of the distances of a whole one.
    fn within(limit: SsspLimit, distances: Distances) -> Distances {
        let target = limit.target.map_or(f64::INFINITY, |target| distances.get(target));
        let limit = limit.distance.unwrap_or(f64::MAX);
        let last = if target <= limit { target } else { limit };
        let kept = |v: usize| distances.get(v as VertexId) <= last;
        match &distances {
            Distances::Integer(d) => {
                Distances::Integer((0..d.len()).map(|v| if kept(v) { d[v] } else { UNREACHED }).collect())
            }
            Distances::Real(d) => {
                Distances::Real((0..d.len()).map(|v| if kept(v) { d[v] } else { f64::INFINITY }).collect())
            }
        }
    }

    fn integers(distances: &Distances) -> &[u64] {
        let Distances::Integer(distances) = distances else {
            panic!("integer weights have integer distances")
        };
        distances
    }

    /// A tree of tight edges from vertex 0.
    fn parents_of(csr: &Csr, distances: &[u64]) -> Vec<VertexId> {
        let mut parents = vec![NO_PARENT; distances.len()];
        let mut reached = vec![0];
        while let Some(u) = reached.pop() {
            for (_, v, weight) in csr.edges(u) {
                let (from, to) = (distances[u as usize], distances[v as usize]);
                if v != 0 && parents[v as usize] == NO_PARENT && from + weight as u64 == to {
                    parents[v as usize] = u;
                    reached.push(v);
                }
            }
        }
        parents
    }

    /// A light way round, 0 3 1 for 5, beside a heavy edge 0 to 1 for 9; weightless circle 1 2; tail 4; unreached 5.
    fn detour() -> Csr {
        graph(6, [(0, 1, 9), (0, 3, 3), (3, 1, 2), (1, 2, 0), (2, 1, 0), (2, 4, 7), (5, 4, 1), (4, 0, 1)])
    }

    #[test]
    fn right_distances_are_accepted_and_every_wrong_array_is_refused_at_a_wrong_vertex() {
        let limits = [None, Some(0.0), Some(1.5)]
            .into_iter()
            .flat_map(|distance| [None, Some(1), Some(2)].map(|target| SsspLimit { distance, target }));
        for limit in limits {
            for csr in graphs(3, 0..=1) {
                let right = within(limit, reference::sssp(&csr, 0));
                for distances in arrays(3, vec![0, 1, 2, UNREACHED]) {
                    match sssp(&csr, 0, limit, &Distances::Integer(distances.clone()), None) {
                        Ok(()) => assert_eq!(distances, integers(&right)),
                        Err(difference) => {
                            let v = difference.vertex().expect("lengths are right") as usize;
                            assert_ne!(
                                distances[v],
                                integers(&right)[v],
                                "{difference}: {csr:?} {limit:?} {distances:?}"
                            );
                        }
                    }
                }
                assert_eq!(sssp(&csr, 0, limit, &right, None), Ok(()));
            }
        }
    }

    #[test]
    fn one_wrong_distance_is_located_with_the_distance_expected() {
        let csr = detour();
        let answer = reference::sssp(&csr, 0);
        let right = integers(&answer);
        assert_eq!(right, [0, 5, 5, 3, 12, UNREACHED]);
        for v in 0..6 {
            for wrong in (0..20).chain([UNREACHED - 1, UNREACHED]).filter(|&wrong| wrong != right[v]) {
                let mut distances = right.to_vec();
                distances[v] = wrong;
                let difference = sssp(&csr, 0, NO_LIMIT, &Distances::Integer(distances), None)
                    .expect_err("a wrong distance");
                let Difference::Distance { vertex, expected, got, .. } = difference else {
                    panic!("{difference}")
                };
                let known = |distance| (distance != UNREACHED).then_some(Distance::Integer(distance));
                assert_eq!((vertex as usize, expected, got), (v, known(right[v]), known(wrong)));
            }
        }
    }

    #[test]
    fn circle_of_weightless_edges_does_not_certify_itself() {
        // Vertices 1 and 2 are not reached, yet at distance 5 each has a tight edge from the other.
        let csr = graph(3, [(1, 2, 0), (2, 1, 0)]);
        let circle = Distances::Integer(vec![0, 5, 5]);
        let got = Some(Distance::Integer(5));
        let difference = Difference::Distance { vertex: 1, expected: None, neighbor: None, got };
        assert_eq!(sssp(&csr, 0, NO_LIMIT, &circle, None), Err(difference));
        // The same when they are reached, but farther away.
        let csr = graph(3, [(0, 2, 9), (1, 2, 0), (2, 1, 0)]);
        assert!(sssp(&csr, 0, NO_LIMIT, &circle, None).is_err());
        assert_eq!(sssp(&csr, 0, NO_LIMIT, &Distances::Integer(vec![0, 9, 9]), None), Ok(()));
    }

    #[test]
    fn circle_of_weights_swallowed_by_rounding_does_not_certify_itself() {
        let csr = Csr::new(vec![0, 0, 1, 2], vec![2, 1], Weights::F64(vec![1.0, 1.0].into()), false)
            .expect("valid");
        let circle = Distances::Real(vec![0.0, 1e300, 1e300]);
        assert_eq!(
            sssp(&csr, 0, NO_LIMIT, &circle, None).map_err(|difference| difference.vertex()),
            Err(Some(1))
        );
    }

    #[test]
    fn real_distances_are_sums_from_the_source_on() {
        let weights = Weights::F64(vec![0.1, 0.2, 0.3].into());
        let csr = Csr::new(vec![0, 1, 2, 3, 3], vec![1, 2, 3], weights, false).expect("valid");
        let right = vec![0.0, 0.1, 0.1 + 0.2, 0.1 + 0.2 + 0.3];
        assert_eq!(sssp(&csr, 0, NO_LIMIT, &Distances::Real(right.clone()), None), Ok(()));
        let backwards = vec![0.0, 0.1, 0.1 + 0.2, 0.1 + (0.2 + 0.3)];
        assert_ne!(right, backwards);
        assert!(sssp(&csr, 0, NO_LIMIT, &Distances::Real(backwards), None).is_err());
        for wrong in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, f64::MAX] {
            let mut distances = right.clone();
            distances[2] = wrong;
            let verdict = sssp(&csr, 0, NO_LIMIT, &Distances::Real(distances), None);
            assert_eq!(verdict.expect_err("a wrong distance").vertex(), Some(2), "{wrong}");
        }
    }

    #[test]
    fn distances_near_the_end_of_the_range_neither_wrap_nor_round() {
        let csr = graph(3, [(0, 1, u32::MAX), (1, 2, u32::MAX)]);
        let right = vec![0, u64::from(u32::MAX), 2 * u64::from(u32::MAX)];
        assert_eq!(sssp(&csr, 0, NO_LIMIT, &Distances::Integer(right), None), Ok(()));
        let wrong = Distances::Integer(vec![0, u64::from(u32::MAX), UNREACHED - 1]);
        assert_eq!(
            sssp(&csr, 0, NO_LIMIT, &wrong, None).map_err(|difference| difference.vertex()),
            Err(Some(2))
        );
    }

    #[test]
    fn distance_beyond_the_limit_or_the_target_is_refused() {
        let to_distance = SsspLimit { distance: Some(5.5), target: None };
        let to_target = SsspLimit { distance: None, target: Some(1) };
        for limit in [to_distance, to_target] {
            let mut distances = vec![0, 5, 5, 3, UNREACHED, UNREACHED];
            assert_eq!(sssp(&detour(), 0, limit, &Distances::Integer(distances.clone()), None), Ok(()));
            distances[4] = 12;
            let (expected, got) = (Distance::Integer(5), Distance::Integer(12));
            let beyond = Difference::DistanceBeyondLimit { vertex: 4, expected, got };
            assert_eq!(sssp(&detour(), 0, limit, &Distances::Integer(distances), None), Err(beyond));
        }
    }

    #[test]
    fn parents_are_accepted_only_if_tight_edges_lead_to_the_source() {
        for csr in graphs(3, 0..=1) {
            let answer = reference::sssp(&csr, 0);
            let distances = integers(&answer);
            for parents in arrays(3, vec![0, 1, 2, 3, NO_PARENT]) {
                let is_tight = |v: u32| match parents[v as usize] {
                    parent if v == 0 || distances[v as usize] == UNREACHED => parent == NO_PARENT,
                    p if p < 3 && distances[p as usize] != UNREACHED => csr.edges(p).any(|(_, to, w)| {
                        to == v && distances[p as usize] + w as u64 == distances[v as usize]
                    }),
                    _ => false,
                };
                let parent = |&v: &u32| Some(parents[v as usize]).filter(|&parent| parent != NO_PARENT);
                let goes_round =
                    |v: u32| std::iter::successors(parent(&v), parent).take(3).any(|ancestor| ancestor == v);
                let first_wrong = (0..3).find(|&v| !is_tight(v)).or_else(|| (0..3).find(|&v| goes_round(v)));
                let verdict = sssp(&csr, 0, NO_LIMIT, &answer, Some(&parents));
                assert_eq!(
                    verdict.err().and_then(|difference| difference.vertex()),
                    first_wrong,
                    "{parents:?}"
                );
            }
        }
    }

    #[test]
    fn parents_that_go_round_are_refused_at_the_smallest_of_the_circle() {
        let csr = detour();
        let answer = reference::sssp(&csr, 0);
        assert_eq!(sssp(&csr, 0, NO_LIMIT, &answer, Some(&[NO_PARENT, 3, 1, 0, 2, NO_PARENT])), Ok(()));
        let circle = sssp(&csr, 0, NO_LIMIT, &answer, Some(&[NO_PARENT, 2, 1, 0, 2, NO_PARENT]));
        assert_eq!(circle, Err(Difference::ParentCycle { vertex: 1, got: 2 }));
    }

    #[test]
    fn distances_of_the_wrong_type_or_length_are_a_difference() {
        let csr = graph(2, [(0, 1, 1)]);
        let reals = Difference::DistanceType { expected: "integer", got: "real" };
        assert_eq!(sssp(&csr, 0, NO_LIMIT, &Distances::Real(vec![0.0, 1.0]), None), Err(reals));
        let integers = Difference::DistanceType { expected: "real", got: "integer" };
        assert_eq!(sssp(&real(&csr), 0, NO_LIMIT, &Distances::Integer(vec![0, 1]), None), Err(integers));
        let long = Difference::Length { answer: "distances", expected: 2, got: 3 };
        assert_eq!(sssp(&csr, 0, NO_LIMIT, &Distances::Integer(vec![0, 1, 2]), None), Err(long));
        let long = Difference::Length { answer: "parents", expected: 2, got: 3 };
        assert_eq!(sssp(&csr, 0, NO_LIMIT, &Distances::Integer(vec![0, 1]), Some(&[0; 3])), Err(long));
    }

    #[test]
    fn graph_without_vertices_has_an_answer_without_entries() {
        assert_eq!(sssp(&graph(0, []), 0, NO_LIMIT, &Distances::Integer(vec![]), Some(&[])), Ok(()));
    }

    proptest! {
        #[test]
        fn reference_is_accepted_and_its_single_errors_are_located(
            edges in prop::collection::vec((0..60u32, 0..60u32, 0..5u32), 0..200),
            v in 0..60usize,
            wrong in prop::sample::select(vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 1000, UNREACHED]),
            distance in prop::option::of(0.0..12.0),
            target in prop::option::of(0..60u32),
        ) {
            let csr = graph(60, edges);
            let limit = SsspLimit { distance, target };
            let right = within(limit, reference::sssp(&csr, 0));
            prop_assert_eq!(sssp(&csr, 0, limit, &right, None), Ok(()));
            let mut distances = integers(&right).to_vec();
            prop_assume!(distances[v] != wrong);
            distances[v] = wrong;
            let difference = sssp(&csr, 0, limit, &Distances::Integer(distances), None).expect_err("a wrong distance");
            prop_assert_eq!(difference.vertex(), Some(v as VertexId));
        }

        #[test]
        fn graph_that_is_known_to_be_symmetric_gives_the_differences_of_one_that_is_not(
            edges in prop::collection::vec((0..40u32, 0..40u32, 0..5u32), 0..100),
            v in 0..40usize,
            wrong in prop::sample::select(vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 1000, UNREACHED]),
            parent in (0..41u32).prop_map(|parent| if parent == 40 { NO_PARENT } else { parent }),
            distance in prop::option::of(0.0..12.0),
            in_degree_order: bool,
        ) {
            let both = edges.iter().flat_map(|&(u, v, w)| [(u, v, w), (v, u, w)]);
            let unknown = graph(40, both);
            let Weights::U32(weights) = unknown.weights().clone() else { unreachable!("graph() makes u32 weights") };
            let arrays = (unknown.row_offsets().to_vec(), unknown.column_indices().to_vec());
            let mut known = Csr::new(arrays.0, arrays.1, Weights::U32(weights), true).expect("valid");
            if in_degree_order {
                known = known.in_order(Order::Degree).expect("fits");
            }
            let limit = SsspLimit { distance, target: None };
            let right = within(limit, reference::sssp(&unknown, 0));
            let parents = parents_of(&unknown, integers(&right));
            prop_assert_eq!(sssp(&known, 0, limit, &right, Some(&parents)), Ok(()));
            let mut wrong_parents = parents.clone();
            wrong_parents[v] = parent;
            let differences = |csr: &Csr| sssp(csr, 0, limit, &right, Some(&wrong_parents));
            prop_assert_eq!(differences(&known), differences(&unknown));
            let mut distances = integers(&right).to_vec();
            distances[v] = wrong;
            let distances = Distances::Integer(distances);
            prop_assert_eq!(sssp(&known, 0, limit, &distances, None), sssp(&unknown, 0, limit, &distances, None));
            let differences = |csr: &Csr| sssp(csr, 0, limit, &distances, Some(&parents));
            prop_assert_eq!(differences(&known), differences(&unknown));
        }

        #[test]
        fn reference_is_accepted_and_its_rounding_errors_are_located(
            edges in prop::collection::vec((0..60u32, 0..60u32, 0..500u32), 0..200),
            v in 0..60usize,
            up: bool,
            distance in prop::option::of(0.0..100.0),
            target in prop::option::of(0..60u32),
        ) {
            let csr = real(&graph(60, edges));
            let limit = SsspLimit { distance, target };
            let right = within(limit, reference::sssp(&csr, 0));
            prop_assert_eq!(sssp(&csr, 0, limit, &right, None), Ok(()));
            let Distances::Real(mut distances) = right else { panic!("real weights have real distances") };
            distances[v] = if up { distances[v].next_up() } else { distances[v].next_down() };
            prop_assume!(distances[v] != f64::INFINITY);
            let difference = sssp(&csr, 0, limit, &Distances::Real(distances), None).expect_err("a wrong distance");
            prop_assert_eq!(difference.vertex(), Some(v as VertexId));
        }
    }
}
