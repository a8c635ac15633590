//! What commands' words mean, wherever they stand.

use super::error::Error;
use super::number::parse_i64;

/// What running a command comes to; its reply is written elsewhere.
pub type Outcome = Result<(), Error>;

/// Whether a word is this one, in whatever case.
pub fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

pub fn integer(arg: &[u8]) -> Result<i64, Error> {
    parse_i64(arg).ok_or(Error::NOT_AN_INTEGER)
}

/// An integer of at least this; the error if it is not.
pub fn at_least(arg: &[u8], least: i64, otherwise: Error) -> Result<usize, Error> {
    let value = parse_i64(arg).filter(|value| *value >= least);
    value.and_then(|value| usize::try_from(value).ok()).ok_or(otherwise)
}

/// A count that may be negative, which Redis takes by its size.
pub fn signed_count(arg: &[u8]) -> Result<i64, Error> {
    Some(integer(arg)?).filter(|count| *count != i64::MIN).ok_or(Error::COUNT_OUT_OF_RANGE)
}

/// Bytes or elements that `start` and `end` select, both inclusive and counted from the end where
/// negative: from one index up to, but without, another.
pub fn select(start: i64, end: i64, length: usize) -> Option<(usize, usize)> {
    let length = i64::try_from(length).ok()?;
    let from_end = |index: i64| if index < 0 { index + length } else { index };
    let start = from_end(start).max(0);
    let end = from_end(end).min(length - 1);
    // Both are at least 0 and below the length once start <= end.
    (start <= end).then(|| (start as usize, end as usize + 1))
}

/// As [`select`], but an end before the first element selects the first element.
pub fn select_some(start: i64, end: i64, length: usize) -> Option<(usize, usize)> {
    let signed = i64::try_from(length).ok()?;
    let end = if end < 0 { end.saturating_add(signed).max(0) } else { end };
    select(start, end, length)
}

/// Some words, and the words behind them.
pub type Split<'a, 'b> = (&'b [&'a [u8]], &'b [&'a [u8]]);

/// The keys of a command that says how many there are, and the words behind them; the error if
/// there are not as many.
pub fn numbered_keys<'a, 'b>(
    words: &'b [&'a [u8]],
    otherwise: Error,
) -> Result<Split<'a, 'b>, Error> {
    let count = at_least(words[0], 1, Error::NO_KEYS)?;
    words[1..].split_at_checked(count).ok_or(otherwise)
}
