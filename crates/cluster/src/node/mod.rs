//! From a [`ClusterConfig`] and secrets to something that runs.

mod client;

pub use client::{client_config, client_quorums, connect, signing_client_config};

use crate::config::{Admission, ClusterConfig, CounterPlace};
use crate::data::{DataError, DataFolder, new_life};
use crate::generate::ReplicaSecrets;
use crate::protocols;
use pentarchy_client::ConnectError;
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Signature, Verifier};
use pentarchy_core::change::Change;
use pentarchy_core::counter::{Counter, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::ids::{MemberId, ReplicaId, ReplicaSet};
use pentarchy_core::membership::{BadMembership, Life, Membership};
use pentarchy_core::protocol::{BadRecord, Memory, Rules, Setup, Tuning};
use pentarchy_core::service::Service;
use pentarchy_crypto::keys::{GroupSecret, KeyPair};
use pentarchy_crypto::request_auth::{BadMemberKey, BadSessionKey, ClientSigner};
use pentarchy_crypto::secret_file::SecretFileError;
use pentarchy_crypto::signing_keys::{SharedSigningKeys, SigningKeys};
use pentarchy_crypto::verifier::{
    BadVerifier, GroupVerifier, RequestMode, SessionCheck, UsigCheck,
};
use pentarchy_protocols::Descriptor;
use pentarchy_protocols::pillars::{Part, Parts};
use pentarchy_replica::{
    Access, EpochFactory, HostLimits, Listen, Prepared, Replica, ReplicaConfig, Split, Started,
    States, Storage,
};
use pentarchy_trusted::backend::in_process::BadDevice;
use pentarchy_trusted::backend::process::question::Device;
use pentarchy_trusted::backend::process::{ApartCheck, BadProcess, UsigProcess};
use pentarchy_trusted::identity::{DeviceIdentity, TakeError};
use pentarchy_trusted::{Check, CounterProcess, InProcess, OrderCheck, OrderCounter, session};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{error, warn};

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
}

/// Where a replica's trusted counter is, with what it rests on.
pub enum Trusted {
    /// In this process, under the group's secret.
    Here(GroupSecret),
    /// In this process, which has read the secret. When it fails the replica has to end
    /// ([`CounterProcess::is_well`]).
    Apart(Arc<CounterProcess>),
}

/// The subcommand by which this program is the process of a trusted counter.
pub const COUNTER_COMMAND: &str = "counter";

/// Between two attempts at a folder of signing keys that failed.
const FOLDER_AGAIN: Duration = Duration::from_secs(2);

/// The folder of the keys by which a replica signs, in its folder of keys.
const SIGNING_FOLDER: &str = "signing";

/// The file of the group's secret in a folder of keys.
const GROUP_SECRET: &str = "group-secret";

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
    let signing = SigningKeys::open(&folder.join(SIGNING_FOLDER), key.clone())?;
    // For its check of every member's key: what follows uses the identity up.
    ClientSigner::macs(key.clone(), &membership)?;
    let secret = folder.join(GROUP_SECRET);
    let here = match config.counter {
        CounterPlace::InProcess => {
            let secret = GroupSecret::load(&secret)?;
            check_session_key(config, || Ok(session::public_key(secret.as_bytes())))?;
            Some(secret)
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
        Some(secret) => Trusted::Here(secret),
        None => Trusted::Apart(counter_process(config, ReplicaId(id), &device, &secret)?),
    };
    Ok(Taken { secrets: ReplicaSecrets { key, signing, device }, trusted, storage, states })
}

