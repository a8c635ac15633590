//! What other clients notice while one floods the group. The test measures, and asserts only that
//! the replicas serve all of them.
//! `docs/several-hosts.md` links here. Run it alone, on a machine that does nothing else:
//!
//! ```console
//! PENTARCHY_TEST_FLOOD=1 cargo test --release -p pentarchy --test it -- --nocapture flood
//! ```

use crate::support::{Cluster, stderr, stdout, tool};
use pentarchy::KeyPair;
use pentarchy::config::ClusterConfig;
use pentarchy_core::ids::Node;
use pentarchy_core::wire::Wire as _;
use pentarchy_crypto::keys::channel_public;
use pentarchy_io::channel::{Channel, Identity};
use pentarchy_io::hello::Hello;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Set to measure.
const WANTED: &str = "PENTARCHY_TEST_FLOOD";

/// Connections of the flood.
const FLOOD: usize = 10_000;

/// What a gateway takes, less those of the measurement.
const GATEWAY: usize = 9_900;

/// How an attacker spends its time; gives the number of attempts.
struct Attack<'a> {
    stop: &'a AtomicBool,
    attempts: AtomicU64,
}

impl Attack<'_> {
    fn goes_on(&self) -> bool {
        self.attempts.fetch_add(1, Relaxed);
        !self.stop.load(Relaxed)
    }

    /// Connects as fast as it can and says nothing; has this many connections at a time.
    fn silent(&self, address: &str, held: usize) {
        let address = address.parse().expect("an address");
        let mut connections = VecDeque::new();
        while self.goes_on() {
            // Does not wait until the other side has taken it.
            if let Ok(stream) = pentarchy_io::poll::TcpStream::connect(address) {
                connections.push_back(stream);
            }
            if connections.len() > held {
                connections.pop_front();
            }
        }
    }

    /// Holds this many connections and says nothing.
    fn hold(&self, address: &str, held: usize) {
        let connections: Vec<_> = (0..held).map(|_| TcpStream::connect(address)).collect();
        self.attempts.store(connections.iter().flatten().count() as u64, Relaxed);
        while !self.stop.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends what is no protocol, on a new connection whenever it is hung up on.
    fn garbage(&self, address: &str) {
        let garbage: Vec<u8> = (0..1u32 << 16).map(|byte| ((byte * 193) >> 3) as u8).collect();
        while self.goes_on() {
            let Ok(mut stream) = TcpStream::connect(address) else { continue };
            while !self.stop.load(Relaxed) && stream.write_all(&garbage).is_ok() {}
        }
    }

    /// Shakes hands as a client and sends what no client says.
    fn nonsense(&self, config: &ClusterConfig, replica: usize) {
        while self.goes_on() {
            // It is hung up on, sooner or later.
            let _ = self.nonsense_once(config, replica);
        }
    }

    fn nonsense_once(&self, config: &ClusterConfig, replica: usize) -> std::io::Result<()> {
        let keys = KeyPair::generate();
        let identity = Identity::new(*keys.channel_secret(), &config.membership().group_domain());
        let entry = &config.replicas[replica];
        let remote = channel_public(&entry.key).expect("a key");
        let (mut out, mut buffer) = (Vec::new(), [0; 1024]);
        let mut channel = Channel::initiator(&identity, &remote, 1 << 20, &mut out).expect("keys");
        let mut stream = TcpStream::connect(&entry.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(&out)?;
        while !channel.is_open() {
            let count = stream.read(&mut buffer)?;
            let read = channel.read(&buffer[..count], &mut Vec::new(), &mut Vec::new());
            if count == 0 || read.is_err() {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        out.clear();
        for message in
            [Hello::Node(Node::Client(keys.client_id())).to_bytes(), vec![9; 1000].into()]
        {
            let plain = [&(message.len() as u32).to_le_bytes()[..], &message].concat();
            channel.write(&plain, &mut out).expect("it is open");
        }
        stream.write_all(&out)?;
        while stream.read(&mut buffer)? > 0 {}
        Ok(())
    }
}

/// SETs of 50 clients, one at a time each: requests per second, and milliseconds at the median and
/// at the 99th of a hundred.
fn measure(cluster: &Cluster) -> String {
    let port = cluster.port.to_string();
    let load = ["-t", "set", "-n", "50000", "-c", "50", "--csv"];
    let output = tool("redis-benchmark", &[&["-p", &port], &load[..]].concat());
    let said = stdout(&output);
    assert!(output.status.success(), "{said}{}", stderr(&output));
    let line = said.lines().find(|line| line.starts_with("\"SET\"")).expect("a line");
    let fields: Vec<&str> = line.split(',').map(|field| field.trim_matches('"')).collect();
    format!("{:>9} requests/s, p50 {} ms, p99 {} ms", fields[1], fields[4], fields[6])
}

fn under(cluster: &Cluster, what: &str, attack: impl Fn(&Attack<'_>) + Sync) {
    let stop = AtomicBool::new(false);
    let state = Attack { stop: &stop, attempts: AtomicU64::new(0) };
    let during = std::thread::scope(|scope| {
        let attacker = scope.spawn(|| attack(&state));
        std::thread::sleep(Duration::from_secs(1));
        let during = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| measure(cluster)));
        assert!(!attacker.is_finished(), "the attack ended too early");
        stop.store(true, Relaxed);
        during
    });
    let during = during.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    eprintln!("{what}, {} attempts", state.attempts.load(Relaxed));
    eprintln!("  during {during}\n  after  {}", measure(cluster));
}

#[test]
fn flood() {
    if std::env::var_os(WANTED).is_none() {
        eprintln!("SKIPPED: measures for a minute on a quiet machine; set {WANTED}=1");
        return;
    }
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("allowed");
    let cluster = Cluster::up(&[]);
    let config = ClusterConfig::load(&cluster.data.join("cluster.toml")).expect("it was made");
    let (status, _) = cluster.status();
    let primary = status["replicas"][0]["primary"].as_u64().expect("a primary") as usize;
    let replica = config.replicas[primary].address.clone();
    let gateway = format!("127.0.0.1:{}", cluster.port);
    eprintln!("before   {}", measure(&cluster));
    eprintln!("again    {}", measure(&cluster));
    under(&cluster, "silent connections to the primary as fast as possible", |attack| {
        attack.silent(&replica, FLOOD);
    });
    under(&cluster, "garbage to the primary", |attack| attack.garbage(&replica));
    under(&cluster, "handshakes and nonsense to the primary", |attack| {
        attack.nonsense(&config, primary);
    });
    under(&cluster, "silent connections to the gateway, held", |attack| {
        attack.hold(&gateway, GATEWAY);
    });
    under(&cluster, "garbage to the gateway", |attack| attack.garbage(&gateway));
    let (status, _) = cluster.status();
    for replica in status["replicas"].as_array().expect("a list") {
        eprintln!("view changes {}, {}", replica["view_changes"], replica["counters"]);
    }
}
