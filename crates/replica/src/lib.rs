//! The host of a replica: sockets, threads, files and clocks around a
//! [`Machine`](pentarchy_machine::Machine). One thread, one poll loop, which knows neither the
//! protocol nor the service. Where the order is split into pillars, each of these has a thread with
//! such a loop of its own.
//!
//! It works in rounds: read every socket, tell the machine, say that the round is over, write every
//! socket. So system calls, encryption and the core's proposals are shared by all that arrived
//! together, and the busier the replica, the larger the rounds.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`config`] | what a replica is started with |
//! | [`host`] | the rounds |
//! | `network` | sockets: who is connected, and what is queued for them |
//! | `driver`, `reading` | what a machine asks for, over sockets; and what it is told of them |
//! | `assembly` | the machine's parts |
//! | `pillars` | pillars on threads of their own, and what they and the replica tell each other |
//! | `cache` | states for the next incarnation, for which nothing waits |
//! | [`watch`], [`rescue`] | how other threads see it |
//! | [`process`] | what the process has used |
//!
//! What a host promises to a core, the [machine](pentarchy_machine) keeps. This one has the disk
//! written on threads of its own.

#![forbid(unsafe_code)]

mod assembly;
mod cache;
mod clients;
pub mod config;
mod driver;
pub mod error;
pub mod fault;
pub mod host;
mod links;
mod network;
mod peers;
mod pillars;
pub mod process;
mod reading;
pub mod rescue;
mod rounds;
mod timers;
pub mod watch;

pub use config::{
    EpochFactory, HostLimits, Listen, Prepared, ReplicaConfig, Split, Started, States, Storage,
};
pub use error::{Fatal, StartError};
pub use host::{Replica, Running};
pub use pentarchy_machine::{BeginError, Halt, Rescued, counters, histogram, meter};
pub use rescue::Rescue;
pub use status::StatusReport;
pub use watch::Watch;

/// What a replica says of itself.
pub mod status {
    pub use crate::process::{allocations, thread_cpu_micros, usage};
    pub use pentarchy_machine::status::*;
}
