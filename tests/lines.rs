//! What BFS reads by lines of 128 bytes and what by pages, counted by hand.

mod common;

use common::lined::{
    HEADS_OF_THE_HUB, LINE, PAGE, ROW, ROWS_OF_A_PAGE, SOURCE_OF_THE_HUB, hub_with, two_levels,
};
use common::{LANES, csr_of, paged, symmetrized};
use gpuvm_engine::graph::{Csr, Weights};
use gpuvm_engine::{
    BfsOptions, BfsResult, Directions, Engine, EngineConfig, Error, Lines, Policy, Scan, TransportConfig,
    TransportKind, Variant, WarpLanes, Workload, reference,
};

const BFS: Workload = Workload { bfs: true, ..Workload::NONE };

fn config(lines: Lines, lanes: WarpLanes) -> EngineConfig {
    EngineConfig { lines, ..paged(Variant::Balanced, Policy::PinnedShare, 2, lanes) }
}

fn search(csr: &Csr, config: EngineConfig) -> BfsResult {
    search_from(0, csr, config)
}

/// With frames for fewer pages than there are, so that a page may leave.
fn search_from(source: u32, csr: &Csr, config: EngineConfig) -> BfsResult {
    let full = Engine::new(config.clone()).expect("valid").plan(csr, BFS).expect("no budget given");
    let mut gpu_mem = full.total_bytes - full.num_pages / 4 * PAGE;
    let prepared = loop {
        let config = EngineConfig { gpu_mem: Some(gpu_mem), ..config.clone() };
        match Engine::new(config).expect("valid").prepare(csr.clone(), BFS) {
            Err(Error::BudgetTooSmall { least_bytes, .. }) if least_bytes > gpu_mem => gpu_mem = least_bytes,
            prepared => break prepared,
        }
    };
    let mut prepared = prepared.expect("the budget is enough");
    assert!(prepared.plan().evicts(), "a page may leave");
    let answer = prepared.bfs(source, &BfsOptions::default()).expect("runs");
    assert_eq!(answer.levels, reference::bfs(csr, source));
    answer
}

fn bytes_in(answer: &BfsResult) -> u64 {
    answer.stats.paging().bytes_in
}

#[test]
fn a_row_alone_in_its_page_is_read_as_one_line() {
    let children: Vec<u32> = (1..=32).map(|page| page * ROWS_OF_A_PAGE).collect();
    let csr = two_levels(100, &children);
    for lanes in LANES {
        assert_eq!(bytes_in(&search(&csr, config(Lines::Auto, lanes))), 33 * LINE, "{lanes:?}");
        assert_eq!(bytes_in(&search(&csr, config(Lines::Never, lanes))), 33 * PAGE, "{lanes:?}");
    }
}

#[test]
fn a_page_of_which_all_rows_are_wanted_is_fetched() {
    let children: Vec<u32> = (32..64).collect();
    let csr = two_levels(100, &children);
    for lanes in LANES {
        assert_eq!(bytes_in(&search(&csr, config(Lines::Auto, lanes))), LINE + PAGE, "{lanes:?}");
    }
}

#[test]
fn a_long_diameter_is_searched_by_pages() {
    // Every vertex leads to the next, 32 times.
    let n = 100 * ROWS_OF_A_PAGE;
    let edges: Vec<(u32, u32)> = (0..n - 1).flat_map(|v| (0..ROW).map(move |_| (v, v + 1))).collect();
    let csr = csr_of(n, &edges, |_| Weights::Unit);
    for lanes in LANES {
        let paging = search(&csr, config(Lines::Auto, lanes)).stats.paging();
        let pages = u64::from(n - 1) * LINE;
        assert_eq!(paging.faults, 100, "{lanes:?}: every page once");
        // The first levels, 16 at the most, read their rows as lines.
        assert!((pages + 1..=pages + 16 * LINE).contains(&paging.bytes_in), "{lanes:?} {paging:?}");
    }
}

#[test]
fn transports_that_move_pages_alone_read_no_lines() {
    let children: Vec<u32> = (1..=32).map(|page| page * ROWS_OF_A_PAGE).collect();
    let csr = two_levels(100, &children);
    for lanes in LANES {
        let transport = TransportConfig { kind: TransportKind::Host, ..TransportConfig::default() };
        let answer = search(&csr, EngineConfig { transport, ..config(Lines::Auto, lanes) });
        assert_eq!(bytes_in(&answer), 33 * PAGE, "{lanes:?}");
    }
}

#[test]
fn a_vertex_that_waits_alone_in_its_page_reads_one_line_of_its_row() {
    let (source, heads) = (SOURCE_OF_THE_HUB, HEADS_OF_THE_HUB);
    for num_waiters in [32, 1] {
        let waiters: Vec<u32> = (1..=num_waiters).map(|page| 2 + page * ROWS_OF_A_PAGE).collect();
        let csr = hub_with(&waiters);
        for lanes in LANES {
            let [lines, pages] = [Lines::Auto, Lines::Never].map(|lines| {
                let config = EngineConfig { directions: Directions::Pull, ..config(lines, lanes) };
                search_from(source, &csr, config)
            });
            // Of the source's row, and of a row each that waits; the heads come as pages.
            let num_rows = 1 + u64::from(num_waiters);
            assert_eq!(bytes_in(&lines), num_rows * LINE + heads, "{lanes:?} {:?}", lines.stats.steps);
            assert_eq!(bytes_in(&pages), num_rows * PAGE + heads, "{lanes:?} {:?}", pages.stats.steps);
            assert!(
                lines.stats.steps.iter().any(|step| step.scan == Scan::Tails),
                "{lanes:?} {:?}",
                lines.stats.steps
            );
        }
    }
}

#[test]
fn a_batch_reads_the_line_of_a_row_as_one_search_does() {
    let workload = Workload { bfs_batch: true, ..Workload::NONE };
    let waiters: Vec<u32> = (1..=32).map(|page| 2 + page * ROWS_OF_A_PAGE).collect();
    let csr = hub_with(&waiters);
    for lanes in LANES {
        for (lines, unit) in [(Lines::Auto, LINE), (Lines::Never, PAGE)] {
            let config = EngineConfig { directions: Directions::Pull, ..config(lines, lanes) };
            let engine = Engine::new(config).expect("valid");
            let mut prepared = engine.prepare(csr.clone(), workload).expect("fits");
            let answer = prepared.bfs_batch(&[SOURCE_OF_THE_HUB], None).expect("runs");
            assert_eq!(answer.levels(0), reference::bfs(&csr, SOURCE_OF_THE_HUB));
            let bytes = answer.runs[0].paging().bytes_in;
            assert_eq!(bytes, 33 * unit + HEADS_OF_THE_HUB, "{lanes:?} {:?}", answer.runs[0].steps);
        }
    }
}

#[test]
fn a_search_of_a_random_graph_reads_less_by_lines() {
    // Vertex v and (v * 37 + i * 101 + 1) mod n are neighbours: rows of 32 from all over.
    let n = 20_000_u64;
    let edges: Vec<(u32, u32)> =
        (0..n).flat_map(|v| (0..16).map(move |i| (v as u32, ((v * 37 + i * 101 + 1) % n) as u32))).collect();
    let csr = symmetrized(&csr_of(n as u32, &edges, |_| Weights::Unit)).with_heads(2).expect("fits");
    for lanes in LANES {
        let [pages, lines] =
            [Lines::Never, Lines::Auto].map(|lines| bytes_in(&search(&csr, config(lines, lanes))));
        assert!(lines < pages, "{lanes:?}: {pages} by pages, {lines} by lines");
    }
}
