use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

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
