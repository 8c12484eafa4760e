//! [`RegistrationCache`]: memory stays registered with whoever reads it across the bus, until the room is needed.
//!
//! Registering ("pinning") memory with an RDMA device takes longer than to move it, so what was pinned once stays so after
//! its last use (lazy unpinning) and the next use of the range is a hit. GPU memory has to fit the window through which
//! other devices see it (BAR1), host memory the limit of locked memory; under such a budget the ranges used longest ago
//! are unpinned first (LRU), those in use never. Memory leaves the cache before it is freed: [`Pinnable`] memory is handed
//! over ([`RegistrationCache::adopt`]) and comes back only when none of its ranges is pinned any more.
//!
//! Source: NVIDIA, "Developing a Linux Kernel Module using GPUDirect RDMA", design considerations: lazy unpinning
//! optimization, registration cache, unpin callback, BAR sizes.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytesize::ByteSize;
use serde::Serialize;
use thiserror::Error;

/// Ranges are pinned in multiples of this many bytes: a GPU's own pages, in which its memory is shown to other devices.
pub const PIN_ALIGNMENT: u64 = 64 << 10;

/// Who pins ranges of memory, and how they are unpinned: by dropping the region.
pub trait Pinner {
    /// A pinned range; dropping it unpins.
    type Region;
    /// Why a range could not be pinned.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Pins the bytes at these addresses, all of which belong to `memory`.
    ///
    /// # Errors
    /// What the device or the driver says.
    fn pin(&self, memory: MemoryKind, range: Range<u64>) -> Result<Self::Region, Self::Error>;
}

/// Whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// The host's.
    Host,
    /// A GPU's.
    Gpu,
}

/// Memory that stays where it is as long as it lives, and can be pinned.
///
/// # Safety
/// The bytes of `extent` are this value's own and stay mapped until it is dropped, also when the value is moved; `extent`
/// and `kind` always return the same.
pub unsafe trait Pinnable {
    /// Addresses of its bytes. Those of GPU memory begin and end at multiples of [`PIN_ALIGNMENT`].
    fn extent(&self) -> Range<u64>;
    /// Whose it is.
    fn kind(&self) -> MemoryKind;
}

/// Why a range is not pinned.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum RegistrationError<E: std::error::Error + 'static> {
    #[error(
        "{} at {:#x} cannot be pinned: of a budget of {} are {} in use",
        ByteSize::b(range.end - range.start), range.start, ByteSize::b(*budget_bytes), ByteSize::b(*in_use_bytes)
    )]
    OverBudget { range: Range<u64>, budget_bytes: u64, in_use_bytes: u64 },
    #[error("{} at {:#x} are not within the memory from {:#x} to {:#x}", ByteSize::b(range.end.saturating_sub(range.start)), range.start, extent.start, extent.end)]
    OutOfRange { range: Range<u64>, extent: Range<u64> },
    #[error("cannot pin {} at {:#x}", ByteSize::b(range.end - range.start), range.start)]
    Pin {
        range: Range<u64>,
        #[source]
        source: E,
    },
}

/// What a cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RegistrationStats {
    /// Uses of a range that was pinned already.
    pub hits: u64,
    /// Uses that had to pin.
    pub pins: u64,
    /// Ranges unpinned, for room or because their memory was freed.
    pub unpins: u64,
    /// Of these, for room.
    pub evictions: u64,
    /// Bytes that are pinned.
    pub pinned_bytes: u64,
    /// The most that were at a time.
    pub most_pinned_bytes: u64,
}

impl RegistrationStats {
    /// Share of uses that found their range pinned, 0 to 1; 0 if there were none.
    pub fn hit_rate(&self) -> f64 {
        if self.hits == 0 { 0.0 } else { self.hits as f64 / (self.hits + self.pins) as f64 }
    }
}

/// A range that is pinned.
struct Entry<R> {
    end: u64,
    /// Held by the cache and by each [`Registration`], so a count of 1 means that nobody uses it. It only grows under the
    /// cache's lock.
    region: Arc<R>,
    last_use: u64,
}

/// A region and the addresses that it covers.
type Pinned<P> = (Arc<<P as Pinner>::Region>, Range<u64>);

