//! Connections on their way to a peer or a client: accepted, dialled, asked who they are.

use super::{Acceptor, Network, Sender};
use crate::links::Role;
use crate::peers::PeerState;
use bytes::Bytes;
use nix::errno::Errno;
use pentarchy_core::ids::{ClientId, MemberId, Node};
use pentarchy_core::limits::{ENVELOPE_BYTES_MAX, FRAME_BYTES_MAX};
use pentarchy_core::request::RequestAuth;
use pentarchy_core::wire::Wire;
use pentarchy_crypto::keys::channel_public;
use pentarchy_io::connection::{Connection, ConnectionLimits};
use pentarchy_io::hello::Hello;
use pentarchy_io::poll::{TcpStream, Token};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use tracing::{debug, info, warn};

/// Connections accepted in one round. Each costs a handshake's worth of arithmetic.
const ACCEPTS_MAX: usize = 16;

/// A client that says nothing for so many milliseconds may have to make room for another.
const SILENT_MS: u64 = 1_000;

/// Milliseconds to wait after a connection could not be accepted, which is mostly for want of file
/// descriptors and would otherwise be tried again at once.
const ACCEPT_PAUSE_MS: u64 = 100;

/// Milliseconds that a stranger has to say who it is, although there are no descriptors left.
const STRANGER_MS: u64 = 200;

/// Milliseconds between two warnings that connections cannot be accepted.
const ACCEPT_WARNING_MS: u64 = 60_000;

/// Milliseconds between two searches for frames that do not end.
const SWEEP_MS: u64 = 500;

impl Network {
    /// Accepts, dials, and closes what took too long.
    pub fn open(&mut self, now_ms: u64) {
        self.accept(now_ms);
        self.take_addresses(now_ms);
        while let Some(id) = self.peers.gone(now_ms) {
            self.hang_up_on_leaver(id, now_ms);
        }
        while let Some(id) = self.peers.due(now_ms) {
            self.dial(id, now_ms);
        }
        while let Some(token) = self.peers.overdue(now_ms) {
            self.close(token, now_ms, "no answer");
        }
        while let Some(token) = self.strangers.overdue(now_ms) {
            self.close(token, now_ms, "did not show in time who it is");
        }
        if self.sweep_ms <= now_ms {
            self.sweep_ms = now_ms + SWEEP_MS;
            self.close_unfinished(now_ms);
        }
    }

    /// Closes connections of clients that began to send something long ago and do not end it: what
    /// has arrived of it takes memory.
    fn close_unfinished(&mut self, now_ms: u64) {
        let Some(began_by_ms) = now_ms.checked_sub(self.limits.frame_ms) else { return };
        for token in self.links.unfinished(began_by_ms) {
            self.counters.frames_unfinished += 1;
            self.close(token, now_ms, "does not end what it began to send");
        }
    }

    /// When [`Self::open`] has something to do.
    pub fn next_ms(&self) -> Option<u64> {
        let paused = self.paused.first().map(|(until_ms, _)| *until_ms);
        let again_ms = self.acceptor.as_ref().and_then(|acceptor| acceptor.again_ms);
        let deadlines = [self.peers.next_ms(), self.strangers.next_ms(), again_ms, paused];
        deadlines.into_iter().flatten().min()
    }

