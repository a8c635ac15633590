//! Power failures of a whole group, on disks that forget what was not synced: whatever a client was
//! told is there afterwards.

use crate::hosts::Parts;
use crate::support::eventually;
use pentarchy::config::ClusterConfig;
use pentarchy::services::kv::Command;
use pentarchy::{Client, node};
use pentarchy_crypto::keys::KeyPair;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Asks for another number of failures than [`ROUNDS`].
const ROUNDS_VARIABLE: &str = "PENTARCHY_POWER_FAILURES";
const ROUNDS: usize = 3;
const WRITERS: usize = 4;
/// Acknowledgements between two failures, at least.
const ACKNOWLEDGED: usize = 300;
/// For an answer after a failure.
const ANSWER: Duration = Duration::from_secs(30);

/// A group of three processes, and clients that write to it and take note of what they are told.
struct Group {
    parts: Parts,
    config: ClusterConfig,
    disk: &'static str,
    replicas: Vec<Child>,
    /// Keys whose writing was acknowledged; each holds its own name.
    acknowledged: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
}

impl Group {
    fn start(disk: &'static str) -> Self {
        let parts = Parts::init_with(&["--open"]);
        let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
        let (acknowledged, stop) = (Arc::default(), Arc::default());
        let replicas = Vec::new();
        let mut group = Self { parts, config, disk, replicas, acknowledged, stop };
        group.power_on();
        (0..WRITERS).for_each(|writer| group.write(writer));
        group
    }

    fn power_on(&mut self) {
        let start = |id: usize| {
            let mut command = self.parts.replica(id);
            command.args(["--disk", self.disk]).stdin(Stdio::null());
            command.spawn().expect("it starts")
        };
        self.replicas = (0..3).map(start).collect();
    }

    /// Kills all of them; none gets to do anything after the first is dead.
    fn power_off(&mut self) {
        self.replicas.iter_mut().for_each(|replica| replica.kill().expect("it runs"));
        for mut replica in self.replicas.drain(..) {
            replica.wait().expect("it ends");
        }
    }

    fn client(&self) -> Client {
        node::connect(&self.config, KeyPair::generate()).expect("a client")
    }

    fn write(&self, writer: usize) {
        let client = self.client();
        let (acknowledged, stop) = (self.acknowledged.clone(), self.stop.clone());
        std::thread::spawn(move || {
            for key in (0..).map(|number| format!("{writer}-{number}")) {
                let pending = client.submit(Command::new(&["SET", &key, &key]).to_operation());
                if pending.wait_timeout(ANSWER).is_ok() {
                    acknowledged.lock().unwrap().push(key);
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
    }

    fn acknowledged(&self) -> Vec<String> {
        self.acknowledged.lock().unwrap().clone()
    }

    /// Has the power fail, and says what is not as it was acknowledged.
    fn fail(&mut self) -> Result<(), String> {
        let before = self.acknowledged().len();
        eventually("writes are acknowledged", || {
            self.acknowledged().len() >= before + ACKNOWLEDGED
        });
        self.power_off();
        let acknowledged = self.acknowledged();
        self.power_on();
        let client = self.client();
        let ask = |key: &String| client.submit(Command::new(&["GET", key]).to_operation());
        for keys in acknowledged.chunks(500) {
            for (key, answer) in keys.iter().zip(keys.iter().map(ask).collect::<Vec<_>>()) {
                let answer = answer.wait_timeout(ANSWER);
                let answer = answer.map_err(|error| format!("no answer for {key}: {error:?}"))?;
                if !answer.ends_with(key.as_bytes()) {
                    return Err(format!("{key} was acknowledged, and is {answer:?}"));
                }
            }
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for replica in &mut self.replicas {
            let _ = replica.kill();
            let _ = replica.wait();
        }
    }
}

#[test]
fn what_was_acknowledged_outlives_the_power_of_all() {
    let rounds = std::env::var(ROUNDS_VARIABLE);
    let rounds = rounds.map_or(ROUNDS, |rounds| rounds.parse().expect("a number of failures"));
    let mut group = Group::start("forgets");
    for round in 1..=rounds {
        group.fail().unwrap_or_else(|what| panic!("failure {round} of {rounds}: {what}"));
    }
    let status = group.parts.file("client.key");
    eventually("all are level", || group.parts.status(&status).1 == Some(0));
}

#[test]
fn disks_that_lie_are_found_out_by_the_test_above() {
    let mut group = Group::start("lies");
    let found = (0..3).find_map(|_| group.fail().err());
    assert!(found.is_some(), "nothing was lost, although nothing was synced");
}
