//! The sessions of all gateways.

use super::super::error::Error;
use super::super::store::Store;
use super::operation::{Subscription, Topic};
use super::{ENTRY_COST, LEASE_MILLIS, SESSION_BYTES_MAX, SESSIONS_BYTES_MAX, SESSIONS_MAX};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;
use pentarchy_core::ids::ClientId;
use pentarchy_core::service::Event;

/// A lease is renewed at most this often, so that not every operation changes it.
const RENEWAL_MILLIS: u64 = 1000;

/// Keys watched by one connection.
#[derive(Default, Clone, PartialEq, Eq, Debug)]
pub struct Watch {
    pub keys: BTreeSet<Bytes>,
    /// One of them changed.
    pub broken: bool,
}

/// A blocking command that could not be executed yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiter {
    pub client: ClientId,
    pub token: u64,
    /// The encoded command, without a tag.
    pub command: Bytes,
    /// The keys that it waits for, as they stand in the command.
    pub keys: Vec<Bytes>,
    /// The type of value that it takes from, as `TYPE` names it.
    pub takes: &'static str,
}

/// What one gateway has registered.
#[derive(Default, Clone, PartialEq, Eq, Debug)]
pub struct Session {
    pub instance: u64,
    /// When the lease was renewed, in agreed milliseconds.
    pub renewed: u64,
    /// Of the latest update of the subscriptions.
    pub version: u64,
    /// By connection.
    pub watches: BTreeMap<u64, Watch>,
    /// By token, the waiter's place in the order.
    pub waiters: BTreeMap<u64, u64>,
    /// How many connections are subscribed.
    pub subscriptions: BTreeMap<(Topic, Bytes), u32>,
    /// What all of it costs.
    pub cost: u64,
}

/// All sessions, and who waits for what. Fields that are derived from others are not part of the
/// encoded state.
#[derive(Default)]
pub struct Sessions {
    pub by_client: BTreeMap<ClientId, Session>,
    /// In the order in which they came.
    pub waiters: BTreeMap<u64, Waiter>,
    pub next_instance: u64,
    pub next_waiter: u64,
    /// Derived: by the time of renewal.
    leases: BTreeSet<(u64, ClientId)>,
    /// Derived: who watches a key.
    watching: BTreeMap<Bytes, BTreeSet<(ClientId, u64)>>,
    /// Derived: who waits for a key, by the type that they take from and in order.
    waiting: BTreeMap<Bytes, BTreeSet<(&'static str, u64)>>,
    /// Derived: which gateways are subscribed, and for how many connections.
    pub subscribers: BTreeMap<(Topic, Bytes), BTreeMap<ClientId, u32>>,
    /// Derived: what all sessions cost.
    cost: u64,
    changed: bool,
    events: Vec<Event>,
}

/// What a watched key or the name of a subscription costs, in bytes.
#[must_use]
pub fn key_cost(key: &[u8]) -> u64 {
    ENTRY_COST + key.len() as u64
}

impl Sessions {
    /// Whether the encoded state may have changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    pub fn mark_changed(&mut self) {
        self.changed = true;
    }

    pub fn tell(&mut self, client: ClientId, body: Bytes) {
        self.events.push(Event { client, body });
    }

