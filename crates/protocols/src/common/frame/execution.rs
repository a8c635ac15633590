//! What is decided is executed in order; what is ahead of our clock waits.

use super::Frame;
use super::hooks::{Core, Framed};
use super::repair::Repair;
use crate::common::clock::{ClockWait, is_ahead};
use crate::common::timer::Timer;
use pentarchy_core::ids::{Millis, ReplicaId, Slot};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Delay, Effects, Finding};

/// See the [module](self).
pub trait Execution: Core {
    /// Does everything that the state allows: votes in slot order, executes in slot order.
    fn advance(&mut self, out: &mut Effects<Self>) {
        if self.frame().is_entered() {
            self.vote(out);
        }
        while self.execute_next(out) {}
        self.frame_mut().arm_request_timer(out);
        self.frame_mut().arm_fill_timer(out);
        self.arm_resend_if_unsettled(out);
    }

    /// Hands the next decided slot to execution.
    fn execute_next(&mut self, out: &mut Effects<Self>) -> bool {
        if !self.frame().has_byte_room() {
            mark!("frame/bytes_full");
            return false;
        }
        let slot = self.frame().executed.next();
        let Some(batch) = self.decided(slot, out) else { return false };
        let frame: &mut Frame<Self> = self.frame_mut();
        let Some(batch) = frame.bodies.get(&batch).cloned() else { return false };
        frame.executed = slot;
        frame.voted_bytes.settle(slot);
        frame.note_executed(&batch);
        let is_checkpoint = frame.count_bytes(slot, batch.bytes());
        self.execute(slot, batch, is_checkpoint, out);
        true
    }

    /// The host said the time. It may not have for a while, at the start or after a pause, so only
    /// what is ahead of the clock even now is its proposer's doing.
    fn clock_moved(&mut self, out: &mut Effects<Self>) {
        let frame = self.frame_mut();
        let Some(ClockWait { slot, time, suspect }) = frame.clock_wait else { return };
        if !frame.is_future(time) {
            out.disarm(Timer::Clock);
            self.on_clock(out);
        } else if let Some(primary) = suspect {
            mark!("frame/future_time");
            out.report(primary, Finding::FutureTime { slot, time });
            frame.clock_wait = Some(ClockWait { slot, time, suspect: None });
        }
    }

    /// Whatever waited for our clock may go on.
    fn on_clock(&mut self, out: &mut Effects<Self>) {
        self.frame_mut().clock_wait = None;
        self.bodies_changed(out);
    }
}

impl<C: Core> Execution for C {}

impl<C: Framed> Frame<C> {
    /// Whether its log would say after a crash that it may have executed this slot, and told
    /// clients of it: otherwise it would answer queries from before. What it is slow to write down
    /// itself others may have decided long ago.
    #[must_use]
    pub fn may_tell(&self, slot: Slot) -> bool {
        !self.is_durable || slot <= self.spoken
    }

    /// A commitment of its own came back: its log has it.
    pub fn note_spoken(&mut self, slot: Slot) {
        self.spoken = self.spoken.max(slot);
    }

    /// Execution is to take the checkpoint behind a slot, which is final.
    pub fn take_checkpoint(&self, slot: Slot, out: &mut Effects<C>) {
        mark!("frame/checkpoint");
        let slot = if mutant!("frame.checkpoint-misnamed") { slot.next() } else { slot };
        out.output(Output::Checkpoint { slot });
    }

    /// Whether a proposal's time is further ahead of our clock than clocks may differ.
    #[must_use]
    pub fn is_future(&self, time: Millis) -> bool {
        is_ahead(time, self.now) && !mutant!("frame.any-time-is-good")
    }

    /// Looks again when our clock has come near, and within a second in case it gets set.
    pub fn wait_for_clock(
        &mut self,
        slot: Slot,
        time: Millis,
        suspect: Option<ReplicaId>,
        out: &mut Effects<C>,
    ) {
        if self.clock_wait.is_none_or(|waiting| waiting.slot != slot) {
            let waiting = ClockWait { slot, time, suspect };
            self.clock_wait = Some(waiting);
            out.arm(Timer::Clock, Delay::Millis(waiting.look_after(self.now)));
        }
    }
}
