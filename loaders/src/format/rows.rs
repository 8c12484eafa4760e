//! The loop over matrices that are stored by rows, or by columns: where each row begins, and its entries one after
//! another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use crate::builder::Batch;
use crate::error::LoadError;
use crate::progress::Progress;

/// A matrix by rows.
pub(super) trait Rows: Sync {
    fn num_rows(&self) -> u64;
    fn num_entries(&self) -> u64;
    /// The first entry of a row; that of the row past the last is the number of entries.
    fn begin(&self, row: u64) -> u64;
    /// Column and value of an entry, a column beyond the last if there is none.
    fn entry(&self, entry: u64) -> (u64, f64);
}

/// Entries a piece.
const PIECE: u64 = 1 << 16;

/// The first row whose entries are not where they can be, if there is one.
pub(super) fn first_bad_row(rows: &impl Rows) -> Option<u64> {
    let (num_rows, num_entries) = (rows.num_rows(), rows.num_entries());
    let ends_well = rows.begin(0) == 0 && rows.begin(num_rows) == num_entries;
    let first = (0..num_rows).into_par_iter().filter(|&row| rows.begin(row) > rows.begin(row + 1)).min();
    first.or((!ends_well).then_some(if rows.begin(0) == 0 { num_rows } else { 0 }))
}

/// The row of an entry: the last that begins at it or before, and is not empty.
fn row_of(rows: &impl Rows, entry: u64) -> u64 {
    let (mut low, mut high) = (0, rows.num_rows());
    // The first row that begins after the entry, less one.
    while low < high {
        let middle = low + (high - low) / 2;
        if rows.begin(middle) <= entry { low = middle + 1 } else { high = middle }
    }
    low.saturating_sub(1)
}

/// Gives all entries to `take`, of a matrix whose row begins have been checked, with `columns` columns; the inner error is
/// the first entry that is none. `transposed` says that rows are columns.
pub(super) fn pass(
    rows: &impl Rows,
    columns: u64,
    transposed: bool,
    needs_finite: bool,
    bytes_per_entry: u64,
    progress: &dyn Progress,
    take: &(dyn Fn(&mut Batch) + Sync),
) -> Result<Result<(), u64>, LoadError> {
    let num_entries = rows.num_entries();
    let first_bad = AtomicU64::new(u64::MAX);
    let cancelled = AtomicBool::new(false);
    (0..num_entries.div_ceil(PIECE)).into_par_iter().for_each(|piece| {
        let (begin, end) = (piece * PIECE, ((piece + 1) * PIECE).min(num_entries));
        if cancelled.load(Relaxed) || first_bad.load(Relaxed) < begin {
            return;
        }
        if progress.is_cancelled() {
            return cancelled.store(true, Relaxed);
        }
        let mut batch = Batch::new();
        let mut row = row_of(rows, begin);
        let mut row_end = rows.begin(row + 1);
        for entry in begin..end {
            while entry >= row_end && row + 1 < rows.num_rows() {
                row += 1;
                row_end = rows.begin(row + 1);
            }
            let (column, value) = rows.entry(entry);
            if column >= columns || needs_finite && !value.is_finite() {
                first_bad.fetch_min(entry, Relaxed);
                return;
            }
            let (row, column) = if transposed { (column, row) } else { (row, column) };
            if batch.push(row as u32, column as u32, value) {
                take(&mut batch);
                batch.clear();
            }
        }
        take(&mut batch);
        progress.advance((end - begin) * bytes_per_entry);
    });
    if cancelled.into_inner() {
        return Err(LoadError::Interrupted);
    }
    Ok(match first_bad.into_inner() {
        u64::MAX => Ok(()),
        bad => Err(bad),
    })
}

/// The little-endian number of `N` bytes at `at`; `None` past the end.
#[inline(always)]
pub(super) fn bytes_at<const N: usize>(bytes: &[u8], at: u64) -> Option<[u8; N]> {
    bytes.get(usize::try_from(at).ok()?..)?.first_chunk::<N>().copied()
}

#[inline(always)]
pub(super) fn u64_at(bytes: &[u8], at: u64) -> Option<u64> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

#[inline(always)]
pub(super) fn u32_at(bytes: &[u8], at: u64) -> Option<u32> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}
