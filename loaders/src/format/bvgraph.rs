//! BVGraph, the compressed web graphs of LAW: `NAME.graph`, and `NAME.properties` which says how to read it; ids from 0.
//!
//! The graph is a stream of bits, the highest of each byte first: for each vertex its number of successors; which of the
//! vertices before it has a list that parts are copied from; the lengths of the stretches that are copied and left out in
//! turn; intervals of successive ids; and the rest, each as its distance from the one before. Numbers are in instantaneous
//! codes (unary, gamma, delta, zeta), of which the properties say which is for what. It is read from its beginning to
//! its end, by one thread.
//!
//! Source: Boldi, Vigna, "The WebGraph Framework I: Compression Techniques", WWW 2004, and the documentation of
//! `it.unimi.dsi.webgraph.BVGraph`.

use std::path::{Path, PathBuf};

use crate::builder::Batch;
use crate::error::{LoadError, Place};
use crate::memory;
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Shape, Symmetry};

const FORMAT: &str = "BVGraph";

/// The two files of a graph, of either of them.
pub(crate) fn files(path: &Path) -> (PathBuf, PathBuf) {
    (path.with_extension("graph"), path.with_extension("properties"))
}

/// Whether these are properties of such a graph.
pub(super) fn is_properties(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(64 << 10)];
    memchr::memmem::find(head, b"graphclass").is_some() && memchr::memmem::find(head, b"BVGraph").is_some()
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Unary,
    Gamma,
    Delta,
    Zeta(u32),
}

/// What the properties say.
#[derive(Clone, Copy, Debug)]
struct Properties {
    nodes: u64,
    arcs: u64,
    window: usize,
    least_interval: u64,
    outdegrees: Code,
    references: Code,
    block_counts: Code,
    blocks: Code,
    residuals: Code,
}

impl Properties {
    fn read(bytes: &[u8], path: &Path) -> Result<Self, LoadError> {
        let damaged = |reason| LoadError::Damaged { path: path.to_owned(), reason, format: FORMAT };
        let text = String::from_utf8_lossy(bytes);
        let find = |key: &str| {
            text.lines().find_map(|line| {
                let (left, right) = line.split_once('=')?;
                (left.trim() == key).then(|| right.trim())
            })
        };
        let number = |key: &str, default: Option<u64>| match (find(key), default) {
            (Some(value), _) => value.parse::<u64>().map_err(|_| {
                damaged(format!("its {key} is \"{}\", no number", crate::text::quote(value.as_bytes())))
            }),
            (None, Some(default)) => Ok(default),
            (None, None) => Err(damaged(format!("it does not say {key}"))),
        };
        if !find("graphclass").is_some_and(|class| class.ends_with("BVGraph")) {
            return Err(damaged("its graphclass is not BVGraph".to_owned()));
        }
        if number("version", Some(0))? != 0 {
            return Err(damaged("its version is not 0".to_owned()));
        }
        let zeta = number("zetak", Some(3))?;
        let window = number("windowsize", Some(7))?;
        if !(1..=16).contains(&zeta) || window > 1 << 16 {
            return Err(damaged(format!("zetak is {zeta}, window size {window}")));
        }
        let mut properties = Self {
            nodes: number("nodes", None)?,
            arcs: number("arcs", None)?,
            window: window as usize,
            least_interval: number("minintervallength", Some(4))?,
            outdegrees: Code::Gamma,
            references: Code::Unary,
            block_counts: Code::Gamma,
            blocks: Code::Gamma,
            residuals: Code::Zeta(zeta as u32),
        };
        let flags = find("compressionflags").unwrap_or_default();
        for flag in flags.split('|').map(str::trim).filter(|flag| !flag.is_empty()) {
            let unknown = || {
                damaged(format!("its compression flag {} is not known", crate::text::quote(flag.as_bytes())))
            };
            let (what, code) = flag.rsplit_once('_').ok_or_else(unknown)?;
            let code = match code {
                "UNARY" => Code::Unary,
                "GAMMA" => Code::Gamma,
                "DELTA" => Code::Delta,
                "ZETA" => Code::Zeta(zeta as u32),
                _ => return Err(unknown()),
            };
            match what {
                "OUTDEGREES" => properties.outdegrees = code,
                "REFERENCES" => properties.references = code,
                "BLOCK_COUNT" => properties.block_counts = code,
                "BLOCKS" => properties.blocks = code,
                "RESIDUALS" => properties.residuals = code,
                "OFFSETS" => {}
                _ => return Err(unknown()),
            }
        }
        Ok(properties)
    }
}

