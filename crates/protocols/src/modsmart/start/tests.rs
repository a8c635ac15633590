//! Sets of VIEW-CHANGEs by hand, of four replicas of which one may lie: the smallest in which each
//! rule matters.

use super::super::claims::{Claims, SlotClaim, Written};
use super::super::signed_writes::SignedWrites;
use super::super::variant::{Crash, Windowed};
use super::{Left, Start};
use crate::common::batch_store::null;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mutant;
use pentarchy_core::quorum::Quorums;

const FOUR: Quorums = Quorums { n: 4, f: 1 };

const ONE: Digest = Digest([1; 32]);
const TWO: Digest = Digest([2; 32]);

fn at(view: u64, batch: Digest) -> Written {
    Written { view: View(view), batch }
}

/// What a member says of slot 1: its lock, and what it wrote.
fn says(lock: Option<Written>, writes: &[Written]) -> Vec<SlotClaim> {
    let claim = SlotClaim { slot: Slot(1), lock, writes: writes.to_vec() };
    if claim.lock.is_none() && claim.writes.is_empty() { Vec::new() } else { vec![claim] }
}

fn of(slots: &[Vec<SlotClaim>], proofs: &[SignedWrites]) -> Option<Start> {
    let claims = slots.iter().map(|slots| {
        let slots = slots.clone();
        Claims { view: View(9), stable: Slot(0), slots }
    });
    let claims: Vec<Claims> = claims.collect();
    let members: Vec<Left<'_>> = (0u16..).map(ReplicaId).zip(&claims).collect();
    Start::of::<Windowed>(&members, proofs, FOUR)
}

/// What slot 1 orders, if that is known.
fn bound(slots: &[Vec<SlotClaim>]) -> Option<Option<Written>> {
    of(slots, &[]).map(|start| start.list.first().copied().flatten())
}

#[test]
fn a_lock_binds_that_a_quorum_does_not_pass_over_and_somebody_correct_wrote() {
    let locked = says(Some(at(0, ONE)), &[at(0, ONE)]);
    let wrote = says(None, &[at(0, ONE)]);
    assert_eq!(bound(&[locked.clone(), wrote.clone(), vec![]]), Some(Some(at(0, ONE))));
    assert_eq!(bound(&[vec![], wrote.clone(), vec![]]), Some(None), "no lock, so no decision");
    let nothing =
        mutant::with(Some("modsmart.first-timestamp-zero"), || bound(&[locked, wrote, vec![]]));
    assert_eq!(nothing, Some(None));
}

/// A liar shows a lock of a higher view after a decision.
#[test]
fn what_one_member_invents_binds_nothing() {
    let locked = || says(Some(at(0, ONE)), &[at(0, ONE)]);
    let lie = says(Some(at(3, TWO)), &[at(3, TWO)]);
    let members = [locked(), locked(), lie];
    assert_eq!(bound(&members), None, "the third correct one is missing");
    let all = [locked(), locked(), members[2].clone(), locked()];
    assert_eq!(bound(&all), Some(Some(at(0, ONE))));
    let believed = mutant::with(Some("modsmart.lock-needs-no-writers"), || bound(&members));
    assert_eq!(believed, Some(Some(at(3, TWO))));
}

/// A lock of view 0 at one replica was passed over in view 1, where another batch was decided.
#[test]
fn a_lock_that_a_quorum_passed_over_binds_nothing() {
    let old = says(Some(at(0, ONE)), &[at(0, ONE)]);
    let new = || says(Some(at(1, TWO)), &[at(1, TWO)]);
    let liar = says(None, &[at(0, ONE)]);
    let members = [old.clone(), liar.clone(), says(Some(at(1, TWO)), &[])];
    assert_eq!(bound(&members), None, "one who wrote the second batch is missing");
    assert_eq!(bound(&[old, liar, new(), new()]), Some(Some(at(1, TWO))));
    let wrong = mutant::with(Some("modsmart.no-first-count"), || bound(&members));
    assert_eq!(wrong, Some(Some(at(0, ONE))));
}

