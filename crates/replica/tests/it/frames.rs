//! What comes over a connection that was opened in order, and is no frame of its channel.

use crate::cluster::{Cluster, Json};
use crate::hostile::{intrude, is_closed, send, works};
use pentarchy_core::ids::{MemberId, Node};
use pentarchy_core::protocol::Tuning;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_io::channel::Channel;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

fn keys(seed: u8) -> KeyPair {
    KeyPair::from_seed([seed; 32])
}

/// A client that got in, with a key from this seed.
fn client(cluster: &Cluster, seed: u8) -> (TcpStream, Channel) {
    intrude(cluster, &keys(seed), Node::Client(keys(seed).client_id()))
}

fn sealed(channel: &mut Channel, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    channel.write(plain, &mut out).unwrap();
    out
}

fn count(status: &Json, name: &str) -> u64 {
    status.number(&format!("/counters/{name}"))
}

#[test]
fn a_frame_that_is_not_of_its_channel_ends_the_connection_and_is_counted() {
    let cluster = Cluster::start(1);
    let honest = cluster.client(1);
    works(&cluster, &honest, 1);
    let message = [&1u32.to_le_bytes()[..], &[9]].concat();

    let (mut stream, _channel) = client(&cluster, 10);
    stream.write_all(&u32::MAX.to_le_bytes()).unwrap();
    assert!(is_closed(&mut stream), "larger than any frame");

    let (mut stream, mut channel) = client(&cluster, 11);
    let mut frame = sealed(&mut channel, &message);
    *frame.last_mut().unwrap() ^= 1;
    stream.write_all(&frame).unwrap();
    assert!(is_closed(&mut stream), "changed");

    let (_stream, mut other) = client(&cluster, 12);
    let (mut stream, _channel) = client(&cluster, 13);
    stream.write_all(&sealed(&mut other, &message)).unwrap();
    assert!(is_closed(&mut stream), "of another session");

    let (mut stream, mut channel) = client(&cluster, 14);
    stream.write_all(&sealed(&mut channel, &9u32.to_le_bytes())).unwrap();
    assert!(is_closed(&mut stream), "no list of messages");

    cluster.await_status(&honest, 0, |status| count(status, "frames_refused") == 4);
    works(&cluster, &honest, 2);
    cluster.stop();
}

#[test]
fn a_peer_that_talks_nonsense_is_counted_and_may_come_back() {
    let mut cluster = Cluster::prepare(2, Tuning::default(), &|_| {});
    cluster.start_next();
    let (peer, claim) = (keys(101), Node::Member(MemberId(1)));
    let status_client = cluster.client(1);
    let malformed = |status: &Json| status.number("/rejects/malformed");

    let (mut stream, mut channel) = intrude(&cluster, &peer, claim);
    for message in [&[][..], &[0], &[0, 255, 255], &[1, 255], &[7; 100]] {
        send(&mut stream, &mut channel, message);
    }
    cluster.await_status(&status_client, 0, |status| malformed(status) == 5);
    stream.write_all(&[0; 100]).unwrap();
    assert!(is_closed(&mut stream));
    cluster.await_status(&status_client, 0, |status| count(status, "frames_refused") == 1);

    let (mut stream, mut channel) = intrude(&cluster, &peer, claim);
    send(&mut stream, &mut channel, &[7]);
    cluster.await_status(&status_client, 0, |status| malformed(status) == 6);
    cluster.stop();
}

#[test]
fn a_handshake_byte_by_byte_does_not_last() {
    let cluster = Cluster::with(1, Tuning::default(), &|config| config.limits.hello_ms = 300);
    let honest = cluster.client(1);
    let mut stream = TcpStream::connect(cluster.addresses[0]).unwrap();
    stream.write_all(&96u32.to_le_bytes()).unwrap();
    while stream.write_all(&[1]).is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    cluster.await_status(&honest, 0, |status| count(status, "handshakes_failed") == 1);
    works(&cluster, &honest, 1);
    cluster.stop();
}

#[test]
fn a_client_that_never_ends_its_message_is_disconnected_and_an_idle_one_is_not() {
    let cluster = Cluster::with(1, Tuning::default(), &|config| config.limits.frame_ms = 300);
    let honest = cluster.client(1);
    works(&cluster, &honest, 1);
    let (_idle, _channel) = client(&cluster, 20);
    let (mut silent, _channel) = client(&cluster, 21);
    let (mut dripping, _channel) = client(&cluster, 22);
    for stream in [&mut silent, &mut dripping] {
        stream.write_all(&60_000u32.to_le_bytes()).unwrap();
        stream.write_all(&[0; 1000]).unwrap();
    }
    while dripping.write_all(&[0]).is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(is_closed(&mut silent));
    cluster.await_status(&honest, 0, |status| {
        count(status, "frames_unfinished") == 2 && status.number("/clients") == 2
    });
    works(&cluster, &honest, 2);
    cluster.stop();
}
