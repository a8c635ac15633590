//! What strangers and broken clients can do: be counted.

use crate::cluster::{Cluster, Json, PATIENCE};
use crate::follow::Order;
use crate::tally::{LARGE, answer};
use bytes::Bytes;
use pentarchy_client::{Client, RequestError};
use pentarchy_core::auth::AuthTag;
use pentarchy_core::auth::Signature;
use pentarchy_core::configuration::Access;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{GroupId, MemberId, Node, ReplicaId};
use pentarchy_core::limits::PENDING_CLIENT_ENVELOPES_MAX;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ToReplica;
use pentarchy_core::protocol::{Message as _, Tuning};
use pentarchy_core::request::{Draft, Envelope, Request};
use pentarchy_core::welcome::Welcome;
use pentarchy_core::wire::{Wire, Writer};
use pentarchy_crypto::keys::{KeyPair, channel_public};
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_io::channel::Channel;
use pentarchy_io::channel::Identity;
use pentarchy_io::hello::Hello;
use pentarchy_replica::ReplicaConfig;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

pub fn works(cluster: &Cluster, client: &Client, count: u64) {
    let result = client.submit("still there?").wait_timeout(PATIENCE);
    assert_eq!(result, Ok(answer(count, b"still there?")));
    cluster.await_status(client, 0, |_| true);
}

/// Opens a channel by hand, as whoever has the key, and says who it claims to be.
pub fn intrude(cluster: &Cluster, keys: &KeyPair, claim: Node) -> (TcpStream, Channel) {
    greet(cluster, keys, Hello::Node(claim))
}

/// The same with any claim.
pub fn greet(cluster: &Cluster, keys: &KeyPair, claim: Hello) -> (TcpStream, Channel) {
    let (mut stream, mut channel) = open(cluster, keys);
    send(&mut stream, &mut channel, &claim.to_bytes());
    if let Hello::Node(Node::Member(_)) = claim {
        // Members of these groups sign by their identity keys.
        let welcome = welcome(cluster, &channel, keys);
        send(&mut stream, &mut channel, &welcome);
    }
    (stream, channel)
}

/// By what right a member speaks over this channel.
fn welcome(cluster: &Cluster, channel: &Channel, keys: &KeyPair) -> Vec<u8> {
    let binding = channel.binding().expect("it is open");
    let statement = Welcome::statement(&cluster.membership.configuration, binding);
    let welcome = Welcome { number: 0, signature: Signature(keys.sign(&statement)) };
    [&[4], &welcome.to_bytes()[..]].concat()
}

/// Opens a channel by hand, and says nothing on it.
pub fn open(cluster: &Cluster, keys: &KeyPair) -> (TcpStream, Channel) {
    let identity = Identity::new(*keys.channel_secret(), &cluster.membership.group_domain());
    let remote = channel_public(&cluster.membership.members[0].identity).unwrap();
    let mut stream = TcpStream::connect(cluster.addresses[0]).unwrap();
    let (mut out, mut buffer) = (Vec::new(), [0; 1024]);
    let mut channel = Channel::initiator(&identity, &remote, 1 << 20, &mut out).unwrap();
    stream.write_all(&out).unwrap();
    while !channel.is_open() {
        let count = stream.read(&mut buffer).unwrap();
        channel.read(&buffer[..count], &mut Vec::new(), &mut Vec::new()).unwrap();
    }
    (stream, channel)
}

pub fn send(stream: &mut TcpStream, channel: &mut Channel, message: &[u8]) {
    send_all(stream, channel, &[message]);
}

/// Sends messages in one frame.
pub fn send_all(stream: &mut TcpStream, channel: &mut Channel, messages: &[&[u8]]) {
    let framed = |message: &&[u8]| [&(message.len() as u32).to_le_bytes(), *message].concat();
    let plain: Vec<u8> = messages.iter().flat_map(framed).collect();
    let mut out = Vec::new();
    channel.write(&plain, &mut out).unwrap();
    stream.write_all(&out).unwrap();
}

