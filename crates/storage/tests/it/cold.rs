//! States of which the content is in files and not in memory.

use crate::snapshots::{folder, open};
use crate::workload::identity;
use bytes::Bytes;
use pentarchy_core::blobs::TempBlobs as _;
use pentarchy_core::ids::Slot;
use pentarchy_core::limits::CHUNK_BYTES_MAX;
use pentarchy_core::mutant;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::{Leaf, Tree};
use pentarchy_sim::disk::{Faults, SimDisk};
use pentarchy_sim::world::membership;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::kept::{Backing as _, EntryLog as _, Job, Kept, Stepped};
use pentarchy_storage::log::Options;
use pentarchy_storage::snapshots::Snapshots;
use pentarchy_storage::temp_blobs::TempBlobs;
use std::sync::Arc;

/// Small sections, which share pieces, and a large one.
const SECTIONS: u32 = 80;
const LARGE: u32 = 70;

fn content(section: u32, version: u8) -> Vec<u8> {
    let length = if section == LARGE { 2 * CHUNK_BYTES_MAX + 9 } else { 3000 };
    (0..length).map(|at| (at / 7 + at * section as usize) as u8 ^ version).collect()
}

fn state(slot: u64, changed: impl Fn(u32) -> bool) -> Snapshot {
    let version = |section| if changed(section) { slot as u8 } else { 0 };
    let sections = (0..SECTIONS).map(|section| content(section, version(section)));
    Snapshot::new(Slot(slot), Tree::of(Slot(slot), sections))
}

fn cold(disk: &SimDisk) -> Snapshots {
    open(disk).keep_cold()
}

fn saved(snapshots: &mut Snapshots, state: &Snapshot) -> Snapshot {
    snapshots.save(state, b"").expect("room");
    let cooled = snapshots.cooled(state).expect("it is in files");
    assert_eq!((cooled.slot, cooled.tree.digest()), (state.slot, state.digest));
    cooled
}

/// The state is the other one, and none of it is in memory.
fn is_the_same(cooled: &Snapshot, hot: &Snapshot) {
    assert!(cooled.tree.iter().all(|leaf| leaf.is_cold()), "it is in files");
    let read = |state: &Snapshot| {
        let read = |leaf: &Arc<Leaf>| (leaf.section(), leaf.changed(), leaf.joined());
        state.tree.iter().map(read).collect::<Vec<_>>()
    };
    // What it is instead nobody wants to read.
    assert!(read(cooled) == read(hot), "it is another one");
    assert!(cooled.tree.changes_since(&hot.tree).is_empty());
}

/// Flips a bit in the middle of a section, for whoever has the file open too.
fn rot(disk: &SimDisk, wanted: &[u8]) {
    let middle = wanted.len() / 2;
    let wanted = &wanted[middle..(middle + 500).min(wanted.len())];
    let packs = disk.paths().into_iter().filter(|path| path.ends_with(".pack"));
    let mut found = 0;
    for path in packs {
        let all = disk.content(&path);
        if let Some(at) = all.windows(wanted.len()).position(|window| window == wanted) {
            assert!(disk.decay(&path, at));
            found += 1;
        }
    }
    assert!(found > 0, "it is not there");
}

#[test]
fn what_is_in_files_reads_the_same_also_when_those_are_superfluous() {
    let disk = SimDisk::new(1, Faults::default());
    let mut snapshots = cold(&disk);
    let (first, second) = (state(64, |_| false), state(128, |section| section != 3));
    let early = saved(&mut snapshots, &first);
    is_the_same(&early, &first);
    // Half of its content is what another state has in files.
    let newer = Snapshot { tree: second.tree.with_content_of(&early.tree), ..second };
    let is_cold = |section| newer.tree.section(section).expect("it is there").is_cold();
    assert!(is_cold(3) && !is_cold(4));
    let late = saved(&mut snapshots, &newer);
    snapshots.remove_below(Slot(128)).expect("room");
    let packs = disk.paths().iter().filter(|path| path.ends_with(".pack")).count();
    assert_eq!(packs, 1, "the first one is gone");
    is_the_same(&late, &second);
    is_the_same(&early, &first);
    drop((snapshots, early, late));
    let mut snapshots = cold(&disk);
    is_the_same(&snapshots.load(Slot(128), None).expect("intact"), &second);
}

