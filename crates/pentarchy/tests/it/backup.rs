//! `snapshot` and `log`, on replicas that run and on such that have stopped.

use crate::hosts::Parts;
use crate::support::{PATIENCE, eventually, run, stderr, stdout, text};
use pentarchy::config::ClusterConfig;
use pentarchy::services::kv::{Command, Kv, STATE_BYTES_DEFAULT};
use pentarchy::{Client, LocalCluster, Service};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::service::{Context, Event};
use pentarchy_core::wire::Malformed;
use pentarchy_crypto::keys::KeyPair;
use serde_json::Value;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

fn client(parts: &Parts) -> Client {
    let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
    pentarchy::node::connect(&config, KeyPair::generate()).expect("a client")
}

fn call(client: &Client, words: &[&str]) -> String {
    let pending = client.submit(Command::new(words).to_operation());
    let reply = pending.wait_timeout(PATIENCE).expect("the group answers");
    String::from_utf8_lossy(&reply).into_owned()
}

fn status(client: &Client, id: u16) -> Value {
    let asked = client.status(ReplicaId(id)).wait_timeout(PATIENCE);
    asked.map_or(Value::Null, |json| serde_json::from_slice(&json).expect("JSON"))
}

fn data(parts: &Parts, id: usize) -> PathBuf {
    parts.file(&format!("replica-{id}")).join("data")
}

/// Runs a command that prints JSON, and gives that with the exit code.
fn json(arguments: &[&str]) -> (Value, i32) {
    let output = run(&[arguments, &["--json"]].concat());
    let printed = stdout(&output);
    let value = serde_json::from_str(&printed).unwrap_or_else(|_| {
        panic!("{arguments:?} printed {printed} {}", stderr(&output));
    });
    (value, output.status.code().expect("it ends by itself"))
}

/// A command that is refused, and what it says.
fn refused(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
    stdout(&output) + &stderr(&output)
}

fn write(client: &Client, word: &str) {
    for number in 0..300 {
        call(client, &["SET", &format!("key-{number}"), &format!("{word}-{number}")]);
    }
}

