//! A log that fills up while no newer state becomes stable: what is needed beside the last one is
//! kept again, and the log is cut. The power may fail anywhere.

use crate::workload::identity;
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::CoreEffect;
use pentarchy_core::ids::Slot;
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::mutant;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_sim::disk::{Fate, Faults, SimDisk};
use pentarchy_sim::world::membership;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::kept::{
    Certificates, DurableStore, Entry, Job, Kept, LOG, Past, Stepped, Then,
};
use pentarchy_storage::log::Options;
use std::sync::Arc;

/// A log of at most this many segments, and four in reserve.
const SEGMENTS: usize = 12;

fn first() -> Arc<Membership> {
    Arc::new(membership(1, 3, 1))
}

/// In the log are states of which this much changed.
fn options(state_bytes_max: usize) -> Options {
    let bytes_max = SEGMENTS as u64 * 8 * 512;
    Options { bytes_max, state_bytes_max, ..crate::workload::options(1) }
}

/// A state, of which one section is not as before.
fn state(slot: u64) -> Snapshot {
    let section = |index| vec![if index == 0 { slot as u8 } else { index }; 400];
    Snapshot::new(Slot(slot), Tree::of(Slot(slot), (0..4).map(section)))
}

/// Which states there are when the views begin to fail.
#[derive(Clone, Copy, Debug)]
enum Begun {
    /// The group's first.
    First,
    /// One in files.
    InFiles,
    /// One in the log.
    InLog,
    /// One in the log, and one behind it that nobody else vouches for.
    Unproven,
}

/// A replica's disk, and what it is about.
struct Run {
    disk: SimDisk,
    keeper: DurableStore<Stepped>,
    options: Options,
    /// Records are numbers, from 0.
    next: u64,
    /// Below this one they are durable.
    durable: u64,
    /// How often the log was cut.
    cuts: u64,
}

impl Run {
    fn new(begun: Begun) -> Self {
        let disk = SimDisk::new(1, Faults::default());
        let in_log = matches!(begun, Begun::InLog | Begun::Unproven);
        let options = options(if in_log { 1_000 } else { 0 });
        let kept = Kept::create(&mut *disk.root(), identity(), first(), options);
        let kept = Stepped::new(kept.expect("an empty disk"));
        let keeper = DurableStore::new(kept, None, Certificates::default());
        let mut run = Self { disk, keeper, options, next: 0, durable: 0, cuts: 0 };
        let (states, stable) = match begun {
            Begun::First => (0, 0),
            Begun::InFiles => (1, 1),
            Begun::InLog => (2, 2),
            Begun::Unproven => (3, 2),
        };
        for slot in 1..=states {
            let state = state(slot);
            let then = Then::Checkpointed { slot: state.slot, state: state.digest };
            run.keeper.save(&state, then).expect("nothing failed");
            if slot <= stable {
                run.compact(Slot(slot)).expect("nothing failed");
            }
            run.view_fails().expect("nothing failed");
        }
        run.cuts = 0;
        run
    }

    /// Opens the disk after the power failed.
    fn open(&self) -> Past {
        let disk = self.disk.copy();
        disk.lose_power();
        let opened = Kept::open(&mut *disk.root(), identity(), &first(), self.options);
        opened.expect("something to go on from").1
    }

    fn keep(&mut self, record: u64) -> Result<(), StorageError> {
        let record = record.to_le_bytes().repeat(40);
        self.keeper.barrier_mut().hold(CoreEffect::Persist(record.into())).map(drop)
    }

    /// Of all that the core kept, the last is all that it needs, and says how many went before.
    fn compact(&mut self, slot: Slot) -> Result<(), StorageError> {
        self.keeper.stable(slot, Vec::new(), 0)?;
        self.keep(self.next | 1 << 63)?;
        self.cuts += 1;
        self.keeper.end_of_step()
    }

    /// The core keeps something, and the disk does all that it can.
    fn view_fails(&mut self) -> Result<(), StorageError> {
        self.keep(self.next)?;
        self.next += 1;
        if let Some(slot) = self.keeper.asks_again() {
            self.compact(slot)?;
        }
        loop {
            let mut busy = false;
            for job in Job::ALL {
                busy |= self.keeper.backing_mut().begin(job);
                self.keeper.backing_mut().end(job)?;
                self.keeper.look()?;
            }
            if !busy {
                break;
            }
        }
        if self.keeper.barrier().lag_entries() == 0 {
            self.durable = self.next;
        }
        Ok(())
    }

    fn segments(&self) -> usize {
        let is_segment = |path: &&String| path.starts_with(LOG) && path.ends_with(".log");
        self.disk.paths().iter().filter(is_segment).count()
    }
}

