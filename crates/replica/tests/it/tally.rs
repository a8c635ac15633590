//! A service that remembers how many bytes it was given, and a client core that believes the first
//! replicas that agree.

use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, ReplicaSet};
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, Reply, ToClient};
use pentarchy_core::request::{Draft, Request};
use pentarchy_core::service::{Context, SmallService};
use pentarchy_core::wire::Malformed;
use std::collections::BTreeMap;

/// What an operation begins with whose answer is to be a MiB longer.
pub const LARGE: &[u8] = b"large";

/// Answers each operation with the operation and the number of operations so far.
#[derive(Default)]
pub struct Tally(u64);

impl SmallService for Tally {
    fn execute(&mut self, _context: &Context, operation: &[u8]) -> Vec<u8> {
        self.0 += 1;
        [&self.0.to_le_bytes(), operation, &padding(operation)].concat()
    }
    fn query(&self, operation: &[u8]) -> Vec<u8> {
        [&self.0.to_le_bytes()[..], &padding(operation)].concat()
    }
    fn save(&self) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.0 = u64::from_le_bytes(bytes.try_into().map_err(|_| Malformed)?);
        Ok(())
    }
}

fn padding(operation: &[u8]) -> Vec<u8> {
    vec![0; if operation.starts_with(LARGE) { 1 << 20 } else { 0 }]
}

/// What a replica says of a request: an outcome, or the digest of a result.
struct Vote {
    digest: Option<Digest>,
    outcome: Option<Outcome>,
}

/// Sends every request to all replicas, once per connection and then as often as it is told to, and
/// takes the outcome that `needed` of
/// them report.
pub struct Believer {
    client: ClientId,
    replicas: ReplicaSet,
    needed: usize,
    waiting: Vec<Request>,
    /// Outstanding numbers, with the votes for them.
    votes: BTreeMap<u64, Vec<Vote>>,
    drafts: Vec<Draft>,
    /// Milliseconds after which everything is sent again.
    retry_ms: u64,
    retry_at: Millis,
}

impl Believer {
    pub fn new(client: ClientId, replicas: ReplicaSet, needed: usize) -> Self {
        let (waiting, votes, drafts) = (Vec::new(), BTreeMap::new(), Vec::new());
        let (retry_ms, retry_at) = (u64::MAX, Millis(u64::MAX));
        Self { client, replicas, needed, waiting, votes, drafts, retry_ms, retry_at }
    }

    pub fn retrying(self, retry_ms: u64) -> Self {
        Self { retry_ms, retry_at: Millis(0), ..self }
    }

    fn floor(&self) -> u64 {
        self.votes.first_key_value().map_or(0, |(number, _)| *number)
    }

    fn on_reply(&mut self, reply: Reply, out: &mut Vec<Effect>) {
        let digest = match &reply.outcome {
            Outcome::Done(result) => Some(Digest::of(result)),
            _ => None,
        };
        self.vote(reply.number, Vote { digest, outcome: Some(reply.outcome) }, out);
    }

    fn vote(&mut self, number: u64, vote: Vote, out: &mut Vec<Effect>) {
        let Some(votes) = self.votes.get_mut(&number) else { return };
        let digest = vote.digest;
        votes.push(vote);
        let equal = || votes.iter().filter(|vote| vote.digest == digest);
        let outcome = equal().find_map(|vote| vote.outcome.clone());
        if let Some(outcome) = outcome.filter(|_| equal().count() >= self.needed) {
            self.votes.remove(&number);
            let floor = self.floor();
            self.drafts
                .retain(|draft| draft.requests.iter().any(|request| request.number >= floor));
            out.push(Effect::Completed { number, outcome });
        }
    }
}

impl ClientCore for Believer {
    fn step(&mut self, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::Submit { number, operation } => {
                self.votes.insert(number, Vec::new());
                self.waiting.push(Request { number, operation });
            }
            Event::Query { number, operation } => {
                self.votes.insert(number, Vec::new());
                out.push(Effect::Query { to: self.replicas, number, operation });
            }
            Event::Message { message: ToClient::Replies { replies, .. }, .. } => {
                replies.into_iter().for_each(|reply| self.on_reply(reply, out));
            }
            Event::Message { message: ToClient::Answer { number, result }, .. } => {
                self.on_reply(Reply { number, outcome: Outcome::Done(result) }, out);
            }
            Event::Message { message: ToClient::Digests { digests, .. }, .. } => {
                for told in digests {
                    let vote = Vote { digest: Some(told.digest), outcome: None };
                    self.vote(told.number, vote, out);
                }
            }
            Event::Message { .. }
            | Event::Listen
            | Event::GiveUp { .. }
            | Event::Resumed { .. }
            | Event::SubmitJudged { .. }
            | Event::Settled { .. }
            | Event::Unheard { .. } => {}
            Event::Connected(replica) => {
                let to = ReplicaSet::from_iter([replica]);
                let again = self.drafts.iter().map(|draft| (to, draft.clone()));
                out.extend(again.map(|(to, draft)| Effect::Request { to, draft }));
            }
            Event::Round { now } => {
                if self.retry_at <= now {
                    self.retry_at = Millis(now.0 + self.retry_ms);
                    let again = self.drafts.iter().cloned();
                    out.extend(again.map(|draft| Effect::Request { to: self.replicas, draft }));
                }
                if self.retry_at < Millis(u64::MAX) {
                    out.push(Effect::WakeAt(self.retry_at));
                }
                while !self.waiting.is_empty() {
                    let rest = self.waiting.split_off(self.waiting.len().min(512));
                    let requests = std::mem::replace(&mut self.waiting, rest);
                    let draft =
                        Draft { client: self.client, floor: self.floor(), events: None, requests };
                    self.drafts.push(draft.clone());
                    out.push(Effect::Request { to: self.replicas, draft });
                }
            }
        }
    }
    fn outstanding(&self) -> usize {
        self.votes.len()
    }
}

/// What the `count`-th operation is answered.
pub fn answer(count: u64, operation: &[u8]) -> Bytes {
    [&count.to_le_bytes(), operation].concat().into()
}
