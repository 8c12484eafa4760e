//! Graphs laid out so that what a search reads can be counted by hand: every row has 32 edges, which are one line of 128
//! bytes, and a page of 4 KiB has the rows of 32 vertices.

use gpuvm_engine::graph::{Csr, Weights};

use super::csr_of;

pub const LINE: u64 = 128;
pub const PAGE: u64 = 4096;
pub const ROW: u32 = 32;
pub const ROWS_OF_A_PAGE: u32 = 32;

/// A directed graph of `pages` full pages: vertex 0 leads to `children`, which lead to 32 vertices each after the last
/// that has edges; all others lead to vertex 0.
pub fn two_levels(pages: u32, children: &[u32]) -> Csr {
    let num_rows = pages * ROWS_OF_A_PAGE;
    let mut edges = Vec::new();
    for u in 0..num_rows {
        let child = children.iter().position(|&child| child == u);
        edges.extend((0..ROW).map(|i| match (u, child) {
            (0, _) => (0, children[i as usize % children.len()]),
            (_, Some(child)) => (u, num_rows + child as u32 * ROW + i),
            (_, None) => (u, 0),
        }));
    }
    csr_of(num_rows + children.len() as u32 * ROW, &edges, |_| Weights::Unit)
}

/// A directed graph with its reverse, into whose vertices 2 to 12801 32 edges lead each, all from vertex 2, but those of
/// vertex 2 from vertex 12802, and the first two into each of the `waiters` from vertices 0 and 1, which nothing leads to.
pub fn hub_with(waiters: &[u32]) -> Csr {
    let edges: Vec<(u32, u32)> = (2..SOURCE_OF_THE_HUB)
        .flat_map(|v| {
            (0..ROW).map(move |i| match v {
                2 => (SOURCE_OF_THE_HUB, v),
                _ if i < 2 && waiters.contains(&v) => (i, v),
                _ => (2, v),
            })
        })
        .collect();
    csr_of(SOURCE_OF_THE_HUB + 1, &edges, |_| Weights::Unit).with_reverse(2).expect("fits")
}

/// Where a search of that graph starts.
pub const SOURCE_OF_THE_HUB: u32 = 2 + 400 * ROWS_OF_A_PAGE;
/// Bytes of its heads, two a vertex up to the last that an edge leads to.
pub const HEADS_OF_THE_HUB: u64 = SOURCE_OF_THE_HUB as u64 * 8;
