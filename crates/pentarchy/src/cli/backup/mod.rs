//! `snapshot` and `log`: what a replica has on disk, to be looked at, checked and taken away.

pub mod args;
mod log;
mod offline;
mod save;
mod snapshot;
mod state;

pub use log::run as run_log;
pub use save::utc;
pub use snapshot::{load, run as run_snapshot};

use state::newest;

use super::barrier::Head;
use pentarchy::data::STATES;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use pentarchy_core::membership::Base;
use pentarchy_storage::backup::Backup;
use pentarchy_storage::disk::Folder;
use pentarchy_storage::folder::OsFolder;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::kept::{LOG, Newest, SNAPSHOTS};
use pentarchy_storage::log::{VERSION, format};
use pentarchy_storage::snapshots::Snapshots;
use serde::Serialize;
use std::fmt::Display;
use std::path::Path;

/// A folder in a data folder, to be looked at.
fn look_into(data: &Path, name: &str) -> Outcome<Box<dyn Folder>> {
    let folder = OsFolder::read_only(&data.join(name));
    let folder = folder.map_err(|error| {
        Failure::Usage(format!("{error}; is {} a replica's data folder?", data.display()))
    })?;
    Ok(Box::new(folder))
}

/// Whether a data folder holds states and nothing else, as with durability `async`.
fn has_only_states(data: &Path) -> bool {
    !data.join(SNAPSHOTS).exists() && data.join(STATES).exists()
}

/// The folder of states in a data folder: with durability `async` it has another name.
fn look_into_states(data: &Path) -> Outcome<Box<dyn Folder>> {
    look_into(data, if has_only_states(data) { STATES } else { SNAPSHOTS })
}

/// The newest state beside the log of a replica that has stopped, also if an older version of this
/// program wrote it.
fn newest_beside_log(data: &Path) -> Outcome<Newest> {
    let unwell = |what: &dyn Display| Failure::Unwell(format!("{}: {what}", data.display()));
    let log = look_into(data, LOG).ok();
    let newest = Newest::find(look_into_states(data)?, log.as_deref());
    newest.map_err(|error| unwell(&error))?.ok_or_else(|| unwell(&"there is no state yet"))
}

/// The slot of the newest state in the folder of a replica that has stopped; none if there is none
/// that can be read.
pub fn newest_slot(data: &Path) -> Option<u64> {
    if has_only_states(data) {
        let (states, _) = Snapshots::read(look_into_states(data).ok()?, None).ok()?;
        return states.newest().map(|slot| slot.0);
    }
    newest_beside_log(data).ok().map(|newest| newest.state.slot.0)
}

/// The newest state in the folder of a replica that has stopped, and whose it is.
pub fn newest_end(data: &Path) -> Outcome<(Identity, Base)> {
    if has_only_states(data) {
        let Backup { identity, snapshot } = newest(data)?;
        return Ok((identity, Base { slot: snapshot.slot, state: snapshot.digest }));
    }
    newest_beside_log(data).map(|newest| (newest.identity, newest.state))
}

/// Whether the folder has a log of this program's format.
pub fn has_log_of_this_format(data: &Path) -> bool {
    let format = look_into(data, LOG).map(|log| format(&*log));
    matches!(format, Ok(Ok(Some(VERSION))))
}

/// The group's time after the newest state in the folder of a replica that has stopped, in words;
/// none if that cannot be read.
pub fn newest_time(data: &Path) -> Option<String> {
    let head = match has_only_states(data) {
        true => Head::of_tree(&newest(data).ok()?.snapshot.tree),
        false => Head::of(&newest_beside_log(data).ok()?).ok()?,
    };
    head.time().map(save::utc)
}

/// Prints as JSON, or as these lines.
fn print(json: bool, value: &impl Serialize, lines: impl FnOnce() -> String) {
    match json {
        true => say(&serde_json::to_string(value).unwrap_or_default()),
        false => say(&lines()),
    }
}
