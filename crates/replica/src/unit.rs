//! What becomes of the core's outputs: execution, transfer of state, epochs.

use crate::admission::answer;
use crate::cache::Cache;
use crate::divergence::Divergence;
use crate::epochs::{EPOCHS, Succession};
use crate::error::Fatal;
use crate::fault::{Fault, other_state};
use crate::inbound::Heard;
use crate::keeper::Keeper;
use crate::meter::Meter;
use crate::network::Network;
use crate::others::Others;
use crate::pillars::pillar::{Said, Told};
use crate::pillars::prepared::Prepared;
use crate::resuming::{RESUMING, Resuming};
use crate::speaker::{Opened, PROTOCOL, Speaker};
use crate::spooling::Spooling;
use bytes::Bytes;
use pentarchy_core::erased::{CoreEffect, CoreEvent};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, Slot};
use pentarchy_core::limits::TRANSFER_CHUNKS_IN_FLIGHT;
use pentarchy_core::membership::Base;
use pentarchy_core::ports::client::{Place, Reply, ToClient};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::Reject;
use pentarchy_core::reads::Reads;
use pentarchy_core::request::Envelope;
use pentarchy_core::sessions::Lookup;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::{self, Step, Transfer};
use pentarchy_core::wire::Wire;
use pentarchy_storage::kept::Then;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tracing::{error, info};

/// First byte of a peer's message: a [`transfer::Message`] follows.
const TRANSFER: u8 = 1;

/// The deterministic part of a replica, with what speaks for it.
pub struct Unit {
    pub speaker: Speaker,
    pub executor: Executor,
    pub transfer: Transfer,
    /// Where states are that are not in memory, until they are in files.
    pub spooling: Option<Spooling>,
    pub meter: Meter,
    pub succession: Succession,
    /// Where this epoch ended for the executor, until the next one begins.
    pub ended: Option<Base>,
    /// What it keeps across a crash, if anything.
    pub keeper: Option<Keeper>,
    pub divergence: Divergence,
    /// What it asks before it speaks, and what it tells others who ask that.
    pub resuming: Resuming,
    /// What it keeps for its next life, if that is all.
    pub cache: Option<Cache>,
    /// What it has seen of the others, for operators.
    pub others: Others,
    steps: Vec<Step>,
    /// Questions about state that each peer asked in this round.
    asked: BTreeMap<ReplicaId, usize>,
    /// Whether the core is in parts, of which the speaker has the stage.
    pub is_split: bool,
    /// What pillars with threads of their own are to be told.
    pub telling: Vec<(u8, Told)>,
    /// Queries that wait until something is executed.
    pub reads: Reads<ClientId>,
    /// What queries must not miss of pillars with threads of their own.
    prepared: Vec<Prepared>,
}

/// What a [`Unit`] is made of.
pub struct UnitParts {
    pub speaker: Speaker,
    pub executor: Executor,
    pub transfer: Transfer,
    pub spooling: Option<Spooling>,
    pub succession: Succession,
    pub keeper: Option<Keeper>,
    pub cache: Option<Cache>,
    pub resuming: Resuming,
    /// See [`Unit::is_split`].
    pub is_split: bool,
    /// Of each pillar with a thread of its own.
    pub prepared: Vec<Prepared>,
}

impl Unit {
    /// The first effects wait for [`Self::begin`].
    pub fn new(parts: UnitParts) -> Self {
        let base = parts.succession.epochs.membership().base;
        Self {
            speaker: parts.speaker,
            executor: parts.executor,
            transfer: parts.transfer,
            spooling: parts.spooling,
            meter: Meter::default(),
            succession: parts.succession,
            ended: None,
            keeper: parts.keeper,
            divergence: Divergence::default(),
            resuming: parts.resuming,
            cache: parts.cache,
            others: Others::default(),
            steps: Vec::new(),
            asked: BTreeMap::new(),
            is_split: parts.is_split,
            telling: Vec::new(),
            reads: Reads::new(base.slot),
            prepared: parts.prepared,
        }
    }

    /// Carries out what the core asked for when it was started. So do pillars.
    pub fn begin(&mut self, network: &mut Network) -> Result<(), Fatal> {
        if self.is_split {
            let pillars = self.succession.epochs.membership().lane.pillars;
            self.telling.extend((0..pillars).map(|pillar| (pillar, Told::Speak)));
        }
        self.carry_out(network)?;
        self.drain(network)
    }

