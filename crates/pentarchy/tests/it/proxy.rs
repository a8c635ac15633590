//! The calls of BFT-SMaRt over real sockets, with replies that differ from replica to replica.

use pentarchy::{
    Bytes, ClientId, Comparator, Context, Extractor, Kind, LocalCluster, Malformed, ReplicaId,
    Replier, ReplyListener, RequestError, Service, ServiceProxy, SmallService, Whole,
};
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers with the operation, as often as was ordered anything but what ends with `?`, which
/// changes nothing. If `seals`, each replica adds eight bytes of its own.
struct Echo {
    ordered: u8,
    seals: bool,
}

impl SmallService for Echo {
    fn execute(&mut self, _: &Context, operation: &[u8]) -> Vec<u8> {
        self.ordered += u8::from(!operation.ends_with(b"?"));
        self.query(operation)
    }
    fn query(&self, operation: &[u8]) -> Vec<u8> {
        operation.repeat(usize::from(self.ordered))
    }
    fn replier(&self) -> Option<Box<dyn Replier>> {
        let own = pentarchy::KeyPair::generate().public();
        self.seals.then(|| Box::new(Seal(own)) as Box<dyn Replier>)
    }
    fn save(&self) -> Vec<u8> {
        vec![self.ordered]
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.ordered = *bytes.first().ok_or(Malformed)?;
        Ok(())
    }
}

struct Seal([u8; 32]);

impl Replier for Seal {
    fn reply(&mut self, _: &ClientId, _: u64, result: &Bytes) -> Bytes {
        [&result[..], &self.0[..8]].concat().into()
    }
}

struct ButForSeals;

impl Comparator for ButForSeals {
    fn same(&self, one: &[u8], other: &[u8]) -> bool {
        one.len() >= 8 && one.len() == other.len() && one[..one.len() - 8] == other[..one.len() - 8]
    }
}

/// The result, and how many seals that differ there are.
struct CountSeals;

impl Extractor for CountSeals {
    fn extract(&self, same: &[(ReplicaId, Bytes)]) -> Bytes {
        let seal = |(_, reply): &(ReplicaId, Bytes)| reply[reply.len() - 8..].to_vec();
        let seals: std::collections::BTreeSet<Vec<u8>> = same.iter().map(seal).collect();
        let reply = &same[0].1;
        [&reply[..reply.len() - 8], seals.len().to_string().as_bytes()].concat().into()
    }
}

enum Heard {
    Reply(ReplicaId, Bytes),
    Done(Result<Bytes, RequestError>),
}

struct Listener(Sender<Heard>);

impl ReplyListener for Listener {
    fn reply(&mut self, from: ReplicaId, reply: &Bytes) {
        self.0.send(Heard::Reply(from, reply.clone())).expect("the test waits");
    }
    fn done(&mut self, result: Result<Bytes, RequestError>) {
        self.0.send(Heard::Done(result)).expect("the test waits");
    }
}

fn start(protocol: &Descriptor, seals: bool) -> LocalCluster {
    let echo = || Box::new(Whole::new(Echo { ordered: 0, seals })) as Box<dyn Service>;
    LocalCluster::builder().protocol(protocol.rules.name).start(echo).expect("a cluster starts")
}

#[test]
fn replies_that_differ_are_judged_by_a_comparator_and_joined_by_an_extractor() {
    let mut cluster = start(DEFAULT, true);
    let client = cluster.client().expect("a client starts");
    let plain = ServiceProxy::new(client.clone()).waiting(Duration::from_millis(500));
    assert_eq!(plain.ordered("a"), Err(RequestError::TimedOut), "no two replies are equal");
    let proxy = ServiceProxy::new(client)
        .comparing(Arc::new(ButForSeals))
        .extracting(Arc::new(CountSeals))
        .waiting(PATIENCE);
    assert_eq!(proxy.ordered("b").expect("f + 1 replies"), "bb2");
    // If an answer is late, it is ordered, and as many replies are enough as for a request.
    let read = proxy.unordered("c?").expect("all answers, or f + 1 replies");
    assert!(read == "c?c?3" || read == "c?c?2", "{read:?}");
    cluster.kill(0).expect("it runs");
    assert_eq!(proxy.ordered("d").expect("f + 1 replies"), "ddd2");
    assert_eq!(proxy.unordered("e?").expect("it is ordered after all"), "e?e?e?2");
}

#[test]
fn a_listener_is_told_each_reply_and_the_end_also_of_what_is_cancelled() {
    let mut cluster = start(DEFAULT, false);
    let proxy = ServiceProxy::new(cluster.client().expect("a client starts"));
    let (heard, hears) = channel();
    // Long enough that one replica tells it and the others its digest, unless they are asked again.
    let long = "x".repeat(4_000);
    proxy.asynchronous(long.clone(), Kind::Ordered, Listener(heard.clone()));
    let mut told = Vec::new();
    let result = loop {
        match hears.recv_timeout(PATIENCE).expect("a word") {
            Heard::Reply(from, reply) => {
                assert_eq!(reply, long);
                told.push(from);
            }
            Heard::Done(result) => break result,
        }
    };
    assert_eq!(result.expect("a result"), long);
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), 2, "each replica is told once, up to f + 1: {told:?}");

    cluster.kill(0).expect("it runs");
    cluster.kill(1).expect("it runs");
    let id = proxy.asynchronous("never", Kind::Ordered, Listener(heard));
    assert!(hears.recv_timeout(Duration::from_millis(300)).is_err(), "no quorum is left");
    proxy.cancel(id);
    let end = hears.recv_timeout(PATIENCE).expect("the end");
    assert!(matches!(end, Heard::Done(Err(RequestError::Cancelled))));
    assert!(hears.recv_timeout(Duration::from_millis(300)).is_err(), "told once");
}

#[test]
fn a_protocol_that_judges_replies_itself_says_so() {
    let cluster = start(EXAMPLES.speculative, true);
    let proxy = ServiceProxy::new(cluster.client().expect("a client starts"));
    assert_eq!(proxy.ordered("a").expect("replicas tell the result alone"), "a");
    let (heard, hears) = channel();
    proxy.asynchronous("b", Kind::Unordered, Listener(heard));
    assert!(matches!(hears.recv_timeout(PATIENCE), Ok(Heard::Done(Ok(_)))));
    let judging = proxy.comparing(Arc::new(ButForSeals));
    assert_eq!(judging.ordered("c"), Err(RequestError::JudgedByProtocol));
}
