//! One client: its core and its keys.

use crate::links::Queue;
use pentarchy_core::Bytes;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, ReplicaSet};
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, ToClient, ToReplica};
use pentarchy_core::protocol::Timeouts;
use pentarchy_core::quorum::Quorums;
use pentarchy_core::request::{Draft, Envelope};
use pentarchy_core::wire::Wire;
use pentarchy_protocols::{ClientStart, Descriptor};
use pentarchy_services::null::Null;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Authenticates a client's drafts.
pub type Sealer = Box<dyn Fn(Draft) -> Envelope>;

/// One client.
pub struct Client {
    /// Its name.
    pub id: ClientId,
    core: Box<dyn ClientCore>,
    sealer: Sealer,
    next: u64,
    effects: Vec<Effect>,
    to_replicas: BTreeMap<ReplicaId, Queue>,
    completed: usize,
}

impl Client {
    /// A client of a group, connected to all of it.
    #[must_use]
    pub fn new(id: ClientId, protocol: &Descriptor, group: Quorums, sealer: Sealer) -> Self {
        // It shows no request to all: how often it would is chance.
        let (timeouts, seed) = (Timeouts::default(), None);
        let start = ClientStart { client: id, group, timeouts, start_floor: 1, seed };
        let mut client = Self {
            id,
            core: (protocol.client)(start),
            sealer,
            next: 1,
            effects: Vec::new(),
            to_replicas: BTreeMap::new(),
            completed: 0,
        };
        for replica in 0..group.n as u16 {
            client.step(Event::Connected(ReplicaId(replica)));
        }
        client
    }

    /// Has an operation of this many bytes executed, whose result has so many.
    pub fn submit(&mut self, length: usize, result: usize) {
        let operation = Bytes::from(Null::operation(length, result as u32));
        let number = self.next;
        self.next += 1;
        self.step(Event::Submit { number, operation });
    }

    /// Takes a replica's message.
    ///
    /// # Panics
    /// If it is not one.
    pub fn on_replica(&mut self, from: ReplicaId, bytes: &Bytes) {
        let message = ToClient::from_bytes(bytes).expect("replicas in here are correct");
        self.step(Event::Message { from, message });
    }

    /// Says that the round is over.
    pub fn on_round(&mut self, now: Millis) {
        self.step(Event::Round { now });
    }

    /// Requests whose result this client believes.
    #[must_use]
    pub const fn completed(&self) -> usize {
        self.completed
    }

    /// What is to be sent.
    pub fn to_replicas(&mut self) -> impl Iterator<Item = (ReplicaId, &mut Queue)> {
        self.to_replicas.iter_mut().map(|(id, queue)| (*id, queue))
    }

    fn step(&mut self, event: Event) {
        self.core.step(event, &mut self.effects);
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Request { to, draft } => {
                    self.send(to, &ToReplica::Request(Arc::new((self.sealer)(draft))));
                }
                Effect::Protocol { to, message } => self.send(to, &ToReplica::Protocol(message)),
                Effect::Completed { outcome, .. } => {
                    assert!(matches!(outcome, Outcome::Done(_)), "every request is executed");
                    self.completed += 1;
                }
                Effect::WakeAt(_) => {}
                other => panic!("this client only submits: {other:?}"),
            }
        }
    }

    fn send(&mut self, to: ReplicaSet, message: &ToReplica) {
        for replica in to.iter() {
            let queue = self.to_replicas.entry(replica).or_default();
            queue.push(message.kind(), |to| message.encode(to));
        }
    }
}
