//! What a run takes of device memory, decided before anything is allocated: every byte is in the plan, so that a run
//! either fits its budget or is refused with the least that would do.

use gpuvm_kernels::layout::{GraphView, LoopState, SSSP_BINS, StepRecord};
use serde::Serialize;

use crate::algorithm::{BATCH_COUNTS, log_entries};
use crate::config::{Access, Directions, EngineConfig, PageSize, Policy, Variant};
use crate::device::Device;
use crate::error::{Error, GraphError};
use crate::graph::{Csr, Heads, WeightBands, num_head_vertices};
use crate::transport;

/// The algorithms a graph is prepared for; vertex state is allocated for these.
///
/// ```
/// use gpuvm_engine::Workload;
/// let workload = Workload { bfs: true, parents: true, ..Workload::default() };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Breadth-first search.
    pub bfs: bool,
    /// Breadth-first search from many sources at once.
    pub bfs_batch: bool,
    /// Connected components.
    pub connected_components: bool,
    /// PageRank.
    pub page_rank: bool,
    /// Single-source shortest paths.
    pub sssp: bool,
    /// Parents of BFS and SSSP.
    pub parents: bool,
}

impl Workload {
    /// None of them, to name those that are wanted.
    pub const NONE: Self = Self {
        bfs: false,
        bfs_batch: false,
        connected_components: false,
        page_rank: false,
        sssp: false,
        parents: false,
    };
    /// All algorithms, with parents.
    pub const ALL: Self = Self {
        bfs: true,
        bfs_batch: true,
        connected_components: true,
        page_rank: true,
        sssp: true,
        parents: true,
    };

    /// Whether other algorithms than SSSP read edges: whole, however SSSP's are split.
    pub(crate) fn reads_whole_edges(self) -> bool {
        self.bfs || self.connected_components || self.page_rank
    }

    /// Heads of a vertex that a run on `csr` uses: those that the graph has, or else what `config` has made; 0 for none.
    /// They serve BFS where the edges into each vertex are known, components where every edge has its reverse, and not the
    /// naive variant, which is the paper's.
    pub(crate) fn heads_per_vertex(self, csr: &Csr, config: &EngineConfig) -> u32 {
        let pulls =
            (self.bfs || self.bfs_batch) && config.directions != Directions::Push && csr.incoming().is_some();
        let wanted = (pulls || self.connected_components && csr.is_symmetric())
            && csr.num_edges() > 0
            && config.variant == Variant::Balanced;
        match csr.incoming().and_then(Csr::heads) {
            _ if !wanted || config.heads == 0 => 0,
            Some(heads) => heads.per_vertex(),
            None if config.directions == Directions::Pull
                || Heads::are_few(csr.row_offsets(), config.heads) =>
            {
                config.heads
            }
            None => 0,
        }
    }
}

/// Steps that a run keeps the figures of, each by itself: 288 KiB. Later ones are added up in the last.
pub(crate) const MAX_RECORDS: usize = 4096;

/// Of the histograms of SSSP by weight bands: two, in three sets.
pub(crate) const HISTOGRAM_WORDS: u64 = 3 * 2 * SSSP_BINS;

/// One line of a [`MemoryPlan`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanItem {
    /// What the bytes are for.
    pub name: &'static str,
    /// Bytes of device memory.
    pub bytes: u64,
}

