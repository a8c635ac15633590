//! Two gateways with one key, which are one client to the replicas.

use crate::hosts::Parts;
use crate::resp::Connection;
use crate::sight::get;
use crate::support::{eventually, free_port, text};
use std::fs::File;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// A gateway that was started.
struct Started {
    port: u16,
    metrics: String,
    log: PathBuf,
}

impl Started {
    fn new(parts: &mut Parts, name: &str) -> Self {
        let (port, metrics) = (free_port(), format!("127.0.0.1:{}", free_port()));
        let log = parts.parent.path().join(name);
        let mut command = parts.gateway(port);
        command.args(["--timeout", "5", "--metrics", &metrics]);
        command.stderr(File::create(&log).expect("a new file"));
        parts.spawn(command);
        Self { port, metrics, log }
    }

    fn listens(&self) {
        eventually("it listens", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }

    /// One command's reply, on a connection of its own.
    fn call(&self, words: &[&str]) -> String {
        Connection::open(self.port).call(words).unwrap_or_default()
    }

    fn is_ready(&self) -> bool {
        get(&self.metrics, "/readyz").0 == 200
    }

    /// It serves no more, and says why wherever it is asked.
    fn is_overtaken(&self) {
        let reply = self.call(&["SET", "by", "overtaken"]);
        assert!(reply.starts_with("-ERR another process uses this gateway's key"), "{reply}");
        let (status, page) = get(&self.metrics, "/readyz");
        assert!(status == 503 && page.contains("another process uses this"), "{status} {page}");
        // The other one may be the one that was started before.
        assert!(reply.contains("this host's clock") && page.contains("this host's clock"));
        let log = self.said();
        assert_eq!(log.matches("another process uses this client's key").count(), 1, "{log}");
    }
}

fn group() -> Parts {
    let mut parts = Parts::init_with(&["--durability", "memory"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let client = parts.file("client.key");
    eventually("all replicas are level", || parts.status(&client).1 == Some(0));
    parts
}

#[test]
fn a_gateway_that_is_overtaken_says_so_and_the_other_one_serves() {
    let mut parts = group();
    let first = Started::new(&mut parts, "first.log");
    first.listens();
    assert_eq!(first.call(&["SET", "by", "first"]), "+OK");
    let second = Started::new(&mut parts, "second.log");
    second.listens();
    assert_eq!(second.call(&["SET", "by", "second"]), "+OK");
    // It finds out by itself, without a command of its own.
    // At first only replicas may be out of its reach: those that know of the other one.
    eventually("the first one says that it is overtaken", || {
        get(&first.metrics, "/readyz").1.contains("another process uses this")
    });
    first.is_overtaken();
    for round in 0..20 {
        assert_eq!(second.call(&["SET", "round", &round.to_string()]), "+OK");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(second.is_ready());
    let lost = second.said().matches("connection lost").count();
    assert!(lost <= 12, "it was thrown out {lost} times: {}", second.said());
    first.is_overtaken();
    // A restart of the first one takes the key back, with numbers of its own.
    parts.children[3].kill().expect("it runs");
    let third = Started::new(&mut parts, "third.log");
    third.listens();
    assert_eq!(third.call(&["GET", "by"]), "second");
    eventually("the second one says that it is overtaken", || !second.is_ready());
    second.is_overtaken();
    assert_eq!(third.call(&["SET", "by", "third"]), "+OK");
    assert!(third.is_ready());
}

#[test]
fn of_two_gateways_that_start_at_once_one_serves_or_both_say_why_not() {
    let mut parts = group();
    let both = [Started::new(&mut parts, "a.log"), Started::new(&mut parts, "b.log")];
    both.iter().for_each(Started::listens);
    let mut serving = Vec::new();
    eventually("one of them is overtaken", || {
        let replies = both.each_ref().map(|one| one.call(&["INCR", "n"]));
        serving = (0..2).filter(|index| replies[*index].starts_with(':')).collect();
        serving.len() < 2
    });
    std::thread::sleep(Duration::from_secs(2));
    for (index, one) in both.iter().enumerate() {
        if serving.contains(&index) {
            assert!(one.call(&["INCR", "n"]).starts_with(':') && one.is_ready());
        } else {
            one.is_overtaken();
        }
    }
    assert_eq!(serving.len(), 1, "the one with the higher numbers lives");
    let key = text(&parts.file("gateway-1.key")).to_owned();
    assert!(!both[serving[0]].said().contains("another process uses"), "{key}");
}

#[test]
fn a_look_with_a_gateway_s_key_takes_nobody_s_place() {
    let mut parts = group();
    let gateway = Started::new(&mut parts, "gateway.log");
    gateway.listens();
    assert_eq!(gateway.call(&["SET", "by", "gateway"]), "+OK");
    let key = parts.file("gateway-1.key");
    for round in 0..20 {
        let (said, _) = parts.status(&key);
        assert!(!said.contains("not asked"), "{said}");
        assert_eq!(gateway.call(&["SET", "round", &round.to_string()]), "+OK");
    }
    assert!(gateway.is_ready());
}
