//! Sockets: who is connected, what they said, and what is queued for them.

use crate::clients::Clients;
use crate::config::{Access, HostLimits, Listen};
use crate::counters::Counters;
use crate::error::StartError;
use crate::links::{Link, Links, Role};
use crate::peers::{PeerState, Peers};
use bytes::Bytes;
use pentarchy_core::ids::{ClientId, Node, ReplicaId};
use pentarchy_core::limits::{ENVELOPE_BYTES_MAX, FRAME_BYTES_MAX};
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::wire::{Wire, Writer};
use pentarchy_crypto::keys::channel_public;
use pentarchy_io::channel::Identity;
use pentarchy_io::connection::{Closed, Connection, ConnectionLimits};
use pentarchy_io::hello::Hello;
use pentarchy_io::poll::{Poller, TcpListener, TcpStream, Token};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tracing::{debug, info, warn};

/// The token of the listener; those of connections are small.
const LISTENER: Token = Token(usize::MAX);

/// Connections accepted in one round.
const ACCEPTS_MAX: usize = 64;

/// What one system call reads at most.
const SCRATCH_BYTES: usize = 256 << 10;

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

    /// Waits for readiness, not at all if something is left over from the round before. Says whether
    /// there is any.
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

    /// Accepts, dials, and closes what took too long.
    pub fn open(&mut self, now_ms: u64) {
        if self.acceptable {
            self.accept(now_ms);
        }
        while let Some(id) = self.peers.due(now_ms) {
            self.dial(id, now_ms);
        }
        while let Some(token) = self.peers.overdue(now_ms) {
            self.close(token, now_ms, "no answer");
        }
        while let Some((deadline_ms, token)) = self.unknown.front().copied()
            && deadline_ms <= now_ms
        {
            self.unknown.pop_front();
            if self.is_unknown(token, deadline_ms) {
                self.close(token, now_ms, "did not say who it is");
            }
        }
    }

    /// When [`Self::open`] has something to do.
    pub fn next_ms(&self) -> Option<u64> {
        let unknown = self.unknown.front().map(|(deadline_ms, _)| *deadline_ms);
        self.peers.next_ms().into_iter().chain(unknown).min()
    }

    fn accept(&mut self, now_ms: u64) {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if let Err(error) = self.accepted(stream, now_ms) {
                        debug!(%error, "cannot take over a connection");
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        self.acceptable = false;
                        return;
                    }
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => {
                        // Out of descriptors, most likely. The next connection tries again.
                        warn!(%error, "cannot accept connections");
                        self.acceptable = false;
                        return;
                    }
                },
            }
        }
    }

    fn accepted(&mut self, stream: TcpStream, now_ms: u64) -> io::Result<()> {
        while self.unknown_count >= self.limits.unknown_max
            && let Some((deadline_ms, token)) = self.unknown.pop_front()
        {
            if self.is_unknown(token, deadline_ms) {
                self.counters.connections_refused += 1;
                self.close(token, now_ms, "too many connections that do not say who they are");
            }
        }
        let limits = ConnectionLimits {
            message_bytes_max: Hello::BYTES_MAX,
            queue_bytes_max: self.limits.client_queue_bytes,
        };
        let mut connection = Connection::accepted(stream, &self.identity, limits)?;
        self.poller.register(connection.stream(), Token(self.links.next_token()))?;
        let settle_by_ms = now_ms + self.limits.hello_ms;
        let token = self.links.add(connection, Role::Unknown, settle_by_ms);
        self.unknown.push_back((settle_by_ms, token));
        self.unknown_count += 1;
        Ok(())
    }

    fn is_unknown(&mut self, token: usize, deadline_ms: u64) -> bool {
        let link = self.links.get_mut(token);
        link.is_some_and(|link| link.role == Role::Unknown && link.settle_by_ms == deadline_ms)
    }

    fn peer_limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            message_bytes_max: FRAME_BYTES_MAX,
            queue_bytes_max: self.limits.peer_queue_bytes,
        }
    }

    fn dial(&mut self, id: ReplicaId, now_ms: u64) {
        if let Err(error) = self.try_dial(id, now_ms) {
            debug!(peer = id.0, %error, "cannot dial");
            self.peers.down(id, now_ms);
        }
    }

    fn try_dial(&mut self, id: ReplicaId, now_ms: u64) -> io::Result<()> {
        let (limits, me) = (self.peer_limits(), self.peers.me);
        let Some(peer) = self.peers.get_mut(id) else { return Ok(()) };
        let mut connection = Connection::dial(peer.address, &self.identity, &peer.key, limits)?;
        self.poller.register(connection.stream(), Token(self.links.next_token()))?;
        // The queue is empty, so it takes this.
        let _ = connection.queue_with(|to| Hello(Node::Replica(me)).encode(to));
        let give_up_at_ms = now_ms + self.limits.hello_ms;
        let token = self.links.add(connection, Role::Dialled(id), give_up_at_ms);
        peer.state = PeerState::Dialled { token, give_up_at_ms };
        Ok(())
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
            Role::Unknown => &mut self.scratch[..1024],
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

    /// Finds out who is on the other side. Takes the `Hello` out of the messages.
    fn settle(&mut self, token: usize, now_ms: u64, messages: &mut Vec<Bytes>) -> Option<Sender> {
        let link = self.links.get_mut(token)?;
        match link.role {
            Role::Peer(id) => Some(Sender::Peer(id)),
            Role::Client(id) => Some(Sender::Client(id)),
            Role::Dialled(id) => {
                link.connection.remote()?;
                self.peer_up(id, token, now_ms);
                Some(Sender::Peer(id))
            }
            Role::Unknown if messages.is_empty() => None,
            Role::Unknown => {
                let hello = Hello::from_bytes(&messages.remove(0));
                let sender = hello.ok().and_then(|Hello(node)| self.admit(node, token, now_ms));
                if sender.is_none() {
                    self.counters.hellos_refused += 1;
                    messages.clear();
                    self.close(token, now_ms, "not who it says, or not admitted");
                }
                sender
            }
        }
    }

    /// Whether someone is who it says and may connect.
    fn admit(&mut self, node: Node, token: usize, now_ms: u64) -> Option<Sender> {
        let remote = *self.links.get_mut(token)?.connection.remote()?;
        match node {
            Node::Replica(id) => {
                // Of two replicas the one with the higher id dials.
                let is_peer = self.peers.get(id)?.key == remote && id > self.peers.me;
                is_peer.then(|| self.peer_up(id, token, now_ms))?;
                Some(Sender::Peer(id))
            }
            Node::Client(id) => {
                let is_client = channel_public(&id.0)? == remote && self.access.admits(&id);
                let has_room = self.clients.len() < self.limits.clients_max;
                if !is_client || !has_room && !self.clients.contains(&id) {
                    return None;
                }
                self.client_up(id, token, now_ms);
                Some(Sender::Client(id))
            }
        }
    }

    fn set_role(&mut self, token: usize, role: Role, limits: ConnectionLimits) {
        let Some(link) = self.links.get_mut(token) else { return };
        self.unknown_count -= usize::from(link.role == Role::Unknown);
        link.role = role;
        link.connection.set_limits(limits);
    }

    fn peer_up(&mut self, id: ReplicaId, token: usize, now_ms: u64) {
        info!(peer = id.0, "connected");
        self.set_role(token, Role::Peer(id), self.peer_limits());
        if let Some(old) = self.peers.up(id, token) {
            self.close(old, now_ms, "replaced by a newer connection");
        }
    }

    fn client_up(&mut self, id: ClientId, token: usize, now_ms: u64) {
        debug!(client = %id, "connected");
        let limits = ConnectionLimits {
            message_bytes_max: ENVELOPE_BYTES_MAX + 64,
            queue_bytes_max: self.limits.client_queue_bytes,
        };
        self.set_role(token, Role::Client(id), limits);
        if let Some(old) = self.clients.up(id, token) {
            self.close(old, now_ms, "replaced by a newer connection");
        }
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
            if let Err(closed) = link.connection.flush() {
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
        let Some(Link { mut connection, role, .. }) = self.links.remove(token) else { return };
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
