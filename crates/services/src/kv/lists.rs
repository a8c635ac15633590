//! Commands on lists.

use super::arguments::{Outcome, at_least, integer, is, numbered_keys, select, signed_count};
use super::command::Args;
use super::error::Error;
use super::keys::VISIT_WORK;
use super::list::{End, List};
use super::reply::{REPLY_BYTES_MAX, ReplyWriter};
use super::store::Store;
use super::text::Text;
use super::zsets::pop_count;
use alloc::vec::Vec;

pub fn llen(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.count(store.list(args[1])?.map_or(0, List::len));
    Ok(())
}

pub fn lrange(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (start, end) = (integer(args[2])?, integer(args[3])?);
    let list = store.list(args[1])?;
    let Some((list, (from, to))) = list.and_then(|l| Some((l, select(start, end, l.len())?)))
    else {
        out.array(0);
        return Ok(());
    };
    out.array(to - from);
    for item in list.range(from, to) {
        out.bulk(item);
        if out.overflowed() {
            break;
        }
    }
    Ok(())
}

/// The index that a possibly negative one means, if there is such an element.
fn index_in(list: &List, index: i64) -> Option<usize> {
    let length = i64::try_from(list.len()).ok()?;
    let index = if index < 0 { index + length } else { index };
    usize::try_from(index).ok().filter(|index| *index < list.len())
}

pub fn lindex(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let Some(list) = store.list(args[1])? else {
        out.nil();
        return Ok(());
    };
    let index = index_in(list, integer(args[2])?);
    out.optional(index.and_then(|index| list.get(index)));
    Ok(())
}

pub fn lpush(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    push(store, args, End::Left, true, out)
}

pub fn rpush(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    push(store, args, End::Right, true, out)
}

pub fn lpushx(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    push(store, args, End::Left, false, out)
}

pub fn rpushx(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    push(store, args, End::Right, false, out)
}

fn push(
    store: &mut Store,
    args: &Args<'_>,
    end: End,
    create: bool,
    out: &mut ReplyWriter,
) -> Outcome {
    let add = |list: &mut List| {
        args[2..].iter().for_each(|item| list.push(end, item));
        Ok((list.len(), true))
    };
    let length = if create {
        store.upsert(args[1], add)?
    } else {
        store.edit(args[1], add)?.unwrap_or_default()
    };
    out.count(length);
    Ok(())
}

pub fn lpop(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    pop(store, args, "lpop", End::Left, out)
}

pub fn rpop(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    pop(store, args, "rpop", End::Right, out)
}

fn pop(store: &mut Store, args: &Args<'_>, name: &str, end: End, out: &mut ReplyWriter) -> Outcome {
    let Some(count) = args.get(2) else {
        let item = store.edit(args[1], |list: &mut List| Ok((list.pop(end), true)))?;
        out.optional(item.flatten().as_deref());
        return Ok(());
    };
    if args.len() > 3 {
        return Err(Error::wrong_arity(name));
    }
    let count = at_least(count, 0, Error::NOT_POSITIVE)?;
    match take(store, args[1], end, count, 5)? {
        None => out.nil_array(),
        Some(items) => {
            out.array(items.len());
            items.iter().for_each(|item| out.bulk(item));
        }
    }
    Ok(())
}

/// Takes elements from one end; `None` if there is no such key. The reply has so many bytes beside
/// them.
fn take(
    store: &mut Store,
    key: &[u8],
    end: End,
    count: usize,
    frame: usize,
) -> Result<Option<Vec<Text>>, Error> {
    let Some(list) = store.list(key)? else { return Ok(None) };
    let count = count.min(list.len());
    check_poppable(list, end, count, frame)?;
    store.edit(key, |list: &mut List| {
        Ok(((0..count).filter_map(|_| list.pop(end)).collect(), count > 0))
    })
}

/// Refuses to take what no reply could carry; afterwards it would be gone.
fn check_poppable(list: &List, end: End, count: usize, frame: usize) -> Outcome {
    let mut room = REPLY_BYTES_MAX.saturating_sub(frame);
    let mut fits = |item: &[u8]| {
        let rest = room.checked_sub(item.len() + 5);
        room = rest.unwrap_or_default();
        rest.is_some()
    };
    let fits = match end {
        End::Left => list.iter().take(count).all(&mut fits),
        End::Right => list.iter().rev().take(count).all(&mut fits),
    };
    if fits { Ok(()) } else { Err(Error::REPLY_TOO_LARGE) }
}

pub fn lset(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let list = store.list(args[1])?.ok_or(Error::NO_SUCH_KEY)?;
    let index = index_in(list, integer(args[2])?).ok_or(Error::INDEX_OUT_OF_RANGE)?;
    store.edit(args[1], |list: &mut List| {
        list.set(index, args[3]);
        Ok(((), true))
    })?;
    out.ok();
    Ok(())
}

/// To compare every element of a list with something.
fn spend_walk(store: &Store, key: &[u8]) -> Outcome {
    let walk = |list: &List| list.len() as u64 * VISIT_WORK + list.cost() / 32;
    store.work.spend(store.list(key)?.map_or(0, walk))
}

