//! Executes batches in slot order over the client table and the service, and takes checkpoints of
//! both. Pure: the simulator and every host run the same one.

use crate::batch::Batch;
use crate::blobs::TempBlobs;
use crate::change::{Change, Ready};
use crate::configuration::Configuration;
use crate::digest::Digest;
use crate::epochs::Handover;
use crate::ids::{ClientId, Epoch, Millis, Slot};
use crate::limits::SECTIONS_MAX;
use crate::membership::{Base, Membership};
use crate::mutant;
use crate::ports::client::{Outcome, Reply, ToClient};
use crate::protocol::{Authority, Tuning};
use crate::request::Envelope;
use crate::roster::{Ending, Roster};
use crate::service::{Context, Event, Service};
use crate::sessions::{Lookup, SESSION_SECTIONS, Sessions};
use crate::snapshot::{Held, Snapshot};
use crate::tree::{self, Leaf, Tree};
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

mod cold;
mod learned;
mod speculation;

pub use learned::Untaught;
use speculation::Speculation;

/// Sections before the service's own: the executor's header, then the client table.
const OWN_SECTIONS: u32 = 1 + SESSION_SECTIONS;

/// What execution has to say to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// What came of its request.
    Reply(Reply),
    /// What the service tells it unasked.
    Event {
        /// Counts the client's events, from 1 on.
        number: u64,
        /// What.
        body: Bytes,
    },
}

/// A service with everything that replication adds to its state.
pub struct Executor {
    service: Box<dyn Service>,
    sessions: Sessions,
    roster: Roster,
    executed: Slot,
    time: Millis,
    /// The state as of the last checkpoint; what did not change since is shared.
    tree: Tree,
    snapshots: VecDeque<Snapshot>,
    tuning: Tuning,
    /// What may be taken back; none unless something was executed that way.
    speculation: Option<Speculation>,
    requests: u64,
    /// Where sections are put when they are cut, if they are not to be in memory.
    spool: Option<Arc<dyn TempBlobs>>,
    /// A section that was to be restored and could not be read.
    unread: Option<u32>,
}

impl Executor {
    /// A service in its initial state, for the members with which the group began.
    ///
    /// # Panics
    /// If the service has more than [`SECTIONS_MAX`] sections, which no peer could receive.
    #[must_use]
    pub fn new(membership: Arc<Membership>, service: Box<dyn Service>) -> Self {
        assert!(service.sections() as usize <= SECTIONS_MAX, "a service keeps to its limits");
        let tree = Tree::new(OWN_SECTIONS + service.sections());
        Self {
            service,
            sessions: Sessions::default(),
            roster: Roster::new(membership),
            executed: Slot(0),
            time: Millis(0),
            tree,
            snapshots: VecDeque::new(),
            tuning: Tuning::default(),
            speculation: None,
            requests: 0,
            spool: None,
            unread: None,
        }
    }

    /// Who ends the group's epochs, which is its members unless this is called: before anything is
    /// executed or installed.
    pub const fn set_authority(&mut self, authority: Authority) {
        self.roster.set_authority(authority);
    }

    /// The sizes that the group's replicas share, which are the usual ones unless this is called:
    /// before anything is executed or installed.
    pub const fn set_tuning(&mut self, tuning: Tuning) {
        self.tuning = tuning;
    }

    /// The state with which another group goes on that begins with these members: of what there
    /// was, everything but who the members were. All who make it of equal states make equal ones.
    /// The other group's members end their epochs themselves.
    ///
    /// # Errors
    /// [`Malformed`] if it is no executor's state.
    pub fn adopted(
        snapshot: &Snapshot,
        membership: Arc<Membership>,
    ) -> Result<Snapshot, Malformed> {
        let (slot, time) = Self::head_of(snapshot)?;
        if slot != snapshot.slot {
            return Err(Malformed);
        }
        let mut to = Writer::default();
        slot.encode(&mut to);
        time.encode(&mut to);
        Roster::new(membership).encode(&mut to);
        let header = Arc::new(Leaf::new(0, to.into_vec(), slot));
        Ok(Snapshot::new(slot, snapshot.tree.changed(&[(0, Some(header))], slot)))
    }

