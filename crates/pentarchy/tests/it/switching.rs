//! A group that switches to another protocol while it runs, and clients go on.

use crate::durable::status;
use crate::members::{Stops, count, increment, service};
use crate::support::{Cluster, PATIENCE, eventually, port_arguments, run, stderr, stdout, text};
use pentarchy::administration::{Administrator, Alteration, Switch, Terms, alter};
use pentarchy::node::client_config;
use pentarchy::services::kv::Command;
use pentarchy::{Client, KeyPair, LocalCluster, RequestMode};
use pentarchy_client::{ClientConfig, Follows, NextGroup};
use pentarchy_core::epochs::Proof;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{ClientCore, Effect, Event};
use pentarchy_core::quorum::Count;
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES, PROTOCOLS};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Has the group switch to a protocol, and waits until it has.
fn switch_to(administrator: &Administrator, protocol: &Descriptor, session_key: Option<[u8; 32]>) {
    let shown = administrator.show(PATIENCE).expect("an administrator is shown");
    let number = shown.configuration.number + 1;
    let switch = Some(Switch { protocol: protocol.rules.name, session_key });
    let wanted = Alteration { switch, ..Alteration::default() };
    let change = alter(&shown, &wanted, &Terms::new(Duration::from_secs(600))).expect("it can");
    administrator.propose(change, PATIENCE).expect("it is accepted");
    eventually("the configuration begins", || {
        let shown = administrator.show(PATIENCE).expect("an administrator is shown");
        shown.configuration.number == number
            && shown.configuration.protocol == protocol.rules.name
            && shown.configuration.facts == protocol.rules.facts()
    });
}

/// A client whose increments are counted.
struct Counting<'a> {
    client: Client,
    made: &'a AtomicU64,
}

impl Counting<'_> {
    fn increment(&self) {
        increment(&self.client);
        self.made.fetch_add(1, Ordering::Relaxed);
    }
}

/// Kills a replica and starts it again, and waits until it is level and orders by this protocol.
fn restart(cluster: &mut LocalCluster, client: &Counting<'_>, id: usize, protocol: &Descriptor) {
    cluster.kill(id).expect("it ran");
    (0..20).for_each(|_| client.increment());
    cluster.restart(id, service()).expect("it starts");
    eventually("it is level, with that protocol", || {
        client.increment();
        let report = status(&client.client, id as u16);
        report["protocol"] == protocol.rules.name
            && report["phase"] == "normal"
            && report["behind"] == 0
    });
}

/// Clients go on while the group comes from protocol to protocol. After each switch one replica
/// stops and starts again; if replicas forget what they said, only after the first.
fn goes_through(all: &[&Descriptor], mode: RequestMode, data: Option<&Path>) {
    let (first, rest) = all.split_first().expect("there is one");
    let builder = LocalCluster::builder().protocol(first.rules.name).request_auth(mode);
    let builder = match data {
        Some(folder) => builder.data(folder),
        None => builder,
    };
    let mut cluster = builder.start(service).expect("a cluster");
    let (n, session_key) = (first.rules.replicas(1), cluster.config().session_key);
    let made = AtomicU64::new(0);
    let [writes, restarts] =
        [(); 2].map(|()| Counting { client: cluster.client().expect("a client"), made: &made });
    let administrators = cluster.administrators().expect("administrators");
    let [administrator] = &administrators[..] else { panic!("there is one") };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                writes.increment();
            }
        });
        for (at, protocol) in rest.iter().enumerate() {
            switch_to(administrator, protocol, session_key);
            if data.is_some() || at == 0 {
                restart(&mut cluster, &restarts, at % n, protocol);
            }
        }
    });
    let last = rest.last().expect("there is one");
    for id in 0..if data.is_some() { n } else { 0 } {
        restart(&mut cluster, &restarts, id, last);
    }
    let read = count(&restarts.client);
    assert_eq!(read, made.load(Ordering::Relaxed), "each was executed once");
}

#[test]
fn a_group_switches_to_each_protocol_and_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let first = EXAMPLES.signed;
    let others = PROTOCOLS.iter().copied().filter(|entry| entry.can_be_switched_to());
    let others = others.filter(|entry| entry.rules.name != first.rules.name);
    // The members are as many as the first one needs.
    let others = others.filter(|entry| entry.rules.replicas(1) <= first.rules.replicas(1));
    let mut all: Vec<&Descriptor> = others.collect();
    assert!(all.len() > 3, "there is something to switch to");
    all.insert(0, first);
    all.push(first);
    goes_through(&all, RequestMode::Signature, Some(folder.path()));
}

