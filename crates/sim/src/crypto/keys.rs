//! What one replica can check.

use super::{Crypto, Means};
use crate::certifier::Certifier;
use crate::packet::{member_at, place_of};
use pentarchy_core::auth::Verifier;
use pentarchy_core::counter::{Instance, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::membership::Membership;
use pentarchy_core::request::{Envelope, RequestAuth};
use std::sync::Arc;

/// What one replica can check in an epoch.
#[derive(Clone)]
pub struct Keys {
    /// All keys.
    pub crypto: Arc<Crypto>,
    /// At which place they are.
    pub me: ReplicaId,
    /// Whose devices count.
    pub membership: Arc<Membership>,
    /// The replica lies: it takes requests also of clients that its configuration does not list.
    pub lets_anyone_in: bool,
}

impl Keys {
    /// Which device of a replica certifies in this epoch. Devices go by members.
    fn certifier(&self, replica: ReplicaId, instance: Instance) -> Option<Certifier> {
        let incarnation = self.membership.members.get(usize::from(replica.0))?.incarnation;
        let replica = place_of(&self.membership, replica)?;
        Some(Certifier { replica, instance, incarnation, epoch: self.membership.epoch })
    }
}

impl Verifier for Keys {
    fn signature(&self, replica: ReplicaId, digest: &Digest, signed: &[u8; 64]) -> bool {
        let member = self.membership.members.get(usize::from(replica.0));
        let place = place_of(&self.membership, replica);
        member
            .zip(place)
            .is_some_and(|(it, place)| self.crypto.is_signed((place, &it.signing), digest, signed))
    }

    fn usig(&self, replica: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        let by = self.certifier(replica, ui.instance);
        by.is_some_and(|by| self.crypto.certified(by, digest, ui))
    }

    fn mac(
        &self,
        (replica, instance): (ReplicaId, Instance),
        digest: &Digest,
        mac: &TrustedMac,
    ) -> bool {
        let by = self.certifier(replica, instance);
        by.is_some_and(|by| self.crypto.is_mac(by, digest, mac))
    }

    fn vector(&self, author: ReplicaId, digest: &Digest, macs: &MacVector) -> bool {
        let (all, n) = (&self.membership, self.membership.n());
        let Some((author, me)) = place_of(all, author).zip(all.index_of(member_at(self.me))) else {
            return false;
        };
        let made = || self.crypto.macs_of(author, all, digest);
        macs.entry(me, n).is_some_and(|entry| made().entry(me, n) == Some(entry))
    }

    fn envelope(&self, envelope: &Envelope) -> bool {
        let stated = self.membership.stated.as_ref().filter(|_| !self.lets_anyone_in);
        if stated.is_some_and(|stated| !self.membership.serves(&stated.access, envelope)) {
            return false;
        }
        match &envelope.auth {
            RequestAuth::Session(tag)
                if self.crypto.means_of(&envelope.client) == Means::Session =>
            {
                self.crypto.is_tagged(envelope, tag)
            }
            _ => {
                let me = self.membership.index_of(member_at(self.me));
                let member = me.and_then(|me| self.membership.members.get(usize::from(me.0)));
                let (me, number) = (me.zip(member), self.membership.number());
                me.is_some_and(|(me, member)| {
                    self.crypto.convinces((me, number, &member.signing), envelope)
                })
            }
        }
    }
}
