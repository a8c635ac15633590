//! Replicas that keep what they say go on as whom they were.

use crate::hosts::Parts;
use crate::support::{PATIENCE, eventually, stderr};
use pentarchy::config::ClusterConfig;
use pentarchy::services::kv::{Command, Kv, STATE_BYTES_DEFAULT};
use pentarchy::{Client, LocalCluster, Service};
use pentarchy_core::ids::ReplicaId;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn service() -> Box<dyn Service> {
    Box::new(Kv::new(STATE_BYTES_DEFAULT))
}

fn call(client: &Client, words: &[&str]) -> Vec<u8> {
    let pending = client.submit(Command::new(words).to_operation());
    pending.wait_timeout(PATIENCE).expect("the group answers").to_vec()
}

/// What a replica says of itself; nothing if it does not answer.
pub fn status(client: &Client, id: u16) -> Value {
    let asked = client.status(ReplicaId(id)).wait_timeout(PATIENCE);
    asked.map_or(Value::Null, |json| serde_json::from_slice(&json).expect("JSON"))
}

#[test]
fn a_group_goes_on_after_all_of_it_has_stopped() {
    goes_on_after_all_of_it_has_stopped(DEFAULT);
}

#[test]
fn a_group_that_signs_its_votes_goes_on_after_all_of_it_has_stopped() {
    goes_on_after_all_of_it_has_stopped(EXAMPLES.signed);
}

#[test]
fn a_group_whose_votes_are_trusted_macs_goes_on_after_all_of_it_has_stopped() {
    goes_on_after_all_of_it_has_stopped(EXAMPLES.macs);
}

#[test]
fn a_group_whose_order_could_be_split_goes_on_after_all_of_it_has_stopped() {
    goes_on_after_all_of_it_has_stopped(EXAMPLES.split);
}

fn goes_on_after_all_of_it_has_stopped(protocol: &Descriptor) {
    let n = protocol.rules.replicas(1);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cluster = LocalCluster::builder().protocol(protocol.rules.name).data(folder.path());
    let mut cluster = cluster.start(service).expect("a cluster");
    let client = cluster.client().expect("a client");
    // More than two checkpoints, so that it goes on from a snapshot and from the log.
    for round in 1..=3 {
        for number in 0..100 {
            call(&client, &["SET", &format!("key-{number}"), &format!("{round}-{number}")]);
        }
        (0..n).for_each(|id| cluster.kill(id).expect("it ran"));
        (0..n).for_each(|id| cluster.restart(id, service()).expect("it starts"));
        for number in 0..100 {
            let read = call(&client, &["GET", &format!("key-{number}")]);
            assert!(read.ends_with(format!("{round}-{number}").as_bytes()), "{read:?}");
        }
    }
    for id in 0..n as u16 {
        let report = status(&client, id);
        assert_eq!((&report["epoch"], &report["counters"]["diverged"]), (&0.into(), &0.into()));
    }
    // One alone, while the others go on.
    for id in 0..n as u16 {
        cluster.kill(usize::from(id)).expect("it ran");
        call(&client, &["INCR", "kills"]);
        cluster.restart(usize::from(id), service()).expect("it starts");
        eventually("it is level in the same epoch", || {
            let report = status(&client, id);
            call(&client, &["INCR", "polls"]);
            report["epoch"] == 0 && report["phase"] == "normal" && report["behind"] == 0
        });
    }
    assert!(call(&client, &["GET", "kills"]).ends_with(n.to_string().as_bytes()));
}

/// A group of replica processes that keep what they say, stopped after some writes.
struct Stopped {
    parts: Parts,
    /// The data folders.
    data: Vec<PathBuf>,
}

impl Stopped {
    fn make() -> Self {
        let mut parts = Parts::init_with(&["--open"]);
        (0..3).for_each(|id| parts.start_replica(id));
        let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
        let client = pentarchy::node::connect(&config, KeyPair::generate()).expect("a client");
        for number in 0..300 {
            call(&client, &["SET", &format!("key-{number}"), &"x".repeat(1000)]);
        }
        for child in &mut parts.children {
            child.kill().expect("it runs");
            child.wait().expect("it ends");
        }
        let data = (0..3).map(|id| parts.file(&format!("replica-{id}")).join("data")).collect();
        Self { parts, data }
    }

    /// What a replica says that does not start.
    fn refusal(&self, id: usize) -> String {
        let output = self.parts.replica(id).output().expect("it starts");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        said
    }

    /// A copy of a data folder, in its place, to be put back afterwards.
    fn broken(&self, id: usize, harm: impl FnOnce(&Path), expected: &[&str]) {
        let (folder, aside) = (&self.data[id], self.data[id].with_extension("aside"));
        copy(folder, &aside);
        harm(folder);
        let said = self.refusal(id);
        for words in expected {
            assert!(said.contains(words), "{words:?} is not in: {said}");
        }
        std::fs::remove_dir_all(folder).expect("it can be removed");
        std::fs::rename(aside, folder).expect("it can be put back");
    }
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

/// The only file in a folder with this ending, or the first.
fn file(folder: &Path, ending: &str) -> PathBuf {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|its| its == ending));
    files.sort();
    files.first().expect("there is one").clone()
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).expect("a file");
    change(&mut bytes);
    std::fs::write(path, bytes).expect("it can be written");
}

