//! From one epoch to the next: how a member whose trusted device began a new incarnation is let in
//! again.
//!
//! A replica that lost its memory must not speak under the device it had: nobody, itself included,
//! knows what it promised. It starts a device of a new incarnation and asks the group, by an
//! ordered request under its own key, to admit it ([`Admission`]). The executor of every correct
//! replica carries that out at the same slot, and the epoch ends there: nothing behind that slot is
//! executed in it. Each replica that executed so far signs a [`Handover`]; `f + 1` equal ones prove
//! to anyone who knows the ending epoch's members who the next ones are and with which state they
//! begin. A promise of the lost life is worth nothing in the new epoch, and nothing depends on it
//! there: whatever was decided and executed is in the state that `f + 1` vouch for.
//!
//! The core of the ended epoch goes on talking until the proof is there, so that the others reach
//! the last slot; then a fresh core takes over. Protocols know nothing of all this.

use crate::auth::{Signature, Verifier};
use crate::digest::{Digest, Domain, EpochId};
use crate::ids::{Epoch, Millis, ReplicaId, ReplicaSet};
use crate::limits::{EPOCHS_KEPT, HANDOVERS_SENT_MAX, REPLICAS_MAX};
use crate::membership::{Base, Life, Member, Membership};
use crate::mutant;
use crate::protocol::Authority;
use crate::request::Envelope;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Between two reminders while a handover or an admission is under way.
const REMIND_MS: u64 = 200;

/// Reminders without need after which the epoch is said to the others once.
const IDLE_REMINDERS: u64 = 5;

/// Between two questions to the authority outside, if the group has one.
const ASK_AUTHORITY_MS: u64 = 5_000;

/// How long a replica that could execute the rest of an epoch itself tries to, before it fetches
/// the state with which the next one begins.
const GRACE_MS: u64 = 300;

/// What a member asks of the group, as the operation of a request under its own key: to count from
/// the next epoch on by the device of this life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Admission {
    /// The epoch that it asks to end. In every other one it means nothing, so that nobody can have
    /// a member's former life admitted again.
    pub epoch: Epoch,
    /// The life.
    pub life: Life,
}

impl Wire for Admission {
    fn encode(&self, to: &mut Writer) {
        to.u8(0);
        self.epoch.encode(to);
        self.life.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(Self { epoch: Epoch::decode(from)?, life: Life::decode(from)? }),
            _ => Err(Malformed),
        }
    }
}

/// Where an epoch ends and the next one begins.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Handover {
    /// The epoch that ends.
    pub epoch: Epoch,
    /// Its last slot, and the state after it.
    pub base: Base,
    /// The lives of the next epoch's devices, by member.
    pub lives: Vec<Life>,
}

impl Handover {
    /// What its signatures cover.
    #[must_use]
    pub fn statement(&self, membership: &Membership) -> Digest {
        let domain = Domain::new(&EpochId { epoch: self.epoch, ..membership.epoch_id() });
        domain.statement("handover").bytes(&self.to_bytes()).finish()
    }
}

impl Membership {
    /// The membership that follows on the end of this one, or of one behind it.
    #[must_use]
    pub fn after(&self, handover: &Handover) -> Self {
        let next = |(member, life): (&Member, &Life)| Member {
            incarnation: life.incarnation,
            device_key: life.device_key,
            ..member.clone()
        };
        Self {
            epoch: handover.epoch.next(),
            members: self.members.iter().zip(&handover.lives).map(next).collect(),
            base: if mutant!("epochs.begins-elsewhere") { self.base } else { handover.base },
            ..self.clone()
        }
    }
}

impl Wire for Handover {
    fn encode(&self, to: &mut Writer) {
        self.epoch.encode(to);
        self.base.encode(to);
        to.sequence(&self.lives);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            epoch: Epoch::decode(from)?,
            base: Base::decode(from)?,
            lives: from.sequence(REPLICAS_MAX)?,
        })
    }
}

/// A handover to which `f + 1` members of the ending epoch put their names: one of them is correct
/// and has executed so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Proof {
    /// What they vouch for.
    pub handover: Handover,
    /// Who signed, with what.
    pub signatures: Vec<(ReplicaId, Signature)>,
}

