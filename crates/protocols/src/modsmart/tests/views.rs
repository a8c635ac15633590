//! View changes: what a view takes over, and from whom.

use super::super::claims::{Claims, SlotClaim, Written};
use super::super::message::Message;
use super::super::statements::write_statement;
use super::super::variant::Windowed;
use super::super::writes::WRITES_MAX;
use super::super::{NewView, SignedWrites};
use super::{Group, LIAR, S1, S2, Seals, V0, V1, all, batch, sign};
use crate::common::certificate::Check;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mutant;
use pentarchy_core::protocol::Reject;

const R1: ReplicaId = ReplicaId(1);
const R2: ReplicaId = ReplicaId(2);
const R3: ReplicaId = ReplicaId(3);

fn is_accept(message: &Message) -> bool {
    matches!(message, Message::Accept { .. })
}

/// Slots 1 and 2 are decided at replica 1 only, by the liar's help.
fn decided_at_one() -> Group {
    let mut group = Group::new();
    for (slot, proposal) in [(S1, batch(1)), (S2, batch(2))] {
        group.propose(&[1, 2, 3], slot, &proposal);
        group.vote(&[1], V0, slot, proposal.digest());
    }
    group.run(|_, to, message| !is_accept(message) || to == R1);
    let [one, two] = [1, 2].map(|it| Some(batch(it).digest()));
    assert_eq!([group.executed(S1), group.executed(S2)], [[one, None, None], [two, None, None]]);
    group
}

/// Everything but what replica 1 says and hears.
fn without_one(from: ReplicaId, to: ReplicaId, _: &Message) -> bool {
    from != R1 && to != R1
}

/// The next view takes over what is decided at a replica of which it hears nothing.
#[test]
fn what_one_replica_decided_all_decide_in_the_next_view() {
    let decided = || {
        let mut group = decided_at_one();
        // View 1 is led by replica 1, of which nobody hears; so the others go on to view 2.
        group.ask(&[2, 3], View(2));
        group.run(without_one);
        let claims = Claims { view: View(2), stable: Slot(0), slots: Vec::new() };
        group.liar_leaves(claims, Vec::new());
        group.run(without_one);
        let entered = group.in_view(View(2));
        group.ticks(all);
        (entered, group.executed(S1), group.executed(S2))
    };
    let [one, two] = [1, 2].map(|it| Some(batch(it).digest()));
    assert_eq!(decided(), (vec![2, 3], [one; 3], [two; 3]));
    let later = mutant::with(Some("modsmart.collects-one-slot"), decided);
    assert_ne!(later.2, [two; 3]);
    let none = mutant::with(Some("modsmart.first-timestamp-zero"), decided);
    assert_ne!(none.1, [one; 3]);
    let over = mutant::with(Some("modsmart.nothing-taken-over"), decided);
    assert_ne!(over.1, [one; 3]);
}

/// A lock outlives the view that did not hear of it.
#[test]
fn a_lock_outlives_views() {
    let locked = || {
        let mut group = decided_at_one();
        group.ask(&[2, 3], V1);
        group.run(|_, _, message| !matches!(message, Message::Write { view: V1, .. }));
        assert_eq!(group.in_view(V1), [1, 2, 3]);
        [1, 2, 3].map(|id| group.core(id).window.get(S1).unwrap().lock.clone().map(|it| it.batch))
    };
    assert_eq!(locked(), [Some(batch(1).digest()); 3]);
    assert_eq!(mutant::with(Some("modsmart.lock-not-kept"), locked), [None; 3]);
}

/// Replica 2 alone locked. View 1 opens without it, and nothing is bound there; but the others have
/// to show what they wrote in each view to come.
#[test]
fn what_was_written_is_shown_in_every_view() {
    let opened = || {
        let mut group = Group::new();
        group.propose(&[1, 2, 3], S1, &batch(1));
        group.run(|from, to, message| {
            from == LIAR || to == R2 && matches!(message, Message::Write { .. })
        });
        assert!(group.core(2).window.get(S1).unwrap().lock.is_some());
        group.ask(&[2, 3], V1);
        group.run(|from, to, message| {
            !matches!(message, Message::ViewChange(_)) || (from, to) != (R2, R1)
        });
        let claims = Claims { view: V1, stable: Slot(0), slots: Vec::new() };
        group.liar_leaves(claims, Vec::new());
        group.run(all);
        let mut views = vec![group.in_view(V1)];
        group.ask(&[2, 3], View(2));
        group.run(all);
        views.push(group.in_view(View(2)));
        (views, group.executed(S1))
    };
    let one = Some(batch(1).digest());
    assert_eq!(opened(), (vec![vec![1, 2, 3], vec![1, 2, 3]], [one; 3]));
    let stuck = mutant::with(Some("modsmart.forgets-shown-writes"), opened);
    assert_eq!(stuck, (vec![vec![1, 2, 3], vec![]], [None; 3]));
}

