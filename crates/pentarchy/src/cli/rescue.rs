//! Writing down what a survivor of a lost group has, which may be the only copy there is: the
//! replica's process ends when that is in a file, and not before.

use pentarchy::config::ConfigError;
use pentarchy::files::write_whole;
use pentarchy_console::complain;
use pentarchy_replica::{Rescue, Rescued};
use pentarchy_storage::backup::Backup;
use pentarchy_storage::identity::Identity;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long one question waits for the replica. What comes later is there for the next one.
const ASK_LIMIT: Duration = Duration::from_secs(60);

/// Between two attempts to write the file.
const RETRY: Duration = Duration::from_secs(10);

/// How often a signal is noticed in between.
const LOOK: Duration = Duration::from_millis(100);

/// Files of one name in one folder, with what comes of earlier rescues.
const NAMES_MAX: u32 = 100;

/// Where a state is written, and whose it is.
pub struct Rescuer {
    /// Tried in this order.
    pub folders: Vec<PathBuf>,
    pub identity: Identity,
}

impl Rescuer {
    /// Asks the replica once, and tries until its state is written or the process is to stop.
    pub fn save(&self, rescue: &Rescue, asked: &AtomicBool, stop: &Receiver<()>) -> Saving {
        let rescued = match rescue.ask(ASK_LIMIT) {
            Ok(rescued) => rescued,
            Err(why) => {
                complain(&format!("nothing is rescued: {why}"));
                return Saving::Refused;
            }
        };
        let (slot, decided) = (rescued.snapshot.slot.0, rescued.decided.0);
        let Rescued { snapshot, .. } = rescued;
        let bytes = Backup { identity: self.identity, snapshot }.to_bytes();
        loop {
            match self.write(slot, &bytes) {
                Ok(path) => {
                    complain(&said(&path, slot, decided));
                    return Saving::Done;
                }
                Err(why) => complain(&format!(
                    "CANNOT SAVE what this replica has, perhaps the only copy: {why}. The process \
                     keeps it and tries again every {} s, and at once on SIGUSR1; do not stop it",
                    RETRY.as_secs()
                )),
            }
            if !pause(asked, stop) {
                complain("the replica was told to stop, and what it has is NOT saved");
                return Saving::Stopped;
            }
        }
    }

    /// Writes a file of a name that nobody has, in the first folder that takes it.
    fn write(&self, slot: u64, bytes: &[u8]) -> Result<PathBuf, String> {
        let mut problems = Vec::new();
        for folder in &self.folders {
            match write_in(folder, slot, bytes) {
                Ok(path) => return Ok(path),
                Err(error) => problems.push(error.to_string()),
            }
        }
        Err(problems.join("; "))
    }
}

/// What came of it.
#[derive(PartialEq, Eq, Debug)]
pub enum Saving {
    /// The state is in a file.
    Done,
    /// The replica gives nothing away, and works on.
    Refused,
    /// There was a signal to stop, and nothing is saved.
    Stopped,
}

/// Waits for the next attempt; false if the process is to stop.
fn pause(asked: &AtomicBool, stop: &Receiver<()>) -> bool {
    let until = Instant::now() + RETRY;
    while Instant::now() < until && !asked.swap(false, Ordering::Relaxed) {
        if stop.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
            return false;
        }
    }
    true
}

fn write_in(folder: &Path, slot: u64, bytes: &[u8]) -> Result<PathBuf, ConfigError> {
    let mut number = 1;
    loop {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let name = format!("rescued-slot-{slot}-may-lack-acknowledged-writes{suffix}.backup");
        let path = folder.join(name);
        match write_whole(&path, 0o600, bytes) {
            Ok(()) => return Ok(path),
            Err(_) if path.exists() && number < NAMES_MAX => number += 1,
            Err(error) => return Err(error),
        }
    }
}

fn said(path: &Path, slot: u64, decided: u64) -> String {
    let speculated = if decided < slot {
        format!(
            " It executed what is behind slot {decided} speculatively: other replicas may have \
             executed something else there."
        )
    } else {
        String::new()
    };
    format!(
        "saved all that this replica has executed in {}. It MAY LACK ACKNOWLEDGED WRITES: \
         operations that only the lost replicas executed are missing.{speculated} Have the group \
         go on from this file: pentarchy members rescue",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::{GroupId, Incarnation, ReplicaId};

    fn rescuer(folders: &[&Path]) -> Rescuer {
        let (group, replica) = (GroupId([7; 16]), ReplicaId(2));
        let identity = Identity { group, replica, incarnation: Incarnation(1) };
        Rescuer { folders: folders.iter().map(|folder| folder.to_path_buf()).collect(), identity }
    }

    #[test]
    fn a_name_that_is_taken_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let rescuer = rescuer(&[folder.path()]);
        let first = rescuer.write(9, b"old").expect("it is written");
        let second = rescuer.write(9, b"new").expect("under another name");
        assert_eq!(std::fs::read(first).expect("it is there"), b"old");
        assert_eq!(std::fs::read(&second).expect("it is there"), b"new");
        assert!(second.to_string_lossy().ends_with("-acknowledged-writes-2.backup"));
    }

    #[test]
    fn a_folder_that_takes_no_file_is_passed_over() {
        let parent = tempfile::tempdir().expect("a folder");
        let (keys, data) = (parent.path().join("keys"), parent.path().join("data"));
        std::fs::write(&keys, "a file where the folder should be").expect("ours");
        let rescuer = rescuer(&[&keys, &data]);
        let why = rescuer.write(9, b"state").expect_err("there is no folder");
        assert!(why.contains("keys") && why.contains("data"), "{why}");
        std::fs::create_dir(&data).expect("ours");
        assert!(rescuer.write(9, b"state").expect("it is written").starts_with(&data));
    }

    #[test]
    fn what_was_only_speculated_is_named() {
        assert!(said(Path::new("file"), 9, 7).contains("behind slot 7 speculatively"));
        assert!(!said(Path::new("file"), 9, 9).contains("speculated"));
    }
}
