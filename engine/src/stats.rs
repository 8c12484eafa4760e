//! What a run did, step by step.

use std::iter::Sum;
use std::ops::AddAssign;

use gpuvm_kernels::layout::{SCAN_CHUNKS, SCAN_HEADS, SCAN_ROWS, SCAN_SEGMENTS, SCAN_TAILS, StepRecord};
use serde::Serialize;

use crate::plan::MAX_RECORDS;

/// Who looks for whom in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The frontier's vertices look at their outgoing edges.
    Push,
    /// Unvisited vertices look for the frontier among their neighbours.
    Pull,
}

/// How a step finds its edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scan {
    /// A lane a row, over all vertices.
    Rows,
    /// The chunks in the frontier's queues; a warp takes several, and short ones together.
    Chunks,
    /// A warp a segment, over all edges in address order.
    Segments,
    /// Over the vertices, no edge is looked at.
    Vertices,
    /// The heads of unvisited vertices.
    Heads,
    /// A warp a segment in which unvisited vertices have edges beyond their heads, over these.
    Tails,
}

impl Scan {
    /// The name that is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Chunks => "chunks",
            Self::Segments => "segments",
            Self::Vertices => "vertices",
            Self::Heads => "heads",
            Self::Tails => "tails",
        }
    }
}

/// What the page table did; all zero unless the access is paged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PagingStats {
    /// Accesses that found their page resident.
    pub hits: u64,
    /// Accesses that fetched their page.
    pub faults: u64,
    /// Lanes that shared another lane's access, and accesses that waited for another warp's fetch.
    pub coalesced: u64,
    /// Pages that lost their frame.
    pub evictions: u64,
    /// Bytes fetched from host memory.
    pub bytes_in: u64,
}

impl AddAssign for PagingStats {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.faults += other.faults;
        self.coalesced += other.coalesced;
        self.evictions += other.evictions;
        self.bytes_in += other.bytes_in;
    }
}

impl Sum for PagingStats {
    fn sum<I: Iterator<Item = Self>>(steps: I) -> Self {
        steps.fold(Self::default(), |mut total, step| {
            total += step;
            total
        })
    }
}

/// One step of a traversal.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StepStats {
    /// Vertices whose edges were looked at; of a step that pulls, vertices that were looked for.
    pub frontier: u64,
    /// Edges looked at.
    pub edges: u64,
    /// Who looks for whom.
    pub direction: Direction,
    /// How edges were found.
    pub scan: Scan,
    /// What the page table did.
    #[serde(flatten)]
    pub paging: PagingStats,
    /// Duration by the device's clock.
    pub seconds: f64,
}

/// A run from its source to its answer, without preparing the graph.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunStats {
    /// The steps in order. Only the first 4095 stand alone: the last entry adds up all from there on.
    pub steps: Vec<StepStats>,
    /// The whole run: vertex state set up, all steps, answer copied out.
    pub seconds: f64,
}

impl RunStats {
    /// The entry of [`steps`](RunStats::steps) that adds up all steps from this one on, if there are so many.
    pub const SUMMED_STEP: usize = MAX_RECORDS - 1;

    /// Edges looked at in all steps.
    pub fn edges(&self) -> u64 {
        self.steps.iter().map(|step| step.edges).sum()
    }

    /// What the page table did in all steps.
    pub fn paging(&self) -> PagingStats {
        self.steps.iter().map(|step| step.paging).sum()
    }
}

impl From<&StepRecord> for StepStats {
    fn from(record: &StepRecord) -> Self {
        Self {
            frontier: record.frontier,
            edges: record.edges,
            direction: match record.scan {
                SCAN_HEADS | SCAN_TAILS => Direction::Pull,
                _ => Direction::Push,
            },
            scan: match record.scan {
                SCAN_ROWS => Scan::Rows,
                SCAN_CHUNKS => Scan::Chunks,
                SCAN_SEGMENTS => Scan::Segments,
                SCAN_HEADS => Scan::Heads,
                SCAN_TAILS => Scan::Tails,
                _ => Scan::Vertices,
            },
            paging: PagingStats {
                hits: record.hits,
                faults: record.faults,
                coalesced: record.coalesced,
                evictions: record.evictions,
                bytes_in: record.bytes_in,
            },
            seconds: record.ns as f64 * 1e-9,
        }
    }
}
