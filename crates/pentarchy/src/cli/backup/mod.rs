//! `snapshot` and `log`: what a replica has on disk, to be looked at, checked and taken away.

pub mod args;
mod log;
mod offline;
mod save;
mod snapshot;
mod state;

pub use log::run as run_log;
pub use snapshot::{load, run as run_snapshot};

use state::newest;

use super::barrier::Head;
use pentarchy::data::STATES;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use pentarchy_storage::disk::Folder;
use pentarchy_storage::folder::OsFolder;
use pentarchy_storage::kept::{LOG, Newest, SNAPSHOTS};
use pentarchy_storage::snapshots::Snapshots;
use serde::Serialize;
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

/// The slot of the newest state in the folder of a replica that has stopped; none if there is none
/// that can be read.
pub fn newest_slot(data: &Path) -> Option<u64> {
    if has_only_states(data) {
        let (states, _) = Snapshots::read(look_into_states(data).ok()?, None).ok()?;
        return states.newest().map(|slot| slot.0);
    }
    let log = look_into(data, LOG).ok();
    let newest = Newest::find(look_into_states(data).ok()?, log.as_deref()).ok()??;
    Some(newest.state.slot.0)
}

/// The group's time after the newest state in the folder of a replica that has stopped, in words;
/// none if that cannot be read.
pub fn newest_time(data: &Path) -> Option<String> {
    let head = if has_only_states(data) {
        Head::of_tree(&newest(data).ok()?.snapshot.tree)
    } else {
        let log = look_into(data, LOG).ok();
        let newest = Newest::find(look_into_states(data).ok()?, log.as_deref()).ok()??;
        Head::of(&newest).ok()?
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
