//! Machines join a group that runs, and members leave it.

use crate::hosts::Parts;
use crate::resp::Connection;
use crate::support::{end, eventually, free_port, pentarchy, run, stderr, stdout, text};
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};

/// A group with a gateway.
struct Group {
    parts: Parts,
    /// By the number of the member.
    replicas: Vec<Option<Child>>,
    port: u16,
}

impl Drop for Group {
    fn drop(&mut self) {
        self.replicas.iter_mut().flatten().for_each(end);
    }
}

impl Group {
    fn start(protocol: &Descriptor, options: &[&str]) -> Self {
        let words = ["--protocol", protocol.rules.name, "--administrators", "1"];
        let n = protocol.rules.replicas(1);
        let parts = Parts::init_on(n, &[&words, options].concat());
        let mut group = Self { parts, replicas: Vec::new(), port: free_port() };
        for id in 0..n {
            let child = group.parts.replica(id).spawn().expect("it starts");
            group.replicas.push(Some(child));
        }
        let gateway = group.parts.gateway(group.port);
        group.parts.spawn(gateway);
        let address = ("127.0.0.1", group.port);
        eventually("the gateway listens", || std::net::TcpStream::connect(address).is_ok());
        group
    }

    fn kill(&mut self, member: usize) {
        self.replicas[member].take().iter_mut().for_each(end);
    }

    /// Starts a machine that waits to become this member, or is it.
    fn join(&mut self, member: usize, keys: &Path) {
        self.join_with(member, keys, &[]);
    }

    /// The same, with these options.
    fn join_with(&mut self, member: usize, keys: &Path, options: &[&str]) {
        let config = self.parts.file("cluster.toml");
        let files = ["replica", "--join", "--config", text(&config), "--keys", text(keys)];
        let child = pentarchy(&[&files[..], options].concat()).spawn();
        self.replicas.resize_with(self.replicas.len().max(member + 1), || None);
        self.replicas[member] = Some(child.expect("it starts"));
    }

    /// What an administrator does.
    fn administer(&self, words: &[&str]) -> (String, Option<i32>) {
        let (config, key) = (self.parts.file("cluster.toml"), self.parts.file("admin-1.key"));
        let whom = ["--config", text(&config), "--admin-key", text(&key)];
        let output = run(&[words, &whom[..]].concat());
        (stdout(&output) + &stderr(&output), output.status.code())
    }

    fn members(&self, words: &[&str]) -> (String, Option<i32>) {
        self.administer(&[&["members"], words].concat())
    }

    /// What a replica says of itself.
    fn report(&self, replica: usize) -> Value {
        self.parts.report()["replicas"][replica].clone()
    }

    /// The same, which works out, while another client counts on, from there, and notices nothing.
    fn alter_under_load(&self, words: &[&str], count: &mut u64) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let counts = scope.spawn(|| {
                let mut connection = Connection::open(self.port);
                while !done.load(Ordering::Relaxed) {
                    *count += 1;
                    assert_eq!(self.count(&mut connection), *count, "each is executed once");
                }
            });
            let altered = self.administer(words);
            done.store(true, Ordering::Relaxed);
            counts.join().expect("it notices nothing");
            assert!(altered.1 == Some(0) && altered.0.contains("has begun"), "{}", altered.0);
        });
    }

    /// What a client finds after it has counted on.
    fn count(&self, connection: &mut Connection) -> u64 {
        let counted = connection.call(&["INCR", "count"]).expect("the group answers");
        counted.trim_start_matches(':').parse().unwrap_or_else(|_| panic!("no number: {counted}"))
    }
}

/// A card as an earlier version wrote it.
fn in_format_3(card: &str) -> String {
    let parts: Vec<&str> = card.split_whitespace().collect();
    let [_, address, _group, identity, signing, device, signature] = parts[..] else {
        panic!("no card: {card}");
    };
    ["pentarchy-card-3", address, identity, signing, device, signature].join(" ")
}

