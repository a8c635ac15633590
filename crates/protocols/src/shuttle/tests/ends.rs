//! Who accuses whom, and how a chain ends.

use super::super::{Checksums, Trusting};
use super::order::request;
use super::{Group, Macs, Message, Mode, Timer, all};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::mutant;

/// So many replicas run out of patience, as often as that takes.
fn waits<M: Mode>(group: &mut Group<M>) {
    for _ in 0..3 {
        let ids: Vec<u16> = group.cores.keys().map(|id| id.0).collect();
        ids.into_iter().for_each(|id| group.wait(id));
    }
}

/// One replica of a chain is gone. Its neighbours say so; who is further away says it later, of
/// its own neighbour.
#[test]
fn neighbours_accuse_who_is_silent() {
    let accused = |dead: u16| {
        let mut group = Group::<Macs>::new(5, 2, &[dead]);
        group.order([1], all);
        // A client asks all.
        group.ask_again();
        group.round();
        group.run(all);
        waits(&mut group);
        let alive = (0..5).filter(|id| *id != dead);
        alive.map(|id| (id, group.accused(id))).filter(|(_, of)| !of.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(accused(0), [(1, vec![0]), (2, vec![1])], "nothing is ordered");
    assert_eq!(accused(1), [(0, vec![1]), (2, vec![1])]);
    assert_eq!(accused(2), [(0, vec![1]), (1, vec![2])]);
    assert_eq!(accused(4), [(0, vec![1]), (1, vec![2]), (2, vec![3]), (3, vec![4])]);
    let untimed = mutant::with(Some("shuttle.return-not-timed"), || accused(4));
    assert_eq!(untimed, []);
}

/// Whoever is nearer waits for less: it is named first.
#[test]
fn timers_run_in_two_steps() {
    let mut group = Group::<Macs>::new(5, 2, &[4]);
    group.order([1], all);
    (0..4).for_each(|id| group.wait(id));
    assert!((0..4).all(|id| group.accused(id).is_empty()), "each waits a little longer");
    group.wait(3);
    assert_eq!(group.accused(3), [4]);
}

/// What comes back in time stops the clocks, also if there is always something new.
#[test]
fn progress_is_no_reason_to_accuse() {
    let mut group = Group::<Macs>::new(5, 2, &[]);
    for number in 1..=20 {
        group.order([2 * number], all);
        group.submit(2 * number + 1);
        group.round();
        waits_once(&mut group);
        group.run(all);
    }
    assert!((0..5).all(|id| group.accused(id).is_empty()));
}

fn waits_once<M: Mode>(group: &mut Group<M>) {
    let ids: Vec<u16> = group.cores.keys().map(|id| id.0).collect();
    ids.into_iter().for_each(|id| group.wait(id));
}

#[test]
fn a_checkpoint_that_is_not_stable_is_somebodys_fault() {
    let mut group = Group::<Macs>::new(5, 2, &[]);
    group.order(1..=4, |_, _, it| !matches!(it, Message::Mark { .. }));
    waits(&mut group);
    let accused: Vec<_> = (0..5).map(|id| group.accused(id)).collect();
    assert_eq!(accused, [[1], [0], [1], [2], [2]], "witnesses accuse the last full one");
}

/// Whom those accuse first who do not lie, if all begin to wait together.
fn first_accused(group: &mut Group<Macs>, liar: u16) -> Vec<u16> {
    let others: Vec<u16> = group.cores.keys().map(|id| id.0).filter(|id| *id != liar).collect();
    others.iter().for_each(|id| group.wait(*id));
    let mut later = BTreeSet::new();
    for id in others {
        let armed = group.host(id).armed.iter().filter(|(timer, _)| **timer != Timer::Tick);
        later.extend(armed.map(|(_, delay)| (*delay, id)));
    }
    let first = later.first().expect("somebody waits").0;
    let mut accused = Vec::new();
    for (_, id) in later.into_iter().take_while(|(delay, _)| *delay == first) {
        group.wait(id);
        accused.extend(group.accused(id));
    }
    accused.dedup();
    accused
}

/// A full replica that lies passes no marks on, or nothing that is stable.
#[test]
fn who_sees_whose_fault_it_is_speaks_first() {
    let accused = |liar: u16| {
        let mut group = Group::<Macs>::new(5, 2, &[]);
        group.order(1..=4, |from, _, it| {
            from.0 != liar || !matches!(it, Message::Mark { .. } | Message::Stable(_))
        });
        first_accused(&mut group, liar)
    };
    assert_eq!([0, 1, 2].map(accused), [[0], [1], [2]]);
    let hasty = mutant::with(Some("shuttle.witnesses-do-not-wait"), || accused(0));
    assert_eq!(hasty, [2], "and the liar would never be named");
}

/// The head lies, and so does a client, who asks the third full replica alone. The second one has
/// to wait for the request too, and for less: it is no fault of its own.
#[test]
fn who_passes_a_request_on_is_not_the_first_to_accuse() {
    let accused = || {
        let mut group = Group::<Macs>::new(5, 2, &[0]);
        group.receive(ReplicaId(2), &request());
        group.ticks(all);
        first_accused(&mut group, 0)
    };
    assert_eq!(accused(), [0]);
    assert_eq!(mutant::with(Some("shuttle.passes-on-to-head-alone"), accused), [1]);
}

/// Replicas that have stopped do not order what still comes.
#[test]
fn nobody_orders_behind_the_end() {
    let ended = || {
        let mut group = Group::three(&[]);
        group.order(1..=2, all);
        group.wedge(1);
        group.order([3], all);
        group.ticks(all);
        let report = group.host(1).report.clone().expect("it has stopped");
        (report.end(), group.ordered(), group.results.len())
    };
    assert_eq!(ended(), (Slot(2), vec![3, 2, 2], 2));
    let after = mutant::with(Some("shuttle.orders-behind-wedge"), ended);
    assert_eq!(after, (Slot(2), vec![3; 3], 3), "a client believes what nobody reports");
}

/// A report says what was ordered behind the last stable checkpoint.
fn reports<M: Mode>(n: usize, f: usize) {
    let mut group = Group::<M>::new(n, f, &[]);
    group.order(1..=6, all);
    let cut = |_: ReplicaId, to: ReplicaId, _: &Message<M>| usize::from(to.0) != n - 1;
    group.order(7..=8, cut);
    (0..n as u16).for_each(|id| group.wedge(id));
    let reports: Vec<_> = (0..n as u16).map(|id| group.host(id).report.clone().unwrap()).collect();
    let longest = &reports[0];
    assert_eq!((longest.base.slot, longest.end()), (Slot(4), Slot(8)));
    assert_eq!(longest.base.state, group.core(0).stable.state.state);
    assert_eq!(longest.batches, group.host(0).slots()[4..]);
    for (id, report) in reports.iter().enumerate() {
        assert!(report.agrees_with(longest, Slot(8)) && report.base == longest.base);
        assert_eq!(report.end(), if id == n - 1 { Slot(6) } else { Slot(8) });
    }
}

#[test]
fn reports_of_correct_replicas_agree() {
    reports::<Macs>(3, 1);
    reports::<Macs>(5, 2);
    reports::<Checksums>(3, 2);
    reports::<Trusting>(2, 1);
}
