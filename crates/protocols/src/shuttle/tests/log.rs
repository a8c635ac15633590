//! Replicas that stop, and go on from what they kept.

use super::super::{Checksums, Trusting};
use super::{Group, Macs, Message, Mode, Record, Shuttle, all};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effect, Effects, Event, Memory, Protocol as _, Setup};

/// Whoever restarts, and whenever: nothing is lost, and all goes on.
fn restarts<M: Mode>(n: usize, f: usize) {
    for (who, after) in (0..n as u16).flat_map(|who| (0..10).map(move |after| (who, after))) {
        let mut group = Group::<M>::new(n, f, &[]);
        group.order(1..=after, all);
        // Something is under way that only some have.
        group.order([after + 1], |from, _, _| from.0 + 1 != who);
        let ordered = group.core(who).log.ordered();
        group.restart(who);
        assert_eq!(group.core(who).log.ordered(), ordered, "{who} of {n} after {after}");
        group.run(all);
        group.ticks(all);
        group.order(after + 2..=after + 4, all);
        group.ticks(all);
        group.ask_again();
        group.run(all);
        let last = after + 4;
        assert_eq!(group.results.len() as u64, last, "{who} of {n} after {after}");
        assert_eq!((group.ordered(), group.done()), (vec![last; n], vec![last; n]));
        let full = (0..=f as u16).map(|id| group.host(id).slots());
        assert!(full.clone().all(|slots| slots == group.host(0).slots()));
        assert!((0..n as u16).all(|id| group.accused(id).is_empty()));
    }
}

#[test]
fn who_restarts_goes_on() {
    restarts::<Macs>(3, 1);
    restarts::<Macs>(5, 2);
    restarts::<Checksums>(3, 2);
    restarts::<Trusting>(2, 1);
}

/// Together all forget nothing either.
#[test]
fn all_restart_at_once() {
    let mut group = Group::<Macs>::new(5, 2, &[]);
    group.order(1..=6, all);
    group.order(7..=8, |_, to, _| to != ReplicaId(3));
    (0..5).for_each(|id| group.restart(id));
    assert_eq!((group.ordered(), group.stable()), (vec![8, 8, 8, 6, 6], vec![4; 5]));
    group.ticks(all);
    assert_eq!(group.done(), [8; 5]);
    group.ask_again();
    group.run(all);
    assert_eq!(group.results.len(), 8);
}

/// The host cuts the log where the core says that a state is stable, or asks it to keep again what
/// it needs.
#[test]
fn what_is_kept_again_is_enough() {
    for (who, compacts) in (0..3).flat_map(|who| [(who, false), (who, true)]) {
        let mut group = Group::<Macs>::new(3, 1, &[]);
        group.order(1..=5, all);
        group.order([6], |_, to, _| to != ReplicaId(2));
        if compacts {
            group.hosts.get_mut(&ReplicaId(who)).unwrap().records.clear();
            group.step(ReplicaId(who), Event::Input(Input::Compact));
        }
        let host = group.hosts.get_mut(&ReplicaId(who)).unwrap();
        let is_stable = |record: &Record<Macs>| matches!(record, Record::Stable(_));
        let last = host.records.iter().rposition(is_stable).expect("slot 4 is stable");
        host.records.drain(..last);
        let before = (group.core(who).log.clone(), group.core(who).stable.clone());
        group.restart(who);
        assert_eq!((group.core(who).log.clone(), group.core(who).stable.clone()), before);
        group.ticks(all);
        group.order([7], all);
        assert_eq!(group.done(), [7; 3], "{who} {compacts}");
    }
}

/// States may overtake the log: a replica has executed a slot, and does not know what came of it.
#[test]
fn who_does_not_know_any_more_what_came_of_a_slot_passes_it_on() {
    for who in [0, 1] {
        let mut group = Group::<Macs>::new(3, 1, &[]);
        group.order(1..=4, |from, _, _| from.0 < who);
        let mut host = group.host(who).restarted_from(Slot(4));
        host.records.retain(|record| !matches!(record, Record::Results { .. }));
        group.start(ReplicaId(who), host);
        group.ticks(all);
        group.ask_again();
        group.run(all);
        assert_eq!((group.done(), group.results.len()), (vec![4; 3], 4), "{who}");
    }
}

/// A replica whose state is that behind its last slot executes nothing twice.
#[test]
fn nothing_is_executed_twice_after_a_restart() {
    let mut group = Group::<Macs>::new(3, 1, &[]);
    group.order(1..=8, |_, _, it| !matches!(it, Message::Mark { .. }));
    let host = group.host(1).restarted_from(Slot(8));
    group.start(ReplicaId(1), host);
    group.order([9], all);
    assert_eq!(group.host(1).slots(), group.host(0).slots());
    assert_eq!(group.done(), [9; 3]);
}

/// A replica whose state is newer than what is done, as its host cut it there, restarts.
#[test]
fn a_restart_makes_nothing_final() {
    let mut group = Group::<Macs>::new(3, 1, &[]);
    let cut = |_: ReplicaId, to: ReplicaId, _: &Message<Macs>| to != ReplicaId(2);
    group.order(1..=4, cut);
    for id in [0, 1] {
        let host = group.host(id).restarted_from(Slot(4));
        group.under_way.clear();
        group.start(ReplicaId(id), host);
    }
    assert_eq!((group.ordered(), group.done()), (vec![4, 4, 0], vec![0; 3]));
    group.ask_again();
    group.run(cut);
    assert_eq!(group.results.len(), 0, "the witness has none of it");
    group.ticks(all);
    group.ask_again();
    group.run(all);
    assert_eq!((group.done(), group.results.len()), (vec![4; 3], 4));
}

