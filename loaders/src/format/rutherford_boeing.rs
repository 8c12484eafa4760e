//! Rutherford-Boeing and Harwell-Boeing, assembled: a matrix by columns, in cards of fields of fixed width, ids from 1.
//!
//! A title; the number of cards in all and of each kind; the type of the matrix, its rows, columns and entries; the Fortran
//! formats of the fields; in Harwell-Boeing with right-hand sides one more card. Then the first entry of each column and
//! past the last, the row of each entry, and the value of each, two for a complex one. Right-hand sides are not read.
//!
//! The type has three letters: what the values are (r, c, i, p or q), the symmetry (u, r, s, h, z), and `a` for assembled;
//! elemental matrices (`e`) are refused.
//!
//! Sources: Duff, Grimes, Lewis, "The Rutherford-Boeing Sparse Matrix Collection", RAL-TR-97-031, and "Users' Guide for
//! the Harwell-Boeing Sparse Matrix Collection".

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use rayon::prelude::*;

use super::count_index::{CountIndex, Unit};
use super::lines::line_at;
use crate::builder::Batch;
use crate::error::{LoadError, Place};
use crate::number::{integer, is_blank, real, unsigned};
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Shape, Symmetry};
use crate::text::Text;

/// Entries that are read at a time, about.
const PIECE: u64 = 1 << 14;

/// The fields of a card: so many of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cards {
    per_card: u64,
    width: usize,
}

impl Cards {
    /// Reads a Fortran format, as in `(16I5)` or `(1P,4D20.12)`.
    fn read(format: &[u8]) -> Option<Self> {
        let text: Vec<u8> =
            format.iter().filter(|b| !b.is_ascii_whitespace()).map(u8::to_ascii_uppercase).collect();
        let text = text.strip_prefix(b"(")?;
        let text = &text[..text.iter().position(|&b| b == b')')?];
        // A scale factor in front says nothing of fields that have an exponent.
        let text = match text.iter().position(|&b| b == b'P') {
            Some(at) if text[..at].iter().all(|b| b.is_ascii_digit() || *b == b'-') => {
                text[at + 1..].strip_prefix(b",").unwrap_or(&text[at + 1..])
            }
            Some(_) => return None,
            None => text,
        };
        let (per_card, end) = unsigned(text, 0);
        let per_card = if end == 0 { 1 } else { per_card };
        if !matches!(text.get(end)?, b'I' | b'F' | b'E' | b'D' | b'G') {
            return None;
        }
        let (width, last) = unsigned(text, end + 1);
        let rest = &text[last..];
        let fraction = rest.is_empty() || rest[0] == b'.';
        let fits = (1..=1000).contains(&per_card) && (1..=1000).contains(&width);
        (fits && last > end + 1 && fraction).then_some(Self { per_card, width: width as usize })
    }

    /// Cards that hold so many fields.
    fn count(self, fields: u64) -> u64 {
        fields.div_ceil(self.per_card)
    }
}

/// Fields one after another.
struct Reader<'a> {
    bytes: &'a [u8],
    cards: Cards,
    /// Where the card begins and the one behind it.
    card: usize,
    next: usize,
    /// The next field of the card.
    field: u64,
}

impl<'a> Reader<'a> {
    /// From number `field` of the cards that begin with number `first`.
    fn new(bytes: &'a [u8], lines: &CountIndex, first: u64, cards: Cards, field: u64) -> Self {
        let card = lines.start(bytes, first.saturating_add(field / cards.per_card));
        let mut reader = Self { bytes, cards, card, next: card, field: 0 };
        reader.open(card);
        reader.field = field % cards.per_card;
        reader
    }

    fn open(&mut self, card: usize) {
        self.card = card;
        self.next = (card + line_at(self.bytes, card).len() + 1).min(self.bytes.len());
        self.field = 0;
    }

    /// The next field without the blanks around it, and the beginning of its card; empty where the card is too short.
    fn next(&mut self) -> (&'a [u8], usize) {
        if self.field == self.cards.per_card {
            self.open(self.next);
        }
        let line = line_at(self.bytes, self.card);
        let begin = (self.field as usize).saturating_mul(self.cards.width).min(line.len());
        let end = (begin + self.cards.width).min(line.len());
        self.field += 1;
        (line[begin..end].trim_ascii(), self.card)
    }
}

