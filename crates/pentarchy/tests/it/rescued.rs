//! Administrators have a lost group go on elsewhere.

use crate::hosts::Parts;
use crate::resp::Connection;
use crate::support::{end, eventually, free_port, pentarchy, run, signal, stderr, stdout, text};
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Child;

/// What a client finds after it has counted on.
fn count(connection: &mut Connection) -> u64 {
    let counted = connection.call(&["INCR", "count"]).expect("the group answers");
    counted.trim_start_matches(':').parse().unwrap_or_else(|_| panic!("no number: {counted}"))
}

fn gateway(parts: &mut Parts) -> Connection {
    let port = free_port();
    let gateway = parts.gateway(port);
    parts.spawn(gateway);
    let address = ("127.0.0.1", port);
    eventually("the gateway listens", || std::net::TcpStream::connect(address).is_ok());
    Connection::open(port)
}

/// What a command prints, which is to end like that.
fn said(words: &[&str], code: i32) -> String {
    let output = run(words);
    let said = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    said
}

/// The options that name the cards of machines with these folders of keys.
fn cards(keys: &[PathBuf]) -> Vec<String> {
    let cards = keys.iter().map(|keys| text(&keys.join("card")).to_owned());
    cards.flat_map(|card| ["--card".to_owned(), card]).collect()
}

/// What a survivor has saved beside its keys.
pub fn saved_beside(keys: &Path) -> Option<PathBuf> {
    let paths = std::fs::read_dir(keys).expect("a folder").flatten().map(|it| it.path());
    paths.into_iter().find(|path| text(path).ends_with("-may-lack-acknowledged-writes.backup"))
}

fn join(config: &Path, keys: &Path) -> Child {
    let words = ["replica", "--join", "--config", text(config), "--keys", text(keys)];
    pentarchy(&words).spawn().expect("it starts")
}

/// The new machines begin with the state that the administrators signed, and with no other.
fn restore(parts: &Parts, config: &Path, (older, signed): (&Path, &Path), keys: &[PathBuf]) {
    let restore = |state: &Path, keys: &Path, code| {
        let into = ["--config", text(config), "--keys", text(keys)];
        said(&[&["snapshot", "restore", text(state)], &into[..]].concat(), code)
    };
    let refusal = restore(older, &keys[0], 2);
    assert!(refusal.contains("another state than the one from which"), "{refusal}");
    let stranger = parts.prepare("stranger");
    assert!(restore(signed, &stranger, 2).contains("no member with the key"));
    keys.iter().for_each(|keys| drop(restore(signed, keys, 0)));
    assert!(restore(signed, &keys[0], 2).contains("started before"));
}

/// All disks but one are lost. The administrators have the group go on as other machines, from what
/// the last one has; or, where one log proves little, from what was saved while all ran. Clients
/// find it by the chain, and each write is there once.
fn goes_on_from_one_survivor(protocol: &Descriptor, options: &[&str], proves_all: bool) {
    let words = ["--protocol", protocol.rules.name, "--administrators", "3"];
    let n = protocol.rules.replicas(1);
    let mut parts = Parts::init_on(n, &[&words, options].concat());
    (0..n).for_each(|id| parts.start_replica(id));
    let mut connection = gateway(&mut parts);
    assert!((1..=30).all(|number| count(&mut connection) == number));

    let (config, keys) = (parts.file("cluster.toml"), ["new-0", "new-1", "new-2", "new-3"]);
    let keys: Vec<_> = keys[..n].iter().map(|name| parts.prepare(name)).collect();
    let survivor = parts.file(&format!("replica-{}", n - 1)).join("data");
    let cards = cards(&keys);
    let cards: Vec<&str> = cards.iter().map(String::as_str).collect();
    let saved = parts.file("saved.backup");
    let client = parts.file("client.key");
    let save = ["snapshot", "save", "--data", text(&survivor), "--out", text(&saved)];
    said(&[&save[..], &["--key", text(&client)]].concat(), 0);
    let admin = [1, 2, 3].map(|number| parts.file(&format!("admin-{number}.key")));
    let of = |key: usize| ["--config", text(&config), "--admin-key", text(&admin[key])];
    let asked = [&["members", "rescue", text(&saved)], &cards[..]].concat();
    let refusal = said(&[&asked[..], &of(0)].concat(), 1);
    assert!(refusal.contains("the group still runs"), "{refusal}");

    assert!((31..=40).all(|number| count(&mut connection) == number));
    let newer = parts.file("newer.backup");
    let save = ["snapshot", "save", "--data", text(&survivor), "--out", text(&newer)];
    if !proves_all {
        said(&[&save[..], &["--key", text(&client)]].concat(), 0);
    }
    parts.children.iter_mut().for_each(end);
    for id in 0..n - 1 {
        let lost = parts.file(&format!("replica-{id}")).join("data");
        std::fs::remove_dir_all(lost).expect("it was there");
    }
    if proves_all {
        said(&save, 0);
    }
    let asked = [&["members", "rescue", text(&newer)], &cards[..]].concat();
    let first = said(&[&asked[..], &of(0)].concat(), 0);
    assert!(first.contains("signatures that it lacks: 1"), "{first}");
    let unsigned = said(&["config", "check", "--config", text(&config)], 0);
    assert!(unsigned.contains("configuration 0"), "{unsigned}");
    let partly = parts.file("cluster.rescue");
    let show = ["members", "rescue", "--sign", text(&partly), "--config", text(&config)];
    assert!(said(&show, 0).contains("Nothing is signed"));
    let sign = |state| ["members", "rescue", "--sign", text(&partly), text(state), "--json"];
    let refusal = said(&[&sign(&saved)[..], &of(2)].concat(), 2);
    assert!(refusal.contains("from another state than the one that was given"), "{refusal}");
    let sign = sign(&newer);
    let second: Value = serde_json::from_str(&said(&[&sign[..], &of(2)].concat(), 0)).unwrap();
    assert_eq!((&second["configuration"], &second["lacks"]), (&1.into(), &0.into()));

    restore(&parts, &config, (&saved, &newer), &keys);
    parts.children.clear();
    for keys in &keys {
        parts.children.push(join(&config, keys));
    }
    let mut connection = gateway(&mut parts);
    assert!((41..=60).all(|number| count(&mut connection) == number));

    // It is a group like any other: one that stops goes on from its folder, and keys change.
    end(&mut parts.children[0]);
    parts.children[0] = join(&config, &keys[0]);
    assert!((61..=80).all(|number| count(&mut connection) == number));
    let both = [&["members", "refresh"], &of(0)[..], &["--admin-key", text(&admin[1])]].concat();
    assert!(said(&both, 0).contains("configuration 2 has begun"));
    assert!((81..=100).all(|number| count(&mut connection) == number));
}

