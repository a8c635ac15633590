//! Transactions, watches, waiting, publish and subscribe, and the leases under which they are.

use crate::support::{Dice, random_command, show, words};
use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, Slot};
use pentarchy_core::service::{Context, Service};
use pentarchy_services::kv::session::{
    Answer, LEASE_MILLIS, Notice, Request, Subscription, Topic, pack, pack_replies, transaction,
    transaction_replies,
};
use pentarchy_services::kv::{Command, Kv, Reply, SECTIONS};

/// A store, the time, and what gateways were told.
#[derive(Default)]
struct World {
    kv: Kv,
    now: u64,
    told: Vec<String>,
}

impl World {
    fn execute(&mut self, client: u8, operation: &[u8]) -> Bytes {
        let client = ClientId([client; 32]);
        let context = Context::new(Slot(1), 0, Millis(self.now), client, Digest::default());
        let result = self.kv.execute(&context, operation).into();
        for event in self.kv.take_events() {
            let told = match Notice::read(&event.body).unwrap() {
                Notice::Served { token, reply, .. } => format!("{token}={}", shown(&reply)),
                Notice::Message { channel, payload } => {
                    format!("{}<{}", text(&channel), text(&payload))
                }
            };
            self.told.push(format!("{}:{told}", event.client.0[0]));
        }
        result
    }

    /// One command, its words apart by spaces.
    fn ask(&mut self, line: &str) -> String {
        let operation = Command::new(&words(line)).to_operation();
        shown(&self.execute(99, &operation))
    }

    fn session(&mut self, client: u8, instance: u64, request: &Request) -> String {
        let result = self.execute(client, &request.to_operation(instance));
        match Answer::read(&result).unwrap() {
            Answer::Reply(reply) => shown(&reply),
            Answer::Waits => "waits".into(),
            Answer::NoSession => "gone".into(),
        }
    }

    fn open(&mut self, client: u8) -> u64 {
        self.session(client, 0, &Request::Open)[1..].parse().unwrap()
    }

    fn watch(&mut self, instance: u64, token: u64, keys: &[&str]) -> String {
        let keys = keys.iter().map(|key| Bytes::copy_from_slice(key.as_bytes())).collect();
        self.session(1, instance, &Request::Watch { token, keys })
    }

    fn block(&mut self, client: u8, instance: u64, token: u64, line: &str) -> String {
        let command = Command::new(&words(line));
        self.session(client, instance, &Request::Block { token, command })
    }

    fn exec(&mut self, watch: Option<(u64, u64)>, lines: &[&str]) -> String {
        let commands = encoded(lines);
        let operation = transaction(watch, commands.iter().map(|command| &command[1..]));
        let result = self.execute(1, &operation);
        match transaction_replies(&result).unwrap() {
            None => "aborted".into(),
            Some(replies) => replies.iter().map(shown).collect::<Vec<_>>().join(" "),
        }
    }

    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    /// The state as another replica gets it.
    fn transferred(&self) -> Self {
        let mut kv = Kv::default();
        for index in self.kv.filled_sections() {
            kv.restore_section(index, &self.kv.section(index)).unwrap();
            assert_eq!(kv.section(index), self.kv.section(index), "section {index}");
        }
        Self { kv, now: self.now, told: Vec::new() }
    }
}

