//! What the common part asks of a core: what its protocol is like ([`Framed`]), how it orders
//! ([`Orders`]), changes views ([`ChangesViews`]), repairs loss ([`Repairs`]), keeps its log short
//! ([`Renews`]) and goes on from it ([`Resumes`]). Each is implemented in the protocol's file that
//! tells of it.

use super::Frame;
use crate::common::message::{More, Report, Shared, Statements};
use crate::common::record::Kept;
use crate::common::timer::Timer;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effects, Protocol};
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

    /// How many leave for a view, and open it.
    fn quorum(quorums: Quorums) -> usize;

    /// How many vouch for a stable state.
    fn vouching(quorums: Quorums) -> usize;

    /// As one of its messages.
    fn shared(message: Shared<Self::More>) -> Self::Message;

    /// As one of its records.
    fn kept(record: Kept) -> Self::Record;

    /// The common part.
    fn frame(&self) -> &Frame<Self>;

    /// The common part, to change.
    fn frame_mut(&mut self) -> &mut Frame<Self>;
}

/// How a core orders.
pub trait Orders: Framed {
    /// What a slot orders, as far as this replica knows.
    fn ordered(&self, slot: Slot) -> Option<Digest>;

    /// What a slot orders that may be executed once all before it are.
    fn decided(&self, slot: Slot) -> Option<Digest>;

    /// As primary, proposes what waits, while there is room. Comes at the end of a round, so that
    /// everything that arrived together is ordered together, and nothing waits for more.
    fn propose(&mut self, out: &mut Effects<Self>);

    /// Says in this view, slot by slot, all that it may say by now.
    fn vote(&mut self, out: &mut Effects<Self>);

    /// A batch may have become complete: whatever waited for it goes on.
    fn bodies_changed(&mut self, out: &mut Effects<Self>);

    /// The window begins behind this slot.
    fn window_moved(&mut self, low: Slot);
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

    /// Sends a peer, who is in the same view or a lower one, what it lacks to enter this one.
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
pub trait Renews: Framed {
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

/// All of these.
pub trait Core: Orders + ChangesViews + Repairs + Renews + Resumes {}

impl<C: Orders + ChangesViews + Repairs + Renews + Resumes> Core for C {}
