use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gpuvm_kernels::layout;

use crate::error::{Error, PagingError};

/// The host's side of [`layout::ErrorSlot`]: kernels record their first failure in it and the host may ask them to
/// stop, both at any time, so its fields are atomics.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct ErrorSlot {
    code: AtomicU32,
    reserved: u32,
    subject: AtomicU64,
    detail: AtomicU64,
}

const _: () = assert!(
    size_of::<ErrorSlot>() == size_of::<layout::ErrorSlot>()
        && std::mem::offset_of!(ErrorSlot, code) == std::mem::offset_of!(layout::ErrorSlot, code)
        && std::mem::offset_of!(ErrorSlot, subject) == std::mem::offset_of!(layout::ErrorSlot, subject)
        && std::mem::offset_of!(ErrorSlot, detail) == std::mem::offset_of!(layout::ErrorSlot, detail)
);

impl ErrorSlot {
    pub fn address(&self) -> u64 {
        std::ptr::from_ref(self).expose_provenance() as u64
    }

    /// Asks running and coming kernels to stop.
    pub fn cancel(&self) {
        let cancelled = layout::ERROR_CANCELLED as u32;
        // A failure that is there already stays: it is the more useful news.
        let _ = self.code.compare_exchange(0, cancelled, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Takes the failure out, if there is one. Called when no kernel runs.
    pub fn take(&self, num_vertices: u64) -> Result<(), Error> {
        let code = self.code.swap(0, Ordering::Relaxed);
        let (subject, detail) = (self.subject.load(Ordering::Relaxed), self.detail.load(Ordering::Relaxed));
        Err(match u64::from(code) {
            0 => return Ok(()),
            layout::ERROR_CANCELLED => Error::Interrupted,
            layout::ERROR_STUCK_FAULT => PagingError::StuckFault { page: subject, waited_ms: detail }.into(),
            layout::ERROR_NO_FREE_FRAME => {
                PagingError::NoFreeFrame { page: subject, waited_ms: detail }.into()
            }
            _ => PagingError::ColumnOutOfRange { edge: subject, column: detail, num_vertices }.into(),
        })
    }
}

/// Stops the run of an engine from another thread, or from a signal handler: within a page fault or a work item, not
/// only between steps.
#[derive(Clone, Debug)]
pub struct CancelHandle(pub(crate) Arc<ErrorSlot>);

impl CancelHandle {
    /// The run in progress, or else the next one, ends with [`Error::Interrupted`].
    pub fn cancel(&self) {
        self.0.cancel();
    }
}
