//! From epoch to epoch: what [`pentarchy_core::epochs`] asks of a host.

use super::{Act, Address, Lying, Observation, Packet, ReplicaNode};
use crate::crypto::{Keys, member_id};
use pentarchy_core::Bytes;
use pentarchy_core::epochs::{Admission, Epochs, Handover, Message, Step};
use pentarchy_core::erased::{CoreEffect, CoreEvent, ReplicaCore};
use pentarchy_core::ids::{Epoch, Incarnation, Millis, ReplicaId, ReplicaSet};
use pentarchy_core::membership::{Base, Life, Membership};
use pentarchy_core::protocol::{Memory, Reject};
use pentarchy_core::request::{Draft, Envelope, Request};
use pentarchy_core::wire::Wire;
use pentarchy_storage::kept::Then;
use std::sync::Arc;

/// The epochs of one replica.
pub(super) struct Succession {
    pub epochs: Epochs,
    pub life: Life,
    /// The epoch of the core that runs.
    pub epoch: Epoch,
    /// Where this epoch ended for the executor, until the next one begins.
    pub ended: Option<Base>,
    /// The state with which the next epoch begins is not the one that this replica has.
    diverged: bool,
    /// The state with which this epoch began is fetched from others.
    fetches: bool,
    /// The number of the last request to be admitted.
    asked: u64,
    /// To be started when the present event is dealt with.
    next: Option<(Arc<Membership>, ReplicaSet)>,
}

impl Succession {
    pub const fn new(epochs: Epochs, life: Life, epoch: Epoch) -> Self {
        Self {
            epochs,
            life,
            epoch,
            ended: None,
            diverged: false,
            fetches: false,
            asked: 0,
            next: None,
        }
    }
}

/// An epoch that a replica is about to go over to.
pub struct Beginning {
    /// Its members, and where it begins.
    pub membership: Arc<Membership>,
    /// See [`pentarchy_core::protocol::Setup::fetch`].
    pub fetch: Option<ReplicaSet>,
    /// Whether it admits this replica's device.
    pub admitted: bool,
    /// What the core goes on from.
    pub memory: Memory,
}

/// What a replica goes on with in a new epoch.
pub struct NewCore {
    /// Its core.
    pub core: Box<dyn ReplicaCore>,
    /// What that asked for when it was started.
    pub effects: Vec<CoreEffect>,
    /// What the replica makes up in this epoch, if it lies.
    pub lying: Option<Lying>,
}

