//! What a file is wrapped in: gzip, bzip2, xz or zstd, tar or zip, and these in each other; looked for in the bytes, never in
//! the name.
//!
//! SuiteSparse ships the matrix as NAME/NAME.mtx in a .tar.gz, often beside other matrices (NAME_b.mtx, coordinates)
//! and texts. A compressed archive is read to its end, since its checksum stands there; only the matrix is kept.

mod compression;
mod members;

use std::borrow::Cow;
use std::io::{Cursor, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use tar::{Archive, EntryType};

use crate::error::LoadError;
use crate::memory;
use crate::mmap::FileBytes;
use crate::progress::Progress;
use compression::Compression;
use members::Members;

/// A graph file out of its wrapping.
pub(crate) struct Unwrapped<'a> {
    pub bytes: Cow<'a, [u8]>,
    /// Where the bytes begin in the file, if they are a part of it as it is.
    pub offset: Option<usize>,
    /// The name of the graph file itself, as far as its extension matters.
    pub name: PathBuf,
    /// `tar.gz of `, `gzip of `; empty if there is none.
    pub wrapping: String,
}

/// Wrappings in each other that are taken off; one more is left to be no known format.
const MOST_LAYERS: usize = 4;

/// Looks for wrappings and takes them off. `member` is the file of an archive that is asked for.
pub(crate) fn unwrap<'a>(
    bytes: &'a [u8],
    path: &Path,
    member: Option<&str>,
    progress: &dyn Progress,
) -> Result<Unwrapped<'a>, LoadError> {
    let mut unwrapped = Unwrapped {
        bytes: Cow::Borrowed(bytes),
        offset: Some(0),
        name: path.to_owned(),
        wrapping: String::new(),
    };
    let (mut member, mut layers) = (member, 0);
    while layers < MOST_LAYERS && peel(&mut unwrapped, path, &mut member, progress)? {
        layers += 1;
    }
    match member {
        Some(member) => Err(LoadError::MemberOfNothing { path: path.to_owned(), member: member.to_owned() }),
        None => Ok(unwrapped),
    }
}

/// The name of a compressed file without what says so.
fn name_unpacked(path: &Path) -> PathBuf {
    let packed = path.extension().and_then(|extension| extension.to_str());
    match packed.is_some_and(|extension| members::is_packed(&extension.to_ascii_lowercase())) {
        true => path.with_extension(""),
        false => path.to_owned(),
    }
}

/// A compressed file unpacked to the disk.
pub(crate) struct OnDisk {
    pub bytes: FileBytes,
    compression: Compression,
}

impl OnDisk {
    /// Looks for what is inside, as [`unwrap`] does from outside.
    pub(crate) fn unwrap<'a>(
        &'a self,
        path: &Path,
        member: Option<&str>,
        progress: &dyn Progress,
    ) -> Result<Unwrapped<'a>, LoadError> {
        let name = name_unpacked(path);
        let mut inside = unwrap(&self.bytes, &name, member, progress)?;
        inside.wrapping = match inside.wrapping.strip_prefix("tar of ") {
            Some(rest) => format!("{}{rest}", self.compression.of_tar()),
            None => format!("{}{}", self.compression.of_file(), inside.wrapping),
        };
        Ok(inside)
    }
}

/// Unpacks a compressed file to one without a name in `folder`; `None` if it is not compressed.
pub(crate) fn unpack_to_disk(
    bytes: &[u8],
    path: &Path,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<Option<OnDisk>, LoadError> {
    let Some(compression) = Compression::of(bytes) else { return Ok(None) };
    let cannot_write = |source| LoadError::Write { path: folder.to_owned(), source };
    let unpack = |source| LoadError::Unpack { path: path.to_owned(), what: compression.what(), source };
    let mut unpacked = tempfile::tempfile_in(folder).map_err(cannot_write)?;
    let mut decoder = compression.decoder(bytes, progress).map_err(unpack)?;
    let mut buffer = vec![0; 1 << 20];
    progress.begin("unpack", bytes.len() as u64);
    let mut is_empty = true;
    loop {
        if progress.is_cancelled() {
            return Err(LoadError::Interrupted);
        }
        let len = decoder.read(&mut buffer).map_err(unpack)?;
        if len == 0 {
            break;
        }
        is_empty = false;
        unpacked.write_all(&buffer[..len]).map_err(cannot_write)?;
    }
    progress.end();
    if is_empty {
        return Err(LoadError::Empty { path: path.to_owned() });
    }
    let bytes = FileBytes::of(&unpacked).map_err(cannot_write)?;
    Ok(Some(OnDisk { bytes, compression }))
}

/// The beginning of what a file holds, unpacked so far only; `None` where that cannot be told without the rest. The flag
/// tells whether it may not be all of it.
pub(crate) fn head<'a>(
    bytes: &'a [u8],
    path: &Path,
    member: Option<&str>,
) -> Result<Option<(Unwrapped<'a>, bool)>, LoadError> {
    const HEAD: u64 = 1 << 20;
    let Some(compression) = Compression::of(bytes) else {
        let is_zip = bytes.starts_with(b"PK\x03\x04");
        return if is_zip { Ok(None) } else { Ok(Some((unwrap(bytes, path, member, &())?, false))) };
    };
    let unpack = |source| LoadError::Unpack { path: path.to_owned(), what: compression.what(), source };
    let mut decoder = compression.decoder(bytes, &()).map_err(unpack)?;
    let mut head = Vec::new();
    (&mut decoder).take(TAR_BLOCK as u64).read_to_end(&mut head).map_err(unpack)?;
    let part = |bytes: Vec<u8>, name, wrapping: &str| {
        Ok(Some((
            Unwrapped { bytes: Cow::Owned(bytes), offset: None, name, wrapping: wrapping.to_owned() },
            true,
        )))
    };
    if is_tar(&head) {
        let mut archive = Archive::new(Cursor::new(head).chain(decoder));
        let mut members = Members::new(member);
        for entry in archive.entries().map_err(unpack)? {
            let mut entry = entry.map_err(unpack)?;
            let name = entry.path_bytes().into_owned();
            if is_file(entry.header().entry_type()) && members.add(&name) && members.is_sure() {
                let mut head = Vec::new();
                (&mut entry).take(HEAD).read_to_end(&mut head).map_err(unpack)?;
                let name = PathBuf::from(String::from_utf8_lossy(&name).into_owned());
                return part(head, name, compression.of_tar());
            }
        }
        return Ok(None);
    }
    decoder.take(HEAD).read_to_end(&mut head).map_err(unpack)?;
    part(head, name_unpacked(path), compression.of_file())
}

