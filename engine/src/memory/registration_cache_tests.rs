use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const KIB: u64 = 1 << 10;

/// Notes what is pinned, and fails where it is told to.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Records>>);

#[derive(Default)]
struct Records {
    pinned: BTreeMap<u64, Range<u64>>,
    next: u64,
    refuse: bool,
}

impl Recorder {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pinned(&self) -> BTreeMap<u64, Range<u64>> {
        self.records().pinned.clone()
    }
}

#[derive(Debug, Error)]
#[error("no")]
struct No;

struct Region {
    id: u64,
    recorder: Recorder,
}

impl Drop for Region {
    fn drop(&mut self) {
        assert!(self.recorder.records().pinned.remove(&self.id).is_some(), "unpinned twice");
    }
}

impl Pinner for Recorder {
    type Region = Region;
    type Error = No;
    fn pin(&self, _: MemoryKind, range: Range<u64>) -> Result<Region, No> {
        let mut records = self.records();
        if records.refuse {
            return Err(No);
        }
        records.next += 1;
        let id = records.next;
        records.pinned.insert(id, range);
        Ok(Region { id, recorder: self.clone() })
    }
}

/// Memory that is only an address. Freeing it while a part of it is pinned is the mistake that must not happen.
#[derive(Clone)]
struct Memory {
    extent: Range<u64>,
    recorder: Recorder,
}

impl Drop for Memory {
    fn drop(&mut self) {
        let pinned = self.recorder.pinned();
        let overlaps = |range: &Range<u64>| range.start < self.extent.end && self.extent.start < range.end;
        assert!(!pinned.values().any(overlaps), "freed while pinned: {:x?} of {pinned:x?}", self.extent);
    }
}

// SAFETY: nobody looks at the bytes.
unsafe impl Pinnable for Memory {
    fn extent(&self) -> Range<u64> {
        self.extent.clone()
    }
    fn kind(&self) -> MemoryKind {
        MemoryKind::Host
    }
}

fn cache(budget_bytes: u64) -> (RegistrationCache<Recorder>, Recorder) {
    let recorder = Recorder::default();
    (RegistrationCache::new(recorder.clone(), budget_bytes), recorder)
}

fn memory(
    cache: &RegistrationCache<Recorder>,
    recorder: &Recorder,
    extent: Range<u64>,
) -> Registered<Memory, Recorder> {
    cache.adopt(Memory { extent, recorder: recorder.clone() })
}

#[test]
fn range_is_pinned_in_multiples_of_64_kib_but_not_beyond_its_memory() {
    let (cache, recorder) = cache(u64::MAX);
    let (start, size) = (1024 * KIB + 4096, 300 * KIB);
    let memory = memory(&cache, &recorder, start..start + size);
    let first = memory.register(0, 1).expect("fits");
    assert_eq!(first.range(), start..1088 * KIB, "not what lies before");
    let middle = memory.register(100 * KIB, 8 * KIB).expect("fits");
    assert_eq!(middle.range(), 1088 * KIB..1152 * KIB);
    let last = memory.register(size - 1, 1).expect("fits");
    assert_eq!(last.range(), 1280 * KIB..start + size, "not what lies behind");
}

#[test]
fn unpinning_waits_until_the_room_is_needed() {
    let (cache, recorder) = cache(128 * KIB);
    let memory = memory(&cache, &recorder, 0..1024 * KIB);
    for page in [0, 1, 7, 8, 0] {
        drop(memory.register(page * 8 * KIB, 8 * KIB).expect("fits"));
    }
    let kept = RegistrationStats {
        hits: 3,
        pins: 2,
        pinned_bytes: 128 * KIB,
        most_pinned_bytes: 128 * KIB,
        ..RegistrationStats::default()
    };
    assert_eq!(cache.stats(), kept, "pages 0, 1, 7 lie in one piece of 64 KiB, page 8 in the next");
    assert_eq!(cache.stats().hit_rate(), 0.6);
    drop(memory.register(512 * KIB, KIB).expect("the second piece leaves: it was used before the first"));
    assert_eq!(recorder.pinned().into_values().collect::<Vec<_>>(), [0..64 * KIB, 512 * KIB..576 * KIB]);
    assert_eq!((cache.stats().unpins, cache.stats().evictions), (1, 1));
}

