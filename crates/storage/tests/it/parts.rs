//! The log of a replica whose core has parts, each of which keeps again in its own time.

use crate::workload::identity;
use pentarchy_core::epochs::Handover;
use pentarchy_core::erased::CoreEffect;
use pentarchy_core::ids::Slot;
use pentarchy_core::membership::{Base, Member, Membership, PillarConfig};
use pentarchy_core::mutant;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_sim::disk::{Faults, SimDisk};
use pentarchy_sim::world::membership;
use pentarchy_storage::kept::{
    Certificates, DurableStore, Entry, EntryLog as _, EpochStart, Job, Kept, Past, SNAPSHOTS,
    Stepped, Then,
};
use pentarchy_storage::log::Options;
use std::sync::Arc;

const PARTS: u8 = 3;

fn first() -> Arc<Membership> {
    let lane = PillarConfig { pillars: PARTS, rotates: false, pillar: None };
    Arc::new(Membership { lane, ..membership(1, 3, 1) })
}

/// A log of at most twelve segments, and four in reserve.
fn options() -> Options {
    Options { bytes_max: 12 * 8 * 512, ..crate::workload::options(1) }
}

/// What a test does, one after the other. Records of a part are numbered in all parts together.
struct Host {
    disk: SimDisk,
    keeper: DurableStore<Stepped>,
    kept: u8,
}

impl Host {
    fn new() -> Self {
        let disk = SimDisk::new(1, Faults::default());
        let kept = Kept::create(&mut *disk.root(), identity(), first(), options());
        let kept = Stepped::new(kept.expect("an empty disk"));
        Self { disk, keeper: DurableStore::new(kept, None, Certificates::default()), kept: 0 }
    }

    /// Starts again, with what is on the disk.
    fn again(&mut self) -> Past {
        let opened = Kept::open(&mut *self.disk.root(), identity(), &first(), options());
        let (kept, past) = opened.expect("something to go on from");
        let newest = past.snapshot().map(|it| Base { slot: it.slot, state: it.digest });
        self.keeper = DurableStore::new(Stepped::new(kept), newest, Certificates::default());
        past
    }

    /// A part has a record kept, and it is durable. Gives the number of the record.
    fn keep(&mut self, part: u8) -> u8 {
        self.kept += 1;
        let record = [vec![part, self.kept], vec![0; 300]].concat();
        let held = self.keeper.barrier_mut().hold(CoreEffect::Persist(record.into()));
        assert!(held.expect("nothing failed").is_none(), "it is kept");
        self.write();
        self.kept
    }

    /// The disk does all that it can.
    fn write(&mut self) {
        for job in [Job::Log, Job::States, Job::Log] {
            self.keeper.backing_mut().begin(job);
            self.keeper.backing_mut().end(job).expect("nothing fails");
            self.keeper.look().expect("nothing failed");
        }
    }

    fn save(&mut self, slot: u64) {
        self.keeper
            .save(&state(slot), Then::Installed { slot: Slot(slot) })
            .expect("nothing failed");
        self.write();
    }

    /// A quorum vouches for a state.
    fn stable(&mut self, slot: Option<u64>) {
        self.keeper.stable_in_parts(slot.map(Slot), PARTS);
    }

    fn says(&mut self, part: u8, is_done: bool) {
        self.keeper.keeps_again(part, is_done, Vec::new(), 0).expect("nothing failed");
        self.write();
    }

    /// A part keeps again one record; gives its number.
    fn keeps_again(&mut self, part: u8) -> u8 {
        self.says(part, false);
        let kept = self.keep(part);
        self.says(part, true);
        kept
    }

    /// The slot that the log calls stable, and the records that are needed beside it.
    fn recovered(&self) -> (Option<u64>, Vec<u8>) {
        let disk = self.disk.copy();
        let opened = Kept::open(&mut *disk.root(), identity(), &first(), options());
        let (kept, past) = opened.expect("something to go on from");
        (kept.mark().map(|mark| mark.slot.0), numbers(&past))
    }
}

fn state(slot: u64) -> Snapshot {
    let section = |index| vec![if index == 0 { slot as u8 } else { index }; 700];
    Snapshot::new(Slot(slot), Tree::of(Slot(slot), (0..6).map(section)))
}

