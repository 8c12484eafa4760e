//! The page-entry protocol of `kernels/cuda/{page_table,frame_pool,fault}.cuh` under every interleaving and every
//! reordering that its memory orderings allow, in loom. Functions have the names that they have there; a thread stands
//! for a warp, and what a warp reads is one page after another.
//!
//! What is asserted, by the names of `docs/design.md`:
//! (I1) a frame holds one page: the frame claimed is fresh, or its page is the one just evicted;
//! (I2) only the winner of `begin_fault` fetches: nobody wins a page that is on its way, or in a frame already;
//! (I3) no eviction with references: nobody holds the page evicted, and a reference given back finds page and frame
//!      where they were;
//! (I4) bytes are visible before `resident` is, and read before the frame is written again: the bytes are an
//!      [`UnsafeCell`], in which loom refuses a read and a write that are not ordered;
//! (I5) one completion for every request: fetches and publishes are as many as faults, each finds its page faulting,
//!      and in the end every page is absent or resident, without references.
//! loom itself refuses a wait that nobody ends.
//!
//! Two warps on one page, on pages with a frame each, and in one frame run in every order there is; in two frames of
//! three pages, and with a third warp, in those with a few preemptions, since the rest would take hours. `--nocapture`
//! shows how many orders each scenario has.
//!
//! Then the protocol is broken in each place where it takes care, one a test, and the model has to notice.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Counter;
use std::time::Instant;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;

// Page entry:  63 62   58       57    56        55 ... 32    31 ... 0
//              state   unused   dirty accessed  references   frame
const ABSENT: u64 = 0;
const FAULTING: u64 = 1;
const RESIDENT: u64 = 2;
const STATE_SHIFT: u32 = 62;
const ACCESSED_BIT: u64 = 1 << 56;
const REFERENCE_SHIFT: u32 = 32;
const REFERENCE_MASK: u64 = 0xFF_FFFF << REFERENCE_SHIFT;
const FRAME_MASK: u64 = 0xFFFF_FFFF;
const NO_PAGE: u64 = u64::MAX;

fn page_state(entry: u64) -> u64 {
    entry >> STATE_SHIFT
}

fn page_frame(entry: u64) -> usize {
    (entry & FRAME_MASK) as usize
}

fn page_references(entry: u64) -> u64 {
    (entry & REFERENCE_MASK) >> REFERENCE_SHIFT
}

/// How a frame is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Eviction {
    /// Every page has a frame of its own, and references are not counted.
    Never,
    Fifo,
    Clock,
}

/// The protocol as it is, or broken in one place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Variant {
    AsBuilt,
    AddsReferencesRelaxed,
    WaitsRelaxed,
    PublishesRelaxed,
    ReleasesRelaxed,
    EvictsRelaxed,
    EvictsReferencedPages,
    EvictsWithoutAskingForTheFrame,
    BeginsFaultWithoutCompareExchange,
    PublishesByStore,
}

/// What happens to run at the same time.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    /// For each warp the pages that it reads, in turn.
    warps: &'static [&'static [usize]],
    num_pages: usize,
    num_frames: usize,
    eviction: Eviction,
    /// Frames that a claim tries in vain before it lets others run: two turns of the ring, as built, or fewer, since a
    /// pause leaves out the orders in which nobody else moves between two tries, and three warps have too many orders.
    tries_before_pause: u64,
    /// How often a warp may be interrupted where it does not wait; `None` for every interleaving there is.
    preemptions: Option<usize>,
    variant: Variant,
}

const AS_BUILT: Scenario = Scenario {
    warps: &[],
    num_pages: 1,
    num_frames: 1,
    eviction: Eviction::Fifo,
    tries_before_pause: 4,
    preemptions: None,
    variant: Variant::AsBuilt,
};

/// What a frame is for, as a bystander sees it who misses nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Holds {
    Nothing,
    /// The claimer may write it.
    Claimed,
    Page(usize),
}

