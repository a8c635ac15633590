//! All connections of a replica, with lists of those that can be read and of those that have
//! something to write, so that a round costs what happened and not what is connected.

use pentarchy_core::ids::{ClientId, MemberId};
use pentarchy_io::connection::{Closed, Connection};
use pentarchy_io::poll::Event;

/// Who takes less than this in [`STALLED_MS`], although more waits, does not read.
const DRAINED_BYTES_MIN: usize = 64 << 10;

/// Milliseconds.
const STALLED_MS: u64 = 5_000;

/// Who is on the other side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// We dialled this member; its handshake is not over.
    Dialled(MemberId),
    /// Someone who dialled us and has not said who it is.
    Unknown,
    /// Someone who dialled us and says to be a member of a later configuration than ours. Nobody
    /// knows here whether it is.
    Newer,
    /// A member that proved to be this one.
    Peer(MemberId),
    /// A client that proved to be this one.
    Client(ClientId),
}

impl Role {
    /// Whether the other side has proved who it is.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Peer(_) | Self::Client(_))
    }
}

/// One connection.
pub struct Link {
    pub connection: Connection,
    pub role: Role,
    /// Bytes that wait for a client, as they are counted for all clients together.
    pub counted: usize,
    /// The client sent more than there is room for, and is not read for a while.
    pub is_paused: bool,
    /// How long its last pause was, and when that was over.
    pause_ms: u64,
    paused_until_ms: u64,
    /// The client's queue was full, and is not tried again before the round is over.
    pub is_full: bool,
    /// The last configuration of which the client was told that it has begun.
    pub told: Option<u64>,
    /// Bytes that waited for a client after the last flush.
    backlog: usize,
    /// Bytes that the client took since then.
    drained: usize,
    /// When it was last seen to keep up.
    kept_up_ms: u64,
    /// Since when a frame has been arriving that is not whole yet.
    unfinished_since_ms: Option<u64>,
    is_ready: bool,
    is_dirty: bool,
}

impl Link {
    /// Takes note of whether a frame is arriving, and whether others were whole meanwhile.
    pub fn note_progress(&mut self, now_ms: u64, has_messages: bool) {
        self.unfinished_since_ms = match self.unfinished_since_ms {
            _ if self.connection.unfinished_bytes() == 0 => None,
            Some(since_ms) if !has_messages => Some(since_ms),
            _ => Some(now_ms),
        };
    }

    /// Until when a pause is to last that begins now: `ms`, or twice as long as the one before, at
    /// most `ms_max`, if that is not longer ago than `ms`.
    pub fn pause_until(&mut self, now_ms: u64, ms: u64, ms_max: u64) -> u64 {
        let is_next = self.pause_ms > 0 && now_ms <= self.paused_until_ms + ms;
        self.pause_ms = if is_next { (2 * self.pause_ms).clamp(ms, ms_max) } else { ms };
        self.paused_until_ms = now_ms + self.pause_ms;
        self.paused_until_ms
    }

    /// Writes what waits, and takes note of whether the other side keeps up. Says how many bytes
    /// were written, as they were before encryption.
    pub fn flush(&mut self, now_ms: u64) -> (Result<(), Closed>, usize) {
        let before = self.connection.queued_bytes();
        let flushed = self.connection.flush();
        let after = self.connection.queued_bytes();
        let written = before.saturating_sub(after);
        self.drained += written;
        if self.backlog == 0 || after == 0 || self.drained >= DRAINED_BYTES_MIN {
            (self.kept_up_ms, self.drained) = (now_ms, 0);
        }
        self.backlog = after;
        (flushed, written)
    }

    /// Whether bytes wait that the other side does not read.
    pub const fn is_stalled(&self, now_ms: u64) -> bool {
        self.backlog > 0 && now_ms.saturating_sub(self.kept_up_ms) >= STALLED_MS
    }
}

/// Connections by token, which is a place in a table; places are used again.
#[derive(Default)]
pub struct Links {
    links: Vec<Option<Link>>,
    free: Vec<usize>,
    ready: Vec<usize>,
    dirty: Vec<usize>,
}