const TAR: &str = "tar archive";
const ZIP: &str = "zip archive";
/// A header of a tar archive, and the unit of its members.
const TAR_BLOCK: usize = 512;
/// Files that are read neither as graphs nor as archives.
const FOREIGN: [(&[u8], &str, &str); 3] = [
    (b"7z\xBC\xAF\x27\x1C", "7-Zip", "7z x"),
    (b"Rar!\x1A\x07", "RAR", "unrar x"),
    (b"\x04\x22\x4D\x18", "LZ4", "unlz4"),
];

/// Takes one wrapping off; false if there is none.
fn peel(
    unwrapped: &mut Unwrapped<'_>,
    path: &Path,
    member: &mut Option<&str>,
    progress: &dyn Progress,
) -> Result<bool, LoadError> {
    let bytes = &*unwrapped.bytes;
    if let Some(compression) = Compression::of(bytes) {
        progress.begin("unpack", bytes.len() as u64);
        let unpacked = unpack(compression, bytes, path, member, progress);
        progress.end();
        let unpacked = unpacked?;
        match unpacked.member {
            Some(name) => {
                unwrapped.wrapping.push_str(compression.of_tar());
                unwrapped.name = name;
            }
            None => {
                unwrapped.wrapping.push_str(compression.of_file());
                unwrapped.name = name_unpacked(&unwrapped.name);
            }
        }
        unwrapped.bytes = Cow::Owned(unpacked.bytes);
        unwrapped.offset = None;
        return Ok(true);
    }
    if is_tar(bytes) {
        let (range, name) = find_member(bytes, path, member.take())?;
        unwrapped.wrapping = match unwrapped.wrapping.strip_suffix(Compression::Gzip.of_file()) {
            Some(outer) => format!("{outer}{}", Compression::Gzip.of_tar()), // BGZF, unpacked as a whole
            None => format!("{}tar of ", unwrapped.wrapping),
        };
        unwrapped.name = name;
        unwrapped.offset = unwrapped.offset.map(|offset| offset + range.start);
        unwrapped.bytes = match &unwrapped.bytes {
            Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(range).unwrap_or_default()),
            Cow::Owned(bytes) => Cow::Owned(bytes.get(range).unwrap_or_default().to_vec()),
        };
        return Ok(true);
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        progress.begin("unpack", bytes.len() as u64);
        let found = unzip(bytes, path, member.take(), progress);
        progress.end();
        let (bytes, name) = found?;
        unwrapped.wrapping.push_str("zip of ");
        unwrapped.name = name;
        unwrapped.bytes = Cow::Owned(bytes);
        unwrapped.offset = None;
        return Ok(true);
    }
    for (magic, compression, command) in FOREIGN {
        if bytes.starts_with(magic) {
            return Err(LoadError::Compression { path: path.to_owned(), compression, command });
        }
    }
    Ok(false)
}

/// Whether bytes begin like a tar archive: its header's checksum is right.
fn is_tar(bytes: &[u8]) -> bool {
    let Some(header) = bytes.first_chunk::<TAR_BLOCK>() else { return false };
    let header = tar::Header::from_byte_slice(header);
    let sum = |bytes: &[u8]| bytes.iter().map(|&b| u32::from(b)).sum::<u32>();
    let field = 148..156; // counted as blanks
    let bytes = header.as_bytes();
    bytes[0] != 0
        && header
            .cksum()
            .is_ok_and(|stored| stored == sum(&bytes[..field.start]) + 8 * 32 + sum(&bytes[field.end..]))
}

