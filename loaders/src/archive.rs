//! What a file is wrapped in: gzip, tar, both; looked for in the bytes, never in the name.
//!
//! SuiteSparse ships the matrix as NAME/NAME.mtx in a .tar.gz, often beside other matrices (NAME_b.mtx, coordinates)
//! and texts. The archive is read to its end, since the checksum of gzip stands there; only the matrix is kept.

use std::io::{Cursor, Read, Write};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use tar::{Archive, EntryType};

use crate::error::LoadError;
use crate::memory;
use crate::mmap::FileBytes;
use crate::progress::Progress;
use crate::text::quote;

/// A matrix out of its wrapping.
pub(crate) enum Unwrapped {
    /// The bytes were the matrix.
    Plain,
    /// The matrix is this part of the bytes.
    Member(Range<usize>),
    /// The matrix, unpacked. The flag tells a tar from a lone file.
    Unpacked { bytes: Vec<u8>, from_tar: bool },
}

/// The name of what was wrapped, as far as its extension matters.
pub(crate) fn name_inside(path: &Path, unwrapped: &Unwrapped) -> PathBuf {
    match unwrapped {
        Unwrapped::Plain => path.to_owned(),
        Unwrapped::Member(_) | Unwrapped::Unpacked { from_tar: true, .. } => PathBuf::from("matrix.mtx"),
        Unwrapped::Unpacked { from_tar: false, .. } => name_unpacked(path),
    }
}

/// The name of a compressed file without what says so.
pub(crate) fn name_unpacked(path: &Path) -> PathBuf {
    match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("gz") => path.with_extension(""),
        _ => path.to_owned(),
    }
}

/// Unpacks a compressed file to one without a name in `folder`; `None` if it is not compressed.
pub(crate) fn unpack_to_disk(
    bytes: &[u8],
    path: &Path,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<Option<FileBytes>, LoadError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(None);
    }
    let cannot_write = |source| LoadError::Write { path: folder.to_owned(), source };
    let mut unpacked = tempfile::tempfile_in(folder).map_err(cannot_write)?;
    let mut decoder = MultiGzDecoder::new(std::io::BufReader::new(Followed { bytes, progress }));
    let mut buffer = vec![0; 1 << 20];
    progress.begin("unpack", bytes.len() as u64);
    let mut is_empty = true;
    loop {
        if progress.is_cancelled() {
            return Err(LoadError::Interrupted);
        }
        let len = decoder.read(&mut buffer).map_err(|source| LoadError::Unpack {
            path: path.to_owned(),
            what: GZIP,
            source,
        })?;
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
    FileBytes::of(&unpacked).map(Some).map_err(cannot_write)
}

/// The beginning of what is wrapped.
pub(crate) struct FileHead {
    unpacked: Option<Vec<u8>>,
    member: Range<usize>,
    pub wrapping: &'static str,
    /// As [`name_inside`] has it.
    pub name: PathBuf,
}

impl FileHead {
    /// The bytes, in `file` or unpacked from it.
    pub(crate) fn bytes<'a>(&'a self, file: &'a [u8]) -> &'a [u8] {
        self.unpacked.as_deref().unwrap_or_else(|| file.get(self.member.clone()).unwrap_or_default())
    }

    /// Whether it may not be all of it.
    pub(crate) fn is_part(&self) -> bool {
        self.unpacked.is_some()
    }
}

