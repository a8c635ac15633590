//! The list of a snapshot: its pieces, and where each is.

use super::header::{HEAD_BYTES, Place, check_head, head};
use super::pack::Packs;
use crate::disk::{DiskError, Folder, read_all, write_whole};
use crate::error::StorageError;
use crate::identity::Identity;
use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::limits::CHUNKS_MAX;
use pentarchy_core::tree::{Leaf, Node, Place as Top, Tree};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use std::collections::BTreeMap;

/// The first bytes. Never changes.
const MAGIC: &[u8; 8] = b"PENTASNP";
/// The largest note of a caller.
pub const NOTE_BYTES_MAX: usize = 1 << 20;
/// The largest list that is read: about 19 million pieces.
const LIST_BYTES_MAX: u64 = 1 << 30;

/// A part of the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A subtree: its place in the tree, its digest, and where it is on disk.
    Small(Top, Digest, Place),
    /// A section, its chunks' digests, and where they are.
    Large(u32, Vec<(Digest, Place)>),
}

impl Entry {
    /// The same in a tree that is there.
    pub fn find<'a>(&self, tree: &'a Tree) -> Option<&'a Node> {
        let (top, wanted) = match self {
            Self::Small(top, digest, _) => (*top, *digest),
            Self::Large(section, chunks) => {
                let digests: Vec<Digest> = chunks.iter().map(|(digest, _)| *digest).collect();
                let digest = Leaf::digest_of_chunks(*section, digests.iter());
                (Top { height: 0, prefix: *section }, digest)
            }
        };
        tree.find(top).filter(|node| node.digest() == wanted)
    }

    /// Has these be found elsewhere. False if none of them is here.
    pub fn move_to(&mut self, places: &BTreeMap<Digest, Place>) -> bool {
        let mut changed = false;
        let mut mend = |digest: &Digest, at: &mut Place| {
            if let Some(place) = places.get(digest) {
                *at = *place;
                changed = true;
            }
        };
        match self {
            Self::Small(_, digest, at) => mend(digest, at),
            Self::Large(_, chunks) => chunks.iter_mut().for_each(|(digest, at)| mend(digest, at)),
        }
        changed
    }

    /// Digests and where they are found.
    pub fn places(&self) -> impl Iterator<Item = (Digest, Place)> + '_ {
        let (small, large) = match self {
            Self::Small(_, digest, place) => (Some((*digest, *place)), &[][..]),
            Self::Large(_, chunks) => (None, &chunks[..]),
        };
        small.into_iter().chain(large.iter().copied())
    }

    /// The first and the last section of which it may be, of so many.
    pub fn sections(&self, sections: u32) -> (u32, u32) {
        let (first, last) = match self {
            Self::Large(section, _) => (*section, *section),
            Self::Small(top, ..) => top.sections(),
        };
        (first, last.min(sections.saturating_sub(1)))
    }

    /// The same, for people.
    pub fn name(&self, sections: u32) -> String {
        match self.sections(sections) {
            (first, last) if first == last => format!("section {first}"),
            (first, last) => format!("sections {first} to {last}"),
        }
    }
}

impl Wire for Entry {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Small(top, digest, place) => {
                to.u8(SMALL);
                top.encode(to);
                digest.encode(to);
                place.encode(to);
            }
            Self::Large(section, chunks) => {
                to.u8(LARGE);
                to.u32(*section);
                to.sequence(chunks);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            LARGE => Ok(Self::Large(from.u32()?, from.sequence(CHUNKS_MAX)?)),
            SMALL => {
                let (top, digest) = (Top::decode(from)?, Digest::decode(from)?);
                Ok(Self::Small(top, digest, Place::decode(from)?))
            }
            _ => Err(Malformed),
        }
    }
}

/// What an entry begins with.
const SMALL: u8 = 0;
const LARGE: u8 = 1;

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
    /// Sections of the state, the empty ones included.
    pub sections: u32,
    /// All that is not empty, in the order of the sections.
    pub entries: Vec<Entry>,
    /// What the caller noted.
    pub note: Bytes,
}

impl List {
    /// The digests of all pieces and chunks, and where they are.
    pub fn places(&self) -> impl Iterator<Item = (Digest, Place)> + '_ {
        self.entries.iter().flat_map(Entry::places)
    }

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
        to.u32(self.sections);
        to.sequence(&self.entries);
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
        let lacking = list.places().find(|(_, place)| !packs.contains(place));
        match lacking {
            None => Ok((identity, list)),
            Some((_, place)) => Err(StorageError::Missing {
                what: format!("what {name} needs of {}", super::pack::name(place.pack)),
            }),
        }
    }

    fn decode(content: &Bytes) -> Result<(Slot, Self), Malformed> {
        let mut from = Reader::new(content);
        let (slot, digest) = (Slot::decode(&mut from)?, Digest::decode(&mut from)?);
        let (sections, entries) = (from.u32()?, from.sequence(LIST_BYTES_MAX as usize)?);
        let note = from.bytes(NOTE_BYTES_MAX)?;
        from.finish()?;
        Ok((slot, Self { digest, sections, entries, note }))
    }
}
