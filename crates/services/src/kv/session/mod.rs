//! What a connection needs beyond single commands: transactions, watched keys, waiting for an
//! element, publish and subscribe.
//!
//! A gateway opens a *session*, under which it registers what its connections watch, wait for and
//! are subscribed to. All of it is part of the replicated state, so that who is served by a push,
//! and whether a watched key changed, is agreed like everything else. What is to be told to a
//! gateway unasked is an [`Event`](pentarchy_core::service::Event).
//!
//! A session is a lease: it ends when its gateway has asked nothing of it for [`LEASE_MILLIS`] of
//! agreed time, and when the gateway opens another one. What it registered is gone then.

mod blocking;
mod encoding;
mod once;
mod operation;
mod pubsub;
mod registry;
mod run;
mod table;

pub use blocking::timeout_millis;
pub use operation::{
    Answer, Notice, PACK_HEADER_BYTES, Request, Subscription, TRANSACTION_HEADER_BYTES, Topic,
    pack, pack_replies, transaction, transaction_replies,
};
pub use registry::is_blocking;

pub(crate) use encoding::{encode, restore};
pub(crate) use operation::{PACK, SESSION, TRANSACTION};
pub(crate) use registry::{all, entry};
pub(crate) use table::Sessions;
pub use table::key_cost;

/// How long a session lives without an operation of its gateway, in milliseconds of agreed time.
pub const LEASE_MILLIS: u64 = 30_000;

/// Sessions at a time.
pub const SESSIONS_MAX: usize = 1024;

/// What all sessions may hold, in bytes; see [`ENTRY_COST`].
pub const SESSIONS_BYTES_MAX: u64 = 16 << 20;

/// What one session may hold, in bytes.
pub const SESSION_BYTES_MAX: u64 = 4 << 20;

/// What a watched key, a key waited for, a waiter or a subscription costs beside its bytes.
pub const ENTRY_COST: u64 = 96;

/// A pack ends early once its replies are this long.
pub const PACK_REPLIES_BYTES: usize = 64 << 10;

/// The most that the replies of a transaction may be together. A reply that does not fit becomes an
/// error, which does not undo its command.
pub const TRANSACTION_REPLIES_BYTES_MAX: usize = 3 << 19;

const _: () =
    assert!(TRANSACTION_REPLIES_BYTES_MAX == 1_572_864, "Error::TRANSACTION_REPLIES says so");

/// Commands of a transaction, so that each can be answered with an error of 24 bytes at least.
pub const TRANSACTION_COMMANDS_MAX: usize = TRANSACTION_REPLIES_BYTES_MAX / 24;
