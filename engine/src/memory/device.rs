use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};
use memmap2::MmapMut;
use rayon::prelude::*;

use crate::device::{CudaDevice, CudaMemory, Device};
use crate::error::Error;

/// An array in device memory that kernels write. On the CPU device: anonymous memory, zero and untouched until used,
/// so that frames nobody fills cost nothing. The host reads and writes it between kernels.
#[derive(Debug)]
pub struct DeviceArray<T> {
    memory: Memory,
    len: usize,
    elements: PhantomData<T>,
}

#[derive(Debug)]
enum Memory {
    Empty,
    Host(MmapMut),
    Cuda(CudaMemory),
}

/// Elements that one thread copies or fills.
const BLOCK: usize = 1 << 20;

impl<T: AnyBitPattern + NoUninit + Send + Sync> DeviceArray<T> {
    /// `len` zeros, called `what` in the error if there is no memory for them.
    pub(crate) fn zeroed(device: &Device, what: &'static str, len: u64) -> Result<Self, Error> {
        let bytes = len.saturating_mul(size_of::<T>() as u64);
        let out_of_memory = || Error::OutOfMemory { what, bytes };
        let size = usize::try_from(bytes).map_err(|_| out_of_memory())?;
        let memory = match device {
            _ if bytes == 0 => Memory::Empty,
            Device::Cpu(_) => Memory::Host(anonymous(size).map_err(|_| out_of_memory())?),
            Device::Cuda(cuda) => Memory::Cuda(CudaMemory::zeroed(cuda, what, bytes)?),
        };
        Ok(Self { memory, len: len as usize, elements: PhantomData })
    }

    /// The same where RDMA devices reach it: of a GPU an allocation that they can be shown, or, if they cannot, host memory.
    #[cfg(feature = "rdma")]
    pub(crate) fn for_rdma_devices(
        device: &Device,
        what: &'static str,
        len: u64,
        in_host_memory: bool,
    ) -> Result<Self, Error> {
        let bytes = len.saturating_mul(size_of::<T>() as u64);
        let memory = match device {
            Device::Cuda(cuda) if bytes > 0 && in_host_memory => {
                CudaMemory::in_host_memory(cuda, what, bytes)?
            }
            Device::Cuda(cuda) if bytes > 0 => CudaMemory::for_other_devices(cuda, what, bytes)?,
            _ => return Self::zeroed(device, what, len),
        };
        Ok(Self { memory: Memory::Cuda(memory), len: len as usize, elements: PhantomData })
    }

    /// A copy of `elements`.
    pub(crate) fn copied(device: &Device, what: &'static str, elements: &[T]) -> Result<Self, Error> {
        let mut array = Self::zeroed(device, what, elements.len() as u64)?;
        array.write(0, elements)?;
        Ok(array)
    }

