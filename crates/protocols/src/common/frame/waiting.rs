//! Waiting for what was executed to become final, where that comes after: a client that asks again,
//! or one that lacks an answer, and the end of an epoch. If it does not become final in time the
//! primary is suspected, until it is final after all, or another view begins.

use super::Frame;
use super::hooks::Framed;
use crate::common::timer::Timer;
use alloc::sync::Arc;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::{ClientId, Slot};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Output, speculation};
use pentarchy_core::protocol::Effects;

impl<C: Framed> Frame<C> {
    /// Somebody waits until a slot is final. False if it is, or was not executed.
    pub fn want(&mut self, slot: Slot, last_final: Slot, out: &mut Effects<C>) -> bool {
        let waits = slot > last_final && slot <= self.executed;
        if waits {
            mark!("frame/wanted");
            self.awaited.extend(slot);
            self.await_final(last_final, out);
            self.arm_resend(out);
        }
        waits
    }

    /// Runs the timer for what somebody waits for, in an entered view. If that is nothing any more,
    /// no longer suspects the primary because of it.
    pub fn await_final(&mut self, last_final: Slot, out: &mut Effects<C>) {
        let waits = self.is_entered() && self.awaited.upto() > last_final;
        if let Some(slot) = self.awaited.end_timer(waits, last_final) {
            out.disarm(Timer::Final(slot));
        }
        if !waits {
            if self.awaited.relieve() && !mutant!("frame.objection-outlives-reason") {
                self.reconsider(out);
            }
        } else if let Some(slot) = self.awaited.begin_timer() {
            out.arm(Timer::Final(slot), self.judging_delay());
        }
    }

    /// A state was installed. What is final with it nobody waits for any more, nor for what was
    /// taken back before: its clients ask again.
    pub(super) fn note_installed(&mut self, last_final: Slot, out: &mut Effects<C>) {
        if !mutant!("frame.waits-for-what-is-installed") {
            self.awaited.cut(self.executed);
            self.await_final(last_final, out);
        }
    }

    /// What somebody waits for is not final in time.
    pub(super) fn on_final_timeout(&mut self, slot: Slot, last_final: Slot, out: &mut Effects<C>) {
        // While it fetches a state, it does not know what is final.
        let may_judge = self.judges() && !self.is_fetching();
        if self.awaited.timer_expired(slot, last_final, may_judge) {
            mark!("frame/final_timeout");
            self.view_change_timer.slot_ran_out(slot);
            self.ask(self.view.next(), "what was executed did not become final", out);
        }
    }

    /// A view ends: the next one gets all of its time.
    pub(super) fn end_waiting(&mut self, out: &mut Effects<C>) {
        self.awaited.relieve();
        if mutant!("frame.waits-on-over-views") {
            return;
        }
        if let Some(slot) = self.awaited.end_timer(false, Slot(0)) {
            out.disarm(Timer::Final(slot));
        }
    }

    /// Names a batch for clients, where view and slot name what came before it. Slots go on over
    /// epochs and views begin anew, so what an old epoch executed and did not keep may stand in
    /// equal numbers: the epoch is in the name.
    #[must_use]
    pub fn named(&self, batch: &Digest) -> Digest {
        let epoch = if mutant!("frame.places-of-any-epoch") { 0 } else { self.membership.epoch.0 };
        Hasher::new("pentarchy place").u64(epoch).digest(batch).finish()
    }

    /// Whether a batch orders something of a client, so that it may wait for its slot. Who has
    /// nothing there could have replicas certify every slot, and remember that it waits.
    #[must_use]
    pub fn concerns(&self, batch: Option<Digest>, client: &ClientId) -> bool {
        let body = batch.and_then(|batch| self.bodies.get(&batch));
        let any = |body: &Batch| body.envelopes.iter().any(|it| it.client == *client);
        body.is_some_and(|body| any(body)) || mutant!("frame.anybody-may-wait")
    }

    /// What these batches order was taken back, and waits no more here as it was executed: it waits
    /// again, or nobody would order it before its client asks again.
    pub fn wait_again<'a>(
        &self,
        batches: impl IntoIterator<Item = &'a Arc<Batch>>,
        out: &mut Effects<C>,
    ) {
        let envelopes = batches.into_iter().flat_map(|batch| &batch.envelopes);
        for envelope in envelopes.filter(|_| !mutant!("frame.taken-back-and-forgotten")) {
            mark!("frame/waits_again");
            out.output(Output::Admit { envelope: envelope.clone() });
        }
    }

    /// A quorum is known to be elsewhere: what was executed behind this slot is taken back until it
    /// is known what of it stays. Clients were told of it, and may rely on it with what others told
    /// them, so until as much is executed again the state here is no answer to a query.
    pub fn go_back(&mut self, after: Slot, out: &mut Effects<C>) {
        let upto = core::mem::replace(&mut self.executed, after);
        out.output(speculation::Output::Rollback { after });
        if !mutant!("frame.answers-having-gone-back") {
            out.output(Output::Resumed { upto });
        }
    }
}
