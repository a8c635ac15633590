//! The metrics of a gateway, and whether it can serve.

use super::Kind::{Counter, Gauge};
use super::Metric;
use super::server::{Source, Verdict};
use pentarchy_client::Client;
use pentarchy_cluster::node::client_quorums;
use pentarchy_core::ids::{MemberId, ReplicaId};
use pentarchy_gateways::resp::{Numbers, Watch};
use pentarchy_replica::status::usage;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long replicas may take to answer when the gateway is asked whether it is ready.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// How long a verdict holds, so that who asks often does not load the group.
const VERDICT_HOLDS: Duration = Duration::from_secs(1);

/// Why a gateway serves no more whose key another one uses or has used.
const OVERTAKEN: &str = "another process uses this gateway's key, and the replicas serve that one; \
    give each gateway a key of its own, and restart. If no other one runs, this host's clock was \
    set back, or is behind that of the host on which the key was used before: set it right, or \
    give this gateway a new key, before the restart";

type GatewayMetric = Metric<Numbers>;

/// Every metric of a gateway.
pub const METRICS: &[GatewayMetric] = &[
    GatewayMetric {
        name: "pentarchy_gateway_build_info",
        kind: Gauge,
        help: "Always 1; the version is in its label.",
        watch: "",
        read: |_, samples| samples.of("version", env!("CARGO_PKG_VERSION"), 1.0),
    },
    GatewayMetric {
        name: "pentarchy_gateway_uptime_seconds",
        kind: Gauge,
        help: "Time since the gateway was started.",
        watch: "A fall: the process was restarted.",
        read: |numbers, samples| samples.one(numbers.uptime.as_secs_f64()),
    },
    GatewayMetric {
        name: "pentarchy_gateway_cpu_seconds_total",
        kind: Counter,
        help: "Processor time of the process.",
        watch: "",
        read: |_, samples| samples.one(usage().0 as f64 / 1e6),
    },
    GatewayMetric {
        name: "pentarchy_gateway_resident_memory_bytes",
        kind: Gauge,
        help: "Memory of the process.",
        watch: "",
        read: |_, samples| samples.one(usage().1 as f64 * 1024.0),
    },
    GatewayMetric {
        name: "pentarchy_gateway_connections_total",
        kind: Counter,
        help: "Connections of Redis clients that came.",
        watch: "",
        read: |numbers, samples| samples.one(numbers.connections as f64),
    },
    GatewayMetric {
        name: "pentarchy_gateway_connections_refused_total",
        kind: Counter,
        help: "Those that were refused because there were too many.",
        watch: "Any growth: clients that leak connections.",
        read: |numbers, samples| samples.one(numbers.refused as f64),
    },
    GatewayMetric {
        name: "pentarchy_gateway_clients_connected",
        kind: Gauge,
        help: "Redis clients connected.",
        watch: "",
        read: |numbers, samples| samples.one(numbers.clients as f64),
    },
    GatewayMetric {
        name: "pentarchy_gateway_commands_total",
        kind: Counter,
        help: "Commands received.",
        watch: "",
        read: |numbers, samples| samples.one(numbers.commands as f64),
    },
    GatewayMetric {
        name: "pentarchy_gateway_commands_failed_total",
        kind: Counter,
        help: "Commands that the group did not answer in time, or at all.",
        watch: "Any growth: the group stands still, or is unreachable from here.",
        read: |numbers, samples| samples.one(numbers.failures as f64),
    },
    GatewayMetric {
        name: "pentarchy_gateway_commands_under_way",
        kind: Gauge,
        help: "Commands that wait for the group.",
        watch: "Its share of `pentarchy_gateway_commands_under_way_limit`.",
        read: |numbers, samples| samples.one(numbers.under_way as f64),
    },
    GatewayMetric {
        name: "pentarchy_gateway_commands_under_way_limit",
        kind: Gauge,
        help: "How many commands may wait for the group.",
        watch: "",
        read: |numbers, samples| samples.one(numbers.under_way_limit as f64),
    },
    GatewayMetric {
        name: "pentarchy_gateway_log_lines_dropped_total",
        kind: Counter,
        help: "Lines that the log left out because one place in the program wrote too many.",
        watch: "Growth: something repeats itself; the log says what.",
        read: |_, samples| samples.one(crate::logging::dropped_lines() as f64),
    },
];

/// A running gateway, as its HTTP listener sees it.
pub struct GatewaySource {
    watch: Watch,
    client: Client,
    verdict: Mutex<Option<(Instant, Verdict)>>,
}

impl GatewaySource {
    /// `client` is the one through which the gateway speaks to its group.
    #[must_use]
    pub const fn new(watch: Watch, client: Client) -> Self {
        Self { watch, client, verdict: Mutex::new(None) }
    }

    /// Whether the replicas serve it at all.
    fn look(&self) -> Verdict {
        if self.client.is_overtaken() {
            return Err(vec![OVERTAKEN.to_owned()]);
        }
        self.ask()
    }

    /// Asks all replicas. Results count if enough replicas say the same.
    fn ask(&self) -> Verdict {
        let deadline = Instant::now() + ANSWER_LIMIT;
        let membership = self.client.membership();
        let needed = client_quorums(&membership).map_or(membership.f + 1, |it| it.replies);
        let ask = |place: ReplicaId| (place, self.client.status(place));
        let asked: Vec<_> = membership.ids().map(ask).collect();
        let mut silent = Vec::new();
        for (place, pending) in asked {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Err(error) = pending.wait_timeout(left) {
                let MemberId(id) = membership.members[usize::from(place.0)].id;
                silent.push(format!("replica {id}: {error}"));
            }
        }
        let n = membership.n();
        let answering = n - silent.len();
        if answering >= needed {
            return Ok(());
        }
        silent.insert(0, format!("{answering} of {n} replicas answer; {needed} are needed"));
        Err(silent)
    }
}

impl Source for GatewaySource {
    fn metrics(&self) -> Option<String> {
        Some(super::render(METRICS, &self.watch.numbers(), &[]))
    }

    fn alive(&self) -> Verdict {
        Ok(())
    }

    fn ready(&self) -> Verdict {
        // Whoever else asks waits here, and gets the same answer.
        let mut held = self.verdict.lock().unwrap_or_else(PoisonError::into_inner);
        match &*held {
            Some((at, verdict)) if at.elapsed() < VERDICT_HOLDS => verdict.clone(),
            _ => {
                let verdict = self.look();
                *held = Some((Instant::now(), verdict.clone()));
                verdict
            }
        }
    }
}
