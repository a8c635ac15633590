//! What a replica is started with.

use bytes::Bytes;
use pentarchy_core::auth::Verifier;
use pentarchy_core::counter::Usig;
use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::ids::{ClientId, ReplicaId, ReplicaSet};
use pentarchy_core::limits::{PENDING_ENVELOPES_MAX, REPLY_WHOLE_BYTES};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::protocol::{BadRecord, Memory, Rules, Timeouts};
use pentarchy_core::service::Service;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_storage::kept::{Kept, Past};
use pentarchy_storage::snapshots::Snapshots;
use pentarchy_storage::spool::Spool;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// Makes what a replica needs anew in each epoch.
pub trait EpochFactory: Send {
    /// What checks others' statements in this epoch.
    fn verifier(&mut self, membership: &Arc<Membership>) -> Arc<dyn Verifier>;

    /// Starts the protocol's core; its first effects are appended. See [`Setup::fetch`] and
    /// [`Setup::memory`], whose records were [checked](Self::check_records). Called only for an
    /// epoch that admits this replica's device.
    ///
    /// [`Setup::fetch`]: pentarchy_core::protocol::Setup::fetch
    /// [`Setup::memory`]: pentarchy_core::protocol::Setup::memory
    fn core(
        &mut self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: Memory,
        effects: &mut Vec<CoreEffect>,
    ) -> Box<dyn ReplicaCore>;

    /// Whether [`Self::split`] starts something.
    fn can_split(&self) -> bool {
        false
    }

    /// The same core in parts: what merges the orders of several, and those, each to be run on a
    /// thread of its own. None if it cannot be taken apart.
    fn split(
        &mut self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: &Memory,
    ) -> Option<Split> {
        let _ = (membership, fetch, memory);
        None
    }

    /// Whether these are records of such a core.
    ///
    /// # Errors
    /// [`BadRecord`] names the first that is not.
    fn check_records(&self, records: &[Bytes]) -> Result<(), BadRecord>;
}

/// A core that was started.
pub struct Started {
    /// The core.
    pub core: Box<dyn ReplicaCore>,
    /// What it asked for.
    pub effects: Vec<CoreEffect>,
}

/// A core in parts.
pub struct Split {
    /// What merges their orders, and speaks with the host.
    pub stage: Started,
    /// Those that agree on them, by their numbers.
    pub cells: Vec<Started>,
}

/// What a replica keeps across a crash. The files belong to the life of its trusted device that it
/// is started with.
pub struct Storage {
    /// The open data folder.
    pub kept: Kept,
    /// What was in it. None if it is new, and this life of the device has certified nothing.
    pub past: Option<Past>,
    /// Where states are before they are in files, if they are not to be in memory.
    pub spool: Option<Arc<Spool>>,
}

/// States that outlive a replica's life without binding the next one.
pub struct States {
    /// The open folder.
    pub snapshots: Snapshots,
    /// The newest one there, of an earlier life.
    pub newest: Option<Snapshot>,
    /// As [`Storage::spool`].
    pub spool: Option<Arc<Spool>>,
}

