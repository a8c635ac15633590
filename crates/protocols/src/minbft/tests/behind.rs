//! A replica that fetches a state while the group goes on.

use super::*;
use crate::common::counters::record::Noted;
use crate::common::frame::checkpointing::Checkpointing as _;

/// The last of three replicas missed so much that it has to fetch the state of slot 40.
fn behind() -> Group {
    let mut group = Group::new(1);
    group.isolate(2);
    order(&mut group, 0..40);
    group.cut.clear();
    group.repair();
    assert_eq!(group.replicas[2].fetches, [Slot(40)]);
    group
}

fn order(group: &mut Group, numbers: core::ops::Range<u64>) {
    for number in numbers {
        group.request(&[0], 1, number, b"x");
        group.settle();
    }
}

/// The state after a slot is there.
fn install(group: &mut Group, slot: u64) {
    group.replicas[2].executed =
        group.replicas[0].executed.iter().filter(|(at, _)| at.0 <= slot).cloned().collect();
    group.step(2, Event::Input(Input::Installed { slot: Slot(slot) }));
    group.settle();
}

/// A replica that missed more than the window fetches state.
#[test]
fn a_replica_that_missed_the_window_fetches_state() {
    let mut group = Group::new(1);
    group.isolate(2);
    for number in 0..40 {
        group.request(&[0], 1, number, b"x");
        group.settle();
    }
    assert_eq!(group.operations(0).len(), 40);
    group.cut.clear();
    group.repair();
    let fetched = *group.replicas[2].fetches.last().expect("a wish for state");
    assert_eq!(fetched, Slot(40));
    group.replicas[2].executed = group.replicas[0].executed.clone();
    group.step(2, Event::Input(Input::Installed { slot: fetched }));
    group.request(&[0], 1, 40, b"x");
    group.settle();
    assert_eq!(group.operations(2).len(), 41);
}

/// What is decided meanwhile is executed as soon as the state is there: nothing more is fetched.
#[test]
fn the_window_stays_where_the_fetched_state_belongs() {
    let mut group = behind();
    order(&mut group, 40..52);
    group.repair();
    install(&mut group, 40);
    assert_eq!(group.operations(2).len(), 52);
    assert_eq!(group.replicas[2].core.frame.stable.slot, Slot(52));
    order(&mut group, 52..53);
    assert_eq!(group.operations(2).len(), 53);
}

/// A log is cut only when the state is there, so it must not grow at the group's pace until then.
#[test]
fn who_fetches_votes_for_no_more_than_a_window() {
    let mut group = behind();
    order(&mut group, 40..100);
    group.repair();
    let committed = group.replicas[2].log.iter().filter_map(|record| match record {
        Record::Noted(Noted::Commit(prepare)) => match &*prepare.message {
            Message::Order(order) => Some(order.place().1),
            _ => None,
        },
        _ => None,
    });
    assert!(committed.max() <= Some(Slot(56)), "it goes on voting");
    assert_eq!(group.replicas[2].fetches.last(), Some(&Slot(100)), "in case 40 is not to be had");
    // The window's slots are here; what is above has to be fetched, at once.
    let before = group.replicas[2].fetches.len();
    install(&mut group, 40);
    assert_eq!(group.operations(2).len(), 56);
    assert_eq!(group.replicas[2].fetches[before..], [Slot(100)]);
    install(&mut group, 100);
    order(&mut group, 100..101);
    assert_eq!(group.operations(2).len(), 101);
}

/// The host may have had to give up the state that was asked for first.
#[test]
fn a_newer_state_is_gone_on_from_as_well() {
    let mut group = behind();
    order(&mut group, 40..80);
    group.repair();
    install(&mut group, 80);
    assert_eq!(group.replicas[2].core.frame.stable.slot, Slot(80));
    order(&mut group, 80..81);
    assert_eq!(group.operations(2).len(), 81);
}

/// Saving a state takes its time; another one may be the stable one then.
#[test]
fn a_state_that_is_no_more_the_stable_one_is_followed_by_that() {
    let mut group = Group::new(1);
    // Its states are others than the group's.
    group.liar = Some(2);
    order(&mut group, 0..4);
    assert_eq!(group.replicas[2].fetches, [Slot(4)]);
    group.liar = None;
    order(&mut group, 4..8);
    assert_eq!(group.replicas[2].core.frame.stable.slot, Slot(8));
    assert_eq!(group.replicas[2].fetches, [Slot(4)], "the state is right again");
    install(&mut group, 4);
    assert_eq!(group.replicas[2].fetches, [Slot(4), Slot(8)]);
    install(&mut group, 8);
    order(&mut group, 8..12);
    assert_eq!(group.operations(2).len(), 12);
    assert_eq!(group.replicas[2].core.frame.stable.slot, Slot(12));
}

/// A stop while the state of the epoch is fetched forgets nothing of what was said meanwhile.
#[test]
fn who_stopped_while_it_fetched_goes_on() {
    let base = Base { slot: Slot(8), state: Digest::of(b"base") };
    let mut group = Group::with_base(1, CHECKPOINT_BYTES, base);
    let sources = ReplicaSet::from_iter([ReplicaId(0), ReplicaId(1)]);
    group.restart_with(2, Some(sources));
    assert_eq!(group.replicas[2].fetches, [Slot(8)]);
    order(&mut group, 0..3);
    assert!(group.operations(2).is_empty());
    group.restart_with(2, Some(sources));
    assert_eq!(group.replicas[2].fetches, [Slot(8); 2]);
    let mut said = Vec::new();
    for (_, _, wire) in group.queue.iter().filter(|(from, to, _)| (from.0, to.0) == (2, 0)) {
        let (_, (_, Body(message))) =
            <(ReplicaId, (Tagged, Body))>::from_bytes(wire).expect("our own encoding");
        said.extend(match message {
            Message::Order(Order::Commit { slot, .. }) => Some(slot.0),
            _ => None,
        });
    }
    assert_eq!(said, [9, 10, 11]);
    group.settle();
    install(&mut group, 8);
    assert_eq!(group.operations(2).len(), 3);
    order(&mut group, 3..5);
    assert_eq!(group.operations(2).len(), 5);
}

/// A view may begin with a checkpoint that is older than one that is proven already, and whose
/// state nobody has any more.
#[test]
fn who_has_to_fetch_an_old_state_wants_the_newer_one_too() {
    let mut group = Group::new(1);
    group.isolate(2);
    order(&mut group, 0..4);
    let older = group.replicas[0].core.frame.stable.clone();
    order(&mut group, 4..8);
    let newer = group.replicas[0].core.frame.stable.clone();
    assert_eq!((older.slot, newer.slot), (Slot(4), Slot(8)));
    let mut out = Effects::default();
    let core = &mut group.replicas[2].core;
    core.on_stable(newer, &mut out);
    core.adopt(older, &mut out);
    group.carry_out(ReplicaId(2), out);
    assert_eq!(group.replicas[2].fetches, [Slot(4), Slot(8)]);
    install(&mut group, 8);
    assert_eq!(group.replicas[2].core.frame.stable.slot, Slot(8));
}
