//! What a client is connected with.

use crate::follows::Follows;
use bytes::Bytes;
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

/// What the service tells a client unasked: a message on a channel, an element that it waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientEvent {
    /// What the service said; `f + 1` replicas vouch for it. Events come in the order in which the
    /// service told them, each once.
    Event(Bytes),
    /// One event or more before the next one will never come: the client was away or did not
    /// acknowledge for too long, or was forgotten by the replicas. Whatever the application knows
    /// from events may be out of date. May also be the first that a client is told that uses the
    /// key of an earlier one.
    Lost,
}

/// Is told events, on the client's thread: it must be short, must not block, and must not call what
/// blocks in [`crate::Client`].
pub type OnEvent = Box<dyn FnMut(ClientEvent) + Send>;

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
    /// Who is told what the service tells this client unasked; with none, nobody asks for it.
    /// Events and results are not ordered among each other: an event can come before the result of
    /// the request that caused it. Each envelope acknowledges the events before it, so a client
    /// that listens must have something ordered now and then, every few hundred events at the
    /// latest: replicas keep no more than
    /// [`CLIENT_EVENTS_MAX`](pentarchy_core::limits::CLIENT_EVENTS_MAX) for it, and forget the
    /// clients that were idle for longest.
    pub on_event: Option<OnEvent>,
    /// What leads the client on when its group changes; with none, it stays with the replicas that
    /// it knows.
    pub follows: Option<Box<dyn Follows>>,
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
        Self {
            membership,
            addresses,
            keys,
            signer,
            core,
            outstanding_max: OUTSTANDING_DEFAULT,
            on_event: None,
            follows: None,
        }
    }
}
