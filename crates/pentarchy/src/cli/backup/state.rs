//! The states in a data folder, and how they are named.

use super::{has_only_states, look_into, look_into_states};
use pentarchy_console::complain;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Node;
use pentarchy_storage::backup::{Backup, Described};
use pentarchy_storage::disk::Folder;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::kept::{LOG, newest_state};
use pentarchy_storage::snapshots::Snapshots;
use serde::Serialize;
use std::path::Path;

/// Times that a folder is read whose replica removes what is being read.
const TRIES: usize = 20;

/// What is read or written of a backup at a time.
pub const WRITE_BYTES: usize = 1 << 20;

/// A state, for people and programs.
#[derive(Serialize)]
pub struct State {
    slot: u64,
    state: String,
    group: String,
    replica: u16,
    sections: u32,
    bytes: u64,
}

impl State {
    pub fn of(identity: &Identity, snapshot: &Snapshot) -> Self {
        let tree = &snapshot.tree;
        Self {
            slot: snapshot.slot.0,
            state: hex::encode(snapshot.digest.0),
            group: hex::encode(identity.group.0),
            replica: identity.replica.0,
            sections: tree.leaves(),
            bytes: tree.top().map_or(0, Node::bytes),
        }
    }

    /// The same of what was read piece by piece.
    pub fn of_described(described: &Described) -> Self {
        let Described { identity, slot, digest, sections, bytes } = described;
        Self {
            slot: slot.0,
            state: hex::encode(digest.0),
            group: hex::encode(identity.group.0),
            replica: identity.replica.0,
            sections: *sections,
            bytes: *bytes,
        }
    }

    /// The slot after which it is the state.
    pub const fn slot(&self) -> u64 {
        self.slot
    }

    pub fn text(&self) -> String {
        let Self { slot, state, group, replica, sections, bytes } = self;
        format!(
            "state of slot {slot}, {state}, {bytes} bytes in {sections} sections, of replica \
             {replica} of group {group}"
        )
    }
}

/// Does something with the snapshots and the log of a data folder, which gives nothing if there is
/// no state yet. A replica that runs may remove files while they are read: then it has newer ones.
pub fn retried<T>(
    data: &Path,
    act: impl Fn(Box<dyn Folder>, Option<&dyn Folder>) -> Outcome<Result<Option<T>, StorageError>>,
) -> Outcome<T> {
    let mut problem = format!("{}: there is no state yet", data.display());
    for attempt in 1..=TRIES {
        let log = look_into(data, LOG).ok();
        // Without a log that can be read, what is in files is the newest.
        let log = log.as_deref().filter(|_| attempt < TRIES);
        match act(look_into_states(data)?, log)? {
            Ok(Some(done)) => {
                if attempt == TRIES {
                    complain(&format!(
                        "the log cannot be read ({problem}): this is an older state"
                    ));
                }
                return Ok(done);
            }
            Ok(None) => break,
            Err(error) => problem = error.to_string(),
        }
    }
    Err(Failure::Unwell(problem))
}

/// The newest of states that have no log beside them.
fn newest_of_states(files: Box<dyn Folder>) -> Result<Option<(Identity, Snapshot)>, StorageError> {
    let (mut states, _) = Snapshots::read(files, None)?;
    let identity = *states.identity();
    let newest = states.newest().map(|slot| states.load(slot, None)).transpose()?;
    Ok(newest.map(|snapshot| (identity, snapshot)))
}

/// The newest state in a data folder that can be read.
pub fn newest(data: &Path) -> Outcome<Backup> {
    let only_states = has_only_states(data);
    let (identity, snapshot) = retried(data, |files, log| {
        Ok(if only_states { newest_of_states(files) } else { newest_state(files, log) })
    })?;
    Ok(Backup { identity, snapshot })
}
