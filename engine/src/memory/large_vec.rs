//! Vectors of an entry a vertex. Most of the time that one takes to be filled goes into its first touch: the kernel clears
//! page after page, for each thread that comes. So all cores touch them, and in large pages where there are many.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use bytemuck::Zeroable;
use rayon::prelude::*;

/// A large page of x86-64, and of others with pages of 4 KiB.
const LARGE_PAGE: usize = 2 << 20;

/// The least that a page is.
const SMALL_PAGE: usize = 4 << 10;

/// `len` zeros, of pages that are not there before they are written.
pub(crate) fn zeros<T: Zeroable + Clone>(len: usize) -> Vec<T> {
    // For integers and floating-point numbers this asks the allocator for zeros, which has them of fresh pages.
    let elements = vec![T::zeroed(); len];
    advise_large_pages(&elements);
    elements
}

/// The same, of pages that are there. Threads that come to a large page together would each clear one, and all but one in vain:
/// here each has pages of its own. For threads that write to all places in any order, or to a part at a time.
pub(crate) fn touched_zeros<T: Place>(len: usize) -> Vec<T> {
    let mut elements = zeros(len);
    let places = T::shared(&mut elements);
    places.par_chunks(LARGE_PAGE / size_of::<T>()).for_each(|page| {
        for place in page.iter().step_by(SMALL_PAGE / size_of::<T>()) {
            T::zeroed().set(place);
        }
    });
    elements
}

/// Asks for large pages where they lie wholly in `elements`. Advice: it may be refused.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "others have no such advice"))]
fn advise_large_pages<T>(elements: &[T]) {
    #[cfg(target_os = "linux")]
    {
        let start = elements.as_ptr().cast_mut().cast::<u8>();
        let skipped = start.align_offset(LARGE_PAGE);
        let size = size_of_val(elements).saturating_sub(skipped) / LARGE_PAGE * LARGE_PAGE;
        if size > 0 {
            // SAFETY: the range is part of `elements`; this advice changes none of its bytes.
            let _ = unsafe {
                rustix::mm::madvise(start.add(skipped).cast(), size, rustix::mm::Advice::LinuxHugepage)
            };
        }
    }
}

/// A number that threads may write to any place of a slice, whoever else writes there: a file that tells the places may be
/// wrong.
pub(crate) trait Place: Zeroable + Copy + Send + Sync {
    /// The same with writes that are one instruction.
    type Shared: Sync;

    /// The places of `elements`.
    fn shared(elements: &mut [Self]) -> &[Self::Shared];

    /// Writes one.
    fn set(self, place: &Self::Shared);
}

macro_rules! places {
    ($($number:ty, $shared:ty, $bits:expr;)*) => { $(
        impl Place for $number {
            type Shared = $shared;

            fn shared(elements: &mut [Self]) -> &[$shared] {
                const { assert!(size_of::<$number>() == size_of::<$shared>()) };
                const { assert!(align_of::<$number>() == align_of::<$shared>()) };
                // SAFETY: size and alignment are the same, all bytes are good for both, and the borrow keeps everyone
                // else away.
                unsafe { &*(std::ptr::from_mut(elements) as *const [$shared]) }
            }

            fn set(self, place: &$shared) {
                place.store($bits(self), Relaxed);
            }
        }
    )* };
}

places! {
    u32, AtomicU32, std::convert::identity;
    u64, AtomicU64, std::convert::identity;
    f64, AtomicU64, f64::to_bits;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_vector_is_of_zeros_and_keeps_what_is_written() {
        // Three large pages and a bit, so that two at least lie wholly in it.
        let len = 3 * LARGE_PAGE / 8 + 5;
        let mut numbers = zeros::<u64>(len);
        assert!(numbers.len() == len && numbers.iter().all(|&number| number == 0));
        let places = u64::shared(&mut numbers);
        7_u64.set(&places[len - 1]);
        assert_eq!((numbers[len - 2], numbers[len - 1]), (0, 7));
        assert!(zeros::<u32>(0).is_empty());
    }

    #[test]
    fn touched_vector_is_of_zeros() {
        for len in [0, 1, 1000, LARGE_PAGE / 8 + 1, 3 * LARGE_PAGE / 8] {
            let numbers = touched_zeros::<u64>(len);
            assert!(numbers.len() == len && numbers.iter().all(|&number| number == 0), "{len}");
        }
    }

    #[test]
    fn places_hold_bits_of_real_numbers() {
        let mut numbers = [1.5, 0.0];
        let places = f64::shared(&mut numbers);
        f64::INFINITY.set(&places[0]);
        (-2.25).set(&places[1]);
        assert_eq!(numbers, [f64::INFINITY, -2.25]);
    }
}
