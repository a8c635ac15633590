//! States that are kept in the log: through crashes, with damaged files, and when the log is cut.

use crate::workload::identity;
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::CoreEffect;
use pentarchy_core::ids::Slot;
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_sim::disk::{Fate, Faults, SimDisk};
use pentarchy_sim::rng::Rng;
use pentarchy_sim::world::membership;
use pentarchy_storage::backup::{self, Backup};
use pentarchy_storage::error::StorageError;
use pentarchy_storage::kept::{
    Backing as _, Certificates, DurableStore, EntryLog as _, Job, Kept, LOG, Newest, Past,
    SNAPSHOTS, Stepped, Then, Writer, newest_state,
};
use pentarchy_storage::log::Options;
use std::sync::Arc;

fn first() -> Arc<Membership> {
    Arc::new(membership(1, 3, 1))
}

/// Segments of 4 KiB, up to 64 of them, and states of which up to 900 bytes changed. A state goes
/// into files when the log has grown by 32 KiB.
fn options() -> Options {
    let options = crate::workload::options(1);
    Options { bytes_max: 64 * 8 * 512, state_bytes_max: 900, ..options }
}

/// A state, of which `part` changes, and with it `large` sections.
fn state(slot: u64, part: u8, large: u8) -> Snapshot {
    let section = |index: u8| match index {
        0 => vec![part; 300],
        // Empty at times.
        1 => vec![part; usize::from(part % 3)],
        _ => vec![if index < 2 + large { part } else { index }; 700],
    };
    Snapshot::new(Slot(slot), Tree::of(Slot(slot), (0..8).map(section)))
}

fn create(disk: &SimDisk) -> DurableStore<Stepped> {
    let kept = Kept::create(&mut *disk.root(), identity(), first(), options());
    DurableStore::new(Stepped::new(kept.expect("an empty disk")), None, Certificates::default())
}

fn open(disk: &SimDisk) -> (DurableStore<Stepped>, Past) {
    let (kept, past) = try_open(disk).expect("something to go on from");
    let newest = past.snapshot().map(|state| Base { slot: state.slot, state: state.digest });
    (DurableStore::new(Stepped::new(kept), newest, Certificates::default()), past)
}

fn try_open(disk: &SimDisk) -> Result<(Kept, Past), StorageError> {
    Kept::open(&mut *disk.root(), identity(), &first(), options())
}

fn save(keeper: &mut DurableStore<Stepped>, state: &Snapshot) {
    let then = Then::Checkpointed { slot: state.slot, state: state.digest };
    keeper.save(state, then).expect("nothing failed");
}

fn vouch(keeper: &mut DurableStore<Stepped>, slot: u64) -> Result<(), StorageError> {
    keeper.stable(Slot(slot), Vec::new(), 0)?;
    keep(keeper, 100)?;
    keeper.end_of_step()
}

fn keep(keeper: &mut DurableStore<Stepped>, content: u8) -> Result<(), StorageError> {
    keeper.barrier_mut().hold(CoreEffect::Persist(vec![content; 300].into())).map(drop)
}

fn run(keeper: &mut DurableStore<Stepped>, job: Job) -> bool {
    let begun = keeper.backing_mut().begin(job);
    keeper.backing_mut().end(job).expect("nothing fails");
    keeper.look().expect("nothing failed");
    begun
}

fn run_all(keeper: &mut DurableStore<Stepped>) {
    while run(keeper, Job::Log) | run(keeper, Job::States) {}
}

/// Slots of the states that may be vouched for by now.
fn told(keeper: &mut DurableStore<Stepped>) -> Vec<u64> {
    let mut slots = Vec::new();
    while let Some(then) = keeper.next_saved().expect("nothing failed") {
        if let Then::Checkpointed { slot, .. } = then {
            slots.push(slot.0);
        }
    }
    slots
}

fn files(disk: &SimDisk, ending: &str) -> Vec<String> {
    disk.paths().into_iter().filter(|path| path.ends_with(ending)).collect()
}

