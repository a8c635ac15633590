//! Groups whose order is split into pillars, over real sockets.

use crate::durable::status;
use crate::hosts::Parts;
use crate::support::{
    Cluster, PATIENCE, eventually, pentarchy, port_arguments, run, signal, stderr, stdout, text,
};
use pentarchy::config::ClusterConfig;
use pentarchy::services::kv::{Command as Words, Kv, STATE_BYTES_DEFAULT};
use pentarchy::{Client, KeyPair, LocalCluster, Service, StatusReport};
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PILLARS: u8 = 2;
const SPLIT: &str = EXAMPLES.split.rules.name;

fn service() -> Box<dyn Service> {
    Box::new(Kv::new(STATE_BYTES_DEFAULT))
}

fn call(client: &Client, words: &[&str]) -> Vec<u8> {
    let pending = client.submit(Words::new(words).to_operation());
    pending.wait_timeout(PATIENCE).expect("the group answers").to_vec()
}

/// A client of each pillar: its name decides to which it belongs.
fn clients(cluster: &LocalCluster) -> Vec<Client> {
    let of = |keys: &KeyPair| keys.client_id().0[0] % PILLARS;
    let keys = |pillar| std::iter::repeat_with(KeyPair::generate).find(|it| of(it) == pillar);
    let connect = |keys| pentarchy::node::connect(cluster.config(), keys).expect("a client");
    (0..PILLARS).filter_map(keys).map(connect).collect()
}

fn report(cluster: &LocalCluster, id: usize) -> Arc<StatusReport> {
    let mut report = None;
    eventually("it says how it is", || {
        report = cluster.status(id);
        report.is_some()
    });
    report.expect("it was there")
}

