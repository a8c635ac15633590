//! Sockets: who is connected, what they said, and what is queued for them. A replica has one
//! network for its clients and its peers; each pillar on a thread of its own has another one, for
//! the same pillar at its peers, without a listener: whoever dials it is accepted by the replica's.

mod faulty;
mod handing;
mod membership;
mod newer;
mod opening;
mod resolving;
mod strangers;
mod welcoming;

use crate::clients::{Change, Clients};
use crate::config::{HostLimits, Listen};
use crate::counters::{Counters, Messages, Traffic};
use crate::error::StartError;
use crate::fault::Fault;
use crate::links::{Link, Links, Role};
use crate::peers::Peers;
use bytes::Bytes;
use faulty::Faulty;
pub use handing::Handed;
#[cfg(test)]
pub use handing::tests::{Group, round, until};
use pentarchy_core::configuration::Access;
use pentarchy_core::ids::{ClientId, MemberId, Node};
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::wire::{Wire, Writer};
use pentarchy_io::channel::Identity;
use pentarchy_io::connection::Closed;
use pentarchy_io::poll::{Poller, TcpListener, Token, Waker};
use pentarchy_machine::report::LinkReport;
use pentarchy_machine::{Kind, Pause};
use resolving::Resolving;
use std::collections::BTreeSet;
use std::io;
use std::mem::replace;
use std::net::SocketAddr;
use std::time::Duration;
use strangers::Strangers;
use tracing::{debug, info, warn};
pub use welcoming::Credentials;

/// The token of the listener; those of connections are small.
const LISTENER: Token = Token(usize::MAX);
/// The token of a waker.
const WAKER: Token = Token(usize::MAX - 1);

/// What one system call reads at most.
const SCRATCH_BYTES: usize = 256 << 10;

/// What one system call reads from someone who has not said who it is.
const UNKNOWN_BYTES: usize = 16 << 10;

/// How long a client is not read that has sent more than there is room for.
const PAUSE_MS: u64 = 20;

/// The same, for one that sends many times its share again after each pause. What was decrypted of
/// it until then is the cost of a flood.
const FLOOD_PAUSE_MS_MAX: u64 = 160;

/// What waits for a client beyond this is written at once, and not at the end of the round.
const SOON_BYTES: usize = 256 << 10;

/// Who sent the messages that [`Network::read`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// A member.
    Peer(MemberId),
    /// A client.
    Client(ClientId),
    /// Over the connection with this token, someone who says to be a member that this replica does
    /// not know yet.
    Newer(usize),
}

/// Where others come in.
struct Acceptor {
    listener: TcpListener,
    /// There may be more to accept.
    acceptable: bool,
    /// Accepting failed, and is tried again at this time.
    again_ms: Option<u64>,
    /// When it was last said that accepting failed.
    warned_ms: Option<u64>,
    /// Pillars that have networks of their own: connections to those before this number are handed
    /// over.
    pillars: u8,
    /// What is to be handed over in this round.
    handed: Vec<Handed>,
}

/// All sockets of a replica, or of one of its pillars.
pub struct Network {
    poller: Poller,
    /// None if it is a pillar's.
    acceptor: Option<Acceptor>,
    /// Whose it is, if it is a pillar's.
    pillar: Option<u8>,
    /// When frames that do not end are looked for.
    sweep_ms: u64,
    identity: Identity,
    access: Access,
    /// Who is let in besides, to have a say in the group.
    governing: BTreeSet<ClientId>,
    /// The last configuration that has begun, also without this replica.
    pub begun: u64,
    credentials: Credentials,
    limits: HostLimits,
    links: Links,
    pub peers: Peers,
    /// Addresses of peers that are looked up.
    resolving: Option<Resolving>,
    /// Peers' connections that began, and that ended, as the machine is to be told.
    peer_changes: Vec<(MemberId, bool)>,
    pub clients: Clients,
    pub counters: Counters,
    pub traffic: Traffic,
    /// Until when clients are not read, and their tokens.
    paused: BTreeSet<(u64, usize)>,
    pub messages: Messages,
    /// Connections that are [`Role::Unknown`] or [`Role::Newer`].
    strangers: Strangers,
    /// Bytes that wait for clients.
    client_queued: usize,
    /// Bytes that were read from clients in this round.
    client_read: usize,
    scratch: Vec<u8>,
    tokens: Vec<usize>,
    faulty: Faulty,
}

