//! Commands that wait for an element. Each is a plain command on one of its keys, executed once
//! there is something for it.

use super::super::arguments::{integer, is};
use super::super::command::Args;
use super::super::error::Error;
use super::super::reply::ERROR_TAG;

use alloc::vec::Vec;
use bytes::Bytes;

/// What is done with a key that has an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step<'a> {
    /// Pop one: the name of the plain command. The reply is the key and what it replies.
    One(&'static str),
    /// Pop one member and its score: the reply is both behind the key.
    Ranked(&'static str),
    /// Pop from an end up to so many. The reply is that of the plain command, of one key.
    Many(&'static str, &'a [u8], &'a [u8]),
    /// Move one to another list, from which end and to which.
    Move(&'a [u8], &'a [u8], &'a [u8]),
}

/// A blocking command, taken apart.
#[derive(Debug)]
pub struct Blocking<'a> {
    step: Step<'a>,
    /// The type of value that it takes from, as `TYPE` names it.
    pub takes: &'static str,
    /// In the order in which they are looked at.
    pub keys: Vec<&'a [u8]>,
    timeout: &'a [u8],
}

impl<'a> Blocking<'a> {
    /// Takes a command apart.
    pub fn parse(args: &Args<'a>) -> Result<Self, Error> {
        let mut lower = [0; 16];
        let name = args[0];
        let lower = lower.get_mut(..name.len()).ok_or(Error::SYNTAX)?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let sorted = lower.starts_with(b"bz");
        let (step, keys, timeout) = match (&*lower, &args[1..]) {
            (b"bzpopmin", [keys @ .., timeout]) => (Step::Ranked("zpopmin"), keys, *timeout),
            (b"bzpopmax", [keys @ .., timeout]) => (Step::Ranked("zpopmax"), keys, *timeout),
            (b"blpop", [keys @ .., timeout]) => (Step::One("lpop"), keys, *timeout),
            (b"brpop", [keys @ .., timeout]) => (Step::One("rpop"), keys, *timeout),
            (b"brpoplpush", [_, target, timeout]) => {
                (Step::Move(target, b"RIGHT", b"LEFT"), &args[1..2], *timeout)
            }
            (b"blmove", [_, target, from, to, timeout]) => {
                if ![from, to].iter().all(|end| is(end, "LEFT") || is(end, "RIGHT")) {
                    return Err(Error::SYNTAX);
                }
                (Step::Move(target, from, to), &args[1..2], *timeout)
            }
            (b"blmpop", [timeout, rest @ ..]) => many(timeout, rest, "lmpop", ["LEFT", "RIGHT"])?,
            (b"bzmpop", [timeout, rest @ ..]) => many(timeout, rest, "zmpop", ["MIN", "MAX"])?,
            _ => return Err(Error::SYNTAX),
        };
        let takes = if sorted { "zset" } else { "list" };
        let blocking = Self { step, takes, keys: keys.to_vec(), timeout };
        blocking.timeout_millis()?;
        if keys.is_empty() { Err(Error::SYNTAX) } else { Ok(blocking) }
    }

    /// The plain command on one of the keys.
    pub fn plain<'b>(&'b self, key: &'b [u8]) -> Args<'b> {
        match self.step {
            Step::One(name) | Step::Ranked(name) => [name.as_bytes(), key].into_iter().collect(),
            Step::Many(name, end, count) => {
                let words = [name.as_bytes(), b"1", key, end, b"COUNT", count];
                words.into_iter().collect()
            }
            Step::Move(target, from, to) => [b"lmove", key, target, from, to].into_iter().collect(),
        }
    }

    /// The reply, from what the plain command replied.
    pub fn reply(&self, key: &[u8], plain: Vec<u8>) -> Vec<u8> {
        let failed = plain.first() == Some(&ERROR_TAG);
        if failed || matches!(self.step, Step::Move(..) | Step::Many(..)) {
            return plain;
        }
        // An array of the key, a byte string, and the rest; see `super::super::reply`.
        let mut reply = Vec::with_capacity(plain.len() + key.len() + 10);
        let (count, rest) = match self.step {
            // Behind the header of an array of two.
            Step::Ranked(_) => (3, plain.get(5..).unwrap_or_default()),
            _ => (2, &plain[..]),
        };
        reply.extend_from_slice(&[6, count, 0, 0, 0, 3]);
        // A key fits its limit.
        reply.extend_from_slice(&(key.len() as u32).to_le_bytes());
        reply.extend_from_slice(key);
        reply.extend_from_slice(rest);
        reply
    }

    /// What is replied when there is nothing and it does not wait: whether an array is missing.
    pub const fn misses_array(&self) -> bool {
        !matches!(self.step, Step::Move(..))
    }

    /// The keys as values of their own.
    pub fn owned_keys(&self) -> Vec<Bytes> {
        self.keys.iter().map(|key| Bytes::copy_from_slice(key)).collect()
    }

    /// How long it waits, in milliseconds; `None` is forever.
    fn timeout_millis(&self) -> Result<Option<u64>, Error> {
        let text = core::str::from_utf8(self.timeout).ok();
        let seconds: Option<f64> = text.and_then(|text| text.parse().ok());
        let seconds = seconds.filter(|seconds| !seconds.is_nan()).ok_or(Error::NO_TIMEOUT)?;
        if seconds < 0.0 {
            return Err(Error::NEGATIVE_TIMEOUT);
        }
        if seconds > TIMEOUT_SECONDS_MAX {
            return Err(Error::TIMEOUT_OUT_OF_RANGE);
        }
        // Cut off: a fraction of a millisecond still waits for one.
        let millis = seconds * 1000.0;
        let whole = millis as u64;
        let millis = if millis > whole as f64 { whole + 1 } else { whole };
        Ok((millis > 0).then_some(millis))
    }
}

/// Longer than anybody waits; the milliseconds are exact numbers up to here.
const TIMEOUT_SECONDS_MAX: f64 = 9_007_199_254_740.0;

type Parts<'b, 'a> = (Step<'a>, &'b [&'a [u8]], &'a [u8]);

/// `timeout numkeys key... LEFT|RIGHT [COUNT count]`, with the plain command and its ends.
fn many<'b, 'a>(
    timeout: &'a [u8],
    rest: &'b [&'a [u8]],
    name: &'static str,
    ends: [&str; 2],
) -> Result<Parts<'b, 'a>, Error> {
    let [count, rest @ ..] = rest else { return Err(Error::SYNTAX) };
    let count = integer(count).ok().filter(|count| *count > 0).ok_or(Error::NO_KEYS)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let (keys, rest) = rest.split_at_checked(count).ok_or(Error::SYNTAX)?;
    let (end, limit): (_, &[u8]) = match rest {
        [end] => (end, b"1"),
        [end, word, limit] if is(word, "COUNT") => {
            integer(limit).ok().filter(|limit| *limit > 0).ok_or(Error::NO_COUNT)?;
            (end, limit)
        }
        _ => return Err(Error::SYNTAX),
    };
    if !ends.iter().any(|word| is(end, word)) {
        return Err(Error::SYNTAX);
    }
    Ok((Step::Many(name, end, limit), keys, timeout))
}

/// How long a blocking command waits, in milliseconds; `None` is forever.
///
/// # Errors
/// What is wrong with the command, in Redis's words.
pub fn timeout_millis(args: &Args<'_>) -> Result<Option<u64>, Error> {
    Blocking::parse(args)?.timeout_millis()
}
