//! What need not be checked any more, because nothing follows from it even if it is genuine.
//!
//! There are no streams of a sender's certificates to follow: each certificate names its view and
//! slot, and a VIEW-CHANGE shows by itself what its sender committed to. So a message that changes
//! nothing can be dropped unseen. One that contradicts what is known still proves a lie, and is
//! checked.

use super::message::Message;
use super::replica::{MinBft, SlotState};
use pentarchy_core::ids::ReplicaId;

impl MinBft {
    /// A COMMIT to what was decided in this view, or to a slot below the window; and what
    /// [`crate::common::frame::Frame::is_moot`] says.
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
            Message::Shared(message) => self.frame.is_moot(message),
            _ => false,
        }
    }
}
