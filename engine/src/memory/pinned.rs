use memmap2::MmapMut;
use rayon::prelude::*;

use super::device::anonymous;
use crate::device::{Device, HostPin};
use crate::error::Error;

/// An array in host memory that kernels read where it lies.
///
/// The CPU device reads any memory. A GPU reads memory that is registered with its driver: mapped files and large
/// arrays as they are; what cannot be registered (arrays that share pages with others) is copied to pages of its own,
/// and so is what kernels could not copy by 16 bytes.
#[derive(Debug)]
pub(crate) struct PinnedArray {
    address: u64,
    // Unregistered first, freed then.
    _pin: Option<HostPin>,
    _copy: Option<MmapMut>,
}

/// `fetch_page` in `kernels/cuda/fault.cuh` loads this many at a time, from addresses that are multiples of it.
const FETCH_BYTES: u64 = 16;

/// Smaller arrays may share their pages with others, which can be registered once only.
const OWN_PAGES_BYTES: usize = 1 << 20;

impl PinnedArray {
    /// `bytes`, called `what` in errors. The caller keeps them in place as long as this lives.
    pub fn new(device: &Device, what: &'static str, bytes: &[u8]) -> Result<Self, Error> {
        let in_place = bytes.as_ptr().expose_provenance() as u64;
        let Device::Cuda(cuda) = device else {
            return Ok(Self {
                address: if bytes.is_empty() { 0 } else { in_place },
                _pin: None,
                _copy: None,
            });
        };
        if bytes.is_empty() {
            return Ok(Self { address: 0, _pin: None, _copy: None });
        }
        if bytes.len() >= OWN_PAGES_BYTES && in_place.is_multiple_of(FETCH_BYTES) {
            match HostPin::new(cuda, bytes) {
                Ok(pin) => return Ok(Self { address: pin.address(), _pin: Some(pin), _copy: None }),
                Err(error) => {
                    tracing::warn!(%error, "{what} cannot be registered as they are and are copied")
                }
            }
        }
        let size = bytes.len() as u64;
        let mut copy = anonymous(bytes.len()).map_err(|_| Error::OutOfMemory { what, bytes: size })?;
        copy.par_chunks_mut(1 << 20)
            .zip(bytes.par_chunks(1 << 20))
            .for_each(|(to, from)| to.copy_from_slice(from));
        let pin = HostPin::new(cuda, &copy).map_err(|source| Error::Pin { what, bytes: size, source })?;
        Ok(Self { address: pin.address(), _pin: Some(pin), _copy: Some(copy) })
    }

    /// Address for kernels; 0 if empty.
    pub fn address(&self) -> u64 {
        self.address
    }
}