/// The other side hangs up.
pub fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn garbage_on_the_port_is_counted_and_harmless() {
    let cluster = Cluster::start(1);
    let client = cluster.client(1);
    works(&cluster, &client, 1);
    let garbage: [&[u8]; 4] =
        [b"GET / HTTP/1.1\r\n\r\n", &[0; 500], &[0xff; 500], b"\x60\0\0\0aaaaaaaaaaaa"];
    for bytes in garbage {
        let mut stream = TcpStream::connect(cluster.addresses[0]).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(is_closed(&mut stream));
    }
    let failed = |status: &Json| status.number("/counters/handshakes_failed");
    cluster.await_status(&client, 0, |status| failed(status) == 4);
    works(&cluster, &client, 2);
    cluster.stop();
}

#[test]
fn nobody_can_claim_to_be_someone_else() {
    let cluster = Cluster::start(2);
    let (mallory, victim) = (KeyPair::from_seed([66; 32]), KeyPair::from_seed([1; 32]));
    let claims = [
        Node::Client(victim.client_id()),
        Node::Member(MemberId(1)),
        Node::Member(MemberId(0)),
        Node::Member(MemberId(9)),
    ];
    for claim in claims {
        let (mut stream, _channel) = intrude(&cluster, &mallory, claim);
        assert!(is_closed(&mut stream), "{claim:?}");
    }
    let client = cluster.client(1);
    cluster.await_status(&client, 0, |status| status.number("/counters/hellos_refused") == 4);
    cluster.stop();
}

#[test]
fn a_client_that_is_not_listed_is_refused() {
    let listed = KeyPair::from_seed([1; 32]).client_id();
    let cluster = Cluster::with(1, Tuning::default(), &|config| {
        config.access = Access::only([listed]);
    });
    let (stranger, client) = (cluster.client(2), cluster.client(1));
    works(&cluster, &client, 1);
    let refused = stranger.submit("let me in").wait_timeout(Duration::from_millis(200));
    assert_eq!(refused, Err(RequestError::TimedOut));
    cluster.await_status(&client, 0, |status| status.number("/counters/hellos_refused") > 0);
    cluster.stop();
}

/// As when an operator copied the configuration to one host only.
#[test]
fn who_has_another_configuration_is_named() {
    let change = |config: &mut ReplicaConfig| {
        if config.me == ReplicaId(1) {
            let configuration = Digest::of(b"another file");
            let other = Membership { configuration, ..(*config.membership).clone() };
            config.membership = Arc::new(other);
        }
    };
    let cluster = Cluster::with(2, Tuning::default(), &change);
    let client = cluster.client(1);
    for replica in [0, 1] {
        cluster.await_status(&client, replica, |status| {
            status.number("/counters/other_configuration") > 0
        });
    }
    cluster.stop();
}

#[test]
fn a_request_that_its_client_did_not_sign_is_not_executed() {
    let cluster = Cluster::start(1);
    let mut config = cluster.client_config(2, 1);
    // Signed for another group.
    let domain = Domain::of_group(&GroupId([6; 16]));
    config.signer = ClientSigner::signature(config.keys.clone(), domain);
    let liar = Client::connect(config).unwrap();
    let refused = liar.submit("x").wait_timeout(Duration::from_millis(200));
    assert_eq!(refused, Err(RequestError::TimedOut));
    let client = cluster.client(1);
    cluster.await_status(&client, 0, |status| status.number("/counters/client_bad_auth") > 0);
    works(&cluster, &client, 1);
    cluster.stop();
}

