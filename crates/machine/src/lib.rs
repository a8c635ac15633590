//! One replica as a value: a core with all that surrounds it, and without sockets, threads, files
//! and clocks. A driver tells it what came over links, which timers ran out and how time passes,
//! and carries out what it asks for ([`Driver`]). A driver decides nothing.
//!
//! ```text
//! events in:   messages of a peer, a client or the authority; a link is up or down; a timer ran
//!              out; a round begins or ends, with the time; a pillar says something; an operator
//!              asks
//! actions out: queue a message for a peer, a client or the authority; hang up on a client, or do
//!              not read it for a moment; arm or disarm a timer; keep an entry or a state; halt,
//!              with the reason
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | `machine` | [`Machine`]: its parts, and its rounds |
//! | `driver` | what it asks of its driver |
//! | `engine`, `places` | the core among its peers: messages, keys, who they are |
//! | `effects` | what becomes of the core's effects |
//! | `admission`, `admitting`, `checking`, `queries` | clients' messages, up to the core |
//! | `links`, `inbound` | what peers sent, and how much of it is looked at in a round |
//! | `replies`, `speculation` | what clients are told of what was executed |
//! | `transfers`, `spooling`, `divergence` | states |
//! | `epochs`, `advancing`, `factory` | from epoch to epoch, and what makes what changes then |
//! | `changing` | getting ready for the next configuration |
//! | `wedging`, `authority` | the end of an epoch by the word of a service outside |
//! | `beginning` | how a replica begins |
//! | `resuming`, `asking`, `seen` | what it asks before it speaks again, and tells who asks |
//! | `store`, `durable` | what is kept across a crash, and what waits for the disk |
//! | `observed` | what a machine does, for drivers that watch it |
//! | [`pillar`] | one pillar of a split order, for a thread of its own |
//! | [`status`], [`report`], [`counters`] | what a replica says of itself |
//! | [`meter`], [`histogram`], [`approach`] | what is measured for that |
//! | [`fault`] | misbehaviour on command |
//!
//! # What a machine promises to a core
//!
//! Events come one at a time, and the effects of one are carried out in order before the next. A
//! message to itself comes back exactly once. A refused counter or a failed disk ends the replica,
//! and nothing leaves after it.
//!
//! A message leaves, or comes back, when every earlier `Persist` is durable. Without a store
//! nothing outlives the process, and a record is as durable as it will ever be at once: a replica
//! that stops has lost its state. It comes back with a device of another incarnation, which the
//! group admits. With a store it resumes under its identity, and own messages come back after what
//! arrived while the disk was writing.

#![forbid(unsafe_code)]

mod admission;
mod admitting;
mod advancing;
pub mod approach;
mod asking;
mod authority;
mod beginning;
mod changing;
mod checking;
pub mod counters;
mod divergence;
mod driver;
mod durable;
mod effects;
mod engine;
mod epochs;
mod factory;
pub mod fault;
mod halt;
pub mod histogram;
mod inbound;
mod learnable;
mod learners;
mod leaving;
mod limits;
mod links;
mod machine;
mod merging;
pub mod meter;
mod newer;
mod observed;
mod others;
pub mod pillar;
mod places;
mod queries;
pub mod readiness;
mod replies;
mod replying;
pub mod report;
mod reporting;
mod rescue;
mod resuming;
mod seen;
mod speculation;
mod spooling;
pub mod status;
mod store;
mod transfers;
mod wedging;

pub use beginning::{BeginError, Beginning, Begun, Kept};
pub use driver::{Driver, HangUp, Kind, Pause, Work};
pub use engine::{Engine, EngineParts, PROTOCOL, ROUND_MS};
pub use epochs::{EPOCHS, EpochManager, Sealer};
pub use factory::{EpochFactory, OneEpoch, Prepared, Split, Started};
pub use halt::Halt;
pub use limits::HostLimits;
pub use machine::{Machine, MachineParts};
pub use newer::Newer;
pub use observed::{NoticeLog, Observed, Sent};
pub use pillar::PillarInstance;
pub use reporting::Surroundings;
pub use rescue::Rescued;
pub use resuming::{RESUMING, Resuming};
pub use seen::Seen;
pub use spooling::Spooling;
pub use status::StatusReport;
pub use store::{Disk, ObservedStore, StateCache};
pub use transfers::TRANSFER;
pub use wedging::{FromAuthority, ToAuthority};
