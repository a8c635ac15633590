//! Connections on their way to a peer or a client: accepted, dialled, asked who they are.

use super::{Network, Sender};
use crate::links::Role;
use crate::peers::PeerState;
use bytes::Bytes;
use pentarchy_core::ids::{ClientId, Node, ReplicaId};
use pentarchy_core::limits::{ENVELOPE_BYTES_MAX, FRAME_BYTES_MAX};
use pentarchy_core::request::RequestAuth;
use pentarchy_core::wire::Wire;
use pentarchy_crypto::keys::channel_public;
use pentarchy_io::connection::{Connection, ConnectionLimits};
use pentarchy_io::hello::Hello;
use pentarchy_io::poll::{TcpStream, Token};
use std::io;
use tracing::{debug, info, warn};

/// Connections accepted in one round. Each costs a handshake's worth of arithmetic.
const ACCEPTS_MAX: usize = 16;

/// A client that says nothing for so many milliseconds may have to make room for another.
const SILENT_MS: u64 = 1_000;

impl Network {
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
        // Nothing large is accepted before the `Hello`; who sent that decides on what follows.
        let mut connection = Connection::accepted(stream, &self.identity, self.peer_limits())?;
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

    /// Finds out who is on the other side. Takes the `Hello` out of the messages.
    pub(super) fn settle(
        &mut self,
        token: usize,
        now_ms: u64,
        messages: &mut Vec<Bytes>,
    ) -> Option<Sender> {
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
                if !is_client || !self.clients.contains(&id) && !self.make_room(now_ms) {
                    return None;
                }
                self.client_up(id, token, now_ms);
                Some(Sender::Client(id))
            }
        }
    }

    /// Whether there is room for another client, if need be in place of one that says nothing:
    /// whoever holds all places without using them must not keep the others out.
    fn make_room(&mut self, now_ms: u64) -> bool {
        if self.clients.len() < self.limits.clients_max {
            return true;
        }
        let silent = self.clients.most_silent();
        let silent = silent.filter(|(_, heard_ms)| now_ms.saturating_sub(*heard_ms) >= SILENT_MS);
        if let Some((token, _)) = silent {
            self.counters.clients_evicted += 1;
            self.close(token, now_ms, "silent, and there are too many");
        }
        silent.is_some()
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
            message_bytes_max: ENVELOPE_BYTES_MAX + RequestAuth::BYTES_MAX + 64,
            queue_bytes_max: self.limits.client_queue_bytes,
        };
        self.set_role(token, Role::Client(id), limits);
        if let Some(old) = self.clients.up(id, token, now_ms) {
            self.close(old, now_ms, "replaced by a newer connection");
        }
        if let Some(link) = self.links.get_mut(token) {
            // The welcome; the queue is empty, so it takes this.
            let _ = link.connection.queue_with(|_| {});
            self.links.mark_dirty(token);
        }
    }
}
