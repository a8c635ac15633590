//! What need not be checked any more (`common/frame/redundancy.rs`).

use super::message::Message;
use super::replica::Hybster;
use pentarchy_core::ids::{ReplicaId, View};

impl Hybster {
    /// Whether nothing follows from a message, because of where this replica is. Of what it said
    /// itself everything counts.
    pub(super) fn says_nothing_new(&self, author: ReplicaId, message: &Message) -> bool {
        author != self.frame.me
            && match message {
                Message::Order(order) => self.slots.is_redundant(&self.frame, order),
                Message::ViewChange(change) => self.is_leaving_known(author, change.view),
                Message::NewView(opening) => self.is_opening_moot(opening.view()),
                Message::Enter { view, .. } => *view != self.frame.view,
                Message::Acknowledge { view } => {
                    let known = self.acknowledged.contains_key(&(*view, author));
                    known || !self.counts_acknowledgement(*view, author)
                }
                Message::ViewChanges(changes) => {
                    self.is_past(changes.view) || self.handed.get(&author) == Some(changes)
                }
                Message::Shared(message) => self.frame.is_shared_moot(author, message),
            }
    }

    fn is_leaving_known(&self, author: ReplicaId, view: View) -> bool {
        let known = self.heard.contains_key(&(view, author));
        match view < self.frame.view {
            true => known || view < self.left || self.frame.is_entered(),
            false => self.frame.is_leaving_moot(author, view),
        }
    }

    fn is_opening_moot(&self, view: View) -> bool {
        let known = self.candidates.contains_key(&view) || !self.may_accept(view);
        known && !self.is_doubted(view)
    }

    /// Whether by what others could leave a view is of no use here.
    pub(super) fn is_past(&self, view: View) -> bool {
        view < self.left || self.frame.is_entered() && view <= self.frame.view
    }
}
