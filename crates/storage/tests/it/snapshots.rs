//! Snapshots: written as a whole or not at all, only what changed, and damage is found.

use crate::workload::identity;
use bytes::Bytes;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::{Leaf, Tree};
use pentarchy_sim::disk::{Fate, Faults, SimDisk};
use pentarchy_sim::rng::Rng;
use pentarchy_storage::disk::Folder;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::snapshots::{Sections, Snapshots};
use std::collections::BTreeSet;
use std::sync::Arc;

pub fn folder(disk: &SimDisk) -> Box<dyn Folder> {
    disk.root().folder("snapshots").expect("no folder needs to be made")
}

pub fn open(disk: &SimDisk) -> Snapshots {
    let (snapshots, damaged) = Snapshots::open(folder(disk), identity()).expect("its own");
    assert!(damaged.is_empty(), "{damaged:?}");
    snapshots
}

/// A state of some sections, some of which are as they were in the one before.
fn state(rng: &mut Rng, before: Option<&Snapshot>, slot: u64) -> Snapshot {
    let section = |index: u32, rng: &mut Rng| match before {
        Some(before) if rng.percent(70) => bytes(before, index),
        _ => {
            // One of several chunks, and together more than one piece.
            let size = if index == 3 { 300 << 10 } else { rng.below(18_000) };
            (0..size).map(|_| rng.next_u64() as u8).collect()
        }
    };
    let sections: Vec<Vec<u8>> = (0..40).map(|index| section(index, rng)).collect();
    Snapshot::new(Slot(slot), Tree::of(Slot(slot), sections))
}

fn bytes(snapshot: &Snapshot, section: u32) -> Vec<u8> {
    snapshot
        .tree
        .section(section)
        .map(|leaf| leaf.joined().expect("it is there").to_vec())
        .unwrap_or_default()
}

pub fn slots(snapshots: &Snapshots) -> Vec<u64> {
    snapshots.list().map(|stored| stored.slot.0).collect()
}

/// Removes all but the last two.
fn keep_two(snapshots: &mut Snapshots) -> Result<(), StorageError> {
    let two = slots(snapshots).into_iter().rev().nth(1);
    two.map_or(Ok(()), |slot| snapshots.remove_below(Slot(slot)))
}

#[test]
fn what_was_saved_is_read_back() {
    let disk = SimDisk::new(1, Faults::default());
    let mut rng = Rng::new(1);
    let (mut snapshots, mut before) = (open(&disk), None);
    let mut written = Vec::new();
    for slot in 1..=10 {
        let now = state(&mut rng, before.as_ref(), slot * 64);
        let saved = snapshots.save(&now, &slot.to_le_bytes()).expect("nothing fails");
        written.push(saved.bytes);
        keep_two(&mut snapshots).expect("nothing fails");
        snapshots = open(&disk);
        let last = snapshots.list().last().expect("just saved");
        assert_eq!((last.slot, last.digest), (now.slot, now.digest));
        let walked = snapshots.check_whole(now.slot).expect("intact");
        let bytes_of = |at| bytes(&now, at).len() as u64;
        assert_eq!(walked.bytes, (0..now.tree.sections()).map(bytes_of).sum());
        for known in [before.as_ref(), None] {
            let loaded = snapshots.load(now.slot, known).expect("intact");
            assert_eq!(loaded, now);
            (0..now.tree.sections()).for_each(|at| assert_eq!(bytes(&loaded, at), bytes(&now, at)));
        }
        assert_eq!(snapshots.note(now.slot), Some(&Bytes::copy_from_slice(&slot.to_le_bytes())));
        assert!(snapshots.load(Slot(1), None).is_err());
        before = Some(now);
    }
    assert_eq!(slots(&snapshots), [9 * 64, 10 * 64]);
    assert!(snapshots.scrub().is_empty());
}

/// What a walk shows.
#[derive(Default)]
struct Shown(Vec<(u32, u64, Vec<u8>)>);

impl Sections for Shown {
    fn begin(&mut self, section: u32, bytes: u64) -> Result<(), StorageError> {
        self.0.push((section, bytes, Vec::new()));
        Ok(())
    }
    fn take(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.0.last_mut().expect("it began").2.extend_from_slice(bytes);
        Ok(())
    }
}

