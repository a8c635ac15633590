//! The one TrInX counter that orders, behind the interface by which hosts reach any trusted
//! counter.
//!
//! A position `(view, index)` is the value `[view|index]` of counter [`ORDER`]. At index
//! [`Position::LEAVE`] the certificate is continuing, and the identifier's `committed` is the value
//! before; at every other index it is independent, and `committed` is the zero position, as the
//! certificate says nothing of it. So of each identifier the position alone says of which kind its
//! certificate has to be, and no host can have the one pass for the other.
//!
//! Nothing here is trusted: it translates, and every claim is sealed by the instance below.

use crate::backend::Trinx;
use crate::backend::in_process::BadDevice;
use crate::backend::process::{CounterProcess, TrinxProcess};
use crate::backend::trinx_in_process::TrinxInProcess;
use crate::identity::DeviceIdentity;
use crate::scope::Scope;
use crate::trinx::{
    self, Ask, COUNTERS, Certified, Claim, InstanceId, Kind, Memory as Kept, Reading, Value,
};
use crate::usig::GroupKey;
use pentarchy_core::counter::{
    Certificate, Instance, Memory, Position, REPEATABLE, Refused, Statement, TrustedMac, Ui, Usig,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Incarnation, MemberId, ReplicaId, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_crypto::verifier::{Maker, UsigCheck};
use std::fmt;
use std::sync::Arc;

/// The counter that orders and leaves views; the paper's O.
pub const ORDER: usize = 0;

/// The counter for trusted MACs, which never moves; the paper's M.
pub const MAC: usize = 1;

/// What to ask of an instance to have a digest attributed to it: a trusted MAC.
#[must_use]
pub fn trusted_mac() -> Ask {
    let mut values = [None; COUNTERS];
    values[MAC] = Some(Value::default());
    Ask { kind: Kind::Continuing, values }
}

/// What a trusted MAC claims: it names [`MAC`] alone, and moves it nowhere. So there is nothing to
/// be carried but the seal.
fn mac_claim(incarnation: Incarnation) -> Claim {
    let mut readings = [None; COUNTERS];
    readings[MAC] = Some(Reading { value: Value::default(), previous: Some(Value::default()) });
    Claim { incarnation, kind: Kind::Continuing, readings }
}

/// Whether a claim is a trusted MAC.
#[must_use]
pub fn is_trusted_mac(claim: &Claim) -> bool {
    *claim == mac_claim(claim.incarnation)
}

/// The value of a position.
#[must_use]
pub const fn value(position: Position) -> Value {
    Value((position.view.0 as u128) << 64 | position.index as u128)
}

const fn position(value: Value) -> Position {
    Position::new(View((value.0 >> 64) as u64), value.0 as u64)
}

fn kind(position: Position) -> Kind {
    let names = position.index == Position::LEAVE && !mutant!("trusted.leaves-in-silence");
    if names { Kind::Continuing } else { Kind::Independent }
}

fn ask(at: Position) -> Ask {
    let mut values = [None; COUNTERS];
    values[ORDER] = Some(value(at));
    Ask { kind: kind(at), values }
}

/// The certificate behind an identifier; none if no instance makes such.
fn certificate(ui: &Ui) -> Option<trinx::Certificate> {
    let Certificate::Mac(seal) = ui.certificate else { return None };
    let kind = kind(ui.position);
    let previous = match kind {
        Kind::Continuing if ui.committed < ui.position => Some(value(ui.committed)),
        Kind::Independent if ui.committed == Position::default() => None,
        _ => return None,
    };
    let mut readings = [None; COUNTERS];
    readings[ORDER] = Some(Reading { value: value(ui.position), previous });
    Some(trinx::Certificate { claim: Claim { incarnation: ui.incarnation, kind, readings }, seal })
}

/// Checks identifiers that stand for TrInX certificates, in one epoch.
#[derive(Clone)]
pub struct OrderCheck {
    scope: Scope,
    key: Key,
}

/// The group's key, in this process or in another one.
#[derive(Clone)]
enum Key {
    Here(GroupKey),
    Apart(Arc<CounterProcess>),
}

impl OrderCheck {
    /// Checks under the group's secret.
    #[must_use]
    pub fn new(group_secret: &[u8; 32], membership: &Membership) -> Self {
        Self::under(Key::Here(GroupKey::new(group_secret)), membership)
    }

    /// Has a device in another process check.
    #[must_use]
    pub fn apart(process: Arc<CounterProcess>, membership: &Membership) -> Self {
        Self::under(Key::Apart(process), membership)
    }

    /// The same for a later epoch of the group.
    #[must_use]
    pub fn for_epoch(&self, membership: &Membership) -> Self {
        Self::under(self.key.clone(), membership)
    }

    fn under(key: Key, membership: &Membership) -> Self {
        Self { scope: Scope::new(trinx::context(&membership.epoch_id()), membership), key }
    }

    fn is_certified(
        &self,
        (replica, instance): (ReplicaId, Instance),
        it: trinx::Certificate,
        digest: &Digest,
    ) -> bool {
        let Some(member) = self.scope.member(replica) else { return false };
        let (context, by) = (&self.scope.context, InstanceId { member, number: instance.0.into() });
        match &self.key {
            Key::Here(key) => trinx::is_certified(key, context, by, &it, digest),
            Key::Apart(process) => process.check_trinx(context, by, it, digest),
        }
    }
}

impl UsigCheck for OrderCheck {
    fn check(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool {
        certificate(ui).is_some_and(|it| self.is_certified((replica, ui.instance), it, digest))
    }

    fn check_mac(&self, by: Maker, mac: &TrustedMac, digest: &Digest) -> bool {
        let Maker { replica, instance, incarnation } = by;
        let certificate = trinx::Certificate { claim: mac_claim(incarnation), seal: mac.0 };
        let by = (replica, instance);
        mutant!("trusted.mac-not-checked") || self.is_certified(by, certificate, digest)
    }

    fn is_apart(&self) -> bool {
        matches!(self.key, Key::Apart(_))
    }
}

impl fmt::Debug for OrderCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OrderCheck")
    }
}

