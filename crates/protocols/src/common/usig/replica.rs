//! The replica: its state, and in what the protocols differ that run it: when a slot is executed,
//! when a backup commits, and when what was executed is final.

use super::certificate::{Entry, NewView};
use super::message::Message;
use crate::common::certificate::CheckpointProof;
use crate::common::counters::certificate::Start;
use crate::common::counters::past::Past;
use crate::common::counters::slots::Slots;
use crate::common::frame::Frame;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::ballot::Justification;
use pentarchy_core::batch::Batch;
use pentarchy_core::counter::Ui;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ClientId, ReplicaId, Slot};
use pentarchy_core::ports::client::Place;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Effects, Rules, Value};
use pentarchy_core::votes::Votes;

/// One replica. When it executes what is ordered, its variant says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OnUsig<V: Variant> {
    pub(crate) frame: Frame<Self>,
    pub(crate) phase: Phase,
    /// How the view that it entered last was opened; none for view 0.
    pub(crate) entry: Option<Entry>,
    /// ENTERs for that view; a quorum decides what it took over.
    pub(crate) enters: Votes<Digest>,
    /// A NEW-VIEW that is being acknowledged, or that opened the view that it is in.
    pub(crate) opening: Option<Opening>,
    /// Own messages about the view, to send again: acknowledgement, ENTER.
    pub(crate) own: OwnMessages,
    /// What it had in the view that it is about to leave, while it waits for its own PREPAREs: if
    /// it crashes now, it is in there again, and others may need that.
    pub(crate) behind: Option<Behind>,
    /// What is ordered in the view that was entered last.
    pub(crate) slots: Slots<Self>,
    /// What of that was executed and is not final, if its variant executes before that.
    pub(crate) speculation: V::Speculation,
}

/// A protocol that runs this replica. Where a method has a body here, it is that of a protocol that
/// executes only what is final.
pub trait Variant: Value {
    /// The protocol's rules.
    const RULES: Rules;

    /// What replicas must have sent before one of them decides something.
    const JUSTIFICATION: Justification;

    /// Whether clients ask to have a slot made final, because it was executed before it was.
    const SETTLES: bool = false;

    /// Whether a view begins as soon as its primary says so, and what it took over is final then.
    const OPENS_ALONE: bool = false;

    /// What a replica knows of slots that it executed and that are not final.
    type Speculation: Value;

    /// What a replica knows of slots that are not final when it starts and has executed so much.
    fn begin(executed: Slot) -> Self::Speculation;

    /// What a slot orders, if it is the next one and may be executed by now.
    fn executable(
        replica: &mut OnUsig<Self>,
        slot: Slot,
        out: &mut Effects<OnUsig<Self>>,
    ) -> Option<Digest>;

    /// Commits to what it may commit to by now.
    fn vote(replica: &mut OnUsig<Self>, out: &mut Effects<OnUsig<Self>>);

    /// Hands the next slot to execution; a checkpoint may be due behind it.
    fn execute(
        replica: &mut OnUsig<Self>,
        (slot, batch): (Slot, Arc<Batch>),
        is_checkpoint: bool,
        out: &mut Effects<OnUsig<Self>>,
    ) {
        out.output(Output::Execute { slot, batch });
        if is_checkpoint {
            replica.frame.take_checkpoint(slot, out);
        }
    }

    /// The last slot that is final.
    fn last_final(replica: &OnUsig<Self>) -> Slot {
        replica.frame.executed
    }

    /// See [`Finality::settle`](crate::common::frame::hooks::Finality::settle).
    fn settle(
        replica: &mut OnUsig<Self>,
        proof: &CheckpointProof,
        out: &mut Effects<OnUsig<Self>>,
    ) -> bool {
        let _ = out;
        replica.frame.executed >= proof.slot
    }

    /// The state after a slot was installed.
    fn stands_on(replica: &mut OnUsig<Self>, slot: Slot) {
        let _ = (replica, slot);
    }

    /// A tick passed.
    fn on_tick(replica: &mut OnUsig<Self>, out: &mut Effects<OnUsig<Self>>) {
        let _ = (replica, out);
    }

    /// Somebody waits until a slot is final that was executed.
    fn on_wanted(replica: &mut OnUsig<Self>, slot: Slot, out: &mut Effects<OnUsig<Self>>) {
        let _ = (replica, slot, out);
    }

    /// A replica committed to a slot.
    fn on_commit(
        replica: &mut OnUsig<Self>,
        author: ReplicaId,
        slot: Slot,
        out: &mut Effects<OnUsig<Self>>,
    ) {
        let _ = (replica, author, slot, out);
    }

