//! Memory that kernels use: who owns which bytes, and the error slot that kernels and host share.

mod device;
mod error_slot;
#[expect(unsafe_code, reason = "advises large pages, shares places among threads")]
mod large_vec;
mod pinned;
#[expect(unsafe_code, reason = "a promise about addresses")]
mod registration_cache;
#[expect(unsafe_code, reason = "has a kernel write to buffers of its own")]
mod staging;

pub use device::DeviceArray;
pub(crate) use device::anonymous;
pub use error_slot::CancelHandle;
pub(crate) use error_slot::ErrorSlot;
pub(crate) use large_vec::{Place, zeros};
pub(crate) use pinned::PinnedArray;
pub use registration_cache::{
    MemoryKind, OwnedRegistration, PIN_ALIGNMENT, Pinnable, Pinner, Registered, Registration,
    RegistrationCache, RegistrationError, RegistrationStats,
};
pub(crate) use staging::{Staging, by_vertex};