/// What a bystander notes after each atomic. loom runs its threads as coroutines of one, and switches before an atomic
/// only, so a note is one with the atomic before it, needs no atomics, and adds no interleavings.
struct Notes {
    frames: RefCell<Vec<Holds>>,
    fetching: RefCell<Vec<bool>>,
    holders: RefCell<Vec<u64>>,
    faults: Cell<u64>,
    fetches: Cell<u64>,
    publishes: Cell<u64>,
    evictions: Cell<u64>,
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

struct Paging {
    entries: Vec<AtomicU64>,
    owners: Vec<AtomicU64>,
    hand: AtomicU64,
    /// The bytes of each frame: nothing but who may touch them when. What they are is in the notes.
    frames: Vec<UnsafeCell<()>>,
    eviction: Eviction,
    tries_before_pause: u64,
    variant: Variant,
    notes: Notes,
}

impl Paging {
    fn new(scenario: Scenario) -> Self {
        let Scenario { num_pages, num_frames, eviction, tries_before_pause, variant, .. } = scenario;
        Self {
            entries: (0..num_pages).map(|_| AtomicU64::new(ABSENT)).collect(),
            owners: (0..num_frames).map(|_| AtomicU64::new(NO_PAGE)).collect(),
            hand: AtomicU64::new(0),
            frames: (0..num_frames).map(|_| UnsafeCell::new(())).collect(),
            eviction,
            tries_before_pause,
            variant,
            notes: Notes {
                frames: RefCell::new(vec![Holds::Nothing; num_frames]),
                fetching: RefCell::new(vec![false; num_pages]),
                holders: RefCell::new(vec![0; num_pages]),
                faults: Cell::new(0),
                fetches: Cell::new(0),
                publishes: Cell::new(0),
                evictions: Cell::new(0),
            },
        }
    }

    fn ordering(
        &self,
        as_built: std::sync::atomic::Ordering,
        relaxed_in: Variant,
    ) -> std::sync::atomic::Ordering {
        if self.variant == relaxed_in { Relaxed } else { as_built }
    }

    fn acquire_page(&self, page: usize, lanes: u64) -> usize {
        let seen = self.add_references(page, lanes);
        let frame = if page_state(seen) == RESIDENT {
            if self.eviction == Eviction::Clock && seen & ACCESSED_BIT == 0 {
                self.entries[page].fetch_or(ACCESSED_BIT, Relaxed);
            }
            page_frame(seen)
        } else if self.begin_fault(page, seen) {
            self.note_win(page);
            let frame = self.claim_frame(page);
            self.fetch_page(page, frame);
            if self.eviction != Eviction::Never {
                self.owners[frame].store(page as u64, Relaxed);
            }
            self.publish(page, frame);
            frame
        } else {
            page_frame(self.wait_resident(page))
        };
        self.notes.holders.borrow_mut()[page] += 1;
        frame
    }

    fn release_page(&self, page: usize, frame: usize, lanes: u64) {
        self.remove_references(page, frame, lanes);
        self.notes.holders.borrow_mut()[page] -= 1;
    }

    fn add_references(&self, page: usize, lanes: u64) -> u64 {
        let ordering = self.ordering(Acquire, Variant::AddsReferencesRelaxed);
        if self.eviction == Eviction::Never {
            return self.entries[page].load(ordering);
        }
        let references = lanes << REFERENCE_SHIFT;
        self.entries[page].fetch_add(references, ordering) + references
    }

    fn begin_fault(&self, page: usize, mut seen: u64) -> bool {
        let entry = &self.entries[page];
        if self.variant == Variant::BeginsFaultWithoutCompareExchange {
            seen = entry.load(Acquire);
            if page_state(seen) == ABSENT {
                entry.store(seen | FAULTING << STATE_SHIFT, Relaxed);
                return true;
            }
        }
        while page_state(seen) == ABSENT {
            match entry.compare_exchange(seen, seen | FAULTING << STATE_SHIFT, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => seen = found,
            }
        }
        false
    }

