//! Compressions, told by their first bytes.

use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::{GzDecoder, MultiGzDecoder};
use liblzma::bufread::XzDecoder;
use rayon::prelude::*;

use crate::error::LoadError;
use crate::memory;
use crate::progress::Progress;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Bzip2,
    Xz,
    Zstd,
}

/// Bytes that a decoder asks for at a time.
const BUFFER: usize = 256 << 10;

impl Compression {
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(&[0x1f, 0x8b]) {
            return Some(Self::Gzip);
        }
        if bytes.starts_with(b"BZh") && bytes.get(3).is_some_and(|level| (b'1'..=b'9').contains(level)) {
            return Some(Self::Bzip2);
        }
        if bytes.starts_with(b"\xFD7zXZ\x00") {
            return Some(Self::Xz);
        }
        bytes.starts_with(b"\x28\xB5\x2F\xFD").then_some(Self::Zstd)
    }

    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Gzip => "gzip data",
            Self::Bzip2 => "bzip2 data",
            Self::Xz => "xz data",
            Self::Zstd => "zstd data",
        }
    }

    pub(super) fn of_file(self) -> &'static str {
        match self {
            Self::Gzip => "gzip of ",
            Self::Bzip2 => "bzip2 of ",
            Self::Xz => "xz of ",
            Self::Zstd => "zstd of ",
        }
    }

    pub(super) fn of_tar(self) -> &'static str {
        match self {
            Self::Gzip => "tar.gz of ",
            Self::Bzip2 => "tar.bz2 of ",
            Self::Xz => "tar.xz of ",
            Self::Zstd => "tar.zst of ",
        }
    }

    /// All members or streams of a file, one after another.
    pub(super) fn decoder<'a>(
        self,
        bytes: &'a [u8],
        progress: &'a dyn Progress,
    ) -> io::Result<Box<dyn Read + 'a>> {
        /// Window of zstd that a file of any size may ask for, and one of more than [`LARGE`] bytes.
        const WINDOW_LOG: u32 = 25;
        const LARGE_WINDOW_LOG: u32 = 31;
        const LARGE: usize = 16 << 20;
        let source = BufReader::with_capacity(BUFFER, Followed { bytes, progress });
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(source)),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(source)),
            Self::Xz => Box::new(XzDecoder::new_multi_decoder(source)),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
                decoder.window_log_max(if bytes.len() > LARGE { LARGE_WINDOW_LOG } else { WINDOW_LOG })?;
                Box::new(decoder)
            }
        })
    }

    /// The size when unpacked, if the file tells and could hold that much.
    pub(super) fn size_hint(self, bytes: &[u8]) -> Option<u64> {
        /// Deflate packs no better.
        const MOST: u64 = 1100;
        match self {
            // The last four bytes are the size modulo 2^32, of the last member: a hint that costs nothing if wrong.
            Self::Gzip => {
                let hint = u32::from_le_bytes(*bytes.last_chunk::<4>()?).into();
                (hint / MOST <= bytes.len() as u64).then_some(hint)
            }
            _ => None,
        }
    }
}

/// Compressed bytes that say how far they have been read.
struct Followed<'a> {
    bytes: &'a [u8],
    progress: &'a dyn Progress,
}

impl Read for Followed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        self.progress.advance(read as u64);
        Ok(read)
    }
}

/// A member of a file that `bgzip` made: where it lies, and its size when unpacked.
pub(super) struct Block {
    packed: Range<usize>,
    size: usize,
}

/// The members of a gzip file that says in each how long it is, as `bgzip` does; `None` for any other.
pub(super) fn blocks(bytes: &[u8]) -> Option<Vec<Block>> {
    /// What a block holds at the most.
    const MOST: u32 = 64 << 10;
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let member = &bytes[at..];
        let head = member.first_chunk::<18>()?;
        // One extra field, named BC, of two bytes.
        let is_block = head[..4] == [0x1f, 0x8b, 8, 4] && head[10..16] == [6, 0, b'B', b'C', 2, 0];
        let length = usize::from(u16::from_le_bytes([head[16], head[17]])) + 1;
        let block = member.get(..length).filter(|_| is_block)?;
        let size = u32::from_le_bytes(*block.last_chunk::<4>()?);
        if size > MOST {
            return None;
        }
        blocks.push(Block { packed: at..at + length, size: size as usize });
        at += length;
    }
    Some(blocks)
}

/// Unpacks the members on all threads.
pub(super) fn unpack_blocks(
    bytes: &[u8],
    blocks: &[Block],
    path: &Path,
    progress: &dyn Progress,
) -> Result<Vec<u8>, LoadError> {
    let what = Compression::Gzip.what();
    let total: usize = blocks.iter().map(|block| block.size).sum();
    memory::check(total as u64, path, what)?;
    let mut unpacked = vec![0; total];
    let mut rest = &mut unpacked[..];
    let mut parts = Vec::with_capacity(blocks.len());
    for block in blocks {
        let (part, after) = rest.split_at_mut(block.size);
        parts.push((block, part));
        rest = after;
    }
    let cancelled = AtomicBool::new(false);
    let done: io::Result<()> = parts.into_par_iter().try_for_each(|(block, part)| {
        if progress.is_cancelled() {
            cancelled.store(true, Relaxed);
            return Ok(());
        }
        let mut decoder = GzDecoder::new(&bytes[block.packed.clone()]);
        decoder.read_exact(part)?;
        // The checksum is compared at the end.
        if decoder.read(&mut [0])? != 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        progress.advance(block.packed.len() as u64);
        Ok(())
    });
    if cancelled.into_inner() {
        return Err(LoadError::Interrupted);
    }
    done.map_err(|source| LoadError::Unpack { path: path.to_owned(), what, source })?;
    Ok(unpacked)
}
