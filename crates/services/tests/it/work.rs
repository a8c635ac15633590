//! No operation makes the replicas do more than a bounded amount of work.

use crate::support::{context, run, show};
use pentarchy_core::ids::ClientId;
use pentarchy_core::service::Service;
use pentarchy_services::kv::session::{
    Request, Subscription, Topic, pack, pack_replies, transaction, transaction_replies,
};
use pentarchy_services::kv::{Command, Kv, Reply};

const TOO_MUCH: &str = "-ERR not executed: it is too much work";

fn ask(kv: &mut Kv, words: &[&[u8]]) -> String {
    show(&run(kv, words))
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

fn fill(kv: &mut Kv, command: &[&[u8]], count: usize) {
    let members = numbers(count);
    for some in members.chunks(20_000) {
        let mut words = command.to_vec();
        for member in some {
            if command[0] == b"ZADD" {
                words.push(b"1");
            }
            words.push(member.as_bytes());
        }
        run(kv, &words);
    }
}

#[test]
fn a_set_named_often_counts_once() {
    let mut kv = Kv::default();
    fill(&mut kv, &[b"SADD", b"s"], 1000);
    let many = vec![&b"s"[..]; 100_000];
    let count = many.len().to_string();
    assert_eq!(ask(&mut kv, &[&[b"SINTERCARD", count.as_bytes()], &many[..]].concat()), ":1000");
    assert_eq!(ask(&mut kv, &[&[&b"SUNIONSTORE"[..], b"t"], &many[..]].concat()), ":1000");
    assert_eq!(ask(&mut kv, &[&[&b"SDIFF"[..]], &many[..]].concat()), "[]");
}

#[test]
fn what_is_too_much_work_is_refused_and_changes_nothing() {
    let mut kv = Kv::default();
    fill(&mut kv, &[b"SADD", b"s"], 5000);
    fill(&mut kv, &[b"ZADD", b"z"], 5000);
    run(&mut kv, &[b"SET", b"large", &vec![0xff; 1_000_000]]);
    run(&mut kv, &[b"SET", b"t", b"before"]);
    let others = numbers(2000);
    for other in &others {
        run(&mut kv, &[b"SADD", other.as_bytes(), b"x"]);
    }
    let others: Vec<_> = others.iter().map(String::as_bytes).collect();
    let diff = [&[&b"SDIFFSTORE"[..], b"t", b"s"], &others[..]].concat();
    let strings = [&[&b"BITOP"[..], b"XOR", b"t"], &[&b"large"[..]; 1000][..]].concat();
    let union = [&[&b"ZUNIONSTORE"[..], b"t", b"1000"], &[&b"z"[..]; 1000][..]].concat();
    let inter = [&[&b"ZINTERCARD"[..], b"1000"], &[&b"z"[..]; 1000][..]].concat();
    for command in [diff, strings, union, inter] {
        let reply = ask(&mut kv, &command);
        assert!(reply.starts_with(TOO_MUCH), "{}: {reply}", String::from_utf8_lossy(command[0]));
        assert_eq!(ask(&mut kv, &[b"GET", b"t"]), "\"before\"");
    }
    assert_eq!(ask(&mut kv, &[b"BITOP", b"OR", b"t", b"large", b"large"]), ":1000000");
    assert_eq!(ask(&mut kv, &[b"ZUNIONSTORE", b"t", b"2", b"z", b"s"]), ":5000");
}

#[test]
fn no_more_is_drawn_or_put_together_than_a_reply_carries() {
    let mut kv = Kv::default();
    fill(&mut kv, &[b"SADD", b"s"], 220_000);
    assert!(ask(&mut kv, &[b"SPOP", b"s", b"29999999"]).starts_with("-ERR reply is larger"));
    assert_eq!(ask(&mut kv, &[b"SCARD", b"s"]), ":220000");
    assert!(ask(&mut kv, &[b"ZUNION", b"1", b"s"]).starts_with("-ERR reply is larger"));
}

#[test]
fn patterns_are_short_and_their_steps_are_counted() {
    let mut kv = Kv::default();
    let pattern = "a*".repeat(512);
    let text = "a".repeat(60_000);
    run(&mut kv, &[b"SET", text.as_bytes(), b"x"]);
    let long = format!("{pattern}b");
    assert!(ask(&mut kv, &[b"KEYS", long.as_bytes()]).starts_with("-ERR pattern is longer"));
    let scan = ask(&mut kv, &[b"SCAN", b"0", b"MATCH", long.as_bytes()]);
    assert!(scan.starts_with("-ERR pattern is longer"));
    assert_eq!(ask(&mut kv, &[b"KEYS", b"b*"]), "[]");
    // What follows the last star is tried at every place.
    let pattern = format!("*{}b", "a".repeat(1000));
    let reply = ask(&mut kv, &[b"KEYS", pattern.as_bytes()]);
    assert!(reply.starts_with(TOO_MUCH), "{reply}");
    let subscribe = |name: &str| Request::Update {
        version: 1,
        subscriptions: vec![Subscription {
            topic: Topic::Pattern,
            name: name.to_string().into(),
            count: 1,
        }],
        watches: vec![],
        waiters: vec![],
    };
    let mut context = context(1);
    context.client = ClientId([1; 32]);
    kv.execute(&context, &Request::Open.to_operation(0));
    let refused = kv.execute(&context, &subscribe(&long).to_operation(1));
    assert!(String::from_utf8_lossy(&refused).contains("pattern is longer"));
    let mut version = subscribe(&pattern);
    if let Request::Update { version, .. } = &mut version {
        *version = 2;
    }
    kv.execute(&context, &version.to_operation(1));
    assert!(ask(&mut kv, &[b"PUBLISH", text.as_bytes(), b"x"]).starts_with(TOO_MUCH));
    assert_eq!(ask(&mut kv, &[b"PUBLISH", b"short", b"x"]), ":0");
}

fn heavy(kv: &mut Kv) -> Vec<Command> {
    run(kv, &[b"SET", b"large", &vec![0xff; 1_000_000]]);
    let words = [&[&b"BITOP"[..], b"AND", b"t"], &[&b"large"[..]; 20][..]].concat();
    vec![Command::new(&words); 3]
}

#[test]
fn the_commands_of_a_pack_have_their_work_together_and_the_rest_is_left() {
    let mut kv = Kv::default();
    let commands: Vec<_> = heavy(&mut kv).iter().map(Command::to_operation).collect();
    let result = kv.execute(&context(2), &pack(commands.iter().map(|command| &command[1..])));
    let replies = pack_replies(&result.into()).unwrap();
    assert_eq!(replies.len(), 1, "the others come again with the next operation");
    assert_eq!(Reply::decode(&replies[0]), Ok(Reply::Int(1_000_000)));
}

#[test]
fn the_commands_of_a_transaction_have_their_work_together() {
    let mut kv = Kv::default();
    let commands: Vec<_> = heavy(&mut kv).iter().map(Command::to_operation).collect();
    let operation = transaction(None, commands.iter().map(|command| &command[1..]));
    let result = kv.execute(&context(2), &operation);
    let replies = transaction_replies(&result.into()).unwrap().unwrap();
    let shown: Vec<_> = replies.iter().map(|reply| show(&Reply::decode(reply).unwrap())).collect();
    assert_eq!(shown[0], ":1000000");
    assert!(shown[1].starts_with(TOO_MUCH) && shown[2].starts_with(TOO_MUCH), "{shown:?}");
    // The next operation has its own.
    assert_eq!(ask(&mut kv, &[b"BITCOUNT", b"t"]), ":8000000");
}

#[test]
fn the_draws_of_a_transaction_differ() {
    let mut kv = Kv::default();
    fill(&mut kv, &[b"SADD", b"s"], 1000);
    let draw = Command::new(&["SRANDMEMBER", "s"]).to_operation();
    let operation = transaction(None, vec![&draw[1..]; 20].into_iter());
    let result = kv.execute(&context(2), &operation);
    let mut drawn = transaction_replies(&result.into()).unwrap().unwrap();
    drawn.sort_unstable();
    drawn.dedup();
    assert!(drawn.len() > 15, "{} of 20 differ", drawn.len());
}
