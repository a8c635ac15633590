//! What an operator is told: verdicts, groups that are lost, and advice.

use crate::rescued::saved_beside;
use crate::saves::{data, kill, save};
use crate::support::{Cluster, eventually, free_port, is_alive, run, stderr, stdout, text};
use pentarchy_protocols::{DEFAULT, EXAMPLES};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a command says on both streams, and its exit code.
pub fn command(arguments: &[&str]) -> (String, Option<i32>) {
    let output = run(arguments);
    (stdout(&output) + &stderr(&output), output.status.code())
}

/// Sets so many keys to the same value.
pub fn set_keys(cluster: &Cluster, count: usize) {
    for key in 0..count {
        assert_eq!(cluster.redis_cli(&["SET", &format!("key-{key}"), "value"]), "OK");
    }
}

/// A new group that begins with a backup; it counts as stopped when this is dropped.
pub struct Restored {
    parts: crate::hosts::Parts,
}

impl Restored {
    /// Begins one.
    pub fn from(backup: &Path) -> Self {
        let mut parts = crate::hosts::Parts::init_with(&["--open"]);
        for id in 0..3usize {
            let (config, keys) = (parts.file("cluster.toml"), parts.file(&format!("replica-{id}")));
            let id = id.to_string();
            let into = ["--config", text(&config), "--id", &id, "--keys", text(&keys)];
            let (said, code) =
                command(&[&["snapshot", "restore", text(backup)], &into[..]].concat());
            assert_eq!(code, Some(0), "{said}");
        }
        (0..3).for_each(|id| parts.start_replica(id));
        Self { parts }
    }

    /// How many of the keys that were set before the backup are there.
    pub fn keys(&mut self, count: usize) -> usize {
        let port = free_port();
        let gateway = self.parts.gateway(port);
        self.parts.spawn(gateway);
        eventually("the gateway listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let mut connection = crate::resp::Connection::open(port);
        let has = |key: &usize| {
            let read = connection.call(&["GET", &format!("key-{key}")]);
            read.as_deref() == Some("value")
        };
        (0..count).filter(has).count()
    }
}

fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), answer)
}

#[test]
fn a_group_of_which_too_many_lost_their_memory_is_called_lost() {
    let cluster = Cluster::up(&[]);
    set_keys(&cluster, 3);
    let at = ["--data", text(&cluster.data)];
    let (said, _) = command(&[&["break", "0", "--kill"], &at[..]].concat());
    assert!(said.contains(&format!("Undo: pentarchy heal 0 --data {}", at[1])), "{said}");
    let (said, code) = command(&[&["break", "1", "--kill", "--anyway"], &at[..]].concat());
    assert!(code == Some(0) && said.contains("this group can never go on"), "{said}");
    let begun = Instant::now();
    let (said, code) = command(&[&["heal"], &at[..]].concat());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("more than f replicas lost their memory (0, 1)"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(30), "it does not wait for what cannot be");
    let (said, code) = command(&[&["status"], &at[..]].concat());
    assert!(code == Some(1) && said.starts_with("serves: no, and never will"), "{said}");
    assert_eq!(cluster.status().0["lost"], true);
    let survivor = cluster.running["replicas"][2]["metrics"].as_str().expect("an address");
    eventually("the survivor is not ready", || {
        let (status, body) = get(survivor, "/readyz");
        status == 503 && body.contains("this group cannot continue")
    });
    let log = std::fs::read_to_string(cluster.data.join("replica-2/replica.log")).expect("a log");
    assert!(log.contains("more than f replicas lost their memory"), "{log}");
    // What the survivor has begins a new group. Nothing of it is lost while it cannot be written.
    let (keys, away) = (cluster.data.join("replica-2"), cluster.data.join("away"));
    std::fs::rename(&keys, &away).expect("it can be moved");
    std::fs::write(&keys, "no folder").expect("the place is free");
    let pid = cluster.replica_pid(2);
    let log = || std::fs::read_to_string(away.join("replica.log")).expect("a log");
    crate::support::signal(pid, Signal::USR1);
    eventually("it says that it cannot", || log().contains("CANNOT SAVE what this replica has"));
    assert!(is_alive(pid), "{}", log());
    std::fs::remove_file(&keys).expect("it is there");
    std::fs::rename(&away, &keys).expect("it can be moved");
    crate::support::signal(pid, Signal::USR1);
    let rescued = || saved_beside(&keys);
    eventually("it is saved", || rescued().is_some());
    eventually("it ends", || !is_alive(pid));
    assert_eq!(Restored::from(&rescued().expect("a file")).keys(3), 3);
}

