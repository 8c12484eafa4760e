//! Who moves a page that is not resident: the formats that NICs and kernels share.

pub mod mlx5;
