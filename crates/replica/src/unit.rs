//! The core, and what becomes of its effects.

use crate::admission::answer;
use crate::cache::Cache;
use crate::counters::Rejects;
use crate::divergence::Divergence;
use crate::epochs::{EPOCHS, Succession};
use crate::error::Fatal;
use crate::fault::{Fault, other_state, some_of};
use crate::inbound::Heard;
use crate::keeper::Keeper;
use crate::meter::Meter;
use crate::network::{Kind, Network};
use crate::resuming::{RESUMING, Resuming};
use crate::spooling::Spooling;
use crate::timers::Timers;
use bytes::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::erased::{CoreEffect, CoreEvent, Incoming, Outgoing, ReplicaCore};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Epoch, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::TRANSFER_CHUNKS_IN_FLIGHT;
use pentarchy_core::membership::Base;
use pentarchy_core::ports::client::{Place, Reply, ToClient};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Evidence, Reject, Timeouts, To};
use pentarchy_core::request::Envelope;
use pentarchy_core::sessions::Lookup;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::{self, Step, Transfer};
use pentarchy_core::wire::{Reader, Wire};
use pentarchy_crypto::authenticator::Authenticator;
use pentarchy_storage::kept::Then;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use tracing::{error, info, warn};

/// First byte of a peer's message: bytes for [`ReplicaCore::open`] follow.
const PROTOCOL: u8 = 0;
/// First byte of a peer's message: a [`transfer::Message`] follows.
const TRANSFER: u8 = 1;

/// What a protocol message is.
enum Opened {
    /// For the core.
    Message(Incoming),
    /// Nothing would follow from it, so it was not checked.
    Moot,
    /// For the core of another epoch.
    OtherEpoch,
}

/// The deterministic part of a replica with its keys and its timers.
pub struct Unit {
    pub core: Box<dyn ReplicaCore>,
    pub executor: Executor,
    pub transfer: Transfer,
    /// Where states are that are not in memory, until they are in files.
    pub spooling: Option<Spooling>,
    pub timers: Timers,
    pub rejects: Rejects,
    pub meter: Meter,
    pub verifier: Arc<dyn Verifier>,
    pub succession: Succession,
    /// Where this epoch ended for the executor, until the next one begins.
    pub ended: Option<Base>,
    pub authenticator: Authenticator,
    /// What it keeps across a crash, if anything.
    pub keeper: Option<Keeper>,
    pub divergence: Divergence,
    /// What it asks before it speaks, and what it tells others who ask that.
    pub resuming: Resuming,
    /// What it keeps for its next life, if that is all.
    pub cache: Option<Cache>,
    timeouts: Timeouts,
    pub me: ReplicaId,
    pub others: ReplicaSet,
    /// What the core sent to itself and what it is answered, in order. Delivered before anything
    /// from outside.
    pub inward: VecDeque<CoreEvent>,
    /// Events that were taken out there.
    pub taken: u64,
    pub effects: Vec<CoreEffect>,
    steps: Vec<Step>,
    /// Questions about state that each peer asked in this round.
    asked: BTreeMap<ReplicaId, usize>,
    /// How this replica misbehaves on command.
    pub fault: Fault,
    /// Queries are answered once this slot is executed.
    pub answers_from: Slot,
    /// Certified statements since it equivocates.
    turn: u64,
    /// The process's clock at the start of the round.
    pub now_ms: u64,
}

/// What a [`Unit`] is made of.
pub struct UnitParts {
    pub core: Box<dyn ReplicaCore>,
    pub executor: Executor,
    pub transfer: Transfer,
    pub spooling: Option<Spooling>,
    pub verifier: Arc<dyn Verifier>,
    pub succession: Succession,
    pub authenticator: Authenticator,
    pub keeper: Option<Keeper>,
    pub cache: Option<Cache>,
    pub timeouts: Timeouts,
    pub me: ReplicaId,
    pub others: ReplicaSet,
    /// Whether it goes on from what it had kept.
    pub resumes: bool,
    /// What the core asked for when it was started.
    pub effects: Vec<CoreEffect>,
}

impl Unit {
    /// The first effects wait for [`Self::begin`].
    pub fn new(parts: UnitParts) -> Self {
        let me = parts.me;
        Self {
            core: parts.core,
            executor: parts.executor,
            transfer: parts.transfer,
            spooling: parts.spooling,
            timers: Timers::default(),
            rejects: Rejects::default(),
            meter: Meter::default(),
            verifier: parts.verifier,
            succession: parts.succession,
            ended: None,
            authenticator: parts.authenticator,
            keeper: parts.keeper,
            divergence: Divergence::default(),
            resuming: Resuming::new(parts.resumes),
            cache: parts.cache,
            timeouts: parts.timeouts,
            me,
            others: parts.others,
            inward: VecDeque::new(),
            taken: 0,
            effects: parts.effects,
            steps: Vec::new(),
            asked: BTreeMap::new(),
            fault: Fault::None,
            answers_from: Slot(0),
            turn: 0,
            now_ms: 0,
        }
    }

