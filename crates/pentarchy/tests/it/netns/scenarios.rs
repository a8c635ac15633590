//! A cluster over several hosts, and what can go wrong between them.

use super::Lab;
use crate::resp::Connection;
use crate::support::{PATIENCE, eventually, run, stderr, text};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const REPLICAS: usize = 3;
/// The host of the gateway and its users.
const GATEWAY: usize = REPLICAS;
/// Where Redis clients on that host connect.
const REDIS: &str = "127.0.0.1:6379";

/// More than a window of slots: who missed so much needs the state, not only messages.
const BEYOND_WINDOW: usize = 400;

/// Values that are asked for at a time.
const PIPELINE: usize = 500;

/// Writes between two checkpoints, each a slot.
const CHECKPOINT: usize = 64;

/// A cluster as an operator sets it up: keys made in one place, and to each host what it needs.
struct Site {
    lab: Lab,
    folder: TempDir,
    replicas: Vec<usize>,
}

impl Site {
    fn new() -> Option<Self> {
        let lab = Lab::new(REPLICAS + 1)?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut site = Self { lab, folder, replicas: Vec::new() };
        site.init();
        for id in 0..REPLICAS {
            let process = site.start_replica(id);
            site.replicas.push(process);
        }
        let gateway = site.host(GATEWAY);
        let options = ["--key", "gateway-1.key", "--timeout", "2"];
        let arguments = [&["gateway", "--config", "cluster.toml"], &options[..]].concat();
        site.lab.start(GATEWAY, &gateway, &arguments);
        Some(site)
    }

    fn host(&self, host: usize) -> PathBuf {
        self.folder.path().join(format!("host-{host}"))
    }

    fn init(&self) {
        let made = self.folder.path().join("cluster");
        let hosts: Vec<_> = (0..REPLICAS).map(|id| format!("{}:7000", Lab::ip(id))).collect();
        let output = run(&["init", "--hosts", &hosts.join(","), "--out", text(&made)]);
        assert!(output.status.success(), "{}", stderr(&output));
        for host in 0..=GATEWAY {
            let there = self.host(host);
            std::fs::create_dir(&there).expect("a new folder");
            let needs = match host {
                GATEWAY => vec!["gateway-1.key".to_owned(), "client.key".to_owned()],
                id => vec![format!("replica-{id}")],
            };
            std::fs::copy(made.join("cluster.toml"), there.join("cluster.toml")).expect("a copy");
            for name in needs {
                std::fs::rename(made.join(&name), there.join(&name)).expect("it was made");
            }
        }
    }

    fn start_replica(&mut self, id: usize) -> usize {
        let (there, name, id_text) = (self.host(id), format!("replica-{id}"), id.to_string());
        let arguments = ["replica", "--config", "cluster.toml", "--id", &id_text, "--keys", &name];
        // For replicas that are to lie; an operator leaves it out.
        self.lab.start(id, &there, &[&arguments[..], &["--faults", "fault"]].concat())
    }

    /// Has a replica misbehave from now on.
    fn misbehave(&self, id: usize, how: &str) {
        std::fs::write(self.host(id).join("fault"), how).expect("the folder takes files");
        eventually("the replica obeys", || {
            let (status, _) = self.status();
            let fault = &status["replicas"][id]["fault"];
            fault.as_str().unwrap_or("none") == how
        });
    }

    /// What a user of the gateway's host sees of redis-benchmark.
    fn benchmark(&self, requests: &str, clients: &str) {
        let options = ["-n", requests, "-c", clients, "-q", "-t", "set,get,incr,lpush,mset"];
        let output = Lab::tool(GATEWAY, "redis-benchmark", &options);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !said.contains("rror"), "{said}{}", stderr(&output));
    }

    /// `status --json`, asked from the gateway's host, and whether all is level.
    fn status(&self) -> (Value, bool) {
        let arguments = ["status", "--config", "cluster.toml", "--key", "client.key", "--json"];
        let output = Lab::run(GATEWAY, &self.host(GATEWAY), &arguments);
        let json = serde_json::from_slice(&output.stdout);
        let json = json.unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
        (json, output.status.success())
    }

    /// Waits until all replicas are level, and have one state at one checkpoint above `slot`.
    /// `meanwhile` is called again and again.
    fn await_level(&self, what: &str, slot: u64, mut meanwhile: impl FnMut()) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            meanwhile();
            let (status, level) = self.status();
            assert_eq!(status["diverged"], false, "{what}: {status}");
            let replicas = status["replicas"].as_array().expect("a list");
            let at = |replica: &Value| (replica["stable"].clone(), replica["state"].clone());
            let first = at(&replicas[0]);
            let is_one = replicas.iter().all(|replica| at(replica) == first);
            if level && is_one && first.1.is_string() && first.0.as_u64() > Some(slot) {
                return;
            }
            assert!(Instant::now() < deadline, "{what}: not level and of one state: {status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until all other replicas have closed their connections to one that is gone.
    fn await_given_up(&self, host: usize) {
        eventually("the others notice that their connections lead nowhere", || {
            let (status, level) = self.status();
            assert!(!level, "{status}");
            let replicas = status["replicas"].as_array().expect("a list").iter().enumerate();
            replicas.clone().all(|(id, replica)| {
                let peers = replica["peers"].as_array().map_or(0, Vec::len);
                if id == host { replica["reachable"] == false } else { peers == REPLICAS - 2 }
            })
        });
    }

    /// The highest executed slot that anybody admits to.
    fn highest(&self) -> u64 {
        let (status, _) = self.status();
        let replicas = status["replicas"].as_array().expect("a list");
        replicas.iter().filter_map(|replica| replica["executed"].as_u64()).max().unwrap_or(0)
    }

    fn primary(&self) -> usize {
        let (status, _) = self.status();
        status["replicas"][0]["primary"].as_u64().expect("a primary") as usize
    }
}

