//! What need not be checked any more (`common/frame/redundancy.rs`).
//!
//! A certificate has room for a quorum of votes and is good with any. So a vote for what is
//! prepared here already changes nothing, whoever needs it: its author sends it to everyone itself.

use super::message::Message;
use super::replica::{Pbft, SlotState};
use super::variant::Variant;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};

impl<V: Variant> Pbft<V> {
    /// Whether nothing follows from a message, because of where this replica is. Of what it said
    /// itself everything counts.
    pub(super) fn says_nothing_new(&self, author: ReplicaId, message: &Message<V::Seal>) -> bool {
        author != self.frame.me
            && match message {
                Message::PrePrepare { view, slot, proposal } => {
                    let taken_over = self.is_here(*view) && *slot <= self.start.end();
                    let known = || self.is_proposal_known(*view, *slot, proposal.digest());
                    self.is_elsewhere(*view, *slot) || taken_over || known()
                }
                Message::Prepare { view, slot, batch } => {
                    self.is_elsewhere(*view, *slot)
                        || self.is_vote_known(author, *view, *slot, *batch)
                }
                Message::Commit { view, slot, batch } => {
                    self.is_elsewhere(*view, *slot) || self.is_commit_known(*view, *slot, *batch)
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

    fn is_here(&self, view: View) -> bool {
        view == self.frame.entered && self.frame.is_entered()
    }

    /// Another view than the one that this replica is in or about to enter, or a slot outside the
    /// window.
    fn is_elsewhere(&self, view: View, slot: Slot) -> bool {
        view != self.frame.view || !self.window.contains(slot)
    }

    fn is_proposal_known(&self, view: View, slot: Slot, batch: Digest) -> bool {
        let known =
            |state: &SlotState<V::Seal>| state.proposed.is_some() && state.batch == Some(batch);
        self.is_here(view) && self.window.get(slot).is_some_and(known)
    }

    fn is_vote_known(&self, author: ReplicaId, view: View, slot: Slot, batch: Digest) -> bool {
        let known = |state: &SlotState<V::Seal>| {
            let voted = state.votes.get(&author).is_some_and(|(voted, _)| *voted == batch);
            voted || state.prepared && state.batch == Some(batch)
        };
        self.is_here(view) && self.window.get(slot).is_some_and(known)
    }

    fn is_commit_known(&self, view: View, slot: Slot, batch: Digest) -> bool {
        let known = |state: &SlotState<V::Seal>| state.decided && state.batch == Some(batch);
        self.is_here(view) && self.window.get(slot).is_some_and(known)
    }
}
