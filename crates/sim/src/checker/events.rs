//! What the service tells clients unasked: correct replicas number it alike and tell it once, and
//! each client is told exactly that, in order, each event once. It misses none unless so many came
//! after it that replicas could not keep it; whether it is told all of them in the end is asked
//! together with liveness.

use super::{Broken, Verdict};
use crate::audit::{Audit, Fingerprint};
use pentarchy_core::ids::{ClientId, ReplicaId, ReplicaSet};
use pentarchy_core::limits::{CLIENT_EVENTS_BYTES_MAX, CLIENT_EVENTS_MAX, EVENT_HEADER_BYTES};
use std::collections::{BTreeMap, BTreeSet};

/// The name of the property.
pub const PROPERTY: &str = "events";

/// An event as correct replicas told it.
struct Told {
    body: Fingerprint,
    bytes: usize,
    by: ReplicaSet,
}

/// One client's events.
#[derive(Default)]
struct Stream {
    told: BTreeMap<u64, Told>,
    /// The bodies in it; the service makes no two alike.
    bodies: BTreeSet<Fingerprint>,
    /// The last number that the client was told, or was told that it misses it.
    last: u64,
}

/// See the [module](self).
#[derive(Default)]
pub struct Events {
    streams: BTreeMap<ClientId, Stream>,
    heard: u64,
    missed: u64,
}

fn broken(detail: String) -> Verdict {
    Err(Broken::new(PROPERTY, detail))
}

impl Events {
    /// A correct replica executed something that tells a client this.
    ///
    /// # Errors
    /// If it told it before, or another replica tells it otherwise.
    pub fn told(
        &mut self,
        replica: ReplicaId,
        client: ClientId,
        number: u64,
        body: &[u8],
    ) -> Verdict {
        let Stream { told, bodies, .. } = self.streams.entry(client).or_default();
        let fingerprint = Audit::of(body);
        let bytes = EVENT_HEADER_BYTES + body.len();
        let is_new = !told.contains_key(&number);
        let known = told.entry(number).or_insert_with(|| {
            let by = ReplicaSet::EMPTY;
            Told { body: fingerprint, bytes, by }
        });
        if known.body != fingerprint {
            return broken(format!("{replica} tells {client} another event {number}"));
        }
        if is_new && !bodies.insert(fingerprint) {
            return broken(format!("{replica} tells {client} an event again as {number}"));
        }
        if !known.by.insert(replica) {
            return broken(format!("{replica} tells {client} event {number} twice"));
        }
        let expected = if is_new { told.len() as u64 } else { number };
        if number != expected {
            return broken(format!("{replica} tells {client} {number}; {expected} is next"));
        }
        Ok(())
    }

    /// A correct replica starts again from an earlier state, and may tell again what it told.
    pub fn resumed(&mut self, replica: ReplicaId) {
        for told in self.streams.values_mut().flat_map(|stream| stream.told.values_mut()) {
            told.by.remove(replica);
        }
    }

    /// A client was told an event.
    ///
    /// # Errors
    /// If no correct replica told it, or it is not the next one.
    pub fn heard(&mut self, client: ClientId, number: u64, body: &[u8]) -> Verdict {
        let stream = self.streams.entry(client).or_default();
        if number != stream.last + 1 {
            return broken(format!("{client} hears {number} behind {}", stream.last));
        }
        stream.last = number;
        self.heard += 1;
        match stream.told.get(&number) {
            Some(told) if told.body == Audit::of(body) => Ok(()),
            Some(_) => broken(format!("{client} hears another event {number} than it was told")),
            None => broken(format!("{client} hears {number}, which nobody told it")),
        }
    }

    /// A client was told that it misses what is below this number.
    ///
    /// # Errors
    /// If replicas could have kept the last of those.
    pub fn missed(&mut self, client: ClientId, upto: u64) -> Verdict {
        let stream = self.streams.entry(client).or_default();
        if upto <= stream.last + 1 {
            return broken(format!("{client} misses nothing below {upto}: it has {}", stream.last));
        }
        self.missed += upto - 1 - stream.last;
        stream.last = upto - 1;
        let after = stream.told.range(stream.last..).map(|(_, told)| told.bytes);
        let (count, bytes) = after.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        if count <= CLIENT_EVENTS_MAX && bytes <= CLIENT_EVENTS_BYTES_MAX {
            return broken(format!("{client} misses {}, which was to be kept", stream.last));
        }
        Ok(())
    }

    /// Whether each client was told everything.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let complete = |stream: &Stream| {
            stream.told.last_key_value().is_none_or(|(number, _)| *number <= stream.last)
        };
        self.streams.values().all(complete)
    }

    /// Events that clients were told.
    #[must_use]
    pub const fn heard_count(&self) -> u64 {
        self.heard
    }

    /// Events that clients were told they miss.
    #[must_use]
    pub const fn missed_count(&self) -> u64 {
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId([3; 32]);

    fn told(events: &mut Events, replica: u16, number: u64, body: &[u8]) -> Verdict {
        events.told(ReplicaId(replica), CLIENT, number, body)
    }

    fn two() -> Events {
        let mut events = Events::default();
        for replica in 0..2 {
            told(&mut events, replica, 1, b"a").unwrap();
            told(&mut events, replica, 2, b"b").unwrap();
        }
        events
    }

    fn is_named(verdict: Verdict) {
        assert_eq!(verdict.unwrap_err().property, PROPERTY);
    }

    #[test]
    fn replicas_that_tell_otherwise_or_again_are_found() {
        is_named(told(&mut two(), 2, 1, b"x"));
        is_named(told(&mut two(), 1, 2, b"b"));
        is_named(told(&mut two(), 1, 3, b"b"));
        is_named(told(&mut two(), 1, 4, b"d"));
        told(&mut two(), 2, 2, b"b").unwrap();
    }

    #[test]
    fn clients_that_hear_otherwise_out_of_order_or_twice_are_found() {
        let mut events = two();
        assert!(!events.is_complete());
        events.heard(CLIENT, 1, b"a").unwrap();
        events.heard(CLIENT, 2, b"b").unwrap();
        assert!(events.is_complete());
        is_named(events.heard(CLIENT, 2, b"b"));
        is_named(two().heard(CLIENT, 2, b"b"));
        is_named(two().heard(CLIENT, 1, b"b"));
        is_named(events.heard(CLIENT, 3, b"c"));
    }

    #[test]
    fn only_what_could_not_be_kept_may_be_missed() {
        is_named(two().missed(CLIENT, 2));
        is_named(two().missed(CLIENT, 1));
        let mut events = Events::default();
        let half = CLIENT_EVENTS_BYTES_MAX / 2;
        for number in 1..=3 {
            told(&mut events, 0, number, &vec![number as u8; half]).unwrap();
        }
        events.missed(CLIENT, 2).unwrap();
        events.missed(CLIENT, 3).unwrap();
        is_named(events.missed(CLIENT, 4));
        assert_eq!((events.missed_count(), events.heard_count()), (3, 0));
    }
}
