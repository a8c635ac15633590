//! What the explorer has to know of Zyzzyva to see more in less time.

use super::message::Message;
use pentarchy_core::Bytes;
use pentarchy_core::auth::AuthTag;
use pentarchy_core::ids::{ReplicaId, View};
use pentarchy_core::protocol::Status;
use pentarchy_core::wire::{Malformed, Reader, Wire};

/// Author, tag and content of a message.
pub(super) fn decode(wire: &Bytes) -> Result<(ReplicaId, AuthTag, Message), Malformed> {
    let mut from = Reader::new(wire);
    let (author, tag) = (ReplicaId::decode(&mut from)?, AuthTag::decode(&mut from)?);
    let message = Message::decode(&mut from)?;
    from.finish().map(|()| (author, tag, message))
}

/// Whether a message can never change what a replica in this state does: it speaks of a view that
/// the replica has left behind, and views only grow. False where that is not certain.
#[must_use]
pub fn is_settled(status: &Status, wire: &Bytes) -> bool {
    let Ok((_, _, message)) = decode(wire) else { return true };
    let past = |view: View| view < status.view;
    match message {
        Message::ViewChange(change) => past(change.view),
        Message::NewView(opening) => past(opening.view),
        Message::Confirmed(proof) => past(proof.place.view),
        Message::Vote(place) | Message::Commit(place) | Message::Confirm(place) => past(place.view),
        Message::Order { view, .. } => past(view),
        Message::RequestViewChange { view } => view <= status.view,
        _ => false,
    }
}
