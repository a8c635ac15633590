//! A group that changes while it runs: its members sign by new keys, and clients go on.

use crate::durable::status;
use crate::hosts::Parts;
use crate::support::{Cluster, PATIENCE, eventually, free_port, run, stderr, stdout, text};
use pentarchy::administration::{Administrator, Terms, refresh};
use pentarchy::services::kv::{Command, Kv, STATE_BYTES_DEFAULT};
use pentarchy::{Client, KeyPair, LocalCluster, RequestMode, Service};
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES};
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub fn service() -> Box<dyn Service> {
    Box::new(Kv::new(STATE_BYTES_DEFAULT))
}

pub fn increment(client: &Client) {
    let pending = client.submit(Command::new(&["INCR", "count"]).to_operation());
    pending.wait_timeout(PATIENCE).expect("the group answers");
}

pub fn count(client: &Client) -> u64 {
    let pending = client.submit(Command::new(&["GET", "count"]).to_operation());
    let read = pending.wait_timeout(PATIENCE).expect("the group answers").to_vec();
    let digits: Vec<u8> = read.into_iter().filter(u8::is_ascii_digit).collect();
    String::from_utf8(digits).expect("digits").parse().expect("a number")
}

/// The keys by which members sign.
fn signing(administrator: &Administrator) -> (u64, Vec<[u8; 32]>) {
    let shown = administrator.show(PATIENCE).expect("an administrator is shown");
    let members = shown.configuration.members.iter();
    (shown.configuration.number, members.map(|member| member.signing).collect())
}

/// Has members sign by new keys, and waits until the group has begun with them. Gives the keys
/// before and after.
pub fn refreshed(administrator: &Administrator) -> [Vec<[u8; 32]>; 2] {
    let (number, before) = signing(administrator);
    let shown = administrator.show(PATIENCE).expect("an administrator is shown");
    let change = refresh(&shown, &Terms::new(Duration::from_secs(600)));
    administrator.propose(change, PATIENCE).expect("it is accepted");
    let mut after = (number, Vec::new());
    eventually("the configuration begins", || {
        after = signing(administrator);
        after.0 == number + 1
    });
    [before, after.1]
}

/// The same, where all members are ready.
fn refresh_all(administrator: &Administrator) {
    let [before, after] = refreshed(administrator);
    assert!(after.iter().all(|key| !before.contains(key)), "all have new keys");
}

/// Ends the writer, also if the test fails.
pub struct Stops<'a>(pub &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Clients go on while members get other keys twice; then each replica stops and starts again, and
/// signs as its configuration says.
fn goes_on_with_other_keys(protocol: &Descriptor, mode: RequestMode, data: Option<&Path>) {
    let n = protocol.rules.replicas(1);
    let builder = LocalCluster::builder().protocol(protocol.rules.name).request_auth(mode);
    let builder = match data {
        Some(folder) => builder.data(folder),
        None => builder,
    };
    let mut cluster = builder.start(service).expect("a cluster");
    let client = cluster.client().expect("a client");
    let administrators = cluster.administrators().expect("administrators");
    let [administrator] = &administrators[..] else { panic!("there is one") };
    let stop = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        let writer = scope.spawn(|| {
            let mut made = 0;
            while !stop.load(Ordering::Relaxed) {
                increment(&client);
                made += 1;
            }
            made
        });
        refresh_all(administrator);
        refresh_all(administrator);
        drop(Stops(&stop));
        writer.join().expect("clients notice nothing")
    });
    assert_eq!(count(&client), made, "each was executed once");
    // One that forgot what it said is admitted anew, and each admission takes longer.
    let stops = if data.is_some() { n } else { 1 };
    for id in 0..stops {
        cluster.kill(id).expect("it ran");
        increment(&client);
        cluster.restart(id, service()).expect("it starts");
        eventually("it is level in the same configuration", || {
            increment(&client);
            let report = status(&client, id as u16);
            report["phase"] == "normal" && report["behind"] == 0
        });
    }
    // Their votes count: one after the other is missing.
    refresh_all(administrator);
    for id in (0..n).skip(n - stops) {
        cluster.kill(id).expect("it ran");
        (0..20).for_each(|_| increment(&client));
        cluster.restart(id, service()).expect("it starts");
        eventually("it is level", || {
            increment(&client);
            let report = status(&client, id as u16);
            report["phase"] == "normal" && report["behind"] == 0
        });
    }
    assert_eq!(signing(administrator).0, 3);
}

