//! Commands on members of sorted sets.

use super::arguments::{Outcome, at_least, is, numbered_keys, signed_count};
use super::command::Args;
use super::error::Error;
use super::float;
use super::hashes::with;
use super::random::Dice;
use super::reply::{ITEMS_MAX, REPLY_BYTES_MAX, ReplyWriter};
use super::sorted::{Ranking, Sorted, compare, unsigned_zero};
use super::store::Store;
use super::work::DRAW_WORK;
use alloc::vec::Vec;
use pentarchy_core::service::Context;

const NX_XX: Error = Error::err("XX and NX options at the same time are not compatible");
const GT_LT_NX: Error = Error::err("GT, LT, and/or NX options at the same time are not compatible");
const ONE_PAIR: Error = Error::err("INCR option supports a single increment-element pair");
const NOT_A_NUMBER: Error = Error::err("resulting score is not a number (NaN)");
const COUNT_TOO_LARGE: Error = Error::err("value is out of range");

/// Bytes of the longest score in a reply, with what frames it.
const SCORE_BYTES_MAX: usize = 32;

pub fn score(arg: &[u8]) -> Result<f64, Error> {
    float::parse(arg).ok_or(Error::NOT_A_FLOAT)
}

#[derive(Default)]
struct AddOptions {
    only_new: bool,
    only_old: bool,
    only_greater: bool,
    only_less: bool,
    changed: bool,
    increment: bool,
}

impl AddOptions {
    /// The options, and the words behind them.
    fn parse<'a, 'b>(words: &'b [&'a [u8]]) -> Result<(Self, &'b [&'a [u8]]), Error> {
        let mut options = Self::default();
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            let option = match () {
                () if is(word, "NX") => &mut options.only_new,
                () if is(word, "XX") => &mut options.only_old,
                () if is(word, "GT") => &mut options.only_greater,
                () if is(word, "LT") => &mut options.only_less,
                () if is(word, "CH") => &mut options.changed,
                () if is(word, "INCR") => &mut options.increment,
                () => break,
            };
            *option = true;
            rest = after;
        }
        if rest.is_empty() || !rest.len().is_multiple_of(2) {
            return Err(Error::SYNTAX);
        }
        if options.only_new && options.only_old {
            return Err(NX_XX);
        }
        let bounds = [options.only_new, options.only_greater, options.only_less];
        if bounds.into_iter().filter(|set| *set).count() > 1 {
            return Err(GT_LT_NX);
        }
        if options.increment && rest.len() > 2 {
            return Err(ONE_PAIR);
        }
        Ok((options, rest))
    }

    /// The new score of a member, unless it keeps what it has.
    fn decide(&self, old: Option<f64>, score: f64) -> Result<Option<f64>, Error> {
        let Some(old) = old else { return Ok((!self.only_old).then_some(score)) };
        if self.only_new {
            return Ok(None);
        }
        let score = if self.increment { old + score } else { score };
        if score.is_nan() {
            return Err(NOT_A_NUMBER);
        }
        let kept = (self.only_less && score >= old) || (self.only_greater && score <= old);
        Ok((!kept).then_some(score))
    }
}

pub fn zadd(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (options, pairs) = AddOptions::parse(&args[2..])?;
    add(store, args[1], &options, pairs, out)
}

pub fn zincrby(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let options = AddOptions { increment: true, ..AddOptions::default() };
    add(store, args[1], &options, &args[2..4], out)
}

fn add(
    store: &mut Store,
    key: &[u8],
    options: &AddOptions,
    pairs: &[&[u8]],
    out: &mut ReplyWriter,
) -> Outcome {
    let pairs = pairs.chunks_exact(2).map(|pair| Ok((score(pair[0])?, pair[1])));
    let pairs: Vec<(f64, &[u8])> = pairs.collect::<Result<_, Error>>()?;
    let (added, updated, last) = store.upsert(key, |sorted: &mut Sorted| {
        let (mut added, mut updated, mut last) = (0, 0, None);
        for (score, member) in pairs {
            let old = sorted.score(member);
            let new = options.decide(old, score)?.map(unsigned_zero);
            last = new;
            let Some(new) = new else { continue };
            added += usize::from(old.is_none());
            if old.is_none_or(|old| compare(old, new).is_ne()) {
                updated += usize::from(old.is_some());
                sorted.set(member, new);
            }
        }
        Ok(((added, updated, last), added + updated > 0))
    })?;
    match last {
        Some(score) if options.increment => out.double(score),
        None if options.increment => out.nil(),
        _ => out.count(if options.changed { added + updated } else { added }),
    }
    Ok(())
}

pub fn zrem(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let gone = store.edit(args[1], |sorted: &mut Sorted| {
        let gone = args[2..].iter().filter(|member| sorted.remove(member).is_some()).count();
        Ok((gone, gone > 0))
    })?;
    out.count(gone.unwrap_or_default());
    Ok(())
}

pub fn zcard(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.count(store.read::<Sorted>(args[1])?.map_or(0, Sorted::len));
    Ok(())
}

fn optional(score: Option<f64>, out: &mut ReplyWriter) {
    match score {
        Some(score) => out.double(score),
        None => out.nil(),
    }
}

pub fn zscore(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    optional(store.read::<Sorted>(args[1])?.and_then(|sorted| sorted.score(args[2])), out);
    Ok(())
}

pub fn zmscore(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let sorted = store.read::<Sorted>(args[1])?;
    out.array(args.len() - 2);
    for member in &args[2..] {
        optional(sorted.and_then(|sorted| sorted.score(member)), out);
    }
    Ok(())
}

pub fn zrank(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    rank(store, args, "zrank", false, out)
}

pub fn zrevrank(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    rank(store, args, "zrevrank", true, out)
}

