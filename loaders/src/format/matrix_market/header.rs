//! The banner and the size line: what kind of matrix the file holds, and how large it says it is.

use std::path::Path;

use gpuvm_engine::graph::MAX_VERTICES;
use memchr::memchr;

use crate::error::LoadError;
use crate::number::{is_blank, skip_blanks, unsigned};
use crate::options::{LoadOptions, WeightRule};
use crate::source::{Dense, Facts, Field, Shape, Symmetry};
use crate::text::Text;

/// Whether entries are listed with their ids or all values in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Coordinate,
    Array,
}

impl Layout {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Coordinate => "coordinate",
            Self::Array => "array",
        }
    }
}

/// What stands above the entries.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub layout: Layout,
    pub field: Field,
    pub symmetry: Symmetry,
    pub rows: u64,
    pub columns: u64,
    /// Entries that the file must hold.
    pub entries: u64,
    pub size_line: u64,
    /// Where the entries begin.
    pub body: usize,
}

/// Whether a file begins like a Matrix Market file, blanks aside.
pub(crate) fn has_banner(bytes: &[u8]) -> bool {
    let begin = skip_white(bytes, 0);
    bytes.get(begin..begin + BANNER.len()).is_some_and(|word| word.eq_ignore_ascii_case(BANNER))
}

const BANNER: &[u8] = b"%%MatrixMarket";
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

fn skip_white(bytes: &[u8], at: usize) -> usize {
    let at = if bytes.starts_with(BYTE_ORDER_MARK) { at.max(BYTE_ORDER_MARK.len()) } else { at };
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(rest.len())
}

/// The end of the line that `at` is in: its line feed, or the end of the text.
fn line_end(bytes: &[u8], at: usize) -> usize {
    memchr(b'\n', &bytes[at.min(bytes.len())..]).map_or(bytes.len(), |len| at + len)
}