/// A client counts on from there.
fn goes_on(group: &Group, connection: &mut Connection, count: &mut u64) {
    for _ in 0..20 {
        *count += 1;
        assert_eq!(group.count(connection), *count, "each is executed once");
    }
}

/// A machine takes the place of a dead one, is started again, and then counts where another one is
/// missing.
fn machines_take_the_place_of_dead_ones(protocol: &Descriptor, options: &[&str], forgets: bool) {
    let mut group = Group::start(protocol, options);
    // The number that the new machine gets.
    let n = protocol.rules.replicas(1);
    let (mut connection, mut count) = (Connection::open(group.port), 0);
    let mut goes_on = |group: &Group| goes_on(group, &mut connection, &mut count);
    goes_on(&group);
    group.kill(1);
    let keys = group.parts.prepare("fourth");
    let (said, code) = group.members(&["replace", "1", text(&keys.join("card")), "--wait", "1"]);
    assert!(code == Some(1) && said.contains("pending still"), "{said}");
    assert!(said.contains(&format!(": {n}")), "{said}");
    let client = group.parts.file("client.key");
    eventually("all others are ready", || {
        let pending = group.report(0)["pending_change"].clone();
        pending == json!({ "number": 1, "members": n, "ready": n - 1 })
    });
    goes_on(&group);
    group.join(n, &keys);
    eventually("the former keys are gone", || {
        let replica = group.report(0);
        replica["configuration_number"] == 1
            && replica["pending_change"].is_null()
            && replica["has_former_key"] == false
    });
    goes_on(&group);
    eventually("all are level, and the new one is one of them", || {
        group.parts.status(&client).1 == Some(0)
    });
    let (said, _) = group.parts.status(&client);
    assert!(said.contains("There is one administrator"), "{said}");
    // It is started again. If it has forgotten what it said, the group has to admit it. An earlier
    // version may have written its card.
    group.kill(n);
    goes_on(&group);
    let card = keys.join("card");
    let written = std::fs::read_to_string(&card).expect("a card");
    std::fs::write(&card, in_format_3(&written)).expect("it is ours");
    group.join(n, &keys);
    if forgets {
        eventually("it is admitted", || group.members(&["list"]).0.contains("epoch 2:"));
    }
    // Now it is needed.
    group.kill(2);
    goes_on(&group);

    let (said, _) = group.members(&["list"]);
    assert!(said.contains("configuration 1,") && said.contains(&format!(" {n} ")), "{said}");
    assert!(said.contains("member 2 does not say whether it has former keys"), "{said}");
    std::fs::write(&card, written).expect("it is ours");
    let again = group.members(&["replace", "2", text(&card)]);
    assert!(again.1 == Some(2) && again.0.contains("member already"), "{again:?}");
}

#[test]
fn machines_that_keep_what_they_say_take_the_place_of_dead_ones() {
    machines_take_the_place_of_dead_ones(EXAMPLES.signed, &["--durability", "sync"], false);
}

#[test]
fn machines_that_keep_nothing_take_the_place_of_dead_ones() {
    let options = ["--durability", "memory", "--open"];
    machines_take_the_place_of_dead_ones(EXAMPLES.signed, &options, true);
}

#[test]
fn machines_with_devices_that_keep_what_they_say_take_the_place_of_dead_ones() {
    let options = ["--durability", "sync", "--request-auth", "session"];
    machines_take_the_place_of_dead_ones(DEFAULT, &options, false);
}

#[test]
fn machines_with_devices_that_keep_nothing_take_the_place_of_dead_ones() {
    let options = ["--durability", "memory", "--open"];
    machines_take_the_place_of_dead_ones(EXAMPLES.macs, &options, true);
}