/// Clients of both pillars count while something happens. Nothing is lost, nothing is done twice.
fn counting(clients: &[Client], meanwhile: impl FnOnce()) {
    let (stop, counted) = (AtomicBool::new(false), AtomicU64::new(0));
    clients.iter().for_each(|client| drop(call(client, &["DEL", "count"])));
    std::thread::scope(|scope| {
        let count = |client| {
            let (stop, counted) = (&stop, &counted);
            move || {
                while !stop.load(Ordering::Relaxed) {
                    call(client, &["INCR", "count"]);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let threads: Vec<_> = clients.iter().map(|it| scope.spawn(count(it))).collect();
        let ended = || threads.iter().any(std::thread::ScopedJoinHandle::is_finished);
        let more = |least: u64| {
            let before = counted.load(Ordering::Relaxed);
            let enough = || counted.load(Ordering::Relaxed) >= before + least;
            eventually("requests are executed", || enough() || ended());
        };
        more(20);
        meanwhile();
        more(20);
        stop.store(true, Ordering::Relaxed);
    });
    call(&clients[0], &["SET", "acknowledged", &counted.into_inner().to_string()]);
    let [expected, count] = ["acknowledged", "count"].map(|key| call(&clients[0], &["GET", key]));
    assert_eq!(count, expected);
}

/// Whether a replica is level with the others, in every pillar.
fn is_level(report: &StatusReport) -> bool {
    let pillars = report.pillars.iter().all(|pillar| pillar.phase == "normal");
    report.phase == "normal" && report.behind < 64 && report.catch_up.is_none() && pillars
}

/// Each replica is killed under load and started again, one after the other: the primaries too.
fn each_is_killed_and_comes_back(protocol: &Descriptor, rotates: bool, data: Option<&Path>) {
    let (name, n) = (protocol.rules.name, protocol.rules.replicas(1));
    let builder = LocalCluster::builder().protocol(name).pillars(PILLARS, rotates);
    let builder = data.map_or(builder.clone(), |folder| builder.data(folder));
    let mut cluster = builder.start(service).expect("a cluster");
    let clients = clients(&cluster);
    for (pillar, its) in (0..).zip(&report(&cluster, 0).pillars) {
        assert_eq!(its.primary, if rotates { pillar } else { 0 }, "of pillar {pillar}");
        assert!(its.thread.is_some(), "of pillar {pillar}");
    }
    for id in 0..n {
        counting(&clients, || {
            cluster.kill(id).expect("it ran");
            // More than a window, so that it has to catch up.
            for number in 0..100 {
                let key = format!("key-{number}");
                let client = &clients[number % clients.len()];
                call(client, &["SET", &key, &format!("{id}-{number}")]);
            }
            cluster.restart(id, service()).expect("it starts");
            eventually("it is level", || is_level(&report(&cluster, id)));
        });
        for id in 0..n {
            eventually("all pillars are connected", || {
                let report = report(&cluster, id);
                let mut threads = report.pillars.iter().filter_map(|it| it.thread.as_ref());
                threads.all(|thread| thread.peers.len() == n - 1)
            });
        }
    }
    let first = report(&cluster, 0);
    assert_eq!((first.protocol.as_str(), first.pillars.len()), (name, usize::from(PILLARS)));
    let mut changed = Vec::new();
    for id in 0..n {
        let report = report(&cluster, id);
        assert_eq!(report.epoch > 0, data.is_none(), "who kept what it said is whom it was");
        assert_eq!(report.counters.diverged, 0);
        // What came before it was started again it does not know.
        changed.extend(report.recent_view_changes.iter().map(|change| change.pillar));
    }
    // Each new incarnation begins an epoch, and in each the next replica leads the first pillar.
    let led = if rotates && data.is_none() { 1 } else { PILLARS };
    for pillar in 0..led {
        assert!(changed.contains(&Some(pillar)), "its primary was killed: {changed:?}");
    }
    assert!(!changed.contains(&None), "{changed:?}");
}

/// All stop at once and go on with what they had said in each pillar.
fn all_stop_and_go_on(protocol: &Descriptor, rotates: bool) {
    let (name, n) = (protocol.rules.name, protocol.rules.replicas(1));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let builder = LocalCluster::builder().protocol(name).pillars(PILLARS, rotates);
    let mut cluster = builder.data(folder.path()).start(service).expect("a cluster");
    let clients = clients(&cluster);
    for round in 1..=2 {
        // More than a checkpoint in each pillar.
        for number in 0..160 {
            let client = &clients[number % clients.len()];
            call(client, &["SET", &format!("key-{number}"), &format!("{round}-{number}")]);
        }
        (0..n).for_each(|id| cluster.kill(id).expect("it ran"));
        (0..n).for_each(|id| cluster.restart(id, service()).expect("it starts"));
        for number in 0..160 {
            let read = call(&clients[0], &["GET", &format!("key-{number}")]);
            assert!(read.ends_with(format!("{round}-{number}").as_bytes()), "{read:?}");
        }
    }
    for id in 0..n {
        let report = report(&cluster, id);
        assert_eq!((report.epoch, report.counters.diverged), (0, 0));
        assert!(report.stable > 0);
    }
    (0..n).for_each(|id| cluster.kill(id).expect("it ran"));
    for id in 0..n {
        let data = folder.path().join(format!("replica-{id}")).join("data");
        let dumped = stdout(&run(&["log", "dump", "--data", text(&data)]));
        assert!(dumped.contains("by pillar from"), "all keep again what they need: {dumped}");
    }
}

#[test]
fn replicas_on_counters_are_killed_and_come_back_as_new_lives() {
    each_is_killed_and_comes_back(EXAMPLES.split, false, None);
}

#[test]
fn replicas_on_counters_are_killed_and_go_on_under_rotating_primaries() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    each_is_killed_and_comes_back(EXAMPLES.split, true, Some(folder.path()));
}

#[test]
fn replicas_that_sign_are_killed_and_go_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    each_is_killed_and_comes_back(EXAMPLES.signed, false, Some(folder.path()));
}

#[test]
fn replicas_that_sign_are_killed_and_come_back_under_rotating_primaries() {
    each_is_killed_and_comes_back(EXAMPLES.signed, true, None);
}

#[test]
fn all_on_counters_stop_and_go_on() {
    all_stop_and_go_on(EXAMPLES.split, false);
}

#[test]
fn all_that_sign_stop_and_go_on_under_rotating_primaries() {
    all_stop_and_go_on(EXAMPLES.signed, true);
}

#[test]
fn replicas_that_make_macs_are_killed_and_come_back_as_new_lives() {
    each_is_killed_and_comes_back(EXAMPLES.macs, false, None);
}

/// Liars lie on the threads of their pillars too, and what a thread rests on is what its replica
/// does.
#[test]
fn a_group_on_threads_outlives_liars_and_counters() {
    let split = ["--protocol", SPLIT, "--pillars", "2", "--counter", "process"];
    let cluster = Cluster::up(&split);
    let data = text(&cluster.data);
    let mut count = 0;
    let mut incr = || {
        (0..5).for_each(|_| {
            count += 1;
            assert_eq!(cluster.redis_cli(&["INCR", "count"]), count.to_string());
        });
    };
    incr();
    let shown = stdout(&run(&["status", "--data", data]));
    assert!(
        shown.contains("CPU s") && shown.contains(&format!("{SPLIT} with 3 replicas")),
        "{shown}"
    );
    let is_told_apart = || {
        let (status, _) = cluster.status();
        let counts = |name: &str| {
            let of = |replica: &Value| replica["rejects"][name].as_u64().unwrap_or(0);
            status["replicas"].as_array().expect("a list").iter().map(of).sum::<u64>()
        };
        counts("bad_auth") + counts("bad_certificate") + counts("malformed")
    };
    for (id, how) in [("1", "--corrupt"), ("0", "--equivocate"), ("2", "--silent")] {
        let before = is_told_apart();
        let broken = run(&["break", id, how, "--data", data]);
        assert!(broken.status.success(), "{}", stderr(&broken));
        incr();
        if how == "--corrupt" {
            // A vote that comes when others were enough is dropped unread.
            eventually("what it says is refused", || {
                incr();
                is_told_apart() > before
            });
        }
        let healed = run(&["heal", id, "--data", data]);
        assert!(healed.status.success(), "{}", stderr(&healed));
        incr();
    }
    let (status, _) = cluster.status();
    let counter = status["replicas"][1]["counter_process"].as_u64().expect("another process");
    signal(counter as u32, Signal::KILL);
    let log = cluster.data.join("replica-1/replica.log");
    eventually("the replica says why it ends", || {
        std::fs::read_to_string(&log).expect("a log").contains("trusted counter has ended")
    });
    incr();
    let healed = run(&["heal", "1", "--data", data]);
    assert!(healed.status.success(), "{}", stderr(&healed));
    incr();
}

/// A client of a pillar with another primary learns that from replies, and asks it.
#[test]
fn clients_ask_the_primary_of_their_pillar() {
    let builder = LocalCluster::builder().protocol(SPLIT).pillars(PILLARS, true);
    let cluster = builder.start(service).expect("a cluster");
    for (id, client) in clients(&cluster).iter().enumerate() {
        let asked =
            |id| report(&cluster, id).messages.get("request").map_or(0, |it| it.messages_in);
        let before: Vec<u64> = (0..3).map(asked).collect();
        (0..60).for_each(|_| drop(call(client, &["INCR", "count"])));
        let more: Vec<u64> = (0..3).map(|id| asked(id) - before[id]).collect();
        // Others are shown some of them, and whoever was asked first.
        let others = (0..3).filter(|other| *other != id);
        assert!(others.into_iter().all(|other| more[other] < 30), "{more:?}");
        assert!(more[id] >= 55, "{more:?}");
    }
}

/// What a process says that does not start, and its exit code. One that starts is stopped.
fn ends(mut process: Command) -> (Option<i32>, String) {
    let mut child = process.stderr(Stdio::piped()).spawn().expect("it starts");
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().expect("it can be waited for").is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let output = child.wait_with_output().expect("it has ended");
    (output.status.code(), stderr(&output))
}

#[test]
fn the_command_line_splits_an_order_and_shows_each_pillar() {
    let split = ["--pillars", "2", "--rotate-leader", "--counter", "process"];
    let durable = ["--protocol", SPLIT, "--durability", "sync"];
    let cluster = Cluster::up(&[&split[..], &durable].concat());
    let data = text(&cluster.data);
    (1..=5).for_each(|count: u32| {
        assert_eq!(cluster.redis_cli(&["INCR", "count"]), count.to_string());
    });
    let (status, _) = cluster.status();
    assert_eq!((&status["pillars"], &status["rotate_leader"]), (&2.into(), &true.into()));
    for replica in status["replicas"].as_array().expect("a list") {
        assert_eq!(replica["protocol"], SPLIT);
        let pillars = replica["pillars"].as_array().expect("a list").iter();
        assert!(pillars.map(|pillar| &pillar["primary"]).eq([0, 1].iter()), "{replica}");
    }
    let shown = stdout(&run(&["status", "--data", data]));
    assert!(
        shown.contains(&format!("{SPLIT} with 3 replicas in 2 pillars, tolerates 1 faulty")),
        "{shown}"
    );
    assert_eq!(shown.matches("normal").count(), 9, "{shown}");
    let broken = run(&["break", "--kill", "1", "--data", data]);
    assert!(broken.status.success(), "{}", stderr(&broken));
    // The third row cannot be executed without the pillar of the one that is gone.
    (6..=8).for_each(|count: u32| {
        assert_eq!(cluster.redis_cli(&["INCR", "count"]), count.to_string());
    });
    let healed = run(&["heal", "1", "--data", data]);
    assert!(healed.status.success(), "{}", stderr(&healed));
    assert_eq!(cluster.redis_cli(&["INCR", "count"]), "9");
    let top = stdout(&run(&["top", "--once", "--data", data]));
    assert!(top.contains(&format!("{SPLIT} with 3 replicas in 2 pillars")), "{top}");
    assert!(top.contains(" of pillar 1: "), "{top}");

    let [port, replicas] = port_arguments(&cluster.ports);
    let up = ["up", "--detach", &port, &replicas, "--data", data];
    assert!(run(&["down", "--data", data]).status.success());
    for other in [&["--pillars", "3", "--rotate-leader"][..], &["--pillars", "2"], &[]] {
        let refused = run(&[&up[..], &durable, other].concat());
        let said = stderr(&refused);
        assert!(
            said.contains(&format!("--protocol {SPLIT} --f 1 --pillars 2 --rotate-leader")),
            "{said}"
        );
    }
    let config = cluster.data.join("cluster.toml");
    let right = std::fs::read_to_string(&config).expect("it was made");
    let (three, unrotated) = (right.replace("pillars = 2", "pillars = 3"), "rotate_leader = false");
    let unrotated = right.replace("rotate_leader = true", unrotated);
    for wrong in [three, unrotated] {
        assert_ne!(wrong, right);
        std::fs::write(&config, &wrong).expect("it can be written");
        let keys = cluster.data.join("replica-0");
        let replica = ["replica", "--config", text(&config), "--id", "0", "--keys", text(&keys)];
        let (code, said) = ends(pentarchy(&replica));
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.contains("a group with 2 pillars that begin with different primaries"),
            "{said}"
        );
    }
    std::fs::write(&config, right).expect("it can be written");
    let again = run(&[&up[..], &split, &durable].concat());
    assert!(again.status.success(), "{}", stderr(&again));
    assert_eq!(cluster.redis_cli(&["INCR", "count"]), "10");
}

