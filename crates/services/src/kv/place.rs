//! The order in which keys, members and fields are kept: by hash, then by bytes.
//!
//! A position is the upper 63 bits of a BLAKE3 hash: the same on every replica, not of a client's
//! choosing, and a number, which is what the cursor of a `SCAN` is.

use super::text::Text;
use core::borrow::Borrow;
use core::cmp::Ordering;
use pentarchy_core::digest::Digest;

/// Bits of a position; one less than a word, as some clients read cursors as signed.
pub const POSITION_BITS: u32 = 63;

/// The position of a name.
pub fn position_of(name: &[u8]) -> u64 {
    let Digest([a, b, c, d, e, f, g, h, ..]) = Digest::of(name);
    u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1
}

/// A stored name with its position.
#[derive(Clone, Debug)]
pub struct Key {
    position: u64,
    bytes: Text,
}

impl Key {
    /// A name whose position is known.
    pub fn at((position, name): (u64, &[u8])) -> Self {
        Self { position, bytes: name.into() }
    }

    pub const fn position(&self) -> u64 {
        self.position
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A name as looked up: lets a borrowed one be compared with a stored one.
pub trait Place {
    fn place(&self) -> (u64, &[u8]);
}

impl Place for Key {
    fn place(&self) -> (u64, &[u8]) {
        (self.position, &self.bytes)
    }
}

impl Place for (u64, &[u8]) {
    fn place(&self) -> (u64, &[u8]) {
        *self
    }
}

impl<'a> Borrow<dyn Place + 'a> for Key {
    fn borrow(&self) -> &(dyn Place + 'a) {
        self
    }
}

impl PartialEq for dyn Place + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}
impl Eq for dyn Place + '_ {}
impl PartialOrd for dyn Place + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for dyn Place + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}
impl Eq for Key {}
impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}
