//! Replicas whose system's clock is set, by a day in either direction, while they run: a library
//! that is loaded before the others tells them another time of day.

use crate::hosts::Parts;
use crate::support::{PATIENCE, eventually, text};
use pentarchy::config::ClusterConfig;
use pentarchy::services::kv::{Command, Reply};
use pentarchy::{Client, node};
use pentarchy_core::Bytes;
use pentarchy_core::ids::ReplicaId;
use pentarchy_crypto::keys::KeyPair;
use serde_json::Value;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Adds the seconds in a file to the time of day. Each process maps its file once.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead;

__attribute__((constructor)) static void map(void) {
    const char *path = getenv("TEST_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) abort();
    void *at = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) abort();
    ahead = at;
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    int result = syscall(SYS_clock_gettime, clock, to);
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (result == 0 && is_wall && ahead) to->tv_sec += *ahead;
    return result;
}
"#;

const DAY_S: i64 = 86_400;

/// Writes that are acknowledged after each change.
const ACKNOWLEDGED: usize = 100;

/// By how much the group's time may be ahead of this test's clock: what is tolerated of a primary.
const AHEAD_MS: u64 = 1_000;

struct Group {
    parts: Parts,
    library: PathBuf,
    client: Client,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    /// The group's time at the last look.
    time_ms: u64,
}

impl Group {
    fn start() -> Self {
        let parts = Parts::init_with(&["--open"]);
        let library = compile(&parts.file("clock.so"));
        let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
        let connect = || node::connect(&config, KeyPair::generate()).expect("a client");
        let (stop, acknowledged) = (Arc::default(), Arc::default());
        let (client, writer) = (connect(), connect());
        let mut group = Self { parts, library, client, stop, acknowledged, time_ms: 0 };
        for id in 0..3 {
            group.set(id, 0);
            let replica = group.replica(id);
            group.parts.spawn(replica);
        }
        let (stop, acknowledged) = (group.stop.clone(), group.acknowledged.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let pending = writer.submit(Command::new(&["INCR", "writes"]).to_operation());
                let answer = pending.wait_timeout(PATIENCE);
                acknowledged.fetch_add(usize::from(answer.is_ok()), Ordering::Relaxed);
            }
        });
        group
    }

    fn clock(&self, id: usize) -> PathBuf {
        self.parts.file(&format!("clock-{id}"))
    }

    fn replica(&self, id: usize) -> process::Command {
        let mut command = self.parts.replica(id);
        command.env("LD_PRELOAD", &self.library).env("TEST_CLOCK", self.clock(id));
        command
    }

    /// Sets a replica's clock so many seconds ahead of the machine's.
    fn set(&self, id: usize, seconds: i64) {
        // In place: the replica has it mapped.
        let options = OpenOptions::new().create(true).write(true).truncate(false).clone();
        let file = options.open(self.clock(id)).expect("a file");
        file.write_all_at(&seconds.to_ne_bytes(), 0).expect("it can be written");
    }

    fn restart(&mut self, id: usize) {
        self.parts.children[id].kill().expect("it runs");
        self.parts.children[id].wait().expect("it ends");
        let child = self.replica(id).stdin(process::Stdio::null()).spawn();
        self.parts.children[id] = child.expect("it starts");
    }

    fn call(&self, words: &[&str]) -> Reply {
        let pending = self.client.submit(Command::new(words).to_operation());
        let answer = pending.wait_timeout(PATIENCE).expect("the group answers");
        Reply::decode(&answer).expect("a reply")
    }

    /// The group's time, in whole seconds, as milliseconds.
    fn time(&self) -> u64 {
        let Reply::Array(parts) = self.call(&["TIME"]) else { panic!("seconds and microseconds") };
        let Reply::Bulk(seconds) = &parts[0] else { panic!("seconds") };
        let seconds = String::from_utf8_lossy(seconds).parse::<u64>().expect("a number");
        seconds * 1_000
    }

    fn status(&self, id: usize) -> Value {
        let asked = self.client.status(ReplicaId(id as u16)).wait_timeout(PATIENCE);
        asked.map_or(Value::Null, |json| serde_json::from_slice(&json).expect("JSON"))
    }

    fn view(&self) -> u64 {
        (0..3).filter_map(|id| self.status(id)["view"].as_u64()).max().unwrap_or_default()
    }

    fn primary(&self) -> usize {
        self.view() as usize % 3
    }

    /// The group goes on, and its time is no more ahead and no less than before. Gives by how many
    /// milliseconds it is behind.
    fn goes_on(&mut self) -> u64 {
        let before = self.acknowledged.load(Ordering::Relaxed);
        eventually("writes are acknowledged", || {
            self.acknowledged.load(Ordering::Relaxed) >= before + ACKNOWLEDGED
        });
        let (time, now) = (self.time(), now_ms());
        assert!(time >= self.time_ms, "{time} comes behind {}", self.time_ms);
        assert!(time <= now + AHEAD_MS, "{time} is ahead of {now}");
        self.time_ms = time;
        let stays = Reply::Bulk(Bytes::from_static(b"here"));
        assert_eq!(self.call(&["GET", "stays"]), stays, "it has a day to go");
        now.saturating_sub(time)
    }

    fn all_are_level(&self) {
        eventually("all replicas are level", || {
            let is_level = |id| {
                let report = self.status(id);
                report["phase"] == "normal" && report["behind"] == 0
            };
            (0..3).all(is_level)
        });
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_millis() as u64
}

fn compile(library: &Path) -> PathBuf {
    let source = library.with_extension("c");
    std::fs::write(&source, LIBRARY).expect("it can be written");
    let options = ["-shared", "-fPIC", "-O1", "-o", text(library), text(&source)];
    let made = process::Command::new("cc").args(options).output().expect("what links Rust: cc");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    library.to_owned()
}

#[test]
fn a_clock_that_jumps_by_a_day_breaks_nothing() {
    let mut group = Group::start();
    assert_eq!(group.call(&["SET", "stays", "here", "EX", "80000"]), Reply::Ok);
    group.goes_on();
    group.all_are_level();

    // A backup's clock is set ahead, and is right again after it was started again.
    let backup = (group.primary() + 1) % 3;
    group.set(backup, DAY_S);
    group.goes_on();
    group.set(backup, 0);
    group.goes_on();
    group.restart(backup);
    group.all_are_level();

    // A backup's clock is set back: the others go on without it for as long.
    group.set(backup, -DAY_S);
    group.goes_on();
    group.set(backup, 0);
    group.goes_on();
    group.all_are_level();

    // The primary's is set back: the group's time goes on more slowly.
    let primary = group.primary();
    let begun = Instant::now();
    group.set(primary, -DAY_S);
    let before = group.time_ms;
    eventually("time goes on", || {
        group.goes_on();
        group.time_ms > before + 1_000
    });
    let behind = group.goes_on();
    assert!(behind < begun.elapsed().as_millis() as u64 + 3_000, "{behind} ms");
    group.set(primary, 0);
    eventually("it is right again", || group.goes_on() < 3_000);
    group.all_are_level();

    // It is set ahead: it is replaced.
    let view = group.view();
    let primary = view as usize % 3;
    group.set(primary, DAY_S);
    eventually("it is replaced", || {
        group.goes_on();
        group.view() > view
    });
    group.set(primary, 0);
    group.restart(primary);
    group.goes_on();
    group.all_are_level();
    assert!(group.goes_on() < 3_000);
}
