//! The host's side of paging: who owns the page entries and frames that `kernels/cuda/page_table.cuh` and
//! `frame_pool.cuh` work on. While a kernel runs the host does nothing here: the fault path is the device's alone.

use std::ops::Range;

use gpuvm_kernels::layout::{
    EVICTION_CLOCK, EVICTION_FIFO, FramePoolView, FrameRing, NO_PAGE, PAGE_TABLE_EVICTS, PAGE_TABLE_QUEUES,
    PageTableView,
};

use crate::config::{PageSize, Policy};
use crate::device::Device;
use crate::error::Error;
use crate::memory::DeviceArray;

/// One entry a page, all absent at first, and the frames in which pages are resident.
#[derive(Debug)]
pub(crate) struct PageTable {
    entries: DeviceArray<u64>,
    owners: DeviceArray<u64>,
    hand: DeviceArray<u64>,
    frames: DeviceArray<u8>,
    num_frames: u32,
    num_pinned: u32,
    kept: Range<u64>,
    page_shift: u32,
    evicts: bool,
    asks_nics: bool,
    policy: Policy,
}

/// Words of a [`FrameRing`]: the first is the hand.
const FRAME_RING_WORDS: u64 = (size_of::<FrameRing>() / size_of::<u64>()) as u64;
/// Which of them is the address of the queues.
const QUEUES_AT: usize = std::mem::offset_of!(FrameRing, queues) / size_of::<u64>();

impl PageTable {
    /// A table of `num_pages` pages with `num_frames` frames; fewer frames than pages make it evict. The first `num_pinned`
    /// frames keep their page in dense scans: fewer than all, so that there are frames to evict from.
    pub fn new(
        device: &Device,
        num_pages: u64,
        num_frames: u32,
        num_pinned: u32,
        page_size: PageSize,
        policy: Policy,
    ) -> Result<Self, Error> {
        let frames = u64::from(num_frames);
        let mut table = Self {
            entries: DeviceArray::zeroed(device, "page entries", num_pages)?,
            owners: DeviceArray::zeroed(device, "frame owners", frames)?,
            hand: DeviceArray::zeroed(device, "frame hand", 1)?,
            frames: DeviceArray::zeroed(device, "page frames", frames * page_size.bytes())?,
            num_frames,
            num_pinned,
            kept: 0..0,
            page_shift: page_size.shift(),
            evicts: frames < num_pages,
            asks_nics: false,
            policy,
        };
        table.reset()?;
        Ok(table)
    }

    /// The same with a frame of its own, which it never leaves, for each of these pages: fewer than the pinned frames, of
    /// which they are the first.
    pub fn with_kept_pages(self, kept: Range<u64>) -> Self {
        Self { kept, ..self }
    }

    /// From now on faults ask NICs, through the queues at this address.
    pub fn ask_nics(&mut self, device: &Device, queues_address: u64) -> Result<(), Error> {
        self.hand = DeviceArray::zeroed(device, "frame hand", FRAME_RING_WORDS)?;
        self.hand.write(QUEUES_AT, &[queues_address])?;
        self.asks_nics = true;
        Ok(())
    }

    /// Address of the frames, and their bytes.
    pub fn frames(&self) -> (u64, u64) {
        (self.frames.address(), self.frames.len() as u64)
    }

    /// Puts the frames where RDMA devices reach them, before any page is in one.
    #[cfg(feature = "rdma")]
    pub fn place_frames_for_rdma(&mut self, device: &Device, in_host_memory: bool) -> Result<(), Error> {
        let (what, bytes) = ("page frames", self.frames.len() as u64);
        // Given back first: there may be no room for both.
        self.frames = DeviceArray::zeroed(device, what, 0)?;
        self.frames = DeviceArray::for_rdma_devices(device, what, bytes, in_host_memory)?;
        Ok(())
    }

    /// Makes every page absent: the state of a new table, for cold runs and after a run that failed half way.
    pub fn reset(&mut self) -> Result<(), Error> {
        const { assert!(NO_PAGE == u64::MAX) };
        self.entries.fill(0)?;
        self.owners.fill(0xFF)?;
        self.hand.write(0, &[0])
    }

    pub fn table_view(&self) -> PageTableView {
        PageTableView {
            entries: self.entries.address(),
            flags: (if self.evicts { PAGE_TABLE_EVICTS } else { 0 }
                | if self.asks_nics { PAGE_TABLE_QUEUES } else { 0 }) as u32,
            page_shift: self.page_shift,
        }
    }

    pub fn pool_view(&self) -> FramePoolView {
        FramePoolView {
            frames: self.frames.address(),
            owners: self.owners.address(),
            hand: self.hand.address(),
            num_frames: self.num_frames,
            num_pinned: self.num_pinned,
            policy: match self.policy {
                Policy::Fifo | Policy::PinnedShare => EVICTION_FIFO,
                Policy::Clock => EVICTION_CLOCK,
            } as u32,
            num_kept: (self.kept.end - self.kept.start) as u32,
            first_kept_page: self.kept.start,
        }
    }

    /// The page entries, between kernels.
    #[cfg(test)]
    pub fn entries(&mut self) -> &mut DeviceArray<u64> {
        &mut self.entries
    }
}