impl Header {
    /// Reads the banner and the size line and refuses what can be refused by them alone.
    pub(super) fn read(text: &Text<'_>, options: &LoadOptions) -> Result<Self, LoadError> {
        let bytes = text.bytes;
        if !has_banner(bytes) {
            return Err(LoadError::NoBanner { path: text.path(), found: text.line_text(0) });
        }
        let begin = skip_white(bytes, 0);
        let end = line_end(bytes, begin);
        let line = text.line_number(begin);
        let mut words = bytes[begin..end].split(|&b| is_blank(b)).filter(|word| !word.is_empty()).skip(1);
        let mut word = |what: &'static str, allowed: &'static str, choose: &dyn Fn(&str) -> bool| {
            let found = words.next().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase());
            let found = found.unwrap_or_default();
            if choose(&found) {
                return Ok(found);
            }
            let found = found.chars().take(40).collect();
            Err(LoadError::BannerWord { path: text.path(), line, what, found, allowed })
        };
        word("object", "matrix", &|w| w == "matrix")?;
        let layout =
            match word("format", "coordinate or array", &|w| matches!(w, "coordinate" | "array"))?.as_str() {
                "coordinate" => Layout::Coordinate,
                _ => Layout::Array,
            };
        let field = match word("field", "pattern, integer, real or complex", &|w| {
            matches!(w, "pattern" | "integer" | "unsigned-integer" | "real" | "double" | "complex")
        })?
        .as_str()
        {
            "pattern" => Field::Pattern,
            "integer" | "unsigned-integer" => Field::Integer,
            "complex" => Field::Complex,
            _ => Field::Real,
        };
        if layout == Layout::Array && field == Field::Pattern {
            let (found, allowed) = ("pattern".to_owned(), "integer, real or complex in an array file");
            return Err(LoadError::BannerWord { path: text.path(), line, what: "field", found, allowed });
        }
        let symmetry = match word("symmetry", "general, symmetric, skew-symmetric or hermitian", &|w| {
            matches!(w, "general" | "symmetric" | "skew-symmetric" | "hermitian")
        })?
        .as_str()
        {
            "general" => Symmetry::General,
            "symmetric" => Symmetry::Symmetric,
            "hermitian" => Symmetry::Hermitian,
            _ => Symmetry::Skew,
        };
        word("end", "the end of the line", &str::is_empty)?;
        if field == Field::Complex && options.weights == WeightRule::File {
            return Err(LoadError::ComplexWeights { path: text.path(), line: line.into() });
        }
        Self::read_size_line(text, options, end, layout, field, symmetry)
    }

    fn read_size_line(
        text: &Text<'_>,
        options: &LoadOptions,
        mut at: usize,
        layout: Layout,
        field: Field,
        symmetry: Symmetry,
    ) -> Result<Self, LoadError> {
        let bytes = text.bytes;
        let expected = match layout {
            Layout::Coordinate => "three numbers: rows, columns, entries",
            Layout::Array => "two numbers: rows, columns",
        };
        let begin = loop {
            at = skip_blanks(bytes, at);
            match bytes.get(at) {
                None => {
                    let line = text.line_number(bytes.len().saturating_sub(1));
                    return Err(LoadError::NoSizeLine { path: text.path(), line, expected });
                }
                Some(b'\n') => at += 1,
                Some(b'%') => at = line_end(bytes, at),
                Some(_) => break at,
            }
        };
        let end = line_end(bytes, begin);
        let size_line = text.line_number(begin);
        let numbers = Self::numbers(&bytes[begin..end]);
        let (rows, columns, entries) = match (layout, numbers.as_deref()) {
            (Layout::Coordinate, Some(&[rows, columns, entries])) => (rows, columns, entries),
            (Layout::Array, Some(&[rows, columns])) => {
                (rows, columns, array_entries(rows, columns, symmetry))
            }
            _ => {
                let found = text.line_text(begin);
                return Err(LoadError::SizeLine { path: text.path(), line: size_line, found, expected });
            }
        };
        let path = text.path();
        if symmetry != Symmetry::General && rows != columns {
            let symmetry = symmetry.name();
            return Err(LoadError::SymmetricNotSquare { path, line: size_line, rows, columns, symmetry });
        }
        let num_vertices = if options.bipartite { rows.saturating_add(columns) } else { rows.max(columns) };
        if num_vertices > MAX_VERTICES {
            return Err(LoadError::TooManyVertices {
                path,
                line: size_line.into(),
                rows,
                columns,
                num_vertices,
            });
        }
        let body = (end + 1).min(bytes.len());
        Ok(Self { layout, field, symmetry, rows, columns, entries, size_line, body })
    }

    /// The numbers of a size line, saturated; `None` if something else is there.
    fn numbers(line: &[u8]) -> Option<Vec<u64>> {
        line.split(|&b| is_blank(b))
            .filter(|word| !word.is_empty())
            .take(4)
            .map(|word| match unsigned(word, 0) {
                (number, end) if end == word.len() => Some(number),
                _ => None,
            })
            .collect()
    }

    /// What the loader is told.
    pub(super) fn facts(&self, path: &Path) -> Facts {
        let &Self { layout, field, symmetry, rows, columns, entries, size_line, .. } = self;
        let cells = match symmetry {
            Symmetry::Skew => entries.saturating_mul(2),
            _ => rows.saturating_mul(columns),
        };
        Facts {
            path: path.to_owned(),
            format: format!("Matrix Market {}", layout.name()),
            field,
            symmetry,
            shape: Some(Shape { rows, columns }),
            place: size_line.into(),
            entries,
            dense: (layout == Layout::Array).then_some(Dense { stored: entries, cells }),
        }
    }

    /// What each line of the body must be.
    pub(super) fn expected_line(&self) -> &'static str {
        match (self.layout, self.field) {
            (Layout::Coordinate, Field::Pattern) => "\"row column\"",
            (Layout::Coordinate, Field::Complex) => "\"row column real imaginary\"",
            (Layout::Coordinate, _) => "\"row column value\"",
            (Layout::Array, Field::Complex) => "\"real imaginary\"",
            (Layout::Array, _) => "one value",
        }
    }
}

/// Values in an `array` file: one triangle where the other follows from it.
fn array_entries(rows: u64, columns: u64, symmetry: Symmetry) -> u64 {
    let (rows, columns) = (u128::from(rows), u128::from(columns));
    let entries = match symmetry {
        Symmetry::General => rows * columns,
        Symmetry::Skew => rows * rows.saturating_sub(1) / 2,
        Symmetry::Symmetric | Symmetry::Hermitian => rows * (rows + 1) / 2,
    };
    u64::try_from(entries).unwrap_or(u64::MAX)
}