/// The counter that orders, of one instance of one replica.
pub struct OrderCounter<D> {
    device: D,
    instance: Instance,
    check: Arc<OrderCheck>,
}

impl OrderCounter<TrinxInProcess> {
    /// The device that a membership expects of a member, in this process.
    ///
    /// # Errors
    /// [`BadDevice`] if the secret is missing, or the identity is for signatures.
    pub fn open(
        membership: &Membership,
        me: MemberId,
        identity: &DeviceIdentity,
        group_secret: Option<&[u8; 32]>,
    ) -> Result<Self, BadDevice> {
        let secret = group_secret.ok_or(BadDevice::SecretMissing)?;
        let epoch = membership.epoch_id();
        let device = TrinxInProcess::initialise(secret, epoch, me, identity, 1);
        let device = device.ok_or(BadDevice::WrongKind)?;
        Ok(Self::over(device, OrderCheck::new(secret, membership)))
    }

    /// The same for so many instances of a member, which share nothing: threads that have one each
    /// do not wait for each other, and come to an epoch in their own time.
    ///
    /// # Errors
    /// As for [`OrderCounter::open`].
    pub fn open_all(
        membership: &Membership,
        me: MemberId,
        identity: &DeviceIdentity,
        group_secret: Option<&[u8; 32]>,
        count: u8,
    ) -> Result<Vec<Self>, BadDevice> {
        let secret = group_secret.ok_or(BadDevice::SecretMissing)?;
        let epoch = membership.epoch_id();
        let device = TrinxInProcess::initialise(secret, epoch, me, identity, count.into());
        let devices = device.ok_or(BadDevice::WrongKind)?.split();
        let check = OrderCheck::new(secret, membership);
        let over = |(number, device)| Self::over_instance(device, Instance(number), check.clone());
        Ok((0..).zip(devices).map(over).collect())
    }
}

