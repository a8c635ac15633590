//! Shuttle: replicas in a chain, of which `f + 1` execute. There are no views: a fault ends the
//! epoch, and a service outside the group says with what the next one begins.
//!
//! # What it is
//! *Byzantine Chain Replication* (van Renesse, Ho, Schiper, OPODIS 2012). The head orders, each
//! replica passes on what all before it have ordered, and what the tail has ordered is *done*. The
//! first `f + 1` replicas are *full*: they execute. The others are *witnesses*: they only order.
//! `docs/protocols/shuttle.md` has the argument and the table of repairs.
//!
//! # Messages
//! | message | way | convinces by | says |
//! | --- | --- | --- | --- |
//! | `Order` | down | [`Mode::AUTH`], tags | all before me ordered this history, and I did |
//! | `Done` | up | [`Mode::AUTH`], tags | all behind me ordered this history, and I did |
//! | `Mark` | to the next full one | signature | my state behind this slot, which is done |
//! | `Stable` | to all | itself | `f + 1` full replicas marked this state |
//! | `Level` | to neighbours | channel | what I have; send what I lack |
//! | `Forward` | to full ones before | itself | a request that a client gave to me |
//!
//! A *tag* is what convinces each member, whoever passes it on, that its author ordered a history:
//! a MAC for each member. Where nobody lies there are none.
//!
//! # Normal case
//! `ordering.rs`: the head orders what waits at the end of each round, and executes it. Each full
//! replica executes, compares what came of it with what its predecessor says, tells the clients,
//! and passes it on; each witness passes it on. `done.rs`: what the tail has ordered comes back up.
//! `client.rs` says when a client believes a result.
//!
//! # View change
//! There is none. `suspecting.rs`: who waits in vain accuses its neighbour. `wedging.rs`: when the
//! authority says so, a replica stops and reports all that it ordered. The rest is the authority's.
//!
//! # Deviations from the paper
//! Histories instead of operations in statements; clients wait for witnesses too; tags go back up;
//! signed checkpoints of full replicas alone. Each has its reason on the protocol's page.

mod checking;
mod checkpointing;
mod client;
mod descriptor;
mod done;
mod level;
mod log;
mod marks;
mod message;
mod mode;
mod ordering;
mod recall;
mod record;
mod replica;
mod statements;
mod suspecting;
mod timer;
mod told;
mod wedging;

pub use client::ShuttleClient;
pub use descriptor::{CHAIN, CHECKSUMS, DESCRIPTOR};
pub use message::{Message, Order};
pub use mode::{Checksums, Macs, Mode, Trusting};
pub use record::Record;
pub use replica::Shuttle;
pub use statements::Marked;
pub use timer::Timer;
pub use told::Told;

#[cfg(test)]
mod tests;
