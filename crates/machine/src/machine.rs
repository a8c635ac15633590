//! One replica as a value: see the [crate].

use crate::admission::Admission;
use crate::approach::Approach;
use crate::divergence::Divergence;
use crate::driver::Driver;
use crate::engine::{Engine, ROUND_MS};
use crate::epochs::{EpochManager, SaidReady};
use crate::fault::Fault;
use crate::halt::Halt;
use crate::inbound::Inbound;
use crate::learnable::KeptForLearners;
use crate::limits::HostLimits;
use crate::meter::Meter;
use crate::others::Others;
use crate::pillar::{Prepared, ToPillar};
use crate::readiness::Settling;
use crate::replies::Replies;
use crate::resuming::Resuming;
use crate::spooling::Spooling;
use crate::store::{Disk, ObservedStore, StateCache};
use crate::wedging::Wedging;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Epochs;
use pentarchy_core::erased::{CoreEvent, ReplicaCore};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Epoch, MemberId, Millis, Slot};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::ports::replica::Input;
use pentarchy_core::protocol::TimerKey;
use pentarchy_core::reads::Reads;
use pentarchy_core::transfer::{Step, Transfer};
use pentarchy_storage::kept::DurableStore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tracing::info;

/// A replica without sockets, threads, files or clocks. `D` is the disk, if it has one; what makes
/// its cores lives for `'f`.
pub struct Machine<'f, D> {
    pub(crate) engine: Engine,
    pub(crate) executor: Executor,
    pub(crate) transfer: Transfer,
    /// Where states are that are not in memory, until they are in files.
    pub(crate) spooling: Option<Spooling>,
    pub(crate) meter: Meter,
    pub(crate) epoch_manager: EpochManager<'f>,
    /// Where this epoch ended for the executor, until the next one begins.
    pub(crate) ended: Option<Base>,
    /// How far it has come to the end that an authority outside sets.
    pub(crate) wedging: Wedging,
    /// What it keeps across a crash, if anything.
    pub(crate) store: Option<ObservedStore<D>>,
    pub(crate) divergence: Divergence,
    /// What it asks before it speaks, and what it tells peers that ask.
    pub(crate) resuming: Resuming,
    /// What it keeps for its next incarnation, if that is all.
    pub(crate) cache: Option<Box<dyn StateCache>>,
    /// What it has seen of the others, for operators.
    pub(crate) others: Others,
    /// What it has said about a pending change.
    pub(crate) said_ready: SaidReady,
    /// The configuration, and the change, whose members and administrators the driver knows.
    pub(crate) governing: Option<(Digest, Option<Digest>)>,
    pub(crate) admission: Admission,
    /// What peers sent and nobody has looked at.
    pub(crate) inbound: Inbound,
    /// What some of them said who may have left since.
    pub(crate) has_leavers: bool,
    /// In this round a newer member has shown how an epoch ended.
    pub(crate) was_shown: bool,
    /// What connected clients are to be told.
    pub(crate) replies: Replies,
    /// The connected peers.
    pub(crate) connected: BTreeSet<MemberId>,
    pub(crate) limits: HostLimits,
    pub(crate) settling: Settling,
    pub(crate) approach: Approach,
    pub(crate) steps: Vec<Step>,
    /// Questions about state that each peer asked in this round.
    pub(crate) asked: BTreeMap<MemberId, usize>,
    pub(crate) for_learners: KeptForLearners,
    /// Whether the core is in parts, of which the engine has the one that merges the others.
    pub(crate) is_split: bool,
    /// What pillars with threads of their own are to be told.
    pub(crate) to_pillars: Vec<(u8, ToPillar)>,
    /// Queries that wait until something is executed.
    pub(crate) reads: Reads<ClientId>,
    /// What queries must not miss of pillars with threads of their own.
    pub(crate) prepared: Vec<Prepared>,
    pub(crate) has_started: bool,
    /// When the core was last told that a round is over.
    round_ms: u64,
}

/// What a [`Machine`] is made of.
pub struct MachineParts<'f, D> {
    /// The core among its peers.
    pub engine: Engine,
    /// What executes.
    pub executor: Executor,
    /// What fetches states.
    pub transfer: Transfer,
    /// Where states are that are not in memory, until they are in files.
    pub spooling: Option<Spooling>,
    /// What leads from one epoch to the next.
    pub epoch_manager: EpochManager<'f>,
    /// What it keeps across a crash, if anything.
    pub store: Option<ObservedStore<D>>,
    /// What it keeps for its next incarnation, if that is all.
    pub cache: Option<Box<dyn StateCache>>,
    /// What it asks before it speaks.
    pub resuming: Resuming,
    /// Whether the core is in parts, of which `engine` has the one that merges the others.
    pub is_split: bool,
    /// Of each pillar with a thread of its own.
    pub prepared: Vec<Prepared>,
    /// Bounds.
    pub limits: HostLimits,
}

