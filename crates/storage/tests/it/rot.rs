//! What rots is found, however much there is, and nothing is put in its place that is not the same.

use crate::snapshots::{folder, open, scrub_round, slots};
use bytes::Bytes;
use pentarchy_core::ids::Slot;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::{Chunk, Leaf, Tree};
use pentarchy_sim::disk::{Faults, SimDisk};
use pentarchy_storage::snapshots::Snapshots;
use std::sync::Arc;

/// Sections of such a size that each is a piece.
const SECTION_BYTES: usize = 4200;

/// More than are looked up at a time.
const SECTIONS: u32 = 2512;

fn many(slot: u64, differ_from: u32) -> Snapshot {
    let section = |index: u32| {
        let mut bytes = vec![index as u8; SECTION_BYTES];
        bytes[..4].copy_from_slice(&index.to_le_bytes());
        bytes[4] = if index < differ_from { 0 } else { slot as u8 };
        bytes
    };
    Snapshot::new(Slot(slot), Tree::of(Slot(slot), (0..SECTIONS).map(section)))
}

/// Flips a bit in the pack where this section of a state begins.
fn rot_section(disk: &SimDisk, state: &Snapshot, section: u32) {
    let leaf = state.tree.section(section).expect("it is there");
    let content = leaf.joined().expect("it is in memory");
    let packs = disk.paths().into_iter().filter(|path| path.ends_with(".pack"));
    for path in packs {
        let mut all = disk.content(&path);
        if let Some(at) = all.windows(content.len()).position(|it| it == &content[..]) {
            all[at + 50] ^= 1;
            disk.tamper(&path, Some(all));
            return;
        }
    }
    panic!("section {section} is not there");
}

/// How many pieces a round reads.
fn round(snapshots: &mut Snapshots) -> usize {
    let mut read = 0;
    loop {
        read += 1;
        if snapshots.scrub_next().expect("there is a state").ends_round {
            return read;
        }
    }
}

#[test]
fn a_round_reads_each_piece_once_however_many_there_are() {
    let disk = SimDisk::new(1, Faults::default());
    let mut snapshots = open(&disk);
    let (first, second) = (many(64, 2000), many(128, 2000));
    snapshots.save(&first, b"").expect("room");
    assert_eq!(round(&mut snapshots), SECTIONS as usize);
    snapshots.save(&second, b"").expect("room");
    let both = SECTIONS as usize + 512;
    for _ in 0..2 {
        assert_eq!(round(&mut snapshots), both, "those that are shared are read once");
    }
    for section in [0, 1023, 1024, 1999, 2000, SECTIONS - 1] {
        rot_section(&disk, &second, section);
        let problems: Vec<String> =
            scrub_round(&mut snapshots).iter().map(|it| it.to_string()).collect();
        assert_eq!(problems.len(), 1, "section {section}: {problems:?}");
        assert!(problems[0].contains(&format!("digest: section {section}")), "{problems:?}");
    }
    assert_eq!((snapshots.repair(&second).expect("room"), snapshots.spoiled()), (6, 0));
    assert!(snapshots.scrub().is_empty());
    // In the middle of a round states go, and with them what was about to be read.
    (0..700).for_each(|_| drop(snapshots.scrub_next()));
    snapshots.save(&many(192, 0), b"").expect("room");
    snapshots.remove_below(Slot(192)).expect("nothing fails");
    assert!(scrub_round(&mut snapshots).is_empty());
    assert_eq!(round(&mut snapshots), SECTIONS as usize);
}

#[test]
fn a_list_that_rots_while_its_state_is_in_use_is_written_anew() {
    let disk = SimDisk::new(1, Faults::default());
    let mut snapshots = open(&disk);
    for slot in [64, 128] {
        snapshots.save(&many(slot, 0), b"note").expect("room");
    }
    assert!(snapshots.mend_lists().expect("nothing fails").is_empty());
    let lists: Vec<String> =
        disk.paths().into_iter().filter(|path| path.ends_with(".snapshot")).collect();
    for damage in [Some(vec![7; 100]), None] {
        lists.iter().for_each(|list| disk.tamper(list, damage.clone()));
        let (found, _) = Snapshots::open(folder(&disk.copy()), crate::workload::identity())
            .expect("it can be opened");
        assert!(slots(&found).is_empty());
        assert_eq!(snapshots.mend_lists().expect("nothing fails").len(), 2);
        let mut again = open(&disk);
        assert_eq!(slots(&again), [64, 128]);
        assert_eq!(again.note(Slot(128)), Some(&Bytes::from_static(b"note")));
        assert_eq!(again.load(Slot(128), None).expect("intact"), many(128, 0));
    }
}

#[test]
fn what_is_rotten_in_memory_too_is_not_put_in_its_place() {
    let disk = SimDisk::new(1, Faults::default());
    let mut snapshots = open(&disk);
    let slot = Slot(64);
    let chunk = Bytes::from(vec![3; 200 << 10]);
    let leaf = Leaf::new(7, [&chunk[..], &[4; 100 << 10]].concat(), slot);
    let state = Snapshot::new(slot, Tree::new(9).changed(&[(7, Some(Arc::new(leaf)))], slot));
    snapshots.save(&state, b"").expect("room");
    rot_section(&disk, &state, 7);
    assert_eq!(scrub_round(&mut snapshots).len(), 1);
    let leaf = state.tree.section(7).expect("it is there");
    let broken = leaf.chunks().iter().map(|chunk| {
        let mut bytes = chunk.read().expect("it is in memory").to_vec();
        bytes[0] ^= 1;
        Chunk::new(chunk.digest(), Bytes::from(bytes))
    });
    let leaf = Leaf::of_chunks(7, broken.collect(), slot);
    let broken = Snapshot::new(slot, Tree::new(9).changed(&[(7, Some(Arc::new(leaf)))], slot));
    assert_eq!(broken.digest, state.digest, "nobody has looked");
    assert_eq!((snapshots.repair(&broken).expect("room"), snapshots.spoiled()), (0, 1));
    assert_eq!((snapshots.repair(&state).expect("room"), snapshots.spoiled()), (1, 0));
    assert_eq!(open(&disk).load(slot, None).expect("mended"), state);
}