#[test]
fn a_state_of_which_little_changed_needs_a_sync_of_the_log_and_no_file() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = create(&disk);
    save(&mut keeper, &state(1, 1, 0));
    run_all(&mut keeper);
    assert_eq!((told(&mut keeper), files(&disk, ".snapshot").len()), (vec![1], 1));
    for slot in 2..=9 {
        save(&mut keeper, &state(slot, slot as u8, 0));
        assert_eq!(told(&mut keeper), [], "it is not durable");
        run(&mut keeper, Job::Log);
        assert_eq!(told(&mut keeper), [slot]);
        assert!(!run(&mut keeper, Job::States), "nothing is left to be done");
    }
    assert_eq!(files(&disk, ".snapshot").len(), 1);
    assert_eq!(open(&disk).1.snapshot(), Some(&state(9, 9, 0)));
    // Of this one much changed.
    save(&mut keeper, &state(10, 10, 3));
    run(&mut keeper, Job::Log);
    assert_eq!(told(&mut keeper), []);
    // What rests on it is not durable before it is.
    save(&mut keeper, &state(11, 11, 3));
    save(&mut keeper, &state(12, 11, 3));
    run(&mut keeper, Job::Log);
    assert_eq!(told(&mut keeper), []);
    run_all(&mut keeper);
    assert_eq!(told(&mut keeper), [10, 11, 12]);
    assert_eq!(open(&disk).1.snapshot(), Some(&state(12, 11, 3)));
}

#[test]
fn what_others_rest_on_is_saved_although_a_newer_state_is_stable() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = create(&disk);
    // The disk saves the first; the second and what rests on it come meanwhile.
    save(&mut keeper, &state(1, 1, 0));
    run(&mut keeper, Job::Log);
    keeper.backing_mut().begin(Job::States);
    save(&mut keeper, &state(2, 2, 5));
    save(&mut keeper, &state(3, 3, 0));
    save(&mut keeper, &state(4, 3, 1));
    save(&mut keeper, &state(5, 5, 6));
    vouch(&mut keeper, 5).expect("nothing failed");
    run(&mut keeper, Job::Log);
    keeper.backing_mut().end(Job::States).expect("nothing fails");
    run_all(&mut keeper);
    assert_eq!(told(&mut keeper), [1, 2, 3, 4, 5]);
    assert_eq!(open(&disk).1.snapshot(), Some(&state(5, 5, 6)));
}

/// A keeper whose log has grown by so many states, each stable as soon as it is there.
fn grown(disk: &SimDisk, slots: std::ops::RangeInclusive<u64>) -> DurableStore<Stepped> {
    let mut keeper = create(disk);
    for slot in slots {
        (0..4).for_each(|_| keep(&mut keeper, 1).expect("room"));
        save(&mut keeper, &state(slot, slot as u8, 0));
        run(&mut keeper, Job::Log);
        vouch(&mut keeper, slot).expect("room");
        run_all(&mut keeper);
        assert!(keeper.backing().full().is_none() && !keeper.backing().is_behind());
    }
    keeper
}

#[test]
fn a_log_that_grows_is_cut_and_one_state_in_many_goes_into_files() {
    let disk = SimDisk::new(1, Faults::default());
    grown(&disk, 1..=400);
    let (segments, lists) = (files(&disk, ".log").len(), files(&disk, ".snapshot"));
    assert!((8..=40).contains(&segments), "{segments} segments of 4 KiB");
    assert!((2..=3).contains(&lists.len()), "{lists:?}");
    // About 1.8 KiB for each slot.
    let newest = format!("{:016x}", 380);
    assert!(lists.last().is_some_and(|last| last.contains(&newest[..14])), "{lists:?}");
    let (_, past) = open(&disk);
    assert_eq!(past.snapshots, [state(400, 400_u64 as u8, 0)]);
    assert_eq!(past.entries.len(), 1, "only what was kept again for the last one");
}

