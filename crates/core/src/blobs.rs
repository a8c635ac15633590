//! Bytes of a state that are in a file, and not in memory.
//!
//! A leaf of the tree ([`crate::tree`]) may know where its bytes are in place of having them. The
//! core does no I/O: what reads is behind a trait, which the host provides and the simulator too.
//! Nobody need be believed: whoever reads has the digest of what is to be there. What cannot be
//! read, or is something else, counts as absent; that is a fault of this replica's disk, which its
//! host mends or ends with, and never a reason to answer otherwise than others.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// A file that is open for as long as a leaf has its bytes there, also when its name is gone.
pub trait BlobReader: Send + Sync {
    /// So many bytes from an offset on. None if they cannot be read; it has taken note of that.
    fn read(&self, offset: u64, bytes: usize) -> Option<Vec<u8>>;

    /// What was read there is not what it was.
    fn spoiled(&self, offset: u64);
}

/// Where bytes are.
#[derive(Clone)]
pub struct BlobRef {
    /// In this file, ...
    pub shelf: Arc<dyn BlobReader>,
    /// ... from this byte on, ...
    pub offset: u64,
    /// ... so many.
    pub bytes: u32,
}

impl BlobRef {
    /// Whether this is the same place.
    #[must_use]
    pub fn is_at(&self, other: &Self) -> bool {
        let is_same = core::ptr::addr_eq(Arc::as_ptr(&self.shelf), Arc::as_ptr(&other.shelf));
        is_same && self.offset == other.offset && self.bytes == other.bytes
    }
}

impl fmt::Debug for BlobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobRef({} bytes at {})", self.bytes, self.offset)
    }
}

/// Who puts bytes into a file that nobody needs after this process.
pub trait TempBlobs: Send + Sync {
    /// Where the bytes are now. None if they cannot be put anywhere: they stay in memory.
    fn put(&self, bytes: &[u8]) -> Option<BlobRef>;
}
