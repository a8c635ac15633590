//! The gateway gives up commands that time out. So a client knows of most of them at once that they
//! did not run, and of all of them when a later command succeeds through the same gateway.

use crate::hosts::Parts;
use crate::resp::Connection;
use crate::support::{eventually, free_port, signal};
use rustix::process::Signal;
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn what_times_out_does_not_run_after_a_look() {
    let mut parts = Parts::init_with(&["--durability", "memory"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let client = parts.file("client.key");
    eventually("all replicas are level", || parts.status(&client).1 == Some(0));
    let port = free_port();
    let mut gateway = parts.gateway(port);
    gateway.args(["--timeout", "1"]);
    parts.spawn(gateway);
    eventually("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let call = |words: &[&str]| Connection::open(port).call(words).unwrap_or_default();
    assert_eq!(call(&["SET", "n", "0"]), "+OK");
    // Without a quorum: the first is on its way to somebody, those behind it never leave.
    let pids: Vec<u32> = parts.children[..3].iter().map(std::process::Child::id).collect();
    pids[1..].iter().for_each(|pid| signal(*pid, Signal::STOP));
    let is_stopped = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    eventually("two of three stand still", || pids[1..].iter().all(is_stopped));
    // What they had said before is on its way for a moment.
    std::thread::sleep(Duration::from_millis(300));
    let first = call(&["INCR", "n"]);
    assert!(first.starts_with("-ERR timed out") && first.contains("may still be"), "{first}");
    for _ in 0..3 {
        let later = call(&["INCR", "n"]);
        let wanted = "-ERR timed out waiting for the replicas; not executed, and it never will be";
        assert_eq!(later, wanted);
    }
    pids[1..].iter().for_each(|pid| signal(*pid, Signal::CONT));
    let mut look = String::new();
    eventually("the gateway answers", || {
        look = call(&["GET", "n"]);
        !look.starts_with('-')
    });
    assert!(look == "0" || look == "1", "{look}");
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(call(&["GET", "n"]), look, "it was settled before the look");
    }
}
