//! What a peer is sent that lacks something of a view or of its slots (`common/frame/repair.rs`):
//! own votes, which nobody else can pass on; decisions; and NEW-VIEWs of anyone.

use super::message::{Locked, Message, Report};
use super::replica::ModSmart;
use super::variant::Variant;
use crate::common::frame::hooks::Repairs;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};

/// What a decision takes in a queue, with its frame.
const DECIDED_BYTES: usize = 64;

impl<V: Variant> Repairs for ModSmart<V> {
    fn more(&self) -> Locked {
        let mut slot = self.frame.stable.slot;
        while self.window.get(slot.next()).is_some_and(|state| state.round.locked) {
            slot = slot.next();
        }
        Locked(slot)
    }

    /// Sends a peer the NEW-VIEW that it lacks.
    fn answer_view(&self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let lacks = report.view < self.frame.view || !report.entered;
        let others = |opening: &&Verified<Message<V>>| opening.author != from;
        let lacks = lacks && self.frame.is_entered();
        if let Some(opening) = self.opening.as_ref().filter(others).filter(|_| lacks) {
            mark!("modsmart/new_view_relayed");
            if !mutant!("modsmart.new-view-not-passed-on") {
                out.relay(To::One(from), opening);
            }
        }
    }

    /// Sends a peer own votes for slots that it has not locked or executed, and tells it what is
    /// decided. Fewer than `f + 1` that lack a decision get no new view, so the others have to tell
    /// them.
    fn answer_slots(&mut self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let (locked, executed) = (report.more.0, report.executed);
        let first = executed.min(locked).max(self.window.low()).next();
        for slot in (first.0..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get(slot) else { break };
            let write = state.round.own_write.clone().filter(|_| slot > locked);
            let accept = state.round.own_accept.clone().filter(|_| slot > executed);
            let decided = state.decided.filter(|_| slot > executed);
            for message in write.iter().chain(&accept) {
                if !self.frame.repeat(from, message, slot > report.prepared, out) {
                    return;
                }
            }
            if let Some(batch) = decided.filter(|_| !mutant!("modsmart.decided-not-told")) {
                if !self.frame.peers.may_repeat(from, DECIDED_BYTES) {
                    return;
                }
                mark!("modsmart/decided_told");
                out.send(To::One(from), Message::Decided { slot, batch });
            }
        }
    }
}
