//! What a NIC is to the thread that drives it, whichever it is: host threads, libibverbs.

use std::fmt::Debug;

use super::mlx5::{Status, WorkRequest};
use crate::error::Error;
use crate::memory::RegistrationStats;

/// A NIC that a host thread drives: the thread takes requests out of the queues that kernels write, hands them on here, and
/// writes the completions. It belongs to one thread at a time.
pub(crate) trait Nic: Debug + Send {
    /// Its name, for people.
    fn name(&self) -> String;

    /// Makes memory known to the NIC, for its lifetime; returns the key that requests name it by: the local key of the
    /// frames, the remote key of an array. Called before the first request.
    ///
    /// # Errors
    /// Those of the transport.
    fn register(&mut self, memory: MemoryRegion) -> Result<u32, Error>;

    /// Begins requests. Each ends by itself, in any order, with one [`Finished`] from [`poll`](Nic::poll), also if it fails.
    ///
    /// # Errors
    /// [`Lost`] if the NIC is gone; then nothing of what it had comes any more.
    fn post(&mut self, requests: &[Posted]) -> Result<(), Lost>;

    /// Adds those that have ended since.
    ///
    /// # Errors
    /// [`Lost`] as above.
    fn poll(&mut self, finished: &mut Vec<Finished>) -> Result<(), Lost>;

    /// Gives up what is under way and does not end, after a run that failed; once this returns, nothing is written to memory
    /// for it any more.
    fn reset(&mut self) {}

    /// Why it is gone, once it is.
    fn lost_because(&self) -> Option<String> {
        None
    }

    /// What its registration cache did so far, if it has one.
    fn registrations(&self) -> Option<RegistrationStats> {
        None
    }
}

/// The NIC is gone: unplugged, its link down for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// Memory that requests name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryRegion {
    pub kind: MemoryKind,
    /// Its address, as requests give it: that of kernels.
    pub address: u64,
    /// Its bytes.
    pub size_bytes: u64,
}

/// Which end of a request a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// An array in host memory, the remote end; read only.
    Array,
    /// The frames, the local end: device memory.
    Frames,
}

/// A request that is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    pub id: RequestId,
    pub request: WorkRequest,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub id: RequestId,
    pub status: Status,
}

/// Which request of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId {
    /// Its queue pair, from 0.
    pub pair: u32,
    /// How many were posted to the queue pair before.
    pub number: u64,
}
