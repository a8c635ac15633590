//! What an operator does with a group in an afternoon, each machine on a host of its own, while
//! clients count.

use super::Lab;
use crate::resp::Connection;
use crate::support::{eventually, run, stderr, stdout, text};
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES, PROTOCOLS};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use tempfile::TempDir;

/// Hosts 0 to 2 have the first members.
const FIRST: usize = 3;
const GATEWAY: usize = 3;
const ADMINISTRATOR: usize = 4;
/// The hosts of machines that join, in turn.
const NEW: [usize; 3] = [5, 6, 7];
/// Where a member moves to.
const ELSEWHERE: usize = 8;
const HOSTS: usize = 9;

const REDIS: &str = "127.0.0.1:6379";
const CLIENTS: usize = 4;

/// A replica's process: its number in the laboratory, its host, and how it is started there.
struct Process {
    number: usize,
    host: usize,
    words: Vec<String>,
}

struct Site {
    lab: Lab,
    folder: TempDir,
    /// By the number of the member.
    members: BTreeMap<usize, Process>,
}

impl Site {
    fn new() -> Option<Self> {
        let lab = Lab::new(HOSTS)?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut site = Self { lab, folder, members: BTreeMap::new() };
        let made = site.folder.path().join("cluster");
        let hosts: Vec<_> = (0..FIRST).map(|host| format!("{}:7000", Lab::ip(host))).collect();
        let whom = ["--open", "--administrators", "1", "--out", text(&made)];
        let output = run(&[&["init", "--hosts", &hosts.join(",")], &whom[..]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        for host in 0..HOSTS {
            let there = site.host(host);
            std::fs::create_dir(&there).expect("a new folder");
            std::fs::copy(made.join("cluster.toml"), there.join("cluster.toml")).expect("a copy");
            let needs = match host {
                0..FIRST => vec![format!("replica-{host}")],
                GATEWAY => vec!["gateway-1.key".to_owned(), "client.key".to_owned()],
                ADMINISTRATOR => vec!["admin-1.key".to_owned()],
                _ => Vec::new(),
            };
            for name in needs {
                std::fs::rename(made.join(&name), there.join(&name)).expect("it was made");
            }
        }
        for id in 0..FIRST {
            site.start(id, id, &["--id", &id.to_string(), "--keys", &format!("replica-{id}")]);
        }
        let there = site.host(GATEWAY);
        let words = ["gateway", "--config", "cluster.toml", "--key", "gateway-1.key"];
        site.lab.start(GATEWAY, &there, &words);
        eventually("the gateway listens", || connect().is_some());
        Some(site)
    }

    fn host(&self, host: usize) -> PathBuf {
        self.folder.path().join(format!("host-{host}"))
    }

    /// Starts a member's process on a host.
    fn start(&mut self, member: usize, host: usize, words: &[&str]) {
        let all = [&["replica", "--config", "cluster.toml"], words].concat();
        let number = self.lab.start(host, &self.host(host), &all);
        let words = words.iter().map(|&word| word.to_owned()).collect();
        self.members.insert(member, Process { number, host, words });
    }

    /// Kills a member's process and forgets it.
    fn kill(&mut self, member: usize) -> Process {
        let process = self.members.remove(&member).expect("it runs");
        self.lab.kill(process.number);
        process
    }

    /// What an administrator does. It works out.
    fn administer(&self, words: &[&str]) {
        let whom = ["--config", "cluster.toml", "--admin-key", "admin-1.key"];
        let there = self.host(ADMINISTRATOR);
        let output = Lab::run(ADMINISTRATOR, &there, &[words, &whom[..]].concat());
        assert!(output.status.success(), "{words:?}: {}{}", stdout(&output), stderr(&output));
    }

    /// Whether all replicas are there and level.
    fn is_level(&self) -> bool {
        let words = ["status", "--config", "cluster.toml", "--key", "client.key"];
        Lab::run(GATEWAY, &self.host(GATEWAY), &words).status.success()
    }

    /// Makes the keys of a machine on the next host. Brings its card to the administrator.
    fn prepare(&self, host: usize) -> String {
        let address = format!("{}:7000", Lab::ip(host));
        let words = ["members", "prepare", "--address", &address, "--out", "keys"];
        let output = Lab::run(host, &self.host(host), &words);
        assert!(output.status.success(), "{}", stderr(&output));
        let (card, brought) =
            (self.host(host).join("keys/card"), self.host(ADMINISTRATOR).join("card"));
        std::fs::copy(card, brought).expect("a copy");
        "card".to_owned()
    }

    /// Has the machine of this host wait until it is this member.
    fn join(&mut self, member: usize, host: usize) {
        self.start(member, host, &["--join", "--keys", "keys"]);
    }

    fn reconfigure(&self, protocol: &Descriptor, f: &str) {
        self.administer(&["reconfigure", "--protocol", protocol.rules.name, "--f", f]);
    }
}

fn connect() -> Option<Connection> {
    Lab::connect(GATEWAY, REDIS.parse().expect("an address")).ok().map(Connection::over)
}

/// Clients that count, each by itself, and notice nothing but pauses.
#[derive(Default)]
struct Counting {
    stop: AtomicBool,
    counts: [AtomicU64; CLIENTS],
    /// The longest time between two answers since it was last asked for.
    pause_ms: AtomicU64,
}

impl Counting {
    fn go_on(&self, client: usize) {
        let mut connection = connect().expect("the gateway listens");
        let (key, count) = (format!("count-{client}"), &self.counts[client]);
        while !self.stop.load(Relaxed) {
            let asked = Instant::now();
            let next = count.load(Relaxed) + 1;
            assert_eq!(connection.call(&["INCR", &key]), Some(format!(":{next}")), "{key}");
            count.store(next, Relaxed);
            self.pause_ms.fetch_max(asked.elapsed().as_millis() as u64, Relaxed);
        }
    }

    /// Does something, which takes this long, while clients go on.
    fn while_they_count<T>(&self, what: &str, act: impl FnOnce() -> T) -> T {
        self.pause_ms.store(0, Relaxed);
        let (begun, before) = (Instant::now(), self.total());
        let done = act();
        eventually("clients go on", || self.total() > before + CLIENTS as u64 * 10);
        let (took, pause) = (begun.elapsed(), self.pause_ms.load(Relaxed));
        eprintln!("{what}: {took:.1?}, longest wait of a client {pause} ms");
        done
    }

    fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Relaxed)).sum()
    }
}

