//! Backups that have everything, or say what they lack, and the checkpoint before the end.

use crate::operators::{Restored, command, set_keys};
use crate::support::{Cluster, eventually, is_alive, run, signal, stderr, stdout, text};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The data folder of a replica.
pub fn data(cluster: &Cluster, id: usize) -> PathBuf {
    cluster.data.join(format!("replica-{id}")).join("data")
}

/// Ends a process at once.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
    eventually("it has ended", || !is_alive(pid));
}

/// Saves what is in a data folder; says what was said, and the exit code.
pub fn save(data: &Path, out: &Path, more: &[&str]) -> (Value, Option<i32>) {
    let arguments = ["snapshot", "save", "--data", text(data), "--out", text(out), "--json"];
    let output = run(&[&arguments, more].concat());
    let printed = stdout(&output);
    let value = serde_json::from_str(&printed).unwrap_or_else(|_| stderr(&output).into());
    (value, output.status.code())
}

#[test]
fn a_backup_of_a_fresh_group_has_all_that_was_acknowledged() {
    let cluster = Cluster::up(&["--durability", "sync"]);
    // Fewer slots than a checkpoint comes after.
    set_keys(&cluster, 10);
    let parent = tempfile::tempdir().expect("a folder");
    let backup = parent.path().join("backup");
    let (saved, code) = save(&data(&cluster, 1), &backup, &[]);
    assert_eq!(code, Some(0), "{saved}");
    assert_eq!(saved["has"], "acknowledged", "{saved}");
    assert!(saved["slot"].as_u64() >= Some(10), "{saved}");
    assert!(saved["time"].as_str().is_some_and(|time| time.ends_with(" UTC")), "{saved}");
    assert_eq!(Restored::from(&backup).keys(10), 10);
}

#[test]
fn a_backup_during_load_and_beside_a_liar_has_all_that_was_acknowledged() {
    let cluster = Cluster::up(&["--durability", "sync"]);
    let (said, code) = command(&["break", "0", "--equivocate", "--data", text(&cluster.data)]);
    assert_eq!(code, Some(0), "{said}");
    set_keys(&cluster, 100);
    let port = cluster.port.to_string();
    let load = std::thread::spawn(move || {
        let load = ["-p", &port, "-t", "incr", "-n", "3000", "-c", "4", "-q"];
        crate::support::tool("redis-benchmark", &load)
    });
    let parent = tempfile::tempdir().expect("a folder");
    let backup = parent.path().join("backup");
    let (saved, code) = save(&data(&cluster, 2), &backup, &[]);
    assert_eq!((code, &saved["has"]), (Some(0), &"acknowledged".into()), "{saved}");
    load.join().expect("it ends");
    assert_eq!(Restored::from(&backup).keys(100), 100);
}

#[test]
fn down_leaves_a_checkpoint_with_everything_in_every_folder() {
    for mode in ["sync", "async"] {
        let cluster = Cluster::up(&["--durability", mode]);
        set_keys(&cluster, 10);
        let (said, code) = command(&["down", "--data", text(&cluster.data)]);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(said.matches("has a checkpoint at slot ").count(), 3, "{mode}: {said}");
        let last = said.lines().find(|line| line.starts_with("The checkpoint at slot "));
        let last = last.unwrap_or_else(|| panic!("{mode}: {said}"));
        assert!(
            last.contains(" at the group's time 20") && last.contains(" UTC, has all"),
            "{last}"
        );
        let parent = tempfile::tempdir().expect("a folder");
        for id in 0..3 {
            let backup = parent.path().join(format!("backup-{id}"));
            let (saved, code) = save(&data(&cluster, id), &backup, &["--last-checkpoint"]);
            assert_eq!((code, &saved["has"]), (Some(0), &"checkpoint".into()), "{saved}");
            assert!(saved["slot"].as_u64() >= Some(10), "{mode}: {saved}");
        }
        if mode == "async" {
            let (from, out) = (data(&cluster, 0), parent.path().join("without"));
            let save = ["snapshot", "save", "--data", text(&from), "--out", text(&out)];
            let (said, code) = command(&save);
            assert!(code == Some(0) && said.contains("has no log, as with durability"), "{said}");
        }
        assert_eq!(Restored::from(&parent.path().join("backup-2")).keys(10), 10, "{mode}");
    }
}

#[test]
fn down_says_that_a_group_which_stands_still_came_to_no_checkpoint() {
    let cluster = Cluster::up(&["--durability", "async"]);
    set_keys(&cluster, 10);
    [1, 2].into_iter().for_each(|id| kill(cluster.replica_pid(id)));
    let (said, code) = command(&["down", "--data", text(&cluster.data)]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the group came to NO last checkpoint: 1 of 3 replicas ran"), "{said}");
    assert!(said.contains("is LOST"), "{said}");
}

#[test]
fn a_backup_of_a_folder_without_a_checkpoint_warns_that_nothing_shows_the_service() {
    let cluster = Cluster::up(&["--durability", "sync"]);
    set_keys(&cluster, 3);
    cluster.pids().into_iter().for_each(kill);
    let parent = tempfile::tempdir().expect("a folder");
    let (from, out) = (data(&cluster, 1), parent.path().join("backup"));
    let (said, code) = command(&["snapshot", "save", "--data", text(&from), "--out", text(&out)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("nothing shows which service ran"), "{said}");
}

#[test]
fn a_backup_of_a_stopped_folder_has_what_its_log_proves() {
    let cluster = Cluster::up(&["--durability", "sync"]);
    set_keys(&cluster, 80);
    cluster.pids().into_iter().for_each(kill);
    let parent = tempfile::tempdir().expect("a folder");
    let most = (0..3).map(|id| {
        let last = parent.path().join(format!("last-{id}"));
        let (checkpoint, code) = save(&data(&cluster, id), &last, &["--last-checkpoint"]);
        assert_eq!((code, &checkpoint["has"]), (Some(0), &"checkpoint".into()), "{checkpoint}");
        let backup = parent.path().join(format!("backup-{id}"));
        let (saved, code) = save(&data(&cluster, id), &backup, &[]);
        assert_eq!((code, &saved["has"]), (Some(0), &"folder".into()), "{saved}");
        assert!(saved["slot"].as_u64() >= checkpoint["slot"].as_u64(), "{saved} {checkpoint}");
        (saved["slot"].as_u64(), backup)
    });
    let (_, backup) = most.max().expect("three");
    assert_eq!(Restored::from(&backup).keys(80), 80);
    // What is in the folder stays as it was: the group goes on from it.
    let left = std::fs::read_dir(parent.path()).expect("a folder").count();
    assert_eq!(left, 6, "nothing is left of what was copied");
    // What is wrong with a folder is what is wrong with it for its own replica.
    let log = std::fs::read_dir(data(&cluster, 0).join("log")).expect("a folder").flatten();
    let log = log.map(|entry| entry.path()).min().expect("a file of the log");
    let mut bytes = std::fs::read(&log).expect("it can be read");
    bytes[1600] ^= 1;
    std::fs::write(&log, bytes).expect("it can be written");
    let (from, out) = (data(&cluster, 0), parent.path().join("damaged"));
    let (said, _) = command(&["snapshot", "save", "--data", text(&from), "--out", text(&out)]);
    assert!(said.contains("is damaged at byte") && !said.contains("belongs to"), "{said}");
}
