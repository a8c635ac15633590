//! Sockets: who is connected, what they said, and what is queued for them.

mod opening;

use crate::clients::Clients;
use crate::config::{Access, HostLimits, Listen};
use crate::counters::Counters;
use crate::error::StartError;
use crate::links::{Link, Links, Role};
use crate::peers::Peers;
use bytes::Bytes;
use pentarchy_core::ids::{ClientId, ReplicaId};
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::wire::{Wire, Writer};
use pentarchy_io::channel::Identity;
use pentarchy_io::connection::Closed;
use pentarchy_io::poll::{Poller, TcpListener, Token};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tracing::{debug, info};

/// The token of the listener; those of connections are small.
const LISTENER: Token = Token(usize::MAX);

/// What one system call reads at most.
const SCRATCH_BYTES: usize = 256 << 10;

/// What one system call reads from someone who has not said who it is.
const UNKNOWN_BYTES: usize = 16 << 10;

/// Who sent the messages that [`Network::read`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// A replica.
    Peer(ReplicaId),
    /// A client.
    Client(ClientId),
}

/// All sockets of a replica.
pub struct Network {
    poller: Poller,
    listener: TcpListener,
    /// There may be more to accept.
    acceptable: bool,
    identity: Identity,
    access: Access,
    limits: HostLimits,
    links: Links,
    pub peers: Peers,
    pub clients: Clients,
    pub counters: Counters,
    /// Connections that may still be [`Role::Unknown`], oldest first, with their deadlines.
    unknown: VecDeque<(u64, usize)>,
    unknown_count: usize,
    /// Bytes that waited for clients after the last flush of each.
    client_backlog: usize,
    scratch: Vec<u8>,
    tokens: Vec<usize>,
}

impl Network {
    pub fn new(
        listen: Listen,
        identity: Identity,
        access: Access,
        limits: HostLimits,
        peers: Peers,
    ) -> Result<Self, StartError> {
        let mut listener = bind(listen)?;
        let poller = Poller::new()?;
        poller.register_readable(&mut listener, LISTENER)?;
        Ok(Self {
            poller,
            listener,
            acceptable: false,
            identity,
            access,
            limits,
            links: Links::default(),
            peers,
            clients: Clients::default(),
            counters: Counters::default(),
            unknown: VecDeque::new(),
            unknown_count: 0,
            client_backlog: 0,
            scratch: vec![0; SCRATCH_BYTES],
            tokens: Vec::new(),
        })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    pub const fn limits(&self) -> &HostLimits {
        &self.limits
    }

    /// Waits for readiness, not at all if something is left over from the round before. Says
    /// whether there is any.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        let is_ready = self.acceptable || self.links.has_ready();
        let timeout = if is_ready { Duration::ZERO } else { timeout };
        let mut any = is_ready;
        for event in self.poller.wait(timeout)? {
            any = true;
            match event.token() {
                LISTENER => self.acceptable = true,
                _ => self.links.on_event(event),
            }
        }
        Ok(any)
    }

    /// Moves the tokens of the connections to read to the end of `into`.
    pub fn take_ready(&mut self, into: &mut Vec<usize>) {
        self.links.take_ready(into);
    }

    /// Reads a connection, appends its messages, and says whose they are.
    pub fn read(&mut self, token: usize, now_ms: u64, messages: &mut Vec<Bytes>) -> Option<Sender> {
        let link = self.links.get_mut(token)?;
        let budget = match link.role {
            Role::Peer(_) | Role::Dialled(_) => self.limits.peer_round_bytes,
            Role::Client(_) => self.limits.client_round_bytes,
            // One who has not said who it is gets one short system call.
            Role::Unknown => 1,
        };
        let scratch = match link.role {
            Role::Unknown => &mut self.scratch[..UNKNOWN_BYTES],
            _ => &mut self.scratch[..],
        };
        let received = link.connection.receive(scratch, budget, messages);
        if link.connection.queued_bytes() > 0 {
            self.links.mark_dirty(token);
        }
        self.links.mark_ready(token);
        let sender = self.settle(token, now_ms, messages);
        if let Err(closed) = received {
            self.on_closed(token, now_ms, closed);
        }
        sender
    }

