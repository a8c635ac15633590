//! Transactions, waiting, publish and subscribe: the same scripts to the gateway and to a real
//! Redis, and what only the gateway has to do.

use crate::redis::Redis;
use crate::support::{Client, Held, Local, config, local, next, request, show, start};
use pentarchy_gateways::resp::{GatewayConfig, Password};
use pentarchy_services::kv::session::LEASE_MILLIS;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Runs a script: `1> WORDS` sends on the first connection and shows the reply, `1! WORDS` sends
/// and waits until the connection is blocked, `1:` shows one more reply or message. A ` | ` ends a
/// line.
fn play(address: SocketAddr, script: &str) -> Vec<String> {
    let mut observer = Client::connect(address);
    observer.ask("FLUSHALL");
    let mut clients: Vec<_> = (0..4).map(|_| Client::connect(address)).collect();
    let mut said = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let client = &mut clients[usize::from(line.as_bytes()[0] - b'1')];
        let words = line[2..].trim();
        if !words.is_empty() {
            client.send(format!("{words}\r\n").replace(" | ", "\r\n").as_bytes());
        }
        if line.as_bytes()[1] == b'!' {
            wait_until_blocked(&mut observer);
        } else {
            said.push(format!("{line} => {}", client.read_any()));
        }
    }
    said
}

/// Every `!` blocks one more connection; scripts unblock one before they block the next.
fn wait_until_blocked(observer: &mut Client) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while observer.ask("INFO clients").contains("blocked_clients:0") {
        assert!(Instant::now() < deadline, "nobody is blocked");
    }
}

