//! Queries in schedules by hand. They are not ordered, so what two clients read, one after the
//! other, must fit into one order although they ask different replicas, some of which lag and one
//! of which lies. And nobody reads what may be taken back.

use crate::net::{Net, SLOW};
use pentarchy_core::Bytes;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, Slot, View};
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{ClientCore as _, Effect, Event, Outcome, Place, ToClient};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Protocol, Timeouts, Tuning};
use pentarchy_core::quorum::Quorums;
use pentarchy_core::reads::{Query, Reads};
use pentarchy_core::request::{Draft, Envelope, Request, RequestAuth};
use pentarchy_core::wire::Wire as _;
use pentarchy_protocols::common::voting_client::VotingClient;

use pentarchy_protocols::pbft::{Decided, HybridPbft, Message, Pbft, Seal, TentativePbft, Variant};
use pentarchy_protocols::pillars::{self, Pillars};
use pentarchy_sim::checker::linearizability::{Seen, check};
use pentarchy_sim::service::{Action, Journal, Operation, Registers};
use std::sync::Arc;

const BUG: Option<&str> = Some("pbft.reads-before-prepared");

/// The clients who write: with two pillars each has another one.
const EVEN: u8 = 2;
const ODD: u8 = 3;

/// A client sets the only register.
fn put(client: u8, number: u64, value: &'static str) -> Arc<Envelope> {
    let operation = Bytes::from_static(value.as_bytes());
    let requests = vec![Request { number, operation }];
    let draft = Draft { client: ClientId([client; 32]), floor: 1, events: None, requests };
    Arc::new(draft.seal(RequestAuth::Signature([0; 64])))
}

/// A protocol that orders a slot by PRE-PREPARE, PREPARE and COMMIT.
trait Phases: Protocol<Input = Input, Output = Output> {
    /// The last slot once the first write is executed, the second and the third.
    const ENDS: [u64; 3];

    /// The slot of the whole order that a message is about, and whether it is a COMMIT.
    fn about(message: &Self::Message) -> Option<(u64, bool)>;
}

fn phase<S: Seal>(message: &Message<S>) -> Option<(u64, bool)> {
    match message {
        Message::PrePrepare { slot, .. } | Message::Prepare { slot, .. } => Some((slot.0, false)),
        Message::Commit { slot, .. } => Some((slot.0, true)),
        _ => None,
    }
}

impl<V: Variant> Phases for Pbft<V> {
    const ENDS: [u64; 3] = [1, 2, 3];

    fn about(message: &Self::Message) -> Option<(u64, bool)> {
        phase(message)
    }
}

impl Phases for Pillars<Pbft> {
    /// The other pillar's slot of a row is filled.
    const ENDS: [u64; 3] = [2, 4, 6];

    fn about(message: &pillars::Message<Message>) -> Option<(u64, bool)> {
        let (row, is_commit) = phase(&message.inner)?;
        Some((2 * row - 1 + u64::from(message.pillar), is_commit))
    }
}

/// What does not arrive: nothing about slots behind the first of these at replica 2, and no COMMIT
/// of slots behind the second at 1 and 3.
type Late = [u64; 2];

/// All arrives.
const NOTHING: Late = [u64::MAX; 2];

fn is_late(late: Late, to: u16, (slot, is_commit): (u64, bool)) -> bool {
    match to {
        2 => slot > late[0],
        1 | 3 => is_commit && slot > late[1],
        _ => false,
    }
}

/// Four replicas; what is on its way to some of them is late.
struct Scene<P: Phases> {
    net: Net<P>,
    late: Vec<(ReplicaId, ReplicaId, Verified<P::Message>)>,
    reads: [Reads<u8>; 4],
}

impl<P: Phases> Scene<P> {
    fn new(net: Net<P>) -> Self {
        Self { net, late: Vec::new(), reads: Default::default() }
    }

    /// Lets a few milliseconds pass, in which all arrives that is not `late`.
    fn pass(&mut self, late: Late) {
        self.net.queue.extend(self.late.drain(..));
        for _ in 0..8 {
            let waits = |it: &(_, ReplicaId, Verified<P::Message>)| {
                P::about(&it.2.message).is_some_and(|about| is_late(late, it.1.0, about))
            };
            let (waiting, now): (Vec<_>, Vec<_>) = self.net.queue.drain(..).partition(waits);
            self.late.extend(waiting);
            self.net.queue.extend(now);
            self.net.millisecond();
        }
    }

    fn write(&mut self, envelope: &Arc<Envelope>, late: Late) {
        self.net.request(0, envelope);
        self.net.round(0);
        self.pass(late);
    }

    fn executed(&self, id: u16) -> Slot {
        self.net.nodes[usize::from(id)].executed.last().map_or(Slot(0), |(slot, _)| *slot)
    }

