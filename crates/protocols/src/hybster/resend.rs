//! What a peer is sent that lacks something of a view or of its slots: own messages, and PREPAREs,
//! NEW-VIEWs and view-change certificates of anyone (`common/frame/repair.rs`).

use super::message::{Message, Report, Steps};
use super::replica::Hybster;
use crate::common::frame::hooks::Repairs;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};

impl Repairs for Hybster {
    fn more(&self) -> Steps {
        Steps { from: self.from(), left: self.left, enters: self.enters.voters() }
    }

    /// Also one that wants a higher view: it gets there from view to view only, and may lack for
    /// that what this replica has of a lower one.
    fn may_help(&self, report: &Report) -> bool {
        report.view <= self.frame.view || !mutant!("hybster.who-wants-more-not-helped")
    }

    /// Sends a peer what it lacks to leave the views that this replica has left, to open the one
    /// that it is to lead, and to enter the current one.
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
        if report.view > self.frame.view {
            self.repeat_leaving(from, report, out);
        } else if self.frame.lacks(report, report.more.enters) {
            self.own_enter.iter().for_each(|message| out.relay(to, message));
        }
        if !self.frame.is_entered() {
            self.answer_doubts(from, report, out);
        }
    }

    /// Sends a peer PREPAREs that it lacks and own COMMITs for slots that it has not committed.
    fn answer_slots(&mut self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        self.slots.answer(&mut self.frame, from, report, out);
    }
}

impl Hybster {
    /// Who wants more, and left for the same view as this replica, may lack its VIEW-CHANGE.
    fn repeat_leaving(&self, to: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        if report.more.left == self.left && !self.frame.is_entered() {
            let said = &self.frame.own_view_change;
            said.iter().for_each(|message| out.relay(To::One(to), message));
        }
    }

    /// A VIEW-CHANGE may come from a view of which others accepted a later one only. So who said it
    /// shows them that view's NEW-VIEW until they acknowledge that, too; whoever is to open the
    /// view gets these acknowledgements, and who said it those of which it cannot know.
    fn answer_doubts(&self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let to = To::One(from);
        let said = self.said.as_ref().filter(|said| said.change.view == self.frame.view);
        let shown = said.and_then(|said| said.origin.as_ref());
        let origin = shown.and_then(|message| message.message.opens());
        if let (Some(message), Some(origin)) = (shown, origin) {
            let doubts = !self.acknowledged.contains_key(&(origin, from));
            if doubts && report.more.from > origin && message.author != from {
                mark!("hybster/origin_shown");
                out.relay(to, message);
            }
        }
        let leads = self.frame.membership.primary(self.frame.view) == from;
        let theirs = self.heard.get(&(self.frame.view, from)).map(|heard| heard.change.from());
        for ((view, author), message) in &self.acknowledged {
            let mine = *author == self.frame.me;
            let opens = leads && (mine || origin == Some(*view));
            if *author != from && (opens || mine && theirs == Some(*view)) {
                out.relay(to, message);
            }
        }
    }
}
