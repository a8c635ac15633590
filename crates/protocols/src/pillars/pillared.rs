//! What a pillar has to know of the core in it, and to tell it, beside what every host does.

use crate::common::frame::events::Events as _;
use crate::common::frame::hooks::Core;
use crate::common::slots_to_fill::FillReason;
use crate::common::timer::Timer;
use pentarchy_core::batch::Batch;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effects, Protocol};
use pentarchy_core::request::Envelope;

/// A core that can order a part of what a replica executes. What it executes is final.
pub trait Pillared: Protocol<Timer = Timer, Input = Input, Output = Output> {
    /// The primary of its view, or of the one that it wants to enter.
    fn primary(&self) -> ReplicaId;
    /// Whether this replica orders now.
    fn leads(&self) -> bool;
    /// The slot that is proposed or taken up next.
    fn next_slot(&self) -> Slot;
    /// The last slot that it gave to execution.
    fn executed(&self) -> Slot;
    /// The last slot whose state a quorum vouches for.
    fn stable(&self) -> Slot;
    /// The last slot of which it has heard that others are at it.
    fn heard_of(&self) -> Slot;
    /// Whether requests wait.
    fn has_waiting(&self) -> bool;

    /// Whether anything follows from [`Self::fill`].
    fn can_fill(&self, slot: Slot, why: FillReason) -> bool;

    /// Slots up to this one are to be ordered, empty if nothing waits. If a later one is decided
    /// elsewhere the primary can know that, and is judged by how long it takes.
    fn fill(&mut self, slot: Slot, why: FillReason, out: &mut Effects<Self>);

    /// Another pillar decided this, which costs whoever orders here as well.
    fn note_beside(&mut self, batch: &Batch);

    /// This was executed, whichever pillar decided it when: it need not wait any more.
    fn note_settled(&mut self, envelope: &Envelope, out: &mut Effects<Self>);

    /// What waits may be settled by a state that was installed.
    fn forget_waiting(&mut self, out: &mut Effects<Self>);

    /// Asks again for the state that it lacks, if it lacks one.
    fn fetch_again(&self, out: &mut Effects<Self>);
}

impl<C: Core> Pillared for C {
    fn primary(&self) -> ReplicaId {
        let frame = self.frame();
        frame.membership.primary(frame.view)
    }
    fn leads(&self) -> bool {
        self.frame().is_primary()
    }
    fn next_slot(&self) -> Slot {
        self.frame().next_slot
    }
    fn executed(&self) -> Slot {
        self.frame().executed
    }
    fn stable(&self) -> Slot {
        self.frame().stable.slot
    }
    fn heard_of(&self) -> Slot {
        self.frame().heard_of()
    }
    fn has_waiting(&self) -> bool {
        !self.frame().requests.is_empty()
    }
    fn can_fill(&self, slot: Slot, why: FillReason) -> bool {
        self.frame().can_fill(slot, why)
    }
    fn fill(&mut self, slot: Slot, why: FillReason, out: &mut Effects<Self>) {
        self.on_fill(slot, why, out);
    }
    fn note_beside(&mut self, batch: &Batch) {
        self.frame_mut().note_beside(batch);
    }
    fn note_settled(&mut self, envelope: &Envelope, out: &mut Effects<Self>) {
        self.frame_mut().executed_late(envelope, out);
    }
    fn forget_waiting(&mut self, out: &mut Effects<Self>) {
        self.frame_mut().forget_requests(out);
    }
    fn fetch_again(&self, out: &mut Effects<Self>) {
        if self.frame().is_fetching() {
            self.frame().fetch_stable(out);
        }
    }
}
