//! Who moves a page that is not resident: the formats that NICs and kernels share, and RDMA devices.

pub mod endpoint;
pub mod mlx5;
#[cfg(feature = "rdma")]
#[expect(unsafe_code, reason = "calls libibverbs")]
pub mod rdma;
