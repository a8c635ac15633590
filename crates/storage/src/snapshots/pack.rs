//! Packs: files of chunks. A pack is written once.

use super::header::{HEAD_BYTES, Place, head};
use super::piece::{self, Absent};
use crate::disk::{DiskError, Folder, remove_unfinished, write_whole};
use crate::error::StorageError;
use crate::identity::Identity;
use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::tree::{Chunk, Leaf, Node, Place as Top};
use pentarchy_core::wire::{Malformed, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The first bytes. Never changes.
const MAGIC: &[u8; 8] = b"PENTAPCK";
/// Packs above which the small ones are joined.
const PACKS_MAX: usize = 64;
/// What is collected for one write.
const WRITE_BYTES: usize = 1 << 20;
/// Absent sections after which no more are looked for, but for those of the same piece.
pub const ABSENT_MAX: usize = 1024;

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
    /// A small piece, and its place in the tree.
    Small(Top, &'a Node),
    /// A chunk of a section that has several.
    Chunk(u32, &'a Chunk),
}

impl Source<'_> {
    fn write(&self, to: &mut Vec<u8>) -> Result<(), Absent> {
        match self {
            Self::Small(_, node) => to.extend_from_slice(&piece::encode(node)?),
            Self::Chunk(section, chunk) => {
                let absent = || Absent { sections: vec![*section] };
                to.extend_from_slice(&chunk.read().ok_or_else(absent)?);
            }
        }
        Ok(())
    }

    /// Whether it has the digest under which it is known, in memory or wherever it is now.
    pub fn has(&self, digest: &Digest) -> bool {
        match self {
            Self::Small(top, node) => piece::encode(node).is_ok_and(|bytes| {
                piece::decode(*top, digest, &bytes.into(), node.changed()).is_ok()
            }),
            Self::Chunk(_, chunk) => {
                chunk.read().is_some_and(|bytes| Digest::of(&bytes) == *digest)
            }
        }
    }

    /// How many bytes that is, without those that stand between sections.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Small(_, node) => node.bytes(),
            Self::Chunk(_, chunk) => chunk.len() as u64,
        }
    }
}

/// Why chunks were not written.
pub enum Unwritten {
    /// The disk failed.
    Disk(DiskError),
    /// Some of what was to be written is in a file, and not to be had there.
    Absent(Absent),
}

impl From<DiskError> for Unwritten {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl From<Absent> for Unwritten {
    fn from(absent: Absent) -> Self {
        Self::Absent(absent)
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

    /// Writes chunks into a new pack, durably, and says where they are. Where some are absent, says
    /// which, and writes none.
    pub fn write(
        &mut self,
        folder: &mut dyn Folder,
        identity: &Identity,
        chunks: &[(Digest, Source<'_>)],
    ) -> Result<Vec<(Digest, Place)>, Unwritten> {
        let pack = self.0.last_key_value().map_or(1, |(number, _)| number + 1);
        let mut places = Vec::with_capacity(chunks.len());
        let (mut size, mut absent) = (0, BTreeSet::new());
        let written = write_whole(folder, &name(pack), |file| {
            let mut buffer = Writer::default();
            head(MAGIC, identity, &mut buffer);
            debug_assert_eq!(buffer.len(), HEAD_BYTES);
            let mut buffer = buffer.into_vec();
            for (digest, chunk) in chunks {
                let offset = size + buffer.len() as u64;
                if let Err(Absent { sections }) = chunk.write(&mut buffer) {
                    absent.extend(sections);
                }
                if absent.len() >= ABSENT_MAX {
                    break;
                } else if !absent.is_empty() {
                    buffer.clear();
                    continue;
                }
                let bytes = size + buffer.len() as u64 - offset;
                let bytes = u32::try_from(bytes).expect("a piece keeps to its limit");
                places.push((*digest, Place { pack, offset, bytes }));
                if buffer.len() >= WRITE_BYTES {
                    file.write_at(&buffer, size)?;
                    size += buffer.len() as u64;
                    buffer.clear();
                }
            }
            if !absent.is_empty() {
                return Err(Absent { sections: absent.into_iter().collect() }.into());
            }
            file.write_at(&buffer, size)?;
            size += buffer.len() as u64;
            Ok(())
        });
        if let Err(Unwritten::Absent(_)) = written {
            remove_unfinished(folder)?;
        }
        written?;
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

/// Whether this is what stands here, wherever else it is or was. What cannot be read is as bad as
/// what is wrong: it is written once more.
pub fn holds(folder: &dyn Folder, place: &Place, digest: &Digest, wanted: &Source<'_>) -> bool {
    match wanted {
        Source::Small(top, _) => piece(folder, place, (*top, digest), Slot(0)).is_ok(),
        Source::Chunk(..) => chunk(folder, place, digest).is_ok(),
    }
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
