//! The normal case, with a primary that shows proposals to some only.

use super::super::Message;
use super::super::writes::WRITES_MAX;
use super::{Group, LIAR, S1, S2, V0, all, batch};
use crate::common::timer::Timer;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Event, Protocol as _, Tuning};

#[test]
fn a_quorum_writes_and_a_quorum_accepts() {
    let mut group = Group::new();
    let (one, two) = (batch(1), batch(2));
    group.propose(&[1, 2, 3], S1, &one);
    group.propose(&[1, 2, 3], S2, &two);
    group.run(all);
    assert_eq!(group.executed(S1), [Some(one.digest()); 3]);
    assert_eq!(group.executed(S2), [Some(two.digest()); 3]);
    assert_eq!(group.wrote(1, V0, S1), [one.digest()]);
    assert!(group.core(1).reads_from() == S2);
}

/// Nothing is decided by two ACCEPTs of four.
#[test]
fn less_than_a_quorum_decides_nothing() {
    let decided = || {
        let mut group = Group::new();
        let one = batch(1);
        group.propose(&[1, 2, 3], S1, &one);
        group.run(|from, _, message| {
            from != ReplicaId(3) || !matches!(message, Message::Accept { .. })
        });
        group.executed(S1).iter().flatten().count()
    };
    assert_eq!(decided(), 1, "replica 3 has three");
    assert_eq!(mutant::with(Some("modsmart.decides-below-quorum"), decided), 3);
}

/// Two got the proposal. The third takes it from their WRITEs, and asks for the batch.
#[test]
fn who_gets_no_proposal_writes_what_somebody_correct_wrote() {
    let decided = || {
        let mut group = Group::new();
        let one = batch(1);
        group.propose(&[1, 2], S1, &one);
        group.run(all);
        // A moment later it asks those who wrote.
        group.step(ReplicaId(3), Event::Timeout(Timer::Fetch));
        group.run(all);
        (group.executed(S1), group.wrote(3, V0, S1).len())
    };
    assert_eq!(decided(), ([Some(batch(1).digest()); 3], 1));
    assert_eq!(mutant::with(Some("modsmart.no-echo"), decided).0, [None; 3]);
}

/// Whoever wrote one batch locks and decides another if a quorum wrote that, and does not write it.
#[test]
fn nobody_writes_twice() {
    let writes = || {
        let mut group = Group::new();
        let (one, two) = (batch(1), batch(2));
        group.propose(&[3], S1, &two);
        group.run(|from, _, _| from == LIAR);
        group.propose(&[1, 2], S1, &one);
        group.vote(&[1, 2, 3], V0, S1, one.digest());
        group.run(all);
        group.ticks(all);
        (group.executed(S1), group.wrote(3, V0, S1))
    };
    let (one, two) = (batch(1).digest(), batch(2).digest());
    assert_eq!(writes(), ([Some(one); 3], vec![two]));
    let twice = mutant::with(Some("modsmart.writes-twice"), writes);
    assert_eq!(twice.1, [two, one]);
}

/// The liar helps two to decide, and is silent to the third, which wrote something else: it has two
/// WRITEs and two ACCEPTs for ever, and asks for another view alone.
#[test]
fn who_is_left_behind_is_told_the_decision() {
    let decided = || {
        let mut group = Group::new();
        let (one, two) = (batch(1), batch(2));
        group.propose(&[3], S1, &two);
        group.run(|from, _, _| from == LIAR);
        group.propose(&[1, 2], S1, &one);
        group.vote(&[1, 2], V0, S1, one.digest());
        group.run(all);
        assert_eq!(group.executed(S1), [Some(one.digest()), Some(one.digest()), None]);
        group.ticks(all);
        group.executed(S1)
    };
    assert_eq!(decided(), [Some(batch(1).digest()); 3]);
    let left = mutant::with(Some("modsmart.decided-not-told"), decided);
    assert_eq!(left[2], None);
}

/// One who lies cannot tell a decision.
#[test]
fn one_alone_tells_no_decision() {
    let mut group = Group::new();
    let (one, two) = (batch(1), batch(2));
    group.propose(&[1, 2, 3], S1, &one);
    group.say(&[1, 2, 3], &Message::Decided { slot: S1, batch: two.digest() });
    group.run(all);
    assert_eq!(group.executed(S1), [Some(one.digest()); 3]);
}

/// Whose table of writes is full signs, and keeps the table as it is. Who locks keeps the
/// signature.
#[test]
fn a_write_that_cannot_be_kept_is_signed() {
    let shown = || {
        let mut group = Group::new();
        let one = batch(1);
        let old = |number: u8| Digest([number; 32]);
        let writes = &mut group.core(1).window.get_mut(S1).unwrap().writes;
        (0..WRITES_MAX as u8).for_each(|number| writes.note(old(number), V0));
        group.propose(&[1, 2, 3], S1, &one);
        group.run(all);
        let signed = Message::Write { view: V0, slot: S1, batch: one.digest(), signed: true };
        assert!(group.done[&ReplicaId(1)].said.contains(&signed));
        let lock = group.core(2).window.get(S1).unwrap().lock.clone().expect("it is locked");
        assert_eq!((lock.view, lock.batch), (View(0), one.digest()));
        lock.signatures.iter().map(|(id, _)| id.0).collect::<Vec<_>>()
    };
    assert_eq!(shown(), [1]);
    let bug = Some("modsmart.lock-carries-no-signatures");
    assert_eq!(mutant::with(bug, shown), Vec::<u16>::new());
}

/// Others may be a checkpoint ahead: what they say is heard, and acted on when the window is there.
#[test]
fn what_lies_just_beyond_the_window_is_heard_and_not_voted_for() {
    let mut group = Group::new();
    let Tuning { window_slots, checkpoint_slots, .. } = Tuning::default();
    let [last, next, far] = [0, 1, checkpoint_slots + 1].map(|it| Slot(window_slots + it));
    let one = batch(1);
    for slot in [last, next, far] {
        group.propose(&[1], slot, &one);
        let core = group.core(1);
        core.frame.next_slot = slot;
        group.run(|from, _, _| from == LIAR);
    }
    let known = |group: &mut Group, slot| {
        group.core(1).window.get(slot).map(|state| (state.round.candidate, state.round.wrote))
    };
    let batch = Some(one.digest());
    assert_eq!(known(&mut group, last), Some((batch, batch)));
    assert_eq!(known(&mut group, next), Some((batch, None)));
    assert_eq!(known(&mut group, far), None);
}