    /// The slot that must be executed before a query is answered that arrives now.
    pub fn reads_from(&self) -> Slot {
        let of_pillars = self.prepared.iter().map(Prepared::get).max().unwrap_or_default();
        self.speaker.core.reads_from().max(of_pillars)
    }

    /// Begins, once it may speak.
    pub fn start(&mut self, network: &mut Network) -> Result<(), Fatal> {
        self.resuming.begin(self.succession.epochs.is_admitted(), self.speaker.now_ms);
        if self.is_resuming() { Ok(()) } else { self.begin_process(network) }
    }

    /// Carries out what the core asked for when the process was started. It may have stopped just
    /// when its epoch had come to an end.
    pub fn begin_process(&mut self, network: &mut Network) -> Result<(), Fatal> {
        // A state of an earlier life binds nobody.
        if self.executor.is_ending() && self.keeper.is_some() {
            self.on_ended(network)?;
        }
        self.begin(network)
    }

    /// The clock by which timers are armed and the transfer waits, from now on.
    pub const fn set_now(&mut self, now_ms: u64) {
        self.speaker.now_ms = now_ms;
    }

    /// Takes a peer's message.
    pub fn on_peer(
        &mut self,
        peer: ReplicaId,
        bytes: &Bytes,
        network: &mut Network,
    ) -> Result<Heard, Fatal> {
        self.others.on_message(peer, self.speaker.now_ms);
        let refused = match bytes.first() {
            // Those of pillars come to them.
            Some(&PROTOCOL) if !self.is_split => {
                return match self.speaker.open(peer, bytes, network) {
                    Opened::Message(incoming) => {
                        self.resuming.seen.note(self.speaker.epoch, &incoming);
                        self.step(CoreEvent::Message(incoming), network)?;
                        Ok(Heard::Taken)
                    }
                    Opened::OtherEpoch(epoch) => {
                        self.on_other_epoch(peer, epoch, network);
                        Ok(Heard::Taken)
                    }
                    Opened::Nothing(heard) => Ok(heard),
                };
            }
            Some(&RESUMING) => {
                network.messages.came("resuming", bytes.len());
                self.on_resuming(peer, &bytes.slice(1..), network)?;
                return Ok(Heard::Taken);
            }
            Some(&EPOCHS) => {
                network.messages.came("epochs", bytes.len());
                self.on_epochs(peer, &bytes.slice(1..), network)?;
                return Ok(Heard::Taken);
            }
            Some(&TRANSFER) => match transfer::Message::from_bytes(&bytes.slice(1..)) {
                Ok(message) => {
                    network.messages.came("transfer", bytes.len());
                    self.on_transfer(peer, message, network)?;
                    return Ok(Heard::Taken);
                }
                Err(_) => Reject::Malformed,
            },
            _ => Reject::Malformed,
        };
        Ok(self.speaker.refuse(peer, bytes, refused, network))
    }

    /// A pillar with a thread of its own says something. What it said in another epoch is gone.
    pub fn on_pillar(
        &mut self,
        pillar: u8,
        said: Said,
        network: &mut Network,
    ) -> Result<(), Fatal> {
        match said {
            Said::Output(epoch, output) if epoch == self.speaker.epoch => {
                self.step(CoreEvent::Input(Input::OfPillar { pillar, output }), network)
            }
            Said::OtherEpoch(peer, epoch) => {
                self.on_other_epoch(peer, epoch, network);
                self.begin_epoch(network)
            }
            Said::KeptAgain(epoch, begins) if epoch == self.speaker.epoch => {
                self.on_kept_again(pillar, begins)
            }
            Said::Checked(_) | Said::Output(..) | Said::KeptAgain(..) => Ok(()),
        }
    }

    /// Delivers one event, and everything that the core then says to itself. Before it has resumed
    /// none is: it is lost, as any message may be.
    pub fn step(&mut self, event: CoreEvent, network: &mut Network) -> Result<(), Fatal> {
        if self.is_resuming() {
            return Ok(());
        }
        self.deliver(event, network)?;
        self.drain(network)?;
        self.begin_epoch(network)
    }

    pub fn drain(&mut self, network: &mut Network) -> Result<(), Fatal> {
        if self.is_resuming() {
            return Ok(());
        }
        while let Some(event) = self.speaker.next_inward() {
            self.deliver(event, network)?;
        }
        Ok(())
    }

    fn deliver(&mut self, event: CoreEvent, network: &mut Network) -> Result<(), Fatal> {
        self.speaker.take(event);
        self.carry_out(network)
    }

