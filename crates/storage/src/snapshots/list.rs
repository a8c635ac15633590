//! The list of a snapshot: its manifest, and where each chunk is.

use super::pack::Packs;
use crate::disk::{DiskError, Folder, read_all, write_whole};
use crate::error::StorageError;
use crate::identity::Identity;
use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::limits::{CHUNK_BYTES_MAX, CHUNKS_MAX, MESSAGE_BYTES_MAX};
use pentarchy_core::snapshot::Manifest;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// The first bytes. Never changes.
const MAGIC: &[u8; 8] = b"PENTASNP";
/// The version of the format, behind the magic; of lists and packs.
pub const VERSION: u32 = 1;
/// The largest note of a caller.
pub const NOTE_BYTES_MAX: usize = 1 << 20;
/// Holds the largest manifest, a place for each chunk and a note.
const LIST_BYTES_MAX: u64 = (MESSAGE_BYTES_MAX + 20 * CHUNKS_MAX + NOTE_BYTES_MAX + 4096) as u64;

/// Where a chunk is.
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
        let fits = bytes as usize <= CHUNK_BYTES_MAX;
        if fits { Ok(Self { pack, offset, bytes }) } else { Err(Malformed) }
    }
}

/// The file name of a snapshot's list.
#[must_use]
pub fn name(slot: Slot) -> String {
    format!("{:016x}.snapshot", slot.0)
}

/// The slot in the file name of a list.
#[must_use]
pub fn slot(name: &str) -> Option<Slot> {
    let slot = Slot(u64::from_str_radix(name.strip_suffix(".snapshot")?, 16).ok()?);
    (self::name(slot) == name).then_some(slot)
}

/// A snapshot's list.
#[derive(Debug)]
pub struct List {
    pub digest: Digest,
    pub manifest: Manifest,
    /// Of each chunk, in the order of [`Manifest::chunks`].
    pub places: Vec<Place>,
    /// What the caller noted.
    pub note: Bytes,
}

impl List {
    /// Writes it so that it is there as a whole or not at all.
    pub fn write(
        &self,
        folder: &mut dyn Folder,
        identity: &Identity,
        slot: Slot,
    ) -> Result<(), DiskError> {
        let mut to = Writer::default();
        head(MAGIC, identity, &mut to);
        slot.encode(&mut to);
        self.digest.encode(&mut to);
        self.manifest.encode(&mut to);
        to.sequence(&self.places);
        to.bytes(&self.note);
        Digest::of(to.as_slice()).encode(&mut to);
        write_whole(folder, &name(slot), |file| file.write_at(to.as_slice(), 0)).map(drop)
    }

    /// Reads it, checks it, and looks whether the packs are there.
    pub fn read(
        folder: &dyn Folder,
        name: &str,
        owner: Option<&Identity>,
        packs: &Packs,
    ) -> Result<(Identity, Self), StorageError> {
        let bytes = Bytes::from(read_all(folder, name, LIST_BYTES_MAX)?);
        let identity = check_head(MAGIC, name, &bytes, owner)?;
        let corrupt = |offset: usize, what: &str| StorageError::Corrupt {
            file: name.to_owned(),
            offset: offset as u64,
            what: what.to_owned(),
        };
        let end = bytes.len().saturating_sub(32);
        if Digest::of(&bytes[..end]).0 != bytes[end..] {
            return Err(corrupt(0, "its check is wrong, somewhere in the file"));
        }
        let content = bytes.slice(HEAD_BYTES.min(end)..end);
        let (found, list) = Self::decode(&content)
            .map_err(|Malformed| corrupt(HEAD_BYTES, "it is not the list of a snapshot"))?;
        if self::name(found) != name {
            return Err(corrupt(HEAD_BYTES, "it is another snapshot's, under this name"));
        }
        match list.places.iter().find(|place| !packs.contains(place)) {
            None => Ok((identity, list)),
            Some(place) => Err(StorageError::Missing {
                what: format!("what {name} needs of {}", super::pack::name(place.pack)),
            }),
        }
    }

    fn decode(content: &Bytes) -> Result<(Slot, Self), Malformed> {
        let mut from = Reader::new(content);
        let (slot, digest) = (Slot::decode(&mut from)?, Digest::decode(&mut from)?);
        let manifest = Manifest::decode(&mut from)?;
        let places: Vec<Place> = from.sequence(CHUNKS_MAX)?;
        let note = from.bytes(NOTE_BYTES_MAX)?;
        from.finish()?;
        if manifest.digest() != digest || manifest.chunks().count() != places.len() {
            return Err(Malformed);
        }
        Ok((slot, Self { digest, manifest, places, note }))
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