impl Network {
    pub fn new(
        listen: Listen,
        identity: Identity,
        credentials: Credentials,
        access: Access,
        limits: HostLimits,
        peers: Peers,
    ) -> Result<Self, StartError> {
        let mut listener = bind(listen)?;
        let mut network = Self::closed(identity, credentials, limits, peers)?;
        network.access = access;
        network.poller.register_readable(&mut listener, LISTENER)?;
        network.acceptor = Some(Acceptor {
            listener,
            acceptable: false,
            again_ms: None,
            warned_ms: None,
            pillars: 0,
            handed: Vec::new(),
        });
        Ok(network)
    }

    /// Without a listener.
    fn closed(
        identity: Identity,
        credentials: Credentials,
        limits: HostLimits,
        peers: Peers,
    ) -> io::Result<Self> {
        Ok(Self {
            poller: Poller::new()?,
            acceptor: None,
            pillar: None,
            sweep_ms: 0,
            identity,
            access: Access::Only(Vec::new()),
            begun: 0,
            credentials,
            governing: BTreeSet::new(),
            limits,
            links: Links::default(),
            peers,
            resolving: None,
            peer_changes: Vec::new(),
            clients: Clients::default(),
            counters: Counters::default(),
            traffic: Traffic::default(),
            paused: BTreeSet::new(),
            messages: Messages::default(),
            strangers: Strangers::default(),
            client_queued: 0,
            client_read: 0,
            scratch: vec![0; SCRATCH_BYTES],
            tokens: Vec::new(),
            faulty: Faulty::default(),
        })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let acceptor = self.acceptor.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        acceptor.listener.local_addr()
    }

    pub const fn limits(&self) -> &HostLimits {
        &self.limits
    }

    /// Something by which another thread ends [`Self::wait`].
    pub fn waker(&self) -> io::Result<Waker> {
        self.poller.waker(WAKER)
    }

    /// Waits for readiness, not at all if something is left over from the round before that
    /// `is_reading` can read now. Says whether there is any.
    pub fn wait(&mut self, timeout: Duration, is_reading: bool) -> io::Result<bool> {
        let is_acceptable = self.acceptor.as_ref().is_some_and(|acceptor| acceptor.acceptable);
        let is_ready = is_acceptable || is_reading && self.links.has_ready();
        let timeout = if is_ready { Duration::ZERO } else { timeout };
        let mut any = is_ready;
        for event in self.poller.wait(timeout)? {
            any = true;
            match event.token() {
                LISTENER => {
                    if let Some(acceptor) = &mut self.acceptor {
                        acceptor.acceptable = acceptor.again_ms.is_none();
                    }
                }
                WAKER => {}
                _ => self.links.on_event(event),
            }
        }
        Ok(any)
    }

    /// Whether something that a peer sent was left unread for want of time.
    fn has_unread(&self) -> bool {
        self.links.ready().any(|link| matches!(link.role, Role::Peer(_)))
    }

    /// Does not read a client for a moment, as it has sent more than there is room for: what it
    /// sends waits in its own queue, and costs nothing here. One that floods is not read for twice
    /// as long as the time before, if it went on at once after that.
    pub fn pause_client(&mut self, id: &ClientId, pause: Pause, now_ms: u64) {
        let ms_max = match pause {
            Pause::Busy => PAUSE_MS,
            Pause::Flood => FLOOD_PAUSE_MS_MAX,
        };
        self.pause(self.clients.token(id), now_ms, ms_max);
    }

    /// The same for a peer that forges.
    pub fn pause_peer(&mut self, id: MemberId, now_ms: u64) {
        self.pause(self.peers.token(id), now_ms, FLOOD_PAUSE_MS_MAX);
    }

