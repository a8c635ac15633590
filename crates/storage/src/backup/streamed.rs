//! Backups that are written and checked piece by piece: no more of the state is in memory than a
//! chunk, however large it is.

use super::{BackupError, CHECK_BYTES, MAGIC, VERSION};
use crate::disk::DiskError;
use crate::error::StorageError;
use crate::identity::Identity;
use crate::kept::Newest;
use crate::snapshots::Sections;
use crate::summing::Summing;
use bytes::Bytes;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::Slot;
use pentarchy_core::limits::{CHUNK_BYTES_MAX, SECTIONS_MAX};
use pentarchy_core::tree::Leaf;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use std::io::{self, Read, Write};

/// Bytes before the sections: magic, version, whose it was, slot, digest, and two counts.
const HEAD_BYTES: usize = 8 + 4 + 26 + 8 + 32 + 4 + 4;

/// What is in a backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Described {
    /// Whose it was.
    pub identity: Identity,
    /// After which slot.
    pub slot: Slot,
    /// The state's digest.
    pub digest: Digest,
    /// Sections that are not empty.
    pub sections: u32,
    /// Bytes of those.
    pub bytes: u64,
}

/// Writes, and hashes what was written.
struct Hashing<'a> {
    to: &'a mut dyn Write,
    hasher: Hasher,
}

impl Hashing<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.hasher.raw(bytes);
        let failed = |source| DiskError { operation: "write", path: "the backup".into(), source };
        Ok(self.to.write_all(bytes).map_err(failed)?)
    }
}

impl Sections for Hashing<'_> {
    fn begin(&mut self, section: u32, bytes: u64) -> Result<(), StorageError> {
        let mut to = Writer::default();
        to.u32(section);
        // A section has at most as many chunks as fit a message, so this is far below 4 GiB.
        to.u32(bytes as u32);
        self.put(to.as_slice())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.put(bytes)
    }
}

/// Writes a state, in the same format as [`Backup::to_bytes`](super::Backup::to_bytes).
///
/// # Errors
/// [`StorageError`]: it cannot be read any more, or `to` cannot be written to.
pub fn write(newest: &Newest, to: &mut dyn Write) -> Result<Described, StorageError> {
    let mut head = Writer::default();
    head.array(MAGIC);
    head.u32(VERSION);
    newest.identity.encode(&mut head);
    newest.state.slot.encode(&mut head);
    newest.state.state.encode(&mut head);
    head.u32(newest.sections);
    head.u32(newest.walked.sections);
    debug_assert_eq!(head.len(), HEAD_BYTES);
    let mut hashing = Hashing { to, hasher: Hasher::plain() };
    hashing.put(head.as_slice())?;
    newest.walk(&mut hashing)?;
    let check = hashing.hasher.finish();
    hashing.put(&check.0)?;
    Ok(Described {
        identity: newest.identity,
        slot: newest.state.slot,
        digest: newest.state.state,
        sections: newest.walked.sections,
        bytes: newest.walked.bytes,
    })
}

/// Why a backup was not read to its end.
enum Stop {
    Io(io::Error),
    Bad(BackupError),
}

impl From<Malformed> for Stop {
    fn from(Malformed: Malformed) -> Self {
        Self::Bad(BackupError::Damaged("it is not the content of a backup"))
    }
}

/// A backup that is being read.
struct Reading<'a> {
    from: &'a mut dyn Read,
    /// Bytes that are left, without the check.
    left: u64,
    hasher: Hasher,
}

impl Reading<'_> {
    fn next(&mut self, bytes: usize) -> Result<Bytes, Stop> {
        self.left = self.left.checked_sub(bytes as u64).ok_or(Malformed)?;
        let mut buffer = vec![0; bytes];
        self.from.read_exact(&mut buffer).map_err(Stop::Io)?;
        self.hasher.raw(&buffer);
        Ok(buffer.into())
    }

    /// The digest of a section of so many bytes.
    fn section(&mut self, section: u32, bytes: usize) -> Result<Digest, Stop> {
        if bytes <= CHUNK_BYTES_MAX {
            return Ok(Leaf::small(section, self.next(bytes)?, Slot(0)).digest());
        }
        let (mut digests, mut left) = (Vec::new(), bytes);
        while left > 0 {
            let chunk = self.next(left.min(CHUNK_BYTES_MAX))?;
            left -= chunk.len();
            digests.push(Digest::of(&chunk));
        }
        Ok(Leaf::digest_of_chunks(section, digests.iter()))
    }

    fn check(mut self) -> Result<Described, Stop> {
        let head = self.next(HEAD_BYTES)?;
        let mut from = Reader::new(&head);
        let (magic, version) = (from.array::<8>()?, from.u32()?);
        if magic != *MAGIC {
            return Err(Stop::Bad(BackupError::NotABackup));
        }
        if version != VERSION {
            return Err(Stop::Bad(BackupError::Version { found: version, known: VERSION }));
        }
        let identity = Identity::decode(&mut from)?;
        let (slot, digest) = (Slot::decode(&mut from)?, Digest::decode(&mut from)?);
        let (sections, count) = (from.u32()?, from.u32()?);
        if sections as usize > SECTIONS_MAX {
            return Err(Malformed.into());
        }
        let (mut summing, mut bytes) = (Summing::new(sections), 0);
        for _ in 0..count {
            let head = self.next(8)?;
            let mut from = Reader::new(&head);
            let (section, length) = (from.u32()?, from.u32()?);
            let digest = self.section(section, length as usize)?;
            if length == 0 || !summing.add(section, digest) {
                return Err(Malformed.into());
            }
            bytes += u64::from(length);
        }
        let mut check = [0; CHECK_BYTES];
        self.from.read_exact(&mut check).map_err(Stop::Io)?;
        if self.left > 0 || self.hasher.finish().0 != check {
            let what = "its check is wrong: a byte changed, or it is cut off";
            return Err(Stop::Bad(BackupError::Damaged(what)));
        }
        if summing.finish() != (count, digest) {
            let what = "its sections are not the state that it names";
            return Err(Stop::Bad(BackupError::Damaged(what)));
        }
        Ok(Described { identity, slot, digest, sections: count, bytes })
    }
}

/// Checks every byte of a backup, of which there are `size`.
///
/// # Errors
/// [`io::Error`] if it cannot be read; inside, [`BackupError`].
pub fn check(from: &mut dyn Read, size: u64) -> io::Result<Result<Described, BackupError>> {
    let Some(left) = size.checked_sub(CHECK_BYTES as u64).filter(|it| *it >= HEAD_BYTES as u64)
    else {
        let mut magic = Vec::new();
        from.take(MAGIC.len() as u64).read_to_end(&mut magic)?;
        let cut = BackupError::Damaged("it is cut off");
        return Ok(Err(if magic == MAGIC { cut } else { BackupError::NotABackup }));
    };
    match (Reading { from, left, hasher: Hasher::plain() }).check() {
        Ok(described) => Ok(Ok(described)),
        Err(Stop::Bad(error)) => Ok(Err(error)),
        Err(Stop::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Ok(Err(BackupError::Damaged("it is cut off")))
        }
        Err(Stop::Io(error)) => Err(error),
    }
}
