//! Power-law graphs by recursive subdivision of the adjacency matrix (R-MAT: Chakrabarti, Zhan, Faloutsos, SDM 2004)
//! with the quadrant probabilities of Graph500: 0.57, 0.19, 0.19, 0.05.
//!
//! Every edge has a random stream of its own, a function of the seed and its number, so threads share nothing. This is
//! not the generator of the GAP benchmark: the distribution is the same, the edges are not.

use gpuvm_engine::graph::{Csr, VertexId, Weights};
use rayon::prelude::*;
use thiserror::Error;

/// An undirected Kronecker graph of `2^scale` vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kronecker {
    /// Binary logarithm of the number of vertices, at most 30.
    pub scale: u32,
    /// Edges generated for each vertex; fewer stay, since loops and duplicates are dropped.
    pub edge_factor: u32,
    /// Another seed gives another graph.
    pub seed: u64,
}

/// A [`Kronecker`] graph that cannot be made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("scale {scale} is too large, at most 30 are possible")]
pub struct KroneckerError {
    scale: u32,
}

/// Of 2^32: the upper half of the rows, the left half of its columns, the left half of the lower rows' columns.
const UPPER: u32 = (0.76 * 4_294_967_296.0) as u32;
const UPPER_LEFT: u32 = (0.57 / 0.76 * 4_294_967_296.0) as u32;
const LOWER_LEFT: u32 = (0.19 / 0.24 * 4_294_967_296.0) as u32;

/// One step of the generator SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Kronecker {
    /// Edges that are generated, loops and duplicates among them.
    pub fn num_generated_edges(&self) -> u64 {
        u64::from(self.edge_factor) << self.scale
    }

    /// The two ends of generated edge `e`.
    fn edge(&self, e: u64) -> (VertexId, VertexId) {
        let mut state = self.seed ^ e.wrapping_mul(0xD134_2543_DE82_EF95);
        let (mut u, mut v) = (0, 0);
        for _ in 0..self.scale {
            let random = split_mix(&mut state);
            let (row, column) = ((random >> 32) as u32, random as u32);
            let lower = row >= UPPER;
            let right = column >= if lower { LOWER_LEFT } else { UPPER_LEFT };
            u = u << 1 | u32::from(lower);
            v = v << 1 | u32::from(right);
        }
        (self.scramble(u), self.scramble(v))
    }

    /// A permutation of the ids, so that the degree of a vertex does not show in its id.
    fn scramble(&self, v: VertexId) -> VertexId {
        let mask = (1_u64 << self.scale) - 1;
        let mut x = u64::from(v);
        // Odd factors and shifts to the right are bijections of the low `scale` bits.
        for factor in [0x2545_F491_4F6C_DD1D, 0x9E37_79B9_7F4A_7C15_u64 | self.seed << 1] {
            x = x.wrapping_mul(factor | 1) & mask;
            x ^= x >> (self.scale / 2 + 1);
        }
        x as VertexId
    }

    /// The graph: each edge in both directions, rows sorted, no loops, no duplicates. Takes 16 bytes a generated edge
    /// while it runs.
    ///
    /// # Errors
    /// [`KroneckerError`] if the scale is too large.
    pub fn generate(&self) -> Result<Csr, KroneckerError> {
        if self.scale > 30 {
            return Err(KroneckerError { scale: self.scale });
        }
        let mut edges: Vec<(VertexId, VertexId)> = (0..self.num_generated_edges())
            .into_par_iter()
            .map(|e| self.edge(e))
            .flat_map_iter(|(u, v)| [(u, v), (v, u)].into_iter().take(if u == v { 0 } else { 2 }))
            .collect();
        edges.par_sort_unstable();
        edges.dedup();
        let row_offsets: Vec<u64> = (0..=1_u64 << self.scale)
            .into_par_iter()
            .map(|u| edges.partition_point(|&(row, _)| u64::from(row) < u) as u64)
            .collect();
        let columns: Vec<VertexId> = edges.par_iter().map(|&(_, v)| v).collect();
        Ok(Csr::new(row_offsets, columns, Weights::Unit, true).expect("rows come from the sorted edges"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Kronecker = Kronecker { scale: 12, edge_factor: 16, seed: 1 };

    #[test]
    fn graph_is_the_same_at_any_number_of_threads() {
        let with_threads = |n| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().expect("threads");
            pool.install(|| SMALL.generate()).expect("small")
        };
        let (one, four) = (with_threads(1), with_threads(4));
        assert_eq!(one.row_offsets().as_slice(), four.row_offsets().as_slice());
        assert_eq!(one.column_indices().as_slice(), four.column_indices().as_slice());
    }

    #[test]
    fn every_edge_has_its_reverse_and_there_are_no_loops_or_duplicates() {
        let csr = SMALL.generate().expect("small");
        for u in 0..csr.num_vertices() as VertexId {
            assert!(csr.neighbors(u).is_sorted_by(|a, b| a < b));
            assert!(csr.neighbors(u).iter().all(|&v| v != u && csr.neighbors(v).binary_search(&u).is_ok()));
        }
    }

    #[test]
    fn degrees_are_skewed_as_a_power_law_has_them() {
        let csr = SMALL.generate().expect("small");
        let hub = csr.max_degree_vertex().expect("vertices");
        let mean = csr.num_edges() / csr.num_vertices();
        assert!(csr.out_degree(hub) > 30 * mean, "hub {} mean {mean}", csr.out_degree(hub));
        assert!((0..4096).filter(|&u| csr.out_degree(u) == 0).count() > 400, "many vertices are isolated");
    }

    #[test]
    fn scale_beyond_32_bit_ids_is_refused() {
        assert_eq!(Kronecker { scale: 31, ..SMALL }.generate().unwrap_err(), KroneckerError { scale: 31 });
    }
}
