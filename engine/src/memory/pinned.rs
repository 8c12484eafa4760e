use memmap2::MmapMut;
use rayon::prelude::*;

use super::device::anonymous;
use crate::device::{Device, HostPin, PinnedBytes, total_memory_bytes};
use crate::error::Error;

/// An array in host memory that kernels read where it lies.
///
/// The CPU device reads any memory. A GPU reads memory that is registered with its driver: mapped files and large
/// arrays as they are. What cannot be registered, and what kernels could not copy by 16 bytes, is copied, which costs time
/// and the same memory again: to pages of its own, which are registered, or, where the driver registers nothing, to memory
/// that the driver itself allocates.
#[derive(Debug)]
pub(crate) struct PinnedArray {
    address: u64,
    _owner: Owner,
}

/// What keeps the address good. Fields are dropped in order: unregistered first, freed then.
#[derive(Debug)]
#[expect(dead_code, reason = "held, never read")]
enum Owner {
    Caller,
    CallerPinned(HostPin),
    Copy { pin: HostPin, bytes: MmapMut },
    Driver(PinnedBytes),
}

/// `fetch_page` in `kernels/cuda/fault.cuh` loads this many at a time, from addresses that are multiples of it.
const FETCH_BYTES: u64 = 16;

/// Smaller arrays may share their pages with others, which can be registered once only.
const OWN_PAGES_BYTES: usize = 1 << 20;

/// Bytes that one thread copies at a time.
const BLOCK: usize = 1 << 20;

impl PinnedArray {
    /// `bytes`, called `what` in errors. The caller keeps them in place as long as this lives.
    pub fn new(device: &Device, what: &'static str, bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Ok(Self { address: 0, _owner: Owner::Caller });
        }
        let in_place = bytes.as_ptr().expose_provenance() as u64;
        let Device::Cuda(cuda) = device else {
            return Ok(Self { address: in_place, _owner: Owner::Caller });
        };
        if bytes.len() >= OWN_PAGES_BYTES && in_place.is_multiple_of(FETCH_BYTES) {
            match HostPin::new(cuda, bytes) {
                Ok(pin) => return Ok(Self { address: pin.address(), _owner: Owner::CallerPinned(pin) }),
                // A file on a device that registers nothing read-only, or an array that is registered already for
                // another graph: pages of its own do.
                Err(error) => {
                    tracing::warn!(%error, "{what} cannot be registered as they are and are copied");
                }
            }
        }
        let size = bytes.len() as u64;
        let mut copy = anonymous(bytes.len()).map_err(|_| Error::OutOfMemory { what, bytes: size })?;
        // Filled before it is registered: all threads touch its pages then, not the driver's one.
        let blocks = copy.par_chunks_mut(BLOCK).zip(bytes.par_chunks(BLOCK));
        blocks.for_each(|(to, from)| to.copy_from_slice(from));
        match HostPin::new(cuda, &copy) {
            Ok(pin) => Ok(Self { address: pin.address(), _owner: Owner::Copy { pin, bytes: copy } }),
            // The limit of locked memory, or a platform without registration. Memory of the driver's own is under neither,
            // but allocating it takes 0.5 s a GiB, so it comes last.
            Err(error) => {
                tracing::warn!(%error, "a copy of {what} cannot be registered either, the driver allocates it: see ulimit -l");
                drop(copy);
                let copy = PinnedBytes::copied(cuda, bytes).map_err(|source| Error::Pin {
                    what,
                    bytes: size,
                    source,
                })?;
                Ok(Self { address: copy.address(), _owner: Owner::Driver(copy) })
            }
        }
    }

    /// As [`new`](Self::new), for pages of a file that may be larger than memory and then cannot be registered: with
    /// `served`, host threads move the pages, and it need not be.
    ///
    /// # Errors
    /// [`Error::LargerThanHostMemory`] for a GPU that would have to read it by itself.
    pub fn paged(device: &Device, what: &'static str, bytes: &[u8], served: bool) -> Result<Self, Error> {
        if device.is_cpu() || can_be_pinned(what, bytes.len() as u64, total_memory_bytes(), served)? {
            return Self::new(device, what, bytes);
        }
        Ok(Self { address: bytes.as_ptr().expose_provenance() as u64, _owner: Owner::Caller })
    }

    /// Address for kernels; 0 if empty.
    pub fn address(&self) -> u64 {
        self.address
    }
}

/// Whether so many bytes can be pinned; an error if they cannot and have to be.
fn can_be_pinned(what: &'static str, bytes: u64, memory_bytes: u64, served: bool) -> Result<bool, Error> {
    match bytes <= memory_bytes {
        true => Ok(true),
        false if served => Ok(false),
        false => Err(Error::LargerThanHostMemory { what, bytes, memory_bytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_larger_than_memory_is_left_to_host_threads_or_refused_with_both_sizes() {
        assert!(matches!(can_be_pinned("column indices", 1 << 30, 1 << 30, false), Ok(true)));
        assert!(matches!(can_be_pinned("column indices", 3 << 30, 2 << 30, true), Ok(false)));
        let refused =
            can_be_pinned("column indices", 3 << 30, 2 << 30, false).expect_err("larger").to_string();
        assert!(refused.contains("3.0 GiB") && refused.contains("2.0 GiB"), "{refused}");
    }
}
