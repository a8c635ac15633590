//! Of a long result one replica tells all, the others its digest, also where replicas execute
//! before anything is final: what such clients believe, and when they ask again.

use pentarchy_core::Bytes;
use pentarchy_core::designated_replier::{ResultDigest, teller};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, Place, Reply, ToClient};
use pentarchy_core::protocol::Timeouts;
use pentarchy_core::quorum::Quorums;
use pentarchy_protocols::{ClientStart, Descriptor, PROTOCOLS};

const CLIENT: ClientId = ClientId([7; 32]);
const TRUTH: &[u8] = b"a result that is longer than what replicas always tell in full";
const LIE: &[u8] = b"another result that is longer than what is always told in full";

/// With which a client acts on what all of its group told it, or is told by a quorum to be kept. In
/// a group of `5f + 1` it waits for fewer.
fn protocols() -> impl Iterator<Item = &'static Descriptor> {
    let waits = |it: &&Descriptor| it.rules.speculative && it.rules.group_size.per_fault <= 3;
    PROTOCOLS.iter().copied().filter(|it| it.is_for_users()).filter(waits)
}

struct Bench {
    core: Box<dyn ClientCore>,
    group: Quorums,
    now: u64,
}

impl Bench {
    /// One request is under way.
    fn asked(protocol: &Descriptor) -> Self {
        Self::of(protocol, Quorums { n: protocol.rules.replicas(1), f: 1 })
    }

    fn of(entry: &Descriptor, group: Quorums) -> Self {
        let (timeouts, start_floor) = (Timeouts::default(), 1);
        let start = ClientStart { client: CLIENT, group, timeouts, start_floor, seed: None };
        let mut bench = Self { core: (entry.client)(start), group, now: 0 };
        bench.step(Event::Submit { number: 1, operation: Bytes::from_static(b"long") });
        bench.round(0);
        bench
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        let mut out = Vec::new();
        self.core.step(event, &mut out);
        out
    }

    fn round(&mut self, after: u64) -> Vec<Effect> {
        self.now += after;
        self.step(Event::Round { now: Millis(self.now) })
    }

    fn says(&mut self, from: u16, message: ToClient) -> Option<Outcome> {
        let effects = self.step(Event::Message { from: ReplicaId(from), message });
        effects.into_iter().find_map(|effect| match effect {
            Effect::Completed { outcome, .. } => Some(outcome),
            _ => None,
        })
    }

    fn tells(&mut self, from: u16, result: &'static [u8]) -> Option<Outcome> {
        let replies = vec![Reply { number: 1, outcome: done(result) }];
        self.says(from, ToClient::Speculative { primary: ReplicaId(0), place: place(), replies })
    }

    fn confirms(&mut self, from: u16, result: &[u8]) -> Option<Outcome> {
        let digests = vec![ResultDigest { number: 1, digest: Digest::of(result) }];
        self.says(
            from,
            ToClient::SpeculativeDigests { primary: ReplicaId(0), place: place(), digests },
        )
    }

    /// Who is sent the request in the next so many milliseconds.
    fn asks(&mut self, within: u64) -> ReplicaSet {
        let mut asked = ReplicaSet::EMPTY;
        for _ in 0..within {
            for effect in self.round(1) {
                if let Effect::Request { to, .. } = effect {
                    asked = asked.iter().chain(to.iter()).collect();
                }
            }
        }
        asked
    }

    /// The replica that tells the result, and the others.
    fn roles(&self) -> (u16, Vec<u16>) {
        let tells = teller(&CLIENT, 1, self.group.n).0;
        (tells, (0..self.group.n as u16).filter(|id| *id != tells).collect())
    }
}

fn place() -> Place {
    Place { view: View(0), slot: Slot(1), history: Digest::of(b"history") }
}

fn done(result: &'static [u8]) -> Outcome {
    Outcome::Done(Bytes::from_static(result))
}

#[test]
fn a_result_and_digests_of_it_from_all_are_enough_in_whatever_order_they_come() {
    assert_eq!(protocols().count(), 3);
    for protocol in protocols() {
        let (name, n) = (protocol.rules.name, protocol.rules.replicas(1));
        for first in 0..n {
            let mut bench = Bench::asked(protocol);
            let (tells, mut others) = bench.roles();
            others.insert(first, tells);
            let told: Vec<Option<Outcome>> = others
                .iter()
                .map(|id| match *id == tells {
                    true => bench.tells(*id, TRUTH),
                    false => bench.confirms(*id, TRUTH),
                })
                .collect();
            let completed: Vec<Outcome> = told.into_iter().flatten().collect();
            assert_eq!(completed, [done(TRUTH)], "{name}, told as number {first}");
        }
    }
}

/// All but the one that is to tell the result confirm it, and that one tells a lie.
fn lied_to(protocol: &Descriptor) -> (Bench, Vec<u16>, Option<Outcome>) {
    let mut bench = Bench::asked(protocol);
    let (tells, others) = bench.roles();
    let mut completed = bench.tells(tells, LIE);
    for id in &others {
        completed = completed.or_else(|| bench.confirms(*id, TRUTH));
    }
    bench.round(0);
    for id in &others {
        // They say that it will last.
        completed = completed.or_else(|| bench.says(*id, ToClient::Committed(place())));
    }
    (bench, others, completed)
}

#[test]
fn who_is_to_tell_a_result_and_lies_delays_it_and_does_not_change_it() {
    for protocol in protocols() {
        let name = protocol.rules.name;
        let (mut bench, others, completed) = lied_to(protocol);
        assert_eq!(completed, None, "{name}: the result is not there");
        let all = (0..bench.group.n as u16).map(ReplicaId).collect();
        assert_eq!(bench.asks(12), all, "{name}: everyone is asked, and soon");
        let (tells, _) = bench.roles();
        assert_eq!(bench.tells(tells, LIE), None, "{name}");
        assert_eq!(bench.tells(others[0], TRUTH), Some(done(TRUTH)), "{name}: one is enough");
        assert_eq!(bench.core.outstanding(), 0);
    }
}

#[test]
fn a_client_that_takes_any_result_for_what_was_confirmed_is_found() {
    let lied = |protocol| mutant::with(Some("client.takes-any-result"), || lied_to(protocol).2);
    for protocol in protocols() {
        assert_eq!(lied(protocol), Some(done(LIE)), "{}", protocol.rules.name);
    }
}

/// Also in a group that is larger than it need be: a client that reads there asks all, so one
/// correct replica that has a result for final is enough. Nothing follows from the group's size.
#[test]
fn as_many_say_that_a_result_is_final_as_a_reader_counts_on() {
    let group = Quorums { n: 7, f: 2 };
    let small = protocols().find(|it| it.rules.group_size.per_fault == 2);
    let mut bench = Bench::of(small.expect("it is there"), group);
    let told: Vec<Option<Outcome>> = (0..4).map(|id| bench.tells(id, TRUTH)).collect();
    assert_eq!(told, [const { None }; 4]);
    bench.round(0);
    let settled: Vec<bool> =
        (0..5).map(|id| bench.says(id, ToClient::Committed(place())).is_some()).collect();
    assert_eq!(settled, [false, false, true, false, false], "f + 1");
}
