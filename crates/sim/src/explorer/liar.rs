//! The lying replica: a protocol's forger with its own key and its own device.

use crate::crypto::{Crypto, member_id};
use crate::devices::SimDevices;
use pentarchy_core::Bytes;
use pentarchy_core::counter::{Counters, Instance, Position, Refused, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Forger, Hand, Lie, MakeForger};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::Membership;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::Arc;

/// What it holds and what it knows.
pub struct Liar {
    /// What it knows.
    pub forger: Box<dyn Forger>,
    holds: Holds,
}

#[derive(Clone)]
struct Holds {
    me: ReplicaId,
    crypto: Arc<Crypto>,
    device: SimDevices,
    certified: BTreeMap<(Instance, Position), Digest>,
    twice: Option<(Position, Digest, Digest)>,
}

impl Hand for Holds {
    fn sign(&self, digest: &Digest) -> [u8; 64] {
        self.crypto.sign(self.me, &member_id(self.me).0, digest)
    }
    fn certify(
        &mut self,
        instance: Instance,
        position: Position,
        digest: &Digest,
    ) -> Result<Ui, Refused> {
        let ui = self.device.create(instance, position, digest)?;
        match self.certified.insert((instance, position), *digest) {
            Some(before) if before != *digest => self.twice = Some((position, before, *digest)),
            _ => {}
        }
        Ok(ui)
    }
    fn mac(&mut self, instance: Instance, digest: &Digest) -> Result<TrustedMac, Refused> {
        self.device.of(instance)?.mac(digest)
    }
}

impl Clone for Liar {
    fn clone(&self) -> Self {
        Self { forger: self.forger.boxed_clone(), holds: self.holds.clone() }
    }
}

impl Liar {
    /// One that has heard nothing.
    pub fn new(
        me: ReplicaId,
        make: MakeForger,
        membership: &Membership,
        crypto: &Arc<Crypto>,
    ) -> Self {
        let device = SimDevices::new(me, membership.lane.pillars, crypto);
        let (certified, twice) = (BTreeMap::new(), None);
        let holds = Holds { me, crypto: crypto.clone(), device, certified, twice };
        Self { forger: make(me, membership), holds }
    }

    /// Makes a lie; None if the device refuses.
    pub fn tell(&mut self, lie: &Lie) -> Option<Bytes> {
        self.forger.tell(lie, &mut self.holds)
    }

    /// A position that its device gave to two statements.
    pub const fn twice(&self) -> Option<(Position, Digest, Digest)> {
        self.holds.twice
    }

    /// All of it.
    pub fn fingerprint(&self, hasher: &mut dyn Hasher) {
        self.forger.fingerprint(hasher);
        self.holds.device.fingerprint(hasher);
    }
}