fn encoded(lines: &[&str]) -> Vec<Bytes> {
    lines.iter().map(|line| Command::new(&words(line)).to_operation()).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown(reply: &Bytes) -> String {
    show(&Reply::decode(reply).unwrap())
}

fn subscribe(version: u64, subscriptions: &[(Topic, &'static str, u32)]) -> Request {
    let one = |(topic, name, count): &(Topic, &'static str, u32)| Subscription {
        topic: *topic,
        name: Bytes::from_static(name.as_bytes()),
        count: *count,
    };
    let subscriptions = subscriptions.iter().map(one).collect();
    Request::Update { version, subscriptions, watches: vec![], waiters: vec![] }
}

fn forget(watches: &[u64], waiters: &[u64]) -> Request {
    let (watches, waiters) = (watches.to_vec(), waiters.to_vec());
    Request::Update { version: 0, subscriptions: vec![], watches, waiters }
}

#[test]
fn a_pack_is_executed_in_order_and_ends_early_when_replies_are_large() {
    let mut world = World::default();
    let commands = encoded(&["SET a 1", "INCR a", "NONSENSE", "GET a"]);
    let result = world.execute(1, &pack(commands.iter().map(|command| &command[1..])));
    let replies: Vec<_> = pack_replies(&result).unwrap().iter().map(shown).collect();
    assert_eq!(replies[..2], ["OK", ":2"]);
    assert!(replies[2].starts_with("-ERR unknown command") && replies[3] == "\"2\"");
    let large = "v".repeat(40_000);
    world.ask(&format!("SET large {large}"));
    let commands = encoded(&["GET large", "INCR a", "GET large", "INCR a", "INCR a"]);
    let result = world.execute(1, &pack(commands.iter().map(|command| &command[1..])));
    assert_eq!(pack_replies(&result).unwrap().len(), 3);
    assert_eq!(world.ask("GET a"), "\"3\"", "what has no reply was not executed");
}

#[test]
fn a_transaction_fails_if_and_only_if_a_watched_key_changed() {
    for (change, wanted) in [
        ("SET a 2", "aborted"),
        ("SET a 1", "aborted"),
        ("DEL a", "aborted"),
        ("FLUSHALL", "aborted"),
        ("RENAME other a", "aborted"),
        ("INCR a", "aborted"),
        ("COPY other a REPLACE", "aborted"),
        ("GET a", "OK :2"),
        ("DEL none", "OK :2"),
        ("SET other 2", "OK :2"),
        ("SET a 2 NX", "OK :2"),
        ("LREM list 0 no", "OK :2"),
        ("LREM list 0 x", "aborted"),
        ("LPUSHX none x", "OK :2"),
    ] {
        let mut world = World::default();
        world.ask("MSET a 1 other 1");
        world.ask("RPUSH list x y");
        let session = world.open(1);
        assert_eq!(world.watch(session, 7, &["none", "a", "list"]), "OK");
        world.ask(change);
        let mut other = world.transferred();
        for world in [&mut world, &mut other] {
            let lines = ["SET t 1", "INCR t"];
            assert_eq!(world.exec(Some((session, 7)), &lines), wanted, "{change}");
            assert_eq!(world.exec(Some((session, 7)), &lines), "aborted", "watched once");
            assert_eq!(world.exec(None, &lines), "OK :2");
        }
    }
}

#[test]
fn a_watch_that_was_given_up_or_whose_session_ended_holds_nothing() {
    let mut world = World::default();
    let session = world.open(1);
    world.watch(session, 7, &["a"]);
    world.watch(session, 8, &["a", "b"]);
    assert_eq!(world.session(1, session, &forget(&[7], &[])), "OK");
    world.ask("SET a 1");
    assert_eq!(world.exec(Some((session, 7)), &[]), "aborted");
    assert_eq!(world.exec(Some((session, 8)), &["GET a"]), "aborted");
    world.watch(session, 9, &["c"]);
    let later = world.open(1);
    assert_eq!(world.exec(Some((session, 9)), &["GET a"]), "aborted");
    assert_eq!(world.watch(session, 9, &["c"]), "gone");
    assert_eq!(world.watch(later, 9, &["c"]), "OK");
}

#[test]
fn who_waits_is_served_in_the_order_of_coming_after_the_whole_command() {
    let mut world = World::default();
    let (one, two) = (world.open(1), world.open(2));
    assert_eq!(world.block(1, one, 1, "BLPOP a b 0"), "waits");
    assert_eq!(world.block(2, two, 1, "BRPOP b 0"), "waits");
    assert_eq!(world.block(1, one, 2, "BLPOP b 0"), "waits");
    let mut world = world.transferred();
    assert_eq!(world.ask("RPUSH b x y"), ":2");
    assert_eq!(world.told(), ["1:1=[\"b\" \"x\"]", "2:1=[\"b\" \"y\"]"]);
    assert_eq!(world.ask("EXISTS b"), ":0");
    // Only what is left at the end of a transaction is given away.
    assert_eq!(world.exec(None, &["RPUSH b 1", "DEL b", "RPUSH b 2"]), ":1 :1 :1");
    assert_eq!(world.told(), ["1:2=[\"b\" \"2\"]"]);
    assert_eq!(world.ask("RPUSH b z"), ":1");
    assert_eq!(world.block(1, one, 3, "BLPOP a b 0"), "[\"b\" \"z\"]");
    assert!(world.told().is_empty());
}

#[test]
fn moving_serves_the_next_and_types_that_do_not_fit_are_left_alone() {
    let mut world = World::default();
    let session = world.open(1);
    world.block(1, session, 1, "BLMOVE a b LEFT RIGHT 0");
    world.block(1, session, 2, "BRPOPLPUSH b c 0.1");
    world.block(1, session, 3, "BLMPOP 0 2 none c LEFT COUNT 5");
    world.ask("SET a string");
    assert!(world.told().is_empty());
    world.ask("DEL a");
    world.ask("LPUSH a x");
    assert_eq!(world.told(), ["1:1=\"x\"", "1:2=\"x\"", "1:3=[\"c\" [\"x\"]]"]);
    assert_eq!(world.ask("DBSIZE"), ":0");
    world.block(1, session, 4, "BLMOVE a s LEFT RIGHT 0");
    world.ask("SET s string");
    world.ask("RPUSH a 1 2");
    let told = world.told();
    assert!(told.len() == 1 && told[0].starts_with("1:4=-WRONGTYPE"), "{told:?}");
    assert_eq!(world.ask("LRANGE a 0 -1"), "[\"1\" \"2\"]");
    assert!(world.block(1, session, 5, "BLPOP s 0").starts_with("-WRONGTYPE"));
}

#[test]
fn sorted_sets_are_waited_for_too() {
    let mut world = World::default();
    let session = world.open(1);
    world.block(1, session, 1, "BZPOPMIN z 0");
    world.block(1, session, 2, "BZMPOP 0 1 z MAX COUNT 2");
    world.ask("RPUSH z x");
    world.ask("DEL z");
    assert!(world.told().is_empty(), "it was a list");
    world.ask("ZADD z 1 a 2 b 3 c 4 d");
    let told = world.told();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("1:1=[\"z\" \"a\" "), "{told:?}");
    assert_eq!(world.ask("ZRANGE z 0 -1"), "[\"b\"]");
    assert!(world.ask("BZPOPMAX none z 1").starts_with("[\"z\" \"b\" "));
    assert_eq!(world.ask("BZPOPMAX none z 1"), "nil[]");
}

#[test]
fn a_watched_key_that_ends_has_changed_and_one_that_had_ended_has_not() {
    let mut world = World { now: 1000, ..World::default() };
    let session = world.open(1);
    // More than are removed at a time, so that some are still there.
    for key in 0..100 {
        world.ask(&format!("SET old{key} v PX 10"));
    }
    world.ask("SET new v PX 500");
    world.now += 100;
    let old: Vec<_> = (0..100).map(|key| format!("old{key}")).collect();
    let old: Vec<_> = old.iter().map(String::as_str).collect();
    assert_eq!(world.watch(session, 1, &old), "OK");
    assert_eq!(world.watch(session, 2, &["new"]), "OK");
    assert_eq!(world.exec(Some((session, 1)), &["DBSIZE"]), ":1");
    world.now += 1000;
    assert_eq!(world.exec(Some((session, 2)), &["DBSIZE"]), "aborted");
}

#[test]
fn outside_a_session_nothing_waits() {
    let mut world = World::default();
    assert_eq!(world.ask("BLPOP a b 1"), "nil[]");
    assert_eq!(world.ask("BLMOVE a b LEFT LEFT 1"), "nil");
    assert_eq!(world.exec(None, &["RPUSH a 1 2", "BRPOP a 0"]), ":2 [\"a\" \"2\"]");
    assert_eq!(world.ask("BLMPOP 0 1 a LEFT"), "[\"a\" [\"1\"]]");
    for (line, wanted) in [
        ("BLPOP a x", "-ERR timeout is not a float or out of range"),
        ("BLPOP a nan", "-ERR timeout is not a float or out of range"),
        ("BLPOP a -1", "-ERR timeout is negative"),
        ("BLPOP a 1e300", "-ERR timeout is out of range"),
        ("BLMPOP 0 0 a LEFT", "-ERR numkeys should be greater than 0"),
        ("BLMPOP 0 3 a LEFT", "-ERR syntax error"),
        ("BLMPOP 0 1 a LEFT COUNT 0", "-ERR count should be greater than 0"),
        ("BLMOVE a b LEFT UP 0", "-ERR syntax error"),
        ("BLPOP a", "-ERR wrong number of arguments for 'blpop' command"),
    ] {
        assert_eq!(world.ask(line), wanted, "{line}");
    }
}

#[test]
fn who_does_not_wait_any_more_gets_nothing() {
    let mut world = World::default();
    let session = world.open(1);
    world.block(1, session, 1, "BLPOP a 0");
    world.block(1, session, 2, "BLPOP a 0");
    assert_eq!(world.session(1, session, &Request::Cancel { token: 1 }), ":1");
    assert_eq!(world.session(1, session, &Request::Cancel { token: 1 }), ":0");
    world.block(1, session, 3, "BLPOP a 0");
    assert_eq!(world.session(1, session, &forget(&[], &[2])), "OK");
    world.ask("RPUSH a x y");
    assert_eq!(world.told(), ["1:3=[\"a\" \"x\"]"]);
    assert_eq!(world.session(1, session, &Request::Cancel { token: 3 }), ":0");
}

#[test]
fn publishing_counts_connections_and_tells_every_gateway_once() {
    let mut world = World::default();
    let (one, two) = (world.open(1), world.open(2));
    let names = [(Topic::Channel, "news", 3), (Topic::Pattern, "n*", 1)];
    assert_eq!(world.session(1, one, &subscribe(1, &names)), "OK");
    assert_eq!(world.session(2, two, &subscribe(5, &[(Topic::Pattern, "n?ws", 2)])), "OK");
    // An update that comes after a later one changes nothing.
    assert_eq!(world.session(2, two, &subscribe(4, &[(Topic::Pattern, "n?ws", 9)])), "OK");
    let mut world = world.transferred();
    assert_eq!(world.ask("PUBLISH news hello"), ":6");
    assert_eq!(world.told(), ["1:news<hello", "2:news<hello"]);
    assert_eq!(world.ask("PUBLISH nothing x"), ":1");
    assert_eq!(world.ask("PUBLISH other x"), ":0");
    assert_eq!(world.told(), ["1:nothing<x"]);
    assert_eq!(world.ask("PUBSUB CHANNELS"), "[\"news\"]");
    assert_eq!(world.ask("PUBSUB CHANNELS x*"), "[]");
    assert_eq!(world.ask("PUBSUB NUMSUB news x"), "[\"news\" :3 \"x\" :0]");
    assert_eq!(world.ask("PUBSUB NUMPAT"), ":2");
    assert_eq!(world.session(1, one, &subscribe(2, &[(Topic::Channel, "news", 0)])), "OK");
    assert_eq!(world.ask("PUBLISH news again"), ":3");
}

#[test]
fn a_lease_ends_all_and_is_renewed_by_any_request() {
    let mut world = World::default();
    let (one, two) = (world.open(1), world.open(2));
    world.watch(one, 1, &["w"]);
    world.block(1, one, 2, "BLPOP a 0");
    world.session(1, one, &subscribe(1, &[(Topic::Channel, "c", 1)]));
    world.block(2, two, 2, "BLPOP a 0");
    world.now = LEASE_MILLIS;
    world.session(2, two, &forget(&[], &[]));
    world.now += 1;
    let mut world = world.transferred();
    assert_eq!(world.ask("PUBLISH c x"), ":0");
    world.ask("RPUSH a x");
    assert_eq!(world.told(), ["2:2=[\"a\" \"x\"]"]);
    assert_eq!(world.exec(Some((one, 1)), &["GET w"]), "aborted");
    assert_eq!(world.session(1, one, &forget(&[], &[])), "gone");
}

#[test]
fn a_session_is_bounded_and_gives_its_room_back() {
    let mut world = World::default();
    let session = world.open(1);
    let before = world.kv.section(SECTIONS - 1);
    let key = "k".repeat(60_000);
    let mut watched = 0;
    while world.watch(session, watched, &[&format!("{key}{watched}")]) == "OK" {
        watched += 1;
        assert!(watched < 1000, "there is no bound");
    }
    assert!(watched > 60, "{watched}");
    assert!(world.block(1, session, 1, &format!("BLPOP {key} 0")).starts_with("-ERR too much"));
    let tokens: Vec<_> = (0..watched).collect();
    assert_eq!(world.session(1, session, &forget(&tokens, &[])), "OK");
    assert_eq!(world.kv.section(SECTIONS - 1), before);
    assert_eq!(world.watch(session, 1, &[&key]), "OK");
}

#[test]
fn a_damaged_section_of_sessions_is_refused() {
    let mut world = World::default();
    let session = world.open(1);
    world.watch(session, 1, &["w", "x"]);
    world.block(1, session, 2, "BLPOP a 0");
    world.session(1, session, &subscribe(1, &[(Topic::Channel, "c", 1)]));
    let bytes = world.kv.section(SECTIONS - 1);
    for cut in 0..bytes.len() {
        let restored = Kv::default().restore_section(SECTIONS - 1, &bytes[..cut]);
        assert!(restored.is_err(), "cut at {cut}");
    }
    assert!(Kv::default().restore_section(SECTIONS - 1, &[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn random_sessions_are_the_same_after_every_transfer() {
    let mut dice = Dice(8);
    let mut world = World::default();
    let mut instances = [world.open(0), world.open(1), world.open(2)];
    for round in 0..3000u64 {
        let mut other = if round % 50 == 0 { Some(world.transferred()) } else { None };
        let client = dice.roll(3) as u8;
        let instance = instances[client as usize];
        let token = dice.roll(8);
        let key = || Bytes::from_static(b"a");
        let operation = match dice.roll(8) {
            0 => Request::Watch { token, keys: vec![key()] }.to_operation(instance),
            1 => {
                let line = ["BLPOP a b 0", "BLMOVE c a LEFT LEFT 0", "BLMPOP 0 2 a d RIGHT"];
                let command = Command::new(&words(dice.pick(&line)));
                Request::Block { token, command }.to_operation(instance)
            }
            2 => forget(&[token], &[dice.roll(8)]).to_operation(instance),
            3 => subscribe(round, &[(Topic::Channel, "c", dice.roll(3) as u32)])
                .to_operation(instance),
            4 => Command::new(&["PUBLISH", "c", "x"]).to_operation(),
            5 => {
                let commands = encoded(&["RPUSH a 1", "RPUSH b 2"]);
                let commands = commands.iter().map(|command| &command[1..]);
                transaction(Some((instance, token)), commands)
            }
            _ => Command::new(&random_command(&mut dice)).to_operation(),
        };
        world.now += dice.roll(20) * 100;
        if dice.roll(200) == 0 {
            world.now += LEASE_MILLIS;
        }
        let result = world.execute(client, &operation);
        let told = world.told();
        if let Some(other) = &mut other {
            other.now = world.now;
            assert_eq!(other.execute(client, &operation), result);
            assert_eq!(other.told(), told);
            let (one, two) = (world.kv.section(SECTIONS - 1), other.kv.section(SECTIONS - 1));
            assert_eq!(one, two);
        }
        if result == [2][..] {
            instances[client as usize] = world.open(client);
        }
    }
}

#[test]
fn what_ends_makes_room_and_known_names_cost_nothing_more() {
    let mut world = World::default();
    let session = world.open(1);
    let name = |index: u8| Bytes::from(vec![index; 60_000]);
    let update = |version, names: &[(u8, u32)]| Request::Update {
        version,
        subscriptions: names
            .iter()
            .map(|(index, count)| Subscription {
                topic: Topic::Channel,
                name: name(*index),
                count: *count,
            })
            .collect(),
        watches: vec![],
        waiters: vec![],
    };
    // As many as fit, in pieces as a gateway sends them.
    for first in (0..65).step_by(5) {
        let names: Vec<_> = (first..first + 5).map(|index| (index, 1)).collect();
        assert_eq!(world.session(1, session, &update(1 + u64::from(first), &names)), "OK");
    }
    let refused = world.session(
        1,
        session,
        &update(100, &[(70, 1), (71, 1), (72, 1), (73, 1), (74, 1), (0, 2)]),
    );
    assert!(refused.starts_with("-ERR too much"), "{refused}");
    let known: Vec<_> = (0..10).map(|index| (index, 3)).collect();
    assert_eq!(world.session(1, session, &update(101, &known)), "OK");
    let changed =
        [(80, 1), (81, 1), (82, 1), (83, 1), (84, 1), (0, 0), (1, 0), (2, 0), (3, 0), (4, 0)];
    assert_eq!(world.session(1, session, &update(102, &changed)), "OK");
    let long = Subscription { topic: Topic::Pattern, name: vec![b'x'; 65_537].into(), count: 1 };
    let update = Request::Update {
        version: 103,
        subscriptions: vec![long],
        watches: vec![],
        waiters: vec![],
    };
    assert!(world.session(1, session, &update).starts_with("-ERR key is longer"));
}

#[test]
fn every_reply_of_a_transaction_fits_however_many_fail() {
    let mut world = World::default();
    world.ask(&format!("SET large {}", "v".repeat(900_000)));
    let mut lines = vec!["GET large"; 2];
    lines.extend(vec!["GET"; 20_000]);
    let commands = encoded(&lines);
    let operation = transaction(None, commands.iter().map(|command| &command[1..]));
    let result = world.execute(1, &operation);
    assert!(result.len() < (3 << 19) + 5 + 4 * lines.len(), "{}", result.len());
    let replies = transaction_replies(&result).unwrap().unwrap();
    assert!(shown(&replies[1]).contains("executed, but the reply does not fit"));
    assert_eq!(shown(replies.last().unwrap()), "-ERR reply does not fit");
}

#[test]
fn who_waits_for_another_type_is_passed_over_and_who_waits_for_this_one_served() {
    let mut world = World::default();
    let session = world.open(1);
    world.block(1, session, 1, "BZPOPMIN k 0");
    world.block(1, session, 2, "BLPOP k 0");
    world.block(1, session, 3, "BZPOPMAX k 0");
    world.block(1, session, 4, "BRPOP k 0");
    let mut world = world.transferred();
    world.ask("RPUSH k x y");
    assert_eq!(world.told(), ["1:2=[\"k\" \"x\"]", "1:4=[\"k\" \"y\"]"]);
    world.ask("ZADD k 1 a");
    assert!(world.told()[0].starts_with("1:1="));
}

#[test]
fn a_session_that_is_closed_holds_nothing() {
    let mut world = World::default();
    let session = world.open(1);
    world.block(1, session, 1, "BLPOP a 0");
    assert_eq!(world.session(1, session, &Request::Close), "OK");
    world.ask("RPUSH a x");
    assert!(world.told().is_empty());
    assert_eq!(world.session(1, session, &Request::Close), "gone");
}
