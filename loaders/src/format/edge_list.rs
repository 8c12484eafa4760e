//! Edge lists: a line an edge, `source target` or `source target weight`, ids from 0; and tables with a line of names.
//!
//! Numbers are separated by blanks, tabs, a comma or a semicolon. Lines that are blank or begin with `#`, `%` or `//` are
//! skipped. The first line that is left says how many columns there are; if it has no numbers, it names the columns (a
//! table, CSV), and those of source, target and weight are found by the names that are common for them, or by
//! [`LoadOptions::columns`]. The largest id is that of the last vertex, and ids that never occur are vertices without
//! edges; [`LoadOptions::relabel`] leaves those out.
//!
//! Sources: the edge lists of SNAP, `.el` and `.wel` of the GAP benchmark suite.

use std::path::Path;

use super::lines::{self, Columns, Ids, Lines};
use crate::builder::Batch;
use crate::error::{LoadError, Place};
use crate::options::LoadOptions;
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Shape, Symmetry};
use crate::text::{Text, quote};

/// An edge list or a table.
pub(crate) struct EdgeList<'a> {
    text: &'a Text<'a>,
    facts: Facts,
    lines: Lines,
    ids: Ids,
}

impl<'a> EdgeList<'a> {
    /// Looks at the first lines.
    pub(crate) fn open(
        text: &'a Text<'a>,
        options: &LoadOptions,
        progress: &dyn Progress,
    ) -> Result<Self, LoadError> {
        let head = Head::read(text.bytes);
        let lines = head.lines(text, options.columns.as_deref())?;
        let ids = if options.relabel { Ids::Names(lines.names(text, progress)?) } else { Ids::ANY };
        let weighted = lines.columns.weight.is_some();
        let facts = Facts {
            path: text.path(),
            format: match (&head.names, head.separator, weighted) {
                (Some(_), Some(b','), _) => "CSV",
                (Some(_), _, _) => "table",
                (None, _, true) => "weighted edge list",
                (None, _, false) => "edge list",
            }
            .to_owned(),
            field: if weighted { Field::Number } else { Field::Pattern },
            symmetry: Symmetry::General,
            shape: ids.names().map(|names| Shape::square(names.len() as u64)),
            place: Place::default(),
            entries: 0,
            dense: None,
        };
        Ok(Self { text, facts, lines, ids })
    }
}

impl EdgeSource for EdgeList<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        (self.text.bytes.len() - self.lines.body) as u64
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn pass(
        &self,
        pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        self.lines.pass(self.text, &self.ids, pass, progress, take).map(|_| ())
    }

    fn original_ids(&self) -> Option<&[u64]> {
        self.ids.names()
    }
}

/// Whether the text begins like an edge list.
pub(super) fn is_edge_list(bytes: &[u8]) -> bool {
    lines::first_line(bytes, lines::begin(bytes)).is_some_and(|line| lines::is_edge(bytes, line))
}

/// Whether the text begins like a table: a line without numbers, and one with numbers in at least two columns.
pub(super) fn is_table(bytes: &[u8]) -> bool {
    let head = Head::read(bytes);
    let Some(names) = head.names else { return false };
    let Some(line) = lines::first_line(bytes, head.body) else { return false };
    let words = lines::words(lines::line_at(bytes, line), head.separator);
    let numbers = words.iter().filter(|word| is_number(word)).count();
    words.len() == names.len() && numbers >= 2
}

fn is_number(word: &[u8]) -> bool {
    lines::number(word, 0, false).is_some_and(|(_, end)| end == word.len())
}

/// The first lines: names of columns if there are any, and the first edge.
struct Head<'a> {
    /// Of a table.
    names: Option<Vec<&'a [u8]>>,
    /// Of a comment right above the first edge that has as many words as that.
    comment: Option<Vec<&'a [u8]>>,
    separator: Option<u8>,
    /// The words of the first edge.
    first: Vec<&'a [u8]>,
    /// Where that begins.
    line: usize,
    body: usize,
}

