//! The metrics of a replica, and whether it lives and is ready.

use super::Kind::{Counter, Gauge, Histogram};
use super::server::{Source, Verdict};
use super::{Metric, Samples};
use pentarchy_replica::StatusReport;
use pentarchy_replica::counters::{Counters, Flow, Traffic};
use pentarchy_replica::watch::Watch;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

type ReplicaMetric = Metric<StatusReport>;

/// Microseconds in a second: histograms count the former and metrics are in the latter.
const MICROS: f64 = 1e6;

/// Every metric of a replica. Each number also carries the label `replica`, with
/// the number of the member.
pub const METRICS: &[ReplicaMetric] = &[
    ReplicaMetric {
        name: "pentarchy_build_info",
        kind: Gauge,
        help: "Always 1; version, protocol and group are in its labels.",
        watch: "More than one version or group among the replicas.",
        read: |report, samples| {
            let labels = vec![
                ("version", report.version.to_owned()),
                ("protocol", report.protocol.to_owned()),
                ("group", report.group.clone()),
            ];
            samples.with(labels, 1.0);
        },
    },
    ReplicaMetric {
        name: "pentarchy_ready",
        kind: Gauge,
        help: "1 if the replica has caught up with its group, as `/readyz` says, otherwise 0.",
        watch: "0 for more than a minute. More than `f` replicas at 0: the group may stand still.",
        read: |report, samples| samples.one(f64::from(report.not_ready().is_empty())),
    },
    ReplicaMetric {
        name: "pentarchy_uptime_seconds",
        kind: Gauge,
        help: "Time since the replica was started.",
        watch: "A fall: the process was restarted.",
        read: |report, samples| samples.one(report.uptime_ms as f64 / 1e3),
    },
    ReplicaMetric {
        name: "pentarchy_cpu_seconds_total",
        kind: Counter,
        help: "Processor time of the process.",
        watch: "A rate near 1: one core is all that a replica's ordering thread can use.",
        read: |report, samples| samples.one(report.cpu_micros as f64 / MICROS),
    },
    ReplicaMetric {
        name: "pentarchy_resident_memory_bytes",
        kind: Gauge,
        help: "Memory of the process.",
        watch: "Growth without growth of the state.",
        read: |report, samples| samples.one(report.rss_kib as f64 * 1024.0),
    },
    ReplicaMetric {
        name: "pentarchy_configuration",
        kind: Gauge,
        help: "Number of the configuration; 0 for that with which the group began.",
        watch: "Replicas that differ for long.",
        read: |report, samples| samples.one(report.configuration.number as f64),
    },
    ReplicaMetric {
        name: "pentarchy_pending_change_members",
        kind: Gauge,
        help: "Members of the configuration that is pending, by `state`: `ready` or `awaited`.",
        watch: "`awaited` that stays above 0: `pentarchy members list` names the members. A change \
            that has expired counts until the group orders something.",
        read: |report, samples| {
            if let Some(pending) = &report.configuration.pending_change {
                let awaited = pending.members - pending.ready;
                samples.of("state", "ready", pending.ready as f64);
                samples.of("state", "awaited", awaited as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_has_former_key",
        kind: Gauge,
        help: "1 until the keys are erased by which it signed before the last change, and what \
            the trusted devices shared then, otherwise 0.",
        watch: "1 for long: whoever reads the disk finds those, and the log says why.",
        read: |report, samples| samples.one(f64::from(report.configuration.has_former_key)),
    },
    ReplicaMetric {
        name: "pentarchy_epoch",
        kind: Gauge,
        help: "Number of the membership.",
        watch: "Replicas that differ for long.",
        read: |report, samples| samples.one(report.epoch as f64),
    },
    ReplicaMetric {
        name: "pentarchy_view",
        kind: Gauge,
        help: "The view that the replica is in or wants to enter.",
        watch: "Replicas that differ for long.",
        read: |report, samples| samples.one(report.view as f64),
    },
    ReplicaMetric {
        name: "pentarchy_primary",
        kind: Gauge,
        help: "1 if the replica is the primary of that view, otherwise 0.",
        watch: "No replica or more than one at 1 for long.",
        read: |report, samples| samples.one(f64::from(report.role == "primary")),
    },
    ReplicaMetric {
        name: "pentarchy_phase",
        kind: Gauge,
        help: "1, with what the protocol core is doing in the label `phase`.",
        watch: "Anything but `normal` for long.",
        read: |report, samples| samples.of("phase", report.phase, 1.0),
    },
    ReplicaMetric {
        name: "pentarchy_view_changes_total",
        kind: Counter,
        help: "View changes that this replica began or joined, by reason.",
        watch: "Any growth that no restart explains; steady growth is a faulty primary or network.",
        read: |report, samples| {
            for (reason, count) in &report.view_changes_by_reason {
                samples.of("reason", reason, *count as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_slots",
        kind: Gauge,
        help: "The last slot at each `stage`: `committed`, `executed`, or `stable`.",
        watch: "`executed` that stands still while clients send.",
        read: |report, samples| {
            for (stage, slot) in [
                ("committed", report.committed),
                ("executed", report.executed),
                ("stable", report.stable),
            ] {
                samples.of("stage", stage, slot as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_pillar_view",
        kind: Gauge,
        help: "The view that each `pillar` is in or wants to enter; only where the order is split.",
        watch: "Replicas that differ for long in one pillar.",
        read: |report, samples| {
            for (pillar, it) in report.pillars.iter().enumerate() {
                samples.of("pillar", pillar, it.view as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_pillar_primary",
        kind: Gauge,
        help: "1 if the replica is the primary of that view of the `pillar`, otherwise 0.",
        watch: "A pillar with no replica or more than one at 1 for long.",
        read: |report, samples| {
            for (pillar, it) in report.pillars.iter().enumerate() {
                samples.of("pillar", pillar, f64::from(it.primary == report.member));
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_pillar_slots",
        kind: Gauge,
        help: "The last slot of the whole order that each `pillar` has brought to each `stage`: \
               `committed` or `stable`.",
        watch: "One pillar that stands still: it delays all others.",
        read: |report, samples| {
            for (pillar, it) in report.pillars.iter().enumerate() {
                for (stage, slot) in [("committed", it.committed), ("stable", it.stable)] {
                    let labels = vec![("pillar", pillar.to_string()), ("stage", stage.to_owned())];
                    samples.with(labels, slot as f64);
                }
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_pillar_peers",
        kind: Gauge,
        help: "Replicas to which the thread of each `pillar` is connected; only where pillars have \
               threads.",
        watch: "Fewer than all others for more than a minute.",
        read: |report, samples| {
            for (pillar, it) in report.pillars.iter().enumerate() {
                if let Some(thread) = &it.thread {
                    samples.of("pillar", pillar, thread.peers.len() as f64);
                }
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_pillar_cpu_seconds_total",
        kind: Counter,
        help: "Processor time of the thread of each `pillar`; only where pillars have threads.",
        watch: "A pillar near 1 second per second: its thread is the bottleneck.",
        read: |report, samples| {
            for (pillar, it) in report.pillars.iter().enumerate() {
                if let Some(thread) = &it.thread {
                    samples.of("pillar", pillar, thread.cpu_micros as f64 / 1e6);
                }
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_behind_slots",
        kind: Gauge,
        help: "Slots that `f + 1` others committed and this replica has not executed.",
        watch: "64 or more for longer than a state transfer takes.",
        read: |report, samples| samples.one(report.behind as f64),
    },
    ReplicaMetric {
        name: "pentarchy_requests_total",
        kind: Counter,
        help: "Requests executed.",
        watch: "Its rate is the group's throughput.",
        read: |report, samples| samples.one(report.requests as f64),
    },
    ReplicaMetric {
        name: "pentarchy_batches_total",
        kind: Counter,
        help: "Batches executed.",
        watch: "",
        read: |report, samples| samples.one(report.batches as f64),
    },
    ReplicaMetric {
        name: "pentarchy_batch_requests",
        kind: Histogram,
        help: "Requests in one batch.",
        watch: "Growth means load: what arrives during a round waits for the next.",
        read: |report, samples| samples.spread(Vec::new(), &report.spreads.batch, 1.0),
    },
    ReplicaMetric {
        name: "pentarchy_rounds_total",
        kind: Counter,
        help: "Rounds of the host in which something happened.",
        watch: "",
        read: |report, samples| samples.one(report.rounds as f64),
    },
    ReplicaMetric {
        name: "pentarchy_round_seconds",
        kind: Histogram,
        help: "What a round took from the first read to the last write.",
        watch: "Rounds of more than 50 ms: a slow service, a large checkpoint, a busy machine.",
        read: |report, samples| samples.spread(Vec::new(), &report.spreads.round, MICROS),
    },
    ReplicaMetric {
        name: "pentarchy_request_phase_seconds",
        kind: Histogram,
        help: "Where the time of a sampled request goes: `propose` until its proposal, `commit` \
            until the decision, `reply` from execution until it is answered, and `total`. Backups \
            seldom hear from clients and mostly know `commit`.",
        watch: "Which phase grew. `propose`, and `commit` at backups, count in milliseconds and \
            compare clocks of two machines.",
        read: |report, samples| {
            let spreads = &report.spreads;
            for (phase, spread) in [
                ("propose", &spreads.propose),
                ("commit", &spreads.commit),
                ("reply", &spreads.reply),
                ("total", &spreads.total),
            ] {
                samples.spread(vec![("phase", phase.to_owned())], spread, MICROS);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_execute_seconds",
        kind: Histogram,
        help: "Execution of one batch by the service.",
        watch: "Growth: the service has become slow.",
        read: |report, samples| samples.spread(Vec::new(), &report.spreads.execute, MICROS),
    },
    ReplicaMetric {
        name: "pentarchy_sync_seconds",
        kind: Histogram,
        help: "Writing one group of entries to the log, and syncing it; only with durability \
            `sync`.",
        watch: "Syncs of more than 100 ms: the replica is slow, and others may suspect it.",
        read: |report, samples| {
            if report.durability.is_some() {
                samples.spread(Vec::new(), &report.spreads.sync, MICROS);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_sync_entries",
        kind: Histogram,
        help: "Entries of the log that one sync made durable.",
        watch: "Growth: the disk is slower than what is asked of it.",
        read: |report, samples| {
            if report.durability.is_some() {
                samples.spread(Vec::new(), &report.spreads.group, 1.0);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_log_bytes",
        kind: Gauge,
        help: "Bytes of the log on the disk.",
        watch: "Near `pentarchy_log_bytes_max`: checkpoints do not become stable.",
        read: |report, samples| {
            if let Some(disk) = &report.durability {
                samples.one(disk.log_bytes as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_log_bytes_max",
        kind: Gauge,
        help: "Bytes that the log may have; a replica that needs more ends.",
        watch: "",
        read: |report, samples| {
            if let Some(disk) = &report.durability {
                samples.one(disk.log_bytes_max as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_scrubbed_pieces_total",
        kind: Counter,
        help: "Pieces of states on the disk that the scrubber has read and checked.",
        watch: "",
        read: |report, samples| {
            if let Some(disk) = &report.durability {
                samples.one(disk.scrubbed_pieces as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_damaged_pieces_total",
        kind: Counter,
        help: "Pieces of states on the disk, and lists of pieces, that were found damaged.",
        watch: "Any growth: the disk corrupts data, or another process writes to it.",
        read: |report, samples| {
            if let Some(disk) = &report.durability {
                samples.one(disk.damaged_pieces as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_repaired_pieces_total",
        kind: Counter,
        help: "Damaged pieces that were rewritten from memory, or replaced by a newer state.",
        watch: "Less than `pentarchy_damaged_pieces_total` for a minute: the state in memory is \
            wrong too. Take the machine out.",
        read: |report, samples| {
            if let Some(disk) = &report.durability {
                samples.one(disk.repaired_pieces as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_log_lag_entries",
        kind: Gauge,
        help: "Entries of the log that are not durable yet; messages wait for them.",
        watch: "",
        read: |report, samples| {
            if let Some(disk) = &report.durability {
                samples.one(disk.lag_entries as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_queue_used",
        kind: Gauge,
        help: "Use of each bounded table and queue, by `queue`; in bytes where the name ends in \
            `bytes`.",
        watch: "Its share of `pentarchy_queue_limit`; above 0.8 something is too slow.",
        read: |report, samples| {
            for (queue, fill) in &report.queues {
                samples.of("queue", queue, fill.used as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_queue_limit",
        kind: Gauge,
        help: "The bound of each of these.",
        watch: "",
        read: |report, samples| {
            for (queue, fill) in &report.queues {
                samples.of("queue", queue, fill.limit as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_peer_queue_bytes",
        kind: Gauge,
        help: "Bytes that wait for each connected peer.",
        watch: "Growth for one peer: it or the way to it is slow.",
        read: |report, samples| {
            for (peer, bytes) in &report.peer_queues {
                samples.of("peer", peer, *bytes as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_timers_armed",
        kind: Gauge,
        help: "Timers of the protocol that are armed.",
        watch: "",
        read: |report, samples| samples.one(report.timers as f64),
    },
    ReplicaMetric {
        name: "pentarchy_peer_connected",
        kind: Gauge,
        help: "1 for each other replica that is connected, 0 for each that is not.",
        watch: "0 for more than a minute.",
        read: |report, samples| {
            for id in report.members.iter().filter(|id| **id != report.member) {
                samples.of("peer", id, f64::from(report.peers.contains(id)));
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_clients_connected",
        kind: Gauge,
        help: "Clients connected.",
        watch: "",
        read: |report, samples| samples.one(report.clients as f64),
    },
    ReplicaMetric {
        name: "pentarchy_network_bytes_total",
        kind: Counter,
        help: "Bytes, by `side` (`peers` or `clients`) and `direction` (`in` or `out`).",
        watch: "The capacity of the network.",
        read: |report, samples| {
            flows(&report.traffic, samples, |flow| (flow.bytes_in, flow.bytes_out));
        },
    },
    ReplicaMetric {
        name: "pentarchy_network_messages_total",
        kind: Counter,
        help: "Messages, by `side` and `direction`.",
        watch: "Messages per request: under load batches bring it down.",
        read: |report, samples| {
            flows(&report.traffic, samples, |flow| (flow.messages_in, flow.messages_out));
        },
    },
    ReplicaMetric {
        name: "pentarchy_messages_total",
        kind: Counter,
        help: "The same messages, by `kind` and `direction`.",
        watch: "Messages of a kind per batch, against `docs/costs.md`.",
        read: |report, samples| {
            kinds(&report.messages, samples, |flow| (flow.messages_in, flow.messages_out));
        },
    },
    ReplicaMetric {
        name: "pentarchy_message_bytes_total",
        kind: Counter,
        help: "Bytes of these messages without their frames, by `kind` and `direction`.",
        watch: "",
        read: |report, samples| {
            kinds(&report.messages, samples, |flow| (flow.bytes_in, flow.bytes_out));
        },
    },
    ReplicaMetric {
        name: "pentarchy_crypto_operations_total",
        kind: Counter,
        help: "Cryptographic operations of the process, by `operation`; `usig` is the trusted \
            counter, a `frame` is one authenticated encryption on a channel.",
        watch: "Operations per request, against `docs/costs.md`.",
        read: |report, samples| {
            let costs = &report.costs;
            for (operation, count) in [
                ("signature_made", costs.signatures_made),
                ("signature_verified", costs.signatures_verified),
                ("mac_made", costs.macs_made),
                ("mac_verified", costs.macs_verified),
                ("session_tag_made", costs.session_tags_made),
                ("session_tag_verified", costs.session_tags_verified),
                ("key_agreement", costs.key_agreements),
                ("usig_created", costs.usigs_created),
                ("usig_verified", costs.usigs_verified),
                ("frame_sealed", costs.frames_sealed),
                ("frame_opened", costs.frames_opened),
                ("hash", costs.hashes),
            ] {
                samples.of("operation", operation, count as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_crypto_operations_per_request",
        kind: Gauge,
        help: "All of these operations but hashes since the start, divided by the requests \
            executed.",
        watch: "A rise under equal load.",
        read: |report, samples| {
            let costs = &report.costs;
            let all = costs.signatures_made
                + costs.signatures_verified
                + costs.macs_made
                + costs.macs_verified
                + costs.session_tags_made
                + costs.session_tags_verified
                + costs.key_agreements
                + costs.usigs_created
                + costs.usigs_verified
                + costs.frames_sealed
                + costs.frames_opened;
            samples.one(all as f64 / report.requests.max(1) as f64);
        },
    },
    ReplicaMetric {
        name: "pentarchy_hashed_bytes_total",
        kind: Counter,
        help: "Bytes that went into hashes.",
        watch: "",
        read: |report, samples| samples.one(report.costs.hashed_bytes as f64),
    },
    ReplicaMetric {
        name: "pentarchy_rejects_total",
        kind: Counter,
        help: "Messages of peers that were refused, by reason.",
        watch: "Any growth: a correct peer of the same version sends nothing that is refused.",
        read: |report, samples| {
            for (reason, count) in &report.rejects {
                samples.of("reason", reason, *count as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_findings_total",
        kind: Counter,
        help: "Provable lies and refusals, by the member that they are `about`; see the log.",
        watch: "Any growth: that member is faulty or taken over.",
        read: |report, samples| {
            for (about, count) in &report.counters.findings_about {
                samples.of("about", about, *count as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_diverged_total",
        kind: Counter,
        help: "Times that this replica's own state was found to be wrong.",
        watch: "Any growth: memory or program of this machine is broken.",
        read: |report, samples| samples.one(report.counters.diverged as f64),
    },
    ReplicaMetric {
        name: "pentarchy_host_events_total",
        kind: Counter,
        help: "What the host refused, dropped or lost, by `event`.",
        watch: "`client_busy`: overload. `peer_dropped`: a slow peer. `client_bad_auth`, \
            `client_wrong_author`, `hellos_refused`: someone tries to get in. \
            `other_configuration`: compare the `cluster.toml` of all replicas.",
        read: |report, samples| host_events(&report.counters, samples),
    },
    ReplicaMetric {
        name: "pentarchy_transfer_chunks",
        kind: Gauge,
        help: "Chunks of the state that is being fetched: `have` and `total`; none while nothing \
            is fetched.",
        watch: "`have` that stands still.",
        read: |report, samples| {
            if let Some(state) = &report.catch_up {
                samples.of("which", "have", state.chunks_have as f64);
                samples.of("which", "total", state.chunks_total as f64);
            }
        },
    },
    ReplicaMetric {
        name: "pentarchy_transfer_bytes",
        kind: Gauge,
        help: "Bytes of that state that were moved; 0 while nothing is fetched.",
        watch: "",
        read: |report, samples| {
            samples.one(report.catch_up.map_or(0.0, |state| state.bytes as f64));
        },
    },
    ReplicaMetric {
        name: "pentarchy_log_lines_dropped_total",
        kind: Counter,
        help: "Lines that the log left out because one place in the program wrote too many.",
        watch: "Growth: something repeats itself; the log says what.",
        read: |_, samples| samples.one(crate::logging::dropped_lines() as f64),
    },
];

fn flows(traffic: &Traffic, samples: &mut Samples, read: impl Fn(&Flow) -> (u64, u64)) {
    for (side, flow) in [("peers", &traffic.peers), ("clients", &traffic.clients)] {
        let (inward, outward) = read(flow);
        for (direction, count) in [("in", inward), ("out", outward)] {
            let labels = vec![("side", side.to_owned()), ("direction", direction.to_owned())];
            samples.with(labels, count as f64);
        }
    }
}

fn kinds(
    messages: &BTreeMap<&'static str, Flow>,
    samples: &mut Samples,
    read: impl Fn(&Flow) -> (u64, u64),
) {
    for (kind, flow) in messages {
        let (inward, outward) = read(flow);
        for (direction, count) in [("in", inward), ("out", outward)] {
            let labels = vec![("kind", (*kind).to_owned()), ("direction", direction.to_owned())];
            samples.with(labels, count as f64);
        }
    }
}

/// Every plain number among the counters, under its field's name, so that a new one shows without
/// being named here. Those that have a metric of their own are left out.
fn host_events(counters: &Counters, samples: &mut Samples) {
    let Ok(Value::Object(fields)) = serde_json::to_value(counters) else { return };
    for (name, value) in &fields {
        if let Some(count) = value.as_u64().filter(|_| name != "findings" && name != "diverged") {
            samples.of("event", name, count as f64);
        }
    }
}

/// A replica whose loop does not turn within this time is as good as dead. Long enough for the
/// execution of a large batch on a busy machine.
const ALIVE_LIMIT: Duration = Duration::from_secs(5);

/// How long a replica may take to say how it is.
const REPORT_LIMIT: Duration = Duration::from_secs(1);

impl Source for Watch {
    fn metrics(&self) -> Option<String> {
        let report = self.ask(REPORT_LIMIT)?;
        let labels = [("replica", report.member.to_string())];
        Some(super::render(METRICS, &*report, &labels))
    }

    fn alive(&self) -> Verdict {
        ask(self, ALIVE_LIMIT).map(|_| ())
    }

    fn ready(&self) -> Verdict {
        let reasons = ask(self, REPORT_LIMIT)?.not_ready();
        if reasons.is_empty() { Ok(()) } else { Err(reasons) }
    }
}

fn ask(watch: &Watch, limit: Duration) -> Result<Arc<StatusReport>, Vec<String>> {
    let seconds = limit.as_secs();
    watch.ask(limit).ok_or_else(|| vec![format!("the replica did no work for {seconds} s")])
}
