//! Large arrays: zeroed, in pages of 2 MiB where the system has them, and given back to it at once when dropped.

use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use memmap2::MmapMut;

use crate::error::GenerateError;

/// A zeroed array in anonymous memory of its own.
///
/// The generators visit arrays of gigabytes in random order: with pages of 4 KiB every visit would miss the TLB, and
/// touching them for the first time would cost a fault for each.
#[derive(Debug)]
pub(crate) struct LargeArray<T> {
    memory: MmapMut,
    length: usize,
    elements: PhantomData<T>,
}

impl<T: Pod> LargeArray<T> {
    /// `length` zeroes, for `what`. Memory is only reserved: a page is taken when it is first written.
    ///
    /// # Errors
    /// [`GenerateError::Reserve`] if the system refuses.
    pub fn zeroed(length: u64, what: &'static str) -> Result<Self, GenerateError> {
        let num_bytes = length.saturating_mul(size_of::<T>() as u64);
        let refused = |source| GenerateError::Reserve { what, num_bytes, source };
        // More bytes than half the address space are no array, and a mapping holds at least one byte.
        let mapped = isize::try_from(num_bytes).map_err(|_| refused(io::ErrorKind::OutOfMemory.into()))?;
        let memory = MmapMut::map_anon(mapped.max(1) as usize).map_err(refused)?;
        // Where there are no huge pages all works as well, only slower.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        Ok(Self { memory, length: length as usize, elements: PhantomData })
    }
}

impl<T: Pod> Deref for LargeArray<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.memory[..self.length * size_of::<T>()])
    }
}

impl<T: Pod> DerefMut for LargeArray<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.memory[..self.length * size_of::<T>()])
    }
}

impl<T: Pod> AsRef<[T]> for LargeArray<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

/// Refuses a graph that needs more memory than is available.
pub(crate) fn check(needed_bytes: u64) -> Result<(), GenerateError> {
    let available_bytes = available_bytes();
    if needed_bytes > available_bytes {
        return Err(GenerateError::OutOfMemory { needed_bytes, available_bytes });
    }
    Ok(())
}

/// What may still be allocated, in the machine and in its control group; `u64::MAX` where nobody knows.
fn available_bytes() -> u64 {
    let Ok(mut system) = sysinfo::System::new() else {
        return u64::MAX;
    };
    system.refresh_memory_specifics(sysinfo::MemoryRefreshKind::nothing().with_ram());
    let machine = system.available_memory();
    system.cgroup_limits().map_or(machine, |group| machine.min(group.total_memory.saturating_sub(group.rss)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_is_zeroed_and_as_long_as_asked_for() {
        let mut array = LargeArray::<u64>::zeroed(3_000_000, "a test").expect("24 MB");
        assert_eq!(array.len(), 3_000_000);
        assert!(array.iter().all(|&x| x == 0));
        array[2_999_999] = 7;
        assert_eq!(array.last(), Some(&7));
    }

    #[test]
    fn array_without_elements_is_possible() {
        assert!(LargeArray::<u64>::zeroed(0, "a test").expect("nothing").is_empty());
    }

    #[test]
    fn array_larger_than_the_address_space_is_refused() {
        assert!(LargeArray::<u64>::zeroed(1 << 60, "a test").is_err());
        assert!(LargeArray::<u64>::zeroed(u64::MAX, "a test").is_err());
    }
}
