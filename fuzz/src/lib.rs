//! What is done with hostile bytes. A target is a function of an input; it panics if a property
//! does not hold. `fuzz/driver` puts libFuzzer in front of it, and the tests of this crate replay
//! every input that is kept in `corpora`, so that nothing that was found once comes back unseen.
//!
//! | target | what the input is |
//! | --- | --- |
//! | `wire` | one value of any type that crosses a channel |
//! | `ingress` | a message from a peer, for the ingress of every protocol |
//! | `group` | what a lying replica, its clients and the network do to a MinBFT group |
//! | `transfer` | what lying sources answer to a replica that fetches a state |
//! | `snapshot` | a section of a snapshot: client table, executor, key-value store |
//! | `channel` | the bytes of a connection, before and after the keys |
//! | `files` | secret files, a device's identity, `cluster.toml` |
//! | `resp_parser` | what a Redis client sends, in pieces |
//! | `resp_gateway` | the same through a whole gateway |
//! | `kv_commands` | commands as lines, executed one after the other |
//! | `kv_bytes` | operations and results as bytes |
//! | `verifier` | authenticated envelopes and certificates, under real keys |
//! | `client` | what a lying replica answers to a client |
//! | `trace` | the language of golden traces |
//! | `storage` | what is in a data folder: log and snapshots |
//! | `counter` | what a replica asks the process of its trusted counter |

#![forbid(unsafe_code)]

pub mod input;
pub mod memory;
pub mod replay;
pub mod targets;

/// What to do with an input. Panics if a property does not hold.
pub type Run = fn(&[u8]);

/// One way for bytes to come in.
#[derive(Clone, Copy)]
pub struct Target {
    /// As on the command line and in `corpora`.
    pub name: &'static str,
    /// What to do with an input.
    pub run: Run,
    /// Inputs made of what honest nodes say, for mutations to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// The target of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    targets::ALL.iter().find(|target| target.name == name)
}
