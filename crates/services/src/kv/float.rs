//! Floating-point numbers as Redis reads and writes them, the same on every machine.
//!
//! Scores are IEEE 754 doubles. Reading rounds the decimal to the nearest double and writing
//! spells the double's exact value to 17 digits; both have one right answer, and the routines of
//! Rust's `core` find it with integers, not with a C library. In between, commands compare, add
//! and multiply, each rounded once as the standard says, as Rust neither fuses nor reorders. Only
//! the x87 unit of old x86 processors rounds otherwise, so builds for it are refused.
//!
//! `INCRBYFLOAT` counts in decimal, with 17 digits behind the point, and uses no floats at all.

#[cfg(all(target_arch = "x86", not(target_feature = "sse2")))]
compile_error!("floats would be rounded by the x87 unit, other than on other replicas: use SSE2");

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The double nearest to what the bytes spell: decimal, with or without an exponent, or `inf`.
/// Not NaN; not what is too large, or too small to be told from zero.
#[must_use]
pub fn parse(text: &[u8]) -> Option<f64> {
    let value = parse_any(text)?;
    let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    let digits = mantissa.iter().any(u8::is_ascii_digit);
    let lost = value.is_infinite() && digits
        || value == 0.0 && mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9'));
    (!lost).then_some(value)
}

/// As [`parse`], with what is too large infinite and what is too small zero.
pub fn parse_any(text: &[u8]) -> Option<f64> {
    let value: f64 = core::str::from_utf8(text).ok()?.parse().ok()?;
    (!value.is_nan()).then_some(value)
}

/// The spelling of C's `%.17g`.
#[must_use]
pub fn spell(value: f64) -> String {
    if value.is_infinite() {
        return String::from(if value > 0.0 { "inf" } else { "-inf" });
    }
    // d.dddddddddddddddde-x, to 17 digits.
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(|digit| *digit != '.').collect();
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        digits => digits,
    };
    if !(-4..17).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let direction = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}{point}{rest}e{direction}{:02}", exponent.abs());
    }
    // Between 0 and 16 where it is not negative.
    let whole = usize::try_from(exponent + 1).unwrap_or_default();
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        format!("{sign}0.{zeros}{digits}")
    } else if digits.len() <= whole {
        format!("{sign}{digits}{}", "0".repeat(whole - digits.len()))
    } else {
        let (before, after) = digits.split_at(whole);
        format!("{sign}{before}.{after}")
    }
}

/// Digits of a [`Decimal`] behind the point.
const PLACES: i32 = 17;

/// A decimal number with 17 digits behind the point, below 10^21.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decimal(i128);

/// Why bytes are no [`Decimal`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoDecimal {
    /// They spell no number.
    Malformed,
    /// They spell a number that is too large.
    TooLarge,
}

/// The longest spelling that is looked at.
const DECIMAL_BYTES_MAX: usize = 256;

impl Decimal {
    pub const ZERO: Self = Self(0);

