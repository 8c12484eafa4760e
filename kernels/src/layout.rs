//! The structs and packed words that Rust and device code share, declared once. `cuda/layout.cuh` repeats them by
//! hand, same names, same order; `build.rs` writes a `static_assert` for the size and alignment of each and for the
//! offset and size of every field, so the two cannot drift apart.
//!
//! Fields are fixed-width integers; a device address is a `u64`, 0 for "not there". This file imports nothing, since
//! `build.rs` takes it in by path.

/// Layout of a shared struct, for the assertions of the device code.
pub struct StructLayout {
    /// Name, the same on both sides.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// Bytes.
    pub align: usize,
    /// Name, offset in bytes and size in bytes of each field.
    pub fields: &'static [(&'static str, usize, usize)],
}

macro_rules! shared_struct {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default)]
            pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
        )*
        /// Every shared struct.
        pub const STRUCTS: &[StructLayout] = &[$(StructLayout {
            name: stringify!($name),
            size: size_of::<$name>(),
            align: align_of::<$name>(),
            fields: &[$((stringify!($field), std::mem::offset_of!($name, $field), size_of::<$type>()),)*],
        },)*];
    };
}

macro_rules! shared_constants {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: u64 = $value;)*
        /// Every shared constant: its name here and its value. Device code writes `FOO_BAR` as `kFooBar`.
        pub const CONSTANTS: &[(&str, u64)] = &[$((stringify!($name), $name),)*];
    };
}

