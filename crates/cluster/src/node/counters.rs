//! The trusted counters of a replica, and what checks those of others.

use super::{StartError, protocol};
use crate::config::ClusterConfig;
use pentarchy_core::configuration::Configuration;
use pentarchy_core::counter::{Counter, Memory, Position, Refused, TrustedMac, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Incarnation, MemberId, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_crypto::keys::GroupSecret;
use pentarchy_crypto::signing_keys::SharedSigningKeys;
use pentarchy_crypto::verifier::{RequestMode, SessionCheck, UsigCheck};
use pentarchy_trusted::backend::in_process::BadDevice;
use pentarchy_trusted::backend::process::question::Device;
use pentarchy_trusted::backend::process::{ApartCheck, UsigProcess};
use pentarchy_trusted::{
    Check, CounterProcess, DeviceIdentity, InProcess, OrderCheck, OrderCounter, session,
};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tracing::{info, warn};

/// Where a replica's trusted counter is, with what it rests on.
#[derive(Clone)]
pub enum Trusted {
    /// In this process, under the secrets that are here.
    Here(SharedSigningKeys),
    /// In this process, which has read the secret. When it fails the replica has to end
    /// ([`CounterProcess::is_well`]).
    Apart(Arc<CounterProcess>),
}

impl Trusted {
    /// The public key with which clients agree on keys with these devices in a configuration; none
    /// if they lack the secret that the members' devices share in it.
    pub(super) fn session_key(&self, of: &Configuration) -> Option<[u8; 32]> {
        match self {
            Self::Here(keys) => {
                let secret = keys.lock().secret_of(of)?;
                Some(session::public_key(secret.as_bytes()))
            }
            Self::Apart(process) => process.session_key().ok().filter(|_| of.secret.is_none()),
        }
    }

    /// Whether the devices' key that clients find in the configuration is theirs. Nobody can say of
    /// one that the group has left behind for good.
    pub(super) fn check_session_key(&self, config: &ClusterConfig) -> Result<(), StartError> {
        match (config.request_auth, config.session_key) {
            (RequestMode::Session, Some(key)) => match self.session_key(&config.configuration()) {
                Some(ours) if ours != key => Err(StartError::OtherSessionKey),
                _ => Ok(()),
            },
            (RequestMode::Session, None) => Err(StartError::NoSessionKey),
            (RequestMode::Signature | RequestMode::Mac, _) => Ok(()),
        }
    }

    /// Whether the devices have what the members' devices share in a configuration.
    pub(super) fn has_secret_of(&self, configuration: &Configuration) -> bool {
        match self {
            Self::Here(keys) => keys.lock().secret_of(configuration).is_some(),
            Self::Apart(_) => configuration.secret.is_none(),
        }
    }

    /// What checks the tags of clients. None if the members' devices share no secret.
    pub(super) fn sessions(&self, membership: &Membership) -> Option<Arc<dyn SessionCheck>> {
        match self {
            Self::Apart(process) => Some(process.clone()),
            Self::Here(keys) => {
                let is_shared = membership.members.iter().all(|member| member.life().is_mac());
                let secret = is_shared.then(|| secret_in(keys, membership))?;
                let check = Check::mac(secret.as_bytes(), membership);
                Some(Arc::new(check.sessions(membership)?))
            }
        }
    }
}

/// What the devices share in an epoch. If this member lacks it, it is a secret that nobody else
/// has: nobody believes what its device certifies, and it believes nobody's.
fn secret_in(keys: &SharedSigningKeys, membership: &Membership) -> GroupSecret {
    let stated = membership.stated.as_deref();
    let known = stated.and_then(|stated| keys.lock().secret_of(stated));
    known.unwrap_or_else(GroupSecret::generate)
}

/// The subcommand by which this program is the process of a trusted counter.
pub const COUNTER_COMMAND: &str = "counter";

/// Starts the process of a replica's counter.
pub(super) fn process(
    config: &ClusterConfig,
    me: ReplicaId,
    identity: &DeviceIdentity,
    secret: &Path,
) -> Result<Trusted, StartError> {
    let entry = protocol(config)?;
    let first = config.membership();
    let member = first.members.get(usize::from(me.0));
    let member = member.ok_or(pentarchy_replica::StartError::NotAMember(me))?;
    let device = device(entry.rules.device(), first.lane.pillars);
    let device = device.ok_or_else(|| StartError::Protocol(entry.rules.name.to_owned()))?;
    let mut program = Command::new(std::env::current_exe()?);
    program.arg(COUNTER_COMMAND).arg(secret);
    let epoch = first.epoch_id();
    let process = CounterProcess::start(program, device, epoch, member.id, identity)?;
    let trusted = Trusted::Apart(process);
    trusted.check_session_key(config)?;
    Ok(trusted)
}

/// As what a process is a counter of this kind; none for rules that are not safe.
const fn device(kind: Counter, instances: u8) -> Option<Device> {
    match kind {
        Counter::Usig => Some(Device::Usig),
        Counter::Trinx => Some(Device::Trinx(instances as u16)),
        Counter::Unbound => None,
    }
}

/// Of which kind the members' devices are in an epoch, as [`Rules::device`] has it.
///
/// [`Rules::device`]: pentarchy_core::protocol::Rules::device
pub(super) fn kind_in(membership: &Membership) -> Counter {
    let facts = membership.stated.as_ref().map(|stated| stated.facts);
    facts.and_then(|facts| facts.counter).unwrap_or_default()
}

/// The counters of a member, in its first epoch. There are none for rules that are not safe.
pub(super) fn open(
    membership: &Membership,
    me: MemberId,
    identity: DeviceIdentity,
    trusted: &Trusted,
) -> Result<Vec<Box<dyn Usig>>, StartError> {
    let (kind, secret) = (kind_in(membership), secret_name(membership));
    let incarnation = identity.incarnation();
    let opened = open_all(kind, membership, me, identity, trusted)?;
    let switching = |(lane, present)| -> Box<dyn Usig> {
        let trusted = trusted.clone();
        Box::new(SwitchingCounter { lane, kind, secret, present, me, incarnation, trusted })
    };
    Ok(opened.into_iter().enumerate().map(switching).collect())
}

/// Names the secret that the members' devices share in an epoch.
fn secret_name(membership: &Membership) -> Option<Digest> {
    membership.stated.as_ref().and_then(|stated| stated.secret)
}

/// As many of this kind as the order has pillars.
fn open_all(
    kind: Counter,
    membership: &Membership,
    me: MemberId,
    identity: DeviceIdentity,
    trusted: &Trusted,
) -> Result<Vec<Box<dyn Usig>>, StartError> {
    let count = membership.lane.pillars;
    Ok(match (kind, trusted) {
        (Counter::Usig, Trusted::Here(keys)) => {
            let secret = secret_in(keys, membership);
            let secret = Some(secret.as_bytes());
            vec![Box::new(InProcess::open(membership, me, identity, secret)?)]
        }
        (Counter::Usig, Trusted::Apart(process)) => {
            vec![Box::new(UsigProcess::new(process.clone(), membership))]
        }
        (Counter::Trinx, Trusted::Here(keys)) => {
            let secret = secret_in(keys, membership);
            let secret = Some(secret.as_bytes());
            boxed(OrderCounter::open_all(membership, me, &identity, secret, count)?)
        }
        (Counter::Trinx, Trusted::Apart(process)) => {
            boxed(OrderCounter::apart_all(process, membership, count))
        }
        (Counter::Unbound, _) => return Err(StartError::Protocol("unbound".to_owned())),
    })
}

fn boxed<U: Usig + 'static>(counters: Vec<U>) -> Vec<Box<dyn Usig>> {
    counters.into_iter().map(|counter| -> Box<dyn Usig> { Box::new(counter) }).collect()
}

