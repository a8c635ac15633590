//! A key-value store with strings, lists, hashes, sets and sorted sets, and keys that end in agreed
//! time, under the names and rules of Redis 7.
//!
//! An operation is a command ([`command`]), a result is a typed reply ([`reply`]); neither is RESP,
//! which is a gateway's business. The commands and what is known of them are a table
//! ([`registry`]).
//!
//! The state has [`SECTIONS`] sections, the keys divided by their hash, and the clock. There are so
//! many that few have more than one key, and most have none, which costs nothing. A checkpoint
//! re-encodes the sections in which a key changed, each as a whole: a collection lies in one
//! section, so one of megabytes that changes all the time costs megabytes at every checkpoint.
//! One more section holds what connections watch, wait for and are subscribed to ([`session`]).

mod arguments;
mod bits;
pub mod command;
pub mod command_info;
mod error;
mod expiry;
mod float;
pub mod glob;
mod hash;
mod hashes;
mod interest;
mod keys;
mod list;
mod lists;
pub mod number;
mod object;
mod place;
mod random;
mod ranked;
pub mod registry;
pub mod reply;
mod scan;
mod sections;
pub mod session;
mod set;
mod set_algebra;
mod sets;
mod sorted;
mod store;
mod strings;
mod table;
mod text;
mod value;
mod work;
mod zalgebra;
mod zranges;
mod zsets;

pub use command::Command;
pub use command_info::CommandInfo;
pub use error::{Error, ErrorKind};
pub use keys::database;
pub use reply::Reply;
pub use work::OPERATION_WORK_MAX;

use alloc::vec::Vec;
use command::Args;
use command_info::{Entry, Handler};
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::service::{Context, Event, Service};
use pentarchy_core::wire::Malformed;
use reply::ReplyWriter;
use session::Sessions;
use store::{KEY_SECTIONS, Store};

/// Sections of the state.
pub const SECTIONS: u32 = KEY_SECTIONS + 2;

/// The section that holds the sessions.
const SESSIONS_SECTION: u32 = KEY_SECTIONS + 1;

/// The section that holds the clock.
const CLOCK_SECTION: u32 = KEY_SECTIONS;

/// The longest key.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// The longest string that `APPEND` and `SETRANGE` make. Less than an operation, so that every
/// value fits in a reply. A value that is set in one piece is bounded by the operation it is in.
pub const VALUE_BYTES_MAX: usize = OPERATION_BYTES_MAX - 64;

/// What a list, a hash or a set may cost; what is larger takes no more elements. Each checkpoint
/// writes and hashes all of a collection of which an element changed, and ordering waits for that.
pub const COLLECTION_BYTES_MAX: u64 = 64 << 20;

/// What keys and values may cost unless told otherwise, in bytes. What a key and an element of each
/// kind cost is in `docs/redis.md`.
pub const STATE_BYTES_DEFAULT: u64 = 1 << 30;

/// The most that keys and values may cost, so that a snapshot fits the chunks it may have.
pub const STATE_BYTES_MAX: u64 = 2 << 30;

/// The store as a replicated service.
pub struct Kv {
    store: Store,
    sessions: Sessions,
}

impl Default for Kv {
    fn default() -> Self {
        Self::new(STATE_BYTES_DEFAULT)
    }
}

impl Kv {
    /// An empty store. Commands that add to it are refused while its keys and values cost
    /// `state_bytes_max` or more, which is cut to [`STATE_BYTES_MAX`]. **Must be the same on all
    /// replicas**, as it decides results.
    #[must_use]
    pub fn new(state_bytes_max: u64) -> Self {
        let store = Store::new(state_bytes_max.min(STATE_BYTES_MAX));
        let mut sessions = Sessions::default();
        sessions.mark_changed();
        Self { store, sessions }
    }

    /// How many keys there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are no keys.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What keys and values cost, in bytes; see [`STATE_BYTES_DEFAULT`].
    #[must_use]
    pub const fn state_bytes(&self) -> u64 {
        self.store.cost()
    }

    /// The sections that are not empty, in order.
    pub fn filled_sections(&self) -> impl Iterator<Item = u32> {
        self.store.filled().chain([CLOCK_SECTION, SESSIONS_SECTION])
    }

