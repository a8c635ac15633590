//! A real cluster of real processes, driven by real Redis tools.

use crate::resp::Connection;
use crate::support::{
    Cluster, cluster_ports, eventually, is_alive, pentarchy, pids, port_arguments, run, running,
    signal, stderr, stdout, text, tool,
};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of a large value; with its key and what the encoding adds it is nearly 1 MiB.
const LARGE: usize = (1 << 20) - 128;

#[test]
fn redis_tools_work_and_down_leaves_nothing() {
    let cluster = Cluster::up(&[]);
    assert!(cluster.printed.contains(&format!("redis-cli -p {}", cluster.port)));
    assert_eq!(cluster.redis_cli(&["set", "greeting", "hello"]), "OK");
    assert_eq!(cluster.redis_cli(&["get", "greeting"]), "hello");
    assert_eq!(cluster.redis_cli(&["incr", "count"]), "1");
    for pipeline in ["1", "16"] {
        benchmark(cluster.port, pipeline);
    }
    let (status, code) = level_status(&cluster);
    assert_eq!(code, Some(0), "{status}");

    let pids = cluster.pids();
    assert_eq!(pids.len(), 5);
    let output = run(&["down", "--data", text(&cluster.data)]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(pids.iter().filter(|pid| is_alive(**pid)).count(), 0);
    assert!(stdout(&run(&["down", "--data", text(&cluster.data)])).contains("Nothing runs"));
}

/// All of the standard workloads that strings and lists serve, without one error.
fn benchmark(port: u16, pipeline: &str) {
    let port = port.to_string();
    let tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,lrange,mset";
    let arguments = ["-p", &port, "-t", tests, "-n", "10000", "-c", "50", "-q", "-P", pipeline];
    let output = tool("redis-benchmark", &arguments);
    let said = stdout(&output) + &stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(!said.to_lowercase().contains("err"), "{said}");
    // PING is measured twice, and LRANGE with its preparation five times.
    assert_eq!(said.matches("requests per second").count(), 15, "{said}");
}

/// The status once all replicas are level: backups may be a few slots behind for a moment.
fn level_status(cluster: &Cluster) -> (serde_json::Value, Option<i32>) {
    let mut last = cluster.status();
    eventually("all replicas are level", || {
        last = cluster.status();
        last.1 == Some(0)
    });
    last
}

#[test]
fn no_acknowledged_write_is_lost_when_the_primary_is_killed() {
    let cluster = Cluster::up(&[]);
    let (before, _) = level_status(&cluster);
    let view = before["replicas"][0]["view"].as_u64().expect("a view");
    let primary = view as usize % 3;

    let (acknowledged, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut connection = Connection::open(cluster.port);
            let mut written = 0;
            while !stop.load(Ordering::Relaxed) {
                let (key, value) = (format!("key:{written}"), format!("value:{written}"));
                assert_eq!(connection.call(&["SET", &key, &value]).as_deref(), Some("+OK"));
                written += 1;
                acknowledged.store(written, Ordering::Relaxed);
            }
            written
        });
        let more_than = |count: usize| {
            eventually("writes go on", || {
                acknowledged.load(Ordering::Relaxed) > count || writer.is_finished()
            });
        };
        more_than(200);
        signal(cluster.replica_pid(primary), Signal::KILL);
        let at_the_kill = acknowledged.load(Ordering::Relaxed);
        more_than(at_the_kill + 200);
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("every write is acknowledged")
    });

    let mut reader = Connection::open(cluster.port);
    for index in 0..written {
        let value = reader.call(&["GET", &format!("key:{index}")]);
        assert_eq!(value, Some(format!("value:{index}")), "of {written}");
    }
    let (after, code) = cluster.status();
    assert_eq!(code, Some(1), "{after}");
    for (id, replica) in after["replicas"].as_array().expect("a list").iter().enumerate() {
        assert_eq!(replica["reachable"], id != primary, "{after}");
        if id != primary {
            assert!(replica["view"].as_u64() > Some(view), "{after}");
            assert_ne!(replica["view_change_reason"], "", "{after}");
        }
    }
    let table = run(&["status", "--data", text(&cluster.data)]);
    assert_eq!(table.status.code(), Some(1));
    assert!(stdout(&table).contains("unreachable"), "{}", stdout(&table));
    let log = std::fs::read_to_string(cluster.data.join("up.log")).expect("a log");
    assert!(log.contains(&format!("replica {primary} (pid ")), "{log}");
    assert!(log.contains("2 of 3 replicas still run"), "{log}");
}

