//! `SCAN`: walks the keys in the order of their positions. The cursor is the position to go on
//! from, so the walk needs no memory between its calls, returns every key that was there all the
//! while, and returns none twice.

use super::command::Args;
use super::error::Error;
use super::glob;
use super::reply::{REPLY_BYTES_MAX, ReplyWriter};
use super::store::Store;
use super::strings::integer;
use alloc::vec::Vec;

/// Keys that a call looks at unless told otherwise.
const COUNT_DEFAULT: i64 = 10;

/// A call ends early when it has gathered this much, whatever `COUNT` says.
const KEYS_BYTES_MAX: usize = REPLY_BYTES_MAX / 2;

struct Options<'a> {
    count: i64,
    pattern: &'a [u8],
    type_name: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(words: &[&'a [u8]]) -> Result<Self, Error> {
        let mut options = Self { count: COUNT_DEFAULT, pattern: b"*", type_name: None };
        for pair in words.chunks(2) {
            let &[name, value] = pair else { return Err(Error::SYNTAX) };
            if name.eq_ignore_ascii_case(b"COUNT") {
                options.count = integer(value)?;
                if options.count < 1 {
                    return Err(Error::SYNTAX);
                }
            } else if name.eq_ignore_ascii_case(b"MATCH") {
                options.pattern = value;
            } else if name.eq_ignore_ascii_case(b"TYPE") {
                options.type_name = Some(value);
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(options)
    }
}

fn cursor(arg: &[u8]) -> Option<u64> {
    core::str::from_utf8(arg).ok()?.parse().ok().filter(|_| arg[0] != b'+')
}

pub fn scan(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Result<(), Error> {
    let from = cursor(args[1]).ok_or(Error::INVALID_CURSOR)?;
    let options = Options::parse(&args[2..])?;
    let mut found = Vec::new();
    let (mut looked_at, mut bytes, mut last) = (0, 0, None);
    let mut next = 0;
    for (position, key, value) in store.iter_from(from) {
        // Keys of one position go together, as a cursor cannot stand between them.
        let enough = looked_at >= options.count || bytes >= KEYS_BYTES_MAX;
        if enough && last != Some(position) {
            next = position;
            break;
        }
        (looked_at, last) = (looked_at + 1, Some(position));
        let wanted =
            options.type_name.is_none_or(|n| n.eq_ignore_ascii_case(value.type_name().as_bytes()));
        if wanted && glob::matches(options.pattern, key) {
            bytes += key.len() + 5;
            found.push(key);
        }
    }
    out.array(2);
    // Positions have 63 bits.
    out.bulk(super::number::Spelled::new(next as i64).as_bytes());
    out.array(found.len());
    found.iter().for_each(|key| out.bulk(key));
    Ok(())
}