/// Ends the clients also when the test panics: their threads would be waited for.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The operator replaces a broken machine, has the group grow, renews its keys, has it switch
/// protocols, moves a member, and has the group shrink.
fn afternoon(site: &mut Site, counting: &Counting) {
    let level = |site: &Site| eventually("all are level", || site.is_level());
    counting.while_they_count("member 1 is dead", || _ = site.kill(1));
    counting.while_they_count("member 3 replaces it, over a cut and lossy link", || {
        let card = site.prepare(NEW[0]);
        site.lab.filter(&Lab::cut_off(NEW[0]));
        site.join(3, NEW[0]);
        let words = ["members", "replace", "1", &card, "--wait", "120"];
        std::thread::scope(|scope| {
            let site = &*site;
            let replaced = scope.spawn(|| site.administer(&words));
            std::thread::sleep(std::time::Duration::from_secs(2));
            site.lab.filter(&Lab::lossy_to(NEW[0], 20));
            replaced.join().expect("it is replaced");
        });
        // It could not keep up with clients that write as fast as they can.
        site.lab.filter(&[]);
        level(site);
    });
    for (member, f) in [(4, "1"), (5, "2")] {
        counting.while_they_count(&format!("member {member} joins, f = {f}"), || {
            let card = site.prepare(NEW[member - 3]);
            site.join(member, NEW[member - 3]);
            site.administer(&["members", "add", &card, "--f", f]);
            level(site);
        });
    }
    counting.while_they_count("all keys are new", || site.administer(&["members", "refresh"]));
    let is_other = |entry: &&&Descriptor| {
        let (counter, n) = (entry.rules.counter, entry.rules.replicas(2));
        let is_device = counter.is_some() && counter != DEFAULT.rules.counter;
        entry.can_be_switched_to() && is_device && n == DEFAULT.rules.replicas(2)
    };
    let other = PROTOCOLS.iter().find(is_other).expect("another device");
    for (protocol, f) in [(*other, "2"), (EXAMPLES.signed, "1"), (DEFAULT, "2")] {
        let what = format!("the group switches to {}, f = {f}", protocol.title);
        counting.while_they_count(&what, || site.reconfigure(protocol, f));
    }
    counting.while_they_count("member 2 moves to another host", || {
        let Process { host, .. } = site.kill(2);
        let (from, to) = [host, ELSEWHERE].map(|it| site.host(it).join("replica-2")).into();
        std::fs::rename(from, to).expect("a folder moves");
        let address = format!("{}:7000", Lab::ip(ELSEWHERE));
        site.start(2, ELSEWHERE, &["--id", "2", "--keys", "replica-2", "--listen", &address]);
        site.administer(&["members", "move", "2", &address]);
        level(site);
    });
    counting.while_they_count("members 4 and 5 leave, f = 1", || {
        site.administer(&["members", "remove", "4", "5", "--f", "1"]);
        for member in [4, 5] {
            let process = site.members.remove(&member).expect("it ran");
            assert!(site.lab.wait(process.number).success(), "the group goes on without it");
        }
        level(site);
    });
}

/// All replicas lose power at once, while clients wait for answers, and go on from their disks.
fn power_fails(site: &mut Site) {
    let members: Vec<usize> = site.members.keys().copied().collect();
    assert_eq!(members, [0, 2, 3]);
    let stopped: Vec<_> = members.iter().map(|member| (*member, site.kill(*member))).collect();
    for (member, Process { host, words, .. }) in stopped {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        site.start(member, host, &words);
    }
    eventually("all are level", || site.is_level());
}

#[test]
fn an_operator_s_afternoon() {
    let Some(mut site) = Site::new() else { return };
    let counting = Counting::default();
    std::thread::scope(|scope| {
        let _stop = Stop(&counting.stop);
        for client in 0..CLIENTS {
            let counting = &counting;
            scope.spawn(move || counting.go_on(client));
        }
        counting.while_they_count("the start", || ());
        afternoon(&mut site, &counting);
        counting.while_they_count("the power fails everywhere, and comes back", || {
            power_fails(&mut site);
        });
    });
    let mut connection = connect().expect("the gateway listens");
    for (client, count) in counting.counts.iter().enumerate() {
        let read = connection.call(&["GET", &format!("count-{client}")]);
        assert_eq!(read, Some(count.load(Relaxed).to_string()), "client {client}");
    }
    eprintln!("{} increments, each executed once", counting.total());
}
