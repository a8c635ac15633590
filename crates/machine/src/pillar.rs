//! One pillar of a split order, as a value: its core among its peers, for a thread of its own. It
//! shares nothing with the replica but what each of the two tells the other.

mod messages;

pub use messages::{FromPillar, NextEpoch, Prepared, ToPillar};

use crate::checking::Checked;
use crate::driver::Driver;
use crate::engine::{Engine, Opened, PROTOCOL, ROUND_MS};
use crate::fault::Fault;
use crate::halt::Halt;
use crate::inbound::{Heard, Inbound};
use crate::limits::HostLimits;
use crate::report::{LinkReport, Report};
use crate::seen::Seen;
use bytes::Bytes;
use pentarchy_core::erased::{CoreEffect, CoreEvent};
use pentarchy_core::ids::{ClientId, Epoch, MemberId, Millis};
use pentarchy_core::ports::replica::pillar::Output::Compacting;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Reject, TimerKey};
use pentarchy_core::request::Envelope;
use pentarchy_storage::kept::{Barrier, EntryLog, LogHandle};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Envelopes of clients that are checked in one round: of a millisecond or two, if they are signed.
const CHECKED_IN_A_ROUND: usize = 64;

/// A pillar's way to the log that all threads of a replica write into.
pub trait PillarLog: EntryLog {
    /// Goes over to another epoch.
    fn begin_epoch(&mut self, epoch: Epoch);

    /// Has all written that was handed over, by any thread.
    fn write(&mut self);
}

impl PillarLog for LogHandle {
    fn begin_epoch(&mut self, epoch: Epoch) {
        Self::begin_epoch(self, epoch);
    }
    fn write(&mut self) {
        Self::write(self);
    }
}

/// See the [module](self).
pub struct PillarInstance<L> {
    engine: Engine,
    /// Behind which what it says waits, if it keeps anything.
    barrier: Option<Barrier<L>>,
    /// From which entry on it is keeping again what it needs.
    keeps_from: u64,
    /// Where it notes what others said.
    seen: Seen,
    /// Until it is told that it may speak in this epoch, it hears nothing either.
    may_speak: bool,
    inbound: Inbound,
    /// What it has to say at the end of the round.
    saying: Vec<FromPillar>,
    /// What clients sent: no more than the replica has [waiting](HostLimits::waiting_max).
    to_check: VecDeque<Arc<Envelope>>,
    /// The peers that spoke of another epoch in this round, each with the latest.
    other_epochs: BTreeMap<MemberId, Epoch>,
    limits: HostLimits,
    prepared: Prepared,
    /// When the core was last told that a round is over.
    round_ms: u64,
}

impl<L: PillarLog> PillarInstance<L> {
    /// It is silent until it is told to [speak](ToPillar::Speak).
    #[must_use]
    pub fn new(
        engine: Engine,
        barrier: Option<Barrier<L>>,
        seen: Seen,
        limits: HostLimits,
    ) -> Self {
        let prepared = Prepared::default();
        prepared.set(engine.core.reads_from());
        Self {
            engine,
            barrier,
            keeps_from: 0,
            seen,
            may_speak: false,
            inbound: Inbound::default(),
            saying: Vec::new(),
            to_check: VecDeque::new(),
            other_epochs: BTreeMap::new(),
            limits,
            prepared,
            round_ms: 0,
        }
    }

    /// What queries must not miss of what it knows.
    #[must_use]
    pub fn prepared(&self) -> Prepared {
        self.prepared.clone()
    }

    /// Whether it may speak in this epoch. Until then nothing is to be read.
    #[must_use]
    pub const fn may_speak(&self) -> bool {
        self.may_speak
    }

    /// Whether there is something to do without waiting; `is_reading`: of what peers sent, too.
    #[must_use]
    pub fn is_late(&self, is_reading: bool) -> bool {
        !self.to_check.is_empty()
            || is_reading && !self.inbound.is_empty()
            || self.barrier.as_ref().is_some_and(Barrier::has_news)
    }

    /// Entries that are not durable yet.
    #[must_use]
    pub fn lag_entries(&self) -> u64 {
        self.barrier.as_ref().map_or(0, Barrier::lag_entries)
    }