impl ReplicaNode {
    /// The epoch of its core.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.succession.epoch
    }

    /// The life of its device.
    #[must_use]
    pub const fn life(&self) -> Incarnation {
        self.succession.life.incarnation
    }

    /// Whether the epoch counts by its device.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.succession.epochs.is_admitted()
    }

    /// Whether the epoch counts by its device, and it has the state with which the epoch began:
    /// from then on it can be relied upon.
    #[must_use]
    pub fn is_level(&self) -> bool {
        let epochs = &self.succession.epochs;
        self.is_admitted() && self.executor.executed() >= epochs.membership().base.slot
    }

    /// What the replica makes up, to be taken over into a new epoch.
    pub fn take_lying(&mut self) -> Option<Lying> {
        self.faulty.as_mut()?.lying.take()
    }

    /// Another replica spoke about epochs.
    pub(super) fn on_epochs(
        &mut self,
        peer: ReplicaId,
        wire: &Bytes,
        out: &mut Vec<Act>,
    ) -> Result<(), Reject> {
        let message = Message::from_bytes(wire).map_err(|_| Reject::Malformed)?;
        self.overhear_epochs(&message);
        if let Message::Admit(envelope) = message {
            return self.on_admit(peer, envelope, out);
        }
        let mut steps = Vec::new();
        self.succession.epochs.on_message(peer, message, &self.keys, &mut steps);
        self.succeed(steps, out);
        Ok(())
    }

    /// A message of another epoch came.
    pub(super) fn on_other_epoch(&mut self, peer: ReplicaId, epoch: Epoch, out: &mut Vec<Act>) {
        let mut steps = Vec::new();
        self.succession.epochs.on_other_epoch(peer, epoch, &mut steps);
        self.succeed(steps, out);
    }

    /// A member asks to be admitted: the group orders that like any client's request.
    fn on_admit(
        &mut self,
        peer: ReplicaId,
        envelope: Arc<Envelope>,
        out: &mut Vec<Act>,
    ) -> Result<(), Reject> {
        let member = self.succession.epochs.membership().member(&envelope.client);
        if member != Some(peer) {
            return Err(Reject::BadRequest);
        }
        self.on_request(envelope, out)
    }

    /// The last executed slot was the last of its epoch.
    pub(super) fn on_ended(&mut self, out: &mut Vec<Act>) {
        let Some(handover) = self.executor.handover() else { return };
        self.succession.ended = Some(handover.base);
        out.push(Act::Saw(Observation::Ended(handover.clone())));
        // What this replica signs for, others may need to have from it after a crash.
        self.when_saved(Then::Ended(handover), out);
    }

    /// Says how the epoch ends, unless that is known by now.
    pub(super) fn vote_for(&mut self, handover: Handover, out: &mut Vec<Act>) {
        if handover.epoch != self.succession.epochs.membership().epoch {
            return;
        }
        let mut steps = Vec::new();
        let Self { succession, keys, id, .. } = self;
        let sign = |digest: &_| pentarchy_core::auth::Signature(keys.crypto.sign(*id, digest));
        succession.epochs.on_ended(handover, sign, &mut steps);
        self.succeed(steps, out);
    }

    /// Time has passed.
    pub(super) fn on_succession_round(&mut self, now: Millis, out: &mut Vec<Act>) {
        let mut steps = Vec::new();
        self.succession.epochs.on_round(now, &mut steps);
        if steps.contains(&Step::AskAdmission) {
            let message = self.admission(now, out);
            self.tell_peers(self.others, &message, out);
        }
        self.succeed(steps, out);
    }

    /// A request under this replica's key to count by the device that it has now.
    fn admission(&mut self, now: Millis, out: &mut Vec<Act>) -> Message {
        let number = now.0.max(self.succession.asked + 1);
        self.succession.asked = number;
        let (epoch, life) = (self.epoch(), self.succession.life);
        let operation = Admission { epoch, life }.to_bytes();
        out.push(Act::Saw(Observation::Asked { number, operation: operation.clone() }));
        let client = member_id(self.id);
        let requests = vec![Request { number, operation }];
        let draft = Draft { client, floor: number, events: None, requests };
        Message::Admit(Arc::new(self.keys.crypto.seal(draft)))
    }

    fn succeed(&mut self, steps: Vec<Step>, out: &mut Vec<Act>) {
        for step in steps {
            match step {
                Step::Send { to, message } => self.tell_peers(to, &message, out),
                Step::Begin { membership, sources } => {
                    self.succession.next = Some((membership, sources));
                }
                Step::AskAdmission => {}
            }
        }
    }

    /// Says something about epochs to these.
    pub(super) fn tell_peers(&self, to: ReplicaSet, message: &Message, out: &mut Vec<Act>) {
        let bytes = message.to_bytes();
        for peer in to.iter() {
            let packet = Packet::Epochs(bytes.clone());
            out.push(Act::Send { to: Address::Replica(peer), packet });
        }
    }

    /// The epoch to go over to, if its beginning is proved: make a core for it and
    /// [begin](Self::begin_epoch).
    pub fn next_epoch(&mut self) -> Option<Beginning> {
        // A state that the next epoch may rest on is being saved.
        if self.kept.as_ref().is_some_and(|kept| kept.is_ending() && !kept.is_dead()) {
            return None;
        }
        let (membership, sources) = self.succession.next.take()?;
        let mine = self.succession.ended.take();
        let follows = self.succession.epoch.next() == membership.epoch;
        let differs = mine.is_some_and(|mine| mine != membership.base);
        self.succession.diverged = follows && differs;
        let fetch = (mine != Some(membership.base)).then_some(sources);
        self.succession.fetches = fetch.is_some();
        let admitted = self.succession.epochs.is_admitted();
        let memory = match self.kept {
            Some(_) => Memory::Durable { executed: membership.base, records: Vec::new() },
            None => Memory::Volatile,
        };
        Some(Beginning { membership, fetch, admitted, memory })
    }

    /// Goes on in a new epoch.
    pub fn begin_epoch(&mut self, membership: Arc<Membership>, new: NewCore, out: &mut Vec<Act>) {
        let begun = self.device.lock().expect("a device does not panic").begin_epoch(&membership);
        assert!(begun.is_ok() || self.faulty.is_some(), "{} goes back to an epoch", self.id);
        self.succession.epoch = membership.epoch;
        // The epoch has ended without what was only speculated.
        self.roll_back(self.executor.committed(), out);
        self.executor.begin_epoch(membership.clone());
        if let Some(kept) = &mut self.kept {
            kept.begin_epoch(&self.succession.epochs, self.succession.fetches);
        }
        self.keys = Keys { membership: membership.clone(), ..self.keys.clone() };
        self.inbox.clear();
        self.reads.begin_epoch(membership.base.slot);
        self.transfer.give_up();
        self.core = new.core;
        if let Some(faulty) = &mut self.faulty {
            faulty.lying = new.lying;
        }
        out.push(Act::DisarmAll);
        let slot = membership.base.slot;
        out.push(Act::Saw(Observation::Began(membership)));
        if core::mem::take(&mut self.succession.diverged) {
            out.push(Act::Saw(Observation::Diverged { slot }));
        }
        new.effects.into_iter().for_each(|effect| self.carry_out(effect, out));
        self.run(out);
    }

    /// Whether an output of the core comes too late: nothing is executed behind the end of an
    /// epoch, whatever its core still orders.
    pub(super) const fn is_over(&self) -> bool {
        self.succession.ended.is_some()
    }

    /// An event that may have come from the core's own epoch only.
    pub(super) fn is_of_epoch(&self, epoch: Epoch) -> bool {
        epoch == self.succession.epoch
    }

    /// Hands the core an event, unless it is a liar's that hears nothing.
    pub(super) fn queue(&mut self, event: CoreEvent) {
        if !self.is_mute() {
            self.inbox.push_back(event);
        }
    }
}
