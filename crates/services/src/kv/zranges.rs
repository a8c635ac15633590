//! Commands on ranges of sorted sets: by rank, by score, by the order of the bytes.

use super::arguments::{Outcome, integer, is, select};
use super::command::Args;
use super::error::Error;
use super::float;
use super::reply::ReplyWriter;
use super::sorted::{self, Ranking, Sorted};
use super::store::{Entry, Store};
use super::value::Value;
use super::zsets;
use alloc::vec::Vec;

const NOT_A_FLOAT: Error = Error::err("min or max is not a float");
const NOT_A_STRING: Error = Error::err("min or max not valid string range item");
const LIMIT_BY_RANK: Error =
    Error::err("syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
const SCORES_BY_LEX: Error =
    Error::err("syntax error, WITHSCORES not supported in combination with BYLEX");

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// One end of a range: everything, or a value that is part of it or not.
enum Bound<T> {
    Lowest,
    Highest,
    At { value: T, inclusive: bool },
}

impl<'a> Bound<&'a [u8]> {
    fn parse(arg: &'a [u8]) -> Result<Self, Error> {
        match arg {
            b"-" => Ok(Self::Lowest),
            b"+" => Ok(Self::Highest),
            [b'[', value @ ..] => Ok(Self::At { value, inclusive: true }),
            [b'(', value @ ..] => Ok(Self::At { value, inclusive: false }),
            _ => Err(NOT_A_STRING),
        }
    }
}

impl Bound<f64> {
    fn parse(arg: &[u8]) -> Result<Self, Error> {
        let (inclusive, text) = match arg {
            [b'(', text @ ..] => (false, text),
            text => (true, text),
        };
        // What C's `strtod` takes: spaces in front, nothing at all for zero, any size.
        let text = text.trim_ascii_start();
        let value = if text.is_empty() { Some(0.0) } else { float::parse_any(text) };
        Ok(Self::At { value: value.ok_or(NOT_A_FLOAT)?, inclusive })
    }
}

impl<T: PartialOrd> Bound<T> {
    /// Whether something lies below a range that begins here.
    fn is_above(&self, other: &T) -> bool {
        match self {
            Self::Lowest => false,
            Self::Highest => true,
            Self::At { value, inclusive } => other < value || (!inclusive && other == value),
        }
    }

    /// Whether something lies within a range that ends here.
    fn reaches(&self, other: &T) -> bool {
        match self {
            Self::Lowest => false,
            Self::Highest => true,
            Self::At { value, inclusive } => other < value || (*inclusive && other == value),
        }
    }
}

/// What part of a sorted set is meant, the lower end first.
enum Range<'a> {
    Rank(i64, i64),
    Score(Bound<f64>, Bound<f64>),
    Lex(Bound<&'a [u8]>, Bound<&'a [u8]>),
}

impl<'a> Range<'a> {
    fn parse(by: By, low: &'a [u8], high: &'a [u8]) -> Result<Self, Error> {
        Ok(match by {
            By::Rank => Self::Rank(integer(low)?, integer(high)?),
            By::Score => Self::Score(Bound::<f64>::parse(low)?, Bound::<f64>::parse(high)?),
            By::Lex => Self::Lex(Bound::<&[u8]>::parse(low)?, Bound::<&[u8]>::parse(high)?),
        })
    }

    /// The ranks: from one up to, but without, another. Ranks that count from the highest member
    /// are meant if `reverse`.
    fn ranks(&self, sorted: &Sorted, reverse: bool) -> (usize, usize) {
        let (from, to) = match self {
            Self::Rank(start, end) => {
                let (from, to) = select(*start, *end, sorted.len()).unwrap_or_default();
                if reverse { (sorted.len() - to, sorted.len() - from) } else { (from, to) }
            }
            Self::Score(low, high) => (
                sorted.count(|ranking| low.is_above(&ranking.score)),
                sorted.count(|ranking| high.reaches(&ranking.score)),
            ),
            Self::Lex(low, high) => (
                sorted.count(|ranking| low.is_above(&&*ranking.member)),
                sorted.count(|ranking| high.reaches(&&*ranking.member)),
            ),
        };
        (from, to.max(from))
    }
}

fn read_ranks(store: &Store, key: &[u8], range: &Range<'_>) -> Result<(usize, usize), Error> {
    Ok(store.read::<Sorted>(key)?.map_or((0, 0), |sorted| range.ranks(sorted, false)))
}

pub fn zcount(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (from, to) = read_ranks(store, args[1], &Range::parse(By::Score, args[2], args[3])?)?;
    out.count(to - from);
    Ok(())
}

pub fn zlexcount(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (from, to) = read_ranks(store, args[1], &Range::parse(By::Lex, args[2], args[3])?)?;
    out.count(to - from);
    Ok(())
}

pub fn zremrangebyrank(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    remove_range(store, args, By::Rank, out)
}

pub fn zremrangebyscore(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    remove_range(store, args, By::Score, out)
}

pub fn zremrangebylex(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    remove_range(store, args, By::Lex, out)
}

