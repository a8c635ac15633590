//! Who may have joined after the configuration in which this replica is. If a replica was away, and
//! all members that it knows have left or lost how the group went on, only such a newer member can
//! tell it, and that one dials it. Nobody knows here who it is. So nothing is taken from it but how
//! the configuration ended, which proves itself.

use crate::driver::Driver;
use crate::epochs::{EPOCHS, EpochManager};
use crate::machine::Machine;
use crate::store::Disk;
use bytes::Bytes;
use pentarchy_core::epochs::Message;
use pentarchy_core::wire::{Wire as _, Writer};

/// What a replica does after a message of somebody who claims to be a newer member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Newer {
    /// Nothing.
    Ignored,
    /// It is sent this, over the connection over which it spoke.
    Answer(Bytes),
    /// It has shown how an epoch ended, right or wrong: nothing else is to be had from it.
    Shown,
}

impl<D: Disk> Machine<'_, D> {
    /// Somebody spoke who says to be a newer member. In each round one of them can show something:
    /// signatures take time to check.
    pub fn on_newer(&mut self, bytes: &Bytes, driver: &mut impl Driver) -> Newer {
        if bytes.first() != Some(&EPOCHS) {
            return Newer::Ignored;
        }
        let Ok(message) = Message::from_bytes(&bytes.slice(1..)) else { return Newer::Ignored };
        self.engine.messages.came("epochs", bytes.len());
        // Proofs of what follows are for keys to judge that are not here yet, as members' are.
        if self.epoch_manager.next.is_some() || self.is_leaving() {
            return Newer::Ignored;
        }
        let is_shown = matches!(message, Message::Proofs(_));
        if is_shown && std::mem::replace(&mut self.was_shown, true) {
            return Newer::Ignored;
        }
        let EpochManager { epochs, steps, .. } = &mut self.epoch_manager;
        let answer = epochs.on_newer(message, &*self.engine.verifier, steps);
        self.carry_out_epochs(driver);
        match answer {
            Some(answer) => {
                let mut to = Writer::default();
                to.u8(EPOCHS);
                answer.encode(&mut to);
                Newer::Answer(to.into_bytes())
            }
            None if is_shown => Newer::Shown,
            None => Newer::Ignored,
        }
    }
}
