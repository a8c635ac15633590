//! Sections that are not empty.

use super::content::Content;
use crate::blobs::{BlobRef, TempBlobs};
use crate::digest::{Digest, Hasher};
use crate::ids::Slot;
use crate::limits::CHUNK_BYTES_MAX;
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;

/// A part of a large section, with its digest.
#[derive(Clone, Debug)]
pub struct Chunk {
    digest: Digest,
    content: Content,
}

impl Chunk {
    /// A chunk, of which the caller knows that it has this digest.
    #[must_use]
    pub const fn new(digest: Digest, bytes: Bytes) -> Self {
        Self { digest, content: Content::Here(bytes) }
    }

    /// The same, of which the bytes are in a file.
    #[must_use]
    pub const fn at(digest: Digest, cold: BlobRef) -> Self {
        Self { digest, content: Content::BlobRef(cold) }
    }

    /// The digest of its bytes.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.content.len()
    }

    /// Whether it has none; no leaf has such a chunk.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its bytes; none if they are in a file, and cannot be read or are not what they were.
    #[must_use]
    pub fn read(&self) -> Option<Bytes> {
        self.content.read(|bytes| Digest::of(bytes) == self.digest)
    }

    /// Whether they are in a file.
    #[must_use]
    pub const fn is_cold(&self) -> bool {
        self.content.is_cold()
    }

    /// The same in a file, if it can be put there.
    #[must_use]
    pub fn spooled(self, spool: &dyn TempBlobs) -> Self {
        let content = self.content.spooled(spool);
        Self { content: content.unwrap_or(self.content), ..self }
    }
}

/// What there is of a section.
#[derive(Clone, Debug)]
enum Body {
    /// At most one chunk.
    One(Content),
    /// Several.
    Many(Box<[Chunk]>),
}

/// A section that is not empty.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub(super) section: u32,
    pub(super) digest: Digest,
    pub(super) changed: Slot,
    body: Body,
}

impl Leaf {
    /// A section's bytes, of which there is at least one, as they are since this slot.
    #[must_use]
    pub fn new(section: u32, bytes: Vec<u8>, changed: Slot) -> Self {
        Self::after(None, section, bytes, changed)
    }

    /// The same for a section of which there was something before: chunks that are as they were are
    /// shared, so that a large section of which little changed takes little memory beside its
    /// former self.
    #[must_use]
    pub fn after(before: Option<&Self>, section: u32, bytes: Vec<u8>, changed: Slot) -> Self {
        if bytes.len() <= CHUNK_BYTES_MAX {
            return Self::small(section, Bytes::from(bytes), changed);
        }
        let before = before.map(Self::chunks).unwrap_or_default();
        let cut = |(number, chunk): (usize, &[u8])| {
            let digest = Digest::of(chunk);
            let same = before.get(number).filter(|known| known.digest == digest);
            // A copy: a chunk that is shared one day must not keep the whole section in memory.
            let copy = || Chunk::new(digest, Bytes::copy_from_slice(chunk));
            same.map_or_else(copy, Chunk::clone)
        };
        let chunks = bytes.chunks(CHUNK_BYTES_MAX).enumerate().map(cut).collect();
        Self::of_chunks(section, chunks, changed)
    }

    /// The same, of bytes that are no more than one chunk.
    #[must_use]
    pub fn small(section: u32, bytes: Bytes, changed: Slot) -> Self {
        let digest = Self::digest_of_small(section, &bytes);
        Self { section, digest, changed, body: Body::One(Content::Here(bytes)) }
    }

    /// The same, of chunks.
    #[must_use]
    pub fn of_chunks(section: u32, chunks: Vec<Chunk>, changed: Slot) -> Self {
        let digest = Self::digest_of_chunks(section, chunks.iter().map(|chunk| &chunk.digest));
        Self { section, digest, changed, body: Body::Many(chunks.into()) }
    }

    fn digest_of_small(section: u32, bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::new("leaf");
        hasher.u64(u64::from(section)).bytes(bytes).finish()
    }

