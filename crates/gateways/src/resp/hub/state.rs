//! What a gateway's session holds, and what is done with it without asking anybody.

use super::{Closing, Message, Outcome, Share, Ticket};
use crate::resp::inbox::Inbox;
use bytes::Bytes;
use pentarchy_services::kv::glob;
use pentarchy_services::kv::session::{Request, Subscription, Topic};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

/// Bytes of names in one update.
pub const UPDATE_BYTES: usize = 256 << 10;

/// Tokens of each kind in one update.
pub const UPDATE_TOKENS: usize = 4096;

pub const NO_SESSION: &str = "ERR the gateway's session with the replicas had ended; try again";
pub const LOST: &str = "ERR the gateway lost its session with the replicas while the command \
                        waited; it may have taken an element";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Closed,
    Opening,
    Open(u64),
    /// The gateway ends.
    Ended,
}

/// Under which session a connection watches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// It is not known yet.
    Asked,
    /// All of its keys under this one.
    Under(u64),
    /// The session of some of its keys ended, so nobody knows whether they changed.
    Broken,
}

/// What was asked of the session.
pub enum Asked {
    Watch(u64, Ticket, Share),
    Block(u64, Share),
    Cancel(u64),
}

/// Something to be forgotten, and until when to repeat that.
pub type Forgotten = BTreeMap<u64, Instant>;

pub struct State {
    pub phase: Phase,
    /// What waits for the session to be open.
    pub queued: Vec<(Request, Asked)>,
    pub idle_ticks: u32,
    /// When the last operation was sent that renewed the lease.
    pub renewed: Instant,
    pub next_token: u64,
    /// Blocking commands, by token.
    pub waiters: BTreeMap<u64, Ticket>,
    /// Connections that watch something.
    pub watching: BTreeMap<u64, Watched>,
    /// Connections that are subscribed, by name.
    pub topics: BTreeMap<(Topic, Bytes), BTreeMap<u64, Arc<Inbox>>>,
    /// Names whose count the replicas do not know yet.
    pub dirty: BTreeSet<(Topic, Bytes)>,
    /// Names to which the replicas know this gateway subscribed.
    pub known: BTreeSet<(Topic, Bytes)>,
    /// Told when the next update is executed.
    pub confirming: Vec<Ticket>,
    pub forget_watches: Forgotten,
    pub forget_waiters: Forgotten,
    /// The last tokens of watches and of waiters that were in an update.
    pub forgotten_up_to: (u64, u64),
    pub updating: bool,
    pub version: u64,
    pub cancels: VecDeque<u64>,
    pub cancelling: usize,
    /// A call is sending cancels.
    pub sends_cancels: bool,
    /// The gateway ends: nothing more is asked, and this is told when the session has ended.
    pub ending: Option<oneshot::Sender<()>>,
    /// Events, and bytes of them, since the last operation, which acknowledges them.
    pub events: (usize, usize),
}

/// What is in an update, so that it can be put back.
pub struct Update {
    pub subscriptions: Vec<Subscription>,
    pub confirming: Vec<Ticket>,
    pub watches: Forgotten,
    pub waiters: Forgotten,
}

impl State {
    pub fn new() -> Self {
        Self {
            phase: Phase::Closed,
            queued: Vec::new(),
            idle_ticks: 0,
            renewed: Instant::now(),
            next_token: 0,
            waiters: BTreeMap::new(),
            watching: BTreeMap::new(),
            topics: BTreeMap::new(),
            dirty: BTreeSet::new(),
            known: BTreeSet::new(),
            confirming: Vec::new(),
            forget_watches: BTreeMap::new(),
            forget_waiters: BTreeMap::new(),
            forgotten_up_to: (0, 0),
            updating: false,
            version: 0,
            cancels: VecDeque::new(),
            cancelling: 0,
            sends_cancels: false,
            ending: None,
            events: (0, 0),
        }
    }
}

/// Whether something is to be forgotten now and not only with the next tick.
pub fn due(forgotten: &Forgotten, now: Instant) -> bool {
    forgotten.values().any(|until| *until <= now)
}

