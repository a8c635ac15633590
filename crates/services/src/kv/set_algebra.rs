//! Commands on several sets.

use super::arguments::{Outcome, at_least, is, numbered_keys};
use super::command::Args;
use super::error::Error;
use super::reply::ReplyWriter;
use super::set::Set;
use super::store::{Entry, Store};
use super::value::Value;
use alloc::vec::Vec;

/// The sets of these keys; where there is no key, none.
fn sets<'a>(store: &'a Store, keys: &[&[u8]]) -> Result<Vec<Option<&'a Set>>, Error> {
    keys.iter().map(|key| store.read::<Set>(key)).collect()
}

/// Calls `each` for the members of the result, as long as it says to go on.
type Operator = fn(&[Option<&Set>], &mut dyn FnMut(&[u8]) -> bool);

fn inter(sets: &[Option<&Set>], each: &mut dyn FnMut(&[u8]) -> bool) {
    let Some(sets) = sets.iter().copied().collect::<Option<Vec<_>>>() else { return };
    let Some(smallest) = sets.iter().min_by_key(|set| set.len()) else { return };
    let common = |member: &&[u8]| sets.iter().all(|set| set.contains(member));
    let _ = smallest.iter().filter(common).all(each);
}

fn union(sets: &[Option<&Set>], each: &mut dyn FnMut(&[u8]) -> bool) {
    for (index, set) in sets.iter().enumerate() {
        let before = &sets[..index];
        let new = |member: &&[u8]| !before.iter().flatten().any(|set| set.contains(member));
        if !set.iter().flat_map(|set| set.iter()).filter(new).all(&mut *each) {
            return;
        }
    }
}

fn diff(sets: &[Option<&Set>], each: &mut dyn FnMut(&[u8]) -> bool) {
    let Some((first, others)) = sets.split_first() else { return };
    let alone = |member: &&[u8]| !others.iter().flatten().any(|set| set.contains(member));
    let _ = first.iter().flat_map(|set| set.iter()).filter(alone).all(each);
}

pub fn sinter(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    answer(inter, store, args, out)
}

pub fn sunion(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    answer(union, store, args, out)
}

pub fn sdiff(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    answer(diff, store, args, out)
}

fn answer(operator: Operator, store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let sets = sets(store, &args[1..])?;
    let mut members = ReplyWriter::default();
    let mut count = 0;
    operator(&sets, &mut |member| {
        count += 1;
        members.bulk(member);
        !members.overflowed()
    });
    out.set(count);
    out.append(&members);
    Ok(())
}

pub fn sinterstore(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    keep(inter, store, args, out)
}

pub fn sunionstore(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    keep(union, store, args, out)
}

pub fn sdiffstore(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    keep(diff, store, args, out)
}

fn keep(operator: Operator, store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let sets = sets(store, &args[2..])?;
    let mut result = Set::default();
    // The result can be far larger than the command that asks for it, so it is counted before.
    operator(&sets, &mut |member| {
        result.insert(member);
        !store.is_full(result.cost())
    });
    if result.len() > 0 && store.is_full(result.cost()) {
        return Err(Error::OUT_OF_MEMORY);
    }
    out.count(result.len());
    store.put(args[1], Entry { value: Value::Set(result), deadline: None });
    Ok(())
}

pub fn sintercard(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (keys, options) = numbered_keys(&args[1..], Error::TOO_MANY_KEYS)?;
    let limit = limit(options)?;
    let sets = sets(store, keys)?;
    let mut count = 0;
    inter(&sets, &mut |_| {
        count += 1;
        count != limit
    });
    out.count(count);
    Ok(())
}

/// What follows the keys of a command that counts; 0 is no limit.
pub fn limit(options: &[&[u8]]) -> Result<usize, Error> {
    let mut limit = 0;
    for pair in options.chunks(2) {
        let &[name, value] = pair else { return Err(Error::SYNTAX) };
        if !is(name, "LIMIT") {
            return Err(Error::SYNTAX);
        }
        limit = at_least(value, 0, Error::NEGATIVE_LIMIT)?;
    }
    Ok(limit)
}