    fn pause(&mut self, token: Option<usize>, now_ms: u64, ms_max: u64) {
        let Some(token) = token else { return };
        if let Some(link) = self.links.get_mut(token)
            && !replace(&mut link.is_paused, true)
        {
            let until_ms = link.pause_until(now_ms, PAUSE_MS, ms_max);
            self.paused.insert((until_ms, token));
        }
    }

    /// Reads again whose pause is over. A place that was given to another connection meanwhile is
    /// only looked at too early.
    fn end_pauses(&mut self, now_ms: u64) {
        while let Some((until_ms, token)) = self.paused.first().copied()
            && until_ms <= now_ms
        {
            self.paused.pop_first();
            if let Some(link) = self.links.get_mut(token) {
                link.is_paused = false;
            }
            self.links.mark_ready(token);
        }
    }

    /// Moves the tokens of the connections to read to the end of `into`, peers first.
    pub fn take_ready(&mut self, now_ms: u64, into: &mut Vec<usize>) {
        self.end_pauses(now_ms);
        self.client_read = 0;
        self.links.take_ready(into);
        into.sort_by_key(|token| !self.is_peer(*token));
    }

    /// The peer that a connection is one to.
    pub fn peer(&self, token: usize) -> Option<MemberId> {
        match self.links.get(token)?.role {
            Role::Peer(id) => Some(id),
            _ => None,
        }
    }

    /// Whether a connection is one on which a peer was dialled and has not answered.
    pub fn is_dialled(&self, token: usize) -> bool {
        self.links.get(token).is_some_and(|link| matches!(link.role, Role::Dialled(_)))
    }

    fn is_peer(&mut self, token: usize) -> bool {
        let link = self.links.get_mut(token);
        link.is_some_and(|link| matches!(link.role, Role::Peer(_) | Role::Dialled(_)))
    }

    /// Whether enough was read from clients in this round. The rest is to be [put
    /// off](Self::postpone).
    pub const fn has_read_enough(&self) -> bool {
        self.client_read >= self.limits.clients_round_bytes
    }

    /// Has connections that were not read come first in the next round.
    pub fn postpone(&mut self, tokens: &[usize]) {
        self.links.postpone(tokens);
    }

    /// Reads a connection, appends its messages, and says whose they are.
    pub fn read(&mut self, token: usize, now_ms: u64, messages: &mut Vec<Bytes>) -> Option<Sender> {
        let link = self.links.get_mut(token).filter(|link| !link.is_paused)?;
        let budget = match link.role {
            Role::Peer(_) | Role::Dialled(_) => self.limits.peer_round_bytes,
            Role::Client(_) => self.limits.client_round_bytes,
            // One who has not said who it is gets one short system call.
            Role::Unknown | Role::Newer => 1,
        };
        let scratch = match link.role {
            Role::Unknown | Role::Newer => &mut self.scratch[..UNKNOWN_BYTES],
            _ => &mut self.scratch[..],
        };
        let received = link.connection.receive(scratch, budget, messages);
        if link.connection.queued_bytes() > 0 {
            self.links.mark_dirty(token);
        }
        self.links.mark_ready(token);
        let sender = self.settle(token, received.is_ok(), now_ms, messages);
        if let (Some(sender), Ok(bytes)) = (sender, &received) {
            let is_peer = matches!(sender, Sender::Peer(_) | Sender::Newer(_));
            self.traffic.of(is_peer).came(*bytes, messages.len());
        }
        if let (Some(Sender::Peer(id)), false) = (sender, messages.is_empty()) {
            self.peers.heard(id);
            self.take_welcomes(id, messages);
        }
        if let Some(Sender::Client(id)) = sender {
            if let Some(link) = self.links.get_mut(token) {
                link.note_progress(now_ms, !messages.is_empty());
            }
            self.client_read += received.unwrap_or_default();
            self.clients.heard(&id, now_ms);
        }
        if let Err(closed) = received {
            self.on_closed(token, now_ms, closed);
        }
        sender
    }

    /// Queues a message for a peer; drops it if the peer is not connected or too slow.
    pub fn send_peer(&mut self, id: MemberId, kind: Kind, encode: impl FnOnce(&mut Writer)) {
        match self.faulty.fault {
            Fault::None => self.send_peer_now(id, kind, encode),
            _ => self.send_peer_faultily(id, kind, encode),
        }
    }

