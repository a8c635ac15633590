use super::*;
use crate::common::voting_client::VotingClient;
use pentarchy_core::ids::ClientId;
use pentarchy_core::ports::client::{ClientCore, Event, ToClient};
use pentarchy_core::protocol::Timeouts;
use pentarchy_core::quorum::{ClientQuorums, Quorums};

const RETRY: u64 = 200;

struct Bench {
    core: VotingClient,
    out: Vec<Effect>,
}

fn body(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

fn set(ids: &[u16]) -> ReplicaSet {
    ids.iter().copied().map(ReplicaId).collect()
}

impl Bench {
    fn deaf(f: usize) -> Self {
        let timeouts = Timeouts { client_retry_ms: RETRY, ..Timeouts::default() };
        let group = Quorums { n: 2 * f + 1, f };
        let quorums = ClientQuorums { group, replies: f + 1, answers: group.n };
        let core = VotingClient::new(ClientId([7; 32]), quorums, timeouts, 1);
        Self { core, out: Vec::new() }
    }

    /// One that has asked everyone once.
    fn listening(f: usize) -> Self {
        let mut bench = Self::deaf(f);
        bench.step(Event::Listen);
        let all = (0..2 * f as u16 + 1).map(ReplicaId).collect();
        assert_eq!(bench.asks(0), [(all, 1)]);
        bench
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        self.core.step(event, &mut self.out);
        core::mem::take(&mut self.out)
    }

    /// Whom a round asks for events, and from which number on.
    fn asks(&mut self, now: u64) -> Vec<(ReplicaSet, u64)> {
        let resume = |effect| match effect {
            Effect::Resume { to, from } => Some((to, from)),
            _ => None,
        };
        self.step(Event::Round { now: Millis(now) }).into_iter().filter_map(resume).collect()
    }

    /// The numbers and bodies that are given to the application; a loss is its number alone.
    fn tell(&mut self, from: u16, oldest: u64, first: u64, bodies: &[&[u8]]) -> Vec<(u64, Bytes)> {
        let events = bodies.iter().map(|bytes| body(bytes)).collect();
        let message = ToClient::Events { oldest, first, events };
        let given = |effect| match effect {
            Effect::Event { number, body } => (number, body),
            Effect::EventsLost { upto } => (upto, LOST),
            other => panic!("{other:?}"),
        };
        let event = Event::Message { from: ReplicaId(from), message };
        self.step(event).into_iter().map(given).collect()
    }

    /// What the next envelope acknowledges.
    fn acknowledges(&mut self, number: u64, now: u64) -> Option<u64> {
        self.step(Event::Submit { number, operation: Bytes::new() });
        let draft = |effect| match effect {
            Effect::Request { draft, .. } => Some(draft.events),
            _ => None,
        };
        self.step(Event::Round { now: Millis(now) }).into_iter().find_map(draft).unwrap()
    }
}

const LOST: Bytes = Bytes::from_static(b"(lost)");

#[test]
fn an_event_is_believed_when_f_plus_1_distinct_replicas_tell_it() {
    for f in 1..=3 {
        let mut bench = Bench::listening(f);
        for from in 0..f as u16 {
            assert_eq!(bench.tell(from, 0, 1, &[b"yes"]), []);
            assert_eq!(bench.tell(from, 0, 1, &[b"yes"]), [], "a vote counts once");
        }
        assert_eq!(bench.tell(f as u16, 0, 1, &[b"no"]), [], "another body");
        assert_eq!(bench.tell(200, 0, 1, &[b"yes"]), [], "no member");
        assert_eq!(bench.tell(f as u16 + 1, 0, 1, &[b"yes"]), [(1, body(b"yes"))]);
        assert_eq!(bench.tell(0, 0, 1, &[b"yes"]), [], "once");
        assert_eq!(bench.acknowledges(1, 1), Some(2));
    }
}

#[test]
fn events_are_given_in_the_order_of_their_numbers() {
    let mut bench = Bench::listening(1);
    assert_eq!(bench.tell(0, 0, 2, &[b"b", b"c"]), []);
    assert_eq!(bench.tell(1, 0, 2, &[b"b", b"c"]), []);
    assert_eq!(bench.acknowledges(1, 1), Some(1), "nothing was given yet");
    assert_eq!(bench.tell(1, 0, 1, &[b"a"]), []);
    let all = [(1, body(b"a")), (2, body(b"b")), (3, body(b"c"))];
    assert_eq!(bench.tell(2, 1, 1, &[b"a", b"b", b"c"]), all);
}

#[test]
fn who_does_not_listen_is_told_nothing_asks_nobody_and_keeps_nothing() {
    let mut bench = Bench::deaf(1);
    assert_eq!(bench.asks(0), []);
    assert_eq!([0, 1, 2].map(|from| bench.tell(from, 9, 1, &[b"a"]).len()), [0; 3]);
    assert_eq!(bench.acknowledges(1, 1), None);
}

#[test]
fn it_asks_on_connection_when_copies_are_missing_and_now_and_then() {
    let mut bench = Bench::listening(1);
    assert_eq!(bench.asks(RETRY - 1), []);
    bench.step(Event::Connected(ReplicaId(2)));
    assert_eq!(bench.asks(RETRY - 1), [(set(&[2]), 1)]);
    let mut asked = Vec::new();
    for now in (RETRY..60_000).step_by(10) {
        asked.extend(bench.asks(now).iter().map(|_| now));
    }
    let pauses: Vec<u64> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses[..6], [400, 800, 1_600, 3_200, 5_000, 5_000], "{asked:?}");
    let now = 60_000;
    bench.tell(0, 0, 1, &[b"a"]);
    assert_eq!(bench.asks(now), []);
    assert_eq!(bench.asks(now + RETRY), [(set(&[0, 1, 2]), 1)], "a copy is missing");
    bench.tell(0, 0, 3, &[b"c"]);
    assert_eq!(bench.asks(now + RETRY + 1_000), [], "a liar cannot make it ask all the time");
    bench.tell(1, 0, 1, &[b"a"]);
    assert_eq!(bench.asks(now + RETRY + 1_001), []);
    assert_eq!(bench.asks(now + 2 * RETRY + 1_001), [(set(&[0, 1, 2]), 2)]);
}

