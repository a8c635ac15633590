//! A core among its peers: with the keys under which it says what it says, and with what it says to
//! itself. What its outputs lead to is the business of the machine or the pillar that has it.

use crate::counters::{Counters, Messages, Rejects};
use crate::driver::{Driver, Kind};
use crate::factory::Started;
use crate::fault::{Fault, some_of};
use crate::halt::Halt;
use crate::inbound::Heard;
use crate::observed::{Observed, Sent};
use crate::others::Lately;
use crate::places::Places;
use bytes::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::authenticator::Authenticator;
use pentarchy_core::counter::Ui;
use pentarchy_core::erased::{CoreEffect, CoreEvent, Incoming, Outgoing, ReplicaCore};
use pentarchy_core::ids::{ClientId, Epoch, MemberId, ReplicaId, ReplicaSet};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_core::outsider::Outsider;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Evidence, Reject, To};
use pentarchy_core::wire::{Reader, Wire};
use pentarchy_storage::kept::{Barrier, EntryLog};
use std::collections::VecDeque;
use std::sync::Arc;
use tracing::warn;

/// First byte of a peer's message: bytes for [`ReplicaCore::open`] follow.
pub const PROTOCOL: u8 = 0;

/// The shortest time between two ends of rounds that the core is told of although nothing happened.
pub const ROUND_MS: u64 = 5;

/// What a protocol message of a peer is.
pub enum Opened {
    /// For the core.
    Message(Incoming),
    /// For the core of this other epoch.
    OtherEpoch(Epoch),
    /// Nothing follows from it.
    Nothing(Heard),
}

/// A core among its peers.
pub struct Engine {
    pub(crate) core: Box<dyn ReplicaCore>,
    /// What was refused or lost.
    pub(crate) counters: Counters,
    /// What came, by kind.
    pub(crate) messages: Messages,
    /// Peers' messages that were refused.
    pub(crate) rejects: Rejects,
    /// The same, by the peer that sent it.
    pub(crate) refused: Lately,
    /// Provable lies and refusals of others, by the replica that is to blame.
    pub(crate) found: Lately,
    pub(crate) verifier: Arc<dyn Verifier>,
    pub(crate) authenticator: Box<dyn Authenticator>,
    /// Of the core, to which all that it says belongs; and who is which replica in it.
    pub(crate) epoch: Epoch,
    pub(crate) places: Places,
    /// What the core sent to itself and what it is answered, in order. Delivered before anything
    /// from outside.
    pub(crate) inward: VecDeque<CoreEvent>,
    /// Events that were taken out there.
    pub(crate) taken: u64,
    pub(crate) effects: Vec<CoreEffect>,
    /// How this replica misbehaves on command.
    pub(crate) fault: Fault,
    /// Certified statements since it equivocates.
    turn: u64,
    /// See [`EngineParts::checks_itself`].
    checks_itself: bool,
    /// Milliseconds since the driver began, at the start of the round.
    pub(crate) now_ms: u64,
}

/// What an [`Engine`] is made of.
pub struct EngineParts {
    /// The core.
    pub core: Started,
    /// What checks others' statements.
    pub verifier: Arc<dyn Verifier>,
    /// What convinces others.
    pub authenticator: Box<dyn Authenticator>,
    /// Which member this is.
    pub me: MemberId,
    /// The members of the core's epoch.
    pub membership: Arc<Membership>,
    /// Whether the core's invariants are checked after each step, and whether what this replica
    /// shows in a view change is opened before it leaves, as others open it: what they would refuse
    /// [is told to the driver](Driver::on_own_refused), which panics unless it watches. Not where
    /// the core's work is counted.
    pub checks_itself: bool,
}

/// Why a peer's message is not looked at.
enum Unread {
    OtherEpoch(Epoch),
    Unconvincing,
}

impl Engine {
    /// Of a core that has begun.
    ///
    /// # Panics
    /// If the epoch has no place for this member.
    #[must_use]
    pub fn new(parts: EngineParts) -> Self {
        let EngineParts { core, verifier, authenticator, me, membership, checks_itself } = parts;
        let Started { core, effects } = core;
        Self {
            core,
            counters: Counters::default(),
            messages: Messages::default(),
            rejects: Rejects::default(),
            refused: Lately::default(),
            found: Lately::default(),
            verifier,
            authenticator,
            epoch: membership.epoch,
            places: Places::new(me, &membership),
            inward: VecDeque::new(),
            taken: 0,
            effects,
            fault: Fault::None,
            turn: 0,
            checks_itself,
            now_ms: 0,
        }
    }

    /// Goes over to the core of another epoch. Nothing of the one before is left.
    pub(crate) fn begin_epoch(
        &mut self,
        membership: &Membership,
        verifier: Arc<dyn Verifier>,
        core: Box<dyn ReplicaCore>,
        driver: &mut impl Driver,
    ) {
        (self.epoch, self.verifier, self.core) = (membership.epoch, verifier, core);
        let places = Places::new(self.places.member, membership);
        if std::mem::replace(&mut self.places, places).configuration != membership.configuration {
            self.forget_leavers();
            driver.on_members(membership);
        }
        driver.disarm_all();
        self.inward.clear();
    }