impl Proof {
    /// Whether it proves how this membership ends, or one that follows on it: members keep their
    /// keys, so whoever was away for longer than ends of epochs are kept need not see all of them.
    #[must_use]
    pub fn is_valid(&self, membership: &Membership, verifier: &dyn Verifier) -> bool {
        let Self { handover, signatures } = self;
        if handover.epoch < membership.epoch || handover.lives.len() != membership.n() {
            return false;
        }
        let statement = handover.statement(membership);
        let mut signers = ReplicaSet::EMPTY;
        let mut genuine = |(author, signature): &(ReplicaId, Signature)| {
            membership.contains(*author)
                && signers.insert(*author)
                && verifier.signature(*author, &statement, &signature.0)
        };
        signatures.iter().all(&mut genuine) && signers.len() >= membership.quorums().weak()
    }

    /// Who signed it.
    #[must_use]
    pub fn signers(&self) -> ReplicaSet {
        self.signatures.iter().map(|(author, _)| *author).collect()
    }
}

impl Wire for Proof {
    fn encode(&self, to: &mut Writer) {
        self.handover.encode(to);
        to.sequence(&self.signatures);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let handover = Handover::decode(from)?;
        Ok(Self { handover, signatures: from.sequence(REPLICAS_MAX)? })
    }
}

/// What replicas say to each other about epochs, over their channels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// I am in this epoch, under the configuration with this digest: show me how it ended, if it
    /// did.
    At {
        /// The epoch.
        epoch: Epoch,
        /// The digest.
        configuration: Digest,
    },
    /// I executed the whole epoch, and sign for it.
    Vote(Handover, Signature),
    /// How epochs ended, one after the other.
    Proofs(Vec<Proof>),
    /// Have this ordered: its author asks to be admitted.
    Admit(Arc<Envelope>),
}

impl Wire for Message {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::At { epoch, configuration } => {
                to.u8(0);
                epoch.encode(to);
                configuration.encode(to);
            }
            Self::Vote(handover, signature) => {
                to.u8(1);
                handover.encode(to);
                signature.encode(to);
            }
            Self::Proofs(proofs) => {
                to.u8(2);
                to.sequence(proofs);
            }
            Self::Admit(envelope) => {
                to.u8(3);
                envelope.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => {
                let (epoch, configuration) = (Epoch::decode(from)?, Digest::decode(from)?);
                Ok(Self::At { epoch, configuration })
            }
            1 => Ok(Self::Vote(Handover::decode(from)?, Signature::decode(from)?)),
            2 => from.sequence(HANDOVERS_SENT_MAX).map(Self::Proofs),
            3 => Envelope::decode(from).map(|envelope| Self::Admit(Arc::new(envelope))),
            _ => Err(Malformed),
        }
    }
}

/// What the host is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Send a message over the channels to these.
    Send {
        /// Who gets it; never this replica.
        to: ReplicaSet,
        /// What it says.
        message: Message,
    },
    /// Start the core of this epoch. If the executor has not reached [`Membership::base`], the
    /// core fetches it from `sources`.
    Begin {
        /// The new epoch.
        membership: Arc<Membership>,
        /// Who vouches for its base.
        sources: ReplicaSet,
    },
    /// Send to all others a request under this replica's key whose operation is an [`Admission`],
    /// with a number above all before.
    AskAdmission,
    /// This replica is in the same epoch under another configuration, so neither believes anything
    /// that the other says: an operator has to be told.
    OtherConfiguration(ReplicaId),
    /// The host tells the authority outside in which epoch, and with which life, this replica is.
    /// The authority then repeats what is under way, or how that epoch ended.
    AskAuthority,
}

/// Follows the epochs for one replica.
#[derive(Debug)]
pub struct Epochs {
    me: ReplicaId,
    /// The life of this replica's device.
    life: Life,
    membership: Arc<Membership>,
    /// How the epochs before ended, the last one last; at most [`EPOCHS_KEPT`].
    proofs: VecDeque<Proof>,
    /// Who signed what about the end of the current epoch; one vote each.
    votes: BTreeMap<ReplicaId, (Handover, Signature)>,
    /// The current epoch's end is proved; until when its own executor may get there.
    proved: Option<(Proof, Option<Millis>)>,
    /// Who was answered since the last reminder.
    answered: ReplicaSet,
    remind_at: Millis,
    reminders: u64,
    /// Who ends the epochs.
    authority: Authority,
}

