//! MATLAB files of level 5 (`save -v7` and before), as the SuiteSparse collection ships them: the sparse matrix `Problem.A`,
//! or the only sparse matrix in the file; stored by columns, ids from 0.
//!
//! A head of 128 bytes, and elements: a tag of a type and a number of bytes, and those bytes, filled up to a multiple of
//! eight; where they are four at the most, they stand in the tag. An array is an element of elements: its class, its
//! dimensions, its name, and by class its contents. Most arrays are compressed with zlib, each by itself.
//!
//! `Problem.Zeros` lists entries that are stored but zero: they are edges of weight 0. Files of level 7.3 are HDF5, and are
//! refused, as are those of level 4.
//!
//! Source: The MathWorks, "MAT-File Format" (R2019b), chapter 1.

use std::borrow::Cow;
use std::ops::Range;

use flate2::bufread::ZlibDecoder;

use super::rows::{self, Rows, bytes_at};
use crate::builder::Batch;
use crate::error::{LoadError, Place};
use crate::memory;
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Shape, Symmetry};
use crate::text::Text;

const HEAD: usize = 128;
const FORMAT: &str = "MATLAB 5";

mod element {
    pub(super) const MATRIX: u32 = 14;
    pub(super) const COMPRESSED: u32 = 15;
}

mod class {
    pub(super) const STRUCT: u8 = 2;
    pub(super) const SPARSE: u8 = 5;
}

/// Bit of the flags of an array that tells a complex one.
const COMPLEX: u8 = 0x08;

/// How a MATLAB file begins, of any level that says so in its head.
pub(super) fn is_matlab(bytes: &[u8]) -> bool {
    bytes.starts_with(b"MATLAB 5.0 MAT-file") || bytes.starts_with(b"MATLAB 7.3 MAT-file")
}

/// The bytes of an element of numbers, by their type.
#[derive(Clone, Copy, Debug)]
struct Numbers<'a> {
    bytes: &'a [u8],
    kind: u32,
    big: bool,
}

impl Numbers<'_> {
    fn width(&self) -> Option<usize> {
        Some(match self.kind {
            1 | 2 | 16 => 1,
            3 | 4 | 17 => 2,
            5..=7 | 18 => 4,
            9 | 12 | 13 => 8,
            _ => return None,
        })
    }

    fn len(&self) -> u64 {
        self.width().map_or(0, |width| (self.bytes.len() / width) as u64)
    }

    /// The number at `at`, 0 past the end.
    #[inline]
    fn get(&self, at: u64) -> f64 {
        macro_rules! read {
            ($type:ty) => {{
                const N: usize = size_of::<$type>();
                let bytes = bytes_at::<N>(self.bytes, at.saturating_mul(N as u64)).unwrap_or_default();
                if self.big { <$type>::from_be_bytes(bytes) } else { <$type>::from_le_bytes(bytes) }
            }};
        }
        match self.kind {
            1 => read!(i8).into(),
            2 | 16 => read!(u8).into(),
            3 => read!(i16).into(),
            4 | 17 => read!(u16).into(),
            5 => read!(i32).into(),
            6 | 18 => read!(u32).into(),
            7 => read!(f32).into(),
            9 => read!(f64),
            12 => read!(i64) as f64,
            13 => read!(u64) as f64,
            _ => 0.0,
        }
    }

    /// The number at `at` as a count; too large for any if it is negative.
    #[inline]
    fn count(&self, at: u64) -> u64 {
        let number = self.get(at);
        if number >= 0.0 { number as u64 } else { u64::MAX }
    }
}

/// Elements one after another.
struct Elements<'a> {
    bytes: &'a [u8],
    at: usize,
    big: bool,
}