#[test]
fn a_client_that_vanishes_or_talks_nonsense_harms_nobody() {
    let cluster = Cluster::start(1);
    let vanishing = cluster.client(2);
    drop(vanishing.submit("left behind"));
    drop(vanishing);
    let keys = KeyPair::from_seed([3; 32]);
    let (mut stream, mut channel) = intrude(&cluster, &keys, Node::Client(keys.client_id()));
    send(&mut stream, &mut channel, &[9, 9, 9]);
    assert!(is_closed(&mut stream));
    let client = cluster.client(1);
    cluster.await_status(&client, 0, |status| status.number("/counters/client_malformed") == 1);
    client.submit("present").wait_timeout(PATIENCE).unwrap();
    cluster.stop();
}

#[test]
fn queries_are_not_executed_for_a_client_that_is_gone_or_does_not_read() {
    let cluster = Cluster::start(1);
    let client = cluster.client(1);
    let query = ToReplica::Query { number: 1, operation: Bytes::from_static(LARGE) }.to_bytes();
    let counters = |status: &Json| {
        let number = |name| status.number(&format!("/counters/{name}"));
        (number("client_malformed"), number("client_queries"), number("client_queries_dropped"))
    };
    let mut queries: Vec<&[u8]> = vec![&query; 1000];
    let keys = KeyPair::from_seed([4; 32]);
    let (mut stream, mut channel) = intrude(&cluster, &keys, Node::Client(keys.client_id()));
    send_all(&mut stream, &mut channel, &queries);
    cluster.await_status(&client, 0, |status| {
        let (_, executed, dropped) = counters(status);
        assert!(executed < 50, "{executed}");
        executed + dropped == 1000
    });
    let mut executed = 0;
    cluster.await_status(&client, 0, |status| {
        executed = counters(status).1;
        true
    });
    queries[0] = &[9, 9, 9];
    let keys = KeyPair::from_seed([5; 32]);
    let (mut stream, mut channel) = intrude(&cluster, &keys, Node::Client(keys.client_id()));
    send_all(&mut stream, &mut channel, &queries);
    assert!(is_closed(&mut stream));
    let dropped = 1000 - executed;
    cluster.await_status(&client, 0, |status| counters(status) == (1, executed, dropped));
    cluster.stop();
}

#[test]
fn a_client_with_a_full_queue_misses_messages_and_stays_connected() {
    let cluster = Cluster::with(1, Tuning::default(), &|config| {
        config.limits.client_queue_bytes = 1 << 20;
        config.limits.query_queue_bytes = usize::MAX;
    });
    let client = cluster.client(1);
    let query = ToReplica::Query { number: 1, operation: Bytes::from_static(LARGE) }.to_bytes();
    let keys = KeyPair::from_seed([4; 32]);
    let (mut stream, mut channel) = intrude(&cluster, &keys, Node::Client(keys.client_id()));
    send_all(&mut stream, &mut channel, &[&query[..]; 100]);
    // Of large answers some may take more than the share of a round that queries have.
    let answered = |status: &Json| status.number("/counters/client_queries");
    let dropped = |status: &Json| status.number("/counters/client_queries_dropped");
    cluster.await_status(&client, 0, |status| answered(status) + dropped(status) == 100);
    cluster.await_status(&client, 0, |status| {
        let sent = answered(status) - status.number("/counters/client_dropped");
        assert!((1..=50).contains(&sent), "{sent}");
        assert_eq!(status.number("/counters/clients_too_slow"), 0);
        status.number("/clients") == 2
    });
    cluster.stop();
}

#[test]
fn clients_that_hold_all_places_in_silence_make_room() {
    let cluster = Cluster::with(1, Tuning::default(), &|config| config.limits.clients_max = 2);
    let _silent = [7, 8].map(|seed| {
        let keys = KeyPair::from_seed([seed; 32]);
        intrude(&cluster, &keys, Node::Client(keys.client_id()))
    });
    let client = cluster.client(1);
    works(&cluster, &client, 1);
    cluster.await_status(&client, 0, |status| {
        assert_eq!(status.number("/clients"), 2);
        status.number("/counters/clients_evicted") == 1
    });
    cluster.stop();
}

