//! Running commands and printing what came of them, as `redis-cli` would.

use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, Slot};
use pentarchy_core::service::{Context, Service};
use pentarchy_services::kv::{Command, Kv, Reply};

pub fn context(slot: u64) -> Context {
    Context::new(Slot(slot), 0, Millis(0), ClientId::default(), Digest::default())
}

pub fn run(kv: &mut Kv, words: &[&[u8]]) -> Reply {
    run_at(kv, 0, words)
}

/// Runs a command at an agreed time in milliseconds.
pub fn run_at(kv: &mut Kv, time: u64, words: &[&[u8]]) -> Reply {
    let operation = Command::new(words).to_operation();
    let mut context = context(1);
    context.time = Millis(time);
    Reply::decode(&kv.execute(&context, &operation)).expect("replies decode")
}

pub fn show(reply: &Reply) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match reply {
        Reply::Ok => "OK".into(),
        Reply::Status(status) => text(status),
        Reply::Int(value) => format!(":{value}"),
        Reply::Bulk(value) => format!("{:?}", text(value)),
        Reply::Nil => "nil".into(),
        Reply::NilArray => "nil[]".into(),
        Reply::Array(items) | Reply::Set(items) | Reply::Map(items) | Reply::Pairs(items) => {
            format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" "))
        }
        Reply::Double(value) => format!(",{}", text(value)),
        Reply::Error(kind, message) => format!("-{} {}", kind.word(), text(message)),
    }
}

/// Words apart by spaces; `''` is the empty word.
pub fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(|word| if word == "''" { &b""[..] } else { word.as_bytes() }).collect()
}

/// Runs commands one after the other; each line is `command => wanted`.
pub fn script(lines: &str) -> Kv {
    let mut kv = Kv::default();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, wanted) = line.split_once(" => ").expect("command => wanted");
        let got = show(&run(&mut kv, &words(command.trim())));
        assert_eq!(got.trim_end(), wanted.trim_end(), "{command}");
    }
    kv
}

/// A small generator of pseudo-random numbers.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize]
    }
}

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const VALUES: [&str; 8] = ["", "x", "y", "10", "-3", "9223372036854775807", "long value", "x"];
const NUMBERS: [&str; 8] = ["0", "1", "-1", "2", "-3", "100", "-100", "no"];

const SHAPES: &[&str] = &[
    "SET k v",
    "SET k v NX",
    "SET k v XX GET",
    "GET k",
    "APPEND k v",
    "INCR k",
    "DECRBY k n",
    "SETRANGE k n v",
    "GETRANGE k n n",
    "GETDEL k",
    "GETSET k v",
    "MSET k v k v",
    "MGET k k",
    "MSETNX k v k v",
    "STRLEN k",
    "SETNX k v",
    "LPUSH k v v",
    "RPUSH k v v v",
    "LPUSHX k v",
    "LPOP k",
    "RPOP k n",
    "LLEN k",
    "LRANGE k n n",
    "LINDEX k n",
    "LSET k n v",
    "LREM k n v",
    "LTRIM k n n",
    "LINSERT k BEFORE v v",
    "LINSERT k AFTER v v",
    "RPOPLPUSH k k",
    "LMOVE k k LEFT RIGHT",
    "DEL k k",
    "EXISTS k k",
    "TYPE k",
    "RENAME k k",
    "RENAMENX k k",
    "COPY k k",
    "COPY k k REPLACE",
    "DBSIZE",
    "HSET k v v v v",
    "HDEL k v v",
    "HINCRBY k v n",
    "HGETALL k",
    "SADD k v v v",
    "SREM k v",
    "SPOP k n",
    "SMOVE k k v",
    "SUNIONSTORE k k k",
    "SMEMBERS k",
    "ZADD k n v n v",
    "ZADD k GT CH n v",
    "ZINCRBY k n v",
    "ZPOPMIN k n",
    "ZRANGE k n n WITHSCORES",
    "ZUNIONSTORE k 2 k k",
    "ZREMRANGEBYSCORE k n n",
    "EXPIRE k n",
    "PEXPIREAT k n",
    "PERSIST k",
    "GETEX k PX n",
    "SETBIT k n 1",
    "DEL k k k",
];

/// A command on few keys, so that they meet. `k` is a key, `v` a value, `n` a number.
pub fn random_command(dice: &mut Dice) -> Vec<&'static [u8]> {
    dice.pick(SHAPES)
        .split(' ')
        .map(|word| match word {
            "k" => dice.pick(&KEYS).as_bytes(),
            "v" => dice.pick(&VALUES).as_bytes(),
            "n" => dice.pick(&NUMBERS).as_bytes(),
            word => word.as_bytes(),
        })
        .collect()
}
