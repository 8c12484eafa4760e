//! The generated edges, before anything is sorted or dropped. Blocks of 2^18 edges have an engine each, so they are
//! made in any order and by any thread.

use gpuvm_engine::graph::VertexId;
use gpuvm_loaders::Progress;

use super::draw::Draw;
use super::permutation::permutation;
use super::{GapGenerator, GapKind, SEED};
use crate::adjacency::EdgeBlocks;
use crate::error::GenerateError;
use crate::memory::LargeArray;
use crate::mersenne_twister::{BLOCK_WORDS, Mt19937};

/// Edges of one engine.
const BLOCK_EDGES: usize = 1 << 18;

/// The edges of a generator, and all that is computed once for them.
pub(super) struct GapEdges {
    num_edges: u64,
    num_vertices: u64,
    ends: Ends,
    /// Draws of weights less 1; `None` leaves them out.
    weights: Option<Draw>,
}

enum Ends {
    Kron { scale: u32, thresholds: Thresholds, labels: Option<LargeArray<VertexId>> },
    Urand(Draw),
}

impl GapEdges {
    /// The edges of `generator` under their final labels.
    pub fn new(
        generator: &GapGenerator,
        with_weights: bool,
        progress: &dyn Progress,
    ) -> Result<Self, GenerateError> {
        let mut edges = Self::unlabelled(generator, with_weights);
        if let Ends::Kron { labels, .. } = &mut edges.ends {
            *labels = Some(permutation(generator.scale, generator.rule.shuffle_draws(), progress)?);
        }
        Ok(edges)
    }

    /// The edges of `generator`; those of a Kronecker graph before they are relabelled.
    pub fn unlabelled(generator: &GapGenerator, with_weights: bool) -> Self {
        let GapGenerator { kind, scale, rule, .. } = *generator;
        let ends = match kind {
            GapKind::Kron => Ends::Kron { scale, thresholds: rule.thresholds(), labels: None },
            GapKind::Urand => Ends::Urand(Draw::below(1 << scale, rule.number_draws())),
        };
        Self {
            num_edges: generator.num_generated_edges(),
            num_vertices: 1 << scale,
            ends,
            weights: with_weights.then(|| Draw::below(255, rule.number_draws())),
        }
    }

    fn engine(block: u64) -> Mt19937 {
        Mt19937::new(SEED.wrapping_add(block as u32))
    }
}

impl EdgeBlocks for GapEdges {
    fn num_edges(&self) -> u64 {
        self.num_edges
    }

    fn num_vertices(&self) -> u64 {
        self.num_vertices
    }

    fn block_edges(&self) -> usize {
        BLOCK_EDGES
    }

    fn has_weights(&self) -> bool {
        self.weights.is_some()
    }

    fn fill_ends(&self, block: u64, edges: &mut [[VertexId; 2]]) {
        let mut engine = Self::engine(block);
        match &self.ends {
            Ends::Kron { scale, thresholds, labels } => {
                let mut levels = Levels::default();
                // `scale` blocks of words are the levels of as many edges as a block has words.
                for batch in edges.chunks_mut(BLOCK_WORDS) {
                    for level in 0..*scale as usize {
                        levels.append(level, thresholds, engine.next_block());
                    }
                    levels.edges(*scale, batch);
                    if let Some(labels) = labels {
                        for [u, v] in batch {
                            *u = labels[*u as usize];
                            *v = labels[*v as usize];
                        }
                    }
                }
            }
            Ends::Urand(draw) => {
                for [u, v] in edges {
                    *v = draw.next(&mut engine);
                    *u = draw.next(&mut engine);
                }
            }
        }
    }

    fn fill_weights(&self, block: u64, weights: &mut [u8]) {
        let Some(draw) = &self.weights else { return };
        let mut engine = Self::engine(block);
        for weight in weights {
            *weight = draw.next(&mut engine) as u8 + 1;
        }
    }
}

/// The words at which a level's quadrant changes: upper left, upper right, lower left, lower right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thresholds {
    /// The first word of the upper right quadrant.
    pub upper_right: u32,
    /// The first word of the lower left quadrant.
    pub lower_left: u32,
    /// The first word of the lower right quadrant.
    pub lower_right: u32,
}

impl Thresholds {
    /// Version 1.5: integers.
    pub fn of_integers() -> Self {
        const A: u32 = (0.57 * u32::MAX as f64) as u32;
        const B: u32 = (0.19 * u32::MAX as f64) as u32;
        Self { upper_right: A + 1, lower_left: A + B, lower_right: A + B + B + 1 }
    }