/// Bits one after another.
struct Bits<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl Bits<'_> {
    /// The next 56 bits at least, highest first; zeros past the end.
    #[inline(always)]
    fn peek(&self) -> u64 {
        let byte = (self.at / 8) as usize;
        let word = match self.bytes.get(byte..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(word) => u64::from_be_bytes(*word),
            None => {
                let mut word = [0; 8];
                let rest = self.bytes.get(byte..).unwrap_or_default();
                word[..rest.len()].copy_from_slice(rest);
                u64::from_be_bytes(word)
            }
        };
        word << (self.at % 8)
    }

    /// A number of `count` bits, 63 at most.
    #[inline(always)]
    fn read(&mut self, count: u32) -> Option<u64> {
        if count == 0 {
            return Some(0);
        }
        if count > 56 {
            let upper = self.read(count - 32)?;
            return Some(upper << 32 | self.read(32)?);
        }
        let value = self.peek() >> (64 - count);
        self.at += u64::from(count);
        (self.at <= self.bytes.len() as u64 * 8).then_some(value)
    }

    /// Zeros up to the next one.
    #[inline(always)]
    fn unary(&mut self) -> Option<u64> {
        let mut zeros = 0;
        loop {
            let run = u64::from(self.peek().leading_zeros());
            if run < 56 {
                self.at += run + 1;
                return (self.at <= self.bytes.len() as u64 * 8).then_some(zeros + run);
            }
            zeros += 56;
            self.at += 56;
            if self.at > self.bytes.len() as u64 * 8 {
                return None;
            }
        }
    }

    #[inline(always)]
    fn gamma(&mut self) -> Option<u64> {
        let bits = self.unary()?;
        if bits > 62 {
            return None;
        }
        Some((1 << bits | self.read(bits as u32)?) - 1)
    }

    #[inline(always)]
    fn code(&mut self, code: Code) -> Option<u64> {
        match code {
            Code::Unary => self.unary(),
            Code::Gamma => self.gamma(),
            Code::Delta => {
                let bits = self.gamma()?;
                if bits > 62 {
                    return None;
                }
                Some((1 << bits | self.read(bits as u32)?) - 1)
            }
            Code::Zeta(k) => {
                let h = self.unary()?;
                if h * u64::from(k) + u64::from(k) > 62 {
                    return None;
                }
                let shift = h as u32 * k;
                let left = 1_u64 << shift;
                let value = self.read(shift + k - 1)?;
                if value < left { Some(value + left - 1) } else { Some((value << 1 | self.read(1)?) - 1) }
            }
        }
    }
}

/// Natural numbers to integers: 0, -1, 1, -2, 2, ...
fn signed(natural: u64) -> i64 {
    if natural & 1 == 0 { (natural >> 1) as i64 } else { -(natural.div_ceil(2) as i64) }
}

/// A compressed graph.
pub(crate) struct BvGraph<'a> {
    bytes: &'a [u8],
    facts: Facts,
    properties: Properties,
}

/// Room for the lists of a window, and for the parts of a list.
#[derive(Default)]
struct Lists {
    window: Vec<Vec<u32>>,
    blocks: Vec<u64>,
    /// First id and number of ids.
    intervals: Vec<(u64, u64)>,
    list: Vec<u32>,
}

