//! Commands on when keys end. Time is agreed time, in milliseconds since 1970, that of the
//! operation's slot; no replica's clock is read.

use super::arguments::{Outcome, integer, is};
use super::command::Args;
use super::error::Error;
use super::reply::ReplyWriter;
use super::store::Store;
use alloc::format;
use alloc::string::String;

const NX_OR_OTHERS: Error =
    Error::err("NX and XX, GT or LT options at the same time are not compatible");
const GT_OR_LT: Error = Error::err("GT and LT options at the same time are not compatible");

fn invalid(name: &str) -> Error {
    Error::other(format!("invalid expire time in '{name}' command"))
}

/// An option such as `EX 10`, not yet looked at.
#[derive(Clone, Copy)]
pub struct Expiry<'a> {
    seconds: bool,
    absolute: bool,
    value: &'a [u8],
}

impl<'a> Expiry<'a> {
    pub const fn seconds(value: &'a [u8]) -> Self {
        Self { seconds: true, absolute: false, value }
    }

    pub const fn millis(value: &'a [u8]) -> Self {
        Self { seconds: false, absolute: false, value }
    }

    /// The option of this name and the words behind it; `None` if it is none, or lacks its value,
    /// or another one of another name was given before.
    pub fn parse<'b>(
        name: &[u8],
        rest: &'b [&'a [u8]],
        before: Option<Self>,
    ) -> Option<(Self, &'b [&'a [u8]])> {
        let (value, rest) = rest.split_first()?;
        let (seconds, absolute) = match () {
            () if is(name, "EX") => (true, false),
            () if is(name, "PX") => (false, false),
            () if is(name, "EXAT") => (true, true),
            () if is(name, "PXAT") => (false, true),
            () => return None,
        };
        let same = before.is_none_or(|b| (b.seconds, b.absolute) == (seconds, absolute));
        same.then_some((Self { seconds, absolute, value }, rest))
    }

    /// The deadline that is meant; `name` is the command's, for the error.
    pub fn deadline(self, store: &Store, name: &str) -> Result<u64, Error> {
        let value = integer(self.value)?;
        let factor = if self.seconds { 1000 } else { 1 };
        let start = if self.absolute { 0 } else { store.now() };
        let millis = u64::try_from(value).ok().filter(|value| *value > 0);
        let deadline = millis.and_then(|value| value.checked_mul(factor)?.checked_add(start));
        deadline.filter(|deadline| i64::try_from(*deadline).is_ok()).ok_or_else(|| invalid(name))
    }
}

/// When a deadline replaces what a key had.
#[derive(Default)]
struct Conditions {
    only_new: bool,
    only_old: bool,
    only_later: bool,
    only_earlier: bool,
}

impl Conditions {
    fn parse(words: &[&[u8]]) -> Result<Self, Error> {
        let mut conditions = Self::default();
        for word in words {
            let condition = match () {
                () if is(word, "NX") => &mut conditions.only_new,
                () if is(word, "XX") => &mut conditions.only_old,
                () if is(word, "GT") => &mut conditions.only_later,
                () if is(word, "LT") => &mut conditions.only_earlier,
                () => {
                    let word = String::from_utf8_lossy(word).replace(['\r', '\n'], " ");
                    return Err(Error::other(format!("Unsupported option {word}")));
                }
            };
            *condition = true;
        }
        let Self { only_new, only_old, only_later, only_earlier } = conditions;
        if only_new && (only_old || only_later || only_earlier) {
            return Err(NX_OR_OTHERS);
        }
        if only_later && only_earlier { Err(GT_OR_LT) } else { Ok(conditions) }
    }

    /// No deadline counts as later than all.
    fn allow(&self, old: Option<u64>, new: i64) -> bool {
        let old = old.map(|old| i64::try_from(old).unwrap_or(i64::MAX));
        !(self.only_new && old.is_some()
            || self.only_old && old.is_none()
            || self.only_later && old.is_none_or(|old| new <= old)
            || self.only_earlier && old.is_some_and(|old| new >= old))
    }
}

pub fn expire(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    expire_by(store, args, "expire", (1000, true), out)
}

pub fn pexpire(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    expire_by(store, args, "pexpire", (1, true), out)
}

pub fn expireat(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    expire_by(store, args, "expireat", (1000, false), out)
}

pub fn pexpireat(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    expire_by(store, args, "pexpireat", (1, false), out)
}

fn expire_by(
    store: &mut Store,
    args: &Args<'_>,
    name: &str,
    (factor, relative): (i64, bool),
    out: &mut ReplyWriter,
) -> Outcome {
    let conditions = Conditions::parse(&args[3..])?;
    let now = i64::try_from(store.now()).unwrap_or(i64::MAX);
    let start = if relative { now } else { 0 };
    let deadline = integer(args[2])?.checked_mul(factor);
    let deadline = deadline.and_then(|millis| millis.checked_add(start));
    let deadline = deadline.ok_or_else(|| invalid(name))?;
    let entry = store.entry(args[1]);
    let done = entry.is_some_and(|entry| conditions.allow(entry.deadline, deadline));
    if done {
        // Redis deletes at once what is over already.
        match u64::try_from(deadline) {
            Ok(later) if deadline > now => drop(store.set_deadline(args[1], Some(later))),
            _ => drop(store.remove(args[1])),
        }
    }
    out.int(i64::from(done));
    Ok(())
}

pub fn persist(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let ends = store.entry(args[1]).is_some_and(|entry| entry.deadline.is_some());
    if ends {
        store.set_deadline(args[1], None);
    }
    out.int(i64::from(ends));
    Ok(())
}

/// -2 without a key, -1 without a deadline.
fn look(store: &Store, key: &[u8], relative: bool) -> i64 {
    let Some(entry) = store.entry(key) else { return -2 };
    let Some(deadline) = entry.deadline else { return -1 };
    let start = if relative { store.now() } else { 0 };
    i64::try_from(deadline.saturating_sub(start)).unwrap_or(i64::MAX)
}

/// Seconds, rounded to the nearest.
const fn seconds(millis: i64) -> i64 {
    if millis < 0 { millis } else { millis.saturating_add(500) / 1000 }
}

pub fn ttl(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.int(seconds(look(store, args[1], true)));
    Ok(())
}

pub fn pttl(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.int(look(store, args[1], true));
    Ok(())
}

pub fn expiretime(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.int(seconds(look(store, args[1], false)));
    Ok(())
}

pub fn pexpiretime(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.int(look(store, args[1], false));
    Ok(())
}
