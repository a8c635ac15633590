//! Sections of the state: runs of keys whose hashes begin with the same bits, in the keys' order.
//!
//! ```text
//! section := (key:bytes value:bytes)*        by ascending key
//! ```

use crate::operation::{KEY_BYTES_MAX, Pair, VALUE_BYTES_MAX};
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::wire::{Malformed, Reader, Writer};

/// How many there are. In 64 GiB of state each has a MiB, and what a replica keeps in memory for
/// each is some hundred bytes.
pub const SECTIONS: u32 = 1 << 16;

/// Bytes of a section: one at a time is in memory. A key that does not fit into its section any
/// more is refused, so whoever chooses keys by their hashes fills one and no more.
pub const SECTION_BYTES_MAX: u64 = 64 << 20;

/// The section in which a key stands.
pub fn of(key: &[u8]) -> u32 {
    let Digest([first, second, ..]) = Digest::of(key);
    u32::from(u16::from_be_bytes([first, second]))
}

/// What a pair takes in its section.
pub const fn size(key: &[u8], value_bytes: usize) -> u64 {
    (8 + key.len() + value_bytes) as u64
}

/// Adds a pair to the bytes of a section.
pub fn encode(key: &[u8], value: &[u8], to: &mut Writer) {
    to.bytes(key);
    to.bytes(value);
}

/// The pairs of a section, each once; one that does not belong there spoils it.
pub fn decode(section: u32, bytes: &Bytes) -> impl Iterator<Item = Result<Pair, Malformed>> {
    let mut from = Reader::new(bytes);
    let mut last: Option<Vec<u8>> = None;
    std::iter::from_fn(move || {
        if from.remaining() == 0 {
            return None;
        }
        let mut pair = || {
            let key = from.bytes(KEY_BYTES_MAX)?.to_vec();
            let value = from.bytes(VALUE_BYTES_MAX)?.to_vec();
            let in_order = last.as_ref().is_none_or(|last| *last < key);
            if key.is_empty() || !in_order || of(&key) != section {
                return Err(Malformed);
            }
            last = Some(key.clone());
            Ok((key, value))
        };
        Some(pair())
    })
}
