//! The new labels of a Kronecker graph: a random permutation as `std::shuffle` of libstdc++ makes it.

use gpuvm_loaders::Progress;

use super::SEED;
use super::draw::{Draw, DrawRule};
use crate::error::GenerateError;
use crate::memory::LargeArray;
use crate::mersenne_twister::Mt19937;

/// Swaps between two looks at the caller.
const STEP: u32 = 1 << 20;

/// The permutation of `0..2^scale`: vertex `u` becomes vertex `permutation[u]`.
///
/// One thread: each swap needs the one before. Since place `i` still holds `i` when its turn comes, a swap is one read
/// and two writes.
pub(super) fn permutation(
    scale: u32,
    rule: DrawRule,
    progress: &dyn Progress,
) -> Result<LargeArray<u32>, GenerateError> {
    let num_vertices = 1_u32 << scale;
    let mut labels = LargeArray::zeroed(num_vertices.into(), "the new labels")?;
    progress.begin("permutation", num_vertices.into());
    let mut engine = Mt19937::new(SEED);
    let mut swap = |i: u32, j: u32| {
        labels[i as usize] = labels[j as usize];
        labels[j as usize] = i;
    };
    if scale <= 15 {
        // Two bounds fit one word: since GCC 7 the library draws for two places at once. The first is 0, which needs no
        // draw, and their number is even, so place 1 is drawn alone.
        swap(1, Draw::below(2, rule).next(&mut engine));
        for i in (2..num_vertices).step_by(2) {
            let both = Draw::below((i + 1) * (i + 2), rule).next(&mut engine);
            swap(i, both / (i + 2));
            swap(i + 1, both % (i + 2));
        }
        progress.advance(num_vertices.into());
    } else {
        for begin in (0..num_vertices).step_by(STEP as usize) {
            if progress.is_cancelled() {
                return Err(GenerateError::Interrupted);
            }
            let end = num_vertices.min(begin + STEP);
            for i in begin.max(1)..end {
                swap(i, Draw::below(i + 1, rule).next(&mut engine));
            }
            progress.advance((end - begin).into());
        }
    }
    progress.end();
    Ok(labels)
}
