//! What several test programs need: settings to run through, and random graphs.
#![allow(dead_code, reason = "each test program uses its part")]

pub mod lined;

use gpuvm_engine::graph::{Csr, Weights};
use gpuvm_engine::{Access, Engine, EngineConfig, PageSize, Policy, Variant, WarpLanes, Workload};
use proptest::prelude::*;

/// Paged at 4 KiB, with the settings that tests vary.
pub fn paged(variant: Variant, policy: Policy, threads: usize, lanes: WarpLanes) -> EngineConfig {
    EngineConfig {
        access: Some(Access::Paged),
        page_size: PageSize::new(4096).expect("allowed"),
        variant,
        policy,
        threads: Some(threads),
        warp_lanes: lanes,
        ..EngineConfig::default()
    }
}

/// The same settings with the least budget that the plan allows for `workload`.
pub fn with_least_budget(config: EngineConfig, csr: &Csr, workload: Workload) -> EngineConfig {
    let least =
        Engine::new(config.clone()).expect("valid").plan(csr, workload).expect("no budget given").least_bytes;
    EngineConfig { gpu_mem: Some(least), ..config }
}

/// A directed graph from its edges; rows are sorted, nothing is merged.
pub fn csr_of(num_vertices: u32, edges: &[(u32, u32)], weights: impl Fn(&[u32]) -> Weights) -> Csr {
    let mut order: Vec<u32> = (0..edges.len() as u32).collect();
    order.sort_by_key(|&i| edges[i as usize]);
    let mut row_offsets = vec![0_u64; num_vertices as usize + 1];
    for &(u, _) in edges {
        row_offsets[u as usize + 1] += 1;
    }
    for u in 0..num_vertices as usize {
        row_offsets[u + 1] += row_offsets[u];
    }
    let columns: Vec<u32> = order.iter().map(|&i| edges[i as usize].1).collect();
    Csr::new(row_offsets, columns, weights(&order), false).expect("a valid graph")
}

/// Graphs of up to 300 vertices and 6000 edges, so up to six 4 KiB pages of columns, some with a hub whose row crosses
/// page boundaries; weights of every type, zeros among them.
pub fn random_graph() -> impl Strategy<Value = Csr> {
    (1_u32..300, 0_usize..6000, any::<u64>(), 0_u8..7, prop::bool::ANY).prop_map(|(n, m, seed, kind, hub)| {
        let mut state = seed | 1;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let edges: Vec<(u32, u32)> = (0..m)
            .map(|i| {
                let u = if hub && i % 2 == 0 { n / 2 } else { (next() % u64::from(n)) as u32 };
                (u, (next() % u64::from(n)) as u32)
            })
            .collect();
        let values: Vec<u32> = (0..m).map(|_| (next() >> 40) as u32).collect();
        csr_of(n, &edges, |order| {
            let pick = order.iter().map(|&i| values[i as usize]);
            match kind {
                0 => Weights::Unit,
                1 => Weights::Hash,
                2 => Weights::U8(pick.map(|w| (w % 4) as u8).collect::<Vec<_>>().into()),
                3 => Weights::U16(pick.map(|w| w as u16).collect::<Vec<_>>().into()),
                4 => Weights::U32(pick.collect::<Vec<_>>().into()),
                5 => Weights::F32(pick.map(|w| (w % 8) as f32 * 0.5).collect::<Vec<_>>().into()),
                _ => Weights::F64(pick.map(|w| f64::from(w % 1000) * 0.1).collect::<Vec<_>>().into()),
            }
        })
    })
}

/// The graph with the reverse of every edge, all of weight 1.
pub fn symmetrized(csr: &Csr) -> Csr {
    let both = |u: u32| csr.neighbors(u).iter().flat_map(move |&v| [(u, v), (v, u)]);
    let edges: Vec<(u32, u32)> = (0..csr.num_vertices() as u32).flat_map(both).collect();
    let directed = csr_of(csr.num_vertices() as u32, &edges, |_| Weights::Unit);
    let (row_offsets, columns) = (directed.row_offsets().clone(), directed.column_indices().clone());
    Csr::new(row_offsets, columns, Weights::Unit, true).expect("a valid graph")
}

/// Both warps: the product's and the emulated one of 32 lanes.
pub const LANES: [WarpLanes; 2] = [WarpLanes::One, WarpLanes::ThirtyTwo];
