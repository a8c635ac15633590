//! The chain of proofs: how each configuration of the group ended and the next one began. Whoever
//! was away is led along it, from the configuration that it knows to the present one.
//!
//! Each link is a file of its own, which appears as a whole or not at all, before the log says that
//! the epoch has begun. So a log never names a configuration of which a link is missing, and
//! cutting the log takes nothing of the chain. A link of which the log does not know yet was
//! written just before a crash: it goes, since the epoch that ends with it has not ended here.

use crate::disk::{DiskError, Folder, read_all, remove_unfinished, write_whole};
use crate::error::StorageError;
use bytes::Bytes;
use pentarchy_core::configuration::Configuration;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::GroupId;
use pentarchy_core::limits::LINK_BYTES_MAX;
use pentarchy_core::membership::Membership;
use pentarchy_core::wire::{Malformed, Reader, Wire as _, Writer};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The folder of the proofs by which configurations ended in a data folder.
pub const CHAIN: &str = "chain";

/// How an epoch began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EpochStart {
    /// The epoch.
    pub membership: Arc<Membership>,
    /// How the one before ended, unless it was the first under its configuration.
    pub proof: Option<Proof>,
    /// How the configurations ended that this replica has left since the epoch that was kept last,
    /// oldest first.
    pub links: Vec<Proof>,
}

impl EpochStart {
    /// Under the configuration of the epoch before, or the first epoch of all.
    #[must_use]
    pub const fn within(membership: Arc<Membership>, proof: Option<Proof>) -> Self {
        Self { membership, proof, links: Vec::new() }
    }
}

/// What a link begins with.
const MAGIC: &[u8; 8] = b"PENTLINK";
/// The version of the format, behind the magic.
const VERSION: u32 = 1;
/// Of the magic, the version, the group, the number and the length of the proof.
const HEAD_BYTES: usize = 8 + 4 + 16 + 8 + 4;
/// Of the check at the end.
const CHECK_BYTES: usize = 32;
/// Ending of a link's name.
const ENDING: &str = ".link";

/// The proofs in a folder of the chain, from the first one on, as far as none is missing. A log
/// may know less of them.
///
/// # Errors
/// [`StorageError`], also if they are another group's.
pub fn read_chain(folder: Box<dyn Folder>, group: GroupId) -> Result<Vec<Proof>, StorageError> {
    let links = Links { folder, group };
    let names: BTreeSet<String> = links.folder.list()?.into_iter().collect();
    let there = (1..).take_while(|number| names.contains(&name_of(*number)));
    there.map(|number| links.read(number, &names)).collect()
}

/// The folder of the chain.
pub(super) struct Links {
    folder: Box<dyn Folder>,
    group: GroupId,
}

impl Links {
    /// Of a replica that begins with nothing: links of an attempt that came to no log go.
    pub(super) fn create(folder: Box<dyn Folder>, group: GroupId) -> Result<Self, StorageError> {
        let mut links = Self { folder, group };
        links.remove_above(0)?;
        Ok(links)
    }

    /// Reads the chain up to the configuration in which the log is.
    pub(super) fn open(
        folder: Box<dyn Folder>,
        present: &Membership,
    ) -> Result<(Self, Vec<Proof>), StorageError> {
        let last = present.stated.as_ref().map_or(0, |stated| stated.number);
        let mut links = Self { folder, group: present.group };
        let names: BTreeSet<String> = links.folder.list()?.into_iter().collect();
        let chain = (1..=last).map(|number| links.read(number, &names));
        let chain = chain.collect::<Result<Vec<_>, _>>()?;
        let named = chain.last().and_then(|link| link.handover.next);
        if named.is_some_and(|named| named != present.configuration) {
            let what = "the configuration with which it ends is not the one in the log".to_owned();
            return Err(StorageError::Foreign { file: name_of(last), what });
        }
        links.remove_above(last)?;
        Ok((links, chain))
    }

    /// Keeps the links with which an epoch begins, durably, if it begins with any.
    pub(super) fn keep(&mut self, start: &EpochStart) -> Result<(), StorageError> {
        start.links.iter().try_for_each(|link| self.write(link))
    }

    fn write(&mut self, link: &Proof) -> Result<(), StorageError> {
        let number = number_of(link);
        let sealed = seal(&self.group, number, link);
        let write = |file: &mut dyn crate::disk::File| file.write_at(&sealed, 0);
        write_whole::<DiskError>(&mut *self.folder, &name_of(number), write)?;
        Ok(())
    }

