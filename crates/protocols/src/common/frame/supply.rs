//! Batches and envelopes by digest: asking for what is missing, giving what others ask for.

use super::Frame;
use super::hooks::{Core, Framed};
use crate::common::batch_store::Missing;
use crate::common::message::Shared;
use crate::common::timer::Timer;
use alloc::sync::Arc;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::RESEND_MESSAGES_MAX;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Delay, Effects, Finding, To};
use pentarchy_core::request::Envelope;

/// How long an envelope that a proposal names may still be on its way from its client.
const FETCH_MILLIS: u32 = 10;

impl<C: Framed> Frame<C> {
    /// The primary proposes that for a slot. Takes what it carries, and soon asks for what it only
    /// names and is not here.
    pub fn on_proposal(
        &mut self,
        author: ReplicaId,
        slot: Slot,
        proposal: &Arc<Proposal>,
        out: &mut Effects<C>,
    ) {
        let batch = proposal.digest();
        self.proposed = self.proposed.max(slot);
        self.bodies.want(slot, batch);
        let requests = &self.requests;
        if self.bodies.offer(proposal, |digest| requests.find(digest)) {
            out.report(author, Finding::OversizeBatch { slot });
            self.distrust(author, out);
        }
        if self.bodies.get(&batch).is_none() {
            mark!("frame/proposal_incomplete");
            self.arm_fetch(out);
        }
    }

    /// Has others asked soon for what is missing. Nearly always it is on its way: an envelope that
    /// a proposal names from its client, and a proposal from the primary. A second copy would cost
    /// as much again.
    pub fn arm_fetch(&mut self, out: &mut Effects<C>) {
        if self.bodies.start_timer() {
            out.arm(Timer::Fetch, Delay::Millis(FETCH_MILLIS));
        }
    }

    /// What is missing did not come by itself.
    pub(super) fn on_fetch(&mut self, suppliers: ReplicaSet, out: &mut Effects<C>) {
        self.bodies.timer_expired();
        let others: ReplicaSet = suppliers.iter().filter(|id| *id != self.me).collect();
        if !self.bodies.is_complete() && !others.is_empty() {
            mark!("frame/fetch_body");
            self.ask_missing(To::Set(others), out);
        }
    }

    /// Asks for the bodies that are missing.
    pub fn ask_missing(&self, to: To, out: &mut Effects<C>) {
        for missing in self.bodies.missing(RESEND_MESSAGES_MAX, self.peers.ticks()) {
            match missing {
                Missing::Proposal(batch) => Self::send(to, Shared::AskBody { batch }, out),
                Missing::Envelopes(digests) => {
                    for envelope in digests.into_iter().take(RESEND_MESSAGES_MAX) {
                        Self::send(to, Shared::AskEnvelope { envelope }, out);
                    }
                }
            }
        }
    }

    /// A peer lacks a batch.
    pub(super) fn on_ask_body(&mut self, from: ReplicaId, batch: &Digest, out: &mut Effects<C>) {
        let Some(proposal) = self.bodies.proposal(batch).cloned() else { return };
        let bytes = proposal.whole().map(|envelope| envelope.len()).sum();
        if self.may_serve(from, *batch, bytes, out) && !mutant!("frame.bodies-not-served") {
            mark!("frame/body_served");
            Self::send(To::One(from), Shared::Body(proposal), out);
        }
    }

    /// Whether a peer may be sent another answer before the next tick.
    fn may_serve(
        &mut self,
        from: ReplicaId,
        digest: Digest,
        bytes: usize,
        out: &mut Effects<C>,
    ) -> bool {
        self.arm_resend(out);
        self.peers.may_send(from, digest, bytes)
    }

    /// A peer lacks an envelope.
    pub(super) fn on_ask_envelope(
        &mut self,
        from: ReplicaId,
        digest: &Digest,
        out: &mut Effects<C>,
    ) {
        let envelope = self.requests.find(digest).or_else(|| self.bodies.envelope(digest));
        if let Some(envelope) = envelope
            && self.may_serve(from, *digest, envelope.len(), out)
        {
            mark!("frame/envelope_served");
            Self::send(To::One(from), Shared::Envelope(envelope), out);
        }
    }

    fn ask_missing_envelopes(&self, proposal: &Proposal, to: To, out: &mut Effects<C>) {
        if self.bodies.proposal(&proposal.digest()).is_some()
            && self.bodies.get(&proposal.digest()).is_none()
        {
            let lacking = proposal.named().filter(|digest| self.requests.find(digest).is_none());
            for envelope in lacking.take(RESEND_MESSAGES_MAX) {
                Self::send(to, Shared::AskEnvelope { envelope }, out);
            }
        }
    }
}

/// What comes because it was asked for.
pub trait Supply: Core {
    /// A batch, from a peer that was asked.
    fn on_body(&mut self, from: ReplicaId, proposal: &Arc<Proposal>, out: &mut Effects<Self>) {
        let frame = self.frame_mut();
        let requests = &frame.requests;
        frame.bodies.offer(proposal, |digest| requests.find(digest));
        if !frame.bodies.is_complete() {
            frame.ask_missing_envelopes(proposal, To::One(from), out);
        }
        self.bodies_changed(out);
    }

    /// An envelope, from a peer that was asked or from its client: some batch may name it, whatever
    /// its size.
    fn on_envelope(&mut self, envelope: &Arc<Envelope>, out: &mut Effects<Self>) {
        let frame = self.frame_mut();
        let requests = &frame.requests;
        if frame.bodies.offer_envelope(envelope, |digest| requests.find(digest)) {
            mark!("frame/envelope_used");
            self.bodies_changed(out);
        }
    }
}

impl<C: Core> Supply for C {}