/// Starts the process of a replica's counter.
fn counter_process(
    config: &ClusterConfig,
    me: ReplicaId,
    identity: &DeviceIdentity,
    secret: &Path,
) -> Result<Arc<CounterProcess>, StartError> {
    let entry = protocol(config)?;
    let first = config.membership();
    let member = first.members.get(usize::from(me.0));
    let member = member.ok_or(pentarchy_replica::StartError::NotAMember(me))?;
    let device = match entry.rules.device() {
        Counter::Usig => Device::Usig,
        Counter::Trinx => Device::Trinx(first.lane.pillars.into()),
        Counter::Unbound => return Err(StartError::Protocol(entry.rules.name.to_owned())),
    };
    let mut program = Command::new(std::env::current_exe()?);
    program.arg(COUNTER_COMMAND).arg(secret);
    let process = CounterProcess::start(program, device, first.epoch_id(), member.id, identity)?;
    check_session_key(config, || process.session_key().map_err(|_| BadProcess::Silent))?;
    Ok(process)
}

/// Whether the devices' key that clients find in the configuration is theirs.
fn check_session_key(
    config: &ClusterConfig,
    devices: impl FnOnce() -> Result<[u8; 32], BadProcess>,
) -> Result<(), StartError> {
    match (config.request_auth, config.session_key) {
        (RequestMode::Session, Some(key)) if key == devices()? => Ok(()),
        (RequestMode::Session, Some(_)) => Err(StartError::OtherSessionKey),
        (RequestMode::Session, None) => Err(StartError::NoSessionKey),
        (RequestMode::Signature | RequestMode::Mac, _) => Ok(()),
    }
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
    let Taken { secrets, trusted, storage, states } = taken;
    let ReplicaSecrets { key, signing, device } = secrets;
    let entry = protocol(config)?;
    let membership = Arc::new(config.membership());
    membership.check(&entry.rules)?;
    let counter_process = match &trusted {
        Trusted::Here(secret) => {
            check_session_key(config, || Ok(session::public_key(secret.as_bytes())))?;
            None
        }
        Trusted::Apart(process) => process.id(),
    };
    let me = ReplicaId(id);
    let member = membership.members.get(usize::from(id));
    let member = member.ok_or(pentarchy_replica::StartError::NotAMember(me))?;
    let life = Life { incarnation: device.incarnation(), device_key: device.device_key() };
    let (counters, check) =
        trusted_counters(&entry.rules, &membership, member.id, device, &trusted)?;
    let requests = match config.request_auth {
        RequestMode::Session => {
            let sessions = check.sessions(&membership, &trusted);
            Requests::Session(sessions.ok_or(StartError::NoSessionKey)?)
        }
        mode => Requests::Mode(mode),
    };
    let epochs = Epochs {
        me: member.id,
        entry,
        life,
        signing: signing.clone(),
        failed: None,
        is_erasing: false,
        check,
        requests,
        admission: config.admission.clone(),
        tuning: config.tuning,
    };
    // Later memberships have the same keys, so what can be checked once can be checked always.
    epochs.try_verifier(&membership)?;
    let replica = Replica::new(ReplicaConfig {
        me,
        addresses,
        listen,
        protocol: config.protocol.clone(),
        rules: entry.rules,
        epochs: Box::new(epochs),
        service,
        signer: ClientSigner::signature(key.clone(), membership.group_domain()),
        keys: key,
        signing,
        counters,
        life,
        timeouts: config.timeouts,
        access: access(config),
        limits: HostLimits::default(),
        storage,
        states,
        membership,
        links: config.later.as_ref().map_or_else(Vec::new, |later| later.links.clone()),
    })?;
    Ok(replica.with_counter_process(counter_process))
}

