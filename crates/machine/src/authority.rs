//! Groups whose epochs a service outside ends: when the service says so, a replica stops, reports
//! what it had ordered, and goes on with what the next epoch inherits.

use crate::driver::Driver;
use crate::halt::Halt;
use crate::machine::Machine;
use crate::observed::Observed;
use crate::replying::SlotResults;
use crate::store::Disk;
use crate::wedging::{FromAuthority, Inheritance, ToAuthority};
use pentarchy_core::epochs::Handover;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::ids::{ReplicaSet, Slot};
use pentarchy_core::limits::HISTORY_SLOTS_MAX;
use pentarchy_core::membership::Base;
use pentarchy_core::ports::replica::wedging;
use pentarchy_core::protocol::Authority;
use pentarchy_core::succession::{Body, Issued, Report, SignedReport, Succession};
use pentarchy_storage::kept::Then;
use tracing::{error, info, warn};

impl<D: Disk> Machine<'_, D> {
    /// The authority outside that ends this group's epochs said this. Before the replica has begun
    /// or resumed that is lost, and the authority is asked again: its core may have stopped, and
    /// has not said so.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn on_authority(
        &mut self,
        said: FromAuthority,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        if self.is_resuming() {
            return Ok(());
        }
        if self.epoch_manager.epochs.authority() == Authority::Members {
            self.refuse_authority();
            return Ok(());
        }
        if !self.has_started {
            return Ok(());
        }
        match said {
            FromAuthority::Wedge { epoch } if epoch == self.epoch() => self.wedge(driver)?,
            FromAuthority::Wedge { .. } => {}
            FromAuthority::Begin { issued, bodies } => self.on_issued(*issued, &bodies, driver)?,
        }
        self.drain(driver)?;
        self.begin_epoch(driver)
    }

    fn refuse_authority(&mut self) {
        self.engine.counters.authority_refused += 1;
        warn!("refused a message about the epoch: it is not the authority's, or is incomplete");
    }

    /// Stops the core, or says again that it has stopped.
    fn wedge(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        if self.wedging.is_wedged {
            self.report(driver);
            return Ok(());
        }
        info!(epoch = %self.epoch(), "the authority stops the epoch");
        self.deliver(CoreEvent::Input(wedging::Input::Wedge.into()), driver)?;
        self.wedging.is_wedged = true;
        Ok(())
    }

    /// The core says something to the authority. What it asked to be kept before is durable.
    pub(crate) fn on_wedging(
        &mut self,
        output: wedging::Output,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        match output {
            wedging::Output::Wedged(history) => {
                assert!(history.batches.len() <= HISTORY_SLOTS_MAX, "a core orders in its window");
                self.wedging.history = Some(history);
                self.report(driver);
                self.inherit(driver)?;
            }
            // A faulty member must not have this replica flood the authority.
            wedging::Output::Accuse { about, .. } if self.wedging.accused.contains(about) => {}
            wedging::Output::Accuse { about, why } => {
                self.wedging.accused.insert(about);
                let member = self.membership().members.get(usize::from(about.0)).map(|it| it.id.0);
                warn!(member, why, "accuses a member");
                let epoch = self.engine.epoch;
                driver.tell_authority(ToAuthority::Accuse { epoch, about, why });
            }
        }
        Ok(())
    }

    /// A core that has stopped has nothing more executed.
    pub(crate) fn assert_not_wedged(&self, slot: Slot) {
        assert!(!self.wedging.is_wedged, "{slot} is ordered behind the end of its epoch");
    }

    /// Tells the authority, under this replica's key, what the core had ordered when it stopped.
    fn report(&self, driver: &mut impl Driver) {
        let Some(history) = self.wedging.history.clone() else { return };
        let (epoch, author, life) =
            (self.engine.epoch, self.engine.places.me, self.epoch_manager.life);
        let report = Report { epoch, author, life, history };
        let signature = self.engine.authenticator.sign(&report.statement(self.membership()));
        driver.tell_authority(ToAuthority::Report(Box::new(SignedReport { report, signature })));
    }

    /// Tells the authority where this replica is. Accusations may have been lost: from now on they
    /// are said again.
    pub(crate) fn tell_status(&mut self, driver: &mut impl Driver) {
        self.wedging.accused = ReplicaSet::EMPTY;
        let (epoch, life) = (self.epoch(), self.epoch_manager.life);
        driver.tell_authority(ToAuthority::Status { epoch, life });
    }

    /// The authority says how this epoch ended, or a later one.
    fn on_issued(
        &mut self,
        issued: Issued,
        bodies: &[Body],
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        let ends = issued.succession.handover.epoch;
        if ends < self.epoch() || self.ended.is_some() {
            return Ok(());
        }
        let verifier = &*self.engine.verifier;
        // Bodies are work: nobody looks at them for what the authority did not say.
        let is_valid = issued.is_valid(self.membership(), verifier);
        let batches = is_valid.then(|| issued.succession.batches(bodies, verifier)).flatten();
        let Some(batches) = batches else {
            self.refuse_authority();
            return Ok(());
        };
        let known = self.wedging.inheritance.as_ref();
        if known.is_none_or(|known| known.succession.handover.epoch < ends) {
            let succession = issued.succession;
            self.wedging.inheritance = Some(Inheritance { succession, batches });
        }
        // What it goes on from must not change any more.
        if !self.wedging.is_wedged {
            self.wedge(driver)?;
        }
        self.inherit(driver)
    }

    /// Makes its own with what the next epoch begins, if that is known, the core has stopped, and
    /// the state is here; else it fetches that.
    pub(crate) fn inherit(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        let has_core = self.epoch_manager.epochs.is_admitted();
        if has_core && self.wedging.history.is_none() {
            return Ok(());
        }
        let Some(inheritance) = self.wedging.inheritance.take() else { return Ok(()) };
        self.roll_back(self.executor.committed(), driver)?;
        if self.is_in_line(&inheritance.succession) {
            return self.come_to_the_end(&inheritance, driver);
        }
        let Base { slot, state } = inheritance.succession.handover.base;
        if self.differs_from(&inheritance.succession)
            && !std::mem::replace(&mut self.wedging.has_diverged, true)
        {
            self.on_diverged(self.executor.executed(), driver);
        }
        self.wedging.inheritance = Some(inheritance);
        if slot == Slot(0) {
            error!(
                "the next epoch begins with the initial state, which no replica can send, and this \
                 replica's state differs from it"
            );
            return Ok(());
        }
        info!(%slot, "fetching the state with which the next epoch begins");
        driver.observe(Observed::Fetching(slot, state));
        let others = self.engine.places.peers().collect();
        self.transfer.want(slot, state, others, &self.executor, &mut self.steps);
        self.carry_out_transfer(driver)
    }

    /// Whether what was executed here is the state with which the next epoch begins, or leads from
    /// it on as the authority says. A state that the epoch certified leads on from every one before
    /// that the authority may choose.
    fn is_in_line(&self, succession: &Succession) -> bool {
        let (base, executed) = (succession.handover.base, self.executor.executed());
        let slots = base.slot..=succession.end();
        let own = self.wedging.history.as_ref();
        // Each member with a core began the epoch with its state.
        let holds = |it: Base| {
            self.has_state(it) == Some(true) || own.is_some() && it == self.membership().base
        };
        let knows_base = holds(base)
            || own.is_some_and(|own| slots.contains(&own.base.slot) && holds(own.base))
            || base == Base::default() && executed == Slot(0);
        knows_base && slots.contains(&executed) && !self.differs_from(succession)
    }

    /// Whether something that was executed here is known to be other than what the authority says,
    /// or than what the epoch certified behind that, or lies behind the end.
    fn differs_from(&self, succession: &Succession) -> bool {
        let (base, executed) = (succession.handover.base, self.executor.executed());
        let differs = |base| self.has_state(base) == Some(false);
        let own_differs = self.wedging.history.as_ref().is_some_and(|own| {
            let differs_behind = own.base.slot > base.slot && differs(own.base);
            differs_behind || !own.agrees_with(&succession.history(), executed)
        });
        executed > succession.end() || differs(base) || own_differs
    }

    /// Whether this replica had this state behind its slot; none if it does not know any more.
    fn has_state(&self, base: Base) -> Option<bool> {
        self.executor.snapshot(base.slot).map(|kept| kept.digest == base.state)
    }

    /// Executes what of the inherited batches was not executed yet. Then the epoch is over.
    fn come_to_the_end(
        &mut self,
        inheritance: &Inheritance,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        let Inheritance { succession, batches } = inheritance;
        let handover = &succession.handover;
        let done = (self.executor.executed().0 - handover.base.slot.0) as usize;
        for batch in &batches[done..] {
            let results = SlotResults::for_clients(&self.engine.core.rules());
            self.run(self.executor.executed().next(), batch, results, driver)?;
        }
        let base = Base { slot: self.executor.executed(), state: self.executor.checkpoint() };
        self.check_service()?;
        info!(epoch = %handover.epoch, slot = %base.slot, "the epoch ends");
        self.ended = Some(base);
        self.transfer.give_up();
        let handover = Handover { base, ..handover.clone() };
        driver.observe(Observed::Ended(&handover));
        // The next epoch rests on it.
        self.when_saved(Then::Ended(handover), driver)
    }
}
