//! States that this replica fetches, and those that it gives to others.

use crate::driver::Driver;
use crate::halt::Halt;
use crate::machine::Machine;
use crate::observed::Observed;
use crate::store::Disk;
use pentarchy_core::ids::MemberId;
use pentarchy_core::limits::TRANSFER_CHUNKS_IN_FLIGHT;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::{self, Step};
use pentarchy_core::wire::Wire;
use pentarchy_storage::kept::Then;
use tracing::info;

/// First byte of a peer's message: a [`transfer::Message`] follows.
pub const TRANSFER: u8 = 1;

impl<D: Disk> Machine<'_, D> {
    pub(crate) fn on_transfer(
        &mut self,
        peer: MemberId,
        message: transfer::Message,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        if self.is_resuming() {
            return Ok(());
        }
        if message.is_question() && !self.may_ask(peer, driver.peer_queued_bytes(peer)) {
            self.engine.counters.transfer_dropped += 1;
            return Ok(());
        }
        self.transfer.on_message(peer, message, &self.executor, &mut self.steps);
        self.carry_out_transfer(driver)?;
        self.drain(driver)?;
        self.begin_epoch(driver)
    }

    /// A state that a quorum vouches for came by another way than peers' messages.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn on_state(&mut self, state: Snapshot, driver: &mut impl Driver) -> Result<(), Halt> {
        self.install(state, driver)?;
        self.drain(driver)?;
        self.begin_epoch(driver)
    }

    /// Whether a question about state is answered of somebody for whom so many bytes wait. Who
    /// keeps to the protocol never has more of them under way than are answered in a round.
    pub(crate) fn may_ask(&mut self, asker: MemberId, queued_bytes: usize) -> bool {
        let asked = self.asked.entry(asker).or_default();
        *asked += 1;
        *asked <= TRANSFER_CHUNKS_IN_FLIGHT && queued_bytes <= self.limits.transfer_queue_bytes
    }

    pub(crate) fn carry_out_transfer(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        let mut steps = std::mem::take(&mut self.steps);
        let result = steps.drain(..).try_for_each(|step| match step {
            Step::Send { to, message } => {
                driver.send_peer(to, "transfer", |to| {
                    to.u8(TRANSFER);
                    message.encode(to);
                });
                Ok(())
            }
            Step::Install(snapshot) => self.install(snapshot, driver),
        });
        self.steps = steps;
        result
    }

    fn install(&mut self, snapshot: Snapshot, driver: &mut impl Driver) -> Result<(), Halt> {
        let (slot, state) = (snapshot.slot, snapshot.digest);
        self.divergence.compare(&snapshot);
        let installed = self.executor.install(snapshot);
        self.check_service()?;
        installed.map_err(|_| Halt::Install(slot))?;
        info!(%slot, "installed the group's state");
        driver.observe(Observed::Installed(slot, state));
        self.when_saved(Then::Installed { slot }, driver)?;
        // It may be the one with which the epoch ends, or one before that which was wrong here.
        self.ended = None;
        if self.executor.is_ending() {
            self.on_ended(driver)?;
        }
        self.inherit(driver)
    }
}