#[test]
fn working_set_larger_than_the_budget_keeps_what_is_used_most() {
    // 10 pieces in turn through room for 4, and piece 0 between any two of them.
    let (cache, recorder) = cache(4 * 64 * KIB);
    let memory = memory(&cache, &recorder, 0..10 * 64 * KIB);
    for round in 0..100 {
        drop(memory.register(0, 64 * KIB).expect("fits"));
        drop(memory.register((1 + round % 9) * 64 * KIB, 64 * KIB).expect("fits"));
    }
    let stats = cache.stats();
    // Piece 0 is pinned once and hit 99 times; of the others each has left before it comes back.
    assert_eq!((stats.hits, stats.pins, stats.unpins), (99, 101, 97));
    assert_eq!((stats.pinned_bytes, stats.most_pinned_bytes), (256 * KIB, 256 * KIB));
}

#[test]
fn range_in_use_is_not_unpinned_for_another() {
    let (cache, recorder) = cache(128 * KIB);
    let memory = memory(&cache, &recorder, 0..1024 * KIB);
    let in_use = memory.register(0, 64 * KIB).expect("fits");
    let also = memory.register(64 * KIB, 64 * KIB).expect("fits");
    let refused = memory.register(128 * KIB, 64 * KIB).expect_err("no room");
    assert_eq!(
        refused.to_string(),
        "64.0 KiB at 0x20000 cannot be pinned: of a budget of 128.0 KiB are 128.0 KiB in use"
    );
    assert_eq!(cache.stats().evictions, 0);
    drop(in_use);
    assert!(memory.register(128 * KIB, 64 * KIB).is_ok());
    assert!(memory.register(0, 129 * KIB).is_err(), "never, with this budget");
    drop(also);
}

#[test]
fn memory_leaves_the_cache_before_it_is_freed_and_nothing_else_does() {
    let (cache, recorder) = cache(u64::MAX);
    let first = memory(&cache, &recorder, 0..256 * KIB);
    let second = memory(&cache, &recorder, 256 * KIB..512 * KIB);
    for memory in [&first, &second] {
        drop(memory.register(0, 64 * KIB).expect("fits"));
        drop(memory.register(128 * KIB, 128 * KIB).expect("fits"));
    }
    drop(first); // `Memory` itself complains if a part of it is pinned
    assert_eq!(
        recorder.pinned().into_values().collect::<Vec<_>>(),
        [256 * KIB..320 * KIB, 384 * KIB..512 * KIB]
    );
    // Another allocation at the same address is not taken for the one that was there.
    let third = memory(&cache, &recorder, 0..256 * KIB);
    drop(third.register(0, 64 * KIB).expect("fits"));
    assert_eq!((cache.stats().pins, cache.stats().hits, cache.stats().unpins), (5, 0, 2));
}

#[test]
fn registration_that_owns_its_memory_keeps_it_from_being_freed() {
    let (cache, recorder) = cache(64 * KIB);
    let memory = Arc::new(memory(&cache, &recorder, 0..256 * KIB));
    let owned = memory.register_owned(0, KIB).expect("fits");
    drop(memory);
    assert_eq!(
        recorder.pinned().into_values().map(|range| (range.start, range.end)).collect::<Vec<_>>(),
        [(0, 64 * KIB)]
    );
    drop(owned); // the last to know the memory: unpinned, then freed
    assert!(recorder.pinned().is_empty());
}

#[test]
fn range_that_cannot_be_pinned_is_an_error_and_leaves_nothing_behind() {
    let (cache, recorder) = cache(u64::MAX);
    let memory = memory(&cache, &recorder, 0..256 * KIB);
    recorder.records().refuse = true;
    assert!(
        matches!(memory.register(0, KIB), Err(RegistrationError::Pin { range, source: No }) if range == (0..64 * KIB))
    );
    assert_eq!(cache.stats(), RegistrationStats::default());
    for (at, size) in [(0, 0), (256 * KIB, 1), (255 * KIB, 2 * KIB), (u64::MAX, 1), (1, u64::MAX)] {
        assert!(
            matches!(memory.register(at, size), Err(RegistrationError::OutOfRange { .. })),
            "{at} {size}"
        );
    }
}

/// What a round does, one after the other: a use of a range (memory, offset, size), or the end of a use.
#[derive(Clone, Debug)]
enum Action {
    Use(usize, u64, u64),
    EndOfUse(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => (0_usize..4, 0_u64..640 * KIB, 1_u64..200 * KIB).prop_map(|(m, at, size)| Action::Use(m, at, size)),
        2 => (0_usize..8).prop_map(Action::EndOfUse),
    ]
}

