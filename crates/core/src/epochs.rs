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
//!
//! A change of the configuration ends an epoch in the same way. Its handover names the next
//! configuration, and the proof shows it. Each replica keeps all of those proofs: they are a chain
//! from the configuration with which the group began, and each is checked with the keys of the
//! configuration that it ends. So former members, whose keys may be in anybody's hands, can prove
//! nothing that comes after. Where a group was lost, administrators proved how it goes on.

mod handover;
mod message;

pub use handover::{Admission, Handover, Proof, Witnesses};
pub use message::Message;

use crate::auth::{Signature, Verifier};
use crate::configuration::Configuration;
use crate::digest::Digest;
use crate::ids::{Epoch, MemberId, Millis, ReplicaId, ReplicaSet};
use crate::limits::{EPOCHS_KEPT, HANDOVERS_SENT_MAX};
use crate::membership::{Life, Membership};
use crate::mutant;
use crate::protocol::Authority;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Between two reminders while a handover or an admission is under way.
const REMIND_MS: u64 = 200;

/// Reminders without need after which the epoch is said to the others once.
const IDLE_REMINDERS: u64 = 5;

/// Between two questions to the authority outside, if the group has one.
const ASK_AUTHORITY_MS: u64 = 5_000;

/// How long a replica that could execute the rest of an epoch itself tries to, before it fetches
/// the state with which the next one begins.
const GRACE_MS: u64 = 300;

/// What the host is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Send a message over the channels to these.
    Send {
        /// Who gets it; never this replica.
        to: BTreeSet<MemberId>,
        /// What it says.
        message: Message,
    },
    /// Start the core of this epoch. If the executor has not reached [`Membership::base`], the
    /// core fetches it from `sources`.
    Begin {
        /// The new epoch.
        membership: Arc<Membership>,
        /// Who vouches for its base and is a member of it; perhaps nobody, if it begins another
        /// configuration.
        sources: ReplicaSet,
    },
    /// This replica is no member any more: its core ends. Others may still need to fetch from it
    /// the state with which this epoch begins, and to be shown how its configuration ended.
    Retire {
        /// The epoch that has no place for it.
        membership: Arc<Membership>,
    },
    /// Send to all others a request under this replica's key whose operation is an [`Admission`],
    /// with a number above all before.
    AskAdmission,
    /// That member says that it is under another configuration. Neither counts what the other
    /// signs: an operator has to be told.
    OtherConfiguration(MemberId),
    /// The host tells the authority outside in which epoch, and with which life, this replica is.
    /// The authority then repeats what is under way, or how that epoch ended.
    AskAuthority,
}

/// Follows the epochs for one replica.
#[derive(Debug)]
pub struct Epochs {
    me: MemberId,
    /// The life of this replica's device.
    life: Life,
    membership: Arc<Membership>,
    /// How the epochs before ended under this configuration, the last one last; at most
    /// [`EPOCHS_KEPT`].
    proofs: VecDeque<Proof>,
    /// How the configurations before ended, from the first one on; at most
    /// [`CONFIGURATIONS_MAX`](crate::limits::CONFIGURATIONS_MAX).
    links: Vec<Proof>,
    /// The next configuration, if this replica has executed the whole epoch and it ends with one.
    next: Option<Arc<Configuration>>,
    /// Who signed what about the end of the current epoch; one vote each.
    votes: BTreeMap<ReplicaId, (Handover, Signature)>,
    /// The current epoch's end is proved; until when its own executor may get there.
    proved: Option<(Proof, Option<Millis>)>,
    /// Who was answered since the last reminder.
    answered: BTreeSet<MemberId>,
    /// Who said in this epoch that it is in a later one, under another configuration.
    ahead: BTreeSet<MemberId>,
    remind_at: Millis,
    reminders: u64,
    /// Who ends the epochs.
    authority: Authority,
}