    /// In which epoch, and under which configuration, a group goes on from a state. A state of a
    /// group whose epochs a service ends says nothing of that.
    ///
    /// # Errors
    /// [`Malformed`] if it is no executor's state.
    pub fn group_of(state: &Snapshot) -> Result<(Epoch, Option<Configuration>), Malformed> {
        let header = state.tree.section(0).and_then(Leaf::joined).ok_or(Malformed)?;
        let mut from = Reader::new(&header);
        Slot::decode(&mut from)?;
        Millis::decode(&mut from)?;
        Roster::group_in(&mut from)
    }

    /// The agreed time of a state's last slot. None if it is no executor's state, or unreadable.
    #[must_use]
    pub fn time_of(state: &Snapshot) -> Option<Millis> {
        Self::head_of(state).ok().map(|(_, time)| time)
    }

    /// With what an executor's state begins: its last slot, and the agreed time of that.
    fn head_of(state: &Snapshot) -> Result<(Slot, Millis), Malformed> {
        let header = state.tree.section(0).and_then(Leaf::joined).ok_or(Malformed)?;
        let mut from = Reader::new(&header);
        Ok((Slot::decode(&mut from)?, Millis::decode(&mut from)?))
    }

    /// What a section of a state holds, in words.
    #[must_use]
    pub fn section_name(section: u32) -> String {
        match section.checked_sub(OWN_SECTIONS) {
            Some(index) => format!("section {index} of the service"),
            None if section == 0 => String::from("slot, time and members"),
            None => format!("part {} of the client table", section - 1),
        }
    }

    /// The last executed slot.
    #[must_use]
    pub const fn executed(&self) -> Slot {
        self.executed
    }

