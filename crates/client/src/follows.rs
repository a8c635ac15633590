//! A client goes on when its group has changed.

use pentarchy_core::epochs::Proof;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_crypto::request_auth::ClientSigner;
use std::net::SocketAddr;
use std::sync::Arc;

/// Leads a client from one configuration of its group to the next.
pub trait Follows: Send {
    /// The number of the present configuration.
    fn number(&self) -> u64;

    /// The present configuration.
    fn membership(&self) -> Arc<Membership>;

    /// Follows proofs of how configurations ended, from the present one on. Gives the group to
    /// which they lead; none if they prove nothing new. `floor` is the lowest number that the
    /// client has outstanding, or is to give out next.
    fn follow(&mut self, links: &[Proof], floor: u64) -> Option<NextGroup>;
}

/// What a client goes on with.
pub struct NextGroup {
    /// The members.
    pub membership: Arc<Membership>,
    /// Where each listens.
    pub addresses: Vec<SocketAddr>,
    /// How envelopes are authenticated.
    pub signer: ClientSigner,
    /// The protocol's client side.
    pub core: Box<dyn ClientCore>,
}
