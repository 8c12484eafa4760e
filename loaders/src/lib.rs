//! Graph files to [`Csr`](gpuvm_engine::graph::Csr).

mod builder;
mod error;
mod format;
mod memory;
mod mmap;
mod options;
mod progress;
mod summary;
mod weights;

use std::path::Path;

use gpuvm_engine::graph::Csr;

pub use error::LoadError;
pub use options::{LoadOptions, UnknownWeightRule, WeightRule};
pub use progress::Progress;
pub use summary::LoadSummary;

/// A graph and what was found in its file.
#[derive(Clone, Debug)]
pub struct LoadedGraph {
    /// The graph.
    pub csr: Csr,
    /// What its file held.
    pub summary: LoadSummary,
}

/// Loads a graph.
pub fn load(path: &Path, options: &LoadOptions, progress: &dyn Progress) -> Result<LoadedGraph, LoadError> {
    let file = mmap::FileBytes::open(path)?;
    file.advise_sequential();
    let text = format::matrix_market::Text { bytes: &file, path, file: Some((&file, 0)) };
    format::matrix_market::load(&text, options, progress)
}
