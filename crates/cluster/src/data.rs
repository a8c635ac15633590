//! The data folder of a replica: what it needs to go on as whom it was.
//!
//! | name | what |
//! | --- | --- |
//! | `lock` | locked by the process that uses the folder |
//! | `device` | the identity of the trusted device, in the life to which the rest belongs |
//! | `protocol` | the name of the protocol with which this replica began |
//! | `log/`, `snapshots/` | `docs/log.md`, `docs/snapshot.md` |
//! | `states/` | as `snapshots/`, with durability `async`: of no life, and with nothing beside it |
//!
//! The identity appears under its name once the log exists, and the device certifies nothing
//! before: where it is without a log, somebody removed one.

use crate::config::ClusterConfig;
use crate::error::ConfigError;
use crate::files::{read_bounded, write_whole};
use pentarchy_core::ids::{GroupId, Incarnation, ReplicaId};
use pentarchy_core::limits::PROTOCOL_NAME_BYTES_MAX;
use pentarchy_core::membership::{Member, Membership};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_crypto::keys::random_secret;
use pentarchy_crypto::secret_file::{Problem, sync_directory_of};
use pentarchy_replica::{States, Storage};
use pentarchy_storage::disk::{DiskError, Folder};
use pentarchy_storage::error::StorageError;
use pentarchy_storage::folder::OsFolder;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::kept::{CHAIN, EpochStart, Kept, LOG, SNAPSHOTS, read_chain};
use pentarchy_storage::log::Options;
use pentarchy_storage::snapshots::Snapshots;
use pentarchy_storage::temp_blobs::{SPOOL, TempBlobs};
use pentarchy_trusted::DeviceIdentity;
use pentarchy_trusted::identity::TakeError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a replica keeps what it says, beside its keys, unless another folder is named.
pub const DATA_FOLDER: &str = "data";

/// The identity of the device whose life the folder belongs to.
pub(crate) const DEVICE: &str = "device";
/// The same, before the log exists.
const NEXT_DEVICE: &str = "device.next";

/// The protocol's name.
const PROTOCOL: &str = "protocol";
/// A name, with the end of its line.
const PROTOCOL_BYTES_MAX: u64 = PROTOCOL_NAME_BYTES_MAX as u64 + 1;

/// The folder of states for the next life.
pub const STATES: &str = "states";
/// To whom they belong, whatever life saved them.
const OF_NO_LIFE: Incarnation = Incarnation(0);

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The files are damaged, somebody else's, or the disk fails.
    #[error("data folder {}: {problem}", folder.display())]
    Storage {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        problem: StorageError,
    },
    /// There is a log, and nothing says to which life of the device it belongs.
    #[error(
        "data folder {}: the file `device` is missing, and there is a log. Keep the folder for \
         inspection, and start this replica with an empty one: it comes back as a new incarnation \
         and fetches the group's state", .0.display()
    )]
    NoDevice(PathBuf),
    /// A state is to be put where something was before.
    #[error(
        "data folder {}: this replica has been started before, or its keys have no device that is \
         unused. Restore into an empty folder, with keys that `pentarchy init` or `pentarchy \
         members prepare` has just made. Where others have begun with the state, this replica \
         fetches it from them when it is started",
        .0.display()
    )]
    Used(PathBuf),
    /// The group was begun with another protocol: what the log says would mean something else, or
    /// nothing.
    #[error(
        "data folder {}: this replica began with {found}, and cluster.toml says {asked}. Leave \
         it as it was: a running group switches by `pentarchy reconfigure --protocol {asked}`, \
         and its replicas keep that in their data folders",
        folder.display()
    )]
    Protocol {
        /// The folder.
        folder: PathBuf,
        /// Which protocol wrote it.
        found: String,
        /// Which one is to go on.
        asked: String,
    },
    /// Nothing says which protocol wrote the log.
    #[error(
        "data folder {}: the file `protocol` is {what}, and there is a log. Write the name of the \
         protocol there that the group was begun with ({asked}, if nobody changed cluster.toml), \
         or keep the folder for inspection and start this replica with an empty one",
        folder.display()
    )]
    NoProtocol {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with the file.
        what: &'static str,
        /// What the configuration says.
        asked: String,
    },
    /// The device's identity is damaged. A copy of it from before would promise things twice.
    #[error(
        "data folder {}: {problem}. Do not put a copy of it back: keep the folder for inspection, \
         and start this replica with an empty one: it comes back as a new incarnation and fetches \
         the group's state",
        folder.display()
    )]
    Device {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The proofs that are kept here are of another group than the configuration's.
    #[error(
        "data folder {}: it is of another group than cluster.toml describes: {problem}",
        folder.display()
    )]
    OtherGroup {
        /// The folder.
        folder: PathBuf,
        /// Where the proofs stop leading on.
        problem: String,
    },
    /// The protocol's name cannot be read or written.
    #[error(transparent)]
    Name(#[from] ConfigError),
    /// The device's identity cannot be taken, read or written.
    #[error(transparent)]
    Identity(#[from] TakeError),
    /// The folder cannot be written.
    #[error("data folder {}: {problem}", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        problem: std::io::Error,
    },
}