/// Of all that know how the group went on, the one that can be reached joined while it was away.
#[test]
fn a_machine_that_joined_leads_on_a_member_that_was_away() {
    let mut group = Group::start(DEFAULT, &["--durability", "sync"]);
    let (mut connection, mut count) = (Connection::open(group.port), 0);
    goes_on(&group, &mut connection, &mut count);
    let keys = group.parts.prepare("fourth");
    let (said, _) = group.members(&["replace", "2", text(&keys.join("card")), "--wait", "1"]);
    assert!(said.contains("pending still"), "{said}");
    eventually("both that stay are ready", || {
        group.report(0)["pending_change"] == json!({ "number": 1, "members": 3, "ready": 2 })
    });
    group.kill(1);
    group.join(3, &keys);
    eventually("the new one has the state", || {
        let (new, old) = (group.report(2), group.report(0));
        new["id"] == 3 && new["executed"].as_u64() >= Some(1) && new["executed"] == old["executed"]
    });
    goes_on(&group, &mut connection, &mut count);
    group.kill(0);
    group.kill(2);
    let child = group.parts.replica(1).spawn();
    group.replicas[1] = Some(child.expect("it starts"));
    goes_on(&group, &mut connection, &mut count);
    assert_eq!(group.report(1)["configuration_number"], 1);
}

#[test]
fn a_group_grows_to_tolerate_two_faults_and_shrinks() {
    grows_and_shrinks(EXAMPLES.signed);
}

#[test]
fn a_group_with_devices_grows_to_tolerate_two_faults_and_shrinks() {
    grows_and_shrinks(DEFAULT);
}

fn grows_and_shrinks(protocol: &Descriptor) {
    let mut group = Group::start(protocol, &["--durability", "sync"]);
    let (mut connection, mut count) = (Connection::open(group.port), 1);
    assert_eq!(group.count(&mut connection), count);
    let (first, last) = (protocol.rules.replicas(1), protocol.rules.replicas(2) - 1);
    let keys: Vec<_> =
        (first..=last).map(|member| group.parts.prepare(&format!("new-{member}"))).collect();
    let cards: Vec<_> = keys.iter().map(|keys| keys.join("card")).collect();
    let cards: Vec<&str> = cards.iter().map(|card| text(card)).collect();
    let (said, code) = group.members(&[&["add"], &cards[..1], &["--f", "2"]].concat());
    assert!(code == Some(2) && said.contains("--f"), "{said}");
    let client = group.parts.file("client.key");
    for (member, (keys, card)) in (first..).zip(keys.iter().zip(&cards)) {
        group.join(member, keys);
        let words: &[&str] = if member == last { &["--f", "2"] } else { &[] };
        group.alter_under_load(&[&["members", "add", card], words].concat(), &mut count);
        eventually("it has the state", || group.parts.status(&client).1 == Some(0));
    }
    group.kill(0);
    group.kill(2);
    goes_on(&group, &mut connection, &mut count);
    // As many as came. Two of those that leave are dead.
    let leave = [0, 2, last].map(|member| member.to_string());
    let leave: Vec<&str> = leave.iter().map(String::as_str).take(keys.len()).collect();
    let words = [&["members", "remove"], &leave[..], &["--f", "1"]].concat();
    group.alter_under_load(&words, &mut count);
    goes_on(&group, &mut connection, &mut count);
    if leave.len() > 2 {
        let ended = group.replicas[last].as_mut().expect("it ran").wait().expect("it ends");
        assert!(ended.success(), "the group goes on without it: {ended}");
    }
    group.kill(1);
    goes_on(&group, &mut connection, &mut count);
}

