//! What need not be checked any more, because nothing follows from it even if it is genuine.
//!
//! There are no streams of a sender's certificates to follow: each certificate names its view and
//! slot, and a VIEW-CHANGE shows by itself what its sender committed to. So a message that changes
//! nothing can be dropped unseen. One that contradicts what is known still proves a lie, and is
//! checked.

use super::message::{Message, Shared};
use super::replica::{MinBft, SlotState};
use pentarchy_core::ids::ReplicaId;

impl MinBft {
    /// A COMMIT to what was decided in this view, or to a slot below the window; a CHECKPOINT of
    /// the state that is stable there, or below it.
    pub(super) fn says_nothing_new(&self, author: ReplicaId, message: &Message) -> bool {
        if author == self.frame.me {
            return false;
        }
        match message {
            Message::Commit { view, slot, batch } if *view == self.frame.entered => {
                let known = self.window.get(*slot);
                let is_decided = |state: &SlotState| {
                    state.decided && state.prepare.is_some() && state.batch == Some(*batch)
                };
                known.map_or(*slot <= self.window.low(), is_decided)
            }
            Message::Shared(Shared::Checkpoint { slot, state }) => {
                let is_stable =
                    *slot == self.frame.stable.slot && *state == self.frame.stable.state;
                *slot < self.frame.stable.slot || is_stable
            }
            _ => false,
        }
    }
}
