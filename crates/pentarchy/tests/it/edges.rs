//! Files and ports that are not what they should be: one line that says what to do, and nothing
//! used up.

use crate::hosts::Parts;
use crate::resp::Connection;
use crate::support::{eventually, free_port, run, stderr, text};
use std::fs::{File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

/// Runs to the end, which is exit code 2 and one line with this in it.
fn refused(arguments: &[&str], message: &str) {
    let output = run(arguments);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(said.contains(message) && said.lines().count() == 1, "{message}: {said}");
}

#[test]
fn secrets_that_are_missing_exposed_damaged_or_someone_elses_are_refused() {
    let (ours, theirs) = (Parts::init(), Parts::init());
    let (config, keys) = (ours.file("cluster.toml"), ours.file("replica-0"));
    let replica = ["replica", "--id", "0", "--config", text(&config), "--keys"];
    let start = |folder: &std::path::Path, message: &str| {
        refused(&[&replica[..], &[text(folder)]].concat(), message);
    };
    start(&theirs.file("replica-0"), "not the one of r0");
    start(&ours.file("replica-1"), "not the one of r0");
    start(&ours.file("replica-9"), "key does not exist: create it, or correct the path");
    for name in ["key", "group-secret", "device"] {
        let (path, away) = (keys.join(name), keys.join("away"));
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("ours to change");
        start(&keys, "run `chmod 600 ");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("ours to change");
        std::fs::rename(&path, &away).expect("ours to move");
        let missing = match name {
            "group-secret" => "neither `group-secret` nor what takes its place".to_owned(),
            _ => format!("{name} does not exist"),
        };
        start(&keys, &missing);
        std::fs::copy(&config, &path).expect("ours to write");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("ours to change");
        start(&keys, "file: take the one that was made with the configuration");
        std::fs::rename(&away, &path).expect("ours to move");
    }
    // Made for another group, and without a key that would show it.
    let (device, theirs) = (keys.join("device"), theirs.file("replica-0").join("device"));
    std::fs::rename(&device, keys.join("away")).expect("ours to move");
    std::fs::copy(&theirs, &device).expect("ours to write");
    start(&keys, "use the identity that was made with this membership");
    assert!(!keys.join("device.used").exists(), "nothing was used up");
}

#[test]
fn a_gateway_that_cannot_listen_or_read_its_key_says_so() {
    let parts = Parts::init();
    let (config, key) = (parts.file("cluster.toml"), parts.file("gateway-1.key"));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    let gateway = ["gateway", "--config", text(&config), "--key"];
    let listen = |key: &str, listen: &str, message: &str| {
        refused(&[&gateway[..], &[key, "--listen", listen]].concat(), message);
    };
    listen(text(&key), &taken, &format!("cannot listen on {taken}"));
    listen(text(&key), "0.0.0.0:6379", "beside each application");
    listen(text(&config), "127.0.0.1:0", "is open to others than its owner");
    listen("/nowhere/key", "127.0.0.1:0", "does not exist");
}

#[test]
fn who_is_not_admitted_is_told_so_in_its_log() {
    let (mut ours, theirs) = (Parts::init(), Parts::init());
    (0..3).for_each(|id| ours.start_replica(id));
    let client = ours.file("client.key");
    eventually("all replicas are level", || ours.status(&client).1 == Some(0));
    let cases = [
        (ours.file("cluster.toml"), "does not list this client's key"),
        (theirs.file("cluster.toml"), "is of another cluster"),
    ];
    for (config, message) in cases {
        let toml = std::fs::read_to_string(&config).expect("it was made");
        let addresses = |toml: &str| {
            let lines = toml.lines().filter(|line| line.starts_with("address = "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let good = std::fs::read_to_string(ours.file("cluster.toml")).expect("it was made");
        let pairs: Vec<_> = addresses(&toml).into_iter().zip(addresses(&good)).collect();
        let toml = pairs.iter().fold(toml, |toml, (from, to)| toml.replace(from, to));
        let mixed = ours.parent.path().join("mixed.toml");
        std::fs::write(&mixed, toml).expect("ours to write");
        let log = ours.parent.path().join("gateway.log");
        let (port, key) = (free_port(), theirs.file("gateway-1.key"));
        let listen = format!("127.0.0.1:{port}");
        let files = ["--config", text(&mixed), "--key", text(&key)];
        let mut gateway = crate::support::pentarchy(
            &[&["gateway"], &files[..], &["--listen", &listen, "--timeout", "1"]].concat(),
        );
        gateway.stderr(File::create(&log).expect("a new file"));
        ours.spawn(gateway);
        let said = || std::fs::read_to_string(&log).expect("a log");
        eventually(message, || said().matches(message).count() == 3);
        let mut connection = Connection::open(port);
        let reply = connection.call(&["GET", "key"]).expect("an error");
        assert!(reply.starts_with("-ERR timed out"), "{reply}");
        assert_eq!(said().matches(message).count(), 3, "once for each replica: {}", said());
    }
}
