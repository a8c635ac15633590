//! What replicas say and take for genuine, in the order in which it happens in one world.

use pentarchy_core::Bytes;
use pentarchy_core::auth::{AuthTag, Verifier};
use pentarchy_core::authored;
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, CoreEvent, Incoming, Outgoing, ReplicaCore};
use pentarchy_core::ids::{Epoch, ReplicaId, Slot};
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Reject, Rules, Status, Topic};
use pentarchy_protocols::hybster::Message;
use std::collections::VecDeque;
use std::hash::Hasher;
use std::sync::{Arc, Mutex};

/// Something that happened.
#[derive(Debug)]
pub struct Event {
    /// At which replica.
    pub at: ReplicaId,
    /// In which epoch.
    pub epoch: Epoch,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug)]
pub enum What {
    /// The replica started, with or without a memory.
    Started,
    /// It said something.
    Said(Heard),
    /// It took something that this replica said for genuine.
    Took(Heard),
    /// It executed the batch with this digest.
    Executed(Slot, Digest),
}

/// A message, by whom, and how it convinces.
#[derive(Debug)]
pub struct Heard {
    /// Who said it.
    pub author: ReplicaId,
    /// How it convinces.
    pub tag: AuthTag,
    /// What.
    pub message: Message,
}

impl Heard {
    /// Of what went over a channel.
    fn read(wire: &Bytes) -> Option<Self> {
        let (author, tag, message) = authored::decode(wire).ok()?;
        Some(Self { author, tag, message })
    }
}

/// Where it is written down.
#[derive(Clone, Default)]
pub struct Record(Arc<Mutex<Vec<Event>>>);

impl Record {
    /// All of it; nothing is left.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().expect("nobody panics with it"))
    }

    fn note(&self, at: ReplicaId, epoch: Epoch, what: What) {
        self.0.lock().expect("nobody panics with it").push(Event { at, epoch, what });
    }
}

/// A core with somebody who listens.
pub struct Recorded {
    core: Box<dyn ReplicaCore>,
    me: ReplicaId,
    epoch: Epoch,
    record: Record,
    /// What it wants to have done: messages that the host has not sent yet, and what it executes
    /// behind them.
    wanted: Mutex<VecDeque<Option<What>>>,
}

impl Recorded {
    /// Listens to a core that has just started.
    pub fn new(core: Box<dyn ReplicaCore>, me: ReplicaId, epoch: Epoch, record: Record) -> Self {
        record.note(me, epoch, What::Started);
        Self { core, me, epoch, record, wanted: Mutex::default() }
    }

    fn note(&self, what: What) {
        self.record.note(self.me, self.epoch, what);
    }

    /// Notes what is executed before the next message leaves.
    fn execute(&self) {
        let mut wanted = self.wanted.lock().expect("nobody panics with it");
        while let Some(executed) = wanted.front_mut().and_then(Option::take) {
            wanted.pop_front();
            self.note(executed);
        }
    }

    fn took(&self, wire: &Bytes) {
        if let Some(heard) = Heard::read(wire) {
            self.note(What::Took(heard));
        }
    }
}

impl ReplicaCore for Recorded {
    fn rules(&self) -> Rules {
        self.core.rules()
    }
    fn open(
        &self,
        verifier: &dyn Verifier,
        peer: ReplicaId,
        wire: &Bytes,
    ) -> Result<Incoming, Reject> {
        let opened = self.core.open(verifier, peer, wire)?;
        self.took(wire);
        Ok(opened)
    }
    fn open_new(
        &self,
        verifier: &dyn Verifier,
        peer: ReplicaId,
        wire: &Bytes,
    ) -> Result<Option<Incoming>, Reject> {
        let opened = self.core.open_new(verifier, peer, wire)?;
        if opened.is_some() {
            self.took(wire);
        }
        Ok(opened)
    }
    fn open_client(&self, verifier: &dyn Verifier, wire: &Bytes) -> Result<Incoming, Reject> {
        self.core.open_client(verifier, wire)
    }
    fn seal(&self, outgoing: &Outgoing, tag: AuthTag) -> (Bytes, Incoming) {
        let (wire, incoming) = self.core.seal(outgoing, tag);
        if let Some(heard) = Heard::read(&wire) {
            self.note(What::Said(heard));
        }
        self.wanted.lock().expect("nobody panics with it").pop_front();
        self.execute();
        (wire, incoming)
    }
    fn step(&mut self, event: CoreEvent, out: &mut Vec<CoreEffect>) {
        let before = out.len();
        self.core.step(event, out);
        let wanted = out[before..].iter().filter_map(|effect| match effect {
            CoreEffect::Send { .. } => Some(None),
            CoreEffect::Output(Output::Execute { slot, batch }) => {
                Some(Some(What::Executed(*slot, batch.digest)))
            }
            _ => None,
        });
        self.wanted.lock().expect("nobody panics with it").extend(wanted);
        self.execute();
    }
    fn assert_invariants(&self) {
        self.core.assert_invariants();
    }
    fn status(&self) -> Status {
        self.core.status()
    }
    fn fingerprint(&self, hasher: &mut dyn Hasher) {
        self.core.fingerprint(hasher);
    }
    fn boxed_clone(&self) -> Box<dyn ReplicaCore> {
        let (me, epoch, record) = (self.me, self.epoch, self.record.clone());
        let (core, wanted) = (self.core.boxed_clone(), Mutex::default());
        Box::new(Self { core, me, epoch, record, wanted })
    }
    fn topic(&self, incoming: &Incoming) -> Option<(Topic, Digest)> {
        self.core.topic(incoming)
    }
    fn describe(&self, incoming: &Incoming) -> String {
        self.core.describe(incoming)
    }
}
