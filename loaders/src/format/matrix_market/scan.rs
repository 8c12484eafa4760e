//! The loop over lines, and the slow second look at the one line that it refused.

use std::ops::Range;

use memchr::memchr;

use super::header::{Header, Layout};
use crate::error::LoadError;
use crate::number::{byte, integer, is_blank, real, skip_blanks, unsigned};
use crate::short_line::{ShortLine, short_line};
use crate::source::{Field, Symmetry};
use crate::text::{Text, quote};

/// What the loop does with the values of entries: a constant of each instance of it.
pub(super) mod values {
    /// There are none.
    pub(crate) const NONE: u8 = 0;
    /// There are some, and they were checked before: skip to the end of the line.
    pub(crate) const SKIP: u8 = 1;
    pub(crate) const INTEGER: u8 = 2;
    pub(crate) const REAL: u8 = 3;
    /// Two reals, of which the modulus is taken.
    pub(crate) const COMPLEX: u8 = 4;
}

/// Takes the entries of a piece, ids from 0. The value of a pattern entry is 1.
pub(super) trait Sink {
    /// False refuses the entry.
    fn entry(&mut self, row: u32, column: u32, value: f64) -> bool;
}

/// Whether each value must be held exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exact(pub bool);

/// Value and the end of it; `None` if it is no number.
#[inline(always)]
fn value<const VALUES: u8>(bytes: &[u8], at: usize, exact: Exact) -> Option<(f64, usize)> {
    match VALUES {
        values::INTEGER => integer(bytes, at, exact.0),
        values::REAL => real(bytes, at),
        _ => {
            let (re, end) = real(bytes, at)?;
            let next = skip_blanks(bytes, end);
            let (im, end) = if next > end { real(bytes, next)? } else { return None };
            Some((re.hypot(im), end))
        }
    }
}

/// Past the line feed of the line that `at` is in.
#[inline(always)]
fn next_line(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).and_then(|rest| memchr(b'\n', rest)).map_or(bytes.len(), |len| at + len + 1)
}

/// Where the first number of a line stands; the beginning of the next line if it is blank or a comment.
#[inline(always)]
fn first_number(bytes: &[u8], line: usize) -> Result<usize, usize> {
    let at = skip_blanks(bytes, line);
    match byte(bytes, at) {
        b'\n' => Err(at + 1),
        b'%' => Err(next_line(bytes, at)),
        _ => Ok(at),
    }
}

/// Past the line feed, if nothing but blanks stands before it.
#[inline(always)]
fn end_of_line(bytes: &[u8], at: usize) -> Option<usize> {
    if byte(bytes, at) == b'\n' {
        return Some(at + 1);
    }
    let at = skip_blanks(bytes, at);
    (byte(bytes, at) == b'\n').then_some(at + 1)
}

/// Reads the `coordinate` lines that begin in `lines`; fails with the offset of the first line that is no entry of
/// the matrix.
pub(super) fn coordinates<const VALUES: u8>(
    bytes: &[u8],
    lines: Range<usize>,
    header: &Header,
    exact: Exact,
    sink: &mut impl Sink,
) -> Result<(), usize> {
    let (rows, columns) = (header.rows, header.columns);
    let mut line = lines.start;
    while line < lines.end {
        if let Some(short) = short_line(bytes, line, VALUES >= values::INTEGER, is_blank)
            && let Some((value, next)) = short_value::<VALUES>(bytes, &short, exact)
        {
            let [row, column] = short.numbers.map(|id| id.wrapping_sub(1));
            if u64::from(row) >= rows || u64::from(column) >= columns || !sink.entry(row, column, value) {
                return Err(line);
            }
            line = next;
            continue;
        }
        let begin = match first_number(bytes, line) {
            Ok(begin) => begin,
            Err(next) => {
                line = next;
                continue;
            }
        };
        let (row, end) = unsigned(bytes, begin);
        // An id of 0 wraps to the largest number and is out of range like one that is too large.
        if row.wrapping_sub(1) >= rows || !is_blank(byte(bytes, end)) || end == begin {
            return Err(line);
        }
        let begin = skip_blanks(bytes, end + 1);
        let (column, end) = unsigned(bytes, begin);
        if column.wrapping_sub(1) >= columns || end == begin {
            return Err(line);
        }
        let (value, next) = match VALUES {
            values::NONE => (1.0, end_of_line(bytes, end).ok_or(line)?),
            values::SKIP => (1.0, next_line(bytes, end)),
            _ => {
                if !is_blank(byte(bytes, end)) {
                    return Err(line);
                }
                let (value, end) = value::<VALUES>(bytes, skip_blanks(bytes, end + 1), exact).ok_or(line)?;
                (value, end_of_line(bytes, end).ok_or(line)?)
            }
        };
        if !sink.entry((row - 1) as u32, (column - 1) as u32, value) {
            return Err(line);
        }
        line = next;
    }
    Ok(())
}