/// A group that runs, and a backup that was taken of it meanwhile.
fn group_with_backup() -> (Parts, Client, PathBuf) {
    let mut parts = Parts::init_with(&["--open"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let client = client(&parts);
    write(&client, "old");
    let backup = parts.parent.path().join("backup");
    eventually("there is a state on disk", || {
        call(&client, &["INCR", "polls"]);
        let saved =
            run(&["snapshot", "save", "--data", text(&data(&parts, 1)), "--out", text(&backup)]);
        saved.status.success()
    });
    (parts, client, backup)
}

fn changed(from: &Path, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let (path, mut bytes) = (from.with_extension("bad"), std::fs::read(from).expect("a file"));
    change(&mut bytes);
    std::fs::write(&path, bytes).expect("it can be written");
    path
}

#[test]
fn a_group_that_lost_everything_begins_anew_with_a_backup() {
    let (parts, client, backup) = group_with_backup();
    let mode = std::fs::metadata(&backup).expect("it was made").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        refused(&["snapshot", "save", "--data", text(&data(&parts, 1)), "--out", text(&backup)], 2)
            .contains("exists")
    );
    let (verified, code) = json(&["snapshot", "verify", text(&backup)]);
    assert_eq!((code, &verified["whole"]), (0, &true.into()), "{verified}");
    let slot = verified["states"][0]["slot"].as_u64().expect("a slot");
    // It is what the group vouches for: some replica says so of that slot, or is further by now.
    let report = status(&client, 1);
    if report["stable"] == slot {
        assert_eq!(report["state"], verified["states"][0]["state"]);
    }
    assert!(slot > 0);
    drop(client);
    let own = parts.file("cluster.toml");
    let keys = parts.file("replica-0");
    let into = ["--config", text(&own), "--id", "0", "--keys", text(&keys)];
    let restore = ["snapshot", "restore", text(&backup)];
    assert!(refused(&[&restore[..], &into].concat(), 2).contains("of the very group"));
    let mut old = parts;
    for child in &mut old.children {
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }

    let mut parts = Parts::init_with(&["--open"]);
    for id in 0..3usize {
        let (config, keys) = (parts.file("cluster.toml"), parts.file(&format!("replica-{id}")));
        let id = id.to_string();
        let into = ["--config", text(&config), "--id", &id, "--keys", text(&keys)];
        let (restored, code) = json(&[&restore[..], &into].concat());
        assert_eq!((code, &restored["slot"]), (0, &slot.into()), "{restored}");
        assert!(refused(&[&restore[..], &into].concat(), 2).contains("started before"));
    }
    (0..3).for_each(|id| parts.start_replica(id));
    let client = self::client(&parts);
    // The last writes may have come after the state that was saved.
    assert!(call(&client, &["GET", "key-0"]).ends_with("old-0"));
    write(&client, "new");
    assert!(call(&client, &["GET", "key-299"]).ends_with("new-299"));
    eventually("all are level with each other, behind the state that was restored", || {
        call(&client, &["INCR", "polls"]);
        (0..3).all(|id| {
            let report = status(&client, id);
            report["phase"] == "normal"
                && report["stable"].as_u64() > Some(slot)
                && report["counters"]["diverged"] == 0
        })
    });
}

#[test]
fn a_state_that_rots_under_a_running_replica_is_mended_and_reported() {
    let (parts, client, _) = group_with_backup();
    let folder = data(&parts, 1).join("snapshots");
    let packs = || {
        let files = std::fs::read_dir(&folder).expect("a folder").flatten();
        let mut packs: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
        packs.retain(|path| path.extension().is_some_and(|its| its == "pack"));
        packs.sort();
        packs
    };
    let disk = || status(&client, 1)["durability"].clone();
    let number = |name: &str| disk()[name].as_u64().unwrap_or_default();
    eventually("it reads all that it has, again and again", || number("scrub_rounds") > 1);
    assert_eq!((number("damaged_pieces"), number("repaired_pieces")), (0, 0));
    let pack = packs().pop().expect("a pack");
    // In place: a file that is written anew is empty for a moment.
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&pack).expect("a file");
    let middle = file.metadata().expect("a file").len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle).expect("it can be read");
    file.write_all_at(&[byte[0] ^ 1], middle).expect("it can be written");
    eventually("it is mended", || number("repaired_pieces") == 1);
    assert_eq!(number("damaged_pieces"), 1);
    assert_eq!(json(&["snapshot", "verify", text(&data(&parts, 1))]).1, 0);
    let key = parts.file("client.key");
    let (shown, _) = parts.status(&key);
    assert!(shown.contains("ALARM: 1 pieces of states on its disk were damaged"), "{shown}");
}

/// A store that forgets what one key holds.
struct Forgets(Kv);

impl Service for Forgets {
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        let wrong = Command::new(&["SET", "forgotten", ""]).to_operation();
        let is_it = operation.windows(9).any(|word| word == b"forgotten");
        self.0.execute(context, if is_it { &wrong } else { operation })
    }
    fn query(&self, operation: &[u8]) -> Vec<u8> {
        self.0.query(operation)
    }
    fn take_events(&mut self) -> Vec<Event> {
        self.0.take_events()
    }
    fn sections(&self) -> u32 {
        self.0.sections()
    }
    fn section(&self, index: u32) -> Vec<u8> {
        self.0.section(index)
    }
    fn changed_sections(&mut self) -> Vec<u32> {
        self.0.changed_sections()
    }
    fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        self.0.restore_section(index, bytes)
    }
}

#[test]
fn a_replica_whose_state_differs_says_in_which_section() {
    let made = std::cell::Cell::new(0);
    let service = || -> Box<dyn Service> {
        made.set(made.get() + 1);
        let kv = Kv::new(STATE_BYTES_DEFAULT);
        if made.get() == 3 { Box::new(Forgets(kv)) } else { Box::new(kv) }
    };
    let cluster = LocalCluster::builder().start(service).expect("a cluster");
    let client = cluster.client().expect("a client");
    for number in 0..100 {
        call(&client, &["SET", &format!("key-{number}"), "value"]);
    }
    call(&client, &["SET", "forgotten", "value"]);
    eventually("a checkpoint shows it", || {
        call(&client, &["INCR", "polls"]);
        let report = status(&client, 2);
        let sections = report["diverged_sections"].as_array().cloned().unwrap_or_default();
        sections.len() == 1 && report["counters"]["diverged"] == 1
    });
    let named = status(&client, 2)["diverged_sections"][0].as_str().expect("a name").to_owned();
    assert!(named.starts_with("section ") && named.ends_with(" of the service"), "{named}");
    assert!(status(&client, 0)["diverged_sections"].as_array().expect("a list").is_empty());
}

