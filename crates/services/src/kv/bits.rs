//! Commands on the bits of strings, the most significant bit of a byte first.

use super::VALUE_BYTES_MAX;
use super::arguments::{Outcome, integer, is, select_some};
use super::command::Args;
use super::error::Error;
use super::number::parse_i64;
use super::reply::ReplyWriter;
use super::store::Store;
use alloc::vec;
use alloc::vec::Vec;

const NO_OFFSET: Error = Error::err("bit offset is not an integer or out of range");
const NO_BIT: Error = Error::err("bit is not an integer or out of range");
const NO_BIT_TO_FIND: Error = Error::err("The bit argument must be 1 or 0.");
const NOT_OF_ONE: Error = Error::err("BITOP NOT must be called with a single source key.");

/// Bits that are counted or looked through with one unit of work.
const BITS_PER_WORK: u64 = 16;

/// The byte and the mask of a bit.
fn offset(arg: &[u8]) -> Result<(usize, u8), Error> {
    let offset = parse_i64(arg).and_then(|offset| usize::try_from(offset).ok());
    let offset = offset.filter(|offset| offset / 8 < VALUE_BYTES_MAX).ok_or(NO_OFFSET)?;
    Ok((offset / 8, 0x80 >> (offset % 8)))
}

pub fn getbit(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (byte, mask) = offset(args[2])?;
    let string = store.string(args[1])?.unwrap_or_default();
    out.int(i64::from(string.get(byte).is_some_and(|byte| byte & mask != 0)));
    Ok(())
}

pub fn setbit(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let (byte, mask) = offset(args[2])?;
    let one = match args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(NO_BIT),
    };
    let old = store.upsert(args[1], |string: &mut Vec<u8>| {
        if string.len() <= byte {
            string.resize(byte + 1, 0);
        }
        let place = &mut string[byte];
        let old = *place & mask != 0;
        *place = if one { *place | mask } else { *place & !mask };
        Ok((old, true))
    })?;
    out.int(i64::from(old));
    Ok(())
}

/// Whether a range counts bits instead of bytes.
fn counts_bits(unit: Option<&&[u8]>) -> Result<bool, Error> {
    match unit {
        None => Ok(false),
        Some(unit) if is(unit, "BYTE") => Ok(false),
        Some(unit) if is(unit, "BIT") => Ok(true),
        Some(_) => Err(Error::SYNTAX),
    }
}

/// The bits that a range selects, from one up to, but without, another.
fn range(start: i64, end: i64, bits: bool, bytes: usize) -> Option<(usize, usize)> {
    let length = if bits { 8 * bytes } else { bytes };
    let (from, to) = select_some(start, end, length)?;
    Some(if bits { (from, to) } else { (8 * from, 8 * to) })
}

const fn bit_at(string: &[u8], bit: usize) -> bool {
    string[bit / 8] & (0x80 >> (bit % 8)) != 0
}

pub fn bitcount(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let Some(string) = store.string(args[1])? else {
        out.int(0);
        return Ok(());
    };
    let selected = match &args[2..] {
        [] => Some((0, 8 * string.len())),
        [start, end, unit @ ..] if unit.len() <= 1 => {
            let (start, end) = (integer(start)?, integer(end)?);
            let crossed = start < 0 && end < 0 && start > end;
            if crossed { None } else { range(start, end, counts_bits(unit.first())?, string.len()) }
        }
        _ => return Err(Error::SYNTAX),
    };
    let Some((from, to)) = selected else {
        out.int(0);
        return Ok(());
    };
    store.work.spend((to - from) as u64 / BITS_PER_WORK)?;
    // Whole bytes, without what the range leaves out of the first and of the last one.
    let bytes = &string[from / 8..to.div_ceil(8)];
    let all: usize = bytes.iter().map(|byte| byte.count_ones() as usize).sum();
    let before = (from / 8 * 8..from).filter(|bit| bit_at(string, *bit)).count();
    let behind = (to..to.div_ceil(8) * 8).filter(|bit| bit_at(string, *bit)).count();
    out.count(all - before - behind);
    Ok(())
}

pub fn bitpos(store: &Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let wanted = match integer(args[2])? {
        0 => false,
        1 => true,
        _ => return Err(NO_BIT_TO_FIND),
    };
    let Some(string) = store.string(args[1])? else {
        out.int(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let (start, end, unit) = match &args[3..] {
        [] => (0, None, None),
        [start] => (integer(start)?, None, None),
        [start, end] => (integer(start)?, Some(integer(end)?), None),
        [start, end, unit] => {
            let start = integer(start)?;
            counts_bits(Some(unit))?;
            (start, Some(integer(end)?), Some(unit))
        }
        _ => return Err(Error::SYNTAX),
    };
    let selected = range(start, end.unwrap_or(-1), counts_bits(unit)?, string.len());
    let Some((from, to)) = selected else {
        out.int(-1);
        return Ok(());
    };
    store.work.spend((to - from) as u64 / BITS_PER_WORK)?;
    // Behind a string without a given end, zeros go on for ever.
    let beyond = if wanted || end.is_some() { -1 } else { i64::try_from(to).unwrap_or(i64::MAX) };
    let dull = if wanted { 0 } else { 0xff };
    let mut bit = from;
    while bit < to {
        if bit.is_multiple_of(8) && string[bit / 8] == dull {
            bit += 8;
        } else if bit_at(string, bit) == wanted {
            out.count(bit);
            return Ok(());
        } else {
            bit += 1;
        }
    }
    out.int(beyond);
    Ok(())
}

pub fn bitop(store: &mut Store, args: &Args<'_>, out: &mut ReplyWriter) -> Outcome {
    let combine: fn(u8, u8) -> u8 = match () {
        () if is(args[1], "AND") => |one, two| one & two,
        () if is(args[1], "OR") => |one, two| one | two,
        () if is(args[1], "XOR") => |one, two| one ^ two,
        () if is(args[1], "NOT") => |one, _| !one,
        () => return Err(Error::SYNTAX),
    };
    if is(args[1], "NOT") && args.len() != 4 {
        return Err(NOT_OF_ONE);
    }
    let strings = args[3..].iter().map(|key| Ok(store.string(key)?.unwrap_or_default()));
    let strings: Vec<&[u8]> = strings.collect::<Result<_, Error>>()?;
    let length = strings.iter().map(|string| string.len()).max().unwrap_or_default();
    store.work.spend((length * strings.len()) as u64)?;
    let mut result = vec![0; length];
    result[..strings[0].len()].copy_from_slice(strings[0]);
    let others = if strings.len() == 1 { &strings[..] } else { &strings[1..] };
    for string in others {
        for (index, byte) in result.iter_mut().enumerate() {
            *byte = combine(*byte, string.get(index).copied().unwrap_or_default());
        }
    }
    // With one key, AND and OR combine it with itself, which is itself; XOR must not.
    if strings.len() == 1 && is(args[1], "XOR") {
        result.copy_from_slice(strings[0]);
    }
    if result.is_empty() {
        store.remove(args[2]);
    } else {
        store.set_string(args[2], &result);
    }
    out.count(length);
    Ok(())
}
