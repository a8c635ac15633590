//! What need not be checked any more, because nothing follows from it even if it is genuine: a
//! message that changes nothing can be dropped unseen, and who repeats it costs nothing. One that
//! contradicts what is known still proves a lie, and is checked.

use super::Frame;
use super::hooks::Framed;
use crate::common::message::Shared;
use pentarchy_core::ids::{ReplicaId, View};

impl<C: Framed> Frame<C> {
    /// Whether nothing follows from a message that all protocols have.
    #[must_use]
    pub fn is_shared_moot(&self, author: ReplicaId, message: &Shared<C::More>) -> bool {
        match message {
            Shared::RequestViewChange { view } => *view <= self.view,
            Shared::Checkpoint { slot, state } => {
                let is_stable = *slot == self.stable.slot && *state == self.stable.state;
                let is_known = || self.checkpoints.has_signed(author, *slot, state);
                *slot < self.stable.slot || is_stable || is_known()
            }
            Shared::Stable(proof) => proof.slot <= self.stable.slot,
            Shared::Body(proposal) => !self.bodies.lacks(&proposal.digest()),
            Shared::Envelope(envelope) => !self.bodies.lacks_envelope(&envelope.digest),
            Shared::Forward(_)
            | Shared::Report(_)
            | Shared::AskBody { .. }
            | Shared::AskEnvelope { .. } => false,
        }
    }

    /// Whether nothing follows from a VIEW-CHANGE of this author for a view: this replica has left
    /// that view behind, or is in it, or has one.
    #[must_use]
    pub fn is_leaving_moot(&self, author: ReplicaId, view: View) -> bool {
        let here = view == self.view;
        view < self.view || here && (self.is_entered() || self.view_changes.contains_key(&author))
    }
}