impl OrderCounter<TrinxProcess> {
    /// So many instances of a replica, in the process that was started for them, in the epoch of
    /// this membership.
    #[must_use]
    pub fn apart_all(
        process: &Arc<CounterProcess>,
        membership: &Membership,
        count: u8,
    ) -> Vec<Self> {
        let check = OrderCheck::apart(process.clone(), membership);
        let device = || TrinxProcess::new(process.clone());
        let over = |number| Self::over_instance(device(), Instance(number), check.clone());
        (0..count).map(over).collect()
    }
}

impl<D: Trinx> OrderCounter<D> {
    /// Over the first instance of a device of any kind, whose certificates are checked that way.
    #[must_use]
    pub fn over(device: D, check: OrderCheck) -> Self {
        Self::over_instance(device, Instance::FIRST, check)
    }

    fn over_instance(device: D, instance: Instance, check: OrderCheck) -> Self {
        Self { device, instance, check: Arc::new(check) }
    }

    /// Checks certificates without the counter, for a verifier on any thread.
    #[must_use]
    pub fn check(&self) -> Arc<OrderCheck> {
        self.check.clone()
    }
}

impl<D: Trinx> Usig for OrderCounter<D> {
    fn incarnation(&self) -> Incarnation {
        self.device.incarnation()
    }

    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        self.device.begin_epoch(self.instance.0.into(), &membership.epoch_id())?;
        self.check = Arc::new(self.check.for_epoch(membership));
        Ok(())
    }

    /// Of equal values, which a continuing certificate may have, there is no identifier: it would
    /// not be unique.
    fn create(&mut self, at: Position, digest: &Digest) -> Result<Ui, Refused> {
        let certified = self.device.certify(self.instance.0.into(), &ask(at), digest)?;
        let Claim { incarnation, readings, .. } = certified.claim;
        let previous = readings[ORDER].and_then(|reading| reading.previous);
        let committed = previous.map(position).unwrap_or_default();
        if kind(at) == Kind::Continuing && committed >= at {
            return Err(Refused::Spent);
        }
        let certificate = Certificate::Mac(certified.seal);
        Ok(Ui { incarnation, instance: self.instance, position: at, committed, certificate })
    }

    fn mac(&mut self, digest: &Digest) -> Result<TrustedMac, Refused> {
        let certified = self.device.certify(self.instance.0.into(), &trusted_mac(), digest)?;
        Ok(TrustedMac(certified.seal))
    }

    fn memory(&self) -> Option<Memory> {
        let Kept { values, recent } = self.device.memory(self.instance.0.into())?;
        let statement = |it: Certified| {
            let at = position(it.ask.values[ORDER]?);
            Some(Statement {
                position: at,
                committed: position(it.before[ORDER]),
                digest: it.digest,
            })
        };
        let mut recent: Vec<_> = recent.into_iter().flatten().filter_map(statement).collect();
        if mutant!("trusted.forgets-what-it-said") {
            recent.clear();
        }
        let last = position(values[ORDER]);
        Some(Memory { last, committed: last, recent })
    }

    fn restore(&mut self, memory: &Memory) -> Result<(), Refused> {
        let Memory { last, committed, recent } = memory;
        if last != committed || recent.len() > REPEATABLE {
            return Err(Refused::Spent);
        }
        let with = |position| {
            let mut values = [Value::default(); COUNTERS];
            values[ORDER] = value(position);
            values
        };
        let mut kept = Kept { values: with(*last), ..Kept::default() };
        for (place, it) in kept.recent.iter_mut().zip(recent) {
            let (ask, before) = (ask(it.position), with(it.committed));
            *place = Some(Certified { ask, before, digest: it.digest });
        }
        self.device.restore(self.instance.0.into(), &kept)
    }

    fn verify(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool {
        self.check.check(replica, ui, digest)
    }
}

impl<D: Trinx> fmt::Debug for OrderCounter<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrderCounter({})", self.device.incarnation())
    }
}