/// The machine puts what it learns into files, and still has those when it is a member.
#[test]
fn a_machine_with_a_cold_state_learns_it_before_it_is_a_member() {
    let mut group = Group::start(EXAMPLES.signed, &["--durability", "sync"]);
    let (mut connection, value) = (Connection::open(group.port), "x".repeat(100_000));
    let count = 80;
    for number in 0..count {
        let key = format!("key-{number}");
        assert_eq!(connection.call(&["SET", &key, &value]).expect("it answers"), "+OK");
    }
    let keys = group.parts.prepare("fifth");
    group.join_with(4, &keys, &["--cold-state"]);
    let card = keys.join("card");
    let (said, code) = group.members(&["replace", "1", text(&card)]);
    assert!(code == Some(0), "{said}");
    let client = group.parts.file("client.key");
    eventually("it has the state", || group.parts.status(&client).1 == Some(0));
    let moved = &group.report(3)["messages"]["transfer"]["bytes_in"];
    assert!(moved.as_u64().unwrap_or(0) < 4_000_000, "it had most of it: {moved}");
    group.kill(2);
    assert!(connection.call(&["GET", "key-7"]).expect("it answers").contains(&value));
}

/// It would not be a replica of this group, and is none.
#[test]
fn a_machine_with_another_service_is_never_ready() {
    let mut group = Group::start(EXAMPLES.signed, &["--durability", "memory", "--open"]);
    let (mut connection, mut count) = (Connection::open(group.port), 0);
    (0..5).for_each(|_| goes_on(&group, &mut connection, &mut count));
    let keys = group.parts.prepare("fifth");
    group.join_with(4, &keys, &["--service", "null"]);
    let (said, code) = group.members(&["add", text(&keys.join("card")), "--wait", "2"]);
    assert!(code == Some(1) && said.contains("pending still"), "{said}");
    assert_eq!(group.report(0)["configuration_number"], 0);
    group.kill(4);
    group.join(4, &keys);
    eventually("it is a member", || group.report(0)["configuration_number"] == 1);
    goes_on(&group, &mut connection, &mut count);
}

/// None of the addresses in a client's file is a member's, but the file beside it leads there.
#[test]
fn what_was_exported_leads_to_a_group_that_is_elsewhere() {
    let mut group = Group::start(EXAMPLES.signed, &["--durability", "memory", "--open"]);
    let config = group.parts.file("cluster.toml");
    let commands = |command: &str, config: &Path| {
        let output = run(&["config", command, "--config", text(config)]);
        (stdout(&output) + &stderr(&output), output.status.code())
    };
    let (said, code) = commands("export", &config);
    assert!(code == Some(0) && said.contains("nothing to write"), "{said}");
    let chain = group.parts.file("cluster.chain");
    assert!(!chain.exists());
    for number in 1..=2 {
        let (said, code) = group.members(&["refresh"]);
        assert!(code == Some(0), "{said}");
        let (said, code) = commands("export", &config);
        assert!(code == Some(0) && said.contains(&format!("configuration {number}.")), "{said}");
    }
    let (said, code) = commands("check", &config);
    assert!(code == Some(0) && said.contains("configuration 2:"), "{said}");

    // Addresses of the first configuration are each host's own affair.
    let written = std::fs::read_to_string(&config).expect("a configuration");
    let elsewhere = group.parts.file("elsewhere.toml");
    let mut lines: Vec<_> = written.lines().map(str::to_owned).collect();
    let addresses = lines.iter_mut().filter(|line| line.contains("localhost:"));
    let moved = addresses.map(|line| *line = format!("address = \"localhost:{}\"", free_port()));
    assert_eq!(moved.count(), 4);
    std::fs::write(&elsewhere, lines.join("\n")).expect("it is ours");
    let status = || run(&["status", "--config", text(&elsewhere)]);
    let lost = status();
    assert_eq!(lost.status.code(), Some(1), "{}", stdout(&lost));
    let (said, code) = commands("export", &elsewhere);
    assert!(code == Some(1) && said.contains("0 replicas answer"), "{said}");
    let beside = group.parts.file("elsewhere.chain");
    std::fs::copy(&chain, &beside).expect("it is there");
    let found = status();
    assert_eq!(found.status.code(), Some(0), "{}", stdout(&found));
    let port = free_port();
    let key = group.parts.file("client.key");
    let listen = format!("127.0.0.1:{port}");
    group.parts.start(&[
        "gateway",
        "--config",
        text(&elsewhere),
        "--key",
        text(&key),
        "--listen",
        &listen,
    ]);
    eventually("the gateway listens", || std::net::TcpStream::connect(&listen).is_ok());
    let mut connection = Connection::open(port);
    assert_eq!(group.count(&mut connection), 1);

    // What a gateway has followed it knows when it starts again.
    let (said, code) = group.members(&["refresh"]);
    assert!(code == Some(0), "{said}");
    assert_eq!(group.count(&mut connection), 2);
    let third = |said: &str| said.contains("configuration 3:");
    eventually("it has kept that", || third(&commands("check", &elsewhere).0));

    let links = std::fs::read_to_string(&beside).expect("text");
    let damaged = [links.replacen("\n0", "\n1", 1), links.replacen('\n', "\nno link\n", 1)];
    for (text, place) in damaged.iter().zip(["elsewhere.chain", "elsewhere.chain:2:1"]) {
        std::fs::write(&beside, text).expect("it is ours");
        let (said, code) = commands("check", &elsewhere);
        assert!(code == Some(2) && said.contains(place), "{said}");
    }
}

