//! A pillar with a log, which the replica's thread writes into as well.

use super::tests::{bell, made};
use super::*;
use crate::network::Group;
use crate::pillars::mailbox::{Bells, SAID_MESSAGES, TOLD_MESSAGES};
use pentarchy_core::outsider::Outsider;
use pentarchy_core::protocol::To;
use pentarchy_io::poll::Poller;
use pentarchy_sim::disk::{Faults, SimDisk};
use pentarchy_storage::identity::Identity;
use pentarchy_storage::kept::{Certificates, Entry, Keeper, Kept, Writer};
use pentarchy_storage::log::Options;

/// A pillar, and what the replica's thread has.
struct Bench {
    group: Group,
    pillar: Pillar,
    told: Arc<Mailbox<Told>>,
    said: Arc<Mailbox<Said>>,
    keeper: Keeper<Writer>,
}

impl Bench {
    /// The pillar is silent.
    fn new() -> Self {
        let (group, _) = Group::new();
        let network = group.of_pillar(0, 0);
        let incarnation = group.membership.members[0].incarnation;
        let identity =
            Identity { group: group.membership.group, replica: ReplicaId(0), incarnation };
        let disk = SimDisk::new(1, Faults::default());
        let options = Options::new([1; 32]);
        let kept = Kept::create(&mut *disk.root(), identity, group.membership.clone(), options);
        let mine = Arc::new(Bell::new(network.waker().unwrap()));
        let (replica, bells) = (bell(&Poller::new().unwrap()), Bells::default());
        bells.set(replica.clone(), vec![mine.clone()]);
        let writer = Writer::start(kept.unwrap(), Box::new(move || bells.written())).unwrap();
        let barrier = Barrier::new(writer.pen(group.membership.epoch), Certificates::default());
        let parts = PillarParts { barrier: Some(barrier), ..made(&group, network) };
        let told = Arc::new(Mailbox::new(replica.clone(), mine.clone(), TOLD_MESSAGES));
        let said = Arc::new(Mailbox::new(mine.clone(), replica, SAID_MESSAGES));
        let pillar = Pillar::new(parts, mine, told.clone(), said.clone());
        let keeper = Keeper::new(writer, None, Certificates::default());
        Self { group, pillar, told, said, keeper }
    }

    fn tell(&mut self, told: Told) {
        self.told.post(&mut vec![told]);
        self.pillar.round().unwrap();
    }

    /// The core does this.
    fn act(&mut self, effect: CoreEffect) {
        self.pillar.effect(effect).unwrap();
    }

    fn barrier(&self) -> &Barrier<Pen> {
        self.pillar.barrier.as_ref().unwrap()
    }

    /// Messages that have left for the peer, which is not there.
    fn left(&self) -> u64 {
        self.pillar.network.counters.peer_unconnected
    }

    /// The replica's thread keeps something.
    fn keep(&mut self) {
        self.keeper.backing_mut().append(Entry::Record(Bytes::from_static(b"its"))).unwrap();
    }

    /// Goes on until the pillar sleeps when nothing comes, and says in how many of some rounds
    /// after that it found something to do.
    fn busy_rounds(&mut self) -> u64 {
        (0..20).for_each(|_| self.pillar.round().unwrap());
        let before = self.pillar.rounds;
        (0..20).for_each(|_| self.pillar.round().unwrap());
        self.pillar.rounds - before
    }

    fn kept_again(&self) -> Vec<(Epoch, u64)> {
        let mut heard = Vec::new();
        self.said.take(&mut heard);
        let answer = |said| match said {
            Said::KeptAgain(epoch, begins) => Some((epoch, begins)),
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
    CoreEffect::Output(Output::Keeping { pillar: 0, is_done })
}

#[test]
fn what_a_pillar_says_waits_for_its_own_entries_only() {
    let mut bench = Bench::new();
    bench.tell(Told::Speak);
    bench.keep();
    bench.act(message());
    assert_eq!(bench.left(), 1, "it has kept nothing");
    bench.act(record());
    bench.act(message());
    assert_eq!((bench.left(), bench.barrier().waiting_messages()), (1, 1));
    bench.pillar.release().unwrap();
    assert_eq!(bench.left(), 1, "nobody has had the log written");
    // The end of a round has.
    bench.pillar.round().unwrap();
    bench.keeper.backing().wait_for(2).unwrap();
    bench.pillar.round().unwrap();
    assert_eq!((bench.left(), bench.barrier().waiting_messages()), (2, 0));
}

#[test]
fn a_pillar_says_from_which_entry_on_it_has_kept_again() {
    let mut bench = Bench::new();
    bench.tell(Told::Speak);
    bench.act(record());
    (0..3).for_each(|_| bench.keep());
    for _ in 0..2 {
        let begins = bench.keeper.backing().next();
        bench.act(keeping(false));
        bench.act(record());
        bench.keep();
        assert_eq!(bench.kept_again(), [], "it has not kept all");
        bench.act(record());
        bench.act(keeping(true));
        bench.pillar.round().unwrap();
        assert_eq!(bench.kept_again(), [(bench.group.membership.epoch, begins)]);
    }
}

/// The replica asks its peers before it speaks, and what the epoch begins with becomes durable.
#[test]
fn a_silent_pillar_sleeps_and_knows_later_what_was_durable() {
    let mut bench = Bench::new();
    bench.tell(Told::Speak);
    let epoch = bench.group.membership.epoch.next();
    let membership = Arc::new(Membership { epoch, ..(*bench.group.membership).clone() });
    bench.keeper.begin_epoch(membership.clone(), None, true).unwrap();
    let (verifier, rules) =
        (bench.pillar.speaker.verifier.clone(), bench.pillar.speaker.core.rules());
    let started = Started { core: Box::new(Outsider { rules }), effects: vec![message()] };
    bench.tell(Told::Epoch(Box::new(NextEpoch { membership, verifier, started })));
    assert_eq!(bench.left(), 0);
    bench.keeper.backing().wait_for(bench.barrier().next() - 1).unwrap();
    assert_eq!(bench.busy_rounds(), 0, "it has nothing to do, and says so again and again");
    assert!(!bench.barrier().has_news() && bench.barrier().lag_entries() == 0);
    assert_eq!(bench.left(), 0, "it is silent");
    // What it begins with depends on nothing that is not durable.
    bench.tell(Told::Speak);
    assert_eq!(bench.left(), 1);
    bench.act(record());
    bench.act(message());
    assert_eq!(bench.left(), 1);
    bench.pillar.round().unwrap();
    bench.keeper.backing().wait_for(bench.barrier().next() - 1).unwrap();
    bench.pillar.round().unwrap();
    assert_eq!(bench.left(), 2);
    assert_eq!(bench.busy_rounds(), 0);
}
