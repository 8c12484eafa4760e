//! Numbers from bytes: eight digits at a time, no locale, no allocation, no look at UTF-8.
//!
//! Ids of a graph have five to nine digits in no order, so a loop over digits mispredicts its end once a number. Here
//! the length is arithmetic on one 64-bit word instead. Reals take the exact path of Clinger (a mantissa below 2^53
//! and a power of ten up to 22 are both exact, so one operation rounds once), or one multiplication by a 64-bit
//! reciprocal where that decides the rounding; the rest goes to `fast_float2`.

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
/// Powers of ten for up to eight digits.
const SCALES: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
/// Digits that always fit 64 bits.
const MOST_DIGITS: usize = 19;
/// The largest integer up to which doubles leave none out.
const EXACT: u64 = 1 << 53;

/// The byte at `at`; a line feed after the last one, so that the end of the text ends a line.
#[inline(always)]
pub(crate) fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(b'\n')
}

#[inline(always)]
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

#[inline(always)]
pub(crate) fn skip_blanks(bytes: &[u8], mut at: usize) -> usize {
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
    let chunk = u64::from_le_bytes(*chunk);
    let digits = chunk ^ 0x3030_3030_3030_3030;
    // The high bit of each byte that is no digit; the first of them is right, since no byte below it carries over.
    let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    let len = others.trailing_zeros() as usize / 8;
    if len == 0 { (0, 0) } else { (digits_to_number(chunk, len), len) }
}

/// The number that the first `len` bytes of a chunk are, which are one to eight digits.
#[inline(always)]
pub(crate) fn digits_to_number(chunk: u64, len: usize) -> u64 {
    let digits = chunk ^ 0x3030_3030_3030_3030;
    // Leading zeros in front, then pairs, fours and eights are joined.
    let digits = digits << ((64 - 8 * len) % 64);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let high = (pairs & 0x0000_00FF_0000_00FF).wrapping_mul(0x000F_4240_0000_0064);
    let low = ((pairs >> 16) & 0x0000_00FF_0000_00FF).wrapping_mul(0x0000_2710_0000_0001);
    high.wrapping_add(low) >> 32
}

#[cold]
fn up_to_eight_digits_at_end(bytes: &[u8], at: usize) -> (u64, usize) {
    let digits = bytes.get(at..).unwrap_or_default().iter().take(8).take_while(|b| b.is_ascii_digit());
    digits.fold((0, 0), |(value, len), &b| (value * 10 + u64::from(b - b'0'), len + 1))
}