#[test]
fn what_f_plus_1_no_longer_keep_is_lost_and_what_is_known_in_between_is_not() {
    let mut bench = Bench::listening(1);
    bench.tell(0, 0, 4, &[b"d"]);
    assert_eq!(bench.tell(1, 0, 4, &[b"d"]), []);
    assert_eq!(bench.tell(0, u64::MAX, 9, &[]), [], "one alone may lie");
    let given = bench.tell(1, 7, 7, &[b"g"]);
    assert_eq!(given, [(4, LOST), (4, body(b"d")), (7, LOST)]);
    assert_eq!(bench.tell(2, 7, 7, &[b"g"]), [(7, body(b"g"))]);
    assert_eq!(bench.tell(2, 3, 3, &[]), [], "one that is behind takes nothing back");
    assert_eq!(bench.acknowledges(1, 1), Some(8));
}

#[test]
fn what_liars_say_takes_bounded_memory() {
    let mut bench = Bench::listening(1);
    let many: Vec<&[u8]> = vec![b"lie"; CLIENT_EVENTS_MAX];
    for first in [1, 2_000, 1 << 40, u64::MAX - 1, u64::MAX] {
        assert_eq!(bench.tell(0, 0, first, &many), []);
    }
    let inbox = bench.core.inbox.as_ref().unwrap();
    assert_eq!(inbox.candidates.len(), CLIENT_EVENTS_MAX);
    assert_eq!(inbox.known_bytes, 0, "bodies are kept when f + 1 vouch for them");
    assert_eq!(bench.tell(1, 0, 1, &[b"true"]), []);
    assert_eq!(bench.tell(2, 0, 1, &[b"true"]), [(1, body(b"true"))]);
}

#[test]
fn what_waits_for_a_number_below_takes_bounded_memory_and_comes_in_the_end() {
    let mut bench = Bench::listening(1);
    let large = vec![3; CLIENT_EVENTS_BYTES_MAX / 4];
    for from in [0, 1] {
        assert_eq!(bench.tell(from, 0, 2, &[&large[..]; 6]), []);
    }
    let inbox = bench.core.inbox.as_ref().unwrap();
    assert_eq!(inbox.known_bytes, 3 * (EVENT_HEADER_BYTES + large.len()));
    assert_eq!(bench.tell(0, 0, 1, &[b"a"]), []);
    let given = bench.tell(1, 0, 1, &[b"a"]);
    assert_eq!(given.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(bench.core.inbox.as_ref().unwrap().known_bytes, 0);
    assert_eq!(bench.tell(0, 0, 5, &[&large[..]; 3]), []);
    assert_eq!(bench.tell(2, 0, 5, &[&large[..]; 3]).len(), 3);
}
