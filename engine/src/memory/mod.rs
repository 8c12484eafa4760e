//! Device memory: who owns which bytes, and the error slot that kernels and host share.

mod device;
mod error_slot;

pub(crate) use device::DeviceArray;
pub use error_slot::CancelHandle;
pub(crate) use error_slot::ErrorSlot;
