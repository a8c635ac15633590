//! From epoch to epoch: what [`pentarchy_core::epochs`] asks of this host.

use crate::config::{EpochFactory, Split, Started};
use crate::error::Fatal;
use crate::network::Network;
use crate::pillars::pillar::{NextEpoch, Told};
use crate::unit::Unit;
use bytes::Bytes;
use pentarchy_core::auth::Verifier;
use pentarchy_core::epochs::{Admission, Epochs, Handover, Message, Step};
use pentarchy_core::erased::{CoreEvent, ReplicaCore};
use pentarchy_core::ids::{Epoch, Millis, ReplicaId, ReplicaSet};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::outsider::Outsider;
use pentarchy_core::protocol::{Memory, Reject, Rules};
use pentarchy_core::request::{Draft, Envelope, Request};
use pentarchy_core::wire::Wire;
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_storage::kept::Then;
use std::sync::Arc;
use tracing::{error, info, warn};

/// First byte of a peer's message: an [`Message`] follows.
pub const EPOCHS: u8 = 2;

/// The epochs of one replica, and what makes the parts that change with them.
pub struct Succession {
    /// They are ahead of the core that runs until the present event is dealt with.
    pub epochs: Epochs,
    factory: Box<dyn EpochFactory>,
    signer: ClientSigner,
    life: Life,
    /// The number of the last request to be admitted.
    asked: u64,
    steps: Vec<Step>,
    /// To be started when the present event is dealt with.
    next: Option<(Arc<Membership>, ReplicaSet)>,
}

impl Succession {
    pub fn new(
        epochs: Epochs,
        life: Life,
        factory: Box<dyn EpochFactory>,
        signer: ClientSigner,
    ) -> Self {
        Self { epochs, factory, signer, life, asked: 0, steps: Vec::new(), next: None }
    }

    /// A request under this replica's key to count by the device that it has now.
    fn admission(&mut self, epoch: Epoch, now: Millis) -> Arc<Envelope> {
        self.asked = now.0.max(self.asked + 1);
        let operation = Admission { epoch, life: self.life }.to_bytes();
        let request = Request { number: self.asked, operation };
        let client = self.signer.client_id();
        let requests = vec![request];
        let draft = Draft { client, floor: self.asked, events: None, requests };
        Arc::new(self.signer.seal(draft))
    }
}

impl Unit {
    /// A peer spoke about epochs.
    pub fn on_epochs(
        &mut self,
        peer: ReplicaId,
        bytes: &Bytes,
        network: &mut Network,
    ) -> Result<(), Fatal> {
        match Message::from_bytes(bytes) {
            Err(_) => self.speaker.reject(peer, Reject::Malformed),
            Ok(Message::Admit(envelope)) => return self.on_admit(peer, envelope, network),
            Ok(message) => {
                let Succession { epochs, steps, .. } = &mut self.succession;
                epochs.on_message(peer, message, &*self.speaker.verifier, steps);
                self.carry_out_succession(network);
            }
        }
        self.begin_epoch(network)
    }

    /// A message of another epoch came.
    pub fn on_other_epoch(&mut self, peer: ReplicaId, epoch: Epoch, network: &mut Network) {
        network.counters.other_epoch += 1;
        let Succession { epochs, steps, .. } = &mut self.succession;
        epochs.on_other_epoch(peer, epoch, steps);
        self.carry_out_succession(network);
    }

    /// A member asks to be admitted: the group orders that like any client's request.
    fn on_admit(
        &mut self,
        peer: ReplicaId,
        envelope: Arc<Envelope>,
        network: &mut Network,
    ) -> Result<(), Fatal> {
        let member = self.succession.epochs.membership().member(&envelope.client);
        if member != Some(peer) || !self.speaker.verifier.envelope(&envelope) {
            self.speaker.reject(peer, Reject::BadRequest);
            return Ok(());
        }
        self.note_asking(peer, &envelope);
        match self.answer_settled(envelope, network) {
            Some(request) => self.step(CoreEvent::Input(request), network),
            None => Ok(()),
        }
    }

