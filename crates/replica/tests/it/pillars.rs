//! Pillars with threads of their own: who is let in to them, and how they end. What they agree on
//! is tried with real protocols; here the replica's own core does all the work, and those of its
//! pillars do what they are told by their peers, which is nothing.

use crate::cluster::{Cluster, Json, NoCounter, PATIENCE};
use crate::follow::Follow;
use crate::hostile::{greet, intrude, is_closed, open, send, send_all, works};
use bytes::Bytes;
use pentarchy_client::Client;
use pentarchy_core::auth::Verifier;
use pentarchy_core::counter::{self, Certificate, Instance, Position, Refused, Ui, Usig};
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::erased::{CoreEffect, Erased, ReplicaCore};
use pentarchy_core::ids::{GroupId, Incarnation, MemberId, Node, ReplicaId, ReplicaSet, View};
use pentarchy_core::membership::{Membership, PillarConfig};
use pentarchy_core::ports::client::ToReplica;
use pentarchy_core::protocol::{BadRecord, Memory, Protocol as _, Rules, Setup, Tuning};
use pentarchy_core::request::{Draft, Request};
use pentarchy_core::wire::{Wire, Writer};
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_crypto::verifier::{GroupVerifier, RequestMode, UsigCheck};
use pentarchy_io::hello::Hello;
use pentarchy_replica::{EpochFactory, Fatal, Halt, ReplicaConfig, Split, Started};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// What every thread of a replica holds, as long as it is there.
type Traces = Arc<Mutex<Vec<Weak<GroupVerifier>>>>;

/// Starts [`Follow`] on each thread.
struct Apart {
    me: ReplicaId,
    /// Of the last pillar.
    last: Tuning,
    traces: Traces,
    check: Arc<dyn UsigCheck>,
}

impl Apart {
    fn start(&self, membership: &Arc<Membership>, tuning: Tuning) -> Started {
        let (me, membership, memory) = (self.me, membership.clone(), Memory::Volatile);
        let setup = Setup { me, membership, fetch: None, memory, tuning };
        let mut effects = Vec::new();
        let core = Box::new(Erased::<Follow>::start(setup, &mut effects));
        Started { core, effects }
    }
}

impl EpochFactory for Apart {
    fn rules(&self, _: &Membership) -> Rules {
        Follow::RULES
    }
    fn verifier(&mut self, membership: &Arc<Membership>) -> Arc<dyn Verifier> {
        let (membership, mode) = (membership.clone(), RequestMode::Signature);
        let verifier = GroupVerifier::new(membership, self.check.clone(), mode, None).unwrap();
        let verifier = Arc::new(verifier);
        self.traces.lock().unwrap().push(Arc::downgrade(&verifier));
        verifier
    }
    fn core(
        &mut self,
        _: &Arc<Membership>,
        _: Option<ReplicaSet>,
        _: Memory,
        _: &mut Vec<CoreEffect>,
    ) -> Box<dyn ReplicaCore> {
        unreachable!("it is in parts")
    }
    fn can_split(&self) -> bool {
        true
    }
    fn split(
        &mut self,
        membership: &Arc<Membership>,
        _: Option<ReplicaSet>,
        _: &Memory,
    ) -> Option<Split> {
        let tunings = [Tuning::default(), self.last];
        let pillar_cores = tunings.map(|tuning| self.start(membership, tuning));
        Some(Split {
            merger: self.start(membership, Tuning::default()),
            pillar_cores: pillar_cores.into(),
        })
    }
    fn check_records(&self, _: &Membership, _: &[Bytes]) -> Result<(), BadRecord> {
        unreachable!("it keeps nothing")
    }
}

/// A device that has its host remember for it. Whatever is said to be of one is genuine.
struct Remembered;

impl Usig for Remembered {
    fn incarnation(&self) -> Incarnation {
        Incarnation(1)
    }
    fn begin_epoch(&mut self, _: &Membership) -> Result<(), Refused> {
        Ok(())
    }
    fn create(&mut self, _position: Position, _digest: &Digest) -> Result<Ui, Refused> {
        Err(Refused::Unavailable)
    }
    fn verify(&self, _replica: ReplicaId, _ui: &Ui, _digest: &Digest) -> bool {
        true
    }
    fn memory(&self) -> Option<counter::Memory> {
        Some(counter::Memory::default())
    }
}

impl UsigCheck for Remembered {
    fn check(&self, _replica: ReplicaId, _ui: &Ui, _digest: &Digest) -> bool {
        true
    }
}

/// The first of two replicas, with two pillars. The other one is whoever has its key.
fn cluster(last: Tuning) -> (Cluster, Traces) {
    cluster_of(last, || NoCounter)
}

