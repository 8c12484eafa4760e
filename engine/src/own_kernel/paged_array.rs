use bytemuck::Pod;
use gpuvm_kernels::layout::{ArrayView, PagedSliceView};

use super::argument::InPlace;
use super::kernel::Grid;
use crate::config::{PageSize, Policy};
use crate::device::Device;
use crate::engine::Engine;
use crate::error::Error;
use crate::graph::HostArray;
use crate::memory::PinnedArray;
use crate::paging::PageTable;

/// How many frames of device memory a [`PagedArray`] gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// One for every page if they fit what the engine may take, else as many as fit.
    #[default]
    Fit,
    /// So many, or one for every page if that is less.
    Number(u64),
    /// As many as fit so many bytes, with the page table.
    Bytes(u64),
}

/// Settings of a [`PagedArray`].
#[derive(Clone, Copy, Debug)]
pub struct PagedArrayOptions {
    /// Bytes of a page.
    pub page_size: PageSize,
    /// Frames of device memory.
    pub frames: Frames,
    /// Which page leaves when a frame is needed. [`Policy::PinnedShare`] evicts from an eighth of the frames, or from four
    /// for each warp of the default grid if that is more: twice what these warps may hold at a time. The other frames keep
    /// the page that they get first; if none is left for that, it is [`Policy::Fifo`].
    pub policy: Policy,
}

impl Default for PagedArrayOptions {
    fn default() -> Self {
        Self { page_size: PageSize::default(), frames: Frames::default(), policy: Policy::Fifo }
    }
}

/// An array in host memory, as large as that is, that kernels read through pages: `gpuvm::PagedSlice<T>` on the device.
///
/// Pages that a launch leaves resident are there for the next, until [`evict_all`](PagedArray::evict_all).
///
/// ```
/// use gpuvm_engine::{Engine, EngineConfig, Frames, PagedArray, PagedArrayOptions};
///
/// let engine = Engine::new(EngineConfig { threads: Some(2), ..EngineConfig::default() })?;
/// let options = PagedArrayOptions { frames: Frames::Number(16), ..PagedArrayOptions::default() };
/// let array = PagedArray::new(&engine, vec![1_u32; 1 << 20], options)?;
/// assert_eq!((array.num_pages(), array.num_frames()), (512, 16));
/// # Ok::<(), gpuvm_engine::Error>(())
/// ```
#[derive(Debug)]
pub struct PagedArray<T: 'static> {
    // Let go before the memory that it names.
    pinned: PinnedArray,
    table: PageTable,
    elements: HostArray<T>,
    device: Device,
    page_size: PageSize,
    num_pages: u64,
    num_frames: u32,
    num_pinned_frames: u32,
}

impl<T: Pod> PagedArray<T> {
    /// Pins `elements` for the device and allocates page table and frames. A `Vec` or a mapped file of a MiB or more stays
    /// where it is; [`HostArray::from_fn`] makes an array in the memory that pages come from fastest.
    ///
    /// # Errors
    /// [`Error::ElementSize`] unless the size of `T` is a power of two that a page can hold; [`Error::TooFewFrames`] or
    /// [`Error::BudgetTooSmall`] with the least that would do; [`Error::OutOfMemory`], [`Error::Pin`], [`Error::Cuda`].
    pub fn new(
        engine: &Engine,
        elements: impl Into<HostArray<T>>,
        options: PagedArrayOptions,
    ) -> Result<Self, Error> {
        let elements = elements.into();
        let PagedArrayOptions { page_size, frames, policy } = options;
        let element_bytes = size_of::<T>();
        if !element_bytes.is_power_of_two() || element_bytes as u64 > page_size.bytes() {
            return Err(Error::ElementSize { bytes: element_bytes });
        }
        let device = engine.device.clone();
        let num_pages = elements.size_bytes().div_ceil(page_size.bytes());
        // The fewest that a launch of one block, as large as it is by default, can do with: see `Kernel::launch`.
        let block_warps = match &device {
            Device::Cpu(cpu) => cpu.num_warps(),
            Device::Cuda(_) => Grid::default().warps_per_block,
        };
        let least = (FRAMES_PER_WARP * u64::from(block_warps)).min(num_pages);
        let frame_bytes = page_size.bytes() + 8;
        let table_bytes = num_pages * 8 + 8;
        let fitting = |budget_bytes: u64| {
            let most = budget_bytes.saturating_sub(table_bytes) / frame_bytes;
            let least_bytes = table_bytes + least * frame_bytes;
            if most < least {
                return Err(Error::BudgetTooSmall { access: "paged", budget_bytes, least_bytes });
            }
            Ok(most)
        };
        let num_frames = match frames {
            Frames::Fit => {
                let free_bytes = device.free_bytes()?;
                fitting(engine.config().gpu_mem.map_or(free_bytes, |bytes| bytes.min(free_bytes)))?
            }
            Frames::Bytes(bytes) => fitting(bytes)?,
            Frames::Number(num_frames) if num_frames < least => {
                return Err(Error::TooFewFrames { num_frames, least });
            }
            Frames::Number(num_frames) => num_frames,
        };
        let num_frames = u32::try_from(num_frames.min(num_pages)).unwrap_or(u32::MAX);
        let num_pinned_frames = match policy {
            Policy::PinnedShare if u64::from(num_frames) < num_pages => {
                let held = FRAMES_PER_WARP * u64::from(device.max_warps());
                let ring = (2 * held).max(u64::from(num_frames / 8));
                num_frames.saturating_sub(u32::try_from(ring).unwrap_or(u32::MAX))
            }
            _ => 0,
        };
        Ok(Self {
            pinned: PinnedArray::new(&device, "an array", bytemuck::cast_slice(&elements))?,
            table: PageTable::new(&device, num_pages, num_frames, num_pinned_frames, page_size, policy)?,
            elements,
            device,
            page_size,
            num_pages,
            num_frames,
            num_pinned_frames,
        })
    }

