//! Byzantine fault-tolerant replication, to build services on.

#![forbid(unsafe_code)]

pub mod config;
pub mod files;
pub mod generate;
pub mod node;
pub mod protocols;

pub use pentarchy_core::limits;
pub use pentarchy_crypto::verifier::RequestMode;
