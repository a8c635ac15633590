//! Order and concurrency of commands on one connection.

use crate::support::{Client, Held, Local, config, local, next, request, start};
use bytes::Bytes;
use pentarchy_gateways::resp::{Backend, BackendError, Completion, GatewayConfig};
use redis_protocol::resp2::types::OwnedFrame;
use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn commands_are_submitted_without_waiting_and_answered_in_order() {
    let (held, waiting) = Held::new();
    let local = held.local.clone();
    let gateway = start(config(), held);
    let mut client = Client::connect(gateway.address);
    client.send(b"SET a 1\r\nPING\r\nINCR a\r\nNONSENSE\r\nGET\r\nGET a\r\nECHO last\r\n");
    let mut operations: Vec<_> = (0..3).map(|_| next(&waiting)).collect();
    // All three are under way at once; their results come in the opposite order.
    let results: Vec<_> =
        operations.iter().map(|(operation, _)| local.execute(operation)).collect();
    while let Some((_, done)) = operations.pop() {
        done.complete(Ok(results[operations.len()].clone()));
    }
    client.expect("+OK\r\n+PONG\r\n:2\r\n-ERR unknown command 'NONSENSE', ");
    client.expect("with args beginning with: \r\n-ERR wrong number of arguments for 'get' command");
    client.expect("\r\n$1\r\n2\r\n$4\r\nlast\r\n");
}

#[test]
fn every_failure_and_every_lost_completion_has_its_reply() {
    let (held, waiting) = Held::new();
    let gateway = start(config(), held);
    let mut client = Client::connect(gateway.address);
    let errors = [
        (BackendError::Busy, "-BUSY "),
        (BackendError::TooLarge, "-ERR command is larger"),
        (BackendError::Forgotten, "-ERR settled, but"),
        (BackendError::TimedOut, "-ERR timed out waiting"),
    ];
    client.send(&b"GET a\r\n".repeat(errors.len() + 2));
    for (error, _) in errors {
        next(&waiting).1.complete(Err(error));
    }
    drop(next(&waiting));
    next(&waiting).1.complete(Ok(Bytes::from_static(b"\xff no reply")));
    for (_, wanted) in errors {
        let Some(OwnedFrame::Error(line)) = client.read() else { panic!("an error") };
        assert!(format!("-{line}").starts_with(wanted), "{line}");
    }
    let Some(OwnedFrame::Error(line)) = client.read() else { panic!("an error") };
    assert!(line.starts_with("ERR the gateway is closing"));
    let Some(OwnedFrame::Error(line)) = client.read() else { panic!("an error") };
    assert!(line.starts_with("ERR the replicas run a service"));
}

#[test]
fn a_client_that_stops_sending_still_gets_its_replies() {
    let (held, waiting) = Held::new();
    let gateway = start(config(), held);
    let mut client = Client::connect(gateway.address);
    client.send(b"GET a\r\nGET b\r\n*1\r\n$4\r\nPI");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let second = (next(&waiting), next(&waiting));
    second.1.1.complete(Ok(Bytes::from_static(&[4])));
    second.0.1.complete(Ok(Bytes::from_static(&[0])));
    client.expect("+OK\r\n$-1\r\n");
    client.expect_end();
}

#[test]
fn no_more_is_submitted_than_the_pipeline_and_the_backend_may_hold() {
    for (pipeline_max, outstanding_max) in [(8, 1000), (1000, 8)] {
        let (held, waiting) = Held::new();
        let local = held.local.clone();
        let gateway = start(GatewayConfig { pipeline_max, outstanding_max, ..config() }, held);
        let mut client = Client::connect(gateway.address);
        client.send(&b"INCR n\r\n".repeat(100));
        let mut held: VecDeque<_> = (0..8).map(|_| next(&waiting)).collect();
        assert!(waiting.recv_timeout(Duration::from_millis(50)).is_err(), "a ninth");
        for wanted in 1..=100 {
            let (operation, done) = held.pop_front().unwrap_or_else(|| next(&waiting));
            done.complete(Ok(local.execute(&operation)));
            client.expect(&format!(":{wanted}\r\n"));
        }
    }
}

#[test]
fn a_long_pipeline_of_large_and_small_replies_comes_back_whole() {
    let gateway = local();
    let mut client = Client::connect(gateway.address);
    let value = vec![b'v'; 100_000];
    client.call(&[b"SET", b"large", &value]);
    let mut writer = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        use std::io::Write;
        for _ in 0..500 {
            writer.write_all(&request(&[b"GET", b"large"])).unwrap();
            writer.write_all(&b"INCR n\r\n".repeat(20)).unwrap();
        }
    });
    for round in 0..500 {
        assert_eq!(client.read(), Some(OwnedFrame::BulkString(value.clone())));
        for n in 1..=20 {
            assert_eq!(client.read(), Some(OwnedFrame::Integer(round * 20 + n)));
        }
    }
    sender.join().unwrap();
}

#[test]
fn results_from_another_thread_in_any_order_leave_in_order() {
    #[derive(Clone)]
    struct Shuffled(Arc<Mutex<Sender<(Bytes, Completion)>>>);
    impl Backend for Shuffled {
        fn submit(&self, operation: Bytes, done: Completion) {
            self.0.lock().unwrap().send((operation, done)).expect("the thread runs");
        }
    }
    let (sender, waiting) = channel::<(Bytes, Completion)>();
    std::thread::spawn(move || {
        let store = Local::default();
        while let Ok(first) = waiting.recv() {
            let mut batch: Vec<_> = std::iter::once(first).chain(waiting.try_iter()).collect();
            let results: Vec<_> = batch.iter().map(|(op, _)| store.execute(op)).collect();
            let mut order: Vec<_> = batch.drain(..).map(|(_, done)| done).zip(results).collect();
            order.sort_by_key(|(_, result)| result.iter().map(|b| b.wrapping_mul(77)).max());
            order.into_iter().for_each(|(done, result)| done.complete(Ok(result)));
        }
    });
    let gateway = start(config(), Shuffled(Arc::new(Mutex::new(sender))));
    let mut client = Client::connect(gateway.address);
    for round in 0..50 {
        client.send(&b"INCR n\r\n".repeat(200));
        (1..=200).for_each(|n| client.expect(&format!(":{}\r\n", round * 200 + n)));
    }
}