fn numbers(past: &Past) -> Vec<u8> {
    let number = |(_, entry): &(u64, Entry)| match entry {
        Entry::Record(record) => record[1],
        other => panic!("nothing else was kept: {other:?}"),
    };
    past.entries.iter().map(number).collect()
}

/// What a log is worth that was cut once.
struct Cut {
    /// Something could not be read any more although a part had not answered.
    early: bool,
    /// The records that are needed beside the state.
    needed: Vec<u8>,
    /// The slot that the log calls stable, and the records that a start reads.
    found: (Option<u64>, Vec<u8>),
}

/// Each part keeps one record; then a state is stable, and each in this order keeps one again, and
/// between those every other keeps one more.
fn cut(order: [u8; 3]) -> Cut {
    let mut host = Host::new();
    (0..PARTS).for_each(|part| _ = host.keep(part));
    host.save(1);
    host.stable(Some(1));
    let (mut early, mut needed) = (false, Vec::new());
    for (before, part) in order.into_iter().enumerate() {
        early |= host.recovered() != (None, (1..=host.kept).collect());
        needed.push(host.keeps_again(part));
        for other in (0..PARTS).filter(|other| *other != part) {
            let kept = host.keep(other);
            needed.extend(order[..before].contains(&other).then_some(kept));
        }
    }
    Cut { early, needed, found: host.recovered() }
}

#[test]
fn what_each_part_needs_begins_where_it_began_to_keep_again_whoever_was_first() {
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let Cut { early, needed, found } = cut(order);
        assert!(!early && found == (Some(1), needed), "{order:?}");
    }
}

#[test]
fn a_log_that_is_cut_too_early_or_not_for_each_part_is_noticed() {
    let cut = |bug| mutant::with(Some(bug), || cut([2, 0, 1]));
    assert!(cut("pillars.cut-before-all-kept-again").early);
    let Cut { needed, found: (_, found), .. } = cut("pillars.last-answer-for-all");
    assert!(needed.iter().any(|number| !found.contains(number)), "{found:?}");
    let Cut { needed, found: (_, found), .. } = cut("pillars.lowest-for-all");
    assert!(found.iter().any(|number| !needed.contains(number)), "{found:?}");
}

/// Nothing else may come for long, and a start would read all that is needed no more.
#[test]
fn when_the_last_part_has_kept_again_the_log_is_to_be_written() {
    let mut host = Host::new();
    host.save(1);
    host.stable(Some(1));
    (1..PARTS).for_each(|part| _ = host.keeps_again(part));
    let begins = host.keeper.backing().next();
    host.keep(0);
    assert_eq!(host.keeper.barrier().lag_entries(), 0);
    host.keeper.compacted(0, begins).expect("nothing failed");
    assert!(host.keeper.barrier().lag_entries() > 0, "nobody has the mark written");
    host.write();
    assert_eq!((host.keeper.barrier().lag_entries(), host.recovered().0), (0, Some(1)));
}

/// A part may be quick and another one slow: each answers to all cuts in their order.
#[test]
fn several_cuts_may_be_open_and_each_part_answers_to_the_first_that_it_has_not_answered_to() {
    let mut host = Host::new();
    let mut kept = Vec::new();
    for slot in 1..=2 {
        (0..PARTS).for_each(|part| _ = host.keep(part));
        host.save(slot);
        host.stable(Some(slot));
        kept.push([host.keeps_again(0), host.keeps_again(1)]);
    }
    assert_eq!(host.recovered().0, None, "one of them has not answered");
    let [first, second] = [kept[0], kept[1]];
    let third = host.keeps_again(2);
    let (stable, found) = host.recovered();
    assert_eq!(stable, Some(1));
    // All that the two kept since they answered first, and of the slow one its answer.
    assert_eq!(found, [first[0], first[1], 6, 7, second[0], second[1], third]);
    let last = host.keeps_again(2);
    assert_eq!(host.recovered(), (Some(2), vec![second[0], second[1], last]));
}

