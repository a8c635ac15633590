//! What the explorer has to know of replicas on USIGs to see more in less time.

use super::message::{Message, Shared};
use pentarchy_core::Bytes;
use pentarchy_core::authored::decode;
use pentarchy_core::ids::View;
use pentarchy_core::protocol::Status;

/// Where explorations can begin, by name. `view-2`: views 1 and 2 failed; replica 0 proposed in
/// view 0 what nobody else has heard of; replicas 1 and 2 wait for another request.
pub const STARTS: [(&str, &str); 1] = [("view-2", include_str!("starts/view-2.txt"))];

/// Whether a message can never change what a replica in this state does: it speaks of a view that
/// the replica has left behind, and views only grow. False where that is not certain.
#[must_use]
pub fn is_settled(status: &Status, wire: &Bytes) -> bool {
    let Ok((_, _, message)) = decode::<Message>(wire) else { return true };
    // A replica that is between views still counts commitments in the one that it entered last.
    let between = status.phase != "normal" && status.phase != "catching-up";
    let past = |view: View| view < status.view;
    match message {
        Message::ViewChange(change) => past(change.view),
        Message::NewView(opening) => past(opening.view),
        Message::Acknowledge { view, .. } | Message::Enter { view, .. } => past(view),
        Message::Order(order) => past(order.place().0) && !between,
        // While draining, an ask for this very view may yet travel in the VIEW-CHANGE.
        Message::Shared(Shared::RequestViewChange { view }) => {
            view <= status.view && status.phase != "draining"
        }
        _ => false,
    }
}
