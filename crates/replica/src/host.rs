//! The rounds.

use crate::admission::{Admission, answer};
use crate::approach::{Approach, Look};
use crate::beginning::Beginning;
use crate::config::ReplicaConfig;
use crate::epochs::Succession;
use crate::error::{Fatal, StartError};
use crate::fault::{Fault, FaultSwitch};
use crate::inbound::Inbound;
use crate::network::{Network, Sender};
use crate::peers::Peers;
use crate::readiness::Settling;
use crate::speaker::{Speaker, SpeakerParts};
use crate::spooling::Spooling;
use crate::status::{CatchUp, CostReport, Fill, PillarReport, StatusReport, allocations, usage};
use crate::unit::{Unit, UnitParts};
use crate::watch::Watch;
use bytes::Bytes;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::ids::{ClientId, ReplicaId, View};
use pentarchy_core::limits::{CLIENTS_MAX, WINDOW_SLOTS};
use pentarchy_core::membership::Life;
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::ports::replica::Input;
use pentarchy_core::protocol::Status;
use pentarchy_core::transfer::Transfer;
use pentarchy_crypto::authenticator::Authenticator;
use pentarchy_io::buffers;
use pentarchy_io::calls::calls;
use pentarchy_io::channel::Identity;
use pentarchy_io::clock::Clock;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{error, error_span, info, warn};

/// The longest a round waits for something to happen: how late a stop, or a core that only looks at
/// the clock, may be.
const IDLE_MS: u64 = 20;

/// The shortest time between two rounds that are reported although nothing happened.
const ROUND_MS: u64 = 5;

/// One replica. It does nothing until it is [run](Self::run).
pub struct Replica {
    network: Network,
    unit: Unit,
    admission: Admission,
    clock: Clock,
    me: ReplicaId,
    protocol: String,
    life: Life,
    faults: Option<FaultSwitch>,
    /// Of its trusted counter, if that is another one than this.
    counter_process: Option<u32>,
    /// When the core was last told that a round is over.
    round_ms: u64,
    ready: Vec<usize>,
    messages: Vec<Bytes>,
    inbound: Inbound,
    started: bool,
    settling: Settling,
    approach: Approach,
    watch: Watch,
    /// Questions there that were answered.
    answered: u64,
}

impl Replica {
    /// Checks the configuration, listens, and starts the core.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn new(config: ReplicaConfig) -> Result<Self, StartError> {
        let ReplicaConfig { me, membership, addresses, listen, service, storage, states, .. } =
            config;
        let member = membership.members.get(usize::from(me.0)).ok_or(StartError::NotAMember(me))?;
        if member.key != config.keys.public() {
            return Err(StartError::WrongKey(me));
        }
        let peers = Peers::new(me, &membership, &addresses)?;
        let others = peers.others().collect();
        let identity = Identity::new(*config.keys.channel_secret(), &membership.group_domain());
        let network = Network::new(listen, identity, config.access, config.limits, peers)?;
        let waker = network.waker()?;
        let (mut epochs, mut counters, life) = (config.epochs, config.counters, config.life);
        let (factory, rules) = (&mut *epochs, config.rules);
        let beginning = Beginning { me, life, rules, membership, factory, counters: &mut counters };
        let spool = storage.as_ref().and_then(|storage| storage.spool.clone());
        let spool = spool.or_else(|| states.as_ref()?.spool.clone());
        let mut begun = beginning.begin(service, storage, states, waker)?;
        let mut transfer = Transfer::new(me);
        let start = |spool| Spooling::start(spool, &mut begun.executor, &mut transfer);
        let spooling = spool.map(start);
        let verifier = epochs.verifier(begun.following.membership());
        let speaker = Speaker::new(SpeakerParts {
            core: begun.core,
            verifier,
            authenticator: Authenticator::new(config.keys, counters),
            timeouts: config.timeouts,
            me,
            others,
            epoch: begun.following.membership().epoch,
            effects: begun.effects,
        });
        let unit = Unit::new(UnitParts {
            speaker,
            executor: begun.executor,
            transfer,
            spooling,
            succession: Succession::new(begun.following, life, epochs, config.signer),
            keeper: begun.keeper,
            cache: begun.cache,
            resumes: begun.resumes,
        });
        Ok(Self {
            network,
            unit,
            admission: Admission::default(),
            clock: Clock::default(),
            me,
            protocol: config.protocol,
            life,
            faults: None,
            counter_process: None,
            round_ms: 0,
            ready: Vec::new(),
            messages: Vec::new(),
            inbound: Inbound::default(),
            started: false,
            settling: Settling::default(),
            approach: Approach::default(),
            watch: Watch::default(),
            answered: 0,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.network.local_addr()
    }

    /// A window on this replica for other threads.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Says in its status in which process its trusted counter is, if that is another one.
    #[must_use]
    pub fn with_counter_process(mut self, id: Option<u32>) -> Self {
        self.counter_process = id;
        self
    }

    /// Has it misbehave as the switch says: for replicas that are there to be tried out.
    #[must_use]
    pub fn with_faults(mut self, switch: FaultSwitch) -> Self {
        self.faults = Some(switch);
        self
    }

    /// Works until `stop` is set, which is noticed within 20 ms.
    ///
    /// # Errors
    /// [`Fatal`] if it must not go on. Then the process should end.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), Fatal> {
        buffers::keep(self.network.limits().spare_bytes);
        while !stop.load(Ordering::Relaxed) {
            // Whatever is logged in here says whose it is.
            let epoch = self.epoch();
            let _span = error_span!("replica", replica = self.me.0, epoch).entered();
            while self.epoch() == epoch && !stop.load(Ordering::Relaxed) {
                self.round()?;
            }
        }
        Ok(())
    }