    fn claim_frame(&self, page: usize) -> usize {
        if self.eviction == Eviction::Never {
            self.note_claim(page, Holds::Nothing);
            return page;
        }
        let num_frames = self.frames.len() as u64;
        for tried in 0_u64.. {
            if tried != 0 && tried.is_multiple_of(self.tries_before_pause) {
                thread::yield_now();
            }
            let ticket = self.hand.fetch_add(1, Relaxed);
            let frame = (ticket % num_frames) as usize;
            if ticket < num_frames {
                self.note_claim(frame, Holds::Nothing);
                return frame;
            }
            let owner = self.owners[frame].load(Relaxed);
            if owner == NO_PAGE || !self.evict(owner as usize, frame) {
                continue;
            }
            self.note_claim(frame, Holds::Page(owner as usize));
            count(&self.notes.evictions);
            self.owners[frame].store(NO_PAGE, Relaxed);
            return frame;
        }
        unreachable!("the loop has no end")
    }

    fn evict(&self, page: usize, frame: usize) -> bool {
        let entry = &self.entries[page];
        let seen = entry.load(Relaxed);
        let in_frame = page_frame(seen) == frame || self.variant == Variant::EvictsWithoutAskingForTheFrame;
        let unused = page_references(seen) == 0 || self.variant == Variant::EvictsReferencedPages;
        if page_state(seen) != RESIDENT || !in_frame || !unused {
            return false;
        }
        let ordering = self.ordering(Acquire, Variant::EvictsRelaxed);
        if self.eviction == Eviction::Clock && seen & ACCESSED_BIT != 0 {
            let _ = entry.compare_exchange(seen, seen & !ACCESSED_BIT, ordering, Relaxed);
            return false;
        }
        if entry.compare_exchange(seen, ABSENT, ordering, Relaxed).is_err() {
            return false;
        }
        assert_eq!(
            self.notes.holders.borrow()[page],
            0,
            "(I3) page {page} was evicted from those who hold it"
        );
        true
    }

    fn note_win(&self, page: usize) {
        let twice = std::mem::replace(&mut self.notes.fetching.borrow_mut()[page], true);
        let there = self.notes.frames.borrow().contains(&Holds::Page(page));
        assert!(!twice && !there, "(I2) page {page} is fetched twice");
        count(&self.notes.faults);
    }

    fn note_claim(&self, frame: usize, expected: Holds) {
        let before = std::mem::replace(&mut self.notes.frames.borrow_mut()[frame], Holds::Claimed);
        assert_eq!(before, expected, "(I1) frame {frame} was claimed");
    }

    fn fetch_page(&self, page: usize, frame: usize) {
        self.frames[frame].with_mut(|_| {
            let before = std::mem::replace(&mut self.notes.frames.borrow_mut()[frame], Holds::Page(page));
            assert_eq!(before, Holds::Claimed, "(I1) page {page} is fetched to frame {frame}");
        });
        count(&self.notes.fetches);
    }

    fn publish(&self, page: usize, frame: usize) {
        let ordering = self.ordering(Release, Variant::PublishesRelaxed);
        let delta = ((RESIDENT - FAULTING) << STATE_SHIFT) + frame as u64;
        let before = if self.variant == Variant::PublishesByStore {
            let before = self.entries[page].load(Relaxed);
            self.entries[page].store(before + delta, ordering);
            before
        } else {
            self.entries[page].fetch_add(delta, ordering)
        };
        assert_eq!(page_state(before), FAULTING, "(I5) page {page} is published");
        self.notes.fetching.borrow_mut()[page] = false;
        count(&self.notes.publishes);
    }

    fn wait_resident(&self, page: usize) -> u64 {
        loop {
            let entry = self.entries[page].load(self.ordering(Acquire, Variant::WaitsRelaxed));
            if page_state(entry) == RESIDENT {
                return entry;
            }
            thread::yield_now();
        }
    }

    fn remove_references(&self, page: usize, frame: usize, lanes: u64) {
        if self.eviction == Eviction::Never {
            return;
        }
        let ordering = self.ordering(Release, Variant::ReleasesRelaxed);
        let before = self.entries[page].fetch_sub(lanes << REFERENCE_SHIFT, ordering);
        let found = (page_state(before), page_frame(before));
        assert_eq!(found, (RESIDENT, frame), "(I3) page {page} moved under a reference");
        assert!(page_references(before) >= lanes, "(I3) references to page {page} were lost");
    }

