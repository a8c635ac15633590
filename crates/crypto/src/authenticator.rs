//! Makes the tag that a message asks for.

use crate::costs;
use crate::keys::KeyPair;
use pentarchy_core::auth::{Auth, AuthTag, Signature};
use pentarchy_core::counter::{Counters, Instance, Memory, Refused, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::membership::Membership;
use std::fmt;

/// A replica's means to convince others: its key and its trusted counters.
pub struct Authenticator {
    keys: KeyPair,
    counters: Vec<Box<dyn Usig>>,
}

impl Authenticator {
    /// Takes possession of all: a counter that two hosts could reach would still be safe, but each
    /// would see the other's positions as spent.
    #[must_use]
    pub fn new(keys: KeyPair, counters: Vec<Box<dyn Usig>>) -> Self {
        Self { keys, counters }
    }

    /// Goes over to a later epoch.
    ///
    /// # Errors
    /// [`Refused`] as for [`Usig::begin_epoch`]; the host must end the process.
    pub fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        self.counters.iter_mut().try_for_each(|counter| counter.begin_epoch(membership))
    }

    /// What each counter remembers of its epoch; see [`Usig::memory`].
    #[must_use]
    pub fn memories(&self) -> Vec<(Instance, Memory)> {
        let remembered = (0..).map(Instance).zip(&self.counters);
        remembered.filter_map(|(instance, it)| Some((instance, it.memory()?))).collect()
    }

    /// Signs the statement with this digest under the replica's own key.
    #[must_use]
    pub fn sign(&self, digest: &Digest) -> Signature {
        Signature(self.keys.sign(digest))
    }

    /// Authenticates the statement with this digest.
    ///
    /// # Errors
    /// [`Refused`] if the counter does not certify it. The host must end the process: a message
    /// that the core believes sent can never be sent.
    pub fn tag(&mut self, auth: &Auth, digest: &Digest) -> Result<AuthTag, Refused> {
        match auth {
            Auth::Channel => Ok(AuthTag::Channel),
            Auth::Signature => Ok(AuthTag::Signature(self.keys.sign(digest))),
            Auth::Usig(instance, position) => {
                costs::USIGS_CREATED.add(1);
                self.counters.of(*instance)?.create(*position, digest).map(AuthTag::Usig)
            }
            Auth::Mac(instance) => {
                costs::USIGS_CREATED.add(1);
                self.counters.of(*instance)?.mac(digest).map(AuthTag::Mac)
            }
        }
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authenticator({:?}, {} counters)", self.keys, self.counters.len())
    }
}