    /// Runs it on a thread of its own.
    ///
    /// # Errors
    /// What the system says.
    pub fn spawn(mut self) -> std::io::Result<Running> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::Builder::new().name(format!("replica-{}", self.me.0)).spawn(
            move || {
                let result = self.run(&seen);
                if let Err(fatal) = &result {
                    error!(%fatal, "the replica ends");
                }
                result
            },
        )?;
        Ok(Running { stop, thread })
    }

    fn epoch(&self) -> u64 {
        self.unit.succession.epochs.membership().epoch.0
    }

    fn round(&mut self) -> Result<(), Fatal> {
        let is_reading = !self.unit.waits_for_disk(&self.network);
        let is_late = is_reading && !self.inbound.is_empty();
        let timeout = if is_late { Duration::ZERO } else { self.timeout() };
        let mut happened = self.network.wait(timeout, is_reading)? || is_late;
        let (begun, asked) = (Instant::now(), self.watch.asked());
        let now_ms = self.clock.elapsed_ms();
        self.unit.set_now(now_ms);
        self.misbehave(now_ms);
        if !std::mem::replace(&mut self.started, true) {
            let lane = self.unit.succession.epochs.membership().lane;
            info!(protocol = self.protocol, pillars = lane.pillars, "started");
            self.unit.start(&mut self.network)?;
        }
        self.unit.ask_before_resuming(&mut self.network)?;
        self.unit.release(&mut self.network)?;
        self.network.open(now_ms);
        if is_reading {
            self.read(now_ms)?;
        }
        let f = self.unit.succession.epochs.membership().f;
        self.settling.on_round(now_ms, self.network.peers.connected().count() >= f);
        self.unit.meter.begin(self.clock.now());
        self.admission.deliver(now_ms, &mut self.unit, &mut self.network)?;
        while let Some(timer) = self.unit.speaker.timers.pop(now_ms) {
            happened = true;
            self.unit.step(CoreEvent::Timeout(timer), &mut self.network)?;
        }
        if happened || now_ms >= self.round_ms + ROUND_MS {
            self.end_of_round(now_ms)?;
        }
        self.unit.release(&mut self.network)?;
        if let Some(keeper) = &self.unit.keeper {
            keeper.end_of_round();
        }
        self.network.flush(now_ms);
        if happened {
            self.unit.meter.round(begun);
        }
        if asked > self.answered {
            self.answered = asked;
            let report = self.status();
            self.watch.answer(asked, report);
        }
        Ok(())
    }

    /// Does what the fault switch says, if there is one.
    fn misbehave(&mut self, now_ms: u64) {
        let Some(switch) = &self.faults else { return };
        let fault = switch.get();
        if fault != self.unit.speaker.fault {
            warn!(%fault, "misbehaving on command");
            self.unit.speaker.fault = fault;
        }
        self.network.set_fault(fault, now_ms);
        self.network.send_late(now_ms);
    }

    fn timeout(&mut self) -> Duration {
        let now_ms = self.clock.elapsed_ms();
        let deadlines =
            [self.unit.speaker.timers.next_ms(), self.network.next_ms(), self.network.late_ms()];
        let next_ms = deadlines.into_iter().flatten().min().unwrap_or(u64::MAX);
        let mut wait_ms = next_ms.saturating_sub(now_ms).min(IDLE_MS);
        if let Some(at) = self.unit.transfer.wake_at() {
            wait_ms = wait_ms.min(at.0.saturating_sub(now_ms));
        }
        Duration::from_millis(wait_ms)
    }

    /// Reads every connection that has something, up to its share, and acts on it.
    fn read(&mut self, now_ms: u64) -> Result<(), Fatal> {
        let Self { network, unit, admission, ready, messages, inbound, .. } = self;
        network.take_ready(now_ms, ready);
        for (index, token) in ready.iter().copied().enumerate() {
            if network.has_read_enough() {
                network.postpone(&ready[index..]);
                break;
            }
            if network.peer(token).is_some_and(|peer| inbound.has(peer)) {
                network.postpone(&[token]);
                continue;
            }
            match network.read(token, now_ms, messages) {
                Some(Sender::Peer(id)) => inbound.push(id, messages.drain(..)),
                Some(Sender::Client(id)) => {
                    for bytes in messages.drain(..) {
                        // What it said before may have ended the connection.
                        if network.clients.token(&id) != Some(token) {
                            break;
                        }
                        admission.on_client(id, &bytes, now_ms, unit, network);
                    }
                }
                None => messages.clear(),
            }
        }
        ready.clear();
        let take = |peer, message: &Bytes| unit.on_peer(peer, message, network);
        let forgers = inbound.deliver(Instant::now, take)?;
        forgers.iter().for_each(|peer| network.pause_peer(peer, now_ms));
        Ok(())
    }

    /// Tells the core that the round is over, and sends what was collected for clients. Only the
    /// core is told the time of day; everything else is timed by a clock that nobody can set.
    fn end_of_round(&mut self, now_ms: u64) -> Result<(), Fatal> {
        self.round_ms = now_ms;
        let now = self.clock.now();
        self.unit.step(CoreEvent::Input(Input::Round { now }), &mut self.network)?;
        self.unit.on_round(now, &mut self.network)?;
        let status = self.unit.speaker.core.status();
        let look = self.look(&status, now_ms);
        self.approach.look(look);
        // The client takes it modulo the group's size.
        let (primary, core) = (View(u64::from(status.primary.0)), &self.unit.speaker.core);
        let is_split = core.rules().pillars;
        let hint = |client: &ClientId| if is_split { core.hint(client) } else { primary };
        self.network.send_replies(hint, now_ms);
        let pillars = || core.statuses();
        for change in self.unit.meter.observe(&status, pillars, now_ms) {
            let (slot, pillar) = (status.committed.0, change.pillar);
            warn!(pillar, view = change.view, slot, reason = change.reason, "view change begins");
        }
        let asked = self.admission.take_asked_status();
        if !asked.is_empty() {
            let report = self.status();
            let json = Bytes::from(serde_json::to_vec(&report).unwrap_or_default());
            for client in asked {
                let status = ToClient::Status(json.clone());
                if !answer(&client, &status, now_ms, &mut self.network) {
                    self.admission.ask_status_again(client);
                }
            }
        }
        Ok(())
    }

    /// How far it is from the others.
    fn look(&self, core: &Status, at_ms: u64) -> Look {
        let executed = self.unit.executor.executed().0;
        let behind = core.peers_committed.max(core.stable).0.saturating_sub(executed);
        let state = self.unit.transfer.progress();
        let state = state.map(|it| (it.slot.0, it.chunks_total, it.chunks_have, it.bytes));
        Look { at_ms, executed, behind, state }
    }

    fn role(&self, core: &Status) -> &'static str {
        match core.phase {
            "joining" => "joining",
            _ if core.primary == self.me => "primary",
            // With several pillars that primary is one of several.
            _ if self.unit.speaker.core.statuses().iter().any(|it| it.primary == self.me) => {
                "primary"
            }
            _ => "backup",
        }
    }

    /// What this replica says of itself.
    #[must_use]
    pub fn status(&self) -> StatusReport {
        let core = self.unit.speaker.core.status();
        let executed = self.unit.executor.executed();
        let look = self.look(&core, self.clock.elapsed_ms());
        let membership = self.unit.succession.epochs.membership();
        let (cpu_micros, rss_kib, peak_rss_kib) = usage();
        let meter = &self.unit.meter;
        StatusReport {
            replica: self.me.0,
            version: env!("CARGO_PKG_VERSION"),
            n: membership.n(),
            f: membership.f,
            queues: self.queues(core.waiting, core.committed.0.saturating_sub(core.stable.0)),
            peer_queues: self.peer_queues(),
            unread: self.network.has_unread() || !self.inbound.is_empty(),
            settling_ms: self.settling.left_ms(self.clock.elapsed_ms()),
            timers: self.unit.speaker.timers.len(),
            traffic: self.network.traffic,
            messages: self.network.messages.by_kind(),
            rounds: meter.rounds,
            batches: meter.batches,
            view_changes_by_reason: meter.view_changes.clone(),
            recent_view_changes: meter.recent.iter().cloned().collect(),
            spreads: meter.spreads.clone(),
            pid: std::process::id(),
            protocol: self.protocol.clone(),
            rotate_leader: membership.lane.rotates,
            pillars: self.pillars(),
            group: hex(&membership.group.0),
            epoch: membership.epoch.0,
            incarnation: self.life.incarnation.0,
            counter_process: self.counter_process,
            fault: (self.unit.speaker.fault != Fault::None)
                .then(|| self.unit.speaker.fault.to_string()),
            view: core.view.0,
            primary: core.primary.0,
            role: self.role(&core),
            phase: if self.unit.is_resuming() { "resuming" } else { core.phase },
            executed: executed.0,
            committed: core.committed.0,
            stable: core.stable.0,
            state: self.unit.executor.snapshot(core.stable).map(|kept| hex(&kept.digest.0)),
            behind: look.behind,
            approach: self.approach.pace(look),
            catch_up: self.unit.transfer.progress().map(CatchUp::from),
            waiting: core.waiting,
            peers: self.network.peers.connected().map(|id| id.0).collect(),
            clients: self.network.clients.len(),
            sessions: self.unit.executor.clients(),
            requests: self.unit.executor.requests(),
            view_changes: core.view_changes,
            view_change_reason: core.reason,
            durability: self.unit.disk(),
            diverged_sections: self.unit.divergence.sections(),
            rejects: self.unit.speaker.rejects.by_name(),
            counters: self.network.counters.clone(),
            costs: CostReport::now(),
            calls: calls().into(),
            allocations: allocations(),
            cpu_micros,
            rss_kib,
            peak_rss_kib,
            uptime_ms: self.clock.elapsed_ms(),
        }
    }

    /// How each pillar is, if there are several.
    fn pillars(&self) -> Vec<PillarReport> {
        let report = |it: Status| PillarReport {
            view: it.view.0,
            primary: it.primary.0,
            phase: it.phase,
            committed: it.committed.0,
            stable: it.stable.0,
            waiting: it.waiting,
        };
        self.unit.speaker.core.statuses().into_iter().map(report).collect()
    }

    /// How full everything is that has a bound.
    fn queues(&self, waiting: usize, window: u64) -> BTreeMap<&'static str, Fill> {
        let (network, limits) = (&self.network, self.network.limits());
        let pillars = u64::from(self.unit.succession.epochs.membership().lane.pillars);
        let fill = |used: usize, limit: usize| Fill { used: used as u64, limit: limit as u64 };
        let peer = self.peer_queues().into_values().max().unwrap_or(0) as usize;
        BTreeMap::from([
            ("waiting_envelopes", fill(waiting, limits.waiting_max)),
            ("window_slots", Fill { used: window, limit: pillars * WINDOW_SLOTS }),
            ("peer_send_bytes", fill(peer, limits.peer_queue_bytes)),
            (
                "clients_send_bytes",
                fill(network.clients_queued_bytes(), limits.clients_queue_bytes),
            ),
            ("clients", fill(network.clients.len(), limits.clients_max)),
            ("strangers", fill(network.unknown_count(), limits.unknown_max)),
            ("sessions", fill(self.unit.executor.clients(), CLIENTS_MAX)),
        ])
    }

    /// Bytes that wait for each connected peer.
    fn peer_queues(&self) -> BTreeMap<u16, u64> {
        let queued = |id: ReplicaId| (id.0, self.network.peer_queued_bytes(id) as u64);
        self.network.peers.connected().map(queued).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A replica that runs on a thread of its own.
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Fatal>>,
}

impl Running {
    /// Whether it has ended by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Has it end, and waits for that.
    ///
    /// # Errors
    /// [`Fatal`] if it had ended by itself.
    ///
    /// # Panics
    /// If its thread panicked.
    pub fn stop(self) -> Result<(), Fatal> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