    fn read(&self, number: u64, names: &BTreeSet<String>) -> Result<Proof, StorageError> {
        let file = name_of(number);
        if !names.contains(&file) {
            let what = format!("{file}, the proof with which configuration {number} began,");
            return Err(StorageError::Missing { what });
        }
        let bytes = read_all(&*self.folder, &file, LINK_BYTES_MAX as u64)?;
        open(&file, (&self.group, number), &bytes.into())
    }

    /// Removes what an interrupted write left, and links to later configurations than this one.
    fn remove_above(&mut self, last: u64) -> Result<(), StorageError> {
        remove_unfinished(&mut *self.folder)?;
        let is_later = |name: &&String| number_in(name).is_some_and(|number| number > last);
        let later: Vec<String> = self.folder.list()?.iter().filter(is_later).cloned().collect();
        for name in &later {
            self.folder.remove(name)?;
        }
        if !later.is_empty() {
            self.folder.sync()?;
        }
        Ok(())
    }
}

fn name_of(number: u64) -> String {
    format!("{number:016x}{ENDING}")
}

fn number_in(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_suffix(ENDING)?, 16).ok()
}

/// The number of the configuration to which a link leads.
fn number_of(link: &Proof) -> u64 {
    link.next.as_ref().map_or(0, |next| next.number)
}

fn seal(group: &GroupId, number: u64, link: &Proof) -> Vec<u8> {
    let proof = link.to_bytes();
    let mut to = Writer::default();
    to.array(MAGIC);
    to.u32(VERSION);
    group.encode(&mut to);
    to.u64(number);
    to.u32(proof.len() as u32);
    to.array(&proof);
    let mut bytes = to.into_vec();
    let check = Digest::of(&bytes);
    bytes.extend(check.0);
    bytes
}

fn open(file: &str, of: (&GroupId, u64), bytes: &Bytes) -> Result<Proof, StorageError> {
    let corrupt = |offset: usize, what: &str| StorageError::Corrupt {
        file: file.to_owned(),
        offset: offset as u64,
        what: what.to_owned(),
    };
    let (magic, version) = (bytes.get(..8), bytes.get(8..12));
    if magic != Some(&MAGIC[..]) {
        return Err(corrupt(0, "it does not begin like a link of a chain"));
    }
    let version = version.and_then(|it| it.try_into().ok()).map(u32::from_le_bytes);
    if let Some(found) = version.filter(|found| *found != VERSION) {
        return Err(StorageError::Version { file: file.to_owned(), found, known: VERSION });
    }
    let body = bytes.len().saturating_sub(CHECK_BYTES);
    let is_intact = body >= HEAD_BYTES && bytes[body..] == Digest::of(&bytes[..body]).0;
    if !is_intact {
        return Err(corrupt(body, "its check is not that of what it holds"));
    }
    let foreign = |what: &str| StorageError::Foreign { file: file.into(), what: what.into() };
    let content = bytes.slice(12..body);
    let read = |mut from: Reader<'_>| {
        let (group, number) = (GroupId::decode(&mut from)?, from.u64()?);
        let length = from.u32()? as usize;
        let proof = Proof::decode(&mut from)?;
        from.finish()?;
        (length == body - HEAD_BYTES).then_some((group, number, proof)).ok_or(Malformed)
    };
    let (group, number, proof) = read(Reader::new(&content))
        .map_err(|Malformed| corrupt(HEAD_BYTES, "it is no proof of how an epoch ended"))?;
    if group != *of.0 {
        return Err(foreign("it belongs to another group"));
    }
    if number != of.1 || !leads_to(&proof, number, of.0) {
        return Err(foreign("it leads to another configuration than its name says"));
    }
    Ok(proof)
}

/// Whether the proof's configuration is the one that it names, has this number, and is this
/// group's.
fn leads_to(link: &Proof, number: u64, group: &GroupId) -> bool {
    let is_it = |next: &Configuration| {
        next.number == number
            && next.group == *group
            && Some(next.digest()) == link.handover.next
            && next.members.len() == link.handover.lives.len()
            && next.check().is_ok()
    };
    link.next.as_deref().is_some_and(is_it)
}
