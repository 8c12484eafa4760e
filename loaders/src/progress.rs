//! How a long load tells its caller how far it is, and hears that it should stop.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Follows a load or a write. Called from many threads; every method returns at once.
///
/// `()` follows nothing.
pub trait Progress: Sync {
    /// A phase begins, of `total` bytes (reading, writing) or edges (sorting).
    fn begin(&self, phase: &'static str, total: u64);

    /// `by` more bytes or edges of the phase are done.
    fn advance(&self, by: u64);

    /// The phase is over.
    fn end(&self);

    /// Whether to give up: asked every few megabytes, answered by
    /// [`LoadError::Interrupted`](crate::LoadError::Interrupted).
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Progress for () {
    fn begin(&self, _phase: &'static str, _total: u64) {}
    fn advance(&self, _by: u64) {}
    fn end(&self) {}
}

/// The progress of another, which gives up as well once `stopped` is set: by a pass that has no other way to say so.
pub(crate) struct Until<'a> {
    pub progress: &'a dyn Progress,
    pub stopped: &'a AtomicBool,
}

impl Progress for Until<'_> {
    fn begin(&self, phase: &'static str, total: u64) {
        self.progress.begin(phase, total);
    }
    fn advance(&self, by: u64) {
        self.progress.advance(by);
    }
    fn end(&self) {
        self.progress.end();
    }
    fn is_cancelled(&self) -> bool {
        self.stopped.load(Relaxed) || self.progress.is_cancelled()
    }
}
