//! Requests that wait: the clock by which a backup judges the primary, and the next proposal.

use super::Frame;
use super::hooks::Framed;
use crate::common::message::Shared;
use crate::common::record::Kept;
use crate::common::timer::Timer;
use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::{Batch, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::limits::{RESEND_BYTES_MAX, RESEND_MESSAGES_MAX};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Delay, Effects, To};
use pentarchy_core::request::Envelope;

impl<C: Framed> Frame<C> {
    /// Runs the request timer for the oldest waiting envelope, on backups of an entered view.
    pub fn arm_request_timer(&mut self, out: &mut Effects<C>) {
        let judges = self.is_entered() && !self.is_primary();
        let oldest = if judges { self.pending.oldest() } else { None };
        if oldest == self.request_timer {
            return;
        }
        if self.is_entered() && !self.objects() {
            // What this replica waited for has come: it no longer wants another view.
            self.withdraw_ask();
        }
        if let Some(old) = self.request_timer {
            out.disarm(Timer::Request(old));
        }
        if let Some(arrival) = oldest {
            let after = Delay::Request { doublings: self.doublings };
            out.arm(Timer::Request(arrival), after);
        }
        self.request_timer = oldest;
    }

    /// The oldest envelope was not executed in time.
    pub(super) fn on_request_timeout(&mut self, arrival: u64, out: &mut Effects<C>) {
        if self.is_entered() && self.pending.oldest() == Some(arrival) {
            mark!("frame/request_timeout");
            self.ask(self.view.next(), "a request was not ordered in time", out);
        }
    }

    /// Passes a request on to the primary.
    pub(super) fn forward(&self, envelope: Arc<Envelope>, out: &mut Effects<C>) {
        mark!("frame/forward");
        if !mutant!("frame.never-forwards") {
            let primary = self.membership.primary(self.view);
            Self::send(To::One(primary), Shared::Forward(envelope), out);
        }
    }

    /// The primary may never have seen what a client sent here: a client that leaves it out must
    /// not be able to have it deposed.
    pub(super) fn forward_requests(&mut self, out: &mut Effects<C>) {
        if !self.is_entered() || self.is_primary() {
            return;
        }
        for envelope in self.pending.tick(RESEND_MESSAGES_MAX, RESEND_BYTES_MAX) {
            self.forward(envelope, out);
        }
    }

    /// Whether so little was executed since the stable checkpoint that more may be. Otherwise a
    /// checkpoint was taken in between, at the same slot everywhere, and its votes make room.
    pub(super) fn has_byte_room(&self) -> bool {
        self.checkpoints.extent.bytes() < 2 * self.tuning.checkpoint_bytes
    }

    /// As primary, what to propose next and in which slot, if something waits and the window has
    /// room. Keeps the envelopes that it only names.
    pub fn take_proposal(&mut self, out: &mut Effects<C>) -> Option<(Slot, Arc<Proposal>)> {
        let may = self.is_primary() && self.next_slot <= self.high() && self.has_byte_room();
        if !may || !self.pending.has_unproposed() {
            return None;
        }
        let items = self.pending.propose(self.tuning.batch_requests);
        let proposal = Arc::new(Proposal::new(self.now, items));
        let slot = self.next_slot;
        self.next_slot = slot.next();
        mark!("frame/propose");
        self.persist_pending(&proposal, out);
        Some((slot, proposal))
    }

    /// Keeps the waiting envelopes that an own proposal names.
    pub fn persist_pending(&self, proposal: &Proposal, out: &mut Effects<C>) {
        let named = proposal.named().filter_map(|digest| self.pending.find(&digest));
        named.for_each(|envelope| out.persist(C::kept(Kept::Envelope(envelope))));
    }

    /// Keeps the envelopes of a batch that its proposal only names.
    pub fn persist_named(batch: &Batch, out: &mut Effects<C>) {
        for envelope in batch.envelopes.iter().filter(|envelope| envelope.is_large()) {
            out.persist(C::kept(Kept::Envelope(envelope.clone())));
        }
    }

    /// Keeps a batch that came otherwise than with a proposal that is kept.
    pub fn persist_body(&self, slot: Slot, batch: &Digest, out: &mut Effects<C>) {
        if let (Some(batch), Some(proposal)) = (self.bodies.get(batch), self.bodies.proposal(batch))
        {
            Self::persist_named(batch, out);
            out.persist(C::kept(Kept::Body { slot, proposal: proposal.clone() }));
        }
    }

    /// Keeps a message of the view that this replica is about to enter.
    pub fn keep_early(&mut self, verified: Verified<C::Message>, view: View) {
        let of_author = self.early.iter().filter(|early| early.author == verified.author).count();
        let room = of_author < C::EARLY_PER_SLOT * self.tuning.window_slots as usize;
        let early = view == self.view && view != self.entered;
        if early && room && !self.early.iter().any(|early| early.wire == verified.wire) {
            mark!("frame/early");
            self.early.push(verified);
        }
    }
}