    /// The group goes on in this epoch without this replica, which takes part in nothing any more.
    pub(crate) fn leave(&mut self, epoch: Epoch, driver: &mut impl Driver) {
        (self.epoch, self.core) = (epoch, Box::new(Outsider { rules: self.core.rules() }));
        driver.disarm_all();
        self.inward.clear();
        self.effects.clear();
    }

    /// What was counted of members that have left is worth nothing any more.
    fn forget_leavers(&mut self) {
        let Self { places, refused, found, counters, .. } = self;
        let stays = |member: MemberId| places.replica(member).is_some();
        refused.retain(stays);
        found.retain(stays);
        counters.findings_about.retain(|member, _| stays(MemberId(*member)));
    }

    /// Opens and counts a peer's protocol message.
    pub(crate) fn open(
        &mut self,
        peer: MemberId,
        bytes: &Bytes,
        driver: &mut impl Driver,
    ) -> Opened {
        let is_convincing = driver.is_convinced_by(peer);
        let (kind, opened) = match self.try_open(peer, is_convincing, &bytes.slice(1..)) {
            Ok(Ok(Some(incoming))) => (incoming.kind(), Opened::Message(incoming)),
            // It was not checked.
            Ok(Ok(None)) => ("redundant", Opened::Nothing(Heard::Taken)),
            Ok(Err(Unread::OtherEpoch(epoch))) => ("other_epoch", Opened::OtherEpoch(epoch)),
            // The peer says the same again once it has shown by what right.
            Ok(Err(Unread::Unconvincing)) => ("unconvincing", Opened::Nothing(Heard::Taken)),
            Err(why) => return Opened::Nothing(self.refuse(peer, bytes, why, driver)),
        };
        self.messages.came(kind, bytes.len());
        opened
    }

    /// Opens what a client says to the protocol, for the present core; none, and counted, if the
    /// core refuses it.
    pub(crate) fn open_client(&mut self, client: ClientId, message: &Bytes) -> Option<CoreEvent> {
        match self.core.open_client(&*self.verifier, message) {
            Ok(incoming) => Some(CoreEvent::Client(client, incoming)),
            Err(why) => {
                self.rejects.add(why);
                None
            }
        }
    }

    /// The message, unless it is of another epoch, or the peer does not convince.
    fn try_open(
        &self,
        peer: MemberId,
        is_convincing: bool,
        bytes: &Bytes,
    ) -> Result<Result<Option<Incoming>, Unread>, Reject> {
        let mut reader = Reader::new(bytes);
        let epoch = Epoch::decode(&mut reader).map_err(|_| Reject::Malformed)?;
        if epoch != self.epoch && !mutant!("engine.index-before-epoch") {
            return Ok(Err(Unread::OtherEpoch(epoch)));
        }
        if !is_convincing {
            return Ok(Err(Unread::Unconvincing));
        }
        // Only now is it known by which table.
        let peer = self.places.replica(peer).ok_or(Reject::WrongAuthor)?;
        self.core.open_new(&*self.verifier, peer, &bytes.slice(8..)).map(Ok)
    }

    /// A whole message of a peer is refused.
    pub(crate) fn refuse(
        &mut self,
        peer: MemberId,
        bytes: &Bytes,
        why: Reject,
        driver: &mut impl Driver,
    ) -> Heard {
        self.messages.came("refused", bytes.len());
        self.reject(peer, why, driver);
        let forged = why == Reject::BadAuth && self.author(bytes) == Some(peer);
        if forged { Heard::Forged } else { Heard::Taken }
    }

    /// The claimed author of a protocol message of this epoch, behind its first byte and its epoch.
    fn author(&self, bytes: &Bytes) -> Option<MemberId> {
        let mut reader = Reader::new(bytes);
        reader.u8().ok()?;
        Epoch::decode(&mut reader).ok()?;
        self.places.member_of(ReplicaId::decode(&mut reader).ok()?)
    }

    /// Counts something of a peer that is refused.
    pub(crate) fn reject(&mut self, peer: MemberId, why: Reject, driver: &mut impl Driver) {
        driver.observe(Observed::Rejected(peer, why));
        self.rejects.add(why);
        self.refused.add(peer, self.now_ms);
    }

    /// Has the core take a step; its effects wait in [`Self::effects`].
    pub(crate) fn take(&mut self, event: CoreEvent) {
        self.core.step(event, &mut self.effects);
        if self.checks_itself {
            self.core.assert_invariants();
        }
    }

    /// What the core is to take before anything from outside.
    pub(crate) fn next_inward(&mut self) -> Option<CoreEvent> {
        let event = self.inward.pop_front();
        self.taken += u64::from(event.is_some());
        event
    }

