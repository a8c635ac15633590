//! Requests that wait: the clock by which a backup judges the primary, and the next proposal.

use super::Frame;
use super::hooks::Framed;
use crate::common::message::Shared;
use crate::common::record::Kept;
use crate::common::request_queue::Retime;
use crate::common::timer::Timer;
use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::limits::{BATCH_BYTES_MAX, RESEND_BYTES_MAX, RESEND_MESSAGES_MAX};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, Message as _, To};
use pentarchy_core::request::Envelope;

impl<C: Framed> Frame<C> {
    /// Runs the request timer for the oldest waiting envelope, on backups of an entered view.
    pub fn arm_request_timer(&mut self, out: &mut Effects<C>) {
        let judges = self.judges();
        let Some(Retime { disarm, arm }) = self.requests.retime(judges) else { return };
        if self.is_entered() && !self.suspects_primary() {
            // What this replica waited for has come: it no longer wants another view.
            self.view_requests.withdraw();
        }
        if let Some(old) = disarm {
            out.disarm(Timer::Request(old));
        }
        if let Some(arrival) = arm {
            let after = self.judging_delay();
            out.arm(Timer::Request(arrival), after);
        }
    }

    /// A reason to want another view is gone. If a request waits still, its time begins anew.
    pub(super) fn reconsider(&mut self, out: &mut Effects<C>) {
        if self.is_entered() && !self.suspects_primary() {
            self.view_requests.withdraw();
            if let Some(old) = self.requests.stop_timer() {
                out.disarm(Timer::Request(old));
            }
            self.arm_request_timer(out);
        }
    }

    /// The oldest envelope was not executed in time.
    pub(super) fn on_request_timeout(&mut self, arrival: u64, out: &mut Effects<C>) {
        if self.is_entered() && self.requests.oldest() == Some(arrival) {
            mark!("frame/request_timeout");
            self.view_change_timer.request_ran_out(arrival);
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
        if !self.judges() {
            return;
        }
        for envelope in self.requests.tick(RESEND_MESSAGES_MAX, RESEND_BYTES_MAX) {
            self.forward(envelope, out);
        }
    }

    /// Whether so little was executed since the stable checkpoint that more may be. Otherwise a
    /// checkpoint was taken in between, at the same slot everywhere, and its votes make room.
    pub(super) fn has_byte_room(&self) -> bool {
        self.checkpoints.executed_bytes() < 2 * self.tuning.checkpoint_bytes
    }

    /// As primary, what to propose next and in which slot, if something waits and the window has
    /// room. Keeps the envelopes that it only names. Its batch is held from now on: its envelopes
    /// may be settled before it comes back.
    pub fn take_proposal(&mut self, out: &mut Effects<C>) -> Option<(Slot, Arc<Proposal>)> {
        let may = self.is_primary() && self.next_slot <= self.high() && self.has_byte_room();
        if !may || !(self.requests.has_unproposed() || self.has_to_fill()) {
            return None;
        }
        let items = self.requests.propose(self.tuning.batch_requests);
        let proposal = Arc::new(Proposal::new(self.now, items));
        let slot = self.next_slot;
        self.next_slot = slot.next();
        mark!("frame/propose");
        let (batch, requests) = (proposal.digest(), &self.requests);
        self.bodies.want(slot, batch);
        self.bodies.offer(&proposal, |digest| requests.find(digest));
        self.persist_named(&batch, out);
        Some((slot, proposal))
    }

    /// Keeps the envelopes of a batch that its proposal only names, each once until the log is cut.
    pub fn persist_named(&mut self, batch: &Digest, out: &mut Effects<C>) {
        for envelope in self.bodies.keep_named(batch) {
            out.persist(C::kept(Kept::Envelope(envelope)));
        }
    }

    /// Keeps a batch that came otherwise than with a proposal that is kept, once until the log is
    /// cut.
    pub fn persist_body(&mut self, slot: Slot, batch: &Digest, out: &mut Effects<C>) {
        self.persist_named(batch, out);
        if let Some(proposal) = self.bodies.keep(slot, batch) {
            out.persist(C::kept(Kept::Body { slot, proposal }));
        }
    }

    /// Whether this replica may vote in a slot: the batches above the stable checkpoint that it
    /// executed or voted for stay within what a correct primary can have proposed. A faulty one
    /// could fill a log otherwise, one window after the other. There is a checkpoint among so many
    /// bytes, and when it is stable there is room.
    pub fn has_vote_room(&self, slot: Slot) -> bool {
        let in_flight = usize::try_from(self.tuning.proposals_in_flight).unwrap_or(usize::MAX);
        let flying = in_flight.saturating_mul(BATCH_BYTES_MAX);
        let most = flying.saturating_add(2 * self.tuning.checkpoint_bytes);
        slot <= self.executed || self.checkpoints.executed_bytes() + self.voted_bytes.bytes() < most
    }

    /// This replica votes for a batch in a slot.
    pub fn note_vote(&mut self, slot: Slot, batch: &Digest) {
        let bytes = self.bodies.get(batch).map_or(0, |batch| batch.bytes());
        if slot > self.executed {
            self.voted_bytes.add(slot, bytes);
        }
    }

    /// Keeps a message of the view that this replica is about to enter, about a slot of which it
    /// counts messages, or about none.
    pub fn keep_early(&mut self, verified: Verified<C::Message>, view: View, slot: Option<Slot>) {
        let high = self.high().0.saturating_add(C::slots_ahead(&self.tuning));
        let in_window = slot.is_none_or(|slot| slot > self.stable.slot && slot.0 <= high);
        if view == self.view && view != self.entered && in_window {
            mark!("frame/early");
            let key = (slot.unwrap_or_default(), verified.author, verified.message.kind());
            self.early.entry(key).or_insert(verified);
        }
    }
}