/// A primary waits for no batch that only a liar names.
#[test]
fn what_binds_nothing_need_not_be_held() {
    let opened = || {
        let mut group = Group::new();
        group.ask(&[2, 3], V1);
        group.run(|from, to, message| {
            !matches!(message, Message::ViewChange(_)) || from != R3 || to != R1
        });
        let unheld = Written { view: V0, batch: Digest([9; 32]) };
        let claim = SlotClaim { slot: S1, lock: None, writes: vec![unheld] };
        group.liar_leaves(Claims { view: V1, stable: Slot(0), slots: vec![claim] }, Vec::new());
        group.run(all);
        group.in_view(V1)
    };
    assert_eq!(opened(), [1, 2, 3]);
    let bug = Some("modsmart.waits-for-uncertified-body");
    assert_eq!(mutant::with(bug, opened), Vec::<u16>::new());
}

/// Replica 2 signs a WRITE that only the liar hears, and the liar shows a lock that it made of that
/// and of its own. It binds, and nobody but the liar supplies the batch.
#[test]
fn who_supplies_no_batch_is_left_out() {
    let opened = || {
        let mut group = Group::new();
        let writes = &mut group.core(2).window.get_mut(S1).unwrap().writes;
        (10..10 + WRITES_MAX as u8).for_each(|it| writes.note(Digest([it; 32]), V0));
        group.propose(&[2], S1, &batch(1));
        group.run(|from, to, _| from == LIAR || to == LIAR);
        // It goes on in the next view without the batch.
        group.ask(&[2, 3], V1);
        group.run(|_, to, message| to == LIAR || !matches!(message, Message::ViewChange(_)));
        group.core(2).frame.bodies.retain(Slot(0), |_| false);
        let written = Written { view: V0, batch: batch(1).digest() };
        let domain = group.membership.domain();
        let statement = write_statement(&domain, V0, S1, &written.batch);
        let signatures = [LIAR, R2].map(|id| (id, Signature(sign(id, &statement)))).to_vec();
        let claim = SlotClaim { slot: S1, lock: Some(written), writes: Vec::new() };
        let claims = Claims { view: V1, stable: Slot(0), slots: vec![claim] };
        group.liar_leaves(claims, vec![SignedWrites { slot: S1, written, signatures }]);
        group.run(|from, to, message| {
            from == LIAR && to == R1 && matches!(message, Message::ViewChange(_))
        });
        let not_the_batch = |from: ReplicaId, _: ReplicaId, message: &Message| {
            from != LIAR || !message_is_body(message)
        };
        group.ticks(not_the_batch);
        group.in_view(V1)
    };
    assert_eq!(opened(), [1, 2, 3]);
    let bug = Some("modsmart.waits-for-bound-body");
    assert_eq!(mutant::with(bug, opened), Vec::<u16>::new());
}

fn message_is_body(message: &Message) -> bool {
    use crate::common::message::Shared;
    matches!(message, Message::Shared(Shared::Body(_)))
}

/// What a view takes over was found good before. A clock that runs late does not stop it.
#[test]
fn what_is_taken_over_is_not_judged_again() {
    let wrote = || {
        let mut group = Group::new();
        let late = batch(1_000_000);
        (2..4).for_each(|id| group.round(id, 1_000_000));
        group.propose(&[1, 2, 3], S1, &late);
        group.vote(&[2, 3], V0, S1, late.digest());
        group.run(|from, to, message| (from != R1 && to != R1) && !is_accept(message));
        assert!(group.core(2).window.get(S1).unwrap().lock.is_some());
        group.ask(&[2, 3], V1);
        group.run(all);
        assert_eq!(group.in_view(V1), [1, 2, 3]);
        group.wrote(1, V1, S1)
    };
    assert_eq!(wrote(), [batch(1_000_000).digest()]);
    assert_eq!(mutant::with(Some("modsmart.policy-on-bound"), wrote), Vec::<Digest>::new());
}

/// VIEW-CHANGEs for a lower view open no view.
#[test]
fn a_view_change_counts_in_its_view_only() {
    let mut group = decided_at_one();
    group.ask(&[2, 3], V1);
    group.run(all);
    let opening = group.heard.iter().find_map(|verified| match &*verified.message {
        Message::NewView(opening) => Some(NewView::clone(opening)),
        _ => None,
    });
    let opening = opening.expect("view 1 was opened");
    let judge =
        |opening: &NewView| opening.validate::<Windowed>(Check::new(&group.membership, &Seals));
    assert_eq!(judge(&opening), Ok(()));
    let again = NewView { view: View(4), ..opening.clone() };
    assert_eq!(judge(&again), Err(Reject::BadCertificate));
    let bug = Some("modsmart.collect-names-no-view");
    assert_eq!(mutant::with(bug, || judge(&again)), Ok(()));
    let few = NewView { members: opening.members[..2].to_vec(), ..opening.clone() };
    assert_eq!(judge(&few), Err(Reject::BadCertificate));
    let twice = [&opening.members[..2], &opening.members[..1]].concat();
    assert_eq!(judge(&NewView { members: twice, ..opening }), Err(Reject::BadCertificate));
}
