//! What a peer is sent that lacks something of a view or of its slots: own messages, and PREPAREs,
//! NEW-VIEWs and view-change certificates of anyone (`common/frame/repair.rs`).

use super::message::{Message, Report, Steps};
use super::replica::Hybster;
use crate::common::frame::hooks::Repairs;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};

impl Repairs for Hybster {
    fn more(&self) -> Steps {
        Steps { from: self.from(), left: self.left, enters: self.enters.voters() }
    }

    /// Sends a peer what it lacks to leave the views that this replica has left, and to enter the
    /// current one.
    fn answer_view(&self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let to = To::One(from);
        let accepted = self.accepted().filter(|_| report.more.from < self.from());
        if let Some(opening) = accepted.filter(|it| it.message.author != from) {
            mark!("hybster/new_view_relayed");
            if !mutant!("hybster.new-view-not-passed-on") {
                out.relay(to, &opening.message);
            }
        }
        if let Some(basis) = self.basis.as_ref().filter(|_| report.more.left < self.left) {
            mark!("hybster/certificate_sent");
            if !mutant!("hybster.certificate-not-passed-on") {
                out.send(to, Message::ViewChanges(basis.clone()));
            }
        }
        let leads = self.frame.membership.primary(self.frame.view) == from;
        if leads && !self.frame.is_entered() {
            self.own.acknowledge.iter().for_each(|message| out.relay(to, message));
        }
        if self.frame.lacks(report, report.more.enters) {
            self.own.enter.iter().for_each(|message| out.relay(to, message));
        }
    }

    /// Sends a peer PREPAREs that it lacks and own COMMITs for slots that it has not committed.
    fn answer_slots(&mut self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let first = report.executed.max(self.window.low()).next();
        for slot in (first.0..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get(slot) else { break };
            let only_own = mutant!("hybster.only-authors-repeat");
            let prepare = state.prepare.as_ref().filter(|_| slot > report.prepared);
            let prepare = prepare.filter(|it| !only_own || it.author == self.frame.me);
            for message in prepare.into_iter().chain(&state.own_commit) {
                if !self.frame.repeat(from, message, slot > report.prepared, out) {
                    return;
                }
            }
        }
    }
}