// Page entry, one 64-bit word, so that every transition is one atomic:
//
//   63 62   58       57    56        55 ... 32    31 ... 0
//   state   unused   dirty accessed  references   frame
//
// A reference is a lane that reads the page. References may be counted on an absent or faulting page, too: publishing
// adds the difference of the two states, so whoever came while the page was on its way holds its reference already.
shared_constants! {
    /// The page has no frame.
    PAGE_ABSENT = 0;
    /// One warp is fetching the page.
    PAGE_FAULTING = 1;
    /// The page is in its frame and may be read by whoever holds a reference.
    PAGE_RESIDENT = 2;
    /// Lowest bit of the state.
    PAGE_STATE_SHIFT = 62;
    /// Set by a write, so that eviction writes the page back. Pages are read-only so far.
    PAGE_DIRTY_BIT = 1 << 57;
    /// Set by a hit, cleared by the clock hand.
    PAGE_ACCESSED_BIT = 1 << 56;
    /// Lowest bit of the references: 24 bits, more than the 270 336 lanes that an H200 holds.
    PAGE_REFERENCE_SHIFT = 32;
    /// Mask of the references.
    PAGE_REFERENCE_MASK = 0xFF_FFFF << 32;
    /// Mask of the frame.
    PAGE_FRAME_MASK = 0xFFFF_FFFF;

    /// [`PageTableView::flags`]: frames are fewer than pages, so pages are evicted and references counted. Without
    /// it page p lives in frame p for good.
    PAGE_TABLE_EVICTS = 1;
    /// [`PageTableView::flags`]: NICs move the pages. [`FramePoolView::hand`] is then the first word of a [`FrameRing`].
    PAGE_TABLE_QUEUES = 2;
    /// Arrays that NICs read at most.
    MAX_REGIONS = 12;
    /// [`FramePoolView::policy`]: the frame filled longest ago goes first, as in the paper.
    EVICTION_FIFO = 0;
    /// [`FramePoolView::policy`]: the same, but a page hit since the hand passed last is spared once.
    EVICTION_CLOCK = 1;
    /// [`FramePoolView::owners`]: no page.
    NO_PAGE = u64::MAX;

    /// [`ErrorSlot::code`]: a page stayed in `faulting`.
    ERROR_STUCK_FAULT = 1;
    /// [`ErrorSlot::code`]: no frame could be claimed.
    ERROR_NO_FREE_FRAME = 2;
    /// [`ErrorSlot::code`]: a column index is no vertex.
    ERROR_COLUMN_OUT_OF_RANGE = 3;
    /// [`ErrorSlot::code`]: the host asked the kernel to stop.
    ERROR_CANCELLED = 4;
    /// [`ErrorSlot::code`]: an embedder's kernel asked for elements that its array does not have.
    ERROR_ELEMENT_OUT_OF_RANGE = 5;
    /// [`ErrorSlot::code`]: a request to a NIC was not answered. Its `detail` is packed as [`REQUEST_FRAME_SHIFT`] says.
    ERROR_STUCK_REQUEST = 6;
    /// [`ErrorSlot::code`]: a NIC answered a request with an error. Its `detail` is packed in the same way.
    ERROR_FAILED_REQUEST = 7;
    /// [`ErrorSlot::code`]: no NIC is left to ask.
    ERROR_NICS_LOST = 8;
    /// [`ErrorSlot::detail`] of a request: the frame from here on, below it 16 bits for the queue pair of the NIC, 8 for the
    /// NIC and 8 for the syndrome.
    REQUEST_FRAME_SHIFT = 32;
    /// [`ErrorSlot::detail`] of a request: the queue pair.
    REQUEST_PAIR_SHIFT = 16;
    /// [`ErrorSlot::detail`] of a request: the NIC.
    REQUEST_NIC_SHIFT = 8;

    /// [`GraphView::weight_type`]: every weight is 1.
    WEIGHT_UNIT = 0;
    /// [`GraphView::weight_type`]: the `hash8` rule.
    WEIGHT_HASH = 1;
    /// [`GraphView::weight_type`]
    WEIGHT_U8 = 2;
    /// [`GraphView::weight_type`]
    WEIGHT_U16 = 3;
    /// [`GraphView::weight_type`]
    WEIGHT_U32 = 4;
    /// [`GraphView::weight_type`]
    WEIGHT_F32 = 5;
    /// [`GraphView::weight_type`]
    WEIGHT_F64 = 6;

    /// [`StepCounters::totals`]: vertices of the next frontier, with edges or without.
    STAT_DISCOVERED = 0;
    /// [`StepCounters::totals`]: edges that leave the next frontier.
    STAT_NEXT_EDGES = 1;
    /// [`StepCounters::totals`]: edges looked at.
    STAT_EDGES = 2;
    /// [`StepCounters::totals`]: accesses that found their page resident.
    STAT_HITS = 3;
    /// [`StepCounters::totals`]: accesses that fetched their page, page faults.
    STAT_FAULTS = 4;
    /// [`StepCounters::totals`]: lanes that shared another lane's access, and accesses that waited for another warp's
    /// fetch.
    STAT_COALESCED = 5;
    /// [`StepCounters::totals`]: pages that lost their frame.
    STAT_EVICTIONS = 6;
    /// [`StepCounters::totals`]: bytes fetched.
    STAT_BYTES_IN = 7;
    /// [`StepCounters::totals`]: edges beyond the heads of the vertices that their heads did not settle.
    STAT_WAITING_EDGES = 8;
    /// [`StepCounters::totals`]: pages of these edges.
    STAT_WAITING_PAGES = 9;
    /// [`StepCounters::totals`]: these vertices.
    STAT_WAITING_VERTICES = 10;

    /// Warps of a block of a GPU.
    CUDA_BLOCK_WARPS = 16;
    /// Warps of the blocks that tests emulate: more than one, so that what a block's warps do together is tested.
    EMULATED_BLOCK_WARPS = 2;
    /// Blocks of a grid on each multiprocessor of a GPU: few, since blocks meet at the end of a step. 33 blocks of 4 warps
    /// already fill a PCIe 5 link with page fetches; what more there are hide the latency of vertex state, which is random
    /// in device memory.
    CUDA_BLOCKS_PER_MULTIPROCESSOR = 1;

    /// [`Step::scan`]: a lane a row, over all vertices ("naive" in the paper).
    SCAN_ROWS = 0;
    /// [`Step::scan`]: the chunks of the frontier's queue, short ones together.
    SCAN_CHUNKS = 1;
    /// [`Step::scan`]: a warp a segment, over all edges in address order.
    SCAN_SEGMENTS = 2;
    /// [`StepRecord::scan`]: over the vertices, no edge is looked at.
    SCAN_VERTICES = 3;

    /// [`Step::phase`]: relaxes the edges of the frontier; of the light band, if edges are split.
    PHASE_RELAX = 0;
    /// [`Step::phase`]: looks for the vertices of the next bucket.
    PHASE_BUCKET = 1;
    /// [`Step::phase`]: looks for what a pass over a heavy band would be good for.
    PHASE_MEASURE = 2;
    /// [`Step::phase`]: a pass over a heavy band.
    PHASE_HEAVY = 3;
    /// Bins of a histogram of distances.
    SSSP_BINS = 64;
    /// [`StepRecord::scan`]: the heads of unvisited vertices.
    SCAN_HEADS = 4;
    /// [`StepRecord::scan`]: a warp a segment that unvisited vertices have edges in beyond their heads, and these edges.
    SCAN_TAILS = 5;

    /// Ranks are whole numbers of `2^-RANK_SHIFT`, so that their sum is the same in any order. Two bits are left: the
    /// changes of all ranks, added up, are 2 at most.
    RANK_SHIFT = 62;
}