/// The beginning of what a file holds, unpacked so far only; `None` where that cannot be told without the rest.
pub(crate) fn head(bytes: &[u8], path: &Path) -> Result<Option<FileHead>, LoadError> {
    const HEAD: u64 = 1 << 20;
    let plain = |member, wrapping, name| FileHead { unpacked: None, member, wrapping, name };
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let unpack = |source| LoadError::Unpack { path: path.to_owned(), what: GZIP, source };
        let mut decoder = MultiGzDecoder::new(bytes);
        let mut head = Vec::new();
        (&mut decoder).take(TAR_BLOCK as u64).read_to_end(&mut head).map_err(unpack)?;
        let (wrapping, name) = match is_tar(&head) {
            true => ("tar.gz of ", PathBuf::from("matrix.mtx")),
            false => ("gzip of ", name_unpacked(path)),
        };
        if is_tar(&head) {
            let mut archive = Archive::new(Cursor::new(head).chain(decoder));
            let mut members = Members::default();
            for entry in archive.entries().map_err(unpack)? {
                let mut entry = entry.map_err(unpack)?;
                if members.add(&entry.path_bytes(), entry.header().entry_type()) {
                    let mut head = Vec::new();
                    (&mut entry).take(HEAD).read_to_end(&mut head).map_err(unpack)?;
                    return Ok(Some(FileHead { unpacked: Some(head), member: 0..0, wrapping, name }));
                }
            }
            return Ok(None);
        }
        decoder.take(HEAD).read_to_end(&mut head).map_err(unpack)?;
        return Ok(Some(FileHead { unpacked: Some(head), member: 0..0, wrapping, name }));
    }
    Ok(match unwrap(bytes, path, &())? {
        Unwrapped::Plain => Some(plain(0..bytes.len(), "", path.to_owned())),
        Unwrapped::Member(range) => Some(plain(range, "tar of ", PathBuf::from("matrix.mtx"))),
        Unwrapped::Unpacked { .. } => None,
    })
}

/// Looks for a wrapping and takes it off.
pub(crate) fn unwrap(bytes: &[u8], path: &Path, progress: &dyn Progress) -> Result<Unwrapped, LoadError> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        progress.begin("unpack", bytes.len() as u64);
        let unpacked = gunzip(bytes, path, progress);
        progress.end();
        return unpacked;
    }
    if is_tar(bytes) {
        return find_member(bytes, path).map(Unwrapped::Member);
    }
    for (magic, compression, command) in FOREIGN {
        if bytes.starts_with(magic) {
            return Err(LoadError::Compression { path: path.to_owned(), compression, command });
        }
    }
    Ok(Unwrapped::Plain)
}

/// Compressions that are named but not undone.
const FOREIGN: [(&[u8], &str, &str); 5] = [
    (b"PK\x03\x04", "zip", "unzip"),
    (b"BZh", "bzip2", "bunzip2"),
    (b"\xFD7zXZ\x00", "xz", "unxz"),
    (b"\x28\xB5\x2F\xFD", "zstd", "unzstd"),
    (b"7z\xBC\xAF\x27\x1C", "7-Zip", "7z x"),
];

const GZIP: &str = "gzip data";
const TAR: &str = "tar archive";
/// A header of a tar archive, and the unit of its members.
const TAR_BLOCK: usize = 512;

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