    /// The digest of a leaf that has several chunks.
    #[must_use]
    pub fn digest_of_chunks<'a>(
        section: u32,
        chunks: impl ExactSizeIterator<Item = &'a Digest>,
    ) -> Digest {
        let mut hasher = Hasher::new("leaf of chunks");
        hasher.u64(u64::from(section)).u64(chunks.len() as u64);
        for digest in chunks {
            hasher.digest(digest);
        }
        hasher.finish()
    }

    /// Which section it is.
    #[must_use]
    pub const fn section(&self) -> u32 {
        self.section
    }

    /// What stands for it in the node above.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The slot of the snapshot in which it became what it is, as far as the replica knows.
    #[must_use]
    pub const fn changed(&self) -> Slot {
        self.changed
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.body {
            Body::One(content) => content.len(),
            Body::Many(chunks) => chunks.iter().map(Chunk::len).sum(),
        }
    }

    /// Whether it has none; a tree has no such leaf.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its chunks, if there are several.
    #[must_use]
    pub const fn chunks(&self) -> &[Chunk] {
        match &self.body {
            Body::One(_) => &[],
            Body::Many(chunks) => chunks,
        }
    }

    /// Its bytes in one piece; none if some are in a file, and cannot be read or are not what they
    /// were.
    #[must_use]
    pub fn joined(&self) -> Option<Bytes> {
        let chunks = match &self.body {
            Body::One(content) => {
                let is_right =
                    |bytes: &Bytes| self.digest == Self::digest_of_small(self.section, bytes);
                return content.read(is_right);
            }
            Body::Many(chunks) => chunks,
        };
        let mut bytes = Vec::with_capacity(self.len());
        for chunk in chunks {
            bytes.extend_from_slice(&chunk.read()?);
        }
        Some(bytes.into())
    }

    /// Whether some of it is in a file.
    #[must_use]
    pub fn is_cold(&self) -> bool {
        match &self.body {
            Body::One(content) => content.is_cold(),
            Body::Many(chunks) => chunks.iter().any(|chunk| chunk.content.is_cold()),
        }
    }

    /// The same since another slot.
    pub(super) fn moved(&self, changed: Slot) -> Self {
        Self { changed, ..self.clone() }
    }

    /// The same with what another leaf of this digest has of it, in memory or in files.
    pub(super) fn with_content_of(&self, other: &Self) -> Self {
        debug_assert_eq!(self.digest, other.digest, "it is the same section");
        Self { body: other.body.clone(), ..*self }
    }

    /// The same with its bytes at these places: as many as it has chunks, or one. None if that is
    /// where they are already.
    ///
    /// # Panics
    /// If there are fewer places.
    #[must_use]
    pub fn shelved(&self, mut places: impl Iterator<Item = BlobRef>) -> Option<Self> {
        let mut is_new = false;
        let mut place = |content: &Content| {
            let cold = places.next().expect("a place for each chunk");
            is_new |= !content.is_at(&cold);
            Content::BlobRef(cold)
        };
        let body = match &self.body {
            Body::One(content) => Body::One(place(content)),
            Body::Many(chunks) => {
                let moved = |chunk: &Chunk| Chunk { content: place(&chunk.content), ..*chunk };
                Body::Many(chunks.iter().map(moved).collect())
            }
        };
        is_new.then_some(Self { body, ..*self })
    }

    /// The same with what was in memory in a file, as far as it can be put there.
    #[must_use]
    pub fn spooled(self, spool: &dyn TempBlobs) -> Self {
        let body = match self.body {
            Body::One(content) => Body::One(content.spooled(spool).unwrap_or(content)),
            Body::Many(chunks) => {
                Body::Many(chunks.into_iter().map(|chunk| chunk.spooled(spool)).collect())
            }
        };
        Self { body, ..self }
    }

    /// The same with all of it in memory; none if that cannot be had.
    #[must_use]
    pub fn warmed(&self) -> Option<Self> {
        let body = match &self.body {
            Body::One(_) => Body::One(Content::Here(self.joined()?)),
            Body::Many(chunks) => {
                let warm = |chunk: &Chunk| Some(Chunk::new(chunk.digest, chunk.read()?));
                Body::Many(chunks.iter().map(warm).collect::<Option<_>>()?)
            }
        };
        Some(Self { body, ..*self })
    }
}
