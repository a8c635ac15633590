//! A cluster's configuration, keys and folders, and what runs from them: replicas, clients, or a
//! whole cluster in this process. `pentarchy` passes all of this on to its users; the commands that
//! measure, and tests, need no more than this of it.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`config`], [`generate`] | `cluster.toml`; a new one, with all keys |
//! | [`data`], [`files`] | what a replica keeps on disk; private files and folders |
//! | [`node`] | from configuration and keys to a replica or a client |
//! | [`cluster`] | all replicas in this process |
//! | [`administration`], [`card`] | how administrators change a group; what they see of a machine |
//! | [`following`], [`joining`] | how a client follows a group, and a machine joins it |
//! | [`rescue`] | how a group that was lost goes on |
//! | [`protocols`] | the protocols that can be run |

#![forbid(unsafe_code)]

pub mod administration;
pub mod card;
pub mod chain_file;
pub mod cluster;
pub mod config;
pub mod data;
mod error;
pub mod files;
pub mod following;
pub mod generate;
pub mod joining;
pub mod learning;
pub mod node;
pub mod protocols;
pub mod rescue;

pub use cluster::{AlterError, LocalAlteration, LocalCluster};
pub use pentarchy_client::{Client, ClientEvent, Completions, Pending, RequestError};
pub use pentarchy_client::{Comparator, Extractor, Kind, ReplyListener, RequestId, ServiceProxy};
pub use pentarchy_core::Bytes;
pub use pentarchy_core::ids::{ClientId, Millis, ReplicaId, Slot};
pub use pentarchy_core::limits;
pub use pentarchy_core::protocol::Timeouts;
pub use pentarchy_core::service::{Context, Event, Replier, Service, SmallService, Whole};
pub use pentarchy_core::wire::Malformed;
pub use pentarchy_crypto::keys::KeyPair;
pub use pentarchy_crypto::verifier::RequestMode;
pub use pentarchy_replica::StatusReport;
pub use pentarchy_replica::fault::Fault;