#[test]
fn what_cannot_be_split_says_what_can() {
    let [whole, signed, speculative] =
        [DEFAULT, EXAMPLES.signed, EXAMPLES.speculative].map(|protocol| protocol.rules.name);
    let inside = format!("{SPLIT}-pillars");
    let (whole_in_two, split_in_two) = (format!("{whole}:2"), format!("{SPLIT}:2"));
    let no_split = format!("{whole} cannot be split");
    for (arguments, words) in [
        (&["up", "--pillars", "2"][..], &*format!("{no_split} into pillars; what can: {signed}, ")),
        (&["up", "--protocol", signed, "--rotate-leader"], "with 1 pillar no leader rotates"),
        (&["up", "--protocol", SPLIT, "--pillars", "9"], "9 is not in 1..=8"),
        (&["up", "--protocol", &inside], &format!("no protocol {inside:?}")),
        (
            &["sim", "--protocol", speculative, "--pillars", "2"],
            &format!("{speculative} cannot be split"),
        ),
        (&["bench", "protocols", "--protocol", &whole_in_two], &no_split),
        (&["bench", "wan", "--protocol", &split_in_two], "measures protocols without pillars only"),
    ] {
        let refused = run(arguments);
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
    let split = LocalCluster::builder().pillars(2, false).start(service);
    let said = split.expect_err("the default is not split").to_string();
    assert!(said.contains(&no_split), "{said}");
}

#[test]
fn simulations_take_the_number_that_they_are_given() {
    let with = ["--pillars", "2", "--rotate-leader"];
    let seeds = ["--seeds", "2", "--requests", "50", "--json"];
    let inside = pentarchy_protocols::in_pillars(EXAMPLES.signed.rules.name).expect("it is there");
    for protocol in [SPLIT, inside.rules.name] {
        let swept = run(&[&["sim", "--protocol", protocol], &seeds[..], &with].concat());
        assert!(swept.status.success(), "{}", stderr(&swept));
        let tally = stdout(&swept);
        assert!(tally.contains("-pillars\""), "{tally}");
    }
}

/// Of three replicas the last one keeps what it says. Whichever of the others is gone, it is
/// needed.
#[test]
fn replicas_that_keep_what_they_say_and_others_make_one_group() {
    let split = ["--protocol", SPLIT, "--pillars", "2", "--open"];
    let mut parts = Parts::init_with(&[&split[..], &["--durability", "memory"]].concat());
    let start = |parts: &mut Parts, id: usize| {
        let mut replica = parts.replica(id);
        if id == 2 {
            replica.args(["--durability", "sync"]);
        }
        parts.spawn(replica);
    };
    (0..3).for_each(|id| start(&mut parts, id));
    let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
    let connect = || pentarchy::node::connect(&config, KeyPair::generate()).expect("a client");
    let clients: Vec<Client> = (0..4).map(|_| connect()).collect();
    let mut count = 0;
    let mut count_on = || {
        for client in clients.iter().cycle().take(40) {
            count += 1;
            let said = call(client, &["INCR", "count"]);
            assert_eq!(said.get(1..), Some(&u64::to_le_bytes(count)[..]));
        }
    };
    count_on();
    for gone in [0, 1] {
        parts.children[gone].kill().expect("it runs");
        parts.children[gone].wait().expect("it ends");
        count_on();
        let mut replica = parts.replica(gone);
        parts.children[gone] = replica.stderr(Stdio::null()).spawn().expect("it starts");
        eventually("it is admitted and level", || {
            count_on();
            let said = status(&clients[0], gone as u16);
            said["phase"] == "normal" && said["behind"] == 0
        });
    }
}

/// Of three replicas the last one keeps nothing, so that each of its lives begins an epoch. When
/// one of the others is killed just then it goes on from its log, and asks first what was seen of
/// it; it does so in each later epoch too.
#[test]
fn epochs_begin_under_load_while_who_keeps_what_it_says_is_killed() {
    let split = ["--protocol", SPLIT, "--pillars", "2", "--open"];
    let mut parts = Parts::init_with(&[&split[..], &["--durability", "sync"]].concat());
    let starts = |parts: &Parts, id: usize| {
        let mut replica = parts.replica(id);
        if id == 2 {
            replica.args(["--durability", "memory"]);
        }
        replica.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
    };
    parts.children = (0..3).map(|id| starts(&parts, id)).collect();
    let starts_again = |parts: &mut Parts, id: usize| {
        parts.children[id].kill().expect("it runs");
        parts.children[id].wait().expect("it ends");
        parts.children[id] = starts(parts, id);
    };
    let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
    let connect = || pentarchy::node::connect(&config, KeyPair::generate()).expect("a client");
    let clients: Vec<Client> = (0..4).map(|_| connect()).collect();
    let is_level = |id: u16, epoch: u64| {
        let said = status(&clients[0], id);
        let pillars = said["pillars"].as_array().is_some_and(|pillars| {
            pillars.len() == 2 && pillars.iter().all(|it| it["phase"] == "normal")
        });
        let is_near = said["behind"].as_u64().is_some_and(|behind| behind < 64);
        said["epoch"] == epoch && said["phase"] == "normal" && pillars && is_near
    };
    for epoch in 1..=3 {
        let (goes_on, killed) = [(0, 1), (1, 0)][usize::from(epoch == 2)];
        counting(&clients, || {
            starts_again(&mut parts, 2);
            let begins = || status(&clients[0], goes_on)["epoch"] == epoch;
            eventually("another epoch begins", begins);
            starts_again(&mut parts, killed);
            eventually("all are level", || (0..3).all(|id| is_level(id, epoch)));
        });
    }
    let waiting = |id| status(&clients[0], id)["queues"]["waiting_envelopes"]["used"] == 0;
    eventually("nothing waits, nor is it under check", || (0..3).all(waiting));
}
