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

    /// Follows proofs of how configurations ended, from the present one on. `floor` is the lowest
    /// number that the client has outstanding, or is to give out next.
    fn follow(&mut self, links: &[Proof], floor: u64) -> Followed;
}

/// Where proofs lead.
pub enum Followed {
    /// Nowhere: they prove nothing, or what is known.
    Nowhere,
    /// To a configuration that is the same for clients.
    Same,
    /// To other replicas, or another protocol.
    To(Box<NextGroup>),
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
