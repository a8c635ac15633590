//! What a replica keeps, through crashes, and the thread that writes it.

use crate::workload::identity;
use bytes::Bytes;
use pentarchy_core::counter::{Instance, Position};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Handover, Proof, Witnesses};
use pentarchy_core::ids::{Epoch, Incarnation, Slot, View};
use pentarchy_core::membership::{Base, Member, Membership, PillarConfig};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_sim::disk::{Fate, Faults, SimDisk};
use pentarchy_sim::rng::Rng;
use pentarchy_sim::world::membership;
use pentarchy_storage::disk::{DiskError, File, Folder};
use pentarchy_storage::error::StorageError;
use pentarchy_storage::folder::OsFolder;
use pentarchy_storage::kept::{
    Backing as _, Entry, EntryLog as _, EpochStart, Kept, Past, SNAPSHOTS, Writer,
};
use pentarchy_storage::log::Options;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

fn options(seed: u64) -> Options {
    Options { bytes_max: 1 << 18, ..crate::workload::options(seed) }
}

fn first() -> Arc<Membership> {
    Arc::new(membership(1, 3, 1))
}

fn tearing(seed: u64) -> SimDisk {
    SimDisk::new(seed, Faults { tears_sectors: true, ..Faults::default() })
}

/// Entry `number` of a run: whoever knows the number knows the entry.
fn entry(run: u64, number: u64) -> Entry {
    let mut rng = Rng::new(run ^ number.rotate_left(17));
    if rng.percent(50) {
        let (position, digest) =
            (Position::new(View(3), number), Digest::of(&number.to_le_bytes()));
        return Entry::Certified { instance: Instance(number as u8 % 3), position, digest };
    }
    let size = rng.below(400);
    Entry::Record((0..size).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>().into())
}

fn snapshot(run: u64, slot: u64) -> Snapshot {
    let bytes = |index: u64| vec![(run ^ index ^ if index < 2 { slot } else { 0 }) as u8; 700];
    Snapshot::new(Slot(slot), Tree::of(Slot(slot), (0..6).map(bytes)))
}

/// The epoch behind this one, with a proof in which nobody's name stands.
fn next_epoch(before: &Membership, state: &Snapshot) -> (Arc<Membership>, Proof) {
    let mut lives: Vec<_> = before.members.iter().map(Member::life).collect();
    lives[1].incarnation = Incarnation(lives[1].incarnation.0 + 1);
    let base = Base { slot: state.slot, state: state.digest };
    let handover = Handover { epoch: before.epoch, base, lives, next: None };
    let next = Arc::new(before.after(&handover));
    (next, Proof { handover, next: None, by: Witnesses::Members, signatures: Vec::new() })
}

/// What a run knows, as acknowledged and as tried.
struct Model {
    run: u64,
    created: bool,
    /// The epoch that was begun last, and whether that is durable; and its first entry.
    epoch: (Arc<Membership>, u64),
    durable_epoch: u64,
    /// The last slot of a state whose saving was tried.
    slot: u64,
    /// Slots of states that were saved, from the last stable one on as far as that is known.
    saved: Vec<u64>,
    /// The last slot that was called stable, and the lowest entry that is needed since.
    stable: (u64, u64),
    /// Numbers of the entries of the last epoch that are needed; those below `durable` are durable.
    entries: Vec<u64>,
    durable: u64,
}

impl Model {
    fn new(run: u64) -> Self {
        Self {
            run,
            created: false,
            epoch: (first(), 1),
            durable_epoch: 0,
            slot: 0,
            saved: Vec::new(),
            stable: (0, 1),
            entries: Vec::new(),
            durable: 1,
        }
    }

    fn open(&mut self, disk: &SimDisk) -> Result<Kept, StorageError> {
        let options = options(self.run);
        if !self.created {
            let kept = Kept::create(&mut *disk.root(), identity(), first(), options)?;
            self.created = true;
            self.durable_epoch = self.epoch.0.epoch.0;
            return Ok(kept);
        }
        let (kept, past) = Kept::open(&mut *disk.root(), identity(), &first(), options)?;
        self.check(&past);
        if past.membership != self.epoch.0 {
            self.epoch = (past.membership.clone(), 0);
        }
        self.durable_epoch = past.membership.epoch.0;
        self.durable = kept.next();
        self.stable = kept.mark().map_or((0, 1), |mark| (mark.slot.0, mark.needed.lowest()));
        self.entries = past.entries.iter().map(|(number, _)| *number).collect();
        self.saved = past.snapshots.iter().map(|snapshot| snapshot.slot.0).collect();
        self.slot = self.saved.last().copied().unwrap_or(0);
        Ok(kept)
    }

