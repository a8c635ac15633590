//! What is decided is executed in order; what is ahead of our clock waits.

use super::Frame;
use super::hooks::{Core, Framed};
use super::repair::Repair;
use crate::common::clock::{Ahead, Heard, is_ahead};
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

    /// The host said the time.
    fn clock_moved(&mut self, out: &mut Effects<Self>) {
        let frame = self.frame_mut();
        match frame.clock_wait.hear(frame.now) {
            Heard::Nothing => {}
            Heard::Over => {
                out.disarm(Timer::Clock);
                self.on_clock(out);
            }
            Heard::Early(primary, Ahead { slot, time, .. }) => {
                mark!("frame/future_time");
                out.report(primary, Finding::FutureTime { slot, time });
            }
        }
    }

    /// Whatever waited for our clock may go on.
    fn on_clock(&mut self, out: &mut Effects<Self>) {
        self.frame_mut().clock_wait.end();
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
        is_ahead(time, self.now)
    }

    /// Looks again when our clock has come near, and within a second in case it gets set.
    pub fn wait_for_clock(
        &mut self,
        slot: Slot,
        time: Millis,
        suspect: Option<ReplicaId>,
        out: &mut Effects<C>,
    ) {
        if let Some(after) = self.clock_wait.start(Ahead { slot, time, suspect }, self.now) {
            out.arm(Timer::Clock, Delay::Millis(after));
        }
    }
}