/// A state whose turn comes to go into files when a later one is there already.
#[test]
fn a_stable_state_does_not_take_the_place_of_a_later_one_in_files() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = grown(&disk, 1..=2);
    save(&mut keeper, &state(3, 3, 0));
    run_all(&mut keeper);
    let later = state(4, 4, 6);
    save(&mut keeper, &later);
    run_all(&mut keeper);
    assert_eq!(told(&mut keeper).last(), Some(&4));
    // Long before a quorum vouches for the first of them.
    for _ in 0..150 {
        keep(&mut keeper, 1).expect("room");
        run(&mut keeper, Job::Log);
    }
    for slot in [3, 4] {
        vouch(&mut keeper, slot).expect("room");
        run_all(&mut keeper);
    }
    assert_eq!(open(&disk).1.snapshot(), Some(&later));
}

#[test]
fn damaged_files_are_passed_over_and_what_rests_on_them_rests_on_those_before() {
    let disk = SimDisk::new(1, Faults::default());
    grown(&disk, 1..=400);
    let lists = files(&disk, ".snapshot");
    let last = &lists[lists.len() - 1];
    disk.tamper(last, Some(vec![7; 100]));
    let (mut keeper, past) = open(&disk);
    assert_eq!((past.snapshot(), past.damaged.len()), (Some(&state(400, 144, 0)), 1));
    // The next state goes into files, and the damaged one goes.
    save(&mut keeper, &state(401, 1, 0));
    run_all(&mut keeper);
    let (_, past) = open(&disk);
    assert_eq!((past.snapshot(), past.damaged.len()), (Some(&state(401, 1, 0)), 0));
    lists.iter().for_each(|list| disk.tamper(list, Some(vec![7; 100])));
    disk.tamper(&format!("{SNAPSHOTS}/{:016x}.snapshot", 401), Some(vec![7; 100]));
    assert!(matches!(try_open(&disk).err(), Some(StorageError::Corrupt { .. })));
}

/// What rots in files while memory has newer states only: those take the place of the files.
#[test]
fn rotten_files_of_an_older_state_are_replaced_by_newer_ones() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = grown(&disk, 1..=2);
    let pack = files(&disk, ".pack").pop().expect("it is there");
    let mut rotten = disk.content(&pack);
    // In section 0, of which newer states have something else.
    rotten[60] ^= 1;
    disk.tamper(&pack, Some(rotten));
    assert!(newest_state(disk.root().folder(SNAPSHOTS).expect("it is there"), None).is_err());
    let newer = state(3, 3, 0);
    save(&mut keeper, &newer);
    run_all(&mut keeper);
    keeper.backing_mut().scrub();
    keeper.backing_mut().repair(std::iter::once(newer.clone()));
    // Nobody asks for anything meanwhile.
    run_all(&mut keeper);
    assert!(!files(&disk, ".pack").contains(&pack), "{:?}", files(&disk, ".pack"));
    assert!(newest_state(disk.root().folder(SNAPSHOTS).expect("it is there"), None).is_ok());
    let (_, past) = open(&disk);
    assert_eq!((past.snapshot(), past.damaged.len()), (Some(&newer), 0));
}

/// The same where the newer state is in files already: those before it go.
#[test]
fn rotten_files_that_are_only_in_reserve_go() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = grown(&disk, 1..=2);
    let pack = files(&disk, ".pack").pop().expect("it is there");
    let newer = state(3, 3, 6);
    save(&mut keeper, &newer);
    run_all(&mut keeper);
    vouch(&mut keeper, 3).expect("room");
    run_all(&mut keeper);
    assert_eq!(files(&disk, ".snapshot").len(), 2, "the one before stays in reserve");
    let mut rotten = disk.content(&pack);
    rotten[60] ^= 1;
    disk.tamper(&pack, Some(rotten));
    keeper.backing_mut().scrub();
    keeper.backing_mut().repair(std::iter::once(newer.clone()));
    run_all(&mut keeper);
    assert!(!files(&disk, ".pack").contains(&pack), "{:?}", files(&disk, ".pack"));
    assert_eq!(files(&disk, ".snapshot").len(), 1);
    let (_, past) = open(&disk);
    assert_eq!((past.snapshot(), past.damaged.len()), (Some(&newer), 0));
}