    fn check(&self, past: &Past) {
        assert!(past.damaged.is_empty(), "{:?}", past.damaged);
        let epoch = past.membership.epoch.0;
        assert!((self.durable_epoch..=self.epoch.0.epoch.0).contains(&epoch));
        assert_eq!(past.proof.is_some(), epoch > first().epoch.0);
        let slots: Vec<u64> = past.snapshots.iter().map(|snapshot| snapshot.slot.0).collect();
        for wanted in self.saved.iter().filter(|slot| **slot >= self.stable.0) {
            assert!(slots.contains(wanted), "the state of {wanted} was saved: {slots:?}");
        }
        assert!(slots.is_sorted() && slots.iter().all(|slot| *slot <= self.slot), "{slots:?}");
        for found in &past.snapshots {
            assert_eq!(*found, snapshot(self.run, found.slot.0));
        }
        for (number, found) in &past.entries {
            assert_eq!(*found, entry(self.run, *number));
        }
        if epoch != self.epoch.0.epoch.0 {
            return;
        }
        assert_eq!(past.membership, self.epoch.0);
        let found: Vec<u64> = past.entries.iter().map(|(number, _)| *number).collect();
        assert!(found.iter().all(|number| *number >= self.epoch.1), "of an epoch before");
        for wanted in self.entries.iter().filter(|number| **number < self.durable) {
            assert!(found.contains(wanted), "{wanted} was durable: {found:?}");
        }
    }

