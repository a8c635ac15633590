//! Commands on strings. A counter is a string that spells an integer.

use super::VALUE_BYTES_MAX;
use super::arguments::{Outcome, integer, is, select_some};
use super::command::Args;
use super::error::Error;
use super::expiry::Expiry;
use super::float::{Decimal, NoDecimal};
use super::number::Spelled;
use super::reply::ReplyWriter;
use super::store::{Store, overwrite};
use alloc::vec::Vec;

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
    match select_some(start, end, string.len()) {
        Some((from, to)) if !crossed => out.bulk(&string[from..to]),
        _ => out.bulk(&[]),
    }
    Ok(())
}

/// What may follow the value of a `SET`.
#[derive(Default)]
struct SetOptions<'a> {
    only_new: bool,
    only_old: bool,
    get: bool,
    keep_expiry: bool,
    expiry: Option<Expiry<'a>>,
}

impl<'a> SetOptions<'a> {
    fn parse(words: &[&'a [u8]]) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if is(word, "NX") && !options.only_old {
                options.only_new = true;
            } else if is(word, "XX") && !options.only_new {
                options.only_old = true;
            } else if is(word, "GET") {
                options.get = true;
            } else if is(word, "KEEPTTL") && options.expiry.is_none() {
                options.keep_expiry = true;
            } else if !options.keep_expiry
                && let Some((expiry, after)) = Expiry::parse(word, after, options.expiry)
            {
                options.expiry = Some(expiry);
                rest = after;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(options)
    }
}

pub fn set(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (key, value) = (args[1], args[2]);
    let options = SetOptions::parse(&args[3..])?;
    let expiry = options.expiry.map(|expiry| expiry.deadline(store, "set")).transpose()?;
    let conditional = options.only_new || options.only_old;
    if options.get {
        out.optional(store.string(key)?);
    }
    let old = store.entry(key);
    if conditional && old.is_some() == options.only_new {
        if !options.get {
            out.nil();
        }
        return Ok(());
    }
    let kept = old.and_then(|old| old.deadline).filter(|_| options.keep_expiry);
    store.set_string_until(key, value, expiry.or(kept));
    if !options.get {
        out.ok();
    }
    Ok(())
}

pub fn setex(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    set_until(store, args, Expiry::seconds(args[2]), "setex", out)
}

pub fn psetex(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    set_until(store, args, Expiry::millis(args[2]), "psetex", out)
}

fn set_until(
    store: &mut Store,
    args: &Args<'_>,
    expiry: Expiry<'_>,
    name: &str,
    out: &mut ReplyWriter,
) -> Outcome {
    let deadline = expiry.deadline(store, name)?;
    store.set_string_until(args[1], args[3], Some(deadline));
    out.ok();
    Ok(())
}

pub fn getex(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (mut persist, mut expiry) = (false, None);
    let mut rest = &args[2..];
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        if is(word, "PERSIST") && expiry.is_none() {
            persist = true;
        } else if !persist && let Some((given, after)) = Expiry::parse(word, after, expiry) {
            expiry = Some(given);
            rest = after;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    let Some(string) = store.string(args[1])? else {
        out.nil();
        return Ok(());
    };
    let deadline = expiry.map(|expiry| expiry.deadline(store, "getex")).transpose()?;
    out.bulk(string);
    let ends = store.entry(args[1]).is_some_and(|entry| entry.deadline.is_some());
    if deadline.is_some() || (persist && ends) {
        store.set_deadline(args[1], deadline);
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
pub fn check_length(length: usize) -> Outcome {
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

pub fn incrbyfloat(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let decimal = |text: &[u8]| {
        Decimal::parse(text).map_err(|reason| match reason {
            NoDecimal::Malformed => Error::NOT_A_FLOAT,
            NoDecimal::TooLarge => Error::INFINITE,
        })
    };
    let old = store.string(args[1])?.map_or(Ok(Decimal::ZERO), decimal)?;
    let sum = old.plus(decimal(args[2])?).ok_or(Error::INFINITE)?.spell();
    store.upsert(args[1], |string: &mut Vec<u8>| {
        overwrite(string, &sum);
        Ok(((), true))
    })?;
    out.bulk(&sum);
    Ok(())
}
