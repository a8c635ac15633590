//! Commands on hashes.

use super::arguments::{Outcome, integer, is, signed_count};
use super::command::Args;
use super::error::Error;
use super::float::{Decimal, NoDecimal};
use super::hash::Hash;
use super::number::{Spelled, parse_i64};
use super::random::Dice;
use super::reply::{ITEMS_MAX, ReplyWriter};
use super::store::Store;
use super::work::DRAW_WORK;
use pentarchy_core::service::Context;

const NOT_AN_INTEGER: Error = Error::err("hash value is not an integer");
const NOT_A_FLOAT: Error = Error::err("hash value is not a float");
const NO_INCREMENT: Error = Error::err("value is NaN or Infinity");
const COUNT_TOO_LARGE: Error = Error::err("value is out of range");

pub fn hset(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.count(set_pairs(store, args, "hset")?);
    Ok(())
}

pub fn hmset(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    set_pairs(store, args, "hmset")?;
    out.ok();
    Ok(())
}

fn set_pairs(store: &mut Store, args: &Args<'_>, name: &str) -> Result<usize, Error> {
    if !args.len().is_multiple_of(2) {
        return Err(Error::wrong_arity(name));
    }
    store.upsert(args[1], |hash: &mut Hash| {
        let pairs = args[2..].chunks_exact(2);
        Ok((pairs.filter(|pair| hash.set(pair[0], pair[1])).count(), true))
    })
}

pub fn hsetnx(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let new = store.upsert(args[1], |hash: &mut Hash| {
        let new = hash.get(args[2]).is_none() && hash.set(args[2], args[3]);
        Ok((new, new))
    })?;
    out.int(i64::from(new));
    Ok(())
}

pub fn hget(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.optional(store.read::<Hash>(args[1])?.and_then(|hash| hash.get(args[2])));
    Ok(())
}

pub fn hmget(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let hash = store.read::<Hash>(args[1])?;
    out.array(args.len() - 2);
    for field in &args[2..] {
        out.optional(hash.and_then(|hash| hash.get(field)));
        if out.overflowed() {
            break;
        }
    }
    Ok(())
}

pub fn hexists(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let found = store.read::<Hash>(args[1])?.and_then(|hash| hash.get(args[2]));
    out.int(i64::from(found.is_some()));
    Ok(())
}

pub fn hstrlen(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let found = store.read::<Hash>(args[1])?.and_then(|hash| hash.get(args[2]));
    out.count(found.map_or(0, <[u8]>::len));
    Ok(())
}

pub fn hlen(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    out.count(store.read::<Hash>(args[1])?.map_or(0, Hash::len));
    Ok(())
}

pub fn hgetall(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let hash = store.read::<Hash>(args[1])?;
    out.map(hash.map_or(0, Hash::len));
    write(hash, out, |out, field, value| {
        out.bulk(field);
        out.bulk(value);
    });
    Ok(())
}

pub fn hkeys(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let hash = store.read::<Hash>(args[1])?;
    out.array(hash.map_or(0, Hash::len));
    write(hash, out, |out, field, _| out.bulk(field));
    Ok(())
}

pub fn hvals(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let hash = store.read::<Hash>(args[1])?;
    out.array(hash.map_or(0, Hash::len));
    write(hash, out, |out, _, value| out.bulk(value));
    Ok(())
}

fn write(hash: Option<&Hash>, out: &mut ReplyWriter, one: fn(&mut ReplyWriter, &[u8], &[u8])) {
    for (field, value) in hash.into_iter().flat_map(Hash::iter) {
        one(out, field, value);
        if out.overflowed() {
            break;
        }
    }
}

pub fn hdel(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let gone = store.edit(args[1], |hash: &mut Hash| {
        let gone = args[2..].iter().filter(|field| hash.remove(field)).count();
        Ok((gone, gone > 0))
    })?;
    out.count(gone.unwrap_or_default());
    Ok(())
}

pub fn hincrby(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let by = integer(args[3])?;
    let sum = store.upsert(args[1], |hash: &mut Hash| {
        let old = hash.get(args[2]).map_or(Some(0), parse_i64).ok_or(NOT_AN_INTEGER)?;
        let sum = old.checked_add(by).ok_or(Error::OVERFLOW)?;
        hash.set(args[2], Spelled::new(sum).as_bytes());
        Ok((sum, true))
    })?;
    out.int(sum);
    Ok(())
}

pub fn hincrbyfloat(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let by = Decimal::parse(args[3]).map_err(|reason| match reason {
        NoDecimal::Malformed => Error::NOT_A_FLOAT,
        NoDecimal::TooLarge => NO_INCREMENT,
    })?;
    let sum = store.upsert(args[1], |hash: &mut Hash| {
        let old = hash.get(args[2]).map_or(Ok(Decimal::ZERO), Decimal::parse);
        let old = old.map_err(|_| NOT_A_FLOAT)?;
        let sum = old.plus(by).ok_or(Error::INFINITE)?.spell();
        hash.set(args[2], &sum);
        Ok((sum, true))
    })?;
    out.bulk(&sum);
    Ok(())
}

pub fn hrandfield(
    store: &Store,
    context: &Context,
    args: &Args<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
    let mut dice = Dice::new(context, &store.work);
    let Some(count) = args.get(2) else {
        let hash = store.read::<Hash>(args[1])?;
        let drawn = hash.and_then(|hash| hash.at(dice.below(hash.len())));
        out.optional(drawn.map(|(field, _)| field));
        return Ok(());
    };
    let count = signed_count(count)?;
    let values = with(args, "WITHVALUES")?;
    if values && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
        return Err(COUNT_TOO_LARGE);
    }
    let Some(hash) = store.read::<Hash>(args[1])? else {
        out.array(0);
        return Ok(());
    };
    let drawn = dice.draw(count, hash.len(), ITEMS_MAX).ok_or(Error::REPLY_TOO_LARGE)?;
    store.work.spend(drawn.len() as u64 * DRAW_WORK)?;
    if values {
        out.pairs(drawn.len())
    } else {
        out.array(drawn.len())
    }
    for (field, value) in drawn.iter().filter_map(|rank| hash.at(*rank)) {
        out.bulk(field);
        if values {
            out.bulk(value);
        }
        if out.overflowed() {
            break;
        }
    }
    Ok(())
}

/// Whether the one word that may follow a count is there.
pub fn with(args: &Args<'_>, name: &str) -> Result<bool, Error> {
    match &args[3..] {
        [] => Ok(false),
        [word] if is(word, name) => Ok(true),
        _ => Err(Error::SYNTAX),
    }
}