impl<'a> Head<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let begin = lines::begin(bytes);
        let line = lines::first_line(bytes, begin).unwrap_or(bytes.len());
        let text = lines::line_at(bytes, line);
        let separator = [b',', b';', b'\t', b'|'].into_iter().find(|separator| text.contains(separator));
        let words = lines::words(text, separator);
        let is_names = words.len() >= 2 && !words.iter().any(|word| is_number(word));
        if is_names {
            let body = lines::next_line(bytes, line);
            let line = lines::first_line(bytes, body).unwrap_or(bytes.len());
            let first = lines::words(lines::line_at(bytes, line), separator);
            return Self { names: Some(words), comment: None, separator, first, line, body };
        }
        let first = lines::words(text, None);
        let before = bytes.get(..line).unwrap_or_default();
        let before = before.strip_suffix(b"\n").unwrap_or(before);
        let comment = before.rsplit(|&b| b == b'\n').next().unwrap_or_default();
        let marks = comment.iter().take_while(|b| matches!(b, b'#' | b'%' | b'/' | b' ')).count();
        let comment = lines::words(&comment[marks..], None);
        let comment = (comment.len() == first.len()).then_some(comment);
        // A field in quotes, or an empty one, can only be told where its separator is known.
        let quoted =
            text.contains(&b'"') || separator.is_some_and(|s| text.windows(2).any(|two| two == [s, s]));
        let separator = separator.filter(|&separator| quoted || separator == b'|');
        let first = if separator.is_some() { lines::words(text, separator) } else { first };
        Self { names: None, comment, separator, first, line, body: begin }
    }

    /// Where the edges are, by what the caller asks for and by what the file says.
    fn lines(&self, text: &Text<'_>, asked: Option<&str>) -> Result<Lines, LoadError> {
        let names = self.names.as_deref().or(self.comment.as_deref());
        let (source, target, weight) = match (asked, &self.names) {
            (Some(asked), _) => asked_columns(asked, names, self.first.len(), text.path)?,
            (None, Some(names)) => columns_by_names(names).ok_or_else(|| self.many(text))?,
            (None, None) if self.first.len() > 3 => return Err(self.many(text)),
            (None, None) => (0, 1, (self.first.len() == 3).then_some(2)),
        };
        let columns = Columns { source, target, weight, separator: self.separator };
        let in_order = Columns::in_order(columns.weight.is_some());
        let all = 2 + usize::from(columns.weight.is_some());
        let plain = matches!(self.separator, Some(b',' | b';' | b'\t') | None)
            && !lines::line_at(text.bytes, self.line).contains(&b'"');
        // Where nothing else is in the file, the fast loop reads it.
        let has_others = self.first.len() != all;
        let simple = Columns { separator: None, ..columns } == in_order && !has_others && plain;
        let columns = if simple { in_order } else { columns };
        Ok(Lines { body: self.body, prefix: None, columns, has_others })
    }

    fn many(&self, text: &Text<'_>) -> LoadError {
        let line =
            if self.names.is_some() { text.bytes[..self.body].len().saturating_sub(1) } else { self.line };
        let found = self.names.as_ref().unwrap_or(&self.first).iter().map(|word| quote(word));
        LoadError::ManyColumns {
            path: text.path(),
            line: text.line_number(line),
            found: found.collect::<Vec<_>>().join(", "),
        }
    }
}

/// The columns that the caller names, or numbers from 1: source, target, weight.
pub(super) fn asked_columns(
    asked: &str,
    names: Option<&[&[u8]]>,
    count: usize,
    path: &Path,
) -> Result<(usize, usize, Option<usize>), LoadError> {
    let find = |word: &str| -> Result<usize, LoadError> {
        let named =
            names.and_then(|names| names.iter().position(|name| name.eq_ignore_ascii_case(word.as_bytes())));
        let numbered = || word.parse::<usize>().ok().filter(|&column| column >= 1).map(|column| column - 1);
        match named.or_else(numbered) {
            Some(column) if column < count => Ok(column),
            _ => Err(LoadError::NoColumn {
                path: path.to_owned(),
                column: word.to_owned(),
                found: match names {
                    Some(names) => names.iter().map(|name| quote(name)).collect::<Vec<_>>().join(", "),
                    None => format!("{count} columns without names"),
                },
            }),
        }
    };
    let words: Vec<&str> = asked.split(',').map(str::trim).collect();
    match words[..] {
        [source, target] => Ok((find(source)?, find(target)?, None)),
        [source, target, weight] => Ok((find(source)?, find(target)?, Some(find(weight)?))),
        _ => Err(LoadError::ColumnsOption { asked: asked.to_owned() }),
    }
}

/// Source, target and weight by the names that are common for them; the first two or three columns if there are no more.
pub(super) fn columns_by_names(names: &[&[u8]]) -> Option<(usize, usize, Option<usize>)> {
    const ENDS: [(&str, &str); 12] = [
        ("src", "dst"),
        ("source", "target"),
        ("source", "destination"),
        ("from", "to"),
        ("u", "v"),
        ("i", "j"),
        ("row", "col"),
        ("row", "column"),
        ("tail", "head"),
        ("src_id", "dst_id"),
        ("source_id", "target_id"),
        (":start_id", ":end_id"),
    ];
    const WEIGHTS: [&str; 8] = ["weight", "w", "value", "val", "cost", "length", "distance", "dist"];
    let find = |name: &str| names.iter().position(|other| other.eq_ignore_ascii_case(name.as_bytes()));
    let ends = ENDS.iter().find_map(|(source, target)| Some((find(source)?, find(target)?)));
    match ends {
        Some((source, target)) => Some((source, target, WEIGHTS.iter().find_map(|name| find(name)))),
        None if names.len() == 2 => Some((0, 1, None)),
        None if names.len() == 3 => Some((0, 1, Some(2))),
        None => None,
    }
}