/// The same with devices of one kind.
fn cluster_of<D>(last: Tuning, device: fn() -> D) -> (Cluster, Traces)
where
    D: Usig + UsigCheck + 'static,
{
    let traces = Traces::default();
    let change = |config: &mut ReplicaConfig| {
        let lane = PillarConfig { pillars: 2, ..PillarConfig::default() };
        config.membership = Arc::new(Membership { lane, ..(*config.membership).clone() });
        config.counters = vec![Box::new(device())];
        let (check, traces) = (Arc::new(device()), traces.clone());
        config.epochs = Box::new(Apart { me: config.me, last, traces, check });
    };
    let mut cluster = Cluster::prepare(2, Tuning::default(), &change);
    cluster.start_next();
    (cluster, traces)
}

fn client(cluster: &Cluster) -> Client {
    Client::connect(cluster.client_config(1, 1)).unwrap()
}

/// The key of the second replica.
fn key() -> KeyPair {
    KeyPair::from_seed([101; 32])
}

/// To how many replicas each pillar is connected.
fn links(status: &Json) -> [usize; 2] {
    [0, 1].map(|pillar| status.list(&format!("/pillars/{pillar}/thread/peers")))
}

#[test]
fn a_flood_on_a_connection_to_a_pillar_stops_nobody_else() {
    let (cluster, _) = cluster(Tuning::default());
    let client = client(&cluster);
    works(&cluster, &client, 1);
    let (mut stream, mut channel) = greet(&cluster, &key(), Hello::Pillar(MemberId(1), 1));
    cluster.await_status(&client, 0, |status| links(status) == [0, 1]);
    let malformed = |status: &Json| status.number("/rejects/malformed");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let garbage: Vec<&[u8]> = vec![&[9; 16]; 1_000];
            while !stop.load(Ordering::Relaxed) {
                send_all(&mut stream, &mut channel, &garbage);
            }
        });
        (2..30).for_each(|count| works(&cluster, &client, count));
        cluster.await_status(&client, 0, |status| malformed(status) > 10_000);
        stop.store(true, Ordering::Relaxed);
        flood.join().unwrap();
    });
    cluster.await_status(&client, 0, |status| {
        assert_eq!(status.list("/peers"), 0, "it is no connection of the replica");
        links(status) == [0, 1]
    });
    drop(stream);
    cluster.await_status(&client, 0, |status| links(status) == [0, 0]);
    works(&cluster, &client, 30);
    cluster.stop();
}

/// What came in a round is checked by the threads of pillars, all of one client by the same one.
#[test]
fn whatever_a_client_did_not_sign_is_not_executed_whoever_checks_it() {
    const SENT: u64 = 20;
    let (cluster, _) = cluster(Tuning::default());
    let client = client(&cluster);
    let speak = |seed, is_forged: &dyn Fn(u64) -> bool| {
        let keys = KeyPair::from_seed([seed; 32]);
        let domain = cluster.membership.group_domain();
        let other = Domain::of_group(&GroupId([6; 16]));
        let [genuine, forged] =
            [domain, other].map(|domain| ClientSigner::signature(keys.clone(), domain));
        let message = |number| {
            let requests = vec![Request { number, operation: Bytes::from_static(b"x") }];
            let draft = Draft { client: keys.client_id(), floor: 0, events: None, requests };
            let signer = if is_forged(number) { &forged } else { &genuine };
            ToReplica::Request(Arc::new(signer.seal(draft))).to_bytes()
        };
        let messages: Vec<_> = (1..=SENT).map(message).collect();
        let messages: Vec<&[u8]> = messages.iter().map(AsRef::as_ref).collect();
        let (mut stream, mut channel) = intrude(&cluster, &keys, Node::Client(keys.client_id()));
        send_all(&mut stream, &mut channel, &messages);
        stream
    };
    // Of either pillar: their names are points of a curve, which is as good as chance.
    let honest: Vec<_> = (60..66).map(|seed| speak(seed, &|_| false)).collect();
    let executed = |status: &Json| status.number("/requests");
    cluster.await_status(&client, 0, |status| executed(status) == 6 * SENT);
    // One after the other: a pillar checks so many at a time, and what a liar signed may be
    // executed if its forgery is in the next lot.
    for seed in 70..76 {
        assert!(is_closed(&mut speak(seed, &|number| number == SENT)));
    }
    cluster.await_status(&client, 0, |status| {
        assert_eq!(executed(status), 6 * SENT);
        assert_eq!(status.number("/queues/waiting_envelopes/used"), 0);
        status.number("/counters/client_bad_auth") == 6
    });
    drop(honest);
    works(&cluster, &client, 6 * SENT + 1);
    cluster.stop();
}

