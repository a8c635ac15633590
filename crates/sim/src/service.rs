//! The service that simulated groups replicate: registers and counters whose results say much about
//! the order in which operations ran, so that a wrong order shows.

use pentarchy_core::Bytes;
use pentarchy_core::ids::{ClientId, Millis, Slot};
use pentarchy_core::service::{Context, Event, Service};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Sections of the state; keys are dealt out among them, so that transfers move a part.
pub const SECTIONS: u32 = 8;

/// Bytes of a register; what would grow it beyond starts it anew.
const REGISTER_BYTES_MAX: usize = 512;

/// The largest event.
const TOLD_BYTES_MAX: u32 = 1 << 20;

/// What one request asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// The value.
    Get,
    /// Sets the value; the result is the one before.
    Put(Bytes),
    /// Adds to the value's end, or takes its place where both are too long. The result is the new
    /// length and a checksum of both in any case, or nobody could tell which value it was.
    Append(Bytes),
    /// Sets the value if it is the expected one; the result is whether, and the one before.
    Cas {
        /// What it must be.
        expected: Bytes,
        /// What it becomes.
        new: Bytes,
    },
    /// Adds to the value as a number; the result is the sum.
    Add(u64),
    /// Tells a client this many events, each of this many bytes at least; the result is the value.
    Tell {
        /// Whom.
        client: ClientId,
        /// How many.
        count: u8,
        /// How large.
        bytes: u32,
    },
}

/// An operation on the wire: what, on which key, and the number under which its client sent it, by
/// which the journal knows it again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// The request's number.
    pub number: u64,
    /// The register.
    pub key: u16,
    /// What to do with it.
    pub action: Action,
}

impl Wire for Operation {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.number);
        to.u16(self.key);
        match &self.action {
            Action::Get => to.u8(0),
            Action::Put(value) => {
                to.u8(1);
                to.bytes(value);
            }
            Action::Append(value) => {
                to.u8(2);
                to.bytes(value);
            }
            Action::Cas { expected, new } => {
                to.u8(3);
                to.bytes(expected);
                to.bytes(new);
            }
            Action::Add(amount) => {
                to.u8(4);
                to.u64(*amount);
            }
            Action::Tell { client, count, bytes } => {
                to.u8(5);
                client.encode(to);
                to.u8(*count);
                to.u32(*bytes);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        const MAX: usize = pentarchy_core::limits::OPERATION_BYTES_MAX;
        let (number, key) = (from.u64()?, from.u16()?);
        let action = match from.u8()? {
            0 => Action::Get,
            1 => Action::Put(from.bytes(MAX)?),
            2 => Action::Append(from.bytes(MAX)?),
            3 => Action::Cas { expected: from.bytes(MAX)?, new: from.bytes(MAX)? },
            4 => Action::Add(from.u64()?),
            5 => Action::Tell {
                client: ClientId::decode(from)?,
                count: from.u8()?,
                bytes: from.u32()?.min(TOLD_BYTES_MAX),
            },
            _ => return Err(Malformed),
        };
        Ok(Self { number, key, action })
    }
}

/// Whether a register holds both.
const fn fits(register: &[u8], value: &Bytes) -> bool {
    register.len() + value.len() <= REGISTER_BYTES_MAX
}

/// FNV-1a. Without it, operations that ran side by side could be put in very many orders, and the
/// search for the one that explains all results would take for ever.
fn checksum<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Changes one register and gives the result: the sequential specification.
pub fn apply(register: &mut Vec<u8>, action: &Action) -> Vec<u8> {
    match action {
        Action::Get | Action::Tell { .. } => register.clone(),
        Action::Put(value) => core::mem::replace(register, value.to_vec()),
        Action::Append(value) => {
            let sum = checksum(register.iter().chain(value));
            if !fits(register, value) {
                register.clear();
            }
            register.extend_from_slice(value);
            let mut result = (register.len() as u32).to_le_bytes().to_vec();
            result.extend_from_slice(&sum.to_le_bytes());
            result
        }
        Action::Cas { expected, new } => {
            let equal = register.as_slice() == expected.as_ref();
            let mut result = vec![u8::from(equal)];
            result.extend_from_slice(register);
            if equal {
                *register = new.to_vec();
            }
            result
        }
        Action::Add(amount) => {
            let mut number = [0; 8];
            let known = register.len().min(8);
            number[..known].copy_from_slice(&register[..known]);
            let sum = u64::from_le_bytes(number).wrapping_add(*amount);
            *register = sum.to_le_bytes().to_vec();
            register.clone()
        }
    }
}