    /// Queues a message for a peer; drops it if the peer is not connected or too slow.
    pub fn send_peer(&mut self, id: ReplicaId, encode: impl FnOnce(&mut Writer)) {
        let Some(token) = self.peers.token(id) else {
            self.counters.peer_unconnected += 1;
            return;
        };
        let Some(link) = self.links.get_mut(token) else { return };
        match link.connection.queue_with(encode) {
            Ok(()) => self.links.mark_dirty(token),
            Err(_) => self.counters.peer_dropped += 1,
        }
    }

    /// Bytes that wait for a peer.
    pub fn peer_queued_bytes(&mut self, id: ReplicaId) -> usize {
        let link = self.peers.token(id).and_then(|token| self.links.get_mut(token));
        link.map_or(0, |link| link.connection.queued_bytes())
    }

    /// Queues a message for a client; false if it is too slow, and then its connection is to be
    /// closed.
    #[must_use]
    pub fn try_send_client(&mut self, token: usize, message: &ToClient) -> bool {
        let Some(link) = self.links.get_mut(token) else { return true };
        // Many clients that each read a little too slowly must not fill the memory together.
        if link.backlog > 0 && self.client_backlog > self.limits.clients_queue_bytes {
            return false;
        }
        let queued = link.connection.queue_with(|to| message.encode(to)).is_ok();
        if queued {
            self.links.mark_dirty(token);
        }
        queued
    }

    /// Queues a message for a client; closes its connection if it is too slow.
    pub fn send_client(&mut self, token: usize, now_ms: u64, message: &ToClient) {
        if !self.try_send_client(token, message) {
            self.close_slow(token, now_ms);
        }
    }

    /// Closes the connection of a client that does not read.
    pub fn close_slow(&mut self, token: usize, now_ms: u64) {
        self.counters.clients_too_slow += 1;
        self.close(token, now_ms, "does not read");
    }

    /// Writes everything that waits, one system call per connection.
    pub fn flush(&mut self, now_ms: u64) {
        let mut tokens = std::mem::take(&mut self.tokens);
        self.links.take_dirty(&mut tokens);
        for token in tokens.drain(..) {
            let Some(link) = self.links.get_mut(token) else { continue };
            let flushed = link.connection.flush();
            if matches!(link.role, Role::Client(_)) {
                self.client_backlog -= link.backlog;
                link.backlog = link.connection.queued_bytes();
                self.client_backlog += link.backlog;
            }
            if let Err(closed) = flushed {
                self.on_closed(token, now_ms, closed);
            }
        }
        self.tokens = tokens;
    }

    fn on_closed(&mut self, token: usize, now_ms: u64, closed: Closed) {
        match closed {
            Closed::Channel(error) => self.close(token, now_ms, error.name()),
            Closed::Remote => self.close(token, now_ms, "closed by the other side"),
            Closed::Io(kind) => {
                debug!(%kind, "connection broken");
                self.close(token, now_ms, "broken");
            }
        }
    }

    /// Closes a connection and takes note of what that means.
    pub fn close(&mut self, token: usize, now_ms: u64, reason: &'static str) {
        let Some(link) = self.links.remove(token) else { return };
        let Link { mut connection, role, backlog, .. } = link;
        self.client_backlog -= backlog;
        self.poller.deregister(connection.stream());
        match role {
            Role::Unknown => {
                self.unknown_count -= 1;
                self.counters.handshakes_failed += 1;
                debug!(reason, "stranger disconnected");
            }
            Role::Dialled(id) => {
                debug!(peer = id.0, reason, "cannot connect");
                self.peers.down(id, now_ms);
            }
            Role::Peer(id) if self.peers.token(id) == Some(token) => {
                info!(peer = id.0, reason, "disconnected");
                self.peers.down(id, now_ms);
            }
            Role::Peer(_) => {}
            Role::Client(id) => {
                debug!(client = %id, reason, "disconnected");
                self.clients.down(&id, token);
            }
        }
    }
}

fn bind(listen: Listen) -> Result<TcpListener, StartError> {
    match listen {
        Listen::Address(address) => {
            TcpListener::bind(address).map_err(|error| StartError::Listen(Some(address), error))
        }
        Listen::Bound(listener) => {
            let adopt = || {
                listener.set_nonblocking(true)?;
                Ok(TcpListener::from_std(listener))
            };
            adopt().map_err(|error| StartError::Listen(None, error))
        }
    }
}
