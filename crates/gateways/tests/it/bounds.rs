//! What a gateway refuses, and that it lives on.

use crate::support::{Client, Held, Local, config, local, next, request, show, start};
use bytes::Bytes;
use pentarchy_gateways::resp::{Gateway, GatewayConfig, GatewayError};
use pentarchy_services::kv::Reply;
use redis_protocol::resp2::types::OwnedFrame;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

#[tokio::test]
async fn it_listens_on_loopback_only_and_says_what_to_do() {
    for address in ["0.0.0.0:0", "[::]:0", "192.168.1.1:6379"] {
        let config = GatewayConfig { listen: address.parse().unwrap(), ..config() };
        let Err(error) = Gateway::bind(config, Local::default()).await else {
            panic!("{address} was accepted")
        };
        assert!(matches!(error, GatewayError::NotLoopback(_)));
        assert!(error.to_string().contains("beside each application"), "{error}");
    }
    let zero = GatewayConfig { pipeline_max: 0, ..config() };
    assert!(matches!(
        Gateway::bind(zero, Local::default()).await,
        Err(GatewayError::ZeroBound("pipeline_max"))
    ));
}

#[test]
fn too_many_connections_are_told_so() {
    let gateway = start(GatewayConfig { connections_max: 2, ..config() }, Local::default());
    let mut first = Client::connect(gateway.address);
    let mut second = Client::connect(gateway.address);
    assert_eq!((first.ask("PING"), second.ask("PING")), ("+PONG".into(), "+PONG".into()));
    let mut third = Client::connect(gateway.address);
    third.expect("-ERR max number of clients reached\r\n");
    third.expect_end();
    second.send(b"QUIT\r\n");
    second.expect("+OK\r\n");
    second.expect_end();
    // The place is free once the gateway has let go of it, which takes a moment.
    let free = (0..200).any(|_| {
        let mut another = Client::connect(gateway.address);
        another.stream.write_all(b"PING\r\n").is_ok()
            && another.read() == Some(OwnedFrame::SimpleString(b"PONG".to_vec()))
    });
    assert!(free);
    assert_eq!(first.ask("PING"), "+PONG");
}

#[test]
fn requests_that_break_the_protocol_are_answered_after_what_came_before() {
    let gateway = local();
    for (bytes, why) in [
        (&b"*1\r\n$536870913\r\n"[..], "invalid bulk length"),
        (b"*1\r\n$-5\r\n", "invalid bulk length"),
        (b"*2000000\r\n", "invalid multibulk length"),
        (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
    ] {
        let mut client = Client::connect(gateway.address);
        client.send(b"INCR n\r\nPING\r\n");
        client.send(bytes);
        let OwnedFrame::Integer(_) = client.read().unwrap() else { panic!("an integer") };
        client.expect(&format!("+PONG\r\n-ERR Protocol error: {why}\r\n"));
        client.expect_end();
    }
    assert_eq!(Client::connect(gateway.address).ask("PING"), "+PONG");
}

#[test]
fn deep_nesting_and_noise_do_no_harm() {
    let gateway = local();
    let mut seed = 11u64;
    for round in 0..50 {
        let mut client = Client::connect(gateway.address);
        let noise: Vec<u8> = if round == 0 {
            b"*1\r\n".repeat(100_000)
        } else {
            (0..2000)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    b"*$+:\r\n0123456789 abc\"\x00\xff"[(seed >> 40) as usize % 23]
                })
                .collect()
        };
        // The gateway may close before it has read all.
        let _ = client.stream.write_all(&noise);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        let _ = client.stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(Client::connect(gateway.address).ask("PING"), "+PONG");
}

#[test]
fn the_largest_value_goes_in_and_comes_out() {
    let gateway = local();
    let mut client = Client::connect(gateway.address);
    let value = vec![b'v'; (1 << 20) - 64];
    assert_eq!(client.ask("PING"), "+PONG");
    let stored = client.call(&[b"SET", b"key", &value]);
    assert_eq!(stored, OwnedFrame::SimpleString(b"OK".to_vec()));
    assert_eq!(client.call(&[b"GET", b"key"]), OwnedFrame::BulkString(value.clone()));
    client.send(&request(&[b"MSET", b"a", &value, b"b", &value]));
    client.expect("-ERR command is larger than 1048576 bytes; not executed\r\n");
}

