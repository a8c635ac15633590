//! One simulated replica: a core with the executor, the state transfer, the device and the keys
//! around it, as any host puts them. What it does comes out as a list of [`Act`]s; who carries them
//! out, and when, is the world's business, so the world and the trace runner share this file.

use crate::crypto::{Crypto, Keys};
use crate::devices::SimDevices;
use crate::service::Journal;
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::batch::Batch;
use pentarchy_core::counter::Counters;
use pentarchy_core::designated_replier::DesignatedReplier;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Epochs;
use pentarchy_core::erased::{CoreEffect, CoreEvent, Outgoing, ReplicaCore};
use pentarchy_core::executor::{Executor, Notice};
use pentarchy_core::ids::{ClientId, Epoch, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::REPLY_WHOLE_BYTES_MIN;
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::ports::client::{Place, Reply, ToClient, ToReplica};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Reject, TimerKey, To};
use pentarchy_core::reads::{Query, Reads};
use pentarchy_core::request::{Envelope, Request};
use pentarchy_core::service::Service;
use pentarchy_core::sessions::Lookup;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::{self, Transfer};
use pentarchy_core::wire::Wire;
use pentarchy_storage::kept::{Job, Then};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

mod acts;
mod durable;
mod epochs;
mod impostor;
mod kept;
mod leaving;
mod lies;
mod speculation;
mod usurp;

pub use acts::{Act, Address, Observation, Packet};
pub use epochs::{Beginning, NewCore};
pub use impostor::Impostor;
pub use kept::{Kept, Recovered};
pub use leaving::stands;
pub use lies::{Fault, Lying};
pub use usurp::Usurping;

/// Events that one event may cause inside one replica before something must be wrong.
const CHAIN_MAX: usize = 100_000;

/// A replica without a clock and without a network.
pub struct ReplicaNode {
    id: ReplicaId,
    others: ReplicaSet,
    core: Box<dyn ReplicaCore>,
    executor: Executor,
    transfer: Transfer,
    succession: epochs::Succession,
    device: SharedDevice,
    keys: Keys,
    clients: Arc<[ClientId]>,
    journal: Journal,
    faulty: Option<Fault>,
    /// What outlives a crash, if anything does.
    kept: Option<Kept>,
    /// Events that were taken out of the inbox.
    taken: u64,
    /// The slot of the state that it found on its disk when it started.
    started_at: Slot,
    /// Queries that wait until something is executed.
    reads: Reads<Address>,
    inbox: VecDeque<CoreEvent>,
    effects: Vec<CoreEffect>,
    steps: u64,
    /// The most messages of others that it passed on to one peer because of one message.
    relayed: usize,
    /// When it was asked last what it would show if it had to leave its view.
    asked: leaving::Asked,
}

/// A replica's devices; two copies of one replica may have the same ones.
pub type SharedDevice = Arc<Mutex<SimDevices>>;

/// What a replica node is made of.
pub struct Parts {
    /// Which replica.
    pub id: ReplicaId,
    /// The group as it began. It may not admit the life of the device: then there is a core that
    /// takes part in nothing, and the replica asks the group to admit it.
    pub membership: Arc<Membership>,
    /// The keys.
    pub crypto: Arc<Crypto>,
    /// The clients, by index.
    pub clients: Arc<[ClientId]>,
    /// The service in its initial state.
    pub service: Box<dyn Service>,
    /// What the service writes.
    pub journal: Journal,
    /// The core and its first effects.
    pub core: (Box<dyn ReplicaCore>, Vec<CoreEffect>),
    /// Its trusted counter.
    pub device: SharedDevice,
    /// Whether it is faulty, and how.
    pub faulty: Option<Fault>,
    /// Its disk, if it has one, with the state that it goes on from.
    pub kept: Option<Kept>,
}