#[test]
fn a_walk_shows_each_section_once_with_what_changed_in_its_place() {
    for seed in 0..20 {
        let (disk, mut rng) = (SimDisk::new(seed, Faults::default()), Rng::new(seed));
        let mut snapshots = open(&disk);
        let first = state(&mut rng, None, 64);
        snapshots.save(&first, b"").expect("room");
        let mut changes = Vec::new();
        for section in 0..40 {
            if rng.percent(60) {
                continue;
            }
            let size = if rng.percent(20) { 300 << 10 } else { rng.below(9) as usize };
            let leaf = Leaf::new(section, vec![seed as u8; size], Slot(65));
            changes.push((section, (size > 0).then(|| Arc::new(leaf))));
        }
        let second = first.tree.changed(&changes, Slot(65));
        let mut shown = Shown::default();
        let overlay = changes.into_iter().collect();
        let walked = snapshots.walk(Slot(64), &overlay, &mut shown).expect("intact");
        assert_eq!((walked.digest, walked.sections), (second.digest(), second.leaves()));
        let expected: Vec<_> = second
            .iter()
            .map(|leaf| {
                (leaf.section(), leaf.len() as u64, leaf.joined().expect("it is there").to_vec())
            })
            .collect();
        assert_eq!(shown.0, expected, "seed {seed}");
        rot(&disk);
        assert!(snapshots.check_whole(Slot(64)).is_err());
    }
}

#[test]
fn only_what_changed_is_written_and_the_folder_stays_small() {
    let disk = SimDisk::new(1, Faults::default());
    let mut snapshots = open(&disk);
    let (mut rng, mut most) = (Rng::new(1), (0, 0));
    let (mut moved, mut written) = (0, 0);
    let mut sections: Vec<Vec<u8>>;
    // As many sections change in each round. Each is a piece of its own.
    for changing in [1, 7, 40] {
        let section =
            |round: u64, index| [index, round].map(u64::to_le_bytes).concat().repeat(5 << 10);
        sections = (0..100).map(|index| section(0, index)).collect();
        let state = Snapshot::new(Slot(changing * 1000), Tree::of(Slot(0), sections.clone()));
        snapshots.save(&state, b"").expect("room");
        for round in 1..=300 {
            let changed: BTreeSet<u64> = (0..changing).map(|_| rng.below(100)).collect();
            for index in &changed {
                sections[*index as usize] = section(changing * 1000 + round, *index);
            }
            let slot = Slot(changing * 1000 + round);
            let state = Snapshot::new(slot, Tree::of(slot, sections.clone()));
            let saved = snapshots.save(&state, b"").expect("room");
            keep_two(&mut snapshots).expect("nothing fails");
            assert_eq!(saved.chunks_new, changed.len());
            written += saved.chunks_new;
            moved += saved.chunks_moved;
            let packs = disk.paths().iter().filter(|path| path.ends_with(".pack")).count();
            let size = |path: &String| disk.content(path).len();
            let bytes: usize =
                disk.paths().iter().filter(|path| path.ends_with(".pack")).map(size).sum();
            most = (most.0.max(packs), most.1.max(bytes));
        }
    }
    let (packs, bytes) = most;
    // The state has 8 MiB. Freeing packs costs no more than what is written anyway.
    assert!(packs <= 70 && bytes < 24_000_000 && moved < written, "{most:?} {moved} {written}");
}

