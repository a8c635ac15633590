//! What is in a data folder: the first byte says whether the input is a segment of a log, changes
//! to an honest log, or a snapshot's files. It is refused, or what comes back is what was appended.

use crate::input::{Input, put_bytes};
use pentarchy_core::ids::{GroupId, Incarnation, ReplicaId, Slot};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_sim::disk::{Faults, SimDisk};
use pentarchy_storage::disk::Folder;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::log::{Log, Options, Record, read};
use pentarchy_storage::snapshots::Snapshots;

const IDENTITY: Identity =
    Identity { group: GroupId([1; 16]), replica: ReplicaId(2), incarnation: Incarnation(3) };
const SEGMENT: &str = "log/0000000000000001.log";
const LIST: &str = "snapshots/0000000000000040.snapshot";
const PACK: &str = "snapshots/0000000000000001.pack";

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let disk = SimDisk::new(1, Faults::default());
    match input.u8() % 3 {
        0 => {
            disk.tamper(SEGMENT, Some(input.rest().to_vec()));
            log(&disk);
        }
        1 => changed(&disk, &mut input),
        _ => {
            disk.tamper(LIST, Some(input.bytes().to_vec()));
            disk.tamper(PACK, Some(input.rest().to_vec()));
            snapshots(&disk);
        }
    }
}

fn folder(disk: &SimDisk, name: &str) -> Box<dyn Folder> {
    disk.root().folder(name).expect("no folder needs to be made")
}

fn options() -> Options {
    Options { segment_bytes: 8 * 512, ..Options::new([4; 32]) }
}

/// Opens a log; gives its records if it is accepted.
fn log(disk: &SimDisk) -> Option<Vec<Record>> {
    let (mut seen, mut records) = (Vec::new(), Vec::new());
    let looked = read(&*folder(disk, "log"), Some(&IDENTITY), |record| seen.push(record));
    let opened =
        Log::open(folder(disk, "log"), IDENTITY, options(), Some(1), |record| records.push(record));
    let Ok((mut log, recovered)) = opened else { return None };
    assert_eq!((looked.ok(), &seen), (Some(recovered), &records));
    let number = log.append(7, b"one more").expect("room for a record");
    assert_eq!(log.commit().ok(), Some(number + 1));
    let mut again = Vec::new();
    let reopened =
        Log::open(folder(disk, "log"), IDENTITY, options(), Some(1), |record| again.push(record));
    reopened.expect("what was just written");
    assert_eq!(again.pop().map(|record| record.number), Some(number));
    assert_eq!(again, records);
    Some(records)
}

fn body(number: u64) -> Vec<u8> {
    vec![number as u8; (number * 97 % 700) as usize]
}

/// An honest log, of several segments.
fn honest(disk: &SimDisk) {
    let mut log = Log::create(folder(disk, "log"), IDENTITY, options()).expect("an empty disk");
    for number in 1..=16 {
        log.append(number as u8, &body(number)).expect("room");
        log.commit().expect("a disk that works");
    }
}

/// Each change is a file, a place and what is written there.
fn changed(disk: &SimDisk, input: &mut Input<'_>) {
    honest(disk);
    let paths = disk.paths();
    while !input.is_empty() {
        let path = &paths[usize::from(input.u8()) % paths.len()];
        let at = usize::from(input.u16());
        let change = input.bytes();
        let mut content = disk.content(path);
        for (byte, new) in content.iter_mut().skip(at).zip(change) {
            *byte = *new;
        }
        disk.tamper(path, Some(content));
    }
    for Record { number, kind, body: found } in log(disk).into_iter().flatten() {
        assert_eq!((u64::from(kind), &found[..]), (number, &body(number)[..]));
    }
}

fn snapshots(disk: &SimDisk) {
    let Ok((mut there, _)) = Snapshots::open(folder(disk, "snapshots"), IDENTITY) else { return };
    for stored in there.list().collect::<Vec<_>>() {
        if let Ok(loaded) = there.load(stored.slot, None) {
            let tree = Tree::with_top(loaded.tree.sections(), loaded.tree.top().cloned());
            assert_eq!((tree.digest(), loaded.digest), (stored.digest, stored.digest));
        }
    }
    let newest = there.list().last().map_or(Slot(0), |stored| stored.slot);
    let next = Snapshot::new(newest.next(), Tree::of(newest.next(), [vec![5; 900]]));
    there.save(&next, b"note").expect("a disk that works");
    assert_eq!(there.load(next.slot, None).ok(), Some(next));
}

pub fn seeds() -> Vec<Vec<u8>> {
    let disk = SimDisk::new(1, Faults::default());
    honest(&disk);
    let segment = [&[0][..], &disk.content(SEGMENT)].concat();
    let mut change = vec![1, 2, 0, 4];
    put_bytes(&[9; 40], &mut change);
    let (mut saved, _) =
        Snapshots::open(folder(&disk, "snapshots"), IDENTITY).expect("an empty disk");
    let tree = Tree::of(Slot(64), (1..4).map(|index| vec![index; 100]));
    saved.save(&Snapshot::new(Slot(64), tree), b"note").expect("a disk that works");
    let mut files = vec![2];
    put_bytes(&disk.content(LIST), &mut files);
    files.extend(disk.content(PACK));
    vec![segment, change, vec![1], files]
}
