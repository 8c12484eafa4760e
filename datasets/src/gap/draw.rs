//! How a random word becomes a number below a bound. Libraries differ, so the graphs do.

use crate::mersenne_twister::Mt19937;

/// The rule by which a number below a bound comes from 32-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrawRule {
    /// `std::uniform_int_distribution` of libstdc++ before GCC 11: cut the words into `bound` equal intervals.
    Division,
    /// The same from GCC 11 on: the upper half of word times bound (Lemire, ACM TOMACS 29(1), 2019).
    Multiply,
    /// GAP since version 1.5: the remainder of the word.
    Modulo,
}

/// Draws below one bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    rule: DrawRule,
    bound: u32,
    /// Words that are refused, so that all results are equally likely: from here on (division, modulo; 2^32: none), or
    /// products with a lower half below this (multiply).
    limit: u64,
    /// Words of one result (division).
    width: u32,
}

impl Draw {
    /// Draws of 0 to `bound - 1`.
    ///
    /// # Panics
    /// If `bound` is 0.
    #[inline]
    pub fn below(bound: u32, rule: DrawRule) -> Self {
        let (limit, width) = match rule {
            DrawRule::Division => {
                let width = u32::MAX / bound;
                (u64::from(width) * u64::from(bound), width)
            }
            DrawRule::Multiply => (u64::from(bound.wrapping_neg() % bound), 0),
            DrawRule::Modulo => match u32::MAX % bound {
                rest if rest == bound - 1 => (1 << 32, 0),
                rest => (u64::from(u32::MAX - rest), 0),
            },
        };
        Self { rule, bound, limit, width }
    }

    /// Draws of 0 to `bound - 1` from the lower halves of 64-bit words by the modulo rule: the suite computes the limit
    /// of the wide words and takes its lower half, too. That works for its ids, signed 32-bit numbers; beyond them the
    /// limit is that of 32-bit words.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below_from_wide_words(bound: u32) -> Self {
        let limit = match u64::MAX % u64::from(bound) {
            _ if bound > i32::MAX as u32 => return Self::below(bound, DrawRule::Modulo),
            rest if rest == u64::from(bound) - 1 => 1 << 32,
            rest => (u64::MAX - rest) & 0xFFFF_FFFF,
        };
        Self { rule: DrawRule::Modulo, bound, limit, width: 0 }
    }

    /// The result that `word` gives; `None` if it is refused and the next word decides.
    #[inline]
    pub fn pick(&self, word: u32) -> Option<u32> {
        let wide = u64::from(word);
        match self.rule {
            DrawRule::Division => (wide < self.limit).then(|| word / self.width),
            DrawRule::Multiply => {
                let product = wide * u64::from(self.bound);
                (product & 0xFFFF_FFFF >= self.limit).then_some((product >> 32) as u32)
            }
            DrawRule::Modulo => (wide < self.limit).then(|| word % self.bound),
        }
    }

    /// The next result from `engine`.
    #[inline]
    pub fn next(&self, engine: &mut Mt19937) -> u32 {
        loop {
            if let Some(result) = self.pick(engine.next_word()) {
                return result;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_cuts_the_words_into_equal_intervals_and_refuses_the_rest() {
        let draw = Draw::below(1 << 27, DrawRule::Division);
        assert_eq!(draw.pick(30), Some(0));
        assert_eq!(draw.pick(31), Some(1));
        assert_eq!(draw.pick(31 * (1 << 27) - 1), Some((1 << 27) - 1));
        assert_eq!(draw.pick(31 * (1 << 27)), None);
    }

    #[test]
    fn multiply_takes_the_upper_half_and_refuses_the_surplus_of_a_result() {
        let draw = Draw::below(3, DrawRule::Multiply);
        // 2^32 mod 3 = 1: of the products only the one with lower half 0, that of word 0, is refused.
        assert_eq!(draw.pick(0), None);
        assert_eq!(draw.pick(1), Some(0));
        assert_eq!(draw.pick(u32::MAX), Some(2));
        assert_eq!(Draw::below(4, DrawRule::Multiply).pick(0), Some(0));
    }

    #[test]
    fn modulo_refuses_words_of_the_last_incomplete_round() {
        let draw = Draw::below(255, DrawRule::Modulo);
        assert_eq!(draw.pick(u32::MAX), None);
        assert_eq!(draw.pick(u32::MAX - 1), Some(254));
        assert_eq!(Draw::below(256, DrawRule::Modulo).pick(u32::MAX), Some(255));
    }
}