impl Epochs {
    /// In the epoch of the configuration, with a device that may or may not be one of its members.
    #[must_use]
    pub const fn new(me: MemberId, life: Life, membership: Arc<Membership>) -> Self {
        Self {
            me,
            life,
            membership,
            proofs: VecDeque::new(),
            links: Vec::new(),
            next: None,
            votes: BTreeMap::new(),
            proved: None,
            answered: BTreeSet::new(),
            ahead: BTreeSet::new(),
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

    /// In the epoch that was going on when this replica stopped, with how the one before ended
    /// under this configuration, and how all configurations before ended, so that it can show that
    /// to others.
    #[must_use]
    pub fn resumed(
        me: MemberId,
        life: Life,
        membership: Arc<Membership>,
        proof: Option<Proof>,
        links: Vec<Proof>,
    ) -> Self {
        Self { links, proofs: proof.into_iter().collect(), ..Self::new(me, life, membership) }
    }

    /// How the epoch before ended under this configuration; none if that began with this epoch.
    #[must_use]
    pub fn proof(&self) -> Option<&Proof> {
        self.proofs.back()
    }

    /// Who signed for the state with which this epoch began, and is a member of it; none in the
    /// first one. `first` is the group as it began.
    #[must_use]
    pub fn sources(&self, first: &Membership) -> Option<ReplicaSet> {
        let ending = self.proofs.back().or(self.links.last())?;
        let before: Vec<MemberId> = match &self.links[..] {
            _ if !self.proofs.is_empty() => {
                self.membership.members.iter().map(|it| it.id).collect()
            }
            [.., Proof { next: Some(before), .. }, _] => {
                before.members.iter().map(|it| it.id).collect()
            }
            _ => first.members.iter().map(|it| it.id).collect(),
        };
        let ids = ending.signers().iter().filter_map(|it| before.get(usize::from(it.0)).copied());
        Some(ids.filter_map(|id| self.membership.index_of(id)).collect())
    }

    /// The epoch in which this replica is.
    #[must_use]
    pub const fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// Whether the epoch admits this replica's device. If not, it has no core.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.index()
            .is_some_and(|me| self.membership.members[usize::from(me.0)].life() == self.life)
    }

    /// Which member this is, in all epochs.
    #[must_use]
    pub const fn me(&self) -> MemberId {
        self.me
    }

    /// Which replica of the epoch this is; none if it is no member any more.
    #[must_use]
    pub fn index(&self) -> Option<ReplicaId> {
        self.membership.index_of(self.me)
    }

    /// How the configurations before ended, from the first one on.
    #[must_use]
    pub fn links(&self) -> &[Proof] {
        &self.links
    }

    /// Whether its members' order has come to an end here and the next epoch is not proved yet.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.index().is_some_and(|me| self.votes.contains_key(&me))
    }

    /// This replica has executed the whole epoch, which ends with this configuration if it is
    /// another one.
    pub fn on_ended(
        &mut self,
        handover: Handover,
        next: Option<Arc<Configuration>>,
        sign: impl FnOnce(&Digest) -> Signature,
        out: &mut Vec<Step>,
    ) {
        let Some(me) = self.index() else { return };
        let signature = sign(&handover.statement(&self.membership));
        out.push(self.to_others(Message::Vote(handover.clone(), signature)));
        self.votes.insert(me, (handover, signature));
        self.next = next;
        match self.proved.take() {
            Some((proof, _)) => self.begin(proof, out),
            None => self.count(out),
        }
    }

    /// Another member, or a former one, spoke. [`Message::Admit`], [`Message::Leaves`] and
    /// [`Message::Settled`] are the host's to handle.
    pub fn on_message(
        &mut self,
        from: MemberId,
        message: Message,
        verifier: &dyn Verifier,
        out: &mut Vec<Step>,
    ) {
        match message {
            Message::At { epoch, configuration } => {
                if self.is_foreign(from, epoch, &configuration) {
                    out.push(Step::OtherConfiguration(from));
                }
                self.on_other_epoch(from, epoch, out);
            }
            Message::Vote(handover, signature) => {
                self.on_vote(from, handover, signature, verifier, out);
            }
            Message::Proofs(proofs) => self.on_proofs(proofs, verifier, out),
            Message::Admit(_) | Message::Leaves { .. } | Message::Settled { .. } => {}
        }
    }