    /// What a warp does with a page: a read, ordered against every write of the frame.
    fn read(&self, page: usize, lanes: u64) {
        let frame = self.acquire_page(page, lanes);
        self.frames[frame].with(|_| {
            let holds = self.notes.frames.borrow()[frame];
            assert_eq!(holds, Holds::Page(page), "(I1) page {page} is read in frame {frame}");
        });
        self.release_page(page, frame, lanes);
    }

    fn assert_at_rest(&self) {
        let notes = &self.notes;
        assert_eq!(notes.fetches.get(), notes.faults.get(), "(I5)");
        assert_eq!(notes.publishes.get(), notes.faults.get(), "(I5)");
        let mut num_resident = 0;
        for (page, entry) in self.entries.iter().enumerate() {
            let entry = entry.load(Relaxed);
            assert_eq!(page_references(entry), 0, "(I5) references to page {page} are left");
            if page_state(entry) == RESIDENT {
                num_resident += 1;
                assert_eq!(notes.frames.borrow()[page_frame(entry)], Holds::Page(page), "(I1)");
            } else {
                assert_eq!(entry, ABSENT, "(I5) page {page}");
            }
        }
        assert_eq!(num_resident, notes.fetches.get() - notes.evictions.get(), "(I5)");
        assert!(num_resident <= self.frames.len() as u64, "(I1)");
    }
}

/// What the orders of a scenario came to.
struct Explored {
    most_fetches: u64,
    most_evictions: u64,
}

/// Runs a scenario in every order.
fn explore(scenario: Scenario) -> Explored {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = scenario.preemptions;
    model.max_branches = 10_000;
    let counters: Arc<[Counter; 3]> = Arc::default();
    let [num_orders, most_fetches, most_evictions] = &*counters;
    let (start, seen) = (Instant::now(), Arc::clone(&counters));
    model.check(move || {
        let paging = Rc::new(Paging::new(scenario));
        let read = move |paging: &Paging, warp: usize| {
            scenario.warps[warp].iter().for_each(|&page| paging.read(page, warp as u64 + 1));
        };
        let others: Vec<_> = (1..scenario.warps.len())
            .map(|warp| {
                let paging = Rc::clone(&paging);
                thread::spawn(move || read(&paging, warp))
            })
            .collect();
        read(&paging, 0);
        others.into_iter().for_each(|warp| warp.join().expect("a panic of a warp ends the model"));
        paging.assert_at_rest();
        let [num_orders, most_fetches, most_evictions] = &*seen;
        num_orders.fetch_add(1, Relaxed);
        most_fetches.fetch_max(paging.notes.fetches.get(), Relaxed);
        most_evictions.fetch_max(paging.notes.evictions.get(), Relaxed);
    });
    println!("{} orders in {:.1?} of {scenario:?}", num_orders.load(Relaxed), start.elapsed());
    Explored { most_fetches: most_fetches.load(Relaxed), most_evictions: most_evictions.load(Relaxed) }
}

/// The message with which the model refuses a scenario.
fn refusal(scenario: Scenario) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| explore(scenario))) else {
        panic!("the model does not notice: {scenario:?}")
    };
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast_ref::<&str>().map_or_else(String::new, |message| (*message).into()),
    }
}

const ONE_PAGE: Scenario = Scenario { warps: &[&[0], &[0]], num_pages: 1, num_frames: 1, ..AS_BUILT };
const ONE_FRAME: Scenario =
    Scenario { warps: &[&[0], &[1]], num_pages: 2, num_frames: 1, tries_before_pause: 2, ..AS_BUILT };

fn assert_evicts(scenario: Scenario) {
    for eviction in [Eviction::Fifo, Eviction::Clock] {
        let explored = explore(Scenario { eviction, ..scenario });
        assert!(explored.most_evictions > 0, "{scenario:?}");
    }
}

#[test]
fn two_warps_on_one_page_fetch_it_once() {
    for eviction in [Eviction::Never, Eviction::Fifo, Eviction::Clock] {
        assert_eq!(explore(Scenario { eviction, ..ONE_PAGE }).most_fetches, 1);
    }
}

