//! `cluster.toml`: what everybody may know about a cluster. Replicas, gateways and clients read the
//! same file; secrets live elsewhere (`pentarchy init` makes them).

mod file;
mod parse;
mod render;

pub use crate::error::ConfigError;
pub use parse::check_address;

use crate::protocols;
use pentarchy_core::configuration::{
    Access, Administrators, Configuration, MemberEntry, RequestMeans,
};
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::{GroupId, Incarnation, MemberId};
use pentarchy_core::membership::{Life, Membership, PillarConfig};
use pentarchy_core::protocol::{Timeouts, Tuning};
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::verifier::RequestMode;
use std::path::Path;
use std::sync::Arc;

/// Version of the file format, as in its `format` key.
pub const FORMAT: u64 = 1;

/// The largest `cluster.toml` that is read: 64 replicas and 4096 client keys fit many times.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What [`ClusterConfig::log_mib`] is unless the file says otherwise.
pub const LOG_MIB: u64 = 1024;

/// The smallest bound of a log: what a window holds, for two checkpoints, several times over.
pub const LOG_MIB_MIN: u64 = 256;

/// The largest bound of a log. All of it is read at each start.
pub const LOG_MIB_MAX: u64 = 64 << 10;

/// What [`ClusterConfig::timeouts`] are unless the file says otherwise. From a primary's death to
/// the next completed request it is to take less than 600 ms: 150 until clients tell the backups,
/// 400 until these lose patience, and a view change of a few round trips.
#[must_use]
pub fn usual_timeouts() -> Timeouts {
    Timeouts { client_retry_ms: 150, ..Timeouts::default() }
}

/// A cluster, as all of its parts must agree on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterConfig {
    /// Random name of the group.
    pub group: GroupId,
    /// The protocol's name, as after `--protocol`.
    pub protocol: String,
    /// Faulty replicas that are tolerated.
    pub f: usize,
    /// How the order is split into pillars, each with views of its own; not at all by default.
    pub lane: PillarConfig,
    /// How clients convince replicas.
    pub request_auth: RequestMode,
    /// The public key of the replicas' trusted devices, with which clients agree on keys. There if
    /// and only if they do so to authenticate their requests ([`RequestMode::Session`]).
    pub session_key: Option<[u8; 32]>,
    /// What outlives a replica's process.
    pub durability: Durability,
    /// Where the trusted counters are. May differ from replica to replica.
    pub counter: CounterPlace,
    /// MiB that the log of what a replica said may have between checkpoints, from [`LOG_MIB_MIN`]
    /// to [`LOG_MIB_MAX`]. May differ from replica to replica.
    pub log_mib: u64,
    /// How long everyone waits.
    pub timeouts: Timeouts,
    /// Sizes that change speed and memory. No file says them: they are the defaults, unless a
    /// measurement asks for others.
    pub tuning: Tuning,
    /// Who may be a client.
    pub access: Access,
    /// Who may change the group while it runs; nobody, if there is no key.
    pub administrators: Administrators,
    /// The replicas, in the order of their ids.
    pub replicas: Vec<ReplicaEntry>,
    /// How the group came to be this one, if it has changed since it began. No file says it: see
    /// [`Self::follow`].
    pub later: Option<Later>,
}

/// A group after it has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Later {
    /// The epoch with which the configuration began.
    pub membership: Arc<Membership>,
    /// How the configurations before it ended, from the first one on.
    pub links: Vec<Proof>,
}

/// One replica in [`ClusterConfig`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaEntry {
    /// `host:port` where peers and clients reach it.
    pub address: String,
    /// Its public key.
    pub key: [u8; 32],
    /// The public key by which it signs in the first configuration.
    pub signing: [u8; 32],
    /// The life of its trusted device that the group admits.
    pub incarnation: Incarnation,
    /// Its device's public key; zero if the device certifies with the group's shared secret.
    pub device_key: [u8; 32],
}

