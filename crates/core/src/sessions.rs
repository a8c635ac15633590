//! The client table: which requests were executed, and their results. It is replicated state: it
//! stands in the checkpoint's digest, in snapshots and in transfers, or a replica that skipped
//! slots could execute a request again or never answer it.

use crate::ids::{ClientId, Slot};
use crate::limits::{CLIENT_REPLIES_BYTES_MAX, CLIENT_WINDOW, CLIENTS_MAX, REPLIES_BYTES_MAX};
use crate::ports::client::Outcome;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;

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
}

/// What the table knows of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// Not executed: order it.
    New,
    /// Settled with this outcome.
    Settled(Outcome),
}

/// All clients. Deterministic: equal histories give equal tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sessions {
    sessions: BTreeMap<ClientId, Session>,
    /// Clients by last activity, for eviction.
    by_activity: BTreeSet<(Slot, ClientId)>,
    changed: u64,
    clients_max: usize,
    /// Bytes of kept results of all clients.
    bytes: usize,
    bytes_max: usize,
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
        let offset = number.checked_sub(self.floor)?;
        if offset < CLIENT_WINDOW { usize::try_from(offset).ok() } else { None }
    }

    fn settle(&mut self, index: usize, result: Bytes) -> Outcome {
        while self.entries.len() <= index {
            self.entries.push_back(Entry::Open);
        }
        if result.len() > CLIENT_REPLIES_BYTES_MAX {
            self.entries[index] = Entry::Forgotten;
            return Outcome::Forgotten;
        }
        self.bytes += result.len();
        self.entries[index] = Entry::Done(result.clone());
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
            return Lookup::Settled(Outcome::Forgotten);
        }
        let Some(index) = self.index(number) else { return Lookup::Settled(Outcome::Refused) };
        match self.entries.get(index) {
            None | Some(Entry::Open) => Lookup::New,
            Some(Entry::Done(result)) => Lookup::Settled(Outcome::Done(result.clone())),
            Some(Entry::Forgotten) => Lookup::Settled(Outcome::Forgotten),
        }
    }
}

impl Sessions {
    /// A table for at most this many clients.
    #[must_use]
    pub const fn with_capacity(clients_max: usize) -> Self {
        Self {
            sessions: BTreeMap::new(),
            by_activity: BTreeSet::new(),
            changed: u64::MAX,
            clients_max,
            bytes: 0,
            bytes_max: REPLIES_BYTES_MAX,
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

    /// What is known of a request. One beyond the window counts as new: its envelope carries the
    /// floor that decides, so only its execution can refuse it.
    #[must_use]
    pub fn lookup(&self, client: &ClientId, number: u64) -> Lookup {
        match self.sessions.get(client).map(|session| session.lookup(number)) {
            None | Some(Lookup::Settled(Outcome::Refused)) => Lookup::New,
            Some(known) => known,
        }
    }

    /// Begins the execution of a client's envelope in a slot: takes note of its floor, makes room.
    pub fn begin(&mut self, client: ClientId, floor: u64, slot: Slot) {
        if !self.sessions.contains_key(&client) && self.sessions.len() >= self.clients_max {
            self.evict();
        }
        if self.bytes > self.bytes_max {
            self.forget_replies();
        }
        let session = self.sessions.entry(client).or_default();
        if session.active != slot {
            self.by_activity.remove(&(session.active, client));
            self.by_activity.insert((slot, client));
            session.active = slot;
        }
        self.bytes -= session.bytes;
        session.raise_floor(floor);
        self.bytes += session.bytes;
        self.changed |= 1 << section_of(&client);
    }

    fn evict(&mut self) {
        if let Some((_, client)) = self.by_activity.pop_first() {
            if let Some(session) = self.sessions.remove(&client) {
                self.bytes -= session.bytes;
            }
            self.changed |= 1 << section_of(&client);
        }
    }

    /// Takes the replies of the idlest clients until half of the limit is free, so that this is
    /// rare.
    fn forget_replies(&mut self) {
        for (_, client) in &self.by_activity {
            if self.bytes <= self.bytes_max / 2 {
                break;
            }
            let Some(session) = self.sessions.get_mut(client) else { continue };
            if session.bytes > 0 {
                self.bytes -= session.bytes;
                session.forget_replies();
                self.changed |= 1 << section_of(client);
            }
        }
    }

    /// Executes a request unless it is settled, and says what came of it. [`Self::begin`] came
    /// first.
    pub fn settle(
        &mut self,
        client: &ClientId,
        number: u64,
        execute: impl FnOnce() -> Vec<u8>,
    ) -> Outcome {
        let session = self.sessions.get_mut(client).expect("begin() made it");
        match session.lookup(number) {
            Lookup::Settled(outcome) => outcome,
            Lookup::New => {
                let index = session.index(number).expect("a new number is inside the window");
                let before = session.bytes;
                let outcome = session.settle(index, Bytes::from(execute()));
                self.bytes = self.bytes - before + session.bytes;
                outcome
            }
        }
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
        for (client, session) in self.sessions.range(section_range(index)) {
            client.encode(&mut to);
            to.u64(session.floor);
            session.active.encode(&mut to);
            to.u32(session.entries.len() as u32);
            for entry in &session.entries {
                match entry {
                    Entry::Open => to.u8(0),
                    Entry::Done(result) => {
                        to.u8(1);
                        to.bytes(result);
                    }
                    Entry::Forgotten => to.u8(2),
                }
            }
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
                self.by_activity.remove(&(session.active, client));
                self.bytes -= session.bytes;
            }
        }
        self.changed |= 1 << index;
        let bytes = Bytes::copy_from_slice(bytes);
        let mut from = Reader::new(&bytes);
        while from.remaining() > 0 {
            let client = ClientId::decode(&mut from)?;
            let session = decode_session(&mut from)?;
            if section_of(&client) != index || self.sessions.contains_key(&client) {
                return Err(Malformed);
            }
            self.by_activity.insert((session.active, client));
            self.bytes += session.bytes;
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
            1 => Entry::Done(from.bytes(CLIENT_REPLIES_BYTES_MAX)?),
            2 => Entry::Forgotten,
            _ => return Err(Malformed),
        });
    }
    session.bytes = session
        .entries
        .iter()
        .map(|entry| if let Entry::Done(result) = entry { result.len() } else { 0 })
        .sum();
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn client(id: u8) -> ClientId {
        ClientId([id; 32])
    }

