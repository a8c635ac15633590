//! Commands on several sets.

use super::arguments::{Outcome, at_least, is, numbered_keys};
use super::command::Args;
use super::error::Error;
use super::reply::ReplyWriter;
use super::set::Set;
use super::store::{Entry, Store};
use super::value::Value;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The sets of these keys, without repetitions behind the first one, which a difference needs apart
/// from the others; where there is no key, none.
fn sets<'a>(store: &'a Store, keys: &[&[u8]]) -> Result<Vec<Option<&'a Set>>, Error> {
    let mut seen = BTreeSet::new();
    let keys = keys.iter().enumerate().filter(|(index, key)| *index == 0 || seen.insert(**key));
    keys.map(|(_, key)| store.read::<Set>(key)).collect()
}

/// What is called for each member of a result; it says whether to go on.
type Each<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

/// Calls `each` for the members of the result, as long as it says to go on.
#[derive(Clone, Copy)]
struct Operator {
    run: fn(&[Option<&Set>], Each<'_>),
    /// What that takes.
    work: fn(&[Option<&Set>]) -> u64,
}

const INTER: Operator = Operator { run: inter, work: smallest_by_all };
const UNION: Operator = Operator { run: union, work: sum };
const DIFF: Operator = Operator { run: diff, work: first_by_all };

impl Operator {
    /// Runs if there is not too much to do.
    fn apply(self, store: &Store, sets: &[Option<&Set>], each: Each<'_>) -> Outcome {
        store.work.spend((self.work)(sets))?;
        (self.run)(sets, each);
        Ok(())
    }
}

/// Every member of the smallest set is looked up in all sets.
fn smallest_by_all(sets: &[Option<&Set>]) -> u64 {
    let smallest = sets.iter().map(|set| set.map_or(0, Set::cost)).min().unwrap_or(0);
    smallest.saturating_mul(sets.len() as u64)
}

/// Every member of every set is added to the result.
fn sum(sets: &[Option<&Set>]) -> u64 {
    sets.iter().flatten().fold(0, |sum, set| set.cost().saturating_add(sum))
}

/// Every member of the first set is looked up in all sets.
fn first_by_all(sets: &[Option<&Set>]) -> u64 {
    let first = sets.first().copied().flatten().map_or(0, Set::cost);
    first.saturating_mul(sets.iter().flatten().count() as u64)
}

fn inter(sets: &[Option<&Set>], each: Each<'_>) {
    let Some(sets) = sets.iter().copied().collect::<Option<Vec<_>>>() else { return };
    let Some(smallest) = sets.iter().min_by_key(|set| set.len()) else { return };
    let common = |member: &&[u8]| sets.iter().all(|set| set.contains(member));
    let _ = smallest.iter().filter(common).all(each);
}

fn union(sets: &[Option<&Set>], each: Each<'_>) {
    let mut found = Set::default();
    let members = sets.iter().flatten().flat_map(|set| set.iter());
    let _ = members.filter(|member| found.insert(member)).all(each);
}

fn diff(sets: &[Option<&Set>], each: Each<'_>) {
    let Some((first, others)) = sets.split_first() else { return };
    let alone = |member: &&[u8]| !others.iter().flatten().any(|set| set.contains(member));
    let _ = first.iter().flat_map(|set| set.iter()).filter(alone).all(each);
}

pub fn sinter(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    answer(INTER, store, args, out)
}

pub fn sunion(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    answer(UNION, store, args, out)
}

pub fn sdiff(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    answer(DIFF, store, args, out)
}

fn answer(operator: Operator, store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let sets = sets(store, &args[1..])?;
    let mut members = ReplyWriter::default();
    let mut count = 0;
    operator.apply(store, &sets, &mut |member| {
        count += 1;
        members.bulk(member);
        !members.overflowed()
    })?;
    out.set(count);
    out.append(&members);
    Ok(())
}

pub fn sinterstore(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    keep(INTER, store, args, out)
}

pub fn sunionstore(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    keep(UNION, store, args, out)
}

pub fn sdiffstore(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    keep(DIFF, store, args, out)
}

fn keep(operator: Operator, store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let sets = sets(store, &args[2..])?;
    let mut result = Set::default();
    // The result can be far larger than the command that asks for it, so it is counted before.
    operator.apply(store, &sets, &mut |member| {
        result.insert(member);
        !store.is_full(result.cost())
    })?;
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
    INTER.apply(store, &sets, &mut |_| {
        count += 1;
        count != limit
    })?;
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
