//! What the explorer has to know of Mod-SMaRt to see more in less time.

use super::message::{Message, Shared};
use super::variant::Variant;
use pentarchy_core::Bytes;
use pentarchy_core::authored::decode;
use pentarchy_core::ids::View;
use pentarchy_core::protocol::Status;

/// Whether a message can never change what a replica in this state does: it speaks of a view that
/// the replica has left behind, and views only grow. False where that is not certain.
#[must_use]
pub fn is_settled<V: Variant>(status: &Status, wire: &Bytes) -> bool {
    let Ok((_, _, message)) = decode::<Message<V>>(wire) else { return true };
    let past = |view: View| view < status.view;
    match message {
        Message::ViewChange(change) => past(change.claims.view),
        Message::NewView(opening) => past(opening.view),
        // An own ACCEPT that comes back counts in whatever view: the log has it.
        Message::Propose { view, .. } | Message::Write { view, .. } => past(view),
        Message::Shared(Shared::RequestViewChange { view }) => view <= status.view,
        _ => false,
    }
}