    /// The elements in host memory.
    pub fn elements(&self) -> &HostArray<T> {
        &self.elements
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Number of pages.
    pub fn num_pages(&self) -> u64 {
        self.num_pages
    }

    /// Number of frames.
    pub fn num_frames(&self) -> u32 {
        self.num_frames
    }

    /// Of the frames, those that keep the page they get first; 0 unless the policy is [`Policy::PinnedShare`] and pages are
    /// evicted.
    pub fn num_pinned_frames(&self) -> u32 {
        self.num_pinned_frames
    }

    /// Whether pages have to be evicted: there are fewer frames than pages.
    pub fn evicts(&self) -> bool {
        u64::from(self.num_frames) < self.num_pages
    }

    /// The elements where they lie in host memory, as an argument of a kernel that reads them there (zero-copy): `const T*`
    /// on the device.
    pub fn in_place(&self) -> InPlace<'_, T> {
        InPlace::new(self)
    }

    /// Makes every page absent.
    ///
    /// # Errors
    /// [`Error::Cuda`] if the GPU fails.
    pub fn evict_all(&mut self) -> Result<(), Error> {
        self.table.reset()
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn address(&self) -> u64 {
        self.pinned.address()
    }

    /// All that is the array's own; the launch adds its part.
    pub(super) fn view(&self) -> PagedSliceView {
        PagedSliceView {
            array: ArrayView {
                address: self.pinned.address(),
                size_bytes: self.elements.size_bytes(),
                first_page: 0,
            },
            page_table: self.table.table_view(),
            frame_pool: self.table.pool_view(),
            ..PagedSliceView::default()
        }
    }
}

/// A warp may hold one page of an array while it acquires another: it keeps two frames from being evicted, and with as
/// many for each warp in flight, every claim succeeds in the end. Frames that keep their page do not count.
pub(super) const FRAMES_PER_WARP: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineConfig;

    fn engine() -> Engine {
        Engine::new(EngineConfig { threads: Some(2), ..EngineConfig::default() }).expect("threads")
    }

    fn with(frames: Frames) -> PagedArrayOptions {
        let page_size = PageSize::new(4096).expect("allowed");
        PagedArrayOptions { page_size, frames, ..PagedArrayOptions::default() }
    }

    #[test]
    fn array_has_as_many_frames_as_asked_for_and_no_more_than_pages() {
        let elements: HostArray<u32> = vec![7; 10_241].into();
        for (frames, expected) in [
            (Frames::Number(4), 4),
            (Frames::Number(100), 11),
            (Frames::Fit, 11),
            (Frames::Bytes(11 * 8 + 8 + 5 * 4104), 5),
            (Frames::Bytes(u64::MAX), 11),
        ] {
            let array = PagedArray::new(&engine(), elements.clone(), with(frames)).expect("fits");
            assert_eq!((array.num_pages(), array.num_frames()), (11, expected), "{frames:?}");
            assert_eq!(array.evicts(), expected < 11);
        }
    }

    #[test]
    fn pinned_share_evicts_from_an_eighth_of_the_frames_or_from_four_a_warp() {
        let elements: HostArray<u32> = vec![7; 1024 * 200].into();
        for (frames, expected) in [(4, 0), (8, 0), (9, 1), (64, 56), (128, 112), (199, 175), (200, 0)] {
            let options =
                PagedArrayOptions { policy: Policy::PinnedShare, ..with(Frames::Number(frames.into())) };
            let array = PagedArray::new(&engine(), elements.clone(), options).expect("fits");
            assert_eq!((array.num_frames(), array.num_pinned_frames()), (frames, expected));
            assert_eq!(array.view().frame_pool.num_pinned, expected);
            let array = PagedArray::new(&engine(), elements.clone(), with(Frames::Number(frames.into())))
                .expect("fits");
            assert_eq!(array.num_pinned_frames(), 0, "first in, first out");
        }
    }

    #[test]
    fn fewer_frames_than_warps_may_hold_are_refused_with_the_least_that_would_do() {
        let array = |frames| PagedArray::new(&engine(), vec![0_u64; 1 << 20], with(frames));
        let refused = array(Frames::Number(3)).expect_err("two warps hold two pages each");
        assert!(matches!(refused, Error::TooFewFrames { num_frames: 3, least: 4 }), "{refused}");
        let refused = array(Frames::Bytes(20_000)).expect_err("too little");
        let Error::BudgetTooSmall { least_bytes, .. } = refused else { panic!("{refused}") };
        assert_eq!(array(Frames::Bytes(least_bytes)).expect("the least").num_frames(), 4);
        assert!(array(Frames::Bytes(least_bytes - 1)).is_err());
    }

    #[test]
    fn elements_that_would_lie_in_two_pages_are_refused() {
        let refused = PagedArray::new(&engine(), vec![[0_u8; 12]; 10], PagedArrayOptions::default());
        assert!(matches!(refused.expect_err("12 bytes"), Error::ElementSize { bytes: 12 }));
        let large = vec![[[0_u64; 32]; 32]; 2];
        assert!(PagedArray::new(&engine(), large.clone(), PagedArrayOptions::default()).is_ok());
        assert!(PagedArray::new(&engine(), large, with(Frames::Fit)).is_err(), "a page has 4096 bytes");
    }

    #[test]
    fn empty_array_has_no_pages() {
        let array = PagedArray::<f32>::new(&engine(), vec![], PagedArrayOptions::default()).expect("nothing");
        assert_eq!((array.num_pages(), array.num_frames(), array.evicts()), (0, 0, false));
    }
}