/// An open data folder, which no other process can open.
pub struct DataFolder {
    path: PathBuf,
    files: Box<dyn Folder>,
    only_states: bool,
    cold_state: bool,
}

impl DataFolder {
    /// Whether a replica has kept what it said in this folder. Makes nothing there.
    #[must_use]
    pub fn is_used(path: &Path) -> bool {
        [PROTOCOL, DEVICE].iter().all(|name| path.join(name).exists())
    }

    /// Opens a folder for this process alone, and makes it if it does not exist.
    ///
    /// # Errors
    /// [`DataError`]
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let files = OsFolder::open(path).map_err(|error| storage(path, error.into()))?;
        let (path, files) = (path.to_owned(), Box::new(files));
        Ok(Self { path, files, only_states: false, cold_state: false })
    }

    /// Keeps log and snapshots in a folder in front of this one that is made to fail.
    ///
    /// # Errors
    /// [`DataError`]
    pub fn with_files(
        self,
        wrap: impl FnOnce(Box<dyn Folder>) -> Result<Box<dyn Folder>, DiskError>,
    ) -> Result<Self, DataError> {
        let files = wrap(self.files).map_err(|error| storage(&self.path, error.into()))?;
        Ok(Self { files, ..self })
    }

    /// The same folder, in which nothing is kept but states for the next life.
    #[must_use]
    pub fn only_states(self) -> Self {
        Self { only_states: true, ..self }
    }

    /// The same folder, whose states have their content in its files only, and not in memory.
    #[must_use]
    pub fn with_cold_state(self, cold_state: bool) -> Self {
        Self { cold_state, ..self }
    }

    /// Where states are before they are in files, if they are not to be in memory.
    ///
    /// # Errors
    /// [`DataError`]
    pub fn spool(&mut self) -> Result<Option<Arc<TempBlobs>>, DataError> {
        if !self.cold_state {
            return Ok(None);
        }
        let spool = self.files.folder(SPOOL).and_then(TempBlobs::open);
        let spool = spool.map_err(|error| storage(&self.path, error.into()))?;
        Ok(Some(Arc::new(spool)))
    }

    fn options(&self, config: &ClusterConfig) -> Options {
        let (bytes_max, cold_states) = (config.log_mib << 20, self.cold_state);
        Options { bytes_max, cold_states, ..Options::new(*random_secret()) }
    }

    /// Whether nothing is kept here but states for the next life.
    #[must_use]
    pub const fn keeps_only_states(&self) -> bool {
        self.only_states
    }

    /// The states that are here. Those that are damaged, or cannot be read, are passed over.
    ///
    /// # Errors
    /// [`DataError`], also if they are another replica's or group's.
    pub fn states(mut self, config: &ClusterConfig, id: u16) -> Result<States, DataError> {
        let member = &config.membership().members[usize::from(id)];
        let owner = Identity { incarnation: OF_NO_LIFE, ..identity_of(config.group, member) };
        let opened = self.files.folder(STATES).map_err(StorageError::from);
        let opened = opened.and_then(|folder| Snapshots::open(folder, owner));
        let (snapshots, _) = opened.map_err(|error| storage(&self.path, error))?;
        let mut snapshots = if self.cold_state { snapshots.keep_cold() } else { snapshots };
        let newest = snapshots.newest().and_then(|slot| snapshots.load(slot, None).ok());
        Ok(States { snapshots, newest, spool: self.spool()? })
    }

    /// Goes on from what is here; with an empty folder, begins to keep things. In the second case
    /// the life in the folder of `keys` is used up, or, if it was before, another one begins, for
    /// which the replica asks the group.
    ///
    /// # Errors
    /// [`DataError`]; the replica must not go on as whom it was.
    pub fn take(
        mut self,
        config: &ClusterConfig,
        id: u16,
        keys: &Path,
    ) -> Result<(DeviceIdentity, Storage), DataError> {
        let first = Arc::new(config.membership());
        let member = &first.members[usize::from(id)];
        let device = self.path.join(DEVICE);
        if device.exists() {
            // One that joined goes by the proofs that are here, and not by a file for editing.
            if config.later.is_none() {
                self.check_protocol(&config.protocol)?;
            }
            return self.resume(config, &device, &first, id);
        }
        let next = self.path.join(NEXT_DEVICE);
        let identity = if next.exists() {
            self.load_own(&next)?
        } else {
            self.refuse_leftovers()?;
            let identity = new_life(config, keys, member)?;
            identity.save(&next).map_err(TakeError::File)?;
            identity
        };
        // Of an attempt that did not come to a log.
        let _ = std::fs::remove_file(self.path.join(PROTOCOL));
        write_whole(&self.path.join(PROTOCOL), 0o600, config.protocol.as_bytes())?;
        let owner = owner(&first, id, &identity);
        let links = config.later.as_ref().map_or_else(Vec::new, |later| later.links.clone());
        let is_joined = !links.is_empty();
        let start = EpochStart { membership: first.clone(), proof: None, links };
        let options = self.options(config);
        let kept = Kept::create_in(&mut *self.files, owner, start, options);
        let kept = kept.map_err(|error| storage(&self.path, error))?;
        let spool = self.spool()?;
        std::fs::rename(&next, &device)
            .and_then(|()| sync_directory_of(&device))
            .map_err(|problem| DataError::Io { folder: self.path.clone(), problem })?;
        if is_joined {
            // It lacks the state with which its epoch began, like one whose states are damaged.
            drop(kept);
            let options = self.options(config);
            let opened = Kept::open(&mut *self.files, owner, &first, options);
            let (kept, past) = opened.map_err(|problem| storage(&self.path, problem))?;
            return Ok((identity, Storage { kept, past: Some(past), spool }));
        }
        Ok((identity, Storage { kept, past: None, spool }))
    }

    /// The group in the last configuration of which this folder has a proof. A replica that joined
    /// goes by that when it is started again: its `cluster.toml` does not name it.
    ///
    /// # Errors
    /// [`DataError`], also if the proofs are another group's.
    pub fn known(&mut self, config: &ClusterConfig) -> Result<ClusterConfig, DataError> {
        let links = self.files.folder(CHAIN).map_err(StorageError::from);
        let links = links.and_then(|folder| read_chain(folder, config.group));
        let links = links.map_err(|error| storage(&self.path, error))?;
        config.follow(&links).map_err(|error| {
            let (folder, problem) = (self.path.clone(), error.to_string());
            DataError::OtherGroup { folder, problem }
        })
    }

    /// A log says something else, or nothing, to another protocol than the one that wrote it.
    fn check_protocol(&self, asked: &str) -> Result<(), DataError> {
        let path = self.path.join(PROTOCOL);
        let (folder, asked) = (self.path.clone(), asked.to_owned());
        if !path.exists() {
            return Err(DataError::NoProtocol { folder, what: "missing", asked });
        }
        let found = read_bounded(&path, PROTOCOL_BYTES_MAX)?;
        if found.trim().is_empty() {
            return Err(DataError::NoProtocol { folder, what: "empty", asked });
        }
        // Whoever writes it by hand ends the line.
        match found.trim() {
            found if found == asked => Ok(()),
            found => Err(DataError::Protocol { folder, found: found.to_owned(), asked }),
        }
    }

    /// Prepares an empty folder, so that the replica begins with this state. It is to be the state
    /// of all replicas of a group that has not begun: nobody vouches for it but they.
    ///
    /// # Errors
    /// [`DataError`], also if the folder or the life that was made with the keys was used.
    pub fn begin_with(
        self,
        config: &ClusterConfig,
        id: u16,
        keys: &Path,
        snapshot: &Snapshot,
    ) -> Result<(), DataError> {
        let path = self.path.clone();
        let used = || DataError::Used(path.clone());
        if path.join(DEVICE).exists()
            || path.join(NEXT_DEVICE).exists()
            || !is_new(config, id, keys)
        {
            return Err(used());
        }
        let (_, Storage { mut kept, .. }) = self.take(config, id, keys)?;
        kept.save(snapshot).map_err(|error| storage(&path, error))
    }

    fn resume(
        mut self,
        config: &ClusterConfig,
        device: &Path,
        first: &Arc<Membership>,
        me: u16,
    ) -> Result<(DeviceIdentity, Storage), DataError> {
        let identity = self.load_own(device)?;
        let owner = owner(first, me, &identity);
        let options = self.options(config);
        let opened = Kept::open(&mut *self.files, owner, first, options);
        let (kept, past) = opened.map_err(|error| storage(&self.path, error))?;
        let spool = self.spool()?;
        Ok((identity, Storage { kept, past: Some(past), spool }))
    }

    /// The device's identity in this folder.
    fn load_own(&self, device: &Path) -> Result<DeviceIdentity, DataError> {
        DeviceIdentity::load(device).map_err(|error| match error.problem {
            Problem::Malformed(_) => {
                let problem = format!("the file {} is damaged", device.display());
                DataError::Device { folder: self.path.clone(), problem }
            }
            _ => DataError::Identity(TakeError::File(error)),
        })
    }

    /// Before an identity is used up for nothing.
    fn refuse_leftovers(&mut self) -> Result<(), DataError> {
        for name in [LOG, SNAPSHOTS, CHAIN] {
            let files = self.files.folder(name).and_then(|folder| folder.list());
            let files = files.map_err(|error| storage(&self.path, error.into()))?;
            if !files.is_empty() {
                return Err(DataError::NoDevice(self.path.clone()));
            }
        }
        Ok(())
    }
}

