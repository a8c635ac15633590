//! Replicas whose trusted counters are in processes of their own.

use crate::support::{Cluster, eventually, port_arguments, run, stderr, text};
use pentarchy_protocols::EXAMPLES;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

/// The process of a replica's counter, as the replica says.
fn counter(report: &Value, id: usize) -> Option<Pid> {
    let number = report["replicas"][id]["counter_process"].as_i64()?;
    Pid::from_raw(number as i32)
}

fn incr(cluster: &Cluster, expected: u64) {
    assert_eq!(cluster.redis_cli(&["INCR", "count"]), expected.to_string());
}

#[test]
fn a_replica_ends_with_its_counter_and_comes_back_with_another_life() {
    let split = EXAMPLES.split.rules.name;
    let arguments = ["--protocol", split, "--counter", "process", "--request-auth", "session"];
    let cluster = Cluster::up(&arguments);
    incr(&cluster, 1);
    let (before, _) = cluster.status();
    let killed = counter(&before, 1).expect("another process");
    assert_ne!(killed.as_raw_nonzero().get() as u32, cluster.replica_pid(1));
    let shown = run(&["status", "--data", text(&cluster.data)]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains(&format!("replica 1: in process {}", killed.as_raw_nonzero())),
        "{shown}"
    );
    kill_process(killed, Signal::KILL).expect("it runs");
    let log = cluster.data.join("replica-1/replica.log");
    eventually("the replica says why it ends", || {
        std::fs::read_to_string(&log).expect("a log").contains("trusted counter has ended")
    });
    incr(&cluster, 2);
    let healed = run(&["heal", "1", "--data", text(&cluster.data)]);
    assert!(healed.status.success(), "{}", stderr(&healed));
    let (after, _) = cluster.status();
    let life = |report: &Value| report["replicas"][1]["incarnation"].as_u64();
    assert!(life(&before).is_some() && life(&after) != life(&before), "{after}");
    assert_ne!(counter(&after, 1), Some(killed));
    incr(&cluster, 3);
}

/// What a log remembers of a counter is brought to the process; and no process stays behind.
#[test]
fn counters_go_on_where_they_were_if_a_log_says_where() {
    let arguments = ["--counter", "process", "--durability", "sync"];
    let cluster = Cluster::up(&arguments);
    (1..=5).for_each(|count| incr(&cluster, count));
    let (before, _) = cluster.status();
    let data = text(&cluster.data).to_owned();
    assert!(run(&["down", "--data", &data]).status.success());
    for id in 0..3 {
        let process = counter(&before, id).expect("another process");
        eventually("it ends with its replica", || test_kill_process(process).is_err());
    }
    let [port, replicas] = port_arguments(&cluster.ports);
    let up = ["up", "--detach", &port, &replicas, "--data", &data];
    let up = [&up, &arguments[..]].concat();
    let again = run(&up);
    assert!(again.status.success(), "{}", stderr(&again));
    incr(&cluster, 6);
    let (after, _) = cluster.status();
    for id in 0..3 {
        let life = |report: &Value| report["replicas"][id]["incarnation"].clone();
        assert_eq!(life(&after), life(&before));
        assert!(counter(&after, id).is_some());
    }
}

/// Trusted MACs are made and checked there too, and the group goes on without a replica whose
/// process was killed.
#[test]
fn votes_are_trusted_macs_of_a_process() {
    let macs = EXAMPLES.macs.rules.name;
    let arguments = ["--protocol", macs, "--counter", "process", "--request-auth"];
    let cluster = Cluster::up(&[&arguments[..], &["session"]].concat());
    (1..=3).for_each(|count| incr(&cluster, count));
    let (report, _) = cluster.status();
    for id in 0..4 {
        let costs = &report["replicas"][id]["costs"];
        let count = |name: &str| costs[name].as_u64().expect("a number");
        assert!(count("usigs_created") >= 3 && count("usigs_verified") >= 6, "{costs}");
        assert!(counter(&report, id).is_some());
    }
    kill_process(counter(&report, 0).expect("another process"), Signal::KILL).expect("it runs");
    (4..=6).for_each(|count| incr(&cluster, count));
}

#[test]
fn who_has_no_counters_has_them_nowhere() {
    let signed = EXAMPLES.signed.rules.name;
    let up = run(&["up", "--protocol", signed, "--counter", "process"]);
    let said = stderr(&up);
    assert!(said.contains(&format!("{signed} has no trusted counters")), "{said}");
    let by_hand = run(&["counter", "/nowhere"]);
    assert!(!by_hand.status.success());
}