/// Who signs a WRITE does not show it: the lock that was made from it brings the signature.
#[test]
fn whoever_signed_counts_as_a_writer() {
    let locked = says(Some(at(2, ONE)), &[at(2, ONE)]);
    let members = [locked, vec![], vec![]];
    assert_eq!(bound(&members), None);
    let signatures = vec![(ReplicaId(3), Signature([0; 64]))];
    let of_it = SignedWrites { slot: Slot(1), written: at(2, ONE), signatures };
    let start = of(&members, core::slice::from_ref(&of_it));
    assert_eq!(start.and_then(|it| it.list[0]), Some(at(2, ONE)));
    let of_another = SignedWrites { written: at(2, TWO), ..of_it };
    assert_eq!(of(&members, &[of_another]), None);
}

#[test]
fn every_slot_above_the_highest_checkpoint_has_its_own_outcome() {
    let claim = |slot, lock: Option<Written>, writes: &[Written]| SlotClaim {
        slot: Slot(slot),
        lock,
        writes: writes.to_vec(),
    };
    let decided = |slot| claim(slot, Some(at(0, ONE)), &[at(0, ONE)]);
    let claims = [
        Claims { view: View(1), stable: Slot(4), slots: vec![decided(5), decided(7)] },
        Claims { view: View(1), stable: Slot(2), slots: vec![decided(3), decided(7)] },
        Claims {
            view: View(1),
            stable: Slot(5),
            slots: vec![decided(7), claim(9, None, &[at(0, TWO)])],
        },
    ];
    let members: Vec<Left<'_>> = (0u16..).map(ReplicaId).zip(&claims).collect();
    let start = Start::of::<Windowed>(&members, &[], FOUR).expect("nothing is open");
    assert_eq!((start.base, start.end()), (Slot(5), Slot(7)), "slot 9 can be proposed anew");
    let batches: Vec<Digest> = start.batches().map(|(_, batch)| batch).collect();
    assert_eq!(batches, [null().digest(), ONE]);
    assert_eq!(start.bound().collect::<Vec<_>>(), [(Slot(7), at(0, ONE))]);
    // A slot that is open stops the view, wherever it is.
    let lie = Claims { slots: vec![claim(8, Some(at(0, TWO)), &[])], ..claims[1].clone() };
    let members = [members[0], (ReplicaId(1), &lie), members[2]];
    assert_eq!(Start::of::<Windowed>(&members, &[], FOUR), None);
}

/// Where nobody lies: n = 3, one is dead.
#[test]
fn in_the_crash_mode_the_highest_lock_binds_whoever_shows_it() {
    let three = Quorums { n: 3, f: 1 };
    let bound = |slots: &[Vec<SlotClaim>]| {
        let claims = slots.iter().cloned();
        let claims = claims.map(|slots| Claims { view: View(9), stable: Slot(0), slots });
        let claims: Vec<Claims> = claims.collect();
        let members: Vec<Left<'_>> = (0u16..).map(ReplicaId).zip(&claims).collect();
        let start = Start::of::<Crash>(&members, &[], three).expect("nothing is ever open");
        start.list.first().copied().flatten()
    };
    let locked = |view, batch| says(Some(at(view, batch)), &[]);
    assert_eq!(bound(&[vec![], vec![]]), None);
    let decided = [locked(2, ONE), vec![]];
    assert_eq!(bound(&decided), Some(at(2, ONE)), "the other one that locked it is dead");
    let passed_over = [locked(0, TWO), locked(2, ONE)];
    assert_eq!(bound(&passed_over), Some(at(2, ONE)));
    let lost = mutant::with(Some("modsmart-cft.lock-needs-witnesses"), || bound(&decided));
    assert_eq!(lost, None);
    let wrong = mutant::with(Some("modsmart-cft.lowest-lock-wins"), || bound(&passed_over));
    assert_eq!(wrong, Some(at(0, TWO)));
}
