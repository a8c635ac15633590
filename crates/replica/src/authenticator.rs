//! A replica's keys and counters, as its machine asks for them.

use pentarchy_core::auth::{Auth, AuthTag, Signature};
use pentarchy_core::counter::{Instance, Memory, Refused};
use pentarchy_core::digest::Digest;
use pentarchy_core::membership::Membership;
use pentarchy_crypto::authenticator::Authenticator;

/// The real ones.
pub struct KeysAndCounters(pub Authenticator);

impl pentarchy_machine::Authenticator for KeysAndCounters {
    fn tag(&mut self, auth: &Auth, digest: &Digest) -> Result<AuthTag, Refused> {
        self.0.tag(auth, digest)
    }
    fn sign(&self, digest: &Digest) -> Signature {
        self.0.sign(digest)
    }
    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        self.0.begin_epoch(membership)
    }
    fn memories(&self) -> Vec<(Instance, Memory)> {
        self.0.memories()
    }
}
