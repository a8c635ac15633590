//! Each group of commands, errors included.

use crate::support::{context, run, run_at, script, show, words};
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::service::Service;
use pentarchy_services::kv::reply::REPLY_BYTES_MAX;
use pentarchy_services::kv::{
    COLLECTION_BYTES_MAX, Command, ErrorKind, KEY_BYTES_MAX, Kv, Reply, VALUE_BYTES_MAX, registry,
};
use std::collections::BTreeSet;

#[test]
fn strings() {
    script(
        "GET a => nil
         SET a 1 => OK
         GET a => \"1\"
         SET a 2 NX => nil
         SET a 2 XX => OK
         SET b 2 XX => nil
         SET b 2 XX GET => nil
         SET b 2 NX GET => nil
         SET b 3 GET => \"2\"
         SET b 4 NX GET => \"3\"
         SET b 4 nx xx => -ERR syntax error
         SET b 4 KEEPTTL => OK
         SET b 4 EX 0 => -ERR invalid expire time in 'set' command
         SET b 4 EX => -ERR syntax error
         SET b 4 SOON => -ERR syntax error
         SETNX b 1 => :0
         SETNX c 1 => :1
         GETSET c 2 => \"1\"
         GETDEL c => \"2\"
         GETDEL c => nil
         APPEND s Hello => :5
         APPEND s World => :10
         STRLEN s => :10
         STRLEN none => :0
         GETRANGE s 0 4 => \"Hello\"
         GETRANGE s -5 -1 => \"World\"
         GETRANGE s 0 -100 => \"H\"
         GETRANGE s -1 -5 => \"\"
         GETRANGE none 0 -1 => \"\"
         SETRANGE s 5 , => :10
         GET s => \"Hello,orld\"
         SETRANGE gap 2 x => :3
         GET gap => \"\\0\\0x\"
         SETRANGE none 5 '' => :0
         EXISTS none => :0
         SETRANGE s -1 x => -ERR offset is out of range
         SETRANGE s 9223372036854775807 x => \
         -ERR string exceeds maximum allowed size (proto-max-bulk-len)
         MSET x 1 y 2 x 3 => OK
         MGET x y none => [\"3\" \"2\" nil]
         MSETNX z 1 x 1 => :0
         EXISTS z => :0
         MSETNX z 1 w 1 => :1
         MSET x => -ERR wrong number of arguments for 'mset' command
         MSET x 1 y => -ERR wrong number of arguments for 'mset' command",
    );
}

#[test]
fn counters() {
    script(
        "INCR n => :1
         INCRBY n 41 => :42
         DECR n => :41
         DECRBY n -9 => :50
         GET n => \"50\"
         SET n 9223372036854775807 => OK
         INCR n => -ERR increment or decrement would overflow
         SET n -9223372036854775808 => OK
         DECR n => -ERR increment or decrement would overflow
         DECRBY n -9223372036854775808 => -ERR decrement would overflow
         INCRBY n 1.5 => -ERR value is not an integer or out of range
         SET n 007 => OK
         INCR n => -ERR value is not an integer or out of range
         GET n => \"007\"
         RPUSH l x => :1
         INCR l => -WRONGTYPE Operation against a key holding the wrong kind of value
         TYPE n => string",
    );
}

#[test]
fn lists() {
    script(
        "LPUSH l b a => :2
         RPUSH l c d => :4
         LRANGE l 0 -1 => [\"a\" \"b\" \"c\" \"d\"]
         LRANGE l -2 100 => [\"c\" \"d\"]
         LRANGE l 3 1 => []
         LRANGE l 0 -100 => []
         LRANGE none 0 -1 => []
         LLEN l => :4
         LINDEX l -1 => \"d\"
         LINDEX l 4 => nil
         LSET l 1 B => OK
         LSET l 4 x => -ERR index out of range
         LSET none 0 x => -ERR no such key
         LINSERT l BEFORE B x => :5
         LINSERT l after B y => :6
         LINSERT l AFTER nobody y => :-1
         LINSERT none AFTER B y => :0
         LINSERT l BESIDE B y => -ERR syntax error
         LRANGE l 0 -1 => [\"a\" \"x\" \"B\" \"y\" \"c\" \"d\"]
         LPOP l => \"a\"
         RPOP l 2 => [\"d\" \"c\"]
         LPOP l 0 => []
         LPOP none => nil
         LPOP none 1 => nil[]
         LPOP l -1 => -ERR value is out of range, must be positive
         LPOP l 1 2 => -ERR wrong number of arguments for 'lpop' command
         RPOPLPUSH l l => \"y\"
         LRANGE l 0 -1 => [\"y\" \"x\" \"B\"]
         LMOVE l m LEFT RIGHT => \"y\"
         LMOVE l m SIDE RIGHT => -ERR syntax error
         LMOVE none m LEFT RIGHT => nil
         RPUSH r a b a c a => :5
         LREM r -2 a => :2
         LRANGE r 0 -1 => [\"a\" \"b\" \"c\"]
         LREM r 0 nobody => :0
         LTRIM r 1 -1 => OK
         LRANGE r 0 -1 => [\"b\" \"c\"]
         LTRIM r 5 9 => OK
         EXISTS r => :0
         LPUSHX r a => :0
         RPUSHX m z => :2
         SET s x => OK
         LPUSH s a => -WRONGTYPE Operation against a key holding the wrong kind of value
         RPOPLPUSH m s => -WRONGTYPE Operation against a key holding the wrong kind of value
         LLEN m => :2
         GET m => -WRONGTYPE Operation against a key holding the wrong kind of value
         MGET m s => [nil \"x\"]
         SET m now-a-string => OK
         TYPE m => string",
    );
}

#[test]
fn keys() {
    script(
        "MSET a 1 b 2 c 3 => OK
         EXISTS a a none => :2
         TOUCH a none => :1
         TYPE none => none
         DBSIZE => :3
         KEYS [ab] => [\"b\" \"a\"]
         RENAME a d => OK
         RENAME a d => -ERR no such key
         RENAME d d => OK
         RENAMENX d b => :0
         RENAMENX d d => :0
         RENAMENX d a => :1
         RENAMENX none a => -ERR no such key
         COPY a b => :0
         COPY a b REPLACE => :1
         GET b => \"1\"
         COPY a a => -ERR source and destination objects are the same
         COPY a z DB 1 => -ERR DB index is out of range
         COPY a z DB 0 => :1
         COPY none z => :0
         COPY a z TO => -ERR syntax error
         DEL a b none => :2
         UNLINK c => :1
         FLUSHDB LATER => -ERR syntax error
         FLUSHDB => OK
         DBSIZE => :0
         RANDOMKEY => nil
         SET a 1 => OK
         RANDOMKEY => \"a\"
         FLUSHALL ASYNC => OK
         DBSIZE => :0
         GET => -ERR wrong number of arguments for 'get' command
         NONSENSE a bb => -ERR unknown command 'NONSENSE', with args beginning with: 'a' 'bb' ",
    );
}

#[test]
fn scan_returns_what_was_there_all_the_while_and_nothing_twice() {
    let mut kv = Kv::default();
    let key = |i: usize| format!("key:{i}").into_bytes();
    (0..2000).for_each(|i| drop(run(&mut kv, &[b"SET", &key(i), b"v"])));
    let mut cursor = b"0".to_vec();
    let mut seen = BTreeSet::new();
    for round in 0.. {
        let reply = run(&mut kv, &[b"SCAN", &cursor, b"COUNT", b"7"]);
        let Reply::Array(parts) = reply else { panic!("{reply:?}") };
        let [Reply::Bulk(next), Reply::Array(keys)] = &parts[..] else { panic!("{parts:?}") };
        for key in keys {
            let Reply::Bulk(key) = key else { panic!("{key:?}") };
            assert!(seen.insert(key.to_vec()), "{key:?} twice");
        }
        // Others come and go meanwhile.
        run(&mut kv, &[b"SET", &key(10_000 + round), b"v"]);
        run(&mut kv, &[b"DEL", &key(1000 + round)]);
        cursor = next.to_vec();
        if cursor == b"0" {
            break;
        }
    }
    assert!((0..1000).all(|i| seen.contains(&key(i))));
    assert!(cursor == b"0" && seen.len() >= 1000);
}

#[test]
fn scan_filters() {
    let mut kv = script("MSET a 1 b 2 => OK\n RPUSH l x => :1");
    let mut scan = |rest: &str| show(&run(&mut kv, &words(&format!("SCAN {rest}"))));
    assert_eq!(scan("0 COUNT 100 TYPE list"), "[\"0\" [\"l\"]]");
    assert_eq!(scan("0 COUNT 100 MATCH a"), "[\"0\" [\"a\"]]");
    assert_eq!(scan("0 TYPE nothing"), "[\"0\" []]");
    assert_eq!(scan("18446744073709551615"), "[\"0\" []]");
    assert_eq!(scan("x"), "-ERR invalid cursor");
    assert_eq!(scan("0 COUNT 0"), "-ERR syntax error");
    assert_eq!(scan("0 COUNT x"), "-ERR value is not an integer or out of range");
    assert_eq!(scan("0 COUNT"), "-ERR syntax error");
}

#[test]
fn randomkey_draws_from_the_order() {
    let mut kv = script("MSET a 1 b 1 c 1 d 1 e 1 => OK");
    let operation = Command::new(&["RANDOMKEY"]).to_operation();
    let drawn: BTreeSet<_> = (1..200).map(|slot| kv.execute(&context(slot), &operation)).collect();
    assert!(drawn.len() >= 4, "{} different keys", drawn.len());
}

#[test]
fn queries_answer_reads_as_execution_does_and_refuse_the_rest() {
    let mut kv = script("SET a 1 => OK\n RPUSH l x y => :2");
    for info in registry::all() {
        let mut command: Vec<&[u8]> = vec![info.name.as_bytes()];
        command.resize(info.arity.unsigned_abs() as usize, b"0");
        let operation = Command::new(&command).to_operation();
        let queried = Reply::decode(&kv.query(&operation)).unwrap();
        let drawn = ["randomkey", "hrandfield", "srandmember", "zrandmember"];
        if info.is_read_only() && !drawn.contains(&info.name) {
            assert_eq!(queried, run(&mut kv, &command), "{}", info.name);
        } else {
            let wanted = format!("-ERR '{}' must be ordered, not queried", info.name);
            assert_eq!(show(&queried), wanted);
        }
    }
}

#[test]
fn sizes_are_bounded_and_whatever_is_stored_can_be_read() {
    let mut kv = Kv::default();
    let long_key = vec![b'k'; KEY_BYTES_MAX + 1];
    let refused = show(&run(&mut kv, &[b"SET", &long_key, b"v"]));
    assert_eq!(refused, "-ERR key is longer than 65536 bytes");
    let header = Command::new(&["SET", "k", ""]).to_operation().len();
    let longest = vec![b'v'; OPERATION_BYTES_MAX - header];
    assert_eq!(run(&mut kv, &[b"SET", b"k", &longest]), Reply::Ok);
    assert_eq!(run(&mut kv, &[b"GET", b"k"]), Reply::Bulk(longest.clone().into()));
    assert_eq!(run(&mut kv, &[b"RPUSH", b"l", &longest[2..]]), Reply::Int(1));
    assert!(matches!(run(&mut kv, &[b"LPOP", b"l", b"1"]), Reply::Array(_)));
    let too_long = show(&run(&mut kv, &[b"APPEND", b"k", b"more"]));
    assert_eq!(too_long, "-ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    run(&mut kv, &[b"SETRANGE", b"full", (VALUE_BYTES_MAX - 1).to_string().as_bytes(), b"x"]);
    assert!(matches!(run(&mut kv, &[b"GET", b"full"]), Reply::Bulk(_)));
    let over = vec![b'v'; OPERATION_BYTES_MAX];
    assert_eq!(show(&run(&mut kv, &[b"SET", b"k", &over])), "-ERR malformed operation");
}

#[test]
fn a_reply_that_is_too_large_is_refused_before_anything_changes() {
    let mut kv = Kv::default();
    let item = vec![b'x'; 600 << 10];
    run(&mut kv, &[b"RPUSH", b"l", &item]);
    run(&mut kv, &[b"RPUSH", b"l", &item]);
    let refusal = |reply: Reply| match reply {
        Reply::Error(ErrorKind::Err, text) => text.starts_with(b"reply is larger than"),
        _ => false,
    };
    assert!(refusal(run(&mut kv, &[b"LRANGE", b"l", b"0", b"-1"])));
    assert!(refusal(run(&mut kv, &[b"RPOP", b"l", b"2"])));
    assert_eq!(run(&mut kv, &[b"LLEN", b"l"]), Reply::Int(2));
    assert!(
        kv.execute(&context(1), &Command::new(&["LRANGE", "l", "0", "-1"]).to_operation()).len()
            < REPLY_BYTES_MAX
    );
    for i in 0..30 {
        let key = [vec![b'k'; 60_000], i.to_string().into_bytes()].concat();
        run(&mut kv, &[b"SET", &key, b""]);
    }
    assert!(refusal(run(&mut kv, &[b"KEYS", b"*"])));
    assert!(matches!(run(&mut kv, &[b"SCAN", b"0", b"COUNT", b"1000000"]), Reply::Array(_)));
}

#[test]
fn a_full_store_refuses_more_and_lets_go() {
    let mut kv = Kv::new(10_000);
    let full = |reply: &Reply| matches!(reply, Reply::Error(ErrorKind::OutOfMemory, _));
    let item = [b'x'; 1000];
    run(&mut kv, &[b"RPUSH", b"l", &item, &item, &item, &item, &item, &item]);
    assert!(full(&run(&mut kv, &[b"COPY", b"l", b"m"])), "a copy is counted before it is made");
    run(&mut kv, &[b"RPUSH", b"l", &item, &item, &item, &item]);
    for command in ["SET a 1", "INCR n", "LPUSH l x", "LSET l 0 x", "MSET a 1"] {
        assert!(full(&run(&mut kv, &words(command))), "{command}");
    }
    assert!(matches!(run(&mut kv, &[b"LPOP", b"l"]), Reply::Bulk(_)));
    assert_eq!(run(&mut kv, &[b"DEL", b"l"]), Reply::Int(1));
    assert_eq!(kv.state_bytes(), 0);
    assert_eq!(run(&mut kv, &words("SET a 1")), Reply::Ok);
}

#[test]
fn a_collection_that_is_large_takes_no_more_and_lets_go() {
    let mut kv = Kv::default();
    let full = |reply: &Reply| matches!(reply, Reply::Error(ErrorKind::OutOfMemory, _));
    let item = |i: u64| [&i.to_le_bytes(), &[b'x'; 1000 << 10][..]].concat();
    let add: [&[&[u8]]; 4] = [
        &[b"RPUSH", b"list"],
        &[b"SADD", b"set"],
        &[b"ZADD", b"sorted", b"1"],
        &[b"HSET", b"hash"],
    ];
    for command in add {
        let before = kv.state_bytes();
        let mut taken = 0;
        loop {
            let (item, field) = (item(taken), taken.to_le_bytes());
            let field: &[&[u8]] = if command[0] == b"HSET" { &[&field] } else { &[] };
            if full(&run(&mut kv, &[command, field, &[&item]].concat())) {
                break;
            }
            taken += 1;
        }
        let cost = kv.state_bytes() - before;
        assert!((COLLECTION_BYTES_MAX..COLLECTION_BYTES_MAX + (4 << 20)).contains(&cost), "{cost}");
    }
    run(&mut kv, &words("RPUSH other a b"));
    let refused = [
        "RPUSH list x",
        "LPUSHX list x",
        "LINSERT list BEFORE x y",
        "LSET list 0 x",
        "LMOVE other list LEFT LEFT",
        "RPOPLPUSH other list",
        "SADD set x",
        "ZADD sorted 1 x",
        "ZINCRBY sorted 1 x",
        "HSET hash a b",
        "HINCRBY hash n 1",
    ];
    for command in refused {
        assert!(full(&run(&mut kv, &words(command))), "{command}");
    }
    let taken = ["LPOP list", "LMOVE list other LEFT LEFT", "SET string x", "ZPOPMIN sorted"];
    for command in taken {
        assert!(!full(&run(&mut kv, &words(command))), "{command}");
    }
    assert_eq!(run(&mut kv, &words("RPUSH other c")), Reply::Int(4));
    assert!(!full(&run(&mut kv, &words("RPUSH list x"))), "there is room again");
}

#[test]
fn what_is_taken_from_any_collection_fits_a_reply_or_stays() {
    let mut kv = Kv::default();
    let item = |i: u8| [&[i], &[b'x'; 600 << 10][..]].concat();
    for i in 0..2 {
        run(&mut kv, &[b"SADD", b"set", &item(i)]);
        run(&mut kv, &[b"ZADD", b"sorted", b"1", &item(i)]);
        run(&mut kv, &[b"HSET", b"hash", &[i], &item(i)]);
        run(&mut kv, &[b"RPUSH", b"list", &item(i)]);
    }
    let cost = kv.state_bytes();
    for command in [
        "SPOP set 2",
        "SMEMBERS set",
        "SUNION set set",
        "SRANDMEMBER set -2",
        "SRANDMEMBER set -9223372036854775807",
        "ZPOPMIN sorted 2",
        "ZPOPMAX sorted 2",
        "ZMPOP 1 sorted MIN COUNT 2",
        "ZRANGE sorted 0 -1",
        "ZUNION 1 sorted",
        "LMPOP 1 list LEFT COUNT 2",
        "HGETALL hash",
        "HVALS hash",
        "HRANDFIELD hash 2 WITHVALUES",
        "ZRANDMEMBER sorted -1000000",
    ] {
        let reply = show(&run(&mut kv, &words(command)));
        assert!(reply.starts_with("-ERR reply is larger than"), "{command}: {reply:.60}");
        assert_eq!(kv.state_bytes(), cost, "{command}");
    }
    for command in ["SPOP set 1", "ZPOPMIN sorted", "LMPOP 1 list LEFT", "SPOP set", "DEL hash"] {
        let reply = show(&run(&mut kv, &words(command)));
        assert!(!reply.starts_with('-'), "{command}: {reply:.60}");
    }
    run(&mut kv, &words("DEL sorted list set"));
    assert_eq!(kv.state_bytes(), 0);
}

#[test]
fn what_a_short_command_makes_is_counted_before_it_is_kept() {
    let mut kv = Kv::new(48_000);
    for i in 0..100 {
        let member = format!("member:{i}").into_bytes();
        run(&mut kv, &[b"SADD", b"set", &member]);
        run(&mut kv, &[b"ZADD", b"sorted", b"1", &member]);
        run(&mut kv, &[b"HSET", b"hash", &member, &member]);
    }
    let cost = kv.state_bytes();
    assert!((35_000..40_000).contains(&cost), "{cost}");
    for command in [
        "ZUNIONSTORE target 2 set sorted",
        "ZINTERSTORE target 2 set sorted",
        "ZRANGESTORE target sorted 0 -1",
        "ZDIFFSTORE target 1 sorted",
        "COPY hash target",
    ] {
        let reply = run(&mut kv, &words(command));
        assert!(matches!(reply, Reply::Error(ErrorKind::OutOfMemory, _)), "{command}: {reply:?}");
        assert_eq!(kv.state_bytes(), cost, "{command}");
    }
    assert_eq!(run(&mut kv, &words("SUNIONSTORE target set set")), Reply::Int(100));
    let reply = run(&mut kv, &words("SUNIONSTORE other set target"));
    assert!(matches!(reply, Reply::Error(ErrorKind::OutOfMemory, _)), "{reply:?}");
    let count = |reply: Reply| match reply {
        Reply::Pairs(items) | Reply::Array(items) => items.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(count(run(&mut kv, &words("ZUNION 2 set sorted"))), 100, "reading needs no room");
}

#[test]
fn members_are_walked_as_keys_are() {
    let mut kv = Kv::default();
    let name = |i: usize| format!("member:{i}").into_bytes();
    for i in 0..1000 {
        run(&mut kv, &[b"SADD", b"s", &name(i)]);
        run(&mut kv, &[b"HSET", b"h", &name(i), b"v"]);
        run(&mut kv, &[b"ZADD", b"z", b"1.5", &name(i)]);
    }
    for (scan, key, each) in [(&b"SSCAN"[..], b"s", 1), (b"HSCAN", b"h", 2), (b"ZSCAN", b"z", 2)] {
        let (mut cursor, mut seen) = (b"0".to_vec(), BTreeSet::new());
        for round in 0.. {
            let reply = run(&mut kv, &[scan, key, &cursor, b"COUNT", b"7", b"MATCH", b"mem*"]);
            let Reply::Array(parts) = reply else { panic!("{reply:?}") };
            let [Reply::Bulk(next), Reply::Array(items)] = &parts[..] else { panic!("{parts:?}") };
            for item in items.chunks(each) {
                assert!(seen.insert(show(&item[0])), "{item:?} twice");
            }
            for remove in [&b"SREM"[..], b"HDEL", b"ZREM"] {
                run(&mut kv, &[remove, key, &name(500 + round)]);
            }
            cursor = next.to_vec();
            if cursor == b"0" {
                break;
            }
        }
        assert!((0..500).all(|i| seen.contains(&format!("\"member:{i}\""))), "{key:?}");
    }
}

#[test]
fn what_is_drawn_is_spread_evenly() {
    let mut kv = Kv::default();
    run(&mut kv, &words("SADD s a b c d e f g h i j"));
    let operation = Command::new(&["SRANDMEMBER", "s"]).to_operation();
    let mut times = std::collections::BTreeMap::new();
    for slot in 0..2000 {
        *times.entry(kv.execute(&context(slot), &operation)).or_insert(0) += 1;
    }
    // 200 each on average, with a deviation of about 13.
    assert!(times.len() == 10 && times.values().all(|n| (140..260).contains(n)), "{times:?}");
}

#[test]
fn floats_are_added_in_decimal_and_scores_as_doubles() {
    script(
        "SET f 10.50 => OK
         INCRBYFLOAT f 0.1 => \"10.6\"
         INCRBYFLOAT f -5 => \"5.6\"
         INCRBYFLOAT f 1e21 => -ERR increment would produce NaN or Infinity
         INCRBYFLOAT f x => -ERR value is not a valid float
         GET f => \"5.6\"
         HINCRBYFLOAT h f 2.0e2 => \"200\"
         HINCRBYFLOAT h f inf => -ERR value is NaN or Infinity
         ZADD z 0.1 a => :1
         ZINCRBY z 0.2 a => ,0.30000000000000004
         ZADD z -inf b => :1
         ZINCRBY z inf b => -ERR resulting score is not a number (NaN)
         ZRANK z a WITHSCORE => [:1 ,0.30000000000000004]
         ZRANK z none WITHSCORE => nil[]
         ZREVRANK z a => :0",
    );
}

#[test]
fn what_is_to_be_done_once_is_done_once() {
    let mut kv = script(
        "ONCE o 60 INCR n => :1
         ONCE o 60 INCR n => :1
         once o 5 INCR n => :1
         GET n => \"1\"
         ONCE o 60 INCR m => -ERR the key of ONCE was used for another command
         ONCE other 60 INCR n => :2
         SET text x => OK
         ONCE p 60 INCR text => -ERR value is not an integer or out of range
         SET text 4 => OK
         ONCE p 60 INCR text => :5
         ONCE text 60 GET n => -ERR the key of ONCE holds something else than a reply
         ONCE q 60 ONCE r 60 INCR n => -ERR ONCE takes no other ONCE
         ONCE q 60 NOSUCH => -ERR unknown command 'NOSUCH', with args beginning with: 
         ONCE q 0 INCR n => -ERR invalid expire time in 'once' command
         ONCE q x INCR n => -ERR value is not an integer or out of range
         EXISTS q r => :0
         RPUSH l a b => :2
         ONCE q 60 BLPOP l 0 => [\"l\" \"a\"]
         ONCE q 60 BLPOP l 0 => [\"l\" \"a\"]
         LLEN l => :1
         TTL o => :60
         LPUSH list v => :1
         ONCE list 60 GET n => -WRONGTYPE Operation against a key holding the wrong kind of value",
    );
    // It is forgotten when its time is over.
    assert_eq!(run_at(&mut kv, 59_999, &words("ONCE o 60 INCR n")), Reply::Int(1));
    assert_eq!(run_at(&mut kv, 60_000, &words("ONCE o 60 INCR n")), Reply::Int(3));
    // Nobody believes what somebody else wrote there.
    assert_eq!(run(&mut kv, &words("ONCE mine 60 INCR n")), Reply::Int(4));
    let Reply::Bulk(kept) = run(&mut kv, &words("GET mine")) else { panic!("it is a string") };
    run(&mut kv, &[b"SET", b"mine", &[&kept[..], b"more"].concat()]);
    let refused = show(&run(&mut kv, &words("ONCE mine 60 INCR n")));
    assert_eq!(refused, "-ERR the key of ONCE holds something else than a reply");
}

/// What cannot be kept is not executed again all the same, and can be saved and restored.
#[test]
fn a_reply_that_is_too_large_to_keep_is_said_to_be_so() {
    let mut kv = Kv::default();
    let large = vec![b'v'; VALUE_BYTES_MAX - 40];
    run(&mut kv, &[b"SET", b"large", &large]);
    assert_eq!(run(&mut kv, &words("ONCE o 60 GETDEL large")), Reply::Bulk(large.into()));
    let said = show(&run(&mut kv, &words("ONCE o 60 GETDEL large")));
    assert!(said.starts_with("-ERR executed before, but the reply was too large"), "{said}");
    let mut copy = Kv::default();
    for section in kv.filled_sections().collect::<Vec<_>>() {
        copy.restore_section(section, &kv.section(section)).expect("a section");
    }
    assert_eq!(show(&run(&mut copy, &words("ONCE o 60 GETDEL large"))), said);
}
