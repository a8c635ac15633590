//! The key-value store of production in a simulated group, with the simulator's own service as its
//! shadow: both execute every operation, are saved, restored and asked together, and must agree.
//!
//! Each register is a key of the store. Beside that, each operation has the store run a command on
//! other keys, of all kinds of values and some with deadlines; their replies are summed up in the
//! state, so that replicas whose stores answered differently differ at the next checkpoint. The
//! store has millions of sections where the shadow has eight.

use crate::audit::{Audit, Fingerprint};
use crate::service::{Action, Operation};
use pentarchy_core::Bytes;
use pentarchy_core::service::{Context, Event, Service};
use pentarchy_core::wire::{Malformed, Wire as _};
use pentarchy_services::kv::{self, Command, Kv, Reply};

/// What the store may cost: no world comes near it.
const STATE_BYTES_MAX: u64 = 64 << 20;

/// The keys that are not registers.
const OTHERS: u64 = 6;

/// See the [module](self).
pub struct Shadowed {
    store: Kv,
    shadow: Box<dyn Service>,
    /// Of all that the store replied.
    replies: Fingerprint,
    replied: bool,
}

impl Shadowed {
    /// An empty store, with a service without state that knows [`Operation`]s.
    #[must_use]
    pub fn new(shadow: Box<dyn Service>) -> Self {
        let store = Kv::new(STATE_BYTES_MAX);
        Self { store, shadow, replies: Fingerprint::default(), replied: true }
    }

    /// What the shadow has under a key, after it was compared with what the store has.
    fn register(&self, key: u16) -> Bytes {
        let get = Operation { number: 0, key, action: Action::Get }.to_bytes();
        let known = Bytes::from(self.shadow.query(&get));
        let asked = self.store.query(&command(&[b"GET", &name(key)]));
        let stored = match Reply::decode(&asked) {
            Ok(Reply::Nil) => Bytes::new(),
            Ok(Reply::Bulk(value)) => value,
            other => panic!("the store answers GET with {other:?}"),
        };
        assert_eq!(stored, known, "register {key}: what the store has, and what its shadow has");
        known
    }

    /// Has the store run a command of the operation that is executed.
    fn run(&mut self, context: &Context, words: &[&[u8]]) {
        let reply = self.store.execute(context, &command(words));
        assert!(self.store.take_events().is_empty(), "nobody is to be told anything");
        let [high, low] = self.replies.0;
        let mut audit = Audit::default();
        audit.note(high, 0, low, &reply);
        (self.replies, self.replied) = (audit.digest(), true);
    }

    /// Brings the store to where the shadow is.
    fn follow(&mut self, context: &Context, operation: &Operation, before: &Bytes) {
        let key = name(operation.key);
        let get = Operation { action: Action::Get, ..*operation }.to_bytes();
        let after = Bytes::from(self.shadow.query(&get));
        match &operation.action {
            Action::Append(value) if after.len() == before.len() + value.len() => {
                self.run(context, &[b"APPEND", &key, value]);
            }
            _ if after != *before => self.run(context, &[b"SET", &key, &after]),
            _ => {}
        }
    }

    /// Runs what a number draws from the commands of the store.
    fn run_another(&mut self, context: &Context, number: u64) {
        let draw = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let key = format!("other {}", draw % OTHERS).into_bytes();
        let (value, member) = (draw.to_string().into_bytes(), [b'a' + (draw >> 8) as u8 % 8]);
        let words: &[&[u8]] = match (draw / OTHERS) % 16 {
            0 => &[b"SET", &key, &value, b"PX", b"300"],
            1 => &[b"INCRBY", &key, b"7"],
            2 => &[b"DEL", &key],
            3 => &[b"RPUSH", &key, &value, &member],
            4 => &[b"LPOP", &key],
            5 => &[b"HSET", &key, &member, &value],
            6 => &[b"HDEL", &key, &member],
            7 => &[b"SADD", &key, &member, &value],
            8 => &[b"SPOP", &key],
            9 => &[b"ZADD", &key, &value, &member],
            10 => &[b"ZPOPMIN", &key],
            11 => &[b"PEXPIRE", &key, b"200"],
            12 => &[b"PERSIST", &key],
            13 => &[b"SETRANGE", &key, b"3", &member],
            14 => &[b"RENAME", &key, b"other 0"],
            _ => &[b"RANDOMKEY"],
        };
        self.run(context, words);
    }

    /// The first section of the shadow, behind those of the store.
    const SHADOW: u32 = kv::SECTIONS;

    /// The section with the sum of all replies: the last one.
    fn replies_section(&self) -> u32 {
        Self::SHADOW + self.shadow.sections()
    }
}

fn name(key: u16) -> Vec<u8> {
    format!("register {key}").into_bytes()
}

fn command(words: &[&[u8]]) -> Bytes {
    Command::new(words).to_operation()
}

impl Service for Shadowed {
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        let known = Operation::from_bytes(&Bytes::copy_from_slice(operation)).ok();
        let before = known.as_ref().map(|known| self.register(known.key));
        let result = self.shadow.execute(context, operation);
        if let (Some(known), Some(before)) = (known, before) {
            self.follow(context, &known, &before);
            self.run_another(context, known.number ^ u64::from(context.client.0[0]) << 32);
            self.register(known.key);
        }
        result
    }

    fn query(&self, operation: &[u8]) -> Vec<u8> {
        if let Ok(known) = Operation::from_bytes(&Bytes::copy_from_slice(operation)) {
            self.register(known.key);
        }
        self.shadow.query(operation)
    }

    fn take_events(&mut self) -> Vec<Event> {
        self.shadow.take_events()
    }

    fn sections(&self) -> u32 {
        self.replies_section() + 1
    }

    fn section(&self, index: u32) -> Vec<u8> {
        match index {
            _ if index < Self::SHADOW => self.store.section(index),
            _ if index < self.replies_section() => self.shadow.section(index - Self::SHADOW),
            _ => self.replies.to_bytes().to_vec(),
        }
    }

    fn changed_sections(&mut self) -> Vec<u32> {
        let mut changed = self.store.changed_sections();
        changed.extend(self.shadow.changed_sections().iter().map(|index| Self::SHADOW + index));
        let replied = core::mem::take(&mut self.replied);
        changed.extend(replied.then(|| self.replies_section()));
        changed
    }

    fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        match index {
            _ if index < Self::SHADOW => self.store.restore_section(index, bytes),
            _ if index < self.replies_section() => {
                self.shadow.restore_section(index - Self::SHADOW, bytes)
            }
            _ => {
                self.replies = Fingerprint::from_bytes(bytes.try_into().map_err(|_| Malformed)?);
                self.replied = true;
                Ok(())
            }
        }
    }
}
