//! Commands on keys, whatever they hold.

use super::arguments::{Outcome, integer, is};
use super::command::Args;
use super::error::Error;
use super::glob;
use super::number::parse_i64;
use super::random::Dice;
use super::reply::{REPLY_BYTES_MAX, ReplyWriter};
use super::store::{Entry, Store};
use super::value::Value;
use alloc::format;
use alloc::vec::Vec;
use pentarchy_core::service::Context;

/// What it costs to come to a key on the way through all of them.
pub const VISIT_WORK: u64 = 8;

pub fn exists(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.count(args[1..].iter().filter(|key| store.contains(key)).count());
    Ok(())
}

pub fn type_of(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.status(store.get(args[1]).map_or("none", Value::type_name).as_bytes());
    Ok(())
}

pub fn dbsize(store: &Store, _args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.count(store.len());
    Ok(())
}

pub fn keys(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let pattern = glob::pattern(args[1])?;
    let mut found = Vec::new();
    let mut bytes = 0;
    for (_, key, _) in store.iter_from(0) {
        store.work.spend(VISIT_WORK)?;
        if !glob::matches_within(pattern, key, &store.work)? {
            continue;
        }
        bytes += key.len() + 5;
        if bytes > REPLY_BYTES_MAX {
            return Err(Error::REPLY_TOO_LARGE);
        }
        found.push(key);
    }
    out.array(found.len());
    found.iter().for_each(|key| out.bulk(key));
    Ok(())
}

/// The first key from an agreed random position on. Not uniform: a key after a wide gap is more
/// likely.
pub fn randomkey(
    store: &Store,
    context: &Context,
    _args: &Args<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
    let position = Dice::new(context, &store.work).next() >> 1;
    let found = store.iter_from(position).next().or_else(|| store.iter_from(0).next());
    out.optional(found.map(|(_, key, _)| key));
    Ok(())
}

pub fn del(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.count(args[1..].iter().filter_map(|key| store.remove(key)).count());
    Ok(())
}

pub fn flush(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let understood = match &args[1..] {
        [] => true,
        [word] => is(word, "ASYNC") || is(word, "SYNC"),
        _ => false,
    };
    if !understood {
        return Err(Error::SYNTAX);
    }
    store.clear();
    out.ok();
    Ok(())
}

pub fn rename(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let value = store.remove(args[1]).ok_or(Error::NO_SUCH_KEY)?;
    store.put(args[2], value);
    out.ok();
    Ok(())
}

pub fn renamenx(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    if !store.contains(args[1]) {
        return Err(Error::NO_SUCH_KEY);
    }
    let free = !store.contains(args[2]);
    if let Some(value) = free.then(|| store.remove(args[1])).flatten() {
        store.put(args[2], value);
    }
    out.int(i64::from(free));
    Ok(())
}

/// The number of a database, of which only 0 exists.
///
/// # Errors
/// If it is not a number of 32 bits.
pub fn database(arg: &[u8]) -> Result<i32, Error> {
    i32::try_from(integer(arg)?).map_err(|_| Error::DATABASE_OUT_OF_RANGE)
}

pub fn copy(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let mut replace = false;
    let mut words = args[3..].iter();
    while let Some(word) = words.next() {
        if is(word, "REPLACE") {
            replace = true;
        } else if is(word, "DB") {
            if database(words.next().ok_or(Error::SYNTAX)?)? != 0 {
                return Err(Error::NO_SUCH_DATABASE);
            }
        } else {
            return Err(Error::SYNTAX);
        }
    }
    if args[1] == args[2] {
        return Err(Error::SAME_OBJECT);
    }
    let entry = store.entry(args[1]);
    let entry = entry.filter(|_| replace || !store.contains(args[2]));
    // A copy can be far larger than the command that asks for it, so it is counted before. It is
    // made faster than a value that is put together.
    store.work.spend(entry.map_or(0, |entry| entry.value.cost() / 4))?;
    if entry.is_some_and(|entry| store.is_full(entry.value.cost())) {
        return Err(Error::OUT_OF_MEMORY);
    }
    let entry: Option<Entry> = entry.cloned();
    out.int(i64::from(entry.is_some()));
    if let Some(entry) = entry {
        store.put(args[2], entry);
    }
    Ok(())
}

/// There is one database, so it changes places with itself only.
pub fn swapdb(_store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let index = |arg: &[u8], which| {
        let number = parse_i64(arg).and_then(|number| i32::try_from(number).ok());
        number.ok_or_else(|| Error::other(format!("invalid {which} DB index")))
    };
    let (one, two) = (index(args[1], "first")?, index(args[2], "second")?);
    if (one, two) != (0, 0) {
        return Err(Error::NO_SUCH_DATABASE);
    }
    out.ok();
    Ok(())
}
