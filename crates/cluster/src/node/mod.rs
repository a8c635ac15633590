//! From a [`ClusterConfig`] and secrets to something that runs.

mod client;
mod counters;
mod epochs;

pub use client::{
    client_config, client_quorums, connect, keeping_client_config, signing_client_config,
};
pub use counters::{COUNTER_COMMAND, Trusted};
use epochs::Epochs;

use crate::config::{ClusterConfig, CounterPlace};
use crate::data::{DataError, DataFolder, new_life};
use crate::generate::{ReplicaSecrets, SIGNING_FOLDER};
use crate::protocols;
use pentarchy_client::ConnectError;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::BadMembership;
use pentarchy_core::service::Service;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::request_auth::{BadMemberKey, BadSessionKey, ClientSigner};
use pentarchy_crypto::secret_file::SecretFileError;
use pentarchy_crypto::signing_keys::{SharedSigningKeys, SigningKeys};
use pentarchy_crypto::verifier::BadVerifier;
use pentarchy_protocols::Descriptor;
use pentarchy_replica::{HostLimits, Listen, Replica, ReplicaConfig, States, Storage};
use pentarchy_trusted::backend::in_process::BadDevice;
use pentarchy_trusted::backend::process::BadProcess;
use pentarchy_trusted::identity::TakeError;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
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
    /// The group has let this machine go, or has not taken it yet.
    #[error("machine {0} is no member of the group")]
    NotAMember(usize),
    /// The configuration names a protocol that this program does not have.
    #[error("this program has no protocol {0:?}")]
    Protocol(String),
    /// The order of the protocol cannot be split like that.
    #[error("{0}")]
    Pillars(String),
    /// A secret cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    /// The data folder cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The trusted device's identity cannot be taken, or is another one than the group admits.
    #[error(transparent)]
    Identity(#[from] TakeError),
    /// The trusted device cannot be made.
    #[error(transparent)]
    Device(#[from] BadDevice),
    /// The trusted device's process cannot be started.
    #[error(transparent)]
    Counter(#[from] BadProcess),
    /// A key in the configuration is unusable.
    #[error(transparent)]
    MemberKey(#[from] BadMemberKey),
    /// A key in the configuration is unusable.
    #[error(transparent)]
    SessionKey(#[from] BadSessionKey),
    /// A key in the configuration is unusable.
    #[error(transparent)]
    Verifier(#[from] BadVerifier),
    /// Nothing says what the trusted devices share.
    #[error(
        "{path}: neither `group-secret` nor what takes its place in `signing` is there, so this \
         member's trusted device can certify nothing. Put the files back if you have moved them, \
         but no older copy; otherwise replace the member: `pentarchy members replace`",
        path = .0.display()
    )]
    NoSecret(PathBuf),
    /// The group goes on without it.
    #[error(
        "{path}: the group goes on without this member, which has erased its keys. To have the \
         machine join again, remove its folders and prepare it anew: `pentarchy members prepare`",
        path = .0.display()
    )]
    Retired(PathBuf),
    /// The same, and some of its keys are still there.
    #[error("{path}: cannot erase the keys of a member that has left: {1}", path = .0.display())]
    Retiring(PathBuf, #[source] std::io::Error),
    /// The trusted devices cannot check the sessions of this configuration's clients.
    #[error(
        "the session_key of the configuration is not that of this replica's trusted device: take \
         the configuration and the secrets that were made together"
    )]
    OtherSessionKey,
    /// Clients are to authenticate by sessions, and the configuration says nothing to do it with.
    #[error(
        "request_auth is \"session\", and the configuration names no session_key of trusted \
         devices that share a secret"
    )]
    NoSessionKey,
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

/// What a replica is started with beside the configuration.
pub struct Taken {
    /// Its key and its device.
    pub secrets: ReplicaSecrets,
    /// What the group's devices share, or the process that holds it.
    pub trusted: Trusted,
    /// Where it keeps what it says, if it does.
    pub storage: Option<Storage>,
    /// Where it keeps states for its next life, if that is all.
    pub states: Option<States>,
    /// The state to which its service was brought before it was a member, if it was.
    pub learned: Option<Snapshot>,
}

/// The file of the group's secret in a folder of keys.
const GROUP_SECRET: &str = "group-secret";

/// Opens the keys by which a member signs, in its folder. If the member has left, erases those that
/// it could not erase then, as when it crashed.
///
/// # Errors
/// [`StartError`]
pub fn signing_keys(
    config: &ClusterConfig,
    key: &KeyPair,
    folder: &Path,
) -> Result<SharedSigningKeys, StartError> {
    let secret = folder.join(GROUP_SECRET);
    let readable = (config.counter == CounterPlace::InProcess).then_some(&*secret);
    let signing = SigningKeys::open(&folder.join(SIGNING_FOLDER), key.clone(), readable)?;
    if signing.lock().is_retired() {
        let retired = signing.lock().retire();
        retired.map_err(|error| StartError::Retiring(folder.to_owned(), error))?;
    }
    Ok(signing)
}

