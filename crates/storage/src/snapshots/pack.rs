//! Packs: files of chunks. A pack is written once.

use super::list::{HEAD_BYTES, Place, head};
use super::piece;
use crate::disk::{DiskError, Folder, write_whole};
use crate::error::StorageError;
use crate::identity::Identity;
use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::tree::{Leaf, Node, Place as Top};
use pentarchy_core::wire::{Malformed, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The first bytes. Never changes.
const MAGIC: &[u8; 8] = b"PENTAPCK";
/// Packs above which the small ones are joined.
const PACKS_MAX: usize = 64;
/// What is collected for one write.
const WRITE_BYTES: usize = 1 << 20;

/// The file name of a pack.
#[must_use]
pub fn name(number: u64) -> String {
    format!("{number:016x}.pack")
}

fn number(name: &str) -> Option<u64> {
    let number = u64::from_str_radix(name.strip_suffix(".pack")?, 16).ok()?;
    (self::name(number) == name && number < 1 << 62).then_some(number)
}

/// What is written into a pack.
pub enum Source<'a> {
    /// A small piece.
    Small(&'a Node),
    /// A chunk of a section that has several.
    Chunk(&'a Bytes),
}

impl Source<'_> {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Small(node) => to.extend_from_slice(&piece::encode(node)),
            Self::Chunk(bytes) => to.extend_from_slice(bytes),
        }
    }

    /// How many bytes that is, without those that stand between sections.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Small(node) => node.bytes(),
            Self::Chunk(bytes) => bytes.len() as u64,
        }
    }
}

/// The packs that are there, with their sizes.
pub struct Packs(BTreeMap<u64, u64>);

impl Packs {
    /// Looks which there are.
    pub fn open(folder: &dyn Folder) -> Result<Self, DiskError> {
        let mut packs = BTreeMap::new();
        for name in folder.list()? {
            if let Some(number) = number(&name) {
                packs.insert(number, folder.open(&name)?.size()?);
            }
        }
        Ok(Self(packs))
    }

    /// Whether the pack of a chunk is there and reaches so far.
    pub fn contains(&self, place: &Place) -> bool {
        let end = place.offset.checked_add(u64::from(place.bytes));
        self.0.get(&place.pack).is_some_and(|size| end.is_some_and(|end| end <= *size))
    }

    /// The packs that are worth writing anew, given the chunks that stay in use.
    pub fn to_empty(&self, used: impl Iterator<Item = Place>) -> BTreeSet<u64> {
        let mut bytes: BTreeMap<u64, u64> = BTreeMap::new();
        for place in used {
            *bytes.entry(place.pack).or_default() += u64::from(place.bytes);
        }
        let sparse = |(pack, used): (&u64, &u64)| {
            (self.0.get(pack).is_some_and(|size| used * 2 < *size)).then_some(*pack)
        };
        let mut empty: BTreeSet<u64> = bytes.iter().filter_map(sparse).collect();
        if bytes.len() > PACKS_MAX {
            let mut by_use: Vec<_> = bytes.iter().map(|(pack, used)| (*used, *pack)).collect();
            by_use.sort_unstable();
            empty.extend(by_use.iter().take(PACKS_MAX / 2).map(|(_, pack)| *pack));
        }
        empty
    }

    /// Writes chunks into a new pack, durably, and says where they are.
    pub fn write(
        &mut self,
        folder: &mut dyn Folder,
        identity: &Identity,
        chunks: &[(Digest, Source<'_>)],
    ) -> Result<Vec<(Digest, Place)>, DiskError> {
        let pack = self.0.last_key_value().map_or(1, |(number, _)| number + 1);
        let mut places = Vec::with_capacity(chunks.len());
        let mut size = 0;
        write_whole(folder, &name(pack), |file| {
            let mut buffer = Writer::default();
            head(MAGIC, identity, &mut buffer);
            debug_assert_eq!(buffer.len(), HEAD_BYTES);
            let mut buffer = buffer.into_vec();
            for (digest, chunk) in chunks {
                let offset = size + buffer.len() as u64;
                chunk.write(&mut buffer);
                let bytes = size + buffer.len() as u64 - offset;
                let bytes = u32::try_from(bytes).expect("a piece keeps to its limit");
                places.push((*digest, Place { pack, offset, bytes }));
                if buffer.len() >= WRITE_BYTES {
                    file.write_at(&buffer, size)?;
                    size += buffer.len() as u64;
                    buffer.clear();
                }
            }
            file.write_at(&buffer, size)?;
            size += buffer.len() as u64;
            Ok(())
        })?;
        self.0.insert(pack, size);
        Ok(places)
    }

    /// Removes all other packs.
    pub fn keep_only(
        &mut self,
        folder: &mut dyn Folder,
        used: &BTreeSet<u64>,
    ) -> Result<(), DiskError> {
        let superfluous: Vec<u64> =
            self.0.keys().filter(|number| !used.contains(number)).copied().collect();
        for number in superfluous {
            folder.remove(&name(number))?;
            self.0.remove(&number);
        }
        Ok(())
    }
}

/// Reads a chunk and checks its digest.
pub fn chunk(folder: &dyn Folder, place: &Place, digest: &Digest) -> Result<Bytes, StorageError> {
    let bytes = read(folder, place)?;
    if Digest::of(&bytes) == *digest { Ok(bytes) } else { Err(other_digest(place)) }
}

/// Reads a piece and checks its digest.
pub fn piece(
    folder: &dyn Folder,
    place: &Place,
    (top, digest): (Top, &Digest),
    slot: Slot,
) -> Result<Vec<Arc<Leaf>>, StorageError> {
    let bytes = read(folder, place)?;
    piece::decode(top, digest, &bytes, slot).map_err(|Malformed| other_digest(place))
}

/// Whether this is what stands here.
pub fn holds(folder: &dyn Folder, place: &Place, wanted: &Source<'_>) -> bool {
    let mut bytes = Vec::new();
    wanted.write(&mut bytes);
    // What cannot be read is as bad as what is wrong: it is written once more.
    read(folder, place).is_ok_and(|found| found == bytes)
}

fn read(folder: &dyn Folder, place: &Place) -> Result<Bytes, StorageError> {
    let mut bytes = vec![0; place.bytes as usize];
    folder.open(&name(place.pack))?.read_at(&mut bytes, place.offset)?;
    Ok(Bytes::from(bytes))
}

fn other_digest(place: &Place) -> StorageError {
    let what = format!("the {} bytes from here on have another digest", place.bytes);
    StorageError::Corrupt { file: name(place.pack), offset: place.offset, what }
}