/// What a run takes of device memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryPlan {
    /// How edges are reached.
    pub access: Access,
    /// Why: what was asked for, or what the plan found.
    pub access_reason: String,
    /// Every allocation.
    pub items: Vec<PlanItem>,
    /// The sum of the items.
    pub total_bytes: u64,
    /// What the run may take.
    pub budget_bytes: u64,
    /// The least budget that would do, paged.
    pub least_bytes: u64,
    /// Bytes of a page.
    pub page_size: PageSize,
    /// Pages that the edges make: columns, weights, columns of the reverse graph, and heads.
    pub num_pages: u64,
    /// Frames for them; 0 unless paged.
    pub num_frames: u64,
    /// Of these, frames that keep their page in dense steps; 0 unless the policy is `pinned-share` and pages are evicted.
    pub num_pinned_frames: u64,
    /// Of these, frames of the pages of the heads, each of which has its own and never leaves it; 0 unless the policy is
    /// `pinned-share`, pages are evicted and the heads take a quarter of the frames at most.
    pub num_head_frames: u64,
    /// Heads of a vertex, copies of its first neighbours; 0 for none.
    pub heads_per_vertex: u32,
    /// Whether the reverse of a directed graph is put on the device, too.
    pub uses_reverse: bool,
    /// Edges of a segment: the most that a work item covers.
    pub chunk_edges: u32,
    /// Warps of a launch.
    pub num_warps: u32,
    /// Least weight of each band that SSSP's edges are split into, light first; empty if they are not split.
    #[serde(skip)]
    pub weight_bands: Vec<f64>,
    /// Edges that lie in one page of every array.
    #[serde(skip)]
    pub(crate) page_edges: u32,
}

impl MemoryPlan {
    /// The plan for running `workload` on `csr`.
    pub(crate) fn new(
        csr: &Csr,
        workload: Workload,
        config: &EngineConfig,
        device: &Device,
    ) -> Result<Self, Error> {
        let whole = Self::with_bands(csr, workload, config, device, vec![])?;
        if !(workload.sssp && whole.evicts() && config.variant == Variant::Balanced) {
            return Ok(whole);
        }
        let Some(floors) = WeightBands::floors(csr) else { return Ok(whole) };
        let paged = EngineConfig { access: Some(Access::Paged), ..config.clone() };
        match Self::with_bands(csr, workload, &paged, device, floors) {
            // A split takes more vertex state: not at the price of most frames.
            Ok(split) if split.num_frames >= whole.num_frames / 2 => {
                Ok(Self { access_reason: whole.access_reason, least_bytes: whole.least_bytes, ..split })
            }
            _ => Ok(whole),
        }
    }