    /// Carries out an effect that waits for nothing; an output is given back.
    pub(crate) fn carry<L: EntryLog>(
        &mut self,
        effect: CoreEffect,
        barrier: Option<&mut Barrier<L>>,
        driver: &mut impl Driver,
    ) -> Result<Option<Output>, Halt> {
        match effect {
            CoreEffect::Send { to, outgoing } => self.send(to, &outgoing, barrier, driver)?,
            CoreEffect::Relay { to, wire, kind } => {
                driver.observe(Observed::Relayed { to, kind, wire: &wire });
                self.relay(to, kind, &wire, driver);
                self.relay_to_itself(to, &wire, driver);
            }
            // Nothing outlives the process; see the crate's documentation.
            CoreEffect::Persist(_) => {}
            CoreEffect::Arm { timer, after } => driver.arm(timer, after),
            CoreEffect::Disarm(timer) => driver.disarm(timer),
            CoreEffect::Output(output) => return Ok(Some(output)),
            CoreEffect::Report(evidence) => {
                driver.observe(Observed::Reported(&evidence));
                let Evidence { author, finding } = evidence;
                self.counters.findings += 1;
                let member = self.places.member_of(author);
                if let Some(member) = member {
                    *self.counters.findings_about.entry(member.0).or_default() += 1;
                    self.found.add(member, self.now_ms);
                }
                let about = member.map(|MemberId(id)| id);
                warn!(about, ?finding, "evidence of misbehaviour");
            }
        }
        Ok(None)
    }

    fn receivers(&self, to: To) -> ReplicaSet {
        match to {
            To::One(id) => ReplicaSet::from_iter([id]),
            To::Others => self.places.others,
            To::All => {
                let mut all = self.places.others;
                all.insert(self.places.me);
                all
            }
            To::Set(set) => set,
        }
    }

    fn send<L: EntryLog>(
        &mut self,
        to: To,
        outgoing: &Outgoing,
        barrier: Option<&mut Barrier<L>>,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        let said_before = barrier.as_deref().and_then(|barrier| certificate(barrier, outgoing));
        let tag = match said_before {
            Some(ui) => AuthTag::Usig(ui),
            None => match self.authenticator.tag(&outgoing.auth, &outgoing.digest) {
                Ok(tag) => tag,
                Err(_) if driver.leaves_out_refused() => return Ok(()),
                Err(_) if mutant!("engine.goes-on-without-counter") => return Ok(()),
                Err(refused) => return Err(Halt::Counter(refused)),
            },
        };
        let ui = tag.ui().copied();
        let (wire, incoming) = self.core.seal(outgoing, tag);
        self.check_own(outgoing.kind, &wire, driver);
        let (core, digest) = (&*self.core, outgoing.digest);
        let sent = Sent { core, to, incoming: &incoming, wire: &wire, digest, ui };
        driver.observe(Observed::Sent(sent));
        let receivers = self.receivers(to);
        if receivers.contains(self.places.me) {
            if let (Some(barrier), Some(ui)) = (barrier, ui) {
                barrier.loops(self.taken + self.inward.len() as u64, ui, outgoing.digest);
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
        self.relay(To::Set(shown), outgoing.kind, &wire, driver);
        Ok(())
    }

    /// Others check what this replica shows in a view change. If it would not pass, no view would
    /// begin, and nobody could say why: a machine that checks itself looks at once.
    fn check_own(&self, kind: Kind, wire: &Bytes, driver: &mut impl Driver) {
        let shows = matches!(kind, "view_change" | "new_view") && self.fault == Fault::None;
        if self.checks_itself
            && shows
            && let Err(why) = self.core.open(&*self.verifier, self.places.me, wire)
        {
            driver.on_own_refused(kind, why);
        }
    }

    /// Queues bytes for the other replicas among the receivers.
    fn relay(&self, to: To, kind: Kind, wire: &Bytes, driver: &mut impl Driver) {
        let mut receivers = self.receivers(to);
        receivers.remove(self.places.me);
        for peer in self.places.members_of(receivers) {
            driver.send_peer(peer, kind, |to| {
                to.u8(PROTOCOL);
                self.epoch.encode(to);
                to.array(wire);
            });
        }
    }

    /// What this replica had said before a crash comes back to it as what it says now does.
    fn relay_to_itself(&mut self, to: To, wire: &Bytes, driver: &mut impl Driver) {
        if self.receivers(to).contains(self.places.me) {
            match self.core.open(&*self.verifier, self.places.me, wire) {
                Ok(incoming) => self.inward.push_back(CoreEvent::Message(incoming)),
                Err(why) => self.reject(self.places.member, why, driver),
            }
        }
    }
}

/// Of a statement from before a crash that is made again.
fn certificate<L: EntryLog>(barrier: &Barrier<L>, outgoing: &Outgoing) -> Option<Ui> {
    match outgoing.auth {
        Auth::Usig(instance, at) => barrier.certified(instance, at, &outgoing.digest),
        _ => None,
    }
}