fn remove_range(store: &mut Store, args: &Args<'_>, by: By, out: &mut ReplyWriter) -> Outcome {
    let range = Range::parse(by, args[2], args[3])?;
    let removed = store.edit(args[1], |sorted: &mut Sorted| {
        let (from, to) = range.ranks(sorted, false);
        let gone: Vec<_> = sorted.range(from, to).map(|ranking| ranking.member.clone()).collect();
        let gone = gone.iter().filter(|member| sorted.remove(member).is_some()).count();
        Ok((gone, gone > 0))
    })?;
    out.count(removed.unwrap_or_default());
    Ok(())
}

/// What a command's name says of its range; the words say the rest.
struct Form {
    by: Option<By>,
    reverse: Option<bool>,
    scores: bool,
}

/// A range with everything that `ZRANGE` can say of it.
struct Query<'a> {
    range: Range<'a>,
    reverse: bool,
    offset: i64,
    limit: i64,
    scores: bool,
}

impl<'a> Query<'a> {
    /// The words are the ends of the range and what follows.
    fn parse(words: &[&'a [u8]], form: &Form) -> Result<Self, Error> {
        let (mut by, mut reverse) = (form.by, form.reverse);
        let (mut offset, mut limit, mut scores) = (0, -1, false);
        let mut rest = &words[2..];
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if form.scores && is(word, "WITHSCORES") {
                scores = true;
            } else if is(word, "LIMIT") && rest.len() >= 2 {
                (offset, limit) = (integer(rest[0])?, integer(rest[1])?);
                rest = &rest[2..];
            } else if reverse.is_none() && is(word, "REV") {
                reverse = Some(true);
            } else if by.is_none() && is(word, "BYLEX") {
                by = Some(By::Lex);
            } else if by.is_none() && is(word, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(Error::SYNTAX);
            }
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err(LIMIT_BY_RANK);
        }
        if scores && by == By::Lex {
            return Err(SCORES_BY_LEX);
        }
        // From the higher end to the lower one, they stand the other way round.
        let (low, high) = match (reverse, by) {
            (true, By::Score | By::Lex) => (words[1], words[0]),
            _ => (words[0], words[1]),
        };
        Ok(Self { range: Range::parse(by, low, high)?, reverse, offset, limit, scores })
    }

    /// The members that are meant, in the order that is meant.
    fn members<'s>(&self, sorted: &'s Sorted) -> impl Iterator<Item = &'s Ranking> + use<'s> {
        let (mut from, mut to) = self.range.ranks(sorted, self.reverse);
        if !matches!(self.range, Range::Rank(..)) {
            // A negative offset is beyond every end, as in Redis; a negative limit is none.
            let offset = usize::try_from(self.offset).unwrap_or(usize::MAX).min(to - from);
            let left = to - from - offset;
            let count = usize::try_from(self.limit).unwrap_or(left).min(left);
            (from, to) = if self.reverse {
                (to - offset - count, to - offset)
            } else {
                (from + offset, from + offset + count)
            };
        }
        let (mut forward, mut backward) = (None, None);
        if self.reverse {
            backward = Some(sorted.range(from, to).rev());
        } else {
            forward = Some(sorted.range(from, to));
        }
        forward.into_iter().flatten().chain(backward.into_iter().flatten())
    }
}

fn read_range(store: &Store, args: &Args<'_>, form: &Form, out: &mut ReplyWriter) -> Outcome {
    let query = Query::parse(&args[2..], form)?;
    let sorted = store.read::<Sorted>(args[1])?;
    let members: Vec<_> = sorted.into_iter().flat_map(|sorted| query.members(sorted)).collect();
    if members.is_empty() {
        out.array(0);
    } else {
        zsets::write(&members, query.scores, out);
    }
    Ok(())
}

pub fn zrange(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    read_range(store, args, &Form { by: None, reverse: None, scores: true }, out)
}

pub fn zrevrange(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let form = Form { by: Some(By::Rank), reverse: Some(true), scores: true };
    read_range(store, args, &form, out)
}

pub fn zrangebyscore(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let form = Form { by: Some(By::Score), reverse: Some(false), scores: true };
    read_range(store, args, &form, out)
}

pub fn zrevrangebyscore(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let form = Form { by: Some(By::Score), reverse: Some(true), scores: true };
    read_range(store, args, &form, out)
}

pub fn zrangebylex(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let form = Form { by: Some(By::Lex), reverse: Some(false), scores: true };
    read_range(store, args, &form, out)
}

pub fn zrevrangebylex(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let form = Form { by: Some(By::Lex), reverse: Some(true), scores: true };
    read_range(store, args, &form, out)
}

pub fn zrangestore(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let query = Query::parse(&args[3..], &Form { by: None, reverse: None, scores: false })?;
    let mut result = Sorted::default();
    if let Some(sorted) = store.read::<Sorted>(args[2])? {
        for ranking in query.members(sorted) {
            store.work.spend(sorted::member_cost(&ranking.member))?;
            result.set(&ranking.member, ranking.score);
            // The result can be far larger than the command that asks for it.
            if store.is_full(result.cost()) {
                return Err(Error::OUT_OF_MEMORY);
            }
        }
    }
    out.count(result.len());
    store.put(args[1], Entry { value: Value::Sorted(result), deadline: None });
    Ok(())
}