    /// The plan with SSSP's edges split at `floors`, or not split.
    fn with_bands(
        csr: &Csr,
        workload: Workload,
        config: &EngineConfig,
        device: &Device,
        floors: Vec<f64>,
    ) -> Result<Self, Error> {
        let (n, m) = (csr.num_vertices(), csr.num_edges());
        let page_bytes = config.page_size.bytes();
        let weight_bytes = if workload.sssp { u64::from(csr.weights().weight_type().bytes()) } else { 0 };

        let page_edges = (page_bytes / weight_bytes.max(size_of::<u32>() as u64)) as u32;
        let chunk_edges = config.chunk_edges.unwrap_or(page_edges);
        // Queues name segments by 32 bits.
        let least_chunk_edges = m.div_ceil(u32::MAX.into()).next_power_of_two();
        if !chunk_edges.is_power_of_two()
            || chunk_edges > page_edges
            || u64::from(chunk_edges) < least_chunk_edges
        {
            return Err(Error::ChunkEdges { chunk_edges, least: least_chunk_edges, most: page_edges });
        }
        let num_bands = floors.len() as u64;
        // Every band may have one that is not full.
        let num_segments = m.div_ceil(chunk_edges.into()) + num_bands;
        let (column_bytes, weights_bytes) = (m * 4, m * weight_bytes);
        let heads_per_vertex = workload.heads_per_vertex(csr, config);
        if !(heads_per_vertex == 0 || heads_per_vertex.is_power_of_two()) || heads_per_vertex > Heads::MOST {
            return Err(GraphError::HeadsPerVertex { per_vertex: heads_per_vertex, most: Heads::MOST }.into());
        }
        let head_bytes = match heads_per_vertex {
            0 => 0,
            heads => {
                let offsets = csr.incoming().map_or(&[][..], |incoming| incoming.row_offsets());
                num_head_vertices(offsets) * 4 * u64::from(heads)
            }
        };
        let num_head_pages = head_bytes.div_ceil(page_bytes);
        let uses_reverse = heads_per_vertex > 0 && !csr.is_symmetric();
        let reverse_bytes = if uses_reverse { column_bytes } else { 0 };
        let (column_pages, weights_pages) =
            (column_bytes.div_ceil(page_bytes), weights_bytes.div_ceil(page_bytes));
        let reads_whole = num_bands == 0 || workload.reads_whole_edges();
        let pages_of_whole = u64::from(reads_whole) + u64::from(uses_reverse);
        let pages_of_bands = if num_bands > 0 { column_pages + 2 * num_bands } else { 0 };
        let num_pages = pages_of_whole * column_pages + pages_of_bands + weights_pages + num_head_pages;

        let mut state = vec![PlanItem { name: "row offsets", bytes: (n + 1) * 8 * u64::from(reads_whole) }];
        let mut add = |name, bytes| state.push(PlanItem { name, bytes });
        if num_bands > 0 {
            // At the longest: a band whose edges 32 bits can count has shorter ones.
            let offset_bytes = if m <= u32::MAX.into() { 4 } else { 8 };
            add("row offsets of weight bands", num_bands * (n + 1) * offset_bytes);
            add("segments of weight bands", num_segments * 4);
            add("weight bands", num_bands * size_of::<GraphView>() as u64 + HISTOGRAM_WORDS * 8);
        }
        if config.variant == Variant::Balanced {
            add("segments", num_segments * 4);
            if uses_reverse {
                add("reverse row offsets", (n + 1) * 8);
                add("reverse segments", num_segments * 4);
            }
            if workload.bfs || workload.bfs_batch || workload.sssp {
                add("frontier queues", 2 * 4 * (n + num_segments));
            }
        }
        if workload.bfs {
            add("levels", n * 4);
        }
        if (workload.bfs || workload.bfs_batch) && heads_per_vertex > 0 {
            add("segments that vertices wait in", num_segments * 4);
        }
        if workload.bfs_batch {
            add("search masks", 3 * 8 * n);
            add("search counts", 8 * BATCH_COUNTS);
            add("log of vertices found", 16 * log_entries(n));
        }
        if workload.sssp {
            add("distances", n * 8);
            add("frontier stamps", n * 4);
        }
        if workload.parents {
            add("parents", n * 4);
            if csr.permutation().is_some() {
                add("original ids", n * 4);
            }
        }
        if workload.connected_components {
            add("labels", n * 4);
        }
        if workload.page_rank {
            add("ranks", 3 * 8 * n);
        }
        add("step records", (size_of::<LoopState>() + MAX_RECORDS * size_of::<StepRecord>()) as u64);
        let state_bytes: u64 = state.iter().map(|item| item.bytes).sum();

        // A warp that waits holds at most one page and fetches another, so it can keep two frames from being evicted when
        // weights are paged, else one; with that many frames a warp, a claim always succeeds in the end.
        let frames_per_warp = if weight_bytes > 0 { 2 } else { 1 };
        let least_frames = (frames_per_warp * u64::from(device.warps_at_a_time())).min(num_pages);
        let queue_bytes = transport::device_bytes(&config.transport);
        let paging_bytes = |frames: u64| num_pages * 8 + frames * 8 + 8 + frames * page_bytes + queue_bytes;
        let least_bytes = state_bytes + paging_bytes(least_frames);
        let resident_bytes = state_bytes + column_bytes + weights_bytes + reverse_bytes + head_bytes;

        let free_bytes = device.free_bytes()?;
        // Never more than there is: a budget is a bound, not a promise.
        let budget_bytes = match config.gpu_mem {
            Some(bytes) if device.is_cpu() => bytes,
            Some(bytes) => bytes.min(free_bytes),
            None => free_bytes,
        };
        let (access, access_reason) = match config.access {
            Some(access @ (Access::Managed | Access::ManagedReadMostly)) if device.is_cpu() => {
                return Err(Error::AccessNeedsGpu { access: access.name() });
            }
            Some(access) if access != Access::Paged && config.transport.uses_queues() => {
                let transport = config.transport.kind.name();
                return Err(Error::TransportWithoutPages { transport, access: access.name() });
            }
            Some(access) => (access, "as asked".to_owned()),
            None if config.transport.uses_queues() => {
                (Access::Paged, format!("transport {} moves pages", config.transport.kind))
            }
            None if config.gpu_mem.is_none() && device.is_cpu() => {
                (Access::ZeroCopy, "the CPU device reads the graph in place, no budget was given".to_owned())
            }
            None if resident_bytes <= budget_bytes => {
                (Access::Resident, "all edges fit the budget".to_owned())
            }
            None => (Access::Paged, "the edges do not fit the budget".to_owned()),
        };

        let (mut num_frames, mut num_pinned_frames, mut num_head_frames) = (0, 0, 0);
        let mut num_warps = device.max_warps() - transport::num_warps_left(device, &config.transport);
        let needed_bytes = match access {
            Access::Paged => least_bytes,
            // Managed memory beyond what the card has free may hang it, so it counts like any other.
            Access::Resident | Access::Managed | Access::ManagedReadMostly => resident_bytes,
            // In place: the CPU device reads row offsets where they are, too.
            Access::ZeroCopy if device.is_cpu() => {
                state_bytes
                    - state.iter().filter(|item| is_row_offsets(item)).map(|item| item.bytes).sum::<u64>()
            }
            Access::ZeroCopy => state_bytes,
        };
        if needed_bytes > budget_bytes {
            return Err(Error::BudgetTooSmall {
                access: access.name(),
                budget_bytes,
                least_bytes: needed_bytes,
            });
        }
        match access {
            Access::Paged => {
                let for_frames = budget_bytes - state_bytes - num_pages * 8 - 8 - queue_bytes;
                num_frames =
                    (for_frames / (page_bytes + 8)).clamp(least_frames, num_pages).min(u32::MAX.into());
                if num_frames < num_pages {
                    // As many warps as have frames enough, twice over so that claims find one soon.
                    let at_a_time = device.warps_at_a_time();
                    let warps =
                        num_frames / (2 * frames_per_warp) / u64::from(at_a_time) * u64::from(at_a_time);
                    num_warps = num_warps.min(u32::try_from(warps).unwrap_or(u32::MAX)).max(at_a_time);
                    if config.policy == Policy::PinnedShare {
                        // What warps hold at a time must fit what is left, again twice over, and an eighth makes up for
                        // pages that came first and are not needed again.
                        let ring = (2 * frames_per_warp * u64::from(num_warps)).max(num_frames / 8);
                        num_pinned_frames = num_frames.saturating_sub(ring);
                        if num_head_pages <= num_pinned_frames.min(num_frames / 4) {
                            num_head_frames = num_head_pages;
                        }
                    }
                }
                state.push(PlanItem { name: "page table", bytes: num_pages * 8 });
                state.push(PlanItem { name: "frame owners", bytes: num_frames * 8 + 8 });
                if queue_bytes > 0 {
                    state.push(PlanItem { name: "queues", bytes: queue_bytes });
                }
                state.push(PlanItem { name: "page frames", bytes: num_frames * page_bytes });
            }
            Access::Resident | Access::Managed | Access::ManagedReadMostly => {
                state.push(PlanItem { name: "column indices", bytes: column_bytes });
                state.push(PlanItem { name: "weights", bytes: weights_bytes });
                state.push(PlanItem { name: "reverse", bytes: reverse_bytes });
                state.push(PlanItem { name: "heads", bytes: head_bytes });
            }
            Access::ZeroCopy if device.is_cpu() => {
                state.iter_mut().filter(|item| is_row_offsets(item)).for_each(|item| item.bytes = 0);
            }
            Access::ZeroCopy => {}
        }
        let total_bytes = state.iter().map(|item| item.bytes).sum();
        Ok(Self {
            access,
            access_reason,
            items: state,
            total_bytes,
            budget_bytes,
            least_bytes,
            page_size: config.page_size,
            num_pages,
            num_frames,
            num_pinned_frames,
            num_head_frames,
            heads_per_vertex,
            uses_reverse,
            chunk_edges,
            num_warps,
            weight_bands: floors,
            page_edges,
        })
    }

