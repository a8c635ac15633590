//! A backup: one state in one file, to be taken away from the replica that had it.
//!
//! `PENTABAK`, version (4), whose it was (26), slot (8), digest of the state (32), sections (4),
//! how many of them are not empty (4); for each of those its number (4), length (4) and bytes; then
//! the BLAKE3 hash of all that (32). Integers are little-endian. Nothing in it is secret but the
//! state itself.

mod streamed;

pub use streamed::{Described, check, write};

use crate::identity::Identity;
use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::limits::SECTIONS_MAX;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::{Leaf, Node, Place, Tree};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use std::fmt;
use std::sync::Arc;

/// The first bytes. Never changes.
const MAGIC: &[u8; 8] = b"PENTABAK";
/// The version of the format, behind the magic.
pub const VERSION: u32 = 1;
/// Bytes of both.
const HEAD_BYTES: usize = 12;
/// Bytes of the hash at the end.
const CHECK_BYTES: usize = 32;

/// Why a file cannot be used as a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BackupError {
    /// It does not begin like one.
    NotABackup,
    /// It has a format that this program does not know.
    Version {
        /// Its format.
        found: u32,
        /// The one that this program writes.
        known: u32,
    },
    /// It was cut off, or something in it changed.
    Damaged(&'static str),
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotABackup => write!(f, "this is no backup: see `pentarchy snapshot save`"),
            Self::Version { found, known } => write!(
                f,
                "this backup has format {found}, and this program knows format {known}. Use the \
                 program that wrote it"
            ),
            Self::Damaged(what) => write!(f, "this backup is damaged: {what}. Use another one"),
        }
    }
}

impl std::error::Error for BackupError {}

/// A state, and whose it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backup {
    /// The replica that had it, with its group.
    pub identity: Identity,
    /// The state.
    pub snapshot: Snapshot,
}

impl Backup {
    /// The content of the file.
    ///
    /// # Panics
    /// If some of the state is in files and cannot be read: a backup is of what is in memory.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { identity, snapshot } = self;
        let mut to = Writer::default();
        to.array(MAGIC);
        to.u32(VERSION);
        identity.encode(&mut to);
        snapshot.slot.encode(&mut to);
        snapshot.digest.encode(&mut to);
        to.u32(snapshot.tree.sections());
        to.u32(snapshot.tree.leaves());
        for leaf in snapshot.tree.iter() {
            to.u32(leaf.section());
            to.bytes(&leaf.joined().expect("it is in memory"));
        }
        Digest::of(to.as_slice()).encode(&mut to);
        to.into_vec()
    }

    /// Reads the content of a file and checks all of it.
    ///
    /// # Errors
    /// [`BackupError`]
    pub fn from_bytes(bytes: &Bytes) -> Result<Self, BackupError> {
        if !bytes.starts_with(MAGIC) {
            return Err(BackupError::NotABackup);
        }
        let mut from = Reader::new(bytes);
        let version = from.array::<8>().and_then(|_| from.u32());
        let found = version.map_err(|Malformed| BackupError::Damaged("it is cut off"))?;
        if found != VERSION {
            return Err(BackupError::Version { found, known: VERSION });
        }
        let end = bytes.len().saturating_sub(CHECK_BYTES).max(HEAD_BYTES);
        if bytes.get(end..) != Some(&Digest::of(&bytes[..end]).0[..]) {
            let what = "its check is wrong: a byte changed, or it is cut off";
            return Err(BackupError::Damaged(what));
        }
        let decoded = Self::decode(&bytes.slice(HEAD_BYTES..end));
        let backup = decoded
            .map_err(|Malformed| BackupError::Damaged("it is not the content of a backup"))?;
        if backup.snapshot.tree.digest() != backup.snapshot.digest {
            let what = "its sections are not the state that it names";
            return Err(BackupError::Damaged(what));
        }
        Ok(backup)
    }

    fn decode(content: &Bytes) -> Result<Self, Malformed> {
        let mut from = Reader::new(content);
        let identity = Identity::decode(&mut from)?;
        let (slot, digest) = (Slot::decode(&mut from)?, Digest::decode(&mut from)?);
        let (sections, count) = (from.u32()?, from.u32()?);
        if sections as usize > SECTIONS_MAX {
            return Err(Malformed);
        }
        let mut leaves: Vec<Arc<Leaf>> = Vec::new();
        for _ in 0..count {
            let (section, bytes) = (from.u32()?, from.bytes(usize::MAX)?);
            let last = leaves.last().map(|leaf| leaf.section());
            let in_order = last.is_none_or(|last| last < section) && section < sections;
            if !in_order || bytes.is_empty() {
                return Err(Malformed);
            }
            leaves.push(Arc::new(Leaf::new(section, bytes.to_vec(), slot)));
        }
        from.finish()?;
        let tree = Tree::with_top(sections, Node::of(Place::top(sections), &leaves, slot));
        Ok(Self { identity, snapshot: Snapshot { slot, digest, tree } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_every_damaged_byte_shows() {
        let sections = [b"one".to_vec(), Vec::new(), vec![7; 300]];
        let snapshot = Snapshot::new(Slot(9), Tree::of(Slot(9), sections));
        let backup = Backup { identity: Identity::NOBODY, snapshot };
        let bytes = backup.to_bytes();
        assert_eq!(Backup::from_bytes(&Bytes::from(bytes.clone())), Ok(backup));
        let check = |bytes: &[u8]| check(&mut &bytes[..], bytes.len() as u64).expect("memory");
        let described = check(&bytes).expect("it is whole");
        assert_eq!((described.sections, described.bytes, described.slot), (2, 303, Slot(9)));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(check(&damaged).is_err() && check(&bytes[..at]).is_err(), "byte {at}");
            assert!(Backup::from_bytes(&Bytes::from(damaged)).is_err(), "byte {at}");
            assert!(
                Backup::from_bytes(&Bytes::copy_from_slice(&bytes[..at])).is_err(),
                "{at} bytes"
            );
        }
        let mut newer = bytes;
        newer[8] = 2;
        let known = VERSION;
        let expected = Err(BackupError::Version { found: 2, known });
        assert_eq!(check(&newer), expected);
        assert_eq!(check(b"something else"), Err(BackupError::NotABackup));
        let found = Backup::from_bytes(&Bytes::from(newer));
        assert_eq!(found, Err(BackupError::Version { found: 2, known }));
    }
}
