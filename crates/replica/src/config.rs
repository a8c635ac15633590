//! What a replica is started with.

use pentarchy_core::configuration::Access;
use pentarchy_core::counter::Usig;
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::protocol::Timeouts;
use pentarchy_core::service::Service;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_crypto::signing_keys::SharedSigningKeys;
pub use pentarchy_machine::{EpochFactory, HostLimits, Prepared, Split, Started};
use pentarchy_storage::kept::{Kept, Past};
use pentarchy_storage::snapshots::Snapshots;
use pentarchy_storage::temp_blobs::TempBlobs;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// What a replica keeps across a crash. The files belong to the life of its trusted device that it
/// is started with.
pub struct Storage {
    /// The open data folder.
    pub kept: Kept,
    /// What was in it. None if it is new, and this life of the device has certified nothing.
    pub past: Option<Past>,
    /// Where states are before they are in files, if they are not to be in memory.
    pub spool: Option<Arc<TempBlobs>>,
}

/// States that outlive an incarnation without binding the next one.
pub struct States {
    /// The open folder.
    pub snapshots: Snapshots,
    /// The newest one there, of an earlier life.
    pub newest: Option<Snapshot>,
    /// As [`Storage::spool`].
    pub spool: Option<Arc<TempBlobs>>,
}

/// What a replica is started with.
pub struct ReplicaConfig {
    /// Which replica this is.
    pub me: ReplicaId,
    /// The group as it began, or as it was when this replica joined it.
    pub membership: Arc<Membership>,
    /// How its configurations had ended by then, from the first one on.
    pub links: Vec<Proof>,
    /// Where each replica listens, in the order of their ids.
    pub addresses: Vec<SocketAddr>,
    /// Where this one does.
    pub listen: Listen,
    /// The protocols' cores.
    pub epochs: Box<dyn EpochFactory>,
    /// What is replicated, in its initial state or in the one that was learned.
    pub service: Box<dyn Service>,
    /// The state to which [`Executor::teach`](pentarchy_core::executor::Executor::teach) brought
    /// the service before this machine was a member, if it did.
    pub learned: Option<Snapshot>,
    /// This replica's identity key; the membership names its public half.
    pub keys: KeyPair,
    /// The keys by which it signs, one for each configuration.
    pub signing: SharedSigningKeys,
    /// This replica's trusted counters, by their numbers.
    pub counters: Vec<Box<dyn Usig>>,
    /// Which life of it this is. If the membership admits another one, the replica begins by
    /// asking the group to admit this one, and has no vote until then.
    pub life: Life,
    /// Authenticates that request, under [`Self::keys`].
    pub signer: ClientSigner,
    /// The numbers behind symbolic delays.
    pub timeouts: Timeouts,
    /// Who may be a client, as long as no administrator has changed the group.
    pub access: Access,
    /// Bounds of this host.
    pub limits: HostLimits,
    /// Where it keeps what it says, to resume under its identity. None if it keeps nothing: then
    /// the next one that is started must be another incarnation.
    pub storage: Option<Storage>,
    /// Where it keeps states for its next incarnation, if it keeps nothing else.
    pub states: Option<States>,
}

/// Where to listen.
#[derive(Debug)]
pub enum Listen {
    /// On this address.
    Address(SocketAddr),
    /// On a socket that was bound before.
    Bound(TcpListener),
}
