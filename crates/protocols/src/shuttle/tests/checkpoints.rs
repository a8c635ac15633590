//! Checkpoints, and how much is ordered behind them.

use super::super::Marked;
use super::super::statements::mark_statement;
use super::order::{batch, first};
use super::{Group, Keys, Macs, Message, Order, Shuttle, all, sign};
use crate::common::certificate::CheckpointProof;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Signature};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Protocol as _, Reject};
use pentarchy_core::succession::longer_history;

const S4: Slot = Slot(4);

#[test]
fn what_is_stable_is_forgotten_by_all() {
    for (n, f) in [(1, 0), (3, 1), (5, 2)] {
        let mut group = Group::<Macs>::new(n, f, &[]);
        group.order(1..=30, all);
        assert_eq!(group.stable(), vec![28; n]);
        assert!(group.cores.values().all(|core| core.log.len() == 2 && core.marks.due.is_empty()));
        assert_eq!(group.results.len(), 30);
        let signers = group.core(0).stable.signers();
        assert_eq!(signers.len(), f + 1, "full replicas, and no witness");
        let records = |id| {
            let stable = |record: &_| matches!(record, super::Record::<Macs>::Stable(_));
            group.host(id).records.iter().filter(|record| stable(record)).count()
        };
        assert!((0..n as u16).all(|id| records(id) == 7));
    }
}

/// The witness gets nothing. A full replica that signed its state would let a lying one have it
/// certified behind a slot that the witness never orders.
#[test]
fn what_is_not_done_is_not_marked() {
    let marks = || {
        let mut group = Group::three(&[0]);
        let mut order = first::<Macs>(&batch(1), Vec::new());
        for time in 2..=5 {
            group.say(0, 1, Message::Order(Arc::new(order.clone())));
            let proposal = batch(time);
            let history = longer_history(&order.history, &proposal.digest());
            order = Order { slot: order.slot.next(), proposal, history, ..order };
        }
        let cut = |_: ReplicaId, to: ReplicaId, _: &Message<Macs>| to != ReplicaId(2);
        group.run(cut);
        let core = group.core(1);
        let (state, history) = (core.marks.states[&S4], core.log.history_at(S4).unwrap());
        let marked = Marked { state, history };
        group.say(0, 1, Message::Mark { slot: S4, marked, signatures: Vec::new() });
        group.run(cut);
        group.stable()
    };
    assert_eq!(marks(), [0, 0]);
    assert_eq!(mutant::with(Some("shuttle.marks-what-is-not-done"), marks), [4, 0]);
}

#[test]
fn all_full_replicas_make_a_checkpoint_stable() {
    let membership = super::membership(3, 1);
    let marked = Marked { state: Digest([1; 32]), history: Digest([2; 32]) };
    let statement = mark_statement(&membership.domain(), S4, &marked);
    let by = |signers: &[u16]| {
        let sign = |by: &u16| (ReplicaId(*by), Signature(sign(ReplicaId(*by), &statement)));
        let signatures = signers.iter().map(sign).collect();
        let proof = CheckpointProof { slot: S4, state: marked, signatures };
        let keys = Keys { me: ReplicaId(2), n: 3 };
        let message = Message::Stable(proof);
        Shuttle::<Macs>::validate(&membership, &keys, ReplicaId(1), &AuthTag::Channel, &message)
    };
    assert_eq!(by(&[0, 1]), Ok(()));
    for few in [&[][..], &[0], &[1, 1], &[0, 2], &[0, 1, 2]] {
        assert_eq!(by(few), Err(Reject::BadCertificate), "{few:?}");
    }
    assert_eq!(mutant::with(Some("shuttle.one-full-replica-marks"), || by(&[0])), Ok(()));
}

#[test]
fn who_marks_another_state_is_accused() {
    let mut group = Group::three(&[0]);
    let mut order = first::<Macs>(&batch(1), Vec::new());
    for time in 2..=5 {
        group.say(0, 1, Message::Order(Arc::new(order.clone())));
        let proposal = batch(time);
        let history = longer_history(&order.history, &proposal.digest());
        order = Order { slot: order.slot.next(), proposal, history, ..order };
    }
    group.run(all);
    let history = group.core(1).log.history_at(S4).unwrap();
    let marked = Marked { state: Digest([9; 32]), history };
    group.say(0, 1, Message::Mark { slot: S4, marked, signatures: Vec::new() });
    group.run(all);
    assert_eq!((group.stable(), group.accused(1)), (vec![0, 0], vec![0]));
}

/// A mark or two are lost, and what is stable too.
#[test]
fn marks_are_said_again() {
    let mut group = Group::<Macs>::new(5, 2, &[]);
    group.order(1..=4, |_, _, it| !matches!(it, Message::Mark { .. }));
    group.ticks(|_, _, it| !matches!(it, Message::Stable(_)));
    assert_eq!(group.stable(), [0, 0, 4, 0, 0], "the last full replica has all signatures");
    group.ticks(all);
    assert_eq!(group.stable(), [4; 5]);
}

/// A lying head orders on and on, and nothing is ever stable.
#[test]
fn every_replica_limits_what_it_reports() {
    let ordered = || {
        let mut group = Group::three(&[0]);
        let mut order = first::<Macs>(&batch(1), Vec::new());
        for time in 2..=30 {
            group.say(0, 1, Message::Order(Arc::new(order.clone())));
            group.run(all);
            let proposal = batch(time);
            let history = longer_history(&order.history, &proposal.digest());
            order = Order { slot: order.slot.next(), proposal, history, ..order };
        }
        group.ordered()
    };
    assert_eq!(ordered(), [12, 12]);
    assert_eq!(mutant::with(Some("shuttle.head-alone-limits"), ordered), [29, 29]);
}

/// A correct head waits for the next checkpoint.
#[test]
fn a_head_orders_no_more_than_has_room() {
    let mut group = Group::three(&[]);
    group.order(1..=20, |_, _, it| !matches!(it, Message::Mark { .. }));
    assert_eq!((group.ordered(), group.results.len()), (vec![12; 3], 12));
    assert!((0..3).all(|id| group.accused(id).is_empty()));
    group.ticks(all);
    assert_eq!((group.ordered()[0], group.results.len()), (13, 20), "the rest is one batch");
}