fn rank(
    store: &Store,
    args: &Args<'_>,
    name: &str,
    reverse: bool,
    out: &mut ReplyWriter,
) -> Outcome {
    let scored = match &args[3..] {
        [] => false,
        [word] if is(word, "WITHSCORE") => true,
        [_] => return Err(Error::SYNTAX),
        _ => return Err(Error::wrong_arity(name)),
    };
    let sorted = store.read::<Sorted>(args[1])?;
    let found = sorted.and_then(|sorted| Some((sorted, sorted.rank(args[2])?)));
    let Some((sorted, rank)) = found else {
        if scored {
            out.nil_array()
        } else {
            out.nil()
        }
        return Ok(());
    };
    if scored {
        out.array(2);
    }
    out.count(if reverse { sorted.len() - 1 - rank } else { rank });
    if scored {
        optional(sorted.score(args[2]), out);
    }
    Ok(())
}

pub fn zrandmember(
    store: &Store,
    context: &Context,
    args: &Args<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
    let mut dice = Dice::new(context, &store.work);
    let Some(count) = args.get(2) else {
        let sorted = store.read::<Sorted>(args[1])?;
        let drawn = sorted.and_then(|sorted| sorted.at(dice.below(sorted.len())));
        out.optional(drawn.map(|ranking| &*ranking.member));
        return Ok(());
    };
    let count = signed_count(count)?;
    let scores = with(args, "WITHSCORES")?;
    if scores && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
        return Err(COUNT_TOO_LARGE);
    }
    let Some(sorted) = store.read::<Sorted>(args[1])? else {
        out.array(0);
        return Ok(());
    };
    let drawn = dice.draw(count, sorted.len(), ITEMS_MAX).ok_or(Error::REPLY_TOO_LARGE)?;
    store.work.spend(drawn.len() as u64 * DRAW_WORK)?;
    let drawn: Vec<&Ranking> = drawn.iter().filter_map(|rank| sorted.at(*rank)).collect();
    write(&drawn, scores, out);
    Ok(())
}

/// Writes members, with their scores or without.
pub fn write(members: &[&Ranking], scores: bool, out: &mut ReplyWriter) {
    if scores {
        out.pairs(members.len())
    } else {
        out.array(members.len())
    }
    for ranking in members {
        out.bulk(&ranking.member);
        if scores {
            out.double(ranking.score);
        }
        if out.overflowed() {
            break;
        }
    }
}

pub fn zpopmin(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    pop_one_key(store, args, false, out)
}

pub fn zpopmax(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    pop_one_key(store, args, true, out)
}

fn pop_one_key(store: &mut Store, args: &Args<'_>, max: bool, out: &mut ReplyWriter) -> Outcome {
    let count = match &args[2..] {
        [] => None,
        [count] => Some(at_least(count, 0, Error::NOT_POSITIVE)?),
        _ => return Err(Error::SYNTAX),
    };
    let popped = pop(store, args[1], max, count.unwrap_or(1))?.unwrap_or_default();
    if count.is_some() && !popped.is_empty() {
        out.pairs(popped.len());
    } else {
        out.array(2 * popped.len());
    }
    for ranking in popped {
        out.bulk(&ranking.member);
        out.double(ranking.score);
    }
    Ok(())
}

/// Takes the first or the last members; `None` if there is no such key.
fn pop(
    store: &mut Store,
    key: &[u8],
    max: bool,
    count: usize,
) -> Result<Option<Vec<Ranking>>, Error> {
    let Some(sorted) = store.read::<Sorted>(key)? else { return Ok(None) };
    let (length, count) = (sorted.len(), count.min(sorted.len()));
    let (from, to) = if max { (length - count, length) } else { (0, count) };
    let range = sorted.range(from, to);
    // Refuses to take what no reply could carry; afterwards it would be gone.
    let mut bytes = key.len() + SCORE_BYTES_MAX;
    let mut popped = Vec::new();
    for ranking in range {
        bytes += ranking.member.len() + SCORE_BYTES_MAX;
        if bytes > REPLY_BYTES_MAX {
            return Err(Error::REPLY_TOO_LARGE);
        }
        popped.push(ranking.clone());
    }
    if max {
        popped.reverse();
    }
    store.edit(key, |sorted: &mut Sorted| {
        let gone = popped.iter().filter(|ranking| sorted.remove(&ranking.member).is_some());
        Ok(((), gone.count() > 0))
    })?;
    Ok(Some(popped))
}

pub fn zmpop(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (keys, rest) = numbered_keys(&args[1..], Error::SYNTAX)?;
    let (end, options) = rest.split_first().ok_or(Error::SYNTAX)?;
    let max = match () {
        () if is(end, "MIN") => false,
        () if is(end, "MAX") => true,
        () => return Err(Error::SYNTAX),
    };
    let count = pop_count(options)?;
    for key in keys {
        let Some(popped) = pop(store, key, max, count)? else { continue };
        out.array(2);
        out.bulk(key);
        out.array(popped.len());
        for ranking in popped {
            out.array(2);
            out.bulk(&ranking.member);
            out.double(ranking.score);
        }
        return Ok(());
    }
    out.nil_array();
    Ok(())
}

/// The `COUNT` of a command that takes from the first of several keys.
pub fn pop_count(options: &[&[u8]]) -> Result<usize, Error> {
    match options {
        [] => Ok(1),
        [name, count] if is(name, "COUNT") => at_least(count, 1, Error::NO_COUNT),
        [name, count, ..] if is(name, "COUNT") => {
            at_least(count, 1, Error::NO_COUNT).and(Err(Error::SYNTAX))
        }
        _ => Err(Error::SYNTAX),
    }
}