/// A counter that is of another kind where the protocol of an epoch asks for that, and certifies
/// under the secret of the epoch's configuration. In each epoch it is of one kind under one secret,
/// and it goes from one epoch to a later one only. So it says no two things about one position,
/// like a counter that stays what it is.
struct SwitchingCounter {
    /// Which of the member's counters this is.
    lane: usize,
    kind: Counter,
    /// Names the secret.
    secret: Option<Digest>,
    present: Box<dyn Usig>,
    me: MemberId,
    incarnation: Incarnation,
    trusted: Trusted,
}

impl SwitchingCounter {
    /// The counter of the epoch that begins, of another kind or under another secret than the
    /// present one.
    fn next(&mut self, kind: Counter, membership: &Membership) -> Result<Box<dyn Usig>, Refused> {
        match &self.trusted {
            // The one that there was is over in all epochs up to this one.
            Trusted::Here(_) => self.present.begin_epoch(membership)?,
            Trusted::Apart(process) => {
                let device = device(kind, membership.lane.pillars).ok_or(Refused::Unavailable)?;
                process.become_in(device, membership.epoch_id())?;
            }
        }
        let identity = DeviceIdentity::chosen(self.incarnation, None);
        let opened = open_all(kind, membership, self.me, identity, &self.trusted);
        let mut opened = opened.map_err(|error| {
            warn!(%error, "cannot make the trusted counter of the next configuration");
            Refused::Unavailable
        })?;
        if self.lane >= opened.len() {
            return Err(Refused::Unavailable);
        }
        Ok(opened.swap_remove(self.lane))
    }
}

