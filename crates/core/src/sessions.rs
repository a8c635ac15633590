//! The client table: which requests were executed, and their results. It is replicated state: it
//! stands in the checkpoint's digest, in snapshots and in transfers, or a replica that skipped
//! slots could execute a request again or never answer it.

use crate::ids::{ClientId, Slot};
use crate::limits::{CLIENT_REPLIES_BYTES_MAX, CLIENT_WINDOW, CLIENTS_MAX, RESULT_BYTES_MAX};
use crate::limits::{EVENTS_BYTES_MAX, REPLIES_BYTES_MAX};
use crate::mutant;
use crate::ports::client::{Outcome, ToClient};
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;

mod idle;
mod outbox;
#[cfg(test)]
mod tests;

use idle::Idle;
use outbox::Outbox;

/// Sections into which the table is divided, so that a checkpoint re-encodes only the clients that
/// were active.
pub const SESSION_SECTIONS: u32 = 64;

/// One request number at or above the floor.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Entry {
    /// Not executed.
    Open,
    /// Executed; the result is kept.
    Done(Bytes),
    /// Executed; the result gave way to newer ones.
    Forgotten,
    /// Not executed, and never will be: its client gave it up.
    GivenUp,
}

/// What is remembered of one client.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Session {
    /// Every number below is settled: executed, or given up by the client.
    floor: u64,
    /// The numbers from the floor on.
    entries: VecDeque<Entry>,
    /// Bytes of kept results.
    bytes: usize,
    /// The first entry whose result may still be kept.
    oldest_kept: usize,
    /// The last slot in which the client was active.
    active: Slot,
    /// What it is told unasked.
    outbox: Outbox,
}

/// What the table knows of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// Not executed: order it.
    New,
    /// Settled with this outcome.
    Settled(Outcome),
}

/// What the table knows of one client's requests, looked up once for all of them.
#[derive(Clone, Copy)]
pub struct Known<'a>(Option<&'a Session>);

impl Known<'_> {
    /// What is known of a request. One beyond the window counts as new: its envelope carries the
    /// floor that decides, so only its execution can refuse it.
    #[must_use]
    pub fn lookup(self, number: u64) -> Lookup {
        match self.0.map(|session| session.lookup(number)) {
            None | Some(Lookup::Settled(Outcome::Refused)) => Lookup::New,
            Some(known) => known,
        }
    }
}

/// One client's part of the table, while an envelope of it is executed.
pub struct Desk<'a> {
    session: &'a mut Session,
    /// Of all clients.
    bytes: &'a mut usize,
}

impl Desk<'_> {
    /// Settles a number without executing anything, unless it is settled, and says what came of it.
    pub fn give_up(&mut self, number: u64) -> Outcome {
        match self.session.lookup(number) {
            Lookup::Settled(outcome) => outcome,
            Lookup::New => {
                let index = self.session.index(number).expect("a new number is inside the window");
                if !mutant!("sessions.fence-settles-nothing") {
                    *self.session.entry(index) = Entry::GivenUp;
                }
                Outcome::GivenUp
            }
        }
    }

    /// Executes a request unless it is settled, and says what came of it.
    pub fn settle(&mut self, number: u64, execute: impl FnOnce() -> Vec<u8>) -> Outcome {
        match self.session.lookup(number) {
            Lookup::Settled(outcome) => {
                if mutant!("sessions.runs-again") {
                    execute();
                }
                outcome
            }
            Lookup::New => {
                let index = self.session.index(number).expect("a new number is inside the window");
                let before = self.session.bytes;
                let outcome = self.session.settle(index, Bytes::from(execute()));
                *self.bytes = *self.bytes - before + self.session.bytes;
                outcome
            }
        }
    }
}

/// All clients. Deterministic: equal histories give equal tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sessions {
    sessions: BTreeMap<ClientId, Session>,
    /// For eviction.
    idle: Idle,
    changed: u64,
    clients_max: usize,
    /// Bytes of kept results of all clients.
    bytes: usize,
    bytes_max: usize,
    /// Bytes of kept events of all clients.
    event_bytes: usize,
    event_bytes_max: usize,
    /// The first number of a new client's events: above those of every client that was forgotten,
    /// so that one who comes back sees that something may be missing, and never sees a number
    /// twice.
    first_event: u64,
}

impl Default for Sessions {
    fn default() -> Self {
        Self::with_capacity(CLIENTS_MAX)
    }
}

impl Session {
    fn raise_floor(&mut self, floor: u64) {
        while self.floor < floor {
            let Some(entry) = self.entries.pop_front() else {
                self.floor = floor;
                break;
            };
            if let Entry::Done(result) = entry {
                self.bytes -= result.len();
            }
            self.oldest_kept = self.oldest_kept.saturating_sub(1);
            self.floor += 1;
        }
    }

