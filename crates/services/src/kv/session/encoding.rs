//! The section of the state that holds the sessions.
//!
//! ```text
//! section      := next_instance:u64 next_waiter:u64 session* waiter*       (each a counted list)
//! session      := client:32 instance:u64 renewed:u64 version:u64 watch* subscription*
//! watch        := token:u64 broken:u8 key*
//! subscription := topic:u8 name count:u32
//! waiter       := place:u64 client:32 token:u64 command
//! ```

use super::super::command::Args;
use super::super::store::Store;
use super::blocking::Blocking;
use super::operation::Subscription;
use super::table::{Session, Sessions, Waiter, Watch};
use super::{SESSIONS_BYTES_MAX, SESSIONS_MAX};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use pentarchy_core::ids::ClientId;
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// More elements than a list of a valid section has.
const COUNT_MAX: usize = SESSIONS_BYTES_MAX as usize;

/// # Panics
/// If a list has 2^32 elements, which the limits rule out.
pub fn encode(sessions: &Sessions) -> Vec<u8> {
    let mut to = Writer::default();
    to.u64(sessions.next_instance);
    to.u64(sessions.next_waiter);
    to.u32(count(sessions.by_client.len()));
    for (client, session) in &sessions.by_client {
        to.array(&client.0);
        to.u64(session.instance);
        to.u64(session.renewed);
        to.u64(session.version);
        to.u32(count(session.watches.len()));
        for (token, watch) in &session.watches {
            to.u64(*token);
            to.u8(u8::from(watch.broken));
            to.u32(count(watch.keys.len()));
            watch.keys.iter().for_each(|key| to.bytes(key));
        }
        to.u32(count(session.subscriptions.len()));
        for ((topic, name), count) in &session.subscriptions {
            Subscription { topic: *topic, name: name.clone(), count: *count }.encode(&mut to);
        }
    }
    to.u32(count(sessions.waiters.len()));
    for (place, waiter) in &sessions.waiters {
        to.u64(*place);
        to.array(&waiter.client.0);
        to.u64(waiter.token);
        to.bytes(&waiter.command);
    }
    to.into_vec()
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("the sessions' limits are below 2^32 bytes")
}

/// Replaces all sessions. After an error they hold a part, and the state must not be used.
pub fn restore(sessions: &mut Sessions, store: &mut Store, bytes: &[u8]) -> Result<(), Malformed> {
    let bytes = Bytes::copy_from_slice(bytes);
    let mut from = Reader::new(&bytes);
    sessions.clear(store);
    sessions.next_instance = from.u64()?;
    sessions.next_waiter = from.u64()?;
    let mut last = None;
    for _ in 0..listed(&mut from, SESSIONS_MAX)? {
        let client = ClientId(from.array()?);
        let session = session(&mut from)?;
        if !ascends(&mut last, client) || session.instance > sessions.next_instance {
            return Err(Malformed);
        }
        if !sessions.restore(client, session, store) {
            return Err(Malformed);
        }
    }
    let mut last = None;
    for _ in 0..listed(&mut from, COUNT_MAX)? {
        let place = from.u64()?;
        let waiter = waiter(&mut from)?;
        let session = sessions.by_client.get(&waiter.client).ok_or(Malformed)?;
        let known = session.waiters.contains_key(&waiter.token);
        if known || !ascends(&mut last, place) || place > sessions.next_waiter {
            return Err(Malformed);
        }
        sessions.place(place, waiter, store);
    }
    sessions.mark_changed();
    from.finish()
}

fn session(from: &mut Reader<'_>) -> Result<Session, Malformed> {
    let mut session = Session {
        instance: from.u64()?,
        renewed: from.u64()?,
        version: from.u64()?,
        ..Session::default()
    };
    let mut last = None;
    for _ in 0..listed(from, COUNT_MAX)? {
        let token = from.u64()?;
        let broken = match from.u8()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed),
        };
        let mut watch = Watch { broken, ..Watch::default() };
        let mut last_key = None;
        for _ in 0..listed(from, COUNT_MAX)? {
            let key = from.bytes(OPERATION_BYTES_MAX)?;
            if !ascends(&mut last_key, key.clone()) {
                return Err(Malformed);
            }
            watch.keys.insert(key);
        }
        if !ascends(&mut last, token) {
            return Err(Malformed);
        }
        session.watches.insert(token, watch);
    }
    session.subscriptions = subscriptions(from)?;
    Ok(session)
}

type Subscriptions = BTreeMap<(super::Topic, Bytes), u32>;

fn subscriptions(from: &mut Reader<'_>) -> Result<Subscriptions, Malformed> {
    let mut found = BTreeMap::new();
    let mut last = None;
    for _ in 0..listed(from, COUNT_MAX)? {
        let Subscription { topic, name, count } = Subscription::decode(from)?;
        if count == 0 || !ascends(&mut last, (topic, name.clone())) {
            return Err(Malformed);
        }
        found.insert((topic, name), count);
    }
    Ok(found)
}

fn waiter(from: &mut Reader<'_>) -> Result<Waiter, Malformed> {
    let client = ClientId(from.array()?);
    let token = from.u64()?;
    let command = from.bytes(OPERATION_BYTES_MAX)?;
    let (args, rest) = Args::split(&command)?;
    let blocking = Blocking::parse(&args).map_err(|_| Malformed)?;
    if !rest.is_empty() {
        return Err(Malformed);
    }
    let (keys, takes) = (blocking.owned_keys(), blocking.takes);
    Ok(Waiter { client, token, command: command.clone(), keys, takes })
}

/// The length of a list whose elements take a byte at least.
fn listed(from: &mut Reader<'_>, max: usize) -> Result<u32, Malformed> {
    let count = from.u32()?;
    if count as usize > max.min(from.remaining()) { Err(Malformed) } else { Ok(count) }
}

/// Whether an element stands behind the one before.
fn ascends<T: Ord>(last: &mut Option<T>, next: T) -> bool {
    let behind = last.as_ref().is_none_or(|last| *last < next);
    *last = Some(next);
    behind
}
