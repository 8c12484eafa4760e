use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::MmapMut;
use rayon::prelude::*;

use crate::error::Error;
use crate::memory::anonymous;

/// A read-only array in host memory, shared and cheap to clone, whoever owns its bytes: a `Vec`, a mapped file, an
/// embedder's own matrix.
///
/// ```
/// use gpuvm_engine::graph::HostArray;
/// let column_indices: HostArray<u32> = vec![1, 2, 0].into();
/// assert_eq!(column_indices[1], 2);
/// ```
pub struct HostArray<T: 'static> {
    owner: Arc<dyn AsRef<[T]> + Send + Sync>,
}

impl<T> HostArray<T> {
    /// The array that `owner` gives, which must be the same one at every call of `as_ref`.
    pub fn from_owner(owner: impl AsRef<[T]> + Send + Sync + 'static) -> Self {
        Self { owner: Arc::new(owner) }
    }

    /// The elements.
    pub fn as_slice(&self) -> &[T] {
        (*self.owner).as_ref()
    }

    /// Bytes of the elements.
    pub fn size_bytes(&self) -> u64 {
        size_of_val(self.as_slice()) as u64
    }
}

/// Anonymous memory seen as elements.
struct Mapped<T> {
    map: MmapMut,
    elements: PhantomData<T>,
}

impl<T: Pod> AsRef<[T]> for Mapped<T> {
    fn as_ref(&self) -> &[T] {
        bytemuck::cast_slice(&self.map)
    }
}

impl<T: Pod + Send + Sync> HostArray<T> {
    /// `len` elements, number i being `element(i)`, made by all cores in memory of large pages: the fastest to pin, and
    /// aligned so that pages cross the link in whole lines.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn from_fn(len: u64, element: impl Fn(u64) -> T + Sync) -> Result<Self, Error> {
        const BLOCK_BYTES: usize = 1 << 20;
        let bytes = len.saturating_mul(size_of::<T>() as u64);
        if bytes == 0 {
            return Ok(Self::from_owner((0..len).map(element).collect::<Vec<_>>()));
        }
        let out_of_memory = || Error::OutOfMemory { what: "an array", bytes };
        let size = usize::try_from(bytes).map_err(|_| out_of_memory())?;
        let mut map = anonymous(size).map_err(|_| out_of_memory())?;
        let block = (BLOCK_BYTES / size_of::<T>()).max(1);
        bytemuck::cast_slice_mut::<u8, T>(&mut map).par_chunks_mut(block).enumerate().for_each(
            |(at, chunk)| {
                for (i, place) in chunk.iter_mut().enumerate() {
                    *place = element((at * block + i) as u64);
                }
            },
        );
        Ok(Self::from_map(map))
    }

    /// The elements that anonymous memory holds, from its first byte on.
    pub(crate) fn from_map(map: MmapMut) -> Self {
        Self::from_owner(Mapped { map, elements: PhantomData })
    }
}

/// An array in the making: zeros in memory of large pages, to be filled by many threads, which also take the pages.
///
/// ```
/// use gpuvm_engine::graph::{HostArray, HostBuffer};
/// let mut buffer = HostBuffer::<u32>::zeroed(3)?;
/// buffer.copy_from_slice(&[1, 2, 0]);
/// assert_eq!(HostArray::from(buffer).as_slice(), [1, 2, 0]);
/// # Ok::<(), gpuvm_engine::Error>(())
/// ```
pub struct HostBuffer<T> {
    memory: BufferMemory<T>,
}

enum BufferMemory<T> {
    /// Less than a large page.
    Vec(Vec<T>),
    Mapped(Mapped<T>),
}

impl<T: Pod> HostBuffer<T> {
    /// `len` zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn zeroed(len: usize) -> Result<Self, Error> {
        const LARGE_PAGE: usize = 2 << 20;
        let bytes = len.saturating_mul(size_of::<T>());
        if bytes < LARGE_PAGE {
            return Ok(Self { memory: BufferMemory::Vec(vec![T::zeroed(); len]) });
        }
        let out_of_memory = |_| Error::OutOfMemory { what: "an array", bytes: bytes as u64 };
        let map = anonymous(bytes).map_err(out_of_memory)?;
        Ok(Self { memory: BufferMemory::Mapped(Mapped { map, elements: PhantomData }) })
    }

    /// Leaves the first `len` elements, in memory of that size.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.memory = BufferMemory::Vec(self[..len].to_vec());
        }
    }
}

impl<T: Pod> Deref for HostBuffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match &self.memory {
            BufferMemory::Vec(elements) => elements,
            BufferMemory::Mapped(mapped) => mapped.as_ref(),
        }
    }
}

impl<T: Pod> DerefMut for HostBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.memory {
            BufferMemory::Vec(elements) => elements,
            BufferMemory::Mapped(mapped) => bytemuck::cast_slice_mut(&mut mapped.map),
        }
    }
}

impl<T: Pod + Send + Sync> From<HostBuffer<T>> for HostArray<T> {
    fn from(buffer: HostBuffer<T>) -> Self {
        match buffer.memory {
            BufferMemory::Vec(elements) => elements.into(),
            BufferMemory::Mapped(mapped) => Self::from_owner(mapped),
        }
    }
}

impl<T> Clone for HostArray<T> {
    fn clone(&self) -> Self {
        Self { owner: Arc::clone(&self.owner) }
    }
}

impl<T> AsRef<[T]> for HostArray<T> {
    fn as_ref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T> Deref for HostArray<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T: Send + Sync> From<Vec<T>> for HostArray<T> {
    fn from(elements: Vec<T>) -> Self {
        Self::from_owner(elements)
    }
}

impl<T> fmt::Debug for HostArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} x {}]", self.len(), std::any::type_name::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_from_a_function_holds_its_values() {
        let squares = HostArray::from_fn(300_000, |i| i * i).expect("2.4 MB");
        assert!(squares.iter().zip(0..).all(|(&square, i)| square == i * i));
        assert_eq!(squares.len(), 300_000);
        assert!(HostArray::<u32>::from_fn(0, |_| 1).expect("nothing").is_empty());
        let refused = HostArray::from_fn(1 << 60, |i| i).expect_err("8 EiB");
        assert!(matches!(refused, Error::OutOfMemory { .. }));
    }

    #[test]
    fn buffer_becomes_the_array_of_what_is_left_of_it() {
        for len in [0, 3, 1 << 20] {
            let mut buffer = HostBuffer::<u32>::zeroed(len).expect("at most 4 MiB");
            assert!(buffer.len() == len && buffer.iter().all(|&element| element == 0));
            buffer.iter_mut().zip(0..).for_each(|(element, i)| *element = i * 7);
            buffer.truncate(len / 2 + 1);
            let left: Vec<u32> = (0..len.min(len / 2 + 1) as u32).map(|i| i * 7).collect();
            assert_eq!(HostArray::from(buffer).as_slice(), left);
        }
        assert_eq!(HostBuffer::<()>::zeroed(5).expect("no bytes").len(), 5);
        assert!(matches!(HostBuffer::<u64>::zeroed(1 << 57), Err(Error::OutOfMemory { .. })));
    }
}