#[test]
fn what_a_web_page_sends_to_a_gateway_is_in_its_log() {
    let cluster = Cluster::up(&[]);
    let log = || std::fs::read_to_string(cluster.data.join("gateway.log")).expect("a log");
    for (request, seen) in [
        ("POST / HTTP/1.1\r\n", "the first line of an HTTP request"),
        ("Host: evil.example\r\n", "POST or Host: as a command"),
    ] {
        let mut page = TcpStream::connect(("127.0.0.1", cluster.port)).expect("it listens");
        page.write_all(request.as_bytes()).expect("it reads");
        eventually(seen, || log().contains("possible attack") && log().contains(seen));
    }
}

#[test]
fn a_replica_of_a_group_that_goes_on_gives_nothing_away() {
    let cluster = Cluster::up(&[]);
    assert!(!cluster.warned.contains("young"), "{}", cluster.warned);
    // A cluster serves before its last replica has begun.
    eventually("all replicas run", || cluster.status().1 == Some(0));
    crate::support::signal(cluster.replica_pid(2), Signal::USR1);
    let log = cluster.data.join("replica-2/replica.log");
    eventually("it says why", || {
        std::fs::read_to_string(&log).expect("a log").contains("the group is not lost")
    });
    set_keys(&cluster, 3);
    assert_eq!(cluster.status().1, Some(0));
}

#[test]
fn the_verdict_says_whether_the_group_serves_and_whom_to_suspect() {
    let cluster = Cluster::up(&[]);
    let at = ["--data", text(&cluster.data)];
    let shown = || command(&[&["status"], &at[..]].concat());
    let healthy = "serves: yes; tolerates 1 more fault; suspected: none";
    eventually("all is well", || shown().0.starts_with(healthy) && shown().1 == Some(0));
    let broken = |how: &[&str]| {
        let (said, code) = command(&[&["break"], how, &at[..]].concat());
        assert_eq!(code, Some(0), "{said}");
    };
    broken(&["2", "--silent"]);
    eventually("a silent replica is suspected", || {
        let (said, code) = shown();
        let serves = "serves: yes; tolerates 0 more faults; suspected: replica 2 (";
        code == Some(1) && said.starts_with(serves) && said.contains("silent for ")
    });
    let (top, code) = command(&[&["top", "--once"], &at[..]].concat());
    assert!(code == Some(1) && top.starts_with("serves: yes; tolerates 0"), "{top}");
    assert_eq!(command(&[&["heal", "2"], &at[..]].concat()).1, Some(0));
    broken(&["1", "--corrupt"]);
    eventually("a liar is suspected", || {
        let _ = cluster.redis_cli(&["INCR", "number"]);
        let said = shown().0;
        said.contains("suspected: replica 1 (") && said.contains(" refused messages")
    });
    assert_eq!(command(&[&["heal", "1"], &at[..]].concat()).1, Some(0));
    eventually("what was refused is forgotten", || shown().0.starts_with(healthy));
    broken(&["0", "--pause"]);
    broken(&["1", "--pause", "--anyway"]);
    let (status, code) = cluster.status();
    assert_eq!((code, &status["serves"]), (Some(1), &false.into()), "{status}");
    assert_eq!(status["suspected"].as_array().map(Vec::len), Some(2), "{status}");
    assert_eq!(command(&[&["heal"], &at[..]].concat()).1, Some(0));
}