    /// Index of a number among the entries; none below the floor or beyond the window.
    fn index(&self, number: u64) -> Option<usize> {
        let floor = if mutant!("sessions.floor-not-counted") { 0 } else { self.floor };
        let offset = number.checked_sub(floor)?;
        if offset < CLIENT_WINDOW { usize::try_from(offset).ok() } else { None }
    }

    /// The entry of an index below the window.
    fn entry(&mut self, index: usize) -> &mut Entry {
        while self.entries.len() <= index {
            self.entries.push_back(Entry::Open);
        }
        &mut self.entries[index]
    }

    fn settle(&mut self, index: usize, result: Bytes) -> Outcome {
        if result.len() > RESULT_BYTES_MAX {
            *self.entry(index) = Entry::Forgotten;
            return Outcome::Forgotten;
        }
        *self.entry(index) = Entry::Done(result.clone());
        self.bytes += result.len();
        self.oldest_kept = self.oldest_kept.min(index);
        while self.bytes > CLIENT_REPLIES_BYTES_MAX && self.oldest_kept < self.entries.len() {
            if let Entry::Done(old) = &self.entries[self.oldest_kept] {
                self.bytes -= old.len();
                self.entries[self.oldest_kept] = Entry::Forgotten;
            }
            self.oldest_kept += 1;
        }
        Outcome::Done(result)
    }

    fn forget_replies(&mut self) {
        for entry in &mut self.entries {
            if matches!(entry, Entry::Done(_)) {
                *entry = Entry::Forgotten;
            }
        }
        (self.bytes, self.oldest_kept) = (0, self.entries.len());
    }

    fn lookup(&self, number: u64) -> Lookup {
        if number < self.floor {
            return Lookup::Settled(Outcome::Overtaken);
        }
        let Some(index) = self.index(number) else { return Lookup::Settled(Outcome::Refused) };
        let index = if mutant!("sessions.reply-of-another") { index.max(1) - 1 } else { index };
        match self.entries.get(index) {
            None | Some(Entry::Open) => Lookup::New,
            Some(Entry::Done(result)) => Lookup::Settled(Outcome::Done(result.clone())),
            Some(Entry::Forgotten) => Lookup::Settled(Outcome::Forgotten),
            Some(Entry::GivenUp) => Lookup::Settled(Outcome::GivenUp),
        }
    }
}

impl Sessions {
    /// A table for at most this many clients.
    #[must_use]
    pub fn with_capacity(clients_max: usize) -> Self {
        Self {
            sessions: BTreeMap::new(),
            idle: Idle::default(),
            changed: u64::MAX,
            clients_max,
            bytes: 0,
            bytes_max: REPLIES_BYTES_MAX,
            event_bytes: 0,
            event_bytes_max: EVENTS_BYTES_MAX,
            first_event: 1,
        }
    }

