//! A file on its way: written beside its place under another name, synced and renamed when it is whole.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::NamedTempFile;

use crate::error::LoadError;

/// Where drafts are, for an end without [`Drop`].
static DRAFTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes every file that is not whole yet: for a program that ends at once, without the destructors that do this
/// otherwise.
pub fn discard_drafts() {
    for path in &*DRAFTS.lock().unwrap_or_else(PoisonError::into_inner) {
        let _ = std::fs::remove_file(path);
    }
}

/// A file that is not there until it is whole; dropped before, it leaves nothing.
#[derive(Debug)]
pub(crate) struct Draft {
    file: NamedTempFile,
    target: PathBuf,
}

impl Draft {
    pub(crate) fn create(target: &Path) -> Result<Self, LoadError> {
        let error = |source| LoadError::Write { path: target.to_owned(), source };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".gpuvm-").suffix(".gvg.part");
        #[cfg(unix)]
        {
            // As any new file, subject to the umask; a temporary file would be for its owner only.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder_of(target)).map_err(error)?;
        DRAFTS.lock().unwrap_or_else(PoisonError::into_inner).push(file.path().to_owned());
        Ok(Self { file, target: target.to_owned() })
    }

    pub(crate) fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Syncs the whole file and gives it its name.
    pub(crate) fn keep(self) -> Result<(), LoadError> {
        let Self { file, target } = self;
        let error = |source| LoadError::Write { path: target.clone(), source };
        file.as_file().sync_all().map_err(error)?;
        let draft = file.path().to_owned();
        file.persist(&target).map_err(|failed| error(failed.error))?;
        // What has its name must not be taken for a draft, should another one get that name.
        DRAFTS.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != draft);
        // The new name is on the disk only when its folder is; some file systems cannot say so, which is no failure.
        if let Ok(folder) = File::open(folder_of(&target)) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> Result<u64, LoadError> {
        let len: io::Result<u64> = self.file.as_file().metadata().map(|metadata| metadata.len());
        len.map_err(|source| LoadError::Write { path: self.target.clone(), source })
    }
}

/// The folder that a file lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
