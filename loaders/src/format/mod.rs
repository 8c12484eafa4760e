//! A file a format.

pub(crate) mod gvg;
pub(crate) mod matrix_market;