    /// The agreed time of that slot.
    #[must_use]
    pub const fn time(&self) -> Millis {
        self.time
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

    /// Replicas in the group.
    #[must_use]
    pub fn members(&self) -> usize {
        self.roster.membership().n()
    }

    /// The service, to look at.
    #[must_use]
    pub fn service(&self) -> &dyn Service {
        &*self.service
    }

    /// Why it cannot go on. Whoever has it looks after each call that reaches the service, and
    /// before anything leaves the replica that came of it.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let unread = |section| {
            let name = Self::section_name(section);
            format!(
                "{name}, to which it was to go back, cannot be read from the disk any more. Start \
                 this replica again: it goes on from an older state, and fetches what it lacks"
            )
        };
        self.service.failure().or_else(|| self.unread.map(unread))
    }

    /// What is known of each request of an envelope, in their order: order only what is new, answer
    /// the rest from here.
    pub fn lookups<'a>(&'a self, envelope: &'a Envelope) -> impl Iterator<Item = Lookup> + 'a {
        let client = &envelope.client;
        let governs = self.roster.governs(client);
        let known = self.sessions.known(client);
        envelope.requests.iter().map(move |request| match governs || request.is_to_group() {
            false => known.lookup(request.number),
            true if self.roster.is_open(client, request, self.time) => Lookup::New,
            true => Lookup::Settled(Outcome::Forgotten),
        })
    }

    /// The slot whose state this is, if nothing of it may be taken back: a query is answered from
    /// no other state.
    #[must_use]
    pub fn readable(&self) -> Option<Slot> {
        let is_final = !self.is_speculative() || mutant!("executor.reads-what-may-be-taken-back");
        is_final.then_some(self.executed)
    }

    /// Answers a read-only operation from the executed state.
    #[must_use]
    pub fn query(&self, operation: &[u8]) -> Bytes {
        Bytes::from(self.service.query(operation))
    }

    /// What is kept of a client's events from this number on, and the lowest kept number.
    #[must_use]
    pub fn events(&self, client: &ClientId, from: u64) -> ToClient {
        self.sessions.events(client, from)
    }

    /// Executes the next slot; `notify` gets replies and events, one at a time, as soon as there
    /// is one: together they may be larger than what a host wants to hold. A request's events come
    /// behind its reply.
    ///
    /// # Panics
    /// If the slot is not the next one, or lies behind the end of the epoch: the core or its host
    /// is broken.
    pub fn execute(&mut self, slot: Slot, batch: &Batch, notify: impl FnMut(&ClientId, Notice)) {
        assert!(!self.is_speculative(), "{slot} is final, and what comes before it is not");
        self.speculation = None;
        self.run(slot, batch, notify);
    }

    fn run(&mut self, slot: Slot, batch: &Batch, mut notify: impl FnMut(&ClientId, Notice)) {
        assert_eq!(slot, self.executed.next(), "slots are executed in order, each once");
        assert!(!self.roster.is_ending(), "{slot} lies behind the end of its epoch");
        self.executed = slot;
        self.time =
            if mutant!("executor.time-goes-back") { batch.time } else { self.time.max(batch.time) };
        self.roster.begin_slot(self.time);
        let mut index = 0;
        for envelope in &batch.envelopes {
            if self.is_all_to_group(envelope) {
                index += self.govern(envelope, (slot, index), batch.digest, &mut notify);
                continue;
            }
            self.sessions.begin(envelope.client, envelope.floor, envelope.events, slot);
            let client = envelope.client;
            let mut requests = envelope.requests.iter();
            while !requests.as_slice().is_empty() {
                let (service, executed) = (&mut self.service, &mut self.requests);
                let roster = &mut self.roster;
                let mut events = Vec::new();
                let mut desk = self.sessions.desk(&client);
                // One look at the table for all requests, unless there are events: they may be any
                // client's.
                for request in requests.by_ref() {
                    let context = Context::new(slot, index, self.time, client, batch.digest);
                    let outcome = if request.is_fence() {
                        desk.give_up(request.number)
                    } else if request.is_to_group() {
                        *executed += 1;
                        Outcome::Done(roster.execute(&context, request).into())
                    } else {
                        desk.settle(request.number, || {
                            *executed += 1;
                            let result = service.execute(&context, &request.operation);
                            events = service.take_events();
                            result
                        })
                    };
                    if service.failure().is_some() {
                        // Whoever asks for it is told, and nobody else hears of what came of it.
                        return;
                    }
                    notify(&client, Notice::Reply(Reply { number: request.number, outcome }));
                    index += 1;
                    if !events.is_empty() {
                        break;
                    }
                }
                for Event { client, body } in events {
                    if let Some(number) = self.sessions.emit(&client, body.clone()) {
                        notify(&client, Notice::Event { number, body });
                    }
                }
            }
        }
        self.roster.end_slot(self.time);
    }

    /// Whether an envelope asks nothing of the service: its author has a say in the group, or each
    /// request is to the group itself. That of a stranger comes to nothing, and takes no other
    /// request of its envelope along: these may be of many users of one client.
    fn is_all_to_group(&self, envelope: &Envelope) -> bool {
        self.roster.governs(&envelope.client) || envelope.is_to_group()
    }

    /// Executes requests to the group itself. They need no place in the client table, and must not
    /// be forgotten with idle clients: the roster knows which of them have had their effect.
    fn govern(
        &mut self,
        envelope: &Envelope,
        (slot, first): (Slot, u32),
        batch: Digest,
        notify: &mut impl FnMut(&ClientId, Notice),
    ) -> u32 {
        let mut index = first;
        for request in &envelope.requests {
            self.requests += 1;
            let context = Context::new(slot, index, self.time, envelope.client, batch);
            let answer = self.roster.execute(&context, request);
            let outcome = Outcome::Done(answer.into());
            notify(&envelope.client, Notice::Reply(Reply { number: request.number, outcome }));
            index += 1;
        }
        index - first
    }

    /// Takes a snapshot of the state after the last executed slot and gives its digest. Costs as
    /// much as the sections that changed since the last one.
    ///
    /// # Panics
    /// If some of it may be taken back.
    pub fn checkpoint(&mut self) -> Digest {
        let snapshot = self.cut();
        self.mark(&snapshot);
        let digest = snapshot.digest;
        self.keep(snapshot);
        digest
    }

    /// The state after the last executed slot.
    fn cut(&mut self) -> Snapshot {
        let slot = self.executed;
        let mut changes = Vec::new();
        self.note(0, self.header(), &mut changes);
        for index in self.changed_sections() {
            let bytes = match index.checked_sub(OWN_SECTIONS) {
                None => self.sessions.section(index - 1),
                Some(_) if mutant!("executor.service-not-cut-again") => continue,
                Some(index) => self.service.section(index),
            };
            self.note(index, bytes, &mut changes);
        }
        self.tree = self.tree.changed(&changes, slot);
        Snapshot::new(slot, self.tree.clone())
    }

    /// Adds a section's bytes to the changes, if they are others than at the last checkpoint.
    fn note(&self, index: u32, bytes: Vec<u8>, changes: &mut Vec<tree::Change>) {
        let known = self.tree.section(index);
        let leaf = (!bytes.is_empty()).then(|| Leaf::after(known, index, bytes, self.executed));
        if leaf.as_ref().map(Leaf::digest) == known.map(Leaf::digest) {
            return;
        }
        let leaf = match (leaf, &self.spool) {
            (Some(leaf), Some(spool)) => Some(leaf.spooled(&**spool)),
            (leaf, _) => leaf,
        };
        changes.push((index, leaf.map(Arc::new)));
    }

    /// The sections behind the header that may differ from [`Self::tree`], in order, each once.
    /// Forgets them.
    fn changed_sections(&mut self) -> Vec<u32> {
        let sessions = self.sessions.changed_sections().into_iter().map(|index| 1 + index);
        let service = self.service.changed_sections().into_iter().map(|index| OWN_SECTIONS + index);
        let mut changed: Vec<u32> = sessions.chain(service).collect();
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    fn keep(&mut self, snapshot: Snapshot) {
        self.snapshots.push_back(snapshot);
        if self.snapshots.len() > self.snapshots_max() {
            self.snapshots.pop_front();
        }
    }

    fn header(&self) -> Vec<u8> {
        let mut to = Writer::default();
        self.executed.encode(&mut to);
        self.time.encode(&mut to);
        self.roster.encode(&mut to);
        to.into_vec()
    }

    /// Whether the last executed slot was the last of its epoch.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.roster.is_ending()
    }

    /// How the epoch ends, if the last executed slot was its last. Takes a snapshot, with which
    /// the next one begins.
    pub fn handover(&mut self) -> Option<Handover> {
        let Ending { lives, next } = self.roster.ending()?.clone();
        let (slot, state) = (self.executed, self.checkpoint());
        let epoch = self.roster.membership().epoch;
        let next = next.map(|next| next.digest());
        Some(Handover { epoch, base: Base { slot, state }, lives, next })
    }

    /// The configuration with which the epoch ends, if it is another one.
    #[must_use]
    pub fn next_configuration(&self) -> Option<Arc<Configuration>> {
        self.roster.ending()?.next.clone()
    }

    /// How often administrators withdrew what was proposed for this configuration: a change has to
    /// name it.
    #[must_use]
    pub const fn withdrawn_changes(&self) -> u32 {
        self.roster.withdrawn()
    }

    /// As what this member of the pending configuration is counted as ready, if it is.
    #[must_use]
    pub fn ready_as(&self, member: &ClientId) -> Option<&Ready> {
        self.roster.ready_as(member)
    }

    /// The epoch in which it executes.
    #[must_use]
    pub const fn membership(&self) -> &Arc<Membership> {
        self.roster.membership()
    }

    /// The change that waits for its members to be ready, and its digest.
    #[must_use]
    pub fn pending_change(&self) -> Option<(&Arc<Change>, Digest)> {
        self.roster.pending()
    }

    /// Goes on in this epoch. Its base may lie ahead: then it has to be installed.
    pub fn begin_epoch(&mut self, membership: Arc<Membership>) {
        // The epoch has ended without what was only speculated.
        self.rollback(self.committed());
        self.speculation = None;
        self.roster.begin(membership);
    }

    /// Snapshots below a stable checkpoint may go.
    pub fn stable(&mut self, slot: Slot) {
        let low = if mutant!("executor.stable-state-dropped") { slot.next() } else { slot };
        self.snapshots.retain(|snapshot| snapshot.slot >= low);
    }

    /// Keeps states from before the one that was installed last, oldest first, for others to fetch.
    pub fn keep_earlier(&mut self, snapshots: impl DoubleEndedIterator<Item = Snapshot>) {
        for snapshot in snapshots.rev() {
            if self.snapshots.len() < self.snapshots_max() {
                self.snapshots.push_front(snapshot);
            }
        }
    }

    /// A kept snapshot.
    #[must_use]
    pub fn snapshot(&self, slot: Slot) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.slot == slot)
    }

    fn snapshots_max(&self) -> usize {
        self.tuning.snapshots_kept(self.roster.membership().lane.pillars)
    }

    /// How many snapshots are kept: at most [`Tuning::snapshots_kept`].
    #[must_use]
    pub fn snapshots(&self) -> usize {
        self.snapshots.len()
    }

    /// The kept snapshots, oldest first.
    pub fn kept(&self) -> impl DoubleEndedIterator<Item = &Snapshot> {
        self.snapshots.iter()
    }

    /// The newest kept snapshot.
    #[must_use]
    pub fn latest(&self) -> Option<&Snapshot> {
        self.snapshots.back()
    }

    /// Replaces the whole state by a snapshot whose digest a quorum vouches for.
    ///
    /// # Errors
    /// [`Malformed`] if a section cannot be restored: the quorum runs other code, or another
    /// service. The state is then a mixture and must not be used.
    pub fn install(&mut self, snapshot: Snapshot) -> Result<(), Malformed> {
        let clients = !mutant!("executor.clients-not-restored");
        self.restore(&snapshot, clients)?;
        self.speculation = None;
        self.snapshots.clear();
        self.keep(snapshot);
        Ok(())
    }

    /// The bytes of a section.
    fn read(&mut self, snapshot: &Snapshot, index: u32) -> Result<Bytes, Malformed> {
        let Some(leaf) = snapshot.tree.section(index) else { return Ok(Bytes::new()) };
        leaf.joined().ok_or_else(|| {
            self.unread = Some(index);
            Malformed
        })
    }

    /// Replaces the whole state, or all but the client table.
    fn restore(&mut self, snapshot: &Snapshot, clients: bool) -> Result<(), Malformed> {
        if snapshot.tree.sections() != self.tree.sections() {
            return Err(Malformed);
        }
        let header = self.read(snapshot, 0)?;
        let mut from = Reader::new(&header);
        let (executed, time) = (Slot::decode(&mut from)?, Millis::decode(&mut from)?);
        let roster = self.roster.restored(&mut from)?;
        from.finish()?;
        if executed != snapshot.slot {
            return Err(Malformed);
        }
        let changed = self.changed_sections();
        let differing = differing(&snapshot.tree, &self.tree, changed);
        for index in differing.into_iter().filter(|index| *index > 0) {
            if index < OWN_SECTIONS && !clients {
                continue;
            }
            let bytes = self.read(snapshot, index)?;
            match index.checked_sub(OWN_SECTIONS) {
                None => self.sessions.restore_section(index - 1, &bytes)?,
                Some(index) => self.service.restore_section(index, &bytes)?,
            }
        }
        let time = if mutant!("executor.time-not-restored") { self.time } else { time };
        (self.executed, self.time, self.roster) = (executed, time, roster);
        self.tree.clone_from(&snapshot.tree);
        self.changed_sections();
        Ok(())
    }
}

/// The sections in which a state may differ from what is there: from the one before, of which these
/// sections have changed since.
fn differing(state: &Tree, before: &Tree, mut changed: Vec<u32>) -> Vec<u32> {
    changed.extend(state.changes_since(before).iter().map(|(index, _)| *index));
    changed.sort_unstable();
    changed.dedup();
    changed
}

impl Held for Executor {
    fn snapshot(&self, slot: Slot) -> Option<&Snapshot> {
        self.snapshot(slot)
    }
    fn latest(&self) -> Option<&Snapshot> {
        self.latest()
    }
}
