//! What a replica says of itself.

use crate::approach::Look;
use crate::counters::Traffic;
use crate::fault::Fault;
use crate::machine::Machine;
use crate::report::{LinkReport, PillarsReport, ProcessReport, Report};
use crate::status::{
    CatchUp, ConfigurationReport, Fill, PendingReport, PillarReport, StatusReport,
};
use crate::store::Disk;
use pentarchy_core::configuration::MemberEntry;
use pentarchy_core::ids::{ClientId, MemberId, ReplicaId};
use pentarchy_core::limits::{CLIENTS_MAX, WINDOW_SLOTS};
use pentarchy_core::protocol::Status;
use std::collections::BTreeMap;
use std::time::Duration;
use tracing::warn;

/// What a status report has from outside of the machine.
pub struct Surroundings<'a> {
    /// The time since the driver began.
    pub elapsed: Duration,
    /// What its links have counted.
    pub links: LinkReport,
    /// How the process is.
    pub process: ProcessReport,
    /// How pillars with threads of their own are.
    pub pillars: PillarsReport<'a>,
}

impl Surroundings<'_> {
    fn uptime_ms(&self) -> u64 {
        u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX)
    }
}

impl<D: Disk> Machine<'_, D> {
    /// Takes note of where the core is, and says in the log which view changes have begun.
    pub(crate) fn take_stock(&mut self) {
        let (core, now_ms) = (&self.engine.core, self.engine.now_ms);
        let status = core.status();
        let look = self.look(&status, now_ms);
        self.approach.look(look);
        for change in self.meter.compare(&status, || core.statuses(), now_ms) {
            let (slot, pillar) = (status.committed.0, change.pillar);
            warn!(pillar, view = change.view, slot, reason = change.reason, "view change begins");
        }
    }

    /// How far it is from the others.
    fn look(&self, core: &Status, at_ms: u64) -> Look {
        let executed = self.executor.executed().0;
        let behind = core.peers_committed.max(core.stable).0.saturating_sub(executed);
        let state = self.transfer.progress();
        let state = state.map(|it| (it.slot.0, it.chunks_total, it.chunks_have, it.bytes));
        Look { at_ms, executed, behind, state }
    }

    fn role(&self, core: &Status) -> &'static str {
        let me = self.engine.places.me;
        match core.phase {
            "joining" => "joining",
            _ if core.primary == me => "primary",
            // With several pillars that primary is one of several.
            _ if self.engine.core.statuses().iter().any(|it| it.primary == me) => "primary",
            _ => "backup",
        }
    }

    /// The number of the member that is this replica of the epoch.
    fn member_at(&self, replica: ReplicaId) -> u32 {
        self.engine.places.member_of(replica).map_or(0, |MemberId(id)| id)
    }

    fn phase(&self, core: &Status) -> &'static str {
        match (self.is_leaving(), self.is_resuming()) {
            (true, _) => "leaving",
            (_, true) => "resuming",
            _ => core.phase,
        }
    }

    /// What this replica says of itself.
    #[must_use]
    pub fn status(&self, surroundings: &Surroundings<'_>) -> StatusReport {
        let Surroundings { links, process, pillars, .. } = surroundings;
        let (core, uptime_ms) = (self.engine.core.status(), surroundings.uptime_ms());
        let (look, counted) = (self.look(&core, uptime_ms), self.counted(links, pillars));
        let (membership, meter) = (self.membership(), &self.meter);
        StatusReport {
            replica: self.engine.places.me.0,
            member: self.engine.places.member.0,
            members: membership.members.iter().map(|it| it.id.0).collect(),
            version: env!("CARGO_PKG_VERSION"),
            n: membership.n(),
            f: membership.f,
            durability: self.disk().map(|disk| counted.beside(disk)),
            queues: self.queues(&core, &counted, links, pillars),
            peer_queues: counted.queues,
            unread: counted.unread,
            settling_ms: self.settling.left_ms(uptime_ms),
            timers: counted.timers,
            traffic: Traffic { peers: counted.traffic, clients: links.traffic.clients },
            messages: counted.messages.by_kind(),
            rounds: meter.rounds,
            batches: meter.batches,
            view_changes_by_reason: meter.view_changes.clone(),
            recent_view_changes: meter.recent.iter().cloned().collect(),
            spreads: meter.spreads.clone(),
            pid: process.pid,
            protocol: self.protocol(),
            rotate_leader: membership.lane.rotates,
            pillars: self.pillars(pillars),
            group: hex(&membership.group.0),
            configuration: self.configuration(),
            epoch: membership.epoch.0,
            incarnation: self.epoch_manager.life.incarnation.0,
            counter_process: process.counter_process,
            fault: self.fault(),
            view: core.view.0,
            primary: self.member_at(core.primary),
            role: self.role(&core),
            phase: self.phase(&core),
            executed: look.executed,
            committed: core.committed.0,
            stable: core.stable.0,
            state: self.executor.snapshot(core.stable).map(|kept| hex(&kept.digest.0)),
            behind: look.behind,
            approach: self.approach.pace(look),
            catch_up: self.transfer.progress().map(CatchUp::from),
            lost: self.others.is_lost(),
            asking: self.others.asking(self.engine.now_ms),
            silent_ms: self.others.silent_ms(self.engine.places.peers(), self.engine.now_ms),
            refused_from: counted.refused,
            findings_lately: counted.found,
            waiting: core.waiting,
            peers: self.connected.iter().map(|id| id.0).collect(),
            clients: links.clients,
            sessions: self.executor.clients(),
            requests: self.executor.requests(),
            view_changes: core.view_changes,
            view_change_reason: core.reason,
            diverged_sections: self.divergence.sections(),
            rejects: counted.rejects.by_name(),
            counters: counted.counters,
            costs: process.costs,
            calls: process.calls,
            allocations: process.allocations,
            cpu_micros: process.cpu_micros,
            rss_kib: process.rss_kib,
            peak_rss_kib: process.peak_rss_kib,
            uptime_ms,
        }
    }

    fn configuration(&self) -> ConfigurationReport {
        let membership = self.membership();
        ConfigurationReport {
            digest: hex(&membership.configuration.0),
            number: membership.stated.as_ref().map_or(0, |stated| stated.number),
            pending_change: self.pending_change(),
            has_former_key: self.epoch_manager.factory.has_former_keys(),
        }
    }

    /// How far a change is that is pending.
    fn pending_change(&self) -> Option<PendingReport> {
        let (change, _) = self.executor.settled_change()?;
        let members = &change.next.members;
        let is_ready =
            |member: &&MemberEntry| self.executor.ready_as(&ClientId(member.identity)).is_some();
        let (number, ready) = (change.next.number, members.iter().filter(is_ready).count());
        Some(PendingReport { number, members: members.len(), ready })
    }

    /// How it misbehaves on command.
    fn fault(&self) -> Option<String> {
        let fault = self.engine.fault;
        (fault != Fault::None).then(|| fault.to_string())
    }

    /// How each pillar is, if there are several.
    fn pillars(&self, pillars: &PillarsReport<'_>) -> Vec<PillarReport> {
        let report = |(pillar, it): (usize, Status)| PillarReport {
            view: it.view.0,
            primary: self.member_at(it.primary),
            phase: it.phase,
            committed: it.committed.0,
            stable: it.stable.0,
            waiting: it.waiting,
            thread: pillars.threads.get(pillar).cloned(),
        };
        self.engine.core.statuses().into_iter().enumerate().map(report).collect()
    }

    /// What all threads have counted.
    fn counted(&self, links: &LinkReport, pillars: &PillarsReport<'_>) -> Report {
        let mut counted = Report::new(&self.engine, links, &self.inbound);
        counted.counters.client_dropped += self.replies.dropped();
        pillars.reports.iter().for_each(|report| counted.add(report));
        counted
    }

    /// How full everything is that has a bound.
    fn queues(
        &self,
        core: &Status,
        counted: &Report,
        links: &LinkReport,
        pillars: &PillarsReport<'_>,
    ) -> BTreeMap<&'static str, Fill> {
        let limits = &self.limits;
        let parts = u64::from(self.membership().lane.pillars);
        let fill = |used: usize, limit: usize| Fill { used: used as u64, limit: limit as u64 };
        let window = core.committed.0.saturating_sub(core.stable.0);
        let waiting = core.waiting + self.admission.under_check();
        let clients = links.clients_queued_bytes;
        let mut queues = BTreeMap::from([
            ("waiting_envelopes", fill(waiting, limits.waiting_max)),
            ("window_slots", Fill { used: window, limit: parts * WINDOW_SLOTS }),
            ("peer_send_bytes", fill(counted.fullest as usize, limits.peer_queue_bytes)),
            ("clients_send_bytes", fill(clients, limits.clients_queue_bytes)),
            ("clients", fill(links.clients, limits.clients_max)),
            ("strangers", fill(links.strangers, limits.unknown_max)),
            ("sessions", fill(self.executor.clients(), CLIENTS_MAX)),
        ]);
        if let Some([told, said]) = pillars.mail {
            queues.insert("pillars_told", fill(told.0, told.1));
            queues.insert("pillars_said", fill(said.0, said.1));
        }
        queues
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