fn connect() -> Option<Connection> {
    let address = REDIS.parse().expect("an address");
    Lab::connect(GATEWAY, address).ok().map(Connection::over)
}

/// Writes one key after the other, each until it is acknowledged.
#[derive(Default)]
struct Writer {
    stop: AtomicBool,
    acknowledged: AtomicUsize,
    /// Errors that clients saw, each cured by trying again.
    retried: AtomicUsize,
    /// The longest time between two acknowledgements since it was last asked for, in milliseconds.
    stalled_ms: AtomicUsize,
}

impl Writer {
    fn write(&self) {
        let mut connection = connect().expect("the gateway listens");
        let mut since = Instant::now();
        while !self.stop.load(Relaxed) {
            let written = self.acknowledged.load(Relaxed);
            let (key, value) = pair(written);
            match connection.call(&["SET", &key, &value]).as_deref() {
                Some("+OK") => {
                    let stalled = since.elapsed().as_millis() as usize;
                    self.stalled_ms.fetch_max(stalled, Relaxed);
                    since = Instant::now();
                    self.acknowledged.store(written + 1, Relaxed);
                }
                Some(error) if error.starts_with('-') => {
                    self.retried.fetch_add(1, Relaxed);
                }
                other => panic!("SET {key}: {other:?}"),
            }
        }
    }

    /// Waits until so many more writes are acknowledged.
    fn await_more(&self, what: &str, count: usize) {
        let from = self.acknowledged.load(Relaxed);
        eventually(what, || {
            assert!(!self.stop.load(Relaxed), "the writer ended");
            self.acknowledged.load(Relaxed) >= from + count
        });
    }
}

/// Ends the writer also when the test panics: its thread would be waited for.
struct Stop<'a>(&'a Writer);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Relaxed);
    }
}

fn pair(index: usize) -> (String, String) {
    (format!("key:{index}"), format!("value:{index}"))
}

/// Something that goes wrong and is put right again while clients write.
struct Trial<'a> {
    site: &'a Site,
    writer: &'a Writer,
}

impl Trial<'_> {
    /// `writes` are acknowledged while the rules hold; then all replicas become level by
    /// themselves.
    fn disturb(&self, what: &str, rules: &[String], writes: usize) {
        self.writer.stalled_ms.store(0, Relaxed);
        self.site.lab.filter(rules);
        let began = Instant::now();
        self.writer.await_more(what, writes);
        let (lasted, healed) = (began.elapsed(), Instant::now());
        self.site.lab.filter(&[]);
        self.await_healed(what);
        eprintln!(
            "{what}: {writes} writes in {lasted:.1?}, longest wait {} ms; level {:.1?} after",
            self.writer.stalled_ms.load(Relaxed),
            healed.elapsed()
        );
    }

    /// Clients are served, and all replicas have one state at a checkpoint from after the healing.
    fn await_healed(&self, what: &str) {
        self.writer.await_more(what, 1);
        self.site.await_level(what, self.site.highest(), || ());
    }

    /// Cut off for so long that the others close their connections: they have to be made anew.
    fn forget(&self, host: usize) {
        self.site.lab.filter(&Lab::cut_off(host));
        self.site.await_given_up(host);
        self.disturb("a replica was given up by the others", &Lab::cut_off(host), BEYOND_WINDOW);
    }

    fn cut_off_gateway(&self) {
        let retried = self.writer.retried.load(Relaxed);
        self.site.lab.filter(&Lab::cut_off(GATEWAY));
        let what = "the gateway is cut off: its clients are told so";
        eventually(what, || self.writer.retried.load(Relaxed) > retried);
        self.site.lab.filter(&[]);
        self.await_healed("the gateway is back");
    }

    fn lossy(&self) {
        let delayed = self.site.lab.delay(20);
        let what = if delayed { "30 % loss and 20 ms delay" } else { "30 % loss" };
        self.disturb(what, &Lab::lossy(30), 20);
        self.site.lab.undelay();
    }
}