    /// The number that bytes spell, with or without an exponent; digits behind the seventeenth are
    /// rounded.
    pub fn parse(text: &[u8]) -> Result<Self, NoDecimal> {
        // Sorts out what is no number; its value is not used but for its size.
        let value = parse_any(text).filter(|_| text.len() <= DECIMAL_BYTES_MAX);
        let size = value.ok_or(NoDecimal::Malformed)?.abs();
        if size >= 1e21 {
            return Err(NoDecimal::TooLarge);
        }
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&text[..at], exponent(&text[at + 1..])),
            None => (text, 0),
        };
        let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
        // The place of the first digit, where that of the last one kept is -PLACES.
        let first = i32::try_from(point).unwrap_or(i32::MAX).saturating_add(exponent) - 1;
        let digits = mantissa.iter().filter(|byte| **byte != b'.').map(|byte| byte - b'0');
        let (mut sum, mut place) = (0i128, first);
        for digit in digits {
            match place.checked_add(PLACES) {
                Some(power @ 0..=38) => {
                    sum += i128::from(digit) * 10i128.pow(power.unsigned_abs());
                }
                Some(-1) if digit >= 5 => sum += 1,
                // Higher ones are zeros, as the size is bounded; lower ones do not count.
                _ => {}
            }
            place = place.saturating_sub(1);
        }
        Ok(Self(if negative { -sum } else { sum }))
    }

    /// The sum, unless it is too large.
    pub fn plus(self, other: Self) -> Option<Self> {
        let sum = self.0.checked_add(other.0)?;
        (sum.unsigned_abs() < 10u128.pow(38)).then_some(Self(sum))
    }

    /// The spelling, without an exponent and without needless zeros.
    pub fn spell(self) -> Vec<u8> {
        let sign = if self.0 < 0 { "-" } else { "" };
        let one = 10u128.pow(PLACES.unsigned_abs());
        let (whole, part) = (self.0.unsigned_abs() / one, self.0.unsigned_abs() % one);
        let mut spelled = format!("{sign}{whole}.{part:017}").into_bytes();
        while spelled.last() == Some(&b'0') {
            spelled.pop();
        }
        if spelled.last() == Some(&b'.') {
            spelled.pop();
        }
        spelled
    }
}

/// What follows the `e` of a number, which is known to be one.
fn exponent(text: &[u8]) -> i32 {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let value = digits.iter().fold(0i32, |sum, digit| {
        sum.saturating_mul(10).saturating_add(i32::from(digit - b'0')).min(1_000_000)
    });
    if negative { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spells_as_c_does() {
        for (value, wanted) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (3.3, "3.2999999999999998"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (123_456_789.123, "123456789.123"),
            (0.0001, "0.0001"),
            (0.00012, "0.00012"),
            (0.00001, "1.0000000000000001e-05"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NEG_INFINITY, "-inf"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (100.0, "100"),
        ] {
            assert_eq!(spell(value), wanted);
            assert_eq!(parse(wanted.as_bytes()).map(f64::to_bits), Some(value.to_bits()));
        }
    }

    #[test]
    fn reads_what_redis_reads() {
        for (text, wanted) in [
            ("+5", 5.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1E3", 1000.0),
            ("-Infinity", f64::NEG_INFINITY),
            ("+inf", f64::INFINITY),
            ("1e-320", 1e-320),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(wanted), "{text}");
        }
        for text in ["", " 1", "1 ", "nan", "1e", "e5", ".", "1e999", "-1e999", "1e-999", "1,5"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"0e-999"), Some(0.0));
    }

    #[test]
    fn decimals_add_up_exactly() {
        let decimal = |text: &str| Decimal::parse(text.as_bytes());
        let sum = |one, two| {
            let sum = decimal(one).unwrap().plus(decimal(two).unwrap()).unwrap();
            String::from_utf8(sum.spell()).unwrap()
        };
        for (one, two, wanted) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("-0.5", "0.5", "0"),
            ("-1", "0.25", "-0.75"),
            ("1e-17", "0", "0.00000000000000001"),
            ("5e-18", "0", "0.00000000000000001"),
            ("4e-18", "0", "0"),
            ("1e-99999999999", "1", "1"),
            ("0e99999999999", "1", "1"),
            ("0.000001e20", "1", "100000000000001"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("+.5", "5.", "5.5"),
        ] {
            assert_eq!(sum(one, two), wanted, "{one} + {two}");
        }
        for text in ["", "x", "1e", "--1", "1 ", "nan", "0x1"] {
            assert_eq!(decimal(text), Err(NoDecimal::Malformed), "{text}");
        }
        for text in ["inf", "1e21", "-1e400"] {
            assert_eq!(decimal(text), Err(NoDecimal::TooLarge), "{text}");
        }
        let most = decimal("600000000000000000000").unwrap();
        assert_eq!(most.plus(most), None);
    }
}