    /// It is known what a slot orders, to which others may have committed before.
    fn on_prepare(replica: &mut OnUsig<Self>, out: &mut Effects<OnUsig<Self>>) {
        let _ = (replica, out);
    }

    /// A replica committed to what the view took over.
    fn on_enter(replica: &mut OnUsig<Self>, out: &mut Effects<OnUsig<Self>>) {
        let _ = (replica, out);
    }

    /// A client sent a message that is valid.
    fn on_client(
        replica: &mut OnUsig<Self>,
        client: ClientId,
        message: &Message,
        out: &mut Effects<OnUsig<Self>>,
    ) {
        let _ = (replica, client, message, out);
    }

    /// All places that it would confirm to clients that ask now.
    fn confirms(replica: &OnUsig<Self>) -> Vec<Place> {
        let _ = replica;
        Vec::new()
    }

    /// The window begins behind this slot.
    fn window_moved(replica: &mut OnUsig<Self>, low: Slot) {
        let _ = (replica, low);
    }

    /// What this replica executed that a view does not take over, before it enters that view.
    fn left_out(replica: &OnUsig<Self>, start: &Start) -> LeftOut {
        let _ = start;
        LeftOut { stays: replica.frame.executed, batches: Vec::new() }
    }

    /// The view is entered: takes back what it leaves out.
    fn roll_back(replica: &mut OnUsig<Self>, left_out: LeftOut, out: &mut Effects<OnUsig<Self>>) {
        let _ = (replica, left_out, out);
    }

    /// Sends a peer that executed so much the last commitment again.
    fn repeat(
        replica: &mut OnUsig<Self>,
        to: ReplicaId,
        executed: Slot,
        out: &mut Effects<OnUsig<Self>>,
    ) {
        let _ = (replica, to, executed, out);
    }

    /// The last slot to which a backup committed, where that is one to all slots before it.
    fn committed(replica: &OnUsig<Self>) -> Option<Slot> {
        let _ = replica;
        None
    }

    /// The log is read.
    fn recall(replica: &mut OnUsig<Self>, past: &Past<OnUsig<Self>>) {
        let _ = (replica, past);
    }

    /// Asserts what holds between events.
    fn assert_invariants(replica: &OnUsig<Self>) {
        let _ = replica;
    }
}

/// The batches that a view does not take over, and the slot behind which they were executed.
pub struct LeftOut {
    /// Up to here everything stays.
    pub stays: Slot,
    /// What this replica executed behind that slot.
    pub batches: Vec<Arc<Batch>>,
}

/// Where the replica stands in a view change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    /// In the view; ordering.
    Entered,
    /// Wants the view, but its own PREPAREs have not all come back yet; it must show them.
    Draining,
    /// Sent VIEW-CHANGE; waits for NEW-VIEW, or for the batches that a NEW-VIEW takes over.
    Changing,
    /// The new primary, which sent NEW-VIEW and waits for it to come back.
    Opening,
    /// Has NEW-VIEW; waits for a quorum to find it valid.
    Acknowledged,
}

/// A NEW-VIEW on its way to be entered, or the one that was.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Opening {
    /// The NEW-VIEW, to pass on. Its digest is what is acknowledged.
    pub message: Verified<Message>,
    /// What follows from it.
    pub start: Start,
    /// Who acknowledged it.
    pub acknowledgements: BTreeMap<ReplicaId, Ui>,
}

impl Opening {
    /// Of this NEW-VIEW, which nobody has acknowledged.
    pub(crate) fn new(message: Verified<Message>, opening: &NewView) -> Self {
        Self { message, start: opening.start(), acknowledgements: BTreeMap::new() }
    }

    /// Proof of it, once these have acknowledged it; none if the message is no NEW-VIEW.
    pub(crate) fn entry(
        &self,
        acknowledgements: Vec<(ReplicaId, Ui)>,
        domain: &Domain,
    ) -> Option<Entry> {
        let (Message::NewView(opening), Some(ui)) = (&*self.message.message, self.message.tag.ui())
        else {
            return None;
        };
        Some(Entry { header: opening.header(*ui, domain), acknowledgements })
    }
}

/// Own messages about the current view.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct OwnMessages {
    pub acknowledge: Option<Verified<Message>>,
    pub enter: Option<Verified<Message>>,
}

/// What a replica had in a view that it has not quite left.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Behind {
    /// The NEW-VIEW by which the view was opened; none for view 0.
    pub opening: Option<Opening>,
    /// Own messages about the view.
    pub own: OwnMessages,
}
