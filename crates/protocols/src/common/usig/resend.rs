//! What a peer is sent that lacks something of a view or of its slots: own messages, and PREPAREs
//! and NEW-VIEWs of anyone (`common/frame/repair.rs`).

use super::message::{Report, Steps};
use super::replica::{OnUsig, Opening, Variant};
use crate::common::frame::hooks::Repairs;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};

impl<V: Variant> Repairs for OnUsig<V> {
    fn more(&self) -> Steps {
        let opening = self.opening.as_ref();
        let mut acknowledged: ReplicaSet =
            opening.iter().flat_map(|opening| opening.acknowledgements.keys().copied()).collect();
        if self.frame.is_entered() {
            // The entry is complete; more acknowledgements would not help.
            acknowledged = self.frame.membership.ids().collect();
        }
        Steps { opened: opening.is_some(), acknowledged, enters: self.enters.voters() }
    }

    /// Sends a peer what it lacks to enter the current view.
    fn answer_view(&self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let to = To::One(from);
        let has_opening = report.view == self.frame.view && report.more.opened;
        let others = |opening: &&Opening| opening.message.author != from;
        if let Some(opening) = self.opening.as_ref().filter(others).filter(|_| !has_opening) {
            mark!("usig/new_view_relayed");
            if !mutant!("usig.new-view-not-passed-on") {
                out.relay(to, &opening.message);
            }
        }
        if self.frame.lacks(report, report.more.acknowledged) {
            self.own.acknowledge.iter().for_each(|message| out.relay(to, message));
        }
        if self.frame.lacks(report, report.more.enters) {
            self.own.enter.iter().for_each(|message| out.relay(to, message));
        }
    }

    /// Sends a peer PREPAREs that it lacks and own COMMITs for slots that it has not committed.
    fn answer_slots(&mut self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        self.slots.answer(&mut self.frame, from, report, out);
        V::repeat(self, from, report.executed, out);
    }
}