/// Decompresses all members of a gzip file; of a tar inside keeps the matrix.
fn gunzip(bytes: &[u8], path: &Path, progress: &dyn Progress) -> Result<Unwrapped, LoadError> {
    let source = Followed { bytes, progress };
    let mut decoder = MultiGzDecoder::new(std::io::BufReader::with_capacity(256 << 10, source));
    let mut head = Vec::new();
    let unpack = |source| LoadError::Unpack { path: path.to_owned(), what: GZIP, source };
    (&mut decoder).take(TAR_BLOCK as u64).read_to_end(&mut head).map_err(unpack)?;
    if !is_tar(&head) {
        // The last four bytes are the size modulo 2^32, of the last member: a hint that costs nothing if wrong.
        let hint = bytes.last_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size) as usize);
        if hint / 1100 <= bytes.len() && memory::check(hint as u64, path, GZIP).is_ok() {
            let _ = head.try_reserve_exact(hint.saturating_sub(head.len()));
        }
        memory::read_to_end(&mut decoder, &mut head, path, GZIP, Some(progress))?;
        return Ok(Unwrapped::Unpacked { bytes: head, from_tar: false });
    }

    let mut rest = Cursor::new(head).chain(decoder);
    let mut archive = Archive::new(&mut rest);
    let mut members = Members::default();
    let mut matrix = Vec::new();
    for entry in archive.entries().map_err(unpack)? {
        let mut entry = entry.map_err(unpack)?;
        let name = entry.path_bytes().into_owned();
        if members.add(&name, entry.header().entry_type()) && matrix.is_empty() {
            let size = entry.size();
            memory::check(size, path, TAR)?;
            // What the header promises is reserved only as far as deflate could have packed it.
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
    // What follows the archive holds the checksum of gzip.
    std::io::copy(&mut rest, &mut std::io::sink()).map_err(unpack)?;
    members.choose(path)?;
    Ok(Unwrapped::Unpacked { bytes: matrix, from_tar: true })
}

/// Where the matrix lies in a tar archive that is not compressed.
fn find_member(bytes: &[u8], path: &Path) -> Result<Range<usize>, LoadError> {
    let unpack = |source| LoadError::Unpack { path: path.to_owned(), what: TAR, source };
    let mut archive = Archive::new(Cursor::new(bytes));
    let mut members = Members::default();
    let mut range = None;
    for entry in archive.entries_with_seek().map_err(unpack)? {
        let entry = entry.map_err(unpack)?;
        if members.add(&entry.path_bytes(), entry.header().entry_type()) && range.is_none() {
            range = Some((entry.raw_file_position(), entry.size()));
        }
    }
    members.choose(path)?;
    let (begin, size) = range.unwrap_or_default();
    let end = begin.saturating_add(size);
    if end > bytes.len() as u64 {
        return Err(unpack(std::io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(begin as usize..end as usize)
}

/// The names in an archive.
#[derive(Debug, Default)]
struct Members {
    matrices: Vec<String>,
    rutherford_boeing: Option<String>,
    others: Vec<String>,
    num_others: usize,
}

impl Members {
    /// Notes a member; true if it is the matrix: NAME/NAME.mtx.
    fn add(&mut self, name: &[u8], kind: EntryType) -> bool {
        if !matches!(kind, EntryType::Regular | EntryType::Continuous) {
            return false;
        }
        let name = String::from_utf8_lossy(name);
        let shown = quote(name.as_bytes());
        let path = Path::new(name.as_ref());
        let mut parts = path.components().rev().filter_map(|part| match part {
            Component::Normal(part) => part.to_str(),
            _ => None,
        });
        let (file, folder) = (parts.next().unwrap_or_default(), parts.next());
        let is_named = |ending| file.strip_suffix(ending).is_some_and(|stem| folder == Some(stem));
        if is_named(".mtx") {
            self.matrices.push(shown);
            return self.matrices.len() == 1;
        }
        if is_named(".rb") {
            self.rutherford_boeing.get_or_insert(shown);
        } else {
            self.num_others += 1;
            if self.others.len() < 8 {
                self.others.push(shown);
            }
        }
        false
    }

    fn choose(self, path: &Path) -> Result<(), LoadError> {
        let path = path.to_owned();
        match (&self.matrices[..], self.rutherford_boeing) {
            ([_], _) => Ok(()),
            ([first, second, ..], _) => {
                Err(LoadError::SeveralMatrices { path, first: first.clone(), second: second.clone() })
            }
            ([], Some(member)) => Err(LoadError::RutherfordBoeing { path, member }),
            ([], None) => {
                let more = self.num_others - self.others.len();
                let found = match (self.others.join(", "), more) {
                    (names, _) if names.is_empty() => "no files".to_owned(),
                    (names, 0) => names,
                    (names, more) => format!("{names} and {more} more"),
                };
                Err(LoadError::NoMatrixMember { path, found })
            }
        }
    }
}

/// Compressed bytes that say how far they have been read.
struct Followed<'a> {
    bytes: &'a [u8],
    progress: &'a dyn Progress,
}

impl Read for Followed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        self.progress.advance(read as u64);
        Ok(read)
    }
}
