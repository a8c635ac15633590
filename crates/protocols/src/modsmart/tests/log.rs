//! What a replica goes on from after a crash.

use super::super::message::Message;
use super::super::record::Record;
use super::{Group, LIAR, S1, S2, V0, V1, all, batch};
use crate::common::batch_store::null;
use crate::common::frame::hooks::LogCompaction as _;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::ids::{ReplicaId, View};
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effect, Effects};

const R2: ReplicaId = ReplicaId(2);
const R3: ReplicaId = ReplicaId(3);

/// A replica that wrote one batch, and decided another: the same after every crash, also in the
/// middle of telling its log again.
#[test]
fn who_was_shown_something_else_never_writes_twice() {
    let mut group = Group::new();
    let [one, two, three] = [1, 2, 3].map(batch);
    group.propose(&[3], S1, &two);
    group.run(|from, _, _| from == LIAR);
    group.propose(&[1, 2], S1, &one);
    group.propose(&[1, 2, 3], S2, &three);
    group.vote(&[1, 2, 3], V0, S1, one.digest());
    group.run(all);
    group.ticks(all);
    let known = |group: &mut Group| {
        [S1, S2].map(|slot| {
            let state = group.core(3).window.get(slot).expect("it is in the window");
            let lock = state.lock.as_ref().map(|it| (it.view, it.batch));
            (state.round.wrote, lock, state.decided)
        })
    };
    let [one, two, three] = [one, two, three].map(|it| Some(it.digest()));
    let lock = three.map(|batch| (V0, batch));
    let before = [(two, None, one), (three, lock, three)];
    assert_eq!(known(&mut group), before);
    let mut log = group.done[&R3].log.clone();
    for _ in 0..2 {
        let mut out = Effects::default();
        group.core(3).frame.bodies.log_again();
        group.core(3).persist_again(&mut out);
        let again = out.drain().filter_map(|effect| match effect {
            Effect::Persist(record) => Some(record),
            _ => None,
        });
        let again: Vec<Record> = again.collect();
        assert!(!again.is_empty());
        for told in 0..=again.len() {
            group.start(R3, [&log[..], &again[..told]].concat());
            assert_eq!(known(&mut group), before, "{told} records told again");
            assert_eq!(group.wrote(3, V0, S1), [two.unwrap()]);
        }
        group.start(R3, again.clone());
        assert_eq!(known(&mut group), before);
        assert_eq!(group.wrote(3, V0, S1), [two.unwrap()]);
        log = again;
    }
    let cut = mutant::with(Some("modsmart.cut-locks"), || {
        let mut out = Effects::default();
        group.core(3).persist_again(&mut out);
        out.drain().any(|it| matches!(it, Effect::Persist(Record::Lock { .. })))
    });
    assert!(!cut);
}

/// Replica 2 alone locks, and loses power. What it said before it says again, and shows.
#[test]
fn what_was_written_and_locked_is_shown_after_a_crash() {
    let opened = || {
        let mut group = Group::new();
        let one = batch(1);
        group.propose(&[1, 2, 3], S1, &one);
        group.run(|from, to, message| match message {
            Message::Write { .. } => to == R2,
            _ => from == LIAR || to == LIAR,
        });
        group.restart(R2);
        group.restart(R3);
        group.run(|_, to, _| to == LIAR);
        group.ask(&[2, 3], V1);
        group.run(all);
        group.ticks(all);
        (group.in_view(V1), group.executed(S1))
    };
    let one = Some(batch(1).digest());
    assert_eq!(opened(), (vec![1, 2, 3], [one; 3]));
    let nothing = Some(null().digest());
    let lost = mutant::with(Some("modsmart.lock-not-in-log"), opened);
    assert_ne!(lost.1, [one; 3]);
    assert!(lost.1.iter().flatten().all(|it| Some(*it) == nothing));
}

/// A replica that wrote what the primary proposed, and lost power, writes the same again, whatever
/// the primary proposes by then.
#[test]
fn nobody_writes_twice_after_a_crash() {
    let writes = || {
        let mut group = Group::new();
        group.propose(&[3], S1, &batch(1));
        group.run(|from, _, _| from == LIAR);
        group.restart(R3);
        group.propose(&[3], S1, &batch(2));
        group.run(|from, _, _| from == LIAR);
        group.wrote(3, V0, S1)
    };
    assert_eq!(writes(), [batch(1).digest()]);
    let otherwise = mutant::with(Some("modsmart.write-not-in-log"), writes);
    assert_eq!(otherwise, [batch(2).digest()]);
}

/// A replica that left a view is not in it after a crash, and is in the one that it entered.
#[test]
fn views_are_in_the_log() {
    let views = || {
        let mut group = Group::new();
        group.ask(&[2, 3], V1);
        group.run(all);
        group.ask(&[2, 3], View(2));
        group.run(|_, to, message| to == LIAR || !matches!(message, Message::ViewChange(_)));
        group.restart(R3);
        (group.core(3).frame.entered, group.core(3).frame.view)
    };
    assert_eq!(views(), (V1, View(2)));
    assert_eq!(mutant::with(Some("modsmart.leaving-not-in-log"), views), (V1, V1));
    assert_eq!(mutant::with(Some("modsmart.entry-not-in-log"), views), (V0, View(2)));
}
