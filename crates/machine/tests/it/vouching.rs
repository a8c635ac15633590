//! Messages with a MAC for each replica: a chain of three in which the middle passes on what the
//! head ordered, and can change nothing of it.

use crate::bench::{Bench, client, disk, identity, member, membership, pass, request};
use crate::disk::SlowDisk;
use crate::keys::{N, macs};
use bytes::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Verified, Verifier};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::erased::Erased;
use pentarchy_core::ids::{ClientId, ReplicaId, Slot, View};
use pentarchy_core::mac_vector::{MAC_BYTES, MacVector};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{
    Authority, Effects, Event, FaultModel, Memory, Message, NoTimer, Protocol, Reject, Rules,
    Setup, Status, To, Tuning,
};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use pentarchy_machine::{HostLimits, Started};
use std::sync::Arc;

const HEAD: ReplicaId = ReplicaId(0);
const MIDDLE: ReplicaId = ReplicaId(1);
const TAIL: ReplicaId = ReplicaId(2);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Said {
    /// The head orders this.
    Order { slot: Slot, proposal: Arc<Proposal> },
    /// The middle has it from the head, whose MACs over its statement these are.
    Seen { order: Digest, macs: MacVector },
}

impl Wire for Said {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Order { slot, proposal } => {
                to.u8(0);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Seen { order, macs } => {
                to.u8(1);
                order.encode(to);
                macs.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => {
                let (slot, proposal) = (Slot::decode(from)?, Arc::new(Proposal::decode(from)?));
                Ok(Self::Order { slot, proposal })
            }
            1 => Ok(Self::Seen { order: Digest::decode(from)?, macs: MacVector::decode(from)? }),
            _ => Err(Malformed),
        }
    }
}

impl Message for Said {
    fn auth(&self) -> Auth {
        Auth::Vector
    }
    fn statement(&self, domain: &Domain) -> Digest {
        domain.statement("passing").bytes(&self.to_bytes()).finish()
    }
}

/// One replica. It keeps each order as it came, to pass it on again after a restart.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Passing {
    me: ReplicaId,
    waiting: Vec<Arc<Envelope>>,
    ordered: Slot,
    /// Orders of the head that the middle showed to this replica.
    shown: Vec<Digest>,
}

impl Protocol for Passing {
    type Message = Said;
    type Timer = NoTimer;
    type Record = Verified<Said>;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Rules {
        name: "vouching",
        fault_model: FaultModel::Byzantine,
        group_size: Count::per_fault_and_one(2),
        quorum: QuorumRule::Majority,
        replies: Count::per_fault_and_one(1),
        reads: ReadRule::All,
        pillars: false,
        speculative: false,
        hears_slot_results: false,
        replies_itself: false,
        authority: Authority::Members,
        counter: None,
    };

    fn validate(
        _: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        _: &AuthTag,
        message: &Said,
    ) -> Result<(), Reject> {
        match message {
            Said::Order { .. } if author == HEAD => Ok(()),
            Said::Seen { order, macs } if author == MIDDLE => {
                let is_shown = verifier.vector(HEAD, order, macs);
                if is_shown { Ok(()) } else { Err(Reject::BadCertificate) }
            }
            _ => Err(Reject::WrongRole),
        }
    }

    fn start(
        setup: Setup,
        log: &mut dyn Iterator<Item = Verified<Said>>,
        out: &mut Effects<Self>,
    ) -> Self {
        let (waiting, shown) = (Vec::new(), Vec::new());
        let mut core = Self { me: setup.me, waiting, ordered: Slot(0), shown };
        for order in log {
            core.execute(&order, out);
        }
        core
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Input(Input::Request { envelope, .. }) if self.me == HEAD => {
                self.waiting.push(envelope);
            }
            Event::Input(Input::Round { now }) if !self.waiting.is_empty() => {
                let items = self.waiting.drain(..).map(Item::Whole).collect();
                let proposal = Arc::new(Proposal::new(now, items));
                let to = To::Set([HEAD, MIDDLE].into_iter().collect());
                out.send(to, Said::Order { slot: self.ordered.next(), proposal });
            }
            Event::Message(order) if matches!(*order.message, Said::Order { .. }) => {
                out.persist(order.clone());
                self.execute(&order, out);
            }
            Event::Message(verified) => {
                if let Said::Seen { order, .. } = &*verified.message {
                    self.shown.push(*order);
                }
            }
            _ => {}
        }
    }

    fn assert_invariants(&self) {}

    fn status(&self) -> Status {
        Status {
            view: View(0),
            primary: HEAD,
            phase: "normal",
            committed: self.ordered,
            stable: Slot(0),
            peers_committed: Slot(0),
            waiting: self.shown.len(),
            view_changes: 0,
            reason: "",
        }
    }
}

