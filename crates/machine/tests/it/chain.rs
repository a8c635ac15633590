//! What a chain needs of its host: a chain of three in which each replica executes, hears what came
//! of it and passes that on, and the tail alone speaks with clients.

use crate::bench::{Bench, client, disk, membership, pass, request};
use crate::disk::SlowDisk;
use bytes::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::counter::Counter;
use pentarchy_core::digest::{Digest, Domain, Hasher};
use pentarchy_core::erased::Erased;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{ToClient, ToReplica};
use pentarchy_core::ports::replica::slot_results::{self, Results};
use pentarchy_core::ports::replica::{Input, Output, replying};
use pentarchy_core::protocol::{
    Authority, Effects, Event, FaultModel, Memory, Message, NoTimer, Protocol, Reject, Rules,
    Setup, Status, To, Tuning,
};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use pentarchy_machine::{HostLimits, Started};
use std::sync::Arc;

const TAIL: ReplicaId = ReplicaId(2);

/// In the place of a replica that is wrong: the rules are, which say what does not fit together.
const SPECULATES: u16 = 8;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Said {
    /// This is the next slot, and this is what came of it here.
    Order { slot: Slot, proposal: Arc<Proposal>, results: Digest },
    /// A client wants to know how far the chain is.
    Ask,
}

impl Wire for Said {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Order { slot, proposal, results } => {
                to.u8(0);
                slot.encode(to);
                proposal.encode(to);
                results.encode(to);
            }
            Self::Ask => to.u8(1),
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => {
                let (slot, proposal) = (Slot::decode(from)?, Arc::new(Proposal::decode(from)?));
                Ok(Self::Order { slot, proposal, results: Digest::decode(from)? })
            }
            1 => Ok(Self::Ask),
            _ => Err(Malformed),
        }
    }
}

impl Message for Said {
    fn auth(&self) -> Auth {
        Auth::Checksum
    }
    fn statement(&self, domain: &Domain) -> Digest {
        domain.statement("chain").bytes(&self.to_bytes()).finish()
    }
}

/// What a replica keeps: it is about to execute this slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Ordered(Slot);

impl Wire for Ordered {
    fn encode(&self, to: &mut Writer) {
        self.0.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Slot::decode(from).map(Self)
    }
}

/// One replica. `WRONG` is the one that tells its successor of other results than it heard of.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Chain<const WRONG: u16> {
    me: ReplicaId,
    waiting: Vec<Arc<Envelope>>,
    executed: Slot,
    /// What is executed now, and what came of it at the predecessor.
    passing: Option<(Arc<Proposal>, Option<Digest>)>,
}

impl<const WRONG: u16> Protocol for Chain<WRONG> {
    type Message = Said;
    type Timer = NoTimer;
    type Record = Ordered;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Rules {
        name: "chain of three",
        fault_model: FaultModel::FailStop,
        group_size: Count::per_fault_and_one(1),
        quorum: QuorumRule::All,
        replies: Count::per_fault_and_one(0),
        reads: ReadRule::All,
        pillars: false,
        speculative: WRONG == SPECULATES,
        hears_slot_results: true,
        replies_itself: true,
        authority: Authority::Members,
        counter: Some(Counter::Usig),
    };

    fn validate(
        _: &Membership,
        _: &dyn Verifier,
        _: ReplicaId,
        _: &AuthTag,
        message: &Said,
    ) -> Result<(), Reject> {
        if *message == Said::Ask { Err(Reject::WrongRole) } else { Ok(()) }
    }

    fn validate_client(_: &Membership, _: &dyn Verifier, message: &Said) -> Result<(), Reject> {
        if *message == Said::Ask { Ok(()) } else { Err(Reject::WrongRole) }
    }

