//! What a peer is sent that lacks something of a view or of its slots: own messages, and proposals
//! and NEW-VIEWs of anyone (`common/frame/repair.rs`).

use super::message::{Certified, Message, Report};
use super::replica::Pbft;
use super::variant::Variant;
use crate::common::frame::hooks::Repairs;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};

/// What a COMMIT takes in a queue, with its frame.
const COMMIT_BYTES: usize = 64;

impl<V: Variant> Repairs for Pbft<V> {
    fn more(&self) -> Certified {
        let mut slot = self.frame.stable.slot;
        while self.window.get(slot.next()).is_some_and(|state| state.prepared) {
            slot = slot.next();
        }
        Certified(slot)
    }

    /// Sends a peer the NEW-VIEW that it lacks.
    fn answer_view(&self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let lacks = report.view < self.frame.view || !report.entered;
        let others = |opening: &&Verified<Message<V::Seal>>| opening.author != from;
        let lacks = lacks && self.frame.is_entered();
        if let Some(opening) = self.opening.as_ref().filter(others).filter(|_| lacks) {
            mark!("pbft/new_view_relayed");
            if !mutant!("pbft.new-view-not-passed-on") {
                out.relay(To::One(from), opening);
            }
        }
    }

    /// Sends a peer proposals that it lacks, and own votes and COMMITs for slots that it has not
    /// committed.
    fn answer_slots(&mut self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let certified = report.more.0;
        // The last one may not be decided there.
        let executed = Slot(report.executed.0.saturating_sub(u64::from(V::TENTATIVE)));
        let first = executed.min(certified).max(self.window.low()).next();
        for slot in (first.0..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get(slot) else { break };
            let commit = state.batch.filter(|_| state.prepared && slot > executed);
            // The peer may know what the slot orders, and know something else than everybody else:
            // only a certificate shows that it does not.
            let shown = [&state.proposed, &state.own_vote].map(Clone::clone);
            for message in shown.iter().flatten().filter(|_| slot > certified) {
                if !self.frame.repeat(from, message, slot > report.prepared, out) {
                    return;
                }
            }
            if let Some(batch) = commit {
                if !self.frame.peers.may_repeat(from, COMMIT_BYTES) {
                    return;
                }
                let view = self.frame.view;
                out.send(To::One(from), Message::Commit { view, slot, batch });
            }
        }
    }
}