/// The text of a matrix, and what stands in its head.
pub(crate) struct RutherfordBoeing<'a> {
    text: &'a Text<'a>,
    facts: Facts,
    shape: Shape,
    entries: u64,
    lines: CountIndex,
    /// Of each column, and past the last, from 0.
    first_entries: Vec<u64>,
    row_cards: Cards,
    /// The first card of the rows, and of the values.
    first_row_card: u64,
    value_cards: Option<Cards>,
    first_value_card: u64,
}

/// The three letters of the type, in lower case, if the text begins like such a file.
fn kind(bytes: &[u8]) -> Option<[u8; 3]> {
    let mut lines = bytes.split(|&b| b == b'\n').skip(1);
    let cards = lines.next()?;
    let line = lines.next()?;
    let formats = lines.next()?;
    let counts = cards.split(|&b| is_blank(b)).filter(|word| !word.is_empty());
    let kind = line.first_chunk::<3>()?.map(|b| b.to_ascii_lowercase());
    let is = b"rcipq".contains(&kind[0]) && b"urshz".contains(&kind[1]) && b"ae".contains(&kind[2]);
    let numbers = counts.clone().count() >= 4 && counts.flatten().all(u8::is_ascii_digit);
    (is && numbers && formats.contains(&b'(') && line.get(3).is_some_and(|&b| is_blank(b))).then_some(kind)
}

/// Whether the text begins like such a file.
pub(super) fn is_rutherford_boeing(bytes: &[u8]) -> bool {
    kind(&bytes[..bytes.len().min(1024)]).is_some()
}

