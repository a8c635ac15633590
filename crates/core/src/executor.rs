//! Executes batches in slot order over the client table and the service, and takes checkpoints of
//! both. Pure: the simulator and every host run the same one.

use crate::batch::Batch;
use crate::digest::Digest;
use crate::ids::{ClientId, Millis, Slot};
use crate::limits::{SECTIONS_MAX, SNAPSHOTS_KEPT};
use crate::ports::client::Reply;
use crate::service::{Context, Service};
use crate::sessions::{Lookup, SESSION_SECTIONS, Sessions};
use crate::snapshot::{Section, Snapshot};
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;

/// Sections before the service's own: the executor's header, then the client table.
const OWN_SECTIONS: u32 = 1 + SESSION_SECTIONS;

/// A service with everything that replication adds to its state.
pub struct Executor {
    service: Box<dyn Service>,
    sessions: Sessions,
    executed: Slot,
    time: Millis,
    /// The sections as of the last checkpoint; what did not change since is shared.
    sections: Vec<Section>,
    snapshots: VecDeque<Snapshot>,
    requests: u64,
}

impl Executor {
    /// A service in its initial state.
    ///
    /// # Panics
    /// If the service has more than [`SECTIONS_MAX`] sections, which no peer could receive.
    #[must_use]
    pub fn new(service: Box<dyn Service>) -> Self {
        assert!(service.sections() as usize <= SECTIONS_MAX, "a service keeps to its limits");
        let sections = (0..OWN_SECTIONS + service.sections()).map(|_| Section::default()).collect();
        Self {
            service,
            sessions: Sessions::default(),
            executed: Slot(0),
            time: Millis(0),
            sections,
            snapshots: VecDeque::new(),
            requests: 0,
        }
    }

    /// The last executed slot.
    #[must_use]
    pub const fn executed(&self) -> Slot {
        self.executed
    }

    /// Requests executed by this executor, not counting what a snapshot brought.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Clients in the table.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.sessions.len()
    }

    /// The service, to look at.
    #[must_use]
    pub fn service(&self) -> &dyn Service {
        &*self.service
    }

    /// What is known of a request: order only what is new, answer the rest from here.
    #[must_use]
    pub fn lookup(&self, client: &ClientId, number: u64) -> Lookup {
        self.sessions.lookup(client, number)
    }

    /// Answers a read-only operation from the executed state.
    #[must_use]
    pub fn query(&self, operation: &[u8]) -> Bytes {
        Bytes::from(self.service.query(operation))
    }

    /// Executes the next slot; `reply` gets each client's replies, one at a time, as soon as there
    /// is one: together they may be larger than what a host wants to hold.
    ///
    /// # Panics
    /// If the slot is not the next one: the core or its host is broken.
    pub fn execute(&mut self, slot: Slot, batch: &Batch, mut reply: impl FnMut(&ClientId, Reply)) {
        assert_eq!(slot, self.executed.next(), "slots are executed in order, each once");
        self.executed = slot;
        self.time = self.time.max(batch.time);
        let mut index = 0;
        for envelope in &batch.envelopes {
            self.sessions.begin(envelope.client, envelope.floor, slot);
            for request in &envelope.requests {
                let context = Context::new(slot, index, self.time, envelope.client, batch.digest);
                let (service, requests) = (&mut self.service, &mut self.requests);
                let outcome = self.sessions.settle(&envelope.client, request.number, || {
                    *requests += 1;
                    service.execute(&context, &request.operation)
                });
                reply(&envelope.client, Reply { number: request.number, outcome });
                index += 1;
            }
        }
    }

    /// Takes a snapshot of the state after the last executed slot and gives its digest.
    pub fn checkpoint(&mut self) -> Digest {
        self.sections[0] = Section::cut(self.header());
        for index in self.changed_sections() {
            let bytes = match index.checked_sub(OWN_SECTIONS) {
                None => self.sessions.section(index - 1),
                Some(index) => self.service.section(index),
            };
            self.sections[index as usize] = Section::cut(bytes);
        }
        let snapshot = Snapshot::new(self.executed, self.sections.clone());
        let digest = snapshot.digest;
        self.keep(snapshot);
        digest
    }

    /// The sections behind the header that may differ from [`Self::sections`]. Forgets them.
    fn changed_sections(&mut self) -> BTreeSet<u32> {
        let sessions = self.sessions.changed_sections().into_iter().map(|index| 1 + index);
        let service = self.service.changed_sections().into_iter().map(|index| OWN_SECTIONS + index);
        sessions.chain(service).collect()
    }

    fn keep(&mut self, snapshot: Snapshot) {
        self.snapshots.push_back(snapshot);
        if self.snapshots.len() > SNAPSHOTS_KEPT {
            self.snapshots.pop_front();
        }
    }

    fn header(&self) -> Vec<u8> {
        let mut to = Writer::default();
        self.executed.encode(&mut to);
        self.time.encode(&mut to);
        to.into_vec()
    }

    /// Snapshots below a stable checkpoint may go.
    pub fn stable(&mut self, slot: Slot) {
        self.snapshots.retain(|snapshot| snapshot.slot >= slot);
    }

    /// A kept snapshot.
    #[must_use]
    pub fn snapshot(&self, slot: Slot) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.slot == slot)
    }

    /// How many snapshots are kept: at most [`SNAPSHOTS_KEPT`].
    #[must_use]
    pub fn snapshots(&self) -> usize {
        self.snapshots.len()
    }

    /// The newest kept snapshot.
    #[must_use]
    pub fn latest(&self) -> Option<&Snapshot> {
        self.snapshots.back()
    }

    /// The chunks as of the last checkpoint, by digest lookup: a transfer need not move these.
    pub fn known_chunks(&self) -> impl Iterator<Item = (&Digest, &Bytes)> {
        self.sections.iter().flat_map(|section| section.digests.0.iter().zip(&section.chunks))
    }

    /// Replaces the whole state by a snapshot whose digest a quorum vouches for.
    ///
    /// # Errors
    /// [`Malformed`] if a section cannot be restored: the quorum runs other code, or another
    /// service. The state is then a mixture and must not be used.
    pub fn install(&mut self, snapshot: Snapshot) -> Result<(), Malformed> {
        if snapshot.sections.len() != self.sections.len() {
            return Err(Malformed);
        }
        let header = snapshot.sections[0].joined();
        let mut from = Reader::new(&header);
        let (executed, time) = (Slot::decode(&mut from)?, Millis::decode(&mut from)?);
        from.finish()?;
        if executed != snapshot.slot {
            return Err(Malformed);
        }
        let changed = self.changed_sections();
        for (index, section) in (0u32..).zip(&snapshot.sections).skip(1) {
            let known = &self.sections[index as usize].digests;
            if section.digests == *known && !changed.contains(&index) {
                continue;
            }
            let bytes = section.joined();
            match index.checked_sub(OWN_SECTIONS) {
                None => self.sessions.restore_section(index - 1, &bytes)?,
                Some(index) => self.service.restore_section(index, &bytes)?,
            }
        }
        (self.executed, self.time) = (executed, time);
        self.sections.clone_from(&snapshot.sections);
        self.changed_sections();
        self.snapshots.clear();
        self.keep(snapshot);
        Ok(())
    }
}
