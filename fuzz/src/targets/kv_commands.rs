//! Commands as lines of words, executed one after the other on two stores: they agree on every
//! result, results decode and encode to the same bytes, queries change nothing, and the sections
//! restore to an equal store.

use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, Slot};
use pentarchy_core::service::{Context, Service};
use pentarchy_core::wire::Wire;
use pentarchy_services::kv::command::{self, Args};
use pentarchy_services::kv::{Command, Kv, Reply};

/// State of these stores: small, so that the limit is reached.
const STATE_BYTES_MAX: u64 = 2048;
const COMMANDS_MAX: usize = 64;

/// One of each command and a few of their options.
pub const SCRIPT: &str = "\
SET a 1 NX GET
SET b 2 XX
SETNX c 3
SETEX c 10 3
GETSET a 4
GETDEL a
GETEX b
MSET a 1 b 2 c 3
MSETNX d 4 e 5
MGET a b nothing
INCR a
DECR a
INCRBY a 9223372036854775807
DECRBY a -5
INCRBYFLOAT a 0.5
APPEND b tail
STRLEN b
GETRANGE b 0 -2
SETRANGE b 3 xyz
SETRANGE f 100 z
DEL c d
UNLINK e
EXISTS a a b
TYPE a
RENAME a z
RENAMENX z a
RANDOMKEY
KEYS [a-z]*
SCAN 0 MATCH * COUNT 10 TYPE string
DBSIZE
RPUSH l 1 2 3 2
LPUSH l 0
LPUSHX l -1
RPUSHX m 1
LRANGE l 0 -1
LINDEX l -1
LLEN l
LSET l 1 x
LINSERT l BEFORE 2 new
LREM l -1 2
LTRIM l 1 -2
LPOS l 3 RANK -1 COUNT 0 MAXLEN 10
LPOP l 2
RPOP l
LMOVE l k LEFT RIGHT
RPOPLPUSH k l
LMPOP 2 l k LEFT COUNT 2
COPY b y REPLACE
TOUCH a b
OBJECT ENCODING b
FLUSHDB
FLUSHALL";

pub fn run(input: &[u8]) {
    let (mut one, mut other) = (Kv::new(STATE_BYTES_MAX), Kv::new(STATE_BYTES_MAX));
    let results = execute(&mut one, input);
    assert_eq!(results, execute(&mut other, input), "equal histories give equal results");
    let mut restored = Kv::new(STATE_BYTES_MAX);
    for index in one.filled_sections() {
        let section = one.section(index);
        if section.len() > 4 {
            restored.restore_section(index, &section).expect("a section of ours");
            assert_eq!(restored.section(index), section);
        }
    }
    assert_eq!((restored.len(), restored.state_bytes()), (one.len(), one.state_bytes()));
}

/// Executes all lines; gives the results.
pub fn execute(kv: &mut Kv, lines: &[u8]) -> Vec<Vec<u8>> {
    let mut results = Vec::new();
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for (line, slot) in lines.take(COMMANDS_MAX).zip(1..) {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        results.push(execute_one(kv, &words, slot));
    }
    results
}

fn execute_one(kv: &mut Kv, words: &[&[u8]], slot: u64) -> Vec<u8> {
    let mut operation = Vec::new();
    command::encode(words.iter().copied(), &mut operation);
    assert_eq!(Command::new(words).to_bytes(), operation);
    assert_eq!(&*Args::parse(&operation).expect("an operation of ours"), words);
    let before = (kv.len(), kv.state_bytes());
    let answer = kv.query(&operation);
    assert_eq!((kv.len(), kv.state_bytes()), before, "a query changes nothing");
    let refused = matches!(Reply::decode(&answer), Ok(Reply::Error(..)));
    let context = Context::new(Slot(slot), 0, Millis(0), ClientId::default(), Digest::default());
    let result = kv.execute(&context, &operation);
    assert!(refused || answer == result, "a query says what the command says");
    let reply = Reply::decode(&result).expect("results decode");
    assert_eq!(reply.encode(), result);
    result
}

pub fn seeds() -> Vec<Vec<u8>> {
    let lines: Vec<&str> = SCRIPT.lines().collect();
    let mut seeds: Vec<Vec<u8>> =
        lines.chunks(6).map(|lines| lines.join("\n").into_bytes()).collect();
    seeds.push(SCRIPT.to_lowercase().into_bytes());
    seeds.push(b"SET k v\nAPPEND k v\nLPUSH k v\nRPUSH l a\nGET l\nINCR l\nRENAME l k".to_vec());
    seeds
}
