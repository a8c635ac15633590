//! How a replica convinces others, as its host asks for it.

use crate::auth::{Auth, AuthTag, Signature};
use crate::counter::{Instance, Memory, Refused};
use crate::digest::Digest;
use crate::membership::Membership;
use alloc::vec::Vec;

/// A replica's key and its trusted counters.
pub trait Authenticator: Send {
    /// Authenticates the statement with this digest.
    ///
    /// # Errors
    /// [`Refused`] if the counter does not certify it. The replica must end: a message that the
    /// core believes sent can never be sent.
    fn tag(&mut self, auth: &Auth, digest: &Digest) -> Result<AuthTag, Refused>;

    /// Signs the statement with this digest under the replica's own key.
    fn sign(&self, digest: &Digest) -> Signature;

    /// Goes over to a later epoch.
    ///
    /// # Errors
    /// [`Refused`] if a counter does not; the replica must end.
    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused>;

    /// What each counter remembers of its epoch; none of a counter that keeps its own memory.
    fn memories(&self) -> Vec<(Instance, Memory)>;
}
