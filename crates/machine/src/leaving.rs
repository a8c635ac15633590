//! A member that is left out of the next configuration stays for a while, without a core. It may be
//! the only correct replica that has the state with which that configuration begins: those that
//! signed for it besides may be faulty, and those that stay may have lagged behind. And those that
//! lag know nobody else who could show them how their configuration ended, if all others leave too.
//!
//! So it asks those that stay whether they have that state, gives it to those that lack it, and
//! ends when all have it, or when more than may be faulty have had it for as long as links to
//! former members are kept. New members, to which it has no links, get the state from those that
//! stay: these are always more than may be faulty.

use crate::driver::Driver;
use crate::halt::Halt;
use crate::machine::Machine;
use crate::store::Disk;
use pentarchy_core::epochs::Message;
use pentarchy_core::ids::{Epoch, MemberId};
use pentarchy_core::mutant;
use tracing::info;

/// Milliseconds between two questions to those that have not answered.
const ASK_MS: u64 = 500;

impl<D: Disk> Machine<'_, D> {
    /// Whether the group goes on without this replica, which stays for others.
    #[must_use]
    pub const fn is_leaving(&self) -> bool {
        self.epoch_manager.leaving.is_some()
    }

    /// Goes on leaving the group.
    pub(crate) fn leave(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        let now_ms = self.engine.now_ms;
        let Some(leaving) = &mut self.epoch_manager.leaving else { return Ok(()) };
        let epoch = leaving.next.epoch;
        let is_over = leaving.is_over(now_ms);
        let mut asked: Vec<MemberId> = Vec::new();
        if now_ms >= leaving.ask_ms {
            leaving.ask_ms = now_ms + ASK_MS;
            asked.extend(leaving.unsettled());
        }
        if self.engine.epoch != epoch {
            info!(%epoch, "the group goes on without this replica");
            self.engine.leave(epoch, driver);
            if let Some(store) = &mut self.store {
                store.leave();
            }
            self.roll_back(self.executor.committed(), driver)?;
            self.transfer.give_up();
            self.tell_configuration(driver);
        }
        if is_over || mutant!("epochs.leaves-at-once") {
            if !mutant!("epochs.signing-key-kept") {
                self.epoch_manager.factory.retire();
            }
            return Err(Halt::Removed(epoch));
        }
        self.tell(asked.into_iter(), &Message::Leaves { epoch }, driver);
        Ok(())
    }

    /// A former member asks whether this replica has the state with which an epoch began, and may
    /// have it.
    pub(crate) fn on_leaves(
        &mut self,
        peer: MemberId,
        epoch: Epoch,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        // Another leaver waits for this one, too, if this one had a part in that epoch.
        let here = self.engine.epoch;
        let part = if self.is_leaving() { self.executor.membership() } else { self.membership() };
        let is_between = !self.is_leaving() && here != part.epoch;
        if part.epoch < epoch || is_between {
            return Ok(());
        }
        let base = part.base;
        let saved = self.store.as_ref().map(|store| store.backing().newest());
        let is_kept = saved.is_none_or(|saved| saved.unwrap_or_default() >= base.slot);
        // If power failed before, the leaver would have to vote again on how its epoch ended.
        let is_durable = self.store.as_ref().map_or(Ok(true), |store| store.is_epoch_durable())?;
        if self.executor.executed() >= base.slot && is_kept && is_durable {
            self.tell([peer].into_iter(), &Message::Settled { epoch }, driver);
        } else if here == epoch {
            self.transfer.want_also_from((base.slot, base.state), peer, &mut self.steps);
            self.carry_out_transfer(driver)?;
        }
        Ok(())
    }

    /// A member has the state with which an epoch began.
    pub(crate) fn on_settled(&mut self, peer: MemberId, epoch: Epoch) {
        if let Some(leaving) = &mut self.epoch_manager.leaving
            && leaving.next.epoch == epoch
            && leaving.stay.contains(&peer)
        {
            leaving.settled.insert(peer);
        }
    }
}
