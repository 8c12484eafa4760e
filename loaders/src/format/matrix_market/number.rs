//! Numbers from bytes: eight digits at a time, no locale, no allocation, no look at UTF-8.
//!
//! Ids of a graph have five to nine digits in no order, so a loop over digits mispredicts its end once a number. Here
//! the length is arithmetic on one 64-bit word instead. Reals take the exact path of Clinger (a mantissa below 2^53
//! and a power of ten up to 22 are both exact, so one operation rounds once); the rest goes to `fast_float2`.

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
    1e20, 1e21, 1e22,
];
/// Powers of ten for up to eight digits.
const SCALES: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
/// The largest integer up to which doubles leave none out.
const EXACT: u64 = 1 << 53;

/// The byte at `at`; a line feed after the last one, so that the end of the text ends a line.
#[inline(always)]
pub(super) fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(b'\n')
}

#[inline(always)]
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

#[inline(always)]
pub(super) fn skip_blanks(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|&b| is_blank(b)) {
        at += 1;
    }
    at
}

/// Up to eight digits at `at`: their value and how many there are.
#[inline(always)]
fn up_to_eight_digits(bytes: &[u8], at: usize) -> (u64, usize) {
    let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) else {
        return up_to_eight_digits_at_end(bytes, at);
    };
    let digits = u64::from_le_bytes(*chunk) ^ 0x3030_3030_3030_3030;
    // The high bit of each byte that is no digit; the first of them is right, since no byte below it carries over.
    let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    let len = others.trailing_zeros() as usize / 8;
    if len == 0 {
        return (0, 0);
    }
    // Leading zeros in front, then pairs, fours and eights are joined.
    let digits = digits << (64 - 8 * len);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let high = (pairs & 0x0000_00FF_0000_00FF).wrapping_mul(0x000F_4240_0000_0064);
    let low = ((pairs >> 16) & 0x0000_00FF_0000_00FF).wrapping_mul(0x0000_2710_0000_0001);
    (high.wrapping_add(low) >> 32, len)
}

#[cold]
fn up_to_eight_digits_at_end(bytes: &[u8], at: usize) -> (u64, usize) {
    let digits = bytes.get(at..).unwrap_or_default().iter().take(8).take_while(|b| b.is_ascii_digit());
    digits.fold((0, 0), |(value, len), &b| (value * 10 + u64::from(b - b'0'), len + 1))
}

/// The digits at `at` as a number, saturated, and where they end; they end at `at` if there is none.
#[inline(always)]
pub(super) fn unsigned(bytes: &[u8], at: usize) -> (u64, usize) {
    let (value, len) = up_to_eight_digits(bytes, at);
    if len < 8 { (value, at + len) } else { unsigned_long(bytes, at + 8, value) }
}

#[inline(never)]
fn unsigned_long(bytes: &[u8], mut at: usize, mut value: u64) -> (u64, usize) {
    loop {
        let (more, len) = up_to_eight_digits(bytes, at);
        value = value.saturating_mul(SCALES[len]).saturating_add(more);
        at += len;
        if len < 8 {
            return (value, at);
        }
    }
}

/// The integer at `at` and where it ends; `None` if there is none, or if `exact` and a double cannot hold it.
#[inline(always)]
pub(super) fn integer(bytes: &[u8], at: usize, exact: bool) -> Option<(f64, usize)> {
    let first = byte(bytes, at);
    let begin = at + usize::from(first == b'-' || first == b'+');
    let (magnitude, end) = unsigned(bytes, begin);
    if end == begin {
        return None;
    }
    let value = if magnitude <= EXACT {
        magnitude as f64
    } else {
        large_integer(&bytes[begin..end], exact)?
    };
    Some((if first == b'-' { 0.0 - value } else { value }, end))
}

#[cold]
fn large_integer(digits: &[u8], exact: bool) -> Option<f64> {
    let value = digits.iter().try_fold(0_u128, |value, b| value.checked_mul(10)?.checked_add((b - b'0').into()));
    match value {
        Some(value) if !exact || value as f64 as u128 == value => Some(value as f64),
        None if !exact => Some(f64::INFINITY),
        _ => None,
    }
}

/// The real at `at` and where it ends; `None` if there is none. Infinite and not-a-number spellings are reals.
#[inline(always)]
pub(super) fn real(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    short_real(bytes, at).or_else(|| long_real(bytes, at))
}

/// A real of at most 16 digits and a small power of ten.
#[inline(always)]
fn short_real(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let first = byte(bytes, at);
    let begin = at + usize::from(first == b'-' || first == b'+');
    let (mut mantissa, mut at) = unsigned(bytes, begin);
    let mut num_digits = at - begin;
    let mut exponent = 0_i64;
    if byte(bytes, at) == b'.' {
        let fraction = at + 1;
        at = fraction;
        loop {
            let (digits, len) = up_to_eight_digits(bytes, at);
            // Wraps only where the count of digits below says so.
            mantissa = mantissa.wrapping_mul(SCALES[len]).wrapping_add(digits);
            at += len;
            if len < 8 {
                break;
            }
        }
        num_digits += at - fraction;
        exponent = -((at - fraction) as i64);
    }
    if num_digits == 0 || num_digits > 19 || mantissa > EXACT {
        return None;
    }
    if matches!(byte(bytes, at), b'e' | b'E' | b'd' | b'D') {
        let sign = byte(bytes, at + 1);
        let begin = at + 1 + usize::from(sign == b'-' || sign == b'+');
        let (power, end) = unsigned(bytes, begin);
        if end == begin || power > 400 {
            return None;
        }
        exponent += if sign == b'-' { -(power as i64) } else { power as i64 };
        at = end;
    }
    let power = *POWERS.get(exponent.unsigned_abs() as usize)?;
    let value = if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power };
    Some((if first == b'-' { -value } else { value }, at))
}

