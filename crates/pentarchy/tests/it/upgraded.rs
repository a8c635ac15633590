//! Other versions of the program: one after the other on the machines of a group that runs, and
//! what an older one has left.
//!
//! `cargo xtask upgrade` builds the program of an earlier commit and names it in
//! `PENTARCHY_OTHER`. Without that the other version is the same one: then these tests show that
//! each replica of a group can be stopped and started anew while a client goes on.

use crate::hosts::Parts;
use crate::resp::Connection;
use crate::support::{
    Cluster, PATIENCE, cluster_ports, eventually, free_port, pentarchy, run, signal, stderr,
    stdout, text,
};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// The program of the other version.
fn other() -> PathBuf {
    let own = env!("CARGO_BIN_EXE_pentarchy");
    std::env::var_os("PENTARCHY_OTHER").map_or_else(|| own.into(), PathBuf::from)
}

/// The same command, carried out by the other version.
fn by_other(command: &Command) -> Command {
    let mut other = Command::new(other());
    other.args(command.get_args()).env_remove("PENTARCHY_LOG").env("NO_COLOR", "1");
    other
}

/// A client that counts through a gateway, and is told each number once.
struct Counting {
    told: Arc<AtomicU64>,
    is_done: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Counting {
    fn start(port: u16) -> Self {
        let (told, is_done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, done) = (told.clone(), is_done.clone());
        let thread = std::thread::spawn(move || {
            let mut connection = Connection::open(port);
            while !done.load(Ordering::Relaxed) {
                let next = count.load(Ordering::Relaxed) + 1;
                assert_eq!(connection.call(&["INCR", "count"]), Some(format!(":{next}")));
                count.store(next, Ordering::Relaxed);
            }
        });
        Self { told, is_done, thread }
    }

    /// Waits until the group has answered a few requests that are yet to come.
    fn goes_on(&self) {
        let (begun, told) = (Instant::now(), self.told.load(Ordering::Relaxed));
        while self.told.load(Ordering::Relaxed) < told + 20 {
            assert!(!self.thread.is_finished() && begun.elapsed() < PATIENCE, "nobody counts on");
            std::thread::yield_now();
        }
    }

    /// How far it has counted.
    fn end(self) -> u64 {
        self.is_done.store(true, Ordering::Relaxed);
        self.thread.join().expect("each number was told once");
        self.told.load(Ordering::Relaxed)
    }
}

/// Replaces the program on one machine after the other, from the one version to the other and
/// back, so that each version is once the majority's, and once the primary's.
fn machines_change_their_program(options: &[&str]) {
    let mut parts = Parts::init_with(options);
    let (count, key) = (3, parts.file("client.key"));
    for id in 0..count {
        parts.spawn(by_other(&parts.replica(id)));
    }
    let ports = [free_port(), free_port()];
    parts.spawn(by_other(&parts.gateway(ports[0])));
    let listens = |port: u16| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    eventually("the gateway listens", || listens(ports[0]));
    let counting = Counting::start(ports[0]);
    counting.goes_on();
    let back = (0..count).rev().map(|id| (id, true));
    for (id, is_other) in (0..count).map(|id| (id, false)).chain(back) {
        signal(parts.children[id].id(), Signal::TERM);
        let ended = parts.children[id].wait().expect("it is a child");
        assert!(ended.success(), "replica {id}: {ended}");
        counting.goes_on();
        let replica = parts.replica(id);
        parts.spawn(if is_other { by_other(&replica) } else { replica });
        let new = parts.children.len() - 1;
        parts.children.swap(id, new);
        eventually("all is well", || parts.status(&key).1 == Some(0));
        counting.goes_on();
    }
    let told = counting.end();
    signal(parts.children[count].id(), Signal::TERM);
    parts.children[count].wait().expect("it is a child");
    parts.spawn(parts.gateway(ports[1]));
    eventually("the other gateway listens", || listens(ports[1]));
    let count = Connection::open(ports[1]).call(&["GET", "count"]);
    assert_eq!(count, Some(told.to_string()), "each was executed once");
}

#[test]
fn machines_that_keep_what_they_say_change_their_program_one_by_one() {
    machines_change_their_program(&[]);
}

#[test]
fn machines_that_keep_nothing_change_their_program_one_by_one() {
    machines_change_their_program(&["--durability", "memory", "--request-auth", "session"]);
}

/// What the program kept before configurations had numbers: a stopped cluster of three that counted
/// to five and set `key1` to `key5`, without the third replica's folder and without keys; and a
/// backup of slot 64 from when it ran. The logs are without the zeros with which they were filled.
const BEFORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/format_3");

/// The bytes of a segment of its log.
const SEGMENT_BYTES: u64 = 32 << 20;

/// Copies it, with its replicas at the given ports.
fn left_before(to: &Path, ports: [&str; 3]) -> PathBuf {
    let old = to.join("old");
    for replica in ["replica-0", "replica-1"] {
        for folder in ["log", "snapshots"] {
            let within = format!("{replica}/data/{folder}");
            fs::create_dir_all(old.join(&within)).expect("a folder");
            for entry in fs::read_dir(Path::new(BEFORE).join(&within)).expect("a folder") {
                let entry = entry.expect("it is there");
                let copy = old.join(&within).join(entry.file_name());
                fs::copy(entry.path(), &copy).expect("it can be copied");
                if folder == "log" {
                    let file = fs::OpenOptions::new().write(true).open(&copy).expect("a file");
                    file.set_len(SEGMENT_BYTES).expect("there is room for zeros");
                }
            }
        }
        for file in ["device", "protocol"].map(|name| format!("{replica}/data/{name}")) {
            fs::copy(Path::new(BEFORE).join(&file), old.join(&file)).expect("it can be copied");
            // Version control knows no files that only their owner may read.
            let private = fs::Permissions::from_mode(0o600);
            fs::set_permissions(old.join(&file), private).expect("it is ours");
        }
    }
    fs::copy(Path::new(BEFORE).join("stopped.json"), old.join("stopped.json")).expect("a copy");
    let config = fs::read_to_string(Path::new(BEFORE).join("cluster.toml")).expect("a file");
    let moved = ["17000", "17001", "17002"].iter().zip(ports);
    let config = moved.fold(config, |config, (old, new)| config.replace(old, new));
    fs::write(old.join("cluster.toml"), config).expect("it can be written");
    old
}

fn convert(old: &Path, new: &Path, options: &[&str]) -> Output {
    run(&[&["config", "convert", text(old), "--out", text(new)], options].concat())
}

#[test]
fn what_an_older_version_kept_is_refused_by_its_format_and_converted() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let ports: [String; 3] = std::array::from_fn(|_| free_port().to_string());
    let old = left_before(parent.path(), [&ports[0], &ports[1], &ports[2]]);
    let data = old.join("replica-0/data");