impl<'a> Elements<'a> {
    /// The next element: its type and its bytes; `None` at the end, an error if it is cut short.
    fn next(&mut self) -> Result<Option<(u32, &'a [u8])>, String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let word = |at: usize| -> Option<u32> {
            let bytes = rest.get(at..)?.first_chunk::<4>()?;
            Some(if self.big { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) })
        };
        let cut = || format!("the element at byte {} is cut short", self.at);
        let (Some(first), Some(second)) = (word(0), word(4)) else { return Err(cut()) };
        // A small element has its size in the upper half of its first word.
        let (kind, range, next) = match first >> 16 {
            0 => {
                let end = (second as usize).checked_add(8).ok_or_else(cut)?;
                // Compressed elements are not filled up.
                let next = if first == element::COMPRESSED { end } else { end.next_multiple_of(8) };
                (first, 8..end, next)
            }
            size => (first & 0xFFFF, 4..4 + size.min(4) as usize, 8),
        };
        let bytes = rest.get(range).ok_or_else(cut)?;
        self.at += next;
        Ok(Some((kind, bytes)))
    }

    fn numbers(&mut self, what: &str) -> Result<Numbers<'a>, String> {
        let (kind, bytes) = self.next()?.ok_or_else(|| format!("{what} are missing"))?;
        let numbers = Numbers { bytes, kind, big: self.big };
        if numbers.width().is_none() {
            return Err(format!("{what} are of type {kind}, which is none of numbers"));
        }
        Ok(numbers)
    }
}

/// What stands in front of the contents of an array.
struct Array<'a> {
    class: u8,
    complex: bool,
    rows: u64,
    columns: u64,
    name: String,
    contents: Elements<'a>,
}

impl<'a> Array<'a> {
    fn read(bytes: &'a [u8], big: bool) -> Result<Self, String> {
        let mut contents = Elements { bytes, at: 0, big };
        let flags = contents.numbers("the flags of an array")?;
        let word = flags.count(0);
        let dimensions = contents.numbers("the dimensions of an array")?;
        let (rows, columns) = match dimensions.len() {
            2 => (dimensions.count(0), dimensions.count(1)),
            _ => (0, 0), // neither a matrix nor the one structure
        };
        let name = contents.next()?.map_or(&b""[..], |(_, name)| name);
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        let (class, complex) = (word as u8, (word >> 8) as u8 & COMPLEX != 0);
        Ok(Self { class, complex, rows, columns, name, contents })
    }
}

/// Where the parts of a sparse matrix stand in the bytes of its variable.
#[derive(Clone, Debug)]
struct Sparse {
    rows: u64,
    columns: u64,
    entries: u64,
    row_ids: Part,
    first_entries: Part,
    values: Part,
    imaginary: Option<Part>,
}

/// An element of numbers, by its place.
#[derive(Clone, Debug)]
struct Part {
    range: Range<usize>,
    kind: u32,
}

impl Part {
    fn of(numbers: Numbers<'_>, whole: &[u8]) -> Self {
        // The bytes of an element are a part of those of its variable.
        let begin = numbers.bytes.as_ptr() as usize - whole.as_ptr() as usize;
        Self { range: begin..begin + numbers.bytes.len(), kind: numbers.kind }
    }

    #[inline]
    fn numbers<'a>(&self, whole: &'a [u8], big: bool) -> Numbers<'a> {
        Numbers { bytes: whole.get(self.range.clone()).unwrap_or_default(), kind: self.kind, big }
    }
}

impl Sparse {
    fn read(array: Array<'_>, whole: &[u8]) -> Result<Self, String> {
        let Array { complex, rows, columns, mut contents, .. } = array;
        let row_ids = contents.numbers("the row ids")?;
        let first_entries = contents.numbers("the column pointers")?;
        let has_entries = columns.checked_add(1).is_some_and(|len| first_entries.len() >= len);
        if !has_entries {
            return Err(format!("there are {} column pointers for {columns} columns", first_entries.len()));
        }
        let entries = first_entries.count(columns);
        let values = contents.numbers("the values")?;
        let imaginary = if complex { Some(contents.numbers("the imaginary parts")?) } else { None };
        let least = row_ids.len().min(values.len()).min(imaginary.map_or(u64::MAX, |numbers| numbers.len()));
        if least < entries {
            return Err(format!("there are {least} row ids and values for {entries} entries"));
        }
        let part = |numbers| Part::of(numbers, whole);
        Ok(Self {
            rows,
            columns,
            entries,
            row_ids: part(row_ids),
            first_entries: part(first_entries),
            values: part(values),
            imaginary: imaginary.map(part),
        })
    }
}