#[test]
fn strangers_who_say_nothing_cannot_keep_others_out() {
    let cluster = Cluster::start(1);
    let silent: Vec<_> =
        (0..200).map(|_| TcpStream::connect(cluster.addresses[0]).unwrap()).collect();
    let client = cluster.client(1);
    works(&cluster, &client, 1);
    let refused = |status: &Json| status.number("/counters/connections_refused");
    cluster.await_status(&client, 0, |status| refused(status) >= 136);
    drop(silent);
    cluster.stop();
}

#[test]
fn a_full_replica_says_so() {
    let cluster = Cluster::with(1, Tuning::default(), &|config| config.limits.waiting_max = 0);
    let client = cluster.client(1);
    let refused = client.submit("x").wait_timeout(Duration::from_millis(200));
    assert_eq!(refused, Err(RequestError::TimedOut));
    cluster.await_status(&client, 0, |status| status.number("/counters/client_busy") == 1);
    cluster.stop();
}

/// Two frames of two hundred envelopes each: of each frame no more than a client may have waiting
/// is checked and executed, and what comes behind is read later, not never.
#[test]
fn who_sends_more_than_there_is_room_for_is_heard_again_later() {
    const SENT: u64 = 200;
    let cluster = Cluster::start(1);
    let keys = KeyPair::from_seed([66; 32]);
    let signer = ClientSigner::signature(keys.clone(), cluster.membership.group_domain());
    let envelope = |number| {
        let requests = vec![Request { number, operation: Bytes::from_static(b"flood") }];
        let draft = Draft { client: keys.client_id(), floor: 0, events: None, requests };
        ToReplica::Request(Arc::new(signer.seal(draft))).to_bytes()
    };
    let (mut stream, mut channel) = intrude(&cluster, &keys, Node::Client(keys.client_id()));
    let client = cluster.client(1);
    let accepted = PENDING_CLIENT_ENVELOPES_MAX as u64;
    // What is far beyond the limit is not even decoded: half of it could not be.
    let truncated = |message: Bytes| message.slice(..message.len() / 2);
    for frame in 1..=2 {
        let mut messages: Vec<_> = (0..SENT).map(|index| envelope(frame * SENT + index)).collect();
        messages.iter_mut().skip(SENT as usize / 2).for_each(|m| *m = truncated(m.clone()));
        let messages: Vec<&[u8]> = messages.iter().map(AsRef::as_ref).collect();
        send_all(&mut stream, &mut channel, &messages);
        let busy = frame * (SENT - accepted);
        cluster.await_status(&client, 0, |status| {
            assert_eq!(status.number("/counters/client_malformed"), 0);
            status.number("/counters/client_busy") == busy
        });
        works(&cluster, &client, frame * (accepted + 1));
    }
    cluster.stop();
}

/// A peer's message that passes on an envelope.
fn forwarded(cluster: &Cluster, keys: &KeyPair, envelope: Envelope, is_forged: bool) -> Vec<u8> {
    let order = Order::forward(envelope);
    let domain = cluster.membership.domain();
    let digest = if is_forged { Digest::of(b"forged") } else { order.statement(&domain) };
    let mut to = Writer::default();
    to.u8(0);
    cluster.membership.epoch.encode(&mut to);
    ReplicaId(1).encode(&mut to);
    AuthTag::Signature(keys.sign(&digest)).encode(&mut to);
    order.encode(&mut to);
    to.into_bytes().to_vec()
}

/// A group of two of which the second is in the hands of the test, and a request of a client.
fn with_lying_peer() -> (Cluster, KeyPair, KeyPair, Envelope) {
    let mut cluster = Cluster::prepare(2, Tuning::default(), &|_| {});
    cluster.start_next();
    let (peer, keys) = (KeyPair::from_seed([101; 32]), KeyPair::from_seed([66; 32]));
    let signer = ClientSigner::signature(keys.clone(), cluster.membership.group_domain());
    let requests = vec![Request { number: 1, operation: Bytes::from_static(b"once") }];
    let draft = Draft { client: keys.client_id(), floor: 0, events: None, requests };
    let envelope = signer.seal(draft);
    (cluster, peer, keys, envelope)
}