shared_struct! {
    /// Where the first failure of a kernel is kept; every spin and every work item polls `code`.
    ErrorSlot {
        /// 0 while all is well, else an `ERROR_` constant.
        code: u32,
        /// Not used.
        reserved: u32,
        /// The page, the edge or the element.
        subject: u64,
        /// Milliseconds waited, the column index, or the number of elements.
        detail: u64,
    }

    /// The page entries.
    PageTableView {
        /// Address of a `u64` a page.
        entries: u64,
        /// `PAGE_TABLE_` flags.
        flags: u32,
        /// Binary logarithm of the page size.
        page_shift: u32,
    }

    /// The page frames.
    FramePoolView {
        /// Address of the frames, one after the other.
        frames: u64,
        /// Address of a `u64` a frame: the page in it, or `NO_PAGE`. A hint: the page entry has the last word.
        owners: u64,
        /// Address of the ring's hand, a `u64` that counts claims; of a [`FrameRing`] with `PAGE_TABLE_QUEUES`.
        hand: u64,
        /// Number of frames.
        num_frames: u32,
        /// The first so many frames keep their page in dense scans.
        num_pinned: u32,
        /// An `EVICTION_` constant.
        policy: u32,
        /// Pages from `first_kept_page` on that each have a frame of their own, the first of all, and never leave it.
        num_kept: u32,
        /// Page whose frame is number 0.
        first_kept_page: u64,
    }

    /// The ring's hand, and what else a fault needs if NICs move the pages. Here, since the arguments of kernels that move
    /// pages themselves stay what they are.
    FrameRing {
        /// Counts claims.
        hand: u64,
        /// Not used.
        reserved: [u64; 15],
        /// Address of the [`QueueSet`].
        queues: u64,
    }

    /// An array in host memory, read through pages; or, when not paged, its elements wherever they are.
    ArrayView {
        /// Address of the first element.
        address: u64,
        /// Bytes of all elements.
        size_bytes: u64,
        /// The page that holds the first element.
        first_page: u64,
    }

    /// What the page table did in one launch of an embedder's kernel.
    PagingCounters {
        /// Accesses that found their page resident.
        hits: u64,
        /// Accesses that fetched their page.
        faults: u64,
        /// Accesses that waited for another warp's fetch.
        coalesced: u64,
        /// Pages that lost their frame.
        evictions: u64,
        /// Bytes fetched.
        bytes_in: u64,
    }

    /// What an embedder's kernel gets of a paged array: `gpuvm::PagedSlice<T>` is this and nothing more.
    PagedSliceView {
        /// The elements in host memory, from page 0 on.
        array: ArrayView,
        /// Page entries.
        page_table: PageTableView,
        /// Page frames.
        frame_pool: FramePoolView,
        /// Address of the [`ErrorSlot`].
        error: u64,
        /// A wait longer than this many nanoseconds is an error.
        stuck_after_ns: u64,
        /// Address of the launch's [`PagingCounters`].
        counters: u64,
    }

    /// The graph, and how its edges are reached.
    GraphView {
        /// Address of `num_vertices + 1` `u64`, or `u32`.
        row_offsets: u64,
        /// Address of a `u32` a segment: the vertex of its first edge.
        segment_first_vertex: u64,
        /// Number of vertices.
        num_vertices: u64,
        /// Number of edges.
        num_edges: u64,
        /// Number of segments.
        num_segments: u64,
        /// Binary logarithm of the edges of a segment.
        segment_shift: u32,
        /// Binary logarithm of the edges that lie in one page of every array.
        page_edges_shift: u32,
        /// A `WEIGHT_` constant.
        weight_type: u32,
        /// 1 if columns, weights and heads are read through pages.
        paged: u32,
        /// Column indices, `u32`.
        columns: ArrayView,
        /// Weights, if stored.
        weights: ArrayView,
        /// A copy of the first neighbours of each of the first `num_head_vertices` rows, `1 << heads_shift` `u32` a row, filled
        /// up with `u32::MAX`.
        heads: ArrayView,
        /// Vertices that have heads: none, or those up to the last with edges.
        num_head_vertices: u64,
        /// Binary logarithm of the heads of a vertex.
        heads_shift: u32,
        /// 1 if row offsets are `u32`.
        narrow_offsets: u32,
        /// Page entries.
        page_table: PageTableView,
        /// Page frames.
        frame_pool: FramePoolView,
    }

    /// Queues for the work items of a step: vertices, each for its first chunk, and segments, each for the chunk that
    /// goes on into it.
    FrontierView {
        /// Address of `num_vertices` `u32`.
        vertices: u64,
        /// Address of `num_segments` `u32`.
        continuations: u64,
    }

    /// A number that many warps add to. Each has a cache line of its own: additions to one line queue up behind each
    /// other, also those to different words.
    SharedCounter {
        /// The number.
        value: u64,
        /// Not used.
        reserved: [u64; 15],
    }

    /// A queue pair of a NIC: a ring of 64-byte requests, one of 64-byte completions, and the doorbell. What of it the
    /// device alone uses is in the counters behind.
    QueuePair {
        /// Address of the send queue.
        send_queue: u64,
        /// Address of the completion queue.
        completion_queue: u64,
        /// Address of two `u32` in network byte order; the second says how many requests were ever rung.
        doorbell_record: u64,
        /// Address of the doorbell, 8 bytes.
        doorbell: u64,
        /// Address of a `u64` an entry of the send queue: 2r while it is free for the request of round r, 2r + 1 while that
        /// is in it.
        slots: u64,
        /// Its number, 24 bits.
        number: u32,
        /// Binary logarithm of the entries of the send queue.
        send_shift: u32,
        /// Binary logarithm of the entries of the completion queue, which are no fewer.
        completion_shift: u32,
        /// Not used.
        reserved_word: u32,
        /// Not used.
        reserved: [u64; 9],
        /// Post number: how many requests were given a place.
        posted: SharedCounter,
        /// How many of them are written: tells when a batch is full.
        written: SharedCounter,
        /// How many of them the NIC has been told of. Changed by the holder of the queue.
        rung: SharedCounter,
        /// 1 while a warp holds the queue and rings.
        holder: SharedCounter,
        /// How often it was rung. Changed by the holder of the queue.
        doorbells: SharedCounter,
    }

    /// An array as NICs reach it.
    RemoteRegion {
        /// The page that holds its first element.
        first_page: u64,
        /// Its address for NICs.
        address: u64,
        /// Its bytes.
        size_bytes: u64,
    }

    /// What a NIC calls the memory that it may use.
    NicView {
        /// Key of the frames.
        local_key: u32,
        /// Set when the NIC is gone: it takes no more requests, and those that it had come back as flushed.
        lost: u32,
        /// Keys of the arrays.
        remote_keys: [u32; 12],
    }

    /// All queue pairs of all NICs.
    QueueSet {
        /// Address of the [`QueuePair`]s, NIC after NIC.
        pairs: u64,
        /// Address of a [`NicView`] a NIC.
        nics: u64,
        /// Address of the frames for NICs.
        frames: u64,
        /// Bytes of the frames.
        frames_bytes: u64,
        /// The arrays, in the order of their pages.
        regions: [RemoteRegion; 12],
        /// Number of them.
        num_regions: u32,
        /// Number of NICs. Page p is for NIC p mod this.
        num_nics: u32,
        /// Queue pairs of a NIC. Warp w uses number w mod this.
        pairs_per_nic: u32,
        /// Requests behind one doorbell.
        fault_batch: u32,
    }

    /// What NICs that are warps of the device know of a queue pair.
    PairProgress {
        /// Requests taken.
        taken: u64,
        /// Requests completed.
        completed: u64,
    }

    /// A part of a histogram.
    LatencyBuckets {
        /// Requests of each bucket.
        counts: [u64; 32],
    }

    /// What such a NIC did, and when its link is free.
    NicState {
        /// When the link has carried all that was taken, by the device's clock.
        link_free_ns: SharedCounter,
        /// Requests completed well.
        requests: SharedCounter,
        /// Bytes moved.
        bytes: SharedCounter,
        /// Requests taken.
        taken: SharedCounter,
        /// Sum over these of the requests of their queue pair under way.
        depth_sum: SharedCounter,
        /// Requests by latency: 16 buckets from one power of two nanoseconds to the next.
        latencies: [LatencyBuckets; 32],
    }

    /// Queues served by warps of the device.
    ServeQueuesArgs {
        /// Address of the [`QueueSet`].
        queues: u64,
        /// Address of a [`NicState`] a NIC.
        states: u64,
        /// Address of a [`PairProgress`] a queue pair.
        progress: u64,
        /// Address of a `u32`: not 0 when nobody asks any more.
        stop: u64,
        /// From a request to its completion, without the bytes.
        latency_ns: u64,
        /// How long the link of a NIC is busy with 2^20 bytes; 0 without a limit.
        ns_per_mib: u64,
    }

    /// What all warps of a grid add to in one step.
    StepCounters {
        /// Work items that were taken beyond those that every warp has from the start.
        cursor: SharedCounter,
        /// Entries of the vertex queue of the next frontier.
        next_vertices: SharedCounter,
        /// Entries of its segment queue.
        next_continuations: SharedCounter,
        /// The complement of a minimum that the step looks for, so that 0 means none.
        complement_of_minimum: SharedCounter,
        /// A maximum that the step looks for.
        maximum: SharedCounter,
        /// What else an algorithm adds up in a step for the next one.
        sums: [SharedCounter; 2],
        /// What the step did, by `STAT_` constant.
        totals: [SharedCounter; 11],
    }

    /// A step as every block knows it before it begins.
    Step {
        /// From 0.
        number: u64,
        /// A `SCAN_` constant.
        scan: u64,
        /// Vertices of the frontier.
        frontier: u64,
        /// Edges that leave them.
        frontier_edges: u64,
        /// Entries of the vertex queue.
        num_vertices: u64,
        /// Entries of the segment queue.
        num_continuations: u64,
        /// SSSP: distances from here on wait for a later bucket. PageRank: what every vertex gets whoever leads to it.
        threshold: u64,
        /// SSSP: the threshold of the bucket before. PageRank: by how much the ranks changed last, added up.
        threshold_before: u64,
        /// SSSP by weight bands: what the step does, a `PHASE_` constant. Batches: 1 if the last level was found among all
        /// vertices and stands in `frontier` alone.
        phase: u64,
        /// The band of a `PHASE_MEASURE` or `PHASE_HEAVY` step.
        band: u64,
        /// Distances below are final, and all edges of their vertices relaxed. Batches: the searches that have a frontier.
        window_begin: u64,
        /// Distances from here on wait for a later window. Batches: the searches that push while others pull.
        window_end: u64,
        /// 1 once windows are wide.
        wide: u64,
        /// Edges of the light band that this window's frontiers had. Batches: entries of the log.
        window_edges: u64,
        /// Vertices with a greater stamp came nearer since the last pass over band 1 and 2; of band 0 not used.
        passed: [u64; 3],
        /// `PHASE_HEAVY`: vertices nearer than this offer distances along their rows.
        push_below: u64,
        /// `PHASE_HEAVY`: vertices farther than this take distances along their rows.
        pull_above: u64,
        /// `PHASE_HEAVY`: no offer from here on can be of use. Batches: what the rest of a level costs, one way for all.
        cutoff: u64,
        /// Vertices discovered in all steps before.
        total_discovered: u64,
        /// Steps up to the last that discovered a vertex.
        last_discovery: u64,
        /// BFS: the level of the frontier. A level may take two steps: the heads of unvisited vertices first, then one that
        /// finds the rest of the next level.
        level: u64,
        /// Number of the frontier's queues, 0 or 1; those of the next frontier are the others.
        queue: u64,
        /// Entries that the vertex queue of the next frontier has from an earlier step of this level.
        carried_vertices: u64,
        /// The same of its segment queue.
        carried_continuations: u64,
        /// Vertices of the next frontier that an earlier step of this level found.
        carried_frontier: u64,
        /// Edges that leave these.
        carried_edges: u64,
        /// Pages fetched up to now, as far as they may still be resident.
        fetched_pages: u64,
        /// 1 if the heads have been read and stayed resident.
        heads_resident: u64,
        /// 1 if the step is so small that one block does it, while the others wait.
        by_one_block: u64,
        /// 1 if it reads lines where it wants few edges of a page that is not resident.
        by_lines: u64,
        /// Segments that vertices wait in, at most, in a step over the rows beyond their heads.
        marked_segments: u64,
        /// 1 if there is no such step: the run is over.
        finished: u64,
    }

    /// Where a run stands.
    LoopState {
        /// Blocks that have come to a meeting of all, counted over all meetings.
        arrived: SharedCounter,
        /// Those of step s are number s mod 3: while a step adds to its own, late blocks may still read those of the
        /// step before, and those of the step after are set to zero. Steps by one block have their own in its memory.
        counters: [StepCounters; 3],
        /// Set by the host: the first step. Set by the block that did steps alone: the next one, which all do. Left at
        /// the end: the one that would have come next.
        step: Step,
    }

    /// What a step did. The last record also holds all steps for which there was no room.
    StepRecord {
        /// Vertices whose edges were looked at.
        frontier: u64,
        /// A `SCAN_` constant.
        scan: u64,
        /// Edges looked at.
        edges: u64,
        /// Hits.
        hits: u64,
        /// Faults.
        faults: u64,
        /// Shared accesses.
        coalesced: u64,
        /// Evictions.
        evictions: u64,
        /// Bytes fetched.
        bytes_in: u64,
        /// Duration by the device's clock.
        ns: u64,
    }

    /// What every traversal gets.
    TraversalView {
        /// The graph.
        graph: GraphView,
        /// The frontier's queues of even and of odd steps; without queues (address 0) frontiers are only counted.
        frontiers: [FrontierView; 2],
        /// Address of the [`LoopState`].
        state: u64,
        /// Address of the [`StepRecord`]s.
        records: u64,
        /// Number of them.
        max_records: u64,
        /// Address of the [`ErrorSlot`].
        error: u64,
        /// A wait longer than this many nanoseconds is an error.
        stuck_after_ns: u64,
        /// A frontier with fewer outgoing edges is scanned by `SCAN_CHUNKS`, another by `dense_scan`.
        dense_edges: u64,
        /// So is a frontier of fewer work items; of more, each page would be fetched more than once.
        dense_items: u64,
        /// `SCAN_ROWS` or `SCAN_SEGMENTS`.
        dense_scan: u64,
    }

    /// Breadth-first search.
    BfsArgs {
        /// Graph, frontiers, state.
        traversal: TraversalView,
        /// Address of a `u32` a vertex: its level.
        levels: u64,
        /// Address of a `u32` a vertex: the smallest parent; 0 if not asked for.
        parents: u64,
        /// Address of a `u32` a row, the vertex that it is of, by which parents are called; 0 where rows are vertices.
        original_ids: u64,
        /// Vertices that may be reached at most, with the source: the search ends when it has found so many.
        num_reachable: u64,
        /// The last level.
        depth_limit: u32,
        /// The vertex that ends the search; `u32::MAX` if none.
        target: u32,
        /// The edges into each vertex, which bottom-up steps look at: the graph itself if every edge has its reverse. Without
        /// heads there are no bottom-up steps.
        incoming: GraphView,
        /// 1 if every step but the first pulls, where there are heads.
        always_pulls: u64,
        /// 1 if edges that are paged may be read by lines of host memory, too, which is mapped.
        reads_lines: u64,
        /// Bytes of a page if edges come over the link; 0 if all are where kernels run.
        fetch_bytes: u64,
        /// Pages of all arrays.
        num_pages: u64,
        /// Frames that they share.
        num_frames: u64,
        /// 1 if heads that were read stay resident.
        heads_stay: u64,
        /// 1 if heads are the neighbours with most edges, as in degree order: many of them are in a frontier.
        heads_are_hubs: u64,
        /// Address of a `u32` a segment of `incoming`: one more than the last level for which a vertex waits there after its
        /// heads.
        segment_marks: u64,
    }

    /// Breadth-first searches from up to 64 sources at once; bit s of a word is that of search s.
    BfsBatchArgs {
        /// Graph, frontiers, state, and how far to go; levels and parents are not used.
        search: BfsArgs,
        /// Address of a `u64` a vertex: the searches that have reached it.
        seen: u64,
        /// Address of a `u64` a vertex: the searches whose frontier it is in; of vertices that are in none, what it was.
        frontier: u64,
        /// Address of a `u64` a vertex, 0 at first: the searches that this step has found it in.
        next: u64,
        /// Address of two times 65 `u64`, 0 at first: of a sample of vertices, how many each search waits for once the
        /// heads are read, and how many there are.
        waiting: u64,
        /// Address of two `u64` an entry: searches that have found a vertex, and its level times 2^32 and the vertex.
        log: u64,
        /// Entries of the log. A level of more vertices than half as many is not written there, and the run ends after it, so
        /// that the host can read it from `frontier`; and after one that leaves less room than that.
        log_entries: u64,
        /// A bit for each search.
        all: u64,
        /// Rows that a search may find: those after them have no edges.
        num_rows: u64,
    }

    /// Single-source shortest paths.
    SsspArgs {
        /// Graph, frontiers, state.
        traversal: TraversalView,
        /// Address of a `u64` a vertex: its distance, an integer or the bits of a double, which order alike.
        distances: u64,
        /// Address of a `u32` a vertex: one more than the last step whose frontier it is in.
        stamps: u64,
        /// Address of the target's distance, beyond which nothing is relaxed; 0 without a target.
        bound: u64,
        /// The distance beyond which nothing is relaxed.
        limit: u64,
        /// Width of a bucket, a distance; `u64::MAX` for one bucket that holds all.
        delta: u64,
        /// Address of a [`GraphView`] a band, the edges split by weight; 0 if they are not split.
        bands: u64,
        /// Number of bands; 1 if edges are not split.
        num_bands: u64,
        /// The least weight that a band may hold, a distance.
        floors: [u64; 3],
        /// Width of a wide window, a distance.
        window: u64,
        /// Windows become wide when one has had so many edges of the light band.
        wide_edges: u64,
        /// Address of three times [`SSSP_BINS`] twice `u64`: of a measured band's edges, those of vertices that came
        /// nearer since it was passed last, and all, by distance from the window's begin.
        histograms: u64,
        /// Bins of a unit of distance, the bits of a double.
        bins_per_distance: u64,
        /// Of so many vertices one is counted in the histograms: a power of two less 1.
        sample_mask: u64,
        /// 1 if every edge has its reverse, with the same weight.
        symmetric: u64,
    }

    /// The parents of a finished shortest-path tree.
    SsspParentsArgs {
        /// Graph, frontiers, state.
        traversal: TraversalView,
        /// Address of a `u64` a vertex.
        distances: u64,
        /// Address of a `u32` a vertex.
        parents: u64,
        /// The source.
        source: u32,
        /// Number of bands; 1 if edges are not split.
        num_bands: u32,
        /// Address of a [`GraphView`] a band; 0 if edges are not split.
        bands: u64,
        /// Address of a `u32` a row, the vertex that it is of, by which parents are called; 0 where rows are vertices.
        original_ids: u64,
    }

    /// Connected components.
    ComponentsArgs {
        /// Graph, frontiers, state.
        traversal: TraversalView,
        /// Address of a `u32` a vertex: a vertex of its component with an id not larger.
        labels: u64,
        /// 1 if every edge has its reverse, so that one of the two links both ends.
        symmetric: u32,
        /// 1 if heads that were read stay on the device.
        heads_stay: u32,
    }

    /// PageRank.
    PageRankArgs {
        /// Graph, state.
        traversal: TraversalView,
        /// Address of a `u64` a vertex: its rank, in units of `2^-RANK_SHIFT`.
        ranks: u64,
        /// Address of a `u64` a vertex: what each of its edges carries.
        contributions: u64,
        /// Address of a `u64` a vertex, 0 at first: what the edges to it carry, added up.
        sums: u64,
        /// The damping factor, in units of `2^-64`.
        damping: u64,
        /// The ranks are good once they change by no more than this in all.
        tolerance: u64,
        /// The most passes over the edges.
        max_iterations: u64,
        /// 1 if every edge has its reverse, so that a vertex finds in its own row who leads to it.
        symmetric: u32,
        /// Not used.
        reserved: u32,
    }

    /// Pages pulled from host memory, to measure how fast.
    PullArgs {
        /// Address of `size_bytes` bytes in host memory.
        host: u64,
        /// Address of as many in device memory: where they go.
        frames: u64,
        /// Bytes; the last page may be a part of one.
        size_bytes: u64,
        /// Address of a `u64`, 0 at first: the next page that no warp has taken.
        cursor: u64,
        /// Binary logarithm of the page size.
        page_shift: u32,
        /// Not used.
        reserved: u32,
    }

    /// What is known of rows, by the ids of their vertices.
    GatherArgs {
        /// Address of an entry a row.
        entries: u64,
        /// Rows, as many as vertices.
        num_rows: u64,
        /// Address of a `u32` a vertex, in host memory that is mapped: its row.
        rows: u64,
        /// The first vertex to find the entry of.
        first_vertex: u64,
        /// How many there are from it on.
        num_vertices: u64,
        /// Address of so many entries: where they go, in host memory that is mapped.
        answers: u64,
        /// Bytes of an entry, 4 or 8.
        entry_bytes: u64,
    }
}
