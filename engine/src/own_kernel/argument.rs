use bytemuck::{AnyBitPattern, NoUninit, Pod};

use super::paged_array::PagedArray;
use crate::device::{Device, Parameter};
use crate::error::Error;
use crate::memory::DeviceArray;

/// The elements of a [`PagedArray`] where they lie in host memory: `const T*` on the device.
#[derive(Debug)]
pub struct InPlace<'a, T: 'static> {
    array: &'a PagedArray<T>,
}

impl<'a, T: Pod> InPlace<'a, T> {
    pub(super) fn new(array: &'a PagedArray<T>) -> Self {
        Self { array }
    }
}

/// The launch that an argument is for.
#[derive(Clone, Copy, Debug)]
pub struct LaunchContext<'a> {
    pub(super) device: &'a Device,
    pub(super) error: u64,
    pub(super) stuck_after_ns: u64,
    pub(super) counters: u64,
}

impl LaunchContext<'_> {
    /// What is passed for an argument that holds `value` on `device`.
    fn pass(&self, is_on_device: bool, value: &impl NoUninit) -> Result<Passed, Error> {
        if !is_on_device {
            return Err(Error::OtherDevice);
        }
        let mut parameter = Parameter::default();
        let bytes = bytemuck::bytes_of(value);
        bytemuck::cast_slice_mut(&mut parameter)[..bytes.len()].copy_from_slice(bytes);
        Ok(Passed { parameter, evicting_frames: None })
    }
}

/// An argument as it is passed.
#[derive(Debug)]
pub struct Passed {
    pub(super) parameter: Parameter,
    /// Frames that pages are evicted from, if there are fewer frames than pages.
    pub(super) evicting_frames: Option<u32>,
}

/// What nobody outside this crate can implement.
mod sealed {
    use super::{Error, LaunchContext, Passed};

    pub trait Argument {
        fn pass(&self, launch: &LaunchContext<'_>) -> Result<Passed, Error>;

        /// Puts right what a launch that failed half way may have left.
        fn recover(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    pub trait Arguments {
        fn for_each(
            &mut self,
            visit: &mut dyn FnMut(&mut dyn Argument) -> Result<(), Error>,
        ) -> Result<(), Error>;
    }
}

pub(super) use sealed::{Argument, Arguments};

/// One argument of a [`Kernel`](super::Kernel):
///
/// | here | in the kernel |
/// |---|---|
/// | `&mut PagedArray<T>` | `gpuvm::PagedSlice<T>` |
/// | `&mut DeviceArray<T>` | `T*` |
/// | `&DeviceArray<T>` | `const T*` |
/// | [`PagedArray::in_place`] | `const T*`, in host memory |
/// | `u32`, `i32`, `u64`, `i64`, `f32`, `f64` | the same: `u32` or `unsigned`, `int`, `u64`, `long long`, `float`, `double` |
pub trait KernelArgument: Argument {}

/// All arguments of a [`Kernel`](super::Kernel), in order: a tuple of up to twelve [`KernelArgument`]s.
pub trait KernelArguments: Arguments {}

impl<T: Pod> KernelArgument for &mut PagedArray<T> {}
impl<T: Pod> Argument for &mut PagedArray<T> {
    fn pass(&self, launch: &LaunchContext<'_>) -> Result<Passed, Error> {
        let mut view = self.view();
        view.error = launch.error;
        view.stuck_after_ns = launch.stuck_after_ns;
        view.counters = launch.counters;
        let passed = launch.pass(self.device().is_same(launch.device), &view)?;
        // The others keep their page, so a claim gets none of them.
        let ring = self.num_frames() - self.num_pinned_frames();
        Ok(Passed { evicting_frames: self.evicts().then_some(ring), ..passed })
    }

    fn recover(&mut self) -> Result<(), Error> {
        // Entries may say `faulting`, and references may be left.
        self.evict_all()
    }
}

impl<T: Pod> KernelArgument for InPlace<'_, T> {}
impl<T: Pod> Argument for InPlace<'_, T> {
    fn pass(&self, launch: &LaunchContext<'_>) -> Result<Passed, Error> {
        launch.pass(self.array.device().is_same(launch.device), &self.array.address())
    }
}

impl<T: AnyBitPattern + NoUninit + Send + Sync> KernelArgument for &mut DeviceArray<T> {}
impl<T: AnyBitPattern + NoUninit + Send + Sync> Argument for &mut DeviceArray<T> {
    fn pass(&self, launch: &LaunchContext<'_>) -> Result<Passed, Error> {
        launch.pass(self.is_on(launch.device), &self.address())
    }
}

impl<T: AnyBitPattern + NoUninit + Send + Sync> KernelArgument for &DeviceArray<T> {}
impl<T: AnyBitPattern + NoUninit + Send + Sync> Argument for &DeviceArray<T> {
    fn pass(&self, launch: &LaunchContext<'_>) -> Result<Passed, Error> {
        launch.pass(self.is_on(launch.device), &self.address())
    }
}

macro_rules! values {
    ($($value:ty),*) => {$(
        impl KernelArgument for $value {}
        impl Argument for $value {
            fn pass(&self, launch: &LaunchContext<'_>) -> Result<Passed, Error> {
                launch.pass(true, self)
            }
        }
    )*};
}
values!(u32, i32, u64, i64, f32, f64);

macro_rules! tuples {
    ($($argument:ident)*) => {
        impl<$($argument: KernelArgument),*> KernelArguments for ($($argument,)*) {}
        impl<$($argument: KernelArgument),*> Arguments for ($($argument,)*) {
            #[expect(non_snake_case, reason = "an argument is named like its type")]
            fn for_each(
                &mut self,
                visit: &mut dyn FnMut(&mut dyn Argument) -> Result<(), Error>,
            ) -> Result<(), Error> {
                let ($($argument,)*) = self;
                $(visit($argument)?;)*
                Ok(())
            }
        }
    };
}
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);

#[cfg(test)]
mod tests {
    use gpuvm_kernels::layout::PagedSliceView;