    /// Somebody spoke who says to be a member of a later configuration, which joined after this
    /// one. All others that know how this one ended may have left or lost it, so what the newer
    /// member shows is taken: a proof needs no name. Gives what to answer.
    pub fn on_newer(
        &mut self,
        message: Message,
        verifier: &dyn Verifier,
        out: &mut Vec<Step>,
    ) -> Option<Message> {
        if self.authority == Authority::Service || mutant!("epochs.newer-unheard") {
            return None;
        }
        match message {
            // Whoever ends its epoch says nothing else than its vote.
            Message::At { epoch, .. }
            | Message::Leaves { epoch }
            | Message::Vote(Handover { epoch, .. }, _) => {
                (epoch > self.membership.epoch).then(|| self.at())
            }
            Message::Proofs(mut proofs) => {
                // Members of a later configuration show how earlier ones ended, one by one.
                proofs.truncate(1);
                proofs.retain(|proof| proof.next.is_some());
                self.on_proofs(proofs, verifier, out);
                None
            }
            Message::Admit(_) | Message::Settled { .. } => None,
        }
    }

    /// Whether that replica's configuration seems to be none of this group's. One that this replica
    /// has left is. A later one may be, too: this replica asks, and believes so until it hears of
    /// that one again and was not led on.
    fn is_foreign(&mut self, from: MemberId, epoch: Epoch, configuration: &Digest) -> bool {
        if *configuration == self.membership.configuration {
            return false;
        }
        match epoch.cmp(&self.membership.epoch) {
            Ordering::Less => !self.has_left(epoch, configuration),
            Ordering::Equal => true,
            Ordering::Greater => !self.ahead.insert(from),
        }
    }

    /// Whether an epoch was under that configuration. Of the first one only its last epoch is known
    /// here.
    fn has_left(&self, epoch: Epoch, configuration: &Digest) -> bool {
        let ended = self.links.iter().position(|link| link.handover.epoch >= epoch);
        ended.is_some_and(|at| match at.checked_sub(1) {
            Some(begun) => self.links[begun].handover.next.as_ref() == Some(configuration),
            None => true,
        })
    }