impl Passing {
    fn execute(&mut self, order: &Verified<Said>, out: &mut Effects<Self>) {
        let Said::Order { slot, proposal } = &*order.message else { return };
        if *slot != self.ordered.next() {
            return;
        }
        self.ordered = *slot;
        let batch = Arc::new(proposal.complete(|_| None).expect("every envelope travels whole"));
        out.output(Output::Execute { slot: *slot, batch });
        if self.me == MIDDLE {
            out.relay(To::One(TAIL), order);
            let macs = order.tag.vector().expect("so it convinced").clone();
            out.send(To::One(TAIL), Said::Seen { order: order.digest, macs });
        }
    }
}

fn start(me: ReplicaId, memory: Memory) -> Started {
    let membership = membership();
    let setup = Setup { me, membership, fetch: None, memory, tuning: Tuning::default() };
    let mut effects = Vec::new();
    let core = Box::new(Erased::<Passing>::start(setup, &mut effects));
    Started { core, effects }
}

/// A chain, whose middle may have a disk.
fn chain(id: ClientId, disk: Option<SlowDisk>) -> [Bench; 3] {
    let durable = Memory::Durable { executed: Base::default(), records: Vec::new() };
    let limits = HostLimits::default();
    [HEAD, MIDDLE, TAIL].map(|me| {
        let mut bench = match disk.clone().filter(|_| me == MIDDLE) {
            Some(disk) => Bench::keeping(disk, me, start(me, durable.clone()), limits),
            None => Bench::with(me, start(me, Memory::Volatile), limits, false),
        };
        bench.connect(id);
        bench
    })
}

/// The head orders a request, and the middle hears of it.
fn order([head, middle, _]: &mut [Bench; 3], id: ClientId) {
    head.round(1, &[(id, request(id, 1, true))]).unwrap();
    assert_eq!(pass(head, 0, middle, 1), 1);
    middle.round(1, &[]).unwrap();
}

fn executed(chain: &[Bench; 3]) -> [u64; 3] {
    chain.each_ref().map(|it| it.status().requests)
}

/// Where the MACs begin in what a peer is sent: kind, epoch, author, kind of the tag, their number.
const MACS_AT: usize = 1 + 8 + 2 + 1 + 1;

/// Changes the middle's next message for the tail, and hands over that one alone.
fn pass_changed([_, middle, tail]: &mut [Bench; 3], at: usize, change: impl Fn(&mut Vec<u8>)) {
    let (.., bytes) = middle.driver.to_peers.swap_remove(at);
    let mut changed = bytes.to_vec();
    change(&mut changed);
    tail.machine.on_peer(member(MIDDLE), [Bytes::from(changed)].into_iter(), false);
    tail.round(1, &[]).unwrap();
}

#[test]
fn what_is_passed_on_convinces_each_receiver_by_its_own_mac() {
    let id = client(1);
    let mut chain = chain(id, None);
    order(&mut chain, id);
    assert_eq!(executed(&chain), [1, 1, 0], "the head by what came back to it");
    let [_, middle, tail] = &mut chain;
    assert_eq!(pass(middle, 1, tail, 2), 2);
    tail.round(1, &[]).unwrap();
    assert_eq!(executed(&chain), [1; 3]);
    assert_eq!(chain.each_ref().map(|it| it.machine.core().status().waiting), [0, 0, 1]);
    assert_eq!(chain.each_mut().map(|it| it.take_results().len()), [1; 3]);
}

/// The middle has the head's MACs, and can make its own only.
#[test]
fn the_middle_forges_nothing_for_the_tail() {
    let id = client(1);
    let told = |at, change: &dyn Fn(&mut Vec<u8>)| {
        let mut chain = chain(id, None);
        order(&mut chain, id);
        pass_changed(&mut chain, at, change);
        let [.., tail] = &chain;
        assert_eq!(tail.status().requests, 0);
        assert_eq!(tail.machine.core().status().waiting, 0);
        let paused = tail.driver.paused_peers.clone();
        (tail.status().rejects.clone(), paused)
    };
    let one = |why: &str, rejects: &std::collections::BTreeMap<&'static str, u64>| {
        assert_eq!((rejects[why], rejects.values().sum::<u64>()), (1, 1), "{why}");
    };
    // Another content, under the head's MACs.
    let (rejects, paused) = told(0, &|bytes| *bytes.last_mut().unwrap() ^= 1);
    one("bad_auth", &rejects);
    assert_eq!(paused, [], "it may have come like this from the head");
    // The head's order with MACs that the middle made.
    let (rejects, _) = told(0, &|bytes| {
        let made = macs(MIDDLE, &Digest::of(b"anything"));
        for (receiver, mac) in made.entries().iter().enumerate() {
            bytes[MACS_AT + receiver * MAC_BYTES..][..MAC_BYTES].copy_from_slice(mac);
        }
    });
    one("bad_auth", &rejects);
    // Shown in a message of the middle's own.
    let (rejects, paused) = told(1, &|bytes| *bytes.last_mut().unwrap() ^= 1);
    one("bad_auth", &rejects);
    assert_eq!(paused, [member(MIDDLE)], "it says so itself");
}