#[test]
fn a_group_whose_clients_have_sessions_switches() {
    let of_pairs = |entry: &&Descriptor| {
        entry.can_be_switched_to() && entry.rules.trusts_devices() && entry.rules.replicas(1) == 3
    };
    let mut all: Vec<&Descriptor> = PROTOCOLS.iter().copied().filter(of_pairs).collect();
    let first = all[0];
    assert!(all.iter().any(|entry| entry.rules.counter != first.rules.counter), "other devices");
    all.push(first);
    goes_through(&all, RequestMode::Session, None);
}

#[test]
fn members_stay_with_their_protocol_if_they_cannot_switch() {
    let first = EXAMPLES.signed;
    let cluster = LocalCluster::builder().protocol(first.rules.name).start(service);
    let cluster = cluster.expect("a cluster");
    let administrators = cluster.administrators().expect("administrators");
    let shown = administrators[0].show(PATIENCE).expect("an administrator is shown");
    let refusal = |protocol: &str| {
        let switch = Some(Switch { protocol, session_key: None });
        let wanted = Alteration { switch, ..Alteration::default() };
        alter(&shown, &wanted, &Terms::new(Duration::from_secs(600)))
            .expect_err("it cannot")
            .to_string()
    };
    let unknown = refusal("nothing");
    assert!(unknown.starts_with("no protocol \"nothing\" to switch to; there are: "), "{unknown}");
    for entry in PROTOCOLS.iter().filter(|entry| !entry.can_be_switched_to()) {
        let name = entry.rules.name;
        assert_eq!(refusal(name), unknown.replace("nothing", name));
    }
    // Another version of the program means something else by that name.
    let mut change =
        alter(&shown, &Alteration::default(), &Terms::new(Duration::from_secs(600))).expect("can");
    change.next.facts.replies = Count::per_fault_and_one(0);
    administrators[0].propose(change, PATIENCE).expect("the roster has no program to compare with");
    std::thread::sleep(Duration::from_secs(3));
    let shown = administrators[0].show(PATIENCE).expect("an administrator is shown");
    let pending = shown.pending.expect("it is pending");
    assert_eq!((shown.configuration.number, pending.ready), (0, Vec::new()), "nobody is ready");
}

fn reconfigure(cluster: &Cluster, words: &[&str]) -> (Value, Option<i32>) {
    let data = ["--json", "--data", text(&cluster.data)];
    let output = run(&[&["reconfigure"], words, &data[..]].concat());
    let json = serde_json::from_slice(&output.stdout);
    (json.unwrap_or_else(|_| stderr(&output).into()), output.status.code())
}