impl<'a> RutherfordBoeing<'a> {
    pub(crate) fn open(text: &'a Text<'a>) -> Result<Self, LoadError> {
        let bytes = text.bytes;
        let lines = CountIndex::new(bytes, 0, Unit::Line);
        let card = |k: u64| line_at(bytes, lines.start(bytes, k));
        let bad = |line: u64, expected: &'static str| LoadError::SizeLine {
            path: text.path(),
            line: line + 1,
            found: text.line_text(lines.start(bytes, line)),
            expected,
        };
        let Some(kind) = kind(bytes) else {
            return Err(bad(
                2,
                "the type of the matrix, three letters as in rua, and its rows, columns and entries",
            ));
        };
        if kind[2] == b'e' {
            let kind = String::from_utf8_lossy(&kind).into_owned();
            return Err(LoadError::Elemental { path: text.path(), kind });
        }
        let numbers = |line: &[u8]| -> Vec<u64> {
            line.split(|&b| is_blank(b))
                .filter(|word| !word.is_empty())
                .map_while(|word| match unsigned(word, 0) {
                    (number, end) if end == word.len() => Some(number),
                    _ => None,
                })
                .collect()
        };
        let counts = numbers(card(1));
        let sizes = numbers(&card(2)[3..]);
        let Some(&[rows, columns, entries]) = sizes.first_chunk::<3>() else {
            return Err(bad(2, "the type, and behind it rows, columns and entries"));
        };
        let right_hand_sides = counts.get(4).copied().unwrap_or(0) > 0;
        let head = if right_hand_sides { 5 } else { 4 };
        let field = match kind[0] {
            b'r' => Field::Real,
            b'c' => Field::Complex,
            b'i' => Field::Integer,
            _ => Field::Pattern,
        };
        let symmetry = match kind[1] {
            b's' => Symmetry::Symmetric,
            b'z' => Symmetry::Skew,
            b'h' => Symmetry::Hermitian,
            _ => Symmetry::General,
        };
        if symmetry != Symmetry::General && rows != columns {
            let (path, line, symmetry) = (text.path(), 3, symmetry.name());
            return Err(LoadError::SymmetricNotSquare { path, line, rows, columns, symmetry });
        }
        let formats = format_words(card(3));
        let cards = |at: usize| formats.get(at).and_then(|format| Cards::read(format));
        let expected_formats = "Fortran formats of pointers, rows and values, as in (16I5) (16I5) (4E20.12)";
        let (Some(pointer_cards), Some(row_cards)) = (cards(0), cards(1)) else {
            return Err(bad(3, expected_formats));
        };
        let value_cards = match field {
            Field::Pattern => None,
            _ => Some(cards(2).ok_or_else(|| bad(3, expected_formats))?),
        };
        // Nothing is allocated for what the file cannot hold: a field takes a byte at the least.
        let length = bytes.len() as u64;
        if columns.saturating_add(entries) > length {
            let (path, line, promised) = (text.path(), 3, columns.saturating_add(entries));
            return Err(LoadError::FieldCount { path, line, promised, bytes: length });
        }
        let first_row_card = head + pointer_cards.count(columns + 1);
        let first_value_card = first_row_card + row_cards.count(entries);
        let values = if field == Field::Complex { 2 * entries } else { entries };
        let last_card = first_value_card + value_cards.map_or(0, |cards| cards.count(values));
        if lines.len() < last_card {
            let (path, found) = (text.path(), lines.len());
            return Err(LoadError::CardCount { path, promised: last_card, found });
        }
        let facts = Facts {
            path: text.path(),
            format: format!("Rutherford-Boeing {}", String::from_utf8_lossy(&kind)),
            field,
            symmetry,
            shape: Some(Shape { rows, columns }),
            place: Place::from(3),
            entries,
            dense: None,
        };
        let mut matrix = Self {
            text,
            facts,
            shape: Shape { rows, columns },
            entries,
            lines,
            first_entries: Vec::new(),
            row_cards,
            first_row_card,
            value_cards,
            first_value_card,
        };
        matrix.first_entries = matrix.pointers(head, pointer_cards)?;
        Ok(matrix)
    }

    /// Where the entries of each column begin, from 0.
    fn pointers(&self, head: u64, cards: Cards) -> Result<Vec<u64>, LoadError> {
        let bytes = self.text.bytes;
        let mut firsts = vec![0; self.shape.columns as usize + 1];
        let size = PIECE.next_multiple_of(cards.per_card);
        let bad = firsts
            .par_chunks_mut(size as usize)
            .enumerate()
            .filter_map(|(piece, chunk)| {
                let mut reader = Reader::new(bytes, &self.lines, head, cards, piece as u64 * size);
                for first in chunk {
                    let (word, line) = reader.next();
                    match unsigned(word, 0) {
                        (number, end) if end == word.len() && end > 0 && number > 0 => *first = number - 1,
                        _ => return Some(line),
                    }
                }
                None
            })
            .min();
        if let Some(line) = bad {
            return Err(self.bad_card(line, "pointer", "a number from 1 in each field"));
        }
        let rises = firsts.par_windows(2).all(|pair| pair[0] <= pair[1]);
        if !rises || firsts.first() != Some(&0) || firsts.last() != Some(&self.entries) {
            let reason =
                format!("its pointers do not rise from 1 to {}, one more than its entries", self.entries + 1);
            return Err(LoadError::Damaged { path: self.text.path(), reason, format: "Rutherford-Boeing" });
        }
        Ok(firsts)
    }

    fn bad_card(&self, at: usize, what: &'static str, expected: &'static str) -> LoadError {
        let (path, line) = (self.text.path(), self.text.line_number(at));
        LoadError::NotANumber { path, line, what, found: self.text.line_text(at), expected }
    }

    /// Reads entries from `begin` on; fails with the card of the first that is not as it must be.
    fn piece(
        &self,
        begin: u64,
        end: u64,
        pass: Pass,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), usize> {
        let bytes = self.text.bytes;
        let complex = self.facts.field == Field::Complex;
        let mut rows = Reader::new(bytes, &self.lines, self.first_row_card, self.row_cards, begin);
        let mut values = self.value_cards.filter(|_| pass.first || pass.keeps_values).map(|cards| {
            let first = if complex { 2 * begin } else { begin };
            Reader::new(bytes, &self.lines, self.first_value_card, cards, first)
        });
        let mut column = self.first_entries.partition_point(|&first| first <= begin) - 1;
        let mut batch = Batch::new();
        for entry in begin..end {
            while self.first_entries.get(column + 1).is_some_and(|&first| first <= entry) {
                column += 1;
            }
            let (word, card) = rows.next();
            let (row, last) = unsigned(word, 0);
            if last != word.len() || row.wrapping_sub(1) >= self.shape.rows {
                return Err(card);
            }
            let mut value = 1.0;
            if let Some(values) = &mut values {
                let (word, card) = values.next();
                let exact = pass.keeps_values;
                value = match self.facts.field {
                    Field::Integer => whole(integer(word, 0, exact), word),
                    _ => fortran(word),
                }
                .ok_or(card)?;
                if complex {
                    let (word, card) = values.next();
                    value = value.hypot(fortran(word).ok_or(card)?);
                }
                let on_diagonal = row - 1 == column as u64;
                if exact && !value.is_finite()
                    || self.facts.symmetry == Symmetry::Skew && on_diagonal && value != 0.0
                {
                    return Err(card);
                }
            }
            if batch.push((row - 1) as u32, column as u32, value) {
                take(&mut batch);
                batch.clear();
            }
        }
        take(&mut batch);
        Ok(())
    }

    fn explain(&self, card: usize) -> LoadError {
        if card >= self.lines.start(self.text.bytes, self.first_value_card) {
            return self.bad_card(card, "card of values", "a number that a weight can be in each field");
        }
        self.bad_card(card, "card of row ids", "a row from 1 to the number of rows in each field")
    }
}

