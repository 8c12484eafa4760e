//! The lines that most files consist of: two or three integers of up to eight digits, one byte between them.
//!
//! Where a number ends is known only once it is looked at, so numbers read one after the other wait for each other. Here the
//! bytes of a line that are no digits are found at once, and all its numbers read together; lines of any other shape are left
//! to those who read a number at a time.

use crate::number::digits_to_number;

/// What a line is looked at in: three numbers of eight digits, what is behind each, and eight bytes from the last number on.
const WINDOW: usize = 40;

/// Two numbers, and perhaps a third.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortLine {
    pub numbers: [u32; 2],
    /// Past the second number, and the byte there is no digit.
    pub end: usize,
    /// A third number, if it was asked for and stands after one byte that is no digit, and a line feed stands after it; and
    /// where the next line begins.
    pub third: Option<(u32, usize)>,
}

/// The numbers from `at` on, if there are two of up to eight digits, and one byte of `is_separator` is between them.
#[inline(always)]
pub(crate) fn short_line(
    bytes: &[u8],
    at: usize,
    has_third: bool,
    is_separator: impl Fn(u8) -> bool,
) -> Option<ShortLine> {
    let window = bytes.get(at..)?.first_chunk::<WINDOW>()?;
    let number = |begin: usize, len: usize| -> Option<u32> {
        Some(digits_to_number(u64::from_le_bytes(*window.get(begin..)?.first_chunk()?), len) as u32)
    };
    let fits = |len: usize| len.wrapping_sub(1) < 8;
    let mut others = others(window);
    let mut next = || {
        let next = others.trailing_zeros() as usize;
        others &= others.wrapping_sub(1);
        next
    };
    let first = next();
    let second = next();
    let len = second.wrapping_sub(first + 1);
    if !fits(first) || !fits(len) || !is_separator(window[first]) {
        return None;
    }
    let numbers = [number(0, first)?, number(first + 1, len)?];
    let mut third = None;
    if has_third {
        let end = next();
        let len = end.wrapping_sub(second + 1);
        if fits(len) && is_separator(window[second]) && window[end % WINDOW] == b'\n' {
            third = Some((number(second + 1, len)?, at + end + 1));
        }
    }
    Some(ShortLine { numbers, end: at + second, third })
}

/// Which of the first 32 bytes are no digits, the first one in the lowest bit.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn others(window: &[u8; WINDOW]) -> u32 {
    use std::arch::x86_64::{__m128i, _mm_add_epi8, _mm_cmpgt_epi8, _mm_movemask_epi8, _mm_set1_epi8};
    let half = |at: usize| -> u32 {
        let bytes: [u8; 16] = std::array::from_fn(|i| window[at + i]);
        let bytes: __m128i = bytemuck::cast(bytes);
        // SAFETY: these are instructions of SSE2, which every x86-64 processor has, on values in registers.
        unsafe {
            // Digits become the ten least of all numbers with a sign.
            let shifted = _mm_add_epi8(bytes, _mm_set1_epi8(0x50));
            _mm_movemask_epi8(_mm_cmpgt_epi8(shifted, _mm_set1_epi8(-119))) as u32
        }
    };
    half(0) | half(16) << 16
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn others(window: &[u8; WINDOW]) -> u32 {
    let mask = |byte: u8, at: usize| u32::from(!byte.is_ascii_digit()) << at;
    window[..32].iter().zip(0..).fold(0, |others, (&byte, at)| others | mask(byte, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<ShortLine> {
        let text = format!("9 {line}\n{}", " ".repeat(WINDOW));
        short_line(text.as_bytes(), 2, true, |b| b == b' ' || b == b'\t')
    }

    #[test]
    fn numbers_of_one_to_eight_digits_are_read_together() {
        let all = "12345678";
        for a in 1..=8 {
            for b in 1..=8 {
                let (first, second) = (&all[..a], &all[8 - b..]);
                let numbers = [first, second].map(|word| word.parse().expect("a number"));
                let end = 2 + a + 1 + b;
                assert_eq!(read(&format!("{first} {second}")), Some(ShortLine { numbers, end, third: None }),);
                for third in [0, 7, 255, 99_999_999] {
                    let line = format!("{first}\t{second} {third}");
                    let third = Some((third, 2 + line.len() + 1));
                    assert_eq!(read(&line), Some(ShortLine { numbers, end, third }), "{line}");
                }
            }
        }
    }

    #[test]
    fn lines_of_another_shape_are_left_to_others() {
        for line in [
            "",
            "1",
            "1 ",
            " 1 2",
            "1  2",
            "1,2",
            "123456789 1",
            "1 123456789",
            "x 1",
            "1 x",
            "-1 2",
            "1.5 2",
        ] {
            assert_eq!(read(line).filter(|line| line.third.is_none() && line.end != 5), None, "{line}");
        }
        for third in ["1.5", "-1", "123456789", "1 ", "1\r", "x", " 1", "1e3"] {
            let found = read(&format!("1 2 {third}")).expect("two numbers");
            assert_eq!(found, ShortLine { numbers: [1, 2], end: 5, third: None }, "{third}");
        }
        // Too near to the end of the text.
        assert_eq!(short_line(b"1 2\n3 4\n", 0, false, |b| b == b' '), None);
    }

    #[test]
    fn bytes_that_are_no_digits_are_found_among_all_bytes() {
        for byte in 0..=u8::MAX {
            for at in 0..32 {
                let mut window = [b'7'; WINDOW];
                window[at] = byte;
                let expected = if byte.is_ascii_digit() { 0 } else { 1 << at };
                assert_eq!(others(&window), expected, "{byte} at {at}");
            }
        }
    }
}