/// Devices get another secret whenever somebody comes or goes, also while nobody needs them.
#[test]
fn a_group_comes_back_to_devices_after_members_have_come_and_gone() {
    let mut group = Group::start(EXAMPLES.signed, &["--durability", "sync"]);
    let (mut connection, mut count) = (Connection::open(group.port), 0);
    goes_on(&group, &mut connection, &mut count);
    let client = group.parts.file("client.key");
    let [with, without] = [DEFAULT, EXAMPLES.signed].map(|protocol| protocol.rules.name);
    let to = |protocol| ["reconfigure", "--protocol", protocol];
    group.alter_under_load(&[&to(with)[..], &["--remove", "3"]].concat(), &mut count);
    let keys = group.parts.prepare("fifth");
    group.join(4, &keys);
    let card = keys.join("card");
    group.alter_under_load(&[&to(without)[..], &["--add", text(&card)]].concat(), &mut count);
    eventually("it has the state", || group.parts.status(&client).1 == Some(0));
    group.alter_under_load(&[&to(with)[..], &["--remove", "0"]].concat(), &mut count);
    eventually("all are level", || group.parts.status(&client).1 == Some(0));
    // The new machine's device counts: another one is missing, and then it has stopped, too.
    group.kill(1);
    goes_on(&group, &mut connection, &mut count);
    group.kill(4);
    group.join(4, &keys);
    goes_on(&group, &mut connection, &mut count);
}

/// The one that a machine was begun with is erased, and so is that of each configuration.
#[test]
fn former_secrets_are_erased() {
    let mut group = Group::start(DEFAULT, &["--durability", "sync"]);
    let kept = |id: usize| {
        let folder = group.parts.file(&format!("replica-{id}"));
        let signing = std::fs::read_dir(folder.join("signing")).expect("there is one");
        let names = signing.map(|entry| entry.expect("a file").file_name().into_string());
        let secrets = names.filter(|name| name.as_ref().is_ok_and(|it| it.ends_with(".secret")));
        let has = |name: &str| folder.join(name).exists();
        (has("group-secret"), has("signing/first"), secrets.count())
    };
    assert_eq!(kept(0), (true, true, 0));
    for number in 1..=2 {
        let (said, code) = group.members(&["refresh"]);
        assert!(code == Some(0), "{said}");
        assert!(said.contains(&format!("configuration {number} has begun")), "{said}");
        assert!(said.contains(&format!("begun with configuration {number}: ")), "{said}");
        eventually("all have erased their former keys", || {
            group.members(&["list", "--json"]).0.contains("\"erased\":3")
        });
        assert!((0..3).all(|id| kept(id) == (false, false, 1)), "each has one secret");
    }
    // A member that is away keeps its key, and the command does not wait for that member's answer.
    group.kill(2);
    let (said, code) = group.members(&["refresh"]);
    assert!(code == Some(0) && said.contains("3 members; former keys: 2 of 3 erased"), "{said}");
    assert!(said.contains("member 2 was not ready, and signs by the key that it had"), "{said}");
}

