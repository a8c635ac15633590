//! The same commands to the gateway and to a real Redis: equal replies.

use crate::grammar::{Dice, command};
use crate::redis::Redis;
use crate::support::{Client, Local, config, show, start};
use redis_protocol::resp2::types::OwnedFrame;
use std::collections::BTreeSet;

/// Commands that are compared, in runs that begin with no keys.
const COMMANDS: usize = 100_000;
const RUNS: u64 = 20;

/// How replies are compared, other than for equality.
enum Comparison {
    Equal,
    /// Arrays in any order, of so many items each.
    Unordered(usize),
    /// `SCAN` and its kin: a cursor and the like.
    Scanned(usize),
    /// Times, which may be so much apart.
    Near(i64),
    /// Drawn from what another command of the same key returns, so many items each.
    Drawn(&'static str, usize),
}

fn comparison(words: &[Vec<u8>]) -> Comparison {
    use Comparison::{Drawn, Equal, Near, Scanned, Unordered};
    let name = words[0].to_ascii_uppercase();
    let each = if words.len() > 3 { 2 } else { 1 };
    match std::str::from_utf8(&name).unwrap_or_default() {
        "KEYS" | "HKEYS" | "HVALS" | "SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" => Unordered(1),
        "HGETALL" => Unordered(2),
        "SCAN" | "SSCAN" => Scanned(1),
        "HSCAN" | "ZSCAN" => Scanned(2),
        "TTL" | "EXPIRETIME" => Near(2),
        "PTTL" | "PEXPIRETIME" => Near(2000),
        "RANDOMKEY" => Drawn("KEYS", 1),
        "SRANDMEMBER" | "SPOP" => Drawn("SMEMBERS", 1),
        "HRANDFIELD" if each == 2 => Drawn("HGETALL", 2),
        "HRANDFIELD" => Drawn("HKEYS", 1),
        "ZRANDMEMBER" if each == 2 => Drawn("ZRANGE 0 -1 WITHSCORES", 2),
        "ZRANDMEMBER" => Drawn("ZRANGE 0 -1", 1),
        _ => Equal,
    }
}

/// The items of a reply, so many printed as one; a single value is one item.
fn items(reply: &OwnedFrame, each: usize) -> Vec<String> {
    match reply {
        OwnedFrame::Array(items) => items
            .chunks(each)
            .map(|item| item.iter().map(plain).collect::<Vec<_>>().join(" "))
            .collect(),
        other => vec![plain(other)],
    }
}

fn sorted(reply: &OwnedFrame, each: usize) -> String {
    let mut items = items(reply, each);
    items.sort();
    let kind = if matches!(reply, OwnedFrame::Array(_)) { "array" } else { "single" };
    format!("{kind} {items:?}")
}

struct Pair {
    theirs: Client,
    ours: Client,
}

impl Pair {
    fn both(&mut self, words: &[Vec<u8>]) -> (OwnedFrame, OwnedFrame) {
        let slices: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        (self.theirs.call(&slices), self.ours.call(&slices))
    }

    fn agree(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        let comparison = comparison(words);
        let pool = match comparison {
            Comparison::Drawn(source, each) => self.pool(source, each, words),
            _ => BTreeSet::new(),
        };
        let (theirs, ours) = self.both(words);
        let equal = match (&comparison, &theirs, &ours) {
            (Comparison::Unordered(each), _, _) => sorted(&theirs, *each) == sorted(&ours, *each),
            (Comparison::Scanned(each), OwnedFrame::Array(a), OwnedFrame::Array(b)) => {
                // Without a count that takes in all, each returns some of its own choosing.
                !words.iter().any(|word| word == b"1000")
                    || show(&a[0]) == show(&b[0]) && sorted(&a[1], *each) == sorted(&b[1], *each)
            }
            (Comparison::Near(most), OwnedFrame::Integer(a), OwnedFrame::Integer(b)) => {
                a == b || (*a >= 0 && *b >= 0 && (a - b).abs() <= *most)
            }
            (Comparison::Drawn(_, each), a, b) if is_drawn(a) && is_drawn(b) => {
                drawn_alike(&pool, items(a, *each), items(b, *each), words)
            }
            _ => plain(&theirs) == plain(&ours),
        };
        if words[0].eq_ignore_ascii_case(b"SPOP") && words.len() > 1 && is_drawn(&theirs) {
            // What is left may differ from now on.
            self.both(&[b"DEL".to_vec(), words[1].clone()]);
        }
        if equal {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&words.join(&b'|')).into_owned();
        Err(format!("{line:?}: redis {}, gateway {}", show(&theirs), show(&ours)))
    }

    /// What a command may draw from; the same on both sides.
    fn pool(&mut self, source: &str, each: usize, words: &[Vec<u8>]) -> BTreeSet<String> {
        let mut source = source.split(' ').map(|word| word.as_bytes().to_vec());
        let mut ask: Vec<Vec<u8>> = source.by_ref().take(1).collect();
        ask.push(if words.len() > 1 { words[1].clone() } else { b"*".to_vec() });
        ask.extend(source);
        let (theirs, ours) = self.both(&ask);
        let (theirs, ours) = (items(&theirs, each), items(&ours, each));
        let pool: BTreeSet<String> = theirs.into_iter().collect();
        assert_eq!(pool, ours.into_iter().collect(), "before {words:?}");
        pool
    }
}

/// A reply as compared: Redis keeps the sign of a score that is zero in some sorted sets.
fn plain(reply: &OwnedFrame) -> String {
    show(reply).replace("\"-0\"", "\"0\"")
}

const fn is_drawn(reply: &OwnedFrame) -> bool {
    matches!(reply, OwnedFrame::Array(_) | OwnedFrame::BulkString(_))
}

/// As many, from the pool, and different ones unless the count is negative.
fn drawn_alike(
    pool: &BTreeSet<String>,
    theirs: Vec<String>,
    ours: Vec<String>,
    words: &[Vec<u8>],
) -> bool {
    let repeats = words.get(2).is_some_and(|count| count.starts_with(b"-"));
    let distinct = ours.iter().collect::<BTreeSet<_>>().len() == ours.len();
    theirs.len() == ours.len()
        && (distinct || repeats)
        && ours.iter().all(|item| pool.contains(item))
}

#[test]
fn random_commands_get_the_replies_of_a_real_redis() {
    let redis = Redis::start();
    let store = Local::default();
    let gateway = start(config(), store.clone());
    let mut pair =
        Pair { theirs: Client::connect(redis.address), ours: Client::connect(gateway.address) };
    for seed in 0..RUNS {
        println!("seed {seed}");
        let mut dice = Dice(seed);
        let mut differences = Vec::new();
        for round in 0..COMMANDS / RUNS as usize {
            if let Err(difference) = pair.agree(&command(&mut dice)) {
                differences.push(difference);
            }
            if round % 500 == 499 {
                store.restart_from_snapshot();
            }
        }
        assert!(differences.is_empty(), "seed {seed}:\n{}", differences.join("\n"));
        pair.both(&[b"FLUSHALL".to_vec()]);
    }
}