    fn carry_out(&mut self, network: &mut Network) -> Result<(), Fatal> {
        let mut effects = std::mem::take(&mut self.speaker.effects);
        let result = effects.drain(..).try_for_each(|effect| self.effect(effect, network));
        self.speaker.effects = effects;
        result?;
        Ok(self.keeper.as_mut().map_or(Ok(()), |keeper| keeper.end_of_step())?)
    }

    fn effect(&mut self, effect: CoreEffect, network: &mut Network) -> Result<(), Fatal> {
        network.counters.records += u64::from(matches!(effect, CoreEffect::Persist(_)));
        let effect = match &mut self.keeper {
            Some(keeper) => keeper.barrier_mut().hold(effect)?,
            None => Some(effect),
        };
        effect.map_or(Ok(()), |effect| self.carry(effect, network))
    }

    /// Carries out what waits for nothing.
    pub fn carry(&mut self, effect: CoreEffect, network: &mut Network) -> Result<(), Fatal> {
        let barrier = self.keeper.as_mut().map(|keeper| keeper.barrier_mut());
        match self.speaker.carry(effect, barrier, network)? {
            Some(output) => self.output(output, network),
            None => Ok(()),
        }
    }

    fn output(&mut self, output: Output, network: &mut Network) -> Result<(), Fatal> {
        match output {
            Output::Admit { envelope } => {
                let settled = self.settled(&envelope).map(|reply| reply.number).collect();
                let request = request(envelope, settled, true);
                self.speaker.inward.extend(request.map(CoreEvent::Input));
            }
            Output::Full { envelope } => self.refuse(&envelope, network),
            // Nothing is executed behind the end of an epoch, whatever its core still orders.
            Output::Execute { .. }
            | Output::Checkpoint { .. }
            | Output::Stable { .. }
            | Output::Fetch { .. }
            | Output::Speculate { .. }
            | Output::Answer { .. }
            | Output::Commit { .. }
            | Output::Rollback { .. }
                if self.ended.is_some() => {}
            output if self.keeper.as_ref().is_some_and(|keeper| keeper.drops(&output)) => {}
            Output::Resumed { upto } => self.reads.resume(upto),
            Output::Execute { slot, batch } => {
                let begun = Instant::now();
                let telling = self.telling(network);
                let notify = |client: &ClientId, notice| {
                    network.notify_executed(client, notice, telling);
                };
                self.executor.execute(slot, &batch, notify);
                self.check_service()?;
                self.meter.executed(&batch, begun);
                self.keeper.iter_mut().for_each(|keeper| keeper.executed());
                if self.executor.is_ending() {
                    self.on_ended(network)?;
                }
            }
            Output::Speculate { answers, slot, batch, view, history } => {
                self.speculate(Place { view, slot, history }, &batch, answers, network)?;
            }
            Output::Answer { slot, view } => self.answer_late(slot, view, network),
            Output::Commit { upto } => self.commit(upto, network)?,
            Output::Rollback { after } => self.roll_back(after)?,
            Output::Restate { view } => self.restate(view, network),
            Output::Tell { client, message } => self.tell_client(client, message, network),
            Output::ToPillar { pillar, input } => self.telling.push((pillar, Told::Input(input))),
            // For whoever merges what this core orders, and for the host of a pillar.
            Output::Glance(_) | Output::Keeping { .. } => {}
            Output::Checkpoint { slot } => self.checkpoint(slot, network)?,
            Output::Stable { slot, state } => self.on_stable(slot, state)?,
            Output::Fetch { slot, state, from } => {
                let before = self.transfer.progress().map(|it| it.slot);
                self.transfer.want(slot, state, from, &self.executor, &mut self.steps);
                if self.transfer.progress().is_some_and(|it| Some(it.slot) != before) {
                    info!(%slot, "fetching the group's state");
                }
                self.carry_out_transfer(network)?;
            }
            Output::Entered { view, reason } => info!(%view, reason, "entered view"),
            Output::Diverged { slot, mine, theirs } => {
                network.counters.diverged += 1;
                error!(%slot, %mine, %theirs, "this replica's state differs from the group's");
                self.divergence.begin(self.executor.snapshot(slot));
            }
        }
        Ok(())
    }

    fn checkpoint(&mut self, slot: Slot, network: &mut Network) -> Result<(), Fatal> {
        debug_assert_eq!(slot, self.executor.executed(), "execution is in step with the core");
        let mut state = self.executor.checkpoint();
        self.check_service()?;
        if self.speaker.fault == Fault::Equivocate {
            state = other_state(state);
        }
        self.when_saved(Then::Checkpointed { slot, state }, network)
    }

