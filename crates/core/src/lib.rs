//! The vocabulary of Pentarchy: what a protocol core is, what it says to its host, and the
//! deterministic parts that every replica shares.
//!
//! The crate is `no_std`: there is no clock, thread, socket, file, environment or hash-order
//! iteration to reach for, so equal state and equal event give equal next state and effects on
//! every machine. Read [`protocol`] first, then [`ports`], then `docs/host-contract.md`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`protocol`] | the one trait: events in, effects out |
//! | [`ports`] | what a core and its host ask of each other, per role |
//! | [`erased`] | the ingress between a typed core and hosts that are compiled once |
//! | [`ids`], [`membership`], [`quorum`] | who takes part and how many are enough |
//! | [`auth`], [`counter`], [`digest`] | what is asked of keys and devices, never how it is done |
//! | [`mac_vector`] | a MAC for each member, over one statement |
//! | [`wire`] | the bounded codec |
//! | [`request`], [`batch`] | signed envelopes of requests and the batches that order them |
//! | [`window`], [`votes`] | bounded tables of slots and votes |
//! | [`ballot`] | what replicas must have sent before one of them decides |
//! | [`sessions`], [`service`], [`executor`] | execution, at-most-once, checkpoints |
//! | [`reads`] | queries that wait until what they must not miss is executed |
//! | [`designated_replier`] | who tells a client a result, and who its digest |
//! | [`tree`], [`snapshot`] | the state as a tree of hashes |
//! | [`blobs`] | what of a state is in files and not in memory |
//! | [`epochs`] | from one epoch to the next by the members' word |
//! | [`succession`] | the same by the word of a service outside |
//! | [`transfer`] | how a replica that fell behind gets a checkpoint's state |
//! | [`forge`] | what a Byzantine replica can make others believe, for searches |
//! | [`limits`] | every bound in the system |
//! | [`mod@mark`], [`mod@mutant`] | coverage marks and seeded bugs, for tests |

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "marks", feature = "mutants"))]
extern crate std;

pub mod auth;
pub mod authenticator;
pub mod authored;
pub mod ballot;
pub mod batch;
pub mod blobs;
pub mod change;
pub mod configuration;
pub mod counter;
pub mod designated_replier;
pub mod digest;
pub mod epochs;
pub mod erased;
pub mod executor;
pub mod forge;
pub mod ids;
pub mod limits;
pub mod mac_vector;
pub mod mark;
pub mod membership;
pub mod mutant;
pub mod outsider;
pub mod pillar_config;
pub mod ports;
pub mod protocol;
pub mod quorum;
pub mod reads;
pub mod request;
mod roster;
pub mod rules;
pub mod service;
pub mod sessions;
pub mod snapshot;
pub mod standing;
mod status;
pub mod succession;
pub mod transfer;
pub mod tree;
pub mod votes;
pub mod welcome;
pub mod window;
pub mod wire;

pub use bytes::Bytes;
