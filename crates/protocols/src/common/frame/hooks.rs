//! What the common part asks of a core: what its protocol is like ([`Framed`]), how it orders
//! ([`Orders`]), makes final what it executed ([`Finality`]), changes views ([`ChangesViews`]),
//! repairs loss ([`Repairs`]), keeps its log short ([`LogCompaction`]) and resumes from it
//! ([`Resumes`]). Each is implemented in the protocol's file that tells of it.

use super::Frame;
use crate::common::certificate::CheckpointProof;
use crate::common::message::{More, Report, Shared, Statements};
use crate::common::record::Kept;
use crate::common::timer::Timer;
use alloc::sync::Arc;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effects, Protocol, Tuning};
use pentarchy_core::quorum::Quorums;

/// A core that owns a [`Frame`].
pub trait Framed: Protocol<Timer = Timer, Input = Input, Output = Output> {
    /// What its reports say beside what all say.
    type More: More;

    /// The names of what its replicas sign.
    const STATEMENTS: Statements;

    /// Kinds of messages that one author says of a slot.
    const KINDS_PER_SLOT: usize;

    /// Kinds of messages about no slot that may come before their view.
    const KINDS_OF_NO_SLOT: usize;

    /// Messages about one slot that a peer may have to be sent again.
    const REPEATED_PER_SLOT: usize;

    /// How many slots behind the window it already counts messages of.
    fn slots_ahead(tuning: &Tuning) -> u64 {
        let _ = tuning;
        0
    }

    /// How many leave for a view, and open it.
    fn quorum(quorums: Quorums) -> usize;

    /// Of how many windows a replica may hold the batches at a time: of its own, of what its view
    /// took over, and of what each may have shown for the next one.
    fn windows_held(quorums: Quorums) -> usize {
        quorums.n + 2
    }

    /// How many vouch for a stable state.
    fn vouching(quorums: Quorums) -> usize;

    /// As one of its messages.
    fn shared(message: Shared<Self::More>) -> Self::Message;

    /// As one of its records.
    fn kept(record: Kept<StateOf<Self>>) -> Self::Record;

    /// The common part.
    fn frame(&self) -> &Frame<Self>;

    /// The common part, to change.
    fn frame_mut(&mut self) -> &mut Frame<Self>;
}

/// What replicas of a core vouch for at a checkpoint.
pub type StateOf<C> = <<C as Framed>::More as More>::State;

/// How a core orders.
pub trait Orders: Framed {
    /// What a slot orders, as far as this replica knows.
    fn ordered(&self, slot: Slot) -> Option<Digest>;

    /// What the slot orders that is to be executed next, if it may be by now.
    fn decided(&mut self, slot: Slot, out: &mut Effects<Self>) -> Option<Digest>;

    /// As primary, proposes what waits, while there is room. Comes at the end of a round, so that
    /// everything that arrived together is ordered together, and nothing waits for more.
    fn propose(&mut self, out: &mut Effects<Self>);

    /// Says in this view, slot by slot, all that it may say by now.
    fn vote(&mut self, out: &mut Effects<Self>);

    /// A batch may have become complete: whatever waited for it goes on.
    fn bodies_changed(&mut self, out: &mut Effects<Self>);

    /// The window begins behind this slot.
    fn window_moved(&mut self, low: Slot);

    /// Whom to ask for what is missing of batches, if it does not come by itself.
    fn suppliers(&self) -> ReplicaSet {
        let frame = self.frame();
        core::iter::once(frame.membership.primary(frame.entered)).collect()
    }
}

/// How a core changes views.
pub trait ChangesViews: Framed {
    /// The last slot that its view took over from those before.
    fn taken_over(&self) -> Slot;

    /// Enough replicas asked for this view, above its own: leaves for it.
    fn leave_for(&mut self, view: View, out: &mut Effects<Self>);

    /// Whether it has left for its view and waits for its NEW-VIEW.
    fn awaits_opening(&self) -> bool;

    /// As primary, opens its view if there is enough to open it from.
    fn try_open(&mut self, out: &mut Effects<Self>);
}

/// How a core repairs loss.
pub trait Repairs: Framed {
    /// What its reports say beside what all say.
    fn more(&self) -> Self::More;

    /// Whether this replica may have something that a peer lacks to get from view to view. Of most
    /// protocols a peer in a higher view needs nothing from below.
    fn may_help(&self, report: &Report<Self::More>) -> bool {
        report.view <= self.frame().view
    }

    /// Sends a peer, whom it may help, what it lacks to enter the view.
    fn answer_view(&self, from: ReplicaId, report: &Report<Self::More>, out: &mut Effects<Self>);

    /// Sends a peer of the same view what it lacks of its slots.
    fn answer_slots(
        &mut self,
        from: ReplicaId,
        report: &Report<Self::More>,
        out: &mut Effects<Self>,
    );
}

/// How a core keeps its log short.
pub trait LogCompaction: Framed {
    /// Keeps everything again that is needed beside the state of the stable checkpoint.
    fn persist_again(&mut self, out: &mut Effects<Self>);
}

/// How a core survives a crash.
pub trait Resumes: Framed {
    /// Goes on from a log, and from the state that the executor has.
    fn resume(
        &mut self,
        log: &mut dyn Iterator<Item = Self::Record>,
        executed: Base,
        out: &mut Effects<Self>,
    );
}

/// How a core makes final what it executed. Who executes only what is final has little to say here.
pub trait Finality: Framed {
    /// What to vouch for, if this is the state after a slot.
    fn vouched(&self, slot: Slot, state: Digest) -> Option<StateOf<Self>>;

    /// The last slot that is final.
    fn last_final(&self) -> Slot {
        self.frame().executed
    }

    /// Hands the next slot to execution; a checkpoint may be due behind it.
    fn execute(
        &mut self,
        slot: Slot,
        batch: Arc<Batch>,
        is_checkpoint: bool,
        out: &mut Effects<Self>,
    ) {
        out.output(Output::Execute { slot, batch });
        if is_checkpoint {
            self.frame().take_checkpoint(slot, out);
        }
    }

    /// The last slot of which this replica can tell whether what it executed up to there is what a
    /// quorum vouches for.
    fn comparable(&self) -> Slot {
        self.frame().executed
    }

    /// A quorum vouches for a state. Whether what was executed here led to it; what leads elsewhere
    /// is taken back.
    fn settle(&mut self, proof: &CheckpointProof<StateOf<Self>>, out: &mut Effects<Self>) -> bool {
        let _ = out;
        self.frame().executed >= proof.slot
    }

    /// The state after a slot was installed. Whether this replica knows how to go on from it.
    fn stands_on(&mut self, slot: Slot) -> bool {
        let _ = slot;
        true
    }

    /// A tick passed.
    fn on_tick(&mut self, out: &mut Effects<Self>) {
        let _ = out;
    }

    /// Somebody waits until a slot is final that was executed.
    fn on_wanted(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let _ = (slot, out);
    }
}

/// All of these.
pub trait Core: Orders + ChangesViews + Repairs + LogCompaction + Resumes + Finality {}

impl<C: Orders + ChangesViews + Repairs + LogCompaction + Resumes + Finality> Core for C {}
