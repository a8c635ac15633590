//! What the session does when the replicas are silent or refuse.

use super::state::{UPDATE_BYTES, UPDATE_TOKENS, take_some};
use super::*;
use crate::resp::backend::EventSink;
use pentarchy_services::kv::session::LEASE_MILLIS;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Leaves it to the test to answer.
#[derive(Clone)]
struct Held(Sender<(Bytes, Completion)>);

impl Backend for Held {
    fn submit(&self, operation: Bytes, _: Duration, done: Completion) {
        self.0.send((operation, done)).expect("the test waits");
    }
    fn on_event(&self, _sink: EventSink) {}
}

type Waiting = Receiver<(Bytes, Completion)>;

fn hub() -> (Arc<Hub<Held>>, Waiting) {
    let (sender, waiting) = channel();
    (Hub::new(Held(sender), UNCERTAIN), waiting)
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

#[test]
fn tokens_that_are_repeated_do_not_keep_out_others() {
    let until = Instant::now();
    let mut all: Forgotten = (1..=3 * UPDATE_TOKENS as u64).map(|token| (token, until)).collect();
    let (mut seen, mut up_to) = (BTreeSet::new(), 0);
    for _ in 0..3 {
        let taken = take_some(&mut all, &mut up_to);
        assert_eq!(taken.len(), UPDATE_TOKENS);
        seen.extend(taken.keys().copied());
        // All of them have to be repeated.
        all.extend(taken);
    }
    assert_eq!(seen.len(), 3 * UPDATE_TOKENS);
    assert!(take_some(&mut all, &mut up_to).contains_key(&1));
}

#[test]
fn what_came_for_an_earlier_session_is_nobodys() {
    let (hub, waiting) = hub();
    let inbox = inbox();
    let number = inbox.begin();
    let share = crate::resp::budget::Budget::new(1, 1).try_take(0).unwrap();
    let ticket = Ticket { inbox: inbox.clone(), number };
    let token = hub.block(Command::new(&["BLPOP", "q", "0"]), ticket, share);
    waiting.try_recv().unwrap().1.complete(answer(&Reply::Int(7)));
    waiting.try_recv().unwrap().1.complete(Ok(Bytes::from_static(&[1])));
    assert_eq!(inbox.outcome(), Some(Outcome::Waits));
    let served = |instance: u64| {
        let reply = Reply::Int(1).encode();
        let mut body = vec![1];
        body.extend(instance.to_le_bytes());
        body.extend(token.to_le_bytes());
        body.extend(u32::try_from(reply.len()).unwrap().to_le_bytes());
        body.extend(reply);
        hub.on_event(GatewayEvent::Event(body.into()));
    };
    served(6);
    assert_eq!(inbox.outcome(), None);
    served(7);
    assert!(matches!(inbox.outcome(), Some(Outcome::Result(Ok(_)))));
}

#[test]
fn a_command_whose_reply_was_forgotten_is_to_wait_no_more() {
    for (error, forgotten) in [(BackendError::Forgotten, true), (BackendError::Busy, false)] {
        let (hub, waiting) = hub();
        let inbox = inbox();
        let number = inbox.begin();
        let share = crate::resp::budget::Budget::new(1, 1).try_take(0).unwrap();
        let ticket = Ticket { inbox, number };
        let token = hub.block(Command::new(&["BLPOP", "q", "0"]), ticket, share);
        waiting.try_recv().unwrap().1.complete(answer(&Reply::Int(7)));
        waiting.try_recv().unwrap().1.complete(Err(error));
        assert_eq!(hub.lock().forget_waiters.contains_key(&token), forgotten);
    }
}

/// What the client of a waiting command is told if an operation for the command fails: the one
/// that opens the session (0), the command (1) or its cancel (2).
fn told(failing: usize, error: BackendError) -> Option<Outcome> {
    let (hub, waiting) = hub();
    let inbox = inbox();
    let share = crate::resp::budget::Budget::new(1, 1).try_take(0).unwrap();
    let ticket = Ticket { inbox: inbox.clone(), number: inbox.begin() };
    let token = hub.block(Command::new(&["BLPOP", "q", "0"]), ticket, share);
    let good = [answer(&Reply::Int(7)), Ok(Bytes::from_static(&[1]))];
    for result in good.into_iter().take(failing) {
        waiting.try_recv().unwrap().1.complete(result);
    }
    if failing == 2 {
        assert_eq!(inbox.outcome(), Some(Outcome::Waits));
        hub.cancel(token);
    }
    waiting.try_recv().unwrap().1.complete(Err(error));
    inbox.outcome()
}

#[test]
fn who_waits_is_told_what_came_of_the_command_and_not_of_its_cancel() {
    use BackendError::{Busy, Closed, Forgotten, GivenUp, Overtaken, TimedOut};
    let result = |error| Some(Outcome::Result(Err(error)));
    let may_take = Some(Outcome::Refused(MAY_TAKE));
    // The command was never sent.
    assert_eq!(told(0, TimedOut), result(GivenUp));
    assert_eq!(told(0, GivenUp), result(GivenUp));
    assert_eq!(told(1, TimedOut), may_take);
    assert_eq!(told(1, GivenUp), result(GivenUp));
    assert_eq!(told(1, Busy), result(Busy));
    // The command was executed and waits.
    for error in [TimedOut, GivenUp, Busy, Forgotten] {
        assert_eq!(told(2, error), may_take, "{error:?}");
    }
    for error in [Overtaken, Closed] {
        assert_eq!(told(2, error), result(error));
    }
}

#[test]
fn a_watch_that_comes_after_it_was_given_up_is_forgotten() {
    let (hub, waiting) = hub();
    let inbox = inbox();
    let ticket = |number| Ticket { inbox: inbox.clone(), number };
    hub.start();
    waiting.try_recv().unwrap().1.complete(answer(&Reply::Int(7)));
    let share = crate::resp::budget::Budget::new(1, 1).try_take(0).unwrap();
    hub.watch(1, vec![Bytes::from_static(b"a")], ticket(inbox.begin()), share);
    let (_, late) = waiting.try_recv().unwrap();
    hub.unwatch(1, ticket(inbox.begin()));
    waiting.try_recv().unwrap().1.complete(answer(&Reply::Ok));
    late.complete(answer(&Reply::Ok));
    assert!(hub.lock().forget_watches.contains_key(&1));
}

/// Answers what opens a session and what waits, and fails every cancel at once.
#[derive(Clone)]
struct Overtaken(Arc<std::sync::atomic::AtomicBool>);

impl Backend for Overtaken {
    fn submit(&self, operation: Bytes, _: Duration, done: Completion) {
        let is_open = operation == Request::Open.to_operation(0);
        done.complete(match self.0.load(std::sync::atomic::Ordering::Relaxed) {
            true => Err(BackendError::Overtaken),
            false if is_open => answer(&Reply::Int(7)),
            false => Ok(Bytes::from_static(&[1])),
        });
    }
    fn on_event(&self, _sink: EventSink) {}
}

#[test]
fn a_backlog_of_cancels_that_fail_at_once_needs_no_deep_stack() {
    const WAITING: usize = 20_000;
    let overtaken = Overtaken(Arc::default());
    let (switch, hub) = (overtaken.0.clone(), Hub::new(overtaken, UNCERTAIN));
    let inbox = inbox();
    let tokens: Vec<u64> = (0..WAITING)
        .map(|_| {
            let share = crate::resp::budget::Budget::new(1, 1).try_take(0).unwrap();
            let ticket = Ticket { inbox: inbox.clone(), number: inbox.begin() };
            hub.block(Command::new(&["BLPOP", "q", "0"]), ticket, share)
        })
        .collect();
    hub.lock().cancelling = CANCELS;
    tokens.iter().for_each(|token| hub.cancel(*token));
    switch.store(true, std::sync::atomic::Ordering::Relaxed);
    let cancelled = hub.clone();
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let thread = small.spawn(move || {
        let mut state = cancelled.lock();
        state.cancelling = 0;
        cancelled.cancel_more(state);
    });
    thread.expect("a thread").join().expect("it ends");
    let state = hub.lock();
    assert!(state.waiters.is_empty() && state.cancels.is_empty() && state.cancelling == 0);
}
