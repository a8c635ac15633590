//! What a group in memory cannot be seen to do from outside; the rest is in `tests/it/`.

use super::record::Record;
use super::replica::Phase;
use super::{Message, Pbft};
use crate::common::certificate::CheckpointProof;
use crate::common::frame::checkpointing::Checkpointing;
use crate::common::frame::hooks::LogCompaction;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verified};
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{GroupId, Incarnation, Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::protocol::{Effect, Effects, Event, Memory, Protocol, Setup, Tuning};

/// A backup of four that goes on from these records, and what it does at first.
fn backup(me: u16, log: Vec<Record>) -> (Pbft, Effects<Pbft>) {
    let members = [([0; 32], Life::mac(Incarnation(0))); 4];
    let membership = Arc::new(Membership::of_keys(GroupId([7; 16]), 1, members));
    let base = membership.base;
    let memory = Memory::Durable { executed: base, records: Vec::new() };
    let tuning = Tuning::default();
    let setup = Setup { me: ReplicaId(me), membership, fetch: None, memory, tuning };
    let mut out = Effects::default();
    (Pbft::start(setup, &mut log.into_iter(), &mut out), out)
}

/// A replica hears that another one said this.
fn hear(replica: &mut Pbft, author: u16, message: Message, out: &mut Effects<Pbft>) {
    let (tag, domain) = (AuthTag::Signature([0; 64]), replica.frame.membership.domain());
    let verified = Verified::recalled(ReplicaId(author), tag, &domain, message);
    replica.step(Event::Message(verified), out);
    replica.assert_invariants();
}

/// What was kept, and what was voted for.
fn told(out: &mut Effects<Pbft>) -> (Vec<Record>, Vec<Digest>) {
    let (mut kept, mut voted) = (Vec::new(), Vec::new());
    for effect in out.drain() {
        match effect {
            Effect::Persist(record) => kept.push(record),
            Effect::Send { message: Message::Prepare { batch, .. }, .. } => voted.push(batch),
            _ => {}
        }
    }
    (kept, voted)
}

/// Who was shown something else than everybody else has a certificate of what the others voted for,
/// and its own vote is for something else: after every crash too, also in the middle of telling its
/// log again.
#[test]
fn who_was_shown_something_else_never_votes_twice() {
    let (mut replica, mut out) = backup(3, Vec::new());
    let (view, slot) = (View(0), Slot(1));
    let [all, one] = [1, 2].map(|time| Arc::new(Proposal::new(Millis(time), Vec::new())));
    let (batch, other) = (all.digest(), one.digest());
    let propose = |proposal| Message::PrePrepare { view, slot, proposal };
    hear(&mut replica, 0, propose(one), &mut out);
    for author in [1, 2] {
        hear(&mut replica, author, Message::Prepare { view, slot, batch }, &mut out);
    }
    hear(&mut replica, 0, propose(all), &mut out);
    let (mut log, voted) = told(&mut out);
    assert_eq!(voted, [other]);
    assert!(replica.window.get(slot).is_some_and(|it| it.prepared && it.batch == Some(batch)));
    for _ in 0..3 {
        replica.persist_again(&mut out);
        let (again, _) = told(&mut out);
        assert!(!again.is_empty());
        for told_again in 0..=again.len() {
            let log = [&log[..], &again[..told_again]].concat();
            let (replica, mut out) = backup(3, log);
            replica.assert_invariants();
            assert_eq!(told(&mut out).1, [other]);
        }
        let (next, mut out) = backup(3, again.clone());
        (replica, log) = (next, again);
        assert_eq!(told(&mut out).1, [other]);
        assert!(replica.window.get(slot).is_some_and(|it| it.prepared && it.batch == Some(batch)));
    }
}

/// Of one author, a replica that is about to enter a view keeps one message of a kind for each slot
/// of its window, whatever else it is sent: a proposal is large.
#[test]
fn what_comes_early_is_kept_once_for_each_slot() {
    let (mut replica, mut out) = backup(2, Vec::new());
    (replica.frame.view, replica.phase) = (View(1), Phase::Changing);
    replica.frame.view_change_timer.start();
    for time in 0..1_000 {
        for slot in [1, 2, 256, 257, 1_000].map(Slot) {
            let proposal = Arc::new(Proposal::new(Millis(time), Vec::new()));
            let message = Message::PrePrepare { view: View(1), slot, proposal };
            hear(&mut replica, 1, message, &mut out);
        }
    }
    replica.assert_invariants();
    let kept = |replica: &Pbft| -> Vec<Slot> {
        replica.frame.early.keys().map(|(slot, ..)| *slot).collect()
    };
    assert_eq!(kept(&replica), [1, 2, 256].map(Slot));
    // The others go on without it, and the window with them.
    let state = Digest::of(b"a state");
    replica.adopt(CheckpointProof { slot: Slot(64), state, signatures: Vec::new() }, &mut out);
    assert_eq!((replica.frame.stable.slot, kept(&replica)), (Slot(64), vec![Slot(256)]));
}
