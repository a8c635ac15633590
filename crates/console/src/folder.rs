//! The data folder of `up`: known by a marker, held by a lock on the marker while a cluster runs in
//! it. Nothing is ever removed from a folder without the marker, and only what `up` made is
//! removed from one with it.

use crate::failure::{Failure, Outcome};
use pentarchy_cluster::{KeyPair, files};
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// `--data` unless told otherwise.
pub const DATA_DEFAULT: &str = "pentarchy-data";

const MARKER: &str = ".pentarchy";
const MARKER_TEXT: &[u8] =
    b"`pentarchy up` made this folder and replaces what it put here when it starts again.\n";

/// Who runs in a folder: `cluster.json`.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Running {
    /// The process that `down` stops.
    pub supervisor: u32,
    /// The protocol's name.
    pub protocol: String,
    /// Faults tolerated.
    pub f: usize,
    /// Where Redis clients connect.
    pub gateway: Part,
    /// The replicas, in the order in which they began.
    pub replicas: Vec<Part>,
}

/// One process of a cluster.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Part {
    /// What it is, for people.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// Where it listens.
    pub address: String,
    /// Where it serves metrics, if it does.
    #[serde(default)]
    pub metrics: Option<String>,
    /// Where its secrets and its log are.
    pub folder: PathBuf,
}

/// How a cluster that keeps something ended: `stopped.json`.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// The slot of the last checkpoint, which has all that was acknowledged; none if there is none.
    pub slot: Option<u64>,
    /// The group's time after that slot, in UTC.
    pub time: Option<String>,
    /// Why there is none.
    pub problem: Option<String>,
}

/// The option that names this folder to other commands; nothing if they look there anyway.
pub fn option(data: &Path) -> String {
    if data == Path::new(DATA_DEFAULT) {
        String::new()
    } else {
        format!(" --data {}", data.display())
    }
}

/// A folder that this process holds: no other `up` works in it.
pub struct Held {
    root: PathBuf,
    _marker: File,
}

impl Held {
    /// Makes the folder or takes over one that a stopped cluster left. True if it took one over.
    pub fn take(root: &Path) -> Outcome<(Self, bool)> {
        if !root.exists() {
            std::fs::create_dir_all(root.parent().unwrap_or(Path::new("."))).map_err(|error| {
                Failure::Usage(format!("cannot make the folder above {}: {error}", root.display()))
            })?;
            files::make_private_folder(root)?;
        }
        let empty = || std::fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_none());
        let fresh = empty();
        if fresh {
            files::write_new(&root.join(MARKER), 0o600, MARKER_TEXT)?;
        }
        let marker = File::open(root.join(MARKER)).map_err(|_| {
            Failure::Usage(format!(
                "{} was not made by `pentarchy up`; name another folder with --data",
                root.display()
            ))
        })?;
        match lock(&marker) {
            Ok(()) => Ok((Self { root: root.to_path_buf(), _marker: marker }, !fresh)),
            Err(TryLockError::WouldBlock) => Err(Failure::Usage(format!(
                "a cluster runs in {0}; stop it with: pentarchy down --data {0}",
                root.display()
            ))),
            Err(TryLockError::Error(error)) => {
                Err(Failure::Internal(format!("cannot lock {}: {error}", root.display())))
            }
        }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Removes what an earlier `up` left; nothing else.
    pub fn clear(&self) -> Outcome {
        let entries = std::fs::read_dir(&self.root).map_err(|error| self.cannot_clear(&error))?;
        for entry in entries {
            let entry = entry.map_err(|error| self.cannot_clear(&error))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let removed = if is_replica_folder(name) {
                std::fs::remove_dir_all(entry.path())
            } else if OWN_FILES.contains(&name) {
                std::fs::remove_file(entry.path())
            } else {
                Ok(())
            };
            removed.map_err(|error| self.cannot_clear(&error))?;
        }
        Ok(())
    }

    fn cannot_clear(&self, error: &std::io::Error) -> Failure {
        Failure::Usage(format!("cannot clear {}: {error}", self.root.display()))
    }

    /// Writes `cluster.json`, whole or not at all.
    pub fn announce(&self, running: &Running) -> Outcome {
        let write = || -> std::io::Result<()> {
            let draft = self.root.join("cluster.json.new");
            std::fs::write(&draft, serde_json::to_vec_pretty(running)?)?;
            std::fs::rename(draft, self.root.join(RUNNING))
        };
        write().map_err(|error| {
            Failure::Internal(format!("cannot write in {}: {error}", self.root.display()))
        })
    }

    /// Leaves word of how the cluster ended.
    pub fn leave(&self, stopped: &Stopped) -> Outcome {
        let path = self.root.join(STOPPED);
        let written = serde_json::to_vec_pretty(stopped).map_err(std::io::Error::from);
        written
            .and_then(|text| std::fs::write(&path, text))
            .map_err(|error| Failure::Internal(format!("cannot write {}: {error}", path.display())))
    }