    fn accept(&mut self, now_ms: u64) {
        for _ in 0..ACCEPTS_MAX {
            let Some(acceptor) = &mut self.acceptor else { return };
            if !acceptor.is_acceptable(now_ms) {
                return;
            }
            match acceptor.listener.accept() {
                Ok((stream, from)) => {
                    if let Err(error) = self.accepted(stream, from.ip(), now_ms) {
                        debug!(%error, "cannot register a connection");
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => acceptor.acceptable = false,
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => self.cannot_accept(&error, now_ms),
                },
            }
        }
    }

    /// Tries again at once, or later. If descriptors have run out someone makes room, or a peer
    /// that lost its connection could not come back while others hold all of them.
    fn cannot_accept(&mut self, error: &io::Error, now_ms: u64) {
        self.counters.accepts_failed += 1;
        let exhausted = [Errno::EMFILE, Errno::ENFILE].map(|errno| Some(errno as i32));
        let makes_room = exhausted.contains(&error.raw_os_error()) && self.free_descriptor(now_ms);
        let Some(acceptor) = &mut self.acceptor else { return };
        if acceptor.warned_ms.is_none_or(|warned_ms| warned_ms + ACCEPT_WARNING_MS <= now_ms) {
            acceptor.warned_ms = Some(now_ms);
            warn!(%error, "cannot accept connections; raise the limit of open files (ulimit -n)");
        }
        if !makes_room {
            acceptor.acceptable = false;
            acceptor.again_ms = Some(now_ms + ACCEPT_PAUSE_MS);
        }
    }

    /// Strangers make room first, but not before they had time to say who they are.
    fn free_descriptor(&mut self, now_ms: u64) -> bool {
        let oldest_ms = self.strangers.next_ms().map(|by_ms| by_ms - self.limits.hello_ms);
        match oldest_ms {
            Some(since_ms) if now_ms < since_ms + STRANGER_MS => false,
            Some(_) => self.evict_stranger(now_ms),
            None => self.evict_silent(now_ms),
        }
    }

    /// Closes the stranger that is least welcome. False if there is none.
    fn evict_stranger(&mut self, now_ms: u64) -> bool {
        let Some(token) = self.strangers.least_welcome() else { return false };
        self.counters.connections_refused += 1;
        self.close(token, now_ms, "too many connections that have not authenticated");
        true
    }

    fn accepted(&mut self, stream: TcpStream, from: IpAddr, now_ms: u64) -> io::Result<()> {
        while self.strangers.len() >= self.limits.unknown_max && self.evict_stranger(now_ms) {}
        // Nothing large is accepted before the `Hello`; who sent that decides on what follows.
        let mut connection = Connection::accepted(stream, &self.identity, self.peer_limits())?;
        self.poller.register(connection.stream(), Token(self.links.next_token()))?;
        let settle_by_ms = now_ms + self.limits.hello_ms;
        let token = self.links.add(connection, Role::Unknown);
        self.strangers.add(token, from, settle_by_ms);
        Ok(())
    }

    pub(super) fn peer_limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            message_bytes_max: FRAME_BYTES_MAX,
            queue_bytes_max: self.limits.peer_queue_bytes,
        }
    }

    fn dial(&mut self, id: MemberId, now_ms: u64) {
        if let Err(error) = self.try_dial(id, now_ms) {
            debug!(peer = id.0, %error, "cannot dial");
            self.peers.down(id, now_ms);
        }
    }

    fn try_dial(&mut self, id: MemberId, now_ms: u64) -> io::Result<()> {
        let (limits, me) = (self.peer_limits(), self.peers.me);
        let hello = match self.pillar {
            None => Hello::Node(Node::Member(me)),
            Some(pillar) => Hello::Pillar(me, pillar),
        };
        let Some(peer) = self.peers.get_mut(id) else { return Ok(()) };
        let Some(address) = peer.address else { return Ok(()) };
        let mut connection = Connection::dial(address, &self.identity, &peer.key, limits)?;
        self.poller.register(connection.stream(), Token(self.links.next_token()))?;
        // The queue is empty, so it takes this.
        let _ = connection.queue_with(|to| hello.encode(to));
        let give_up_at_ms = now_ms + self.limits.hello_ms;
        let token = self.links.add(connection, Role::Dialled(id));
        peer.state = PeerState::Dialled { token, give_up_at_ms };
        Ok(())
    }

    /// Finds out who is on the other side. Takes the `Hello` out of the messages. `is_open` if
    /// nothing is wrong with the connection.
    pub(super) fn settle(
        &mut self,
        token: usize,
        is_open: bool,
        now_ms: u64,
        messages: &mut Vec<Bytes>,
    ) -> Option<Sender> {
        let link = self.links.get_mut(token)?;
        match link.role {
            Role::Peer(id) => Some(Sender::Peer(id)),
            Role::Client(id) => Some(Sender::Client(id)),
            Role::Newer => Some(Sender::Newer(token)),
            Role::Dialled(id) => {
                link.connection.remote()?;
                self.peer_up(id, token, now_ms);
                Some(Sender::Peer(id))
            }
            Role::Unknown if messages.is_empty() => None,
            Role::Unknown => {
                let sender = match Hello::from_bytes(&messages.remove(0)) {
                    Ok(Hello::Node(node)) => self.admit(node, token, now_ms),
                    Ok(Hello::Pillar(id, pillar))
                        if is_open && self.hand_over((id, pillar), token, messages) =>
                    {
                        return None;
                    }
                    _ => None,
                };
                if sender.is_none() {
                    self.counters.hellos_refused += 1;
                    messages.clear();
                    self.close(
                        token,
                        now_ms,
                        "authentication failed, or the client is not admitted",
                    );
                }
                sender
            }
        }
    }

    /// Whether someone is who it says and may connect.
    fn admit(&mut self, node: Node, token: usize, now_ms: u64) -> Option<Sender> {
        match node {
            Node::Member(id) if self.is_peer_dialling(id, token) => {
                self.peer_up(id, token, now_ms);
                Some(Sender::Peer(id))
            }
            Node::Member(id) => self.admit_newer(id, token, now_ms),
            Node::Client(id) => {
                let remote = *self.links.get(token)?.connection.remote()?;
                let is_client = channel_public(&id.0)? == remote && self.may_connect(&id);
                if !is_client || !self.clients.contains(&id) && !self.make_room(now_ms) {
                    return None;
                }
                self.client_up(id, token, now_ms);
                Some(Sender::Client(id))
            }
        }
    }

    fn may_connect(&self, client: &ClientId) -> bool {
        self.access.admits(client) || self.governing.contains(client)
    }

    /// Others have a say in the group. Clients that may not connect any more are cut off, once they
    /// were sent what waits for them: it says why.
    pub fn let_in(&mut self, governing: BTreeSet<ClientId>, now_ms: u64) {
        self.governing = governing;
        let connected = self.clients.connected();
        let refused = connected.filter(|(id, _)| !self.may_connect(id)).map(|(_, token)| token);
        for token in refused.collect::<Vec<_>>() {
            self.flush_link(token, now_ms);
            self.close(token, now_ms, "the group does not let this client in any more");
        }
    }

    /// Whether a stranger is this member. Of two the one with the higher id dials.
    pub(super) fn is_peer_dialling(&self, id: MemberId, token: usize) -> bool {
        let remote = self.links.get(token).and_then(|link| link.connection.remote());
        let key = self.peers.get(id).map(|peer| &peer.key);
        remote.is_some() && remote == key && id > self.peers.me
    }

    /// Whether there is room for another client, if need be in place of one that says nothing:
    /// whoever holds all places without using them must not keep the others out.
    fn make_room(&mut self, now_ms: u64) -> bool {
        self.clients.len() < self.limits.clients_max || self.evict_silent(now_ms)
    }

    /// Closes the connection of the client that is silent for longest. False if none is for long.
    fn evict_silent(&mut self, now_ms: u64) -> bool {
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
        link.role = role;
        link.connection.set_limits(limits);
        self.strangers.remove(token);
    }

    pub(super) fn peer_up(&mut self, id: MemberId, token: usize, now_ms: u64) {
        match self.pillar {
            None => info!(peer = id.0, "connected"),
            Some(pillar) => debug!(peer = id.0, pillar, "connected"),
        }
        self.set_role(token, Role::Peer(id), self.peer_limits());
        let old = self.peers.up(id, token);
        self.peer_changes.push((id, true));
        // Of a pillar the other side may have none; then it hangs up instead of saying anything.
        if self.pillar.is_none() {
            self.peers.welcomed(id);
        }
        if let Some(old) = old {
            self.close(old, now_ms, "replaced by a newer connection");
        }
        // The queue is empty, so it takes this.
        self.welcome_peer(token);
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
        // The queue is empty, so it takes this.
        self.welcome_client(token);
    }
}

impl Acceptor {
    /// Whether there may be more to accept now.
    fn is_acceptable(&mut self, now_ms: u64) -> bool {
        if self.again_ms.is_some_and(|again_ms| again_ms <= now_ms) {
            self.again_ms = None;
            self.acceptable = true;
        }
        self.acceptable
    }
}