    fn run(table: &mut Sessions, number: u64, slot: u64) -> (Outcome, bool) {
        let mut ran = false;
        let outcome = table.settle(&client(1), number, || {
            ran = true;
            vec![slot as u8]
        });
        (outcome, ran)
    }

    #[test]
    fn each_number_runs_once_in_any_order() {
        let mut table = Sessions::default();
        table.begin(client(1), 0, Slot(1));
        let first = Outcome::Done(Bytes::from_static(&[1]));
        assert_eq!(run(&mut table, 5, 1), (first.clone(), true));
        assert_eq!(run(&mut table, 5, 2), (first, false));
        assert_eq!(run(&mut table, 3, 2), (Outcome::Done(Bytes::from_static(&[2])), true));
        table.begin(client(1), 6, Slot(3));
        assert_eq!(run(&mut table, 5, 3), (Outcome::Forgotten, false));
        assert_eq!(run(&mut table, 6 + CLIENT_WINDOW, 3), (Outcome::Refused, false));
        assert_eq!(table.lookup(&client(1), 6), Lookup::New);
    }

    #[test]
    fn old_replies_give_way_but_are_never_run_again() {
        let mut table = Sessions::default();
        table.begin(client(1), 0, Slot(1));
        for number in 0..4 {
            table.settle(&client(1), number, || vec![0; CLIENT_REPLIES_BYTES_MAX / 2]);
        }
        assert_eq!(run(&mut table, 1, 9), (Outcome::Forgotten, false));
        assert!(matches!(run(&mut table, 2, 9), (Outcome::Done(_), false)));
    }

    #[test]
    fn a_result_too_large_to_send_is_forgotten_and_takes_no_other_with_it() {
        let mut table = Sessions::default();
        table.begin(client(1), 0, Slot(1));
        run(&mut table, 1, 1);
        let large = || vec![0; CLIENT_REPLIES_BYTES_MAX + 1];
        assert_eq!(table.settle(&client(1), 2, large), Outcome::Forgotten);
        assert_eq!(run(&mut table, 2, 2), (Outcome::Forgotten, false));
        assert_eq!(run(&mut table, 1, 2), (Outcome::Done(Bytes::from_static(&[1])), false));
    }

    #[test]
    fn the_idlest_clients_lose_their_replies_first_and_restored_tables_agree() {
        let mut table = Sessions { bytes_max: 100, ..Sessions::default() };
        let mut copy = Sessions { bytes_max: 100, ..Sessions::default() };
        for id in 1..=4 {
            table.begin(client(id), 0, Slot(u64::from(id)));
            table.settle(&client(id), 0, || vec![id; 30]);
        }
        for index in 0..SESSION_SECTIONS {
            copy.restore_section(index, &table.section(index)).unwrap();
        }
        for table in [&mut table, &mut copy] {
            table.begin(client(1), 0, Slot(5));
            let kept =
                |id| matches!(table.lookup(&client(id), 0), Lookup::Settled(Outcome::Done(_)));
            assert_eq!([1, 2, 3, 4].map(kept), [false, false, false, true]);
            assert_eq!(table.bytes, 30);
        }
    }

    #[test]
    fn a_known_client_may_jump_ahead_of_its_window_with_a_new_floor() {
        let mut table = Sessions::default();
        table.begin(client(1), 0, Slot(1));
        let far = 10 * CLIENT_WINDOW;
        assert_eq!(table.lookup(&client(1), far), Lookup::New, "the floor is in the envelope");
        assert_eq!(run(&mut table, far, 1), (Outcome::Refused, false));
        table.begin(client(1), far, Slot(2));
        assert!(run(&mut table, far, 2).1);
    }

    #[test]
    fn sections_restore_to_an_equal_table() {
        let mut table = Sessions::with_capacity(3);
        for id in [1, 1, 200, 7, 9] {
            table.begin(client(id), 2, Slot(u64::from(id)));
            table.settle(&client(id), 4, || vec![id; 3]);
        }
        assert_eq!(table.len(), 3, "the idlest client gave way");
        let mut copy = Sessions::with_capacity(3);
        for index in 0..SESSION_SECTIONS {
            copy.restore_section(index, &table.section(index)).unwrap();
        }
        (table.changed, copy.changed) = (0, 0);
        assert_eq!(copy, table);
        assert_eq!(copy.restore_section(9, &table.section(50)), Err(Malformed));
    }
}