    fn start(setup: Setup, _: &mut dyn Iterator<Item = Ordered>, _: &mut Effects<Self>) -> Self {
        Self { me: setup.me, waiting: Vec::new(), executed: Slot(0), passing: None }
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Input(Input::Request { envelope, .. }) if self.me == ReplicaId(0) => {
                self.waiting.push(envelope);
            }
            Event::Input(Input::Round { now }) if !self.waiting.is_empty() => {
                let items = self.waiting.drain(..).map(Item::Whole).collect();
                self.execute(Arc::new(Proposal::new(now, items)), None, out);
            }
            Event::Message(verified) => {
                if let Said::Order { slot, proposal, results } = &*verified.message
                    && *slot == self.executed.next()
                {
                    self.execute(proposal.clone(), Some(*results), out);
                }
            }
            Event::Input(Input::SlotResults(slot_results::Input::Executed { slot, results })) => {
                self.on_results(slot, results, out);
            }
            Event::Input(Input::Replying(replying::Input::Asked { client, replies })) => {
                if self.me == TAIL {
                    out.output(replying::Output::Reply { client, replies });
                }
            }
            Event::Client(client, _) => self.tell(client, out),
            Event::Input(_) | Event::Timeout(NoTimer) => {}
        }
    }

    fn assert_invariants(&self) {}

    fn status(&self) -> Status {
        Status {
            view: View(0),
            primary: ReplicaId(0),
            phase: "normal",
            committed: self.executed,
            stable: Slot(0),
            peers_committed: Slot(0),
            waiting: self.waiting.len(),
            view_changes: 0,
            reason: "",
        }
    }
}

impl<const WRONG: u16> Chain<WRONG> {
    fn execute(
        &mut self,
        proposal: Arc<Proposal>,
        before: Option<Digest>,
        out: &mut Effects<Self>,
    ) {
        let batch = Arc::new(proposal.complete(|_| None).expect("every envelope travels whole"));
        self.executed = self.executed.next();
        self.passing = Some((proposal, before));
        out.persist(Ordered(self.executed));
        out.output(Output::Execute { slot: self.executed, batch });
    }

    fn on_results(&mut self, slot: Slot, results: Vec<Results>, out: &mut Effects<Self>) {
        let (proposal, before) = self.passing.take().expect("it executes one slot at a time");
        assert_eq!(slot, self.executed);
        let mut all = Hasher::new("results");
        for Results { client, digest, .. } in &results {
            all.bytes(&client.0).digest(digest);
        }
        let mine = all.finish();
        if let Some(theirs) = before.filter(|theirs| *theirs != mine) {
            return out.output(Output::Diverged { slot, mine, theirs });
        }
        if self.me == TAIL {
            for Results { client, replies, .. } in results {
                out.output(replying::Output::Reply { client, replies });
                self.tell(client, out);
            }
            return;
        }
        let results = if self.me.0 == WRONG { Digest::of(b"wrong") } else { mine };
        let next = ReplicaId(self.me.0 + 1);
        out.send(To::One(next), Said::Order { slot, proposal, results });
    }

    /// How far the chain is.
    fn tell(&self, client: ClientId, out: &mut Effects<Self>) {
        let message = self.executed.to_bytes();
        out.output(replying::Output::Tell { client, message });
    }
}

fn chain<const WRONG: u16>(id: ClientId) -> [Bench; 3] {
    [0, 1, 2].map(|me| {
        let (me, limits) = (ReplicaId(me), HostLimits::default());
        let mut bench = Bench::with(me, start::<WRONG>(me, Memory::Volatile), limits, false);
        bench.connect(id);
        bench
    })
}

/// A chain whose tail has a disk.
fn chain_with_a_disk(id: ClientId) -> ([Bench; 3], SlowDisk) {
    let (mut chain, disk) = (chain::<9>(id), disk(TAIL));
    let memory = Memory::Durable { executed: Base::default(), records: Vec::new() };
    let core = start::<9>(TAIL, memory);
    chain[2] = Bench::keeping(disk.clone(), TAIL, core, HostLimits::default());
    chain[2].connect(id);
    (chain, disk)
}