    /// `elements` in the driver's unified memory, on the host's side at first; `read_mostly` lets both sides keep copies.
    pub(crate) fn managed(
        device: &Arc<CudaDevice>,
        elements: &[T],
        read_mostly: bool,
    ) -> Result<Self, Error> {
        let memory = match elements {
            [] => Memory::Empty,
            _ => Memory::Cuda(CudaMemory::managed(device, bytemuck::cast_slice(elements), read_mostly)?),
        };
        Ok(Self { memory, len: elements.len(), elements: PhantomData })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address for kernels; 0 if empty.
    pub fn address(&self) -> u64 {
        match &self.memory {
            Memory::Empty => 0,
            Memory::Host(map) => map.as_ptr().expose_provenance() as u64,
            Memory::Cuda(memory) => memory.address(),
        }
    }

    /// Whether kernels on `device` can use it.
    pub(crate) fn is_on(&self, device: &Device) -> bool {
        match (&self.memory, device) {
            (Memory::Empty, _) | (Memory::Host(_), Device::Cpu(_)) => true,
            (Memory::Cuda(memory), Device::Cuda(cuda)) => memory.is_on(cuda),
            _ => false,
        }
    }

    /// The elements, where the host has them: on the CPU device.
    pub(crate) fn on_host(&self) -> Option<&[T]> {
        match &self.memory {
            Memory::Empty => Some(&[]),
            Memory::Host(map) => Some(bytemuck::cast_slice(&map[..self.len * size_of::<T>()])),
            Memory::Cuda(_) => None,
        }
    }

    /// The bytes on the GPU, if there are any.
    pub(super) fn cuda(&self) -> Option<&CudaMemory> {
        match &self.memory {
            Memory::Cuda(memory) => Some(memory),
            Memory::Empty | Memory::Host(_) => None,
        }
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// [`Error::Cuda`] if the GPU fails.
    pub fn fill(&mut self, byte: u8) -> Result<(), Error> {
        match &mut self.memory {
            Memory::Empty => {}
            Memory::Host(map) => map.par_chunks_mut(BLOCK).for_each(|block| block.fill(byte)),
            Memory::Cuda(memory) => memory.fill(byte, (self.len * size_of::<T>()) as u64)?,
        }
        Ok(())
    }

    /// Writes `elements` from number `at` on.
    ///
    /// # Errors
    /// [`Error::Cuda`] if the GPU fails.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&mut self, at: usize, elements: &[T]) -> Result<(), Error> {
        assert!(at <= self.len && elements.len() <= self.len - at, "elements {at} and on fit the array");
        let begin = at * size_of::<T>();
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        match &mut self.memory {
            Memory::Empty => {}
            Memory::Host(map) => map[begin..begin + bytes.len()]
                .par_chunks_mut(BLOCK)
                .zip(bytes.par_chunks(BLOCK))
                .for_each(|(to, from)| to.copy_from_slice(from)),
            Memory::Cuda(memory) => memory.write(begin as u64, bytes)?,
        }
        Ok(())
    }

    /// `len` elements from number `at` on.
    ///
    /// # Errors
    /// [`Error::Cuda`] if the GPU fails.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn read(&self, at: usize, len: usize) -> Result<Vec<T>, Error>
    where
        T: Zeroable,
    {
        assert!(at <= self.len && len <= self.len - at, "elements {at} and on are in the array");
        let begin = at * size_of::<T>();
        match &self.memory {
            Memory::Empty => Ok(Vec::new()),
            Memory::Host(map) => Ok(bytemuck::cast_slice(&map[begin..begin + len * size_of::<T>()]).to_vec()),
            Memory::Cuda(memory) => {
                let mut elements = vec![T::zeroed(); len];
                memory.read(begin as u64, bytemuck::cast_slice_mut(&mut elements))?;
                Ok(elements)
            }
        }
    }

    /// All elements.
    ///
    /// # Errors
    /// [`Error::Cuda`] if the GPU fails.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        self.read(0, self.len)
    }
}

/// Zero pages; large ones where there are many.
pub(crate) fn anonymous(size: usize) -> std::io::Result<MmapMut> {
    let map = MmapMut::map_anon(size)?;
    #[cfg(target_os = "linux")]
    if size >= 2 << 20 {
        // Random accesses to vertex state miss the TLB with small pages. Advice: it may be refused.
        let _ = map.advise(memmap2::Advice::HugePage);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineConfig;

    fn cpu() -> Device {
        Device::new(&EngineConfig::default()).expect("threads")
    }

    #[test]
    fn copied_array_holds_the_elements() {
        let mut array = DeviceArray::copied(&cpu(), "numbers", &[3_u32, 1, 2]).expect("12 bytes");
        assert_eq!(array.to_vec().expect("memory"), [3, 1, 2]);
        assert_ne!(array.address(), 0);
        array.write(1, &[7]).expect("memory");
        assert_eq!(array.read(1, 2).expect("memory"), [7, 2]);
        array.fill(0xFF).expect("memory");
        assert_eq!(array.to_vec().expect("memory"), [u32::MAX; 3]);
    }

    #[test]
    fn array_too_large_for_the_machine_is_an_error() {
        let refused = DeviceArray::<u64>::zeroed(&cpu(), "levels", 1 << 60).expect_err("8 EiB");
        assert!(matches!(refused, Error::OutOfMemory { what: "levels", .. }));
    }

    #[test]
    fn empty_array_has_no_address() {
        assert_eq!(DeviceArray::<u32>::zeroed(&cpu(), "nothing", 0).expect("no bytes").address(), 0);
    }
}