    /// The state that may be read: nothing of it may be taken back.
    fn readable(&self, id: u16) -> Option<Slot> {
        let executed = self.executed(id);
        (self.net.status(id).committed >= executed).then_some(executed)
    }

    fn value(&self, id: u16) -> Bytes {
        let batches = self.net.nodes[usize::from(id)].executed.iter().map(|(_, batch)| batch);
        let requests = batches.flat_map(|it| &it.envelopes).flat_map(|it| &it.requests);
        requests.last().expect("something is written").operation.clone()
    }

    /// A query comes to a replica: what it answers, if it does so at once.
    fn ask(&mut self, id: u16, client: u8) -> Option<Bytes> {
        let query = Query { client, number: 1, operation: Bytes::new() };
        let (from, state) = (self.net.core(id).reads_from(), self.readable(id));
        self.reads[usize::from(id)].ask(query, from, state).map(|_| self.value(id))
    }

    /// What it answers to who has asked before.
    fn answers(&mut self, id: u16) -> Option<Bytes> {
        let ready = self.reads[usize::from(id)].take(self.readable(id));
        (!ready.is_empty()).then(|| self.value(id))
    }
}

/// Somebody who reads.
struct Reader(VotingClient);

impl Reader {
    fn new(client: u8) -> Self {
        let quorums = Pbft::<Decided>::RULES.client_quorums(Quorums { n: 4, f: 1 });
        let mut core = VotingClient::new(ClientId([client; 32]), quorums, Timeouts::default(), 1);
        let mut out = Vec::new();
        core.step(Event::Query { number: 1, operation: Bytes::new() }, &mut out);
        core.step(Event::Round { now: Millis(1) }, &mut out);
        assert!(out.iter().any(|it| matches!(it, Effect::Query { .. })));
        Self(core)
    }

    /// Whether it has its query ordered instead.
    fn orders(&mut self) -> bool {
        let mut out = Vec::new();
        self.0.step(Event::Round { now: Millis(2) }, &mut out);
        out.iter().any(|it| matches!(it, Effect::Request { .. }))
    }

    /// Hears these answers; what it makes of them.
    fn hear(&mut self, answers: &[(u16, Option<Bytes>)]) -> Option<Bytes> {
        let mut out = Vec::new();
        for (from, result) in answers {
            let Some(result) = result.clone() else { continue };
            let message = ToClient::Answer { number: 1, result };
            self.0.step(Event::Message { from: ReplicaId(*from), message }, &mut out);
        }
        out.into_iter().find_map(|effect| match effect {
            Effect::Completed { outcome: Outcome::Done(result), .. } => Some(result),
            _ => None,
        })
    }
}

/// What two clients read that ask one after the other.
///
/// `A` is written, then `B`, and all are told so; replica 2 has not heard of `B`. `A` is written
/// again, and only replica 0 executes that. The first client hears of replicas 0 and 2, and of 3,
/// which lies. Now replica 2 hears of `B`. The second client hears of replicas 1 and 2, and of 3.
/// What they read; and whether the second one, when all others have answered that will, has its
/// query ordered.
fn read_twice<P: Phases>(net: Net<P>) -> ([Option<Bytes>; 2], bool) {
    let mut scene = Scene::new(net);
    let [one, two, three] = P::ENDS;
    scene.write(&put(EVEN, 1, "A"), NOTHING);
    scene.write(&put(ODD, 1, "B"), [one, u64::MAX]);
    scene.write(&put(EVEN, 2, "A"), [one, two]);
    assert_eq!([0, 1, 2].map(|id| scene.executed(id)), [three, two, one].map(Slot));

    let mut first = Reader::new(7);
    let lie = |value: &'static str| Some(Bytes::from_static(value.as_bytes()));
    let heard = [(0, scene.ask(0, 7)), (2, scene.ask(2, 7)), (3, lie("A"))];
    let first = first.hear(&heard);

    scene.pass([two, two]);
    assert_eq!([0, 1, 2].map(|id| scene.executed(id)), [three, two, two].map(Slot));
    let mut second = Reader::new(8);
    let heard = [(1, scene.ask(1, 8)), (2, scene.ask(2, 8)), (3, lie("B"))];
    let read = [first, second.hear(&heard)];
    assert!(!second.orders(), "somebody may still answer");

    scene.pass(NOTHING);
    let heard = [(1, scene.answers(1)), (2, scene.answers(2)), (0, scene.ask(0, 8))];
    assert_eq!(second.hear(&heard), None);
    (read, second.orders())
}

/// Whether there is an order of `A`, `B`, the `A` that nobody has been told of, and these reads.
fn has_order(reads: [&str; 2]) -> bool {
    let seen = |(number, action, result): (u64, Action, Option<&str>)| Seen {
        client: ClientId([number as u8; 32]),
        number,
        key: 0,
        action,
        invoked: 2 * number,
        returned: (number != 3).then_some(2 * number + 1),
        result: result.map(|value| value.as_bytes().to_vec()),
    };
    let value = |value: &'static str| Action::Put(Bytes::from_static(value.as_bytes()));
    let history = [
        (1, value("A"), Some("")),
        (2, value("B"), Some("A")),
        (3, value("A"), None),
        (4, Action::Get, Some(reads[0])),
        (5, Action::Get, Some(reads[1])),
    ];
    check(&history.map(seen)).is_ok()
}