#[test]
fn what_rots_is_absent_and_looked_at_at_once() {
    let disk = SimDisk::new(1, Faults::default());
    let mut snapshots = cold(&disk);
    let hot = state(64, |_| false);
    let cooled = saved(&mut snapshots, &hot);
    for section in [33, LARGE] {
        rot(&disk, &content(section, 0));
        let read = || cooled.tree.section(section).expect("it is there").joined();
        let wrong = mutant::with(Some("cold.not-checked"), read).expect("nobody looks");
        assert!(wrong != content(section, 0), "it has rotted");
        assert!(read().is_none());
        let beside = cooled.tree.section(32).expect("it is there").joined();
        assert!(beside.is_some_and(|bytes| bytes == content(32, 0)));
        let scrubbed = snapshots.scrub_next().expect("there is a state");
        assert!(matches!(scrubbed.problem, Some(StorageError::Corrupt { .. })));
        let (first, last) = scrubbed.sections.expect("it says where");
        assert!((first..=last).contains(&section), "{first} to {last}");
        // What cannot be read mends nothing.
        assert_eq!(snapshots.repair(&cooled).expect("no failure"), 0);
        assert_eq!(snapshots.repair(&hot).expect("room"), 1);
        is_the_same(&snapshots.cooled(&cooled).expect("it is in files"), &hot);
    }
    let paths = disk.paths();
    assert!(!paths.iter().any(|path| path.ends_with(".new")), "{paths:?}");
}

/// States go into files, and nowhere else, or also into the log if they fit.
fn stepped(disk: &SimDisk, state_bytes_max: usize) -> Stepped {
    let first = Arc::new(membership(1, 3, 1));
    let options = crate::workload::options(1);
    let (segment_bytes, bytes_max) = (64 << 10, 16 << 20);
    let options =
        Options { cold_states: true, state_bytes_max, segment_bytes, bytes_max, ..options };
    Stepped::new(Kept::create(&mut *disk.root(), identity(), first, options).expect("room"))
}

fn run(kept: &mut Stepped) -> Result<(), StorageError> {
    for _ in 0..1_000 {
        if !Job::ALL.into_iter().any(|job| kept.begin(job)) {
            return Ok(());
        }
        Job::ALL.into_iter().try_for_each(|job| kept.end(job))?;
    }
    panic!("there is no end to what it does");
}

/// A state is in files, and nowhere else any more, and some of it has rotted.
fn rotten(disk: &SimDisk, state_bytes_max: usize, sections: &[u32]) -> (Stepped, Snapshot) {
    let mut kept = stepped(disk, state_bytes_max);
    let hot = state(64, |_| false);
    kept.save(hot.clone()).expect("no failure");
    run(&mut kept).expect("no failure");
    let cooled = kept.cooled().expect("it is in files");
    is_the_same(&cooled, &hot);
    sections.iter().for_each(|section| rot(disk, &content(*section, 0)));
    (kept, cooled)
}

/// One that differs from it in a section that shares a piece with what has rotted.
fn next(slot: u64, before: &Snapshot) -> Snapshot {
    let next = state(slot, |section| section == 34);
    Snapshot { tree: next.tree.with_content_of(&before.tree), ..next }
}

/// A state is being saved that needs what has rotted: two sections of a piece.
fn unsaved(disk: &SimDisk) -> (Stepped, Snapshot) {
    let (mut kept, cooled) = rotten(disk, 0, &[33, 35]);
    kept.save(next(128, &cooled)).expect("no failure");
    run(&mut kept).expect("no failure");
    assert_eq!((kept.saved().expect("no failure"), kept.newest()), (1, Some(Slot(64))));
    (kept, cooled)
}

/// All that it lacks is told.
fn is_told(kept: &mut Stepped) {
    let scrubs = kept.scrubs();
    let problems = &scrubs.problems[..];
    let told = matches!(problems, [StorageError::Absent { sections }] if *sections == [33, 35]);
    assert!(told, "{:?}", scrubs.problems);
    assert_eq!(scrubs.sections, [(33, 33), (35, 35)]);
}

