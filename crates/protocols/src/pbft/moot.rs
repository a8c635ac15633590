//! What need not be checked any more, because nothing follows from it even if it is genuine.
//!
//! A certificate has room for a quorum of votes and is good with any. So a vote for what is prepared
//! here already changes nothing, whoever needs it: its author sends it to everyone itself.

use super::message::Message;
use super::replica::{Pbft, SlotState};
use pentarchy_core::ids::{ReplicaId, Slot, View};

impl Pbft {
    /// A vote for what is prepared in this view, a COMMIT to what is decided, either of a slot below
    /// the window; and what [`crate::common::frame::Frame::is_moot`] says.
    pub(super) fn says_nothing_new(&self, author: ReplicaId, message: &Message) -> bool {
        if author == self.frame.me {
            return false;
        }
        let is_past = |view: View, slot: Slot, is_done: &dyn Fn(&SlotState) -> bool| {
            let known = self.window.get(slot);
            view == self.frame.entered && known.map_or(slot <= self.window.low(), is_done)
        };
        match message {
            Message::Prepare { view, slot, batch } => {
                is_past(*view, *slot, &|state| state.prepared && state.batch == Some(*batch))
            }
            Message::Commit { view, slot, batch } => {
                is_past(*view, *slot, &|state| state.decided && state.batch == Some(*batch))
            }
            Message::Shared(message) => self.frame.is_moot(message),
            _ => false,
        }
    }
}
