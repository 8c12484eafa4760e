//! The graphs of EMOGI, of which BaM and others took the format: `NAME.bel.col` and `NAME.bel.dst`, and with weights
//! `NAME.bel.val`; ids from 0.
//!
//! Each file is the number of its elements, 64-bit, 8 bytes that mean nothing, and the elements: in `.col` the first edge of
//! each vertex, and past the last, 64-bit; in `.dst` the target of each edge, 64-bit (32-bit if the file is only that
//! large); in `.val` the weight of each edge, an unsigned 32-bit integer. All numbers are little-endian.
//!
//! Source: the README of EMOGI (Min et al., "EMOGI: Efficient Memory-access for Out-of-memory Graph-traversal In GPUs",
//! VLDB 2020).

use std::path::{Path, PathBuf};

use super::rows::{self, Rows, u32_at, u64_at};
use crate::builder::Batch;
use crate::error::{LoadError, Place};
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Shape, Symmetry};

/// The files of a graph: what each ends with.
pub(crate) const OFFSETS: &str = "col";
pub(crate) const TARGETS: &str = "dst";
pub(crate) const WEIGHTS: &str = "val";

const FORMAT: &str = "EMOGI .bel";
const HEAD: u64 = 16;

/// `NAME.bel`, of any file of that graph.
pub(crate) fn stem(path: &Path) -> Option<PathBuf> {
    let extension = path.extension()?.to_str()?;
    if extension == "bel" {
        return Some(path.to_owned());
    }
    let stem = path.with_extension("");
    let is_bel = stem.extension().is_some_and(|extension| extension == "bel");
    ([OFFSETS, TARGETS, WEIGHTS].contains(&extension) && is_bel).then_some(stem)
}

/// One of the files.
#[derive(Clone, Copy)]
struct Elements<'a> {
    bytes: &'a [u8],
    len: u64,
    width: u64,
}

impl<'a> Elements<'a> {
    /// Checks that the file holds what its head says, in elements of one of these widths.
    fn open(bytes: &'a [u8], path: &Path, widths: &[u64]) -> Result<Self, LoadError> {
        let length = bytes.len() as u64;
        let len = u64_at(bytes, 0).unwrap_or(u64::MAX);
        let is =
            |width: &&u64| len.checked_mul(**width).and_then(|size| size.checked_add(HEAD)) == Some(length);
        match widths.iter().find(is) {
            Some(&width) if length >= HEAD => Ok(Self { bytes, len, width }),
            _ => {
                let reason = format!("its head says {len} elements, and it has {length} bytes");
                Err(LoadError::Damaged { path: path.to_owned(), reason, format: FORMAT })
            }
        }
    }

    #[inline(always)]
    fn get(&self, at: u64) -> Option<u64> {
        match self.width {
            8 => u64_at(self.bytes, HEAD + 8 * at),
            _ => u32_at(self.bytes, HEAD + 4 * at).map(u64::from),
        }
    }
}

/// A graph.
pub(crate) struct Emogi<'a> {
    path: PathBuf,
    facts: Facts,
    offsets: Elements<'a>,
    targets: Elements<'a>,
    weights: Option<Elements<'a>>,
}

impl<'a> Emogi<'a> {
    /// Checks the files, each with its path.
    pub(crate) fn open(
        offsets: (&'a [u8], &Path),
        targets: (&'a [u8], &Path),
        weights: Option<(&'a [u8], &Path)>,
    ) -> Result<Self, LoadError> {
        let damaged =
            |path: &Path, reason| LoadError::Damaged { path: path.to_owned(), reason, format: FORMAT };
        let (offsets_path, targets_path) = (offsets.1, targets.1);
        let offsets = Elements::open(offsets.0, offsets_path, &[8])?;
        let targets = Elements::open(targets.0, targets_path, &[8, 4])?;
        if offsets.len == 0 {
            return Err(damaged(offsets_path, "it has no elements".to_owned()));
        }
        let weights = match weights {
            Some((bytes, path)) => {
                let weights = Elements::open(bytes, path, &[4])?;
                if weights.len != targets.len {
                    let reason = format!("it has {} weights for {} edges", weights.len, targets.len);
                    return Err(damaged(path, reason));
                }
                Some(weights)
            }
            None => None,
        };
        let vertices = offsets.len - 1;
        if vertices > gpuvm_engine::graph::MAX_VERTICES {
            let (path, line) = (offsets_path.to_owned(), Place::default());
            let (rows, columns, num_vertices) = (vertices, vertices, vertices);
            return Err(LoadError::TooManyVertices { path, line, rows, columns, num_vertices });
        }
        let facts = Facts {
            path: targets_path.to_owned(),
            format: FORMAT.to_owned(),
            field: if weights.is_some() { Field::Integer } else { Field::Pattern },
            symmetry: Symmetry::General,
            shape: Some(Shape::square(vertices)),
            place: Place::default(),
            entries: targets.len,
            dense: None,
        };
        let graph = Self { path: targets_path.to_owned(), facts, offsets, targets, weights };
        match rows::first_bad_row(&graph) {
            Some(vertex) => {
                let reason = format!("the edges of vertex {vertex} do not follow those of the last");
                Err(damaged(offsets_path, reason))
            }
            None => Ok(graph),
        }
    }
}

impl Rows for Emogi<'_> {
    fn num_rows(&self) -> u64 {
        self.offsets.len - 1
    }

    fn num_entries(&self) -> u64 {
        self.targets.len
    }

    #[inline(always)]
    fn begin(&self, row: u64) -> u64 {
        self.offsets.get(row).unwrap_or(u64::MAX)
    }

    #[inline(always)]
    fn entry(&self, entry: u64) -> (u64, f64) {
        let weight = self.weights.map_or(Some(1), |weights| weights.get(entry));
        (self.targets.get(entry).unwrap_or(u64::MAX), weight.unwrap_or(0) as f64)
    }
}

impl EdgeSource for Emogi<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        self.targets.len * self.targets.width
    }

    fn pass(
        &self,
        _pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        let most = self.num_rows();
        let width = self.targets.width;
        rows::pass(self, most, false, false, width, progress, take)?.map_err(|entry| LoadError::BadEntry {
            path: self.path.clone(),
            entry,
            id: self.entry(entry).0,
            most,
        })
    }
}