/// A matrix in a file, by the bytes of its variable.
pub(crate) struct Matlab<'a> {
    facts: Facts,
    big: bool,
    bytes: Cow<'a, [u8]>,
    matrix: Sparse,
    zeros: Option<Sparse>,
}

impl<'a> Matlab<'a> {
    pub(crate) fn open(text: &Text<'a>) -> Result<Self, LoadError> {
        let bytes = text.bytes;
        let damaged = |reason: String| LoadError::Damaged { path: text.path(), reason, format: FORMAT };
        if bytes.starts_with(b"MATLAB 7.3") {
            return Err(LoadError::Matlab73 { path: text.path() });
        }
        let big = match bytes.get(HEAD - 2..HEAD) {
            Some(b"IM") => false,
            Some(b"MI") => true,
            _ => return Err(damaged("its head of 128 bytes does not end like one".to_owned())),
        };
        let mut elements = Elements { bytes, at: HEAD, big };
        let (mut found, mut others) = (Vec::new(), Vec::new());
        while let Some((kind, contents)) = elements.next().map_err(damaged)? {
            let contents: Cow<'a, [u8]> = match kind {
                element::MATRIX => Cow::Borrowed(contents),
                element::COMPRESSED => {
                    let mut unpacked = Vec::new();
                    let mut decoder = ZlibDecoder::new(contents);
                    memory::read_to_end(&mut decoder, &mut unpacked, text.path, "zlib data", None)?;
                    // The tag of the array inside is not needed: it is all there is.
                    let mut inside = Elements { bytes: &unpacked, at: 0, big };
                    let (kind, array) = inside.next().map_err(damaged)?.unwrap_or((0, &[]));
                    if kind != element::MATRIX {
                        continue;
                    }
                    let begin = 8.min(unpacked.len());
                    let end = (begin + array.len()).min(unpacked.len());
                    unpacked.truncate(end);
                    unpacked.drain(..begin);
                    Cow::Owned(unpacked)
                }
                _ => continue,
            };
            match read_variable(&contents, big).map_err(damaged)? {
                Variable::Problem { matrix, zeros } => {
                    return Self::new(text, big, contents, matrix, zeros);
                }
                Variable::Sparse { name, matrix } => {
                    // Of two only the names are needed.
                    let contents = if found.is_empty() { contents } else { Cow::Borrowed(&[][..]) };
                    found.push((name, contents, matrix));
                }
                Variable::Other { name } => others.push(name),
            }
        }
        match found.len() {
            1 => {
                let (_, contents, matrix) = found.remove(0);
                Self::new(text, big, contents, matrix, None)
            }
            0 => Err(LoadError::NoSparseVariable { path: text.path(), found: others.join(", ") }),
            _ => {
                let (path, first, second) = (text.path(), found[0].0.clone(), found[1].0.clone());
                Err(LoadError::SeveralVariables { path, first, second })
            }
        }
    }

    fn new(
        text: &Text<'a>,
        big: bool,
        bytes: Cow<'a, [u8]>,
        matrix: Sparse,
        zeros: Option<Sparse>,
    ) -> Result<Self, LoadError> {
        let damaged = |reason: String| LoadError::Damaged { path: text.path(), reason, format: FORMAT };
        let (rows, columns) = (matrix.rows, matrix.columns);
        if zeros.as_ref().is_some_and(|zeros| (zeros.rows, zeros.columns) != (rows, columns)) {
            return Err(damaged("Problem.A and Problem.Zeros have different sizes".to_owned()));
        }
        let entries = matrix.entries + zeros.as_ref().map_or(0, |zeros| zeros.entries);
        let facts = Facts {
            path: text.path(),
            format: FORMAT.to_owned(),
            field: if matrix.imaginary.is_some() { Field::Complex } else { Field::Real },
            symmetry: Symmetry::General,
            shape: Some(Shape { rows, columns }),
            place: Place::default(),
            entries,
            dense: None,
        };
        let file = Self { facts, big, bytes, matrix, zeros };
        for sparse in file.parts() {
            if let Some(column) = rows::first_bad_row(&sparse) {
                return Err(damaged(format!(
                    "the entries of column {column} do not follow those of the last"
                )));
            }
        }
        Ok(file)
    }

    /// The matrix, and the list of its explicit zeros.
    fn parts(&self) -> impl Iterator<Item = Columns<'_>> {
        let columns = |sparse: &Sparse, is_zero: bool| {
            let numbers = |part: &Part| part.numbers(&self.bytes, self.big);
            Columns {
                columns: sparse.columns,
                entries: sparse.entries,
                row_ids: numbers(&sparse.row_ids),
                first_entries: numbers(&sparse.first_entries),
                values: (!is_zero).then(|| numbers(&sparse.values)),
                imaginary: sparse.imaginary.as_ref().filter(|_| !is_zero).map(numbers),
            }
        };
        let zeros = self.zeros.as_ref().map(|zeros| columns(zeros, true));
        std::iter::once(columns(&self.matrix, false)).chain(zeros)
    }
}

