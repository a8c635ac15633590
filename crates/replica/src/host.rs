//! The rounds.

use crate::admission::{Admission, answer};
use crate::approach::{Approach, Look};
use crate::assembly::{Assembled, assemble};
use crate::config::ReplicaConfig;
use crate::counters::Traffic;
use crate::error::{Fatal, StartError};
use crate::fault::{Fault, FaultSwitch};
use crate::inbound::Inbound;
use crate::network::Network;
use crate::pillars::Pillars;
use crate::pillars::pillar::Said;
use crate::pillars::report::Report;
use crate::readiness::Settling;
use crate::rescue::Rescue;
use crate::rounds::{ROUND_MS, wait_ms};
use crate::status::{CatchUp, CostReport, Fill, PillarReport, StatusReport, allocations, usage};
use crate::unit::Unit;
use crate::watch::Watch;
use bytes::Bytes;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::ids::{ClientId, ReplicaId, View};
use pentarchy_core::limits::{CLIENTS_MAX, WINDOW_SLOTS};
use pentarchy_core::membership::Life;
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::ports::replica::Input;
use pentarchy_core::protocol::Status;
use pentarchy_io::buffers;
use pentarchy_io::calls::calls;
use pentarchy_io::clock::Clock;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{error, error_span, info, warn};

/// One replica. It does nothing until it is [run](Self::run).
pub struct Replica {
    network: Network,
    unit: Unit,
    pillars: Pillars,
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
    inbound: Inbound,
    started: bool,
    settling: Settling,
    approach: Approach,
    watch: Watch,
    rescue: Rescue,
    /// Questions there that were answered.
    answered: u64,
}

impl Replica {
    /// Checks the configuration, listens, and starts the core.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn new(config: ReplicaConfig) -> Result<Self, StartError> {
        let (me, life, protocol) = (config.me, config.life, config.protocol.clone());
        let Assembled { network, unit, pillars } = assemble(config)?;
        Ok(Self {
            network,
            unit,
            pillars,
            admission: Admission::default(),
            clock: Clock::default(),
            me,
            protocol,
            life,
            faults: None,
            counter_process: None,
            round_ms: 0,
            inbound: Inbound::default(),
            started: false,
            settling: Settling::default(),
            approach: Approach::default(),
            watch: Watch::default(),
            rescue: Rescue::default(),
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

    /// A way to save what this replica has, once the group cannot go on.
    #[must_use]
    pub fn rescue(&self) -> Rescue {
        self.rescue.clone()
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

    /// Works until `stop` is set, which is noticed within 20 ms. Threads of its own that it starts
    /// have ended then.
    ///
    /// # Errors
    /// [`Fatal`] if it must not go on. Then the process should end.
    ///
    /// # Panics
    /// With a thread of its own that has.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), Fatal> {
        buffers::keep(self.network.limits().spare_bytes);
        self.pillars.start(self.faults.as_ref())?;
        let result = self.rounds(stop);
        // What ended it first is what is told.
        let ended = self.pillars.end();
        result.and(ended)
    }

    fn rounds(&mut self, stop: &AtomicBool) -> Result<(), Fatal> {
        while !stop.load(Ordering::Relaxed) {
            // Whatever is logged in here says whose it is.
            let epoch = self.epoch();
            let _span = error_span!("replica", replica = self.me.0, epoch).entered();
            while self.epoch() == epoch && !stop.load(Ordering::Relaxed) {
                self.round()?;
                if self.rescue.serve(&mut self.unit) {
                    info!("it gives its state away and works no more");
                    return self.keep_for_rescue(stop);
                }
            }
        }
        Ok(())
    }

    /// Keeps the state that was given away, and gives it again, until `stop` is set: perhaps nobody
    /// could write it down.
    fn keep_for_rescue(&mut self, stop: &AtomicBool) -> Result<(), Fatal> {
        let ended = self.pillars.end();
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(ROUND_MS));
            self.rescue.serve(&mut self.unit);
        }
        ended
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
        let has_heard = self.pillars.before_wait();
        // Behind that: a pillar that is done from here on wakes it.
        let is_reading = !self.unit.waits_for_disk(&self.network) && !self.pillars.is_behind();
        let is_late = is_reading && (has_heard || !self.inbound.is_empty());
        let timeout = if is_late { Duration::ZERO } else { self.timeout() };
        let waited = self.network.wait(timeout, is_reading);
        self.pillars.after_wait()?;
        let mut happened = waited? || is_late;
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
            let Self { unit, network, admission, .. } = self;
            happened |= self.pillars.hear(|pillar, said| match said {
                Said::Checked(checked) => {
                    admission.on_checked(checked);
                    Ok(())
                }
                said => unit.on_pillar(pillar, said, network),
            })?;
            self.read(now_ms)?;
            self.pillars.hand_over(self.network.take_handed());
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
        self.admission.answer_waiting(&mut self.unit, &mut self.network);
        if let Some(keeper) = &self.unit.keeper {
            keeper.end_of_round();
        }
        for (pillar, told) in self.admission.telling().chain(self.unit.telling.drain(..)) {
            self.pillars.tell(pillar, told);
        }
        self.pillars.post();
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
        let (unit, network) = (&self.unit, &self.network);
        let transfer = unit.transfer.wake_at().map(|at| at.0);
        let timer = unit.speaker.timers.next_ms();
        let deadlines = [timer, network.next_ms(), network.late_ms(), transfer];
        Duration::from_millis(wait_ms(deadlines, now_ms))
    }