/// The value of an entry whose ids are read, and where the next line begins; `None` leaves the line to a closer look.
#[inline(always)]
fn short_value<const VALUES: u8>(bytes: &[u8], short: &ShortLine, exact: Exact) -> Option<(f64, usize)> {
    match (VALUES, short.third) {
        (values::NONE, _) => (byte(bytes, short.end) == b'\n').then_some((1.0, short.end + 1)),
        (values::SKIP, _) => Some((1.0, next_line(bytes, short.end))),
        (values::INTEGER | values::REAL, Some((value, next))) => Some((f64::from(value), next)),
        _ => {
            let begin = skip_blanks(bytes, short.end);
            let (value, end) =
                if begin > short.end { value::<VALUES>(bytes, begin, exact)? } else { return None };
            Some((value, end_of_line(bytes, end)?))
        }
    }
}

/// Number of lines that begin in `lines` and are neither blank nor comments.
pub(super) fn count_lines(bytes: &[u8], lines: Range<usize>) -> u64 {
    let (mut line, mut count) = (lines.start, 0);
    while line < lines.end {
        line = match first_number(bytes, line) {
            Ok(begin) => {
                count += 1;
                next_line(bytes, begin)
            }
            Err(next) => next,
        };
    }
    count
}

/// Reads the values of an `array` file that begin in `lines`, the first of them being number `first` of the matrix in
/// the order of its columns; zeros are no entries.
pub(super) fn array<const VALUES: u8>(
    bytes: &[u8],
    lines: Range<usize>,
    first: u64,
    header: &Header,
    exact: Exact,
    sink: &mut impl Sink,
) -> Result<(), usize> {
    let mut position = Position::of(first, header);
    let mut line = lines.start;
    while line < lines.end {
        let begin = match first_number(bytes, line) {
            Ok(begin) => begin,
            Err(next) => {
                line = next;
                continue;
            }
        };
        let (value, end) = value::<VALUES>(bytes, begin, exact).ok_or(line)?;
        let next = end_of_line(bytes, end).ok_or(line)?;
        // Values beyond the last column are too many, which the count says; they are no entries.
        if value != 0.0
            && position.column < header.columns
            && !sink.entry(position.row as u32, position.column as u32, value)
        {
            return Err(line);
        }
        position.advance(header);
        line = next;
    }
    Ok(())
}

/// A place in a dense matrix, in the order of its file.
struct Position {
    row: u64,
    column: u64,
}

/// The first row that an `array` file holds of a column.
fn first_row(column: u64, symmetry: Symmetry) -> u64 {
    match symmetry {
        Symmetry::General => 0,
        Symmetry::Skew => column + 1,
        Symmetry::Symmetric | Symmetry::Hermitian => column,
    }
}