#[test]
fn replicas_are_named_by_member_once_members_have_come_and_gone() {
    let cluster = Cluster::up(&[]);
    let data = ["--data", text(&cluster.data)];
    let replaced = run(&[&["members", "replace", "0"], &data[..]].concat());
    assert!(replaced.status.success(), "{}", stderr(&replaced));
    let (status, _) = cluster.status();
    let ids = status["replicas"].as_array().map(|all| all.iter().map(|it| it["id"].as_u64()));
    assert!(ids.is_some_and(|ids| ids.eq([1, 2, 3].map(Some))), "{status}");
    assert!(status["replicas"].as_array().is_some_and(|all| all.iter().all(|it| {
        it["metrics"].as_str().is_some_and(|address| TcpStream::connect(address).is_ok())
    })));
    eventually("`top` has followed the group", || {
        let shown = stdout(&run(&[&["top", "--once"], &data[..]].concat()));
        let first = |line: &str| line.split_whitespace().next()?.parse().ok();
        let rows: Vec<u32> = shown.lines().filter_map(first).collect();
        rows == [1, 2, 3]
    });
    let gone = run(&[&["break", "0", "--silent"], &data[..]].concat());
    assert_eq!(gone.status.code(), Some(2), "{}", stderr(&gone));
    assert!(stderr(&gone).contains("there are replicas 1, 2, 3"), "{}", stderr(&gone));
    for (number, id) in [(3, "3"), (1, "1")] {
        let broken = run(&[&["break", id, "--corrupt"], &data[..]].concat());
        assert!(broken.status.success(), "{}", stderr(&broken));
        eventually("the liar is suspected, and nobody else", || {
            assert!(!cluster.redis_cli(&["SET", "key", id]).is_empty());
            let (status, _) = cluster.status();
            let suspects = status["suspected"].as_array().cloned().unwrap_or_default();
            let named = |it: &Value| it["replica"] == number;
            let refused = |it: &Value| it["why"].to_string().contains("refused messages");
            suspects.iter().any(refused) && suspects.iter().all(named)
        });
        let healed = run(&[&["heal", id], &data[..]].concat());
        assert!(healed.status.success(), "{}", stderr(&healed));
        eventually("all is well", || cluster.status().1 == Some(0));
    }
}

#[test]
fn a_killed_replica_that_comes_back_raises_no_alarm_of_refused_messages() {
    for mode in ["memory", "sync"] {
        let cluster = Cluster::up(&["--durability", mode]);
        let at = ["--data", text(&cluster.data)];
        for id in ["0", "2"] {
            set_keys(&cluster, 20);
            let broken = command(&[&["break", id, "--kill"], &at[..]].concat());
            assert_eq!(broken.1, Some(0), "{}", broken.0);
            set_keys(&cluster, 20);
            let healed = command(&[&["heal", id], &at[..]].concat());
            assert_eq!(healed.1, Some(0), "{}", healed.0);
            set_keys(&cluster, 20);
        }
        let (status, _) = cluster.status();
        for replica in status["replicas"].as_array().expect("a list") {
            let rejects = replica["rejects"].as_object().expect("counts");
            assert!(rejects.values().all(|count| *count == 0), "{mode}: {rejects:?}");
        }
    }
}

#[test]
fn what_a_data_folder_lacks_is_named() {
    let mut parts = crate::hosts::Parts::init_with(&["--open"]);
    (0..3).for_each(|id| parts.start_replica(id));
    let file = |name: &str| parts.file("replica-1").join("data").join(name);
    eventually("it keeps something", || file("device").exists());
    for child in &mut parts.children {
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
    let said = |parts: &crate::hosts::Parts| {
        let output = parts.replica(1).output().expect("it starts");
        (stderr(&output), output.status.code())
    };
    let protocol = parts.file("replica-1").join("data/protocol");
    std::fs::write(&protocol, "").expect("it can be written");
    let (text, code) = said(&parts);
    assert!(code == Some(2) && text.contains("the file `protocol` is empty"), "{text}");
    std::fs::remove_file(&protocol).expect("it is there");
    let (text, code) = said(&parts);
    assert!(code == Some(2) && text.contains("the file `protocol` is missing"), "{text}");
    std::fs::write(&protocol, DEFAULT.rules.name).expect("it can be written");
    let device = parts.file("replica-1").join("data/device");
    std::fs::write(&device, "nonsense").expect("it can be written");
    let (text, code) = said(&parts);
    assert!(code == Some(2) && text.contains("start this replica with an empty"), "{text}");
    assert!(!text.contains("restore it from a copy"), "{text}");
}

#[test]
fn a_protocol_that_has_not_proved_itself_is_announced_as_such() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).expect("the repository has one");
    for row in readme.lines().filter(|line| line.starts_with("| [`")) {
        let name = row.split('`').nth(1).expect("a name");
        let whole = pentarchy_core::membership::PillarConfig::default();
        let warned = pentarchy::protocols::warning(name, whole).is_some();
        assert_eq!(warned, row.contains("**young**"), "{name}");
    }
    let parent = tempfile::tempdir().expect("a folder");
    let init = |protocol: &str| {
        let out = parent.path().join(protocol);
        let hosts = "a:7000,b:7000,c:7000";
        command(&["init", "--protocol", protocol, "--hosts", hosts, "--out", text(&out)]).0
    };
    let young = EXAMPLES.split.rules.name;
    assert!(init(young).contains(&format!("warning: {young} is young")));
    assert!(!init(DEFAULT.rules.name).contains("young"));
}