/// A middle that authenticates well what it makes up about the head.
#[test]
fn macs_that_are_shown_are_checked_as_those_that_come() {
    let mut tail = Bench::with(TAIL, start(TAIL, Memory::Volatile), HostLimits::default(), false);
    let domain = membership().domain();
    let good = macs(HEAD, &Digest::of(b"an order"));
    let lie = good.entries().iter().take(2).copied().chain([[7; MAC_BYTES]]);
    let shown = [good.clone(), MacVector::new(lie), MacVector::default()];
    for (macs_shown, waiting) in shown.into_iter().zip([1, 1, 1]) {
        let said = Said::Seen { order: Digest::of(b"an order"), macs: macs_shown };
        let tag = AuthTag::Vector(macs(MIDDLE, &said.statement(&domain)));
        let wire = Verified::recalled(MIDDLE, tag, &domain, said).wire;
        let bytes = [&[0; 9], &wire[..]].concat();
        tail.machine.on_peer(member(MIDDLE), [Bytes::from(bytes)].into_iter(), false);
        tail.round(1, &[]).unwrap();
        assert_eq!(tail.machine.core().status().waiting, waiting);
    }
    assert_eq!(tail.status().rejects["bad_certificate"], 2);
}

#[test]
fn each_looks_at_its_own_entry_only_and_insists_on_one_for_each_member() {
    let id = client(1);
    let reject = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut chain = chain(id, None);
        order(&mut chain, id);
        pass_changed(&mut chain, 0, change);
        let status = chain[2].status();
        let refused = status.rejects.iter().find(|(_, count)| **count > 0);
        (status.requests, refused.map(|(why, _)| *why))
    };
    let entry = |receiver: u16| MACS_AT + usize::from(receiver) * MAC_BYTES;
    for receiver in 0..N {
        let expected = if receiver == TAIL.0 { (0, Some("bad_auth")) } else { (1, None) };
        assert_eq!(reject(&|bytes| bytes[entry(receiver)] ^= 1), expected, "entry {receiver}");
    }
    let keep = |bytes: &mut Vec<u8>, count: u16| {
        bytes[MACS_AT - 1] = count as u8;
        bytes.drain(entry(count)..entry(N));
    };
    for count in 0..N {
        assert_eq!(reject(&|bytes| keep(bytes, count)), (0, Some("bad_auth")), "{count} entries");
    }
    let more = reject(&|bytes| {
        bytes[MACS_AT - 1] += 1;
        let at = entry(N);
        bytes.splice(at..at, [0; MAC_BYTES]);
    });
    assert_eq!(more, (0, Some("bad_auth")), "one more than members");
    assert_eq!(reject(&|bytes| bytes[MACS_AT - 1] = 65), (0, Some("malformed")));
    let cut = reject(&|bytes| bytes.truncate(entry(2)));
    assert_eq!(cut, (0, Some("malformed")));
    // No tag, where one is asked for.
    let none = reject(&|bytes| {
        bytes.drain(MACS_AT - 1..entry(N));
        bytes[MACS_AT - 2] = 0;
    });
    assert_eq!(none, (0, Some("wrong_tag")));
}

/// What leaves the middle before the disk has come as far as it, and then.
fn passed_on_before_and_behind_the_disk() -> [usize; 2] {
    let id = client(1);
    let disk = disk(MIDDLE);
    let mut chain = chain(id, Some(disk.clone()));
    order(&mut chain, id);
    let before = chain[1].driver.to_peers.len();
    disk.catch_up();
    chain[1].round(1, &[]).unwrap();
    [before, chain[1].driver.to_peers.len()]
}

#[test]
fn what_is_passed_on_waits_for_the_disk() {
    assert_eq!(passed_on_before_and_behind_the_disk(), [0, 2]);
    let early = Some("kept.sends-before-durable");
    assert_eq!(mutant::with(early, passed_on_before_and_behind_the_disk), [2, 2]);
}

/// From its log the middle passes on what it had, with the head's MACs.
#[test]
fn what_was_kept_still_convinces_after_a_restart() {
    let id = client(1);
    let disk = disk(MIDDLE);
    let mut before = chain(id, Some(disk.clone()));
    order(&mut before, id);
    disk.catch_up();
    let (disk, past) = disk.reopened(identity(MIDDLE), &membership());
    drop(before);
    let mut chain = chain(id, None);
    chain[1] = Bench::keeping(disk, MIDDLE, start(MIDDLE, past.memory()), HostLimits::default());
    let [_, middle, tail] = &mut chain;
    middle.round(1, &[]).unwrap();
    assert_eq!(pass(middle, 1, tail, 2), 2);
    tail.round(1, &[]).unwrap();
    assert_eq!(executed(&chain), [0, 1, 1]);
    assert_eq!(chain[2].machine.core().status().waiting, 1);
}
