//! The text being parsed: its bytes, the file they come from, and how it is cut for many threads.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use memchr::{memchr, memchr_iter};
use rayon::prelude::*;

use crate::error::LoadError;
use crate::mmap::FileBytes;
use crate::progress::Progress;

/// The text of a matrix.
pub(crate) struct Text<'a> {
    pub bytes: &'a [u8],
    /// For messages.
    pub path: &'a Path,
    /// The file that the bytes lie in and where, so that its pages can be given back.
    pub file: Option<(&'a FileBytes, usize)>,
}

/// Characters of a line that a message quotes.
const QUOTED: usize = 60;

impl Text<'_> {
    pub(crate) fn path(&self) -> PathBuf {
        self.path.to_owned()
    }

    /// The line, from 1, that the byte at `at` is in. Counted when an error is reported, never before.
    pub(crate) fn line_number(&self, at: usize) -> u64 {
        memchr_iter(b'\n', &self.bytes[..at.min(self.bytes.len())]).count() as u64 + 1
    }

    /// The line that begins at `at`, as a message quotes it.
    pub(crate) fn line_text(&self, at: usize) -> String {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let line = rest.split(|&b| b == b'\n').next().unwrap_or_default();
        quote(line)
    }

    /// Calls `each` for every piece of the lines from `body` on, on all threads, in about the order of the file, and
    /// joins the results. A piece is a range of bytes and its number.
    ///
    /// `each` may fail with the offset of a line; the smallest such offset is the error, however many threads there
    /// are: a piece is skipped only if an error before it is known.
    pub(crate) fn pieces<T: Send>(
        &self,
        body: usize,
        progress: &dyn Progress,
        none: impl Fn() -> T + Sync,
        each: impl Fn(Range<usize>, usize) -> Result<T, usize> + Sync,
        join: impl Fn(T, T) -> T + Sync,
    ) -> Result<Result<T, usize>, LoadError> {
        let size = self.piece_bytes(body);
        let first_bad = AtomicUsize::new(usize::MAX);
        let cancelled = AtomicBool::new(false);
        let joined = (0..(self.bytes.len() - body).div_ceil(size))
            .par_bridge()
            .map(|piece| {
                let range = body + piece * size..(body + (piece + 1) * size).min(self.bytes.len());
                if cancelled.load(Relaxed) || first_bad.load(Relaxed) < range.start {
                    return none();
                }
                if progress.is_cancelled() {
                    cancelled.store(true, Relaxed);
                    return none();
                }
                let lines = self.lines_beginning_in(range.clone(), body);
                let done = each(lines, piece).unwrap_or_else(|bad| {
                    first_bad.fetch_min(bad, Relaxed);
                    none()
                });
                if let Some((file, base)) = self.file {
                    file.forget(base + range.start..base + range.end);
                }
                progress.advance(range.len() as u64);
                done
            })
            .reduce(&none, &join);
        if cancelled.into_inner() {
            return Err(LoadError::Interrupted);
        }
        match first_bad.into_inner() {
            usize::MAX => Ok(Ok(joined)),
            bad => Ok(Err(bad)),
        }
    }

    /// Bytes a piece: enough of them for every thread, and not so small that taking one costs more than reading it.
    fn piece_bytes(&self, body: usize) -> usize {
        const LEAST: usize = 16 << 10;
        const MOST: usize = 4 << 20;
        ((self.bytes.len() - body) / (rayon::current_num_threads() * 8)).clamp(LEAST, MOST)
    }

    /// The lines that begin inside `range`: each line is in exactly one piece. The last may end after the range.
    fn lines_beginning_in(&self, range: Range<usize>, body: usize) -> Range<usize> {
        if range.start == body || self.bytes.get(range.start - 1) == Some(&b'\n') {
            return range;
        }
        match memchr(b'\n', &self.bytes[range.clone()]) {
            Some(before) => range.start + before + 1..range.end,
            None => range.end..range.end,
        }
    }
}

/// Bytes as a message quotes them: short, and with nothing that a terminal would obey.
pub(crate) fn quote(bytes: &[u8]) -> String {
    let line = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    let mut quoted: String = String::from_utf8_lossy(&line[..line.len().min(QUOTED)])
        .chars()
        .flat_map(|c| {
            let escape = c.is_control().then(|| c.escape_default());
            escape.into_iter().flatten().chain((!c.is_control()).then_some(c))
        })
        .collect();
    if line.len() > QUOTED {
        quoted.push_str("...");
    }
    quoted
}