/// What a replica is started with.
pub struct ReplicaConfig {
    /// Which replica this is.
    pub me: ReplicaId,
    /// The group as it began.
    pub membership: Arc<Membership>,
    /// Where each replica listens, in the order of their ids.
    pub addresses: Vec<SocketAddr>,
    /// Where this one does.
    pub listen: Listen,
    /// What users call the protocol.
    pub protocol: String,
    /// The protocol's rules.
    pub rules: Rules,
    /// The protocol's cores.
    pub epochs: Box<dyn EpochFactory>,
    /// What is replicated, in its initial state.
    pub service: Box<dyn Service>,
    /// This replica's key; the membership names its public half.
    pub keys: KeyPair,
    /// This replica's trusted counters, by their numbers.
    pub counters: Vec<Box<dyn Usig>>,
    /// Which life of it this is. If the membership admits another one, the replica begins by
    /// asking the group to admit this one, and has no vote until then.
    pub life: Life,
    /// Authenticates that request, under [`Self::keys`].
    pub signer: ClientSigner,
    /// The numbers behind symbolic delays.
    pub timeouts: Timeouts,
    /// Who may be a client.
    pub access: Access,
    /// Bounds of this host.
    pub limits: HostLimits,
    /// Where it keeps what it says, to go on as whom it was. None if it keeps nothing: then it must
    /// be another life that is started the next time.
    pub storage: Option<Storage>,
    /// Where it keeps states for its next life, if it keeps nothing else.
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

/// Who may be a client, beside having a key.
#[derive(Clone, Debug)]
pub enum Access {
    /// Anyone.
    Open,
    /// Only these.
    Listed(BTreeSet<ClientId>),
}

impl Access {
    /// Whether this client may connect.
    #[must_use]
    pub fn admits(&self, client: &ClientId) -> bool {
        match self {
            Self::Open => true,
            Self::Listed(clients) => clients.contains(client),
        }
    }
}

/// Bounds of one host. The defaults are for one replica on one machine.
#[derive(Clone, Copy, Debug)]
pub struct HostLimits {
    /// Clients connected at a time; for a further one, the one that was silent for longest gives
    /// way, unless that is less than a second.
    pub clients_max: usize,
    /// Connections whose other side has not said yet who it is. The oldest of those that
    /// come from the place that most come from gives way, so that strangers who connect and stay
    /// silent cannot keep others out.
    pub unknown_max: usize,
    /// Milliseconds to say who one is.
    pub hello_ms: u64,
    /// Milliseconds for a client to end what it has begun to send: what arrived of it waits.
    pub frame_ms: u64,
    /// Bytes read from one client in one round before the others get their turn.
    pub client_round_bytes: usize,
    /// Bytes read from all clients in one round, before the peers get their turn again.
    pub clients_round_bytes: usize,
    /// Bytes read from one peer in one round.
    pub peer_round_bytes: usize,
    /// Bytes that wait for a client before what else there is to say to it is dropped. If it reads
    /// next to nothing for five seconds, it is then disconnected. Also the bytes of results that
    /// one round collects for it. Above what is kept for a client
    /// ([`CLIENT_REPLIES_BYTES_MAX`](pentarchy_core::limits::CLIENT_REPLIES_BYTES_MAX)), or it
    /// never gets all of that when it asks again.
    pub client_queue_bytes: usize,
    /// Bytes that wait for a client above which its queries are not answered, and it is not sent
    /// again the events that it asks for; it has queries ordered, and asks for events again.
    pub query_queue_bytes: usize,
    /// Bytes that wait for all clients together; above it only those get more for whom less than
    /// an equal share of it waits.
    pub clients_queue_bytes: usize,
    /// Bytes that wait for a peer before new messages to it are dropped.
    pub peer_queue_bytes: usize,
    /// Bytes that wait for a peer above which its questions about state are dropped.
    pub transfer_queue_bytes: usize,
    /// Results of up to so many bytes every replica tells its client; of a longer one, one replica
    /// tells the result and the others its digest. At least
    /// [`REPLY_WHOLE_BYTES_MIN`](pentarchy_core::limits::REPLY_WHOLE_BYTES_MIN); `usize::MAX` has
    /// every replica tell every result. Replicas of a group need not agree on it.
    pub whole_result_bytes: usize,
    /// Bytes of large buffers that are kept to be used again.
    pub spare_bytes: usize,
    /// Bytes that wait for the disk above which nothing is read.
    pub disk_queue_bytes: usize,
    /// Envelopes that wait in the core above which clients are told to come back later.
    pub waiting_max: usize,
}

impl HostLimits {
    /// Of [`Self::clients_queue_bytes`] what every client may use, whatever waits for the others.
    pub(crate) const fn client_share_bytes(&self) -> usize {
        self.clients_queue_bytes / if self.clients_max == 0 { 1 } else { self.clients_max }
    }
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            clients_max: 1024,
            unknown_max: 64,
            hello_ms: 3_000,
            frame_ms: 60_000,
            client_round_bytes: 256 << 10,
            clients_round_bytes: 4 << 20,
            peer_round_bytes: 4 << 20,
            client_queue_bytes: 6 << 20,
            query_queue_bytes: 1 << 20,
            clients_queue_bytes: 16 << 20,
            peer_queue_bytes: 16 << 20,
            transfer_queue_bytes: 4 << 20,
            whole_result_bytes: REPLY_WHOLE_BYTES,
            spare_bytes: 8 << 20,
            disk_queue_bytes: 16 << 20,
            waiting_max: PENDING_ENVELOPES_MAX,
        }
    }
}
