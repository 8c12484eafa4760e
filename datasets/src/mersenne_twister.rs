//! The random words of the GAP generators: MT19937 (Matsumoto, Nishimura, ACM TOMACS 8(1), 1998), 624 words at a time.
//!
//! A Kronecker graph of scale 27 takes 58 billion words, so this one is written for whole blocks of them: every loop is
//! over slices of one length and the compiler makes vector code of it.

/// Words that come from one step of the state.
pub(crate) const BLOCK_WORDS: usize = 624;
/// Distance of the third word in the recurrence.
const MIDDLE: usize = 397;
/// Words until the recurrence meets its own results.
const FRESH: usize = BLOCK_WORDS - MIDDLE;

/// The generator and the words of its current block.
pub(crate) struct Mt19937 {
    state: [u32; BLOCK_WORDS],
    words: [u32; BLOCK_WORDS],
    num_taken: usize,
}

impl Mt19937 {
    /// The stream that starts from one seed word (`init_genrand` of the reference).
    pub fn new(seed: u32) -> Self {
        let mut state = [seed; BLOCK_WORDS];
        for i in 1..BLOCK_WORDS {
            let previous = state[i - 1];
            state[i] = (previous ^ (previous >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { state, words: [0; BLOCK_WORDS], num_taken: BLOCK_WORDS }
    }

    /// The next 624 words; what is left of the current block is dropped, so a stream is read either by block or by word.
    pub fn next_block(&mut self) -> &[u32; BLOCK_WORDS] {
        twist(&mut self.state);
        temper(&self.state, &mut self.words);
        self.num_taken = BLOCK_WORDS;
        &self.words
    }

    /// The next word.
    #[inline]
    pub fn next_word(&mut self) -> u32 {
        if self.num_taken == BLOCK_WORDS {
            self.next_block();
            self.num_taken = 0;
        }
        let word = self.words[self.num_taken];
        self.num_taken += 1;
        word
    }
}

/// The next state of all words. Word `i` comes from the old words `i`, `i + 1` and from word `i + 397`, which is an old
/// one for the first 227 words; after them the results repeat at that distance.
#[inline(always)]
fn twist(state: &mut [u32; BLOCK_WORDS]) {
    let old = *state;
    combine(&mut state[..FRESH], &old[..FRESH], &old[1..=FRESH], &old[MIDDLE..]);
    let (done, rest) = state.split_at_mut(FRESH);
    combine(&mut rest[..FRESH], &old[FRESH..2 * FRESH], &old[FRESH + 1..=2 * FRESH], done);
    let (done, rest) = state.split_at_mut(2 * FRESH);
    let length = BLOCK_WORDS - 2 * FRESH - 1;
    combine(&mut rest[..length], &old[2 * FRESH..BLOCK_WORDS - 1], &old[2 * FRESH + 1..], &done[FRESH..]);
    // The last word meets the new first one.
    state[BLOCK_WORDS - 1] = state[MIDDLE - 1] ^ mix(old[BLOCK_WORDS - 1], state[0]);
}

#[inline(always)]
fn combine(result: &mut [u32], this: &[u32], next: &[u32], middle: &[u32]) {
    for (((result, &this), &next), &middle) in result.iter_mut().zip(this).zip(next).zip(middle) {
        *result = middle ^ mix(this, next);
    }
}

#[inline(always)]
fn mix(this: u32, next: u32) -> u32 {
    let joined = this & 0x8000_0000 | next & 0x7FFF_FFFF;
    (joined >> 1) ^ ((next & 1).wrapping_neg() & 0x9908_B0DF)
}

#[inline(always)]
fn temper(state: &[u32; BLOCK_WORDS], words: &mut [u32; BLOCK_WORDS]) {
    for (word, &x) in words.iter_mut().zip(state) {
        let x = x ^ (x >> 11);
        let x = x ^ (x << 7 & 0x9D2C_5680);
        let x = x ^ (x << 15 & 0xEFC6_0000);
        *word = x ^ (x >> 18);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_an_independent_implementation() {
        for seed in [0, 5489, 27_491_095, u32::MAX] {
            let (mut ours, mut theirs) = (Mt19937::new(seed), rand_mt::Mt::new(seed));
            assert!((0..5000).all(|_| ours.next_word() == theirs.next_u32()), "seed {seed}");
        }
    }

    #[test]
    fn ten_thousandth_word_of_the_default_seed_is_the_one_the_cpp_standard_names() {
        // ISO/IEC 14882, [rand.predef]: the 10000th invocation of a default-constructed mt19937.
        let mut engine = Mt19937::new(5489);
        assert_eq!((0..10_000).map(|_| engine.next_word()).last(), Some(4_123_659_995));
    }
}
