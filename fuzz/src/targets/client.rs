//! What replicas answer to a client. One of three lies as it likes; the others answer honestly,
//! when the input lets them. The client believes nothing that only the liar said.

use crate::input::{Input, put_bytes};
use pentarchy_core::Bytes;
use pentarchy_core::designated_replier::ResultDigest;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, View};
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, Reply, ToClient};
use pentarchy_core::protocol::Timeouts;
use pentarchy_core::quorum::Quorums;
use pentarchy_core::wire::Wire;
use pentarchy_protocols::DEFAULT;
use pentarchy_protocols::common::voting_client::VotingClient;
use std::collections::{BTreeMap, BTreeSet};

const LIAR: ReplicaId = ReplicaId(2);
const FIRST: u64 = 10;
const DEEDS_MAX: usize = 300;
const OUTSTANDING_MAX: usize = 64;

struct Scene {
    client: VotingClient,
    now: u64,
    next: u64,
    /// Numbers that have not completed.
    open: BTreeSet<u64>,
    /// What replicas told of those that the application judges, ordered or not.
    told: BTreeMap<(u64, bool), BTreeMap<ReplicaId, Outcome>>,
}

/// What an honest replica answers.
fn honest(number: u64) -> Bytes {
    Bytes::from(number.to_be_bytes().to_vec())
}

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let quorums = DEFAULT.rules.client_quorums(Quorums { n: 3, f: 1 });
    let client = VotingClient::new(ClientId([1; 32]), quorums, Timeouts::default(), FIRST);
    let mut scene =
        Scene { client, now: 1, next: FIRST, open: BTreeSet::new(), told: BTreeMap::new() };
    for _ in 0..DEEDS_MAX {
        if input.is_empty() {
            break;
        }
        let event = scene.event(&mut input);
        if let Some(event) = event {
            scene.step(event);
        }
    }
}

impl Scene {
    fn event(&mut self, input: &mut Input<'_>) -> Option<Event> {
        match input.u8() % 6 {
            0 => {
                let bytes = Bytes::copy_from_slice(input.bytes());
                let message = ToClient::from_bytes(&bytes).ok()?;
                Some(Event::Message { from: LIAR, message })
            }
            1 => {
                let from = ReplicaId(u16::from(input.u8() % 2));
                let number = FIRST + u64::from(input.u8());
                let replies = vec![Reply { number, outcome: Outcome::Done(honest(number)) }];
                let message = ToClient::Replies { view: View(0), replies };
                // Honest replicas answer what they were asked.
                (number < self.next).then_some(Event::Message { from, message })
            }
            2 => {
                let from = ReplicaId(u16::from(input.u8() % 2));
                let number = FIRST + u64::from(input.u8());
                let message = ToClient::Answer { number, result: honest(number) };
                (number < self.next).then_some(Event::Message { from, message })
            }
            3 => {
                let kind = input.u8();
                let (is_query, is_judged) = (kind % 2 == 1, kind / 2 % 2 == 1);
                if self.open.len() >= OUTSTANDING_MAX {
                    return None;
                }
                let (number, operation) = (self.next, Bytes::from_static(b"operation"));
                self.next += 1;
                self.open.insert(number);
                Some(match (is_judged, is_query) {
                    (true, fast) => Event::SubmitJudged { number, operation, fast },
                    (false, true) => Event::Query { number, operation },
                    (false, false) => Event::Submit { number, operation },
                })
            }
            4 => {
                self.now += u64::from(input.u16());
                Some(Event::Round { now: Millis(self.now) })
            }
            _ => Some(Event::Connected(ReplicaId(u16::from(input.u8() % 3)))),
        }
    }

    fn step(&mut self, event: Event) {
        let (mut effects, mut settled) = (Vec::new(), Vec::new());
        self.client.step(event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Completed { number, outcome } => {
                    assert!(self.open.remove(&number), "{number} completes once");
                    assert_eq!(outcome, Outcome::Done(honest(number)), "believed the liar");
                }
                Effect::Told { number, from, outcome, ordered, needed } => {
                    assert!(self.open.contains(&number), "{number} is settled");
                    let told = self.told.entry((number, ordered)).or_default();
                    assert!(told.insert(from, outcome.clone()).is_none(), "{from} tells once");
                    if told.values().filter(|it| **it == outcome).count() >= needed {
                        assert_eq!(outcome, Outcome::Done(honest(number)), "enough are a liar's");
                        self.open.remove(&number);
                        settled.push(number);
                    }
                }
                Effect::Request { draft, .. } => {
                    assert!(draft.requests.iter().all(|request| request.number < self.next));
                }
                Effect::Query { number, .. } => assert!(self.open.contains(&number)),
                Effect::Event { .. } | Effect::EventsLost { .. } => panic!("believed the liar"),
                Effect::Protocol { .. } => panic!("this protocol has no messages of clients"),
                Effect::Resume { .. } | Effect::WakeAt(_) => {}
            }
        }
        for number in settled {
            self.client.step(Event::Settled { number }, &mut Vec::new());
        }
        assert_eq!(self.client.outstanding(), self.open.len());
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let said = |message: ToClient| {
        let mut deed = vec![0];
        put_bytes(&message.to_bytes(), &mut deed);
        deed
    };
    let lie = Bytes::from_static(b"a lie");
    let reply = |outcome| Reply { number: FIRST, outcome };
    let replies =
        |outcome| said(ToClient::Replies { view: View(7), replies: vec![reply(outcome)] });
    let digest = ResultDigest { number: FIRST, digest: Digest::of(&lie) };
    let submit = [3, 0, 4, 1, 0];
    let query = [3, 1, 4, 1, 0];
    let (judged, judged_query) = ([3, 2, 4, 1, 0], [3, 3, 4, 1, 0]);
    let honest = [1, 0, 0, 1, 1, 0];
    let late = [4, 0xff, 0];
    vec![
        [&submit[..], &honest].concat(),
        [&submit[..], &replies(Outcome::Done(lie.clone())), &late, &honest].concat(),
        [&submit[..], &replies(Outcome::Refused), &replies(Outcome::Forgotten), &honest].concat(),
        [&query[..], &[2, 0, 0, 2, 1, 0], &said(ToClient::Answer { number: FIRST, result: lie })]
            .concat(),
        [&query[..], &late, &honest, &[5, 2]].concat(),
        [&judged[..], &replies(Outcome::Refused), &honest, &honest].concat(),
        [&judged_query[..], &[2, 0, 0, 2, 1, 0], &late, &honest].concat(),
        [&submit[..], &said(ToClient::Busy { number: FIRST }), &late, &late, &honest].concat(),
        [&submit[..], &said(ToClient::Digests { view: View(0), digests: vec![digest] }), &honest]
            .concat(),
        [&submit[..], &said(ToClient::Events { oldest: 3, first: 4, events: vec![Bytes::new()] })]
            .concat(),
        [&submit[..], &said(ToClient::Status(Bytes::new())), &honest].concat(),
    ]
}