    /// Reads every connection that has something, up to its share, and acts on it.
    fn read(&mut self, now_ms: u64) -> Result<(), Fatal> {
        let Self { network, unit, admission, inbound, .. } = self;
        inbound.read(network, now_ms, |id, bytes, network| {
            admission.on_client(id, bytes, now_ms, unit, network);
        });
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
        let counted = self.counted();
        StatusReport {
            replica: self.me.0,
            version: env!("CARGO_PKG_VERSION"),
            n: membership.n(),
            f: membership.f,
            durability: self.unit.disk().map(|disk| counted.beside(disk)),
            queues: self.queues(&core, &counted),
            peer_queues: counted.queues,
            unread: counted.unread,
            settling_ms: self.settling.left_ms(self.clock.elapsed_ms()),
            timers: counted.timers,
            traffic: Traffic { peers: counted.traffic, clients: self.network.traffic.clients },
            messages: counted.messages.by_kind(),
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
            fault: self.fault(),
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
            lost: self.unit.others.is_lost(),
            asking: self.unit.others.asking(self.unit.speaker.now_ms),
            silent_ms: self.silent_ms(),
            refused_from: counted.refused,
            findings_lately: counted.found,
            waiting: core.waiting,
            peers: self.network.peers.connected().map(|id| id.0).collect(),
            clients: self.network.clients.len(),
            sessions: self.unit.executor.clients(),
            requests: self.unit.executor.requests(),
            view_changes: core.view_changes,
            view_change_reason: core.reason,
            diverged_sections: self.unit.divergence.sections(),
            rejects: counted.rejects.by_name(),
            counters: counted.counters,
            costs: CostReport::now(),
            calls: calls().into(),
            allocations: allocations(),
            cpu_micros,
            rss_kib,
            peak_rss_kib,
            uptime_ms: self.clock.elapsed_ms(),
        }
    }

    /// How it misbehaves on command.
    fn fault(&self) -> Option<String> {
        let fault = self.unit.speaker.fault;
        (fault != Fault::None).then(|| fault.to_string())
    }

    /// How long each of the others has been silent.
    fn silent_ms(&self) -> BTreeMap<u16, u64> {
        let Unit { speaker, others, .. } = &self.unit;
        others.silent_ms(speaker.others.iter(), speaker.now_ms)
    }

    /// How each pillar is, if there are several.
    fn pillars(&self) -> Vec<PillarReport> {
        let report = |(pillar, it): (usize, Status)| PillarReport {
            view: it.view.0,
            primary: it.primary.0,
            phase: it.phase,
            committed: it.committed.0,
            stable: it.stable.0,
            waiting: it.waiting,
            thread: self.pillars.thread(pillar),
        };
        self.unit.speaker.core.statuses().into_iter().enumerate().map(report).collect()
    }

    /// What all threads have counted.
    fn counted(&self) -> Report {
        let mut counted = Report::new(&self.unit.speaker, &self.network, &self.inbound);
        self.pillars.reports().for_each(|report| counted.add(report));
        counted
    }

    /// How full everything is that has a bound.
    fn queues(&self, core: &Status, counted: &Report) -> BTreeMap<&'static str, Fill> {
        let (network, limits) = (&self.network, self.network.limits());
        let pillars = u64::from(self.unit.succession.epochs.membership().lane.pillars);
        let fill = |used: usize, limit: usize| Fill { used: used as u64, limit: limit as u64 };
        let window = core.committed.0.saturating_sub(core.stable.0);
        let mut queues = BTreeMap::from([
            (
                "waiting_envelopes",
                fill(core.waiting + self.admission.under_check(), limits.waiting_max),
            ),
            ("window_slots", Fill { used: window, limit: pillars * WINDOW_SLOTS }),
            ("peer_send_bytes", fill(counted.fullest as usize, limits.peer_queue_bytes)),
            (
                "clients_send_bytes",
                fill(network.clients_queued_bytes(), limits.clients_queue_bytes),
            ),
            ("clients", fill(network.clients.len(), limits.clients_max)),
            ("strangers", fill(network.unknown_count(), limits.unknown_max)),
            ("sessions", fill(self.unit.executor.clients(), CLIENTS_MAX)),
        ]);
        if let Some([told, said]) = self.pillars.mail() {
            queues.insert("pillars_told", fill(told.0, told.1));
            queues.insert("pillars_said", fill(said.0, said.1));
        }
        queues
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
