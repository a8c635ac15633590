//! Slots that nobody asks for, and that others wait for (section 5.3.2, "execution order"): they
//! are filled with nothing.
//!
//! - Who leads a pillar fills what others are ahead of it, as far as it has heard of that, at the
//!   end of each round: so what fills a row goes out with what needs it.
//! - Where execution waits for a slot although a later one is decided, the primary of its pillar is
//!   given as much time as for a request.
//! - So it is in all pillars with the same primary if a request waits in one: if it is gone, all
//!   change their views at the same time, and not one after the other. Other primaries may not have
//!   heard of the request.

use super::replica::{Pillar, Pillars, pillar_of};
use crate::common::frame::Frame;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, Slot};
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Input;
use pentarchy_core::protocol::{Effects, Event};

fn leader<P: Pillar>(frame: &Frame<P>) -> ReplicaId {
    frame.membership.primary(frame.view)
}

impl<P: Pillar> Pillars<P> {
    /// Has a pillar fill its slots up to this one, unless it knows.
    fn fill(&mut self, pillar: u8, slot: Slot, decided: bool) {
        let frame = self.pillars[usize::from(pillar)].frame();
        if frame.can_fill(slot, decided) && !mutant!("pillars.gaps-not-filled") {
            self.inward.push_back((pillar, Input::Fill { slot, decided }));
        }
    }

    pub(super) fn numbers(&self) -> core::ops::Range<u8> {
        0..self.membership.lane.pillars
    }

    /// A client's envelope: for its pillar. That it waits there on a backup, where it is executed
    /// only with all that comes before it, has the others fill theirs.
    pub(super) fn on_request(&mut self, client: &ClientId, input: Input, out: &mut Effects<Self>) {
        let of_client = pillar_of(client, self.membership.lane.pillars);
        self.feed(of_client, Event::Input(input), out);
        let frame = self.pillars[usize::from(of_client)].frame();
        if frame.is_primary() || frame.pending.is_empty() {
            return;
        }
        let (row, primary) = (frame.next_slot, leader(frame));
        let all = !mutant!("pillars.siblings-not-timed");
        for pillar in self.numbers().filter(|it| all && *it != of_client) {
            if leader(self.pillars[usize::from(pillar)].frame()) == primary {
                self.fill(pillar, row, false);
            }
        }
    }

    /// The end of a round: what waits is proposed, and what has to be filled for that is too.
    pub(super) fn on_round(&mut self, now: Millis, out: &mut Effects<Self>) {
        for pillar in self.numbers() {
            self.feed(pillar, Event::Input(Input::Round { now }), out);
        }
        self.settle(out);
        let heard_of = |core: &P| match mutant!("pillars.fills-what-it-voted-for") {
            true => Slot(core.frame().next_slot.0 - 1),
            false => core.frame().heard_of(),
        };
        let Some(last) = self.pillars.iter().map(heard_of).max() else { return };
        for pillar in self.numbers() {
            let frame = self.pillars[usize::from(pillar)].frame();
            if frame.is_primary() && frame.next_slot <= last {
                self.fill(pillar, last, false);
                self.inward.push_back((pillar, Input::Round { now }));
            }
        }
    }

    /// What is decided waits for what is not: that is to be filled.
    pub(super) fn fill_gaps(&mut self) {
        let Some(last) = self.merge.last_waiting() else { return };
        let (of_last, row) = self.merge.rows.place(last);
        for pillar in self.numbers() {
            let slot = if pillar < of_last { row } else { Slot(row.0 - 1) };
            self.fill(pillar, slot, true);
        }
    }
}