/// The devices that a protocol rests on, and what checks those of others. There are none for rules
/// that are not safe.
fn trusted_counters(
    rules: &Rules,
    membership: &Membership,
    me: MemberId,
    identity: DeviceIdentity,
    trusted: &Trusted,
) -> Result<(Vec<Box<dyn Usig>>, CounterCheck), StartError> {
    let count = membership.lane.pillars;
    Ok(match (rules.device(), trusted) {
        (Counter::Usig, Trusted::Here(secret)) => {
            let usig = InProcess::open(membership, me, identity, Some(secret.as_bytes()))?;
            let check = CounterCheck::Usig(usig.check());
            (vec![Box::new(usig)], check)
        }
        (Counter::Usig, Trusted::Apart(process)) => {
            let usig = UsigProcess::new(process.clone(), membership);
            let check = CounterCheck::Apart(usig.check());
            (vec![Box::new(usig)], check)
        }
        (Counter::Trinx, Trusted::Here(secret)) => {
            let secret = secret.as_bytes();
            let orders = OrderCounter::open_all(membership, me, &identity, Some(secret), count)?;
            let check = CounterCheck::Trinx(Arc::new(OrderCheck::new(secret, membership)));
            (boxed(orders), check)
        }
        (Counter::Trinx, Trusted::Apart(process)) => {
            let orders = OrderCounter::apart_all(process, membership, count);
            let check = OrderCheck::apart(process.clone(), membership);
            (boxed(orders), CounterCheck::Trinx(Arc::new(check)))
        }
        (Counter::Unbound, _) => return Err(StartError::Protocol(rules.name.to_owned())),
    })
}

fn boxed<U: Usig + 'static>(counters: Vec<U>) -> Vec<Box<dyn Usig>> {
    counters.into_iter().map(|counter| -> Box<dyn Usig> { Box::new(counter) }).collect()
}

/// Checks certificates of one kind of device.
enum CounterCheck {
    /// Of USIGs, in this process.
    Usig(Arc<Check>),
    /// Of USIGs, by asking another process.
    Apart(Arc<ApartCheck>),
    Trinx(Arc<OrderCheck>),
}

impl CounterCheck {
    fn for_epoch(&self, membership: &Membership) -> Arc<dyn UsigCheck> {
        match self {
            Self::Usig(check) => Arc::new(check.for_epoch(membership)),
            Self::Apart(check) => Arc::new(check.for_epoch(membership)),
            Self::Trinx(check) => Arc::new(check.for_epoch(membership)),
        }
    }

    /// What devices of every kind have in common: the tags of clients.
    fn sessions(
        &self,
        membership: &Membership,
        trusted: &Trusted,
    ) -> Option<Arc<dyn SessionCheck>> {
        let sessions = match (trusted, self) {
            (Trusted::Apart(process), _) => return Some(process.clone()),
            (Trusted::Here(_), Self::Usig(check)) => check.sessions(membership)?,
            (Trusted::Here(secret), Self::Apart(_) | Self::Trinx(_)) => {
                Check::mac(secret.as_bytes(), membership).sessions(membership)?
            }
        };
        Some(Arc::new(sessions))
    }
}

/// Makes the parts of a replica that change with the epoch.
struct Epochs {
    me: MemberId,
    entry: &'static Descriptor,
    life: Life,
    signing: SharedSigningKeys,
    /// When it could not make or erase a key.
    failed: Option<Instant>,
    /// Keys of an earlier configuration could not be erased yet.
    is_erasing: bool,
    check: CounterCheck,
    requests: Requests,
    admission: Admission,
    tuning: Tuning,
}

/// How requests are checked.
enum Requests {
    /// Without the device.
    Mode(RequestMode),
    /// By the device, which keeps the clients' keys through all epochs.
    Session(Arc<dyn SessionCheck>),
}

impl Epochs {
    /// Which replica this is in an epoch. One without a place has ended.
    fn place(&self, membership: &Membership) -> ReplicaId {
        membership.index_of(self.me).expect("a replica without a place ends")
    }

    fn setup(
        &self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: Memory,
    ) -> Setup {
        let (me, tuning) = (self.place(membership), self.tuning);
        Setup { me, membership: membership.clone(), fetch, memory, tuning }
    }

    /// Whether the folder of signing keys failed lately: it is not tried again in each round.
    fn is_pausing(&self) -> bool {
        self.failed.is_some_and(|failed| failed.elapsed() < FOLDER_AGAIN)
    }

    fn report_erasing(&mut self, erased: std::io::Result<()>) {
        if let Err(error) = erased {
            warn!(%error, "cannot erase a key that is not used any more; trying again");
            self.failed = Some(Instant::now());
        }
    }