/// The formats in the fourth card, each with its brackets.
fn format_words(card: &[u8]) -> Vec<&[u8]> {
    let mut words = Vec::new();
    let mut rest = card;
    while let Some(begin) = rest.iter().position(|&b| b == b'(') {
        let end = rest[begin..].iter().position(|&b| b == b')').map_or(rest.len(), |len| begin + len + 1);
        words.push(&rest[begin..end]);
        rest = &rest[end..];
    }
    words
}

fn whole(number: Option<(f64, usize)>, word: &[u8]) -> Option<f64> {
    number.filter(|&(_, end)| end == word.len()).map(|(value, _)| value)
}

/// A real as Fortran writes it, where an exponent of three digits leaves no room for its letter: `0.5-100`.
fn fortran(word: &[u8]) -> Option<f64> {
    if word.is_empty() {
        return None;
    }
    let number = real(word, 0);
    let Some((_, end)) = number.filter(|&(_, end)| end != word.len()) else { return whole(number, word) };
    if !matches!(word[end], b'+' | b'-') || !word[end - 1].is_ascii_digit() && word[end - 1] != b'.' {
        return None;
    }
    let lettered = [&word[..end], b"E", &word[end..]].concat();
    whole(real(&lettered, 0), &lettered)
}

impl EdgeSource for RutherfordBoeing<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        self.entries
    }

    fn pass(
        &self,
        pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        let size = PIECE.next_multiple_of(self.row_cards.per_card);
        let first_bad = AtomicUsize::new(usize::MAX);
        let cancelled = AtomicBool::new(false);
        (0..self.entries.div_ceil(size)).into_par_iter().for_each(|piece| {
            if progress.is_cancelled() {
                cancelled.store(true, Relaxed);
            }
            if cancelled.load(Relaxed) {
                return;
            }
            let (begin, end) = (piece * size, ((piece + 1) * size).min(self.entries));
            if let Err(card) = self.piece(begin, end, pass, take) {
                first_bad.fetch_min(card, Relaxed);
            }
            progress.advance(end - begin);
        });
        if cancelled.into_inner() {
            return Err(LoadError::Interrupted);
        }
        match first_bad.into_inner() {
            usize::MAX => Ok(()),
            card => Err(self.explain(card)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fortran_formats_say_how_many_fields_of_which_width() {
        for (format, per_card, width) in [
            ("(16I5)", 16, 5),
            ("(1P3D24.15)", 3, 24),
            ("(1P,5E16.8)", 5, 16),
            ("(3e26.18)", 3, 26),
            ("(I10)", 1, 10),
            ("( 4E20.12 )", 4, 20),
            ("(0P6F13.5)", 6, 13),
        ] {
            assert_eq!(Cards::read(format.as_bytes()), Some(Cards { per_card, width }), "{format}");
        }
        for format in ["", "16I5", "(16X5)", "(16I)", "(0I5)", "(99999999999999999999I5)", "(6(1X,F12.5))"] {
            assert_eq!(Cards::read(format.as_bytes()), None, "{format}");
        }
    }

    #[test]
    fn fortran_reals_without_a_letter_before_the_exponent_are_read() {
        assert_eq!(fortran(b"0.5-100"), Some(0.5e-100));
        assert_eq!(fortran(b"-1.25+102"), Some(-1.25e102));
        assert_eq!(fortran(b"1.0D+02"), Some(100.0));
        assert_eq!(fortran(b".5"), Some(0.5));
        for word in ["", "x", "1.0D", "-", "1-", "1.5e3-2"] {
            assert_eq!(fortran(word.as_bytes()), None, "{word}");
        }
    }
}