    fn send_peer_now(&mut self, id: MemberId, kind: Kind, encode: impl FnOnce(&mut Writer)) {
        let Some(token) = self.peers.token(id) else {
            self.counters.peer_unconnected += 1;
            return;
        };
        let Some(link) = self.links.get_mut(token) else { return };
        match link.connection.queue_with(encode) {
            Ok(bytes) => {
                self.traffic.peers.messages_out += 1;
                self.messages.left(kind, bytes);
                self.links.mark_dirty(token);
            }
            Err(_) => self.counters.peer_dropped += 1,
        }
    }

    /// Bytes that wait for a peer.
    pub fn peer_queued_bytes(&self, id: MemberId) -> usize {
        let link = self.peers.token(id).and_then(|token| self.links.get(token));
        link.map_or(0, |link| link.connection.queued_bytes())
    }

    /// Bytes that wait for a client.
    pub fn client_queued_bytes(&self, id: &ClientId) -> usize {
        let link = self.clients.token(id).and_then(|token| self.links.get(token));
        link.map_or(0, |link| link.connection.queued_bytes())
    }

    /// The connections to peers and clients that began, and that ended, since the last call; true
    /// if they began.
    pub fn take_link_changes(&mut self) -> Vec<(Node, bool)> {
        let clients = self.clients.take_changes().into_iter();
        let clients = clients.map(|(id, change)| (Node::Client(id), change == Change::Up));
        let peers = std::mem::take(&mut self.peer_changes).into_iter();
        let peers = peers.map(|(id, is_up)| (Node::Member(id), is_up));
        peers.chain(clients).collect()
    }

    /// What it has counted.
    pub fn report(&self, timers: usize) -> LinkReport {
        let queued = |(id, _): (MemberId, _)| (id.0, self.peer_queued_bytes(id) as u64);
        LinkReport {
            traffic: self.traffic,
            messages: self.messages.clone(),
            counters: self.counters.clone(),
            timers,
            peer_queues: self.peers.connected().map(queued).collect(),
            clients_queued_bytes: self.client_queued,
            clients: self.clients.len(),
            strangers: self.strangers.len(),
            unread: self.has_unread(),
        }
    }

    /// Queues a message for a client. False if too much waits for it: the message is dropped, the
    /// client asks again if it has to, and if it does not read at all its connection is closed.
    pub fn send_client(&mut self, token: usize, now_ms: u64, message: &ToClient) -> bool {
        match self.faulty.fault {
            Fault::None => self.send_client_now(token, now_ms, message),
            _ => self.send_client_faultily(token, now_ms, message),
        }
    }

    fn send_client_now(&mut self, token: usize, now_ms: u64, message: &ToClient) -> bool {
        if self.queue_for_client(token, message) {
            // Not at the end of the round only: its replies would then be in memory three times.
            if self.links.get(token).is_some_and(|link| link.connection.queued_bytes() > SOON_BYTES)
            {
                self.flush_link(token, now_ms);
            }
            return true;
        }
        if self.links.get_mut(token).is_some_and(|link| !link.is_full) {
            // One round can have more to say than the queue holds; what the system takes meanwhile
            // makes room.
            self.flush_link(token, now_ms);
            if self.queue_for_client(token, message) {
                return true;
            }
        }
        self.counters.client_dropped += 1;
        let Some(link) = self.links.get_mut(token) else { return false };
        link.is_full = true;
        if link.is_stalled(now_ms) {
            self.counters.clients_too_slow += 1;
            self.close(token, now_ms, "does not read");
        } else {
            self.links.mark_dirty(token);
        }
        false
    }

    fn queue_for_client(&mut self, token: usize, message: &ToClient) -> bool {
        let Some(link) = self.links.get_mut(token) else { return false };
        // Many clients that each read a little too slowly must not fill the memory together.
        let is_crowded = self.client_queued >= self.limits.clients_queue_bytes
            && link.counted >= self.limits.client_share_bytes();
        if link.is_full || is_crowded {
            return false;
        }
        if !self.welcome_client(token) {
            return false;
        }
        let Some(link) = self.links.get_mut(token) else { return false };
        let Ok(bytes) = link.connection.queue_with(|to| message.encode(to)) else { return false };
        self.traffic.clients.messages_out += 1;
        self.messages.left(message.kind(), bytes);
        self.count(token);
        self.links.mark_dirty(token);
        true
    }