impl Usig for SwitchingCounter {
    fn incarnation(&self) -> Incarnation {
        self.present.incarnation()
    }
    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        let (kind, secret) = (kind_in(membership), secret_name(membership));
        // A process goes on with the secret that it has read.
        let is_same_secret = secret == self.secret || matches!(self.trusted, Trusted::Apart(_));
        if kind == self.kind && is_same_secret {
            return self.present.begin_epoch(membership);
        }
        self.present = self.next(kind, membership)?;
        if kind != self.kind {
            info!(?kind, epoch = %membership.epoch, "the trusted counter is of another kind");
        }
        (self.kind, self.secret) = (kind, secret);
        Ok(())
    }
    fn create(&mut self, position: Position, digest: &Digest) -> Result<Ui, Refused> {
        self.present.create(position, digest)
    }
    fn mac(&mut self, digest: &Digest) -> Result<TrustedMac, Refused> {
        self.present.mac(digest)
    }
    fn memory(&self) -> Option<Memory> {
        self.present.memory()
    }
    fn restore(&mut self, memory: &Memory) -> Result<(), Refused> {
        self.present.restore(memory)
    }
    fn verify(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool {
        self.present.verify(replica, ui, digest)
    }
}

/// Checks the certificates of the members' devices, of whatever kind and under whatever secret they
/// are in an epoch.
pub(super) struct CounterChecks {
    trusted: Trusted,
    usigs: UsigChecks,
}

/// Those of USIGs.
enum UsigChecks {
    /// In this process, under the secret that they share.
    Here(SharedSigningKeys),
    /// In this process, under keys of their own.
    OwnKeys(Check),
    Apart(ApartCheck),
}

impl CounterChecks {
    pub(super) fn new(membership: &Membership, trusted: &Trusted) -> Result<Self, StartError> {
        let is_mac = membership.members.iter().all(|member| member.life().is_mac());
        let usigs = match trusted {
            Trusted::Apart(process) => {
                UsigChecks::Apart(ApartCheck::new(process.clone(), membership))
            }
            Trusted::Here(keys) if is_mac => UsigChecks::Here(keys.clone()),
            Trusted::Here(_) => {
                UsigChecks::OwnKeys(Check::signature(membership).map_err(BadDevice::Key)?)
            }
        };
        Ok(Self { trusted: trusted.clone(), usigs })
    }

    pub(super) fn in_epoch(&self, membership: &Membership) -> Arc<dyn UsigCheck> {
        let secret = |keys| secret_in(keys, membership);
        match (kind_in(membership), &self.trusted, &self.usigs) {
            (Counter::Trinx, Trusted::Here(keys), _) => {
                Arc::new(OrderCheck::new(secret(keys).as_bytes(), membership))
            }
            (Counter::Trinx, Trusted::Apart(process), _) => {
                Arc::new(OrderCheck::apart(process.clone(), membership))
            }
            (_, _, UsigChecks::Here(keys)) => {
                Arc::new(Check::mac(secret(keys).as_bytes(), membership))
            }
            (_, _, UsigChecks::OwnKeys(check)) => Arc::new(check.for_epoch(membership)),
            (_, _, UsigChecks::Apart(check)) => Arc::new(check.for_epoch(membership)),
        }
    }
}