/// What is done to the bytes of a file.
type Harm = fn(&mut Vec<u8>);

#[test]
fn damaged_foreign_and_newer_files_are_named_and_never_used() {
    let (mut parts, client, backup) = group_with_backup();
    let verify = |path: &Path| json(&["snapshot", "verify", text(path)]);
    let bad: [(Harm, &str); 5] = [
        (|bytes| bytes.truncate(bytes.len() / 2), "damaged"),
        (|bytes| bytes.truncate(9), "damaged"),
        (|bytes| *bytes.last_mut().expect("bytes") ^= 1, "damaged"),
        (|bytes| bytes[0] ^= 1, "no backup"),
        (|bytes| bytes[8] = 9, "format 9"),
    ];
    for (harm, words) in bad {
        let path = changed(&backup, harm);
        let (verified, code) = verify(&path);
        assert_eq!((code, &verified["whole"]), (1, &false.into()), "{verified}");
        assert!(verified["problems"][0].as_str().expect("text").contains(words), "{verified}");
        refused(&["snapshot", "diff", text(&path), text(&backup)], 1);
    }
    assert!(refused(&["snapshot", "verify", "/nonexistent/file"], 2).contains("cannot read"));
    // Of a replica that runs, states can be read at any time; its log cannot.
    let running = data(&parts, 0);
    assert_eq!(verify(&running).1, 0);
    let said = refused(&["log", "verify", "--data", text(&running)], 2);
    assert!(said.contains("stop that one first"), "{said}");
    write(&client, "other");
    let later = parts.parent.path().join("later");
    eventually("there is another state", || {
        call(&client, &["INCR", "polls"]);
        let _ = std::fs::remove_file(&later);
        let save = ["snapshot", "save", "--data", text(&running), "--out", text(&later)];
        let saved = run(&save);
        saved.status.success() && json(&["snapshot", "diff", text(&backup), text(&later)]).1 == 1
    });
    let (difference, _) = json(&["snapshot", "diff", text(&backup), text(&later)]);
    assert_eq!(difference["equal"], false);
    assert!(difference["differing"].as_u64() > Some(1), "{difference}");
    assert_eq!(json(&["snapshot", "diff", text(&later), text(&later)]).1, 0);

    for child in &mut parts.children {
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
    let (log, code) = json(&["log", "verify", "--data", text(&running)]);
    assert_eq!((code, &log["whole"]), (0, &true.into()), "{log}");
    let dump = run(&["log", "dump", "--data", text(&running), "--last", "5", "--json"]);
    let lines: Vec<Value> = stdout(&dump)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON on each line"))
        .collect();
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(lines[4]["number"].as_u64().map(|last| last + 1), log["next"].as_u64());
    let segment = std::fs::read_dir(running.join("log")).expect("a folder").flatten().next();
    let segment = segment.expect("a segment").path();
    let mut bytes = std::fs::read(&segment).expect("a file");
    bytes[1600] ^= 1;
    std::fs::write(&segment, bytes).expect("it can be written");
    let (log, code) = json(&["log", "verify", "--data", text(&running)]);
    assert_eq!((code, &log["whole"]), (1, &false.into()), "{log}");
    assert!(log["problem"].as_str().expect("text").contains("is damaged at byte"), "{log}");
    assert!(refused(&["log", "dump", "--data", text(&running)], 1).contains("is damaged at byte"));
    let pack = std::fs::read_dir(running.join("snapshots")).expect("a folder").flatten();
    let pack =
        pack.map(|entry| entry.path()).find(|it| it.extension().is_some_and(|e| e == "pack"));
    let pack = pack.expect("a pack");
    let mut bytes = std::fs::read(&pack).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&pack, bytes).expect("it can be written");
    assert_eq!(verify(&running).1, 1);
}
