//! `up` starts and ends the machines of a group that changes.

use crate::support::{Cluster, eventually, port_arguments, run, stderr, stdout, text};
use serde_json::Value;

/// Bytes of messages of this kind that a replica sent, or got.
fn bytes(replica: &Value, kind: &str, way: &str) -> u64 {
    replica["messages"][kind][way].as_u64().unwrap_or(0)
}

#[test]
fn a_machine_has_the_state_before_it_is_a_member() {
    let cluster = Cluster::up(&[]);
    let (value, writes) = ("x".repeat(100_000), 80);
    for number in 0..writes {
        assert_eq!(cluster.redis_cli(&["SET", &format!("key-{number}"), &value]), "OK");
    }
    command(&cluster, &["members", "add"]);
    eventually("the new one is level", || cluster.status().1 == Some(0));
    let status = cluster.status().0;
    let replicas = status["replicas"].as_array().expect("a list");
    let [old @ .., new] = &replicas[..] else { panic!("{status}") };
    let learned: u64 = old.iter().map(|replica| bytes(replica, "state", "bytes_out")).sum();
    // What came after the last checkpoint is not there yet.
    assert!(learned > 4_000_000, "{learned} bytes");
    let moved = bytes(new, "transfer", "bytes_in");
    assert!(moved < 4_000_000 && moved < learned, "{moved} of {learned} bytes");
    command(&cluster, &["break", "0", "--kill"]);
    assert_eq!(cluster.redis_cli(&["GET", "key-7"]), value);
}

/// What `up` says of the processes that run, by their names.
fn processes(cluster: &Cluster) -> Vec<String> {
    let told = std::fs::read(cluster.data.join("cluster.json")).expect("it runs");
    let told: Value = serde_json::from_slice(&told).expect("JSON");
    let all = told["replicas"].as_array().expect("a list").iter();
    let alive = all.filter(|part| part["pid"] != 0);
    alive.map(|part| part["name"].as_str().expect("a name").to_owned()).collect()
}

fn command(cluster: &Cluster, words: &[&str]) {
    let output = run(&[words, &["--data", text(&cluster.data)]].concat());
    assert!(output.status.success(), "{words:?}: {}{}", stdout(&output), stderr(&output));
}

fn replicas(cluster: &Cluster) -> usize {
    cluster.status().0["replicas"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_cluster_on_this_machine_gets_other_members() {
    let arguments = ["--durability", "sync"];
    let cluster = Cluster::up(&arguments);
    let is_well = || cluster.status().1 == Some(0);
    assert_eq!(cluster.redis_cli(&["SET", "key", "value"]), "OK");
    command(&cluster, &["break", "1", "--kill"]);
    command(&cluster, &["members", "replace", "1"]);
    eventually("the new one is level", is_well);
    // It is the last one of three now. It counts where another one is missing.
    command(&cluster, &["break", "0", "--kill"]);
    assert_eq!(cluster.redis_cli(&["INCR", "count"]), "1");
    command(&cluster, &["heal", "0"]);
    command(&cluster, &["break", "2", "--kill"]);
    assert_eq!(cluster.redis_cli(&["INCR", "count"]), "2");
    command(&cluster, &["heal", "2"]);
    // `heal` started the replaced member again, too, which finds that it has no place, and ends.
    eventually("it has ended", || processes(&cluster) == ["replica 0", "replica 2", "replica 3"]);

    command(&cluster, &["members", "add"]);
    eventually("the new one is level", || is_well() && replicas(&cluster) == 4);
    command(&cluster, &["members", "remove", "0"]);
    eventually("it has ended", || processes(&cluster) == ["replica 2", "replica 3", "replica 4"]);
    let keys = cluster.data.join("replica-0");
    let left = std::fs::read_dir(keys.join("signing")).expect("the folder").flatten();
    let left: Vec<_> = left.map(|file| file.file_name()).collect();
    assert_eq!(left, ["retired"], "nobody who finds the machine can sign as the member");
    assert!(!keys.join("group-secret").exists());
    eventually("all are level", || is_well() && replicas(&cluster) == 3);
    assert_eq!(cluster.redis_cli(&["INCR", "count"]), "3");

    command(&cluster, &["down"]);
    let [port, ports] = port_arguments(&cluster.ports);
    let up = ["up", "--detach", &port, &ports, "--data", text(&cluster.data)];
    let up = run(&[&up, &arguments[..]].concat());
    assert!(up.status.success(), "{}", stderr(&up));
    assert_eq!(processes(&cluster), ["replica 2", "replica 3", "replica 4"]);
    assert_eq!(cluster.redis_cli(&["GET", "key"]), "value");
    assert_eq!(cluster.redis_cli(&["INCR", "count"]), "4");
    eventually("all are level", || is_well() && replicas(&cluster) == 3);
    // A machine that is not on a host of its own has no card to bring.
    let keys = cluster.data.join("admin-1.key");
    let config = cluster.data.join("cluster.toml");
    let words = ["members", "add", "--config", text(&config), "--admin-key", text(&keys)];
    let refused = run(&words);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("give the card"), "{}", stderr(&refused));
}
