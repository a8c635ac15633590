//! What the explorer has to know of Hybster to see more in less time.

use super::message::{Message, Shared};
use pentarchy_core::Bytes;
use pentarchy_core::authored::decode;
use pentarchy_core::ids::View;
use pentarchy_core::protocol::Status;

/// Whether a message can never change what a replica in this state does: it speaks of a view that
/// the replica has left behind, and views only grow. False where that is not certain: by messages
/// about the views between the one that it accepted last and the one that it wants it may get on.
#[must_use]
pub fn is_settled(status: &Status, wire: &Bytes) -> bool {
    let Ok((_, _, message)) = decode::<Message>(wire) else { return true };
    let normal = status.phase == "normal" || status.phase == "catching-up";
    let past = |view: View| view < status.view && normal;
    match message {
        Message::ViewChange(change) => past(change.view),
        Message::NewView(opening) => past(opening.view()),
        Message::Order(order) => past(order.place().0),
        Message::Enter { view, .. } | Message::Acknowledge { view } => past(view),
        Message::ViewChanges(changes) => past(changes.view),
        Message::Shared(Shared::RequestViewChange { view }) => normal && view <= status.view,
        Message::Shared(_) => false,
    }
}
