//! The inline host of a replica: one thread, one poll loop, which knows neither the protocol nor
//! the service. Where the order is split into pillars, each of these has a thread with such a loop
//! of its own.
//!
//! It works in rounds: read every socket, step every event, tell the core that the round is over,
//! write every socket. So system calls, encryption and the core's proposals are shared by all that
//! arrived together, and the busier the replica, the larger the rounds.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`config`] | what a replica is started with |
//! | [`host`] | the rounds |
//! | `network` | sockets: who is connected, and what is queued for them |
//! | `speaker` | the core among its peers: messages, timers, keys |
//! | `unit` | what becomes of the core's outputs |
//! | `pillars` | pillars on threads of their own, and what they and the replica tell each other |
//! | `keeper`, `durable` | what is kept across a crash, and what waits for the disk |
//! | `cache` | states for the next life, for which nothing waits |
//! | `inbound` | what peers sent, and how much of it is looked at in a round |
//! | `admission` | clients' requests on their way to the core |
//! | `checking` | whether they are authentic |
//! | [`approach`] | how fast a replica that is behind comes closer |
//! | [`status`], [`watch`] | what a replica says of itself, and how other threads see it |
//! | [`meter`], [`histogram`] | where time goes, and why views change |
//!
//! # What this host promises to a core
//!
//! Events come one at a time, and the effects of one are carried out in order before the next. A
//! message to itself comes back exactly once. A timer fires at most once. A refused counter or a
//! failed disk ends the run, and nothing leaves after it.
//!
//! A message leaves, or comes back, when every earlier `Persist` is durable. Without
//! [storage](ReplicaConfig::storage) nothing outlives the process, and a record is as durable as it
//! will ever be at once: a replica that stops has lost its state. It comes back with a device of
//! another incarnation, which the group admits. With storage it goes on as whom it was, and own
//! messages come back after what arrived while the disk was writing.

#![forbid(unsafe_code)]

mod admission;
pub mod approach;
mod assembly;
mod beginning;
mod cache;
mod checking;
mod clients;
pub mod config;
pub mod counters;
mod divergence;
mod durable;
mod epochs;
pub mod error;
pub mod fault;
pub mod histogram;
pub mod host;
mod inbound;
mod keeper;
mod links;
pub mod meter;
mod network;
mod others;
mod peers;
mod pillars;
mod queries;
pub mod readiness;
pub mod rescue;
mod resuming;
mod rounds;
mod speaker;
mod speculation;
mod spooling;
pub mod status;
mod timers;
mod unit;
pub mod watch;

pub use config::{
    Access, EpochFactory, HostLimits, Listen, ReplicaConfig, Split, Started, States, Storage,
};
pub use error::{Fatal, StartError};
pub use host::{Replica, Running};
pub use rescue::{Rescue, Rescued};
pub use status::StatusReport;
pub use watch::Watch;
