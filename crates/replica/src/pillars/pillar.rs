//! A pillar on a thread of its own: its sockets, its clock and its mailboxes.

use super::mailbox::{Bell, Mail, Mailbox};
use super::report::Latest;
use crate::driver::SocketDriver;
use crate::error::Fatal;
use crate::fault::{Fault, FaultSwitch};
use crate::network::Handed;
use crate::process::thread_cpu_micros;
use crate::reading::{Reader, tell_links};
use crate::rounds::wait_ms;
use crate::status::ThreadReport;
use pentarchy_io::buffers;
use pentarchy_machine::PillarInstance;
use pentarchy_machine::pillar::{FromPillar, ToPillar};
use pentarchy_storage::kept::LogHandle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Milliseconds between two reports.
const REPORT_MS: u64 = 100;

/// What the replica's thread sends to a pillar's.
pub enum Letter {
    /// For the pillar.
    Pillar(ToPillar),
    /// A peer dialled it.
    Connection(Box<Handed>),
}

impl From<ToPillar> for Letter {
    fn from(told: ToPillar) -> Self {
        Self::Pillar(told)
    }
}

impl Mail for Letter {
    fn bytes(&self) -> usize {
        match self {
            Self::Pillar(told) => told.bytes(),
            Self::Connection(handed) => handed.bytes(),
        }
    }
}

impl Mail for FromPillar {
    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}

/// See the module.
pub struct PillarThread {
    instance: PillarInstance<LogHandle>,
    driver: SocketDriver,
    reader: Reader,
    pub faults: Option<FaultSwitch>,
    bell: Arc<Bell>,
    told: Arc<Mailbox<Letter>>,
    said: Arc<Mailbox<FromPillar>>,
    /// Room for what it was told.
    mail: Vec<Letter>,
    rounds: u64,
    /// What it has counted, and how its thread is.
    pub latest: Latest,
    reported_ms: u64,
}

impl PillarThread {
    pub fn new(
        instance: PillarInstance<LogHandle>,
        driver: SocketDriver,
        bell: Arc<Bell>,
        told: Arc<Mailbox<Letter>>,
        said: Arc<Mailbox<FromPillar>>,
    ) -> Self {
        Self {
            instance,
            driver,
            reader: Reader::default(),
            faults: None,
            bell,
            told,
            said,
            mail: Vec::new(),
            rounds: 0,
            latest: Latest::default(),
            reported_ms: 0,
        }
    }

    /// Works until `stop` is set.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), Fatal> {
        buffers::keep(self.driver.network.limits().spare_bytes);
        while !stop.load(Ordering::Relaxed) {
            self.round()?;
        }
        Ok(())
    }

    fn round(&mut self) -> Result<(), Fatal> {
        // What is durable from here on wakes it, also if that comes while it looks.
        self.bell.waits_for_disk(true);
        self.bell.going_to_sleep();
        let waits_for_disk = self.instance.waits_for_disk();
        self.bell.waits_for_disk(waits_for_disk || self.instance.lag_entries() > 0);
        // What peers say leads to what the replica is told.
        let is_reading = self.instance.may_speak() && !waits_for_disk && !self.said.is_full();
        let is_late = !self.told.is_empty() || self.instance.is_late(is_reading);
        let timeout = if is_late { Duration::ZERO } else { self.timeout() };
        let happened = self.driver.network.wait(timeout, is_reading);
        self.bell.woken();
        let mut happened = happened? || is_late;
        let fault = self.faults.as_ref().map(FaultSwitch::get);
        let now_ms = self.driver.begin_round(fault);
        let Self { instance, driver, .. } = self;
        instance.begin_round(now_ms, fault.unwrap_or(Fault::None), driver)?;
        happened |= self.take_mail(now_ms)?;
        let Self { instance, driver, reader, .. } = self;
        instance.check();
        driver.network.open(now_ms);
        if is_reading {
            reader.read(driver, now_ms, instance);
            instance.deliver_peers(driver)?;
        } else {
            reader.settle(driver, now_ms, instance);
        }
        tell_links(driver, instance);
        while let Some(timer) = driver.timers.pop(now_ms) {
            happened = true;
            instance.on_timeout(timer, driver)?;
        }
        let now = driver.clock.now();
        instance.end_round(happened, now, driver)?;
        self.rounds += u64::from(happened);
        self.report(now_ms);
        // First: the replica can execute while this thread encrypts.
        self.said.post(self.instance.saying());
        self.driver.network.flush(now_ms);
        Ok(())
    }

    fn timeout(&self) -> Duration {
        let now_ms = self.driver.clock.elapsed_ms();
        Duration::from_millis(wait_ms([self.driver.next_ms()], now_ms))
    }

    /// Whether there was any.
    fn take_mail(&mut self, now_ms: u64) -> Result<bool, Fatal> {
        let mut mail = std::mem::take(&mut self.mail);
        self.told.take(&mut mail);
        let any = !mail.is_empty();
        let result = mail.drain(..).try_for_each(|letter| match letter {
            Letter::Pillar(told) => Ok(self.instance.on_replica(told, &mut self.driver)?),
            Letter::Connection(handed) => {
                self.adopt(*handed, now_ms);
                Ok(())
            }
        });
        self.mail = mail;
        result.map(|()| any)
    }

    fn adopt(&mut self, handed: Handed, now_ms: u64) {
        let (peer, mut messages) = (handed.peer, Vec::new());
        if self.driver.network.adopt(handed, now_ms, &mut messages).is_some() {
            self.instance.on_peer(peer, messages.into_iter(), true);
        }
    }

    fn report(&mut self, now_ms: u64) {
        if self.reported_ms > 0 && now_ms < self.reported_ms + REPORT_MS {
            return;
        }
        self.reported_ms = now_ms;
        let thread = ThreadReport {
            peers: self.driver.network.peers.connected().map(|(id, _)| id.0).collect(),
            rounds: self.rounds,
            cpu_micros: thread_cpu_micros(),
            silent_ms: 0,
        };
        self.latest.set(self.instance.report(&self.driver.report()), thread);
    }
}