#[test]
fn a_crash_at_any_operation_leaves_whole_snapshots_and_the_acknowledged_one() {
    for seed in 0..24 {
        for at in 0..48 {
            let disk = SimDisk::new(seed, Faults { tears_sectors: true, ..Faults::default() });
            let mut rng = Rng::new(seed);
            let mut states = vec![state(&mut rng, None, 1)];
            let mut snapshots = open(&disk);
            snapshots.save(&states[0], b"").expect("nothing fails");
            let mut acknowledged = 1;
            let fate = if seed % 2 == 0 { Fate::Stops } else { Fate::Fails };
            disk.choose(disk.operations() + at, fate);
            for slot in 2..=5 {
                states.push(state(&mut rng, states.last(), slot));
                match snapshots.save(&states[slot as usize - 1], b"") {
                    Ok(_) => acknowledged = slot,
                    Err(_) => break,
                }
                if keep_two(&mut snapshots).is_err() {
                    break;
                }
            }
            if states.len() < 5 || acknowledged < 5 {
                let again = snapshots.save(&states[states.len() - 1], b"");
                assert!(matches!(again, Err(StorageError::Failed { .. })), "{again:?}");
            }
            if seed % 3 != 0 {
                disk.restart();
                drop(open(&disk));
            }
            disk.lose_power();
            let mut snapshots = open(&disk);
            let found = slots(&snapshots);
            assert!(found.iter().any(|slot| *slot >= acknowledged), "{found:?} {acknowledged}");
            assert!(found.len() >= 2.min(acknowledged as usize), "one in case one is damaged");
            assert!(snapshots.scrub().is_empty());
            for slot in found {
                let loaded = snapshots.load(Slot(slot), None).expect("intact");
                assert_eq!(loaded, states[slot as usize - 1]);
            }
            let next = state(&mut rng, states.last(), 9);
            snapshots.save(&next, b"").expect("nothing fails");
            keep_two(&mut snapshots).expect("nothing fails");
            assert!(slots(&snapshots).len() <= 2);
            assert_eq!(open(&disk).load(Slot(9), None).expect("intact"), next);
        }
    }
}

#[test]
fn damage_is_found_and_the_other_snapshot_is_still_there() {
    let disk = SimDisk::new(1, Faults::default());
    let mut rng = Rng::new(5);
    let first = state(&mut rng, None, 1);
    let second = state(&mut rng, Some(&first), 2);
    let mut snapshots = open(&disk);
    snapshots.save(&first, b"").expect("room");
    snapshots.save(&second, b"").expect("room");
    for path in disk.paths() {
        let content = disk.content(&path);
        for at in (0..content.len()).step_by(content.len() / 300 + 1).chain([content.len() - 1]) {
            let mut bytes = content.clone();
            bytes[at] ^= 1 << (at % 8);
            let damaged = disk.copy();
            damaged.tamper(&path, Some(bytes));
            let opened = Snapshots::open(folder(&damaged), identity());
            let reported = match opened {
                Err(_) => true,
                Ok((snapshots, problems)) => {
                    assert!(problems.len() < 2);
                    !problems.is_empty() || !snapshots.scrub().is_empty()
                }
            };
            // What packs begin with is for whoever looks at them with other tools.
            assert!(reported || path.ends_with(".pack") && at < 38, "{path} byte {at}");
        }
        for content in [None, Some(Vec::new()), Some(content[..content.len() - 1].to_vec())] {
            let damaged = disk.copy();
            damaged.tamper(&path, content);
            let (snapshots, problems) =
                Snapshots::open(folder(&damaged), identity()).expect("the other is intact");
            let there = slots(&snapshots);
            assert!(there.len() + problems.len() >= 1 && there != [1, 2], "{path}: {there:?}");
        }
    }
}

/// Flips a bit of a piece of the last snapshot, in the pack that was written last.
fn rot(disk: &SimDisk) {
    let path = disk.paths().into_iter().rfind(|path| path.ends_with(".pack")).expect("a pack");
    let mut content = disk.content(&path);
    let at = content.len() / 2;
    content[at] ^= 1;
    disk.tamper(&path, Some(content));
}

/// Scrubs one round, and gives the problems that are new.
pub fn scrub_round(snapshots: &mut Snapshots) -> Vec<StorageError> {
    let mut problems = Vec::new();
    while let Some(scrubbed) = snapshots.scrub_next() {
        problems.extend(scrubbed.problem);
        if scrubbed.ends_round {
            break;
        }
    }
    problems
}

