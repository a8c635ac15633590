//! A client that keeps to no limit: every request in an envelope of its own, to every replica,
//! as many outstanding as it may have, and nothing sent twice.

use bytes::Bytes;
use pentarchy_core::ids::{ClientId, Millis, ReplicaSet};
use pentarchy_core::ports::client::{ClientCore, Effect, Event, ToClient};
use pentarchy_core::request::{Draft, Request};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests under way. Some fewer than replicas remember of a client.
const OUTSTANDING: usize = 2048;

/// Whatever was not answered in this time is given up.
const PATIENCE_MS: u64 = 100;

/// See the [module](self).
pub struct Flooder {
    client: ClientId,
    replicas: ReplicaSet,
    operation: Bytes,
    next: u64,
    open: BTreeSet<u64>,
    give_up_at: Millis,
    /// Requests that some replica answered.
    done: Arc<AtomicU64>,
}

impl Flooder {
    /// Has this operation executed again and again; `done` counts.
    pub fn new(
        client: ClientId,
        replicas: ReplicaSet,
        operation: Bytes,
        done: Arc<AtomicU64>,
    ) -> Self {
        let (open, give_up_at) = (BTreeSet::new(), Millis(0));
        Self { client, replicas, operation, next: 1, open, give_up_at, done }
    }

    fn on_message(&mut self, message: ToClient) {
        match message {
            ToClient::Replies { replies, .. } => {
                let open = &mut self.open;
                let done = replies.iter().filter(|reply| open.remove(&reply.number)).count();
                self.done.fetch_add(done as u64, Ordering::Relaxed);
            }
            ToClient::Busy { number } => {
                self.open.remove(&number);
            }
            _ => {}
        }
    }

    fn on_round(&mut self, now: Millis, out: &mut Vec<Effect>) {
        if now >= self.give_up_at {
            self.open.clear();
        }
        self.give_up_at = Millis(now.0 + PATIENCE_MS);
        while self.open.len() < OUTSTANDING {
            let number = self.next;
            self.next += 1;
            self.open.insert(number);
            let floor = self.open.first().copied().unwrap_or(number);
            let requests = vec![Request { number, operation: self.operation.clone() }];
            let draft = Draft { client: self.client, floor, events: None, requests };
            out.push(Effect::Request { to: self.replicas, draft });
        }
        out.push(Effect::WakeAt(self.give_up_at));
    }
}

impl ClientCore for Flooder {
    fn step(&mut self, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::Message { message, .. } => self.on_message(message),
            Event::Round { now } => self.on_round(now, out),
            Event::Submit { .. }
            | Event::Query { .. }
            | Event::SubmitJudged { .. }
            | Event::Settled { .. }
            | Event::Unheard { .. }
            | Event::GiveUp { .. }
            | Event::Resumed { .. }
            | Event::Connected(_)
            | Event::Listen => {}
        }
    }

    fn outstanding(&self) -> usize {
        self.open.len()
    }
}