fn start<const WRONG: u16>(me: ReplicaId, memory: Memory) -> Started {
    let setup =
        Setup { me, membership: membership(), fetch: None, memory, tuning: Tuning::default() };
    let mut effects = Vec::new();
    let core = Box::new(Erased::<Chain<WRONG>>::start(setup, &mut effects));
    Started { core, effects }
}

/// A client sends this to the head, or to all; then the head's order goes down the chain.
fn run(chain: &mut [Bench; 3], sent: &[(ClientId, Bytes)], to_all: bool) {
    for me in 0..3 {
        chain[me].round(1, if me == 0 || to_all { sent } else { &[] }).unwrap();
        if let [before, next] = &mut chain[me..(me + 2).min(3)] {
            pass(before, me as u16, next, me as u16 + 1);
        }
    }
}

/// The messages of the protocol that a client was told.
fn protocol(bench: &Bench) -> Vec<Slot> {
    let slot = |(_, message): &(ClientId, ToClient)| {
        assert_eq!(ToClient::from_bytes(&message.to_bytes()).as_ref(), Ok(message));
        match message {
            ToClient::Protocol(bytes) => Some(Slot::from_bytes(bytes).unwrap()),
            _ => None,
        }
    };
    bench.driver.to_clients.iter().filter_map(slot).collect()
}

#[test]
fn every_replica_of_a_chain_executes_and_its_tail_replies() {
    let id = client(1);
    let mut chain = chain::<9>(id);
    let sent = [(id, request(id, 1, true))];
    for again in [false, true] {
        run(&mut chain, &sent, again);
        assert_eq!(chain.each_mut().map(|it| it.status().requests), [1; 3], "executed once");
        assert_eq!(protocol(&chain[2]).len(), usize::from(!again));
        assert_eq!(chain.each_mut().map(|it| it.take_results().len()), [0, 0, 1]);
    }
}

/// A client asks, and asks again, a chain whose tail has a disk that is behind. What the tail tells
/// it, by its own message and by the result, before the disk has come as far, and then.
fn told_before_and_behind_the_disk() -> [(usize, usize); 2] {
    let id = client(1);
    let (mut chain, disk) = chain_with_a_disk(id);
    let sent = [(id, request(id, 1, true))];
    run(&mut chain, &sent, false);
    run(&mut chain, &sent, true);
    let before = (protocol(&chain[2]).len(), chain[2].take_results().len());
    disk.catch_up();
    chain[2].round(1, &[]).unwrap();
    [before, (protocol(&chain[2]).len(), chain[2].take_results().len())]
}

#[test]
fn a_tail_tells_nothing_before_what_it_kept_is_durable() {
    assert_eq!(told_before_and_behind_the_disk(), [(0, 0), (1, 2)]);
    let early = Some("kept.answers-before-durable");
    assert_eq!(mutant::with(early, told_before_and_behind_the_disk), [(1, 2), (0, 0)]);
}

/// However often it asks, and for whatever is settled, in a round.
#[test]
fn a_client_that_asks_a_core_again_and_again_is_told_each_result_once() {
    let id = client(1);
    let mut chain = chain::<9>(id);
    let sent = [1, 2].map(|number| (id, request(id, number, true)));
    run(&mut chain, &sent, false);
    assert_eq!(chain[2].take_results(), [(id, 1), (id, 2)]);
    let often: Vec<_> = sent.iter().cycle().take(20).cloned().collect();
    chain[2].round(1, &often).unwrap();
    assert_eq!(chain[2].driver.to_clients.len(), 1);
    assert_eq!(chain[2].take_results(), [(id, 1), (id, 2)]);
}

