//! The Redis gateway: any Redis client, in front of a replicated [`pentarchy_services::kv::Kv`].
//!
//! One task serves a connection. It parses all commands that a read brought, hands each to the
//! [`Backend`] without waiting for the one before, and writes the replies in the order of their
//! commands, all that are there with one system call. Connection commands (`PING`, `HELLO`,
//! `CLIENT`, …) are answered here; what the store does not know is refused here.
//!
//! Requests are parsed and replies written by this crate's own code: a request is one flat array
//! of byte strings, and a general parser of nested frames would have to be fenced in against deep
//! nesting and repeated parsing of partial input, and would not give Redis's errors.

mod backend;
mod budget;
mod config;
mod connection;
mod encoder;
mod inline;
mod local;
mod parser;
mod replicated;
mod replies;
mod server;
mod sizes;
mod watch;

pub use backend::{Backend, BackendError, Completion};
pub use config::{GatewayConfig, GatewayError};
pub use parser::{Parser, ProtocolError};
pub use server::Gateway;
pub use watch::{Numbers, Watch};
