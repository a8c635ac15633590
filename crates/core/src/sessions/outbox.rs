//! The events of one client: numbered one after the other, kept until the client acknowledges them
//! or newer ones need the room.

use super::{Bytes, Malformed, Reader, ToClient, VecDeque, Writer};
use crate::limits::{CLIENT_EVENTS_BYTES_MAX, CLIENT_EVENTS_MAX, EVENT_HEADER_BYTES};
use crate::wire::Wire;

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outbox {
    /// The number of the oldest kept event; of the next one if there is none. Never goes back.
    oldest: u64,
    events: VecDeque<Bytes>,
    /// What the kept events count.
    bytes: usize,
}

fn bytes_of(body: &Bytes) -> usize {
    EVENT_HEADER_BYTES + body.len()
}

impl Outbox {
    /// An empty one whose first event will have this number.
    pub const fn new(first: u64) -> Self {
        Self { oldest: first, events: VecDeque::new(), bytes: 0 }
    }

    /// What the kept events count.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of the next event.
    pub fn next(&self) -> u64 {
        self.oldest.saturating_add(self.events.len() as u64)
    }

    /// Keeps an event and gives its number; none if it is too large to be kept.
    pub fn push(&mut self, body: Bytes) -> Option<u64> {
        let number = self.next();
        self.bytes += bytes_of(&body);
        self.events.push_back(body);
        while self.bytes > CLIENT_EVENTS_BYTES_MAX || self.events.len() > CLIENT_EVENTS_MAX {
            self.drop_oldest();
        }
        (self.oldest <= number).then_some(number)
    }

    fn drop_oldest(&mut self) {
        if let Some(body) = self.events.pop_front() {
            self.bytes -= bytes_of(&body);
            self.oldest += 1;
        }
    }

    /// The client has no use for events below this number; none: for no event so far.
    pub fn acknowledge(&mut self, events: Option<u64>) {
        let upto = events.unwrap_or(u64::MAX);
        while self.oldest < upto && !self.events.is_empty() {
            self.drop_oldest();
        }
    }

    /// Forgets all events.
    pub fn clear(&mut self) {
        *self = Self::new(self.next());
    }

    /// What is kept from this number on. Fits one message.
    pub fn since(&self, from: u64) -> ToClient {
        let skip = from.saturating_sub(self.oldest).min(self.events.len() as u64);
        let events = self.events.iter().skip(skip as usize).cloned().collect();
        ToClient::Events { oldest: self.oldest, first: self.oldest + skip, events }
    }

    /// Appends the canonical bytes.
    pub fn encode(&self, to: &mut Writer) {
        to.u64(self.oldest);
        to.u32(self.events.len() as u32);
        self.events.iter().for_each(|body| body.encode(to));
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] if it is no outbox within the limits.
    pub fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let oldest = from.u64()?;
        let events = VecDeque::from(from.sequence::<Bytes>(CLIENT_EVENTS_MAX)?);
        let bytes = events.iter().map(bytes_of).sum();
        if bytes > CLIENT_EVENTS_BYTES_MAX || oldest.checked_add(events.len() as u64).is_none() {
            return Err(Malformed);
        }
        Ok(Self { oldest, events, bytes })
    }
}
