//! `INFO` and `CONFIG`.

use super::super::encoder::Encoder;
use super::super::shared::Shared;
use super::session::{REDIS_VERSION, Session};
use super::{fail, is};
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_services::kv::{Error, glob};
use std::sync::atomic::Ordering::Relaxed;

type Section = (&'static str, fn(&Shared) -> String);

/// Sections of `INFO`, and what makes them.
const SECTIONS: [Section; 5] = [
    ("Server", server),
    ("Clients", clients),
    ("Stats", stats),
    ("Replication", replication),
    ("Cluster", cluster),
];

pub fn info(_: &mut Session, shared: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    let wanted = &args[1..];
    let everything = ["all", "default", "everything"];
    let all = wanted.is_empty() || wanted.iter().any(|word| everything.iter().any(|n| is(word, n)));
    let sections = SECTIONS
        .iter()
        .filter(|(name, _)| all || wanted.iter().any(|word| is(word, name)))
        .map(|(name, make)| format!("# {name}\r\n{}", make(shared)));
    out.prose(&sections.collect::<Vec<_>>().join("\r\n"));
}

fn server(shared: &Shared) -> String {
    format!(
        "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\npentarchy_version:{}\r\n\
         os:{}\r\narch_bits:{}\r\nprocess_id:{}\r\ntcp_port:{}\r\nuptime_in_seconds:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        usize::BITS,
        std::process::id(),
        shared.address.port(),
        shared.started.elapsed().as_secs(),
    )
}

fn clients(shared: &Shared) -> String {
    let (connected, max) = (shared.connected(), shared.config.connections_max);
    let blocked = shared.counters.blocked.load(Relaxed);
    format!("connected_clients:{connected}\r\nmaxclients:{max}\r\nblocked_clients:{blocked}\r\n")
}

fn stats(shared: &Shared) -> String {
    let counters = &shared.counters;
    format!(
        "total_connections_received:{}\r\nrejected_connections:{}\r\n\
         total_commands_processed:{}\r\ncommands_outstanding:{}\r\nbackend_failures:{}\r\n",
        counters.connections.load(Relaxed),
        counters.rejected.load(Relaxed),
        counters.commands.load(Relaxed),
        shared.config.outstanding_max.saturating_sub(shared.budget.commands_left()),
        counters.failures.load(Relaxed),
    )
}

fn replication(_: &Shared) -> String {
    "role:master\r\nconnected_slaves:0\r\nreplicated_by:pentarchy\r\n".into()
}

/// Libraries ask before they speak to a server as to one of a cluster.
fn cluster(_: &Shared) -> String {
    "cluster_enabled:0\r\n".into()
}

fn settings(shared: &Shared) -> [(&'static str, String); 11] {
    [
        ("appendonly", "no".into()),
        ("bind", shared.address.ip().to_string()),
        ("databases", "1".into()),
        ("maxclients", shared.config.connections_max.to_string()),
        ("maxmemory", "0".into()),
        ("maxmemory-policy", "noeviction".into()),
        ("notify-keyspace-events", String::new()),
        ("port", shared.address.port().to_string()),
        ("proto-max-bulk-len", OPERATION_BYTES_MAX.to_string()),
        ("save", String::new()),
        ("timeout", "0".into()),
    ]
}

pub fn config(_: &mut Session, shared: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    let word = args[1];
    if is(word, "GET") {
        let patterns: Vec<_> = args[2..].iter().map(|word| word.to_ascii_lowercase()).collect();
        let wanted =
            |name: &str| patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes()));
        let found: Vec<_> = settings(shared).into_iter().filter(|(name, _)| wanted(name)).collect();
        out.map(found.len());
        for (name, value) in found {
            out.text(name);
            out.text(&value);
        }
    } else {
        let name = String::from_utf8_lossy(word).to_ascii_uppercase();
        let why = "the gateway is configured when it is started";
        fail(out, &Error::other(format!("CONFIG {name} is not supported: {why}")));
    }
}