/// Reads a replica's secrets from its folder. Without a data folder this **uses up its device's
/// identity**: when this replica is started from this folder again, it has forgotten what it
/// promised, and so it gets a device that begins a new incarnation. The replica then asks the group
/// to admit it. With a data folder that holds what this replica said it goes on as whom it was.
///
/// With [`CounterPlace::Process`] the group's secret is not read here: this starts the program in
/// which it runs a second time, as `counter FILE`, and a program other than `pentarchy` has to do
/// there what that does: [`serve`](pentarchy_trusted::backend::process::serve::serve).
///
/// # Errors
/// [`StartError`]; a configuration that no replica can run under, and a file that is missing or
/// open to others, use nothing up.
pub fn take_secrets(
    config: &ClusterConfig,
    id: u16,
    folder: &Path,
    data: impl FnOnce() -> Result<Option<DataFolder>, StartError>,
) -> Result<Taken, StartError> {
    let rules = &protocol(config)?.rules;
    let membership = config.membership();
    membership.check(rules)?;
    let member = membership
        .members
        .get(usize::from(id))
        .ok_or(StartError::NoSuchReplica { id, last: config.replicas.len().saturating_sub(1) })?;
    let key = KeyPair::load(&folder.join("key"))?;
    if member.identity != key.public() {
        return Err(pentarchy_replica::StartError::WrongKey(ReplicaId(id)).into());
    }
    let secret = folder.join(GROUP_SECRET);
    let signing = signing_keys(config, &key, folder)?;
    if signing.lock().is_retired() {
        return Err(StartError::Retired(folder.to_owned()));
    }
    // For its check of every member's key: what follows uses the identity up.
    ClientSigner::macs(key.clone(), &membership)?;
    let here = match config.counter {
        CounterPlace::InProcess => {
            // It is erased once the devices share another one, which is with the signing keys.
            if config.later.is_none() && !signing.lock().has_left(0) && !secret.exists() {
                return Err(StartError::NoSecret(folder.to_owned()));
            }
            let here = Trusted::Here(signing.clone());
            here.check_session_key(config)?;
            Some(here)
        }
        CounterPlace::Process => None,
    };
    let (device, storage, states) = match data()? {
        None => (new_life(config, folder, member)?, None, None),
        Some(data) if data.keeps_only_states() => {
            let states = data.states(config, id)?;
            (new_life(config, folder, member)?, None, Some(states))
        }
        Some(data) => {
            let (device, kept) = data.take(config, id, folder)?;
            (device, Some(kept), None)
        }
    };
    let trusted = match here {
        Some(here) => here,
        None => counters::process(config, ReplicaId(id), &device, &secret)?,
    };
    let secrets = ReplicaSecrets { key, signing, device };
    Ok(Taken { secrets, trusted, storage, states, learned: None })
}

fn protocol(config: &ClusterConfig) -> Result<&'static Descriptor, StartError> {
    protocols::in_lane(&config.protocol, config.lane)
        .ok_or_else(|| StartError::Protocol(config.protocol.clone()))
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
    taken: Taken,
    addresses: Vec<SocketAddr>,
    listen: Listen,
    service: Box<dyn Service>,
) -> Result<Replica, StartError> {
    let Taken { secrets, trusted, storage, states, learned } = taken;
    let ReplicaSecrets { key, signing, device } = secrets;
    let entry = protocol(config)?;
    let membership = Arc::new(config.membership());
    membership.check(&entry.rules)?;
    let counter_process = match &trusted {
        Trusted::Here(_) => {
            trusted.check_session_key(config)?;
            None
        }
        Trusted::Apart(process) => process.id(),
    };
    let me = ReplicaId(id);
    let member = membership.members.get(usize::from(id));
    let member = member.ok_or(pentarchy_replica::StartError::NotAMember(me))?;
    let life = device.life();
    let counters = counters::open(&membership, member.id, device, &trusted)?;
    let mine = (member.id, life, signing.clone());
    let epochs = Epochs::new(config, &membership, mine, trusted)?;
    // Later memberships have the same keys, so what can be checked once can be checked always.
    epochs.try_verifier(&membership)?;
    let replica = Replica::new(ReplicaConfig {
        me,
        addresses,
        listen,
        epochs: Box::new(epochs),
        service,
        learned,
        signer: ClientSigner::signature(key.clone(), membership.group_domain()),
        keys: key,
        signing,
        counters,
        life,
        timeouts: config.timeouts,
        access: config.access.clone(),
        limits: HostLimits::default(),
        storage,
        states,
        membership,
        links: config.later.as_ref().map_or_else(Vec::new, |later| later.links.clone()),
    })?;
    Ok(replica.with_counter_process(counter_process))
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