    /// Carries out what the core asked for when it was started.
    pub fn begin(&mut self, network: &mut Network) -> Result<(), Fatal> {
        self.carry_out(network)?;
        self.drain(network)
    }

    /// Begins, once it may speak.
    pub fn start(&mut self, network: &mut Network) -> Result<(), Fatal> {
        self.resuming.begin(self.succession.epochs.is_admitted(), self.now_ms);
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
        self.now_ms = now_ms;
    }

    /// Takes a peer's message.
    pub fn on_peer(
        &mut self,
        peer: ReplicaId,
        bytes: &Bytes,
        network: &mut Network,
    ) -> Result<Heard, Fatal> {
        let refused = match bytes.first() {
            Some(&PROTOCOL) => match self.open(peer, &bytes.slice(1..), network) {
                Ok(Opened::Message(incoming)) => {
                    self.resuming.note(&incoming);
                    network.messages.came(incoming.kind(), bytes.len());
                    self.step(CoreEvent::Message(incoming), network)?;
                    return Ok(Heard::Taken);
                }
                Ok(Opened::Moot) => {
                    network.messages.came("moot", bytes.len());
                    return Ok(Heard::Taken);
                }
                Ok(Opened::OtherEpoch) => {
                    network.messages.came("other_epoch", bytes.len());
                    return Ok(Heard::Taken);
                }
                Err(refused) => refused,
            },
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
        network.messages.came("refused", bytes.len());
        self.rejects.add(refused);
        let forged = refused == Reject::BadAuth && author(bytes) == Some(peer);
        Ok(if forged { Heard::Forged } else { Heard::Taken })
    }

    /// Opens a protocol message.
    fn open(
        &mut self,
        peer: ReplicaId,
        bytes: &Bytes,
        network: &mut Network,
    ) -> Result<Opened, Reject> {
        let mut reader = Reader::new(bytes);
        let epoch = Epoch::decode(&mut reader).map_err(|_| Reject::Malformed)?;
        if epoch == self.succession.epoch() {
            let opened = self.core.open_new(&*self.verifier, peer, &bytes.slice(8..))?;
            return Ok(opened.map_or(Opened::Moot, Opened::Message));
        }
        self.on_other_epoch(peer, epoch, network);
        Ok(Opened::OtherEpoch)
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
        while let Some(event) = self.inward.pop_front() {
            self.taken += 1;
            self.deliver(event, network)?;
        }
        Ok(())
    }

    fn deliver(&mut self, event: CoreEvent, network: &mut Network) -> Result<(), Fatal> {
        self.core.step(event, &mut self.effects);
        if cfg!(debug_assertions) {
            self.core.assert_invariants();
        }
        self.carry_out(network)
    }

    fn carry_out(&mut self, network: &mut Network) -> Result<(), Fatal> {
        let mut effects = std::mem::take(&mut self.effects);
        let result = effects.drain(..).try_for_each(|effect| self.effect(effect, network));
        self.effects = effects;
        result?;
        Ok(self.keeper.as_mut().map_or(Ok(()), |keeper| keeper.end_of_step())?)
    }

    fn effect(&mut self, effect: CoreEffect, network: &mut Network) -> Result<(), Fatal> {
        network.counters.records += u64::from(matches!(effect, CoreEffect::Persist(_)));
        let effect = match &mut self.keeper {
            Some(keeper) => keeper.hold(effect)?,
            None => Some(effect),
        };
        effect.map_or(Ok(()), |effect| self.carry(effect, network))
    }

    /// Carries out what waits for nothing.
    pub fn carry(&mut self, effect: CoreEffect, network: &mut Network) -> Result<(), Fatal> {
        match effect {
            CoreEffect::Send { to, outgoing } => self.send(to, &outgoing, network)?,
            CoreEffect::Relay { to, wire, kind } => {
                self.relay(to, kind, &wire, network);
                self.relay_to_itself(to, &wire);
            }
            // Nothing outlives the process; see the crate's documentation.
            CoreEffect::Persist(_) => {}
            CoreEffect::Arm { timer, after } => {
                self.timers.arm(timer, self.now_ms + self.timeouts.millis(after));
            }
            CoreEffect::Disarm(timer) => self.timers.disarm(timer),
            CoreEffect::Output(output) => self.output(output, network)?,
            CoreEffect::Report(Evidence { author, finding }) => {
                network.counters.findings += 1;
                *network.counters.findings_about.entry(author.0).or_default() += 1;
                warn!(about = %author, ?finding, "finding");
            }
        }
        Ok(())
    }

    fn receivers(&self, to: To) -> ReplicaSet {
        match to {
            To::One(id) => ReplicaSet::from_iter([id]),
            To::Others => self.others,
            To::All => {
                let mut all = self.others;
                all.insert(self.me);
                all
            }
            To::Set(set) => set,
        }
    }

    fn send(&mut self, to: To, outgoing: &Outgoing, network: &mut Network) -> Result<(), Fatal> {
        let tag = match self.said_before(outgoing) {
            Some(ui) => AuthTag::Usig(ui),
            None => {
                self.authenticator.tag(&outgoing.auth, &outgoing.digest).map_err(Fatal::Counter)?
            }
        };
        let ui = tag.ui().copied();
        let (wire, incoming) = self.core.seal(outgoing, tag);
        self.check_own(outgoing.kind, &wire);
        let receivers = self.receivers(to);
        if receivers.contains(self.me) {
            if let (Some(keeper), Some(ui)) = (&mut self.keeper, ui) {
                keeper.loops(self.taken + self.inward.len() as u64, ui, outgoing.digest);
            }
            self.inward.push_back(CoreEvent::Message(incoming));
        }
        let is_certified = matches!(outgoing.auth, Auth::Usig(..));
        let shown = if self.fault == Fault::Equivocate && is_certified {
            self.turn += 1;
            some_of(receivers, self.turn)
        } else {
            receivers
        };
        self.relay(To::Set(shown), outgoing.kind, &wire, network);
        Ok(())
    }

    /// Others check what this replica shows in a view change. If it would not pass, no view would
    /// begin, and nobody could say why: debug builds look at once.
    fn check_own(&self, kind: Kind, wire: &Bytes) {
        let shows = matches!(kind, "view_change" | "new_view") && self.fault == Fault::None;
        if cfg!(debug_assertions) && shows {
            let opened = self.core.open(&*self.verifier, self.me, wire);
            assert!(opened.is_ok(), "this replica's {kind} is refused: {:?}", opened.err());
        }
    }

    /// Queues bytes for the other replicas among the receivers.
    fn relay(&self, to: To, kind: Kind, wire: &Bytes, network: &mut Network) {
        let mut receivers = self.receivers(to);
        receivers.remove(self.me);
        for peer in receivers.iter() {
            network.send_peer(peer, kind, |to| {
                to.u8(PROTOCOL);
                self.succession.epoch().encode(to);
                to.array(wire);
            });
        }
    }

    /// What this replica had said before a crash comes back to it as what it says now does.
    fn relay_to_itself(&mut self, to: To, wire: &Bytes) {
        if self.receivers(to).contains(self.me) {
            match self.core.open(&*self.verifier, self.me, wire) {
                Ok(incoming) => self.inward.push_back(CoreEvent::Message(incoming)),
                Err(why) => self.rejects.add(why),
            }
        }
    }

    fn output(&mut self, output: Output, network: &mut Network) -> Result<(), Fatal> {
        match output {
            Output::Admit { envelope } => {
                let settled = self.settled(&envelope).map(|reply| reply.number).collect();
                let request = request(envelope, settled, true);
                self.inward.extend(request.map(CoreEvent::Input));
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
            Output::Resumed { upto } => self.answers_from = self.answers_from.max(upto),
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
            // What pillars and their merge say to each other is settled inside of the core.
            Output::Glance(_) | Output::ToPillar { .. } => {}
            Output::Checkpoint { slot } => {
                let mut state = self.executor.checkpoint();
                self.check_service()?;
                if self.fault == Fault::Equivocate {
                    state = other_state(state);
                }
                self.when_saved(Then::Checkpointed { slot, state }, network)?;
            }
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

    /// Tells a client that there is no room for its envelope now, and does not listen to it for a
    /// moment.
    pub fn refuse(&self, envelope: &Envelope, network: &mut Network) {
        network.counters.client_busy += 1;
        let busy = ToClient::Busy { number: envelope.range().0 };
        answer(&envelope.client, &busy, self.now_ms, network);
        network.pause_client(&envelope.client, self.now_ms);
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
        self.transfer.on_round(Millis(self.now_ms), &mut self.steps);
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

/// Who is said to be the author of a protocol message, behind its first byte and its epoch.
fn author(bytes: &Bytes) -> Option<ReplicaId> {
    let mut reader = Reader::new(bytes);
    reader.u8().ok()?;
    Epoch::decode(&mut reader).ok()?;
    ReplicaId::decode(&mut reader).ok()
}
