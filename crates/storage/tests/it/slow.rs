//! A log that is full, states that are saved slower than they come, and states that turn out to be
//! wrong: what waits, what is released, and what makes room. Without threads, so that each step is
//! the test's to choose.

use crate::workload::identity;
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::CoreEffect;
use pentarchy_core::ids::{ClientId, Slot};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_sim::disk::{Faults, SimDisk};
use pentarchy_sim::world::membership;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::kept::{
    Backing as _, Certificates, DurableStore, Entry, EntryLog as _, Job, Kept, LOG, Past,
    SNAPSHOTS, Stepped, Then, Writer,
};
use pentarchy_storage::log::Options;
use std::sync::Arc;

fn first() -> Arc<Membership> {
    Arc::new(membership(1, 3, 1))
}

/// A log of at most twelve segments, and four in reserve.
fn options() -> Options {
    Options { bytes_max: 12 * 8 * 512, ..crate::workload::options(1) }
}

fn create(disk: &SimDisk) -> DurableStore<Stepped> {
    let kept = Kept::create(&mut *disk.root(), identity(), first(), options());
    DurableStore::new(Stepped::new(kept.expect("an empty disk")), None, Certificates::default())
}

fn open(disk: &SimDisk) -> (DurableStore<Stepped>, Past) {
    let opened = Kept::open(&mut *disk.root(), identity(), &first(), options());
    let (kept, past) = opened.expect("something to go on from");
    let newest = past.snapshot().map(base);
    (DurableStore::new(Stepped::new(kept), newest, Certificates::default()), past)
}

fn base(state: &Snapshot) -> Base {
    Base { slot: state.slot, state: state.digest }
}

/// A state, of which a part changes.
fn state(slot: u64, part: u8) -> Snapshot {
    let section = |index| vec![if index == 0 { part } else { index }; 700];
    Snapshot::new(Slot(slot), Tree::of(Slot(slot), (0..6).map(section)))
}

/// Has the core keep a record.
fn keep(keeper: &mut DurableStore<Stepped>, content: u8) {
    let held = keeper
        .barrier_mut()
        .hold(CoreEffect::Persist(vec![content; 300].into()))
        .expect("nothing failed");
    assert!(held.is_none(), "it is kept");
}

fn run(keeper: &mut DurableStore<Stepped>, job: Job) -> bool {
    let begun = keeper.backing_mut().begin(job);
    keeper.backing_mut().end(job).expect("nothing fails");
    keeper.look().expect("nothing failed");
    begun
}

/// Has the disk do all that it can.
fn run_all(keeper: &mut DurableStore<Stepped>) {
    while run(keeper, Job::Log) | run(keeper, Job::States) {}
}

/// Keeps records until there is no room.
fn fill(keeper: &mut DurableStore<Stepped>) {
    while keeper.backing().full().is_none() {
        keep(keeper, 0);
        run_all(keeper);
    }
}

fn installed(keeper: &mut DurableStore<Stepped>) -> Option<Slot> {
    match keeper.next_saved().expect("nothing failed")? {
        Then::Installed { slot } => Some(slot),
        _ => panic!("nothing else was saved"),
    }
}

/// A quorum vouches for a state: the core keeps so many records again.
fn vouch(keeper: &mut DurableStore<Stepped>, slot: u64, records: u8) {
    keeper.stable(Slot(slot), Vec::new(), 0).expect("nothing failed");
    (0..records).for_each(|number| keep(keeper, 100 + number));
    keeper.end_of_step().expect("nothing failed");
}

fn records(past: &Past) -> Vec<u8> {
    let record = |(_, entry): &(u64, Entry)| match entry {
        Entry::Record(record) => record[0],
        other => panic!("nothing else was kept: {other:?}"),
    };
    past.entries.iter().map(record).collect()
}

#[test]
fn a_replica_with_a_full_log_gets_level_and_goes_on() {
    let disk = SimDisk::new(1, Faults::default());
    drop(create(&disk));
    for slot in 1..=3 {
        let (mut keeper, _) = open(&disk);
        fill(&mut keeper);
        let durable = keeper.backing().durable().expect("nothing failed");
        keep(&mut keeper, 1);
        assert!(!run(&mut keeper, Job::Log), "it waits");
        assert_eq!(keeper.backing().durable().expect("nothing failed"), durable);
        // It is stopped. What was not durable nobody has heard of.
        let (mut keeper, _) = open(&disk);
        fill(&mut keeper);
        keep(&mut keeper, 2);
        // The group is further on: it fetches the state, and that is the stable one.
        keeper.save(&state(slot, slot as u8), Then::Installed { slot: Slot(slot) }).expect("works");
        assert!(
            keeper.backing().full().is_none(),
            "that state waits for what is before it in the log"
        );
        run_all(&mut keeper);
        assert_eq!(installed(&mut keeper), Some(Slot(slot)));
        fill(&mut keeper);
        vouch(&mut keeper, slot, 20);
        keep(&mut keeper, 3);
        run_all(&mut keeper);
        assert!(
            keeper.backing().full().is_none() && keeper.barrier().lag_entries() == 0,
            "there is room"
        );
        let (_, past) = open(&disk);
        assert_eq!(past.executed(), base(&state(slot, slot as u8)));
        assert_eq!(records(&past), (100..120).chain([3]).collect::<Vec<u8>>());
    }
}

