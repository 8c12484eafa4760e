//! A file's bytes in memory: mapped, or read if it is no regular file.
//!
//! A mapping costs no copy and no memory of its own, since the pages belong to the page cache. What has been read is
//! given back by [`FileBytes::forget`], so that parsing a file larger than memory does not make the process look (and
//! be treated by the kernel) as if it held all of it.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::{Advice, Mmap};

use crate::error::LoadError;
use crate::memory;

/// The bytes of a file.
#[derive(Debug)]
pub(crate) enum FileBytes {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl FileBytes {
    /// Maps a regular file; reads anything else (a pipe) to its end.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let open_error = |source| LoadError::Open { path: path.to_owned(), source };
        // Asked before opening, as some systems do not open a directory at all.
        let metadata = std::fs::metadata(path).map_err(open_error)?;
        if metadata.is_dir() {
            return Err(LoadError::Directory { path: path.to_owned() });
        }
        let mut file = File::open(path).map_err(open_error)?;
        let bytes = if metadata.is_file() {
            if metadata.len() == 0 {
                return Err(LoadError::Empty { path: path.to_owned() });
            }
            Self::Mapped(map(&file).map_err(open_error)?)
        } else {
            let mut bytes = Vec::new();
            memory::read_to_end(&mut file, &mut bytes, path, "this file", None)?;
            Self::Read(bytes)
        };
        if bytes.is_empty() { Err(LoadError::Empty { path: path.to_owned() }) } else { Ok(bytes) }
    }

    /// Maps a file that is open, as one without a name is.
    pub(crate) fn of(file: &File) -> std::io::Result<Self> {
        map(file).map(Self::Mapped)
    }

    /// Says that the file will be read from its beginning to its end.
    pub(crate) fn advise_sequential(&self) {
        if let Self::Mapped(map) = self {
            // Advice that is not taken costs time, not correctness.
            let _ = map.advise(Advice::Sequential);
        }
    }

    /// Takes the whole pages inside `range` out of the process; they come back from the page cache when read again.
    pub(crate) fn forget(&self, range: Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Self::Mapped(map) = self {
            const PAGE: usize = 4096;
            // A fault brings in what lies around it, up to a large page of the cache, also of a range that was given back
            // already. Whoever reads there loses some pages and faults them in again.
            const AROUND: usize = 2 << 20;
            let begin = range.start.saturating_sub(AROUND).next_multiple_of(PAGE);
            let end = (range.end + AROUND).min(map.len()) / PAGE * PAGE;
            if begin < end {
                // SAFETY: the mapping is shared and read-only, so its pages hold nothing but the file's bytes, and
                // dropping them only means that the next read takes them from the page cache again.
                let _ = unsafe {
                    map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, begin, end - begin)
                };
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }
}

fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the file is opened for reading and nothing here writes to it. As with every mapped file, another program
    // must not shorten or change it meanwhile; parsers check bounds against the mapped length and never trust a byte
    // that they read before.
    unsafe { Mmap::map(file) }
}

impl Deref for FileBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }
}