impl ReplicaNode {
    /// Puts a replica together and carries out its first effects.
    #[must_use]
    pub fn new(parts: Parts, out: &mut Vec<Act>) -> Self {
        let Parts { id, membership, crypto, clients, service, journal, core, .. } = parts;
        let Parts { device, faulty, kept, .. } = parts;
        let (core, first) = core;
        let mut others: ReplicaSet = membership.ids().collect();
        others.remove(id);
        let incarnation = device.lock().expect("a device does not panic").incarnation();
        let life = Life { incarnation, device_key: [0; 32] };
        let following = match &kept {
            Some(kept) => kept.epochs(id, life),
            None => Epochs::new(id, life, membership.clone()),
        };
        let base = following.membership().base;
        let succession = epochs::Succession::new(following, life, membership.epoch);
        let mut executor = Executor::new(membership.clone(), service);
        if let Some((newest, earlier)) = kept.as_ref().and_then(|it| it.snapshots().split_last()) {
            executor.install(newest.clone()).expect("it was this service's state");
            executor.keep_earlier(earlier.iter().cloned());
        }
        let started_at = executor.executed();
        let mut node = Self {
            id,
            others,
            core,
            executor,
            started_at,
            transfer: Transfer::new(id),
            succession,
            device,
            keys: Keys { crypto, me: id, membership },
            clients,
            journal,
            faulty,
            kept,
            taken: 0,
            reads: Reads::new(base.slot),
            inbox: VecDeque::new(),
            effects: Vec::new(),
            steps: 0,
            relayed: 0,
            asked: leaving::Asked::default(),
        };
        if node.executor.is_ending() {
            node.on_ended(out);
        }
        first.into_iter().for_each(|effect| node.carry_out(effect, out));
        node.run(out);
        node
    }