/// What a variable is.
enum Variable {
    /// The structure of the SuiteSparse collection.
    Problem {
        matrix: Sparse,
        zeros: Option<Sparse>,
    },
    Sparse {
        name: String,
        matrix: Sparse,
    },
    Other {
        name: String,
    },
}

fn read_variable(whole: &[u8], big: bool) -> Result<Variable, String> {
    let array = Array::read(whole, big)?;
    let name = array.name.clone();
    match array.class {
        class::SPARSE => Ok(Variable::Sparse { name, matrix: Sparse::read(array, whole)? }),
        class::STRUCT if (array.rows, array.columns) == (1, 1) => {
            let mut contents = array.contents;
            let length = contents.numbers("the length of field names")?.count(0) as usize;
            let names = contents.next()?.map_or(&b""[..], |(_, names)| names);
            if length == 0 {
                return Ok(Variable::Other { name });
            }
            let (mut matrix, mut zeros) = (None, None);
            for field in names.chunks_exact(length.min(names.len().max(1))) {
                let field = field.split(|&b| b == 0).next().unwrap_or_default();
                let Some((kind, bytes)) = contents.next()? else { break };
                if kind != element::MATRIX || !matches!(field, b"A" | b"Zeros") {
                    continue;
                }
                let array = Array::read(bytes, big)?;
                if array.class == class::SPARSE {
                    let sparse = Some(Sparse::read(array, whole)?);
                    if field == b"A" { matrix = sparse } else { zeros = sparse }
                }
            }
            match matrix {
                Some(matrix) => Ok(Variable::Problem { matrix, zeros }),
                None => Ok(Variable::Other { name }),
            }
        }
        _ => Ok(Variable::Other { name }),
    }
}

/// A sparse matrix by columns.
struct Columns<'a> {
    columns: u64,
    entries: u64,
    row_ids: Numbers<'a>,
    first_entries: Numbers<'a>,
    /// `None` for zeros.
    values: Option<Numbers<'a>>,
    imaginary: Option<Numbers<'a>>,
}

impl Rows for Columns<'_> {
    fn num_rows(&self) -> u64 {
        self.columns
    }

    fn num_entries(&self) -> u64 {
        self.entries
    }

    #[inline]
    fn begin(&self, row: u64) -> u64 {
        self.first_entries.count(row)
    }

    #[inline]
    fn entry(&self, entry: u64) -> (u64, f64) {
        let value = self.values.map_or(0.0, |values| values.get(entry));
        let value = match self.imaginary {
            Some(imaginary) => value.hypot(imaginary.get(entry)),
            None => value,
        };
        (self.row_ids.count(entry), value)
    }
}

impl EdgeSource for Matlab<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        self.facts.entries
    }

    fn pass(
        &self,
        pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        let most = self.matrix.rows;
        for columns in self.parts() {
            rows::pass(&columns, most, true, pass.keeps_values, 1, progress, take)?.map_err(|entry| {
                let (path, (id, value)) = (self.facts.path.clone(), columns.entry(entry));
                match id < most {
                    true => LoadError::BadValue { path, entry, value },
                    false => LoadError::BadEntry { path, entry, id, most },
                }
            })?;
        }
        Ok(())
    }
}
