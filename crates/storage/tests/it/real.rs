//! The same on files of the operating system.

use crate::workload::{identity, record};
use pentarchy_core::ids::Slot;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_storage::disk::Folder;
use pentarchy_storage::folder::OsFolder;
use pentarchy_storage::log::{Log, Options, read};
use pentarchy_storage::snapshots::Snapshots;
use std::os::unix::fs::PermissionsExt as _;

fn options() -> Options {
    Options { segment_bytes: 8 * 512, ..Options::new([1; 32]) }
}

#[test]
fn a_log_and_snapshots_come_back() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("data");
    let snapshot = Snapshot::new(Slot(64), Tree::of(Slot(64), [vec![5; 400 << 10]]));
    {
        let mut data = OsFolder::open(&path).expect("a new folder");
        let folder = data.folder("log").expect("a new folder");
        let mut log = Log::create(folder, identity(), options()).expect("empty");
        for number in 1..100 {
            let record = record(1, number);
            log.append(record.kind, &record.body).expect("room");
            log.commit().expect("a disk that works");
            if number == 50 {
                log.truncate_below(40).expect("a disk that works");
            }
        }
        let folder = data.folder("snapshots").expect("a new folder");
        let (mut snapshots, _) = Snapshots::open(folder, identity()).expect("empty");
        snapshots.save(&snapshot, b"note").expect("a disk that works");
    }
    let mut looked = OsFolder::read_only(&path).expect("it is there");
    let folder = looked.folder("log").expect("it is there");
    let found = read(&*folder, Some(&identity()), |_| ()).expect("intact");
    assert_eq!(found.next, 100);
    assert!(looked.create("file").is_err(), "it is only looked at");

    let mut data = OsFolder::open(&path).expect("nobody uses it");
    let mut records = Vec::new();
    let folder = data.folder("log").expect("it is there");
    let (mut log, recovered) =
        Log::open(folder, identity(), options(), Some(40), |record| records.push(record))
            .expect("intact");
    assert!((2..=40).contains(&recovered.first));
    assert_eq!(records.first(), Some(&record(1, recovered.first)));
    assert_eq!(records.last(), Some(&record(1, 99)));
    assert_eq!(log.append(1, b"more").expect("room"), 100);
    assert_eq!(log.commit().expect("a disk that works"), 101);
    let folder = data.folder("snapshots").expect("it is there");
    let (mut snapshots, damaged) = Snapshots::open(folder, identity()).expect("its own");
    assert!(damaged.is_empty());
    assert_eq!(snapshots.load(Slot(64), None).expect("intact"), snapshot);
}

#[test]
fn a_folder_is_used_by_one_at_a_time_and_seen_by_its_owner_only() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("data");
    let mut first = OsFolder::open(&path).expect("a new folder");
    let refused = OsFolder::open(&path).map(|_| ()).expect_err("it is used");
    assert!(refused.to_string().contains("another process uses"), "{refused}");
    let inner = first.folder("log").expect("a new folder");
    drop(first);
    assert!(OsFolder::open(&path).is_err(), "a folder in it is still used");
    drop(inner);
    let mut again = OsFolder::open(&path).expect("nobody uses it");
    again.create("file").expect("a new file").write_at(b"x", 0).expect("room");
    let mode = |path: &std::path::Path| {
        let metadata = std::fs::metadata(path).expect("it is there");
        metadata.permissions().mode() & 0o077
    };
    assert_eq!((mode(&path), mode(&path.join("file"))), (0, 0));
}
