//! The page-entry protocol of `kernels/cuda/{page_table,frame_pool,fault}.cuh` under every interleaving and every
//! reordering that its memory orderings allow, in loom. Functions have the names that they have there; a thread stands
//! for a warp, and what a warp reads is one page after another, or what is there of the pages that its lanes try.
//!
//! What is asserted, by the names of `docs/design.md`:
//! (I1) a frame holds one page: the frame claimed is fresh, or its page is the one just evicted;
//! (I2) only the winner of `begin_fault` fetches: nobody wins a page that is on its way, or in a frame already;
//! (I3) no eviction with references: nobody holds the page evicted, a reference given back finds page and frame where
//!      they were, and one that a lane takes back at once finds the page no further away than the lane did;
//! (I4) bytes are visible before `resident` is, and read before the frame is written again: the bytes are an
//!      [`UnsafeCell`], in which loom refuses a read and a write that are not ordered;
//! (I5) one completion for every request: fetches and publishes are as many as faults, each finds its page faulting,
//!      and in the end every page is absent or resident, without references.
//! Frames that are pinned keep their page, and loom itself refuses a wait that nobody ends.
//!
//! Two warps run in every order there is, three in those with a few preemptions, since the rest would take hours.
//! `--nocapture` shows how many orders each scenario has.
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

use Access::{Read, Try};

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
    /// First in, first out, of pages with accessed bits: no policy has both today, but `evict` allows for it.
    FifoOfAccessedPages,
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
    EvictsFromPinnedFrames,
    SparesByStore,
    BeginsFaultWithoutCompareExchange,
    PublishesByStore,
    TriesFaultingPages,
    TakesBackTwice,
    KeepsWhatItTriedInVain,
    WaitsUnderTriedReferences,
}

/// What a warp does next.
#[derive(Clone, Copy, Debug)]
enum Access {
    /// All lanes read one page, and wait for it.
    Read(usize),
    /// Each lane tries a page of its own; those that are there are read, then all are given back, and nobody waits.
    Try(&'static [usize]),
}

/// What happens to run at the same time.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    /// For each warp what it does, in turn.
    warps: &'static [&'static [Access]],
    num_pages: usize,
    num_frames: usize,
    num_pinned: usize,
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
    num_pinned: 0,
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
    /// Bit by bit the states in which lanes that tried found a page.
    tried: Cell<u64>,
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
    num_pinned: u64,
    eviction: Eviction,
    tries_before_pause: u64,
    variant: Variant,
    notes: Notes,
}