#[test]
fn scrubbing_finds_what_rots_and_memory_mends_it() {
    for seed in 0..20 {
        let (disk, mut rng) = (SimDisk::new(seed, Faults::default()), Rng::new(seed));
        let mut snapshots = open(&disk);
        assert!(snapshots.scrub_next().is_none());
        let first = state(&mut rng, None, 64);
        let second = state(&mut rng, Some(&first), 128);
        for state in [&first, &second] {
            snapshots.save(state, b"").expect("nothing fails");
        }
        assert!(scrub_round(&mut snapshots).is_empty());
        rot(&disk);
        assert_eq!(scrub_round(&mut snapshots).len(), 1, "seed {seed}");
        assert!(scrub_round(&mut snapshots).is_empty(), "told once");
        assert!(snapshots.load(Slot(128), None).is_err());
        // Another state has nothing of that.
        let other = state(&mut Rng::new(!seed), None, 192);
        assert_eq!(snapshots.repair(&other).expect("nothing fails"), 0);
        assert_eq!(
            (snapshots.repair(&second).expect("nothing fails"), snapshots.spoiled()),
            (1, 0)
        );
        for snapshots in [&mut snapshots, &mut open(&disk)] {
            assert!(snapshots.scrub().is_empty());
            assert_eq!(snapshots.load(Slot(64), None).expect("mended"), first);
            assert_eq!(snapshots.load(Slot(128), None).expect("mended"), second);
        }
    }
}

#[test]
fn a_damaged_piece_is_not_saved_again_by_its_name_alone() {
    let (disk, mut rng) = (SimDisk::new(3, Faults::default()), Rng::new(3));
    let mut snapshots = open(&disk);
    let first = state(&mut rng, None, 64);
    snapshots.save(&first, b"").expect("nothing fails");
    rot(&disk);
    assert_eq!(scrub_round(&mut snapshots).len(), 1);
    let second = Snapshot { slot: Slot(128), ..first.clone() };
    snapshots.save(&second, b"").expect("nothing fails");
    assert_eq!(snapshots.load(Slot(128), None).expect("written anew").tree, first.tree);
    assert!(snapshots.load(Slot(64), None).is_err());
    snapshots.remove_below(Slot(128)).expect("nothing fails");
    assert!(scrub_round(&mut snapshots).is_empty());
    assert!(snapshots.scrub().is_empty());
}

#[test]
fn who_saves_an_earlier_state_gives_up_the_later_ones() {
    let disk = SimDisk::new(1, Faults::default());
    let mut rng = Rng::new(7);
    let states: Vec<Snapshot> = (1..=4).map(|slot| state(&mut rng, None, slot)).collect();
    let mut snapshots = open(&disk);
    for state in &states {
        snapshots.save(state, b"").expect("room");
    }
    assert_eq!((slots(&snapshots), snapshots.newest()), (vec![1, 2, 3, 4], Some(Slot(4))));
    let right = state(&mut rng, None, 2);
    snapshots.save(&right, b"").expect("room");
    let mut snapshots = open(&disk);
    assert_eq!(slots(&snapshots), [1, 2]);
    assert_eq!(snapshots.load(Slot(2), None).expect("intact"), right);
    assert!(disk.paths().iter().filter(|path| path.ends_with(".pack")).count() <= 2);
}

#[test]
fn a_damaged_list_goes_with_the_next_save() {
    let disk = SimDisk::new(1, Faults::default());
    let mut rng = Rng::new(6);
    let first = state(&mut rng, None, 1);
    open(&disk).save(&first, b"").expect("room");
    let path = disk.paths().into_iter().find(|path| path.ends_with(".snapshot")).expect("one");
    disk.tamper(&path, Some(vec![1; 500]));
    let (mut snapshots, problems) = Snapshots::open(folder(&disk), identity()).expect("its own");
    assert!(matches!(problems[..], [StorageError::Corrupt { .. }]), "{problems:?}");
    snapshots.save(&state(&mut rng, None, 2), b"").expect("room");
    assert_eq!(slots(&open(&disk)), [2]);
    assert_eq!(disk.paths().len(), 2);
}

/// A state of six sections, each a piece of its own. Those from `changed` on are of this slot only.
fn partly_new(slot: u64, changed: usize) -> Snapshot {
    let of = |index: usize| if index < changed { 0 } else { slot as u8 };
    let section = |index| vec![16 * of(index) + index as u8; 60 << 10];
    Snapshot::new(Slot(slot), Tree::of(Slot(slot), (0..6).map(section)))
}