    /// Brings the executor to where it was after these batches, in the slots from 1 on, of which
    /// so many are final. Those behind the last checkpoint stand in these places.
    pub fn replay<'a>(
        &mut self,
        log: impl Iterator<Item = &'a Arc<Batch>>,
        sure: usize,
        places: &[Place],
    ) {
        for (slot, batch) in (1..).map(Slot).zip(log) {
            match places.iter().find(|place| place.slot == slot) {
                Some(place) => drop(self.executor.speculate(*place, batch, true, |_, _| {})),
                None => self.executor.execute(slot, batch, |_, _| {}),
            }
        }
        self.executor.commit(Slot(sure as u64), |_, _| {});
    }

    /// Installs a state that came by another way than the transfer's messages.
    pub fn on_snapshot(&mut self, snapshot: Snapshot, out: &mut Vec<Act>) {
        self.install(snapshot, out);
        self.run(out);
    }

    /// Takes the replica apart again.
    #[must_use]
    pub fn into_parts(self) -> (Box<dyn ReplicaCore>, SharedDevice) {
        (self.core, self.device)
    }

    /// Its disk.
    pub const fn kept(&mut self) -> Option<&mut Kept> {
        self.kept.as_mut()
    }

    /// Takes the disk out of a replica that crashed.
    pub fn take_kept(&mut self) -> Option<Kept> {
        self.kept.take()
    }

    /// Whether its power has failed: it does nothing any more.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.kept.as_ref().is_some_and(Kept::is_dead)
    }

    /// The core, to look at.
    #[must_use]
    pub fn core(&self) -> &dyn ReplicaCore {
        &*self.core
    }

    /// The executor, to look at.
    #[must_use]
    pub const fn executor(&self) -> &Executor {
        &self.executor
    }

    /// The slot of the state that it found on its disk when it started.
    #[must_use]
    pub const fn started_at(&self) -> Slot {
        self.started_at
    }

    /// One line for traces about a message in its encoding.
    #[must_use]
    pub fn describe_wire(&self, wire: &Bytes) -> String {
        match self.core.open(&self.keys, self.id, wire) {
            Ok(incoming) => self.core.describe(&incoming),
            Err(why) => format!("{} bytes that are {}", wire.len(), why.name()),
        }
    }

    /// When it wants a round at the latest.
    #[must_use]
    pub fn wake_at(&self) -> Millis {
        let at = self.succession.epochs.wake_at();
        self.transfer.wake_at().map_or(at, |transfer| transfer.min(at))
    }

    /// Events that the core consumed.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The most messages of others that it has passed on to one peer, since this was asked last,
    /// because of one message that was no report.
    pub const fn take_relayed(&mut self) -> usize {
        core::mem::replace(&mut self.relayed, 0)
    }

    /// What the service ran since the last call.
    pub fn drain_journal(&self) -> Vec<(Slot, ClientId, u64)> {
        core::mem::take(&mut *self.journal.lock().expect("no panic while writing"))
    }

    /// The digest of the state as it is now. Takes a snapshot, so this is for the end of a run.
    pub fn state(&mut self) -> Digest {
        self.executor.checkpoint()
    }

    /// A job of the disk is done.
    pub fn on_disk(&mut self, job: Job, out: &mut Vec<Act>) {
        self.kept.iter_mut().for_each(|kept| kept.end(job));
        self.release(out);
    }

    /// A packet came.
    pub fn on_packet(&mut self, from: Address, packet: &Packet, out: &mut Vec<Act>) {
        let outcome = match (from, packet) {
            (Address::Replica(peer), Packet::Protocol(epoch, wire)) => {
                self.on_protocol(peer, *epoch, wire, out)
            }
            (Address::Replica(peer), Packet::Epochs(wire)) => self.on_epochs(peer, wire, out),
            (Address::Replica(peer), Packet::Transfer(wire)) => self.on_transfer(peer, wire, out),
            (Address::Client(_), Packet::ToReplica(wire)) => self.on_client(from, wire, out),
            _ => Err(Reject::WrongRole),
        };
        // Who is not admitted understands nothing of what the others say.
        if let Err(why) = outcome
            && self.succession.epochs.is_admitted()
        {
            out.push(Act::Saw(Observation::Rejected { from, why }));
        }
    }

    /// A timer ran out.
    pub fn on_timeout(&mut self, timer: TimerKey, out: &mut Vec<Act>) {
        self.feed(CoreEvent::Timeout(timer), out);
    }

    /// All that had arrived was delivered.
    pub fn on_round(&mut self, now: Millis, out: &mut Vec<Act>) {
        self.release(out);
        let mut steps = Vec::new();
        self.transfer.on_round(now, &mut steps);
        self.carry_out_transfer(steps, out);
        self.feed(CoreEvent::Input(Input::Round { now }), out);
        self.on_succession_round(now, out);
        self.lie(now, out);
        self.usurp(out);
        self.impersonate(out);
    }

    fn on_protocol(
        &mut self,
        peer: ReplicaId,
        epoch: Epoch,
        wire: &Bytes,
        out: &mut Vec<Act>,
    ) -> Result<(), Reject> {
        if !self.is_of_epoch(epoch) {
            self.on_other_epoch(peer, epoch, out);
            return Ok(());
        }
        let opened = self.core.open_new(&self.keys, peer, wire)?;
        self.overhear(wire);
        if let Some(incoming) = opened {
            self.feed(CoreEvent::Message(incoming), out);
        }
        Ok(())
    }

    fn on_transfer(
        &mut self,
        peer: ReplicaId,
        wire: &Bytes,
        out: &mut Vec<Act>,
    ) -> Result<(), Reject> {
        let message = transfer::Message::from_bytes(wire).map_err(|_| Reject::Malformed)?;
        let mut steps = Vec::new();
        self.transfer.on_message(peer, message, &self.executor, &mut steps);
        self.carry_out_transfer(steps, out);
        self.run(out);
        Ok(())
    }

    fn on_client(&mut self, from: Address, wire: &Bytes, out: &mut Vec<Act>) -> Result<(), Reject> {
        match ToReplica::from_bytes(wire).map_err(|_| Reject::Malformed)? {
            ToReplica::Request(envelope) => self.on_request(envelope, out),
            ToReplica::Query { number, operation } => {
                let query = Query { client: from, number, operation };
                let (must_have, state) = (self.core.reads_from(), self.executor.readable());
                if let Some(query) = self.reads.ask(query, must_have, state) {
                    self.answer_query(query, out);
                }
                Ok(())
            }
            ToReplica::Resume { from: number } => {
                if let Address::Client(index) = from
                    && let Some(client) = self.clients.get(usize::from(index))
                    && !self.executor.withholds_events(client)
                {
                    let events = self.executor.events(client, number);
                    out.push(Act::Send { to: from, packet: Packet::ToClient(events.to_bytes()) });
                }
                Ok(())
            }
            ToReplica::Status => Ok(()),
            ToReplica::Protocol(message) => {
                // What a client shows comes from replicas that may lie, or from an epoch that is
                // over; it cannot tell.
                if let Ok(incoming) = self.core.open_client(&self.keys, &message)
                    && let Address::Client(index) = from
                    && let Some(client) = self.clients.get(usize::from(index))
                {
                    self.feed(CoreEvent::Client(*client, incoming), out);
                }
                Ok(())
            }
        }
    }

    fn on_request(&mut self, envelope: Arc<Envelope>, out: &mut Vec<Act>) -> Result<(), Reject> {
        let settled = self.settled(&envelope);
        if settled.len() < envelope.requests.len() && !self.keys.envelope(&envelope) {
            return Err(Reject::BadRequest);
        }
        self.overhear_request(&envelope);
        self.overhear_client(&envelope);
        let numbers = settled.iter().map(|reply| reply.number).collect();
        if !settled.is_empty() {
            self.answer_settled(&envelope, settled, out);
        }
        self.admit(envelope, numbers, false);
        self.run(out);
        Ok(())
    }

    fn settled(&self, envelope: &Envelope) -> Vec<Reply> {
        let known = |(request, known): (&Request, _)| match known {
            Lookup::Settled(outcome) => Some(Reply { number: request.number, outcome }),
            Lookup::New => None,
        };
        envelope.requests.iter().zip(self.executor.lookups(envelope)).filter_map(known).collect()
    }

    /// Hands the core an envelope of which this is settled, and not all.
    fn admit(&mut self, envelope: Arc<Envelope>, settled: Vec<u64>, passed_on: bool) {
        if settled.len() < envelope.requests.len() {
            self.queue(CoreEvent::Input(Input::Request { envelope, settled, passed_on }));
        }
    }

    fn reply(&self, client: ClientId, replies: Vec<Reply>, out: &mut Vec<Act>) {
        if !self.clients.contains(&client) {
            return;
        }
        let view = self.core.hint(&client);
        let message = ToClient::Replies { view, replies: replies.clone() };
        self.tell_client(&client, &message, out);
        out.push(Act::Saw(Observation::Replied { client, replies }));
    }

    /// Replies to what was just executed: of long results, only those that no other replica tells.
    fn reply_executed(&self, client: ClientId, replies: Vec<Reply>, out: &mut Vec<Act>) {
        if !self.clients.contains(&client) {
            return;
        }
        let view = self.core.hint(&client);
        let (whole, digests) = self.telling().split(&client, replies.to_vec());
        if !whole.is_empty() {
            self.tell_client(&client, &ToClient::Replies { view, replies: whole }, out);
        }
        if !digests.is_empty() {
            self.tell_client(&client, &ToClient::Digests { view, digests }, out);
        }
        out.push(Act::Saw(Observation::Replied { client, replies }));
    }

    /// Which results it tells of those that it has just come by.
    fn telling(&self) -> DesignatedReplier {
        let n = self.executor.members();
        DesignatedReplier { me: self.keys.me, n, whole_bytes: REPLY_WHOLE_BYTES_MIN }
    }

    fn tell_client(&self, client: &ClientId, message: &ToClient, out: &mut Vec<Act>) {
        let Some(index) = self.clients.iter().position(|known| known == client) else { return };
        let packet = Packet::ToClient(message.to_bytes());
        out.push(Act::Send { to: Address::Client(index as u16), packet });
    }

    /// Law 1: one event at a time, and its effects in order before the next.
    fn feed(&mut self, event: CoreEvent, out: &mut Vec<Act>) {
        if self.is_mute() {
            return;
        }
        self.inbox.push_back(event);
        self.run(out);
    }

    fn run(&mut self, out: &mut Vec<Act>) {
        let mut budget = CHAIN_MAX;
        while let Some(event) = self.inbox.pop_front() {
            if self.is_dead() {
                self.inbox.clear();
                return;
            }
            self.taken += 1;
            budget -= 1;
            assert!(budget > 0, "{} goes on talking to itself", self.id);
            self.steps += 1;
            let mut effects = core::mem::take(&mut self.effects);
            let draws = draws_little(&event);
            self.core.step(event, &mut effects);
            if draws {
                self.relayed = self.relayed.max(relays_to_one(&effects));
            }
            if self.faulty.is_none() {
                self.core.assert_invariants();
            }
            effects.drain(..).for_each(|effect| self.carry_out(effect, out));
            self.effects = effects;
            self.kept.iter_mut().for_each(Kept::end_of_step);
        }
        self.answer_waiting(out);
    }

    /// Keeps what is to be kept, and carries out what waits for nothing.
    pub(crate) fn carry_out(&mut self, effect: CoreEffect, out: &mut Vec<Act>) {
        if self.is_dead() {
            return;
        }
        let effect = match &mut self.kept {
            Some(kept) => kept.hold(effect),
            None => Some(effect),
        };
        if let Some(effect) = effect {
            self.carry(effect, out);
        }
    }

    /// Carries out what waits for nothing any more.
    fn carry(&mut self, effect: CoreEffect, out: &mut Vec<Act>) {
        let leaves = matches!(effect, CoreEffect::Send { .. } | CoreEffect::Relay { .. });
        if let Some(kept) = self.kept.as_mut().filter(|_| leaves) {
            let Some(seen) = kept.leaves() else { return };
            out.push(Act::Saw(seen));
        }
        match effect {
            CoreEffect::Send { to, outgoing } => self.send(to, &outgoing, out),
            CoreEffect::Relay { to, wire, kind } => self.relay(to, &wire, kind, out),
            // Nothing outlives the process where nothing is kept.
            CoreEffect::Persist(_) => {}
            CoreEffect::Arm { timer, after } => out.push(Act::Arm { timer, after }),
            CoreEffect::Disarm(timer) => out.push(Act::Disarm(timer)),
            CoreEffect::Output(output) => self.on_output(output, out),
            CoreEffect::Report(evidence) => out.push(Act::Saw(Observation::Reported(evidence))),
        }
    }

    fn targets(&self, to: To) -> (ReplicaSet, bool) {
        let mut set = match to {
            To::One(id) => ReplicaSet::from_iter([id]),
            To::Others => return (self.others, false),
            To::All => return (self.others, true),
            To::Set(set) => set,
        };
        let loops = set.contains(self.id);
        set.remove(self.id);
        (ReplicaSet(set.0 & self.others.0), loops)
    }

    fn send(&mut self, to: To, outgoing: &Outgoing, out: &mut Vec<Act>) {
        let Some(tag) = self.authenticate(outgoing, out) else { return };
        let (wire, incoming) = self.core.seal(outgoing, tag);
        self.check_own(outgoing.kind, &wire, out);
        let (set, loops) = self.targets(to);
        let topic = self.core.topic(&incoming).map(Box::new);
        out.push(Act::Saw(Observation::Said { to, incoming: incoming.clone(), topic }));
        self.overhear(&wire);
        self.transmit(set, &wire, out);
        if loops {
            if let (Some(kept), Some(ui)) = (&mut self.kept, tag.ui()) {
                kept.loops(self.taken + self.inbox.len() as u64, *ui, outgoing.digest);
            }
            self.inbox.push_back(CoreEvent::Message(incoming));
        }
    }

    /// What a correct replica shows in a view change, it would not refuse itself either, whether
    /// or not it reaches anybody.
    fn check_own(&self, kind: &str, wire: &Bytes, out: &mut Vec<Act>) {
        if self.faulty.is_none()
            && matches!(kind, "view_change" | "new_view")
            && let Err(why) = self.core.open(&self.keys, self.id, wire)
        {
            let from = Address::Replica(self.id);
            out.push(Act::Saw(Observation::Rejected { from, why }));
        }
    }

    /// The tag that a message asks for. None if the device refuses, which it does to the faulty
    /// only.
    fn authenticate(&mut self, outgoing: &Outgoing, out: &mut Vec<Act>) -> Option<AuthTag> {
        Some(match outgoing.auth {
            Auth::Channel => AuthTag::Channel,
            Auth::Signature => AuthTag::Signature(self.keys.crypto.sign(self.id, &outgoing.digest)),
            Auth::Usig(instance, position) => {
                let digest = outgoing.digest;
                if let Some(ui) = self.kept.as_ref().and_then(|kept| kept.certified(outgoing)) {
                    return Some(AuthTag::Usig(ui));
                }
                let mut device = self.device.lock().expect("a device does not panic");
                let ui = match device.create(instance, position, &digest) {
                    Ok(ui) => ui,
                    Err(_) if self.faulty.is_some() => return None,
                    Err(why) => panic!("{} at {position:?}: {why}", self.id),
                };
                let epoch = device.epoch();
                out.push(Act::Saw(Observation::Certified { epoch, ui, digest }));
                AuthTag::Usig(ui)
            }
            Auth::Mac(instance) => {
                let mut device = self.device.lock().expect("a device does not panic");
                let made = device.of(instance).and_then(|device| device.mac(&outgoing.digest));
                AuthTag::Mac(made.expect("each pillar has a device"))
            }
        })
    }

    fn relay(&mut self, to: To, wire: &Bytes, kind: &'static str, out: &mut Vec<Act>) {
        let (set, loops) = self.targets(to);
        out.push(Act::Saw(Observation::Relayed { to, kind, wire: wire.clone() }));
        self.transmit(set, wire, out);
        if loops {
            let own = self.core.open(&self.keys, self.id, wire);
            let own = own.unwrap_or_else(|why| panic!("{} relays {why:?} to itself", self.id));
            self.inbox.push_back(CoreEvent::Message(own));
        }
    }

    fn transmit(&self, to: ReplicaSet, wire: &Bytes, out: &mut Vec<Act>) {
        for replica in to.iter() {
            let packet = Packet::Protocol(self.epoch(), wire.clone());
            out.push(Act::Send { to: Address::Replica(replica), packet });
        }
    }

    fn on_output(&mut self, output: Output, out: &mut Vec<Act>) {
        match output {
            Output::Admit { envelope } => {
                let settled = self.settled(&envelope);
                let numbers = settled.iter().map(|reply| reply.number).collect();
                self.admit(envelope, numbers, true);
            }
            Output::Full { envelope } => {
                let message = ToClient::Busy { number: envelope.range().0 };
                self.tell_client(&envelope.client, &message, out);
            }
            Output::Execute { .. }
            | Output::Checkpoint { .. }
            | Output::Stable { .. }
            | Output::Fetch { .. }
            | Output::Speculate { .. }
            | Output::Answer { .. }
            | Output::Commit { .. }
            | Output::Rollback { .. }
                if self.is_over() => {}
            output if self.kept.as_ref().is_some_and(|kept| kept.drops(&output)) => {}
            Output::Resumed { upto } => self.reads.resume(upto),
            Output::Execute { slot, batch } => self.execute(slot, batch, out),
            Output::Speculate { answers, slot, batch, view, history } => {
                self.speculate(Place { view, slot, history }, batch, answers, out);
            }
            Output::Answer { slot, view } => self.answer_late(slot, view, out),
            Output::Commit { upto } => self.commit(upto, out),
            Output::Rollback { after } => self.roll_back(after, out),
            Output::Restate { view } => self.restate(view, out),
            Output::Tell { client, message } => self.tell(client, message, out),
            Output::PillarStatus(_) | Output::ToPillar { .. } => {
                unreachable!("what pillars and their merge say to each other stays in the core")
            }
            Output::Checkpoint { slot } => {
                assert_eq!(slot, self.executor.executed(), "checkpoints follow execution");
                let state = self.executor.checkpoint();
                out.push(Act::Saw(Observation::Checkpointed { slot, state }));
                // What this replica vouches for, others may need to have from it after a crash.
                self.when_saved(Then::Checkpointed { slot, state }, out);
            }
            Output::Stable { slot, state } => {
                self.on_stable(slot, state);
                out.push(Act::Saw(Observation::Stable { slot, state }));
            }
            Output::Fetch { slot, state, from } => {
                out.push(Act::Saw(Observation::Fetching { slot, state }));
                let mut steps = Vec::new();
                self.transfer.want(slot, state, from, &self.executor, &mut steps);
                self.carry_out_transfer(steps, out);
            }
            Output::Keeping { pillar, is_done } => self.on_keeping(pillar, is_done),
            Output::Entered { view, reason } => {
                out.push(Act::Saw(Observation::Entered { view, reason }));
            }
            Output::Diverged { slot, .. } => out.push(Act::Saw(Observation::Diverged { slot })),
        }
    }

    fn execute(&mut self, slot: Slot, batch: Arc<Batch>, out: &mut Vec<Act>) {
        let mut answers: Vec<(ClientId, Vec<Reply>)> = Vec::new();
        let mut events: Vec<(ClientId, u64, Bytes)> = Vec::new();
        self.executor.execute(slot, &batch, |client, notice| match (notice, answers.last_mut()) {
            (Notice::Event { number, body }, _) => events.push((*client, number, body)),
            (Notice::Reply(reply), Some((last, replies))) if last == client => replies.push(reply),
            (Notice::Reply(reply), _) => answers.push((*client, vec![reply])),
        });
        out.push(Act::Saw(Observation::Executed { slot, batch }));
        self.kept.iter_mut().for_each(Kept::executed_something);
        for (client, replies) in answers {
            self.reply_executed(client, replies, out);
        }
        for (client, number, body) in events {
            self.inform(client, number, body, out);
        }
        if self.executor.is_ending() {
            self.on_ended(out);
        }
    }

    fn inform(&self, client: ClientId, number: u64, body: Bytes, out: &mut Vec<Act>) {
        out.push(Act::Saw(Observation::Told { client, number, body: body.clone() }));
        self.tell_client(
            &client,
            &ToClient::Events { oldest: 0, first: number, events: vec![body] },
            out,
        );
    }

    fn carry_out_transfer(&mut self, steps: Vec<transfer::Step>, out: &mut Vec<Act>) {
        for step in steps {
            match step {
                transfer::Step::Send { to, message } => {
                    let packet = Packet::Transfer(message.to_bytes());
                    out.push(Act::Send { to: Address::Replica(to), packet });
                }
                transfer::Step::Install(snapshot) => self.install(snapshot, out),
            }
        }
    }

    fn install(&mut self, snapshot: Snapshot, out: &mut Vec<Act>) {
        let slot = snapshot.slot;
        let state = snapshot.digest;
        self.executor.install(snapshot).expect("a vouched state can be restored");
        out.push(Act::Saw(Observation::Installed { slot, state }));
        self.when_saved(Then::Installed { slot }, out);
        // It may be the one with which the epoch ends, or one before that which was wrong here.
        self.succession.ended = None;
        if self.executor.is_ending() {
            self.on_ended(out);
        }
    }
}

