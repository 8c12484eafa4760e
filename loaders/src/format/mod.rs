//! A file a format. What the bytes of each mean stands at the top of its module.

pub mod gvg;
pub(crate) mod matrix_market;