/// The digits at `at` as a number, saturated, and where they end; they end at `at` if there is none.
#[inline(always)]
pub(crate) fn unsigned(bytes: &[u8], at: usize) -> (u64, usize) {
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
pub(crate) fn integer(bytes: &[u8], at: usize, exact: bool) -> Option<(f64, usize)> {
    let first = byte(bytes, at);
    let begin = at + usize::from(first == b'-' || first == b'+');
    let (magnitude, end) = unsigned(bytes, begin);
    if end == begin {
        return None;
    }
    let value = if magnitude <= EXACT { magnitude as f64 } else { large_integer(&bytes[begin..end], exact)? };
    Some((if first == b'-' { 0.0 - value } else { value }, end))
}

#[cold]
fn large_integer(digits: &[u8], exact: bool) -> Option<f64> {
    let value =
        digits.iter().try_fold(0_u128, |value, b| value.checked_mul(10)?.checked_add((b - b'0').into()));
    match value {
        Some(value) if !exact || value as f64 as u128 == value => Some(value as f64),
        None if !exact => Some(f64::INFINITY),
        _ => None,
    }
}

/// The real at `at` and where it ends; `None` if there is none. Infinite and not-a-number spellings are reals.
#[inline(always)]
pub(crate) fn real(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    short_real(bytes, at).or_else(|| long_real(bytes, at))
}

/// A real of at most 19 digits and a small power of ten.
#[inline(always)]
fn short_real(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let first = byte(bytes, at);
    let begin = at + usize::from(first == b'-' || first == b'+');
    let lone = byte(bytes, begin);
    // Most reals have one digit before the point. Here and below a branch that is nearly always right lets the next
    // digits be read before these are, which a sum of lengths would not.
    let (mut mantissa, mut at) = if lone.is_ascii_digit() && byte(bytes, begin + 1) == b'.' {
        (u64::from(lone - b'0'), begin + 1)
    } else {
        unsigned(bytes, begin)
    };
    let mut num_digits = at - begin;
    let mut exponent = 0_i64;
    if byte(bytes, at) == b'.' {
        let fraction = at + 1;
        at = fraction;
        loop {
            let (digits, len) = up_to_eight_digits(bytes, at);
            // Wraps only where the count of digits below says so.
            if len == 8 {
                mantissa = mantissa.wrapping_mul(SCALES[8]).wrapping_add(digits);
                at += 8;
            } else {
                mantissa = mantissa.wrapping_mul(SCALES[len]).wrapping_add(digits);
                at += len;
                break;
            }
        }
        num_digits += at - fraction;
        exponent = -((at - fraction) as i64);
    }
    if num_digits == 0 || num_digits > MOST_DIGITS && significant(&bytes[begin..at]) > MOST_DIGITS {
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
    let value = if mantissa <= EXACT {
        let power = *POWERS.get(exponent.unsigned_abs() as usize)?;
        if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power }
    } else if exponent == 0 {
        mantissa as f64
    } else {
        divided(mantissa, usize::try_from(-exponent).ok()?)?
    };
    Some((if first == b'-' { -value } else { value }, at))
}

/// Digits of a number without the zeros in front.
#[cold]
fn significant(number: &[u8]) -> usize {
    number.iter().filter(|&&b| b != b'.').skip_while(|&&b| b == b'0').count()
}

/// `mantissa / 10^power`, rounded once; `None` if these 64 bits do not tell which way, or the power is too large.
///
/// The quotient is the mantissa times a reciprocal that is too small by less than one in its last place. So the upper
/// half of the product, moved to its highest bit, is too small by less than four; the two nearest doubles are 2048
/// apart, and only where their middle is within reach, once in 500, is the answer left to others.
#[inline(always)]
fn divided(mantissa: u64, power: usize) -> Option<f64> {
    let &(reciprocal, scale) = RECIPROCALS.get(power)?;
    let zeros = mantissa.leading_zeros();
    let product = u128::from(mantissa << zeros) * u128::from(reciprocal);
    let upper = (product >> 64) as u64;
    let shift = upper.leading_zeros();
    let upper = upper << shift;
    let below = upper & 0x7FF;
    if (0x3FD..=0x400).contains(&below) {
        return None;
    }
    let rounded = (upper >> 11) + u64::from(below > 0x400);
    // A power of two, far from the ends of its range: this product is exact.
    let exponent = 12 - i64::from(zeros + scale + shift);
    Some(rounded as f64 * f64::from_bits(((1023 + exponent) as u64) << 52))
}

/// For each power of ten, 64 bits of its reciprocal, rounded down, and by how many bits that is too large, less one.
const RECIPROCALS: [(u64, u32); 28] = {
    let mut reciprocals = [(1 << 63, 0); 28];
    let (mut k, mut five) = (0, 1_u64);
    while k < reciprocals.len() {
        let bits = u64::BITS - five.leading_zeros();
        // 10^k = 5^k * 2^k; the quotient has 64 bits, and for k = 0 one more.
        if k > 0 {
            reciprocals[k] = (((1_u128 << (63 + bits)) / five as u128) as u64, bits + k as u32);
        }
        five *= if k + 1 < reciprocals.len() { 5 } else { 1 };
        k += 1;
    }
    reciprocals
};

/// Any real. What stands behind a number is for the caller to refuse.
#[cold]
fn long_real(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let rest = bytes.get(at..)?;
    match fast_float2::parse_partial::<f64, _>(rest) {
        Ok((value, len)) if !matches!(byte(rest, len), b'd' | b'D') => Some((value, at + len)),
        _ => fortran_real(rest).map(|(value, len)| (value, at + len)),
    }
}

/// Double precision as Fortran writes it: 1.0D+02.
fn fortran_real(rest: &[u8]) -> Option<(f64, usize)> {
    let len = rest.iter().position(|&b| is_blank(b) || b == b'\n').unwrap_or(rest.len());
    let mut word = rest[..len].to_vec();
    let exponent = word.iter().position(|b| matches!(b, b'd' | b'D'))?;
    word[exponent] = b'e';
    fast_float2::parse::<f64, _>(&word).ok().filter(|value| value.is_finite()).map(|value| (value, len))
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
            "0",
            "1",
            "-1",
            "+3",
            "5.",
            ".45",
            "-.5",
            "0.1",
            "123456.789",
            "1e10",
            "1.5E-3",
            "2.2250738585072014e-308",
            "1.7976931348623157e308",
            "9007199254740993",
            "0.000000000000000000000001",
            "123456789012345678901234567890",
            "3.141592653589793238462643383279",
            "1e22",
            "1e23",
            "8.5e-22",
            "00012.5",
            "-0",
            "1e-400",
            "4.9e-324",
            "0.30000000000000004",
            "7205759403792793e1",
            "99999999999999999999e-20",
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
    fn reals_of_many_digits_are_read_as_the_standard_library_reads_them() {
        let mut state = 1_u64;
        let mut next = |bound: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 20) % bound
        };
        let mut short = 0;
        for _ in 0..300_000 {
            let digits = next(20) as u32;
            let mantissa = (next(1 << 44) << 20 | next(1 << 20)) % 10_u64.pow(digits.min(19)).max(1);
            let fraction = next(29) as usize;
            let mut word = format!("{mantissa:0>0$}", fraction + 1);
            word.insert(word.len() - fraction, '.');
            if next(4) == 0 {
                word.push_str(&format!("e{}", next(41) as i64 - 20));
            }
            let expected: f64 = word.parse().expect("the standard library reads it");
            let (value, end) = real(word.as_bytes(), 0).expect("a real");
            assert_eq!((value.to_bits(), end), (expected.to_bits(), word.len()), "{word}");
            short += u32::from(short_real(word.as_bytes(), 0).is_some());
        }
        assert!(short > 200_000, "{short} took the short way");
        // Every double in between 0 and 1, as it is written in full.
        for _ in 0..300_000 {
            let expected = (next(1 << 44) << 9 | next(1 << 9)) as f64 / (1_u64 << 53) as f64;
            let word = format!("{expected}");
            assert_eq!(
                real(word.as_bytes(), 0).map(|(value, _)| value.to_bits()),
                Some(expected.to_bits()),
                "{word}"
            );
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