#[test]
fn redis_tools_work_with_sessions() {
    let cluster = Cluster::up(&["--request-auth", "session"]);
    assert_eq!(cluster.redis_cli(&["set", "greeting", "hello"]), "OK");
    assert_eq!(cluster.redis_cli(&["get", "greeting"]), "hello");
    let (status, code) = level_status(&cluster);
    assert_eq!(code, Some(0), "{status}");
    let config = std::fs::read_to_string(cluster.data.join("cluster.toml")).expect("it was made");
    assert!(config.contains("request_auth = \"session\"\n") && config.contains("\nsession_key = "));
}

#[test]
fn children_do_not_outlive_a_killed_parent() {
    let cluster = Cluster::up(&[]);
    let pids = cluster.pids();
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    signal(pids[0], Signal::KILL);
    eventually("all processes are gone", || !pids.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn a_taken_port_is_passed_over_and_a_running_folder_refused() {
    let ports = cluster_ports();
    let port = ports.numbers().start;
    let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("it was free");
    let cluster = Cluster::up_on(ports, &["--request-auth", "mac"]);
    assert_ne!(cluster.port, port);
    let notice = format!("Port {port} is taken; Redis clients connect to {}", cluster.port);
    assert!(cluster.printed.contains(&notice), "{}", cluster.printed);

    let again = run(&["up", "--detach", "--data", text(&cluster.data)]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("a cluster runs in"), "{}", stderr(&again));
    assert_eq!(cluster.redis_cli(&["incr", "count"]), "1", "and it still runs");
}

#[test]
fn ctrl_c_stops_everything_and_a_stopped_folder_is_replaced() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let data = parent.path().join("data");
    let ports = cluster_ports();
    let [port, replicas] = port_arguments(&ports);
    for attempt in 0..2 {
        let mut command = pentarchy(&["up", &port, &replicas, "--data", text(&data)]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut said = String::new();
        while !said.contains("Ctrl-C") {
            let line = lines.next().unwrap_or_else(|| panic!("it ended after {said}"));
            said = format!("{said}\n{}", line.expect("text"));
        }
        assert_eq!(said.contains("Replacing the stopped cluster"), attempt == 1, "{said}");
        let pids = pids(&running(&data));
        signal(child.id(), Signal::INT);
        assert!(child.wait().expect("it ends").success());
        assert_eq!(pids.iter().filter(|pid| is_alive(**pid)).count(), 0);
    }
    let status = run(&["status", "--data", text(&data)]);
    assert_eq!(status.status.code(), Some(1), "nothing runs: {}", stderr(&status));
}

#[test]
fn many_large_reads_at_once_are_all_answered() {
    let cluster = Cluster::up(&[]);
    let mut connection = Connection::open(cluster.port);
    let values: Vec<String> = ["a", "b", "c", "d"].map(|text| text.repeat(LARGE)).into();
    for (key, value) in values.iter().enumerate() {
        let stored = connection.call(&["SET", &format!("large:{key}"), value]);
        assert_eq!(stored.as_deref(), Some("+OK"));
    }
    let keys: Vec<String> = (0..40).map(|read| format!("large:{}", read % 4)).collect();
    for key in &keys {
        connection.send(&["GET", key]);
    }
    for (read, _) in keys.iter().enumerate() {
        let value = connection.receive().expect("a value");
        assert!(value == values[read % 4], "{} bytes, read {read}", value.len());
    }
}

#[test]
fn without_a_quorum_commands_are_given_up() {
    let cluster = Cluster::up(&["--timeout", "1"]);
    for replica in 1..3 {
        signal(cluster.replica_pid(replica), Signal::KILL);
    }
    let mut connection = Connection::open(cluster.port);
    // The second was never sent: nothing is while it is not known what comes of the first.
    for why in ["it may still be executed", "not executed, and it never will be"] {
        let reply = connection.call(&["INCR", "count"]).expect("an error");
        assert!(reply.starts_with("-ERR timed out") && reply.contains(why), "{reply}");
    }
    assert_eq!(connection.call(&["PING"]).as_deref(), Some("+PONG"));
}