    /// Tells a client that there is no room for its envelope now, and does not listen to it for a
    /// moment.
    pub fn refuse(&self, envelope: &Envelope, network: &mut Network) {
        network.counters.client_busy += 1;
        let busy = ToClient::Busy { number: envelope.range().0 };
        answer(&envelope.client, &busy, self.speaker.now_ms, network);
        network.pause_client(&envelope.client, self.speaker.now_ms);
    }

    /// Whether nothing in the envelope is left to be ordered.
    pub fn is_settled(&self, envelope: &Envelope) -> bool {
        self.executor.lookups(envelope).all(|known| known != Lookup::New)
    }

    /// What is known of an envelope's requests that are settled.
    pub fn settled<'a>(&'a self, envelope: &'a Envelope) -> impl Iterator<Item = Reply> + 'a {
        let known = envelope.requests.iter().zip(self.executor.lookups(envelope));
        known.filter_map(|(request, known)| match known {
            Lookup::New => None,
            Lookup::Settled(outcome) => Some(Reply { number: request.number, outcome }),
        })
    }

    fn on_transfer(
        &mut self,
        peer: ReplicaId,
        message: transfer::Message,
        network: &mut Network,
    ) -> Result<(), Fatal> {
        if self.is_resuming() {
            return Ok(());
        }
        if message.is_question() && !self.may_ask(peer, network) {
            network.counters.transfer_dropped += 1;
            return Ok(());
        }
        self.transfer.on_message(peer, message, &self.executor, &mut self.steps);
        self.carry_out_transfer(network)?;
        self.drain(network)?;
        self.begin_epoch(network)
    }

    /// Whether a peer's question about state is answered. Who keeps to the protocol never has more
    /// of them under way than are answered in a round.
    fn may_ask(&mut self, peer: ReplicaId, network: &mut Network) -> bool {
        let asked = self.asked.entry(peer).or_default();
        *asked += 1;
        *asked <= TRANSFER_CHUNKS_IN_FLIGHT
            && network.peer_queued_bytes(peer) <= network.limits().transfer_queue_bytes
    }

    /// The round is over: time has passed for epochs and for the transfer of state. `now` is the
    /// time of day.
    pub fn on_round(&mut self, now: Millis, network: &mut Network) -> Result<(), Fatal> {
        self.check_service()?;
        self.cool_cached();
        self.on_succession_round(now, network)?;
        self.asked.clear();
        self.transfer.on_round(Millis(self.speaker.now_ms), &mut self.steps);
        self.carry_out_transfer(network)?;
        self.drain(network)?;
        self.begin_epoch(network)
    }

    /// Whether the service can go on. If not, nothing leaves this replica that came of it.
    pub fn check_service(&self) -> Result<(), Fatal> {
        self.executor.failure().map_or(Ok(()), |failure| Err(Fatal::Service(failure)))
    }

    fn carry_out_transfer(&mut self, network: &mut Network) -> Result<(), Fatal> {
        let mut steps = std::mem::take(&mut self.steps);
        let result = steps.drain(..).try_for_each(|step| match step {
            Step::Send { to, message } => {
                network.send_peer(to, "transfer", |to| {
                    to.u8(TRANSFER);
                    message.encode(to);
                });
                Ok(())
            }
            Step::Install(snapshot) => self.install(snapshot, network),
        });
        self.steps = steps;
        result
    }

    fn install(&mut self, snapshot: Snapshot, network: &mut Network) -> Result<(), Fatal> {
        let slot = snapshot.slot;
        self.divergence.compare(&snapshot);
        let installed = self.executor.install(snapshot);
        self.check_service()?;
        installed.map_err(|_| Fatal::Install(slot))?;
        info!(%slot, "installed the group's state");
        self.when_saved(Then::Installed { slot }, network)?;
        // It may be the one with which the epoch ends, or one before that which was wrong here.
        self.ended = None;
        if self.executor.is_ending() {
            self.on_ended(network)?;
        }
        Ok(())
    }
}

/// An envelope for the core, unless all of it is settled.
pub fn request(envelope: Arc<Envelope>, settled: Vec<u64>, passed_on: bool) -> Option<Input> {
    let is_new = settled.len() < envelope.requests.len();
    is_new.then_some(Input::Request { envelope, settled, passed_on })
}