/// Whether a replica has no reason to pass on much because of this. A report is answered with all
/// that its sender lacks, which has a bound of its own.
fn draws_little(event: &CoreEvent) -> bool {
    match event {
        CoreEvent::Message(incoming) => incoming.kind() != "report",
        CoreEvent::Client(..) => true,
        CoreEvent::Timeout(_) | CoreEvent::Input(_) => false,
    }
}

/// The most messages of others that are passed on to one peer. None are counted where a view was
/// entered: what had come early is dealt with then, each message by itself.
fn relays_to_one(effects: &[CoreEffect]) -> usize {
    let entered =
        |effect: &CoreEffect| matches!(effect, CoreEffect::Output(Output::Entered { .. }));
    if effects.iter().any(entered) {
        return 0;
    }
    let mut counts: BTreeMap<ReplicaId, usize> = BTreeMap::new();
    let mut to_all = 0;
    for effect in effects {
        match effect {
            CoreEffect::Relay { to: To::One(id), .. } => *counts.entry(*id).or_default() += 1,
            CoreEffect::Relay { to: To::Set(set), .. } => {
                set.iter().for_each(|id| *counts.entry(id).or_default() += 1);
            }
            CoreEffect::Relay { .. } => to_all += 1,
            _ => {}
        }
    }
    counts.values().max().copied().unwrap_or_default() + to_all
}