#[test]
fn a_lost_group_goes_on_from_what_one_survivor_has() {
    goes_on_from_one_survivor(DEFAULT, &["--request-auth", "session"], true);
}

#[test]
fn a_lost_group_without_devices_goes_on_too() {
    goes_on_from_one_survivor(EXAMPLES.signed, &[], false);
}

/// The group has changed before it is lost, and the survivor saves what it has while it runs.
#[test]
fn a_group_that_changed_goes_on_from_what_a_survivor_saved_while_it_ran() {
    let mut parts = Parts::init_with(&["--administrators", "3"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let (config, chain) = (parts.file("cluster.toml"), parts.file("cluster.chain"));
    let admin = [1, 2].map(|number| parts.file(&format!("admin-{number}.key")));
    let files = ["--config", text(&config), "--admin-key", text(&admin[0])];
    let whom = [&files[..], &["--admin-key", text(&admin[1])]].concat();
    let mut connection = gateway(&mut parts);
    assert!((1..=10).all(|number| count(&mut connection) == number));
    assert!(said(&[&["members", "refresh"], &whom[..]].concat(), 0).contains("has begun"));
    let list = [&["members", "list", "--json"], &whom[..]].concat();
    eventually("all have erased their former keys", || said(&list, 0).contains("\"erased\":3"));
    assert!((11..=20).all(|number| count(&mut connection) == number));
    eventually("all have executed everything", || {
        let replicas = &parts.report()["replicas"];
        let executed = |id: usize| replicas[id]["executed"].as_u64().unwrap_or_default();
        (0..3).all(|id| executed(id) >= 20 && executed(id) == executed(0))
    });
    // The gateway has kept how the group changed. It may be on another host.
    end(&mut parts.children[3]);
    std::fs::remove_file(&chain).expect("it was kept");

    parts.children[..2].iter_mut().for_each(end);
    for id in 0..2 {
        let lost = parts.file(&format!("replica-{id}")).join("data");
        std::fs::remove_dir_all(lost).expect("it was there");
    }
    (0..2).for_each(|id| parts.start_replica(id));
    eventually("the group is lost", || parts.report()["lost"] == true);
    let (survivor, pid) = (parts.file("replica-2"), parts.children[2].id());
    eventually("the survivor has heard so, too, and saved what it has", || {
        signal(pid, Signal::USR1);
        saved_beside(&survivor).is_some()
    });
    let saved = saved_beside(&survivor).expect("it was there");
    assert!(parts.children[2].wait().expect("it ends by itself").success());

    let keys = ["new-0", "new-1", "new-2"].map(|name| parts.prepare(name));
    let cards = cards(&keys);
    let cards: Vec<&str> = cards.iter().map(String::as_str).collect();
    let rescue = [&["members", "rescue", text(&saved), "--json"], &cards[..], &whom[..]].concat();
    let refusal = said(&rescue, 2);
    assert!(refusal.contains("the state is of configuration 1 of its group"), "{refusal}");
    let data = survivor.join("data");
    let export = ["config", "export", "--data", text(&data), "--config", text(&config)];
    assert!(said(&export, 0).contains("the group is in configuration 1"));
    let refusal = said(&rescue, 1);
    assert!(refusal.contains("the group still runs"), "those that ask for admission: {refusal}");
    parts.children.iter_mut().for_each(end);
    let signed: Value = serde_json::from_str(&said(&rescue, 0)).expect("JSON");
    assert_eq!((&signed["configuration"], &signed["lacks"]), (&2.into(), &0.into()), "{signed}");

    parts.children.clear();
    for keys in &keys {
        let into = ["--config", text(&config), "--keys", text(keys)];
        said(&[&["snapshot", "restore", text(&saved)], &into[..]].concat(), 0);
        parts.children.push(join(&config, keys));
    }
    let mut connection = gateway(&mut parts);
    assert!((21..=30).all(|number| count(&mut connection) == number));
}