/// How many numbers are known from what a replica found.
fn known(past: &Past) -> u64 {
    past.entries.iter().fold(0, |known, (_, entry)| {
        let Entry::Record(record) = entry else { panic!("nothing else was kept: {entry:?}") };
        let number = u64::from_le_bytes(record[..8].try_into().expect("eight bytes"));
        match number >> 63 {
            1 => known.max(number & !(1 << 63)),
            _ if number <= known => known.max(number + 1),
            _ => known,
        }
    })
}

/// The most segments in use while so many views fail, and how often the log was cut. None if
/// something is not durable in the end.
fn fails(begun: Begun, views: u64) -> Option<(usize, u64)> {
    let mut run = Run::new(begun);
    let mut most = 0;
    for _ in 0..views {
        run.view_fails().ok()?;
        most = most.max(run.segments());
    }
    let past = run.open();
    let newest = match begun {
        Begun::First => Base::default(),
        Begun::InFiles => base(&state(1)),
        Begun::InLog => base(&state(2)),
        Begun::Unproven => base(&state(3)),
    };
    assert_eq!(past.executed(), newest, "{begun:?}");
    assert!(past.entries.len() < 200, "{begun:?}: {}", past.entries.len());
    (run.durable == run.next && known(&past) == run.next).then_some((most, run.cuts))
}

fn base(state: &Snapshot) -> Base {
    Base { slot: state.slot, state: state.digest }
}

const ALL: [Begun; 4] = [Begun::First, Begun::InFiles, Begun::InLog, Begun::Unproven];

#[test]
fn a_log_has_room_however_many_views_fail() {
    for begun in ALL {
        let (segments, cuts) = fails(begun, 3_000).expect("all is durable");
        assert!(segments <= SEGMENTS && cuts > 30, "{begun:?}: {segments}, {cuts} cuts");
        assert!(cuts < 200, "{begun:?}: only when there is little room: {cuts} cuts");
        let fills = mutant::with(Some("kept.log-fills-up"), || fails(begun, 3_000));
        assert_eq!(fills, None, "{begun:?}");
    }
}

/// At how many operations of the disk the power may fail while views fail, and at how many of those
/// the replica forgets something.
fn forgets(begun: Begun) -> (usize, usize) {
    let mut whole = Run::new(begun);
    let from = whole.disk.operations();
    (0..150).for_each(|_| whole.view_fails().expect("nothing fails"));
    assert!(whole.cuts >= 2, "{begun:?}: {}", whole.cuts);
    let stops = from..whole.disk.operations();
    let forgets = stops.clone().filter(|stopped| {
        let mut run = Run::new(begun);
        run.disk.choose(*stopped, Fate::Stops);
        while run.view_fails().is_ok() {}
        let past = run.open();
        let has_state = past.executed().slot > Slot(0);
        known(&past) < run.durable || has_state == matches!(begun, Begun::First)
    });
    (stops.clone().count(), forgets.count())
}

#[test]
fn a_replica_goes_on_whenever_the_power_fails() {
    for begun in ALL {
        let (stops, forgetful) = forgets(begun);
        assert!(stops > 300 && forgetful == 0, "{begun:?}: {forgetful} of {stops}");
    }
    let (_, forgetful) = mutant::with(Some("kept.log-cut-too-early"), || forgets(Begun::InFiles));
    assert!(forgetful > 10, "worth a test");
}

/// States went into files one by one to make room; then the first of two that nobody else vouched
/// for becomes stable, and the log has grown by so much that a state is to be in files.
#[test]
fn a_newer_state_in_files_stays_there() {
    let mut run = Run::new(Begun::Unproven);
    let last = state(4);
    let then = Then::Checkpointed { slot: last.slot, state: last.digest };
    run.keeper.save(&last, then).expect("nothing failed");
    (0..1_000).for_each(|_| run.view_fails().expect("nothing fails"));
    run.compact(Slot(3)).expect("nothing failed");
    (0..3).for_each(|_| run.view_fails().expect("nothing fails"));
    assert_eq!(run.open().executed(), base(&state(4)));
}

#[test]
fn what_is_kept_again_is_asked_for_once() {
    let mut run = Run::new(Begun::InFiles);
    let asked = loop {
        run.keep(run.next).expect("nothing failed");
        run.next += 1;
        while run.keeper.backing_mut().begin(Job::Log) {
            run.keeper.backing_mut().end(Job::Log).expect("nothing fails");
        }
        run.keeper.look().expect("nothing failed");
        if let Some(slot) = run.keeper.asks_again() {
            break slot;
        }
    };
    assert_eq!((asked, run.keeper.asks_again()), (Slot(1), None));
    run.compact(asked).expect("nothing failed");
    assert_eq!(run.keeper.asks_again(), None, "it has just been");
    // A newer state is about to be stable: that makes room.
    let next = state(2);
    let then = Then::Checkpointed { slot: next.slot, state: Digest::default() };
    run.keeper.save(&next, then).expect("nothing failed");
    assert_eq!(run.keeper.asks_again(), None);
}