    fn try_verifier(&self, membership: &Arc<Membership>) -> Result<GroupVerifier, BadVerifier> {
        let check = self.check.for_epoch(membership);
        let place = self.place(membership);
        let signing = self.signing.lock();
        // Without its key for this epoch it believes nothing that is said to it alone.
        let key = signing.get(&membership.members[usize::from(place.0)].signing);
        let key = key.unwrap_or_else(|| {
            error!(
                epoch = %membership.epoch,
                "this replica lacks its signing key of this epoch, so the others accept nothing \
                 that it signs until administrators run `pentarchy members refresh`"
            );
            signing.current()
        });
        let me = Some((place, key));
        let verifier = match &self.requests {
            Requests::Mode(mode) => GroupVerifier::new(membership.clone(), check, *mode, me)?,
            Requests::Session(sessions) => {
                GroupVerifier::with_sessions(membership.clone(), check, sessions.clone())?
            }
        };
        let verifier = verifier.of_member(place, key.clone());
        Ok(match &self.admission {
            Admission::Open => verifier,
            Admission::Only(clients) => verifier.only(clients.iter().copied().collect()),
        })
    }
}

impl EpochFactory for Epochs {
    fn verifier(&mut self, membership: &Arc<Membership>) -> Arc<dyn Verifier> {
        let verifier = self.try_verifier(membership);
        Arc::new(
            verifier
                .expect("the file's keys were checked, and a member shows that it has a later one"),
        )
    }

    fn core(
        &mut self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: Memory,
        effects: &mut Vec<CoreEffect>,
    ) -> Box<dyn ReplicaCore> {
        (self.entry.start)(self.setup(membership, fetch, memory), effects)
    }

    fn can_split(&self) -> bool {
        self.entry.split.is_some()
    }

    fn split(
        &mut self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: &Memory,
    ) -> Option<Split> {
        let setup = self.setup(membership, fetch, memory.clone());
        let Parts { merger, pillar_cores } = (self.entry.split?.start)(setup);
        let started = |Part { core, effects }| Started { core, effects };
        Some(Split {
            merger: started(merger),
            pillar_cores: pillar_cores.into_iter().map(started).collect(),
        })
    }

    fn prepare(&mut self, change: &Change, _: &Digest) -> Option<Prepared> {
        // Clients go by the keys in their own file.
        if !change.next.can_rekey() {
            return None;
        }
        if self.is_pausing() {
            return None;
        }
        match self.signing.lock().prepare(change) {
            Ok(signing) => Some(Prepared { signing, life: self.life }),
            Err(error) => {
                warn!(%error, "cannot make a key for the next configuration; trying again");
                self.failed = Some(Instant::now());
                None
            }
        }
    }

    fn sign_as(&self, signing: &[u8; 32], statement: &Digest) -> Option<Signature> {
        let keys = self.signing.lock();
        keys.get(signing).map(|key| Signature(key.sign(statement)))
    }

    fn erase_former_keys(&mut self) {
        let erased = self.signing.lock().erase_former();
        self.is_erasing = erased.is_err();
        self.report_erasing(erased);
    }

    fn has_former_keys(&self) -> bool {
        self.signing.lock().has_former()
    }

    fn forget_prepared(&mut self, is_void: &dyn Fn(&Change) -> bool) {
        if self.is_pausing() {
            return;
        }
        if self.is_erasing {
            self.erase_former_keys();
        }
        let forgotten = self.signing.lock().forget(is_void);
        self.report_erasing(forgotten);
    }

    fn check_records(&self, records: &[Bytes]) -> Result<(), BadRecord> {
        (self.entry.check_records)(records)
    }
}

/// Whom replicas let in beside members and administrators, who change with the group.
fn access(config: &ClusterConfig) -> Access {
    match &config.admission {
        Admission::Open => Access::Open,
        Admission::Only(clients) => Access::Listed(clients.iter().copied().collect()),
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