    /// Whether so much waits for the disk that nothing more is to be read.
    #[must_use]
    pub fn waits_for_disk(&self) -> bool {
        self.barrier.as_ref().is_some_and(|barrier| {
            barrier.log().is_behind() || barrier.waiting_bytes() > self.limits.disk_queue_bytes
        })
    }

    /// A round begins, at this time of the driver's clock.
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
        self.release(driver)
    }

    /// The replica tells it something.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn on_replica(&mut self, told: ToPillar, driver: &mut impl Driver) -> Result<(), Halt> {
        match told {
            ToPillar::Input(input) => self.step(CoreEvent::Input(*input), driver),
            ToPillar::Check(envelopes) => {
                self.to_check.extend(envelopes);
                Ok(())
            }
            ToPillar::Epoch(next) => self.begin_epoch(*next, driver),
            ToPillar::Speak => self.speak(driver),
        }
    }

    /// A client says something to the protocol. Clients of a replica with pillars do so only to the
    /// replica; this is for a core that has the whole order, and executes elsewhere.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn on_client(
        &mut self,
        client: ClientId,
        message: &Bytes,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        let said = self.engine.open_client(client, message);
        said.map_or(Ok(()), |event| self.step(event, driver))
    }

    /// Checks some of what clients sent: a client that sends much takes little time of a round.
    pub fn check(&mut self) {
        let some = self.to_check.len().min(CHECKED_IN_A_ROUND);
        if some > 0 {
            let envelopes = self.to_check.drain(..some).collect();
            let Engine { verifier, epoch, .. } = &self.engine;
            self.saying.push(FromPillar::Checked(Checked::by(&**verifier, *epoch, envelopes)));
        }
    }

    /// See [`Machine::on_peer`](crate::Machine::on_peer).
    pub fn on_peer(&mut self, peer: MemberId, messages: impl Iterator<Item = Bytes>, is_new: bool) {
        self.inbound.take(peer, messages, is_new);
    }

    /// Whether messages of a peer wait, so that no more of it are to be read.
    #[must_use]
    pub fn has_waiting(&self, peer: MemberId) -> bool {
        self.inbound.has(peer)
    }

    /// Gives every peer its share of the round.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn deliver_peers(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        let mut inbound = std::mem::take(&mut self.inbound);
        let forgers = inbound.deliver(
            &mut (&mut *self, &mut *driver),
            |(_, driver)| driver.elapsed(),
            |(pillar, driver), peer, bytes| pillar.open_peer(peer, bytes, &mut **driver),
        );
        self.inbound = inbound;
        forgers?.into_iter().for_each(|peer| driver.pause_peer(peer));
        for (peer, epoch) in std::mem::take(&mut self.other_epochs) {
            self.saying.push(FromPillar::OtherEpoch(peer, epoch));
        }
        Ok(())
    }

    /// A timer ran out.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn on_timeout(&mut self, timer: TimerKey, driver: &mut impl Driver) -> Result<(), Halt> {
        self.step(CoreEvent::Timeout(timer), driver)
    }

    /// All that came in this round was told, at this time of day. If `happened`, or if the last
    /// time is long enough ago, the core is told so.
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
        }
        self.release(driver)?;
        if self.lag_entries() > 0 {
            // All that waits in this round, with one sync, and what other threads have for it.
            self.barrier.iter_mut().for_each(|barrier| barrier.log_mut().write());
        }
        Ok(())
    }

    /// What it has to say to the replica, to be taken out.
    pub const fn saying(&mut self) -> &mut Vec<FromPillar> {
        &mut self.saying
    }

    /// What it and its links have counted.
    #[must_use]
    pub fn report(&self, links: &LinkReport) -> Report {
        let mut report = Report::new(&self.engine, links, &self.inbound);
        report.lag_entries = self.lag_entries();
        report.waiting_messages =
            self.barrier.as_ref().map_or(0, |barrier| barrier.waiting_messages() as u64);
        report
    }

    fn begin_epoch(&mut self, next: NextEpoch, driver: &mut impl Driver) -> Result<(), Halt> {
        let NextEpoch { membership, verifier, started } = next;
        self.engine.authenticator.begin_epoch(&membership).map_err(Halt::Counter)?;
        if let Some(barrier) = &mut self.barrier {
            barrier.log_mut().begin_epoch(membership.epoch);
            barrier.begin_epoch();
        }
        self.engine.begin_epoch(&membership, verifier, started.core, driver);
        self.engine.effects = started.effects;
        let places = &self.engine.places;
        self.inbound.retain(|member| places.replica(member).is_some());
        self.may_speak = false;
        Ok(())
    }

    /// Carries out what the core asked for when it was started.
    fn speak(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        self.may_speak = true;
        self.carry_out(driver)?;
        self.drain(driver)
    }

    /// Carries out what waited for the disk, as far as it has come.
    fn release(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        let Some(barrier) = &mut self.barrier else { return Ok(()) };
        barrier.look()?;
        if !self.may_speak {
            return Ok(());
        }
        while let Some(effect) = self.barrier.as_mut().and_then(Barrier::next_message) {
            self.carry(effect, driver)?;
            self.drain(driver)?;
        }
        Ok(())
    }

    fn open_peer(
        &mut self,
        peer: MemberId,
        bytes: &Bytes,
        driver: &mut impl Driver,
    ) -> Result<Heard, Halt> {
        if bytes.first() != Some(&PROTOCOL) {
            return Ok(self.engine.refuse(peer, bytes, Reject::Malformed, driver));
        }
        match self.engine.open(peer, bytes, driver) {
            Opened::Message(incoming) => {
                self.seen.note(self.engine.epoch, &incoming);
                self.step(CoreEvent::Message(incoming), driver)?;
                Ok(Heard::Taken)
            }
            Opened::OtherEpoch(epoch) => {
                let known = self.other_epochs.entry(peer).or_insert(epoch);
                *known = epoch.max(*known);
                Ok(Heard::Taken)
            }
            Opened::Nothing(heard) => Ok(heard),
        }
    }

    /// Delivers one event, and everything that the core then says to itself. Before it may speak
    /// none is: it is lost, as any message may be.
    fn step(&mut self, event: CoreEvent, driver: &mut impl Driver) -> Result<(), Halt> {
        if !self.may_speak {
            return Ok(());
        }
        self.engine.take(event);
        self.carry_out(driver)?;
        self.drain(driver)
    }

    fn drain(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        while let Some(event) = self.engine.next_inward() {
            self.engine.take(event);
            self.carry_out(driver)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        self.prepared.set(self.engine.core.reads_from());
        let mut effects = std::mem::take(&mut self.engine.effects);
        let result = effects.drain(..).try_for_each(|effect| self.effect(effect, driver));
        self.engine.effects = effects;
        result
    }

    /// Carries out an effect of its core, which waits for the disk if it must.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn effect(&mut self, effect: CoreEffect, driver: &mut impl Driver) -> Result<(), Halt> {
        self.engine.counters.records += u64::from(matches!(effect, CoreEffect::Persist(_)));
        let effect = match &mut self.barrier {
            Some(barrier) => barrier.hold(effect)?,
            None => Some(effect),
        };
        effect.map_or(Ok(()), |effect| self.carry(effect, driver))
    }

    /// Carries out what waits for nothing.
    fn carry(&mut self, effect: CoreEffect, driver: &mut impl Driver) -> Result<(), Halt> {
        let Self { engine, barrier, .. } = self;
        let Some(output) = engine.carry(effect, barrier.as_mut(), driver)? else { return Ok(()) };
        match (output, barrier) {
            (Output::Pillar(Compacting { is_done: false, .. }), Some(barrier)) => {
                let memories = engine.authenticator.memories();
                self.keeps_from = barrier.compact(None, memories, engine.taken)?;
            }
            (Output::Pillar(Compacting { .. }), _) => {
                self.saying.push(FromPillar::KeptAgain(engine.epoch, self.keeps_from));
            }
            (output, _) => {
                self.saying.push(FromPillar::Output(engine.epoch, Box::new(output)));
            }
        }
        Ok(())
    }
}