/// With counters in processes of their own, which have to become others.
#[test]
fn an_operator_has_a_group_switch_and_switch_back() {
    let is_other = |entry: &&&Descriptor| {
        entry.can_be_switched_to()
            && entry.rules.counter.is_some_and(|counter| Some(counter) != DEFAULT.rules.counter)
            && entry.rules.replicas(1) == DEFAULT.rules.replicas(1)
    };
    let other = PROTOCOLS.iter().find(is_other).expect("another device").rules.name;
    let arguments = ["--durability", "sync", "--counter", "process"];
    let cluster = Cluster::up(&arguments);
    assert_eq!(cluster.redis_cli(&["SET", "key", "value"]), "OK");
    let (refusal, code) = reconfigure(&cluster, &["--protocol", "nothing"]);
    let refusal = refusal.as_str().expect("a sentence");
    assert!(code == Some(2) && refusal.contains("there are: "), "{refusal}");
    // It needs more members.
    let needs = EXAMPLES.signed.rules.name;
    let (refusal, code) = reconfigure(&cluster, &["--protocol", needs]);
    let refusal = refusal.as_str().expect("a sentence");
    assert!(code == Some(2) && refusal.contains("the protocol needs 4"), "{refusal}");
    for (number, protocol) in (1..).zip([other, DEFAULT.rules.name]) {
        let (shown, code) = reconfigure(&cluster, &["--protocol", protocol]);
        assert_eq!((&shown["configuration"], code), (&number.into(), Some(0)), "{shown}");
        assert_eq!(shown["protocol"], protocol);
        assert_eq!(cluster.redis_cli(&["GET", "key"]), "value");
        let data = text(&cluster.data);
        assert!(run(&["break", "0", "--kill", "--data", data]).status.success());
        assert_eq!(cluster.redis_cli(&["SET", "other", protocol]), "OK");
        assert!(run(&["heal", "0", "--data", data]).status.success());
        eventually("all is well", || cluster.status().1 == Some(0));
        let (status, _) = cluster.status();
        let reports = status["replicas"].as_array().expect("replicas");
        assert!(reports.iter().all(|it| it["protocol"] == protocol), "{status}");
        assert_eq!(cluster.redis_cli(&["GET", "other"]), protocol);
        // A stopped group is known by the protocol with which it stopped.
        assert!(run(&["down", "--data", data]).status.success());
        let [port, replicas] = port_arguments(&cluster.ports);
        let up = ["up", "--detach", &port, &replicas, "--data", data, "--protocol", protocol];
        let up = run(&[&up, &arguments[..]].concat());
        assert!(up.status.success(), "{}", stderr(&up));
        assert!(stdout(&up).contains(&format!("{protocol} with 3 replicas")), "{}", stdout(&up));
        assert_eq!(cluster.redis_cli(&["GET", "other"]), protocol);
    }
}

/// Cannot find where the group has gone.
struct Astray(Arc<Membership>);

impl Follows for Astray {
    fn number(&self) -> u64 {
        0
    }
    fn membership(&self) -> Arc<Membership> {
        self.0.clone()
    }
    fn follow(&mut self, _: &[Proof], _: u64) -> Option<NextGroup> {
        None
    }
}

/// Counts what replicas say to it.
struct Listening {
    core: Box<dyn ClientCore>,
    messages: Arc<AtomicU64>,
}

impl ClientCore for Listening {
    fn step(&mut self, event: Event, out: &mut Vec<Effect>) {
        if matches!(event, Event::Message { .. }) {
            self.messages.fetch_add(1, Ordering::Relaxed);
        }
        self.core.step(event, out);
    }
    fn outstanding(&self) -> usize {
        self.core.outstanding()
    }
}

/// A client that never goes on with another configuration, and how much its core has heard.
fn astray(cluster: &LocalCluster) -> (Client, Arc<AtomicU64>) {
    let config = client_config(cluster.config(), KeyPair::generate()).expect("a client");
    let messages = Arc::new(AtomicU64::new(0));
    let core = Box::new(Listening { core: config.core, messages: messages.clone() });
    let follows = Some(Box::new(Astray(config.membership.clone())) as Box<dyn Follows>);
    let config = ClientConfig { core, follows, ..config };
    (Client::connect(config).expect("it starts"), messages)
}

/// What replicas say in another configuration is not for a client that has not come to it, whether
/// it is connected when that begins or only later.
#[test]
fn a_client_that_cannot_follow_believes_nothing() {
    let first = EXAMPLES.signed;
    let cluster = LocalCluster::builder().protocol(first.rules.name).start(service);
    let cluster = cluster.expect("a cluster");
    let administrators = cluster.administrators().expect("administrators");
    let (before, heard) = astray(&cluster);
    increment(&before);
    assert!(heard.load(Ordering::Relaxed) > 0);
    let other = first.switches_to().next().expect("there is one");
    switch_to(&administrators[0], other, None);
    std::thread::sleep(Duration::from_millis(500));
    let (after, heard_after) = astray(&cluster);
    let heard_before = heard.load(Ordering::Relaxed);
    for (client, heard, known) in [(&before, &heard, heard_before), (&after, &heard_after, 0)] {
        let pending = client.submit(Command::new(&["INCR", "other"]).to_operation());
        assert!(pending.wait_timeout(Duration::from_secs(1)).is_err());
        let pending = client.query(Command::new(&["GET", "count"]).to_operation());
        assert!(pending.wait_timeout(Duration::from_secs(1)).is_err());
        assert_eq!(heard.load(Ordering::Relaxed), known);
    }
    assert_eq!(count(&cluster.client().expect("a client that follows")), 1);
}
