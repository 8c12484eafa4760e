//! Memory that kernels and NICs share while a kernel runs, and the ways in which a host thread moves bytes there.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::{CudaStream, sys};
use memmap2::MmapMut;

use super::Device;
use super::cuda::{CudaDevice, CudaMemory, PinnedBytes, driver_error};
use crate::error::Error;
use crate::memory::anonymous;

/// Zero bytes that a kernel and someone else use at the same time. Who may touch which of them when is a matter of protocol;
/// words that both sides touch at any time are atomics.
#[derive(Debug)]
pub(crate) struct SharedBytes {
    place: Place,
    len: u64,
}

#[derive(Debug)]
enum Place {
    /// Of the CPU device.
    Memory(MmapMut),
    /// In host memory, for a GPU.
    Pinned(PinnedBytes),
    /// In a GPU's memory.
    Gpu(CudaMemory),
}

impl SharedBytes {
    /// In device memory: a kernel reaches it fastest.
    pub fn on_device(device: &Device, what: &'static str, len: u64) -> Result<Self, Error> {
        match device {
            Device::Cpu(_) => Self::on_host(device, what, len),
            Device::Cuda(cuda) => {
                let memory = CudaMemory::zeroed(cuda, what, len)?;
                // Zeroed on the stream of kernels, written to on another: this waits for the first.
                memory.read(0, &mut [0])?;
                Ok(Self { place: Place::Gpu(memory), len })
            }
        }
    }

    /// In host memory: a host thread reaches it fastest.
    pub fn on_host(device: &Device, what: &'static str, len: u64) -> Result<Self, Error> {
        let out_of_memory = || Error::OutOfMemory { what, bytes: len };
        let size = usize::try_from(len).map_err(|_| out_of_memory())?;
        let place = match device {
            Device::Cpu(_) => Place::Memory(anonymous(size).map_err(|_| out_of_memory())?),
            Device::Cuda(cuda) => {
                let pinned = PinnedBytes::copied(cuda, &vec![0; size]);
                Place::Pinned(pinned.map_err(|source| Error::Pin { what, bytes: len, source })?)
            }
        };
        Ok(Self { place, len })
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Address for kernels.
    pub fn address(&self) -> u64 {
        match &self.place {
            Place::Memory(map) => map.as_ptr().expose_provenance() as u64,
            Place::Pinned(pinned) => pinned.address(),
            Place::Gpu(memory) => memory.address(),
        }
    }

    /// Where `len` bytes from `at` on are for this process; they are not in a GPU's memory.
    fn host(&self, at: u64, len: u64) -> *mut u8 {
        assert!(at <= self.len && len <= self.len - at, "bytes {at} and on are in the memory");
        let base = match &self.place {
            Place::Memory(map) => std::ptr::with_exposed_provenance_mut(map.as_ptr().expose_provenance()),
            Place::Pinned(pinned) => pinned.host(),
            Place::Gpu(_) => panic!("a GPU's memory is written through the driver"),
        };
        // SAFETY: `at` is in the allocation, as was asserted.
        unsafe { base.add(at as usize) }
    }

    /// The word at `at`, a multiple of 4, which both sides use.
    pub fn atomic(&self, at: u64) -> &AtomicU32 {
        assert!(at.is_multiple_of(4), "a word");
        // SAFETY: four bytes of an allocation that lives as long as `self`, aligned; kernels use atomics for it, too.
        unsafe { AtomicU32::from_ptr(self.host(at, 4).cast()) }
    }

    /// The 64 bytes at `at`, which nobody writes now.
    pub fn read_entry(&self, at: u64) -> [u8; 64] {
        // SAFETY: in the allocation, as `host` asserts; any bytes are valid; the queues' protocol keeps writers away.
        unsafe { self.host(at, 64).cast::<[u8; 64]>().read_unaligned() }
    }

    /// Writes bytes that nobody else touches now.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        if let Place::Gpu(memory) = &self.place {
            return memory.write_beside_a_kernel(at, bytes);
        }
        // SAFETY: in the allocation, as `host` asserts; the caller's word, and the queues' protocol, keep others away.
        unsafe { self.host(at, bytes.len() as u64).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Writes a word that a running kernel polls; what was written before is visible to it then.
    pub fn write_word(&self, at: u64, word: u32) -> Result<(), Error> {
        match &self.place {
            Place::Gpu(memory) => memory.write_beside_a_kernel(at, &word.to_ne_bytes()),
            Place::Memory(_) | Place::Pinned(_) => {
                self.atomic(at).store(word, Ordering::Release);
                Ok(())
            }
        }
    }

    /// Sets `len` bytes that nobody else touches now.
    pub fn fill(&self, at: u64, len: u64, byte: u8) -> Result<(), Error> {
        self.write(at, &vec![byte; len as usize])
    }
}

/// How a host thread moves bytes from host memory to frames.
#[derive(Debug)]
pub(crate) enum Mover {
    /// On the CPU device: by itself.
    Copies,
    /// On a GPU: the driver's copies, one after the other on a stream.
    Stream { device: Arc<CudaDevice>, stream: Arc<CudaStream> },
}

impl Mover {
    /// A mover, and on a GPU a writer that writes behind it.
    pub fn new(device: &Device) -> Result<(Self, Option<StreamWriter>), Error> {
        let Device::Cuda(cuda) = device else { return Ok((Self::Copies, None)) };
        let stream = cuda.context.new_stream().map_err(driver_error("create a stream"))?;
        let writer = StreamWriter { device: Arc::clone(cuda), stream: Arc::clone(&stream) };
        Ok((Self::Stream { device: Arc::clone(cuda), stream }, Some(writer)))
    }

