//! What a load found in the file and did with it.

use serde::Serialize;

/// What a load found in the file, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LoadSummary {
    /// The format, wrappings first: `tar.gz of Matrix Market coordinate`, `gvg`.
    pub format: String,
    /// For a `.gvg` file, the format that it was converted from.
    pub converted_from: Option<String>,
    /// Rows of the matrix.
    pub rows: u64,
    /// Columns of the matrix.
    pub columns: u64,
    /// What the values are: `pattern`, `integer`, `real` or `complex`.
    pub field: String,
    /// How the matrix is stored: `general`, `symmetric`, `skew-symmetric` or `hermitian`.
    pub symmetry: String,
    /// Entries in the file.
    pub stored_entries: u64,
    /// Entries of the whole matrix: those off the diagonal count twice where one triangle is stored.
    pub expanded_entries: u64,
    /// Edges from a vertex to itself, dropped unless asked for.
    pub self_loops: u64,
    /// Edges that named the same two vertices as another one and were merged with it.
    pub duplicates: u64,
    /// Zeros of a dense (`array`) file, with symmetry written out: they are no edges. Expanded entries are edges,
    /// dropped self-loops, merged duplicates and these.
    pub dropped_zeros: u64,
    /// Stored entries of a sparse (`coordinate`) file whose value is zero; they are edges.
    pub explicit_zeros: u64,
    /// Stored entries whose value is negative.
    pub negative_weights: u64,
    /// Stored entries whose value is infinite or not a number; only where values are not kept.
    pub non_finite: u64,
    /// Rows and columns are different vertices.
    pub bipartite: bool,
    /// The reverse of every edge was added.
    pub symmetrized: bool,
    /// Duplicates were kept.
    pub duplicates_kept: bool,
    /// Self-loops were kept.
    pub loops_kept: bool,
    /// Time to unpack and to parse.
    pub parse_seconds: f64,
    /// Time to sort rows and to merge duplicates.
    pub build_seconds: f64,
}