#[test]
fn a_number_of_pillars_is_refused_as_it_was_written() {
    let parts = crate::hosts::Parts::init();
    let path = parts.file("cluster.toml");
    let config = std::fs::read_to_string(&path).expect("it was made");
    let config = config.lines().filter(|line| !line.starts_with("pillars"));
    let config: String = config.map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, format!("pillars = 9223372036854775807\n{config}")).expect("ours");
    let (said, code) = command(&["status", "--config", text(&path)]);
    assert!(code == Some(2) && said.contains("9223372036854775807 pillars; 1 to"), "{said}");
}

/// Starts a client that has one more key set, of a group that cannot.
fn ask_in_vain(cluster: &Cluster) -> Child {
    let port = cluster.port.to_string();
    let arguments = ["-p", &port, "SET", "last", "one"];
    let spawned = Command::new("redis-cli").args(arguments).stdout(Stdio::null()).spawn();
    spawned.expect("redis-cli starts")
}

/// Two of four replicas are too few to decide anything, and they execute nevertheless.
#[test]
fn a_backup_of_a_stopped_folder_says_what_its_replica_only_speculated() {
    let cluster =
        Cluster::up(&["--protocol", EXAMPLES.speculative.rules.name, "--durability", "sync"]);
    set_keys(&cluster, 10);
    let progress = |id: usize, name: &str| cluster.status().0["replicas"][id][name].as_u64();
    let mut decided = 0;
    // Of each, as a client may have its last answer before all have executed its request.
    eventually("all is final at all replicas", || {
        decided = progress(0, "executed").expect("a slot");
        let is_level = |id, name| progress(id, name) == Some(decided);
        (0..4).all(|id| is_level(id, "executed") && is_level(id, "committed"))
    });
    for id in [2, 3] {
        kill(cluster.replica_pid(id));
    }
    let mut asking = ask_in_vain(&cluster);
    eventually("it speculates", || progress(1, "executed") > Some(decided));
    cluster.pids().into_iter().filter(|pid| is_alive(*pid)).for_each(kill);
    // The connection is gone.
    asking.wait().expect("it ends");
    let parent = tempfile::tempdir().expect("a folder");
    let backup = parent.path().join("backup");
    let (saved, code) = save(&data(&cluster, 1), &backup, &[]);
    assert_eq!((code, &saved["has"]), (Some(0), &"speculated".into()), "{saved}");
    assert!(saved["decided"].as_u64() >= Some(decided), "{saved}");
    assert!(saved["slot"].as_u64() > saved["decided"].as_u64(), "{saved}");
    assert_eq!(Restored::from(&backup).keys(10), 10);
}

/// The primary is gone, and so many others that no new view opens. Whoever left the old view knows
/// nothing of what it had executed in it but the last checkpoint.
#[test]
fn a_backup_of_a_replica_that_left_its_view_is_its_last_checkpoint() {
    let cluster =
        Cluster::up(&["--protocol", EXAMPLES.speculative.rules.name, "--durability", "sync"]);
    set_keys(&cluster, 100);
    let ids = [0, 3];
    ids.into_iter().for_each(|id| kill(cluster.replica_pid(id)));
    let mut asking = ask_in_vain(&cluster);
    eventually("it leaves its view", || {
        cluster.status().0["replicas"][1]["phase"].as_str() != Some("normal")
    });
    cluster.pids().into_iter().filter(|pid| is_alive(*pid)).for_each(kill);
    asking.wait().expect("it ends");
    let parent = tempfile::tempdir().expect("a folder");
    let backup = parent.path().join("backup");
    let from = data(&cluster, 1);
    let (said, code) =
        command(&["snapshot", "save", "--data", text(&from), "--out", text(&backup)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("had left its view") && said.contains("is MISSING"), "{said}");
}
