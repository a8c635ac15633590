//! What lists and packs have in common: what they begin with, and where pieces are.

use super::piece::PIECE_BYTES_MAX;
use crate::error::StorageError;
use crate::identity::Identity;
use bytes::Bytes;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// The version of the format, behind the magic; of lists and packs.
pub const VERSION: u32 = 2;

/// Where a piece or a chunk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// In which pack.
    pub pack: u64,
    /// From which byte on.
    pub offset: u64,
    /// How many.
    pub bytes: u32,
}

impl Wire for Place {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.pack);
        to.u64(self.offset);
        to.u32(self.bytes);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (pack, offset, bytes) = (from.u64()?, from.u64()?, from.u32()?);
        let fits = bytes as usize <= PIECE_BYTES_MAX;
        if fits { Ok(Self { pack, offset, bytes }) } else { Err(Malformed) }
    }
}

/// Bytes of what lists and packs begin with.
pub const HEAD_BYTES: usize = 8 + 4 + 16 + 2 + 8;

/// What lists and packs begin with.
pub fn head(magic: &[u8; 8], identity: &Identity, to: &mut Writer) {
    let start = to.len();
    to.array(magic);
    to.u32(VERSION);
    identity.encode(to);
    debug_assert_eq!(to.len() - start, HEAD_BYTES);
}

/// Checks that, and gives whose it is.
pub fn check_head(
    magic: &[u8; 8],
    file: &str,
    bytes: &Bytes,
    owner: Option<&Identity>,
) -> Result<Identity, StorageError> {
    let read = || {
        let mut from = Reader::new(bytes);
        Ok((from.array::<8>()?, from.u32()?, Identity::decode(&mut from)?))
    };
    let (found, version, identity) = match read() {
        Ok(head) if head.0 == *magic => head,
        Ok(_) | Err(Malformed) => {
            let what = "it does not begin like a file of this kind".to_owned();
            return Err(StorageError::Corrupt { file: file.to_owned(), offset: 0, what });
        }
    };
    debug_assert_eq!(found, *magic);
    if version != VERSION {
        let (file, found, known) = (file.to_owned(), version, VERSION);
        return Err(StorageError::Version { file, found, known });
    }
    match owner.and_then(|owner| identity.difference(owner)) {
        Some(what) => Err(StorageError::Foreign { file: file.to_owned(), what }),
        None => Ok(identity),
    }
}
