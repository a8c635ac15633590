//! Connections to the replicas: dialled, kept, dialled again.

use crate::error::ConnectError;
use bytes::Bytes;
use pentarchy_core::ids::{MemberId, Node, ReplicaId, ReplicaSet};
use pentarchy_core::limits::FRAME_BYTES_MAX;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ToReplica;
use pentarchy_core::wire::Wire;
use pentarchy_crypto::keys::channel_public;
use pentarchy_io::backoff::Backoff;
use pentarchy_io::channel::Identity;
use pentarchy_io::connection::{Closed, Connection, ConnectionLimits};
use pentarchy_io::hello::Hello;
use pentarchy_io::poll::{Poller, Token};
use std::net::SocketAddr;
use tracing::{debug, info, warn};

/// Bytes that may wait for one replica. Beyond that what is sent is dropped; the core sends it
/// again.
const QUEUE_BYTES_MAX: usize = 32 << 20;

/// Bytes read from one replica in one round before the others get their turn.
const ROUND_BYTES_MAX: usize = 1 << 20;

/// Milliseconds after which a connection has lasted, so that the next one is dialled at once when
/// it is lost. Two hosts of one key throw each other out; each waits longer every time.
const LASTING_MS: u64 = 5_000;

/// Milliseconds for a connection to be made and its handshake to end.
const OPEN_MS: u64 = 3_000;

const LIMITS: ConnectionLimits =
    ConnectionLimits { message_bytes_max: FRAME_BYTES_MAX, queue_bytes_max: QUEUE_BYTES_MAX };

/// One replica.
struct Link {
    address: SocketAddr,
    /// The number of the member at this address, by which operators know the member.
    member: u32,
    key: [u8; 32],
    state: State,
    backoff: Backoff,
    /// It hung up on us before it welcomed us, and that was said.
    has_refused: bool,
}

enum State {
    /// To be dialled at this time.
    Down { dial_at: u64 },
    /// Dialled; given up at this time.
    Opening { connection: Box<Connection>, give_up_at: u64 },
    /// The replica said that it knows us, at this time.
    Open { connection: Box<Connection>, since: u64 },
}

/// What became of links in a round.
#[derive(Default)]
pub struct Changes {
    /// Links that were opened.
    pub opened: ReplicaSet,
    /// Links that were lost, or could not be opened.
    pub lost: ReplicaSet,
    /// A replica closed a link that was open.
    pub closed: bool,
}

/// The connections of one client to all replicas.
pub struct Links {
    identity: Identity,
    me: Node,
    first_token: usize,
    links: Vec<Link>,
    scratch: Vec<u8>,
    messages: Vec<Bytes>,
}

impl Links {
    /// Nothing is dialled yet. The poller is given tokens from `first_token` on, one for each
    /// replica.
    ///
    /// # Errors
    /// [`ConnectError::MemberKey`]
    pub fn new(
        identity: Identity,
        me: Node,
        first_token: usize,
        replicas: impl Iterator<Item = (SocketAddr, MemberId, [u8; 32])>,
    ) -> Result<Self, ConnectError> {
        let link = |(id, (address, member, key)): (u16, (SocketAddr, MemberId, [u8; 32]))| {
            let key = channel_public(&key).ok_or(ConnectError::MemberKey(ReplicaId(id)))?;
            let (state, member) = (State::Down { dial_at: 0 }, member.0);
            let (backoff, has_refused) = (Backoff::default(), false);
            Ok(Link { address, member, key, state, backoff, has_refused })
        };
        let links = (0u16..).zip(replicas).map(link).collect::<Result<_, ConnectError>>()?;
        Ok(Self {
            identity,
            me,
            first_token,
            links,
            scratch: vec![0; 256 << 10],
            messages: Vec::new(),
        })
    }

    /// Whether these are links to the members of a group, where they are.
    #[must_use]
    pub fn lead_to(&self, group: &Membership, addresses: &[SocketAddr]) -> bool {
        let members = group.members.iter();
        let at = members.map(|it| (it.id.0, channel_public(&it.identity))).zip(addresses);
        let links = self.links.iter().map(|it| ((it.member, Some(it.key)), &it.address));
        links.eq(at)
    }

    /// Takes note of what the poller reported.
    pub fn on_event(&mut self, event: &pentarchy_io::poll::Event) {
        let index = event.token().0.wrapping_sub(self.first_token);
        if let Some(connection) = self.links.get_mut(index).and_then(Link::connection) {
            connection.on_event(event);
        }
    }

    /// Dials what is due and gives up what takes too long.
    pub fn dial(&mut self, poller: &Poller, now_ms: u64, changes: &mut Changes) {
        for index in 0..self.links.len() {
            match &self.links[index].state {
                State::Down { dial_at } if *dial_at <= now_ms => {
                    if let Err(error) = self.dial_one(index, poller, now_ms) {
                        debug!(replica = self.links[index].member, %error, "cannot dial");
                        self.lose(index, now_ms, changes);
                    }
                }
                State::Opening { give_up_at, .. } if *give_up_at <= now_ms => {
                    self.lose(index, now_ms, changes);
                }
                _ => {}
            }
        }
    }

