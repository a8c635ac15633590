//! What an operator does with a group in an afternoon, each machine on a host of its own, while
//! clients count.

use super::Lab;
use crate::resp::Connection;
use crate::support::{eventually, run, stderr, stdout, text};
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES, PROTOCOLS};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use tempfile::TempDir;

/// Hosts 0 to 2 have the first members.
const FIRST: usize = 3;
const GATEWAY: usize = 3;
/// Two of the three administrators, who together can change the group.
const ADMINISTRATORS: [usize; 2] = [4, 9];
/// The hosts of machines that join, in turn.
const NEW: [usize; 3] = [5, 6, 7];
/// Where a member moves to.
const ELSEWHERE: usize = 8;
const HOSTS: usize = 10;

const REDIS: &str = "127.0.0.1:6379";
const CLIENTS: usize = 4;

/// No client waits longer for an answer, also where other tests keep the machine busy.
const PAUSE_MS_MAX: u64 = 30_000;

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
    /// The number of the gateway's process in the laboratory.
    gateway: usize,
}

impl Site {
    fn new() -> Option<Self> {
        let lab = Lab::new(HOSTS)?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut site = Self { lab, folder, members: BTreeMap::new(), gateway: 0 };
        let made = site.folder.path().join("cluster");
        let hosts: Vec<_> = (0..FIRST).map(|host| format!("{}:7000", Lab::ip(host))).collect();
        let whom = ["--administrators", "3", "--out", text(&made)];
        let output = run(&[&["init", "--hosts", &hosts.join(",")], &whom[..]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        for host in 0..HOSTS {
            let there = site.host(host);
            std::fs::create_dir(&there).expect("a new folder");
            std::fs::copy(made.join("cluster.toml"), there.join("cluster.toml")).expect("a copy");
            let needs = match host {
                0..FIRST => vec![format!("replica-{host}")],
                GATEWAY => vec!["gateway-1.key".to_owned(), "client.key".to_owned()],
                _ => {
                    let which = ADMINISTRATORS.iter().position(|it| *it == host);
                    which.map(admin_key).into_iter().collect()
                }
            };
            for name in needs {
                std::fs::rename(made.join(&name), there.join(&name)).expect("it was made");
            }
        }
        for id in 0..FIRST {
            site.start(id, id, &["--id", &id.to_string(), "--keys", &format!("replica-{id}")]);
        }
        site.start_gateway();
        Some(site)
    }

    fn start_gateway(&mut self) {
        let words = ["gateway", "--config", "cluster.toml", "--key", "gateway-1.key"];
        self.gateway = self.lab.start(GATEWAY, &self.host(GATEWAY), &words);
        eventually("the gateway listens", || connect().is_some());
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

    /// Kills all at once: members, and the gateway before them. Gives what the members ran.
    fn power_off(&mut self) -> BTreeMap<usize, Process> {
        let members = std::mem::take(&mut self.members);
        let replicas = members.values().map(|process| process.number);
        self.lab.kill_all([self.gateway].into_iter().chain(replicas));
        members
    }

    /// Starts all again: members from their disks, and the gateway with what it kept.
    fn power_on(&mut self, members: BTreeMap<usize, Process>) {
        assert!(self.host(GATEWAY).join("cluster.chain").exists(), "the group has changed");
        for (member, Process { host, words, .. }) in members {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            self.start(member, host, &words);
        }
        self.start_gateway();
    }

    /// What one of the administrators does.
    fn ask_as(&self, which: usize, words: &[&str]) -> Output {
        let (host, key) = (ADMINISTRATORS[which], admin_key(which));
        let whom = ["--config", "cluster.toml", "--admin-key", &key];
        Lab::run(host, &self.host(host), &[words, &whom[..]].concat())
    }

    /// One administrator proposes a change, and another one approves it. The group begins with it.
    fn administer(&self, words: &[&str]) {
        let proposed = self.ask_as(0, &[words, &["--wait", "1", "--json"]].concat());
        let said: Value = serde_json::from_slice(&proposed.stdout).unwrap_or_default();
        assert_eq!(said["state"], "proposed", "{words:?}: {said}{}", stderr(&proposed));
        let change = said["change"].as_str().expect("a digest");
        let approved = self.ask_as(1, &["members", "approve", change, "--wait", "120"]);
        let said = stdout(&approved) + &stderr(&approved);
        assert!(approved.status.success() && said.contains("has begun"), "{words:?}: {said}");
    }

    /// What a client's host sees of the group.
    fn status(&self) -> Output {
        let words = ["status", "--json", "--config", "cluster.toml", "--key", "client.key"];
        Lab::run(GATEWAY, &self.host(GATEWAY), &words)
    }

    /// Whether all replicas are there and level.
    fn is_level(&self) -> bool {
        self.status().status.success()
    }

    /// Whether a change waits until members are ready.
    fn is_pending(&self) -> bool {
        let status: Value = serde_json::from_slice(&self.status().stdout).unwrap_or_default();
        status["replicas"][0]["pending_change"].is_object()
    }

    /// Makes the keys of a machine on the next host. Brings its card to the administrator.
    fn prepare(&self, host: usize) -> String {
        let address = format!("{}:7000", Lab::ip(host));
        let files = ["--config", "cluster.toml", "--out", "keys"];
        let words = [&["members", "prepare", "--address", &address][..], &files].concat();
        let output = Lab::run(host, &self.host(host), &words);
        assert!(output.status.success(), "{}", stderr(&output));
        let (card, brought) =
            (self.host(host).join("keys/card"), self.host(ADMINISTRATORS[0]).join("card"));
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

fn admin_key(which: usize) -> String {
    format!("admin-{}.key", which + 1)
}

fn connect() -> Option<Connection> {
    Lab::connect(GATEWAY, REDIS.parse().expect("an address")).ok().map(Connection::over)
}

/// Clients that count, each by itself, and notice nothing but pauses.
#[derive(Default)]
struct Counting {
    stop: AtomicBool,
    /// Their host may lose power, too: then they end where they are.
    is_off: AtomicBool,
    /// The last number that each was told.
    counts: [AtomicU64; CLIENTS],
    /// The longest time between two answers since it was last asked for.
    pause_ms: AtomicU64,
}

impl Counting {
    /// A client counts. So many more numbers than it was told may be counted already.
    fn go_on(&self, client: usize, mut untold: u64) {
        let mut connection = connect().expect("the gateway listens");
        let (key, count) = (format!("count-{client}"), &self.counts[client]);
        while !self.stop.load(Relaxed) {
            let (asked, next) = (Instant::now(), count.load(Relaxed) + 1);
            let Ok(said) = connection.try_call(&["INCR", &key]) else {
                assert!(self.is_off.load(Relaxed), "{key}: the gateway hangs up");
                return;
            };
            let number = said.as_deref().and_then(|it| it.strip_prefix(':')?.parse::<u64>().ok());
            let number = number.unwrap_or_else(|| panic!("{key}: no number: {said:?}"));
            assert!((next..=next + untold).contains(&number), "{key}: {number}, and not {next}");
            untold = 0;
            count.store(number, Relaxed);
            self.pause_ms.fetch_max(asked.elapsed().as_millis() as u64, Relaxed);
        }
    }

    /// Does something while clients count. When the power failed, each had asked for one more
    /// number at most, which was counted or never will be.
    fn with_clients<T>(&self, untold: u64, act: impl FnOnce() -> T) -> T {
        self.stop.store(false, Relaxed);
        self.is_off.store(false, Relaxed);
        std::thread::scope(|scope| {
            let _stop = Stop(&self.stop);
            for client in 0..CLIENTS {
                scope.spawn(move || self.go_on(client, untold));
            }
            act()
        })
    }

    /// Waits until each client has counted on from where it is.
    fn await_each(&self) {
        let told = |client: usize| self.counts[client].load(Relaxed);
        let before: [u64; CLIENTS] = std::array::from_fn(told);
        eventually("each client goes on", || {
            (0..CLIENTS).all(|client| told(client) > before[client] + 10)
        });
    }

    /// Does something, which takes this long, while clients go on.
    fn while_they_count<T>(&self, what: &str, act: impl FnOnce() -> T) -> T {
        self.pause_ms.store(0, Relaxed);
        let begun = Instant::now();
        let done = act();
        self.await_each();
        let (took, pause) = (begun.elapsed(), self.pause_ms.load(Relaxed));
        eprintln!("{what}: {took:.1?}, longest wait of a client {pause} ms");
        assert!(pause <= PAUSE_MS_MAX, "{what}: a client waited {pause} ms");
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
        std::thread::scope(|scope| {
            let site = &*site;
            let replaced = scope.spawn(|| site.administer(&["members", "replace", "1", &card]));
            eventually("it is pending", || site.is_pending());
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

#[test]
fn an_operator_s_afternoon() {
    let Some(mut site) = Site::new() else { return };
    let counting = Counting::default();
    let stopped = counting.with_clients(0, || {
        counting.while_they_count("the start", || ());
        afternoon(&mut site, &counting);
        // All lose power at once, while clients wait for answers.
        counting.is_off.store(true, Relaxed);
        site.power_off()
    });
    assert!(stopped.keys().eq(&[0, 2, 3]));
    let begun = Instant::now();
    site.power_on(stopped);
    counting.with_clients(1, || {
        counting.await_each();
        eventually("all are level", || site.is_level());
        eprintln!("the power is back: {:.1?} until all are level", begun.elapsed());
        counting.while_they_count("after that", || ());
    });
    let mut connection = connect().expect("the gateway listens");
    for (client, count) in counting.counts.iter().enumerate() {
        let read = connection.call(&["GET", &format!("count-{client}")]);
        assert_eq!(read, Some(count.load(Relaxed).to_string()), "client {client}");
    }
    eprintln!("{} increments, each executed once", counting.total());
}
