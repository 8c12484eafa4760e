//! A file a format. What the bytes of each mean stands at the top of its module.

pub(crate) mod bvgraph;
mod count_index;
pub(crate) mod dimacs;
pub(crate) mod edge_list;
pub(crate) mod emogi;
pub(crate) mod gap;
pub(crate) mod graphalytics;
pub mod gvg;
mod id_map;
pub(crate) mod ligra;
mod lines;
pub(crate) mod matlab;
pub(crate) mod matrix_market;
pub(crate) mod metis;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod rows;
pub(crate) mod rutherford_boeing;
pub(crate) mod sniff;

pub use sniff::{Format, UnknownFormat};
