//! The queue protocol of `kernels/cuda/queue_pair.cuh`, from post number to completion, under many interleavings and every
//! reordering that its memory orderings allow, in loom. Functions have the names that they have there. A thread stands for
//! the leader of a warp, which asks for one page after another.
//!
//! The NIC is a thread beside one warp; beside several, whoever rings does its work at once, since three threads that poll for
//! each other have too many orders. `kernels/tests/queue_sanitizer.cc` and `tests/transport.rs` have them all, with late
//! completions and in any order, if not every interleaving.
//!
//! What is asserted, by the names of `docs/design.md`:
//! (I6) an entry belongs to one request from its post number to its completion: entries are [`UnsafeCell`]s, in which loom
//!      refuses a write and a read that are not ordered, and the NIC finds in each the request of its number;
//! (I7) the doorbell says no more than is written, and never less than before;
//! (I8) a holder waits for nothing, and whoever waits is rung in the end: loom refuses a wait that nobody ends;
//! and what queues are for: bytes are there when the completion is seen, each request is completed once, and a completion is
//! taken by the one who asked, not by the next of the same place.
//!
//! All orders there are would take days, so threads are interrupted a few times only where they do not wait. `--nocapture`
//! shows how many orders each scenario has. Then the protocol is broken in each place where it takes care, one a test, and
//! the model has to notice.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Counter;
use std::time::Instant;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};
use loom::thread;

/// The protocol as it is, or broken in one place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Variant {
    AsBuilt,
    WritesSlotRelaxed,
    LooksAtSlotsRelaxed,
    RingsRelaxed,
    NicReadsDoorbellRelaxed,
    CompletesRelaxed,
    PollsRelaxed,
    FreesSlotRelaxed,
    WaitsForSlotRelaxed,
    FreesSlotWhenWritten,
    TakesPlaceWithoutWaiting,
    RingsWhatIsCounted,
    RingsWithoutHolding,
    LetsGoRelaxed,
    TrustsTheHolder,
    HoldsWhileItWaitsForItsPlace,
    HoldsWhileItWaitsForItsCompletion,
    WaitsForItsBatch,
    IgnoresOwner,
}

/// What happens to run at the same time.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    /// How many requests each warp makes, one after the other.
    warps: &'static [u64],
    /// Entries of the queue, a power of two.
    depth: u64,
    fault_batch: u64,
    looks_before_ringing: u64,
    preemptions: usize,
    variant: Variant,
}

const AS_BUILT: Scenario = Scenario {
    warps: &[1, 1],
    depth: 2,
    fault_batch: 1,
    looks_before_ringing: 0,
    preemptions: 2,
    variant: Variant::AsBuilt,
};

/// An entry of the completion queue that nobody has written, in its word.
const UNWRITTEN: u64 = u64::MAX;

struct Queue {
    posted: AtomicU64,
    written: AtomicU64,
    rung: AtomicU64,
    holder: AtomicU64,
    slots: Vec<AtomicU64>,
    /// The number of the request in each entry.
    entries: Vec<UnsafeCell<u64>>,
    doorbell: AtomicU64,
    /// The last word of each completion: twice the index of the request, and the owner bit.
    completions: Vec<AtomicU64>,
    /// The bytes that each request moves: nothing but who may touch them when.
    bytes: Vec<UnsafeCell<()>>,
    scenario: Scenario,
    // What a bystander notes, who misses nothing: loom switches threads before atomics only.
    completed: RefCell<Vec<u64>>,
    num_rings: Cell<u64>,
    most_at_one_ring: Cell<u64>,
}

impl Queue {
    fn new(scenario: Scenario) -> Self {
        let depth = scenario.depth as usize;
        let all = scenario.warps.iter().sum::<u64>() as usize;
        Self {
            posted: AtomicU64::new(0),
            written: AtomicU64::new(0),
            rung: AtomicU64::new(0),
            holder: AtomicU64::new(0),
            slots: (0..depth).map(|_| AtomicU64::new(0)).collect(),
            entries: (0..depth).map(|_| UnsafeCell::new(u64::MAX)).collect(),
            doorbell: AtomicU64::new(0),
            completions: (0..depth).map(|_| AtomicU64::new(UNWRITTEN)).collect(),
            bytes: (0..all).map(|_| UnsafeCell::new(())).collect(),
            scenario,
            completed: RefCell::new(vec![0; all]),
            num_rings: Cell::new(0),
            most_at_one_ring: Cell::new(0),
        }
    }

    fn is(&self, variant: Variant) -> bool {
        self.scenario.variant == variant
    }

