//! Running the real binary, and the tools of Redis against it.

use pentarchy_io::ports::{OF_TESTS, Taken};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than anything here takes on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The binary under test, with its environment made plain.
pub fn pentarchy(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pentarchy"));
    command.args(arguments).env_remove("PENTARCHY_LOG").env("NO_COLOR", "1");
    command
}

/// Runs the binary to its end.
pub fn run(arguments: &[&str]) -> Output {
    pentarchy(arguments).output().expect("the binary starts")
}

/// What a run printed on stdout.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a run printed on stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// Kills a process, and waits until it has ended.
pub fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A port that is this process's, and that it gives to nobody else.
pub fn free_port() -> u16 {
    OF_TESTS.take(1).expect("a free port").for_good()
}

/// Ports for a cluster: two for its gateway, two for each of at most 11 replicas, and one.
pub fn cluster_ports() -> Taken {
    OF_TESTS.take(2 + 2 * 11 + 1).expect("free ports")
}

/// What tells `up` to use these ports. The gateway takes the second one if somebody has the first.
pub fn port_arguments(ports: &Taken) -> [String; 2] {
    let first = ports.numbers().start;
    [format!("--port={first}"), format!("--replica-ports={}", first + 2)]
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A cluster that `up --detach` started; stopped when it goes out of scope.
pub struct Cluster {
    _parent: TempDir,
    /// See [`cluster_ports`].
    pub ports: Taken,
    /// Its data folder.
    pub data: PathBuf,
    /// Where the gateway listens.
    pub port: u16,
    /// `cluster.json` as it was after the start.
    pub running: Value,
    /// What `up` printed.
    pub printed: String,
    /// What it said on stderr.
    pub warned: String,
}

impl Cluster {
    /// Starts one.
    pub fn up(arguments: &[&str]) -> Self {
        Self::up_on(cluster_ports(), arguments)
    }

    /// Starts one on these ports.
    pub fn up_on(ports: Taken, arguments: &[&str]) -> Self {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let data = parent.path().join("data");
        let [port, replicas] = port_arguments(&ports);
        let common = ["up", "--detach", &port, &replicas, "--data", text(&data)];
        let output = run(&[&common, arguments].concat());
        assert!(output.status.success(), "{}{}", stderr(&output), logs(&data));
        let running = running(&data);
        let address = running["gateway"]["address"].as_str().expect("an address");
        let port = address.rsplit_once(':').expect("a port").1.parse().expect("a port");
        let (printed, warned) = (stdout(&output), stderr(&output));
        Self { _parent: parent, ports, data, port, running, printed, warned }
    }

    /// Every process of the cluster, the supervisor first.
    pub fn pids(&self) -> Vec<u32> {
        pids(&self.running)
    }

    /// The process id of a replica.
    pub fn replica_pid(&self, id: usize) -> u32 {
        self.running["replicas"][id]["pid"].as_u64().expect("a pid") as u32
    }

    /// What `redis-cli` prints for a command.
    pub fn redis_cli(&self, command: &[&str]) -> String {
        let port = self.port.to_string();
        let output = tool("redis-cli", &[&["-p", &port], command].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).trim_end().to_owned()
    }

    /// `status --json` and its exit code.
    pub fn status(&self) -> (Value, Option<i32>) {
        let output = run(&["status", "--json", "--data", text(&self.data)]);
        let json = serde_json::from_slice(&output.stdout);
        let json = json.unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
        (json, output.status.code())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = run(&["down", "--data", text(&self.data)]);
        if std::thread::panicking() {
            eprintln!("{}", logs(&self.data));
        }
    }
}

/// The contents of `cluster.json`.
pub fn running(data: &Path) -> Value {
    let text = std::fs::read(data.join("cluster.json")).expect("the cluster announces itself");
    serde_json::from_slice(&text).expect("JSON")
}

/// Every process in a `cluster.json`, the supervisor first.
pub fn pids(running: &Value) -> Vec<u32> {
    let replicas = running["replicas"].as_array().expect("a list").iter();
    let parts = replicas.chain([&running["gateway"]]).map(|part| &part["pid"]);
    [&running["supervisor"]]
        .into_iter()
        .chain(parts)
        .map(|pid| pid.as_u64().unwrap() as u32)
        .collect()
}

/// Runs one of the tools that come with Redis.
pub fn tool(name: &str, arguments: &[&str]) -> Output {
    Command::new(name)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("MISSING HERE: {name}, of Debian's redis-tools ({error})"))
}

/// Sends a signal to a process that this test started.
pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a pid");
    kill_process(pid, signal).expect("the process is there");
}

/// Whether a process runs; a dead one that nobody has waited for does not.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// The logs of a cluster, for failed tests.
fn logs(data: &Path) -> String {
    let mut text = String::new();
    let replicas = (0..3).map(|id| data.join(format!("replica-{id}/replica.log")));
    for path in replicas.chain([data.join("gateway.log"), data.join("up.log")]) {
        let log = std::fs::read_to_string(&path).unwrap_or_default();
        let end = log.char_indices().rev().nth(2000).map_or(0, |(index, _)| index);
        text = format!("{text}\n== {}\n{}", path.display(), &log[end..]);
    }
    text
}

/// The processes that a process has started and that still run.
pub fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("a list of processes").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_alive(*pid) && parent_of(*pid) == Some(parent)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}
