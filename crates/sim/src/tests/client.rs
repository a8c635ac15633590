//! A client for the naive protocol: asks everyone, believes f + 1, and never asks again. With a
//! flaw, the checkers are asked to name it.

use crate::run::ClientSetup;
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, ToClient};
use pentarchy_core::request::{Draft, Request};
use std::collections::BTreeMap;

/// What is wrong with a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// Nothing.
    None,
    /// Believes the first answer to a query.
    Credulous,
    /// Believes the first copy of an event.
    Gullible,
    /// Gives events on as they come.
    Unordered,
    /// Gives events on again when another copy comes.
    Repeating,
    /// Gives no event on.
    Deaf,
    /// Calls an event lost when the one behind it comes first.
    Impatient,
}

/// What a replica says of a request: an outcome, or the digest of a result.
struct Vote {
    from: ReplicaId,
    digest: Option<Digest>,
    outcome: Option<Outcome>,
}

pub struct NaiveClient {
    setup: ClientSetup,
    waiting: Vec<Request>,
    votes: BTreeMap<u64, Vec<Vote>>,
    /// Copies of events, by number.
    copies: BTreeMap<u64, Vec<(ReplicaId, Bytes)>>,
    /// The number of the next event.
    next_event: u64,
    flaw: Flaw,
}

impl NaiveClient {
    pub const fn new(setup: ClientSetup, flaw: Flaw) -> Self {
        Self {
            setup,
            waiting: Vec::new(),
            votes: BTreeMap::new(),
            copies: BTreeMap::new(),
            next_event: 1,
            flaw,
        }
    }

    fn all(&self) -> ReplicaSet {
        (0..self.setup.n as u16).map(ReplicaId).collect()
    }

    fn submit(&mut self, number: u64, operation: Bytes) {
        self.waiting.push(Request { number, operation });
        self.votes.insert(number, Vec::new());
    }

    fn count(&mut self, number: u64, vote: Vote, out: &mut Vec<Effect>) {
        let Some(votes) = self.votes.get_mut(&number) else { return };
        let digest = vote.digest;
        votes.retain(|earlier| earlier.from != vote.from);
        votes.push(vote);
        let equal = || votes.iter().filter(|vote| vote.digest == digest);
        let outcome = equal().find_map(|vote| vote.outcome.clone());
        if let Some(outcome) = outcome.filter(|_| equal().count() > self.setup.f) {
            self.votes.remove(&number);
            out.push(Effect::Completed { number, outcome });
        }
    }

    fn on_event(&mut self, from: ReplicaId, number: u64, body: Bytes, out: &mut Vec<Effect>) {
        if number < self.next_event && self.flaw != Flaw::Repeating {
            return;
        }
        let copies = self.copies.entry(number).or_default();
        copies.retain(|(who, _)| *who != from);
        copies.push((from, body.clone()));
        let is_known = copies.iter().filter(|copy| copy.1 == body).count() > self.setup.f;
        match self.flaw {
            Flaw::Deaf => {}
            Flaw::Unordered | Flaw::Repeating if is_known => {
                self.next_event = self.next_event.max(number + 1);
                out.push(Effect::Event { number, body });
            }
            Flaw::Impatient if is_known && number > self.next_event => {
                out.push(Effect::EventsLost { upto: number });
                self.next_event = number;
                self.give_on(out);
            }
            _ => self.give_on(out),
        }
    }

    fn give_on(&mut self, out: &mut Vec<Effect>) {
        let needed = if self.flaw == Flaw::Gullible { 1 } else { self.setup.f + 1 };
        while let Some(copies) = self.copies.get(&self.next_event) {
            let equal = |body: &Bytes| copies.iter().filter(|copy| copy.1 == *body).count();
            let known = copies.iter().find(|copy| equal(&copy.1) >= needed);
            let Some((_, body)) = known.cloned() else { break };
            out.push(Effect::Event { number: self.next_event, body });
            self.next_event += 1;
        }
    }
}

impl ClientCore for NaiveClient {
    fn step(&mut self, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::Query { number, operation } if self.flaw == Flaw::Credulous => {
                self.votes.insert(number, Vec::new());
                out.push(Effect::Query { to: self.all(), number, operation });
            }
            Event::Submit { number, operation } | Event::Query { number, operation } => {
                self.submit(number, operation);
            }
            Event::Message { message: ToClient::Answer { number, result }, .. }
                if self.votes.remove(&number).is_some() =>
            {
                out.push(Effect::Completed { number, outcome: Outcome::Done(result) });
            }
            Event::Message { from, message: ToClient::Replies { replies, .. } } => {
                for reply in replies {
                    let digest = match &reply.outcome {
                        Outcome::Done(result) => Some(Digest::of(result)),
                        _ => None,
                    };
                    let vote = Vote { from, digest, outcome: Some(reply.outcome) };
                    self.count(reply.number, vote, out);
                }
            }
            Event::Message { from, message: ToClient::Digests { digests, .. } } => {
                for told in digests {
                    let vote = Vote { from, digest: Some(told.digest), outcome: None };
                    self.count(told.number, vote, out);
                }
            }
            Event::Message { from, message: ToClient::Events { first, events, .. } } => {
                for (index, body) in (0..).zip(events) {
                    let number = first.saturating_add(index);
                    self.on_event(from, number, body, out);
                }
            }
            Event::Round { .. } if !self.waiting.is_empty() => {
                let floor = *self.votes.keys().next().expect("something waits");
                let requests = core::mem::take(&mut self.waiting);
                let (client, events) = (self.setup.client, Some(self.next_event));
                let draft = Draft { client, floor, events, requests };
                out.push(Effect::Request { to: self.all(), draft });
            }
            _ => {}
        }
    }

    fn outstanding(&self) -> usize {
        self.votes.len()
    }
}
