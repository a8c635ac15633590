//! Whom a client believes.

use super::super::Told;
use super::super::told::Came;
use super::{CLIENT, Group, Macs, Message, S1, all};
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{
    self as client_port, ClientCore as _, Outcome, Reply, ToClient,
};
use pentarchy_core::ports::replica::slot_results::Results;
use pentarchy_core::wire::Wire as _;

/// A client that waits for number 1, before anybody answers.
fn waiting() -> Group<Macs> {
    let mut group = Group::three(&[0, 1, 2]);
    group.submit(1);
    group
}

fn reply(result: u8) -> Vec<Reply> {
    vec![Reply { number: 1, outcome: Outcome::Done(Bytes::from(vec![result])) }]
}

fn digest(result: u8) -> Came {
    Came::Digest(Results::new(CLIENT, reply(result)).digest)
}

impl Group<Macs> {
    fn tell(&mut self, from: u16, message: ToClient) {
        let from = ReplicaId(from);
        self.client_step(client_port::Event::Message { from, message });
    }

    fn vouch(&mut self, from: u16, slot: Slot, history: u8, came: Came) {
        let history = Digest([history; 32]);
        let told = Told { slot, history, came }.to_bytes();
        self.tell(from, ToClient::Protocol(told));
    }

    fn finish(&mut self, from: u16, result: u8) {
        self.tell(from, ToClient::Replies { view: View(0), replies: reply(result) });
    }

    fn believed(&self) -> Option<&Outcome> {
        self.results.get(&1)
    }
}

/// Two full replicas order a request, and the witness is cut off: if one of them lies, nobody
/// correct that reports may know of it.
#[test]
fn what_full_replicas_alone_have_is_not_believed() {
    let believed = || {
        let mut group = Group::three(&[]);
        group.order([1], |_, to, _| to != ReplicaId(2));
        (group.ordered(), group.results.len())
    };
    assert_eq!(believed(), (vec![1, 1, 0], 0));
    let hasty = mutant::with(Some("shuttle.client-believes-results"), believed);
    assert_eq!(hasty, (vec![1, 1, 0], 1));
}

#[test]
fn all_vouch_for_one_slot_one_history_and_one_result() {
    let believed = |vouchers: [(Slot, u8, Came); 3]| {
        let mut group = waiting();
        for (from, (slot, history, came)) in (0..).zip(vouchers) {
            assert_eq!(group.believed(), None);
            group.vouch(from, slot, history, came);
        }
        group.believed().is_some()
    };
    let whole = |result| Came::Whole(reply(result));
    let (one, other) = (S1, Slot(2));
    let good = [(one, 1, digest(5)), (one, 1, whole(5)), (one, 1, Came::Unknown)];
    assert!(believed(good.clone()));
    let change = |at: usize, voucher: (Slot, u8, Came)| {
        let mut vouchers = good.clone();
        vouchers[at] = voucher;
        believed(vouchers)
    };
    assert!(!change(0, (one, 1, digest(6))), "another result");
    assert!(!change(1, (one, 1, whole(6))), "results that do not hash to what the other has");
    assert!(!change(1, (one, 1, digest(5))), "nobody tells the results");
    assert!(!change(0, (one, 1, Came::Unknown)), "a full replica knows what came of it");
    assert!(!change(2, (one, 1, digest(5))), "a witness does not");
    for (at, (_, _, came)) in good.iter().enumerate() {
        assert!(!change(at, (one, 2, came.clone())), "another history");
        assert!(!change(at, (other, 1, came.clone())), "another slot");
    }
}

/// Nobody is counted twice, and who is no member is not counted.
#[test]
fn one_replica_is_one_voucher() {
    let mut group = waiting();
    for from in [1, 1, 1, 3, 64] {
        group.vouch(from, S1, 1, Came::Whole(reply(5)));
        group.vouch(from, S1, 1, Came::Unknown);
    }
    assert_eq!(group.believed(), None);
    group.tell(1, ToClient::Protocol(Bytes::from_static(&[1, 2, 3])));
    assert_eq!(group.client.outstanding(), 1, "what cannot be read is left alone");
}

#[test]
fn f_plus_one_full_replicas_say_what_is_final() {
    let mut group = waiting();
    group.finish(0, 5);
    group.finish(0, 5);
    group.finish(2, 5);
    assert_eq!(group.believed(), None, "a witness has executed nothing");
    group.finish(1, 6);
    assert_eq!(group.believed(), None);
    let mut group = waiting();
    group.finish(0, 5);
    group.finish(1, 5);
    assert_eq!(group.believed(), Some(&Outcome::Done(Bytes::from_static(&[5]))));
}

/// The client asks again for what both full replicas have executed and the witness has not.
#[test]
fn what_is_not_done_is_not_final() {
    let asked = || {
        let mut group = Group::three(&[]);
        let cut = |_: ReplicaId, to: ReplicaId, _: &Message<Macs>| to != ReplicaId(2);
        group.order([1], cut);
        group.ask_again();
        group.run(cut);
        let early = group.results.len();
        group.ticks(all);
        group.told.clear();
        group.ask_again();
        group.run(all);
        (early, group.results.len())
    };
    assert_eq!(asked(), (0, 1));
    assert_eq!(mutant::with(Some("shuttle.final-at-order-time"), asked).0, 1);
}

/// Every voucher is lost. What is settled and done is told again from the client table.
#[test]
fn who_lost_the_answer_asks_again() {
    let mut group = Group::three(&[]);
    group.submit(1);
    group.round();
    group.told.clear();
    while let Some((to, verified)) = group.under_way.pop_front() {
        group.deliver(to, verified);
        group.told.clear();
    }
    assert_eq!((group.done(), group.results.len()), (vec![1; 3], 0));
    group.ask_again();
    group.run(all);
    assert_eq!(group.results.len(), 1);
    assert_eq!(group.ordered(), [1; 3], "and nothing is ordered twice");
}

/// A query finds no state that all have: it is ordered.
#[test]
fn reads_are_ordered() {
    let mut group = Group::three(&[]);
    let operation = Bytes::from_static(b"read");
    group.client_step(client_port::Event::Query { number: 1, operation });
    group.client_round();
    group.round();
    group.run(all);
    assert_eq!((group.ordered(), group.results.len()), (vec![1; 3], 1));
}