#[test]
fn wrong_states_in_the_log_do_not_come_back() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = grown(&disk, 1..=20);
    for slot in 21..=24 {
        save(&mut keeper, &state(slot, 99, 0));
    }
    run(&mut keeper, Job::Log);
    // The group says what is right.
    let right = state(22, 1, 0);
    keeper.save(&right, Then::Installed { slot: Slot(22) }).expect("nothing failed");
    run_all(&mut keeper);
    assert_eq!(open(&disk).1.snapshot(), Some(&right));
    save(&mut keeper, &state(23, 23, 0));
    run_all(&mut keeper);
    let (_, past) = open(&disk);
    assert_eq!((past.snapshot(), past.damaged.len()), (Some(&state(23, 23, 0)), 0));
}

#[test]
fn a_log_that_is_nearly_full_gets_no_states() {
    let disk = SimDisk::new(1, Faults::default());
    let mut keeper = grown(&disk, 1..=20);
    while files(&disk, ".log").len() < 50 {
        keep(&mut keeper, 1).expect("room");
        run_all(&mut keeper);
    }
    let before = files(&disk, ".snapshot").len();
    save(&mut keeper, &state(21, 21, 0));
    run_all(&mut keeper);
    assert_eq!(files(&disk, ".snapshot").len(), before + 1);
    vouch(&mut keeper, 21).expect("room");
    run_all(&mut keeper);
    // There is room again: these are in the log, until one goes into files and it is cut.
    for slot in 22..=80 {
        (0..2).for_each(|_| keep(&mut keeper, 1).expect("room"));
        save(&mut keeper, &state(slot, slot as u8, 0));
        run_all(&mut keeper);
        vouch(&mut keeper, slot).expect("room");
        run_all(&mut keeper);
    }
    assert!(files(&disk, ".snapshot").len() < 4, "{:?}", files(&disk, ".snapshot"));
    assert!(files(&disk, ".log").len() < 40, "{:?}", files(&disk, ".log"));
    assert_eq!(open(&disk).1.snapshot(), Some(&state(80, 80, 0)));
}

/// One life of a replica on a disk that fails at some time. Gives the newest state that it may
/// have vouched for, and all that it handed over.
struct Life {
    slot: u64,
    vouched: Option<Snapshot>,
    handed: Vec<Snapshot>,
}

impl Life {
    fn live(
        &mut self,
        disk: &SimDisk,
        rng: &mut Rng,
        created: &mut bool,
    ) -> Result<(), StorageError> {
        let kept = if *created {
            let (kept, past) = try_open(disk)?;
            self.check(&past);
            kept
        } else {
            let kept = Kept::create(&mut *disk.root(), identity(), first(), options())?;
            *created = true;
            kept
        };
        let newest = self.handed.last().map(|it| Base { slot: it.slot, state: it.digest });
        let mut keeper = DurableStore::new(Stepped::new(kept), newest, Certificates::default());
        for _ in 0..rng.range(20, 120) {
            match rng.below(8) {
                0 | 1 => keep(&mut keeper, rng.next_u64() as u8)?,
                2 | 3 => {
                    self.slot += 64;
                    let large = if rng.percent(10) { 5 } else { 0 };
                    let state = state(self.slot, rng.next_u64() as u8, large);
                    self.handed.push(state.clone());
                    let then = Then::Checkpointed { slot: state.slot, state: state.digest };
                    keeper.save(&state, then)?;
                }
                4 => {
                    let stable = self.vouched.as_ref().map(|state| state.slot.0);
                    if let Some(slot) = stable {
                        vouch(&mut keeper, slot)?;
                    }
                }
                5 => drop(keeper.backing_mut().begin(Job::States)),
                6 => keeper.backing_mut().end(Job::States)?,
                _ => {
                    keeper.backing_mut().begin(Job::Log);
                    keeper.backing_mut().end(Job::Log)?;
                }
            }
            keeper.look()?;
            while let Some(then) = keeper.next_saved()? {
                if let Then::Checkpointed { slot, .. } = then {
                    self.vouched = self.handed.iter().find(|state| state.slot == slot).cloned();
                }
            }
        }
        Ok(())
    }