/// With the seeded bug the second client reads what was overwritten in the order that explains the
/// first one. Without it replica 1 waits, and answers what the first client read; replica 2 may
/// answer at once, as it has prepared nothing of that, so the client has its query ordered.
fn two_reads_have_an_order<P: Phases>(net: fn() -> Net<P>) {
    let value = |value: &'static str| Some(Bytes::from_static(value.as_bytes()));
    assert_eq!(read_twice(net()), ([value("A"), None], true));
    let with_bug = mutant::with(BUG, || read_twice(net()));
    assert_eq!(with_bug, ([value("A"), value("B")], false));
    assert!(has_order(["A", "A"]) && !has_order(["A", "B"]));
}

#[test]
fn two_reads_of_pbft_have_an_order() {
    two_reads_have_an_order(|| Net::<Pbft>::new(4, &[], SLOW));
}

#[test]
fn two_reads_of_hybrid_pbft_have_an_order() {
    two_reads_have_an_order(|| Net::<HybridPbft>::new(4, &[], SLOW));
}

/// At a checkpoint nothing is executed before it is decided, so a slot may be prepared and not
/// executed there too.
#[test]
fn two_reads_of_tentative_pbft_have_an_order() {
    const TUNING: Tuning = Tuning { checkpoint_slots: 3, window_slots: 12, ..SLOW };
    two_reads_have_an_order(|| Net::<TentativePbft>::new(4, &[], TUNING));
}

#[test]
fn two_reads_of_pillars_have_an_order() {
    two_reads_have_an_order(|| Net::<Pillars<Pbft>>::of_pillars(2, 4, &[], SLOW));
}

/// Two replicas of a protocol that executes early follow different histories that a primary gave
/// them in equal slots; the register has the same value in both. Which of them say what it has.
fn told_of_two_histories() -> [Option<Slot>; 2] {
    ["first", "second"].map(|name| {
        let group = Net::<TentativePbft>::new(4, &[], SLOW).membership;
        let mut executor = Executor::new(group, Box::new(Registers::new(Journal::default())));
        let operation = Operation { number: 1, key: 0, action: Action::Put(Bytes::from("A")) };
        let requests = vec![Request { number: 1, operation: operation.to_bytes() }];
        let client = ClientId(Digest::of(name.as_bytes()).0);
        let draft = Draft { client, floor: 1, events: None, requests };
        let envelope = Arc::new(draft.seal(RequestAuth::Signature([0; 64])));
        let proposal = Proposal::new(Millis(1), vec![Item::Whole(envelope)]);
        let batch = Arc::new(proposal.complete(|_| None).expect("it is whole"));
        let place = Place { view: View(0), slot: Slot(1), history: batch.digest };
        executor.speculate(place, &batch, true, |_, _| {});
        let early = executor.readable();
        executor.commit(Slot(1), |_, _| {});
        assert_eq!(executor.readable(), Some(Slot(1)), "what is final may be read");
        early
    })
}

#[test]
fn equal_answers_of_different_histories_complete_no_read() {
    assert_eq!(told_of_two_histories(), [None, None]);
    let bug = Some("executor.reads-what-may-be-taken-back");
    assert_eq!(mutant::with(bug, told_of_two_histories), [Some(Slot(1)); 2]);
}

/// A replica has gone back to slot 1 when an epoch begins with slot 5. Whether it answers a query
/// from that state, when it had been in the epoch before and when it has just been started.
fn answers_from_before_an_epoch() -> [bool; 2] {
    let query = |number| Query { client: 1, number, operation: Bytes::new() };
    let mut stayed = Reads::new(Slot(0));
    assert!(stayed.ask(query(1), Slot(3), Some(Slot(2))).is_none());
    stayed.begin_epoch(Slot(5));
    assert!(stayed.is_empty(), "its slot was one of the epoch before");
    [stayed, Reads::new(Slot(5))].map(|mut reads| {
        let answered = reads.ask(query(2), Slot(0), Some(Slot(1))).is_some();
        assert!(answered || reads.take(Some(Slot(4))).is_empty());
        assert!(answered || reads.take(Some(Slot(5))).len() == 1);
        answered
    })
}

#[test]
fn nothing_is_read_from_before_an_epoch() {
    assert_eq!(answers_from_before_an_epoch(), [false; 2]);
    let bug = Some("epochs.reads-before-base");
    assert_eq!(mutant::with(bug, answers_from_before_an_epoch), [true; 2]);
}
