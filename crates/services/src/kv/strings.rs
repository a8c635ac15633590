//! Commands on strings. A counter is a string that spells an integer.

use super::VALUE_BYTES_MAX;
use super::command::Args;
use super::error::Error;
use super::number::{Spelled, parse_i64};
use super::reply::ReplyWriter;
use super::store::{Store, overwrite};
use alloc::vec::Vec;

type Outcome = Result<(), Error>;

pub fn integer(arg: &[u8]) -> Result<i64, Error> {
    parse_i64(arg).ok_or(Error::NOT_AN_INTEGER)
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

pub fn get(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.optional(store.string(args[1])?);
    Ok(())
}

pub fn strlen(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.count(store.string(args[1])?.map_or(0, <[u8]>::len));
    Ok(())
}

pub fn mget(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.array(args.len() - 1);
    for key in &args[1..] {
        out.optional(store.string(key).ok().flatten());
        if out.overflowed() {
            break;
        }
    }
    Ok(())
}

pub fn getrange(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (start, end) = (integer(args[2])?, integer(args[3])?);
    let string = store.string(args[1])?.unwrap_or_default();
    // An end before the start is nothing even where clamping would bring them together.
    let crossed = start < 0 && end < 0 && start > end;
    // Other than for lists, an end before the first byte selects the first byte.
    let length = i64::try_from(string.len()).unwrap_or(i64::MAX);
    let end = if end < 0 { (end + length).max(0) } else { end };
    match select(start, end, string.len()) {
        Some((from, to)) if !crossed => out.bulk(&string[from..to]),
        _ => out.bulk(&[]),
    }
    Ok(())
}

/// What may follow the value of a `SET`.
#[derive(Default)]
struct SetOptions {
    only_new: bool,
    only_old: bool,
    get: bool,
    keep_expiry: bool,
}

impl SetOptions {
    fn parse(words: &[&[u8]]) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut expires = false;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if is("NX") && !options.only_old {
                options.only_new = true;
            } else if is("XX") && !options.only_new {
                options.only_old = true;
            } else if is("GET") {
                options.get = true;
            } else if is("KEEPTTL") && !expires {
                options.keep_expiry = true;
            } else if ["EX", "PX", "EXAT", "PXAT"].iter().any(|name| is(name))
                && !expires
                && !options.keep_expiry
            {
                words.next().ok_or(Error::SYNTAX)?;
                expires = true;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        if expires { Err(Error::NO_EXPIRY) } else { Ok(options) }
    }
}

pub fn set(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (key, value) = (args[1], args[2]);
    let options = SetOptions::parse(&args[3..])?;
    let conditional = options.only_new || options.only_old;
    if options.get {
        out.optional(store.string(key)?);
    }
    if conditional && store.contains(key) == options.only_new {
        if !options.get {
            out.nil();
        }
        return Ok(());
    }
    store.set_string(key, value);
    if !options.get {
        out.ok();
    }
    Ok(())
}

pub fn setnx(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let new = !store.contains(args[1]);
    if new {
        store.set_string(args[1], args[2]);
    }
    out.int(i64::from(new));
    Ok(())
}

pub fn getset(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.optional(store.string(args[1])?);
    store.set_string(args[1], args[2]);
    Ok(())
}

pub fn getdel(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let found = store.string(args[1])?;
    out.optional(found);
    if found.is_some() {
        store.remove(args[1]);
    }
    Ok(())
}

pub fn mset(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Error::wrong_arity("mset"));
    }
    set_pairs(store, args);
    out.ok();
    Ok(())
}

pub fn msetnx(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Error::wrong_arity("msetnx"));
    }
    let new = !args[1..].chunks(2).any(|pair| store.contains(pair[0]));
    if new {
        set_pairs(store, args);
    }
    out.int(i64::from(new));
    Ok(())
}

fn set_pairs(store: &mut Store, args: &Args<'_>) {
    args[1..].chunks_exact(2).for_each(|pair| store.set_string(pair[0], pair[1]));
}

/// Refuses a string that no reply could carry.
fn check_length(length: usize) -> Outcome {
    if length > VALUE_BYTES_MAX { Err(Error::STRING_TOO_LONG) } else { Ok(()) }
}

pub fn append(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let length = store.upsert(args[1], |string: &mut Vec<u8>| {
        check_length(string.len() + args[2].len())?;
        string.extend_from_slice(args[2]);
        Ok((string.len(), true))
    })?;
    out.count(length);
    Ok(())
}

pub fn setrange(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let offset = integer(args[2])?;
    let offset = usize::try_from(offset).map_err(|_| Error::OFFSET_OUT_OF_RANGE)?;
    let patch = args[3];
    if patch.is_empty() {
        return strlen(store, args, out);
    }
    let length = store.upsert(args[1], |string: &mut Vec<u8>| {
        let end = offset.saturating_add(patch.len());
        check_length(end)?;
        if string.len() < end {
            string.resize(end, 0);
        }
        string[offset..end].copy_from_slice(patch);
        Ok((string.len(), true))
    })?;
    out.count(length);
    Ok(())
}

pub fn incr(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    add(store, args[1], 1, out)
}

pub fn decr(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    add(store, args[1], -1, out)
}

pub fn incrby(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    add(store, args[1], integer(args[2])?, out)
}

pub fn decrby(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let by = integer(args[2])?.checked_neg().ok_or(Error::DECREMENT_OVERFLOW)?;
    add(store, args[1], by, out)
}

fn add(store: &mut Store, key: &[u8], by: i64, out: &mut ReplyWriter) -> Outcome {
    let exists = store.contains(key);
    let sum = store.upsert(key, |string: &mut Vec<u8>| {
        let value = if exists { &string[..] } else { b"0" };
        let sum = integer(value)?.checked_add(by).ok_or(Error::OVERFLOW)?;
        overwrite(string, Spelled::new(sum).as_bytes());
        Ok((sum, true))
    })?;
    out.int(sum);
    Ok(())
}