#[test]
fn a_state_that_cannot_be_read_is_saved_when_it_is_mended() {
    let disk = SimDisk::new(1, Faults::default());
    let (mut kept, _) = unsaved(&disk);
    is_told(&mut kept);
    let hot = state(64, |_| false);
    kept.repair(std::iter::once(hot.clone()));
    run(&mut kept).expect("no failure");
    assert_eq!((kept.saved().expect("no failure"), kept.newest()), (2, Some(Slot(128))));
    is_the_same(&kept.cooled().expect("it is in files"), &next(128, &hot));
}

#[test]
fn a_state_that_nobody_can_mend_ends_the_replica() {
    let disk = SimDisk::new(1, Faults::default());
    let (mut kept, _) = unsaved(&disk);
    is_told(&mut kept);
    kept.repair(std::iter::empty());
    let ended = run(&mut kept).expect_err("it cannot be saved");
    let is_meant = matches!(&ended, StorageError::Absent { sections } if *sections == [33, 35]);
    assert!(is_meant, "{ended}");
    assert!(ended.to_string().starts_with("section 33, 35 of the state cannot be read any more"));
    // And so does the end, which waits for nobody.
    let disk = SimDisk::new(1, Faults::default());
    let (kept, _) = unsaved(&disk);
    drop(kept);
}

#[test]
fn what_was_mended_before_it_was_told_counts_for_nothing() {
    let disk = SimDisk::new(1, Faults::default());
    let (mut kept, cooled) = unsaved(&disk);
    kept.repair(std::iter::empty());
    run(&mut kept).expect("nobody knew of it");
    is_told(&mut kept);
    // Nor does what was mended for a state that turned out to be wrong.
    kept.repair(std::iter::empty());
    kept.save(next(128, &cooled)).expect("no failure");
    run(&mut kept).expect("it is another one");
    is_told(&mut kept);
    kept.repair(std::iter::once(state(64, |_| false)));
    run(&mut kept).expect("no failure");
    assert_eq!((kept.saved().expect("no failure"), kept.newest()), (3, Some(Slot(128))));
}

#[test]
fn nobody_mends_a_state_of_which_a_stable_one_takes_the_place() {
    let disk = SimDisk::new(1, Faults::default());
    let (mut kept, cooled) = rotten(&disk, 0, &[33, 35]);
    kept.save(next(128, &cooled)).expect("no failure");
    assert!(kept.begin(Job::States));
    kept.save(state(192, |_| true)).expect("no failure");
    let needed = kept.next();
    kept.stable(Slot(192), needed).expect("no failure");
    run(&mut kept).expect("no failure");
    kept.end(Job::States).expect("no failure");
    run(&mut kept).expect("no failure");
    assert_eq!((kept.saved().expect("no failure"), kept.newest()), (3, Some(Slot(192))));
}

#[test]
fn what_the_next_state_lacks_too_waits_for_one_that_does_not() {
    let disk = SimDisk::new(1, Faults::default());
    let (mut kept, cooled) = rotten(&disk, 1 << 20, &[33, 35]);
    let lacking = next(128, &cooled);
    kept.save(lacking.clone()).expect("no failure");
    run(&mut kept).expect("no failure");
    assert_eq!(kept.newest(), Some(Slot(128)));
    kept.scrub();
    // Nobody can mend it, as often as they are told.
    let mut told = Vec::new();
    for _ in 0..10 {
        let problems = kept.scrubs().problems;
        if !problems.is_empty() {
            kept.repair([cooled.clone(), lacking.clone()].into_iter());
        }
        told.extend(problems);
        run(&mut kept).expect("no failure");
    }
    let is_absent = |it: &&StorageError| matches!(it, StorageError::Absent { .. });
    assert_eq!((told.len(), told.iter().filter(is_absent).count()), (2, 1), "{told:?}");
    // This one has all of it.
    kept.save(state(192, |section| section == 34)).expect("no failure");
    let needed = kept.next();
    kept.stable(Slot(192), needed).expect("no failure");
    run(&mut kept).expect("no failure");
    assert_eq!(kept.scrubs().repaired, 1);
    let lists = disk.paths().into_iter().filter(|path| path.contains("snapshots/"));
    let lists: Vec<String> = lists.filter(|path| !path.ends_with(".pack")).collect();
    assert_eq!(lists.len(), 1, "{lists:?}");
}

