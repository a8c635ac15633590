//! What operators see: metrics, health and readiness over HTTP, logs, the live view.

use crate::resp::Connection;
use crate::support::{Cluster, eventually, run, signal, stdout, text};
use pentarchy::metrics::document::document;
use pentarchy::metrics::{Kind, gateway, replica};
use pentarchy_protocols::DEFAULT;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Slots that a ready replica may lag: one checkpoint, and what is in flight.
const LEVEL_SLOTS: u64 = 64;

/// Status and body of a page.
pub fn get(address: &str, path: &str) -> (u16, String) {
    request(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    )
}

fn request(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), body.to_owned())
}

/// The number of a line that begins so.
fn number(page: &str, line: &str) -> f64 {
    let found = page.lines().find_map(|l| l.strip_prefix(line));
    found.and_then(|rest| rest.trim().parse().ok()).unwrap_or_else(|| panic!("{line} in {page}"))
}

/// The families that a page describes.
fn families(page: &str) -> BTreeSet<String> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .filter_map(|line| line.split_once(' '))
        .map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.into() })
        .collect()
}

fn address(part: &serde_json::Value) -> String {
    part["metrics"].as_str().unwrap_or_else(|| panic!("metrics in {part}")).to_owned()
}

fn executed(address: &str, id: usize) -> u64 {
    let line = format!("pentarchy_slots{{replica=\"{id}\",stage=\"executed\"}} ");
    number(&get(address, "/metrics").1, &line) as u64
}

