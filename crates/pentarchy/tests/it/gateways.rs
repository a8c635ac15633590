//! Gateways and clients that come and go while a group runs that admits listed clients only, and
//! several gateways as one.

use crate::hosts::Parts;
use crate::members::refreshed;
use crate::redis_py::python;
use crate::resp::Connection;
use crate::support::{end, eventually, free_port, pentarchy, run, stderr, stdout, text};
use pentarchy::KeyPair;
use pentarchy::administration::Administrator;
use pentarchy::chain_file;
use pentarchy::config::ClusterConfig;
use pentarchy_core::limits::LINKS_TOLD_MAX;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A gateway that ends with the test, with a folder of its own.
struct Gateway {
    port: u16,
    folder: PathBuf,
    process: Child,
}

impl Gateway {
    fn start(parts: &Parts, name: &str, port: u16) -> Self {
        let folder = parts.parent.path().join(name);
        std::fs::create_dir_all(&folder).expect("the test's folder");
        let config = folder.join("cluster.toml");
        std::fs::copy(parts.file("cluster.toml"), &config).expect("the test's folder");
        let (key, listen) = (parts.file(&format!("{name}.key")), format!("127.0.0.1:{port}"));
        let files = ["gateway", "--config", text(&config), "--key", text(&key)];
        let log = std::fs::File::create(folder.join("log")).expect("the test's folder");
        let process = pentarchy(&[&files[..], &["--listen", &listen, "--timeout", "1"]].concat())
            .stdin(Stdio::null())
            .stderr(log)
            .spawn();
        let gateway = Self { port, folder, process: process.expect("it starts") };
        eventually("the gateway listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        gateway
    }

    /// The gateway's answer to a command.
    fn ask(&self, words: &[&str]) -> String {
        Connection::open(self.port).call(words).unwrap_or_default()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).expect("it has a log")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// What two of three administrators say about clients.
fn clients(parts: &Parts, words: &[&str]) -> (String, Option<i32>) {
    let config = parts.file("cluster.toml");
    let keys = ["admin-1.key", "admin-2.key"].map(|key| parts.file(key));
    let keys = ["--admin-key", text(&keys[0]), "--admin-key", text(&keys[1])];
    let output = run(&[&["clients"], words, &["--config", text(&config)], &keys[..]].concat());
    (stdout(&output) + &stderr(&output), output.status.code())
}

fn public(key: &Path) -> String {
    hex::encode(KeyPair::load(key).expect("a key").public())
}

#[test]
fn a_gateway_joins_takes_over_and_another_one_leaves() {
    let mut parts = Parts::init_with(&["--administrators", "3"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let mut first = Gateway::start(&parts, "gateway-1", free_port());
    eventually("the group works", || first.ask(&["SET", "count", "0"]) == "+OK");

    let key = parts.file("gateway-2.key");
    let prepared = run(&["clients", "prepare", "--out", text(&key)]);
    let (former, new) = (public(&parts.file("gateway-1.key")), public(&key));
    assert_eq!(stdout(&prepared).trim(), new);
    let second = Gateway::start(&parts, "gateway-2", free_port());
    assert!(second.log().contains(&format!("pentarchy clients add {new}")), "{}", second.log());
    assert!(second.ask(&["GET", "count"]).contains("timed out"), "it is not listed yet");

    let (said, code) = clients(&parts, &["add", &new]);
    assert!(code == Some(0) && said.contains("configuration 1 has begun"), "{said}");
    eventually("it serves", || second.ask(&["GET", "count"]) == "0");
    let (said, _) = clients(&parts, &["list"]);
    assert_eq!(said.lines().count(), 3, "the client, and two gateways: {said}");
    assert!(said.contains(&new) && said.contains(&former), "{said}");

    // One of them dies under load, comes back, and then the other one.
    let ports = [first.port, second.port];
    let counting = &mut Counting::start(300, &ports);
    counting.wait(40);
    end(&mut first.process);
    counting.wait(80);
    first = Gateway::start(&parts, "gateway-1", ports[0]);
    drop(second);
    counting.wait(60);
    let second = Gateway::start(&parts, "gateway-2", ports[1]);
    counting.finish();
    eventually("it serves", || second.ask(&["GET", "count"]) == "300");

    let (said, code) = clients(&parts, &["remove", &former]);
    assert!(code == Some(0) && said.contains("configuration 2 has begun"), "{said}");
    eventually("it is told", || first.log().contains("the group admits this client no more"));
    assert!(first.ask(&["GET", "count"]).starts_with("-ERR timed out"), "it is not served");
    assert_eq!(second.ask(&["GET", "count"]), "300");
    // Also by replicas that start again.
    end(&mut parts.children[0]);
    parts.start_replica(0);
    end(&mut first.process);
    first = Gateway::start(&parts, "gateway-1", first.port);
    assert!(first.ask(&["GET", "count"]).starts_with("-ERR timed out"), "it is not served");

    let (said, code) = clients(&parts, &["open"]);
    assert!(code == Some(0) && said.contains("configuration 3 has begun"), "{said}");
    assert_eq!(clients(&parts, &["list"]).0.trim(), "open: anyone who has a key may be a client");
    eventually("it serves again", || first.ask(&["GET", "count"]) == "300");
}

#[test]
fn clients_that_cannot_be_listed_are_refused() {
    let mut parts = Parts::init_with(&["--administrators", "3"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let all = ["client.key", "gateway-1.key"].map(|key| public(&parts.file(key)));
    let (stranger, nobody) = (public(&parts.file("replica-0").join("key")), "02".repeat(32));
    for (words, why) in [
        (&["add", &all[0]][..], "lists the client"),
        (&["add", &stranger, &stranger], "given twice"),
        (&["add", &nobody], "nobody's public key"),
        (&["add", &nobody[..60]], "64 hexadecimal digits"),
        (&["remove", &stranger], "lists no client"),
        (&["remove", &all[0], &all[1]], "no client would be left"),
        (&["only"], "required"),
    ] {
        let (said, code) = clients(&parts, words);
        assert!(code == Some(2) && said.contains(why), "{words:?}: {said}");
    }
    // One administrator alone cannot close the group to others, and the next one sees what to sign.
    let (config, key) = (parts.file("cluster.toml"), parts.file("admin-1.key"));
    let files = ["--config", text(&config), "--admin-key", text(&key)];
    let words = ["clients", "only", &stranger, "--wait", "1"];
    let proposed = run(&[&words[..], &files].concat());
    assert_eq!(proposed.status.code(), Some(1), "{}", stdout(&proposed));
    let listed = stdout(&run(&[&["members", "list"][..], &files].concat()));
    for part in [format!("client {} leaves", all[1]), format!("client {stranger} joins")] {
        assert!(listed.contains(&part), "{listed}");
    }
    assert!(listed.contains("clients: 2 listed"), "{listed}");
    let (said, code) = clients(&parts, &["open"]);
    assert!(code == Some(0), "{said}");
    let (said, code) = clients(&parts, &["add", &stranger]);
    assert!(code == Some(2) && said.contains("this group is open"), "{said}");
}

/// Of so many changes, replicas tell in several answers. A gateway stops after the first change,
/// and starts again after all: first with what it kept of that one, then with `cluster.toml` alone.
#[test]
fn a_gateway_that_slept_through_many_changes_finds_the_group_with_and_without_what_it_kept() {
    let mut parts = Parts::init_with(&["--administrators", "1", "--durability", "memory"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let first = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
    let key = KeyPair::load(&parts.file("admin-1.key")).expect("a key");
    let administrator = Administrator::connect(&first, key).expect("an administrator");
    let gateway = Gateway::start(&parts, "gateway-1", free_port());
    let (port, chain) = (gateway.port, gateway.folder.join("cluster.chain"));
    eventually("the group works", || gateway.ask(&["SET", "count", "0"]) == "+OK");
    let kept = || chain_file::read(&chain).map_or(0, |links| links.len());
    refreshed(&administrator);
    eventually("it has kept that", || kept() == 1);
    drop(gateway);

    let changes = LINKS_TOLD_MAX + 2;
    (1..changes).for_each(|_| drop(refreshed(&administrator)));
    assert_eq!(kept(), 1, "it slept");
    for count in ["1", "2"] {
        let gateway = Gateway::start(&parts, "gateway-1", port);
        // Until it has found the group, it gives up what it is asked.
        eventually("it serves", || gateway.ask(&["GET", "count"]).parse::<u64>().is_ok());
        assert_eq!(gateway.ask(&["INCR", "count"]), format!(":{count}"), "{}", gateway.log());
        eventually("it has kept all changes", || kept() == changes);
        drop(gateway);
        std::fs::remove_file(&chain).expect("it was kept");
    }
}

/// A client that adds one again and again, in a process of its own.
struct Counting {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    told: u64,
    times: u64,
}

impl Counting {
    fn start(times: u64, ports: &[u16]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/one_of_several.py");
        let mut command = Command::new(python());
        command.args([script, &times.to_string()]);
        command.args(ports.iter().map(u16::to_string)).stdout(Stdio::piped());
        let mut process = command.spawn().expect("python3 runs");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        Self { process, lines, told: 0, times }
    }

    /// Waits until it was told so many more counts, each one more than the one before.
    fn wait(&mut self, more: u64) {
        for _ in 0..more {
            let line = self.lines.next().expect("it goes on").expect("it writes lines");
            self.told += 1;
            assert_eq!(line.trim(), self.told.to_string(), "nothing is added twice");
        }
    }

    fn finish(&mut self) {
        self.wait(self.times - self.told);
        assert!(self.process.wait().expect("it ends").success());
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}