/// What was compressed.
struct Unpacked {
    bytes: Vec<u8>,
    /// The name of the graph in an archive, if it was one.
    member: Option<PathBuf>,
}

/// Decompresses a file; of a tar inside keeps the matrix.
fn unpack(
    compression: Compression,
    bytes: &[u8],
    path: &Path,
    asked: &mut Option<&str>,
    progress: &dyn Progress,
) -> Result<Unpacked, LoadError> {
    let what = compression.what();
    let unpack = |source| LoadError::Unpack { path: path.to_owned(), what, source };
    if compression == Compression::Gzip
        && let Some(blocks) = compression::blocks(bytes)
    {
        let bytes = compression::unpack_blocks(bytes, &blocks, path, progress)?;
        return Ok(Unpacked { bytes, member: None });
    }
    let mut decoder = compression.decoder(bytes, progress).map_err(unpack)?;
    let mut head = Vec::new();
    (&mut decoder).take(TAR_BLOCK as u64).read_to_end(&mut head).map_err(unpack)?;
    if !is_tar(&head) {
        if let Some(hint) = compression.size_hint(bytes)
            && memory::check(hint, path, what).is_ok()
        {
            let _ = head.try_reserve_exact((hint as usize).saturating_sub(head.len()));
        }
        memory::read_to_end(&mut decoder, &mut head, path, what, Some(progress))?;
        return Ok(Unpacked { bytes: head, member: None });
    }

    let mut rest = Cursor::new(head).chain(decoder);
    let mut archive = Archive::new(&mut rest);
    let mut members = Members::new(asked.take());
    let mut matrix = Vec::new();
    for entry in archive.entries().map_err(unpack)? {
        let mut entry = entry.map_err(unpack)?;
        let name = entry.path_bytes().into_owned();
        if is_file(entry.header().entry_type()) && members.add(&name) {
            let size = entry.size();
            memory::check(size, path, TAR)?;
            matrix = Vec::new();
            // What the header promises is reserved only as far as it could have been packed.
            if size / 1100 <= bytes.len() as u64 {
                let _ = matrix.try_reserve_exact(size as usize);
            }
            memory::read_to_end(&mut entry, &mut matrix, path, TAR, Some(progress))?;
            if (matrix.len() as u64) < size {
                return Err(unpack(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
        if progress.is_cancelled() {
            return Err(LoadError::Interrupted);
        }
    }
    // What follows the archive holds the checksum of the compression.
    std::io::copy(&mut rest, &mut std::io::sink()).map_err(unpack)?;
    let name = members.choose(path)?;
    Ok(Unpacked { bytes: matrix, member: Some(name) })
}

fn is_file(kind: EntryType) -> bool {
    matches!(kind, EntryType::Regular | EntryType::Continuous)
}

/// Where the matrix lies in a tar archive that is not compressed, and its name.
fn find_member(bytes: &[u8], path: &Path, asked: Option<&str>) -> Result<(Range<usize>, PathBuf), LoadError> {
    let unpack = |source| LoadError::Unpack { path: path.to_owned(), what: TAR, source };
    let mut archive = Archive::new(Cursor::new(bytes));
    let mut members = Members::new(asked);
    let mut range = (0, 0);
    for entry in archive.entries_with_seek().map_err(unpack)? {
        let entry = entry.map_err(unpack)?;
        if is_file(entry.header().entry_type()) && members.add(&entry.path_bytes()) {
            range = (entry.raw_file_position(), entry.size());
        }
    }
    let name = members.choose(path)?;
    let (begin, size) = range;
    let end = begin.saturating_add(size);
    if end > bytes.len() as u64 {
        return Err(unpack(std::io::ErrorKind::UnexpectedEof.into()));
    }
    Ok((begin as usize..end as usize, name))
}

/// The matrix in a zip archive, and its name.
fn unzip(
    bytes: &[u8],
    path: &Path,
    asked: Option<&str>,
    progress: &dyn Progress,
) -> Result<(Vec<u8>, PathBuf), LoadError> {
    let unpack = |source: zip::result::ZipError| LoadError::Unpack {
        path: path.to_owned(),
        what: ZIP,
        source: std::io::Error::other(source),
    };
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(unpack)?;
    let mut members = Members::new(asked);
    let mut chosen = 0;
    for index in 0..archive.len() {
        let name = archive.name_for_index(index).transpose().map_err(unpack)?.unwrap_or_default();
        if !name.ends_with('/') && members.add(name.as_bytes()) {
            chosen = index;
        }
    }
    let name = members.choose(path)?;
    let mut file = archive.by_index(chosen).map_err(unpack)?;
    memory::check(file.size(), path, ZIP)?;
    let mut matrix = Vec::new();
    if file.size() / 1100 <= bytes.len() as u64 {
        let _ = matrix.try_reserve_exact(file.size() as usize);
    }
    memory::read_to_end(&mut file, &mut matrix, path, ZIP, Some(progress))?;
    Ok((matrix, name))
}
