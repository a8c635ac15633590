//! Bytes that are here or in a file.

use crate::blobs::{BlobRef, TempBlobs};
use crate::mutant;
use bytes::Bytes;

/// See the [module](self).
#[derive(Clone, Debug)]
pub enum Content {
    Here(Bytes),
    BlobRef(BlobRef),
}

impl Content {
    pub fn len(&self) -> usize {
        match self {
            Self::Here(bytes) => bytes.len(),
            Self::BlobRef(cold) => cold.bytes as usize,
        }
    }

    /// The bytes, if they are to be had and are what they were.
    pub fn read(&self, is_right: impl FnOnce(&Bytes) -> bool) -> Option<Bytes> {
        let cold = match self {
            Self::Here(bytes) => return Some(bytes.clone()),
            Self::BlobRef(cold) => cold,
        };
        let bytes = Bytes::from(cold.shelf.read(cold.offset, cold.bytes as usize)?);
        if is_right(&bytes) || mutant!("cold.not-checked") {
            return Some(bytes);
        }
        cold.shelf.spoiled(cold.offset);
        None
    }

    /// The same in a file, if it is in memory and can be put there.
    pub fn spooled(&self, spool: &dyn TempBlobs) -> Option<Self> {
        match self {
            Self::Here(bytes) => spool.put(bytes).map(Self::BlobRef),
            Self::BlobRef(_) => None,
        }
    }

    /// Whether it is in a file.
    pub const fn is_cold(&self) -> bool {
        matches!(self, Self::BlobRef(_))
    }

    /// Whether it is in the same file at the same place.
    pub fn is_at(&self, other: &BlobRef) -> bool {
        matches!(self, Self::BlobRef(cold) if cold.is_at(other))
    }
}
