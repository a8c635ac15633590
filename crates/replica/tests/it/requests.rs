//! What clients get.

use crate::cluster::{Cluster, PATIENCE};
use crate::tally::{Believer, LARGE, answer};
use bytes::Bytes;
use pentarchy_client::{Client, Completions, Pending, RequestError};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::protocol::Tuning;
use pentarchy_replica::{Fatal, Halt};
use std::time::Instant;

#[test]
fn ten_thousand_pipelined_requests_are_answered_in_order() {
    let cluster = Cluster::start(1);
    let client = cluster.client(1);
    let pending: Vec<Pending> =
        (0..10_000u32).map(|i| client.submit(i.to_le_bytes().to_vec())).collect();
    for (i, pending) in (0u32..).zip(pending) {
        let result = pending.wait_timeout(PATIENCE);
        assert_eq!(result, Ok(answer(u64::from(i) + 1, &i.to_le_bytes())));
    }
    assert_eq!(client.query("").wait_timeout(PATIENCE), Ok(answer(10_000, b"")));
    drop(client);
    cluster.stop();
}

#[test]
fn three_replicas_find_each_other_and_answer_alike() {
    let cluster = Cluster::start(3);
    let client = cluster.client(1);
    for replica in 0..3 {
        cluster.await_status(&client, replica, |status| status.list("/peers") == 2);
    }
    let completions = Completions::new();
    let operations = (0..2_000u64).map(|tag| (tag, Bytes::from(vec![7; 100])));
    client.submit_all(operations, &completions).unwrap();
    let (mut done, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while done.len() < 2_000 && Instant::now() < deadline {
        completions.wait(PATIENCE, &mut done);
    }
    for (tag, result) in &done {
        assert_eq!(*result, Ok(answer(tag + 1, &[7; 100])));
    }
    assert_eq!(done.len(), 2_000);
    for replica in 0..3 {
        cluster.await_status(&client, replica, |status| status.number("/requests") == 2_000);
    }
    cluster.stop();
}

#[test]
fn large_operations_pass_and_larger_ones_are_refused_at_once() {
    let cluster = Cluster::start(2);
    let client = cluster.client(9);
    for replica in 0..2 {
        cluster.await_status(&client, replica, |status| status.list("/peers") == 1);
    }
    let large = vec![9; OPERATION_BYTES_MAX];
    for life in 0..3 {
        // Also as the very first thing behind the `Hello`.
        let client = cluster.client(life);
        let result = client.submit(large.clone()).wait_timeout(PATIENCE);
        assert_eq!(result, Ok(answer(u64::from(life) + 1, &large)));
    }
    let refused = client.call(vec![9; OPERATION_BYTES_MAX + 1]);
    assert_eq!(refused, Err(RequestError::TooLarge));
    cluster.stop();
}

#[test]
fn a_replica_that_starts_late_fetches_the_state_and_answers_alike() {
    let mut cluster = Cluster::prepare(2, Tuning::default(), &|_| {});
    cluster.start_next();
    let client = Client::connect(cluster.client_config(1, 1)).unwrap();
    let mut count = 0;
    let mut call = || {
        count += 1;
        let result = client.submit("x").wait_timeout(PATIENCE);
        assert_eq!(result, Ok(answer(count, b"x")));
        count
    };
    for _ in 0..10 {
        call();
    }
    cluster.start_next();
    cluster.await_status(&client, 1, |status| status.list("/peers") == 1);
    cluster.await_status(&client, 1, |status| {
        let total = call();
        status.number("/executed") + 4 > total && status.number("/requests") < total - 10
    });
    let total = call();
    cluster.await_status(&client, 1, |status| status.number("/executed") == total);
    let both = Client::connect(cluster.client_config(2, 2)).unwrap();
    assert_eq!(both.query("").wait_timeout(PATIENCE), Ok(answer(total, b"")));
    cluster.stop();
}

#[test]
fn a_client_that_pipelines_large_results_gets_them_or_is_told_and_stays_connected() {
    // What a round collects for one client, and how many results that is at least.
    large_results(16 << 20, 16);
    large_results(6 << 20, 4);
}

fn large_results(client_queue_bytes: usize, done_min: usize) {
    let cluster = Cluster::with(1, Tuning::default(), &|config| {
        config.limits.client_queue_bytes = client_queue_bytes;
    });
    let mut config = cluster.client_config(1, 1);
    let core = Believer::new(config.keys.client_id(), cluster.membership.ids().collect(), 1);
    config.core = Box::new(core.retrying(100));
    let client = Client::connect(config).unwrap();
    let pending: Vec<Pending> = (0..40).map(|_| client.submit(LARGE)).collect();
    let mut done = 0;
    for pending in pending {
        match pending.wait_timeout(PATIENCE) {
            Ok(result) => {
                assert_eq!(result.len(), 8 + LARGE.len() + (1 << 20));
                done += 1;
            }
            Err(error) => assert_eq!(error, RequestError::Forgotten),
        }
    }
    assert!(done >= done_min, "{done}");
    assert_eq!(client.submit("x").wait_timeout(PATIENCE), Ok(answer(41, b"x")));
    cluster.await_status(&client, 0, |status| {
        assert_eq!(status.number("/counters/clients_too_slow"), 0);
        assert_eq!(status.number("/requests"), 41);
        status.number("/clients") == 1
    });
    cluster.stop();
}

#[test]
fn everyone_who_asks_for_the_status_is_answered() {
    let cluster = Cluster::start(1);
    let client = cluster.client(1);
    for _ in 0..20 {
        let asked: Vec<Pending> = (0..50).map(|_| client.status(ReplicaId(0))).collect();
        for pending in asked {
            let answered = pending.wait_timeout(PATIENCE);
            assert!(answered.is_ok(), "{answered:?}");
        }
    }
    cluster.stop();
}

#[test]
fn a_client_that_comes_back_goes_on_with_new_numbers() {
    let cluster = Cluster::start(1);
    for life in 1..=3 {
        let client = cluster.client(1);
        assert_eq!(client.submit("x").wait_timeout(PATIENCE), Ok(answer(life, b"x")));
    }
    cluster.stop();
}

#[test]
fn what_is_outstanding_fails_when_the_client_ends_and_is_bounded() {
    let cluster = Cluster::start(1);
    let mut config = cluster.client_config(1, 1);
    // Nobody listens there.
    config.addresses = vec!["127.0.0.1:1".parse().unwrap()];
    config.outstanding_max = 2;
    let client = Client::connect(config).unwrap();
    let outstanding = [client.submit("a"), client.try_submit("b")];
    assert_eq!(client.try_submit("c").wait(), Err(RequestError::Full));
    drop(client);
    for pending in outstanding {
        assert_eq!(pending.wait(), Err(RequestError::Closed));
    }
    cluster.stop();
}

#[test]
fn a_refused_counter_ends_the_replica() {
    let tuning = Tuning { proposals_in_flight: 1, ..Tuning::default() };
    let cluster = Cluster::with(1, tuning, &|_| {});
    let replica = cluster.replicas().remove(0);
    let deadline = Instant::now() + PATIENCE;
    while !replica.is_finished() && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert!(matches!(replica.stop(), Err(Fatal::Halt(Halt::Counter(_)))));
}