#[test]
fn hosts_may_be_cut_off_go_deaf_lose_packets_and_vanish() {
    let Some(mut site) = Site::new() else { return };
    eventually("the gateway listens", || connect().is_some());
    let writer = Writer::default();
    let vanished = std::thread::scope(|scope| {
        let _stop = Stop(&writer);
        let thread = scope.spawn(|| {
            writer.write();
        });
        let trial = Trial { site: &site, writer: &writer };
        trial.await_healed("the start");
        let primary = site.primary();
        trial.disturb("the primary is cut off", &Lab::cut_off(primary), BEYOND_WINDOW);
        let backup = (site.primary() + 1) % REPLICAS;
        trial.disturb("a backup is cut off", &Lab::cut_off(backup), BEYOND_WINDOW);
        trial.forget((site.primary() + 2) % REPLICAS);
        trial.cut_off_gateway();
        trial.disturb("the primary is deaf", &Lab::deafen(site.primary()), BEYOND_WINDOW);
        trial.disturb("the primary is not heard", &Lab::silence(site.primary()), BEYOND_WINDOW);
        let backup = (site.primary() + 1) % REPLICAS;
        trial.disturb("a backup is deaf", &Lab::deafen(backup), BEYOND_WINDOW);
        trial.disturb("a backup is not heard", &Lab::silence(backup), BEYOND_WINDOW);
        trial.lossy();
        assert!(!thread.is_finished());
        site.primary()
    });
    let written = writer.acknowledged.load(Relaxed);
    vanish(&mut site, vanished);
    come_back(&mut site, vanished);
    let mut reader = connect().expect("the gateway listens");
    for first in (0..written).step_by(PIPELINE) {
        let some = first..written.min(first + PIPELINE);
        some.clone().for_each(|index| reader.send(&["GET", &pair(index).0]));
        for (key, value) in some.map(pair) {
            assert_eq!(reader.receive(), Some(value), "{key} of {written}");
        }
    }
    eprintln!("{written} writes, {} of them retried", writer.retried.load(Relaxed));
}

/// What a person would do to see whether it holds.
#[test]
fn kill_heal_lie_heal_partition_heal() {
    let Some(mut site) = Site::new() else { return };
    eventually("the gateway listens", || connect().is_some());
    let begun = Instant::now();
    let level = |site: &Site, what: &str| {
        let before = site.highest();
        site.await_level(what, before, || site.benchmark("100", "1"));
        eprintln!("{:.1?}: {what}", begun.elapsed());
    };
    site.benchmark("2000", "50");
    level(&site, "the start");

    let backup = (site.primary() + 1) % REPLICAS;
    site.lab.kill(site.replicas[backup]);
    site.benchmark("2000", "50");
    site.replicas[backup] = site.start_replica(backup);
    level(&site, "a backup was killed and came back");

    let primary = site.primary();
    site.misbehave(primary, "equivocate");
    site.benchmark("100", "20");
    site.misbehave(primary, "none");
    level(&site, "the primary equivocated");
    let (status, _) = site.status();
    let refused = |id: usize| status["replicas"][id]["counters"]["diverged"] == 0;
    assert!((0..REPLICAS).filter(|id| *id != primary).all(refused), "{status}");

    let primary = site.primary();
    site.lab.filter(&Lab::cut_off(primary));
    site.benchmark("500", "20");
    let (status, _) = site.status();
    let epoch = &status["replicas"][(primary + 1) % REPLICAS]["epoch"];
    assert_eq!(*epoch, 0, "who was killed went on as whom it was: {status}");
    site.lab.filter(&[]);
    level(&site, "the primary was cut off");
}

/// The primary's host is gone without a word to anybody.
fn vanish(site: &mut Site, host: usize) {
    Lab::unplug(host);
    let process = site.replicas[host];
    site.lab.kill(process);
    let began = Instant::now();
    let mut connection = connect().expect("the gateway listens");
    eventually("the group goes on without a vanished host", || {
        connection.call(&["SET", "after", "all"]).as_deref() == Some("+OK")
    });
    eprintln!("the primary's host vanished: served after {:.1?}", began.elapsed());
    site.await_given_up(host);
}

/// It is started again, with nothing but its folder, and becomes level unaided.
fn come_back(site: &mut Site, host: usize) {
    let before = site.highest();
    Lab::plug(host);
    let began = Instant::now();
    site.replicas[host] = site.start_replica(host);
    let mut connection = connect().expect("the gateway listens");
    site.await_level("a vanished host came back", before, || {
        for _ in 0..CHECKPOINT {
            let reply = connection.call(&["SET", "came", "back"]);
            assert_eq!(reply.as_deref(), Some("+OK"));
        }
    });
    eprintln!("the vanished host was started again: caught up after {:.1?}", began.elapsed());
}