/// This replica may lack a state that others vouch for: parts answer to that too.
#[test]
fn what_is_answered_to_a_cut_without_a_state_cuts_nothing_and_is_not_for_the_next() {
    let mut host = Host::new();
    host.stable(None);
    let before: Vec<u8> = (0..2).map(|part| host.keeps_again(part)).collect();
    host.save(2);
    host.stable(Some(2));
    let (first, second) = (host.keeps_again(0), host.keeps_again(1));
    let late = host.keeps_again(2);
    assert_eq!(host.recovered(), (None, vec![before[0], before[1], first, second, late]));
    let last = host.keeps_again(2);
    assert_eq!(host.recovered(), (Some(2), vec![first, second, last]));
}

/// Nothing goes, and the next life reads all of it; with the epoch it is over.
#[test]
fn while_a_part_has_not_answered_nothing_goes_and_an_epochs_end_forgets_the_cut() {
    let mut host = Host::new();
    (0..PARTS).for_each(|part| _ = host.keep(part));
    host.save(1);
    host.stable(Some(1));
    (0..2).for_each(|part| _ = host.keeps_again(part));
    host.says(2, false);
    let unsaid = host.keep(2);
    let all: Vec<u8> = (1..=unsaid).collect();
    assert_eq!(host.recovered(), (None, all.clone()));
    let past = host.again();
    assert_eq!((numbers(&past), past.executed().slot), (all, Slot(1)));
    // The next life is told of a stable state again, and the answer that was cut off is none.
    host.says(2, true);
    host.stable(Some(1));
    let again: Vec<u8> = (0..PARTS).map(|part| host.keeps_again(part)).collect();
    assert_eq!(host.recovered(), (Some(1), again));
    host.save(2);
    host.stable(Some(2));
    host.keeps_again(0);
    let base = Base { slot: Slot(2), state: state(2).digest };
    let lives = first().members.iter().map(Member::life).collect();
    let next = Arc::new(first().after(&Handover { epoch: first().epoch, base, lives, next: None }));
    host.keeper.begin_epoch(EpochStart::within(next, None), false).expect("nothing failed");
    host.write();
    assert_eq!(host.recovered(), (Some(2), Vec::new()), "nothing of before is needed");
    host.stable(Some(2));
    let again: Vec<u8> = (1..PARTS).map(|part| host.keeps_again(part)).collect();
    assert_eq!(host.recovered(), (Some(2), again.clone()), "who answered before has not again");
    let last = host.keeps_again(0);
    assert_eq!(host.recovered(), (Some(2), [again, vec![last]].concat()));
}

/// What waits for a checkpoint may have filled the log. Until all parts have answered, it uses the
/// reserve.
#[test]
fn a_full_log_takes_what_parts_keep_again_and_has_room_then() {
    let mut host = Host::new();
    while host.keeper.backing().full().is_none() {
        host.kept = 0;
        host.keep(0);
    }
    host.save(1);
    for slot in 1..=2 {
        if slot == 2 {
            host.save(2);
        }
        host.stable(Some(slot));
    }
    assert!(host.keeper.backing().full().is_none(), "a cut makes room");
    // The first cut is over: the second one goes on to need the reserve.
    (0..PARTS).for_each(|part| _ = host.keeps_again(part));
    assert!(host.keeper.backing().full().is_none());
    (0..PARTS).for_each(|part| _ = host.keeps_again(part));
    let durable = host.keeper.backing().durable().expect("nothing failed");
    assert_eq!(durable, host.keeper.backing().next(), "all of it is written");
    assert_eq!(host.recovered().0, Some(2));
}

/// A state that the log called stable may be damaged, and a part lag behind it: the host is told of
/// an older one then.
#[test]
fn an_older_state_than_the_log_calls_stable_cuts_nothing() {
    let mut host = Host::new();
    for slot in 1..=3 {
        host.save(slot);
        host.stable(Some(slot));
        (0..PARTS).for_each(|part| _ = host.keeps_again(part));
    }
    let list = format!("{SNAPSHOTS}/{:016x}.snapshot", 3);
    host.disk.tamper(&list, Some(vec![7; 100]));
    let past = host.again();
    assert_eq!((past.executed().slot, past.damaged.len()), (Slot(2), 1));
    host.stable(Some(2));
    (0..PARTS).for_each(|part| _ = host.keeps_again(part));
    let (stable, found) = host.recovered();
    assert_eq!((stable, found.len()), (Some(3), 9), "what goes with the second is still there");
}