/// Whether an action on this register could have this result. A quick no for most; a yes must still
/// be confirmed by [`apply`].
#[must_use]
pub fn may_give(register: &[u8], action: &Action, result: &[u8]) -> bool {
    match action {
        Action::Get | Action::Put(_) | Action::Tell { .. } => register == result,
        Action::Cas { .. } => result.get(1..) == Some(register),
        Action::Append(value) => {
            let kept = if fits(register, value) { register.len() } else { 0 };
            let [a, b, c, d, sum @ ..] = result else { return false };
            u32::from_le_bytes([*a, *b, *c, *d]) as usize == kept + value.len()
                && *sum == checksum(register.iter().chain(value)).to_le_bytes()
        }
        Action::Add(_) => true,
    }
}

/// An event's body: no two are equal, so that one which is told twice shows.
fn told(teller: &ClientId, number: u64, index: u8, bytes: u32) -> Bytes {
    let mut body = [&teller.0[..8], &number.to_le_bytes(), &[index]].concat();
    body.resize(body.len().max(bytes as usize), index);
    Bytes::from(body)
}

/// What really ran on one replica, in order: slot, client and number. The world drains it.
pub type Journal = Arc<Mutex<Vec<(Slot, ClientId, u64)>>>;

/// The service.
pub struct Registers {
    registers: BTreeMap<u16, Vec<u8>>,
    changed: u32,
    journal: Journal,
    /// The agreed time of the last operation: part of the state, so that replicas which do not
    /// agree on it differ.
    time: Millis,
    /// What the last operation tells clients.
    events: Vec<Event>,
}

impl Registers {
    /// No register is set. What is executed is noted in the journal.
    #[must_use]
    pub const fn new(journal: Journal) -> Self {
        Self {
            registers: BTreeMap::new(),
            changed: u32::MAX,
            journal,
            time: Millis(0),
            events: Vec::new(),
        }
    }
}

