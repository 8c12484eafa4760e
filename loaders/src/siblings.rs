//! The other files of a graph that is in several.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::error::LoadError;
use crate::mmap::FileBytes;

/// Where other files are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Siblings<'a> {
    /// Beside the file.
    Disk,
    /// Among these.
    Memory(&'a [(PathBuf, Vec<u8>)]),
}

/// The bytes of another file.
pub(crate) enum SiblingBytes<'a> {
    File(FileBytes),
    Memory(&'a [u8]),
}

impl Deref for SiblingBytes<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::File(bytes) => bytes,
            Self::Memory(bytes) => bytes,
        }
    }
}

impl<'a> Siblings<'a> {
    /// Whether there is such a file.
    pub(crate) fn has(self, path: &Path) -> bool {
        match self {
            Self::Disk => path.is_file(),
            Self::Memory(files) => files.iter().any(|(name, _)| name == path),
        }
    }

    /// The bytes of a file, `None` if there is none.
    pub(crate) fn open(self, path: &Path) -> Result<Option<SiblingBytes<'a>>, LoadError> {
        match self {
            Self::Disk if !path.is_file() => Ok(None),
            Self::Disk => FileBytes::open(path).map(|bytes| Some(SiblingBytes::File(bytes))),
            Self::Memory(files) => {
                let found = files.iter().find(|(name, _)| name == path);
                Ok(found.map(|(_, bytes)| SiblingBytes::Memory(bytes)))
            }
        }
    }

    /// The bytes of a file that must be there.
    pub(crate) fn must_open(self, path: &Path, needed_by: &Path) -> Result<SiblingBytes<'a>, LoadError> {
        let missing = || LoadError::MissingSibling { path: needed_by.to_owned(), missing: path.to_owned() };
        self.open(path)?.ok_or_else(missing)
    }
}
