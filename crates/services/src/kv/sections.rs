//! The encoding of a section: a run of keys in their order, nothing if there are none; and the
//! clock, the last one.
//!
//! ```text
//! section := (count:u32 entry{count})?
//! entry   := key:bytes kind:u8 deadline:u64? value    kind + 128 if there is a deadline
//! value   := string:bytes                             kind 0
//!          | count:u32 bytes{count}                   kind 1, a list
//!          | count:u32 (field:bytes value:bytes){count}      2, a hash, by position of the field
//!          | count:u32 bytes{count}                   kind 3, a set, by position
//!          | count:u32 (bytes score:u64){count}       kind 4, a sorted set, by position
//! bytes   := length:u32 byte{length}                  score: the bits of the double
//! clock   := time:u64                                 milliseconds
//! ```

use super::KEY_BYTES_MAX;
use super::hash::Hash;
use super::list::{End, List};
use super::set::Set;
use super::sorted::Sorted;
use super::store::{Entry, KEY_SECTIONS, Store};
use super::value::Value;
use alloc::vec::Vec;
use bytes::Bytes;
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::mutant;
use pentarchy_core::wire::{Malformed, Reader, Writer};

const STRING: u8 = 0;
const LIST: u8 = 1;
const HASH: u8 = 2;
const SET: u8 = 3;
const SORTED: u8 = 4;

/// Added to the kind if a deadline follows.
const ENDS: u8 = 128;

/// # Panics
/// If there is no such section, or it has 2^32 entries, which the store's limit rules out.
pub fn encode(store: &Store, section: u32) -> Vec<u8> {
    let mut to = Writer::default();
    if section == KEY_SECTIONS {
        to.u64(store.now());
        return to.into_vec();
    }
    let entries = store.section(section).count();
    if entries == 0 {
        return Vec::new();
    }
    to.u32(count(entries));
    for (key, entry) in store.section(section) {
        to.bytes(key.bytes());
        let kind = kind_of(&entry.value);
        match entry.deadline {
            None => to.u8(kind),
            Some(deadline) => {
                to.u8(kind | ENDS);
                to.u64(deadline);
            }
        }
        encode_value(&entry.value, &mut to);
    }
    to.into_vec()
}

const fn kind_of(value: &Value) -> u8 {
    match value {
        Value::String(_) => STRING,
        Value::List(_) => LIST,
        Value::Hash(_) => HASH,
        Value::Set(_) => SET,
        Value::Sorted(_) => SORTED,
    }
}

fn encode_value(value: &Value, to: &mut Writer) {
    match value {
        Value::String(string) => to.bytes(string),
        Value::List(list) => {
            to.u32(count(list.len()));
            list.iter().for_each(|item| to.bytes(item));
        }
        Value::Hash(hash) => {
            to.u32(count(hash.len()));
            for (field, value) in hash.iter() {
                to.bytes(field);
                to.bytes(value);
            }
        }
        Value::Set(set) => {
            to.u32(count(set.len()));
            set.iter().for_each(|member| to.bytes(member));
        }
        Value::Sorted(sorted) => {
            to.u32(count(sorted.len()));
            for (member, score) in sorted.iter() {
                to.bytes(member);
                to.u64(score.to_bits());
            }
        }
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("the store's limit is below 2^32 bytes")
}

/// Replaces a section. After an error it holds a part, and the state must not be used.
pub fn restore(store: &mut Store, section: u32, bytes: &[u8]) -> Result<(), Malformed> {
    if section > KEY_SECTIONS {
        return Err(Malformed);
    }
    let bytes = Bytes::copy_from_slice(bytes);
    let mut from = Reader::new(&bytes);
    if section == KEY_SECTIONS {
        store.set_clock(from.u64()?);
        return from.finish();
    }
    store.clear_section(section);
    if bytes.is_empty() {
        return Ok(());
    }
    let entries = from.u32()?;
    if entries == 0 {
        return Err(Malformed);
    }
    for _ in 0..entries {
        let key = from.bytes(KEY_BYTES_MAX)?;
        let kind = from.u8()?;
        let deadline = if kind & ENDS == 0 { None } else { Some(from.u64()?) };
        let deadline = deadline.filter(|_| !mutant!("kv.deadline-not-restored"));
        let value = decode_value(kind & !ENDS, &mut from)?;
        if !store.push(section, &key, Entry { value, deadline }) {
            return Err(Malformed);
        }
    }
    from.finish()
}

fn decode_value(kind: u8, from: &mut Reader<'_>) -> Result<Value, Malformed> {
    let next = |from: &mut Reader<'_>| from.bytes(OPERATION_BYTES_MAX);
    match kind {
        STRING => Ok(Value::String(next(from)?.to_vec())),
        LIST => {
            let mut list = List::default();
            for _ in 0..from.u32()? {
                list.push(End::Right, &next(from)?);
            }
            Ok(Value::List(list))
        }
        HASH => {
            let mut hash = Hash::default();
            for _ in 0..from.u32()? {
                let field = next(from)?;
                fresh(hash.push(&field, &next(from)?))?;
            }
            Ok(Value::Hash(hash))
        }
        SET => {
            let mut set = Set::default();
            for _ in 0..from.u32()? {
                fresh(set.push(&next(from)?))?;
            }
            Ok(Value::Set(set))
        }
        SORTED => {
            let mut sorted = Sorted::default();
            for _ in 0..from.u32()? {
                let member = next(from)?;
                let score = f64::from_bits(from.u64()?);
                fresh(sorted.push(&member, score))?;
            }
            Ok(Value::Sorted(sorted))
        }
        _ => Err(Malformed),
    }
}

/// A member that is there twice, or in another's place, was not written by [`encode`].
const fn fresh(new: bool) -> Result<(), Malformed> {
    if new { Ok(()) } else { Err(Malformed) }
}