#[test]
fn a_command_that_is_too_large_is_refused_and_the_connection_goes_on() {
    let gateway = local();
    let mut client = Client::connect(gateway.address);
    let too_large = "-ERR command is larger than 1048576 bytes; not executed";
    for bytes in [(1 << 20) - 20, (1 << 20) + 1, 20_000_000] {
        let reply = client.call(&[b"SET", b"large", &vec![b'*'; bytes], b"NX"]);
        assert_eq!(show(&reply), too_large, "{bytes}");
        assert_eq!(client.ask("EXISTS large"), ":0");
    }
    assert_eq!((client.ask("MULTI"), client.ask("SET a 1")), ("+OK".into(), "+QUEUED".into()));
    assert_eq!(show(&client.call(&[b"SET", b"b", &vec![b'v'; 2_000_000]])), too_large);
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.ask("EXISTS a b"), ":0");
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody_and_is_bounded() {
    let gateway = local();
    let mut writer = Client::connect(gateway.address);
    writer.call(&[b"SET", b"large", &vec![b'v'; 1_000_000]]);
    let mut deaf = Client::connect(gateway.address);
    deaf.stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    // The gateway reads on only while there is room for replies, so the sending gets stuck.
    let requests = b"GET large\r\n".repeat(1000);
    let stuck = (0..10_000).any(|_| {
        deaf.stream
            .write_all(&requests)
            .is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    });
    assert!(stuck, "ten million requests were taken in without a reply being read");
    assert_eq!(writer.ask("STRLEN large"), ":1000000");
}

#[test]
fn a_command_whose_result_does_not_come_is_given_up_and_the_order_kept() {
    let (held, waiting) = Held::new();
    let short = GatewayConfig { reply_timeout: Duration::from_millis(300), ..config() };
    let gateway = start(short, held);
    let mut client = Client::connect(gateway.address);
    client.send(b"GET a\r\nPING\r\nGET b\r\n");
    let (_, lost) = next(&waiting);
    let late = "-ERR timed out waiting for the replicas; it may still be executed, until a later \
                command on keys succeeds here\r\n";
    client.expect(&format!("{late}+PONG\r\n{late}"));
    // What comes too late is nobody's reply.
    lost.complete(Ok(Reply::Int(7).encode().into()));
    client.send(b"GET c\r\n");
    next(&waiting).1.complete(Ok(Reply::Int(8).encode().into()));
    client.expect(":8\r\n");
}

#[test]
fn what_is_given_up_keeps_its_share_and_later_commands_are_refused_in_time() {
    let (held, waiting) = Held::new();
    let reply_timeout = Duration::from_millis(300);
    let gateway = start(GatewayConfig { outstanding_max: 1, reply_timeout, ..config() }, held);
    let mut client = Client::connect(gateway.address);
    client.send(b"GET a\r\n");
    let (_, under_way) = next(&waiting);
    client.send(b"GET b\r\nPING\r\nGET c\r\n");
    for wanted in ["-ERR timed out", "-BUSY ", "+PONG", "-BUSY "] {
        let line = show(&client.read().expect("a reply"));
        assert!(line.starts_with(wanted), "{line}, not {wanted}");
    }
    assert!(waiting.try_recv().is_err(), "a second is not submitted");
    under_way.complete(Ok(Reply::Int(1).encode().into()));
    client.send(b"GET e\r\n");
    next(&waiting).1.complete(Ok(Reply::Int(2).encode().into()));
    client.expect(":2\r\n");
}

#[test]
fn few_large_results_and_many_small_ones_are_under_way_in_all_connections() {
    let (held, waiting) = Held::new();
    let gateway = start(GatewayConfig { results_bytes_max: 1 << 20, ..config() }, held);
    let large: Bytes = Reply::Bulk(vec![b'v'; 300_000].into()).encode().into();
    let small: Bytes = Reply::Nil.encode().into();
    let mut clients: Vec<_> = (0..10).map(|_| Client::connect(gateway.address)).collect();
    let mut modest = Client::connect(gateway.address);
    for client in &mut clients {
        // How large it is going to be shows with the first.
        client.send(b"GET key\r\n");
        next(&waiting).1.complete(Ok(large.clone()));
        assert!(client.read().is_some());
    }
    modest.send(b"GET key\r\n");
    next(&waiting).1.complete(Ok(small.clone()));
    modest.expect("$-1\r\n");
    clients.iter_mut().for_each(|client| client.send(b"GET key\r\n"));
    let mut under_way: VecDeque<_> = (0..3).map(|_| next(&waiting)).collect();
    let fourth = waiting.recv_timeout(Duration::from_millis(100));
    assert!(fourth.is_err(), "four times 300 kB are more than 1 MiB");
    for _ in 0..20 {
        modest.send(b"GET key\r\n");
        next(&waiting).1.complete(Ok(small.clone()));
        modest.expect("$-1\r\n");
    }
    for _ in 0..10 {
        let (_, done) = under_way.pop_front().unwrap_or_else(|| next(&waiting));
        done.complete(Ok(large.clone()));
    }
    clients.iter_mut().for_each(|client| assert!(client.read().is_some()));
}
