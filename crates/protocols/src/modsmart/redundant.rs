//! What need not be checked any more (`common/frame/redundancy.rs`).

use super::message::Message;
use super::replica::ModSmart;
use super::slot::SlotState;
use super::variant::Variant;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};

impl<V: Variant> ModSmart<V> {
    /// Whether nothing follows from a message, because of where this replica is. Of what it said
    /// itself everything counts.
    pub(super) fn says_nothing_new(&self, author: ReplicaId, message: &Message<V>) -> bool {
        author != self.frame.me
            && match message {
                Message::Propose { view, slot, proposal, .. } => {
                    let here = self.frame.is_entered() && *view == self.frame.entered;
                    let taken_over = here && *slot <= self.start.end();
                    let batch = Some(proposal.digest());
                    let known = |state: &SlotState<V>| here && state.round.proposed == batch;
                    taken_over || self.is_known(*view, *slot, known)
                }
                Message::Write { view, slot, batch, .. } => {
                    self.is_known(*view, *slot, |state| is_write_known(author, state, *batch))
                }
                Message::Accept { view, slot, batch } => {
                    let known = |state: &SlotState<V>| state.chosen == Some(*batch);
                    self.is_known(*view, *slot, known)
                }
                Message::Decided { slot, .. } => {
                    self.window.get(*slot).is_none_or(|state| state.chosen.is_some())
                }
                Message::ViewChange(change) => {
                    self.frame.is_leaving_moot(author, change.claims.view)
                }
                Message::NewView(opening) => {
                    opening.view < self.frame.view || opening.view == self.frame.entered
                }
                Message::Shared(message) => self.frame.is_shared_moot(author, message),
            }
    }

    /// Whether a vote is about another view than the one that this replica is in or about to enter,
    /// about a slot outside the window, or known.
    fn is_known(&self, view: View, slot: Slot, known: impl Fn(&SlotState<V>) -> bool) -> bool {
        let here = self.frame.is_entered() && view == self.frame.entered;
        let Some(state) = self.window.get(slot).filter(|_| view == self.frame.view) else {
            return true;
        };
        here && known(state)
    }
}

/// Whether this WRITE is known, or the same is locked in this view.
fn is_write_known<V: Variant>(author: ReplicaId, state: &SlotState<V>, batch: Digest) -> bool {
    let round = &state.round;
    let locked = round.locked && round.written == Some(batch);
    locked || round.heard.who(&batch).contains(author)
}
