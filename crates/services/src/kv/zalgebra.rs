//! Commands on several sorted sets, or sets, whose members count as having the score 1.

use super::arguments::{Outcome, integer, is, numbered_keys};
use super::command::Args;
use super::error::Error;
use super::float;
use super::reply::{ITEMS_MAX, REPLY_BYTES_MAX, ReplyWriter};
use super::set::Set;
use super::set_algebra::limit;
use super::sorted::{Ranking, Sorted};
use super::store::{Entry, Store};
use super::value::Value;
use super::zsets;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

const WEIGHT_NOT_A_FLOAT: Error = Error::err("weight value is not a float");

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

/// What one key holds.
#[derive(Clone, Copy)]
enum Source<'a> {
    Nothing,
    Set(&'a Set),
    Sorted(&'a Sorted),
}

impl<'a> Source<'a> {
    fn of(store: &'a Store, key: &[u8]) -> Result<Self, Error> {
        match store.get(key) {
            None => Ok(Self::Nothing),
            Some(Value::Set(set)) => Ok(Self::Set(set)),
            Some(Value::Sorted(sorted)) => Ok(Self::Sorted(sorted)),
            Some(_) => Err(Error::WRONG_TYPE),
        }
    }

    const fn len(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Set(set) => set.len(),
            Self::Sorted(sorted) => sorted.len(),
        }
    }

    const fn cost(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Set(set) => set.cost(),
            Self::Sorted(sorted) => sorted.cost(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Nothing => None,
            Self::Set(set) => set.contains(member).then_some(1.0),
            Self::Sorted(sorted) => sorted.score(member),
        }
    }

    fn iter(self) -> impl Iterator<Item = (&'a [u8], f64)> {
        let (mut set, mut sorted) = (None, None);
        match self {
            Self::Nothing => {}
            Self::Set(from) => set = Some(from.iter().map(|member| (member, 1.0))),
            Self::Sorted(from) => sorted = Some(from.iter()),
        }
        set.into_iter().flatten().chain(sorted.into_iter().flatten())
    }
}

/// How the scores of one member in several sets become one.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, one: f64, two: f64) -> f64 {
        match self {
            Self::Sum => number(one + two),
            Self::Min => {
                if two < one {
                    two
                } else {
                    one
                }
            }
            Self::Max => {
                if two > one {
                    two
                } else {
                    one
                }
            }
        }
    }
}

/// Redis takes infinity less infinity, and nothing times infinity, for 0.
const fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

struct Query<'a> {
    operation: Operation,
    sources: Vec<(Source<'a>, f64)>,
    aggregate: Aggregate,
    scores: bool,
    /// Whether the result is kept, so that it must fit the store.
    stores: bool,
}