    fn dial_one(&mut self, index: usize, poller: &Poller, now_ms: u64) -> std::io::Result<()> {
        let link = &mut self.links[index];
        let mut connection = Connection::dial(link.address, &self.identity, &link.key, LIMITS)?;
        poller.register(connection.stream(), Token(self.first_token + index))?;
        // The queue is empty, so it takes this.
        let _ = connection.queue_with(|to| Hello::Node(self.me).encode(to));
        let give_up_at = now_ms + OPEN_MS;
        link.state = State::Opening { connection: Box::new(connection), give_up_at };
        Ok(())
    }

    /// Reads what has arrived, and hands each message over, with what names the channel.
    pub fn receive(
        &mut self,
        now_ms: u64,
        changes: &mut Changes,
        mut on_message: impl FnMut(ReplicaId, &[u8; 32], Bytes),
    ) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            let Some(connection) = link.connection().filter(|link| link.is_readable()) else {
                continue;
            };
            let received =
                connection.receive(&mut self.scratch, ROUND_BYTES_MAX, &mut self.messages);
            if !self.messages.is_empty() && link.open(now_ms) {
                info!(replica = link.member, "connected");
                changes.opened.insert(ReplicaId(index as u16));
            }
            if let Some(channel) = link.connection().and_then(|it| it.binding().copied()) {
                let from = ReplicaId(index as u16);
                self.messages.drain(..).for_each(|bytes| on_message(from, &channel, bytes));
            }
            if let Err(closed) = received {
                self.on_closed(index, closed, now_ms, changes);
            }
        }
    }

    /// Sends a message to a replica, if it is connected. False if it is and reads so slowly that
    /// the message was dropped.
    pub fn send(&mut self, to: ReplicaId, message: &ToReplica) -> bool {
        if let Some(Link { state: State::Open { connection, .. }, member, .. }) =
            self.links.get_mut(usize::from(to.0))
            && connection.queue_with(|to| message.encode(to)).is_err()
        {
            debug!(replica = *member, "the replica reads too slowly: message dropped");
            return false;
        }
        true
    }

    /// Writes what waits.
    pub fn flush(&mut self, now_ms: u64, changes: &mut Changes) {
        for index in 0..self.links.len() {
            let flushed = self.links[index].connection().map_or(Ok(()), Connection::flush);
            if let Err(closed) = flushed {
                self.on_closed(index, closed, now_ms, changes);
            }
        }
    }

    /// Whether something can be read without waiting.
    pub fn is_readable(&mut self) -> bool {
        self.links.iter_mut().filter_map(Link::connection).any(|link| link.is_readable())
    }

    /// When [`Self::dial`] has something to do.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        let due = |link: &Link| match &link.state {
            State::Down { dial_at } => Some(*dial_at),
            State::Opening { give_up_at, .. } => Some(*give_up_at),
            State::Open { .. } => None,
        };
        self.links.iter().filter_map(due).min()
    }

    /// Closes all links for good.
    pub fn close(&mut self) {
        for link in &mut self.links {
            link.state = State::Down { dial_at: u64::MAX };
        }
    }

    fn on_closed(&mut self, index: usize, closed: Closed, now_ms: u64, changes: &mut Changes) {
        let link = &mut self.links[index];
        match &link.state {
            State::Open { .. } => {
                info!(replica = link.member, %closed, "connection lost");
                changes.closed = true;
            }
            State::Opening { connection, .. } if closed == Closed::Remote && !link.has_refused => {
                let why = match connection.remote() {
                    Some(_) => "the group does not list this client's key, or it is full",
                    None => "it is of another cluster, or overloaded",
                };
                let Link { member, address, .. } = link;
                warn!(replica = member, %address, "the replica hangs up: {why}");
                link.has_refused = true;
            }
            _ => debug!(replica = link.member, %closed, "cannot connect"),
        }
        self.lose(index, now_ms, changes);
    }

    fn lose(&mut self, index: usize, now_ms: u64, changes: &mut Changes) {
        let link = &mut self.links[index];
        if let State::Open { since, .. } = link.state
            && now_ms >= since + LASTING_MS
        {
            link.backoff.reset();
        }
        link.state = State::Down { dial_at: now_ms + link.backoff.delay_ms() };
        changes.lost.insert(ReplicaId(index as u16));
    }
}

impl Link {
    fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            State::Down { .. } => None,
            State::Opening { connection, .. } | State::Open { connection, .. } => Some(connection),
        }
    }

    /// Takes note of the replica's welcome; true once.
    fn open(&mut self, now_ms: u64) -> bool {
        match std::mem::replace(&mut self.state, State::Down { dial_at: 0 }) {
            State::Opening { connection, .. } => {
                self.state = State::Open { connection, since: now_ms };
                self.has_refused = false;
                true
            }
            other => {
                self.state = other;
                false
            }
        }
    }
}
