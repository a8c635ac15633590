//! A cluster over several hosts, as `init` makes it, with all hosts on this machine.

use crate::resp::Connection;
use crate::support::{end, eventually, free_port, pentarchy, run, stderr, stdout, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Processes that end with the test.
pub struct Parts {
    pub parent: TempDir,
    pub children: Vec<Child>,
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.children.iter_mut().for_each(end);
    }
}

impl Parts {
    /// Makes the files of a group that admits only the clients it was made with.
    pub fn init() -> Self {
        Self::init_with(&[])
    }

    /// With further options.
    pub fn init_with(options: &[&str]) -> Self {
        Self::init_on(3, options)
    }

    /// The same on so many hosts.
    pub fn init_on(count: usize, options: &[&str]) -> Self {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let hosts = std::iter::repeat_with(|| format!("localhost:{}", free_port()));
        let hosts = hosts.take(count).collect::<Vec<_>>().join(",");
        let out = parent.path().join("cluster");
        let init = ["init", "--hosts", &hosts, "--out", text(&out)];
        let output = run(&[&init, options].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        Self { parent, children: Vec::new() }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.parent.path().join("cluster").join(name)
    }

    pub fn start(&mut self, arguments: &[&str]) {
        self.spawn(pentarchy(arguments));
    }

    /// Starts something that ends with the test.
    pub fn spawn(&mut self, mut command: Command) {
        self.children.push(command.stdin(Stdio::null()).spawn().expect("it starts"));
    }

    pub fn start_replica(&mut self, id: usize) {
        self.spawn(self.replica(id));
    }

    /// What starts a replica.
    pub fn replica(&self, id: usize) -> Command {
        let (config, keys) = (self.file("cluster.toml"), self.file(&format!("replica-{id}")));
        let id = id.to_string();
        pentarchy(&["replica", "--config", text(&config), "--id", &id, "--keys", text(&keys)])
    }

    /// What starts the gateway on a port.
    pub fn gateway(&self, port: u16) -> Command {
        let (config, key) = (self.file("cluster.toml"), self.file("gateway-1.key"));
        let listen = format!("127.0.0.1:{port}");
        let files = ["--config", text(&config), "--key", text(&key)];
        pentarchy(&[&["gateway"], &files[..], &["--listen", &listen]].concat())
    }

    /// The keys of a machine that is to become a member, with its card.
    pub fn prepare(&self, name: &str) -> PathBuf {
        let (config, keys) = (self.file("cluster.toml"), self.file(name));
        let address = format!("127.0.0.1:{}", free_port());
        let place = ["members", "prepare", "--address", &address];
        let prepared =
            run(&[&place[..], &["--config", text(&config), "--out", text(&keys)]].concat());
        assert!(prepared.status.success(), "{}", stderr(&prepared));
        assert_eq!(stdout(&prepared), std::fs::read_to_string(keys.join("card")).unwrap());
        keys
    }

    /// `status --json`, as the client with which the group was made.
    pub fn report(&self) -> Value {
        let (config, key) = (self.file("cluster.toml"), self.file("client.key"));
        let output = run(&["status", "--json", "--config", text(&config), "--key", text(&key)]);
        serde_json::from_slice(&output.stdout).expect("a status")
    }

    pub fn status(&self, key: &Path) -> (String, Option<i32>) {
        let config = self.file("cluster.toml");
        let output = run(&["status", "--config", text(&config), "--key", text(key)]);
        (stdout(&output) + &stderr(&output), output.status.code())
    }
}

#[test]
fn what_init_made_runs_admits_its_clients_and_takes_back_who_comes_again() {
    let mut parts = Parts::init_with(&["--durability", "memory"]);
    for id in 0..3 {
        parts.start_replica(id);
    }
    let (config, key) = (parts.file("cluster.toml"), parts.file("gateway-1.key"));
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let gateway = ["gateway", "--config", text(&config), "--key", text(&key), "--listen", &listen];
    parts.start(&gateway);
    eventually("the gateway listens", || std::net::TcpStream::connect(&listen).is_ok());
    let mut connection = Connection::open(port);
    assert_eq!(connection.call(&["SET", "key", "value"]).as_deref(), Some("+OK"));
    assert_eq!(connection.call(&["GET", "key"]).as_deref(), Some("value"));

    let client = parts.file("client.key");
    eventually("all replicas are level", || parts.status(&client).1 == Some(0));
    let stranger = run(&["status", "--config", text(&config)]);
    assert_eq!(stranger.status.code(), Some(2), "{}", stdout(&stranger));
    assert!(stderr(&stranger).contains("listed clients only"), "{}", stderr(&stranger));

    let mut second = parts.children.remove(2);
    second.kill().expect("it runs");
    second.wait().expect("it ends");
    let keys = parts.file("replica-2");
    assert!(keys.join("device.used").exists());
    assert!(parts.status(&client).0.contains("unreachable"));
    // It has lost its memory; the group lets it in with a device that begins a new incarnation.
    parts.start_replica(2);
    eventually("all replicas have caught up", || parts.status(&client).1 == Some(0));
    assert_eq!(connection.call(&["GET", "key"]).as_deref(), Some("value"));
}

#[test]
fn a_replica_that_cannot_start_keeps_its_only_life() {
    let mut parts = Parts::init_with(&["--request-auth", "session"]);
    let (config, keys) = (parts.file("cluster.toml"), parts.file("replica-0"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    let common = ["replica", "--config", text(&config), "--keys", text(&keys)];
    let cases: [(&[&str], &str); 3] = [
        (&["--id", "0", "--listen", &taken], "name another with --listen"),
        (&["--id", "7"], "replicas 0 to 2, and no replica 7"),
        (&["--id", "1"], "not the one of r1"),
    ];
    for (arguments, message) in cases {
        let output = run(&[&common, arguments].concat());
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        assert!(said.contains(message) && said.lines().count() == 1, "{said}");
    }
    // Names that lead nowhere, or not yet; the reserved name never does.
    let good = std::fs::read_to_string(&config).expect("it was made");
    let unknown = good.replacen("address = \"localhost:", "address = \"nowhere.invalid:", 3);
    // The public key of other devices than these: clients would agree with them on other keys.
    let session = good.lines().find(|line| line.starts_with("session_key = ")).expect("a key");
    let foreign = good.replace(session, &format!("session_key = \"{}\"", "09".repeat(32)));
    let cases = [
        (unknown, "cannot resolve nowhere.invalid"),
        (foreign, "session_key of the configuration is not that of this replica's trusted device"),
    ];
    for (text, message) in cases {
        assert_ne!(text, good);
        std::fs::write(&config, text).expect("it can be changed");
        let output = run(&[&common[..], &["--id", "0"]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
    std::fs::write(&config, good).expect("it can be changed");
    parts.start_replica(0);
    let client = parts.file("client.key");
    eventually("it runs", || parts.status(&client).0.matches("unreachable").count() == 2);
}