    // Nobody reads it as something else.
    let verified = run(&["log", "verify", "--data", text(&data)]);
    assert_eq!(verified.status.code(), Some(1));
    assert!(stdout(&verified).contains("has format 3"), "{}", stdout(&verified));

    // Its last state is in the log, and the one before in files.
    let saved = parent.path().join("saved.backup");
    let output = run(&["snapshot", "save", "--data", text(&data), "--out", text(&saved)]);
    let said = stdout(&output) + &stderr(&output);
    assert!(output.status.success() && said.contains("slot 128"), "{said}");
    assert!(said.contains("has format 3") && said.contains("MISSING"), "{said}");

    let new = parent.path().join("new");
    let output = convert(&old, &new, &[]);
    let said = stdout(&output) + &stderr(&output);
    assert!(output.status.success() && said.contains("with its state of slot 128"), "{said}");
    // Hosts of their own: each starts with its folder.
    let replicas = (0..3).map(|id| {
        let (config, keys) = (new.join("cluster.toml"), new.join(format!("replica-{id}")));
        let id = id.to_string();
        pentarchy(&["replica", "--config", text(&config), "--id", &id, "--keys", text(&keys)])
    });
    let mut group = Parts { parent: tempfile::tempdir().expect("a folder"), children: Vec::new() };
    replicas.for_each(|replica| group.spawn(replica));
    let (port, config) = (free_port(), new.join("cluster.toml"));
    let (listen, key) = (format!("127.0.0.1:{port}"), new.join("gateway-1.key"));
    let files = ["--config", text(&config), "--key", text(&key), "--listen", &listen];
    group.spawn(pentarchy(&[&["gateway"], &files[..]].concat()));
    eventually("the gateway listens", || std::net::TcpStream::connect(&listen).is_ok());
    let mut connection = Connection::open(port);
    assert_eq!(connection.call(&["INCR", "count"]).as_deref(), Some(":6"));
    assert_eq!(connection.call(&["GET", "key5"]).as_deref(), Some("value5"));
    // It has administrators, whom the old one had not.
    let admin = ["--config", text(&config), "--admin-key", text(&new.join("admin-1.key"))]
        .map(str::to_owned);
    let admin: Vec<&str> = admin.iter().map(String::as_str).collect();
    let listed = run(&[&["members", "list"], &admin[..]].concat());
    assert!(listed.status.success(), "{}", stderr(&listed));
}