    /// How many clients are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether no client is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// What is known of a client's requests.
    #[must_use]
    pub fn known(&self, client: &ClientId) -> Known<'_> {
        Known(self.sessions.get(client))
    }

    /// Begins the execution of a client's envelope in a slot: takes note of its floor and of the
    /// events that it acknowledges, makes room.
    pub fn begin(&mut self, client: ClientId, floor: u64, events: Option<u64>, slot: Slot) {
        if self.sessions.len() >= self.clients_max && !self.sessions.contains_key(&client) {
            self.evict(slot);
        }
        if self.bytes > self.bytes_max {
            self.forget_replies();
        }
        let first_event = self.first_event;
        let session = self
            .sessions
            .entry(client)
            .or_insert_with(|| Session { outbox: Outbox::new(first_event), ..Session::default() });
        session.active = slot;
        self.bytes -= session.bytes;
        session.raise_floor(floor);
        self.bytes += session.bytes;
        self.event_bytes -= session.outbox.bytes();
        session.outbox.acknowledge(events);
        self.event_bytes += session.outbox.bytes();
        self.changed |= 1 << section_of(&client);
    }

    fn evict(&mut self, now: Slot) {
        if let Some(client) = self.idle.take(&self.sessions, now) {
            if let Some(session) = self.sessions.remove(&client) {
                self.bytes -= session.bytes;
                self.event_bytes -= session.outbox.bytes();
                self.first_event = self.first_event.max(session.outbox.next());
            }
            // The first section holds `first_event`.
            self.changed |= 1 | (1 << section_of(&client));
        }
    }

    /// Takes the replies of the idlest clients until half of the limit is free, so that this is
    /// rare.
    fn forget_replies(&mut self) {
        for client in idle::sorted(&self.sessions) {
            if self.bytes <= self.bytes_max / 2 {
                break;
            }
            let Some(session) = self.sessions.get_mut(&client) else { continue };
            if session.bytes > 0 {
                self.bytes -= session.bytes;
                session.forget_replies();
                self.changed |= 1 << section_of(&client);
            }
        }
    }

    /// Keeps an event for a client and gives its number; none if the client is not remembered or
    /// the event is too large to be kept.
    pub fn emit(&mut self, client: &ClientId, body: Bytes) -> Option<u64> {
        let session = self.sessions.get_mut(client)?;
        self.event_bytes -= session.outbox.bytes();
        let number = session.outbox.push(body);
        self.event_bytes += session.outbox.bytes();
        self.changed |= 1 << section_of(client);
        if self.event_bytes > self.event_bytes_max {
            self.forget_events();
        }
        number
    }

    /// Takes the events of the idlest clients until half of the limit is free.
    fn forget_events(&mut self) {
        for client in idle::sorted(&self.sessions) {
            if self.event_bytes <= self.event_bytes_max / 2 {
                break;
            }
            let Some(session) = self.sessions.get_mut(&client) else { continue };
            if session.outbox.bytes() > 0 {
                self.event_bytes -= session.outbox.bytes();
                session.outbox.clear();
                self.changed |= 1 << section_of(&client);
            }
        }
    }

    /// What is kept of a client's events from this number on, as the client is told.
    #[must_use]
    pub fn events(&self, client: &ClientId, from: u64) -> ToClient {
        let none = Outbox::new(self.first_event);
        self.sessions.get(client).map_or(&none, |session| &session.outbox).since(from)
    }

    /// The client whose envelope is executed. [`Self::begin`] came first.
    pub fn desk(&mut self, client: &ClientId) -> Desk<'_> {
        let session = self.sessions.get_mut(client).expect("begin() made it");
        Desk { session, bytes: &mut self.bytes }
    }

    /// The sections that changed since the last call.
    pub fn changed_sections(&mut self) -> Vec<u32> {
        let changed = core::mem::take(&mut self.changed);
        (0..SESSION_SECTIONS).filter(|index| changed & (1 << index) != 0).collect()
    }

    /// The canonical bytes of one section.
    #[must_use]
    pub fn section(&self, index: u32) -> Vec<u8> {
        let mut to = Writer::default();
        if index == 0 {
            to.u64(self.first_event);
        }
        for (client, session) in self.sessions.range(section_range(index)) {
            client.encode(&mut to);
            to.u64(session.floor);
            session.active.encode(&mut to);
            to.u32(session.entries.len() as u32);
            for entry in &session.entries {
                match entry {
                    Entry::Open => to.u8(0),
                    Entry::Done(_) if mutant!("sessions.replies-left-out") => to.u8(2),
                    Entry::Done(result) => {
                        to.u8(1);
                        to.bytes(result);
                    }
                    Entry::Forgotten => to.u8(2),
                    Entry::GivenUp => to.u8(3),
                }
            }
            session.outbox.encode(&mut to);
        }
        to.into_vec()
    }

    /// Replaces one section.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes did not come from [`Self::section`] of the same index.
    pub fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        let old: Vec<ClientId> =
            self.sessions.range(section_range(index)).map(|(c, _)| *c).collect();
        for client in old {
            if let Some(session) = self.sessions.remove(&client) {
                self.bytes -= session.bytes;
                self.event_bytes -= session.outbox.bytes();
            }
        }
        self.idle.clear();
        self.changed |= 1 << index;
        let bytes = Bytes::copy_from_slice(bytes);
        let mut from = Reader::new(&bytes);
        if index == 0 {
            self.first_event = from.u64()?;
        }
        let mut last = None;
        while from.remaining() > 0 {
            let client = ClientId::decode(&mut from)?;
            let session = decode_session(&mut from)?;
            // In their order, each once: one table has one encoding.
            if section_of(&client) != index || last.replace(client) >= Some(client) {
                return Err(Malformed);
            }
            self.bytes += session.bytes;
            self.event_bytes += session.outbox.bytes();
            self.sessions.insert(client, session);
        }
        Ok(())
    }
}

fn decode_session(from: &mut Reader<'_>) -> Result<Session, Malformed> {
    let mut session =
        Session { floor: from.u64()?, active: Slot::decode(from)?, ..Session::default() };
    let count = from.u32()?;
    if u64::from(count) > CLIENT_WINDOW {
        return Err(Malformed);
    }
    for _ in 0..count {
        session.entries.push_back(match from.u8()? {
            0 => Entry::Open,
            1 => Entry::Done(from.bytes(RESULT_BYTES_MAX)?),
            2 => Entry::Forgotten,
            3 => Entry::GivenUp,
            _ => return Err(Malformed),
        });
    }
    session.bytes = session
        .entries
        .iter()
        .map(|entry| if let Entry::Done(result) = entry { result.len() } else { 0 })
        .sum();
    session.outbox = Outbox::decode(from)?;
    Ok(session)
}

/// The leading bits choose the section, so that a section's clients lie side by side.
fn section_of(client: &ClientId) -> u32 {
    u32::from(client.0[0] >> 2)
}

fn section_range(index: u32) -> core::ops::RangeInclusive<ClientId> {
    let (mut first, mut last) = ([0; 32], [u8::MAX; 32]);
    first[0] = (index as u8) << 2;
    last[0] = first[0] | 3;
    ClientId(first)..=ClientId(last)
}