    /// Removes the word of how an earlier cluster ended.
    pub fn begin(&self) -> Outcome {
        match std::fs::remove_file(self.root.join(STOPPED)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.cannot_clear(&error)),
            _ => Ok(()),
        }
    }

    /// Removes `cluster.json`: nothing runs here any more.
    pub fn retire(&self) {
        // A file that stays behind is harmless: without the lock it is not believed.
        let _ = std::fs::remove_file(self.root.join(RUNNING));
    }
}

/// Tries for a moment, because whoever looks at the folder also locks the marker for a moment.
fn lock(marker: &File) -> Result<(), TryLockError> {
    for _ in 0..20 {
        match marker.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            other => return other,
        }
    }
    marker.try_lock()
}

const RUNNING: &str = "cluster.json";
const STOPPED: &str = "stopped.json";
const OWN_FILES: [&str; 10] = [
    RUNNING,
    STOPPED,
    "cluster.json.new",
    "cluster.toml",
    "cluster.chain",
    "client.key",
    "gateway-1.key",
    "admin-1.key",
    "gateway.log",
    "gateway.log.1",
];

fn is_replica_folder(name: &str) -> bool {
    name.strip_prefix("replica-").is_some_and(|id| id.parse::<u16>().is_ok())
}

/// The public identity key of the machine whose keys are in this folder.
pub fn identity(keys: &Path) -> Option<[u8; 32]> {
    Some(KeyPair::load(&keys.join("key")).ok()?.public())
}

/// How the last cluster in a folder ended, if it left word of that.
pub fn stopped(root: &Path) -> Option<Stopped> {
    serde_json::from_slice(&std::fs::read(root.join(STOPPED)).ok()?).ok()
}

/// What runs in a folder, if anything does.
pub fn running(root: &Path) -> Outcome<Option<Running>> {
    let marker = File::open(root.join(MARKER)).map_err(|error| {
        let what = if error.kind() == ErrorKind::NotFound {
            "no cluster was started here".to_owned()
        } else {
            error.to_string()
        };
        Failure::Usage(format!("{}: {what}; start one with: pentarchy up", root.display()))
    })?;
    match marker.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::Error(error)) => {
            Err(Failure::Internal(format!("cannot lock {}: {error}", root.display())))
        }
        Err(TryLockError::WouldBlock) => {
            let path = root.join(RUNNING);
            let text = std::fs::read(&path).map_err(|_| {
                Failure::Unwell(format!("the cluster in {} is still starting", root.display()))
            })?;
            let running = serde_json::from_slice(&text)
                .map_err(|error| Failure::Internal(format!("{}: {error}", path.display())))?;
            Ok(Some(running))
        }
    }
}

/// Waits until nothing runs in a folder. False if it still does after `limit`.
pub fn wait_until_stopped(root: &Path, limit: Duration) -> Outcome<bool> {
    let deadline = Instant::now() + limit;
    loop {
        match running(root) {
            Ok(None) => return Ok(true),
            // `cluster.json` goes before the lock does.
            Ok(Some(_)) | Err(Failure::Unwell(_)) => {}
            Err(failure) => return Err(failure),
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_folder_is_refused_and_untouched() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cluster.toml"), "mine").unwrap();
        let refusal = Held::take(folder.path()).err().unwrap().to_string();
        assert!(refusal.contains("was not made by `pentarchy up`"), "{refusal}");
        assert_eq!(std::fs::read(folder.path().join("cluster.toml")).unwrap(), b"mine");
    }

    #[test]
    fn a_folder_is_held_once_and_cleared_of_its_own_only() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("data");
        let (held, replaced) = Held::take(&root).unwrap();
        assert!(!replaced);
        assert!(Held::take(&root).err().unwrap().to_string().contains("a cluster runs in"));
        for name in ["cluster.toml", "notes.txt"] {
            std::fs::write(root.join(name), "x").unwrap();
        }
        std::fs::create_dir_all(root.join("replica-3")).unwrap();
        std::fs::create_dir_all(root.join("replica-notes")).unwrap();
        drop(held);
        let (held, replaced) = Held::take(&root).unwrap();
        assert!(replaced);
        held.clear().unwrap();
        let word = Stopped { slot: None, time: None, problem: Some("why".to_owned()) };
        held.leave(&word).unwrap();
        assert_eq!(stopped(&root), Some(word));
        held.begin().unwrap();
        held.begin().unwrap();
        assert_eq!(stopped(&root), None);
        let there = |name: &str| root.join(name).exists();
        assert!(!there("cluster.toml") && !there("replica-3"));
        assert!(there("notes.txt") && there("replica-notes") && there(MARKER));
    }
}