impl<'a> BvGraph<'a> {
    pub(crate) fn open(graph: (&'a [u8], &Path), properties: (&[u8], &Path)) -> Result<Self, LoadError> {
        let (bytes, path) = graph;
        let properties = Properties::read(properties.0, properties.1)?;
        let nodes = properties.nodes;
        if nodes > gpuvm_engine::graph::MAX_VERTICES {
            let (path, line) = (path.to_owned(), Place::default());
            let (rows, columns, num_vertices) = (nodes, nodes, nodes);
            return Err(LoadError::TooManyVertices { path, line, rows, columns, num_vertices });
        }
        // A vertex takes a bit at the least.
        if nodes > bytes.len() as u64 * 8 {
            let reason = format!("{} bytes cannot hold the lists of {nodes} vertices", bytes.len());
            return Err(LoadError::Damaged { path: path.to_owned(), reason, format: FORMAT });
        }
        let facts = Facts {
            path: path.to_owned(),
            format: FORMAT.to_owned(),
            field: Field::Pattern,
            symmetry: Symmetry::General,
            shape: Some(Shape::square(nodes)),
            place: Place::default(),
            entries: properties.arcs,
            dense: None,
        };
        Ok(Self { bytes, facts, properties })
    }

    fn damaged(&self, reason: String) -> LoadError {
        LoadError::Damaged { path: self.facts.path.clone(), reason, format: FORMAT }
    }

    /// The list of `vertex`, whose bits come next, into `lists.list`; `None` if they are no list.
    fn list(&self, bits: &mut Bits<'_>, vertex: u64, lists: &mut Lists) -> Option<()> {
        let properties = &self.properties;
        let degree = bits.code(properties.outdegrees)?;
        lists.list.clear();
        if degree == 0 {
            return Some(());
        }
        if degree > properties.nodes {
            return None;
        }
        if degree > 1 << 20 {
            memory::check(degree * 4, &self.facts.path, "the list of a vertex").ok()?;
        }
        let mut left = degree;
        let reference = if properties.window > 0 { bits.code(properties.references)? } else { 0 };
        if reference > properties.window as u64 || reference > vertex {
            return None;
        }
        lists.blocks.clear();
        let slot = |vertex: u64| vertex as usize % lists.window.len().max(1);
        let referred: &[u32] = match reference {
            0 => &[],
            _ => &lists.window[slot(vertex - reference)],
        };
        if reference > 0 {
            let count = bits.code(properties.block_counts)?;
            if count > referred.len() as u64 + 1 {
                return None;
            }
            let (mut all, mut copied) = (0, 0);
            for block in 0..count {
                let length = bits.code(properties.blocks)? + u64::from(block > 0);
                all += length;
                if all > referred.len() as u64 {
                    return None;
                }
                copied += if block % 2 == 0 { length } else { 0 };
                lists.blocks.push(length);
            }
            if count % 2 == 0 {
                let rest = referred.len() as u64 - all;
                copied += rest;
                lists.blocks.push(rest);
            }
            left = left.checked_sub(copied)?;
        }
        lists.intervals.clear();
        if left > 0 && properties.least_interval > 0 {
            let count = bits.gamma()?;
            if count > left {
                return None;
            }
            let mut past: u64 = 0;
            for interval in 0..count {
                let gap = bits.gamma()?;
                let first = match interval {
                    0 => (vertex as i64).checked_add(signed(gap))?.try_into().ok()?,
                    _ => past.checked_add(gap)?.checked_add(1)?,
                };
                let length = bits.gamma()?.checked_add(properties.least_interval)?;
                left = left.checked_sub(length)?;
                past = first.checked_add(length)?;
                lists.intervals.push((first, length));
            }
        }
        // Three lists in order: what is copied, intervals, and the rest.
        let mut at = 0;
        for (block, &length) in lists.blocks.iter().enumerate() {
            let end = at + length as usize;
            if block % 2 == 0 {
                lists.list.extend_from_slice(&referred[at..end]);
            }
            at = end;
        }
        let (with_copied, mut sorted) = (!lists.list.is_empty(), 1);
        if !lists.intervals.is_empty() {
            sorted += usize::from(with_copied);
            for &(first, length) in &lists.intervals {
                if first.checked_add(length)? > properties.nodes {
                    return None;
                }
                lists.list.extend((first..first + length).map(|id| id as u32));
            }
        }
        if left > 0 {
            sorted += usize::from(!lists.list.is_empty());
            let mut id: u64 =
                (vertex as i64).checked_add(signed(bits.code(properties.residuals)?))?.try_into().ok()?;
            for residual in 0..left {
                if residual > 0 {
                    id = id.checked_add(bits.code(properties.residuals)?)?.checked_add(1)?;
                }
                if id >= properties.nodes {
                    return None;
                }
                lists.list.push(id as u32);
            }
        }
        if sorted > 1 {
            lists.list.sort(); // takes the runs as they are
        }
        Some(())
    }
}

impl EdgeSource for BvGraph<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn pass(
        &self,
        _pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        const STEP: u64 = 1 << 12;
        let Properties { nodes, arcs, window, .. } = self.properties;
        let mut bits = Bits { bytes: self.bytes, at: 0 };
        let mut lists = Lists { window: vec![Vec::new(); window + 1], ..Lists::default() };
        let mut batch = Batch::new();
        let (mut found, mut reported) = (0, 0);
        for vertex in 0..nodes {
            if self.list(&mut bits, vertex, &mut lists).is_none() {
                return Err(self.damaged(format!("the successors of vertex {vertex} are no list")));
            }
            found += lists.list.len() as u64;
            if found > arcs {
                break;
            }
            for &target in &lists.list {
                if batch.push(vertex as u32, target, 1.0) {
                    take(&mut batch);
                    batch.clear();
                }
            }
            let slot = vertex as usize % lists.window.len();
            std::mem::swap(&mut lists.window[slot], &mut lists.list);
            if vertex % STEP == 0 {
                if progress.is_cancelled() {
                    return Err(LoadError::Interrupted);
                }
                progress.advance(bits.at / 8 - reported);
                reported = bits.at / 8;
            }
        }
        take(&mut batch);
        if found != arcs {
            let more = if found > arcs { "or more " } else { "" };
            return Err(self.damaged(format!("it has {found} {more}arcs, its properties say {arcs}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of `text`, filled up with zeros.
    fn bits(text: &str) -> Vec<u8> {
        let bits: Vec<u8> = text.bytes().filter(|b| *b != b' ').map(|b| b - b'0').collect();
        bits.chunks(8)
            .map(|chunk| chunk.iter().enumerate().fold(0, |byte, (at, bit)| byte | bit << (7 - at)))
            .collect()
    }

    #[test]
    fn codes_are_read_as_the_paper_writes_them() {
        // Tables 1 and 2 of the paper, from 0 on.
        for (code, words) in [
            (Code::Unary, &["1", "01", "001", "0001"][..]),
            (Code::Gamma, &["1", "010", "011", "00100", "00101", "00110", "00111", "0001000"]),
            (Code::Delta, &["1", "0100", "0101", "01100", "01101", "01110", "01111", "00100000"]),
            (Code::Zeta(2), &["10", "110", "111", "01000", "01001", "01010", "01011", "011000"]),
            (Code::Zeta(3), &["100", "1010", "1011", "1100", "1101", "1110", "1111", "0100000"]),
        ] {
            for (value, word) in words.iter().enumerate() {
                let bytes = bits(&format!("{word} 1"));
                let mut reader = Bits { bytes: &bytes, at: 0 };
                assert_eq!(reader.code(code), Some(value as u64), "{code:?} {word}");
                assert_eq!(reader.at, word.len() as u64, "{code:?} {word}");
            }
        }
        let long = [0_u8; 20];
        assert_eq!(Bits { bytes: &long, at: 0 }.unary(), None);
        assert_eq!([0, 1, 2, 3, 4].map(signed), [0, -1, 1, -2, 2]);
    }
}