    /// Moves `len` bytes; on a GPU they are there when the stream says so.
    ///
    /// # Safety
    /// Both ranges are memory of this process or of the GPU, to be read and to be written, until the bytes are moved, and
    /// nobody else touches them.
    pub unsafe fn move_bytes(&self, from: u64, to: u64, len: u32) -> Result<(), Error> {
        match self {
            Self::Copies => {
                let from = std::ptr::with_exposed_provenance::<u8>(from as usize);
                let to = std::ptr::with_exposed_provenance_mut::<u8>(to as usize);
                // SAFETY: the caller's promise.
                unsafe { to.copy_from_nonoverlapping(from, len as usize) };
                Ok(())
            }
            Self::Stream { device, stream } => {
                device.context.bind_to_thread().map_err(driver_error("use the device"))?;
                let host = std::ptr::with_exposed_provenance::<c_void>(from as usize);
                // SAFETY: the caller's promise; registered host memory has the same address for both sides.
                unsafe { sys::cuMemcpyHtoDAsync_v2(to, host, len as usize, stream.cu_stream()) }
                    .result()
                    .map_err(driver_error("copy a page"))
            }
        }
    }
}

/// Writes to a GPU's memory behind what is in a stream.
#[derive(Debug)]
pub(crate) struct StreamWriter {
    device: Arc<CudaDevice>,
    stream: Arc<CudaStream>,
}

impl StreamWriter {
    /// Writes `bytes` at a device address.
    ///
    /// # Safety
    /// The range is the GPU's memory, and nobody else touches it meanwhile.
    pub unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.device.context.bind_to_thread().map_err(driver_error("use the device"))?;
        // SAFETY: the caller's promise. Bytes in pageable memory are taken over by the driver before it returns.
        unsafe {
            sys::cuMemcpyHtoDAsync_v2(address, bytes.as_ptr().cast(), bytes.len(), self.stream.cu_stream())
        }
        .result()
        .map_err(driver_error("write a completion"))
    }

    /// Writes a word that a running kernel polls, by way of the word at `at` of `words`: a copy as those of the data before it,
    /// which it follows.
    ///
    /// # Safety
    /// `address` is that of a word of the GPU's memory. `words` lives, and nobody else writes its word at `at`, until the copy
    /// is done.
    pub unsafe fn write_word(
        &self,
        address: u64,
        word: u32,
        words: &SharedBytes,
        at: u64,
    ) -> Result<(), Error> {
        self.device.context.bind_to_thread().map_err(driver_error("use the device"))?;
        words.atomic(at).store(word, Ordering::Release);
        // SAFETY: the caller's promise; the source is pinned, or the driver takes it over before it returns.
        unsafe { sys::cuMemcpyHtoDAsync_v2(address, words.host(at, 4).cast(), 4, self.stream.cu_stream()) }
            .result()
            .map_err(driver_error("write a completion"))
    }
}