    use super::*;
    use crate::{Engine, EngineConfig, Frames, PageSize, PagedArrayOptions, Policy};

    fn engine() -> Engine {
        Engine::new(EngineConfig { threads: Some(1), ..EngineConfig::default() }).expect("a thread")
    }

    fn passed(engine: &Engine, argument: impl Argument) -> Result<Passed, Error> {
        argument.pass(&LaunchContext { device: &engine.device, error: 1, stuck_after_ns: 2, counters: 3 })
    }

    #[test]
    fn values_are_passed_by_their_bytes() {
        let word = |argument: Result<Passed, Error>| argument.expect("on every device").parameter[0];
        assert_eq!(word(passed(&engine(), 7_u32)), 7);
        assert_eq!(word(passed(&engine(), -1_i64)), u64::MAX);
        assert_eq!(word(passed(&engine(), 1.5_f64)), 1.5_f64.to_bits());
    }

    #[test]
    fn paged_array_is_passed_as_the_view_that_the_kernel_declares() {
        let engine = engine();
        let mut array =
            PagedArray::new(&engine, vec![1_u64; 5000], PagedArrayOptions::default()).expect("fits");
        let parameter = passed(&engine, &mut array).expect("on this device").parameter;
        let words = size_of::<PagedSliceView>() / 8;
        let view: PagedSliceView = bytemuck::pod_read_unaligned(bytemuck::cast_slice(&parameter[..words]));
        assert_eq!(view.array.size_bytes, 40_000);
        assert_eq!((view.error, view.stuck_after_ns, view.counters), (1, 2, 3));
        assert_eq!((view.page_table.page_shift, view.frame_pool.num_frames), (13, 5));
    }

    #[test]
    fn frames_that_keep_their_page_are_none_for_the_warps_of_a_launch() {
        let engine = engine();
        for (policy, num_frames, expected) in [
            (Policy::Fifo, 100, Some(100)),
            (Policy::PinnedShare, 100, Some(12)),
            (Policy::PinnedShare, 4, Some(4)),
            (Policy::PinnedShare, 128, None),
        ] {
            let options = PagedArrayOptions {
                page_size: PageSize::new(4096).expect("allowed"),
                frames: Frames::Number(num_frames),
                policy,
            };
            let mut array = PagedArray::new(&engine, vec![1_u32; 1 << 17], options).expect("fits");
            let passed = passed(&engine, &mut array).expect("on this device");
            assert_eq!(passed.evicting_frames, expected, "{policy} {num_frames}");
        }
    }

    #[test]
    fn array_of_another_device_is_refused() {
        let (here, there) = (engine(), engine());
        let mut array = PagedArray::new(&there, vec![1_u64; 10], PagedArrayOptions::default()).expect("fits");
        assert!(matches!(passed(&here, array.in_place()), Err(Error::OtherDevice)));
        assert!(matches!(passed(&here, &mut array), Err(Error::OtherDevice)));
        assert!(passed(&there, &mut array).is_ok());
    }
}
