//! From epoch to epoch: what [`pentarchy_core::epochs`] asks of a replica.

use crate::driver::Driver;
use crate::epochs::{EPOCHS, EpochManager, Leaving, Parts, Starting};
use crate::factory::Started;
use crate::halt::Halt;
use crate::machine::Machine;
use crate::observed::Observed;
use crate::pillar::{NextEpoch, ToPillar};
use crate::store::Disk;
use crate::wedging::Wedging;
use bytes::Bytes;
use pentarchy_core::auth::Verifier;
use pentarchy_core::configuration::RequestMeans;
use pentarchy_core::epochs::{Admission, Handover, Message, Step};
use pentarchy_core::erased::{CoreEvent, ReplicaCore};
use pentarchy_core::ids::{Epoch, MemberId, Millis, ReplicaSet, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Authority, Memory, Reject};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::Wire;
use pentarchy_storage::kept::Then;
use std::sync::Arc;
use tracing::{error, info, warn};

/// How long clients may take to hear that a configuration has begun in which requests are checked
/// in another way.
const FOLLOWING_MS: u64 = 5_000;

impl<D: Disk> Machine<'_, D> {
    /// A peer spoke about epochs.
    pub(crate) fn on_epochs(
        &mut self,
        peer: MemberId,
        bytes: &Bytes,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        match Message::from_bytes(bytes) {
            Err(_) => self.engine.reject(peer, Reject::Malformed, driver),
            // No member has a say in it.
            Ok(_) if self.epoch_manager.epochs.authority() == Authority::Service => {
                self.engine.reject(peer, Reject::WrongRole, driver);
            }
            // The next epoch is proved, but has not begun here. What its members sign is for its
            // own keys to judge: former ones may be in anybody's hands. They will say it again.
            Ok(_) if self.epoch_manager.next.is_some() && !mutant!("epochs.judged-early") => {}
            // Nor are its keys here ever, if it has no place for this replica.
            Ok(Message::Proofs(_) | Message::Vote(..)) if self.is_leaving() => {}
            Ok(Message::Admit(envelope)) => return self.on_admit(peer, envelope, driver),
            Ok(Message::Leaves { epoch }) => self.on_leaves(peer, epoch, driver)?,
            Ok(Message::Settled { epoch }) => self.on_settled(peer, epoch),
            Ok(message) => {
                let EpochManager { epochs, steps, .. } = &mut self.epoch_manager;
                epochs.on_message(peer, message, &*self.engine.verifier, steps);
                self.carry_out_epochs(driver);
            }
        }
        self.begin_epoch(driver)
    }

    /// A message of another epoch came.
    pub(crate) fn on_other_epoch(
        &mut self,
        peer: MemberId,
        epoch: Epoch,
        driver: &mut impl Driver,
    ) {
        self.engine.counters.other_epoch += 1;
        let EpochManager { epochs, steps, .. } = &mut self.epoch_manager;
        epochs.on_other_epoch(peer, epoch, steps);
        self.carry_out_epochs(driver);
    }

    /// A member asks to be admitted: the group orders that like any client's request.
    fn on_admit(
        &mut self,
        peer: MemberId,
        envelope: Arc<Envelope>,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        let membership = self.membership();
        let member = membership.member(&envelope.client);
        if member.is_none()
            || member != membership.index_of(peer)
            || !self.engine.verifier.envelope(&envelope)
        {
            self.engine.reject(peer, Reject::BadRequest, driver);
            return Ok(());
        }
        self.note_asking(peer, &envelope);
        match self.answer_settled(envelope, driver) {
            Some(request) => self.step(CoreEvent::Input(request), driver),
            None => Ok(()),
        }
    }

    /// Takes note of a member that asks to be admitted in this epoch.
    fn note_asking(&mut self, peer: MemberId, envelope: &Envelope) {
        let membership = self.membership();
        let Some(index) = membership.index_of(peer) else { return };
        let asks = envelope.requests.iter().any(|request| {
            Admission::of_operation(&request.operation).is_some_and(|asked| {
                let admitted = membership.members[usize::from(index.0)].life();
                let of_this_epoch = (membership.epoch, membership.configuration);
                (asked.epoch, asked.configuration) == of_this_epoch && asked.life != admitted
            })
        });
        if asks {
            self.others.on_asked(peer, self.engine.now_ms);
        }
    }

    /// Says in the log that the group cannot go on, when that shows.
    fn look_whether_lost(&mut self) {
        let (f, now_ms) = (self.membership().f, self.engine.now_ms);
        if self.others.look(f, now_ms) {
            let asking = self.others.asking(now_ms);
            error!(
                ?asking,
                f, "more than f replicas lost their memory; this group cannot continue"
            );
        }
    }

    /// The last executed slot was the last of its epoch.
    pub(crate) fn on_ended(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        let Some(handover) = self.executor.handover() else { return Ok(()) };
        self.check_service()?;
        info!(epoch = %handover.epoch, slot = %handover.base.slot, "the epoch ends");
        self.ended = Some(handover.base);
        driver.observe(Observed::Ended(&handover));
        if mutant!("epochs.votes-before-state-is-durable") {
            self.vote_for(handover.clone(), driver);
        }
        // What this replica signs for, others may need to have from it after a crash.
        self.when_saved(Then::Ended(handover), driver)
    }

    /// Says how the epoch ends, unless it is known by now; if a service has said so, nobody has to
    /// be told.
    pub(crate) fn vote_for(&mut self, handover: Handover, driver: &mut impl Driver) {
        let EpochManager { epochs, steps, .. } = &mut self.epoch_manager;
        let now = epochs.membership().epoch;
        if epochs.authority() == Authority::Service {
            if handover.epoch >= now {
                epochs.on_succeeded(&handover, steps);
                self.carry_out_epochs(driver);
            }
            return;
        }
        if handover.epoch != now {
            return;
        }
        let next = self.executor.next_configuration();
        epochs.on_ended(handover, next, |digest| self.engine.authenticator.sign(digest), steps);
        self.carry_out_epochs(driver);
    }

    /// Time has passed.
    pub(crate) fn on_epochs_round(
        &mut self,
        now: Millis,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        let EpochManager { epochs, steps, .. } = &mut self.epoch_manager;
        epochs.on_round(Millis(self.engine.now_ms), steps);
        if steps.contains(&Step::AskAdmission) {
            self.others.on_asked(self.engine.places.member, self.engine.now_ms);
            let envelope = self.epoch_manager.admission(now);
            driver.observe(Observed::Petitions(&envelope));
            self.tell(self.engine.places.peers(), &Message::Admit(envelope), driver);
        }
        self.look_whether_lost();
        self.carry_out_epochs(driver);
        self.begin_epoch(driver)
    }

    pub(crate) fn carry_out_epochs(&mut self, driver: &mut impl Driver) {
        for step in std::mem::take(&mut self.epoch_manager.steps) {
            match step {
                Step::Send { to, message } => self.tell(to.into_iter(), &message, driver),
                Step::Begin { membership, sources } => {
                    self.epoch_manager.next = Some((membership, sources));
                }
                Step::Retire { membership } => {
                    let leaving = Leaving::new(membership, self.engine.places.peers());
                    self.epoch_manager.leaving = Some(leaving);
                }
                Step::OtherConfiguration(peer) => self.note_other_configuration(peer),
                Step::AskAuthority => self.tell_status(driver),
                Step::AskAdmission => {}
            }
        }
    }

    /// A peer says that it is under another configuration. If that is so, neither counts what the
    /// other signs. The log says so once.
    fn note_other_configuration(&mut self, peer: MemberId) {
        self.engine.counters.other_configuration += 1;
        if self.others.on_other_configuration(peer) {
            error!(
                %peer,
                "that member says that it has another configuration (members, keys, f, protocol, \
                 pillars, request_auth or sizes); if so, neither counts what the other signs: \
                 compare the cluster.toml of both, and the versions of the program"
            );
        }
    }

    pub(crate) fn tell(
        &self,
        to: impl Iterator<Item = MemberId>,
        message: &Message,
        driver: &mut impl Driver,
    ) {
        let bytes = message.to_bytes();
        for peer in to {
            driver.send_peer(peer, "epochs", |to| {
                to.u8(EPOCHS);
                to.array(&bytes);
            });
        }
    }

    /// Goes over to the next epoch, if its beginning is proved.
    pub(crate) fn begin_epoch(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        // A state that the next epoch may rest on is being saved.
        if self.store.as_ref().is_some_and(|store| store.is_ending()) {
            return Ok(());
        }
        if self.epoch_manager.leaving.is_some() {
            return self.leave(driver);
        }
        let Some((membership, sources)) = self.epoch_manager.next.take() else { return Ok(()) };
        let mine = self.ended.take();
        self.wedging = Wedging::default();
        // Only the next epoch begins where this one ended; one behind it begins further on.
        let follows = self.engine.epoch.next() == membership.epoch;
        let diverged = mine.filter(|mine| follows && *mine != membership.base);
        let fetch = (mine != Some(membership.base)).then_some(sources);
        info!(epoch = %membership.epoch, slot = %membership.base.slot, "the epoch begins");
        self.engine.counters.epochs += 1;
        self.engine.authenticator.begin_epoch(&membership).map_err(Halt::Counter)?;
        self.epoch_manager.has_former_keys = true;
        if are_made_anew(&membership, self.executor.membership()) {
            self.admission.strict_from_ms = self.engine.now_ms + FOLLOWING_MS;
        }
        self.roll_back(self.executor.committed(), driver)?;
        let earlier = self.executor.membership().clone();
        self.executor.begin_epoch(membership.clone());
        self.check_service()?;
        if let Some(store) = &mut self.store {
            let start = self.epoch_manager.start(membership.clone());
            store.begin_epoch(start, fetch.is_some())?;
        }
        self.reads.begin_epoch(membership.base.slot);
        self.transfer.begin_epoch(membership.members.iter().map(|it| it.id));
        let ids = membership.members.iter().map(|it| it.id);
        let came = ids.filter(|id| earlier.index_of(*id).is_none());
        let stays = |member| membership.index_of(member).is_some();
        self.others.begin_epoch(stays, came, self.engine.now_ms);
        // It may be what is looked at just now.
        self.has_leavers = true;
        let verifier = self.epoch_manager.factory.verifier(&membership);
        let core = self.start_core(&membership, &verifier, fetch);
        let before = self.engine.places.configuration;
        self.engine.begin_epoch(&membership, verifier, core, driver);
        self.replies.set_speculates(self.engine.core.rules().speculative);
        if membership.configuration != before {
            self.tell_configuration(driver);
        }
        driver.observe(Observed::Began(&membership));
        if let Some(mine) = diverged {
            self.on_diverged(mine.slot, driver);
        }
        self.resuming.begin_epoch();
        self.resuming.begin(self.epoch_manager.epochs.is_admitted(), self.engine.now_ms);
        if self.is_resuming() { Ok(()) } else { self.begin(driver) }
    }

    /// The group goes on with another state than this replica had at the end of the last epoch.
    pub(crate) fn on_diverged(&mut self, slot: Slot, driver: &mut impl Driver) {
        self.engine.counters.diverged += 1;
        warn!(%slot, "this replica's state differs from the group's");
        driver.observe(Observed::Diverged(slot));
    }

    /// The core of an epoch, or none if the epoch does not admit this replica's device.
    fn start_core(
        &mut self,
        membership: &Arc<Membership>,
        verifier: &Arc<dyn Verifier>,
        fetch: Option<ReplicaSet>,
    ) -> Box<dyn ReplicaCore> {
        if !self.epoch_manager.epochs.is_admitted() {
            warn!(epoch = %membership.epoch, "not admitted; asking the group to admit this device");
        }
        let memory = match self.store {
            Some(_) => Memory::Durable { executed: membership.base, records: Vec::new() },
            None => Memory::Volatile,
        };
        let epoch_manager = &mut self.epoch_manager;
        let starting = Starting {
            is_admitted: epoch_manager.epochs.is_admitted(),
            is_split: self.is_split,
            factory: &mut *epoch_manager.factory,
        };
        let Parts { core, pillar_cores } = starting.start(membership, fetch, memory);
        self.engine.effects = core.effects;
        // The messages that pillars were to be sent belong to the epoch before.
        self.to_pillars.clear();
        self.begin_pillars(membership, verifier, pillar_cores);
        core.core
    }

    /// Has pillars with threads of their own begin the epoch with these.
    fn begin_pillars(
        &mut self,
        membership: &Arc<Membership>,
        verifier: &Arc<dyn Verifier>,
        pillar_cores: Vec<Started>,
    ) {
        for (pillar, started) in (0..).zip(pillar_cores) {
            let (membership, verifier) = (membership.clone(), verifier.clone());
            let next = NextEpoch { membership, verifier, started };
            self.to_pillars.push((pillar, ToPillar::Epoch(Box::new(next))));
        }
    }
}

/// Whether clients have to make their requests anew when a group comes from one epoch to the next:
/// they convince replicas otherwise, or by MACs under keys that they share with other signing keys.
fn are_made_anew(next: &Membership, before: &Membership) -> bool {
    let means = |of: &Membership| {
        let stated = of.stated.as_ref()?;
        let shared = (stated.requests == RequestMeans::Macs).then_some(stated.number);
        Some((stated.requests, shared))
    };
    means(next) != means(before)
}
