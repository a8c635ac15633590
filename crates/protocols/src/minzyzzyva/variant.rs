//! How MinZyzzyva runs the replica that it shares with MinBFT: it executes what is ordered.

use super::speculation::Speculation;
use super::views::{Ordered, Printed, Repaired, Views};
use crate::common::certificate::CheckpointProof;
use crate::common::counters::certificate::Start;
use crate::common::counters::past::Past;
use crate::common::usig::justification::SPECULATED;
use crate::common::usig::replica::LeftOut;
use crate::common::usig::{Message, OnUsig, Variant};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::ballot::Justification;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaId, Slot};
use pentarchy_core::ports::client::Place;
use pentarchy_core::protocol::{Authority, Effects, FaultModel, Rules};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};

/// One replica of MinZyzzyva.
pub type MinZyzzyva = OnUsig<Ordered<Repaired>>;

/// One replica of MinZyzzyva as it was printed.
pub type MinZyzzyva2010 = OnUsig<Ordered<Printed>>;

impl<W: Views> Variant for Ordered<W> {
    const RULES: Rules = Rules {
        name: W::NAME,
        fault_model: FaultModel::Hybrid,
        group_size: Count::per_fault_and_one(2),
        quorum: QuorumRule::Majority,
        replies: Count::per_fault_and_one(1),
        reads: ReadRule::All,
        pillars: false,
        speculative: true,
        hears_slot_results: false,
        replies_itself: false,
        authority: Authority::Members,
        counter: Some(W::COUNTER),
    };
    /// What is printed asks for less, and the museum shows what comes of that.
    const JUSTIFICATION: Justification =
        if W::OPENS_ALONE { Justification::NONE } else { SPECULATED };
    const SETTLES: bool = true;
    const OPENS_ALONE: bool = W::OPENS_ALONE;

    type Speculation = Speculation;

    fn begin(executed: Slot) -> Speculation {
        Speculation { last_final: executed, ..Speculation::default() }
    }

    fn executable(
        replica: &mut OnUsig<Self>,
        slot: Slot,
        out: &mut Effects<OnUsig<Self>>,
    ) -> Option<Digest> {
        replica.ordered_next(slot, out)
    }

    /// A backup commits only when somebody needs that.
    fn vote(_replica: &mut OnUsig<Self>, _out: &mut Effects<OnUsig<Self>>) {}

    fn execute(
        replica: &mut OnUsig<Self>,
        (slot, batch): (Slot, Arc<Batch>),
        is_checkpoint: bool,
        out: &mut Effects<OnUsig<Self>>,
    ) {
        replica.speculate(slot, batch, is_checkpoint, out);
    }

    fn last_final(replica: &OnUsig<Self>) -> Slot {
        replica.speculation.last_final
    }

    fn settle(
        replica: &mut OnUsig<Self>,
        proof: &CheckpointProof,
        out: &mut Effects<OnUsig<Self>>,
    ) -> bool {
        replica.settle_on(proof, out)
    }

    fn stands_on(replica: &mut OnUsig<Self>, slot: Slot) {
        replica.stand(slot);
    }

    fn on_tick(replica: &mut OnUsig<Self>, out: &mut Effects<OnUsig<Self>>) {
        replica.tick(out);
    }

    fn on_wanted(replica: &mut OnUsig<Self>, slot: Slot, out: &mut Effects<OnUsig<Self>>) {
        replica.want_final(slot, out);
    }

    fn on_commit(
        replica: &mut OnUsig<Self>,
        author: ReplicaId,
        slot: Slot,
        out: &mut Effects<OnUsig<Self>>,
    ) {
        replica.note_commit(author, slot, out);
    }

    fn on_prepare(replica: &mut OnUsig<Self>, out: &mut Effects<OnUsig<Self>>) {
        replica.note_prepare(out);
    }

    fn on_enter(replica: &mut OnUsig<Self>, out: &mut Effects<OnUsig<Self>>) {
        replica.check_final(out);
    }

    fn on_client(
        replica: &mut OnUsig<Self>,
        client: ClientId,
        message: &Message,
        out: &mut Effects<OnUsig<Self>>,
    ) {
        replica.settle_for(client, message, out);
    }

    fn confirms(replica: &OnUsig<Self>) -> Vec<Place> {
        replica.all_confirmed()
    }

    fn window_moved(replica: &mut OnUsig<Self>, low: Slot) {
        replica.speculation.asking.retain(|slot, _| *slot > low);
    }

    fn left_out(replica: &OnUsig<Self>, start: &Start) -> LeftOut {
        let stays = replica.stays(start);
        LeftOut { stays, batches: replica.executed_behind(stays) }
    }

    fn roll_back(replica: &mut OnUsig<Self>, left_out: LeftOut, out: &mut Effects<OnUsig<Self>>) {
        replica.go_on_from(left_out, out);
    }

    fn repeat(
        replica: &mut OnUsig<Self>,
        to: ReplicaId,
        executed: Slot,
        out: &mut Effects<OnUsig<Self>>,
    ) {
        replica.repeat_commitment(to, executed, out);
    }

    fn committed(replica: &OnUsig<Self>) -> Option<Slot> {
        Some(replica.speculation.certified)
    }

    fn recall(replica: &mut OnUsig<Self>, past: &Past<OnUsig<Self>>) {
        replica.recall_speculation(past);
    }

    fn assert_invariants(replica: &OnUsig<Self>) {
        replica.assert_speculation();
    }
}
