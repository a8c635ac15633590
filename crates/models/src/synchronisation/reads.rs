//! Reads without ordering, in the crash mode: a client believes n - f equal answers.

use super::types::{MEMBERS, Member, SLOTS, Set, Slot};
use crate::Broken;

/// What clients know.
#[derive(Clone, Copy, Default)]
pub(super) struct Clients {
    /// The last slot of which a client has a result.
    known: Slot,
    /// Who replied in a slot.
    replied: [Set; SLOTS + 1],
    read: Option<Read>,
}

/// A read that waits for answers.
#[derive(Clone, Copy)]
struct Read {
    /// What clients knew when it began.
    floor: Slot,
    /// The last slot that a replica had executed when it answered.
    answers: [Option<Slot>; MEMBERS],
}

impl Clients {
    /// A replica replies in all slots that it has executed; so many replies make a result.
    pub(super) fn reply(&mut self, from: Member, executed: Slot, enough: usize) {
        for slot in 1..=executed {
            self.replied[slot].insert(from);
            if self.replied[slot].len() >= enough {
                self.known = self.known.max(slot);
            }
        }
    }

    /// A replica answers the read, or a new one; so many equal answers make a result.
    pub(super) fn answer(
        &mut self,
        from: Member,
        executed: Slot,
        enough: usize,
    ) -> Result<(), Broken> {
        let floor = self.known;
        let read = self.read.get_or_insert(Read { floor, answers: [None; MEMBERS] });
        read.answers[from] = Some(executed);
        let floor = read.floor;
        if read.answers.iter().filter(|it| **it == Some(executed)).count() < enough {
            return Ok(());
        }
        self.read = None;
        self.known = self.known.max(executed);
        if executed < floor {
            let how = format!("slot {executed} after {floor}");
            return Err(Broken { property: "reads do not go back", how });
        }
        Ok(())
    }
}
