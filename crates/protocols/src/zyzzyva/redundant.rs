//! What need not be checked any more (`common/frame/redundancy.rs`).

use super::message::Message;
use super::replica::{SlotState, Zyzzyva};
use super::variant::Variant;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::ports::client::Place;

impl<V: Variant> Zyzzyva<V> {
    /// Whether nothing follows from a message, because of where this replica is. Of what it said
    /// itself everything counts.
    pub(super) fn says_nothing_new(&self, author: ReplicaId, message: &Message) -> bool {
        author != self.frame.me
            && match message {
                Message::Order { view, slot, parent, proposal } => {
                    let taken_over = self.is_here(*view) && *slot <= self.start.end();
                    let known = || self.is_order_known(*view, *slot, parent, &proposal.digest());
                    self.is_elsewhere(*view, *slot) || taken_over || known()
                }
                Message::Vote(place) => {
                    self.is_elsewhere(place.view, place.slot) || self.is_vote_known(author, place)
                }
                Message::Commit(place) => self.is_elsewhere(place.view, place.slot),
                Message::ViewChange(change) => self.frame.is_leaving_moot(author, change.view),
                Message::NewView(opening) => self.is_past(opening.view),
                Message::Confirm(place) => place.view != self.frame.view || self.frame.is_entered(),
                Message::Confirmed(proof) => self.is_past(proof.place.view),
                Message::Misbehaviour(proof) => {
                    self.frame.monitor.is_liar(self.frame.membership.primary(proof.view))
                }
                // The ingress refuses it from replicas.
                Message::Vouch { .. } | Message::Certificate(_) => true,
                Message::Shared(message) => self.frame.is_shared_moot(author, message),
            }
    }

    fn is_past(&self, view: View) -> bool {
        view < self.frame.view || view == self.frame.entered
    }

    fn is_here(&self, view: View) -> bool {
        view == self.frame.entered && self.frame.is_entered()
    }

    /// Another view than the one that this replica is in or about to enter, or a slot outside the
    /// window.
    fn is_elsewhere(&self, view: View, slot: Slot) -> bool {
        view != self.frame.view || !self.window.contains(slot)
    }

    fn is_order_known(&self, view: View, slot: Slot, parent: &Digest, batch: &Digest) -> bool {
        let known = |state: &SlotState| {
            state.order.as_ref().is_some_and(|order| {
                let Message::Order { parent: named, proposal, .. } = &*order.message else {
                    return false;
                };
                (named, &proposal.digest()) == (parent, batch)
            })
        };
        self.is_here(view) && self.window.get(slot).is_some_and(known)
    }

    /// The same vote again, which this replica has answered with its own.
    fn is_vote_known(&self, author: ReplicaId, place: &Place) -> bool {
        let known = |state: &SlotState| {
            let voted = state.votes.get(&author);
            state.voted && voted.is_some_and(|(history, _)| *history == place.history)
        };
        self.is_here(place.view) && self.window.get(place.slot).is_some_and(known)
    }
}
