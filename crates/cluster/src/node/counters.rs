//! The trusted counters of a replica, and what checks those of others.

use super::{StartError, protocol};
use crate::config::ClusterConfig;
use pentarchy_core::counter::{Counter, Memory, Position, Refused, TrustedMac, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Incarnation, MemberId, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_crypto::keys::GroupSecret;
use pentarchy_crypto::verifier::{RequestMode, SessionCheck, UsigCheck};
use pentarchy_trusted::backend::in_process::BadDevice;
use pentarchy_trusted::backend::process::question::Device;
use pentarchy_trusted::backend::process::{ApartCheck, BadProcess, UsigProcess};
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
    /// In this process, under the group's secret.
    Here(GroupSecret),
    /// In this process, which has read the secret. When it fails the replica has to end
    /// ([`CounterProcess::is_well`]).
    Apart(Arc<CounterProcess>),
}

impl Trusted {
    /// The public key with which clients agree on keys with these devices.
    pub(super) fn session_key(&self) -> Result<[u8; 32], BadProcess> {
        match self {
            Self::Here(secret) => Ok(session::public_key(secret.as_bytes())),
            Self::Apart(process) => process.session_key().map_err(|_| BadProcess::Silent),
        }
    }

    /// Whether the devices' key that clients find in the configuration is theirs.
    pub(super) fn check_session_key(&self, config: &ClusterConfig) -> Result<(), StartError> {
        match (config.request_auth, config.session_key) {
            (RequestMode::Session, Some(key)) if key == self.session_key()? => Ok(()),
            (RequestMode::Session, Some(_)) => Err(StartError::OtherSessionKey),
            (RequestMode::Session, None) => Err(StartError::NoSessionKey),
            (RequestMode::Signature | RequestMode::Mac, _) => Ok(()),
        }
    }

    /// What checks the tags of clients. None if the members' devices share no secret.
    pub(super) fn sessions(&self, membership: &Membership) -> Option<Arc<dyn SessionCheck>> {
        match self {
            Self::Apart(process) => Some(process.clone()),
            Self::Here(secret) => {
                let is_shared = membership.members.iter().all(|member| member.life().is_mac());
                let check = is_shared.then(|| Check::mac(secret.as_bytes(), membership))?;
                Some(Arc::new(check.sessions(membership)?))
            }
        }
    }
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
    let kind = kind_in(membership);
    if membership.lane.pillars > 1 {
        return open_all(kind, membership, me, identity, trusted);
    }
    let incarnation = identity.incarnation();
    let mut opened = open_all(kind, membership, me, identity, trusted)?;
    let trusted = trusted.clone();
    let switching = opened.pop().map(|present| -> Box<dyn Usig> {
        Box::new(SwitchingCounter { kind, present, me, incarnation, trusted })
    });
    Ok(switching.into_iter().collect())
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
        (Counter::Usig, Trusted::Here(secret)) => {
            let secret = Some(secret.as_bytes());
            vec![Box::new(InProcess::open(membership, me, identity, secret)?)]
        }
        (Counter::Usig, Trusted::Apart(process)) => {
            vec![Box::new(UsigProcess::new(process.clone(), membership))]
        }
        (Counter::Trinx, Trusted::Here(secret)) => {
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

/// A counter that is of another kind where the protocol of an epoch asks for that. In each epoch it
/// is of one kind, and it goes from one epoch to a later one only. So it says no two things about
/// one position, like a counter that stays what it is.
struct SwitchingCounter {
    kind: Counter,
    present: Box<dyn Usig>,
    me: MemberId,
    incarnation: Incarnation,
    trusted: Trusted,
}

impl SwitchingCounter {
    /// The counter of the epoch that begins, of another kind than the present one.
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
            warn!(%error, "cannot make the trusted counter of the next protocol");
            Refused::Unavailable
        })?;
        opened.pop().ok_or(Refused::Unavailable)
    }
}

impl Usig for SwitchingCounter {
    fn incarnation(&self) -> Incarnation {
        self.present.incarnation()
    }
    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        let kind = kind_in(membership);
        if kind == self.kind {
            return self.present.begin_epoch(membership);
        }
        self.present = self.next(kind, membership)?;
        info!(?kind, epoch = %membership.epoch, "the trusted counter is of another kind");
        self.kind = kind;
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

/// Checks the certificates of the members' devices, of whatever kind they are in an epoch.
pub(super) struct CounterChecks {
    trusted: Trusted,
    usigs: UsigChecks,
}

/// Those of USIGs.
enum UsigChecks {
    /// In this process. They may have keys of their own.
    Here(Check),
    Apart(ApartCheck),
}

impl CounterChecks {
    pub(super) fn new(membership: &Membership, trusted: &Trusted) -> Result<Self, StartError> {
        let is_mac = membership.members.iter().all(|member| member.life().is_mac());
        let usigs = match trusted {
            Trusted::Apart(process) => {
                UsigChecks::Apart(ApartCheck::new(process.clone(), membership))
            }
            Trusted::Here(secret) if is_mac => {
                UsigChecks::Here(Check::mac(secret.as_bytes(), membership))
            }
            Trusted::Here(_) => {
                UsigChecks::Here(Check::signature(membership).map_err(BadDevice::Key)?)
            }
        };
        Ok(Self { trusted: trusted.clone(), usigs })
    }

    pub(super) fn in_epoch(&self, membership: &Membership) -> Arc<dyn UsigCheck> {
        match (kind_in(membership), &self.trusted, &self.usigs) {
            (Counter::Trinx, Trusted::Here(secret), _) => {
                Arc::new(OrderCheck::new(secret.as_bytes(), membership))
            }
            (Counter::Trinx, Trusted::Apart(process), _) => {
                Arc::new(OrderCheck::apart(process.clone(), membership))
            }
            (_, _, UsigChecks::Here(check)) => Arc::new(check.for_epoch(membership)),
            (_, _, UsigChecks::Apart(check)) => Arc::new(check.for_epoch(membership)),
        }
    }
}
