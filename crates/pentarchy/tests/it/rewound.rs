//! A data folder that is put back from a copy: whole, and older than what was said from it.

use crate::hosts::Parts;
use crate::support::{PATIENCE, eventually};
use pentarchy::Client;
use pentarchy::config::ClusterConfig;
use pentarchy::services::kv::Command;
use pentarchy_core::ids::ReplicaId;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_protocols::EXAMPLES;
use serde_json::Value;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;

fn write(client: &Client, key: &str, times: usize) {
    for number in 0..times {
        let command = Command::new(&["SET", key, &number.to_string()]).to_operation();
        client.submit(command).wait_timeout(PATIENCE).expect("the group answers");
    }
}

fn status(client: &Client, id: u16) -> Value {
    let asked = client.status(ReplicaId(id)).wait_timeout(PATIENCE);
    asked.map_or(Value::Null, |json| serde_json::from_slice(&json).expect("JSON"))
}

fn is_level(client: &Client, id: u16, epoch: u64) -> bool {
    write(client, "polls", 1);
    let report = status(client, id);
    report["epoch"] == epoch && report["phase"] == "normal" && report["behind"] == 0
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a new folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let there = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &there),
            false => drop(std::fs::copy(entry.path(), there).expect("it can be copied")),
        }
    }
}

fn stop(parts: &mut Parts, id: usize) {
    parts.children[id].kill().expect("it runs");
    parts.children[id].wait().expect("it ends");
}

fn start_again(parts: &mut Parts, id: usize) {
    parts.start_replica(id);
    let child = parts.children.pop().expect("it was started");
    parts.children[id] = child;
}

/// The primary and a backup: what they say differs, and who sees it.
#[test]
fn who_finds_an_older_folder_in_its_place_says_nothing_and_why() {
    for id in [0, 1] {
        refuses_an_older_folder(id, &["--open"]);
    }
}

/// What pillars said, other threads of others heard.
#[test]
fn pillars_that_find_an_older_folder_in_its_place_say_nothing() {
    let split = EXAMPLES.split.rules.name;
    refuses_an_older_folder(0, &["--open", "--protocol", split, "--pillars", "2"]);
}

/// In the epoch of the copy nobody heard more of it than the copy has. In the next one they did.
#[test]
fn who_finds_a_folder_of_an_epoch_before_in_its_place_says_nothing() {
    let mut parts = Parts::init_with(&["--open"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
    let client = pentarchy::node::connect(&config, KeyPair::generate()).expect("a client");
    write(&client, "before", 20);
    let data = |parts: &Parts, id: usize| parts.file(&format!("replica-{id}")).join("data");
    let (mine, others) = (data(&parts, 0), data(&parts, 2));
    let older = mine.with_extension("copy");
    stop(&mut parts, 0);
    copy(&mine, &older);
    start_again(&mut parts, 0);
    eventually("it goes on as whom it was", || is_level(&client, 0, 0));
    stop(&mut parts, 2);
    std::fs::remove_dir_all(&others).expect("it can be removed");
    start_again(&mut parts, 2);
    eventually("another life is admitted", || (0..3).all(|id| is_level(&client, id, 1)));
    // The group needs what it says now, so it is heard.
    stop(&mut parts, 1);
    write(&client, "since", 20);
    start_again(&mut parts, 1);
    eventually("all are level", || (0..3).all(|id| is_level(&client, id, 1)));
    stop(&mut parts, 0);
    std::fs::remove_dir_all(&mine).expect("it can be removed");
    std::fs::rename(&older, &mine).expect("it can be put back");
    ends_with_its_folder(&parts, 0);
}

/// A replica ends, and says why.
fn ends_with_its_folder(parts: &Parts, id: usize) {
    let mut rewound = parts.replica(id);
    let mut child = rewound.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = String::new();
    let mut pipe = child.stderr.take().expect("a pipe");
    eventually("it ends", || child.try_wait().expect("it is ours").is_some());
    pipe.read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("it ended").code(), Some(3), "{said}");
    for words in ["the data folder is out of date", "start with an empty one", "new incarnation"] {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
}

fn refuses_an_older_folder(id: usize, group: &[&str]) {
    let mut parts = Parts::init_with(group);
    (0..3).for_each(|id| parts.start_replica(id));
    let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
    let client = pentarchy::node::connect(&config, KeyPair::generate()).expect("a client");
    write(&client, "before", 50);
    let data = parts.file(&format!("replica-{id}")).join("data");
    let older = data.with_extension("copy");
    stop(&mut parts, id);
    copy(&data, &older);
    start_again(&mut parts, id);
    eventually("it goes on as whom it was", || is_level(&client, id as u16, 0));
    // The group needs what it says now, so it is heard.
    stop(&mut parts, 2);
    write(&client, "since", 50);
    start_again(&mut parts, 2);
    stop(&mut parts, id);
    std::fs::rename(&data, data.with_extension("newest")).expect("it can be put aside");
    std::fs::rename(&older, &data).expect("it can be put back");
    ends_with_its_folder(&parts, id);
    write(&client, "meanwhile", 5);
    // With the newest folder it goes on, and with an empty one as another life.
    std::fs::rename(&data, &older).expect("it can be put aside");
    std::fs::rename(data.with_extension("newest"), &data).expect("it can be put back");
    start_again(&mut parts, id);
    eventually("it goes on as whom it was", || is_level(&client, id as u16, 0));
    stop(&mut parts, id);
    std::fs::remove_dir_all(&data).expect("it can be removed");
    // Nobody can admit it yet, and it is started once more: what the other one heard of the life
    // before does not count.
    stop(&mut parts, 2);
    start_again(&mut parts, id);
    let log = data.join("log");
    eventually("it has begun a folder", || {
        std::fs::read_dir(&log).is_ok_and(|files| files.flatten().next().is_some())
    });
    stop(&mut parts, id);
    start_again(&mut parts, id);
    eventually("it waits to be admitted", || status(&client, id as u16)["phase"].is_string());
    start_again(&mut parts, 2);
    eventually("it is admitted", || is_level(&client, id as u16, 1));
    for other in 0..3 {
        assert_eq!(status(&client, other)["counters"]["findings"], 0, "nobody was caught lying");
    }
}