/// Who has a member's identity key, and not the one by which it signs, opens channels and convinces
/// nobody over them.
#[test]
fn who_has_an_identity_key_alone_says_nothing_as_a_member() {
    let (cluster, peer, _, envelope) = with_lying_peer();
    let forward = forwarded(&cluster, &peer, envelope, false);
    let (mut stream, mut channel) = open(&cluster, &peer);
    send(&mut stream, &mut channel, &Hello::Node(Node::Member(MemberId(1))).to_bytes());
    send(&mut stream, &mut channel, &forward);
    let other = welcome(&cluster, &channel, &KeyPair::from_seed([7; 32]));
    send(&mut stream, &mut channel, &other);
    send(&mut stream, &mut channel, &forward);
    let client = Client::connect(cluster.client_config(1, 1)).unwrap();
    let came = |status: &Json, kind: &str| status.count(&format!("/messages/{kind}/messages_in"));
    cluster.await_status(&client, 0, |status| came(status, "unconvincing") == 2);
    let own = welcome(&cluster, &channel, &peer);
    send(&mut stream, &mut channel, &own);
    send(&mut stream, &mut channel, &forward);
    cluster.await_status(&client, 0, |status| {
        came(status, "unconvincing") == 2 && came(status, "message") == 1
    });
    cluster.stop();
}

/// Of a peer that says what is not authentic nothing else is looked at, however much of it came,
/// and what it says later is not read at once.
#[test]
fn who_forges_is_not_listened_to() {
    let (cluster, peer, _, envelope) = with_lying_peer();
    let forged = forwarded(&cluster, &peer, envelope, true);
    let (mut stream, mut channel) = intrude(&cluster, &peer, Node::Member(MemberId(1)));
    send_all(&mut stream, &mut channel, &vec![&forged[..]; 1_000]);
    let client = Client::connect(cluster.client_config(1, 1)).unwrap();
    let refused = |status: &Json| status.count("/rejects/bad_auth");
    cluster.await_status(&client, 0, |status| refused(status) > 0);
    let result = client.submit("still there?").wait_timeout(PATIENCE);
    assert_eq!(result, Ok(answer(1, b"still there?")));
    cluster.await_status(&client, 0, |status| {
        assert_eq!(refused(status), 1, "of a thousand that came together");
        true
    });
    cluster.stop();
}

/// Who passes on again and again what was answered long ago draws no answers.
#[test]
fn what_a_peer_passes_on_is_not_answered_to_its_client() {
    let (cluster, peer, keys, envelope) = with_lying_peer();
    let forward = forwarded(&cluster, &peer, envelope.clone(), false);
    let request = ToReplica::Request(Arc::new(envelope)).to_bytes();
    let (mut stream, mut channel) = intrude(&cluster, &keys, Node::Client(keys.client_id()));
    send(&mut stream, &mut channel, &request);
    let client = Client::connect(cluster.client_config(1, 1)).unwrap();
    let replies = |status: &Json| status.count("/messages/replies/messages_out");
    let admitted = |status: &Json| status.number("/requests");
    cluster.await_status(&client, 0, |status| admitted(status) == 1 && replies(status) == 1);
    let (mut stream, mut channel) = intrude(&cluster, &peer, Node::Member(MemberId(1)));
    for _ in 0..100 {
        send(&mut stream, &mut channel, &forward);
    }
    cluster.await_status(&client, 0, |status| {
        assert_eq!((replies(status), admitted(status)), (1, 1));
        status.count("/messages/message/messages_in") == 100
    });
    cluster.stop();
}