#[test]
fn a_group_is_converted_only_if_enough_of_it_agree() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let ports: [String; 3] = std::array::from_fn(|_| free_port().to_string());
    let old = left_before(parent.path(), [&ports[0], &ports[1], &ports[2]]);
    let new = parent.path().join("new");
    let refused = |code: i32, parts: &[&str]| {
        let output = convert(&old, &new, &[]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        parts.iter().for_each(|part| assert!(said.contains(part), "{part:?} is not in {said}"));
        assert!(!new.exists());
    };
    // Of one replica the log is gone: who knows what it had.
    let log = old.join("replica-1/data/log/0000000000000001.log");
    let whole = fs::read(&log).expect("a file");
    fs::remove_file(&log).expect("it was there");
    refused(1, &["no 2 replicas have the same", "the state of slot 128", "--state"]);
    // A damaged one does not count either.
    let mut damaged = whole.clone();
    damaged[40_000] ^= 1;
    fs::write(&log, damaged).expect("it can be written");
    refused(1, &["damaged", "does not count", "no 2 replicas have the same"]);
    // Nor do two copies of one replica's folder, or a folder that the new program has begun with.
    let (first, copy) = (old.join("replica-0/data"), old.join("replica-9/data"));
    for folder in ["log", "snapshots"] {
        fs::create_dir_all(copy.join(folder)).expect("a folder");
        for entry in fs::read_dir(first.join(folder)).expect("a folder") {
            let entry = entry.expect("it is there");
            let copy = copy.join(folder).join(entry.file_name());
            fs::copy(entry.path(), copy).expect("it can be copied");
        }
    }
    refused(1, &["no 2 replicas have the same"]);
    let mut of_this_program = whole.clone();
    of_this_program[8..12].copy_from_slice(&pentarchy_storage::log::VERSION.to_le_bytes());
    fs::write(&log, of_this_program).expect("it can be written");
    refused(1, &["replica-1/data has this program's log, and does not count"]);
    fs::write(&log, whole).expect("it can be written");
    // A group whose last checkpoint lacks something, as far as anybody knows.
    let stopped = old.join("stopped.json");
    let ended = fs::read_to_string(&stopped).expect("a file");
    fs::write(&stopped, ended.replace("128", "192")).expect("it can be written");
    refused(1, &["ended with a checkpoint at slot 192"]);
    fs::remove_file(&stopped).expect("it was there");
    refused(1, &["did not end by `pentarchy down`", "--state"]);
    // The state of another group.
    let (backup, config) = (Path::new(BEFORE).join("running.backup"), old.join("cluster.toml"));
    let named = fs::read_to_string(&config).expect("a file");
    fs::write(&config, named.replace("50bfaa11", "50bfaa12")).expect("it can be written");
    let other = convert(&old, &new, &["--state", text(&backup)]);
    assert!(other.status.code() == Some(2) && stderr(&other).contains("is of another group"));
    fs::write(&config, named).expect("it can be written");

    // Somebody chooses an earlier one, and takes the folder as one of `up`.
    fs::write(old.join(".pentarchy"), "").expect("it can be written");
    let chosen = convert(&old, &new, &["--state", text(&backup)]);
    let said = stdout(&chosen) + &stderr(&chosen);
    assert!(chosen.status.success() && said.contains("with its state of slot 64"), "{said}");
    let again = convert(&old, &new, &[]);
    assert!(again.status.code() == Some(2) && stderr(&again).contains("exists"));
    let start = said.lines().find_map(|line| line.strip_prefix("Start it: pentarchy "));
    let start: Vec<&str> = start.expect("it says how").split(' ').collect();
    let port = free_port();
    let started = run(&[&start[..], &["--detach", "--port", &port.to_string()]].concat());
    assert!(started.status.success(), "{}", stderr(&started));
    let counted = Connection::open(port).call(&["INCR", "count"]);
    let down = run(&["down", "--data", text(&new)]);
    assert_eq!(counted.as_deref(), Some(":6"));
    assert!(down.status.success(), "{}", stderr(&down));
}

#[test]
fn a_group_of_this_version_is_not_converted() {
    let cluster = Cluster::up_on(cluster_ports(), &["--durability", "sync"]);
    let new = cluster.data.with_file_name("new");
    let running = convert(&cluster.data, &new, &[]);
    assert!(running.status.code() == Some(2) && stderr(&running).contains("pentarchy down"));
    assert!(run(&["down", "--data", text(&cluster.data)]).status.success());
    let stopped = convert(&cluster.data, &new, &[]);
    let said = stderr(&stopped);
    assert!(
        stopped.status.code() == Some(2) && said.contains("start the group as it is"),
        "{said}"
    );
    assert!(!new.exists());
}
