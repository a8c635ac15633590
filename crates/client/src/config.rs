//! What a client is connected with.

use pentarchy_core::limits::CLIENT_WINDOW;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::request_auth::ClientSigner;
use std::net::SocketAddr;
use std::sync::Arc;

/// Operations that may be outstanding unless told otherwise: half of what replicas remember of one
/// client, so that a slow one does not close the window for the others.
pub const OUTSTANDING_DEFAULT: usize = CLIENT_WINDOW as usize / 2;

/// What a client is connected with.
pub struct ClientConfig {
    /// The group.
    pub membership: Arc<Membership>,
    /// Where each replica listens, in the order of their ids.
    pub addresses: Vec<SocketAddr>,
    /// Who this client is. Two hosts must not use one key at the same time: they would choose equal
    /// numbers, and the replicas serve one connection per client.
    pub keys: KeyPair,
    /// How its envelopes are authenticated.
    pub signer: ClientSigner,
    /// The protocol's client side.
    pub core: Box<dyn ClientCore>,
    /// Operations that may be outstanding; see [`OUTSTANDING_DEFAULT`].
    pub outstanding_max: usize,
}

impl ClientConfig {
    /// A client that signs its envelopes, with the usual limits.
    #[must_use]
    pub fn new(
        membership: Arc<Membership>,
        addresses: Vec<SocketAddr>,
        keys: KeyPair,
        core: Box<dyn ClientCore>,
    ) -> Self {
        let signer = ClientSigner::signature(keys.clone(), membership.group_domain());
        Self { membership, addresses, keys, signer, core, outstanding_max: OUTSTANDING_DEFAULT }
    }
}