struct Inner<P: Pinner> {
    pinner: P,
    budget_bytes: u64,
    /// By first address, and a number for those that begin at the same one.
    entries: BTreeMap<(u64, u64), Entry<P::Region>>,
    /// Counts uses: the time by which the one used longest ago is found.
    clock: u64,
    stats: RegistrationStats,
}

/// Ranges of memory that are pinned, kept until the room is needed. A clone is the same cache.
pub struct RegistrationCache<P: Pinner>(Arc<Mutex<Inner<P>>>);

impl<P: Pinner> Clone for RegistrationCache<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P: Pinner> fmt::Debug for RegistrationCache<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistrationCache").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl<P: Pinner> RegistrationCache<P> {
    /// A cache that has at most `budget_bytes` pinned at a time.
    pub fn new(pinner: P, budget_bytes: u64) -> Self {
        let (entries, stats) = (BTreeMap::new(), RegistrationStats::default());
        Self(Arc::new(Mutex::new(Inner { pinner, budget_bytes, entries, clock: 0, stats })))
    }

    /// Takes in memory whose ranges are to be pinned. It leaves the cache before it is freed.
    pub fn adopt<M: Pinnable>(&self, memory: M) -> Registered<M, P> {
        Registered { cache: self.clone(), memory }
    }

    /// What it did so far.
    pub fn stats(&self) -> RegistrationStats {
        self.lock().stats
    }

    fn lock(&self) -> MutexGuard<'_, Inner<P>> {
        // A pinner that panicked left no entry behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Pinner> Inner<P> {
    fn acquire(
        &mut self,
        kind: MemoryKind,
        range: Range<u64>,
        extent: &Range<u64>,
    ) -> Result<Pinned<P>, RegistrationError<P::Error>> {
        self.clock += 1;
        // Mostly the last one that begins before the range is the one: ranges are aligned.
        let before = self.entries.range_mut(..=(range.start, u64::MAX)).rev();
        if let Some((&(start, _), entry)) = before.into_iter().find(|(_, entry)| entry.end >= range.end) {
            entry.last_use = self.clock;
            self.stats.hits += 1;
            return Ok((Arc::clone(&entry.region), start..entry.end));
        }
        let down = |address: u64| address / PIN_ALIGNMENT * PIN_ALIGNMENT;
        let up = |address: u64| down(address.saturating_add(PIN_ALIGNMENT - 1));
        // What lies beside host memory is another's, who may give it back at any time.
        let range = down(range.start).max(extent.start)..up(range.end).min(extent.end);
        self.make_room(&range)?;
        let region = self.pinner.pin(kind, range.clone());
        let region =
            Arc::new(region.map_err(|source| RegistrationError::Pin { range: range.clone(), source })?);
        self.stats.pins += 1;
        self.stats.pinned_bytes += range.end - range.start;
        self.stats.most_pinned_bytes = self.stats.most_pinned_bytes.max(self.stats.pinned_bytes);
        let entry = Entry { end: range.end, region: Arc::clone(&region), last_use: self.clock };
        self.entries.insert((range.start, self.clock), entry);
        Ok((region, range))
    }

    /// Unpins what was used longest ago until `range` fits the budget.
    fn make_room(&mut self, range: &Range<u64>) -> Result<(), RegistrationError<P::Error>> {
        let needed = range.end - range.start;
        let idle = |entry: &Entry<P::Region>| Arc::strong_count(&entry.region) == 1;
        let in_use_bytes =
            self.entries.iter().filter(|(_, entry)| !idle(entry)).map(|(at, entry)| entry.end - at.0).sum();
        // Nothing is unpinned for a range that will not fit anyway.
        if needed.saturating_add(in_use_bytes) > self.budget_bytes {
            let (range, budget_bytes) = (range.clone(), self.budget_bytes);
            return Err(RegistrationError::OverBudget { range, budget_bytes, in_use_bytes });
        }
        while self.stats.pinned_bytes + needed > self.budget_bytes {
            let oldest =
                self.entries.iter().filter(|(_, entry)| idle(entry)).min_by_key(|(_, entry)| entry.last_use);
            let Some((&at, _)) = oldest else { break };
            self.unpin(at);
            self.stats.evictions += 1;
        }
        Ok(())
    }

    fn unpin(&mut self, at: (u64, u64)) {
        if let Some(entry) = self.entries.remove(&at) {
            self.stats.unpins += 1;
            self.stats.pinned_bytes -= entry.end - at.0;
        }
    }

    /// Unpins everything within memory that is about to be freed.
    fn forget(&mut self, extent: &Range<u64>) {
        let gone: Vec<_> = (self.entries.range((extent.start, 0)..(extent.end, 0)))
            .map(|(&at, entry)| {
                debug_assert_eq!(Arc::strong_count(&entry.region), 1, "a registration borrows its memory");
                at
            })
            .collect();
        gone.into_iter().for_each(|at| self.unpin(at));
    }
}

