use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use ibverbs_sys as ffi;

use super::RdmaError;
use super::device::{Open, RdmaDevice};
use crate::memory::{MemoryKind, Pinner};

/// What a NIC may do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The other end reads it: the graph. It may be memory that cannot be written.
    RemoteRead,
    /// What is read is written here: page frames.
    LocalWrite,
}

impl Access {
    /// Writes within a page may come in any order: a page is looked at after its completion, which comes last anyway.
    fn flags(self) -> u32 {
        let access = match self {
            Self::RemoteRead => ffi::ibv_access_flags::IBV_ACCESS_REMOTE_READ,
            Self::LocalWrite => ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE,
        };
        (access | ffi::ibv_access_flags::IBV_ACCESS_RELAXED_ORDERING).0
    }
}

/// Memory that one NIC may use, until dropped.
#[derive(Debug)]
pub struct Region {
    region: NonNull<ffi::ibv_mr>,
    nic: Arc<Open>,
}

// SAFETY: verbs may be called from any thread; the keys never change.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Registers the bytes at these addresses of this process: memory that is there already, a GPU's too where the
    /// kernel has a module for that (`nvidia-peermem`).
    ///
    /// # Safety
    /// * The memory stays mapped until the region is dropped.
    /// * With [`Access::LocalWrite`]: nobody holds a reference to bytes into which a request is under way.
    ///
    /// # Errors
    /// [`RdmaError::Register`].
    pub unsafe fn new(nic: &RdmaDevice, range: Range<u64>, access: Access) -> Result<Self, RdmaError> {
        let address = range.start;
        // SAFETY: the caller's promise, passed on.
        unsafe { Self::seen_at(nic, range, address, access) }
    }

    /// The same, but requests name the first byte by `address`.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    ///
    /// # Errors
    /// [`RdmaError::Register`].
    pub unsafe fn seen_at(
        nic: &RdmaDevice,
        range: Range<u64>,
        address: u64,
        access: Access,
    ) -> Result<Self, RdmaError> {
        let open = nic.open_device();
        let (start, bytes) = (range.start, range.end - range.start);
        // SAFETY: an open protection domain; the range is memory of this process, by the caller's word. This entry, unlike
        // `ibv_reg_mr`, has a kernel without relaxed ordering ignore that flag.
        let region = unsafe {
            ffi::ibv_reg_mr_iova2(
                open.domain.as_ptr(),
                std::ptr::with_exposed_provenance_mut(start as usize),
                bytes as usize,
                address,
                access.flags(),
            )
        };
        Self::from_raw(region, nic, address, bytes)
    }

    /// Registers `bytes` bytes from offset `at` of a dma-buf, as those at `address` in requests.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    ///
    /// # Errors
    /// [`RdmaError::Register`]; with `EOPNOTSUPP` from a driver that knows no dma-bufs.
    pub unsafe fn of_dma_buf(
        nic: &RdmaDevice,
        buffer: BorrowedFd<'_>,
        at: u64,
        bytes: u64,
        address: u64,
        access: Access,
    ) -> Result<Self, RdmaError> {
        // SAFETY: an open protection domain and an open file; the kernel keeps the buffer as long as the region.
        let region = unsafe {
            ffi::ibv_reg_dmabuf_mr(
                nic.open_device().domain.as_ptr(),
                at,
                bytes as usize,
                address,
                buffer.as_raw_fd(),
                access.flags() as i32,
            )
        };
        Self::from_raw(region, nic, address, bytes)
    }

    fn from_raw(
        region: *mut ffi::ibv_mr,
        nic: &RdmaDevice,
        address: u64,
        bytes: u64,
    ) -> Result<Self, RdmaError> {
        match NonNull::new(region) {
            Some(region) => Ok(Self { region, nic: Arc::clone(nic.open_device()) }),
            None => {
                let source = io::Error::last_os_error();
                Err(RdmaError::Register { nic: nic.name().to_owned(), address, bytes, source })
            }
        }
    }

    /// Its key in requests of this side.
    pub fn local_key(&self) -> u32 {
        // SAFETY: a live region.
        unsafe { self.region.as_ref().lkey }
    }

    /// Its key in requests of the other side.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: a live region.
        unsafe { self.region.as_ref().rkey }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: registered by `new` or `of_dma_buf`, given back once, while its device is open. Failure would keep the
        // pages locked, no more.
        let errno = unsafe { ffi::ibv_dereg_mr(self.region.as_ptr()) };
        if errno != 0 {
            tracing::warn!(nic = self.nic.name, errno, "a memory region cannot be given back");
        }
    }
}

/// Whether a NIC's driver registers dma-bufs: asked with a file that is none, which a driver that knows them finds bad.
pub(super) fn knows_dma_bufs(nic: &RdmaDevice) -> bool {
    const EBADF: i32 = 9;
    // SAFETY: an open protection domain; file -1 is none, so nothing is registered.
    let region = unsafe {
        ffi::ibv_reg_dmabuf_mr(
            nic.open_device().domain.as_ptr(),
            0,
            0,
            0,
            -1,
            Access::LocalWrite.flags() as i32,
        )
    };
    region.is_null() && io::Error::last_os_error().raw_os_error() == Some(EBADF)
}

/// Pins ranges by registering them with several NICs at once, for a [`RegistrationCache`](crate::RegistrationCache).
#[derive(Debug)]
pub struct DevicePinner {
    nics: Vec<RdmaDevice>,
    access: Access,
}

impl DevicePinner {
    /// Registers with all of `nics`.
    pub fn new(nics: &[RdmaDevice], access: Access) -> Self {
        Self { nics: nics.to_vec(), access }
    }
}

impl Pinner for DevicePinner {
    /// A region a NIC, in the order of the NICs.
    type Region = Vec<Region>;
    type Error = RdmaError;

    fn pin(&self, _: MemoryKind, range: Range<u64>) -> Result<Vec<Region>, RdmaError> {
        // SAFETY: the memory belongs to a `Pinnable`, which keeps it mapped until it left the cache.
        let register = |nic| unsafe { Region::new(nic, range.clone(), self.access) };
        self.nics.iter().map(register).collect()
    }
}
