//! Commands on single sets.

use super::arguments::{Outcome, at_least, signed_count};
use super::command::Args;
use super::error::Error;
use super::random::Dice;
use super::reply::{ITEMS_MAX, REPLY_BYTES_MAX, ReplyWriter};
use super::set::Set;
use super::store::Store;
use super::work::DRAW_WORK;
use alloc::vec::Vec;
use pentarchy_core::service::Context;

pub fn sadd(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let added = store.upsert(args[1], |set: &mut Set| {
        let added = args[2..].iter().filter(|member| set.insert(member)).count();
        Ok((added, added > 0))
    })?;
    out.count(added);
    Ok(())
}

pub fn srem(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let gone = store.edit(args[1], |set: &mut Set| {
        let gone = args[2..].iter().filter(|member| set.remove(member)).count();
        Ok((gone, gone > 0))
    })?;
    out.count(gone.unwrap_or_default());
    Ok(())
}

pub fn scard(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.count(store.read::<Set>(args[1])?.map_or(0, Set::len));
    Ok(())
}

pub fn sismember(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let found = store.read::<Set>(args[1])?.is_some_and(|set| set.contains(args[2]));
    out.int(i64::from(found));
    Ok(())
}

pub fn smismember(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let set = store.read::<Set>(args[1])?;
    out.array(args.len() - 2);
    for member in &args[2..] {
        out.int(i64::from(set.is_some_and(|set| set.contains(member))));
    }
    Ok(())
}

pub fn smembers(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let set = store.read::<Set>(args[1])?;
    out.set(set.map_or(0, Set::len));
    for member in set.into_iter().flat_map(Set::iter) {
        out.bulk(member);
        if out.overflowed() {
            break;
        }
    }
    Ok(())
}

pub fn smove(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (from, to, member) = (args[1], args[2], args[3]);
    let Some(source) = store.read::<Set>(from)? else {
        out.int(0);
        return Ok(());
    };
    store.read::<Set>(to)?;
    let found = source.contains(member);
    if found && from != to {
        store.edit(from, |set: &mut Set| Ok(((), set.remove(member))))?;
        store.upsert(to, |set: &mut Set| Ok(((), set.insert(member))))?;
    }
    out.int(i64::from(found));
    Ok(())
}

pub fn srandmember(
    store: &Store,
    context: &Context,
    args: &Args<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
    let mut dice = Dice::new(context, &store.work);
    let count = match &args[2..] {
        [] => None,
        [count] => Some(signed_count(count)?),
        _ => return Err(Error::SYNTAX),
    };
    let set = store.read::<Set>(args[1])?;
    match (set, count) {
        (set, None) => out.optional(set.and_then(|set| set.get(dice.below(set.len())))),
        (None, Some(_)) => out.array(0),
        (Some(set), Some(count)) => {
            let drawn = dice.draw(count, set.len(), ITEMS_MAX).ok_or(Error::REPLY_TOO_LARGE)?;
            store.work.spend(drawn.len() as u64 * DRAW_WORK)?;
            out.array(drawn.len());
            for member in drawn.iter().filter_map(|rank| set.get(*rank)) {
                out.bulk(member);
                if out.overflowed() {
                    break;
                }
            }
        }
    }
    Ok(())
}

pub fn spop(
    store: &mut Store,
    context: &Context,
    args: &Args<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
    let mut dice = Dice::new(context, &store.work);
    let count = match &args[2..] {
        [] => None,
        [count] => Some(at_least(count, 0, Error::NOT_POSITIVE)?),
        _ => return Err(Error::SYNTAX),
    };
    let Some(set) = store.read::<Set>(args[1])? else {
        if count.is_some() {
            out.set(0)
        } else {
            out.nil()
        }
        return Ok(());
    };
    let count_or_one = count.unwrap_or(1).min(set.len());
    if count_or_one > ITEMS_MAX {
        return Err(Error::REPLY_TOO_LARGE);
    }
    store.work.spend(count_or_one as u64 * DRAW_WORK)?;
    let ranks = dice.distinct(count_or_one, set.len());
    let drawn = ranks.iter().filter_map(|rank| set.get(*rank));
    let bytes: usize = drawn.clone().map(|member| member.len() + 5).sum();
    // Refuses to take what no reply could carry; afterwards it would be gone.
    if bytes > REPLY_BYTES_MAX - 5 {
        return Err(Error::REPLY_TOO_LARGE);
    }
    let drawn: Vec<Vec<u8>> = drawn.map(<[u8]>::to_vec).collect();
    store.edit(args[1], |set: &mut Set| {
        Ok(((), drawn.iter().filter(|member| set.remove(member)).count() > 0))
    })?;
    if count.is_some() {
        out.set(drawn.len());
    }
    drawn.iter().for_each(|member| out.bulk(member));
    Ok(())
}