    fn work(&mut self, kept: &mut Kept, rng: &mut Rng) -> Result<(), StorageError> {
        for _ in 0..12 {
            for _ in 0..rng.below(5) {
                let number = kept.next();
                self.entries.push(number);
                assert_eq!(kept.append(&entry(self.run, number))?, number);
            }
            if rng.percent(60) {
                self.commit(kept)?;
            }
            match rng.below(8) {
                0 => {
                    let state = self.save(kept)?;
                    let (next, proof) = next_epoch(&self.epoch.0, &state);
                    self.epoch = (next.clone(), kept.next());
                    self.entries.clear();
                    let begun = kept.begin_epoch(EpochStart::within(next, Some(proof)))?;
                    self.stable(kept, state.slot.0, begun)?;
                }
                1..=3 => drop(self.save(kept)?),
                4 | 5 => {
                    let newer = self.saved.iter().filter(|slot| **slot > self.stable.0);
                    let newer: Vec<u64> = newer.copied().collect();
                    if !newer.is_empty() {
                        let low = kept.durable().saturating_sub(9).max(self.stable.1);
                        let needed = rng.range(low, kept.next());
                        self.stable(kept, *rng.pick(&newer), needed)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn commit(&mut self, kept: &mut Kept) -> Result<(), StorageError> {
        self.durable = kept.commit()?;
        self.durable_epoch = self.epoch.0.epoch.0;
        Ok(())
    }

    fn save(&mut self, kept: &mut Kept) -> Result<Snapshot, StorageError> {
        self.slot += 64;
        let state = snapshot(self.run, self.slot);
        kept.save(&state)?;
        self.saved.push(self.slot);
        self.durable = kept.durable();
        self.durable_epoch = self.epoch.0.epoch.0;
        Ok(state)
    }

    /// From now on entries below `needed`, and earlier states, may be gone.
    fn stable(&mut self, kept: &mut Kept, slot: u64, needed: u64) -> Result<(), StorageError> {
        self.stable = (slot, needed);
        self.entries.retain(|number| *number >= needed);
        kept.stable(Slot(slot), needed)?;
        if self.run.is_multiple_of(2) {
            self.commit(kept)?;
        }
        Ok(())
    }
}

#[test]
fn a_crash_at_any_operation_leaves_the_epoch_its_entries_and_a_state() {
    for run in 0..400 {
        let disk = tearing(run);
        let (mut model, mut rng) = (Model::new(run), Rng::new(run));
        for life in 0..4 {
            let fate = if rng.percent(70) { Fate::Stops } else { Fate::Fails };
            disk.choose(disk.operations() + rng.below(90), fate);
            let ended = model.open(&disk).and_then(|mut kept| model.work(&mut kept, &mut rng));
            match ended {
                Ok(()) | Err(StorageError::Disk(_) | StorageError::Failed { .. }) => {}
                Err(other) => panic!("run {run}, life {life}: {other}"),
            }
            disk.restart();
            if rng.percent(70) {
                disk.lose_power();
            }
        }
        model.open(&disk).unwrap_or_else(|error| panic!("run {run}: {error}"));
    }
}

#[test]
fn what_was_kept_is_not_begun_anew() {
    let disk = tearing(1);
    let create = || Kept::create(&mut *disk.root(), identity(), first(), options(1));
    drop(create().expect("an empty disk"));
    let mut kept = create().expect("nothing was kept in it");
    kept.append(&entry(1, kept.next())).expect("room");
    kept.commit().expect("nothing fails");
    drop(kept);
    assert!(matches!(create().err(), Some(StorageError::Unexpected { .. })));
}

/// Slots mean something else there: a replica that went on would contradict itself.
#[test]
fn what_was_kept_of_a_split_order_is_not_that_of_another() {
    let split = |pillars, rotates| {
        let lane = PillarConfig { pillars, rotates, pillar: None };
        Arc::new(Membership { lane, ..membership(1, 3, 1) })
    };
    let all = [split(1, false), split(2, false), split(2, true), split(3, false)];
    for (run, kept_of) in (0..).zip(&all) {
        let disk = tearing(run);
        let create = Kept::create(&mut *disk.root(), identity(), kept_of.clone(), options(run));
        let mut kept = create.expect("an empty disk");
        // A mark says it too.
        kept.begin_cut();
        kept.save(&snapshot(run, 64)).expect("room");
        kept.stable(Slot(64), kept.next()).expect("room");
        kept.commit().expect("nothing fails");
        drop(kept);
        for first in &all {
            match Kept::open(&mut *disk.root(), identity(), first, options(run)) {
                Ok((_, past)) => assert!(first == kept_of && past.membership == *first),
                Err(StorageError::Split { found, asked }) => {
                    assert_ne!(first, kept_of);
                    assert_eq!((found, asked), (kept_of.lane, first.lane));
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// Also if that group has more members, whose lives the log names.
#[test]
fn a_log_of_another_configuration_is_refused() {
    let of = |n: usize, name: &[u8]| {
        let configuration = Digest::of(name);
        Arc::new(Membership { configuration, ..membership(1, n, 1) })
    };
    let (first, again, later) = (of(3, b"first"), of(3, b"again"), Epoch(1));
    let disk = tearing(7);
    let create = Kept::create(&mut *disk.root(), identity(), first.clone(), options(7));
    let mut kept = create.expect("an empty disk");
    let second = Membership { epoch: later, ..(*first).clone() };
    kept.begin_epoch(EpochStart::within(Arc::new(second), None)).expect("room");
    kept.commit().expect("nothing fails");
    drop(kept);
    let open = |group: &Arc<Membership>| {
        Kept::open(&mut *disk.root(), identity(), group, options(7)).map(|(_, past)| past)
    };
    for other in [again, of(4, b"larger")] {
        match open(&other) {
            Err(StorageError::OtherConfiguration { found, asked }) => {
                assert_eq!((found, asked), (first.configuration, other.configuration));
            }
            Err(error) => panic!("{error}"),
            Ok(past) => panic!("resumed in {}", past.membership.epoch),
        }
    }
    assert_eq!(open(&first).expect("its own").membership.epoch, later);
}

#[test]
fn a_full_log_still_takes_a_checkpoint_which_makes_room() {
    let disk = tearing(9);
    let small = Options { bytes_max: 3 * 8 * 512, ..options(9) };
    drop(Kept::create(&mut *disk.root(), identity(), first(), small).expect("an empty disk"));
    let record = |content| Entry::Record(vec![content; 300].into());
    for slot in 1..=5 {
        // It has stopped, as it was full, and goes on as it was.
        let opened = Kept::open(&mut *disk.root(), identity(), &first(), small);
        let mut kept = opened.expect("intact").0;
        let refused = (0..200).find_map(|_| {
            kept.commit().expect("nothing fails");
            kept.append(&record(0)).err()
        });
        assert!(matches!(refused, Some(StorageError::Full { .. })), "{slot}: {refused:?}");
        drop(kept);
        let opened = Kept::open(&mut *disk.root(), identity(), &first(), small);
        let mut kept = opened.expect("intact").0;
        kept.save(&snapshot(9, slot)).expect("a state needs no room in the log");
        let needed = kept.next();
        kept.begin_cut();
        for _ in 0..20 {
            kept.append(&record(slot as u8)).expect("what is needed beside it has room");
        }
        kept.stable(Slot(slot), needed).expect("a checkpoint has room");
        kept.commit().expect("nothing fails");
        kept.append(&record(100)).expect("there is room again, without the reserve");
        kept.commit().expect("nothing fails");
        drop(kept);
        let (_, past) = Kept::open(&mut *disk.root(), identity(), &first(), small).expect("intact");
        let entries: Vec<&Entry> = past.entries.iter().map(|(_, entry)| entry).collect();
        assert_eq!(entries[..20], vec![&record(slot as u8); 20], "{slot}");
        assert_eq!((slots(&past).last(), entries.len()), (Some(&slot), 21));
    }
}

/// A replica with five checkpoints, 40 entries before each. Gives the next entry.
fn with_checkpoints(disk: &SimDisk, run: u64, stable: &[u64]) -> u64 {
    let mut kept =
        Kept::create(&mut *disk.root(), identity(), first(), options(run)).expect("an empty disk");
    for slot in 1..=5 {
        for _ in 0..40 {
            kept.append(&entry(run, kept.next())).expect("room");
        }
        kept.save(&snapshot(run, slot)).expect("room");
        if stable.contains(&slot) {
            kept.stable(Slot(slot), kept.next()).expect("room");
            kept.commit().expect("nothing fails");
        }
    }
    kept.next()
}

fn damage(disk: &SimDisk, slot: u64) {
    let list = format!("{SNAPSHOTS}/{slot:016x}.snapshot");
    assert!(!disk.content(&list).is_empty(), "it is there");
    disk.tamper(&list, Some(vec![7; 100]));
}

fn open(disk: &SimDisk, run: u64) -> Result<(Kept, Past), StorageError> {
    Kept::open(&mut *disk.root(), identity(), &first(), options(run))
}

fn slots(past: &Past) -> Vec<u64> {
    past.snapshots.iter().map(|snapshot| snapshot.slot.0).collect()
}

#[test]
fn a_damaged_snapshot_is_passed_over_and_its_log_is_still_there() {
    let disk = tearing(2);
    let last = with_checkpoints(&disk, 2, &[1, 2, 3, 4, 5]);
    damage(&disk, 5);
    let (kept, past) = open(&disk, 2).expect("one is intact");
    assert_eq!((slots(&past), past.damaged.len()), (vec![4], 1));
    let found: Vec<u64> = past.entries.iter().map(|(number, _)| *number).collect();
    // Two records say that a state is stable: the one of slot 4, and the last.
    let expected: Vec<u64> = (last - 41..last - 1).collect();
    assert_eq!((found, kept.next()), (expected, last));
}

#[test]
fn a_state_that_is_not_stable_yet_is_kept_beside_those_that_are() {
    let disk = tearing(2);
    let last = with_checkpoints(&disk, 2, &[1, 2, 3]);
    let (_, past) = open(&disk, 2).expect("intact");
    assert_eq!(slots(&past), [3, 4, 5]);
    let needed = past.entries.first().map(|(number, _)| *number);
    assert_eq!((needed, past.entries.len()), (Some(last - 80), 80), "of both that came since");
    for (slot, left) in [(5, vec![3, 4]), (4, vec![3]), (3, vec![2])] {
        damage(&disk, slot);
        let (_, past) = open(&disk, 2).expect("one is intact");
        assert_eq!(slots(&past), left);
    }
    // What the state before the last stable one needs is there too.
    let (_, past) = open(&disk, 2).expect("one is intact");
    assert_eq!(past.entries.len(), 120);
    damage(&disk, 2);
    assert!(matches!(open(&disk, 2).err(), Some(StorageError::Corrupt { .. })));
}

#[test]
fn a_replica_goes_on_from_the_newest_state_that_could_be_read() {
    let disk = tearing(3);
    with_checkpoints(&disk, 3, &[1, 2, 3, 4]);
    let newest = disk.paths().into_iter().rfind(|path| path.ends_with(".pack"));
    let newest = newest.expect("it was written");
    let mut rotten = disk.content(&newest);
    *rotten.last_mut().expect("not empty") ^= 1;
    disk.tamper(&newest, Some(rotten));
    let (mut kept, past) = open(&disk, 3).expect("one is intact");
    assert_eq!((slots(&past), past.damaged.len(), kept.newest()), (vec![4], 1, Some(Slot(4))));
    for slot in 5..=8 {
        kept.save(&snapshot(3, slot)).expect("room");
        kept.stable(Slot(slot), kept.next()).expect("room");
        kept.commit().expect("nothing fails");
    }
    let (_, past) = open(&disk, 3).expect("intact");
    assert_eq!((slots(&past), past.damaged.len()), (vec![8], 0));
}

#[test]
fn a_log_that_ends_before_what_a_state_rests_on_is_not_its_log() {
    let disk = tearing(4);
    with_checkpoints(&disk, 4, &[1, 2]);
    let before = disk.copy();
    let mut kept = open(&disk, 4).expect("intact").0;
    kept.append(&entry(4, kept.next())).expect("room");
    kept.save(&snapshot(4, 6)).expect("room");
    drop(kept);
    for path in disk.paths().iter().filter(|path| path.ends_with(".log")) {
        disk.tamper(path, Some(before.content(path)).filter(|bytes| !bytes.is_empty()));
    }
    assert!(matches!(open(&disk, 4).err(), Some(StorageError::Missing { .. })));
}

#[test]
fn an_epoch_without_its_state_is_nothing_to_go_on_from() {
    let disk = tearing(3);
    let mut kept =
        Kept::create(&mut *disk.root(), identity(), first(), options(3)).expect("an empty disk");
    kept.save(&snapshot(3, 64)).expect("room");
    let (next, proof) = next_epoch(&first(), &snapshot(3, 128));
    let begun = kept.begin_epoch(EpochStart::within(next.clone(), Some(proof))).expect("room");
    kept.commit().expect("nothing fails");
    let (mut kept, past) = open(&disk, 3).expect("intact");
    assert_eq!((past.is_whole(), &past.membership), (false, &next));
    kept.save(&snapshot(3, 128)).expect("room");
    kept.stable(Slot(128), begun).expect("room");
    assert!(open(&disk, 3).expect("intact").1.is_whole());
}

#[test]
fn the_thread_keeps_everything_in_order_and_says_when_it_is_durable() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("data");
    let sizes = Options::new([4; 32]);
    let mut data = OsFolder::open(&path).expect("a new folder");
    let kept = Kept::create(&mut data, identity(), first(), sizes).expect("an empty folder");
    let (woken, woke) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let told = woken.clone();
    let wake = Box::new(move || {
        told.fetch_add(1, Ordering::SeqCst);
    });
    let mut writer = Writer::start(kept, wake).expect("a thread");
    let begin = writer.append(Entry::Record(Bytes::from_static(b"0"))).expect("it works");
    for number in begin + 1..begin + 3_000 {
        assert_eq!(writer.append(entry(4, number)).expect("it works"), number);
        if number % 500 == 0 {
            writer.wait_for(number).expect("it works");
            assert!(writer.durable().expect("it works") > number);
            woke.fetch_max(woken.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }
    let state = snapshot(4, 64);
    let end = writer.next();
    writer.save(state.clone()).expect("it works");
    writer.stable(Slot(64), begin + 1).expect("it works");
    drop(writer.finish().expect("it works"));
    assert!(woke.load(Ordering::SeqCst) > 0 && woken.load(Ordering::SeqCst) < 3_000, "in groups");
    let (kept, past) = Kept::open(&mut data, identity(), &first(), sizes).expect("intact");
    assert_eq!((kept.next(), past.snapshots), (end + 1, vec![state]));
    let expected = (begin + 1..end).map(|number| (number, entry(4, number)));
    assert!(past.entries.into_iter().eq(expected));
}

#[test]
fn while_the_disk_syncs_more_can_be_handed_over_and_is_not_yet_durable() {
    let disk = tearing(6);
    let (permit, permits) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let gate = Gate(Arc::new(Mutex::new((begun, permits))));
    let mut root = Gated { inner: disk.root(), gate };
    // Enough for what is synced while it is made.
    (0..9).for_each(|_| permit.send(()).expect("somebody waits"));
    // One segment, so that one sync is one commit.
    let large = Options { segment_bytes: 1 << 20, ..Options::new([6; 32]) };
    let kept = Kept::create(&mut root, identity(), first(), large).expect("an empty disk");
    let mut writer = Writer::start(kept, Box::new(|| ())).expect("a thread");
    let made = begins.try_iter().count();
    (made..9).for_each(|_| {
        let number = writer.append(entry(6, 1)).expect("it works");
        writer.wait_for(number).expect("it works");
    });
    assert_eq!(begins.try_iter().count(), 9 - made);
    let one = writer.append(entry(6, 2)).expect("it works");
    writer.write();
    begins.recv().expect("it syncs");
    let others: Vec<u64> =
        (0..5).map(|_| writer.append(entry(6, 3)).expect("nobody waits")).collect();
    assert_eq!(writer.durable().expect("it works"), one);
    permit.send(()).expect("it waits");
    writer.wait_for(one).expect("it works");
    writer.write();
    begins.recv().expect("it syncs all others");
    assert_eq!(writer.durable().expect("it works"), others[0]);
    permit.send(()).expect("it waits");
    writer.wait_for(others[4]).expect("it works");
    assert_eq!(begins.try_iter().count(), 0, "one sync for all");
    writer.finish().expect("it works");
}

#[test]
fn what_is_handed_over_before_it_is_to_be_written_is_one_group() {
    let disk = tearing(9);
    let large = Options { segment_bytes: 1 << 20, ..Options::new([9; 32]) };
    let kept = Kept::create(&mut *disk.root(), identity(), first(), large).expect("an empty disk");
    let mut writer = Writer::start(kept, Box::new(|| ())).expect("threads");
    let last = (0..500).map(|number| writer.append(entry(9, number)).expect("it works")).last();
    writer.wait_for(last.expect("there are some")).expect("it works");
    let groups: Vec<u64> = writer.measured().groups.iter().map(|group| group.entries).collect();
    assert_eq!(groups, [500]);
}

/// Says when a sync begins, and has it wait until it may.
#[derive(Clone)]
struct Gate(Arc<Mutex<(mpsc::Sender<()>, mpsc::Receiver<()>)>>);

struct Gated<T: ?Sized> {
    gate: Gate,
    inner: Box<T>,
}

impl File for Gated<dyn File> {
    fn size(&self) -> Result<u64, DiskError> {
        self.inner.size()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), DiskError> {
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.inner.write_at(bytes, offset)
    }
    fn preallocate(&mut self, size: u64) -> Result<(), DiskError> {
        self.inner.preallocate(size)
    }
    fn sync(&mut self) -> Result<(), DiskError> {
        let gate = self.gate.0.lock().expect("nobody panics");
        gate.0.send(()).expect("the test listens");
        gate.1.recv().expect("the test goes on");
        self.inner.sync()
    }
}

impl Folder for Gated<dyn Folder> {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.inner.list()
    }
    fn create(&mut self, name: &str) -> Result<Box<dyn File>, DiskError> {
        Ok(Box::new(Gated { inner: self.inner.create(name)?, gate: self.gate.clone() }))
    }
    fn open(&self, name: &str) -> Result<Box<dyn File>, DiskError> {
        self.inner.open(name)
    }
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.inner.rename(from, to)
    }
    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.inner.remove(name)
    }
    fn sync(&mut self) -> Result<(), DiskError> {
        self.inner.sync()
    }
    fn folder(&mut self, name: &str) -> Result<Box<dyn Folder>, DiskError> {
        Ok(Box::new(Gated { inner: self.inner.folder(name)?, gate: self.gate.clone() }))
    }
}

#[test]
fn while_a_state_is_saved_the_log_goes_on_and_does_not_call_it_stable() {
    let disk = tearing(7);
    let (permit, permits) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let gate = Gate(Arc::new(Mutex::new((begun, permits))));
    let mut root = OnlySnapshots { disk: disk.clone(), gate };
    let kept = Kept::create(&mut root, identity(), first(), options(7)).expect("an empty disk");
    let mut writer = Writer::start(kept, Box::new(|| ())).expect("a thread");
    writer.save(snapshot(7, 64)).expect("it works");
    begins.recv().expect("it syncs the pack");
    let needed = writer.next();
    writer.stable(Slot(64), needed).expect("it works");
    let mut last = 0;
    for number in needed..needed + 30 {
        last = writer.append(entry(7, number)).expect("it works");
        assert_eq!(last, number, "nothing comes in between");
        writer.wait_for(last).expect("the log goes on");
    }
    assert!(writer.is_saving());
    assert_eq!(writer.saved().expect("it works"), 0);
    for slot in [128, 192] {
        writer.save(snapshot(7, slot)).expect("it works");
    }
    // Pack and list, of each.
    (0..6).for_each(|_| permit.send(()).expect("it waits"));
    let kept = writer.finish().expect("it works");
    assert_eq!(kept.mark().map(|mark| (mark.slot.0, mark.needed.lowest())), Some((64, needed)));
    assert_eq!(kept.next(), last + 2);
    let (_, past) = open(&disk, 7).expect("intact");
    assert_eq!(slots(&past), [64, 128, 192]);
    assert_eq!(past.entries.len(), 30);
}

#[test]
fn what_is_under_way_at_the_end_is_done_and_the_log_is_cut() {
    for seed in 0..50 {
        let disk = tearing(seed);
        let mut kept = Kept::create(&mut *disk.root(), identity(), first(), options(seed))
            .expect("an empty disk");
        for slot in 1..=4 {
            let mut writer = Writer::start(kept, Box::new(|| ())).expect("threads");
            for number in 0..40 {
                writer.append(entry(seed, number)).expect("it works");
            }
            let needed = writer.append(entry(seed, 40)).expect("it works");
            writer.save(snapshot(seed, slot)).expect("it works");
            writer.stable(Slot(slot), needed).expect("it works");
            kept = writer.finish().expect("it works");
        }
        let (_, past) = open(&disk, seed).expect("intact");
        assert_eq!(slots(&past), [4]);
        assert_eq!(past.entries.len(), 1, "the one that is needed");
        assert!(past.recovered.first > 80, "{:?}", past.recovered);
    }
}

#[test]
fn no_state_is_saved_before_the_entries_that_it_rests_on_are_durable() {
    for seed in 0..50 {
        let disk = tearing(seed);
        let kept = Kept::create(&mut *disk.root(), identity(), first(), options(seed));
        disk.choose(disk.operations() + 1, Fate::Fails);
        let mut writer =
            Writer::start(kept.expect("an empty disk"), Box::new(|| ())).expect("threads");
        let entry = writer.append(entry(seed, 2)).expect("it works");
        // The log may have failed already.
        drop(writer.save(snapshot(seed, 64)));
        assert!(writer.wait_for(entry).is_err() && writer.saved().is_err());
        assert!(writer.finish().is_err());
        let there = |path: &String| path.contains(SNAPSHOTS);
        assert!(!disk.paths().iter().any(there), "{:?}", disk.paths());
    }
}

/// A data folder of which only the snapshots wait at the gate.
struct OnlySnapshots {
    disk: SimDisk,
    gate: Gate,
}

impl Folder for OnlySnapshots {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.disk.root().list()
    }
    fn create(&mut self, name: &str) -> Result<Box<dyn File>, DiskError> {
        self.disk.root().create(name)
    }
    fn open(&self, name: &str) -> Result<Box<dyn File>, DiskError> {
        self.disk.root().open(name)
    }
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.disk.root().rename(from, to)
    }
    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.disk.root().remove(name)
    }
    fn sync(&mut self) -> Result<(), DiskError> {
        self.disk.root().sync()
    }
    fn folder(&mut self, name: &str) -> Result<Box<dyn Folder>, DiskError> {
        let inner = self.disk.root().folder(name)?;
        let gate = self.gate.clone();
        Ok(if name == SNAPSHOTS { Box::new(Gated { inner, gate }) } else { inner })
    }
}

#[test]
fn after_a_failure_the_thread_acknowledges_nothing_and_nobody_waits() {
    let disk = tearing(5);
    let kept =
        Kept::create(&mut *disk.root(), identity(), first(), options(5)).expect("an empty disk");
    disk.choose(disk.operations() + 1, Fate::Fails);
    let mut writer = Writer::start(kept, Box::new(|| ())).expect("a thread");
    let number = writer.append(entry(5, 2)).expect("it works");
    assert!(matches!(writer.wait_for(number), Err(StorageError::Disk(_))));
    assert!(writer.durable().is_err() && writer.append(entry(5, 3)).is_err());
    assert!(writer.finish().is_err());
}