    /// Brings [`Self::client_queued`] up to date.
    fn count(&mut self, token: usize) {
        let Some(link) = self.links.get_mut(token) else { return };
        if matches!(link.role, Role::Client(_)) {
            self.client_queued -= link.counted;
            link.counted = link.connection.queued_bytes();
            self.client_queued += link.counted;
        }
    }

    /// Writes everything that waits, one system call per connection.
    pub fn flush(&mut self, now_ms: u64) {
        let mut tokens = std::mem::take(&mut self.tokens);
        self.links.take_dirty(&mut tokens);
        for token in tokens.drain(..) {
            if let Some(link) = self.links.get_mut(token) {
                link.is_full = false;
                self.flush_link(token, now_ms);
            }
        }
        self.tokens = tokens;
    }

    /// The same of one connection.
    pub fn flush_link(&mut self, token: usize, now_ms: u64) {
        let Some(link) = self.links.get_mut(token) else { return };
        let (flushed, bytes) = link.flush(now_ms);
        let is_peer = matches!(link.role, Role::Peer(_) | Role::Dialled(_) | Role::Newer);
        self.traffic.of(is_peer).bytes_out += bytes as u64;
        self.count(token);
        if let Err(closed) = flushed {
            self.on_closed(token, now_ms, closed);
        }
    }

    fn on_closed(&mut self, token: usize, now_ms: u64, closed: Closed) {
        match closed {
            Closed::Channel(error) => {
                let link = self.links.get_mut(token);
                let is_known = link.is_some_and(|link| link.role.is_settled());
                self.counters.frames_refused += u64::from(is_known);
                self.close(token, now_ms, error.name());
            }
            Closed::Remote => {
                self.note_refused(token);
                self.close(token, now_ms, "closed by the peer");
            }
            Closed::Io(kind) => {
                debug!(%kind, "connection broken");
                self.close(token, now_ms, "broken");
            }
        }
    }

    /// A peer that listens and hangs up does not know this replica, which an operator has to mend.
    fn note_refused(&mut self, token: usize) {
        let Some(Link { role: Role::Dialled(id) | Role::Peer(id), .. }) = self.links.get(token)
        else {
            return;
        };
        let (id, me) = (*id, self.peers.me);
        let Some(peer) = self.peers.get_mut(id).filter(|peer| me > id && !peer.has_welcomed) else {
            return;
        };
        self.counters.dials_refused += 1;
        if !std::mem::replace(&mut peer.has_refused, true) {
            warn!(
                peer = id.0,
                pillar = self.pillar,
                address = ?peer.address,
                "the peer refused the connection; do both replicas use the same cluster.toml?"
            );
        }
    }

    /// Closes a connection and takes note of what that means.
    pub fn close(&mut self, token: usize, now_ms: u64, reason: &'static str) {
        let Some(link) = self.links.remove(token) else { return };
        let Link { mut connection, role, counted, .. } = link;
        self.client_queued -= counted;
        self.poller.deregister(connection.stream());
        match role {
            Role::Unknown => {
                self.strangers.remove(token);
                self.counters.handshakes_failed += 1;
                debug!(reason, "connection closed before its owner was authenticated");
            }
            Role::Newer => {
                self.strangers.remove(token);
                debug!(reason, "connection of a newer member closed");
            }
            Role::Dialled(id) => {
                debug!(peer = id.0, reason, "cannot connect");
                self.peers.down(id, now_ms);
            }
            Role::Peer(id) if self.peers.token(id) == Some(token) => {
                match self.pillar {
                    None => info!(peer = id.0, reason, "disconnected"),
                    Some(pillar) => debug!(peer = id.0, pillar, reason, "disconnected"),
                }
                self.peers.down(id, now_ms);
                self.peer_changes.push((id, false));
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
