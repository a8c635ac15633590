//! A faulty member that speaks in clients' names. It has what clients said to it, its own device,
//! which answers any question, and no client's key.

use super::{Act, ReplicaNode};
use crate::observation::Observation;
use crate::rng::Rng;
use pentarchy_core::auth::Verifier;
use pentarchy_core::counter::{Certificate, Instance, Position};
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::ids::ClientId;
use pentarchy_core::ports::replica::Input;
use pentarchy_core::request::{Draft, Envelope, Request, RequestAuth};
use std::sync::Arc;

/// Envelopes of clients that are kept.
const HEARD_MAX: usize = 16;

/// How a member speaks in clients' names.
pub struct Impostor {
    rng: Rng,
    /// In how many of a million rounds.
    rate_ppm: u32,
    /// What clients said.
    heard: Vec<Arc<Envelope>>,
}

impl Impostor {
    /// One that has heard nothing yet.
    #[must_use]
    pub const fn new(rng: Rng, rate_ppm: u32) -> Self {
        Self { rng, rate_ppm, heard: Vec::new() }
    }

    fn hear(&mut self, envelope: &Arc<Envelope>) {
        if self.heard.len() < HEARD_MAX {
            self.heard.push(envelope.clone());
        } else {
            let index = self.rng.below(HEARD_MAX as u64) as usize;
            self.heard[index] = envelope.clone();
        }
    }

    /// What one client might ask next: something that another one, or it itself, did ask.
    fn draft(&mut self) -> Draft {
        let (victim, other) = (self.rng.pick(&self.heard).clone(), self.rng.pick(&self.heard));
        let number = victim.range().1 + self.rng.range(1, 3);
        let operation = other.requests.first().map(|request| request.operation.clone());
        let requests = vec![Request { number, operation: operation.unwrap_or_default() }];
        Draft { client: victim.client, floor: victim.floor, events: None, requests }
    }
}

impl ReplicaNode<'_> {
    fn impostor(&mut self) -> Option<&mut Impostor> {
        self.faulty.as_mut()?.impostor.as_mut()
    }

    /// Lets the impostor know what a client wants.
    pub(super) fn overhear_client(&mut self, envelope: &Arc<Envelope>) {
        if let Some(impostor) = self.impostor() {
            impostor.hear(envelope);
        }
    }

    /// Believes what one client says in the name of another, if its device does: no correct replica
    /// would take that from a client's connection.
    pub(super) fn collude(
        &mut self,
        client: &ClientId,
        envelope: Arc<Envelope>,
        out: &mut Vec<Act>,
    ) {
        let is_false = envelope.client != *client;
        if is_false && self.impostor().is_some() && self.keys().envelope(&envelope) {
            self.believe(envelope, out);
        }
    }

    fn believe(&mut self, envelope: Arc<Envelope>, out: &mut Vec<Act>) {
        let input = Input::Request { envelope, settled: Vec::new(), passed_on: false };
        self.feed(CoreEvent::Input(input), out);
    }

    /// Believes now and then that a client asked for something, and acts as if it had: its core
    /// passes the envelope on to others, or proposes it. Of all that it can think of in the place
    /// of a tag, it takes what its own device says is right, if there is such a thing.
    pub(super) fn impersonate(&mut self, out: &mut Vec<Act>) {
        let Some(impostor) = self.impostor() else { return };
        if impostor.heard.is_empty() || !impostor.rng.chance(impostor.rate_ppm) {
            return;
        }
        let draft = impostor.draft();
        let mut guesses: Vec<RequestAuth> =
            impostor.heard.iter().map(|envelope| envelope.auth.clone()).collect();
        guesses.push(RequestAuth::Session([impostor.rng.next_u64() as u8; 16]));
        let start = impostor.rng.below(guesses.len() as u64) as usize;
        guesses.rotate_left(start);
        // Seldom: the position is spent then, and the core inside has nothing to say there.
        if impostor.rng.percent(5) {
            guesses.extend(self.certificate(&draft.digest(), out));
        }
        let keys = self.keys();
        let mut forged = guesses.into_iter().map(|auth| draft.clone().seal(auth));
        let first = forged.next();
        let right = first.iter().cloned().chain(forged).find(|it| keys.envelope(it));
        if let Some(envelope) = right.or(first) {
            self.believe(Arc::new(envelope), out);
        }
    }

    /// A piece of what the device seals for the counter, in the place of a tag.
    fn certificate(&self, digest: &Digest, out: &mut Vec<Act>) -> Option<RequestAuth> {
        let mut device = self.watch.device.lock().expect("a panic ends the world");
        let last = device.last();
        let next = Position::new(last.view, last.index.saturating_add(1));
        let ui = device.create(Instance::FIRST, next, digest).ok()?;
        let epoch = device.epoch();
        out.push(Act::Saw(Observation::Certified { epoch, ui, digest: *digest }));
        let Certificate::Mac(seal) = ui.certificate else { return None };
        seal.first_chunk().map(|piece| RequestAuth::Session(*piece))
    }
}