impl Position {
    fn of(index: u64, header: &Header) -> Self {
        let rows = header.rows;
        let before = |column: u64| -> u128 {
            // Values in the columns before this one: rows of each, less the triangle that is left out.
            let (rows, column) = (u128::from(rows), u128::from(column));
            match header.symmetry {
                Symmetry::General => rows * column,
                Symmetry::Skew => (rows * column).saturating_sub(column * (column + 1) / 2),
                Symmetry::Symmetric | Symmetry::Hermitian => {
                    rows * column - column * column.saturating_sub(1) / 2
                }
            }
        };
        let (mut low, mut high) = (0, header.columns);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if before(middle) <= u128::from(index) { low = middle } else { high = middle - 1 }
        }
        let row = first_row(low, header.symmetry) + (u128::from(index) - before(low)) as u64;
        Self { row, column: low }
    }

    #[inline(always)]
    fn advance(&mut self, header: &Header) {
        self.row += 1;
        while self.row >= header.rows && self.column < header.columns {
            self.column += 1;
            self.row = first_row(self.column, header.symmetry);
        }
    }
}

/// Says what is wrong with the line at `line`, which the loop refused.
pub(super) fn explain(text: &Text<'_>, line: usize, header: &Header, keeps_values: bool) -> LoadError {
    let (path, offset) = (text.path(), line);
    let bytes = &text.bytes[offset..];
    let bytes = &bytes[..memchr(b'\n', bytes).unwrap_or(bytes.len())];
    let line = text.line_number(offset);
    let mut words = bytes.split(|&b| is_blank(b)).filter(|word| !word.is_empty());
    let expected = header.expected_line();
    let found = text.line_text(offset);

    let mut ids = [0; 2];
    if header.layout == Layout::Coordinate {
        for (id, (what, most)) in ids.iter_mut().zip([("row", header.rows), ("column", header.columns)]) {
            let Some(word) = words.next() else {
                return LoadError::MissingNumber { path, line, found, missing: what, expected };
            };
            let (number, end) = unsigned(word, 0);
            if end != word.len() {
                let (found, expected) = (quote(word), "an id: digits only, from 1");
                return LoadError::NotANumber { path, line, what, found, expected };
            }
            if number == 0 {
                return LoadError::IdZero { path, line, what };
            }
            if number > most {
                return LoadError::IdOutOfRange { path, line, what, id: quote(word), most };
            }
            *id = number;
        }
    }
    let parts: &[&'static str] = match header.field {
        Field::Pattern => &[],
        Field::Complex => &["real part", "imaginary part"],
        Field::Integer | Field::Real | Field::Number => &["value"],
    };
    for &what in parts {
        let Some(word) = words.next() else {
            return LoadError::MissingNumber { path, line, found, missing: what, expected };
        };
        let number = match header.field {
            Field::Integer => integer(word, 0, false),
            _ => real(word, 0),
        };
        match number {
            Some((value, end)) if end == word.len() => {
                if header.field == Field::Integer && keeps_values && integer(word, 0, true).is_none() {
                    return LoadError::TooLargeInteger { path, line, found: quote(word) };
                }
                if keeps_values && !value.is_finite() {
                    return LoadError::NotFinite { path, line, found: quote(word) };
                }
            }
            _ => {
                let expected = match header.field {
                    Field::Integer if real(word, 0).is_some_and(|(_, end)| end == word.len()) => {
                        "an integer, which the banner says it is; write \"real\" in the banner"
                    }
                    Field::Integer => "an integer",
                    _ => "a number",
                };
                return LoadError::NotANumber { path, line, what, found: quote(word), expected };
            }
        }
    }
    if words.next().is_some() {
        return LoadError::SurplusText { path, line, found, expected };
    }
    if header.symmetry == Symmetry::Skew && ids[0] == ids[1] && header.layout == Layout::Coordinate {
        return LoadError::SkewDiagonal { path, line, found };
    }
    LoadError::NotANumber { path, line, what: "value", found, expected: "a number that a weight can be" }
}