#[test]
fn a_cluster_shows_metrics_health_and_readiness() {
    let cluster = Cluster::up(&[]);
    for key in 0..100 {
        assert_eq!(cluster_set(&cluster, key).as_deref(), Some("+OK"));
    }
    let (status, _) = cluster.status();
    for (id, part) in status["replicas"].as_array().expect("a list").iter().enumerate() {
        let at = address(part);
        assert!(at.starts_with("127.0.0.1:"), "{at}");
        assert_eq!(get(&at, "/healthz"), (200, "alive\n".to_owned()));
        eventually("it is ready", || get(&at, "/readyz") == (200, "ready\n".to_owned()));
        // A replica that fetched a state has executed fewer requests itself.
        eventually("slots show", || executed(&at, id) >= 100);
        let (_, page) = get(&at, "/metrics");
        let expected = replica::METRICS.iter().map(|metric| metric.name.to_owned()).collect();
        assert_eq!(families(&page), expected, "{page}");
        // Clients send to the primary only, while it does its work.
        let phase = if part["role"] == "primary" { "total" } else { "commit" };
        let phase = format!("phase_seconds_count{{replica=\"{id}\",phase=\"{phase}\"}} ");
        assert!(number(&page, &format!("pentarchy_request_{phase}")) > 0.0, "{page}");
        // What its part makes it do is counted, in the report as in the metrics.
        let kind = if part["role"] == "primary" { "prepare" } else { "commit" };
        let labels = format!("replica=\"{id}\",kind=\"{kind}\",direction=\"out\"");
        let sent = format!("pentarchy_messages_total{{{labels}}} ");
        assert!(number(&page, &sent) > 0.0, "{page}");
        assert!(part["messages"][kind]["bytes_out"].as_u64() > Some(0), "{part}");
        for operation in ["hash", "frame_sealed", "frame_opened", "usig_created"] {
            let labels = format!("replica=\"{id}\",operation=\"{operation}\"");
            let count = format!("pentarchy_crypto_operations_total{{{labels}}} ");
            assert!(number(&page, &count) > 0.0, "{page}");
        }
        let used = format!("pentarchy_queue_used{{replica=\"{id}\",queue=\"sessions\"}} ");
        assert!(number(&page, &used) > 0.0, "{page}");
    }
    let at = address(&status["gateway"]);
    assert_eq!(get(&at, "/healthz").0, 200);
    assert_eq!(get(&at, "/readyz"), (200, "ready\n".to_owned()));
    let (_, page) = get(&at, "/metrics");
    let expected = gateway::METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(families(&page), expected, "{page}");
    assert!(number(&page, "pentarchy_gateway_commands_total ") >= 100.0, "{page}");
    assert_eq!(get(&at, "/").0, 404);
    assert_eq!(
        request(&at, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").0,
        405
    );
}

fn cluster_set(cluster: &Cluster, key: usize) -> Option<String> {
    Connection::open(cluster.port).call(&["SET", &format!("key:{key}"), "value"])
}

#[test]
fn a_replica_that_was_paused_is_not_ready_before_it_is_level_again() {
    let cluster = Cluster::up(&[]);
    let parts = &cluster.running["replicas"];
    let (paused, other) = (address(&parts[2]), address(&parts[0]));
    eventually("all are ready", || [&paused, &other].iter().all(|at| get(at, "/readyz").0 == 200));
    signal(cluster.replica_pid(2), Signal::STOP);
    let stopped = Instant::now();
    let mut connection = Connection::open(cluster.port);
    // More than a replica reads in one round.
    let value = "x".repeat(12 << 10);
    for key in 0..2000 {
        let stored = connection.call(&["SET", &format!("key:{key}"), &value]);
        assert_eq!(stored.as_deref(), Some("+OK"));
    }
    let goal = executed(&other, 0);
    assert!(goal > 2 * LEVEL_SLOTS, "{goal} slots");
    // Shorter pauses are no stall.
    eventually("it was paused for long", || stopped.elapsed() > Duration::from_secs(2));
    signal(cluster.replica_pid(2), Signal::CONT);
    let mut refusals = Vec::new();
    eventually("it is ready again", || {
        let (status, body) = get(&paused, "/readyz");
        if status == 200 {
            let slot = executed(&paused, 2);
            assert!(slot + LEVEL_SLOTS > goal, "ready at {slot} of {goal}: {refusals:?}");
            return true;
        }
        refusals.push(body);
        false
    });
    assert!(!refusals.is_empty(), "it was ready all the time");
}

#[test]
fn a_replica_that_is_cut_off_says_so_and_the_gateway_too() {
    let cluster = Cluster::up(&[]);
    let parts = &cluster.running["replicas"];
    let left = address(&parts[0]);
    eventually("it is ready", || get(&left, "/readyz").0 == 200);
    signal(cluster.replica_pid(1), Signal::KILL);
    signal(cluster.replica_pid(2), Signal::KILL);
    let says = |at: &str, why: &str| {
        eventually(why, || {
            let (status, body) = get(at, "/readyz");
            status == 503 && body.starts_with("not ready\n") && body.contains(why)
        });
    };
    says(&left, "connected to 0 peers; at least 1 are needed");
    assert_eq!(get(&left, "/healthz").0, 200);
    says(&address(&cluster.running["gateway"]), "1 of 3 replicas answer; 2 are needed");
}

#[test]
fn top_prints_a_table_once_where_there_is_no_terminal() {
    let cluster = Cluster::up(&[]);
    let mut output = run(&["top", "--data", text(&cluster.data)]);
    eventually("all replicas are level", || {
        output = run(&["top", "--once", "--data", text(&cluster.data)]);
        output.status.success()
    });
    let said = stdout(&output);
    assert_eq!(said.matches(" normal ").count(), 3, "{said}");
    assert_eq!(said.matches(" primary ").count(), 1, "{said}");
    let group = format!("{} with 3 replicas, tolerates 1: healthy, ", DEFAULT.rules.name);
    assert!(said.contains(&group), "{said}");
    signal(cluster.replica_pid(2), Signal::KILL);
    let output = run(&["top", "--data", text(&cluster.data)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("replica 2 does not answer"), "{}", stdout(&output));
}

#[test]
fn a_view_change_is_logged_with_its_reason_as_json() {
    let cluster = Cluster::up(&["--log-format", "json"]);
    let log = cluster.data.join("replica-2/replica.log");
    signal(cluster.replica_pid(0), Signal::KILL);
    assert_eq!(cluster.redis_cli(&["incr", "count"]), "1");
    let mut found = serde_json::Value::Null;
    eventually("the view change is logged", || {
        let lines = std::fs::read_to_string(&log).unwrap_or_default();
        let mut lines = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
        let begins = |line: &serde_json::Value| line["message"] == "view change begins";
        found = lines.find(begins).unwrap_or_default();
        !found.is_null()
    });
    assert_eq!(found["span"]["replica"], 2, "{found}");
    assert_eq!(found["span"]["epoch"], 0, "{found}");
    assert_eq!(found["view"], 1, "{found}");
    assert!(found["slot"].is_u64() && found["reason"] != "", "{found}");
    let at = address(&cluster.running["replicas"][2]);
    eventually("it is counted", || {
        number(&get(&at, "/metrics").1, "pentarchy_view{replica=\"2\"} ") >= 1.0
    });
    let page = get(&at, "/metrics").1;
    let reason = found["reason"].as_str().expect("a word");
    let line = format!("pentarchy_view_changes_total{{replica=\"2\",reason=\"{reason}\"}} ");
    assert!(number(&page, &line) >= 1.0, "{page}");
}

/// The page is made from the tables. `PENTARCHY_BLESS=1` writes it.
#[test]
fn the_page_of_metrics_is_that_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    if std::env::var_os("PENTARCHY_BLESS").is_some() {
        std::fs::write(&path, document()).expect("the page can be written");
    }
    let page = std::fs::read_to_string(&path).expect("there is a page");
    assert!(page == document(), "run this test with PENTARCHY_BLESS=1 and look at the difference");
}

/// Names of metrics in a text, as far as they begin like ours.
fn named(text: &str) -> BTreeSet<&str> {
    let word = |c: char| !c.is_ascii_lowercase() && c != '_';
    text.split(word).filter(|name| name.starts_with("pentarchy_")).collect()
}

#[test]
fn dashboard_and_manual_name_only_metrics_that_exist() {
    let mut exist: BTreeSet<String> =
        gateway::METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    for metric in replica::METRICS {
        if metric.kind == Kind::Histogram {
            exist.extend(["bucket", "count", "sum"].map(|part| format!("{}_{part}", metric.name)));
        } else {
            exist.insert(metric.name.to_owned());
        }
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for page in ["grafana/pentarchy.json", "operations.md"] {
        let text = std::fs::read_to_string(docs.join(page)).expect("there is a page");
        // The names of parts of the program, in an example.
        let parts = ["pentarchy_machine", "pentarchy_replica"];
        let used = named(&text).into_iter().filter(|name| !parts.contains(name));
        let used: Vec<&str> = used.collect();
        assert!(used.len() >= 8, "{page}: {used:?}");
        let unknown: Vec<_> = used.iter().filter(|name| !exist.contains(**name)).collect();
        assert!(unknown.is_empty(), "{page} names {unknown:?}");
    }
    let dashboard = std::fs::read(docs.join("grafana/pentarchy.json")).expect("there is one");
    let dashboard: serde_json::Value = serde_json::from_slice(&dashboard).expect("JSON");
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 10));
}

#[test]
fn names_of_metrics_keep_to_the_conventions() {
    let of_replicas = replica::METRICS.iter().map(|metric| (metric.name, metric.kind));
    let of_gateways = gateway::METRICS.iter().map(|metric| (metric.name, metric.kind));
    let mut seen = BTreeSet::new();
    for (name, kind) in of_replicas.chain(of_gateways) {
        assert!(seen.insert(name), "{name} is there twice");
        assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
        assert_eq!(named(name), BTreeSet::from([name]));
        let is_bare = ["_ms", "_micros", "_kib"].iter().any(|unit| name.ends_with(unit));
        assert!(!is_bare, "{name} is in seconds or bytes");
    }
}