/// Each full replica restarts from another state, and no mark has come through: they mark what
/// both have cut, not only what they cut again.
#[test]
fn states_that_were_cut_are_marked_after_a_restart() {
    for forgets in [false, true] {
        let mut group = Group::<Macs>::new(3, 1, &[]);
        group.order(1..=12, |_, _, it| !matches!(it, Message::Mark { .. }));
        for (id, from) in [(0, 12), (1, 8)] {
            let mut host = group.host(id).restarted_from(Slot(from));
            host.records.retain(|record| !forgets || !matches!(record, Record::Cut(_)));
            group.start(ReplicaId(id), host);
        }
        let known = |id| group.core(id).marks.states.keys().map(|slot| slot.0).collect::<Vec<_>>();
        let of_head = if forgets { vec![12] } else { vec![4, 8, 12] };
        assert_eq!(known(0), of_head, "the last one is the state that it goes on from");
        assert_eq!(known(1), if forgets { vec![8, 12] } else { vec![4, 8, 12] });
        group.ticks(all);
        assert_eq!(group.stable(), [12; 3]);
    }
}

/// A full replica begins an epoch without the state that it begins with.
#[test]
fn nothing_is_executed_before_the_state_is_there() {
    let fetch = Some([ReplicaId(0)].into_iter().collect());
    let (memory, tuning) = (Memory::Volatile, super::tuning());
    let base = Base { slot: Slot(9), state: Digest([9; 32]) };
    let begin = |me: u16| {
        let membership = Membership { base, ..Membership::clone(&super::membership(3, 1)) };
        let membership = Arc::new(membership);
        let (me, memory) = (ReplicaId(me), memory.clone());
        let setup = Setup { me, membership, fetch, memory, tuning };
        let mut out = Effects::default();
        let core = Shuttle::<Macs>::start(setup, &mut core::iter::empty(), &mut out);
        let wants = |effect: &Effect<_>| matches!(effect, Effect::Output(Output::Fetch { .. }));
        (core, out.as_slice().iter().any(wants))
    };
    let (mut full, fetches) = begin(1);
    assert!(fetches && full.status().phase == "catching-up");
    let mut out = Effects::default();
    full.step(Event::Input(Input::Installed { slot: Slot(9) }), &mut out);
    assert_eq!((full.status().phase, full.log.ordered()), ("normal", Slot(9)));
    let (witness, fetches) = begin(2);
    assert!(!fetches && witness.status().phase == "normal", "a witness needs no state");
}

/// The witness ordered, a client was told, and the witness restarts before it stops.
#[test]
fn what_was_vouched_for_is_reported() {
    let report = || {
        let mut group = Group::three(&[]);
        group.order([1], all);
        group.restart(2);
        group.wedge(2);
        (group.results.len(), group.host(2).report.as_ref().map(|it| it.end()))
    };
    assert_eq!(report(), (1, Some(Slot(1))));
    let forgot = mutant::with(Some("shuttle.order-not-in-log"), report);
    assert_eq!(forgot, (1, Some(Slot(0))));
}

#[test]
fn who_has_stopped_stays_so() {
    let ordered = || {
        let mut group = Group::three(&[]);
        group.order([1], all);
        group.wedge(1);
        group.restart(1);
        group.order([2], all);
        group.ticks(all);
        (group.host(1).report.is_some(), group.ordered())
    };
    assert_eq!(ordered(), (true, vec![2, 1, 1]));
    let forgot = mutant::with(Some("shuttle.wedge-not-in-log"), ordered);
    assert_eq!(forgot, (false, vec![2; 3]));
}

/// The log of a replica that has stopped fills up, and its host cuts it.
#[test]
fn who_has_stopped_keeps_its_report() {
    let reports = || {
        let mut group = Group::three(&[]);
        group.order(1..=6, all);
        group.wedge(1);
        let before = group.host(1).report.clone();
        group.hosts.get_mut(&ReplicaId(1)).unwrap().records.clear();
        group.step(ReplicaId(1), Event::Input(Input::Compact));
        group.restart(1);
        (before, group.host(1).report.clone())
    };
    let (before, after) = reports();
    assert_eq!(before.as_ref().map(|it| it.end()), Some(Slot(6)));
    assert_eq!(before, after);
    let (_, forgot) = mutant::with(Some("shuttle.end-not-kept-again"), reports);
    assert_eq!(forgot, None, "and it would order again");
}

/// A full replica restarts from a checkpoint behind a slot that it has not passed on.
#[test]
fn what_came_of_a_slot_is_known_after_a_restart() {
    let passed_on = || {
        let mut group = Group::<Macs>::new(3, 1, &[]);
        group.order(1..=5, all);
        let cut = |_: ReplicaId, to: ReplicaId, it: &Message<Macs>| {
            to != ReplicaId(2) || matches!(it, Message::Stable(_))
        };
        group.order([6], cut);
        group.told.clear();
        group.restart(1);
        let vouchers = group.told.len();
        (vouchers, group.core(1).log.get(Slot(6)).and_then(|it| it.results).is_some())
    };
    assert_eq!(passed_on(), (0, true), "it has told the client before");
    assert_eq!(mutant::with(Some("shuttle.results-not-in-log"), passed_on), (2, true));
}