#[cfg(test)]
mod with_log;

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::config::{HostLimits, Started};
    use crate::network::{Group, Network, round, until};
    use crate::pillars::mailbox::{SAID_MESSAGES, TOLD_MESSAGES};
    use pentarchy_core::counter::{Counter, Ui};
    use pentarchy_core::digest::Digest;
    use pentarchy_core::ids::{Epoch, MemberId, ReplicaId};
    use pentarchy_core::outsider::Outsider;
    use pentarchy_core::ports::replica::Input;
    use pentarchy_core::protocol::{Authority, FaultModel, Rules, Timeouts};
    use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
    use pentarchy_crypto::authenticator::Authenticator;
    use pentarchy_crypto::verifier::{GroupVerifier, RequestMode, UsigCheck};
    use pentarchy_io::poll::{Poller, Token};
    use pentarchy_machine::{Engine, EngineParts, PROTOCOL, Seen};
    use pentarchy_storage::kept::Barrier;

    pub const RULES: Rules = Rules {
        name: "none",
        fault_model: FaultModel::Hybrid,
        group_size: Count::per_fault_and_one(2),
        quorum: QuorumRule::Majority,
        replies: Count::per_fault_and_one(1),
        reads: ReadRule::All,
        pillars: true,
        speculative: false,
        hears_slot_results: false,
        replies_itself: false,
        authority: Authority::Members,
        counter: Some(Counter::Usig),
    };

    struct NoCheck;

    impl UsigCheck for NoCheck {
        fn check(&self, _: ReplicaId, _: &Ui, _: &Digest) -> bool {
            false
        }
    }

    /// With this network.
    pub fn driver(network: Network) -> SocketDriver {
        SocketDriver::new(network, Timeouts::default())
    }

    /// Of a core that hears nobody, and keeps nothing.
    pub fn silent(group: &Group) -> PillarInstance<LogHandle> {
        instance(group, None)
    }

    /// Of a core that hears nobody.
    pub fn instance(
        group: &Group,
        barrier: Option<Barrier<LogHandle>>,
    ) -> PillarInstance<LogHandle> {
        let membership = group.membership.clone();
        let engine = Engine::new(EngineParts {
            core: Started { core: Box::new(Outsider { rules: RULES }), effects: Vec::new() },
            verifier: verifier(group),
            authenticator: Box::new(Authenticator::new(group.keys[0].clone(), Vec::new())),
            me: MemberId(0),
            membership,
            checks_itself: true,
        });
        PillarInstance::new(engine, barrier, Seen::default(), HostLimits::default())
    }

    /// What checks the group's statements.
    pub fn verifier(group: &Group) -> Arc<GroupVerifier> {
        let (membership, mode) = (group.membership.clone(), RequestMode::Signature);
        Arc::new(GroupVerifier::new(membership, Arc::new(NoCheck), mode, None).unwrap())
    }

    /// Messages that a pillar has refused.
    pub fn refusals(pillar: &PillarThread) -> u64 {
        let report = pillar.instance.report(&pillar.driver.report());
        report.messages.by_kind().get("refused").map_or(0, |flow| flow.messages_in)
    }

    pub fn bell(poller: &Poller) -> Arc<Bell> {
        Arc::new(Bell::new(poller.waker(Token(0)).unwrap()))
    }

    #[test]
    fn a_pillar_reads_nothing_while_what_it_said_is_not_heard() {
        let (group, listener) = Group::new();
        let (mut acceptor, mut theirs) = (group.acceptor(listener, 2), group.of_pillar(1, 1));
        let mut handed = Vec::new();
        until(|now_ms| {
            round(&mut theirs, now_ms);
            round(&mut acceptor, now_ms);
            handed.extend(acceptor.take_handed());
            !handed.is_empty()
        });
        let network = group.of_pillar(1, 0);
        let mine = Arc::new(Bell::new(network.waker().unwrap()));
        let replica = bell(&Poller::new().unwrap());
        let told = Arc::new(Mailbox::new(replica.clone(), mine.clone(), TOLD_MESSAGES));
        let said = Arc::new(Mailbox::new(mine.clone(), replica, SAID_MESSAGES));
        let (told_too, said_too) = (told.clone(), said.clone());
        let mut pillar =
            PillarThread::new(silent(&group), driver(network), mine, told_too, said_too);
        let connection = handed.pop().unwrap();
        told.post(&mut vec![ToPillar::Speak.into(), Letter::Connection(connection.into())]);
        pillar.round().unwrap();
        let mut heard = Vec::new();
        said.take(&mut heard);

        let flood = (0..SAID_MESSAGES).map(|_| FromPillar::OtherEpoch(MemberId(1), Epoch(9)));
        said.post(&mut flood.collect());
        until(|now_ms| {
            round(&mut theirs, now_ms);
            theirs.peers.connected().count() == 1
        });
        theirs.send_peer(MemberId(0), "test", |to| to.array(&[PROTOCOL; 5]));
        theirs.flush(0);
        let refused = |pillar: &PillarThread| refusals(pillar) > 0;
        (0..10).for_each(|_| pillar.round().unwrap());
        assert!(!refused(&pillar), "what it says to that nobody has room for");
        told.post(&mut vec![ToPillar::Input(Box::new(Input::Compact)).into()]);
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
