//! What is replicated: a deterministic service.

use crate::digest::Digest;
use crate::ids::{ClientId, Millis, Slot};
use crate::wire::Malformed;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;

/// What a service may know beside its own state. The same on every replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// Position in the order.
    pub slot: Slot,
    /// Place within the slot.
    pub index: u32,
    /// Agreed time. Never goes back; a service must not read a clock.
    pub time: Millis,
    /// Who asks.
    pub client: ClientId,
    batch: Digest,
}

impl Context {
    /// The context of one request.
    #[must_use]
    pub const fn new(
        slot: Slot,
        index: u32,
        time: Millis,
        client: ClientId,
        batch: Digest,
    ) -> Self {
        Self { slot, index, time, client, batch }
    }

    /// Agreed random bytes: different for each request and `purpose`, equal on all replicas.
    /// **Not secret**, and the primary can influence them by choosing what it orders.
    #[must_use]
    pub fn nonce(&self, purpose: u64) -> [u8; 32] {
        let mut hasher = crate::digest::Hasher::new("nonce");
        hasher.digest(&self.batch).u64(self.slot.0).u64(u64::from(self.index)).u64(purpose);
        hasher.finish().0
    }
}

/// What a service tells a client unasked: a message on a channel, an element that it waited for.
/// Every replica sends it; the client believes `f + 1` equal copies.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Event {
    /// Who is told.
    pub client: ClientId,
    /// What.
    pub body: Bytes,
}

/// What one replica makes of the results that it tells clients: outside of the replicated state, so
/// it may add what only this replica can, as a share of a secret, or a signature. Clients then have
/// to judge replies by rules of their own, because those of two replicas differ. After BFT-SMaRt's
/// `Replier` (Bessani et al., DSN 2014, section V.B).
pub trait Replier: Send {
    /// What the client is told instead of the result of its request or query. Called again when a
    /// client asks again. One that is larger than [`crate::limits::RESULT_BYTES_MAX`] is not told:
    /// the client is told the result. Must not panic.
    fn reply(&mut self, client: &ClientId, number: u64, result: &Bytes) -> Bytes;
}

/// A deterministic state machine. Equal state and equal operation must give equal next state and
/// equal result on every replica: no clock, no randomness, no hash-order iteration, no floats whose
/// rounding depends on the machine.
///
/// State is exposed as *sections*: byte strings of the service's choosing, whose number is fixed,
/// such that a checkpoint only re-encodes the sections that changed, and a replica that was away
/// fetches only those. Empty ones cost nothing, so there may be far more than are ever filled. A
/// small service has one section and can be written with [`Whole`].
pub trait Service: Send {
    /// Executes an ordered operation. Operations are a client's bytes: check them, and answer
    /// nonsense with an error in the result. Never panics. A result larger than
    /// [`crate::limits::RESULT_BYTES_MAX`] does not reach the client.
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8>;

    /// Answers a read-only operation from the current state without changing it. An operation that
    /// would change state is answered as the service answers nonsense.
    fn query(&self, operation: &[u8]) -> Vec<u8>;

    /// What the last executed operation tells clients unasked, in order. Called after each
    /// execution. A client that is not in the client table is not told; one that does not
    /// acknowledge for long is not told everything ([`crate::limits::CLIENT_EVENTS_MAX`],
    /// [`crate::limits::CLIENT_EVENTS_BYTES_MAX`]), but learns that something is missing. A service
    /// that tells nothing keeps this.
    fn take_events(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// How many sections the state has; at most [`crate::limits::SECTIONS_MAX`]. Constant.
    fn sections(&self) -> u32;

    /// The canonical bytes of one section: equal states have equal bytes. None for what holds
    /// nothing.
    fn section(&self, index: u32) -> Vec<u8>;

    /// The sections that may have changed since the last call; at the first, all that are not
    /// empty. May repeat.
    fn changed_sections(&mut self) -> Vec<u32>;

    /// Replaces one section by bytes that came from [`Self::section`] of another replica and were
    /// checked against a digest that a quorum vouches for. None if the section is to be empty.
    ///
    /// # Errors
    /// [`Malformed`] if they are no such bytes, which means that a quorum runs other code.
    fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed>;

    /// What this replica makes of results; asked for once, when the replica starts. A service whose
    /// replicas all tell the result keeps this. Protocols that execute before they agree do
    /// without: their clients compare what replicas executed by what they tell. So does a group
    /// that has switched to one, for as long as it orders by that.
    fn replier(&self) -> Option<Box<dyn Replier>> {
        None
    }

    /// Why it cannot go on, if something failed that its copies on other replicas need not have
    /// met: a full disk, say. What it gave since means nothing: nothing of that leaves the replica,
    /// and the host ends it with these words. A service that keeps its state in memory keeps this.
    fn failure(&self) -> Option<String> {
        None
    }
}

/// A service whose whole state is small enough to encode at every checkpoint.
pub trait SmallService: Send {
    /// See [`Service::execute`].
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8>;
    /// See [`Service::query`].
    fn query(&self, operation: &[u8]) -> Vec<u8>;
    /// See [`Service::take_events`].
    fn take_events(&mut self) -> Vec<Event> {
        Vec::new()
    }
    /// See [`Service::replier`].
    fn replier(&self) -> Option<Box<dyn Replier>> {
        None
    }
    /// The canonical bytes of the state.
    fn save(&self) -> Vec<u8>;
    /// The state whose bytes these are.
    ///
    /// # Errors
    /// [`Malformed`] if they are no state.
    fn load(&mut self, bytes: &[u8]) -> Result<(), Malformed>;
}

/// A [`SmallService`] as a [`Service`] with one section.
pub struct Whole<S> {
    inner: S,
    changed: bool,
}

impl<S> Whole<S> {
    /// Wraps a service.
    pub const fn new(inner: S) -> Self {
        Self { inner, changed: true }
    }

    /// The service itself.
    pub const fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S: SmallService> Service for Whole<S> {
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        self.changed = true;
        self.inner.execute(context, operation)
    }
    fn query(&self, operation: &[u8]) -> Vec<u8> {
        self.inner.query(operation)
    }
    fn take_events(&mut self) -> Vec<Event> {
        self.inner.take_events()
    }
    fn replier(&self) -> Option<Box<dyn Replier>> {
        self.inner.replier()
    }
    fn sections(&self) -> u32 {
        1
    }
    fn section(&self, _index: u32) -> Vec<u8> {
        self.inner.save()
    }
    fn changed_sections(&mut self) -> Vec<u32> {
        if core::mem::take(&mut self.changed) { vec![0] } else { Vec::new() }
    }
    fn restore_section(&mut self, _index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        self.changed = true;
        self.inner.load(bytes)
    }
}
