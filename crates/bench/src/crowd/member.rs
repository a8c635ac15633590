//! One client of a crowd: core, signer and connections, driven by the crowd's loop.

use crate::load::{Tally, Window};
use crate::operations::{Operation, Operations};
use pentarchy_client::links::{Changes, Links};
use pentarchy_client::numbers::Numbers;
use pentarchy_client::{ClientConfig, ConnectError, RequestError};
use pentarchy_core::ids::{Millis, Node, ReplicaSet};
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, ToClient, ToReplica};
use pentarchy_core::wire::Wire;
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_io::channel::Identity;
use pentarchy_io::clock::wall_micros;
use pentarchy_io::poll::{Event as Readiness, Poller};
use std::sync::Arc;
use std::time::Instant;

/// One client.
pub struct Member {
    core: Box<dyn ClientCore>,
    signer: ClientSigner,
    links: Links,
    numbers: Numbers<Started>,
    operations: Operations,
    /// Operations that may still be submitted before one completes.
    free: usize,
    effects: Vec<Effect>,
    outgoing: Vec<(ReplicaSet, ToReplica)>,
    wake_at: Option<Millis>,
    replicas: usize,
    connected: ReplicaSet,
    /// Operations with the right result, within the window.
    pub done: u64,
    /// It is in the loop's list of those that have something to do.
    pub is_listed: bool,
}

/// An operation that is outstanding.
struct Started {
    /// When it was submitted, or should have been.
    at: Instant,
    is_read: bool,
}

/// What a round of a member is about.
pub struct Round<'a> {
    /// Milliseconds since the crowd began.
    pub now_ms: u64,
    /// What is measured; none while load is not to begin yet.
    pub window: Option<Window>,
    /// Whatever completes is replaced at once.
    pub replaces: bool,
    /// Where connections are registered.
    pub poller: &'a Poller,
    /// What was found.
    pub tally: &'a mut Tally,
}

impl Member {
    /// Nothing is dialled yet.
    pub fn new(
        config: ClientConfig,
        operations: Operations,
        outstanding: usize,
        first_token: usize,
    ) -> Result<Self, ConnectError> {
        let ClientConfig { membership, addresses, keys, signer, core, .. } = config;
        let identity = Identity::new(*keys.channel_secret(), &membership.group_domain());
        let members = membership.members.iter();
        let replicas = addresses.into_iter().zip(members).map(|(at, it)| (at, it.id, it.identity));
        let links = Links::new(identity, Node::Client(keys.client_id()), first_token, replicas)?;
        Ok(Self {
            core,
            signer,
            links,
            numbers: Numbers::new(wall_micros()),
            operations,
            free: outstanding,
            effects: Vec::new(),
            outgoing: Vec::new(),
            wake_at: None,
            replicas: membership.n(),
            connected: ReplicaSet::EMPTY,
            done: 0,
            is_listed: false,
        })
    }

    /// Takes note of what the poller reported.
    pub fn on_event(&mut self, event: &Readiness) {
        self.links.on_event(event);
    }

    /// Whether every replica has welcomed it.
    pub fn is_connected(&self) -> bool {
        self.connected.len() == self.replicas
    }

    /// Whether one more operation may be submitted.
    pub fn has_room(&self) -> bool {
        self.free > 0 && self.numbers.has_room()
    }

    /// Whether there is something to do although nothing was reported.
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.links.next_ms().is_some_and(|at| at <= now_ms)
            || self.wake_at.is_some_and(|at| at.0 <= now_ms)
    }

    /// Whether the next round would find something without waiting.
    pub fn is_readable(&mut self) -> bool {
        self.links.is_readable()
    }

    /// Submits one operation, whose latency counts from `at`. It leaves in the next round.
    pub fn submit(&mut self, at: Instant) {
        let Operation { bytes: operation, is_read } = self.operations.next();
        let number = self.numbers.give(Started { at, is_read });
        self.free -= 1;
        let event = if is_read {
            Event::Query { number, operation }
        } else {
            Event::Submit { number, operation }
        };
        self.core.step(event, &mut self.effects);
    }

    /// Reads, steps, writes. Gives how many more replicas have welcomed it than before.
    pub fn round(&mut self, round: &mut Round<'_>) {
        let mut changes = Changes::default();
        self.links.dial(round.poller, round.now_ms, &mut changes);
        let (core, effects) = (&mut self.core, &mut self.effects);
        self.links.receive(round.now_ms, &mut changes, |from, _, bytes| {
            // Replicas here are our own: what is malformed shows as an operation without a result.
            if let Ok(message) = ToClient::from_bytes(&bytes) {
                core.step(Event::Message { from, message }, effects);
            }
        });
        for replica in changes.opened.iter() {
            self.connected.insert(replica);
            self.core.step(Event::Connected(replica), &mut self.effects);
        }
        self.carry_out(round);
        if round.replaces && round.window.is_some() {
            let now = Instant::now();
            while self.has_room() {
                self.submit(now);
            }
        }
        self.wake_at = None;
        self.core.step(Event::Round { now: Millis(round.now_ms) }, &mut self.effects);
        self.carry_out(round);
        for (to, message) in self.outgoing.drain(..) {
            for replica in to.iter() {
                self.links.send(replica, &message);
            }
        }
        self.links.flush(round.now_ms, &mut changes);
    }

    fn carry_out(&mut self, round: &mut Round<'_>) {
        if self.effects.is_empty() {
            return;
        }
        let now = Instant::now();
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Request { to, draft } => {
                    let envelope = Arc::new(self.signer.seal(draft));
                    self.outgoing.push((to, ToReplica::Request(envelope)));
                }
                Effect::Protocol { to, message } => {
                    self.outgoing.push((to, ToReplica::Protocol(message)));
                }
                Effect::Query { to, number, operation } => {
                    self.outgoing.push((to, ToReplica::Query { number, operation }));
                }
                Effect::Completed { number, outcome } => {
                    let Some(started) = self.numbers.settle(number) else { continue };
                    self.free += 1;
                    if round.window.is_some_and(|window| window.holds(now)) {
                        let right = match outcome {
                            Outcome::Done(result) => {
                                Ok(self.operations.is_right(started.is_read, &result))
                            }
                            Outcome::Forgotten => Err(RequestError::Forgotten),
                            Outcome::Refused => Err(RequestError::Refused),
                            Outcome::GivenUp => Err(RequestError::GivenUp),
                            Outcome::Overtaken => Err(RequestError::Overtaken),
                        };
                        self.done += u64::from(right == Ok(true));
                        round.tally.take(now - started.at, right);
                    }
                }
                Effect::WakeAt(at) => {
                    self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
                }
                // It does not listen to events, and judges no replies.
                Effect::Resume { .. }
                | Effect::Event { .. }
                | Effect::EventsLost { .. }
                | Effect::Told { .. } => {}
            }
        }
    }
}
