//! `snapshot` and `log`: what a replica has on disk, to be looked at, checked and taken away.

pub mod args;
mod log;
mod snapshot;

pub use log::run as run_log;
pub use snapshot::run as run_snapshot;

use super::failure::{Failure, Outcome};
use super::say;
use pentarchy_storage::disk::Folder;
use pentarchy_storage::folder::OsFolder;
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

/// Prints as JSON, or as these lines.
fn print(json: bool, value: &impl Serialize, lines: impl FnOnce() -> String) {
    match json {
        true => say(&serde_json::to_string(value).unwrap_or_default()),
        false => say(&lines()),
    }
}
