//! Repair: neighbours say where they stand, and send each other what was lost.

use super::message::{Level, Message};
use super::mode::Mode;
use super::replica::{Phase, SentAgain, Shuttle};
use super::timer::Timer;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::limits::{RESEND_BYTES_MAX, RESEND_MESSAGES_MAX};
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Delay, Effects, To};

impl<M: Mode> Shuttle<M> {
    /// Whether nothing is under way that a link could have lost.
    fn is_level(&self) -> bool {
        let is_marked = self.marks.due.first().is_none_or(|slot| *slot > self.done);
        let waits = !self.is_head() && !self.queue.is_empty();
        self.log.ordered() == self.done
            && self.held.is_empty()
            && is_marked
            && !waits
            && self.sent_again.is_empty()
    }

    pub(super) fn keep_ticking(&mut self, out: &mut Effects<Self>) {
        if !self.timing.tick && !self.is_level() {
            self.timing.tick = true;
            out.arm(Timer::Tick, Delay::Resend);
        }
    }

    pub(super) fn on_tick(&mut self, out: &mut Effects<Self>) {
        self.timing.tick = false;
        self.sent_again.clear();
        if !self.is_head() {
            let alone = mutant!("shuttle.passes-on-to-head-alone");
            let before = To::Set((0..if alone { 1 } else { self.me.0 }).map(ReplicaId).collect());
            for envelope in self.queue.tick(RESEND_MESSAGES_MAX, RESEND_BYTES_MAX) {
                out.send(before, Message::Forward(envelope));
            }
        }
        if self.is_level() {
            return;
        }
        let neighbours = self.predecessor().into_iter().chain(self.successor());
        neighbours.for_each(|id| self.say_level(id, out));
        self.mark_again(out);
    }

    pub(super) fn say_level(&self, id: ReplicaId, out: &mut Effects<Self>) {
        let (ordered, done, stable) = (self.log.ordered(), self.done, self.stable.slot);
        out.send(To::One(id), Message::Level(Level { ordered, done, stable }));
    }

    /// Whether so many more bytes may be sent again to this neighbour before the next tick. One
    /// message may be larger. A neighbour that asks for much takes nothing of what the other one
    /// gets: that one could else be accused for what it was not sent.
    fn may_send_again(&mut self, to: ReplicaId, bytes: usize) -> bool {
        let shared = mutant!("shuttle.neighbours-share-room");
        let sent = self.sent_again.entry(if shared { self.me } else { to }).or_default();
        let is_free = sent.messages < RESEND_MESSAGES_MAX && sent.bytes < RESEND_BYTES_MAX;
        if is_free {
            *sent = SentAgain { messages: sent.messages + 1, bytes: sent.bytes + bytes };
        }
        is_free
    }

    pub(super) fn on_level(&mut self, author: ReplicaId, level: Level, out: &mut Effects<Self>) {
        if author == self.me && self.phase == Phase::Ordering && self.is_full(author) {
            return self.execute(level.ordered, out);
        }
        let (is_before, is_behind) =
            (self.predecessor() == Some(author), self.successor() == Some(author));
        if !(is_before || is_behind) || mutant!("shuttle.nothing-sent-again") {
            return;
        }
        if level.stable < self.stable.slot && self.may_send_again(author, 0) {
            out.send(To::One(author), Message::Stable(self.stable.clone()));
        }
        if is_behind {
            return self.send_orders(author, level.ordered, out);
        }
        if level.done < self.done && self.may_send_again(author, 0) {
            self.say_done(out);
        }
        let lacks = level.ordered > self.log.ordered() || level.stable > self.stable.slot;
        if lacks && self.may_send_again(author, 0) {
            self.say_level(author, out);
        }
    }

    /// Sends the successor again what it has not ordered.
    fn send_orders(&mut self, to: ReplicaId, behind: Slot, out: &mut Effects<Self>) {
        if self.phase == Phase::Refusing {
            return;
        }
        let first = behind.0.max(self.stable.slot.0).saturating_add(1);
        for slot in (first..=self.log.ordered().0).map(Slot) {
            let Some(entry) = self.log.get(slot) else { return };
            // What was executed before a restart may have left no results.
            let is_known = !self.is_full(self.me) || slot <= self.executing;
            let bytes = entry.batch.bytes();
            if !is_known || !self.may_send_again(to, bytes) {
                return;
            }
            if let Some((_, message)) = self.passing(slot) {
                out.send(To::One(to), message);
            }
        }
    }
}