#[test]
fn pages_with_a_frame_each_are_fetched_once_and_stay() {
    for eviction in [Eviction::Never, Eviction::Fifo] {
        let crosswise =
            Scenario { warps: &[&[0, 1], &[1, 0]], num_pages: 2, num_frames: 2, eviction, ..AS_BUILT };
        let explored = explore(crosswise);
        assert_eq!((explored.most_fetches, explored.most_evictions), (2, 0));
    }
}

#[test]
fn two_warps_take_turns_in_one_frame() {
    assert_evicts(ONE_FRAME);
}

#[test]
fn page_comes_and_goes_under_a_warp_that_wants_it() {
    assert_evicts(Scenario { warps: &[&[0, 1], &[0]], ..ONE_FRAME });
}

#[test]
fn two_warps_take_turns_in_two_frames_of_three_pages() {
    let two_frames = Scenario { num_pages: 3, num_frames: 2, ..AS_BUILT };
    assert_evicts(Scenario { warps: &[&[0, 1], &[2, 0]], preemptions: Some(2), ..two_frames });
    assert_evicts(Scenario { warps: &[&[0, 1], &[1, 2]], preemptions: Some(2), ..two_frames });
}

#[test]
fn three_warps_share_two_frames() {
    let shared = Scenario { warps: &[&[0, 1], &[0], &[1]], num_pages: 2, num_frames: 2, ..AS_BUILT };
    assert_eq!(explore(Scenario { preemptions: Some(4), ..shared }).most_fetches, 2);
    let fought_over = Scenario { warps: &[&[0], &[1], &[2]], num_pages: 3, num_frames: 2, ..AS_BUILT };
    assert_evicts(Scenario { tries_before_pause: 1, preemptions: Some(2), ..fought_over });
}

/// loom's words for a read and a write, or two writes, of a frame that nothing orders.
const RACE: &str = "Causality violation";

fn assert_refused(scenario: Scenario, variant: Variant, because: &str) {
    let refusal = refusal(Scenario { variant, ..scenario });
    assert!(refusal.contains(because), "refused for another reason: {refusal}");
}

#[test]
fn publish_without_release_is_noticed() {
    assert_refused(ONE_PAGE, Variant::PublishesRelaxed, RACE);
}

#[test]
fn hit_without_acquire_is_noticed() {
    assert_refused(ONE_PAGE, Variant::AddsReferencesRelaxed, RACE);
}

#[test]
fn wait_without_acquire_is_noticed() {
    assert_refused(ONE_PAGE, Variant::WaitsRelaxed, RACE);
}

#[test]
fn giving_back_a_reference_without_release_is_noticed() {
    assert_refused(ONE_FRAME, Variant::ReleasesRelaxed, RACE);
}

#[test]
fn eviction_without_acquire_is_noticed() {
    assert_refused(ONE_FRAME, Variant::EvictsRelaxed, RACE);
}

#[test]
fn eviction_of_a_page_with_references_is_noticed() {
    assert_refused(ONE_FRAME, Variant::EvictsReferencedPages, "(I3)");
}

#[test]
fn eviction_that_trusts_the_owner_of_a_frame_is_noticed() {
    // Page 0 comes back in the other frame, and the last warp still sees it as the owner of its first.
    let moved = Scenario { warps: &[&[0, 1, 2, 0], &[3]], num_pages: 4, num_frames: 2, ..AS_BUILT };
    let moved = Scenario { preemptions: Some(1), ..moved };
    assert_refused(moved, Variant::EvictsWithoutAskingForTheFrame, "(I1)");
}

#[test]
fn fault_begun_without_compare_exchange_is_noticed() {
    assert_refused(
        Scenario { num_frames: 2, ..ONE_PAGE },
        Variant::BeginsFaultWithoutCompareExchange,
        "(I2)",
    );
}

#[test]
fn publish_that_loses_references_is_noticed() {
    assert_refused(ONE_PAGE, Variant::PublishesByStore, "(I3)");
}