    /// Before: 32-bit floats. Converting a word to a float never changes the order of two, so each comparison of floats
    /// is one of words, with a threshold that is found by bisection.
    pub fn of_floats() -> Self {
        const A: f32 = 0.57;
        const B: f32 = 0.19;
        let first_word = |is_beyond: &dyn Fn(f32) -> bool| {
            let (mut low, mut high) = (0, u32::MAX);
            while low < high {
                let middle = low + (high - low) / 2;
                // The library gives the largest float below 1 where rounding gives 1.
                let x = (middle as f32 / 4_294_967_296.0).min(1.0_f32.next_down());
                (low, high) = if is_beyond(x) { (low, middle) } else { (middle + 1, high) };
            }
            low
        };
        Self {
            upper_right: first_word(&|x| x > A),
            lower_left: first_word(&|x| x >= A + B),
            lower_right: first_word(&|x| x > A + B + B),
        }
    }
}

/// Bytes that hold a bit for each word of a block.
const BLOCK_BYTES: usize = BLOCK_WORDS / 8;

/// The bits of source and target for a batch of edges, as two streams: the first word's bit is the highest.
struct Levels {
    sources: [u8; MAX_LEVEL_BYTES],
    targets: [u8; MAX_LEVEL_BYTES],
}

/// Of the largest scale, and seven more, since bits are read eight bytes at a time.
const MAX_LEVEL_BYTES: usize = super::MAX_SCALE as usize * BLOCK_BYTES + 7;

impl Default for Levels {
    fn default() -> Self {
        Self { sources: [0; MAX_LEVEL_BYTES], targets: [0; MAX_LEVEL_BYTES] }
    }
}

impl Levels {
    /// Sets the bits that block `index` of words decides.
    fn append(&mut self, index: usize, thresholds: &Thresholds, words: &[u32; BLOCK_WORDS]) {
        let mut lower = [0_u8; BLOCK_WORDS];
        let mut right = [0_u8; BLOCK_WORDS];
        for ((lower, right), &word) in lower.iter_mut().zip(&mut right).zip(words) {
            *lower = u8::from(word >= thresholds.lower_left);
            // The quadrants alternate between left and right.
            *right =
                u8::from(word >= thresholds.upper_right) ^ *lower ^ u8::from(word >= thresholds.lower_right);
        }
        let range = index * BLOCK_BYTES..(index + 1) * BLOCK_BYTES;
        pack(&lower, &mut self.sources[range.clone()]);
        pack(&right, &mut self.targets[range]);
    }

    /// The edges: `scale` bits each, highest first.
    fn edges(&self, scale: u32, edges: &mut [[VertexId; 2]]) {
        let field = |stream: &[u8; MAX_LEVEL_BYTES], begin: usize| {
            let bytes = stream[begin / 8..begin / 8 + 8].try_into().expect("eight bytes");
            // At most 7 bits before the field and 31 of it.
            (u64::from_be_bytes(bytes) << (begin % 8) >> (64 - scale)) as VertexId
        };
        for (i, [u, v]) in edges.iter_mut().enumerate() {
            let begin = i * scale as usize;
            *u = field(&self.sources, begin);
            *v = field(&self.targets, begin);
        }
    }
}

/// Eight flags a byte, the first the highest bit.
fn pack(flags: &[u8; BLOCK_WORDS], bytes: &mut [u8]) {
    for (byte, eight) in bytes.iter_mut().zip(flags.chunks_exact(8)) {
        let eight = u64::from_le_bytes(eight.try_into().expect("eight flags"));
        // The product moves flag i from bit 8i to bit 63 - i; no two partial products meet, so none carries.
        *byte = (eight.wrapping_mul(0x8040_2010_0804_0201) >> 56) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_of_version_1_5_are_the_documented_integers() {
        let expected =
            Thresholds { upper_right: 2_448_131_359, lower_left: 3_264_175_144, lower_right: 4_080_218_931 };
        assert_eq!(Thresholds::of_integers(), expected);
    }

    #[test]
    fn thresholds_of_floats_separate_words_as_the_comparisons_of_floats_do() {
        let float = |word: u32| (word as f32 / 4_294_967_296.0).min(1.0_f32.next_down());
        let t = Thresholds::of_floats();
        assert!(float(t.upper_right) > 0.57 && float(t.upper_right - 1) <= 0.57);
        assert!(float(t.lower_left) >= 0.57_f32 + 0.19 && float(t.lower_left - 1) < 0.57_f32 + 0.19);
        let upper = 0.57_f32 + 0.19 + 0.19;
        assert!(float(t.lower_right) > upper && float(t.lower_right - 1) <= upper);
    }

    #[test]
    fn flags_are_packed_with_the_first_in_the_highest_bit() {
        let mut flags = [0; BLOCK_WORDS];
        (flags[0], flags[3], flags[8], flags[623]) = (1, 1, 1, 1);
        let mut bytes = [0; BLOCK_BYTES];
        pack(&flags, &mut bytes);
        assert_eq!((bytes[0], bytes[1], bytes[77]), (0b1001_0000, 0b1000_0000, 1));
    }
}