#[test]
fn members_that_keep_what_they_say_get_other_keys() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    goes_on_with_other_keys(DEFAULT, RequestMode::Signature, Some(folder.path()));
}

#[test]
fn members_that_sign_their_votes_get_other_keys() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    goes_on_with_other_keys(EXAMPLES.signed, RequestMode::Signature, Some(folder.path()));
}

#[test]
fn members_whose_votes_are_trusted_macs_get_other_keys() {
    goes_on_with_other_keys(EXAMPLES.macs, RequestMode::Session, None);
}

fn members(cluster: &Cluster, words: &[&str]) -> (Value, Option<i32>) {
    let output = run(&[&["members"], words, &["--json", "--data", text(&cluster.data)]].concat());
    let json = serde_json::from_slice(&output.stdout);
    (json.unwrap_or_else(|_| stderr(&output).into()), output.status.code())
}

#[test]
fn an_operator_renews_the_keys_of_a_group_that_runs() {
    let cluster = Cluster::up(&["--durability", "sync"]);
    assert_eq!(cluster.redis_cli(&["SET", "key", "value"]), "OK");
    let (before, code) = members(&cluster, &["list"]);
    assert_eq!((&before["configuration"], code), (&0.into(), Some(0)), "{before}");
    let (after, code) = members(&cluster, &["refresh"]);
    assert_eq!((&after["configuration"], code), (&1.into(), Some(0)), "{after}");
    let mut after = after;
    eventually("all have erased their former keys", || {
        after = members(&cluster, &["list"]).0;
        after["erased"] == 3
    });
    for id in 0..3 {
        let [old, new] = [&before, &after].map(|shown| &shown["members"][id]);
        assert!(old["signing"] != new["signing"] && old["identity"] == new["identity"]);
        assert!(new["has_begun"] == true && new["has_former_key"] == false, "{after}");
        let folder = cluster.data.join(format!("replica-{id}")).join("signing");
        let files = std::fs::read_dir(&folder).expect("it was made").count();
        assert_eq!(files, 3, "the present key, its change, and the devices' secret");
    }
    assert_eq!((&after["begun"], &after["erased"]), (&3.into(), &3.into()), "{after}");
    assert_eq!(cluster.redis_cli(&["GET", "key"]), "value");
    let (_, code) = members(&cluster, &["refresh"]);
    assert_eq!(code, Some(0));
    eventually("all is well", || cluster.status().1 == Some(0));
    // Nothing is proposed, so there is nothing to approve; nor is there anything to withdraw that
    // would not be accepted.
    assert_eq!(members(&cluster, &["approve", "0123456789abcdef0123456789abcdef"]).1, Some(1));
    let withdrawn = run(&["members", "withdraw", "--data", text(&cluster.data)]);
    assert_eq!(stdout(&withdrawn).trim(), "withdrawn");
}

