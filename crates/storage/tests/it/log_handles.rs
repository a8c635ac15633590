//! Several threads that keep entries in one log, each for a core of its own.

use crate::workload::identity;
use bytes::Bytes;
use pentarchy_core::erased::CoreEffect;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::membership::{Membership, PillarConfig};
use pentarchy_core::protocol::To;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_sim::disk::{Faults, SimDisk};
use pentarchy_sim::world::membership;
use pentarchy_storage::kept::{
    Backing as _, Barrier, Certificates, DurableStore, Entry, EntryLog as _, EpochStart, Kept,
    LogHandle, Then, Writer,
};
use pentarchy_storage::log::Options;
use std::sync::Arc;

const PARTS: u8 = 3;

fn first() -> Arc<Membership> {
    let lane = PillarConfig { pillars: PARTS, rotates: false, pillar: None };
    Arc::new(Membership { lane, ..membership(1, 3, 1) })
}

fn next() -> Arc<Membership> {
    Arc::new(Membership { epoch: first().epoch.next(), ..(*first()).clone() })
}

/// A log of at most twelve segments, and of four in reserve for each core.
fn options() -> Options {
    Options { bytes_max: 12 * 8 * 512, ..crate::workload::options(1) }
}

fn writer(disk: &SimDisk) -> Writer {
    let kept = Kept::create(&mut *disk.root(), identity(), first(), options());
    Writer::start(kept.expect("an empty disk"), Box::new(|| ())).expect("threads")
}

fn log_handles(writer: &Writer) -> [Barrier<LogHandle>; PARTS as usize] {
    [(); PARTS as usize]
        .map(|()| Barrier::new(writer.log_handle(first().epoch), Certificates::default()))
}

/// A record begins with the number of the part that keeps it.
fn keep(log_handle: &mut Barrier<LogHandle>, part: u8, number: u8) {
    let record = [vec![part, number], vec![0; 300]].concat();
    let record = CoreEffect::Persist(record.into());
    assert!(log_handle.hold(record).expect("nothing failed").is_none(), "it is kept");
}

/// Whether it may leave at once.
fn say(log_handle: &mut Barrier<LogHandle>, text: &'static [u8]) -> bool {
    let (to, wire) = (To::One(ReplicaId(1)), Bytes::from_static(text));
    let message = CoreEffect::Relay { to, wire, kind: "test" };
    log_handle.hold(message).expect("nothing failed").is_some()
}

/// What may leave now.
fn said(log_handle: &mut Barrier<LogHandle>) -> Vec<Bytes> {
    log_handle.look().expect("nothing failed");
    let wire = |effect| match effect {
        CoreEffect::Relay { wire, .. } => wire,
        _ => panic!("nothing else was said"),
    };
    std::iter::from_fn(|| log_handle.next_message()).map(wire).collect()
}

fn records(disk: &SimDisk) -> Vec<u8> {
    let opened = Kept::open(&mut *disk.root(), identity(), &first(), options());
    let (_, past) = opened.expect("something to go on from");
    let record = |(_, entry): &(u64, Entry)| match entry {
        Entry::Record(record) => record[1],
        other => panic!("nothing else was kept: {other:?}"),
    };
    past.entries.iter().map(record).collect()
}

#[test]
fn each_waits_for_its_own_entries_in_one_log() {
    let disk = SimDisk::new(1, Faults::default());
    let writer = writer(&disk);
    let [mut quick, mut slow, mut idle] = log_handles(&writer);
    keep(&mut quick, 0, 1);
    assert!(!say(&mut quick, b"first") && said(&mut quick).is_empty() && !quick.has_news());
    writer.wait_for(writer.next() - 1).expect("it is written");
    keep(&mut slow, 1, 2);
    keep(&mut quick, 0, 3);
    assert!(!say(&mut slow, b"second") && !say(&mut quick, b"third"));
    assert!(say(&mut idle, b"whenever"), "it has kept nothing");
    assert!(quick.has_news() && !idle.has_news());
    assert!(slow.has_news(), "it has not looked since");
    assert_eq!((said(&mut quick), said(&mut slow)), (vec![Bytes::from_static(b"first")], vec![]));
    assert!(!quick.has_news() && !slow.has_news());
    // Whoever asks has all written that there is.
    slow.log().write();
    writer.wait_for(writer.next() - 1).expect("it is written");
    assert_eq!(said(&mut slow), [Bytes::from_static(b"second")]);
    assert_eq!((quick.lag_entries(), slow.lag_entries()), (2, 0));
    assert_eq!(said(&mut quick), [Bytes::from_static(b"third")]);
    drop(writer);
    assert_eq!(records(&disk), [1, 2, 3]);
}