#[test]
fn scripts_get_the_replies_of_a_real_redis() {
    let redis = Redis::start();
    let gateway = local();
    let mut differences = Vec::new();
    for script in SCRIPTS {
        let (wanted, got) = (play(redis.address, script), play(gateway.address, script));
        let pairs = wanted.iter().zip(&got).filter(|(wanted, got)| wanted != got);
        differences.extend(pairs.map(|(wanted, got)| format!("redis {wanted}\n ours {got}\n")));
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}

const SCRIPTS: &[&str] = &[
    // Transactions.
    "1> MULTI
     1> SET a 1
     1> INCR a
     1> PING
     1> LPUSH a x
     1> ECHO hi
     1> GET a
     2> GET a
     1> EXEC
     2> GET a
     1> EXEC
     1> DISCARD
     1> MULTI
     1> MULTI
     1> WATCH a
     1> NONSENSE
     1> GET a
     1> EXEC
     1> MULTI
     1> GET
     1> EXEC
     1> MULTI
     1> SET a 5
     1> DISCARD
     1> GET a
     1> MULTI
     1> EXEC
     1> MULTI
     1> SELECT 0
     1> BLPOP none 0
     1> BLMOVE none to LEFT LEFT 0
     1> BLPOP none x
     1> UNWATCH
     1> CLIENT GETNAME
     1> RPUSH l a b c
     1> BRPOP l 0
     1> EXEC",
    // Watched keys.
    "1> SET a 1
     1> WATCH a b
     1> MULTI
     1> SET a 2
     1> EXEC
     1> WATCH a b
     2> SET b 1
     1> MULTI
     1> SET a 3
     1> EXEC
     1> GET a
     1> WATCH a
     1> SET a 4
     1> MULTI
     1> GET a
     1> EXEC
     1> WATCH a
     2> SET a 5
     1> UNWATCH
     1> MULTI
     1> GET a
     1> EXEC
     1> WATCH a none
     2> DEL none
     2> GET a
     2> LPUSHX none x
     1> MULTI
     1> GET a
     1> EXEC
     1> WATCH a
     2> SET a 6
     1> MULTI
     1> DISCARD
     1> MULTI
     1> GET a
     1> EXEC
     1> WATCH a
     2> FLUSHALL
     1> MULTI
     1> PING
     1> EXEC
     1> WATCH a
     2> FLUSHALL
     1> MULTI
     1> PING
     1> EXEC
     1> WATCH
     1> EXEC x",
    // Waiting.
    "1! BLPOP q r 20
     2> RPUSH r x y
     1:
     1> LRANGE r 0 -1
     1> BLPOP q r 20
     1! BLMOVE q t LEFT RIGHT 20
     2> LPUSH q z
     1:
     2> LRANGE t 0 -1
     1> BLPOP q 0.01
     1> BLMOVE q t LEFT LEFT 0.01
     1> BRPOPLPUSH q t 0.01
     1> BLMPOP 0.01 1 q LEFT
     1! BLMPOP 20 2 q u RIGHT COUNT 2
     2> RPUSH u 1 2 3
     1:
     2> LRANGE u 0 -1
     2> SET s x
     1> BLPOP s 0
     1! BLPOP s2 20
     2> SET s2 x
     2> DEL s2
     2> MULTI
     2> RPUSH s2 1
     2> DEL s2
     2> RPUSH s2 2 3
     2> EXEC
     1:
     1> BLPOP q -1
     1> BLPOP q x
     1> BLPOP q
     1> BLMPOP 1 0 q LEFT
     1> BLMOVE q t UP LEFT 0
     1! BRPOPLPUSH q s 20
     2> RPUSH q x
     1:
     2> LRANGE q 0 -1",
    // Messages, version 2.
    "1> SUBSCRIBE a b
     1:
     1> PSUBSCRIBE c* a
     1:
     1> GET x
     1> PING
     1> PING hello
     2> PUBLISH a one
     1:
     1:
     2> PUBLISH cat two
     1:
     2> PUBLISH none three
     2> PUBSUB CHANNELS b*
     2> PUBSUB NUMPAT
     2> PUBSUB NUMSUB a none
     1> UNSUBSCRIBE a none
     1:
     2> PUBLISH a four
     1:
     1> UNSUBSCRIBE
     1> UNSUBSCRIBE
     1> PUNSUBSCRIBE c*
     1> PUNSUBSCRIBE
     1> GET x
     1> SUBSCRIBE a
     1> RESET
     1> GET x
     2> PUBSUB CHANNELS
     2> PUBLISH a",
    // Messages, version 3.
    "1> CLIENT SETNAME me
     1> HELLO 3 SETNAME you
     1> CLIENT GETNAME
     1> GET none
     1> BLPOP none 0.01
     1> SUBSCRIBE a
     1> PSUBSCRIBE *
     1> GET none
     1> PING
     2> PUBLISH a x
     1:
     1:
     1> MULTI
     1> GET none
     1> EXEC
     1> WATCH w
     2> SET w 1
     1> MULTI
     1> EXEC
     1> UNSUBSCRIBE
     1> RESET
     1> GET none",
    // What a client does not want to see.
    "1> CLIENT REPLY ON
     1> SET a 1
     1> CLIENT REPLY SKIP | GET a | GET a
     1> CLIENT REPLY OFF | GET a | SET a 2 | CLIENT REPLY ON
     1> GET a
     1> CLIENT REPLY MAYBE",
];

#[test]
fn a_slow_subscriber_is_closed_and_others_are_not() {
    let gateway = start(GatewayConfig { output_bytes_max: 1 << 20, ..config() }, Local::default());
    let mut slow = Client::connect(gateway.address);
    let mut quick = Client::connect(gateway.address);
    let mut publisher = Client::connect(gateway.address);
    slow.ask("SUBSCRIBE c");
    quick.ask("SUBSCRIBE c");
    let payload = vec![b'v'; 500_000];
    let mut receivers = String::new();
    // What the sockets hold is for the system to say.
    for _ in 0..200 {
        receivers = show(&publisher.call(&[b"PUBLISH", b"c", &payload]));
        if receivers == ":1" {
            break;
        }
        assert!(quick.read().is_some());
    }
    assert_eq!(receivers, ":1", "the slow one is still there");
    assert!(quick.read().is_some());
}

#[test]
fn who_is_gone_takes_no_element_and_holds_no_key() {
    let store = Local::default();
    let gateway = start(config(), store.clone());
    let mut observer = Client::connect(gateway.address);
    let mut gone = Client::connect(gateway.address);
    gone.send(b"SUBSCRIBE c\r\n");
    gone.read_any();
    drop(gone);
    let mut gone = Client::connect(gateway.address);
    gone.send(b"BLPOP q 0\r\n");
    wait_until_blocked(&mut observer);
    drop(gone);
    let deadline = Instant::now() + Duration::from_secs(20);
    while observer.ask("INFO clients").contains("blocked_clients:1")
        || observer.ask("PUBLISH c x") == ":1"
    {
        assert!(Instant::now() < deadline, "the gone are still there");
    }
    assert_eq!(observer.ask("RPUSH q x"), ":1");
    assert_eq!(observer.ask("LLEN q"), ":1");
}

#[test]
fn lost_messages_and_a_lost_session_are_told() {
    let store = Local::default();
    let gateway = start(config(), store.clone());
    let mut observer = Client::connect(gateway.address);
    let mut subscriber = Client::connect(gateway.address);
    let mut waiter = Client::connect(gateway.address);
    subscriber.ask("SUBSCRIBE c");
    waiter.send(b"BLPOP q 0\r\n");
    wait_until_blocked(&mut observer);
    store.lose();
    let line = subscriber.read_any();
    assert!(line.contains("published messages may have been lost"), "{line}");
    subscriber.expect_end();
    let line = waiter.read_any();
    assert!(line.contains("lost its session"), "{line}");
    // The replicas end it when they hear nothing for too long; the next tick notices.
    waiter.send(b"BLPOP q 0\r\n");
    wait_until_blocked(&mut observer);
    observer.send(b"WATCH w\r\n");
    assert!(observer.read_any().contains("OK"));
    store.pass(LEASE_MILLIS + 1000);
    assert_eq!(observer.ask("MULTI"), "+OK");
    assert_eq!(observer.ask("GET w"), "+QUEUED");
    assert_eq!(observer.ask("EXEC"), "nil");
    let line = waiter.read_any();
    assert!(line.contains("lost its session"), "{line}");
}

#[test]
fn a_session_lives_as_long_as_its_gateway_and_two_gateways_share_a_store() {
    let store = Local::default();
    let (one, two) = (start(config(), store.clone()), start(config(), store.client(2)));
    let mut first = Client::connect(one.address);
    let mut second = Client::connect(two.address);
    let mut observer = Client::connect(two.address);
    second.ask("SUBSCRIBE c");
    first.send(b"BLPOP q 0\r\n");
    let mut here = Client::connect(one.address);
    wait_until_blocked(&mut here);
    // Long enough for ticks to be needed, in steps that they can follow.
    for _ in 0..4 {
        store.pass(LEASE_MILLIS - 5000);
        std::thread::sleep(Duration::from_millis(1200));
    }
    assert_eq!(here.ask("PUBLISH c x"), ":1");
    assert!(second.read_any().contains("message"));
    assert_eq!(observer.ask("RPUSH q x"), ":1");
    first.expect("*2\r\n$1\r\nq\r\n$1\r\nx\r\n");
}

#[test]
fn without_the_password_nothing_is_answered() {
    let password = Some(Password::new(b"secret"));
    let gateway = start(GatewayConfig { password, ..config() }, Local::default());
    let mut client = Client::connect(gateway.address);
    for line in ["GET a", "PING", "INFO", "SUBSCRIBE c", "MULTI", "CLIENT LIST", "CONFIG GET *"] {
        assert_eq!(client.ask(line), "-NOAUTH Authentication required.", "{line}");
    }
    assert!(client.ask("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    for line in ["AUTH wrong", "AUTH default wrong", "AUTH other secret", "HELLO 2 AUTH default x"]
    {
        assert_eq!(client.ask(line), wrong, "{line}");
    }
    assert_eq!(client.ask("GET a"), "-NOAUTH Authentication required.");
    assert_eq!(client.ask("AUTH secret"), "+OK");
    assert_eq!(client.ask("GET a"), "nil");
    assert_eq!(client.ask("RESET"), "+RESET");
    assert_eq!(client.ask("GET a"), "-NOAUTH Authentication required.");
    assert!(client.ask("HELLO 2 AUTH default secret SETNAME me").contains("\"proto\" :2"));
    assert_eq!(client.ask("CLIENT GETNAME"), "\"me\"");
}

#[test]
fn a_password_is_guessed_slowly_also_by_those_who_do_not_wait() {
    let password = Some(Password::new(b"secret"));
    let config = GatewayConfig { password, connections_max: 4, ..config() };
    let gateway = start(config, Local::default());
    let started = Instant::now();
    let mut client = Client::connect(gateway.address);
    client.send(&b"AUTH wrong\r\n".repeat(1000));
    for _ in 0..3 {
        assert!(show(&client.read().expect("a reply")).starts_with("-WRONGPASS"));
    }
    assert!(started.elapsed() >= Duration::from_secs(3), "one guess a second");
    // A client that leaves without an answer keeps its place for as long, so that it gets no more
    // places. On a busy machine the first place may be free again before the last is taken, so the
    // client tries more than once.
    let is_full = || {
        for _ in 0..3 {
            Client::connect(gateway.address).send(b"AUTH wrong\r\n");
        }
        std::thread::sleep(Duration::from_millis(200));
        let answer = Client::connect(gateway.address).ask("PING");
        answer == "-ERR max number of clients reached"
    };
    assert!((0..10).any(|_| is_full()), "each client that left gave its place back at once");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(Client::connect(gateway.address).ask("AUTH secret"), "+OK");
}

#[test]
fn a_connection_is_killed_by_another() {
    let gateway = local();
    let mut one = Client::connect(gateway.address);
    let mut two = Client::connect(gateway.address);
    assert_eq!(one.ask("CLIENT ID"), ":1");
    assert_eq!(two.ask("CLIENT KILL ID 1"), ":1");
    one.expect_end();
    assert_eq!(two.ask("CLIENT KILL ID 2 SKIPME no"), ":1");
    two.expect_end();
}

#[test]
fn a_waiting_command_whose_replicas_are_silent_is_told_so() {
    let (held, waiting) = Held::new();
    let reply_timeout = Duration::from_millis(300);
    let gateway = start(GatewayConfig { reply_timeout, ..config() }, held);
    let mut client = Client::connect(gateway.address);
    client.send(b"BLPOP q 0\r\n");
    let _block = next(&waiting);
    let line = client.read_any();
    let wanted = "timed out waiting for the replicas; it may still take an element, also after \
                  later commands";
    assert!(line.contains(wanted), "{line}");
}

#[test]
fn names_too_long_and_too_many_are_refused_and_nobody_is_left_in_silence() {
    let gateway = local();
    let mut publisher = Client::connect(gateway.address);
    let long = vec![b'n'; (64 << 10) + 1];
    let refused = show(&publisher.call(&[b"SUBSCRIBE", &long]));
    assert!(refused.starts_with("-ERR name is longer"), "{refused}");
    let name = |index: u8| vec![b'A' + index; 60_000];
    let (mut subscribed, mut refused) = (Vec::new(), 0);
    for index in 0..48 {
        let mut client = Client::connect(gateway.address);
        client.send(&request(&[b"SUBSCRIBE", &name(index), &[index; 60_000]]));
        match client.read() {
            Some(frame) if show(&frame).starts_with("[\"subscribe") => {
                client.read();
                subscribed.push((index, client));
            }
            _ => refused += 1,
        }
    }
    assert!(refused > 0 && subscribed.len() > 30, "{refused} refused");
    for (index, client) in &mut subscribed {
        publisher.call(&[b"PUBLISH", &name(*index), b"x"]);
        assert!(client.read_any().contains("message"), "{index}");
    }
}

#[test]
fn a_transaction_fails_if_the_session_of_its_first_watch_was_lost() {
    let store = Local::default();
    let gateway = start(config(), store.clone());
    let mut client = Client::connect(gateway.address);
    assert_eq!(client.ask("WATCH a"), "+OK");
    store.lose();
    assert_eq!(client.ask("WATCH b"), "+OK");
    for wanted in ["nil", "[nil]"] {
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask("GET a"), "+QUEUED");
        assert_eq!(client.ask("EXEC"), wanted);
        // What was watched is forgotten with it.
        assert_eq!(client.ask("WATCH b"), "+OK");
    }
    store.lose();
    assert_eq!(client.ask("UNWATCH"), "+OK");
    assert_eq!(client.ask("WATCH b"), "+OK");
    assert_eq!(client.ask("MULTI"), "+OK");
    assert_eq!(client.ask("EXEC"), "[]");
}

#[test]
fn a_gateway_that_ends_takes_no_more_elements_and_a_new_one_ends_an_old_session() {
    use pentarchy_services::kv::Command;
    use pentarchy_services::kv::session::Request;
    let store = Local::default();
    let other = start(config(), store.client(2));
    let mut observer = Client::connect(other.address);
    let gateway = start(config(), store.clone());
    let mut here = Client::connect(gateway.address);
    let mut waiter = Client::connect(gateway.address);
    waiter.send(b"BLPOP q 0\r\n");
    wait_until_blocked(&mut here);
    gateway.stop();
    assert_eq!(observer.ask("RPUSH q x"), ":1");
    assert_eq!(observer.ask("DEL q"), ":1");
    // As if a gateway of this key had crashed.
    let opened = store.execute(&Request::Open.to_operation(0));
    let instance = u64::from(opened[2]);
    let command = Command::new(&["BLPOP", "q", "0"]);
    store.execute(&Request::Block { token: 1, command }.to_operation(instance));
    let gateway = start(config(), store.clone());
    Client::connect(gateway.address).ask("PING");
    assert_eq!(observer.ask("RPUSH q x"), ":1");
    assert_eq!(observer.ask("LLEN q"), ":1");
}

#[test]
fn a_client_that_vanishes_behind_a_full_pipeline_takes_no_element() {
    let store = Local::default();
    let gateway = start(GatewayConfig { pipeline_max: 4, ..config() }, store.clone());
    let mut observer = Client::connect(gateway.address);
    let mut gone = Client::connect(gateway.address);
    gone.send(b"BLPOP q 0\r\n");
    gone.send(&b"GET a\r\n".repeat(100));
    wait_until_blocked(&mut observer);
    drop(gone);
    let deadline = Instant::now() + Duration::from_secs(20);
    while observer.ask("INFO clients").contains("blocked_clients:1") {
        assert!(Instant::now() < deadline, "the gone is still there");
    }
    assert_eq!(observer.ask("RPUSH q x"), ":1");
    assert_eq!(observer.ask("LLEN q"), ":1");
}

#[test]
fn replies_made_here_in_a_transaction_are_bounded() {
    let gateway = local();
    let mut client = Client::connect(gateway.address);
    client.ask("MULTI");
    for _ in 0..300 {
        client.ask("COMMAND DOCS");
    }
    let reply = show(&client.call(&[b"EXEC"]));
    assert!(reply.contains("-ERR not executed: the gateway's own replies"));
    assert!(reply.len() < 4 << 20, "{}", reply.len());
}

#[test]
fn a_connection_has_a_share_of_the_session_only() {
    let gateway = local();
    let mut client = Client::connect(gateway.address);
    let name = |index: u8| vec![b'a' + index; 60_000];
    for command in ["WATCH", "SUBSCRIBE"] {
        let names: Vec<_> = (0..5).map(name).collect();
        let mut words = vec![command.as_bytes()];
        words.extend(names.iter().map(Vec::as_slice));
        let reply = show(&client.call(&words));
        assert!(reply.starts_with("-ERR a connection may watch"), "{command}");
        assert!(!show(&client.call(&words[..4])).starts_with('-'), "{command}");
        if command == "WATCH" {
            assert!(show(&client.call(&words[..4])).starts_with("-ERR a connection may watch"));
            client.ask("UNWATCH");
            assert_eq!(show(&client.call(&words[..4])), "+OK");
        }
    }
}

#[test]
fn little_is_read_from_who_has_not_said_the_password() {
    let password = Some(Password::new(b"secret"));
    let gateway = start(GatewayConfig { password, ..config() }, Local::default());
    for (request, why) in [
        (&b"*11\r\n"[..], "unauthenticated multibulk length"),
        (b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", "unauthenticated bulk length"),
    ] {
        let mut client = Client::connect(gateway.address);
        client.send(request);
        assert!(client.read_any().contains(why), "{why}");
        client.expect_end();
    }
    let mut strangers: Vec<_> = (0..256).map(|_| Client::connect(gateway.address)).collect();
    strangers.iter_mut().for_each(|client| assert!(client.ask("GET a").starts_with("-NOAUTH")));
    assert_eq!(Client::connect(gateway.address).ask("PING"), "-ERR max number of clients reached");
    assert_eq!(strangers[0].ask("AUTH secret"), "+OK");
    assert!(strangers[0].ask("MGET 1 2 3 4 5 6 7 8 9 10").starts_with("[nil"));
    assert!(Client::connect(gateway.address).ask("GET a").starts_with("-NOAUTH"));
}