/// The word for a mode in the file and on the command line.
#[must_use]
pub const fn request_mode_name(mode: RequestMode) -> &'static str {
    match mode {
        RequestMode::Signature => "signature",
        RequestMode::Mac => "mac",
        RequestMode::Session => "session",
    }
}

/// What outlives a replica's process (`docs/decisions/0005-durability.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Nothing: a replica that stops has forgotten what it promised, and comes back as a new
    /// incarnation.
    #[default]
    Memory,
    /// States of the service, saved now and then: the replica comes back as a new incarnation as
    /// well, and fetches only what changed since.
    Async,
    /// All that it said: it is synced to disk before it is said, and the replica goes on as whom it
    /// was, also when all of them stopped at once.
    Sync,
}

impl Durability {
    /// The word for it in the file and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Async => "async",
            Self::Sync => "sync",
        }
    }
}

/// Where a replica's trusted counter is (`docs/trust.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CounterPlace {
    /// In the replica's process.
    #[default]
    InProcess,
    /// In a process of its own, which the replica starts; the replica never holds the secret.
    Process,
}

impl CounterPlace {
    /// The word for it in the file and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::Process => "process",
        }
    }
}

impl ClusterConfig {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError`] with line and column where there are any.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = crate::files::read_bounded(path, FILE_BYTES_MAX)?;
        Self::parse(path, &text)
    }

    /// What the group is begun with: the configuration of number 0, or the one to which it was
    /// [followed](Self::follow).
    ///
    /// # Panics
    /// If no replica can run the protocol ([`protocols::in_lane`]), `f` is above 65,535, or clients
    /// are to use sessions and there is no `session_key`: no file says so that was read.
    #[must_use]
    pub fn configuration(&self) -> Configuration {
        if let Some(stated) = self.later.as_ref().and_then(|it| it.membership.stated.as_deref()) {
            return stated.clone();
        }
        let entry = protocols::in_lane(&self.protocol, self.lane).expect("replicas can run it");
        let member = |(id, entry): (u32, &ReplicaEntry)| MemberEntry {
            id: MemberId(id),
            identity: entry.key,
            signing: entry.signing,
            sealed: None,
            address: entry.address.clone(),
        };
        let members: Vec<_> = (0..).zip(&self.replicas).map(member).collect();
        Configuration {
            group: self.group,
            number: 0,
            protocol: self.protocol.clone(),
            facts: entry.rules.facts(),
            f: u16::try_from(self.f).expect("no group tolerates so many"),
            lane: self.lane,
            tuning: self.tuning,
            requests: match (self.request_auth, self.session_key) {
                (RequestMode::Session, key) => RequestMeans::Session(key.expect("sessions' key")),
                (RequestMode::Mac, _) => RequestMeans::Macs,
                (RequestMode::Signature, _) => RequestMeans::Signature,
            },
            secret: None,
            administrators: self.administrators.clone(),
            access: self.access.clone(),
            next_member: MemberId(members.len() as u32),
            members,
        }
    }

    /// Whether the group serves whoever has this key: as a client that it admits, a member or an
    /// administrator.
    #[must_use]
    pub fn admits(&self, keys: &KeyPair) -> bool {
        let is_member = self.replicas.iter().any(|entry| entry.key == keys.public());
        let governs = is_member || self.administrators.keys.contains(&keys.public());
        governs || self.access.admits(&keys.client_id())
    }

    /// The members with their keys, in the only epoch that a file describes, or in the one to which
    /// the group was [followed](Self::follow).
    ///
    /// # Panics
    /// As [`Self::configuration`].
    #[must_use]
    pub fn membership(&self) -> Membership {
        if let Some(later) = &self.later {
            return Membership::clone(&later.membership);
        }
        let life = |entry: &ReplicaEntry| Life {
            incarnation: entry.incarnation,
            device_key: entry.device_key,
        };
        let lives: Vec<_> = self.replicas.iter().map(life).collect();
        self.configuration().begin(&lives)
    }
}
