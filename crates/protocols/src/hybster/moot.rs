//! What need not be checked any more (`common/frame/mooting.rs`).
//!
//! There are no streams of a sender's certificates to follow: each certificate names its view and
//! slot, and a VIEW-CHANGE shows by itself what its sender has to show. So whatever changes nothing
//! can be dropped.

use super::message::Message;
use super::replica::{Hybster, SlotState};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};

impl Hybster {
    /// Whether nothing follows from a message, because of where this replica is. Of what it said
    /// itself everything counts.
    pub(super) fn says_nothing_new(&self, author: ReplicaId, message: &Message) -> bool {
        author != self.frame.me
            && match message {
                Message::Prepare { view, slot, .. } => {
                    self.is_elsewhere(*view, *slot) || self.is_prepare_known(*view, *slot)
                }
                Message::Commit { view, slot, batch } => {
                    self.is_elsewhere(*view, *slot) || self.is_commit_known(*view, *slot, *batch)
                }
                Message::ViewChange(change) => self.is_leaving_known(author, change.view),
                Message::NewView(opening) => self.is_opening_moot(author, opening.view()),
                Message::Enter { view, .. } => *view != self.frame.view,
                Message::Acknowledge { view } => {
                    let known = self.acknowledged.get(&author);
                    self.frame.is_entered() || known.is_some_and(|(known, _)| known >= view)
                }
                Message::ViewChanges(changes) => {
                    let view = changes.view;
                    view < self.left || self.frame.is_entered() && view < self.frame.view
                }
                Message::Shared(message) => self.frame.is_shared_moot(author, message),
            }
    }

    /// Another view than the one that orders here or is about to, or a slot outside the window.
    fn is_elsewhere(&self, view: View, slot: Slot) -> bool {
        let other_view = view != self.frame.view && view != self.frame.entered;
        other_view || !self.window.contains(slot)
    }

    fn is_prepare_known(&self, view: View, slot: Slot) -> bool {
        let known = |state: &SlotState| state.prepare.is_some();
        view == self.frame.entered && self.window.get(slot).is_some_and(known)
    }

    fn is_commit_known(&self, view: View, slot: Slot, batch: Digest) -> bool {
        let is_decided = |state: &SlotState| {
            state.decided && state.prepare.is_some() && state.batch == Some(batch)
        };
        view == self.frame.entered && self.window.get(slot).is_some_and(is_decided)
    }

    fn is_leaving_known(&self, author: ReplicaId, view: View) -> bool {
        let known = self.heard.contains_key(&(view, author));
        match view < self.frame.view {
            true => known || view < self.left || self.frame.is_entered(),
            false => self.frame.is_leaving_moot(author, view),
        }
    }

    fn is_opening_moot(&self, author: ReplicaId, view: View) -> bool {
        let known = self.candidates.get(&author).is_some_and(|it| match &*it.message {
            Message::NewView(known) => known.view() >= view,
            _ => false,
        });
        view <= self.from() || known
    }
}