#[test]
fn who_waits_for_room_in_vain_ends_and_says_why() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = create(&disk);
    fill(&mut keeper);
    let mut ended = Ok(());
    for _ in 0..100_000 {
        keep(&mut keeper, 0);
        ended = keeper.look();
        if ended.is_err() {
            break;
        }
    }
    assert!(matches!(ended, Err(StorageError::Full { .. })), "{ended:?}");
}

#[test]
fn whoever_saves_slower_than_the_group_cuts_its_log_nevertheless() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = create(&disk);
    let mut made = 0;
    for slot in 1..=100 {
        keep(&mut keeper, 1);
        let then = Then::Checkpointed { slot: Slot(slot), state: Digest::default() };
        keeper.save(&state(slot, slot as u8), then).expect("nothing failed");
        if slot > 1 {
            vouch(&mut keeper, slot - 1, 2);
        }
        // Saving a state takes until the next one but one is there.
        if slot % 3 == 0 {
            keeper.backing_mut().end(Job::States).expect("nothing fails");
        }
        while run(&mut keeper, Job::Log) {}
        keeper.backing_mut().begin(Job::States);
        assert!(!keeper.backing().is_behind(), "older states give way: no more than two wait");
        let states = disk.paths().iter().filter(|path| path.ends_with(".snapshot")).count();
        let logs = disk.paths().iter().filter(|path| path.starts_with(LOG)).count();
        assert!(states <= 5 && logs <= 8, "{slot}: {states} states, {logs} segments");
        while keeper.next_saved().expect("nothing failed").is_some() {
            made += 1;
        }
    }
    assert!(made > 90, "each checkpoint is told of, behind it or a newer one: {made}");
}

#[test]
fn nothing_is_read_while_many_states_wait() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = create(&disk);
    for slot in 1..=4 {
        assert!(!keeper.backing().is_behind(), "{slot}");
        let then = Then::Checkpointed { slot: Slot(slot), state: Digest::default() };
        keeper.save(&state(slot, 0), then).expect("nothing failed");
        // The first is being saved.
        run(&mut keeper, Job::Log);
        keeper.backing_mut().begin(Job::States);
    }
    assert!(keeper.backing().is_behind());
    keeper.backing_mut().end(Job::States).expect("nothing fails");
    run_all(&mut keeper);
    assert!(!keeper.backing().is_behind());
}

#[test]
fn nothing_is_read_while_a_nearly_full_log_waits_for_a_state() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = create(&disk);
    let logs = || disk.paths().iter().filter(|path| path.starts_with(LOG)).count();
    while logs() < 9 {
        keep(&mut keeper, 0);
        run_all(&mut keeper);
    }
    keeper.save(&state(1, 1), Then::Installed { slot: Slot(1) }).expect("nothing failed");
    keeper.backing_mut().begin(Job::States);
    assert!(
        !keeper.backing().is_behind(),
        "nobody vouches for it yet, and who does has to be heard"
    );
    vouch(&mut keeper, 1, 1);
    assert!(keeper.backing().is_behind());
    keeper.backing_mut().end(Job::States).expect("nothing fails");
    run_all(&mut keeper);
    assert!(!keeper.backing().is_behind());
}

#[test]
fn a_state_in_the_place_of_a_damaged_one_is_durable_when_it_is_saved_again() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = create(&disk);
    for slot in 1..=2 {
        keeper.save(&state(slot, slot as u8), Then::Installed { slot: Slot(slot) }).expect("works");
        run_all(&mut keeper);
        assert_eq!(installed(&mut keeper), Some(Slot(slot)));
    }
    let list = format!("{SNAPSHOTS}/{:016x}.snapshot", 2);
    let pack = disk.paths().into_iter().rfind(|path| path.ends_with(".pack")).expect("it is there");
    for damaged in [list, pack] {
        let disk = disk.copy();
        let mut rotten = disk.content(&damaged);
        *rotten.last_mut().expect("not empty") ^= 1;
        disk.tamper(&damaged, Some(rotten));
        let (mut keeper, past) = open(&disk);
        assert_eq!((past.executed().slot, past.damaged.len()), (Slot(1), 1));
        assert_eq!(keeper.backing().newest(), Some(Slot(1)));
        keeper.save(&state(2, 2), Then::Installed { slot: Slot(2) }).expect("nothing failed");
        assert_eq!(installed(&mut keeper), None, "it is not saved yet");
        vouch(&mut keeper, 2, 1);
        run(&mut keeper, Job::Log);
        assert_eq!(keeper.backing_mut().newest(), Some(Slot(1)));
        run_all(&mut keeper);
        assert_eq!(installed(&mut keeper), Some(Slot(2)));
        assert_eq!(open(&disk).1.executed(), base(&state(2, 2)));
    }
}