impl<'f, D: Disk> Machine<'f, D> {
    /// It does nothing before its first round [begins](Self::begin_round).
    ///
    /// # Panics
    /// If the core's rules
    /// [do not fit together](pentarchy_core::protocol::Rules::assert_consistent).
    #[must_use]
    pub fn new(mut parts: MachineParts<'f, D>) -> Self {
        let rules = parts.engine.core.rules();
        rules.assert_consistent();
        parts.epoch_manager.epochs.set_authority(rules.authority);
        parts.executor.set_authority(rules.authority);
        parts.executor.set_tuning(parts.epoch_manager.factory.tuning());
        let membership = parts.epoch_manager.epochs.membership();
        parts.transfer.begin_epoch(membership.members.iter().map(|it| it.id));
        let base = membership.base;
        let replier = parts.executor.service().replier();
        let mut replies = Replies::new(parts.limits, replier);
        replies.set_speculates(rules.speculative);
        Self {
            engine: parts.engine,
            executor: parts.executor,
            transfer: parts.transfer,
            spooling: parts.spooling,
            meter: Meter::default(),
            epoch_manager: parts.epoch_manager,
            ended: None,
            wedging: Wedging::default(),
            store: parts.store,
            divergence: Divergence::default(),
            resuming: parts.resuming,
            cache: parts.cache,
            others: Others::default(),
            said_ready: SaidReady::default(),
            governing: None,
            admission: Admission::default(),
            inbound: Inbound::default(),
            has_leavers: false,
            was_shown: false,
            replies,
            connected: BTreeSet::new(),
            limits: parts.limits,
            settling: Settling::default(),
            approach: Approach::default(),
            steps: Vec::new(),
            asked: BTreeMap::new(),
            for_learners: KeptForLearners::default(),
            is_split: parts.is_split,
            to_pillars: Vec::new(),
            reads: Reads::new(base.slot),
            prepared: parts.prepared,
            has_started: false,
            round_ms: 0,
        }
    }

    /// What users call the protocol of the present epoch.
    pub(crate) fn protocol(&self) -> String {
        let stated = self.membership().stated.as_ref();
        stated.map_or(self.engine.core.rules().name, |it| it.protocol.as_str()).to_owned()
    }

    /// Which member of the group this is.
    #[must_use]
    pub const fn member(&self) -> MemberId {
        self.engine.places.member
    }

    /// The present epoch's group.
    #[must_use]
    pub fn membership(&self) -> &Arc<Membership> {
        self.epoch_manager.epochs.membership()
    }