/// What comes with the `Hello` is not lost.
#[test]
fn a_pillar_hears_what_came_before_the_connection_was_its_own() {
    let (cluster, _) = cluster(Tuning::default());
    let client = client(&cluster);
    let hello = Hello::Pillar(MemberId(1), 0).to_bytes();
    let (mut first, mut channel) = open(&cluster, &key());
    send_all(&mut first, &mut channel, &[&hello, &[9; 16], &[9; 16]]);
    cluster.await_status(&client, 0, |status| status.number("/rejects/malformed") == 2);
    let (_second, _channel) = greet(&cluster, &key(), Hello::Pillar(MemberId(1), 0));
    assert!(is_closed(&mut first), "another one took its place");
    cluster.await_status(&client, 0, |status| links(status) == [1, 0]);
    cluster.stop();
}

#[test]
fn only_the_same_pillar_of_a_higher_member_is_let_in() {
    let (cluster, _) = cluster(Tuning::default());
    let mallory = KeyPair::from_seed([66; 32]);
    let first = KeyPair::from_seed([100; 32]);
    for (keys, claim) in [
        (&key(), Hello::Pillar(MemberId(1), 2)),
        (&mallory, Hello::Pillar(MemberId(1), 0)),
        (&first, Hello::Pillar(MemberId(0), 0)),
        (&key(), Hello::Pillar(MemberId(0), 0)),
        (&mallory, Hello::Pillar(MemberId(9), 0)),
    ] {
        let (mut stream, _channel) = greet(&cluster, keys, claim);
        assert!(is_closed(&mut stream), "{claim:?}");
    }
    let client = client(&cluster);
    cluster.await_status(&client, 0, |status| status.number("/counters/hellos_refused") == 5);
    cluster.await_status(&client, 0, |status| links(status) == [0, 0]);
    cluster.stop();
}

/// A replica that asked nobody is shown what its own device has certified since it began.
#[test]
fn nobody_ends_a_replica_by_what_it_said_itself() {
    let (cluster, _) = cluster_of(Tuning::default(), || Remembered);
    let client = client(&cluster);
    works(&cluster, &client, 1);
    let (mut stream, mut channel) = intrude(&cluster, &key(), Node::Member(MemberId(1)));
    let at = Position { view: View(1), index: 9 };
    let certificate = Certificate::Mac([0; 32]);
    let ui = Ui {
        incarnation: Incarnation(1),
        instance: Instance(0),
        position: at,
        committed: at,
        certificate,
    };
    // What was seen of it, in this epoch.
    let mut seen = Writer::default();
    seen.u8(3);
    seen.u8(1);
    cluster.membership.epoch.encode(&mut seen);
    seen.sequence(&[(Digest([9; 32]), ui)]);
    send(&mut stream, &mut channel, &seen.into_bytes());
    let came = |status: &Json| status.count("/messages/resuming/messages_in");
    cluster.await_status(&client, 0, |status| came(status) == 1);
    works(&cluster, &client, 2);
    cluster.stop();
}

#[test]
fn who_stops_a_replica_stops_its_threads() {
    let (cluster, traces) = cluster(Tuning::default());
    let client = client(&cluster);
    works(&cluster, &client, 1);
    let alive = || traces.lock().unwrap().iter().map(Weak::strong_count).sum::<usize>();
    assert_eq!(alive(), 3 + 3, "the second replica, which does not run, has as many");
    cluster.stop();
    assert_eq!(alive(), 0);
}

#[test]
fn a_replica_ends_with_a_pillar_that_cannot_go_on() {
    let (cluster, traces) = cluster(Tuning { proposals_in_flight: 1, ..Tuning::default() });
    let replica = cluster.replicas().pop().unwrap();
    let deadline = std::time::Instant::now() + PATIENCE;
    while !replica.is_finished() {
        assert!(std::time::Instant::now() < deadline, "it goes on");
        std::thread::yield_now();
    }
    assert!(matches!(replica.stop(), Err(Fatal::Halt(Halt::Counter(_)))));
    assert!(traces.lock().unwrap().iter().all(|it| it.strong_count() == 0));
}

#[test]
fn a_replica_ends_with_a_pillar_that_panics() {
    let (cluster, _) = cluster(Tuning { window_slots: 0, ..Tuning::default() });
    let replica = cluster.replicas().pop().unwrap();
    let deadline = std::time::Instant::now() + PATIENCE;
    while !replica.is_finished() {
        assert!(std::time::Instant::now() < deadline, "it goes on");
        std::thread::yield_now();
    }
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| replica.stop()));
    assert!(stopped.is_err());
}
