//! A pillar with a log, which the replica's thread writes into as well.

use super::tests::{RULES, bell, driver, instance, refusals, verifier};
use super::*;
use crate::config::Started;
use crate::network::{Group, Network, round, until};
use crate::pillars::mailbox::{Bells, SAID_MESSAGES, TOLD_MESSAGES};
use bytes::Bytes;
use pentarchy_core::erased::CoreEffect;
use pentarchy_core::ids::{Epoch, MemberId, ReplicaId, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::outsider::Outsider;
use pentarchy_core::ports::replica::{Input, pillar};
use pentarchy_core::protocol::To;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_io::poll::Poller;
use pentarchy_machine::PROTOCOL;
use pentarchy_machine::pillar::NextEpoch;
use pentarchy_sim::disk::{Faults, SimDisk};
use pentarchy_storage::identity::Identity;
use pentarchy_storage::kept::{
    Backing as _, Barrier, Certificates, DurableStore, Entry, EntryLog as _, EpochStart, Kept,
    Then, Writer,
};
use pentarchy_storage::log::Options;
use std::net::TcpListener;
use std::time::Instant;

/// A pillar, and what the replica's thread has.
struct Bench {
    group: Group,
    pillar: PillarThread,
    told: Arc<Mailbox<Letter>>,
    said: Arc<Mailbox<FromPillar>>,
    keeper: DurableStore<Writer>,
}

impl Bench {
    /// The pillar is silent.
    fn new() -> Self {
        Self::of(0, Options::new([1; 32])).0
    }

    /// That of the second member dials the first. Gives the first one's listener too.
    fn of(member: u32, options: Options) -> (Self, TcpListener) {
        let (group, listener) = Group::new();
        let network = group.of_pillar(0, member);
        let incarnation = group.membership.members[0].incarnation;
        let identity =
            Identity { group: group.membership.group, replica: ReplicaId(0), incarnation };
        let disk = SimDisk::new(1, Faults::default());
        let kept = Kept::create(&mut *disk.root(), identity, group.membership.clone(), options);
        let mine = Arc::new(Bell::new(network.waker().unwrap()));
        let (replica, bells) = (bell(&Poller::new().unwrap()), Bells::default());
        bells.set(replica.clone(), vec![mine.clone()]);
        let writer = Writer::start(kept.unwrap(), Box::new(move || bells.written())).unwrap();
        let barrier =
            Barrier::new(writer.log_handle(group.membership.epoch), Certificates::default());
        let instance = instance(&group, Some(barrier));
        let told = Arc::new(Mailbox::new(replica.clone(), mine.clone(), TOLD_MESSAGES));
        let said = Arc::new(Mailbox::new(mine.clone(), replica, SAID_MESSAGES));
        let pillar = PillarThread::new(instance, driver(network), mine, told.clone(), said.clone());
        let keeper = DurableStore::new(writer, None, Certificates::default());
        (Self { group, pillar, told, said, keeper }, listener)
    }

    fn tell(&mut self, told: impl Into<Letter>) {
        self.told.post(&mut vec![told.into()]);
        self.pillar.round().unwrap();
    }

    /// The core does this.
    fn act(&mut self, effect: CoreEffect) {
        let PillarThread { instance, driver, .. } = &mut self.pillar;
        instance.effect(effect, driver).unwrap();
    }

    /// Messages that wait for the disk.
    fn waiting_messages(&self) -> u64 {
        let PillarThread { instance, driver, .. } = &self.pillar;
        instance.report(&driver.report()).waiting_messages
    }

    /// Messages that have left for the peer, which is not there.
    fn left(&self) -> u64 {
        self.pillar.driver.network.counters.peer_unconnected
    }

    /// Messages of its peer that it has looked at.
    fn heard(&self) -> u64 {
        refusals(&self.pillar)
    }

    /// Has the pillar look at what its peer says, if it does soon.
    fn is_heard(&mut self, theirs: &mut Network) -> bool {
        let before = self.heard();
        let other = MemberId(1 - theirs.peers.me.0);
        theirs.send_peer(other, "test", |to| to.array(&[PROTOCOL; 5]));
        theirs.flush(0);
        (0..20).for_each(|_| self.pillar.round().unwrap());
        self.heard() > before
    }

    /// Has what waited for the disk go on.
    fn release(&mut self) {
        let PillarThread { instance, driver, .. } = &mut self.pillar;
        instance.begin_round(0, Fault::None, driver).unwrap();
    }

    /// The replica's thread keeps something.
    fn keep(&mut self) {
        self.keeper.backing_mut().append(Entry::Record(vec![0; 300].into())).unwrap();
    }

    /// Goes on until the pillar sleeps when nothing comes, and says in how many of some rounds
    /// after that it found something to do.
    fn busy_rounds(&mut self) -> u64 {
        (0..20).for_each(|_| self.pillar.round().unwrap());
        let before = self.pillar.rounds;
        (0..20).for_each(|_| self.pillar.round().unwrap());
        self.pillar.rounds - before
    }

    fn compacted(&self) -> Vec<(Epoch, u64)> {
        let mut heard = Vec::new();
        self.said.take(&mut heard);
        let answer = |said| match said {
            FromPillar::KeptAgain(epoch, begins) => Some((epoch, begins)),
            _ => None,
        };
        heard.into_iter().filter_map(answer).collect()
    }
}

fn record() -> CoreEffect {
    CoreEffect::Persist(Bytes::from_static(b"record"))
}

fn message() -> CoreEffect {
    let (to, wire) = (To::One(ReplicaId(1)), Bytes::from_static(b"message"));
    CoreEffect::Relay { to, wire, kind: "test" }
}

fn keeping(is_done: bool) -> CoreEffect {
    CoreEffect::Output(pillar::Output::Compacting { pillar: 0, is_done }.into())
}

#[test]
fn what_a_pillar_says_waits_for_its_own_entries_only() {
    let mut bench = Bench::new();
    bench.tell(ToPillar::Speak);
    bench.keep();
    bench.act(message());
    assert_eq!(bench.left(), 1, "it has kept nothing");
    bench.act(record());
    bench.act(message());
    assert_eq!((bench.left(), bench.waiting_messages()), (1, 1));
    bench.release();
    assert_eq!(bench.left(), 1, "nobody has had the log written");
    // The end of a round has.
    bench.pillar.round().unwrap();
    bench.keeper.backing().wait_for(2).unwrap();
    bench.pillar.round().unwrap();
    assert_eq!((bench.left(), bench.waiting_messages()), (2, 0));
}

#[test]
fn a_pillar_says_from_which_entry_on_it_has_kept_again() {
    let mut bench = Bench::new();
    bench.tell(ToPillar::Speak);
    bench.act(record());
    (0..3).for_each(|_| bench.keep());
    for _ in 0..2 {
        let begins = bench.keeper.backing().next();
        bench.act(keeping(false));
        bench.act(record());
        bench.keep();
        assert_eq!(bench.compacted(), [], "it has not kept all");
        bench.act(record());
        bench.act(keeping(true));
        bench.pillar.round().unwrap();
        assert_eq!(bench.compacted(), [(bench.group.membership.epoch, begins)]);
    }
}

/// The replica asks its peers before it speaks, and what the epoch begins with becomes durable.
#[test]
fn a_silent_pillar_sleeps_and_knows_later_what_was_durable() {
    let mut bench = Bench::new();
    bench.tell(ToPillar::Speak);
    let epoch = bench.group.membership.epoch.next();
    let membership = Arc::new(Membership { epoch, ..(*bench.group.membership).clone() });
    bench.keeper.begin_epoch(EpochStart::within(membership.clone(), None), true).unwrap();
    let verifier = verifier(&bench.group);
    let started = Started { core: Box::new(Outsider { rules: RULES }), effects: vec![message()] };
    bench.tell(ToPillar::Epoch(Box::new(NextEpoch { membership, verifier, started })));
    assert_eq!(bench.left(), 0);
    bench.keeper.backing().wait_for(bench.keeper.backing().next() - 1).unwrap();
    assert_eq!(bench.busy_rounds(), 0, "it has nothing to do, and says so again and again");
    assert!(!bench.pillar.instance.is_late(false) && bench.pillar.instance.lag_entries() == 0);
    assert_eq!(bench.left(), 0, "it is silent");
    // What it begins with depends on nothing that is not durable.
    bench.tell(ToPillar::Speak);
    assert_eq!(bench.left(), 1);
    bench.act(record());
    bench.act(message());
    assert_eq!(bench.left(), 1);
    bench.pillar.round().unwrap();
    bench.keeper.backing().wait_for(bench.keeper.backing().next() - 1).unwrap();
    bench.pillar.round().unwrap();
    assert_eq!(bench.left(), 2);
    assert_eq!(bench.busy_rounds(), 0);
}

/// A replica may be busy with something else for long.
#[test]
fn of_what_a_pillar_says_of_itself_only_the_last_waits() {
    let mut bench = Bench::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(4 * REPORT_MS) {
        bench.pillar.round().unwrap();
    }
    assert!(bench.said.is_empty(), "{} wait", bench.said.len());
    let (_, thread) = bench.pillar.latest.take().unwrap();
    assert!(thread.rounds <= bench.pillar.rounds && bench.pillar.latest.take().is_none());
}

/// Nobody waits in vain for the handshake of a replica that does not speak yet.
#[test]
fn a_silent_pillar_connects_and_hears_later_what_is_said_meanwhile() {
    let (mut bench, listener) = Bench::of(1, Options::new([1; 32]));
    let (mut acceptor, mut theirs) =
        (bench.group.acceptor(listener, 1), bench.group.of_pillar(0, 0));
    until(|now_ms| {
        bench.pillar.round().unwrap();
        round(&mut acceptor, now_ms);
        let handed = acceptor.take_handed();
        handed.into_iter().for_each(|it| _ = theirs.adopt(it, now_ms, &mut Vec::new()));
        round(&mut theirs, now_ms);
        theirs.peers.connected().count() + bench.pillar.driver.network.peers.connected().count()
            == 2
    });
    assert!(!bench.is_heard(&mut theirs), "it is silent");
    bench.tell(ToPillar::Speak);
    until(|_| {
        bench.pillar.round().unwrap();
        bench.heard() == 1
    });
}

/// What it reads would take the room that others need to keep again what they need.
#[test]
fn a_pillar_reads_nothing_while_a_full_log_is_being_cut() {
    let small = Options {
        segment_bytes: 8 * 512,
        bytes_max: 12 * 8 * 512,
        reserve_bytes: 8 * 8 * 512,
        state_bytes_max: 0,
        ..Options::new([1; 32])
    };
    let (mut bench, listener) = Bench::of(0, small);
    let (mut acceptor, mut theirs) =
        (bench.group.acceptor(listener, 1), bench.group.of_pillar(0, 1));
    bench.tell(ToPillar::Speak);
    until(|now_ms| {
        round(&mut theirs, now_ms);
        round(&mut acceptor, now_ms);
        acceptor.take_handed().into_iter().for_each(|it| bench.tell(Letter::Connection(it.into())));
        bench.pillar.round().unwrap();
        theirs.peers.connected().count() == 1
    });
    let slot = Slot(1);
    let state = Snapshot::new(slot, Tree::of(slot, [vec![1; 100]]));
    bench.keeper.save(&state, Then::Installed { slot }).unwrap();
    until(|_| bench.keeper.backing().saved().unwrap() > 0);
    while bench.keeper.backing().full().is_none() {
        bench.keep();
        let log = bench.keeper.backing();
        log.write();
        until(|_| log.durable().unwrap() == log.next() || log.full().is_some());
    }
    assert!(bench.is_heard(&mut theirs), "that may prove that a state is stable");
    bench.keeper.stable_in_parts(Some(slot), 1);
    assert!(!bench.is_heard(&mut theirs));
    // It takes what it is told, and makes room.
    let begins = bench.keeper.backing().next();
    bench.tell(ToPillar::Input(Box::new(Input::Compact)));
    assert!(bench.told.is_empty());
    [keeping(false), record(), keeping(true)].into_iter().for_each(|effect| bench.act(effect));
    bench.pillar.round().unwrap();
    assert_eq!(bench.compacted(), [(bench.group.membership.epoch, begins)]);
    bench.keeper.compacted(0, begins).unwrap();
    until(|_| {
        bench.keeper.backing().write();
        bench.pillar.round().unwrap();
        bench.heard() == 2
    });
}
