//! What every format gives the builder: what the head of the file says, and its entries, a batch at a time.
//!
//! A format is a type that implements [`EdgeSource`]. It is asked for all of its entries twice or more, and gives them
//! each time, on all threads, so that the graph is built in its own memory and no list of edges is held, but those of formats that
//! [take long](EdgeSource::is_slow).

use std::path::{Path, PathBuf};

use crate::builder::Batch;
use crate::error::{LoadError, Place};
use crate::progress::Progress;

/// What the values of a matrix are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Pattern,
    Integer,
    Real,
    Complex,
    /// Integer if every value is, else real.
    Number,
}

/// Which entries stand for two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symmetry {
    General,
    Symmetric,
    Skew,
    Hermitian,
}

impl Field {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pattern => "pattern",
            Self::Integer => "integer",
            Self::Real | Self::Number => "real",
            Self::Complex => "complex",
        }
    }
}

impl Symmetry {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::Symmetric => "symmetric",
            Self::Skew => "skew-symmetric",
            Self::Hermitian => "hermitian",
        }
    }
}

/// Rows and columns of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub rows: u64,
    pub columns: u64,
}

impl Shape {
    pub(crate) fn square(vertices: u64) -> Self {
        Self { rows: vertices, columns: vertices }
    }

    /// Of a file of so many entries that only tell themselves: `past` is one more than the largest row and column, which name
    /// the same vertices unless `bipartite`.
    ///
    /// # Errors
    /// [`LoadError::SparseIds`] where the ids would need far more memory than the file.
    pub(crate) fn measured(
        (mut rows, mut columns): (u64, u64),
        entries: u64,
        bipartite: bool,
        path: &Path,
    ) -> Result<Self, LoadError> {
        /// Row offsets of so many vertices, 32 MiB, are never too many.
        const FEW_VERTICES: u64 = 4 << 20;
        let largest = rows.max(columns);
        if !bipartite {
            (rows, columns) = (largest, largest);
        }
        let num_vertices = if bipartite { rows + columns } else { largest };
        if num_vertices > entries.saturating_mul(2).saturating_add(FEW_VERTICES) {
            let (path, largest) = (path.to_owned(), largest.saturating_sub(1));
            return Err(LoadError::SparseIds { path, largest, entries, num_vertices });
        }
        Ok(Self { rows, columns })
    }
}

/// A matrix of which only some cells are listed, yet all are in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dense {
    /// Values in the file.
    pub stored: u64,
    /// Cells, with symmetry written out.
    pub cells: u64,
}

/// What is known of a file before its entries are read.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// For messages.
    pub path: PathBuf,
    /// The name of the format, as the summary has it.
    pub format: String,
    pub field: Field,
    pub symmetry: Symmetry,
    /// `None` where only the entries tell: the largest ids are the last row and column.
    pub shape: Option<Shape>,
    /// Where the shape is said.
    pub place: Place,
    /// Entries that the file holds at the least, if its head says so and the file is large enough for them.
    pub entries: u64,
    pub dense: Option<Dense>,
}

/// What a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// Values become weights: each must be finite and held exactly.
    pub keeps_values: bool,
    /// Nothing has been checked yet. Later passes may leave out values that are not kept.
    pub first: bool,
}

/// The entries of a file.
pub(crate) trait EdgeSource: Sync {
    /// What the head of the file says.
    fn facts(&self) -> &Facts;

    /// Bytes that a pass reads, by which it advances `progress`.
    fn bytes(&self) -> u64;

    /// Gives every entry to `take`, in batches of any size, on all threads, in any order: ids from 0, which are less than
    /// the rows and columns of the facts, and the value, 1 in a file without any. `take` may change the batch,
    /// which is used again.
    ///
    /// # Errors
    /// [`LoadError`] for the first entry of the file that is not as it must be.
    fn pass(
        &self,
        pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError>;

    /// Whether a pass takes so long that the entries are better held, where memory allows it, than read again.
    fn is_slow(&self) -> bool {
        false
    }

    /// The ids that the file gives its vertices, where they are not the numbers of the vertices.
    fn original_ids(&self) -> Option<&[u64]> {
        None
    }
}
