//! Replicas that keep what they say go on as whom they were.

use crate::support::{PATIENCE, eventually};
use pentarchy::services::kv::{Command, Kv, STATE_BYTES_DEFAULT};
use pentarchy::{Client, LocalCluster, Service};
use pentarchy_core::ids::ReplicaId;
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
fn a_group_goes_on_after_all_of_it_has_stopped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cluster = LocalCluster::builder().data(folder.path());
    let mut cluster = cluster.start(service).expect("a cluster");
    let client = cluster.client().expect("a client");
    // More than two checkpoints, so that it goes on from a snapshot and from the log.
    for round in 1..=3 {
        for number in 0..100 {
            call(&client, &["SET", &format!("key-{number}"), &format!("{round}-{number}")]);
        }
        (0..3).for_each(|id| cluster.kill(id).expect("it ran"));
        (0..3).for_each(|id| cluster.restart(id, service()).expect("it starts"));
        for number in 0..100 {
            let read = call(&client, &["GET", &format!("key-{number}")]);
            assert!(read.ends_with(format!("{round}-{number}").as_bytes()), "{read:?}");
        }
    }
    for id in 0..3 {
        let report = status(&client, id);
        assert_eq!((&report["epoch"], &report["counters"]["diverged"]), (&0.into(), &0.into()));
    }
    // One alone, while the others go on.
    for id in 0..3u16 {
        cluster.kill(usize::from(id)).expect("it ran");
        call(&client, &["INCR", "kills"]);
        cluster.restart(usize::from(id), service()).expect("it starts");
        eventually("it is level in the same epoch", || {
            let report = status(&client, id);
            call(&client, &["INCR", "polls"]);
            report["epoch"] == 0 && report["phase"] == "normal" && report["behind"] == 0
        });
    }
    assert!(call(&client, &["GET", "kills"]).ends_with(b"3"));
}