    fn ordering(&self, as_built: Ordering, relaxed_in: Variant) -> Ordering {
        if self.is(relaxed_in) { Relaxed } else { as_built }
    }

    fn place(&self, number: u64) -> usize {
        (number % self.scenario.depth) as usize
    }

    fn free_for(&self, number: u64) -> u64 {
        number / self.scenario.depth * 2
    }

    fn written_for(&self, number: u64) -> u64 {
        self.free_for(number) + 1
    }

    /// What the last word of the completion of a request says. An index has few bits, so that it comes again.
    fn completion_of(&self, number: u64) -> u64 {
        let owner = if self.is(Variant::IgnoresOwner) { 0 } else { number / self.scenario.depth % 2 };
        (number % self.scenario.depth) << 1 | owner
    }

    fn hold(&self) -> bool {
        self.is(Variant::RingsWithoutHolding) || self.holder.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    fn let_go(&self) {
        if !self.is(Variant::RingsWithoutHolding) {
            self.holder.store(0, self.ordering(Release, Variant::LetsGoRelaxed));
        }
    }

    fn ring(&self) {
        if !self.hold() {
            return;
        }
        self.ring_as_holder();
        self.let_go();
    }

    fn ring_as_holder(&self) {
        let first = self.rung.load(Relaxed);
        let mut end = first;
        if self.is(Variant::RingsWhatIsCounted) {
            end = self.written.load(Acquire);
        } else {
            let ordering = self.ordering(Acquire, Variant::LooksAtSlotsRelaxed);
            while self.slots[self.place(end)].load(ordering) == self.written_for(end) {
                end += 1;
            }
        }
        if end == first {
            return;
        }
        self.doorbell.store(end, self.ordering(Release, Variant::RingsRelaxed));
        self.num_rings.set(self.num_rings.get() + 1);
        self.most_at_one_ring.set(self.most_at_one_ring.get().max(end.saturating_sub(first)));
        if !self.has_nic() {
            (first..end).for_each(|number| self.do_request(number));
        }
        self.rung.store(end, Relaxed);
    }

    fn ask(&self) {
        let number = self.posted.fetch_add(1, Relaxed);
        let slot = &self.slots[self.place(number)];
        let holds = self.is(Variant::HoldsWhileItWaitsForItsPlace) && self.hold();
        let ordering = self.ordering(Acquire, Variant::WaitsForSlotRelaxed);
        while slot.load(ordering) != self.free_for(number) {
            if self.is(Variant::TakesPlaceWithoutWaiting) {
                break;
            }
            thread::yield_now();
        }
        if holds {
            self.let_go();
        }
        self.entries[self.place(number)].with_mut(|entry| {
            // SAFETY: loom refuses whoever else touches it now.
            unsafe { *entry = number }
        });
        let next = if self.is(Variant::FreesSlotWhenWritten) { 2 } else { 1 };
        slot.store(self.free_for(number) + next, self.ordering(Release, Variant::WritesSlotRelaxed));
        let written = self.written.fetch_add(1, Relaxed) + 1;
        let mut trusts = false;
        if self.is(Variant::HoldsWhileItWaitsForItsCompletion) && self.hold() {
            // The holder rings for those before it only, and stays.
            self.ring_as_holder();
            while self.completions[self.place(number)].load(Acquire) != self.completion_of(number) {
                thread::yield_now();
            }
            self.let_go();
        } else if written.wrapping_sub(self.rung.load(Relaxed)) >= self.scenario.fault_batch {
            // One that finds the queue held might believe that the holder rings for it, too.
            trusts = self.is(Variant::TrustsTheHolder);
            self.ring();
        }
        let ordering = self.ordering(Acquire, Variant::PollsRelaxed);
        let mut looks = 0;
        loop {
            if self.completions[self.place(number)].load(ordering) == self.completion_of(number) {
                break;
            }
            let waits = trusts || self.is(Variant::WaitsForItsBatch);
            if !waits && looks >= self.scenario.looks_before_ringing && self.rung.load(Relaxed) <= number {
                self.ring();
            }
            looks += 1;
            thread::yield_now();
        }
        self.bytes[number as usize].with(|_| ());
        assert_eq!(self.completed.borrow()[number as usize], 1, "request {number} has another's completion");
        slot.store(self.free_for(number) + 2, self.ordering(Release, Variant::FreesSlotRelaxed));
    }

    /// Whether the NIC is a thread.
    fn has_nic(&self) -> bool {
        self.scenario.warps.len() == 1
    }

    /// The NIC: does what was rung, until all requests there are are done.
    fn serve(&self) {
        let mut taken = 0;
        while taken < self.bytes.len() as u64 {
            let rung = self.doorbell.load(self.ordering(Acquire, Variant::NicReadsDoorbellRelaxed));
            if rung == taken {
                thread::yield_now();
                continue;
            }
            assert!(rung > taken, "(I7) the doorbell went back");
            assert!(rung - taken <= self.scenario.depth, "(I7) more is rung than the queue holds");
            (taken..rung).for_each(|number| self.do_request(number));
            taken = rung;
        }
    }

    fn do_request(&self, number: u64) {
        self.entries[self.place(number)].with(|entry| {
            // SAFETY: loom refuses whoever writes it now.
            let found = unsafe { *entry };
            assert_eq!(found, number, "(I6) the entry of request {number} is another's");
        });
        self.bytes[number as usize].with_mut(|_| ());
        self.complete(number);
    }

    fn complete(&self, number: u64) {
        self.completed.borrow_mut()[number as usize] += 1;
        let ordering = self.ordering(Release, Variant::CompletesRelaxed);
        self.completions[self.place(number)].store(self.completion_of(number), ordering);
    }

    fn assert_at_rest(&self) {
        let all = self.bytes.len() as u64;
        assert!(self.completed.borrow().iter().all(|&times| times == 1), "each request ends once");
        assert_eq!(self.doorbell.load(Relaxed), all, "(I7)");
        for (place, slot) in self.slots.iter().enumerate() {
            let uses = (all + self.scenario.depth - 1 - place as u64) / self.scenario.depth;
            assert_eq!(slot.load(Relaxed), uses * 2, "(I6) entry {place} is free");
        }
        assert_eq!(self.holder.load(Relaxed), 0, "(I8)");
    }
}

/// What the orders of a scenario came to.
struct Explored {
    fewest_rings: u64,
    most_at_one_ring: u64,
}

fn explore(scenario: Scenario) -> Explored {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(scenario.preemptions);
    model.max_branches = 3_000;
    let counters: Arc<[Counter; 3]> = Arc::new([Counter::new(0), Counter::new(u64::MAX), Counter::new(0)]);
    let (start, seen) = (Instant::now(), Arc::clone(&counters));
    model.check(move || {
        let queue = Rc::new(Queue::new(scenario));
        // This thread is the NIC, or the first warp.
        let run = move |queue: &Queue, warp: usize| (0..scenario.warps[warp]).for_each(|_| queue.ask());
        let first = usize::from(!queue.has_nic());
        let others: Vec<_> = (first..scenario.warps.len())
            .map(|warp| {
                let queue = Rc::clone(&queue);
                thread::spawn(move || run(&queue, warp))
            })
            .collect();
        if queue.has_nic() {
            queue.serve()
        } else {
            run(&queue, 0)
        }
        others.into_iter().for_each(|warp| warp.join().expect("a panic of a warp ends the model"));
        queue.assert_at_rest();
        seen[0].fetch_add(1, Relaxed);
        seen[1].fetch_min(queue.num_rings.get(), Relaxed);
        seen[2].fetch_max(queue.most_at_one_ring.get(), Relaxed);
    });
    let [num_orders, fewest_rings, most_at_one_ring] = &*counters;
    println!("{} orders in {:.1?} of {scenario:?}", num_orders.load(Relaxed), start.elapsed());
    Explored { fewest_rings: fewest_rings.load(Relaxed), most_at_one_ring: most_at_one_ring.load(Relaxed) }
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

#[test]
fn warp_asks_a_nic_round_after_round() {
    for depth in [1, 2] {
        explore(Scenario { warps: &[4], depth, preemptions: 3, ..AS_BUILT });
    }
}

#[test]
fn two_warps_ask_at_the_same_time() {
    let explored = explore(Scenario { preemptions: 5, ..AS_BUILT });
    assert_eq!((explored.fewest_rings, explored.most_at_one_ring), (1, 2), "one rings for both, sometimes");
}

#[test]
fn two_warps_take_turns_in_one_entry() {
    explore(Scenario { warps: &[2, 1], depth: 1, preemptions: 4, ..AS_BUILT });
}

#[test]
fn two_warps_use_entries_round_after_round() {
    explore(Scenario { warps: &[2, 2], preemptions: 2, ..AS_BUILT });
    explore(Scenario { warps: &[2, 1], preemptions: 3, ..AS_BUILT });
}

#[test]
fn batch_is_rung_by_the_one_that_fills_it() {
    let batch = Scenario { fault_batch: 2, looks_before_ringing: 1, preemptions: 3, ..AS_BUILT };
    assert_eq!(explore(batch).fewest_rings, 1);
    // One request is left over, whose batch nobody fills.
    explore(Scenario { warps: &[2, 1], ..batch });
}

#[test]
fn three_warps_share_a_queue_of_two_entries() {
    explore(Scenario { warps: &[1, 1, 1], preemptions: 1, ..AS_BUILT });
}

/// loom's words for a read and a write that nothing orders.
const RACE: &str = "Causality violation";
/// loom's words for a wait that nobody ends.
const HANG: &str = "maximum number of branches";

fn assert_refused(scenario: Scenario, variant: Variant, because: &[&str]) {
    let refusal = refusal(Scenario { variant, ..scenario });
    assert!(because.iter().any(|part| refusal.contains(part)), "refused for another reason: {refusal}");
}

const ONE_ENTRY: Scenario = Scenario { depth: 1, ..AS_BUILT };
const WITH_NIC: Scenario = Scenario { warps: &[2], ..ONE_ENTRY };

#[test]
fn slot_written_without_release_is_noticed() {
    // Who rings for another has to see what the other wrote.
    assert_refused(AS_BUILT, Variant::WritesSlotRelaxed, &[RACE]);
}

#[test]
fn slot_looked_at_without_acquire_is_noticed() {
    assert_refused(AS_BUILT, Variant::LooksAtSlotsRelaxed, &[RACE]);
}

#[test]
fn doorbell_without_release_is_noticed() {
    assert_refused(WITH_NIC, Variant::RingsRelaxed, &[RACE]);
}

#[test]
fn doorbell_read_without_acquire_is_noticed() {
    assert_refused(WITH_NIC, Variant::NicReadsDoorbellRelaxed, &[RACE]);
}

#[test]
fn completion_without_release_is_noticed() {
    assert_refused(WITH_NIC, Variant::CompletesRelaxed, &[RACE]);
}

#[test]
fn completion_polled_without_acquire_is_noticed() {
    assert_refused(WITH_NIC, Variant::PollsRelaxed, &[RACE]);
}

#[test]
fn entry_freed_without_release_is_noticed() {
    assert_refused(ONE_ENTRY, Variant::FreesSlotRelaxed, &[RACE]);
}

#[test]
fn entry_taken_without_acquire_is_noticed() {
    assert_refused(ONE_ENTRY, Variant::WaitsForSlotRelaxed, &[RACE]);
}

#[test]
fn entry_freed_before_its_completion_is_noticed() {
    assert_refused(WITH_NIC, Variant::FreesSlotWhenWritten, &[RACE, HANG, "(I6)", "(I7)"]);
}

#[test]
fn entry_taken_while_another_has_it_is_noticed() {
    assert_refused(ONE_ENTRY, Variant::TakesPlaceWithoutWaiting, &[RACE, "(I6)"]);
}

#[test]
fn counted_requests_taken_for_written_ones_are_noticed() {
    // The count says two when the first of three is not written yet.
    let three = Scenario { warps: &[1, 1], fault_batch: 1, ..AS_BUILT };
    assert_refused(three, Variant::RingsWhatIsCounted, &[RACE, "(I6)"]);
}

#[test]
fn two_ringers_at_a_time_are_noticed() {
    assert_refused(AS_BUILT, Variant::RingsWithoutHolding, &["(I7)", RACE]);
}

#[test]
fn holder_that_lets_go_without_release_is_noticed() {
    // The next holder may see an older end of what is rung.
    assert_refused(AS_BUILT, Variant::LetsGoRelaxed, &["(I7)", RACE, HANG]);
}

#[test]
fn trust_in_the_holder_to_ring_for_all_is_noticed() {
    assert_refused(AS_BUILT, Variant::TrustsTheHolder, &[HANG]);
}

#[test]
fn holder_that_waits_for_its_place_is_noticed() {
    // The request before it, in that place, is not rung.
    assert_refused(ONE_ENTRY, Variant::HoldsWhileItWaitsForItsPlace, &[HANG]);
}

#[test]
fn holder_that_waits_for_its_completion_is_noticed() {
    // Its request comes after one that is not written when it rings.
    assert_refused(AS_BUILT, Variant::HoldsWhileItWaitsForItsCompletion, &[HANG]);
}

#[test]
fn batch_that_nobody_fills_is_noticed() {
    let batch = Scenario { warps: &[1], fault_batch: 2, ..AS_BUILT };
    assert_refused(batch, Variant::WaitsForItsBatch, &[HANG]);
}

#[test]
fn completion_of_the_round_before_is_noticed() {
    assert_refused(WITH_NIC, Variant::IgnoresOwner, &[RACE, "another's completion"]);
}