impl Links {
    /// The token that the next added connection will have.
    pub fn next_token(&self) -> usize {
        self.free.last().copied().unwrap_or(self.links.len())
    }

    /// Takes in a connection that was registered under [`Self::next_token`].
    pub fn add(&mut self, connection: Connection, role: Role) -> usize {
        let token = self.next_token();
        let link = Link {
            connection,
            role,
            counted: 0,
            is_paused: false,
            pause_ms: 0,
            paused_until_ms: 0,
            is_full: false,
            told: None,
            backlog: 0,
            drained: 0,
            kept_up_ms: 0,
            unfinished_since_ms: None,
            is_ready: false,
            is_dirty: false,
        };
        match self.free.pop() {
            Some(token) => self.links[token] = Some(link),
            None => self.links.push(Some(link)),
        }
        self.mark_dirty(token);
        token
    }

    /// Takes out a connection. Dropping it closes it.
    pub fn remove(&mut self, token: usize) -> Option<Link> {
        let link = self.links.get_mut(token)?.take()?;
        self.free.push(token);
        Some(link)
    }

    pub fn get(&self, token: usize) -> Option<&Link> {
        self.links.get(token)?.as_ref()
    }

    pub fn get_mut(&mut self, token: usize) -> Option<&mut Link> {
        self.links.get_mut(token)?.as_mut()
    }

    /// Connections on which a frame has been arriving since this time or longer.
    pub fn unfinished(&self, began_by_ms: u64) -> Vec<usize> {
        let is_unfinished =
            |link: &Link| link.unfinished_since_ms.is_some_and(|since_ms| since_ms <= began_by_ms);
        let links = self.links.iter().enumerate();
        links.filter(|(_, link)| link.as_ref().is_some_and(is_unfinished)).map(|(t, _)| t).collect()
    }

    /// Takes note of what the poller reported.
    pub fn on_event(&mut self, event: &Event) {
        let token = event.token().0;
        if let Some(link) = self.get_mut(token) {
            link.connection.on_event(event);
            if link.connection.queued_bytes() > 0 {
                self.mark_dirty(token);
            }
            self.mark_ready(token);
        }
    }

    /// Has a connection read in the next round, if it can be.
    pub fn mark_ready(&mut self, token: usize) {
        if let Some(Some(link)) = self.links.get_mut(token)
            && link.connection.is_readable()
            && !link.is_paused
            && !std::mem::replace(&mut link.is_ready, true)
        {
            self.ready.push(token);
        }
    }

    /// Has a connection flushed at the end of the round.
    pub fn mark_dirty(&mut self, token: usize) {
        if let Some(Some(link)) = self.links.get_mut(token)
            && !std::mem::replace(&mut link.is_dirty, true)
        {
            self.dirty.push(token);
        }
    }

    /// Whether there is something to read without waiting.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Those that are to be read without waiting.
    pub fn ready(&self) -> impl Iterator<Item = &Link> {
        self.ready.iter().filter_map(|token| self.get(*token))
    }

    /// Moves the connections to read to the end of `into`.
    pub fn take_ready(&mut self, into: &mut Vec<usize>) {
        for token in self.ready.drain(..) {
            // A place that was given to another connection meanwhile is read too, without harm.
            if let Some(Some(link)) = self.links.get_mut(token) {
                link.is_ready = false;
                into.push(token);
            }
        }
    }

    /// Has connections that were taken out to be read come first in the next round.
    pub fn postpone(&mut self, tokens: &[usize]) {
        for token in tokens {
            if let Some(Some(link)) = self.links.get_mut(*token) {
                link.is_ready = true;
            }
        }
        self.ready.splice(0..0, tokens.iter().copied());
    }

    /// Moves the connections to flush to the end of `into`.
    pub fn take_dirty(&mut self, into: &mut Vec<usize>) {
        for token in self.dirty.drain(..) {
            if let Some(Some(link)) = self.links.get_mut(token) {
                link.is_dirty = false;
                into.push(token);
            }
        }
    }
}