impl<'a> Query<'a> {
    /// The words are the number of keys, the keys and what follows.
    fn parse(
        store: &'a Store,
        operation: Operation,
        words: &[&[u8]],
        name: &str,
        stores: bool,
    ) -> Result<Self, Error> {
        if integer(words[0])? < 1 {
            let message = format!("at least 1 input key is needed for '{name}' command");
            return Err(Error::other(message));
        }
        let (keys, mut rest) = numbered_keys(words, Error::SYNTAX)?;
        let sources = keys.iter().map(|key| Source::of(store, key));
        let sources: Vec<_> = sources.collect::<Result<_, _>>()?;
        let mut weights = vec![1.0; sources.len()];
        let (mut aggregate, mut scores) = (Aggregate::Sum, false);
        let combines = operation != Operation::Diff;
        while let Some((word, after)) = rest.split_first() {
            if combines && after.len() >= keys.len() && is(word, "WEIGHTS") {
                let (given, after) = after.split_at(keys.len());
                for (weight, arg) in weights.iter_mut().zip(given) {
                    *weight = float::parse(arg).ok_or(WEIGHT_NOT_A_FLOAT)?;
                }
                rest = after;
            } else if combines && !after.is_empty() && is(word, "AGGREGATE") {
                aggregate = match () {
                    () if is(after[0], "SUM") => Aggregate::Sum,
                    () if is(after[0], "MIN") => Aggregate::Min,
                    () if is(after[0], "MAX") => Aggregate::Max,
                    () => return Err(Error::SYNTAX),
                };
                rest = &after[1..];
            } else if !stores && is(word, "WITHSCORES") {
                scores = true;
                rest = after;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        let mut sources: Vec<_> = sources.into_iter().zip(weights).collect();
        if combines {
            // Sums of floats depend on their order; Redis goes from the smallest set on.
            sources.sort_by_key(|(source, _)| source.len());
        }
        Ok(Self { operation, sources, aggregate, scores, stores })
    }

    /// What it takes: each member of each set is added, or each of the first is looked up in all,
    /// and to add one to a sorted set takes as long as two look-ups.
    fn work(&self) -> u64 {
        let costs = || self.sources.iter().map(|(source, _)| source.cost());
        match self.operation {
            Operation::Union => costs().fold(0, u64::saturating_add).saturating_mul(2),
            Operation::Inter | Operation::Diff => {
                costs().next().unwrap_or(0).saturating_mul(self.sources.len() as u64 + 2)
            }
        }
    }

    /// The result. Fails before it begins if that is too much work, and once the result does not
    /// fit the store, if it is to be kept, or a reply.
    fn run(&self, store: &Store) -> Result<Sorted, Error> {
        store.work.spend(self.work())?;
        let mut result = Sorted::default();
        let keep = |result: &mut Sorted, member: &[u8], score: f64| {
            result.set(member, score);
            if self.stores && store.is_full(result.cost()) {
                return Err(Error::OUT_OF_MEMORY);
            }
            let large = result.len() > ITEMS_MAX || result.member_bytes() > REPLY_BYTES_MAX as u64;
            if !self.stores && large { Err(Error::REPLY_TOO_LARGE) } else { Ok(()) }
        };
        let Some(((first, weight), others)) = self.sources.split_first() else {
            return Ok(result);
        };
        match self.operation {
            Operation::Union => {
                for (source, weight) in &self.sources {
                    for (member, score) in source.iter() {
                        let score = number(score * weight);
                        let old = result.score(member);
                        let score = old.map_or(score, |old| self.aggregate.of(old, score));
                        keep(&mut result, member, score)?;
                    }
                }
            }
            // Nothing times infinity counts as 0 in the first set, and in the sum.
            Operation::Inter => {
                for (member, score) in first.iter() {
                    let scores =
                        others.iter().map(|(other, weight)| Some(other.score(member)? * weight));
                    let combined =
                        scores.into_iter().try_fold(number(score * weight), |sum, score| {
                            Some(self.aggregate.of(sum, score?))
                        });
                    if let Some(score) = combined {
                        keep(&mut result, member, score)?;
                    }
                }
            }
            Operation::Diff => {
                for (member, score) in first.iter() {
                    if others.iter().all(|(other, _)| other.score(member).is_none()) {
                        keep(&mut result, member, score)?;
                    }
                }
            }
        }
        Ok(result)
    }
}

fn answer(
    operation: Operation,
    name: &str,
    store: &Store,
    args: &Args<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
    let query = Query::parse(store, operation, &args[1..], name, false)?;
    let result = query.run(store)?;
    let members: Vec<&Ranking> = result.range(0, result.len()).collect();
    zsets::write(&members, query.scores, out);
    Ok(())
}

fn keep(
    operation: Operation,
    name: &str,
    store: &mut Store,
    args: &Args<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
    let result = Query::parse(store, operation, &args[2..], name, true)?.run(store)?;
    out.count(result.len());
    store.put(args[1], Entry { value: Value::Sorted(result), deadline: None });
    Ok(())
}

pub fn zunion(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    answer(Operation::Union, "zunion", store, args, out)
}

pub fn zinter(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    answer(Operation::Inter, "zinter", store, args, out)
}

pub fn zdiff(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    answer(Operation::Diff, "zdiff", store, args, out)
}

pub fn zunionstore(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    keep(Operation::Union, "zunionstore", store, args, out)
}

pub fn zinterstore(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    keep(Operation::Inter, "zinterstore", store, args, out)
}

pub fn zdiffstore(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    keep(Operation::Diff, "zdiffstore", store, args, out)
}

pub fn zintercard(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    if integer(args[1])? < 1 {
        return Err(Error::other("at least 1 input key is needed for 'zintercard' command"));
    }
    let (keys, options) = numbered_keys(&args[1..], Error::SYNTAX)?;
    let sources = keys.iter().map(|key| Source::of(store, key));
    let mut sources: Vec<_> = sources.collect::<Result<_, _>>()?;
    sources.sort_by_key(|source| source.len());
    let work = sources[0].cost().saturating_mul(sources.len() as u64);
    store.work.spend(work)?;
    let limit = match limit(options)? {
        0 => usize::MAX,
        limit => limit,
    };
    let common = sources[0]
        .iter()
        .filter(|(member, _)| sources[1..].iter().all(|source| source.score(member).is_some()));
    out.count(common.take(limit).count());
    Ok(())
}