    /// The number of the present epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.membership().epoch
    }

    /// What executes, to look at.
    #[must_use]
    pub const fn executor(&self) -> &Executor {
        &self.executor
    }

    /// The same, to have it take a snapshot of what it has at the end.
    pub const fn executor_mut(&mut self) -> &mut Executor {
        &mut self.executor
    }

    /// The core, to look at.
    #[must_use]
    pub fn core(&self) -> &dyn ReplicaCore {
        &*self.engine.core
    }

    /// The core alone, when the machine is not needed any more.
    #[must_use]
    pub fn into_core(self) -> Box<dyn ReplicaCore> {
        self.engine.core
    }

    /// The epochs, to look at.
    #[must_use]
    pub const fn epochs(&self) -> &Epochs {
        &self.epoch_manager.epochs
    }

    /// What it keeps across a crash, to look at.
    #[must_use]
    pub fn store(&self) -> Option<&DurableStore<D>> {
        self.store.as_deref()
    }

    /// From now on every replica tells results of up to so many bytes, as far as this one has a say
    /// in that: see [`HostLimits::whole_result_bytes`].
    pub const fn tell_whole(&mut self, bytes: usize) {
        self.limits.whole_result_bytes = bytes;
    }

    /// When it wants a round at the latest, by the driver's clock.
    #[must_use]
    pub fn wake_at(&self) -> Millis {
        let epochs = self.epoch_manager.epochs.wake_at();
        let others = [self.transfer.wake_at(), self.resuming.wake_at().map(Millis)];
        others.into_iter().flatten().fold(epochs, Ord::min)
    }

    /// A round begins, at this time of the driver's clock: what waited for the disk goes on, as far
    /// as that has come. The replica misbehaves like this on command.
    ///
    /// # Errors
    /// [`Halt`]: nothing may leave the replica any more. So for all events.
    pub fn begin_round(
        &mut self,
        now_ms: u64,
        fault: Fault,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        (self.engine.now_ms, self.engine.fault) = (now_ms, fault);
        self.was_shown = false;
        if !std::mem::replace(&mut self.has_started, true) {
            let pillars = self.membership().lane.pillars;
            info!(protocol = self.protocol(), pillars, "started");
            self.tell_configuration(driver);
            self.start(driver)?;
        }
        self.ask_before_resuming(driver)?;
        self.release(driver)
    }

    /// Hands what clients sent in this round to the core, at this time of day.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn deliver_clients(&mut self, now: Millis, driver: &mut impl Driver) -> Result<(), Halt> {
        let is_connected = self.connected.len() >= self.membership().f;
        self.settling.on_round(self.engine.now_ms, is_connected);
        self.meter.begin(now);
        self.admit_round(driver)
    }

    /// Has the core take an event to which nothing led: for drivers of faulty replicas.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn feed(&mut self, event: CoreEvent, driver: &mut impl Driver) -> Result<(), Halt> {
        self.step(event, driver)
    }

    /// The round is over for a replica whose core is kept from everything: epochs and the transfer
    /// of state go on without it. For drivers of faulty replicas.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn end_round_without_core(
        &mut self,
        now: Millis,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        self.round_ms = self.engine.now_ms;
        self.on_round(now, driver)?;
        self.release(driver)
    }

    /// A timer ran out.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn on_timeout(&mut self, timer: TimerKey, driver: &mut impl Driver) -> Result<(), Halt> {
        self.step(CoreEvent::Timeout(timer), driver)
    }

    /// All that came in this round was told, at this time of day. If `happened`, or if the last
    /// time is long enough ago, the core is told so, and replies are sent.
    ///
    /// Only the core is told the time of day; everything else is timed by a clock that nobody can
    /// set.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn end_round(
        &mut self,
        happened: bool,
        now: Millis,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        let now_ms = self.engine.now_ms;
        if happened || now_ms >= self.round_ms + ROUND_MS {
            self.round_ms = now_ms;
            self.step(CoreEvent::Input(Input::Round { now }), driver)?;
            self.on_round(now, driver)?;
            self.take_stock();
            self.send_replies(driver);
        }
        self.release(driver)?;
        self.answer_waiting(driver);
        if let Some(store) = &mut self.store {
            store.end_of_round();
        }
        Ok(())
    }

    /// What the round had to say was written, between these times of the driver's clock.
    pub fn on_written(&mut self, begun: Duration, ended: Duration) {
        self.meter.round(begun, ended);
    }

    /// Carries out what the core asked for when it was started. So do pillars.
    pub(crate) fn begin(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        if self.is_split {
            let pillars = self.membership().lane.pillars;
            self.to_pillars.extend((0..pillars).map(|pillar| (pillar, ToPillar::Speak)));
        }
        self.carry_out(driver)?;
        self.drain(driver)
    }

    /// The slot that must be executed before a query is answered that arrives now.
    pub(crate) fn reads_from(&self) -> Slot {
        let of_pillars = self.prepared.iter().map(Prepared::get).max().unwrap_or_default();
        self.engine.core.reads_from().max(of_pillars)
    }

    /// Begins, once it may speak.
    fn start(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        self.resuming.begin(self.epoch_manager.epochs.is_admitted(), self.engine.now_ms);
        if self.is_resuming() { Ok(()) } else { self.begin_process(driver) }
    }

    /// Carries out what the core asked for when the process was started. It may have stopped just
    /// when its epoch had come to an end.
    pub(crate) fn begin_process(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        // A state of an earlier incarnation binds nobody.
        if self.executor.is_ending() && self.store.is_some() {
            self.on_ended(driver)?;
        }
        self.begin(driver)
    }

    /// The round is over: time has passed for epochs and for the transfer of state.
    fn on_round(&mut self, now: Millis, driver: &mut impl Driver) -> Result<(), Halt> {
        self.check_service()?;
        self.cool_cached();
        self.on_epochs_round(now, driver)?;
        self.get_ready(now, driver)?;
        self.asked.clear();
        self.transfer.on_round(Millis(self.engine.now_ms), &mut self.steps);
        self.carry_out_transfer(driver)?;
        self.drain(driver)?;
        self.begin_epoch(driver)
    }
}
