use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gpuvm_kernels::layout;

use crate::device::{CudaMemory, Device};
use crate::error::{Error, PagingError, QueuePlace};
use crate::transport::mlx5::Syndrome;

/// Where kernels record their first failure and the host asks them to stop.
#[derive(Debug)]
pub(crate) enum ErrorSlot {
    Host(HostSlot),
    Cuda(CudaMemory),
}

/// The host's side of [`layout::ErrorSlot`]: both sides write it at any time, so its fields are atomics.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct HostSlot {
    code: AtomicU32,
    reserved: u32,
    subject: AtomicU64,
    detail: AtomicU64,
}

const SIZE: usize = size_of::<layout::ErrorSlot>();
const CODE_AT: usize = std::mem::offset_of!(layout::ErrorSlot, code);
const SUBJECT_AT: usize = std::mem::offset_of!(layout::ErrorSlot, subject);
const DETAIL_AT: usize = std::mem::offset_of!(layout::ErrorSlot, detail);

const _: () = assert!(
    size_of::<HostSlot>() == SIZE
        && std::mem::offset_of!(HostSlot, code) == CODE_AT
        && std::mem::offset_of!(HostSlot, subject) == SUBJECT_AT
        && std::mem::offset_of!(HostSlot, detail) == DETAIL_AT
);

impl ErrorSlot {
    pub fn new(device: &Device) -> Result<Self, Error> {
        Ok(match device {
            Device::Cpu(_) => Self::Host(HostSlot::default()),
            Device::Cuda(cuda) => Self::Cuda(CudaMemory::zeroed(cuda, "error slot", SIZE as u64)?),
        })
    }

    pub fn address(&self) -> u64 {
        match self {
            Self::Host(slot) => std::ptr::from_ref(slot).expose_provenance() as u64,
            Self::Cuda(memory) => memory.address(),
        }
    }

    /// Asks running and coming kernels to stop.
    pub fn cancel(&self) {
        let cancelled = layout::ERROR_CANCELLED as u32;
        match self {
            Self::Host(slot) => {
                // A failure that is there already stays: it is the more useful news.
                let _ = slot.code.compare_exchange(0, cancelled, Ordering::Relaxed, Ordering::Relaxed);
            }
            Self::Cuda(memory) => {
                // A device that cannot be written to any more has stopped by itself, and the run will say so.
                let _ = memory.write_beside_a_kernel(CODE_AT as u64, &cancelled.to_ne_bytes());
            }
        }
    }

    /// Takes the failure out, if there is one. Called when no kernel runs.
    pub fn take(&self, num_vertices: u64) -> Result<(), Error> {
        let (code, subject, detail) = match self {
            Self::Host(slot) => (
                slot.code.swap(0, Ordering::Relaxed),
                slot.subject.load(Ordering::Relaxed),
                slot.detail.load(Ordering::Relaxed),
            ),
            Self::Cuda(memory) => {
                let mut bytes = [0; SIZE];
                memory.read(0, &mut bytes)?;
                let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
                let code = u32::from_ne_bytes(bytes[CODE_AT..CODE_AT + 4].try_into().expect("4 bytes"));
                if code != 0 {
                    memory.write_beside_a_kernel(0, &[0; SIZE])?;
                }
                (code, word(SUBJECT_AT), word(DETAIL_AT))
            }
        };
        Err(match u64::from(code) {
            0 => return Ok(()),
            layout::ERROR_CANCELLED => Error::Interrupted,
            layout::ERROR_STUCK_FAULT => PagingError::StuckFault { page: subject, waited_ms: detail }.into(),
            layout::ERROR_NO_FREE_FRAME => {
                PagingError::NoFreeFrame { page: subject, waited_ms: detail }.into()
            }
            layout::ERROR_STUCK_REQUEST => {
                let (frame, place) = (detail >> layout::REQUEST_FRAME_SHIFT, place_of(detail));
                PagingError::StuckRequest { page: subject, frame, place }.into()
            }
            layout::ERROR_FAILED_REQUEST => {
                let (frame, place) = (detail >> layout::REQUEST_FRAME_SHIFT, place_of(detail));
                let syndrome = Syndrome(detail as u8);
                PagingError::FailedRequest { page: subject, frame, place, syndrome }.into()
            }
            layout::ERROR_NICS_LOST => {
                PagingError::NicsLost { page: subject, num_nics: detail, reasons: Vec::new() }.into()
            }
            layout::ERROR_ELEMENT_OUT_OF_RANGE => {
                PagingError::ElementOutOfRange { index: subject, len: detail }.into()
            }
            _ => PagingError::ColumnOutOfRange { edge: subject, column: detail, num_vertices }.into(),
        })
    }
}

/// Where a request was posted, as the detail of its failure packs it.
fn place_of(detail: u64) -> QueuePlace {
    QueuePlace {
        nic: u32::from((detail >> layout::REQUEST_NIC_SHIFT) as u8),
        queue_pair: u32::from((detail >> layout::REQUEST_PAIR_SHIFT) as u16),
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
