//! A replica that keeps what it said: when the disk has come far enough, what waited goes on.

use crate::driver::Driver;
use crate::engine::Engine;
use crate::halt::Halt;
use crate::machine::Machine;
use crate::observed::Observed;
use crate::status::DurabilityReport;
use crate::store::Disk;
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, CoreEvent};
use pentarchy_core::ids::{ClientId, Slot};
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::ports::replica::Input;
use pentarchy_storage::kept::Then;
use tracing::info;

impl<D: Disk> Machine<'_, D> {
    /// Carries out what waited for the disk, as far as it has come.
    pub(crate) fn release(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        // What was said before a crash has not been said again: its certificates are still needed.
        if self.is_resuming() {
            return Ok(());
        }
        let Some(store) = &mut self.store else { return Ok(()) };
        store.look()?;
        store.measure(&mut self.meter.spreads);
        store.mend(&mut self.executor);
        while let Some(effect) = self.next_message() {
            self.carry(effect, driver)?;
            self.drain(driver)?;
        }
        while let Some((client, message)) = self.store.as_mut().and_then(|k| k.next_answer()) {
            driver.observe(Observed::LeavesAnswer);
            driver.send_client(&client, &message);
        }
        while let Some(then) = self.next_saved()? {
            self.on_saved(then, driver);
            self.drain(driver)?;
        }
        self.compact(driver)?;
        self.begin_epoch(driver)
    }

    /// The log fills up: the core keeps again what it needs.
    fn compact(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        // Where the replica is not in the epoch, no core would keep anything again.
        let works = self.ended.is_none() && self.epoch_manager.epochs.is_admitted();
        let store = self.store.as_mut().filter(|_| works);
        let Some(slot) = store.and_then(|store| store.asks_again()) else { return Ok(()) };
        info!(%slot, "log compaction: the log fills up");
        self.cut_at(Some(slot))?;
        self.step(CoreEvent::Input(Input::Compact), driver)
    }

    fn next_message(&mut self) -> Option<CoreEffect> {
        self.store.as_mut()?.barrier_mut().next_message()
    }

    fn next_saved(&mut self) -> Result<Option<Then>, Halt> {
        Ok(self.store.as_mut().map_or(Ok(None), |store| store.next_saved())?)
    }

    /// Does something once the executor's newest state is durable: at once if nothing is kept.
    pub(crate) fn when_saved(&mut self, then: Then, driver: &mut impl Driver) -> Result<(), Halt> {
        if let (Some(store), Some(snapshot)) = (&mut self.store, self.executor.latest()) {
            return Ok(store.save(snapshot, then)?);
        }
        self.on_saved(then, driver);
        Ok(())
    }

    /// A quorum vouches for a state. If this replica has it, what came before it may go.
    pub(crate) fn on_stable(
        &mut self,
        slot: Slot,
        state: Digest,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        driver.observe(Observed::Stable(slot, state));
        let mine = self.executor.snapshot(slot).map(|snapshot| snapshot.digest);
        self.keep_for_learners(slot);
        self.executor.stable(slot);
        if let (Some(cache), Some(snapshot)) = (&self.cache, self.executor.snapshot(slot))
            && mine == Some(state)
        {
            cache.offer(snapshot);
        }
        self.cut_at(mine.filter(|mine| *mine == state).map(|_| slot))
    }

    /// What the core does not keep again from here on may go, if its state is here.
    fn cut_at(&mut self, here: Option<Slot>) -> Result<(), Halt> {
        let pillars = self.membership().lane.pillars;
        let Some(store) = &mut self.store else { return Ok(()) };
        if self.engine.core.rules().pillars {
            store.stable_in_parts(here, pillars);
        } else if let Some(slot) = here {
            let Engine { authenticator, taken, .. } = &self.engine;
            store.stable(slot, authenticator.memories(), *taken)?;
        }
        Ok(())
    }

    /// A state is durable, so that this replica may vouch for it.
    fn on_saved(&mut self, then: Then, driver: &mut impl Driver) {
        driver.observe(Observed::Vouches(slot_of(&then)));
        match then {
            Then::Checkpointed { slot, state } => {
                self.engine.inward.push_back(CoreEvent::Input(Input::Checkpointed { slot, state }));
            }
            Then::Installed { slot } => {
                self.engine.inward.push_back(CoreEvent::Input(Input::Installed { slot }));
            }
            Then::Ended(handover) => self.vote_for(handover, driver),
        }
    }

    /// What is in the files of states for the next incarnation need not be in memory.
    pub(crate) fn cool_cached(&mut self) {
        let has_ended = self.cache.as_ref().is_some_and(|cache| cache.has_ended());
        if let Some(spooling) = &mut self.spooling {
            spooling.look();
            if has_ended {
                spooling.end();
            }
        }
        let Some(cache) = &self.cache else { return };
        if let Some(cooled) = cache.cooled() {
            self.executor.cool(&cooled.tree);
        }
        for section in cache.unread() {
            // The next one can be saved, unless the service has another one by now.
            self.executor.mend(section..=section);
        }
    }

    /// How the disk is doing, if anything is kept.
    pub(crate) fn disk(&self) -> Option<DurabilityReport> {
        let store = self.store.as_ref().map(|store| store.report(&self.meter.spreads));
        store.or_else(|| {
            let saved = self.cache.as_ref()?.saved().map(|slot| slot.0);
            Some(DurabilityReport { mode: "async", saved, ..DurabilityReport::default() })
        })
    }

    /// Whether so much waits for the disk that nothing more is to be read.
    #[must_use]
    pub fn waits_for_disk(&self) -> bool {
        self.store.as_ref().is_some_and(|store| {
            store.backing().is_behind() || store.waiting_bytes() > self.limits.disk_queue_bytes
        })
    }

    /// Bytes of a client's answers that wait for the disk.
    pub(crate) fn held_answer_bytes(&self, client: &ClientId) -> usize {
        self.store.as_ref().map_or(0, |store| store.answer_bytes(client))
    }

    /// What clients are told from now on rests on all that was kept before.
    pub(crate) fn rest_on_what_is_kept(&mut self, driver: &mut impl Driver) {
        if let Some(store) = &mut self.store {
            store.executed();
            driver.observe(Observed::Rests);
        }
    }

    /// Answers a query, or has the answer wait for the disk.
    pub(crate) fn answer_query(
        &mut self,
        client: ClientId,
        message: ToClient,
        driver: &mut impl Driver,
    ) {
        let message = match &mut self.store {
            Some(store) => {
                driver.observe(Observed::HeldAnswer);
                let message = store.hold_answer(client, message);
                if message.is_some() {
                    driver.observe(Observed::LeavesAnswer);
                }
                message
            }
            None => Some(message),
        };
        if let Some(message) = message {
            driver.send_client(&client, &message);
        }
    }
}

/// The slot of the state that this rests on.
const fn slot_of(then: &Then) -> Slot {
    match then {
        Then::Checkpointed { slot, .. } | Then::Installed { slot } => *slot,
        Then::Ended(handover) => handover.base.slot,
    }
}
