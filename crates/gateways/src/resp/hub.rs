//! The gateway's session with the replicas: what its connections watch, wait for and are
//! subscribed to. See [`pentarchy_services::kv::session`].
//!
//! The session is opened when it is first needed and renewed while anything is registered under
//! it. One update at a time is under way; what changes meanwhile goes with the next one. An update
//! sets absolute counts, so one that may or may not have been executed is simply followed by
//! another.

mod state;

use super::backend::{Backend, BackendError, Completion, GatewayEvent};
use super::backend_error::MAY_TAKE;
use super::budget::Share;
use super::inbox::{Closing, Inbox, Message, Outcome};
use bytes::Bytes;
use pentarchy_services::kv::session::{Answer, LEASE_MILLIS, Notice, Request, Topic};
use pentarchy_services::kv::{Command, Reply};
use state::{
    Asked, Forgotten, NO_SESSION, Phase, State, Update, Watched, deliver, due, know, lose, refuse,
    take_update,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How often a session is renewed. A thirtieth of its lease.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// Ticks without anything registered after which the session is left to its end.
const IDLE_TICKS: u32 = 10;

/// How long it is repeated that something is to be forgotten whose registration may still be
/// executed.
const UNCERTAIN: Duration = Duration::from_secs(60);

/// Events, and bytes of them, after which the replicas are told that they came. They keep a few
/// thousand, and 2 MiB.
const UNACKNOWLEDGED: (usize, usize) = (256, 256 << 10);

/// Cancels under way at a time.
const CANCELS: usize = 64;

const NONSENSE: &str = "ERR the replicas run a service that is not the key-value store";

/// Where an outcome goes.
pub(crate) struct Ticket {
    pub inbox: Arc<Inbox>,
    pub number: u64,
}

impl Ticket {
    fn give(&self, outcome: Outcome) {
        self.inbox.complete(self.number, outcome);
    }
}

/// Shared by all connections of a gateway.
pub(crate) struct Hub<B> {
    backend: B,
    /// How long an operation may take before it is given up.
    within: Duration,
    state: Mutex<State>,
}

impl<B: Backend> Hub<B> {
    pub fn new(backend: B, within: Duration) -> Arc<Self> {
        let hub = Arc::new(Self { backend, within, state: Mutex::new(State::new()) });
        // The backend must not keep the hub, which keeps the backend.
        let weak = Arc::downgrade(&hub);
        hub.backend.on_event(Arc::new(move |event| {
            if let Some(hub) = weak.upgrade() {
                hub.on_event(event);
            }
        }));
        hub
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way, so a poisoned state is a whole one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session under which a connection watches all of its keys, if there is one.
    pub fn watches_under(&self, id: u64) -> Option<u64> {
        match self.lock().watching.get(&id) {
            Some(Watched::Under(instance)) => Some(*instance),
            Some(Watched::Asked | Watched::Broken) | None => None,
        }
    }

    /// Opens a session at once. It ends one that an earlier gateway of the same key left behind,
    /// whose waiting commands would take elements that nobody gets.
    pub fn start(self: &Arc<Self>) {
        let state = self.lock();
        if state.phase == Phase::Closed {
            self.open(state);
        }
    }

    /// Ends the session, so that what it registered is gone at once, and says when it has ended.
    /// Nothing more is asked of the replicas.
    pub fn close(self: &Arc<Self>) -> oneshot::Receiver<()> {
        let (sender, ended) = oneshot::channel();
        let mut state = self.lock();
        state.ending = Some(sender);
        if let Phase::Open(instance) = state.phase {
            drop(state);
            self.submit_close(instance);
        } else if state.phase == Phase::Closed {
            // There is nothing to wait for.
            state.phase = Phase::Ended;
            drop(state.ending.take());
        }
        ended
    }

    fn submit_close(self: &Arc<Self>, instance: u64) {
        let mut state = self.lock();
        let told = state.ending.take();
        lose(&mut state);
        state.phase = Phase::Ended;
        drop(state);
        let done = Completion::call(move |_| drop(told), None);
        self.backend.submit(Request::Close.to_operation(instance), self.within, done);
    }

    /// Has a connection watch keys.
    pub fn watch(self: &Arc<Self>, id: u64, keys: Vec<Bytes>, ticket: Ticket, share: Share) {
        let mut state = self.lock();
        state.watching.entry(id).or_insert(Watched::Asked);
        state.forget_watches.remove(&id);
        self.ask(state, Request::Watch { token: id, keys }, Asked::Watch(id, ticket, share));
    }

    /// What a connection watched was used up by the replicas.
    pub fn watched(&self, id: u64) {
        self.lock().watching.remove(&id);
    }

    /// Has a connection's watch forgotten.
    pub fn unwatch(self: &Arc<Self>, id: u64, ticket: Ticket) {
        let mut state = self.lock();
        state.watching.remove(&id);
        state.forget_watches.insert(id, Instant::now());
        state.confirming.push(ticket);
        self.update(state, false);
    }

    /// Has a blocking command executed, now or later. Says under which token.
    pub fn block(self: &Arc<Self>, command: Command, ticket: Ticket, share: Share) -> u64 {
        let mut state = self.lock();
        state.next_token += 1;
        let token = state.next_token;
        state.waiters.insert(token, ticket);
        self.ask(state, Request::Block { token, command }, Asked::Block(token, share));
        token
    }

    /// Has a blocking command not wait any more; its outcome is then that nothing came.
    pub fn cancel(self: &Arc<Self>, token: u64) {
        let mut state = self.lock();
        state.cancels.push_back(token);
        self.cancel_more(state);
    }

    /// Nobody waits for a blocking command any more.
    pub fn abandon(self: &Arc<Self>, token: u64) {
        let mut state = self.lock();
        if state.waiters.remove(&token).is_some() {
            state.forget_waiters.insert(token, Instant::now());
            self.update(state, false);
        }
    }

    /// Changes a connection's subscriptions; `true` begins one.
    pub fn subscribe(
        self: &Arc<Self>,
        id: u64,
        changes: &[(Topic, Bytes, bool)],
        ticket: Option<Ticket>,
        inbox: &Arc<Inbox>,
    ) {
        let mut state = self.lock();
        for (topic, name, begins) in changes {
            let entry = (*topic, name.clone());
            if *begins {
                let connections = state.topics.entry(entry.clone()).or_default();
                connections.insert(id, inbox.clone());
            } else if let Some(connections) = state.topics.get_mut(&entry) {
                connections.remove(&id);
                if connections.is_empty() {
                    state.topics.remove(&entry);
                }
            }
            state.dirty.insert(entry);
        }
        state.confirming.extend(ticket);
        self.update(state, false);
    }

    /// A connection is gone that watched something.
    pub fn leave(self: &Arc<Self>, id: u64) {
        let mut state = self.lock();
        if state.watching.remove(&id).is_some() {
            // Its last request may still be under way.
            state.forget_watches.insert(id, Instant::now() + UNCERTAIN);
            self.update(state, false);
        }
    }

    /// To be called every [`TICK`].
    pub fn tick(self: &Arc<Self>) {
        self.tick_at(Instant::now());
    }

    fn tick_at(self: &Arc<Self>, now: Instant) {
        let mut state = self.lock();
        let over = now.saturating_duration_since(state.renewed).as_millis() > LEASE_MILLIS.into();
        if over && matches!(state.phase, Phase::Open(_)) {
            tracing::warn!("the session with the replicas could not be renewed in time");
            lose(&mut state);
        }
        let registered = !(state.waiters.is_empty()
            && state.watching.is_empty()
            && state.topics.is_empty()
            && state.forget_watches.is_empty()
            && state.forget_waiters.is_empty());
        state.idle_ticks = if registered { 0 } else { state.idle_ticks + 1 };
        if state.idle_ticks > IDLE_TICKS && matches!(state.phase, Phase::Open(_)) {
            state.phase = Phase::Closed;
        }
        self.update(state, registered);
    }

    fn on_event(self: &Arc<Self>, event: GatewayEvent) {
        let mut state = self.lock();
        match event {
            GatewayEvent::Lost => {
                tracing::warn!("events of the replicas were lost; subscribers are closed");
                lose(&mut state);
            }
            GatewayEvent::Event(body) => {
                match Notice::read(&body) {
                    // One of an earlier gateway of this key is nobody's.
                    Ok(Notice::Served { instance, .. }) if state.phase != Phase::Open(instance) => {
                        tracing::debug!("an element arrived for a session that has ended");
                    }
                    Ok(Notice::Served { token, reply, .. }) => {
                        if let Some(ticket) = state.waiters.remove(&token) {
                            ticket.give(Outcome::Result(Ok(reply)));
                        }
                    }
                    Ok(Notice::Message { channel, payload }) => deliver(&state, &channel, &payload),
                    Err(_) => tracing::warn!("an event of the replicas cannot be read"),
                }
                let (events, bytes) = state.events;
                state.events = (events + 1, bytes + body.len());
                if state.events.0 >= UNACKNOWLEDGED.0 || state.events.1 >= UNACKNOWLEDGED.1 {
                    self.update(state, true);
                }
            }
        }
    }

    /// Asks something of the session, once it is open.
    fn ask(self: &Arc<Self>, mut state: MutexGuard<'_, State>, request: Request, asked: Asked) {
        state.idle_ticks = 0;
        match state.phase {
            Phase::Open(instance) => {
                drop(state);
                self.submit(instance, &request, asked);
            }
            Phase::Opening => state.queued.push((request, asked)),
            Phase::Closed => {
                state.queued.push((request, asked));
                self.open(state);
            }
            Phase::Ended => {
                drop(state);
                self.settle(asked, Outcome::Result(Err(BackendError::Closed)));
            }
        }
    }

    fn open(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        state.phase = Phase::Opening;
        drop(state);
        let (hub, sent) = (self.clone(), Instant::now());
        let done = Completion::call(move |result| hub.opened(result, sent), None);
        self.backend.submit(Request::Open.to_operation(0), self.within, done);
    }

    fn opened(self: &Arc<Self>, result: Result<Bytes, BackendError>, sent: Instant) {
        let mut state = self.lock();
        let answer = result.map(|result| Answer::read(&result));
        let reply = match &answer {
            Ok(Ok(Answer::Reply(reply))) => Reply::decode(reply).ok(),
            _ => None,
        };
        let queued = std::mem::take(&mut state.queued);
        if let Some(Reply::Int(instance)) = reply {
            let instance = instance.unsigned_abs();
            if state.ending.is_some() {
                drop(state);
                self.submit_close(instance);
                let closed = Outcome::Result(Err(BackendError::Closed));
                return queued
                    .into_iter()
                    .for_each(|(_, asked)| self.settle(asked, closed.clone()));
            }
            state.phase = Phase::Open(instance);
            // All of an earlier session is forgotten.
            state.version = 0;
            state.renewed = sent;
            state.known.clear();
            state.dirty = state.topics.keys().cloned().collect();
            self.update(state, false);
            for (request, asked) in queued {
                self.submit(instance, &request, asked);
            }
            return;
        }
        state.phase = if state.ending.take().is_some() { Phase::Ended } else { Phase::Closed };
        let confirming = std::mem::take(&mut state.confirming);
        drop(state);
        let outcome = match answer {
            Err(error) => Outcome::Result(Err(error)),
            Ok(Ok(Answer::Reply(reply))) => Outcome::Result(Ok(reply)),
            Ok(_) => Outcome::Refused(NONSENSE),
        };
        confirming.iter().for_each(|ticket| ticket.give(outcome.clone()));
        for (_, asked) in queued {
            self.settle(asked, never_sent(outcome.clone()));
        }
    }

    fn submit(self: &Arc<Self>, instance: u64, request: &Request, asked: Asked) {
        if let Request::Watch { token, .. } = request
            && let Some(watched) = self.lock().watching.get_mut(token)
        {
            *watched = match *watched {
                Watched::Asked => Watched::Under(instance),
                Watched::Under(earlier) if earlier == instance => Watched::Under(instance),
                Watched::Under(_) | Watched::Broken => Watched::Broken,
            };
        }
        let (hub, sent) = (self.clone(), Instant::now());
        let done = Completion::call(
            move |result| {
                if result.is_ok() {
                    hub.renew(sent);
                }
                let outcome = match result.map(|result| Answer::read(&result)) {
                    Err(error) => Outcome::Result(Err(error)),
                    Ok(Ok(Answer::Reply(reply))) => Outcome::Result(Ok(reply)),
                    Ok(Ok(Answer::Waits)) => Outcome::Waits,
                    Ok(Ok(Answer::NoSession)) => {
                        hub.ended(instance);
                        Outcome::Refused(NO_SESSION)
                    }
                    Ok(Err(_)) => Outcome::Refused(NONSENSE),
                };
                hub.settle(asked, outcome);
            },
            None,
        );
        self.backend.submit(request.to_operation(instance), self.within, done);
    }

    /// The replicas executed what was sent then, or have no such session, which is seen elsewhere.
    fn renew(&self, sent: Instant) {
        let mut state = self.lock();
        state.renewed = state.renewed.max(sent);
    }

    /// The replicas know nothing of this session.
    fn ended(&self, instance: u64) {
        let mut state = self.lock();
        if state.phase == Phase::Open(instance) {
            tracing::warn!("the session with the replicas had ended");
            lose(&mut state);
        }
    }

    fn settle(self: &Arc<Self>, asked: Asked, outcome: Outcome) {
        // It may wait at the replicas, now or later.
        let open = matches!(&outcome, Outcome::Result(Err(error)) if error.may_wait());
        match asked {
            Asked::Watch(id, ticket, share) => {
                drop(share);
                let mut state = self.lock();
                if !state.watching.contains_key(&id) {
                    // It came after what was to forget it, or may still come.
                    let again = if open { UNCERTAIN } else { Duration::ZERO };
                    state.forget_watches.insert(id, Instant::now() + again);
                }
                drop(state);
                ticket.give(outcome);
            }
            Asked::Block(token, share) => {
                drop(share);
                let mut state = self.lock();
                if outcome == Outcome::Waits {
                    match state.waiters.get(&token) {
                        Some(ticket) => ticket.give(outcome),
                        // Served already, or abandoned before it waited.
                        None => {
                            state.forget_waiters.insert(token, Instant::now());
                            self.update(state, false);
                        }
                    }
                    return;
                }
                if open {
                    state.forget_waiters.insert(token, Instant::now() + UNCERTAIN);
                }
                if let Some(ticket) = state.waiters.remove(&token) {
                    ticket.give(match outcome {
                        Outcome::Result(Err(BackendError::TimedOut)) => Outcome::Refused(MAY_TAKE),
                        known => known,
                    });
                }
            }
            Asked::Cancel(token) => {
                let mut state = self.lock();
                state.cancelling -= 1;
                match outcome {
                    Outcome::Result(Ok(reply)) if Reply::decode(&reply) == Ok(Reply::Int(0)) => {
                        // It was served; the event says with what.
                    }
                    Outcome::Result(Ok(_)) => {
                        if let Some(ticket) = state.waiters.remove(&token) {
                            ticket.give(Outcome::Result(Ok(Reply::NilArray.encode().into())));
                        }
                    }
                    failed => {
                        state.forget_waiters.insert(token, Instant::now() + UNCERTAIN);
                        if let Some(ticket) = state.waiters.remove(&token) {
                            ticket.give(not_cancelled(failed));
                        }
                    }
                }
                self.cancel_more(state);
            }
        }
    }

    /// Sends cancels as long as there is room. One that fails at once comes here again from within,
    /// and leaves the rest to the call that is at it: the backlog may be deeper than the stack.
    fn cancel_more<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) {
        if std::mem::replace(&mut state.sends_cancels, true) {
            return;
        }
        while state.cancelling < CANCELS
            && let Some(token) = state.cancels.pop_front()
        {
            if state.waiters.contains_key(&token) {
                state.cancelling += 1;
                self.ask(state, Request::Cancel { token }, Asked::Cancel(token));
                state = self.lock();
            }
        }
        state.sends_cancels = false;
    }

    /// Sends what changed, or only that the gateway is alive, unless an update is under way.
    fn update(self: &Arc<Self>, mut state: MutexGuard<'_, State>, alive: bool) {
        let now = Instant::now();
        let pending = !(state.dirty.is_empty() && state.confirming.is_empty())
            || due(&state.forget_watches, now)
            || due(&state.forget_waiters, now);
        if state.updating || !(pending || alive) {
            return;
        }
        let instance = match state.phase {
            Phase::Open(instance) => instance,
            Phase::Opening | Phase::Ended => return,
            Phase::Closed => return self.open(state),
        };
        let update = take_update(&mut state);
        state.updating = true;
        state.version += 1;
        state.events = (0, 0);
        let request = Request::Update {
            version: state.version,
            subscriptions: update.subscriptions.clone(),
            watches: update.watches.keys().copied().collect(),
            waiters: update.waiters.keys().copied().collect(),
        };
        drop(state);
        let (hub, sent) = (self.clone(), Instant::now());
        let done = Completion::call(
            move |result| {
                if result.is_ok() {
                    hub.renew(sent);
                }
                hub.updated(instance, update, result);
            },
            None,
        );
        self.backend.submit(request.to_operation(instance), self.within, done);
    }

    fn updated(
        self: &Arc<Self>,
        instance: u64,
        update: Update,
        result: Result<Bytes, BackendError>,
    ) {
        let outcome = match result.map(|result| Answer::read(&result)) {
            Ok(Ok(Answer::Reply(reply))) => Outcome::Result(Ok(reply)),
            Ok(Ok(Answer::NoSession)) => {
                self.ended(instance);
                Outcome::Refused(NO_SESSION)
            }
            Ok(_) => Outcome::Refused(NONSENSE),
            Err(error) => {
                if error == BackendError::Overtaken {
                    self.ended(instance);
                }
                Outcome::Result(Err(error))
            }
        };
        update.confirming.iter().for_each(|ticket| ticket.give(outcome.clone()));
        let retried = match &outcome {
            Outcome::Result(Err(error)) => *error != BackendError::TooLarge,
            _ => false,
        };
        let done = matches!(&outcome, Outcome::Result(Ok(reply))
            if matches!(Reply::decode(reply), Ok(reply) if !matches!(reply, Reply::Error(..))));
        let mut state = self.lock();
        state.updating = false;
        if state.phase == Phase::Open(instance) && !retried {
            if done {
                know(&mut state, update.subscriptions);
            } else {
                refuse(&mut state, update.subscriptions);
            }
            // What may still be registered is forgotten again with the next tick.
            let now = Instant::now();
            let again = |forgotten: Forgotten| forgotten.into_iter().filter(move |f| f.1 > now);
            state.forget_watches.extend(again(update.watches));
            state.forget_waiters.extend(again(update.waiters));
            self.update(state, false);
        } else if state.phase == Phase::Open(instance) {
            // The next tick tries again.
            let names = update.subscriptions.into_iter().map(|s| (s.topic, s.name));
            state.dirty.extend(names);
            state.forget_watches.extend(update.watches);
            state.forget_waiters.extend(update.waiters);
        }
    }
}

/// The outcome of a request that waited for a session which the gateway could not open. The gateway
/// never sent that request, so no replica executes it, whatever the outcome of the opening is.
fn never_sent(opening: Outcome) -> Outcome {
    match opening {
        Outcome::Result(Err(BackendError::TimedOut | BackendError::Forgotten)) => {
            Outcome::Result(Err(BackendError::GivenUp))
        }
        other => other,
    }
}

/// What the gateway tells a client whose command waits at the replicas, if the gateway failed to
/// cancel that command. An error that the replicas did not execute the cancel says nothing of the
/// command.
fn not_cancelled(cancel: Outcome) -> Outcome {
    match cancel {
        Outcome::Result(Err(BackendError::Overtaken | BackendError::Closed))
        | Outcome::Refused(_) => cancel,
        _ => Outcome::Refused(MAY_TAKE),
    }
}

#[cfg(test)]
mod tests;