#[test]
fn more_than_half_of_the_administrators_are_needed() {
    let mut parts = Parts::init_with(&["--open", "--administrators", "3"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let config = parts.file("cluster.toml");
    let asks = |key: &str, words: &[&str]| {
        let key = parts.file(key);
        let whom = ["--config", text(&config), "--admin-key", text(&key), "--wait", "2"];
        let output = run(&[&["members"], words, &whom[..]].concat());
        (stdout(&output) + &stderr(&output), output.status.code())
    };
    let (said, code) = asks("admin-1.key", &["refresh"]);
    assert!(code == Some(1) && said.contains("others have to approve it"), "{said}");
    let (said, code) = asks("admin-2.key", &["list"]);
    assert!(code == Some(0) && said.contains("1 of 2 administrators propose"), "{said}");
    let (_, change) = said.split_once("propose ").expect("a digest");
    let (change, new) = change.split_once(": ").expect("what it alters");
    assert!(new.starts_with("other signing keys, secret\n  void at 20"), "{new}");
    let proposer = format!("administrator {} proposes it", public(&parts.file("admin-1.key")));
    assert!(new.contains(&proposer), "{new}");
    let (said, code) = asks("admin-3.key", &["approve", "0123456789abcdef0123456789abcdef"]);
    assert!(code == Some(1) && said.contains("no proposal"), "{said}");
    let (said, code) = asks("client.key", &["list"]);
    assert!(code == Some(2) && said.contains("no administrator's"), "{said}");
    let (said, _) = asks("admin-3.key", &["approve", change]);
    assert!(!said.contains("refuses"), "{said}");
    eventually("it has begun", || asks("admin-1.key", &["list"]).0.contains("configuration 1,"));

    // A member is to be found elsewhere, where nobody listens yet: the two others go on.
    let elsewhere = format!("127.0.0.1:{}", free_port());
    let both = ["--admin-key", text(&parts.file("admin-2.key"))].map(str::to_owned);
    let words = ["move", "0", &elsewhere, &both[0], &both[1], "--wait", "30"];
    let whom = ["--config", text(&config), "--admin-key", text(&parts.file("admin-1.key"))]
        .map(str::to_owned);
    let whom: Vec<&str> = whom.iter().map(String::as_str).collect();
    let output = run(&[&["members"][..], &words, &whom].concat());
    let said = stdout(&output) + &stderr(&output);
    assert!(output.status.success() && said.contains("configuration 2 has begun"), "{said}");
    // Nobody knows whether that one has erased its former keys.
    assert!(said.contains("former keys: 2 of 3 erased\n  member 0 does not say"), "{said}");
    assert!(said.contains("pentarchy members replace"), "{said}");
    let (said, _) = asks("admin-1.key", &["list"]);
    assert!(said.contains(&elsewhere) && said.contains("unknown"), "{said}");
}

/// What these administrators do, each with a key from the group's folder.
fn asks(parts: &Parts, keys: &[u8], words: &[&str]) -> (String, Option<i32>) {
    let config = parts.file("cluster.toml");
    let files: Vec<_> = keys.iter().map(|key| parts.file(&format!("admin-{key}.key"))).collect();
    let keys: Vec<_> = files.iter().flat_map(|file| ["--admin-key", text(file)]).collect();
    let output = run(&[&["members"], words, &["--config", text(&config)], &keys[..]].concat());
    (stdout(&output) + &stderr(&output), output.status.code())
}

fn public(key: &Path) -> String {
    hex::encode(KeyPair::load(key).expect("a key").public())
}

/// One administrator's key is lost, and somebody else becomes one in a group that lists its
/// clients.
#[test]
fn others_become_administrators() {
    let mut parts = Parts::init_with(&["--administrators", "3"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let asks = |keys: &[u8], words: &[&str]| asks(&parts, keys, words);
    let public = |key| public(&parts.file(key));
    let file = parts.file("admin-4.key");
    let prepared = run(&["members", "prepare", "--administrator", "--out", text(&file)]);
    let (new, lost) = (public("admin-4.key"), public("admin-3.key"));
    assert_eq!(stdout(&prepared).trim(), new);

    let nobody = "02".repeat(32);
    let both = [1, 2];
    for (words, why) in [
        (&["--add", &nobody][..], "nobody's public key"),
        (&["--add", &lost], "has an administrator"),
        (&["--remove", &new], "has no administrator"),
        (&["--add", &new, "--agree", "5"], "the threshold must be"),
        (&["--add", &new[..60]], "64 hexadecimal digits"),
        (&[], "required"),
    ] {
        let (said, code) = asks(&both, &[&["appoint"], words].concat());
        assert!(code == Some(2) && said.contains(why), "{words:?}: {said}");
    }
    let everybody = [public("admin-1.key"), public("admin-2.key"), lost.clone()];
    let everybody: Vec<_> = everybody.iter().flat_map(|key| ["--remove", key]).collect();
    let (said, code) = asks(&both, &[&["appoint"], &everybody[..]].concat());
    assert!(code == Some(2) && said.contains("never be changed again"), "{said}");

    let (said, _) = asks(&[1], &["appoint", "--add", &new, "--remove", &lost, "--wait", "1"]);
    assert!(said.contains("others have to approve it"), "{said}");
    let (said, _) = asks(&[2], &["list"]);
    for part in [format!("administrator {lost} leaves"), format!("administrator {new} joins")] {
        assert!(said.contains(&part), "{said}");
    }
    assert!(said.contains("2 of 3 administrators have to agree"), "{said}");
    let reads = |key: &str| parts.status(&parts.file(key)).1;
    assert_eq!(reads("admin-3.key"), Some(0));
    let (_, change) = said.split_once("propose ").expect("a digest");
    let (change, _) = change.split_once(": ").expect("what it alters");
    let (said, code) = asks(&[2], &["approve", change]);
    assert!(code == Some(0) && said.contains("configuration 1 has begun"), "{said}");

    let (said, code) = asks(&[3], &["list"]);
    assert!(code != Some(0), "whoever finds the lost key learns nothing: {said}");
    assert_eq!(reads("admin-3.key"), Some(1));
    let (said, code) = asks(&[4], &["list"]);
    assert!(code == Some(0) && said.contains(&new) && !said.contains(&lost), "{said}");
    let (said, _) = parts.status(&parts.file("client.key"));
    assert!(!said.contains("one administrator"), "{said}");
    let (said, code) = asks(&[4, 1], &["refresh"]);
    assert!(code == Some(0) && said.contains("configuration 2 has begun"), "{said}");
    // All of them have to agree, which lasts when one is replaced.
    let (said, code) = asks(&[4, 1], &["appoint", "--agree", "3"]);
    assert!(code == Some(0) && said.contains("configuration 3 has begun"), "{said}");
    let (said, _) = parts.status(&parts.file("client.key"));
    assert!(said.contains("All 3 administrators have to agree"), "{said}");
    let all = [1, 2, 4];
    let (said, code) = asks(&all, &["appoint", "--add", &lost, "--remove", &public("admin-1.key")]);
    assert!(code == Some(0) && said.contains("configuration 4 has begun"), "{said}");
    let (said, _) = asks(&[3], &["list"]);
    assert!(said.contains("3 of 3 administrators"), "{said}");
}

/// The only administrator hands over to another one.
#[test]
fn whoever_is_no_administrator_any_more_hears_that_the_change_has_begun() {
    let mut parts = Parts::init_with(&["--open", "--administrators", "1"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let new = parts.file("admin-2.key");
    let key = stdout(&run(&["members", "prepare", "--administrator", "--out", text(&new)]));
    let former = public(&parts.file("admin-1.key"));
    let words = ["appoint", "--add", key.trim(), "--remove", &former];
    let (said, code) = asks(&parts, &[1], &words);
    assert!(code == Some(0) && said.contains("without these administrators"), "{said}");
    assert!(said.contains("`pentarchy status` shows"), "{said}");
    let (said, code) = asks(&parts, &[2], &["list"]);
    assert!(code == Some(0) && said.contains("configuration 1,"), "{said}");
}

#[test]
fn clients_that_share_keys_with_members_share_others_when_these_get_other_keys() {
    let cluster = Cluster::up(&["--protocol", EXAMPLES.signed.rules.name, "--request-auth", "mac"]);
    assert_eq!(cluster.redis_cli(&["INCR", "count"]), "1");
    for number in 2..=4 {
        let (said, code) = members(&cluster, &["refresh"]);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(cluster.redis_cli(&["INCR", "count"]), number.to_string());
    }
}
