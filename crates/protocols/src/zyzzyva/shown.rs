//! What a replica can show of the view that it entered last, now that its window begins behind a
//! stable checkpoint. A later view may have made another history stable than the one that its view
//! began with, or that it was ordered there: then nobody was ever done with what rests on the other
//! one, and the replica shows that instead of what it executed (`docs/protocols/zyzzyva.md`, *A
//! checkpoint that contradicts a view*).

use super::certificate::extended;
use super::message::Message;
use super::replica::{SlotState, Zyzzyva};
use super::variant::Variant;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;

/// Whether one history is the other, on which something is to rest.
fn is_same(history: &Digest, other: &Digest) -> bool {
    history == other || mutant!("zyzzyva.contradiction-not-shown")
}

impl<V: Variant> Zyzzyva<V> {
    /// The history at the stable checkpoint with which the view began, if that is another one than
    /// the checkpoint's.
    pub(super) fn contradicted(&self) -> Option<Digest> {
        let stable = &self.frame.stable;
        let began = self.start.history_at(stable.slot)?;
        (!is_same(&began, &stable.state.history)).then_some(began)
    }

    /// Whether this replica, as primary, ordered something in the slot at which its window begins
    /// now that led to another history than the stable checkpoint's. So a later view has decided.
    pub(super) fn is_overruled_at(&self, low: Slot) -> bool {
        let came_back = || {
            let state = self.window.get(low)?;
            let order = state.order.as_ref().filter(|order| order.author == self.frame.me);
            order.and_then(|_| Some((parent(state)?, state.batch?)))
        };
        let own =
            self.awaiting_loopback.get(&low).map(|(parent, proposal)| (*parent, proposal.digest()));
        let executed = self.window.get(low).and_then(|state| state.history);
        own.or_else(came_back).is_some_and(|(parent, batch)| {
            let history = executed.unwrap_or_else(|| extended(&parent, &batch));
            history != self.frame.stable.state.history
        })
    }

    /// The slots behind the stable checkpoint that are known to rest on it in this view, each with
    /// its batch and the history after it.
    pub(super) fn chain(&self) -> impl Iterator<Item = (Slot, Digest, Digest)> {
        let mut history = self.frame.stable.state.history;
        let high = match self.contradicted() {
            Some(_) => self.window.low(),
            None => self.window.high(),
        };
        (self.window.low().0 + 1..=high.0).map(Slot).map_while(move |slot| {
            let state = self.window.get(slot)?;
            let (parent, batch) = (parent(state), state.batch?);
            if parent.is_some_and(|parent| !is_same(&parent, &history)) {
                return None;
            }
            history = extended(&history, &batch);
            Some((slot, batch, history))
        })
    }

    /// The last slot that this primary is known to have ordered, or to have taken over, with the
    /// history after it in its view.
    pub(super) fn last_ordered(&self) -> (Slot, Digest) {
        let mut slot = self.frame.stable.slot;
        let mut history = self.contradicted().unwrap_or(self.frame.stable.state.history);
        loop {
            let state = self.window.get(slot.next());
            let known = state.and_then(|state| Some((parent(state), state.batch?)));
            let own = self.awaiting_loopback.get(&slot.next());
            let own = || own.map(|(parent, proposal)| (Some(*parent), proposal.digest()));
            let Some((parent, batch)) = known.or_else(own) else { return (slot, history) };
            history = extended(&parent.unwrap_or(history), &batch);
            slot = slot.next();
        }
    }
}

/// The history on which the order of a slot rests. What a view takes over, nobody orders.
fn parent(state: &SlotState) -> Option<Digest> {
    match &*state.order.as_ref()?.message {
        Message::Order { parent, .. } => Some(*parent),
        _ => None,
    }
}
