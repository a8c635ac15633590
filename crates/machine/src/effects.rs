//! What becomes of the core's effects: what leaves waits for the disk, and outputs are executed.

use crate::admission::request;
use crate::driver::{Driver, Work};
use crate::fault::{Fault, other_state, told};
use crate::halt::Halt;
use crate::machine::Machine;
use crate::observed::{NoticeLog as _, Observed};
use crate::replying::SlotResults;
use crate::store::Disk;
use pentarchy_core::batch::Batch;
use pentarchy_core::erased::{CoreEffect, CoreEvent};
use pentarchy_core::ids::Slot;
use pentarchy_core::ports::replica::{Output, speculation, wedging};
use pentarchy_storage::kept::Then;
use std::sync::Arc;
use tracing::{error, info};

impl<D: Disk> Machine<'_, D> {
    /// Delivers one event, and everything that the core then says to itself. Before it has resumed
    /// none is: it is lost, as any message may be.
    pub(crate) fn step(&mut self, event: CoreEvent, driver: &mut impl Driver) -> Result<(), Halt> {
        if self.is_resuming() {
            return Ok(());
        }
        self.deliver(event, driver)?;
        self.drain(driver)?;
        self.begin_epoch(driver)
    }

    pub(crate) fn drain(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        if self.is_resuming() {
            return Ok(());
        }
        while let Some(event) = self.engine.next_inward() {
            self.deliver(event, driver)?;
        }
        Ok(())
    }

    pub(crate) fn deliver(
        &mut self,
        event: CoreEvent,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        driver.observe(Observed::Takes(&event));
        self.engine.take(event);
        driver.observe(Observed::Asks(&self.engine.effects));
        self.carry_out(driver)
    }

    pub(crate) fn carry_out(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        let mut effects = std::mem::take(&mut self.engine.effects);
        let result = effects.drain(..).try_for_each(|effect| self.effect(effect, driver));
        self.engine.effects = effects;
        result?;
        Ok(self.store.as_mut().map_or(Ok(()), |store| store.end_of_step())?)
    }

    fn effect(&mut self, effect: CoreEffect, driver: &mut impl Driver) -> Result<(), Halt> {
        self.engine.counters.records += u64::from(matches!(effect, CoreEffect::Persist(_)));
        // From here on the core is not told to stop again, even if what it says waits for the disk.
        self.wedging.is_wedged |= is_end(&effect);
        let effect = match &mut self.store {
            Some(store) => {
                let is_message = is_message(&effect);
                let effect = store.barrier_mut().hold(effect)?;
                if is_message {
                    driver.observe(Observed::Held);
                }
                effect
            }
            None => Some(effect),
        };
        effect.map_or(Ok(()), |effect| self.carry(effect, driver))
    }

    /// Carries out what waits for nothing.
    pub(crate) fn carry(
        &mut self,
        effect: CoreEffect,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        let barrier = self.store.as_mut().map(|store| store.barrier_mut());
        if barrier.is_some() && is_message(&effect) {
            driver.observe(Observed::Leaves);
        }
        match self.engine.carry(effect, barrier, driver)? {
            Some(output) => self.output(output, driver),
            None => Ok(()),
        }
    }

    fn output(&mut self, output: Output, driver: &mut impl Driver) -> Result<(), Halt> {
        match output {
            Output::Admit { envelope } => {
                let settled = self.settled(&envelope).map(|reply| reply.number).collect();
                let request = request(envelope, settled, true);
                self.engine.inward.extend(request.map(CoreEvent::Input));
            }
            Output::Full { envelope } => self.refuse(&envelope, driver),
            output if self.drops(&output) => {}
            Output::Resumed { upto } => self.reads.resume(upto),
            Output::Execute { slot, batch } => {
                self.execute(slot, &batch, driver)?;
            }
            Output::Checkpoint { slot } => self.checkpoint(slot, driver)?,
            Output::Stable { slot, state } => self.on_stable(slot, state, driver)?,
            Output::Fetch { slot, state, from } => {
                driver.observe(Observed::Fetching(slot, state));
                let before = self.transfer.progress().map(|it| it.slot);
                let from = self.engine.places.members_of(from).collect();
                self.transfer.want(slot, state, from, &self.executor, &mut self.steps);
                if self.transfer.progress().is_some_and(|it| Some(it.slot) != before) {
                    info!(%slot, "fetching the group's state");
                }
                self.carry_out_transfer(driver)?;
            }
            Output::Entered { view, reason } => {
                driver.observe(Observed::Entered(view, reason));
                info!(%view, reason, "entered view");
            }
            Output::Diverged { slot, mine, theirs } => {
                driver.observe(Observed::Diverged(slot));
                self.engine.counters.diverged += 1;
                error!(%slot, %mine, %theirs, "this replica's state differs from the group's");
                self.divergence.begin(self.executor.snapshot(slot));
            }
            Output::Speculation(output) => self.on_speculation(output, driver)?,
            Output::Replying(output) => self.on_replying(output, driver),
            Output::Wedging(output) => self.on_wedging(output, driver)?,
            Output::Pillar(output) => self.on_pillars_core(output)?,
        }
        Ok(())
    }

    /// Whether nothing is to come of an output: because nothing is executed behind the end of an
    /// epoch, whatever its core still orders, or because a state is being installed. What a core
    /// that has stopped has executed nevertheless is not dropped, but ends the replica.
    fn drops(&self, output: &Output) -> bool {
        let is_of_executor = || {
            let is_stable = matches!(output, Output::Stable { .. } | Output::Fetch { .. });
            is_stable || output.needs_execution_in_step()
        };
        let executes = matches!(
            output,
            Output::Execute { .. } | Output::Speculation(speculation::Output::Speculate { .. })
        );
        let is_over = self.ended.is_some() || self.wedging.is_wedged && !executes;
        (is_over && is_of_executor())
            || self.store.as_ref().is_some_and(|store| store.drops(output))
    }

    fn execute(
        &mut self,
        slot: Slot,
        batch: &Arc<Batch>,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        self.assert_not_wedged(slot);
        let results = SlotResults::new(&self.engine.core.rules());
        self.run(slot, batch, results, driver)?;
        if self.executor.is_ending() { self.on_ended(driver) } else { Ok(()) }
    }

    /// Executes what is final, and collects what clients are told.
    pub(crate) fn run<R: Driver>(
        &mut self,
        slot: Slot,
        batch: &Arc<Batch>,
        mut results: SlotResults,
        driver: &mut R,
    ) -> Result<(), Halt> {
        let (begun, telling, fault) = (driver.elapsed(), self.telling(), self.engine.fault);
        let Self { engine, executor, replies, .. } = self;
        let mut notices = R::Notices::default();
        driver.around(Work::Execute, || {
            executor.execute(slot, batch, |client, notice| {
                notices.note(client, &notice);
                if results.note_notice(client, &notice) {
                    replies.notify_executed(client, told(fault, notice), telling);
                }
            });
        });
        engine.inward.extend(results.event(slot));
        self.check_service()?;
        self.meter.executed(batch, begun, driver.elapsed());
        self.rest_on_what_is_kept(driver);
        driver.on_notices(notices);
        driver.observe(Observed::Executed { slot, batch });
        Ok(())
    }

    fn checkpoint(&mut self, slot: Slot, driver: &mut impl Driver) -> Result<(), Halt> {
        debug_assert_eq!(slot, self.executor.executed(), "execution is in step with the core");
        let executor = &mut self.executor;
        let mut state = driver.around(Work::Snapshot, || executor.checkpoint());
        driver.observe(Observed::Checkpointed(slot, state));
        self.check_service()?;
        if self.engine.fault == Fault::Equivocate {
            state = other_state(state);
        }
        self.when_saved(Then::Checkpointed { slot, state }, driver)
    }

    /// Whether the service can go on. If not, nothing leaves this replica that came of it.
    pub(crate) fn check_service(&self) -> Result<(), Halt> {
        self.executor.failure().map_or(Ok(()), |failure| Err(Halt::Service(failure)))
    }
}

/// Whether it leaves the replica, so that it waits for the disk.
const fn is_message(effect: &CoreEffect) -> bool {
    matches!(
        effect,
        CoreEffect::Send { .. } | CoreEffect::Relay { .. } | CoreEffect::Output(Output::Wedging(_))
    )
}

/// Whether the core says that it has stopped.
const fn is_end(effect: &CoreEffect) -> bool {
    matches!(effect, CoreEffect::Output(Output::Wedging(wedging::Output::Wedged(_))))
}