#[test]
fn counters_in_processes_of_their_own_keep_their_secret_and_the_group_its_members() {
    let group = Group::start(DEFAULT, &["--counter", "process"]);
    let card = group.parts.prepare("new").join("card");
    let (said, code) = group.members(&["replace", "1", text(&card)]);
    assert!(code == Some(2) && said.contains("--counter in-process"), "{said}");
    let (said, code) = group.members(&["refresh"]);
    assert!(code == Some(0), "{said}");
}

/// No administrator can have a machine join that did not say that it is for this group.
#[test]
fn cards_that_were_altered_or_are_not_for_this_group_change_nothing() {
    let group = Group::start(DEFAULT, &["--durability", "memory"]);
    let card = |parts: &Parts| {
        let path = parts.prepare("prepared").join("card");
        std::fs::read_to_string(path).expect("a card")
    };
    let (own, foreign) = (card(&group.parts), card(&Parts::init()));
    let address = own.split_whitespace().nth(1).expect("an address");
    let altered = own.replace(address, &format!("127.0.0.1:{}", free_port()));
    for (card, why) in [
        (altered, "the card was altered"),
        (foreign, "is for another group: prepare the machine anew"),
        (in_format_3(&own), "that is a card of format 3"),
        (own[..40].to_owned(), "that is no card"),
    ] {
        let file = group.parts.file("brought.card");
        std::fs::write(&file, card).expect("it is ours");
        let file = text(&file);
        for words in [
            &["members", "add", file][..],
            &["members", "replace", "1", file],
            &["reconfigure", "--f", "1", "--add", file],
        ] {
            let (said, code) = group.administer(words);
            assert!(code == Some(2) && said.contains(why), "{words:?}: {said}");
        }
    }
    let (said, code) = group.members(&["list"]);
    assert!(code == Some(0) && said.starts_with("configuration 0,"), "{said}");
    assert!(!said.contains("pending") && !said.contains("propose"), "{said}");
    // Whoever prepares a machine says for which group.
    let (keys, address) = (group.parts.file("none"), format!("127.0.0.1:{}", free_port()));
    let prepared = run(&["members", "prepare", "--address", &address, "--out", text(&keys)]);
    assert!(prepared.status.code() == Some(2) && !keys.exists(), "{}", stdout(&prepared));
}

/// `snapshot save` finds the place that a stopped replica had in the group when it stopped.
#[test]
fn what_members_of_a_changed_group_have_is_saved_when_they_have_stopped() {
    let mut group = Group::start(DEFAULT, &["--durability", "sync"]);
    let (mut connection, mut count) = (Connection::open(group.port), 0);
    goes_on(&group, &mut connection, &mut count);
    let keys = group.parts.prepare("fourth");
    group.join(3, &keys);
    let (said, code) = group.members(&["replace", "1", text(&keys.join("card"))]);
    assert_eq!(code, Some(0), "{said}");
    group.kill(1);
    eventually("the new one is level", || {
        let report = group.report(2);
        report["phase"] == "normal" && report["behind"] == 0
    });
    goes_on(&group, &mut connection, &mut count);
    for (member, folder) in [(2, group.parts.file("replica-2")), (3, keys)] {
        group.kill(member);
        let (data, out) = (folder.join("data"), group.parts.file(&format!("saved-{member}")));
        let config = group.parts.file("cluster.toml");
        let save = ["snapshot", "save", "--data", text(&data), "--out", text(&out)];
        let output = run(&[&save[..], &["--config", text(&config), "--json"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let saved: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(saved["has"], "folder", "{saved} {}", stderr(&output));
    }
}