    /// Whether heads that were read stay on the device.
    pub(crate) fn heads_stay(&self) -> bool {
        self.access == Access::Paged && (!self.evicts() || self.num_head_frames > 0)
    }

    /// Whether pages have to be evicted: there are fewer frames than pages.
    pub fn evicts(&self) -> bool {
        self.access == Access::Paged && self.num_frames < self.num_pages
    }
}

fn is_row_offsets(item: &PlanItem) -> bool {
    item.name.ends_with("row offsets")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Weights;

    /// A ring of 4096 vertices: 16 KiB of columns, four pages of 4 KiB.
    fn ring() -> Csr {
        let n = 4096_u32;
        let columns: Vec<u32> = (0..n).map(|u| (u + 1) % n).collect();
        Csr::new((0..=u64::from(n)).collect::<Vec<_>>(), columns, Weights::Unit, false).expect("valid")
    }

    fn config(gpu_mem: u64, access: Option<Access>) -> EngineConfig {
        let page_size = PageSize::new(4096).expect("allowed");
        EngineConfig { gpu_mem: Some(gpu_mem), access, page_size, ..EngineConfig::default() }
    }

    fn plan_of(
        csr: &Csr,
        workload: Workload,
        config: &EngineConfig,
        threads: usize,
    ) -> Result<MemoryPlan, Error> {
        let device =
            Device::new(&EngineConfig { threads: Some(threads), ..config.clone() }).expect("threads");
        MemoryPlan::new(csr, workload, config, &device)
    }

    const BFS: Workload = Workload { bfs: true, ..Workload::NONE };

    #[test]
    fn least_budget_gives_each_warp_a_frame_and_one_byte_less_is_refused() {
        let refused = plan_of(&ring(), BFS, &config(0, Some(Access::Paged)), 2).expect_err("no memory");
        let Error::BudgetTooSmall { least_bytes, .. } = refused else { panic!("{refused}") };
        let plan = plan_of(&ring(), BFS, &config(least_bytes, Some(Access::Paged)), 2).expect("the least");
        assert_eq!((plan.num_pages, plan.num_frames), (4, 2));
        assert_eq!(plan.total_bytes, least_bytes);
        assert!(plan_of(&ring(), BFS, &config(least_bytes - 1, Some(Access::Paged)), 2).is_err());
    }

    #[test]
    fn auto_pages_only_what_does_not_fit() {
        let plan = plan_of(&ring(), BFS, &config(1 << 30, None), 2).expect("plenty");
        assert_eq!(plan.access, Access::Resident);
        let plan = plan_of(&ring(), BFS, &config(plan.total_bytes - 1, None), 2).expect("nearly enough");
        assert_eq!(plan.access, Access::Paged);
        assert!(plan.evicts());
    }

    #[test]
    fn plan_never_exceeds_its_budget() {
        let least = plan_of(&ring(), Workload::ALL, &config(1 << 30, Some(Access::Paged)), 3)
            .expect("plenty")
            .least_bytes;
        for budget in (least..least + 20_000).step_by(997) {
            let plan =
                plan_of(&ring(), Workload::ALL, &config(budget, Some(Access::Paged)), 3).expect("enough");
            assert!(plan.total_bytes <= budget, "{plan:?}");
        }
    }

    #[test]
    fn chunk_longer_than_a_page_is_refused() {
        let config = EngineConfig { chunk_edges: Some(2048), ..config(1 << 30, None) };
        let refused = plan_of(&ring(), BFS, &config, 1).expect_err("a 4 KiB page has 1024 edges");
        assert!(matches!(refused, Error::ChunkEdges { chunk_edges: 2048, least: 1, most: 1024 }));
    }
}