/// Whether the life that was made with the keys is unused.
fn is_new(config: &ClusterConfig, id: u16, keys: &Path) -> bool {
    let member = &config.membership().members[usize::from(id)];
    load(&keys.join(DEVICE)).is_ok_and(|device| device.incarnation() == member.incarnation)
}

/// Whose files these are.
fn owner(group: &Membership, place: u16, device: &DeviceIdentity) -> Identity {
    let member = &group.members[usize::from(place)];
    Identity { incarnation: device.incarnation(), ..identity_of(group.group, member) }
}

/// Of a member's files, in whatever place it is: its number, which is its place in the group that
/// it began with.
#[must_use]
pub fn identity_of(group: GroupId, member: &Member) -> Identity {
    let replica = ReplicaId(u16::try_from(member.id.0).unwrap_or(u16::MAX));
    Identity { group, replica, incarnation: member.incarnation }
}

/// The life that was made with the keys, or, if it is used up, another one. In a group that
/// tolerates no fault nobody is left to admit that.
pub(crate) fn new_life(
    config: &ClusterConfig,
    keys: &Path,
    member: &Member,
) -> Result<DeviceIdentity, TakeError> {
    match DeviceIdentity::take(&keys.join(DEVICE), member) {
        Err(TakeError::Used(_)) if config.f > 0 => Ok(DeviceIdentity::next_life(member)),
        taken => taken,
    }
}

fn load(path: &Path) -> Result<DeviceIdentity, TakeError> {
    DeviceIdentity::load(path).map_err(TakeError::File)
}

fn storage(folder: &Path, problem: StorageError) -> DataError {
    DataError::Storage { folder: folder.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_that_was_written_by_hand_is_read_without_its_line_s_end() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("data");
        let folder = DataFolder::open(&path).expect("a new folder");
        for (found, is_it) in [("this", true), ("this\n", true), ("that\r\n", false)] {
            std::fs::write(path.join(PROTOCOL), found).expect("ours");
            assert_eq!(folder.check_protocol("this").is_ok(), is_it, "{found:?}");
        }
        let refusal = folder.check_protocol("this").expect_err("another one").to_string();
        assert!(refusal.contains("began with that, and"), "{refusal}");
    }
}