#[test]
fn another_state_of_the_same_slot_is_not_durable_with_the_first() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = create(&disk);
    for part in [1, 2] {
        keeper.save(&state(64, part), Then::Installed { slot: Slot(64) }).expect("nothing failed");
        vouch(&mut keeper, 64, 1);
        run(&mut keeper, Job::Log);
        assert_eq!(installed(&mut keeper), None, "{part}: it is not saved yet");
        let next = keeper.backing().next();
        run_all(&mut keeper);
        assert_eq!(keeper.backing().next(), next + 1, "{part}: now the log calls it stable");
        assert_eq!(installed(&mut keeper), Some(Slot(64)));
        assert_eq!(open(&disk).1.executed(), base(&state(64, part)));
    }
}

#[test]
fn a_wrong_state_that_is_saved_too_late_releases_nothing() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = create(&disk);
    let wrong = state(128, 9);
    let vouches = Then::Checkpointed { slot: wrong.slot, state: wrong.digest };
    keeper.save(&wrong, vouches).expect("nothing failed");
    run(&mut keeper, Job::Log);
    assert!(keeper.backing_mut().begin(Job::States));
    // Meanwhile the group says what is right.
    keeper.save(&state(64, 1), Then::Installed { slot: Slot(64) }).expect("nothing failed");
    vouch(&mut keeper, 64, 1);
    let next = keeper.backing().next();
    keeper.backing_mut().end(Job::States).expect("nothing fails");
    run(&mut keeper, Job::Log);
    assert_eq!(keeper.backing().newest(), Some(Slot(128)));
    assert_eq!(keeper.backing().next(), next, "the log calls nothing stable");
    assert_eq!(installed(&mut keeper), None, "only the wrong one is saved");
    run_all(&mut keeper);
    assert_eq!(installed(&mut keeper), Some(Slot(64)));
    let (_, past) = open(&disk);
    assert_eq!((past.executed(), records(&past)), (base(&state(64, 1)), vec![100]));
}

#[test]
fn the_threads_too_wait_for_room_and_go_on() {
    let disk = SimDisk::new(1, Faults::default());
    let mut kept =
        Kept::create(&mut *disk.root(), identity(), first(), options()).expect("an empty disk");
    let record = || Entry::Record(vec![1; 300].into());
    for slot in 1..=3 {
        let mut writer = Writer::start(kept, Box::new(|| ())).expect("threads");
        let is_durable = |writer: &Writer, entry| writer.durable().expect("nothing failed") > entry;
        let waiting = loop {
            let entry = writer.append(record()).expect("nothing failed");
            writer.write();
            while !is_durable(&writer, entry) && writer.full().is_none() {
                std::thread::yield_now();
            }
            if !is_durable(&writer, entry) {
                break entry;
            }
        };
        // What is to be saved rests on it.
        let number = writer.save(state(slot, 1)).expect("nothing failed");
        writer.wait_for(waiting).expect("it may use the reserve");
        while writer.saved().expect("nothing failed") < number {
            std::thread::yield_now();
        }
        writer.begin_cut();
        let needed = writer.next();
        for _ in 0..10 {
            writer.append(record()).expect("nothing failed");
        }
        writer.stable(Slot(slot), needed).expect("nothing failed");
        let last = writer.append(record()).expect("nothing failed");
        writer.wait_for(last).expect("there is room again");
        kept = writer.finish().expect("nothing failed");
        assert_eq!(
            kept.mark().map(|mark| (mark.slot.0, mark.needed.lowest())),
            Some((slot, needed))
        );
    }
}

/// A checkpoint has the core keep much again, and nothing is said behind it before it is durable.
#[test]
fn what_is_durable_does_not_wait_for_the_disk_any_more() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = create(&disk);
    keeper
        .save(&state(1, 1), Then::Checkpointed { slot: Slot(1), state: Digest([1; 32]) })
        .expect("works");
    run_all(&mut keeper);
    vouch(&mut keeper, 1, 20);
    run_all(&mut keeper);
    assert_eq!(keeper.barrier().lag_entries(), 0, "all is durable");
    // A report, say: it leaves at once.
    assert_eq!(keeper.waiting_bytes(), 0, "above `disk_queue_bytes` the replica reads nothing");
}

/// A client cannot have more wait for the disk than its replica knows of.
#[test]
fn answers_that_wait_are_counted_for_their_client() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = create(&disk);
    let (asks, other) = (ClientId([1; 32]), ClientId([2; 32]));
    let answer = |number| ToClient::Answer { number, result: vec![7; 1_000].into() };
    assert_eq!(keeper.hold_answer(asks, answer(1)), Some(answer(1)), "nothing was executed");
    keep(&mut keeper, 1);
    keeper.executed();
    for number in 2..4 {
        assert_eq!(keeper.hold_answer(asks, answer(number)), None);
        assert!(keeper.answer_bytes(&asks) > 1_000 * (number as usize - 1));
    }
    assert_eq!(keeper.answer_bytes(&other), 0);
    run_all(&mut keeper);
    for number in 2..4 {
        assert_eq!(keeper.next_answer(), Some((asks, answer(number))));
    }
    assert_eq!((keeper.next_answer(), keeper.answer_bytes(&asks)), (None, 0));
}