    pub fn take_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.events)
    }

    /// Ends the sessions whose lease is over.
    pub fn expire(&mut self, now: u64, store: &mut Store) {
        while let Some((renewed, client)) = self.leases.first().copied() {
            if renewed.saturating_add(LEASE_MILLIS) >= now {
                break;
            }
            self.end(&client, store);
        }
    }

    /// Begins a session in place of the client's earlier one.
    pub fn open(&mut self, client: ClientId, now: u64, store: &mut Store) -> Result<u64, Error> {
        self.end(&client, store);
        if self.by_client.len() >= SESSIONS_MAX {
            return Err(Error::TOO_MANY_SESSIONS);
        }
        self.next_instance += 1;
        let instance = self.next_instance;
        self.leases.insert((now, client));
        let session = Session { instance, renewed: now, ..Session::default() };
        self.by_client.insert(client, session);
        self.changed = true;
        Ok(instance)
    }

    /// Ends a client's session, if it has one.
    pub fn end(&mut self, client: &ClientId, store: &mut Store) {
        let Some(session) = self.by_client.get(client) else { return };
        self.leases.remove(&(session.renewed, *client));
        let watches: Vec<_> = session.watches.keys().copied().collect();
        let waiters: Vec<_> = session.waiters.keys().copied().collect();
        let subscriptions: Vec<_> = session.subscriptions.keys().cloned().collect();
        for token in watches {
            self.unwatch(client, token, store);
        }
        for token in waiters {
            self.forget_waiter(client, token, store);
        }
        for (topic, name) in subscriptions {
            self.subscribe(client, &Subscription { topic, name, count: 0 });
        }
        self.by_client.remove(client);
        self.changed = true;
    }

    /// Renews the lease of a client's session, if this is the one it has.
    pub fn renew(&mut self, client: &ClientId, instance: u64, now: u64) -> bool {
        let session = self.by_client.get_mut(client);
        let Some(session) = session.filter(|session| session.instance == instance) else {
            return false;
        };
        if now >= session.renewed.saturating_add(RENEWAL_MILLIS) {
            self.leases.remove(&(session.renewed, *client));
            self.leases.insert((now, *client));
            session.renewed = now;
            self.changed = true;
        }
        true
    }

    /// Whether a session may hold so much more.
    pub fn check_room(&self, client: &ClientId, more: u64) -> Result<(), Error> {
        let own = self.by_client.get(client).map_or(0, |session| session.cost);
        let fits = own.saturating_add(more) <= SESSION_BYTES_MAX
            && self.cost.saturating_add(more) <= SESSIONS_BYTES_MAX;
        if fits { Ok(()) } else { Err(Error::SESSION_FULL) }
    }

    fn charge(&mut self, client: &ClientId, more: u64, less: u64) {
        self.cost = self.cost + more - less;
        if let Some(session) = self.by_client.get_mut(client) {
            session.cost = session.cost + more - less;
        }
        self.changed = true;
    }

    /// Watches one more key, for which there is room.
    pub fn watch(&mut self, client: ClientId, token: u64, key: &Bytes, store: &mut Store) {
        let Some(session) = self.by_client.get_mut(&client) else { return };
        let mut cost = 0;
        let watch = session.watches.entry(token).or_insert_with(|| {
            cost += ENTRY_COST;
            Watch::default()
        });
        if watch.keys.insert(key.clone()) {
            cost += key_cost(key);
            store.interest.add(key);
            self.watching.entry(key.clone()).or_default().insert((client, token));
        }
        self.charge(&client, cost, 0);
    }

    /// Ends a connection's watch. Says what became of it.
    pub fn unwatch(&mut self, client: &ClientId, token: u64, store: &mut Store) -> Option<Watch> {
        let watch = self.by_client.get_mut(client)?.watches.remove(&token)?;
        let mut cost = ENTRY_COST;
        for key in &watch.keys {
            cost += key_cost(key);
            store.interest.remove(key);
            forget_one(&mut self.watching, key, &(*client, token));
        }
        self.charge(client, 0, cost);
        Some(watch)
    }

    /// The keys that a connection watches.
    pub fn watched_keys(&self, client: &ClientId, token: u64) -> Vec<Bytes> {
        let session = self.by_client.get(client);
        let watch = session.and_then(|session| session.watches.get(&token));
        watch.map(|watch| watch.keys.iter().cloned().collect()).unwrap_or_default()
    }

    /// Breaks the watches of a key that changed. They are not looked for again when it changes
    /// once more.
    pub fn break_watches(&mut self, key: &Bytes) {
        for (client, token) in self.watching.remove(key).into_iter().flatten() {
            let session = self.by_client.get_mut(&client);
            if let Some(watch) = session.and_then(|session| session.watches.get_mut(&token))
                && !watch.broken
            {
                watch.broken = true;
                self.changed = true;
            }
        }
    }

    /// What a waiter costs.
    pub fn waiter_cost(waiter: &Waiter) -> u64 {
        let keys: u64 = waiter.keys.iter().map(|key| key_cost(key)).sum();
        ENTRY_COST + waiter.command.len() as u64 + keys
    }

    /// Adds a waiter behind all others, for which there is room.
    pub fn wait(&mut self, waiter: Waiter, store: &mut Store) {
        self.next_waiter += 1;
        self.place(self.next_waiter, waiter, store);
    }

    /// Adds a waiter in its place.
    pub fn place(&mut self, place: u64, waiter: Waiter, store: &mut Store) {
        let (client, cost) = (waiter.client, Self::waiter_cost(&waiter));
        if let Some(session) = self.by_client.get_mut(&client) {
            session.waiters.insert(waiter.token, place);
        }
        for key in &waiter.keys {
            if self.waiting.entry(key.clone()).or_default().insert((waiter.takes, place)) {
                store.interest.add(key);
            }
        }
        self.waiters.insert(place, waiter);
        self.charge(&client, cost, 0);
    }

    /// Removes a waiter. Says whether it was there.
    pub fn forget_waiter(&mut self, client: &ClientId, token: u64, store: &mut Store) -> bool {
        let session = self.by_client.get_mut(client);
        let place = session.and_then(|session| session.waiters.remove(&token));
        let Some(place) = place else { return false };
        if let Some(waiter) = self.waiters.remove(&place) {
            for key in &waiter.keys {
                if forget_one(&mut self.waiting, key, &(waiter.takes, place)) {
                    store.interest.remove(key);
                }
            }
            self.charge(client, 0, Self::waiter_cost(&waiter));
        }
        true
    }

    /// Who waits for a key, takes from a value of this type and came after the given place.
    pub fn next_waiting(
        &self,
        key: &Bytes,
        takes: &'static str,
        after: u64,
    ) -> Option<(u64, &Waiter)> {
        let (type_name, place) = *self.waiting.get(key)?.range((takes, after + 1)..).next()?;
        let waiter = self.waiters.get(&place).filter(|_| type_name == takes);
        waiter.map(|waiter| (place, waiter))
    }

    /// Sets how many connections are subscribed to a name, for which there is room.
    pub fn subscribe(&mut self, client: &ClientId, subscription: &Subscription) {
        let Subscription { topic, name, count } = subscription;
        let Some(session) = self.by_client.get_mut(client) else { return };
        let entry = (*topic, name.clone());
        let (mut more, mut less) = (0, 0);
        if *count == 0 {
            if session.subscriptions.remove(&entry).is_some() {
                less = key_cost(name);
                if let Some(clients) = self.subscribers.get_mut(&entry) {
                    clients.remove(client);
                    if clients.is_empty() {
                        self.subscribers.remove(&entry);
                    }
                }
            }
        } else {
            if session.subscriptions.insert(entry.clone(), *count).is_none() {
                more = key_cost(name);
            }
            self.subscribers.entry(entry).or_default().insert(*client, *count);
        }
        self.charge(client, more, less);
    }

    /// Sets the counts of subscriptions, those of names that are there already first, so that what
    /// ends makes room. New names are added all or, if there is no room for them, not at all.
    pub fn set_counts(
        &mut self,
        client: &ClientId,
        subscriptions: &[Subscription],
    ) -> Result<(), Error> {
        let Some(session) = self.by_client.get(client) else { return Ok(()) };
        let is_new = |subscription: &&Subscription| {
            let entry = (subscription.topic, subscription.name.clone());
            subscription.count > 0 && !session.subscriptions.contains_key(&entry)
        };
        let (new, rest): (Vec<_>, Vec<_>) = subscriptions.iter().partition(is_new);
        rest.into_iter().for_each(|subscription| self.subscribe(client, subscription));
        let more = new.iter().map(|subscription| key_cost(&subscription.name)).sum();
        self.check_room(client, more)?;
        new.into_iter().for_each(|subscription| self.subscribe(client, subscription));
        Ok(())
    }

    /// Adds a session as it was encoded, without its waiters. Says whether it can be.
    pub fn restore(&mut self, client: ClientId, session: Session, store: &mut Store) -> bool {
        let Session { instance, renewed, version, watches, subscriptions, .. } = session;
        self.leases.insert((renewed, client));
        let empty = Session { instance, renewed, version, ..Session::default() };
        self.by_client.insert(client, empty);
        for (token, watch) in watches {
            watch.keys.iter().for_each(|key| self.watch(client, token, key, store));
            let session = self.by_client.get_mut(&client);
            match session.and_then(|session| session.watches.get_mut(&token)) {
                Some(restored) => restored.broken = watch.broken,
                // A watch has keys.
                None => return false,
            }
        }
        for ((topic, name), count) in subscriptions {
            self.subscribe(&client, &Subscription { topic, name, count });
        }
        true
    }

    /// Ends all sessions without a trace.
    pub fn clear(&mut self, store: &mut Store) {
        let clients: Vec<_> = self.by_client.keys().copied().collect();
        clients.iter().for_each(|client| self.end(client, store));
        self.events.clear();
    }
}

/// Removes an element from a key's set, and the set with its last. Says whether it was in it.
fn forget_one<T: Ord>(sets: &mut BTreeMap<Bytes, BTreeSet<T>>, key: &Bytes, element: &T) -> bool {
    let Some(set) = sets.get_mut(key) else { return false };
    let found = set.remove(element);
    if set.is_empty() {
        sets.remove(key);
    }
    found
}
