//! What comes from outside is bounded, and means what it says.

use super::super::told::Came;
use super::super::{Checksums, Marked, Told, Trusting};
use super::{Macs, Message, Mode, Order, Record, S1, macs};
use crate::common::certificate::CheckpointProof;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{Millis, ReplicaId, Slot};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::membership::Base;
use pentarchy_core::ports::client::{Outcome, Reply};
use pentarchy_core::protocol::Message as _;
use pentarchy_core::wire::{Malformed, Wire};

/// It is decoded as it was encoded, and nothing else is: no part of it, nor more.
fn travels<T: Wire + PartialEq + Debug>(value: &T) {
    let bytes = value.to_bytes();
    assert_eq!(T::from_bytes(&bytes).as_ref(), Ok(value));
    for end in 0..bytes.len() {
        assert_eq!(T::from_bytes(&bytes.slice(..end)), Err(Malformed), "{end} bytes");
    }
    let longer = Bytes::from([&bytes[..], &[0]].concat());
    assert_eq!(T::from_bytes(&longer), Err(Malformed));
}

fn order<M: Mode>(tags: Vec<M::Tag>) -> Order<M> {
    let proposal = Arc::new(Proposal::new(Millis(3), Vec::new()));
    let (history, results) = (Digest([1; 32]), Some(Digest([2; 32])));
    Order { slot: S1, proposal, history, results, tags }
}

fn marked() -> Marked {
    Marked { state: Digest([3; 32]), history: Digest([4; 32]) }
}

#[test]
fn messages_and_records_travel() {
    let tag = || macs(ReplicaId(0), 3, &Digest::default());
    let signatures = vec![(ReplicaId(1), Signature([5; 64]))];
    let proof = CheckpointProof { slot: Slot(4), state: marked(), signatures };
    let (upto, history) = (Slot(2), Digest([1; 32]));
    let level = super::super::message::Level { ordered: Slot(3), done: upto, stable: S1 };
    let messages: [Message<Macs>; 5] = [
        Message::Order(Arc::new(order(vec![tag(), tag()]))),
        Message::Done { upto, history, tags: vec![tag()] },
        Message::Mark { slot: upto, marked: marked(), signatures: vec![Signature([5; 64])] },
        Message::Stable(proof.clone()),
        Message::Level(level),
    ];
    messages.iter().for_each(travels);
    travels(&Message::<Checksums>::Order(Arc::new(order(Vec::new()))));
    travels(&Message::<Trusting>::Done { upto, history, tags: Vec::new() });
    let records: [Record<Macs>; 5] = [
        Record::Ordered(Arc::new(order(vec![tag()]))),
        Record::Results { slot: upto, results: history },
        Record::Stable(proof),
        Record::Cut(Base { slot: upto, state: history }),
        Record::Wedged,
    ];
    records.iter().for_each(travels);
    let reply = Reply { number: 8, outcome: Outcome::Forgotten };
    for came in [Came::Unknown, Came::Digest(history), Came::Whole(vec![reply])] {
        travels(&Told { slot: upto, history, came });
    }
}

#[test]
fn nobody_sends_more_tags_than_there_are_replicas() {
    let tag = || macs(ReplicaId(0), 3, &Digest::default());
    let tags = vec![tag(); REPLICAS_MAX + 1];
    let done = Message::<Macs>::Done { upto: S1, history: Digest::default(), tags };
    assert_eq!(Message::<Macs>::from_bytes(&done.to_bytes()), Err(Malformed));
    // Where nobody lies there are none at all.
    let one = Bytes::from([&[1][..], &[0; 8], &[0; 32], &1u32.to_le_bytes()].concat());
    assert_eq!(Message::<Checksums>::from_bytes(&one), Err(Malformed));
}

/// An order and what comes back say the same, whoever says it; a mark says something else.
#[test]
fn a_history_is_said_alike_in_both_directions() {
    let domain = Domain::default();
    let down = Message::<Macs>::Order(Arc::new(order(Vec::new())));
    let tags = vec![macs(ReplicaId(2), 3, &Digest::default())];
    let up = Message::<Macs>::Done { upto: S1, history: Digest([1; 32]), tags };
    assert_eq!(down.statement(&domain), up.statement(&domain));
    let (slot, signatures) = (S1, Vec::new());
    let mark = Message::<Macs>::Mark { slot, marked: marked(), signatures };
    assert_ne!(mark.statement(&domain), down.statement(&domain));
}