/// Or else a client could have any number of answers wait in it until it has resumed.
#[test]
fn a_core_that_has_not_resumed_is_asked_nothing() {
    let (id, limits) = (client(1), HostLimits::default());
    let mut tail = Bench::with(TAIL, start::<9>(TAIL, Memory::Volatile), limits, true);
    tail.connect(id);
    tail.round(1, &[]).unwrap();
    let sent = (id, request(id, 1, true));
    let Ok(ToReplica::Request(envelope)) = ToReplica::from_bytes(&sent.1) else { unreachable!() };
    let proposal = Proposal::new(Millis(1), vec![Item::Whole(envelope)]);
    let batch = proposal.complete(|_| None).expect("its envelope travels whole");
    // Of its last life.
    tail.machine.executor_mut().execute(Slot(1), &Arc::new(batch), |_, _| {});
    for _ in 0..10 {
        tail.round(1, &vec![sent.clone(); 20]).unwrap();
        assert_eq!(tail.status().phase, "resuming");
    }
    tail.round(10_000, &[]).unwrap();
    assert_eq!(tail.status().phase, "normal");
    assert_eq!(tail.take_results(), []);
    tail.round(1, &[sent]).unwrap();
    assert_eq!(tail.take_results(), [(id, 1)]);
}

/// It would be asked for results that may be taken back, and reply them as final.
#[test]
#[should_panic(expected = "who speculates does not reply itself")]
fn no_core_speculates_and_replies_itself() {
    let core = start::<SPECULATES>(TAIL, Memory::Volatile);
    Bench::with(TAIL, core, HostLimits::default(), false);
}

#[test]
fn an_accident_on_the_way_down_a_chain_is_found() {
    let id = client(1);
    let mut chain = chain::<9>(id);
    chain[0].round(1, &[(id, request(id, 1, true))]).unwrap();
    let (.., bytes) = chain[0].driver.to_peers.last_mut().expect("the head passes its order on");
    let mut changed = bytes.to_vec();
    *changed.last_mut().unwrap() ^= 1;
    *bytes = changed.into();
    let [head, next, _] = &mut chain;
    assert_eq!(pass(head, 0, next, 1), 1);
    next.round(1, &[]).unwrap();
    assert_eq!(next.status().requests, 0);
    assert_eq!(next.status().rejects["bad_auth"], 1);
}

#[test]
fn who_hears_of_other_results_than_its_own_passes_nothing_on() {
    let id = client(1);
    let mut chain = chain::<0>(id);
    run(&mut chain, &[(id, request(id, 1, true))], false);
    let diverged = chain.each_mut().map(|it| it.status().counters.diverged);
    assert_eq!(diverged, [0, 1, 0]);
    assert_eq!(chain.each_mut().map(|it| it.status().requests), [1, 1, 0]);
    assert_eq!(chain.each_mut().map(|it| it.take_results().len()), [0; 3]);
}

#[test]
fn a_client_speaks_the_protocol_with_a_replica() {
    let id = client(1);
    let mut chain = chain::<9>(id);
    run(&mut chain, &[(id, request(id, 1, true))], false);
    let ask = ToReplica::Protocol(Said::Ask.to_bytes()).to_bytes();
    chain[1].round(1, &[(id, ask)]).unwrap();
    assert_eq!(protocol(&chain[1]), [Slot(1)]);
}

/// Replicas that only stop need not be outnumbered, where all decide and an authority replaces
/// those.
#[test]
fn of_a_chain_one_member_more_than_may_stop_is_enough() {
    let rules = <Chain<0>>::RULES;
    let check = |n: usize, f, rules: &Rules| {
        let members = membership().members[..n].into();
        Membership { f, members, ..Membership::clone(&membership()) }.check(rules).is_ok()
    };
    assert!(check(2, 1, &rules) && check(3, 2, &rules) && !check(2, 2, &rules));
    let comes_back = Rules { fault_model: FaultModel::Crash, ..rules };
    assert!(!check(2, 1, &comes_back), "a replica that comes back could say something else");
}
