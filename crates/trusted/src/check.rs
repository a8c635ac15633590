//! Checks the certificates of other devices.
//!
//! With signatures anyone can check. With MACs only a device can, as the key that checks is the key
//! that makes: then this value is a part of the device that may be shared by threads, and it is as
//! trusted as [`GroupKey`].

use crate::scope::Scope;
use crate::session::Sessions;
use crate::usig::{self, Claim, GroupKey};
use ed25519_dalek::{Signature, VerifyingKey};
use pentarchy_core::counter::{Certificate, Instance, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{MemberId, ReplicaId};
use pentarchy_core::membership::{Member, Membership};
use pentarchy_core::mutant;
use pentarchy_crypto::verifier::UsigCheck;
use std::fmt;

/// Checks certificates of one kind, bound to one epoch of a group under one
/// configuration.
#[derive(Clone)]
pub struct Check {
    scope: Scope,
    keys: Keys,
}

#[derive(Clone)]
enum Keys {
    Mac(GroupKey),
    /// By replica; none for one whose key is unusable, and whose certificates are all wrong.
    Signature(Vec<Option<VerifyingKey>>),
}

/// A device key that is no public key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadDeviceKey {
    /// Whose device.
    pub member: MemberId,
}

impl fmt::Display for BadDeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the key of the trusted device of member {} is not a public key", self.member)
    }
}

impl std::error::Error for BadDeviceKey {}

impl Check {
    /// Checks MACs under the group's secret.
    #[must_use]
    pub fn mac(group_secret: &[u8; 32], membership: &Membership) -> Self {
        Self { scope: scope(membership), keys: Keys::Mac(GroupKey::new(group_secret)) }
    }

    /// Checks signatures under the public keys of the members' devices.
    ///
    /// # Errors
    /// [`BadDeviceKey`] for bytes that are no point of the curve, or one under which anyone can
    /// sign; so also if the membership's devices certify with MACs.
    pub fn signature(membership: &Membership) -> Result<Self, BadDeviceKey> {
        let check = |member: &Member| match unpack(&member.device_key) {
            None => Err(BadDeviceKey { member: member.id }),
            key => Ok(key),
        };
        let keys = membership.members.iter().map(check).collect::<Result<_, _>>()?;
        Ok(Self { scope: scope(membership), keys: Keys::Signature(keys) })
    }

    /// The same for a later epoch of the group. A member may have brought a key that is none: it
    /// hurts nobody but itself.
    #[must_use]
    pub fn for_epoch(&self, membership: &Membership) -> Self {
        let stays = mutant!("trusted.checks-in-its-epoch");
        let scope = if stays { self.scope.clone() } else { scope(membership) };
        let keys = match &self.keys {
            Keys::Mac(key) => Keys::Mac(key.clone()),
            Keys::Signature(_) => {
                let keys = membership.members.iter().map(|member| unpack(&member.device_key));
                Keys::Signature(keys.collect())
            }
        };
        Self { scope, keys }
    }

    /// Checks the requests of the clients of this group. None if the devices share no secret with
    /// which clients could agree on keys.
    #[must_use]
    pub fn sessions(&self, membership: &Membership) -> Option<Sessions> {
        match &self.keys {
            Keys::Mac(key) => Some(Sessions::new(key, membership.group_domain())),
            Keys::Signature(_) => None,
        }
    }

    /// Whether the device of `replica` gave `ui` to the message with this digest, in whatever life
    /// `ui` names. Which life counts is the membership's to say.
    #[must_use]
    pub fn check(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool {
        let Some(member) = self.scope.member(replica) else { return false };
        let context = &self.scope.context;
        match (&self.keys, &ui.certificate) {
            (Keys::Mac(key), _) => usig::is_certified(key, context, member, ui, digest),
            // There is one device in each replica, so no seal names its instance.
            (Keys::Signature(keys), Certificate::Signature(signature))
                if ui.instance == Instance::FIRST =>
            {
                let statement = usig::statement(context, member, &Claim::of(ui), digest);
                keys.get(usize::from(replica.0)).and_then(Option::as_ref).is_some_and(|key| {
                    key.verify_strict(&statement, &Signature::from_bytes(signature)).is_ok()
                })
            }
            _ => false,
        }
    }
}

fn scope(membership: &Membership) -> Scope {
    Scope::new(usig::context_of(&membership.epoch_id()), membership)
}

/// A public key of the curve under which not anyone can sign.
fn unpack(bytes: &[u8; 32]) -> Option<VerifyingKey> {
    VerifyingKey::from_bytes(bytes).ok().filter(|key| !key.is_weak())
}

impl UsigCheck for Check {
    fn check(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool {
        mutant!("trusted.seal-not-checked") || Self::check(self, replica, ui, digest)
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.keys {
            Keys::Mac(_) => "Check(mac)",
            Keys::Signature(_) => "Check(signature)",
        })
    }
}
