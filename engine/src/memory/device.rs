use std::marker::PhantomData;

use bytemuck::{AnyBitPattern, NoUninit};
use memmap2::MmapMut;
use rayon::prelude::*;

use crate::error::Error;

/// An array in device memory that kernels write. On the CPU device: anonymous memory, zero and untouched until used,
/// so that frames nobody fills cost nothing.
#[derive(Debug)]
pub(crate) struct DeviceArray<T> {
    map: Option<MmapMut>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: AnyBitPattern + NoUninit + Send + Sync> DeviceArray<T> {
    /// `len` zeros, called `what` in the error if there is no memory for them.
    pub fn zeroed(what: &'static str, len: u64) -> Result<Self, Error> {
        let bytes = len.saturating_mul(size_of::<T>() as u64);
        if bytes == 0 {
            return Ok(Self { map: None, len: 0, elements: PhantomData });
        }
        let out_of_memory = || Error::OutOfMemory { what, bytes };
        let size = usize::try_from(bytes).map_err(|_| out_of_memory())?;
        let map = MmapMut::map_anon(size).map_err(|_| out_of_memory())?;
        #[cfg(target_os = "linux")]
        if size >= 2 << 20 {
            // Random accesses to vertex state miss the TLB with small pages. Advice: it may be refused.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Ok(Self { map: Some(map), len: len as usize, elements: PhantomData })
    }

    /// A copy of `elements`, made in parallel.
    pub fn copied(what: &'static str, elements: &[T]) -> Result<Self, Error> {
        const BLOCK: usize = 1 << 20;
        let mut array = Self::zeroed(what, elements.len() as u64)?;
        array
            .as_mut_slice()
            .par_chunks_mut(BLOCK)
            .zip(elements.par_chunks(BLOCK))
            .for_each(|(to, from)| to.copy_from_slice(from));
        Ok(array)
    }

    /// Address for kernels; 0 if empty.
    pub fn address(&self) -> u64 {
        self.map.as_ref().map_or(0, |map| map.as_ptr().expose_provenance() as u64)
    }

    /// The elements, between kernels.
    pub fn as_slice(&self) -> &[T] {
        self.map.as_ref().map_or(&[], |map| bytemuck::cast_slice(&map[..self.len * size_of::<T>()]))
    }

    /// The elements, between kernels, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        let bytes = self.len * size_of::<T>();
        self.map.as_mut().map_or(&mut [], |map| bytemuck::cast_slice_mut(&mut map[..bytes]))
    }

    /// Sets every element, in parallel.
    pub fn fill(&mut self, value: T) {
        self.as_mut_slice().par_chunks_mut(1 << 18).for_each(|block| block.fill(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_array_holds_the_elements() {
        let array = DeviceArray::copied("numbers", &[3_u32, 1, 2]).expect("12 bytes");
        assert_eq!(array.as_slice(), [3, 1, 2]);
        assert_ne!(array.address(), 0);
    }

    #[test]
    fn array_too_large_for_the_machine_is_an_error() {
        let refused = DeviceArray::<u64>::zeroed("levels", 1 << 60).expect_err("8 EiB");
        assert!(matches!(refused, Error::OutOfMemory { what: "levels", .. }));
    }

    #[test]
    fn empty_array_has_no_address() {
        assert_eq!(DeviceArray::<u32>::zeroed("nothing", 0).expect("no bytes").address(), 0);
    }
}
