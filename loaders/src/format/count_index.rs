//! Where the k-th line or word of a text begins, found in a moment: how many begin in each piece of it.

use std::ops::Range;

use memchr::memchr;
use rayon::prelude::*;

/// Bytes a piece.
const PIECE: usize = 64 << 10;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Line,
    Word,
}

/// An index of a text from some offset on.
#[derive(Debug)]
pub(super) struct CountIndex {
    unit: Unit,
    begin: usize,
    /// Units that begin before each piece, and in all of them.
    firsts: Vec<u64>,
}

#[inline(always)]
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

impl CountIndex {
    /// Of `bytes` from `begin` on, where a line begins.
    pub(super) fn new(bytes: &[u8], begin: usize, unit: Unit) -> Self {
        let begin = begin.min(bytes.len());
        let pieces = (bytes.len() - begin).div_ceil(PIECE);
        let counts: Vec<u64> = (0..pieces)
            .into_par_iter()
            .map(|piece| {
                let range = begin + piece * PIECE..(begin + (piece + 1) * PIECE).min(bytes.len());
                Self::count(bytes, range, begin, unit)
            })
            .collect();
        let mut firsts = vec![0];
        let mut before = 0;
        firsts.extend(counts.into_iter().map(|count| {
            before += count;
            before
        }));
        Self { unit, begin, firsts }
    }

    /// Units that begin in `range`.
    fn count(bytes: &[u8], range: Range<usize>, begin: usize, unit: Unit) -> u64 {
        match unit {
            // A line begins after each line feed that is not the last byte.
            Unit::Line => {
                let before = range.start.saturating_sub(1).max(begin);
                let feeds = memchr::memchr_iter(b'\n', &bytes[before..range.end - 1]).count() as u64;
                feeds + u64::from(range.start == begin)
            }
            Unit::Word => {
                let mut blank = range.start == begin || is_blank(bytes[range.start - 1]);
                let mut words = 0;
                for &byte in &bytes[range] {
                    words += u64::from(blank && !is_blank(byte));
                    blank = is_blank(byte);
                }
                words
            }
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0)
    }

    /// Where number `k`, from 0, begins; the end of the text if there are no more.
    pub(super) fn start(&self, bytes: &[u8], k: u64) -> usize {
        if k >= self.len() {
            return bytes.len();
        }
        let piece = self.firsts.partition_point(|&first| first <= k) - 1;
        let mut left = k - self.firsts[piece];
        let mut at = self.begin + piece * PIECE;
        match self.unit {
            Unit::Line => {
                if at > self.begin {
                    at = next_line(bytes, at - 1);
                }
                while left > 0 {
                    at = next_line(bytes, at);
                    left -= 1;
                }
                at
            }
            Unit::Word => {
                if at > self.begin && !is_blank(bytes[at - 1]) {
                    at = word_end(bytes, at);
                }
                at = next_word(bytes, at);
                while left > 0 {
                    at = next_word(bytes, word_end(bytes, at));
                    left -= 1;
                }
                at
            }
        }
    }
}

fn next_line(bytes: &[u8], at: usize) -> usize {
    memchr(b'\n', &bytes[at.min(bytes.len())..]).map_or(bytes.len(), |len| at + len + 1)
}

/// Where the word that begins at `at` or after begins.
pub(super) fn next_word(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|&byte| is_blank(byte)) {
        at += 1;
    }
    at
}

/// Where the word at `at` ends.
pub(super) fn word_end(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|&byte| !is_blank(byte)) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_words_begin_where_they_do() {
        let mut text = Vec::new();
        for k in 0..40_000_u32 {
            text.extend(
                format!("{}{k}{}", " ".repeat(k as usize % 3), if k % 7 == 0 { "\n" } else { " " }).bytes(),
            );
        }
        for begin in [0, 70_000] {
            let begin = next_line(&text, begin.max(1) - 1);
            let begin = if begin < 70_000 { 0 } else { begin };
            let lines: Vec<usize> = std::iter::once(begin)
                .chain((begin..text.len() - 1).filter(|&at| text[at] == b'\n').map(|at| at + 1))
                .collect();
            let index = CountIndex::new(&text, begin, Unit::Line);
            assert_eq!(index.len(), lines.len() as u64);
            for (k, &line) in lines.iter().enumerate().step_by(97) {
                assert_eq!(index.start(&text, k as u64), line);
            }
            let blank = |at: usize| text[at] == b' ' || text[at] == b'\n';
            let words: Vec<usize> =
                (begin..text.len()).filter(|&at| !blank(at) && (at == begin || blank(at - 1))).collect();
            let index = CountIndex::new(&text, begin, Unit::Word);
            assert_eq!(index.len(), words.len() as u64);
            for (k, &word) in words.iter().enumerate().step_by(97) {
                assert_eq!(index.start(&text, k as u64), word);
            }
            assert_eq!(index.start(&text, words.len() as u64), text.len());
        }
        assert_eq!(CountIndex::new(b"", 0, Unit::Line).len(), 0);
        assert_eq!(CountIndex::new(b"\n", 0, Unit::Line).len(), 1);
        assert_eq!(CountIndex::new(b"a\n\nb", 0, Unit::Line).len(), 3);
        assert_eq!(CountIndex::new(b" \n ", 0, Unit::Word).len(), 0);
    }
}
