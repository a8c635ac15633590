//! What need not be checked any more (`common/frame/redundancy.rs`).

use super::message::Message;
use super::replica::{OnUsig, Phase, Variant};
use pentarchy_core::ids::{ReplicaId, View};

impl<V: Variant> OnUsig<V> {
    /// Whether nothing follows from a message, because of where this replica is. Of what it said
    /// itself everything counts.
    pub(crate) fn says_nothing_new(&self, author: ReplicaId, message: &Message) -> bool {
        author != self.frame.me
            && match message {
                Message::Order(order) => self.slots.is_redundant(&self.frame, order),
                Message::ViewChange(change) => self.frame.is_leaving_moot(author, change.view),
                Message::NewView(opening) => self.is_opening_moot(opening.view),
                Message::Acknowledge { view, .. } => {
                    *view != self.frame.view || self.frame.is_entered()
                }
                Message::Enter { view, .. } => *view != self.frame.view,
                // The ingress refuses it from replicas.
                Message::Settle { .. } => true,
                Message::Shared(message) => self.frame.is_shared_moot(author, message),
            }
    }

    fn is_opening_moot(&self, view: View) -> bool {
        let late = view < self.frame.view || view == self.frame.entered;
        let busy = view == self.frame.view && self.opening.is_some();
        late || busy || self.phase == Phase::Draining
    }
}
