//! The same commands to the gateway and to a real Redis, where it is installed: equal replies.

use crate::support::{Client, local, show};
use redis_protocol::resp2::types::OwnedFrame;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Redis {
    process: Child,
    address: SocketAddr,
}

impl Redis {
    /// A fresh server; `None`, and a notice, if it is not installed.
    fn start() -> Option<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let port = address.port().to_string();
        let process = Command::new("redis-server")
            .args([
                "--bind",
                "127.0.0.1",
                "--port",
                &port,
                "--save",
                "",
                "--appendonly",
                "no",
                "--databases",
                "1",
            ])
            .args(["--dir", env!("CARGO_TARGET_TMPDIR")])
            .stdout(Stdio::null())
            .spawn();
        let process = match process {
            Ok(process) => process,
            Err(error) => {
                eprintln!("SKIPPED: redis-server cannot be run: {error}");
                return None;
            }
        };
        let redis = Self { process, address };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % sides
    }
    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.roll(from.len())]
    }
}

/// `k` is a key, `v` a value, `n` a number, `p` a pattern, `g` one made up, `w` an option of some
/// command.
const SHAPES: &[&str] = &[
    "SET k v",
    "SET k v",
    "SET k n",
    "SET k v w",
    "SET k v w w",
    "SET k v NX GET",
    "GET k",
    "GET k",
    "SETNX k v",
    "GETSET k v",
    "GETDEL k",
    "APPEND k v",
    "STRLEN k",
    "MSET k v k v",
    "MSET k v k",
    "MSETNX k v k v",
    "MGET k k k",
    "INCR k",
    "DECR k",
    "INCRBY k n",
    "DECRBY k n",
    "GETRANGE k n n",
    "SETRANGE k n v",
    "LPUSH k v",
    "RPUSH k v v v",
    "RPUSH k v v",
    "LPUSHX k v",
    "RPUSHX k v v",
    "LPOP k",
    "RPOP k",
    "LPOP k n",
    "RPOP k n",
    "LPOP k n n",
    "LLEN k",
    "LRANGE k n n",
    "LRANGE k 0 -1",
    "LINDEX k n",
    "LSET k n v",
    "LREM k n v",
    "LTRIM k n n",
    "LINSERT k w v v",
    "LINSERT k BEFORE v v",
    "LINSERT k AFTER v v",
    "RPOPLPUSH k k",
    "LMOVE k k w w",
    "LMOVE k k LEFT RIGHT",
    "LMOVE k k RIGHT RIGHT",
    "DEL k k",
    "UNLINK k",
    "EXISTS k k k",
    "TYPE k",
    "KEYS p",
    "KEYS g",
    "KEYS g",
    "DBSIZE",
    "RENAME k k",
    "RENAMENX k k",
    "TOUCH k k",
    "COPY k k",
    "COPY k k REPLACE",
    "COPY k k w",
    "COPY k k DB n w",
    "FLUSHDB w",
    "SCAN 0 COUNT 1000 MATCH p",
    "SCAN 0 COUNT 1000 TYPE w",
    "SCAN 0 nonsense n",
    "SCAN 0 COUNT no",
    "SCAN 0 COUNT 0",
    "SCAN 0 COUNT",
    "SCAN 0 TYPE",
    "SCAN no",
    "SCAN 0 TYPE w COUNT 1000 MATCH p",
    "NOSUCH k v",
    "v k",
    "PING v",
    "ECHO v",
    "SELECT v",
    "PING v v",
    "GET",
    "INCR",
    "LPUSH k",
    "SET k",
    "COPY k",
    "DEL",
    "CLIENT nonsense",
    "COMMAND nonsense",
    "CONFIG nonsense",
    "SET k v GET",
    "SET k v XX",
    "SET k v NX",
    "SET k v KEEPTTL",
];
const KEYS: &[&str] = &["a", "b", "c", "k:1", "k:2", "k:33", "", "[x]"];
const VALUES: &[&str] = &[
    "",
    "x",
    "y",
    "xyz",
    "10",
    "-3",
    "007",
    "+1",
    " 1",
    "1.5",
    "9223372036854775807",
    "\r\n",
    "-9223372036854775808",
    "a longer value of more words",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "-3",
    "100",
    "-100",
    "no",
    "",
    "9223372036854775807",
    "1.0",
    "-9223372036854775808",
    "9223372036854775808",
];
const PATTERNS: &[&str] = &[
    "*", "k:*", "k:?", "[a-b]", "[^a]", "\\[x\\]", "[", "a", "*1*", "", "[b-a]*", "?", "[x", "\\",
];
const OPTIONS: &[&str] = &[
    "NX", "xx", "GET", "KEEPTTL", "BEFORE", "after", "LEFT", "right", "REPLACE", "ASYNC", "list",
    "string", "COUNT", "nonsense", "SYNC", "DB",
];

fn pattern(dice: &mut Dice) -> Vec<u8> {
    (0..dice.roll(8)).map(|_| b"[]^-\\*?abck:13x"[dice.roll(15)]).collect()
}

fn command(dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = dice
        .pick(SHAPES)
        .split(' ')
        .map(|word| match word {
            "g" => pattern(dice),
            "k" => dice.pick(KEYS).into(),
            "v" => dice.pick(VALUES).into(),
            "n" => dice.pick(NUMBERS).into(),
            "p" => dice.pick(PATTERNS).into(),
            "w" => dice.pick(OPTIONS).into(),
            word => word.into(),
        })
        .collect();
    match dice.roll(200) {
        0 => words.push(b"surplus".to_vec()),
        1 if words.len() > 1 && words[0] != b"COMMAND" => drop(words.pop()),
        2 => words[0].make_ascii_lowercase(),
        _ => {}
    }
    words
}

/// A reply without the order that Redis leaves open.
fn normalized(command: &[Vec<u8>], reply: OwnedFrame) -> String {
    let sorted = |frame: &OwnedFrame| match frame {
        OwnedFrame::Array(items) => {
            let mut items: Vec<_> = items.iter().map(show).collect();
            items.sort();
            format!("{items:?}")
        }
        other => show(other),
    };
    match (&command[0].to_ascii_uppercase()[..], &reply) {
        (b"KEYS", keys) => sorted(keys),
        (b"SCAN", OwnedFrame::Array(parts)) => format!("{} {}", show(&parts[0]), sorted(&parts[1])),
        _ => show(&reply),
    }
}

#[test]
fn random_commands_get_the_replies_of_a_real_redis() {
    let Some(redis) = Redis::start() else { return };
    let gateway = local();
    let mut theirs = Client::connect(redis.address);
    let mut ours = Client::connect(gateway.address);
    let mut differences = Vec::new();
    for seed in 0..10 {
        let mut dice = Dice(seed);
        for _ in 0..2000 {
            let words = command(&mut dice);
            let slices: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let line = format!("{:?}", String::from_utf8_lossy(&words.join(&b'|')));
            let wanted = normalized(&words, theirs.call(&slices));
            let got = normalized(&words, ours.call(&slices));
            if wanted != got {
                differences.push(format!("{line}: redis {wanted}, gateway {got}"));
            }
        }
        assert!(differences.is_empty(), "seed {seed}:\n{}", differences.join("\n"));
        ours.ask("FLUSHALL");
        theirs.ask("FLUSHALL");
    }
}
