//! From a [`ClusterConfig`] and secrets to something that runs.

use crate::config::{Admission, ClusterConfig};
use crate::generate::ReplicaSecrets;
use crate::protocols;
use pentarchy_client::{Client, ClientConfig, ConnectError};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::{BadMembership, Membership};
use pentarchy_core::protocol::{Setup, Tuning};
use pentarchy_core::service::Service;
use pentarchy_crypto::keys::{GroupSecret, KeyPair};
use pentarchy_crypto::request_auth::{BadMemberKey, ClientSigner};
use pentarchy_crypto::secret_file::SecretFileError;
use pentarchy_crypto::verifier::{BadVerifier, GroupVerifier, RequestMode};
use pentarchy_protocols::Entry;
use pentarchy_replica::{Access, HostLimits, Listen, Replica, ReplicaConfig};
use pentarchy_trusted::backend::in_process::BadDevice;
use pentarchy_trusted::identity::TakeError;
use pentarchy_trusted::{DeviceIdentity, InProcess};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;

/// Why a part of a cluster cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A name does not lead to an address.
    #[error("cannot resolve {address}: {problem}")]
    Resolve {
        /// The `host:port`.
        address: String,
        /// What the system says.
        problem: String,
    },
    /// No protocol can be safe in this group.
    #[error(transparent)]
    Membership(#[from] BadMembership),
    /// The configuration has no replica of this number.
    #[error("the configuration has replicas 0 to {last}, and no replica {id}")]
    NoSuchReplica {
        /// The number asked for.
        id: u16,
        /// The highest there is.
        last: usize,
    },
    /// The configuration names a protocol that this program does not have.
    #[error("this program has no protocol {0:?}")]
    Protocol(String),
    /// A secret cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    /// The trusted device's identity is used up, or another one than the group admits.
    #[error(transparent)]
    Identity(#[from] TakeError),
    /// The trusted device cannot be made.
    #[error(transparent)]
    Device(#[from] BadDevice),
    /// A key in the configuration is unusable.
    #[error(transparent)]
    MemberKey(#[from] BadMemberKey),
    /// A key in the configuration is unusable.
    #[error(transparent)]
    Verifier(#[from] BadVerifier),
    /// The replica's host refuses.
    #[error(transparent)]
    Replica(#[from] pentarchy_replica::StartError),
    /// The client's host refuses.
    #[error(transparent)]
    Client(#[from] ConnectError),
    /// What the system says.
    #[error("cannot start the cluster: {0}")]
    Io(#[from] std::io::Error),
}

/// Reads a replica's secrets from its folder. **Uses up its device's identity**: whatever happens
/// next, this replica cannot be started from this folder again, because it would have forgotten
/// what it promised.
///
/// # Errors
/// [`StartError`]; a configuration that no replica can run under, and a file that is missing or
/// open to others, use nothing up.
pub fn take_secrets(
    config: &ClusterConfig,
    id: u16,
    folder: &Path,
) -> Result<(ReplicaSecrets, GroupSecret), StartError> {
    let membership = config.membership();
    protocol(config)?;
    membership.check_hybrid()?;
    let member = membership
        .members
        .get(usize::from(id))
        .ok_or(StartError::NoSuchReplica { id, last: config.replicas.len().saturating_sub(1) })?;
    let key = KeyPair::load(&folder.join("key"))?;
    if key.public() != member.key {
        return Err(pentarchy_replica::StartError::WrongKey(ReplicaId(id)).into());
    }
    // For its check of every member's key: what follows uses the identity up.
    ClientSigner::macs(key.clone(), &membership)?;
    let group_secret = GroupSecret::load(&folder.join("group-secret"))?;
    let device = DeviceIdentity::take(&folder.join("device"), member)?;
    Ok((ReplicaSecrets { key, device }, group_secret))
}

fn protocol(config: &ClusterConfig) -> Result<&'static Entry, StartError> {
    protocols::find(&config.protocol).ok_or_else(|| StartError::Protocol(config.protocol.clone()))
}

/// Assembles a replica that listens and does nothing until it is run. `addresses` are those of all
/// replicas, from [`addresses`]: resolved by the caller, before it took the secrets, because names
/// fail to resolve now and then and the secrets can be taken only once.
///
/// # Errors
/// [`StartError`].
pub fn replica(
    config: &ClusterConfig,
    id: u16,
    secrets: ReplicaSecrets,
    group_secret: &GroupSecret,
    addresses: Vec<SocketAddr>,
    listen: Listen,
    service: Box<dyn Service>,
) -> Result<Replica, StartError> {
    let ReplicaSecrets { key, device } = secrets;
    let entry = protocol(config)?;
    let membership = Arc::new(config.membership());
    membership.check_hybrid()?;
    let me = ReplicaId(id);
    let usig = InProcess::open(&membership, me, device, Some(group_secret.as_bytes()))?;
    let mut verifier = GroupVerifier::new(
        membership.clone(),
        usig.check(),
        config.request_auth,
        Some((me, &key)),
    )?;
    if let Admission::Only(clients) = &config.admission {
        verifier = verifier.only(clients.iter().copied().collect());
    }
    let setup = Setup { me, membership: membership.clone(), tuning: Tuning::default() };
    let start = entry.start;
    Ok(Replica::new(ReplicaConfig {
        me,
        addresses,
        listen,
        core: Box::new(move |out| start(setup, out)),
        service,
        keys: key,
        usig: Box::new(usig),
        verifier: Arc::new(verifier),
        timeouts: config.timeouts,
        access: access(config),
        limits: HostLimits::default(),
        membership,
    })?)
}

fn access(config: &ClusterConfig) -> Access {
    match &config.admission {
        Admission::Open => Access::Open,
        Admission::Only(clients) => Access::Listed(clients.iter().copied().collect()),
    }
}

/// Connects a client. Does not wait for any replica: those that are down are dialled again.
///
/// # Errors
/// [`StartError`] if an address cannot be resolved or a key is unusable.
pub fn connect(config: &ClusterConfig, keys: KeyPair) -> Result<Client, StartError> {
    Ok(Client::connect(client_config(config, keys)?)?)
}

/// What a client of this group is connected with, for callers that change a part of it.
///
/// # Errors
/// [`StartError`] as for [`connect`].
pub fn client_config(config: &ClusterConfig, keys: KeyPair) -> Result<ClientConfig, StartError> {
    let membership = Arc::new(config.membership());
    let core = protocols::client_core(config, keys.client_id());
    let signer = signer(config, keys.clone(), &membership)?;
    let client = ClientConfig::new(membership, addresses(config)?, keys, core);
    Ok(ClientConfig { signer, ..client })
}

fn signer(
    config: &ClusterConfig,
    keys: KeyPair,
    membership: &Membership,
) -> Result<ClientSigner, BadMemberKey> {
    match config.request_auth {
        RequestMode::Signature => Ok(ClientSigner::signature(keys, membership.domain())),
        RequestMode::Mac => ClientSigner::macs(keys, membership),
    }
}

/// Where each replica listens, in the order of their ids.
///
/// # Errors
/// [`StartError::Resolve`].
pub fn addresses(config: &ClusterConfig) -> Result<Vec<SocketAddr>, StartError> {
    config.replicas.iter().map(|entry| resolve(&entry.address)).collect()
}

fn resolve(address: &str) -> Result<SocketAddr, StartError> {
    let problem = match address.to_socket_addrs() {
        Ok(mut found) => match found.next() {
            Some(found) => return Ok(found),
            None => "no address".to_owned(),
        },
        Err(error) => error.to_string(),
    };
    Err(StartError::Resolve { address: address.to_owned(), problem })
}
