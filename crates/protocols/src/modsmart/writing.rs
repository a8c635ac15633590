//! What a replica says in the next slot: it writes, or accepts where nobody writes.

use super::message::Message;
use super::record::Record;
use super::replica::ModSmart;
use super::slot::SlotState;
use super::variant::Variant;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};

impl<V: Variant> ModSmart<V> {
    /// Writes in the next slot, if it is known what it orders, the whole batch is here and its time
    /// has come. In slot order, so that whoever may go on proposing knows of no gap.
    pub(super) fn vote_next(&mut self, out: &mut Effects<Self>) -> bool {
        let slot = self.frame.next_slot;
        if self.frame.is_primary() && slot > self.start.end() || slot > self.frame.high() {
            return false;
        }
        let Some(state) = self.window.get(slot).filter(|_| self.frame.has_vote_room(slot)) else {
            return false;
        };
        if state.round.wrote.is_none() {
            let Some(batch) = state.round.candidate else { return false };
            let Some(body) = self.frame.bodies.get(&batch) else { return false };
            let time = body.time;
            if self.frame.is_future(time) && !self.is_agreed(slot, &batch) {
                let primary = self.frame.membership.primary(self.frame.entered);
                self.frame.wait_for_clock(slot, time, Some(primary), out);
                return false;
            }
            self.write(slot, batch, out);
        }
        self.frame.next_slot = slot.next();
        true
    }

    /// Whether somebody correct found a batch good before. Only what is fresh is judged: what is
    /// taken over would otherwise stop whoever finds it bad.
    fn is_agreed(&self, slot: Slot, batch: &Digest) -> bool {
        if mutant!("modsmart.policy-on-bound") {
            return false;
        }
        let wrote = |state: &SlotState<V>| state.round.heard.count(batch) >= self.frame.weak();
        slot <= self.start.end() || self.window.get(slot).is_some_and(wrote)
    }

    pub(super) fn write(&mut self, slot: Slot, batch: Digest, out: &mut Effects<Self>) {
        let view = self.frame.view;
        self.frame.persist_body(slot, &batch, out);
        self.frame.note_vote(slot, &batch);
        if !V::WRITES {
            return self.accept_at_once(slot, batch, out);
        }
        let Some(state) = self.window.get_mut(slot) else { return };
        let signed = note_write(state, view, batch);
        if signed {
            mark!("modsmart/write_signed");
        }
        if !mutant!("modsmart.write-not-in-log") {
            out.persist(Record::Write { view, slot, batch, signed });
        }
        out.send(To::All, Message::Write { view, slot, batch, signed });
    }
}

/// A replica writes a batch, and keeps that if there is room. Whether it has to sign, because it
/// cannot show the write in a VIEW-CHANGE.
pub(super) fn note_write<V: Variant>(state: &mut SlotState<V>, view: View, batch: Digest) -> bool {
    state.round.wrote = Some(batch);
    let signed = !state.writes.has_room(&batch);
    if !signed {
        state.writes.note(batch, view);
    }
    signed
}
