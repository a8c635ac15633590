//! Order and concurrency of commands on one connection.

use crate::support::{Client, Held, Local, config, local, next, request, start};
use bytes::Bytes;
use pentarchy_gateways::resp::{Backend, BackendError, Completion, EventSink, GatewayConfig};
use pentarchy_services::kv::session::pack_replies;
use redis_protocol::resp2::types::OwnedFrame;
use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn commands_of_a_read_go_together_and_are_answered_in_order() {
    let (held, waiting) = Held::new();
    let local = held.local.clone();
    let gateway = start(config(), held);
    let mut client = Client::connect(gateway.address);
    client.send(b"SET a 1\r\nPING\r\nINCR a\r\nNONSENSE\r\nGET\r\nGET a\r\nECHO last\r\n");
    let (operation, done) = next(&waiting);
    let result = local.execute(&operation);
    assert_eq!(pack_replies(&result).unwrap().len(), 3);
    done.complete(Ok(result));
    client.expect("+OK\r\n+PONG\r\n:2\r\n-ERR unknown command 'NONSENSE', ");
    client.expect("with args beginning with: \r\n-ERR wrong number of arguments for 'get' command");
    client.expect("\r\n$1\r\n2\r\n$4\r\nlast\r\n");
    assert!(waiting.try_recv().is_err());
}

#[test]
fn what_comes_while_an_operation_is_under_way_goes_with_the_next() {
    let (held, waiting) = Held::new();
    let local = held.local.clone();
    let gateway = start(config(), held);
    let mut client = Client::connect(gateway.address);
    let mut other = Client::connect(gateway.address);
    client.send(b"SET n 1\r\n");
    let first = next(&waiting);
    client.send(&b"INCR n\r\n".repeat(10));
    // Other connections do not wait for it.
    other.send(b"GET m\r\n");
    let (operation, done) = next(&waiting);
    done.complete(Ok(local.execute(&operation)));
    other.expect("$-1\r\n");
    assert!(waiting.recv_timeout(Duration::from_millis(50)).is_err(), "a second one under way");
    first.1.complete(Ok(local.execute(&first.0)));
    let (operation, done) = next(&waiting);
    let result = local.execute(&operation);
    assert_eq!(pack_replies(&result).unwrap().len(), 10);
    done.complete(Ok(result));
    client.expect("+OK\r\n");
    (2..=11).for_each(|n| client.expect(&format!(":{n}\r\n")));
}

#[test]
fn every_failure_and_every_lost_completion_has_its_reply() {
    let (held, waiting) = Held::new();
    let gateway = start(config(), held);
    let mut client = Client::connect(gateway.address);
    for (result, wanted) in [
        (Some(Err(BackendError::Busy)), "BUSY "),
        (Some(Err(BackendError::TooLarge)), "ERR command is larger"),
        (Some(Err(BackendError::Forgotten)), "ERR executed once, but"),
        (Some(Err(BackendError::TimedOut)), "ERR timed out waiting for the replicas; it may still"),
        (Some(Err(BackendError::GivenUp)), "ERR timed out waiting for the replicas; not executed"),
        (Some(Err(BackendError::Overtaken)), "ERR another process uses this gateway's key"),
        (None, "ERR the gateway is closing"),
        (Some(Ok(Bytes::from_static(b"\xff no reply"))), "ERR the replicas run a service"),
    ] {
        // One command, and two that go together.
        for count in 1..=2 {
            client.send(&b"GET a\r\n".repeat(count));
            let (_, done) = next(&waiting);
            match result.clone() {
                Some(result) => done.complete(result),
                None => drop(done),
            }
            for _ in 0..count {
                let Some(OwnedFrame::Error(line)) = client.read() else { panic!("an error") };
                assert!(line.starts_with(wanted), "{line}");
            }
        }
    }
}

#[test]
fn a_client_that_stops_sending_still_gets_its_replies() {
    let (held, waiting) = Held::new();
    let local = held.local.clone();
    let gateway = start(config(), held);
    let mut client = Client::connect(gateway.address);
    client.send(b"SET a 1\r\nGET b\r\n*1\r\n$4\r\nPI");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let (operation, done) = next(&waiting);
    done.complete(Ok(local.execute(&operation)));
    client.expect("+OK\r\n$-1\r\n");
    client.expect_end();
}

#[test]
fn no_more_is_submitted_than_the_pipeline_and_the_backend_may_hold() {
    let (held, waiting) = Held::new();
    let local = held.local.clone();
    let gateway = start(GatewayConfig { pipeline_max: 8, ..config() }, held);
    let mut client = Client::connect(gateway.address);
    client.send(&b"INCR n\r\n".repeat(100));
    let mut seen = 0;
    while seen < 100 {
        let (operation, done) = next(&waiting);
        let result = local.execute(&operation);
        let count = pack_replies(&result).map_or(1, |replies| replies.len());
        assert!(count <= 8, "{count}");
        done.complete(Ok(result));
        (seen + 1..=seen + count).for_each(|n| client.expect(&format!(":{n}\r\n")));
        seen += count;
    }

    let (held, waiting) = Held::new();
    let gateway = start(GatewayConfig { outstanding_max: 8, ..config() }, held);
    let mut clients: Vec<_> = (0..20).map(|_| Client::connect(gateway.address)).collect();
    clients.iter_mut().for_each(|client| client.send(b"GET n\r\n"));
    let mut held: VecDeque<_> = (0..8).map(|_| next(&waiting)).collect();
    assert!(waiting.recv_timeout(Duration::from_millis(50)).is_err(), "a ninth");
    for _ in 0..20 {
        let (operation, done) = held.pop_front().unwrap_or_else(|| next(&waiting));
        done.complete(Ok(local.execute(&operation)));
    }
    clients.iter_mut().for_each(|client| client.expect("$3\r\n100\r\n"));
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
        fn submit(&self, operation: Bytes, _: Duration, done: Completion) {
            self.0.lock().unwrap().send((operation, done)).expect("the thread runs");
        }
        fn on_event(&self, _: EventSink) {}
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
    let mut clients: Vec<_> = (0..5).map(|_| Client::connect(gateway.address)).collect();
    for round in 0..50 {
        for (index, client) in clients.iter_mut().enumerate() {
            client.send(format!("INCR n{index}\r\n").repeat(200).as_bytes());
        }
        for client in &mut clients {
            (1..=200).for_each(|n| client.expect(&format!(":{}\r\n", round * 200 + n)));
        }
    }
}