/// Takes as much as one update may carry.
pub fn take_update(state: &mut State) -> Update {
    let mut bytes = 0;
    let mut subscriptions = Vec::new();
    while let Some((_, name)) = state.dirty.first() {
        bytes += name.len() + 16;
        if bytes > UPDATE_BYTES && !subscriptions.is_empty() {
            break;
        }
        let Some(entry) = state.dirty.pop_first() else { break };
        let count = state.topics.get(&entry).map_or(0, BTreeMap::len);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        subscriptions.push(Subscription { topic: entry.0, name: entry.1, count });
    }
    // Whoever is told must have all of its names in updates that were executed.
    let whole = state.dirty.is_empty();
    let confirming = if whole { std::mem::take(&mut state.confirming) } else { Vec::new() };
    let watches = take_some(&mut state.forget_watches, &mut state.forgotten_up_to.0);
    let waiters = take_some(&mut state.forget_waiters, &mut state.forgotten_up_to.1);
    Update { subscriptions, confirming, watches, waiters }
}

/// Takes as many tokens as one update may carry, from where the last one ended on, so that those
/// that are repeated do not keep out the others.
pub fn take_some(from: &mut Forgotten, up_to: &mut u64) -> Forgotten {
    let mut rest = from.split_off(&up_to.saturating_add(1));
    // Those from the start on come when there are none behind.
    if rest.is_empty() {
        std::mem::swap(from, &mut rest);
    }
    if let Some(first) = rest.keys().nth(UPDATE_TOKENS).copied() {
        from.append(&mut rest.split_off(&first));
    }
    *up_to = rest.last_key_value().map_or(0, |(token, _)| *token);
    rest
}

/// The replicas have the counts of these names.
pub fn know(state: &mut State, subscriptions: Vec<Subscription>) {
    for Subscription { topic, name, count } in subscriptions {
        if count > 0 {
            state.known.insert((topic, name));
        } else {
            state.known.remove(&(topic, name));
        }
    }
}

/// The replicas have only those of these names that they knew before. Whoever relies on another one
/// would wait for its messages in vain, so it is told and closed.
pub fn refuse(state: &mut State, subscriptions: Vec<Subscription>) {
    for Subscription { topic, name, count } in subscriptions {
        let entry = (topic, name);
        if count == 0 {
            state.known.remove(&entry);
        }
        if state.known.contains(&entry) {
            continue;
        }
        for connection in state.topics.remove(&entry).iter().flat_map(BTreeMap::values) {
            connection.close(Closing::Refused);
        }
    }
}

/// Ends the session for all who rely on it.
pub fn lose(state: &mut State) {
    if state.phase != Phase::Ended {
        state.phase = Phase::Closed;
    }
    for ticket in std::mem::take(&mut state.waiters).values() {
        ticket.give(Outcome::Refused(LOST));
    }
    for connection in std::mem::take(&mut state.topics).values().flat_map(BTreeMap::values) {
        connection.close(Closing::Lost);
    }
    state.dirty.clear();
    state.known.clear();
    // Those who watch learn it when they execute their transactions.
    state.watching.values_mut().for_each(|watched| *watched = Watched::Broken);
    state.forget_watches.clear();
    state.forget_waiters.clear();
    state.cancels.clear();
    state.confirming.drain(..).for_each(|ticket| ticket.give(Outcome::Refused(NO_SESSION)));
}

/// Gives a message to all connections that are subscribed to its channel.
pub fn deliver(state: &State, channel: &Bytes, payload: &Bytes) {
    let message = |pattern| Message { pattern, channel: channel.clone(), payload: payload.clone() };
    let exact = state.topics.get(&(Topic::Channel, channel.clone()));
    for connection in exact.into_iter().flat_map(BTreeMap::values) {
        connection.push(message(None));
    }
    let patterns = state.topics.range((Topic::Pattern, Bytes::new())..);
    for ((_, pattern), connections) in patterns {
        if glob::matches(pattern, channel) {
            for connection in connections.values() {
                connection.push(message(Some(pattern.clone())));
            }
        }
    }
}
