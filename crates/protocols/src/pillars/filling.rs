//! Slots that nobody asks for, and that others wait for (section 5.3.2, "execution order"): they
//! are filled with nothing.
//!
//! - Who leads a pillar fills what others are ahead of it, as far as it has heard of that, at the
//!   end of each round.
//! - Where execution waits for a slot although a later one is decided, the primary of its pillar is
//!   given as much time as for a request.
//! - So it is in all pillars with the same primary if a request waits in one: if it is gone, all
//!   change their views at the same time, and not one after the other. Other primaries may not have
//!   heard of the request.

use super::merger::Merger;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::pillar::{Input, PillarStatus};
use pentarchy_core::protocol::Effects;

impl Merger {
    /// A pillar stands like this.
    pub(super) fn on_pillar_status(
        &mut self,
        pillar: u8,
        pillar_status: PillarStatus,
        out: &mut Effects<Self>,
    ) {
        self.known(pillar).pillar_status = pillar_status;
        self.time_siblings(out);
        self.tell_heard(out);
    }

    /// Where a request waits for a primary, it is timed in all pillars that it leads: the request
    /// is executed only with all that comes before it.
    fn time_siblings(&mut self, out: &mut Effects<Self>) {
        for of_request in self.numbers() {
            let pillar_status = &self.pillars[usize::from(of_request)].pillar_status;
            let Some(row) = pillar_status.wants else { continue };
            let primary = pillar_status.status.primary;
            for pillar in self.numbers() {
                let known = self.known(pillar);
                let is_led = known.pillar_status.status.primary == primary && pillar != of_request;
                let (wanted, of) = known.wanted;
                let is_new = wanted < row || of != primary;
                if is_led && is_new && !mutant!("pillars.siblings-not-timed") {
                    known.wanted = (row, primary);
                    fill(pillar, Input::Fill { slot: row, waits_for: Some(primary) }, out);
                }
            }
        }
    }

    /// Whoever leads a pillar is told how far others are in any.
    fn tell_heard(&mut self, out: &mut Effects<Self>) {
        let heard_of = self.pillars.iter().map(|known| known.pillar_status.heard_of).max();
        let last = heard_of.unwrap_or_default();
        for pillar in self.numbers() {
            let known = self.known(pillar);
            if known.pillar_status.leads
                && known.pillar_status.next_slot <= last
                && known.heard < last
            {
                known.heard = last;
                fill(pillar, Input::Heard { slot: last }, out);
            }
        }
    }

    /// What is decided waits for what is not: that is to be filled.
    pub(super) fn fill_gaps(&mut self, out: &mut Effects<Self>) {
        let Some(last) = self.merge.last_waiting() else { return };
        let (of_last, row) = self.merge.rows.place(last);
        for pillar in self.numbers() {
            let slot = if pillar < of_last { row } else { Slot(row.0 - 1) };
            let known = self.known(pillar);
            if known.gap < slot && known.decided < slot {
                known.gap = slot;
                fill(pillar, Input::Fill { slot, waits_for: None }, out);
            }
        }
    }
}

/// Has a pillar fill its slots.
fn fill(pillar: u8, input: Input, out: &mut Effects<Merger>) {
    if !mutant!("pillars.gaps-not-filled") {
        Merger::tell(pillar, input, out);
    }
}
