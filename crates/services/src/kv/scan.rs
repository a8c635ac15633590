//! `SCAN` and its kin: walk keys, or the members of one, in the order of their positions. The
//! cursor is the position to go on from, so a walk needs no memory between its calls, returns all
//! that was there all the while, and returns nothing twice.

use super::arguments::{Outcome, integer, is};
use super::command::Args;
use super::error::Error;
use super::float;
use super::glob;
use super::hash::Hash;
use super::keys::VISIT_WORK;
use super::number::Spelled;
use super::reply::{REPLY_BYTES_MAX, ReplyWriter};
use super::set::Set;
use super::sorted::{self, Sorted};
use super::store::Store;
use super::work::Work;
use alloc::vec::Vec;

/// Elements that a call looks at unless told otherwise.
const COUNT_DEFAULT: i64 = 10;

/// A call ends early when it has gathered this much, whatever `COUNT` says.
const FOUND_BYTES_MAX: usize = REPLY_BYTES_MAX / 2;

/// Bytes of the longest score.
const SCORE_BYTES_MAX: usize = 32;

struct Options<'a> {
    count: i64,
    pattern: &'a [u8],
    type_name: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(words: &[&'a [u8]], typed: bool) -> Result<Self, Error> {
        let mut options = Self { count: COUNT_DEFAULT, pattern: b"*", type_name: None };
        for pair in words.chunks(2) {
            let &[name, value] = pair else { return Err(Error::SYNTAX) };
            if is(name, "COUNT") {
                options.count = integer(value)?;
                if options.count < 1 {
                    return Err(Error::SYNTAX);
                }
            } else if is(name, "MATCH") {
                options.pattern = glob::pattern(value)?;
            } else if typed && is(name, "TYPE") {
                options.type_name = Some(value);
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(options)
    }
}

fn cursor(arg: &[u8]) -> Result<u64, Error> {
    let cursor = core::str::from_utf8(arg).ok().and_then(|text| text.parse().ok());
    cursor.filter(|_| arg[0] != b'+').ok_or(Error::INVALID_CURSOR)
}

/// Elements by their names.
type Found<'a, T> = Vec<(&'a [u8], T)>;

/// The elements that match, and the cursor to go on from. Each comes with its position, its name
/// and the bytes that it takes in a reply beside the name.
fn walk<'a, T>(
    elements: impl Iterator<Item = (u64, &'a [u8], usize, T)>,
    options: &Options<'_>,
    work: &Work,
    wanted: impl Fn(&T) -> bool,
) -> Result<(u64, Found<'a, T>), Error> {
    let mut found = Vec::new();
    // Ends early as well when half of what is left is done; the cursor says where to go on.
    let reserve = work.left() / 2;
    let (mut looked_at, mut bytes, mut last) = (0, 0, None);
    for (position, name, more, element) in elements {
        // Elements of one position go together, as a cursor cannot stand between them.
        let size = name.len() + more + 10;
        let enough = work.left() < reserve
            || looked_at >= options.count
            || (bytes > 0 && bytes + size > FOUND_BYTES_MAX);
        if enough && last != Some(position) {
            return Ok((position, found));
        }
        work.spend(VISIT_WORK)?;
        (looked_at, last) = (looked_at + 1, Some(position));
        if wanted(&element) && glob::matches_within(options.pattern, name, work)? {
            bytes += size;
            found.push((name, element));
        }
    }
    Ok((0, found))
}

/// Begins the reply; what was found follows, so many replies.
fn begin(next: u64, count: usize, out: &mut ReplyWriter) {
    out.array(2);
    // Positions have 63 bits.
    out.bulk(Spelled::new(next as i64).as_bytes());
    out.array(count);
}

pub fn scan(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let from = cursor(args[1])?;
    let options = Options::parse(&args[2..], true)?;
    let keys = store.iter_from(from).map(|(position, key, value)| (position, key, 0, value));
    let (next, found) = walk(keys, &options, &store.work, |value| {
        options.type_name.is_none_or(|name| is(name, value.type_name()))
    })?;
    begin(next, found.len(), out);
    found.iter().for_each(|(key, _)| out.bulk(key));
    Ok(())
}

pub fn hscan(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let from = cursor(args[2])?;
    let Some(hash) = store.read::<Hash>(args[1])? else {
        begin(0, 0, out);
        return Ok(());
    };
    let options = Options::parse(&args[3..], false)?;
    let fields = hash.iter_from(from).map(|(at, field, value)| (at, field, value.len(), value));
    let (next, found) = walk(fields, &options, &store.work, |_| true)?;
    begin(next, 2 * found.len(), out);
    for (field, value) in found {
        out.bulk(field);
        out.bulk(value);
    }
    Ok(())
}

pub fn sscan(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let from = cursor(args[2])?;
    let Some(set) = store.read::<Set>(args[1])? else {
        begin(0, 0, out);
        return Ok(());
    };
    let options = Options::parse(&args[3..], false)?;
    let members = set.iter_from(from).map(|(position, member)| (position, member, 0, ()));
    let (next, found) = walk(members, &options, &store.work, |()| true)?;
    begin(next, found.len(), out);
    found.iter().for_each(|(member, ())| out.bulk(member));
    Ok(())
}

pub fn zscan(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let from = cursor(args[2])?;
    let Some(sorted) = store.read::<Sorted>(args[1])? else {
        begin(0, 0, out);
        return Ok(());
    };
    let options = Options::parse(&args[3..], false)?;
    let members = sorted.iter_from(from);
    let members = members.map(|(at, member, score)| (at, member, SCORE_BYTES_MAX, score));
    let (next, found) = walk(members, &options, &store.work, |_| true)?;
    begin(next, 2 * found.len(), out);
    for (member, score) in found {
        out.bulk(member);
        // Redis keeps whole numbers as such in small sorted sets, and this is where it shows.
        let whole = score as i64;
        if whole.unsigned_abs() <= 1 << 62 && sorted::compare(whole as f64, score).is_eq() {
            out.bulk(Spelled::new(whole).as_bytes());
        } else {
            out.bulk(float::spell(score).as_bytes());
        }
    }
    Ok(())
}