impl Service for Registers {
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        let bytes = Bytes::copy_from_slice(operation);
        assert!(context.time >= self.time, "the time that a service is told never goes back");
        self.changed |= u32::from(context.time > self.time);
        self.time = context.time;
        let Ok(operation) = Operation::from_bytes(&bytes) else { return b"malformed".to_vec() };
        let entry = (context.slot, context.client, operation.number);
        self.journal.lock().expect("no panic while writing").push(entry);
        if let Action::Tell { client, count, bytes } = operation.action {
            let body = |index| told(&context.client, operation.number, index, bytes);
            self.events.extend((0..count).map(|index| Event { client, body: body(index) }));
        } else if operation.action != Action::Get {
            self.changed |= 1 << (u32::from(operation.key) % SECTIONS);
        }
        apply(self.registers.entry(operation.key).or_default(), &operation.action)
    }

    fn query(&self, operation: &[u8]) -> Vec<u8> {
        let bytes = Bytes::copy_from_slice(operation);
        match Operation::from_bytes(&bytes) {
            Ok(Operation { key, action: Action::Get, .. }) => {
                self.registers.get(&key).cloned().unwrap_or_default()
            }
            _ => b"malformed".to_vec(),
        }
    }

    fn take_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.events)
    }

    fn sections(&self) -> u32 {
        SECTIONS
    }

    fn section(&self, index: u32) -> Vec<u8> {
        let mut to = Writer::default();
        if index == 0 {
            self.time.encode(&mut to);
        }
        for (key, value) in &self.registers {
            // A register that was only read is as one that was never touched.
            if u32::from(*key) % SECTIONS == index && !value.is_empty() {
                to.u16(*key);
                to.bytes(value);
            }
        }
        to.into_vec()
    }

    fn changed_sections(&mut self) -> Vec<u32> {
        let changed = core::mem::take(&mut self.changed);
        (0..SECTIONS).filter(|index| changed & (1 << index) != 0).collect()
    }

    fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        self.registers.retain(|key, _| u32::from(*key) % SECTIONS != index);
        self.changed |= 1 << index;
        let bytes = Bytes::copy_from_slice(bytes);
        let mut from = Reader::new(&bytes);
        if index == 0 {
            self.time = Millis::decode(&mut from)?;
        }
        while from.remaining() > 0 {
            let (key, value) = (from.u16()?, from.bytes(REGISTER_BYTES_MAX.max(64 << 10))?);
            if u32::from(key) % SECTIONS != index {
                return Err(Malformed);
            }
            self.registers.insert(key, value.to_vec());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::digest::Digest;

    fn run(service: &mut Registers, key: u16, action: Action) -> Vec<u8> {
        let client = ClientId([1; 32]);
        let context = Context::new(Slot(1), 0, Millis(0), client, Digest::default());
        service.execute(&context, &Operation { number: 5, key, action }.to_bytes())
    }

    #[test]
    fn results_tell_what_was_there_before() {
        let mut service = Registers::new(Journal::default());
        let bytes = Bytes::from_static;
        assert_eq!(run(&mut service, 1, Action::Put(bytes(b"a"))), b"");
        let appended = run(&mut service, 1, Action::Append(bytes(b"b")));
        assert_eq!((appended[0], &appended[4..]), (2, &checksum(b"ab".iter()).to_le_bytes()[..]));
        let cas = |expected, new| Action::Cas { expected: bytes(expected), new: bytes(new) };
        assert_eq!(run(&mut service, 1, cas(b"x", b"y")), b"\0ab");
        assert_eq!(run(&mut service, 1, cas(b"ab", b"y")), b"\x01ab");
        assert_eq!(run(&mut service, 1, Action::Get), b"y");
        assert_eq!(run(&mut service, 2, Action::Add(3)), 3u64.to_le_bytes());
        assert_eq!(run(&mut service, 2, Action::Add(4)), 7u64.to_le_bytes());
        assert_eq!(service.journal.lock().unwrap().len(), 7);
    }

    #[test]
    fn the_quick_no_is_never_wrong() {
        let bytes = Bytes::from_static;
        let actions = [
            Action::Get,
            Action::Put(bytes(b"b")),
            Action::Append(bytes(b"b")),
            Action::Cas { expected: bytes(b"a"), new: bytes(b"c") },
            Action::Cas { expected: bytes(b"x"), new: bytes(b"c") },
            Action::Add(4),
        ];
        for register in [&b""[..], b"a", b"abc"] {
            for action in &actions {
                let result = apply(&mut register.to_vec(), action);
                assert!(may_give(register, action, &result), "{action:?}");
            }
        }
        assert!(!may_give(b"a", &Action::Get, b"b"));
        let appended = apply(&mut b"a".to_vec(), &Action::Append(bytes(b"b")));
        assert!(!may_give(b"x", &Action::Append(bytes(b"b")), &appended));
    }

    #[test]
    fn sections_restore_to_equal_sections() {
        let mut service = Registers::new(Journal::default());
        for key in 0..20 {
            run(&mut service, key, Action::Add(u64::from(key)));
        }
        assert_eq!(service.changed_sections().len() as u32, SECTIONS);
        run(&mut service, 3, Action::Add(1));
        assert_eq!(service.changed_sections(), vec![3]);
        let mut copy = Registers::new(Journal::default());
        for index in 0..SECTIONS {
            copy.restore_section(index, &service.section(index)).unwrap();
            assert_eq!(copy.section(index), service.section(index));
        }
        assert_eq!(copy.registers, service.registers);
        assert_eq!(copy.restore_section(0, &service.section(1)), Err(Malformed));
    }
}