impl Paging {
    fn new(scenario: Scenario) -> Self {
        let Scenario { num_pages, num_frames, eviction, tries_before_pause, variant, .. } = scenario;
        let num_pinned = scenario.num_pinned as u64;
        Self {
            entries: (0..num_pages).map(|_| AtomicU64::new(ABSENT)).collect(),
            owners: (0..num_frames).map(|_| AtomicU64::new(NO_PAGE)).collect(),
            hand: AtomicU64::new(0),
            frames: (0..num_frames).map(|_| UnsafeCell::new(())).collect(),
            num_pinned,
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
                tried: Cell::new(0),
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
            self.note_access(page, seen);
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

    fn note_access(&self, page: usize, seen: u64) {
        let noted = matches!(self.eviction, Eviction::Clock | Eviction::FifoOfAccessedPages);
        if noted && seen & ACCESSED_BIT == 0 {
            self.entries[page].fetch_or(ACCESSED_BIT, Relaxed);
        }
    }

    /// A reference of one lane to a page that is resident, and its frame; without one if it is not.
    fn try_acquire_page(&self, page: usize) -> Option<usize> {
        let seen = self.add_references(page, 1);
        let state = page_state(seen);
        self.notes.tried.set(self.notes.tried.get() | 1 << state);
        if state == RESIDENT || (state == FAULTING && self.variant == Variant::TriesFaultingPages) {
            self.notes.holders.borrow_mut()[page] += 1;
            self.note_access(page, seen);
            return Some(page_frame(seen));
        }
        let times = match self.variant {
            Variant::KeepsWhatItTriedInVain => 0,
            Variant::TakesBackTwice => 2,
            _ => 1,
        };
        for _ in 0..times {
            if let Some(before) = self.remove_references(page, 1) {
                // It may have come meanwhile, and then the reference held it.
                assert!(page_state(before) >= state, "(I3) page {page} left under a lane's reference");
            }
        }
        None
    }

    fn release_page(&self, page: usize, frame: usize, lanes: u64) {
        if let Some(before) = self.remove_references(page, lanes) {
            let found = (page_state(before), page_frame(before));
            assert_eq!(found, (RESIDENT, frame), "(I3) page {page} moved under a reference");
        }
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
            if ticket < num_frames {
                let frame = ticket as usize;
                self.note_claim(frame, Holds::Nothing);
                return frame;
            }
            let frame = if self.variant == Variant::EvictsFromPinnedFrames {
                ticket % num_frames
            } else {
                self.num_pinned + (ticket - num_frames) % (num_frames - self.num_pinned)
            } as usize;
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
        let ordering = self.ordering(Acquire, Variant::EvictsRelaxed);
        let evictable = RESIDENT << STATE_SHIFT | frame as u64;
        // Mostly the entry is as expected, so the exchange comes before the look.
        if let Err(seen) = entry.compare_exchange(evictable, ABSENT, ordering, Relaxed) {
            let overlooked = match self.variant {
                Variant::EvictsReferencedPages => REFERENCE_MASK,
                Variant::EvictsWithoutAskingForTheFrame => FRAME_MASK,
                _ => 0,
            };
            // As built nothing is overlooked, and the accessed bit is all that may differ.
            if (seen ^ evictable) & !(ACCESSED_BIT | overlooked) != 0 {
                return false;
            }
            if self.eviction == Eviction::Clock && seen & ACCESSED_BIT != 0 {
                if self.variant == Variant::SparesByStore {
                    entry.store(evictable, Relaxed);
                } else {
                    let _ = entry.compare_exchange(seen, evictable, ordering, Relaxed);
                }
                return false;
            }
            if entry.compare_exchange(seen, ABSENT, ordering, Relaxed).is_err() {
                return false;
            }
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
        let pinned = (frame as u64) < self.num_pinned;
        assert!(!pinned || before == Holds::Nothing, "pinned frame {frame} lost its page");
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

    /// Gives the entry as it was, if references are counted.
    fn remove_references(&self, page: usize, lanes: u64) -> Option<u64> {
        if self.eviction == Eviction::Never {
            return None;
        }
        let ordering = self.ordering(Release, Variant::ReleasesRelaxed);
        let before = self.entries[page].fetch_sub(lanes << REFERENCE_SHIFT, ordering);
        assert!(page_references(before) >= lanes, "(I3) references to page {page} were lost");
        Some(before)
    }

    /// What a warp does with a page: a read, ordered against every write of the frame.
    fn read_page(&self, page: usize, frame: usize) {
        self.frames[frame].with(|_| {
            let holds = self.notes.frames.borrow()[frame];
            assert_eq!(holds, Holds::Page(page), "(I1) page {page} is read in frame {frame}");
        });
    }

    fn run_warp(&self, accesses: &[Access], lanes: u64) {
        let mut held = Vec::new();
        for &access in accesses {
            match access {
                Read(page) => {
                    let frame = self.acquire_page(page, lanes);
                    self.read_page(page, frame);
                    self.release_page(page, frame, lanes);
                }
                Try(pages) => {
                    let found = |&page: &usize| Some((page, self.try_acquire_page(page)?));
                    held.extend(pages.iter().filter_map(found));
                    held.iter().for_each(|&(page, frame)| self.read_page(page, frame));
                }
            }
            if self.variant != Variant::WaitsUnderTriedReferences {
                held.drain(..).for_each(|(page, frame)| self.release_page(page, frame, 1));
            }
        }
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
    tried: u64,
}

/// Runs a scenario in every order.
fn explore(scenario: Scenario) -> Explored {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = scenario.preemptions;
    model.max_branches = 10_000;
    let counters: Arc<[Counter; 4]> = Arc::default();
    let [num_orders, most_fetches, most_evictions, tried] = &*counters;
    let (start, seen) = (Instant::now(), Arc::clone(&counters));
    model.check(move || {
        let paging = Rc::new(Paging::new(scenario));
        // Warps that have as many lanes as their number says, so that their references can be told apart.
        let run = move |paging: &Paging, warp: usize| paging.run_warp(scenario.warps[warp], warp as u64 + 1);
        let others: Vec<_> = (1..scenario.warps.len())
            .map(|warp| {
                let paging = Rc::clone(&paging);
                thread::spawn(move || run(&paging, warp))
            })
            .collect();
        run(&paging, 0);
        others.into_iter().for_each(|warp| warp.join().expect("a panic of a warp ends the model"));
        paging.assert_at_rest();
        let [num_orders, most_fetches, most_evictions, tried] = &*seen;
        num_orders.fetch_add(1, Relaxed);
        most_fetches.fetch_max(paging.notes.fetches.get(), Relaxed);
        most_evictions.fetch_max(paging.notes.evictions.get(), Relaxed);
        tried.fetch_or(paging.notes.tried.get(), Relaxed);
    });
    println!("{} orders in {:.1?} of {scenario:?}", num_orders.load(Relaxed), start.elapsed());
    Explored {
        most_fetches: most_fetches.load(Relaxed),
        most_evictions: most_evictions.load(Relaxed),
        tried: tried.load(Relaxed),
    }
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

const ONE_PAGE: Scenario =
    Scenario { warps: &[&[Read(0)], &[Read(0)]], num_pages: 1, num_frames: 1, ..AS_BUILT };
const ONE_FRAME: Scenario = Scenario {
    warps: &[&[Read(0)], &[Read(1)]],
    num_pages: 2,
    num_frames: 1,
    tries_before_pause: 2,
    ..AS_BUILT
};

/// A page comes, and is evicted for another, under a lane that tries it.
const TRIED: Scenario = Scenario { warps: &[&[Read(0), Read(1)], &[Try(&[0])]], ..ONE_FRAME };

/// Lanes have found a page absent, on its way, and there.
const IN_ALL_STATES: u64 = 1 << ABSENT | 1 << FAULTING | 1 << RESIDENT;

fn assert_evicts(scenario: Scenario) {
    for eviction in [Eviction::Fifo, Eviction::FifoOfAccessedPages, Eviction::Clock] {
        let explored = explore(Scenario { eviction, ..scenario });
        assert!(explored.most_evictions > 0, "{scenario:?}");
    }
}

fn assert_evicts_what_lanes_try(scenario: Scenario) {
    for eviction in [Eviction::Fifo, Eviction::FifoOfAccessedPages, Eviction::Clock] {
        let explored = explore(Scenario { eviction, ..scenario });
        assert!(explored.most_evictions > 0, "{scenario:?}");
        assert_eq!(explored.tried, IN_ALL_STATES, "{scenario:?}");
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
        let crosswise = Scenario {
            warps: &[&[Read(0), Read(1)], &[Read(1), Read(0)]],
            num_pages: 2,
            num_frames: 2,
            eviction,
            ..AS_BUILT
        };
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
    assert_evicts(Scenario { warps: &[&[Read(0), Read(1)], &[Read(0)]], ..ONE_FRAME });
}

#[test]
fn two_warps_take_turns_in_two_frames_of_three_pages() {
    let two_frames = Scenario { num_pages: 3, num_frames: 2, ..AS_BUILT };
    assert_evicts(Scenario { warps: &[&[Read(0), Read(1)], &[Read(2), Read(0)]], ..two_frames });
    assert_evicts(Scenario { warps: &[&[Read(0), Read(1)], &[Read(1), Read(2)]], ..two_frames });
}

#[test]
fn three_warps_share_two_frames() {
    let shared = Scenario {
        warps: &[&[Read(0), Read(1)], &[Read(0)], &[Read(1)]],
        num_pages: 2,
        num_frames: 2,
        ..AS_BUILT
    };
    assert_eq!(explore(Scenario { preemptions: Some(4), ..shared }).most_fetches, 2);
    let fought_over =
        Scenario { warps: &[&[Read(0)], &[Read(1)], &[Read(2)]], num_pages: 3, num_frames: 2, ..AS_BUILT };
    assert_evicts(Scenario { tries_before_pause: 1, preemptions: Some(4), ..fought_over });
}

#[test]
fn lane_tries_a_page_that_two_warps_fetch() {
    for eviction in [Eviction::Never, Eviction::Fifo, Eviction::Clock] {
        let tried = Scenario { warps: &[&[Read(0)], &[Read(0)], &[Try(&[0])]], eviction, ..ONE_PAGE };
        let explored = explore(Scenario { preemptions: Some(5), ..tried });
        assert_eq!((explored.most_fetches, explored.tried), (1, IN_ALL_STATES));
    }
}

#[test]
fn lane_tries_a_page_that_comes_and_goes() {
    assert_evicts_what_lanes_try(TRIED);
    // The fault, the eviction and the lane are of three warps.
    let third = Scenario { warps: &[&[Read(0)], &[Read(1)], &[Try(&[0])]], ..TRIED };
    assert_evicts_what_lanes_try(Scenario { preemptions: Some(4), ..third });
}

#[test]
fn lanes_hold_two_pages_while_another_warp_evicts() {
    let both = Scenario { warps: &[&[Read(0), Read(1), Read(2)], &[Try(&[0, 1])]], num_pages: 3, ..AS_BUILT };
    assert_evicts_what_lanes_try(Scenario { num_frames: 2, ..both });
}

#[test]
fn warps_that_try_before_they_wait_share_one_frame() {
    let sparse = Scenario { warps: &[&[Try(&[0]), Read(0)], &[Try(&[0]), Read(1)]], ..ONE_FRAME };
    assert_evicts_what_lanes_try(sparse);
}

#[test]
fn pinned_frame_keeps_its_page() {
    let pinned = Scenario { num_pages: 3, num_frames: 2, num_pinned: 1, tries_before_pause: 2, ..AS_BUILT };
    let scan = Scenario { warps: &[&[Read(0), Read(1)], &[Read(2), Read(0)]], ..pinned };
    assert_evicts(scan);
    let two_others = Scenario { warps: &[&[Read(0), Read(1), Read(2)], &[Read(3), Read(1)]], ..pinned };
    assert_evicts(Scenario { num_pages: 4, num_frames: 3, tries_before_pause: 4, ..two_others });
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
    assert_refused(TRIED, Variant::AddsReferencesRelaxed, RACE);
}

#[test]
fn wait_without_acquire_is_noticed() {
    assert_refused(ONE_PAGE, Variant::WaitsRelaxed, RACE);
}

#[test]
fn giving_back_a_reference_without_release_is_noticed() {
    assert_refused(ONE_FRAME, Variant::ReleasesRelaxed, RACE);
    assert_refused(TRIED, Variant::ReleasesRelaxed, RACE);
}

#[test]
fn eviction_without_acquire_is_noticed() {
    assert_refused(ONE_FRAME, Variant::EvictsRelaxed, RACE);
}

#[test]
fn eviction_of_a_page_with_references_is_noticed() {
    assert_refused(ONE_FRAME, Variant::EvictsReferencedPages, "(I3)");
    assert_refused(TRIED, Variant::EvictsReferencedPages, "(I3)");
}

#[test]
fn eviction_that_trusts_the_owner_of_a_frame_is_noticed() {
    // Page 0 comes back in the other frame, and the last warp still sees it as the owner of its first.
    let moved = Scenario {
        warps: &[&[Read(0), Read(1), Read(2), Read(0)], &[Read(3)]],
        num_pages: 4,
        num_frames: 2,
        ..AS_BUILT
    };
    let moved = Scenario { preemptions: Some(1), ..moved };
    assert_refused(moved, Variant::EvictsWithoutAskingForTheFrame, "(I1)");
}

#[test]
fn hand_over_pinned_frames_is_noticed() {
    let pinned = Scenario { num_pages: 3, num_frames: 2, num_pinned: 1, ..AS_BUILT };
    let scan = Scenario { warps: &[&[Read(0), Read(1), Read(2)]], ..pinned };
    assert_refused(scan, Variant::EvictsFromPinnedFrames, "pinned frame 0 lost its page");
}

#[test]
fn page_spared_by_a_store_is_noticed() {
    // The bit is there when a page was hit before. A lane that takes a reference between the look and the store loses
    // it, and the next turn evicts the page from under it.
    let hit = Scenario { warps: &[&[Read(0), Read(0), Read(1)], &[Try(&[0])]], ..ONE_FRAME };
    assert_refused(Scenario { eviction: Eviction::Clock, ..hit }, Variant::SparesByStore, RACE);
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
    assert_refused(TRIED, Variant::PublishesByStore, "(I3)");
}

#[test]
fn reading_a_page_on_its_way_is_noticed() {
    assert_refused(TRIED, Variant::TriesFaultingPages, RACE);
}

#[test]
fn reference_taken_back_twice_is_noticed() {
    assert_refused(TRIED, Variant::TakesBackTwice, "(I3)");
}

#[test]
fn reference_that_is_not_taken_back_is_noticed() {
    let tried = Scenario { warps: &[&[Read(0)], &[Try(&[0])]], ..ONE_PAGE };
    assert_refused(tried, Variant::KeepsWhatItTriedInVain, "(I5)");
}

#[test]
fn wait_under_references_of_lanes_is_noticed() {
    // With the page in the only frame held, the claim turns for ever.
    let held = Scenario { warps: &[&[Read(0), Try(&[0]), Read(1)]], ..ONE_FRAME };
    assert_refused(held, Variant::WaitsUnderTriedReferences, "maximum number of branches");
}
