//! In what the protocols differ that run this replica: when a slot is executed, when a backup
//! commits, and when what was executed is final.

use super::message::Message;
use super::replica::OnUsig;
use crate::common::certificate::CheckpointProof;
use crate::common::counters::certificate::Start;
use crate::common::counters::past::Past;
use crate::common::frame::hooks::Finality;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaId, Slot};
use pentarchy_core::ports::client::Place;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Effects, Rules, Value};

/// The batches that a view does not take over, and the slot behind which they were executed.
pub struct LeftOut {
    /// Up to here everything stays.
    pub stays: Slot,
    /// What was executed behind it.
    pub batches: Vec<Arc<Batch>>,
}

/// A protocol that runs this replica. Where a method has a body here, it is that of a protocol that
/// executes only what is final.
pub trait Variant: Value {
    /// The protocol's rules.
    const RULES: Rules;

    /// Whether clients ask to have a slot made final, because it was executed before it was.
    const SETTLES: bool = false;

    /// Whether a view begins as soon as its primary says so, and what it took over is final then.
    const OPENS_ALONE: bool = false;

    /// What a replica knows of slots that it executed and that are not final.
    type Speculation: Value;

    /// What it knows when it starts and has executed so much.
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

    /// See [`Finality::settle`].
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

    /// What was executed that a view does not take over, before it is entered.
    fn left_out(replica: &OnUsig<Self>, start: &Start) -> LeftOut {
        let _ = start;
        LeftOut { stays: replica.frame.executed, batches: Vec::new() }
    }

    /// The view is entered: takes back what it leaves out.
    fn take_back(replica: &mut OnUsig<Self>, left_out: LeftOut, out: &mut Effects<OnUsig<Self>>) {
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

impl<V: Variant> Finality for OnUsig<V> {
    fn vouched(&self, _slot: Slot, state: Digest) -> Option<Digest> {
        Some(state)
    }

    fn last_final(&self) -> Slot {
        V::last_final(self)
    }

    fn execute(
        &mut self,
        slot: Slot,
        batch: Arc<Batch>,
        is_checkpoint: bool,
        out: &mut Effects<Self>,
    ) {
        V::execute(self, (slot, batch), is_checkpoint, out);
    }

    /// A replica that cannot tell whether what it executed is final cannot compare it either.
    fn comparable(&self) -> Slot {
        V::last_final(self)
    }

    fn settle(&mut self, proof: &CheckpointProof, out: &mut Effects<Self>) -> bool {
        V::settle(self, proof, out)
    }

    fn stands_on(&mut self, slot: Slot) -> bool {
        V::stands_on(self, slot);
        true
    }

    fn on_tick(&mut self, out: &mut Effects<Self>) {
        V::on_tick(self, out);
    }

    fn on_wanted(&mut self, slot: Slot, out: &mut Effects<Self>) {
        V::on_wanted(self, slot, out);
    }
}
