//! What the session does when the replicas are silent or refuse.

use super::*;
use crate::resp::backend::EventSink;
use pentarchy_services::kv::session::LEASE_MILLIS;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Leaves it to the test to answer.
#[derive(Clone)]
struct Held(Sender<(Bytes, Completion)>);

impl Backend for Held {
    fn submit(&self, operation: Bytes, done: Completion) {
        self.0.send((operation, done)).expect("the test waits");
    }
    fn on_event(&self, _sink: EventSink) {}
}

type Waiting = Receiver<(Bytes, Completion)>;

fn hub() -> (Arc<Hub<Held>>, Waiting) {
    let (sender, waiting) = channel();
    (Hub::new(Held(sender)), waiting)
}

/// A session's result that is this reply.
fn answer(reply: &Reply) -> Result<Bytes, BackendError> {
    Ok([&[0], &reply.encode()[..]].concat().into())
}

fn inbox() -> Arc<Inbox> {
    Arc::new(Inbox::new(1000))
}

fn subscribe(hub: &Arc<Hub<Held>>, id: u64, name: &'static str) -> Arc<Inbox> {
    let inbox = inbox();
    let change = (Topic::Channel, Bytes::from_static(name.as_bytes()), true);
    hub.subscribe(id, &[change], None, &inbox);
    inbox
}

#[test]
fn who_is_subscribed_is_told_when_the_lease_is_over_unrenewed() {
    let (hub, waiting) = hub();
    let inbox = subscribe(&hub, 1, "c");
    waiting.try_recv().unwrap().1.complete(answer(&Reply::Int(1)));
    waiting.try_recv().unwrap().1.complete(answer(&Reply::Ok));
    let renewed = Instant::now();
    hub.tick_at(renewed + Duration::from_millis(LEASE_MILLIS / 2));
    waiting.try_recv().unwrap().1.complete(Err(BackendError::TimedOut));
    assert_eq!(inbox.closing(), None);
    hub.tick_at(renewed + Duration::from_millis(LEASE_MILLIS + 2));
    assert_eq!(inbox.closing(), Some(Closing::Lost));
}

#[test]
fn only_those_whose_new_names_are_refused_are_closed() {
    let (hub, waiting) = hub();
    let first = subscribe(&hub, 1, "known");
    waiting.try_recv().unwrap().1.complete(answer(&Reply::Int(1)));
    waiting.try_recv().unwrap().1.complete(answer(&Reply::Ok));
    let second = subscribe(&hub, 2, "known");
    let (_, done) = waiting.try_recv().unwrap();
    let third = subscribe(&hub, 3, "new");
    done.complete(answer(&Reply::Ok));
    let (_, done) = waiting.try_recv().unwrap();
    done.complete(answer(&Reply::from(&pentarchy_services::kv::Error::other("too much"))));
    assert_eq!((first.closing(), second.closing()), (None, None));
    assert_eq!(third.closing(), Some(Closing::Refused));
    // What cannot succeed is not tried again and again.
    assert!(waiting.try_recv().is_err());
}

#[test]
fn an_update_fits_an_operation_whatever_the_names() {
    let (hub, waiting) = hub();
    let inbox = inbox();
    let name = |index: u8| (Topic::Channel, Bytes::from(vec![index; 64 << 10]), true);
    let changes: Vec<_> = (0..20).map(name).collect();
    hub.subscribe(1, &changes, None, &inbox);
    waiting.try_recv().unwrap().1.complete(answer(&Reply::Int(1)));
    let mut updates = 0;
    while let Ok((operation, done)) = waiting.try_recv() {
        assert!(operation.len() <= UPDATE_BYTES + 1000, "{}", operation.len());
        done.complete(answer(&Reply::Ok));
        updates += 1;
    }
    assert_eq!(updates, 7);
}