/// Lets a bit rot in the piece of a section, in the newest pack.
fn rot_section(disk: &SimDisk, state: &Snapshot, section: u32) {
    let content = bytes(state, section);
    let holds = |path: &String| {
        path.ends_with(".pack") && disk.content(path).windows(content.len()).any(|it| it == content)
    };
    let path = disk.paths().into_iter().rfind(holds).expect("it was written");
    let mut all = disk.content(&path);
    let at = all.windows(content.len()).position(|it| it == content).expect("just seen");
    all[at + 50] ^= 1;
    disk.tamper(&path, Some(all));
}

#[test]
fn a_rotten_piece_is_no_part_of_later_snapshots() {
    // Whether the damaged snapshot was tried, as at a start, or nobody has looked yet.
    for tried in [true, false] {
        let disk = SimDisk::new(1, Faults::default());
        let mut snapshots = open(&disk);
        let (before, damaged) = (partly_new(1, 6), partly_new(2, 3));
        snapshots.save(&before, b"").expect("room");
        snapshots.save(&damaged, b"").expect("room");
        rot_section(&disk, &damaged, 4);
        let mut snapshots = open(&disk);
        if tried {
            assert!(snapshots.load(Slot(2), None).is_err());
            snapshots.give_up(Slot(2));
            assert_eq!(snapshots.newest(), Some(Slot(1)));
            assert_eq!(snapshots.load(Slot(1), None).expect("intact"), before);
        }
        // All of it was there before.
        let again = Snapshot::new(Slot(3), damaged.tree.clone());
        let saved = snapshots.save(&again, b"").expect("room");
        assert_eq!(saved.chunks_new, if tried { 3 } else { 1 }, "what is rotten, or was given up");
        assert_eq!(open(&disk).load(Slot(3), None).expect("intact"), again);
        let next = Snapshot::new(Slot(4), damaged.tree.clone());
        assert_eq!(snapshots.save(&next, b"").expect("room").chunks_new, 0, "now it is intact");
        assert_eq!(open(&disk).load(Slot(4), None).expect("intact"), next);
    }
}

#[test]
fn somebody_elses_snapshots_are_refused() {
    let disk = SimDisk::new(1, Faults::default());
    open(&disk).save(&state(&mut Rng::new(1), None, 1), b"").expect("room");
    let other = Identity { replica: ReplicaId(1), ..identity() };
    let refused = Snapshots::open(folder(&disk), other).err();
    assert!(matches!(refused, Some(StorageError::Foreign { .. })), "{refused:?}");
    let (seen, _) = Snapshots::read(folder(&disk), None).expect("anyone's");
    assert_eq!(slots(&seen), [1]);
}

#[test]
fn the_list_of_many_small_sections_is_short() {
    let disk = SimDisk::new(1, Faults::default());
    let slot = Slot(64);
    let leaf = |section| Leaf::small(section, Bytes::from(vec![section as u8; 100]), slot);
    let changes: Vec<_> =
        (0..40_000).map(|key| key * 411).map(|at| (at, Some(Arc::new(leaf(at))))).collect();
    let first = Snapshot::new(slot, Tree::new(1 << 24).changed(&changes, slot));
    let mut snapshots = open(&disk);
    snapshots.save(&first, b"").expect("room");
    let list = disk.paths().into_iter().find(|path| path.ends_with(".snapshot")).expect("one");
    assert!(disk.content(&list).len() < 40_000, "{} bytes", disk.content(&list).len());
    let second = Snapshot::new(Slot(65), first.tree.changed(&[(411, None)], Slot(65)));
    let saved = snapshots.save(&second, b"").expect("room");
    assert!(saved.chunks_new == 1 && saved.bytes < 64 << 10, "{saved:?}");
    for (slot, tree) in [(slot, &first.tree), (Slot(65), &second.tree)] {
        assert_eq!(&open(&disk).load(slot, None).expect("intact").tree, tree);
    }
}
