//! What a peer is sent that lacks something of a view or of its slots: own messages, and orders and
//! NEW-VIEWs of anyone (`common/frame/repair.rs`). With the reports this is the paper's FILL-HOLE
//! and CONFIRM-REQ (sections 3.2 and 3.4).

use super::message::{Message, Report, Standing};
use super::replica::{Phase, Zyzzyva};
use super::variant::Variant;
use crate::common::frame::hooks::Repairs;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Place;
use pentarchy_core::protocol::{Effects, To};

/// What a COMMIT takes in a queue, with its frame.
const COMMIT_BYTES: usize = 64;

impl<V: Variant> Repairs for Zyzzyva<V> {
    fn more(&self) -> Standing {
        Standing {
            opened: self.proposed.is_some() || self.phase == Phase::Entered,
            confirms: self.confirms.keys().copied().collect(),
            last_final: self.last_final,
        }
    }

    /// Sends a peer what it lacks to enter the current view.
    fn answer_view(&self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let to = To::One(from);
        let below = report.view < self.frame.view;
        // Nobody is sent back its own.
        let not_back = |message: &&Verified<Message>| message.author != from;
        if self.phase != Phase::Entered {
            let lacks = self.frame.lacks(report, report.more.confirms);
            let confirm = self.own.confirm.iter().filter(|_| lacks);
            let opening = self.proposed.iter().map(|(verified, _)| verified);
            let opening = opening.filter(|_| below || !report.more.opened).filter(not_back);
            opening.chain(confirm).for_each(|message| out.relay(to, message));
        } else if let Some((opening, proof)) = &self.opening
            && (below || !report.entered)
            && !mutant!("zyzzyva.new-view-not-passed-on")
        {
            mark!("zyzzyva/new_view_relayed");
            Some(opening).into_iter().filter(not_back).for_each(|it| out.relay(to, it));
            // As printed there is no such proof.
            if !self.table.printed {
                out.send(to, Message::Confirmed(proof.clone()));
            }
        }
    }

    /// Sends a peer orders that it lacks, own votes for slots that are not final there or here, and
    /// COMMITs for slots that are not final there: of which this replica keeps a certificate, or
    /// that are final here. A peer for which a slot became final in an earlier view hears by a vote
    /// that a replica lacks its own.
    fn answer_slots(&mut self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let last_final = report.more.last_final;
        let any = mutant!("zyzzyva.votes-for-who-lacks-them-only");
        let own_final = if any { last_final } else { self.last_final };
        let open = last_final.min(own_final);
        let first = open.min(report.prepared).max(self.window.low()).next();
        for slot in (first.0..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get(slot) else { break };
            let order = state.order.as_ref().filter(|_| slot > report.prepared);
            let vote = state.own_vote.as_ref().filter(|_| slot > open);
            for message in order.into_iter().chain(vote) {
                if !self.frame.repeat(from, message, slot > report.prepared, out) {
                    return;
                }
            }
            let is_final = slot <= self.last_final && !mutant!("zyzzyva.commits-if-certified-only");
            let says = slot > last_final && (state.committed || is_final);
            if let (true, Some(history)) = (says, state.history) {
                if !self.frame.peers.may_repeat(from, COMMIT_BYTES) {
                    return;
                }
                let place = Place { view: self.frame.entered, slot, history };
                out.send(To::One(from), Message::Commit(place));
            }
        }
    }
}