impl Epochs {
    /// In the epoch of the configuration, with a device that may or may not be one of its members.
    #[must_use]
    pub const fn new(me: ReplicaId, life: Life, membership: Arc<Membership>) -> Self {
        Self {
            me,
            life,
            membership,
            proofs: VecDeque::new(),
            votes: BTreeMap::new(),
            proved: None,
            answered: ReplicaSet::EMPTY,
            remind_at: Millis(0),
            reminders: 0,
            authority: Authority::Members,
        }
    }

    /// Who ends the epochs, which is the members unless this is called. If it is a service, members
    /// say nothing to each other about epochs.
    pub const fn set_authority(&mut self, authority: Authority) {
        self.authority = authority;
    }

    /// Who ends the epochs.
    #[must_use]
    pub const fn authority(&self) -> Authority {
        self.authority
    }

    /// In the epoch that was going on when this replica stopped, with the proof of how the one
    /// before ended, so that it can show it to others.
    #[must_use]
    pub fn resumed(
        me: ReplicaId,
        life: Life,
        membership: Arc<Membership>,
        proof: Option<Proof>,
    ) -> Self {
        Self { proofs: proof.into_iter().collect(), ..Self::new(me, life, membership) }
    }

    /// The proof of how the epoch before ended; none in the first.
    #[must_use]
    pub fn proof(&self) -> Option<&Proof> {
        self.proofs.back()
    }

