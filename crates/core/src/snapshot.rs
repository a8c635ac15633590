//! State as chunks under a hash tree: what a checkpoint vouches for and what a transfer moves.
//!
//! The state is a list of sections; a section is cut into chunks of at most
//! [`CHUNK_BYTES_MAX`]; the manifest lists the digests of all chunks; the checkpoint's digest is
//! the digest of the manifest. Sections that did not change share their chunks with the snapshot
//! before.

use crate::digest::{Digest, Hasher};
use crate::ids::Slot;
use crate::limits::{CHUNK_BYTES_MAX, CHUNKS_MAX, SECTIONS_MAX};
use crate::sessions::SESSION_SECTIONS;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::vec::Vec;
use bytes::Bytes;

/// The service's sections, the client table's and the executor's header.
const MANIFEST_SECTIONS_MAX: usize = SECTIONS_MAX + SESSION_SECTIONS as usize + 1;

/// The digests of a section's chunks.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct SectionDigests(pub Vec<Digest>);

impl Wire for SectionDigests {
    fn encode(&self, to: &mut Writer) {
        to.sequence(&self.0);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.sequence(CHUNKS_MAX).map(Self)
    }
}

/// The digests of a whole state.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Manifest(pub Vec<SectionDigests>);

impl Manifest {
    /// What a checkpoint vouches for.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut hasher = Hasher::new("state");
        hasher.u64(self.0.len() as u64);
        for section in &self.0 {
            hasher.u64(section.0.len() as u64);
            section.0.iter().for_each(|digest| {
                hasher.digest(digest);
            });
        }
        hasher.finish()
    }

    /// The digests of all chunks, in order.
    pub fn chunks(&self) -> impl Iterator<Item = &Digest> {
        self.0.iter().flat_map(|section| section.0.iter())
    }
}

impl Wire for Manifest {
    fn encode(&self, to: &mut Writer) {
        to.sequence(&self.0);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let manifest = from.sequence(MANIFEST_SECTIONS_MAX).map(Self)?;
        if manifest.chunks().count() > CHUNKS_MAX { Err(Malformed) } else { Ok(manifest) }
    }
}

/// One section's chunks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Section {
    /// Digests of the chunks.
    pub digests: SectionDigests,
    /// The chunks.
    pub chunks: Vec<Bytes>,
}

impl Section {
    /// Cuts a section's bytes into chunks.
    #[must_use]
    pub fn cut(bytes: Vec<u8>) -> Self {
        let bytes = Bytes::from(bytes);
        let cut = |start| bytes.slice(start..bytes.len().min(start + CHUNK_BYTES_MAX));
        let chunks: Vec<_> = (0..bytes.len()).step_by(CHUNK_BYTES_MAX).map(cut).collect();
        let digests = SectionDigests(chunks.iter().map(|chunk| Digest::of(chunk)).collect());
        Self { digests, chunks }
    }

    /// The section's bytes in one piece.
    #[must_use]
    pub fn joined(&self) -> Bytes {
        match self.chunks.as_slice() {
            [only] => only.clone(),
            chunks => Bytes::from(chunks.concat()),
        }
    }
}

/// The state after one slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The slot after which this is the state.
    pub slot: Slot,
    /// The manifest's digest.
    pub digest: Digest,
    /// All sections.
    pub sections: Vec<Section>,
}

impl Snapshot {
    /// Seals the state after a slot.
    #[must_use]
    pub fn new(slot: Slot, sections: Vec<Section>) -> Self {
        let mut snapshot = Self { slot, digest: Digest::default(), sections };
        snapshot.digest = snapshot.manifest().digest();
        snapshot
    }

    /// The digests of all chunks.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        Manifest(self.sections.iter().map(|section| section.digests.clone()).collect())
    }

    /// A chunk by its place in [`Manifest::chunks`].
    #[must_use]
    pub fn chunk(&self, index: usize) -> Option<&Bytes> {
        self.sections.iter().flat_map(|section| section.chunks.iter()).nth(index)
    }
}
