//! What one replica can check.

use super::{Crypto, Means};
use crate::certifier::Certifier;
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
    /// Whose eyes these are.
    pub me: ReplicaId,
    /// Whose devices count.
    pub membership: Arc<Membership>,
}

impl Verifier for Keys {
    fn signature(&self, replica: ReplicaId, digest: &Digest, signed: &[u8; 64]) -> bool {
        let member = self.membership.members.get(usize::from(replica.0));
        member
            .is_some_and(|member| self.crypto.is_signed((replica, &member.signing), digest, signed))
    }

    fn usig(&self, replica: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        let Some(member) = self.membership.members.get(usize::from(replica.0)) else {
            return false;
        };
        let (incarnation, epoch) = (member.incarnation, self.membership.epoch);
        let by = Certifier { replica, instance: ui.instance, incarnation, epoch };
        self.crypto.certified(by, digest, ui)
    }

    fn mac(
        &self,
        (replica, instance): (ReplicaId, Instance),
        digest: &Digest,
        mac: &TrustedMac,
    ) -> bool {
        let Some(member) = self.membership.members.get(usize::from(replica.0)) else {
            return false;
        };
        let (incarnation, epoch) = (member.incarnation, self.membership.epoch);
        self.crypto.is_mac(Certifier { replica, instance, incarnation, epoch }, digest, mac)
    }

    fn vector(&self, author: ReplicaId, digest: &Digest, macs: &MacVector) -> bool {
        self.crypto.convinces_of((author, self.me), digest, macs)
    }

    fn envelope(&self, envelope: &Envelope) -> bool {
        match &envelope.auth {
            RequestAuth::Session(tag)
                if self.crypto.means_of(&envelope.client) == Means::Session =>
            {
                self.crypto.is_tagged(envelope, tag)
            }
            _ => self.crypto.convinces(self.me, envelope),
        }
    }
}
