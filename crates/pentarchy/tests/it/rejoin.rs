//! Replicas that lost their memory come back, one after the other, until nobody is left of those
//! with whom the group began.

use crate::support::{PATIENCE, eventually};
use pentarchy::services::kv::{Command, Kv, STATE_BYTES_DEFAULT};
use pentarchy::{Client, LocalCluster, RequestMode, Service};
use pentarchy_core::ids::ReplicaId;
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES};
use serde_json::Value;

fn service() -> Box<dyn Service> {
    Box::new(Kv::new(STATE_BYTES_DEFAULT))
}

fn call(client: &Client, words: &[&str]) -> Vec<u8> {
    let pending = client.submit(Command::new(words).to_operation());
    pending.wait_timeout(PATIENCE).expect("the group answers").to_vec()
}

fn status(client: &Client, id: u16) -> Value {
    let asked = client.status(ReplicaId(id)).wait_timeout(PATIENCE);
    asked.map_or(Value::Null, |json| serde_json::from_slice(&json).expect("JSON"))
}

#[test]
fn a_group_outlives_the_memory_of_each_of_its_members() {
    outlives_the_memory_of_each_of_its_members(DEFAULT);
}

#[test]
fn a_group_that_signs_its_votes_outlives_the_memory_of_each_of_its_members() {
    outlives_the_memory_of_each_of_its_members(EXAMPLES.signed);
}

#[test]
fn a_group_whose_votes_are_trusted_macs_outlives_the_memory_of_each_of_its_members() {
    outlives_the_memory_of_each_of_its_members(EXAMPLES.macs);
}

#[test]
fn a_group_whose_order_could_be_split_outlives_the_memory_of_each_of_its_members() {
    outlives_the_memory_of_each_of_its_members(EXAMPLES.split);
}

fn outlives_the_memory_of_each_of_its_members(protocol: &Descriptor) {
    let cluster = LocalCluster::builder().protocol(protocol.rules.name);
    let mut cluster = cluster.start(service).expect("a cluster");
    let client = cluster.client().expect("a client");
    let value = "x".repeat(1000);
    for number in 0..100 {
        call(&client, &["SET", &format!("key-{number}"), &value]);
    }
    // The first view's primary last: the epoch then ends while the view changes.
    let n = cluster.config().replicas.len();
    let last = n - 1;
    for (epoch, id) in (1..).zip((0..n).rev().chain([last])) {
        cluster.kill(id).expect("it ran");
        call(&client, &["INCR", "kills"]);
        cluster.restart(id, service()).expect("it starts");
        eventually("it is level in the next epoch", || {
            let report = status(&client, id as u16);
            call(&client, &["INCR", "polls"]);
            report["epoch"] == epoch && report["phase"] == "normal" && report["behind"] == 0
        });
        assert_eq!(status(&client, id as u16)["counters"]["diverged"], 0);
    }
    // Lives of the second generation alone know everything.
    cluster.kill(1).expect("it ran");
    let kills = call(&client, &["GET", "kills"]);
    assert!(kills.ends_with((n + 1).to_string().as_bytes()), "{kills:?}");
    for number in 0..100 {
        let read = call(&client, &["GET", &format!("key-{number}")]);
        assert!(read.ends_with(value.as_bytes()), "key-{number}");
    }
}

#[test]
fn a_device_of_a_new_life_checks_sessions_as_the_one_before() {
    let cluster = LocalCluster::builder().request_auth(RequestMode::Session);
    let mut cluster = cluster.start(service).expect("a cluster");
    let client = cluster.client().expect("a client");
    call(&client, &["INCR", "count"]);
    cluster.kill(2).expect("it ran");
    call(&client, &["INCR", "count"]);
    cluster.restart(2, service()).expect("it starts");
    eventually("it is level in the next epoch", || {
        let report = status(&client, 2);
        call(&client, &["INCR", "polls"]);
        report["epoch"] == 1 && report["phase"] == "normal" && report["behind"] == 0
    });
    // From here on nothing is ordered unless the new incarnation takes part.
    cluster.kill(1).expect("it ran");
    let other = cluster.client().expect("a client");
    call(&other, &["INCR", "count"]);
    call(&client, &["INCR", "count"]);
    let count = call(&other, &["GET", "count"]);
    assert!(count.ends_with(b"4"), "{count:?}");
    let checked = status(&client, 2)["costs"]["session_tags_verified"].as_u64();
    assert!(checked > Some(1), "{checked:?}");
    assert_eq!(status(&client, 2)["rejects"]["bad_request"], 0);
}
