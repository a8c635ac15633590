//! The Redis gateway: any Redis client, in front of a replicated [`pentarchy_services::kv::Kv`].
//!
//! One task serves a connection. It parses all commands that a read brought, hands them to the
//! [`Backend`] as one operation, with the next operation when that one is done, and writes the
//! replies in the order of their commands, all that are there with one system call. Connection
//! commands (`PING`, `HELLO`, `CLIENT`, …) are answered here; what the store does not know is
//! refused here. What connections watch, wait for and are subscribed to is registered with the
//! replicas under one session of the gateway, which its *hub* keeps.
//!
//! Requests are parsed and replies written by this crate's own code: a request is one flat array
//! of byte strings, and a general parser of nested frames would have to be fenced in against deep
//! nesting and repeated parsing of partial input, and would not give Redis's errors.

mod answer;
mod backend;
mod backend_error;
mod budget;
mod config;
mod connection;
mod encoder;
mod hub;
mod inbox;
mod inline;
mod local;
mod parser;
mod password;
mod render;
mod replicated;
mod server;
mod shared;
mod sizes;
mod submit;
mod watch;
mod work;

pub use backend::{Backend, BackendError, Completion, EventSink, GatewayEvent};
pub use config::{GatewayConfig, GatewayError};
pub use parser::{Parser, ProtocolError};
pub use password::Password;
pub use replicated::Replicated;
pub use server::Gateway;
pub use watch::{Numbers, Watch};