    /// Takes note of a member that asks to be admitted in this epoch.
    fn note_asking(&mut self, peer: ReplicaId, envelope: &Envelope) {
        let membership = self.succession.epochs.membership();
        let asks = envelope.requests.iter().any(|request| {
            Admission::from_bytes(&request.operation).is_ok_and(|Admission { epoch, life }| {
                let admitted = membership.members[usize::from(peer.0)].life();
                epoch == membership.epoch && life != admitted
            })
        });
        if asks {
            self.others.on_asked(peer, self.speaker.now_ms);
        }
    }

    /// Says in the log that the group cannot go on, when that shows.
    fn look_whether_lost(&mut self) {
        let (f, now_ms) = (self.succession.epochs.membership().f, self.speaker.now_ms);
        if self.others.look(f, now_ms) {
            let asking = self.others.asking(now_ms);
            error!(?asking, f, "more than f replicas lost their memory; this group cannot go on");
        }
    }

    /// The last executed slot was the last of its epoch.
    pub fn on_ended(&mut self, network: &mut Network) -> Result<(), Fatal> {
        let Some(handover) = self.executor.handover() else { return Ok(()) };
        self.check_service()?;
        info!(epoch = %handover.epoch, slot = %handover.base.slot, "the epoch ends");
        self.ended = Some(handover.base);
        // What this replica signs for, others may need to have from it after a crash.
        self.when_saved(Then::Ended(handover), network)
    }

    /// Says how the epoch ends, unless it is known by now.
    pub fn vote_for(&mut self, handover: Handover, network: &mut Network) {
        if handover.epoch != self.succession.epochs.membership().epoch {
            return;
        }
        let Succession { epochs, steps, .. } = &mut self.succession;
        epochs.on_ended(handover, |digest| self.speaker.authenticator.sign(digest), steps);
        self.carry_out_succession(network);
    }

    /// Time has passed.
    pub fn on_succession_round(&mut self, now: Millis, network: &mut Network) -> Result<(), Fatal> {
        let Succession { epochs, steps, .. } = &mut self.succession;
        epochs.on_round(Millis(self.speaker.now_ms), steps);
        if steps.contains(&Step::AskAdmission) {
            self.others.on_asked(self.speaker.me, self.speaker.now_ms);
            let message = Message::Admit(self.succession.admission(self.speaker.epoch, now));
            self.tell(self.speaker.others, &message, network);
        }
        self.look_whether_lost();
        self.carry_out_succession(network);
        self.begin_epoch(network)
    }

    fn carry_out_succession(&mut self, network: &mut Network) {
        for step in std::mem::take(&mut self.succession.steps) {
            match step {
                Step::Send { to, message } => self.tell(to, &message, network),
                Step::Begin { membership, sources } => {
                    self.succession.next = Some((membership, sources));
                }
                Step::AskAdmission => {}
            }
        }
    }

    fn tell(&self, to: ReplicaSet, message: &Message, network: &mut Network) {
        let bytes = message.to_bytes();
        for peer in to.iter() {
            network.send_peer(peer, "epochs", |to| {
                to.u8(EPOCHS);
                to.array(&bytes);
            });
        }
    }