    /// The epoch in which this replica is.
    #[must_use]
    pub const fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// Whether the epoch admits this replica's device. If not, it has no core.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.membership.members[usize::from(self.me.0)].life() == self.life
    }

    /// Whether its members' order has come to an end here and the next epoch is not proved yet.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.votes.contains_key(&self.me)
    }

    /// This replica has executed the whole epoch.
    pub fn on_ended(
        &mut self,
        handover: Handover,
        sign: impl FnOnce(&Digest) -> Signature,
        out: &mut Vec<Step>,
    ) {
        let signature = sign(&handover.statement(&self.membership));
        out.push(self.to_others(Message::Vote(handover.clone(), signature)));
        self.votes.insert(self.me, (handover, signature));
        match self.proved.take() {
            Some((proof, _)) => self.begin(proof, out),
            None => self.count(out),
        }
    }

    /// Another replica spoke. [`Message::Admit`] is the host's to handle.
    pub fn on_message(
        &mut self,
        from: ReplicaId,
        message: Message,
        verifier: &dyn Verifier,
        out: &mut Vec<Step>,
    ) {
        match message {
            Message::At { epoch, configuration } => {
                let now = &self.membership;
                if epoch == now.epoch && configuration != now.configuration {
                    out.push(Step::OtherConfiguration(from));
                }
                self.on_other_epoch(from, epoch, out);
            }
            Message::Vote(handover, signature) => {
                self.on_vote(from, handover, signature, verifier, out);
            }
            Message::Proofs(proofs) => self.on_proofs(proofs, verifier, out),
            Message::Admit(_) => {}
        }
    }

    /// A message of another epoch came: shows an earlier one how it ended, asks a later one, or the
    /// authority.
    pub fn on_other_epoch(&mut self, from: ReplicaId, epoch: Epoch, out: &mut Vec<Step>) {
        if epoch == self.membership.epoch || !self.answered.insert(from) {
            return;
        }
        if self.authority == Authority::Service {
            out.extend((epoch > self.membership.epoch).then_some(Step::AskAuthority));
            return;
        }
        let message = if epoch > self.membership.epoch {
            self.at()
        } else {
            let newer = self.proofs.iter().filter(|proof| proof.handover.epoch >= epoch);
            Message::Proofs(newer.take(HANDOVERS_SENT_MAX).cloned().collect())
        };
        out.push(Step::Send { to: ReplicaSet::from_iter([from]), message });
    }

    fn on_vote(
        &mut self,
        from: ReplicaId,
        handover: Handover,
        signature: Signature,
        verifier: &dyn Verifier,
        out: &mut Vec<Step>,
    ) {
        let epoch = handover.epoch;
        if epoch != self.membership.epoch {
            self.on_other_epoch(from, epoch, out);
            return;
        }
        let new = self.votes.get(&from).is_none_or(|(known, _)| *known != handover);
        let whole = handover.lives.len() == self.membership.n();
        let statement = handover.statement(&self.membership);
        if new && whole && verifier.signature(from, &statement, &signature.0) {
            self.votes.insert(from, (handover, signature));
            self.count(out);
        }
    }

    /// `f + 1` equal votes prove the end.
    fn count(&mut self, out: &mut Vec<Step>) {
        let weak = self.membership.quorums().weak();
        let proof = self.votes.values().find_map(|(handover, _)| {
            let same = self.votes.iter().filter(|(_, (other, _))| other == handover);
            let signatures: Vec<_> = same.map(|(id, (_, signature))| (*id, *signature)).collect();
            let handover = handover.clone();
            let few = mutant!("epochs.handover-of-f");
            (signatures.len() >= if few { 1 } else { weak })
                .then_some(Proof { handover, signatures })
        });
        if let Some(proof) = proof {
            self.on_proved(proof, out);
        }
    }

    fn on_proofs(&mut self, proofs: Vec<Proof>, verifier: &dyn Verifier, out: &mut Vec<Step>) {
        let mut proofs = proofs.into_iter().peekable();
        while let Some(proof) = proofs.next() {
            if !proof.is_valid(&self.membership, verifier) {
                continue;
            }
            if proofs.peek().is_some() {
                // The group is further still: this epoch's last slots are not to be had any more.
                self.begin(proof, out);
            } else {
                self.on_proved(proof, out);
            }
        }
    }

    /// Goes on in the next epoch: at once if nothing is gained by waiting, which is so unless this
    /// replica's own core may be about to reach the end.
    fn on_proved(&mut self, proof: Proof, out: &mut Vec<Step>) {
        if self.is_ending() || !self.is_admitted() {
            self.begin(proof, out);
        } else {
            self.proved.get_or_insert((proof, None));
        }
    }

    fn begin(&mut self, proof: Proof, out: &mut Vec<Step>) {
        out.push(self.to_others(Message::Proofs(Vec::from([proof.clone()]))));
        let (handover, sources) = (proof.handover.clone(), proof.signers());
        self.proofs.push_back(proof);
        if self.proofs.len() > EPOCHS_KEPT {
            self.proofs.pop_front();
        }
        self.enter(&handover, sources, out);
    }

    /// This replica has reached the end of the epoch, or of a later one, that the authority outside
    /// set, and has the state with which the next one begins.
    pub fn on_succeeded(&mut self, handover: &Handover, out: &mut Vec<Step>) {
        self.enter(handover, ReplicaSet::EMPTY, out);
    }

    fn enter(&mut self, handover: &Handover, sources: ReplicaSet, out: &mut Vec<Step>) {
        self.membership = Arc::new(self.membership.after(handover));
        self.votes.clear();
        self.proved = None;
        self.answered = ReplicaSet::EMPTY;
        let membership = self.membership.clone();
        out.push(Step::Begin { membership, sources });
    }

    /// Time has passed. Reminds the others of what is under way.
    pub fn on_round(&mut self, now: Millis, out: &mut Vec<Step>) {
        if let Some((proof, until)) = &mut self.proved {
            let until = *until.get_or_insert(Millis(now.0.saturating_add(GRACE_MS)));
            if now >= until {
                let proof = proof.clone();
                self.begin(proof, out);
            }
        }
        if now < self.remind_at {
            return;
        }
        let by_service = self.authority == Authority::Service;
        let wait_ms = if by_service { ASK_AUTHORITY_MS } else { REMIND_MS };
        self.remind_at = Millis(now.0.saturating_add(wait_ms));
        self.answered = ReplicaSet::EMPTY;
        if by_service {
            out.push(Step::AskAuthority);
            return;
        }
        self.reminders += 1;
        if let Some((handover, signature)) = self.votes.get(&self.me) {
            out.push(self.to_others(Message::Vote(handover.clone(), *signature)));
        } else if !self.is_admitted() {
            out.push(self.to_others(self.at()));
            out.push(Step::AskAdmission);
        } else if self.reminders.is_multiple_of(IDLE_REMINDERS) {
            out.push(self.to_others(self.at()));
        }
    }

    /// When [`Self::on_round`] is to be called at the latest.
    #[must_use]
    pub fn wake_at(&self) -> Millis {
        let until = self.proved.as_ref().and_then(|(_, until)| *until);
        until.map_or(self.remind_at, |until| until.min(self.remind_at))
    }

    /// Where this replica is.
    fn at(&self) -> Message {
        let Membership { epoch, configuration, .. } = *self.membership;
        Message::At { epoch, configuration }
    }

    fn to_others(&self, message: Message) -> Step {
        let mut to: ReplicaSet = self.membership.ids().collect();
        to.remove(self.me);
        Step::Send { to, message }
    }
}
