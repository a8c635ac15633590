//! What survives: a log and snapshots in a folder of one replica, on a disk that may fail.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`backup`] | one state in one file |
//! | [`disk`] | files and folders as everything here sees them; every operation can fail |
//! | [`forgetful`] | one in front of it, for trials: what was not synced dies with the process |
//! | [`quota`] | another one, for trials: a disk that fills up |
//! | [`folder`] | those of the operating system, locked against a second process |
//! | [`identity`] | whose files these are |
//! | [`kept`] | what a replica keeps, in both, and a thread that writes it |
//! | [`log`] | the append-only log: group commit, and a recovery that tells torn from corrupt |
//! | [`snapshots`] | checkpoints as chunks, of which only new ones are written |
//! | [`temp_blobs`] | content of states that is not in those yet, and not in memory |
//!
//! Formats: `docs/log.md` and `docs/snapshot.md`. The simulator has a disk that tears, loses and
//! fails, under the same traits.

#![forbid(unsafe_code)]

pub mod backup;
mod block;
pub mod disk;
pub mod error;
pub mod folder;
pub mod forgetful;
pub mod identity;
pub mod kept;
pub mod log;
pub mod quota;
pub mod snapshots;
mod summing;
pub mod temp_blobs;
