//! A client for the naive protocol: asks everyone, believes f + 1, and never asks again.

use crate::run::ClientSetup;
use pentarchy_core::Bytes;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, ToClient};
use pentarchy_core::request::{Draft, Request};
use std::collections::BTreeMap;

pub struct NaiveClient {
    setup: ClientSetup,
    waiting: Vec<Request>,
    votes: BTreeMap<u64, Vec<(ReplicaId, Outcome)>>,
    /// Believes the first answer to a query, which is a bug.
    credulous: bool,
}

impl NaiveClient {
    pub const fn new(setup: ClientSetup, credulous: bool) -> Self {
        Self { setup, waiting: Vec::new(), votes: BTreeMap::new(), credulous }
    }

    fn all(&self) -> ReplicaSet {
        (0..self.setup.n as u16).map(ReplicaId).collect()
    }

    fn submit(&mut self, number: u64, operation: Bytes) {
        self.waiting.push(Request { number, operation });
        self.votes.insert(number, Vec::new());
    }
}

impl ClientCore for NaiveClient {
    fn step(&mut self, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::Query { number, operation } if self.credulous => {
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
                    let Some(votes) = self.votes.get_mut(&reply.number) else { continue };
                    votes.retain(|(who, _)| *who != from);
                    votes.push((from, reply.outcome.clone()));
                    let equal = |vote: &&(ReplicaId, Outcome)| vote.1 == reply.outcome;
                    if votes.iter().filter(equal).count() > self.setup.f {
                        self.votes.remove(&reply.number);
                        let (number, outcome) = (reply.number, reply.outcome);
                        out.push(Effect::Completed { number, outcome });
                    }
                }
            }
            Event::Round { .. } if !self.waiting.is_empty() => {
                let floor = *self.votes.keys().next().expect("something waits");
                let requests = core::mem::take(&mut self.waiting);
                let draft = Draft { client: self.setup.client, floor, requests };
                out.push(Effect::Request { to: self.all(), draft });
            }
            _ => {}
        }
    }

    fn outstanding(&self) -> usize {
        self.votes.len()
    }
}