/// Any real, from its whole word.
#[cold]
fn long_real(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let rest = bytes.get(at..)?;
    let len = rest.iter().position(|&b| is_blank(b) || b == b'\n').unwrap_or(rest.len());
    let word = &rest[..len];
    let value = fast_float2::parse::<f64, _>(word).ok().or_else(|| {
        // Fortran writes double precision as 1.0D+02.
        let exponent = word.iter().position(|b| matches!(b, b'd' | b'D'))?;
        let mut word = word.to_vec();
        word[exponent] = b'e';
        fast_float2::parse::<f64, _>(word).ok().filter(|value| value.is_finite())
    })?;
    Some((value, at + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_every_length_are_read() {
        let all = b"12345678901234567890";
        for len in 1..=19 {
            let expected: u64 = std::str::from_utf8(&all[..len]).expect("ascii").parse().expect("fits");
            for after in [&b" 7 8 9 10 11"[..], b"\n", b"", b"/:\xff\x00 ....."] {
                let text = [&all[..len], after].concat();
                assert_eq!(unsigned(&text, 0), (expected, len));
            }
        }
        assert_eq!(unsigned(b"99999999999999999999999 ", 0), (u64::MAX, 23));
        assert_eq!(unsigned(b"000000000000000000000000000012 ", 0), (12, 30));
        assert_eq!(unsigned(b"x", 0), (0, 0));
        assert_eq!(unsigned(b"", 0), (0, 0));
    }

    #[test]
    fn reals_are_read_as_the_standard_library_reads_them() {
        for word in [
            "0", "1", "-1", "+3", "5.", ".45", "-.5", "0.1", "123456.789", "1e10", "1.5E-3", "2.2250738585072014e-308",
            "1.7976931348623157e308", "9007199254740993", "0.000000000000000000000001", "123456789012345678901234567890",
            "3.141592653589793238462643383279", "1e22", "1e23", "8.5e-22", "00012.5", "-0", "1e-400", "4.9e-324",
            "0.30000000000000004", "7205759403792793e1", "99999999999999999999e-20",
        ] {
            let expected: f64 = word.parse().expect("the standard library reads it");
            for after in ["", " ", "\n12345678", "\r\n"] {
                let text = format!("{word}{after}");
                let (value, end) = real(text.as_bytes(), 0).expect(word);
                assert_eq!((value.to_bits(), end), (expected.to_bits(), word.len()), "{word}");
            }
        }
    }

    #[test]
    fn fortran_exponents_are_read() {
        assert_eq!(real(b"1.0D+02", 0), Some((100.0, 7)));
        assert_eq!(real(b"-2.5d-1 ", 0), Some((-0.25, 7)));
        assert_eq!(real(b"1.00000000000000000000001D3 ", 0), Some((1000.0, 27)));
    }

    #[test]
    fn infinite_and_missing_numbers_are_read_as_such() {
        for word in ["inf", "-Infinity", "INF", "+inf", "NaN", "nan"] {
            assert!(real(word.as_bytes(), 0).is_some_and(|(value, _)| !value.is_finite()), "{word}");
        }
        assert_eq!(real(b"1e999", 0).map(|(value, _)| value), Some(f64::INFINITY));
    }

    #[test]
    fn words_that_are_no_reals_are_refused() {
        for word in ["", ".", "-", "+", "e5", "1e", "1e+", "x", "--1", "1.2.3x", "infd", "na"] {
            let read = real(word.as_bytes(), 0);
            // A number with something behind it ends there, and the caller refuses what follows.
            assert!(read.is_none_or(|(_, end)| end < word.len()), "{word}: {read:?}");
        }
    }

    #[test]
    fn integers_that_a_double_cannot_hold_are_refused_where_they_matter() {
        assert_eq!(integer(b"9007199254740992", 0, true), Some((9007199254740992.0, 16)));
        assert_eq!(integer(b"9007199254740993", 0, true), None);
        assert_eq!(integer(b"9007199254740994 ", 0, true), Some((9007199254740994.0, 16)));
        assert_eq!(integer(b"-36893488147419103232", 0, true), Some((-36893488147419103232.0, 21)));
        assert_eq!(integer(&[b'9'; 60], 0, true), None);
        assert!(integer(b"9007199254740993", 0, false).is_some());
        assert_eq!(integer(b"-0 ", 0, true).map(|(value, _)| value.to_bits()), Some(0.0_f64.to_bits()));
        assert_eq!(integer(b"+", 0, true), None);
        assert_eq!(integer(b"", 0, true), None);
    }
}
