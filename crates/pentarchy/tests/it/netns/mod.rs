//! Network namespaces that play hosts. Each has one cable to a router, in a namespace of its own,
//! whose packet filter plays what goes wrong between them. Nothing is changed outside of these
//! namespaces, and all of it goes when the [`Lab`] does.

mod afternoon;
mod scenarios;

use crate::support::pentarchy;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Set to skip the tests that need network namespaces.
pub const SKIP: &str = "PENTARCHY_TEST_WITHOUT_NETNS";

/// What the names of all namespaces begin with; the process id follows.
const PREFIX: &str = "pentarchy-it-";

/// One laboratory at a time: what is measured in one must not wait for another.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Hosts, their router, and the processes on them.
pub struct Lab {
    hosts: usize,
    children: Vec<Option<Child>>,
    _turn: MutexGuard<'static, ()>,
}

impl Lab {
    /// So many hosts; host `k` has the address [`Self::ip`]. `None`, with a word on stderr, if the
    /// environment says to skip this.
    pub fn new(hosts: usize) -> Option<Self> {
        if std::env::var_os(SKIP).is_some() {
            eprintln!("SKIPPED: {SKIP} is set; several hosts are not tested");
            return None;
        }
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        remove_stale();
        // From here on whatever was made is removed again, also by a panic.
        let lab = Self { hosts, children: Vec::new(), _turn: turn };
        needed("ip", &["netns", "add", &name("router")]);
        needed("ip", &["-n", &name("router"), "link", "set", "lo", "up"]);
        for host in 0..hosts {
            lab.cable(host);
        }
        within(&name("router"), "sysctl", &["-q", "-w", "net.ipv4.ip_forward=1"]);
        lab.filter(&[]);
        Some(lab)
    }

    /// The address of a host.
    pub fn ip(host: usize) -> String {
        format!("10.77.{host}.2")
    }

    /// A host on a network of its own, of which the router is the gateway.
    fn cable(&self, host: usize) {
        let (own, router, port) = (name(host), name("router"), port(host));
        needed("ip", &["netns", "add", &own]);
        let (address, gateway) = (format!("{}/24", Self::ip(host)), format!("10.77.{host}.1"));
        let peer = ["peer", "name", &port, "netns", &router];
        needed(
            "ip",
            &[&["link", "add", "eth0", "netns", &own, "type", "veth"][..], &peer].concat(),
        );
        needed("ip", &["-n", &own, "link", "set", "lo", "up"]);
        needed("ip", &["-n", &own, "addr", "add", &address, "dev", "eth0"]);
        needed("ip", &["-n", &own, "link", "set", "eth0", "up"]);
        let there = format!("{gateway}/24");
        needed("ip", &["-n", &router, "addr", "add", &there, "dev", &port]);
        needed("ip", &["-n", &router, "link", "set", &port, "up"]);
        needed("ip", &["-n", &own, "route", "add", "default", "via", &gateway]);
    }

    /// Replaces what the router does with packets. Each rule is one of nftables; a packet from host
    /// 2 to host 0 has `iifname "p2" oifname "p0"`. No rules: the network is well.
    pub fn filter(&self, rules: &[String]) {
        let rules = rules.join("\n");
        let text = format!(
            "table inet faults\ndelete table inet faults\ntable inet faults {{\n\
             chain forward {{ type filter hook forward priority 0; }}\n\
             chain forward {{\n{rules}\n}}\n}}\n"
        );
        let mut nft = Command::new("ip");
        nft.args(["netns", "exec", &name("router"), "nft", "-f", "-"]).stdin(Stdio::piped());
        let mut nft = nft.stderr(Stdio::piped()).spawn().expect("ip ran before");
        // If it is not there, nobody reads, and it is said below.
        let _ = nft.stdin.take().expect("a pipe").write_all(text.as_bytes());
        demand("nft (nftables)", &nft.wait_with_output().expect("it ends"));
    }

    /// Rules that cut a host off, both ways.
    pub fn cut_off(host: usize) -> Vec<String> {
        let port = port(host);
        vec![format!("iifname \"{port}\" drop"), format!("oifname \"{port}\" drop")]
    }

    /// A rule that lets a host send and hear nothing.
    pub fn deafen(host: usize) -> Vec<String> {
        vec![format!("oifname \"{}\" drop", port(host))]
    }

    /// A rule that lets a host hear and nobody hear it.
    pub fn silence(host: usize) -> Vec<String> {
        vec![format!("iifname \"{}\" drop", port(host))]
    }

    /// A rule that drops so many packets of a hundred, whoever sends them.
    pub fn lossy(percent: u8) -> Vec<String> {
        vec![format!("numgen random mod 100 < {percent} drop")]
    }

    /// A rule that drops so many packets of a hundred that this host sends or is sent.
    pub fn lossy_to(host: usize, percent: u8) -> Vec<String> {
        let port = port(host);
        let lost = format!("numgen random mod 100 < {percent} drop");
        vec![format!("iifname \"{port}\" {lost}"), format!("oifname \"{port}\" {lost}")]
    }