pub fn lrem(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let count = integer(args[2])?;
    let from = if count < 0 { End::Right } else { End::Left };
    let limit = match usize::try_from(count.unsigned_abs()) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(limit) => limit,
    };
    spend_walk(store, args[1])?;
    let removed = store.edit(args[1], |list: &mut List| {
        let removed = list.remove(from, limit, args[3]);
        Ok((removed, removed > 0))
    })?;
    out.count(removed.unwrap_or_default());
    Ok(())
}

pub fn ltrim(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (start, end) = (integer(args[2])?, integer(args[3])?);
    store.edit(args[1], |list: &mut List| {
        let (from, to) = select(start, end, list.len()).unwrap_or_default();
        list.keep(from, to);
        Ok(((), true))
    })?;
    out.ok();
    Ok(())
}

pub fn linsert(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let after = if is(args[2], "AFTER") {
        1
    } else if is(args[2], "BEFORE") {
        0
    } else {
        return Err(Error::SYNTAX);
    };
    let Some(list) = store.list(args[1])? else {
        out.int(0);
        return Ok(());
    };
    spend_walk(store, args[1])?;
    let Some(pivot) = list.iter().position(|item| item == args[3]) else {
        out.int(-1);
        return Ok(());
    };
    let length = store.edit(args[1], |list: &mut List| {
        list.insert(pivot + after, args[4]);
        Ok((list.len(), true))
    })?;
    out.count(length.unwrap_or_default());
    Ok(())
}

pub fn rpoplpush(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    transfer(store, (args[1], End::Right), (args[2], End::Left), out)
}

pub fn lmove(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (from, to) = (end_named(args[3])?, end_named(args[4])?);
    transfer(store, (args[1], from), (args[2], to), out)
}

fn end_named(word: &[u8]) -> Result<End, Error> {
    if is(word, "LEFT") {
        Ok(End::Left)
    } else if is(word, "RIGHT") {
        Ok(End::Right)
    } else {
        Err(Error::SYNTAX)
    }
}

fn transfer(
    store: &mut Store,
    (source, from): (&[u8], End),
    (target, to): (&[u8], End),
    out: &mut ReplyWriter,
) -> Outcome {
    if store.list(source)?.is_none() {
        out.nil();
        return Ok(());
    }
    store.list(target)?;
    let rotates = source == target;
    let item = store.edit(source, |list: &mut List| {
        let item = list.pop(from);
        // In one step, so that a list of one element does not go meanwhile, and its deadline.
        item.iter().filter(|_| rotates).for_each(|item| list.push(to, item));
        Ok((item, true))
    })?;
    let item = item.flatten();
    if let Some(item) = item.as_ref().filter(|_| !rotates) {
        store.upsert(target, |list: &mut List| {
            list.push(to, item);
            Ok(((), true))
        })?;
    }
    out.optional(item.as_deref());
    Ok(())
}

pub fn lmpop(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (keys, rest) = numbered_keys(&args[1..], Error::SYNTAX)?;
    let (end, options) = rest.split_first().ok_or(Error::SYNTAX)?;
    let (end, count) = (end_named(end)?, pop_count(options)?);
    for key in keys {
        let Some(items) = take(store, key, end, count, key.len() + 15)? else { continue };
        out.array(2);
        out.bulk(key);
        out.array(items.len());
        items.iter().for_each(|item| out.bulk(item));
        return Ok(());
    }
    out.nil_array();
    Ok(())
}

const NO_RANK: Error = Error::err(
    "RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
     negative to start from the end of the list",
);
const NEGATIVE_COUNT: Error = Error::err("COUNT can't be negative");
const NEGATIVE_LENGTH: Error = Error::err("MAXLEN can't be negative");

pub fn lpos(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (mut rank, mut count, mut length) = (1, None, 0);
    for pair in args[3..].chunks(2) {
        let &[name, value] = pair else { return Err(Error::SYNTAX) };
        if is(name, "RANK") {
            rank = signed_count(value)?;
            if rank == 0 {
                return Err(NO_RANK);
            }
        } else if is(name, "COUNT") {
            count = Some(at_least(value, 0, NEGATIVE_COUNT)?);
        } else if is(name, "MAXLEN") {
            length = at_least(value, 0, NEGATIVE_LENGTH)?;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    spend_walk(store, args[1])?;
    let list = store.list(args[1])?;
    let unlimited = |limit: usize| if limit == 0 { usize::MAX } else { limit };
    let skipped = usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let (mut forward, mut backward) = (None, None);
    if rank > 0 {
        forward = list.map(|list| list.iter().enumerate());
    } else {
        backward = list.map(|list| list.iter().enumerate().rev());
    }
    let items = forward.into_iter().flatten().chain(backward.into_iter().flatten());
    let equal = items.take(unlimited(length)).filter(|(_, item)| *item == args[2]);
    let mut found = equal.skip(skipped).map(|(index, _)| index);
    let Some(count) = count else {
        match found.next() {
            Some(index) => out.count(index),
            None => out.nil(),
        }
        return Ok(());
    };
    let found: Vec<usize> = found.take(unlimited(count)).collect();
    out.array(found.len());
    for index in found {
        out.count(index);
        if out.overflowed() {
            break;
        }
    }
    Ok(())
}
