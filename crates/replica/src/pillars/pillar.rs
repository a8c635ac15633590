//! A pillar on a thread of its own: its core among its peers. It shares nothing with other threads
//! but what it tells the replica and is told.

use super::mailbox::{Bell, Mail, Mailbox};
use super::prepared::Prepared;
use super::report::{Latest, Report};
use crate::checking::Checked;
use crate::config::Started;
use crate::error::Fatal;
use crate::fault::FaultSwitch;
use crate::inbound::{Heard, Inbound};
use crate::network::{Handed, Network};
use crate::resuming::Seen;
use crate::rounds::{ROUND_MS, wait_ms};
use crate::speaker::{Opened, PROTOCOL, Speaker};
use crate::status::{ThreadReport, thread_cpu_micros};
use bytes::Bytes;
use pentarchy_core::auth::Verifier;
use pentarchy_core::erased::{CoreEffect, CoreEvent};
use pentarchy_core::ids::{Epoch, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::Reject;
use pentarchy_core::request::Envelope;
use pentarchy_io::buffers;
use pentarchy_io::clock::Clock;
use pentarchy_storage::kept::{Barrier, EntryLog as _, Pen};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Milliseconds between two reports.
const REPORT_MS: u64 = 100;

/// Envelopes of clients that are checked in one round: of a millisecond or two, if they are signed.
const CHECKED_IN_A_ROUND: usize = 64;

/// What the replica tells a pillar.
pub enum Told {
    /// For its core.
    Input(Box<Input>),
    /// Clients sent these: whether they are authentic.
    Check(Vec<Arc<Envelope>>),
    /// Somebody dialled it.
    Connection(Box<Handed>),
    /// It goes over to this epoch.
    Epoch(Box<NextEpoch>),
    /// It may speak, in its epoch.
    Speak,
}

/// What changes with the epoch.
pub struct NextEpoch {
    pub membership: Arc<Membership>,
    pub verifier: Arc<dyn Verifier>,
    pub started: Started,
}

impl Mail for Told {
    fn bytes(&self) -> usize {
        match self {
            Self::Input(input) => match &**input {
                Input::Request { envelope, .. } => envelope.len(),
                Input::Beside { batch } | Input::Executed { batch } => batch.bytes(),
                _ => 0,
            },
            Self::Check(envelopes) => envelopes.iter().map(|envelope| envelope.len()).sum(),
            Self::Connection(handed) => handed.bytes(),
            Self::Epoch(_) | Self::Speak => 0,
        }
    }
}

/// What a pillar tells the replica.
pub enum Said {
    /// Its core said this in that epoch.
    Output(Epoch, Box<Output>),
    /// What it has found.
    Checked(Checked),
    /// In that epoch it has kept again all that it needs, from this entry of the log on.
    KeptAgain(Epoch, u64),
    /// A peer is in another epoch.
    OtherEpoch(ReplicaId, Epoch),
}

impl Mail for Said {
    fn bytes(&self) -> usize {
        match self {
            Self::Output(_, output) => match &**output {
                Output::Admit { envelope } | Output::Full { envelope } => envelope.len(),
                Output::Execute { batch, .. } => batch.bytes(),
                _ => 0,
            },
            Self::Checked(checked) => checked.bytes(),
            Self::KeptAgain(..) | Self::OtherEpoch(..) => 0,
        }
    }
}

/// What a pillar is made of.
pub struct PillarParts {
    pub speaker: Speaker,
    pub network: Network,
    /// Behind which what it says waits, if it keeps anything.
    pub barrier: Option<Barrier<Pen>>,
    /// Where it notes what others said.
    pub seen: Seen,
}

/// See the module.
pub struct Pillar {
    speaker: Speaker,
    network: Network,
    barrier: Option<Barrier<Pen>>,
    /// From which entry on it is keeping again what it needs.
    keeps_from: u64,
    seen: Seen,
    /// Until it is told that it may speak in this epoch, it hears nothing either.
    may_speak: bool,
    inbound: Inbound,
    clock: Clock,
    pub faults: Option<FaultSwitch>,
    bell: Arc<Bell>,
    told: Arc<Mailbox<Told>>,
    said: Arc<Mailbox<Said>>,
    /// Room for what it was told, and for what it has to say at the end of the round.
    mail: Vec<Told>,
    saying: Vec<Said>,
    /// What clients sent: no more than the replica has [waiting](crate::config::HostLimits).
    to_check: VecDeque<Arc<Envelope>>,
    /// Who spoke of which other epoch in this round.
    other_epochs: BTreeMap<ReplicaId, Epoch>,
    /// When the core was last told that a round is over.
    round_ms: u64,
    rounds: u64,
    /// What it has counted, and how its thread is.
    pub latest: Latest,
    /// What queries must not miss of what it knows.
    pub prepared: Prepared,
    reported_ms: u64,
}

impl Pillar {
    pub fn new(
        parts: PillarParts,
        bell: Arc<Bell>,
        told: Arc<Mailbox<Told>>,
        said: Arc<Mailbox<Said>>,
    ) -> Self {
        let PillarParts { speaker, network, barrier, seen } = parts;
        let prepared = Prepared::default();
        prepared.set(speaker.core.reads_from());
        Self {
            speaker,
            network,
            barrier,
            keeps_from: 0,
            seen,
            may_speak: false,
            inbound: Inbound::default(),
            clock: Clock::default(),
            faults: None,
            bell,
            told,
            said,
            mail: Vec::new(),
            saying: Vec::new(),
            to_check: VecDeque::new(),
            other_epochs: BTreeMap::new(),
            round_ms: 0,
            rounds: 0,
            latest: Latest::default(),
            prepared,
            reported_ms: 0,
        }
    }

    /// Works until `stop` is set.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), Fatal> {
        buffers::keep(self.network.limits().spare_bytes);
        while !stop.load(Ordering::Relaxed) {
            self.round()?;
        }
        Ok(())
    }

    fn round(&mut self) -> Result<(), Fatal> {
        // What is durable from here on wakes it, also if that comes while it looks.
        self.bell.waits_for_disk(true);
        self.bell.going_to_sleep();
        let waits_for_disk = self.waits_for_disk();
        self.bell.waits_for_disk(waits_for_disk || self.lag_entries() > 0);
        // What peers say leads to what the replica is told.
        let is_reading = self.may_speak && !waits_for_disk && !self.said.is_full();
        let is_late = !self.told.is_empty()
            || !self.to_check.is_empty()
            || is_reading && !self.inbound.is_empty()
            || self.barrier.as_ref().is_some_and(Barrier::has_news);
        let timeout = if is_late { Duration::ZERO } else { self.timeout() };
        let happened = self.network.wait(timeout, is_reading);
        self.bell.woken();
        let mut happened = happened? || is_late;
        let now_ms = self.clock.elapsed_ms();
        self.speaker.now_ms = now_ms;
        self.misbehave(now_ms);
        self.release()?;
        happened |= self.take_mail(now_ms)?;
        self.check();
        self.network.open(now_ms);
        if is_reading {
            self.read(now_ms)?;
        } else {
            self.inbound.settle(&mut self.network, now_ms);
        }
        while let Some(timer) = self.speaker.timers.pop(now_ms) {
            happened = true;
            self.step(CoreEvent::Timeout(timer))?;
        }
        if happened || now_ms >= self.round_ms + ROUND_MS {
            self.round_ms = now_ms;
            let now = self.clock.now();
            self.step(CoreEvent::Input(Input::Round { now }))?;
        }
        self.release()?;
        if self.lag_entries() > 0 {
            // All that waits in this round, with one sync, and what other threads have for it.
            self.barrier.iter().for_each(|barrier| barrier.log().write());
        }
        self.rounds += u64::from(happened);
        self.report(now_ms);
        // First: the replica can execute while this thread encrypts.
        self.said.post(&mut self.saying);
        self.network.flush(now_ms);
        Ok(())
    }

    fn timeout(&self) -> Duration {
        let (speaker, network) = (&self.speaker, &self.network);
        let deadlines = [speaker.timers.next_ms(), network.next_ms(), network.late_ms()];
        Duration::from_millis(wait_ms(deadlines, self.clock.elapsed_ms()))
    }

    fn misbehave(&mut self, now_ms: u64) {
        let Some(switch) = &self.faults else { return };
        self.speaker.fault = switch.get();
        self.network.set_fault(self.speaker.fault, now_ms);
        self.network.send_late(now_ms);
    }

    /// Whether there was any.
    fn take_mail(&mut self, now_ms: u64) -> Result<bool, Fatal> {
        let mut mail = std::mem::take(&mut self.mail);
        self.told.take(&mut mail);
        let any = !mail.is_empty();
        let result = mail.drain(..).try_for_each(|told| match told {
            Told::Input(input) => self.step(CoreEvent::Input(*input)),
            Told::Check(envelopes) => {
                self.to_check.extend(envelopes);
                Ok(())
            }
            Told::Connection(handed) => {
                self.adopt(*handed, now_ms);
                Ok(())
            }
            Told::Epoch(next) => self.begin_epoch(*next),
            Told::Speak => self.speak(),
        });
        self.mail = mail;
        result.map(|()| any)
    }

    /// Checks some of what clients sent: whoever sends much takes little time of a round.
    fn check(&mut self) {
        let some = self.to_check.len().min(CHECKED_IN_A_ROUND);
        if some > 0 {
            let envelopes = self.to_check.drain(..some).collect();
            let Speaker { verifier, epoch, .. } = &self.speaker;
            self.saying.push(Said::Checked(Checked::by(&**verifier, *epoch, envelopes)));
        }
    }

    fn adopt(&mut self, handed: Handed, now_ms: u64) {
        let (peer, mut messages) = (handed.peer, Vec::new());
        if self.network.adopt(handed, now_ms, &mut messages).is_some() {
            self.inbound.begin(peer, messages.into_iter());
        }
    }

    fn begin_epoch(&mut self, next: NextEpoch) -> Result<(), Fatal> {
        let NextEpoch { membership, verifier, started } = next;
        self.speaker.authenticator.begin_epoch(&membership).map_err(Fatal::Counter)?;
        if let Some(barrier) = &mut self.barrier {
            barrier.log_mut().begin_epoch(membership.epoch);
            barrier.begin_epoch();
        }
        self.speaker.begin_epoch(membership.epoch, verifier, started.core);
        self.speaker.effects = started.effects;
        self.may_speak = false;
        Ok(())
    }

    /// Carries out what the core asked for when it was started.
    fn speak(&mut self) -> Result<(), Fatal> {
        self.may_speak = true;
        self.carry_out()?;
        self.drain()
    }

    /// Carries out what waited for the disk, as far as it has come.
    fn release(&mut self) -> Result<(), Fatal> {
        let Some(barrier) = &mut self.barrier else { return Ok(()) };
        barrier.look()?;
        if !self.may_speak {
            return Ok(());
        }
        while let Some(effect) = self.barrier.as_mut().and_then(Barrier::next_message) {
            self.carry(effect)?;
            self.drain()?;
        }
        Ok(())
    }

    /// Entries that are not durable yet.
    fn lag_entries(&self) -> u64 {
        self.barrier.as_ref().map_or(0, Barrier::lag_entries)
    }

    /// Whether so much waits for the disk that nothing more is to be read.
    fn waits_for_disk(&self) -> bool {
        self.barrier.as_ref().is_some_and(|barrier| {
            barrier.log().is_behind()
                || barrier.waiting_bytes() > self.network.limits().disk_queue_bytes
        })
    }

    /// Reads every connection that has something, up to its share, and acts on it.
    fn read(&mut self, now_ms: u64) -> Result<(), Fatal> {
        // Nobody is let in here who is no replica.
        self.inbound.read(&mut self.network, now_ms, |_, _, _| {});
        let mut inbound = std::mem::take(&mut self.inbound);
        let forgers = inbound.deliver(Instant::now, |peer, bytes| self.on_peer(peer, bytes));
        self.inbound = inbound;
        forgers?.iter().for_each(|peer| self.network.pause_peer(peer, now_ms));
        for (peer, epoch) in std::mem::take(&mut self.other_epochs) {
            self.saying.push(Said::OtherEpoch(peer, epoch));
        }
        Ok(())
    }

    fn on_peer(&mut self, peer: ReplicaId, bytes: &Bytes) -> Result<Heard, Fatal> {
        if bytes.first() != Some(&PROTOCOL) {
            let why = Reject::Malformed;
            return Ok(self.speaker.refuse(peer, bytes, why, &mut self.network));
        }
        match self.speaker.open(peer, bytes, &mut self.network) {
            Opened::Message(incoming) => {
                self.seen.note(self.speaker.epoch, &incoming);
                self.step(CoreEvent::Message(incoming))?;
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
    fn step(&mut self, event: CoreEvent) -> Result<(), Fatal> {
        if !self.may_speak {
            return Ok(());
        }
        self.speaker.take(event);
        self.carry_out()?;
        self.drain()
    }

    fn drain(&mut self) -> Result<(), Fatal> {
        while let Some(event) = self.speaker.next_inward() {
            self.speaker.take(event);
            self.carry_out()?;
        }
        Ok(())
    }

    fn carry_out(&mut self) -> Result<(), Fatal> {
        self.prepared.set(self.speaker.core.reads_from());
        let mut effects = std::mem::take(&mut self.speaker.effects);
        let result = effects.drain(..).try_for_each(|effect| self.effect(effect));
        self.speaker.effects = effects;
        result
    }

    fn effect(&mut self, effect: CoreEffect) -> Result<(), Fatal> {
        self.network.counters.records += u64::from(matches!(effect, CoreEffect::Persist(_)));
        let effect = match &mut self.barrier {
            Some(barrier) => barrier.hold(effect)?,
            None => Some(effect),
        };
        effect.map_or(Ok(()), |effect| self.carry(effect))
    }

    /// Carries out what waits for nothing.
    fn carry(&mut self, effect: CoreEffect) -> Result<(), Fatal> {
        let Self { speaker, network, barrier, .. } = self;
        match (speaker.carry(effect, barrier.as_mut(), network)?, barrier) {
            (Some(Output::Keeping { is_done: false, .. }), Some(barrier)) => {
                let memories = speaker.authenticator.memories();
                self.keeps_from = barrier.keep_again(None, memories, speaker.taken)?;
            }
            (Some(Output::Keeping { .. }), _) => {
                self.saying.push(Said::KeptAgain(speaker.epoch, self.keeps_from));
            }
            (Some(output), _) => {
                self.saying.push(Said::Output(speaker.epoch, Box::new(output)));
            }
            (None, _) => {}
        }
        Ok(())
    }

    fn report(&mut self, now_ms: u64) {
        if self.reported_ms > 0 && now_ms < self.reported_ms + REPORT_MS {
            return;
        }
        self.reported_ms = now_ms;
        let thread = ThreadReport {
            peers: self.network.peers.connected().map(|id| id.0).collect(),
            rounds: self.rounds,
            cpu_micros: thread_cpu_micros(),
            silent_ms: 0,
        };
        let mut report = Report::new(&self.speaker, &self.network, &self.inbound);
        report.lag_entries = self.lag_entries();
        report.waiting_messages =
            self.barrier.as_ref().map_or(0, |barrier| barrier.waiting_messages() as u64);
        self.latest.set(report, thread);
    }
}

#[cfg(test)]
mod with_log;

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::network::{Group, round, until};
    use crate::pillars::mailbox::{SAID_MESSAGES, TOLD_MESSAGES};
    use crate::speaker::SpeakerParts;
    use pentarchy_core::counter::{Counter, Ui};
    use pentarchy_core::digest::Digest;
    use pentarchy_core::outsider::Outsider;
    use pentarchy_core::protocol::{FaultModel, Rules, Timeouts};
    use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
    use pentarchy_crypto::authenticator::Authenticator;
    use pentarchy_crypto::verifier::{GroupVerifier, RequestMode, UsigCheck};
    use pentarchy_io::poll::{Poller, Token};

    const RULES: Rules = Rules {
        name: "none",
        fault_model: FaultModel::Hybrid,
        group_size: Count::per_fault_and_one(2),
        quorum: QuorumRule::Majority,
        replies: Count::per_fault_and_one(1),
        reads: ReadRule::All,
        pillars: true,
        speculative: false,
        counter: Some(Counter::Usig),
    };

    struct NoCheck;

    impl UsigCheck for NoCheck {
        fn check(&self, _: ReplicaId, _: &Ui, _: &Digest) -> bool {
            false
        }
    }

    /// Of a core that hears nobody, in this network.
    pub fn made(group: &Group, network: Network) -> PillarParts {
        PillarParts { speaker: deaf(group), network, barrier: None, seen: Seen::default() }
    }

    /// A core that hears nobody.
    fn deaf(group: &Group) -> Speaker {
        let membership = group.membership.clone();
        let mode = RequestMode::Signature;
        let verifier = GroupVerifier::new(membership, Arc::new(NoCheck), mode, None).unwrap();
        Speaker::new(SpeakerParts {
            core: Started { core: Box::new(Outsider { rules: RULES }), effects: Vec::new() },
            verifier: Arc::new(verifier),
            authenticator: Authenticator::new(group.keys[0].clone(), Vec::new()),
            timeouts: Timeouts::default(),
            me: ReplicaId(0),
            others: [ReplicaId(1)].into_iter().collect(),
            epoch: group.membership.epoch,
        })
    }

    pub fn bell(poller: &Poller) -> Arc<Bell> {
        Arc::new(Bell::new(poller.waker(Token(0)).unwrap()))
    }

    #[test]
    fn a_pillar_reads_nothing_while_what_it_said_is_not_heard() {
        let (group, listener) = Group::new();
        let (mut door, mut theirs) = (group.door(listener, 2), group.of_pillar(1, 1));
        let mut handed = Vec::new();
        until(|now_ms| {
            round(&mut theirs, now_ms);
            round(&mut door, now_ms);
            handed.extend(door.take_handed());
            !handed.is_empty()
        });
        let network = group.of_pillar(1, 0);
        let mine = Arc::new(Bell::new(network.waker().unwrap()));
        let replica = bell(&Poller::new().unwrap());
        let told = Arc::new(Mailbox::new(replica.clone(), mine.clone(), TOLD_MESSAGES));
        let said = Arc::new(Mailbox::new(mine.clone(), replica, SAID_MESSAGES));
        let mut pillar = Pillar::new(made(&group, network), mine, told.clone(), said.clone());
        let connection = handed.pop().unwrap();
        told.post(&mut vec![Told::Speak, Told::Connection(connection.into())]);
        pillar.round().unwrap();
        let mut heard = Vec::new();
        said.take(&mut heard);

        let flood = (0..SAID_MESSAGES).map(|_| Said::OtherEpoch(ReplicaId(1), Epoch(9)));
        said.post(&mut flood.collect());
        until(|now_ms| {
            round(&mut theirs, now_ms);
            theirs.peers.connected().count() == 1
        });
        theirs.send_peer(ReplicaId(0), "test", |to| to.array(&[PROTOCOL; 5]));
        theirs.flush(0);
        let refused = |pillar: &Pillar| pillar.network.messages.by_kind().contains_key("refused");
        (0..10).for_each(|_| pillar.round().unwrap());
        assert!(!refused(&pillar), "what it says to that nobody has room for");
        told.post(&mut vec![Told::Input(Box::new(Input::KeepAgain))]);
        pillar.round().unwrap();
        assert!(told.is_empty(), "what it is told it takes");
        heard.clear();
        said.take(&mut heard);
        assert!(heard.len() >= SAID_MESSAGES);
        until(|_| {
            pillar.round().unwrap();
            refused(&pillar)
        });
    }
}
