//! What clients ask of the store and what it answers: see [`crate`] for the bytes.

use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// Bytes of a key, of which there is at least one.
pub const KEY_BYTES_MAX: usize = 1024;

/// Bytes of a value.
pub const VALUE_BYTES_MAX: usize = 512 << 10;

/// Pairs in the answer to a scan.
pub const SCAN_PAIRS_MAX: usize = 1024;

/// Bytes of keys and values in the answer to a scan, unless the first pair alone has more.
pub const SCAN_BYTES_MAX: usize = 512 << 10;

const _: () = assert!(KEY_BYTES_MAX + VALUE_BYTES_MAX + 64 < OPERATION_BYTES_MAX);

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// What a client asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// What stands under a key.
    Get(Vec<u8>),
    /// Has this value stand under a key.
    Put(Vec<u8>, Vec<u8>),
    /// Has nothing stand under a key.
    Delete(Vec<u8>),
    /// The pairs from a key on, in the order of the keys.
    Scan {
        /// The lowest key that is of interest; empty for the first there is.
        start: Vec<u8>,
        /// The lowest key behind that is not; none for all there are.
        end: Option<Vec<u8>>,
        /// At most so many pairs, of at most [`SCAN_PAIRS_MAX`].
        limit: u32,
    },
}

/// Why nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Refusal {
    /// The bytes are no operation.
    Malformed = 0,
    /// The key is empty or too long, or the value too long.
    Size = 1,
    /// The state has reached its bound, or the section in which the key would stand.
    Full = 2,
    /// A query cannot change anything.
    ReadOnly = 3,
}

/// What a client is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was done.
    Done,
    /// This stands under the key.
    Value(Vec<u8>),
    /// Nothing stands under the key.
    Absent,
    /// What a scan found.
    Pairs {
        /// In the order of the keys.
        pairs: Vec<Pair>,
        /// The key with which to go on, if there is more.
        next: Option<Vec<u8>>,
    },
    /// Nothing was done.
    Refused(Refusal),
}

fn option(bytes: Option<&Vec<u8>>, to: &mut Writer) {
    match bytes {
        None => to.u8(0),
        Some(bytes) => {
            to.u8(1);
            to.bytes(bytes);
        }
    }
}

fn bytes(from: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    from.bytes(OPERATION_BYTES_MAX).map(|bytes| bytes.to_vec())
}

fn optional(from: &mut Reader<'_>) -> Result<Option<Vec<u8>>, Malformed> {
    match from.u8()? {
        0 => Ok(None),
        1 => bytes(from).map(Some),
        _ => Err(Malformed),
    }
}

impl Wire for Operation {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Get(key) => {
                to.u8(0);
                to.bytes(key);
            }
            Self::Put(key, value) => {
                to.u8(1);
                to.bytes(key);
                to.bytes(value);
            }
            Self::Delete(key) => {
                to.u8(2);
                to.bytes(key);
            }
            Self::Scan { start, end, limit } => {
                to.u8(3);
                to.bytes(start);
                option(end.as_ref(), to);
                to.u32(*limit);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Get(bytes(from)?),
            1 => Self::Put(bytes(from)?, bytes(from)?),
            2 => Self::Delete(bytes(from)?),
            3 => Self::Scan { start: bytes(from)?, end: optional(from)?, limit: from.u32()? },
            _ => return Err(Malformed),
        })
    }
}

impl Wire for Answer {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Done => to.u8(0),
            Self::Value(value) => {
                to.u8(1);
                to.bytes(value);
            }
            Self::Absent => to.u8(2),
            Self::Pairs { pairs, next } => {
                to.u8(3);
                to.u32(pairs.len() as u32);
                for (key, value) in pairs {
                    to.bytes(key);
                    to.bytes(value);
                }
                option(next.as_ref(), to);
            }
            Self::Refused(why) => {
                to.u8(4);
                to.u8(*why as u8);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Done,
            1 => Self::Value(bytes(from)?),
            2 => Self::Absent,
            3 => {
                let count = from.u32()? as usize;
                if count > SCAN_PAIRS_MAX {
                    return Err(Malformed);
                }
                let mut pair = || Ok((bytes(from)?, bytes(from)?));
                let pairs = (0..count).map(|_| pair()).collect::<Result<_, _>>()?;
                Self::Pairs { pairs, next: optional(from)? }
            }
            4 => Self::Refused(match from.u8()? {
                0 => Refusal::Malformed,
                1 => Refusal::Size,
                2 => Refusal::Full,
                3 => Refusal::ReadOnly,
                _ => return Err(Malformed),
            }),
            _ => return Err(Malformed),
        })
    }
}
