//! What a request costs: a whole group of real cores in one thread, without sockets, whose every
//! piece of work goes through a [`Probe`].
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`host`] | one replica: its machine, driven over queues |
//! | [`links`] | those queues |
//! | [`ordering_core`] | a core among its peers that executes nothing: a pillar is nothing else |
//! | [`parts`] | one replica as threads have it |
//! | [`mailbox`] | what these tell each other |
//! | [`client`] | one client of it |
//! | [`group`] | all of them, in steps in which every message takes equally long |
//! | [`real`] | real keys, counters and channels |
//! | [`stand_in`] | keys that only count, for instruction counts without cryptography |
//! | [`ordering`] | one replica's ordering alone, on threads, from a recording |
//! | [`model`] | groups on more cores than there are here, in virtual time; makes the recordings |
//!
//! Three things use it. The tests in here run it with real keys, channels and counters, and compare
//! operations and messages with the formulas in `docs/costs.md`. The binary `instructions` runs it
//! with keys that do nothing under callgrind; `cargo xtask instructions` compares what that counts
//! with `docs/instructions.md`. And `bench ordering` and `bench model` time what it does.

#![forbid(unsafe_code)]

pub mod client;
pub mod group;
pub mod host;
pub mod links;
pub mod mailbox;
pub mod model;
pub mod ordering;
pub mod ordering_core;
pub mod parts;
pub mod real;
pub mod stand_in;

use pentarchy_core::Bytes;
use pentarchy_core::ids::ReplicaId;

/// Who takes part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Node {
    /// A replica.
    Replica(ReplicaId),
    /// A client, by its index.
    Client(usize),
}

/// Work that a probe runs, and which may have it run pieces of it apart.
pub type Job<'a> = &'a mut dyn FnMut(&mut dyn Probe);

/// Sees all work of all nodes, in pieces.
pub trait Probe {
    /// Runs one piece of work of a node. `step` is the kind of the message that the node acts on,
    /// or one of [`steps`]. A piece that is run by another one is no part of that.
    fn around(&mut self, node: Node, step: &'static str, work: Job<'_>);
}

/// Runs the work and does nothing else.
pub struct Unwatched;

impl Probe for Unwatched {
    fn around(&mut self, _: Node, _: &'static str, work: Job<'_>) {
        work(self);
    }
}

/// Pieces of work that are not a message's.
pub mod steps {
    /// A round begins.
    pub const BEGIN: &str = "begin";
    /// A round's new envelopes are checked and handed to the core.
    pub const ADMIT: &str = "admit";
    /// The round ends: the primary proposes.
    pub const ROUND: &str = "round";
    /// A batch is executed.
    pub const EXECUTE: &str = "execute";
    /// A snapshot is taken.
    pub const SNAPSHOT: &str = "snapshot";
    /// Results are encoded for their clients.
    pub const REPLY: &str = "reply";
    /// A frame is opened and cut into messages.
    pub const OPEN: &str = "open";
    /// A frame is closed.
    pub const SEAL: &str = "seal";
    /// A timer ran out.
    pub const TIMER: &str = "timer";
}

/// The channels between all nodes.
pub trait Channels {
    /// Turns messages behind their lengths into what goes over the wire.
    fn seal(&mut self, from: Node, to: Node, plain: &[u8]) -> Vec<u8>;

    /// Appends the messages in what came.
    fn open(&mut self, from: Node, to: Node, wire: Vec<u8>, messages: &mut Vec<Bytes>);
}