    fn check(&mut self, past: &Past) {
        assert!(past.damaged.is_empty(), "{:?}", past.damaged);
        for found in &past.snapshots {
            assert!(self.handed.contains(found), "nobody had the state of {}", found.slot);
        }
        let newest = past.snapshot().map(|state| state.slot);
        let vouched = self.vouched.as_ref().map(|state| state.slot);
        assert!(newest >= vouched, "{vouched:?} was vouched for, and {newest:?} is there");
        // What was not on the disk does not come back.
        self.handed.retain(|state| Some(state.slot) <= newest);
        self.slot = newest.map_or(0, |slot| slot.0);
    }
}

#[test]
fn a_crash_at_any_operation_leaves_what_was_vouched_for() {
    for run in 0..600 {
        let disk = SimDisk::new(run, Faults { tears_sectors: true, ..Faults::default() });
        let (mut rng, mut created) = (Rng::new(run), false);
        let mut life = Life { slot: 0, vouched: None, handed: Vec::new() };
        for number in 0..5 {
            let fate = if rng.percent(70) { Fate::Stops } else { Fate::Fails };
            disk.choose(disk.operations() + rng.below(120), fate);
            match life.live(&disk, &mut rng, &mut created) {
                Ok(()) | Err(StorageError::Disk(_) | StorageError::Failed { .. }) => {}
                Err(other) => panic!("run {run}, life {number}: {other}"),
            }
            disk.restart();
            if rng.percent(70) {
                disk.lose_power();
            }
        }
        if created {
            let (_, past) = try_open(&disk).unwrap_or_else(|error| panic!("run {run}: {error}"));
            life.check(&past);
        }
    }
}

#[test]
fn the_threads_keep_states_in_the_log_too() {
    let disk = SimDisk::new(1, Faults::default());
    let kept = Kept::create(&mut *disk.root(), identity(), first(), options());
    let mut writer = Writer::start(kept.expect("an empty disk"), Box::new(|| ())).expect("threads");
    let segments = || disk.paths().iter().filter(|path| path.starts_with(LOG)).count();
    let mut slot = 0;
    // The log is cut when the other thread has copied a state into files, which takes it as many
    // states as it takes on a busy machine.
    while slot < 300 || (segments() >= 40 && slot < 30_000) {
        slot += 1;
        let number = writer.save(state(slot, slot as u8, 0)).expect("it works");
        writer.write();
        while writer.saved().expect("nothing failed") < number {
            std::thread::yield_now();
        }
        let needed = writer.next();
        writer.stable(Slot(slot), needed).expect("it works");
    }
    let lists = files(&disk, ".snapshot");
    assert!(lists.len() < 6, "{lists:?}");
    writer.finish().expect("it works");
    assert!(segments() < 40, "{slot} states, {} segments", segments());
    assert_eq!(open(&disk).1.snapshot().map(|state| state.digest), Some(digest(slot)));
}

#[test]
fn who_only_looks_finds_the_newest_state_too() {
    let disk = SimDisk::new(1, Faults::default());
    grown(&disk, 1..=100);
    let before = disk.copy();
    let snapshots = || disk.root().folder(SNAPSHOTS).expect("it is there");
    let log = disk.root().folder(LOG).expect("it is there");
    let found = newest_state(snapshots(), Some(&*log)).expect("intact");
    assert_eq!(found, Some((identity(), state(100, 100, 0))));
    let (_, older) = newest_state(snapshots(), None).expect("intact").expect("it is in files");
    assert!((1..100).contains(&older.slot.0), "{}", older.slot);
    // The same piece by piece, into a backup.
    let newest = Newest::find(snapshots(), Some(&*log)).expect("intact").expect("it is there");
    let mut written = Vec::new();
    let described = backup::write(&newest, &mut written).expect("room");
    let (identity, snapshot) = found.expect("just seen");
    assert_eq!(written, Backup { identity, snapshot }.to_bytes());
    let checked = backup::check(&mut &written[..], written.len() as u64);
    assert_eq!(checked.expect("it can be read"), Ok(described));
    assert!(disk.paths().iter().all(|path| disk.content(path) == before.content(path)));
}

fn digest(slot: u64) -> Digest {
    state(slot, slot as u8, 0).digest
}