    /// Goes over to the next epoch, if its beginning is proved.
    pub fn begin_epoch(&mut self, network: &mut Network) -> Result<(), Fatal> {
        // A state that the next epoch may rest on is being saved.
        if self.keeper.as_ref().is_some_and(|keeper| keeper.is_ending()) {
            return Ok(());
        }
        let Some((membership, sources)) = self.succession.next.take() else { return Ok(()) };
        let mine = self.ended.take();
        // Only the next epoch begins where this one ended; one behind it begins further on.
        let follows = self.speaker.epoch.next() == membership.epoch;
        if let Some(mine) = mine.filter(|mine| follows && *mine != membership.base) {
            network.counters.diverged += 1;
            warn!(slot = %mine.slot, "this replica's state differs from the group's");
        }
        let fetch = (mine != Some(membership.base)).then_some(sources);
        info!(epoch = %membership.epoch, slot = %membership.base.slot, "the epoch begins");
        network.counters.epochs += 1;
        self.speaker.authenticator.begin_epoch(&membership).map_err(Fatal::Counter)?;
        self.executor.begin_epoch(membership.clone());
        self.check_service()?;
        if let Some(keeper) = &mut self.keeper {
            let proof = self.succession.epochs.proof().cloned();
            keeper.begin_epoch(membership.clone(), proof, fetch.is_some())?;
        }
        self.reads.begin_epoch(membership.base.slot);
        self.transfer.give_up();
        self.others.begin_epoch();
        let verifier = self.succession.factory.verifier(&membership);
        let core = self.start_core(&membership, &verifier, fetch);
        self.speaker.begin_epoch(membership.epoch, verifier, core);
        self.resuming.begin_epoch();
        self.resuming.begin(self.succession.epochs.is_admitted(), self.speaker.now_ms);
        if self.is_resuming() { Ok(()) } else { self.begin(network) }
    }

    /// The core of an epoch, or none if the epoch does not admit this replica's device.
    fn start_core(
        &mut self,
        membership: &Arc<Membership>,
        verifier: &Arc<dyn Verifier>,
        fetch: Option<ReplicaSet>,
    ) -> Box<dyn ReplicaCore> {
        if !self.succession.epochs.is_admitted() {
            warn!(epoch = %membership.epoch, "not admitted; asking the group to admit this device");
        }
        let memory = match self.keeper {
            Some(_) => Memory::Durable { executed: membership.base, records: Vec::new() },
            None => Memory::Volatile,
        };
        let rules = self.speaker.core.rules();
        let succession = &mut self.succession;
        let starting = Starting {
            is_admitted: succession.epochs.is_admitted(),
            is_split: self.is_split,
            rules,
            factory: &mut *succession.factory,
        };
        let Parts { core, cells } = starting.start(membership, fetch, memory);
        self.speaker.effects = core.effects;
        // What they were to be told is of the epoch before.
        self.telling.clear();
        self.begin_pillars(membership, verifier, cells);
        core.core
    }

    /// Has pillars with threads of their own begin the epoch with these.
    fn begin_pillars(
        &mut self,
        membership: &Arc<Membership>,
        verifier: &Arc<dyn Verifier>,
        cells: Vec<Started>,
    ) {
        for (pillar, started) in (0..).zip(cells) {
            let (membership, verifier) = (membership.clone(), verifier.clone());
            let next = NextEpoch { membership, verifier, started };
            self.telling.push((pillar, Told::Epoch(Box::new(next))));
        }
    }
}

/// What decides which cores an epoch begins with.
pub struct Starting<'a> {
    pub is_admitted: bool,
    /// In parts, for threads of their own.
    pub is_split: bool,
    pub rules: Rules,
    pub factory: &'a mut dyn EpochFactory,
}

/// The core of an epoch, and those that it merges if it is in parts.
pub struct Parts {
    pub core: Started,
    pub cells: Vec<Started>,
}

impl Starting<'_> {
    /// Starts the core; nothing that takes part where the device is not admitted.
    pub fn start(
        self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: Memory,
    ) -> Parts {
        let Self { is_admitted, is_split, rules, factory } = self;
        let pillars = if is_split { membership.lane.pillars } else { 0 };
        if !is_admitted {
            let outsider = |_| Started { core: Box::new(Outsider { rules }), effects: Vec::new() };
            return Parts { core: outsider(0), cells: (0..pillars).map(outsider).collect() };
        }
        if is_split && let Some(Split { stage, cells }) = factory.split(membership, fetch, &memory)
        {
            return Parts { core: stage, cells };
        }
        let mut effects = Vec::new();
        let core = factory.core(membership, fetch, memory, &mut effects);
        Parts { core: Started { core, effects }, cells: Vec::new() }
    }
}
