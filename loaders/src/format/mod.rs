//! A file a format. What the bytes of each mean stands at the top of its module.

pub(crate) mod edge_list;
pub mod gvg;
pub(crate) mod matrix_market;
pub(crate) mod sniff;

pub use sniff::{Format, UnknownFormat};
