//! Batches and envelopes that an order or a view names and that are not here.

use super::message::Message;
use super::record::{Record, persist_named};
use super::replica::{Timer, Zyzzyva};
use crate::common::bodies::Missing;
use alloc::sync::Arc;
use core::mem::replace;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::limits::RESEND_MESSAGES_MAX;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Delay, Effects, To};
use pentarchy_core::request::Envelope;

/// How long an envelope that an order names may still be on its way from its client.
const FETCH_MILLIS: u32 = 10;

impl<const KIND: usize> Zyzzyva<KIND> {
    /// Has the primary asked soon for the envelopes that an order names and that are not here.
    /// Nearly always their client's own copy is on its way, and a second one would cost as much
    /// again.
    pub(super) fn arm_fetch(&mut self, out: &mut Effects<Self>) {
        if !replace(&mut self.fetch_armed, true) {
            out.arm(Timer::Fetch, Delay::Millis(FETCH_MILLIS));
        }
    }

    /// What is missing did not come by itself.
    pub(super) fn on_fetch(&mut self, out: &mut Effects<Self>) {
        self.fetch_armed = false;
        let primary = self.membership.primary(self.entered);
        if !self.bodies.is_complete() && primary != self.me {
            mark!("zyzzyva/fetch_body");
            self.ask_missing(To::One(primary), out);
        }
    }

    /// Asks for the bodies that are missing.
    pub(super) fn ask_missing(&self, to: To, out: &mut Effects<Self>) {
        for missing in self.bodies.missing(RESEND_MESSAGES_MAX, self.ticks) {
            match missing {
                Missing::Proposal(batch) => out.send(to, Message::AskBody { batch }),
                Missing::Envelopes(digests) => {
                    for envelope in digests.into_iter().take(RESEND_MESSAGES_MAX) {
                        out.send(to, Message::AskEnvelope { envelope });
                    }
                }
            }
        }
    }

    pub(super) fn on_ask_body(&mut self, from: ReplicaId, batch: &Digest, out: &mut Effects<Self>) {
        let Some(proposal) = self.bodies.proposal(batch).cloned() else { return };
        if self.may_serve(from, out) && !mutant!("zyzzyva.bodies-not-served") {
            mark!("zyzzyva/body_served");
            out.send(To::One(from), Message::Body(proposal));
        }
    }

    /// Whether a peer may be sent another body before the next tick: a question is small, its
    /// answer is not.
    fn may_serve(&mut self, from: ReplicaId, out: &mut Effects<Self>) -> bool {
        let served = &mut self.served[usize::from(from.0)];
        *served += 1;
        let may = *served <= 2 * RESEND_MESSAGES_MAX;
        self.arm_resend(out);
        may
    }

    pub(super) fn on_ask_envelope(
        &mut self,
        from: ReplicaId,
        digest: &Digest,
        out: &mut Effects<Self>,
    ) {
        if !self.may_serve(from, out) {
            return;
        }
        let envelope = self.pending.find(digest).or_else(|| self.bodies.envelope(digest));
        if let Some(envelope) = envelope {
            mark!("zyzzyva/envelope_served");
            out.send(To::One(from), Message::Envelope(envelope));
        }
    }

    pub(super) fn on_body(
        &mut self,
        from: ReplicaId,
        proposal: &Arc<Proposal>,
        out: &mut Effects<Self>,
    ) {
        let pending = &self.pending;
        self.bodies.offer(proposal, |digest| pending.find(digest));
        if !self.bodies.is_complete() {
            self.ask_missing_envelopes(proposal, To::One(from), out);
        }
        self.bodies_changed(out);
    }

    fn ask_missing_envelopes(&self, proposal: &Proposal, to: To, out: &mut Effects<Self>) {
        if self.bodies.proposal(&proposal.digest()).is_some()
            && self.bodies.get(&proposal.digest()).is_none()
        {
            let lacking = proposal.named().filter(|digest| self.pending.find(digest).is_none());
            for envelope in lacking.take(RESEND_MESSAGES_MAX) {
                out.send(to, Message::AskEnvelope { envelope });
            }
        }
    }

    /// An envelope, from a peer that was asked or from its client: some batch may name it, whatever
    /// its size.
    pub(super) fn on_envelope(&mut self, envelope: &Arc<Envelope>, out: &mut Effects<Self>) {
        let pending = &self.pending;
        if self.bodies.offer_envelope(envelope, |digest| pending.find(digest)) {
            mark!("zyzzyva/envelope_used");
            self.bodies_changed(out);
        }
    }

    /// A batch may have become complete: whatever waited for it goes on.
    pub(super) fn bodies_changed(&mut self, out: &mut Effects<Self>) {
        self.try_confirm(out);
        self.advance(out);
    }

    /// Keeps a batch that came otherwise than with an order that is kept.
    pub(super) fn persist_body(&self, slot: Slot, batch: &Digest, out: &mut Effects<Self>) {
        if let (Some(batch), Some(proposal)) = (self.bodies.get(batch), self.bodies.proposal(batch))
        {
            persist_named(batch, out);
            out.persist(Record::Body { slot, proposal: proposal.clone() });
        }
    }
}
