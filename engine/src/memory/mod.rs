//! Memory that kernels use: who owns which bytes, and the error slot that kernels and host share.

mod device;
mod error_slot;
mod host_written;
mod pinned;

pub use device::DeviceArray;
pub(crate) use device::anonymous;
pub use error_slot::CancelHandle;
pub(crate) use error_slot::ErrorSlot;
pub(crate) use host_written::HostWritten;
pub(crate) use pinned::PinnedArray;