#[test]
fn what_is_kept_for_an_epoch_that_is_over_is_not_in_the_log() {
    let disk = SimDisk::new(1, Faults::default());
    let mut writer = writer(&disk);
    let [mut late, mut quick, _] = log_handles(&writer);
    keep(&mut late, 1, 1);
    assert!(!say(&mut late, b"before"));
    let begun = writer.begin_epoch(EpochStart::within(next(), None)).expect("nothing failed");
    // Nobody has told it yet: that is not of the new epoch, and has no entry.
    keep(&mut late, 1, 2);
    assert_eq!(writer.next(), begun + 1);
    assert!(!say(&mut late, b"behind the epoch"));
    quick.log_mut().begin_epoch(next().epoch);
    quick.begin_epoch();
    keep(&mut quick, 0, 3);
    assert!(!say(&mut quick, b"in the epoch"));
    keep(&mut late, 1, 4);
    writer.wait_for(writer.next() - 1).expect("it is written");
    assert_eq!(said(&mut late).len(), 2, "all that was in the log before is durable");
    assert_eq!(said(&mut quick), [Bytes::from_static(b"in the epoch")]);
    // It waits for what comes next, and is of no use behind that.
    keep(&mut late, 1, 5);
    assert!(!say(&mut late, b"too late") && said(&mut late).is_empty());
    late.log_mut().begin_epoch(next().epoch);
    late.begin_epoch();
    assert_eq!((late.waiting_messages(), late.waiting_bytes()), (0, 0));
    keep(&mut late, 1, 6);
    assert!(!say(&mut late, b"with the others"));
    writer.wait_for(writer.next() - 1).expect("it is written");
    assert_eq!(said(&mut late), [Bytes::from_static(b"with the others")]);
    drop(writer);
    assert_eq!(records(&disk), [3, 6]);
}

/// All of a full log's pillars keep again as much as one may, and one is late: until it has, others
/// add no more than that.
#[test]
fn a_full_log_is_cut_although_a_pillar_is_late() {
    let disk = SimDisk::new(1, Faults::default());
    let writer = writer(&disk);
    let mut log_handles = log_handles(&writer);
    let mut keeper = DurableStore::new(writer, None, Certificates::default());
    let section = |index| vec![index; 700];
    let state = Snapshot::new(Slot(1), Tree::of(Slot(1), (0..6).map(section)));
    keeper.save(&state, Then::Installed { slot: Slot(1) }).expect("nothing failed");
    while keeper.backing().saved().expect("nothing failed") < 1 {
        std::thread::yield_now();
    }
    while keeper.backing().full().is_none() {
        (0..).zip(&mut log_handles).for_each(|(part, log_handle)| keep(log_handle, part, 0));
        // What there is no room for stays where it is.
        log_handles[0].log().write();
        while log_handles[0].lag_entries() > 0 && keeper.backing().full().is_none() {
            log_handles
                .iter_mut()
                .for_each(|log_handle| log_handle.look().expect("nothing failed"));
        }
    }
    assert!(!log_handles[0].log().is_behind(), "what it reads may prove that a state is stable");
    keeper.stable_in_parts(Some(Slot(1)), PARTS);
    let [late, others @ ..] = &mut log_handles;
    assert!(late.log().is_behind(), "what makes room comes first");
    assert!(!keeper.backing().is_behind(), "the replica's thread has to hear that they are done");
    let compact = |log_handle: &mut Barrier<LogHandle>, part| {
        let begins = log_handle.compact(None, Vec::new(), 0).expect("nothing failed");
        (0..32).for_each(|_| keep(log_handle, part, 1));
        begins
    };
    for (part, log_handle) in (1..).zip(others.iter_mut()) {
        let begins = compact(log_handle, part);
        keeper.compacted(part, begins).expect("nothing failed");
    }
    for _ in 0..1_000 {
        for (part, log_handle) in
            (1..).zip(others.iter_mut()).filter(|(_, log_handle)| !log_handle.log().is_behind())
        {
            keep(log_handle, part, 2);
            log_handle.log().write();
            log_handle.look().expect("nothing failed");
        }
    }
    let begins = compact(late, 0);
    keeper.compacted(0, begins).expect("nothing failed");
    let last = keeper.backing().next() - 1;
    keeper.backing().wait_for(last).expect("it makes room");
    assert!(keeper.backing().full().is_none() && !late.log().is_behind());
    (1..).zip(others.iter_mut()).for_each(|(part, log_handle)| keep(log_handle, part, 3));
    others[0].log().write();
    keeper.backing().wait_for(keeper.backing().next() - 1).expect("there is room");
    drop(keeper);
    let again = vec![1; 32 * usize::from(PARTS)];
    assert_eq!(records(&disk), [again, vec![3; 2]].concat());
}