    /// A message of another epoch came: shows an earlier one how it ended, asks a later one, or the
    /// authority.
    pub fn on_other_epoch(&mut self, from: MemberId, epoch: Epoch, out: &mut Vec<Step>) {
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
            // A replica under an earlier configuration needs one proof: how that ended. Members of
            // the next one sign what follows, so the replica asks again when it is there.
            let link = self.links.iter().find(|proof| proof.handover.epoch >= epoch);
            let newer = self.proofs.iter().filter(|proof| proof.handover.epoch >= epoch);
            let newer = newer.take(HANDOVERS_SENT_MAX).cloned();
            Message::Proofs(link.map_or_else(|| newer.collect(), |link| Vec::from([link.clone()])))
        };
        out.push(Step::Send { to: BTreeSet::from([from]), message });
    }

    fn on_vote(
        &mut self,
        from: MemberId,
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
        // Whose number that is, the epoch's table says.
        let Some(from) = self.membership.index_of(from) else { return };
        let new = self.votes.get(&from).is_none_or(|(known, _)| *known != handover);
        let whole = handover.next.is_some() || handover.lives.len() == self.membership.n();
        let statement = handover.statement(&self.membership);
        if new && whole && verifier.signature(from, &statement, &signature.0) {
            self.votes.insert(from, (handover, signature));
            self.count(out);
        }
    }

    /// `f + 1` equal votes of members prove the end. A replica that has not executed so far does
    /// not know the next configuration, and waits until another one shows it the proof.
    fn count(&mut self, out: &mut Vec<Step>) {
        let weak = self.membership.quorums().weak();
        let proof = self.votes.values().find_map(|(handover, _)| {
            let same = self.votes.iter().filter(|(_, (other, _))| other == handover);
            let signatures: Vec<_> = same.map(|(id, (_, signature))| (*id, *signature)).collect();
            let handover = handover.clone();
            let few = mutant!("epochs.handover-of-f");
            let own = self.next.as_ref().filter(|own| handover.next == Some(own.digest()));
            let next = handover.next.and(own.cloned());
            (signatures.len() >= if few { 1 } else { weak }
                && handover.next.is_some() == next.is_some())
            .then_some(Proof { handover, next, by: Witnesses::Members, signatures })
        });
        if let Some(proof) = proof.filter(|proof| proof.names_a_life_each(&self.membership)) {
            self.on_proved(proof, out);
        }
    }

    fn on_proofs(&mut self, proofs: Vec<Proof>, verifier: &dyn Verifier, out: &mut Vec<Step>) {
        let mut proofs = proofs.into_iter().peekable();
        while let Some(proof) = proofs.next() {
            // Of what administrators signed for a group that was lost, a replica learns from its
            // own folder alone: it may be that the group was not lost, and goes on.
            let is_theirs = proof.by == Witnesses::Members || mutant!("epochs.rescued-by-message");
            if !is_theirs || !proof.is_valid(&self.membership, verifier) {
                continue;
            }
            let is_link = proof.next.is_some();
            if proofs.peek().is_some() {
                // The group is further still: this epoch's last slots are not to be had any more.
                self.begin(proof, out);
            } else {
                self.on_proved(proof, out);
            }
            if is_link {
                // The rest is signed by others; whoever sent it is asked again.
                return;
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
        let next = proof.successor(&self.membership);
        // Those that leave are to know it, and those that join.
        let mut to = self.others();
        to.extend(next.members.iter().map(|it| it.id).filter(|id| *id != self.me));
        out.push(Step::Send { to, message: Message::Proofs(Vec::from([proof.clone()])) });
        let signers = proof.signers();
        let ids = signers.iter().map(|id| self.membership.members[usize::from(id.0)].id);
        let sources = ids.filter_map(|id| next.index_of(id)).collect();
        if proof.next.is_some() {
            // How epochs ended under a configuration that has itself ended, nobody needs to know.
            self.proofs.clear();
            self.links.push(proof);
        } else {
            self.proofs.push_back(proof);
            if self.proofs.len() > EPOCHS_KEPT {
                self.proofs.pop_front();
            }
        }
        self.enter(next, sources, out);
    }

    /// This replica has reached the end of the epoch, or of a later one, that the authority outside
    /// set, and has the state with which the next one begins.
    pub fn on_succeeded(&mut self, handover: &Handover, out: &mut Vec<Step>) {
        self.enter(self.membership.after(handover), ReplicaSet::EMPTY, out);
    }

    fn enter(&mut self, next: Membership, sources: ReplicaSet, out: &mut Vec<Step>) {
        self.membership = Arc::new(next);
        self.votes.clear();
        self.proved = None;
        self.next = None;
        self.answered.clear();
        self.ahead.clear();
        let membership = self.membership.clone();
        out.push(match self.index() {
            Some(_) => Step::Begin { membership, sources },
            None => Step::Retire { membership },
        });
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
        self.answered.clear();
        if by_service {
            out.push(Step::AskAuthority);
            return;
        }
        self.reminders += 1;
        let own = self.index().and_then(|me| self.votes.get(&me));
        if let Some((handover, signature)) = own {
            out.push(self.to_others(Message::Vote(handover.clone(), *signature)));
        } else if self.index().is_none() {
            // A former member asks for nothing; it shows others the way when they ask.
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
        Step::Send { to: self.others(), message }
    }

    /// The other members of the epoch.
    fn others(&self) -> BTreeSet<MemberId> {
        let ids = self.membership.members.iter().map(|it| it.id);
        ids.filter(|id| *id != self.me).collect()
    }
}