const ANEW: &str = "start this replica with an empty one: it comes back as a new incarnation";

#[test]
fn a_bad_data_folder_is_refused_with_what_is_wrong_and_what_to_do() {
    let stopped = Stopped::make();
    let log = |folder: &Path| file(&folder.join("log"), "log");
    let flip = |path: &Path, at: usize| change(path, |bytes| bytes[at] ^= 1);
    let damaged = [".log is damaged at byte 1536", ANEW];
    stopped.broken(0, |folder| flip(&log(folder), 1600), &damaged);
    let cut = |folder: &Path| change(&log(folder), |bytes| bytes.truncate(1 << 20));
    stopped.broken(0, cut, &[".log is damaged at byte", ANEW]);
    let remove = |folder: &Path| std::fs::remove_file(log(folder)).expect("it is there");
    stopped.broken(0, remove, &["missing", ANEW]);
    let version = |folder: &Path| change(&log(folder), |bytes| bytes[8] = 9);
    stopped.broken(0, version, &[".log"]);
    let no_device = |folder: &Path| {
        std::fs::remove_file(folder.join("device")).expect("it is there");
    };
    stopped.broken(0, no_device, &["the file `device` is missing", ANEW]);
    let other = |folder: &Path| {
        std::fs::remove_dir_all(folder).expect("it can be removed");
        copy(&stopped.data[1], folder);
    };
    stopped.broken(0, other, &["is not this replica's: it belongs to replica 1"]);
    let other_group = Stopped::make();
    let foreign = |folder: &Path| {
        std::fs::remove_dir_all(folder).expect("it can be removed");
        copy(&other_group.data[0], folder);
    };
    stopped.broken(0, foreign, &["is not this replica's: it belongs to another group"]);
    // A life of the same replica that is not the one of this log.
    let life = |folder: &Path| {
        std::fs::copy(stopped.data[1].join("device"), folder.join("device")).expect("a copy");
    };
    stopped.broken(0, life, &["it belongs to another life of this replica's trusted device"]);
    // Records of one protocol mean nothing to another, or something else.
    let config = stopped.parts.file("cluster.toml");
    let right = std::fs::read_to_string(&config).expect("it was made");
    let [written, says] = [DEFAULT, EXAMPLES.split].map(|protocol| protocol.rules.name);
    let other = right.replace(&format!("{written:?}"), &format!("{says:?}"));
    assert_ne!(other, right);
    std::fs::write(&config, other).expect("it can be written");
    let said = stopped.refusal(0);
    let expected = format!("began with {written}, and cluster.toml says {says}");
    assert!(said.contains(&expected), "{said}");
    std::fs::write(&config, right).expect("it can be written");
    // Two at a time.
    let mut parts = stopped.parts;
    parts.children.clear();
    parts.start_replica(1);
    let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
    let client = pentarchy::node::connect(&config, KeyPair::generate()).expect("a client");
    eventually("the first one runs", || status(&client, 1)["phase"].is_string());
    let mut second = parts.replica(1);
    let output = second.args(["--listen", "127.0.0.1:0"]).output().expect("it starts");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("another process uses this folder"), "{said}");
}

/// A replica whose disk is full says nothing more and ends. The others go on, and with room it goes
/// on as whom it was.
#[test]
fn who_has_no_room_left_ends_and_goes_on_when_there_is_some() {
    let mut parts = Parts::init_with(&["--open"]);
    let mut full = parts.replica(2);
    full.args(["--disk", "fills"]).stderr(std::process::Stdio::piped());
    (0..2).for_each(|id| parts.start_replica(id));
    parts.spawn(full);
    let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
    let client = pentarchy::node::connect(&config, KeyPair::generate()).expect("a client");
    let mut written = 0;
    let ended = loop {
        call(&client, &["SET", &format!("key-{written}"), &"x".repeat(20_000)]);
        written += 1;
        if let Some(ended) = parts.children[2].try_wait().expect("it is ours") {
            break ended;
        }
        assert!(written < 5_000, "100 MB were written");
    };
    let mut said = String::new();
    let pipe = parts.children.remove(2).stderr.take();
    std::io::Read::read_to_string(&mut pipe.expect("a pipe"), &mut said).expect("text");
    assert_eq!(ended.code(), Some(3), "{said}");
    assert!(said.contains("the disk failed, and the replica stops"), "{said}");
    assert!(said.contains("no storage space"), "{said}");
    call(&client, &["SET", "meanwhile", "written"]);
    parts.start_replica(2);
    eventually("it is level in the same epoch", || {
        call(&client, &["INCR", "polls"]);
        let report = status(&client, 2);
        report["epoch"] == 0 && report["phase"] == "normal" && report["behind"] == 0
    });
    for key in [0, written / 2, written - 1] {
        assert!(call(&client, &["GET", &format!("key-{key}")]).ends_with(b"xxx"));
    }
}