    fn run(
        &mut self,
        context: &Context,
        args: &Args<'_>,
        out: &mut ReplyWriter,
    ) -> Result<(), Error> {
        let entry = checked(args)?;
        match entry.handler {
            Handler::Read(run) => run(&self.store, args, out),
            Handler::Grow(_) if self.store.is_full(0) => Err(Error::OUT_OF_MEMORY),
            Handler::Grow(_) if self.is_too_large(&entry.info, args) => {
                Err(Error::COLLECTION_TOO_LARGE)
            }
            Handler::Write(run) | Handler::Grow(run) => run(&mut self.store, args, out),
            Handler::Drawn(run) => run(&self.store, context, args, out),
            Handler::Taken(run) => run(&mut self.store, context, args, out),
        }
    }

    /// Whether a command would add to a collection that is at its limit.
    fn is_too_large(&self, command: &CommandInfo, args: &Args<'_>) -> bool {
        let grown = command.grown().and_then(|word| self.store.get(args[word]));
        grown.is_some_and(|value| value.cost() >= COLLECTION_BYTES_MAX)
    }

    fn look(&self, operation: &[u8], out: &mut ReplyWriter) -> Result<(), Error> {
        let args = Args::parse(operation).map_err(|_| Error::MALFORMED)?;
        if let Some(info) = session::entry(args[0]).map(|entry| &entry.info) {
            return Err(Error::other(alloc::format!(
                "'{}' must be ordered, not queried",
                info.name
            )));
        }
        let entry = checked(&args)?;
        let name = entry.info.name;
        self.store.work.begin();
        match entry.handler {
            Handler::Read(run) => run(&self.store, &args, out),
            _ => Err(Error::other(alloc::format!("'{name}' must be ordered, not queried"))),
        }
    }
}

/// The command that is meant, if there is one and its words can be right.
fn checked(args: &Args<'_>) -> Result<&'static Entry, Error> {
    let entry = registry::entry(args[0]).ok_or_else(|| Error::unknown_command(args))?;
    if !entry.info.takes(args.len()) {
        return Err(Error::wrong_arity(entry.info.name));
    }
    if entry.info.keys_of(args).any(|key| key.len() > KEY_BYTES_MAX) {
        return Err(Error::KEY_TOO_LONG);
    }
    Ok(entry)
}

impl Service for Kv {
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        self.store.work.begin();
        self.store.advance(context.time.0);
        // What ended by now is changed before the operation sees it.
        self.sessions.expire(context.time.0, &mut self.store);
        self.settle(context);
        match operation.split_first().filter(|_| operation.len() <= OPERATION_BYTES_MAX) {
            Some((&session::PACK, bytes)) => self.run_pack(context, bytes),
            Some((&session::TRANSACTION, bytes)) => self.run_transaction(context, bytes),
            Some((&session::SESSION, bytes)) => self.run_session(context, bytes),
            _ => {
                let Ok(args) = Args::parse(operation) else {
                    return Reply::from(&Error::MALFORMED).encode();
                };
                let reply = self.run_one(context, &args);
                self.settle(context);
                reply
            }
        }
    }

    fn take_events(&mut self) -> Vec<Event> {
        self.sessions.take_events()
    }

    fn query(&self, operation: &[u8]) -> Vec<u8> {
        let mut out = ReplyWriter::default();
        let outcome = self.look(operation, &mut out);
        out.finish(outcome)
    }

    fn sections(&self) -> u32 {
        SECTIONS
    }

    fn section(&self, index: u32) -> Vec<u8> {
        if index == SESSIONS_SECTION {
            return session::encode(&self.sessions);
        }
        sections::encode(&self.store, index)
    }

    fn changed_sections(&mut self) -> Vec<u32> {
        let (mut changed, clock) = self.store.take_changed();
        changed.extend(clock.then_some(CLOCK_SECTION));
        changed.extend(self.sessions.take_changed().then_some(SESSIONS_SECTION));
        changed
    }

    fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        let restored = if index == SESSIONS_SECTION {
            session::restore(&mut self.sessions, &mut self.store, bytes)
        } else {
            sections::restore(&mut self.store, index, bytes)
        };
        // That a key is there again is no change.
        self.store.interest.take();
        restored
    }
}
