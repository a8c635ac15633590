//! What the system has no more of: disk space and file descriptors.

use crate::hosts::Parts;
use crate::netns::SKIP;
use crate::resp::Connection;
use crate::support::{cluster_ports, eventually, free_port, port_arguments, run, stdout, text};
use pentarchy::config::ClusterConfig;
use pentarchy::{KeyPair, node};
use std::fs::{File, OpenOptions};
use std::net::TcpStream;
use std::process::{Command, Output};

/// A device whose disk is full.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").expect("this system has /dev/full")
}

/// The command under a limit of open files that it cannot raise.
fn with_files(limit: u32, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.env_remove("PENTARCHY_LOG").env("NO_COLOR", "1");
    limited
}

fn listening(port: u16) -> Connection {
    eventually("the gateway listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    Connection::open(port)
}

#[test]
fn a_log_on_a_full_disk_stops_nobody_and_lost_output_is_an_error() {
    let mut parts = Parts::init();
    for id in 0..3 {
        let mut replica = parts.replica(id);
        replica.env("PENTARCHY_LOG", "debug").stdout(full()).stderr(full());
        parts.spawn(replica);
    }
    let port = free_port();
    let mut gateway = parts.gateway(port);
    gateway.env("PENTARCHY_LOG", "debug").stdout(full()).stderr(full());
    parts.spawn(gateway);
    let mut connection = listening(port);
    assert_eq!(connection.call(&["SET", "key", "value"]).as_deref(), Some("+OK"));
    let (config, key) = (parts.file("cluster.toml"), parts.file("client.key"));
    let status = ["status", "--json", "--config", text(&config), "--key", text(&key)];
    eventually("all replicas are level", || run(&status).status.success());
    let lost = crate::support::pentarchy(&status).stdout(full()).output().expect("it starts");
    let said = String::from_utf8_lossy(&lost.stderr);
    assert_eq!(lost.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot write to standard output"), "{said}");
}

#[test]
fn a_replica_without_descriptors_serves_on_and_lets_peers_and_clients_in() {
    let mut parts = Parts::init_with(&["--open"]);
    let log = parts.parent.path().join("replica-0.log");
    let mut replica = with_files(24, &parts.replica(0));
    replica.stderr(File::create(&log).expect("a new file"));
    parts.spawn(replica);
    let config = ClusterConfig::load(&parts.file("cluster.toml")).expect("it was made");
    let address = config.replicas[0].address.clone();
    eventually("it listens", || TcpStream::connect(&address).is_ok());
    let connect = || node::connect(&config, KeyPair::generate()).expect("a client starts");
    let clients: Vec<_> = (0..8).map(|_| connect()).collect();
    let silent: Vec<_> = (0..60).map(|_| TcpStream::connect(&address)).collect();
    // Its peers and the gateway come when strangers hold all that is left.
    parts.start_replica(1);
    parts.start_replica(2);
    let port = free_port();
    parts.spawn(parts.gateway(port));
    let mut connection = listening(port);
    for number in 1..=20 {
        let reply = connection.call(&["INCR", "count"]);
        assert_eq!(reply, Some(format!(":{number}")));
    }
    let key = parts.file("client.key");
    eventually("it is level", || parts.status(&key).1 == Some(0));
    let (config, key) = (parts.file("cluster.toml"), text(&key));
    let status = run(&["status", "--json", "--config", text(&config), "--key", key]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    let failed = &status["replicas"][0]["counters"]["accepts_failed"];
    assert!(failed.as_u64() > Some(0), "{status}");
    drop((clients, silent));
    let log = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(log.matches("cannot accept connections").count(), 1, "{log}");
}

#[test]
fn a_gateway_without_descriptors_serves_whom_it_has_and_others_later() {
    let mut parts = Parts::init();
    (0..3).for_each(|id| parts.start_replica(id));
    let port = free_port();
    let log = parts.parent.path().join("gateway.log");
    let mut gateway = with_files(24, &parts.gateway(port));
    gateway.stderr(File::create(&log).expect("a new file"));
    parts.spawn(gateway);
    let mut first = listening(port);
    assert_eq!(first.call(&["SET", "key", "value"]).as_deref(), Some("+OK"));
    let crowd: Vec<_> = (0..60).map(|_| TcpStream::connect(("127.0.0.1", port))).collect();
    let warnings = || {
        let log = std::fs::read_to_string(&log).expect("a log");
        log.matches("cannot accept connections").count()
    };
    eventually("it runs out of descriptors", || warnings() == 1);
    assert_eq!(first.call(&["GET", "key"]).as_deref(), Some("value"));
    drop(crowd);
    let mut other = Connection::open(port);
    assert_eq!(other.call(&["GET", "key"]).as_deref(), Some("value"));
    assert_eq!(warnings(), 1, "it is said once");
}

/// Runs a script in which `$small` is a folder with a disk of its own, of this many pages of 4 KiB
/// and this many files. Needs root, for the disk.
fn on_small_disk(pages: usize, files: usize, script: &str) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kib = 4 * pages;
    let mount = format!("mount -t tmpfs -o size={kib}k,nr_inodes={files} none \"$small\"");
    let script = format!("{mount} || exit 99\n{script}");
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", &script]).env("small", folder.path());
    shell.env("pentarchy", env!("CARGO_BIN_EXE_pentarchy")).env_remove("PENTARCHY_LOG");
    let output = shell.output().unwrap_or_else(|error| {
        panic!("MISSING HERE: unshare, of Debian's util-linux ({error}); {SKIP}=1 skips this")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() != Some(99) && !said.contains("unshare failed"),
        "MISSING HERE: the right to mount a small disk (root); {SKIP}=1 skips this. {said}"
    );
    output
}

fn skipped() -> bool {
    let skipped = std::env::var_os(SKIP).is_some();
    if skipped {
        eprintln!("SKIPPED: {SKIP} is set; small disks are not tested");
    }
    skipped
}

/// What makes a group of three, but for the name of its folder.
fn init() -> String {
    let hosts = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
    format!("init --hosts {} --out", hosts.join(","))
}

#[test]
fn init_on_a_disk_that_is_too_small_leaves_nothing() {
    if skipped() {
        return;
    }
    let (mut failed, init) = (0, init());
    for pages in 0..24 {
        // Pages first, then names: either may run out, at every file.
        for (pages, files) in [(pages + 1, 100), (100, pages + 2)] {
            let script = format!(
                "\"$pentarchy\" {init} \"$small/out\"; code=$?; ls -A \"$small\"; exit $code"
            );
            let output = on_small_disk(pages, files, &script);
            let (said, left) = (String::from_utf8_lossy(&output.stderr), stdout(&output));
            if output.status.success() {
                assert!(left.contains("out"), "{left}");
                continue;
            }
            failed += 1;
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains("out") && said.contains("No space left"), "{said}");
            assert_eq!((said.lines().count(), left.as_str()), (1, ""), "{said}");
        }
    }
    assert!(failed > 20 && failed < 48, "{failed}");
}

#[test]
fn a_device_that_cannot_be_marked_as_used_is_not_used() {
    if skipped() {
        return;
    }
    let init = init();
    // Names for what init makes, and none for the mark.
    let script = format!(
        "cd \"$small\" && \"$pentarchy\" {init} out > /dev/null && cd out && \
         i=0 && while touch fill-$i 2> /dev/null; do i=$((i + 1)); done; \
         start() {{ timeout 5 \"$pentarchy\" replica --config cluster.toml --id 0 \
         --keys replica-0 --durability memory; }}; \
         start; echo \"first $?\"; ls replica-0; rm fill-*; start; echo \"second $?\"; ls replica-0"
    );
    let output = on_small_disk(1000, 40, &script);
    let (said, did) = (String::from_utf8_lossy(&output.stderr), stdout(&output));
    let kept = "first 2\ndevice\ngroup-secret\nkey\nsigning\n";
    assert!(did.starts_with(kept), "{did}{said}");
    assert!(said.contains("device.used: No space left"), "{said}");
    assert!(said.contains("must lie in a directory that this process may write"), "{said}");
    // 124 is the end of its time: it ran.
    assert!(did.ends_with("second 124\ndevice.used\ngroup-secret\nkey\nsigning\n"), "{did}{said}");
}

#[test]
fn up_on_a_full_disk_says_so_and_works_once_there_is_room() {
    if skipped() {
        return;
    }
    let ports = cluster_ports();
    let up = port_arguments(&ports).join(" ");
    let script = format!(
        "\"$pentarchy\" up --detach {up} --data \"$small/data\"; echo \"first $?\"; \
         mount -o remount,size=1m \"$small\"; \
         \"$pentarchy\" up --detach {up} --data \"$small/data\"; echo \"second $?\"; \
         \"$pentarchy\" down --data \"$small/data\""
    );
    let output = on_small_disk(6, 100, &script);
    let (said, did) = (String::from_utf8_lossy(&output.stderr), stdout(&output));
    assert!(did.starts_with("first 2\n"), "{did}{said}");
    assert!(said.contains("No space left"), "{said}");
    assert!(did.contains("second 0\n") && did.contains("Stopped 3 replicas"), "{did}{said}");
}