/// Who was away while the group took several checkpoints hears of it from its peers first: it asks
/// for no view, moves what it lacks, and everybody stays where they are.
#[test]
fn who_comes_back_far_behind_disturbs_nobody() {
    let mut parts = Parts::init_with(&["--open"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
    let client = pentarchy::node::connect(&config, KeyPair::generate()).expect("a client");
    // The primary: what it proposed last is not what the group goes on with.
    for id in [2, 0] {
        call(&client, &["INCR", "number"]);
        let views = status(&client, 1)["view"].clone();
        parts.children[id].kill().expect("it runs");
        parts.children[id].wait().expect("it ends");
        (0..400).for_each(|_| drop(call(&client, &["INCR", "number"])));
        let before = status(&client, 1);
        assert!(id == 0 || before["view"] == views, "{before}");
        parts.children[id] = parts.replica(id).spawn().expect("it starts");
        eventually("it is level", || {
            call(&client, &["INCR", "polls"]);
            let report = status(&client, id as u16);
            report["phase"] == "normal" && report["behind"] == 0 && report["view"] == before["view"]
        });
        let after = status(&client, 1);
        assert_eq!((&after["view"], &after["epoch"]), (&before["view"], &0.into()));
        let mine = status(&client, id as u16);
        let asked = mine["view_changes_by_reason"].clone();
        let late = "a request was not ordered in time";
        assert!(asked.get(late).is_none(), "it judged by what it had missed: {asked}");
    }
    assert!(call(&client, &["GET", "number"]).ends_with(b"802"));
}

/// With `async` a replica that stops is a new incarnation, and has the state of the one before: it
/// fetches what changed, and not all.
#[test]
fn a_new_life_with_a_state_of_the_one_before_fetches_what_changed() {
    let fetched = ["async", "memory"].map(|mode| {
        let mut parts = Parts::init_with(&["--open", "--durability", mode]);
        (0..3).for_each(|id| parts.start_replica(id));
        let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
        let client = pentarchy::node::connect(&config, KeyPair::generate()).expect("a client");
        for number in 0..500 {
            call(&client, &["SET", &format!("key-{number}"), &"x".repeat(4000)]);
        }
        let written = status(&client, 2)["executed"].as_u64().expect("a number");
        if mode == "async" {
            eventually("what was written is on the disk", || {
                call(&client, &["INCR", "polls"]);
                let disk = status(&client, 2)["durability"].clone();
                assert_eq!(disk["mode"], "async");
                disk["saved"].as_u64() >= Some(written)
            });
        }
        parts.children[2].kill().expect("it runs");
        parts.children.remove(2).wait().expect("it ends");
        call(&client, &["SET", "key-7", "changed"]);
        parts.start_replica(2);
        eventually("it is level in the next epoch", || {
            call(&client, &["INCR", "polls"]);
            let report = status(&client, 2);
            report["epoch"] == 1 && report["phase"] == "normal" && report["behind"] == 0
        });
        let report = status(&client, 2);
        let read = call(&client, &["GET", "key-7"]);
        assert!(read.ends_with(b"changed"), "{read:?}");
        report["messages"]["transfer"]["bytes_in"].as_u64().expect("a number")
    });
    let [with, without] = fetched;
    assert!(without > 2_000_000, "all of it: {without}");
    assert!(with < without / 4, "what changed: {with} of {without}");
}

#[test]
fn an_empty_data_folder_is_a_new_life_that_the_group_admits() {
    let stopped = Stopped::make();
    std::fs::remove_dir_all(&stopped.data[2]).expect("it can be removed");
    let mut parts = stopped.parts;
    parts.children.clear();
    (0..3).for_each(|id| parts.start_replica(id));
    let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
    let client = pentarchy::node::connect(&config, KeyPair::generate()).expect("a client");
    eventually("it is level in the next epoch", || {
        call(&client, &["INCR", "polls"]);
        let report = status(&client, 2);
        report["epoch"] == 1 && report["phase"] == "normal" && report["behind"] == 0
    });
    // From now on it is that life that goes on.
    parts.children[2].kill().expect("it runs");
    parts.children.remove(2).wait().expect("it ends");
    call(&client, &["INCR", "polls"]);
    let mut again = parts.replica(2);
    again.args(["--log-mib", "300"]);
    parts.spawn(again);
    eventually("it is level in the same epoch", || {
        call(&client, &["INCR", "polls"]);
        let report = status(&client, 2);
        report["epoch"] == 1 && report["phase"] == "normal" && report["behind"] == 0
    });
    eventually("it says how its disk is doing", || {
        call(&client, &["INCR", "polls"]);
        let disk = status(&client, 2)["durability"].clone();
        let is_small = disk["log_bytes_max"] == 9 * (32 << 20) && disk["log_full"] == false;
        disk["mode"] == "sync" && disk["syncs"].as_u64() > Some(0) && is_small
    });
}