/// Memory in the care of a cache, until dropped: then its ranges are unpinned, and it is freed after that.
pub struct Registered<M: Pinnable, P: Pinner> {
    // Dropped after `Drop::drop` has unpinned all of it.
    memory: M,
    cache: RegistrationCache<P>,
}

impl<M: Pinnable, P: Pinner> Registered<M, P> {
    /// Has the `size` bytes from offset `at` pinned, and the rest of the [`PIN_ALIGNMENT`] bytes that they lie in. They
    /// stay so at least until the result is dropped.
    ///
    /// # Errors
    /// [`RegistrationError::OutOfRange`] beyond the memory's end or for no bytes, [`RegistrationError::OverBudget`] if
    /// what is in use leaves no room, [`RegistrationError::Pin`] if it cannot be pinned.
    pub fn register(&self, at: u64, size: u64) -> Result<Registration<'_, P>, RegistrationError<P::Error>> {
        let (region, range) = self.acquire(at, size)?;
        Ok(Registration { region, range, _memory: std::marker::PhantomData })
    }

    /// The same for whoever cannot borrow: the result keeps the memory.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_owned(
        self: &Arc<Self>,
        at: u64,
        size: u64,
    ) -> Result<OwnedRegistration<M, P>, RegistrationError<P::Error>> {
        let (region, _) = self.acquire(at, size)?;
        Ok(OwnedRegistration { region, _memory: Arc::clone(self) })
    }

    fn acquire(&self, at: u64, size: u64) -> Result<Pinned<P>, RegistrationError<P::Error>> {
        let extent = self.memory.extent();
        let start = extent.start.saturating_add(at);
        let range = start..start.saturating_add(size);
        if size == 0 || start < extent.start || range.end > extent.end {
            return Err(RegistrationError::OutOfRange { range, extent });
        }
        self.cache.lock().acquire(self.memory.kind(), range, &extent)
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }
}

impl<M: Pinnable, P: Pinner> Drop for Registered<M, P> {
    fn drop(&mut self) {
        let extent = self.memory.extent();
        self.cache.lock().forget(&extent);
    }
}

impl<M: Pinnable + fmt::Debug, P: Pinner> fmt::Debug for Registered<M, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registered").field(&self.memory).finish()
    }
}

/// A range in use: pinned as long as this lives. Dropping it does not unpin, it allows to.
pub struct Registration<'memory, P: Pinner> {
    region: Arc<P::Region>,
    range: Range<u64>,
    _memory: std::marker::PhantomData<&'memory ()>,
}

impl<P: Pinner> Registration<'_, P> {
    /// The addresses that are pinned: those asked for, and what lies beside them.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }
}

impl<P: Pinner> Deref for Registration<'_, P> {
    type Target = P::Region;
    fn deref(&self) -> &P::Region {
        &self.region
    }
}

impl<P: Pinner> fmt::Debug for Registration<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.range).finish()
    }
}

/// A range in use, with a share of its memory: pinned as long as this lives.
pub struct OwnedRegistration<M: Pinnable, P: Pinner> {
    // Let go before the memory, which may be freed then.
    region: Arc<P::Region>,
    _memory: Arc<Registered<M, P>>,
}

impl<M: Pinnable, P: Pinner> Deref for OwnedRegistration<M, P> {
    type Target = P::Region;
    fn deref(&self) -> &P::Region {
        &self.region
    }
}

impl<M: Pinnable, P: Pinner> fmt::Debug for OwnedRegistration<M, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnedRegistration").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "registration_cache_tests.rs"]
mod tests;