#[test]
fn what_was_written_anew_is_where_states_have_it() {
    let disk = SimDisk::new(1, Faults::default());
    let (mut kept, cooled) = rotten(&disk, 0, &[33, 35]);
    kept.scrub();
    assert_eq!(kept.scrubs().problems.len(), 1);
    let hot = state(64, |_| false);
    kept.repair(std::iter::once(hot.clone()));
    run(&mut kept).expect("no failure");
    is_the_same(&kept.cooled().expect("it is elsewhere now"), &hot);
    // Whoever still has it where it has rotted need not have it.
    kept.save(Snapshot { slot: Slot(128), ..cooled }).expect("no failure");
    run(&mut kept).expect("no failure");
    assert_eq!((kept.saved().expect("no failure"), kept.newest()), (2, Some(Slot(128))));
}

#[test]
fn what_is_reported_is_not_carried_on() {
    let disk = SimDisk::new(1, Faults::default());
    let mut snapshots = cold(&disk);
    let hot = state(64, |_| false);
    let cooled = saved(&mut snapshots, &hot);
    rot(&disk, &content(33, 0));
    assert_eq!(snapshots.scrub_reported().len(), 0, "nobody has looked");
    let lost = cooled.tree.section(33).expect("it is there");
    assert!(lost.joined().is_none());
    assert_eq!(snapshots.scrub_reported().len(), 1);
    let next = Snapshot { slot: Slot(128), ..cooled.clone() };
    let failed = snapshots.save(&next, b"").expect_err("it is to be written again");
    assert!(matches!(failed, StorageError::Absent { sections } if sections == [33]));
    let mended = Snapshot { tree: cooled.tree.with_content_of(&hot.tree), ..next };
    snapshots.save(&mended, b"").expect("room");
    snapshots.remove_below(Slot(128)).expect("room");
    assert_eq!(snapshots.spoiled(), 0, "nobody needs it");
    is_the_same(&snapshots.load(Slot(128), None).expect("intact"), &hot_at(128, &hot));
}

/// The same, loaded: of one slot.
fn hot_at(slot: u64, hot: &Snapshot) -> Snapshot {
    let leaves = hot.tree.iter().map(|leaf| leaf.joined().expect("in memory").to_vec());
    Snapshot::new(Slot(slot), Tree::of(Slot(slot), leaves))
}

#[test]
fn what_is_spooled_has_no_name_and_reads_the_same() {
    let disk = SimDisk::new(1, Faults::default());
    let spool = TempBlobs::open(folder(&disk)).expect("an empty folder");
    let put = |bytes: &[u8]| spool.put(bytes).expect("room");
    let all = [put(b"one"), put(b"another"), put(b"")];
    assert!(disk.paths().is_empty(), "they have no names");
    let read =
        all.map(|cold| cold.shelf.read(cold.offset, cold.bytes as usize).expect("it is there"));
    assert_eq!(read, [&b"one"[..], b"another", b""]);
    let large = Leaf::new(1, content(LARGE, 0), Slot(1)).spooled(&spool);
    assert!(large.is_cold() && large.joined() == Some(Bytes::from(content(LARGE, 0))));
    assert_eq!(spool.failures(), 0);
    disk.set_faults(Faults { capacity: 1, ..Faults::default() });
    disk.root().create("full").expect("a name").write_at(&[1], 0).expect("room for one");
    let leaf = Leaf::new(1, b"no room".to_vec(), Slot(1)).spooled(&spool);
    assert!(!leaf.is_cold() && spool.failures() == 1, "it stays in memory");
    assert_eq!(leaf.joined(), Some(Bytes::from("no room")));
    disk.set_faults(Faults::default());
    let put = |bytes: &[u8]| Leaf::new(1, bytes.to_vec(), Slot(1)).spooled(&spool);
    let room = put(b"room");
    assert!(room.is_cold());
    assert!(spool.end() && !spool.end(), "once");
    assert!(!put(b"another").is_cold() && room.joined().is_some() && spool.failures() == 1);
}