proptest! {
    /// Rounds of uses over four pieces of memory, of which one is freed after each round and another allocated at an
    /// address that may be the same.
    #[test]
    fn cache_does_what_the_model_does(
        budget in 0_u64..1500 * KIB,
        rounds in prop::collection::vec((prop::collection::vec(action(), 0..40), 0_usize..4, 0_u64..6), 1..8),
    ) {
        let (cache, recorder) = cache(budget);
        let at_place = |place: u64, size: u64| {
            let start = (place * 1024 + 4) * KIB;
            memory(&cache, &recorder, start..start + size)
        };
        let mut memories: Vec<_> = (0..4).map(|place| at_place(place, 700 * KIB)).collect();
        let mut last_use: BTreeMap<u64, usize> = BTreeMap::new();
        let mut now = 0;
        for (actions, freed, place) in rounds {
            let mut held: Vec<(u64, Registration<'_, Recorder>)> = Vec::new();
            for action in actions {
                now += 1;
                let before = recorder.pinned();
                let Action::Use(which, at, size) = action else {
                    let Action::EndOfUse(which) = action else { unreachable!() };
                    if !held.is_empty() {
                        drop(held.swap_remove(which % held.len()));
                    }
                    prop_assert_eq!(recorder.pinned(), before, "the end of a use unpins nothing");
                    continue;
                };
                let extent = memories[which].memory().extent();
                let wanted = extent.start + at..extent.start + at + size;
                let outcome = memories[which].register(at, size);
                let after = recorder.pinned();
                let covered = before.values().any(|r| r.start <= wanted.start && wanted.end <= r.end);
                let down = |a: u64| a / PIN_ALIGNMENT * PIN_ALIGNMENT;
                let range = down(wanted.start).max(extent.start)
                    ..down(wanted.end + PIN_ALIGNMENT - 1).min(extent.end);
                let in_use = |id: &u64| held.iter().any(|(used, _)| used == id);
                let in_use_bytes: u64 =
                    before.iter().filter(|(id, _)| in_use(id)).map(|(_, r)| r.end - r.start).sum();
                match outcome {
                    Err(RegistrationError::OutOfRange { .. }) => {
                        prop_assert!(wanted.end > extent.end);
                        prop_assert_eq!(&after, &before);
                    }
                    Err(error) => {
                        prop_assert!(!covered && in_use_bytes + (range.end - range.start) > budget, "{}", error);
                        prop_assert_eq!(&after, &before);
                    }
                    Ok(registration) => {
                        let id = registration.id;
                        let pinned = &after[&id];
                        prop_assert!(pinned.start <= wanted.start && wanted.end <= pinned.end);
                        prop_assert_eq!(pinned, &registration.range());
                        if covered {
                            prop_assert_eq!(&after, &before, "a hit pins and unpins nothing");
                        } else {
                            prop_assert_eq!(pinned, &range);
                            let gone: Vec<_> = before.keys().filter(|id| !after.contains_key(id)).collect();
                            prop_assert!(!gone.iter().any(|id| in_use(id)), "unpinned while in use");
                            let newest_gone = gone.iter().map(|id| last_use[id]).max();
                            let oldest_kept =
                                before.keys().filter(|id| after.contains_key(id) && !in_use(id)).map(|id| last_use[id]).min();
                            if let (Some(gone), Some(kept)) = (newest_gone, oldest_kept) {
                                prop_assert!(gone < kept, "not the one used longest ago");
                            }
                            // No more left than had to.
                            let bytes = |pinned: &BTreeMap<u64, Range<u64>>| -> u64 {
                                pinned.values().map(|r| r.end - r.start).sum()
                            };
                            if let Some(last) = gone.iter().max_by_key(|id| last_use[*id]) {
                                prop_assert!(bytes(&after) + before[last].end - before[last].start > budget);
                            }
                        }
                        last_use.insert(id, now);
                        held.push((id, registration));
                    }
                }
                let pinned_bytes: u64 = after.values().map(|r| r.end - r.start).sum();
                prop_assert!(pinned_bytes <= budget);
                prop_assert_eq!(cache.stats().pinned_bytes, pinned_bytes);
                prop_assert_eq!(cache.stats().pins - cache.stats().unpins, after.len() as u64);
            }
            drop(held);
            memories.remove(freed); // `Memory` checks that none of it is pinned
            let taken: Vec<_> = memories.iter().map(|memory| memory.memory().extent().start / (1024 * KIB)).collect();
            let place = (place..).find(|place| !taken.contains(place)).expect("many places");
            memories.push(at_place(place, 650 * KIB));
        }
        drop(memories);
        prop_assert!(recorder.pinned().is_empty());
        prop_assert_eq!(cache.stats().pinned_bytes, 0);
    }
}