    /// Delays what reaches each host, where this kernel can; says whether it can.
    pub fn delay(&self, millis: u32) -> bool {
        let delay = format!("{millis}ms");
        (0..self.hosts).all(|host| {
            let (router, port) = (name("router"), port(host));
            let add = ["-n", &router, "qdisc", "replace", "dev", &port, "root", "netem", "delay"];
            let tried = Command::new("tc").args(add).arg(&delay).output();
            tried.is_ok_and(|output| output.status.success())
        })
    }

    /// Undoes [`Self::delay`].
    pub fn undelay(&self) {
        for host in 0..self.hosts {
            let (router, port) = (name("router"), port(host));
            let delete = ["-n", &router, "qdisc", "del", "dev", &port, "root"];
            // Fails where there is nothing to undo.
            let _ = Command::new("tc").args(delete).output();
        }
    }

    /// Pulls a host's cable: it and the router see that the link is gone, nobody else does.
    pub fn unplug(host: usize) {
        needed("ip", &["-n", &name("router"), "link", "set", &port(host), "down"]);
    }

    /// Undoes [`Self::unplug`].
    pub fn plug(host: usize) {
        needed("ip", &["-n", &name("router"), "link", "set", &port(host), "up"]);
    }

    /// Starts the binary on a host, in a folder; gives the number for [`Self::kill`]. It ends when
    /// this process does, however that ends.
    pub fn start(&mut self, host: usize, folder: &Path, arguments: &[&str]) -> usize {
        let mut command = on(host, arguments);
        command.arg("--leash").current_dir(folder).stdin(Stdio::piped());
        self.children.push(Some(command.spawn().expect("the binary starts")));
        self.children.len() - 1
    }

    /// Kills a process that was started: it closes nothing in order and says good-bye to nobody.
    pub fn kill(&mut self, child: usize) {
        self.kill_all([child]);
    }

    /// The same with several at once, as if their hosts lost power.
    pub fn kill_all(&mut self, children: impl IntoIterator<Item = usize>) {
        let take = |child: usize| self.children[child].take().expect("it was not killed before");
        let mut killed: Vec<Child> = children.into_iter().map(take).collect();
        killed.iter_mut().for_each(|child| child.kill().expect("it runs"));
        for child in &mut killed {
            child.wait().expect("it ends");
        }
    }

    /// Waits until a process that was started ends by itself, and gives how.
    pub fn wait(&mut self, child: usize) -> ExitStatus {
        let mut child = self.children[child].take().expect("it was not killed before");
        child.wait().expect("it ends")
    }

    /// Runs the binary on a host to its end, in a folder.
    pub fn run(host: usize, folder: &Path, arguments: &[&str]) -> Output {
        on(host, arguments).current_dir(folder).output().expect("the binary starts")
    }

    /// Runs another tool on a host to its end.
    pub fn tool(host: usize, tool: &str, arguments: &[&str]) -> Output {
        let namespace = name(host);
        let arguments = [&["netns", "exec", &namespace, tool], arguments].concat();
        let output = Command::new("ip").args(arguments).output().expect("ip ran before");
        demand_tool(&String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Connects from a host.
    pub fn connect(host: usize, to: SocketAddr) -> std::io::Result<TcpStream> {
        // A socket stays in the namespace in which it was made; the thread that made it goes.
        let connect = move || {
            let namespace = File::open(Path::new("/run/netns").join(name(host)))?;
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind)?;
            TcpStream::connect(to)
        };
        std::thread::spawn(connect).join().expect("no panic")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for host in 0..self.hosts {
            remove(&name(host));
        }
        remove(&name("router"));
    }
}

fn name(part: impl std::fmt::Display) -> String {
    format!("{PREFIX}{}-{part}", std::process::id())
}

/// The router's end of a host's cable.
fn port(host: usize) -> String {
    format!("p{host}")
}

/// The binary on a host.
fn on(host: usize, arguments: &[&str]) -> Command {
    let binary = pentarchy(arguments);
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &name(host)]).arg(binary.get_program());
    command.args(binary.get_args());
    for (key, value) in binary.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command
}

/// Runs a tool in a namespace.
fn within(namespace: &str, tool: &str, arguments: &[&str]) {
    needed("ip", &[&["netns", "exec", namespace, tool], arguments].concat());
}

/// Runs a tool that a test cannot do without.
fn needed(tool: &str, arguments: &[&str]) {
    let output = Command::new(tool).args(arguments).output().unwrap_or_else(|error| {
        panic!("MISSING HERE: {tool}, of Debian's iproute2 ({error}); {SKIP}=1 skips this")
    });
    demand(&format!("{tool} {}", arguments.join(" ")), &output);
}

/// A tool that a namespace was to run.
fn demand_tool(said: &str) {
    let is_missing = said.contains("exec of ") && said.contains("No such file");
    assert!(!is_missing, "MISSING HERE: a tool; {SKIP}=1 skips this. {said}");
}

fn demand(what: &str, output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    demand_tool(&said);
    let forbidden = ["Operation not permitted", "Permission denied", "must be root"];
    assert!(
        !forbidden.iter().any(|words| said.contains(words)),
        "MISSING HERE: the right to make network namespaces (root); {SKIP}=1 skips this. {said}"
    );
    assert!(output.status.success(), "{what}: {said}");
}

fn remove(namespace: &str) {
    let _ = Command::new("ip").args(["netns", "del", namespace]).output();
}

/// Removes what killed runs left.
fn remove_stale() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&name);
        }
    }
}
