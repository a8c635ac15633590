//! A replica that keeps what it said: when the disk has come far enough, what waited goes on.

use crate::admission::answer;
use crate::cache::Cache;
use crate::error::Fatal;
use crate::network::Network;
use crate::speaker::Speaker;
use crate::status::DurabilityReport;
use crate::unit::Unit;
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, CoreEvent};
use pentarchy_core::ids::{ClientId, Slot};
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::ports::replica::Input;
use pentarchy_storage::kept::{EntryLog as _, Then};
use tracing::info;

impl Unit {
    /// Carries out what waited for the disk, as far as it has come.
    pub fn release(&mut self, network: &mut Network) -> Result<(), Fatal> {
        // What was said before a crash has not been said again: its certificates are still needed.
        if self.is_resuming() {
            return Ok(());
        }
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        keeper.look()?;
        keeper.measure(&mut self.meter.spreads);
        keeper.mend(&mut self.executor);
        while let Some(effect) = self.next_message() {
            self.carry(effect, network)?;
            self.drain(network)?;
        }
        while let Some((client, message)) = self.keeper.as_mut().and_then(|k| k.next_answer()) {
            answer(&client, &message, self.speaker.now_ms, network);
        }
        while let Some(then) = self.next_saved()? {
            self.on_saved(then, network);
            self.drain(network)?;
        }
        self.keep_again(network)?;
        self.begin_epoch(network)
    }

    /// The log fills up: the core keeps again what it needs.
    fn keep_again(&mut self, network: &mut Network) -> Result<(), Fatal> {
        // Who is not in the epoch has nobody who would keep anything again.
        let works = self.ended.is_none() && self.succession.epochs.is_admitted();
        let keeper = self.keeper.as_mut().filter(|_| works);
        let Some(slot) = keeper.and_then(|keeper| keeper.asks_again()) else { return Ok(()) };
        info!(%slot, "the log fills up: keeping again what is needed beside the last stable state");
        self.cut_at(Some(slot))?;
        self.step(CoreEvent::Input(Input::KeepAgain), network)
    }

    fn next_message(&mut self) -> Option<CoreEffect> {
        self.keeper.as_mut()?.barrier_mut().next_message()
    }

    fn next_saved(&mut self) -> Result<Option<Then>, Fatal> {
        Ok(self.keeper.as_mut().map_or(Ok(None), |keeper| keeper.next_saved())?)
    }

    /// Does something once the executor's newest state is durable: at once if nothing is kept.
    pub fn when_saved(&mut self, then: Then, network: &mut Network) -> Result<(), Fatal> {
        if let (Some(keeper), Some(snapshot)) = (&mut self.keeper, self.executor.latest()) {
            return Ok(keeper.save(snapshot, then)?);
        }
        self.on_saved(then, network);
        Ok(())
    }

    /// A quorum vouches for a state. If this replica has it, what came before it may go.
    pub fn on_stable(&mut self, slot: Slot, state: Digest) -> Result<(), Fatal> {
        let mine = self.executor.snapshot(slot).map(|snapshot| snapshot.digest);
        self.executor.stable(slot);
        if let (Some(cache), Some(snapshot)) = (&self.cache, self.executor.snapshot(slot))
            && mine == Some(state)
        {
            cache.offer(snapshot);
        }
        self.cut_at(mine.filter(|mine| *mine == state).map(|_| slot))
    }

    /// What the core does not keep again from here on may go, if its state is here.
    fn cut_at(&mut self, here: Option<Slot>) -> Result<(), Fatal> {
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        if self.is_split {
            let pillars = self.succession.epochs.membership().lane.pillars;
            keeper.stable_in_parts(here, pillars);
        } else if let Some(slot) = here {
            let Speaker { authenticator, taken, .. } = &self.speaker;
            keeper.stable(slot, authenticator.memories(), *taken)?;
        }
        Ok(())
    }

    /// A pillar has kept again all that it needs, from this entry on.
    pub fn on_kept_again(&mut self, pillar: u8, begins: u64) -> Result<(), Fatal> {
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        Ok(keeper.kept_again(pillar, begins)?)
    }

    /// A state is durable, so that this replica may vouch for it.
    fn on_saved(&mut self, then: Then, network: &mut Network) {
        match then {
            Then::Checkpointed { slot, state } => {
                self.speaker
                    .inward
                    .push_back(CoreEvent::Input(Input::Checkpointed { slot, state }));
            }
            Then::Installed { slot } => {
                self.speaker.inward.push_back(CoreEvent::Input(Input::Installed { slot }));
            }
            Then::Ended(handover) => self.vote_for(handover, network),
        }
    }

    /// What is in the files of states for the next life need not be in memory.
    pub fn cool_cached(&mut self) {
        let has_ended = self.cache.as_ref().is_some_and(Cache::has_ended);
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
    pub fn disk(&self) -> Option<DurabilityReport> {
        let keeper = self.keeper.as_ref().map(|keeper| keeper.report(&self.meter.spreads));
        keeper.or_else(|| self.cache.as_ref().map(Cache::report))
    }

    /// Whether so much waits for the disk that nothing more is to be read.
    pub fn waits_for_disk(&self, network: &Network) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| {
            keeper.backing().is_behind()
                || keeper.waiting_bytes() > network.limits().disk_queue_bytes
        })
    }

    /// Bytes of a client's answers that wait for the disk.
    pub fn held_answer_bytes(&self, client: &ClientId) -> usize {
        self.keeper.as_ref().map_or(0, |keeper| keeper.answer_bytes(client))
    }

    /// Answers a query, or has the answer wait for the disk.
    pub fn answer_query(&mut self, client: ClientId, message: ToClient, network: &mut Network) {
        let message = match &mut self.keeper {
            Some(keeper) => keeper.hold_answer(client, message),
            None => Some(message),
        };
        if let Some(message) = message {
            answer(&client, &message, self.speaker.now_ms, network);
        }
    }
}
