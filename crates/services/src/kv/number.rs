//! Integers as Redis writes them: decimal, no sign but a minus, no leading zeros, no spaces.

use alloc::vec::Vec;

/// Digits of the longest `i64` with its sign.
const LONGEST: usize = 20;

/// The integer that these bytes spell, if they spell it in its one canonical way.
#[must_use]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() < LONGEST => {}
        _ => return None,
    }
    // Summed on the negative side, which reaches one further than the positive one.
    let mut value = 0i64;
    for digit in digits {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// Appends the canonical spelling of a number.
pub fn write_i64(value: i64, to: &mut Vec<u8>) {
    to.extend_from_slice(Spelled::new(value).as_bytes());
}

/// A number spelled out without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Spelled {
    digits: [u8; LONGEST],
    start: usize,
}

impl Spelled {
    /// Spells a number.
    #[must_use]
    pub fn new(value: i64) -> Self {
        let mut spelled = Self { digits: [0; LONGEST], start: LONGEST };
        let mut rest = value.unsigned_abs();
        loop {
            // A remainder of a division by ten fits a byte.
            spelled.push(b'0' + (rest % 10) as u8);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            spelled.push(b'-');
        }
        spelled
    }

    fn push(&mut self, byte: u8) {
        self.start -= 1;
        self.digits[self.start] = byte;
    }

    /// The spelling.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn spells_and_reads_back_the_edges() {
        for value in [0, 1, -1, 9, 10, 99, 999_999_999_999_999_999, i64::MAX, i64::MIN, -10] {
            assert_eq!(Spelled::new(value).as_bytes(), value.to_string().as_bytes());
            assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }
    }

    #[test]
    fn refuses_every_other_spelling() {
        for text in [
            "",
            "-",
            "+1",
            "-0",
            "00",
            "01",
            " 1",
            "1 ",
            "1a",
            "1.0",
            "0x1",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
    }
}
