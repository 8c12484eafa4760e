use memmap2::MmapMut;

use super::device::anonymous;
use crate::device::{Device, HostPin};
use crate::error::Error;

/// Bytes in host memory that kernels write, for answers that are larger than the device's memory. The host reads and writes
/// them between kernels.
#[derive(Debug)]
pub(crate) struct HostWritten {
    // Unregistered before the bytes are freed.
    pin: Option<HostPin>,
    bytes: MmapMut,
}

impl HostWritten {
    /// `len` zeros, called `what` in errors.
    pub fn new(device: &Device, what: &'static str, len: u64) -> Result<Self, Error> {
        let out_of_memory = || Error::OutOfMemory { what, bytes: len };
        let size = usize::try_from(len).map_err(|_| out_of_memory())?;
        let bytes = anonymous(size.max(1)).map_err(|_| out_of_memory())?;
        let pin = match device {
            Device::Cpu(_) => None,
            Device::Cuda(cuda) => {
                let pinned = HostPin::new(cuda, &bytes);
                Some(pinned.map_err(|source| Error::Pin { what, bytes: len, source })?)
            }
        };
        Ok(Self { pin, bytes })
    }

    /// Address for kernels.
    pub fn address(&self) -> u64 {
        match &self.pin {
            Some(pin) => pin.address(),
            None => self.bytes.as_ptr().expose_provenance() as u64,
        }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The bytes, which no kernel writes any more.
    pub fn into_bytes(self) -> MmapMut {
        self.bytes
    }
}
